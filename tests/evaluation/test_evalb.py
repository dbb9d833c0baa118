from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation import evalb
from spacy_structlearn.evaluation.prf import PRF
from spacy_structlearn.trees.brackets import parse_tree, read_trees
from spacy_structlearn.trees.tree import Tree

# A run of the program EVALB itself, on trees whose licence keeps them out of the repository.
REFERENCE = Path(__file__).resolve().parents[2].parent / "shared" / "reference" / "evalb"

DUCKS = "(TOP (S (NP (PRP We)) (VP (VBD fed) (NP (DT the) (NNS ducks))) (. .)))"
LABELS = st.sampled_from(["S", "NP", "VP", "ADVP", "PRT", "NP-SBJ-1", "TOP"])
TAGS = st.sampled_from(["NN", "VB", "RB", ",", ".", "POS"])


@st.composite
def trees(draw, words: int) -> Tree:
    """A tree over `words` words that are their own positions."""

    def grow(start: int, end: int, depth: int) -> Tree:
        if end - start == 1 and (depth == 0 or draw(st.booleans())):
            return Tree.leaf(draw(TAGS), f"w{start}")
        inner = st.sets(st.integers(start + 1, end - 1)) if end - start > 1 else st.just(set())
        cuts = sorted(draw(inner)) if depth else range(start + 1, end)
        ends = pairwise([start, *cuts, end])
        return Tree(draw(LABELS), [grow(a, b, max(depth - 1, 0)) for a, b in ends])

    return grow(0, words, 3)


PAIRS = st.integers(1, 8).flatmap(lambda n: st.tuples(trees(n), trees(n)))


def score(gold: str, predicted: str, parameters: evalb.EvalbParameters = evalb.COLLINS, **options):
    return evalb.score_trees([parse_tree(gold)], [parse_tree(predicted)], parameters, **options)


def counts(row) -> tuple[int, int, int]:
    return row.brackets.correct, row.brackets.gold, row.brackets.predicted


@pytest.fixture(scope="module")
def reference() -> tuple[list[Tree], list[Tree], list[str]]:
    if not REFERENCE.is_dir():
        pytest.skip(f"no run of EVALB to compare with in {REFERENCE}")
    report = (REFERENCE / "evalb.txt").read_text(encoding="utf8").splitlines()
    gold, predicted = REFERENCE / "gold.trees", REFERENCE / "parsed.trees"
    return list(read_trees(gold)), list(read_trees(predicted)), report


def test_every_figure_of_evalb(reference):
    gold, predicted, report = reference
    score = evalb.score_trees(gold, predicted)
    start, end = (place for place, line in enumerate(report) if line.startswith("====="))
    for row, line in zip(score.rows, report[start + 1 : end], strict=True):
        right, wanted, given = counts(row)
        recall, precision = 100 * row.brackets.recall, 100 * row.brackets.precision
        own = [row.id, row.length, row.status, recall, precision, right, wanted, given]
        own += [row.words, row.correct_tags]
        figures = [float(x) for x in line.split()]  # the ninth are crossing brackets
        assert figures[:8] + figures[9:11] == pytest.approx(own, abs=0.0051)
    for text, part in (("-- All --", score), ("-- len<=40 --", score.up_to(40))):
        begin = report.index(text) + 1
        figures = [float(line.split("=")[1]) for line in report[begin : begin + 12]]
        own = [len(part.sentences), part.errors, part.skipped, part.valid, part.recall]
        own += [part.precision, part.f1, part.complete_match, part.tag_accuracy]
        assert figures[:8] + figures[11:] == pytest.approx(own, abs=0.0051)


def test_gold_punctuation_drops_no_sentence(reference):
    gold, predicted, _ = reference
    own, by_gold = (
        evalb.score_trees(gold, predicted),
        evalb.score_trees(gold, predicted, punctuation="gold"),
    )
    assert (own.errors, by_gold.errors, by_gold.valid) == (1, 0, len(gold))
    assert [row.brackets.gold for row in by_gold.rows] == [
        row.brackets.gold for row in own.strict.rows
    ]
    assert own.strict.recall < by_gold.recall


def test_deleted_words_leave_the_spans_and_phrases_without_words_vanish():
    tree = parse_tree(
        "(TOP (S (`` ``) (NP-SBJ (NNP Ann)) (, ,) (VP (VBD left) (SBAR (-NONE- 0) (S (-NONE- *T*)))"
        " (PRN (-LRB- -LRB-) (ADVP=2 (RB too)) (-RRB- -RRB-)) (: --)) (. .)))"
    )
    assert evalb.brackets(tree) == [
        ("S", 0, 5),
        ("NP", 0, 1),
        ("VP", 1, 5),
        ("PRN", 2, 5),
        ("ADVP", 3, 4),
    ]


def test_unary_repetitions_are_counted():
    twice, thrice = "(TOP (NP (NP (NN a))))", "(TOP (NP (NP (NP (NN a)))))"
    assert counts(score(twice, thrice).rows[0]) == (2, 2, 3)
    assert counts(score(thrice, twice).rows[0]) == (2, 3, 2)


def test_particles_count_as_adverbs():
    gold, predicted = "(S (VB go) (PRT (RP on)))", "(S (VB go) (ADVP (RP on)))"
    result = score(gold, predicted)
    assert result.complete_match == result.f1 == 100
    assert result.brackets.per_label == {"ADVP": PRF(1, 1, 1), "S": PRF(1, 1, 1)}
    assert score(gold, predicted, replace(evalb.COLLINS, equal_labels=())).f1 == 50


def test_a_sentence_without_brackets_matches():
    result = score("(TOP (NN a))", "(TOP (NN a))")
    assert (result.valid, result.complete_match, result.f1) == (1, 100, 0)


def test_function_tags_are_cut_and_the_outer_bracket_is_not_counted():
    result = score("(TOP (NP-SBJ-1 (NN a)))", "(NP=2 (NN a))")
    assert counts(result.rows[0]) == (1, 1, 1)
    assert counts(score("(ROOT (NP (NN a)))", "(TOP (NP (NN a)))").rows[0]) == (1, 2, 1)


def test_parameters_of_another_treebank():
    german = evalb.EvalbParameters(
        deleted=frozenset({"VROOT", "$.", "PUNCT"}),
        equal_labels=(("NP", "NX", "PN"), ("S", "CS")),
        separators="/",
    )
    tree = parse_tree("(VROOT (CS/f (NX/SB (NN Enten)) (PUNCT (VV-X schlafen))) ($. .))")
    assert evalb.brackets(tree, german) == [("S", 0, 2), ("NP", 0, 1)]
    # A label equal to a deleted one is deleted as well.
    assert evalb.brackets(tree, replace(german, deleted=frozenset({"PN", "CS"}))) == [
        ("VROOT", 0, 3),
        ("PUNCT", 1, 2),
    ]


def test_length_counts_punctuation_but_no_traces():
    row = score("(S (NP (-NONE- *)) (VP (VB Go)) (. .))", "(S (VP (VB Go)) (. .))").rows[0]
    assert (row.length, row.words, row.status) == (2, 1, evalb.SCORED)


def test_tags_of_deleted_words_are_not_counted():
    result = score(
        "(S (NN a) (NN b) (PRT c) (, ,) (. .))", "(S (NN a) (VB b) (ADVP c) (: ,) (. .))"
    )
    row = result.rows[0]
    assert (row.words, row.correct_tags) == (3, 2)
    assert result.tag_accuracy == pytest.approx(200 / 3)


def test_a_punctuation_tag_too_many_or_too_few_is_an_error():
    other = DUCKS.replace("(. .)", "(NN .)")
    for gold, predicted in ((DUCKS, other), (other, DUCKS)):
        result = score(gold, predicted)
        assert (result.rows[0].status, result.errors, result.skipped, result.valid) == (1, 1, 0, 0)
        assert counts(result.rows[0]) == (0, 0, 0)
        assert result.f1 == result.tag_accuracy == result.complete_match == 0
        assert counts(result.strict.rows[0]) == (0, 4, 4)
        by_gold = score(gold, predicted, punctuation="gold")
        assert (by_gold.f1, by_gold.complete_match, by_gold.errors) == (100, 100, 0)


def test_other_words_are_an_error():
    assert score(DUCKS, DUCKS.replace("ducks", "geese")).rows[0].status == evalb.ERROR
    with pytest.raises(StructlearnError, match=r"Sentence 1: word 4 is 'ducks'") as error:
        score(DUCKS, DUCKS.replace("ducks", "geese"), punctuation="gold")
    assert error.value.code == "SL306"
    with pytest.raises(StructlearnError, match="word 5 is None in the gold tree"):
        score(DUCKS.replace("(. .)", ""), DUCKS, punctuation="gold")


def test_a_tree_of_punctuation_is_skipped():
    both = score("(S (. .))", "(S (, .))")
    assert (both.rows[0].status, both.skipped) == (evalb.SKIPPED, 1)
    assert score("(S (NN a))", "(S (. a))").rows[0].status == evalb.SKIPPED
    assert score("(S (. a))", "(S (NN a))").rows[0].status == evalb.ERROR
    # Nothing in it can be missed.
    done = parse_tree(DUCKS)
    result = evalb.score_trees([done, parse_tree("(S (. .))")], [done, None])
    assert result.strict.complete_match == result.strict.f1 == 100


def test_gold_tags_delete_the_same_words_from_both():
    gold = "(S (NP (-NONE- *)) (VP (VB Go) (NP (POS ')) (ADVP (, now) (RB on))) (. !))"
    predicted = "(S (VP (VB Go) (PRN ('' ')) (ADVP (RB now) (RB on))) (. !))"
    row = score(gold, predicted, punctuation="gold").rows[0]
    assert (row.status, row.length, row.words, row.correct_tags) == (evalb.SCORED, 5, 3, 2)
    assert counts(row) == (3, 4, 4)
    assert score(gold, predicted).errors == 1


def test_unparsed_sentences_are_counted_both_ways():
    tree = parse_tree(DUCKS)
    result = evalb.score_trees([tree, tree, tree], [tree, None, None])
    assert (result.valid, result.skipped, result.errors) == (1, 2, 0)
    assert result.recall == result.precision == result.complete_match == result.tag_accuracy == 100
    assert [counts(row) for row in result.rows] == [(4, 4, 4), (0, 0, 0), (0, 0, 0)]
    strict = result.strict
    assert [counts(row) for row in strict.rows] == [(4, 4, 4), (0, 4, 0), (0, 4, 0)]
    assert strict.precision == 100
    assert strict.recall == strict.complete_match == strict.tag_accuracy == pytest.approx(100 / 3)
    assert strict.brackets.per_label["NP"] == PRF(2, 2, 6)
    assert strict.up_to(40).f1 == strict.f1 == 50


def test_up_to_a_length():
    short, long = parse_tree("(S (NP (NN a)) (. .))"), parse_tree(DUCKS)
    result = evalb.score_trees([long, short], [None, short])
    assert [row.id for row in result.up_to(2).rows] == [2]
    assert (result.up_to(5).skipped, result.up_to(4).skipped) == (1, 0)


def test_nothing_to_score():
    result = evalb.score_trees([], [])
    assert result.f1 == result.complete_match == result.tag_accuracy == 0
    assert result.brackets.per_label == {}


def test_bad_arguments():
    tree = parse_tree(DUCKS)
    with pytest.raises(StructlearnError, match="2 gold but 1 predicted trees"):
        evalb.score_trees(iter([tree, tree]), iter([tree]))
    with pytest.raises(StructlearnError, match="SL307"):
        evalb.score_trees([], [], punctuation="none")


def test_deep_trees():
    tree = Tree.leaf("NN", "end")
    for _ in range(20_000):
        tree = Tree("NP", [tree, Tree.leaf("DT", "the")])
    result = evalb.score_trees([tree], [tree])
    assert (result.f1, result.rows[0].brackets.gold) == (100, 20_000)


@given(PAIRS)
def test_agrees_with_the_definitions(pair):
    gold, predicted = pair
    row = evalb.score_trees([gold], [predicted], punctuation="gold").rows[0]
    kept = [tag not in evalb.COLLINS.deleted for tag in gold.tags()]
    tags = ["NN" if keep else "," for keep in kept]
    wanted = evalb.brackets(gold)
    given = evalb.brackets(Tree.from_spans(predicted.words(), tags, predicted.spans()))
    assert (row.brackets.gold, row.words) == (len(wanted), sum(kept))
    if not row.words:
        return
    assert row.brackets.predicted == len(given)
    assert row.brackets.correct == sum(min(wanted.count(x), given.count(x)) for x in set(wanted))
