"""Sums over shards: their order, who computes them, errors, and how data are cut."""

import pickle
import time
from contextlib import closing
from functools import reduce
from itertools import pairwise
from operator import add
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.parallel.shards import Engine, Pool, split


class Counts(NamedTuple):
    first: np.ndarray
    second: np.ndarray


class Squares:
    """|A x - b|^2 of some rows, and counts in float32."""

    def __init__(self, design, response, delay=0.0, error=None):
        self.design, self.response = design, response
        self.delay, self.error = delay, error
        self.closed = 0
        self.calls = 0

    def value_and_grad(self, x):
        self._work()
        residual = self.design @ x - self.response
        return float(residual @ residual), 2 * self.design.T @ residual

    def expected_counts(self, parameters):
        self._work()
        first = (parameters * self.design.sum(axis=0)).astype(np.float32)
        return float(self.response.sum()), Counts(first, np.exp(self.response))

    def close(self):
        self.closed += 1

    def _work(self):
        self.calls += 1
        time.sleep(self.delay)
        if self.error is not None:
            raise self.error


def squares(n_shards=7, n=4, seed=0, **options):
    """Shards that take the longer the earlier they come."""
    rng = np.random.default_rng(seed)
    return [
        Squares(rng.normal(size=(5, n)), rng.normal(size=5), 0.002 * (n_shards - i), **options)
        for i in range(n_shards)
    ]


@pytest.mark.parametrize("threads", [1, 2, 3, 20])
def test_the_sum_is_that_of_the_shards_in_order(threads):
    shards, x = squares(), np.arange(4.0)
    value, gradient = 0.0, np.zeros(4)
    for shard in shards:
        part, slope = shard.value_and_grad(x)
        value += part
        gradient += slope
    with closing(Engine(shards, threads)) as engine:
        for _ in range(2):
            found = engine.value_and_grad(x)
            assert found[0] == value
            np.testing.assert_array_equal(found[1], gradient)


@pytest.mark.parametrize("threads", [1, 3])
def test_counts_keep_their_names_and_types(threads):
    shards = squares()
    with closing(Engine(shards, threads)) as engine:
        value, counts = engine.expected_counts(0.5)
    assert isinstance(counts, Counts)
    assert counts.first.dtype == np.float32
    parts = [shard.expected_counts(0.5) for shard in shards]
    # In this order, which `sum` of Python 3.12 would improve on.
    assert value == reduce(add, (part for part, _ in parts))
    for place in (0, 1):
        total = parts[0][1][place].copy()
        for _, part in parts[1:]:
            total += part[place]
        np.testing.assert_array_equal(counts[place], total)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("method", ["value_and_grad", "expected_counts"])
def test_an_error_comes_through(threads, method):
    shards = squares(6)
    shards[1].error = ZeroDivisionError("of the second")
    shards[2].error = KeyError("of the third")
    shards[2].delay = 0.0
    engine = Engine(shards, threads)
    with pytest.raises(ZeroDivisionError, match="of the second"):
        getattr(engine, method)(np.ones(4))
    # Nothing goes on behind the caller's back, and the engine can still be used.
    calls = [shard.calls for shard in shards]
    time.sleep(0.05)
    assert [shard.calls for shard in shards] == calls
    assert calls[-1] == 0
    shards[1].error = shards[2].error = None
    assert np.isfinite(getattr(engine, method)(np.ones(4))[0])
    engine.close()


def test_closing_closes_every_shard():
    shards = squares(3)
    with closing(Engine(shards, 2)):
        pass
    assert [shard.closed for shard in shards] == [1, 1, 1]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_pool_keeps_the_order(threads):
    pool = Pool(threads)
    assert pool.map(lambda x: x * x, range(20)) == [x * x for x in range(20)]
    assert pool.map(str, []) == []
    pool.close()
    pool.close()
    assert pool.map(str, range(3)) == ["0", "1", "2"]
    assert pickle.loads(pickle.dumps(pool)).threads == threads


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 8))
def test_slices_cover_all_and_are_about_equal(sizes, n):
    offsets = np.cumsum([0, *sizes])
    slices = split(offsets, n)
    assert len(slices) == n
    assert slices[0].start == 0
    assert slices[-1].stop == len(sizes)
    assert all(a.stop == b.start for a, b in pairwise(slices))
    shares = [offsets[part.stop] - offsets[part.start] for part in slices]
    assert max(shares) <= offsets[-1] / n + max(sizes, default=0)
