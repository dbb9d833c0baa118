"""Readers for `[corpora]`: from files to Examples whose predicted Docs have the gold tokens.

spaCy's own Corpus drops span groups when it splits documents, so treebanks are read by these. The
reference Doc has every layer of the file. The predicted Doc has its words, spaces, sentence
boundaries and, with `tags`, its tags: these are for a component that is trained alone, on the tags
of the corpus. They should be predicted ones, as in CoNLL-2000, because at run time they are. If the
pipeline has a tagger, they would pass for its predictions, so this is refused; `cross_prediction`
predicts the tags instead.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby, islice, tee, zip_longest
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.vocab import Vocab

from ..attachment.sites import NOUN, VERB, Site, sites
from ..errors import StructlearnError
from ..evaluation.conlleval import chunks
from ..reading import check_zlib, read_bytes
from ..roles.propositions import SPLIT, PlainFrame, Proposition, read_props
from ..trees.brackets import read_trees, text_lines
from ..trees.chunks import base_noun_phrases
from ..trees.normalize import normalize, strip_function
from ..trees.tree import Tree
from .batch_trainable import BatchTrainable
from .extensions import (
    CONSTITUENT_TAGS,
    CONSTITUENTS,
    NP_CHUNKS,
    PP_ATTACHMENTS,
    SRL,
    frame_spans,
    site_spans,
)
from .extensions import set_spans as set_gold_spans

Reader = Callable[[Language], Iterator[Example]]

# White space after a token, in a file of `spaces`.
NOTHING, BLANK, BLANK_LINE = "012"
PARAGRAPH_BREAK = "\n\n"
_INDEX = re.compile(r"[-=]\d+")  # of a trace, in a label

# A quadruple as a parser would annotate it that leaves the attachment of the phrase open.
QUADRUPLE = {
    "tags": ["VB", "NN", "IN", "NN"],
    CONSTITUENTS: [("VP", 0, 4), ("NP", 1, 2), ("PP", 2, 4), ("NP", 3, 4)],
    NP_CHUNKS: [("NP", 1, 2), ("NP", 3, 4)],
}


def create_conll_chunks_reader(
    path: Path | None,
    types: list[str] | None = None,
    start: int = 0,
    stop: int | None = None,
    tags: bool = True,
) -> Reader:
    """Read chunks in the columns of CoNLL-2000: word, tag, IOB chunk tag; a Doc is one sentence.

    path: the file, plain or .gz.
    types: the chunk types to keep. None: ["NP"].
    start, stop: a slice of the sentences.
    tags: see `create_treebank_reader`.
    Raises StructlearnError for a missing file and for a line without three columns.
    """
    kept = set(types or ["NP"])

    def read(nlp: Language) -> Iterator[Example]:
        _check_tags(nlp, tags)
        for rows in islice(read_conll_columns(path), start, stop):
            words, own, iob = zip(*rows, strict=True)
            doc = Doc(nlp.vocab, words=words, tags=own, sent_starts=_starts([len(words)]))
            spans = [span for span in chunks(iob) if span[0] in kept]
            set_gold_spans(doc, NP_CHUNKS, spans)
            yield to_example(doc, tags=tags)

    return read


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
        _check_tags(nlp, tags)
        documents = read_treebank(nlp.vocab, path, spaces=spaces, props=props)
        wanted = _names(include)
        unwanted = _names(exclude) or set()
        for name, doc in documents:
            if (wanted is None or name in wanted) and name not in unwanted:
                yield to_example(doc, tags=tags, spans=spans or ())

    return read


def create_docbin_reader(
    path: Path | None, tags: bool = True, spans: list[str] | None = None
) -> Reader:
    """Read Docs with span groups from a .spacy file, whole and with their own tokens.

    tags, spans: see `create_treebank_reader`.
    Raises StructlearnError for a missing file, for a file that is not a DocBin, and for `tags` if
    the pipeline has a tagger.
    """

    def read(nlp: Language) -> Iterator[Example]:
        _check_tags(nlp, tags)
        for doc in _read_docbin(path, nlp.vocab):
            with _of_docbin(path):  # with strings or spans that do not exist
                example = to_example(doc, tags=tags, spans=spans or ())
            yield example

    return read


def create_pp_quadruples_reader(
    path: Path | None, start: int = 0, stop: int | None = None
) -> Reader:
    """Read quadruples in the format of Ratnaparkhi, Reynar & Roukos (1994).

    The columns are: number, verb, noun, preposition, noun, and V or N. Each becomes a Doc of four
    tokens. The predicted Docs have constituents, NP chunks and tags of a verb phrase that leaves
    the attachment open, so that pp_attacher finds one site in each.
    path: the file, plain or .gz.
    start, stop: a slice of the quadruples.
    Raises StructlearnError for a missing file and for a malformed line.
    """

    def read(nlp: Language) -> Iterator[Example]:
        for words, label in islice(read_pp_quadruples(path), start, stop):
            doc = Doc(nlp.vocab, words=words, tags=QUADRUPLE["tags"], sent_starts=_starts([4]))
            set_gold_spans(doc, PP_ATTACHMENTS, site_spans([Site(0, 1, 2, 3, 2, 4, label)]))
            example = to_example(doc)
            for key in (CONSTITUENTS, NP_CHUNKS):
                set_gold_spans(example.predicted, key, QUADRUPLE[key])
            yield example

    return read


def read_treebank(
    vocab: Vocab,
    path: Path,
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
    blocks = read_props(_existing(props)) if props else None
    if blocks and props == path:
        blocks, parsed = tee(blocks)
        annotated = (block.tree for block in parsed)
    else:
        annotated = read_trees(_existing(path))
    # With function tags, which tell what is an object.
    trees = (normalize(tree, strip_functions=False) for tree in annotated)
    marks = _lines(spaces) if spaces else None
    sentences = []
    missing = object()
    columns = zip_longest(trees, blocks or (), marks or (), fillvalue=missing)
    for number, (tree, block, mark) in enumerate(columns):
        bad = props if blocks and missing in (tree, block) else None
        bad = bad or (spaces if marks and missing in (tree, mark) else None)
        if bad or tree is missing:
            raise StructlearnError(
                "SL012", path=path, other=bad or props or spaces, number=number + 1
            )
        if tree is None:
            continue
        if dropped is not None:
            dropped.update(_with_functions(tree))
        digits = mark.strip() if marks else None
        if digits is not None and len(digits) != len(tree.words()):
            raise StructlearnError("SL012", path=path, other=spaces, number=number + 1)
        if digits is not None and not set(digits) <= {NOTHING, BLANK, BLANK_LINE}:
            raise StructlearnError("SL038", path=spaces, line=number + 1, text=digits[:40])
        name, propositions = str(number), None
        if blocks:
            _check_words(tree.words(), block.words, props, path, number)
            name, propositions = block.document, block.propositions
        sentences.append((name, tree, digits, propositions))
    for name, group in groupby(sentences, key=lambda sentence: sentence[0]):
        yield name, _gold_doc(vocab, [sentence[1:] for sentence in group])


def _with_functions(tree: Tree) -> Iterator[tuple[str, str]]:
    """Iterate over the labels with function tags, without indices, and what is left of them."""
    for node in tree.subtrees():
        if not node.is_leaf:
            label = _INDEX.sub("", node.label)
            if (left := strip_function(label)) != label:
                yield label, left


def _gold_doc(
    vocab: Vocab, sentences: list[tuple[Tree, str | None, Sequence[Proposition] | None]]
) -> Doc:
    """Make a Doc of sentences: (tree, digits of `spaces` or None, propositions or None)."""
    tokens, lengths = [], []
    spans, brackets, attachments, frames = [], [], [], []
    for annotated, digits, propositions in sentences:
        tree = normalize(annotated)
        own = list(_tokens(tree, digits))
        numbered = enumerate(own, len(tokens))
        positions = [index for index, (text, _, _) in numbered if text != PARAGRAPH_BREAK]
        tokens += own
        lengths.append(len(own))
        # Without the root, which is the same in every tree.
        brackets += _placed(tree.spans()[1:], positions)
        spans += _placed((("NP", *chunk) for chunk in base_noun_phrases(tree)), positions)
        attachments += _placed(site_spans(sites(annotated)), positions)
        frames += _plain_frames(propositions or (), positions)
    if tokens[-1][0] == PARAGRAPH_BREAK:
        tokens.pop()
        lengths[-1] -= 1
    words, tags, spacing = zip(*tokens, strict=True)
    doc = Doc(
        vocab,
        words=words,
        spaces=None if sentences[0][1] is None else spacing,
        tags=tags,
        sent_starts=_starts(lengths),
    )
    set_gold_spans(doc, NP_CHUNKS, spans)
    set_gold_spans(doc, CONSTITUENTS, brackets)
    set_gold_spans(doc, PP_ATTACHMENTS, attachments)
    if any(propositions is not None for _, _, propositions in sentences):
        set_gold_spans(doc, SRL, frame_spans(frames))
    return doc


def _tokens(tree: Tree, digits: str | None) -> Iterator[tuple[str, str, bool]]:
    """Iterate over words and blank lines of a sentence: text, tag, and whether a space follows.

    The tag of a blank line is "".
    """
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


def to_example(doc: Doc, *, tags: bool = True, spans: Iterable[str] = ()) -> Example:
    """Make an Example of a gold Doc and a predicted Doc that also has its sentence boundaries.

    tags, spans: see `create_treebank_reader`. Missing annotation stays missing.
    """
    predicted = Doc(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=None if doc.has_unknown_spaces else [bool(token.whitespace_) for token in doc],
        sent_starts=(
            [token.is_sent_start for token in doc] if doc.has_annotation("SENT_START") else None
        ),
        tags=[token.tag_ for token in doc] if tags and doc.has_annotation("TAG") else None,
    )
    for key in spans:
        if key in doc.spans:
            predicted.spans[key] = doc.spans[key].copy(doc=predicted)
    return Example(predicted, doc)


def with_gold_tokens(nlp: Language, doc: Doc) -> Example:
    """Pair a gold Doc with its tokens and sentences, as the input of a pipeline.

    The input also has gold tags, trees and chunks if no component of the pipeline makes them.
    """
    made = {name for pipe in nlp.pipe_names for name in nlp.get_pipe_meta(pipe).assigns}
    groups = {"doc._.trees": [CONSTITUENTS, CONSTITUENT_TAGS], "doc._.np_chunks": [NP_CHUNKS]}
    given = [key for name, keys in groups.items() if name not in made for key in keys]
    example = to_example(doc, tags="token.tag" not in made, spans=given)
    with_norms(nlp, example.predicted)
    return example


def with_norms(nlp: Language, doc: Doc) -> Doc:
    """Set the norms of a Doc made from words to those that the tokenizer of `nlp` would set.

    The tokenizer sets special norms ("n't": "not"), which taggers read.
    """
    tokenized = {token.idx: token for token in nlp.make_doc(doc.text)}
    for token in doc:
        same = tokenized.get(token.idx)
        if same is not None and same.text == token.text:
            token.norm_ = same.norm_
    return doc


def read_pp_quadruples(path: Path) -> Iterator[tuple[list[str], str]]:
    """Iterate over quadruples as (verb, noun, preposition, noun) and label."""
    for number, line in enumerate(_lines(path), 1):
        fields = line.split()
        if len(fields) == 6 and fields[-1] in (VERB, NOUN):
            yield fields[1:5], fields[5]
        elif fields:
            raise StructlearnError("SL028", path=path, line=number, text=line.strip()[:40])


def read_conll_columns(path: Path) -> Iterator[list[tuple[str, str, str]]]:
    """Iterate over sentences as lists of (word, tag, chunk tag)."""
    rows: list[tuple[str, str, str]] = []
    for number, line in enumerate(_lines(path), 1):
        fields = line.split()
        if not fields or fields[0] == "-DOCSTART-":
            if rows:
                yield rows
            rows = []
        elif len(fields) != 3:
            raise StructlearnError("SL011", path=path, line=number, found=len(fields))
        else:
            rows.append((fields[0], fields[1], fields[2]))
    if rows:
        yield rows


def load_docbin(path: Path) -> DocBin:
    """Read a .spacy file. Raises StructlearnError if it is missing or not a DocBin."""
    data = read_bytes(_existing(path))
    check_zlib(data, path)
    with _of_docbin(path):
        docbin = DocBin().from_bytes(data)
        # get_docs() silently loses Docs if one of these is too short.
        for part in (docbin.spaces, docbin.cats, docbin.flags, docbin.span_groups):
            if len(part) != len(docbin.tokens):
                raise ValueError("its parts are of different numbers of Docs")
    return docbin


def _read_docbin(path: Path, vocab: Vocab) -> Iterator[Doc]:
    docbin = load_docbin(path)
    with _of_docbin(path):
        yield from docbin.get_docs(vocab)


@contextmanager
def _of_docbin(path: Path) -> Iterator[None]:
    """Convert errors in reading a DocBin."""
    try:
        yield
    except Exception as error:  # of zlib, msgpack, NumPy or spaCy
        problem = " ".join(str(error).split()) or type(error).__name__
        if "E1014" in problem:  # which speaks of an old format of spaCy
            problem = "it is not compressed as a DocBin is"
        raise StructlearnError("SL013", path=path, problem=problem) from error


def _check_words(
    wanted: Sequence[str], found: Sequence[str], props: Path, trees: Path, index: int
) -> None:
    """Raise StructlearnError unless the words of the sentence with this index are equal."""
    for place, (word, other) in enumerate(zip_longest(wanted, found)):
        if word != other:
            blank = [True, *(not line.strip() for line in _lines(props))]
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


def _check_tags(nlp: Language, tags: bool) -> None:
    """Raise StructlearnError if tags of the corpus would pass for predictions of a tagger.

    spaCy's tagger keeps them, and components behind any tagger would be trained on them.
    """
    for name, component in nlp.pipeline if tags else ():
        sets = "token.tag" in nlp.get_pipe_meta(name).assigns
        alone = len(nlp.pipeline) == 1 and isinstance(component, BatchTrainable)
        if sets and getattr(component, "set_tags", True) and not alone:
            raise StructlearnError("SL086", component=name)


def _names(path: Path | None) -> set[str] | None:
    return None if path is None else {line.strip() for line in _lines(path)} - {""}


def _lines(path: Path) -> Iterator[str]:
    """Iterate over the lines of a text file, plain or .gz, which must exist."""
    yield from text_lines(_existing(path))


def _existing(path: Path | None) -> Path:
    # A config without paths is valid, so that `spacy debug config` can check the rest of it.
    if path is None:
        raise StructlearnError("SL091")
    if not Path(path).is_file():
        raise StructlearnError("SL010", path=path)
    return Path(path)


def _starts(lengths: list[int]) -> list[bool]:
    return [index == 0 for length in lengths for index in range(length)]
