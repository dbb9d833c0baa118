"""Phrases by label, and clauses with their verbs, subjects and objects."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline.parsed import parsed_doc
from pipeline.test_extensions import random_tree
from spacy.lang.en import English

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.extensions import phrases, set_spans

VOCAB = English().vocab
NESTED = (
    "(S (NP (NP (DT The) (NN boat)) (PP (IN of) (NP (PRP$ my) (NN sister))))"
    " (VP (VBD leaked)) (. .))"
)
extensions.register()


def texts(spans):
    return [span.text for span in spans]


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


def test_coordinated_verb_phrases_have_the_subject_in_common():
    assert the_clauses(f"(S {SHE} (VP (VP (VBD came)) (CC and) (VP (VBD sold) {IT})))") == [
        ("She came and sold it", "came", "She", []),
        ("She came and sold it", "sold", "She", ["it"]),
    ]


def test_coordinated_verbs_have_the_object_in_common():
    expected = [("She bought and sold it", v, "She", ["it"]) for v in ("bought", "sold")]
    assert the_clauses(f"(S {SHE} (VP (VBD bought) (CC and) (VBD sold) {IT}))") == expected
    tree = f"(S {SHE} (VP (VP (VBD bought)) (CC and) (VP (VBD sold)) {IT}))"
    assert the_clauses(tree) == expected
    # According to the frames, only of one of them.
    frames = [(1, [("ARG1", 0, 1)]), (3, [("ARG0", 0, 1), ("ARG1", 4, 5)])]
    assert [c[3] for c in the_clauses(tree, frames=frames)] == [[], ["it"]]


def test_auxiliaries_are_passed():
    tree = f"(S {SHE} (VP (MD will) (VP (VB have) (VP (VBN been) (VP (VBN sold) {IT})))))"
    assert the_clauses(tree) == [("She will have been sold it", "sold", "She", ["it"], "passive")]
    tree = f"(S {SHE} (VP (MD can) (CC and) (MD will) (VP (VB sell) {IT})))"
    assert the_clauses(tree) == [("She can and will sell it", "sell", "She", ["it"])]
    assert the_clauses(f"(S {SHE} (VP (MD will)))") == [("She will", "will", "She", [])]


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


def test_has_or_is_is_told_by_the_frame():
    tree = f"(S {SHE} (VP (VBZ 's) (VP (VBN sold) {IT})))"
    (clause,) = the_clauses(tree, frames=[(2, [("ARG0", 0, 1), ("ARG1", 3, 4)])])
    assert clause == ("She 's sold it", "sold", "She", ["it"])


def test_the_agent_is_told_by_the_frame():
    tree = f"(S {SHE} (VP (VBD was) (VP (VBN sold) (PP (IN by) (NP (NNP Bob))))))"
    sold = ("She was sold by Bob", "sold", "She", [], "passive")
    assert the_clauses(tree) == [sold]
    assert the_clauses(tree, frames=[(2, [("ARG1", 0, 1), ("ARG0", 3, 5)])]) == [(*sold, "by Bob")]
    assert the_clauses(tree, frames=[(2, [("ARG1", 0, 1), ("ARGM-LOC", 3, 5)])]) == [sold]


def test_relative_clauses():
    def relative(clause):
        return the_clauses(f"(NP (NP (DT the) (NN boat)) (SBAR (WHNP (WDT that)) {clause}))")

    assert relative(f"(S {SHE} (VP (VBD sold)))") == [("that She sold", "sold", "She", ["that"])]
    assert relative(f"(S (VP (VBD sold) {IT}))") == [("that sold it", "sold", "that", ["it"])]
    # Of another verb, or of a preposition.
    assert relative(f"(S {SHE} (VP (VBD sold) {IT}))") == [
        ("that She sold it", "sold", "She", ["it"])
    ]
    tree = f"(S {SHE} (VP (VBD looked) (PP (IN at))))"
    assert relative(tree) == [("that She looked at", "looked", "She", [])]
    tree = f"(S {SHE} (VP (VBD wants) (S (VP (TO to) (VP (VB buy))))))"
    wants, buy = relative(tree)
    assert wants == ("that She wants to buy", "wants", "She", [], "+ to buy")
    assert buy == ("to buy", "buy", None, [])


def test_a_relative_pronoun_of_a_deeper_verb_is_told_by_its_frame():
    tree = (
        f"(NP (NP (DT the) (NN boat)) (SBAR (WHNP (WDT that)) (S {SHE}"
        " (VP (VBD wants) (S (VP (TO to) (VP (VB buy))))))))"
    )
    frames = [(4, [("ARG0", 3, 4), ("ARG1", 5, 7)]), (6, [("ARG1", 0, 2), ("R-ARG1", 2, 3)])]
    wants, buy = the_clauses(tree, frames=frames)
    assert wants[3] == []
    assert buy[3] == ["that"]


def test_questions():
    did = f"(SQ (VBD did) {SHE} (VP (VB sell)))"
    assert the_clauses(f"(SBARQ (WHNP (WP What)) {did} (. ?))") == [
        ("What did She sell ?", "sell", "She", ["What"])
    ]
    assert the_clauses(f"(SBARQ (WHADVP (WRB When)) {did})")[0][3] == []
    assert the_clauses(f"(SBARQ (WHNP (WP Who)) (SQ (VP (VBD sold) {IT})))") == [
        ("Who sold it", "sold", "Who", ["it"])
    ]
    tree = f"(SBARQ (WHNP (WP Who)) (SQ (VP (VBD sold) {IT}) (NP (NN today))))"
    assert the_clauses(tree) == [("Who sold it today", "sold", "Who", ["it"])]
    assert the_clauses(f"(SQ (VBD Did) {SHE} (VP (VB sell) {IT}))") == [
        ("Did She sell it", "sell", "She", ["it"])
    ]


def test_forms_of_be():
    doctor = "(NP (DT a) (NN doctor))"
    assert the_clauses(f"(S {SHE} (VP (VBZ is) {doctor}))") == [
        ("She is a doctor", "is", "She", [], "= a doctor")
    ]
    assert the_clauses(f"(SQ (VBZ Is) {SHE} {doctor})") == [
        ("Is She a doctor", "Is", "She", [], "= a doctor")
    ]
    for what in ("(WHNP (WP What))", "(WHADJP (WRB How) (JJ old))"):
        (found,) = the_clauses(f"(SBARQ {what} (SQ (VBZ is) {SHE}))")
        assert found[1:4] == ("is", "She", [])
        assert found[4] in ("= What", "= How old")


def test_imperatives_have_no_subject():
    assert the_clauses(f"(S (VP (VB Sell) {IT}) (. .))") == [("Sell it .", "Sell", None, ["it"])]
    tree = f"(S (NP (NNP Bob)) (, ,) (VP (VB sell) {IT}))"
    assert the_clauses(tree) == [("Bob , sell it", "sell", None, ["it"])]
    tree = f"(S (SBAR (IN If) (S {SHE} (VP (VBZ comes)))) (VP (VB sell) {IT}))"
    assert [c[2] for c in the_clauses(tree) if c[1] == "sell"] == [None]


def test_inverted_sentences():
    tree = f"(SINV (`` `) (S {SHE} (VP (VBD left))) (, ,) ('' ') (VP (VBD said)) (NP (NNP Bob)))"
    assert the_clauses(tree) == [
        ("` She left , ' said Bob", "said", "Bob", []),
        ("She left", "left", "She", []),
    ]
    tree = f"(S (SBAR (SINV (VBD Had) {SHE} (VP (VBN known)))) (, ,) {IT} (VP (VBD leaked)))"
    assert the_clauses(tree)[1] == ("Had She known", "known", "She", [])


def test_clauses_as_subject_and_complement():
    that = f"(SBAR (IN That) (S {SHE} (VP (VBD left))))"
    left = ("That She left", "left", "She", [])
    assert the_clauses(f"(S {that} (VP (VBD surprised) (NP (PRP him))))") == [
        ("That She left surprised him", "surprised", "That She left", ["him"]),
        left,
    ]
    # Before a comma, it is a modifier, unless the frame says something else.
    tree = f"(S {that} (, ,) (VP (VBD surprised) (NP (PRP him))))"
    assert the_clauses(tree)[0][2] is None
    assert the_clauses(tree, frames=[(4, [("ARG0", 0, 3)])])[0][2] == "That She left"
    assert the_clauses(f"(S (NP (PRP He)) (VP (VBD said) {that}))") == [
        ("He said That She left", "said", "He", [], "+ That She left"),
        left,
    ]


def test_modifiers_are_told_by_the_frame():
    week = "(NP (DT this) (NN week))"
    as_ = f"(SBAR (IN as) (S {SHE} (VP (VBD left))))"
    tree = f"(S {week} {IT} (NP (NN today)) (VP (VBD sold) {IT} {week} {as_}))"
    (found, _) = the_clauses(tree)
    assert found[1:] == ("sold", "today", ["it", "this week"], "+ as She left")
    roles = [("ARGM-TMP", 3, 4), ("ARG0", 2, 3), ("ARG1", 5, 6), ("ARGM-TMP", 6, 8)]
    (found, _) = the_clauses(tree, frames=[(4, [*roles, ("ARGM-ADV", 8, 11)])])
    assert found[1:] == ("sold", "it", ["it"])


def test_no_clauses_without_a_verb_or_with_other_labels():
    assert (
        the_clauses("(FRAG (NP (DT A) (NN boat)) (. .))", "(S (NP (NN it)) (ADJP (JJ old)))") == []
    )
    assert the_clauses("(R (P (A a)) (L (B b)))") == []
    assert the_clauses("(NP (NP (NN boat)) (VP (VBN sold)))") == []


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
