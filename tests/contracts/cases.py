"""What the contracts are about: every learner and every stored model, each listed once.

A family lists its learners in a file `<family>_learners.py` of this folder, as `CASES`, and its
stored models as `STORED`. Components with their learners are listed in `components.py`. The tests
of families and components need not repeat what is checked here for all of them:

test_settings: help, types, bounds and choices of every setting, errors for wrong values, that a
    config can name all settings and no others, factories and architectures.
test_learners: empty parameters, the end of training, resumption bit for bit after and within steps
    and from a checkpoint, states of other data or settings and damaged ones, order and parts of the
    data, data added after the end, threads, and that parameters are a copy.
test_learning_on: strengths, who refuses, that old parameters and, with a strong prior, predictions
    stay, learning on twice, resumption.
test_stored: bytes, pickles, copies, equality, changed copies, flipped bits, fields of other types.
test_components: training, probabilities, odd, empty and long texts, white space, batches, other
    vocabs, threads and processes, annotations of others, stored, joined and cut Docs, round trips
    by disk, bytes and pickle, damage, steps and checkpoints of training, missing gold, labels,
    models of other families, settings, decoders and constraints of parsers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from spacy_structlearn.learning.settings import Settings
from spacy_structlearn.pipeline.architectures import estimator

FAMILIES = sorted(f"contracts.{path.stem}" for path in Path(__file__).parent.glob("*_learners.py"))


@dataclass(frozen=True)
class Case:
    """A learner with settings that make it quick, and data for it.

    data: makes a list of three parts or more, each of which can be learned from by itself; other:
    makes other data of the same labels. labels: for `initialize`. same_in_any_order: whether what
    is learned does not depend on the order and the number of the parts, bit for bit.
    initial: makes the parameters that training begins with; None: those of `initialize`.
    changes: settings with which training has another result.
    """

    name: str
    settings: Settings
    data: Callable[[], list[Any]]
    other: Callable[[], list[Any]]
    labels: tuple[str, ...] = ()
    same_in_any_order: bool = False
    changes: tuple[dict[str, Any], ...] = ()

    def parameters(self) -> Any:
        return estimator(self.settings).initialize(self.data(), self.labels)

    def trainer(self, data: list[Any] | None = None, **changes: Any) -> Any:
        """Training from the start."""
        settings = self.settings.part(type(self.settings), **changes)
        data = self.data() if data is None else data
        return estimator(settings).trainer(self.parameters(), data)


@dataclass(frozen=True)
class Model:
    """A stored model.

    make: makes one, the same each time. change: arguments of `replaced` that make another one.
    """

    name: str
    make: Callable[[], Any]
    change: dict[str, Any]


def listed(name: str) -> list[Any]:
    return [item for family in FAMILIES for item in getattr(import_module(family), name, ())]


@cache
def trained(name: str) -> Any:
    """The parameters of a case at the end of its training."""
    (case,) = (case for case in listed("CASES") if case.name == name)
    return end(case.trainer())


def end(trainer: Any) -> Any:
    while trainer.step():
        pass
    return trainer.parameters()


def classes(base: type) -> list[type]:
    """All that inherit from a class, with a name of their own in configs."""
    found = [base]
    for kind in found:
        found += [inherits for inherits in kind.__subclasses__() if inherits not in found]
    return found[1:]
