"""The configs of `structlearn init-config`, as files."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from spacy_structlearn.cli._configs import SUITABLE, config_text
from spacy_structlearn.cli.init_config import ARCHITECTURES

_FOLDER = TemporaryDirectory()
NAMES = sorted(
    [*SUITABLE, *(f"{c}.{name}" for c, names in ARCHITECTURES.items() for name in names)]
)


@cache
def config_of(name: str) -> Path:
    """The config of a component, or of one with another architecture: "component.Architecture"."""
    component, _, architecture = name.partition(".")
    path = Path(_FOLDER.name) / f"{name}.cfg"
    path.write_text(config_text(component, architecture=architecture or None), encoding="utf8")
    return path
