"""F1 of the built-in parser on new domains, after it has learned on from some of their trees.

    python corpora/fetch.py ewt craft mctb raw_text wsj_sample
    python -m training.train_default
    python -m training.benchmarks.adaptation
    python -m training.benchmarks.adaptation --domains craft --sizes 100 --kinds adapted alone

The domains are those that the built-in pipeline was not trained on: biomedical articles (CRAFT, in
EWT's conventions, see corpora/README.md), and news (the sample of the Wall Street Journal, whose
tokens and trees follow other conventions). Each is scored on its dev part (at most 500 sentences of
it), with gold tokens and predicted tags. Figures for N trees of a domain, which are drawn at
random, and are among those for a larger N:

DOMAIN.0.f                built-in pipeline, before adaptation
DOMAIN.N.adapted.f        tagger and parser learn on from N trees, as in `structlearn adapt`
DOMAIN.N.adapted.ewt_dev  F1 on EWT's dev afterwards; ewt_dev: before
DOMAIN.N.alone.f          tagger and parser with the settings of the built-in pipeline, trained on
                          these trees
DOMAIN.N.union.f          trained on these trees and those of the built-in pipeline, with the
                          grammars of raw text that training.train_default keeps
DOMAIN.N.KIND.f_se        standard error of F1; DOMAIN.0.f_se: before adaptation
DOMAIN.N.KIND.cpu_s       CPU seconds of training
mean.N.gain               mean of adapted F1 - F1 before adaptation
mean.N.behind_union       mean of union F1 - adapted F1
forgetting.ewt_dev        mean loss of F1 on EWT's dev after adaptation to 100 trees
update.one_document.COMPONENT  loss of the main score, times 100, on the other documents of the
                          sample by three updates of the component with one document; loss: maximum
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from statistics import mean
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import srsly
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

import spacy_structlearn
from spacy_structlearn.evaluation.evalb import EvalbScore, score_trees
from spacy_structlearn.pipeline.extensions import trees as trees_of
from spacy_structlearn.pipeline.readers import read_treebank, with_gold_tokens
from spacy_structlearn.trees.tree import Tree
from training.common.command import options, run_parts
from training.common.recording import CORPORA, RESULTS, ROOT, WORK
from training.common.scoring import f1_standard_error
from training.common.treebanks import MCTB_DOMAINS, PUNCTUATION, domain_trees, ewt_trees, wsj_trees
from training.pipeline import default

NAME = "adaptation"
DOMAINS = ("craft", "wsj")
# Sizes of each kind. The last takes most of an hour.
SIZES = {"adapted": (50, 100, 200, 400, 800), "alone": (100, 800), "union": (800,)}
TAGGER, PARSER = "chain_tagger", "constituency_parser"
SAMPLE = ROOT / "corpora" / "sample"
DEV = 500  # maximum number of sentences that are scored
UPDATES = 3

Figures = dict[str, float]


def parser_pipeline(prior: Path | None = None) -> Language:
    """Load the tagger and the parser of the built-in pipeline.

    prior: grammars of raw text, from which training from scratch starts.
    """
    settings = {f"components.{PARSER}.model.grammar.prior": prior and str(prior)}
    return spacy_structlearn.load(enable=[TAGGER, PARSER], config=settings)


def trees_of_domain(domain: str, split: str, corpora: Path = CORPORA) -> Sequence[Tree]:
    """Return the trees of train or dev."""
    if domain == "wsj":
        return wsj_trees(corpora, split)
    return domain_trees(corpora, domain, split)


def seen_trees() -> list[Tree]:
    """Return the training trees of the built-in parser."""
    mctb = (domain_trees(CORPORA, domain, "train") for domain in MCTB_DOMAINS)
    return [tree for own in (ewt_trees(CORPORA, "train"), *mctb) for tree in own]


def examples(nlp: Language, trees: Sequence[Tree]) -> list[Example]:
    """Return an Example for each tree, with tags predicted by the pipeline."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "trees.gz")
        text = "".join(f"{tree}\n" for tree in trees)
        path.write_bytes(gzip.compress(text.encode("utf8"), compresslevel=1))
        gold = [doc for _, doc in read_treebank(nlp.vocab, path)]
    tagged = nlp.get_pipe(TAGGER).pipe(words_of(nlp, doc) for doc in gold)
    return [Example(*pair) for pair in zip(tagged, gold, strict=True)]


def words_of(nlp: Language, doc: Doc | Tree) -> Doc:
    """Return a Doc of one sentence with the same words."""
    words = doc.words() if isinstance(doc, Tree) else [token.text for token in doc]
    starts = [position == 0 for position in range(len(words))]
    return Doc(nlp.vocab, words=words, sent_starts=starts)


def drawn(trees: Sequence[Tree], n: int) -> Sequence[Tree]:
    """Draw n trees at random, from all documents; the first of them are the same for every n."""
    return Random(0).sample(trees, len(trees))[:n]


def scored(nlp: Language, gold: Sequence[Tree], punctuation: str = "gold") -> EvalbScore:
    """Score the trees that the pipeline predicts for the words of these trees."""
    gold = drawn(gold, DEV)
    docs = list(nlp.pipe(words_of(nlp, tree) for tree in gold))
    return score_trees(gold, [trees_of(doc)[0] for doc in docs], punctuation=punctuation)


def on_dev(nlp: Language, domain: str, place: str) -> Figures:
    """Return F1 on dev of a domain, and its standard error."""
    found = scored(nlp, trees_of_domain(domain, "dev"), PUNCTUATION.get(domain, "gold"))
    return {f"{place}.f": found.f1, f"{place}.f_se": f1_standard_error(found)}


def trained(kind: str, trees: Sequence[Tree]) -> tuple[Language, float]:
    """Return the pipeline after training on these trees, and the CPU seconds of the training.

    kind: "adapted", to learn on; otherwise the training starts from scratch.
    """
    prior = default.prior(CORPORA, WORK, 1) if kind == "union" else None
    nlp = parser_pipeline(prior)
    given = examples(nlp, trees)
    start = process_time()
    for name in (PARSER, TAGGER):
        component: Any = nlp.get_pipe(name)
        if kind != "adapted":
            component.initialize(lambda: given, nlp=nlp)
        component.fit(given)
    return nlp, process_time() - start


def figures(domain: str, n: int, kind: str) -> Figures:
    """Return the figures of one training."""
    trees = drawn(trees_of_domain(domain, "train"), n)
    if kind == "union":
        trees = (*seen_trees(), *trees)
    nlp, seconds = trained(kind, trees)
    place = f"{domain}.{n}.{kind}"
    found = on_dev(nlp, domain, place) | {f"{place}.cpu_s": seconds}
    if kind == "adapted":
        found[f"{place}.ewt_dev"] = scored(nlp, ewt_trees(CORPORA, "dev")).f1
    return found


def before() -> Figures:
    """Return the scores of the built-in pipeline."""
    nlp = parser_pipeline()
    found: Figures = {}
    for domain in DOMAINS:
        found |= on_dev(nlp, domain, f"{domain}.0")
    return found | {"ewt_dev": scored(nlp, ewt_trees(CORPORA, "dev")).f1}


def updates() -> Figures:
    """Return what each component loses by updates with one document of the sample."""
    found = {}
    for name in spacy_structlearn.load().pipe_names:
        nlp = spacy_structlearn.load()
        component: Any = nlp.get_pipe(name)
        texts = SAMPLE / "sample.trees", SAMPLE / "sample.spaces", SAMPLE / "sample.props"
        documents = read_treebank(nlp.vocab, texts[0], spaces=texts[1], props=texts[2])
        gold = [doc for _, doc in documents]
        if name == "sentence_splitter":
            docs = [nlp.make_doc(doc.text) for doc in gold]
        else:
            docs = [with_gold_tokens(nlp, doc).predicted for doc in gold]
            for _, pipe in nlp.pipeline[1 : nlp.pipe_names.index(name)]:
                docs = list(pipe.pipe(docs))
        given = [Example(*pair) for pair in zip(docs, gold, strict=True)]
        start = component.main_score_on(given[1:])
        for _ in range(UPDATES):
            component.update(given[:1])
        found[name] = 100 * (start - component.main_score_on(given[1:]))
    places = {f"update.one_document.{name}": loss for name, loss in found.items()}
    return places | {"update.one_document.loss": max(found.values())}


def summary(results: dict[str, Any]) -> Figures:
    """Return the means over the domains, for sizes with figures of all domains."""

    def of(n: int, *path: str) -> list[float]:
        found = []
        for domain in DOMAINS:
            value: Any = results.get(domain, {}).get(str(n), {})
            for key in path:
                value = value.get(key, {})
            found += [value] if isinstance(value, float) else []
        return found if len(found) == len(DOMAINS) else []

    means: Figures = {}
    start = of(0, "f")
    for n in SIZES["adapted"]:
        adapted, union = of(n, "adapted", "f"), of(n, "union", "f")
        if start and adapted:
            means[f"mean.{n}.gain"] = mean(adapted) - mean(start)
        if adapted and union:
            means[f"mean.{n}.behind_union"] = mean(union) - mean(adapted)
    if after := of(100, "adapted", "ewt_dev"):
        means["forgetting.ewt_dev"] = results["ewt_dev"] - mean(after)
    return means


def means() -> Figures:
    """Return the means of the recorded figures."""
    path = RESULTS / f"{NAME}.json"
    return summary(srsly.read_json(path) if path.exists() else {})


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--domains", nargs="+", choices=DOMAINS, default=DOMAINS)
    parser.add_argument("--sizes", nargs="+", type=int, help="default: by kind")
    parser.add_argument("--kinds", nargs="+", choices=SIZES, default=list(SIZES))
    args = parser.parse_args()
    parts: dict[str, Callable[[], Figures]] = {"before": before}
    for domain, kind in product(args.domains, args.kinds):
        for n in args.sizes or SIZES[kind]:
            parts[f"{domain}.{n}.{kind}"] = partial(figures, domain, n, kind)
    run_parts(NAME, parts | {"updates": updates, "means": means})


if __name__ == "__main__":
    main()
