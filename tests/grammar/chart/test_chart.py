"""The passes of the chart against NumPy, packed forests, and the checks of the kernel."""

import numpy as np
import pytest
from grammar.grammars import (
    NEVER,
    SHAPES,
    few_trees,
    grammar_from,
    numpy_log_likelihood,
    numpy_posteriors,
    random_grammar,
    sentence,
    word_scores,
)

from spacy_structlearn.grammar.chart import _chart
from spacy_structlearn.grammar.chart.compiled import compile_grammar
from spacy_structlearn.grammar.chart.decode import ChartParser


def compiled(*grammars, thresholds=NEVER, **settings):
    """The parser of the kernel."""
    return ChartParser(grammars, thresholds=thresholds, **settings)._parser


def scores_of(grammar, words):
    """float32, one array a level."""
    return [
        word_scores(grammar, words, level).astype(np.float32)
        for level in range(len(grammar.levels))
    ]


def coarse_items(grammar, rows, keep=0.0):
    """log P(words) and the (start, end, symbol) that level 0 leaves; -inf and None if nothing."""
    n = len(rows)
    nothing = np.full((n, n + 1, 3), -1, dtype=np.int32)
    rows = rows.astype(np.float32)
    forest = _chart.Chart().coarse_forest(compile_grammar(grammar), rows, nothing, keep, 0.0)
    if forest is None:
        return -np.inf, None
    log_z, _, arrays = forest
    return log_z, items_of(arrays)


def items_of(arrays):
    sizes = np.diff(arrays["cell_item"])
    starts, ends = (np.repeat(arrays[name], sizes).tolist() for name in ("cell_i", "cell_j"))
    return set(zip(starts, ends, arrays["item_symbol"].tolist(), strict=True))


def check_posteriors(grammar, words):
    """Whether level 0 leaves exactly the items above a threshold, for several thresholds."""
    rows = word_scores(grammar, words, 0)
    expected = numpy_posteriors(grammar.levels[0], grammar.symbols.n_tags, rows)
    if not expected.total:
        assert coarse_items(grammar, rows) == (-np.inf, None)
        return False
    best = np.maximum(expected.lower, expected.upper)
    roots = grammar.rules.root
    for keep in (1e-6, *np.quantile(best[best > 1e-6], [0.2, 0.5, 0.8]) * 0.999):
        log_z, items = coarse_items(grammar, rows, keep)
        if items is None:
            assert best[0, len(rows), roots].max() < keep
            continue
        assert log_z == pytest.approx(np.log(expected.total), abs=1e-5)
        assert {tuple(x) for x in np.argwhere(best > keep * 1.0001).tolist()} <= items
        assert items <= {tuple(x) for x in np.argwhere(best > keep * 0.9999).tolist()}
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


@pytest.mark.parametrize("n_phrases", [1, 2, 6, 7, 8, 9, 15, 16, 17, 25])
def test_any_number_of_symbols(n_phrases):
    # The kernel goes through rows of symbols in steps of 8.
    density = 1 / n_phrases if n_phrases > 2 else 0.6
    for shape in SHAPES:
        grammar = random_grammar(3, n_phrases=n_phrases, n_levels=1, shape=shape, density=density)
        assert check_posteriors(grammar, sentence(3, 5))


@pytest.mark.parametrize(
    ("binary", "unary", "lengths"),
    [
        # No rule has a nonterminal on both sides.
        (
            {"X -> t @X": 0.5, "@X -> t t": 0.3, "@X -> t @X": 0.7, "X -> t t": 0.25},
            {"X -> t": 0.25},
            range(1, 6),
        ),
        # Intermediate symbols on both sides.
        (
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
            range(1, 8),
        ),
        ({}, {"X -> t": 1.0}, [1]),
    ],
)
def test_grammars_of_some_kinds_of_rules(binary, unary, lengths):
    phrases, roots = ["X", "Y"], {"X": 0.6, "Y": 0.4}
    grammar = grammar_from(["t"], phrases, binary, unary, roots, {("t", "w"): 0.5}, phrases)
    for n in lengths:
        assert check_posteriors(grammar, ["w"] * n)
    assert binary or not check_posteriors(grammar, ["w", "w"])


def test_a_grammar_without_phrases():
    grammar = grammar_from(["t"], [], {}, {}, {"t": 1.0}, {("t", "w"): 0.5})
    assert check_posteriors(grammar, ["w"])
    assert not check_posteriors(grammar, ["w", "w", "w"])


@pytest.mark.parametrize("power", [-110, -30, 30, 120])
def test_the_scale_of_words_shifts_the_likelihood_alone(power):
    grammar = random_grammar(2, n_levels=1)
    rows = word_scores(grammar, sentence(2, 6), 0)
    # Words may have scales of their own.
    scale = 8 * 2.0 ** np.array([power, power, 0, power, power // 2, power])[:, None]
    for keep in (1e-4, 1e-2, 0.2):
        log_z, items = coarse_items(grammar, rows, keep)
        moved, others = coarse_items(grammar, rows * scale, keep)
        assert others == items
        assert moved == pytest.approx(log_z + np.log(scale).sum(), rel=1e-9)


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
    rows = word_scores(grammar, ["a"] * 59 + ["b"], 0)
    log_z, items = coarse_items(grammar, rows, 0.999)
    assert log_z == pytest.approx(-590 * np.log(2))
    tags = {(i, i + 1, int(i == 59)) for i in range(60)}
    assert items == tags | {(i, 60, 2) for i in range(59)}


# --- packed forests ------------------------------------------------------------------------------
def packed(parser, lexicon, others=(), chart=None):
    offsets = np.array([0, len(lexicon[0])])
    return (chart or _chart.Chart()).hypergraphs(parser, lexicon, list(others), offsets)


def test_a_chart_is_used_again():
    # Short and long sentences of small and large grammars, and failures between: nothing of one
    # is left to the next.
    small, large = (
        random_grammar(3, n_tags=tags, n_phrases=phrases) for tags, phrases in ((3, 2), (9, 17))
    )
    chart = _chart.Chart()
    for n, grammar in ((7, small), (2, small), (9, large), (45, small), (1, large), (12, small)):
        parser = compiled(grammar, thresholds=(1e-4,) * 7)
        lexicon = scores_of(grammar, sentence(n, n))
        fresh, again = packed(parser, lexicon), packed(parser, lexicon, chart=chart)
        for name, array in fresh.items():
            np.testing.assert_array_equal(array, again[name])
        broken = [np.zeros_like(rows) for rows in lexicon]
        assert packed(parser, broken, chart=chart)["levels"].tolist() == [0]


@pytest.mark.parametrize("n", [30, 100])
def test_long_sentences_in_the_log_domain(n):
    grammar = random_grammar(4, n_phrases=1, n_levels=2, density=0.7, unary=1.0)
    words = sentence(4, n)
    rows = word_scores(grammar, words)
    parse = ChartParser(grammar, thresholds=NEVER).parse([words])[0]
    # Within float64 when words count a hundred times.
    expected = numpy_log_likelihood(grammar.levels[-1], 3, rows * 100) - n * np.log(100)
    assert parse.levels == 2
    assert parse.log_likelihood == pytest.approx(expected, abs=1e-4)
    assert -np.inf < parse.log_probability < 0


# --- invalid arguments ---------------------------------------------------------------------------
def test_grammars_that_do_not_fit_together():
    grammar = random_grammar(3)
    symbols, rules = grammar.symbols, grammar.rules
    level = grammar.levels[0]
    entries = np.zeros(len(rules.binary) + 1, np.int32), *np.zeros((2, 0), np.int32)
    parts = (
        level.substates, level.offsets, level.binary, level.binary_offsets[:-1], level.unary,
        level.unary_offsets, level.root, level.root_offsets, *entries, np.zeros(0, np.float32),
        level.substates,
    )  # fmt: skip
    sizes = (symbols.n_tags, symbols.n_phrases, symbols.size)

    def made(parts=parts, binary=rules.binary, sizes=sizes):
        rest = (rules.unary, rules.root, [parts], level.binary)
        return _chart.Grammar(*sizes, binary, *rest)

    made()
    for place in range(len(parts)):
        if len(parts[place]):
            for value in (-5, 10**6):
                wrong = parts[place].copy()
                wrong[-1] = value
                if wrong.dtype != np.float32:
                    with pytest.raises(ValueError, match=r"sub|block|begin|entry|offsets"):
                        made((*parts[:place], wrong, *parts[place + 1 :]))
    for bad in (rules.binary + 1000, rules.binary - 1, rules.binary[::-1].copy()):
        with pytest.raises(ValueError, match="rule"):
            made(binary=bad)
    with pytest.raises(ValueError, match="thirteen"):
        made(parts[:-1])
    with pytest.raises(ValueError, match=r"symbols|rule|symbol"):
        made(sizes=(symbols.n_tags, symbols.n_phrases, 2**20))
    with pytest.raises(ValueError, match="grammar"):
        _chart.Parser([], (0,), [0], (0.0,), 1.0)
    for levels, last, keep in (((1,), [0], (0.0,)), ((0,), [1], (0.0,)), ((0,), [], (0.0,))):
        with pytest.raises(ValueError, match=r"level|fit"):
            _chart.Parser([made()], levels, last, keep, 1.0)


def test_words_without_scores():
    grammar = random_grammar(3)
    parser, words = compiled(grammar), sentence(1, 4)
    lexicon = scores_of(grammar, words)
    chart = _chart.Chart()
    for offsets in ([], [0, 5], [0, 0, 4], [0, 4, 2], [-1, 4]):
        with pytest.raises(ValueError, match=r"offsets|words|score"):
            chart.hypergraphs(parser, lexicon, [], np.array(offsets, dtype=np.int64))
    narrow = [*lexicon[:-1], lexicon[-1][:, :1].copy()]
    for bad in (lexicon[:-1], narrow, [*lexicon[:-1], lexicon[-1][:2]]):
        with pytest.raises(ValueError, match="score"):
            chart.hypergraphs(parser, bad, [], np.array([0, 4]))
    with pytest.raises(ValueError, match="hasty"):
        chart.hypergraphs(parser, lexicon, [], np.array([0, 4]), None, [True, False])


def test_edges_that_are_not_a_tree():
    grammar, words, _ = few_trees(3, density=0.2)
    parser, chart = compiled(grammar), _chart.Chart()
    arrays = packed(parser, scores_of(grammar, words), chart=chart)
    n_edges = len(arrays["scores"])
    nothing = np.zeros(n_edges, dtype=bool)
    assert chart.log_probabilities(parser, nothing).tolist() == [-np.inf]
    for mask in (~nothing, np.arange(n_edges) == 0, np.arange(n_edges) == n_edges - 1):
        with pytest.raises(ValueError, match="not trees"):
            chart.log_probabilities(parser, mask)
    for wrong in ((parser, nothing[1:]), (compiled(grammar), nothing)):
        with pytest.raises(ValueError, match="not those"):
            chart.log_probabilities(*wrong)
