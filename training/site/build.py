"""Build the documentation as a site: guides, results, and a reference of all public objects.

    pip install -e '.[docs]'
    python -m training.site.build site

The pages are those of the repository, in the same folders. Links to files that are no pages go to
the repository. A page that no menu has, a dead link or a missing object is an error.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from importlib.metadata import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from training.common.recording import ROOT

CONFIG = Path(__file__).with_name("mkdocs.yml")
PACKAGE = "spacy_structlearn"
PICTURES = (".png", ".svg")
GUIDES = ROOT / "training" / "guides"
PAGES = [
    ROOT / "README.md",
    ROOT / "training" / "README.md",
    ROOT / "corpora" / "README.md",
    *sorted(GUIDES.glob("*.md")),
    *sorted((ROOT / "training" / "results").glob("*.md")),
]
# A link of a page to a file: its text and its place, which may have an anchor.
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")
IMPORT = re.compile(rf"^from ({PACKAGE}[\w.]*) import (.+)$", re.MULTILINE)


def public_objects() -> dict[str, list[str]]:
    """Return the names of public objects by module: those of `__all__`, and what guides import."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / PACKAGE).rglob("__init__.py")):
        for node in ast.parse(path.read_text(encoding="utf8")).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                module = ".".join(path.parent.relative_to(ROOT).parts)
                found[module] |= {*ast.literal_eval(node.value)}
    for page in PAGES:
        for module, names in IMPORT.findall(page.read_text(encoding="utf8")):
            found[module] |= {name.strip() for name in names.split(",")}
    return {
        module: sorted(name for name in names if name[0] != "_" and not is_module(module, name))
        for module, names in sorted(found.items())
    }


def is_module(package: str, name: str) -> bool:
    """Return whether this is a module or a package."""
    path = ROOT.joinpath(*package.split("."), name)
    return path.is_dir() or path.with_suffix(".py").is_file()


def api_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of a page for each module with public objects."""
    for module, names in public_objects().items():
        if names:
            objects = "".join(f"::: {module}.{name}\n\n" for name in names)
            yield f"api/{module}.md", f"# {module}\n\n{objects}"


def write_pages(folder: Path) -> None:
    """Write all pages and pictures."""
    pages = {path.relative_to(ROOT) for path in PAGES}
    urls = metadata("spacy-structlearn").get_all("Project-URL")
    address = dict(url.split(", ") for url in urls)["Source"]
    for path in pages:
        text = (ROOT / path).read_text(encoding="utf8")
        to = folder / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(LINK.sub(partial(_linked, path, pages, address), text), encoding="utf8")
    for path in ROOT.joinpath("training", "results").iterdir():
        if path.suffix in PICTURES:
            shutil.copy(path, folder / path.relative_to(ROOT))
    for name, text in api_pages():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf8")


def _linked(page: Path, pages: set[Path], address: str, link: re.Match[str]) -> str:
    place = (ROOT / page.parent / link[2]).resolve()
    own = place.relative_to(ROOT)
    if own in pages or own.suffix in PICTURES or not place.exists():
        return link[0]
    kind = "tree" if place.is_dir() else "blob"
    return f"{link[1]}{address}/{kind}/main/{own.as_posix()}{link[3]}"


def menu(given: list[Any]) -> list[Any]:
    """Return the menu with all pages that it does not name."""
    text = str(given)
    guides = [f"training/guides/{path.name}" for path in sorted(GUIDES.glob("*.md"))]
    rest = [name for name in guides if name not in text and not name.endswith("/reference.md")]
    how_to = next(part["How-to"] for part in given if "How-to" in part)
    how_to += [name for name in rest if not name.endswith("/labels.md")]
    reference = ["training/guides/reference.md", "training/guides/labels.md", "corpora/README.md"]
    reference += [name for name, _ in api_pages()]
    results = [f"training/results/{path.name}" for path in PAGES if path.parent.name == "results"]
    results.sort(key=lambda name: not name.endswith("README.md"))
    return [*given, {"Reference": reference}, {"Results": results}]


def build(output: Path) -> None:
    """Write the site. Raises mkdocs.exceptions.Abort if something is missing."""
    from mkdocs.commands.build import build as mkdocs_build
    from mkdocs.config import load_config

    with TemporaryDirectory() as folder:
        config = load_config(
            str(CONFIG), docs_dir=folder, site_dir=str(output.absolute()), strict=True
        )
        write_pages(Path(folder))
        config.nav = menu(config.nav)
        mkdocs_build(config)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("output", type=Path, help="folder of the site")
    build(parser.parse_args().output)


if __name__ == "__main__":
    main()
