"""`structlearn parse`: where the text comes from, and what is printed."""

import json

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span, Token
from spacy.vocab import Vocab
from toys import PARSED, TEXT, TREES, one_line_error

import spacy_structlearn
from spacy_structlearn.cli._documents import Format, printed
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.readers import set_gold_spans


# --- where the text comes from -------------------------------------------------------------
def test_parse_a_text(run, model):
    assert run("parse", TEXT, "--model", model) == (0, "\n".join(PARSED) + "\n", "")


def test_parse_a_file_by_lines(run, model, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The old dog slept.\n\n   \nMy sister bought apples.\r\n", encoding="utf8")
    assert run("parse", path, "--model", model)[1].splitlines() == PARSED


def test_parse_standard_input_by_lines(run, model):
    stdin = "The old dog slept.\n\nMy sister bought apples."
    assert run("parse", "-", "--model", model, stdin=stdin)[1].splitlines() == PARSED


def test_a_file_that_is_no_text_is_one_line(run, model, tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("Zoë slept.".encode("latin-1"))
    error = one_line_error(run("parse", path, "--model", model))
    assert "SL035" in error
    assert "latin.txt" in error
    path = path.rename(tmp_path / "text.txt.gz")
    error = one_line_error(run("parse", path, "--model", model))
    assert "SL121" in error


@pytest.mark.parametrize("source", ["file", "-"])
def test_only_line_ends_end_a_text(run, model, tmp_path, source):
    text = "The old dog\x0cslept.\u2028Run!\nRun!\n"
    (tmp_path / "file").write_text(text, encoding="utf8")
    argument = tmp_path / "file" if source == "file" else source
    out = run("parse", argument, "--model", model, "--format", "jsonl", stdin=text)[1]
    texts = [json.loads(line)["text"] for line in out.split("\n") if line]
    assert texts == ["The old dog\x0cslept.\u2028Run!", "Run!"]


def test_a_byte_order_mark_is_no_part_of_the_text(run, model, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The old dog slept.\n", encoding="utf-8-sig")
    assert run("parse", path, "--model", model)[1].splitlines() == PARSED[:1]


@pytest.mark.parametrize("text", ["", "  ", "\n\n"])
@pytest.mark.parametrize("format", ["text", "conll", "jsonl"])
def test_nothing_to_parse_prints_nothing(run, model, text, format):
    assert run("parse", text, "--model", model, "--format", format) == (0, "", "")
    assert run("parse", "-", "--model", model, "--format", format, stdin=text) == (0, "", "")


def test_an_empty_file_prints_nothing(run, model, tmp_path):
    (tmp_path / "empty").write_text("", encoding="utf8")
    assert run("parse", tmp_path / "empty", "--model", model) == (0, "", "")


def test_a_text_longer_than_any_file_name(run, model):
    text = " ".join(["The old dog slept."] * 400)
    assert len(text) > 5000
    assert run("parse", text, "--model", model)[1].splitlines() == PARSED[:1] * 400


def test_a_text_that_is_the_name_of_a_directory_is_a_text(run, model, tmp_path, monkeypatch):
    (tmp_path / "apples").mkdir()
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("parse", "apples", "--model", model)
    assert code == 0
    assert "apples/NNS" in out


# --- what is printed -----------------------------------------------------------------------
def test_conll_columns(run, model):
    out = run("parse", TEXT, "--model", model, "--format", "conll")[1]
    assert out == (
        "The\tDT\tB-NP\nold\tJJ\tI-NP\ndog\tNN\tI-NP\nslept\tVBD\tO\n.\t.\tO\n\n"
        "My\tPRP$\tB-NP\nsister\tNN\tI-NP\nbought\tVBD\tO\napples\tNNS\tB-NP\n.\t.\tO\n\n"
    )


def test_jsonl_offsets_are_those_of_the_text(run, model):
    text = "  The  old dog slept.\tRun! "
    (line,) = run("parse", text, "--model", model, "--format", "jsonl")[1].splitlines()
    parsed = json.loads(line)
    text = parsed["text"]
    assert text == "The  old dog slept.\tRun!"

    def covered(key):
        return [text[span["start"] : span["end"]] for span in parsed[key]]

    tags = ("DT", "JJ", "NN", "VBD", ".", "VB", ".")
    assert covered("tokens") == ["The", "old", "dog", "slept", ".", "Run", "!"]
    assert [token["tag"] for token in parsed["tokens"]] == list(tags)
    assert [sentence.strip() for sentence in covered("sents")] == ["The  old dog slept.", "Run!"]
    assert covered("np_chunks") == ["The  old dog"]
    assert parsed["np_chunks"][0]["label"] == "NP"
    assert 0 < parsed["np_chunks"][0]["prob"] <= 1


def test_jsonl_is_a_line_a_text(run, model):
    stdin = "The old dog slept. Run!\nMy sister bought 🙂 apples.\n"
    out = run("parse", "-", "--model", model, "--format", "jsonl", stdin=stdin)[1]
    first, second = map(json.loads, out.splitlines())
    assert len(first["sents"]) == 2
    chunk = second["np_chunks"][0]
    assert second["text"][chunk["start"] : chunk["end"]] == "My sister"


def test_white_space_tokens_are_not_printed(run, model):
    text = "The  old \n dog slept.   Run!"
    plain = "[NP The/DT old/JJ dog/NN ] slept/VBD ./.\nRun/VB !/.\n"
    assert run("parse", text, "--model", model)[1] == plain
    conll = run("parse", text, "--model", model, "--format", "conll")[1]
    assert [len(line.split("\t")) for line in conll.splitlines() if line] == [3] * 7


# --- trees ---------------------------------------------------------------------------------
def test_trees_are_printed_above_the_chunks(run, parsing_model):
    code, out, err = run("parse", "The old dog slept.  Run!", "--model", parsing_model)
    assert (code, err) == (0, "")
    assert out.splitlines() == [TREES[0], PARSED[0], TREES[1], "Run/VB !/."]


def test_a_wide_tree_takes_several_lines(run, parsing_model):
    text = " ".join(["The old dog slept"] * 5)
    lines = run("parse", text, "--model", parsing_model)[1].splitlines()
    assert len(lines) > 3
    assert lines[0] == "(S"
    assert lines[1].startswith("  (")
    assert lines[-1].startswith("[NP The/DT old/JJ dog/NN ]")


def test_trees_in_jsonl(run, model, parsing_model):
    out = run("parse", "The old dog slept.", "--model", parsing_model, "--format", "jsonl")[1]
    parsed = json.loads(out)
    assert parsed["trees"] == [f"(TOP {TREES[0]})"]
    assert parsed["parse_failures"] == []
    noun_phrase = parsed["constituents"][1]
    assert 0 < noun_phrase.pop("prob") <= 1
    assert noun_phrase == {"start": 0, "end": 11, "label": "NP"}
    assert "trees" not in json.loads(run("parse", "Run!", "--model", model, "--format", "jsonl")[1])


# --- attachments of prepositional phrases --------------------------------------------------
def test_attachments_are_printed_below_their_sentence(run, attaching_model):
    text = "She ate soup with spoons. Run! She ate bowls of soup."
    code, out, err = run("parse", text, "--model", attaching_model)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    trees = [i for i, line in enumerate(lines) if line.startswith("(S")]
    # The last line of each sentence: the lines with its tags stand above it.
    last = [lines[end - 1] for end in (*trees[1:], len(lines))]
    assert [line[:-5] for line in (last[0], last[2])] == ["with -> ate (V ", "of -> bowls (N "]
    assert all(0.5 <= float(line[-5:-1]) <= 1 for line in (last[0], last[2]))
    assert sum("->" in line for line in lines) == 2


def test_attachments_in_jsonl(run, model, attaching_model):
    text = "Run!  She ate soup with  spoons."
    parsed = json.loads(run("parse", text, "--model", attaching_model, "--format", "jsonl")[1])
    (found,) = parsed["pp_attachments"]
    assert 0.5 <= found.pop("prob") <= 1
    label = found.pop("label")
    assert label == "V"
    roles = {
        role: text[part["start"] : part["end"]] for role, part in found.items() if role[0] in "vnpo"
    }
    assert roles == {"verb": "ate", "noun": "soup", "prep": "with", "object": "spoons"}
    assert text[found["start"] : found["end"]] == "with  spoons"
    out = run("parse", "Run!", "--model", model, "--format", "jsonl")[1]
    assert "pp_attachments" not in json.loads(out)
    out = run("parse", "Run!", "--model", attaching_model, "--format", "jsonl")[1]
    assert json.loads(out)["pp_attachments"] == []


def test_attachments_are_no_column_of_conll(run, attaching_model):
    text = "She ate soup with spoons."
    out = run("parse", text, "--model", attaching_model, "--format", "conll")[1]
    assert len(out.splitlines()) == 7


def test_gold_attachments_are_printed_without_a_probability():
    doc = Doc(Vocab(), words=["She", "ate", "soup", "with", "spoons"])
    spans = [("V", 3, 5), ("verb", 1, 2), ("noun", 2, 3), ("prep", 3, 4), ("object", 4, 5)]
    set_gold_spans(doc, "pp_attachments", spans)
    assert list(printed(doc, Format.text))[1:] == ["with -> ate (V)"]
    set_gold_spans(doc, "pp_attachments", [("X", 3, 5), *spans[1:]])
    assert list(printed(doc, Format.text))[1:] == ["with -> ? (X)"]


# --- frames --------------------------------------------------------------------------------
@Language.component("structlearn_cli_frames")
def label_frames(doc):
    """Frames by rule: what stands before the verb is ARG0, what stands behind it is ARG1."""
    frames = []
    for i in [token.i for token in doc if token.text in ("slept", "bought", "saw", "Run")]:
        sentence = doc[i].sent
        roleset = {"slept": "sleep.01", "bought": "buy.01", "saw": "see.01"}.get(doc[i].text)
        arguments = [("ARG0", sentence.start, i)] if i > sentence.start else []
        if sentence.end - i > 2:
            arguments.append(("ARG1", i + 1, sentence.end - 1))
        frames.append((i, roleset, arguments))
    set_gold_spans(doc, "srl", extensions.frame_spans(frames))
    scores = np.linspace(0.5, 1, len(doc.spans["srl"]), dtype=np.float32)
    doc.spans["srl"].attrs["scores"] = scores
    return doc


@pytest.fixture(scope="module")
def labeling_model(model, tmp_path_factory):
    """The pipeline at the top with frames by rule besides."""
    nlp = spacy.load(model)
    nlp.add_pipe("structlearn_cli_frames")
    path = tmp_path_factory.mktemp("cli_frames") / "model"
    nlp.to_disk(path)
    return str(path)


def test_frames_are_printed_below_their_sentence(run, labeling_model):
    code, out, err = run("parse", f"{TEXT} Yes. Run!", "--model", labeling_model)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        PARSED[0],
        "[ARG0 The old dog] [V sleep.01 slept] .",
        PARSED[1],
        "[ARG0 My sister] [V buy.01 bought] [ARG1 apples] .",
        "[NP Yes ] ./.",
        "Run/VB !/.",
        "[V Run] !",
    ]


def test_frames_are_printed_below_the_attachments():
    doc = Doc(Vocab(), words=["She", "ate", "soup", "with", "spoons"])
    attachment = [("V", 3, 5), ("verb", 1, 2), ("noun", 2, 3), ("prep", 3, 4), ("object", 4, 5)]
    set_gold_spans(doc, "pp_attachments", attachment)
    frame = (1, None, [("ARG0", 0, 1), ("ARG1", 2, 3), ("ARGM-MNR", 3, 5)])
    set_gold_spans(doc, "srl", extensions.frame_spans([frame]))
    assert list(printed(doc, Format.text)) == [
        "She ate soup with spoons",
        "with -> ate (V)",
        "[ARG0 She] [V ate] [ARG1 soup] [ARGM-MNR with spoons]",
    ]


def test_white_space_is_not_printed_with_frames(run, labeling_model):
    text = "The  old \n dog  slept."
    lines = run("parse", text, "--model", labeling_model)[1].splitlines()
    assert lines[1:] == ["[ARG0 The old dog] [V sleep.01 slept] ."]
    conll = run("parse", text, "--model", labeling_model, "--format", "conll")[1]
    assert [line.split("\t")[4] for line in conll.splitlines() if line] == [
        *("(ARG0*", "*", "*)", "(V*)", "*"),
    ]


def spans_of(column):
    """The arguments of one column of a PropBank file, as (label, start, end)."""
    spans, label = [], None
    for i, cell in enumerate(column):
        if cell.startswith("("):
            label, start = cell[1:].partition("*")[0], i
        if cell.endswith(")"):
            spans.append((label, start, i + 1))
    return spans


def test_frames_are_columns_of_conll(run, model, labeling_model):
    text = f"{TEXT} Run! Yes."
    code, out, err = run("parse", text, "--model", labeling_model, "--format", "conll")
    assert (code, err) == (0, "")
    sentences = [
        [line.split("\t") for line in block.splitlines()] for block in out.strip().split("\n\n")
    ]
    plain = run("parse", text, "--model", model, "--format", "conll")[1]
    first = [["\t".join(row[:3]) for row in rows] for rows in sentences]
    assert first == [block.splitlines() for block in plain.strip().split("\n\n")]
    columns = [list(zip(*rows, strict=True))[3:] for rows in sentences]
    assert [rolesets for rolesets, *_ in columns] == [
        ("-", "-", "-", "sleep.01", "-"),
        ("-", "-", "buy.01", "-", "-"),
        ("-", "-"),
        ("-", "-"),
    ]
    assert [[spans_of(cells) for cells in found] for _, *found in columns] == [
        [[("ARG0", 0, 3), ("V", 3, 4)]],
        [[("ARG0", 0, 2), ("V", 2, 3), ("ARG1", 3, 4)]],
        [[("V", 0, 1)]],
        [],
    ]


def test_a_sentence_has_a_column_of_conll_for_each_predicate():
    words = ["She", "saw", "her", "sleep", "."]
    doc = Doc(Vocab(), words=words)
    frames = [
        (1, "see.01", [("ARG0", 0, 1), ("ARG1", 2, 4)]),
        (3, "sleep.01", [("ARG0", 2, 3)]),
    ]
    set_gold_spans(doc, "srl", extensions.frame_spans(frames))
    *lines, end = printed(doc, Format.conll)
    assert end == ""
    _, _, _, rolesets, *cells = zip(*(line.split("\t") for line in lines), strict=True)
    assert rolesets == ("-", "see.01", "-", "sleep.01", "-")
    for column, (predicate, _, arguments) in zip(cells, frames, strict=True):
        assert spans_of(column) == sorted(
            [*arguments, ("V", predicate, predicate + 1)], key=lambda s: s[1]
        )


def test_frames_that_overlap_themselves_make_no_columns():
    doc = Doc(Vocab(), words=["She", "saw"])
    set_gold_spans(doc, "srl", extensions.frame_spans([(1, None, [("ARG0", 0, 2)])]))
    with pytest.raises(StructlearnError, match="SL117"):
        list(printed(doc, Format.conll))
    assert list(printed(doc, Format.text))[1:] == ["[ARG0 She [V saw]]"]


def test_frames_in_jsonl(run, model, labeling_model):
    text = "Run! My sister bought  apples."
    out = run("parse", text, "--model", labeling_model, "--format", "jsonl")[1]
    first, second = json.loads(out)["frames"]
    predicate = {"start": 0, "end": 3}
    assert first == {"predicate": predicate, "roleset": None, "prob": 0.5, "arguments": []}
    assert (second["roleset"], second["prob"]) == ("buy.01", 0.6667)
    covered = [
        (part.get("label"), text[part["start"] : part["end"]], part.get("prob"))
        for part in (second["predicate"], *second["arguments"])
    ]
    assert covered[0][1] == "bought"
    assert covered[1] == ("ARG0", "My sister", 0.8333)
    assert covered[2][0] == "ARG1"
    assert covered[2][1].strip() == "apples"
    assert list(second) == ["predicate", "roleset", "prob", "arguments"]
    assert list(second["arguments"][0]) == ["start", "end", "label", "prob"]
    out = run("parse", "Yes.", "--model", labeling_model, "--format", "jsonl")[1]
    assert json.loads(out)["frames"] == []
    assert "frames" not in json.loads(run("parse", text, "--model", model, "--format", "jsonl")[1])


def test_gold_frames_have_no_probability_in_jsonl():
    doc = Doc(Vocab(), words=["She", "saw"])
    set_gold_spans(doc, "srl", extensions.frame_spans([(1, None, [("ARG0", 0, 1)])]))
    (frame,) = json.loads(*printed(doc, Format.jsonl))["frames"]
    assert frame["prob"] is None
    assert frame["arguments"] == [{"start": 0, "end": 3, "label": "ARG0", "prob": None}]


@pytest.fixture
def unregistered():
    """Extensions as in a process where no component of ours was made yet."""
    registered = (
        *((Doc, "np_chunks"), (Token, "np_iob"), (Span, "np_chunk_prob")),
        *((Doc, "frames"), (Token, "srl")),
    )
    for target, name in registered:
        target.remove_extension(name)
    yield
    extensions.register()


@pytest.mark.parametrize("format", ["text", "conll", "jsonl"])
def test_a_pipeline_without_sentences_tags_and_chunks_can_be_printed(
    run, tmp_path, format, unregistered
):
    spacy.blank("en").to_disk(tmp_path / "blank")
    code, out, err = run("parse", "Run! Run!", "--model", tmp_path / "blank", "--format", format)
    assert (code, err) == (0, "")
    assert out.startswith({"text": "Run ! Run !\n", "conll": "Run\t\tO\n", "jsonl": "{"}[format])


def test_the_default_pipeline_is_used_without_a_model(run, model, monkeypatch):
    monkeypatch.setattr(spacy_structlearn, "load", lambda: spacy.load(model))
    assert run("parse", TEXT)[1].splitlines() == PARSED
