"""Drawings of a Bayesian network (Toutanova 2006, Figure 2): as SVG, and as DOT for Graphviz.

The SVG has layers (Sugiyama, Tagawa & Toda 1981): the class on top, and every variable below its
parents. Barycenters determine the order within a layer, so that few lines cross, and least squares
the places. A line has a slot in each layer that it passes, so it touches no node there. The lines
from a node to its children share their slots.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from html import escape
from math import ceil, sqrt
from typing import NamedTuple

from ..errors import StructlearnError
from .html import Svg, printable, svg_document, svg_group, svg_text
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
    network = _Network.of(parents, target, names or {})
    picture = _lay_out(network, font_size)
    factors = network.factors()
    nodes = []
    for node, text in enumerate(network.names):
        x, y = picture.centres[node], picture.tops[picture.layers[node]]
        width = picture.widths[node]
        strong = ' fill-opacity="0.12" stroke-width="2"' if node == 0 else ""
        nodes.append(
            f"<g><title>{escape(factors[node])}</title>"
            f'<rect x="{x - width / 2:g}" y="{y:g}" width="{width}" '
            f'height="{picture.height_of_node:g}" rx="{font_size / 2:g}"{strong}/>'
            f"{svg_text(x, y + 1.35 * font_size, text, _TEXT)}</g>"
        )
    return svg_document(
        " ".join(factors) if title is None else title,
        picture.width,
        picture.height,
        _STYLE,
        svg_group(
            'fill="none" stroke="currentColor" stroke-width="1.2"', _svg_arcs(picture, network)
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
    network = _Network.of(parents, target, names or {})
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
    """A network whose nodes are numbered. 0 is the class, and variables follow their parents.

    ids: names of the nodes.
    names: names in the drawing.
    parents: the parents of each node, the class first.
    """

    ids: list[str]
    names: list[str]
    parents: list[list[int]]

    @classmethod
    def of(
        cls, parents: Mapping[str, Sequence[str]], target: str, names: Mapping[str, str]
    ) -> _Network:
        if problem := _problem(parents, target):
            raise StructlearnError("SL115", problem=problem)
        try:
            order = TopologicalSorter({v: (target, *above) for v, above in parents.items()})
            places = {
                name: i for i, name in enumerate(order.static_order() if parents else [target])
            }
        except CycleError as error:
            problem = f"there is a circle among {', '.join(sorted(map(repr, set(error.args[1]))))}"
            raise StructlearnError("SL115", problem=problem) from None
        arcs = [sorted({0, *(places[p] for p in parents[v])}) for v in list(places)[1:]]
        shown = [printable(str(names.get(name, name))) for name in places]
        return cls(list(map(str, places)), shown, [[], *arcs])

    def factors(self) -> list[str]:
        """Format the factor of each node, such as "P(n1 | class, p)"."""
        found = []
        for name, above in zip(self.names, self.parents, strict=True):
            given = ", ".join(self.names[parent] for parent in above)
            found.append(f"P({name} | {given})" if above else f"P({name})")
        return found


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


@dataclass
class _NetworkLayout:
    """The places of the nodes, and of the slots of lines that pass a layer, in pixels.

    Slots are numbered after the nodes.
    sources: for each slot, the node where its lines begin; for each node, its own number.
    layers: the layer of each node and slot.
    rows: nodes and slots of each layer, from left to right.
    lines: (from, to), between nodes and slots of adjacent layers.
    widths, centres: of nodes and slots.
    tops: of the layers.
    """

    sources: list[int]
    layers: list[int]
    rows: list[list[int]]
    lines: list[tuple[int, int]]
    widths: list[int]
    centres: list[float]
    tops: list[float]
    height_of_node: float
    width: int = 0
    height: int = 0


def _lay_out(network: _Network, font_size: int) -> _NetworkLayout:
    layout = _layered(network, font_size)
    _order(layout)
    _place(layout, font_size)
    margin = font_size
    layout.centres = [margin + centre for centre in layout.centres]
    ends = zip(layout.centres, layout.widths, strict=True)
    layout.width = margin + ceil(max(centre + width / 2 for centre, width in ends))
    y = float(margin)
    for row in range(len(layout.rows)):
        layout.tops.append(y)
        # Long lines need height; otherwise they would be almost horizontal and close together.
        reach = max(
            (
                abs(layout.centres[a] - layout.centres[b])
                for a, b in layout.lines
                if layout.layers[a] == row
            ),
            default=0,
        )
        y += layout.height_of_node + round(min(max(2.8 * font_size, reach / 5), 9 * font_size))
    layout.height = ceil(layout.tops[-1] + layout.height_of_node + margin)
    return layout


def _layered(network: _Network, font_size: int) -> _NetworkLayout:
    """Put each node into a layer below its parents, and cut lines where they pass a layer."""
    n = len(network.names)
    most = max(LEAST_ROW, ceil(sqrt(2 * n)))
    most = ceil(n / ceil(n / most))  # 7, 7, 6 instead of 9, 9, 2
    layers, sizes = [0] * n, {0: 1}
    for node in range(1, n):
        layer = 1 + max(layers[parent] for parent in network.parents[node])
        while sizes.get(layer, 0) == most:
            layer += 1
        layers[node] = layer
        sizes[layer] = sizes.get(layer, 0) + 1
    children: list[list[int]] = [[] for _ in range(n)]
    for node, above in enumerate(network.parents):
        for parent in above:
            children[parent].append(node)
    # A node must be wide enough for the heads of its arrows.
    widths = [
        max(pixels(name, font_size) + 2 * font_size, (len(above) + 1) * font_size)
        for name, above in zip(network.names, network.parents, strict=True)
    ]
    sources = list(range(n))
    lines = []
    for source in range(n):
        last, below = source, children[source]
        deepest = max((layers[child] for child in below), default=0)
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
    for node in range(n):
        rows[layers[node]].append(node)
    for slot in range(n, len(layers)):
        row = rows[layers[slot]]
        row.insert(len(row) // 2, slot)
    centres = [0.0] * len(layers)
    return _NetworkLayout(sources, layers, rows, lines, widths, centres, [], round(2.0 * font_size))


def _neighbours(layout: _NetworkLayout) -> tuple[list[list[int]], list[list[int]]]:
    """List the nodes and slots above, and those below, that each one has a line to."""
    above: list[list[int]] = [[] for _ in layout.layers]
    below: list[list[int]] = [[] for _ in layout.layers]
    for a, b in layout.lines:
        above[b].append(a)
        below[a].append(b)
    return above, below


def _order(layout: _NetworkLayout) -> None:
    """Order each layer by the barycenters of the layer above, then of the layer below, and so on.

    The order with the fewest crossings is kept.
    """
    above, below = _neighbours(layout)
    best, fewest = layout.rows, _crossings(layout.rows, below)
    rows = [list(row) for row in layout.rows]
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        neighbours = above if down else below
        for layer in range(len(rows)) if down else reversed(range(len(rows))):
            beside = layer - 1 if down else layer + 1
            if not 0 <= beside < len(rows):
                continue
            place = {node: i for i, node in enumerate(rows[beside])}
            keys = {}
            for i, node in enumerate(rows[layer]):
                found = [place[other] for other in neighbours[node]]
                # Without a neighbour there, a node stays about in place.
                scale = len(rows[beside]) / len(rows[layer])
                keys[node] = sum(found) / len(found) if found else i * scale
            rows[layer].sort(key=keys.__getitem__)
        _swap_neighbours(rows, above, below)
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    layout.rows = best


def _swap_neighbours(rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Swap adjacent nodes and slots if their lines then cross less."""
    for layer, row in enumerate(rows):
        places = {}
        for beside in (layer - 1, layer + 1):
            if 0 <= beside < len(rows):
                places.update({node: i for i, node in enumerate(rows[beside])})
        for i in range(len(row) - 1):
            a, b = row[i], row[i + 1]
            gain = 0
            for neighbours in (above, below):
                pairs = [(places[x], places[y]) for x in neighbours[a] for y in neighbours[b]]
                gain += sum((x > y) - (x < y) for x, y in pairs)
            if gain > 0:
                row[i], row[i + 1] = b, a


def _crossings(rows: list[list[int]], below: list[list[int]]) -> int:
    """Count the pairs of lines that cross, as inversions."""
    found = 0
    for layer in range(len(rows) - 1):
        place = {node: i for i, node in enumerate(rows[layer + 1])}
        seen: list[int] = []
        for node in rows[layer]:
            ends = sorted(place[child] for child in below[node])
            found += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return found


def _place(layout: _NetworkLayout, font_size: int) -> None:
    """Set the centres: short lines, straight long lines, no overlap."""
    above, below = _neighbours(layout)
    nodes = sum(source == place for place, source in enumerate(layout.sources))
    for row in layout.rows:
        _settle(layout, row, [0.0] * len(row), [1.0] * len(row), font_size)
    for sweep in range(2 * SWEEPS):
        order = layout.rows if sweep % 2 == 0 else layout.rows[::-1]
        for row in order:
            wanted, weights = [], []
            for place in row:
                # A node without lines stays in place.
                weight = 1e-6
                total = weight * layout.centres[place]
                for other in (*above[place], *below[place]):
                    # A straight line matters more between two slots than at a node.
                    pull = 1 + 2 * (place >= nodes) + 2 * (other >= nodes)
                    total += pull * layout.centres[other]
                    weight += pull
                wanted.append(total / weight)
                weights.append(weight)
            _settle(layout, row, wanted, weights, font_size)
    least = min(
        centre - width / 2 for centre, width in zip(layout.centres, layout.widths, strict=True)
    )
    layout.centres = [float(round(centre - least)) for centre in layout.centres]


def _settle(
    layout: _NetworkLayout, row: list[int], wanted: list[float], weights: list[float], gap: float
) -> None:
    """Put a row as near to the wanted centres as its order and the gap allow.

    This is weighted least squares under order constraints, by pooling adjacent violators.
    """
    offsets, offset = [], 0.0
    for i, place in enumerate(row):
        if i:
            offset += (layout.widths[row[i - 1]] + layout.widths[place]) / 2 + gap
        offsets.append(offset)
    pools: list[list[float]] = []  # mean, weight, count
    for target, weight, offset in zip(wanted, weights, offsets, strict=True):
        pools.append([target - offset, weight, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            mean, weight, count = pools.pop()
            last = pools[-1]
            last[0] = (last[0] * last[1] + mean * weight) / (last[1] + weight)
            last[1] += weight
            last[2] += count
    settled = [mean for mean, _, count in pools for _ in range(int(count))]
    for place, mean, offset in zip(row, settled, offsets, strict=True):
        layout.centres[place] = mean + offset


def _svg_arcs(layout: _NetworkLayout, network: _Network) -> list[str]:
    """Draw one path of lines and one of arrow heads for each node with children."""
    n = len(network.names)
    ports = _ports(layout, n)
    drawn: dict[int, tuple[list[str], list[str]]] = {}
    bottom = layout.height_of_node
    head = layout.height_of_node / 4
    for a, b in layout.lines:
        lines, heads = drawn.setdefault(layout.sources[a], ([], []))
        x, y = layout.centres[a], layout.tops[layout.layers[a]] + bottom
        end, tip = ports.get((a, b), layout.centres[b]), layout.tops[layout.layers[b]]
        if b < n:
            heads.append(f"M{end:g},{tip:g}l{-head / 2:g},{-head:g}h{head:g}z")
            tip -= head
        middle = (y + tip) / 2
        line = f"M{x:g},{y:g}C{x:g},{middle:g} {end:g},{middle:g} {end:g},{tip:g}"
        lines.append(line if b < n else f"{line}v{bottom:g}")
    paths = []
    for source in sorted(drawn):
        lines, heads = drawn[source]
        faint = 0.35 if source == 0 else 0.85
        paths.append(f'<path stroke-opacity="{faint}" d="{"".join(lines)}"/>')
        # Without a stroke, heads end exactly at their nodes.
        shade = f'stroke="none" fill="currentColor" fill-opacity="{faint}"'
        paths.append(f'<path {shade} d="{"".join(heads)}"/>')
    return paths


def _ports(layout: _NetworkLayout, n: int) -> dict[tuple[int, int], float]:
    """Find the ends of the lines into each node, side by side in the order of their origins."""
    arriving: dict[int, list[int]] = {}
    for a, b in layout.lines:
        if b < n:
            arriving.setdefault(b, []).append(a)
    ports = {}
    for node, others in arriving.items():
        others.sort(key=layout.centres.__getitem__)
        step = layout.widths[node] / (len(others) + 1)
        left = layout.centres[node] - layout.widths[node] / 2
        for i, other in enumerate(others, 1):
            ports[other, node] = left + i * step
    return ports
