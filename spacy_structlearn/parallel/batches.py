"""Batches of sentences for threads, and workspaces that threads share."""

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
    """Return the result of `run` for each batch of sentences, in order.

    words: approximate number of words in a batch. threads: number of threads.
    """
    ends = np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64)
    cuts = np.flatnonzero(np.diff(ends // words, prepend=0)) + 1
    bounds = sorted({0, *cuts.tolist(), len(sentences)})
    batches = [slice(*pair) for pair in pairwise(bounds)]
    if threads == 1 or len(batches) < 2:
        return map(run, batches)
    # A thread takes the next batch when it is done with one, since the costs of batches differ. The
    # interpreter is busy in one thread while kernels run in others.
    with ThreadPoolExecutor(threads) as pool:
        return pool.map(run, batches)


class Workspaces(Generic[R]):
    """A pool of workspaces, one for each thread, whose memory is reused.

    make: creates a workspace.
    """

    def __init__(self, make: Callable[[], R], threads: int):
        self._free: SimpleQueue[R] = SimpleQueue()
        for _ in range(threads):
            self._free.put(make())

    @contextmanager
    def borrowed(self) -> Iterator[R]:
        """Borrow a workspace; wait until one is free."""
        workspace = self._free.get()
        try:
            yield workspace
        finally:
            self._free.put(workspace)
