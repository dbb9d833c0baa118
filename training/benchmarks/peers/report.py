"""The systems of benchmarks/peers, and a plot of their accuracy over speed."""

from __future__ import annotations

from typing import Any, NamedTuple

import srsly

from training.common.recording import RESULTS
from training.common.report import pyplot_for


class Row(NamedTuple):
    """A system. package: of the peer, or "". text: in the plot."""

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
    },
    "attachment": {
        "ours_bayes_net": Row("", "hybrid Bayes net, structure search"),
        "ours_log_linear": Row("", "log-linear model, structure search"),
        "ours_conjunctions": Row("", "log-linear model, all conjunctions"),
        "sklearn_logistic": Row("scikit-learn", "LogisticRegression"),
        "sklearn_conjunctions": Row("scikit-learn", "LogisticRegression, all conjunctions"),
        "sklearn_svc": Row("scikit-learn", "SVC, quadratic kernel"),
    },
    "parsing": {
        "ours_grammar": Row("", "one split-merge grammar"),
        "ours_product": Row("", "four grammars, span features"),
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
COLOURS = {
    "": "tab:red",
    "python-crfsuite": "tab:blue",
    "spacy": "tab:green",
    "scikit-learn": "tab:orange",
    "supar": "tab:brown",
}
MARKERS = "os^DvPX"


def plot(name: str) -> None:
    """Plot accuracy over speed of training/results/NAME.json as SVG."""
    figures: Any = srsly.read_json(RESULTS / f"{name}.json")
    pyplot = pyplot_for(RESULTS / name)
    figure, axes = pyplot.subplots(1, len(ROWS), figsize=(15, 6.5), layout="constrained")
    for axis, (task, rows) in zip(axes, ROWS.items(), strict=True):
        seen: dict[str, int] = {}
        for system, row in rows.items():
            own = figures.get(task, {}).get(system, {})
            if MEASURES[task] not in own:
                continue
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
    figure.savefig((RESULTS / name).with_suffix(".svg"), metadata={"Date": None})
    pyplot.close(figure)
