"""An annotated sentence as plain data over its words, from a Doc and back.

`as_dict` has characters, and cannot be read back. White space, which no tree has, is left out here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from spacy.tokens import Doc
from spacy.vocab import Vocab

from ...attachment.sites import sites
from ...display.html import by_sentence, sentences
from ...groups import CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS, SRL
from ...roles.propositions import PREDICATE
from ...trees.tree import Tree
from ..extensions import constituent_tags, frame_spans, set_spans, site_spans
from ..extensions.brackets import ROOT
from ..extensions.span_groups import N_TOKENS


class Gold(NamedTuple):
    """An annotated sentence of n words; ends are exclusive.

    spaces: whether white space follows a word. brackets: (label, start, end) in pre-order, without
    the root. chunks: (start, end). frames: (predicate, roleset or None, arguments as brackets).
    """

    words: Sequence[str]
    spaces: Sequence[bool]
    tags: Sequence[str] = ()
    brackets: Sequence[tuple[str, int, int]] = ()
    chunks: Sequence[tuple[int, int]] = ()
    frames: Sequence[tuple[int, str | None, Sequence[tuple[str, int, int]]]] = ()

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Gold:
        """Make it of JSON with the same names, to which `_asdict` is the inverse."""
        return cls(*(_tuples(data[name]) for name in cls._fields if name in data))

    @property
    def tree(self) -> Tree:
        """The tree, with the root."""
        return Tree.from_spans(self.words, self.tags, [(ROOT, 0, len(self.words)), *self.brackets])


def _tuples(data: Any) -> Any:
    return tuple(map(_tuples, data)) if isinstance(data, (list, tuple)) else data


def doc_of(vocab: Vocab, golds: Sequence[Gold]) -> Doc:
    """Make a gold Doc of sentences that follow one another. The trees tell PP attachments."""
    texts: Any = ([own for gold in golds for own in gold[part]] for part in range(3))
    words, spaces, tags = texts
    starts: Any = [place == 0 for gold in golds for place in range(len(gold.words))]
    doc = Doc(vocab, words=words, spaces=spaces, tags=tags, sent_starts=starts)
    found: dict[str, list[Any]] = {NP_CHUNKS: [], CONSTITUENTS: [], PP_ATTACHMENTS: [], SRL: []}
    at = 0
    for gold in golds:
        own: Any = (
            (("NP", *chunk) for chunk in gold.chunks),
            gold.brackets,
            site_spans(sites(gold.tree)),
            frame_spans(gold.frames),
        )
        for rows, spans in zip(found.values(), own, strict=True):
            rows += [(label, at + i, at + j, *rest) for label, i, j, *rest in spans]
        at += len(gold.words)
    for key, rows in found.items():
        set_spans(doc, key, rows)
    doc.spans[CONSTITUENTS].attrs[N_TOKENS] = len(doc)  # a sentence without brackets has a tree
    return doc


def golds_of(doc: Doc, brackets: str = CONSTITUENTS) -> Iterator[Gold]:
    """Iterate over the sentences of a Doc that have words. White space belongs to the word before.

    brackets: key of the group that has them.
    """
    shown = sentences(doc)
    groups = [
        by_sentence(shown, doc.spans.get(key, ()), lambda span: span.start)
        for key in (brackets, NP_CHUNKS, SRL)
    ]
    for sentence, *own in zip(shown, *groups, strict=True):
        phrases, chunks, roles = (
            [(span.label_, *sentence.place(span), span.kb_id_) for span in spans] for spans in own
        )
        frames: list[Any] = []
        for label, i, j, roleset in roles:
            if label == PREDICATE:
                frames.append((i, roleset or None, []))
            elif frames:
                frames[-1][2].append((label, i, j))
        spaces = [
            bool(doc[i].whitespace_) or (i + 1 < len(doc) and doc[i + 1].is_space)
            for i in sentence.positions
        ]
        data = {"words": sentence.words(), "spaces": spaces, "frames": frames}
        data["tags"] = constituent_tags(doc, sentence.positions)
        data["brackets"] = [bracket[:3] for bracket in phrases]
        yield Gold.of(data | {"chunks": [chunk[1:3] for chunk in chunks]})
