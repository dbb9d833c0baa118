"""Closed and broken streams, `-bb`, and too little memory: the work is done, or one line says why.

The exit code is 0 if and only if everything was done.
"""

import os
import subprocess
import sys
from functools import partial

import pytest
from cli.toys import ATTACHED, TEXT, gold_docs, in_reliability, left
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_structlearn.cleanup import remove

pytestmark = pytest.mark.skipif(os.name != "posix", reason="streams of POSIX")
OUT = "out"  # stands for what a command writes
COMMANDS = {
    "parse": ["parse", "-", "--model", "MODEL"],
    "render": ["render", "-", "--model", "MODEL", "-o", "-"],
    "apply": ["apply", "MODEL", "-", "-"],
    "apply file": ["apply", "MODEL", "-", "OUT.jsonl"],
    "apply folder": ["apply", "MODEL", "text.txt", "OUT"],
    "apply processes": ["apply", "MODEL", "text.txt", "OUT.spacy", "--n-process", "2"],
    "find": ["find", "VP", "trees.mrg"],
    "table": ["table", "-", "--model", "MODEL"],
    "convert": ["convert", "trees.mrg", "-"],
    "convert file": ["convert", "-", "OUT.spacy"],
    "evaluate": ["evaluate", "MODEL", "gold.spacy"],
    "info": ["info", "MODEL", "--component", "np_chunker"],
    "train": [
        *("train", "np_chunker", "-o", "OUT"),
        *("--paths.train", "gold.spacy", "--paths.dev", "gold.spacy"),
    ],
    "adapt": ["adapt", "MODEL", "gold.spacy", "-o", "OUT"],
    "version": ["--version"],
}
INPUT = {"convert file": "trees.mrg"}  # others read a text
READ = ("parse", "render", "apply", "apply file", "table", "convert file")  # standard input


def closed(*numbers):
    for number in numbers:
        os.close(number)


def limited(megabytes):
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (megabytes * 10**6,) * 2)


STATES = {
    "stdin closed": partial(closed, 0),
    "stdout closed": partial(closed, 1),
    "stderr closed": partial(closed, 2),
    "all closed": partial(closed, 0, 1, 2),
    "stdout broken": None,
    "stderr broken": None,
    "stdout full": None,
    "stderr full": None,
    "-bb": None,
    **{f"{size} MB": partial(limited, size) for size in (100, 300, 500, 550, 600, 700)},
}
# A pipe whose reader is gone needs no message.
SILENT = ("stdout broken", "all closed")
# multiprocessing prints tracebacks of processes that begin while the first one ends.
ALL = [
    f"{command}, {state}"
    for command in COMMANDS
    for state in STATES
    if not (command == "apply processes" and "MB" in state)
]
FEW = [f"{command}, stdout closed" for command in ("parse", "apply", "train")]
FEW += ["parse, stdin closed"]
FEW += ["apply folder, all closed", "apply file, stderr closed", "apply file, stderr broken"]
FEW += [
    "parse, stdout broken",
    "convert, stdout broken",
    "apply file, -bb",
    "parse, 500 MB",
    "parse, 550 MB",
]


@pytest.fixture(scope="module")
def place(tmp_path_factory, model):
    """Files that the commands read, and what each of them writes undisturbed."""
    folder = tmp_path_factory.mktemp("streams")
    (folder / "text.txt").write_text(TEXT, encoding="utf8")
    (folder / "trees.mrg").write_text("\n".join(ATTACHED), encoding="utf8")
    DocBin(docs=list(gold_docs(Vocab()))).to_disk(folder / "gold.spacy")
    return folder, {}


def run(place, model, command, state, out):
    """Run a command with its streams in a state. Returns the exit code, stdout and stderr."""
    words = [word.replace("MODEL", model).replace("OUT", out) for word in COMMANDS[command]]
    broken = os.pipe()
    os.close(broken[0])
    streams = {}
    for name in ("stdout", "stderr"):
        streams[name] = subprocess.PIPE
        if state == f"{name} broken":
            streams[name] = broken[1]
        elif state == f"{name} full":
            streams[name] = os.open("/dev/full", os.O_WRONLY)
    done = subprocess.run(
        [sys.executable, *(["-bb"] if state == "-bb" else []), "-m", "spacy_structlearn", *words],
        **streams,
        stdin=(place / INPUT.get(command, "text.txt")).open(),
        cwd=place,
        preexec_fn=STATES.get(state),
        check=False,
        timeout=100,
    )
    os.close(broken[1])
    return done.returncode, done.stdout or b"", (done.stderr or b"").decode()


def written(place, out):
    """What a command has written; without the manifest, which has times in it."""
    files = {name: data for name, data in left(place).items() if name.startswith(out)}
    return {
        name.removeprefix(out): data for name, data in files.items() if ".json" not in name[-5:]
    }


@pytest.mark.finding
@pytest.mark.streams
@pytest.mark.parametrize(
    "case", [*FEW, *in_reliability(*(case for case in ALL if case not in FEW))]
)
def test_the_work_is_done_or_one_line_says_why(place, model, case):
    """Rows 10, 13 and 17: tracebacks, lost output, and exit code 120."""
    folder, calm = place
    command, state = case.split(", ")
    for path in (*folder.glob("new*"), *folder.glob(".new*"), *folder.glob("calm*")):
        remove(path)
    if command not in calm:
        code, out, _ = run(folder, model, command, "", "calm")
        assert code == 0
        calm[command] = out, written(folder, "calm")
    code, out, err = run(folder, model, command, state, "new")
    expected, files = calm[command]
    reads, writes = {"stdin", "all"}, {"stdout", "all"}
    if "MB" in state:
        assert code in (0, 1)
    else:
        fails = command in READ and state.split()[0] in reads
        fails |= bool(expected) and state.split()[0] in writes
        assert code == fails, err
    if code == 0:
        # Names and speeds differ.
        lines = len(out.splitlines())
        assert lines == (0 if state.split()[0] in writes else len(expected.splitlines()))
        assert {*written(folder, "new")} == {*files}
        assert command == "train" or written(folder, "new") == files
    else:
        assert "Traceback" not in err
        # Libraries may warn before the memory ends.
        lines = err.splitlines()[-1:] if "MB" in state else err.splitlines()
        assert len(lines) == (0 if state in SILENT else 1), err
    # OpenBLAS ends the process itself if it has no memory.
    assert "MB" in state or not [*folder.rglob(".*")]
