"""The report of benchmarks/peers: tables, and a plot of accuracy over speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple

import srsly

from training.common.report import pyplot_for, seeds_text, standard_error, table

Figures = Mapping[str, Any]


class Row(NamedTuple):
    """A system. package: of the peer, or "". text: in tables."""

    package: str
    text: str


ROWS: dict[str, dict[str, Row]] = {
    "chunks": {
        "ours_crf": Row("", "first-order CRF"),
        "ours_pairs": Row("", "CRF, label pairs"),
        "ours_best": Row("", "CRF with word classes, shapes, IOBES"),
        "crfsuite_crf": Row("python-crfsuite", "first-order CRF"),
        "crfsuite_pairs": Row("python-crfsuite", "CRF, label pairs"),
        "crfsuite_perceptron": Row("python-crfsuite", "averaged perceptron, label pairs"),
        "spacy_words": Row("spacy", "tok2vec and ner, words"),
        "spacy_tags": Row("spacy", "tok2vec and ner, words and tags"),
        "sklearn_memm": Row("scikit-learn", "LogisticRegression, greedy"),
        "nltk_classifier": Row("nltk", "ClassifierBasedTagger, naive Bayes"),
        "nltk_bigrams": Row("nltk", "BigramTagger of tags"),
    },
    "attachment": {
        "ours_bayes_net": Row("", "hybrid Bayes net, structure search"),
        "ours_log_linear": Row("", "log-linear model, structure search"),
        "ours_conjunctions": Row("", "log-linear model, all conjunctions"),
        "sklearn_nb": Row("scikit-learn", "CategoricalNB"),
        "sklearn_logistic": Row("scikit-learn", "LogisticRegression"),
        "sklearn_conjunctions": Row("scikit-learn", "LogisticRegression, all conjunctions"),
        "sklearn_svc": Row("scikit-learn", "SVC, quadratic kernel"),
        "pgmpy": Row("pgmpy", "Bayes net, the 200 most frequent words"),
        "nltk_nb": Row("nltk", "NaiveBayesClassifier"),
        "nltk_maxent": Row("nltk", "MaxentClassifier"),
    },
    "parsing": {
        "ours_grammar": Row("", "one split-merge grammar"),
        "ours_product": Row("", "four grammars, span features"),
        "nltk_pcfg": Row("nltk", "induced PCFG, ViterbiParser"),
        "supar": Row("supar", "CRF over a BiLSTM, nothing pretrained"),
    },
}
OURS = "spacy-structlearn"
TITLES = {
    "chunks": "NP chunks, CoNLL-2000",
    "attachment": "PP attachment",
    "parsing": "constituency parsing, WSJ sample",
}
N_ATTACHMENTS = 3097  # test items
MEASURES = {"chunks": "f1", "attachment": "accuracy", "parsing": "f1"}
UNITS = {"chunks": "tokens", "attachment": "items", "parsing": "tokens"}
SETTINGS = {
    "chunks": """\
The first 7,936 training sentences of CoNLL-2000, NP chunks only, with the tags of the corpus. The
test part has 12,422 chunks, and the standard error of F1 is 0.25. CRFs, perceptrons, and the
classifiers of scikit-learn and NLTK use the predicates of Sha & Pereira (2003). CRFs have an l2 of
2, or of 1 with label pairs. Perceptrons are trained for 20 passes. Word classes are learned from
the same sentences. spaCy has the tok2vec of `spacy init config`, with 4 passes for words and 3 with
tags. LogisticRegression reads the previous label (predicted in the test), and C is 0.5.
BigramTagger reads tags and the previous label.""",
    "attachment": """\
The quadruples of Ratnaparkhi, Reynar & Roukos (1994), 20,801 for training, 3,097 for the test. Our
models select their structure on the development items. The standard error of accuracy is {error}.
All systems have the same words, in lower case with YEAR and NUM. C is 1 for LogisticRegression, 2
with conjunctions, and 0.1 for SVC. pgmpy has the network of Toutanova (2006) with dense tables of
frequent words. It is evaluated by queries, which take a thousandth of the time of its `predict`.
MaxentClassifier has 100 iterations of GIS. All items are predicted in one call.""",
    "parsing": """\
NLTK's sample of the Wall Street Journal: files 0001-0159 for training, 0160-0179 as dev, 0180-0199
for the test, 245 sentences. F1 is by EVALB.
{seeds}
Inputs are gold tokens without tags. For supar, which predicts no tags, EVALB excludes punctuation
by gold tags. Grammars have four rounds, and span features are trained on forests by grammars of ten
folds. NLTK parses only {short} sentences of {shortest} to {longest} words, with rare words of the
training data for unknown words; an extra column shows the scores of all systems on these. supar has
two layers of 200, a character LSTM, batches of 1,000 tokens and {epochs} epochs, the best of which
on dev is kept.""",
}
ABSENT = """\
* benepar and spacy-transformers need pretrained models, which are downloads.
* stanza 1.15.0: training a constituency parser needs Java's CoreNLP for scoring, and by default its
  tagger. Both are downloads.
* NLTK's CRFTagger and sklearn-crfsuite are interfaces to python-crfsuite.
* Semantic roles: we found no package that learns PropBank's roles without downloads. stroll-srl
  0.5.1 depends on a package that cannot be installed any more, and its vectors are a download.
  transformer-srl needs AllenNLP and spaCy 2. nlptoolkit-semanticrolelabeling has two rules for
  Turkish, and no training."""
HEAD = """\
# Comparison with other packages

Made by training/benchmarks/peers: packages that can be installed from the package index and trained
without downloads. All systems have the same data and one thread. Each training and each round of
prediction runs in its own process, and the systems of a task alternate. Training: CPU seconds from
sentences in memory to a model on disk. Speed: predictions per CPU second, from words to labels,
without loading, median of rounds. Memory: peak of the training process and of the prediction
process, MB of 1,048,576 bytes. Installed: size in MB of 1,000,000 bytes, without Python itself, and
number of packages; for supar with the CPU build of torch. No setting was chosen by test scores, and
each system was evaluated once on test."""
COLUMNS = (
    ("training, CPU s", "train_cpu_s", ",.1f"),
    ("{unit} per CPU s", "per_cpu_s", ",.0f"),
    ("memory: training", "train_rss_mb", ",.0f"),
    ("prediction", "rss_mb", ",.0f"),
    ("model, MB", "model_mb", ",.1f"),
    ("installed, MB", "install_mb", ",.0f"),
    ("packages", "packages", "d"),
)
SHORT = ("F1, short sentences", "f1_short", ".1f")


def write(results: Path, name: str) -> None:
    """Write the report of results/NAME.json, and its plot."""
    figures = srsly.read_json(results / f"{name}.json")
    lines = HEAD.split("\n")
    if plot(figures, results / name):
        lines += ["", f"![accuracy over speed]({name}.svg)"]
    for task in ROWS:
        if task in figures:
            lines += section(task, figures[task])
    lines += ["", "## Packages that could not be compared", "", *ABSENT.split("\n")]
    (results / f"{name}.md").write_text("\n".join([*lines, ""]), encoding="utf8")


def _error(figures: Figures) -> str:
    """Return the standard error of the best accuracy."""
    best = max((own["accuracy"] for own in figures.values() if "accuracy" in own), default=None)
    return "" if best is None else f"{standard_error(best, N_ATTACHMENTS):.2f}"


def section(task: str, figures: Figures) -> Iterator[str]:
    """Write the settings and the table of a task. figures: by system."""
    from training.benchmarks.peers.others import SYSTEMS

    nltk = SYSTEMS["nltk_pcfg"]
    yield from ("", f"## {TITLES[task][0].upper()}{TITLES[task][1:]}", "")
    text = SETTINGS[task].format(
        short=nltk.number,
        shortest=nltk.shortest,
        longest=nltk.longest,
        epochs=figures.get("supar", {}).get("epochs", "no"),
        error=_error(figures),
        seeds="\n".join(wrap(seeds_text(), 100)),
    )
    yield from (line for line in text.split("\n") if line)
    measure = MEASURES[task]
    columns = [("F1" if measure == "f1" else "accuracy", measure, ".2f"), *COLUMNS]
    if task == "parsing":
        columns.insert(1, SHORT)
    header = ["", "", *(text.format(unit=UNITS[task]) for text, _, _ in columns)]
    rows = [
        [
            row.package or OURS,
            row.text,
            *(
                format(figures[name][key], form) if key in figures[name] else ""
                for _, key, form in columns
            ),
        ]
        for name, row in ROWS[task].items()
        if name in figures
    ]
    yield from table(header, rows)


COLOURS = {
    "": "tab:red",
    "python-crfsuite": "tab:blue",
    "spacy": "tab:green",
    "scikit-learn": "tab:orange",
    "nltk": "tab:gray",
    "pgmpy": "tab:purple",
    "supar": "tab:brown",
}
MARKERS = "os^DvPX"


def plot(figures: Figures, path: Path) -> bool:
    """Plot accuracy over speed. Return False without figures or matplotlib."""
    tasks = [task for task in ROWS if any(_has(figures, task, name) for name in ROWS[task])]
    try:
        pyplot = pyplot_for(path)
    except ImportError:
        return path.with_suffix(".svg").exists()
    if not tasks:
        return False
    figure, axes = pyplot.subplots(
        1, len(tasks), figsize=(5 * len(tasks), 6.5), layout="constrained", squeeze=False
    )
    for axis, task in zip(axes[0], tasks, strict=True):
        seen: dict[str, int] = {}
        for name, row in ROWS[task].items():
            if not _has(figures, task, name):
                continue
            own = figures[task][name]
            number = seen[row.package] = seen.get(row.package, -1) + 1
            axis.plot(
                [own["per_cpu_s"]],
                [own[MEASURES[task]]],
                MARKERS[number],
                color=COLOURS[row.package],
                markersize=8,
                linestyle="none",
                label=f"{row.package or OURS}: {row.text}",
            )
        axis.set_xscale("log")
        measure = "F1" if MEASURES[task] == "f1" else "accuracy"
        axis.set(title=TITLES[task], xlabel=f"{UNITS[task]} a CPU second", ylabel=measure)
        axis.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.12))
    figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
    pyplot.close(figure)
    return True


def _has(figures: Figures, task: str, name: str) -> bool:
    return MEASURES[task] in figures.get(task, {}).get(name, {})
