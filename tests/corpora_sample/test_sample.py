"""The hand-made treebank: its three files agree with each other and are well formed."""

import re
from collections import Counter
from pathlib import Path

import pytest

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"

DOCUMENTS = ["news", "email", "story", "recipe", "review"]
DOCUMENTS += ["dialogue", "science", "minutes", "travel", "answers"]

TAG_NAMES = """
$ '' `` , -LRB- -RRB- . : ADD AFX CC CD DT EX FW GW HYPH IN JJ JJR JJS LS MD NFP NN NNP NNPS NNS
PDT POS PRP PRP$ RB RBR RBS RP SYM TO UH VB VBD VBG VBN VBP VBZ WDT WP WP$ WRB XX
"""
LABEL_NAMES = """
ADJP ADVP CONJP FRAG INTJ LST NML NP PP PRN PRT QP S SBAR SBARQ SINV SQ TOP UCP VP WHADJP WHADVP
WHNP WHPP X
"""
MODIFIER_NAMES = "ADV CAU COM DIR DIS EXT GOL LOC MNR MOD NEG PRD PRP TMP"
TAGS = set(TAG_NAMES.split())
LABELS = set(LABEL_NAMES.split())
MODIFIERS = set(MODIFIER_NAMES.split())
ROLES = {"V", "C-V"}
for role in ["ARG0", "ARG1", "ARG2", "ARG3", "ARG4", "ARG5", *(f"ARGM-{m}" for m in MODIFIERS)]:
    ROLES |= {role, f"R-{role}", f"C-{role}"}

ROLESET = re.compile(r"([a-z]+)(_[a-z]+)*\.\d\d")


class Tree:
    """A bracketed line: leaves (tag, word), spans of constituents, parse bits."""

    def __init__(self, line):
        self.leaves, self.spans, self.bits = [], [], []
        self._pieces = re.findall(r"[()]|[^\s()]+", line)
        self._at = 0
        self._node()
        assert self._at == len(self._pieces), "text after the tree"

    def _next(self):
        self._at += 1
        return self._pieces[self._at - 1]

    def _node(self):
        assert self._next() == "("
        label, start = self._next(), len(self.leaves)
        if self._pieces[self._at] != "(":
            self.leaves.append((label, self._next()))
            self.bits.append("*")
        else:
            while self._pieces[self._at] == "(":
                self._node()
            self.bits[start] = f"({label}{self.bits[start]}"
            self.bits[-1] += ")"
            self.spans.append((label, start, len(self.leaves)))
        assert self._next() == ")"


def read_lines(name):
    return (SAMPLE / name).read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def trees():
    return [Tree(line) for line in read_lines("sample.trees")]


@pytest.fixture(scope="module")
def blocks():
    text = (SAMPLE / "sample.props").read_text(encoding="utf-8")
    assert text.endswith("\n\n"), "an empty line after each sentence"
    return [[line.split() for line in block.splitlines()] for block in text.split("\n\n")[:-1]]


def arguments(column):
    """(label, start, end) of each argument in a column; a bad column fails."""
    found, start, label = [], None, None
    for index, cell in enumerate(column):
        match = re.fullmatch(r"(?:\(([^()*\s]+))?\*(\))?", cell)
        assert match, cell
        if match[1]:
            assert start is None, "an argument inside another"
            start, label = index, match[1]
        if match[2]:
            assert start is not None, "an argument that closes without an opening"
            found.append((label, start, index + 1))
            start = None
    assert start is None, "an argument that does not close"
    return found


def columns(rows):
    """(predicate row, arguments) of each predicate of a sentence."""
    predicates = [row for row in rows if row[7] != "-"]
    assert {len(row) for row in rows} == {8 + len(predicates)}
    return [
        (predicate, arguments([row[8 + number] for row in rows]))
        for number, predicate in enumerate(predicates)
    ]


def test_enough_sentences(trees):
    assert len(trees) >= 60


def test_no_duplicates():
    assert [line for line, n in Counter(read_lines("sample.trees")).items() if n > 1] == []


def test_trees_have_known_tags_and_labels(trees):
    assert {tag for tree in trees for tag, _ in tree.leaves} <= TAGS
    assert {label for tree in trees for label, _, _ in tree.spans} <= LABELS


def test_root(trees):
    for tree in trees:
        assert tree.spans[-1] == ("TOP", 0, len(tree.leaves))
        assert sum(label == "TOP" for label, _, _ in tree.spans) == 1
        assert sum(bits.startswith("(TOP") for bits in tree.bits) == 1


def test_lines_are_normalized():
    for line in read_lines("sample.trees"):
        assert line == re.sub(r"\s+", " ", line).replace("( ", "(").replace(" )", ")")


def test_spaces(trees):
    lines = read_lines("sample.spaces")
    assert len(lines) == len(trees)
    for tree, line in zip(trees, lines, strict=True):
        assert re.fullmatch("[01]+", line)
        assert len(line) == len(tree.leaves)


def test_spaces_around_punctuation(trees):
    for tree, line in zip(trees, read_lines("sample.spaces"), strict=True):
        for (_, word), (tag, _), space in zip(tree.leaves, tree.leaves[1:], line, strict=False):
            numbered = tag == "." and word.isdigit()
            if tag in {".", ",", ":", "POS", "HYPH", "-RRB-"} and not numbered:
                assert space == "0", (word, tag)
            if word in {"$", "-LRB-"}:
                assert space == "0", word


def test_props_match_the_trees(trees, blocks):
    assert len(blocks) == len(trees)
    for tree, rows in zip(trees, blocks, strict=True):
        assert [(row[4], row[3]) for row in rows] == tree.leaves
        assert [row[5] for row in rows] == tree.bits


def test_numbering(blocks):
    expected = Counter()
    seen = []
    for rows in blocks:
        (name,) = {row[0] for row in rows}
        assert {row[1] for row in rows} == {str(expected[name])}
        assert [row[2] for row in rows] == [str(number) for number in range(len(rows))]
        expected[name] += 1
        if not seen or seen[-1] != name:
            seen.append(name)
    assert seen == [f"sample/{document}_01" for document in DOCUMENTS]


def test_every_verb_is_a_predicate(blocks):
    for rows in blocks:
        for row in rows:
            assert (row[7] != "-") == (row[4].startswith("VB")), row[:5]


def test_rolesets(blocks):
    for rows in blocks:
        for row in rows:
            if row[7] == "-":
                assert row[6] == "-"
            else:
                match = ROLESET.fullmatch(row[7])
                assert match, row[7]
                assert match[1] == row[6]


def test_roles(blocks):
    for rows in blocks:
        for predicate, found in columns(rows):
            assert {label for label, _, _ in found} <= ROLES
            (verb,) = [argument for argument in found if argument[0] == "V"]
            assert verb[1] == int(predicate[2]), "V stands at its predicate"
            labels = {label for label, _, _ in found}
            assert {label[2:] for label in labels if label[:2] in {"R-", "C-"}} <= labels
            core = [label for label, _, _ in found if re.fullmatch(r"ARG\d", label)]
            assert len(core) == len(set(core)), (predicate[3], core)


def test_auxiliaries_have_no_arguments(blocks):
    for rows in blocks:
        for predicate, found in columns(rows):
            if predicate[7] in {"be.03", "have.01", "do.01"}:
                assert [label for label, _, _ in found] == ["V"]


def test_arguments_are_constituents_or_words(trees, blocks):
    for tree, rows in zip(trees, blocks, strict=True):
        spans = {(start, end) for _, start, end in tree.spans}
        for _, found in columns(rows):
            for label, start, end in found:
                if label != "V":
                    assert end - start == 1 or (start, end) in spans, (label, rows[start][3])


def attachments(tree):
    """The PPs beside an object: "V" attached to the verb, "N" to the noun."""
    spans = tree.spans
    starts = {(label, start, end) for label, start, end in spans}
    for start in sorted({start for label, start, _ in spans if label == "VP"}):
        if not tree.leaves[start][0].startswith("VB"):
            continue
        ends = [end for other, begin, end in starts if other == "NP" and begin == start + 1]
        if not ends:
            continue
        noun_phrase = max(ends)
        inside = any(
            other == "PP" and end == noun_phrase and ("NP", start + 1, begin) in starts
            for other, begin, end in starts
        )
        if inside:
            yield "N"
        if any(other == "PP" and begin == noun_phrase for other, begin, _ in starts):
            yield "V"


def test_prepositional_phrases_of_both_kinds(trees):
    counts = Counter(kind for tree in trees for kind in attachments(tree))
    assert counts["V"] >= 15, counts
    assert counts["N"] >= 15, counts
    assert sum(counts.values()) >= 40, counts


def test_readme_counts(trees, blocks):
    readme = (SAMPLE / "README.md").read_text(encoding="utf-8")
    counted = [argument for rows in blocks for _, found in columns(rows) for argument in found]
    labels = Counter(label for label, _, _ in counted)
    core = sum(n for label, n in labels.items() if re.fullmatch(r"ARG\d", label))
    assert f"| sentences | {len(trees)} |" in readme
    assert f"| tokens | {sum(len(tree.leaves) for tree in trees)} |" in readme
    assert f"| predicates | {labels['V']} |" in readme
    assert f"| core arguments (ARG0 to ARG4) | {core} |" in readme
    assert f"| all arguments (without V) | {sum(labels.values()) - labels['V']} |" in readme
    kinds = Counter(kind for tree in trees for kind in attachments(tree))
    assert f"| PP next to an object, attached to the verb | {kinds['V']} |" in readme
    assert f"| PP next to an object, attached to the noun | {kinds['N']} |" in readme
    documents = Counter(rows[0][0] for rows in blocks)
    for name, number in documents.items():
        assert re.search(rf"\| {name} \| [^|]+ \| {number} \|", readme), name


def test_licence_is_cc0():
    text = (SAMPLE / "LICENSE").read_text(encoding="utf-8")
    assert "creativecommons.org/publicdomain/zero/1.0/" in text
