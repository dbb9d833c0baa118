"""Components that pool their learner with site scorers over vectors of tokens."""

import numpy as np
import pytest
import spacy
from contracts.components import COMPONENTS, OTHER, TEXT, examples, own, part
from spacy.training import Example

from spacy_structlearn.encoder.scorer import Potentials, SiteScorer
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.doc_arrays import set_vectors
from spacy_structlearn.pipeline.training.gold_sites import HEADS

WIDTH = 6
NAMES = [
    *("chain_tagger StochasticCRF", "np_chunker CRF", "np_chunker MEMM", "np_chunker HMM"),
    *("pp_attacher LogLinear", "pp_attacher BayesNet", "srl_labeler Stages"),
    "tree_dependencies Stages",
]
PP_TEXT = "He ate pizza with a fork. She saw the man with the key."


def scorer(labels, slots, weights, *certain):
    """A random scorer. certain: labels that it always gives, or none."""
    draw = np.random.default_rng(0)
    made = SiteScorer.untrained(labels, WIDTH, slots)
    made.output[:] = draw.normal(size=made.output.shape) * (not certain)
    made.bias[:] = [20.0 * (label in certain) for label in labels]
    return made.replaced(weights=weights, storage="float32")


LABELS = {
    "tags": ("NN", "VBD", "FW", "."),
    "chunks": ("B", "I", "O"),
    "rolesets": ("", "take.01", "?"),
    "arguments": ("", "ARG0", "R-ARG0", "C-ARG1", "ARGM-TMP"),
    "attachments": ("N", "V"),
    "arcs": ("", "ROOT", "NP", "PP", "DT", "NN"),
}


def with_scorers(name, weights, *certain):
    """The trained pipeline and its component, with site scorers."""
    nlp = own(COMPONENTS[name])
    component = part(COMPONENTS[name], nlp)
    component.encoder = True
    component.potentials = Potentials(
        {head: scorer(LABELS[head], HEADS[head], weights, *certain) for head in component.heads}
    )
    return nlp, component


def with_vectors(doc, seed=0):
    draw = np.random.default_rng(seed)
    set_vectors(doc, draw.normal(size=(len(doc), WIDTH)).astype(np.float32))
    return doc


def read(nlp, text=f"{PP_TEXT} {TEXT}  {OTHER}"):
    return nlp(with_vectors(nlp.make_doc(text)))


def answer(name, nlp):
    return COMPONENTS[name].answer(read(nlp))


@pytest.mark.parametrize("name", NAMES)
def test_a_scorer_without_weight_changes_nothing(name):
    nlp, component = with_scorers(name, (1.0, 0.0))
    said, scores = answer(name, nlp)
    changed, _ = with_scorers(name, (0.3, 2.0))
    assert answer(name, changed)[1] != scores
    component.encoder = False
    before, old = answer(name, nlp)
    assert said == before
    np.testing.assert_allclose(
        [np.nan if s is None else s for s in scores],
        [np.nan if s is None else s for s in old],
        atol=2e-5,
    )


@pytest.mark.parametrize("name", NAMES)
def test_vectors_that_are_missing_or_others(name):
    nlp, _ = with_scorers(name, (1.0, 1.0))
    with pytest.raises(StructlearnError, match="SL192"):
        nlp(TEXT)
    assert not len(nlp(""))
    doc = nlp.make_doc(TEXT)
    set_vectors(doc, np.zeros((len(doc), WIDTH + 2), dtype=np.float32))
    with pytest.raises(StructlearnError, match=rf"SL195.* of {WIDTH} .* have {WIDTH + 2}: they"):
        nlp(doc)
    component = part(COMPONENTS[name], nlp)
    component.potentials = Potentials()
    nlp(TEXT)


@pytest.mark.parametrize("name", [NAMES[0], NAMES[1], NAMES[4], NAMES[6]])
def test_bytes(name):
    nlp, component = with_scorers(name, (0.4, 0.7))
    other, loaded = with_scorers(name, (1.0, 1.0), *("O", "", "N", "NN"))
    loaded.from_bytes(component.to_bytes())
    assert loaded.potentials == component.potentials
    assert answer(name, other) == answer(name, nlp)


def test_rare_tags_that_only_the_scorer_likes():
    nlp, tagger = with_scorers(NAMES[0], (0.5, 1.0), "FW")
    assert "FW" not in tagger.parameters.labels
    assert "FW" not in {token.tag_ for token in read(nlp)}
    nlp, tagger = with_scorers(NAMES[0], (0.5, 2.0), "VBD")
    doc = read(nlp)
    assert {token.tag_ for token in doc if not token.is_space} == {"VBD"}
    tagger.potentials["tags"].weights = 0.5, 0.5
    rare = [token for token in read(nlp) if "VBD" in (token._.tag_probs or {})]
    assert 0 < len(rare) < len(doc)


def test_chunks_that_the_scorer_likes():
    for encoding in ("IOB2", "IOBES"):
        nlp, chunker = with_scorers("np_chunker CRF", (0.1, 1.0), "B")
        assert chunker.scored_label("O") == "O"
        chunker.parameters = chunker.parameters.replaced(encoding=encoding)
        assert chunker.scored_label("B-NP") == "B"
        assert chunker.scored_label("I-NP") == "I"
    assert (chunker.scored_label("S-NP"), chunker.scored_label("E-NP")) == ("B", "I")
    nlp, chunker = with_scorers("np_chunker CRF", (0.1, 1.0), "B")
    doc = read(nlp)
    assert len(doc._.np_chunks) == sum(not token.is_space for token in doc)
    one = with_vectors(nlp.make_doc("She read it."))
    (log_p, found), *_ = chunker.n_best(one, 2)
    assert len(found) == 4
    assert log_p > -0.1


def test_arcs_and_labels_of_the_scorer():
    nlp, _ = with_scorers("tree_dependencies Stages", (0.1, 1.0), "PP")
    assert {token.dep_ for token in read(nlp) if not token.is_space} == {"ROOT", "PP"}


def test_attachments_are_those_of_the_pool():
    for label in "NV":
        nlp, _ = with_scorers("pp_attacher LogLinear", (0.1, 1.0), label)
        sites = read(nlp)._.pp_attachments
        assert sites
        assert {site.label for site in sites} == {label}


def test_roles_and_predicates_of_the_scorers():
    nlp, _ = with_scorers("srl_labeler Stages", (0.1, 1.0), "")
    assert not read(nlp)._.frames
    nlp, _ = with_scorers("srl_labeler Stages", (0.1, 1.0), "?", "ARGM-TMP")
    found = read(nlp)._.frames
    assert found
    labels = [argument.label for frame in found for argument in frame.arguments]
    assert labels
    assert set(labels) == {"ARGM-TMP"}
    # R-ARG0 counts as ARG0; the tree decides about R-.
    nlp, _ = with_scorers("srl_labeler Stages", (0.1, 1.0), "?", "R-ARG0")
    labels = {argument.label for frame in read(nlp)._.frames for argument in frame.arguments}
    assert "ARG0" in labels
    assert not {label for label in labels if label.startswith("ARGM")}


@pytest.mark.parametrize("name", ["chain_tagger StochasticCRF", "np_chunker MEMM", *NAMES[4:]])
def test_calibration(name):
    """A scorer that knows the gold labels gets a weight, and one of noise does not."""
    nlp, component = with_scorers(name, (1.0, 1.0))
    component.potentials = Potentials()
    made = []
    for number, example in enumerate(examples(COMPONENTS[name], nlp)):
        doc = example.predicted
        for pipe_name, pipe in nlp.pipeline:
            doc = doc if pipe_name == COMPONENTS[name].factory else pipe(doc)
        made.append(Example(with_vectors(doc, number), example.reference))
    component.potentials = with_scorers(name, (1.0, 1.0))[1].potentials
    before = component.potentials
    component.calibrate(made)
    for head in component.heads:
        own, weight = component.potentials[head].weights
        assert 0.0 <= weight < 0.5
        assert own > 0.1
        assert before[head].weights == (1.0, 1.0)


def test_no_encoder_for_the_splitter():
    nlp = spacy.blank("en")
    with pytest.raises(StructlearnError, match="encoder is True; it must be false"):
        nlp.add_pipe("sentence_splitter", config={"encoder": True})
