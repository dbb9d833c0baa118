"""MCTB_en in the conventions of EWT: other tokens, tags and brackets, by rules that leave nearly
all trees of EWT as they are. README.md lists what they change and what they cannot change."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from _download import FetchError
from _formats import mrg_trees

COORDINATION = frozenset({"CC", "CONJP"})
QUOTES = ("``", "''")
MARKS = frozenset({*QUOTES, "-LRB-", "-RRB-", ",", ".", ":", "HYPH"})
AUXILIARY = re.compile(
    r"(?i)be|am|are|is|was|were|been|being|has|have|had|having|do|does|did|to|'(m|re|s|ve|d|ll)|"
    "will|would|shall|should|can|could|may|might|must|ca|wo"
)
NEGATED = "do|does|did|wo|would|ca|could|should|must|is|are|was|were|has|have|had"
# The tags of EWT for marks, whatever they have in MCTB.
TAGS = {",": ",", ";": ",", ":": ":", "/": ",", ".": ".", "?": ".", "!": ".", "&": "CC"}
TAGS |= {"-LRB-": "-LRB-", "[": "-LRB-", "-RRB-": "-RRB-", "]": "-RRB-"}
# The tags of phrases of words: the tag in EWT by the label of the phrase and the tag in MCTB.
ADVERBS = {"IN": "RB", "RP": "RB", "JJ": "RB", "JJR": "RBR", "JJS": "RBS"}
ONLY_TAGS = {
    "PRT": {"IN": "RP", "RB": "RP"},
    "INTJ": dict.fromkeys(("RB", "NN", "NNP", "JJ", "FW", "DT"), "UH"),
}
MONTH = re.compile(
    "January|February|March|April|May|June|July|August|September|October|November|December"
)
# Phrases that are not at the top in EWT, and the phrase around them.
TOPS = {"ADJP": "FRAG", "VP": "S"}

MARK = re.compile(r"-LRB-|-RRB-|[.?!]+|-+|[][,:;\"']")
# Tokens, separated by blanks, that are one token in EWT. ABBREVIATES stands for a full stop that is
# tagged as a word.
ABBREVIATES = "\u00b7"
JOINED = re.compile(
    rf"""(?<!\S)(?:
      [.?!]+(?:[ ][.?!]+)+ | -(?:[ ]-)+
    | (?P<smiley>[:;][ ](?:-[ ])?-[LR]RB-)
    | \d{{1,3}}(?:[ ],[ ]\d{{3}})+(?:[ ][.{ABBREVIATES}][ ]\d+)?
    | \d+(?:[ ][.:/{ABBREVIATES}][ ]\d+)+
    | [AaPp][ ][.{ABBREVIATES}][ ][Mm](?:[ ][.{ABBREVIATES}])?
    | (?:[A-Za-z][ ]{ABBREVIATES}[ ])+[A-Za-z][ ][.{ABBREVIATES}]
    | [^\W\d_]+[ ]{ABBREVIATES}
    | [dDO][ ]'[ ][A-Z]\w*
    | (?P<negated>(?i:{NEGATED})[Nn][ ]'[ ][Tt])
    )(?!\S)""",
    re.VERBOSE,
)


@dataclass
class Node:
    """A phrase with `children`, or a leaf with a `word`."""

    label: str
    children: list["Node"] = field(default_factory=list)
    word: str = ""

    def __str__(self) -> str:
        return f"({self.label} {self.word or ' '.join(map(str, self.children))})"

    @property
    def leaves(self) -> list["Node"]:
        return [self] if self.word else [leaf for child in self.children for leaf in child.leaves]

    @property
    def preterminal(self) -> bool:
        return len(self.children) == 1 and bool(self.children[0].word)


def read_tree(line: str, name: str) -> Node:
    """Read the tree of a line. Raises FetchError if the brackets are invalid."""
    if len(mrg_trees(line, name)) != 1:
        raise FetchError(f"{name}: a line that is not one tree")
    top = Node("")
    stack = [top]
    for label, word in re.findall(r"\(([^\s()]*)|([^\s()]+)|\)", line):
        if label:
            stack[-1].children.append(Node(label))
            stack.append(stack[-1].children[-1])
        elif word:
            stack[-1].word = word
        else:
            stack.pop()
    return top.children[0]


def converted(tree: Node) -> Node:
    """Return the tree in the conventions of EWT."""
    tree = replaced(tree, [split(leaf) for leaf in tree.leaves])
    tree = replaced(tree, joined(tree.leaves))
    for rule in RULES:
        tree = applied(rule, tree)
    return replaced(tree, tagged_marks(tree.leaves))


def replaced(tree: Node, pieces: Sequence[list[Node]]) -> Node:
    """Replace each leaf by pieces. A phrase of which nothing is left is removed."""
    rest = iter(pieces)

    def rebuilt(node: Node) -> list[Node]:
        if node.word:
            return next(rest)
        children = [piece for child in node.children for piece in rebuilt(child)]
        return [Node(node.label, children)] if children else []

    return rebuilt(tree)[0]


def applied(rule: Callable[[Node], Node], node: Node) -> Node:
    """Apply a rule to all phrases, from the bottom."""
    if node.word:
        return node
    return rule(Node(node.label, [applied(rule, child) for child in node.children]))


# --- tokens
def split(leaf: Node) -> list[Node]:
    """Split marks that are one token, and `cannot`; remove control characters."""
    if not leaf.word.isprintable():
        return []
    if leaf.word.lower() == "cannot":
        return [Node("MD", word=leaf.word[:3]), Node("RB", word=leaf.word[3:])]
    marks = MARK.findall(leaf.word)
    if len(marks) < 2 or "".join(marks) != leaf.word:
        return [leaf]
    return [Node(leaf.label if leaf.label in QUOTES else ":", word=mark) for mark in marks]


def joined(leaves: Sequence[Node]) -> list[list[Node]]:
    """Join the leaves that are one token: numbers, abbreviations, dots, dashes."""
    pieces = [[leaf] for leaf in leaves]
    text = " ".join(
        ABBREVIATES if leaf.word == "." and leaf.label not in MARKS else leaf.word
        for leaf in leaves
    )
    for match in JOINED.finditer(text):
        first = text.count(" ", 0, match.start())
        last = first + match[0].count(" ")
        word = match[0].replace(" ", "").replace(ABBREVIATES, ".")
        pieces[first : last + 1] = [[] for _ in range(first, last + 1)]
        label = leaves[first].label
        if match["negated"]:
            pieces[first] = [Node(label, word=word[:-3]), Node("RB", word=word[-3:])]
        else:
            pieces[first] = [Node("NFP" if match["smiley"] else label, word=word)]
    return pieces


def tagged_marks(leaves: Sequence[Node]) -> list[list[Node]]:
    """Tag marks as in EWT. Dots at the end are a full stop, dots before it are a comma."""
    words = [i for i, leaf in enumerate(leaves) if leaf.label not in (*QUOTES, "-RRB-")]
    end = words[-1] if words else 0
    pieces = []
    for i, leaf in enumerate(leaves):
        label = TAGS.get(leaf.word, leaf.label)
        if leaf.label in ("HYPH", "NFP", "SYM"):
            label = leaf.label
        elif re.fullmatch(r"[.?!]*[?!][.?!]*", leaf.word):
            label = "."
        elif re.fullmatch(r"\.{2,}", leaf.word):
            label = "." if i == end else ","
        elif re.fullmatch(r"-{2,}", leaf.word):
            label = ","
        elif leaf.word in ("'", '"') and leaf.label not in (*QUOTES, "POS"):
            label = "''"
        pieces.append([Node(label, word=leaf.word)])
    return pieces


# --- tags that contradict the brackets
def phrase_tags(node: Node) -> Node:
    first = node.children[0]
    tags = labels_of(node.children)
    if node.label in ("PP", "WHPP") and tags[0] == "TO":
        first.label = "IN"
    elif node.label == "ADVP" and all(child.word for child in node.children):
        if tags[0] == "DT" and first.word.lower() == "a":
            return Node("NP", node.children)
        for child in node.children:
            child.label = ADVERBS.get(child.label, child.label)
    elif node.preterminal:
        first.label = ONLY_TAGS.get(node.label, {}).get(tags[0], tags[0])
        if node.label in ("NP", "WHNP") and tags[0] == "IN" and first.word.lower() == "that":
            first.label = "DT" if node.label == "NP" else "WDT"
    return node


def hyphens(node: Node) -> Node:
    """A hyphen stands between two words of a phrase; other ones are dashes."""
    words = [child.word for child in node.children]
    for i, child in enumerate(node.children):
        if child.word == "-":
            around = (*words[max(i - 1, 0) : i], *words[i + 1 : i + 2])
            inside = len(around) == 2 and all(word[-1:].isalnum() for word in around)
            numbers = inside and all(word[0].isdigit() for word in around)
            child.label = "SYM" if numbers else "HYPH" if inside else ","
    return node


# --- brackets
def labels_of(nodes: Sequence[Node]) -> list[str]:
    return [node.label for node in nodes]


def coordinates(nodes: Sequence[Node]) -> bool:
    return not COORDINATION.isdisjoint(labels_of(nodes))


def without_marks(nodes: Sequence[Node]) -> int:
    """Return the number of nodes before the marks at the end."""
    end = len(nodes)
    while nodes[end - 1].label in MARKS:
        end -= 1
    return end


def is_verb(node: Node) -> bool:
    return bool(node.word) and (node.label == "MD" or node.label.startswith("VB"))


def is_auxiliary(node: Node | None) -> bool:
    return node is not None and bool(AUXILIARY.fullmatch(node.word))


def unrepeated(node: Node) -> Node:
    """Remove a phrase whose only child is a phrase of the same label."""
    only = node.children[0]
    return only if len(node.children) == 1 and only.label == node.label else node


def infinitives(node: Node) -> Node:
    """`to` and the VP after it are a VP."""
    children = node.children
    if node.label == "VP" or coordinates(children):
        return node
    for i, (child, following) in enumerate(pairwise(children)):
        if child.label in ("TO", "IN") and child.word.lower() == "to" and following.label == "VP":
            child.label = "TO"
            label = "S" if node.label == "PP" and i == 0 else node.label
            return Node(label, [*children[:i], Node("VP", children[i:])])
    return node


def clauses(node: Node) -> Node:
    """An S stands between SBAR or PP and a VP."""
    children = node.children
    if node.label not in ("PP", "SBAR") or coordinates(children):
        return node
    first = 0  # after conjunctions, prepositions, WHNP and so on
    while first < len(children) and (
        children[first].label in ("IN", "RB", *MARKS) or children[first].label[:2] == "WH"
    ):
        first += 1
    if "VP" in labels_of(children[1:]) and (first or node.label == "SBAR"):
        return Node(node.label, [*children[:first], Node("S", children[first:])])
    return node


def auxiliaries(node: Node) -> Node:
    """The verb after an auxiliary has a VP of its own, and the first verb of an S has one."""
    children = node.children
    labels = labels_of(children)
    if node.label == "S" and labels[0] not in ("VP", "TO"):
        verb = next((i for i, c in enumerate(children) if is_verb(c) or c.label == "VP"), 0)
        if is_verb(children[verb]):
            end = without_marks(children)
            phrase = auxiliaries(Node("VP", children[verb:end]))
            return Node("S", [*children[:verb], phrase, *children[end:]])
    if node.label == "VP" and is_auxiliary(children[0]):
        verb = next((i for i, c in enumerate(labels) if i and c not in ("RB", "ADVP")), 0)
        if verb and is_verb(children[verb]) and labels[verb] not in ("MD", "VBZ", "VBD"):
            return Node("VP", [*children[:verb], auxiliaries(Node("VP", children[verb:]))])
    return node


def adjunction(node: Node) -> Node:
    """A modifier is a sister of the head, not of a phrase of the same label around the head."""
    children = node.children
    labels = labels_of(children)
    if len(children) == 1 or coordinates(children[1:]):
        return node
    at = labels.index(node.label) if node.label in labels else 0
    inner, others = children[at], {*labels[:at], *labels[at + 1 :]}
    only = inner.children[0] if inner.preterminal else None
    if node.label == "VP":
        head = any(child.word and child.label not in ("RB", *MARKS) for child in children[:at])
        apart = inner.label == "VP" and not head
        apart = apart and ("VP" not in others or is_auxiliary(only))
    elif node.label == "PP":
        apart = at == 0 and inner.label in ("PP", "ADVP")
        apart = apart and only is not None and only.label in ("IN", "TO")
    elif node.label == "ADJP":
        apart = inner.label == "ADJP" and inner is children[-1] and "ADJP" not in others
        apart = apart and labels[0] in ("RB", "RBR", "RBS", "ADVP")
        apart = apart and not {"ADJP", *COORDINATION}.intersection(labels_of(inner.children))
    elif node.label == "S":
        apart = {"NP", "VP"}.issubset(labels_of(inner.children))
        apart = apart and others.issubset({"ADVP", "CC", "INTJ", "PP", "SBAR", *MARKS})
        apart = apart and not others.issubset({"CC", *MARKS})
    else:
        apart = False
    return (
        Node(node.label, [*children[:at], *inner.children, *children[at + 1 :]]) if apart else node
    )


def complements(node: Node) -> Node:
    """What follows a verb is in its VP."""
    children = node.children
    labels = labels_of(children)
    if node.label not in ("S", "VP") or labels.count("VP") != 1 or coordinates(children):
        return node
    at, end = labels.index("VP"), without_marks(children)
    inside = children[at]
    if node.label == "VP":
        while inside.children[-1].label == "VP":
            inside = inside.children[-1]
        moves = any(is_verb(c) or c.label == "TO" for c in children[:at]) and inside.preterminal
    else:
        moves = (
            "NP" in labels[:at]
            and "''" not in labels[:at]
            and not MARKS.issuperset(labels[at + 1 : at + 2])
        )
        allowed = {"ADJP", "ADVP", "NP", "PP", "S", "SBAR", *MARKS}
        moves = moves and allowed.issuperset(labels[at + 1 : end])
    if end == at + 1 or not moves:
        return node
    inside.children += children[at + 1 : end]
    return Node(node.label, [*children[:at], complements(children[at]), *children[end:]])


def adverbs(node: Node) -> Node:
    """An adverb before the verb is a sister of its VP, except in coordinations."""
    labels = labels_of(node.children)
    if node.label not in ("S", "VP") or labels.count("VP") != 1 or coordinates(node.children):
        return node
    at = labels.index("VP")
    inside = node.children[at].children
    start = 0
    while start < len(inside) - 1 and inside[start].label == "ADVP":
        start += 1
    rest = Node("VP", inside[start:])
    return Node(node.label, [*node.children[:at], *inside[:start], rest, *node.children[at + 1 :]])


def missing_phrases(node: Node) -> Node:
    """Add phrases that EWT always has, as around a pronoun or an infinitive."""
    label, children = node.label, node.children
    if label not in ("NP", "NML", "NX", "WHNP", "INTJ", "X"):
        children = [Node("NP", [c]) if c.label == "PRP" else c for c in children]
    if label != "INTJ":
        children = [Node("INTJ", [c]) if c.label == "UH" else c for c in children]
    if label in ("ADJP", "ADVP", "NP", "S", "VP"):
        start = 1 if label == "VP" else 0  # a VP begins with a verb, whatever its tag
        children = [*children[:start], *prepositions(children[start:])]
    if label == "S":
        children = [Node("ADVP", [c]) if is_adverb(c) else c for c in children]
    if label in ("ADJP", "ADVP", "NP", "PP"):
        children = [Node("S", [c]) if is_infinitive(c) else c for c in children]
    if (
        label == "NP"
        and labels_of(children) == ["NP", "S"]
        and is_infinitive(children[1].children[0])
    ):
        children = [children[0], Node("SBAR", children[1:])]
    if label in ("PP", "S", "VP"):
        children = [Node("NP", [c]) if c.label == "QP" else c for c in children]
    if label == "TOP" and len(children) == 1 and children[0].label in TOPS:
        children = [Node(TOPS[children[0].label], children)]
    return Node(label, children)


def is_infinitive(node: Node) -> bool:
    return node.label == "VP" and node.children[0].label == "TO"


def is_adverb(node: Node) -> bool:
    return node.label == "RB" and node.word.lower() not in ("not", "n't")


def prepositions(children: Sequence[Node]) -> list[Node]:
    """Make PP or SBAR of a preposition and the phrase after it."""
    found: list[Node] = []
    for child in children:
        before = found[-1] if found else Node("")
        so = before.word.lower() == "so" and child.label == "S"
        if (before.label in ("IN", "TO") or so) and child.label in ("NP", "S"):
            found[-1].label = "IN"
            child = Node("PP" if child.label == "NP" else "SBAR", [found.pop(), child])
        found.append(child)
    return found


def quantities(node: Node) -> Node:
    """A QP has several words."""
    if node.label == "QP" and len(node.children) == 1:
        return unrepeated(Node("NP", node.children))
    return node


def single_modifiers(node: Node) -> Node:
    """An adjective before a noun and an adverb before an adjective have no phrase of their own."""
    children: list[Node] = []
    for child, following in zip(node.children, [*node.children[1:], Node("")], strict=True):
        if node.label in ("NP", "WHNP", "NX"):
            single = child.label in ("ADJP", "QP")
            single = single and bool(following.word or following.label in ("ADJP", "NP"))
        else:
            single = node.label == "ADJP" and child.label == "ADVP"
            single = single and following.label[:2] in ("JJ", "VB", "RB")
        single = single and child.preterminal and following.label not in ("CC", *MARKS)
        children += child.children if single else [child]
    return Node(node.label, children)


def heads(node: Node) -> Node:
    """Words before the head of an NP are its sisters; phrases after it are outside of its NP."""
    if node.label != "NP":
        return node
    *before, inner = children = node.children
    labels = labels_of(before)
    phrases = {"NP", "PP", "S", "SBAR", "VP", "MD", "VBD", "VBP", "VBZ", ",", ":", *COORDINATION}
    if (
        inner.label == "NP"
        and not MARKS.issuperset(label for label, c in zip(labels, before, strict=True) if c.word)
        and phrases.isdisjoint(labels)
        and labels[-1] not in ("IN", "POS", "TO", *MARKS)
        and before[-1].word.lower() != "not"
    ):
        return heads(premodified(before, inner))
    first = next((i for i, child in enumerate(children) if child.label in ("PP", "VP")), 0)
    words = [child for child in children[:first] if child.word and child.label not in MARKS]
    outside = {"NP", "IN", "TO", "-LRB-", *COORDINATION}
    if words and words[-1].word.lower() != "such" and outside.isdisjoint(labels[:first]):
        return Node("NP", [Node("NP", children[:first]), *children[first:]])
    return node


def premodified(before: list[Node], inner: Node) -> Node:
    """Put words before the head of the NP `inner`."""
    first, *rest = inner.children
    if coordinates(inner.children) and "NP" in labels_of(inner.children):
        conjuncts = [Node("NML", c.children) if c.label == "NP" else c for c in inner.children]
        return Node("NP", [*before, Node("NML", conjuncts)])
    if first.label == "NP" and first.leaves[-1].label != "POS":
        return Node("NP", [premodified(before, first), *rest])
    return Node("NP", [*before, first, *rest])


def nominals(node: Node) -> Node:
    """A modifier of several nouns is an NML."""
    if node.label == "NX":
        return Node("NML", node.children)
    children: list[Node] = []
    for child, following in zip(node.children, [*node.children[1:], Node("")], strict=True):
        own = {leaf.label for leaf in child.leaves}
        if (
            node.label in ("NP", "NML")
            and child.label == "NP"
            and following.word
            and following.label[:2] in ("NN", "JJ")
            and own.isdisjoint(("DT", "POS", "PRP", "PRP$", "WP$"))
        ):
            children += child.children if child.preterminal else [Node("NML", child.children)]
        else:
            children.append(child)
    return Node(node.label, children)


def compounds(node: Node) -> Node:
    """Words with hyphens before a noun are an NML or ADJP."""
    if node.label not in ("NP", "NML"):
        return node
    children: list[Node] = []
    rest = node.children
    while rest:
        size = 1
        while rest[0].word and labels_of(rest[size : size + 1]) == ["HYPH"] and rest[size + 1].word:
            size += 2
        before_noun = len(rest) > size and rest[size].label[:2] in ("NN", "JJ", "NM", "AD")
        if size > 1 and before_noun:
            adjective = rest[size - 1].label[:2] in ("JJ", "VB")
            children.append(Node("ADJP" if adjective else "NML", rest[:size]))
        else:
            children += rest[:size]
        rest = rest[size:]
    return Node(node.label, children)


def dates(node: Node) -> Node:
    """The year of a date is an NP of its own."""
    children = node.children
    if node.label != "NP" or not all(child.word for child in children):
        return node
    month = [i for i, child in enumerate(children) if MONTH.fullmatch(child.word)]
    tags = [label for label in labels_of(children) if label != ","]
    known = (["CD", "NNP", "CD"], ["NNP", "CD", "CD"])
    if month and tags in known and re.fullmatch(r"\d{4}", children[-1].word):
        comma = children[-2].label == ","
        end = len(children) - 1 - comma
        return Node(
            "NP", [Node("NP", children[:end]), *children[end:-1], Node("NP", children[-1:])]
        )
    return node


def parentheses(node: Node) -> Node:
    """Round brackets belong to the phrase inside them, except for clauses, which are a PRN."""
    phrases = [child for child in node.children if child.label not in MARKS]
    if node.label != "PRN" or node.children[0].label != "-LRB-" or len(phrases) != 1:
        return node
    (phrase,) = phrases
    if phrase.word or phrase.label[0] in "SF":
        return node
    at = next(i for i, child in enumerate(node.children) if child is phrase)
    children = [*node.children[:at], *phrase.children, *node.children[at + 1 :]]
    return Node(phrase.label, children)


RULES = (
    unrepeated,
    hyphens,
    infinitives,
    clauses,
    auxiliaries,
    adjunction,
    phrase_tags,
    unrepeated,
    auxiliaries,
    complements,
    adverbs,
    missing_phrases,
    quantities,
    single_modifiers,
    heads,
    nominals,
    compounds,
    dates,
    parentheses,
    unrepeated,
)
