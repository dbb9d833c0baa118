"""`structlearn apply`: what is read and written, shards, what is left of a run that failed."""

import json

import pytest
import spacy
from cli.toys import TEXT, as_tuples, docs_of, gold_docs, one_line_error
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_structlearn.cli.common.texts import MANIFEST

LINES = ["The old dog slept.", "Run!", "My sister bought apples.", "The sister bought old apples."]


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\n\n".join(LINES) + "\n", encoding="utf8")
    return path


@pytest.fixture
def folder(tmp_path):
    """A folder of texts, JSONL and DocBins, one of them further down."""
    folder = tmp_path / "in"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("\n\n".join(LINES), encoding="utf8")
    records = [{"id": 1, "text": TEXT}, {"id": 2, "text": ""}, {"id": 3, "text": "Run!"}]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "sub" / "b.jsonl").write_text(text, encoding="utf8")
    DocBin(docs=list(gold_docs(Vocab()))).to_disk(folder / "c.spacy")
    return folder


def files(folder):
    """The files below a folder, but for the one with the settings."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if name != MANIFEST)


# --- one file -------------------------------------------------------------------------------------
def test_text_to_a_docbin(run, model, lines, tmp_path):
    target = tmp_path / "new" / "out.spacy"
    code, out, err = run("apply", model, lines, target)
    assert (code, out) == (0, "")
    assert err == f"{target}: 4 texts, 1 file written\n"
    docs = docs_of(target)
    assert [doc.text for doc in docs] == LINES
    expected = list(spacy.load(model).pipe(LINES))
    for doc, other in zip(docs, expected, strict=True):
        spans = [[(s.start, s.end, s.label_) for s in d.spans["np_chunks"]] for d in (doc, other)]
        assert spans[0] == spans[1]
        scores = [d.spans["np_chunks"].attrs["scores"] for d in (doc, other)]
        assert list(scores[0]) == list(scores[1])
        assert [token.tag_ for token in doc] == [token.tag_ for token in other]
        assert len(list(doc.sents)) == len(list(other.sents))
    assert files(target.parent) == ["out.spacy"]


USER_DATA = {
    "source": {"letter": [1, 2.5, None]},
    ("._.", "author", None, None): "Ann",
    ("._.", "note", 4, 7): ["old", True],
}


def test_docs_keep_what_the_pipeline_does_not_set(run, model, tmp_path):
    docs = list(gold_docs(Vocab()))
    docs[1].user_data.update(USER_DATA)
    docs[1].cats["letter"] = 0.5
    docs[1].spans["mine"] = [docs[1][1:3]]
    docs[1].ents = [docs[1].char_span(0, 2, label="PRON")]
    docs[2].user_data["number"] = 2
    DocBin(store_user_data=True, docs=docs).to_disk(tmp_path / "in.spacy")
    small = ["--batch-size", "1"]
    err = run("apply", model, tmp_path / "in.spacy", tmp_path / "out.spacy", *small)[2]
    assert "not stored" not in err
    found = docs_of(tmp_path / "out.spacy")
    assert [doc.user_data for doc in found] == [{}, as_tuples(USER_DATA), {"number": 2}, {}]
    assert found[1].cats == {"letter": 0.5}
    assert [span.text for span in found[1].spans["mine"]] == ["sister bought"]
    assert [(ent.text, ent.label_) for ent in found[1].ents] == [("My", "PRON")]
    assert all("np_chunks" in doc.spans for doc in found)


@Language.component("sets_objects")
def sets_objects(doc):
    doc.user_data["kept"] = doc.text
    doc.user_data["huge"] = 2**70
    doc.user_data["._.", "object", None, None] = object()
    return doc


def test_what_cannot_be_stored_is_named_once(run, model, lines, tmp_path):
    nlp = spacy.load(model)
    nlp.add_pipe("sets_objects")
    nlp.to_disk(tmp_path / "model")
    code, _, err = run("apply", tmp_path / "model", lines, tmp_path / "out.spacy")
    assert code == 0
    assert err.count("not stored") == 2
    assert err.count(": ._.object\n") == err.count(": user_data['huge']\n") == 1
    assert [doc.user_data for doc in docs_of(tmp_path / "out.spacy")] == [
        {"kept": line} for line in LINES
    ]


def test_several_processes_change_nothing(run, model, folder, tmp_path):
    several = ["--n-process", "2", "--batch-size", "2", "--part-size", "3"]
    run("apply", model, folder, tmp_path / "one", "--part-size", "3")
    code, _, err = run("apply", model, folder, tmp_path / "two", *several)
    assert code == 0
    assert "11 texts, 5 files written" in err
    assert files(tmp_path / "one") == files(tmp_path / "two")
    for name in files(tmp_path / "one"):
        one, two = (docs_of(tmp_path / run_ / name) for run_ in ("one", "two"))
        assert [doc.to_json() for doc in one] == [doc.to_json() for doc in two]


# --- a folder, in parts ---------------------------------------------------------------------------
def test_files_of_a_folder_in_parts(run, model, folder, tmp_path):
    code, out, err = run("apply", model, folder, tmp_path / "out", "--part-size", "2")
    assert (code, out) == (0, "")
    assert err == f"{tmp_path / 'out'}: 11 texts, 6 files written\n"
    assert files(tmp_path / "out") == [
        *("a.txt.0000.spacy", "a.txt.0001.spacy", "c.spacy.0000.spacy", "c.spacy.0001.spacy"),
        *("sub/b.jsonl.0000.spacy", "sub/b.jsonl.0001.spacy"),
    ]
    assert [doc.text for doc in docs_of(tmp_path / "out" / "a.txt.0001.spacy")] == LINES[2:]


def test_shards_share_the_work_and_make_the_same(run, model, folder, tmp_path):
    run("apply", model, folder, tmp_path / "whole", "--part-size", "1", "--format", "jsonl")
    seen = set()
    for number in (3, 1, 2):
        arguments = ["--part-size", "1", "--format", "jsonl", "--shard", f"{number}/3"]
        run("apply", model, folder, tmp_path / "shards", *arguments)
        fresh = set(files(tmp_path / "shards")) - seen
        # Of 4, 4 and 3 parts each shard does 3 or 4.
        assert len(fresh) in (3, 4)
        seen |= fresh
    assert seen == set(files(tmp_path / "whole"))
    for name in seen:
        whole, shard = (tmp_path / run_ / name for run_ in ("whole", "shards"))
        assert whole.read_bytes() == shard.read_bytes()


def test_what_is_there_is_skipped_unless_forced(run, model, folder, tmp_path):
    out = tmp_path / "out"
    run("apply", model, folder, out)
    (out / "a.txt.0000.spacy").write_bytes(b"kept")
    (out / "c.spacy.0000.spacy").unlink()
    err = run("apply", model, folder, out)[2]
    assert err == f"{out}: 4 texts, 1 file written, 2 files there already\n"
    assert (out / "a.txt.0000.spacy").read_bytes() == b"kept"
    assert len(docs_of(out / "c.spacy.0000.spacy")) == 4
    assert "3 files written\n" in run("apply", model, folder, out, "--force")[2]
    assert len(docs_of(out / "a.txt.0000.spacy")) == 4


def test_a_failed_run_keeps_what_is_complete_and_goes_on(run, model, tmp_path):
    path, out = tmp_path / "in.jsonl", tmp_path / "out"
    path.write_text('{"text": "Run!"}\n{"text": "Run!"}\n{"txt": "Run!"}\n', encoding="utf8")
    arguments = [model, path, out, "--part-size", "2", "--format", "jsonl"]
    one_line_error(run("apply", *arguments), "SL064", f"{path}, line 3")
    # Nothing is half-written, hidden or not.
    assert files(out) == ["in.jsonl.0000.jsonl"]
    path.write_text('{"text": "Run!"}\n{"text": "Run!"}\n{"text": "Run!"}\n', encoding="utf8")
    one_line_error(run("apply", *arguments), "SL068")
    (out / "in.jsonl.0000.jsonl").unlink()
    assert "2 files written\n" in run("apply", *arguments)[2]
    assert files(out) == ["in.jsonl.0000.jsonl", "in.jsonl.0001.jsonl"]


def test_files_that_are_not_read_are_named(run, model, folder, tmp_path):
    (folder / "notes.md").write_text("Run!", encoding="utf8")
    (folder / ".hidden.txt").write_text("Run!", encoding="utf8")
    first, second = run("apply", model, folder, tmp_path / "out")[2].splitlines()
    assert "not read" in first
    assert "1 file with" in first
    assert "11 texts" in second


# --- errors ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_shards_that_are_none(run, model, lines, tmp_path, shard):
    assert run("apply", model, lines, tmp_path / "out", f"--shard={shard}")[0] == 2


@pytest.mark.parametrize(
    ("output", "arguments"),
    [("out.spacy", ["--shard", "1/2"]), ("out.json", []), ("-", ["--shard", "2/2"])],
)
def test_outputs_that_are_none(run, model, lines, tmp_path, monkeypatch, output, arguments):
    monkeypatch.chdir(tmp_path)
    assert run("apply", model, lines, output, *arguments)[0] == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lines.txt"]
