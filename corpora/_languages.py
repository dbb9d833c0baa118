"""Treebanks of other languages than English: ICON (Indonesian), GreynirCorpus and IcePaHC (both
Icelandic) as trees in one line, with one word per leaf and without empty leaves."""

import html
import re
from dataclasses import dataclass, field

from _download import FetchError
from _formats import escape_brackets

# GreynirCorpus writes round brackets in words as \( or as entities.
_ITEM = re.compile(r"[()]|(?:\\.|[^\s()\\])+")
_ESCAPE = re.compile(r"\\(.)")
_LEMMA = re.compile(r"(?<=.)-.*")
_CHARACTERS = {"dash": "-", "slash": "/", "apostrophe": "'"}  # IcePaHC: <dash/>, or for some <dash>
_CHARACTER = re.compile(rf"</?({'|'.join(_CHARACTERS)})/?>")
_EMPTY = re.compile(r"0|(ICH)?\*.*|\{.*\}")
_NOT_TEXT = frozenset({"ID", "CODE", "META"})
_SPLIT = "$"
# The split of UD_Icelandic-IcePaHC 2.10 by texts; all others are train.
ICEPAHC_DEV = (
    *("1250.thetubrot.nar-sag", "1350.bandamennM.nar-sag", "1475.aevintyri.nar-rel"),
    *("1525.georgius.nar-rel", "1630.gerhard.rel-oth", "1720.vidalin.rel-ser"),
    *("1883.voggur.nar-fic", "1888.grimur.nar-fic", "1902.fossar.nar-fic", "2008.ofsi.nar-sag"),
)
ICEPAHC_TEST = (
    *("1150.firstgrammar.sci-lin", "1210.jartein.rel-sag", "1350.marta.rel-sag"),
    *("1400.gunnar2.nar-sag", "1450.bandamenn.nar-sag", "1540.ntacts.rel-bib"),
    *("1628.olafuregils.bio-tra", "1745.klim.nar-fic", "1850.piltur.nar-fic"),
    "1920.arin.rel-ser",
)


@dataclass
class Node:
    """A bracket: its label, its words, and the brackets in it."""

    label: str = ""
    words: list[str] = field(default_factory=list)
    children: list["Node"] = field(default_factory=list)

    def __str__(self) -> str:
        return f"({self.label} {' '.join([*self.words, *map(str, self.children)])})"


def read_nodes(text: str, name: str) -> list[Node]:
    """Read all outer brackets. Raises FetchError if brackets are not balanced."""
    top = Node()
    stack = [top]
    labelled = True
    for item in _ITEM.findall(text):
        if item == "(":
            stack.append(Node())
            stack[-2].children.append(stack[-1])
            labelled = False
        elif item == ")":
            stack.pop()
            labelled = True
        elif labelled:
            stack[-1].words.append(item)
        else:
            stack[-1].label, labelled = item, True
        if not stack:
            break
    if len(stack) != 1 or top.words:
        raise FetchError(f"{name}: brackets are not balanced")
    return top.children


# --- ICON -----------------------------------------------------------------------------------------
def icon_trees(text: str, name: str) -> list[str]:
    """Return the trees of a file of ICON, which are in one line each."""
    return [f"{tree}\n" for tree in read_nodes(text, name)]


# --- GreynirCorpus --------------------------------------------------------------------------------
def greynir_trees(text: str, name: str) -> list[str]:
    """Return the trees of a file of GreynirCorpus, with TOP for the label S0 of the root.

    Some terminals have several words, such as names and dates. Each word gets the tag of its
    terminal. Raises FetchError if the brackets are not those of trees.
    """
    trees = []
    for sentence in read_nodes(text, name):
        top = Node("TOP")
        for node in sentence.children:
            if node.label not in _NOT_TEXT:
                (tree,) = _greynir(node)
                top.children += tree.children if tree.label.startswith("S0") else [tree]
        trees.append(f"{top}\n")
    return trees


def _greynir(node: Node) -> list[Node]:
    if node.words:
        words = (html.unescape(_ESCAPE.sub(r"\1", word)) for word in node.words)
        return [Node(node.label, [escape_brackets(word)]) for word in words]
    children = [leaf for child in node.children for leaf in _greynir(child)]
    return [Node(node.label, [], children)] if children else []


# --- IcePaHC --------------------------------------------------------------------------------------
def icepahc_trees(text: str, name: str) -> list[str]:
    """Return the trees of a text of IcePaHC without lemmas, empty leaves, comments and page
    numbers, with TOP for the empty label of the root. Two leaves that are one word (sögur$ $nar)
    are joined in the place of the first, with its tag.
    """
    trees = []
    for sentence in read_nodes(text, name):
        top = _icepahc(sentence)
        if top is not None:
            _join(top)
            top = _without_empty(top)
        if top is not None:
            top.label = "TOP"
            trees.append(f"{top}\n")
    return trees


def _icepahc(node: Node) -> Node | None:
    if node.label in _NOT_TEXT:
        return None
    if node.words:
        if _EMPTY.fullmatch(node.words[0]):
            return None
        word = _LEMMA.sub("", node.words[0])
        return Node(node.label, [_CHARACTER.sub(lambda found: _CHARACTERS[found[1]], word)])
    children = [kept for child in node.children if (kept := _icepahc(child)) is not None]
    return Node(node.label, [], children) if children else None


def _leaves(node: Node) -> list[Node]:
    return [node] if node.words else [x for child in node.children for x in _leaves(child)]


def _join(tree: Node) -> None:
    """Join the words of leaves that are parts of one word. The later leaves get no word."""
    first: Node | None = None
    for leaf in _leaves(tree):
        word = leaf.words[0]
        if first is not None and word.startswith(_SPLIT) and len(word) > 1:
            first.words[0] = first.words[0][:-1] + word[1:]
            leaf.words = []
        else:
            first = leaf
        if not first.words[0].endswith(_SPLIT):
            first = None


def _without_empty(node: Node) -> Node | None:
    if node.words:
        return Node(node.label, [node.words[0].strip(_SPLIT) or node.words[0]])
    children = [kept for child in node.children if (kept := _without_empty(child)) is not None]
    return Node(node.label, [], children) if children else None
