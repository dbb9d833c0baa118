"""The queue of an annotator: which sentence is next, what was done to it, what it is now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import choice
from typing import Any, NoReturn

from spacy.language import Language
from tqdm import tqdm

from ... import explain, load
from ...display.html import by_sentence, sentences
from ...errors import StructlearnError
from ...groups import CONSTITUENTS
from ...pipeline.annotation import formats
from ...pipeline.annotation.corrections import Action, Corrected, Corrector, checked
from ...pipeline.annotation.gold import golds_of
from ...pipeline.annotation.journal import Journal, Record
from ...pipeline.annotation.order import ORDERS, Parsed, ordered
from ...pipeline.annotation.state import (
    ACCEPTED,
    JOURNAL,
    OPEN,
    REPLACED,
    SKIPPED,
    Item,
    State,
    accepted,
)
from ...pipeline.extensions.brackets import ROOT
from ...pipeline.extensions.span_groups import scored_group
from . import learning

__all__ = ["JOURNAL", "Annotation", "accepted"]
Json = dict[str, Any]
KEPT = 20  # sentences whose parse is kept
FIRST = 80  # characters of a sentence in a list


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
    nlp: a pipeline with a constituency parser. If one was learned in the folder, that one is used.
    folder: is created; one process may work in it, with a pipeline that has the labels of the first
    one. texts: (name, text) each, of which those with new names are parsed, with a progress bar,
    and queued. order: see `order.ORDERS`. seed: for the order "random".
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
        if order not in ORDERS:
            _refuse(f"The order {order!r}", f"it is one of {', '.join(ORDERS)}")
        self._order, self.folder = (order, seed), Path(folder)
        self._cache: dict[int, tuple[list[Action], Corrected]] = {}
        self._learning: learning.Learning | None = None
        self._journal = Journal(self.folder / JOURNAL)
        with ExitStack() as stack:
            stack.callback(self.close)
            self.state = State(self._journal.records)
            self._journal.records = []  # the state has what is needed of them
            self._use(load(self.folder / self.state.model) if self.state.model else nlp)
            own = self.labels()
            known = [f"{label} ({kind})" for kind, labels in own.items() for label in labels]
            if missing := [label for label in self.state.labels if label not in known]:
                problem = f"it lacks {', '.join(missing[:5])}. Give the one that the folder is of"
                _refuse("The pipeline", problem)
            if not self.state.labels:
                self._write({"do": "labels", "labels": known})
            self._queue([*texts])
            stack.pop_all()

    def close(self) -> None:
        """Let others work in the folder. What is being learned is given up."""
        if self._learning is not None:
            self._learning.stop()
        self._journal.close()

    # --- sentences ----------------------------------------------------------------------------
    def next(self, order: str | None = None) -> Json | None:
        """Return the next open sentence, or a random one with the order "random"; None if no
        sentence is open."""
        if order not in (None, "random"):
            _refuse(f"The order {order!r}", 'it is "random" or null')
        open_ones = [id for id in self.state.order if self.state.items[id].status == OPEN]
        if not open_ones:
            return None
        return self.get(choice(open_ones) if order else open_ones[0])

    def list(self) -> list[Json]:
        """Return `id`, `text`, `status` and the first `words`, as a string, of all sentences in the
        order of the queue."""
        items = map(self.state.items.__getitem__, self.state.order)
        return [
            {"id": own.id, "text": own.text, "status": own.status}
            | {"words": " ".join(own.words[:FIRST])[:FIRST]}
            for own in items
            if own.status != REPLACED
        ]

    def get(self, id: int) -> Json:
        """Return a sentence as it is now: parsed under its actions, or as accepted."""
        item = self._item(id)
        if item.gold is not None:
            return _shown(item) | {"made": [], "probs": []} | item.gold._asdict()
        return _shown(item, self._now(item))

    def alternatives(self, id: int) -> Json:
        """Return up to ten `trees` of a sentence, best first, with what its actions ask for: `prob`
        given that, `brackets` and `tags`. The list is empty for a very long sentence."""
        item = self._item(id)
        made = self._now(item).made
        found = self._corrector.alternatives(item.bare, item.actions, made)
        return {
            "trees": [
                {"prob": prob, "tags": tree.tags()}
                | {"brackets": [own for own in tree.spans() if own[0] != ROOT]}
                for prob, tree in found
            ]
        }

    def labels(self) -> dict[str, dict[str, str | None]]:
        """Return the labels of `phrases`, `tags` and `roles` of the pipeline, each with a short
        explanation, or null."""
        parser, labelers = self._corrector.parser, self._corrector.labelers
        own = {"phrases": parser.labels, "tags": parser.parameters.symbols.tags}
        own["roles"] = [label for labeler in labelers for label in labeler.labels]
        return {kind: {label: explain(label) for label in own[kind]} for kind in own}

    def act(self, id: int, action: Mapping[str, Any], preview: bool = False) -> Json:
        """Apply an action, and return the sentence, parsed again; after a split, its first part.

        preview: return only what the sentence would be; not for split and merge.
        An accepted or skipped sentence is open again. The actions ("do", and fields over words):
        phrase: `start` to `end` is a phrase with `label` (and not with the label `instead`);
        no_phrase: `start` to `end` is not a phrase, or not one with `label`; with `alone`, both
        change nothing else, and no later action does, until this is undone; choose: the tree has
        these `brackets`, and no others; tag: `word` has the tag `tag`; attach: the phrase `start`
        to `end` belongs to the word `head`; role: it has the role `label` (null: none) of the word
        `predicate`; predicate: `word` is one, with `roleset`, or is not one if `keep` is false;
        chunk: `start` to `end` is a chunk, or is not one if `keep` is false; split: a sentence
        begins at `word`; merge: with the next sentence of the text. A later action replaces what
        contradicts it.
        """
        item = self._item(id, is_changed=True)
        action = checked(action, len(item.words))
        if action["do"] == "merge" and self.state.beside(item) is None:
            _refuse(f"Sentence {id}", "no sentence of its text follows it")
        if action["do"] in ("split", "merge"):
            if preview:
                _refuse(f"The action {action['do']!r}", "it cannot be shown before it is done")
            shown = len(self.state.items)
        else:
            made = self._now(item).made
            action = self._corrector.completed(item.bare, item.actions, made, action)
            found = self._now(item, [*item.actions, action])
            if preview:
                return _shown(item, found)
            shown = id
        self._write({"do": "act", "id": id, "action": action})
        return self.get(shown)

    def undo(self, id: int) -> Json:
        """Take back what was done last to a sentence: accepting, skipping, an action, a split or a
        merge. Returns the sentence, or the first of those that it was before."""
        item = self._item(id, is_changed=True)
        is_whole = item.status == OPEN and not item.actions
        if is_whole and not item.parents:
            _refuse(f"Sentence {id}", "there is nothing to undo")
        if is_whole and any(own.actions or own.status != OPEN for own in self.state.parts(item)):
            _refuse(f"Sentence {id}", "undo first what was done to its other part")
        self._write({"do": "undo", "id": id})
        return self.get(item.parents[0] if is_whole else id)

    def accept(self, id: int) -> Json:
        """Accept a sentence as it is, and return `progress()`."""
        item = self._item(id, is_changed=True)
        if item.status != ACCEPTED:
            gold = self._now(item).gold
            self._write({"do": ACCEPTED, "id": id, "gold": gold._asdict()})
        return self.progress()

    def skip(self, id: int) -> Json:
        """Leave a sentence out, and return `progress()`."""
        self._item(id, is_changed=True)
        self._write({"do": SKIPPED, "id": id})
        return self.progress()

    def progress(self) -> Json:
        """Return the number of sentences that are `open`, `accepted` and `skipped`."""
        of = [item.status for item in self.state.items]
        return {status: of.count(status) for status in (OPEN, ACCEPTED, SKIPPED)}

    # --- files, and what is learned -----------------------------------------------------------
    def export(self, folder: Path) -> Json:
        """Write what is accepted as `formats.FILES`, and return the `files` and `progress()`."""
        formats.write(folder, self.state.documents(), self.nlp.vocab)
        return {"files": [*formats.FILES], **self.progress()}

    def import_(self, path: Path) -> Json:
        """Take sentences of a file that `formats.read` reads, and return `progress()`.

        Those with trees are accepted; phrases of others are actions on open sentences. Documents
        that were taken before, of a file of this name, are left out.
        """
        known, rows = {item.text for item in self.state.items}, []
        for number, (golds, has_trees) in enumerate(formats.read(self.nlp, path)):
            place = 0
            for gold in golds if (name := f"{path.name}:{number}") not in known else ():
                own = {"text": name, "place": place, "words": gold.words, "spaces": gold.spaces}
                place += len(gold.words)
                actions = [
                    checked({"do": "phrase", "start": i, "end": j, "label": label}, place)
                    for label, i, j in (() if has_trees else gold.brackets)
                ]
                done = {"status": ACCEPTED, "gold": gold._asdict()} if has_trees else {}
                rows.append({**own, "actions": actions, **done})
        if rows:
            self._write({"do": "queue", "items": rows})
        return self.progress()

    def learn(self) -> Json:
        """Begin to learn in the background from what is accepted, and return `learned()`."""
        if self._learning is None:
            queue = {own.id: own.bare for own in self.state.items if own.status == OPEN}
            args = (self.nlp, self.state.documents(), queue, self.folder, self._order)
            self._learning = learning.Learning(*args)
        return self.learned()

    def learned(self) -> Json:
        """Return the `status` ("none", "running", "failed" or "done") of learning and, if it is
        done, the scores `before` and `after`, by component, on folds of the accepted sentences that
        were held out in turn, and whether the new model, which has learned from all of them, is
        `better`: then it is used from now on, and the queue is in a new order."""
        if self._learning is None:
            return {"status": "none"}
        found = self._learning.poll()
        if found["status"] != "running":
            self._learning = None
        order = found.pop("order", None)
        if found.get("better"):
            self._use(load(self.folder / found["model"]))
            self._write({"do": "model", "name": found["model"], "order": order})
        return found

    # --- below --------------------------------------------------------------------------------
    def _use(self, nlp: Language) -> None:
        self.nlp, self._corrector = nlp, Corrector(nlp)
        self._cache.clear()

    def _queue(self, texts: Sequence[tuple[str, str]]) -> None:
        known = {item.text for item in self.state.items}
        new = [(text, name) for name, text in texts if name not in known]
        if len({name for _, name in new}) < len(new):
            _refuse("The texts", "two of them have the same name. Rename one of them")
        rows: list[Json] = []
        parsed: list[Parsed] = []
        with self.nlp.select_pipes(disable=self._corrector.after):
            docs = self.nlp.pipe(new, as_tuples=True)
            # disable=None: silent if the output is not a terminal.
            for doc, name in tqdm(docs, desc="parsing", total=len(new), disable=None):
                group, scores = scored_group(doc, CONSTITUENTS)
                pairs = zip(group, () if scores is None else scores.tolist(), strict=False)
                by = by_sentence(sentences(doc), pairs, lambda pair: pair[0].start)
                place = 0
                for gold, own in zip(golds_of(doc), by, strict=True):
                    row = {"text": name, "place": place, "words": gold.words}
                    rows.append({**row, "spaces": gold.spaces})
                    parsed.append(Parsed(gold.words, gold.tags, [p for _, p in own]))
                    place += len(gold.words)
        if rows:
            order = ordered(parsed, *self._order)
            self._write({"do": "queue", "items": [rows[number] for number in order]})

    def _item(self, id: int, *, is_changed: bool = False) -> Item:
        if type(id) is not int or not 0 <= id < len(self.state.items):
            _refuse(f"Sentence {id}", "no sentence has this number")
        if is_changed and self.state.items[id].status == REPLACED:
            _refuse(f"Sentence {id}", "it was split or merged. Take one of its parts")
        return self.state.items[id]

    def _write(self, record: Record) -> None:
        self._journal.append(record)
        self.state.apply(record)

    def _now(self, item: Item, actions: Sequence[Action] | None = None) -> Corrected:
        """Return a sentence under actions, which is parsed only if they are others than before."""
        actions = [*(item.actions if actions is None else actions)]
        before, found = self._cache.pop(item.id, (None, None))
        if found is None or before != actions:
            made = found.made if found and before == actions[:-1] else ()
            found = self._corrector.corrected(item.bare, actions, made)
        self._cache[item.id] = (actions, found)
        while len(self._cache) > KEPT:
            del self._cache[next(iter(self._cache))]
        return found


def _shown(item: Item, now: Corrected | None = None) -> Json:
    own = {name: getattr(item, name) for name in ("id", "text", "place", "status", "actions")}
    if now is None:
        return own
    return own | {"made": sorted(now.made), "probs": now.probs} | now.gold._asdict()


def _refuse(what: str, problem: str) -> NoReturn:
    raise StructlearnError("SL271", what=what, problem=problem)
