"""Search in the trees of Docs: what is searched, and what is returned."""

import pickle
from random import Random

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from matching.tree_search import random_doc, random_pattern
from pipeline.parsed import parsed_doc
from spacy.tokens import Doc, DocBin, Span

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.extensions import forests, set_spans
from spacy_structlearn.pipeline.extensions.matcher import ConstituentMatcher
from spacy_structlearn.trees.heads import LEFTMOST

NLP = spacy.blank("en")
VOCAB = NLP.vocab
SAW = "(S (NP (DT The) (JJ old) (NN man)) (VP (VBD saw) (NP (PRP us))) (. .))"
LEFT = "(S (NP (NP (DT The) (NN dog)) (PP (IN of) (NP (NNP Ann)))) (VP (VBD left)))"
SEEDS = st.integers(0, 2**32).map(Random)


def matcher_of(*patterns, **settings):
    matcher = ConstituentMatcher(VOCAB, **settings)
    for number, pattern in enumerate(patterns):
        matcher.add(str(number), [pattern])
    return matcher


def found_by(matcher, doclike):
    """The matches as (key, labelled texts)."""
    return [
        (VOCAB.strings[key], *(f"{span.label_} {span.text}" for span in spans))
        for key, spans in matcher(doclike)
    ]


def places(matcher, doc):
    """The matches as `search` returns them."""
    return [
        (0, key, [(span.label_, span.start, span.end) for span in spans])
        for key, spans in matcher(doc)
    ]


def test_spans_of_a_match():
    doc = parsed_doc(VOCAB, SAW, LEFT)
    matcher = matcher_of("NP < DT=det $+ (VP <# /^VB/)", "TOP <: S")
    found = matcher(doc)
    assert all(isinstance(span, Span) for _, spans in found for span in spans)
    assert found_by(matcher, doc) == [
        ("1", "TOP The old man saw us .", "S The old man saw us ."),
        ("0", "NP The old man", "DT The", "VP saw us", "VBD saw"),
        ("1", "TOP The dog of Ann left", "S The dog of Ann left"),
    ]


def test_white_space_is_no_node():
    doc = parsed_doc(VOCAB, SAW, LEFT, space=(0, 2, 6, 8))
    assert [token.is_space for token in doc].count(True) == 4
    pattern = [{"RIGHT_ID": "a", "RIGHT_ATTRS": {"LABEL": "NP", "LENGTH": {">=": 3}}}]
    assert found_by(matcher_of(pattern, "JJ . NN"), doc) == [
        ("0", "NP The old \n man"),
        ("1", "JJ old", "NN man"),
        ("0", "NP The dog \n of Ann"),
    ]
    assert matcher_of("_SP|/\\n/")(doc) == []
    blank = Doc(VOCAB, words=["\n", " "])
    set_spans(blank, "constituents", [])
    assert matcher_of("__")(blank) == []


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ({"LABEL": "dog"}, ["dog dog"]),
        ({"TAG": "DT"}, ["DT The", "DT The"]),
        ({"TEXT": "The"}, ["DT The", "DT The"]),
        ({"orth": {"IN": ["dog", "Ann"]}}, ["NN dog", "NNP Ann"]),
        ({"LOWER": "the", "LABEL": {"REGEX": "^D"}}, ["DT The", "DT The"]),
        (
            {"SHAPE": {"REGEX": "^x+$"}, "TAG": {"NOT_IN": ["NN", "JJ", "IN", "PRP"]}},
            ["VBD saw", "VBD left"],
        ),
        ({"IS_PUNCT": True}, [". ."]),
        ({"IS_TITLE": 1, "LABEL": {"NOT_IN": ["DT"]}}, ["NNP Ann"]),
        ({"LEMMA": "leave"}, ["VBD left"]),
        ({"ENT_TYPE": {"NOT_IN": [""]}}, ["NNP Ann"]),
        ({"LENGTH": {">": 1, "<": 3}, "LABEL": {"IN": ["NP", "VP"]}}, ["VP saw us", "NP The dog"]),
        ({"LENGTH": {"IN": [6]}}, ["TOP The old man saw us .", "S The old man saw us ."]),
        ({"LENGTH": {"!=": 1}, "LABEL": "PP"}, ["PP of Ann"]),
    ],
)
def test_attributes(attributes, wanted):
    doc = parsed_doc(VOCAB, SAW, LEFT)
    doc[-1].lemma_ = "leave"
    doc.set_ents([Span(doc, 9, 10, label="PERSON")])
    matcher = matcher_of([{"RIGHT_ID": "a", "RIGHT_ATTRS": attributes}])
    assert [text for _, text in found_by(matcher, doc)] == wanted
    assert list(matcher.search(DocBin(docs=[doc]))) == places(matcher, doc)
    bare = DocBin(attrs=["TAG", "LEMMA", "ENT_TYPE", "SENT_START"], docs=[doc])
    assert list(matcher.search(bare)) == places(matcher, doc)


def test_tags_of_the_parser_are_labels():
    doc = parsed_doc(VOCAB, SAW)
    set_spans(doc, "constituent_tags", [("XY", 3, 4)])
    doc[0].tag_ = ""
    tags = matcher_of("XY|XX|VBD")
    assert found_by(tags, doc) == [("0", "XX The"), ("0", "XY saw")]
    own = matcher_of([{"RIGHT_ID": "a", "RIGHT_ATTRS": {"TAG": "VBD"}}])
    assert found_by(own, doc) == [("0", "XY saw")]
    for matcher in (tags, own):
        assert list(matcher.search(DocBin(docs=[doc]))) == places(matcher, doc)


def test_matches_within_a_span():
    doc = parsed_doc(VOCAB, SAW, LEFT, space=(6,))
    matcher = matcher_of("NP < __=child", "NP !>> NP")
    first, second = doc.sents
    assert found_by(matcher, first) + found_by(matcher, second) == found_by(matcher, doc)
    assert found_by(matcher, doc[4:6]) == [("0", "NP us", "PRP us"), ("1", "NP us")]
    # What is outside of the span still counts for relations that must not hold.
    assert found_by(matcher, doc[7:9]) == [
        ("0", "NP The dog", "DT The"),
        ("0", "NP The dog", "NN dog"),
    ]
    assert found_by(matcher, doc[2:2]) == []


def test_docs_without_trees():
    matcher = matcher_of("NP")
    doc = Doc(VOCAB, words=["No", "trees"])
    empty = Doc(VOCAB)
    assert matcher(empty) == []
    assert list(matcher.search(DocBin(docs=[empty]))) == list(matcher.search([])) == []
    assert list(matcher.search(DocBin())) == []
    for search in (
        matcher,
        lambda doc: matcher.count([doc]),
        lambda doc: list(matcher.search(DocBin(docs=[doc]))),
    ):
        with pytest.raises(StructlearnError, match="SL020") as caught:
            search(doc)
        assert caught.value.fields["text"].strip() == "No trees"


@given(st.lists(SEEDS, max_size=5), SEEDS)
def test_docs_of_a_docbin(randoms, random):
    docs = [random_doc(own, VOCAB) for own in randoms]
    matcher = matcher_of(random_pattern(random, 3), random_pattern(random, 3))
    wanted = [
        (number, *match) for number, doc in enumerate(docs) for _, *match in places(matcher, doc)
    ]
    stored = DocBin(docs=docs)
    counts = [sum(key == VOCAB.strings[n] for _, key, _ in wanted) for n in ("0", "1")]
    for each in (docs, stored, DocBin().from_bytes(stored.to_bytes())):
        assert list(matcher.search(each)) == wanted
        assert list(matcher.count(each).values()) == counts
    if wanted:
        whole = Doc.from_docs(list(stored.get_docs(VOCAB)))
        assert [key for key, _ in matcher(whole)] == [key for _, key, _ in wanted]


def test_a_docbin_is_read_in_parts(monkeypatch):
    docs = [parsed_doc(VOCAB, SAW), Doc(VOCAB), parsed_doc(VOCAB, LEFT), parsed_doc(VOCAB, SAW)]
    matcher = matcher_of("NP < DT")
    wanted = list(matcher.search(docs))
    assert [number for number, _, _ in wanted] == [0, 2, 3]
    for tokens in (1, 7, 8):
        monkeypatch.setattr(forests, "TOKENS", tokens)
        assert list(matcher.search(DocBin(docs=docs))) == wanted
        assert list(matcher.search(iter(docs))) == wanted


def test_after_retokenizing():
    matcher = matcher_of("NP < DT", "VP", "NP > PP", "JJ")
    doc = parsed_doc(VOCAB, SAW, LEFT)
    before = found_by(matcher, doc)
    assert len(before) == 6
    for place in (9, 4):
        with doc.retokenize() as retokenizer:
            text = doc[place].text
            retokenizer.split(doc[place], [text[:1], text[1:]], heads=[doc[0], doc[0]])
    # spaCy stores it, since its spans are not beyond the end.
    stored = list(matcher.search(DocBin(docs=[doc])))
    assert stored == places(matcher, doc)
    assert found_by(matcher, doc) == before
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[8:12])  # begins in the middle of a phrase
    assert found_by(matcher, doc) == [
        ("0", "NP The old man", "DT The"),
        ("3", "JJ old"),
        ("1", "VP saw us"),
        ("0", "NP The dog of Ann", "DT The"),
        ("1", "VP left"),
    ]


def test_keys():
    matcher = ConstituentMatcher(VOCAB)
    assert len(matcher) == 0
    assert "a" not in matcher
    dicts = [{"RIGHT_ID": "x", "RIGHT_ATTRS": {}}]
    matcher.add("a", ["NP", dicts])
    matcher.add("a", "VP")
    matcher.add(VOCAB.strings.add("b"), ["S"])
    assert len(matcher) == 2
    assert "a" in matcher
    assert matcher.has_key(VOCAB.strings["b"])
    assert matcher.get("a") == (None, ["NP", dicts, "VP"])
    assert matcher.get("c") is None
    assert matcher.get("c", 1) == 1
    matcher.remove("a")
    assert len(matcher) == 1
    assert "a" not in matcher
    with pytest.raises(StructlearnError, match=r"SL703.*'a'.*: b"):
        matcher.remove("a")
    with pytest.raises(StructlearnError, match="SL701"):
        matcher.add("b", ["NP", "NP <"])
    assert matcher.get("b") == (None, ["S"])


calls = []


def note(matcher, doc, number, found):
    calls.append((len(matcher), doc.text, number, found[number][1][0].text))


def test_callbacks():
    calls.clear()
    doc = parsed_doc(VOCAB, LEFT)
    matcher = ConstituentMatcher(VOCAB)
    matcher.add("a", ["NP < DT"], on_match=note)
    matcher.add("b", ["VP"])
    matcher(doc)
    assert calls == [(2, doc.text, 0, "The dog")]


def test_pickling():
    doc = parsed_doc(VOCAB, SAW)
    matcher = ConstituentMatcher(VOCAB, head_rules="spacy_structlearn.leftmost_head_rules.v1")
    matcher.add("a", ["NP <# DT", "NP < PRP"], on_match=note)
    again = pickle.loads(pickle.dumps(matcher))
    assert places(again, doc) == places(matcher, doc) != []
    assert again.get("a") == matcher.get("a")
    assert again.head_rules == matcher.head_rules


def test_head_rules():
    doc = parsed_doc(VOCAB, SAW)
    assert found_by(matcher_of("NP <# __"), doc)[0] == ("0", "NP The old man", "NN man")
    for rules in (LEFTMOST, "spacy_structlearn.leftmost_head_rules.v1"):
        found = found_by(matcher_of("NP <# __", head_rules=rules), doc)
        assert found[0] == ("0", "NP The old man", "DT The")
    with pytest.raises(StructlearnError, match=r"SL405.*leftmost_head_rules"):
        ConstituentMatcher(VOCAB, head_rules="none")
