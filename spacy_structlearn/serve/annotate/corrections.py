"""Corrections of a sentence, and its parse under them.

Each correction of a tree is a constraint on spans (Pereira & Schabes 1992), so the parser finds
what follows from it. What no tree of the grammar meets is made in the tree that it finds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc

from ...errors import StructlearnError
from ...groups import CONSTITUENT_CONSTRAINTS, CONSTITUENT_TAGS, CONSTITUENTS, NP_CHUNKS
from ...pipeline.constituency_parser import UNMET, ConstituencyParser
from ...pipeline.extensions import constituent_tags, set_spans
from ...pipeline.extensions.chunks import head
from ...pipeline.extensions.constraints import FORBIDDEN
from ...pipeline.extensions.span_groups import N_TOKENS, group_scores
from ...pipeline.readers import with_norms
from ...pipeline.sentence_splitter import SentenceSplitter
from ...pipeline.srl_labeler import SRLLabeler
from ...trees.chunks import base_noun_phrases
from .formats import Gold, doc_of, golds_of

Action = dict[str, Any]
SPAN = {"start": "start", "end": "end"}
ALONE = {"alone": "flag"}
KINDS: dict[str, dict[str, str]] = {
    "phrase": SPAN | ALONE | {"label": "label", "instead": "label or null"},
    "no_phrase": SPAN | ALONE | {"label": "label or null"},
    "tag": {"word": "word", "tag": "label"},
    "attach": SPAN | {"head": "word"},
    "role": SPAN | {"predicate": "word", "label": "label or null"},
    "predicate": {"word": "word", "roleset": "label or null", "keep": "flag"},
    "chunk": SPAN | {"keep": "flag"},
    "split": {"word": "word"},
    "merge": {},
}
"""The fields of each kind of action, besides "do". See `Annotation.act`."""
_LABEL = re.compile(r"(?![!])[^\s()]{1,40}")
_ANY = "X"  # the label of a phrase that no tree has and whose label nobody gave


def checked(action: Mapping[str, Any], n: int) -> Action:
    """Check an action on a sentence of n words, and fill in what may be missing.

    Raises StructlearnError if it is not one.
    """

    def valid(kind: str, value: Any) -> bool:
        if kind == "flag":
            return isinstance(value, bool)
        if "label" in kind:
            missing = value is None and kind != "label"
            return missing or (isinstance(value, str) and _LABEL.fullmatch(value) is not None)
        return type(value) is int and 0 <= value < n + (kind == "end")

    does, what = action.get("do"), f"The action {dict(action)}"
    fields = KINDS.get(does) if isinstance(does, str) else None
    if fields is None:
        raise StructlearnError("SL271", what=what, problem=f'"do" is one of {", ".join(KINDS)}')
    made = {name: action.get(name, name == "keep" or None) for name in fields}
    made |= {"alone": made.get("alone") or False} if "alone" in made else {}
    if (
        action.keys() - {"do", *made}
        or not all(valid(kind, made[name]) for name, kind in fields.items())
        or made.get("start", 0) >= made.get("end", n)
        or (does == "split" and made["word"] == 0)
    ):
        known = ", ".join(f"{name}: {kind}" for name, kind in fields.items())
        problem = f"it must have {known or 'no fields'}, within its {n} words"
        raise StructlearnError("SL271", what=what, problem=problem)
    return {"do": does, **made}


class Wish(NamedTuple):
    """A bracket that must be, or must not be. label: None for any. tag: whether it is a tag."""

    start: int
    end: int
    label: str | None
    must: bool
    tag: bool = False

    def contradicts(self, other: Wish) -> bool:
        """Say whether no tree meets both."""
        if self.tag or other.tag:
            return self.tag and other.tag and self.start == other.start
        if self.must is not other.must:
            yes, no = (self, other) if self.must else (other, self)
            return yes[:2] == no[:2] and no.label in (None, yes.label)
        return self.must and crosses(self, other)


def crosses(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Say whether two brackets (start, end, ...) cannot be in one tree."""
    return one[0] < other[0] < one[1] < other[1] or other[0] < one[0] < other[1] < one[1]


def wishes_of(action: Action, n: int) -> list[Wish]:
    """Return what an action on a sentence of n words asks of its tree."""
    place = action.get("start", 0), action.get("end", 0)
    if action["do"] == "tag":
        return [Wish(action["word"], action["word"] + 1, action["tag"], True, True)]
    if action["do"] == "phrase":
        found = [Wish(*place, action["label"], True)]
        return found + [Wish(*place, action["instead"], False)] * bool(action["instead"])
    if action["do"] == "no_phrase":
        return [Wish(*place, action["label"], False)]
    if action["do"] != "attach":
        return []
    # Whatever is around the phrase has the head.
    label, *widest = action.get("joined") or (None, *place)
    (start, end), word = place, action["head"]
    spans = ((i, j) for i in range(start + 1) for j in range(end, n + 1) if (i, j) != place)
    found = [Wish(*own, None, False) for own in spans if not own[0] <= word < own[1]]
    if end - start > 1:
        found.append(Wish(*place, None, True))
    return found + [Wish(widest[0], widest[1], label, True)] * (label is not None)


def joined(doc: Doc, start: int, end: int, word: int) -> tuple[str, int, int] | None:
    """Return the phrase of a word after another phrase joins it; None if it has it already."""
    of = [span for span in doc.spans[CONSTITUENTS] if (own := head(span)) and own.i == word]
    apart = [own for own in of if own.end <= start or end <= own.start]
    if not apart or any(own.start <= start and end <= own.end for own in of):
        return None
    widest = max(apart, key=len)
    return widest.label_, min(widest.start, start), max(widest.end, end)


def made_true(
    tags: list[str], brackets: list[Any], wishes: Iterable[Wish]
) -> tuple[list[str], list[Any]]:
    """Change a tree until it is as wished. brackets: (label, start, end, probability)."""
    for start, end, label, must, tag in wishes:
        place = (start, end)
        same = [own for own in brackets if own[1:3] == place and label in (None, own[0])]
        if tag:
            tags = [label or own if i == start else own for i, own in enumerate(tags)]
        elif not must:
            brackets = [own for own in brackets if own not in same]
        elif not same:
            brackets = [own for own in brackets if not crosses(own[1:3], place)]
            brackets.append((label or _ANY, start, end, 1.0))
    return tags, sorted(brackets, key=lambda own: (own[1], -own[2]))


class Corrected(NamedTuple):
    """The annotation of a sentence. probs: of its brackets. made: numbers of the actions that no
    tree of the grammar meets together with the others. doc: the Doc, of these words alone.
    """

    gold: Gold
    probs: list[float]
    made: frozenset[int]
    doc: Doc


class Corrector:
    """Parses sentences under corrections. Raises StructlearnError for a pipeline without parser."""

    def __init__(self, nlp: Language):
        self.nlp = nlp
        names = [name for name, of in nlp.pipeline if isinstance(of, ConstituencyParser)]
        if not names:
            problem = "it has no constituency_parser. Give a pipeline that has one"
            raise StructlearnError("SL271", what="The pipeline", problem=problem)
        last = nlp.pipe_names.index(names[-1]) + 1
        pipes = [of for _, of in nlp.pipeline]
        self._before = [of for of in pipes[:last] if not isinstance(of, SentenceSplitter)]
        self._labelers = [of for of in pipes[last:] if isinstance(of, SRLLabeler)]
        self.after = nlp.pipe_names[last:]

    def corrected(self, gold: Gold, actions: Sequence[Action], made: Collection[int]) -> Corrected:
        """Parse the words of a sentence under actions. made: the numbers of those before the last
        one that no tree meets, as far as they are known."""
        n, numbers = len(gold.words), range(len(actions))
        groups = [wishes_of(action, n) for action in actions]
        if first := [number for number in numbers if "tree" in actions[number]]:
            # From here on the tree is changed, not parsed.
            tree, unmet = Gold.of(actions[first[0]]["tree"]), {*numbers[first[0] :]}
            doc = doc_of(self.nlp.vocab, [tree])
            doc.spans[CONSTITUENTS].attrs["scores"] = np.ones(len(tree.brackets), np.float32)
            return self._annotated(gold, doc, groups, unmet, actions)
        last = len(groups) - 1
        for unmet in (set(made), {*made, last} & set(range(len(groups)))):
            doc, met = self._parsed(gold, groups, unmet)
            if met:
                break
        else:
            unmet = set(range(len(groups)))
            for number in range(len(groups)):
                if self._parsed(gold, groups, unmet - {number})[1]:
                    unmet.remove(number)
            doc, _ = self._parsed(gold, groups, unmet)
        return self._annotated(gold, doc, groups, unmet, actions)

    def _annotated(
        self,
        gold: Gold,
        doc: Doc,
        groups: Sequence[Sequence[Wish]],
        unmet: set[int],
        actions: Sequence[Action],
    ) -> Corrected:
        """Add what the tree does not say yet, and the other layers."""
        self._make_true(doc, _settled(groups, unmet, of_unmet=True))
        for labeler in self._labelers:
            doc = labeler(doc)
        (found,) = golds_of(doc)
        probs = group_scores(doc.spans[CONSTITUENTS])
        edited = with_layers(found._replace(spaces=gold.spaces), actions)
        return Corrected(edited, [] if probs is None else probs.tolist(), frozenset(unmet), doc)

    def _parsed(
        self, gold: Gold, groups: Sequence[Sequence[Wish]], unmet: Collection[int]
    ) -> tuple[Doc, bool]:
        """Parse a sentence, and say whether its tree is as the groups not in `unmet` wish."""
        starts: list[bool | int | None] = [place == 0 for place in range(len(gold.words))]
        doc = Doc(
            self.nlp.vocab, words=list(gold.words), spaces=list(gold.spaces), sent_starts=starts
        )
        with_norms(self.nlp, doc)
        rows = [
            (("" if must else FORBIDDEN) + (label or ""), start, end)
            for start, end, label, must, _ in _settled(groups, unmet)
        ]
        if rows:
            set_spans(doc, CONSTITUENT_CONSTRAINTS, rows)
        for pipe in self._before:
            doc = pipe(doc)
        return doc, all(span.label_ != UNMET for span in doc._.parse_failures)

    def _make_true(self, doc: Doc, wishes: Sequence[Wish]) -> None:
        doc.spans.pop(CONSTITUENT_CONSTRAINTS, None)
        brackets, tags = doc.spans[CONSTITUENTS], constituent_tags(doc, range(len(doc)))
        if wishes:
            scores = group_scores(brackets)
            probs = [1.0] * len(brackets) if scores is None else scores.tolist()
            rows = [
                (own.label_, own.start, own.end, p) for own, p in zip(brackets, probs, strict=True)
            ]
            tags, rows = made_true(tags, rows, wishes)
            scores = np.array([row[3] for row in rows], dtype=np.float32)
            set_spans(doc, CONSTITUENTS, [row[:3] for row in rows], scores)
            doc.spans[CONSTITUENTS].attrs[N_TOKENS] = len(doc)
            doc.spans.pop(CONSTITUENT_TAGS, None)
            for token, tag in zip(doc, tags, strict=True):
                token.tag_ = tag
        chunks = base_noun_phrases(Gold.of(next(golds_of(doc))._asdict()).tree)
        set_spans(doc, NP_CHUNKS, [("NP", *chunk) for chunk in chunks])


def _settled(
    groups: Sequence[Sequence[Wish]], unmet: Collection[int], *, of_unmet: bool = False
) -> list[Wish]:
    """Return the wishes of some groups. A later one replaces earlier ones that contradict it."""
    kept: list[tuple[Wish, int]] = []
    for number, group in enumerate(groups):
        kept = [own for own in kept if not any(wish.contradicts(own[0]) for wish in group)]
        kept += [(wish, number) for wish in group]
    return [wish for wish, number in kept if (number in unmet) is of_unmet]


def with_layers(gold: Gold, actions: Iterable[Action]) -> Gold:
    """Change chunks and frames as the actions say."""
    chunks, frames = list(gold.chunks), {own[0]: (own[1], list(own[2])) for own in gold.frames}
    for action in actions:
        start, end, keep = action.get("start", 0), action.get("end", 0), action.get("keep")
        if action["do"] == "chunk":
            chunks = [own for own in chunks if own[1] <= start or end <= own[0]]
            chunks = sorted([*chunks, (start, end)] if keep else chunks)
        elif action["do"] == "predicate":
            _, arguments = frames.pop(action["word"], (None, []))
            if keep:
                frames[action["word"]] = (action["roleset"], arguments)
        elif action["do"] == "role":
            roleset, old = frames.get(action["predicate"], (None, []))
            new = [own for own in old if own[2] <= start or end <= own[1]]
            new += [(action["label"], start, end)] * (action["label"] is not None)
            frames[action["predicate"]] = (roleset, sorted(new, key=lambda own: own[1]))
    rows = [(verb, *frames[verb]) for verb in sorted(frames)]
    return Gold.of(gold._asdict() | {"chunks": chunks, "frames": rows})
