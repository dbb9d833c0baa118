"""Drawings of a constituency tree: as text, as SVG, as LaTeX.

The upright drawings (text and SVG) share one layout. Every node has a block of columns, as wide as
its label or the blocks of its children next to each other, so nodes on different branches never
overlap. All words are in the bottom row, and a phrase is one level above its highest child. No
function recurses, so a tree may be thousands of nodes deep.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from ..errors import StructlearnError
from ..trees.tree import Tree
from .html import Svg, escaped, printable, tagged

FONT_SIZE = 14  # of drawings, in pixels
_SMALL = 0.75 * FONT_SIZE
MOST_INDENTED = 40  # levels of lines


def tree_text(tree: Tree, *, width: int | None = 80) -> str:
    """Draw a tree as text: upright, or indented if that is wider than `width` columns.

    width: None for upright trees of any width.
    """
    layout = _lay_out(tree, columns, gap=1)
    return _upright(layout) if width is None or layout.widths[0] <= width else indented_text(tree)


def indented_text(tree: Tree) -> str:
    """Draw a tree as text with one node per line, below its parent."""
    lines: list[str] = []
    stack = [(tree, "", "")]  # node, prefix of its line, prefix of its children
    while stack:
        node, before, below = stack.pop()
        lines.append((before + printable(f"{node.label} {node.word or ''}")).rstrip())
        if node.children:
            *others, last = node.children
            stack.append((last, f"{below}└─ ", f"{below}   "))
            stack.extend((child, f"{below}├─ ", f"{below}│  ") for child in reversed(others))
    return "\n".join(lines)


def tree_lines(tree: Tree, *, probabilities: Sequence[float | None] | None = None) -> Iterator[str]:
    """Draw a tree turned and compact, as items of a list of HTML; see `html.either`.

    A line has a phrase, an only child after it, and the words before the first phrase in it. Words
    between phrases share a line.
    probabilities: see `tree_svg`.
    """
    brackets = iter(_brackets(tree, probabilities))
    stack: list[tuple[list[Tree], int]] = [([tree], 0)]  # a phrase, or words; depth
    while stack:
        words, depth = stack.pop()
        node, parts = words[0], []
        while node.word is None:
            text, figure, tip = next(brackets)
            figure = f" <i>{figure}</i>" if figure else ""
            parts.append(f'<b title="{escaped(tip)}">{escaped(text)}{figure}</b>')
            groups = [
                part
                for is_word, group in groupby(node.children, lambda child: child.word is not None)
                for part in ([[*group]] if is_word else [[child] for child in group])
            ]
            words = groups.pop(0) if groups[0][0].word is not None else []
            if words or len(groups) > 1:
                stack += [(part, depth + 1) for part in reversed(groups)]
                break
            ((node,),) = groups
        parts += [f"<span>{tagged(leaf.word or '', leaf.label)}</span>" for leaf in words]
        depth = min(depth, MOST_INDENTED)
        yield f' aria-level="{depth + 1}" style="--d:{depth}">{" ".join(parts)}'


def tree_svg(
    tree: Tree, *, probabilities: Sequence[float | None] | None = None, right_to_left: bool = False
) -> Svg:
    """Draw a tree as a standalone `<svg>` element in the colour of the text around it.

    Widths of text are estimated generously for common sans-serif fonts, so labels do not overlap.
    The words are the accessible name.

    probabilities: the probability of each bracket, or None, in the order of `tree.spans()`. They
        are shown below the labels, and with more digits as tooltips.
    right_to_left: whether the first word is on the right.
    Raises StructlearnError for another number of probabilities than brackets.
    """
    found = _brackets(tree, probabilities)
    figures, brackets = [figure for _, figure, _ in found], iter(found)
    least = max((pixels(figure, _SMALL) for figure in figures), default=1)
    layout = _lay_out(tree, pixels, gap=FONT_SIZE, least=least)
    if right_to_left:  # mirrored
        right = layout.widths[0]
        lefts = [right - left - w for left, w in zip(layout.lefts, layout.widths, strict=True)]
        anchors = [right - 1 - anchor for anchor in layout.anchors]
        layout = layout._replace(lefts=lefts, anchors=anchors)
    # Below the baseline of a label: its descenders and, if there is one, its probability.
    drop = round(FONT_SIZE * (1.1 if any(figures) else 0.35))
    level_height, top = 2 * FONT_SIZE + drop, layout.levels[0]

    def baseline(level: int) -> int:
        return 2 * FONT_SIZE + (top - level) * level_height

    def centred(i: int, y: float, text: str, size: float = FONT_SIZE, attributes: str = "") -> str:
        width = pixels(text, size)
        x = FONT_SIZE + layout.start(i, width) + width / 2
        return f'<text x="{x:.10g}" y="{y:.10g}"{attributes}>{escaped(text)}</text>'

    word_line = baseline(1) + round(1.4 * FONT_SIZE)
    lines = ['<g fill="none" stroke="currentColor" stroke-opacity="0.5">']
    texts = [
        f'<g fill="currentColor" font-family="sans-serif" font-size="{FONT_SIZE}" '
        'text-anchor="middle">'
    ]
    for i, node in enumerate(layout.nodes):
        text = printable(node.label)
        level = layout.levels[i]
        y = baseline(level)
        label = centred(i, y, text)
        if node.word is not None:
            texts += [label, centred(i, word_line, printable(node.word))]
            continue
        # The bar is above the labels of the next level. From there the lines go down inside the
        # blocks of the children, where there are no other labels.
        bar = baseline(level - 1) - round(1.3 * FONT_SIZE)
        ends = [
            (FONT_SIZE + layout.anchors[child], baseline(layout.levels[child]) - FONT_SIZE)
            for child in layout.children[i]
        ]
        lines.append(_svg_bracket(FONT_SIZE + layout.anchors[i], y + drop, bar, ends))
        _, figure, tip = next(brackets)
        if figure:
            figure = centred(i, y + 0.85 * FONT_SIZE, figure, _SMALL, f' font-size="{_SMALL:g}"')
            label = f"<g><title>{escaped(tip)}</title>{label}{figure}</g>"
        texts.append(label)
    name, groups = escaped(" ".join(tree.words())), "\n".join([*lines, "</g>", *texts, "</g>"])
    width, height = layout.widths[0] + 2 * FONT_SIZE, word_line + FONT_SIZE
    return Svg(
        '<svg xmlns="http://www.w3.org/2000/svg" role="img" '
        f'aria-label="{name}" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f"<title>{name}</title>\n{groups}\n</svg>\n"
    )


def _brackets(
    tree: Tree, probabilities: Sequence[float | None] | None
) -> list[tuple[str, str, str]]:
    """Return label, probability and tooltip of the brackets; raise SL113 for a wrong number."""
    spans = tree.spans()
    numbers = [None] * len(spans) if probabilities is None else probabilities
    if len(numbers) != len(spans):
        raise StructlearnError("SL113", brackets=len(spans), found=len(numbers))
    brackets = []
    for (label, start, end), p in zip(spans, numbers, strict=True):
        text, figure, digits = printable(label), "", ""
        if p is not None:
            figure, digits = f"{p:.2f}", f" {p:.4f}"
        brackets.append((text, figure, f"{text} [{start}:{end}]{digits}"))
    return brackets


def tree_latex(tree: Tree) -> str:
    """Draw a tree for the LaTeX package `forest`, with all words in one line."""
    lines = [r"\begin{forest}", "  where n children=0{tier=word}{}"]
    stack: list[tuple[Tree | None, int]] = [(tree, 1)]
    while stack:
        node, depth = stack.pop()
        if node is None:
            lines[-1] += "]"
            continue
        # Deeper indentation would make the length of deep trees quadratic.
        indent = "  " * min(depth, 40)
        # Braces protect brackets, commas, equals signs and blanks, which are special here.
        label, word = (
            printable(t).translate(_LATEX_SPECIAL) for t in (node.label, node.word or "")
        )
        if node.word is not None:
            lines.append(f"{indent}[{{{label}}} [{{{word}}}]]")
        else:
            lines.append(f"{indent}[{{{label}}}")
            stack.append((None, depth))
            stack.extend((child, depth + 1) for child in reversed(node.children))
    return "\n".join([*lines, r"\end{forest}"])


_LATEX_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{character: "\\" + character for character in "{}$&#_%"},
    }
)


class _TreeLayout(NamedTuple):
    """The places of the nodes in pre-order, in columns or pixels from the left.

    children: indices of the children.
    levels: 1 for a leaf; for a phrase, one more than its highest child.
    lefts, widths: the block of each node.
    anchors: the ends of the lines to the nodes; for a phrase, midway between its first and its last
        child.
    """

    nodes: list[Tree]
    children: list[list[int]]
    levels: list[int]
    lefts: list[int]
    widths: list[int]
    anchors: list[int]

    def start(self, i: int, width: int) -> int:
        """Find the left end of a text in the block of node i, centred on its anchor if possible."""
        if self.nodes[i].word is not None:
            return self.lefts[i] + (self.widths[i] - width) // 2
        last = self.lefts[i] + self.widths[i] - width
        return max(self.lefts[i], min(self.anchors[i] - (width - 1) // 2, last))


def _lay_out(tree: Tree, measure: Callable[[str], int], gap: int, least: int = 1) -> _TreeLayout:
    """Lay out a tree.

    measure: function from a text to its width.
    gap: the space between two blocks.
    least: minimum width of the block of a phrase.
    """
    nodes = list(tree.subtrees())
    n = len(nodes)
    children: list[list[int]] = [[]] * n
    levels, lefts, widths, anchors = [1] * n, [0] * n, [0] * n, [0] * n
    inner = [0] * n  # the width of the children
    open_: list[int] = []
    for i in reversed(range(n)):
        node = nodes[i]
        widths[i] = max(1, measure(printable(node.label)))
        if node.word is not None:
            widths[i] = max(widths[i], measure(printable(node.word)))
        else:
            children[i] = below = [open_.pop() for _ in node.children]
            levels[i] = 1 + max(levels[child] for child in below)
            inner[i] = sum(widths[child] for child in below) + gap * (len(below) - 1)
            widths[i] = max(widths[i], inner[i], least)
        open_.append(i)
    for i in range(n):
        left = lefts[i] + (widths[i] - inner[i]) // 2
        for child in children[i]:
            lefts[child] = left
            left += widths[child] + gap
    for i in reversed(range(n)):
        below = children[i]
        if below:
            anchors[i] = (anchors[below[0]] + anchors[below[-1]]) // 2
        else:
            anchors[i] = lefts[i] + (widths[i] - 1) // 2
    return _TreeLayout(nodes, children, levels, lefts, widths, anchors)


def _upright(layout: _TreeLayout) -> str:
    """Draw the upright text: a row of labels and a row of lines per level, then tags and words."""
    top = layout.levels[0]
    rows: list[list[tuple[int, str]]] = [[] for _ in range(2 * top)]  # (column, text) pieces
    for i, node in enumerate(layout.nodes):
        label = printable(node.label)
        row = 2 * (top - layout.levels[i])
        rows[row].append((layout.start(i, columns(label)), label))
        if node.word is not None:
            word = printable(node.word)
            rows[row + 1].append((layout.start(i, columns(word)), word))
            continue
        anchors = [layout.anchors[child] for child in layout.children[i]]
        rows[row + 1].append((anchors[0], _joints(layout.anchors[i], anchors)))
        for child, anchor in zip(layout.children[i], anchors, strict=True):
            for passed in range(row + 2, 2 * (top - layout.levels[child])):
                rows[passed].append((anchor, "│"))
    return "\n".join(map(_row, rows))


def _joints(anchor: int, children: list[int]) -> str:
    """Draw the line between a phrase and its children, from the first child to the last."""
    first, last = children[0], children[-1]
    if first == last:
        return "│"
    line = ["─"] * (last - first + 1)
    for child in children:
        line[child - first] = "┬"
    line[0], line[-1] = "┌", "┐"
    line[anchor - first] = "┼" if anchor in children else "┴"
    return "".join(line)


def _row(pieces: list[tuple[int, str]]) -> str:
    """Join pieces of text at their columns to one line."""
    line: list[str] = []
    end = 0
    for column, text in sorted(pieces):
        line.append(" " * (column - end) + text)
        end = column + columns(text)
    return "".join(line).rstrip()


def columns(text: str) -> int:
    """Count the columns of a text in a terminal.

    Wide characters take two (Unicode Standard Annex 11, East Asian Width), combining marks and
    format characters none.
    """
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.category(character) in ("Mn", "Me", "Cf")
        else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def pixels(text: str, font_size: float = FONT_SIZE) -> int:
    """Estimate the width of a text in a sans-serif font generously."""
    broad = sum(character.isupper() or character in "mw%@" for character in text)
    return round(font_size * (0.62 * columns(text) + 0.2 * broad))


def _svg_bracket(x: int, y: int, bar: int, ends: list[tuple[int, int]]) -> str:
    """Draw lines from (x, y) below a phrase, via the height `bar`, to (x, y) above each child."""
    path = f"M{x},{y}"
    if len(ends) == 1:
        path += f"V{ends[0][1]}"
    else:
        path += f"V{bar}M{ends[0][0]},{bar}H{ends[-1][0]}"
        path += "".join(f"M{column},{bar}V{end}" for column, end in ends)
    return f'<path d="{path}"/>'
