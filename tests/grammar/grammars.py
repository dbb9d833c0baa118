"""Random latent grammars, and obviously right parsing: NumPy in float64, and enumeration."""

from collections import defaultdict
from copy import copy
from functools import cache
from itertools import pairwise, product
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

import numpy as np

from spacy_structlearn.grammar.chart.hypergraph import BRACKET_COST, LIKELIER
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.latent.model import LatentGrammar, Level
from spacy_structlearn.grammar.treebank.data import binarize, restore
from spacy_structlearn.grammar.treebank.symbols import Rules, Symbols
from spacy_structlearn.trees.brackets import parse_tree, read_trees
from spacy_structlearn.trees.normalize import normalize

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample" / "sample.trees"
WORDS = tuple(f"w{i}" for i in range(6))
SHAPES = ("right", "left", "any")
NEVER = (0.0,) * 7  # thresholds: nothing is pruned
SMALL = {"density": 0.2, "unary": 0.4}


# --- grammars ------------------------------------------------------------------------------------
def random_symbols(n_tags=3, n_phrases=2, n_intermediates=1, root="TOP"):
    """Tags, phrases, and intermediates of the last phrases."""
    phrases = tuple(ascii_uppercase[:n_phrases])
    first = n_tags + n_phrases - n_intermediates
    split = tuple(range(first, first + n_intermediates))
    return Symbols(tuple(ascii_lowercase[:n_tags]), phrases, split, root)


def random_rules(rng, symbols, shape="right", density=0.4, unary=0.6, root_tags=False):
    """Rules as a binarisation makes them, or with "any" also others: @X on both sides."""
    n_tags, last = symbols.n_tags, symbols.n_tags + symbols.n_phrases
    plain = range(last)
    binary = set()
    for parent in range(n_tags, symbols.size):
        # X and @X have the same children, of which one may be @X.
        phrase = parent if parent < last else symbols.intermediates[parent - last]
        own = [last + i for i, x in enumerate(symbols.intermediates) if x == phrase]
        candidates = list(product(plain, plain))
        if shape == "any":
            candidates = list(product(range(symbols.size), repeat=2))
        elif shape == "right":
            candidates += list(product(plain, own))
        else:
            candidates += list(product(own, plain))
        chosen = [pair for pair in candidates if rng.random() < density]
        # Every symbol can be two tags.
        chosen.append(tuple(rng.integers(n_tags, size=2).tolist()))
        binary |= {(left, right, parent) for left, right in chosen}
    unaries = {
        (child, parent)
        for child, parent in product(range(last), range(n_tags, last))
        if child != parent and rng.random() < unary
    }
    roots = [x for x in range(n_tags, last) if rng.random() < 0.8] or [n_tags]
    if root_tags:
        roots = [0, *roots]
    return Rules(
        np.array([(a, b, c) for b, c, a in sorted(binary)], dtype=np.int32).reshape(-1, 3),
        np.array([(a, b) for b, a in sorted(unaries)], dtype=np.int32).reshape(-1, 2),
        np.array(roots, dtype=np.int32),
    )


def random_level(rng, rules, substates, ancestors, zeros=0.0):
    """Random probabilities, of which the part `zeros` is zero."""
    binary_sizes = substates[rules.binary].astype(int).prod(axis=1)
    unary_sizes = substates[rules.unary].astype(int).prod(axis=1)
    root_sizes = substates[rules.root]
    parts = []
    for sizes in (binary_sizes, unary_sizes, root_sizes):
        values = rng.random(int(sizes.sum())) ** 2 + 1e-3
        values[rng.random(len(values)) < zeros] = 0
        parts.append(values)
    return normalized(Level(rules, substates, ancestors, *parts))


def normalized(level):
    """The level, whose rules are scaled in place so that those of each substate sum to 1."""
    total = level.sums()
    total[total == 0] = 1
    for kind in ("binary", "unary"):
        values = getattr(level, kind)
        values[values != 0] /= total[level.entry_states(kind)[1][:, 0]]
    level.root[:] /= max(level.root.sum(), 1e-9)
    return level


class Table:
    """In the place of a `Lexicon`: P(word | T_x), (n_words + 1, X) a level; last, unknown words."""

    def __init__(self, words, tables):
        self.words = tuple(words)
        self.tables = [np.asarray(table, dtype=np.float32) for table in tables]

    def encode(self, words):
        ids = [self.words.index(w) if w in self.words else len(self.words) for w in words]
        return np.array(ids, dtype=np.int32)

    def scores(self, level, ids):
        return self.tables[level][ids]

    def problem(self, tag_substates):
        sizes = [int(substates.sum()) for substates in tag_substates]
        return None if [t.shape[1] for t in self.tables] == sizes else "other substates"

    def scaled(self, factor):
        return Table(self.words, [factor * table for table in self.tables])


class Refined(Table):
    """A lexicon with one more level, of which the columns are those of the last one, disturbed."""

    def __init__(self, lexicon, n_levels, factors):
        self.lexicon, self.n_levels, self.factors = lexicon, n_levels, factors.astype(np.float32)
        self.words, self.encode = lexicon.words, lexicon.encode

    def scores(self, level, ids):
        if level < self.n_levels:
            return self.lexicon.scores(level, ids)
        return np.repeat(self.lexicon.scores(self.n_levels - 1, ids), 2, axis=1) * self.factors

    def problem(self, tag_substates):
        return None


def random_grammar(
    seed=0,
    *,
    n_tags=3,
    n_phrases=2,
    n_intermediates=1,
    n_levels=3,
    shape="right",
    density=0.4,
    unary=0.6,
    zeros=0.0,
    tags_of_words=0.7,
    root="TOP",
    root_tags=False,
    chains=None,
    variant=0,
):
    """A grammar whose levels have nothing to do with each other but their substates.

    Grammars of one seed have the same rules, and words the same tags, whatever their `variant`.
    """
    rng = np.random.default_rng(seed)
    symbols = random_symbols(n_tags, n_phrases, n_intermediates, root)
    rules = random_rules(rng, symbols, shape, density, unary, root_tags)
    substates = np.ones(symbols.size, dtype=np.int32)
    ancestors = np.zeros(symbols.size, dtype=np.int32)
    allowed = rng.random((len(WORDS) + 1, n_tags)) < tags_of_words
    allowed[np.arange(len(WORDS) + 1), rng.integers(n_tags, size=len(WORDS) + 1)] = True
    rng = np.random.default_rng([seed, variant])
    levels, tables = [], []
    for number in range(n_levels):
        if number:
            before = substates
            substates = rng.integers(before, 2 * before + 1).astype(np.int32)
            ancestors = np.concatenate(
                [np.sort(rng.integers(b, size=n)) for b, n in zip(before, substates, strict=True)]
            ).astype(np.int32)
        levels.append(random_level(rng, rules, substates, ancestors, zeros if number else 0.0))
        own = substates[:n_tags]
        table = rng.random((len(WORDS) + 1, int(own.sum()))) + 0.01
        table[~np.repeat(allowed, own, axis=1)] = 0
        tables.append(table / 10)
    shape = "right" if shape == "any" else shape
    return LatentGrammar(symbols, rules, levels, Table(WORDS, tables), chains, binarization=shape)


def grammar_from(tags, phrases, binary, unary, root, words, intermediates=(), top="TOP", **more):
    """A grammar with level 0 alone, by names: dicts of rules and of (tag, word) to probabilities.

    binary: "X -> Y Z", unary: "X -> Y" and root: "X" to a probability. A name of lower case is a
    tag. The probability of the word "" is that of unknown ones.
    """
    tags, phrases = sorted(tags), sorted(phrases)
    place = {name: i for i, name in enumerate([*tags, *phrases])}
    split = sorted(place[x] for x in intermediates)
    symbols = Symbols(tuple(tags), tuple(phrases), tuple(split), top)
    place = {name: i for i, name in enumerate(symbols.names)}

    def numbered(rules, order):
        found = [[place[x] for x in rule.replace("->", " ").split()] for rule in rules]
        order = sorted(range(len(found)), key=lambda i: [found[i][x] for x in order])
        values = np.array(list(rules.values()), dtype=np.float32)[order]
        return np.array([found[i] for i in order], dtype=np.int32), values

    (b, bv), (u, uv), (r, rv) = (
        numbered(binary, (1, 2, 0)),
        numbered(unary, (1, 0)),
        numbered(root, (0,)),
    )
    rules = Rules(b.reshape(-1, 3), u.reshape(-1, 2), r.reshape(-1))
    ones = np.ones(symbols.size, dtype=np.int32)
    level = Level(rules, ones, ones - 1, bv, uv, rv)
    forms = sorted({word for _, word in words} - {""})
    table = np.zeros((len(forms) + 1, len(tags)))
    for (tag, word), value in words.items():
        table[forms.index(word) if word else -1, place[tag]] = value
    if not table[-1].any():
        table[-1] = 1e-3
    return LatentGrammar(symbols, rules, [level], Table(forms, [table]), **more)


def with_lexicon(grammar, lexicon):
    """The grammar with another lexicon."""
    return grammar.replaced(lexicon=lexicon)


def refined(grammar, seed=0, noise=0.5):
    """The grammar with one more level: every substate in two, and probabilities disturbed."""
    rng = np.random.default_rng(seed)
    last, rules = grammar.levels[-1], grammar.rules
    n_tags = grammar.symbols.n_tags

    def disturbed(values):
        return values * np.exp(rng.normal(scale=noise, size=values.shape))

    substates = 2 * last.substates
    binary = [
        disturbed(np.repeat(np.repeat(np.repeat(last.block("binary", r), 2, 0), 2, 1), 2, 2)) / 4
        for r in range(len(rules.binary))
    ]
    unary = [
        disturbed(np.repeat(np.repeat(last.block("unary", u), 2, 0), 2, 1)) / 2
        for u in range(len(rules.unary))
    ]
    root = disturbed(np.repeat(last.root, 2)) / 2
    ancestors = np.concatenate([np.arange(n) // 2 for n in substates]).astype(np.int32)
    blocks = (np.concatenate([np.empty(0), *map(np.ravel, part)]) for part in (binary, unary))
    level = normalized(Level(rules, substates, ancestors, *blocks, root))
    factors = disturbed(np.ones(level.offsets[n_tags]))
    lexicon = Refined(grammar.lexicon, len(grammar.levels), factors)
    return grammar.replaced(levels=[*grammar.levels, level], lexicon=lexicon)


def as_members(grammar, other):
    """Their product: the grammar with a further level, which is the last one of the other."""
    end = other.levels[-1]
    nothing = np.zeros_like(end.ancestors)
    member = Level(grammar.rules, end.substates, nothing, end.binary, end.unary, end.root)
    words = Table(WORDS, [*grammar.lexicon.tables, other.lexicon.tables[-1]])
    return grammar.replaced(levels=[*grammar.levels, member], lexicon=words, members=1)


def chain_grammar(n_levels=1):
    """Sentences of any length; a word "b" may end with u."""
    grammar = grammar_from(
        ["t", "u"],
        ["X"],
        {"X -> t X": 0.4, "X -> X u": 0.2, "X -> t t": 0.1},
        {"X -> t": 0.2, "X -> u": 0.1},
        {"X": 1.0},
        {("t", "a"): 0.5, ("t", "b"): 0.5, ("u", "b"): 1.0},
    )
    for _ in range(n_levels - 1):
        grammar = refined(grammar)
    return grammar


def flat_trees(third="(TOP (t a) (u b) (t a) (. !))"):
    """Trees of whose roots some have several children."""
    lines = "(TOP (S (t a) (u b)) (. !))", "(TOP (S (t a) (u b)))", third, "(TOP (. !))"
    return [parse_tree(line) for line in lines]


@cache
def sample_trees():
    return tuple(normalize(tree) for tree in read_trees(SAMPLE))


@cache
def sample_grammar(n_levels=1, binarization="right"):
    """The grammar of the hand-made treebank."""
    if n_levels == 1:
        return treebank_grammar(binarize(sample_trees(), binarization))
    return refined(sample_grammar(n_levels - 1, binarization), seed=n_levels)


def word_scores(grammar, words, level=-1):
    """P(word | T_x), float64 (n, X)."""
    level = range(len(grammar.levels))[level]
    ids = grammar.lexicon.encode(words)
    return grammar.lexicon.scores(level, ids).astype(np.float64)


# --- NumPy ---------------------------------------------------------------------------------------
class Posteriors(NamedTuple):
    """P(sentence), and posteriors by span and substate, (n, n + 1, X), summed to symbols.

    lower, upper: of a node being the lower or the upper one of its span; same: of being both.
    Tags are upper ones.
    """

    total: float
    lower: np.ndarray
    upper: np.ndarray
    same: np.ndarray


def tensors(level):
    """P(x -> y z), P(x -> y) and P(ROOT -> x) for all substates at once."""
    n, at = level.size, level.offsets
    binary, unary, root = np.zeros((n, n, n)), np.zeros((n, n)), np.zeros(n)
    for r, (a, b, c) in enumerate(level.rules.binary):
        place = (slice(*at[x : x + 2]) for x in (a, b, c))
        binary[tuple(place)] = level.block("binary", r)
    for u, (a, b) in enumerate(level.rules.unary):
        unary[at[a] : at[a + 1], at[b] : at[b + 1]] = level.block("unary", u)
    for r, a in enumerate(level.rules.root):
        root[at[a] : at[a + 1]] = level.block("root", r)
    return binary, unary, root


def numpy_inside(level, n_tags, rows):
    """Inside scores of lower and upper nodes, (n, n + 1, X); tags are upper nodes."""
    n, tags = len(rows), int(level.offsets[n_tags])
    binary, unary, _ = tensors(level)
    lower, upper = np.zeros((2, n, n + 1, level.size))
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length
            if length == 1:
                upper[i, j, :tags] = rows[i]
                lower[i, j] = unary[:, :tags] @ rows[i]
            for k in range(i + 1, j):
                lower[i, j] += binary @ upper[k, j] @ upper[i, k]
            upper[i, j] += lower[i, j] + unary[:, tags:] @ lower[i, j, tags:]
    return lower, upper


def numpy_log_likelihood(level, n_tags, rows):
    _, upper = numpy_inside(level, n_tags, rows)
    with np.errstate(divide="ignore"):
        return float(np.log(tensors(level)[2] @ upper[0, len(rows)]))


def numpy_posteriors(level, n_tags, rows):
    n, tags = len(rows), int(level.offsets[n_tags])
    binary, unary, root = tensors(level)
    lower, upper = numpy_inside(level, n_tags, rows)
    out_lower, out_upper = np.zeros((2, n, n + 1, level.size))
    out_upper[0, n] = root
    for length in range(n, 0, -1):
        for i in range(n - length + 1):
            j = i + length
            out_lower[i, j, tags:] = (out_upper[i, j] + out_upper[i, j] @ unary)[tags:]
            if length == 1:
                out_upper[i, j, :tags] += (out_lower[i, j] @ unary)[:tags]
            for k in range(i + 1, j):
                pushed = np.einsum("abc,a->bc", binary, out_lower[i, j])
                out_upper[i, k] += pushed @ upper[k, j]
                out_upper[k, j] += upper[i, k] @ pushed
    total = float(root @ upper[0, n])

    def by_symbol(values):
        values = np.add.reduceat(values, level.offsets[:-1], axis=2)
        return values / total if total else np.zeros_like(values)

    parts = (lower * out_lower, upper * out_upper, lower * out_upper)
    return Posteriors(total, *map(by_symbol, parts))


def tree_log_probability(grammar, tree, rows, level=-1):
    """log P(tree, words), through the binarisation; rows as from `word_scores`."""
    level, symbols, rules = grammar.levels[level], grammar.symbols, grammar.rules
    data = binarize([tree], grammar.binarization, symbols.root)
    place = dict(zip(symbols.names[symbols.n_tags :], range(symbols.n_tags, 9999), strict=False))
    to = [
        symbols.tag_index[name] if i < data.symbols.n_tags else place[name]
        for i, name in enumerate(data.symbols.names)
    ]
    binary = {tuple(rule): i for i, rule in enumerate(rules.binary.tolist())}
    unary = {tuple(rule): i for i, rule in enumerate(rules.unary.tolist())}
    inside, word, shift = [], 0, 0.0
    for symbol, left, right in zip(data.symbol, data.left, data.right, strict=True):
        symbol = to[symbol]
        if left < 0:
            low, high = level.offsets[symbol : symbol + 2]
            vector = rows[word, low:high]
            word += 1
        elif right < 0:
            block = level.block("unary", unary[symbol, to[data.symbol[left]]])
            vector = block.astype(float) @ inside[left]
        else:
            rule = binary[symbol, to[data.symbol[left]], to[data.symbol[right]]]
            block = level.block("binary", rule).astype(float)
            vector = block @ inside[right] @ inside[left]
        largest = vector.max()
        shift += np.log(largest)
        inside.append(vector / largest)
    root = rules.root.tolist().index(symbol)
    return float(np.log(level.block("root", root).astype(float) @ inside[-1]) + shift)


# --- enumeration ---------------------------------------------------------------------------------
class Derived(NamedTuple):
    """A tree without substates over a span.

    total: its inside scores by substate of its top; best: those of the best derivation. parts:
    productions ("binary", rule, i, k, j), ("unary", rule, i, j), ("tag", tag, i), ("root", rule),
    and nodes ("lower", A, i, j), ("upper", A, i, j), ("same", A, i, j). nodes: (symbol, start, end)
    in pre-order, tags and intermediates among them.
    """

    total: np.ndarray
    best: np.ndarray
    parts: tuple
    nodes: tuple


class Enumeration:
    """All trees of a short sentence, their probabilities, and what decoders make of them."""

    def __init__(self, grammar, rows, level=-1, seed=None):
        self.grammar, self.seed = grammar, seed
        self.level = grammar.levels[level]
        self._weigh(list(self._trees(rows)))

    def only(self, wanted):
        """The same grammar given that the tree is one of which `wanted`, of its key, is true."""
        other = copy(self)
        other._weigh([tree for tree in self.trees if wanted(self.key(tree))])
        return other

    def _weigh(self, trees):
        self.trees = trees
        self.weights = np.array([float(tree.total) for tree in self.trees])
        self.total = self.weights.sum()
        self.q = defaultdict(float)
        for tree, weight in zip(self.trees, self.weights, strict=True):
            for part in tree.parts:
                self.q[part] += weight / self.total

    def _trees(self, rows):
        level, n, n_tags = self.level, len(rows), self.grammar.symbols.n_tags
        rules = level.rules
        upper = defaultdict(list)  # by (i, j, symbol)
        for length in range(1, n + 1):
            for i in range(n - length + 1):
                j = i + length
                lower = defaultdict(list)
                if length == 1:
                    for tag in range(n_tags):
                        row = rows[i, level.offsets[tag] : level.offsets[tag + 1]]
                        if row.any():
                            leaf = Derived(row, row, (("tag", tag, i),), ((tag, i, j),))
                            upper[i, j, tag].append(leaf)
                for r, (a, b, c) in enumerate(rules.binary.tolist()):
                    block = level.block("binary", r).astype(float)
                    for k in range(i + 1, j):
                        for x, y in product(upper[i, k, b], upper[k, j, c]):
                            weight = block * np.multiply.outer(x.best, y.best)
                            parts = (("binary", r, i, k, j), ("lower", a, i, j))
                            lower[a].append(
                                Derived(
                                    block @ y.total @ x.total,
                                    weight.max(axis=(1, 2)),
                                    parts + x.parts + y.parts,
                                    ((a, i, j), *x.nodes, *y.nodes),
                                )
                            )
                for u, (a, b) in enumerate(rules.unary.tolist()):
                    if b < n_tags:
                        parts = (("unary", u, i, j), ("lower", a, i, j))
                        lower[a] += self._above(u, parts, (a, i, j), upper[i, j, b])
                for a in list(lower):
                    parts = (("upper", a, i, j), ("same", a, i, j))
                    upper[i, j, a] += [x._replace(parts=x.parts + parts) for x in lower[a]]
                for u, (a, b) in enumerate(rules.unary.tolist()):
                    if b >= n_tags:
                        parts = (("unary", u, i, j), ("upper", a, i, j))
                        upper[i, j, a] += self._above(u, parts, (a, i, j), lower[b])
        for r, a in enumerate(rules.root.tolist()):
            root = level.block("root", r).astype(float)
            for x in upper[0, n, a]:
                parts = (("root", r), *x.parts)
                yield Derived(root @ x.total, (root * x.best).max(), parts, x.nodes)

    def _above(self, u, parts, node, trees):
        block = self.level.block("unary", u).astype(float)
        return [
            Derived(
                block @ x.total, (block * x.best).max(axis=1), parts + x.parts, (node, *x.nodes)
            )
            for x in trees
        ]

    def scores(self, decoder):
        """What each tree is worth to a decoder."""
        if decoder == "viterbi":
            with np.errstate(divide="ignore"):
                return np.array([np.log(tree.best) for tree in self.trees])
        if decoder == "labelled_recall":
            return self.labelled_recall(self.weights / self.total)
        worth = self.worth(decoder)
        return np.array([sum(worth[part] for part in tree.parts) for tree in self.trees])

    def log_probabilities(self, decoder):
        """Of each tree by what the decoder reads: the grammar, or its variational distribution."""
        if decoder == "labelled_recall":
            return self.scores("variational")
        return np.log(self.weights / self.total)

    def labelled_recall(self, p):
        """What each tree is worth to the decoder of this name if these are their probabilities."""
        symbols = self.grammar.symbols
        of_node, of_part = defaultdict(float), defaultdict(float)
        for tree, own in zip(self.trees, p, strict=True):
            for node in tree.nodes:
                of_node[node] += own
            for part in tree.parts:
                if part[0] not in ("lower", "upper"):
                    of_part[part] += own
        worth = {}
        for node, own in of_node.items():
            is_bracket = symbols.n_tags <= node[0] < symbols.n_tags + symbols.n_phrases
            worth[node] = own - BRACKET_COST if is_bracket else own
            if node[0] >= symbols.n_tags + symbols.n_phrases or node[0] == symbols.inserted_root:
                worth[node] = 0.0
        return np.array(
            [
                sum(worth[node] for node in tree.nodes)
                + LIKELIER * sum(of_part.get(part, 0.0) for part in tree.parts)
                for tree in self.trees
            ]
        )

    def worth(self, decoder):
        """What each part of a tree is worth to a decoder of productions."""
        q, rules, worth = self.q, self.level.rules, {}
        for part, value in q.items():
            kind, *place = part
            if decoder == "max_rule_sum":
                worth[part] = value
            else:
                worth[part] = np.log(max(value, 1e-30))
            if kind in ("lower", "upper", "same"):
                worth[part] = 0.0
            if decoder != "variational":
                continue
            if kind == "binary":
                rule, i, _, j = place
                worth[part] -= np.log(q["lower", int(rules.binary[rule, 0]), i, j])
            elif kind == "unary":
                rule, i, j = place
                parent, child = rules.unary[rule].tolist()
                layer = "lower" if child < self.grammar.symbols.n_tags else "upper"
                worth[part] -= np.log(q[layer, parent, i, j])
            elif kind == "same":
                worth[part] = np.log(value) - np.log(q[("upper", *place)])
            elif kind == "tag":
                worth[part] = 0.0
        return worth

    def key(self, tree):
        """The tree as the parser gives it: spans with labels, and tags."""
        symbols = self.grammar.symbols
        kept = restore(symbols, self.grammar.chains, tree.nodes)
        spans = tuple((symbols.names[a], i, j) for a, i, j, _ in kept)
        return spans, tuple(symbols.names[a] for a, _, _ in tree.nodes if a < symbols.n_tags)

    def bracket(self, symbol, i, j):
        """Posterior of a bracket."""
        parts = [self.q.get((kind, symbol, i, j), 0.0) for kind in ("upper", "lower", "same")]
        return parts[0] + parts[1] - parts[2]


def few_trees(n, least=2, most=1500, first_seed=0, **options):
    """A grammar, a sentence of n words and its enumeration, of `least` to `most` trees."""
    for seed in range(first_seed, first_seed + 200):
        grammar = random_grammar(seed, **options)
        words = sentence(seed, n)
        rows = word_scores(grammar, words)
        if least <= count_trees(grammar, rows) <= most:
            return grammar, words, Enumeration(grammar, rows, seed=seed)
    raise ValueError(f"no grammar with {least} to {most} trees")


def count_trees(grammar, rows):
    """How many trees a sentence has, in the level of the rows."""
    level = grammar.levels[-1]
    n_tags = grammar.symbols.n_tags
    ones = Level(
        level.rules,
        np.ones_like(level.substates),
        np.zeros(len(level.substates), np.int32),
        *(
            np.ones(len(rules), np.float32)
            for rules in (level.rules.binary, level.rules.unary, level.rules.root)
        ),
    )
    any_of = [rows[:, a:b].any(axis=1) for a, b in pairwise(level.offsets[: n_tags + 1])]
    return round(np.exp(numpy_log_likelihood(ones, n_tags, np.stack(any_of, axis=1))))


def key_of(parse):
    """A `Parse` as `Enumeration.key`."""
    return tuple(parse.spans), tuple(parse.tags)


def sentence(seed, n, words=WORDS):
    """Random words."""
    return [words[i] for i in np.random.default_rng(seed).integers(len(words), size=n)]


def same_parses(a, b, atol=0.0):
    """Whether two parses are equal, numbers up to atol."""
    numbers = [(a.log_probability, b.log_probability), (a.log_likelihood, b.log_likelihood)]
    return (
        key_of(a) == key_of(b)
        and (a.failed, a.root, a.levels) == (b.failed, b.root, b.levels)
        and np.allclose(a.probabilities, b.probabilities, rtol=0, atol=atol)
        and all(x == y or abs(x - y) <= atol for x, y in numbers)
    )
