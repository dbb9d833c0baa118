"""Accuracy on raw text: sentences, tokens, tags, and the layers that depend on them.

    python corpora/fetch.py ewt
    python -m training.benchmarks.raw_text

The texts are the documents of EWT's dev, with blank lines between paragraphs, and tests/everyday.
Spans are compared by characters, without white space. p, r, f are precision, recall and F1 in
percent, and se is the standard error of F1 by the bootstrap over documents. In
training/results/raw_text.json:

sents.paragraphs     sentences of the original text; n: number of sentences
sents.flat           of the text with all white space replaced by single blanks
sents.wrapped        of the text with paragraphs wrapped at 72 columns
sents.each_paragraph of separate paragraphs
sents.ece            expected calibration error of token._.sent_start_prob in the original text,
                     without the first token and tokens after a blank line, which are certain
sents.peers.NAME     F1 of peers: as_it_is, paragraphs (separate), flat and wrapped; version
everyday             sentences of the texts of tests/everyday
tokens               tokens
tags.gold_tokens     accuracy of the final token.tag_, on gold tokens and sentences; unknown: of
                     words that are not in train
tags.tagger_alone    the same directly after the tagger; tagger_alone_unknown
tags.raw_f           F1 of tokens with their tags
brackets, np_chunks, srl, pp_attachment   scores of the components, on `raw` text, on predicted
                     tokens in gold_sentences, and on gold_tokens in gold sentences
pp_attachment.pairs  share of the phrases of the balanced pairs of tests/everyday that are attached
                     right, by reading (verb, noun); n: number of pairs
tags.disagree        number of tokens whose tag differs from the tree, on dev and everyday texts
np_chunks.crossing   number of chunks that cross a bracket, on the same texts. By the convention of
                     CoNLL-2000, a possessive marker begins a chunk, so one at the end of a bracket
                     is not counted
words_per_cpu_s      words and punctuation of dev per CPU second, the best of several runs over the
                     same texts, with filled caches: all, front (without COSTLY), and each component
                     of front on Docs annotated by earlier components; front_new_text: the first run
                     of a new pipeline after a few texts

Peers are installed in virtual environments in training/work/raw_text. Peers that fail, also during
installation, are skipped. Only figures of the default pipeline on dev are recorded; with --model or
--split, they are printed. The split tune consists of the tuning documents of train. Unknown words
are then those that do not occur in the other documents.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import textwrap
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import spacy
from spacy.language import Language
from spacy.tokens import Doc, Token
from spacy.training import Example
from tqdm import tqdm

import spacy_structlearn
from spacy_structlearn.evaluation.calibration import expected_calibration_error
from spacy_structlearn.evaluation.prf import PRF, character_spans, score_token_spans
from spacy_structlearn.groups import CONSTITUENTS, NP_CHUNKS
from spacy_structlearn.pipeline.extensions import aligned_group
from spacy_structlearn.pipeline.readers import read_treebank
from training.benchmarks import raw_text_peers
from training.benchmarks.peers.__main__ import PEERS as INSTALLED
from training.benchmarks.product import WARM_UP
from training.benchmarks.segments import Segmented, micro_average, score_segments, standard_error
from training.common.command import bound, options, run_parts
from training.common.everyday import read_everyday, score_pairs
from training.common.ewt import treebank, tuning_documents
from training.common.jackknife import untagged
from training.common.process import Failed, virtual_environment
from training.common.recording import ROOT, WORK
from training.common.scoring import under

POSSESSIVE = "POS"
RESULTS = "raw_text"
EVERYDAY = ROOT / "tests" / "everyday"
COLUMNS = 72  # of wrapped text
RUNS = 5  # the fastest one is recorded
COSTLY = (
    *("constituency_parser", "pp_attacher", "srl_labeler"),
    *("tree_dependencies", "tree_morphologizer"),
)
BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
# Requirements of each peer.
PEERS = {
    "blingfire": ("blingfire==0.1.8", "numpy==2.4.6"),
    "nupunkt": ("nupunkt==0.8.0",),
    "pysbd": ("pysbd==0.3.4",),
    "spacy": INSTALLED["spacy"],
    "syntok": ("syntok==1.4.4", "regex==2026.11.15"),
}
# For each layer, the component that scores it and the prefix of its scores.
LAYERS = {
    "brackets": ("constituency_parser", "constituents"),
    "np_chunks": ("np_chunker", "np_chunk"),
    "srl": ("srl_labeler", "srl"),
    "pp_attachment": ("pp_attacher", "pp_attachment"),
}

# The measures of layers that have others than precision, recall and F1.
MEASURES = {"pp_attachment": ("acc",), "srl": ("p", "r", "f", "verbs_f", "others_f")}

Figures = dict[str, Any]
Spans = list[tuple[int, int]]


# --- texts ----------------------------------------------------------------------------------------
class Document(NamedTuple):
    """A document of the treebank as raw text, with its sentences and tokens in characters."""

    name: str
    text: str
    sentences: Spans
    tokens: Spans


def read_documents(path: Path) -> Iterator[Document]:
    """Yield the documents of a file *.raw.jsonl.gz."""
    with gzip.open(path, "rt", encoding="utf8") as lines:
        for row in map(json.loads, lines):
            spans = ([tuple(span) for span in row[key]] for key in ("sentences", "tokens"))
            yield Document(row["document"], row["text"], *spans)


def flat(text: str) -> str:
    """Replace all white space by single blanks."""
    return " ".join(text.split())


def wrapped(text: str) -> str:
    """Wrap each paragraph at blanks, and keep blank lines."""
    return "\n\n".join(
        textwrap.fill(paragraph, COLUMNS, break_long_words=False, break_on_hyphens=False)
        for _, paragraph in paragraphs(text)
    )


def paragraphs(text: str) -> list[tuple[int, str]]:
    """Return the paragraphs between blank lines, each with its offset."""
    found, start = [], 0
    for blank in BLANK_LINE.finditer(text):
        found.append((start, text[start : blank.start()]))
        start = blank.end()
    return [*found, (start, text[start:])]


RENDERINGS: dict[str, Callable[[str], str]] = {"paragraphs": str, "flat": flat, "wrapped": wrapped}


# --- the pipeline ---------------------------------------------------------------------------------
def assigning(nlp: Language, attribute: str) -> str | None:
    """Return the first component that assigns an attribute, or None."""
    names = (n for n in nlp.pipe_names if attribute in nlp.get_pipe_meta(n).assigns)
    return next(names, None)


def up_to(nlp: Language, name: str | None) -> list[str]:
    """Return the names of this component and of earlier ones; none for None."""
    return nlp.pipe_names[: nlp.pipe_names.index(name) + 1] if name else []


def annotated(nlp: Language, texts: Sequence[str | Doc], what: str) -> list[Doc]:
    """Return the Docs of these texts, with a progress bar."""
    return list(tqdm(nlp.pipe(texts), desc=what, total=len(texts), mininterval=1, leave=False))


class Run:
    """A pipeline and texts for evaluation. Results that several parts need are computed once."""

    def __init__(self, nlp: Language, corpora: Path, split: str):
        self.nlp, self.corpora, self.split = nlp, corpora, split
        self.splitter = assigning(nlp, "token.is_sent_start")
        self.tagger = assigning(nlp, "token.tag")

    def _documents(self, of_split: bool = True) -> list[Document]:
        """Return the documents of the split, or the training documents of its pipelines."""
        tuning = tuning_documents(self.corpora) if self.split == "tune" else set()
        file = "dev" if of_split and self.split == "dev" else "train"
        found = read_documents(self.corpora / "ewt" / f"{file}.raw.jsonl.gz")
        return [d for d in found if not tuning or (d.name in tuning) == of_split]

    @cached_property
    def documents(self) -> list[Document]:
        return self._documents()

    @cached_property
    def known(self) -> set[str]:
        """The words of the training documents."""
        return {d.text[s:e] for d in self._documents(of_split=False) for s, e in d.tokens}

    @cached_property
    def gold(self) -> list[Doc]:
        """The documents with all layers of the treebank."""
        files = treebank(self.corpora, "dev" if self.split == "dev" else "train")
        rows = read_treebank(
            self.nlp.vocab, files["trees"], spaces=files["spaces"], props=files["props"]
        )
        docs = dict(tqdm(rows, desc="treebank", mininterval=1, leave=False))
        return [docs[document.name] for document in self.documents]

    @cached_property
    def texts(self) -> list[str]:
        return [document.text for document in self.documents]

    @cached_property
    def raw(self) -> list[Doc]:
        """The predictions of the whole pipeline on raw text."""
        return annotated(self.nlp, self.texts, "raw text")

    @cached_property
    def in_gold_sentences(self) -> list[Doc]:
        """The predictions on predicted tokens in gold sentences."""
        docs = [in_sentences(self.nlp.make_doc(d.text), d.sentences) for d in self.documents]
        with self.nlp.select_pipes(disable=[self.splitter] if self.splitter else []):
            return annotated(self.nlp, docs, "gold sentences")

    @cached_property
    def on_gold_tokens(self) -> tuple[list[Doc], list[list[str]]]:
        """The predictions on gold tokens in gold sentences, and the tags of the tagger."""
        docs, tags = [untagged(self.nlp, doc) for doc in self.gold], []
        for name, component in tqdm(self.nlp.pipeline, desc="gold tokens", leave=False):
            if name != self.splitter:
                docs = list(component.pipe(docs, batch_size=self.nlp.batch_size))
            if name == self.tagger:
                tags = [[token.tag_ for token in doc] for doc in docs]
        return docs, tags

    @cached_property
    def everyday(self) -> list[tuple[str, str, Spans]]:
        """The texts of tests/everyday as (name, text, sentences)."""
        return list(read_everyday(EVERYDAY))

    def sentences(self, texts: Sequence[str]) -> list[Doc]:
        """Split texts into sentences."""
        with self.nlp.select_pipes(enable=up_to(self.nlp, self.splitter)):
            return annotated(self.nlp, texts, "sentences")


def in_sentences(doc: Doc, sentences: Spans) -> Doc:
    """Return a Doc with these boundaries. A boundary inside a token is moved after it."""
    words = [token for token in doc if not token.is_space]
    places = [token.idx for token in words]
    first = {bisect_left(places, start) for start, _ in sentences}
    starts = {words[index].i for index in first if index < len(words)}
    for token in doc:
        token.is_sent_start = token.i in starts
    return doc


# --- sentences and tokens -------------------------------------------------------------------------
def segment_figures(gold: Sequence[Segmented], found: Sequence[Segmented]) -> Figures:
    """Return p, r, f and se in percent."""
    scores = score_segments(gold, found)
    return percentages(micro_average(scores)) | {"se": 100 * standard_error(scores)}


def percentages(score: PRF) -> Figures:
    return {"p": 100 * score.precision, "r": 100 * score.recall, "f": 100 * score.f1}


def split_sentences(doc: Doc) -> Segmented:
    return doc.text, [(sentence.start_char, sentence.end_char) for sentence in doc.sents]


def sents(run: Run) -> Figures:
    """Return figures of sentences in each layout, and their calibration error."""
    gold = [(document.text, document.sentences) for document in run.documents]
    figures: Figures = {"sents.n": sum(len(document.sentences) for document in run.documents)}
    for name, render in RENDERINGS.items():
        docs = run.sentences([render(text) for text in run.texts])
        figures |= under(f"sents.{name}", segment_figures(gold, list(map(split_sentences, docs))))
        if name == "paragraphs":
            figures |= calibration(docs, run.documents)
    alone = [split_sentences(doc)[1] for doc in run.sentences(all_paragraphs(run.texts))]
    found = joined(run.texts, alone)
    return figures | under("sents.each_paragraph", segment_figures(gold, found))


def all_paragraphs(texts: Iterable[str]) -> list[str]:
    return [paragraph for text in texts for _, paragraph in paragraphs(text)]


def joined(texts: Sequence[str], found: Iterable[Iterable[Sequence[int]]]) -> list[Segmented]:
    """Join the sentences of the paragraphs of texts."""
    rest = iter(found)
    return [
        (text, [(first + s, first + e) for first, _ in paragraphs(text) for s, e in next(rest)])
        for text in texts
    ]


def calibration(docs: Iterable[Doc], documents: Iterable[Document]) -> Figures:
    """Return the calibration error of boundaries, if they have probabilities."""
    if not Token.has_extension("sent_start_prob"):
        return {}
    pairs = [
        pair
        for doc, document in zip(docs, documents, strict=True)
        for pair in boundaries(doc, {start for start, _ in document.sentences})
        if pair[0] is not None
    ]
    if not pairs:
        return {}
    return {"sents.ece": float(expected_calibration_error(*zip(*pairs, strict=True)))}


def boundaries(doc: Doc, starts: set[int]) -> Iterator[tuple[float | None, bool]]:
    """Yield for each token the probability that a sentence begins with it, and whether it does.

    starts: offsets of gold sentences. White space, the first token, and tokens after a blank line
    are skipped.
    """
    text, end = doc.text, None
    for token in doc:
        if token.is_space:
            continue
        if end is not None and not BLANK_LINE.search(text, end, token.idx):
            yield token._.sent_start_prob, token.idx in starts
        end = token.idx + len(token)


def everyday(run: Run) -> Figures:
    """Return figures of sentences of everyday texts."""
    docs = run.sentences([text for _, text, _ in run.everyday])
    gold = [(text, spans) for _, text, spans in run.everyday]
    figures = segment_figures(gold, list(map(split_sentences, docs)))
    return {"everyday.n": sum(len(spans) for _, spans in gold), **under("everyday.sents", figures)}


def tokens(run: Run) -> Figures:
    docs = [run.nlp.make_doc(text) for text in run.texts]
    found = [(d.text, [(t.idx, t.idx + len(t)) for t in d if not t.is_space]) for d in docs]
    gold = [(document.text, document.tokens) for document in run.documents]
    return under("tokens", segment_figures(gold, found))


# --- peers ----------------------------------------------------------------------------------------
def peers(run: Run) -> Figures:
    """Return figures of peers that can be installed and run, each in its own process."""
    figures: Figures = {}
    for name in tqdm(PEERS, desc="peers", leave=False):
        try:
            figures |= under(f"sents.peers.{name}", peer_figures(name, run.documents))
        except Failed as problem:
            tqdm.write(f"skipped: {problem}", file=sys.stderr)
    return figures


def peer_figures(name: str, documents: Sequence[Document]) -> Figures:
    """Return the figures of one peer. Raises Failed."""
    texts = [document.text for document in documents]
    renderings = {key: [render(text) for text in texts] for key, render in RENDERINGS.items()}
    given = {**renderings, "as_it_is": texts, "paragraphs": all_paragraphs(texts)}
    found = run_peer(name, given)
    segmented: dict[str, list[Segmented]] = {
        key: list(zip(given[key], spans, strict=True)) for key, spans in found["sentences"].items()
    }
    segmented["paragraphs"] = joined(texts, found["sentences"]["paragraphs"])
    gold = [(document.text, document.sentences) for document in documents]
    scores = {key: micro_average(score_segments(gold, own)) for key, own in segmented.items()}
    return {"version": found["version"], **{key: 100 * s.f1 for key, s in scores.items()}}


def run_peer(name: str, texts: Mapping[str, Sequence[str]]) -> Figures:
    """Run raw_text_peers.py on texts. Raises Failed."""
    folder = WORK / RESULTS / name
    python = virtual_environment(folder, PEERS[name])
    given, result = folder / "texts.json", folder / "sentences.json"
    given.write_text(json.dumps(texts), encoding="utf8")
    command = [python, raw_text_peers.__file__, name, given, result]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise Failed(f"{name}: exit status {run.returncode}: {run.stderr.strip()[-500:]}")
    return json.loads(result.read_text(encoding="utf8"))


# --- tags and later layers ------------------------------------------------------------------------
def tags(run: Run) -> Figures:
    """Return tag accuracy on gold tokens, and F1 of tokens with their tags on raw text."""
    docs, alone = run.on_gold_tokens
    final = [[token.tag_ for token in doc] for doc in docs]
    figures: Figures = {}
    for all_words, unknown, found in (
        ("gold_tokens", "unknown", final),
        ("tagger_alone", "tagger_alone_unknown", alone),
    ):
        right = list(judged_tags(run.gold, found))
        figures[f"tags.{all_words}"] = share(ok for _, ok in right)
        figures[f"tags.{unknown}"] = share(ok for word, ok in right if word not in run.known)
    score = score_token_spans(list(map(tagged, run.gold)), list(map(tagged, run.raw)))
    return figures | {"tags.raw_f": 100 * score.f1}


def judged_tags(gold: Iterable[Doc], found: Iterable[Sequence[str]]) -> Iterator[tuple[str, bool]]:
    """Yield words, without white space, and whether their tags are right."""
    for doc, own in zip(gold, found, strict=True):
        for token, tag in zip(doc, own, strict=True):
            if not token.is_space:
                yield token.text, tag == token.tag_


def share(right: Iterable[bool]) -> float:
    """Return the share of true values in percent; 0 if there are none."""
    right = list(right)
    return 100 * sum(right) / len(right) if right else 0.0


def tagged(doc: Doc) -> tuple[list[str], list[tuple[str, int, int]]]:
    return [t.text for t in doc], [(t.tag_, t.i, t.i + 1) for t in doc if not t.is_space]


def layers(run: Run) -> Figures:
    """Return the scores of the components after the tagger."""
    settings = {
        "raw": run.raw,
        "gold_sentences": run.in_gold_sentences,
        "gold_tokens": run.on_gold_tokens[0],
    }
    figures: Figures = {}
    for setting, docs in settings.items():
        examples = [Example(*pair) for pair in zip(docs, run.gold, strict=True)]
        for layer, (name, prefix) in LAYERS.items():
            if name not in run.nlp.pipe_names:
                continue
            scores = run.nlp.get_pipe(name).score(examples)
            for measure in MEASURES.get(layer, ("p", "r", "f")):
                value = scores.get(f"{prefix}_{measure}")
                if value is not None:
                    figures[f"{layer}.{setting}.{measure}"] = 100 * value
    return figures


def agreement(run: Run) -> Figures:
    """Return the numbers of contradictions between tokens, trees and chunks."""
    docs = [*run.raw, *annotated(run.nlp, [text for _, text, _ in run.everyday], "everyday")]
    docs = [doc for doc in docs if CONSTITUENTS in doc.spans]
    return {
        "tags.disagree": sum(map(disagreeing, docs)),
        "np_chunks.crossing": sum(map(crossing, docs)),
    }


def disagreeing(doc: Doc) -> int:
    """Count the tokens whose tag differs from the tree."""
    in_trees = [tag for tree in doc._.trees for tag in tree.tags()]
    own = [token.tag_ for token in doc if not token.is_space]
    return sum(a != b for a, b in zip(in_trees, own, strict=True))


def crossing(doc: Doc) -> int:
    """Count the chunks that partially overlap with a bracket, without the possessive marker at the
    end of a bracket.
    """
    words = [token.text for token in doc]
    chunks, brackets = (
        character_spans(words, [(s[-1], s.start, s.end) for s in aligned_group(doc, key) or ()])
        for key in (NP_CHUNKS, CONSTITUENTS)
    )
    spans = [(a, b - len(last) * (last.tag_ == POSSESSIVE)) for last, a, b in brackets]
    return sum(
        any(a < start < b < end or start < a < end < b for a, b in spans)
        for _, start, end in chunks
    )


# --- cost -----------------------------------------------------------------------------------------
def speed(run: Run) -> Figures:
    """Return words per CPU second."""
    nlp = run.nlp
    front = [name for name in nlp.pipe_names if name not in COSTLY]
    n_words = sum(not token.is_space for text in run.texts for token in nlp.make_doc(text))
    with nlp.select_pipes(enable=front):
        seconds = {"front": best(lambda: sum(1 for _ in nlp.pipe(run.texts)))}
        seconds |= stage_seconds(nlp, run.texts)
    seconds["front_new_text"] = first_seconds(nlp, run.texts)
    seconds["all"] = best(lambda: sum(1 for _ in nlp.pipe(run.texts)))
    return {f"words_per_cpu_s.{name}": n_words / found for name, found in seconds.items()}


def best(function: Callable[[], Any]) -> float:
    """Return the CPU seconds of the fastest of RUNS, after a warm-up."""
    seconds = []
    for _ in tqdm(range(RUNS + 1), desc="speed", leave=False):
        start = process_time()
        function()
        seconds.append(process_time() - start)
    return min(seconds[1:])


def first_seconds(nlp: Language, texts: Sequence[str]) -> float:
    """Return the CPU seconds of the front on texts with words that are not cached."""
    seconds = []
    for _ in tqdm(range(RUNS), desc="speed", leave=False):
        fresh = spacy.load(nlp.path, exclude=COSTLY)
        list(fresh.pipe(texts[:WARM_UP]))
        start = process_time()
        list(fresh.pipe(texts))
        seconds.append(process_time() - start)
    return min(seconds)


def stage_seconds(nlp: Language, texts: Sequence[str]) -> dict[str, float]:
    """Return the CPU seconds of the tokenizer, and of each component after earlier ones.

    Each run uses new Docs, because some components keep existing annotation.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ("tokenizer", *nlp.pipe_names)}
    for _ in tqdm(range(RUNS), desc="speed", leave=False):
        start = process_time()
        docs = [nlp.make_doc(text) for text in texts]
        seconds["tokenizer"].append(process_time() - start)
        for name, component in nlp.pipeline:
            start = process_time()
            docs = list(component.pipe(docs, batch_size=nlp.batch_size))
            seconds[name].append(process_time() - start)
    return {name: min(found) for name, found in seconds.items()}


def pairs(run: Run) -> Figures:
    return under("pp_attachment", score_pairs(run.nlp))


PARTS: dict[str, Callable[[Run], Figures]] = {
    "sents": sents,
    "peers": peers,
    "everyday": everyday,
    "tokens": tokens,
    "tags": tags,
    "layers": layers,
    "pairs": pairs,
    "agreement": agreement,
    "speed": speed,
}


def main() -> None:
    parser = options(__doc__, "corpora", only=PARTS)
    parser.add_argument("--model", type=Path, help="another pipeline; record nothing")
    parser.add_argument(
        "--split", choices=("dev", "tune"), default="dev", help="tune: record nothing"
    )
    args = parser.parse_args()
    nlp = spacy.load(args.model) if args.model else spacy_structlearn.load()
    run = Run(nlp, args.corpora, args.split)
    is_trial = args.model is not None or args.split != "dev"
    run_parts(RESULTS, bound(PARTS, run), args.only, is_trial=is_trial)


if __name__ == "__main__":
    main()
