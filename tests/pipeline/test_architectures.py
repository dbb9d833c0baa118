"""Every architecture and option of a chain model through the chunker; those of grammars, and of
classifiers.
"""

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.words.classes import learn


def block(name, **settings):
    return {"@architectures": f"spacy_structlearn.{name}.v1", **settings}


# The ones of each learner that a contract does not go through, and the F1 that they must have: with
# a closed vocabulary words that were seen once are known as unknown ones only.
SETTINGS = {
    "label pairs": (block("CRF", order=2), 1.0),
    "label pairs, label features": (block("CRF", order=2, pair_features=False), 1.0),
    "IOBES": (block("CRF", encoding="IOBES", order=2), 1.0),
    "memm, label pairs": (block("MEMM", order=2), 1.0),
    "pseudolikelihood, label pairs": (block("PseudoLikelihood", order=2), 1.0),
    "joint": (block("PseudoLikelihood", templates=["ORTH[0]", "TAG[0]"], order=2, joint=True), 0.6),
    "m-estimation": (block("MEstimation"), 0.6),
    "empirical": (
        block("MEstimation", base="empirical", encoding="IOBES", pair_features=False),
        0.6,
    ),
    "no penalty": (block("MEstimation", l2=0.0), 0.6),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_learns_and_predicts(make_chunker, make_examples, name):
    model, floor = SETTINGS[name]
    nlp = make_chunker(model=model)
    chunker, examples = nlp.get_pipe("np_chunker"), make_examples(nlp)
    for example in examples:
        scores = chunker(example.predicted).spans["np_chunks"].attrs["scores"]
        assert ((scores >= 0) & (scores <= 1 + 1e-6)).all()
    assert chunker.score(examples)["np_chunk_f"] >= floor


def test_missing_classes_are_an_error(make_examples):
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy_structlearn.CRF.v1", "templates": ["CLASS[0]"]}
    chunker = nlp.add_pipe("np_chunker", config={"model": model})
    with pytest.raises(StructlearnError, match="SL241"):
        chunker.initialize(lambda: make_examples(nlp))
    other = nlp.add_pipe("np_chunker", name="b", config={"model": {**model, "classes": "nowhere"}})
    with pytest.raises(StructlearnError, match=r"SL043.*classes is 'nowhere'"):
        other.initialize(lambda: make_examples(nlp))


@pytest.mark.parametrize("read", [["TAG[0]", "ORTH[0]"], ["ORTH[0]"], []])
def test_templates_that_the_model_was_not_trained_with(read, make_chunker, tmp_path):
    """Their columns would be read as others, without any error."""
    nlp = make_chunker(model=block("CRF", templates=["ORTH[0]", "TAG[0]"]))
    nlp.to_disk(tmp_path)
    changed = {"components.np_chunker.model.templates": read}
    with pytest.raises(StructlearnError, match=r"SL088.*ORTH.*TAG.*templates"):
        spacy.load(tmp_path, config=changed)


@pytest.mark.parametrize(
    ("component", "encoding"),
    [("np_chunker", "none"), ("chain_tagger", "IOB2"), ("sentence_splitter", "IOBES")],
)
def test_encodings_that_a_component_cannot_read(component, encoding):
    model = block("CRF", encoding=encoding, templates=["ORTH[0]"])
    with pytest.raises(StructlearnError, match=f"SL043.*{component}: encoding is '{encoding}'"):
        spacy.blank("en").add_pipe(component, config={"model": model})


def test_n_best_and_known_tags(make_chunker):
    nlp = make_chunker()
    chunker = nlp.get_pipe("np_chunker")
    doc = Doc(nlp.vocab, words=["the", "red", "dog", "slept"], tags=["DT", "JJ", "NN", "VBD"])
    readings = chunker.n_best(doc, 4)
    scores = [score for score, _ in readings]
    assert scores == sorted(scores, reverse=True)
    assert len(readings) == 4
    assert [chunk.text for chunk in readings[0][1]] == ["the red dog"]
    assert len({tuple((c.start, c.end) for c in chunks) for _, chunks in readings}) > 1
    forced = chunker.n_best(doc, 1, known={1: "O", 3: "B-NP"})[0][1]
    assert (3, 4) in [(chunk.start, chunk.end) for chunk in forced]
    assert not any(chunk.start <= 1 < chunk.end for chunk in forced)
    assert len(chunker.n_best(doc, 1000)) == 34  # all that do not overlap


# --- blocks within blocks -------------------------------------------------------------------------
STAGE = block("LogLinear", l2=3.0)


def stages(**changed):
    return spacy.blank("en").add_pipe("srl_labeler", config={"model": block("Stages", **changed)})


def test_a_stage_is_changed_or_left_out_by_its_name():
    parts = stages(stages={"roles": STAGE}).estimator.settings.stages
    assert list(parts) == ["predicates", "senses", "identification", "roles"]
    assert [part.l2 for part in parts.values()] == [1.0, 1.0, 1.0, 3.0]
    assert parts["roles"].templates != parts["senses"].templates
    few = stages(order=["identification", "roles"])
    assert few.parameters.stages == ("identification", "roles")


def test_stages_have_no_word_classes(tmp_path):
    classes = learn(np.arange(8, dtype=np.uint64)[:, None], np.array([0, 8]), 2, min_count=1)
    (tmp_path / "classes").write_bytes(classes.to_bytes())
    stage = block("BayesNet", classes=str(tmp_path / "classes"))
    with pytest.raises(StructlearnError, match=r"SL532.*'roles'"):
        stages(stages={"roles": stage})


@pytest.mark.parametrize("base", ["HMM", "LogLinear"])
def test_a_base_that_is_none(base):
    model = block("LogLinear", base=block(base))
    with pytest.raises(StructlearnError, match=r"SL043.*base is"):
        spacy.blank("en").add_pipe("pp_attacher", config={"model": model})


def test_other_chunks_in_a_group_of_their_own(make_examples):
    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker", name="chunker", config={"spans_key": "chunks"})
    examples = []
    for example in make_examples(nlp):
        reference = example.reference
        reference.spans["chunks"] = [
            *reference.spans["np_chunks"],
            *(Span(reference, t.i, t.i + 1, "VP") for t in reference if t.tag_ == "VBD"),
        ]
        del reference.spans["np_chunks"]
        examples.append(Example(example.predicted, reference))
    nlp.initialize(lambda: examples)
    chunker.fit(examples)
    assert chunker.labels == ("NP", "VP")
    for example in examples:
        chunker(example.predicted)
        assert "np_chunks" not in example.predicted.spans
    assert chunker.score(examples)["np_chunk_per_type"]["VP"]["f"] == 1.0
