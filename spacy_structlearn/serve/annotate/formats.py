"""Accepted sentences in files, and back: DocBin, brackets, columns of PropBank, JSON of Prodigy.

Prodigy's JSON (https://prodi.gy/docs/api-interfaces) has brackets as spans and roles as relations.
A line that Prodigy itself has made has no tags: its spans are phrases that must be in a tree.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from ...attachment.sites import sites
from ...display.frames import frame_columns
from ...errors import StructlearnError
from ...groups import CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS, SRL
from ...pipeline.extensions import constituent_tags, frame_spans, sentences, set_spans, site_spans
from ...pipeline.extensions.brackets import ROOT
from ...pipeline.extensions.span_groups import scored_group, words_of
from ...pipeline.readers import load_docbin, read_treebank
from ...pipeline.readers.examples import lines, starts_of
from ...roles.propositions import PREDICATE, parse_bits
from ...trees.tree import Tree, escape
from ...writing import write_bytes

FILES = ("accepted.spacy", "accepted.trees", "accepted.spaces", "accepted.conll", "accepted.jsonl")
Json = dict[str, Any]


class Gold(NamedTuple):
    """An annotated sentence over its n words; ends are exclusive.

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


# --- Docs -----------------------------------------------------------------------------------------
def doc_of(vocab: Vocab, golds: Sequence[Gold]) -> Doc:
    """Make a gold Doc of sentences that follow one another. The trees tell PP attachments."""
    texts: Any = ([own for gold in golds for own in gold[part]] for part in range(3))
    words, spaces, tags = texts
    lengths = [len(gold.words) for gold in golds]
    doc = Doc(vocab, words=words, spaces=spaces, tags=tags, sent_starts=starts_of(lengths))
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
    return doc


def golds_of(doc: Doc) -> Iterator[Gold]:
    """Iterate over the sentences of a Doc. White space belongs to the word before it."""
    for sentence in sentences(doc):
        positions = words_of(sentence)
        if not positions:
            continue
        spans = {
            key: [
                (own.label_, *(bisect_left(positions, t) for t in (own.start, own.end)), own.kb_id_)
                for own in doc.spans.get(key, ())
                if sentence.start <= own.start and own.end <= sentence.end
            ]
            for key in (CONSTITUENTS, NP_CHUNKS, SRL)
        }
        frames: list[Any] = []
        for label, i, j, roleset in spans[SRL]:
            if label == PREDICATE:
                frames.append((i, roleset or None, []))
            elif frames:
                frames[-1][2].append((label, i, j))
        yield Gold.of(
            {
                "words": [doc[i].text for i in positions],
                "spaces": [bool(doc[i].whitespace_) or _is_space(doc, i + 1) for i in positions],
                "tags": constituent_tags(doc, positions),
                "brackets": [own[:3] for own in spans[CONSTITUENTS]],
                "chunks": [own[1:3] for own in spans[NP_CHUNKS]],
                "frames": frames,
            }
        )


def scored_brackets(doc: Doc) -> Iterator[tuple[Span, float]]:
    """Iterate over the brackets of a Doc that was parsed, with their probabilities."""
    group, scores = scored_group(doc, CONSTITUENTS)
    return zip(group, () if scores is None else scores.tolist(), strict=False)


def _is_space(doc: Doc, index: int) -> bool:
    return index < len(doc) and doc[index].is_space


# --- files ----------------------------------------------------------------------------------------
def write(folder: Path, documents: Iterable[Sequence[Gold]], vocab: Vocab) -> None:
    """Write FILES. documents: the sentences of each that follow one another.

    Raises StructlearnError if arguments of a frame overlap, because columns cannot have them.
    """
    documents = [*map(list, documents)]
    golds = [gold for own in documents for gold in own]
    numbered = [(n, i, gold) for n, own in enumerate(documents) for i, gold in enumerate(own)]
    texts = (
        (f"{gold.tree}\n" for gold in golds),
        ("".join("01"[space] for space in gold.spaces) + "\n" for gold in golds),
        (f"{line}\n" for own in numbered for line in _columns(*own)),
        (json.dumps(to_prodigy(gold)) + "\n" for gold in golds),
    )
    made = ["".join(own).encode() for own in texts]
    made.insert(0, DocBin(docs=[doc_of(vocab, own) for own in documents]).to_bytes())
    for name, data in zip(FILES, made, strict=True):
        write_bytes(folder / name, data)


def read(nlp: Language, path: Path) -> Iterator[tuple[list[Gold], bool]]:
    """Iterate over the documents of a file, and whether they are fully annotated.

    The format is known by the ending: .spacy, .jsonl, .conll, and brackets for all others. White
    space of the latter two is in a file .spaces beside them, if there is one.
    Raises StructlearnError for a file that is not in its format.
    """
    if path.suffix == ".jsonl":
        for number, line in enumerate(lines(path), 1):
            try:
                data = json.loads(line)
                if data.get("answer", "accept") == "accept":
                    gold = from_prodigy(nlp, data)
                    yield [gold], bool(gold.tags)
            except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
                problem = f"this is not Prodigy's JSON of tokens and spans ({error!r})"
                where = f"{path}, line {number}"
                raise StructlearnError("SL271", what=where, problem=problem) from None
        return
    if path.suffix == ".spacy":
        docs = load_docbin(path).get_docs(nlp.vocab)
    else:
        beside = path.with_suffix(".spaces")
        spaces = beside if beside.exists() else None
        props = path if path.suffix == ".conll" else None
        docs = (doc for _, doc in read_treebank(nlp.vocab, path, spaces=spaces, props=props))
    for doc in docs:
        yield list(golds_of(doc)), CONSTITUENTS in doc.spans


def _columns(number: int, index: int, gold: Gold) -> Iterator[str]:
    """Yield the lines of a sentence that `roles.propositions.read_props` reads."""
    lemmas = ["-"] * len(gold.words)
    for predicate, roleset, _ in gold.frames:
        lemmas[predicate] = (roleset or "").rpartition(".")[0] or gold.words[predicate].lower()
    cells = frame_columns(len(gold.words), gold.frames)
    rows = zip(gold.words, gold.tags, parse_bits(gold.tree), lemmas, cells, strict=True)
    for place, (word, tag, bit, lemma, own) in enumerate(rows):
        yield "\t".join(map(str, (number, index, place, escape(word), tag, bit, lemma, *own)))
    yield ""


def to_prodigy(gold: Gold) -> Json:
    """Return the JSON of a sentence; a predicate is its own relation "V", with its roleset."""
    text, tokens = "", []
    for number, (word, space, tag) in enumerate(
        zip(gold.words, gold.spaces, gold.tags, strict=True)
    ):
        place = {"start": len(text), "end": len(text) + len(word), "id": number}
        tokens.append({"text": word, **place, "ws": space, "tag": tag})
        text += word + " " * space

    def span(label: str, start: int, end: int) -> Json:
        chars = {"start": tokens[start]["start"], "end": tokens[end - 1]["end"]}
        return chars | {"token_start": start, "token_end": end - 1, "label": label}

    relations = [
        {"head": verb, "child": end - 1, "label": label}
        | {"head_span": span(roleset or "", verb, verb + 1), "child_span": span(label, start, end)}
        for verb, roleset, arguments in gold.frames
        for label, start, end in [(PREDICATE, verb, verb + 1), *arguments]
    ]
    spans = [span(*own) for own in gold.brackets]
    chunks = {"np_chunks": [span("NP", *own) for own in gold.chunks]}
    return {"text": text, "tokens": tokens, "spans": spans, "relations": relations, **chunks}


def from_prodigy(nlp: Language, data: Json) -> Gold:
    """Read the JSON of a sentence; without tokens, they are those of the tokenizer."""
    tokens = data.get("tokens") or [
        {"text": own.text, "start": own.idx, "end": own.idx + len(own), "ws": own.whitespace_}
        for own in nlp.make_doc(data["text"])
    ]
    begins = {own["start"]: number for number, own in enumerate(tokens)}
    ends = {own["end"]: number + 1 for number, own in enumerate(tokens)}

    def place(span: Json) -> tuple[int, int]:
        return begins[span["start"]], ends[span["end"]]

    frames: list[Any] = []
    for own in data.get("relations", ()):
        head, (start, end) = own["head_span"], place(own["child_span"])
        if own["label"] == PREDICATE:
            frames.append((start, head["label"] or None, []))
        elif frames and frames[-1][0] == begins[head["start"]]:
            frames[-1][2].append((own["label"], start, end))
    brackets = [(own["label"], *place(own)) for own in data.get("spans") or ()]
    return Gold.of(
        {
            "words": [own["text"] for own in tokens],
            "spaces": [bool(own.get("ws", True)) for own in tokens],
            "tags": [own["tag"] for own in tokens] if all("tag" in own for own in tokens) else [],
            "brackets": sorted(brackets, key=lambda own: (own[1], -own[2])),
            "chunks": [place(own) for own in data.get("np_chunks", ())],
            "frames": frames,
        }
    )
