"""`apply` takes no file for its own result that was made from another pipeline or input."""

import gzip
import json
import os
import shutil

import pytest
import spacy
from cli.toys import in_reliability, left, one_line_error
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_structlearn.cli.common.texts import MANIFEST
from spacy_structlearn.writing import locked

TEXTS = ["The old dog slept.", "Run!", "My sister bought apples."]


def docbin(words):
    return DocBin(docs=[Doc(Vocab(), words=words.split())]).to_bytes()


@pytest.fixture
def places(tmp_path):
    """A folder with files of all formats."""
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "in" / "a.txt").write_text("\n\n".join(TEXTS), encoding="utf8")
    (tmp_path / "in" / "b.jsonl").write_text('{"id": 1, "text": "Run!"}\n', encoding="utf8")
    (tmp_path / "in" / "c.spacy").write_bytes(docbin("The dog slept"))
    (tmp_path / "in" / "sub" / "d.txt.gz").write_bytes(gzip.compress(b"Run!"))
    return tmp_path


def touched(path):
    state = path.stat()
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1))


def of_the_same_time(path):
    state = path.stat()
    path.write_bytes(b"Run!")
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


def linked(path):
    path.rename(path.parents[1] / "target.txt")
    path.symlink_to(path.parents[1] / "target.txt")


def elsewhere(path):
    """The same names, sizes and times in another folder."""
    folder = path.parent
    folder.rename(folder.with_name("copy"))
    folder.symlink_to(folder.with_name("copy"))


# Functions of the first file, or new contents of files.
INPUTS = {
    "touched": touched,
    "of the same time": of_the_same_time,
    "linked": linked,
    "elsewhere": elsewhere,
    "of the same size": {"a.txt": "\n\n".join(TEXTS).swapcase()},
    "longer": {"a.txt": "\n\n".join([*TEXTS, "Run!"])},
    "shorter": {"a.txt": TEXTS[0]},
    "empty": {"a.txt": ""},
    "JSONL": {"b.jsonl": '{"id": 2, "text": "Dogs."}'},
    "a DocBin": {"c.spacy": docbin("Dogs slept")},
    "an archive": {"sub/d.txt.gz": gzip.compress(b"A dog")},
    "swapped": {"a.txt": "Run!", "sub/d.txt.gz": gzip.compress("\n\n".join(TEXTS).encode())},
}
OUTPUTS = {
    "folder": ["out"],
    "parts": ["out", "--format", "jsonl", "--part-size", "2"],
    "docbin": ["out.spacy"],
    "jsonl": ["out.jsonl"],
}


def check(run, before, after, target, *options):
    """Run `apply` before a change and after it: it is refused, or does everything anew.

    before, after: the pipeline and the input.
    """
    assert run("apply", *before, target, *options)[0] == 0

    def whole(path):
        return left(path) if path.is_dir() else path.read_bytes()

    made = whole(target)
    after = after()
    error = "SL059" if target.suffix else "SL068"
    one_line_error(run("apply", *after, target, *options), error, "--force")
    assert whole(target) == made
    code, _, err = run("apply", *after, target, *options, "--force")
    assert (code, "already" in err) == (0, False)
    new = target.with_stem("new")
    assert run("apply", *after, new, *options)[0] == 0
    assert whole(target) == whole(new)


@pytest.mark.finding
@pytest.mark.stale
@pytest.mark.parametrize("output", ["folder", "docbin", *in_reliability("parts", "jsonl")])
@pytest.mark.parametrize("way", INPUTS)
def test_what_was_made_from_another_input_is_no_result(run, model, places, way, output):
    """Row 4: an edited file, or another one of the same name, was "there already"."""
    target, *options = OUTPUTS[output]
    arguments = [model, places / "in"]

    def change():
        if callable(INPUTS[way]):
            INPUTS[way](places / "in" / "a.txt")
            return arguments
        for name, data in INPUTS[way].items():
            data = data.encode() if isinstance(data, str) else data
            (places / "in" / name).write_bytes(data)
        return arguments

    check(run, arguments, change, places / target, *options)


CHANGES = {
    "version": lambda nlp: nlp.meta.update(version="0.2.0"),
    "name": lambda nlp: nlp.meta.update(name="other"),
    "component": lambda nlp: nlp.remove_pipe("np_chunker"),
    "order": lambda nlp: nlp.add_pipe("merge_entities", first=True),
    "config": lambda nlp: nlp.config["nlp"].update(batch_size=9),
    "words": lambda nlp: nlp.vocab.strings.add("unheard"),
    "rules": lambda nlp: nlp.get_pipe("attribute_ruler").add([[{"LOWER": "dog"}]], {"TAG": "XX"}),
}


@pytest.mark.finding
@pytest.mark.stale
@pytest.mark.parametrize("change", CHANGES)
def test_what_was_made_by_another_pipeline_is_no_result(run, model, places, change):
    """Row 3: all trained pipelines were `en_pipeline 0.0.0`."""

    def changed():
        nlp = spacy.load(model)
        CHANGES[change](nlp)
        nlp.to_disk(places / "model")
        return places / "model", places / "in" / "a.txt"

    check(run, [model, places / "in" / "a.txt"], changed, places / "out")


@pytest.mark.finding
@pytest.mark.stale
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["--part-size", "1"], ["--part-size", "2"]),
        (["--unit", "line"], ["--unit", "file"]),
        (["--format", "jsonl"], ["--format", "docbin"]),
        ([], ["--input-format", "text"]),
    ],
)
def test_other_settings_are_refused_or_replace_all(run, model, places, before, after):
    """Row 3, for settings: files of other settings would remain beside new ones."""
    arguments = [model, places / "in" / "a.txt", places / "out"]
    assert run("apply", *arguments, *before)[0] == 0
    one_line_error(run("apply", *arguments, *after), "SL068", "of the settings, ")
    assert run("apply", *arguments, *after, "--force")[0] == 0
    arguments[2] = places / "new"
    assert run("apply", *arguments, *after)[0] == 0
    assert left(places / "out") == left(places / "new")


@pytest.mark.finding
@pytest.mark.stale
@pytest.mark.parametrize("output", ["out", "out.jsonl"])
def test_standard_input_is_another_one_each_time(run, model, places, output):
    """Row 4: a second run with other texts was "there already"."""
    arguments = ["apply", model, "-", places / output]
    assert run(*arguments, stdin="Run!")[0] == 0
    one_line_error(run(*arguments, stdin="A dog."), "--force")
    assert "1 file written\n" in run(*arguments, "--force", stdin="A dog.")[2]


def test_only_what_a_run_makes_again_is_removed(run, model, places):
    assert run("apply", model, places / "in", places / "out")[0] == 0
    before = left(places / "out")
    arguments = [model, places / "in" / "a.txt", places / "out", "--unit", "line", "--force"]
    one_line_error(run("apply", *arguments), "SL100", "b.jsonl")
    assert left(places / "out") == before


def test_runs_with_other_inputs_share_a_folder(run, model, places):
    for name in ("a.txt", "b.jsonl"):
        code, _, err = run("apply", model, places / "in" / name, places / "out")
        assert code == 0
        assert ("1 other input" in err) == (name == "b.jsonl")
    assert len(json.loads((places / "out" / MANIFEST).read_text("utf8"))["inputs"]) == 2
    # A new file is parsed, what was moved away stays.
    shutil.move(places / "in" / "a.txt", places / "in" / "e.txt")
    err = run("apply", model, places / "in", places / "out")[2]
    assert "3 files written, 1 file there already" in err
    assert {"a.txt.0000.spacy", "e.txt.0000.spacy"} < set(left(places / "out"))


def test_files_of_a_changed_input_can_be_removed_by_hand(run, model, places):
    arguments = ["apply", model, places / "in", places / "out"]
    run(*arguments)
    (places / "in" / "a.txt").write_text("Run!", encoding="utf8")
    (places / "out" / "a.txt.0000.spacy").unlink()
    assert "1 file written, 3 files there already" in run(*arguments)[2]


def test_shards_agree(run, model, places):
    arguments = ["apply", model, places / "in", places / "out", "--part-size", "1"]
    run(*arguments, "--shard", "1/2")
    touched(places / "in" / "a.txt")
    one_line_error(run(*arguments, "--shard", "2/2"), "SL068", "the time of a.txt")
    with locked(places / "out", places / "out" / ".shard-1-of-2.lock"):
        one_line_error(run(*arguments, "--shard", "2/2", "--force"), "SL098")
    assert run(*arguments, "--shard", "2/2", "--force")[0] == 0
    assert run(*arguments, "--shard", "1/2")[0] == 0
    assert run(*arguments[:3], places / "new", *arguments[4:])[0] == 0
    assert left(places / "out") == left(places / "new")


def test_an_input_that_changes_while_it_is_read_is_an_error(run, model, places, monkeypatch):
    from spacy_structlearn.cli import apply

    def write(*arguments, write=apply.write_parts, **options):
        touched(places / "in" / "a.txt")
        return write(*arguments, **options)

    monkeypatch.setattr(apply, "write_parts", write)
    result = run("apply", model, places / "in", places / "out")
    one_line_error(result, "SL068", "the time of a.txt")


@pytest.mark.finding
def test_output_is_never_input(run, model, places):
    """Row 11: an output file in the input folder was read in the next run."""
    source = places / "in"
    for target in ("parsed", "parsed", "parsed2", "parsed/more", "out.jsonl", "out.jsonl"):
        code, _, err = run("apply", model, source, source / target, "--force")
        assert (code, err.splitlines()[-1].split(": ")[1][:8]) == (0, "6 texts,")
    for name in ("in", "in/b.jsonl"):
        before = left(places / "in")
        one_line_error(run("apply", model, places / name, places / name, "--force"), "SL058")
        assert left(places / "in") == before
    # What was made can be the input when it is asked for.
    assert " 6 texts," in run("apply", model, source / "parsed2", places / "again.jsonl")[2]
