"""Word classes: toy languages with obvious classes, the kernel against NumPy, storage."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.words import _classes, classes
from spacy_structlearn.words.classes import FORMS, WordClasses, learn, tree_paths

KINDS = {"det": 3, "adj": 6, "noun": 20, "verb": 10}


def mutual_information(counts):
    """Of two adjacent classes, in nats, given N(a, b), integers (n_all, n_all)."""
    joint = counts / max(counts.sum(), 1)
    independent = joint.sum(axis=1)[:, None] * joint.sum(axis=0)
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / independent[seen])).sum())


def toy_text(n_sentences=2000, seed=0):
    """Sentences det (adj)* noun verb [det (adj)* noun]; a word's id tells its kind: id // 100."""
    rng = np.random.default_rng(seed)
    sizes = list(KINDS.values())

    def word(kind):
        # Squared, so that words differ in frequency.
        return 100 * (kind + 1) + int(sizes[kind] * rng.random() ** 2)

    def phrase():
        return [word(0), *(word(1) for _ in range(rng.integers(0, 3))), word(2)]

    texts = [
        [*phrase(), word(3), *(phrase() if rng.random() < 0.6 else [])] for _ in range(n_sentences)
    ]
    ids = np.array([i for text in texts for i in text], dtype=np.uint64)
    return ids, np.cumsum([0] + [len(text) for text in texts]).astype(np.int64)


def column(found, words, shapes=0, **depth):
    """The classes of words that have no upper-case letters."""
    shapes = np.broadcast_to(np.asarray(shapes, dtype=np.uint64), words.shape)
    return found.column(np.stack([words, words, shapes], axis=-1), **depth)


def random_text(lengths, n_words, seed):
    rng = np.random.default_rng(seed)
    ids = (n_words * rng.random(sum(lengths)) ** 2).astype(np.uint64) * np.uint64(2**59 + 1)
    return ids, np.cumsum([0, *lengths]).astype(np.int64)


def numpy_exchange(bigrams, order, word_classes, n_classes):
    """One pass by trying every class and counting all again; of equals, the rule of the kernel."""
    word_classes, moves = word_classes.copy(), 0

    def value(w, c):
        trial = word_classes.copy()
        trial[w] = c
        counts = classes.count_classes(bigrams, trial)
        return bigrams.sum() * mutual_information(counts)

    for w in order.tolist():
        old = best = word_classes[w]
        if np.count_nonzero(word_classes == old) == 1:
            continue
        top = value(w, old)
        for c in range(n_classes):
            if (now := value(w, c)) > top + 1e-9:
                best, top = c, now
        word_classes[w] = best
        moves += best != old
    return word_classes, moves


def numpy_merge(counts, n_classes):
    """Every pair is tried and the mutual information computed from scratch."""
    counts, alive, merges = counts.astype(float), list(range(n_classes)), []

    def merged(a, b):
        new = counts.copy()
        new[a] += new[b]
        new[:, a] += new[:, b]
        new[b] = new[:, b] = 0
        return new

    while len(alive) > 1:
        pairs = list(combinations(alive, 2))
        values = [counts.sum() * mutual_information(merged(a, b)) for a, b in pairs]
        a, b = next(pair for pair, x in zip(pairs, values, strict=True) if x > max(values) - 1e-9)
        counts = merged(a, b)
        alive.remove(b)
        merges.append((a, b))
    return np.array(merges).reshape(-1, 2)


def start(ids, offsets, n_classes):
    """What `learn` gives to the kernel: arguments, the bigrams, and the initial classes."""
    words, codes = classes._vocabulary(ids, offsets, 1)
    bigrams = classes.count_bigrams(codes, len(words))
    arguments = classes.exchange_arguments(bigrams)
    first = classes.first_classes(arguments[0], n_classes)
    return arguments, bigrams, first


# --- the result -----------------------------------------------------------------------------------
def test_obvious_classes():
    ids, offsets = toy_text()
    found = learn(ids[:, None], offsets, 4)
    for kind in range(4):
        of_kind = found.classes[found.words // np.uint64(100) == kind + 1]
        assert len(set(of_kind.tolist())) == 1
    assert found.n_classes == len(set(found.classes.tolist())) == 4


def test_backoff_stands_for_rare_words():
    ids, offsets = toy_text()
    kinds = ids // np.uint64(100)
    # A third of the nouns is rare: each of these occurs once.
    ids = ids.copy()
    rare = np.flatnonzero(kinds == 3)[::3]
    ids[rare] = np.arange(len(rare), dtype=np.uint64) + np.uint64(10**6)
    found = learn(np.stack([ids, kinds], 1), offsets, 4, forms=("ORTH", "SHAPE"), min_count=2)
    assert not np.isin(ids[rare], found.words).any()
    new, noun = np.array([10**9], np.uint64), np.array([3], np.uint64)
    assert column(found, new).tolist() == [0]
    nouns = column(found, ids[kinds == 3], kinds[kinds == 3])
    assert set(nouns.tolist()) == set(column(found, new, noun).tolist())
    assert column(found, new, noun, depth=0).tolist() == [1]
    assert column(found, new, new).tolist() == [0]


# --- the algorithms -------------------------------------------------------------------------------
def test_mutual_information_rises_with_every_pass():
    ids, offsets = random_text([25] * 60, 80, seed=1)
    arguments, bigrams, word_classes = start(ids, offsets, 10)
    values = []
    for _ in range(30):
        counts = classes.count_classes(bigrams, word_classes)
        values.append(mutual_information(counts))
        if not _classes.exchange(*arguments, word_classes, counts, 10):
            break
        assert np.array_equal(counts, classes.count_classes(bigrams, word_classes))
    assert len(values) > 2
    assert (np.diff(values)[:-1] > 0).all()
    assert len(values) < 30  # it comes to rest


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=8),
    st.integers(1, 9),
    st.integers(1, 5),
    st.integers(0, 1000),
)
def test_exchange_is_that_of_numpy(lengths, n_words, n_classes, seed):
    ids, offsets = random_text(lengths, n_words, seed)
    n_classes = min(n_classes, max(1, len(np.unique(ids))))
    arguments, bigrams, word_classes = start(ids, offsets, n_classes)
    counts = classes.count_classes(bigrams, word_classes)
    wanted, moves = numpy_exchange(bigrams, arguments[0], word_classes, n_classes)
    assert _classes.exchange(*arguments, word_classes, counts, n_classes) == moves
    assert word_classes.tolist() == wanted.tolist()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 7), st.integers(0, 2), st.integers(1, 60), st.integers(0, 1000))
def test_merge_is_that_of_numpy(n_classes, n_fixed, top, seed):
    rng = np.random.default_rng(seed)
    n_all = n_classes + n_fixed
    counts = rng.integers(0, top, size=(n_all, n_all)) * (rng.random((n_all, n_all)) < 0.6)
    merges = np.zeros((n_classes - 1, 2), dtype=np.int32)
    _classes.merge(counts.copy(), n_classes, merges)
    assert np.array_equal(merges, numpy_merge(counts, n_classes))


def test_tree_paths():
    #        root           1 turns left of 0 at last, 2 and 3 are the other half
    paths = tree_paths(np.array([[2, 3], [0, 1], [0, 2]], dtype=np.int32))
    assert [format(int(path), "b")[1:] for path in paths] == ["00", "01", "10", "11"]
    assert tree_paths(np.zeros((0, 2), np.int32)).tolist() == [1]


# --- classes and columns --------------------------------------------------------------------------
def parts():
    return {
        "words": np.array([3, 8], np.uint64),
        "classes": np.array([0, 1], np.uint16),
        "paths": np.array([2, 3], np.uint64),
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"words": np.array([8, 3], np.uint64)},
        {"words": np.array([3, 3], np.uint64)},
        {"words": np.array([3], np.uint64)},
        {"classes": np.array([0, 2], np.uint16)},
        {"paths": np.array([2, 0], np.uint64)},
        {"paths": np.array([[2, 3]], np.uint64)},
        {"forms": ()},
        {"forms": ("SHAPE", "ORTH")},
        {"forms": ("ORTH", "LEMMA")},
    ],
)
def test_parts_that_do_not_fit(wrong):
    with pytest.raises(StructlearnError, match="SL240"):
        WordClasses(**{**parts(), **wrong})


@pytest.mark.parametrize(
    ("forms", "expected"),
    [
        (FORMS, [0b111, 0b100, 0b111, 0]),
        (("ORTH", "SHAPE"), [0b111, 0, 0b100, 0]),
        (("LOWER",), [0, 0b100, 0b111, 0]),
    ],
)
def test_class_columns_are_made_from_the_forms_of_a_word(forms, expected):
    names = ("TAG", "CLASS2", "ORTH", "CLASS")
    assert classes.source_columns(names) == ("TAG", "ORTH", "LOWER", "SHAPE")
    table = WordClasses(
        np.array([3, 7], np.uint64),
        np.array([0, 1], np.uint16),
        np.array([0b100, 0b111], np.uint64),
        forms,
    )
    sources = np.array([[1, 7, 5, 5], [2, 9, 3, 9], [1, 9, 7, 3], [1, 9, 9, 9]], dtype=np.uint64)
    derived = classes.derive_columns(sources, names, table)
    assert derived[:, 0].tolist() == [1, 2, 1, 1]
    assert derived[:, 2].tolist() == [7, 9, 9, 9]
    assert derived[:, 1].tolist() == derived[:, 3].tolist() == expected
