"""The sentences of an annotator, as the records of their journal say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ...errors import StructlearnError
from .corrections import Action
from .gold import Gold
from .journal import Record, read

JOURNAL = "journal.jsonl"
OPEN, ACCEPTED, SKIPPED, REPLACED = "open", "accepted", "skipped", "replaced"


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

    @property
    def bare(self) -> Gold:
        """Its words, without annotation."""
        return Gold(self.words, self.spaces)


class State:
    """The records of a journal, applied one after another.

    order: the numbers of all items, first the next one. model: the folder of the pipeline that was
    learned last. labels: those of the first pipeline.
    """

    def __init__(self, records: Iterable[Record] = ()):
        self.items: list[Item] = []
        self.order: list[int] = []
        self.model: str | None = None
        self.labels: list[str] = []
        self._at: dict[tuple[str, int], Item] = {}  # those that are not replaced, by place
        for record in records:
            self.apply(record)

    def apply(self, record: Record) -> None:
        """Apply a record, which `Annotation` has checked before it wrote it."""
        does, item = record["do"], self.items[record["id"]] if "id" in record else None
        if does == "queue":
            self.order += [self._add(**row).id for row in record["items"]]
        elif does == "labels":
            self.labels = record["labels"]
        elif does == "model":
            first = {*record["order"]}
            self.model = record["name"]
            self.order = record["order"] + [id for id in self.order if id not in first]
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
        return self._at.get((item.text, item.place + len(item.words)))

    def parts(self, item: Item) -> list[Item]:
        """Return this item and the other that was made with it, not those of an earlier split."""
        near = self.items[max(item.id - 1, 0) : item.id + 2]
        same = [own for own in near if own.parents == item.parents != []]
        return [
            own for own in same if own is item or (own.place < item.place) is (own.id < item.id)
        ]

    def _add(self, *, gold: Any = None, **row: Any) -> Item:
        own = Item(len(self.items), **row, gold=gold and Gold.of(gold))
        self.items.append(own)
        self._at[own.text, own.place] = own
        return own

    def _replace(self, items: Iterable[Item]) -> None:
        for own in items:
            own.status, own.gold = REPLACED, None
            del self._at[own.text, own.place]

    def _regroup(self, item: Item, action: Action) -> None:
        old, cuts = [item], [0, len(item.words)]
        if action["do"] == "split":
            cuts.insert(1, action["word"])
        elif other := self.beside(item):
            old.append(other)
            cuts[1] += len(other.words)
        words, spaces = ([x for own in old for x in getattr(own, of)] for of in ("words", "spaces"))
        self._replace(old)
        same: Any = {"text": item.text, "parents": [own.id for own in old]}
        new = [
            self._add(place=item.place + i, words=words[i:j], spaces=spaces[i:j], **same).id
            for i, j in pairwise(cuts)
        ]
        at = self.order.index(item.id)
        self.order[at:at] = new

    def _undo(self, item: Item) -> None:
        item.gold = None
        if item.status != OPEN:
            item.status = OPEN
        elif item.actions:
            item.actions.pop()
        else:
            self._replace(self.parts(item))
            for own in map(self.items.__getitem__, item.parents):
                own.status = OPEN
                self._at[own.text, own.place] = own

    def documents(self) -> list[list[Gold]]:
        """Return the accepted sentences; those that follow one another in a text are together."""
        found: list[list[Gold]] = []
        last = None
        pairs = [((own.text, own.place), own.gold) for own in self.items if own.gold]
        for (text, place), gold in sorted(pairs):
            if last != (text, place):
                found.append([])
            found[-1].append(gold)
            last = text, place + len(gold.words)
        return found


def accepted(folder: Path) -> dict[Any, tuple[Any, Any]]:
    """Return the accepted sentences of a folder, as `evaluation.agreement` compares them."""
    items = State(read(folder / JOURNAL)[0]).items
    return {
        (own.text, own.place, *own.words): (own.gold.tags, own.gold.brackets)
        for own in items
        if own.gold
    }
