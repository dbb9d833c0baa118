"""The kernel against NumPy and against enumeration."""

import numpy as np
import pytest
from grammars import (
    NEVER,
    SHAPES,
    Enumeration,
    few_trees,
    grammar_from,
    numpy_log_likelihood,
    numpy_posteriors,
    random_grammar,
    sentence,
    word_scores,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.grammar.chart import _chart
from spacy_structlearn.grammar.chart.decode import DECODERS, ChartParser, compile_grammar


def compiled(*grammars, thresholds=NEVER, **settings):
    """The kernel's parser."""
    return ChartParser(grammars, thresholds=thresholds, **settings)._parser


def scores_of(grammar, words):
    """float32, one array a level."""
    return [
        word_scores(grammar, words, level).astype(np.float32)
        for level in range(len(grammar.levels))
    ]


def posteriors(grammar, words, scale=1.0):
    rows = word_scores(grammar, words, 0) * scale
    return _chart.Chart().posteriors(compiled(grammar), rows.astype(np.float32))


def check_posteriors(grammar, words, atol=1e-5):
    n_tags = grammar.symbols.n_tags
    nodes, tags, log_z = posteriors(grammar, words)
    expected = numpy_posteriors(grammar.levels[0], n_tags, word_scores(grammar, words, 0))
    if not expected.total:
        assert log_z == -np.inf
        assert not nodes.any()
        assert not tags.any()
        return False
    assert log_z == pytest.approx(np.log(expected.total), abs=1e-5)
    np.testing.assert_allclose(nodes[0], expected.lower[:, :, n_tags:], atol=atol)
    np.testing.assert_allclose(nodes[1], expected.upper[:, :, n_tags:], atol=atol)
    own = [expected.upper[i, i + 1, :n_tags] for i in range(len(words))]
    np.testing.assert_allclose(tags, own, atol=atol)
    return True


# --- level 0 -------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", range(1, 8))
@pytest.mark.parametrize("shape", SHAPES)
def test_posteriors_of_level_0(shape, n):
    checked = 0
    for seed in range(6):
        grammar = random_grammar(
            seed, n_tags=4, n_phrases=3, n_intermediates=2, n_levels=1, shape=shape, root_tags=True
        )
        checked += check_posteriors(grammar, sentence(seed, n))
    assert checked


@pytest.mark.parametrize("n_phrases", [1, 2, 6, 7, 8, 9, 13, 14, 15, 16, 17, 25])
def test_any_number_of_symbols(n_phrases):
    # The kernel goes through rows of symbols in steps of 8.
    density = 1 / n_phrases if n_phrases > 2 else 0.6
    for shape in SHAPES:
        grammar = random_grammar(3, n_phrases=n_phrases, n_levels=1, shape=shape, density=density)
        assert check_posteriors(grammar, sentence(3, 5))


def test_only_tags_as_children():
    # X -> t @X and @X -> t t: no rule has a nonterminal on both sides.
    grammar = grammar_from(
        ["t"],
        ["X"],
        {"X -> t @X": 0.5, "@X -> t t": 0.3, "@X -> t @X": 0.7, "X -> t t": 0.25},
        {"X -> t": 0.25},
        {"X": 1.0},
        {("t", "w"): 1.0},
        ["X"],
    )
    for n in range(1, 6):
        assert check_posteriors(grammar, ["w"] * n)


def test_intermediates_on_both_sides():
    grammar = grammar_from(
        ["t"],
        ["X", "Y"],
        {
            "X -> @X @Y": 0.5,
            "@X -> @Y t": 0.6,
            "@X -> t t": 0.4,
            "@Y -> t @X": 0.5,
            "@Y -> X t": 0.3,
            "@Y -> t t": 0.2,
            "Y -> @X @X": 0.3,
            "Y -> X Y": 0.2,
        },
        {"X -> t": 0.4, "X -> Y": 0.1, "Y -> t": 0.3, "Y -> X": 0.2},
        {"X": 0.6, "Y": 0.4},
        {("t", "w"): 1.0},
        ["X", "Y"],
    )
    for n in range(1, 8):
        assert check_posteriors(grammar, ["w"] * n)


def test_a_grammar_without_binary_rules():
    grammar = grammar_from(["t"], ["X"], {}, {"X -> t": 1.0}, {"X": 1.0}, {("t", "w"): 0.5})
    assert check_posteriors(grammar, ["w"])
    assert not check_posteriors(grammar, ["w", "w"])


def test_a_grammar_without_phrases():
    grammar = grammar_from(["t"], [], {}, {}, {"t": 1.0}, {("t", "w"): 0.5})
    assert check_posteriors(grammar, ["w"])
    assert not check_posteriors(grammar, ["w", "w", "w"])


def test_no_parse():
    grammar = random_grammar(1, n_levels=1)
    words = sentence(1, 4)
    rows = scores_of(grammar, words)[0]
    rows[2] = 0
    nodes, tags, log_z = _chart.Chart().posteriors(compiled(grammar), rows)
    assert log_z == -np.inf
    assert not nodes.any()
    assert not tags.any()


@pytest.mark.parametrize("power", [-110, -100, -30, 30, 100, 120])
def test_the_scale_of_words_shifts_the_likelihood_alone(power):
    grammar = random_grammar(2, n_levels=1)
    words = sentence(2, 6)
    nodes, tags, log_z = posteriors(grammar, words)
    # Words may have scales of their own.
    scale = 2.0 ** np.array([power, power, 0, power, power // 2, power])[:, None]
    moved = posteriors(grammar, words, scale * 8)
    np.testing.assert_array_equal(moved[0], nodes)
    np.testing.assert_array_equal(moved[1], tags)
    assert moved[2] == pytest.approx(log_z + np.log(scale * 8).sum(), rel=1e-9)


def test_cells_without_nodes_take_nothing_from_others():
    # Only X spans words: of 60, most cells hold nothing, and the score of X is 2**-300.
    grammar = grammar_from(
        ["a", "b"],
        ["X"],
        {"X -> a X": 2.0**-10, "X -> a b": 2.0**-10},
        {},
        {"X": 1.0},
        {("a", "a"): 1.0, ("b", "b"): 1.0},
    )
    nodes, _, log_z = posteriors(grammar, ["a"] * 59 + ["b"])
    assert log_z == pytest.approx(-590 * np.log(2))
    np.testing.assert_array_equal(np.argwhere(nodes[1]), [[i, 60, 0] for i in range(59)])


def test_states_that_lead_nowhere_take_nothing_from_others():
    # The only tree is of improbable P and Q. C is a probable node over the same number of a and b,
    # where S would make the sentence 2**100 times more probable, but nothing can be an S there.
    grammar = grammar_from(
        ["a", "b"],
        ["C", "D", "P", "Q", "R", "S"],
        {
            "R -> P Q": 0.5,
            "R -> a S": 0.5,
            "S -> P P": 1.0,
            "P -> a P": 2.0**-9,
            "Q -> b Q": 2.0**-9,
            "C -> a D": 0.5,
            "D -> C b": 0.5,
            "C -> a b": 0.5,
        },
        {"P -> a": 2.0**-9, "Q -> b": 2.0**-9},
        {"R": 1.0},
        {("a", "a"): 1.0, ("b", "b"): 1.0},
    )
    nodes, tags, log_z = posteriors(grammar, ["a"] * 7 + ["b"] * 6)
    assert log_z == pytest.approx(-(1 + 13 * 9) * np.log(2))
    assert np.isfinite(nodes).all()
    p, q, r = 2, 3, 4
    expected = {(0, 13, r), *((i, 7, p) for i in range(7)), *((i, 13, q) for i in range(7, 13))}
    assert {tuple(place) for place in np.argwhere(nodes[1] > 1e-6).tolist()} == expected
    np.testing.assert_allclose([nodes[1][place] for place in expected], 1, rtol=1e-6)
    np.testing.assert_allclose(tags.sum(axis=1), 1, rtol=1e-6)


# --- the cascade ---------------------------------------------------------------------------------
def raw_parse(parser, lexicon, others=()):
    """(symbols, starts, ends, probabilities), levels, log P(words), log P(tree | words)."""
    offsets = np.array([0, len(lexicon[0])])
    *arrays, begins, levels, logs = _chart.Chart().parse(parser, lexicon, list(others), offsets)
    assert begins.tolist() == [0, len(arrays[0])]
    return arrays, int(levels[0]), *logs[0]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 7),
    st.sampled_from(SHAPES),
    st.sampled_from([0.0, 0.3]),
    st.booleans(),
)
def test_nothing_pruned_gives_the_posteriors_of_the_last_level(seed, n, shape, zeros, root_tags):
    grammar = random_grammar(seed, shape=shape, zeros=zeros, root_tags=root_tags)
    words = sentence(seed, n)
    n_tags = grammar.symbols.n_tags
    expected = numpy_posteriors(grammar.levels[-1], n_tags, word_scores(grammar, words))
    brackets = expected.upper + expected.lower - expected.same
    arrays, levels, log_z, log_tree = raw_parse(compiled(grammar), scores_of(grammar, words))
    if not expected.total:
        assert levels < 3
        return
    if not numpy_posteriors(grammar.levels[1], n_tags, word_scores(grammar, words, 1)).total:
        assert levels == 1
        return
    assert levels == 3
    assert log_z == pytest.approx(np.log(expected.total), abs=1e-5)
    assert log_tree <= 1e-5
    symbols, starts, ends, probabilities = arrays
    np.testing.assert_allclose(probabilities, brackets[starts, ends, symbols], atol=1e-5)
    tags = symbols < n_tags
    assert starts[tags].tolist() == list(range(n))
    assert ends[tags].tolist() == list(range(1, n + 1))


@pytest.mark.parametrize("decoder", _chart.DECODERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_scored_forest(shape, decoder):
    grammar, words, trees = few_trees(4, shape=shape, density=0.2, unary=0.4)
    n_tags, rules = grammar.symbols.n_tags, grammar.rules
    parser = compiled(grammar, decoder=decoder)
    forest = _chart.Chart().forest(parser, scores_of(grammar, words), [])
    items = [tuple(item) for item in forest["items"].tolist()]
    assert len(set(items)) == len(items)
    nodes = {part[1:] for part in trees.q if part[0] in ("upper", "lower")}
    nodes |= {(part[1], part[2], part[2] + 1) for part in trees.q if part[0] == "tag"}
    assert nodes <= set(items)
    assert forest["log_likelihood"] == pytest.approx(np.log(trees.total), abs=1e-5)
    assert forest["levels"] == 3
    binary = {tuple(rule): r for r, rule in enumerate(rules.binary.tolist())}
    unary = {tuple(rule): r for r, rule in enumerate(rules.unary.tolist())}
    found = {}
    for (parent, left, right), score in zip(
        forest["edges"].tolist(), forest["edge_score"].tolist(), strict=True
    ):
        (a, i, j), (b, i2, k), (c, k2, j2) = items[parent], items[left], items[right]
        assert (i2, k2, j2) == (i, k, j)
        found["binary", binary[a, b, c], i, k, j] = score
    for (parent, child), score in zip(
        forest["unaries"].tolist(), forest["unary_score"].tolist(), strict=True
    ):
        (a, i, j), (b, i2, j2) = items[parent], items[child]
        assert (i2, j2) == (i, j)
        found["unary", unary[a, b], i, j] = score
    for item, score in zip(forest["roots"].tolist(), forest["root_score"].tolist(), strict=True):
        assert items[item][1:] == (0, 4)
        found["root", rules.root.tolist().index(items[item][0])] = score
    for (symbol, i, j), tag_score, same_score in zip(
        items, forest["tag_score"].tolist(), forest["same_score"].tolist(), strict=True
    ):
        if symbol < n_tags:
            found["tag", symbol, i] = tag_score
        else:
            found["same", symbol, i, j] = same_score
    decoder = "max_rule_product" if decoder == "viterbi" else decoder
    worth = trees.worth(decoder)
    expected = {part: worth[part] for part in worth if part[0] not in ("upper", "lower")}
    assert expected.keys() <= found.keys()
    for part, value in expected.items():
        if trees.q[part] > 1e-4:
            assert found[part] == pytest.approx(value, abs=1e-3), part


def test_counts():
    grammar, words, _ = few_trees(4)
    lexicon = scores_of(grammar, words)
    chart = _chart.Chart()
    forest = chart.forest(compiled(grammar), lexicon, [])
    everything = chart.counts()
    assert everything["items"] == len(forest["items"])
    assert everything["edges"] == len(forest["edges"])
    chart.forest(compiled(grammar, thresholds=(1e-2,) * 7), lexicon, [])
    fewer = chart.counts()
    assert all(fewer[name] <= everything[name] for name in ("cells", "items", "edges"))
    assert fewer["edges"] < everything["edges"]


def test_a_tree_is_read_from_the_forest():
    grammar, words, trees = few_trees(3, density=0.2)
    parser = compiled(grammar)
    arrays, _, _, log_tree = raw_parse(parser, scores_of(grammar, words))
    chart = _chart.Chart()
    forest = chart.forest(parser, scores_of(grammar, words), [])
    # The same tree by its choices: from the nodes that the parser gave.
    best = trees.trees[int(np.argmax(trees.scores("max_rule_product")))]
    place = {tuple(item): i for i, item in enumerate(forest["items"].tolist())}
    edges = {tuple(edge): i for i, edge in enumerate(forest["edges"].tolist())}
    unaries = {tuple(pair): i for i, pair in enumerate(forest["unaries"].tolist())}
    lower, upper = {}, {}
    for part in best.parts:
        if part[0] == "binary":
            _, r, i, k, j = part
            a, b, c = grammar.rules.binary[r].tolist()
            node = place[a, i, j]
            lower[node] = edges[node, place[b, i, k], place[c, k, j]]
        elif part[0] == "unary":
            _, u, i, j = part
            a, b = grammar.rules.unary[u].tolist()
            node, child = place[a, i, j], place[b, i, j]
            if b < grammar.symbols.n_tags:
                lower[node] = -2 - unaries[node, child]
            else:
                upper[node] = unaries[node, child]
    choices = [(x, lower.get(x, -1), upper.get(x, -1)) for x in lower.keys() | upper.keys()]
    top = place[best.nodes[0]]
    root = forest["roots"].tolist().index(top)
    *read, log_probability = chart.read(parser, root, choices)
    for mine, its in zip(read, arrays, strict=True):
        np.testing.assert_array_equal(mine, its)
    assert log_probability == pytest.approx(log_tree, abs=1e-6)
    weight = float(best.total) / trees.total
    assert log_probability == pytest.approx(np.log(weight), abs=1e-4)


def test_a_chart_is_used_again():
    # Short and long sentences of small and large grammars, and failures between: nothing of one
    # is left to the next.
    small, large = (
        random_grammar(3, n_tags=tags, n_phrases=phrases) for tags, phrases in ((3, 2), (9, 17))
    )
    chart = _chart.Chart()
    for n, grammar in ((7, small), (2, small), (9, large), (45, small), (1, large), (12, small)):
        parser = compiled(grammar, thresholds=(1e-4,) * 7)
        lexicon, offsets = scores_of(grammar, sentence(n, n)), np.array([0, n])
        fresh = _chart.Chart().parse(parser, lexicon, [], offsets)
        again = chart.parse(parser, lexicon, [], offsets)
        for a, b in zip(fresh, again, strict=True):
            np.testing.assert_array_equal(a, b)
        broken = [np.zeros_like(rows) for rows in lexicon]
        assert chart.parse(parser, broken, [], offsets)[5].tolist() == [0]


@pytest.mark.parametrize("n", [30, 100])
def test_long_sentences_in_the_log_domain(n):
    grammar = random_grammar(4, n_phrases=1, n_levels=2, density=0.7, unary=1.0)
    words = sentence(4, n)
    rows = word_scores(grammar, words)
    _, levels, log_z, log_tree = raw_parse(compiled(grammar), scores_of(grammar, words))
    # Within float64 when words count a hundred times.
    expected = numpy_log_likelihood(grammar.levels[-1], 3, rows * 100) - n * np.log(100)
    assert levels == 2
    assert log_z == pytest.approx(expected, abs=1e-4)
    assert -np.inf < log_tree < 0


def test_enumeration_and_numpy_agree():
    # The two references of this folder, of which the second is used for longer sentences.
    for seed in range(20):
        grammar = random_grammar(seed, n_levels=2, density=0.2, shape=SHAPES[seed % 3])
        rows = word_scores(grammar, sentence(seed, 3))
        trees = Enumeration(grammar, rows)
        expected = numpy_posteriors(grammar.levels[-1], 3, rows)
        assert trees.total == pytest.approx(expected.total)
        for (kind, *place), value in trees.q.items():
            if kind in ("lower", "upper", "same"):
                symbol, i, j = place
                assert getattr(expected, kind)[i, j, symbol] == pytest.approx(value)


def test_unknown_decoder():
    with pytest.raises(KeyError):
        _chart.Parser([compile_grammar(random_grammar(0))], (0,), [2], NEVER, 0.1, "best")
    assert [*_chart.DECODERS, "labelled_recall"] == list(DECODERS)


# --- what is no grammar, and no sentence ---------------------------------------------------------
def test_grammars_that_do_not_fit_together():
    grammar = random_grammar(3)
    symbols, rules = grammar.symbols, grammar.rules
    level = grammar.levels[0]
    entries = np.zeros(len(rules.binary) + 1, np.int32), *np.zeros((2, 0), np.int32)
    parts = (
        level.substates, level.offsets, level.binary, level.binary_offsets[:-1], level.unary,
        level.unary_offsets, level.root, level.root_offsets, *entries, np.zeros(0, np.float32),
    )  # fmt: skip
    chains = np.zeros(len(rules.unary) + 1, np.int32), np.zeros(0, np.int32)
    sizes = (symbols.n_tags, symbols.n_phrases, symbols.size)

    def made(parts=parts, binary=rules.binary, unary=rules.unary, chains=chains, sizes=sizes):
        rest = (rules.root, [parts], level.binary, *chains)
        return _chart.Grammar(*sizes, binary, unary, *rest)

    made()
    for place in range(len(parts)):
        if len(parts[place]):
            for value in (-5, 10**6):
                wrong = parts[place].copy()
                wrong[-1] = value
                if wrong.dtype != np.float32:
                    with pytest.raises(ValueError, match=r"sub|block|begins|entry|offsets"):
                        made((*parts[:place], wrong, *parts[place + 1 :]))
    for bad in (rules.binary + 1000, rules.binary - 1, rules.binary[::-1].copy()):
        with pytest.raises(ValueError, match="rule"):
            made(binary=bad)
    with pytest.raises(ValueError, match="twelve"):
        made(parts[:-1])
    with pytest.raises(ValueError, match="begin"):
        made(chains=(np.full(len(rules.unary) + 1, 7, np.int32), chains[1]))
    with pytest.raises(ValueError, match=r"symbols|rule|symbol"):
        made(sizes=(symbols.n_tags, symbols.n_phrases, 2**20))
    with pytest.raises(ValueError, match="grammar"):
        _chart.Parser([], (0,), [0], (0.0,), 1.0, "viterbi")
    for levels, last, keep in (((1,), [0], (0.0,)), ((0,), [1], (0.0,)), ((0,), [], (0.0,))):
        with pytest.raises(ValueError, match=r"level|fit"):
            _chart.Parser([made()], levels, last, keep, 1.0, "viterbi")


def test_words_that_have_no_scores():
    grammar = random_grammar(3)
    parser, words = compiled(grammar), sentence(1, 4)
    lexicon = scores_of(grammar, words)
    chart = _chart.Chart()
    for offsets in ([], [0, 5], [0, 0, 4], [0, 4, 2], [-1, 4]):
        with pytest.raises(ValueError, match=r"offsets|words|score"):
            chart.parse(parser, lexicon, [], np.array(offsets, dtype=np.int64))
    narrow = [*lexicon[:-1], lexicon[-1][:, :1].copy()]
    for bad in (lexicon[:-1], narrow, [*lexicon[:-1], lexicon[-1][:2]]):
        for ask in (chart.parse, chart.hypergraphs):
            with pytest.raises(ValueError, match="score"):
                ask(parser, bad, [], np.array([0, 4]))
        with pytest.raises(ValueError, match="score"):
            chart.forest(parser, bad, [])
    with pytest.raises(ValueError, match="score"):
        chart.posteriors(parser, lexicon[0][:, :1].copy())


def test_choices_that_make_no_tree():
    grammar, words, _ = few_trees(3, density=0.2)
    parser, chart = compiled(grammar), _chart.Chart()
    with pytest.raises(ValueError, match="root"):
        chart.read(parser, 0, [])
    forest = chart.forest(parser, scores_of(grammar, words), [])
    n_items, n_edges = len(forest["items"]), len(forest["edges"])
    top = int(forest["roots"][0])
    for root, choices in (
        (-1, []),
        (10**6, []),
        (0, []),
        (0, [(n_items, 0, -1)]),
        (0, [(top, n_edges, -1)]),
        (0, [(top, -(10**6), -1)]),
        (0, [(top, 0, 10**6)]),
        (0, [(item, 0, -1) for item in range(n_items)]),
    ):
        with pytest.raises(ValueError, match=r"root|item|tree"):
            chart.read(parser, root, choices)
    with pytest.raises(ValueError, match="root"):
        chart.read(compiled(grammar), 0, [])
