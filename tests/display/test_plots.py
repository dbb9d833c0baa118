"""Plots as SVG."""

from xml.etree import ElementTree

from spacy_structlearn.display.plots import plot_svg

SVG = "{http://www.w3.org/2000/svg}"


def test_lines_have_points_and_names():
    svg = plot_svg({"a < b": [(0, 0), (0.5, 1)], "c": [(1, 0.5)]}, x="p", y="right", diagonal=True)
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == "right by p: a < b, c"
    lines = [line.get("points") for line in root.iter(f"{SVG}polyline")]
    assert lines == ["52.0,272.0 232.0,12.0", "412.0,142.0"]
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"a < b", "c", "p", "right", "0.25"} <= set(texts)
    assert len([path for path in root.iter(f"{SVG}path") if path.get("stroke-dasharray")]) == 1


def test_axes_contain_all_values():
    root = ElementTree.fromstring(plot_svg({"a": [(10, -2), (200, 3)]}, x="x", y="y"))
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"0", "200", "-2", "3"} <= texts
    assert ElementTree.fromstring(plot_svg({}, x="x", y="y")).tag == f"{SVG}svg"
