"""F1 of the built-in pipeline on other domains, beside published parsers.

    python corpora/fetch.py craft mctb mctb_outputs
    python -m training.benchmarks.out_of_domain

The domains are the five of MCTB_en (the 200 sentences of each dev part) and biomedical articles
(dev of CRAFT), with gold tokens and predicted tags. Trees are in the conventions of EWT (see
corpora/README.md). The pipeline was trained on the train parts of MCTB_en, and has seen no tree of
CRAFT.

The published parsers of Yang et al. (2022) were trained on the Wall Street Journal: the In-Order
parser, also with BERT. What they predicted is scored here on the same sentences, with the original
tokens and trees. Figures in training/results/languages.json:

out_of_domain.DOMAIN.{sentences,f1,f1_se,exact}    the built-in pipeline
out_of_domain.DOMAIN.PARSER.{f1,f1_se,exact}       PARSER: in_order or in_order_bert
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import spacy_structlearn
from spacy_structlearn.evaluation.evalb import EvalbScore, score_trees
from spacy_structlearn.pipeline.extensions import trees as trees_of
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree
from training.benchmarks.adaptation import PARSER, TAGGER, words_of
from training.common.command import options, run_parts
from training.common.recording import CORPORA
from training.common.scoring import Figures, f1_standard_error, under
from training.common.treebanks import DOMAINS, MCTB_DOMAINS, domain_trees

NAME = "languages"
PARSERS = ("in_order", "in_order_bert")


def ours() -> Iterator[Figures]:
    """Yield the figures of the built-in pipeline on each domain."""
    nlp = spacy_structlearn.load(enable=[TAGGER, PARSER])
    for domain in DOMAINS:
        gold = domain_trees(CORPORA, domain, "dev")
        docs = nlp.pipe(words_of(nlp, tree) for tree in gold)
        found = score_trees(gold, [trees_of(doc)[0] for doc in docs], punctuation="gold")
        yield under(f"out_of_domain.{domain}", {"sentences": len(gold), **_figures(found)})


def published() -> Iterator[Figures]:
    """Yield the figures of published parsers on each domain of MCTB_en."""
    for domain in MCTB_DOMAINS:
        gold = _trees(CORPORA / "mctb" / f"{domain}.original.trees.gz")
        for name in PARSERS:
            found = _trees(CORPORA / "mctb_outputs" / f"{domain}.{name}.trees.gz")
            score = score_trees(gold[-len(found) :], found, punctuation="gold")
            yield under(f"out_of_domain.{domain}.{name}", _figures(score))


def _trees(path: Path) -> Sequence[Tree]:
    """Read trees, none of which is empty."""
    found = [normalize(tree) for tree in read_trees(path)]
    trees = [tree for tree in found if tree is not None]
    assert len(trees) == len(found), path
    return trees


def _figures(score: EvalbScore) -> Figures:
    return {"f1": score.f1, "f1_se": f1_standard_error(score), "exact": score.complete_match}


def main() -> None:
    options(__doc__).parse_args()
    run_parts(NAME, {"published": published, "ours": ours})


if __name__ == "__main__":
    main()
