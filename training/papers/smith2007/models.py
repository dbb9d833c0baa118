"""The models of Smith, Vail & Lafferty (2007): training data, and a grid for each estimator.

Called by papers/smith2007. CoNLL-2000, NP chunks; the last 900 sentences of train are held out for
tuning. For all estimators, the paper's rule for unknown words applies: the first token of each word
type and tag type in the training data is unknown.

A `Grid` trains one estimator with one feature set on one number of sentences, for all strengths of
the regulariser. It computes features, gold counts and expectations once, and stores finished
models, so that an interrupted grid continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import srsly
from numpy.typing import NDArray

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.conlleval import ConllEval, conlleval
from spacy_structlearn.optimize.lbfgs import LBFGS, ValueAndGradient
from spacy_structlearn.sequence.chain.decode import viterbi
from spacy_structlearn.sequence.chain.model import ChainModel
from spacy_structlearn.sequence.estimators.hmm import close_columns, hidden_markov
from spacy_structlearn.sequence.estimators.m_estimation import ChainStatistics, Minimization
from spacy_structlearn.sequence.estimators.training import LBFGS_MEMORY, objective_kind
from spacy_structlearn.sequence.layout.data import concatenate
from spacy_structlearn.sequence.layout.encoding import tag_set
from spacy_structlearn.sequence.layout.features import SHA_PEREIRA
from spacy_structlearn.sequence.settings import (
    CRFSettings,
    LikelihoodSettings,
    MEMMSettings,
    MEstimationSettings,
    PseudoLikelihoodSettings,
)
from spacy_structlearn.writing import write_bytes
from training.common.conll2000 import Sentence, ours_data, read

N_TUNING = 900
STRENGTHS: tuple[float | None, ...] = (*(10 ** (k / 3) for k in range(-3, 4)), None)
"""c of the regulariser |w|^2 / 2c; None: no regulariser."""
WIDE = tuple(10 ** (k / 3) for k in range(-6, 10))
"""Values of c also below and above those of the paper."""
M_TOLERANCE = 1e-6
"""Maximum relative distance of the objective of M-estimation from its minimum."""
TEMPLATES = {"hmm_features": ("ORTH[0]", "TAG[0]"), "extended": SHA_PEREIRA}
BASES = {"m_est": "hmm", "lu": "locally_uniform", "empirical": "empirical", "input_only": "hmm"}
LABELS = tag_set(["NP"], "IOB2")


class Data(NamedTuple):
    """Labelled sentences before the rule for unknown words: columns uint64 (n_tokens, 2) of words
    and tags, offsets int64 (n_sentences + 1), and label ids, indices of `LABELS`."""

    columns: NDArray[np.uint64]
    offsets: NDArray[np.int64]
    label_ids: NDArray[np.int32]

    def score(self, model: ChainModel) -> ConllEval:
        """Score a model with conlleval. Sentences without an allowed labelling get O."""
        columns = model.derive(self.columns)
        try:
            found = viterbi(model, columns, self.offsets)
        except StructlearnError as error:
            if error.code != "SL217":
                raise
            # The trigrams of the paper's HMM are not smoothed, so a few sentences have none.
            found = np.concatenate([_or_outside(model, columns[one]) for one in self._sentences()])
        tags = np.array(LABELS)
        gold, given = (
            [tags[ids[one]].tolist() for one in self._sentences()]
            for ids in (self.label_ids, found)
        )
        return conlleval(gold, given)

    def _sentences(self) -> list[slice]:
        """Return the tokens of each sentence as slices."""
        return [slice(begin, end) for begin, end in pairwise(self.offsets)]


def _or_outside(model: ChainModel, columns: NDArray[np.uint64]) -> NDArray[np.int32]:
    """Label one sentence, with O if the model allows no labelling."""
    try:
        return viterbi(model, columns, np.array([0, len(columns)]))
    except StructlearnError:
        return np.full(len(columns), LABELS.index("O"), dtype=np.int32)


def training_sentences(corpora: Path, n: int | None = None) -> list[Sentence]:
    """Return the first n sentences. None: all sentences that are not for tuning."""
    sentences = read(corpora / "conll2000" / "train.txt.gz")[:-N_TUNING]
    return sentences if n is None else sentences[:n]


def training_data(corpora: Path, n: int | None = None) -> Data:
    return as_data(training_sentences(corpora, n))


def tuning_data(corpora: Path) -> Data:
    return as_data(read(corpora / "conll2000" / "train.txt.gz")[-N_TUNING:])


def test_data(corpora: Path) -> Data:
    return as_data(read(corpora / "conll2000" / "test.txt.gz"))


def as_data(sentences: list[Sentence]) -> Data:
    return Data(*concatenate([ours_data(sentences)], LABELS))


# --- estimators -----------------------------------------------------------------------------------
Fit = Callable[["float | None"], tuple[ChainModel, int]]
"""A function from c to the model and the number of iterations."""


class Prepared(NamedTuple):
    """An estimator with everything that does not depend on c. n_features: number of weights."""

    n_features: int
    fit: Fit


class Limits(NamedTuple):
    """When training ends. tolerance: of `LBFGS`, the relative decrease per iteration."""

    max_iterations: int
    tolerance: float


PAPER = Limits(100, float(np.finfo(np.float64).eps))


def prepare(features: str, method: str, data: Data, limits: Limits = PAPER) -> Prepared:
    """Prepare an estimator. features: "hmm_features" or "extended". method: one of `METHODS`."""
    return METHODS[method](features, method, data, limits)


def _prepare_hmm(features: str, method: str, data: Data, limits: Limits) -> Prepared:
    hmm = hidden_markov(close_columns(data.columns)[0], *data[1:], LABELS)
    n_parameters = sum(part.table.size for part in hmm.emissions) + int(np.count_nonzero(hmm.t))
    return Prepared(n_parameters, lambda c: (hmm.to_chain_model(), 1))


def _prepare_likelihood(features: str, method: str, data: Data, limits: Limits) -> Prepared:
    return prepare_likelihood(_likelihood(features, method), data, LABELS, limits)


def prepare_likelihood(
    settings: LikelihoodSettings, data: Data, labels: Sequence[str], limits: Limits
) -> Prepared:
    """Prepare an estimator with any settings and labels."""
    closed, vocabularies = close_columns(data.columns)
    model = ChainModel.build(
        closed,
        *data[1:],
        labels,
        settings.templates,
        settings.min_count,
        order=settings.order,
        pair_features=settings.pair_features,
        encoding=settings.encoding,
    )
    model.vocabularies = dict(zip(model.templates.columns, vocabularies, strict=True))
    objective = objective_kind(settings)(model, closed, data.offsets, data.label_ids, l2=0.0)

    def fit(c: float | None) -> tuple[ChainModel, int]:
        objective.set_prior(l2_of(c), objective.center)
        optimizer = minimized(objective.value_and_grad, objective.n_parameters, limits)
        objective.write(optimizer.x)
        return model, optimizer.n_iterations

    return Prepared(objective.n_parameters, fit)


def _likelihood(features: str, method: str) -> LikelihoodSettings:
    templates = TEMPLATES[features]
    settings = {"order": 2, "pair_features": features == "extended"}
    if method == "pl_joint":
        return PseudoLikelihoodSettings(templates=templates, joint=True, **settings)
    kinds = {"crf": CRFSettings, "memm": MEMMSettings, "pl": PseudoLikelihoodSettings}
    return kinds[method](templates=templates, **settings)


def l2_of(c: float | None) -> float:
    """Convert the regulariser |w|^2 / 2c to the setting of the package, l2 |w|^2 / 2."""
    return 0.0 if c is None else 1.0 / c


def minimized(function: ValueAndGradient, n_parameters: int, limits: Limits) -> LBFGS:
    """Run L-BFGS from zero."""
    optimizer = LBFGS(
        np.zeros(n_parameters),
        memory=LBFGS_MEMORY,
        gradient_tolerance=0.0,
        value_tolerance=limits.tolerance,
    )
    while optimizer.n_iterations < limits.max_iterations and optimizer.step(function):
        pass
    return optimizer


def m_estimation_settings(features: str, method: str) -> MEstimationSettings:
    """Return settings with the paper's base distributions. Iterations are those of the dual."""
    return MEstimationSettings(
        templates=TEMPLATES[features],
        pair_features=features == "extended",
        base=BASES[method],
        input_only=method == "input_only",
        smoothing=0.0,
        max_iterations=PAPER.max_iterations,
        tolerance=M_TOLERANCE,
    )


def _prepare_m_estimation(features: str, method: str, data: Data, limits: Limits) -> Prepared:
    settings = m_estimation_settings(features, method)
    statistics = ChainStatistics(settings, *data, LABELS)

    def fit(c: float | None) -> tuple[ChainModel, int]:
        minimization = Minimization(statistics, l2_of(c))
        return statistics.corrected(minimization.run()), minimization.n_iterations

    return Prepared(len(statistics.expectations), fit)


METHODS: dict[str, Callable[[str, str, Data, Limits], Prepared]] = {
    "hmm": _prepare_hmm,
    **dict.fromkeys(("crf", "memm", "pl", "pl_joint"), _prepare_likelihood),
    **dict.fromkeys(BASES, _prepare_m_estimation),
}


# --- grids ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Grid:
    """One estimator with one feature set on the first sentences, for all c.

    n: number of sentences, None: all. by: scores on tuning data ("f1", "p") for model selection;
    with all sentences, the best model by each score is stored. wide: for values of c beyond those
    of the paper, too.
    """

    features: str
    method: str
    n: int | None = None
    by: tuple[str, ...] = ("f1",)
    wide: bool = False

    @property
    def name(self) -> str:
        return f"{self.features}.{self.method}.{self.n or 'all'}{'.wide' if self.wide else ''}"

    @property
    def strengths(self) -> tuple[float | None, ...]:
        if self.method == "hmm":
            return (None,)
        return WIDE if self.wide else STRENGTHS

    def path(self, work: Path, c: float | None) -> Path:
        """Return the path of the scores of one model."""
        return work / f"{self.name}.{'none' if c is None else f'{c:.3f}'}.json"

    def model_path(self, work: Path, by: str) -> Path:
        """Return the path of the best model by a score."""
        return work / f"{self.name}.{by}.model"

    def runs(self, work: Path) -> list[dict[str, Any]]:
        """Return the finished runs in the order of `strengths`."""
        paths = [self.path(work, c) for c in self.strengths]
        return [srsly.read_json(path) for path in paths if path.exists()]

    def missing(self, work: Path, strengths: Sequence[float | None]) -> list[float | None]:
        """Return the unfinished `strengths`. An HMM has no strength and is trained once."""
        wanted = [c for c in self.strengths if c in strengths or self.method == "hmm"]
        return [c for c in wanted if not self.path(work, c).exists()]

    def is_finished(self, work: Path) -> bool:
        return not self.missing(work, self.strengths)

    def run(self, corpora: Path, work: Path, strengths: Sequence[float | None]) -> None:
        """Train and score missing models."""
        tuning = tuning_data(corpora)
        data = training_data(corpora, self.n)
        start = process_time()
        prepared = prepare(self.features, self.method, data)
        preparation = process_time() - start
        for c in self.missing(work, strengths):
            start = process_time()
            model, iterations = prepared.fit(c)
            seconds = process_time() - start
            run = {
                "c": c,
                "iterations": iterations,
                "cpu_s": preparation + seconds,
                "features": prepared.n_features,
                **percentages(tuning.score(model), "tuning"),
            }
            runs = [*self.runs(work), run]
            # Store the model before its scores, which refer to it.
            for by in self.by if self.n is None else ():
                if chosen(runs, by) is run:
                    write_bytes(self.model_path(work, by), model.compact("float32").to_bytes())
            write_bytes(self.path(work, c), srsly.json_dumps(run).encode())


def chosen(runs: Iterable[dict[str, Any]], by: str) -> dict[str, Any]:
    """Return the run with the best score on tuning data, and the smallest c if scores are equal."""
    return max(runs, key=lambda run: (run[f"tuning_{by}"], -(run["c"] or np.inf)))


def percentages(score: ConllEval, data: str) -> dict[str, float]:
    """Return F1, precision and recall in percent. data: "tuning" or "test"."""
    figures = {"f1": score.f1, "p": score.precision, "r": score.recall}
    return {f"{data}_{name}": 100 * value for name, value in figures.items()}
