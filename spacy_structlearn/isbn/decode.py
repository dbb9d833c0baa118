"""Parsing with a sigmoid belief network.

Titov & Henderson (2007), section 6.2: a beam of hypotheses after each word and a best-first search
between two words, both in the kernel `_search`. After the last word the search continues until
several derivations are complete. Probabilities are relative to these derivations: that of a tree is
its share of their sum, that of a bracket the sum over the trees that contain it. Derivations of the
same tree, with a unary chain collapsed or not, are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..arrays import cumulative
from ..errors import StructlearnError
from ..parallel.batches import Workspaces, in_batches
from ..trees.parse import GivenTag, Parse, calibrate, tag_shares
from ._search import Searcher, Workspace
from .model import ISBN

# All decoders of grammars are accepted, but there are only two different ones here: the tree with
# the most expected brackets, or the most probable tree.
BY_BRACKETS = ("max_rule_sum", "labelled_recall")
DECODERS = ("viterbi", "max_rule_product", "variational", *BY_BRACKETS)
BRANCHING = 10  # maximum number of moves that are followed from each hypothesis
# Minimum probability of a useful bracket.
BRACKET_COST = 0.5
_MAX_TREES = 1_000_000
# Maximum number of states between two words, for each hypothesis of the beam. With more states, the
# best-first search is slower and hardly better: one hypothesis fills the beam with its shifts.
_POPS = 50
# The cost, in nats, of an unknown item for a word that is known with another tag. An unknown item
# does not tell which rare word it is, and the known word is one of several thousand.
_RARE_COST = 8.0
# Trees that are this many nats less likely than the best do not count for probabilities.
_MARGIN = 12.0
_BATCH_WORDS = 200

_Given = Sequence[GivenTag] | None


class DerivationParser:
    """A parser with one sigmoid belief network.

    decoder: "labelled_recall" and "max_rule_sum" return the tree with the highest sum of
        probabilities of brackets minus one half each; the other `DECODERS` the most probable tree.
    threads: number of threads for the sentences of a batch.
    beam: maximum number of hypotheses after each word.

    The default beam is that of the model. Time and memory are linear in the
    length of a sentence. Raises StructlearnError if the model is empty or a setting out of range.
    """

    def __init__(
        self, model: ISBN, *, decoder: str = "viterbi", threads: int = 1, beam: int | None = None
    ):
        if model.is_empty:
            raise StructlearnError("SL420")
        self.model = model if beam is None else model.replaced(beam=beam)
        _check("decoder", decoder, "one of " + ", ".join(DECODERS), decoder in DECODERS)
        _check("threads", threads, "1 or more", threads >= 1)
        self.decoder = decoder
        self.threads = threads
        symbols = model.symbols
        weights = model.weights.astype(np.float64)
        index = {label: i for i, label in enumerate(symbols.phrases)}
        chains = tuple(tuple(index[label] for label in chain) for chain in symbols.chains)
        root = index.get(symbols.root, -1)
        self._searcher = Searcher(model.network(), weights, chains, root)
        # Rounding can make a signature more probable than 1.
        self._signature_log_probs = np.minimum(model.signature_log_probs.astype(np.float64), 0.0)
        self._workspaces = Workspaces(Workspace, threads)

    def parse(
        self,
        sentences: Iterable[Sequence[str]],
        tags: Iterable[Sequence[GivenTag]] | None = None,
        *,
        tag_weight: float = np.inf,
        constraints: Iterable[Sequence[Any] | None] | None = None,
    ) -> list[Parse]:
        """Parse sentences.

        sentences: the words of each sentence.
        tags: a tag for each word, "" for none, or a dict from tags to probabilities. Unknown tags
            are ignored.
        tag_weight: the score of a word with another tag is lowered by this many nats, or by less if
            the other tag is probable too (`tag_shares`). Infinity: the best tag is certain.
        constraints: must be None or empty for each sentence; see `grammar.chart.decode`.

        Raises StructlearnError if tag_weight is below 0, if there is not one tag for each word, and
        if there are constraints.
        """
        pairs = _inputs(sentences, tags, tag_weight, constraints)

        def run(batch: slice) -> list[Parse]:
            return [self._parse(words, given, tag_weight) for words, given in pairs[batch]]

        batches = in_batches(
            [words for words, _ in pairs], run, words=_BATCH_WORDS, threads=self.threads
        )
        return [parse for parses in batches for parse in parses]

    def k_best(
        self,
        sentence: Sequence[str],
        k: int,
        tags: Sequence[GivenTag] | None = None,
        *,
        tag_weight: float = np.inf,
        constraints: Sequence[Any] | None = None,
    ) -> list[Parse]:
        """Return the k most probable trees that the search finds, best first.

        A wider beam finds more trees. For the arguments and errors see `parse`.
        """
        rows = None if tags is None else [tags]
        ((words, given),) = _inputs([sentence], rows, tag_weight, [constraints])
        k = min(k, _MAX_TREES)
        if not words or k < 1:
            return [self._parse(words, given, tag_weight)][: max(k, 0)]
        wanted = k
        while True:
            search = self._search(words, given, tag_weight, wanted)
            if search is None:
                return [self._fallback(words, given)]
            # Several derivations may be of the same tree.
            if len(search.trees) >= k or search.n_derivations < wanted or wanted > _MAX_TREES:
                return [self._read(search, tree) for tree in search.trees[:k]]
            wanted *= 2

    def _parse(self, words: list[str], given: _Given, tag_weight: float) -> Parse:
        if not words:
            nothing = np.empty(0, np.float32)
            return Parse([], [], [], nothing, [], root=self.model.symbols.root)
        search = self._search(words, given, tag_weight, 1)
        if search is None:
            return self._fallback(words, given)
        by_brackets = self.decoder in BY_BRACKETS
        best = max(search.trees, key=search.worth) if by_brackets else search.trees[0]
        return self._read(search, best)

    def _search(self, words: list[str], given: _Given, tag_weight: float, k: int) -> _Trees | None:
        """Return the trees that the search finds; None if a word is impossible."""
        candidates = self._candidates(words, given, tag_weight)
        if candidates is None:
            return None
        with self._workspaces.borrowed() as workspace:
            scores, *_, chosen, is_fallback, _, brackets, bounds = self._searcher.search(
                *candidates,
                beam=self.model.beam,
                branching=BRANCHING,
                k=k,
                max_pops=_POPS * self.model.beam,
                margin=_MARGIN,
                workspace=workspace,
            )
        top = scores.max()
        log_likelihood = float(top + np.log(np.exp(scores - top).sum()))
        shares = np.exp(scores - log_likelihood).tolist()
        tags = candidates[1][chosen]
        sizes = np.array([(len(words) + 1) ** 2, len(words) + 1, 1], dtype=np.int64)
        keys = (brackets @ sizes).tolist()
        trees: dict[tuple[bytes, bytes], _Tree] = {}
        of_bracket: dict[Any, float] = {}
        for i, (low, high) in enumerate(pairwise(bounds.tolist())):
            own = numbered(keys[low:high])
            for key in own:
                of_bracket[key] = of_bracket.get(key, 0.0) + shares[i]
            name = brackets[low:high].tobytes(), tags[i].tobytes()
            if name not in trees:
                trees[name] = _Tree(own, brackets[low:high], tags[i])
            trees[name].share += shares[i]
        ranked = sorted(trees.values(), key=lambda tree: -tree.share)
        return _Trees(ranked, of_bracket, log_likelihood, len(scores), is_fallback)

    def _candidates(
        self, words: list[str], given: _Given, tag_weight: float
    ) -> tuple[NDArray[Any], ...] | None:
        """Return the items of each word, as arguments of the kernel. None: a word has none."""
        symbols = self.model.symbols
        items, signatures = symbols.candidates(words)
        unknown = items == symbols.unknown
        allowed = possible = items >= 0
        is_known = (possible & ~unknown).any(axis=1, keepdims=True)
        bonus = np.where(is_known & unknown, -_RARE_COST, 0.0)
        if given is not None:
            shares = np.where(possible, tag_shares(given, symbols.tag_index), 0.0)
            best = shares.max(axis=1, keepdims=True)
            # A certain tag has no cost if the word is known with other tags.
            bonus *= 1.0 - shares
            if np.isinf(tag_weight):
                likeliest = np.arange(symbols.n_tags) == shares.argmax(axis=1)[:, None]
                allowed = np.where(best > 0, likeliest, possible)
            else:
                bonus += tag_weight * (shares - best)
        if symbols.n_signatures:
            bonus += np.where(unknown, self._signature_log_probs[:, signatures].T, 0.0)
        counts = allowed.sum(axis=1)
        if not counts.all():
            return None
        tags = np.nonzero(allowed)[1]
        return (
            cumulative(counts),
            tags.astype(np.int32),
            items[allowed],
            np.where(unknown, signatures[:, None], -1)[allowed].astype(np.int32),
            bonus[allowed],
        )

    def _read(self, search: _Trees, tree: _Tree) -> Parse:
        symbols = self.model.symbols
        phrases, names = symbols.phrases, symbols.tags
        probabilities = np.zeros(len(tree.keys))
        if not search.is_fallback:
            probabilities[:] = [search.of_bracket[key] for key in tree.keys]
        labels, starts, ends = tree.brackets.T.tolist()
        return Parse(
            [phrases[label] for label in labels],
            starts,
            ends,
            calibrate(probabilities, self.model.temperature),
            [names[tag] for tag in tree.tags.tolist()],
            log_probability=-np.inf if search.is_fallback else float(np.log(tree.share)),
            log_likelihood=search.log_likelihood,
            failed=search.is_fallback,
            root=symbols.root,
        )

    def _fallback(self, words: list[str], given: _Given) -> Parse:
        """Return a flat tree with the most probable of the given tags."""
        symbols = self.model.symbols
        shares = tag_shares([""] * len(words) if given is None else given, symbols.tag_index)
        tags = [symbols.tags[tag] for tag in shares.argmax(axis=1)]
        n = int(symbols.n_labels > 0)
        brackets = [symbols.top_label] * n, [0] * n, [len(words)] * n, np.zeros(n, np.float32)
        return Parse(*brackets, tags, failed=True, root=symbols.root)


@dataclass(eq=False)
class _Tree:
    """A tree. keys: of its brackets, in order. share: P(tree | words)."""

    keys: list[Any]
    brackets: NDArray[np.int32]
    tags: NDArray[np.int32]
    share: float = 0.0


class _Trees(NamedTuple):
    """The trees of a sentence, the most probable first. of_bracket: P(bracket), by key."""

    trees: list[_Tree]
    of_bracket: dict[Any, float]
    log_likelihood: float
    n_derivations: int
    is_fallback: bool

    def worth(self, tree: _Tree) -> float:
        """Return the expected number of correct brackets minus their costs."""
        return sum(self.of_bracket[key] - BRACKET_COST for key in tree.keys)


def _inputs(
    sentences: Iterable[Sequence[str]],
    tags: Iterable[Sequence[GivenTag]] | None,
    tag_weight: float,
    constraints: Iterable[Sequence[Any] | None] | None,
) -> list[tuple[list[str], list[GivenTag] | None]]:
    """Check the arguments of `parse`. Returns the words and the tags of each sentence."""
    if any(constraints or ()):
        raise StructlearnError("SL633")
    words = [list(sentence) for sentence in sentences]
    _check("tag_weight", tag_weight, "0 or more nats", tag_weight >= 0)
    if tags is None:
        return [(sentence, None) for sentence in words]
    given = [list(row) for row in tags]
    if [*map(len, given)] != [*map(len, words)]:
        raise StructlearnError("SL423")
    return list(zip(words, given, strict=True))


def _check(name: str, value: Any, wanted: str, sound: bool) -> None:
    if not sound:
        raise StructlearnError("SL421", name=name, value=value, wanted=wanted)


def numbered(keys: Sequence[Any]) -> list[Any]:
    """Return different keys for the same bracket repeated in a unary chain."""
    if len(set(keys)) == len(keys):
        return list(keys)
    earlier = [keys[:i].count(key) for i, key in enumerate(keys)]
    return [(key, n) if n else key for key, n in zip(keys, earlier, strict=True)]
