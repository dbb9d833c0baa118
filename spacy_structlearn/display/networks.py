"""Drawings of a Bayesian network (Toutanova 2006, Figure 2): as SVG, and as DOT for Graphviz.

The SVG has layers (Sugiyama, Tagawa & Toda 1981): the class on top, and every variable below its
parents. Barycenters determine the order within a layer, so that few lines cross, and least squares
the places. A line has a slot in each layer that it passes, so it touches no node there. The lines
from a node to its children share their slots.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import groupby, pairwise
from math import ceil, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import StructlearnError
from .html import Svg, escaped, printable, svg_document, svg_group, svg_text
from .trees import pixels

LEAST_ROW = 8
"""Layers with at most this number of nodes are not divided."""
SWEEPS = 12

# As a file or an image, the drawing follows the light or dark colour scheme. In a page, where it
# is not the root, it has the colour of the page.
_STYLE = """\
<style>
svg:root { color: #1f2328; color-scheme: light dark; }
@media (prefers-color-scheme: dark) { svg:root { color: #e6edf3; } }
</style>"""


def network_svg(
    parents: Mapping[str, Sequence[str]],
    target: str = "class",
    *,
    names: Mapping[str, str] | None = None,
    title: str | None = None,
    font_size: int = 14,
) -> Svg:
    """Draw a network as a standalone `<svg>` element in the colour of the text around it.

    The lines from the class, which is a parent of every variable, are faint. Tooltips show the
    factors, such as P(n1 | class, p).

    parents: the parents of each variable other than the class, as in `BayesNet.parents`.
    target: the name of the class.
    names: names for the drawing, if they differ.
    title: the accessible name. None: the factors.
    font_size: in pixels.
    Raises StructlearnError for an unknown parent, a variable with the name of the class, a cycle,
    and a font size that is not positive.
    """
    if not font_size > 0:
        raise StructlearnError("SL116", value=font_size)
    network = _network(parents, target, names or {})
    layout = _lay_out(network, font_size)
    height = round(2.0 * font_size)
    nodes, factors = [], []
    for node, (text, above) in enumerate(zip(network.names, network.parents, strict=True)):
        given = ", ".join(network.names[parent] for parent in above)
        factors.append(f"P({text} | {given})" if above else f"P({text})")
        x, y, width = layout.centres[node], layout.tops[node], layout.widths[node]
        strong = ' fill-opacity="0.12" stroke-width="2"' if node == 0 else ""
        nodes.append(
            f"<g><title>{escaped(factors[node])}</title>"
            f'<rect x="{x - width / 2:g}" y="{y:g}" width="{width}" '
            f'height="{height:g}" rx="{font_size / 2:g}"{strong}/>'
            f"{svg_text(x, y + 1.35 * font_size, text, _TEXT)}</g>"
        )
    return svg_document(
        " ".join(factors) if title is None else title,
        ceil(max(layout.centres + layout.widths / 2)) + font_size,
        ceil(max(layout.tops)) + height + font_size,
        _STYLE,
        svg_group(
            'fill="none" stroke="currentColor" stroke-width="1.2"',
            _svg_arcs(layout, len(nodes), height),
        ),
        svg_group(
            'fill="currentColor" fill-opacity="0" stroke="currentColor" font-family="sans-serif" '
            f'font-size="{font_size}" text-anchor="middle"',
            nodes,
        ),
    )


_TEXT = ' fill-opacity="1" stroke="none"'


def network_dot(
    parents: Mapping[str, Sequence[str]],
    target: str = "class",
    *,
    names: Mapping[str, str] | None = None,
) -> str:
    """Draw a network in the DOT language of Graphviz; see `network_svg`."""
    network = _network(parents, target, names or {})
    ids: list[str] = []
    for name in network.ids:
        id_ = _dot_quoted(printable(name))
        ids.append(id_ if id_ not in ids else _dot_quoted(f"{printable(name)} {len(ids)}"))
    lines = ["digraph network {", '  node [shape=box, style=rounded, fontname="sans-serif"];']
    for node, text in enumerate(network.names):
        # Graphviz interprets character references in labels.
        label = _dot_quoted(text.replace("&", "&amp;"))
        lines.append(f"  {ids[node]} [label={label}{', penwidth=2' if node == 0 else ''}];")
    for node, above in enumerate(network.parents):
        for parent in above:
            faint = " [color=gray]" if parent == 0 else ""
            lines.append(f"  {ids[parent]} -> {ids[node]}{faint};")
    return "\n".join([*lines, "}", ""])


def _dot_quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


class _Network(NamedTuple):
    """A network whose nodes are numbered: 0 is the class, and variables follow their parents.

    ids, names: names in the arguments and in the drawing. parents: of each node, the class first.
    """

    ids: list[str]
    names: list[str]
    parents: list[list[int]]


def _network(
    parents: Mapping[str, Sequence[str]], target: str, names: Mapping[str, str]
) -> _Network:
    if problem := _problem(parents, target):
        raise StructlearnError("SL115", problem=problem)
    try:
        order = TopologicalSorter({target: (), **{v: (target, *parents[v]) for v in parents}})
        places = {name: i for i, name in enumerate(order.static_order())}
    except CycleError as error:
        problem = f"there is a circle among {', '.join(sorted(map(repr, set(error.args[1]))))}"
        raise StructlearnError("SL115", problem=problem) from None
    arcs = [sorted({0, *(places[p] for p in parents[v])}) for v in list(places)[1:]]
    shown = [printable(str(names.get(name, name))) for name in places]
    return _Network(list(map(str, places)), shown, [[], *arcs])


def _problem(parents: Mapping[str, Sequence[str]], target: str) -> str | None:
    """Describe why the arguments do not name the nodes of a network; None if they do."""
    if not isinstance(parents, Mapping):
        kind = type(parents).__name__
        return f"they are of the type {kind}; give a mapping, such as BayesNet.parents"
    if target in parents:
        return f"a variable has the name of the class, {target!r}; give another target"
    for variable, above in parents.items():
        if isinstance(above, str) or not isinstance(above, Iterable):
            return f"the parents of {variable!r} are {above!r}, not a list of names"
        for parent in above:
            if parent != target and parent not in parents:
                return f"{parent!r}, a parent of {variable!r}, is no variable"
    return None


class _Layout(NamedTuple):
    """The nodes, followed by the slots of lines that pass a layer; all places are in pixels.

    sources: for each slot, the node where its lines begin; for each node, its own number.
    lines: (from, to), between nodes and slots of adjacent layers.
    """

    sources: list[int]
    lines: list[tuple[int, int]]
    widths: NDArray[np.int64]
    centres: NDArray[np.float64]
    tops: NDArray[np.float64]


def _lay_out(network: _Network, font_size: int) -> _Layout:
    n = len(network.names)
    layers = _layers(network)
    # A node must be wide enough for the heads of its arrows.
    widths = [
        max(pixels(name, font_size) + 2 * font_size, (len(above) + 1) * font_size)
        for name, above in zip(network.names, network.parents, strict=True)
    ]
    sources = list(range(n))
    lines = []
    for source in range(n):
        below = [node for node in range(n) if source in network.parents[node]]
        last, deepest = source, max((layers[child] for child in below), default=0)
        for layer in range(layers[source] + 1, deepest + 1):
            lines += [(last, child) for child in below if layers[child] == layer]
            if layer < deepest:
                slot = len(sources)
                sources.append(source)
                layers.append(layer)
                widths.append(font_size // 2)
                lines.append((last, slot))
                last = slot
    rows: list[list[int]] = [[] for _ in range(max(layers) + 1)]
    for place, layer in enumerate(layers):
        row = rows[layer]
        row.insert(len(row) if place < n else len(row) // 2, place)
    centres = _centres(_ordered(rows, lines), lines, np.array(widths), n, font_size)
    heights = []
    for layer in range(len(rows)):
        # Long lines need height; otherwise they would be almost horizontal and close together.
        reach = max(
            (abs(centres[a] - centres[b]) for a, b in lines if layers[a] == layer), default=0
        )
        heights.append(
            round(2.0 * font_size) + round(min(max(2.8 * font_size, reach / 5), 9 * font_size))
        )
    tops = np.cumsum([float(font_size), *heights])
    return _Layout(sources, lines, np.array(widths), centres, tops[layers])


def _layers(network: _Network) -> list[int]:
    """Return the layer of each node, below those of its parents."""
    n = len(network.names)
    most = max(LEAST_ROW, ceil(sqrt(2 * n)))
    most = ceil(n / ceil(n / most))  # 7, 7, 6 instead of 9, 9, 2
    layers = [0]
    for above in network.parents[1:]:
        layer = 1 + max(layers[parent] for parent in above)
        while layers.count(layer) == most:
            layer += 1
        layers.append(layer)
    return layers


def _ordered(rows: list[list[int]], lines: list[tuple[int, int]]) -> list[list[int]]:
    """Order each layer by the barycenters of the layer above, then of the layer below, and so on.

    The order with the fewest crossings is kept.
    """
    above: dict[int, list[int]] = defaultdict(list)
    below: dict[int, list[int]] = defaultdict(list)
    for a, b in lines:
        above[b].append(a)
        below[a].append(b)
    best, fewest = rows, _crossings(rows, below)
    rows = [list(row) for row in rows]
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        neighbours = above if down else below
        for beside, row in pairwise(rows if down else rows[::-1]):
            place = {node: i for i, node in enumerate(beside)}
            keys = {}
            for i, node in enumerate(row):
                found = [place[other] for other in neighbours[node]]
                # Without a neighbour there, a node stays about in place.
                keys[node] = sum(found) / len(found) if found else i * len(beside) / len(row)
            row.sort(key=keys.__getitem__)
        # Adjacent nodes and slots are swapped if their lines then cross less.
        places = {node: i for row in rows for i, node in enumerate(row)}
        for row in rows:
            for i in range(len(row) - 1):
                a, b = row[i : i + 2]
                ends = [(x, y) for n in (above, below) for x in n[a] for y in n[b]]
                if sum((places[x] > places[y]) - (places[x] < places[y]) for x, y in ends) > 0:
                    row[i : i + 2] = b, a
                    places[a], places[b] = i + 1, i
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _crossings(rows: list[list[int]], below: Mapping[int, list[int]]) -> int:
    """Count the pairs of lines that cross, as inversions."""
    found = 0
    for row, following in pairwise(rows):
        place = {node: i for i, node in enumerate(following)}
        seen: list[int] = []
        for node in row:
            ends = sorted(place[child] for child in below[node])
            found += sum(len(seen) - bisect_right(seen, end) for end in ends)
            seen = sorted(seen + ends)
    return found


def _centres(
    rows: list[list[int]],
    lines: list[tuple[int, int]],
    widths: NDArray[np.int64],
    n: int,
    font_size: int,
) -> NDArray[np.float64]:
    """Place the nodes and slots of each layer: short lines, straight long lines, no overlap."""
    # A node without lines stays in place.
    pulls = 1e-6 * np.eye(len(widths))
    for a, b in lines:
        # A straight line matters more between two slots than at a node.
        pulls[a, b] = pulls[b, a] = 1 + 2 * (a >= n) + 2 * (b >= n)
    weights = pulls.sum(axis=1)
    centres = np.zeros(len(widths))
    for row in rows:
        centres[row] = _settled(np.zeros(len(row)), np.ones(len(row)), widths[row], font_size)
    for sweep in range(2 * SWEEPS):
        for row in rows[:: 1 if sweep % 2 == 0 else -1]:
            wanted = pulls[row] @ centres / weights[row]
            centres[row] = _settled(wanted, weights[row], widths[row], font_size)
    return np.round(centres - min(centres - widths / 2)) + font_size


def _settled(
    wanted: NDArray[Any], weights: NDArray[Any], widths: NDArray[Any], gap: int
) -> NDArray[np.float64]:
    """Put a row as near to the wanted centres as its order and the gap allow.

    This is weighted least squares under order constraints, by pooling adjacent violators.
    """
    offsets = np.cumsum([0, *((widths[1:] + widths[:-1]) / 2 + gap)])
    pools: list[tuple[float, float, int]] = []  # mean, weight, count
    for mean, weight in zip(wanted - offsets, weights, strict=True):
        count = 1
        while pools and pools[-1][0] > mean:
            other, more, others = pools.pop()
            mean = (other * more + mean * weight) / (more + weight)
            weight, count = weight + more, count + others
        pools.append((mean, weight, count))
    means, _, counts = zip(*pools, strict=True)
    return np.repeat(means, counts) + offsets


def _svg_arcs(layout: _Layout, n: int, height: int) -> Iterable[str]:
    """Draw one path of lines and one of arrow heads for each of the n nodes with children."""
    ports = _ports(layout, n)
    head = height / 4
    for source, group in groupby(layout.lines, key=lambda line: layout.sources[line[0]]):
        lines, heads = [], []
        for a, b in group:
            x, y = layout.centres[a], layout.tops[a] + height
            end, tip = ports.get((a, b), layout.centres[b]), layout.tops[b]
            if b < n:
                heads.append(f"M{end:g},{tip:g}l{-head / 2:g},{-head:g}h{head:g}z")
                tip -= head
            middle = (y + tip) / 2
            line = f"M{x:g},{y:g}C{x:g},{middle:g} {end:g},{middle:g} {end:g},{tip:g}"
            lines.append(line if b < n else f"{line}v{height:g}")
        faint = 0.35 if source == 0 else 0.85
        yield f'<path stroke-opacity="{faint}" d="{"".join(lines)}"/>'
        # Without a stroke, heads end exactly at their nodes.
        shade = f'stroke="none" fill="currentColor" fill-opacity="{faint}"'
        yield f'<path {shade} d="{"".join(heads)}"/>'


def _ports(layout: _Layout, n: int) -> dict[tuple[int, int], float]:
    """Find the ends of the lines into each node, side by side in the order of their origins."""
    arriving = sorted((b, layout.centres[a], a) for a, b in layout.lines if b < n)
    ports = {}
    for node, group in groupby(arriving, key=lambda line: line[0]):
        others = [other for *_, other in group]
        left, width = layout.centres[node] - layout.widths[node] / 2, layout.widths[node]
        for i, other in enumerate(others, 1):
            ports[other, node] = left + i * width / (len(others) + 1)
    return ports
