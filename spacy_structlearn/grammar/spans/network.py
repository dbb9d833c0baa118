"""A small network that scores symbols over spans: the layers of a neural CRF over trees.

Durrett & Klein (2015), "Neural CRF parsing", and Stern, Andreas & Klein (2017): one hidden layer
scores the symbols over a span from vectors of the words at both of its ends, inside and outside; a
tag is scored from the vector of its word. The vector of a word is the row that other layers give
for it and the posteriors of its tags by the grammar, which are inputs without a gradient. Linear
functions of words are computed once per word, the hidden layer once per span of the forests.

The output layers start with zeros, so that an untrained network leaves the trees of the grammar as
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from thinc.api import Adam, Model, NumpyOps, Ops, Optimizer, glorot_uniform_init, set_dropout_rate
from thinc.types import Floats1d, Floats2d

from ... import serialization
from ...arrays import cumulative
from ...errors import StructlearnError
from ..chart.hypergraph import Floats, Hypergraphs
from ..treebank.symbols import Symbols
from . import features as span_features
from .settings import NeuralGrammarSettings, SpanScoreSettings

InT = tuple[list[Floats2d], Hypergraphs]

# The first length of each class but the first, in words.
LENGTHS = tuple(longest + 1 for longest in span_features.LENGTHS)
# The arrays of the optimiser.
_MOMENTS = ("mom1", "mom2", "averages")
# The words that score a span, as blocks of the columns of "W_span": the word before it, its last
# and first word, the word after it, and the mean of its words.
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
    """Make a layer that scores each item of forests, in nats.

    Its input is an array for each sentence, with a row for each word, and the forests. With x the
    row and the tag posteriors of a word, the symbol X over the words i to j (exclusive) scores

        h = relu(A x[i] + B x[j-1] + C x[i-1] + D x[j] + E mean(x[i:j]) + length(j - i) + b)
        s(X, i, j) = (W h)_X + b_X        s(T, i) = (U x[i])_T for tags

    There are trained rows for the outside of the sentence.

    hidden_width: the width of h.
    width: the width of the rows. This and the next two may be set before initialization.
    n_tags, n_symbols: the numbers of symbols of the grammar.
    dropout: the dropout rate of h.
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


def _places(graphs: Hypergraphs, n_tags: int, ops: Ops) -> SimpleNamespace:
    """Return where the items of forests are in their sentences.

    A sentence of n words has n + 1 boundaries. It is padded by a word at both ends, so that each
    boundary is between two words.
    """
    n_words = graphs.n_words.astype(np.int64)
    sentence = np.arange(len(graphs))
    boundaries = cumulative(n_words + 1)
    n = int(boundaries[-1])
    of_word = np.repeat(sentence, n_words)
    symbol, start, end = graphs.items.astype(np.int64).T
    of_item = graphs.item_sentences
    start, end = boundaries[of_item] + start, boundaries[of_item] + end
    phrases, tags = np.flatnonzero(symbol >= n_tags), np.flatnonzero(symbol < n_tags)
    spans, span_of = np.unique(start[phrases] * (n + 1) + end[phrases], return_inverse=True)
    starts, ends = np.divmod(spans, n + 1)
    arrays = {
        # The number of each word, and of the word to the left of each boundary, with padding.
        "words": np.arange(len(of_word)) + 2 * of_word + 1,
        "left": np.arange(n) + np.repeat(sentence, n_words + 1),
        # The boundaries and the length classes of the spans of phrases.
        "starts": starts.astype(np.int32),
        "ends": ends.astype(np.int32),
        "lengths": np.digitize(ends - starts, LENGTHS).astype(np.int32),
        # The items that are phrases, with their spans and symbols, and those that are tags.
        "phrases": phrases,
        "span_of": span_of,
        "phrase_symbols": symbol[phrases] - n_tags,
        "tags": tags,
        "word_of": start[tags] - of_item[tags],
        "tag_symbols": symbol[tags],
    }
    arrays = {name: ops.asarray(array) for name, array in arrays.items()}
    return SimpleNamespace(sentences=boundaries.tolist(), **arrays)


def tag_posteriors(graphs: Hypergraphs, n_tags: int) -> Floats:
    """Return P(tag | words) by the grammar alone, float64 (n_words, n_tags)."""
    word, tag, posteriors = span_features.tag_items(graphs, n_tags)
    table = np.zeros((int(graphs.n_words.sum()), n_tags))
    table[word, tag] = posteriors
    return table


def _forward(
    model: Model[InT, Floats1d], inputs: InT, is_train: bool
) -> tuple[Floats1d, Callable[[Floats1d], InT]]:
    rows, graphs = inputs
    ops, get = model.ops, model.get_param
    hidden, width, n_tags = (model.get_dim(name) for name in ("nH", "nI", "nT"))
    _check(rows, graphs, width, n_tags, model.get_dim("nO"))
    edges = get("edges")
    at = _places(graphs, n_tags, ops)
    left, right = at.left, at.left + 1

    # The input of each word, padded by what is outside each sentence.
    padded = ops.alloc((len(at.words) + 2 * len(graphs), width + n_tags), dtype=edges.dtype)
    before, after = left[at.sentences[:-1]], right[[end - 1 for end in at.sentences[1:]]]
    if len(graphs):
        padded[at.words, :width] = ops.xp.concatenate(rows)
        padded[at.words, width:] = ops.asarray(tag_posteriors(graphs, n_tags), dtype=edges.dtype)
        padded[before], padded[after] = edges[0], edges[1]
    parts = ops.gemm(padded, get("W_span")).reshape(len(padded), 5, hidden)
    # What a boundary adds to the spans that start there, and to those that end there.
    first = parts[left, BEFORE] + parts[right, FIRST]
    last = parts[left, LAST] + parts[right, AFTER]
    # The sum of the words before each boundary. Each sentence has a sum of its own, so that its
    # scores do not depend on the other sentences.
    sums = ops.alloc(first.shape, dtype=first.dtype)
    for begin, end in pairwise(at.sentences):
        inside = parts[right[begin : end - 1], MEAN]
        sums[begin + 1 : end] = inside.cumsum(axis=0)
    per_word = ops.asarray(1.0 / (at.ends - at.starts)[:, None], dtype=edges.dtype)
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

    def added(n: int, places: Any, rows: Floats2d) -> Floats2d:
        table = ops.alloc((n, rows.shape[1]), dtype=rows.dtype)
        ops.scatter_add(table, places, rows)
        return table

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
        model.inc_grad("lengths", added(len(LENGTHS) + 1, at.lengths, d_h))
        d_first, d_last = (added(len(left), places, d_h) for places in (at.starts, at.ends))
        d_mean = d_h * per_word
        d_sums = added(len(left), at.ends, d_mean)
        d_sums -= added(len(left), at.starts, d_mean)
        d_parts = ops.alloc(parts.shape, dtype=edges.dtype)
        # Each padded word is to the left of at most one boundary, and to the right of one.
        d_parts[left, BEFORE] = d_first
        d_parts[right, FIRST] = d_first
        d_parts[left, LAST] = d_last
        d_parts[right, AFTER] = d_last
        for begin, end in pairwise(at.sentences):
            later = d_sums[begin + 1 : end][::-1].cumsum(axis=0)[::-1]
            d_parts[right[begin : end - 1], MEAN] = later
        d_parts = d_parts.reshape(len(padded), 5 * hidden)
        model.inc_grad("W_span", ops.gemm(padded, d_parts, trans1=True))
        d_padded = ops.gemm(d_parts, get("W_span"), trans2=True)
        d_padded += ops.gemm(d_tag, get("W_tag"), trans2=True)
        ends = [d_padded[before].sum(axis=0), d_padded[after].sum(axis=0)]
        model.inc_grad("edges", ops.xp.stack(ends))
        d_rows = d_padded[at.words, :width]
        counts = np.cumsum(graphs.n_words)[:-1].tolist()
        return (list(ops.xp.split(d_rows, counts)) if len(graphs) else []), graphs

    return cast(Floats1d, scores), backprop


def _check(
    rows: Sequence[Floats2d], graphs: Hypergraphs, width: int, n_tags: int, n_symbols: int
) -> None:
    """Raise StructlearnError if the input does not have the sizes of the layer."""
    found, wanted = [row.shape for row in rows], [(n, width) for n in graphs.n_words.tolist()]
    if found != wanted:
        raise StructlearnError("SL438", found=str(found[:5]), wanted=str(wanted[:5]))
    most = int(graphs.items[:, 0].max(initial=-1))
    if most >= n_symbols:
        raise StructlearnError("SL439", found=most + 1, wanted=f"{n_tags} tags of {n_symbols}")


# --- the network in training ----------------------------------------------------------------------
class SpanNetwork:
    """A scorer of symbols over spans and its training.

    tok2vec: thinc layers from a list of sentences to a list of arrays with a row for each word.
    scorer: a `span_scorer`.

    Both are trained in place. Training is deterministic if they draw random numbers from NumPy.
    Afterwards they have the moving averages of their parameters.
    """

    def __init__(self, tok2vec: Model[list[Any], list[Floats2d]], scorer: Model[InT, Floats1d]):
        self.tok2vec = tok2vec
        self.scorer = scorer
        self._begin(NeuralGrammarSettings())

    def _begin(self, settings: SpanScoreSettings) -> None:
        """Forget an earlier training."""
        assert isinstance(settings, NeuralGrammarSettings)
        self._settings = settings
        self._optimizer: Optimizer | None = None
        self._n_updates = 0
        self._start: dict[str, Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the state of a training.
        return SpanNetwork, (self.tok2vec, self.scorer)

    @property
    def layers(self) -> list[tuple[str, list[str]]]:
        """The names of the layers and of their parameters."""
        return [(node.name, sorted(node.param_names)) for node in self._nodes]

    @property
    def n_parameters(self) -> int:
        """The number of parameters of all layers."""
        return sum(array.size for array in self._parameters().values())

    # --- parameters ---------------------------------------------------------------------------
    @property
    def is_silent(self) -> bool:
        """Whether all scores are 0, as before training."""
        last = ("W_phrase", "b_phrase", "W_tag")
        return not any(self.scorer.has_param(n) and self.scorer.get_param(n).any() for n in last)

    def fits(self, symbols: Symbols) -> bool:
        """Return whether the network can score forests with these symbols."""
        sizes = tuple(self.scorer.maybe_get_dim(name) for name in ("nT", "nO"))
        return sizes == (symbols.n_tags, symbols.size)

    def check(self) -> None:
        """Raise ValueError if loaded parameters are not finite or do not fit the layers."""
        for name, array in self._parameters().items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise ValueError(f"parameters {name} that are not finite numbers")
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
        """Set new random parameters. tokens: some sentences that have words."""
        self._begin(settings)
        with self._seeded():
            self.tok2vec.initialize(X=list(tokens))
        self._new_scorer(tokens, symbols)
        self._drop_gradients()

    def prepare(self, tokens: Sequence[Any], symbols: Symbols, settings: SpanScoreSettings) -> None:
        """Begin a training on forests of these symbols.

        The changes of an earlier training are undone, so that all trainings start alike. Parameters
        that were loaded or initialized stay.
        """
        start = self._start
        self._begin(settings)
        if start is not None:
            self._set(start)
        if not self.fits(symbols) or self.scorer.get_dim("nH") != self._settings.hidden_width:
            self._new_scorer(tokens, symbols)
        self._drop_gradients()

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

    def _drop_gradients(self) -> None:
        """Clear gradients that an interrupted training has left."""
        for node in self._nodes:
            for name in node.grad_names:
                node.set_grad(name, node.ops.xp.zeros_like(node.get_param(name)))

    # --- scores -------------------------------------------------------------------------------
    def scores(
        self, sentences: Sequence[Sequence[str]], tokens: Sequence[Any] | None, graphs: Hypergraphs
    ) -> Floats:
        """Return the score of each item of `graphs` in nats, float64 (I).

        Raises StructlearnError if the tokens do not belong to the sentences or if the grammar of
        the forests has other symbols than that of the training.
        """
        if not len(graphs):
            return np.zeros(0)
        rows = self.tok2vec.predict(self._tokens(tokens, graphs))
        return self._doubles(self.scorer.predict((rows, graphs)))

    def begin_update(
        self, sentences: Sequence[Sequence[str]], tokens: Sequence[Any] | None, graphs: Hypergraphs
    ) -> tuple[Floats, Callable[[Floats], None]]:
        """Return scores with dropout, and a function that takes the gradient of the loss."""
        tokens = self._tokens(tokens, graphs)
        if self._start is None:
            self._start = self._parameters()
        for layers in (self.tok2vec, self.scorer):
            set_dropout_rate(layers, self._settings.dropout)
        with self._seeded(2, self._n_updates), self._all_cores():
            rows, back_rows = self.tok2vec.begin_update(tokens)
            scores, back_scores = self.scorer.begin_update((rows, graphs))
        for layers in (self.tok2vec, self.scorer):
            set_dropout_rate(layers, 0.0)

        def backprop(gradient: Floats) -> None:
            with self._all_cores():
                ops = self.scorer.ops
                d_rows, _ = back_scores(ops.asarray1f(np.asarray(gradient), dtype=scores.dtype))
                back_rows(d_rows)

        return self._doubles(scores), backprop

    def finish_update(self, learn_rate_factor: float = 1.0) -> None:
        """Do one step of Adam. learn_rate_factor: multiplies the learning rate."""
        if self._optimizer is None:
            self._optimizer = self._new_optimizer()
        self._optimizer.learn_rate = self._settings.learn_rate * learn_rate_factor
        for layers in (self.tok2vec, self.scorer):
            layers.finish_update(self._optimizer)
        self._n_updates += 1

    def finish(self) -> None:
        """End the training: replace the parameters by their moving averages."""
        if self._optimizer is not None:
            averages = self._optimizer.averages
            self._set({name: averages[key] for name, key in self._keys() if key in averages})
        self._optimizer = None

    @contextmanager
    def _all_cores(self) -> Iterator[None]:
        """Use NumPy's matrix products instead of thinc's.

        They are three to five times as fast, even on one core, but they use all cores, which slows
        down processes that parse at the same time.
        """
        before = [(node, node.ops) for node in self._nodes if type(node.ops) is NumpyOps]
        for node, _ in before:
            node.ops = NumpyOps(use_blis=False)
        try:
            yield
        finally:
            for node, ops in before:
                node.ops = ops

    @staticmethod
    def _tokens(tokens: Sequence[Any] | None, graphs: Hypergraphs) -> list[Any]:
        tokens = list(tokens or ())
        found = [None if part is None else len(part) for part in tokens]
        if found != graphs.n_words.tolist():
            wanted = f"{len(graphs)} with {graphs.n_words[:5].tolist()}"
            raise StructlearnError("SL438", found=f"{len(found)} with {found[:5]}", wanted=wanted)
        return tokens

    def _doubles(self, scores: Floats1d) -> Floats:
        return np.asarray(self.scorer.ops.to_numpy(scores), dtype=np.float64)

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
        """Seed NumPy's global generator, from which thinc draws, and restore it at the end."""
        state = np.random.get_state()
        np.random.seed([self._settings.seed, *numbers])
        try:
            yield
        finally:
            np.random.set_state(state)

    # --- state --------------------------------------------------------------------------------
    def state(self) -> dict[str, Any]:
        """Return parameters and optimiser as arrays, numbers and strings."""
        optimizer = self._optimizer
        state: dict[str, Any] = {
            "n_updates": self._n_updates,
            "parameters": self._parameters(),
            "shims": [serialization.nested(shim.to_bytes()) for shim in self._shims],
            "optimizer": None,
        }
        if optimizer is not None:
            keys = list(self._keys())
            state["optimizer"] = {"updates": {name: optimizer.nr_update[key] for name, key in keys}}
            for kind in _MOMENTS:
                arrays = getattr(optimizer, kind)
                copies = {name: _copy(arrays[key]) for name, key in keys if key in arrays}
                state["optimizer"][kind] = copies
        return state

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a `state`. Raises ValueError if it is of other layers."""
        parameters = state["parameters"]
        shapes, wanted = (
            {name: array.shape for name, array in arrays.items()}
            for arrays in (parameters, self._parameters())
        )
        if shapes != wanted or len(state["shims"]) != len(self._shims):
            raise ValueError("the parameters are those of other layers")
        if self._start is None:
            self._start = self._parameters()
        self._set(parameters)
        for shim, stored in zip(self._shims, state["shims"], strict=True):
            shim.from_bytes(stored.tobytes())
        self._drop_gradients()
        self._n_updates = state["n_updates"]
        self._optimizer = None
        stored = state["optimizer"]
        if stored is not None:
            self._optimizer = optimizer = self._new_optimizer()
            for name, key in self._keys():
                optimizer.nr_update[key] = stored["updates"][name]
                for kind in _MOMENTS:
                    if name in stored[kind]:
                        array = self.scorer.ops.asarray(stored[kind][name].copy())
                        getattr(optimizer, kind)[key] = array

    @property
    def _nodes(self) -> list[Model]:
        return [*self.tok2vec.walk(), *self.scorer.walk()]

    @property
    def _shims(self) -> list[Any]:
        return [shim for node in self._nodes for shim in node.shims]

    @property
    def _slots(self) -> dict[str, tuple[Model, str]]:
        """The layer and the name of each parameter, by a name that is the same in all processes."""
        return {
            f"{number}.{name}": (node, name)
            for number, node in enumerate(self._nodes)
            for name in node.param_names
        }

    def _keys(self) -> Iterator[tuple[str, tuple[int, str]]]:
        """Yield the name of each parameter and its key in the optimiser."""
        for place, (node, name) in self._slots.items():
            yield place, (node.id, name)

    def _parameters(self) -> dict[str, Any]:
        return {
            place: _copy(node.get_param(name))
            for place, (node, name) in self._slots.items()
            if node.has_param(name)
        }

    def _set(self, parameters: dict[str, Any]) -> None:
        slots = self._slots
        for place, array in parameters.items():
            node, name = slots[place]
            node.set_param(name, node.ops.asarray(array).copy())


def _copy(array: Any) -> NDArray[Any]:
    """Return a copy in NumPy of an array that may be on a GPU."""
    return array.copy() if isinstance(array, np.ndarray) else array.get()
