"""Batchers for `spacy train`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator


def create_full_batch() -> Callable[[Iterable], Iterator[list]]:
    """Get a batcher that returns all training data as one batch, for learners by L-BFGS and EM."""
    return full_batch


def full_batch(items: Iterable) -> Iterator[list]:
    """Yield all items as one list, if there are any."""
    batch = list(items)
    if batch:
        yield batch
