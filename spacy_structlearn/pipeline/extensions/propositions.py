"""Who did what: `doc._.propositions`, read from the trees and the frames of a Doc.

A tree tells the subject, the objects and the particle of a verb, and what is coordinated; a frame
tells roles and senses, and subjects that are elsewhere ("Ann wants (to sell it)"). Where both have
a phrase with the same head, it is one part. Trees have the labels of the Penn Treebank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span, Token

from ...errors import StructlearnError
from ...groups import CONSTITUENTS
from ...roles.propositions import CONTINUATION, CORE, ENGLISH, REFERENCE, base_label
from ...trees.heads import COLLINS
from ...trees.labels import labels_of
from ...trees.tree import PlacedNode, placed_nodes
from ...words.lemmas import lemma
from .brackets import sentences, tree
from .phrases_and_clauses import Clause, clauses
from .roles import Frame, FrameArgument, srl
from .span_groups import bounds, words_of

NOMINAL = labels_of("NN NNS NNP NNPS PRP CD NP WHNP")
PROPER = labels_of("NNP NNPS")
DETERMINERS = labels_of("DT PRP$ CC ,")
RELATIVE = labels_of("WDT WP WRB IN")  # tags of words that stand for another phrase
PHRASES_OF_WORDS = labels_of("ADVP ADJP PRT")
PARTICLE = "RP"
EXPLETIVE = "EX"
PARTICIPLE = "VBN"
# A second participant has one of these prepositions, or none: "gave it (to Ann)".
PARTICIPANTS = labels_of("to for from with of about against by on")
# Where the parts with a role are, for roles with the same place in all frames.
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
COLUMNS = {  # of a table: the names of the fields that its cells are made of
    "who": ("subjects",),
    "what": ("objects", "complements"),
    "whom": ("recipients",),
    "when": ("time",),
    "where": ("place",),
    "how": ("manner", "adverbials"),
}


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
            "prob": None if self.prob is None else round(self.prob, 4),
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
        """Return all fields as plain data, for JSON. The place is in characters of the Doc."""
        data: dict[str, Any] = {
            "start": self.predicate.start_char,
            "end": self.predicate.end_char,
            "did": self.did,
            "negated": self.negation is not None,
        }
        for name, value in zip(self._fields, self, strict=True):
            if name == "prob":
                data[name] = None if value is None else round(value, 4)
            elif isinstance(value, tuple):
                data[name] = [part.as_dict() for part in value]
            else:
                data[name] = str(value) if isinstance(value, (Span, Token)) else value
        return data

    def as_row(self) -> dict[str, str]:
        """Return the row of a table: texts of who, did, what, whom, when, where and how."""
        cells = {
            column: "; ".join(_text(p.span) for name in names for p in getattr(self, name))
            for column, names in COLUMNS.items()
        }
        return {"who": cells.pop("who"), "did": self.did, **cells, "roleset": self.roleset or ""}

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
    if CONSTITUENTS not in doc.spans:
        return ()
    found = (
        proposition
        for sentence in sentences(doc)
        if sentence.start < end and start < sentence.end
        for proposition in _Sentence(sentence).propositions(nouns)
    )
    return tuple(p for p in found if start <= p.predicate.start < end)


def to_frame(docs: Iterable[Doc], *, nouns: bool = False) -> Any:
    """Return a pandas.DataFrame with a row for each proposition of Docs.

    Its columns are `doc`, the number of the Doc, and those of `Proposition.as_row`, with `prob`.
    Raises ImportError without pandas, and StructlearnError for other objects than Docs.
    """
    try:
        from pandas import DataFrame
    except ImportError:
        raise ImportError(
            "to_frame needs pandas: pip install pandas. Without it, use Proposition.as_row, or "
            "structlearn table FILES."
        ) from None
    if isinstance(docs, Doc):
        raise StructlearnError("SL141", wanted="Docs in a list", kind="Doc")
    rows = [
        {"doc": number, **found.as_row(), "prob": found.prob}
        for number, doc in enumerate(docs)
        for found in propositions(doc, nouns=nouns)
    ]
    return DataFrame(rows, columns=["doc", *HEADER, "prob"])


HEADER = ("who", "did", *[name for name in COLUMNS if name != "who"], "roleset")


class _Sentence:
    """The nodes of the tree of a sentence, its clauses, and the parts in it."""

    def __init__(self, sentence: Span):
        self.doc, self.tokens = sentence.doc, words_of(sentence)
        top = tree(sentence)
        self.nodes = [] if top is None else placed_nodes(top)
        self.places = {token: word for word, token in enumerate(self.tokens)}
        self.leaves = [node for node in self.nodes if node.word is not None]
        # Topmost of a unary chain.
        self.by_span = {(n.start, n.end): n for n in reversed(self.nodes)}
        self.clauses = {c.verb.i: c for c in (clauses(sentence) if self.nodes else ())}

    def propositions(self, nouns: bool) -> Iterator[Proposition]:
        for token, leaf in zip(self.tokens, self.leaves, strict=False):
            clause, frame = self.clauses.get(token), srl(self.doc[token])
            is_verb = leaf.label in ENGLISH.verbs
            if frame is None and clause is None:
                continue
            if is_verb and clause is None:
                # Auxiliaries and participles before nouns.
                above = leaf.parent
                if above is None or above.label != "VP" or not (frame and frame.arguments):
                    continue
            if is_verb or nouns or clause is not None:
                yield self._proposition(leaf, clause, frame)

    def _proposition(
        self, leaf: PlacedNode, clause: Clause | None, frame: Frame | None
    ) -> Proposition:
        verb = self.doc[self.tokens[leaf.start]]
        arguments = [] if frame is None else list(frame.arguments)
        passive = leaf.label == PARTICIPLE if clause is None else clause.passive
        fields: dict[str, list[Part]] = {
            name: []
            for name in Proposition._fields
            if name in {"subjects", "objects", *sum(COLUMNS.values(), ())}
        }
        negation = None
        core: list[tuple[FrameArgument, PlacedNode]] = []
        for argument in arguments:
            label = argument.label
            if label.startswith(REFERENCE):
                continue
            if label == "ARGM-NEG":
                negation = argument.span[0]
            node = self._node(argument.span)
            if node is None or base_label(label) in IGNORED:
                continue
            if base_label(label) in CORE and not label.startswith(CONTINUATION):
                core.append((argument, node))
            elif base_label(label) not in CORE:
                name = FIELDS.get(label, "adverbials")
                if label == "ARGM-GOL":
                    name = self._participant(node)
                fields[name] += self._parts(node, argument)
        subject = self._subject(verb, clause, core, passive)
        if subject is not None and subject[1].word is None:
            core = [pair for pair in core if pair[1] is not subject[1]]
        elif subject is not None:
            core = [pair for pair in core if pair[0] is not subject[0]]
        if subject is not None:
            fields["subjects"] += self._parts(subject[1], subject[0])
        taken = {self._head(node).start for _, node in core}
        is_be = verb.text.lower() in ENGLISH.be
        has_object = any(a.label == "ARG1" for a, _ in core) or bool(fields["objects"])
        for argument, node in core:
            name = self._field(argument.label, node, has_object, is_be)
            fields[name] += self._parts(node, argument)
        if clause is not None:
            extra = [] if fields["objects"] or core else [*clause.objects, *clause.complements]
            if not fields["complements"] and clause.attribute is not None and not core:
                extra.append(clause.attribute)
            if passive and clause.subject is not None and not has_object and not core:
                extra.append(clause.subject)
            for span in extra:
                node = self._node(span)
                if node is not None and self._head(node).start not in taken:
                    name = self._field("ARG1", node, True, is_be and span is clause.attribute)
                    fields[name] += self._parts(node, None)
        if negation is None:
            negation = self._negation(leaf)
        particle = self._particle(leaf)
        base = verb.lemma_ or lemma(verb.text, leaf.label)
        return Proposition(
            self.doc[verb.i : verb.i + 1],
            base if particle is None else f"{base} {particle.text.lower()}",
            None if frame is None else frame.roleset,
            particle,
            negation,
            passive,
            **{name: tuple(own) for name, own in fields.items()},
            prob=None if frame is None else frame.prob,
        )

    # --- subjects and objects ---------------------------------------------------------------------
    def _subject(
        self,
        verb: Token,
        clause: Clause | None,
        core: Sequence[tuple[FrameArgument, PlacedNode]],
        passive: bool,
    ) -> tuple[FrameArgument | None, PlacedNode] | None:
        """Find who acts, or in the active what the verb is said of."""
        agent = next((pair for pair in core if pair[0].label == "ARG0"), None)
        if passive:
            if agent is not None:
                return agent
            node = None if clause is None or clause.agent is None else self._node(clause.agent)
            return None if node is None else (None, node)
        node = None if clause is None or clause.subject is None else self._node(clause.subject)
        if node is not None and self._head(node).label == EXPLETIVE:
            return agent
        if node is not None and self.leaves[node.end - 1].label not in RELATIVE:
            head = self._head(node).start
            same = [pair for pair in core if self._head(pair[1]).start == head]
            return (same[0][0], node) if same else agent or (None, node)
        if agent is not None:
            return agent
        before = [pair for pair in core if pair[0].span.end <= verb.i]
        # Who is told to do something is no subject of the verb: "Tell Ann".
        wanted = [pair for pair in before if pair[1].label in ENGLISH.noun_phrases]
        if wanted:
            return wanted[0]
        is_question = node is not None and self.leaves[node.start].label != "WDT"
        return (None, node) if is_question and node is not None else None

    def _field(self, label: str, node: PlacedNode, has_object: bool, is_be: bool) -> str:
        """Return the field of a core argument that is not the subject."""
        if is_be or node.label in ENGLISH.clauses or node.label in ("VP", "SBAR", "SBARQ", "ADJP"):
            return "complements"
        if node.label in ENGLISH.preposition_phrases:
            return "objects" if label == "ARG1" else FIELDS.get(label) or self._participant(node)
        if node.label == "ADVP":
            return "place"
        return "recipients" if has_object and label not in ("ARG1", "ARG0") else "objects"

    def _participant(self, node: PlacedNode) -> str:
        """Return whether a phrase is a recipient or a place, by its preposition."""
        if node.label not in ENGLISH.preposition_phrases:
            return "place" if node.label == "ADVP" else "recipients"
        return "recipients" if self._word(node.start) in PARTICIPANTS else "place"

    # --- phrases ----------------------------------------------------------------------------------
    def _node(self, span: Span) -> PlacedNode | None:
        """Find the largest phrase with the head of a span, within it or around a single word."""
        words = [self.places[i] for i in range(span.start, span.end) if i in self.places]
        if not words:
            return None
        node = self.by_span.get((words[0], words[-1] + 1))
        if node is None:  # not a phrase of the tree
            inside = [n for n in self.nodes if n.start >= words[0] and n.end <= words[-1] + 1]
            node = max(inside, key=lambda n: n.end - n.start)
        # A noun alone, where the phrase around it is meant.
        while (
            node.word is not None
            and node.label in NOMINAL
            and (above := node.parent) is not None
            and above.label in ENGLISH.noun_phrases
            and self._head(above) is node
        ):
            node = above
        return node

    def _head(self, node: PlacedNode) -> PlacedNode:
        """Return the head word of a phrase; that of its object for a prepositional phrase."""
        while node.word is None:
            inner = self._object(node) if node.label in ENGLISH.preposition_phrases else None
            node = inner or node.children[COLLINS.head_child(node.tree)]
        return node

    @staticmethod
    def _object(node: PlacedNode) -> PlacedNode | None:
        """Return what follows the preposition of a phrase."""
        first = next((n for n in node.children if n.word is not None), None)
        if first is None:
            return None
        rest = [n for n in node.children[first.rank + 1 :] if n.word is None]
        return rest[0] if len(rest) == 1 and rest[0].label not in PHRASES_OF_WORDS else None

    def _parts(self, node: PlacedNode, argument: FrameArgument | None) -> list[Part]:
        """Return the parts of a phrase: its conjuncts, without its preposition.

        The prepositions of time and place stay: "in Bristol", "before noon".
        """
        role = None if argument is None else base_label(argument.label)
        keeps = role is not None and role.startswith("ARGM-") and role not in ("ARGM-COM",)
        inner = None if keeps and FIELDS.get(role or "") != "objects" else self._object(node)
        if node.label in ENGLISH.preposition_phrases and inner is not None:
            place = role in CORE and role != "ARG1" and role != "ARG0"
            if not (place and self._participant(node) == "place") and role != "ARG4":
                node = inner
        prob = None if argument is None else argument.prob
        found = []
        for start, end, head in self._conjuncts(node):
            span = self.doc[self.tokens[start] : self.tokens[end - 1] + 1]
            found.append(Part(span, self.doc[self.tokens[head]], role, prob))
        return found

    def _conjuncts(self, node: PlacedNode) -> list[tuple[int, int, int]]:
        """Return the (start, end, head) of the conjuncts of a noun phrase, or of all of it."""
        whole = [(node.start, node.end, self._head(node).start)]
        if node.label not in ENGLISH.noun_phrases:
            return whole
        groups: list[list[PlacedNode]] = [[]]
        conjoined = False
        for child in node.children:
            if child.label in ("CC", "CONJP", ","):
                conjoined = conjoined or child.label != ","
                groups.append([])
            else:
                groups[-1].append(child)
        groups = [group for group in groups if group]
        if not conjoined or len(groups) < 2 or self._word(node.start) in ("both", "either"):
            groups = groups if conjoined and len(groups) > 1 else []
        sizes = {len([n for n in group if n.label not in DETERMINERS]) for group in groups}
        names = all(n.label in PROPER for group in groups for n in group)
        if not groups or not all(group[-1].label in NOMINAL for group in groups):
            return whole
        if sizes != {1} and not names:
            return whole
        return [(g[0].start, g[-1].end, self._head(g[-1]).start) for g in groups]

    # --- words ------------------------------------------------------------------------------------
    def _word(self, place: int) -> str:
        return self.doc[self.tokens[place]].text.lower()

    def _particle(self, leaf: PlacedNode) -> Token | None:
        """Find the particle among what follows a verb."""
        above = leaf.parent
        for sister in () if above is None else above.children[leaf.rank + 1 :]:
            if sister.label == "PRT" or sister.label == PARTICLE:
                return self.doc[self.tokens[sister.start]]
        return None

    def _negation(self, leaf: PlacedNode) -> Token | None:
        """Find "not", "n't" or "never" beside the verb or its auxiliaries."""
        node: PlacedNode | None = leaf
        while node is not None and (node is leaf or node.label == "VP"):
            above = node.parent
            for sister in () if above is None else above.children[: node.rank]:
                if sister.end == sister.start + 1 and self._word(sister.start) in NEGATIONS:
                    return self.doc[self.tokens[sister.start]]
            node = above
        return None


NEGATIONS = labels_of("not n't n’t never")


def _text(span: Span) -> str:
    return " ".join(span.text.split())
