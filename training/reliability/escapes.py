"""Check that no text and no model controls a terminal, or is drawn as markup.

    python -m training.reliability.escapes

Every command runs on a terminal (a pseudo-terminal), where control characters, sequences of escape,
marks of direction and others are in a text, the name of a file, an option, or in a model: its tags,
labels, rolesets, meta.json and the name of a component. All drawings are made of texts and models
with HTML, SVG and scripts at one place, and opened in Chromium, without the content security policy
of pages and without sandboxes, so that only escapes protect them. With --record, figures are
recorded in training/results/reliability.json:

escapes.cases       commands
escapes.raw         of these, on whose output a hidden character arrived as it is
escapes.shown       of these, that showed hidden characters as escapes
xss.cases           drawings that a hostile text or name is in
xss.executed        of these, in which a script ran, or from which a request left
xss.markup          of these, with other elements or attributes than with a harmless text
xss.controls        hostile texts that a script runs of where nothing is escaped

This needs fork, pseudo-terminals and Chromium.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from html import escape
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import spacy
import srsly
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from tqdm import tqdm

from spacy_structlearn import cli
from spacy_structlearn.attachment.sites import Site
from spacy_structlearn.cli._configs import config_text
from spacy_structlearn.display.attachments import attachments_html
from spacy_structlearn.display.chunks import chunks_html
from spacy_structlearn.display.frames import frames_html
from spacy_structlearn.display.html import POLICY
from spacy_structlearn.display.networks import network_svg
from spacy_structlearn.display.page import page
from spacy_structlearn.display.trees import tree_svg
from spacy_structlearn.groups import CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS, SRL
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.readers import set_gold_spans, to_example
from spacy_structlearn.visible import HIDDEN, visible
from training.common.recording import clean_commit, record, show

# --- on a terminal --------------------------------------------------------------------------------
# A title of the window, colours, a cleared screen, the same in C1 controls, a line that is written
# over, a changed order of characters, line separators, a byte order mark, characters of tags.
HIDDEN_TEXT = (
    "a\x1b]0;title\x07b\x1b[31mc\x1b[2Jd\x9b2J\x9d0;t\x9c\x90q\x85e\rover\x08\x7f\u202ef\u2066g\u2069"
    "\u202c\u200e\u200f\u061c\u2028h\u2029\ufeffi\U000e0041j"
)
NAME = HIDDEN_TEXT  # of a file
COMPONENT = "chunker\x1b[2J\x9b2J\u202e"  # the config ends names of sections by ]
BYTES = "k\udcffl"  # what a name of a file that is not UTF-8 becomes
COMMANDS = [
    "parse {text}",
    "parse {file}",
    "parse {file} --format conll",
    "parse {file} --format jsonl",
    "parse {file} --raw",
    "parse {file} --model {model}",
    "parse {file} --model {model} --format conll",
    "parse {jsonl} --raw",
    "parse {missing}",
    "parse {name}.spacy",
    "parse {file} --model {missing}",
    "parse {file} --format {text}",
    "parse {file} {text}",
    "parse {file} --{text}",
    "{text}",
    "render {file} --title {text}",
    "render {file} -o {out}/{name}.html",
    "render {docs}",
    "apply {model} {file} -",
    "apply {model} {jsonl} -",
    "apply {model} {jsonl} {out}/{name}.spacy",
    "apply {model} {broken} -",
    "apply {model} {folder} {out}/{name}",
    "apply {model} {file} {out}/{name}.txt",
    "apply {model} {file} - --shard {text}",
    "apply {model} {jsonl} {out}/objects.spacy --n-process 2",
    "find {label} {trees}",
    "find {label} {trees} --format jsonl",
    "find {label} {trees} --count",
    "find {text} {trees}",
    "find NP {missing}",
    "find {label} {docs}",
    "find {label} {docs} --format jsonl",
    "convert {trees} {out}/{name}.spacy",
    "convert {trees} -",
    "convert {broken} {out}/a.spacy",
    "convert {columns} {out}/a.spacy --reader conll2000",
    "convert {columns} {out}/a.spacy --reader quadruples",
    "convert {columns} {out}/a.spacy --reader treebank",
    "convert {trees} {out}/a.spacy --dev {out}/b.spacy --dev-names {file}",
    "evaluate {model} {docs}",
    "evaluate {model} {docs} -o -",
    "evaluate {model} {missing}",
    "evaluate {model} {trees} --gold-tokens",
    "info {model}",
    "info {model} --component {chunker}",
    "info {model} --component constituency_parser",
    "info {model} --component constituency_parser --label {label}",
    "info {model} --component {text}",
    "info {model} --component {chunker} --label {text}",
    "adapt {model} {docs} -o {out}/{name}",
    "train {config} -o {out}/{name} --paths.train {docs} --paths.dev {docs}",
    "train {config} -o {out}/a --paths.train {missing} --paths.dev {docs}",
    "train {config} -o {out}/a --{text} 1",
    "train {missing} -o {out}/a",
    "init-config {text}",
    "init-config np_chunker -o {out}/{name}.cfg",
    "package {model} {out}/{name} --name {text}",
    "package {model} {out}/{name}",
    "upgrade {config} -o {out}/{name}.cfg",
    "upgrade {missing}",
]


def hostile_model(folder: Path) -> Path:
    """Train a pipeline on hostile tags and labels, under hostile names."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    settings = {"@architectures": "spacy_structlearn.LatentGrammar.v2", "rounds": 0}
    parser = nlp.add_pipe("constituency_parser", config={"model": settings, "set_tags": True})
    chunker = nlp.add_pipe("np_chunker", name=COMPONENT)
    examples = [to_example(doc) for doc in hostile_docs(nlp.vocab)]
    for component in (parser, chunker):
        component.initialize(lambda: examples)
        component.fit(examples)
    nlp.meta |= dict.fromkeys(("description", "license", "author", "url"), HIDDEN_TEXT)
    nlp.meta["performance"] = {HIDDEN_TEXT: 0.5}
    nlp.meta["speed"] = {"words_per_cpu_s": {"all": 1, COMPONENT: 2}, "cpu": HIDDEN_TEXT}
    nlp.to_disk(folder / NAME)
    return folder / NAME


def hostile_docs(vocab: Vocab) -> Iterator[Doc]:
    """Make Docs with hostile words, tags and labels."""
    label = "NP" + "".join(HIDDEN_TEXT.split())
    words = ["The", "".join(HIDDEN_TEXT.split()), "dog", "slept", "."]
    for _ in range(3):
        doc = Doc(vocab, words=words, tags=["DT", "JJ", label, "VBD", "."])
        doc[0].is_sent_start = True
        set_gold_spans(doc, CONSTITUENTS, [("S", 0, 5), (label, 0, 3), ("VP", 3, 4)])
        set_gold_spans(doc, NP_CHUNKS, [("NP", 0, 3)])
        frames = [(3, f"sleep{HIDDEN_TEXT}.01", [(f"ARG0{HIDDEN_TEXT}", 0, 3)])]
        set_gold_spans(doc, SRL, list(extensions.frame_spans(frames)))
        yield doc


def prepare(folder: Path) -> dict[str, str]:
    """Write the files of COMMANDS. Returns what stands for the names in them."""
    names = {"text": HIDDEN_TEXT, "name": NAME, "out": str(folder / "out"), "chunker": COMPONENT}
    names["missing"] = str(folder / f"missing{NAME}{BYTES}.txt")
    names["label"] = f"/.*{chr(0x1B)}.*/"
    names["model"] = str(hostile_model(folder))
    word = "".join(HIDDEN_TEXT.split())
    lines = [{"text": f"The {HIDDEN_TEXT} dog slept.", HIDDEN_TEXT: HIDDEN_TEXT}] * 2
    contents = {
        "file": f"The {HIDDEN_TEXT} dog slept. The dog {word} ran.",
        "jsonl": "".join(f"{srsly.json_dumps(line)}\n" for line in lines),
        "broken": f'{{"text": "a"}}\n{HIDDEN_TEXT}\n',
        "trees": f"(S (NP-{word} (DT the) (N{word} dog{word})) (VP (VBD slept)))\n",
        "columns": f"dog{word} NN{word} B-NP{word} {word}\n",
    }
    endings = {"file": "txt", "columns": "txt", "broken": "jsonl"}
    inside = folder / "inside"
    inside.mkdir()
    (inside / f"{NAME}.html").touch()
    for key, content in contents.items():
        path = inside / f"{key}{NAME}{BYTES}.{endings.get(key, key)}"
        path.write_bytes(content.encode())
        names[key] = str(path)
    names["folder"] = str(inside)
    names["docs"] = str(folder / f"{NAME}.spacy")
    DocBin(docs=list(hostile_docs(Vocab()))).to_disk(names["docs"])
    names["config"] = str(folder / f"{NAME}.cfg")
    Path(names["config"]).write_text(config_text(["np_chunker"]), encoding="utf8")
    return names


def on_terminal(arguments: Sequence[str]) -> str:
    """Run a command on a terminal, and return what it writes there."""
    import pty  # Windows has none

    child, terminal = pty.fork()
    if not child:
        try:
            sys.stdout, sys.stderr = (
                os.fdopen(number, "w", encoding="utf8", errors="replace") for number in (1, 2)
            )
            sys.argv = ["structlearn", *arguments]
            cli.main()
        except SystemExit:
            pass
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
    parts = []
    try:
        while part := os.read(terminal, 1 << 16):
            parts.append(part)
    except OSError:  # the end, on Linux
        pass
    os.close(terminal)
    os.waitpid(child, 0)
    return b"".join(parts).decode("utf8", "surrogateescape")


def raw_characters(shown: str) -> list[str]:
    """Return the hidden characters that arrived on a terminal as they are.

    A terminal ends lines by \\r\\n, progress bars write \\r before and after a line, and messages
    have colours, which are not those of HIDDEN_TEXT.
    """
    return HIDDEN.findall(re.sub(r"\r(?!over)|\x1b\[(?:38;5;\d+|0)m", "", shown))


def terminal_figures(commands: Sequence[str], folder: Path) -> dict[str, int]:
    """Run commands, and count those that write hidden characters to a terminal."""
    names = prepare(folder)
    raw = shown = 0
    for command in tqdm(commands, desc="terminal", disable=None):
        arguments = [part.format(**names) for part in command.split()]
        found = on_terminal(arguments)
        if left := raw_characters(found):
            raw += 1
            print(f"{command}: {sorted(set(left))!r} in {visible(found)!r}", flush=True)
        shown += re.search(r"\\(?:u001b|x1b|u200e)", found) is not None
    return {"escapes.cases": len(commands), "escapes.raw": raw, "escapes.shown": shown}


# --- in a page ------------------------------------------------------------------------------------
SCRIPT = "top.document.title=`ran`;fetch(`/hit/{id}`)"
IMAGE = "<img src=/hit/{id}>"
PAYLOADS = {
    "script": f"<script>{SCRIPT}</script>",
    "capitals": f"<ScRiPt>{SCRIPT}</sCrIpT >",
    "image": IMAGE,
    "onerror": f"<img src=x: onerror={SCRIPT}>",
    "svg": f"<svg onload={SCRIPT}>",
    "svg script": f"</text></g></svg><svg><script>{SCRIPT}</script>",
    "iframe": "<iframe src=/hit/{id}></iframe>",
    "javascript frame": f"<iframe src='javascript:{SCRIPT}'></iframe>",
    "double quote": f'"><img src=x: onerror={SCRIPT}>',
    "single quote": f"'><img src=x: onerror={SCRIPT}>",
    "attribute": f'" onfocus={SCRIPT} autofocus tabindex=0 x="',
    "single attribute": f"' onfocus={SCRIPT} autofocus tabindex=0 x='",
    "style": "red;background:url(/hit/{id})",
    "style end": f"</style></title></pre></textarea><script>{SCRIPT}</script>",
    "style rule": "}}*{{background:url(/hit/{id})}}",
    "link": "<link rel=stylesheet href=/hit/{id}>",
    "import": "</style><style>@import '/hit/{id}';</style>",
    "refresh": "<meta http-equiv=refresh content='0;url=/hit/{id}'>",
    "comment": f"--><!--><script>{SCRIPT}</script>",
    "section": f"]]><script>{SCRIPT}</script><![CDATA[",
    "instruction": "<?xml-stylesheet href='/hit/{id}'?>" + IMAGE,
    "entity": f"&lt;script&gt;{SCRIPT}&lt;/script&gt;&quot;&#34;&#x22;&#39;" + IMAGE,
    "null": f"<\0script>{SCRIPT}</script><scr\0ipt>{SCRIPT}</script>" + IMAGE,
    "lines": f"<img\nsrc=x:\r\nonerror\t=\f{SCRIPT}\u2028>",
    "template": "{{bg}}{{label}}%s{{0}}" + IMAGE,
    "bidi": "\u202e" + IMAGE + "\u2066",
    "object": "<object data=/hit/{id}></object><embed src=/hit/{id}>",
    "use": "<svg><use href=/hit/{id}#a /><image href=/hit/{id} /></svg>",
    "math": f"<math><mtext><style><img src=x: onerror={SCRIPT}></style></mtext></math>",
    "details": f"</summary></details><details open ontoggle={SCRIPT}>",
    "address": f"javascript:{SCRIPT}",
    "base": "<base href=/hit/{id}/><img src=a>",
}
PLACES = (
    "word", "tag", "constituent", "chunk", "argument", "roleset", "failure", "title", "lang",
    "variable", "name",
)  # fmt: skip


@cache
def english() -> Vocab:
    """Return the vocab of the sentence that is drawn."""
    extensions.register()
    return spacy.blank("en").vocab


def drawings(place: str, text: str) -> dict[str, str]:
    """Draw a sentence and a network with a text at a place. Returns HTML or SVG by drawing."""
    at = {**{other: f"harmless-{other}" for other in PLACES}, place: text}
    words = ["She", "ate", at["word"], "pizza", "with", "a", "fork", "."]
    tags = ["PRP", "VBD", at["tag"], "NN", "IN", "DT", "NN", "."]
    doc = Doc(english(), words=words, tags=tags, sent_starts=[True, *[False] * 7])
    layers = {
        CONSTITUENTS: [("S", 0, 8), ("VP", 1, 7), (at["constituent"], 2, 4), ("PP", 4, 7)],
        NP_CHUNKS: [(at["chunk"], 2, 4), ("NP", 5, 7)],
        PP_ATTACHMENTS: list(extensions.site_spans([Site(1, 3, 4, 6, 4, 7, "V")])),
        SRL: list(
            extensions.frame_spans([(1, at["roleset"], [("ARG0", 0, 1), (at["argument"], 2, 4)])])
        ),
        "parse_failures": [(at["failure"], 0, 8)],
    }
    for key, spans in layers.items():
        set_gold_spans(doc, key, spans)
    (tree,) = doc._.trees
    network = {"p": [], at["variable"]: ["p"]}
    lang = at["lang"] if place == "lang" else None
    whole = page([doc, doc], title=at["title"], lang=lang)
    link = {"kb_url_template": "https://example.org/{}.html"}
    return {
        "page": whole,
        "notebook": whole._repr_html_(),
        "chunks": chunks_html(doc),
        "attachments": attachments_html(doc),
        "frames": frames_html(doc),
        "frames page": frames_html(doc, page=True, options=link),
        "tree": tree_svg(tree, title=at["title"], probabilities=[0.5] * len(tree.spans())),
        "network": network_svg(network, names={"p": at["name"]}),
    }


class _Skeleton(HTMLParser):
    """Collects the elements, and the names of their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.found.append((f"/{tag}", ()))

    def handle_comment(self, data: str) -> None:
        self.found.append(("!--", ()))

    handle_decl = unknown_decl = handle_pi = handle_comment


def skeleton(markup: str) -> list[tuple[str, tuple[str, ...]]]:
    """Return the tags of a document or a part of one, with the names of attributes."""
    parser = _Skeleton()
    parser.feed(markup)
    parser.close()
    return parser.found


class Case:
    """A drawing with a hostile text. id: its number. markup: what is opened."""

    def __init__(self, id: int, name: str, markup: str, is_changed: bool):
        self.id, self.name, self.markup, self.is_changed = id, name, markup, is_changed


def cases(payloads: Mapping[str, str] = PAYLOADS) -> Iterator[Case]:
    """Yield all drawings that a hostile text is in.

    Protection besides escapes is removed: the policy of pages and sandboxes of frames.
    """
    number = 0
    for place in PLACES:
        calm = drawings(place, "harmless")
        usual = {name: skeleton(markup) for name, markup in calm.items()}
        for payload, text in payloads.items():
            for name, markup in drawings(place, text.format(id=number)).items():
                if markup == calm[name]:  # the place is not in this drawing
                    continue
                is_changed = skeleton(markup) != usual[name]
                yield Case(number, f"{payload} as {place} in {name}", bare(markup), is_changed)
            number += 1


def bare(markup: str) -> str:
    """Remove the content security policy and sandboxes."""
    for policy in (POLICY, escape(POLICY)):
        markup = markup.replace(policy, "")
    return markup.replace("<iframe sandbox ", "<iframe ")


def controls() -> Iterator[Case]:
    """Yield each hostile text where nothing is escaped: in text, in attributes and in a style."""
    for number, (name, payload) in enumerate(PAYLOADS.items()):
        text = payload.format(id=number)
        markup = (
            f"<p>{text}</p><p title=\"{text}\">a</p><p title='{text}'>a</p>"
            f'<svg><g><text>{text}</text></g></svg><p style="--c:{text}">a</p>'
            f'<style>a{{color:{text}</style><iframe src="{text}"></iframe>'
        )
        yield Case(number, name, markup, False)


# --- the browser ----------------------------------------------------------------------------------
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--virtual-time-budget=20000", "--dump-dom",
)  # fmt: skip
AT_ONCE = 100  # drawings in one window


def browser() -> str | None:
    """Return the path of Chromium, None if it is not installed."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


@contextmanager
def served(pages: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Serve pages by their paths. Yields the address, and a list that gets all other paths."""
    others: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = pages.get(self.path)
            if found is None and self.path != "/favicon.ico":
                others.append(self.path)
            data = (found or "").encode("utf8", "replace")
            self.send_response(404 if found is None else 200)
            kind = "image/svg+xml" if data.startswith(b"<svg") else "text/html"
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", others
    finally:
        server.shutdown()
        server.server_close()


def opened(chosen: Sequence[Case], chromium: str) -> tuple[list[str], bool]:
    """Open drawings in one window, each in a frame.

    Returns the paths that were requested besides, and whether a script changed the window's title.
    """
    pages = {f"/{index}": case.markup for index, case in enumerate(chosen)}
    frames = "".join(f'<iframe src="{path}"></iframe>' for path in pages)
    pages["/"] = f"<!DOCTYPE html><title>calm</title>{frames}"
    with served(pages) as (address, others), TemporaryDirectory() as profile:
        command = [chromium, *OPTIONS, f"--user-data-dir={profile}", address]
        done = subprocess.run(
            command, capture_output=True, encoding="utf8", errors="replace", check=True
        )
    title = re.search("<title>(.*?)</title>", done.stdout)
    if title is None:
        raise RuntimeError(f"Chromium opened nothing: {done.stderr}")
    return others, title[1] != "calm"


def executed(chosen: Sequence[Case], chromium: str) -> list[Case]:
    """Return the drawings in which a script ran, or from which a request left."""
    found = []
    for begin in tqdm(range(0, len(chosen), AT_ONCE), desc="browser", disable=None):
        part = chosen[begin : begin + AT_ONCE]
        if any(opened(part, chromium)):
            found += [case for case in part if any(opened([case], chromium))]
    return found


def browser_figures(chromium: str) -> dict[str, int]:
    """Open all drawings, and count those in which something ran."""
    running = executed_controls(chromium)
    chosen = list(cases())
    ran, changed = executed(chosen, chromium), [case for case in chosen if case.is_changed]
    for case in (*ran, *changed):
        print(f"{case.name}: {case.markup!r}", flush=True)
    return {
        "xss.cases": len(chosen),
        "xss.executed": len(ran),
        "xss.markup": len(changed),
        "xss.controls": len(running),
    }


def executed_controls(chromium: str) -> set[str]:
    """Return the names of the hostile texts that run where nothing is escaped."""
    own = list(controls())
    # Some leave the page, so that each needs a window of its own.
    found = {case.name: opened([case], chromium) for case in own}
    return {
        name
        for name, (others, ran) in found.items()
        if ran or any(path.startswith("/hit/") for path in others)
    }


# --- the command ----------------------------------------------------------------------------------
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=("terminal", "browser"))
    parser.add_argument("--record", action="store_true", help="write the figures to the results")
    args = parser.parse_args()
    if args.record:
        clean_commit()
    figures: dict[str, int] = {}
    if args.only != "browser":
        with TemporaryDirectory() as folder:
            figures |= terminal_figures(COMMANDS, Path(folder))
    if args.only != "terminal":
        chromium = browser()
        if chromium is None:
            raise SystemExit(f"Install Chromium: none of {', '.join(BROWSERS)} is on the path.")
        figures |= browser_figures(chromium)
    show(figures)
    if args.record:
        record("reliability", figures)


if __name__ == "__main__":
    main()
