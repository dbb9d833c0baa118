"""Train `en_structlearn_sm`, the pipeline in the package, on the fetched corpora.

    python corpora/fetch.py ewt craft mctb raw_text
    python -m training.train_default

Each stage is kept in training/work, so that an interrupted run resumes:

1. Convert the treebank to DocBins, and learn word classes from EWT, CRAFT and other raw text.
2. Train the sentence splitter on the documents in several layouts, and the tagger on all of train.
3. Predict tags for train by k-fold jackknifing.
4. Train the parser on the trees of EWT and MCTB_en, and of raw text that an encoder has annotated
   (training/encoder, self_training.py). Train the chunker on the predicted tags, the PP attacher on
   the trees of EWT, CRAFT and MCTB_en, with counts of the raw text (associations.py), and the role
   labeler on the propositions of EWT and of the annotated text, and the morphologizer on gold trees
   and tags of EWT.
5. Let the tagger and the parser learn on from sentences of rare kinds (rare_kinds.py).
6. Assemble the pipeline. Evaluate it once on dev, and write its model card (card.py).

--only COMPONENT ... keeps the other components of the package. --rare-kinds PIPELINE makes stage 5
alone, with the components of an existing pipeline, also of one with an encoder. After it the role
labeler learns on from sentences with frames: `python -m training.pipeline.frames`. --card evaluates
the existing pipeline and writes the card. --tune compares settings of the chunker, trained on train
without the documents of `ewt/tune.txt` and scored on these. All stages are seeded: only the speed
on the card differs between runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import spacy
import srsly
from confection import Config
from spacy.language import Language
from spacy.util import load_model_from_config

from spacy_structlearn.about import __version__
from spacy_structlearn.pipeline.storage.word_classes import share_classes, word_classes
from spacy_structlearn.pipeline.training import fitting
from spacy_structlearn.words.classes import WordClasses
from training.common.command import options
from training.common.ewt import build_docs, read_docs, split_tuning
from training.common.recording import ROOT
from training.pipeline import card, dependencies
from training.pipeline.associations import learn_associations
from training.pipeline.attacher import train_pp_attacher
from training.pipeline.classes import learn_classes
from training.pipeline.labeler import jackknifed as jackknifed_trees
from training.pipeline.labeler import train_srl_labeler, training_files
from training.pipeline.morphology import SMALLEST_WEIGHT, train_morphologizer
from training.pipeline.parser import BEHIND_TAGGER, HELD_OUT, train_parser
from training.pipeline.rare_kinds import LESSONS, learn_on
from training.pipeline.self_training import learn_prior
from training.pipeline.sentence_ends import learn_abbreviations, learn_ends
from training.pipeline.tagger import TUNE_TAGGED, jackknifed, tagged, train_tagger

PACKAGED = ROOT / "spacy_structlearn" / "data" / "en_structlearn_sm"
CONFIGS = ROOT / "training" / "configs"
SPLITTER_CONFIG = CONFIGS / "sentence_splitter.cfg"
CHUNKER_CONFIG = CONFIGS / "np_chunker.cfg"
# The tokenizer follows EWT where spaCy's rules for English differ from it.
TOKENIZER = {"@tokenizers": "spacy_structlearn.english_tokenizer.v1"}
BASE = {"nlp": {"batch_size": 256, "tokenizer": TOKENIZER}}
META = {
    "version": __version__,
    "spacy_version": ">=3.8.0,<3.9.0",
    "author": "the spacy-structlearn contributors",
    "license": "CC BY-SA 4.0",
}
# Settings of the parser in the pipeline.
TOGETHER: dict[str, dict[str, Any]] = {
    "constituency_parser": {**BEHIND_TAGGER, "set_tags": True, "probable_trees": 3},
    "np_chunker": {"set_noun_chunks": True},  # whose roots come from tree_dependencies
}
TUNED_L2 = (1.0, 2.0, 4.0, 8.0)
# The training trees of the role labeler. In trees of a product of grammars, without input tags, F1
# on the tuning documents was 69.6 with gold trees, 68.6 with jackknifed trees, and 70.1 with both.
ROLES_FROM = "both"
LABELER_HELD_OUT = "srl_labeler.without_tune"  # in the cache of stages
# Smaller weights of the stages of the role labeler are removed too, which changes its F1 by .1.
SMALLEST_ROLE_WEIGHTS = {"predicates": 0.05, "senses": 0.1, "identification": 0.08, "roles": 0.06}
# E-mail addresses (also short internal ones) and telephone numbers: they are removed from known
# words and feature names. The last pattern skips the paths of word classes, such as 0110.
PERSONAL = re.compile(
    r"\w@\w|(?<!\d)\d{3}[-.)/ ]+\d{3}[-. ]?\d{4}|\d{3}-\d{4}(?!\d)"
    r"|(?<![\d.,])(?=\d*[2-9])\d{7,}(?![\d.,])"
)

SOURCES: list[dict[str, str]] = srsly.read_json(CONFIGS / "sources.json")
LICENSES_SOURCES = (CONFIGS / "LICENSES_SOURCES").read_text(encoding="utf8")


# --- stages ---------------------------------------------------------------------------------------
def train_splitter(corpora: Path, work: Path, split: str = "train") -> Language:
    """Train the sentence splitter on one split of train, and score it on tune."""
    target = work / f"sentence_splitter.{split}"
    if not target.exists():
        docs, classes = build_docs(corpora, work), learn_classes(corpora, work)
        train = learn_ends(corpora, work, split)
        overrides = _paths({"train": train, "dev": docs["tune"], "classes": classes})
        listed = learn_abbreviations(corpora, work)
        overrides["components.sentence_splitter.abbreviations"] = listed
        fitting.train(SPLITTER_CONFIG, target, overrides=overrides, best=False)
    return spacy.load(target)


def _paths(paths: dict[str, Path]) -> dict[str, Any]:
    return {f"paths.{name}": str(path) for name, path in paths.items()}


def train_chunker(
    train: Path, dev: Path, classes: Path, output: Path | None = None, **settings: Any
) -> Language:
    """Train the chunker on unchanged Docs. settings: of its architecture."""
    overrides = _paths({"train": train, "dev": dev, "classes": classes})
    overrides |= {f"components.np_chunker.model.{key}": val for key, val in settings.items()}
    return fitting.train(CHUNKER_CONFIG, output, overrides=overrides, best=False)


def learn_chunker(corpora: Path, work: Path, jobs: int, split: str = "train") -> Language:
    """Train the chunker on predicted tags of one split of train."""
    target = work / f"chunker.{split}"
    if not target.exists():
        docs, train = build_docs(corpora, work), jackknifed(corpora, work, jobs)
        if split == "fit":
            parts = [work / "ewt" / f"{name}.jackknifed.spacy" for name in ("fit", "tune")]
            train = split_tuning(corpora, train, *parts)[0]
        tune = tagged(docs["tune"], train_tagger(corpora, work, "fit"), work / TUNE_TAGGED)
        train_chunker(train, tune, learn_classes(corpora, work), target)
    return spacy.load(target)


def tagging(corpora: Path, work: Path, **further: Language) -> Language:
    """Return a pipeline of the splitter, the tagger and a component of another pipeline."""
    nlp = spacy.blank("en", config=BASE)
    nlp.add_pipe("sentence_splitter", source=train_splitter(corpora, work))
    nlp.add_pipe("chain_tagger", source=train_tagger(corpora, work))
    for name, source in further.items():
        nlp.add_pipe(name, source=source)
    return nlp


def learn_parser(corpora: Path, work: Path, threads: int) -> Language:
    """Train the parser on all of train. It is calibrated on the tuning documents, with the tags of
    a tagger that has not seen them."""
    target = work / "parser"
    if not target.exists():
        nlp = train_parser(
            corpora,
            work / "parser.fit",
            use_all=True,
            held_out=work / HELD_OUT,
            tagger=train_tagger(corpora, work, "fit"),
            threads=threads,
            prior=str(learn_prior(work, threads)),
        )
        fitting.save(nlp, target)
    return spacy.load(target)


def learn_attacher(corpora: Path, work: Path, jobs: int, split: str = "train") -> Language:
    """Train the PP attacher on all sites, or on those of fit."""
    target = work / f"pp_attacher.{split}"
    if not target.exists():

        def chunker() -> Language:
            return tagging(corpora, work, np_chunker=learn_chunker(corpora, work, jobs))

        associations = learn_associations(corpora, work, chunker)
        use_all = split == "train"
        train_pp_attacher(corpora, work, target, use_all=use_all, associations=associations)
    return spacy.load(target)


def learn_labeler(corpora: Path, work: Path, threads: int) -> Language:
    """Train the role labeler on all of train. It is calibrated on the tuning documents."""
    target = work / "srl_labeler"
    if not target.exists():
        files = training_files(ROLES_FROM, corpora, work, threads, learn_prior(work, threads))
        train_srl_labeler(files, target, use_all=True, held_out=work / LABELER_HELD_OUT)
    return spacy.load(target)


def learn_dependencies(corpora: Path, work: Path, jobs: int) -> Language:
    """Train the dependencies on all of train. They are calibrated on the tuning documents."""
    target = work / "tree_dependencies"
    if not target.exists():
        learn_parser(corpora, work, jobs)
        trees = jackknifed_trees(corpora, work, jobs, learn_prior(work, jobs))
        scores = dependencies.train_dependencies(
            dependencies.training_files(corpora, work, trees["train"]),
            target,
            work / dependencies.HELD_OUT,
            lambda: parsing(corpora, work),
        )
        print(srsly.json_dumps(scores, indent=2), flush=True)
    return spacy.load(target)


def parsing(corpora: Path, work: Path) -> Language:
    """Return a tagger and a parser that have not learned the tuning documents."""
    nlp = spacy.blank("en", config=BASE)
    nlp.add_pipe("chain_tagger", source=train_tagger(corpora, work, "fit"))
    parser = nlp.add_pipe("constituency_parser", source=spacy.load(work / HELD_OUT))
    for setting, value in TOGETHER["constituency_parser"].items():
        setattr(parser, setting, value)
    return nlp


def held_out(corpora: Path, work: Path, jobs: int) -> Language:
    """Return the components that have not learned the tuning documents."""
    nlp = spacy.blank("en", config=BASE)
    learn_parser(corpora, work, jobs)
    learn_labeler(corpora, work, jobs)
    learn_dependencies(corpora, work, jobs)
    for name, source in (
        ("sentence_splitter", train_splitter(corpora, work)),
        ("chain_tagger", train_tagger(corpora, work, "fit")),
        ("constituency_parser", spacy.load(work / HELD_OUT)),
        ("np_chunker", learn_chunker(corpora, work, jobs, "fit")),
        ("pp_attacher", learn_attacher(corpora, work, jobs, "fit")),
        ("srl_labeler", spacy.load(work / LABELER_HELD_OUT)),
        ("tree_dependencies", spacy.load(work / dependencies.HELD_OUT)),
        ("tree_morphologizer", train_morphologizer(corpora, work, "fit")),
    ):
        nlp.add_pipe(name, source=source)
        for setting, value in TOGETHER.get(name, {}).items():
            setattr(nlp.get_pipe(name), setting, value)
    return nlp


# --- the pipeline ---------------------------------------------------------------------------------
# What trains the components, in the order of the pipeline, given the folders of corpora and stages
# and the number of processes or threads.
COMPONENTS: dict[str, Callable[[Path, Path, int], Language]] = {
    "sentence_splitter": lambda corpora, work, _: train_splitter(corpora, work),
    "chain_tagger": lambda corpora, work, _: train_tagger(corpora, work),
    "constituency_parser": learn_parser,
    "np_chunker": learn_chunker,
    "pp_attacher": learn_attacher,
    "srl_labeler": learn_labeler,
    "tree_dependencies": learn_dependencies,
    "tree_morphologizer": lambda corpora, work, _: train_morphologizer(corpora, work),
}
# How they are stored: smaller weights are removed, which costs at most .1 of F1 on the tuning
# documents. The accuracy of the parser does not change.
COMPACT: dict[str, tuple[Any, Any]] = {
    "sentence_splitter": ("float16", 0.05),
    "chain_tagger": ("float16", 0.05),
    "constituency_parser": (1e-6, "float16"),
    "np_chunker": ("float16", 0.08),
    "pp_attacher": ("float16", 0.02),
    "srl_labeler": ("float16", SMALLEST_ROLE_WEIGHTS),
    "tree_dependencies": ("float16", dependencies.SMALLEST_WEIGHTS),
    "tree_morphologizer": ("float16", SMALLEST_WEIGHT),
}


def pipeline(
    corpora: Path, work: Path, jobs: int, learned: Iterable[str] = tuple(COMPONENTS)
) -> Language:
    """Return the pipeline before evaluation. learned: the components to train; the others are
    taken from the package."""
    packaged = None if set(learned) >= set(COMPONENTS) else spacy.load(PACKAGED)
    nlp = spacy.blank("en", config=BASE)
    for name, learn in COMPONENTS.items():
        if name not in learned:
            nlp.add_pipe(name, source=packaged)
            continue
        nlp.add_pipe(name, source=learn(corpora, work, jobs))
    learn_on(nlp, corpora, work, set(LESSONS).intersection(learned))
    for name in learned:
        component = nlp.get_pipe(name)
        component.parameters = component.parameters.compact(*COMPACT[name])
    # Components of the package store the digest of their classes only.
    classes = WordClasses.from_bytes(learn_classes(corpora, work).read_bytes())
    share_classes(nlp.vocab, classes)
    return assemble(nlp)


def learn_rare_kinds(
    nlp: Language, corpora: Path, work: Path, models: Iterable[str] = tuple(LESSONS)
) -> None:
    """Let the tagger and the parser of a pipeline learn on.

    models: the components that do; the heads of an encoder learn on besides.
    """
    learned = renewed(nlp, nlp.config)  # so that no words of the training are left
    learn_on(learned, corpora, work, models)
    for name in LESSONS:
        new, old = learned.get_pipe(name), nlp.get_pipe(name)
        if name in models:
            old.parameters = new.parameters.compact(*COMPACT[name])
        if new.site_scorers:
            old.potentials = new.potentials


def assemble(trained: Language) -> Language:
    """Remove the words and paths of the training from the pipeline, and add its sources.

    Personal data become unknown words: see `PERSONAL`.
    """
    config = trained.config.copy()
    config["paths"] = dict.fromkeys(config["paths"])
    for name, settings in TOGETHER.items():
        config["components"][name].update(settings)
    for component in config["components"].values():
        if "classes" in component["model"]:
            component["model"]["classes"] = None  # stored in the model
        if "associations" in component:
            component["associations"] = None  # the same
        if "threads" in component["model"]:
            component["model"]["threads"] = 1  # depends on the training machine
        if "prior" in component["model"].get("grammar", {}):
            component["model"]["grammar"]["prior"] = None  # its counts are in the model
    nlp = renewed(trained, config)
    forget_personal(nlp)
    nlp.meta.update(
        {
            **META,
            "name": "structlearn_sm",
            "description": (
                "Sentences, Penn Treebank tags, NP chunks, parses, attachment of prepositional "
                "phrases, semantic roles and dependencies for English."
            ),
            "sources": SOURCES,
        }
    )
    return nlp


def renewed(trained: Language, config: Config) -> Language:
    """Return the pipeline with another config, and without the words of the training.

    A StringStore never shrinks. A new one contains the labels, but no training text.
    """
    nlp, without = load_model_from_config(config, auto_fill=True), ["vocab", "config"]
    share_classes(nlp.vocab, word_classes(trained.vocab))
    nlp.from_bytes(trained.to_bytes(exclude=without), exclude=without)
    for _, component in nlp.pipeline:
        for label in getattr(component, "labels", ()):
            nlp.vocab.strings.add(label)
    return nlp


def forget_personal(nlp: Language) -> None:
    """Remove matches of `PERSONAL` from the words and feature names of all models."""
    parser = nlp.get_pipe("constituency_parser")
    words = parser.parameters.lexicon.words
    parser.parameters = parser.parameters.without_words(set(filter(PERSONAL.search, words)))
    roles = nlp.get_pipe("srl_labeler").parameters
    named = [nlp.get_pipe(name).parameters for name in ("np_chunker", "pp_attacher")]
    for model in [*named, *(roles[stage] for stage in roles.stages)]:
        for key, name in list(model.names.items()):
            if PERSONAL.search(name):
                del model.names[key]


def evaluate(nlp: Language, dev: Path) -> dict[str, float]:
    """Return scores of the enabled components on raw text, and their words per CPU second."""
    scores, speed = card.evaluate(nlp, read_docs(dev))
    return scores | {"words_per_cpu_s": speed["all"]}


def tune(corpora: Path, work: Path, jobs: int) -> None:
    """Print scores on the tuning documents, for the chunker with several settings.

    Tags are jackknifed, so that no tagger has seen the documents that it tags.
    """
    for train_one in (train_splitter, train_tagger):
        nlp = train_one(corpora, work, "fit")
        for name, value in nlp.meta["performance"].items():
            print(f"{nlp.pipe_names[0]}: {name} {value:.4f}", flush=True)
    parts = [work / "ewt" / f"{name}.jackknifed.spacy" for name in ("fit", "tune")]
    train, dev = split_tuning(corpora, jackknifed(corpora, work, jobs), *parts)
    classes = learn_classes(corpora, work)
    for l2 in TUNED_L2:
        nlp = train_chunker(train, dev, classes, l2=l2)
        print(f"chunker, l2 {l2}: F1 {nlp.meta['performance']['np_chunk_f']:.4f}", flush=True)


def main() -> None:
    parser = options(__doc__, "corpora", "work", "jobs")
    parser.add_argument("--output", type=Path, default=PACKAGED, help="where to save the pipeline")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--only", nargs="+", choices=COMPONENTS, help="train only these; keep the others"
    )
    instead.add_argument("--rare-kinds", type=Path, help="let this pipeline learn on instead")
    instead.add_argument("--card", action="store_true", help="evaluate the existing pipeline")
    instead.add_argument("--tune", action="store_true", help="compare settings instead")
    args = parser.parse_args()
    if args.tune:
        tune(args.corpora, args.work, args.jobs)
        return
    if args.rare_kinds:
        nlp = spacy.load(args.rare_kinds)
        learn_rare_kinds(nlp, args.corpora, args.work)
        licences = (args.rare_kinds / "LICENSES_SOURCES").read_text(encoding="utf8")
        fitting.save(nlp, args.output, extra={"LICENSES_SOURCES": licences})
    elif not args.card:
        nlp = pipeline(args.corpora, args.work, args.jobs, args.only or COMPONENTS)
        fitting.save(nlp, args.output, extra={"LICENSES_SOURCES": LICENSES_SOURCES})
    gold = read_docs(build_docs(args.corpora, args.work)["dev"])
    print(srsly.json_dumps(card.write_card(args.output, gold), indent=2))


if __name__ == "__main__":
    main()
