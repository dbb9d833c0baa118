"""The report of papers/titov_henderson2007: figures of the paper and of the package."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from training.common.report import p_value, shown, table, write_sections

Figures = Mapping[str, Any]

# Table 1: recall, precision and F1 on the Wall Street Journal.
TABLE1 = {
    "Bikel 2004": (87.9, 88.8, 88.3),
    "Taskar et al. 2004": (89.1, 89.1, 89.1),
    "NN method": (89.1, 89.2, 89.1),
    "Turian & Melamed 2006": (89.3, 89.6, 89.4),
    "MF method": (89.3, 90.7, 90.0),
    "Charniak 2000": (90.0, 90.2, 90.1),
}
ROWS = {
    "nn": "feed-forward approximation",
    "mf": "mean-field approximation",
    "paper.nn": "feed-forward, trained as in the paper",
    "paper.mf": "mean-field, trained as in the paper",
    "rows.xbar": "X-bar grammar",
    "rows.treebank": "treebank grammar",
    "rows.split_merge": "one split-merge grammar",
    "rows.product4": "four split-merge grammars",
    "rows.span_features": "four grammars with span features",
    "jackknifed.nn": "feed-forward, trained on a tagger's tags",
    "jackknifed.mf": "mean-field, trained on a tagger's tags",
}
NAMES = {"nn": "feed-forward", "mf": "mean field"}
PARTS = {"ewt": "dev", "wsj": "test"}
MODELS = {
    "nn": "feed-forward",
    "mf": "mean field",
    "nn_mf": "both",
}
TAGS = {"": "tagger's tags", "gold_tags.": "gold tags", "own_tags.": "parser's tags"}
SCORES = ("recall", "precision", "f1", "exact")
# Accuracies and reductions of section 6.1.
ARTIFICIAL = {
    "unigram.acc": ("unigram model, accuracy", "77.4"),
    "nn.acc": ("feed-forward approximation, accuracy", "80.5"),
    "mf.acc": ("mean-field approximation, accuracy", "81.0"),
    "gibbs.acc": ("Gibbs sampling from the true network, accuracy", "82.3"),
    "nn_error_reduction": ("reduction of errors above the sampler's, unigram to nn", "> 60"),
    "mf_over_nn_error_reduction": ("reduction of errors above the sampler's, nn to mf", "27"),
    "mf_wins": ("experiments in which mf is better, of ten", "9"),
    "mf_significant": ("of these, significant by McNemar's test", "8"),
}
# Errors above the sampler's.
BOUND = {
    "search_error": "search with the true network",
    "estimation_error": "learning, with exact probabilities, from the true weights",
    "{}_approximation_error": "approximation, from the true weights",
    "{}_optimum_error": "local optima, from random weights",
}
REACHABLE = {
    "mf_over_nn_error_reduction": "mean field, as above",
    "bound.exact_learned_over_nn_error_reduction": "exact probabilities, from random weights",
    "bound.mf_over_nn_error_reduction": "mean field, without local optima",
    "bound.exact_over_nn_error_reduction": "exact probabilities, without local optima",
    "bound.search_over_nn_error_reduction": "the true network",
}
UPDATES = {
    "nn.": "feed-forward approximation",
    "mf.": "incremental mean field (eq. 8), as above",
    "": "mean field of all decisions of a state (eq. 7)",
}
HEAD = """\
# Titov & Henderson (2007)

Made by training/papers/titov_henderson2007. Incremental sigmoid belief networks over left-corner
derivations, with two approximations: feed-forward (NN in the paper) and incremental mean field
(MF)."""
READINGS = """\
## Interpretation of the paper

* The paper uses the sentences of at most 15 words of the Wall Street Journal, 9,753 for training.
  Those of the English Web Treebank have half as many words, from blogs, mail, reviews and
  questions. Those of NLTK's sample of the Journal have a twelfth, and there are 48 test sentences.
* The paper does not mention tags. The parser that it extends (Henderson 2003) has tags as input,
  and so have ours: on EWT from a tagger that has not seen the sentences, on the sample gold tags,
  because we have no tagger trained on the Journal. Networks are trained on gold tags.
* Equation 4 has a matrix B for each relation. Ours are of the last decision, the top of the stack,
  the last word, and the leftmost word below the top. States and decisions have biases, which the
  equations do not have.
* Means are found by Newton's method instead of line searches along single coordinates. This is why
  mean field costs only a few times as much as feed-forward.
* The same seed gives other figures on another processor, because sums are rounded differently.
* "Trained as in the paper": stochastic gradients of single sentences; learning rate and weight
  decay are halved whenever F1 decreases on held-out sentences, here a twentieth of the training
  sentences; unknown words are one item per tag. The training of the package needs no held-out
  sentences. It lowers the learning rate linearly, uses dropout and averaged weights, and
  distinguishes unknown words by their form. Settings are chosen on tuning documents, or on dev of
  the sample.
* The paper does not describe its significance test. Here, p is from the two-sided paired bootstrap
  over sentences with 10,000 samples.
* The times of the paper are from a desktop of 2007, on other sentences: 140 hours and 3 hours of
  training, and 3 and 0.05 seconds per token."""


def write(results: Path, name: str) -> None:
    """Write the report of results/NAME.json."""
    write_sections(results, name, HEAD, SECTIONS)


def artificial(figures: Figures) -> Iterator[str]:
    """Write section 6.1."""
    rows = [
        (text, paper, _with_error(figures, key))
        for key, (text, paper) in ARTIFICIAL.items()
        if f"artificial.{key}" in figures
    ]
    if rows:
        number = figures.get("artificial.n_experiments", "ten")
        yield from ("", "## Section 6.1: sequences of random networks", "")
        yield f"Means over {number} experiments, in percent, with standard errors of the means."
        yield from table(("", "paper", "ours"), rows)
    if "artificial.bound.search_error" in figures:
        yield from ("", "Errors above the sampler's, in percent of elements:")
        rows = [
            (text, *(_with_error(figures, f"bound.{key.format(means)}") for means in NAMES))
            for key, text in BOUND.items()
        ]
        yield from table(("added by", *NAMES.values()), rows)
        yield from ("", "Reduction of the feed-forward approximation's errors above the sampler's,")
        yield "in percent, with the same search:"
        rows = [
            (text, _with_error(figures, key), shown(figures, f"artificial.{key}_of_means"))
            for key, text in REACHABLE.items()
        ]
        yield from table(("", "mean of reductions", "reduction of means"), rows)
    if "artificial.full_updates.acc" in figures:
        yield from ("", "One network of each kind, in the first experiments:")
        rows = [
            (text, _with_error(figures, f"full_updates.{key}acc")) for key, text in UPDATES.items()
        ]
        yield from table(("", "accuracy"), rows)


def _with_error(figures: Figures, key: str) -> str:
    """Format a mean of section 6.1 with its standard error, if it has one."""
    error = shown(figures, f"artificial.se.{key}")
    return shown(figures, f"artificial.{key}") + (f" ± {error}" if error else "")


def table1(figures: Figures) -> Iterator[str]:
    """Write section 6.2."""
    rows = [
        (name, *(f"{value:.1f}" for value in values), *[""] * 5) for name, values in TABLE1.items()
    ]
    found = False
    for key, text in ROWS.items():
        cells = [shown(figures, f"ewt15.{key}.{score}") for score in SCORES]
        cells.append(_of_seeds(figures, key) or shown(figures, f"wsj15.{key}.f1"))
        if any(cells):
            found = True
            rows.append((text, "", "", "", *cells))
    if not found:
        return
    yield from ("", "## Table 1: sentences of at most 15 words")
    n = {name: figures.get(f"{name}15.sentences.{PARTS[name]}") for name in PARTS}
    if None not in n.values():
        yield ""
        yield f"EWT dev has {n['ewt']:,} such sentences and the WSJ sample's test {n['wsj']}. A gap"
        yield "on the sample is noise unless it is several standard deviations of seeds (sd)."
    header = ("", *(f"{place}: {score}" for place, score in _columns()))
    yield from table(header, rows)
    for corpus, text in (("ewt15", "EWT"), ("wsj15", "the sample")):
        yield from _differences(figures, corpus, text)


def _columns() -> list[tuple[str, str]]:
    short = {"recall": "R", "precision": "P", "f1": "F1", "exact": "exact match"}
    return [
        *(("paper", short[score]) for score in SCORES[:3]),
        *(("EWT dev", short[score]) for score in SCORES),
        ("WSJ sample test", "F1"),
    ]


def _of_seeds(figures: Figures, name: str) -> str:
    """Format the mean F1 on the WSJ sample, with the standard deviation; "" without seeds."""
    mean, sd = (shown(figures, f"wsj15.seeds.{name}.{key}_f1") for key in ("mean", "sd"))
    return f"{mean} (sd {sd})" if mean else ""


def _differences(figures: Figures, prefix: str, text: str) -> Iterator[str]:
    p = figures.get(f"{prefix}.mf_nn_p")
    if p is not None:
        ahead = figures[f"{prefix}.mf_minus_nn_f1"]
        less = figures[f"{prefix}.mf_over_nn_error_reduction"]
        yield ""
        yield f"On {text}, mean field minus feed-forward is {ahead:+.2f} points of F1, or"
        yield f"{less:+.1f} % of the error of feed-forward (p {p_value(p)}). In the paper, it is"
        yield "+0.9 points and 8 %."
        mean, wins = (figures.get(f"{prefix}.seeds.{key}") for key in ("mf_minus_nn_f1", "mf_wins"))
        if mean is not None:
            n = len(figures[f"{prefix}.seeds.nn.f1"])
            yield f"This is one seed. Over {n} seeds, it is {mean:+.2f}, and above 0 with {wins}."


def tags(figures: Figures) -> Iterator[str]:
    """Write figures by the source of tags."""
    rows = []
    for key, text in ROWS.items():
        cells = [
            (prefix == "wsj15" and kind == "gold_tags." and _of_seeds(figures, key))
            or shown(figures, f"{prefix}.{key}.{kind}f1")
            for prefix, kinds in (("ewt15", TAGS), ("wsj15", ("gold_tags.", "own_tags.")))
            for kind in kinds
        ]
        if any(cells):
            rows.append((text, *cells))
    if not rows:
        return
    yield from ("", "## Sources of tags")
    if any(_of_seeds(figures, name) for name in NAMES):
        yield from (
            "",
            "With a standard deviation (sd), a figure is the mean over seeds, as in table 1.",
        )
        yield "All others are of one seed."
    header = (
        "F1",
        *(f"EWT dev, {text}" for text in TAGS.values()),
        "WSJ sample test, gold tags",
        "parser's tags",
    )
    yield from table(header, rows)
    accuracy = shown(figures, "ewt15.tagger.dev_accuracy")
    if accuracy:
        yield from ("", f"The accuracy of the tagger on the sentences of dev is {accuracy}.")


def choices(figures: Figures) -> Iterator[str]:
    """Write the selection of settings, and other seeds."""
    rows = []
    for corpus, split in (("ewt15", "tune"), ("wsj15", "dev")):
        for name, text in NAMES.items():
            prefix = f"{corpus}.{name}.candidates."
            for key in _below(figures, prefix):
                mark = "chosen" if figures.get(f"{corpus}.{name}.chosen") == key else ""
                f1 = shown(figures, f"{prefix}{key}.{split}_f1")
                place = "EWT tune" if split == "tune" else "WSJ sample dev"
                rows.append((f"{place}, {text}", key.replace("_", " "), f1, mark))
    if rows:
        yield from ("", "## Selection of settings")
        yield from table(("", "settings", "F1", ""), rows)
    for corpus, part in (("ewt15", "EWT dev"), ("wsj15", "the WSJ sample's test")):
        found = [name for name in NAMES if f"{corpus}.seeds.{name}.mean_f1" in figures]
        if found:
            yield ""
        for name in found:
            mean = shown(figures, f"{corpus}.seeds.{name}.mean_f1")
            sd = shown(figures, f"{corpus}.seeds.{name}.sd_f1")
            n = len(figures.get(f"{corpus}.seeds.{name}.f1", ()))
            yield f"* {n} seeds, {NAMES[name]}: mean F1 on {part} {mean}, standard deviation {sd}"
        wins = figures.get(f"{corpus}.seeds.mf_wins")
        if wins is not None:
            yield f"* Mean field is ahead with {wins} of these seeds on {part}."


def rerank(figures: Figures) -> Iterator[str]:
    """Write figures of reranking."""
    for prefix, title in (
        ("rerank", "Reranking of four latent grammars: sentences of at most 15 words"),
        ("full.rerank", "Reranking of the default parser: sentences of all lengths"),
    ):
        rows = []
        for kind in _below(figures, f"{prefix}.lists."):
            own = f"{prefix}.lists.{kind}"
            text = TAGS[f"{kind}."] if kind != "tagger" else TAGS[""]
            rows.append(
                (
                    f"first tree of each list, {text}",
                    shown(figures, f"{own}.first.tune_f1"),
                    *(shown(figures, f"{own}.first.{score}") for score in SCORES),
                    "",
                )
            )
            for k in _below(figures, f"{own}."):
                if k != "first":
                    tune, dev = (
                        shown(figures, f"{own}.{k}.{split}oracle_f1") for split in ("tune_", "")
                    )
                    rows.append((f"oracle of {k} trees, {text}", tune, "", "", dev, "", ""))
        for name, text in MODELS.items():
            own = f"{prefix}.{name}"
            if f"{own}.f1" in figures:
                cells = [shown(figures, f"{own}.{key}") for key in ("tune_f1", *SCORES)]
                rows.append((f"reranked: {text}", *cells, _how(figures, own)))
        if rows:
            yield from ("", f"## {title}")
            header = ("", "tune: F1", "dev: R", "P", "F1", "exact match", "")
            yield from table(header, rows)
        if f"{prefix}.first_p" in figures:
            ahead, p = figures[f"{prefix}.minus_first_f1"], figures[f"{prefix}.first_p"]
            chosen = MODELS[figures[f"{prefix}.chosen"]]
            yield ""
            yield f"Chosen on the tuning documents: {chosen}. Compared with the first tree of each"
            yield f"list, F1 on dev changes by {ahead:+.2f} points (p {p_value(p)})."


def _how(figures: Figures, prefix: str) -> str:
    """Format the settings of a reranker."""
    names = _below(figures, f"{prefix}.weights.")
    weights = "".join(f"{figures[f'{prefix}.weights.{name}']:g} {name}, " for name in names)
    return f"{weights}bias {figures[f'{prefix}.bias']:g}, {figures[f'{prefix}.k']} trees"


def costs(figures: Figures) -> Iterator[str]:
    """Write CPU times."""
    rows = [
        (text, *(shown(figures, key, form) for key in keys), paper)
        for text, keys, form, paper in (
            (
                "training, CPU s",
                ("cpu.nn.train_s", "cpu.mf.train_s", "cpu.ratio.train"),
                ",.1f",
                "3 h, 140 h: 47",
            ),
            (
                "parsing, CPU ms per token",
                ("cpu.nn.ms_per_token", "cpu.mf.ms_per_token", "cpu.ratio.parse"),
                ".2f",
                "50, 3,000: 60",
            ),
            ("peak memory of training, MB", ("cpu.nn.train_mb", "cpu.mf.train_mb", ""), ",.0f", ""),
            ("weights", ("cpu.nn.weights", "cpu.mf.weights", ""), ",d", ""),
            ("size, MB", ("cpu.nn.mb", "cpu.mf.mb", ""), ".1f", ""),
            (
                "training: one thread over two",
                ("cpu.threads2.train.nn", "cpu.threads2.train.mf", ""),
                ".2f",
                "",
            ),
            (
                "parsing: one thread over two",
                ("cpu.threads2.parse.nn", "cpu.threads2.parse.mf", ""),
                ".2f",
                "",
            ),
        )
        if any(key in figures for key in keys)
    ]
    if rows:
        yield from ("", "## Costs, EWT, sentences of at most 15 words")
        yield from table(("", "feed-forward", "mean field", "ratio", "paper"), rows)


def full(figures: Figures) -> Iterator[str]:
    """Write figures on sentences of all lengths."""
    rows = [
        (
            text,
            shown(figures, f"full.{name}.tune_f1"),
            *(shown(figures, f"full.{name}.{score}") for score in SCORES),
            shown(figures, f"full.{name}.own_tags.f1"),
            shown(figures, f"full.{name}.train_s", ",.0f"),
            shown(figures, f"full.{name}.ms_per_token"),
        )
        for name, text in NAMES.items()
        if f"full.{name}.f1" in figures
    ]
    if rows:
        yield from ("", "## EWT, sentences of all lengths")
        header = (
            "",
            "tune: F1",
            "dev: R",
            "P",
            "F1",
            "exact match",
            "F1 with parser's tags",
            "training, CPU s",
            "CPU ms per token",
        )
        yield from table(header, rows)
        yield from _differences(figures, "full", "all lengths")


def beyond(figures: Figures) -> Iterator[str]:
    """Write figures of one setting at a time."""
    rows = []
    for what in _below(figures, "beyond."):
        for value in sorted(_below(figures, f"beyond.{what}."), key=_rank):
            prefix = f"beyond.{what}.{value}"
            cells = [
                shown(figures, f"{prefix}.{name}.{key}", form)
                for name in NAMES
                for key, form in (("tune_f1", ".2f"), ("ms_per_token", ".2f"), ("train_s", ",.0f"))
            ]
            rows.append((f"{what.replace('_', ' ')}: {value.replace('_', '.')}", *cells))
    if rows:
        yield from ("", "## Beyond the paper: one setting at a time, EWT tune")
        header = ("", *(f"{name}: {key}" for name in NAMES.values() for key in BEYOND))
        yield from table(header, rows)


BEYOND = ("F1", "CPU ms per token", "training, CPU s")


def _rank(value: str) -> tuple[float, str]:
    """Return a sort key: numbers by value, then names."""
    try:
        return float(value.replace("_", ".")), ""
    except ValueError:
        return float("inf"), value


def readings(figures: Figures) -> Iterator[str]:
    """Write our interpretation of the paper."""
    if figures:
        yield from ("", *READINGS.split("\n"))


def _below(figures: Figures, prefix: str) -> Sequence[str]:
    """Return the next parts of the keys with this prefix, in order."""
    keys = (key.removeprefix(prefix) for key in figures if key.startswith(prefix))
    return list(dict.fromkeys(key.split(".")[0] for key in keys))


SECTIONS = (artificial, table1, tags, choices, rerank, costs, full, beyond, readings)
