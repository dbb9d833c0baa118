"""Whether the harness of odd settings tells outcomes apart, and that some of its cases pass."""

import math
import os

import pytest
import spacy

from spacy_structlearn.errors import StructlearnError
from training.reliability.small_pipelines import write_corpus

# It takes modules that Windows has not.
settings = pytest.importorskip(
    "training.reliability.settings", reason="needs fork", exc_type=ImportError
)


@pytest.fixture(scope="module")
def benches(tmp_path_factory):
    work = tmp_path_factory.mktemp("settings")
    overrides = write_corpus(work)
    return {name: settings.Bench(name, work, overrides) for name in settings.PIPELINES}


def blocks(section):
    yield from (of for name, of in section.items() if name in ("factory", "@architectures"))
    for value in section.values():
        if isinstance(value, dict):
            yield from blocks(value)


def test_every_component_and_architecture_has_cases(benches):
    found = {name for bench in benches.values() for name in blocks(bench.section)}
    names = [n for n in spacy.registry.architectures.get_all() if n.startswith(settings.OURS)]
    # Those of version 1, but for the only versions, are refused.
    assert {max(n for n in names if n.startswith(name[:-1])) for name in names} == {
        name for name in found if name.startswith(settings.OURS)
    } | {"spacy_structlearn.BiLSTMEncoder.v1"}
    ours = spacy.registry._entry_point_factories.get_all().items()
    components = {name for name, make in ours if hasattr(make, "component")}
    assert components <= found
    todo = list(settings.cases(benches.values()))
    assert len(todo) > 2000
    assert {case.door for case in todo} == {*settings.DOORS}


@pytest.mark.parametrize("name", ["crf", "bayes_net"])
def test_some_cases(name, benches):
    todo = [case for case in settings.cases(benches.values()) if case.pipeline == name][::30]
    found = list(settings.in_children(benches[name], todo))
    bad = [(str(case), said) for case, outcome, said in found if outcome in ("unclear", "late")]
    assert not bad
    figures = settings.figures((case, outcome) for case, outcome, _ in found)
    assert figures["settings.cases"] == len(todo)
    assert figures["settings.errors"] > figures["settings.answers"] > 0
    assert figures["settings.nan_answers"] == 0


CASE = ("add_pipe", "crf", ("model", "l2"), 2.5)


def outcome(benches, monkeypatch, function, method="numbers"):
    monkeypatch.setattr(settings.Bench, method, function)
    ((_, found, _),) = settings.in_children(benches["crf"], [settings.Case(*CASE)])
    return found


def test_every_outcome_is_told_apart(benches, monkeypatch):
    def raises(error):
        def fails(*_, **__):
            raise error

        return fails

    def hangs(*_, **__):
        while True:
            pass

    monkeypatch.setattr(settings, "SECONDS", 1)
    clear = StructlearnError("SL043", learner="CRF", name="l2", wanted="less", value=2.5)
    other = StructlearnError("SL043", learner="CRF", name="l1", wanted="less", value=2.5)
    _ = benches["crf"].texts, benches["crf"].trained  # which the real methods make
    for function, wanted in (
        (lambda *_, **__: [(0.5, 0.0, 1.0), (-math.inf, -math.inf, 0.0)], "answers"),
        (lambda *_, **__: [(math.nan, 0.0, 1.0)], "nan_answers"),
        (lambda *_, **__: [(1.5, 0.0, 1.0)], "nan_answers"),
        (raises(clear), "late"),
        (raises(other), "unclear"),
        (raises(TypeError("l2 is 2.5")), "unclear"),
        (lambda *_, **__: bytearray(settings.MEMORY), "unclear"),
        (lambda *_, **__: os._exit(3), "unclear"),
        (hangs, "unclear"),
    ):
        assert outcome(benches, monkeypatch, function) == wanted
    assert outcome(benches, monkeypatch, raises(clear), "load") == "errors"
    assert outcome(benches, monkeypatch, raises(MemoryError("l2 is 2.5")), "load") == "unclear"
