"""Training: one loop for all learners, with its progress, identity, checkpoints and resumption.

A learner gives what it does in one step, its state, and the value of its objective; everything else
is here. A training that goes on from its state ends, bit for bit, where it would have ended.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from copy import copy
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from ..errors import StructlearnError
from ..parallel.shards import MakeEngine, make_engine
from ..serialization import DAMAGE, flag, nested, pack, reading, restore, unpack
from .settings import Settings

CHECKPOINT_SECONDS = 30
KIND, _VERSION = "training", 1
_RUN_KIND = "training_run"
_OTHERS = {"SL052", "SL053"}  # a file of ours of another kind, or of an earlier version

S = TypeVar("S", bound=Settings)
Callback = Callable[[int, str, int, float], None]
"""Called between the parts of a step with a number, the phase, the iteration and the log-likelihood
or, where there is none, minus the objective."""

logger = logging.getLogger("spacy_structlearn")


class Trainer(Generic[S]):
    """Improves parameters one step at a time, and can take in more data between steps.

    A subclass gives `take`, `iterate`, `parameters` and `data_digest`, and `state` and `restore` if
    it has more to keep than `kept` names. Its constructor ends with `self.add(data)`.

    settings: of the learner. make_engine: makes the engine that has the shards of the data, see
    `parallel.shards`.
    Attributes: value, the objective at the present parameters, smaller is better; n_iterations,
    steps so far; finished, whether nothing is left to improve; on_iteration, called between the
    parts of a long step, where the state may be saved too.
    """

    kept: ClassVar[tuple[str, ...]] = ()
    """Names of further attributes that are the state: numbers, strings, arrays, lists of these."""

    def __init__(self, settings: S, *, make_engine: MakeEngine = make_engine):
        self.settings = settings
        self.make_engine = make_engine
        self.value = 0.0
        self.n_iterations = 0
        self.finished = False
        self.on_iteration: Callback | None = None
        self._identity: str | None = None

    # --- for the learner ------------------------------------------------------------------------
    def take(self, data: Any) -> None:
        """Extend the training data."""
        raise NotImplementedError

    def iterate(self) -> bool:
        """One step, which sets `value` and `n_iterations`. Returns False if it was the last."""
        raise NotImplementedError

    def parameters(self) -> Any:
        """What is learned so far: the family's model object, a copy."""
        raise NotImplementedError

    def data_digest(self) -> bytes:
        """Equal for data and first parameters with which training has the same course.

        It does not depend on how far training is; it is asked for once for each `take`.
        """
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """What `serialization.pack` can store and `restore` takes."""
        return {name: getattr(self, name) for name in self.kept}

    def restore(self, state: dict[str, Any]) -> bool | None:
        """Set what `state` gave; False if it does not go with the data or the settings.

        It works on a copy of the trainer, which is thrown away if it fails. Only arrays that are
        changed in place must not be touched before everything is checked.
        Raises an error in `serialization.DAMAGE` for what is not such a state.
        """
        restore(self, self.kept, state)
        return None

    def close(self) -> None:
        """Let go of threads and of what can be made again."""

    # --- owned ------------------------------------------------------------------------------------
    def add(self, data: Any) -> None:
        """Take in data; the next step goes on from the present parameters."""
        self.take(data)
        self.finished = False
        self._identity = None

    def step(self) -> bool:
        """One step. Returns False once nothing is left to improve."""
        if not self.finished:
            self.finished = not self.iterate()
            if self.finished:
                self.close()
        return not self.finished

    def report(self, number: int, phase: str, iteration: int, value: float) -> None:
        """Tell who listens about a part of a step; see `Callback`."""
        if self.on_iteration is not None:
            self.on_iteration(number, phase, iteration, value)

    def identity(self) -> str:
        """Equal for data and settings with which training has the same result."""
        if self._identity is None:
            digest = blake2b(type(self).__name__.encode(), digest_size=16)
            digest.update(self.settings.digest().encode())
            digest.update(self.data_digest())
            self._identity = digest.hexdigest()
        return self._identity

    def to_bytes(self) -> bytes:
        """The state of the training, without data and settings."""
        return pack(
            KIND,
            _VERSION,
            {
                "identity": self.identity(),
                "value": float(self.value),
                "n_iterations": int(self.n_iterations),
                "finished": self.finished,
                "state": self.state(),
            },
        )

    def resume(self, state: bytes) -> bool:
        """Go on from `to_bytes`. Returns False, and changes nothing, if it is of other data or
        settings.

        Raises StructlearnError SL050 to SL054 if the bytes are not such a state.
        """
        _, fields = unpack(state, KIND, {_VERSION})
        if fields.get("identity") != self.identity():
            return False
        with reading(KIND):
            fresh = copy(self)
            value, n_iterations = float(fields["value"]), int(fields["n_iterations"])
            finished = flag(fields["finished"])
            if fresh.restore(fields["state"]) is False:
                return False
            fresh.value, fresh.n_iterations, fresh.finished = value, n_iterations, finished
        self.__dict__.update(fresh.__dict__)
        return True

    def run(
        self,
        *,
        on_iteration: Callable[[int, float], None] | None = None,
        checkpoint: Path | None = None,
        settings: str | None = None,
        keep: bool = False,
    ) -> Any:
        """Train to the end.

        on_iteration: called after each step, and between the parts of a long one, with the number
            of steps and the objective.
        checkpoint: a file for the state, written twice a minute, gone at the end. If it is there
            and of the same data and settings, training goes on from it; if of others, it begins
            anew, and the log says so. settings: what tells other settings besides. keep: leave the
            finished state in the file.
        Returns the parameters. Raises StructlearnError SL085 for a checkpoint that is damaged.
        """
        if checkpoint is not None and checkpoint.exists():
            self._go_on(checkpoint, settings)
        saved = monotonic()

        def report(value: float) -> None:
            nonlocal saved
            if on_iteration is not None:
                on_iteration(self.n_iterations, value)
            if checkpoint is not None and monotonic() - saved > CHECKPOINT_SECONDS:
                self._save(checkpoint, settings)
                saved = monotonic()

        self.on_iteration = lambda *parts: report(-parts[-1])
        try:
            while self.step():
                report(self.value)
        finally:
            self.on_iteration = None
        parameters = self.parameters()
        if checkpoint is not None and keep:
            self._save(checkpoint, settings)
        elif checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        return parameters

    def _save(self, checkpoint: Path, settings: str | None) -> None:
        fields = {"state": nested(self.to_bytes()), "settings": settings}
        write_bytes(checkpoint, pack(_RUN_KIND, _VERSION, fields))

    def _go_on(self, checkpoint: Path, settings: str | None) -> None:
        try:
            _, fields = unpack(checkpoint.read_bytes(), _RUN_KIND, {_VERSION})
            with reading(_RUN_KIND, *_OTHERS):
                state = fields["state"].tobytes()
                resumed = fields["settings"] == settings and self.resume(state)
        except DAMAGE as error:
            if not isinstance(error, StructlearnError) or error.code not in _OTHERS:
                problem = f"{error}".rstrip(".")
                raise StructlearnError("SL085", path=checkpoint, problem=problem) from error
            resumed = False
        if not resumed:
            logger.warning("%s is of other data or settings: training begins anew", checkpoint)


class Estimator(Protocol):
    """How parameters are learned: the `Settings` of a registered architecture."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The token attributes that the learner reads."""
        ...

    def empty(self) -> Any:
        """What an untrained component holds."""
        ...

    def initialize(self, data: Sequence[Any], labels: Sequence[str], previous: Any = None) -> Any:
        """Parameters to train: features are those of `data`, `previous` what was learned before."""
        ...

    def trainer(
        self, parameters: Any, data: Sequence[Any], *, make_engine: MakeEngine = make_engine
    ) -> Trainer:
        """Training from `parameters` on `data`."""
        ...


def array_digest(*parts: Any) -> bytes:
    """A digest of arrays, and of whatever else by its `repr`."""
    digest = blake2b(digest_size=16)
    for part in parts:
        if hasattr(part, "dtype"):
            digest.update(repr((part.dtype.str, part.shape)).encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(part if isinstance(part, bytes) else repr(part).encode())
    return digest.digest()


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file beside `path`, then rename: it is never there in part."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_bytes(data)
    os.replace(fresh, path)
