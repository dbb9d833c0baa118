"""Training on a Ray cluster: the same parameters as with threads, bit for bit, whoever dies."""

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.parallel.shards import make_engine
from spacy_structlearn.sequence.layout.data import SequenceData
from spacy_structlearn.sequence.settings import CRFSettings
from spacy_structlearn.trees.brackets import load_trees
from spacy_structlearn.trees.normalize import normalize

ray = pytest.importorskip("ray", reason="needs the extra ray")
from spacy_structlearn.parallel.cluster import RayEngine, ray_cluster  # noqa: E402

# The actors cannot import this module.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample" / "sample.trees"


def process(shard):
    return os.getpid()


def sequences():
    """Sentences of random words, each with a tag and a label that depend on it."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 12, size=80)
    words = rng.integers(1, 40, size=lengths.sum())
    columns = np.stack([words, words % 5 + 1], axis=1).astype(np.uint64)
    labels = np.array(["B-NP", "I-NP", "O"])[(words + rng.integers(0, 2, len(words))) % 3]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return SequenceData(columns, offsets, tuple(labels.tolist()))


def chain_trainer(estimator, make_engine=make_engine):
    data = [sequences()]
    parameters = estimator.initialize(data, ["NP"])
    return estimator.trainer(parameters, data, make_engine=make_engine)


def trees():
    return [normalize(tree) for tree in load_trees(SAMPLE)][:40]


def grammar_trainer(estimator, make_engine=make_engine):
    return estimator.trainer(None, [trees()], make_engine=make_engine)


TEMPLATES = ("ORTH[0]", "TAG[0]", "TAG[-1]|TAG[0]")
ROUNDS = {
    "rounds": 1,
    "split_iterations": 3,
    "merge_iterations": 2,
    "smooth_iterations": 2,
    "seed": 1,
}


def conditional(**settings):
    return ConditionalGrammarSettings(**ROUNDS, **{"l1": 0.0, "l2": 1.0, **settings})


CASES = {
    "CRF": (chain_trainer, CRFSettings(templates=TEMPLATES, l1=0.2, shards=3, max_iterations=8)),
    "conditional": (grammar_trainer, conditional(shards=3, conditional_iterations=3)),
}


def engine_of(trainer):
    """The engine that a trainer uses now, or None."""
    for owner, name in (
        ("_objective", "engine"),
        ("_objectives", "engine"),
        ("_derivations", "engine"),
    ):
        found = getattr(getattr(trainer, owner, None), name, None)
        if found is not None:
            return found
    inner = getattr(trainer, "_generative", None)
    return None if inner is None else engine_of(inner)


@pytest.mark.parametrize("name", CASES)
def test_training_ends_where_threads_end(two_machines, name):
    make, estimator = CASES[name]
    here = make(replace(estimator, threads=2))
    while here.step():
        pass
    deaths = 0
    with ray_cluster(workers=2) as engines:
        there = make(estimator, engines)
        more = True
        while more:
            if not deaths and isinstance(engine_of(there), RayEngine):
                os.kill(engine_of(there).map(process)[-1], signal.SIGKILL)
                deaths += 1
            more = there.step()
        there.close()
    assert deaths
    assert there.n_iterations == here.n_iterations
    assert there.value == here.value
    assert there.parameters().to_bytes() == here.parameters().to_bytes()
