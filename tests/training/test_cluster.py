"""What is said of training on a cluster: differences of models, and the figures of a small run."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.sequence.data import SequenceData
from spacy_structlearn.trees.brackets import parse_tree
from training.common import recording
from training.common.conll2000 import ours_settings
from training.reliability import cluster

TREES = [
    parse_tree(text)
    for text in (
        "(S (NP (D the) (N dog)) (VP (V slept)))",
        "(S (NP (N dogs)) (VP (V saw) (NP (D a) (N cat))))",
        "(S (NP (NP (D a) (N cat)) (PP (P in) (NP (N boots)))) (VP (V slept)))",
    )
]


def learned(seed, rounds=1):
    trainer = LatentGrammarSettings(rounds=rounds, seed=seed).trainer(None, [TREES])
    return cluster.finished(trainer, "EM")[0]


def test_differences_of_models():
    model = learned(0)
    assert cluster.difference(model, learned(0)) == 0.0
    assert cluster.difference(model, learned(0, rounds=2)) == np.inf
    again = learned(0)
    again.levels[1].binary[0] += 0.25
    assert cluster.difference(model, again) == pytest.approx(0.25)


def test_figures(two_machines, monkeypatch, tmp_path):
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    monkeypatch.setattr(cluster, "EVALUATION_S", 0.05)
    cluster.by_value()
    rng = np.random.default_rng(0)
    words = rng.integers(1, 30, size=240)
    labels = np.array(["B-NP", "I-NP", "O"])[words % 3]
    columns = np.stack([words, words % 5 + 1], axis=1).astype(np.uint64)
    data = SequenceData(columns, np.arange(0, 241, 8), tuple(labels.tolist()))
    settings = replace(ours_settings(), shards=cluster.SHARDS)
    figures = cluster.speed(settings, data, rounds=1)
    assert {f"ray.sentences_per_s.{name}" for name in ("1", "2", "threads.1", "threads.2")} < {
        *figures
    }
    assert figures["ray.recovery_s"] > 0
    # A vector to each machine, and a gradient of each shard.
    assert 32 <= figures["ray.bytes_per_parameter"] < 64
    makers = {"CRF": partial(cluster.chain_trainer, settings, data)}
    assert cluster.compare(makers) == {"ray.max_abs_difference": 0.0, "ray.deaths": 1}
