"""Learn grammars from trees of raw text, the prior of the parser of the default pipeline.

A teacher, an encoder fine-tuned on the treebanks (training/encoder), parses raw text that may be
shipped. Latent grammars are then trained on its trees, as in self-training (McClosky, Charniak &
Johnson 2006), from which latent grammars gain more than other parsers (Huang & Harper 2009). They
know more words and more combinations of words than the treebanks have. Their counts are the prior
counts of the grammars of the treebanks, which therefore are trained in seconds, those of folds too.
Each stage is kept.

The teacher matters less than one would think: with trees of 1.5 million words by the parser of the
treebanks alone, two such grammars had F1 84.0 on the tuning documents and 82.4 on dev of MCTB_en
(at 2981a195). With 1.3 million words of the encoder, whose F1 is 6 higher, they have 84.2 and 83.6.
A second round with that parser did not help, and neither did these trees as training trees of the
span features beside the treebanks (85.1 instead of 85.2, with 200,000 words).
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree
from spacy_structlearn.writing import write_bytes
from training.common.ewt import read_docs
from training.common.jackknife import write_docs
from training.common.kept import LEXICON, model_at

RAW_TEXT = "raw_text"  # the corpus, and the folder of the stages
LABELLED = "labelled"  # the folder of text that the teacher has annotated
WORDS = 1_500_000  # that the teacher parses
MOST_OF_SOURCE = 0.2  # share of these that are from one source
PARAGRAPH = range(5, 401)  # words of the paragraphs that are read
SENTENCE = range(3, 41)  # words of the sentences that are learned from
GRAMMARS = 2
PRIOR = LEXICON.part(LatentGrammarSettings, rounds=5, grammars=GRAMMARS)


def paragraphs(corpora: Path) -> list[str]:
    """Return paragraphs of all sources of raw text in random order, which is always the same."""
    chosen: list[str] = []
    for path in sorted((corpora / RAW_TEXT).glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf8") as lines:
            texts = [text for line in lines for text in json.loads(line)["text"].split("\n\n")]
        own = [text for text in texts if len(text.split()) in PARAGRAPH]
        random.Random(0).shuffle(own)
        left = MOST_OF_SOURCE * WORDS
        for text in own:
            left -= len(text.split())
            if left < 0:
                break
            chosen.append(text)
    random.Random(0).shuffle(chosen)
    return chosen


def labelled(work: Path) -> list[Path]:
    """Return the files of text that `encoder.label` has annotated.

    Raises SystemExit if there are none.
    """
    files = sorted((work / LABELLED).glob("*.spacy"))
    if not files:
        raise SystemExit(f"{work / LABELLED} has no text: see training/encoder/label.py")
    return files


def with_text(source: Path, work: Path, words: int) -> Path:
    """Write the Docs of a file and of the first words of the labelled text."""
    target = source.with_suffix(f".text{words}.spacy")
    if not target.exists():
        docs = read_docs(source)
        for path in labelled(work):
            if words <= 0:
                break
            more = read_docs(path)
            words -= sum(map(len, more))
            docs += more
        write_docs(docs, target)
    return target


def raw_trees(work: Path) -> Path:
    """Write the trees of the teacher, a line each."""
    target = work / RAW_TEXT / "trees.gz"
    if not target.exists():
        docs = (doc for path in labelled(work) for doc in read_docs(path))
        lines = "".join(f"{tree}\n" for doc in docs for tree in doc._.trees)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(target, gzip.compress(lines.encode(), mtime=0))
    return target


def learn_prior(work: Path, threads: int = 1) -> Path:
    """Write a product of grammars of the trees of raw text, a `LatentGrammar`."""
    target = work / RAW_TEXT / "prior.bin"
    settings = PRIOR.part(LatentGrammarSettings, threads=threads)

    def trees() -> list[Tree]:
        found = map(normalize, read_trees(raw_trees(work)))
        return [tree for tree in found if tree is not None]

    model_at(target, settings, trees)
    return target
