"""Check that all results were made by the present code, and how.

    python -m training.all --check
    python -m training.all --commands

--check prints a line for each part of training/results/*.json that was made from a checkout with
uncommitted changes, at a commit that is not in the history, by an unknown command, or before code
on which its command depends was changed. That code is the module of the command and all modules of
training/ and spacy_structlearn/ that it imports, also inside functions. Docstrings and comments do
not count. A part is also named if a corpus or the pipeline that it was made from has changed since.
With such parts it ends with an error. --commands prints the command of each part.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import srsly

from training.common.recording import RESULTS, ROOT, git, stamps_of
from training.common.sources import code_of, data_digest, text_of

MODULE = re.compile(r"python -m (training(?:\.\w+)*)")


def problems(stamp: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a part of a results file."""
    commit, made_by = stamp["commit"], MODULE.match(stamp.get("command", ""))
    known = git("cat-file", "-t", commit.rstrip("+")) != ""
    if commit.endswith("+"):
        yield "made with uncommitted changes"
    elif not known:
        yield f"made at {commit}, which is not in the history"
    if made_by is None:
        yield "made by an unknown command"
    elif known:
        own = code_of(made_by[1])
        if not own:
            yield f"made by {made_by[1]}, which is gone"
        changed = [path for path in changed_since(commit.rstrip("+")) if path in own]
        if changed:
            more = f" and {len(changed) - 1} others" if len(changed) > 1 else ""
            yield f"older than {changed[0]}{more}"
    # Stamps of earlier parts do not name data.
    for name, digest in stamp.get("data", {}).items():
        if digest != data_digest(name):
            yield f"made from another {name}"


@cache
def changed_since(commit: str) -> tuple[str, ...]:
    """Return the paths of modules whose code differs from that of a commit, in order."""
    paths = git("diff", "--name-only", commit, "--", "training", "spacy_structlearn").splitlines()
    return tuple(
        path
        for path in paths
        if path.endswith((".py", ".pyx", ".pxd"))
        and code(path, git("show", f"{commit}:{path}")) != code(path, text_of(ROOT / path))
    )


def code(path: str, text: str) -> str:
    """Return a text that is the same for code that differs in comments and docstrings only."""
    if not path.endswith(".py"):
        return " ".join(re.sub(r'"""[\s\S]*?"""|#.*', " ", text).split())
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [child for child in body if not _is_text(child)]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def parts() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the name of each results file, each of its parts, and the stamp of this."""
    for path in sorted(RESULTS.glob("*.json")):
        for part, stamp in sorted(stamps_of(srsly.read_json(path)).items()):
            yield path.stem, part, stamp


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="print what is wrong with the results")
    what.add_argument("--commands", action="store_true", help="print how they were made")
    args = parser.parse_args()
    if args.commands:
        for name, part, stamp in parts():
            print(f"{name} {part}: {stamp.get('command', 'unknown')}")
        return
    found = [
        f"{name} {part}: {problem}" for name, part, stamp in parts() for problem in problems(stamp)
    ]
    print("\n".join(found))
    if found:
        sys.exit(f"{len(found)} problems")


if __name__ == "__main__":
    main()
