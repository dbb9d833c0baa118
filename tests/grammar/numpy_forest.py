"""Random forests, and their scores by NumPy in float64."""

from collections import namedtuple
from functools import cache
from typing import NamedTuple

import numpy as np
from grammar import treebanks
from grammar.grammars import random_rules, random_symbols

from spacy_structlearn.arrays import cumulative
from spacy_structlearn.grammar.chart.compiled import compile_grammar
from spacy_structlearn.grammar.discriminative import _forest
from spacy_structlearn.grammar.discriminative.forests import Weights, coarse_forests
from spacy_structlearn.grammar.discriminative.objective import without_backoff
from spacy_structlearn.grammar.latent.em import ProductionCounts
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.latent.stages import encode
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.grammar.treebank.settings import LexiconSettings
from spacy_structlearn.parallel.shards import split

OFFSETS = ("sentence_cell", "cell_item", "cell_group", "cell_unary", "group_edge", "sentence_root")
FORMS = 4  # terminals of each tag
Arrays = namedtuple(
    "Arrays",
    "substates binary binary_offsets unary unary_offsets root root_offsets lexical lexical_offsets",
)


class Problem(NamedTuple):
    """Rules, the arrays of a forest of them, and weights."""

    symbols: object
    rules: object
    arrays: dict
    weights: Arrays

    def kernel(self):
        rules = (self.rules.binary, self.rules.unary, self.rules.root)
        return _forest.ForestArrays(self.symbols.n_tags, self.symbols.size, *rules, self.arrays)


# --- random forests ------------------------------------------------------------------------------
def random_problem(seed, lengths, widths, *, density=0.8, zeros=0.2, empty=0.0, unary=0.6):
    """Sentences of these lengths, and symbols with numbers of substates out of `widths`.

    density: of items, of edges and of unaries; zeros: the part of all weights that is 0; empty:
    the part of all items that no substate is left of.
    """
    rng = np.random.default_rng(seed)
    symbols = random_symbols(3, 2, 1)
    rules = random_rules(rng, symbols, "any", 0.3, unary, root_tags=True)
    substates = rng.choice(widths, size=symbols.size).astype(np.int32)
    arrays = random_arrays(rng, symbols, rules, substates, lengths, density, empty)
    weights = random_weights(rng, symbols, rules, substates, zeros)
    return Problem(symbols, rules, arrays, weights)


def random_weights(rng, symbols, rules, substates, zeros=0.0):
    def values(n):
        found = np.exp(rng.normal(size=n))
        found[rng.random(n) < zeros] = 0
        return found.astype(np.float32)

    offsets = [cumulative(sizes) for sizes in rules.sizes(substates).values()]
    offsets.append(cumulative(np.repeat(substates[: symbols.n_tags], FORMS)))
    parts = [part for ends in offsets for part in (values(ends[-1]), ends)]
    return Arrays(substates, *parts)


def random_arrays(rng, symbols, rules, substates, lengths, density, empty):
    lists = {name: [] for name in (*OFFSETS, "item_symbol", "item_terminal")}
    masks = []
    names = ("group_parent", "group_rule", "edge_left", "edge_right", "unary_parent")
    names += ("unary_child", "unary_rule", "root_item", "root_rule")
    lists |= {name: [] for name in names}
    n_tags = symbols.n_tags

    def mark(name, other):
        lists[name].append(len(lists[other]))

    for n in lengths:
        mark("sentence_cell", "cell_item")
        mark("sentence_root", "root_item")
        items = {}
        forms = rng.integers(FORMS, size=n)
        for length in range(1, n + 1):
            for i in range(n - length + 1):
                j = i + length
                mark("cell_item", "item_symbol")
                mark("cell_group", "group_parent")
                mark("cell_unary", "unary_parent")
                for symbol in range(0 if length == 1 else n_tags, symbols.size):
                    if rng.random() >= density:
                        continue
                    items[i, j, symbol] = len(lists["item_symbol"])
                    lists["item_symbol"].append(symbol)
                    terminal = symbol * FORMS + forms[i] if symbol < n_tags else -1
                    lists["item_terminal"].append(terminal)
                    bits = int(rng.integers(1, 1 << int(substates[symbol]), dtype=np.uint64))
                    masks.append(0 if rng.random() < empty else bits)
                for u, (a, b) in sorted(enumerate(rules.unary.tolist()), key=lambda x: x[1][1]):
                    ends = items.get((i, j, a)), items.get((i, j, b))
                    if None not in ends and rng.random() < density:
                        lists["unary_parent"].append(ends[0])
                        lists["unary_child"].append(ends[1])
                        lists["unary_rule"].append(u)
                for r, (a, b, c) in enumerate(rules.binary.tolist()):
                    pairs = [(items.get((i, k, b)), items.get((k, j, c))) for k in range(i + 1, j)]
                    pairs = [p for p in pairs if None not in p and rng.random() < density]
                    if (i, j, a) in items and pairs:
                        mark("group_edge", "edge_left")
                        lists["group_parent"].append(items[i, j, a])
                        lists["group_rule"].append(r)
                        lists["edge_left"] += [left for left, _ in pairs]
                        lists["edge_right"] += [right for _, right in pairs]
        for r, a in enumerate(rules.root.tolist()):
            if (0, n, a) in items:
                lists["root_item"].append(items[0, n, a])
                lists["root_rule"].append(r)
    ends = ("cell_item", "item_symbol", "group_parent", "unary_parent", "edge_left", "root_item")
    lengths = [len(lists[name]) for name in ends]
    for name, length in zip(OFFSETS, lengths, strict=True):
        lists[name].append(length)
    arrays = {name: np.array(values, dtype=np.int32) for name, values in lists.items()}
    arrays["item_mask"] = np.array(masks, dtype=np.uint64)
    for kind, name in (("item", "item_symbol"), ("edge", "edge_left"), ("unary", "unary_rule")):
        arrays["gold_" + kind] = np.zeros(len(lists[name]), dtype=np.uint8)
    arrays["gold_root"] = np.zeros(len(lists["root_item"]), dtype=np.uint8)
    return arrays


# --- NumPy ---------------------------------------------------------------------------------------
class Scores(NamedTuple):
    """log Z; posteriors of substates of lower and upper nodes, a vector for each item, and of
    edges, unaries and roots; expected counts. Numbers of items and the rest are those of all
    sentences, posteriors of other sentences 0.
    """

    log_z: float
    lower: list
    upper: list
    edges: np.ndarray
    unaries: np.ndarray
    roots: np.ndarray
    counts: ProductionCounts


def numpy_scores(problem, sentence, only_gold=False):
    """Scores of one sentence; None if it has no derivation. only_gold: of its own tree."""
    symbols, rules, a, w = problem
    used = {
        kind: a["gold_" + kind] > 0 if only_gold else np.ones(len(a["gold_" + kind]), bool)
        for kind in ("item", "edge", "unary", "root")
    }
    widths = w.substates[a["item_symbol"]]
    masks = [
        np.array([int(m) >> x & 1 for x in range(n)], dtype=float) * own
        for m, n, own in zip(a["item_mask"], widths, used["item"], strict=True)
    ]

    def block(kind, rule, shape):
        begin, end = getattr(w, kind + "_offsets")[rule : rule + 2]
        return getattr(w, kind)[begin:end].astype(float).reshape(shape)

    def binary(group):
        rule = a["group_rule"][group]
        return block("binary", rule, w.substates[rules.binary[rule]])

    def unary(x):
        rule = a["unary_rule"][x]
        return block("unary", rule, w.substates[rules.unary[rule]])

    cells = range(*a["sentence_cell"][sentence : sentence + 2])
    lower, upper, out_lower, out_upper = ([np.zeros(n) for n in widths] for _ in range(4))
    is_tag = a["item_symbol"] < symbols.n_tags

    def part(name, x):
        return range(*a[name][x : x + 2])

    for cell in cells:
        items = part("cell_item", cell)
        for x in items:
            if is_tag[x]:
                upper[x] = masks[x] * block("lexical", a["item_terminal"][x], -1)
        for group in part("cell_group", cell):
            for e in part("group_edge", group):
                if used["edge"][e]:
                    left, right = upper[a["edge_left"][e]], upper[a["edge_right"][e]]
                    lower[a["group_parent"][group]] += binary(group) @ right @ left
        unaries = [x for x in part("cell_unary", cell) if used["unary"][x]]
        for x in unaries:
            if is_tag[a["unary_child"][x]]:
                lower[a["unary_parent"][x]] += unary(x) @ upper[a["unary_child"][x]]
        for x in items:
            lower[x] = lower[x] * masks[x]
            if not is_tag[x]:
                upper[x] = lower[x].copy()
        for x in unaries:
            if not is_tag[a["unary_child"][x]]:
                upper[a["unary_parent"][x]] += unary(x) @ lower[a["unary_child"][x]]
        for x in items:
            upper[x] = upper[x] * masks[x]
    tops = [x for x in part("sentence_root", sentence) if used["root"][x]]
    z = sum(block("root", a["root_rule"][x], -1) @ upper[a["root_item"][x]] for x in tops)
    if not z > 0:
        return None
    counts = ProductionCounts(*(np.zeros(len(x)) for x in (w.binary, w.unary, w.root, w.lexical)))
    edges, roots = np.zeros(len(a["edge_left"])), np.zeros(len(a["root_item"]))
    of_unaries = np.zeros(len(a["unary_rule"]))

    def count(kind, rule, values):
        begin = getattr(w, kind + "_offsets")[rule]
        getattr(counts, kind)[begin : begin + values.size] += values.reshape(-1) / z
        return values.sum() / z

    for x in tops:
        p = block("root", a["root_rule"][x], -1)
        out_upper[a["root_item"][x]] += p
        roots[x] = count("root", a["root_rule"][x], p * upper[a["root_item"][x]])

    def push(x, above, below, out_below):
        up, down = a["unary_parent"][x], a["unary_child"][x]
        p = unary(x)
        out_below[down] += above[up] @ p
        values = above[up][:, None] * p * below[down]
        of_unaries[x] = count("unary", a["unary_rule"][x], values)

    for cell in reversed(cells):
        items = part("cell_item", cell)
        unaries = [x for x in part("cell_unary", cell) if used["unary"][x]]
        for x in items:
            out_upper[x] = out_upper[x] * masks[x]
            if not is_tag[x]:
                out_lower[x] = out_upper[x].copy()
        for x in unaries:
            if not is_tag[a["unary_child"][x]]:
                push(x, out_upper, lower, out_lower)
        for x in items:
            out_lower[x] = out_lower[x] * masks[x]
        for x in unaries:
            if is_tag[a["unary_child"][x]]:
                push(x, out_lower, upper, out_upper)
        for x in items:
            out_upper[x] = out_upper[x] * masks[x]
            if is_tag[x]:
                count("lexical", a["item_terminal"][x], upper[x] * out_upper[x])
        for group in part("cell_group", cell):
            for e in part("group_edge", group):
                if used["edge"][e]:
                    left, right = a["edge_left"][e], a["edge_right"][e]
                    above = out_lower[a["group_parent"][group]]
                    pushed = np.einsum("x,xyz->yz", above, binary(group))
                    out_upper[left] += pushed @ upper[right]
                    out_upper[right] += upper[left] @ pushed
                    values = above[:, None, None] * binary(group)
                    values = values * upper[left][:, None] * upper[right]
                    edges[e] = count("binary", a["group_rule"][group], values)
    lower = [x * y / z for x, y in zip(lower, out_lower, strict=True)]
    upper = [x * y / z for x, y in zip(upper, out_upper, strict=True)]
    return Scores(np.log(z), lower, upper, edges, of_unaries, roots, counts)


def numpy_expected_counts(problem, only_gold=False):
    """log Z of all sentences, and sums of expected counts."""
    w = problem.weights
    totals = ProductionCounts(*(np.zeros(len(x)) for x in (w.binary, w.unary, w.root, w.lexical)))
    log_z = []
    for sentence in range(len(problem.arrays["sentence_cell"]) - 1):
        found = numpy_scores(problem, sentence, only_gold)
        log_z.append(-np.inf if found is None else found.log_z)
        for total, counts in zip(totals, found.counts if found else (), strict=bool(found)):
            total += counts
    return np.array(log_z), totals


# --- forests of treebanks ------------------------------------------------------------------------
SETTINGS = {
    "smoothed": LexiconSettings(min_word_count=3),
    "simple": LexiconSettings(lexicon="simple", min_word_count=2, signature="english"),
    "tied": LexiconSettings(min_word_count=4, word_backoff="signature"),
}


def short():
    """The sentences of the sample treebank of ten words or fewer."""
    found = (binarize([tree]) for tree in treebanks.sample())
    kept = [int(data.is_word.sum()) <= 10 for data in found]
    return [tree for tree, own in zip(treebanks.sample(), kept, strict=True) if own]


@cache
def learned(name, kind="smoothed", rounds=2, binarization="right"):
    """A treebank, encoded, and a grammar of it with whole rows of signatures."""
    trees = {"toy": treebanks.toy, "sample": treebanks.sample, "short": short}[name]()
    settings = SETTINGS[kind].part(
        LatentGrammarSettings,
        rounds=rounds,
        split_iterations=4,
        merge_iterations=2,
        smooth_iterations=2,
        binarization=binarization,
        root="R" if name == "toy" else "TOP",
    )
    return encode(settings, [trees]), without_backoff(treebanks.learned(settings, trees))


def coarse(data, grammar, threshold=0.0, shards=1):
    """Forests of all trees, in parts, and the keys of their terminals."""
    made = []
    for part in split(data.offsets, shards):
        made.append(
            coarse_forests(
                data,
                compile_grammar(grammar.truncated(1)),
                grammar.lexicon,
                range(part.start, part.stop),
                threshold,
            )
        )
    keys = np.unique(np.concatenate([forests.terminal_keys for forests in made]))
    for forests in made:
        forests.number_terminals(keys)
    return made, keys


def generative_weights(grammar, number, keys):
    """The probabilities of a level, words by way of `Lexicon.scores`."""
    level = grammar.levels[number]
    words, tags = np.divmod(keys, grammar.symbols.n_tags)
    rows = [
        grammar.lexicon.scores(number, np.array([word], dtype=np.int32))[0][
            slice(*level.offsets[tag : tag + 2])
        ]
        for word, tag in zip(words, tags, strict=True)
    ]
    terminal = np.concatenate([np.empty(0, np.float32), *rows])
    return Weights(level, terminal, cumulative(level.substates[tags]))


def of(forests, weights):
    """Forests as NumPy wants them."""
    arrays = {name: np.array(array) for name, array in forests._arrays.items()}
    return Problem(forests.data.symbols, forests.data.rules, arrays, Arrays(*weights.arrays))


def at_level(data, grammar, number, threshold, **more):
    """Forests refined to a level and pruned with all before it; terminals; the level's weights."""
    made, terminals = coarse(data, grammar, threshold, **more)
    for before in range(number):
        weights = generative_weights(grammar, before, terminals)
        for forests in made:
            forests.prune(weights, threshold)
            forests.refine(grammar.levels[before + 1])
    return made, terminals, generative_weights(grammar, number, terminals)
