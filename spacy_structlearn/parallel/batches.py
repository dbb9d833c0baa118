"""Sentences in batches, shared out to threads, and the room that each thread works in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from queue import SimpleQueue
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")
R = TypeVar("R")


def in_batches(
    sentences: Sequence[Sized], run: Callable[[slice], T], *, words: int, threads: int
) -> Iterable[T]:
    """What `run` makes of each batch of sentences, in the order of these.

    words: so many are in a batch, about. threads: so many share the batches.
    """
    ends = np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64)
    cuts = np.flatnonzero(np.diff(ends // words, prepend=0)) + 1
    bounds = sorted({0, *cuts.tolist(), len(sentences)})
    batches = [slice(*pair) for pair in pairwise(bounds)]
    if threads == 1 or len(batches) < 2:
        return map(run, batches)
    # Each takes the next batch when it is done with one: batches differ in what they cost, and what
    # holds the interpreter's lock in one thread goes on beside the kernel of another.
    with ThreadPoolExecutor(threads) as pool:
        return pool.map(run, batches)


class Workspaces(Generic[R]):
    """Room to work in, for as many threads: what one search needed is used again by the next.

    make: makes one.
    """

    def __init__(self, make: Callable[[], R], threads: int):
        self._free: SimpleQueue[R] = SimpleQueue()
        for _ in range(threads):
            self._free.put(make())

    def __len__(self) -> int:
        """How many are free."""
        return self._free.qsize()

    @contextmanager
    def borrowed(self) -> Iterator[R]:
        """One of them; waits until one is free."""
        room = self._free.get()
        try:
            yield room
        finally:
            self._free.put(room)
