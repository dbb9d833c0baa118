"""The benchmark of sparse blocks: all ways of an inside pass give the same."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sparse_blocks
from pk_models import TABLE1

from spacy_structlearn.grammar.settings import ConditionalGrammarSettings

SETTINGS = TABLE1.part(
    ConditionalGrammarSettings,
    rounds=2,
    split_iterations=2,
    base="uniform",
    scales="all",
    l1=0.3,
    l2=0.0,
    conditional_iterations=5,
    shards=1,
)


@pytest.fixture(scope="module")
def trees(sample):
    return [tree for tree in sample if len(tree.words()) < 15][:40]


@pytest.mark.parametrize("many", [1, 10**9])
def test_all_ways_agree(monkeypatch, trees, many):
    monkeypatch.setattr(sparse_blocks, "MANY", many)
    figures = sparse_blocks.measured(SETTINGS, trees, 4, None)
    assert figures["error"] < 1e-5
    assert figures["sentences"] == 10
    assert figures["timed_share"] == (1 if many == 1 else 0)
    assert ("ratio.sparse" in figures) == (many == 1)
    assert figures["operations.dense_masked"] <= figures["operations.dense"]
    assert figures["operations.sparse_masked"] <= figures["operations.sparse"]
    assert 0 <= figures["finest_share"] <= figures["scales.2.share"] + 1
    json.dumps(figures)


def test_blocks_are_those_of_the_grammar(trees):
    trainer = sparse_blocks.trained(SETTINGS, trees, None)
    level = trainer.parameters().levels[-1]
    blocks = list(sparse_blocks.blocks_of(*sparse_blocks.last_level(trainer)))
    assert len(blocks) == len(level.rules.binary)
    for rule, block in enumerate(blocks):
        wanted = level.binary_block(rule)
        np.testing.assert_allclose(block.weights, wanted.reshape(len(wanted), -1), rtol=1e-4)
        for change, own in zip(block.corrections, block.shapes, strict=True):
            assert change.shape == (own[0], own[1] * own[2])
