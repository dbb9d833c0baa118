"""What a browser makes of our pages, at the widths of a phone and of a desktop, light and dark.

browser.pages       pages that Chromium opened: of PAGES, with texts written for it
browser.views       each at each width in each scheme; drawings of two layouts, in both
browser.checks      questions of CHECKS about each view
browser.failed      those with another answer than yes; their names are printed

Without Chromium, the part has no figures, and says so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import spacy
from spacy import displacy
from spacy.language import Language
from spacy.tokens import Doc

import spacy_structlearn
from spacy_structlearn.display.attachments import attachments_html
from spacy_structlearn.display.chunks import chunks_html
from spacy_structlearn.display.colors import span_options
from spacy_structlearn.display.frames import frames_html
from spacy_structlearn.display.page import page
from spacy_structlearn.pipeline.extensions import set_spans
from training.common.command import Figures

WIDTHS = (390, 1280)
SCHEMES = ("light", "dark")
CHECKS = Path(__file__).with_suffix(".js")
PROGRAMS = ("chromium", "google-chrome", "chromium-browser")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--remote-debugging-pipe",
)
OTHER_LAYOUT = """document.querySelectorAll(".turn > input").forEach(box => box.click());
!!document.querySelector(".turn")"""

SHORT = "Dogs bark."
TWELVE = "The well-known firm, which my sister left in 2008, hired her again."
FORTY = (
    "When the old lighthouse keeper finally retired last spring, the council asked the two "
    "families who had helped him for years whether they would look after the tower, the garden "
    "and the narrow path that leads down to the harbor."
)
LONG = "The committee wrote to the members, " + ", ".join(
    f"and the {who} of the town said on {day} that the new rules for the market were too strict"
    for who in ("mayor", "baker", "teacher")
    for day in ("Monday", "Tuesday", "Friday")
)
ACCENTS = "Zoë's café in Łódź sold crème brûlée to the naïve señor – “for €5”."
HOSTILE = (
    "The <script>window.hacked = 1</script> sold &amp; </details><img src=http://a.test/x> it."
)
SEVERAL = "She sold her boat. The buyer paid in cash, and left. Did it rain?"


class Browser:
    """Chromium, driven by the DevTools protocol over two pipes. A context manager.

    program: the path. Raises OSError if it does not start.
    """

    def __init__(self, program: str) -> None:
        self._folder = TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, self._send = os.pipe()
        self._receive, their_output = os.pipe()
        # It reads commands from the file 3 and writes answers to 4.
        script = f'exec "$@" 3<&{theirs} 4>&{their_output} >/dev/null 2>&1'
        flags = [*FLAGS, f"--user-data-dir={self._folder.name}"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "-", program, *flags], pass_fds=(theirs, their_output)
        )
        os.close(theirs)
        os.close(their_output)
        self._buffer, self._number, self._session = b"", 0, None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.call("Page.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._send)
        os.close(self._receive)
        self._folder.cleanup()

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a method of the protocol. Raises OSError where it fails."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._send, json.dumps(message).encode() + b"\0")
        answer: Any = {}
        while answer.get("id") != self._number:
            while b"\0" not in self._buffer:
                part = os.read(self._receive, 1 << 20)
                if not part:
                    raise OSError("the browser has ended")
                self._buffer += part
            text, _, self._buffer = self._buffer.partition(b"\0")
            answer = json.loads(text)
        if "error" in answer:
            raise OSError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path: Path, width: int, scheme: str) -> None:
        """Open a page in a window of this width, in pixels, and a colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url=path.as_uri())
        while self.run("location.href + document.readyState") != path.as_uri() + "complete":
            time.sleep(0.02)

    def run(self, script: str) -> Any:
        """Return the value of a script in the page. Raises OSError where it fails."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in found:
            raise OSError(found["exceptionDetails"]["exception"]["description"])
        return found["result"].get("value")


def program() -> str | None:
    """Return the path of Chromium, or None if it is not installed."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def host(*fragments: str, style: str = "") -> str:
    """Return a page around parts of pages, as a notebook shows them."""
    colors = "body { color-scheme: light dark; background: Canvas; color: CanvasText }"
    body = "\n".join(fragments)
    return (
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Parts</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{colors} {style}</style><body>{body}</body></html>"
    )


def hebrew() -> Doc:
    doc = Doc(spacy.blank("he").vocab, words=["היא", "מכרה", "סירה", "ישנה", "."])
    set_spans(doc, "constituents", [("S", 0, 5), ("NP", 0, 1), ("VP", 1, 4), ("NP", 2, 4)])
    set_spans(doc, "np_chunks", [("NP", 0, 1), ("NP", 2, 4)])
    return doc


def spans_in_color(nlp: Language) -> str:
    """Return what displaCy draws with our colours, in a page for its style: larger, never dark."""
    doc = nlp(TWELVE)
    drawn = displacy.render(
        doc, style="span", options=span_options(doc, "np_chunks"), jupyter=False
    )
    return host(drawn, style="html { font-size: 18px } body { background: #fff; color: #000 }")


PAGES: Mapping[str, Callable[[Language], str]] = {
    "short": lambda nlp: page(nlp(SHORT)),
    "12 words": lambda nlp: page(nlp(TWELVE)),
    "40 words": lambda nlp: page(nlp(FORTY)),
    "200 words": lambda nlp: page(nlp(LONG)),
    "several": lambda nlp: page(nlp(SEVERAL)),
    "documents": lambda nlp: page(nlp.pipe([SHORT, SEVERAL, "", TWELVE])),
    "accents": lambda nlp: page(nlp(ACCENTS)),
    "right to left": lambda _: page(hebrew()),
    "hostile": lambda nlp: page(nlp(HOSTILE), title="<script>window.hacked = 1</script>"),
    "empty": lambda nlp: page(nlp("")),
    "chunks": lambda nlp: host(chunks_html(nlp(FORTY))),
    "attachments": lambda nlp: host(attachments_html(nlp("She ate the pizza with a fork."))),
    "roles": lambda nlp: host(frames_html(nlp(FORTY))),
    "notebook": lambda nlp: host(
        page(nlp(SEVERAL))._repr_html_(), nlp(TWELVE)._.frames._repr_html_(), "<p>After it.</p>"
    ),
    "displaCy": spans_in_color,
}
"""Functions from a pipeline to a page, by name."""


def answers(
    browser: Browser, pages: Mapping[str, str], widths: tuple[int, ...] = WIDTHS
) -> Iterator[tuple[str, Any]]:
    """Iterate over names of views, and what CHECKS found there: "" for yes, or what is wrong."""
    script = CHECKS.read_text(encoding="utf8")
    with TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        for name, html in pages.items():
            path.write_text(html, encoding="utf8")
            for width in widths:
                for scheme in SCHEMES:
                    browser.open(path, width, scheme)
                    view = f"{name}, {width} pixels, {scheme}"
                    yield view, browser.run(script)
                    if browser.run(OTHER_LAYOUT):
                        yield f"{view}, other layout", browser.run(script)


def browser(args: Any) -> Figures:
    found = program()
    if found is None:
        print(f"skipped: none of {', '.join(PROGRAMS)} is installed")
        return {}
    nlp = spacy_structlearn.load()
    pages = {name: make(nlp) for name, make in list(PAGES.items())[: args.limit]}
    with Browser(found) as opened:
        views = dict(answers(opened, pages))
    wrong = [f"{view}: {k}: {v}" for view, found in views.items() for k, v in found.items() if v]
    print(*wrong, sep="\n")
    return {
        "browser.pages": len(pages),
        "browser.views": len(views),
        "browser.checks": sum(map(len, views.values())),
        "browser.failed": len(wrong),
    }
