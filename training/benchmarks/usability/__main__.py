"""What users do with trees: measures, reports, pages.

    python corpora/fetch.py ewt
    pip install -e '.[docs]'
    python -m training.benchmarks.usability --tregex CLASSES

Each part is a module of this folder, whose docstring says what its figures are.
"""

from __future__ import annotations

from pathlib import Path

from training.benchmarks.usability import browser, docs, measures, report
from training.common.command import bound, options, run_parts

PARTS = {
    "measures": measures.measures,
    "accuracy": measures.accuracy,
    "tregex": measures.tregex,
    "report": report.report,
    "coverage": report.coverage,
    "browser": browser.browser,
    "docs": docs.docs,
}


def main() -> None:
    parser = options(__doc__, "corpora", "limit", only=PARTS)
    parser.add_argument("--tregex", type=Path, metavar="CLASSES", help="class path of Tregex")
    args = parser.parse_args()
    run_parts("usability", bound(PARTS, args), args.only, is_trial=args.limit is not None)


if __name__ == "__main__":
    main()
