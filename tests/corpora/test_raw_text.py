"""The raw text, on documents made up here."""

import gzip
import hashlib
import json
from pathlib import Path

import pytest
from _archives import Members
from _build import build_raw_text
from _download import FetchError
from _raw_text import FORMATS, cleaned, is_prose, prose_lines, text_paragraphs
from fetch import load_config, main

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
    ("before", "after"),
    [
        ("  The  tea\n is\u00a0hot. ", "The tea is hot."),
        ("Cafe\u0301 or cafe\u0301?", "Café or café?"),
        ("a\u200bbc\u00addef\ufeff", "abcdef"),
        ("The tea (see \ufffc) is hot.", "The tea is hot."),
        ("Rome ( ; ) is old.", "Rome is old."),
        ("• the cup of tea", "the cup of tea"),
        ("12) the cup of tea", "the cup of tea"),
        ("- - the cup", "- the cup"),
        ("1990 was warm.", "1990 was warm."),
    ],
)
def test_cleaned(before, after):
    assert cleaned(before) == after


@pytest.mark.parametrize(
    "paragraph",
    [
        "The tea is hot.",
        "She asked: “Is the tea hot?”",
        "(The tea was hot.)",
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
        "a = b + c * (d - e) / 17 - 42 + 99",
        "Write to tea.shop@example.org for a cup.",
        "Call the shop at 555-123-4567 for a cup.",
        "Call the shop at (555) 123-4567 for a cup.",
        "Call the shop at +44 20 7946 0000 for a cup.",
        "The shop is at https://tea.example in the web.",
        "The shop is at www.tea.example in the web.",
        "The height is \ufffc and the width is two.",
        "Der Tee ist heute nicht so warm wie gestern, aber er schmeckt uns trotzdem.",
        "El té que compramos ayer en la tienda está demasiado caliente para los niños.",
        "| cup | price of the tea |",
        "The tea {{ cup }} is hot.",
        "The tea \ufffd is hot.",
        ", the tea of the shop is hot.",
        "Poe, Ann. 1990. The Cup of Tea. New York: Tea Books.",
        "Ann Poe, The cup of tea and its use, vol. 3, pp. 14-15.",
    ],
)
def test_no_prose(paragraph):
    assert not is_prose(paragraph)


def test_repeated_paragraphs_are_kept_once():
    found, words = prose_lines(
        [("a", ["The tea is hot.", "The tea is hot."]), ("b", ["The tea  is hot."]), ("c", [])]
    )
    assert [json.loads(line) for line in found] == [{"document": "a", "text": "The tea is hot."}]
    assert words == 4


def test_text_with_blank_lines():
    text = "CHAPTER I\n\nThe tea was\n_very_ hot.\n\nWe drank it all."
    assert documents("text", a__txt=text, b__md=text) == {
        "a.txt": ["The tea was very hot.", "We drank it all."]
    }


def test_text_with_a_paragraph_in_each_line():
    lines = ["The tea was hot. " * 100, "We drank it all. " * 100]
    assert text_paragraphs("\n".join(lines)) == lines


def test_text_without_paragraphs():
    assert text_paragraphs("The tea was hot.\n" * 100) == []


def test_text_with_another_encoding():
    members = Members(Path("x"), {"a.txt": b"\xef\xbb\xbfThe tea is hot.\r\n"}, None, {})
    assert list(FORMATS["text"](members)) == [("a.txt", ["The tea is hot.\n"])]


def test_reviews_lose_the_blanks_before_marks():
    text = 'the tea ( green ) was hot , wasn\'t it ? \nthey said " it was " . \n'
    assert documents("reviews", a__txt=text) == {
        "a.txt": ['the tea (green) was hot, wasn\'t it? they said "it was".']
    }


def test_wikipedia():
    article = (
        '<doc id="1" url="https://en.wikipedia.org/wiki?curid=1" title="Tea &amp; milk">\n'
        "Tea &amp; milk\n\nTea (; from China) is a &lt;br&gt;drink.\nHistory of the drink.\n"
        "The price of a cup is . This is a pity.\n"
        f"{'The tea was hot and the milk was cold. ' * 30}\n\n</doc>\n"
    )
    stub = '<doc id="2" url="" title="Cup">\nCup\n\nA cup is for hot tea and milk.\n\n</doc>\n'
    found = documents("wikipedia", wiki_00=article + stub)
    assert list(found) == ["Tea & milk"]
    assert [text[:30] for text in found["Tea & milk"]] == [
        "The tea was hot and the milk w",
    ]


CNXML = """<document xmlns="http://cnx.rice.edu/cnxml" xmlns:m="http://www.w3.org/1998/Math/MathML">
<title>The History of Tea in China</title>
<metadata xmlns:md="x"><md:abstract>In this part you learn about tea.</md:abstract></metadata>
<content>
<para>The <term>tea</term> is <emphasis>very</emphasis> hot<footnote>So we are told by Poe.
</footnote> (<link target-id="f"/>).<newline/>We drink it.</para>
<para>The price of tea is <m:math><m:mi>p</m:mi></m:math> and is high.</para>
<para>We see in <link target-id="f"/> that it is hot.</para>
<para>We drink it in <link url="https://tea.example">the shop</link>.<list>
<item>green tea with milk</item><item>one cup</item></list></para>
<figure><media alt="A cup of tea"/><caption>A cup is on the table. (credit: A. Poe (of
Tea))</caption></figure>
<table><row><entry>This is the price of tea.</entry></row></table>
<exercise><problem><para>Why is the tea so hot?</para></problem>
<solution><para>It is from the pot.</para></solution></exercise>
<section class="suggested-reading"><para>Read all about the tea.</para></section>
<section><title>Bibliography</title><para>Read more about the tea.</para></section>
<code>print the tea or not</code>
</content>
<glossary><definition><term>tea</term><meaning>what is in the cup</meaning></definition></glossary>
</document>
"""


def test_cnxml():
    assert documents("cnxml", index__cnxml=CNXML) == {
        "index.cnxml": [
            "The tea is very hot. We drink it.",
            "We drink it in the shop.",
            "green tea with milk",
            "A cup is on the table.",
            "Why is the tea so hot?",
        ]
    }


def test_cnxml_that_is_not_well_formed():
    with pytest.raises(FetchError, match="no well-formed XML"):
        documents("cnxml", a__cnxml="<document><para>")


def test_answers():
    text = (
        "<Document><QAPairs><QAPair><Question>What is tea in a cup?</Question><Answer>Tea is hot "
        "&amp; good.\n   It has parts:      -  the tea in a cup    - milk\n</Answer></QAPair>"
        "<QAPair><Answer/></QAPair></QAPairs></Document>"
    )
    assert documents("answers", a__xml=text) == {
        "a.xml": ["Tea is hot & good.", "the tea in a cup"],
    }


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

| The price | of the tea |
| --- | --- |
| is high | in this country |

```python
print("the tea is hot")
```

    print("the tea is not hot")

<div class="x"><p>The tea <b>is</b> hot.</p><p>We drink<br/>it at once.</p>
<pre>the tea is in the pot</pre>
<script>if (tea < 3) the_tea_is_hot();</script></div>
<!-- the tea is not hot -->
{% include "the tea is not hot" %}
The shop is <https://tea.example> for all.
"""


def test_markdown():
    assert documents("markdown", a__md=MARKDOWN) == {
        "a.md": [
            "The tea is very hot, it seems. It is green*. We drink it & eat cake.",
            "the cup of tea with much milk",
            "the tea of the cup",
            "The tea is hot.",
            "We drink it at once.",
        ]
    }


@pytest.mark.parametrize("text", ["", "---\n---\n", "```\nthe tea is hot"])
def test_markdown_without_text(text):
    assert documents("markdown", a__md=text) == {}


def test_dialogues():
    turns = [{"utterance": "Is the tea hot?"}, {"utterance": "Yes."}]
    text = json.dumps([{"dialogue_id": "1_0", "turns": turns}])
    assert documents("dialogues", a__json=text) == {"a.json 1_0": ["Is the tea hot?"]}


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


CONFIG = """
[sources.tales]
title = "Tales"
author = "A. Nonymous"
licence = "CC0 1.0"
format = "markdown"
url = "https://tars.example/archive/0123.tar.gz"
commit = "0123"
root = "tales-0123"
max_download = 100000
max_stream = 100000
max_member = 10000
max_read = 20000

[corpora.raw_text]
title = "Tales"
licence = "CC0 1.0"
size = "1 kB"
reads = { tales = ["*.md"] }
builds = []
"""


def test_fetch_from_a_mirror(tmp_path, make_tar):
    """The names of members can have any letters, and two builds are equal."""
    content = b"The tea is hot."
    tar = tmp_path / "mirror/tars.example/archive/0123.tar.gz"
    make_tar(tar, {"tales-0123/thé.md": content, "tales-0123/cup.txt": content})
    (tmp_path / "corpora.toml").write_text(CONFIG)
    (tmp_path / "digests.txt").write_text("# by hand\n")
    paths = {"--config": "corpora.toml", "--digests": "digests.txt", "--mirror": "mirror"}
    arguments = [str(item) for key, x in paths.items() for item in (key, tmp_path / x)]
    arguments = ["raw_text", "--retries", "0", *arguments]
    output = tmp_path / "first" / "raw_text"
    assert main([*arguments, "--record-digests", "--output", str(output.parent)]) == 0
    digest = hashlib.sha256(content).hexdigest()[:16]
    assert f"thé.md {digest}" in (tmp_path / "digests.txt").read_text(encoding="utf-8")
    assert main([*arguments, "--output", str(tmp_path / "second")]) == 0
    for file in output.iterdir():
        assert file.read_bytes() == (tmp_path / "second" / "raw_text" / file.name).read_bytes()
    text = gzip.decompress((output / "tales.jsonl.gz").read_bytes()).decode()
    assert json.loads(text) == {"document": "thé.md", "text": "The tea is hot."}


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
