"""Who did what: cases of known kinds, mails, and how often simple sentences go wrong.

    python corpora/fetch.py ewt
    python -m training.benchmarks.who_did_what --models md=FOLDER --cases CASES.JSONL

In training/results/who_did_what.json, for each pipeline (sm, and those of --models):

cases.NAME.right        cases of --cases of which all checks hold, by the check.py next to it;
                        cases.NAME.kinds.KIND.right: by kind, the part of the id before
                        "-", or single
mails.NAME.rows         precision, recall and F1 of the rows of tests/everyday/mails, in percent: a
                        row is right if the verb, the subjects and the objects are; mails.rows: of
                        sm
mails.NAME.cells        the same of the cells: who, what, whom, when and where of a verb
propositions.NAME.ewt   precision, recall and F1 of the heads of subjects and objects of verbs on
                        EWT's dev with gold tokens, against the propositions of gold trees and
                        frames; propositions.ewt: of sm
attachments.NAME        `n` attachments in the texts of tests/everyday, and those `contradicting`
                        the tree; attachments.contradicting: of sm
svo.NAME.wrong          share of `n` generated sentences of subject, verb and object of which the
                        proposition has another one, in percent; svo.wrong: of sm

A word of the mails' table is right if it is the head of the part, or in it if the part is a clause.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc

import spacy_structlearn
from spacy_structlearn.pipeline.extensions.propositions import (
    COLUMNS,
    Part,
    Proposition,
    propositions,
)
from training.benchmarks.encoder import folders_of
from training.common.command import Figures, options, run_parts
from training.common.everyday import read_everyday
from training.common.ewt import read_documents
from training.common.jackknife import untagged
from training.common.recording import ROOT
from training.common.scoring import under

NAME = "who_did_what"
EVERYDAY = ROOT / "tests" / "everyday"
MAILS = EVERYDAY / "mails" / "mails.txt"
CELLS = ("who", "what", "whom", "when", "where")


# --- cases ----------------------------------------------------------------------------------------
def cases(name: str, folder: Path, path: Path) -> Figures:
    """Return the number of cases that a pipeline has right, by kind."""
    with NamedTemporaryFile(suffix=".json") as results:
        command = [sys.executable, path.with_name("check.py"), path, "--json", results.name]
        subprocess.run([*command, "--pipeline", folder], check=True, capture_output=True)
        found = json.loads(Path(results.name).read_text(encoding="utf8"))
    figures: Counter[str] = Counter()
    for case in found:
        own, _, number = case["id"].partition("-")
        kind = f"kinds.{own if number else 'single'}"
        figures.update({"n": 1, "right": case["right"]})
        figures.update({f"{kind}.n": 1, f"{kind}.right": case["right"]})
    return under(f"cases.{name}", dict(figures))


# --- mails ----------------------------------------------------------------------------------------
class Row(NamedTuple):
    """A verb, and the heads in each of the CELLS, in lower case."""

    did: str
    cells: Mapping[str, frozenset[str]]


class Mail(NamedTuple):
    """A mail and the rows of its table."""

    text: str
    rows: list[Row]


def read_mails(path: Path = MAILS) -> list[Mail]:
    """Return the annotated mails; see the README next to them for the format."""
    mails = []
    for record in path.read_text(encoding="utf8").split("====\n"):
        text, _, table = record.partition("----\n")
        rows = []
        for line in table.splitlines():
            did, *cells = (cell.strip() for cell in line.split("|"))
            words = (frozenset(w.strip().lower() for w in c.split(";") if w.strip()) for c in cells)
            rows.append(Row(did, dict(zip(CELLS, words, strict=True))))
        mails.append(Mail(text.strip(), rows))
    return mails


def n_right(proposition: Proposition, row: Row, cell: str) -> int:
    """Return the number of words of a cell that are found."""
    words = set(row.cells[cell])
    for part in parts_of(proposition, cell):
        if part.head.text.lower() in words:
            words.remove(part.head.text.lower())
        elif part in proposition.complements or part.head.tag_.startswith("VB"):
            words -= {token.text.lower() for token in part.span}
    return len(row.cells[cell]) - len(words)


def parts_of(proposition: Proposition, cell: str) -> list[Part]:
    """Return the parts in a cell."""
    return [part for name in COLUMNS[cell] for part in getattr(proposition, name)]


def paired(found: Iterable[Proposition], rows: Iterable[Row]) -> Iterator[tuple[Any, Any]]:
    """Iterate over pairs of a proposition and a row with the same verb, and over the rest with
    None. Of several with the same verb, those with the most words in common are paired.
    """
    waiting = list(found)
    for row in rows:
        same = [proposition for proposition in waiting if proposition.did == row.did]
        best = max(
            same,
            key=lambda p: sum(n_right(p, row, cell) for cell in CELLS),
            default=None,  # called at once
        )
        if best is not None:
            waiting.remove(best)
        yield best, row
    yield from ((proposition, None) for proposition in waiting)


def is_right(proposition: Proposition | None, row: Row | None) -> bool:
    """Whether the verb, the subjects and the objects are right."""
    if proposition is None or row is None:
        return False
    return all(
        n_right(proposition, row, cell) == len(row.cells[cell]) == len(parts_of(proposition, cell))
        for cell in ("who", "what")
    )


def mails(name: str, nlp: Language, *, show: bool = False) -> Figures:
    """Return how many rows and cells of the mails are right."""
    rows, cells = Counter[str](), Counter[str]()
    gold = read_mails()
    for mail, doc in zip(gold, nlp.pipe(mail.text for mail in gold), strict=True):
        for proposition, row in paired(propositions(doc), mail.rows):
            right = is_right(proposition, row)
            rows.update(found=proposition is not None, gold=row is not None, right=right)
            if show and not right:
                print(row, proposition and proposition.as_row(), sep="\n    ")
            for cell in CELLS:
                cells["gold"] += 0 if row is None else len(row.cells[cell])
                if proposition is not None:
                    cells["found"] += len(parts_of(proposition, cell))
                    cells["right"] += 0 if row is None else n_right(proposition, row, cell)
    figures = under("rows", scores(rows)) | under("cells", scores(cells))
    return under(f"mails.{name}", figures) | (under("mails", figures) if name == "sm" else {})


def scores(counts: Mapping[str, int]) -> dict[str, float]:
    """Return precision, recall and F1 in percent of the numbers found, gold and right."""
    right, found, gold = (counts[key] for key in ("right", "found", "gold"))
    return {
        "precision": 100 * right / max(found, 1),
        "recall": 100 * right / max(gold, 1),
        "f": 200 * right / max(found + gold, 1),
        "n": gold,
    }


# --- the treebank ---------------------------------------------------------------------------------
def treebank(name: str, nlp: Language, args: Any) -> Figures:
    """Return the scores of the heads of subjects and objects on EWT's dev."""
    gold = [doc for _, doc in read_documents(args.corpora, "dev")][: args.limit]
    gold = [Doc(nlp.vocab).from_bytes(doc.to_bytes()) for doc in gold]
    with nlp.select_pipes(disable=["sentence_splitter"]):
        docs = list(nlp.pipe(untagged(nlp, doc) for doc in gold))
    counts = Counter[str]()
    for own, doc in zip(gold, docs, strict=True):
        wanted, found = triples(own), triples(doc)
        counts.update(gold=len(wanted), found=len(found), right=len(wanted & found))
    figures = under("ewt", scores(counts))
    return under(f"propositions.{name}", figures) | (
        under("propositions", figures) if name == "sm" else {}
    )


def triples(doc: Doc) -> set[tuple[int, str, int]]:
    """Return the verb, the field, and the head of each subject and object."""
    return {
        (proposition.predicate.start, name, part.head.i)
        for proposition in propositions(doc)
        for name in ("subjects", "objects")
        for part in getattr(proposition, name)
    }


# --- attachments and simple sentences -------------------------------------------------------------
def attachments(name: str, nlp: Language) -> Figures:
    """Count attachments of everyday texts that contradict the tree."""
    attacher: Any = nlp.get_pipe("pp_attacher")
    n = contradicting = 0
    for doc in nlp.pipe(text for _, text, _ in read_everyday(EVERYDAY)):
        (chains,) = attacher.found([doc])
        of_tree = {site.preposition: site for chain in chains for site in chain}
        for own in doc._.pp_attachments:
            site = of_tree[own.prep.i]
            head = site.verb if site.label == "V" else site.noun
            n, contradicting = n + 1, contradicting + (own.head.i != head)
    figures = {"n": n, "contradicting": contradicting}
    return under(f"attachments.{name}", figures) | (
        under("attachments", figures) if name == "sm" else {}
    )


SUBJECTS = ("My sister", "The old man", "Anna", "Our neighbours", "She")
# A verb, its past tense, and three objects.
VERBS = """
make made: a cake, the beds, a chair | take took: the bus, an apple, a towel
have had: a garden, two dogs, a cold | give gave: a speech, a concert, some money
get got: a letter, the job, new shoes | do did: the dishes, her homework, nothing
buy bought: a car, bread, the house | sell sold: the boat, tickets, old books
see saw: a film, the bridge, a ghost | hear heard: the bell, a song, him
find found: a coin, the keys, a flat | lose lost: the match, his wallet, weight
write wrote: a poem, the report, long letters | read read: the paper, a novel, my mail
eat ate: an egg, the soup, fish | drink drank: milk, the tea, a beer
cook cooked: dinner, rice, a stew | bake baked: bread, a pie, cookies
clean cleaned: the kitchen, a window, her boots | wash washed: the car, his hands, some plates
paint painted: the door, a portrait, the fence | build built: a wall, houses, the shed
repair repaired: the roof, a radio, bikes | break broke: the cup, a promise, his leg
open opened: the box, a shop, the gate | close closed: the curtains, a deal, the book
lock locked: the safe, the doors, a drawer | push pushed: the cart, a button, them
pull pulled: the rope, a tooth, the lever | carry carried: a bag, the baby, water
throw threw: a ball, the stick, stones | catch caught: the train, a thief, a fish
kick kicked: the ball, a bucket, the wall | hit hit: the target, a tree, him
help helped: the child, a stranger, us | teach taught: maths, the class, French
meet met: the mayor, an actor, them | visit visited: the museum, her aunt, Rome
call called: a taxi, the doctor, me | invite invited: the guests, a singer, us
love loved: music, the sea, him | hate hated: spinach, the noise, Mondays
want wanted: a dog, the truth, peace | need needed: help, a ladder, more time
know knew: the answer, a trick, her | forget forgot: the umbrella, my name, the milk
remember remembered: the song, a face, it | learn learned: Spanish, a poem, the rules
play played: chess, the piano, a game | watch watched: the news, a match, birds
"""


def sentences() -> Iterator[tuple[str, str, str, str]]:
    """Iterate over simple sentences with their lemma, and the heads of subject and object."""
    for entry in VERBS.replace("\n", "|").strip("|").split("|"):
        verb, _, objects = entry.strip().partition(": ")
        lemma, past = verb.split()
        for subject, thing in product(SUBJECTS, objects.split(", ")):
            yield f"{subject} {past} {thing}.", lemma, subject.split()[-1], thing.split()[-1]


def svo(name: str, nlp: Language, *, show: bool = False) -> Figures:
    """Return the share of simple sentences with a wrong verb, subject or object."""
    gold = list(sentences())
    wrong = 0
    for (_, *wanted), doc in zip(gold, nlp.pipe(text for text, *_ in gold), strict=True):
        found = [
            [p.lemma, *(part.head.text for name in ("who", "what") for part in parts_of(p, name))]
            for p in propositions(doc)
        ]
        if found != [wanted]:
            wrong += 1
            if show:
                print(wanted, found)
    figures = {"n": len(gold), "wrong": 100 * wrong / len(gold)}
    return under(f"svo.{name}", figures) | (under("svo", figures) if name == "sm" else {})


def main() -> None:
    parser = options(__doc__, "corpora", "limit")
    parser.add_argument("--models", nargs="*", default=[], help="name=folder of pipelines")
    parser.add_argument("--cases", type=Path, help="a file of cases, next to check.py")
    parser.add_argument("--only", nargs="+", help="some parts; default: all")
    parser.add_argument("--show", action="store_true", help="print errors, and record nothing")
    args = parser.parse_args()
    parts: dict[str, Any] = {}
    for name, folder in folders_of(args.models).items():
        nlp = spacy_structlearn.load(folder)
        parts[f"{name}.mails"] = partial(mails, name, nlp, show=args.show)
        parts[f"{name}.svo"] = partial(svo, name, nlp, show=args.show)
        parts[f"{name}.attachments"] = partial(attachments, name, nlp)
        parts[f"{name}.propositions"] = partial(treebank, name, nlp, args)
        if args.cases:
            parts[f"{name}.cases"] = partial(cases, name, folder, args.cases)
    is_trial = args.show or args.limit is not None
    run_parts(NAME, parts, args.only, is_trial=is_trial, page=True)


if __name__ == "__main__":
    main()
