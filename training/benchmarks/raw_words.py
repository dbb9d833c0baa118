"""What words from raw text add: the default pipeline with and without them.

    python corpora/fetch.py ewt craft mctb raw_text wsj_sample
    git worktree add ../before COMMIT
    python -m training.benchmarks.raw_words --before ../before

The other checkout has a default pipeline that was trained on treebanks alone. Both are scored by
this code on EWT's dev, with gold tokens and on raw text. Grammars are scored on the tuning
documents and on dev of MCTB_en, without tags. In training/results/raw_words.json:

words.million    words of the raw text
tags             accuracy on gold tokens; unknown: of words that are not in train
parser.wsj       test_f1: F1 on the test files of the WSJ sample, with gold tokens
parser.mctb      dev_f1: the same on dev of MCTB_en
parser.ewt       F1 of trees: dev_f1 with gold tokens and predicted tags, raw_f1 on raw text
np_chunks        F1 with predicted tags; raw.f: on raw text
pp.ewt_dev       accuracy with gold tokens
pp.pairs         share of the balanced pairs (tests/everyday/attachments.tsv) that are right, by
                 reading
srl              F1 with gold tokens, and on raw text; gold_tokens.verbs_f, nominal.f: of predicates
                 that are verbs, and of all others, with gold tokens
srl.gold_trees.f F1 of verbs with gold trees
srl.tmp_loc.acc  accuracy of ARGM-TMP and ARGM-LOC with gold tokens, where gold and predicted role
                 are both among them
package_mb       size of the pipeline
before.*         the same of the pipeline of the other checkout
grammars.NAME    F1 on `tune` and `mctb`. treebanks: a grammar of the treebanks alone; raw_text: the
                 first grammar of the trees of raw text alone; both: trained on with the treebanks;
                 product: two such grammars, as in the pipeline
n                sentences
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.training import Example

from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.pipeline.readers import to_example
from spacy_structlearn.trees.tree import Tree
from training.benchmarks import raw_text
from training.benchmarks.adaptation import words_of
from training.common.everyday import score_pairs
from training.common.kept import LEXICON, train
from training.common.recording import CORPORA, ROOT, WORK, record, show
from training.common.scoring import score, under
from training.common.treebanks import (
    MCTB_DOMAINS,
    PUNCTUATION,
    domain_trees,
    ewt_trees,
    wsj_trees,
)
from training.pipeline.labeler import COMPONENT, SPANS, TMP_LOC, label_accuracy
from training.pipeline.self_training import GRAMMARS, PRIOR

RESULTS = "raw_words"
PIPELINE = Path("spacy_structlearn", "data", "en_structlearn_sm")
# The names here of figures of `raw_text`.
NAMES = {
    "tags.gold_tokens": "tags.gold_tokens",
    "tags.unknown": "tags.unknown",
    "brackets.gold_tokens.f": "parser.ewt.dev_f1",
    "brackets.raw.f": "parser.ewt.raw_f1",
    "np_chunks.gold_tokens.f": "np_chunks.predicted_tags.f",
    "np_chunks.raw.f": "np_chunks.raw.f",
    "pp_attachment.gold_tokens.acc": "pp.ewt_dev.acc",
    "srl.gold_tokens.f": "srl.gold_tokens.f",
    "srl.raw.f": "srl.raw.f",
    "srl.gold_tokens.verbs_f": "srl.gold_tokens.verbs_f",
    "srl.gold_tokens.others_f": "srl.nominal.f",
    "package_mb": "package_mb",
}

Figures = dict[str, Any]


def n_words(corpora: Path) -> int:
    """Return the number of words of all sources."""
    with open(corpora / "raw_text" / "counts.tsv", encoding="utf8") as lines:
        return sum(int(line.split("\t")[2]) for line in lines if not line.startswith("#"))


def of_pipeline(nlp: Language, corpora: Path) -> Figures:
    """Return the figures of a pipeline on dev."""
    run = raw_text.Run(nlp, corpora, "dev")
    found: Figures = {}
    for part in (raw_text.tags, raw_text.layers, raw_text.size):
        found |= part(run)
    figures = {name: found[key] for key, name in NAMES.items() if key in found}
    return figures | of_roles(run) | of_other_trees(nlp, corpora) | score_pairs(nlp)


def of_other_trees(nlp: Language, corpora: Path) -> Figures:
    """Return the F1 of trees of other treebanks, with gold tokens and predicted tags."""
    wsj, mctb = wsj_trees(corpora, "test"), mctb_trees(corpora, "dev")
    return {
        "parser.wsj.test_f1": f1_of_trees(nlp, wsj, PUNCTUATION["wsj"]),
        "parser.mctb.dev_f1": f1_of_trees(nlp, mctb, PUNCTUATION["ewt"]),
        "n.wsj_test": len(wsj),
    }


def f1_of_trees(nlp: Language, gold: Sequence[Tree], punctuation: str) -> float:
    """Tag and parse the words of trees, and score the result. punctuation: see `score_trees`."""
    docs = [words_of(nlp, tree) for tree in gold]
    for name in ("chain_tagger", "constituency_parser"):
        docs = list(nlp.get_pipe(name).pipe(docs))
    return score_trees(gold, [doc._.trees[0] for doc in docs], punctuation=punctuation).f1


def mctb_trees(corpora: Path, split: str) -> list[Tree]:
    """Return the trees of all domains of MCTB_en."""
    return [tree for name in MCTB_DOMAINS for tree in domain_trees(corpora, name, split)]


def of_roles(run: raw_text.Run) -> Figures:
    """Return the F1 of verbs with gold trees, and the accuracy of times and places without them."""
    labeler = run.nlp.get_pipe(COMPONENT)
    on_gold_trees = [to_example(doc, spans=SPANS) for doc in run.gold]
    for example in on_gold_trees:
        example.predicted = labeler(example.predicted)
    parsed = [Example(*pair) for pair in zip(run.on_gold_tokens[0], run.gold, strict=True)]
    figures = {
        "srl.gold_trees.f": labeler.score(on_gold_trees).get("srl_verbs_f"),
        "srl.tmp_loc.acc": label_accuracy(parsed, TMP_LOC),
    }
    return {name: 100 * value for name, value in figures.items() if value is not None}


def of_grammars(corpora: Path, work: Path, threads: int) -> Iterator[Figures]:
    """Yield the figures of grammars; the prior is that of the default pipeline, in `work`."""
    trees = [*ewt_trees(corpora, "fit"), *mctb_trees(corpora, "train")]
    texts = {"tune": ewt_trees(corpora, "tune"), "mctb": mctb_trees(corpora, "dev")}
    yield {f"n.{name}": len(gold) for name, gold in texts.items()}
    prior = work / "raw_text" / "prior.bin"
    settings = LEXICON.part(LatentGrammarSettings, rounds=PRIOR.rounds, threads=threads)
    of_raw_text = LatentGrammar.from_bytes(prior.read_bytes()).first_grammars(1)
    grammars = {
        "treebanks": lambda: train(trees, settings, "treebanks")[0],
        "raw_text": lambda: of_raw_text,
        "both": lambda: train(trees, settings.part(type(settings), prior=prior), "both")[0],
        "product": lambda: train(
            trees, settings.part(type(settings), prior=prior, grammars=GRAMMARS), "product"
        )[0],
    }
    for kind, grammar in grammars.items():
        parser = ChartParser(grammar(), threads=threads)
        scores = {name: score(parser, gold, "gold").f1 for name, gold in texts.items()}
        yield under(f"grammars.{kind}", scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--before", type=Path, help="the other checkout")
    parser.add_argument("--only", nargs="+", choices=("pipeline", "before", "grammars"))
    parser.add_argument("--threads", type=int, default=1, help="threads; default: %(default)s")
    args = parser.parse_args()
    only = args.only or ("pipeline", "before", "grammars")
    figures: Figures = {"words.million": n_words(CORPORA) / 1e6}
    if "pipeline" in only:
        figures |= of_pipeline(spacy.load(ROOT / PIPELINE), CORPORA)
    if "before" in only and args.before is not None:
        figures |= under("before", of_pipeline(spacy.load(args.before / PIPELINE), CORPORA))
    record(RESULTS, figures)
    show(figures)
    if "grammars" in only:
        for found in of_grammars(CORPORA, WORK, args.threads):
            record(RESULTS, found)
            show(found)


if __name__ == "__main__":
    main()
