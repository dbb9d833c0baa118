"""Docs as lines of `parse` and `apply`: brackets, columns or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from spacy.tokens import Doc

from ...display.chunks import bracketed
from ...display.frames import cut_mark, frame_columns, frame_text, plain_frame, window
from ...display.html import ShownSentence, by_layer, sentences
from ...groups import CONSTITUENTS, SRL
from ...pipeline.extensions import Frame, PPAttachment, constituent_tags, np_iob, trees
from ...pipeline.extensions.as_data import as_dict
from ...pipeline.extensions.brackets import ROOT
from ...roles.propositions import PlainFrame, parse_bits
from ...trees.tree import Tree, escape
from .json_lines import dumps
from .texts import Format


def printed(doc: Doc, format: Format, number: int = 0) -> Iterator[str]:
    """Yield the lines of a Doc; raise SL020 without the trees that are asked for.

    Raises SL117 if overlapping frames do not fit into columns.

    number: its name in PropBank's columns; in CoNLL-U, names are counted from 1.
    """
    if format is Format.trees:
        yield from map(str, trees(doc))
        return
    if format is Format.jsonl:
        yield dumps(as_dict(doc))
        return
    if format is Format.conllu:
        from ...pipeline.universal.conllu import conllu_lines

        yield from conllu_lines(doc, str(number + 1))
        return
    if format is Format.conll:
        of_propbank = CONSTITUENTS in doc.spans or SRL in doc.spans
        yield from _propbank(doc, number) if of_propbank else _conll2000(doc)
        return
    for sentence, layers in by_layer(doc, "np_chunks", "pp_attachments", "frames"):
        words = sentence.words()
        if CONSTITUENTS in doc.spans:
            yield sentence.span._.tree.pretty()
        # White space at the ends of a chunk is left out.
        chunks = [(chunk.label_, *sentence.place(chunk)) for chunk in layers.get("np_chunks", ())]
        yield bracketed(words, sentence.tags(), [chunk for chunk in chunks if chunk[1] < chunk[2]])
        yield from map(_attachment_as_text, layers.get("pp_attachments", ()))
        for predicate, roleset, arguments in _plain_frames(sentence, layers):
            spans = [span[1:] for span in arguments]
            first, last = window(len(words), [*spans, (predicate, predicate + 1)])
            shown = [(label, start - first, end - first) for label, start, end in arguments]
            line = frame_text(words[first:last], predicate - first, roleset, shown)
            yield f"{cut_mark(first)}{line}{cut_mark(len(words) - last)}".strip()


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
        frames = _plain_frames(sentence, layers)
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


def _plain_frames(
    sentence: ShownSentence, layers: Mapping[str, Sequence[Frame]]
) -> list[PlainFrame]:

    return [
        plain_frame(frame, sentence.positions)
        for frame in layers.get("frames", ())
        if not frame.predicate[0].is_space
    ]


def _cell(text: str) -> str:
    """Replace white space, which separates columns."""
    return "_".join(text.split())


def _attachment_as_text(site: PPAttachment) -> str:
    """Format a site as "with -> ate (V 0.93)"."""
    prob = "" if site.prob is None else f" {site.prob:.2f}"
    return f"{site.prep.text} -> {site.head or '?'} ({site.label}{prob})"
