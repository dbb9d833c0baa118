"""`structlearn parse`: where the text comes from, and what is printed."""

import gzip
import json
import re
from pathlib import Path

import pytest
import spacy
from cli.toys import PARSED, TEXT, TREES, docs_of
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, SpanGroup
from spacy.vocab import Vocab

import spacy_structlearn
from spacy_structlearn.cli.common.documents import Format, printed
from spacy_structlearn.cli.common.files import looks_like_a_path
from spacy_structlearn.cli.common.texts import Unit, cut
from spacy_structlearn.display.frames import plain_frame
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.pipeline.storage import built_in


# --- where the text comes from -------------------------------------------------------------
def test_parse_a_text(run, model):
    assert run("parse", TEXT, "--model", model) == (0, "\n".join(PARSED) + "\n", "")


@pytest.mark.parametrize("output", ["out.conllu", "folder", "parse"])
def test_conllu(run, model, tmp_path, output):
    """What the pipeline does not predict is _."""
    (tmp_path / "in.txt").write_text("Run!\n\nThe old dog slept.", encoding="utf8")
    if output == "parse":
        code, out, _ = run("parse", tmp_path / "in.txt", "--model", model, "--format", "conllu")
    else:
        source = "apply", model, tmp_path / "in.txt", tmp_path / output
        code, *_ = run(*source, *(["--format", "conllu"] if output == "folder" else []))
        made = tmp_path / ("folder/in.txt.0000.conllu" if output == "folder" else output)
        out = made.read_text(encoding="utf8")
    assert code == 0
    assert out.startswith(
        "# newdoc id = 1\n# sent_id = 1-1\n# text = Run!\n"
        "1\tRun\t_\t_\tVB\t_\t_\t_\t_\tSpaceAfter=No\n"
    )
    assert "\n\n# newdoc id = 2\n# sent_id = 2-1\n# text = The old dog slept.\n" in out


WRAPPED = " \n\n  The old\ndog slept.\r\n \t\nRun!\n\n\nMy sister \n bought apples.\n\n"
UNITS = {
    "line": ["The old", "dog slept.", "Run!", "My sister", "bought apples."],
    "paragraph": ["The old\ndog slept.", "Run!", "My sister \n bought apples."],
    "file": ["The old\ndog slept.\n \t\nRun!\n\n\nMy sister \n bought apples."],
}


@pytest.mark.parametrize("source", ["text.txt", "text.txt.gz", "-"])
@pytest.mark.parametrize("unit", [None, *UNITS])
def test_what_is_one_text(run, model, tmp_path, source, unit):
    pack = gzip.compress if source.endswith(".gz") else bytes
    (tmp_path / "text.txt").with_name(source).write_bytes(pack(WRAPPED.encode("utf8")))
    source = source if source == "-" else tmp_path / source
    arguments = ["--unit", unit] if unit else []
    code, out, err = run(
        *("parse", source, "--model", model, "--format", "jsonl", *arguments), stdin=WRAPPED
    )
    assert (code, err) == (0, "")
    texts = [json.loads(line)["text"] for line in out.splitlines()]
    assert texts == UNITS[unit or "paragraph"]


LINES = st.lists(st.sampled_from(["", " ", "\t\x0c", "a", "  b c ", "dd"]), max_size=12)


@given(LINES, st.integers(0, 12))
def test_paragraphs_are_what_stands_between_blank_lines(lines, most):
    lines = [f"{line}\n" for line in lines]
    paragraphs = re.split(r"\n(?:\s*\n)+", "".join(["\n", *lines, "\n"]))
    expected = [text.strip() for text in paragraphs if text.strip()]
    assert list(cut(iter(lines), Unit.paragraph, 99)) == expected
    short = list(cut(iter(lines), Unit.paragraph, most))
    assert len(short) == len(expected)
    for text, whole in zip(short, expected, strict=True):
        assert text == whole if len(whole) <= most else len(text) > most
        assert whole.startswith(text)
    for text in cut(iter(lines), Unit.file, most):
        assert "".join(lines).strip().startswith(text)
        assert len(text) > most or text == "".join(lines).strip()


def test_a_byte_order_mark_is_no_part_of_the_text(run, model, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The old dog slept.\n", encoding="utf-8-sig")
    parsed = (0, f"{PARSED[0]}\n", "")
    assert run("parse", path, "--model", model) == parsed
    assert run("parse", "-", "--model", model, stdin=path.read_bytes()) == parsed


@pytest.mark.parametrize("text", ["", "  ", "\n\n"])
@pytest.mark.parametrize("format", ["text", "conll", "jsonl"])
def test_nothing_to_parse_prints_nothing(run, model, text, format):
    assert run("parse", text, "--model", model, "--format", format) == (0, "", "")
    assert run("parse", "-", "--model", model, "--format", format, stdin=text) == (0, "", "")


# --- a text or the name of a file ----------------------------------------------------------
@pytest.mark.parametrize(
    "text",
    [
        *("Hello.", "Hello", "U.S.", "U.S", "e.g.", "e.g", "Ph.D", "p.m", "Mr.Smith"),
        "Wait...what",
        *("3.14", "$3.50", "v1.2", "3.5mm", "...", "etc.", ".", "..x", "and/or", "AC/DC", "24/7"),
        *(":/", "my notes.txt", "See notes.txt", "notes.txt\n", "/tmp/a b", "~5", "Hi!", "\u2026"),
        *("https://example.com/page", "file.,", "\u00fcber.\u00e4hm", "a.b.c.", "no/such/folder"),
    ],
)
def test_texts_look_like_no_path(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert not looks_like_a_path(text)


@pytest.mark.parametrize(
    "path",
    [
        *("notes.txt", "NOTES.TXT", "notes.text", "README.md", "a.jsonl", "a.txt.gz", "gold.spacy"),
        *("speech.mp3", "notes(1).txt", "\u00fcber.txt", "a-b_c.html", "1.txt", "no/such.txt"),
        *("/tmp/x", "/no/such/file", "./notes", "./no/such", "../notes", "~/notes", "here/file"),
    ],
)
def test_names_of_files_look_like_one(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert looks_like_a_path(path)


# --- what is printed -----------------------------------------------------------------------
def test_conll_columns(run, model):
    out = run("parse", TEXT, "--model", model, "--format", "conll")[1]
    assert out == (
        "The\tDT\tB-NP\nold\tJJ\tI-NP\ndog\tNN\tI-NP\nslept\tVBD\tO\n.\t.\tO\n\n"
        "My\tPRP$\tB-NP\nsister\tNN\tI-NP\nbought\tVBD\tO\napples\tNNS\tB-NP\n.\t.\tO\n\n"
    )


BLANKS = "  The old\n\n dog slept. \n\n\n Run! \n"


def doc_of_blanks():
    """A Doc whose sentences and chunks begin and end with white space, and one is nothing else."""
    words = ["  ", "The", "old", "\n\n ", "dog", "slept", ".", "\n\n\n ", "Run", "!", "\n"]
    spaces = [False, True, False, False, True, False, True, False, False, True, False]
    doc = Doc(spacy.blank("en").vocab, words=words, spaces=spaces)
    assert doc.text == BLANKS
    for token in doc:
        token.is_sent_start = token.i in (0, 7, 8, 10)
    set_spans(doc, "np_chunks", [("NP", 0, 5), ("NP", 7, 8), ("NP", 8, 11)])
    return doc


def test_chunks_are_printed_without_the_white_space_around_them():
    assert list(printed(doc_of_blanks(), Format.text)) == [
        "[NP The old dog ] slept .",
        "[NP Run ! ]",
    ]
    conll = list(printed(doc_of_blanks(), Format.conll))
    words = [line.split("\t")[0] for line in conll]
    assert words == ["The", "old", "dog", "slept", ".", "", "Run", "!", ""]


# --- trees ---------------------------------------------------------------------------------
def test_trees_are_printed_above_the_chunks(run, parsing_model):
    code, out, err = run("parse", "The old dog slept.  Run!", "--model", parsing_model)
    assert (code, err) == (0, "")
    assert out.splitlines() == [TREES[0], PARSED[0], TREES[1], "Run/VB !/."]


@pytest.mark.finding
def test_trees_alone_can_be_read_by_convert(run, parsing_model, tmp_path):
    """The guide to adapting said "keep only the trees", and no command did."""
    arguments = ["The old dog slept.  Run!", "--model", parsing_model, "--format", "trees"]
    code, out, _ = run("parse", *arguments)
    assert (code, out.splitlines()) == (0, [f"(TOP {tree})" for tree in TREES])
    (tmp_path / "trees.mrg").write_text(out, encoding="utf8")
    assert run("convert", tmp_path / "trees.mrg", tmp_path / "out.spacy")[0] == 0
    assert [str(tree) for doc in docs_of(tmp_path / "out.spacy") for tree in doc._.trees] == [
        *out.splitlines()
    ]


# --- attachments of prepositional phrases --------------------------------------------------
def test_gold_attachments_are_printed_without_a_probability():
    doc = Doc(Vocab(), words=["She", "ate", "soup", "with", "spoons"])
    spans = [("V", 3, 5), ("verb", 1, 2), ("noun", 2, 3), ("prep", 3, 4), ("object", 4, 5)]
    set_spans(doc, "pp_attachments", spans)
    assert list(printed(doc, Format.text))[1:] == ["with -> ate (V)"]
    set_spans(doc, "pp_attachments", [("X", 3, 5), *spans[1:]])
    assert list(printed(doc, Format.text))[1:] == ["with -> ? (X)"]


# --- frames --------------------------------------------------------------------------------
def words_of_frames(doc):
    """The frames of a Doc over its words: white space tokens do not count."""
    words = [token.i for token in doc if not token.is_space]
    return [plain_frame(frame, words) for frame in doc._.frames]


EVERYDAY = sorted((Path(__file__).resolve().parents[1] / "everyday").glob("*_1.txt"))[::6]


def test_columns_of_propbank_are_read_again(run, tmp_path):
    """By `convert`: beside the trees in brackets, and alone."""
    texts = [path.read_text(encoding="utf8") for path in EVERYDAY]
    texts += ["He said (twice [!]) that she ran.", "-LRB- - -RRB- {a_b} *)", "Go  to\u00a0it - "]
    nlp = spacy_structlearn.load()
    parsed = list(nlp.pipe(texts))
    # A predicate without a sense.
    first, *others = parsed[0].spans["srl"]
    assert first.kb_id_
    first.kb_id_ = ""
    parsed[0].spans["srl"] = SpanGroup(parsed[0], spans=[first, *others])
    columns, brackets = tmp_path / "parsed.conll", tmp_path / "trees"
    lines = [line for n, doc in enumerate(parsed) for line in printed(doc, Format.conll, n)]
    columns.write_text("\n".join(lines), encoding="utf8")
    trees = [str(tree) for doc in parsed for tree in doc._.trees]
    brackets.write_text("\n".join(trees), encoding="utf8")
    for number, arguments in enumerate([[brackets, "--props", columns], [columns]]):
        target = tmp_path / f"{number}.spacy"
        source, *props = arguments
        code, out, err = run("convert", source, target, *props)
        assert (code, out) == (0, "")
        assert err.startswith(f"{target}: {len(texts)} documents")
        assert "srl" in err
        for doc, again in zip(parsed, docs_of(target), strict=True):
            assert again._.trees == doc._.trees
            assert [t.tag_ for t in again] == [t.tag_ for t in doc if not t.is_space]
            assert words_of_frames(again) == words_of_frames(doc)


def test_frames_that_overlap_themselves_make_no_columns():
    doc = Doc(Vocab(), words=["She", "saw"])
    set_spans(doc, "srl", extensions.frame_spans([(1, None, [("ARG0", 0, 2)])]))
    with pytest.raises(StructlearnError, match="SL117"):
        list(printed(doc, Format.conll))
    assert list(printed(doc, Format.text))[1:] == ["[ARG0 She [V saw]]"]


@pytest.mark.parametrize("format", ["text", "conll", "jsonl"])
def test_a_pipeline_without_sentences_tags_and_chunks_can_be_printed(run, tmp_path, format):
    spacy.blank("en").to_disk(tmp_path / "blank")
    code, out, err = run("parse", "Run! Run!", "--model", tmp_path / "blank", "--format", format)
    assert (code, err) == (0, "")
    assert out.startswith({"text": "Run ! Run !\n", "conll": "Run\tXX\tO\n", "jsonl": "{"}[format])


def test_the_default_pipeline_is_used_without_a_model(run, model, monkeypatch):
    monkeypatch.setattr(built_in, "FOLDER", Path(model))
    assert run("parse", TEXT)[1].splitlines() == PARSED
