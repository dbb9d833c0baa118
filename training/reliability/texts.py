"""Fuzz readers of files, and pipelines with odd texts, odd tokens and partial annotation."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import spacy
import srsly
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span, SpanGroup

import spacy_structlearn
from spacy_structlearn.attachment.sites import sites
from spacy_structlearn.display.page import page
from spacy_structlearn.display.trees import tree_latex, tree_svg, tree_text
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.extensions.matcher import ConstituentMatcher
from spacy_structlearn.pipeline.readers import (
    create_conll_chunks_reader,
    create_docbin_reader,
    create_pp_quadruples_reader,
    create_treebank_reader,
)
from spacy_structlearn.trees.brackets import parse_tree, read_trees
from spacy_structlearn.trees.chunks import base_noun_phrases
from spacy_structlearn.trees.normalize import normalize
from training.reliability.mutations import Choices, changed_bytes
from training.reliability.small_pipelines import ENDS, SAMPLE, TEXT

LAYERS = ("np_chunks", "constituents", "pp_attachments", "srl")
KEYS = (*LAYERS, "constituent_tags", "parse_failures")
ROUNDING = 1e-5
UNMET = ("SL001", "SL026")  # missing annotation of another component
MOST_ITEMS = 50  # of a file
LONG_SHARE = 400  # every 400th document is long
LONG_TOKEN, LONG_SENTENCE = 100_000, 5_000


# --- readers --------------------------------------------------------------------------------------
def readers(folder: Path) -> dict[str, Callable[[Choices], Any]]:
    """Return targets: a reader for each format, and for other texts. folder: for their files."""
    nlp = spacy.blank("en")
    trees = (SAMPLE / "sample.trees").read_bytes().split(b"\n")[:12]
    trees.append(b"( (S (NP-SBJ-1 (PRP I)) (VP (VBD ran))) )")
    beside = {}  # three sentences
    for kind, end in ENDS.items():
        blocks = (SAMPLE / f"sample.{kind}").read_text("utf8").split(end)[:3]
        beside[kind] = "".join(block + end for block in blocks).encode()
    gold = [eg.reference for eg in islice(create_treebank_reader(SAMPLE / "sample.trees")(nlp), 3)]
    docbin = DocBin(docs=gold, store_user_data=True).to_bytes()

    def write(data: bytes, suffix: str) -> Path:
        path = folder / f"file{suffix}"
        path.write_bytes(data)
        return path

    def file(create: Callable, suffix: str = ".txt", **settings: Any) -> Callable[[bytes], list]:
        return lambda data: [*islice(create(write(data, suffix), **settings)(nlp), MOST_ITEMS)]

    def treebank(part: str) -> Callable[[bytes], None]:
        def read(data: bytes) -> None:
            files = {k: write(data if k == part else text, f".{k}") for k, text in beside.items()}
            files["path"] = files.pop("trees")
            for example in islice(create_treebank_reader(**files)(nlp), MOST_ITEMS):
                check_trees(example.reference)

        return read

    def brackets(data: bytes) -> None:
        whole, lines = [], data.decode(errors="replace").splitlines(keepends=True)
        for tree in islice(read_trees(lines), MOST_ITEMS):
            if parse_tree(str(tree)) != tree:
                raise AssertionError(f"another tree is read back: {str(tree)[:80]}")
            whole += [one for one in [normalize(tree)] if one is not None]
        for tree in whole:
            base_noun_phrases(tree)
            sites(tree)
            for draw in (tree_text, tree_svg, tree_latex):
                draw(tree)
        score_trees(whole, whole[::-1])

    def tregex(data: bytes) -> None:
        matcher = ConstituentMatcher(nlp.vocab)
        matcher.add("pattern", data.decode(errors="replace"))
        matcher.count(gold)

    docbins = file(create_docbin_reader, ".spacy", spans=["constituents"])
    conll = b"He PRP B-NP\nsaw VBD B-VP\nthe DT B-NP\n\n-DOCSTART- -X- O\nRun VB O\n"
    patterns = (b"NP < (PP=pp < IN) $+ VP", b"S <1 NP|VP !<< /^VB.*/ & <: __")
    table: dict[str, tuple[Sequence[bytes], Callable]] = {
        "brackets": (trees, brackets),
        "conll": ([conll], file(create_conll_chunks_reader)),
        "quadruples": ([b"0 ate pizza with fork V\n"], file(create_pp_quadruples_reader)),
        "docbin": ([docbin], docbins),
        "content": ([zlib.decompress(docbin)], lambda data: docbins(zlib.compress(data, 1))),
        **{kind: ([text], treebank(kind)) for kind, text in beside.items()},
        "tregex": (patterns, tregex),
    }

    def read_changed(choices: Choices, seeds: Sequence[bytes], read: Callable) -> None:
        read(changed_bytes(choices.one_of(seeds), choices))

    return {name: partial(read_changed, seeds=row[0], read=row[1]) for name, row in table.items()}


# --- documents ------------------------------------------------------------------------------------
WORDS = tuple(f"{TEXT} \" , ( ) it and they who n't 's 3.5 % $".replace(".", " .").split())
ODD = (
    "", "\x00", "\x7f", "\x85", "\u00a0", "\u00ad", "\u200b", "\u202e", "\u2028", "\ufeff",
    "\u0301", "e\u0301\u0301", "\u05e9\u05dc", "\u0627\u0644", "\u6771\u4eac", "\U0001f355",
    "\U0001f468\u200d\U0001f469", "\u0130", "\u1e9e", "((S", "[", "-LRB-", "<b>", "&amp;",
    "\\", "{0}", "%s", "_", "''", "``", "http://a.b/c?d=e#f", "1e999", "NaN", "-inf",
)  # fmt: skip
SPACES = (" ", "  ", "\n", "\n\n", "\t", "\r\n", "\u2003", "\u3000")
TAGS = ("NN", "VBD", "DT", "IN", "PRP", ".", "", "XX", "_SP", "-LRB-", "NOT A TAG", "\U0001f355")
LABELS = ("NP", "S", "VP", "PP", "V", "N", "ARG0", "verb", "", "\U0001f355", "TOP")


def random_word(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.9:
        return (rng.choice(WORDS) if kind < 0.7 else "") + (rng.choice(ODD) if kind > 0.6 else "")
    characters = (chr(rng.randrange(rng.choice((0x80, 0x3000, 0x110000)))) for _ in range(4))
    return "".join(one for one in characters if not "\ud800" <= one < "\ue000")


def random_text(rng: random.Random) -> str:
    if rng.randrange(LONG_SHARE) == 0:
        repeated = rng.choice(("x", "1", "a-", " ", "\n", "( ", ", ", "and ", "the ", ". "))
        size = LONG_TOKEN if len(repeated) < 2 else LONG_SENTENCE
        return f"She saw {repeated * size} and left."
    words = (random_word(rng) for _ in range(rng.randrange(25)))
    return "".join(w + (rng.choice(SPACES) if rng.random() < 0.1 else " ") for w in words)


def random_doc(nlp: Language, rng: random.Random) -> Doc:
    """Return a Doc, possibly with its own tags, sentence boundaries and span groups."""
    words = [random_word(rng) or "x" for _ in range(rng.randrange(14))]
    n, kind = len(words), rng.randrange(4)
    tags = [rng.choice(TAGS[:6] if kind == 1 else TAGS) for _ in words] if kind else None
    starts: Any = [None, [i == 0 for i in range(n)], [rng.random() < 0.3 for _ in range(n)]]
    spaces = None if rng.random() < 0.5 else [rng.random() < 0.7 for _ in words]
    doc = Doc(nlp.vocab, words=words, spaces=spaces, tags=tags, sent_starts=rng.choice(starts))
    for key in KEYS if n else ():
        if rng.random() < 0.1:
            spans = [random_span(doc, rng) for _ in range(rng.randrange(5))]
            scores = [rng.random() for _ in range(len(spans) + rng.randrange(2))]
            doc.spans[key] = SpanGroup(doc, name=key, spans=spans, attrs={"scores": scores})
    return doc


def random_span(doc: Doc, rng: random.Random) -> Span:
    start = rng.randrange(len(doc))
    return Span(doc, start, rng.randrange(start, len(doc)) + 1, label=rng.choice(LABELS))


# --- pipelines ------------------------------------------------------------------------------------
class Pipelines:
    """A target: batches of documents in one of some pipelines."""

    def __init__(self, pipelines: Sequence[Language], batch: int):
        self.pipelines, self.batch = pipelines, batch

    def __call__(self, choices: Choices) -> None:
        rng = random.Random(choices.data)
        nlp = rng.choice(self.pipelines)
        inputs = [
            random_text(rng) if rng.random() < 0.7 else random_doc(nlp, rng)
            for _ in range(self.batch)
        ]
        for one in inputs:
            annotated = isinstance(one, Doc) and any(key in one.spans for key in KEYS)
            try:
                doc = nlp(one)
            except StructlearnError as error:
                # Groups of other components may be refused.
                if not annotated and error.code not in UNMET:
                    raise
                continue
            if not annotated:
                check_spans(doc)
                check_trees(doc)
                srsly.json_dumps(spacy_structlearn.as_dict(doc))
                self.look(nlp, doc, rng)

    def look(self, nlp: Language, doc: Doc, rng: random.Random) -> None:
        """Read, store and draw a Doc, each in its share of cases."""
        if rng.random() < 0.2:
            check_getters(doc, [random_span(doc, rng) for _ in range(4)] if len(doc) else [])
        if rng.random() < 0.1:
            again = Doc(nlp.vocab).from_bytes(doc.to_bytes())
            if _spans(again) != _spans(doc):
                raise AssertionError("other spans after to_bytes and from_bytes")
        if rng.random() < 0.05 and len(doc.text) < LONG_SENTENCE:
            page([doc])
        for name in ("k_best", "n_best") if len(doc) < LONG_SENTENCE else ():
            for _, component in nlp.pipeline:
                if hasattr(component, name) and rng.random() < 0.05:
                    with suppress(StructlearnError):  # such as a Doc of several sentences
                        getattr(component, name)(doc, rng.randrange(1, 5))


# --- what must hold -------------------------------------------------------------------------------
def _spans(doc: Doc) -> list[tuple]:
    return [(s.label_, s.start, s.end) for key in KEYS if key in doc.spans for s in doc.spans[key]]


def check_spans(doc: Doc) -> None:
    """Raise AssertionError unless the span groups of our layers are valid."""
    for key in LAYERS:
        group = doc.spans[key] if key in doc.spans else SpanGroup(doc)
        bounds = [(span.start, span.end) for span in group]
        scores = group.attrs.get("scores", [1] * len(group))
        problems = {
            "no tokens": any(start >= end for start, end in bounds),
            "scores of other spans": len(scores) != len(group),
            "other scores than probabilities": not all(map(_is_probability, scores)),
            "overlap": key == "np_chunks" and any(a[1] > b[0] for a, b in pairwise(bounds)),
            "other than pre-order": key == "constituents"
            and bounds != sorted(bounds, key=lambda bound: (bound[0], -bound[1])),
        }
        if found := [problem for problem, is_there in problems.items() if is_there]:
            raise AssertionError(f"{key}: {found} in {bounds}, {scores[:20]}")


def _is_probability(value: float) -> bool:
    return bool(-ROUNDING <= value <= 1 + ROUNDING)


def check_trees(doc: Doc) -> None:
    """Raise AssertionError unless each sentence has one tree over its words, if there are trees."""
    for sentence in extensions.sentences(doc) if "constituents" in doc.spans else ():
        words = [token.text for token in sentence if not token.is_space]
        tree = extensions.tree(sentence) if words else None
        if words != (tree.words() if tree else []):
            raise AssertionError(f"{words} and {tree}")


def check_getters(doc: Doc, spans: list[Span]) -> None:
    """Read each attribute of the Doc, its sentences, some spans and the first tokens.

    Raises AssertionError for an invalid probability, and exceptions of getters but SL021.
    """
    parts: list[Any] = [doc, *extensions.sentences(doc), *spans, *list(doc)[:60]]
    for part in parts:
        for getter in extensions.GETTERS[type(part)]:
            try:
                value = getter(part)
            except StructlearnError as error:
                if error.code != "SL021":  # no constituent
                    raise
                continue
            if hasattr(value, "__next__"):
                list(value)
            is_number = getter.__name__.endswith("_prob") and value is not None
            if is_number and not _is_probability(value):
                raise AssertionError(f"{getter.__name__}: {value}")
