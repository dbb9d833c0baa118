"""Shards in actors of a Ray cluster: the sums of threads, bit for bit, whoever dies meanwhile."""

import os
import signal
import sys
from typing import NamedTuple

import numpy as np
import pytest

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.parallel.shards import ThreadEngine

ray = pytest.importorskip("ray", reason="needs the extra ray")
from spacy_structlearn.parallel import cluster  # noqa: E402
from spacy_structlearn.parallel.cluster import RayEngine, ray_cluster  # noqa: E402

# The actors cannot import this module.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Counts(NamedTuple):
    first: np.ndarray
    second: np.ndarray


class Squares:
    """|A x - b|^2 of some rows, and counts in float32, both with an offset that calls change."""

    def __init__(self, shared, part):
        self.design, self.response = part
        self.offset, self.state = shared, 0
        self.error = None

    def value_and_grad(self, x):
        self._count()
        residual = self.design @ x - self.response + self.offset
        return float(residual @ residual) + self.state, 2 * self.design.T @ residual

    def expected_counts(self, parameters):
        self._count()
        first = (parameters * self.design.sum(axis=0)).astype(np.float32)
        return float(self.response.sum()), Counts(first, np.exp(self.response) + self.state)

    def _count(self):
        if self.error is not None:
            raise self.error
        self.state += 1

    def close(self):
        pass


def add(shard, offset):
    shard.offset += offset
    return shard.offset


def fail(shard, error, only=None):
    if only is None or shard.response[0] == only:
        shard.error = error


def process(shard):
    return os.getpid()


def parts(n_shards=5, n=4, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.normal(size=(50, n)), rng.normal(size=50)) for _ in range(n_shards)]


def both(workers=3, **options):
    """The same shards in threads and in actors."""
    there = RayEngine(Squares, 0.5, parts(), workers, **options)
    return ThreadEngine([Squares(0.5, part) for part in parts()], 2), there


def same(one, other):
    assert one[0] == other[0]
    mine, its = (found if isinstance(found, tuple) else (found,) for found in (one[1], other[1]))
    for array, wanted in zip(mine, its, strict=True):
        assert array.dtype == wanted.dtype
        np.testing.assert_array_equal(array, wanted)


def kill(processes):
    for number in set(processes):
        os.kill(number, signal.SIGKILL)


def test_sums_are_those_of_threads(two_machines):
    here, there = both(3)
    with there:
        assert there.workers == 3
        for x in np.random.default_rng(1).normal(size=(3, 4)):
            same(there.value_and_grad(x), here.value_and_grad(x))
        same(there.expected_counts(0.3), here.expected_counts(0.3))
        assert isinstance(there.expected_counts(0.3)[1], Counts)
        assert there.update(add, 2.0) == [2.5] * 5
        here.update(add, 2.0)
        here.expected_counts(0.3)
        value, gradient = there.value_and_grad(x)
        same((value, gradient), here.value_and_grad(x))
        gradient += 1.0  # the caller's own
        assert there.deaths == 0


def test_workers_that_die(two_machines):
    here, there = both(2)
    x = np.arange(4.0)
    with there:
        for step in range(3):
            if step:
                kill(there.map(process)[:1])
            same(there.value_and_grad(x + step), here.value_and_grad(x + step))
            here.update(add, step)
            there.update(add, step)
        assert there.deaths == 2
        kill(there.map(process))
        same(there.expected_counts(0.3), here.expected_counts(0.3))
        assert there.update(add, 1.0) == here.update(add, 1.0)


def add_or_die(shard, offset, place, victim):
    if shard.response[0] == victim and not os.path.exists(place):
        open(place, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return add(shard, offset)


@pytest.mark.parametrize("victim", [3])
def test_an_update_is_done_once_to_each_shard_whoever_dies_of_it(two_machines, tmp_path, victim):
    """The dead actor had shards to which it was done, and such to which it was not."""
    here, there = both(2)
    arguments = 2.0, str(tmp_path / "died"), parts()[victim][1][0]
    with there:
        found = there.update(add_or_die, *arguments)
        assert there.deaths == 1
        assert found == there.map(add, 0.0) == here.update(add_or_die, *arguments) == [2.5] * 5
        there.update(add, 1.0)
        assert there.map(add, 0.0) == [3.5] * 5


def test_an_error_comes_through(two_machines):
    _, there = both(2)
    with there:
        there.update(fail, StructlearnError("SL205"), parts()[1][1][0])
        with pytest.raises(StructlearnError, match="SL205"):
            there.value_and_grad(np.ones(4))
        there.update(fail, None)
        assert np.isfinite(there.value_and_grad(np.ones(4))[0])


class Deadly(Squares):
    def value_and_grad(self, x):
        os.kill(os.getpid(), signal.SIGKILL)


def test_nobody_lives(two_machines, monkeypatch):
    monkeypatch.setattr(cluster, "_DEATHS", 1)
    with (
        RayEngine(Deadly, 0.5, parts(1), 1) as there,
        pytest.raises(StructlearnError, match=r"SL252.*2 times"),
    ):
        there.value_and_grad(np.ones(4))


def test_errors(two_machines):
    with pytest.raises(StructlearnError, match=r"SL209.*shards"):
        RayEngine(Squares, 0.5, [])
    with pytest.raises(StructlearnError, match=r"SL209.*workers"):
        RayEngine(Squares, 0.5, parts(), 0)


def test_engines_within_a_cluster(two_machines):
    with ray_cluster(workers=2) as engines:
        engine = engines(Squares, 0.5, parts())
        assert isinstance(engine, RayEngine)
        assert engine.workers == 2
        engine.close()
        assert isinstance(engines(Squares, 0.5, parts()[:1]), ThreadEngine)
    assert ray.is_initialized()
