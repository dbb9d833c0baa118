"""Corrections of a sentence, and its parse under them.

Each correction of a tree is a constraint on spans (Pereira & Schabes 1992), so the parser finds
what follows from it. What no tree of the grammar meets is made in the tree that it finds.

    corrector = Corrector(nlp)
    words = Gold(["She", "saw", "the", "man", "with", "it"], [True] * 6)
    action = checked({"do": "phrase", "start": 2, "end": 6, "label": "NP"}, 6)
    print(corrector.corrected(words, [action]).gold.tree)
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
from ...trees.chunks import base_noun_phrases
from ...trees.tree import Tree
from ..constituency_parser import UNMET, ConstituencyParser
from ..extensions import constituent_tags, set_spans, trees
from ..extensions.chunks import head
from ..extensions.constraints import FORBIDDEN
from ..extensions.span_groups import N_TOKENS
from ..readers import with_norms
from ..sentence_splitter import SentenceSplitter
from ..srl_labeler import SRLLabeler
from .gold import Gold, golds_of

Action = dict[str, Any]
KINDS = {
    "phrase": "start end label instead? alone?",
    "no_phrase": "start end label? alone?",
    "choose": "brackets",
    "tag": "word tag",
    "attach": "start end head",
    "role": "start end predicate label?",
    "predicate": "word roleset? keep?",
    "chunk": "start end keep?",
    "split": "word",
    "merge": "",
}
"""The fields of each kind of action, besides "do"; those with "?" may be missing. See
`serve.annotate.annotation.Annotation.act`, which splits and merges: these change nothing here."""
_FLAGS = {"keep": True, "alone": False}  # and what they are if they are missing
_LABELS = ("label", "instead", "roleset", "tag")
_LABEL = re.compile(r"(?![!])[^\s()]{1,40}")
_BRACKET = ("label", "start", "end")
_ANY = "X"  # the label of a phrase that no tree has and whose label nobody gave


def checked(action: Mapping[str, Any], n: int) -> Action:
    """Check an action on a sentence of n words, and fill in what may be missing.

    Raises StructlearnError if it is not one.
    """
    does, what = action.get("do"), f"The action {dict(action)}"
    if not isinstance(does, str) or does not in KINDS:
        raise StructlearnError("SL271", what=what, problem=f'"do" is one of {", ".join(KINDS)}')
    fields = KINDS[does].split()
    made = {name.strip("?"): action.get(name.strip("?"), _FLAGS.get(name[:-1])) for name in fields}
    if (
        action.keys() - {"do", *made}
        or not all(_is_valid(name, made, n) for name in fields)
        or (does == "split" and not made["word"])
    ):
        problem = f"it must have the fields {KINDS[does] or 'of none'}, within its {n} words"
        raise StructlearnError("SL271", what=what, problem=problem)
    return {"do": does, **made}


def _is_valid(field: str, action: Mapping[str, Any], n: int) -> bool:
    """Say whether a field of an action has a possible value. Its start and end come first."""
    name = field.strip("?")
    value = action[name]
    if name in _FLAGS:
        return isinstance(value, bool)
    if name in _LABELS:
        is_label = isinstance(value, str) and _LABEL.fullmatch(value) is not None
        return is_label or (value is None and field != name)
    if name == "brackets":
        rows: list[Any] = value if isinstance(value, list) else [None]
        if not all(isinstance(own, (list, tuple)) and len(own) == 3 for own in rows):
            return False
        each = [dict(zip(_BRACKET, own, strict=True)) for own in rows]
        valid = all(_is_valid(of, own, n) for own in each for of in _BRACKET)
        return valid and not any(crosses(one[1:], own[1:]) for one in rows for own in rows)
    if type(value) is not int or not 0 <= value < n + (name == "end"):
        return False
    if name == "end":
        return action["start"] < value
    return name not in ("head", "predicate") or not action["start"] <= value < action["end"]


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


def crosses(one: Sequence[Any], other: Sequence[Any]) -> bool:
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
    if action["do"] == "choose":
        return [
            Wish(start, end, label, must)
            for must, name in ((True, "brackets"), (False, "without"))
            for label, start, end in action.get(name, ())
        ]
    if action["do"] != "attach":
        return []
    # Whatever is around the phrase has the head.
    (start, end), word = place, action["head"]
    spans = ((i, j) for i in range(start + 1) for j in range(end, n + 1) if (i, j) != place)
    found = [Wish(*own, None, False) for own in spans if not own[0] <= word < own[1]]
    found += [Wish(*place, None, True)] * (end - start > 1)
    if joined := action.get("joined"):
        found.append(Wish(joined[1], joined[2], joined[0], True))
    return found


def _joined(doc: Doc, start: int, end: int, word: int) -> tuple[str, int, int] | None:
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
    """Parses sentences under corrections. Raises StructlearnError for a pipeline without parser.

    roles: whether frames are predicted, too.
    """

    def __init__(self, nlp: Language, *, roles: bool = True):
        self.nlp = nlp
        names = [name for name, of in nlp.pipeline if isinstance(of, ConstituencyParser)]
        if not names:
            problem = "it has no constituency_parser. Give a pipeline that has one"
            raise StructlearnError("SL271", what="The pipeline", problem=problem)
        self.parser: Any = nlp.get_pipe(names[-1])
        last = nlp.pipe_names.index(names[-1]) + 1
        pipes = [of for _, of in nlp.pipeline]
        self._before = [of for of in pipes[:last] if not isinstance(of, SentenceSplitter)]
        self.labelers = [of for of in pipes[last:] if roles and isinstance(of, SRLLabeler)]
        self.after = nlp.pipe_names[last:]

    def corrected(
        self, gold: Gold, actions: Sequence[Action] = (), made: Collection[int] = ()
    ) -> Corrected:
        """Parse the words of a sentence under actions, which `checked` and `completed` return.

        made: the numbers of those before the last one that no tree meets, as far as they are known.
        """
        groups = [wishes_of(action, len(gold.words)) for action in actions]
        numbers = range(len(actions))
        first = next((number for number in numbers if "tree" in actions[number]), None)
        if first is not None:
            # From here on the tree is changed, not parsed. The parse has vectors and norms.
            tree, unmet = Gold.of(actions[first]["tree"]), {*numbers[first:]}
            doc, _ = self._parsed(gold, (), ())
            tags, rows = [*tree.tags], [(*own, 1.0) for own in tree.brackets]
        else:
            doc, unmet = self._met(gold, groups, made)
            tags, group = constituent_tags(doc, range(len(doc))), doc.spans[CONSTITUENTS]
            pairs = zip(group, group.attrs["scores"].tolist(), strict=True)
            rows = [(own.label_, own.start, own.end, p) for own, p in pairs]
        doc.spans.pop(CONSTITUENT_CONSTRAINTS, None)
        wishes = _settled(groups, unmet, of_unmet=True)
        if wishes or first is not None:
            tags, rows = made_true(tags, rows, wishes)
            scores = np.array([row[3] for row in rows], dtype=np.float32)
            set_spans(doc, CONSTITUENTS, [row[:3] for row in rows], scores)
            doc.spans[CONSTITUENTS].attrs[N_TOKENS] = len(doc)
            doc.spans.pop(CONSTITUENT_TAGS, None)
            for token, tag in zip(doc, tags, strict=True):
                token.tag_ = tag
        chunks = base_noun_phrases(trees(doc)[0])
        set_spans(doc, NP_CHUNKS, [("NP", *chunk) for chunk in chunks])
        for labeler in self.labelers:
            doc = labeler(doc)
        (found,) = golds_of(doc)
        edited = with_layers(found._replace(spaces=gold.spaces), actions)
        return Corrected(edited, [row[3] for row in rows], frozenset(unmet), doc)

    def completed(
        self, gold: Gold, actions: Sequence[Action], made: Collection[int], action: Action
    ) -> Action:
        """Add to a new action what it depends on in the tree that is found under those before it.

        Without it, an attachment may leave the phrase in no phrase of its head, and a tree that is
        chosen may have other brackets, too.
        """
        if action["do"] == "choose":
            wanted, action = {*map(tuple, action["brackets"])}, action | {"without": []}
            while True:
                found = self.corrected(gold, [*actions, action], made).gold.brackets
                more = {*found} - wanted - {*action["without"]}
                if not more:
                    return action
                action["without"] += sorted(more)
        if action["do"] == "attach":
            doc = self.corrected(gold, actions, made).doc
            place = action["start"], action["end"], action["head"]
            return action | {"joined": _joined(doc, *place)}
        if action.get("alone"):
            return action | {"tree": self.corrected(gold, actions, made).gold._asdict()}
        return action

    def alternatives(
        self, gold: Gold, actions: Sequence[Action], made: Collection[int], k: int = 10
    ) -> list[tuple[float, Tree]]:
        """Return the k best trees with the brackets that the actions wish, and their probabilities
        given that; none for a sentence that is too long, see `ConstituencyParser.k_best`."""
        groups = [wishes_of(action, len(gold.words)) for action in actions]
        doc, _ = self._parsed(gold, groups, made)
        if len(doc) > self.parser.max_length:
            return []
        return [(float(np.exp(log_prob)), own) for log_prob, own in self.parser.k_best(doc, k)]

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

    def _met(
        self, gold: Gold, groups: Sequence[Sequence[Wish]], made: Collection[int]
    ) -> tuple[Doc, set[int]]:
        """Parse a sentence as most groups wish, and return the numbers of the others, too."""
        numbers = range(len(groups))
        for unmet in ({*made}, {*made, *numbers[-1:]}):
            doc, met = self._parsed(gold, groups, unmet)
            if met:
                return doc, unmet
        unmet = {*numbers}
        for number in numbers:
            if self._parsed(gold, groups, unmet - {number})[1]:
                unmet.remove(number)
        return self._parsed(gold, groups, unmet)[0], unmet


def _settled(
    groups: Sequence[Sequence[Wish]], unmet: Collection[int], *, of_unmet: bool = False
) -> list[Wish]:
    """Return the wishes of some groups. A later one replaces earlier ones that contradict it."""
    kept: list[tuple[Wish, int]] = []
    for number, group in enumerate(groups):
        # Hundreds may be forbidden, which contradict only what must be.
        musts = [wish for wish in group if wish.must]
        kept = [
            (own, of)
            for own, of in kept
            if not any(wish.contradicts(own) for wish in (group if own.must else musts))
        ]
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
