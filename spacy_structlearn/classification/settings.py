"""Settings of classifiers; see the modules of the same names for what they set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import StructlearnError
from ..learning import settings as core
from ..learning.settings import Settings, setting
from ..parallel.shards import MakeEngine, make_engine

if TYPE_CHECKING:
    from .bayes_net import BayesNet
    from .features import ClassificationData
    from .log_linear import LogLinear
    from .stages import Stages, StagesData, StagesTrainer
    from .training import BayesNetTrainer, LogLinearTrainer

C = TypeVar("C", bound="ClassifierSettings")

VARIANCES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Of the prior, of which l2 "search" takes the best on development data."""
SEARCH_L2 = 1.0
"""Where l2 is to be chosen, it is this while templates are searched for."""


@dataclass(frozen=True, kw_only=True)
class ClassifierSettings(Settings):
    """What the settings of all classifiers have."""

    min_gain: float = setting(
        0.0, help="Accuracy, as a share, that a step of the search must gain more than."
    )
    recount: bool = setting(
        False, exposed=False, help="Learn again with the development data, once all is chosen."
    )
    classes: Path | None = setting(
        None,
        identity=False,
        help="File of word classes (`WordClasses.to_bytes`), needed in training only. Components "
        "make variables of them.",
    )

    def stored(self) -> dict[str, Any]:
        """What a model stores of its settings; mappings as pairs, since their order counts."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        del values["classes"]
        return values

    @classmethod
    def of(cls: type[C], stored: Mapping[str, Any]) -> C:
        """The settings that `stored` gave."""
        return cls(**stored)

    def kept(self: C) -> C:
        """The settings that a model holds: all but the file of word classes."""
        return self.part(type(self), classes=None)


@dataclass(frozen=True, kw_only=True)
class BayesNetSettings(ClassifierSettings):
    """Bayesian network over nominal variables (Toutanova 2006): the whole training in a second.

    Structure and smoothing are chosen by leave-one-out on the training data.
    """

    name = "BayesNet"

    structure: str | Mapping[str, Sequence[str]] = setting(
        "search",
        choices=("naive", "search", "exhaustive"),
        help="No parents but the label, a greedy search, a search for few variables, or the "
        "parents of each variable that is used; the label is a parent of all and not named.",
    )
    fit_d: str | None = setting(
        "conditional",
        choices=("conditional", "joint"),
        help="Likelihood that the parameters d of Witten-Bell smoothing are fitted to. None: all "
        "are 1.",
    )
    n_d: str = setting(
        "many", choices=("one", "many"), help="One d for all, or one for each type of context."
    )
    smoothing: str = setting(
        "witten_bell",
        choices=("witten_bell", "uniform"),
        help="Interpolated Witten-Bell, or for comparison 0.9 of the relative frequency and 0.1 of "
        "the uniform distribution.",
    )
    max_parents: int = setting(
        3, ge=1, help="Parents of a variable in a search, the label counted."
    )
    l2: float = core.l2(1.0, "logarithms of d,")

    def stored(self) -> dict[str, Any]:
        values = super().stored()
        if isinstance(self.structure, Mapping):
            values["structure"] = [list(pair) for pair in self.structure.items()]
        return values

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> BayesNetSettings:
        values = dict(stored)
        if isinstance(values["structure"], list):
            values["structure"] = dict(values["structure"])
        if "prior_variance" in values:  # as files had it before
            variance = values.pop("prior_variance")
            if not variance > 0:
                raise ValueError("a variance that is not positive")
            values["l2"] = 1.0 / variance
        return cls(**values)

    def empty(self) -> BayesNet:
        """A network without labels."""
        from .bayes_net import BayesNet

        return BayesNet()

    def initialize(
        self,
        data: Sequence[ClassificationData],
        labels: Sequence[str],
        previous: BayesNet | None = None,
    ) -> BayesNet:
        """A network without variables in its structure, which knows the labels and the variables of
        `data`; what was learned before has no part in it.
        """
        from .bayes_net import BayesNet

        net = BayesNet(BayesNetSettings(structure={}, fit_d=None))
        return net.fit([], (), variables=data[0].table.variables, known_labels=labels)

    def trainer(
        self,
        parameters: BayesNet,
        data: Sequence[ClassificationData],
        *,
        make_engine: MakeEngine = make_engine,
    ) -> BayesNetTrainer:
        """Training, which follows from the data and the labels alone."""
        from .training import BayesNetTrainer

        return BayesNetTrainer(self, parameters, data, make_engine=make_engine)


@dataclass(frozen=True, kw_only=True)
class LogLinearSettings(ClassifierSettings):
    """Conditional log-linear model of conjunctions of nominal variables (Toutanova 2006).

    What is to be chosen is chosen on a tenth of the training data.
    """

    name = "LogLinear"

    templates: str | Sequence[Sequence[str]] = setting(
        "search",
        choices=("single", "pairs", "search"),
        help="A feature for each value of each variable, also for each pair of values, a search "
        "for the conjunctions that are worth it, or a list of lists of variables.",
    )
    l2: float | str | Sequence[float] = core.l2(
        1.0, more='A list to choose from, or "search" for the usual ones.', choices=("search",)
    )
    l2_per_label: Mapping[str, float] | None = setting(
        None, ge=0, help="Another strength of the prior for the weights of some labels."
    )
    max_conjunction: int = setting(3, ge=1, help="Variables of a template in a search, at most.")
    max_templates: int | None = setting(
        None, ge=0, help="Steps of the search, at most. None: no limit."
    )
    min_count: int = setting(
        1, ge=1, help="Features seen less often in the training data are left out."
    )
    nested: bool = setting(
        True,
        exposed=False,
        help="False in the ablation of section 4 of the paper, with a search and l2 1e-4: the "
        "structure has to be that of a Bayesian network without features for subsets of "
        "conjunctions. A step places a variable with a set of variables placed before, and the "
        "template is that of all these together alone.",
    )
    base: BayesNetSettings | None = setting(
        None,
        help="A Bayesian network, in a block of its own, whose probabilities are features too: "
        "those of the training data by leave-one-out. The prior of its coefficient has the mean 1.",
    )
    max_iterations: int = setting(200, ge=1, help="Iterations of L-BFGS for one model, at most.")
    tolerance: float = setting(
        1e-5,
        ge=0,
        help="Training ends when no derivative, in the units of estimation, is above it (times the "
        "largest parameter, if that is above 1).",
    )
    search_tolerance: float | None = setting(
        None,
        ge=0,
        help="Tolerance for the models that a search compares; 1e-3 makes it several times faster. "
        "None: tolerance.",
    )

    def constraints(self) -> Iterable[tuple[str, str, Any]]:
        if not isinstance(self.templates, str):
            wanted = "a list of different lists of different variables"
            sets = [frozenset(template) for template in self.templates]
            sizes = [len(template) for template in self.templates]
            different = len(set(sets)) == len(sets) and [len(names) for names in sets] == sizes
            yield "templates", wanted, different and all(sizes)
        yield "l2", "a list of one number or more", self.l2 != ()

    def stored(self) -> dict[str, Any]:
        values = super().stored()
        values["base"] = None if self.base is None else self.base.stored()
        return values

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> LogLinearSettings:
        base = stored.get("base")
        return cls(**{**stored, "base": None if base is None else BayesNetSettings.of(base)})

    def kept(self) -> LogLinearSettings:
        base = None if self.base is None else self.base.kept()
        return self.part(LogLinearSettings, classes=None, base=base)

    @property
    def l2_values(self) -> tuple[float, ...]:
        """The values of l2 among which is chosen; the strongest first."""
        if self.l2 == "search":
            return tuple(1.0 / variance for variance in VARIANCES)
        values = self.l2 if isinstance(self.l2, tuple) else (self.l2,)
        return tuple(sorted({float(value) for value in values}, reverse=True))

    @property
    def search_l2(self) -> float:
        """The value of l2 while templates are searched for."""
        return self.l2_values[0] if len(self.l2_values) == 1 else SEARCH_L2

    @property
    def needs_dev(self) -> bool:
        """Whether something is selected on development data."""
        return self.templates == "search" or len(self.l2_values) > 1

    def empty(self) -> LogLinear:
        """A model without labels."""
        from .log_linear import LogLinear

        return LogLinear()

    def initialize(
        self,
        data: Sequence[ClassificationData],
        labels: Sequence[str],
        previous: LogLinear | None = None,
    ) -> LogLinear:
        """A model without features, which knows the labels and the variables of `data`; what was
        learned before has no part in it.
        """
        from .log_linear import LogLinear

        return LogLinear(self, labels=sorted(set(labels)), variables=data[0].table.variables)

    def trainer(
        self,
        parameters: LogLinear,
        data: Sequence[ClassificationData],
        *,
        make_engine: MakeEngine = make_engine,
    ) -> LogLinearTrainer:
        """Training, which follows from the data and the labels alone."""
        from .training import LogLinearTrainer

        return LogLinearTrainer(self, parameters, data, make_engine=make_engine)


@dataclass(frozen=True, kw_only=True)
class StagesSettings(Settings):
    """Several classifiers, learned one after another and stored as one model."""

    name = "Stages"

    stages: Mapping[str, Any] = setting(
        help="An architecture for each stage, LogLinear or BayesNet, without word classes: in a "
        "config a section, with a section for each stage in it. Those that `order` does not name "
        "are left out."
    )
    order: Sequence[str] = setting(
        help="Names of the stages in the order of learning; the last is the main stage."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.order or len(set(self.order)) < len(self.order):
            raise StructlearnError("SL533", order=", ".join(self.order) or "empty")
        for stage in self.order:
            if stage not in self.stages:
                raise StructlearnError("SL530", stage=stage, known=", ".join(self.stages))
            if not isinstance(self.stages[stage], ClassifierSettings):
                found = type(self.stages[stage]).__name__
                raise StructlearnError("SL531", stage=stage, found=found)
            if self.stages[stage].classes is not None:
                raise StructlearnError("SL532", stage=stage)
        object.__setattr__(self, "stages", {stage: self.stages[stage] for stage in self.order})

    def empty(self) -> Stages:
        """A model whose stages are empty."""
        from .stages import Stages

        return Stages({stage: settings.empty() for stage, settings in self.stages.items()})

    def initialize(
        self,
        data: Sequence[StagesData],
        labels: Sequence[str],
        previous: Stages | None = None,
    ) -> Stages:
        """Classifiers that know the variables and the labels of `data`, and nothing else.

        labels: of the main stage; every other one has those of its instances. A stage without
        instances stays empty; the main one knows its labels then. What `data` has of other stages
        is passed over, and what was learned before has no part in it.
        """
        from .stages import Stages, initialized, instances_of

        classifiers = {}
        for stage, settings in self.stages.items():
            instances = instances_of(data, stage)
            known: Collection[str] = {label for part in instances for label in part.labels}
            if stage == self.order[-1]:
                known = labels
            classifiers[stage] = initialized(settings, instances, known)
        return Stages(classifiers)

    def trainer(
        self,
        parameters: Stages,
        data: Sequence[StagesData],
        *,
        make_engine: MakeEngine = make_engine,
    ) -> StagesTrainer:
        """Training, which follows from the data and the labels alone."""
        from .stages import StagesTrainer

        return StagesTrainer(self, parameters, data, make_engine=make_engine)
