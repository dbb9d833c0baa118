"""The command line of the scripts: options that they share, and the run of their parts."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from training.common.recording import CORPORA, WORK, clean_commit, record, show
from training.common.report import write_page

Figures = Mapping[str, Any]
OPTIONS: dict[str, dict[str, Any]] = {
    "corpora": {"type": Path, "default": CORPORA, "help": "default: %(default)s"},
    "work": {"type": Path, "default": WORK, "help": "folder of models and stages"},
    "jobs": {"type": int, "default": 1, "help": "number of processes, or of threads of one"},
    "runs": {"type": int, "default": 3, "help": "number of alternating runs"},
    "limit": {"type": int, "help": "use only this many items of each part, and record nothing"},
}


def options(doc: str | None, *names: str, only: Iterable[str] = ()) -> argparse.ArgumentParser:
    """Return a parser of arguments with some of OPTIONS.

    doc: the docstring of the script, of which the first line is shown. only: names of parts, some
    of which can be selected by --only.
    """
    parser = argparse.ArgumentParser(description=(doc or "").split("\n")[0])
    for name in names:
        parser.add_argument(f"--{name}", **OPTIONS[name])
    if only := list(only):
        parser.add_argument("--only", nargs="+", choices=only, help="some parts; default: all")
    return parser


def run_parts(
    name: str,
    parts: Mapping[str, Callable[[], Iterable[Figures] | Figures]],
    only: Iterable[str] | None = None,
    *,
    is_trial: bool = False,
    write: Callable[[str], None] | None = None,
    page: bool = False,
) -> None:
    """Run parts in order; print and record their figures in training/results/NAME.json.

    parts: functions of figures, or of an iterable of figures that are recorded one after another.
    only: some of the parts, in this order; None: all. is_trial: record nothing. page: fill the page
    of NAME after each part. write: makes other files of the results.
    Raises SystemExit before the first part unless the checkout is clean.
    """
    if not is_trial:
        clean_commit()
    for part in parts if only is None else only:
        made = parts[part]()
        for figures in [made] if isinstance(made, Mapping) else made:
            if not is_trial:
                record(name, figures)
            show(figures)
        if is_trial:
            continue
        if page:
            write_page(name)
        if write is not None:
            write(name)


def bound(parts: Mapping[str, Callable[..., Any]], *arguments: Any) -> dict[str, Callable[[], Any]]:
    """Return the parts with these arguments given."""
    return {name: partial(part, *arguments) for name, part in parts.items()}
