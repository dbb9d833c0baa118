"""Generate sentences of rare kinds with their trees, from training/configs/templates.txt.

    python corpora/fetch.py ewt
    python -m training.pipeline.templates templates.trees.gz --number 300

Treebanks of web text have few imperatives whose verb is also a noun, questions with "do",
headlines, direct quotations, appositives and lists. The templates are a context-free grammar over
trees. Words come from the training trees and from lists. With --words, one word in five is held
out, so that accuracy is measured on other words.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from zlib import crc32

from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.tree import Tree
from spacy_structlearn.words.lemmas import lemma
from spacy_structlearn.writing import write_bytes
from training.common.command import options
from training.common.recording import ROOT
from training.common.treebanks import ewt_trees

TEMPLATES = ROOT / "training" / "configs" / "templates.txt"
KINDS = (
    *("question", "imperative", "headline", "quotation", "apposition", "enumeration", "particle"),
    *("causative", "coordination", "formula", "contrast", "contrast", "headline"),
    *("imperative", "imperative", "imperative"),
)
QUOTES = (('"', '"'), ('"', '"'), ("“", "”"), ("'", "'"), ("``", "''"))
PARTS = ("all", "train", "test")
HELD_OUT = 5  # one word in five is of the last part
_PART = re.compile(r"<([a-z]+)([?!]?)>|\{([a-z]*)(?:\.([A-Z]+))?(\+?)\}")
_FIRST = re.compile(r"(^|\(`` \S+\) )((?:\([A-Z$]+ )+)([a-z])")  # letter of a sentence or quotation
_BEFORE_VOWEL = re.compile(r"(\(DT [Aa])\)(?= \([A-Z]+ [aeiou])")
_DOUBLED = re.compile("[^aeiou]*[aeiou]([^aeiouwxy])")  # as in "stopped"
_WORD = re.compile("[a-z]{3,}")
_ENDINGS = {"VBZ": "s", "NNS": "s", "VBD": "ed", "VBN": "ed", "VBG": "ing"}

Classes = dict[str, tuple[str, list[str]]]
Forms = dict[tuple[str, str], str]


class Templates:
    """Random sentences. trees: words are learned from them. words: those of PARTS that are used."""

    def __init__(self, trees: Iterable[Tree], words: str = "all", seed: int = 0):
        self._rules, classes = read_templates(TEMPLATES)
        learned, self._forms = vocabulary(trees)
        for name, (tag, own) in learned.items():
            every = sorted({*own, *classes.get(name, (tag, []))[1]})
            parts = {w: "test" if crc32(w.encode()) % HELD_OUT == 0 else "train" for w in every}
            classes[name] = tag, [word for word in every if words in ("all", parts[word])]
        self._classes, self._random, self._particle = classes, Random(seed), ""
        self._left: dict[str, list[str]] = defaultdict(list)

    def sentence(self, kind: str) -> Tree:
        """Return a sentence of one of KINDS, or of another symbol."""
        text = self._expanded(f"(TOP <{kind}>)")
        begin, end = self._random.choice(QUOTES)
        text = text.replace("(`` ``)", f"(`` {begin})").replace("('' '')", f"('' {end})")
        text = _BEFORE_VOWEL.sub(r"\1n)", text)
        return parse_tree(_FIRST.sub(lambda m: m[1] + m[2] + m[3].upper(), text))

    def _expanded(self, text: str) -> str:
        return _PART.sub(self._part, text)

    def _part(self, match: re.Match[str]) -> str:
        symbol, end, name, form, apart = match.groups()
        if symbol is not None:
            text = self._expanded(self._random.choice(self._rules[symbol]))
            return f"{text[:-1]} (. {end}))" if end else text
        if name:
            tag, words = self._classes[name]
            if not self._left[name]:  # so that each word comes equally often
                self._left[name] = self._random.sample(words, len(words))
            word, _, particle = self._left[name].pop().partition("+")
            leaf = f"({form or tag} {inflected(word, form or '', self._forms)})"
            self._particle = particle or self._particle
            return leaf if apart or not particle else f"{leaf} (PRT (RP {particle}))"
        return f"(PRT (RP {self._particle}))"  # of the verb before


def read_templates(path: Path) -> tuple[dict[str, list[str]], Classes]:
    """Return the expansions of each symbol, and the classes of words with their tags."""
    rules: dict[str, list[str]] = defaultdict(list)
    classes: Classes = {}
    symbol = ""
    for line in path.read_text(encoding="utf8").splitlines():
        if line.startswith(" "):
            times, body = re.findall(r"^ +(?:\* (\d) )?(.*)", line)[0]
            rules[symbol] += [body] * int(times or 1)
        elif line and not line.startswith("#"):
            symbol, *words = line.split()
            if words:
                classes.setdefault(symbol, (words[0], []))[1].extend(words[1:])
    return rules, classes


def vocabulary(trees: Iterable[Tree]) -> tuple[Classes, Forms]:
    """Return classes of words by their uses in trees, and the forms of base forms by their tags."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    forms: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for tree in trees:
        for node in tree.subtrees():
            if node.word is None:
                for use, leaf in _uses(node):
                    if _WORD.fullmatch(leaf.word or ""):
                        seen[use][lemma(leaf.word or "", leaf.label)] += 1
            elif _WORD.fullmatch(node.word) and node.label[0] in "NV":
                base = lemma(node.word, node.label)
                forms[base, node.label][node.word] += 1
                seen[node.label][base] += 1
                seen[node.label[:2]][base] += node.label != "NNS"

    def often(use: str, least: int) -> set[str]:
        return {word for word, count in seen[use].items() if count >= least}

    both = often("NN", 2) & often("VB", 1)
    classes = {
        "nn": ("NN", often("counted", 2)),
        "nm": ("NN", often("bare", 3)),
        "nnv": ("NN", both),
        "jj": ("JJ", often("quality", 3)),
        "rbm": ("RB", often("manner", 2)),
        "vt": ("VB", often("transitive", 2)),
        "vi": ("VB", often("intransitive", 2)),
        "vtn": ("VB", both & often("transitive", 1)),
        "vin": ("VB", both & often("intransitive", 1)),
    }
    common = {key: own.most_common(1)[0][0] for key, own in forms.items()}
    return {name: (tag, sorted(words)) for name, (tag, words) in classes.items()}, common


def _uses(node: Tree) -> Iterator[tuple[str, Tree]]:
    """Yield classes of words that are used in a phrase."""
    first, *rest = node.children
    labels = [child.label for child in rest]
    if node.label == "VP" and first.label.startswith("VB"):
        if labels[:1] == ["NP"] and "S" not in labels:
            yield "transitive", first
        elif set(labels) <= {"PP", "ADVP"}:
            yield "intransitive", first
    elif node.label == "NP" and all(child.word is not None for child in node.children):
        if (first.label, labels) == ("NN", []):
            yield "bare", first
        if (first.word or "").lower() in ("a", "an") and labels[-1:] == ["NN"]:
            yield "counted", rest[-1]
        if first.label == "DT" and labels[:2] == ["JJ", "NN"]:
            yield "quality", rest[0]
    elif node.label == "ADVP" and first.label == "RB" and (first.word or "").endswith("ly"):
        yield "manner", first


def inflected(word: str, tag: str, forms: Forms) -> str:
    """Return the form of a base form with a tag: that of the training trees, or the regular one."""
    ending = _ENDINGS.get(tag, "")
    if (word, tag) in forms or not ending:
        return forms.get((word, tag), word)
    if word.endswith("y") and word[-2] not in "aeiou" and ending != "ing":
        return f"{word[:-1]}ie{ending[-1]}"
    if ending == "s":
        return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")
    doubled = _DOUBLED.fullmatch(word)
    return word.removesuffix("e") + (doubled[1] if doubled else "") + ending


def write_templates(corpora: Path, target: Path, number: int, words: str = "all") -> Path:
    """Write this number of sentences of each kind to a file of trees."""
    templates = Templates(ewt_trees(corpora, "train"), words)
    lines = (f"{templates.sentence(kind)}\n" for _ in range(number) for kind in KINDS)
    write_bytes(target, gzip.compress("".join(lines).encode(), mtime=0))
    return target


def main() -> None:
    parser = options(__doc__, "corpora")
    parser.add_argument("output", type=Path, help="file of trees, .gz")
    parser.add_argument("--number", type=int, default=300, help="of sentences of each kind")
    parser.add_argument("--words", choices=PARTS, default="all", help="with a part of the words")
    args = parser.parse_args()
    write_templates(args.corpora, args.output, args.number, args.words)


if __name__ == "__main__":
    main()
