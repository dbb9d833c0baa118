"""A page in Chromium, worked on with a mouse, a finger and keys.

Elements are given as scripts that find them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from training.benchmarks.usability.browser import Browser

PATIENCE = 20.0  # seconds until an assertion fails
WATCH = """window.__wrong = [];
addEventListener("error", (event) => __wrong.push(event.message));
addEventListener("unhandledrejection", (event) => __wrong.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) => __wrong.push(event.violatedDirective));
console.error = (...all) => __wrong.push(all.join(" "));
Object.defineProperty(navigator, "clipboard",
  {value: {writeText: async (text) => { window.__copied = text; }}});"""
WRONG = """[...__wrong, ...performance.getEntriesByType("resource").map((own) => own.name)
  .filter((own) => !own.startsWith(location.origin))]"""
PLACE = """((own) => { own.scrollIntoView({block: "center", inline: "center"});
const box = own.getBoundingClientRect();
return [box.x + box.width / 2, box.y + box.height / 2]; })"""
KEYS = {"Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38}
KEYS |= {"ArrowRight": 39, "ArrowDown": 40, "Delete": 46, "Tab": 9}
CONTROLS = ("button", "textbox", "combobox", "checkbox", "listbox", "option", "tree", "treeitem")
SHORTHAND = """((text, count, shows, left) => {
const [says, place, chosen] = [text("#status"), text("#place"), count(".word.in")];
const at = document.activeElement.getAttribute("aria-label") ?? "";
const wide = document.scrollingElement.scrollWidth;
const back = getComputedStyle(document.body).backgroundColor;
const focused = document.activeElement.getBoundingClientRect().right;
return %s; })((own) => document.querySelector(own)?.textContent ?? "",
(own) => document.querySelectorAll(own).length, (own) => !!document.querySelector(own),
(own) => document.querySelector(own).getBoundingClientRect().x)"""
IS_IDLE = '!document.querySelector("[aria-busy]")'
IS_LOADED = 'document.readyState === "complete"'
# Chromium drops clicks and keys before it has painted a page.
IS_READY = """document.querySelector(".item, #text, #end:not([hidden])")
    && performance.getEntriesByType("paint").length"""


def css(selector: str) -> str:
    return f"document.querySelector({json.dumps(selector)})"


def text_of(selector: str, text: str) -> str:
    """Return the script that finds the first visible element whose text begins with this one."""
    found = f"[...document.querySelectorAll({json.dumps(selector)})]"
    return (
        f"{found}.find((own) => own.offsetParent && own.textContent.startsWith({json.dumps(text)}))"
    )


def word(number: int) -> str:
    return css(f'.word[aria-label$=", word {number + 1}"]')


class Page:
    """A page in the browser. Elements are given as scripts that find them."""

    def __init__(self, browser: Browser):
        self.browser, self.run = browser, browser.run
        browser.call("Emulation.setFocusEmulationEnabled", enabled=True)
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=WATCH)

    def open(self, address: str, width: int = 1280, scheme: str = "light") -> None:
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.call("Emulation.setDeviceMetricsOverride", **size)
        self.browser.call("Emulation.setTouchEmulationEnabled", enabled=width < 600)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.call("Emulation.setEmulatedMedia", features=features)
        for url in ("about:blank", address):
            self.browser.call("Page.navigate", url=url)
            self.wait(
                f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'"
            )
        self.wait(IS_READY)

    def wait(
        self, script: str | Callable[[], Any], what: str = "", seconds: float = PATIENCE
    ) -> Any:
        """Return the value of a script or function as soon as it is true."""
        end = time.monotonic() + seconds
        while not (found := self.run(f"!!({script})") if isinstance(script, str) else script()):
            assert time.monotonic() < end, what or script
            time.sleep(0.03)
        return found

    def click(self, element: str, shift: bool = False, drag: str = "", count: int = 1) -> None:
        self.wait(element)
        x, y = self.run(PLACE + f"({element})")
        mouse = partial(self.browser.call, "Input.dispatchMouseEvent", button="left")
        shared = {"modifiers": 8 * shift, "buttons": 1}
        for number in range(1, count):
            mouse(type="mousePressed", x=x, y=y, clickCount=number, **shared)
            mouse(type="mouseReleased", x=x, y=y, clickCount=number)
        shared["clickCount"] = count
        mouse(type="mousePressed", x=x, y=y, **shared)
        if drag:
            box = f"({drag}).getBoundingClientRect()"
            x, y = self.run(f"[{box}.x + {box}.width / 2, {box}.y + {box}.height / 2]")
            mouse(type="mouseMoved", x=x, y=y, **shared)
        mouse(type="mouseReleased", x=x, y=y, modifiers=8 * shift, clickCount=count)

    def tap(self, element: str) -> None:
        x, y = self.run(PLACE + f"({element})")
        touch = partial(self.browser.call, "Input.dispatchTouchEvent")
        touch(type="touchStart", touchPoints=[{"x": x, "y": y}])
        touch(type="touchEnd", touchPoints=[])

    def press(self, *keys: str) -> None:
        for key in keys:
            *modifiers, name = key.split("+")
            number = KEYS.get(name, ord(name[0].upper()))
            text = "\r" if name == "Enter" else "" if name in KEYS or modifiers else name
            event = {"key": name, "windowsVirtualKeyCode": number, "text": text}
            event |= {"modifiers": 8 * ("Shift" in modifiers) + 2 * ("Control" in modifiers)}
            self.browser.call("Input.dispatchKeyEvent", type="keyDown", **event)
            self.browser.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text: str) -> None:
        self.wait('document.activeElement.matches("input, textarea")')
        self.browser.call("Input.insertText", text=text)

    def unnamed(self) -> list[str]:
        """Return the roles of controls that a screen reader has no name for."""
        nodes = self.browser.call("Accessibility.getFullAXTree")["nodes"]
        of = [own for own in nodes if not own["ignored"] and own["role"]["value"] in CONTROLS]
        assert of
        return [own["role"]["value"] for own in of if not own.get("name", {}).get("value")]

    def take(self, steps: str, url: str, typed: Mapping[str, str]) -> None:
        """Take steps, with " | " between them.

        open: an address of the page; phone: in the dark, at the width of a phone. press: keys.
        type: a text, or one of `typed` by its name. click, tap: a button by its text, a word by its
        number, or an element by #id; double, drag: words. go: in the history. see: a script with
        the names of SHORTHAND becomes true. named: all controls have names.
        """
        for step in steps.split(" | "):
            does, _, rest = step.strip().partition(" ")
            if does in ("open", "phone"):
                self.open(url + rest, *((390, "dark") if does == "phone" else ()))
            elif does == "press":
                for key in rest.split():
                    self.wait(IS_IDLE)
                    self.press(key)
                self.wait(IS_IDLE)
            elif does == "type":
                self.type(typed.get(rest, rest))
            elif does in ("click", "tap"):
                named = css(rest) if rest.startswith("#") else text_of("button", rest)
                getattr(self, does)(word(int(rest) - 1) if rest.isdecimal() else named)
            elif does == "drag":
                first, last = map(int, rest.split())
                self.click(word(first - 1), drag=word(last - 1))
            elif does == "double":
                self.click(word(int(rest) - 1), count=2)
            elif does == "go":
                self.run(f"history.go({rest})")
            elif does == "see":
                self.wait(SHORTHAND % rest, step)
            else:
                assert does == "named", step
                assert self.unnamed() == []
