import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.display.networks import network_dot, network_svg
from spacy_structlearn.display.trees import columns
from spacy_structlearn.errors import StructlearnError

SVG = "{http://www.w3.org/2000/svg}"
PP = {"p": (), "n1": ("p",), "v": ("p",), "n2": ("v", "p")}
STRANGE = 'a<&>"\\n\n\x00 "]; x -> y [&lt;'


@st.composite
def networks(draw, most=14):
    """Parents by variable, the variables in any order; the parents of each come from those that a
    hidden order has before it.
    """
    names = draw(st.lists(st.text("abXY09", min_size=1, max_size=9), max_size=most, unique=True))
    net = {
        name: tuple(draw(st.lists(st.sampled_from(names[:i]), max_size=3, unique=True)))
        if i
        else ()
        for i, name in enumerate(names)
    }
    return {name: net[name] for name in draw(st.permutations(names))}


def arcs_of(net, target="Y"):
    return {(p, v) for v, above in net.items() for p in (target, *above)}


class Picture:
    """What is drawn. boxes: (left, top, right, bottom) by label. sources: for each path of lines
    its pieces, each a list of points; tips: those of the heads of its arrows.
    """

    def __init__(self, svg: str):
        self.root = ET.fromstring(svg)
        self.width, self.height = (float(self.root.attrib[key]) for key in ("width", "height"))
        self.boxes, self.texts = {}, {}
        for group in self.root.iter(f"{SVG}g"):
            rect, text = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
            if rect is not None:
                x, y, w, h = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
                self.boxes[text.text] = (x, y, x + w, y + h)
                self.texts[text.text] = (float(text.attrib["x"]), float(text.attrib["y"]))
        paths = [path.attrib["d"] for path in self.root.iter(f"{SVG}path")]
        self.sources = [pieces(path) for path in paths[::2]]
        self.tips = [heads(path) for path in paths[1::2]]

    def arcs(self) -> set[tuple[str, str]]:
        """The arcs, by following the lines from node to node as a reader would."""
        found = set()
        for curves, tips in zip(self.sources, self.tips, strict=True):
            starts = {curve[0] for curve in curves}
            ends = {curve[-1] for curve in curves}
            (start,) = starts - ends
            (source,) = [
                name
                for name, (left, _, right, bottom) in self.boxes.items()
                if start == ((left + right) / 2, bottom)
            ]
            for x, y in tips:
                (node,) = [
                    name
                    for name, (left, top, right, _) in self.boxes.items()
                    if top == y and left < x < right
                ]
                # A line ends at the back of the head, right above its tip.
                assert [end for end in ends if end[0] == x and 0 < y - end[1] < 20]
                found.add((source, node))
            # Each end is where another curve starts, or at a head.
            assert len(ends - starts) == len(tips)
        return found


def pieces(path: str) -> list[list[tuple[float, float]]]:
    """The curves of a path, each with points along it."""
    found = []
    for x, y, *rest in re.findall(
        r"M([-\d.]+),([-\d.]+)C([-\d.]+),([-\d.]+) ([-\d.]+),([-\d.]+) ([-\d.]+),([-\d.]+)"
        r"(?:v([-\d.]+))?",
        path,
    ):
        a, *between = (float(number) for number in (x, y, *rest[:6]))
        points = [(a, between[0]), *zip(between[1::2], between[2::2], strict=True)]
        curve = []
        for i in range(21):
            t = i / 20
            weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
            curve.append(
                tuple(
                    sum(w * p[axis] for w, p in zip(weights, points, strict=True))
                    for axis in (0, 1)
                )
            )
        curve[0], curve[-1] = points[0], points[-1]
        if rest[6]:
            curve.append((points[-1][0], points[-1][1] + float(rest[6])))
        found.append(curve)
    assert len(found) == path.count("M")
    return found


def heads(path: str) -> list[tuple[float, float]]:
    found = re.findall(r"M([-\d.]+),([-\d.]+)l([-\d.]+),([-\d.]+)h([-\d.]+)z", path)
    assert len(found) == path.count("M")
    assert all(float(up) < 0 for _, _, _, up, _ in found)
    return [(float(x), float(y)) for x, y, *_ in found]


def overlap(a, b) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


# --- SVG ------------------------------------------------------------------------------------


def test_the_network_of_the_paper():
    picture = Picture(network_svg(PP, "Y"))
    assert picture.arcs() == arcs_of(PP)
    tops = {name: box[1] for name, box in picture.boxes.items()}
    assert tops["Y"] < tops["p"] < tops["n1"] == tops["v"] < tops["n2"]
    tips = [title.text for title in picture.root.iter(f"{SVG}title")]
    factors = ["P(Y)", "P(p | Y)", "P(n1 | Y, p)", "P(v | Y, p)", "P(n2 | Y, p, v)"]
    assert tips == [" ".join(factors), *factors]
    assert picture.root.attrib["aria-label"] == tips[0]


@settings(max_examples=40)
@given(networks())
def test_every_arc_can_be_followed(net):
    picture = Picture(network_svg(net, "class", names={"class": "<>"}))
    assert picture.arcs() == arcs_of(net, "<>")


@settings(max_examples=40)
@given(networks(), st.integers(8, 40))
def test_nothing_overlaps(net, size):
    picture = Picture(network_svg(net, "class", font_size=size))
    assert len(picture.boxes) == len(net) + 1
    boxes = list(picture.boxes.items())
    for i, (name, box) in enumerate(boxes):
        assert box[0] >= 0
        assert box[1] >= 0
        assert box[2] <= picture.width
        assert box[3] <= picture.height
        assert not any(overlap(box, other) for _, other in boxes[:i])
        # The text is inside, at the width of an ordinary sans-serif font.
        x, y = picture.texts[name]
        half = 0.58 * size * columns(name) / 2
        assert box[0] <= x - half
        assert x + half <= box[2]
        assert box[1] <= y - 0.75 * size
        assert y + 0.25 * size <= box[3]


@settings(max_examples=40)
@given(networks())
def test_lines_touch_no_node_between_their_ends(net):
    picture = Picture(network_svg(net, "class"))
    for curves in picture.sources:
        for curve in curves:
            for x, y in curve:
                assert 0 <= x <= picture.width
                for left, top, right, bottom in picture.boxes.values():
                    assert not (left <= x <= right and top < y < bottom)


def test_lines_do_not_cross_where_they_need_not():
    # Two chains, and a variable given in the wrong order between them.
    net = {"a": (), "b": (), "c": ("b",), "d": ("a",), "e": ("c",), "f": ("d",)}
    boxes = Picture(network_svg(net)).boxes
    assert (boxes["a"] < boxes["b"]) == (boxes["d"] < boxes["c"]) == (boxes["f"] < boxes["e"])


def test_the_class_may_be_named_as_a_parent():
    named = {name: ("Y", *parents) for name, parents in PP.items()}
    assert network_svg(named, "Y") == network_svg(PP, "Y")
    assert network_dot(named, "Y") == network_dot(PP, "Y")


def test_names_and_title_are_escaped():
    svg = network_svg({STRANGE: ()}, "a&b", names={"a&b": 'x < "y"'})
    shown = 'a<&>"\\n \ufffd "]; x -> y [&lt;'
    assert list(Picture(svg).boxes) == ['x < "y"', shown]
    root = ET.fromstring(network_svg(PP, title="<PP>\n"))
    assert root.attrib["aria-label"] == root[0].text == "<PP> "


def test_colours_come_from_the_page_or_the_scheme_of_the_reader():
    root = ET.fromstring(network_svg(PP))
    style = root.find(f"{SVG}style").text
    assert "prefers-color-scheme: dark" in style
    # In a page the rules must reach nothing: they are for an SVG that is the root only.
    selectors = re.findall(r"([^{}]+)\{(?=[^{}]*\})", style)
    assert {selector.strip() for selector in selectors} == {"svg:root"}
    colours = {e.get(key) for e in root.iter() for key in ("fill", "stroke") if e.get(key)}
    assert colours == {"none", "currentColor"}


# --- DOT ------------------------------------------------------------------------------------


def read_dot(text: str) -> tuple[dict[str, str], set[tuple[str, str]]]:
    """Labels by node, and arcs; fails where a line is none of ours."""
    quoted = r'"((?:\\.|[^"\\])*)"'
    labels, arcs = {}, set()

    def plain(found: str) -> str:
        return re.sub(r"\\(.)", r"\1", found)

    opening, _, *lines, closing = text.splitlines()
    assert (opening, closing) == ("digraph network {", "}")
    for line in lines:
        if match := re.fullmatch(rf"  {quoted} \[label={quoted}(?:, penwidth=2)?\];", line):
            labels[plain(match[1])] = plain(match[2]).replace("&amp;", "&")
        else:
            match = re.fullmatch(rf"  {quoted} -> {quoted}(?: \[color=gray\])?;", line)
            assert match, line
            arcs.add((plain(match[1]), plain(match[2])))
    return labels, arcs


@settings(max_examples=40)
@given(networks())
def test_dot_can_be_read_back(net):
    labels, arcs = read_dot(network_dot(net, "class", names={"class": "Y"}))
    assert labels == {"class": "Y", **{name: name for name in net}}
    assert arcs == arcs_of(net, "class")


def test_dot_is_quoted():
    net = {'say "x"': (), "back\\": ('say "x"',), "R&amp;D": ()}
    labels, arcs = read_dot(network_dot(net, "Y"))
    assert set(labels) == {"Y", *net}
    assert arcs == arcs_of(net)
    assert list(labels.values()) == list(labels)


def test_nodes_whose_names_look_the_same_stay_two():
    _, arcs = read_dot(network_dot({"a\n": (), "a ": ("a\n",)}, "Y"))
    assert arcs == {("Y", "a "), ("Y", "a  2"), ("a ", "a  2")}


# --- both -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, -3, float("nan")])
def test_a_font_has_a_size(size):
    with pytest.raises(StructlearnError, match="SL116"):
        network_svg(PP, font_size=size)


@pytest.mark.parametrize("draw", [network_svg, network_dot])
@pytest.mark.parametrize(
    ("net", "place"),
    [
        ({"a": ("b",)}, "'b', a parent of 'a'"),
        ({"a": ("b",), "b": ("a",), "c": ()}, "circle among 'a', 'b'"),
        ({"a": ("a",)}, "circle among 'a'"),
        ({"class": ()}, "the name of the class"),
        ({"a": "b", "b": ()}, "the parents of 'a' are 'b'"),
        ({"a": None}, "the parents of 'a' are None"),
        ([("a", ())], "of the type list"),
    ],
)
def test_what_is_no_network(draw, net, place):
    with pytest.raises(StructlearnError, match=f"SL115.*{place}"):
        draw(net)
