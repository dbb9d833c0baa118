"""Components that were loaded learn on from their parameters; others are trained from scratch."""

import logging
import pickle

import pytest
from contracts.components import FILES, SAMPLE, words
from spacy.tokens import Doc

import spacy_structlearn
from spacy_structlearn.pipeline.extensions import frame_spans, set_spans
from spacy_structlearn.pipeline.readers import read_treebank, to_example
from spacy_structlearn.pipeline.training.batch_trainable import FOLDS

# Of the English pipeline, by name; all of them learn on.
COMPONENTS = ["sentence_splitter", "chain_tagger", "np_chunker", "pp_attacher", "srl_labeler"]
QUICK = ["sentence_splitter", "np_chunker", "pp_attacher"]
LOST = 0.005  # of the score
TEXTS = ["The old man took a key from his pocket.", "He opened the door with the key."] * 3


@pytest.fixture(scope="module")
def loaded():
    return spacy_structlearn.load()


@pytest.fixture(params=COMPONENTS)
def component(request, loaded):
    """Of the English pipeline, as it is loaded; what a test changes is undone."""
    component = loaded.get_pipe(request.param)
    before = component.to_bytes(exclude=["vocab"])
    yield component
    component.reinitialise = False
    component.from_bytes(before, exclude=["vocab"])


only = pytest.mark.parametrize("component", ["np_chunker"], indirect=True)
quick = pytest.mark.parametrize("component", QUICK, indirect=True)


def sample(component, n=None):
    """The sample, a document each. What is read of it is gold."""
    docs = [doc for _, doc in read_treebank(component.vocab, SAMPLE / "sample.trees", **FILES)]
    spans = ["constituents"]
    made = [to_example(doc, tags=component.name != "chain_tagger", spans=spans) for doc in docs[:n]]
    if component.name == "sentence_splitter":
        for example in made:
            spaces = [bool(token.whitespace_) for token in example.reference]
            example.predicted = Doc(component.vocab, words=words(example.reference), spaces=spaces)
    return made


def strange(nlp):
    """An example with labels that no component of the English pipeline knows."""
    text = ["Go", "home", "now", "!"]
    doc = Doc(nlp.vocab, words=text, tags=["VB", "HASH", "RB", "."], sent_starts=[1, 0, 0, 0])
    set_spans(doc, "np_chunks", [("PLACE", 1, 2)])
    brackets = [("S", 0, 4), ("VP", 0, 3), ("NP", 1, 2)]
    set_spans(doc, "constituents", brackets)
    frame = (0, "go.01", [("V", 0, 1), ("ARGM-XYZ", 1, 2)])
    set_spans(doc, "srl", frame_spans([frame]))
    return to_example(doc, spans=["constituents"])


# --- learning on ----------------------------------------------------------------------------------
def test_a_document_is_learned_and_nothing_is_forgotten(component):
    examples = sample(component)
    before, others, here = map(component.main_score_on, (examples, examples[1:], examples[:1]))
    losses = [component.update(examples[:1])[component.name] for _ in range(3)]
    assert losses == sorted(losses, reverse=True)
    assert component.main_score_on(examples) >= before - LOST
    assert component.main_score_on(examples[1:]) >= others - LOST
    assert component.main_score_on(examples[:1]) >= here - LOST


@pytest.mark.parametrize("component", ["chain_tagger", "np_chunker", "srl_labeler"], indirect=True)
def test_new_labels_are_learned(component, loaded):
    label = {"chain_tagger": "HASH", "np_chunker": "PLACE", "srl_labeler": "ARGM-XYZ"}
    label = label[component.name]
    assert label not in component.labels
    before = set(component.labels)
    component.update([strange(loaded)])
    assert set(component.labels) == before | {label}
    assert any(label in answer for answer in component._answers())
    again = pickle.loads(pickle.dumps(component))
    assert again.labels == component.labels
    assert again.parameters == component.parameters


# --- from scratch ---------------------------------------------------------------------------------
@only
@pytest.mark.parametrize("learn", ["update", "fit"])
def test_trained_from_scratch_if_asked_to(component, learn):
    examples = sample(component, 2)
    size = len(component.parameters.keys)
    component.reinitialise = True
    getattr(component, learn)(examples)
    assert component._training.from_scratch
    assert len(component.parameters.keys) < size / 10
    trainer = component._training.trainer
    component.update(examples)
    assert component._training.trainer is trainer  # which goes on


@only
def test_loaded_parameters_are_replaced_with_a_warning(component, caplog):
    examples = sample(component, 2)
    with caplog.at_level(logging.WARNING, "spacy_structlearn"):
        component.initialize(lambda: examples)
        assert "np_chunker: trained from scratch" in caplog.text
        caplog.clear()
        component.initialize(lambda: examples)  # what is replaced was never trained
        component.update(examples)
    assert not caplog.records
    assert component._training.from_scratch


# --- the strength of the prior --------------------------------------------------------------------
class Unchanged:
    """A trainer that returns the parameters as they are."""

    def __init__(self, parameters):
        self.run = lambda: parameters


@only
def test_the_best_strength_is_that_of_the_best_score(component, monkeypatch):
    examples = sample(component)
    strengths = component.estimator.strengths
    used = []

    def note(origin, data, strength):
        used.append(strength)
        return Unchanged(origin)

    monkeypatch.setattr(component, "_adapter", note)
    for best in strengths:
        monkeypatch.setattr(
            component, "main_score_on", lambda _, best=best: float(used[-1:] == [best])
        )
        assert component._best_strength(examples) == best
    assert used[: FOLDS * len(strengths)] == [*strengths] * FOLDS
    monkeypatch.setattr(component, "main_score_on", lambda _: 0.5)
    assert component._best_strength(examples) == strengths[0]


@only
def test_within_two_standard_errors_the_default_wins(component, monkeypatch):
    """The second strength is much better in one fold, or a little better in all."""
    strengths = component.estimator.strengths
    monkeypatch.setattr(component, "_adapter", lambda origin, *_: Unchanged(origin))
    for gains, best in (((0.2, 0.0, 0.0, 0.1), 0), ((0.1, 0.12, 0.1, 0.08), 1)):
        learned = [0.5 + gain * (k == 1) for gain in gains for k in range(len(strengths))]
        scores = iter([0.5] * FOLDS + learned)
        monkeypatch.setattr(component, "main_score_on", lambda _, scores=scores: next(scores))
        assert component._best_strength(sample(component)) == strengths[best]


# --- in a pipeline --------------------------------------------------------------------------------
@only
def test_a_copy_in_the_middle_of_training(component, loaded):
    examples = sample(component)
    component.update(examples[:2])
    with loaded.select_pipes(enable=["sentence_splitter", "chain_tagger", "np_chunker"]):
        again = pickle.loads(pickle.dumps(loaded))
        found = [
            [[str(chunk) for chunk in doc._.np_chunks] for doc in docs]
            for docs in (
                loaded.pipe(TEXTS),
                again.pipe(TEXTS),
                loaded.pipe(TEXTS, n_process=2, batch_size=2),
            )
        ]
    assert found[0] == found[1] == found[2]
    copied = again.get_pipe("np_chunker")
    assert copied.parameters == component.parameters
    copied.update(examples[2:4])
    component.update(examples[2:4])
    assert copied._training.origin != component._training.origin  # it learns on from the copy
    assert copied.parameters != component.parameters
