"""Settings of the classifiers, one class for each registered architecture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..errors import StructlearnError
from ..learning import settings as core
from ..learning.settings import Settings, Variants, quoted, setting

VARIANCES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Prior variances that l2 "search" compares on development data."""
SEARCH_L2 = 1.0
"""The value of l2 during a template search, if l2 is still to be chosen."""


@dataclass(frozen=True, kw_only=True)
class ClassifierSettings(Settings):
    """Settings that all classifiers share."""

    strengths: ClassVar[tuple[float, ...]] = (1.0, 0.3, 3.0, 10.0)
    """Strengths of the prior to choose from when a model learns on; the first is the default."""

    classes: Path | None = setting(
        None,
        identity=False,
        help="File of word classes (`WordClasses.to_bytes`), needed in training only.",
    )


@dataclass(frozen=True, kw_only=True)
class BayesNetSettings(ClassifierSettings):
    """Bayesian network over nominal variables (Toutanova 2006): trains in a second.

    Structure and smoothing are selected by leave-one-out on the training data.
    """

    name = "BayesNet"
    variants: ClassVar[Variants] = {"joint": {"fit_d": "joint"}, "naive": {"structure": "naive"}}

    structure: str | Mapping[str, Sequence[str]] = setting(
        "search",
        choices=("naive", "search"),
        help='"naive": the label is the only parent. "search": greedy search. Or the parents of '
        "each variable; the label is always a parent and not listed.",
    )
    fit_d: str | None = setting(
        "conditional",
        choices=("conditional", "joint"),
        help="Likelihood that the parameters d of Witten-Bell smoothing maximise. None: all d are "
        "1.",
    )
    n_d: str = setting(
        "many", choices=("one", "many"), help="One d for all contexts, or one for each type."
    )
    smoothing: str = setting(
        "witten_bell",
        choices=("witten_bell", "uniform"),
        help="Interpolated Witten-Bell smoothing, or (for comparison) 0.9 times the relative "
        "frequency plus 0.1 times the uniform distribution.",
    )
    max_parents: int = setting(
        3, ge=1, help="Maximum number of parents of a variable in a search, including the label."
    )


@dataclass(frozen=True, kw_only=True)
class LogLinearSettings(ClassifierSettings):
    """Conditional log-linear model of conjunctions of nominal variables (Toutanova 2006).

    Templates and l2 are selected on a tenth of the training data, held out.
    """

    name = "LogLinear"
    variants: ClassVar[Variants] = {
        "pairs": {"templates": "pairs"},
        "stacked": {
            "templates": "pairs",
            "base": {"@architectures": "spacy_structlearn.BayesNet.v1"},
        },
    }

    templates: str | Sequence[Sequence[str]] = setting(
        "search",
        choices=("single", "pairs", "search"),
        help='"single": a feature for each value of each variable. "pairs": for pairs of values, '
        'too. "search": greedy search for conjunctions. Or a list of lists of variables.',
    )
    l2: float | str | Sequence[float] = core.l2(
        1.0,
        more='A list of values to select from, or "search" for the usual values.',
        choices=("search",),
    )
    min_count: int = setting(1, ge=1, help="Minimum number of training instances with a feature.")
    nested: bool = setting(
        True,
        exposed=False,
        help="False for the ablation in section 4 of the paper (with a search and l2 = 1e-4): each "
        "step of the search adds the conjunction of a new variable and some variables already "
        "used, as in a Bayesian network, without the subsets of the conjunction.",
    )
    base: BayesNetSettings | None = setting(
        None,
        help="Settings of a Bayesian network (a block of its own) whose log-probabilities are a "
        "feature; in training they are leave-one-out estimates. The prior on the coefficient has "
        "mean 1.",
    )
    max_iterations: int = setting(
        200, ge=1, help="Maximum number of L-BFGS iterations for a model."
    )
    tolerance: float = setting(
        1e-5,
        ge=0,
        help="Training ends when no scaled derivative exceeds this (times the largest parameter if "
        "that is above 1).",
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        if not isinstance(self.templates, str):
            wanted = "a list of different lists of different variables"
            sets = [frozenset(template) for template in self.templates]
            sizes = [len(template) for template in self.templates]
            different = len(set(sets)) == len(sets) and [len(names) for names in sets] == sizes
            yield "templates", wanted, different and all(sizes)
        yield "l2", "a list of one number or more", self.l2 != ()

    @property
    def l2_values(self) -> tuple[float, ...]:
        """The values of l2 to select from, the strongest first."""
        if self.l2 == "search":
            return tuple(1.0 / variance for variance in VARIANCES)
        values = self.l2 if isinstance(self.l2, tuple) else (self.l2,)
        return tuple(sorted({float(value) for value in values}, reverse=True))

    @property
    def needs_dev(self) -> bool:
        """Whether something is selected on development data."""
        return self.templates == "search" or len(self.l2_values) > 1


@dataclass(frozen=True, kw_only=True)
class StagesSettings(Settings):
    """Several classifiers, trained one after another and stored as one model."""

    name = "Stages"
    strengths: ClassVar[tuple[float, ...]] = (3.0, 1.0, 10.0, 30.0)

    stages: Mapping[str, Any] = setting(
        help="A LogLinear or BayesNet architecture for each stage, without word classes; in a "
        "config, a section with a section for each stage. Stages that `order` does not name are "
        "ignored."
    )
    order: Sequence[str] = setting(
        help="Names of the stages in training order; the last stage is the main one."
    )
    classes: Path | None = setting(
        None,
        identity=False,
        help="File of word classes (`WordClasses.to_bytes`) for all stages, needed in training "
        "only.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.order or len(set(self.order)) < len(self.order):
            raise StructlearnError("SL533", order=", ".join(self.order) or "empty")
        for stage in self.order:
            if stage not in self.stages:
                self.refuse("order", f"names of stages, which are {', '.join(self.stages)}")
            if not isinstance(self.stages[stage], ClassifierSettings):
                raise StructlearnError("SL531", stage=stage, found=quoted(self.stages[stage]))
            if self.stages[stage].classes is not None:
                raise StructlearnError("SL532", stage=stage)
        object.__setattr__(self, "stages", {stage: self.stages[stage] for stage in self.order})


AnySettings = BayesNetSettings | LogLinearSettings | StagesSettings
