"""What trees of raw text add to the grammars of the parser: see training/pipeline/self_training.py.

    python corpora/fetch.py ewt mctb raw_text
    python -m training.train_default
    python -m training.benchmarks.self_training

Single grammars, and the two of the default pipeline before they are trained on all documents, parse
EWT's tuning documents (tune) and dev of MCTB_en (mctb), with gold tokens and without tags. In
training/results/self_training.json, with f1, f1_se (the standard error of F1) and n (sentences) of
both:

treebanks   a grammar of the treebanks alone
raw_text    the first grammar of the trees of raw text alone
both        trained on with the treebanks
product     two such grammars, as in the pipeline
words.million   words of the raw text; words.parsed_million: of the trees
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from training.common.command import options, run_parts
from training.common.kept import LEXICON, run_training
from training.common.scoring import f1_standard_error, score, under
from training.common.treebanks import MCTB_DOMAINS, PUNCTUATION, domain_trees, ewt_trees
from training.pipeline.self_training import GRAMMARS, PRIOR, WORDS, learn_prior

RESULTS = "self_training"

Figures = dict[str, Any]


def n_words(corpora: Path) -> int:
    """Return the number of words of all sources."""
    with open(corpora / "raw_text" / "counts.tsv", encoding="utf8") as lines:
        return sum(int(line.split("\t")[2]) for line in lines if not line.startswith("#"))


def of_grammars(corpora: Path, work: Path, threads: int) -> Iterator[Figures]:
    """Yield the figures of each grammar. The prior is that of the default pipeline, in `work`."""
    mctb = {
        split: [tree for name in MCTB_DOMAINS for tree in domain_trees(corpora, name, split)]
        for split in ("train", "dev")
    }
    trees = [*ewt_trees(corpora, "fit"), *mctb["train"]]
    texts = {"tune": ewt_trees(corpora, "tune"), "mctb": mctb["dev"]}
    prior = learn_prior(work, threads)
    alone = LEXICON.part(LatentGrammarSettings, rounds=PRIOR.rounds, threads=threads)
    both = alone.part(type(alone), prior=prior)
    product = both.part(type(both), grammars=GRAMMARS)

    def trained(settings: LatentGrammarSettings, name: str) -> LatentGrammar:
        return run_training(settings, trees, name)[0].parameters()

    grammars = {
        "treebanks": lambda: trained(alone, "treebanks"),
        "raw_text": lambda: LatentGrammar.from_bytes(prior.read_bytes()).first_grammars(1),
        "both": lambda: trained(both, "both"),
        "product": lambda: trained(product, "product"),
    }
    for kind, grammar in grammars.items():
        parser = ChartParser(grammar(), threads=threads)
        for name, gold in texts.items():
            found = score(parser, gold, PUNCTUATION["ewt"])
            figures = {"f1": found.f1, "f1_se": f1_standard_error(found), "n": len(gold)}
            yield under(f"{kind}.{name}", figures)


def main() -> None:
    args = options(__doc__, "corpora", "work", "jobs").parse_args()
    words = {"million": n_words(args.corpora) / 1e6, "parsed_million": WORDS / 1e6}
    parts = {
        "words": lambda: under("words", words),
        "grammars": lambda: of_grammars(args.corpora, args.work, args.jobs),
    }
    run_parts(RESULTS, parts)


if __name__ == "__main__":
    main()
