"""Check that all results were made by the present code, and how.

    python -m training.all --check
    python -m training.all --commands

--check prints a line for each part of training/results/*.json that was made from a checkout with
uncommitted changes, at a commit that is not in the history, by an unknown command, or before code
on which its command depends was changed. That code is the module of the command and all modules of
training/ and spacy_structlearn/ that it imports, also inside functions. Docstrings and comments do
not count, nor do modules that only write stamps and pages, nor new functions, classes and imports:
only a changed caller can use them. A commit that was shown to change no figure, by equal output
before and after, says so by the trailer "Figures: unchanged" of its message. It does not count
either. A part is also named if a corpus or the pipeline that it was
made from has changed since, or if it is in WANTED and missing. With such parts it ends with an
error. --commands prints the command of each part.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import srsly

from training.common.recording import RESULTS, ROOT, git, stamps_of
from training.common.report import flat
from training.common.sources import code_of, data_digest, text_of

# Modules that write stamps or pages, or name data. They make no figures.
WRITERS = re.compile(r"training/common/(recording|sources|report)\.py|training/.*/report\.py")
# Parts that the commands make beside those that are recorded, also optional ones.
WANTED = {
    "titov_henderson2007": (
        *("artificial.bound", "ewt15.rows", "wsj15.rows", "ewt15.seeds", "wsj15.seeds", "rerank"),
        *("ewt15.jackknifed", "cpu.threads2", "full.nn", "full.mf", "full.rerank"),
        *("beyond.state_size", "beyond.batch_size", "beyond.dropout", "beyond.optimizer"),
        *("beyond.threshold", "beyond.signature", "beyond.beam", "beyond.decoder", "beyond.search"),
    ),
    "petrov_klein2007": (
        *("uniform", "analysis", "wsj.tune", "wsj.generative", "wsj.discriminative"),
        *("ewt.generative", "ewt.discriminative", "l1", "l2", "pruning", "merge", "train"),
        "best.wsj.discriminative",
    ),
    "smith2007": ("hmm_features", "extended", "q0.points", "input_only", "sampled", "beyond"),
    "toutanova2006_pp": ("bn", "loglinear", "mcnemar", "best", "quadruples", "text"),
    "srl": ("core", "extra", "wsj.core", "wsj.extra", "trained_on", "end_to_end"),
    "parsing_best": ("neural_cnn", "product_best.wsj", "product_best.ewt"),
    "m_estimated_grammars": ("wsj", "ewt", "ewt.xbar.initialiser", "ewt.latent.initialiser"),
    "benchmarks": ("chunks", "attachment", "parsing.supar"),
    "languages": ("indonesian.test_f1", "icelandic.greynir", "icelandic.icepahc"),
    "audit": ("audit",),
}
FOLDERS = ("training", "spacy_structlearn")
TRAILER = "%H %(trailers:key=Figures,valueonly,separator=%x20)"
UNCHANGED = "unchanged"
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
    paths = git("diff", "--name-only", commit, "--", *FOLDERS).splitlines()
    changed = [
        path
        for path in paths
        if _makes_figures(path)
        and is_changed(path, git("show", f"{commit}:{path}"), text_of(ROOT / path))
    ]
    if not changed:
        return ()
    counted = set(git("diff", "--name-only", "HEAD", "--", *FOLDERS).splitlines())
    for line in git("log", "--no-merges", f"--format={TRAILER}", f"{commit}..HEAD").splitlines():
        number, _, said = line.partition(" ")
        if said.strip() != UNCHANGED:
            counted |= changed_by(number)
    return tuple(path for path in changed if path in counted)


@cache
def changed_by(commit: str) -> frozenset[str]:
    """Return the paths of modules whose code a commit has changed."""
    paths = git("diff", "--name-only", f"{commit}~", commit, "--", *FOLDERS).splitlines()
    return frozenset(
        path
        for path in paths
        if _makes_figures(path)
        and is_changed(path, git("show", f"{commit}~:{path}"), git("show", f"{commit}:{path}"))
    )


def _makes_figures(path: str) -> bool:
    return path.endswith((".py", ".pyx", ".pxd")) and not WRITERS.fullmatch(path)


def is_changed(path: str, before: str, after: str) -> bool:
    """Return whether the code of a module has changed, other than by additions of new names."""
    if not (before and after and path.endswith(".py")):
        return code(path, before) != code(path, after)
    old, new = (Counter(map(ast.dump, statements(text))) for text in (before, after))
    if old - new or (new - old).keys() & old.keys():  # removed, or repeated
        return True
    used = {name for node in ast.walk(ast.parse(before)) for name in names(node)}
    used |= set(re.findall(r"^(?:async )?(?:def|class) (\w+)", before, re.MULTILINE))
    added = [node for node in statements(after) if ast.dump(node) not in old]
    return any(not names(node) or used.intersection(names(node)) for node in added)


def statements(text: str) -> list[ast.stmt]:
    """Return the statements of a module, without docstrings. Each import has one name."""
    found: list[ast.stmt] = []
    for node in without_texts(ast.parse(text)).body:
        if isinstance(node, ast.Import):
            found += [ast.Import([alias]) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [ast.ImportFrom(node.module, [alias], node.level) for alias in node.names]
        else:
            found.append(node)
    return found


def names(node: ast.AST) -> set[str]:
    """Return the names that a definition or an import binds, and the one that a name uses.

    A definition with decorators has none, because these may do anything.
    """
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not node.decorator_list:
        return {node.name}
    return {node.id} if isinstance(node, ast.Name) else set()


def code(path: str, text: str) -> str:
    """Return a text that is the same for code that differs in comments and docstrings only."""
    if not path.endswith(".py"):
        return " ".join(re.sub(r'"""[\s\S]*?"""|#.*', " ", text).split())
    return ast.dump(without_texts(ast.parse(text)))


def without_texts(tree: ast.Module) -> ast.Module:
    """Remove docstrings and other statements that are constants."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            body[:] = [child for child in body if not _is_text(child)]
    return tree


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def parts() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the name of each results file, each of its parts, and the stamp of this."""
    for path in sorted(RESULTS.glob("*.json")):
        for part, stamp in sorted(stamps_of(srsly.read_json(path)).items()):
            yield path.stem, part, stamp


def missing() -> Iterator[tuple[str, str]]:
    """Yield the names of results, and the parts in WANTED without any figure."""
    for name, wanted in WANTED.items():
        path = RESULTS / f"{name}.json"
        keys = flat(srsly.read_json(path)) if path.exists() else {}
        for part in wanted:
            if not any(f"{key}.".startswith(f"{part}.") for key in keys):
                yield name, part


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
    found = [f"{name} {part}: missing" for name, part in missing()]
    found += [
        f"{name} {part}: {problem}" for name, part, stamp in parts() for problem in problems(stamp)
    ]
    if found:
        print("\n".join(found))
        sys.exit(f"{len(found)} problems")


if __name__ == "__main__":
    main()
