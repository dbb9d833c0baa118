"""corpora/fetch.py as a command: on a miniature of the sources, and, where a mirror of the real
ones is at hand, over HTTP on loopback, file by file against the built corpora."""

import gzip
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import fetch
import pytest
import spacy
from _build import BUILDERS
from _download import mirror_path

from spacy_structlearn.pipeline.readers import read_treebank

CONFIG = fetch.load_config(fetch.HERE / "corpora.toml")


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file below."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def fails(capsys, arguments: list[str]) -> str:
    """Run, expect the exit status 1 and one line of error; that line."""
    capsys.readouterr()
    assert fetch.main(arguments) == 1
    line, *rest = capsys.readouterr().err.splitlines()
    assert rest == []
    assert line.startswith("fetch.py: error: ")
    return line


# --- a run that succeeds


@pytest.mark.parametrize("over_http", [False, True], ids=["directory", "http"])
def test_builds_from_a_mirror(mini, site, capsys, over_http):
    site.root = mini.mirror
    before = snapshot(mini.mirror)
    arguments = mini.arguments("all", mirror=site.url if over_http else None)
    assert fetch.main(arguments) == 0
    assert mini.read("conll2000/train.txt.gz") == "Go VB O\n\n"
    assert mini.read("craft/train.trees.gz") == "".join(
        f"( (NP (NN {w})) )\n" for w in ["ab", *"cd"]
    )
    assert mini.read("craft/dev.index.tsv.gz") == "#tree\tarticle\ttree_in_article\n0\t21\t0\n"
    assert not (mini.output / "craft/test.trees.gz").exists()
    out = capsys.readouterr().out
    assert "licence: free as the sea" in out
    assert "test: 1 of 1 documents are not in the source, passed over" in out
    assert snapshot(mini.mirror) == before
    assert (mini.output / ".downloads").exists() is over_http


def test_compressed_files_are_reproducible(mini):
    fetch.main(mini.arguments("craft"))
    first = (mini.output / "craft/train.trees.gz").read_bytes()
    fetch.main([*mini.arguments("craft"), "--force"])
    assert (mini.output / "craft/train.trees.gz").read_bytes() == first
    assert first[3:8] == bytes(5)  # no name, no time


def test_complete_corpus_is_not_built_again(mini, capsys):
    fetch.main(mini.arguments("craft"))
    before = snapshot(mini.output)
    mini.tar.unlink()
    assert fetch.main(mini.arguments("craft")) == 0
    assert "is complete" in capsys.readouterr().out
    assert snapshot(mini.output) == before


@pytest.mark.parametrize("damage", ["file", "manifest", "missing"])
def test_damaged_corpus_is_built_again(mini, damage):
    fetch.main(mini.arguments("craft"))
    file = mini.output / "craft/dev.trees.gz"
    if damage == "file":
        file.write_bytes(gzip.compress(b"other"))
    elif damage == "manifest":
        (mini.output / "craft/MANIFEST.json").write_text("[")
    else:
        file.unlink()
    assert fetch.main(mini.arguments("craft")) == 0
    assert mini.read("craft/dev.trees.gz") == "( (NP (NN e)) )\n"


def test_held_out_document_that_exists_is_built(mini, capsys):
    name = "CRAFT-1/structural-annotation/treebank/penn/31.tree"
    mini.tar_members[name] = b"( (NP (NN f)) )\n"
    mini.rewrite_tar()
    assert fetch.main(mini.arguments("craft")) == 0
    assert mini.read("craft/test.trees.gz") == "( (NP (NN f)) )\n"
    assert "test: 1 members have no recorded digest" in capsys.readouterr().out


def test_missing_document_is_reported_and_passed_over(mini, capsys):
    mini.rewrite_tar(_12=None)
    assert fetch.main(mini.arguments("craft")) == 0
    line = "train: 1 of 2 documents are not in the source, passed over"
    assert line in capsys.readouterr().out
    assert line in json.loads(mini.read("craft/MANIFEST.json"))["notes"]
    assert mini.read("craft/train.index.tsv.gz").count("\t12\t") == 0


def test_record_digests(mini):
    recorded = mini.digests.read_text()
    mini.digests.write_text("# by hand\n")
    assert fetch.main([*mini.arguments("all"), "--record-digests"]) == 0
    # The list of the absent test documents is read, so everything is back.
    assert mini.digests.read_text() == recorded


# --- runs that fail: one line, status 1, nothing half-written


@pytest.fixture
def built(mini):
    """The miniature with both corpora built, to see that a failure leaves them alone."""
    fetch.main(mini.arguments("all"))
    return mini


def check_untouched(mini, capsys, name, mirror=None):
    before = snapshot(mini.output)
    line = fails(capsys, [*mini.arguments(name, mirror=mirror), "--force"])
    kept = {
        path: state for path, state in snapshot(mini.output).items() if ".downloads" not in path
    }
    assert kept == before
    assert not [p for p in mini.output.iterdir() if p.name.startswith(f".{name}")]
    return line


def test_wrong_digest_of_a_member(built, capsys):
    built.rewrite_tar(_12=b"( (NP (NN x)) )\n")
    line = check_untouched(built, capsys, "craft")
    assert (
        f"{built.tar}: wrong digest of member structural-annotation/treebank/penn/12.tree" in line
    )
    assert "expected " in line
    assert "found " in line


def test_wrong_digest_of_a_zip(built, capsys):
    data = bytearray(built.zip.read_bytes())
    data[50] ^= 1
    built.zip.write_bytes(data)
    assert f"{built.zip}: wrong digest: expected " in check_untouched(built, capsys, "conll2000")


@pytest.mark.parametrize(("name", "file"), [("conll2000", "zip"), ("craft", "tar")])
def test_truncated_file(built, capsys, name, file):
    path = getattr(built, file)
    path.write_bytes(path.read_bytes()[:-20])
    assert f"{path}: truncated or" in check_untouched(built, capsys, name)


def test_truncated_download_is_not_kept(built, site, capsys):
    site.root = built.mirror
    whole = built.tar.read_bytes()
    built.tar.write_bytes(whole[:-20])
    line = check_untouched(built, capsys, "craft", mirror=site.url)
    assert "truncated or damaged archive" in line
    built.tar.write_bytes(whole)
    assert fetch.main([*built.arguments("craft", mirror=site.url), "--force"]) == 0


def test_no_network(built, capsys):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    line = check_untouched(built, capsys, "craft", mirror=url)
    assert f"{url}/tars.example/archive/v1.tar.gz: no connection" in line
    assert "--mirror" in line


def test_failure_while_writing(built, capsys, monkeypatch):
    def full_disk(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetch, "compress", full_disk)
    assert "No space left" in check_untouched(built, capsys, "craft")


def test_failure_while_putting_the_directory_in_place(built, capsys, monkeypatch):
    rename = Path.rename

    def failing(self, target):
        if self.suffix == ".new":
            raise PermissionError(13, "Permission denied", str(self))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    assert "Permission denied" in check_untouched(built, capsys, "craft")


# --- the command line and the files beside it


def test_list(capsys):
    assert fetch.main(["--list"]) == 0
    out = capsys.readouterr().out
    for name, entry in CONFIG["corpora"].items():
        assert name in out
        assert entry["licence"] in out
        assert entry["size"] in out


@pytest.mark.parametrize("arguments", [[], ["nosuch"], ["ewt", "--mirror", "/no/such/dir"]])
def test_usage_errors(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        fetch.main(arguments)
    assert stop.value.code == 2
    assert "usage: fetch.py" in capsys.readouterr().err


def test_runs_as_a_script_from_anywhere(fetch_script, tmp_path):
    command = [sys.executable, str(fetch_script), "--help"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "--mirror" in run.stdout


def test_every_corpus_has_a_builder_and_a_source():
    assert list(CONFIG["corpora"]) == list(BUILDERS)
    for entry in CONFIG["corpora"].values():
        assert set(entry["reads"]) <= set(CONFIG["sources"])


def test_sources_are_pinned():
    for source in CONFIG["sources"].values():
        assert source["url"].startswith("https://")
        pin = source.get("tag") or source["commit"]
        assert pin in source["url"]
        assert ("sha256" in source) is source["url"].endswith(".zip")


# --- the real thing


@pytest.fixture(scope="session")
def mirrored(upstream) -> list[str]:
    """The corpora whose sources the mirror has."""
    return [
        name
        for name, entry in CONFIG["corpora"].items()
        if all(
            (upstream / mirror_path(CONFIG["sources"][s]["url"])).is_file() for s in entry["reads"]
        )
    ]


@pytest.fixture(scope="session")
def corpora(upstream_site, mirrored, fetch_script, tmp_path_factory):
    """Their corpora, built from the mirror over HTTP by the script as a user runs it."""
    output = tmp_path_factory.mktemp("corpora")
    command = [sys.executable, str(fetch_script), *mirrored, "--output", str(output)]
    run = subprocess.run(
        [*command, "--mirror", upstream_site.url],
        env=os.environ | {"no_proxy": "127.0.0.1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return output, run


def contents(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


def lines_without_ends(spaces: bytes) -> list[bytes]:
    """What stands between the tokens of each sentence."""
    return [line[:-1] for line in spaces.splitlines()]


@pytest.mark.corpus
@pytest.mark.parametrize("name", BUILDERS)
def test_equal_to_the_reference(corpora, reference, name):
    """The reference has what follows each token inside the sentences alone, and no raw text."""
    output, _ = corpora
    for folder in (output, reference):
        if not (folder / name).is_dir():
            pytest.skip(f"no {folder / name}")
    built = {path.name for path in (output / name).iterdir()} - {fetch.MANIFEST}
    assert built <= set(CONFIG["corpora"][name]["builds"])
    compared = {file for file in built if ".raw." not in file}
    expected = {path.name for path in (reference / name).iterdir()} - {fetch.MANIFEST}
    assert compared == {file for file in expected if ".raw." not in file}
    for file in sorted(compared):
        found, expected = (contents(folder / name / file) for folder in (output, reference))
        if ".spaces." in file:
            found, expected = map(lines_without_ends, (found, expected))
        assert found == expected, file


@pytest.mark.corpus
def test_raw_text_is_that_of_the_docs(corpora):
    """Text, sentences and tokens are those of gold Docs; white space tokens are spaCy's own."""
    folder = corpora[0] / "ewt"
    nlp = spacy.blank("en")
    files = {kind: folder / f"dev.{kind}.gz" for kind in ("spaces", "props")}
    docs = dict(read_treebank(nlp.vocab, folder / "dev.trees.gz", **files))
    raw = [json.loads(line) for line in contents(folder / "dev.raw.jsonl.gz").splitlines()]
    assert [row["document"] for row in raw] == list(docs)
    for row, doc in zip(raw, docs.values(), strict=True):
        assert row["text"] == doc.text == doc.text.strip()
        words = [[[t.idx, t.idx + len(t)] for t in s if not t.is_space] for s in doc.sents]
        assert row["tokens"] == [word for own in words for word in own]
        assert row["sentences"] == [[own[0][0], own[-1][1]] for own in words]
        breaks, made = ([t.idx for t in d if t.is_space] for d in (doc, nlp.make_doc(doc.text)))
        assert breaks == made
    assert len(docs) == 297
    assert sum(row["text"].count("\n\n") + 1 for row in raw) == 727


@pytest.mark.corpus
def test_report_of_the_real_build(corpora, mirrored):
    _, run = corpora
    assert run.stderr == ""  # no progress bar where stderr is no terminal
    for name in mirrored:
        assert f"licence: {CONFIG['corpora'][name]['licence']}" in run.stdout
    assert "dev: 21 of 318 documents are not in the source, passed over" in run.stdout
    for documents in (316, 30, 74):
        assert f"test: {documents} of {documents} documents are not in the source" in run.stdout
