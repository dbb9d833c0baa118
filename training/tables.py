"""Fill the tables of the README and of other pages with the figures of training/results/*.json.

    python -m training.tables

On its page, a table is between `<!-- table NAME -->` and `<!-- end -->`. It is replaced by the
table with this name in tables.md. A table with a text is omitted, with its text, until all of its
figures are recorded. With --check, nothing is written, and the exit status shows whether all pages
are up to date.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from functools import reduce
from typing import Any

from training.common.recording import RESULTS, ROOT
from training.common.report import standard_error

TEMPLATES = ROOT / "training" / "tables.md"
PAGES = (
    ROOT / "README.md",
    RESULTS / "README.md",
    ROOT / "training" / "guides" / "other_languages.md",
)
TABLE = re.compile(r"(<!-- table (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
FIGURE = re.compile(r"\{(?:se (\d+) )?(\S+) (\S+) (\S+)\}")


def figure(results: str, key: str) -> Any:
    """Return one figure of training/results/RESULTS.json."""
    figures = json.loads((RESULTS / f"{results}.json").read_text(encoding="utf8"))
    return reduce(lambda table, part: table[part], key.split("."), figures)


def shown(found: re.Match[str]) -> str:
    """Format the figure of a place in a template, or the standard error of a share of n items."""
    n, results, key, form = found.groups()
    value = figure(results, key)
    return format(value if n is None else standard_error(value, int(n)), form)


def filled(template: str) -> str:
    """Fill the figures into a table."""
    try:
        return FIGURE.sub(shown, template)
    except (FileNotFoundError, KeyError):
        if template.startswith("|"):
            raise
        return ""


def fill(page: str) -> str:
    """Fill in all tables of a page."""
    found = TABLE.findall(TEMPLATES.read_text(encoding="utf8"))
    templates = {name: template for _, name, template, _ in found}
    return TABLE.sub(lambda old: f"{old[1]}{filled(templates[old[2]])}{old[4]}", page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    for page in PAGES:
        before = page.read_text(encoding="utf8")
        after = fill(before)
        if not args.check:
            page.write_text(after, encoding="utf8")
        elif after != before:
            sys.exit(f"{page.relative_to(ROOT)}: run python -m training.tables")


if __name__ == "__main__":
    main()
