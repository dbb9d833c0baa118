"""Core arguments of verbs (Toutanova 2006): tables 5, 6, 7 and 8, figure 2b, and other models.

Called by papers/toutanova2006. `core` are the paper's models with the seven features of Gildea &
Jurafsky (2002), and `extra` log-linear models with more features. Models are selected on train and
tune. Then they are retrained on both with the selected structure, d and l2, and tested once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from time import process_time
from typing import Any

import numpy as np

from spacy_structlearn.classification import BayesNet, BayesNetSettings, LogLinearSettings
from spacy_structlearn.classification.trainers import fit
from spacy_structlearn.evaluation.calibration import expected_calibration_error
from spacy_structlearn.evaluation.significance import mcnemar
from spacy_structlearn.roles.features import ADDITIONAL, FEATURES, GILDEA_JURAFSKY, ROLESET
from training.common.labels import score_labels
from training.papers.toutanova2006.attachment import MINIMAL_L2, n_of_d, pair_key, recounted
from training.papers.toutanova2006.climb import climb
from training.papers.toutanova2006.role_items import ARGUMENTS, Corpus, Items

CORE_L2 = "search"
SINGLE = tuple((name,) for name in GILDEA_JURAFSKY)
PAIRS = (*SINGLE, *combinations(GILDEA_JURAFSKY, 2))
# Table 7.
PAPER_TEMPLATES = (
    *(("path",), ("path", "lemma"), ("subcat",), ("lemma",), ("head", "lemma")),
    *(("path", "lemma", "voice"), ("head", "lemma", "phrase"), ("subcat", "lemma")),
    *(("subcat", "lemma", "position"), ("head",)),
)
# Beyond the paper: features of the node, then of the other arguments, then of the verb's sense.
LOCAL = (
    *PAIRS,
    *((name,) for name in ADDITIONAL),
    *((name, other) for other in ("lemma", "path", "position") for name in ADDITIONAL),
    *((name, "lemma", "path") for name in ("frame", "first_word", "head_tag")),
)
AMONG = (
    *((name,) for name in ARGUMENTS),
    *((name, "lemma") for name in ARGUMENTS),
    *((name, "voice") for name in ARGUMENTS[:2]),
    *((name, "lemma", "voice") for name in ARGUMENTS[:3]),
)
OF_SENSE = (
    (ROLESET,),
    *((name, ROLESET) for name in FEATURES if name != "lemma"),
    *(("path", "voice", ROLESET), ("frame", "position", ROLESET), ("position", "voice", ROLESET)),
)
AMONG_OF_SENSE = (
    *((name, ROLESET) for name in ARGUMENTS),
    *((name, "voice", ROLESET) for name in ARGUMENTS[:3]),
)
EXTRA = {
    "local": LOCAL,
    "local_gold_roleset": LOCAL + OF_SENSE,
    "loglinear": LOCAL + AMONG,
    "gold_roleset": LOCAL + OF_SENSE + AMONG + AMONG_OF_SENSE,
}
EXTRA_L2 = (0.5, 1.0)
EXTRA_TOLERANCE = 1e-3

TABLE_5 = ("nb.1", "nb.15", "lr", "hybrid_nb.1", "hybrid_nb.15")
TABLE_6 = ("bn.1", "bn.multi", "loglinear", "hybrid_bn.1", "hybrid_bn.multi")
# Compared by McNemar's test in sections 3.2 and 4.
COMPARED = (
    *combinations(TABLE_5, 2),
    *combinations(TABLE_6, 2),
    ("bn.1", "minimal.bn"),
    ("loglinear", "minimal.loglinear"),
)

GAP = {
    "hybrid_bn": BayesNetSettings(structure="search", fit_d="conditional", n_d="many"),
    "loglinear": LogLinearSettings(templates=PAIRS, l2=CORE_L2),
}

Model = Any  # a BayesNet or a LogLinear


class Report:
    """Collects the selected models. `close` evaluates all of them on the test items.

    prefix: of the keys of all figures, such as "wsj.".
    """

    def __init__(self, corpus: Corpus, prefix: str = ""):
        self.corpus = corpus
        self._prefix = prefix
        self._figures: dict[str, Any] = {}
        self._models: dict[str, Model] = {}
        for name, part in zip(corpus.names, corpus[:3], strict=True):
            self.set(f"core.items.{name}", len(part.labels))

    def set(self, key: str, figure: Any) -> None:
        self._figures[self._prefix + key] = figure

    def timed(self, key: str, train: Callable[[], Any]) -> Any:
        """Return the result of `train`, and record its CPU seconds."""
        start = process_time()
        result = train()
        self.set(key, process_time() - start)
        return result

    def add(self, name: str, settings: BayesNetSettings | LogLinearSettings) -> Model:
        """Fit a model to train with selection on tune, and then to both with the selection."""
        train, tune = self.corpus.train, self.corpus.tune
        dev = (tune.table, tune.labels)
        data = train.table, train.labels
        model = self.timed(f"{name}.fit_s", lambda: fit(settings, *data, dev=dev))
        accuracy = score_labels(tune.labels, model.predict(tune.table)).accuracy
        self.set(f"{name}.tune_acc", 100 * accuracy)
        if isinstance(settings, BayesNetSettings):
            fitted = settings.smoothing == "witten_bell"
            self.set(f"{name}.n_d", n_of_d(model, settings) if fitted else 0)
        else:
            self.set(f"{name}.l2", model.l2)
            self.set(f"{name}.n_templates", len(model.templates))
        print(f"{self._prefix + name:30} tune {100 * accuracy:.2f}", flush=True)
        self._models[name] = self._again(model, settings)
        return model

    def _again(self, model: Model, settings: BayesNetSettings | LogLinearSettings) -> Model:
        """Fit a model to train and tune with fixed choices."""
        both = self.corpus.without_test()
        if isinstance(settings, BayesNetSettings):
            return recounted(model, both.table, both.labels)
        tolerance = settings.tolerance
        chosen = LogLinearSettings(templates=model.templates, l2=model.l2, tolerance=tolerance)
        return fit(chosen, both.table, both.labels)

    def close(self) -> dict[str, Any]:
        """Return accuracy, calibration and McNemar's test on the test items."""
        test = self.corpus.test
        predictions = {name: self._read(name, model, test) for name, model in self._models.items()}
        core = {name.removeprefix("core."): found for name, found in predictions.items()}
        for a, b in COMPARED:
            if a in core and b in core:
                self.set(f"core.{pair_key(a, b)}", mcnemar(test.labels, core[a], core[b]).p)
        return self._figures

    def _read(self, name: str, model: Model, test: Items) -> list[str]:
        probabilities = model.predict_proba(test.table)
        predicted = [model.labels[i] for i in probabilities.argmax(axis=1)]
        right = np.array(predicted) == np.array(test.labels)
        result = score_labels(test.labels, predicted)
        self.set(f"{name}.test_acc", 100 * result.accuracy)
        self.set(f"{name}.test_standard_error", 100 * result.standard_error)
        self.set(f"{name}.ece", expected_calibration_error(probabilities.max(axis=1), right))
        print(f"{self._prefix + name:30} test {100 * result.accuracy:.2f}", flush=True)
        return predicted


def core(corpus: Corpus, prefix: str = "") -> dict[str, Any]:
    """Return tables 5 to 8 and figure 2b."""
    report = Report(corpus.select(GILDEA_JURAFSKY), prefix)
    naive(report)
    nets(report)
    log_linear(report)
    minimal(report)
    return report.close()


def naive(report: Report) -> None:
    """Add the models of table 5, without conjunctions."""
    for fit_d, name in (("joint", "nb"), ("conditional", "hybrid_nb")):
        for n_d, ending in (("one", "1"), ("many", "15")):
            report.add(
                f"core.{name}.{ending}", BayesNetSettings(structure="naive", fit_d=fit_d, n_d=n_d)
            )
    report.add("core.lr", LogLinearSettings(templates=SINGLE, l2="search"))


def nets(report: Report) -> None:
    """Add the networks of table 6 and figure 2b, and one with more parents by hill climbing."""
    train, tune = report.corpus.train, report.corpus.tune

    def search(max_parents: int) -> BayesNet:
        settings = BayesNetSettings(structure="search", fit_d=None, max_parents=max_parents)
        return fit(settings, train.table, train.labels, dev=(tune.table, tune.labels))

    found = report.timed("search_s.bn", lambda: search(3))
    report.set("core.structure", as_text(found.parents))
    report.set("core.structure_tried", sum(step.n_candidates for step in found.steps))
    for fit_d, name in (("joint", "bn"), ("conditional", "hybrid_bn")):
        for n_d, ending in (("one", "1"), ("many", "multi")):
            report.add(
                f"core.{name}.{ending}",
                BayesNetSettings(structure=found.parents, fit_d=fit_d, n_d=n_d),
            )
    wider = report.timed("search_s.bn_3_parents", lambda: search(4))
    report.set("core.structure_3_parents", as_text(wider.parents))
    report.add("core.hybrid_bn.3_parents", BayesNetSettings(structure=wider.parents))
    best, n_tried = report.timed("search_s.climb", lambda: climb(wider.parents, 3, train, tune))
    report.set("core.structure_best", as_text(best))
    report.set("core.structure_best_tried", n_tried)
    report.add("core.hybrid_bn.best", BayesNetSettings(structure=best))


def as_text(structure: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    return {variable: " ".join(parents) for variable, parents in structure.items()}


def log_linear(report: Report) -> None:
    """Add log-linear models by structure search and, for comparison, with fixed templates."""
    report.add("core.loglinear.paper", LogLinearSettings(templates=PAPER_TEMPLATES, l2=CORE_L2))
    report.add("core.loglinear.pairs", LogLinearSettings(templates=PAIRS, l2=CORE_L2))
    settings = LogLinearSettings(templates="search", l2=CORE_L2)
    searched = report.timed("search_s.loglinear", lambda: report.add("core.loglinear", settings))
    report.set("core.loglinear.templates", template_names(searched))
    report.set("core.loglinear.n_fits", sum(step.n_candidates for step in searched.steps))


def template_names(model: Model) -> list[str]:
    return ["+".join(template) for template in model.templates]


def minimal(report: Report) -> None:
    """Add the models of table 8: almost no smoothing, and no back-off."""
    net = report.add(
        "core.minimal.bn", BayesNetSettings(structure="search", fit_d=None, smoothing="uniform")
    )
    report.set("core.minimal.structure", as_text(net.parents))
    settings = LogLinearSettings(templates="search", l2=MINIMAL_L2, nested=False)
    searched = report.timed(
        "search_s.minimal", lambda: report.add("core.minimal.loglinear", settings)
    )
    report.set("core.minimal.loglinear.templates", template_names(searched))


def extra(corpus: Corpus, prefix: str = "") -> dict[str, Any]:
    """Return figures with additional features, among them the gold sense of the verb."""
    report = Report(corpus, prefix)
    for name, templates in EXTRA.items():
        report.add(
            f"extra.{name}",
            LogLinearSettings(templates=templates, l2=EXTRA_L2, tolerance=EXTRA_TOLERANCE),
        )
    return report.close()


def gap(corpus: Corpus) -> Iterator[dict[str, Any]]:
    """Yield accuracies on dev by the number of training items, and how far hybrid networks are
    behind log-linear models. Every 8th, 4th or 2nd document of train and tune is read, or all.

    Log-linear models have all pairs of features, which is as good as the searched templates.
    """
    corpus = corpus.select(GILDEA_JURAFSKY)
    for n, train, tune in sizes(corpus, (8, 4, 2, 1)):
        found = {}
        for name, settings in GAP.items():
            model = fit(settings, train.table, train.labels, dev=(tune.table, tune.labels))
            right = score_labels(corpus.test.labels, model.predict(corpus.test.table))
            found[name] = 100 * right.accuracy
        found["gap"] = found["loglinear"] - found["hybrid_bn"]
        found["standard_error"] = 100 * right.standard_error
        yield {f"gap.{n}.{key}": value for key, value in found.items()}


def climbed(corpus: Corpus) -> Iterator[dict[str, Any]]:
    """Yield accuracies on dev of hybrid networks with up to three parents and the class, by greedy
    search and by hill climbing, and the CPU seconds of both. Every 8th or 4th document is
    read, as in `gap`; `core` has these networks with all documents.
    """
    corpus = corpus.select(GILDEA_JURAFSKY)
    for n, train, tune in sizes(corpus, (8, 4)):
        found: dict[str, Any] = {}
        start, dev = process_time(), (tune.table, tune.labels)
        greedy = BayesNetSettings(structure="search", fit_d=None, max_parents=4)
        wider = fit(greedy, train.table, train.labels, dev=dev).parents
        best, found["networks"] = climb(wider, 3, train, tune)
        found["climb_s"] = process_time() - start
        for name, structure in (("three_parents", wider), ("climbed", best)):
            settings = BayesNetSettings(structure=structure, n_d="many")
            model = fit(settings, train.table, train.labels, dev=dev)
            predicted = model.predict(corpus.test.table)
            found[name] = 100 * score_labels(corpus.test.labels, predicted).accuracy
        yield {f"climb.{n}.{key}": value for key, value in found.items()}


def sizes(corpus: Corpus, shares: Sequence[int]) -> Iterator[tuple[int, Items, Items]]:
    """Yield train and tune with every nth document of both, after their number of items."""
    documents = sorted({*corpus.train.documents, *corpus.tune.documents})
    for share in shares:
        known = list(documents[::share])
        train, tune = (part.take(np.isin(part.documents, known)) for part in corpus[:2])
        yield len(train.labels) + len(tune.labels), train, tune


def both(corpus: Corpus, prefix: str) -> dict[str, Any]:
    """Return `core` and `extra`."""
    return core(corpus, prefix) | extra(corpus, prefix)
