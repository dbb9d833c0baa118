"""Extensions that read constituents, on gold Docs: benepar's names and behaviour, and beyond them;
those that read attachments of prepositional phrases, and those that read semantic roles.

Those of chunks are tested with the component that writes them.
"""

import pickle
import random
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
import spacy
from pipeline.parsed import parsed_doc
from spacy.tokens import Doc, Span, Token
from spacy.vocab import Vocab

import spacy_structlearn
from spacy_structlearn.attachment.sites import Site
from spacy_structlearn.errors import NonConstituentException, StructlearnError
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.doc_arrays import ids_of_spans
from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree

FRUIT = "(S (NP (PRP$ My) (NN dog)) (VP (VBD ate) (NP (NN fruit))) (. .))"
extensions.register()


def gold_doc(*trees, sents=True):
    return parsed_doc(Vocab(), *trees, sents=sents)


def texts(spans):
    return [span.text for span in spans]


# --- benepar's ------------------------------------------------------------------------------------
def test_parse_string_escapes_brackets_and_names_missing_tags():
    doc = Doc(Vocab(), words=["(", "a{1}", "]"], tags=["-LRB-", "", "-RRB-"])
    set_spans(doc, "constituents", [("PRN", 0, 3)])
    assert doc[:]._.parse_string == "(PRN (-LRB- -LRB-) (XX a-LCB-1-RCB-) (-RRB- -RSB-))"
    assert doc[:]._.tree.words() == ["(", "a{1}", "]"]


def random_tree(generator, n_words, tags="ABC", labels="STUV"):
    """A tree with unary chains, wide phrases, and words without a phrase of their own."""

    def grow(start, end):
        if end - start == 1 and generator.random() < 0.5:
            return Tree.leaf(generator.choice(tags), f"w{start}")
        label = generator.choice(labels)
        if end - start == 1 or generator.random() < 0.3:
            return Tree(label, [grow(start, end)])
        cuts = sorted(
            generator.sample(range(start + 1, end), generator.randint(1, end - start - 1))
        )
        return Tree(label, [grow(a, b) for a, b in pairwise([start, *cuts, end])])

    middle = n_words // 2 - generator.randint(0, n_words // 2)
    return Tree("R", [grow(a, b) for a, b in pairwise(sorted({0, middle, n_words}))])


def test_everything_agrees_with_the_trees():
    generator = random.Random(1)
    trees = [random_tree(generator, generator.randint(2, 12)) for _ in range(60)]
    doc = gold_doc(*map(str, trees))
    for sentence, tree in zip(doc.sents, trees, strict=True):
        tree = normalize(tree).children[0]
        assert sentence._.tree == tree
        nodes = {}  # (start, end): its nodes, topmost first; and below, the spans of its children
        spans = list(sentence._.constituents)

        def visit(node, start, nodes=nodes):
            end = start + len(node.words())
            nodes.setdefault((start, end), []).append(node)
            for child in node.children:
                start = visit(child, start)
            return end

        visit(tree, sentence.start)
        assert [(span.start, span.end) for span in spans] == list(nodes)
        for (start, end), chain in nodes.items():
            span, bottom = doc[start:end], chain[-1]
            assert span._.labels == tuple(node.label for node in chain if not node.is_leaf)
            assert span._.parse_string == str(chain[0])
            children = list(span._.children)
            assert [c._.tree for c in children] == list(bottom.children)
            assert all(child._.parent == span for child in children)
        for start, end in combinations(range(sentence.start, sentence.end + 1), 2):
            assert doc[start:end]._.is_constituent == ((start, end) in nodes)


def test_a_span_that_is_no_constituent():
    doc = gold_doc(FRUIT, FRUIT)
    for span in (doc[1:3], doc[4:6], doc[:]):
        assert not span._.is_constituent
        assert span._.constituent_prob is None
        for name in ("labels", "parse_string", "constituents", "children", "parent", "tree"):
            with pytest.raises(NonConstituentException, match="SL021"):
                getattr(span._, name)
    again = pickle.loads(pickle.dumps(NonConstituentException("SL021", text="a")))
    assert type(again) is NonConstituentException
    assert again.code == "SL021"


ITERATORS = ("constituents", "children")


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, getter.__name__) for kind, of in extensions.GETTERS.items() for getter in of],
)
def test_all_is_empty_without_its_layer(kind, name):
    doc = Doc(spacy.blank("en").vocab, words=["My", "dog", " "], tags=["PRP$", "NN", "_SP"])
    things = {Doc: [doc], Span: [doc[:], doc[:1], doc[1:3], doc[2:]], Token: list(doc)}
    for thing in things[kind]:
        value = getattr(thing._, name)
        if name in ITERATORS:
            assert next(iter(value), None) is None
        else:
            assert value is None or value in ((), "", {}, False)


# --- beyond ---------------------------------------------------------------------------------------
def test_a_sentence_with_several_tops_is_a_constituent_without_labels():
    doc = gold_doc("(TOP (NP (NN Fruit)) (NP (JJ red) (NN wine)) (. !))", FRUIT)
    sentence = next(doc.sents)
    assert sentence._.labels == ()
    assert sentence._.is_constituent
    assert sentence._.parse_string == "(TOP (NP (NN Fruit)) (NP (JJ red) (NN wine)) (. !))"
    assert str(doc._.trees[0]) == sentence._.parse_string
    assert texts(sentence._.children) == ["Fruit", "red wine", "!"]
    assert doc[1:3]._.parent == sentence
    assert doc[3]._.parent == sentence


def test_without_sentence_boundaries_the_doc_is_one_sentence():
    doc = gold_doc(FRUIT, sents=False)
    assert not doc.has_annotation("SENT_START")
    assert list(map(str, doc._.trees)) == [f"(TOP {FRUIT})"]
    assert doc[2:4]._.parent == doc[:]


def test_white_space_around_a_constituent_does_not_count():
    words = ["\n", "My", " ", "dog", "ran", ".", "\n\n", " ", "No", "."]
    tags = ["_SP", "PRP$", "_SP", "NN", "VBD", ".", "_SP", "_SP", "DT", "."]
    starts = [i in (0, 6, 8) for i in range(10)]
    # A bare Vocab does not know what white space is.
    doc = Doc(spacy.blank("en").vocab, words=words, tags=tags, sent_starts=starts)
    spans = [("S", 1, 6), ("NP", 1, 4), ("VP", 4, 5), ("INTJ", 8, 10)]
    set_spans(doc, "constituents", spans)
    first, blank, _ = doc.sents
    assert [s._.parse_string for s in doc.sents] == [
        "(S (NP (PRP$ My) (NN dog)) (VP (VBD ran)) (. .))",
        "",
        "(INTJ (DT No) (. .))",
    ]
    assert len(doc._.trees) == 2
    assert first._.labels == doc[1:6]._.labels == ("S",)
    assert texts(first._.children) == ["My   dog", "ran", "."]
    assert texts(doc[1:4]._.constituents) == ["My   dog", "My", "dog"]
    assert doc[1:4]._.parent == doc[1:6]
    assert first._.parent is None
    for span in (blank, doc[2:3]):
        assert span._.labels == ()
        assert span._.tree is None
        assert span._.parent is None
        assert list(span._.constituents) == list(span._.children) == []
        assert not span._.is_constituent
    assert doc[2]._.parse_string == ""


def test_the_tags_of_the_parser_go_before_those_of_the_tokens():
    doc = gold_doc(FRUIT)
    set_spans(doc, "constituent_tags", [("NNS", 1, 2), ("VBZ", 2, 3)])
    assert doc[0:2]._.parse_string == "(NP (PRP$ My) (NNS dog))"
    assert doc[2]._.parse_string == "(VBZ ate)"
    assert doc[2].tag_ == "VBD"


# --- attachments of prepositional phrases ---------------------------------------------------------
def attached_doc(probs=None):
    """Two attachments by hand, in words w0 w1 ...: of w3 w4 to the verb, of w7 w8 to the noun."""
    doc = Doc(Vocab(), words=[f"w{i}" for i in range(12)])
    found = [Site(1, 2, 3, 4, 3, 5, "V"), Site(5, 6, 7, 9, 7, 11, "N")]
    set_spans(doc, "pp_attachments", extensions.site_spans(found))
    if probs is not None:
        scores = np.repeat(np.array(probs, dtype=np.float32), 5)
        doc.spans["pp_attachments"].attrs["scores"] = scores
    return doc


def test_pp_attachments():
    doc = attached_doc(probs=[0.75, 0.5])
    assert [(a.pp.start, a.pp.end, *a[1:]) for a in doc._.pp_attachments] == [
        (3, 5, "V", doc[1], doc[2], doc[3], doc[4], 0.75),
        (7, 11, "N", doc[5], doc[6], doc[7], doc[9], 0.5),
    ]
    assert [a.head for a in doc._.pp_attachments] == [doc[1], doc[6]]


def test_pp_head_is_that_of_prepositions_alone():
    doc = attached_doc()
    assert [token._.pp_head for token in doc] == [
        {3: doc[1], 7: doc[6]}.get(i) for i in range(len(doc))
    ]


def test_a_group_that_is_none_of_attachments_is_named():
    doc = attached_doc()
    spans = [(span.label_, span.start, span.end) for span in doc.spans["pp_attachments"]]
    for bad in (spans[:-1], [*spans[:3], spans[4], spans[3], *spans[5:]]):
        set_spans(doc, "pp_attachments", bad)
        with pytest.raises(StructlearnError, match=r"SL027.*w0 w1"):
            _ = doc._.pp_attachments
    set_spans(doc, "pp_attachments", spans[:7])
    with pytest.raises(StructlearnError, match="SL027"):
        _ = doc[3]._.pp_head


# --- semantic roles -------------------------------------------------------------------------------
EATEN = ["The", "pizza", "that", "she", "ate", "was", "cold", "and", "she", "said", "so"]
FRAMES = [
    (4, "eat.01", [("ARG1", 0, 2), ("R-ARG1", 2, 3), ("ARG0", 3, 4)]),
    (5, None, []),
    (9, "say.01", [("ARG0", 8, 9), ("ARG1", 10, 11)]),
]
PROBS = [0.5, 0.25, 0.125, 0.0625, 1.0, 0.75, 0.5, 0.25]


def framed_doc(vocab=None, frames=FRAMES, probs=None, words=EATEN):
    doc = Doc(Vocab() if vocab is None else vocab, words=words)
    set_spans(doc, "srl", extensions.frame_spans(frames))
    if probs is not None:
        doc.spans["srl"].attrs["scores"] = np.array(probs, dtype=np.float32)
    return doc


def plain_frame(frame):
    """As in FRAMES, with the probabilities of the predicate and of each argument."""
    return (
        frame.predicate.start,
        frame.roleset,
        [(a.label, a.span.start, a.span.end) for a in frame.arguments],
        [frame.prob, *(a.prob for a in frame.arguments)],
    )


def plain_frames(doc):
    return [plain_frame(frame) for frame in doc._.frames]


def token_frames(doc):
    """Each token's frame, as far as there is one."""
    return [plain_frame(token._.srl) for token in doc if token._.srl is not None]


def test_frames():
    doc = framed_doc(probs=PROBS)
    assert plain_frames(doc) == [
        (*FRAMES[0], PROBS[:4]),
        (*FRAMES[1], PROBS[4:5]),
        (*FRAMES[2], PROBS[5:]),
    ]
    eaten, cold, said = doc._.frames
    assert isinstance(doc._.frames, tuple)
    assert type(eaten.arguments) is tuple
    assert (eaten.predicate.text, eaten.predicate.label_) == ("ate", "V")
    assert eaten.arguments[0].span == Span(doc, 0, 2, label="ARG1")
    assert cold.arguments == ()
    assert said.arguments[1] == (Span(doc, 10, 11, label="ARG1"), "ARG1", 0.25)


def test_random_frames():
    generator = random.Random(2)
    vocab = Vocab()
    for _ in range(100):
        n = generator.randint(1, 40)
        frames = []
        for predicate in sorted(generator.sample(range(n), generator.randint(0, n))):
            places = (sorted(generator.sample(range(n + 1), 2)) for _ in range(5))
            pieces = sorted((start, -end) for start, end in places)
            pieces = pieces[: generator.randint(0, 5)]
            labelled = [(generator.choice(["ARG0", "C-V"]), start, -end) for start, end in pieces]
            frames.append((predicate, generator.choice([None, "a.01"]), labelled))
        doc = framed_doc(vocab, frames, words=[f"w{i}" for i in range(n)])
        assert [(*frame[:3],) for frame in plain_frames(doc)] == frames
        assert token_frames(doc) == plain_frames(doc)
        predicates = {predicate for predicate, _, _ in frames}
        assert all((token._.srl is None) == (token.i not in predicates) for token in doc)


def test_a_group_that_is_none_of_frames_is_named():
    doc = framed_doc()
    good = [(span.label_, span.start, span.end) for span in doc.spans["srl"]]
    set_spans(doc, "srl", good[1:])
    with pytest.raises(StructlearnError, match=r"SL033.*The pizza"):
        _ = doc._.frames
    with pytest.raises(StructlearnError, match="SL033"):
        _ = doc[1]._.srl
    set_spans(doc, "srl", [*good[5:], *good[:5]])  # "said" before "ate"
    with pytest.raises(StructlearnError, match="SL033"):
        _ = doc._.frames


# --- all ------------------------------------------------------------------------------------------
class Counting:
    """A group that counts how often a span is taken out of it."""

    taken = 0

    def __init__(self, group):
        self.group, self.attrs = group, group.attrs

    def __len__(self):
        return len(self.group)

    def __getitem__(self, index):
        Counting.taken += 1
        return self.group[index]


@pytest.mark.parametrize(
    ("make", "read"),
    [
        (lambda: gold_doc(FRUIT), lambda doc: [(*s._.constituents, s._.tree) for s in doc.sents]),
        (lambda: gold_doc(FRUIT), lambda doc: [(t._.parent, t._.labels) for t in doc]),
        (attached_doc, lambda doc: [token._.pp_head for token in doc]),
        (framed_doc, lambda doc: [token._.srl for token in doc]),
    ],
)
def test_getters_do_not_scan(make, read, monkeypatch):
    """Ten times as many sentences cost little more than ten times as many look-ups."""
    group_of = extensions.aligned_group

    def counting(doc, key):
        return Counting(group_of(doc, key)) if key in doc.spans else None

    for module in (extensions.brackets, extensions.chunks, extensions.roles):
        monkeypatch.setattr(module, "aligned_group", counting)
    doc, taken = make(), []
    for copies in (40, 400):
        joined = Doc.from_docs([doc] * copies)
        Counting.taken = 0
        read(joined)
        taken.append(Counting.taken)
    assert taken[0] >= 8 * 40
    assert 10 * taken[0] <= taken[1] < 10 * taken[0] * 1.5


# --- threads --------------------------------------------------------------------------------------
@pytest.mark.finding
def test_guides_say_what_is_safe_with_threads_and_memory_zones():
    guides = Path(__file__).parents[2] / "training/guides"
    text = " ".join((guides / "many_texts.md").read_text(encoding="utf8").split())
    assert (
        "Several threads may call one pipeline at the same time, but not inside of memory" in text
    )
    assert "long-running service" not in text


def test_changes_of_a_group_are_read():
    """A group keeps the columns that were read of it, until it is changed."""
    doc = gold_doc("(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))")
    group = doc.spans["constituents"]
    before = ids_of_spans(group)
    assert ids_of_spans(group) == before
    group[1] = Span(doc, 0, 2, "NX")
    assert ids_of_spans(group)[1] == (doc.vocab.strings["NX"], 0, 2)
    group.append(Span(doc, 2, 3, "VX"))
    assert ids_of_spans(group)[-1] == (doc.vocab.strings["VX"], 2, 3)
    # spaCy gives copies: a group is not changed by the label of one.
    group[0].label_ = "SX"
    assert ids_of_spans(group) == [(s.label, s.start, s.end) for s in group]


def test_a_part_as_a_doc_keeps_all_layers():
    nlp = spacy_structlearn.load()
    doc = nlp("It rained. My sister sold her new boat to a dealer in Bristol. We left.")
    for sentence in doc.sents:
        copied = extensions.as_doc(sentence)
        assert next(copied.sents)._.tree == sentence._.tree
        assert copied.text.strip() == sentence.text
        chunks = [c for c in doc._.np_chunks if sentence.start <= c.start < sentence.end]
        assert [str(c) for c in copied._.np_chunks] == [str(c) for c in chunks]
        assert [c._.np_chunk_prob for c in copied._.np_chunks] == [
            c._.np_chunk_prob for c in chunks
        ]
        assert [t.tag_ for t in copied] == [t.tag_ for t in sentence]
        assert [t.dep_ for t in copied] == [t.dep_ for t in sentence]
        own = [f for f in doc._.frames if f.predicate.start in range(sentence.start, sentence.end)]
        assert [f.roleset for f in copied._.frames] == [f.roleset for f in own]
        assert [f.prob for f in copied._.frames] == [f.prob for f in own]
        sites = [s for s in doc._.pp_attachments if sentence.start <= s.pp.start < sentence.end]
        assert [s.prob for s in copied._.pp_attachments] == [s.prob for s in sites]
    # A frame goes with its predicate, and an argument with its frame.
    sister = next(t.i for t in doc if t.text == "sister")
    assert extensions.as_doc(doc[sister : sister + 4])._.frames[0].predicate.text == "sold"
    assert extensions.as_doc(doc[sister + 2 : sister + 6])._.frames == ()
    copied = Doc(doc.vocab).from_bytes(extensions.as_doc(doc[:]).to_bytes())
    assert copied._.trees == doc._.trees
