"""A plain search for the tests of the kernel: all alternatives of a state, its means in NumPy."""

import heapq
from typing import NamedTuple

import numpy as np
from isbn.networks import Move, PlainNetwork, make_symbols, random_leaf, random_weights

from spacy_structlearn.isbn.symbols import ATTACH, MODIFY, PROJECT, SHIFT


def random_network(rng, n_labels=3, n_tags=3, size=4, scale=0.8, mean_field=False, **symbols):
    """A network for symbols with few words."""
    own = make_symbols(n_labels, rng.integers(1, 5, n_tags).tolist(), **symbols)
    return PlainNetwork(own, size, random_weights(rng, own, size, scale), mean_field)


class Sentence(NamedTuple):
    """The candidates of the words of a sentence, as the kernel takes them."""

    offsets: np.ndarray
    tags: np.ndarray
    items: np.ndarray
    signatures: np.ndarray
    bonus: np.ndarray


def sentence(symbols, n, rng, most=3):
    """A random one of n words with up to `most` candidates each."""
    sizes = np.minimum(rng.integers(1, most + 1, n), symbols.n_tags)
    tags = [tag for size in sizes for tag in sorted(rng.permutation(symbols.n_tags)[:size])]
    leaves = np.array([random_leaf(rng, symbols, tag) for tag in tags], dtype=np.int32)
    columns = map(np.ascontiguousarray, leaves.T)
    return Sentence(np.cumsum([0, *sizes]), *columns, -rng.exponential(1, len(tags)))


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


def words_of(network, sentence):
    """The number of each word, and of what comes after the last; whether it is the end."""
    n = len(sentence.offsets) - 1
    if not network.symbols.n_labels:
        n -= 1
    return [(word, word == n) for word in range(n + 1)]


def most_states(sentence, beam, k, max_pops, is_last):
    """How many states there may be before or after a word."""
    return max_pops + (max(beam, k) * (len(sentence.offsets) - 1) if is_last else 0)
