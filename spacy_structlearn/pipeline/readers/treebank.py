"""Reader of treebanks: trees, white space, and propositions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby, zip_longest
from pathlib import Path
from typing import NamedTuple

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from ...attachment.sites import sites
from ...errors import StructlearnError
from ...groups import CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS, SRL
from ...roles.propositions import SPLIT, PlainFrame, Proposition, read_props
from ...trees.brackets import read_trees
from ...trees.chunks import base_noun_phrases
from ...trees.normalize import EMPTY_TAG, normalize, strip_function
from ...trees.tree import Span as Bracket
from ...trees.tree import Tree
from ..extensions import frame_spans, set_spans, site_spans
from .examples import Reader, check_tags, existing, lines, starts_of, to_example

# White space after a token, in a file of `spaces`.
NOTHING, BLANK, BLANK_LINE = "012"
PARAGRAPH_BREAK = "\n\n"
_INDEX = re.compile(r"[-=]\d+")  # of a trace, in a label


def create_treebank_reader(
    path: Path | None,
    spaces: Path | None = None,
    props: Path | None = None,
    include: Path | None = None,
    exclude: Path | None = None,
    tags: bool = True,
    spans: list[str] | None = None,
) -> Reader:
    """Read a treebank in Penn brackets.

    NP chunks are derived from the trees by the CoNLL-2000 convention, attachments of prepositional
    phrases by the rules of `attachment.sites`. `doc.spans["constituents"]` has the brackets of the
    normalised trees (`trees.normalize`).
    path: the trees. All files may be plain or .gz.
    spaces: a line per sentence with a digit per token: 0 no space follows, 1 a space, 2 a blank
        line, which becomes a white space token at the end of the sentence, as in spaCy's tokenizer.
        A Doc does not end with a blank line.
    props: PropBank columns of the same sentences (`roles.propositions.read_props`), for
        `doc.spans["srl"]`. The first column names the document of each sentence: a Doc is then a
        document, otherwise a sentence.
    include, exclude: files with one document name per line.
    tags: whether the predicted Docs have the tags of the corpus, for a component that is trained
        alone.
    spans: span groups that the predicted Docs have too, for components that read them, such as
        ["constituents"].
    Raises StructlearnError for missing or malformed files, if the files do not fit together, and
    for `tags` if the pipeline has a tagger.
    """

    def read(nlp: Language) -> Iterator[Example]:
        check_tags(nlp, tags)
        documents = read_treebank(nlp.vocab, path, spaces=spaces, props=props)
        wanted = _names(include)
        unwanted = _names(exclude) or set()
        for name, doc in documents:
            if (wanted is None or name in wanted) and name not in unwanted:
                yield to_example(doc, tags=tags, spans=spans or ())

    return read


class _Gold(NamedTuple):
    document: str
    raw: Tree  # in the file
    tree: Tree
    digits: str | None  # one of `spaces` for each word
    propositions: Sequence[Proposition] | None


def read_treebank(
    vocab: Vocab,
    path: Path | None,
    *,
    spaces: Path | None = None,
    props: Path | None = None,
    dropped: Counter[tuple[str, str]] | None = None,
) -> Iterator[tuple[str, Doc]]:
    """Iterate over the documents of a treebank as (name, gold Doc), see `create_treebank_reader`.

    Without `props` the name is the number of the sentence. If `props` is `path`, the trees are
    those of its parse bits.
    dropped: counts the labels that lose their function tags, as ("NP-SBJ", "NP").
    """
    blocks = list(read_props(existing(props))) if props else None
    if blocks is not None and props == path:
        trees: Iterable[Tree] = [block.tree for block in blocks]
    else:
        trees = read_trees(existing(path))
    marks = lines(spaces) if spaces else None
    gold: list[_Gold] = []
    for number, (raw, block, mark) in enumerate(zip_longest(trees, blocks or (), marks or ())):
        short = props if blocks is not None and None in (raw, block) else None
        short = short or (spaces if marks is not None and None in (raw, mark) else None)
        if short or raw is None:
            other = short or props or spaces
            raise StructlearnError("SL012", path=path, other=other, number=number + 1)
        tree = normalize(raw)
        if tree is None:
            continue
        if dropped is not None:
            dropped.update(_with_functions(raw))
        digits = None if mark is None else mark.strip()
        if digits is not None and len(digits) != len(tree.words()):
            raise StructlearnError("SL012", path=path, other=spaces, number=number + 1)
        if digits is not None and not set(digits) <= {NOTHING, BLANK, BLANK_LINE}:
            raise StructlearnError("SL038", path=spaces, line=number + 1, text=digits[:40])
        if block is None or props is None:
            gold.append(_Gold(str(number), raw, tree, digits, None))
        else:
            _check_words(tree.words(), block.words, props, path, number)
            gold.append(_Gold(block.document, raw, tree, digits, block.propositions))
    for name, group in groupby(gold, key=lambda sentence: sentence.document):
        yield name, _gold_doc(vocab, list(group))


def _with_functions(raw: Tree) -> Iterator[tuple[str, str]]:
    tree = normalize(raw, strip_functions=False)
    for node in () if tree is None else tree.subtrees():
        if not node.is_leaf:
            label = _INDEX.sub("", node.label)
            if (left := strip_function(label)) != label:
                yield label, left


def _gold_doc(vocab: Vocab, sentences: Sequence[_Gold]) -> Doc:
    tokens: list[tuple[str, str, bool]] = []
    lengths: list[int] = []
    chunks: list[Bracket] = []
    brackets: list[Bracket] = []
    attachments: list[Bracket] = []
    frames: list[PlainFrame] = []
    for _, raw, tree, digits, propositions in sentences:
        own = list(_tokens(tree, digits))
        numbered = enumerate(own, len(tokens))
        positions = [index for index, (text, _, _) in numbered if text != PARAGRAPH_BREAK]
        tokens += own
        lengths.append(len(own))
        # Without the root, which is the same in every tree.
        brackets += _placed(tree.spans()[1:], positions)
        chunks += _placed((("NP", *chunk) for chunk in base_noun_phrases(tree)), positions)
        attachments += _placed(_site_spans(raw), positions)
        frames += _plain_frames(propositions or (), positions)
    if tokens[-1][0] == PARAGRAPH_BREAK:
        tokens.pop()
        lengths[-1] -= 1
    words, tags, spacing = map(list, zip(*tokens, strict=True))
    doc = Doc(
        vocab,
        words=words,
        spaces=None if sentences[0].digits is None else spacing,
        tags=tags,
        sent_starts=starts_of(lengths),
    )
    set_spans(doc, NP_CHUNKS, chunks)
    set_spans(doc, CONSTITUENTS, brackets)
    set_spans(doc, PP_ATTACHMENTS, attachments)
    if any(sentence.propositions is not None for sentence in sentences):
        set_spans(doc, SRL, frame_spans(frames))
    return doc


def _site_spans(raw: Tree) -> Iterator[Bracket]:
    """Iterate over the spans of the attachments of a tree with function tags, in words."""
    # Traces do not count.
    before = [0, *accumulate(tag != EMPTY_TAG for tag in raw.tags())]
    for label, start, end in site_spans(sites(raw)):
        yield label, before[start], before[end]


def _tokens(tree: Tree, digits: str | None) -> Iterator[tuple[str, str, bool]]:
    """Iterate over words and blank lines: text, tag or "", and whether a space follows."""
    words = tree.words()
    for word, tag, digit in zip(words, tree.tags(), digits or NOTHING * len(words), strict=True):
        yield word, tag, digit == BLANK
        if digit == BLANK_LINE:
            yield PARAGRAPH_BREAK, "", False


def _placed(
    spans: Iterable[tuple[str, int, int]], positions: Sequence[int]
) -> Iterator[tuple[str, int, int]]:
    """Convert spans of words to spans of tokens. positions: the token of each word."""
    return ((label, positions[s], positions[e - 1] + 1) for label, s, e in spans)


def _plain_frames(
    propositions: Iterable[Proposition], positions: Sequence[int]
) -> Iterator[PlainFrame]:
    """Convert propositions to frames over tokens. positions: the token of each word."""
    for proposition in propositions:
        arguments = _placed(proposition.roles, positions)
        yield (
            positions[proposition.predicate],
            proposition.roleset,
            [(label.removesuffix(SPLIT), start, end) for label, start, end in arguments],
        )


def _check_words(
    wanted: Sequence[str], found: Sequence[str], props: Path, trees: Path | None, index: int
) -> None:
    for place, (word, other) in enumerate(zip_longest(wanted, found)):
        if word != other:
            blank = [True, *(not line.strip() for line in lines(props))]
            firsts = [n for n in range(1, len(blank)) if blank[n - 1] and not blank[n]]
            raise StructlearnError(
                "SL034",
                path=props,
                line=firsts[index] + place,
                number=index + 1,
                found="no token" if other is None else repr(other),
                wanted="no token" if word is None else repr(word),
                trees=trees,
            )


def _names(path: Path | None) -> set[str] | None:
    return None if path is None else {line.strip() for line in lines(path)} - {""}
