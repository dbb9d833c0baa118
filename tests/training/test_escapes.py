"""Drawings of hostile texts and models, for strict parsers and a browser; commands on terminals."""

import html
import xml.etree.ElementTree as ET

import pytest
from display.drawn import read_html

from spacy_structlearn.display.html import printable
from training.reliability import escapes

CHROMIUM = escapes.browser()


def words(text):
    return " ".join(text.split())


@pytest.fixture(scope="module")
def cases():
    return list(escapes.cases())


def test_every_drawing_is_strict_and_has_the_elements_of_a_harmless_one(cases):
    assert {case.name.split(" in ")[1] for case in cases} == set(escapes.drawings("title", "a"))
    for case in cases:
        assert not case.is_changed, case.name
        read_html(case.markup)
        if case.markup.startswith("<svg"):
            ET.fromstring(case.markup)


def test_the_whole_text_is_drawn(cases):
    seen = set()
    for case in cases:
        payload, place = case.name.partition(" in ")[0].split(" as ")
        text = words(printable(escapes.PAYLOADS[payload].format(id=case.id)))
        markup = case.markup
        if "srcdoc" in markup:
            (frame,) = read_html(markup)
            markup = frame.get("srcdoc")
        root = read_html(markup)
        found = [value for element in root.iter() for value in element.attrib.values()]
        assert any(text in words(own) for own in [*root.itertext(), *found]), case.name
        seen.add(place)
    assert seen == set(escapes.PLACES)


def test_markup_that_is_not_escaped_is_found():
    calm, hostile = "<p>a</p>", "<p><b>a</p>"
    assert escapes.skeleton(calm) == escapes.skeleton("<p>b</p>") != escapes.skeleton(hostile)
    assert escapes.skeleton(calm) != escapes.skeleton("<p>a<!-- --></p>")
    assert escapes.skeleton('<p title="a">') != escapes.skeleton('<p title="a" id="">')
    assert "Security" not in escapes.bare(escapes.drawings("title", "a")["page"])
    notebook = escapes.bare(escapes.drawings("title", "a")["notebook"])
    assert "sandbox" not in notebook
    assert "Security" not in html.unescape(notebook)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_nothing_runs_in_a_browser(cases):
    few = ("script", "onerror", "attribute")
    chosen = [case for case in cases if case.name.partition(" as ")[0] in few]
    assert escapes.executed(chosen, CHROMIUM) == []
    loud = [case for case in escapes.controls() if case.name in few]
    assert all(ran for _, ran in (escapes.opened([case], CHROMIUM) for case in loud))


def test_raw_characters_are_found():
    assert escapes.raw_characters("a\tb\r\n50%\r\x1b[38;5;2mc\x1b[0m\\u001b") == []
    assert escapes.raw_characters(escapes.HIDDEN_TEXT).count("\x1b") == 3
    assert escapes.raw_characters("\u202ea\rover") == ["\u202e", "\r"]


def test_terminals(tmp_path):
    pytest.importorskip("pty", reason="needs pseudo-terminals", exc_type=ImportError)
    commands = [
        "parse {file} {text}",
        "apply {model} {jsonl} -",
        "info {model}",
        "find NP {missing}",
    ]
    figures = escapes.terminal_figures(commands, tmp_path)
    assert figures == {"escapes.cases": 4, "escapes.raw": 0, "escapes.shown": 4}
