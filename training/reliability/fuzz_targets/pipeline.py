"""Fuzz whole pipelines with unusual Docs: odd text, odd tokens, partial annotation.

The bytes of an input are a seed, which determines Docs, the calls of the pipeline and the checks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import spacy
import srsly
from spacy.language import Language
from spacy.tokens import Doc, Span, SpanGroup

import spacy_structlearn
from spacy_structlearn.display.attachments import attachments_html
from spacy_structlearn.display.chunks import chunks_html
from spacy_structlearn.display.frames import frames_html
from spacy_structlearn.display.page import page
from spacy_structlearn.display.trees import tree_latex, tree_svg, tree_text
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import extensions
from spacy_structlearn.pipeline.doc_trees import reattached

from . import checks
from .workloads import Trained, examples

WORDS = (
    "She", "ate", "the", "pizza", "with", "a", "fork", ".", "He", "gave", "her", "old", "book",
    "to", "me", ",", "and", "they", "left", "in", "May", "!", "The", "man", "who", "sold", "it",
    "was", "seen", "by", "us", '"', "''", "``", "(", ")", "[", "]", "{", "}", "-LRB-", "-RRB-",
    "%", "$", "3.5", "1,000", "n't", "'s", "Although", "running", "quickly", "of", "on", "that",
    "which", "never", "not", "very", "small",
)  # fmt: skip
ODD = (
    "", "\x00", "\x01", "\x7f", "\x85", "\u00a0", "\u00ad", "\u200b", "\u200d", "\u202e", "\u2028",
    "\ufeff", "\ufffd", "\ufffe", "\u0301", "e\u0301\u0301\u0301", "\u05e9\u05dc\u05d5\u05dd",
    "\u0627\u0644\u0639", "\u6771\u4eac", "\u0e01\u0e47", "\U0001f355",
    "\U0001f468\u200d\U0001f469",
    "\U0001f1e9\U0001f1ea", "\U0001d4af", "\u0130", "\u1e9e", "\ufb03", "(", ")",
    "((S", "<b>", "&amp;",
    "\\", "{", "}", "%s", "{0}", "$", "_", "''", "http://a.b/c?d=e#f", "a@b.c",
    "1e999", "NaN", "-inf",
)  # fmt: skip
SPACES = (" ", "  ", "\n", "\n\n", "\t", "\r\n", "\u2003", "\u3000")
TAGS = ("NN", "VBD", "DT", "IN", "PRP", ".", "", "XX", "_SP", "-LRB-", "NOT A TAG", "\U0001f355")
LABELS = ("NP", "S", "VP", "PP", "V", "N", "ARG0", "verb", "", "\U0001f355", "TOP")
KEYS = (
    "np_chunks",
    "constituents",
    "constituent_tags",
    "pp_attachments",
    "srl",
    "sc",
    "parse_failures",
)
BATCH = 32  # documents of an input for the default pipeline
LONG_SHARE = 400  # every 400th input has a long document
SHOWN_SHARE = 0.15  # of documents in the default pipeline that are read in all ways
LONG_TOKEN, LONG_SENTENCE = 100_000, 5_000
UNMET = ("SL001", "SL026")  # missing annotation of another component
DISPLAYED = 60  # maximum number of words of a sentence whose tree is drawn


# --- documents ------------------------------------------------------------------------------------
def word(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.6:
        return rng.choice(WORDS)
    if kind < 0.8:
        return rng.choice(ODD)
    if kind < 0.9:
        return rng.choice(WORDS) + rng.choice(ODD)
    return "".join(character(rng) for _ in range(rng.randrange(1, 6)))


def character(rng: random.Random) -> str:
    """Return any character except for surrogates."""
    limit = rng.choice((0x80, 0x800, 0x3000, 0x10000, 0x110000))
    while True:
        code = rng.randrange(limit)
        if not 0xD800 <= code < 0xE000:
            return chr(code)


def text(rng: random.Random, long: bool) -> str:
    if long:
        kind = rng.randrange(4)
        if kind == 0:
            return f"She saw {rng.choice(('x', '1', 'a-')) * LONG_TOKEN} and left."[:LONG_TOKEN]
        if kind == 1:
            return " ".join(rng.choice(WORDS[:8]) for _ in range(LONG_SENTENCE))
        if kind == 2:
            return rng.choice(SPACES) * LONG_SENTENCE
        return rng.choice(("( ", ", ", "and ", "the ", ". ")) * (LONG_SENTENCE // 2)
    if rng.random() < 0.05:
        return "".join(rng.choice(SPACES) for _ in range(rng.randrange(4)))
    pieces = []
    for _ in range(rng.randrange(1, 25)):
        pieces += (word(rng), rng.choice(SPACES) if rng.random() < 0.1 else " ")
    return "".join(pieces)


def document(nlp: Language, rng: random.Random, long: bool) -> Doc:
    """Return a Doc, possibly with its own tokens, tags, sentence boundaries and span groups."""
    if long:
        words = ["x" * LONG_TOKEN, "left"]
        if rng.random() < 0.5:
            words = [part for part in text(rng, True).split(" ") if part]
    else:
        words = [word(rng) or "x" for _ in range(rng.randrange(0, 14))]
        if rng.random() < 0.3:
            places = [i for i in range(len(words)) if rng.random() < 0.3]
            for place in places:
                words[place] = rng.choice(SPACES)
    spaces = None if rng.random() < 0.5 else [rng.random() < 0.7 for _ in words]
    tags, starts = None, None
    kind = rng.randrange(4)
    if kind:
        tags = [rng.choice(TAGS[:6] if kind == 1 else TAGS) for _ in words]
    kind = rng.randrange(5)
    if kind == 1:
        starts = [index == 0 for index in range(len(words))]
    elif kind == 2:
        starts = [True] * len(words)
    elif kind == 3:
        starts = [rng.choice((True, False, None)) for _ in words]
    doc = Doc(nlp.vocab, words=words, spaces=spaces, tags=tags, sent_starts=starts)
    if rng.random() < 0.3:
        foreign(doc, rng)
    return doc


def foreign(doc: Doc, rng: random.Random) -> None:
    """Add span groups, also with our names, that no component of ours has written."""
    for _ in range(rng.randrange(1, 4)):
        spans = [some_span(doc, rng) for _ in range(rng.randrange(6))] if len(doc) else []
        if rng.random() < 0.5:
            spans.sort(key=lambda span: (span.start, -span.end))
        key = rng.choice(KEYS)
        attrs: dict[str, Any] = {}
        if rng.random() < 0.5:
            attrs["scores"] = [rng.random() for _ in range(len(spans) + rng.randrange(-1, 2))]
        doc.spans[key] = SpanGroup(doc, name=key, spans=spans, attrs=attrs)


def some_span(doc: Doc, rng: random.Random) -> Span:
    start = rng.randrange(len(doc))
    end = rng.randrange(start, min(len(doc), start + 8)) + (rng.random() < 0.95)
    return Span(doc, start, end, label=rng.choice(LABELS))


# --- pipelines ------------------------------------------------------------------------------------
# Small pipelines of many architectures, by the names of `workloads.CONFIGS`.
MIXED = (
    ("tagger", "hmm", "m_estimated", "bayes_net", "stages"),
    ("tagger", "m_estimation", "isbn", "log_linear", "stages"),
    ("tagger", "crf", "conditional", "bayes_net", "stages"),
    ("tagger", "memm", "span", "log_linear"),
    ("tagger", "crf_pairs", "span", "stages"),
    ("tagger", "joint", "isbn_mean_field"),
    ("crf", "latent"),
)


def mixed(trained: dict[str, Trained]) -> list[Language]:
    """Return the pipelines of MIXED whose components are available, after a sentence splitter."""
    found = []
    for names in MIXED:
        nlp = spacy.blank("en")
        nlp.add_pipe("sentencizer")
        for name in names:
            if name in trained:
                source = trained[name].nlp
                nlp.add_pipe(source.pipe_names[-1], source=source)
        found.append(nlp)
    return found


# --- calls ----------------------------------------------------------------------------------------
def retokenized(doc: Doc, rng: random.Random) -> None:
    """Merge or split tokens after the components have run."""
    taken: set[int] = set()
    with doc.retokenize() as retokenizer:
        for _ in range(rng.randrange(1, 4)):
            if not len(doc):
                break
            start = rng.randrange(len(doc))
            end = min(len(doc), start + rng.randrange(1, 4))
            if taken.intersection(range(start, end)):
                continue
            taken.update(range(start, end))
            if end - start > 1:
                retokenizer.merge(doc[start:end])
            elif len(doc[start]) > 1:
                cut = rng.randrange(1, len(doc[start]))
                parts = [doc[start].text[:cut], doc[start].text[cut:]]
                retokenizer.split(doc[start], parts, heads=[(doc[start], 1), (doc[start], 0)])


class Documents:
    """A target: batches of documents in the default pipeline, each determined by its bytes."""

    def __init__(self) -> None:
        self.nlp = spacy_structlearn.load()
        self.sentences = [doc.text for doc in self._sample()]

    def _sample(self) -> list[Doc]:
        return [example.reference for example in examples(spacy.blank("en"))]

    def __call__(self, data: bytes) -> str:
        rng = random.Random(data)
        inputs = [self._input(rng) for _ in range(BATCH)]
        for doc in self.nlp.pipe(inputs):
            checks.sane(doc)
            checks.covered(doc)
            srsly.json_dumps(spacy_structlearn.as_dict(doc))
            look(self.nlp, doc, rng, share=SHOWN_SHARE)
        return checks.ANSWERED

    def _input(self, rng: random.Random) -> str | Doc:
        """Return an odd text, a sentence of the sample with some changes, or odd tokens."""
        kind = rng.random()
        if rng.randrange(BATCH * LONG_SHARE) == 0:
            return text(rng, True)
        if kind < 0.5:
            return text(rng, False)
        if kind < 0.9:
            return altered(rng.choice(self.sentences), rng)
        return document(self.nlp, rng, False)


def altered(sentence: str, rng: random.Random) -> str:
    """Return a sentence with a few other words and characters."""
    words = sentence.split(" ")
    for _ in range(rng.randrange(4)):
        place = rng.randrange(len(words) + 1)
        words[place : place + rng.randrange(3)] = [word(rng)] * rng.randrange(3)
    line = rng.choice((" ", " ", " ", "  ", "\n")).join(words)
    for _ in range(rng.randrange(3)):
        place = rng.randrange(len(line) + 1)
        line = (
            line[:place]
            + rng.choice((character(rng), "", line[place:place][:1]))
            + line[place + 1 :]
        )
    return line


class Pipelines:
    """A target: pipelines of many architectures, and Docs with annotation of other components."""

    def __init__(self, pipelines: Sequence[Language]):
        self.pipelines = pipelines

    def __call__(self, data: bytes) -> str:
        rng = random.Random(data)
        nlp = rng.choice(self.pipelines)
        long = rng.randrange(LONG_SHARE) == 0
        kind = rng.randrange(4)
        if kind < 2:
            texts = [text(rng, long and not i) for i in range(1 + kind * rng.randrange(3))]
            try:
                docs, ours = list(nlp.pipe(texts) if kind else map(nlp, texts)), True
            except StructlearnError as error:
                if error.code not in UNMET:
                    raise
                return error.code
        else:
            docs = [document(nlp, rng, long)]
            foreign = any(key in docs[0].spans for key in KEYS)
            ours = kind == 2 and not foreign
            # Sometimes disable components, so that later ones lack annotation.
            skipped = {name for name in nlp.pipe_names if kind == 3 and rng.random() < 0.3}
            for name, component in nlp.pipeline:
                if name not in skipped:
                    try:
                        docs = [component(doc) for doc in docs]
                    except StructlearnError as error:
                        # Groups of other components may be refused.
                        if error.code not in UNMET and not foreign:
                            raise
                        ours = False
        for doc in docs:
            if ours:
                checks.sane(doc)
                if "constituents" in doc.spans:
                    checks.covered(doc)
            look(nlp, doc, rng, ours=ours)
        return checks.ANSWERED


def look(
    nlp: Language, doc: Doc, rng: random.Random, *, ours: bool = True, share: float = 1.0
) -> None:
    """Read, store, draw and change a Doc, each in its share of cases.

    ours: whether all annotation is of our components. share: the largest of the shares.
    """

    def ask(getter: Callable[[], Any]) -> None:
        """Call a getter of a Doc that others have annotated, which may raise documented errors."""
        with suppress(StructlearnError):
            getter()

    def read() -> None:
        checks.read_all(doc, [some_span(doc, rng) for _ in range(4)] if len(doc) else [])

    is_long = len(doc.text) > LONG_SENTENCE
    if rng.random() < share:
        read() if ours or not any(key in doc.spans for key in KEYS) else ask(read)
    if rng.random() < 0.5 * share:
        stored(nlp, doc)
    if ours and rng.random() < 0.3 * share and not is_long:
        shown(doc)
    if ours and rng.random() < 0.2 * share:
        for _, component in nlp.pipeline:
            if hasattr(component, "k_best"):
                for sentence in list(extensions.sentences(doc))[:2]:
                    ask(lambda c=component, s=sentence: c.k_best(s, rng.randrange(1, 5)))
            if hasattr(component, "n_best"):
                ask(lambda c=component: c.n_best(doc, rng.randrange(1, 5)))
    if rng.random() < 0.3 * share and not is_long:
        retokenized(doc, rng)
        ask(read)
        extensions.align(doc)
        ask(read)


def stored(nlp: Language, doc: Doc) -> None:
    """Raise NotSane if a Doc has other spans when it is stored and read."""
    again = Doc(nlp.vocab).from_bytes(doc.to_bytes())
    before, after = (
        [(s.label_, s.start, s.end) for key in KEYS if key in doc.spans for s in own.spans[key]]
        for own in (doc, again)
    )
    if before != after:
        raise checks.NotSane("other spans after to_bytes and from_bytes")


def shown(doc: Doc) -> None:
    """Draw all layers of a Doc."""
    page([doc])
    if "np_chunks" in doc.spans:
        chunks_html(doc)
    if "pp_attachments" in doc.spans:
        attachments_html(doc)
    if "srl" in doc.spans:
        with suppress(StructlearnError):
            frames_html(doc)
    if "constituents" not in doc.spans:
        return
    if "pp_attachments" in doc.spans:
        reattached(doc)
    for sentence in list(extensions.sentences(doc))[:3]:
        tree = extensions.tree(sentence)
        if tree is not None and len(tree.words()) <= DISPLAYED:
            tree_text(tree)
            tree_svg(tree)
            tree_latex(tree)
