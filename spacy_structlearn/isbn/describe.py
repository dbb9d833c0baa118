"""Descriptions of sigmoid belief networks: their sizes and similar symbols.

The probability of a decision d is proportional to exp(W_d . mu), eq. 5 of Titov & Henderson (2007),
so symbols with similar rows W_d are expected after the same histories. The similarity is the cosine
of these rows after their mean is subtracted, which does not change the probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .model import ISBN

# A symbol, and the most similar ones of its kind: ((cosine, name), ...)
Neighbours = tuple[str, list[tuple[float, str]]]


def describe(model: ISBN) -> str:
    """Describe the sizes of a network and the number of known words of each tag."""
    if model.is_empty:
        return "sigmoid belief network, empty"
    symbols = model.symbols
    collapsed = sum(len(chain) > 1 for chain in symbols.chains)
    n_words = {
        tag: sum(map(bool, words)) for tag, words in zip(symbols.tags, symbols.words, strict=True)
    }
    most = sorted(n_words.items(), key=lambda pair: -pair[1])
    classes = f"{symbols.n_signatures:,} classes ({symbols.signature_kind})"
    return "\n".join(
        (
            f"sigmoid belief network of {symbols.n_tags} tags and {symbols.n_labels} phrases, "
            f"{collapsed} of them collapsed chains",
            f"{model.state_size} units a state, {model.means} means, {model.n_weights:,} weights; "
            f"beam {model.beam}, branching {model.branching}, {model.search} search",
            f"{sum(n_words.values()):,} words with their tags, unknown words of "
            f"{classes if symbols.n_signatures else 'no classes'}",
            "  tags: " + ", ".join(f"{tag} {number:,}" for tag, number in most),
        )
    )


def labels(model: ISBN) -> tuple[str, ...]:
    """Return the tags, then the phrases; collapsed chains are joined by +, topmost label first."""
    return (*model.symbols.tags, *_phrases(model))


def neighbours(model: ISBN, top: int, label: str | None = None) -> Iterator[Neighbours]:
    """Yield the most similar tags of each tag, and the most similar phrases of each phrase.

    top: the maximum number of neighbours.
    label: only this tag or phrase. For a tag, neighbours of its `top` likeliest words ("NN/year")
        are included, assuming that all means are one half.
    """
    symbols, parts = model.symbols, model.parts()
    blocks, rows = symbols.output_blocks, parts["outputs"]
    for block, names in (("tags", symbols.tags), ("labels", _phrases(model))):
        chosen = [i for i, name in enumerate(names) if label in (None, name)]
        yield from _nearest(names, rows[blocks[block]], chosen, top)
    if label in symbols.tag_index:
        tag = symbols.tag_index[label]
        items, words = slice(*symbols.item_offsets[tag : tag + 2].tolist()), symbols.words[tag]
        word_rows = rows[blocks["items"]][items]
        scores = word_rows.sum(axis=1) / 2 + parts["output_bias"][blocks["items"]][items]
        chosen = [i for i in np.argsort(-scores, kind="stable").tolist() if words[i]][:top]
        for name, nearest in _nearest(words, word_rows, chosen, top):
            yield f"{label}/{name}", nearest


def _nearest(
    names: tuple[str, ...], rows: NDArray[np.float32], chosen: list[int], top: int
) -> Iterator[Neighbours]:
    """Yield the named rows most similar to each of the chosen rows."""
    if not chosen:
        return
    centred = rows - rows.mean(axis=0, dtype=np.float64)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    units = centred / np.maximum(lengths, np.finfo(np.float32).tiny)
    for index in chosen:
        cosines = units @ units[index]
        ranked = np.argsort(-cosines, kind="stable").tolist()
        others = [i for i in ranked if i != index and names[i]][:top]
        yield names[index], [(float(cosines[i]), names[i]) for i in others]


def _phrases(model: ISBN) -> tuple[str, ...]:
    return tuple("+".join(chain) for chain in model.symbols.chains)
