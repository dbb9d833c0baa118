"""Shards in actors of a Ray cluster: Moritz et al. (2018), https://ray.io.

Training with the `make_engine` of `ray_cluster` keeps its shards in actors, on one or more
machines. An actor gets its part of the data once, computes features and forests, and keeps them.
Each evaluation sends the parameters, once for all actors of a machine. The parts of the sum are
added in this process in the order of the shards, so that the result is that of
`shards.ThreadEngine`, bit for bit.

If an actor or its machine dies, another actor creates its shards again, repeats the updates, and
continues the evaluation. If this process dies, `structlearn train` continues from its checkpoints.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from ..errors import StructlearnError
from .shards import Engine, MakeEngine, Shard, make_engine

R = TypeVar("R")

_AHEAD = 2  # maximum number of evaluations for each actor that run or wait for earlier ones
_DEATHS = 3  # maximum number for each shard without a result in between
_START_S = 60.0  # seconds that an actor may wait for a core before others get its shards


@contextmanager
def ray_cluster(address: str | None = None, workers: int | None = None) -> Iterator[MakeEngine]:
    """Yield a `make_engine` that keeps several shards in actors of a Ray cluster.

    address: see `connected`.
    workers: number of actors, each on its own core, at most one for each shard. None: one for each
        core.

    Raises StructlearnError if Ray is not installed.
    """

    def engines(make: Any, shared: Any, parts: Sequence[Any], threads: int = 1) -> Engine:
        if len(parts) == 1:
            return make_engine(make, shared, parts, threads)
        return RayEngine(make, shared, parts, workers)

    with connected(address):
        yield engines


@contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """Connect to a Ray cluster, and disconnect at the end unless already connected.

    address: None: the cluster of RAY_ADDRESS or the one running on this machine, otherwise a new
    one on this machine. Raises StructlearnError if Ray is not installed.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield
        return
    # No usage statistics are sent and no dashboard is started.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()


def import_ray() -> Any:
    """Return the module. Raises StructlearnError if it is not installed."""
    try:
        import ray
    except ImportError:
        raise StructlearnError("SL250") from None
    return ray


class RayEngine(Engine):
    """An engine with shards in actors; see `shards.make_engine` and `ray_cluster`.

    Ray must be running. Arrays in results cannot be written to. `deaths` counts dead actors.
    Raises StructlearnError without parts or workers, or if actors cannot start or die repeatedly.
    """

    def __init__(
        self,
        make: Callable[[Any, Any], Shard],
        shared: Any,
        parts: Sequence[Any],
        workers: int | None = None,
    ):
        ray = import_ray()
        for name, value in (("shards", len(parts)), ("workers", workers)):
            if value is not None and value < 1:
                raise StructlearnError("SL209", name=name, wanted="1 or more", value=value)
        self._ray = ray
        self._failures = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError)
        self._actor = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(_Actor)
        self.deaths = 0
        self._deaths_in_a_row = 0
        self._recipe = ray.put((make, shared))
        self._parts = [ray.put(part) for part in parts]
        self._done: list[Any] = []  # references to the updates so far
        self._doing: tuple[Any, ...] = ()  # the current update
        self._n_did = 0  # number of shards with the current update
        self._states: list[Any] = [None] * len(parts)
        wanted = workers or int(ray.cluster_resources().get("CPU", 1))
        self._actors: dict[int, Any] = {}
        self._numbers = itertools.count()
        self._owners: list[int] = []  # actor of each shard
        begun = self._start(max(1, min(wanted, len(parts))))
        if not begun:
            raise StructlearnError("SL251", seconds=_START_S)
        self._owners = [begun[number % len(begun)] for number in range(len(parts))]
        self._make(range(len(parts)))

    @property
    def workers(self) -> int:
        """Current number of actors."""
        return len(self._actors)

    def stream(self, function: Callable[..., R], *arguments: Any) -> Iterator[R]:
        return self._stream(self._ray.put((function, arguments)))

    def update(self, function: Callable[..., R], *arguments: Any) -> list[R]:
        task = self._ray.put((function, arguments))
        results = []
        self._doing, self._n_did = (task,), 0
        try:
            for result in self._stream(task):
                results.append(result)
                self._n_did += 1
            self._done.append(task)
        finally:
            self._doing = ()
        return results

    def close(self) -> None:
        """Close the shards and end the actors."""
        actors, self._actors = self._actors, {}
        closing = [actor.close.remote() for actor in actors.values()]
        try:
            for reference in closing:
                with suppress(*self._failures):
                    self._ray.get(reference)
        finally:
            if self._ray.is_initialized():
                for actor in actors.values():
                    self._ray.kill(actor)

    # --- evaluations --------------------------------------------------------------------------
    def _stream(self, task: Any) -> Iterator[Any]:
        """Yield the results of the shards in order, with few of them in memory at a time."""
        numbers = iter(range(len(self._parts)))
        waiting: deque[tuple[int, int, Any]] = deque()
        try:
            while True:
                for number in itertools.islice(
                    numbers, max(0, _AHEAD * len(self._actors) - len(waiting))
                ):
                    waiting.append((number, *self._ask(number, task)))
                if not waiting:
                    return
                result = self._fetch(*waiting[0], task)
                waiting.popleft()
                yield result
                del result
        finally:
            # No evaluation continues in the background.
            for number, owner, reference in waiting:
                if owner == self._owners[number]:
                    self._ray.wait([reference])

    def _ask(self, number: int, task: Any) -> tuple[int, Any]:
        """Return the actor of a shard and a reference to its result."""
        owner = self._owners[number]
        return owner, self._actors[owner].run.remote(number, task)

    def _fetch(self, number: int, owner: int, reference: Any, task: Any) -> Any:
        while True:
            if owner != self._owners[number]:  # the shard was created again in the meantime
                owner, reference = self._ask(number, task)
            try:
                result, self._states[number] = self._ray.get(reference)
            except self._failures:
                self._bury(owner)
                owner, reference = self._ask(number, task)
            else:
                self._deaths_in_a_row = 0
                return result

    # --- actors -------------------------------------------------------------------------------
    def _start(self, n: int) -> list[int]:
        """Start n actors. Returns the numbers of those that got a core."""
        actors = {next(self._numbers): self._actor.remote() for _ in range(n)}
        references = {actor.ready.remote(): number for number, actor in actors.items()}
        ready, _ = self._ray.wait(list(references), num_returns=n, timeout=_START_S)
        begun = []
        for reference in ready:
            with suppress(*self._failures):
                self._ray.get(reference)
                begun.append(references[reference])
        for number, actor in actors.items():
            if number in begun:
                self._actors[number] = actor
            else:
                self._ray.kill(actor)
        return sorted(begun)

    def _make(self, numbers: Sequence[int]) -> None:
        """Create shards in their actors, and repeat their updates."""
        making = []
        for number in numbers:
            owner = self._owners[number]
            known = self._recipe, self._parts[number], self._states[number], *self._done
            doing = self._doing if number < self._n_did else ()
            making.append((owner, self._actors[owner].make.remote(number, *known, *doing)))
        for owner, reference in making:
            try:
                self._ray.get(reference)
            except self._failures:
                # Other actors create all of its shards.
                self._bury(owner)

    def _bury(self, owner: int) -> None:
        """Create the shards of a dead actor elsewhere, unless that was done before."""
        if owner not in self._actors:
            return
        self._ray.kill(self._actors.pop(owner))
        self.deaths += 1
        self._deaths_in_a_row += 1
        if self._deaths_in_a_row > _DEATHS * len(self._parts):
            raise StructlearnError("SL252", deaths=self._deaths_in_a_row)
        begun = self._start(1) or list(self._actors)
        if not begun:
            raise StructlearnError("SL251", seconds=_START_S)
        orphans = [number for number, of in enumerate(self._owners) if of == owner]
        for place, number in enumerate(orphans):
            self._owners[number] = begun[place % len(begun)]
        self._make(orphans)


class _Actor:
    """An actor with some shards of a `RayEngine`."""

    def __init__(self) -> None:
        self._shards: dict[int, Shard] = {}

    def ready(self) -> None:
        """Do nothing: a result means that the actor has started."""

    def make(self, number: int, recipe: Any, part: Any, state: Any, *done: Any) -> None:
        """Create a shard, repeat its updates, and set its state."""
        make, shared = recipe
        shard = make(shared, part)
        for function, arguments in done:
            function(shard, *arguments)
        if state is not None:
            shard.state = state
        self._shards[number] = shard

    def run(self, number: int, task: Any) -> tuple[Any, Any]:
        """Return the result of a function of a shard, and the state of the shard."""
        function, arguments = task
        shard = self._shards[number]
        result = function(shard, *arguments)
        return result, getattr(shard, "state", None)

    def close(self) -> None:
        """Close the shards."""
        for shard in self._shards.values():
            shard.close()
