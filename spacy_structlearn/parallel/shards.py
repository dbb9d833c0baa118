"""Sums over shards of the training data, computed by threads.

The objective or the expected counts of batch training are a sum over sentences. A shard holds some
sentences with their features and computes a part of the sum. An engine holds the shards and adds
the parts in the order of the shards. The division into shards changes the result by rounding
errors; the number of threads and their timing do not change it. Threads are those of
`concurrent.futures`, whose `map` would hold all parts of a sum at once; here a few are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from itertools import islice, pairwise
from operator import methodcaller
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..optimize.lbfgs import Vector

T = TypeVar("T")
R = TypeVar("R")
Arrays = tuple[NDArray[Any], ...]

_AHEAD = 2  # maximum number of results for each thread that wait for earlier ones


class Engine:
    """All shards of the training data, and sums over them in the order of the shards.

    A shard has one of the two methods `value_and_grad` and `expected_counts`, which return its part
    of the sum: arrays of the same shapes and types in all shards, to which the engine adds in
    place. Only one method of a shard is called at a time, but by different threads.

    Not thread-safe. An error of a shard is raised; of several, that of the first shard.
    """

    def __init__(self, shards: Sequence[Any], threads: int = 1):
        self.shards: tuple[Any, ...] = tuple(shards)
        self._pool = Pool(min(threads, len(self.shards)))

    def stream(self, function: Callable[..., R], *arguments: Any) -> Iterator[R]:
        """Yield function(shard, *arguments) for each shard, in order.

        Few results are in memory at a time.
        """
        return self._pool.stream(lambda shard: function(shard, *arguments), self.shards)

    def map(self, function: Callable[..., R], *arguments: Any) -> list[R]:
        """Return the results of `stream`."""
        return list(self.stream(function, *arguments))

    def value_and_grad(self, x: Vector) -> tuple[float, Vector]:
        """Return the objective at x, float64 (n), and its gradient, a new float64 (n)."""
        parts = self.stream(methodcaller("value_and_grad", x))
        value, (gradient,) = _total((value, (gradient,)) for value, gradient in parts)
        return value, gradient

    def expected_counts(self, parameters: Any) -> tuple[float, Arrays]:
        """Return the log-likelihood, in nats, and the expected counts, a named tuple of arrays."""
        return _total(self.stream(methodcaller("expected_counts", parameters)))

    def close(self) -> None:
        """Close all shards and end the threads; may be called twice."""
        for shard in self.shards:
            shard.close()
        self.shards = ()
        self._pool.close()


class Pool:
    """A pool of threads; with one thread, the caller does the work.

    A pool that is copied or pickled has new threads.
    """

    def __init__(self, threads: int = 1):
        self.threads = threads
        self._executor = ThreadPoolExecutor(threads, "structlearn") if threads > 1 else None

    def __reduce__(self) -> tuple[type[Pool], tuple[int]]:
        return type(self), (self.threads,)

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Return the results, in order."""
        if self._executor is None:
            return [function(item) for item in items]
        return list(self._executor.map(function, items))

    def stream(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """Yield the results, in order, with few of them in memory at a time.

        No thread is busy after the end, even after an error.
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
            wait([future for future in waiting if not future.cancel()])

    def close(self) -> None:
        """End the threads. Later work is done by the caller."""
        if self._executor is not None:
            self._executor.shutdown()
            self._executor = None


def make_engine(make: Callable[[Any], Any], parts: Iterable[Any], threads: int = 1) -> Engine:
    """Return an engine of the shards make(part), for one or more parts of the data.

    threads: of which as many are used as there are parts.
    """
    with closing(Pool(threads)) as pool:
        return Engine(pool.map(make, parts), threads)


def _total(parts: Iterator[tuple[float, Arrays]]) -> tuple[float, Arrays]:
    """Return the sum of one or more parts, in the arrays of the first one."""
    value, totals = next(parts)
    for further, arrays in parts:
        value += further
        for total, array in zip(totals, arrays, strict=True):
            total += array
        del arrays  # before the next part is made
    return value, totals


def split(offsets: NDArray[np.int64], n: int) -> list[slice]:
    """Return n slices of consecutive items, of about equal size; some may be empty.

    offsets: int64 (n_items + 1), the sizes of all items before each, as of tokens in sentences.
    """
    goals = offsets[-1] * np.arange(1, n) / n
    ends = [0, *np.searchsorted(offsets, goals).tolist(), len(offsets) - 1]
    return [slice(a, b) for a, b in pairwise(ends)]
