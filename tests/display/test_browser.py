"""Drawings in Chromium, at two widths and in two colour schemes."""

import pytest
from display.drawn import pizza, repeated

from spacy_structlearn.display.frames import frames_html
from spacy_structlearn.display.page import page
from training.benchmarks.usability.browser import Browser, answers, hebrew, host, program

FAULTY = """\
<svg width="2000"><text x="0" y="20" fill="#ccc">one</text><text x="5" y="20">two</text></svg>
<div style="overflow: auto; width: 50px"><p style="width: 90px; font-size: 8px">small</p></div>
<iframe></iframe>"""


@pytest.fixture(scope="module")
def browser():
    found = program()
    if found is None:
        pytest.skip("Chromium is not installed")
    with Browser(found) as opened:
        yield opened


def test_pages_can_be_read(browser):
    """Also with long sentences, right to left, and in a notebook."""
    pages = {
        "page": page([pizza(), hebrew(), repeated(5)]),
        "notebook": host(page(pizza())._repr_html_(), frames_html(pizza())),
    }
    views = dict(answers(browser, pages))
    assert len(views) == 2 * 2 * 2 * len(pages)
    assert [
        (view, wrong) for view, found in views.items() for wrong in found.items() if wrong[1]
    ] == []


def test_faults_are_found(browser):
    views = dict(answers(browser, {"faulty": host(FAULTY)}, widths=(390,)))
    found = {name for name, wrong in views["faulty, 390 pixels, light"].items() if wrong}
    assert found == {
        "overflow", "size", "contrast", "overlap", "elsewhere", "keyboard", "names",
        "scrolling is shown",
    }  # fmt: skip
