"""The queue of an annotator: which sentence is next, what was done to it, what it is now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language

from ...errors import StructlearnError
from ...pipeline.extensions import sentences
from . import formats, learning
from .corrections import Action, Corrected, Corrector, checked, joined
from .formats import Gold, Json
from .journal import Journal, Record, read
from .order import Parsed, ordered

JOURNAL = "journal.jsonl"
OPEN, ACCEPTED, SKIPPED, REPLACED = "open", "accepted", "skipped", "replaced"
KEPT = 20  # sentences whose parse is kept


@dataclass
class Item:
    """A sentence of the queue. text: name of its text. place: of its first word in the text.
    parents: the items that were split or merged into this one. gold: as accepted."""

    id: int
    text: str
    place: int
    words: list[str]
    spaces: list[bool]
    status: str = OPEN
    actions: list[Action] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    gold: Gold | None = None


class State:
    """What a journal says: its records, applied one after another."""

    def __init__(self, records: Iterable[Record] = ()):
        self.items: list[Item] = []
        self.order: list[int] = []
        self.model: str | None = None
        for record in records:
            self.apply(record)

    def apply(self, record: Record) -> None:
        """Apply a record, which `Annotation` has checked before it wrote it."""
        does, item = record["do"], self.items[record["id"]] if "id" in record else None
        if does == "queue":
            self.order += [self._add(**row).id for row in record["items"]]
        elif does == "order":
            self.order = record["ids"]
        elif does == "model":
            self.model = record["name"]
        elif item is None:
            raise StructlearnError("SL271", what=JOURNAL, problem=f"it has a record {does!r}")
        elif does in (ACCEPTED, SKIPPED):
            item.status = does
            item.gold = Gold.of(record["gold"]) if does == ACCEPTED else None
        elif does == "undo":
            self._undo(item)
        elif record["action"]["do"] in ("split", "merge"):
            self._regroup(item, record["action"])
        else:
            item.status, item.gold = OPEN, None
            item.actions.append(record["action"])

    def beside(self, item: Item) -> Item | None:
        """Return the sentence after this one in the same text."""
        place = item.text, item.place + len(item.words)
        of = (own for own in self.items if own.status != REPLACED)
        return next((own for own in of if (own.text, own.place) == place), None)

    def _add(self, **row: Any) -> Item:
        self.items.append(Item(len(self.items), **row))
        return self.items[-1]

    def _regroup(self, item: Item, action: Action) -> None:
        old, cuts = [item], [0, len(item.words)]
        if action["do"] == "split":
            cuts.insert(1, action["word"])
        elif other := self.beside(item):
            old.append(other)
            cuts[1] += len(other.words)
        words, spaces = ([x for own in old for x in getattr(own, of)] for of in ("words", "spaces"))
        new = [
            self._add(
                text=item.text,
                place=item.place + i,
                words=words[i:j],
                spaces=spaces[i:j],
                parents=[own.id for own in old],
            ).id
            for i, j in pairwise(cuts)
        ]
        for own in old:
            own.status, own.gold = REPLACED, None
        at = self.order.index(item.id)
        self.order[at:at] = new

    def _undo(self, item: Item) -> None:
        item.gold = None
        if item.status != OPEN:
            item.status = OPEN
        elif item.actions:
            item.actions.pop()
        else:
            for own in self.items:
                if own.parents == item.parents:
                    own.status, own.gold = REPLACED, None
            for number in item.parents:
                self.items[number].status = OPEN


class Annotation:
    """The work of one annotator, in a folder of their own. All of it is in the journal there.

    A route sends and gets JSON. Every method that returns a sentence returns an object with
    `id`, `text` (the name of its text), `place` (of its first word), `status` ("open", "accepted",
    "skipped", or "replaced" by what it was split or merged into), `actions`, `made` (numbers of the
    actions that the grammar has no tree for, and which were made in the tree), `words`, `spaces`,
    `tags`, `brackets` ([label, start, end]), `probs` (of the brackets), `chunks` ([start, end]) and
    `frames` ([predicate, roleset, [[label, start, end]]]), all over its words, ends exclusive.

    Calls must come one at a time. What does not exist, or cannot be done, raises StructlearnError,
    and changes nothing; answer its message with 400.
    nlp: a pipeline with a constituency parser. folder: is created; one process may work in it.
    texts: (name, text) each, of which those with new names are queued. order: see `order.ORDERS`.
    seed: for the order "random".
    """

    def __init__(
        self,
        nlp: Language,
        folder: Path,
        texts: Iterable[tuple[str, str]] = (),
        *,
        order: str = "errors",
        seed: int = 0,
    ):
        self._kind, self._seed, self.folder = order, seed, Path(folder)
        self._journal = Journal(self.folder / JOURNAL)
        self.state = State(self._journal.records)
        self._cache: dict[int, tuple[list[Action], Corrected]] = {}
        self._learning: learning.Learning | None = None
        self._use(spacy.load(self.folder / self.state.model) if self.state.model else nlp)
        self._queue(list(texts))

    def close(self) -> None:
        """Let others work in the folder."""
        self._journal.close()

    # --- sentences ----------------------------------------------------------------------------
    def next(self) -> Json | None:
        """Return the next open sentence; None if there is none."""
        open_ones = (id for id in self.state.order if self.state.items[id].status == OPEN)
        number = next(open_ones, None)
        return None if number is None else self.get(number)

    def get(self, id: int) -> Json:
        """Return a sentence as it is now: parsed under its actions, or as accepted."""
        item = self._item(id)
        shown = {name: asdict(item)[name] for name in ("id", "text", "place", "status", "actions")}
        if item.gold is not None:
            return shown | {"made": [], "probs": []} | item.gold._asdict()
        now = self._now(item, item.actions)
        return shown | {"made": sorted(now.made), "probs": now.probs} | now.gold._asdict()

    def act(self, id: int, action: Mapping[str, Any]) -> Json:
        """Apply an action, and return the sentence, parsed again; after a split, its first part.

        An accepted or skipped sentence is open again. The actions ("do", and fields over words):
        phrase: `start` to `end` is a phrase with `label` (and not with the label `instead`);
        no_phrase: it is none, or none with `label`; with `alone`, both change nothing else, and no
        later action does, until this is undone; tag: `word` has the tag `tag`; attach: the
        phrase `start` to `end` belongs to the word `head`; role: it has the role `label` (null:
        none) of the word `predicate`; predicate: `word` is one, with `roleset`, or, if `keep` is
        false, is none; chunk: `start` to `end` is a chunk, or none if `keep` is false; split: a
        sentence begins at `word`; merge: with the next sentence of the text.
        """
        item = self._item(id)
        action = checked(action, len(item.words))
        if item.status == REPLACED:
            self._refuse(id, "it was split or merged. Take one of its parts")
        if action["do"] == "merge" and self.state.beside(item) is None:
            self._refuse(id, "no sentence of its text follows it")
        if action["do"] in ("split", "merge"):
            first = len(self.state.items)
            self._write({"do": "act", "id": id, "action": action})
            return self.get(first)
        if action["do"] == "attach":
            place = action["start"], action["end"], action["head"]
            if place[0] <= place[2] < place[1]:
                self._refuse(id, "a phrase cannot belong to a word of its own")
            action["joined"] = joined(self._now(item, item.actions).doc, *place)
        if action.get("alone"):
            action["tree"] = self._now(item, item.actions).gold._asdict()
        self._now(item, [*item.actions, action])
        self._write({"do": "act", "id": id, "action": action})
        return self.get(id)

    def undo(self, id: int) -> Json:
        """Take back what was done last to a sentence: accepting, skipping, an action, a split or a
        merge. Returns the sentence, or the first of those that it was before."""
        item = self._item(id)
        if item.status == REPLACED or not (item.status != OPEN or item.actions or item.parents):
            self._refuse(id, "there is nothing to undo")
        is_whole = item.status == OPEN and not item.actions
        self._write({"do": "undo", "id": id})
        return self.get(item.parents[0] if is_whole else id)

    def accept(self, id: int) -> Json:
        """Accept a sentence as it is, and return `progress()`."""
        item = self._item(id)
        if item.status != ACCEPTED:
            gold = self._now(item, item.actions).gold
            self._write({"do": ACCEPTED, "id": id, "gold": gold._asdict()})
        return self.progress()

    def skip(self, id: int) -> Json:
        """Leave a sentence out, and return `progress()`."""
        self._item(id)
        self._write({"do": SKIPPED, "id": id})
        return self.progress()

    def progress(self) -> Json:
        """Return the number of sentences that are `open`, `accepted` and `skipped`."""
        of = [item.status for item in self.state.items]
        return {status: of.count(status) for status in (OPEN, ACCEPTED, SKIPPED)}

    # --- files, and what is learned -----------------------------------------------------------
    def export(self, folder: Path) -> Json:
        """Write what is accepted as `formats.FILES`, and return the `files` and `progress()`."""
        formats.write(folder, documents(self.state), self.nlp.vocab)
        return {"files": list(formats.FILES), **self.progress()}

    def import_(self, path: Path) -> Json:
        """Take sentences of a file that `formats.read` reads, and return `progress()`.

        Those with trees are accepted; phrases of others are actions on open sentences.
        """
        for number, (golds, complete) in enumerate([*formats.read(self.nlp, path)]):
            first, place, rows = len(self.state.items), 0, []
            for gold in golds:
                row = {"text": f"{path.name}:{number}", "place": place, "words": gold.words}
                rows.append({**row, "spaces": gold.spaces})
                place += len(gold.words)
            self._write({"do": "queue", "items": rows})
            for id, gold in enumerate(golds, first):
                if complete:
                    self._write({"do": ACCEPTED, "id": id, "gold": gold._asdict()})
                for label, start, end in () if complete else gold.brackets:
                    action = {"do": "phrase", "start": start, "end": end, "label": label}
                    self._write({"do": "act", "id": id, "action": checked(action, place)})
        return self.progress()

    def learn(self) -> Json:
        """Begin to learn in the background from what is accepted, and return `learned()`."""
        if self._learning is None:
            self._learning = learning.Learning(self.nlp, documents(self.state), self.folder)
        return self.learned()

    def learned(self) -> Json:
        """Return the `status` ("none", "running", "failed" or "done") of learning and, if it is
        done, the scores `before` and `after` on the sentences held out, by component, and whether
        the new model is `better`: then it is used from now on, and the queue is in a new order."""
        if self._learning is None:
            return {"status": "none"}
        found = self._learning.poll()
        if found["status"] != "running":
            self._learning = None
        if found.get("better"):
            self._write({"do": "model", "name": found["model"]})
            self._use(spacy.load(self.folder / found["model"]))
            ids = [id for id in self.state.order if self.state.items[id].status == OPEN]
            parsed = [self._now(self.state.items[id], []) for id in ids]
            rows = [Parsed(own.gold.words, own.gold.tags, own.probs) for own in parsed]
            new = [ids[number] for number in ordered(rows, self._kind, self._seed)]
            self._write({"do": "order", "ids": new})
        return found

    # --- below --------------------------------------------------------------------------------
    def _use(self, nlp: Language) -> None:
        self.nlp, self._corrector = nlp, Corrector(nlp)
        self._cache.clear()

    def _queue(self, texts: list[tuple[str, str]]) -> None:
        known = {item.text for item in self.state.items}
        new = [(text, name) for name, text in texts if name not in known]
        rows: list[Json] = []
        parsed: list[Parsed] = []
        with self.nlp.select_pipes(disable=self._corrector.after):
            for doc, name in self.nlp.pipe(new, as_tuples=True):
                place = 0
                for gold, probs in zip(formats.golds_of(doc), _probs(doc), strict=True):
                    row = {"text": name, "place": place, "words": gold.words}
                    rows.append({**row, "spaces": gold.spaces})
                    parsed.append(Parsed(gold.words, gold.tags, probs))
                    place += len(gold.words)
        if rows:
            order = ordered(parsed, self._kind, self._seed)
            self._write({"do": "queue", "items": [rows[number] for number in order]})

    def _item(self, id: int) -> Item:
        if type(id) is not int or not 0 <= id < len(self.state.items):
            self._refuse(id, "there is none of this number")
        return self.state.items[id]

    def _refuse(self, id: int, problem: str) -> None:
        raise StructlearnError("SL271", what=f"Sentence {id}", problem=problem)

    def _write(self, record: Record) -> None:
        self._journal.append(record)
        self.state.apply(record)

    def _now(self, item: Item, actions: list[Action]) -> Corrected:
        """Return a sentence under actions, which is parsed only if they are others than before."""
        before, found = self._cache.pop(item.id, (None, None))
        if found is None or before != actions:
            made = found.made if found and before == actions[:-1] else ()
            gold = Gold(item.words, item.spaces)
            found = self._corrector.corrected(gold, actions, made)
        self._cache[item.id] = (list(actions), found)
        while len(self._cache) > KEPT:
            del self._cache[next(iter(self._cache))]
        return found


def _probs(doc: Any) -> Iterator[list[float]]:
    """Yield the probabilities of the brackets of each sentence that is not white space."""
    group = list(formats.scored_brackets(doc))
    for sentence in sentences(doc):
        if any(not token.is_space for token in sentence):
            yield [p for own, p in group if sentence.start <= own.start < sentence.end]


def documents(state: State) -> list[list[Gold]]:
    """Return the accepted sentences; those that follow one another in a text are together."""
    found: list[list[Gold]] = []
    last = None
    for (text, place), gold in sorted(_accepted(state)):
        if last != (text, place):
            found.append([])
        found[-1].append(gold)
        last = text, place + len(gold.words)
    return found


def accepted(folder: Path) -> list[tuple[Any, Gold]]:
    """Return the accepted sentences of a folder, as `agreement` compares them."""
    return _accepted(State(read(folder / JOURNAL)[0]))


def _accepted(state: State) -> list[tuple[tuple[str, int], Gold]]:
    return [((own.text, own.place), own.gold) for own in state.items if own.gold]
