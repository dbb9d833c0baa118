"""What users do with trees: measures, reports, pages.

    python corpora/fetch.py ewt
    python -m training.benchmarks.usability --tregex CLASSES

Each part is a module of this folder, whose docstring says what its figures are.
"""

from __future__ import annotations

from pathlib import Path

    "browser": browser.browser,
