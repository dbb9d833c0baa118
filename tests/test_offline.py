"""A model is data, never code, and nothing is asked of a network: in the source, and as it runs."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import srsly

import spacy_structlearn
from spacy_structlearn import serialization
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.sequence.chain.model import ChainModel

PACKAGE = Path(spacy_structlearn.__file__).parent
BUILT_IN = PACKAGE / "data" / "en_structlearn_sm"
SOURCES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
# What runs code that it is given as data, starts programs, or asks a network.
MODULES = {
    *("pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"),
    *("ctypes", "cffi", "code", "codeop", "runpy", "imp", "subprocess", "pty", "jsonpickle"),
    *("yaml", "socket", "ssl", "http", "urllib", "ftplib", "smtplib", "xmlrpc", "requests"),
    "httpx",
}
BUILTINS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {
    *("system", "popen", "execv", "execve", "execvp", "spawnv", "startfile"),
    *("import_module", "allow_pickle", "read_pickle", "to_pickle"),
}
ALLOWED = {
    # Modules that the source names, never a config or a file.
    "learning/training.py": {"import_module"},
    "pipeline/architectures.py": {"import_module"},
    "matching/patterns.py": {"import_module"},
    # A function of the C library that the source names: to exchange two folders.
    "writing.py": {"ctypes"},
    # Between processes of one run, which have started one another; never from a file of a user.
    "cli/common/parts.py": {"pickle"},
    "serve/app.py": {"socket"},  # to listen
    "serve/annotate/learning.py": {
        "subprocess"
    },  # this Python, with a module that the source names
}


# --- in the source --------------------------------------------------------------------------------
def forbidden(source):
    """The names of what is forbidden in some source, by line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name.split(".")[0], MODULES
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.lineno, node.module.split(".")[0], MODULES
            for name in node.names:
                yield node.lineno, name.name, MODULES | ATTRIBUTES
        elif isinstance(node, ast.Name):
            yield node.lineno, node.id, BUILTINS
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr, ATTRIBUTES
        elif isinstance(node, ast.keyword):
            yield node.value.lineno, node.arg, ATTRIBUTES | {"shell"}


def found(source):
    return {name for _, name, names in forbidden(source) if name in names}


@pytest.mark.parametrize("file", SOURCES)
def test_no_source_runs_data(file):
    assert found((PACKAGE / file).read_text(encoding="utf8")) <= ALLOWED.get(file, set())


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "def f():\n    from pickle import loads",
        "import os.path, ctypes.util",
        "eval(x)",
        "f = exec",
        "__import__('x')",
        "import os\nos.system('x')",
        "import numpy as np\nnp.load(f, allow_pickle=True)",
        "import importlib\nimportlib.import_module(x)",
        "run(x, shell=True)",
        "from ray import cloudpickle",
    ],
)
def test_what_runs_data_is_found(source):
    assert found(source)


# --- as it runs -----------------------------------------------------------------------------------
# Events that CPython reports before it does what they say. Libraries ask, while they are imported,
# whether a socket could be made; none may be used.
HOOKED = """
import json, sys
heard = []
FORBIDDEN = ("pickle.find_class", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname",
    "socket.sendto", "socket.sendmsg", "urllib.Request", "ftplib.connect", "http.client.connect",
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty",
    "os.spawn", "pty.spawn", "code.__new__", "shelve.open", "webbrowser.open")
compiled, running = [], False

def hear(event, args):
    if event in FORBIDDEN:
        heard.append([event, repr(args)[:200]])
        raise RuntimeError(f"{event} is forbidden here")
    if running and event == "compile" and args[0] is not None:
        compiled.append(args[0] if isinstance(args[0], str) else args[0].decode("utf8"))

sys.addaudithook(hear)
import spacy_structlearn
nlp = spacy_structlearn.load()
docs = list(nlp.pipe([sys.argv[1]] * 2))
parses = [sentence._.parse_string for doc in docs for sentence in doc.sents]
running = True
other = spacy_structlearn.load()
doc = other(sys.argv[1])
running = False
parses += [sentence._.parse_string for sentence in doc.sents]
frames = len(doc._.frames)
import socket
try:
    socket.create_connection(("127.0.0.1", 9), 1)
except RuntimeError:
    heard.append(["stopped", ""])
print(json.dumps({"heard": heard, "compiled": compiled, "parses": parses, "frames": frames}))
"""


@pytest.fixture(scope="module")
def run():
    """What a process hears that imports, loads and parses, twice, without a network."""
    command = [sys.executable, "-c", HOOKED, "She ate the pizza with a fork. He left."]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_nothing_is_asked_of_a_network_and_nothing_unpickled(run):
    *others, asked, stopped = run["heard"]
    assert others == []
    # The hook hears what a socket does.
    assert (asked[0], stopped[0]) == ("socket.getaddrinfo", "stopped")
    assert len(run["parses"]) == 6
    assert run["parses"][:2] == run["parses"][2:4] == run["parses"][4:]
    assert run["frames"] == 2


def test_only_annotations_are_evaluated_while_a_model_is_loaded(run):
    # spaCy makes schemas of the signatures of functions, whose annotations are strings.
    for source in run["compiled"]:
        nodes = {type(node) for node in ast.walk(ast.parse(source, mode="eval"))}
        assert not nodes & {ast.Call, ast.Lambda, ast.Await, ast.NamedExpr, ast.ListComp}, source


# --- crafted files --------------------------------------------------------------------------------
class Trap:
    """What would leave a file if it were unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def numpy_map(array):
    """A map as srsly's own hook for NumPy reads it, which unpickles an array of objects."""
    return {b"nd": True, b"type": "O", b"kind": b"O", b"shape": [1], b"data": array.dumps()}


def crafted(field):
    """The bytes of a chain model with one field replaced, with the right digest."""
    payload = srsly.msgpack_dumps({"fields": field, "kind": "chain_model", "version": 1})
    return serialization.MAGIC + serialization._digest(payload) + payload


@pytest.mark.parametrize("key", ["nd", b"nd", "__array__"])
def test_a_pickled_array_in_a_model_is_refused(tmp_path, key):
    trap = np.array([Trap(tmp_path / "sprung")], dtype=object)
    held = {key: True, **{k: v for k, v in numpy_map(trap).items() if k != b"nd"}}
    if key == "__array__":
        held = {key: "|O", "shape": [1], "data": trap.dumps()}
    with pytest.raises(StructlearnError, match=r"SL05[0-4]"):
        ChainModel.from_bytes(crafted({"weights": held}))
    assert not (tmp_path / "sprung").exists()
    # The trap is one.
    np.load(_saved(trap, tmp_path / "trap.npy"), allow_pickle=True)
    assert (tmp_path / "sprung").exists()


def _saved(array, path):
    np.save(path, array, allow_pickle=True)
    return path
