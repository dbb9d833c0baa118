"""Annotate raw text with an encoder and its heads: the text that smaller models learn from.

    python corpora/fetch.py raw_text
    python -m training.encoder.label training/work/teacher.pt training/work/labelled --words 1500000

The sentences are those of paragraphs in random order (`self_training.paragraphs`), split by the
default pipeline. Trees are the best under the scores of spans, frames the best of each predicate
among arguments that do not overlap. Files of 20,000 words are kept, so that an interrupted run
resumes.

All sentences are kept. Without the 15 % of them of which the encoder is least certain, F1 of the
parser that learns from the text is 85.2 on the tuning documents instead of 85.8: these are the
fragments, of which other text has few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from spacy.tokens import Doc
from spacy.vocab import Vocab
from tqdm import tqdm

import spacy_structlearn
from spacy_structlearn.encoder.pool import log_softmax
from spacy_structlearn.encoder.scorer import SiteScorer, Vectors
from spacy_structlearn.encoder.session import Encoder
from spacy_structlearn.encoder.spans import JOIN, best_tree, span_sites
from spacy_structlearn.groups import CONSTITUENTS, SRL
from spacy_structlearn.pipeline.extensions.brackets import ROOT
from spacy_structlearn.pipeline.extensions.span_groups import set_spans
from spacy_structlearn.words.lemmas import lemma
from training.common.command import options
from training.common.jackknife import write_docs
from training.encoder.export import exported, scorers
from training.encoder.network import load
from training.pipeline.self_training import SENTENCE, paragraphs

PART = 20_000  # words of a file
SENTENCES = 128  # that are annotated together
CORE = frozenset(f"ARG{n}" for n in (*range(6), "A"))


class Labeller:
    """Annotates sentences by an encoder and the scorers of its heads."""

    def __init__(self, encoder: Encoder, heads: dict[str, SiteScorer]):
        self.encoder, self.heads = encoder, heads
        self.lemmas: dict[str, list[int]] = {}  # the rolesets of each lemma
        for number, roleset in enumerate(heads["rolesets"].labels[1:], 1):
            self.lemmas.setdefault(roleset.rpartition(".")[0], []).append(number)

    def docs(self, sentences: Sequence[Sequence[str]], vocab: Vocab) -> list[Doc]:
        """Return a Doc for each sentence."""
        pairs = zip(sentences, self.encoder.vectors(sentences), strict=True)
        return [self._doc(list(words), vectors, vocab) for words, vectors in pairs]

    def _doc(self, words: list[str], vectors: Vectors, vocab: Vocab) -> Doc:
        sites, labels = span_sites([len(words)]), self.heads["spans"].labels
        logs = log_softmax(self.heads["spans"].scores(vectors, sites))
        chosen = best_tree(logs.max(axis=1) - logs[:, 0], [len(words)])
        best = logs[chosen].argmax(axis=1).tolist()
        brackets = [
            (label, start, last + 1)
            for (_, start, last, _), number in zip(sites[chosen].tolist(), best, strict=True)
            for label in labels[number].split(JOIN)
            if label not in ("", ROOT)
        ]
        brackets.sort(key=lambda bracket: (bracket[1], -bracket[2]))
        tags = self.heads["tags"].scores(vectors, np.arange(len(words))[:, None])
        names = [self.heads["tags"].labels[number] for number in tags.argmax(axis=1)]
        starts = [place == 0 for place in range(len(words))]
        doc = Doc(vocab, words=words, tags=names, sent_starts=starts)
        set_spans(doc, CONSTITUENTS, brackets)
        set_spans(doc, SRL, list(self._frames(doc, vectors, brackets)))
        return doc

    def _frames(
        self, doc: Doc, vectors: Vectors, brackets: Sequence[tuple[str, int, int]]
    ) -> Iterator[tuple[str, int, int, str]]:
        """Yield the spans of the frames of a sentence."""
        scores = self.heads["rolesets"].scores(vectors, np.arange(len(doc))[:, None])
        phrases = {*(bracket[1:] for bracket in brackets), *((i, i + 1) for i in range(len(doc)))}
        for token, row in zip(doc, scores, strict=True):
            if logsumexp(row[1:]) < row[0]:
                continue
            senses = self.lemmas.get(lemma(token.lower_, token.tag_), [int(row[1:].argmax()) + 1])
            roleset = self.heads["rolesets"].labels[senses[int(row[senses].argmax())]]
            yield "V", token.i, token.i + 1, roleset
            spans = sorted((s for s in phrases if not s[0] <= token.i < s[1]), key=lambda s: s[1])
            if spans:
                sites = np.array([(token.i, start, end - 1) for start, end in spans])
                logs = log_softmax(self.heads["arguments"].scores(vectors, sites))
                for label, start, end in _best(spans, logs, self.heads["arguments"].labels):
                    yield label, start, end, ""


def _best(
    spans: Sequence[tuple[int, int]], logs: NDArray[np.float32], labels: Sequence[str]
) -> list[tuple[str, int, int]]:
    """Return the arguments of a predicate: the best spans that do not overlap.

    A core role that several would have is that of the likeliest one.
    """
    gains = logs[:, 1:].max(axis=1) - logs[:, 0]
    roles = logs[:, 1:].argmax(axis=1) + 1
    while True:
        best: list[tuple[float, list[int]]] = [(0.0, [])] * (max(end for _, end in spans) + 1)
        row = 0
        for end in range(1, len(best)):
            best[end] = best[end - 1]
            while row < len(spans) and spans[row][1] == end:
                value, before = best[spans[row][0]]
                if gains[row] > 0 and value + gains[row] > best[end][0]:
                    best[end] = value + float(gains[row]), [*before, row]
                row += 1
        chosen = best[-1][1]
        taken: dict[int, int] = {}
        for row in sorted(chosen, key=lambda row: -gains[row]):
            if labels[roles[row]] in CORE and roles[row] in taken:
                gains[row] = -1.0  # the role is taken
            taken.setdefault(int(roles[row]), row)
        if not any(gains[row] < 0 for row in chosen):
            return [(labels[roles[row]], *spans[row]) for row in chosen]


def of_network(path: Path) -> Labeller:
    """Return the labeller of a network, exported in int8."""
    network, labels, pieces = load(path)
    return Labeller(exported(network, pieces), scorers(network, labels))


def sentences(corpora: Path) -> Iterator[list[str]]:
    """Yield the sentences of raw text that are learned from."""
    nlp = spacy_structlearn.load()
    splitter = [name for name in nlp.pipe_names if name != "sentence_splitter"]
    with nlp.select_pipes(disable=splitter):
        for doc in nlp.pipe(paragraphs(corpora), batch_size=64):
            for sent in doc.sents:
                words = [token.text for token in sent if not token.is_space]
                if len(words) in SENTENCE:
                    yield words


def parts(found: Iterable[list[str]], words: int) -> Iterator[list[list[str]]]:
    """Group sentences to parts of `PART` words, until there are `words`."""
    found = iter(found)
    for _ in range(words // PART):
        own: list[list[str]] = []
        while sum(map(len, own)) < PART and (more := next(found, None)):
            own.append(more)
        yield own


def main() -> None:
    parser = options(__doc__, "corpora")
    parser.add_argument("network", type=Path)
    parser.add_argument("output", type=Path, help="folder of .spacy files")
    parser.add_argument("--words", type=int, default=1_500_000)
    parser.add_argument("--share", default="1/1", help="which part of the files, as in 1/2")
    args = parser.parse_args()
    labeller = of_network(args.network)
    share, of = map(int, args.share.split("/"))
    vocab = spacy_structlearn.load().vocab
    bar = tqdm(total=args.words // of, unit="words", mininterval=20, ascii=True)
    for number, own in enumerate(parts(sentences(args.corpora), args.words)):
        target = args.output / f"{number:04}.spacy"
        if number % of != share - 1 or target.exists():
            continue
        docs: list[Doc] = []
        for first in range(0, len(own), SENTENCES):
            docs += labeller.docs(own[first : first + SENTENCES], vocab)
        write_docs(docs, target)
        bar.update(PART)


if __name__ == "__main__":
    main()
