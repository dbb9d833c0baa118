import gzip
import random
import warnings
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.conlleval import chunks, conlleval

try:
    import seqeval.metrics as seqeval
except ImportError:
    seqeval = None

needs_seqeval = pytest.mark.skipif(seqeval is None, reason="needs seqeval")

TAGS = ["O", "B-NP", "I-NP", "B-VP", "I-VP", "B-A-B", "I-A-B"]
PAIRS = st.lists(st.tuples(st.sampled_from(TAGS), st.sampled_from(TAGS)), min_size=1, max_size=12)
CORPORA = st.lists(PAIRS, min_size=1, max_size=5)


def sides(corpus) -> tuple[list[list[str]], list[list[str]]]:
    return [[a for a, _ in pairs] for pairs in corpus], [[b for _, b in pairs] for pairs in corpus]


def assert_equals_seqeval(gold, predicted):
    ours = conlleval(gold, predicted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its notes on divisions by zero
        report = seqeval.classification_report(gold, predicted, output_dict=True, zero_division=0)
    total = report.pop("micro avg") if "micro avg" in report else {}
    assert ours.precision == pytest.approx(total.get("precision", 0))
    assert ours.recall == pytest.approx(total.get("recall", 0))
    assert ours.f1 == pytest.approx(total.get("f1-score", 0))
    assert ours.accuracy == pytest.approx(seqeval.accuracy_score(gold, predicted))
    assert ours.gold == total.get("support", 0)
    types = {name: row for name, row in report.items() if not name.endswith(" avg")}
    assert set(ours.per_label) == set(types)
    for name, row in types.items():
        assert ours.per_label[name].precision == pytest.approx(row["precision"])
        assert ours.per_label[name].recall == pytest.approx(row["recall"])
        assert ours.per_label[name].f1 == pytest.approx(row["f1-score"])
        assert ours.per_label[name].gold == row["support"]


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ([], []),
        (["O", "O"], []),
        (["B-NP", "I-NP", "O"], [("NP", 0, 2)]),
        (["B-NP", "B-NP"], [("NP", 0, 1), ("NP", 1, 2)]),
        (["O", "I-NP", "I-NP"], [("NP", 1, 3)]),
        (["I-NP", "I-VP"], [("NP", 0, 1), ("VP", 1, 2)]),
        (["B-NP", "I-VP", "I-NP"], [("NP", 0, 1), ("VP", 1, 2), ("NP", 2, 3)]),
        (["I-NP", "B-NP", "I-NP"], [("NP", 0, 1), ("NP", 1, 3)]),
        (["B", "I", "O", "I", "B"], [("", 0, 2), ("", 3, 4), ("", 4, 5)]),
        (["B", "I-NP"], [("", 0, 1), ("NP", 1, 2)]),
        (["B-R-ARG0", "I-R-ARG0"], [("R-ARG0", 0, 2)]),
    ],
)
def test_lenient_decoding(tags, found):
    assert chunks(tags) == found


def test_figures():
    gold = [["B-NP", "I-NP", "O", "B-VP"], ["B-NP", "O"]]
    predicted = [["B-NP", "I-NP", "O", "B-NP"], ["I-NP", "I-NP"]]
    result = conlleval(gold, predicted)
    assert (result.correct, result.predicted, result.gold) == (1, 3, 3)
    assert result.precision == result.recall == result.f1 == pytest.approx(1 / 3)
    assert (result.tokens, result.correct_tags) == (6, 3)
    assert result.accuracy == pytest.approx(1 / 2)
    assert list(result.per_label) == ["NP", "VP"]
    assert result.per_label["NP"].recall == pytest.approx(1 / 2)
    assert result.per_label["VP"].precision == 0.0


def test_undefined_figures_are_zero():
    nothing = conlleval([], [])
    assert nothing.precision == nothing.recall == nothing.f1 == nothing.accuracy == 0.0
    assert conlleval([["O"]], [["O"]]).f1 == 0.0
    assert conlleval([["O"]], [["O"]]).accuracy == 1.0


@needs_seqeval
@given(CORPORA)
def test_equals_seqeval(corpus):
    gold, predicted = sides(corpus)
    if any(tag != "O" for tags in gold for tag in tags):  # it reports nothing without gold chunks
        assert_equals_seqeval(gold, predicted)


def test_lengths_must_agree():
    with pytest.raises(StructlearnError, match=r"SL302.* 2 has 1 gold but 2"):
        conlleval([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(StructlearnError, match=r"SL301.*1 gold but 2 predicted sentences"):
        conlleval([["O"]], [["O"], ["O"]])


@pytest.mark.parametrize("tag", ["NP", "", "E-NP", "b-NP", "-"])
def test_other_tags_are_refused(tag):
    with pytest.raises(StructlearnError, match="SL303"):
        chunks(["O", tag])


@needs_seqeval
@pytest.mark.corpus
def test_equals_seqeval_on_real_tags(corpora):
    with gzip.open(corpora / "conll2000/test.txt.gz", "rt", encoding="utf-8") as lines:
        blocks = groupby((line.split() for line in lines), key=bool)
        gold = [[row[2] for row in block] for full, block in blocks if full]
    tags = sorted({tag for sentence in gold for tag in sentence})
    rng = random.Random(0)
    predicted = [
        [rng.choice(tags) if rng.random() < 0.02 else tag for tag in sentence] for sentence in gold
    ]
    assert_equals_seqeval(gold, predicted)
    assert conlleval(gold, gold).gold == 23_852
