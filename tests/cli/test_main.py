"""The command line as a whole: help, version, exit codes, errors."""

import subprocess
import sys

import numpy as np
import pytest
from cli.toys import TEXT

import spacy_structlearn
from spacy_structlearn import cli
from spacy_structlearn.cli.common import pipelines
from spacy_structlearn.cli.common.files import written


# --- help and version -----------------------------------------------------------------------------
def test_version(run):
    assert run("--version") == (0, f"{spacy_structlearn.__version__}\n", "")


# --- parse: errors --------------------------------------------------------------------------------
def test_errors_that_no_input_explains_keep_their_traceback(run, monkeypatch):
    def broken(model):
        raise ValueError("a bug")

    monkeypatch.setattr(cli.parse, "load", broken)
    with pytest.raises(ValueError, match="a bug"):
        run("parse", TEXT)


# --- help of every command, pipes -----------------------------------------------------------------
COMMANDS = ["parse", "render", "apply", "find", "convert", "train", "adapt"]
COMMANDS += ["evaluate", "info"]


def test_help_does_not_wait_for_spacy_to_be_imported():
    code = (
        "import sys\n"
        "from spacy_structlearn.cli import main\n"
        f"for arguments in (['--help'], ['--version'], *([name, '-h'] for name in {COMMANDS})):\n"
        "    sys.argv = ['structlearn', *arguments]\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as error:\n"
        "        assert not error.code\n"
        "assert not {'spacy', 'thinc', 'numpy', 'tqdm', 'rich'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert spacy_structlearn.__version__ in done.stdout.splitlines()
    for command in ("[OPTIONS]", *COMMANDS):
        assert f"Usage: structlearn {command}" in done.stdout


@pytest.mark.parametrize("command", ["parse", "apply"])
def test_a_reader_that_goes_away_is_no_error(model, command):
    arguments = {"parse": ["-", "--model", model], "apply": [model, "-", "-"]}[command]
    process = subprocess.Popen(
        [sys.executable, "-m", "spacy_structlearn", command, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()
    # More than the buffers of a pipe take.
    _, err = process.communicate(b"The old dog slept.\n" * 1000)
    assert err == b""
    assert process.returncode == 1


# --- files ----------------------------------------------------------------------------------------
def test_a_file_is_there_only_once_it_is_complete(tmp_path):
    target = tmp_path / "new" / "file"

    def half():
        with written(target) as file:
            file.write(b"half")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        half()
    assert list(target.parent.iterdir()) == []
    with written(target) as file:
        file.write(b"whole")
        assert not target.exists()
    assert [path.name for path in target.parent.iterdir()] == ["file"]
    assert target.read_bytes() == b"whole"


def test_msgpack_hooks_are_those_that_are_registered():
    import srsly
    from srsly.msgpack import msgpack_decoders, msgpack_encoders

    pipelines.find_msgpack_hooks_once()
    for registry in (msgpack_decoders, msgpack_encoders):
        assert registry.get_all() == type(registry).get_all(registry)
    array = np.arange(3, dtype=np.float32)
    assert srsly.msgpack_loads(srsly.msgpack_dumps({"a": array}))["a"].tolist() == [0, 1, 2]
