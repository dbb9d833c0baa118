"""Wrong arguments of public methods: one error of the package, at once, for each."""

import math
import time

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example

import spacy_structlearn
from spacy_structlearn import ConstituentMatcher, as_dict, explain
from spacy_structlearn.display.page import page
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.extensions.nltk_trees import from_nltk, to_nltk
from spacy_structlearn.pipeline.training.cross_prediction import cross_predict

TEXT = "She sold the old boat to her neighbour."
NO_NUMBERS = ["2", "", b"2", 1.5, np.float64(2), -1, 0, None, True, math.nan, math.inf, [1], {}, 2j]
NO_STRINGS = [1, 1.5, None, True, b"NP", ["NP"], {"NP"}, object]
NO_NAMES = [1, 1.5, True, b"x", [1], [None]]
NO_LISTS = [TEXT, 1, None, [TEXT], [None], b"x"]
NO_DOCS = [TEXT, TEXT.encode(), None, 1, [TEXT], {"text": TEXT}, object(), Doc]


class Given:
    """The built-in pipeline, a Doc, and what else the cases need."""

    def __init__(self):
        self.nlp = spacy_structlearn.load()
        self.doc = self.nlp(TEXT)

    def __getattr__(self, component):
        return self.nlp.get_pipe(component)

    @property
    def matcher(self):
        matcher = ConstituentMatcher(self.nlp.vocab)
        matcher.add("NP", ["NP < DT"])
        return matcher

    @property
    def frame(self):
        return self.doc._.frames[0]

    def examples(self):
        return [Example(self.doc.copy(), self.doc.copy()) for _ in range(4)]


@pytest.fixture(scope="module")
def given():
    return Given()


# For each case: what is called, and what it cannot take.
CASES = {
    "k_best.k": (lambda g, v: g.constituency_parser.k_best(g.doc, v), NO_NUMBERS),
    "k_best.span.k": (lambda g, v: g.constituency_parser.k_best(g.doc[1:5], v), NO_NUMBERS),
    "chunks.n": (lambda g, v: g.np_chunker.n_best(g.doc, v), [*NO_NUMBERS, 10**9, 2**70]),
    "splits.n": (lambda g, v: g.sentence_splitter.n_best(g.doc, v), NO_NUMBERS),
    "known.tags": (lambda g, v: g.np_chunker.n_best(g.doc, 2, known={1: v}), [*NO_STRINGS, "X"]),
    "known.tokens": (
        lambda g, v: g.np_chunker.n_best(g.doc, 2, known={v: "O"}),
        ["1", 99, -1, 1.5, None, b"1", "boat"],
    ),
    "known": (lambda g, v: g.np_chunker.n_best(g.doc, 2, known=v), ["O", 1, ["O"], b"O", {1}]),
    "k_best.doc": (lambda g, v: g.constituency_parser.k_best(v, 2), NO_DOCS),
    "chunks.doc": (lambda g, v: g.np_chunker.n_best(v, 2), NO_DOCS),
    "splits.doc": (lambda g, v: g.sentence_splitter.n_best(v, 2), NO_DOCS),
    "as_dict": (lambda g, v: as_dict(v), NO_DOCS),
    "to_nltk": (lambda g, v: to_nltk(v), [v for v in NO_DOCS if v is not None]),
    "from_nltk": (
        lambda g, v: from_nltk(g.nlp.vocab, v),
        ["(NN x)", [("x", "NN")], ["x"], 1, None],
    ),
    "page": (lambda g, v: page(v), [TEXT, 1, [TEXT], [None], [1], None]),
    "phrases": (lambda g, v: g.doc._.phrases(v), NO_STRINGS),
    "phrases.span": (lambda g, v: g.doc[1:5]._.phrases("NP", v), NO_STRINGS),
    "phrases.which": (lambda g, v: g.doc._.phrases("NP", which=v), [*NO_STRINGS, "", "ALL"]),
    "frame.get": (lambda g, v: g.frame.get(v), NO_STRINGS),
    "explain": (lambda g, v: explain(v), NO_STRINGS),
    "load": (
        lambda g, v: spacy_structlearn.load(v),
        [1, 1.5, None, True, b"en", ["en"], {}, object],
    ),
    "load.disable": (lambda g, v: spacy_structlearn.load(disable=v), NO_NAMES),
    "load.enable": (lambda g, v: spacy_structlearn.load(enable=v), NO_NAMES),
    "load.exclude": (lambda g, v: spacy_structlearn.load(exclude=v), NO_NAMES),
    "matcher.doc": (lambda g, v: g.matcher(v), NO_DOCS),
    "matcher.search": (lambda g, v: list(g.matcher.search(v)), NO_LISTS),
    "matcher.count": (lambda g, v: g.matcher.count(v), NO_LISTS),
    "matcher.add.key": (
        lambda g, v: g.matcher.add(v, ["NP"]),
        [1.5, None, b"x", ["x"], {}, object],
    ),
    "matcher.add": (
        lambda g, v: g.matcher.add("X", v),
        [1, None, [1], [None], [[1]], [[{}]], [["NP"]], "", [""], ["NP <"], [{"LABEL": "NP"}]],
    ),
    "matcher.remove": (lambda g, v: g.matcher.remove(v), ["other", 5, 1.5, None, b"NP", ["NP"]]),
    "matcher.head_rules": (
        lambda g, v: ConstituentMatcher(g.nlp.vocab, head_rules=v),
        ["other", 1, None, b"x", {}, []],
    ),
    "batch_size": (lambda g, v: list(g.np_chunker.pipe([g.doc.copy()], batch_size=v)), NO_NUMBERS),
    "folds": (
        lambda g, v: cross_predict(g.nlp, g.examples(), ["np_chunker"], folds=v),
        [*NO_NUMBERS, 1],
    ),
    "srl.batch_size": (lambda g, v: list(g.srl_labeler.pipe([g.doc], batch_size=v)), NO_NUMBERS),
}


@pytest.mark.arguments
@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param(name, value, id=f"{name}-{number}")
        for name, (_, values) in CASES.items()
        for number, value in enumerate(values)
    ],
)
def test_wrong_arguments_are_one_clear_error(given, name, value):
    begun = time.monotonic()
    with pytest.raises(StructlearnError) as error:
        CASES[name][0](given, value)
    assert time.monotonic() - begun < 5
    assert str(error.value).startswith(f"[{error.value.code}] ")
    assert len(str(error.value)) < 1500


def test_arguments_that_are_numbers(given):
    for number in (1, np.int64(2), 3):
        assert len(given.np_chunker.n_best(given.doc, number)) == number
        assert 1 <= len(given.constituency_parser.k_best(given.doc, number)) <= number


@pytest.mark.finding
def test_n_best_chunks_are_distinct_and_sum_to_one(given):
    for text, n in (("Hi", 2), ("", 1), ("Old boats sank", 5)):
        doc = given.chain_tagger(given.nlp.make_doc(text))
        found = given.np_chunker.n_best(doc, 1000)
        assert len(found) >= n
        places = {tuple((chunk.start, chunk.end) for chunk in chunks) for _, chunks in found}
        assert len(places) == len(found)
        assert sum(math.exp(score) for score, _ in found) == pytest.approx(1)


@pytest.mark.finding
def test_n_best_takes_no_memory_for_what_cannot_be(given):
    """Also of numbers that NumPy refuses: see `chunks.n` above."""
    doc = given.chain_tagger(given.nlp.make_doc("Hi"))
    assert len(given.np_chunker.n_best(doc, 10**12)) == 2
    assert len(given.sentence_splitter.n_best(doc, 10**12)) == 1


@pytest.mark.finding
@pytest.mark.parametrize("k", ["2", 1.5, -1, None])
def test_k_best_takes_a_number(given, k):
    with pytest.raises(StructlearnError, match=r"SL209.*k must be .*at least 1, not"):
        given.constituency_parser.k_best(given.doc, k)


# --- labels that nothing has ----------------------------------------------------------------------
def add(given, pattern):
    ConstituentMatcher(given.nlp.vocab).add("key", [pattern])


@pytest.mark.finding
@pytest.mark.parametrize(
    ("look", "label", "hint"),
    [
        (lambda g: g.doc._.phrases("np"), "np", "'NP'"),
        (lambda g: g.doc._.phrases("NP", "NPP"), "NPP", "'PP'"),
        (lambda g: g.frame.get("AGENT"), "AGENT", ""),
        (lambda g: g.frame.get("arg0"), "arg0", "'ARG0'"),
        (lambda g: add(g, "np < NN"), "np", "'NP'"),
        (lambda g: add(g, "NN > np"), "np", "'NP'"),
    ],
)
def test_labels_that_nothing_has_get_a_warning(given, look, label, hint):
    with pytest.warns(UserWarning, match=f"SL802.*'{label}'.*{hint}") as warned:
        look(given)
    assert len(warned) == 1


@pytest.mark.filterwarnings("error")
def test_labels_that_something_may_have_get_none(given):
    assert given.doc._.phrases("NP", "SBARQ", "UCP") != ()
    assert given.frame.get("R-ARG0") is None
    assert given.frame.get("C-ARGM-TMP") is None
    for pattern in ("NP < DT", "NN < boat", "/^N/ < NN", "__ < xyz"):
        add(given, pattern)
    ConstituentMatcher(spacy.blank("is").vocab).add("key", ["IP-MAT < NP-SBJ"])


@pytest.mark.finding
@pytest.mark.filterwarnings("error")
def test_root_is_another_name_of_top(given):
    found = []
    for pattern in ("ROOT < S", "TOP < S", [{"RIGHT_ID": "a", "RIGHT_ATTRS": {"LABEL": "ROOT"}}]):
        matcher = ConstituentMatcher(given.nlp.vocab)
        matcher.add("key", [pattern])
        found.append([spans[0].label_ for _, spans in matcher(given.doc)])
    assert found == [["TOP"]] * 3


@pytest.mark.finding
def test_a_parser_without_sentence_boundaries_says_so(given):
    parser = given.constituency_parser
    doc = given.nlp.make_doc("She left. He stayed.")
    with pytest.raises(StructlearnError, match=r"SL191.*constituency_parser.*one_sentence = True"):
        parser(doc)
    parser.one_sentence = True
    try:
        assert len(parser(doc)._.trees) == 1
    finally:
        parser.one_sentence = False
    for text in ("", " ", "Run", "\n Run \n"):
        parser(given.nlp.make_doc(text))
