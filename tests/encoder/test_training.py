"""Site scorers that learn: gradients, labels, the prior, and trees."""

import numpy as np
import pytest

from spacy_structlearn.encoder.scorer import SiteScorer
from spacy_structlearn.encoder.spans import best_tree, n_spans, place, span_sites
from spacy_structlearn.encoder.training import (
    CROSS_ENTROPY,
    ScorerTraining,
    SiteExamples,
    _gradient,
)

DRAW = np.random.default_rng(0)
PAD = (0, 1), (0, 0)


def words(n=400, width=6, labels="abc"):
    """Words whose label depends on their vector, and sites of two of them."""
    vectors = DRAW.normal(size=(n, width)).astype(np.float32)
    sites = DRAW.integers(-1, n, (3 * n, 2))
    numbers = (vectors @ np.eye(width, len(labels))).argmax(axis=1)
    return SiteExamples(sites, [labels[numbers[i]] for i in sites[:, 0]], vectors=vectors)


def accuracy(scorer, data):
    found = scorer.scores(data.vectors, data.sites).argmax(axis=1)
    known = data.sites[:, 0] >= 0
    right = [scorer.labels[i] == label for i, label in zip(found, data.labels, strict=True)]
    return np.mean(np.array(right)[known])


def trained(scorer, data, passes=5):
    training = ScorerTraining(scorer)
    training.add(data)
    for _ in range(passes):
        training.step()
    return training.scorer


def test_from_scratch():
    data = words()
    scorer = trained(None, [data], passes=20)
    assert scorer.labels == ("a", "b", "c")
    assert accuracy(scorer, data) > 0.9
    assert trained(None, [data], passes=20) == scorer


def test_learning_on():
    data, other = words(), words(labels="abd")
    old = trained(None, [data], passes=20)
    before = old.to_bytes()
    new = trained(old, [other], passes=20)
    assert old.to_bytes() == before
    assert new.labels == ("a", "b", "c", "d")
    assert accuracy(new, other) > 0.85 > accuracy(old, other)
    training = ScorerTraining(old)
    training.strength = 1e4
    training.add([data])
    for _ in range(5):
        training.step()
    assert np.abs(training.scorer.input - old.input).max() < 0.02


def test_parts():
    for data in (words(1500), *tree_data("AB")[:1]):
        rows = 0
        for part in data.parts():
            end = rows + len(part.labels)
            assert part.labels == data.labels[rows:end]
            ours, theirs = np.pad(part.vectors, PAD), np.pad(data.vectors, PAD)
            assert np.array_equal(ours[part.sites], theirs[data.sites[rows:end]])
            rows = end
        assert rows == len(data.labels)


def test_examples_may_come_in_parts():
    parts = [words(100), words(100, labels="abd")]
    training = ScorerTraining()
    for part in parts:
        training.add([part])
        training.step()
    assert training.scorer.labels == ("a", "b", "c", "d")
    empty = ScorerTraining()
    empty.add([])
    empty.step()
    assert empty.scorer is None


def tree_data(labels):
    """Spans of sentences of five words, with right-branching and left-branching trees."""
    examples = []
    for _ in range(60):
        n = 5
        vectors = DRAW.normal(size=(n, 8)).astype(np.float32)
        own = [""] * n_spans(n)
        for i in range(1, n):
            left = vectors[0, 0] > 0
            start, end = (0, n + 1 - i) if left else (i - 1, n)
            own[place(start, end, n)] = labels[0 if left else 1]
        examples.append(SiteExamples(span_sites([n]), own, [n], vectors))
    return examples


def test_trees():
    data = tree_data(("A", "B+C"))
    scorer = trained(None, data, passes=150)
    assert scorer.labels == ("", "A", "B+C")
    right = total = 0
    for example in data:
        scores = scorer.scores(example.vectors, example.sites)
        values = (scores - scores[:, :1]).max(axis=1)
        for at in best_tree(values, [5]):
            if values[at] > 0:
                total += 1
                right += scorer.labels[scores[at].argmax()] == example.labels[at]
    assert total > 200
    assert right / total > 0.9
    more = trained(scorer, tree_data(("A+X", "Y+Z")))
    assert more.labels == ("", "A", "B+C", "Y")


@pytest.mark.parametrize("spans", [False, True])
def test_gradient(spans):
    if spans:
        data = tree_data(("A", "B"))[:3]
        labels, slots = ["", "A", "B"], 4
    else:
        data, labels, slots = [words(20)], ["a", "b", "c"], 2
    scorer = SiteScorer.untrained(labels, data[0].vectors.shape[1], slots, hidden=5)
    changes = {n: a + DRAW.normal(0, 0.3, a.shape) for n, a in scorer.arrays().items()}
    scorer = scorer.replaced(**changes)
    gradient = _gradient(scorer, data)

    def loss(scorer):
        value, size = 0.0, 0
        for own in data:
            scores = scorer.scores(own.vectors, own.sites).astype(np.float64)
            gold = np.array([labels.index(label) for label in own.labels])
            rows = np.arange(len(gold))
            entropy = (np.log(np.exp(scores).sum(axis=1)) - scores[rows, gold]).sum()
            value += entropy * (CROSS_ENTROPY if spans else 1.0)
            size += sum(own.lengths) or len(gold)
            if spans:
                value += hinge(scores, gold)
        return value / size

    def hinge(scores, gold):
        scores = scores - scores[:, :1]
        raised = scores + 1.0
        raised[np.arange(len(gold)), gold] -= 1.0
        raised[:, 0] = gold > 0
        best = best_tree(raised.max(axis=1), [5])
        # Wrong labels cost 1 within the tree.
        return raised.max(axis=1)[best].sum() - scores[np.arange(len(gold)), gold].sum()

    for name, array in scorer.arrays().items():
        at = tuple(DRAW.integers(size) for size in array.shape)
        values = []
        for step in (1e-2, -1e-2):
            changed = array.copy()
            changed[at] += step
            values.append(loss(scorer.replaced(**{name: changed})))
        assert (values[0] - values[1]) / 2e-2 == pytest.approx(gradient[name][at], abs=2e-3)
