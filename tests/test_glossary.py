"""Explanations of labels, and the guide that lists them."""

import re
from pathlib import Path

import pytest

import spacy_structlearn
from spacy_structlearn import glossary
from spacy_structlearn.groups import GROUPS, PARSE_FAILURES
from spacy_structlearn.pipeline.extensions.span_groups import PP_ROLES
from spacy_structlearn.roles.rolesets import ROLESETS, meanings
from training.glosses import listed, predicted

ROOT = Path(__file__).resolve().parent.parent
GUIDE = (ROOT / "training" / "guides" / "labels.md").read_text(encoding="utf8")
TABLES = {
    "Phrases": glossary.PHRASES,
    "Tags": glossary.TAGS,
    "Chunks": glossary.CHUNKS,
    "Attachments": glossary.ATTACHMENTS,
    "Semantic roles": glossary.ROLES,
    "Failed parses": glossary.FAILURES,
}


@pytest.fixture(scope="module")
def nlp():
    return spacy_structlearn.load()


def test_every_label_of_the_built_in_pipeline_is_explained(nlp):
    tables = {
        "sentence_splitter": glossary.CHUNKS,
        "chain_tagger": glossary.TAGS,
        "constituency_parser": glossary.PHRASES,
        "np_chunker": glossary.PHRASES,
        "pp_attacher": glossary.ATTACHMENTS,
        "srl_labeler": glossary.ROLES,
    }
    universal = "tree_dependencies", "tree_morphologizer"
    assert [*tables, *universal] == nlp.pipe_names
    for label in [label for name in universal for label in nlp.get_pipe(name).labels]:
        assert spacy_structlearn.explain(label.partition("|")[0])
    for name, table in tables.items():
        assert {*nlp.get_pipe(name).labels} <= {*table}, name
    assert {*PP_ROLES} <= {*glossary.ATTACHMENTS}
    assert re.findall(r'"(\w+)"', GROUPS[PARSE_FAILURES]) == list(glossary.FAILURES)


@pytest.mark.parametrize("title", TABLES)
def test_the_guide_lists_them(title):
    section = GUIDE.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = [f"| {code(label)} | {text} |" for label, text in TABLES[title].items()]
    assert [row for row in section.splitlines() if row.startswith("| `")] == rows


def code(label):
    """As Markdown, which needs blanks around backticks."""
    return f"` {label} `" if "`" in label else f"`{label}`"


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("NP", "noun phrase"),
        ("R-ARG1", "relative or question word for ARG1: patient or theme"),
        ("C-ARGM-TMP", "continuation of ARGM-TMP: time"),
        ("give.01", "transfer"),
        ("make.LV", "light verb"),
        ("nsubj", "nominal subject"),
    ],
)
def test_explanations(label, text):
    assert spacy_structlearn.explain(label) == text


@pytest.mark.parametrize("label", ["", "R-NP", "give.99", "R-", "R-V"])
@pytest.mark.filterwarnings("ignore:.*W118")
def test_unknown_labels(label):
    assert spacy_structlearn.explain(label) is None


def test_every_roleset_of_the_built_in_pipeline_is_explained(nlp):
    """After it was trained again, run python -m training.glosses."""
    found = meanings()
    assert list(found) == listed(predicted(nlp), found)
    assert all(text == text.strip() != "" for text in found.values())
    assert ROLESETS.stat().st_size <= 350_000
