"""The command line as a whole: help, version, exit codes, errors."""

import subprocess
import sys

import numpy as np
import pytest
from cli.toys import TEXT

import spacy_structlearn
from spacy_structlearn import cli
from spacy_structlearn.cli.common import pipelines


# --- parse: errors --------------------------------------------------------------------------------
def test_errors_that_no_input_explains_keep_their_traceback(run, monkeypatch):
    def broken(model):
        raise ValueError("a bug")

    monkeypatch.setattr(cli.parse, "load", broken)
    with pytest.raises(ValueError, match="a bug"):
        run("parse", TEXT)


# --- help of every command, pipes -----------------------------------------------------------------
COMMANDS = ["parse", "render", "apply", "find", "table", "measure", "convert"]
COMMANDS += ["train", "adapt", "evaluate", "info"]


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


def test_msgpack_hooks_are_those_that_are_registered():
    import srsly
    from srsly.msgpack import msgpack_decoders, msgpack_encoders

    pipelines.find_msgpack_hooks_once()
    for registry in (msgpack_decoders, msgpack_encoders):
        assert registry.get_all() == type(registry).get_all(registry)
    array = np.arange(3, dtype=np.float32)
    assert srsly.msgpack_loads(srsly.msgpack_dumps({"a": array}))["a"].tolist() == [0, 1, 2]
