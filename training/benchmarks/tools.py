"""Run the commands and tools of spaCy on pipelines of this package, in a fresh folder.

    python -m training.benchmarks.tools [--record]

Everything runs on the sample treebank, with small settings. Each check is a command in a process of
its own, which must end with the right exit code and print what is expected. With --record, this
writes to results/adaptation.json:

tools.checks    number of checks
tools.failed    number of checks that failed
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from training.common.recording import ROOT, record

COMPONENTS = (
    *("sentence_splitter", "chain_tagger", "constituency_parser"),
    *("np_chunker", "pp_attacher", "srl_labeler"),
)
SECONDS = 300  # after which a command is ended
PATHS = "--paths.train train.spacy --paths.dev dev.spacy"
SMALL = "--components.constituency_parser.model.rounds 1"
ASSEMBLED = """
[nlp]
lang = "en"
pipeline = ["sentencizer", "constituency_parser"]

[components]

[components.sentencizer]
factory = "sentencizer"

[components.constituency_parser]
source = "my_parser"
"""
FILES = {
    "assembled.cfg": ASSEMBLED,
    "texts.txt": "The storm damaged the harbor.\nShe sold honey at the market.\n",
    "table.csv": "number,text\n1,The storm damaged the harbor.\n",
}
# `spacy debug data` asks for 100 documents.
MANY = """
from spacy.tokens import DocBin
from spacy.vocab import Vocab
docs = [*DocBin().from_disk("train.spacy").get_docs(Vocab())]
DocBin(docs=[doc for _ in range(-(-100 // len(docs))) for doc in docs]).to_disk("many.spacy")
"""
TEXT = "The old dog slept. My sister ate the soup with a spoon."


class Check(NamedTuple):
    """A command, and what it must print."""

    name: str
    command: str  # begins with structlearn, spacy or pip, or is Python code
    shows: tuple[str, ...] = ()
    refused: bool = False  # whether it must end with one line of explanation and exit code 1


def trained() -> Iterator[Check]:
    """Yield the checks of configs and training, which make the files that `applied` uses."""
    sample = "sample.trees train.spacy --dev dev.spacy --spaces sample.spaces --props sample.props"
    yield Check("convert", f"structlearn convert {sample}", ("train.spacy", "dev.spacy"))
    yield Check("documents for debug data", MANY)
    for name in COMPONENTS:
        yield Check(f"init-config {name}", f"structlearn init-config {name} -o {name}.cfg")
        valid = ("Config is valid",)
        yield Check(f"debug config {name}", f"spacy debug config {name}.cfg", valid)
        loaded = ("Pipeline can be initialized with data", "Corpus is loadable")
        data = f"spacy debug data {name}.cfg --paths.train many.spacy --paths.dev dev.spacy"
        yield Check(f"debug data {name}", data, loaded)
    parser = "constituency_parser.cfg"
    filled = ("Auto-filled config with all values",)
    yield Check("init fill-config", f"spacy init fill-config {parser} filled.cfg", filled)
    yield Check("debug config, filled", "spacy debug config filled.cfg", ("Config is valid",))
    yield Check(
        "init labels", f"spacy init labels {parser} labels {PATHS}", ("constituency_parser",)
    )
    made = ("Saved the pipeline", "constituents_f")
    train = f"structlearn train {parser} {PATHS} {SMALL}"
    yield Check("structlearn train", f"{train} -o my_parser --gpu-id -1", made)
    steps = "--training.max_steps 1"
    saved = ("Saved pipeline to output directory", "CONSTITUEN")
    yield Check("spacy train", f"spacy train filled.cfg {PATHS} {SMALL} {steps} -o steps", saved)
    yield Check("train --help", "structlearn train --help", ("--paths.train train.spacy",))
    yield Check("no path", f"structlearn train {parser} -o x", ("--paths.train",), refused=True)
    trees = PATHS.replace("train.spacy", "sample.trees")
    yield Check(
        "trees as path",
        f"structlearn train {parser} {trees} -o x",
        ("structlearn convert",),
        refused=True,
    )
    yield Check("GPU", f"{train} -o x --gpu-id 0", ("--gpu-id 0", "CPU"), refused=True)
    unknown = "structlearn init-config np_chunker --lang zz"
    yield Check("unknown language", unknown, ("E048", "zz"), refused=True)


def applied() -> Iterator[Check]:
    """Yield the checks of commands for trained pipelines."""
    evaluate = "evaluate my_parser dev.spacy"
    spans = ("SPAN F", "SPANS (per type)", "NP")
    yield Check("spacy evaluate", f"spacy {evaluate} --spans-key constituents", spans)
    own = ("constituents_f", "constituents_tag_acc")
    yield Check("structlearn evaluate", f"structlearn {evaluate} --gold-tokens", own)
    speed = "spacy benchmark speed my_parser dev.spacy --batches 30 --batch-size 1 --warmup 1"
    yield Check("benchmark speed", speed, ("words/s",))
    yield Check("spacy info", "spacy info my_parser", ("constituency_parser",))
    yield Check("structlearn info", "structlearn info my_parser", ("constituency_parser",))
    yield Check("spacy apply", "spacy apply my_parser texts.txt parsed.spacy", ("Loaded model",))
    assemble = "spacy assemble assembled.cfg assembled"
    yield Check("spacy assemble", assemble, ("Initialized pipeline",))
    parse = "structlearn parse texts.txt --model assembled"
    yield Check("the assembled pipeline", parse, ("(NP ",))
    packed = ("Successfully created package directory",)
    yield Check("spacy package", "spacy package my_parser packages --build none", packed)
    yield Check("structlearn package", "structlearn package en_structlearn_sm wheels", (".whl",))
    options = "--quiet --no-deps --no-index --target site"
    yield Check("pip install", f"pip install {options} wheels/en_structlearn_sm-*.whl")
    yield Check("spacy.load", INSTALLED, ("srl_labeler",))
    yield Check("missing file", "structlearn parse notes.txt", ("No such file",), refused=True)
    table = "structlearn apply my_parser table.csv parsed.jsonl"
    yield Check("table", table, ("table.csv", "JSONL"), refused=True)


INSTALLED = f"""
import sys
sys.path.insert(0, "site")
import spacy, spacy_structlearn
for load in (spacy.load, spacy_structlearn.load):
    nlp = load("en_structlearn_sm")
    assert nlp.path.is_relative_to(nlp.path.cwd() / "site"), nlp.path
    assert list(nlp({TEXT!r})._.trees) == list(spacy_structlearn.load()({TEXT!r})._.trees)
print(nlp.pipe_names)
"""


# --- in Python ------------------------------------------------------------------------------------
BUILT_IN = """
import spacy_structlearn
nlp = spacy_structlearn.load()
"""
IN_PYTHON = {
    "load a path": """
import spacy_structlearn
settings = {"components": {"constituency_parser": {"decoder": "viterbi"}}}
nlp = spacy_structlearn.load("my_parser", config=settings)
assert nlp.get_pipe("constituency_parser").decoder == "viterbi"
""",
    "load a damaged path": """
import shutil
import spacy_structlearn
shutil.copytree("my_parser", "damaged")
with open("damaged/config.cfg", "a") as file:
    file.write("# changed")
try:
    spacy_structlearn.load("damaged")
except spacy_structlearn.errors.StructlearnError as error:
    assert error.code == "SL083", error
else:
    raise AssertionError("loaded")
""",
    "analyze_pipes": BUILT_IN
    + """
assert not any(nlp.analyze_pipes(pretty=True)["problems"].values())
nlp = __import__("spacy").blank("en")
nlp.add_pipe("senter")
nlp.add_pipe("constituency_parser")
assert not nlp.analyze_pipes()["problems"]["constituency_parser"]
""",
    "select_pipes": BUILT_IN
    + f"""
with nlp.select_pipes(enable=["sentence_splitter", "constituency_parser"]):
    doc = nlp({TEXT!r})
assert len(doc._.trees) == 2 and not doc._.np_chunks and not doc._.frames
assert nlp({TEXT!r})._.frames
""",
    "resume_training": BUILT_IN
    + """
assert nlp.resume_training() is not None
""",
    "merge_np_chunks": BUILT_IN
    + f"""
nlp.add_pipe("merge_np_chunks")
doc = nlp({TEXT!r})
assert [token.text for token in doc][:2] == ["The old dog", "slept"], list(doc)
assert [token.tag_ for token in doc][:2] == ["NN", "VBD"]
assert doc.spans["srl"]
nlp.to_disk("merging")
""",
    "merge_np_chunks, loaded": f"""
import spacy
assert "The old dog" in [token.text for token in spacy.load("merging")({TEXT!r})]
""",
}


def checks() -> dict[str, str | None]:
    """Run all checks; return the problem of each, or None."""
    return dict(problems())


def problems() -> Iterator[tuple[str, str | None]]:
    """Yield the name and the problem of each check as it is run."""
    in_python = [Check(name, code) for name, code in IN_PYTHON.items()]
    with TemporaryDirectory() as folder:
        prepare(Path(folder))
        for check in (*trained(), *applied(), *in_python):
            yield check.name, problem(check, Path(folder))


def prepare(folder: Path) -> None:
    """Write the files that the commands read."""
    for name in ("sample.trees", "sample.spaces", "sample.props"):
        shutil.copy(ROOT / "corpora" / "sample" / name, folder)
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf8")
    (folder / "packages").mkdir()


def problem(check: Check, folder: Path) -> str | None:
    """Run a check; return what is wrong in one line, or None."""
    try:
        done = subprocess.run(
            [sys.executable, *_arguments(check.command, folder)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            timeout=SECONDS,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} s"
    printed = done.stdout + done.stderr
    missing = [text for text in check.shows if text not in printed]
    last = (printed.strip().splitlines() or [""])[-1].strip()
    if done.returncode != check.refused or "Traceback" in printed:
        return f"exit code {done.returncode}: {last}"
    if check.refused and len(done.stderr.splitlines()) != 1:
        return f"not one line: {last}"
    return f"not printed: {', '.join(missing)}" if missing else None


def _arguments(command: str, folder: Path) -> list[str]:
    """Return the arguments of Python for a command or for code."""
    modules = {"structlearn": "spacy_structlearn", "spacy": "spacy", "pip": "pip"}
    module = modules.get(command.partition(" ")[0])
    if module is None:
        return ["-c", command]
    words = shlex.split(command)[1:]
    files = ([str(file) for file in folder.glob(word)] if "*" in word else [word] for word in words)
    return ["-m", module, *(word for found in files for word in found)]


def main(argv: list[str] | None = None) -> None:
    """Run all checks, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--record", action="store_true", help="write results/adaptation.json")
    args = parser.parse_args(argv)
    found = {}
    for name, what in problems():
        found[name] = what
        print(f"{name:34} {what or 'ok'}", flush=True)
    failed = sum(what is not None for what in found.values())
    print(f"{len(found)} checks, {failed} failed")
    if args.record:
        record("adaptation", {"tools.checks": len(found), "tools.failed": failed})


if __name__ == "__main__":
    main()
