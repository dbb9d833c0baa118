"""A plain search for the tests of the kernel: all alternatives of a state, its means in NumPy."""

import heapq
from typing import NamedTuple

import numpy as np
from isbn.automaton import legal, replay
from isbn.networks import LIMIT, Decision, newton, parts, shapes, sigma, softmax

from spacy_structlearn.isbn.derivation import LeftCornerDerivations
from spacy_structlearn.isbn.symbols import ATTACH, MODIFY, PROJECT, SHIFT, DerivationSymbols


def symbols(n_labels=3, n_tags=3, most_words=3, n_signatures=0, max_projects=2, seed=0):
    """Random symbols; with three labels or more one is a chain, with four or more one the root."""
    rng = np.random.default_rng(seed)
    names = ["A", "B", "TOP", "C", "D", "E"]
    labels = sorted(names[: max(n_labels - (n_labels > 2), 0)])
    chains = [(label,) for label in labels]
    if n_labels > 2:
        chains.append(("B", "A"))
    words = [
        (
            "",
            *(f"w{x}" for x in sorted(rng.permutation(most_words)[: rng.integers(most_words + 1)])),
        )
        for _ in range(n_tags)
    ]
    return DerivationSymbols(
        tags=tuple(f"t{i}" for i in range(n_tags)),
        chains=tuple(sorted(chains)),
        words=tuple(words),
        signatures=("", *(f"s{i}" for i in range(1, n_signatures))) if n_signatures else (),
        signature_kind="shape" if n_signatures else "",
        max_projects=max_projects if n_labels else 0,
    )


class Move(NamedTuple):
    """A move as a hypothesis keeps it. leaf: tag, item, signature of a shift."""

    move: int
    label: int = -1
    leaf: tuple[int, int, int] | None = None
    candidate: int = -1


class Network:
    """The equations in NumPy, one state at a time. weights: of all parts, float64."""

    def __init__(self, symbols, size, weights, mean_field=False, features="abcd"):
        self.symbols, self.size, self.weights = symbols, size, np.asarray(weights)
        self.mean_field, self.features = mean_field, features
        self.parts = parts(symbols, size, self.weights)
        self.known = {}

    def legal(self, moves):
        return legal(self.symbols, [move.move for move in moves])

    def decisions(self, moves, move):
        """The elementary decisions of a move after some others."""
        offsets, mask = self.symbols.item_offsets, self.legal(moves)
        blocks = {name: block.start for name, block in self.symbols.output_blocks.items()}
        made = [(np.flatnonzero(mask), int(mask[: move.move].sum()))]
        if move.move == PROJECT:
            made.append((blocks["labels"] + np.arange(self.symbols.n_labels), move.label))
        if move.move == SHIFT:
            tag, item, _ = move.leaf
            made.append((blocks["tags"] + np.arange(self.symbols.n_tags), tag))
            own = np.arange(*offsets[tag : tag + 2])
            made.append((blocks["items"] + own, item - offsets[tag]))
        rows, biases = self.parts["outputs"], self.parts["output_bias"]
        return [Decision(rows[own], biases[own], chosen) for own, chosen in made]

    def stages(self, moves, move):
        """phi before each elementary decision of a move after some, and after the last."""
        phis = [self.prior(moves)]
        for decision in self.decisions(moves, move):
            phis.append(newton(phis[-1], [decision]) if self.mean_field else phis[-1])
        return phis

    def prior(self, moves):
        """phi of the state after some moves, before its first decision."""
        if moves not in self.known:
            dummy = Move(int(np.argmax(self.legal(moves))), 0, (0, 0, -1))
            states = replay(self.symbols, derivations([(*moves, dummy)]), 0, self.features)
            eta = self.parts["bias"] + self.parts["inputs"][list(states.rows[-1])].sum(axis=0)
            for matrix, state in zip(self.parts["recurrent"], states.relations[-1], strict=True):
                if state >= 0:
                    eta = eta + matrix @ sigma(self.stages(moves[:state], moves[state])[-1])
            self.known[moves] = np.clip(eta, -LIMIT, LIMIT)
        return self.known[moves]

    def log_probability(self, moves, move):
        """log P of a move after some."""
        total = 0.0
        stages, made = self.stages(moves, move), self.decisions(moves, move)
        for phi, (rows, biases, chosen) in zip(stages, made, strict=False):
            total += np.log(softmax(rows @ sigma(phi) + biases)[chosen])
        return total


def derivations(every):
    """Sequences of moves as arrays."""
    leaves = [[move.leaf for move in moves if move.leaf] for moves in every]
    flat = np.array([x for own in leaves for x in own], dtype=np.int32).reshape(-1, 3)
    return LeftCornerDerivations(
        np.cumsum([0, *map(len, every)], dtype=np.int64),
        np.cumsum([0, *map(len, leaves)], dtype=np.int64),
        np.array([move.move for moves in every for move in moves], dtype=np.int8),
        np.array([move.label for moves in every for move in moves], dtype=np.int32),
        *(np.ascontiguousarray(column) for column in flat.T),
    )


def weights_of(symbols, size, rng, scale=0.8):
    """Random ones."""
    drawn = [rng.normal(0, scale, shape) for shape in shapes(symbols, size).values()]
    return np.concatenate(drawn, axis=None)


class Sentence(NamedTuple):
    """The candidates of the words of a sentence, as the kernel takes them."""

    offsets: np.ndarray
    tags: np.ndarray
    items: np.ndarray
    signatures: np.ndarray
    bonus: np.ndarray


def sentence(symbols, n, rng, most=3, bonus=True):
    """A random one of n words with up to `most` candidates each."""
    sizes = rng.integers(1, most + 1, n)
    tags = np.concatenate(
        [np.sort(rng.permutation(symbols.n_tags)[:size]) for size in sizes]
    ).astype(np.int32)
    firsts, ends = symbols.item_offsets[tags], symbols.item_offsets[tags + 1]
    items = rng.integers(firsts, ends).astype(np.int32)
    signatures = np.full(len(tags), -1, dtype=np.int32)
    unknown = items == firsts
    if symbols.n_signatures:
        signatures[unknown] = rng.integers(0, symbols.n_signatures, unknown.sum())
    sizes = [min(size, symbols.n_tags) for size in sizes]
    more = -rng.exponential(1, len(tags)) if bonus else np.zeros(len(tags))
    return Sentence(np.cumsum([0, *sizes], dtype=np.int64), tags, items, signatures, more)


def alternatives(network, moves, sentence):
    """(log P and bonus, move) of all moves that may follow, best first."""
    symbols, n = network.symbols, len(sentence.offsets) - 1
    n_shifted = sum(move.move == SHIFT for move in moves)
    mask = network.legal(moves)
    found = []
    if mask[SHIFT] and n_shifted < n:
        for c in range(*sentence.offsets[n_shifted : n_shifted + 2].tolist()):
            leaf = sentence.tags[c], sentence.items[c], sentence.signatures[c]
            move = Move(SHIFT, -1, tuple(int(x) for x in leaf), c)
            found.append((network.log_probability(moves, move) + sentence.bonus[c], move))
    if mask[PROJECT]:
        for label in range(symbols.n_labels):
            move = Move(PROJECT, label)
            found.append((network.log_probability(moves, move), move))
    for kind in (ATTACH, MODIFY):
        if mask[kind] and (n_shifted == n or not is_complete(network, (*moves, Move(kind)))):
            found.append((network.log_probability(moves, Move(kind)), Move(kind)))
    return sorted(found, key=lambda x: -x[0])


def is_complete(network, moves):
    return bool(moves) and not network.legal(moves).any()


def ends_word(network, moves, word):
    """Whether a hypothesis has shifted word `word`, or is complete."""
    return sum(move.move == SHIFT for move in moves) > word or is_complete(network, moves)


def search(network, sentence, beam, branching, k, max_pops=10**9, margin=np.inf):
    """[(score, moves)], best first, and the number of states."""
    found, n_states = [(0.0, ())], 0
    for word, is_last in words_of(network, sentence):
        # Last: which of the alternatives of its state an entry is, -1 for the first ones.
        limit = most_states(sentence, beam, k, max_pops, is_last)
        agenda = [(-score, i, moves, -1) for i, (score, moves) in enumerate(found)]
        order, pops, found = len(agenda), 0, []
        while agenda and len(found) < (max(beam, k) if is_last else beam):
            far = found and -agenda[0][0] <= found[0][0] - margin
            if is_last and len(found) >= k and (len(found) >= beam or far):
                break
            score, _, moves, rank = heapq.heappop(agenda)
            ends = ends_word(network, moves, word)
            if pops >= limit:
                # Of the states seen so far, whatever ends.
                if ends:
                    found.append((-score, moves))
                continue
            if rank >= branching:
                continue
            if ends:
                found.append((-score, moves))
                continue
            pops += 1
            for rank, (more, move) in enumerate(alternatives(network, moves, sentence)):
                heapq.heappush(agenda, (score - more, order, (*moves, move), rank))
                order += 1
        n_states += pops
    return found, n_states


def synchronous_search(network, sentence, beam, branching, k, max_pops=10**9, margin=np.inf):
    """As `search`, with hypotheses that advance together."""
    found, n_states = [(0.0, ())], 0
    for word, is_last in words_of(network, sentence):
        most = max(beam, k) if is_last else beam
        limit = most_states(sentence, beam, k, max_pops, is_last)
        layer, found, pops = found, [], 0
        while layer and not (pops >= limit and (found or is_last)):
            pops += len(layer)
            every = [
                (score + more, (*moves, move), rank)
                for score, moves in layer
                for rank, (more, move) in enumerate(alternatives(network, moves, sentence))
            ]
            layer, ended = [], []
            for score, moves, rank in sorted(every, key=lambda x: -x[0]):
                behind = len(found) == most and score <= found[-1][0]
                if is_last and found and len(found) >= k:
                    behind |= score <= found[0][0] - margin
                if behind or len(ended) == most:
                    break
                ends, full = ends_word(network, moves, word), len(layer) + len(ended) >= 2 * most
                if ends and (full or rank < branching):
                    ended.append((score, moves))
                elif not full and rank < branching:
                    layer.append((score, moves))
            found = sorted(found + ended, key=lambda x: -x[0])[:most]
        n_states += pops
    return found, n_states


def words_of(network, sentence):
    """The number of each word, and of what comes after the last; whether it is the end."""
    n = len(sentence.offsets) - 1
    if not network.symbols.n_labels:
        n -= 1
    return [(word, word == n) for word in range(n + 1)]


def most_states(sentence, beam, k, max_pops, is_last):
    """How many states there may be before or after a word."""
    return max_pops + (max(beam, k) * (len(sentence.offsets) - 1) if is_last else 0)


def enumerate_all(network, sentence):
    """Every derivation, [(score, moves)], best first."""
    found, open_ = [], [(0.0, ())]
    last = words_of(network, sentence)[-1][0]
    while open_:
        score, moves = open_.pop()
        for more, move in alternatives(network, moves, sentence):
            longer = (*moves, move)
            (found if ends_word(network, longer, last) else open_).append((score + more, longer))
    return sorted(found, key=lambda x: -x[0])
