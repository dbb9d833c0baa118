"""What a sigmoid belief network has learned, to be read: its sizes, and which symbols are alike.

A decision d is taken with a probability that grows with exp(W_d . mu), eq. 5 of Titov & Henderson
(2007), so symbols whose rows W_d point in one direction are expected after the same histories. What
is shown is the cosine of these rows, each less the mean row of the decisions among which it is one
of the choices, on which no probability depends.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .model import ISBN

# A symbol, and the most similar ones of its kind: ((cosine, name), ...)
Neighbours = tuple[str, list[tuple[float, str]]]


def describe(model: ISBN) -> str:
    """The sizes of a network, and how many words of each tag it knows."""
    if model.is_empty:
        return "sigmoid belief network, empty"
    symbols = model.symbols
    fused = sum(len(chain) > 1 for chain in symbols.chains)
    known = {
        tag: sum(map(bool, words)) for tag, words in zip(symbols.tags, symbols.words, strict=True)
    }
    most = sorted(known.items(), key=lambda pair: -pair[1])
    classes = f"{symbols.n_signatures:,} classes ({symbols.signature_kind})"
    return "\n".join(
        (
            f"sigmoid belief network of {symbols.n_tags} tags and {symbols.n_labels} phrases, "
            f"{fused} of them fused chains",
            f"{model.state_size} units a state, {model.means} means, {model.n_weights:,} weights; "
            f"beam {model.beam}, branching {model.branching}, {model.search} search",
            f"{sum(known.values()):,} words with their tags, unknown words of "
            f"{classes if symbols.n_signatures else 'no classes'}",
            "  tags: " + ", ".join(f"{tag} {number:,}" for tag, number in most),
        )
    )


def labels(model: ISBN) -> tuple[str, ...]:
    """The tags, then the phrases: of a fused chain the labels from above, with + between."""
    return (*model.symbols.tags, *_phrases(model))


def neighbours(model: ISBN, top: int, label: str | None = None) -> Iterator[Neighbours]:
    """For each tag and each phrase those that are most like it, the most similar first.

    top: at most so many of each. label: of this one only; if it is a tag, also of so many of its
    words ("NN/year"), those that would be the likeliest if all means were one half.
    """
    symbols, parts = model.symbols, model.parts()
    blocks, rows = symbols.output_blocks, parts["outputs"]
    for block, names in (("tags", symbols.tags), ("labels", _phrases(model))):
        chosen = [i for i, name in enumerate(names) if label in (None, name)]
        yield from _nearest(names, rows[blocks[block]], chosen, top)
    if label in symbols.tag_index:
        tag = symbols.tag_index[label]
        items, words = slice(*symbols.item_offsets[tag : tag + 2].tolist()), symbols.words[tag]
        own = rows[blocks["items"]][items]
        scores = own.sum(axis=1) / 2 + parts["output_bias"][blocks["items"]][items]
        chosen = [i for i in np.argsort(-scores, kind="stable").tolist() if words[i]][:top]
        for name, found in _nearest(words, own, chosen, top):
            yield f"{label}/{name}", found


def _nearest(
    names: tuple[str, ...], rows: NDArray[np.float32], chosen: list[int], top: int
) -> Iterator[Neighbours]:
    """Of the chosen rows the most similar others that have a name."""
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
