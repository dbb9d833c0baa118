"""Dependencies of the pipelines: attachment scores, calibration, speed, and whether all are trees.

    python corpora/fetch.py ewt raw_text
    python -m training.benchmarks.dependencies --models md=FOLDER --validator VALIDATE.PY

Scores are those of EWT's dev in percent, UD r2.6, punctuation included, labels without subtypes. In
training/results/dependencies.json, for each pipeline (sm, and those of --models):

NAME.uas, NAME.las      on gold tokens in gold sentences, with predicted tags and trees
gold_trees.uas, .las    on gold tags and trees, by the component of sm
NAME.arc_ece            expected calibration error of token._.dep_prob; arc_ece: that of sm
NAME.raw.las            F1 on raw text by the rules of the CoNLL 2018 shared task (conll18_ud_eval):
                        words are those with the characters of a gold word; raw.las: that of sm
not_a_tree              sentences of raw text without exactly one root, or with a cycle or a head
                        outside; not_a_tree_n: number of sentences
NAME.speed.ratio        words per CPU second of the pipeline over those of it without this component
                        and `tree_morphologizer`, in runs that alternate; words_per_cpu_s
peers.NAME.uas, .las    published figures with gold tokens on EWT's test: UDPipe 1.2 and UDPipe 2
                        (Straka 2018; Straka, Strakova & Hajic 2019), UDify (Kondratyuk & Straka
                        2019)
pos, morph, lemma, conllu   see morphology.py
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

import spacy_structlearn
from spacy_structlearn.evaluation.calibration import expected_calibration_error
from spacy_structlearn.evaluation.dependencies import attachment_score
from training.benchmarks import morphology
from training.benchmarks.encoder import fastest, folders_of
from training.common.command import Figures, options, run_parts
from training.common.ewt import read_documents
from training.common.jackknife import untagged
from training.pipeline.dependencies import COMPONENT, figures

NAME = "dependencies"
SENTENCES = 100_000
SPLITTER = "sentence_splitter"
PEERS = {"udpipe_1_2": (84.4, 81.1), "udpipe_2": (92.2, 90.1), "udify": (91.1, 88.5)}


def gold_docs(nlp: Language, args: Any) -> list[Doc]:
    """Return the documents of dev with all layers, in the vocab of a pipeline."""
    docs = [doc for _, doc in read_documents(args.corpora, "dev")][: args.limit]
    return [Doc(nlp.vocab).from_bytes(doc.to_bytes()) for doc in docs]


def scores(name: str, nlp: Language, args: Any) -> Figures:
    """Return the scores of a pipeline on gold tokens and on raw text."""
    gold = gold_docs(nlp, args)
    with nlp.select_pipes(disable=[SPLITTER]):
        docs = list(nlp.pipe([untagged(nlp, doc) for doc in gold]))
    score = attachment_score(map(arcs, gold, docs))
    found = {f"{name}.uas": 100 * score.uas, f"{name}.las": 100 * score.las}
    known = [(g, t) for own, doc in zip(gold, docs, strict=True) for g, t in words(own, doc)]
    right = np.array([g.head.i == t.head.i for g, t in known])
    ece = expected_calibration_error(np.array([t._.dep_prob for _, t in known]), right)
    las = raw_las(gold, list(nlp.pipe(doc.text for doc in gold)))
    found |= {f"{name}.arc_ece": float(ece), f"{name}.raw.las": 100 * las}
    return found | ({"arc_ece": float(ece), "raw.las": 100 * las} if name == "sm" else {})


def words(gold: Doc, doc: Doc) -> Iterator[tuple[Any, Any]]:
    """Iterate over the words with a gold arc and what is predicted for them, on the same tokens."""
    return ((g, t) for g, t in zip(gold, doc, strict=True) if g.dep and not g.is_space)


def arcs(gold: Doc, doc: Doc) -> tuple[list, list]:
    """Return the gold and the predicted arcs of these words."""
    pairs = [((g.head.i, g.dep_), (t.head.i, t.dep_)) for g, t in words(gold, doc)]
    return [own for own, _ in pairs], [own for _, own in pairs]


def raw_las(gold: Sequence[Doc], docs: Sequence[Doc]) -> float:
    """Return the F1 of labelled arcs between words that are found by their characters.

    A head is right if its characters are those of the gold head, or if both are roots.
    """
    right = n_gold = n_found = 0
    for own, doc in zip(gold, docs, strict=True):
        wanted, found = _placed(own), _placed(doc)
        n_gold, n_found = n_gold + len(wanted), n_found + len(found)
        pairs = [(wanted[place], arc) for place, arc in found.items() if place in wanted]
        right += attachment_score([tuple(zip(*pairs, strict=True))] if pairs else []).labels
    return 2 * right / (n_gold + n_found) if n_gold + n_found else 0.0


def _placed(doc: Doc) -> dict[tuple[int, int], tuple[Any, str]]:
    """Return the arc of each word by its characters other than white space. A head is given by
    these, too, that of a root by (-1, -1)."""
    ends = np.cumsum([0 if token.is_space else len(token.text) for token in doc]).tolist()
    spans = [(end - len(token.text), end) for token, end in zip(doc, ends, strict=True)]
    return {
        spans[token.i]: ((-1, -1) if token.head == token else spans[token.head.i], token.dep_)
        for token in doc
        if not token.is_space
    }


def gold_trees(nlp: Language, args: Any) -> Figures:
    """Return the scores on gold trees."""
    gold = gold_docs(nlp, args)
    found = figures(nlp, [Example(doc.copy(), doc) for doc in gold])
    return {f"gold_trees.{name.removeprefix('dep_')}": value for name, value in found.items()}


def not_a_tree(nlp: Language, args: Any) -> Figures:
    """Count sentences of raw text whose dependencies are no tree."""
    most = args.limit or SENTENCES
    wrong = total = 0
    for doc in nlp.pipe(raw_texts(args.corpora)):
        for sentence in doc.sents:
            total += 1
            wrong += not is_tree([token.head.i - sentence.start for token in sentence])
        if total >= most:
            break
    return {"not_a_tree": wrong, "not_a_tree_n": total}


def is_tree(heads: Sequence[int]) -> bool:
    """Whether all tokens lead to the only one that is its own head."""
    n = len(heads)
    if any(not 0 <= head < n for head in heads):
        return False
    links = np.array(heads)
    roots = np.flatnonzero(links == np.arange(n))
    for _ in range(n.bit_length()):
        links = links[links]
    return len(roots) == 1 and bool((links == roots[0]).all())


def raw_texts(corpora: Path) -> Iterator[str]:
    for path in sorted((corpora / "raw_text").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf8") as lines:
            yield from (json.loads(line)["text"] for line in lines)


def speed(name: str, nlp: Language, args: Any) -> Figures:
    """Return words per CPU second, and the ratio to those without the two components."""
    texts = [doc.text for doc in gold_docs(nlp, args)]
    n = sum(not token.is_space for text in texts for token in nlp.make_doc(text))
    parser: Any = nlp.get_pipe("constituency_parser")
    kept = parser.probable_trees

    def without() -> Iterator[Doc]:
        parser.probable_trees = 0
        with nlp.select_pipes(disable=[COMPONENT, morphology.COMPONENT]):
            yield from nlp.pipe(texts)
        parser.probable_trees = kept

    best = fastest({"with": partial(nlp.pipe, texts), "without": without}, args.runs)
    ratio = {"ratio": best["without"] / best["with"], "words_per_cpu_s": n / best["with"]}
    return {f"{name}.speed.{key}": value for key, value in ratio.items()}


def peers() -> Figures:
    """Return published figures."""
    return {
        f"peers.{name}.{key}": value
        for name, own in PEERS.items()
        for key, value in zip(("uas", "las"), own, strict=True)
    }


def main() -> None:
    parser = options(__doc__, "corpora", "runs", "limit")
    parser.add_argument("--models", nargs="*", default=[], help="name=folder of pipelines")
    parser.add_argument("--validator", type=Path, help="validate.py, for CoNLL-U")
    parser.add_argument("--only", nargs="+", help="some parts; default: all")
    args = parser.parse_args()
    folders = folders_of(args.models)
    pipelines = {name: spacy_structlearn.load(folder) for name, folder in folders.items()}
    parts: dict[str, Any] = {"gold_trees": partial(gold_trees, pipelines["sm"], args)}
    for name, nlp in pipelines.items():
        parts[name] = partial(scores, name, nlp, args)
        parts[f"{name}.speed"] = partial(speed, name, nlp, args)
    parts |= morphology.parts(pipelines, args.corpora, args.validator, args.limit)
    parts |= {"not_a_tree": partial(not_a_tree, pipelines["sm"], args), "peers": peers}
    run_parts(NAME, parts, args.only, is_trial=args.limit is not None)


if __name__ == "__main__":
    main()
