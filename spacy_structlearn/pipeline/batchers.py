"""Batchers for `spacy train`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator


def create_full_batch() -> Callable[[Iterable], Iterator[list]]:
    """All training data as one batch: what learners by L-BFGS and EM want from one step."""
    return full_batch


def full_batch(items: Iterable) -> Iterator[list]:
    """Yield all of `items` as one list, if there are any."""
    batch = list(items)
    if batch:
        yield batch
