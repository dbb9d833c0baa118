"""The classifiers compared with pgmpy and scikit-learn on PP attachment, in one run.

    pip install pgmpy scikit-learn
    python corpora/fetch.py ppattach
    python -m training.benchmarks.classification

All systems are trained on the training items of Ratnaparkhi, Reynar & Roukos (1994) with the same
words (lower case, YEAR, NUM), and predict the test items. Settings of peers were chosen on devset,
which our models use for selection too. Each measurement runs in its own process with one thread,
and runs alternate. Times are CPU seconds from words to labels, with one item per call, or all in
one call, after a warm-up call. Medians and ratios are recorded in
training/results/toutanova2006_pp.json.

* pgmpy has the network of the paper. Its tables are dense, and the table of n2 would take 17 GB.
  Therefore it gets only the most frequent words, and one state for all others, because unseen
  states are errors. `predict` is its method for classification. Its time grows with the number of
  words (about 45 ms with 50 instead of 200). `query` for the class is much faster, and is measured
  too.
* scikit-learn: categorical naive Bayes; logistic regression on one-hot values, with the same
  objective as ours (1 / C is half of l2; only the intercept is not penalised), also with all pairs
  and triples; a support vector machine with a polynomial kernel of degree 2, which includes all
  pairs.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from spacy_structlearn.attachment.sites import normalized
from spacy_structlearn.evaluation.classification import score_labels
from training.common.process import measured
from training.common.recording import CORPORA, peak_mb, record, show

RESULTS = "toutanova2006_pp"
VARIABLES = ("v", "n1", "p", "n2")
STRUCTURE = {"p": (), "n1": ("p",), "v": ("p",), "n2": ("v", "p")}
TEMPLATES = [t for n in (1, 2, 3) for t in combinations(VARIABLES, n)]
CONJUNCTIONS = {"|".join(t): tuple(map(VARIABLES.index, t)) for t in TEMPLATES}
L2 = {"single": 2.0, "conjunctions": 1.0}
# Chosen on devset: alpha from 0.01 to 1, C from 0.03 to 1, words from 50 to 700, strength from 10
# to 1e7.
NAIVE_BAYES_ALPHA = 1.0
SVC_C = 0.1
PGMPY_WORDS = 200
PGMPY_STRENGTH = 1e4
OTHER = "<other>"
N_ONE = 500  # maximum number of calls with one item
SECONDS = 3.0  # maximum time of these calls
N_PGMPY = 20
PASSES = 3

Row = tuple[str, ...]
Items = tuple[list[Row], list[str]]
Predict = Callable[[Sequence[Row]], Sequence[str]]


def items(corpora: Path, part: str) -> Items:
    """Return the words and labels of training, devset or test."""
    rows, labels = [], []
    with open(corpora / "ppattach" / part, encoding="utf8") as lines:
        for line in lines:
            _, verb, noun, preposition, last, label = line.split()
            rows.append(normalized((verb, noun, preposition, last)))
            labels.append(label)
    return rows, labels


def seconds(run: Callable[[], object]) -> float:
    """Return the CPU seconds of one call."""
    start = process_time()
    run()
    return process_time() - start


def seconds_each(predict: Predict, rows: Sequence[Row]) -> float:
    """Return the mean CPU seconds of a call with one item."""
    start, number = process_time(), 0
    for row in rows:
        predict([row])
        number += 1
        if process_time() - start > SECONDS:
            break
    return (process_time() - start) / number


def figures(fit_s: float, predict: Predict, test: Items) -> dict[str, float]:
    """Return test accuracy, and microseconds per item, in one call and in separate calls."""
    rows, gold = test
    score = score_labels(gold, list(predict(rows)))
    batch = [seconds(lambda: predict(rows)) for _ in range(PASSES)]
    one = [seconds_each(predict, rows[:N_ONE]) for _ in range(PASSES)]
    return {
        "test_acc": 100 * score.accuracy,
        "fit_s": fit_s,
        "predict_us": 1e6 * float(np.median(one)),
        "predict_us_batch": 1e6 * float(np.median(batch)) / len(rows),
        "peak_mb": peak_mb(),
    }


# --- ours -----------------------------------------------------------------------------------------
def ours(settings: Any, corpora: Path) -> dict[str, float]:
    """Measure one of our models, with selection on devset."""
    from spacy_structlearn.classification import fit

    rows, labels = items(corpora, "training")
    dev = items(corpora, "devset")
    models: list[Any] = []
    arguments = {"dev": dev, "variables": VARIABLES}
    fit_s = seconds(lambda: models.append(fit(settings, rows, labels, **arguments)))
    return figures(fit_s, models[-1].predict, items(corpora, "test"))


def bayes_net(corpora: Path) -> dict[str, float]:
    """Measure the hybrid network with structure search."""
    from spacy_structlearn.classification import BayesNetSettings

    return ours(BayesNetSettings(structure="search", fit_d="conditional", n_d="many"), corpora)


def naive_bayes(corpora: Path) -> dict[str, float]:
    """Measure the naive structure with jointly fitted d."""
    from spacy_structlearn.classification import BayesNetSettings

    return ours(BayesNetSettings(structure="naive", fit_d="joint", n_d="many"), corpora)


def log_linear(corpora: Path) -> dict[str, float]:
    """Measure the log-linear model with a search for templates and l2."""
    from spacy_structlearn.classification import LogLinearSettings

    return ours(LogLinearSettings(templates="search", l2="search"), corpora)


def log_linear_single(corpora: Path) -> dict[str, float]:
    """Measure the log-linear model of single values, which is logistic regression."""
    from spacy_structlearn.classification import LogLinearSettings

    return ours(LogLinearSettings(templates="single", l2=L2["single"]), corpora)


def log_linear_conjunctions(corpora: Path) -> dict[str, float]:
    """Measure the log-linear model of all pairs and triples, without a search."""
    from spacy_structlearn.classification import LogLinearSettings

    return ours(LogLinearSettings(templates=TEMPLATES, l2=L2["conjunctions"]), corpora)


# --- pgmpy ----------------------------------------------------------------------------------------
def pgmpy(corpora: Path) -> dict[str, float]:
    """Measure the paper's network with dense tables of frequent words and a BDeu prior."""
    import pandas as pd
    from pgmpy.inference import VariableElimination
    from pgmpy.models import DiscreteBayesianNetwork
    from pgmpy.parameter_estimator import DiscreteBayesianEstimator

    rows, labels = items(corpora, "training")
    test_rows, gold = items(corpora, "test")
    counts = [Counter(column) for column in zip(*rows, strict=True)]
    kept = [{word for word, _ in column.most_common(PGMPY_WORDS)} for column in counts]

    def cut(row: Row) -> Row:
        return tuple(word if word in k else OTHER for word, k in zip(row, kept, strict=True))

    table = pd.DataFrame([cut(row) for row in rows], columns=list(VARIABLES))
    table["y"] = labels
    states = {name: [*sorted(k), OTHER] for name, k in zip(VARIABLES, kept, strict=True)}
    arcs = [(parent, name) for name, above in STRUCTURE.items() for parent in ("y", *above)]
    model = DiscreteBayesianNetwork(arcs)
    estimator = DiscreteBayesianEstimator(
        state_names={**states, "y": ["N", "V"]},
        prior_type="BDeu",
        equivalent_sample_size=PGMPY_STRENGTH,
    )
    fit_s = seconds(lambda: model.fit(table, estimator=estimator))
    inference = VariableElimination(model)

    def query(asked: Sequence[Row]) -> list[str]:
        answers = []
        for row in asked:
            evidence = dict(zip(VARIABLES, cut(row), strict=True))
            found = inference.query(["y"], evidence=evidence, show_progress=False)
            answers.append(found.state_names["y"][int(np.argmax(found.values))])
        return answers

    def predict(asked: Sequence[Row]) -> list[str]:
        data = pd.DataFrame([cut(row) for row in asked], columns=list(VARIABLES))
        return model.predict(data, n_jobs=1)["y"].tolist()

    queried = figures(fit_s, query, (test_rows, gold))
    predicted = figures(fit_s, predict, (test_rows[:N_PGMPY], gold[:N_PGMPY]))
    cardinality = {name: len(column) for name, column in zip(VARIABLES, counts, strict=True)}
    try:
        inference.query(["y"], evidence={"v": "a word never seen"}, show_progress=False)
        fails = False
    except (KeyError, ValueError, IndexError):
        fails = True
    return {
        **queried,
        "predict_us": predicted["predict_us"],
        "predict_us_batch": predicted["predict_us_batch"],
        "query_us": queried["predict_us"],
        "words": PGMPY_WORDS,
        "items_cut": sum(OTHER in cut(row) for row in test_rows) / len(test_rows),
        "full_table_gb": 8e-9 * 2 * cardinality["n2"] * cardinality["v"] * cardinality["p"],
        "fails_on_unseen": float(fails),
    }


# --- scikit-learn ---------------------------------------------------------------------------------
def sklearn_figures(
    model: Any, corpora: Path, prepare: Callable[[Sequence[Row]], Any]
) -> dict[str, float]:
    """Measure a pipeline from words, converted by `prepare`, to labels."""
    rows, labels = items(corpora, "training")
    fit_s = seconds(lambda: model.fit(prepare(rows), labels))
    return figures(fit_s, lambda asked: model.predict(prepare(asked)), items(corpora, "test"))


def array(rows: Sequence[Row]) -> np.ndarray:
    return np.array(rows, dtype=object)


def single(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return the words by variable."""
    return [dict(zip(VARIABLES, row, strict=True)) for row in rows]


def conjunctions(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return the words of each variable, pair and triple."""
    return [{name: "|".join(row[i] for i in t) for name, t in CONJUNCTIONS.items()} for row in rows]


def known(codes: np.ndarray) -> np.ndarray:
    """Return codes from 1, and 0 for unknown values, which are a category of CategoricalNB."""
    return codes.astype(int) + 1


def categorical_nb(corpora: Path) -> dict[str, float]:
    from sklearn.naive_bayes import CategoricalNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder

    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    model = CategoricalNB(alpha=NAIVE_BAYES_ALPHA)
    pipeline = make_pipeline(encoder, FunctionTransformer(known), model)
    return sklearn_figures(pipeline, corpora, array)


def one_hot(model: Any) -> Any:
    """Put a model after DictVectorizer, which omits unknown words. OneHotEncoder does the same, but
    takes 13 ms for a single item.
    """
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    return make_pipeline(DictVectorizer(), FunctionTransformer(narrow, accept_sparse=True), model)


def narrow(matrix: Any) -> Any:
    """Convert indices to 32 bits, as SVC requires."""
    matrix.indices, matrix.indptr = matrix.indices.astype("int32"), matrix.indptr.astype("int32")
    return matrix


def logistic(corpora: Path) -> dict[str, float]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=2 / L2["single"], max_iter=1000)
    return sklearn_figures(one_hot(model), corpora, single)


def logistic_conjunctions(corpora: Path) -> dict[str, float]:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=2 / L2["conjunctions"], max_iter=1000)
    return sklearn_figures(one_hot(model), corpora, conjunctions)


def svc(corpora: Path) -> dict[str, float]:
    from sklearn.svm import SVC

    model = SVC(kernel="poly", degree=2, gamma=1.0, coef0=1.0, C=SVC_C)
    return sklearn_figures(one_hot(model), corpora, single)


# --- the run --------------------------------------------------------------------------------------
# Each peer follows the model that it is compared with.
WORKERS = {
    function.__name__: function
    for function in (
        bayes_net,
        pgmpy,
        naive_bayes,
        categorical_nb,
        log_linear_single,
        logistic,
        log_linear_conjunctions,
        logistic_conjunctions,
        log_linear,
        svc,
    )
}
# For each peer, its distribution and our model that it is compared with.
PEERS = {
    "pgmpy": ("pgmpy", "bayes_net"),
    "categorical_nb": ("scikit-learn", "naive_bayes"),
    "logistic": ("scikit-learn", "log_linear_single"),
    "logistic_conjunctions": ("scikit-learn", "log_linear_conjunctions"),
    "svc": ("scikit-learn", "bayes_net"),
}
MODULES = {"pgmpy": "pgmpy", "scikit-learn": "sklearn"}
RATIOS = {
    "fit_s": "fit_time",
    "predict_us": "predict_time",
    "predict_us_batch": "predict_time_batch",
    "peak_mb": "peak_rss",
}


def measure(worker: str, corpora: Path) -> dict[str, float]:
    """Run one worker in its own process with one BLAS thread."""
    found = measured(__spec__.name, "--worker", worker, "--corpora", corpora)
    print(worker, {name: round(value, 3) for name, value in found.items()}, flush=True)
    return found


def compare(medians: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return medians by their keys in the results, and ratios of peers to our models."""
    found: dict[str, Any] = {}
    for name, values in medians.items():
        distribution, _ = PEERS.get(name, ("ours", ""))
        place = name if distribution == name else f"{MODULES.get(distribution, 'ours')}.{name}"
        found |= {f"benchmark.{place}.{key}": value for key, value in values.items()}
    for name, (distribution, other) in PEERS.items():
        if name not in medians:
            continue
        peer, mine = medians[name], medians[other]
        found[f"benchmark.{MODULES[distribution]}.version"] = version(distribution)
        for key, ratio in RATIOS.items():
            found[f"ratio.{ratio}.{name}_over_ours"] = peer[key] / mine[key]
        if "query_us" in peer:
            ratio = peer["query_us"] / mine["predict_us"]
            found[f"ratio.predict_time.{name}_query_over_ours"] = ratio
    if "svc" in medians:
        ratio = medians["svc"]["fit_s"] / medians["log_linear"]["fit_s"]
        found["ratio.fit_time.svc_over_log_linear"] = ratio
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--runs", type=int, default=3, help="number of alternating runs")
    parser.add_argument("--worker", choices=WORKERS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(WORKERS[args.worker](args.corpora)))
        return
    missing = {name for name, module in MODULES.items() if find_spec(module) is None}
    for name in sorted(missing):
        print(f"without {name}, which is not installed here: pip install {name}")
    workers = [name for name in WORKERS if PEERS.get(name, ("",))[0] not in missing]
    runs = [{name: measure(name, args.corpora) for name in workers} for _ in range(args.runs)]
    medians = {
        name: {key: float(np.median([run[name][key] for run in runs])) for key in runs[0][name]}
        for name in workers
    }
    results = compare(medians)
    record(RESULTS, results)
    show(results)


if __name__ == "__main__":
    main()
