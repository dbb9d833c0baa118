"""A simulated annotator, who knows the gold trees and corrects by the actions of the workbench.

They compare each correction of a bracket, and the nearest of the K best trees, by what the page
shows of them before, and take the one after which least is wrong. When none helps, phrases are put
right one by one, and nothing else is changed. Tags are not corrected. All conditions begin with the
same gold tokens. craft, wsj: sentences of dev drawn at random, of at most LONGEST words.

actions_per_sentence.DOMAIN.ours     actions until the tree is the gold one
actions_per_sentence.DOMAIN.first    the same for one who does not compare, but takes the largest
                          bracket that is missing
actions_per_sentence.DOMAIN.k_best   one to choose another of the K best trees than the first, and
                          one for each bracket to add, remove or relabel in it by hand
actions_per_sentence.DOMAIN.parse    one for each such bracket of the best tree
actions_per_sentence.DOMAIN.hand     one for each bracket of the gold tree
actions_per_sentence.DOMAIN.to_k_best, .to_hand   ours by these
actions_per_sentence.DOMAIN.missed   sentences that were not the gold tree after MOST actions
reparse_ms.p95            milliseconds of process time of an action that parses again, frames
                          included, in sentences of about 40 words (CRAFT); median; sentences,
                          actions: how many
active.N.ORDER.f          F1 on CRAFT's dev after N sentences in this order, of POOL at random;
                          words: of these sentences; cpu_s: seconds of learning
active.N.ORDER.gain_over_random   in F1; without ORDER: of CHOSEN, the order of the workbench. All
                          are means of seeds, and have a standard error, as f_se
active.0.f                before
journal.kills             processes killed with SIGKILL while they wrote; journal.lost: records that
                          they had acknowledged and that are not there
roundtrip.differences     fields of sentences of the sample treebank that are others after export
                          and import, of all formats; roundtrip.sentences
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from statistics import mean, median, stdev
from tempfile import TemporaryDirectory
from time import process_time, sleep
from typing import Any

import numpy as np
import spacy
from spacy.language import Language

import spacy_structlearn
from spacy_structlearn.groups import SRL
from spacy_structlearn.pipeline.annotation import formats
from spacy_structlearn.pipeline.annotation.corrections import Action, Corrector, checked
from spacy_structlearn.pipeline.annotation.gold import Gold, golds_of
from spacy_structlearn.pipeline.annotation.journal import Journal, read
from spacy_structlearn.pipeline.annotation.order import Parsed, ordered
from spacy_structlearn.pipeline.readers import read_treebank
from spacy_structlearn.trees.tree import Tree
from training.benchmarks.adaptation import scored, trained, trees_of_domain
from training.common.command import Figures
from training.common.recording import ROOT

SAMPLE = ROOT / "corpora" / "sample"
DOMAINS = ("craft", "wsj")
LONGEST, K, MOST = 60, 10, 100
ABOUT_40 = range(38, 43)
POOL, SIZES, SEEDS = 1_000, (25, 50, 100, 200), (0, 1, 2)
CHOSEN = "errors"
ORDERS = ("random", CHOSEN, "entropy", "length")
KILLS = 200
Bracket = tuple[str, int, int]


# --- actions of an annotator ----------------------------------------------------------------------
def actions(args: Any) -> Iterator[Figures]:
    nlp = spacy_structlearn.load()
    n = args.sentences if args.limit is None else args.limit
    for domain in DOMAINS:
        dev = trees_of_domain(domain, "dev", args.corpora)
        trees = [tree for tree in dev if 1 < len(tree.words()) <= LONGEST]
        yield actions_on(nlp, domain, Random(0).sample(trees, min(n, len(trees))))


def actions_on(nlp: Language, domain: str, trees: Sequence[Tree]) -> Figures:
    corrector = Corrector(nlp, roles=False)
    rows, missed = [], 0
    for tree in trees:
        gold = brackets_of(tree)
        ours, first = (len(corrected(corrector, tree, compares=own)[0]) for own in (True, False))
        missed += ours == MOST
        bare = Gold(tree.words(), [True] * len(tree.words()))
        best = [own for _, own in corrector.alternatives(bare, (), (), K)]
        by_hand = [edits(brackets_of(own), gold) for own in best]
        chosen = min(number + (at > 0) for at, number in enumerate(by_hand))
        rows.append((ours, first, chosen, by_hand[0], gold.total()))
    names = ("ours", "first", "k_best", "parse", "hand")
    means = dict(zip(names, map(mean, zip(*rows, strict=True)), strict=True))
    place = f"actions_per_sentence.{domain}"
    return {f"{place}.{name}": value for name, value in means.items()} | {
        f"{place}.to_k_best": means["ours"] / means["k_best"],
        f"{place}.to_hand": means["ours"] / means["hand"],
        f"{place}.missed": missed,
        f"{place}.sentences": len(rows),
    }


def corrected(
    corrector: Corrector, tree: Tree, *, compares: bool
) -> tuple[list[Action], list[float]]:
    """Correct a sentence. Returns the actions, and the process time of each that was tried.

    compares: whether the annotator looks at what each action would change.
    """
    words = tree.words()
    bare, gold = Gold(words, [True] * len(words)), brackets_of(tree)
    done: list[Action] = []
    seconds: list[float] = []
    found, alone = corrector.corrected(bare), False
    while len(done) < MOST and (wrong := edits(Counter(found.gold.brackets), gold)):
        possible = corrections(Counter(found.gold.brackets), gold)
        if not compares or alone:
            possible = possible[:1]
        else:
            others = corrector.alternatives(bare, done, found.made, K)
            best = min((brackets_of(own) for _, own in others), key=lambda own: edits(own, gold))
            possible.append({"do": "choose", "brackets": [*best]})
        tried = []
        for action in possible:
            own = checked(action | ({"alone": True} if alone else {}), len(words))
            began = process_time()
            own = corrector.completed(bare, done, found.made, own)
            new = corrector.corrected(bare, [*done, own], found.made)
            seconds += [] if alone else [process_time() - began]
            tried.append((edits(Counter(new.gold.brackets), gold), own, new))
        left, own, new = min(tried, key=lambda own: own[0])
        helps = left < wrong
        if helps or alone or not compares:
            done.append(own)
            found = new
        alone |= not helps
    return done, seconds


def corrections(found: Counter[Bracket], gold: Counter[Bracket]) -> list[Action]:
    """Return the corrections of single brackets, first the largest one that is missing."""
    missing, wrong = [*(gold - found)], [*(found - gold)]
    actions: list[Action] = []
    for label, start, end in sorted(missing, key=lambda own: (own[1] - own[2], own[1])):
        instead = [own[0] for own in wrong if own[1:] == (start, end)]
        span = {"start": start, "end": end, "label": label}
        actions.append({"do": "phrase", **span, "instead": instead[0] if instead else None})
    places = {own[1:] for own in missing}
    for label, start, end in wrong:
        if (start, end) not in places:
            is_one = any(own[1:] == (start, end) for own in gold)
            only = {"label": label if is_one else None}
            actions.append({"do": "no_phrase", "start": start, "end": end, **only})
    return actions


def brackets_of(tree: Tree) -> Counter[Bracket]:
    return Counter(tree.spans()[1:])


def edits(found: Counter[Bracket], gold: Counter[Bracket]) -> int:
    """Count the brackets to add, to remove, or to relabel."""
    sides = [Counter(own[1:] for own in side.elements()) for side in (gold - found, found - gold)]
    return (sides[0] | sides[1]).total()


def reparse(args: Any) -> Figures:
    corrector = Corrector(spacy_structlearn.load())
    dev = trees_of_domain("craft", "dev", args.corpora)
    trees = [tree for tree in dev if len(tree.words()) in ABOUT_40][: args.limit or 50]
    times = [
        1000 * second for tree in trees for second in corrected(corrector, tree, compares=False)[1]
    ]
    found = {"p95": float(np.quantile(times, 0.95)), "median": median(times)}
    found |= {"sentences": len(trees), "actions": len(times)}
    return {f"reparse_ms.{name}": value for name, value in found.items()}


# --- what teaches most ----------------------------------------------------------------------------
def active(args: Any) -> Iterator[Figures]:
    dev = trees_of_domain("craft", "dev", args.corpora)[: args.limit]
    nlp = spacy_structlearn.load()
    yield {"active.0.f": scored(nlp, dev).f1}
    pools = {seed: pool(nlp, args, seed) for seed in SEEDS}
    for n in SIZES if args.limit is None else [min(args.limit, SIZES[0])]:
        runs = {order: [learned(own[order][:n], dev) for own in pools.values()] for order in ORDERS}
        for order, rows in runs.items():
            gains = [own["f"] - other["f"] for own, other in zip(rows, runs["random"], strict=True)]
            place = f"active.{n}.{order}"
            for name in rows[0]:
                yield with_error(f"{place}.{name}", [own[name] for own in rows])
            if order != "random":
                yield with_error(f"{place}.gain_over_random", gains)
            if order == CHOSEN:
                yield with_error(f"active.{n}.gain_over_random", gains)


def learned(trees: Sequence[Tree], dev: Sequence[Tree]) -> dict[str, float]:
    """Learn on from trees, and score the pipeline."""
    nlp, seconds = trained("adapted", trees)
    words = sum(len(tree.words()) for tree in trees)
    return {"f": scored(nlp, dev).f1, "words": words, "cpu_s": seconds}


def with_error(place: str, values: Sequence[float]) -> Figures:
    return {place: mean(values), f"{place}_se": stdev(values) / len(values) ** 0.5}


def pool(nlp: Language, args: Any, seed: int) -> dict[str, list[Tree]]:
    """Draw sentences, and put them into each order."""
    trees = trees_of_domain("craft", "train", args.corpora)
    drawn = Random(seed).sample(trees, args.limit or POOL)
    corrector = Corrector(nlp, roles=False)
    rows = []
    for tree in drawn:
        words = tree.words()
        found = corrector.corrected(Gold(words, [True] * len(words)), [], ())
        rows.append(Parsed(words, found.gold.tags, found.probs))
    return {order: [drawn[i] for i in ordered(rows, order, seed)] for order in ORDERS}


# --- journal and files ----------------------------------------------------------------------------
def journal(args: Any) -> Figures:
    kills, lost, chance = args.limit or KILLS, 0, Random(0)
    with TemporaryDirectory() as folder:
        path, known = Path(folder) / "journal.jsonl", 0
        for _ in range(kills):
            source, target = os.pipe()
            child = os.fork()
            if not child:
                write_for_ever(path, target)
            os.close(target)
            os.read(source, 1)  # it has begun
            sleep(chance.random() * 0.02)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            while acknowledged := os.read(source, 65_536):
                known += len(acknowledged)
            known += 1
            os.close(source)
            there = [own["number"] for own in read(path)[0]]
            lost += known - sum(at == own for at, own in enumerate(there[:known]))
            known = len(there)
    return {"journal.kills": kills, "journal.lost": lost, "journal.records": known}


def write_for_ever(path: Path, target: int) -> None:
    """Write records in a journal, and a byte for each that is acknowledged."""
    own = Journal(path)
    number = len(own.records)
    while True:
        own.append({"do": "act", "number": number, "text": "x" * (number % 5_000)})
        os.write(target, b".")
        number += 1


def roundtrip(args: Any) -> Figures:
    nlp = spacy.blank("en")
    trees, spaces, props = (SAMPLE / f"sample.{own}" for own in ("trees", "spaces", "props"))
    docs = [doc for _, doc in read_treebank(nlp.vocab, trees, spaces=spaces, props=props)]
    documents = [list(golds_of(doc)) for doc in docs if SRL in doc.spans][: args.limit]
    with TemporaryDirectory() as name:
        folder = Path(name)
        formats.write(folder, documents, nlp.vocab)
        found = {own: differences(nlp, folder / own, documents) for own in formats.FILES}
    total = {f"roundtrip.{Path(own).suffix[1:]}": number for own, number in found.items()}
    sentences = sum(map(len, documents))
    return {"roundtrip.differences": sum(found.values()), "roundtrip.sentences": sentences} | total


def differences(nlp: Language, path: Path, documents: Sequence[Sequence[Gold]]) -> int:
    """Count the fields that are others in a file; brackets have no frames."""
    if path.suffix == ".spaces":
        return 0  # it is read with the brackets
    without = {"frames": ()} if path.suffix == ".trees" else {}
    wanted = [own._replace(**without) for golds in documents for own in golds]
    found = [own for golds, _ in formats.read(nlp, path) for own in golds]
    pairs = zip(wanted, found, strict=True)
    return sum(a != b for pair in pairs for a, b in zip(*pair, strict=True))
