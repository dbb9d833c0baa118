"""The report of m_estimated_grammars.py: its figures as tables, and F1 over CPU seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import srsly
from paper_report import flat, table

Figures = Mapping[str, Any]


def write(results: Path, name: str) -> None:
    """The report of results/NAME.json, and its figure."""
    flat(srsly.read_json(results / f"{name}.json"))
