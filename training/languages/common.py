"""Train a pipeline of any language on a treebank: a tagger, and the parser of the default pipeline.

The settings are those of the default pipeline (training/configs) without what is English there:
words are classified by their shapes and endings, there are no word classes and no raw text, and the
tokenizer is spaCy's for the language, if need be with other rules. `sentencizer` splits sentences
at final marks, because these treebanks have no texts with their white space. Tags and labels are
those of the treebank.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.util import load_config

from spacy_structlearn.evaluation.evalb import EvalbParameters, score_trees
from spacy_structlearn.grammar.spans.features import SPAN_TEMPLATES
from spacy_structlearn.pipeline.readers import create_treebank_reader, read_treebank
from spacy_structlearn.pipeline.training import fitting
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree
from spacy_structlearn.writing import write_bytes
from training.common.command import options
from training.common.jackknife import write_docs
from training.common.recording import WORK, clean_commit, machine, record, show
from training.common.scoring import f1_standard_error, under
from training.pipeline import default
from training.pipeline.parser import BEHIND_TAGGER, calibrate
from training.pipeline.parser import CONFIG as PARSER_CONFIG
from training.pipeline.tagger import CONFIG as TAGGER_CONFIG

NAME = "languages"
TAGGER, PARSER = "chain_tagger", "constituency_parser"
# All brackets but the root count, and all tokens, also punctuation.
SCORED = EvalbParameters(deleted=frozenset({"TOP"}))
NOTES = (
    "F1 of labelled brackets without function tags and without the root, on the tokens of the "
    "treebank, with predicted tags. Punctuation counts as words."
)


@dataclass(frozen=True, kw_only=True)
class Treebank:
    """A treebank, and how to train on it.

    corpus: its folder, built by corpora/fetch.py.
    prefix: of its figures in training/results/languages.json.
    lang: spaCy's code of the language.
    name: of the pipeline.
    source: an entry of the "sources" in meta.json.
    tag: returns the tag of the pipeline for a tag of the treebank.
    tokenizer: changes the tokenizer of a pipeline to the conventions of the training trees.
    limit: the most training trees, evenly spaced; None for all.
    tagger, parser: settings of the architectures, in addition to `TAGGER_SETTINGS` and
        `PARSER_SETTINGS`.
    """

    corpus: str
    prefix: str
    lang: str
    name: str
    source: Mapping[str, str]
    tag: Callable[[str], str] = str
    tokenizer: Callable[[Language, Sequence[Tree]], None] | None = None
    limit: int | None = None
    tagger: Mapping[str, Any] = field(default_factory=dict)
    parser: Mapping[str, Any] = field(default_factory=dict)


# Features of several tags, and of words with tags. On dev of ICON, trained on half of its trees, F1
# is 80.6 with them and 80.1 without. With all trees, F1 is 83.4 with one grammar, 84.5 with two and
# 84.7 with four or six. Self-training on 46,000 sentences of news and encyclopedia (0.8 million
# words) gains nothing (84.5 with two grammars), and neither do a network beside the features
# (84.6), more buckets (84.6), more iterations or weaker penalties (84.5). Gold tags add 1.6.
TEMPLATES = [
    *SPAN_TEMPLATES,
    "TAG[before]|TAG[first]|TAG[last]|TAG[after]",
    "TAG[before]|TAG[first]|TAG[last]",
    "TAG[first]|TAG[last]|TAG[after]",
    "TAG[before-1]|TAG[before]|TAG[first]",
    "TAG[last]|TAG[after]|TAG[after+1]",
    "TAG[first]|TAG[first+1]",
    "TAG[last-1]|TAG[last]",
    "TAG[before]|TAG[after]|LENGTH",
    "TAG[first]|TAG[last]|LENGTH",
    "WORD[before]|TAG[first]",
    "TAG[before]|WORD[first]",
    "WORD[last]|TAG[after]",
    "TAG[last]|WORD[after]",
    "WORD[first]|TAG[last]",
    "TAG[first]|WORD[last]",
    "WORD[before]|TAG[after]",
    "TAG[before]|WORD[after]",
    "WORD[first]|TAG[after]",
    "TAG[before]|WORD[last]",
    "WORD[first]|WORD[first+1]",
    "WORD[last-1]|WORD[last]",
]
PARSER_SETTINGS = {
    "templates": TEMPLATES,
    "grammar.signature": "shape",
    "grammar.prior": None,
    "grammar.grammars": 4,
}


def tagger_settings() -> dict[str, Any]:
    """Return the settings of the tagger that differ from the config: no word classes."""
    settings = load_config(TAGGER_CONFIG)["components"][TAGGER]["model"]
    templates = [text for text in settings["templates"] if "CLASS" not in text]
    return {"templates": templates, "classes": None}


# --- trees ----------------------------------------------------------------------------------------
def trees_of(bank: Treebank, corpora: Path, split: str) -> list[Tree]:
    """Return the normalised trees of train, dev or test, with the tags of the pipeline."""
    normal = map(normalize, read_trees(corpora / bank.corpus / f"{split}.trees.gz"))
    return [
        tree.fold(lambda leaf: Tree.leaf(bank.tag(leaf.label), leaf.word), _same)
        for tree in normal
        if tree is not None
    ]


def _same(node: Tree, children: list[Tree]) -> Tree:
    return Tree(node.label, children)


def spaced(trees: Sequence[Tree], most: int | None) -> list[Tree]:
    """Return at most this number of trees, evenly spaced."""
    if most is None or len(trees) <= most:
        return list(trees)
    return [trees[i * len(trees) // most] for i in range(most)]


# --- training -------------------------------------------------------------------------------------
def train(bank: Treebank, trees: Mapping[str, Sequence[Tree]], work: Path) -> Language:
    """Train the pipeline on trees of train; those of dev calibrate the probabilities.

    work: a folder for files of the training.
    """
    work.mkdir(parents=True, exist_ok=True)
    files, docs = {}, {}
    for split in ("train", "dev"):
        files[split], docs[split] = work / f"{split}.trees", work / f"{split}.spacy"
        write_bytes(files[split], "".join(f"{tree}\n" for tree in trees[split]).encode())
        vocab = spacy.blank(bank.lang).vocab
        write_docs([doc for _, doc in read_treebank(vocab, files[split])], docs[split])
    tagger = _fitted(TAGGER_CONFIG, TAGGER, bank, docs, tagger_settings() | {**bank.tagger})
    paths = {"train": files["train"], "trees": files["dev"]}
    parser = _fitted(PARSER_CONFIG, PARSER, bank, paths, {**PARSER_SETTINGS, **bank.parser})
    dev = create_treebank_reader(files["dev"], tags=False)
    calibrate(parser.get_pipe(PARSER), dev(tagger), tagger)
    parts = spacy.blank(bank.lang)
    if bank.tokenizer is not None:
        bank.tokenizer(parts, trees["train"])
    parts.add_pipe("sentencizer")
    parts.add_pipe(TAGGER, source=tagger)
    parts.add_pipe(PARSER, source=parser)
    return assembled(bank, parts)


def _fitted(
    config: Path,
    component: str,
    bank: Treebank,
    paths: Mapping[str, Path],
    settings: Mapping[str, Any],
) -> Language:
    model = f"components.{component}.model"
    overrides = {f"{model}.{key}": value for key, value in settings.items()}
    overrides |= {f"paths.{name}": str(path) for name, path in paths.items()}
    return fitting.train(config, overrides=overrides | {"nlp.lang": bank.lang}, best=False)


def assembled(bank: Treebank, parts: Language) -> Language:
    """Return the pipeline with smaller models, without the strings and paths of the training.

    Personal data become unknown words.
    """
    tags, trees = parts.get_pipe(TAGGER), parts.get_pipe(PARSER)
    tags.parameters = tags.parameters.compact(*default.COMPACT["chain_tagger"])
    grammar = trees.parameters
    grammar = grammar.without_words(set(filter(default.PERSONAL.search, grammar.lexicon.words)))
    trees.parameters = grammar.compact(*default.COMPACT["constituency_parser"])
    config = parts.config.copy()
    config["components"][PARSER].update({**BEHIND_TAGGER, "set_tags": True})
    nlp = default.renewed(parts, config)
    nlp.meta.update(
        {
            **default.META,
            "name": bank.name,
            "description": f"Tags and constituency trees, trained on {bank.source['name']}.",
            "license": bank.source["license"],
            "sources": [dict(bank.source)],
        }
    )
    return nlp


# --- figures --------------------------------------------------------------------------------------
def measured(nlp: Language, gold: Sequence[Tree], split: str) -> dict[str, float]:
    """Return the scores of the trees, with the tokens of the gold trees, and the speed."""
    docs = []
    for tree in gold:
        words = tree.words()
        docs.append(Doc(nlp.vocab, words=words, sent_starts=[True, *[False] * (len(words) - 1)]))
    start = process_time()
    with nlp.select_pipes(enable=[TAGGER, PARSER]):
        parsed = list(nlp.pipe(docs))
    seconds = process_time() - start
    score = score_trees(gold, [doc._.trees[0] for doc in parsed], SCORED)
    return {
        "words_per_cpu_s": sum(map(len, docs)) / max(seconds, 1e-9),
        f"{split}_f1": score.f1,
        f"{split}_f1_se": f1_standard_error(score),
        f"{split}_exact": score.complete_match,
        f"{split}_tag_acc": score.tag_accuracy,
        f"{split}_sentences": len(score.rows),
    }


def build(bank: Treebank, trees: Mapping[str, Sequence[Tree]], output: Path) -> dict[str, float]:
    """Train, measure on dev and save the pipeline with its model card. Return the figures."""
    start = process_time()
    nlp = train(bank, trees, output.with_name(f"{output.name}.training"))
    seconds = process_time() - start
    fitting.save(nlp, output)
    # Not with `nlp` itself, whose vocab would get the words of dev.
    figures = measured(spacy.load(output), trees["dev"], "dev")
    figures |= {"train_cpu_s": seconds, "train_sentences": len(trees["train"])}
    performance = {name: value for name, value in figures.items() if name.startswith("dev_")}
    speed = {"words_per_cpu_s": round(figures["words_per_cpu_s"]), "cpu": machine()["cpu"]}
    nlp.meta.update({"notes": NOTES, "performance": performance, "speed": speed})
    fitting.save(nlp, output)
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    return figures | {"mb": size / 1e6}


def main(description: str, banks: Sequence[Treebank]) -> None:
    """Run the command of a language."""
    names = [bank.corpus for bank in banks]
    parser = options(description, "corpora", "limit", only=names)
    parser.add_argument(
        "--output", type=Path, default=WORK / NAME, help="folder of pipelines; default: %(default)s"
    )
    parser.add_argument(
        "--record", action="store_true", help="score test too, and record the figures"
    )
    args = parser.parse_args()
    if args.record:
        clean_commit()
    for bank in banks:
        if bank.corpus in (args.only or names):
            run(bank, args.corpora, args.output, args.limit, args.record)


def run(bank: Treebank, corpora: Path, folder: Path, limit: int | None, recorded: bool) -> None:
    """Build a pipeline, and print or record its figures."""
    trees = {split: trees_of(bank, corpora, split) for split in ("train", "dev")}
    trees["train"] = spaced(trees["train"], bank.limit)
    trees = {split: spaced(own, limit) for split, own in trees.items()}
    output = folder / f"{bank.lang}_{bank.name}"
    figures = build(bank, trees, output)
    if recorded and limit is None:
        test = measured(spacy.load(output), trees_of(bank, corpora, "test"), "test")
        figures |= {name: value for name, value in test.items() if name.startswith("test_")}
        record(NAME, under(bank.prefix, figures))
    show(under(bank.prefix, figures))
    print(f"saved {output}")
