"""The configs of the package."""

from pathlib import Path

import spacy_structlearn

CONFIGS = Path(spacy_structlearn.__file__).parent / "pipeline" / "configs"
NAMES = sorted(path.stem for path in CONFIGS.glob("*.cfg") if path.stem != "pipeline")


def config_of(name: str) -> Path:
    """The config of a component, or of one with another architecture: "component.Architecture"."""
    return CONFIGS / f"{name}.cfg"
