"""The command line, run in this process where that is enough."""

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span, Token
from spacy.vocab import Vocab
from typer.testing import CliRunner

import spacy_structlearn
from spacy_structlearn import cli
from spacy_structlearn.classification.estimators import (
    BayesNetEstimator,
    ClassificationData,
    LogLinearEstimator,
)
from spacy_structlearn.classification.features import Table
from spacy_structlearn.classification.stages import StagesEstimator
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.readers import create_treebank_reader, set_gold_spans, to_example
from spacy_structlearn.trees.brackets import parse_tree

CONFIG = Path(spacy_structlearn.__file__).parent / "pipeline" / "configs" / "np_chunker.cfg"
TEXT = "The old dog slept. My sister bought apples."
PARSED = [
    "[NP The/DT old/JJ dog/NN ] slept/VBD ./.",
    "[NP My/PRP$ sister/NN ] bought/VBD [NP apples/NNS ] ./.",
]
GOLD = [
    ("The old dog slept .", "DT JJ NN VBD .", [(0, 3)]),
    ("My sister bought apples .", "PRP$ NN VBD NNS .", [(0, 2), (3, 4)]),
    ("The sister bought old apples .", "DT NN VBD JJ NNS .", [(0, 2), (3, 5)]),
    ("Run !", "VB .", []),
]


def gold_docs(vocab):
    for words, tags, chunks in GOLD:
        doc = Doc(vocab, words=words.split(), tags=tags.split())
        set_gold_spans(doc, "np_chunks", [("NP", start, end) for start, end in chunks])
        yield doc


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A pipeline that tags by rule and has a trained chunker: its directory."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    ruler = nlp.add_pipe("attribute_ruler")
    for words, tags, _ in GOLD:
        for word, tag in zip(words.split(), tags.split(), strict=True):
            ruler.add([[{"LOWER": word.lower()}]], {"TAG": tag})
    ruler.add([[{"IS_SPACE": True}]], {"TAG": "_SP"})
    chunker = nlp.add_pipe("np_chunker")
    examples = [to_example(doc) for doc in gold_docs(nlp.vocab)]
    chunker.initialize(lambda: examples)
    chunker.fit(examples)
    path = tmp_path_factory.mktemp("cli") / "model"
    nlp.to_disk(path)
    return str(path)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line. RETURNS: exit code, standard output, standard error."""

    def run(*arguments, stdin=""):
        data = stdin.encode("utf8") if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["structlearn", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf8"))
        try:
            cli.main()
            code = 0
        except SystemExit as error:
            code = error.code
        return code or 0, *capsys.readouterr()

    return run


def one_line_error(result):
    """The line on standard error of a run that failed in the way users should see."""
    code, out, err = result
    assert code == 1
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("structlearn: ")
    assert "Traceback" not in err
    return err


# --- help and version -----------------------------------------------------------------------------
def test_help_names_the_commands(run):
    code, out, _ = run("--help")
    assert code == 0
    assert "parse" in out
    assert "train" in out


def test_version(run):
    assert run("--version") == (0, f"{spacy_structlearn.__version__}\n", "")


def test_no_arguments_print_the_help(run):
    _, out, err = run()
    assert "Usage" in out + err


@pytest.mark.parametrize("arguments", [["--help"], ["parse", "--help"], ["--version"]])
def test_help_does_not_wait_for_spacy_to_be_imported(arguments):
    code = (
        "import sys\n"
        "from spacy_structlearn.cli import main\n"
        f"sys.argv = ['structlearn', *{arguments}]\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    assert not {'spacy', 'thinc', 'numpy'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


# --- parse: where the text comes from -------------------------------------------------------------
def test_parse_a_text(run, model):
    assert run("parse", TEXT, "--model", model) == (0, "\n".join(PARSED) + "\n", "")


def test_parse_a_file_by_lines(run, model, tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("The old dog slept.\n\n   \nMy sister bought apples.\r\n", encoding="utf8")
    assert run("parse", path, "--model", model)[1].splitlines() == PARSED


def test_parse_standard_input_by_lines(run, model):
    stdin = "The old dog slept.\n\nMy sister bought apples."
    assert run("parse", "-", "--model", model, stdin=stdin)[1].splitlines() == PARSED


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


# --- parse: what is printed -----------------------------------------------------------------------
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


# --- parse: trees ---------------------------------------------------------------------------------
TREES = ["(S (NP (DT The) (JJ old) (NN dog)) (VP (VBD slept)) (. .))", "(S (VP (VB Run)) (. !))"]


@pytest.fixture(scope="module")
def parsing_model(model, tmp_path_factory):
    """The pipeline above with a parser besides."""
    nlp = spacy.load(model)
    docs = []
    for text in TREES:
        tree = parse_tree(text)
        doc = Doc(nlp.vocab, words=tree.words(), tags=tree.tags())
        set_gold_spans(doc, "constituents", tree.spans())
        docs.append(doc)
    examples = [to_example(doc) for doc in docs]
    settings = {"@architectures": "spacy_structlearn.LatentGrammar.v1", "rounds": 0}
    parser = nlp.add_pipe("constituency_parser", config={"model": settings})
    parser.initialize(lambda: examples)
    parser.fit(examples)
    path = tmp_path_factory.mktemp("cli_parser") / "model"
    nlp.to_disk(path)
    return str(path)


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


# --- parse: attachments of prepositional phrases --------------------------------------------------
ATTACHED = [
    "(S (NP (PRP She)) (VP (VBD ate) (NP (NN soup)) (PP (IN with) (NP (NNS spoons)))) (. .))",
    "(S (NP (PRP She)) (VP (VBD ate) (NP (NP (NNS bowls)) (PP (IN of) (NP (NN soup))))) (. .))",
]


@pytest.fixture(scope="module")
def attaching_model(tmp_path_factory):
    """A parser and an attacher of prepositional phrases: the directory."""
    path = tmp_path_factory.mktemp("cli_attacher")
    (path / "trees").write_text("\n".join((ATTACHED + TREES) * 3), encoding="utf8")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    settings = {"@architectures": "spacy_structlearn.LatentGrammar.v1", "rounds": 0}
    nlp.add_pipe("constituency_parser", config={"model": settings})
    nlp.add_pipe("pp_attacher")
    examples = list(create_treebank_reader(path / "trees")(nlp))
    nlp.initialize(lambda: examples)
    for name in ("constituency_parser", "pp_attacher"):
        nlp.get_pipe(name).fit(examples)
    nlp.to_disk(path / "model")
    return str(path / "model")


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
    assert list(cli._printed(doc, cli.Format.text))[1:] == ["with -> ate (V)"]
    set_gold_spans(doc, "pp_attachments", [("X", 3, 5), *spans[1:]])
    assert list(cli._printed(doc, cli.Format.text))[1:] == ["with -> ? (X)"]


# --- parse: frames --------------------------------------------------------------------------------
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
    assert list(cli._printed(doc, cli.Format.text)) == [
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
    *lines, end = cli._printed(doc, cli.Format.conll)
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
        list(cli._printed(doc, cli.Format.conll))
    assert list(cli._printed(doc, cli.Format.text))[1:] == ["[ARG0 She [V saw]]"]


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
    (frame,) = json.loads(*cli._printed(doc, cli.Format.jsonl))["frames"]
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


# --- parse: errors --------------------------------------------------------------------------------
def test_a_missing_model_is_one_line(run, tmp_path):
    assert "nowhere" in one_line_error(run("parse", TEXT, "--model", tmp_path / "nowhere"))


def test_a_directory_that_is_no_model_is_one_line(run, tmp_path):
    one_line_error(run("parse", TEXT, "--model", tmp_path))


def test_an_untrained_model_is_one_line(run, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("np_chunker")
    nlp.to_disk(tmp_path / "model")
    assert "SL002" in one_line_error(run("parse", TEXT, "--model", tmp_path / "model"))


@pytest.mark.parametrize("source", ["file", "-"])
def test_what_is_no_utf8_is_one_line(run, model, tmp_path, source):
    (tmp_path / "file").write_bytes(b"The old d\xf6g slept.")
    argument = tmp_path / "file" if source == "file" else source
    one_line_error(run("parse", argument, "--model", model, stdin=b"The old d\xf6g slept."))


def test_a_text_too_long_for_spacy_is_one_line(run, model, tmp_path):
    (tmp_path / "long").write_text("dog " * 250_001, encoding="utf8")
    assert "E088" in one_line_error(run("parse", tmp_path / "long", "--model", model))


def test_an_unknown_format_is_a_usage_error(run, model):
    assert run("parse", TEXT, "--model", model, "--format", "xml")[0] == 2


def test_errors_that_no_input_explains_keep_their_traceback(run, monkeypatch):
    def broken(model):
        raise ValueError("a bug")

    monkeypatch.setattr(cli, "_load", broken)
    with pytest.raises(ValueError, match="a bug"):
        run("parse", TEXT)


def test_python_m_in_a_process_of_its_own(model):
    done = subprocess.run(
        [sys.executable, "-m", "spacy_structlearn", "parse", "-", "--model", model],
        input="The old dog slept.\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, PARSED[0] + "\n", "")


# --- train ----------------------------------------------------------------------------------------
@pytest.fixture
def data(tmp_path):
    """The overrides that every training needs, as arguments."""
    path = tmp_path / "gold.spacy"
    DocBin(docs=list(gold_docs(Vocab()))).to_disk(path)
    return ["--paths.train", path, "--paths.dev", path]


def test_train_with_overrides(run, data, tmp_path):
    output = tmp_path / "model"
    code, out, err = run(
        "train", CONFIG, "-o", output, *data, "--components.np_chunker.model.l2=0.01"
    )
    assert (code, err) == (0, "")
    nlp = spacy.load(output)
    assert nlp.config["components"]["np_chunker"]["model"]["l2"] == 0.01
    assert nlp.meta["performance"]["np_chunk_f"] == 1.0
    assert "np_chunk_f" in out
    assert "1.0000" in out
    assert str(output) in out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--foo", "1"], "'--foo'"),
        (["--foo"], "'--foo'"),
        (["stray"], "'stray'"),
        (["--system.seed", "1", "stray"], "'stray'"),
        (["--system.seed=1", "stray"], "'stray'"),
    ],
)
def test_arguments_that_are_no_overrides_are_one_line(run, data, tmp_path, arguments, named):
    error = one_line_error(run("train", CONFIG, "-o", tmp_path / "model", *data, *arguments))
    assert "SL009" in error
    assert named in error


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--nowhere.seed", "1"], "nowhere"),
        (["--components.np_chunker.model.l3", "1"], "l3"),
        (["--components.np_chunker.model.l2", "much"], "l2"),
        (["--components.np_chunker.iterations_per_step", "0"], "SL004"),
        (["--components.np_chunker.model.@architectures", "nobody.CRF.v1"], "nobody.CRF.v1"),
        (["--components.np_chunker.factory", "np_chunkier"], "np_chunkier"),
        (["--components.np_chunker.model.templates", '["WORD[0]"]'], "SL003"),
        (["--training.max_steps", "many"], "max_steps"),
        (["--training.dev_corpus", "corpora.nowhere"], "nowhere"),
        (["--paths.train", "nowhere.spacy"], "nowhere.spacy"),
        (["--paths.dev", "nowhere.spacy"], "nowhere.spacy"),
        (["--paths.train", "null"], "path"),
    ],
)
def test_overrides_that_make_no_config_are_one_line(run, data, tmp_path, arguments, named):
    output = tmp_path / "model"
    assert named in one_line_error(run("train", CONFIG, "-o", output, *data, *arguments))
    assert not output.exists()


def test_a_missing_config_is_one_line(run, data, tmp_path):
    result = run("train", tmp_path / "nowhere.cfg", "-o", tmp_path / "model", *data)
    assert "nowhere.cfg" in one_line_error(result)


@pytest.mark.parametrize("text", ["", "no config", "[nlp]\nlang = en\n", "[nlp\n", "[a]\nb = ["])
def test_a_file_that_is_no_config_is_one_line(run, tmp_path, text):
    (tmp_path / "config.cfg").write_text(text, encoding="utf8")
    one_line_error(run("train", tmp_path / "config.cfg", "-o", tmp_path / "model"))


def test_an_output_that_is_no_pipeline_is_not_overwritten(run, data, tmp_path):
    error = one_line_error(run("train", CONFIG, "-o", tmp_path, *data))
    assert "SL014" in error
    assert (tmp_path / "gold.spacy").exists()


def test_an_output_is_required(run, data):
    assert run("train", CONFIG, *data)[0] == 2


# --- info -----------------------------------------------------------------------------------------
def test_info_names_the_strongest_features_of_the_built_in_pipeline():
    result = CliRunner().invoke(cli.app, ["info", "--top", "3", "--label", "S-NP"])
    assert result.exit_code == 0
    assert "TAG[0]=PRP" in result.output
    assert "E-NP" not in result.output


def test_info_describes_a_bayesian_network(run, attaching_model):
    code, out, err = run("info", attaching_model, "--component", "pp_attacher")
    assert (code, err) == (0, "")
    (parameters,) = {spacy.load(attaching_model).get_pipe("pp_attacher").parameters}
    assert out == parameters.describe() + "\n"
    assert "| y" in out or "|y" in out


def test_info_shows_the_templates_and_features_of_a_log_linear_model(run, tmp_path):
    (tmp_path / "trees").write_text("\n".join(ATTACHED * 3), encoding="utf8")
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy_structlearn.LogLinear.v1", "templates": [["p"], ["p", "v"]]}
    attacher = nlp.add_pipe("pp_attacher", config={"model": model})
    examples = list(create_treebank_reader(tmp_path / "trees")(nlp))
    attacher.initialize(lambda: examples)
    attacher.fit(examples)
    nlp.to_disk(tmp_path / "model")
    code, out, err = run("info", tmp_path / "model", "--component", "pp_attacher", "--label", "N")
    assert (code, err) == (0, "")
    assert out.startswith(attacher.parameters.describe() + "\n")
    assert "p=of" in out
    assert "v=ate" not in out  # in conjunctions alone, and those have no names


def stages_of(estimator):
    """Two stages fitted on a few words, the last by this estimator."""
    words = ["she", "him", "her", "it", "she", "him"]
    table = Table.of({"head": words, "position": ["before", "after"] * 3})
    roles = ClassificationData(table, ("ARG0", "ARG1") * 3)
    there = ClassificationData(table, (*["ARG"] * 5, "NONE"))
    settings = StagesEstimator({"identification": LogLinearEstimator(), "roles": estimator})
    data = [{"identification": there, "roles": roles}]
    trainer = settings.trainer(settings.initialize(data, ("ARG0", "ARG1")), data)
    while trainer.step():
        pass
    return trainer.parameters()


class Labeler:
    """A pipeline of one component."""

    pipe_names = ("srl_labeler",)

    def __init__(self, parameters):
        self.parameters = parameters

    def get_pipe(self, name):
        return self


def test_info_shows_every_stage_and_the_features_of_the_last(run, monkeypatch):
    parameters = stages_of(LogLinearEstimator(templates=[["head"], ["position"]], min_count=1))
    monkeypatch.setattr(cli, "_load", lambda model: Labeler(parameters))
    code, out, err = run("info", "--component", "srl_labeler", "--top", "2")
    assert (code, err) == (0, "")
    assert out.startswith(parameters.describe() + "\n")
    assert "identification:" in out
    shown = out.removeprefix(parameters.describe())
    assert shown.index("ARG0") < shown.index("position=before") < shown.index("ARG1")
    one = run("info", "--component", "srl_labeler", "--label", "ARG1")[1]
    assert "ARG0   feature" not in one.removeprefix(parameters.describe())
    error = one_line_error(run("info", "--component", "srl_labeler", "--label", "NONE"))
    assert "SL032" in error


def test_info_shows_no_features_of_a_last_stage_without_weights(run, monkeypatch):
    parameters = stages_of(BayesNetEstimator())
    monkeypatch.setattr(cli, "_load", lambda model: Labeler(parameters))
    out = run("info", "--component", "srl_labeler")[1]
    assert out == parameters.describe() + "\n"


@pytest.mark.parametrize("component", ["np_chunker", "pp_attacher"])
def test_info_names_a_label_that_there_is_not(run, component):
    error = one_line_error(run("info", "--component", component, "--label", "Z"))
    assert error.startswith(f"structlearn: [SL032] '{component}' has no label 'Z'; its labels are:")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["--component", "parser"], "np_chunker"), (["--component", "tagger"], "try np_chunker")],
)
def test_info_names_a_component_that_it_cannot_show(arguments, words):
    result = CliRunner().invoke(cli.app, ["info", *arguments])
    assert result.exit_code == 1
    assert words in str(result.exception)
