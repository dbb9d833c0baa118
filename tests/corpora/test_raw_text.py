"""The raw text, on documents made up here."""

import json
from pathlib import Path

import pytest
from _archives import Members
from _build import build_raw_text
from _raw_text import FORMATS, is_prose, prose_lines
from fetch import load_config

CORPORA = Path(__file__).resolve().parents[2] / "corpora"


def source(form, **contents):
    """Members in a format, and what corpora.toml says about their source."""
    entry = {
        "title": "Tales",
        "author": "A. Nonymous",
        "licence": "CC0 1.0",
        "format": form,
        "url": "https://tars.example/tales.tar.gz",
        "commit": "0123",
    }
    members = {name.replace("__", "."): text.encode() for name, text in contents.items()}
    return Members(Path("tales.tar.gz"), members, None, entry)


def documents(form, **contents):
    """The text of each document, cleaned, without what is not prose."""
    lines, _ = prose_lines(FORMATS[form](source(form, **contents)))
    return {found["document"]: found["text"].split("\n\n") for found in map(json.loads, lines)}


@pytest.mark.parametrize(
    "paragraph",
    [
        "The tea is hot.",
        "green tea with milk",
        "In 1990, the tea cost $2.50 a cup in the shop.",
        "We waited for him at the station until it was dark, and then we went home.",
    ],
)
def test_prose(paragraph):
    assert is_prose(paragraph)


@pytest.mark.parametrize(
    "paragraph",
    [
        "Hot green tea.",  # three words
        "HOT TEA FOR EVERYONE HERE",
        "Write to tea.shop@example.org for a cup.",
        "Call the shop at 555-123-4567 for a cup.",
        "The shop is at www.tea.example in the web.",
        "Der Tee ist heute nicht so warm wie gestern, aber er schmeckt uns trotzdem.",
        "| cup | price of the tea |",
        "The tea {{ cup }} is hot.",
        "The tea \ufffd is hot.",
        "Ann Poe, The cup of tea and its use, vol. 3, pp. 14-15.",
    ],
)
def test_no_prose(paragraph):
    assert not is_prose(paragraph)


MARKDOWN = """\
---
title: The history of tea in China
---
# The history of tea in China

The tea of the country
---

The **tea** is _very_ [hot](https://tea.example "the (hot) tea"), [*it* seems][1]. ![A cup of
tea](cup.png) It is `green`\\*.
> We drink it &amp; eat {{< ref "x.md" >}}cake.[^1]

[1]: https://tea.example/the/cup/of/tea

* the cup of tea
  with much milk
1. the tea of the cup

```python
print("the tea is hot")
```

    print("the tea is not hot")

<div class="x"><p>The tea <b>is</b> hot.</p><script>if (tea < 3) the_tea();</script></div>
<!-- the tea is not hot -->
The shop is <https://tea.example> for all.
"""


def test_markdown():
    assert documents("markdown", a__md=MARKDOWN) == {
        "a.md": [
            "The tea is very hot, it seems. It is green*. We drink it & eat cake.",
            "the cup of tea with much milk",
            "the tea of the cup",
            "The tea is hot.",
        ]
    }


def test_build(capsys):
    sources = {
        "tales": source("text", b__txt="The tea is hot.", a__txt="The tea was hot."),
        "blog": source("markdown", a__md="# Tea\n\nThe tea is very hot."),
    }
    files = build_raw_text(sources, print)
    assert list(files) == ["blog.jsonl.gz", "tales.jsonl.gz", "LICENSES.txt", "counts.tsv"]
    assert files["tales.jsonl.gz"] == (
        '{"document": "a.txt", "text": "The tea was hot."}\n'
        '{"document": "b.txt", "text": "The tea is hot."}\n'
    )
    assert files["counts.tsv"] == "#source\tdocuments\twords\nblog\t1\t5\ntales\t2\t8\n"
    assert files["LICENSES.txt"].split("\n\n")[1] == (
        "tales.jsonl.gz\n  title: Tales\n  author: A. Nonymous\n  licence: CC0 1.0\n"
        "  source: https://tars.example/tales.tar.gz\n  commit: 0123"
    )
    assert capsys.readouterr().out == "13 words from 2 sources\n"


def test_every_source_may_be_distributed():
    config = load_config(CORPORA / "corpora.toml")
    entry = config["corpora"]["raw_text"]
    files = {"LICENSES.txt", "counts.tsv", *(f"{name}.jsonl.gz" for name in entry["reads"])}
    assert set(entry["builds"]) == files
    for name in entry["reads"]:
        found = config["sources"][name]
        assert found["format"] in FORMATS
        assert found["commit"] in found["url"]
        assert found["title"]
        assert found["author"]
        assert found["licence"].startswith(("public domain", "CC0", "CC BY"))
        assert not {"NC", "ND"} & set(found["licence"].replace("-", " ").split())
