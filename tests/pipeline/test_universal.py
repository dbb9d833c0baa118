"""What spaCy and its users do with dependencies, parts of speech and lemmas works with ours."""

import pytest
import spacy
from contracts.components import COMPONENTS, TEXT, own
from spacy import displacy
from spacy.matcher import DependencyMatcher
from spacy.tokens import Doc
from spacy.training import Example


@pytest.fixture(scope="module")
def nlp():
    """Trees, chunks, dependencies, parts of speech: all that a text needs, learned from toys."""
    made = own(COMPONENTS["tree_dependencies Stages"])
    made.get_pipe("constituency_parser").set_tags = True
    made.add_pipe("tree_morphologizer", source=own(COMPONENTS["tree_morphologizer StochasticCRF"]))
    made.add_pipe("np_chunker", source=own(COMPONENTS["np_chunker CRF"]))
    return made


@pytest.fixture
def doc():
    """The old dogs saw a bone. With chunks, as the chunker finds them."""
    vocab = spacy.blank("en").vocab
    pipe = spacy.blank("en", vocab=vocab).create_pipe(
        "np_chunker", config={"set_noun_chunks": True}
    )
    made = Doc(
        pipe.vocab,
        words=["The", "old", "dogs", "saw", "a", "bone", "."],
        pos=["DET", "ADJ", "NOUN", "VERB", "DET", "NOUN", "PUNCT"],
        lemmas=["the", "old", "dog", "see", "a", "bone", "."],
        heads=[2, 2, 3, 3, 5, 3, 3],
        deps=["det", "amod", "nsubj", "ROOT", "det", "obj", "punct"],
    )
    made.spans["np_chunks"] = [spacy.tokens.Span(made, *ends, "NP") for ends in ((0, 3), (4, 6))]
    return made


def test_a_text_is_filled(nlp):
    doc = nlp(TEXT)
    for layer in ("TAG", "POS", "MORPH", "LEMMA", "DEP", "HEAD", "SENT_START"):
        assert doc.has_annotation(layer, require_complete=layer != "SENT_START"), layer
    for sentence in doc.sents:
        assert [token for token in sentence if token.head == token] == [sentence.root]
        assert sorted(token.i for token in sentence.root.subtree) == [t.i for t in sentence]
    stored = doc.to_json()["tokens"][0]
    assert {"pos", "morph", "lemma", "dep", "head", "tag"} <= stored.keys()
    again = Doc(nlp.vocab).from_json(doc.to_json())
    assert [t.head.i for t in again] == [t.head.i for t in doc]


def test_scores_of_spacy(nlp):
    gold = nlp(TEXT)
    scores = nlp.evaluate([Example(nlp.make_doc(TEXT), gold)])
    assert [scores[name] for name in ("dep_uas", "dep_las", "pos_acc", "lemma_acc")] == [1.0] * 4


def test_noun_chunks(doc):
    assert [(chunk.text, chunk.root.text) for chunk in doc.noun_chunks] == [
        ("The old dogs", "dogs"),
        ("a bone", "bone"),
    ]
    merged = spacy.pipeline.merge_noun_chunks(doc)
    assert [(t.text, t.dep_, t.head.text) for t in merged] == [
        ("The old dogs", "nsubj", "saw"),
        ("saw", "ROOT", "saw"),
        ("a bone", "obj", "saw"),
        (".", "punct", "saw"),
    ]


def test_what_reads_arcs(doc):
    assert [t.text for t in doc[2].subtree] == ["The", "old", "dogs"]
    matcher = DependencyMatcher(doc.vocab)
    verb = {"RIGHT_ID": "verb", "RIGHT_ATTRS": {"POS": "VERB", "LEMMA": "see"}}
    object_ = {"RIGHT_ID": "object", "RIGHT_ATTRS": {"DEP": "obj"}}
    matcher.add("seen", [[verb, {"LEFT_ID": "verb", "REL_OP": ">", **object_}]])
    assert [tokens for _, tokens in matcher(doc)] == [[3, 5]]
    svg = displacy.render(doc, style="dep", jupyter=False)
    assert svg.count("displacy-arrow") == svg.count("displacy-arrowhead") * 2 > 0
