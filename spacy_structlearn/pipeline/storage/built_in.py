"""The built-in pipelines, and the folders of pipelines by their names."""

from __future__ import annotations

from pathlib import Path

BUILT_IN = "en_structlearn_sm"
DATA = Path(__file__).parents[2] / "data"
FOLDER = DATA / BUILT_IN


def directory(name: str | Path) -> Path:
    """Return the folder of a pipeline as `spacy_structlearn.load` finds it; it need not exist."""
    from spacy.util import get_package_path, is_package

    if is_built_in(name):
        return FOLDER if name == BUILT_IN else DATA / name
    if isinstance(name, str) and is_package(name):
        # The files of a package are one folder deeper, under its name and version.
        configs = sorted(get_package_path(name).glob(f"{name}-*/config.cfg"))
        if configs:
            return configs[0].parent
    return Path(name)


def names() -> list[str]:
    """Return the names of the built-in pipelines, the default one first."""
    return [
        BUILT_IN,
        *sorted({file.parent.name for file in DATA.glob("*/config.cfg")} - {BUILT_IN}),
    ]


def is_built_in(name: str | Path) -> bool:
    """Return whether this is a built-in pipeline, not a folder or package with its name."""
    from spacy.util import is_package

    return name in names() and not Path(name).exists() and not is_package(str(name))
