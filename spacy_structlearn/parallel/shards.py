"""Sums over training data that is kept in parts, and the threads that make them.

What batch training minimises or counts is a sum over sentences. A shard has some of them, with all
that is kept of them, and gives its part of the sum; an engine has the shards, wherever they are,
and adds their parts in the order of the shards. The result depends on how the data are cut, by
rounding errors, but neither on who computes a part nor on which is ready first.

`make_engine` keeps shards in this process. Training takes it, or something like it, as an argument:
`cluster.ray_cluster` gives one that keeps them on the machines of a cluster.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice, pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from ..optimize.lbfgs import Vector

T = TypeVar("T")
R = TypeVar("R")
Arrays = tuple[NDArray[Any], ...]

_AHEAD = 2  # shards for each thread whose results may wait for those before them


class Shard(Protocol):
    """Some of the training data, with all that is kept of them: features, forests, scores.

    A shard of what is minimised needs no `expected_counts`, one of what is counted no
    `value_and_grad`. The arrays that it returns are given away: the engine adds to them in place.
    Only one of its methods is called at a time, but not always by the same thread.

    One that may be lost with its machine can be made anew: from its part of the data, and by doing
    again what `Engine.update` did to it. If evaluations change it too, it has an attribute `state`,
    plain data, which can be set.
    """

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        """Its part of the objective at x, float64 (n), and of the gradient there, float64 (n)."""
        ...

    def expected_counts(self, parameters: Any) -> tuple[float, Arrays]:
        """Its part of the log-likelihood, in nats, and of the expected counts, under `parameters`.

        The arrays have the same shapes and types in all shards; a named tuple stays one.
        """
        ...

    def close(self) -> None:
        """Let go of threads and other resources; may be called twice."""
        ...


class Engine(Protocol):
    """What training may ask for of all shards together: a sum, in the order of the shards."""

    shards: Sequence[Any]
    """One by one; elsewhere they have the methods of `Shard` alone."""

    def map(self, function: Callable[..., R], *arguments: Any) -> list[R]:
        """function(shard, *arguments) of each shard, which it does not change, in order."""
        ...

    def update(self, function: Callable[..., R], *arguments: Any) -> list[R]:
        """The same of a function that changes the shards. Any other shard it leaves alone."""
        ...

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        """The objective at x, float64 (n), and its gradient, float64 (n), the caller's own."""
        ...

    def expected_counts(self, parameters: Any) -> tuple[float, Arrays]:
        """The log-likelihood, in nats, and the expected counts, under `parameters`."""
        ...

    def close(self) -> None:
        """Let go of the shards and what they hold; may be called twice."""
        ...


class ThreadEngine:
    """An engine whose shards are in the memory of this process.

    shards: one or more. threads: so many shards are at work at a time; the results are the same,
    bit for bit. Not to be used by two threads at a time. What a shard raises comes through: of
    several errors, that of the first shard. As a context manager it is closed at the end.
    Raises StructlearnError SL209 without shards or threads.
    """

    def __init__(self, shards: Sequence[Shard], threads: int = 1):
        if not shards:
            raise StructlearnError("SL209", name="shards", wanted="1 or more", value=0)
        self.shards: tuple[Shard, ...] = tuple(shards)
        self._pool = Pool(min(threads, len(self.shards)))

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        """See `Engine`."""

        value, (gradient,) = total(self._pool.stream(partial(value_and_grad, x=x), self.shards))
        return value, gradient

    def expected_counts(self, parameters: Any) -> tuple[float, Arrays]:
        """See `Engine`."""
        task = partial(expected_counts, parameters=parameters)
        return total(self._pool.stream(task, self.shards))

    def map(self, function: Callable[..., R], *arguments: Any) -> list[R]:
        """See `Engine`."""
        return self._pool.map(lambda shard: function(shard, *arguments), self.shards)

    update = map

    def close(self) -> None:
        """Close all shards, even if one of them fails, let go of them, and end the threads."""
        self._pool.close()
        errors = []
        shards, self.shards = self.shards, ()
        for shard in shards:
            try:
                shard.close()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def __enter__(self) -> ThreadEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Pool:
    """Work shared by so many threads, or done by the caller if it is one.

    threads: 1 or more. A pool that is copied or sent to another process has new threads there.
    Raises StructlearnError SL209 without threads.
    """

    def __init__(self, threads: int = 1):
        if threads < 1:
            raise StructlearnError("SL209", name="threads", wanted="1 or more", value=threads)
        self.threads = threads
        self._executor = ThreadPoolExecutor(threads, "structlearn") if threads > 1 else None

    def __reduce__(self) -> tuple[type[Pool], tuple[int]]:
        return type(self), (self.threads,)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The results, in order."""
        if self._executor is None:
            return [function(item) for item in items]
        return list(self._executor.map(function, items))

    def stream(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """The results, in order, few of which are in memory at a time.

        Nothing is under way any more when it ends, be it with an error.
        """
        if self._executor is None:
            yield from map(function, items)
            return
        rest = iter(items)
        waiting: deque[Future[R]] = deque()
        try:
            for item in islice(rest, _AHEAD * self.threads):
                waiting.append(self._executor.submit(function, item))
            while waiting:
                result = waiting[0].result()
                waiting.popleft()
                for item in islice(rest, 1):
                    waiting.append(self._executor.submit(function, item))
                yield result
                del result
        finally:
            for future in waiting:
                future.cancel()
            for future in waiting:
                if not future.cancelled():
                    future.exception()

    def close(self) -> None:
        """End the threads. What is left to do is done by the caller from then on."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None


class MakeEngine(Protocol):
    """What makes an engine of the shards make(shared, part); see `make_engine`, which is one."""

    def __call__(
        self,
        make: Callable[[Any, Any], Shard],
        shared: Any,
        parts: Sequence[Any],
        threads: int = 1,
    ) -> Engine:
        """An engine of one or more parts."""
        ...


def make_engine(
    make: Callable[[Any, Any], Shard], shared: Any, parts: Sequence[Any], threads: int = 1
) -> Engine:
    """An engine of the shards make(shared, part), of one or more parts.

    make: a function of a module, and shared and parts data that can be sent to other processes and
    that it does not write to. threads: for shards in this process, see `ThreadEngine`.
    """
    pool = Pool(threads)
    try:
        shards = pool.map(lambda part: make(shared, part), parts)
    finally:
        pool.close()
    return ThreadEngine(shards, threads)


def value_and_grad(shard: Shard, x: Vector) -> tuple[float, tuple[Vector]]:
    """What a shard gives to the sum of `Engine.value_and_grad`."""
    value, gradient = shard.value_and_grad(x)
    return value, (gradient,)


def expected_counts(shard: Shard, parameters: Any) -> tuple[float, Arrays]:
    """What a shard gives to the sum of `Engine.expected_counts`."""
    return shard.expected_counts(parameters)


def total(parts: Iterator[tuple[float, Arrays]]) -> tuple[float, Arrays]:
    """The sum of one or more parts, in the arrays of the first one."""
    value, totals = next(parts)
    for further, arrays in parts:
        value += further
        _add(totals, arrays)
        del arrays  # before the next part is made
    return value, totals


def _add(totals: Arrays, arrays: Arrays) -> None:
    for total, array in zip(totals, arrays, strict=True):
        total += array


def split(offsets: NDArray[np.int64], n: int) -> list[slice]:
    """n slices of consecutive items, of about equal size; some may be empty.

    offsets: int64 (n_items + 1), the sizes of all items before each, as of tokens in sentences.
    """
    goals = offsets[-1] * np.arange(1, n) / n
    ends = [0, *np.searchsorted(offsets, goals).tolist(), len(offsets) - 1]
    return [slice(a, b) for a, b in pairwise(ends)]


def balance(items: Iterable[T], n: int, size: Callable[[T], int]) -> list[list[T]]:
    """The items in n lists of about equal size: the largest first, to the list that has least."""
    lists: list[list[T]] = [[] for _ in range(n)]
    for item in sorted(items, key=size, reverse=True):
        min(lists, key=lambda chosen: sum(map(size, chosen))).append(item)
    return lists
