"""Titov & Henderson (2007): incremental sigmoid belief networks with two approximations.

    python corpora/fetch.py wsj_sample ewt craft
    python -m training.train_default
    python -m training.papers.titov_henderson2007 --jobs 2

Writes training/results/titov_henderson2007.json and a report next to it. nn is the feed-forward
approximation, mf the mean-field one. Parts, of which --only runs some:

rows          grammars of the package in the setup of table 1: X-bar and treebank grammars without
              substates, a split-merge grammar, a product of four, and this with span features
artificial    section 6.1: sequences of random networks, and Gibbs sampling from these
parsing       section 6.2, table 1: sentences of at most 15 words, including punctuation
rerank        the best trees of the four grammars, reranked by the probabilities of the networks
cpu           CPU time of training and parsing
full          sentences of all lengths of EWT; reranking of the default parser
seeds         the selected settings with other seeds, on EWT; only with --only
wsj_seeds     the same on the WSJ sample, which has 48 test sentences
paper_training  the training of the paper by seeds, gold tags; only with --only
spreads       other spreads of the weights of `artificial`; only with --only

On EWT, settings are selected on the documents of `ewt/tune.txt`, by networks trained on the rest of
train. The selected models are trained on all of train and scored on dev. WSJ is the sample, split
as in Petrov & Klein (2007), with selection on dev and scores on test. Main figures are with input
tags, as in the paper: on EWT from a tagger that has not seen the sentences, on WSJ gold tags,
because there is no tagger. Figures with `gold_tags` in their names have gold tags, and those with
`own_tags` tags predicted by the parser. Scores are from EVALB, in percent. On EWT, punctuation is
identified by gold tags, so that no sentence is dropped. Models are kept in
training/work by their settings; interrupted training resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from training.common.command import bound, options, run_parts
from training.common.scoring import Figures
from training.papers.titov_henderson2007.artificial import artificial, spreads
from training.papers.titov_henderson2007.cpu import cpu
from training.papers.titov_henderson2007.models import Short
from training.papers.titov_henderson2007.parsing import (
    full,
    paper_training,
    parsing,
    rerank,
    seeds,
)
from training.papers.titov_henderson2007.rows import rows

NAME = "titov_henderson2007"
PARTS: dict[str, Callable[[Short], Iterator[Figures]]] = {
    "rows": rows,
    "artificial": artificial,
    "parsing": parsing,
    "rerank": rerank,
    "cpu": cpu,
    "full": full,
    "seeds": partial(seeds, corpus="ewt"),
    "wsj_seeds": partial(seeds, corpus="wsj"),
    "paper_training": paper_training,
    "spreads": spreads,
}
OPTIONAL = ("seeds", "wsj_seeds", "paper_training", "spreads")  # only with --only


def main() -> None:
    parser = options(__doc__, "corpora", "work", "jobs", "limit", only=PARTS)
    args = parser.parse_args()
    run = Short(args.corpora, args.work, args.jobs, args.limit)
    parts = bound(PARTS, run)
    only = args.only or [name for name in PARTS if name not in OPTIONAL]
    run_parts(NAME, parts, only, is_trial=args.limit is not None, page=True)


if __name__ == "__main__":
    main()
