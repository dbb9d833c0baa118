"""Fill the tables of the README and of other pages with the figures of training/results/*.json.

    python -m training.tables

It also writes the pages of training/results that are made from training/pages, see
training/common/report.py, which explains how a figure is named.

On its page, a table is between `<!-- table NAME -->` and `<!-- end -->`. It is replaced by the
table with this name in tables.md. A table with a text is omitted, with its text, until all of its
figures are recorded. With --check, nothing is written, and the exit status shows whether all pages
are up to date.
"""

from __future__ import annotations

import argparse
import re
import sys

from training.common.recording import RESULTS, ROOT
from training.common.report import PAGES as RESULT_PAGES
from training.common.report import filled, page_of

TEMPLATES = ROOT / "training" / "tables.md"
PAGES = (
    ROOT / "README.md",
    ROOT / "training" / "guides" / "choosing_an_architecture.md",
    ROOT / "training" / "guides" / "coming_from_benepar.md",
    ROOT / "training" / "guides" / "dependencies.md",
    ROOT / "training" / "guides" / "evaluating_and_comparing.md",
    ROOT / "training" / "guides" / "from_text_to_treebank.md",
    RESULTS / "README.md",
    ROOT / "training" / "guides" / "measures.md",
    ROOT / "training" / "guides" / "other_languages.md",
    ROOT / "training" / "guides" / "serving.md",
    ROOT / "training" / "guides" / "which_pipeline.md",
)
TABLE = re.compile(r"(<!-- table (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def table(template: str) -> str:
    """Fill the figures into a table."""
    try:
        return filled(template)
    except (FileNotFoundError, KeyError):
        if template.startswith("|"):
            raise
        return ""


def fill(page: str) -> str:
    """Fill in all tables of a page."""
    found = TABLE.findall(TEMPLATES.read_text(encoding="utf8"))
    templates = {name: template for _, name, template, _ in found}
    return TABLE.sub(lambda old: f"{old[1]}{table(templates[old[2]])}{old[4]}", page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    pages = {page: fill(page.read_text(encoding="utf8")) for page in PAGES}
    pages |= {RESULTS / page.name: page_of(page.stem) for page in RESULT_PAGES.glob("*.md")}
    for page, text in pages.items():
        if not args.check:
            page.write_text(text, encoding="utf8")
        elif text != page.read_text(encoding="utf8"):
            sys.exit(f"{page.relative_to(ROOT)}: run python -m training.tables")


if __name__ == "__main__":
    main()
