"""The page is read back."""

import re
import subprocess
import sys

import pytest
from display.drawn import (
    LAYERS,
    VOCABS,
    WORDS,
    annotated,
    contrast,
    marks,
    pizza,
    read_html,
    repeated,
    text,
)
from spacy.tokens import Doc, Span

from spacy_structlearn.display import load_ipython_extension
from spacy_structlearn.display.page import FAILURES, FIRST_WORDS, MOST_WORDS, OPEN_SENTENCES, page
from spacy_structlearn.display.page import LAYERS as KEYS
from spacy_structlearn.display.trees import tree_svg
from spacy_structlearn.pipeline.extensions import frame_spans
from spacy_structlearn.trees.brackets import parse_tree

HEADINGS = ["Tree", "Chunks", "Attachments", "Roles"]
HEBREW = annotated(
    ["היא", "מכרה", "סירה"],
    {"constituents": [("S", 0, 3), ("VP", 1, 3)], "np_chunks": [("NP", 0, 1)]},
    lang="he",
)


def drawn(*args, **kwargs):
    return read_html(page(*args, **kwargs))


def sentences(root):
    return [d for d in root.iter("details") if "sentence" in d.get("class", "")]


def headings(element, level):
    return [text(heading) for heading in element.iter(f"h{level}")]


def layers(sentence, level=3):
    """The HTML of each layer of a sentence by its heading, and before them, by None."""
    name = None
    found = {name: []}
    for element in sentence[1:]:
        if element.tag == f"h{level}":
            name = text(element)
            found[name] = []
        else:
            found[name].append(element)
    return found


# --- what is drawn --------------------------------------------------------------------------------
def test_each_sentence_has_its_tree_chunks_attachments_and_roles():
    first, second = sentences(drawn(pizza()))
    assert [text(s.find("summary")) for s in (first, second)] == [
        "She ate the pizza with a fork .",
        "It rained .",
    ]
    assert headings(first, 3) == HEADINGS
    assert headings(second, 3) == ["Tree", "Chunks", "Roles"]
    found = layers(first)
    assert marks(found["Chunks"][0])[1] == ("NP 0.98", "the pizza", "NP 0.9800")
    assert marks(found["Attachments"][0])[2] == ("→ ate", "with a fork", "with -> ate 0.9900")
    assert marks(found["Roles"][0]) == [
        ("ARG0 0.98", "She", "ARG0 0.9800"),
        ("V eat.01 0.99", "ate", "V eat.01 0.9900"),
        ("ARG1 0.97", "the pizza", "ARG1 0.9700"),
        ("ARGM-MNR 0.96", "with a fork", "ARGM-MNR 0.9600"),
    ]
    assert [label for label, _, _ in marks(layers(second)["Roles"][0])] == ["ARG1 0.94", "V 0.95"]


def test_a_tree_is_a_picture_and_text_with_its_probabilities():
    doc = pizza()
    for sentence, place, scores in zip(
        sentences(drawn(doc)),
        doc.sents,
        [[0.99, 0.98, 0.97, 0.96, 0.95, 0.94], [0.93, 0.92, 0.91]],
        strict=True,
    ):
        (svg,) = sentence.iter("svg")
        assert svg.get("role") == "img"
        assert svg.get("aria-label") == place.text
        tips = [text(title).split() for title in svg.iter("title")][1:]
        assert [float(tip[-1]) for tip in tips] == pytest.approx(scores)
        items = [text(item) for item in sentence.iter("div") if item.get("role") == "listitem"]
        bare = "".join(word.text for item in sentence.iter("div") for word in item.findall("span"))
        assert bare == place.text.replace(" ", "")
        assert items[0].startswith("S 0.9")


@pytest.mark.parametrize("key", KEYS)
def test_each_layer_may_be_the_only_one(key):
    (first, second) = sentences(drawn(pizza(key)))
    name = HEADINGS[KEYS.index(key)]
    # Tags stand in trees and behind chunks; elsewhere they have a line of their own.
    tags = [] if key in KEYS[:2] else ["Tags"]
    assert headings(first, 3) == [*tags, name]
    assert headings(second, 3) == [*tags, *([name] if key != "pp_attachments" else [])]


def test_probabilities_stay_with_their_brackets():
    """Also where a bracket ends in white space, so that no tree has it."""
    brackets = [("S", 0, 4), ("NP", 0, 1), ("NP", 0, 1), ("VP", 1, 3)]
    doc = annotated(["I", "ran", "off", "\n"], {"constituents": brackets})
    (sentence,) = sentences(drawn(doc))
    items = [text(item) for item in sentence.iter("div") if item.get("role") == "listitem"]
    assert items == ["TOP", "NP 0.98 NP 0.97 IXX", "VP 0.96 ranXX offXX"]


def test_fallback_trees_are_named():
    doc = pizza("constituents")
    failures = [Span(doc, 0, 8, label=label) for label in ("fallback", "cut")]
    doc.spans["parse_failures"] = failures
    first, second = sentences(drawn(doc))
    notes = [text(p) for p in first.iter("p")]
    assert len(notes) == 2
    assert "fallback" in notes[0]
    assert "too long" in notes[1]
    assert list(second.iter("p")) == []


def test_of_a_long_sentence_the_first_words_are_drawn():
    most = MOST_WORDS // 8
    (whole,) = sentences(drawn(repeated(most)))
    (part,) = sentences(drawn(repeated(most + 1)))
    assert len(list(whole.iter("li"))) == 2 * most
    assert text(next(whole.iter("p"))) == FAILURES["cut"]
    notes = [text(note) for note in part.iter("p")]
    assert notes[:2] == ["Only the first 50 of 304 words are drawn.", FAILURES["cut"]]
    assert headings(part, 2) == [" ".join(WORDS[:8] * (most + 1))]
    found = layers(part)
    (svg,) = part.iter("svg")
    assert svg.get("aria-label").split() == (WORDS[:8] * 7)[:FIRST_WORDS]
    # The brackets of the last, incomplete piece end with the words.
    tips = [text(title).split()[:2] for title in svg.iter("title")][1:]
    assert tips[0] == ["S", f"[0:{FIRST_WORDS}]"]
    assert tips[-2:] == [["NP", "[48:49]"], ["VP", "[49:50]"]]
    assert len(marks(found["Chunks"][0])) == 3 * 6 + 1
    assert len(found["Attachments"][0]) == 6
    assert len(found["Roles"][0]) == 7


# --- the page as a whole --------------------------------------------------------------------------
def test_one_doc_needs_no_list_of_docs_and_no_level_of_headings():
    root = drawn(pizza(), title="A <page>")
    assert headings(root, 1) == [text(root.find(".//title"))] == ["A <page>"]
    assert len(headings(root, 2)) == 2
    assert headings(root, 4) == []
    assert root.find(".//nav") is None


def test_several_docs_have_headings_and_are_listed():
    words = ["long"] * 40
    docs = [pizza(), annotated([" "], {}), annotated([], {}), Doc(VOCABS["en"], words=words)]
    root = drawn(iter(docs))
    assert headings(root, 2) == [f"Document {number}" for number in (1, 2, 3, 4)]
    assert headings(root, 3)[0] == "She ate the pizza with a fork ."
    assert headings(sentences(root)[0], 4) == HEADINGS
    assert [text(p) for p in root.iter("p")].count("This document is empty.") == 2
    links = list(root.find(".//nav").iter("a"))
    assert [text(link) for link in links[1:3]] == ["(empty)"] * 2
    assert len(text(links[3])) <= 80 < len(" ".join(words))
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert [link.get("href") for link in links] == [f"#d{n}" for n in (1, 2, 3, 4)]
    assert {link.get("href")[1:] for link in links} <= set(ids)


def test_of_many_sentences_only_the_first_are_open():
    n = OPEN_SENTENCES
    docs = [annotated(["Hm"] * k, {}, starts=range(k)) for k in (n - 2, 5, 3)]
    found = [sentence.get("open") for sentence in sentences(drawn(docs))]
    assert found == [""] * n + [None] * 6


def test_texts_follow_their_language_and_direction():
    root = drawn([pizza(), HEBREW])
    assert root.find("html").get("lang") == "en"
    for sentence in sentences(root):
        expected = ("he", "rtl") if "היא" in text(sentence) else ("en", "ltr")
        summary, chunks = sentence.find("summary"), layers(sentence, 4)["Chunks"][0]
        assert [(e.get("lang"), e.get("dir")) for e in (summary, chunks)] == [expected] * 2
        (svg,) = sentence.iter("svg")
        places = {t.text: float(t.get("x")) for t in svg.iter("text")}
        words = text(summary).split()
        assert (places[words[0]] < places[words[-1]]) is (expected[1] == "ltr")


def test_nothing_comes_from_elsewhere():
    html = page([pizza(), HEBREW])
    root = read_html(html)
    policy = {m.get("http-equiv"): m.get("content") for m in root.iter("meta")}
    assert policy["Content-Security-Policy"].split("; ") == [
        "default-src 'none'", "style-src 'unsafe-inline'", "base-uri 'none'", "form-action 'none'"
    ]  # fmt: skip
    tags = {element.tag for element in root.iter()}
    assert not tags & {"script", "link", "img", "iframe", "object", "image", "use"}
    # The only addresses are places on the page, and names of XML.
    attributes = {name for element in root.iter() for name in element.attrib}
    assert not attributes & {"src", "srcset", "action", "data"}
    assert not [name for name in attributes if name.startswith("on")]
    assert not re.search(r"url\(|@import", html)
    assert set(re.findall(r'"(\w+://[^"]+)"', html)) == {"http://www.w3.org/2000/svg"}


def test_the_colours_of_both_schemes_can_be_read():
    style = text(drawn(pizza()).find(".//style"))
    for part in style.split("@media (prefers-color-scheme: dark)"):
        background, color = re.search(r"background: (#\w{6}); color: (#\w{6})", part).groups()
        link = re.search(r"\ba { color: (#\w{6})", part)[1]
        assert contrast(background, color) >= 12
        assert contrast(background, link) >= 7


STRANGE = ["<script>alert(1)</script>", "&amp;", "\"'><b>", "</details>", "a\0b", "\ud800", "{bg}"]


def test_words_tags_labels_and_titles_are_escaped():
    shown = [word.replace("\0", "\ufffd").replace("\ud800", "\ufffd") for word in STRANGE[:5]]
    layers = {
        "constituents": [("S", 0, 5), ("<i>&", 1, 3)],
        "np_chunks": [("<u>&\"'", 0, 2)],
        "pp_attachments": LAYERS["pp_attachments"][:0],
        "srl": list(frame_spans([(1, "<s>.01", [("<ARG0\"'", 2, 4)])])),
    }
    doc = annotated(STRANGE[:5], layers, tags=["<T>"] * 5)
    root = drawn(doc, title="<script>")
    assert {e.tag for e in root.iter()}.isdisjoint({"script", "u", "s", "T"})
    (sentence,) = sentences(root)
    assert text(sentence.find("summary")).split() == " ".join(shown).split()
    assert [label for label, _, _ in marks(sentence)] == [
        "<u>&\"' 0.99", "V <s>.01 0.99", "<ARG0\"' 0.98"
    ]  # fmt: skip
    (svg,) = sentence.iter("svg")
    assert {"<i>&", *shown} <= {t.text for t in svg.iter("text")}


# --- errors ---------------------------------------------------------------------------------------
def test_extensions_that_are_not_registered_are_named():
    code = (
        "from spacy.tokens import Doc\n"
        "from spacy.vocab import Vocab\n"
        "from spacy_structlearn.display.frames import frames_html\n"
        "from spacy_structlearn.display.page import LAYERS, page\n"
        "for draw, key in (*((page, key) for key in LAYERS), (frames_html, 'srl')):\n"
        "    doc = Doc(Vocab(), words=['Run'])\n"
        "    doc.spans[key] = []\n"
        "    try:\n"
        "        draw(doc)\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert re.findall(r"\[SL140\] doc\._\.(\w+)", done.stdout) == [
        "parse_failures", "np_chunks", "pp_attachments", "frames", "frames"
    ]  # fmt: skip


# --- notebooks ------------------------------------------------------------------------------------
class Formatters:
    """What of IPython the extension uses: for each MIME type the functions by type."""

    def __init__(self):
        self.display_formatter = self
        self.formatters = {"image/svg+xml": Formatter(), "text/html": Formatter()}


class Formatter(dict):
    for_type = dict.__setitem__


def test_the_extension_draws_trees_and_annotated_docs():
    ipython = Formatters()
    load_ipython_extension(ipython)
    tree = parse_tree("(S (NP (PRP We)) (VP (VBD slept)))")
    assert ipython.formatters["image/svg+xml"][type(tree)](tree) == tree_svg(tree)
    doc_html = ipython.formatters["text/html"][Doc]
    assert doc_html(pizza("srl")) == page(pizza("srl"))._repr_html_()
    assert doc_html(Doc(VOCABS["en"], words=["Hm"])) is None
    span_html = ipython.formatters["text/html"][Span]
    doc = pizza("srl")
    first = next(doc.sents)
    assert span_html(first) == page(first)._repr_html_()
    assert span_html(doc[first.start : first.end - 1]) is None
    assert span_html(doc[0:0]) is None
    assert span_html(Doc(VOCABS["en"], words=["Hm"])[:]) is None
