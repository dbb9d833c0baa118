"""What a treebank shows too rarely about the ends of sentences: abbreviations, and marks inside.

`abbreviations` are those of Kiss & Strunk (2006): words that have a full stop more often than
chance (the likelihood ratio of equation 6), weighted by their length, their inner periods and
their occurrences without a full stop (equations 7 to 9). Counts are scaled to a text with `OFTEN`
full stops behind the word, because typing errors add up in long texts. Words such as "No" are found
by their collocation with numbers: after most of their full stops there is one.

`with_marks` changes sentences of a treebank: a name gets an exclamation or question mark, a number
an abbreviation before it, a sentence an ellipsis, quotation marks, or an abbreviation at its end.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from math import exp, log
from pathlib import Path
from random import Random

import srsly
from spacy.tokens import Doc, Span
from spacy.tokens import Token as Word

from training.common.ewt import build_docs, read_docs
from training.common.jackknife import write_docs

WORD = re.compile(r"(?<![\w.&])([^\W\d_](?:\.?[^\W\d_])*)(\.?)(?= ?(\S?))")
MOST_LETTERS, SMALLEST, OFTEN = 8, 0.3, 20  # threshold of Kiss & Strunk, and occurrences
# Of each change. With 150, F1 of sentences on dev fell by .3. With unchanged short texts, too, it
# rose by .6 in separate paragraphs and fell by .6 in whole texts.
TEXTS = 40
NUMBERED = 0.5  # share of numbers after a full stop
NAME, COMMON, VERB = ("NNP", "NNPS"), ("NN", "NNS", "UH", "VB"), ("VBD", "VBZ", "CC", "IN", "MD")
ENDINGS = ("a.m.", "p.m.", "Inc.", "Corp.", "Co.", "Jr.", "etc.", "U.S.", "U.K.", "D.C.", "e.g.")
TITLES = ("Mr.", "Mrs.", "Dr.", "Prof.", "Gen.", "Rev.", "Sen.", "St.", "J.", "W.")

Token = tuple[str, bool, bool]  # the word, whether a space follows, whether a sentence begins


def abbreviations(texts: Iterable[str]) -> list[str]:
    """Learn abbreviations from text, in the form of the setting of the splitter."""
    plain, stopped, before_number = Counter[str](), Counter[str](), Counter[str]()
    for text in texts:
        for word, stop, following in WORD.findall(text):
            word = word.lower()
            (stopped if stop else plain)[word] += 1
            before_number[word] += bool(stop) and following.isdigit()
    share = stopped.total() / (plain.total() + stopped.total())
    found = []
    for word, stops in stopped.items():
        length = len(word.replace(".", ""))
        if stops < OFTEN or length > MOST_LETTERS:
            continue
        without = plain[word] * OFTEN / stops
        ratio = 2 * (OFTEN * log(0.99 / share) + without * log(0.01 / (1 - share)))
        weight = exp(-length) * (1 + word.count(".")) * length**-without
        if before_number[word] > NUMBERED * stops:
            found.append(f"{word}. #")
        elif ratio * weight >= SMALLEST:
            found.append(f"{word}.")
    return sorted(found)


def raw_texts(folder: Path) -> Iterator[str]:
    """Yield the texts of the corpus raw_text."""
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf8") as lines:
            yield from (json.loads(line)["text"] for line in lines)


def learn_abbreviations(corpora: Path, work: Path) -> list[str]:
    """Learn abbreviations from the raw text; they are kept in a file."""
    target = work / "abbreviations.json"
    if not target.exists():
        srsly.write_json(target, abbreviations(raw_texts(corpora / "raw_text")))
    return srsly.read_json(target)


def learn_ends(corpora: Path, work: Path, split: str) -> Path:
    """Write the documents of a split of train, and short texts `with_marks` behind them."""
    target = work / "ewt" / f"{split}.marks.spacy"
    if not target.exists():
        docs = read_docs(build_docs(corpora, work)[split])
        listed = learn_abbreviations(corpora, work)
        write_docs([*docs, *with_marks(docs, listed, TEXTS)], target)
    return target


def with_marks(docs: Iterable[Doc], listed: Iterable[str], number: int, seed: int = 0) -> list[Doc]:
    """Make short texts of one to three sentences with one of the changes in each.

    docs: with tags and sentences. listed: the abbreviations. number: of texts of each change.
    """
    random = Random(seed)
    numbered = [form[:-3] for form in listed if form.endswith(" #")]
    runs = [
        (doc, sents[first : first + random.randint(1, 3)])
        for doc in docs
        for sents in [list(doc.sents)]
        for first in range(len(sents))
    ]
    random.shuffle(runs)
    made: list[Doc] = []
    for change in CHANGES:
        count = 0
        for doc, sents in runs:
            pieces = change(sents, random, numbered)
            if pieces:
                words, spaces, starts = map(list, zip(*pieces, strict=True))
                made.append(Doc(doc.vocab, words=words, spaces=spaces, sent_starts=starts))
                count += 1
            if count == number:
                break
        random.shuffle(runs)
    return made


# --- changes: of some sentences, to the words of a text, or None ----------------------------------
def _words(sents: list[Span]) -> list[Token]:
    return [(t.text, bool(t.whitespace_), t.i == s.start) for s in sents for t in s]


def _inserted(sents: list[Span], place: int, *words: str, glued: bool = False) -> list[Token]:
    """Insert words before a token. glued: without a space before them."""
    tokens = _words(sents)
    new = [(word, True, False) for word in words]
    if glued and place:
        word, _, begins = tokens[place - 1]
        tokens[place - 1] = (word, False, begins)
    return [*tokens[:place], *new, *tokens[place:]]


def _place(sents: list[Span], random: Random, fits: Callable[[Word, Word], bool]) -> int | None:
    """Choose a gap inside a sentence, between two words with a space; None if there is none."""
    sent = random.choice(sents)
    if any(t.is_space for s in sents for t in s) or not sent[0].is_title or len(sent) < 4:
        return None
    gaps = [t.i for t in sent[2:-1] if t.nbor(-1).whitespace_ and fits(t.nbor(-1), t)]
    return random.choice(gaps) - sents[0].start if gaps else None


def _in_name(sents: list[Span], random: Random, numbered: list[str]) -> list[Token] | None:
    upper = random.random() < 0.2

    def fits(a: Word, b: Word) -> bool:
        return a.tag_ in NAME and a.is_title and (b.tag_ in NAME if upper else b.is_lower)

    place = _place(sents, random, fits)
    return None if place is None else _inserted(sents, place, random.choice("!!?"), glued=True)


def _in_clause(sents: list[Span], random: Random, numbered: list[str]) -> list[Token] | None:
    place = _place(sents, random, lambda a, b: a.tag_ in COMMON and b.tag_ in VERB and b.is_lower)
    return None if place is None else _inserted(sents, place, random.choice("!?"), glued=True)


def _before_number(sents: list[Span], random: Random, numbered: list[str]) -> list[Token] | None:
    place = _place(
        sents, random, lambda a, b: b.tag_ == "CD" and b.text[0].isdigit() and a.is_alpha
    )
    if place is None or not numbered:
        return None
    word = random.choice(["no", random.choice(numbered)])
    word = random.choice([word, word.title()])
    tokens = _words(sents)
    return [*tokens[:place], (word, False, False), (".", True, False), *tokens[place:]]


def _before_name(sents: list[Span], random: Random, numbered: list[str]) -> list[Token] | None:
    place = _place(sents, random, lambda a, b: a.is_lower and b.tag_ in NAME and b.is_title)
    return None if place is None else _inserted(sents, place, random.choice(TITLES + ENDINGS))


def _lower(sents: list[Span], random: Random, numbered: list[str]) -> list[Token] | None:
    if len(sents) < 2 or any(sent[-1].text not in ".?!" or sent[0].is_space for sent in sents):
        return None
    return [(word.lower(), space, begins) for word, space, begins in _words(sents)]


def _ellipsis(sents: list[Span], random: Random, numbered: list[str]) -> list[Token] | None:
    place = _place(sents, random, lambda a, b: a.is_alpha and (b.is_lower or b.text == "I"))
    if place is None:
        return None
    if random.random() < 0.6:
        tokens = _inserted(sents, place, ".", ".", ".")
    else:
        tokens = _inserted(sents, place, random.choice(("...", "…")), glued=random.random() < 0.5)
    return _marked(tokens, random) if random.random() < 0.6 else tokens


def _quoted(sents: list[Span], random: Random, numbered: list[str]) -> list[Token] | None:
    place = _place(sents[:1], random, lambda a, b: a.is_alpha and b.is_lower)
    if place is None:
        return None
    again = random.random() < 0.3  # We . . . we know it
    words = [".", ".", ".", sents[0][0].text] if again else [".", ".", "."]
    return _marked(_inserted(sents[:1], 1 if again else place, *words), random)


def _at_end(sents: list[Span], random: Random, numbered: list[str]) -> list[Token] | None:
    if len(sents) < 2 or any(t.is_space for s in sents for t in s):
        return None
    first, second = sents[:2]
    last = first[-1].i - sents[0].start
    if first[-1].text != "." or not first[-2].is_alpha or not second[0].is_title or last < 3:
        return None
    if second[0].tag_ in (*NAME, "NN", "NNS", "JJ") and random.random() < 0.7:
        return None
    word = random.choice(ENDINGS)
    time = word.endswith("m.")
    tokens = _words(sents)
    head, tail = tokens[:last], tokens[last + 1 :]
    head[-1] = (head[-1][0], True, head[-1][2])
    middle = [("at", True, False), (str(random.randint(1, 12)), True, False)] if time else []
    return [*head, *middle, (word, True, False), *tail]


def _marked(tokens: list[Token], random: Random) -> list[Token]:
    """Put quotation marks around a text, with a verb of saying behind them in half of the cases."""
    opening, closing = random.choice((('"', '"'), ("“", "”")))
    (word, _, _), begins = tokens[-1], len(tokens) == 1
    said = random.random() < 0.5
    if said and word in ".!?":
        word = "," if word == "." else word
    quoted = [(opening, False, True), (tokens[0][0], tokens[0][1], False), *tokens[1:-1]]
    quoted += [(word, False, begins), (closing, True, False)]
    if said:
        clause = random.choice(("he said", "said the boy", "she told us", "they wrote")).split()
        quoted += [(w, w != clause[-1], False) for w in clause] + [(".", False, False)]
    return quoted


CHANGES = (
    *(_in_name, _in_name, _in_clause, _before_number, _before_number, _before_name),
    *(_ellipsis, _quoted, _at_end, _lower),
)
