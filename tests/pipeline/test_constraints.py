"""Spans that must or must not be brackets, from the Doc to the tree."""

import pytest
import spacy
from isbn.networks import initialized, sample, symbols_of
from spacy.tokens import Doc, Span

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.architectures import learner_model
from spacy_structlearn.pipeline.constituency_parser import ConstituencyParser, cut

KEY = "constituent_constraints"
DOOR = "He opened the door with the key."
HIGH = "(VP (VBD opened) (NP (DT the) (NN door)) (PP (IN with) (NP (DT the) (NN key))))"
LOW = "(VP (VBD opened) (NP (NP (DT the) (NN door)) (PP (IN with) (NP (DT the) (NN key)))))"


@pytest.fixture(scope="module")
def made(grammar):
    """A parser with the grammar of the sample: (pipeline, component)."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    return nlp, ConstituencyParser(nlp.vocab, learner_model("fake", grammar, None))


@pytest.fixture
def parser(made):
    yield made
    made[1].max_length, made[1].constraint_keys, made[1].tags = 250, (KEY,), "ignore"


def wanting(doc, *spans, key=KEY):
    """The Doc with constraints (start, end, label)."""
    doc.spans[key] = [Span(doc, *span) for span in spans]
    return doc


def failures(doc):
    return [(span.label_, span.text) for span in doc._.parse_failures]


def brackets(doc):
    return {(span.start, span.end, span.label_) for span in doc.spans["constituents"]}


def test_a_wrong_attachment_is_corrected(parser):
    nlp, part = parser
    found = {}
    for wanted in ([], [(2, 7, "NP")], [(2, 7, "!NP")], [(2, 7, "!")], [(2, 7, "")]):
        doc = part(wanting(nlp(DOOR), *wanted))
        found[wanted[0][2] if wanted else None] = doc._.trees[0].children[0].children[1]
        assert failures(doc) == []
        # It stays, and parsing again gives the same.
        assert [(s.start, s.end, s.label_) for s in doc.spans[KEY]] == wanted
        assert part(doc)._.trees[0].children[0].children[1] == found[wanted[0][2]] if wanted else 1
    assert str(found["NP"]) == str(found[""]) == LOW
    assert str(found["!NP"]) == str(found["!"]) == HIGH
    assert str(found[None]) in (LOW, HIGH)


def test_probabilities_are_those_given_the_constraints(parser):
    nlp, part = parser
    plain = part(nlp(DOOR))
    free = part.k_best(plain[:], 500)
    doc = part(wanting(nlp(DOOR), (2, 7, "NP")))
    assert doc[2:7]._.constituent_prob == pytest.approx(1.0, abs=1e-3)
    best = part.k_best(doc[:], 3)
    assert best[0][1] == doc._.trees[0]
    assert all(("NP", 2, 7) in tree.spans() for _, tree in best)
    of_free = {str(tree): log for log, tree in free}
    assert best[0][0] > of_free[str(best[0][1])]


def test_words_and_their_tags(parser):
    nlp, part = parser
    doc = part(wanting(nlp("He opened the door."), (3, 4, "NP"), (1, 2, "!VBD")))
    assert (3, 4, "NP") in brackets(doc)
    assert doc._.trees[0].tags()[1] != "VBD"
    assert failures(doc) == []
    doc = part(wanting(nlp("He opened the door."), (1, 2, "VBN")))
    assert doc._.trees[0].tags()[1] == "VBN"
    # More than the tag of the token says.
    part.tags = "require"
    doc = nlp("He opened the door.")
    for token, tag in zip(doc, ["PRP", "VBD", "DT", "NN", "."], strict=True):
        token.tag_ = tag
    assert part(wanting(doc, (1, 2, "VBN")))._.trees[0].tags() == ["PRP", "VBN", "DT", "NN", "."]


def test_constraints_that_no_tree_meets(parser):
    nlp, part = parser
    text = f"{DOOR} She left."
    plain = part(nlp(text))
    for spans in (
        [(1, 3, ""), (2, 4, "")],  # cross
        [(6, 9, "")],  # beyond the sentence
        [(2, 4, "QQQ")],
        [(2, 4, "NP"), (2, 4, "!")],
    ):
        doc = part(wanting(nlp(text), *spans))
        first, second = doc.sents
        expected = [("constraints", first.text)]
        if spans[0][1] > 8:
            expected.append(("constraints", second.text))
        assert failures(doc) == expected
        assert doc._.trees == plain._.trees
    # They do not concern the other sentence.
    doc = part(wanting(nlp(text), (1, 3, ""), (2, 4, ""), (8, 10, "!")))
    assert failures(doc) == [("constraints", DOOR)]
    assert (8, 10) not in {span[:2] for span in brackets(doc)}
    assert failures(part(nlp(text))) == []
    # What is forbidden beyond a sentence is in no tree.
    assert failures(part(wanting(nlp(text), (6, 9, "!"), (0, 2, "!QQQ")))) == []


def test_white_space(parser):
    nlp, part = parser
    words = [" ", "He", " ", "opened", "the", "\n", "door", ".", " "]
    doc = Doc(nlp.vocab, words=words, sent_starts=[True] + [False] * 8)
    # White space around the words and between them does not count.
    doc = part(wanting(doc, (4, 6, ""), (2, 7, "VP"), (1, 3, "NP")))
    assert failures(doc) == []
    assert {(4, 5), (3, 7), (1, 2)} <= {span[:2] for span in brackets(doc)}
    doc = part(wanting(doc, (2, 7, "VP"), (5, 8, "!")))
    assert failures(doc) == []
    assert (3, 7, "VP") in brackets(doc)
    assert failures(part(wanting(doc, (2, 3, "")))) == [("constraints", doc.text.strip())]
    assert failures(part(wanting(doc, (2, 3, "!")))) == []
    empty = Doc(nlp.vocab, words=["\n", " "])
    assert failures(part(wanting(empty, (0, 1, "NP")))) == []
    assert part.k_best(empty, 2) == []


def test_other_groups_and_entities(parser):
    nlp, part = parser
    text = "He opened the door with the key ."
    doc = Doc(nlp.vocab, words=text.split(), sent_starts=[True] + [False] * 7)
    doc.ents = [Span(doc, 2, 7, "PRODUCT"), Span(doc, 1, 2, "PERSON")]
    wanting(doc, (5, 7, "X"), (3, 4, "NP"), key="quotes")
    wanting(doc, (0, 2, ""))
    part.constraint_keys = ()
    assert failures(part(doc)) == []
    part.constraint_keys = ("ents", "quotes", "nothing")
    doc = part(doc)
    assert failures(doc) == []
    spans = {span[:2] for span in brackets(doc)}
    assert {(2, 7), (5, 7)} < spans
    # A word is a constituent of every tree.
    assert not {(1, 2), (3, 4)} & spans
    part.constraint_keys = ("ents", KEY)
    doc = part(doc)
    assert ("constraints", text) in failures(doc) or (0, 2) in {s[:2] for s in brackets(doc)}


def test_k_best_of_a_span(parser):
    nlp, part = parser
    doc = wanting(nlp(f"{DOOR} She left."), (2, 7, "NP"), (8, 10, "!"), (0, 11, "!"))
    first, second = doc.sents
    assert all(("NP", 2, 7) in tree.spans() for _, tree in part.k_best(first, 5))
    assert all(("NP", 0, 5) in tree.spans() for _, tree in part.k_best(doc[2:7], 5))
    # Constraints on more than these words, and on others, do not count.
    assert part.k_best(doc[2:4], 1)
    assert all(tree.spans()[1:] for _, tree in part.k_best(second, 2))
    for bad in ([(2, 7, "Q")], [(5, 9, "NP")], [(0, 2, ""), (1, 3, "")]):
        with pytest.raises(StructlearnError, match="SL190") as error:
            part.k_best(next(wanting(doc, *bad).sents), 3)
    assert "[0:2], [1:3] (in tokens)" in str(error.value)


# --- long sentences -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "brackets", "ends"),
    [
        ("a b c d e f", [(3, 5)], [3, 6]),
        ("a b c d e f", [(2, 5)], [2, 6]),
        ("a b c d e f", [(0, 6), (1, 6), (3, 5)], [3, 6]),
        ("a b c d e f", [(0, 4), (4, 6)], [4, 6]),
        ("a ; b , c d", [(1, 3)], [4, 6]),
        ("a ; b c d e f g", [(1, 4)], [4, 8]),
        ("a b c d e f g h", [(1, 4), (3, 6)], [1, 5, 8]),
    ],
)
def test_a_sentence_is_not_cut_inside_a_bracket(text, brackets, ends):
    assert cut(text.split(), 4, brackets) == ends


# --- storage, processes, other learners -----------------------------------------------------------
def test_a_sigmoid_belief_network_has_no_constraints():
    nlp = spacy.blank("en")
    model = initialized(*symbols_of(sample()), state_size=4, seed=1)
    part = ConstituencyParser(nlp.vocab, learner_model("fake", model, None))
    doc = Doc(nlp.vocab, words=["a", "b"], sent_starts=[True, False])
    part(doc)
    with pytest.raises(StructlearnError, match="SL633"):
        part(wanting(doc, (0, 2, "")))
    with pytest.raises(StructlearnError, match="SL633"):
        part.k_best(doc, 2)
    part.constraint_keys = ()
    assert part(doc)._.trees
