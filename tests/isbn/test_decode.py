"""The parser of sigmoid belief networks: what it makes of the derivations that are found."""

import functools
import math
from collections import defaultdict

import numpy as np
import pytest
from isbn.automaton import decode
from isbn.networks import initialized, log_likelihoods, make_symbols, sample, symbols_of

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.isbn.decode import BRACKET_COST, BY_BRACKETS, DECODERS, DerivationParser
from spacy_structlearn.isbn.derivation import encode
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.isbn.settings import MEANS
from spacy_structlearn.trees.parse import TAG_FLOOR, Parse


@functools.cache
def short():
    return [tree for tree in sample() if len(tree.words()) <= 12][:12]


@functools.cache
def model(means="feed_forward", signature="shape", scale=2.0, **settings):
    """A network with random weights for the sample: it knows nothing, but what that is."""
    own, log_probs = symbols_of(
        sample(),
        min_word_count=2,
        min_unknown=1,
        min_chain_count=5,
        signature=signature,
        normalization="typographic",
    )
    return initialized(
        own, log_probs, state_size=8, means=means, scale=scale, **{"seed": 1} | settings
    )


def sequence_model(means="feed_forward"):
    """Labels of a sequence: there is nothing but tags and their words."""
    own = make_symbols(0, (3, 1, 4))
    return initialized(own, np.zeros((3, 0)), state_size=4, means=means, scale=4.0, seed=1)


def sentences():
    return [tree.words() for tree in short()], [tree.tags() for tree in short()]


def key_of(parse):
    return tuple(parse.spans), tuple(parse.tags)


def same(a, b):
    assert key_of(a) == key_of(b)
    assert (a.failed, a.root) == (b.failed, b.root)
    assert a.log_probability == b.log_probability
    assert a.log_likelihood == b.log_likelihood
    np.testing.assert_array_equal(a.probabilities, b.probabilities)


class Spy:
    """A kernel that tells what it has found."""

    def __init__(self, parser):
        self.kernel, parser._searcher = parser._searcher, self

    def search(self, *given, **settings):
        self.given = given
        self.found = self.kernel.search(*given, **settings)
        return self.found


# --- what is made of derivations -----------------------------------------------------------------
def few_labels(means):
    """A network of few labels, where much may be derived in several ways, and sentences for it."""
    own = make_symbols(5, (3, 3))
    own = initialized(own, np.zeros((2, 0)), state_size=6, means=means, scale=1.5, seed=3)
    words = [["w000"], ["w001", "w002"], ["w000", "w003", "w001"]]
    return own, words, [["T01"], ["T00", "T01"], ["T00"] * 3]


@pytest.mark.parametrize("means", MEANS)
def test_parses_against_the_derivations(means):
    """Each tree, its probability and those of its brackets, by the derivations one by one."""
    merged = repeated = canonical = 0
    for own, sentences_, given in ((model(means), *sentences()), few_labels(means)):
        parser = DerivationParser(own)
        spy = Spy(parser)
        for words, tags in zip(sentences_, given, strict=True):
            parses = parser.k_best(words, 10, tags)
            scores, moves, labels, begins, chosen, is_fallback, *_ = spy.found
            assert not is_fallback
            weights = np.exp(scores - np.logaddexp.reduce(scores))
            of_tree, of_bracket = defaultdict(float), defaultdict(float)
            for i, weight in enumerate(weights):
                part = slice(*begins[i : i + 2])
                names = [own.symbols.tags[tag] for tag in spy.given[1][chosen[i]]]
                assert names == tags
                tree = decode(own.symbols, moves[part], labels[part], words, names)
                of_tree[tree] += weight
                spans = tree.spans()[1:]
                for x, span in enumerate(spans):
                    of_bracket[span, spans[:x].count(span)] += weight
                repeated += len(set(spans)) < len(spans)
                derivations, kept = encode([tree], own.symbols)
                pairs = (derivations.moves, moves[part]), (derivations.labels, labels[part])
                if len(kept) and all(np.array_equal(*pair) for pair in pairs):
                    canonical += 1
                    weights_ = own.weights.astype(np.float64)
                    (joint,) = log_likelihoods(own.network(), weights_, derivations)
                    joint += own.signature_scores(derivations).item()
                    assert scores[i] == pytest.approx(joint, abs=1e-5)
            merged += len(of_tree) < len(scores)
            assert len(parses) == min(len(of_tree), 10)
            # Some trees may be as likely as each other.
            ranked = sorted(of_tree.values(), reverse=True)[:10]
            for parse, share in zip(parses, ranked, strict=True):
                assert not parse.failed
                assert parse.root == "TOP"
                assert parse.log_likelihood == pytest.approx(np.logaddexp.reduce(scores))
                assert parse.log_probability == pytest.approx(math.log(share))
                assert share == pytest.approx(of_tree[parse.tree(words)])
                spans = parse.spans
                wanted = [of_bracket[span, spans[:x].count(span)] for x, span in enumerate(spans)]
                np.testing.assert_allclose(parse.probabilities, wanted, atol=1e-6)
    # Or the sentences do not show what they should.
    assert merged
    assert repeated
    assert canonical > 50


@pytest.mark.parametrize("decoder", DECODERS)
def test_decoders(decoder):
    own = model()
    parser = DerivationParser(own, decoder=decoder)
    choices = set()
    for words in sentences()[0]:
        # All that `parse` looks at.
        seen = parser._search(words, None, np.inf, 1)
        every = [parser._read(seen, tree) for tree in seen.trees]
        found = parser.parse([words])[0]
        values = [parse.log_probability for parse in every]
        if decoder in BY_BRACKETS:
            values = [(parse.probabilities - BRACKET_COST).sum() for parse in every]
        best = int(np.argmax(values))
        choices.add(best)
        assert key_of(found) == key_of(every[best])
        assert found.log_probability == pytest.approx(every[best].log_probability, abs=1e-4)
    assert (len(choices) > 1) is (decoder in BY_BRACKETS)


# --- tags ----------------------------------------------------------------------------------------
def test_tags_that_are_required():
    words, tags = sentences()
    own = model(signature="")
    parser = DerivationParser(own)
    free = parser.parse(words)
    assert [parse.tags for parse in free] != tags
    assert [parse.tags for parse in parser.parse(words, tags)] == tags
    # One tag of each, the others are not known or not given.
    for gap in ("", "no tag"):
        some = [[row[0], *[gap] * (len(row) - 1)] for row in tags]
        found = parser.parse(words, some)
        assert [parse.tags[0] for parse in found] == [row[0] for row in tags]
        assert [parse.tags for parse in found] != tags
    nothing = [[""] * len(row) for row in tags]
    for pair in zip(parser.parse(words, nothing), free, strict=True):
        same(*pair)


def test_probabilities_of_tags():
    """One certain tag is that tag; of several each lowers the others less."""
    words, tags = (x[0] for x in sentences())
    parser = DerivationParser(model())
    spy = Spy(parser)
    for weight in (0.0, 3.0, np.inf):
        expected = parser.parse([words], [tags], tag_weight=weight)[0]
        bonus = spy.given[-1]
        certain = [{tag: 1.0, "no tag": 1.0} for tag in tags]
        same(parser.parse([words], [certain], tag_weight=weight)[0], expected)
        np.testing.assert_array_equal(spy.given[-1], bonus)
    names = model().symbols.tags
    parser.parse([words], tag_weight=3.0)
    offsets, ids, *_, free = spy.given
    some = [{tag: 0.5, names[0]: 0.5 if tag == names[0] else 0.25} for tag in tags]
    parser.parse([words], [some], tag_weight=3.0)
    shares = 1 + np.log([0.5, 0.25]) / np.log(1 / TAG_FLOOR)
    for i, own in enumerate(some):
        part = slice(*offsets[i : i + 2])
        known = [own.get(names[tag], 0.0) for tag in ids[part].tolist()]
        share = np.select([np.equal(known, 0.5), np.equal(known, 0.25)], shares, 0.0)
        # Where the word is known with another tag, the cost of a rare one is less.
        wanted = free[part] + 3.0 * (share - share.max())
        assert (spy.given[-1][part] >= wanted - 1e-9).all()
        exact = (free[part] > -8.0) | (share == 0)
        np.testing.assert_allclose(spy.given[-1][part][exact], wanted[exact])
    # The most probable tag is required, and in a flat tree.
    assert parser.parse([words], [[{tag: 0.7, "no tag": 0.9} for tag in tags]])[0].tags == tags
    assert parser._fallback(words, some).tags == tags


# --- whatever comes ------------------------------------------------------------------------------
def test_nothing_to_parse():
    for own in (model(), sequence_model()):
        parser = DerivationParser(own)
        assert parser.parse([]) == []
        assert parser.parse([], []) == []
        first, middle, last = parser.parse([["w0"], [], ["w1"]], [[""], [], [""]])
        assert len(first.tags) == len(last.tags) == 1
        assert (middle.labels, middle.tags, middle.failed) == ([], [], False)
        assert middle.log_probability == -np.inf
        assert [key_of(parse) for parse in parser.k_best([], 3)] == [((), ())]
        assert parser.k_best([], 0) == []


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize(
    "words",
    [["."], ["", " ", "\n"], ["\ud800", "🦄", "a\x00b"], ["(", ")"] * 5, ["zzz"] * 60],
    ids=["one", "empty", "odd", "brackets", "unknown"],
)
def test_any_words(words, means):
    parser = DerivationParser(model(means))
    parse = parser.parse([words])[0]
    assert isinstance(parse, Parse)
    assert not parse.failed
    assert parse.tree(words).words() == words
    assert np.isfinite(parse.log_likelihood)
    assert ((parse.probabilities >= 0) & (parse.probabilities <= 1)).all()
    assert parse.probabilities.dtype == np.float32


def test_words_that_cannot_be_made():
    """In a sequence a tag may have no item for unknown words."""
    own = sequence_model()
    fields = own.symbols.to_fields() | {"words": (("a",), ("b",), ("b", "c"))}
    known = type(own.symbols)(**fields)
    own = initialized(known, np.zeros((3, 0)), state_size=3)
    parser = DerivationParser(own)
    fine, wrong, forced = parser.parse(
        [["a", "b"], ["a", "z"], ["a", "b"]], [["", ""], ["T02", "T01"], ["T00", "T02"]]
    )
    assert not fine.failed
    assert fine.tags[0] == "T00"
    assert forced.tags == ["T00", "T02"]
    assert wrong.failed
    assert (wrong.tags, wrong.spans) == (["T02", "T01"], [])
    assert wrong.log_likelihood == -np.inf
    assert [parse.failed for parse in parser.k_best(["z"], 3)] == [True]


def test_what_cannot_be_parsed_with_or_from():
    wrong = {"decoder": "variational_", "threads": 0, "beam": 10**7}
    for name, value in wrong.items():
        with pytest.raises(StructlearnError, match=f"(SL421|SL043).*{name}"):
            DerivationParser(model(), **{name: value})
    with pytest.raises(StructlearnError, match="SL420"):
        DerivationParser(ISBN.empty())
    parser = DerivationParser(model())
    for tags in ([["NN"]], [["NN", "NN"], []]):
        with pytest.raises(StructlearnError, match="SL423"):
            parser.parse([["a", "b"]], tags)
    with pytest.raises(StructlearnError, match="SL423"):
        parser.k_best(["a", "b"], 2, ["NN"])
    for weight in (-1.0, np.nan):
        with pytest.raises(StructlearnError, match=r"SL421.*tag_weight"):
            parser.parse([["a"]], tag_weight=weight)
        with pytest.raises(StructlearnError, match=r"SL421.*tag_weight"):
            parser.k_best(["a"], 2, tag_weight=weight)
