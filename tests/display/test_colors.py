"""Colours of labels."""

import pytest
from display.drawn import contrast, pizza
from spacy import displacy

from spacy_structlearn.display.attachments import COLORS as OF_SITES
from spacy_structlearn.display.colors import COLORS, color, span_options
from spacy_structlearn.display.html import GRAY
from spacy_structlearn.errors import StructlearnError


def test_black_text_can_be_read_on_all_colours():
    for found in {*COLORS.values(), *OF_SITES.values(), GRAY, color("other")}:
        assert contrast(found, "#000000") >= 4.5
        assert contrast(found, "#ffffff") >= 2  # and the line is seen on white paper


def test_a_label_has_the_colour_of_its_base():
    labels = ["ARG1", "R-ARG1", "C-ARG1", "ARGM-TMP", "R-ARGM-LOC", "ARGA", "ARG1-DSP", "arg1"]
    bases = ["ARG1", "ARG1", "ARG1", "ARGM", "ARGM", "ARGA", "ARG1", "ARG1"]
    assert [color(label) for label in labels] == [COLORS[base] for base in bases]
    others = [color(label) for label in ("ADJP", "QP", "WHNP", "FRAG", "")]
    assert others == [color(label) for label in ("ADJP", "QP-TMP", "WHNP", "frag", "")]
    assert len(set(others)) > 1


@pytest.mark.parametrize("key", ["np_chunks", "srl", "constituents", "pp_attachments"])
def test_displacy_draws_a_layer_in_colour(key):
    doc = pizza()
    html = displacy.render(doc, style="span", options=span_options(doc, key), jupyter=False)
    for span in doc.spans[key]:
        assert color(span.label_) in html
    assert "#ddd" not in html


def test_options_need_a_doc_with_the_layer():
    doc = pizza("srl")
    with pytest.raises(StructlearnError, match=r"SL142.*'np_chunks'"):
        span_options(doc, "np_chunks")
    with pytest.raises(StructlearnError, match="SL141"):
        span_options(doc[:2], "srl")
