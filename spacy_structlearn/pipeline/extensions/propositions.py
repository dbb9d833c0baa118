"""Who did what: `doc._.propositions`, read from the trees and the frames of a Doc.

A tree tells the subject, the objects and the particle of a verb, and what is coordinated; a frame
tells roles and senses, and subjects that are elsewhere ("Ann wants (to sell it)"). Where both have
a phrase with the same head, it is one part. Trees have the labels of the Penn Treebank.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from spacy.tokens import Doc, Span, Token

from ...display.html import Rows
from ...errors import StructlearnError
from ...groups import CONSTITUENTS
from ...roles.propositions import CORE, ENGLISH, REFERENCE, base_label
from ...trees.heads import COLLINS
from ...trees.labels import labels_of
from ...trees.tree import PlacedNode, placed_nodes
from ...words.lemmas import lemma
from .brackets import constituent_prob, sentences, tree
from .phrases_and_clauses import Clause, clauses
from .roles import Frame, FrameArgument, srl
from .span_groups import bounds, rounded, words_of

NOMINAL = labels_of("NN NNS NNP NNPS PRP CD NP WHNP")
PROPER = labels_of("NNP NNPS")
DETERMINERS = labels_of("DT PRP$")
RELATIVE = labels_of("WDT WP WRB IN")  # tags of words that stand for another phrase
PARTICLES = labels_of("PRT RP")
CLAUSAL = ENGLISH.governing | labels_of("ADJP")
EXPLETIVE, PARTICIPLE = "EX", "VBN"
NEGATIONS = labels_of("not n't n’t never")
# A second participant has one of these prepositions, or none: "gave it (to Ann)".
PARTICIPANTS = labels_of("to for from with of about against by on")
# The fields of roles that have the same one in all frames.
FIELDS = {
    "ARG4": "place",
    "ARGM-TMP": "time",
    "ARGM-LOC": "place",
    "ARGM-DIR": "place",
    "ARGM-MNR": "manner",
    "ARGM-COM": "recipients",
    "ARGM-PRR": "objects",
    "ARGM-PRD": "complements",
}
IGNORED = labels_of("ARGM-NEG ARGM-MOD ARGM-DIS ARGM-DSP ARGM-LVB")
STRIPPED = labels_of("ARG0 ARG1 ARGM-COM ARGM-PRR")  # roles whose prepositions are left out
COLUMNS = {  # of a table, made of the fields
    "who": ("subjects",),
    "what": ("objects", "complements"),
    "whom": ("recipients",),
    "when": ("time",),
    "where": ("place",),
    "how": ("manner", "adverbials"),
}
HEADER = ("who", "did", "what", "whom", "when", "where", "how", "roleset")


class Part(NamedTuple):
    """A part of a proposition.

    span: without its preposition: "the team" in "by the team".
    role: that of the frame, such as "ARG0"; None if it is from the tree alone.
    prob: probability that the head has this role, whatever phrase it is the head of; None if it is
        not known.
    """

    span: Span
    head: Token
    role: str | None
    prob: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the text, characters, head, role and rounded probability, for JSON."""
        return {
            "text": _text(self.span),
            "start": self.span.start_char,
            "end": self.span.end_char,
            "head": self.head.text,
            "role": self.role,
            "prob": rounded(self.prob),
        }


class Proposition(NamedTuple):
    """Who did what to whom, when and where, for one verb. Coordinated parts are split.

    predicate: the verb; a noun or adjective only in `propositions(..., nouns=True)`.
    lemma: its base form, with the particle: "give up".
    roleset: its sense in the frame, or None.
    particle, negation: the words, or None.
    passive: whether it is in the passive, which is turned round: the agent is the subject.
    subjects: who. The subject of an infinitive or a relative clause is the phrase that it stands
        for. Empty for imperatives, and in the passive without an agent.
    objects: what or whom: noun phrases, and the one of a prepositional phrase with the role ARG1.
    complements: clauses, and what a form of "be" is followed by.
    recipients: indirect objects, and other participants: to whom, with whom.
    time, place, manner, adverbials: when, where, how; all other modifiers.
    prob: probability that the word is a predicate; None if it is not known.
    """

    predicate: Span
    lemma: str
    roleset: str | None
    particle: Token | None
    negation: Token | None
    passive: bool
    subjects: tuple[Part, ...]
    objects: tuple[Part, ...]
    complements: tuple[Part, ...]
    recipients: tuple[Part, ...]
    time: tuple[Part, ...]
    place: tuple[Part, ...]
    manner: tuple[Part, ...]
    adverbials: tuple[Part, ...]
    prob: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return all fields as plain data, for JSON, with the characters of the predicate."""
        data: dict[str, Any] = {"start": self.predicate.start_char, "end": self.predicate.end_char}
        for name in self._fields:
            value: Any = getattr(self, name)
            if isinstance(value, tuple):
                value = [part.as_dict() for part in value]
            data[name] = str(value) if isinstance(value, (Span, Token)) else value
        return data | {"prob": rounded(self.prob)}

    def as_row(self) -> dict[str, str]:
        """Return the row of a table, with the texts of the parts: who, did, what, ..., roleset."""
        cells = {
            column: "; ".join(_text(part.span) for name in names for part in getattr(self, name))
            for column, names in COLUMNS.items()
        }
        cells |= {"did": self.did, "roleset": self.roleset or ""}
        return {column: cells[column] for column in HEADER}

    @property
    def did(self) -> str:
        """The lemma, with "not" if the verb is negated."""
        return f"not {self.lemma}" if self.negation is not None else self.lemma


def propositions(part: Doc | Span, *, nouns: bool = False) -> tuple[Proposition, ...]:
    """Get the propositions in the order of their predicates; empty if no parser has run.

    Of a Span, get those whose predicate is in it. Auxiliaries and participles before nouns ("the
    broken window") have none. nouns: add those of nouns and adjectives that have a frame. Raises
    StructlearnError if the frames are malformed.
    """
    doc, start, end = bounds(part)
    if CONSTITUENTS not in doc.spans or start == end:
        return ()
    found = (
        proposition
        for sentence in sentences(part)
        for proposition in _Sentence(sentence).propositions(nouns)
        if start <= proposition.predicate.start < end
    )
    return Rows(found)


def to_frame(docs: Iterable[Doc], *, nouns: bool = False) -> Any:
    """Return a pandas.DataFrame with a row for each proposition of Docs.

    Its columns are `doc`, the number of the Doc, and those of `Proposition.as_row`, with `prob`.
    Raises StructlearnError without pandas, and for other objects than Docs.
    """
    try:
        import pandas
    except ImportError as error:
        raise StructlearnError("SL181", package="pandas") from error
    if isinstance(docs, Doc):
        raise StructlearnError("SL141", wanted="Docs in a list", kind="Doc")
    rows = [
        {"doc": number, **found.as_row(), "prob": found.prob}
        for number, doc in enumerate(docs)
        for found in propositions(doc, nouns=nouns)
    ]
    return pandas.DataFrame(rows, columns=["doc", *HEADER, "prob"])


Argued = tuple[FrameArgument, PlacedNode]
Found: TypeAlias = "tuple[FrameArgument | None, PlacedNode] | None"


class _Sentence:
    """The nodes of the tree of a sentence, its clauses, and the parts in it."""

    def __init__(self, sentence: Span):
        self.doc, self.tokens = sentence.doc, words_of(sentence)
        top = tree(sentence)
        self.nodes = [] if top is None else placed_nodes(top)
        self.places = {token: word for word, token in enumerate(self.tokens)}
        self.leaves = [node for node in self.nodes if node.word is not None]
        self.heads: dict[PlacedNode, PlacedNode] = {}
        self.clauses = {c.verb.i: c for c in (clauses(sentence) if self.nodes else ())}

    def propositions(self, nouns: bool) -> Iterator[Proposition]:
        """Iterate over the propositions of the verbs, or of all predicates."""
        for token, leaf in zip(self.tokens, self.leaves, strict=False):
            clause, frame = self.clauses.get(token), srl(self.doc[token])
            wanted = nouns
            if leaf.label in ENGLISH.verbs:  # but auxiliaries and participles before nouns
                above = leaf.parent
                wanted = above is not None and above.label in ENGLISH.verb_phrases
                wanted = wanted and frame is not None and len(frame.arguments) > 0
            if clause is not None or (wanted and frame is not None):
                yield self._proposition(leaf, clause, frame)

    def _proposition(
        self, leaf: PlacedNode, clause: Clause | None, frame: Frame | None
    ) -> Proposition:
        verb = self.doc[self.tokens[leaf.start]]
        passive = leaf.label == PARTICIPLE if clause is None else clause.passive
        fields: dict[str, list[Part]] = {name: [] for names in COLUMNS.values() for name in names}
        negation, core = self._negation(leaf), []
        for argument in () if frame is None else frame.arguments:
            base, node = base_label(argument.label), self._node(argument.span)
            if base == "ARGM-NEG":
                negation = negation or argument.span[0]
            if node is None or base in IGNORED or argument.label.startswith(REFERENCE):
                continue
            if base not in CORE:
                of_goal = base == "ARGM-GOL"
                name = self._participant(node) if of_goal else FIELDS.get(base, "adverbials")
                fields[name] += self._parts(node, argument)
            elif base == argument.label:  # the first piece
                core.append((argument, node))
        subject = self._subject(verb, clause, core, passive)
        if subject is not None:
            core = [pair for pair in core if not {*map(id, pair)} & {*map(id, subject)}]
            fields["subjects"] += self._parts(subject[1], subject[0])
        is_be = verb.text.lower() in ENGLISH.be
        has_object = bool(fields["objects"]) or any(own.label == "ARG1" for own, _ in core)
        for own, node in core:
            fields[self._field(own.label, node, has_object, is_be)] += self._parts(node, own)
        if clause is not None and not (fields["objects"] or fields["recipients"]):
            # What is in the tree alone.
            taken = {self._head(node).start for _, node in core}
            spans = [*clause.objects, *clause.complements]
            if not core:
                spans += filter(None, [clause.attribute, clause.subject if passive else None])
            for node in filter(None, map(self._node, spans)):
                if self._head(node).start not in taken:
                    fields[self._field("ARG1", node, True, is_be)] += self._parts(node, None)
        roleset = None if frame is None else frame.roleset
        particle = self._particle(leaf, (roleset or "").partition(".")[0])
        base = verb.lemma_ or lemma(verb.text, leaf.label)
        return Proposition(
            self.doc[verb.i : verb.i + 1],
            base if particle is None else f"{base} {particle.text.lower()}",
            roleset,
            particle,
            negation,
            passive,
            **{name: tuple(own) for name, own in fields.items()},
            prob=None if frame is None else frame.prob,
        )

    def _subject(
        self, verb: Token, clause: Clause | None, core: Sequence[Argued], passive: bool
    ) -> Found:
        """Find who acts, or what a verb in the active is said of."""
        agent = next((pair for pair in core if pair[0].label == "ARG0"), None)
        of_tree = None if clause is None else clause.agent if passive else clause.subject
        node = None if of_tree is None else self._node(of_tree)
        alone: Found = None if node is None else (None, node)
        if node is not None and not passive:
            if self._head(node).label == EXPLETIVE:
                return agent
            same = [own for own, other in core if self._head(other) is self._head(node)]
            alone = (same[0] if same else None), node
            if self.leaves[node.end - 1].label not in RELATIVE:
                return alone if same else agent or alone
        if agent is not None or passive:
            return agent or alone
        # That of another verb, or the noun before a relative clause.
        before = (pair for pair in core if pair[0].span.end <= verb.i)
        return next((b for b in before if b[1].label in ENGLISH.noun_phrases), alone)

    def _field(self, label: str, node: PlacedNode, has_object: bool, is_be: bool) -> str:
        """Return the field of a core argument that is not the subject."""
        if is_be or node.label in CLAUSAL:
            return "complements"
        if node.label in ENGLISH.preposition_phrases:
            return "objects" if label == "ARG1" else FIELDS.get(label) or self._participant(node)
        if node.label == "ADVP":
            return "place"
        return "recipients" if has_object and label not in ("ARG1", "ARG0") else "objects"

    def _participant(self, node: PlacedNode) -> str:
        """Return whether a phrase is a recipient or a place, by its preposition."""
        is_phrase = node.label in ENGLISH.preposition_phrases
        other = node.label == "ADVP" or (is_phrase and self._word(node) not in PARTICIPANTS)
        return "place" if other else "recipients"

    # --- phrases ----------------------------------------------------------------------------------
    def _node(self, span: Span) -> PlacedNode | None:
        """Find the largest phrase in a span, or the one around a noun that stands for it."""
        words = [self.places[i] for i in range(span.start, span.end) if i in self.places]
        if not words:
            return None
        node = max(self._within(words[0], words[-1] + 1), key=lambda n: n.end - n.start)
        while node.word is not None and node.label in NOMINAL and node.parent is not None:
            if node.parent.label not in ENGLISH.noun_phrases or self._head(node.parent) is not node:
                break
            node = node.parent
        return node

    def _within(self, start: int, end: int) -> list[PlacedNode]:
        """Return the nodes within some words, in pre-order, in which starts never decrease."""
        first, last = (bisect_left(self.nodes, at, key=attrgetter("start")) for at in (start, end))
        return [node for node in self.nodes[first:last] if node.end <= end]

    def _head(self, node: PlacedNode) -> PlacedNode:
        """Return the head word of a phrase; that of its object for a prepositional phrase."""
        path = [node]
        while node.word is None and node not in self.heads:
            inner = self._object(node) if node.label in ENGLISH.preposition_phrases else None
            node = inner or node.children[COLLINS.head_child(node.tree)]
            path.append(node)
        head = self.heads.get(node, node)
        self.heads.update(dict.fromkeys(path, head))
        return head

    @staticmethod
    def _object(node: PlacedNode) -> PlacedNode | None:
        """Return what follows the preposition of a phrase."""
        phrases = [n for n in node.children[1:] if n.word is None and n.label not in PARTICLES]
        is_plain = node.children and node.children[0].word is not None
        return phrases[0] if is_plain and len(phrases) == 1 else None

    def _parts(self, node: PlacedNode, argument: FrameArgument | None) -> list[Part]:
        """Return the parts of a phrase: its conjuncts, without its preposition, but for those of
        modifiers and places ("in Bristol").
        """
        role, prob = None, None
        if argument is not None:
            role, prob = base_label(argument.label), self._of_head(node, argument.prob)
        inner = self._object(node) if node.label in ENGLISH.preposition_phrases else None
        of_place = role in CORE and self._participant(node) == "place"
        stays = of_place or role in FIELDS or (role or "").startswith("ARGM-")
        if inner is not None and (role in STRIPPED or not stays):
            node = inner
        return [
            Part(
                self.doc[self.tokens[start] : self.tokens[end - 1] + 1],
                self.doc[self.tokens[head.start]],
                role,
                prob,
            )
            for start, end, head in self._conjuncts(node)
        ]

    def _of_head(self, node: PlacedNode, prob: float | None) -> float | None:
        """Return the probability of an argument by its head: that of the role given the phrase,
        times that of the most probable phrase in it with the same head.
        """
        probs = [
            constituent_prob(self.doc[self.tokens[n.start] : self.tokens[n.end - 1] + 1])
            for n in self._within(node.start, node.end)
            if n.word is None and self._head(n) is self._head(node)
        ]
        if prob is None or not probs or None in probs:
            return prob
        own, *_ = known = [p for p in probs if p is not None]
        return min(1.0, prob * max(known) / max(own, prob))

    def _conjuncts(self, node: PlacedNode) -> list[tuple[int, int, PlacedNode]]:
        """Return the (start, end, head) of the conjuncts of a noun phrase, or of all of it."""
        groups: list[list[PlacedNode]] = [[]]
        conjoined = False
        for child in node.children if node.label in ENGLISH.noun_phrases else ():
            if child.label == "," or child.label in ENGLISH.conjunctions:
                conjoined = conjoined or child.label != ","
                groups.append([])
            else:
                groups[-1].append(child)
        groups = [group for group in groups if group]
        # "The ham and cheese sandwich" is one thing: words must be alone, or names.
        sizes = {sum(n.label not in DETERMINERS for n in group) for group in groups}
        names = all(n.label in PROPER for group in groups for n in group)
        nominal = all(group[-1].label in NOMINAL for group in groups)
        if not conjoined or len(groups) < 2 or not nominal or not (names or sizes == {1}):
            return [(node.start, node.end, self._head(node))]
        return [(group[0].start, group[-1].end, self._head(group[-1])) for group in groups]

    # --- words ------------------------------------------------------------------------------------
    def _word(self, node: PlacedNode) -> str:
        """Return the first word of a node in lower case."""
        return self.doc[self.tokens[node.start]].text.lower()

    def _particle(self, leaf: PlacedNode, sense: str) -> Token | None:
        """Find the particle among what follows a verb. sense: such as "turn_down"."""
        above = leaf.parent
        for sister in () if above is None else above.children[leaf.rank + 1 :]:
            is_word = sister.label == "ADVP" and sister.end == sister.start + 1
            if sister.label in PARTICLES or (is_word and sense.endswith(f"_{self._word(sister)}")):
                return self.doc[self.tokens[sister.start]]
        return None

    def _negation(self, leaf: PlacedNode) -> Token | None:
        """Find "not", "n't" or "never" before the verb or its auxiliaries."""
        node = leaf
        while (above := node.parent) is not None and (node is leaf or node.label == "VP"):
            for sister in above.children[: node.rank]:
                if sister.end == sister.start + 1 and self._word(sister) in NEGATIONS:
                    return self.doc[self.tokens[sister.start]]
            node = above
        return None


def _text(span: Span) -> str:
    return " ".join(span.text.split())
