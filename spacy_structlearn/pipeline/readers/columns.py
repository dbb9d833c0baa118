"""Columns: chunks of CoNLL-2000 and quadruples of PP attachment are read; PropBank's, written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ...attachment.sites import NOUN, VERB, Site
from ...display.frames import frame_columns, plain_frame
from ...display.html import ShownSentence, by_layer, sentences
from ...errors import StructlearnError
from ...evaluation.conlleval import chunks
from ...groups import CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS, SRL
from ...roles.propositions import PlainFrame, parse_bits
from ...trees.tree import Tree, escape
from ..extensions import Frame, constituent_tags, np_iob, set_spans, site_spans, trees
from ..extensions.brackets import ROOT
from .examples import Reader, check_tags, lines, starts_of, to_example

# A quadruple as a parser would annotate it that leaves the attachment of the phrase open.
TAGS = ["VB", "NN", "IN", "NN"]
SPANS = {
    CONSTITUENTS: [("VP", 0, 4), ("NP", 1, 2), ("PP", 2, 4), ("NP", 3, 4)],
    NP_CHUNKS: [("NP", 1, 2), ("NP", 3, 4)],
}


def create_conll_chunks_reader(
    path: Path | None, types: list[str] | None = None, tags: bool = True
) -> Reader:
    """Read chunks in the columns of CoNLL-2000: word, tag, IOB chunk tag; a Doc is one sentence.

    path: the file, plain or .gz.
    types: the chunk types to keep. None: ["NP"].
    tags: see `create_treebank_reader`.
    Raises StructlearnError for a missing file and for a line without three columns.
    """
    kept = set(types or ["NP"])

    def read(nlp: Language) -> Iterator[Example]:
        check_tags(nlp, tags)
        for rows in read_conll_columns(path):
            words, own, iob = map(list, zip(*rows, strict=True))
            doc = Doc(nlp.vocab, words=words, tags=own, sent_starts=starts_of([len(words)]))
            spans = [span for span in chunks(iob) if span[0] in kept]
            set_spans(doc, NP_CHUNKS, spans)
            yield to_example(doc, tags=tags)

    return read


def create_pp_quadruples_reader(path: Path | None) -> Reader:
    """Read quadruples in the format of Ratnaparkhi, Reynar & Roukos (1994).

    The columns are: number, verb, noun, preposition, noun, and V or N. Each becomes a Doc of four
    tokens. The predicted Docs have constituents, NP chunks and tags of a verb phrase that leaves
    the attachment open, so that pp_attacher finds one site in each.
    path: the file, plain or .gz.
    Raises StructlearnError for a missing file and for a malformed line.
    """

    def read(nlp: Language) -> Iterator[Example]:
        for words, label in read_pp_quadruples(path):
            doc = Doc(nlp.vocab, words=words, tags=TAGS, sent_starts=starts_of([4]))
            set_spans(doc, PP_ATTACHMENTS, site_spans([Site(0, 1, 2, 3, 2, 4, label)]))
            example = to_example(doc)
            for key, spans in SPANS.items():
                set_spans(example.predicted, key, spans)
            yield example

    return read


def read_pp_quadruples(path: Path | None) -> Iterator[tuple[list[str], str]]:
    """Iterate over quadruples as (verb, noun, preposition, noun) and label."""
    for number, line in enumerate(lines(path), 1):
        fields = line.split()
        if len(fields) == 6 and fields[-1] in (VERB, NOUN):
            yield fields[1:5], fields[5]
        elif fields:
            raise StructlearnError("SL028", path=path, line=number, text=line.strip()[:40])


def read_conll_columns(path: Path | None) -> Iterator[list[tuple[str, str, str]]]:
    """Iterate over sentences as lists of (word, tag, chunk tag)."""
    rows: list[tuple[str, str, str]] = []
    for number, line in enumerate(lines(path), 1):
        fields = line.split()
        if not fields or fields[0] == "-DOCSTART-":
            if rows:
                yield rows
            rows = []
        elif len(fields) != 3:
            raise StructlearnError("SL011", path=path, line=number, found=len(fields))
        elif fields[2].partition("-")[0] not in ("B", "I", "O"):
            raise StructlearnError("SL126", path=path, line=number, tag=fields[2])
        else:
            rows.append((fields[0], fields[1], fields[2]))
    if rows:
        yield rows


def column_lines(doc: Doc, number: int) -> Iterator[str]:
    """Yield the columns of a Doc: those of PropBank, or of CoNLL-2000 without trees and frames.

    number: its name in PropBank's columns. Raises SL117 if overlapping frames do not fit.
    """
    of_propbank = CONSTITUENTS in doc.spans or SRL in doc.spans
    yield from _propbank(doc, number) if of_propbank else _conll2000(doc)


def _conll2000(doc: Doc) -> Iterator[str]:
    """Yield the columns word, tag and chunk."""
    for sentence in sentences(doc):
        tags = constituent_tags(doc, sentence.positions)
        for i, tag in zip(sentence.positions, tags, strict=True):
            iob = np_iob(doc[i])
            chunk = f"{iob}-NP" if iob in ("B", "I") else "O"
            yield "\t".join((_cell(doc[i].text), _cell(tag), chunk))
        yield ""


def _propbank(doc: Doc, number: int) -> Iterator[str]:
    """Yield the columns that `roles.propositions.read_props` reads.

    Without a parser, each sentence is a flat tree, as in CoNLL-2012.
    """
    shown = by_layer(doc, "frames")
    if CONSTITUENTS in doc.spans:
        found = trees(doc)
    else:
        found = tuple(
            Tree(ROOT, map(Tree.leaf, constituent_tags(doc, own.positions), own.words()))
            for own, _ in shown
        )
    for index, ((sentence, layers), tree) in enumerate(zip(shown, found, strict=True)):
        frames = plain_frames(sentence, layers)
        words = tree.words()
        lemmas = ["-"] * len(words)
        for predicate, roleset, _ in frames:
            token = doc[sentence.positions[predicate]]
            lemma = _cell((roleset or "").rpartition(".")[0] or token.lemma_ or token.lower_)
            lemmas[predicate] = "_" if lemma == "-" else lemma
        columns = (words, tree.tags(), parse_bits(tree), lemmas, frame_columns(len(words), frames))
        for place, (word, tag, bit, lemma, cells) in enumerate(zip(*columns, strict=True)):
            row = (number, index, place, _cell(escape(word)), _cell(tag), bit, lemma, *cells)
            yield "\t".join(map(str, row))
        yield ""


def plain_frames(
    sentence: ShownSentence, layers: Mapping[str, Sequence[Frame]]
) -> list[PlainFrame]:
    """Return the frames of a sentence of `display.html.by_layer` over its words."""
    return [
        plain_frame(frame, sentence.positions)
        for frame in layers.get("frames", ())
        if not frame.predicate[0].is_space
    ]


def _cell(text: str) -> str:
    """Replace white space, which separates columns."""
    return "_".join(text.split())
