"""Features of contiguous fragments of trees: productions, what stands above them, and their words.

Smith, Vail & Lafferty (2007), section 4.1.2: how often a PCFG expects a contiguous fragment has a
closed form (see `pcfg`), so that a model of such features can be trained without parsing. A
template names a part of the tree and what is looked at from there:

    RULE, LABEL, TAG        a production of phrases; the label of a phrase, or the @X between; a tag
    PARENT, GRANDPARENT     the phrases above (those of X for @X)
    SIBLING                 inside a binarised phrase the label of the child before (X -> c @X)
    WORD[first] ...         an attribute of a word at an end of the span ("first", "last"), beside
                            its split ("left", "right") or just outside ("before", "after")

Attributes are those of `word_attributes`, and TAG, the tag over the word. All that a template looks
at is joined to the part by a path in the tree, so the fragment is contiguous once the productions
on that path are summed out. A feature is known by a 64-bit hash of its template, its symbols, as
numbers, and the hashes of its attributes; the hashes are part of the model format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import cumulative
from ...errors import StructlearnError
from ..chart.hypergraph import Hypergraphs, Mask
from ..spans.word_attributes import WORD_ATTRIBUTE, WordAttributes, hash_of
from ..treebank.symbols import Symbols, TreebankData
from . import _features as _fragments
from .annotation import with_ancestors, with_edge_tags
from .settings import FragmentFeaturesSettings

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
"""Local substructures, as the paper has them, and ends of spans (Hall, Durrett & Klein 2014)."""

POSITIONS = ("first", "last", "left", "right", "before", "after")
RULE, LABEL, TAG = "RULE", "LABEL", "TAG"
_RELATIONS = ("PARENT", "GRANDPARENT", "SIBLING")
_TERM = re.compile(rf"({WORD_ATTRIBUTE}|{TAG})\[({'|'.join(POSITIONS)})\]")
# Which child of a binary production a position belongs to; those outside belong to neither.
_CHILD = {"first": 0, "left": 0, "last": 1, "right": 1}
BOUNDARY = hash_of("BOUNDARY")
MOST_EDGES = 200_000  # of a sentence, told apart by tags; what is above makes several times as many


@dataclass(frozen=True)
class Template:
    """What one template asks for.

    part: "RULE", "LABEL" or "TAG". depth: how many phrases above, 0 to 2; sibling: whether the
    child before. words: attribute and position of each term.
    """

    text: str
    part: str
    depth: int = 0
    sibling: bool = False
    words: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Template:
        """The template that a text describes.

        Raises StructlearnError for one that is malformed, has relations beside words, or two
        words of one child, or of one span that is not split, whose expectation does not factorise.
        """
        part, *terms = str(text).split("|")
        relations = [term for term in terms if term in _RELATIONS]
        matches = [_TERM.fullmatch(term) for term in terms if term not in _RELATIONS]
        words = tuple((m[1], m[2]) for m in matches if m is not None)
        sides = [_CHILD.get(position, 2) for _, position in words]
        inside = {position for _, position in words} - {"before", "after"}
        problem = None
        if part not in (RULE, LABEL, TAG) or len(words) < len(matches):
            problem = "it is malformed"
        elif len(set(relations)) < len(relations) or (
            "GRANDPARENT" in relations
            and "PARENT" not in relations[: relations.index("GRANDPARENT")]
        ):
            problem = "PARENT comes before GRANDPARENT, each once"
        elif part == TAG and "SIBLING" in relations:
            problem = "tags have no SIBLING"
        elif "GRANDPARENT" in relations and "SIBLING" in relations:
            problem = "SIBLING goes with PARENT at most"
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
        depth = relations.count("PARENT") + relations.count("GRANDPARENT")
        return cls(str(text), part, depth, "SIBLING" in relations, words)

    @property
    def binary_only(self) -> bool:
        """Whether unary productions have no such feature."""
        inside = {position for _, position in self.words} - {"before", "after"}
        return bool(inside & {"left", "right"}) or len(inside) > 1


class FragmentTemplates:
    """Several templates, in order.

    Raises StructlearnError as `Template.parse`, and for one given twice.
    """

    def __init__(self, texts: Iterable[str]):
        self.texts = tuple(str(text) for text in texts)
        self.all = tuple(Template.parse(text) for text in self.texts)
        asked = [replace(template, text="") for template in self.all]
        for i, text in enumerate(self.texts):
            if asked[i] in asked[:i]:
                raise StructlearnError("SL431", text=text)
        names = [name for template in self.all for name, _ in template.words if name != TAG]
        self.attributes = tuple(dict.fromkeys(names))
        self.local = tuple(t for t in self.all if not t.depth and not t.sibling)
        self.above = tuple(t for t in self.all if t.depth or t.sibling)

    @classmethod
    def of(cls, settings: FragmentFeaturesSettings) -> FragmentTemplates:
        """The templates of the settings, or the usual ones if there are none."""
        return cls(FRAGMENT_TEMPLATES if settings.templates is None else settings.templates)

    @property
    def depth(self) -> int:
        """How many phrases above are looked at."""
        return max((template.depth for template in self.all), default=0)

    @property
    def sibling(self) -> bool:
        """Whether siblings are looked at."""
        return any(template.sibling for template in self.all)

    @property
    def tags(self) -> bool:
        """Whether tags of words inside are looked at."""
        return any(name == TAG for template in self.all for name, _ in template.words)


@dataclass(frozen=True, eq=False)
class Sites:
    """Where features may be: the productions of trees or forests, as columns of one table.

    symbol, left, right: int32 (n), of the production; left is -1 for a tag, right unless there are
    two children. relations: int32 (n, 3), parent, grandparent and sibling as in
    `pcfg.Expectations.annotated`. words: int64 (n, 6), the rows of the words at `POSITIONS` in a
    table that has a row for the boundary before each sentence and one at the end; -1 for none.
    tags: int32 (n, 4), the tags over the first four of these; -1 for none.
    """

    symbol: NDArray[np.int32]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    relations: NDArray[np.int32]
    words: NDArray[np.int64]
    tags: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.symbol)

    def of(
        self,
        template: Template,
        relations: NDArray[np.int32],
        rows: NDArray[np.int64] | slice = slice(None),
    ) -> NDArray[np.bool_]:
        """Which of them have a feature of the template, bool (n).

        rows: those that are asked about, maybe some of them more than once. relations: int32
        (n, 3), what stands above each.
        """
        if template.part == TAG:
            return self.left[rows] < 0
        found = (self.right if template.binary_only else self.left)[rows] >= 0
        return found & (relations[:, 2] > 0) if template.sibling else found

    def select(self, chosen: NDArray[Any]) -> Sites:
        """Some of them."""
        names = ("symbol", "left", "right", "relations", "words", "tags")
        return Sites(*(getattr(self, name)[chosen] for name in names))


def sites_of_trees(data: TreebankData) -> tuple[Sites, NDArray[np.int64]]:
    """The productions of binarised trees, one for each node, and the tree of each, int64 (n)."""
    n = data.n_nodes
    tree = np.repeat(np.arange(data.n_trees), np.diff(data.offsets))
    is_word = data.is_word
    nodes = np.arange(n)
    # The word at the end of each path down the left, or down the right, by doubling its steps.
    first = _ends(np.where(is_word, nodes, data.left))
    last = _ends(np.where(is_word, nodes, np.where(data.right >= 0, data.right, data.left)))
    rows = np.full(n, -1, dtype=np.int64)
    rows[is_word] = np.arange(is_word.sum()) + tree[is_word] + 1
    first, last = rows[first], rows[last]
    split = np.where(data.is_binary, first[data.right], -1)
    left_end = np.where(data.is_binary, split - 1, -1)
    places = np.stack([first, last, left_end, split, first - 1, last + 1], axis=1)
    tag_of_row = np.full(int(is_word.sum()) + data.n_trees + 1, -1, dtype=np.int32)
    tag_of_row[rows[is_word]] = data.symbol[is_word]
    # The last row is a boundary, without a tag, and so is what is nowhere.
    tags = tag_of_row[places[:, :4]]
    symbol = data.symbol
    own = np.where(is_word, -1, symbol[data.left]).astype(np.int32)
    other = np.where(data.is_binary, symbol[data.right], -1).astype(np.int32)
    relations = _relations(data, nodes)
    return Sites(symbol, own, other, relations, places, tags), tree


def _ends(step: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where one stands after as many steps as can be made; an end leads to itself."""
    while True:
        further = step[step]
        if np.array_equal(further, step):
            return step
        step = further


def _relations(data: TreebankData, nodes: NDArray[np.int64]) -> NDArray[np.int32]:
    symbols = data.symbols
    n_tags, last = symbols.n_tags, symbols.n_tags + symbols.n_phrases
    above = np.full(len(nodes), -1, dtype=np.int64)
    sister = np.full(len(nodes), -1, dtype=np.int32)
    for child, other in ((data.left, data.right), (data.right, data.left)):
        has = child >= 0
        above[child[has]] = nodes[has]
        both = has & (other >= 0)
        sister[child[both]] = data.symbol[other[both]]
    between = data.symbol >= last
    # The phrase that an intermediate is part of; others are that themselves.
    phrase = _ends(np.where(between, above, nodes))
    # Over the top stands the root, as a node beyond the last one.
    over = phrase[np.append(above, -1)[phrase]]
    root = above[phrase] < 0
    own = np.where(data.symbol[phrase] < n_tags, 0, data.symbol[phrase] - n_tags + 1)
    parent = np.where(root, 0, own[over])
    grandparent = np.where(root, 0, parent[over])
    sibling = np.where(between, sister + 1, 0)
    return np.stack([parent, grandparent, sibling], axis=1).astype(np.int32)


class FragmentForests:
    """Forests in which each feature belongs to an edge, and the productions of these.

    graphs: the forests refined: nodes are told apart by the tags at the ends of their spans and by
    what stands above them, as far as templates ask. local: int64 (E), for each edge of `graphs`
    its row in `sites`, for features that do not look up, -1 for an edge that makes nothing.
    relations: int32 (E, 3), what stands above it. edges: int64 (E), the edge of the forests given.

    kept: a mask of the edges given, of trees that must stay where a forest is too large: see
    `bounded`.
    """

    def __init__(
        self,
        graphs: Hypergraphs,
        templates: FragmentTemplates,
        symbols: Symbols,
        binarization: str,
        kept: Mask | None = None,
    ):
        graphs, chosen = bounded(graphs, templates, symbols.n_tags, kept)
        edges, tags = np.arange(len(graphs.scores)), None
        if templates.tags:
            tagged = with_edge_tags(graphs, symbols.n_tags)
            graphs, edges, tags = tagged.graphs, tagged.edges, tagged.states
        production = np.flatnonzero(graphs.made >= 0)
        self.sites = _sites_of_edges(graphs, production, tags)
        rows = np.full(len(edges), -1, dtype=np.int64)
        rows[production] = np.arange(len(production))
        if templates.above:
            refined = with_ancestors(
                graphs, symbols, binarization, depth=templates.depth, sibling=templates.sibling
            )
            source = refined.edges
            graphs, edges, rows = refined.graphs, edges[source], rows[source]
            self.relations = refined.states[graphs.heads]
        else:
            self.relations = np.zeros((len(edges), 3), dtype=np.int32)
        self.graphs, self.edges, self.local = graphs, chosen[edges], rows


def bounded(
    graphs: Hypergraphs, templates: FragmentTemplates, n_tags: int, kept: Mask | None = None
) -> tuple[Hypergraphs, NDArray[np.int64]]:
    """Forests of which none is too large to be refined, and the edges that these have, int64.

    Where a sentence might have more than `MOST_EDGES` edges once the tags at the ends of spans tell
    them apart, as one of fifty unknown words has, those of the lowest posteriors by the scores of
    the forest are left out, until it has not; the best tree always stays. kept: edges that must
    stay, too, a mask (E).
    """
    chosen = np.arange(len(graphs.scores))
    weights = _copies(graphs, n_tags) if templates.tags else np.ones(len(chosen))
    owner = graphs.edge_sentences
    large = np.bincount(owner, weights, len(graphs)) > MOST_EDGES
    if not large.any():
        return graphs, chosen
    posteriors = graphs.inside_outside(graphs.scores)[1]
    stay = ~large[owner] | graphs.best(graphs.scores)[1]
    if kept is not None:
        stay |= kept
    # The likeliest first, as long as there is room.
    order = np.lexsort((-posteriors, owner))
    totals = np.cumsum(weights[order])
    before = np.append(0.0, totals)[graphs.edge_offsets[:-1]]
    stay[order[totals - before[owner[order]] <= MOST_EDGES]] = True
    return graphs.thinned(stay), chosen[stay]


def _copies(graphs: Hypergraphs, n_tags: int) -> NDArray[np.float64]:
    """How many copies of each edge tags can make at most, float64 (E): the product of the numbers
    of tags of the words at the ends and the split of its span.
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
    """The productions of edges. tags: int32 (N, 2), the first and the last of each node."""
    sentence = graphs.edge_sentences[edges]
    tails = graphs.tails[edges].astype(np.int64)
    has = tails >= 0
    tails = np.where(has, tails + graphs.node_offsets[sentence][:, None], 0)
    items = graphs.items
    own = items[graphs.made[edges]]
    below = items[graphs.node_items[tails]] if len(tails) else np.zeros((0, 2, 3), np.int32)
    # Each sentence follows a boundary.
    base = (cumulative(graphs.n_words)[:-1] + np.arange(len(graphs)) + 1)[sentence]
    first, last = base + own[:, 1], base + own[:, 2] - 1
    split = np.where(has[:, 1], base + below[:, 1, 1], -1)
    left_end = np.where(has[:, 1], split - 1, -1)
    words = np.stack([first, last, left_end, split, first - 1, last + 1], axis=1)
    found = np.full((len(edges), 4), -1, dtype=np.int32)
    if tags is not None:
        two = has[:, 1]
        lower = tags[tails]
        is_tag = ~has[:, 0]
        found[:, 0] = np.where(is_tag, own[:, 0], lower[:, 0, 0])
        found[:, 1] = np.where(is_tag, own[:, 0], np.where(two, lower[:, 1, 1], lower[:, 0, 1]))
        found[two, 2] = lower[two, 0, 1]
        found[two, 3] = lower[two, 1, 0]
    return Sites(
        np.ascontiguousarray(own[:, 0]),
        np.where(has[:, 0], below[:, 0, 0], -1).astype(np.int32),
        np.where(has[:, 1], below[:, 1, 0], -1).astype(np.int32),
        np.zeros((len(edges), 3), dtype=np.int32),
        words,
        found,
    )


class FeatureHasher:
    """From productions to the hashes of their features.

    templates: those of the features. vocabulary: uint64, hashes of the known words. Several threads
    may ask at once.
    """

    def __init__(self, templates: FragmentTemplates, vocabulary: Hashes):
        self.templates = templates
        self._words = WordAttributes(templates.attributes, vocabulary.tolist())
        self._columns = {name: i for i, name in enumerate(templates.attributes)}
        self._seeds = {t.text: np.uint64(hash_of(f"fragment:{t.text}")) for t in templates.all}

    def attributes(self, sentences: Sentences) -> Hashes:
        """Those of the words, uint64 (n_words + n_sentences + 1, n); see `Sites`."""
        hashes = self._words.hashes(sentences)
        sizes = [len(sentence) for sentence in sentences]
        rows = np.full((len(hashes) + len(sizes) + 1, hashes.shape[1]), BOUNDARY, np.uint64)
        sentence = np.repeat(np.arange(len(sizes)), sizes)
        rows[np.arange(len(hashes)) + sentence + 1] = hashes
        return rows

    def parts(self, sites: Sites) -> dict[str, Hashes]:
        """The hash of the production and of the label of each site, as `keys` takes them."""
        label = _mixed(np.uint64(0), sites.symbol)
        return {LABEL: label, TAG: label, RULE: _mixed(_mixed(label, sites.left), sites.right)}

    def keys(
        self,
        template: Template,
        sites: Sites,
        part: Hashes,
        relations: NDArray[np.int32],
        attributes: Hashes,
    ) -> Hashes:
        """The feature of a template at each site, all of which have one: uint64 (n).

        part: of each, see `parts`. relations: int32 (n, 3). attributes: see `attributes`.
        """
        keys = part ^ self._seeds[template.text]
        for column in range(template.depth):
            keys = _mixed(keys, relations[:, column])
        if template.sibling:
            keys = _mixed(keys, relations[:, 2])
        for name, position in template.words:
            place = POSITIONS.index(position)
            if name == TAG:
                keys = _mixed(keys, sites.tags[:, place])
            else:
                rows = sites.words[:, place]
                keys = _fragments.mix_pairs(keys, attributes[rows, self._columns[name]])
        return keys


def _mixed(keys: Any, numbers: NDArray[np.int32]) -> Hashes:
    """Keys that depend on small numbers from -1 on, too."""
    keys = np.broadcast_to(keys, numbers.shape)
    return _fragments.mix_pairs(
        np.ascontiguousarray(keys), (numbers + np.int32(2)).astype(np.uint64)
    )
