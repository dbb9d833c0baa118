"""Phrases by label, and clauses with their verbs, subjects and objects."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline.parsed import parsed_doc
from pipeline.test_extensions import random_tree, texts
from spacy.lang.en import English

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.extensions import phrases, set_spans

pytestmark = pytest.mark.filterwarnings("ignore:.SL802")  # labels of random trees

VOCAB = English().vocab
NESTED = (
    "(S (NP (NP (DT The) (NN boat)) (PP (IN of) (NP (PRP$ my) (NN sister))))"
    " (VP (VBD leaked)) (. .))"
)
extensions.register()


def doc_of(*trees, frames=(), **options):
    """frames: (predicate, its arguments as label, start, end)."""
    doc = parsed_doc(VOCAB, *trees, **options)
    if frames:
        plain = [(predicate, None, arguments) for predicate, arguments in frames]
        set_spans(doc, "srl", extensions.frame_spans(plain))
    return doc


# --- phrases --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("which", "expected"),
    [
        ("all", ["The boat of my sister", "The boat", "my sister"]),
        ("maximal", ["The boat of my sister"]),
        ("minimal", ["The boat", "my sister"]),
    ],
)
def test_noun_phrases(which, expected):
    doc = doc_of(NESTED)
    assert texts(doc._.phrases("NP", which=which)) == expected
    assert {span.label_ for span in doc._.phrases("NP", which=which)} == {"NP"}
    assert doc._.phrases("SBAR", which=which) == ()


def test_those_within_a_span():
    doc = doc_of(NESTED, NESTED)
    first, second = doc.sents
    assert texts(second._.phrases("NP")) == texts(first._.phrases("NP"))
    assert [span.start for span in second._.phrases("NP")] == [7, 7, 10]
    assert texts(doc[0:5]._.phrases("NP", which="maximal")) == ["The boat of my sister"]
    # It need not be a constituent: here, the whole noun phrase sticks out.
    assert texts(doc[1:5]._.phrases("NP", which="maximal")) == ["my sister"]
    assert texts(doc[3:11]._.phrases("NP")) == ["my sister", "The boat"]
    assert doc[3:3]._.phrases("NP") == ()


@pytest.mark.parametrize("which", ["largest", None])
def test_an_unknown_choice_is_refused(which):
    with pytest.raises(StructlearnError, match=r"SL180.*all, maximal, minimal"):
        doc_of(NESTED)._.phrases("NP", which=which)


@given(st.randoms(use_true_random=False), st.sets(st.sampled_from("RSTUV"), min_size=1))
def test_maximal_and_minimal_phrases(generator, labels):
    trees = [random_tree(generator, generator.randint(2, 12)) for _ in range(2)]
    doc = doc_of(*map(str, trees))
    found, maximal, minimal = (
        phrases(doc, *labels, which=w) for w in ("all", "maximal", "minimal")
    )
    group = {(span.start, span.end, span.label_) for span in doc.spans["constituents"]}
    assert {(s.start, s.end, s.label_) for s in found} == {s for s in group if s[2] in labels}
    assert {*maximal} | {*minimal} <= {*found}
    for chosen in (maximal, minimal):
        assert all(first.end <= second.start for first, second in pairwise(chosen))
    for span in found:
        assert any(top.start <= span.start and span.end <= top.end for top in maximal)
        assert any(span.start <= low.start and low.end <= span.end for low in minimal)
    parts = [phrase for s in doc.sents for phrase in phrases(s, *labels)]
    assert tuple(parts) == found


# --- clauses --------------------------------------------------------------------------------------
def the_clauses(*trees, frames=()):
    """Each clause as its text, verb, subject, objects and what else is not empty."""
    found = []
    for c in doc_of(*trees, frames=frames)._.clauses:
        assert c.label == c.span.label_
        subject = c.subject and c.subject.text
        rest = [
            *([f"= {c.attribute}"] if c.attribute else []),
            *(f"+ {part}" for part in c.complements),
            *(["passive"] if c.passive else []),
            *([f"by {c.agent}"] if c.agent else []),
        ]
        found.append((c.span.text, c.verb.text, subject, texts(c.objects), *rest))
    return found


SHE, IT = "(NP (PRP She))", "(NP (PRP it))"


def relative(clause):
    return f"(NP (NP (DT the) (NN boat)) (SBAR (WHNP (WDT that)) {clause}))"


VBD = "(VP (VBD sold))"
BOUGHT = f"(S {SHE} (VP (VP (VBD bought)) (CC and) (VP (VBD sold)) {IT}))"
BY_BOB = f"(S {SHE} (VP (VBD was) (VP (VBN sold) (PP (IN by) (NP (NNP Bob))))))"
SOLD_BY = ("She was sold by Bob", "sold", "She", [], "passive")
WANTS = relative(f"(S {SHE} (VP (VBD wants) (S (VP (TO to) (VP (VB buy))))))")
DID = f"(SQ (VBD did) {SHE} (VP (VB sell)))"
DOCTOR = "(NP (DT a) (NN doctor))"
THAT = f"(SBAR (IN That) (S {SHE} (VP (VBD left))))"
LEFT = ("That She left", "left", "She", [])
BEFORE = f"(S {THAT} (, ,) (VP (VBD surprised) (NP (PRP him))))"
WEEK = "(NP (DT this) (NN week))"
AS = f"(SBAR (IN as) (S {SHE} (VP (VBD left))))"
MODIFIED = f"(S {WEEK} {IT} (NP (NN today)) (VP (VBD sold) {IT} {WEEK} {AS}))"
MODIFIERS = [("ARGM-TMP", 3, 4), ("ARG0", 2, 3), ("ARG1", 5, 6), ("ARGM-TMP", 6, 8)]
RULES = [
    # Coordinated verb phrases have the subject in common, verbs the object too, or as frames say.
    (
        f"(S {SHE} (VP (VP (VBD came)) (CC and) (VP (VBD sold) {IT})))",
        [
            ("She came and sold it", "came", "She", []),
            ("She came and sold it", "sold", "She", ["it"]),
        ],
    ),
    *(
        (tree, [("She bought and sold it", verb, "She", ["it"]) for verb in ("bought", "sold")])
        for tree in (f"(S {SHE} (VP (VBD bought) (CC and) (VBD sold) {IT}))", BOUGHT)
    ),
    (
        BOUGHT,
        [("She bought and sold it", v, "She", of) for v, of in (("bought", []), ("sold", ["it"]))],
        [(1, [("ARG1", 0, 1)]), (3, [("ARG0", 0, 1), ("ARG1", 4, 5)])],
    ),
    # Auxiliaries are passed.
    (
        f"(S {SHE} (VP (MD will) (VP (VB have) (VP (VBN been) (VP (VBN sold) {IT})))))",
        [("She will have been sold it", "sold", "She", ["it"], "passive")],
    ),
    (
        f"(S {SHE} (VP (MD can) (CC and) (MD will) (VP (VB sell) {IT})))",
        [("She can and will sell it", "sell", "She", ["it"])],
    ),
    (f"(S {SHE} (VP (MD will)))", [("She will", "will", "She", [])]),
    # The frame tells has from is, and the agent.
    (
        f"(S {SHE} (VP (VBZ 's) (VP (VBN sold) {IT})))",
        [("She 's sold it", "sold", "She", ["it"])],
        [(2, [("ARG0", 0, 1), ("ARG1", 3, 4)])],
    ),
    (BY_BOB, [SOLD_BY]),
    (BY_BOB, [(*SOLD_BY, "by Bob")], [(2, [("ARG1", 0, 1), ("ARG0", 3, 5)])]),
    (BY_BOB, [SOLD_BY], [(2, [("ARG1", 0, 1), ("ARGM-LOC", 3, 5)])]),
    # Relative clauses, also where the pronoun is of another verb or of a preposition.
    (relative(f"(S {SHE} {VBD})"), [("that She sold", "sold", "She", ["that"])]),
    (relative(f"(S (VP (VBD sold) {IT}))"), [("that sold it", "sold", "that", ["it"])]),
    (relative(f"(S {SHE} (VP (VBD sold) {IT}))"), [("that She sold it", "sold", "She", ["it"])]),
    (
        relative(f"(S {SHE} (VP (VBD looked) (PP (IN at))))"),
        [("that She looked at", "looked", "She", [])],
    ),
    (
        WANTS,
        [("that She wants to buy", "wants", "She", [], "+ to buy"), ("to buy", "buy", None, [])],
    ),
    (
        WANTS,
        [
            ("that She wants to buy", "wants", "She", [], "+ to buy"),
            ("to buy", "buy", None, ["that"]),
        ],
        [(4, [("ARG0", 3, 4), ("ARG1", 5, 7)]), (6, [("ARG1", 0, 2), ("R-ARG1", 2, 3)])],
    ),
    # Questions.
    (f"(SBARQ (WHNP (WP What)) {DID} (. ?))", [("What did She sell ?", "sell", "She", ["What"])]),
    (f"(SBARQ (WHADVP (WRB When)) {DID})", [("When did She sell", "sell", "She", [])]),
    (
        f"(SBARQ (WHNP (WP Who)) (SQ (VP (VBD sold) {IT}) (NP (NN today))))",
        [("Who sold it today", "sold", "Who", ["it"])],
    ),
    (f"(SQ (VBD Did) {SHE} (VP (VB sell) {IT}))", [("Did She sell it", "sell", "She", ["it"])]),
    # Forms of be.
    (f"(S {SHE} (VP (VBZ is) {DOCTOR}))", [("She is a doctor", "is", "She", [], "= a doctor")]),
    (f"(SQ (VBZ Is) {SHE} {DOCTOR})", [("Is She a doctor", "Is", "She", [], "= a doctor")]),
    (
        f"(SBARQ (WHADJP (WRB How) (JJ old)) (SQ (VBZ is) {SHE}))",
        [("How old is She", "is", "She", [], "= How old")],
    ),
    # Imperatives have no subject.
    (f"(S (VP (VB Sell) {IT}) (. .))", [("Sell it .", "Sell", None, ["it"])]),
    (f"(S (NP (NNP Bob)) (, ,) (VP (VB sell) {IT}))", [("Bob , sell it", "sell", None, ["it"])]),
    # Inverted sentences.
    (
        f"(SINV (`` `) (S {SHE} (VP (VBD left))) (, ,) ('' ') (VP (VBD said)) (NP (NNP Bob)))",
        [("` She left , ' said Bob", "said", "Bob", []), ("She left", "left", "She", [])],
    ),
    (
        f"(S (SBAR (SINV (VBD Had) {SHE} (VP (VBN known)))) (, ,) {IT} (VP (VBD leaked)))",
        [("Had She known , it leaked", "leaked", "it", []), ("Had She known", "known", "She", [])],
    ),
    # Clauses as subject and complement. Before a comma it is a modifier, unless the frame differs.
    (
        f"(S {THAT} (VP (VBD surprised) (NP (PRP him))))",
        [("That She left surprised him", "surprised", "That She left", ["him"]), LEFT],
    ),
    (BEFORE, [("That She left , surprised him", "surprised", None, ["him"]), LEFT]),
    (
        BEFORE,
        [("That She left , surprised him", "surprised", "That She left", ["him"]), LEFT],
        [(4, [("ARG0", 0, 3)])],
    ),
    (
        f"(S (NP (PRP He)) (VP (VBD said) {THAT}))",
        [("He said That She left", "said", "He", [], "+ That She left"), LEFT],
    ),
    # The frame tells modifiers.
    (MODIFIED, [("sold", "today", ["it", "this week"], "+ as She left")]),
    (MODIFIED, [("sold", "it", ["it"])], [(4, [*MODIFIERS, ("ARGM-ADV", 8, 11)])]),
    # No verb, or other labels.
    ("(S (NP (NN it)) (ADJP (JJ old)))", []),
    ("(R (P (A a)) (L (B b)))", []),
    ("(NP (NP (NN boat)) (VP (VBN sold)))", []),
]


@pytest.mark.parametrize("rule", RULES)
def test_clauses(rule):
    tree, wanted, *frames = rule
    found = the_clauses(tree, frames=frames[0] if frames else ())
    if tree == MODIFIED:
        found = [found[0][1:]]
    assert found == wanted


@pytest.mark.parametrize(
    ("auxiliaries", "participle", "is_passive"),
    [
        ("(VBD was)", "(VBN sold)", True),
        ("(VBD got)", "(VBN sold)", True),
        ("(VBZ has)", "(VBN sold)", False),
        ("(VBZ 's)", "(VBN sold)", True),
        ("(VBZ 's)", "(VBN got)", False),
        ("(VBZ 's)", "(VBN been)", False),
        ("(VBD was)", "(VBG selling)", False),
    ],
)
def test_passive(auxiliaries, participle, is_passive):
    (clause,) = doc_of(f"(S {SHE} (VP {auxiliaries} (VP {participle})))")._.clauses
    assert clause.passive is is_passive


def test_clauses_of_spans_and_with_white_space():
    tree = f"(S {SHE} (VP (VBD said) (SBAR (IN that) (S {IT} (VP (VBD leaked))))))"
    doc = doc_of(tree, tree, space=(0, 3))
    first, second = doc.sents
    assert [c.span.text for c in first._.clauses] == [
        "She said that \n it leaked",
        "that \n it leaked",
    ]
    assert doc._.clauses == first._.clauses + second._.clauses
    assert doc[3:]._.clauses == first._.clauses[1:] + second._.clauses
    assert doc[5:5]._.clauses == ()
    assert [c.verb.text for c in doc_of(tree, sents=False)[2:]._.clauses] == ["leaked"]


@given(st.randoms(use_true_random=False))
def test_random_trees(generator):
    """Whatever the tree, the parts of a clause are in its sentence, and its verb in its span."""
    names = "S SBAR SBARQ SQ SINV VP VP NP PP WHNP VBD VBN VB MD TO CC , NN IN"
    text = str(random_tree(generator, generator.randint(2, 12)))
    for letter in "RSTUVABC":
        text = text.replace(f"({letter} ", f"({generator.choice(names.split())} ")
    doc = doc_of(text)
    for clause in doc._.clauses:
        assert clause.span.start <= clause.verb.i < clause.span.end
        for part in (clause.subject, clause.attribute, *clause.objects, *clause.complements):
            assert part is None or clause.verb not in part
    assert len({(c.span, c.verb) for c in doc._.clauses}) == len(doc._.clauses)


# --- heads ----------------------------------------------------------------------------------------
def test_heads_of_phrases_and_chunks():
    """Also with white space in the phrase."""
    doc = doc_of(NESTED, space=(3,))
    heads = {phrase.text: phrase._.head.text for phrase in doc._.phrases()}
    assert heads == {
        "The boat of \n my sister": "boat",
        "The boat": "boat",
        "of \n my sister": "of",
        "my sister": "sister",
        "leaked": "leaked",
        "The boat of \n my sister leaked .": "leaked",
    }
    assert doc[0:1]._.head.text == "The"
    for nothing in (doc[1:4], doc[3:4], doc[2:2]):  # no constituent, white space, empty
        assert nothing._.head is None


def test_heads_of_chunks_that_are_no_constituents():
    doc = doc_of("(NP (NP (DT the) (NN dealer) (POS 's)) (NN boat) (CD 747))")
    assert doc[2:5]._.head is doc[3:5]._.head is None
    set_spans(doc, "np_chunks", [("NP", 0, 2), ("NP", 2, 5)])
    assert [chunk._.head.text for chunk in doc._.np_chunks] == ["dealer", "boat"]
    assert doc[3:5]._.head is None
    del doc.spans["constituents"]
    assert [chunk._.head.text for chunk in doc._.np_chunks] == ["dealer", "boat"]
