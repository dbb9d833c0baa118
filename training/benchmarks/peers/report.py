"""The report of benchmarks/peers: its figures as tables, and accuracy over speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import srsly

from training.common.report import pyplot_for, table

Figures = Mapping[str, Any]


class Row(NamedTuple):
    """A system. package: of the peer, "" for this one. text: in tables."""

    package: str
    text: str


ROWS: dict[str, dict[str, Row]] = {
    "chunks": {
        "ours_crf": Row("", "first-order CRF"),
        "ours_pairs": Row("", "CRF, label pairs"),
        "ours_perceptron": Row("", "averaged perceptron, label pairs"),
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
        "ours_product": Row("", "four grammars, features of spans"),
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
MEASURES = {"chunks": "f1", "attachment": "accuracy", "parsing": "f1"}
UNITS = {"chunks": "tokens", "attachment": "items", "parsing": "tokens"}
SETTINGS = {
    "chunks": """\
The first 7,936 sentences of CoNLL-2000's training part, NP chunks only, with the tags of the
corpus; its test part, 12,422 chunks. The standard error of F1 is 0.25. CRFs, perceptrons, and
the classifiers of scikit-learn and NLTK have the predicates of Sha & Pereira (2003); CRFs have
l2 of 2, those of label pairs of 1, perceptrons 20 passes. Word classes are learned of the
same sentences. spaCy has the tok2vec of `spacy init config`, 4 passes with words and 3 with
tags. LogisticRegression reads the label before, which is the predicted one in the test; C is
0.5. BigramTagger reads tags and the label before.""",
    "attachment": """\
The quadruples of Ratnaparkhi, Reynar & Roukos (1994), 20,801 for training, 3,097 for the test;
ours choose structure on the development items. The standard error of accuracy is 0.64. All have
the same words, in lower case with YEAR and NUM. C of LogisticRegression is 1, with conjunctions
2; of SVC 0.1. pgmpy has the network of Toutanova (2006), whose dense tables have room for
frequent words only, and is asked by queries, which take a thousandth of the time of its
`predict`. MaxentClassifier has 100 iterations of GIS. All items are predicted in one call.""",
    "parsing": """\
The sample of the Wall Street Journal that comes with NLTK: files 0001-0159 for training,
0160-0179 as dev, 0180-0199 for the test, 245 sentences. EVALB; a gap below about 1 F1 is not
firm. Sentences of gold tokens, without tags; for supar, which finds no tags, EVALB leaves
punctuation out by the gold ones. Grammars are of four rounds; features of spans are learned
from forests by grammars of ten folds. NLTK parses only {short} sentences of {shortest} to
{longest} words, on which all are scored in one column more; unknown words stand as the rare
ones of training. supar: two layers of 200, a character LSTM, batches of 1,000 tokens, {epochs}
epochs, of which the best on dev is kept.""",
}
ABSENT = """\
* benepar and spacy-transformers begin with pretrained models, which are downloads.
* stanza 1.15.0: its trainer of constituency parsers scores by Java's CoreNLP, a download, and by
  default asks for its tagger, another one.
* NLTK's CRFTagger and sklearn-crfsuite are python-crfsuite behind other interfaces.
* Semantic roles: no package of the index was found that learns PropBank's roles without
  downloads. stroll-srl 0.5.1 depends on one that no longer installs, and its vectors are a
  download; transformer-srl is of AllenNLP and spaCy 2; nlptoolkit-semanticrolelabeling has two
  rules for Turkish, and learns nothing."""
HEAD = """\
# Beside other packages

Made by training/benchmarks/peers: peers that install from the package index and train
without downloads. Same data, one run, one thread; each training and each round of prediction is
a process of its own, systems of a task take turns. Training: CPU seconds from sentences in
memory to a model on disk. Speed: what is predicted in a CPU second, from words to labels,
loading excluded, the median of rounds. Memory: peak of the process that trains, and of that
which predicts, MB of 1,048,576 bytes. Installed: MB of 1,000,000 bytes beyond Python itself,
and the number of packages; for supar with torch's build for CPUs. Settings were fixed
beforehand, and the test parts read once."""
COLUMNS = (
    ("training, CPU s", "train_cpu_s", ",.1f"),
    ("{unit} a CPU s", "per_cpu_s", ",.0f"),
    ("memory: training", "train_rss_mb", ",.0f"),
    ("prediction", "rss_mb", ",.0f"),
    ("model, MB", "model_mb", ",.1f"),
    ("installed, MB", "install_mb", ",.0f"),
    ("packages", "packages", "d"),
)
SHORT = ("F1, short ones", "f1_short", ".1f")


def write(results: Path, name: str) -> None:
    """The report of results/NAME.json, and its figure."""
    figures = srsly.read_json(results / f"{name}.json")
    lines = HEAD.split("\n")
    if plot(figures, results / name):
        lines += ["", f"![accuracy over speed]({name}.svg)"]
    for task in ROWS:
        if task in figures:
            lines += section(task, figures[task])
    lines += ["", "## What is not here", "", *ABSENT.split("\n")]
    (results / f"{name}.md").write_text("\n".join([*lines, ""]), encoding="utf8")


def section(task: str, figures: Figures) -> Iterator[str]:
    """The table of a task, and its settings. figures: by system."""
    from training.benchmarks.peers.others import SYSTEMS

    nltk = SYSTEMS["nltk_pcfg"]
    yield from ("", f"## {TITLES[task][0].upper()}{TITLES[task][1:]}", "")
    text = SETTINGS[task].format(
        short=nltk.number,
        shortest=nltk.shortest,
        longest=nltk.longest,
        epochs=figures.get("supar", {}).get("epochs", "no"),
    )
    yield from text.split("\n")
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
    """Accuracy over speed; whether there is anything to draw, and matplotlib to draw it."""
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
