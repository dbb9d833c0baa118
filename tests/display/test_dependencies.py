"""The arcs of a page, read back."""

import re

from display.drawn import read_html, text
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_structlearn.display.page import page

WORDS = ["<Dogs>", "sleep", "\n", "here", "."]


def test_arcs_of_a_page():
    doc = Doc(
        Vocab(),
        words=WORDS,
        pos=["NOUN", "VERB", "SPACE", "ADV", "PUNCT"],
        heads=[1, 1, 1, 1, 1],
        deps=["a<b", "ROOT", "dep", "advmod", "punct"],
    )
    html = page([doc, doc])
    root = read_html(html)
    drawings = [svg for svg in root.iter("svg") if svg.get("class") == "displacy"]
    names = [svg.get("id").rpartition("-")[0] for svg in drawings]
    assert names == ["arcs-d1s1", "arcs-d2s1"]
    items = [text(item) for item in root.iter("div") if item.get("role") == "listitem"]
    # Without its language, a vocabulary knows no white space.
    assert items[:5] == [
        "<Dogs>NOUN a<b \N{LEFTWARDS ARROW} sleep",
        "sleepVERB ROOT",
        "SPACE dep \N{LEFTWARDS ARROW} sleep",
        "hereADV advmod \N{LEFTWARDS ARROW} sleep",
        ".PUNCT punct \N{LEFTWARDS ARROW} sleep",
    ]
    labels = [t.text for t in drawings[0].iter() if t.get("class") == "displacy-label"]
    assert labels[0] == "a<b"
    assert labels[-2:] == ["advmod", "punct"]
    words = [t.text for t in drawings[0].iter() if t.get("class") == "displacy-word"]
    assert words[:2] == WORDS[:2]
    assert len(re.findall(r' id="([^"]*)"', html)) == len(set(re.findall(r' id="([^"]*)"', html)))
    for token in doc:
        token.dep_ = ""
    assert "displacy" not in page(doc)
