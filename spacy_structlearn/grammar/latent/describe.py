"""Descriptions of what a latent grammar has learned: its subcategories, their words and rules.

As in tables 1 and 2 of Petrov et al. (2006): the likeliest words of each subcategory of a tag, and
the likeliest productions of each subcategory of a phrase. Subcategories are those of the last level
of the cascade, of the first grammar of a product, numbered from 0. The numbers of a conditional
grammar (Petrov & Klein 2007) are weights: not probabilities, and not bounded by 1. For a span
grammar the latent grammar in it is described.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest
from typing import TYPE_CHECKING

import numpy as np

from .model import LatentGrammar

if TYPE_CHECKING:
    from ..spans.model import SpanGrammar

    Grammar = LatentGrammar | SpanGrammar
SMALLEST = 1e-4  # less probable words are not shown, unless all words are
_LARGEST = 1.001  # of probabilities, with rounding errors of float32
_ROUNDED = 0.1  # by which storage and pruning may change a sum of probabilities

# A subcategory ("NN-3") and its words or productions, likeliest first: (weight, text)
Subcategory = tuple[str, list[tuple[float, str]]]


def describe(grammar: Grammar) -> str:
    """Describe the size of a grammar and the number of subcategories of each symbol."""
    if grammar.is_empty:
        return "latent grammar, empty"
    base = _base(grammar)
    symbols, lexicon, level = base.symbols, base.lexicon, base.levels[base.depth]
    members = f", first of a product of {base.members + 1}" if base.members else ""
    lines = [
        f"latent grammar of {symbols.n_tags} tags and {symbols.n_phrases} phrases, "
        f"{base.depth} rounds of splitting{members}",
        f"{level.size:,} subcategories, {level.n_productions:,} productions, "
        f"{len(lexicon.words):,} words, {len(lexicon.signatures):,} classes of unknown words "
        f"({lexicon.signature})",
    ]
    if _is_conditional(base):
        lines.append("conditional: beside words and productions are weights, no probabilities")
    if not isinstance(grammar, LatentGrammar):
        lines += grammar.description()
    first = 0
    for what, names in (("tags", symbols.tags), ("phrases", symbols.phrases)):
        sizes = level.substates[first : first + len(names)].tolist()
        first += len(names)
        most = sorted(zip(names, sizes, strict=True), key=lambda pair: -pair[1])
        lines.append(f"  {what}: " + ", ".join(f"{name} {size}" for name, size in most))
    return "\n".join(lines)


def _base(grammar: Grammar) -> LatentGrammar:
    """The latent grammar of a scored grammar."""
    return grammar if isinstance(grammar, LatentGrammar) else grammar.grammar


def _is_conditional(base: LatentGrammar) -> bool:
    """Whether a weight of the last level is above 1, or those of a subcategory do not sum to 1."""
    level, words = base.levels[base.depth], base.lexicon.levels[base.depth]
    arrays = (level.entries.values, level.unary, level.root, words.own, words.rows)
    if any(array.max(initial=0) > _LARGEST for array in arrays):
        return True
    sums = level.sums()
    return bool((np.abs(sums[sums > 0] - 1) > _ROUNDED).any())


def labels(grammar: Grammar) -> tuple[str, ...]:
    """The tags, then the phrases."""
    return grammar.symbols.tags + grammar.symbols.phrases


def subcategories(grammar: Grammar, label: str, top: int) -> Iterator[Subcategory]:
    """Yield the subcategories of a tag, of a phrase or of both, with `top` words or productions."""
    base, symbols = _base(grammar), grammar.symbols
    if label in symbols.tag_index:
        yield from _words(base, symbols.tag_index[label], top)
    if label in symbols.phrase_index:
        yield from _productions(base, symbols.phrase_index[label], top)


def _words(grammar: LatentGrammar, tag: int, top: int) -> Iterator[Subcategory]:
    """P(word | subcategory) of known words, or their weights."""
    number, lexicon = grammar.depth, grammar.lexicon
    level, name = grammar.levels[number], grammar.symbols.tags[tag]
    own = slice(*level.offsets[tag : tag + 2].tolist())
    # A thousand words at a time, as rows are wide: they have all subcategories of all tags.
    words = np.arange(len(lexicon.words), dtype=np.int32)
    columns = [
        lexicon.scores(number, words[start : start + 1000])[:, own]
        for start in range(0, len(words), 1000)
    ]
    for index, probabilities in enumerate(np.concatenate(columns).T):
        likeliest = np.argsort(-probabilities, kind="stable")[:top]
        # All weights of a tag may be small if those of the rules that lead to it are large.
        most = float(probabilities.max(initial=0.0))
        least = SMALLEST if most >= SMALLEST else SMALLEST * most
        pairs = [(float(probabilities[i]), lexicon.words[i]) for i in likeliest]
        yield f"{name}-{index}", [pair for pair in pairs if pair[0] >= least and pair[0] > 0]


def _productions(grammar: LatentGrammar, phrase: int, top: int) -> Iterator[Subcategory]:
    """P(production | subcategory), or weights; @ marks an intermediate symbol."""
    level, names = grammar.levels[grammar.depth], grammar.symbols.names
    found: list[list[tuple[float, str]]] = [[] for _ in range(int(level.substates[phrase]))]
    weights = {"binary": level.entries.values, "unary": level.unary[level.unary != 0]}
    for kind, values in weights.items():
        rule, substates = level.entry_substates(kind)
        symbols = getattr(grammar.rules, kind)[rule]
        for i in np.flatnonzero(symbols[:, 0] == phrase).tolist():
            children = zip(symbols[i, 1:].tolist(), substates[i, 1:].tolist(), strict=True)
            text = " ".join(f"{names[child]}-{index}" for child, index in children)
            found[substates[i, 0]].append((float(values[i]), text))
    for index, pairs in enumerate(found):
        yield f"{names[phrase]}-{index}", nlargest(top, pairs)
