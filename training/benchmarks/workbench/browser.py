"""The pages of `structlearn serve` and `annotate` in Chromium, used as people use them.

Each scenario opens a page, works there with a mouse, a finger or keys alone, and asserts what the
page then shows and, for `annotate`, what the journal has. In each, scripts must not fail, and
nothing may be requested from elsewhere.

browser.scenarios   SCENARIOS of both pages
browser.failed      those in which an assertion fails; they are printed

Without Chromium, the part has no figures, and says so.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from spacy_structlearn.pipeline.annotation.journal import read
from spacy_structlearn.serve.annotate.annotation import JOURNAL
from training.benchmarks.usability.browser import Browser, program
from training.benchmarks.workbench.driver import IS_IDLE, WRONG, Page, css, text_of, word
from training.benchmarks.workbench.server import JSON, Server
from training.common.command import Figures

MODEL = "en_structlearn_sm"
LEARNING = 1200.0  # seconds until a model has learned
FIRST = "The old keeper saw the man with the telescope in the garden. He left because it rained."
WHO = ("mayor", "baker", "teacher", "farmer", "doctor", "singer")
LONG = "The town wrote to the members, " + ", ".join(
    f"and the {who} of the old town said on {day} that the new rules for the market on the hill "
    "were far too strict for those who sell flowers"
    for day in ("Monday", "Friday")
    for who in WHO
)
HEBREW, EMOJI = "היא מכרה סירה ישנה.", "The 👩‍🚀 flew home 🚀 on Monday."
SHORT = [f"The {who} sold a {what}." for who in WHO for what in ("boat", "red chair")]
TEXTS = "\n\n".join([FIRST, LONG, HEBREW, EMOJI, *SHORT])
STATUS = 'document.querySelector("#status").textContent'


class Work(NamedTuple):
    """A server in a folder, which has the folder of an annotator."""

    server: Server
    folder: Path
    url: str

    def call(self, name: str, **fields: Any) -> Any:
        connection = HTTPConnection(self.server.host, self.server.port, timeout=60)
        connection.request("POST", f"/{name}", json.dumps(fields), JSON)
        return json.loads(connection.getresponse().read())

    def last(self) -> dict[str, Any]:
        """Return the last record of the journal."""
        return read(self.folder / "out" / "annotator" / JOURNAL)[0][-1]

    def wait(self, page: Page, does: str, id: int = 0) -> dict[str, Any]:
        """Return the last record once it is of this kind, and the page can go on."""
        page.wait(lambda: (self.last()["do"], self.last().get("id")) == (does, id), f"{does} {id}")
        page.wait(IS_IDLE)
        return self.last()


def serve(folder: Path) -> Work:
    server = Server(folder)
    return Work(server, folder, f"http://127.0.0.1:{server.port}/")


def annotate(folder: Path, port: int = 0) -> Work:
    (texts := folder / "texts.txt").write_text(TEXTS, encoding="utf8")
    command = ("annotate", MODEL, str(texts), "--output", str(folder / "out"))
    server = Server(folder, "--order", "text", "--port", port, command=command)
    return Work(server, folder, f"http://127.0.0.1:{server.port}/")


# --- scenarios of steps: see `Page.take` ----------------------------------------------------------
Scenario = Callable[[Page, Work], None]
# The sentences of TEXTS: 0 and 1 are FIRST, 2 is LONG, 3 HEBREW, 4 EMOJI, others SHORT.
TYPED = {"FIRST": FIRST, "HEBREW": HEBREW, "EMOJI": EMOJI, "LONG": "word " * 2001}
DOGS = "open #text=Dogs+bark.&trees=2"
PARSE = rf"""
parse by keys: open | press Tab | type FIRST | press Control+Enter
    | see says === "2 sentences, 19 words."
parse by a button: open | click #text | type FIRST | click Parse
    | see says.startsWith("2 sentences") | see document.activeElement.id === "structure" | named
2 best trees: {DOGS} | see count("#alternatives figure") === 2
no best trees: open #text=Dogs+bark.&trees=0 | see says === "1 sentence, 3 words."
    | see count("#alternatives figure") === 0
copy brackets: {DOGS} | click Copy brackets | see window.__copied.includes("(NP (NNS Dogs))")
copy JSON: {DOGS} | click Copy JSON | see JSON.parse(window.__copied).text === "Dogs bark."
copy CoNLL-U: {DOGS} | click Copy CoNLL-U | see window.__copied.includes("1\tDogs\t")
copy SVG: {DOGS} | click Copy SVG | see window.__copied.startsWith("<svg")
copy LaTeX: {DOGS} | click Copy LaTeX | see window.__copied.includes("forest")
    | see says === "LaTeX copied."
text in the address: open | click #text | type Go away. | click Parse
    | see location.hash.includes("Go+away.")
history: {DOGS} | see says.includes("3 words") | click #text | type  So | click Parse
    | see says.includes("4 words") | go -1 | see says.includes("3 words")
too long: open | click #text | type LONG | press Control+Enter
    | see shows(".error") && says.includes("10,000 characters")
right to left: open | click #text | type HEBREW | click Parse | see says === "1 sentence, 5 words."
emoji: open | click #text | type EMOJI | click Parse | see says.startsWith("1 sentence") | named
a phone in the dark: phone | click #text | type FIRST | click Parse
    | see says.startsWith("2 sentences") | see back === "rgb(13, 17, 23)" && wide <= 390 | named
"""
ANNOTATE = """
drag over words: open #id=0 | drag 5 9 | see chosen === 5 | press Escape | see chosen === 1
a range by finger: phone #id=0 | tap 5 | tap Range | tap 9 | see chosen === 5
double click: open #id=0 | double 2 | see text("#pick-title").startsWith("Tag of") | named
    | press Escape | see at.includes("word 2")
arrow keys: open #id=0 | press End | see at.startsWith("., tag .") | press Home ArrowUp
    | see at.startsWith("NP, words 1 to 3") | press ArrowRight | see at.startsWith("VP, words 4 to")
    | press ArrowDown | see at.startsWith("saw, tag VBD")
list of sentences: open #id=0 | press a | type he left | press Enter | see location.hash === "#id=1"
    | see place.startsWith("Sentence 2 ") | go -1 | see place.startsWith("Sentence 1 ")
random: open #id=0 | press n n n n n n n n n n n n | see !place.startsWith("Sentence 1 ")
what labels mean: open #id=0 | press g | type np | see text("#pick-list b") === "NP" | named
    | press Escape | see !shows("dialog[open]")
help of keys: open #id=0 | press ? | see text("#keys").includes("accept the sentence") | named
look first: open #id=0 | press f | click 5 | press p | type NX | press Enter
    | see says.includes("Press Enter to do it") && shows(".new") | press Escape | see !shows(".new")
    | click 5 | press p | type NX | press Enter | see shows(".new") | press Enter
    | see says.startsWith("Done") | press u | see says === "Undone."
refused: open #id=0 | press p | type N(P | press Enter
    | see shows(".error") && says.includes("label")
doubtful: open #id=2 | press Home d | see shows(".doubt:focus, .unsure:focus")
300 words: open #id=2 | see count(".word") >= 300 | press End
    | see shows(".word:focus") && focused <= 1280 | press t | type NN | press Enter
    | see says.startsWith("Done") | press u | see says === "Undone."
words from right to left: open #id=3 | see left("[aria-label$='word 5']") < left(".word")
    | press Home ArrowLeft | see at.endsWith("word 2")
emoji of a text: open #id=4 | see text("#sentence").includes("flew home 🚀")
    | press Home ArrowRight | see at.startsWith("👩‍🚀, tag")
annotate on a phone in the dark: phone #id=0 | see back === "rgb(13, 17, 23)" && wide <= 390 | named
no such sentence: open #id=999 | see place.startsWith("Sentence 1 ")
"""


def scripted(text: str) -> dict[str, Scenario]:
    lines = text.strip().replace("\n    |", " |").splitlines()
    found = (line.partition(": ") for line in lines)
    return {name: partial(steps, text=own) for name, _, own in found}


def steps(page: Page, work: Work, text: str) -> None:
    page.take(text, work.url, TYPED)


# --- each action, by mouse and by keys ------------------------------------------------------------
class Action(NamedTuple):
    """An action on the first sentence. on: the words from `start` to `end`, or their phrase or box
    of this kind. does: what it has. typed: into the list. head: the word that is chosen then."""

    button: str
    key: str
    start: int
    end: int
    does: dict[str, Any]
    on: str = "word"
    typed: str = ""
    head: int | None = None


ACTIONS = {
    "phrase": Action("Phrase", "p", 4, 9, {"do": "phrase", "label": "NP"}, typed="NP"),
    "label": Action("Label L", "l", 6, 9, {"instead": "PP"}, on="phrase", typed="UCP"),
    "no phrase": Action("Not a phrase", "Delete", 6, 9, {"do": "no_phrase"}, on="phrase"),
    "tag": Action("Tag", "t", 1, 2, {"tag": "NN"}, typed="NN"),
    "head": Action("Belongs to", "h", 6, 9, {"do": "attach", "head": 3}, head=3),
    "role": Action("Role", "r", 4, 6, {"predicate": 3, "label": "ARG2"}, typed="ARG2"),
    "no role": Action("Not a role", "Delete", 0, 3, {"label": None, "predicate": 3}, on="role"),
    "predicate": Action("Predicate", "v", 8, 9, {"roleset": "scope.01"}, typed="scope.01"),
    "no predicate": Action("Not a predicate", "Delete", 3, 4, {"keep": False}, on="predicate"),
    "chunk": Action("Chunk", "c", 0, 2, {"do": "chunk", "keep": True}),
    "no chunk": Action("Not a chunk", "Delete", 0, 3, {"do": "chunk", "keep": False}, on="chunk"),
    "split": Action("Begins here", "b", 6, 7, {"do": "split", "word": 6}),
    "join": Action("Join next", "j", 0, 1, {"do": "merge"}),
    "best trees": Action("Best trees", "k", 0, 1, {"do": "choose"}),
}
STEPS = {"accepted": ("Accept", "Enter"), "skipped": ("Skip", "s")}
WAYS = {"by mouse": True, "by keys": False}


def acts(page: Page, work: Work, action: Action, mouse: bool) -> None:
    page.open(work.url + "#id=0")
    start, end, head = action.start, action.end, action.head
    if mouse and action.on != "word":
        words = f"words {start + 1} to {end}"
        page.click(css(f'.{action.on}[aria-label*="{words if end - start > 1 else "saw"}"]'))
    elif mouse:
        page.click(word(start))
        page.click(word(end - 1), shift=end - start > 1)
    else:
        page.press("Home", *["ArrowRight"] * start)
        if action.on == "word":
            page.press(*["Shift+ArrowRight"] * (end - start - 1))
        while not page.run(f'document.activeElement.matches(".{action.on}")'):
            page.press("ArrowUp" if action.on == "phrase" else "ArrowDown")
    page.click(text_of("button", action.button)) if mouse else page.press(action.key)
    if action.typed:
        page.type(action.typed)
        option = text_of("#pick-list li", action.typed)
        is_listed = mouse and action.typed.isupper()
        page.click(option) if is_listed else page.press("Enter")
    if head is not None:
        page.click(word(head)) if mouse else page.press("Home", *["ArrowRight"] * head, "Enter")
    if action.key == "k":
        page.wait('document.querySelectorAll("#alternatives figure").length > 1')
        page.click(text_of("button", "Choose 2")) if mouse else page.press("2")
    found = work.wait(page, "act")["action"]
    place = {"start": start, "end": end} if "start" in found else {}
    assert (action.does | place).items() <= found.items(), found
    page.wait(f"/^(Done|Split|Joined)/.test({STATUS})")
    page.wait('document.activeElement.matches(".item.at")')  # the focus is kept
    undone(page, work, mouse)


def undone(page: Page, work: Work, mouse: bool) -> None:
    page.click(text_of("button", "Undo")) if mouse else page.press("u")
    page.wait(f'{STATUS} === "Undone." && {css("#place")}.textContent.startsWith("Sentence 1 ")')
    assert work.last()["do"] == "undo"


def decided(page: Page, work: Work, does: str, mouse: bool) -> None:
    button, key = STEPS[does]
    page.open(work.url + "#id=0")
    page.click(text_of("button", button)) if mouse else page.press(key)
    work.wait(page, does)
    page.wait(f'{css("#place")}.textContent.startsWith("Sentence 2 ")')
    page.wait(f'{css("#counts")}.textContent.includes("1 {does}")')
    undone(page, work, mouse)


# --- scenarios of the server ----------------------------------------------------------------------
def alone(page: Page, work: Work) -> None:
    steps(page, work, "open #id=0 | click 5 | press p | type NX | press Escape")
    page.click(css("#alone"))
    steps(page, work, "click 5 | press p | type NX | press Enter")
    assert work.wait(page, "act")["action"]["alone"] is True
    undone(page, work, mouse=True)


def stopped(page: Page, work: Work) -> None:
    """The server is stopped and started again; the page goes on where it was."""
    steps(page, work, "open #id=0 | click 1 | press t | type FW | press Enter")
    work.wait(page, "act")
    work.server.stop()
    steps(page, work, "press Enter | see shows('.error') && says.includes('does not answer')")
    work.server.process = annotate(work.folder, work.server.port).server.process
    assert work.call("get", id=0)["tags"][0] == "FW"
    steps(page, work, "press Enter | see place.startsWith('Sentence 2 ')")
    assert (work.last()["do"], work.last()["id"]) == ("accepted", 0)
    for _ in range(2):
        work.call("undo", id=0)


def exported(page: Page, work: Work) -> None:
    steps(
        page, work, "open #id=1 | press Enter | click Export | see says.startsWith('1 sentence ')"
    )
    assert (work.folder / "out" / "annotator" / "export" / "accepted.spacy").is_file()
    steps(page, work, "press u | see says === 'Undone.' && place.startsWith('Sentence 2 ')")


def agreeing(page: Page, work: Work) -> None:
    (other := work.folder / "out" / "other").mkdir()
    shutil.copy(work.folder / "out" / "annotator" / "journal.jsonl", other)
    steps(page, work, "open #id=0 | see text('#agreement').includes('annotator, other')")


def learns(page: Page, work: Work) -> None:
    for id in range(5, 5 + len(SHORT)):
        work.call("accept", id=id)
    steps(page, work, "open #id=0 | click Learn now | see text('#learning').startsWith('Learning')")
    steps(page, work, "click 1 | press t | type NN | press Enter | see says.startsWith('Done')")
    page.wait(f'{css("#learning")}.textContent.startsWith("Scores")', seconds=LEARNING)
    page.wait(f"/new model is (not )?better/.test({css('#learning')}.textContent)")


def all_done(page: Page, work: Work) -> None:
    while found := work.call("next"):
        work.call("skip", id=found["id"])
    steps(page, work, "open | see shows('#end:not([hidden])') | named")


SCENARIOS: dict[str, dict[str, Scenario]] = {
    "serve": scripted(PARSE),
    "annotate": {
        **{
            f"{name} {way}": partial(acts, action=action, mouse=mouse)
            for name, action in ACTIONS.items()
            for way, mouse in WAYS.items()
        },
        **{
            f"{does} {way}": partial(decided, does=does, mouse=mouse)
            for does in STEPS
            for way, mouse in WAYS.items()
        },
        **scripted(ANNOTATE),
        **{"change nothing else": alone, "stopped and started": stopped, "export": exported},
        **{"agreement": agreeing, "learn": learns, "nothing is open": all_done},
    },
}


def browser(args: Any) -> Figures:
    chromium, failed = program(), 0
    if chromium is None:
        print("skipped: no Chromium is installed")
        return {}
    for begin in (serve, annotate):
        with TemporaryDirectory() as name, Browser(chromium) as opened:
            (folder := Path(name) / "served").mkdir()
            work, page = begin(folder), Page(opened)
            try:
                for what, scenario in list(SCENARIOS[begin.__name__].items())[: args.limit]:
                    if problem := tried(scenario, page, work):
                        print(f"{what}: {problem}", flush=True)
                        failed += 1
            finally:
                work.server.process.kill()
                work.server.process.wait()
    return {"browser.scenarios": sum(map(len, SCENARIOS.values())), "browser.failed": failed}


def tried(scenario: Scenario, page: Page, work: Work) -> str:
    """Return what is wrong in a scenario, or nothing."""
    try:
        scenario(page, work)
        assert not (wrong := page.run(WRONG)), wrong
    except (AssertionError, OSError) as error:
        return f"{error or type(error).__name__} [{page.run(STATUS)}]"
    return ""
