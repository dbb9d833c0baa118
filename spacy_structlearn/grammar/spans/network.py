"""A small network that scores symbols over spans: the layers of a neural CRF over trees.

Durrett & Klein (2015), "Neural CRF parsing", and Stern, Andreas & Klein (2017): a symbol over a
span is scored from vectors of the words at both ends, inside and outside, by one hidden layer, and
a tag from that of its word. A word is the row that other layers give for it and the posteriors of
its tags by the grammar, which are inputs only. What is linear in the words is computed once a word,
and the hidden layer once for each span that the forests have.

The last layers begin with zeros, so that the trees are those of the grammar until something is
learned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from thinc.api import (
    Adam,
    Model,
    NumpyOps,
    Ops,
    Optimizer,
    glorot_uniform_init,
    set_dropout_rate,
)
from thinc.types import Floats1d, Floats2d

from ... import serialization
from ...errors import StructlearnError
from ..chart.hypergraph import Floats, Hypergraphs
from ..treebank.symbols import Symbols
from . import features as span_features
from .settings import NeuralGrammarSettings, SpanScoreSettings

InT = tuple[list[Floats2d], Hypergraphs]

# The first length of each class but the first, in words.
LENGTHS = tuple(longest + 1 for longest in span_features.LENGTHS)
# The words that a span is scored by, as blocks of the columns of "W_span": the one before it, its
# first and last, the one after it, and the mean of those in it.
BEFORE, LAST, FIRST, AFTER, MEAN = range(5)


# --- the layer ------------------------------------------------------------------------------------
def span_scorer(
    hidden_width: int,
    *,
    width: int | None = None,
    n_tags: int | None = None,
    n_symbols: int | None = None,
    dropout: float = 0.0,
) -> Model[InT, Floats1d]:
    """A layer that gives a score for each item of forests, in nats.

    Its input are rows, for each sentence an array of a row a word, and the forests. With x a word's
    row and posteriors, the span from word i to word j, exclusive, and its symbol X have the score

        h = relu(A x[i] + B x[j-1] + C x[i-1] + D x[j] + E mean(x[i:j]) + length(j - i) + b)
        s(X, i, j) = (W h)_X + b_X        s(T, i) = (U x[i])_T for tags

    Before the first word and after the last one stand trained rows.
    hidden_width: of h. width: of the rows. n_tags, n_symbols: of the grammar. What is None is known
    when the layer is initialized. dropout: of h, in training.
    """
    return Model(
        "span_scorer",
        _forward,
        init=_initialize,
        dims={"nI": width, "nH": hidden_width, "nT": n_tags, "nO": n_symbols},
        params=dict.fromkeys(_shapes(0, 0, 0, 0)),
        attrs={"dropout_rate": dropout},
    )


def _shapes(width: int, hidden: int, n_tags: int, n_symbols: int) -> dict[str, tuple[int, ...]]:
    word = width + n_tags
    return {
        "W_span": (word, 5 * hidden),
        "edges": (2, word),
        "lengths": (len(LENGTHS) + 1, hidden),
        "b_span": (hidden,),
        "W_phrase": (hidden, n_symbols - n_tags),
        "b_phrase": (n_symbols - n_tags,),
        "W_tag": (word, n_tags),
    }


def _initialize(model: Model[InT, Floats1d], X: Any = None, Y: Any = None) -> None:
    hidden = model.get_dim("nH")
    shapes = _shapes(model.get_dim("nI"), hidden, model.get_dim("nT"), model.get_dim("nO"))
    for name, shape in shapes.items():
        model.set_param(name, model.ops.alloc(shape))
    word = shapes["edges"][1]
    blocks = [glorot_uniform_init(model.ops, (word, hidden)) for _ in range(5)]
    model.set_param("W_span", model.ops.xp.concatenate(blocks, axis=1))
    model.set_param("edges", glorot_uniform_init(model.ops, (2, word)))


@dataclass(frozen=True)
class _Places:
    """Where the items of some forests are in the text of their sentences, put end to end.

    There is a boundary before and after each word: one more than words in each sentence, and with
    a word more at both its ends it stands between two. words: int64 (n), among these padded words.
    left, right: int64 (n_boundaries), padded words too. sentences: int64 (s + 1), the first
    boundary of each sentence. starts, ends: int32 (c), the boundaries of each span; widths: (c), in
    words, and lengths: int32 (c), their classes. phrases: int64 (p), those of the items that are
    phrases, with their spans (0 to c) and symbols (0 for the first phrase); tags: int64 (t), those
    that are tags, with their words and symbols.
    """

    n_words: int
    words: NDArray[np.int64]
    left: NDArray[np.int64]
    sentences: NDArray[np.int64]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    lengths: NDArray[np.int32]
    phrases: NDArray[np.int64]
    span_of: NDArray[np.int64]
    phrase_symbols: NDArray[np.int64]
    tags: NDArray[np.int64]
    word_of: NDArray[np.int64]
    tag_symbols: NDArray[np.int64]

    @classmethod
    def of(cls, graphs: Hypergraphs, n_tags: int) -> _Places:
        n_words = graphs.n_words.astype(np.int64)
        sentence = np.arange(len(graphs))
        boundaries = np.concatenate([np.zeros(1, np.int64), np.cumsum(n_words + 1)])
        of_word = np.repeat(sentence, n_words)
        symbol, start, end = graphs.items.astype(np.int64).T
        of_item = graphs.item_sentences
        start, end = boundaries[of_item] + start, boundaries[of_item] + end
        is_tag = symbol < n_tags
        phrases, tags = np.flatnonzero(~is_tag), np.flatnonzero(is_tag)
        n = int(boundaries[-1]) + 1
        spans, span_of = np.unique(start[phrases] * n + end[phrases], return_inverse=True)
        starts, ends = spans // n, spans % n
        return cls(
            len(of_word),
            np.arange(len(of_word)) + 2 * of_word + 1,
            np.arange(n - 1) + np.repeat(sentence, n_words + 1),
            boundaries,
            starts.astype(np.int32),
            ends.astype(np.int32),
            np.digitize(ends - starts, LENGTHS).astype(np.int32),
            phrases,
            span_of,
            symbol[phrases] - n_tags,
            tags,
            start[tags] - of_item[tags],
            symbol[tags],
        )

    @property
    def right(self) -> NDArray[np.int64]:
        """See above."""
        return self.left + 1

    @property
    def widths(self) -> NDArray[np.int32]:
        """See above."""
        return self.ends - self.starts

    def on(self, ops: Ops) -> _Places:
        """The same on the device of the layer."""
        arrays = {part.name: getattr(self, part.name) for part in fields(self)}
        del arrays["n_words"]
        return replace(self, **{name: ops.asarray(array) for name, array in arrays.items()})


def tag_posteriors(graphs: Hypergraphs, n_tags: int, places: _Places | None = None) -> Floats:
    """P(tag | words) of each word by the grammar alone: float64 (words of all, n_tags).

    places: of the forests, if they are known.
    """
    places = places or _Places.of(graphs, n_tags)
    posteriors = graphs.item_posteriors(graphs.inside_outside(graphs.scores)[1])
    table = np.zeros((places.n_words, n_tags))
    table[places.word_of, places.tag_symbols] = posteriors[places.tags]
    return table


def _forward(
    model: Model[InT, Floats1d], inputs: InT, is_train: bool
) -> tuple[Floats1d, Callable[[Floats1d], InT]]:
    rows, graphs = inputs
    ops = model.ops
    hidden, width, n_tags = (model.get_dim(name) for name in ("nH", "nI", "nT"))
    _check(rows, graphs, width, n_tags, model.get_dim("nO"))
    get = model.get_param
    at = _Places.of(graphs, n_tags)
    n_sentences = len(graphs)
    edges = get("edges")
    posteriors = ops.asarray(tag_posteriors(graphs, n_tags, at), dtype=edges.dtype)
    at = at.on(ops)

    # Each word, and what stands before and after each sentence.
    padded = ops.alloc((at.n_words + 2 * n_sentences, width + n_tags), dtype=edges.dtype)
    before, after = at.left[at.sentences[:-1]], at.right[at.sentences[1:] - 1]
    if n_sentences:
        padded[at.words, :width] = ops.xp.concatenate(rows)
        padded[at.words, width:] = posteriors
        padded[before], padded[after] = edges[0], edges[1]
    parts = ops.gemm(padded, get("W_span"))
    blocks = [slice(i * hidden, (i + 1) * hidden) for i in range(5)]
    # What a boundary gives to the spans that begin there, and to those that end there.
    first = parts[at.left, blocks[BEFORE]] + parts[at.right, blocks[FIRST]]
    last = parts[at.left, blocks[LAST]] + parts[at.right, blocks[AFTER]]
    # The words before a boundary, added up in each sentence by itself: its scores are the same
    # whatever the others are.
    sums = ops.alloc(first.shape, dtype=first.dtype)
    for begin, end in pairwise(at.sentences.tolist()):
        inside = parts[at.right[begin : end - 1], blocks[MEAN]]
        sums[begin + 1 : end] = inside.cumsum(axis=0)
    per_word = ops.asarray(1.0 / at.widths[:, None], dtype=edges.dtype)
    h = first[at.starts] + last[at.ends] + (sums[at.ends] - sums[at.starts]) * per_word
    h += get("lengths")[at.lengths] + get("b_span")
    relu = ops.relu(h, inplace=True)
    mask = None
    rate = model.attrs["dropout_rate"]
    if is_train and rate:
        mask = ops.get_dropout_mask(relu.shape, rate).astype(relu.dtype)
        relu = relu * mask
    phrase = ops.gemm(relu, get("W_phrase")) + get("b_phrase")
    tag = ops.gemm(padded, get("W_tag"))[at.words]
    scores = ops.alloc((len(graphs.items),), dtype=edges.dtype)
    scores[at.phrases] = phrase[at.span_of, at.phrase_symbols]
    scores[at.tags] = tag[at.word_of, at.tag_symbols]

    def backprop(d_scores: Floats1d) -> InT:
        d_phrase = ops.alloc(phrase.shape, dtype=edges.dtype)
        d_phrase[at.span_of, at.phrase_symbols] = d_scores[at.phrases]
        d_tag = ops.alloc((len(padded), n_tags), dtype=edges.dtype)
        d_tag[at.words[at.word_of], at.tag_symbols] = d_scores[at.tags]
        model.inc_grad("W_phrase", ops.gemm(relu, d_phrase, trans1=True))
        model.inc_grad("b_phrase", d_phrase.sum(axis=0))
        model.inc_grad("W_tag", ops.gemm(padded, d_tag, trans1=True))
        d_h = ops.gemm(d_phrase, get("W_phrase"), trans2=True)
        if mask is not None:
            d_h *= mask
        d_h *= relu > 0
        model.inc_grad("b_span", d_h.sum(axis=0))
        model.inc_grad("lengths", _added(ops, len(LENGTHS) + 1, at.lengths, d_h))
        d_first = _added(ops, len(first), at.starts, d_h)
        d_last = _added(ops, len(first), at.ends, d_h)
        d_mean = d_h * per_word
        d_sums = _added(ops, len(first), at.ends, d_mean)
        d_sums -= _added(ops, len(first), at.starts, d_mean)
        d_parts = ops.alloc(parts.shape, dtype=edges.dtype)
        # No two boundaries have one padded word to their left, nor to their right.
        for block, word, gradient in (
            (BEFORE, at.left, d_first),
            (FIRST, at.right, d_first),
            (LAST, at.left, d_last),
            (AFTER, at.right, d_last),
        ):
            d_parts[word, blocks[block]] = gradient
        for begin, end in pairwise(at.sentences.tolist()):
            later = d_sums[begin + 1 : end][::-1].cumsum(axis=0)[::-1]
            d_parts[at.right[begin : end - 1], blocks[MEAN]] = later
        model.inc_grad("W_span", ops.gemm(padded, d_parts, trans1=True))
        d_padded = ops.gemm(d_parts, get("W_span"), trans2=True)
        d_padded += ops.gemm(d_tag, get("W_tag"), trans2=True)
        ends = [d_padded[before].sum(axis=0), d_padded[after].sum(axis=0)]
        model.inc_grad("edges", ops.xp.stack(ends))
        d_rows = d_padded[at.words, :width]
        counts = np.cumsum(graphs.n_words)[:-1].tolist()
        return (list(ops.xp.split(d_rows, counts)) if n_sentences else []), graphs

    return cast(Floats1d, scores), backprop


def _added(ops: Ops, n: int, places: NDArray[np.int32], rows: Floats2d) -> Floats2d:
    """(n, width), at each place the sum of the rows that belong there."""
    table = ops.alloc((n, rows.shape[1]), dtype=rows.dtype)
    ops.scatter_add(table, ops.asarray(places), rows)
    return table


def _check(
    rows: Sequence[Floats2d], graphs: Hypergraphs, width: int, n_tags: int, n_symbols: int
) -> None:
    """Raise StructlearnError for what is not of the sizes of the layer."""
    found, wanted = [row.shape for row in rows], [(n, width) for n in graphs.n_words.tolist()]
    if found != wanted:
        raise StructlearnError("SL438", found=str(found[:5]), wanted=str(wanted[:5]))
    most = int(graphs.items[:, 0].max(initial=-1))
    if most >= n_symbols:
        raise StructlearnError("SL439", found=most + 1, wanted=f"{n_tags} tags of {n_symbols}")


# --- the network in training ----------------------------------------------------------------------
class SpanNetwork:
    """A scorer of symbols over spans, to be trained: layers that make rows of tokens, and a layer
    that makes scores of these. See `NetworkScorer` in `span_grammar.py`.

    tok2vec: any thinc layers from a list of tokens, a sentence each, to a list of arrays with a row
    for each word. scorer: a `span_scorer`. Both are changed in place; where they draw random
    numbers of NumPy, training is deterministic. After it they have the moving averages of their
    parameters.
    """

    def __init__(self, tok2vec: Model[list[Any], list[Floats2d]], scorer: Model[InT, Floats1d]):
        self.tok2vec = tok2vec
        self.scorer = scorer
        self._forget()

    def _forget(self) -> None:
        """Leave the training that was under way."""
        self._settings = NeuralGrammarSettings()
        self._optimizer: Optimizer | None = None
        self._n_updates = 0
        self._start: dict[str, Any] | None = None
        self._ops: list[tuple[Model, Ops]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Training never travels.
        return {"tok2vec": self.tok2vec, "scorer": self.scorer}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    @property
    def layers(self) -> list[tuple[str, list[str]]]:
        """The names of the layers and of their parameters."""
        return [(node.name, sorted(node.param_names)) for node in self._nodes]

    @property
    def n_parameters(self) -> int:
        """Numbers in all layers."""
        return sum(array.size for array in self._parameters().values())

    # --- parameters ---------------------------------------------------------------------------
    @property
    def is_silent(self) -> bool:
        """Whether all scores are 0, as before training."""
        last = ("W_phrase", "b_phrase", "W_tag")
        return not any(self.scorer.has_param(n) and self.scorer.get_param(n).any() for n in last)

    def fits(self, symbols: Symbols) -> bool:
        """Whether forests of these symbols can be scored."""
        found = tuple(self.scorer.maybe_get_dim(name) for name in ("nT", "nO"))
        return found == (symbols.n_tags, symbols.size)

    def check(self) -> None:
        """Raise ValueError if parameters, which were loaded, cannot be those of the layers."""
        for name, array in self._parameters().items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"parameters {name} that are no numbers")
        dims = {name: self.scorer.maybe_get_dim(name) for name in ("nI", "nH", "nT", "nO")}
        width = self.tok2vec.maybe_get_dim("nO")
        if None in dims.values() or width not in (None, dims["nI"]):
            raise ValueError(f"layers of the sizes {dims} over rows of {width}")
        for name, shape in _shapes(*dims.values()).items():
            array = self.scorer.get_param(name) if self.scorer.has_param(name) else None
            if array is None or array.shape != shape or array.dtype != np.float32:
                raise ValueError(f"a parameter {name} that is not of the shape {shape}")

    def initialize(
        self, tokens: Sequence[Any], symbols: Symbols, settings: SpanScoreSettings
    ) -> None:
        """New parameters, the same for the same seed. tokens: of some sentences with words."""
        self._restore_ops()
        self._forget()
        self._take(settings)
        with self._seeded():
            self.tok2vec.initialize(X=list(tokens))
        self._new_scorer(tokens, symbols)

    def prepare(self, tokens: Sequence[Any], symbols: Symbols, settings: SpanScoreSettings) -> None:
        """Begin a training on forests of these symbols.

        What an earlier one has changed is set back, so that each begins alike; parameters from
        elsewhere stay.
        """
        start = self._start
        self._restore_ops()
        self._forget()
        self._take(settings)
        if start is not None:
            self._set(start)
        if not self.fits(symbols) or self.scorer.get_dim("nH") != self._settings.hidden_width:
            self._new_scorer(tokens, symbols)
        self._drop_gradients()

    def _take(self, settings: SpanScoreSettings) -> None:
        assert isinstance(settings, NeuralGrammarSettings)
        self._settings = settings

    def _new_scorer(self, tokens: Sequence[Any], symbols: Symbols) -> None:
        width = self.tok2vec.maybe_get_dim("nO")
        if width is None:
            width = self.tok2vec.predict(list(tokens[:1]))[0].shape[1]
        for name in self.scorer.param_names:
            self.scorer.set_param(name, None)
        sizes = {"nI": width, "nH": self._settings.hidden_width}
        for name, size in {**sizes, "nT": symbols.n_tags, "nO": symbols.size}.items():
            self.scorer.set_dim(name, size, force=True)
        with self._seeded(1):
            self.scorer.initialize()
        self._drop_gradients()

    def _drop_gradients(self) -> None:
        """Those that no step was made with, because training was interrupted."""
        for node in self._nodes:
            for name in node.grad_names:
                node.set_grad(name, node.ops.xp.zeros_like(node.get_param(name)))

    # --- scores -------------------------------------------------------------------------------
    def scores(
        self, sentences: Sequence[Sequence[str]], tokens: Sequence[Any] | None, graphs: Hypergraphs
    ) -> Floats:
        """A score for each item of `graphs`, in nats: float64 (I).

        Raises StructlearnError if the tokens are not those of the sentences, or if the
        forests are of another grammar than that of the training.
        """
        if not len(graphs):
            return np.zeros(0)
        rows = self.tok2vec.predict(self._tokens(tokens, graphs))
        return _doubles(self.scorer, self.scorer.predict((rows, graphs)))

    def begin_update(
        self, sentences: Sequence[Sequence[str]], tokens: Sequence[Any] | None, graphs: Hypergraphs
    ) -> tuple[Floats, Callable[[Floats], None]]:
        """Scores with dropout, and a function that takes the gradient of the loss at them."""
        known = self._tokens(tokens, graphs)
        if self._start is None:
            self._start = self._parameters(copy=True)
        self._use_all_cores()
        for layers in (self.tok2vec, self.scorer):
            set_dropout_rate(layers, self._settings.dropout)
        with self._seeded(2, self._n_updates):
            rows, back_rows = self.tok2vec.begin_update(known)
            scores, back_scores = self.scorer.begin_update((rows, graphs))
        for layers in (self.tok2vec, self.scorer):
            set_dropout_rate(layers, 0.0)

        def backprop(gradient: Floats) -> None:
            ops = self.scorer.ops
            d_rows, _ = back_scores(ops.asarray1f(np.asarray(gradient), dtype=scores.dtype))
            back_rows(d_rows)

        return _doubles(self.scorer, scores), backprop

    def finish_update(self, learn_rate_factor: float = 1.0) -> None:
        """One step of Adam. learn_rate_factor: from 0 to 1, of the learning rate."""
        if self._optimizer is None:
            self._optimizer = self._new_optimizer()
        self._optimizer.learn_rate = self._settings.learn_rate * learn_rate_factor
        for layers in (self.tok2vec, self.scorer):
            layers.finish_update(self._optimizer)
        self._restore_ops()
        self._n_updates += 1

    def finish(self) -> None:
        """End the training: the moving averages of the parameters take their place."""
        if self._optimizer is not None and self._optimizer.averages is not None:
            averages = self._optimizer.averages
            self._set({name: averages[key] for name, key in self._keys() if key in averages})
        self._optimizer = None

    def _use_all_cores(self) -> None:
        """Take NumPy's products of matrices in place of those of thinc, until the step is done.

        These are faster, by a factor of three to five on one core too, but take all cores: where
        processes share them, as in parsing, they get in each other's way.
        """
        if self._ops is None:
            self._ops = [(node, node.ops) for node in self._nodes]
            for node, ops in self._ops:
                if type(ops) is NumpyOps:
                    node.ops = NumpyOps(use_blis=False)

    def _restore_ops(self) -> None:
        for node, ops in self._ops or ():
            node.ops = ops
        self._ops = None

    @staticmethod
    def _tokens(tokens: Sequence[Any] | None, graphs: Hypergraphs) -> list[Any]:
        known = [] if tokens is None else list(tokens)
        found = [None if part is None else len(part) for part in known]
        if found != graphs.n_words.tolist():
            wanted = f"{len(graphs)} with {graphs.n_words[:5].tolist()}"
            raise StructlearnError("SL438", found=f"{len(found)} with {found[:5]}", wanted=wanted)
        return known

    def _new_optimizer(self) -> Optimizer:
        return Adam(
            self._settings.learn_rate,
            L2=self._settings.weight_decay,
            L2_is_weight_decay=True,
            grad_clip=1.0,
            use_averages=True,
        )

    @contextmanager
    def _seeded(self, *numbers: int) -> Iterator[None]:
        """thinc draws from the generator of NumPy that all share: lend it a state of our own."""
        kept = np.random.get_state()
        np.random.seed([self._settings.seed, *numbers])
        try:
            yield
        finally:
            np.random.set_state(kept)

    # --- state --------------------------------------------------------------------------------
    def state(self) -> dict[str, Any]:
        """Parameters and optimiser: arrays, numbers and strings."""
        optimizer = self._optimizer
        state: dict[str, Any] = {
            "n_updates": self._n_updates,
            "parameters": self._parameters(copy=True),
            "shims": [serialization.nested(shim.to_bytes()) for shim in self._shims],
            "optimizer": None,
        }
        if optimizer is not None:
            arrays = {"mom1": optimizer.mom1, "mom2": optimizer.mom2}
            if optimizer.averages is not None:
                arrays["averages"] = optimizer.averages
            state["optimizer"] = {
                "updates": {name: optimizer.nr_update[key] for name, key in self._keys()},
                **{
                    kind: {n: _numpy(held[key]).copy() for n, key in self._keys() if key in held}
                    for kind, held in arrays.items()
                },
            }
        return state

    def load(self, state: dict[str, Any]) -> None:
        """Go on from `state`, bit for bit. Raises ValueError for one of other layers."""
        parameters = state["parameters"]
        now = self._parameters()
        if {name: array.shape for name, array in now.items()} != {
            name: array.shape for name, array in parameters.items()
        } or len(state["shims"]) != len(self._shims):
            raise ValueError("the parameters are those of other layers")
        if self._start is None:
            self._start = self._parameters(copy=True)
        self._set(parameters)
        for shim, stored in zip(self._shims, state["shims"], strict=True):
            shim.from_bytes(stored.tobytes())
        self._drop_gradients()
        self._n_updates = state["n_updates"]
        self._optimizer = None
        if state["optimizer"] is not None:
            self._optimizer = optimizer = self._new_optimizer()
            ops = self.scorer.ops
            for name, key in self._keys():
                optimizer.nr_update[key] = state["optimizer"]["updates"][name]
                for kind in ("mom1", "mom2", "averages"):
                    if name in state["optimizer"][kind]:
                        held = ops.asarray(state["optimizer"][kind][name].copy())
                        getattr(optimizer, kind)[key] = held

    @property
    def _nodes(self) -> list[Model]:
        return [*self.tok2vec.walk(), *self.scorer.walk()]

    @property
    def _shims(self) -> list[Any]:
        return [shim for node in self._nodes for shim in node.shims]

    def _keys(self) -> Iterator[tuple[str, tuple[int, str]]]:
        """A name for each parameter that is the same in every process, and the optimiser's key."""
        for number, node in enumerate(self._nodes):
            for name in node.param_names:
                yield f"{number}.{name}", (node.id, name)

    def _parameters(self, copy: bool = False) -> dict[str, Any]:
        held = {
            f"{number}.{name}": _numpy(node.get_param(name))
            for number, node in enumerate(self._nodes)
            for name in node.param_names
            if node.has_param(name)
        }
        return {name: array.copy() for name, array in held.items()} if copy else held

    def _set(self, parameters: dict[str, Any]) -> None:
        for number, node in enumerate(self._nodes):
            for name in node.param_names:
                if f"{number}.{name}" in parameters:
                    array = node.ops.asarray(parameters[f"{number}.{name}"])
                    node.set_param(name, array.copy())


def _numpy(array: Any) -> NDArray[Any]:
    return array if isinstance(array, np.ndarray) else array.get()


def _doubles(model: Model, scores: Floats1d) -> Floats:
    return np.asarray(model.ops.to_numpy(scores), dtype=np.float64)
