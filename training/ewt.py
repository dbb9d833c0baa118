"""The files of the fetched English Web Treebank."""

from __future__ import annotations

from pathlib import Path


def treebank(corpora: Path, split: str) -> dict[str, Path]:
    """The files of train or dev, by the names that readers know."""
    kinds = ("trees", "spaces", "props")
    return {kind: corpora / "ewt" / f"{split}.{kind}.gz" for kind in kinds}


def tuning_documents(corpora: Path) -> set[str]:
    """The documents of train that settings are chosen on: `ewt/tune.txt`."""
    return set((corpora / "ewt" / "tune.txt").read_text(encoding="utf8").split())
