"""corpora/fetch.py as a command, on a miniature of the sources."""

from pathlib import Path

import fetch
import pytest
from _build import BUILDERS

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


def test_complete_corpus_is_not_built_again(mini, capsys):
    fetch.main(mini.arguments("craft"))
    before = snapshot(mini.output)
    mini.tar.unlink()
    assert fetch.main(mini.arguments("craft")) == 0
    assert "is complete" in capsys.readouterr().out
    assert snapshot(mini.output) == before


@pytest.mark.parametrize("damaged", ["dev.trees.gz", "MANIFEST.json"])
def test_damaged_corpus_is_built_again(mini, damaged):
    fetch.main(mini.arguments("craft"))
    (mini.output / "craft" / damaged).write_bytes(b"[")
    assert fetch.main(mini.arguments("craft")) == 0
    assert mini.read("craft/dev.trees.gz") == "( (NP (NN e)) )\n"


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


@pytest.mark.parametrize(("name", "file"), [("conll2000", "zip"), ("craft", "tar")])
def test_truncated_file(built, capsys, name, file):
    path = getattr(built, file)
    path.write_bytes(path.read_bytes()[:-20])
    assert f"{path}: truncated or" in check_untouched(built, capsys, name)


# --- the command line and the files beside it


@pytest.mark.parametrize("arguments", [[], ["nosuch"], ["ewt", "--mirror", "/no/such/dir"]])
def test_usage_errors(capsys, arguments):
    with pytest.raises(SystemExit) as stop:
        fetch.main(arguments)
    assert stop.value.code == 2
    assert "usage: fetch.py" in capsys.readouterr().err


def test_sources_are_pinned():
    assert list(CONFIG["corpora"]) == list(BUILDERS)
    for source in CONFIG["sources"].values():
        assert source["url"].startswith("https://")
        pin = source.get("tag") or source["commit"]
        assert pin in source["url"]
        assert ("sha256" in source) is source["url"].endswith(".zip")
