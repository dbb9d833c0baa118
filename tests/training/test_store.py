"""Whether the checks of what is stored find what is lost, and that the default pipeline passes."""

import pytest
from spacy.tokens import Span, SpanGroup

from training.benchmarks import store

WITHOUT_PROCESSES = [way for way in store.WAYS if way != "n_process"]


def failed(nlp, monkeypatch, way, function):
    monkeypatch.setitem(store.WAYS, way, function)
    results = dict(store.checks(nlp, [way]))
    assert len(results) == 2 * len(store.GETTERS)
    return {name for name, passed in results.items() if not passed}


# Processes under spawn take seconds to start: the benchmark checks them.
def test_the_default_pipeline_passes(nlp):
    results = dict(store.checks(nlp, WITHOUT_PROCESSES))
    assert [name for name, passed in results.items() if not passed] == []
    assert len(results) == 2 * len(store.GETTERS) * len(WITHOUT_PROCESSES)


def rewritten(doc, key, change, attrs=lambda group: dict(group.attrs)):
    """A copy of a Doc with one group changed."""
    doc = doc.copy()
    group = doc.spans[key]
    doc.spans[key] = SpanGroup(doc, name=key, spans=change(list(group)), attrs=attrs(group))
    return doc


@pytest.mark.parametrize("key", store.GETTERS)
def test_lost_scores_are_found(nlp, monkeypatch, key):
    def lose(nlp, docs):
        return store.read(rewritten(doc, key, list, lambda group: {}) for doc in docs)

    assert failed(nlp, monkeypatch, "copy", lose) == {f"copy.{key}.scores"}


def test_a_moved_span_is_found(nlp, monkeypatch):
    def shorten(spans):
        return [Span(s.doc, s.end - 1, s.end, s.label) for s in spans]

    def shortened(nlp, docs):
        return store.read(rewritten(doc, "np_chunks", shorten) for doc in docs)

    assert "copy.np_chunks.views" in failed(nlp, monkeypatch, "copy", shortened)


class Kept:
    """A sentence that takes its groups along when it becomes a Doc, token numbers and all."""

    def __init__(self, doc):
        self.doc, self.sents = doc, [self]

    def as_doc(self):
        return self.doc.copy()


def test_groups_that_a_sentence_takes_along_are_found(nlp):
    assert store.WAYS["as_doc"](nlp, [nlp(store.TEXTS[0])])
    assert not store.WAYS["as_doc"](nlp, [Kept(nlp(store.TEXTS[0]))])
