"""Drawings of trees: every line meets what it joins, no label covers another, nothing is lost."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from display import drawn
from display.drawn import read_html
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.display.html import printable
from spacy_structlearn.display.trees import (
    columns,
    indented_text,
    tree_latex,
    tree_lines,
    tree_svg,
    tree_text,
)
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.tree import Tree

SVG = "{http://www.w3.org/2000/svg}"
LABELS = st.sampled_from(["S", "NP", "VP", "NP-SBJ-1", "PRN", "@VERYLONG|LABEL"])
TAGS = st.sampled_from(["NN", ".", "PRP$", "-LRB-"])
ANYTHING = st.text(max_size=8)


def trees(labels, tags, words):
    return st.recursive(
        st.builds(Tree.leaf, tags, words),
        lambda inner: st.builds(Tree, labels, st.lists(inner, min_size=1, max_size=4)),
    )


TREES = trees(LABELS, TAGS, st.text("aW猫漢é#", min_size=1, max_size=8))
STRANGE = trees(ANYTHING, ANYTHING, ANYTHING)


def ducks() -> Tree:
    return parse_tree(
        "(S (NP (PRP We)) (VP (VBD fed) (NP (DT the) (JJ hungry) (NNS ducks))) (. .))"
    )


# --- text -----------------------------------------------------------------------------------
def test_upright():
    assert tree_text(ducks()).splitlines() == [
        "             S",
        " ┌────────┬──┴───────────┐",
        " │        VP             │",
        " │   ┌────┴────┐         │",
        " NP  │         NP        │",
        " │   │   ┌────┬┴─────┐   │",
        "PRP VBD DT    JJ    NNS  .",
        "We  fed the hungry ducks .",
    ]


def test_indented_where_it_does_not_fit():
    widest = max(map(len, tree_text(ducks(), width=None).splitlines()))
    assert tree_text(ducks(), width=widest) == tree_text(ducks(), width=None)
    assert tree_text(ducks(), width=widest - 1) == indented_text(ducks())
    assert indented_text(ducks()).splitlines() == [
        "S",
        "├─ NP",
        "│  └─ PRP We",
        "├─ VP",
        "│  ├─ VBD fed",
        "│  └─ NP",
        "│     ├─ DT the",
        "│     ├─ JJ hungry",
        "│     └─ NNS ducks",
        "└─ . .",
    ]


def test_white_space_and_control_characters_cannot_break_the_lines():
    tree = Tree("S", [Tree.leaf("_SP", "\n"), Tree.leaf("N\tN", "a\u2028b\x00\ud800")])
    assert len(tree_text(tree, width=None).splitlines()) == 4
    assert tree_text(tree, width=None).splitlines()[-1] == "    a b\ufffd\ufffd"
    assert indented_text(tree).splitlines() == ["S", "├─ _SP", "└─ N N a b\ufffd\ufffd"]


# The sides on which each character has an arm.
ARMS = {"─": "lr", "│": "ud", "┌": "rd", "┐": "ld", "┬": "lrd", "┴": "lru", "┼": "lrud"}


def grid(text: str) -> list[list[str]]:
    """The characters by row and column; a wide one stands in both of its columns."""
    rows = [[c for c in line for _ in range(columns(c))] for line in text.splitlines()]
    width = max(map(len, rows)) + 2
    return [[" ", *row, *[" "] * (width - len(row))] for row in rows]


@given(TREES)
def test_every_line_joins_two_nodes(tree):
    rows = grid(tree_text(tree, width=None))
    # Each phrase has one line down; each node but the root has one up.
    down = up = 0
    for y, row in enumerate(rows):
        for x, character in enumerate(row):
            arms = ARMS.get(character, "")
            if "l" in arms:
                assert "r" in ARMS[row[x - 1]]
            if "r" in arms:
                assert "l" in ARMS[row[x + 1]]
            if "d" in arms:
                below = rows[y + 1][x]
                assert below != " "
                assert "u" in ARMS.get(below, "u")
                up += below not in ARMS
            if "u" in arms:
                above = rows[y - 1][x]
                assert above != " "
                assert "d" in ARMS.get(above, "d")
                down += above not in ARMS
    nodes = list(tree.subtrees())
    assert down == sum(not node.is_leaf for node in nodes)
    assert up == len(nodes) - 1


@given(TREES)
def test_indented_text_has_all_nodes_in_pre_order(tree):
    lines = [re.sub(r"^[ ├└│─]*", "", line) for line in indented_text(tree).splitlines()]
    assert lines == [f"{node.label} {node.word or ''}".strip() for node in tree.subtrees()]


@given(STRANGE)
def test_any_characters_can_be_drawn(tree):
    assert len(tree_text(tree, width=None).split("\n")) == 2 * tree.height
    assert len(indented_text(tree).split("\n")) == len(list(tree.subtrees()))
    ET.fromstring(tree_svg(tree))
    tree_latex(tree).encode()


# --- SVG ------------------------------------------------------------------------------------
def boxes(svg: ET.Element) -> list[tuple[float, float, float, float]]:
    """Left, top, right, bottom of each text, at the widths of an ordinary sans-serif font."""
    found = []
    size = float(svg.findall(f"{SVG}g")[1].attrib["font-size"])
    for text in svg.iter(f"{SVG}text"):
        height = float(text.get("font-size", size))
        half = 0.58 * height * columns(text.text or "") / 2
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        found.append((x - half, y - 0.75 * height, x + half, y + 0.25 * height))
    return found


def strokes(svg: ET.Element) -> list[tuple[float, float, float, float]]:
    """The lines as (left, top, right, bottom); all are upright or level."""
    found = []
    for path in svg.iter(f"{SVG}path"):
        x = y = 0.0
        for command, numbers in re.findall(r"([MHV])([-\d.,]+)", path.attrib["d"]):
            values = [float(number) for number in numbers.split(",")]
            before = x, y
            x = values[0] if command in "MH" else x
            y = values[-1] if command in "MV" else y
            if command != "M":
                (left, top), (right, bottom) = sorted([before, (x, y)])
                found.append((left, top, right, bottom))
    return found


def overlap(a, b) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


@given(TREES, st.booleans(), st.booleans())
def test_nothing_in_the_svg_overlaps(tree, with_probabilities, right_to_left):
    probabilities = [0.5] * len(tree.spans()) if with_probabilities else None
    svg = ET.fromstring(tree_svg(tree, probabilities=probabilities, right_to_left=right_to_left))
    texts = boxes(svg)
    assert len(texts) == (len(list(tree.subtrees())) + len(tree.words()) + len(probabilities or ()))
    width, height = float(svg.attrib["width"]), float(svg.attrib["height"])
    for i, box in enumerate(texts):
        assert box[0] >= 0
        assert box[1] >= 0
        assert box[2] <= width
        assert box[3] <= height
        assert not any(overlap(box, other) for other in texts[:i])
    for line in strokes(svg):
        assert not any(overlap(line, box) for box in texts)


def test_svg_is_escaped_and_named():
    tree = Tree("S", [Tree.leaf("<&>", "R&D"), Tree.leaf('"', "'quoted' \"word\"")])
    svg = ET.fromstring(tree_svg(tree))
    assert svg.tag == f"{SVG}svg"
    assert svg.attrib["role"] == "img"
    assert svg.attrib["aria-label"] == "R&D 'quoted' \"word\""
    assert svg[0].tag == f"{SVG}title"
    assert svg[0].text == svg.attrib["aria-label"]
    assert [text.text for text in svg.iter(f"{SVG}text")] == [
        "S", "<&>", "R&D", '"', "'quoted' \"word\""
    ]  # fmt: skip


def test_probabilities_stand_below_the_labels_with_a_tooltip():
    probabilities = np.array([1.0, 0.98765, 0.5, 0.25])
    svg = ET.fromstring(tree_svg(ducks(), probabilities=probabilities))
    groups = [[child.text for child in group] for group in svg.findall(f"{SVG}g/{SVG}g")]
    assert groups == [
        ["S [0:6] 1.0000", "S", "1.00"],
        ["NP [0:1] 0.9877", "NP", "0.99"],
        ["VP [1:5] 0.5000", "VP", "0.50"],
        ["NP [2:5] 0.2500", "NP", "0.25"],
    ]
    ET.fromstring(tree_svg(Tree.leaf("NN", "duck"), probabilities=[]))


def lines(tree, **options):
    """Level and text of each line of a turned tree, tags in brackets."""
    items = read_html("".join(f"<div{line}</div>" for line in tree_lines(tree, **options)))
    for sub in items.iter("sub"):
        sub.text = f"[{sub.text}]"
    return [(int(item.get("aria-level")), drawn.text(item)) for item in items]


@pytest.mark.parametrize("probabilities", [[], [0.5] * 3, [0.5] * 5])
@pytest.mark.parametrize("draw", [tree_svg, lines])
def test_one_probability_for_each_bracket(draw, probabilities):
    with pytest.raises(StructlearnError, match="SL113"):
        draw(ducks(), probabilities=probabilities)


def test_lines_of_a_turned_tree():
    tree = parse_tree(
        "(S (NP (PRP We)) (VP (VBD sat) (PP (IN in) (NP (NP (NNP Rome)) (, ,) (CC or) (X (Y y)))))"
        " (. .))"
    )
    assert lines(tree, probabilities=[1, None, 0.456, *[None] * 4]) == [
        (1, "S 1.00"),
        (2, "NP We[PRP]"),
        (2, "VP 0.46 sat[VBD]"),
        (3, "PP in[IN]"),
        (4, "NP"),
        (5, "NP Rome[NNP]"),
        (5, ", or[CC]"),
        (5, "X y[Y]"),
        (2, "."),
    ]
    assert lines(parse_tree("(S (S (A a) (B (C c))))")) == [(1, "S S a[A]"), (2, "B c[C]")]
    assert lines(Tree.leaf("NN", "<b>")) == [(1, "<b>[NN]")]


@given(TREES)
def test_lines_have_all_labels_and_words_in_order(tree):
    items = read_html("".join(f"<div{line}</div>" for line in tree_lines(tree)))
    labels = [b.text or "" for b in items.iter("b")]
    assert labels == [printable(label) for label, _, _ in tree.spans()]
    words = [span.text or "" for span in items.iter("span")]
    assert words == [printable(word) for word in tree.words()]
    titles = [b.get("title") for b in items.iter("b")]
    assert titles == [printable(f"{label} [{i}:{j}]") for label, i, j in tree.spans()]


@given(TREES)
def test_right_to_left_is_the_mirror_image(tree):
    drawings = [ET.fromstring(tree_svg(tree, right_to_left=way)) for way in (False, True)]
    places = [
        [(t.text, t.get("y"), float(t.get("x"))) for t in d.iter(f"{SVG}text")] for d in drawings
    ]
    width = float(drawings[0].get("width"))
    for (text, y, x), (mirrored, level, place) in zip(*places, strict=True):
        assert (text, y) == (mirrored, level)
        assert abs(x + place - width) <= 2  # texts of odd width stand between two pixels
    assert [d.get("width") for d in drawings] == [f"{width:g}"] * 2


# --- LaTeX ----------------------------------------------------------------------------------
NAMES = {
    "textbackslash": "\\",
    "textasciitilde": "~",
    "textasciicircum": "^",
    "textless": "<",
    "textgreater": ">",
    "textbar": "|",
}
GROUP = r"\{((?:\\[a-z]+\{\}|\\[{}$&#_%]|[^\\{}$&#_%~^<>|])*)\}"


def read_latex(text: str) -> Tree:
    """The tree of a drawing; fails where a special character stands unescaped."""

    def plain(match: re.Match) -> str:
        return NAMES[match[1]] if match[1] else match[2]

    stack: list[list] = [[]]
    position = 0
    token = re.compile(rf"\s*(?:\[{GROUP}|(\]))")
    while position < len(text):
        match = token.match(text, position)
        assert match, text[position:]
        position = match.end()
        if match[1] is not None:
            stack.append([re.sub(r"\\([a-z]+)\{\}|\\(.)", plain, match[1])])
            continue
        label, *below = stack.pop()
        word = below[0] if below and isinstance(below[0], str) else None
        node = Tree(label, [] if word is not None else below, word) if below else label
        stack[-1].append(node)
    [[tree]] = stack
    return tree


@given(trees(*[st.text("aB[]{}\\,=.!$&#_%~^<>|*\"'` ", max_size=6)] * 3))
def test_latex_can_be_read_back(tree):
    forest = tree_latex(tree).split("\n", 2)[2].removesuffix("\n\\end{forest}")
    assert read_latex(forest) == tree
