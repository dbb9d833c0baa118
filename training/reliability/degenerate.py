"""Time, memory and size of the page of texts that are not language.

    python -m training.reliability.degenerate

Each text has 100,000 tokens, or a little more, without the end of a sentence, such as commas or
capitals (TEXTS). A separate process parses it with the default pipeline, and makes JSON and a page
of it. Each of these three steps is compared with that of ordinary text, the texts of tests/everyday
repeated to as many tokens, by CPU seconds per token; of long tokens, by CPU seconds per character.
In training/results/reliability.json:

degenerate.seconds_per_word_ratio   time over that of ordinary text; maximum of all steps and texts
degenerate.peak_mb                  peak memory of a process; maximum of all texts
degenerate.page_over_text           bytes of the page over those of the text; maximum of all texts
degenerate.TEXT.seconds_per_word_ratio, peak_mb, page_over_text     of one text
degenerate.TEXT.tokens, longest     tokens of the text and of its longest sentence
degenerate.TEXT.microseconds.nlp, json, page    of each step, per token
degenerate.ordinary                 the same of ordinary text
degenerate.of_200_words.TEXT        the same of 4,000 tokens in sentences of 200 words, which are
                                    not cut. They do not count in the maxima.

MB are 1,048,576 bytes.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections.abc import Callable, Iterable
from functools import cache
from itertools import pairwise
from typing import Any

from training.common.everyday import read_everyday
from training.common.process import measured
from training.common.recording import ROOT, clean_commit, peak_mb, record, show

TOKENS = 100_000
LONG_TOKEN = 100_000  # characters
SHORT = "of_200_words."  # before the names of texts in sentences of 200 words
SHORT_TOKENS = 4_000
MODULE = "training.reliability.degenerate"
STEPS = ("nlp", "json", "page")
MAXIMA = ("seconds_per_word_ratio", "peak_mb", "page_over_text")
CLAUSE = (
    "and they saw the old man with the big dog in the park near the long river after the rain and "
    "the fog of the first day of the last month of the year "
)
FOREIGN = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor"


# --- texts ----------------------------------------------------------------------------------------
def repeated(tokens: str) -> Callable[[int], str]:
    """Return a function that makes a text of n tokens: these, again and again."""
    return lambda n: " ".join((tokens.split() * n)[:n])


def drawn(words: Callable[[], list[str]], form: Callable[[str], str] = str) -> Callable[[int], str]:
    """Return a function that makes a text of n random words."""
    return lambda n: " ".join(map(form, random.Random(0).choices(words(), k=n)))


@cache
def everyday() -> str:
    """Return ordinary texts as one."""
    return "\n\n".join(text for _, text, _ in read_everyday(ROOT / "tests" / "everyday"))


def everyday_words() -> list[str]:
    """Return their words in lower case."""
    return re.findall(r"\b[a-z]+\b", everyday())


def ordinary(n: int) -> str:
    """Return ordinary texts of about n tokens, which have four characters on average."""
    return "\n\n".join([everyday()] * max(1, round(4 * n / len(everyday()))))


def long_tokens(n: int) -> str:
    """Return as many characters as n ordinary tokens have, in very long tokens."""
    return " ".join(["a" * LONG_TOKEN] * max(1, 4 * n // LONG_TOKEN))


def in_sentences(text: str, n: int) -> str:
    """Return a text in sentences of n tokens, each of which a blank line ends."""
    tokens = text.split(" ")
    return "\n\n".join(" ".join(tokens[i : i + n]) for i in range(0, len(tokens), n))


TEXTS: dict[str, Callable[[int], str]] = {
    "commas": repeated(","),
    "dots": repeated("."),
    "brackets": repeated("( )"),
    "digits": repeated("7"),
    "letters": drawn(lambda: list("abcdefghijklmnopqrstuvwxyz")),
    "emoji": repeated("\N{GRINNING FACE}"),
    "that": repeated("that"),
    "words": drawn(everyday_words),
    "capitals": drawn(everyday_words, str.upper),
    "foreign": drawn(FOREIGN.split),
    "verbs": repeated("ran"),
    "predicates": repeated(CLAUSE),
    "long_tokens": long_tokens,
}
OF_SHORT = ("dots", "that", "words", "capitals")


def text_of(name: str, n: int) -> str:
    """Return the text with this name, of n tokens."""
    if name.startswith(SHORT):
        return in_sentences(TEXTS[name.removeprefix(SHORT)](n), 200)
    return ordinary(n) if name == "ordinary" else TEXTS[name](n)


# --- measurement ----------------------------------------------------------------------------------
def measure(name: str, n: int) -> dict[str, Any]:
    """Process a text of n tokens in this process, which does nothing else.

    Returns the CPU seconds of each step, the sizes of text and page, and the peak memory.
    """
    import srsly

    import spacy_structlearn
    from spacy_structlearn.display.page import page

    nlp, text = spacy_structlearn.load(), text_of(name, n)
    nlp("This sentence fills the caches.")
    times = [time.process_time()]
    doc = nlp(text)
    times.append(time.process_time())
    srsly.json_dumps(spacy_structlearn.as_dict(doc))
    times.append(time.process_time())
    made = page(doc)
    times.append(time.process_time())
    return {
        "seconds": [end - begin for begin, end in pairwise(times)],
        "characters": len(text),
        "tokens": len(doc),
        "longest": max(map(len, doc.sents)),
        "peak_mb": peak_mb(),
        "page_over_text": len(made.encode()) / len(text.encode()),
    }


def figures(found: dict[str, Any], usual: dict[str, Any], of: str = "tokens") -> dict[str, Any]:
    """Return the figures of a text. found, usual: of this and of ordinary text, see `measure`.

    of: what times are compared by, "tokens" or "characters".
    """
    ratios = [
        own / found[of] / (other / usual[of])
        for own, other in zip(found["seconds"], usual["seconds"], strict=True)
    ]
    sizes = {name: found[name] for name in ("tokens", "longest", "peak_mb", "page_over_text")}
    times = {
        f"microseconds.{step}": 1e6 * seconds / found["tokens"]
        for step, seconds in zip(STEPS, found["seconds"], strict=True)
    }
    return {"seconds_per_word_ratio": max(ratios), **sizes, **times}


def all_figures(n: int, names: Iterable[str]) -> dict[str, Any]:
    """Measure texts of n tokens, each in its own process. Return and print their figures."""
    usual = measured(MODULE, "--child", "ordinary", "--tokens", n)
    result = {f"ordinary.{key}": value for key, value in figures(usual, usual).items()}
    show(result)
    for name in names:
        tokens = SHORT_TOKENS if name.startswith(SHORT) else n
        found = measured(MODULE, "--child", name, "--tokens", tokens)
        of = "characters" if name == "long_tokens" else "tokens"
        own = {f"{name}.{key}": value for key, value in figures(found, usual, of).items()}
        show(own)
        result |= own
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=TOKENS, help="of each text")
    parser.add_argument("--only", nargs="+", metavar="TEXT", help="measure these, record nothing")
    parser.add_argument("--child", metavar="TEXT", help="measure this text in this process")
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measure(args.child, args.tokens)))
    elif args.only:
        all_figures(args.tokens, args.only)
    else:
        clean_commit()
        found = all_figures(args.tokens, [*TEXTS, *(f"{SHORT}{name}" for name in OF_SHORT)])
        found |= {key: max(found[f"{name}.{key}"] for name in TEXTS) for key in MAXIMA}
        record("reliability", {f"degenerate.{key}": value for key, value in found.items()})


if __name__ == "__main__":
    main()
