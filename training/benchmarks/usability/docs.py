"""The documentation as a site: its pages, links and objects, and the questions that it answers.

docs.pages          pages
docs.dead_links     links to pages, pictures, headings and objects of the site that are not there
docs.foreign        scripts, styles and pictures of another host, which a page would ask for
docs.undocumented   public objects (see training.site.build) without a text on the site
questions.answered  questions of questions.md whose page and heading exist; questions.n: all
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote, urlsplit

from training.common.command import Figures
from training.site.build import build, public_objects

QUESTIONS = Path(__file__).with_name("questions.md")
SOURCES = {"a": "href", "img": "src", "link": "href", "script": "src"}
QUESTION = re.compile(r"^\d+\. (.+?) \[.+?\]\((.+?)#(.+?)\)$", re.MULTILINE)


class Page(HTMLParser):
    """The links of a page, with their tags, and its anchors, with whether a text is below them."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.anchors: dict[str, bool] = {}
        self._last = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        of = dict(attrs)
        if link := of.get(SOURCES.get(tag, "")):
            self.links.append((tag, link))
        if name := of.get("id"):
            self.anchors[name] = False
            self._last = name
        if tag == "p" and self._last:
            self.anchors[self._last] = True


def read(site: Path) -> dict[Path, Page]:
    """Return the pages of a site, by their files."""
    found = sorted(site.rglob("*.html"))
    return {path: Page(path.read_text(encoding="utf8")) for path in found if path.stem != "404"}


def dead(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield the links that lead nowhere."""
    for path, page in pages.items():
        for _, link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            to = path.parent / unquote(parts.path) if parts.path else path
            to = (to / "index.html" if to.is_dir() else to).resolve()
            anchor = unquote(parts.fragment)
            if not to.exists() or (anchor and to in pages and anchor not in pages[to].anchors):
                yield f"{path.relative_to(site)}: {link}"


def foreign(pages: dict[Path, Page]) -> Iterator[str]:
    """Yield what pages ask of other hosts. Links that a user may follow do not count."""
    for page in pages.values():
        yield from (link for tag, link in page.links if tag != "a" and urlsplit(link).netloc)


def undocumented(pages: dict[Path, Page]) -> Iterator[str]:
    """Yield the public objects without a text."""
    has_text = {name for page in pages.values() for name, text in page.anchors.items() if text}
    for module, names in public_objects().items():
        yield from (f"{module}.{name}" for name in names if f"{module}.{name}" not in has_text)


def questions() -> list[tuple[str, str, str]]:
    """Return questions of users, and the page and the heading that answer each."""
    return QUESTION.findall(QUESTIONS.read_text(encoding="utf8"))


def unanswered(site: Path, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield the questions whose page or heading is not there."""
    for question, page, heading in questions():
        path = site / page.removesuffix("README.md").removesuffix(".md") / "index.html"
        if path not in pages or heading not in pages[path].anchors:
            yield question


def docs(args: Any) -> Figures:
    with TemporaryDirectory() as folder:
        site = Path(folder).resolve()
        build(site)
        pages = read(site)
        problems = {
            "dead_links": [*dead(site, pages)],
            "foreign": [*foreign(pages)],
            "undocumented": [*undocumented(pages)],
            "unanswered": [*unanswered(site, pages)],
        }
    for name, found in problems.items():
        print(*(f"{name}: {one}" for one in found), sep="\n", end="\n" * bool(found))
    answers = len(questions()) - len(problems.pop("unanswered"))
    counts = {f"docs.{name}": len(found) for name, found in problems.items()}
    counts |= {"docs.pages": len(pages), "questions.n": len(questions())}
    return counts | {"questions.answered": answers}
