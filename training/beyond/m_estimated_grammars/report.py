"""The report of beyond/m_estimated_grammars: tables, and a plot of F1 over CPU seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import srsly

from training.common.report import error_lines, flat, pyplot_for, save_plot, shown, table

Figures = Mapping[str, Any]

CORPORA = {"wsj": "WSJ sample", "ewt": "EWT"}
BASES = {"xbar": "X-bar grammar", "latent": "split-merge grammar"}
ESTIMATES = {
    "q0": "q0 alone",
    "m_est_paper": "M-estimate, one prior for all features",
    "m_est": "M-estimate",
    "discriminative": "conditional likelihood, same features",
}
COLOURS = {"q0": "black", "m_est_paper": "tab:orange", "m_est": "tab:red"}
STARTS = {"zero": "conditional likelihood", "m_est": "the same, from the M-estimate"}
CHOSEN = {"wsj": "dev", "ewt": "tune"}  # the part for choosing settings
HEAD = """\
# M-estimated grammars

Made by training/beyond/m_estimated_grammars. Smith, Vail & Lafferty (2007) train log-linear models
without inference. They count features in the training data and use their expectations under a base
distribution q0. They describe this for PCFGs (section 4.1.2), but have figures only for HMMs. Here,
q0 is the X-bar grammar of the treebank, or a grammar after four rounds of splitting and merging.
Features are productions with parent or sibling, with words and tags at the ends of spans and at
their split, and words and suffixes next to spans. Conditional likelihood uses the same features and
the same q0. WSJ is NLTK's sample, files 0001-0159 for training, 0160-0179 as dev, 0180-0199 for the
test. F1 is by EVALB, in percent, on sentences of gold tokens without tags. CPU seconds are in
addition to those of q0, and for conditional likelihood without the grammars of other folds that
parse the training sentences."""


def write(results: Path, name: str) -> None:
    """Write the report of results/NAME.json, and its plot."""
    figures = srsly.read_json(results / f"{name}.json")
    values = flat(figures)
    lines = HEAD.split("\n")
    lines += error_lines(values, "{corpus}.latent.q0.{split}_{score}")
    for section in (scores, ratios, initialiser, sizes, templates, priors, penalties, identities):
        lines += section(figures, values)
    if plot(figures, values, results / name):
        lines += ["", "## F1 over CPU seconds", "", f"![F1 over CPU seconds]({name}.svg)"]
    (results / f"{name}.md").write_text("\n".join([*lines, ""]), encoding="utf8")


def scores(figures: Figures, values: Figures) -> Iterator[str]:
    columns = (
        ("WSJ dev", "wsj", "dev_f1", ".1f"),
        ("WSJ test", "wsj", "test_f1", ".1f"),
        ("exact", "wsj", "test_exact", ".1f"),
        ("CPU s", "wsj", "cpu_s", ",.1f"),
        ("EWT tune", "ewt", "tune_f1", ".1f"),
        ("EWT dev", "ewt", "dev_f1", ".1f"),
        ("exact", "ewt", "dev_exact", ".1f"),
        ("CPU s", "ewt", "cpu_s", ",.1f"),
    )
    for base, title in BASES.items():
        rows = [
            [
                text,
                *(
                    shown(values, f"{corpus}.{base}.{key}.{what}", form)
                    for _, corpus, what, form in columns
                ),
            ]
            for key, text in ESTIMATES.items()
        ]
        if any(cell for _, *cells in rows for cell in cells):
            yield from ("", f"## q0: {title}")
            yield from table(["", *(name for name, *_ in columns)], rows)


def ratios(figures: Figures, values: Figures) -> Iterator[str]:
    rows = [
        [
            f"{CORPORA[corpus]}, {BASES[base]}",
            shown(values, f"ratio.cpu.{corpus}.{base}.discriminative_over_m_est", ",.0f"),
            shown(values, f"ratio.cpu.{corpus}.{base}.same_f1", ",.1f"),
        ]
        for base in BASES
        for corpus in CORPORA
    ]
    if any(cell for _, *cells in rows for cell in cells):
        yield from ("", "## CPU seconds of conditional likelihood over those of the M-estimate")
        yield from table(["", "to the end", "to the F1 of the M-estimate"], rows)


def initialiser(figures: Figures, values: Figures) -> Iterator[str]:
    rows = []
    for base, title in BASES.items():
        for corpus, name in CORPORA.items():
            key = f"{corpus}.{base}.initialiser"
            cells = [
                shown(values, f"{key}.within_{near}_percent.{start}", "d")
                for near in (5, 1)
                for start in STARTS
            ]
            if any(cells):
                rows.append([f"{name}, {title}", *cells])
    if rows:
        yield from ("", "## Iterations of L-BFGS from 0 and from the M-estimate", "")
        yield "Until the difference from the final objective is less than this share of the"
        yield "decrease after the first iteration from 0."
        saved = [value for key, value in values.items() if key.endswith("_percent.saved")]
        if saved:
            yield "The paper expects that the M-estimate may save iterations. Here, it saves at"
            yield f"most {max(saved)}, and costs up to {max(0, -min(saved))} more."
        near = [f"{n} %, {start}" for n in (5, 1) for start in ("from 0", "from the M-estimate")]
        yield from table(["", *near], rows)


def sizes(figures: Figures, values: Figures) -> Iterator[str]:
    found = sorted(figures.get("sizes", {}), key=int)
    if found:
        yield from ("", "## Fewer sentences of WSJ, X-bar grammar, F1 on dev")
        rows = [
            [
                f"{int(size):,}",
                *(
                    shown(values, f"sizes.{size}.{key}.dev_f1", ".1f")
                    for key in ("q0", "m_est", "discriminative")
                ),
            ]
            for size in found
        ]
        yield from table(["sentences", "q0", "M-estimate", "conditional likelihood"], rows)


def templates(figures: Figures, values: Figures) -> Iterator[str]:
    own = figures.get("templates", {})
    groups = [name for name, row in own.items() if isinstance(row, dict) and "groups" not in row]
    if not groups:
        return
    yield from ("", "## One group of templates at a time: WSJ dev, X-bar grammar")
    best_first = sorted(groups, key=lambda name: -own[name]["m_est_f1"])
    kinds = ("m_est", "discriminative")
    rows = [
        [name.replace("_", " "), *(f"{own[name][f'{kind}_f1']:.1f}" for kind in kinds)]
        for name in best_first
    ]
    yield from table(["templates", "M-estimate", "conditional likelihood"], rows)
    if "spearman" in own:
        yield from ("", f"Spearman's correlation of the two columns: {own['spearman']:.2f}.")
    rows = [
        [
            f"by {ESTIMATES[kind].split(',')[0]}",
            ", ".join(name.replace("_", " ") for name in row["groups"]),
            f"{row['cpu_s']:,.0f}",
            f"{row['discriminative_f1']:.1f}",
        ]
        for kind in kinds
        if (row := own.get(f"chosen_by_{kind}"))
    ]
    if rows:
        header = ["best three groups", "", "CPU s", "F1 by conditional likelihood"]
        yield from table(header, rows)


def priors(figures: Figures, values: Figures) -> Iterator[str]:
    """Write the best variance for each power of the frequency by which variances are divided."""
    rows = []
    for base, title in BASES.items():
        for corpus, name in CORPORA.items():
            grid = figures.get(corpus, {}).get(base, {}).get("grid", [])
            what = f"{CHOSEN[corpus]}_f1"
            for scaling in sorted({row["scaling"] for row in grid}):
                best = max((r for r in grid if r["scaling"] == scaling), key=lambda r: r[what])
                rows.append(
                    [f"{name}, {title}", f"{scaling:g}", f"{best['c']:g}", f"{best[what]:.1f}"]
                )
    if rows:
        yield from ("", "## Priors of the M-estimate", "")
        yield "If a feature occurs m times per tree on average, the prior variance of its weight is"
        yield "c / m^scaling. The paper's scaling is 0. F1 is on WSJ dev, or on the tuning"
        yield "documents of EWT, with the best c for each scaling."
        yield from table(["", "scaling", "c", "F1"], rows)


def penalties(figures: Figures, values: Figures) -> Iterator[str]:
    own = {base: figures.get("wsj", {}).get(base, {}).get("penalties", []) for base in BASES}
    if any(own.values()):
        yield from ("", "## Penalties of conditional likelihood: WSJ, F1 on dev")
        rows = [
            [title, f"{row['l2']:g}", f"{row['dev_f1']:.1f}"]
            for base, title in BASES.items()
            for row in own[base]
        ]
        yield from table(["q0", "l2", "F1"], rows)


def identities(figures: Figures, values: Figures) -> Iterator[str]:
    keys = ("log10_max", "single_precision.log10_max", "log10_inside_max")
    rows = [
        [
            name,
            f"{values[f'identities.{corpus}.rules']:,d}",
            *(f"{10 ** values[f'identities.{corpus}.{key}_abs_difference']:.0e}" for key in keys),
        ]
        for corpus, name in CORPORA.items()
        if f"identities.{corpus}.rules" in values
    ]
    if rows:
        yield from ("", "## Expectations of the treebank grammar minus counts in the treebank", "")
        yield "Largest difference of numbers of productions and symbols in a tree, with relative"
        yield "frequencies in double precision and as stored; and of inside quantities from 1."
        header = ["", "productions", "double precision", "single precision", "inside"]
        yield from table(header, rows)


def plot(figures: Figures, values: Figures, path: Path) -> bool:
    """Plot F1 over CPU seconds on dev and EWT's tuning documents. Return False without figures."""
    panels = [
        (corpus, base)
        for base in BASES
        for corpus in CORPORA
        if CHOSEN[corpus] in figures.get(corpus, {}).get(base, {}).get("curve", {})
    ]
    if not panels:
        return False
    pyplot = pyplot_for(path)
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(5 * len(panels), 4.5), layout="constrained", squeeze=False
    )
    for axis, (corpus, base) in zip(axes[0], panels, strict=True):
        own = figures[corpus][base]
        what = f"{CHOSEN[corpus]}_f1"
        parts = own.get("discriminative", {})
        before = sum(parts.get(f"{part}_cpu_s", 0.0) for part in ("forests", "features"))
        curves = {"zero": own["curve"][CHOSEN[corpus]], "m_est": own["curve"].get("from_m_est")}
        for start, text in STARTS.items():
            rows = curves[start]
            if rows:
                seconds = [before + row["cpu_s"] for row in rows]
                axis.plot(seconds, [row["f1"] for row in rows], "o-", ms=3, label=text)
        for key, colour in COLOURS.items():
            if what in own.get(key, {}):
                if key == "q0":
                    axis.axhline(own[key][what], color=colour, ls=":", label=ESTIMATES[key])
                else:
                    spot = own[key]["cpu_s"]
                    axis.plot(
                        [spot], [own[key][what]], "*", ms=12, color=colour, label=ESTIMATES[key]
                    )
        axis.set_xscale("log")
        split = "tuning documents" if corpus == "ewt" else "dev"
        axis.set(title=f"{CORPORA[corpus]}, {split}; {BASES[base]}", xlabel="CPU s", ylabel="F1")
    axes[0][0].legend(fontsize="small")
    save_plot(figure, path)
    pyplot.close(figure)
    return True
