"""Features of contiguous fragments of trees: productions with their context and their words.

Smith, Vail & Lafferty (2007), section 4.1.2: the expectation of a contiguous fragment under a PCFG
has a closed form (see `pcfg`), so a model of such features can be trained without parsing. A
template names a part of the tree and its context:

    RULE, LABEL, TAG        a production of phrases; the label of a phrase or intermediate; a tag
    PARENT                  the phrase above (that above X for @X)
    SIBLING                 the label of the previous child in a binarised phrase (X -> c @X)
    WORD[first] ...         an attribute of a word at an end of the span ("first", "last"), next to
                            its split ("left", "right") or just outside ("before", "after")

Attributes are those of `word_attributes` and TAG, the tag of the word. A path in the tree joins the
context to the part, so the fragment is contiguous once the productions on that path are summed out.
The key of a feature is a 64-bit hash of its template, the numbers of its symbols and the hashes of
its attributes. These hashes are part of the model format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative
from ...errors import StructlearnError
from ...kernels.index import mix_pairs
from ..chart.hypergraph import Hypergraphs, Mask
from ..spans.word_attributes import WORD_ATTRIBUTE, WordAttributes, hash_of
from ..treebank.data import TreebankData
from ..treebank.symbols import Symbols
from .annotation import with_ancestors, with_edge_tags

Sentences = Sequence[Sequence[str]]
Hashes = NDArray[np.uint64]

FRAGMENT_TEMPLATES: tuple[str, ...] = (
    "RULE",
    "RULE|PARENT",
    "RULE|SIBLING",
    "TAG|PARENT",
    *(f"RULE|TAG[{position}]" for position in ("first", "last", "left", "right")),
    *(f"RULE|WORD[{position}]" for position in ("first", "last", "left", "right")),
    *(
        f"LABEL|{attribute}[{position}]"
        for attribute in ("WORD", "SUFFIX3")
        for position in ("first", "last", "before", "after")
    ),
    *(f"TAG|{attribute}[first]" for attribute in ("SUFFIX2", "SUFFIX3", "PREFIX2", "SHAPE")),
    "TAG|WORD[before]",
    "TAG|WORD[after]",
)
"""Local substructures as in the paper, and words around spans (Hall, Durrett & Klein 2014)."""

POSITIONS = ("first", "last", "left", "right", "before", "after")
RULE, LABEL, TAG = "RULE", "LABEL", "TAG"
RELATIONS = ("PARENT", "SIBLING")
SIBLING = 1
_TERM = re.compile(rf"({WORD_ATTRIBUTE}|{TAG})\[({'|'.join(POSITIONS)})\]")
# The child of a binary production that each position inside the span belongs to.
_CHILD = {"first": 0, "left": 0, "last": 1, "right": 1}
BOUNDARY = hash_of("BOUNDARY")
MAX_EDGES = 200_000  # of a sentence, split by tags; ancestors multiply them by a small factor


@dataclass(frozen=True)
class Template:
    """A parsed template.

    part: "RULE", "LABEL" or "TAG".
    relations: those it looks at, by their places in `RELATIONS`.
    words: attribute and position of each word.
    """

    text: str
    part: str
    relations: tuple[int, ...] = ()
    words: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Template:
        """Parse the text of a template.

        Raises StructlearnError if it is malformed, combines relations with words, or has two words
        in the same child or unsplit span, since then the expectation does not factorise.
        """
        part, *terms = str(text).split("|")
        relations = [term for term in terms if term in RELATIONS]
        matches = [_TERM.fullmatch(term) for term in terms if term not in RELATIONS]
        words = tuple((m[1], m[2]) for m in matches if m is not None)
        sides = [_CHILD.get(position, 2) for _, position in words]
        inside = {position for _, position in words} - {"before", "after"}
        problem = None
        if part not in (RULE, LABEL, TAG) or len(words) < len(matches):
            problem = "it is malformed"
        elif len(set(relations)) < len(relations):
            problem = "PARENT and SIBLING occur once"
        elif part == TAG and "SIBLING" in relations:
            problem = "tags have no SIBLING"
        elif relations and words:
            problem = "it has relations and words"
        elif part != RULE and inside & {"left", "right"}:
            problem = "only a RULE has words at its split"
        elif len(set(sides)) < len(sides) or (part != RULE and len(inside) > 1):
            problem = "two of its words are not independent of each other"
        elif part == TAG and "last" in inside:
            problem = "the word of a TAG is its first one"
        elif any(name == TAG and place not in inside for name, place in words):
            problem = "only tags inside of the span are part of it"
        if problem:
            raise StructlearnError("SL441", text=text, problem=problem)
        return cls(str(text), part, tuple(sorted(map(RELATIONS.index, relations))), words)

    @property
    def binary_only(self) -> bool:
        """Whether only binary productions have such a feature."""
        inside = {position for _, position in self.words} - {"before", "after"}
        return bool(inside & {"left", "right"}) or len(inside) > 1


class FragmentTemplates:
    """A list of templates, by default `FRAGMENT_TEMPLATES`.

    Raises StructlearnError as `Template.parse` does, and for duplicates.
    """

    def __init__(self, texts: Iterable[str] | None):
        self.texts = tuple(map(str, FRAGMENT_TEMPLATES if texts is None else texts))
        self.all = tuple(Template.parse(text) for text in self.texts)
        seen = set()
        for template in self.all:
            content = replace(template, text="")
            if content in seen:
                raise StructlearnError("SL202", text=template.text)
            seen.add(content)
        names = [name for template in self.all for name, _ in template.words if name != TAG]
        self.attributes = tuple(dict.fromkeys(names))
        self.local = tuple(t for t in self.all if not t.relations)
        self.above = tuple(t for t in self.all if t.relations)
        self.tags = any(name == TAG for template in self.all for name, _ in template.words)


@dataclass(frozen=True, eq=False)
class Sites:
    """The productions of trees or forests, where features may occur, as columns of a table.

    symbol, left, right: int32 (n), the symbols of the production. left is -1 for tags, right unless
    there are two children.
    relations: int32 (n, 2), parent and sibling as in `pcfg.Expectations.annotated`.
    words: int64 (n, 6), the rows of the words at `POSITIONS` in a table of the words of all
    sentences with a boundary before each sentence and one at the end; -1 for none.
    tags: int32 (n, 4), the tags of the first four of these words; -1 for none.
    """

    symbol: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    relations: NDArray[np.int32]
    words: NDArray[np.int64]
    tags: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.symbol)

    @cached_property
    def parts(self) -> dict[str, Hashes]:
        """The hash of the production and of the label of each site, uint64 (n), by `RULE` etc."""
        label = _mixed(np.uint64(0), self.symbol)
        return {LABEL: label, TAG: label, RULE: _mixed(_mixed(label, self.left), self.right)}

    def of(self, template: Template) -> NDArray[np.int64]:
        """Return the sites that have a feature of the template, int64, ascending."""
        if template.part == TAG:
            return np.flatnonzero(self.left < 0)
        has = (self.right if template.binary_only else self.left) >= 0
        if SIBLING in template.relations:
            has &= self.relations[:, SIBLING] > 0
        return np.flatnonzero(has)

    def select(self, rows: NDArray[Any]) -> Sites:
        """Return some of the sites."""
        return Sites(*(getattr(self, field.name)[rows] for field in fields(self)))


def sites_of_trees(data: TreebankData, templates: FragmentTemplates) -> Sites:
    """Return the productions of all nodes of binarised trees."""
    graphs = forests_of_trees(data)
    forests = FragmentForests(graphs, templates, data.symbols, data.binarization)
    # In a tree, a node has only one context, so that the rows of both are the same.
    return replace(forests.sites, relations=forests.split.relations)


def forests_of_trees(data: TreebankData) -> Hypergraphs:
    """Return a forest of each tree alone: the nodes of `data`, and a root after those of a tree."""
    sizes = np.diff(data.offsets)
    starts, ends = data.spans
    tails = np.stack([data.left, data.right], axis=1)
    tails = np.where(tails >= 0, tails - np.repeat(data.offsets[:-1], sizes)[:, None], -1)
    tops = np.stack([sizes - 1, np.full(len(sizes), -1)], axis=1)
    offsets, places = cumulative(sizes + 1), cumulative(sizes + 2)
    begins = np.arange(places[-1]) - np.repeat(places[:-1], sizes + 2)
    return Hypergraphs(
        items=np.stack([data.symbol, starts, ends], axis=1).astype(np.int32),
        item_offsets=data.offsets,
        node_offsets=offsets,
        edge_offsets=offsets,
        begins=begins.astype(np.int32),
        tails=np.insert(tails, data.offsets[1:], tops, axis=0).astype(np.int32),
        scores=np.zeros(offsets[-1]),
        made=np.insert(np.arange(data.n_nodes), data.offsets[1:], -1).astype(np.int32),
        n_words=np.add.reduceat(data.is_word, data.offsets[:-1], dtype=np.int32),
        chain=np.full(offsets[-1], -1, dtype=np.int32),
    )


class FragmentForests:
    """Forests refined so that each feature belongs to an edge, and their productions.

    graphs: the refined forests. Nodes are split by the tags at the ends of their spans and by their
    ancestors, if the templates look at these.
    edges: int64 (E), the edge of the original forests.
    sites: the productions, before they are split by ancestors.
    local: int64 (E), the row in `sites` of each edge of `graphs`; -1 if it makes no constituent.
    split: the productions split by ancestors, without words, if templates look at ancestors. They
        are those of the edges with a row in `local`, in their order.

    kept: mask of original edges that must not be pruned, see `bounded`.
    """

    def __init__(
        self,
        graphs: Hypergraphs,
        templates: FragmentTemplates,
        symbols: Symbols,
        binarization: str,
        kept: Mask | None = None,
    ):
        graphs, sources = bounded(graphs, templates, symbols.n_tags, kept)
        edges, tags = np.arange(len(graphs.scores)), None
        if templates.tags:
            tagged = with_edge_tags(graphs, symbols.n_tags)
            graphs, edges, tags = tagged.graphs, tagged.edges, tagged.states
        production = np.flatnonzero(graphs.made >= 0)
        sites = self.sites = self.split = _sites_of_edges(graphs, production, tags)
        rows = np.full(len(edges), -1, dtype=np.int64)
        rows[production] = np.arange(len(production))
        if templates.above:
            refined = with_ancestors(graphs, symbols, binarization)
            source = refined.edges
            graphs, edges, rows = refined.graphs, edges[source], rows[source]
            made = rows[rows >= 0]
            self.split = Sites(
                sites.symbol[made],
                sites.left[made],
                sites.right[made],
                refined.states[graphs.heads[rows >= 0]],
                sites.words[:0],
                sites.tags[:0],
            )
        self.graphs, self.edges, self.local = graphs, sources[edges], rows


def bounded(
    graphs: Hypergraphs, templates: FragmentTemplates, n_tags: int, kept: Mask | None = None
) -> tuple[Hypergraphs, NDArray[np.int64]]:
    """Prune forests that are too large to be refined.

    A sentence, such as one of fifty unknown words, may have more than `MAX_EDGES` edges once they
    are split by the tags at the ends of spans. Then the edges with the lowest posteriors by the
    scores of the forest are pruned. The best tree always stays.

    kept: mask (E) of other edges that must stay.
    Returns the forests and their edges among those of `graphs`, int64.
    """
    edges = np.arange(len(graphs.scores))
    weights = _copies(graphs, n_tags) if templates.tags else np.ones(len(edges))
    owner = graphs.edge_sentences
    large = np.bincount(owner, weights, len(graphs)) > MAX_EDGES
    if not large.any():
        return graphs, edges
    posteriors = graphs.inside_outside(graphs.scores)[1]
    stay = ~large[owner] | graphs.best(graphs.scores)[1]
    if kept is not None:
        stay |= kept
    # The likeliest edges stay, up to the limit.
    order = np.lexsort((-posteriors, owner))
    totals = np.cumsum(weights[order])
    before = np.append(0.0, totals)[graphs.edge_offsets[:-1]]
    stay[order[totals - before[owner[order]] <= MAX_EDGES]] = True
    return graphs.thinned(stay), edges[stay]


def _copies(graphs: Hypergraphs, n_tags: int) -> NDArray[np.float64]:
    """Bound the number of copies of each edge that `with_edge_tags` makes, float64 (E).

    The bound is the product of the numbers of tags of the words at the ends and the split.
    """
    offsets = cumulative(graphs.n_words)
    symbol, start, end = graphs.items.T.astype(np.int64)
    begin = offsets[graphs.item_sentences]
    is_tag = symbol < n_tags
    tags = np.bincount((begin + start)[is_tag], minlength=int(offsets[-1])).astype(np.float64)
    node = np.append(tags[begin + start] * tags[begin + end - 1], 1.0)[graphs.node_items]
    sentence = graphs.edge_sentences
    below = np.append(node, 1.0)
    tails = np.where(graphs.tails >= 0, graphs.tails + graphs.node_offsets[sentence, None], -1)
    return below[tails].prod(axis=1)


def _sites_of_edges(
    graphs: Hypergraphs, edges: NDArray[np.int64], tags: NDArray[np.int32] | None
) -> Sites:
    """Return the productions of edges. tags: int32 (N, 2), first and last tag of each node."""
    sentence = graphs.edge_sentences[edges]
    tails = graphs.tails[edges].astype(np.int64)
    has = tails >= 0
    tails = np.where(has, tails + graphs.node_offsets[sentence][:, None], 0)
    items = graphs.items
    made = items[graphs.made[edges]]
    below = items[graphs.node_items[tails]] if len(tails) else np.zeros((0, 2, 3), np.int32)
    # There is a boundary before each sentence.
    base = (cumulative(graphs.n_words)[:-1] + np.arange(len(graphs)) + 1)[sentence]
    first, last = base + made[:, 1], base + made[:, 2] - 1
    split = np.where(has[:, 1], base + below[:, 1, 1], -1)
    left_end = np.where(has[:, 1], split - 1, -1)
    words = np.stack([first, last, left_end, split, first - 1, last + 1], axis=1)
    tags_at = np.full((len(edges), 4), -1, dtype=np.int32)
    if tags is not None:
        two = has[:, 1]
        lower = tags[tails]
        is_tag = ~has[:, 0]
        last_tag = np.where(two, lower[:, 1, 1], lower[:, 0, 1])
        tags_at[:, 0] = np.where(is_tag, made[:, 0], lower[:, 0, 0])
        tags_at[:, 1] = np.where(is_tag, made[:, 0], last_tag)
        tags_at[two, 2] = lower[two, 0, 1]
        tags_at[two, 3] = lower[two, 1, 0]
    return Sites(
        np.ascontiguousarray(made[:, 0]),
        np.where(has[:, 0], below[:, 0, 0], -1).astype(np.int32),
        np.where(has[:, 1], below[:, 1, 0], -1).astype(np.int32),
        np.zeros((len(edges), 2), dtype=np.int32),
        words,
        tags_at,
    )


class FeatureHasher:
    """Computes the keys of features of productions; thread-safe.

    templates: the templates.
    vocabulary: uint64, hashes of the known words.
    """

    def __init__(self, templates: FragmentTemplates, vocabulary: Hashes):
        self.templates = templates
        self._words = WordAttributes(templates.attributes, vocabulary.tolist())
        self._columns = {name: i for i, name in enumerate(templates.attributes)}
        self._seeds = {t.text: np.uint64(hash_of(f"fragment:{t.text}")) for t in templates.all}

    def attributes(self, sentences: Sentences) -> Hashes:
        """Return the attributes of words, uint64 (n_words + n_sentences + 1, n), see `Sites`."""
        hashes = self._words.hashes(sentences)
        sizes = [len(sentence) for sentence in sentences]
        rows = np.full((len(hashes) + len(sizes) + 1, hashes.shape[1]), BOUNDARY, np.uint64)
        sentence = np.repeat(np.arange(len(sizes)), sizes)
        rows[np.arange(len(hashes)) + sentence + 1] = hashes
        return rows

    def features(
        self, template: Template, sites: Sites, attributes: Hashes
    ) -> tuple[NDArray[np.int64], Hashes]:
        """Return the sites with a feature of the template, int64 (n), and its keys, uint64 (n).

        attributes: the result of `attributes`.
        """
        rows = sites.of(template)
        keys = sites.parts[template.part][rows] ^ self._seeds[template.text]
        for column in template.relations:
            keys = _mixed(keys, sites.relations[rows, column])
        for name, position in template.words:
            place = POSITIONS.index(position)
            if name == TAG:
                keys = _mixed(keys, sites.tags[rows, place])
            else:
                words = sites.words[rows, place]
                keys = mix_pairs(keys, attributes[words, self._columns[name]])
        return rows, keys


def _mixed(keys: Any, numbers: NDArray[np.int32]) -> Hashes:
    """Mix keys with small numbers, which may be -1."""
    keys = np.broadcast_to(keys, numbers.shape)
    return mix_pairs(np.ascontiguousarray(keys), (numbers + np.int32(2)).astype(np.uint64))
