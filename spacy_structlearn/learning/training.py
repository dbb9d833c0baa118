"""The training loop of all learners, with progress, checkpoints and resumption.

A learner provides a training step, its state, and the value of its objective. Resumed training has
the same result as uninterrupted training, bit for bit.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ..errors import StructlearnError
from ..reading import read_bytes
from ..serialization import DAMAGE, Bytes, flag, pack, reading, restore, unpack
from ..writing import write_bytes
from .settings import Settings

CHECKPOINT_SECONDS = 30
KIND, _VERSION = "training", 3
_NOT_OURS = {"SL052", "SL053"}  # a file of another kind or an earlier version

S = TypeVar("S", bound=Settings)
Callback = Callable[[float], None]
"""Called between the parts of a step with the log-likelihood or minus the objective."""

logger = logging.getLogger("spacy_structlearn")


class Trainer(Generic[S]):
    """Improves parameters one step at a time; data can be added between steps.

    A subclass implements `_add`, `iterate`, `parameters` and `data_digest`. It also implements
    `state` and `restore` if its state is more than the attributes in `saved` and `parts`. Its
    constructor ends with `self.add(data)`.

    Attributes:
    value: the objective at the current parameters; smaller is better.
    n_iterations: number of steps so far.
    on_iteration: called between the parts of a long step, when the state may be saved.
    best: what `run` was told to keep: a score and a model, as bytes in an array after resumption.
    """

    saved: ClassVar[tuple[str, ...]] = ()
    """Names of further attributes of the state: numbers, strings, arrays, lists of these."""
    parts: ClassVar[dict[str, Any]] = {}
    """Names and classes of attributes with `to_bytes` and `from_bytes`, which may be None."""

    def __init__(self, settings: S):
        self.settings = settings
        self.value = 0.0
        self.n_iterations = 0
        self.finished = False
        self.on_iteration: Callback | None = None
        self.best: tuple[float, Any] | None = None
        self._context = ""  # further settings of a run
        self._identity: str | None = None

    # --- for the learner ------------------------------------------------------------------------
    def _add(self, data: Any) -> None:
        """Extend the training data."""
        raise NotImplementedError

    def iterate(self) -> bool:
        """Make a step and set `value` and `n_iterations`. Returns False after the last step."""
        raise NotImplementedError

    def parameters(self) -> Any:
        """Return a copy of the current model."""
        raise NotImplementedError

    def data_digest(self) -> bytes:
        """Return a digest of the data and the initial parameters.

        It does not depend on the progress of training. It is computed once for each `_add`.
        """
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return the state for `serialization.pack` and `restore`."""
        return {name: getattr(self, name) for name in (*self.saved, *self.parts)}

    def restore(self, state: dict[str, Any]) -> bool | None:
        """Set the state. Returns False if it does not match the data or the settings.

        This is called on a copy of the trainer, which is discarded if it fails. Arrays must not be
        changed in place before everything is checked. Raises an error in `serialization.DAMAGE` if
        the state is invalid.
        """
        restore(self, self.saved, state)
        for name, kind in self.parts.items():
            part = state[name]
            setattr(self, name, None if part is None else kind.from_bytes(part))
        return None

    def close(self) -> None:
        """Release threads and caches."""

    # --- owned ------------------------------------------------------------------------------------
    def add(self, data: Any) -> None:
        """Add data; the next step continues from the current parameters."""
        self._add(data)
        self.finished = False
        self._identity = None

    def step(self) -> bool:
        """Make a step. Returns False when training has ended."""
        if not self.finished:
            self.finished = not self.iterate()
            if self.finished:
                self.close()
        return not self.finished

    def report(self, value: float) -> None:
        """Call `on_iteration` after a part of a step; see `Callback`."""
        if self.on_iteration is not None:
            self.on_iteration(value)

    def identity(self) -> str:
        """Return a string that is equal for data and settings with the same result of training."""
        if self._identity is None:
            digest = blake2b(type(self).__name__.encode(), digest_size=16)
            digest.update(self.settings.digest().encode())
            digest.update(self.data_digest())
            digest.update(self._context.encode())
            self._identity = digest.hexdigest()
        return self._identity

    def to_bytes(self) -> bytes:
        """Return the state of the training, without data and settings."""
        fields = {"identity": self.identity(), "state": self.state(), "finished": self.finished}
        fields |= {"value": float(self.value), "n_iterations": int(self.n_iterations)}
        return pack(KIND, _VERSION, fields | {"best": self.best})

    def resume(self, state: Bytes) -> bool:
        """Continue from `to_bytes`. Returns False, and changes nothing, for other data or settings.

        Raises StructlearnError if the bytes are not a valid state.
        """
        _, fields = unpack(state, KIND, {_VERSION})
        identity = fields.get("identity")
        if not isinstance(identity, str) or identity != self.identity():
            return False
        with reading(KIND):
            fresh = copy(self)
            value, n_iterations = float(fields["value"]), int(fields["n_iterations"])
            finished, best = flag(fields["finished"]), fields["best"]
            best = None if best is None else (float(best[0]), best[1])
            if n_iterations < 0:
                raise ValueError(f"{n_iterations} iterations")
            if fresh.restore(fields["state"]) is False:
                return False
            fresh.value, fresh.n_iterations, fresh.finished = value, n_iterations, finished
            fresh.best = best
        self.__dict__.update(fresh.__dict__)
        return True

    def run(
        self,
        *,
        on_iteration: Callable[[int, float], None] | None = None,
        checkpoint: Path | None = None,
        settings: str = "",
        keep: bool = False,
        after_step: Callable[[], object] | None = None,
    ) -> Any:
        """Train to the end and return the model.

        on_iteration: called after each step, and between the parts of a long step, with the number
            of steps and the objective.
        checkpoint: a file for the state, written twice a minute and deleted at the end. Training
            continues from an existing file for the same data and settings. For others it starts
            from scratch, with a warning in the log.
        settings: further settings that the checkpoint must match.
        keep: keep the file with the final state.
        after_step: called after each step, also after the last one, before the state is written.
            It may set `best`.

        Raises StructlearnError if the checkpoint is damaged.
        """
        self._context, self._identity = settings, None
        if checkpoint is not None and checkpoint.exists():
            self._continue_from(checkpoint)
        saved = monotonic()

        def report(value: float) -> None:
            nonlocal saved
            if on_iteration is not None:
                on_iteration(self.n_iterations, value)
            if checkpoint is not None and monotonic() - saved > CHECKPOINT_SECONDS:
                write_bytes(checkpoint, self.to_bytes())
                saved = monotonic()

        self.on_iteration = lambda value: report(-value)
        try:
            goes_on = True
            while goes_on:
                goes_on = self.step()
                if after_step is not None:
                    after_step()
                if goes_on:
                    report(self.value)
        finally:
            self.on_iteration = None
        parameters = self.parameters()
        if checkpoint is not None and keep:
            write_bytes(checkpoint, self.to_bytes())
        elif checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        return parameters

    def _continue_from(self, checkpoint: Path) -> None:
        data = read_bytes(checkpoint)
        try:
            resumed = self.resume(data)
        except DAMAGE as error:
            if not isinstance(error, StructlearnError) or error.code not in _NOT_OURS:
                problem = f"{error}".rstrip(".")
                raise StructlearnError("SL085", path=checkpoint, problem=problem) from error
            resumed = False
        if not resumed:
            logger.warning("%s is of other data or settings: training begins anew", checkpoint)


@dataclass(frozen=True)
class Estimator:
    """A learner: its settings, and the module of its family that trains it.

    The module, which is imported when training begins, has the functions `initialize`, `trainer`
    and, if `strengths` of the settings is not empty, `adapter`. Their first argument is the
    settings; the others are those of the methods here.

    module: its name.
    """

    settings: Any
    module: str

    @property
    def attributes(self) -> tuple[str, ...]:
        """The token attributes that the learner reads."""
        return self.settings.attributes

    @property
    def strengths(self) -> tuple[float, ...]:
        """Values of `strength` to choose from on held-out data, the default first; empty if the
        learner cannot learn on from trained parameters."""
        return self.settings.strengths

    def initialize(
        self, data: Sequence[Any], labels: Sequence[str] = (), previous: Any = None
    ) -> Any:
        """Return initial parameters for the features of `data`. previous: an earlier model."""
        return self._call("initialize", data, labels, previous)

    def trainer(self, parameters: Any, data: Sequence[Any]) -> Trainer:
        """Return a trainer that starts from `parameters`."""
        return self._call("trainer", parameters, data)

    def fit(self, data: Sequence[Any], labels: Sequence[str] = ()) -> Any:
        """Return the parameters that are learned from `data`, from scratch to the end."""
        return self.trainer(self.initialize(data, labels), data).run()

    def adapter(
        self, parameters: Any, data: Sequence[Any], labels: Sequence[str], *, strength: float
    ) -> Trainer:
        """Return a trainer that starts from `parameters`, with a prior centred on them.

        Labels, features and words that are new in `data` are added. `parameters` do not change.
        labels: all labels, old and new.
        strength: of the prior. The larger it is, the less the parameters change.
        """
        return self._call("adapter", parameters, data, labels, strength=strength)

    def _call(self, function: str, *arguments: Any, **options: Any) -> Any:
        return getattr(import_module(self.module), function)(self.settings, *arguments, **options)


def array_digest(*parts: Any) -> bytes:
    """Return a digest of arrays, bytes, and the `repr` of other values."""
    digest = blake2b(digest_size=16)
    for part in parts:
        if hasattr(part, "dtype"):
            digest.update(repr((part.dtype.str, part.shape)).encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(part if isinstance(part, bytes) else repr(part).encode())
    return digest.digest()
