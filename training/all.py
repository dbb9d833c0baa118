"""Check how the figures of training/results/*.json were made, and list their commands.

    python -m training.all
    python -m training.all --check

Prints the commands that made each results file. With --check, prints a line for each part that does
not say how it was made: whose commit had changes that were not committed or is not in the history,
whose processor is unknown, or whose command is gone. With such parts it ends with an error.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

import srsly

from training.common.recording import RESULTS, git, stamps_of

MODULE = re.compile(r"python -m (training(?:\.\w+)+)")


def parts() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the name of each results file, each of its parts, and the stamp of this."""
    for path in sorted(RESULTS.glob("*.json")):
        for part, stamp in sorted(stamps_of(srsly.read_json(path)).items()):
            yield path.stem, part, stamp


def problems(stamp: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the stamp of a part."""
    commit, made_by = stamp["commit"], MODULE.match(stamp.get("command", ""))
    if commit.endswith("+"):
        yield "made with uncommitted changes"
    elif not in_history(commit):
        yield f"made at {commit}, which is not in the history"
    if not stamp.get("cpu"):
        yield "made on an unknown machine"
    if made_by is None:
        yield "made by an unknown command"
    elif find_spec(made_by[1]) is None:
        yield f"made by {made_by[1]}, which is gone"


@cache
def in_history(commit: str) -> bool:
    return git("cat-file", "-t", commit) == "commit"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="print what is wrong")
    if not parser.parse_args().check:
        commands: dict[str, dict[str, None]] = {}
        for name, _, stamp in parts():
            commands.setdefault(name, {})[stamp.get("command", "unknown")] = None
        for name, lines in commands.items():
            print(f"{name}.json", *lines, sep="\n    ")
        return
    wrong = [f"{name} {part}: {what}" for name, part, stamp in parts() for what in problems(stamp)]
    if wrong:
        print("\n".join(wrong))
        sys.exit(f"{len(wrong)} problems")


if __name__ == "__main__":
    main()
