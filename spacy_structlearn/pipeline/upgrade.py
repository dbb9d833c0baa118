"""Upgrade of configs and pipelines from version 1 of the architectures.

An architecture whose settings got other names or other units has a new version. The old version is
still registered, and its error says what has changed. `upgraded` and `upgrade_pipeline` convert
what is stored. Parameters need no conversion: their classes read old files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, NamedTuple

from confection import Config
from spacy.util import registry

from ..errors import StructlearnError
from ..learning.settings import signature
from ..reading import check_within, nested_sections
from . import digests
from .fitting import is_pipeline, replaced_whole


class Change(NamedTuple):
    """The change of a setting.

    name: the new name. None if the setting was removed.
    value: function from the old value to the new value.
    said: description of a changed value.
    only: the only value that a removed setting may have. None: any value is dropped.
    """

    name: str | None
    value: Callable[[Any], Any] = lambda value: value
    said: str = ""
    only: Any = None

    def __str__(self) -> str:
        if self.name is None:
            return "was taken out"
        return f"is now {self.name}" + (f" ({self.said})" if self.said else "")


def _twice(value: float) -> float:
    return 2 * value


def _inverse(value: float | None) -> float:
    return 0.0 if value is None else 1 / value


def _as_in_parsing(threshold: float) -> float | None:
    """The old default was that of parsing, which has changed."""
    return None if threshold == 1e-4 else threshold


_CHAIN = {"min_frequency": Change("min_count")}
_L2 = {"l2": Change("l2", _twice, "twice the value, of l2 |w|^2 / 2")}
_C = Change("l2", _inverse, "1 / c")
_EPOCHS = {"epochs": Change("max_iterations")}
_RARE = {
    "rare": Change("min_word_count", lambda n: None if n is None else n + 1, "one more"),
}
_FORESTS = {"threshold": Change("threshold", _as_in_parsing, "None instead of 0.0001")}
_SPANS = {"min_count": Change("min_word_count"), "l1": Change("l1_per_sentence")}
CHANGES: dict[str, dict[str, Change]] = {
    "CRF": _CHAIN | _L2,
    "MEMM": _CHAIN | _L2,
    "PseudoLikelihood": _CHAIN | _L2,
    "Perceptron": _CHAIN | {"max_epochs": Change("max_iterations")},
    "StochasticCRF": _CHAIN | {"max_epochs": Change("max_iterations")},
    "MEstimation": _CHAIN | {"c": _C},
    "LatentGrammar": _RARE,
    "ConditionalGrammar": _RARE
    | _L2
    | {
        "iterations": Change("conditional_iterations"),
        "iteration_tolerance": Change("conditional_tolerance"),
        "scales": Change(None, only="own"),
        "solver": Change(None, only="lbfgs"),
        "learn_rate": Change(None),
        "batch_size": Change(None),
    },
    "SpanGrammar": _SPANS | _EPOCHS | _FORESTS,
    "MEstimatedGrammar": {
        "c": _C,
        "l2": Change("conditional_l2", _twice, "twice the value, of l2 |w|^2 / 2"),
        "max_passes": Change("max_iterations"),
    },
    "ISBN": _EPOCHS
    | {
        "threshold": Change("min_word_count"),
        "fuse": Change("min_chain_count"),
        "l2": Change("weight_decay"),
    },
    "BayesNet": {"prior_variance": Change("l2", _inverse, "1 / prior_variance")},
}
"""The changed settings of version 1 of each architecture."""


def upgraded(config: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """Convert a config, or a section of one, to the current architectures and settings.

    place: the name of the section.
    Raises StructlearnError for a variable in place of a value whose unit has changed, and for a
    removed setting with another value than the current behaviour.
    """
    changes: Mapping[str, Change] = {}
    section = dict(config)
    for kind in ("@architectures", "@misc"):
        learner = _learner(section.get(kind))
        if learner is not None:
            section[kind] = current(learner)
            changes = CHANGES[learner]
        elif (learner := _learner(section.get(kind), 2)) is not None:
            changes = {n: change for n, change in CHANGES[learner].items() if change.name is None}
    current_settings: dict[str, Any] = {}
    for name, value in section.items():
        inside = f"{place}.{name}".lstrip(".")
        change = changes.get(name, Change(name))
        if change.name is None:
            if change.only is not None and value != change.only:
                raise StructlearnError("SL046", setting=inside, value=value, only=change.only)
            continue
        if isinstance(value, Mapping):
            value = upgraded(value, inside)
        elif change.said and isinstance(value, str):
            raise StructlearnError("SL045", setting=inside, value=value, change=change.said)
        current_settings[change.name] = change.value(value)
    return current_settings


def upgrade_pipeline(path: Path, output: Path) -> None:
    """Convert a stored pipeline to this version, completely or not at all.

    output: a folder, which may be `path` itself.
    Raises StructlearnError like `upgraded`, for a damaged pipeline, and if `output` exists and is
    not a pipeline.
    """
    if not is_pipeline(path):
        raise StructlearnError("SL071", path=path)
    check_within(path)
    digests.check(path)
    config = Config(upgraded(read_config(path / "config.cfg")))
    with replaced_whole(output) as fresh:
        shutil.copytree(path, fresh)
        config.to_disk(fresh / "config.cfg")


def read_config(path: Path) -> Config:
    """Read a config without resolving its variables. Raises SL056 for deeply nested sections."""
    with nested_sections(path):
        return Config().from_disk(path, interpolate=False)


def current(learner: str) -> str:
    """Get the registered name of a learner, such as "CRF", in its current version."""
    return _registered(learner, 2 if learner in CHANGES else 1)


def _registered(learner: str, version: int) -> str:
    return f"spacy_structlearn.{learner}.v{version}"


def _learner(name: Any, version: int = 1) -> str | None:
    """Get the learner of a registered name of this version; None for all other names."""
    return next((learner for learner in CHANGES if name == _registered(learner, version)), None)


def refuse_bilstm_encoder(*, width: int = 0, depth: int = 0, seed: int = 0) -> None:
    """Raise StructlearnError for an architecture that was taken out.

    width, depth, seed: its settings.
    """
    raise StructlearnError("SL047", old="spacy_structlearn.BiLSTMEncoder.v1")


def __getattr__(name: str) -> Callable[..., Any]:
    """Get an architecture of version 1, for the entry points."""
    if name not in CHANGES:
        raise AttributeError(name)
    old, new, changes = _registered(name, 1), current(name), CHANGES[name]

    def refuse(**settings: Any) -> Any:
        said = (f"{before} {change}" for before, change in changes.items())
        raise StructlearnError("SL044", old=old, new=new, changes=", ".join(said))

    # Accepts all old and new settings, so that the error about the changes is raised.
    kind = registry.misc if name == "span_features" else registry.architectures
    names = dict.fromkeys([*changes, *signature(kind.get(new).settings).parameters])
    refuse.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(n, Parameter.KEYWORD_ONLY, default=None, annotation=Any) for n in names]
    )
    return refuse
