"""The default pipeline with texts, tokenisers, pipelines and processes as users have them."""

import random

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span, Token
from spacy.tokens.underscore import Underscore

import spacy_structlearn
from spacy_structlearn.display.page import page
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.trees.brackets import parse_tree

KEYS = ("np_chunks", "constituents", "pp_attachments", "srl")
TEXTS = [
    "She ate the pizza with a fork. He left.",
    "",
    "The man who sold the boat to a friend died yesterday.\n\nThey saw a film about whales.",
    " \t",
    "Run!",
    "She put the book on the table in the old town hall.",
]


@pytest.fixture(scope="module")
def nlp():
    return spacy_structlearn.load()


def annotation(doc):
    """All that is predicted, with the probabilities."""
    groups = [doc.spans[key] for key in KEYS]
    return [
        [[(s.label_, s.start, s.end, s.kb_id_) for s in group] for group in groups],
        [group.attrs["scores"].tolist() for group in groups],
    ]


def read_all(doc):
    """Read every getter of every token and constituent, and check what always holds."""
    words = [token.i for token in doc if not token.is_space]
    sentences = [s for s in extensions.sentences(doc) if not all(t.is_space for t in s)]
    assert len(doc._.trees) == len(sentences)
    for sentence in sentences:
        found = list(sentence._.constituents)
        assert extensions.brackets.trimmed(found[0]) == extensions.brackets.trimmed(sentence)
        inside = [i for i in words if sentence.start <= i < sentence.end]
        assert len(parse_tree(sentence._.parse_string).words()) == len(inside)
        for span in found:
            assert span._.is_constituent
            assert span._.constituent_prob is None or 0 <= span._.constituent_prob <= 1
            assert span._.tree.words() == [t.text for t in span if not t.is_space]
            assert span._.parent is None or span._.parent._.is_constituent
            assert all(child._.is_constituent for child in span._.children)
    for token in doc:
        assert token._.np_iob in ("B", "I", "O")
        assert token._.pp_head is None or token._.pp_head.doc is doc
        assert token._.srl is None or token._.srl in doc._.frames
        assert len(list(token._.constituents)) == (0 if token.is_space else 1)
        assert list(token._.children) == []
        assert bool(token._.parse_string) != token.is_space
        assert isinstance(token._.labels, tuple)
        assert token._.parent is None or token in token._.parent
    for chunk in doc._.np_chunks:
        assert 0 < chunk._.np_chunk_prob <= 1
        assert not chunk[0].is_space
        assert not chunk[-1].is_space
    for site in doc._.pp_attachments:
        assert site.prep in site.pp
        assert 0 <= site.prob <= 1
    for frame in doc._.frames:
        assert all(0 <= argument.prob <= 1 for argument in frame.arguments)
    assert all(span.label_ in ("cut", "fallback") for span in doc._.parse_failures)


# --- texts ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        "\r\n\r\n\t ",
        "\u00a0\u2003\u3000",
        "\u2028\u2029\x85\x1c",
        "\u200d\ufeff",
        "\x00\x01\x02 She\x00left.\x7f",
        "\ufeffShe left.",
        "She\u200bleft\u200bhome.",
        "She\tgave\thim\ta\tbook\twith\ta\tcover.",
        "  She left.  \n\n  He stayed.\t",
        "👨‍👩‍👧‍👦 went home 🏳️‍🌈.",
        "She ate 🍕 with 🍴 in the park 😀😀.",
        "She cafe\u0301d the bo\u0308ok.",
        "العربية لغة جميلة. هو كتب الرسالة بالقلم.",
        "She said שלום to the man with the hat.",
        "\u202eShe left\u202c the house.",
        "東京は日本の首都です。",
        "-LRB- ( [ ) ] -RRB- {x}",
        "((S (NP x)))",
        "... !!! ??? $$$ ' \" \\",
        "<b>She</b> left &amp; went to http://a.example/c?d=e#f with a map.",
        "\u0130 \u00df \u1e9e \U0001d4af\U0001d4bd",
        "x" * 50_000,
        "1" * 3000 + " dogs saw the cat with a hat.",
        "a." * 2000,
        "\n" * 2000,
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_odd_texts(nlp, text):
    doc = nlp(text)
    assert doc.text == text
    assert [len(doc.spans[k]) for k in KEYS] == [len(doc.spans[k].attrs["scores"]) for k in KEYS]
    read_all(doc)
    nlp.get_pipe("constituency_parser").one_sentence = True
    with nlp.select_pipes(disable="sentence_splitter"):
        read_all(nlp(text))
    nlp.get_pipe("constituency_parser").one_sentence = False


# --- pipelines ------------------------------------------------------------------------------------
def pipeline(nlp, *names, lang="en"):
    other = spacy.blank(lang)
    for name in names:
        other.add_pipe(name, source=nlp if name in nlp.pipe_names else None)
    return other


@pytest.mark.parametrize(
    ("names", "code", "missing"),
    [
        (["np_chunker"], "SL001", "token.tag_"),
        (["pp_attacher"], "SL026", 'doc.spans["constituents"], or'),
        (["srl_labeler"], "SL026", 'doc.spans["constituents"]'),
        (["sentencizer", "pp_attacher", "srl_labeler"], "SL026", 'doc.spans["constituents"], or'),
    ],
)
def test_what_is_missing_in_front_is_named(nlp, names, code, missing):
    other = pipeline(nlp, *names)
    for parse in (other, lambda text: list(other.pipe([text, text]))):
        with pytest.raises(StructlearnError) as error:
            parse(TEXTS[0])
        assert error.value.code == code
        assert missing in str(error.value)
    # Where there is nothing to read, nothing is missing.
    for text in ("", " \n"):
        assert all(len(group) == 0 for group in other(text).spans.values())


# --- tokens that are merged and split -------------------------------------------------------------
def merge(doc, pairs):
    with doc.retokenize() as retokenizer:
        for start, end in pairs:
            retokenizer.merge(doc[start:end])
    return doc


def test_chunks_merged_in_the_end(nlp):
    doc = nlp("My sister sold her new boat to a dealer. He left.")
    before = doc._.frames[0]
    probabilities = [chunk._.np_chunk_prob for chunk in doc._.np_chunks]
    roles = {argument.label: argument.span.text for argument in before.arguments}
    merge(doc, [(c.start, c.end) for c in doc._.np_chunks if len(c) > 1])
    assert len(doc) == 9
    assert [chunk._.np_chunk_prob for chunk in doc._.np_chunks] == probabilities
    assert [c.text for c in doc._.np_chunks] == ["My sister", "her new boat", "a dealer", "He"]
    frame = doc[1]._.srl
    assert {argument.label: argument.span.text for argument in frame.arguments} == roles
    assert [a.prob for a in frame.arguments] == [a.prob for a in before.arguments]
    (site,) = doc._.pp_attachments
    words = (site.noun.text, site.object.text, site.pp.text)
    assert words == ("her new boat", "a dealer", "to a dealer")
    assert doc[0]._.labels == ("NP",)
    assert [tree.words()[0] for tree in doc._.trees] == ["My sister", "He"]
    read_all(doc)
    # Stored and joined as any other.
    again = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    assert annotation(again) == annotation(doc)


def test_tokens_merged_behind_the_last_bracket(nlp):
    words = ["He", "left", ".", "She", "sold", "the", "boat", "!", "!"]
    doc = nlp(Doc(nlp.vocab, words=words, sent_starts=[i in (0, 3) for i in range(9)]))
    assert max(span.start for span in doc.spans["constituents"]) < 7
    merge(doc, [(7, 9)])
    assert doc[3:8]._.labels == ("S",)
    read_all(doc)


def test_any_tokens_merged_in_the_end(nlp):
    rng = random.Random(0)
    docs = list(nlp.pipe(text + " The end \n" for text in TEXTS))
    for _ in range(60):
        doc = rng.choice(docs).copy()
        places = sorted(rng.sample(range(len(doc) + 1), rng.randrange(2, min(len(doc), 8))))
        merge(doc, [(a, b) for a, b in zip(places[::2], places[1::2], strict=False)])
        before = {key: len(doc.spans[key]) for key in KEYS}
        assert len(doc._.frames) == sum(span.label_ == "V" for span in doc.spans["srl"])
        read_all(doc)
        assert len(doc.spans["srl"]) <= before["srl"]
        assert len(doc.spans["pp_attachments"]) <= before["pp_attachments"]
        for site in doc._.pp_attachments:
            assert len({site.verb.i, site.noun.i, site.prep.i, site.object.i}) == 4
        for frame in doc._.frames:
            assert (frame.predicate.start, frame.predicate.end) not in [
                (a.span.start, a.span.end) for a in frame.arguments
            ]
        for key in KEYS:
            for span in doc.spans[key]:
                assert span.text == doc.text[span.start_char : span.end_char]


# --- benepar in the same process ------------------------------------------------------------------
class BeneparException(Exception):
    pass


def benepar_labels(span):
    """As benepar's getters, for a Doc that it has not parsed."""
    raise BeneparException("No constituency parse is available for this document.")


def import_benepar():
    """Register what benepar 0.2 registers when it is imported: unguarded, in this order."""
    Doc.set_extension("_constituent_data", default=None)
    for target in (Span, Token):
        for name in ("labels", "parse_string", "constituents", "parent", "children"):
            if (target, name) not in ((Token, "constituents"), (Token, "children")):
                target.set_extension(name, getter=benepar_labels)


@pytest.fixture
def no_extensions(monkeypatch):
    """As in a process where neither package has been imported."""
    for name in ("doc_extensions", "span_extensions", "token_extensions"):
        monkeypatch.setattr(Underscore, name, {})


@pytest.mark.usefixtures("no_extensions")
def test_benepar_imported_first_keeps_its_names(nlp):
    import_benepar()
    extensions.register()
    doc = nlp(TEXTS[0])
    sentence = next(doc.sents)
    for name in ("labels", "parse_string", "constituents", "parent", "children"):
        with pytest.raises(BeneparException):
            getattr(sentence._, name)
    # Ours under the names that it has not, or as functions.
    assert str(doc._.trees[0]) == f"(TOP {extensions.parse_string(sentence)})"
    assert sentence._.is_constituent
    assert sentence._.tree.words() == [token.text for token in sentence]
    assert 0 < sentence._.constituent_prob <= 1
    assert extensions.labels(sentence) == ("S",)
    assert len(doc._.np_chunks) == 4
    assert doc[1]._.srl.get("ARG1").text == "the pizza"
    assert doc[4]._.pp_head.text == "ate"


# --- control and format characters ----------------------------------------------------------------
@pytest.mark.parametrize(
    "odd", ["\x00", "\x1b", "\x9b", "\ufeff", "\u200e", "\u202e", "\u2066\u2069"]
)
def test_tokens_of_control_and_format_characters_are_no_words(nlp, odd):
    """The predictions are those of a text with white space there."""
    text = "The dog {} barked at a cat in the park. {} She ran."
    doc, other = nlp(text.format(odd, odd)), nlp(text.format("\t", "\t"))
    assert doc._.trees == other._.trees
    sents = [s.text.replace(odd, "\t").strip() for s in doc.sents]
    assert sents == [s.text.strip() for s in other.sents]
    for token in doc:
        assert bool(token.tag_) is not token.is_space
    as_data = [spacy_structlearn.as_dict(d) for d in (doc, other)]
    assert as_data[0]["trees"] == as_data[1]["trees"]
    assert len(as_data[0]["np_chunks"]) == len(as_data[1]["np_chunks"])
    read_all(doc)
    stored = next(DocBin(docs=[doc]).get_docs(nlp.vocab))
    assert annotation(stored) == annotation(doc)
    # In another vocab it is a word again, of a tree that can be read.
    (again, *_) = DocBin(docs=[doc]).get_docs(spacy.blank("en").vocab)
    assert len(again._.trees) == 2
    page(again)
