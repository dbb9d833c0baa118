"""Train `en_structlearn_sm`, the pipeline inside the package, from the fetched corpora.

    python corpora/fetch.py ewt craft
    python training/train_default.py

Stages, each kept in training/work so that an interrupted run resumes: the treebank as DocBins;
sentence splitter and tagger on all of train; predicted tags for train by k-fold jackknife; word
classes from raw text (EWT and CRAFT); the chunker on those; the parser on the trees; the attachment
of prepositional phrases on those, and on the trees of CRAFT; the labeler of semantic roles on the
propositions of EWT; the pipeline; one evaluation on dev, which makes its card (card.py).

With --only COMPONENT the others stay as they are in the package. With --card nothing is trained:
the pipeline that is there is evaluated, and the card in its meta.json made anew. With --tune,
settings of the chunker are compared instead, trained on the other documents of train and scored on
those of `ewt/tune.txt`. Everything is seeded: two runs write the same, but for the speed on the
card.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import card
import spacy
import srsly
from ewt import tuning_documents
from ewt_docs import build_docs, document_names, read_docs
from jackknife import jackknife, tag_docs, trained, write_docs
from recording import CORPORA, ROOT, WORK
from spacy.language import Language
from spacy.util import load_model_from_config
from train_classes import FILES, sentences, train_classes
from train_parser import HELD_OUT, train_parser
from train_pp_attacher import train_pp_attacher
from train_srl_labeler import train_srl_labeler, training_files

from spacy_structlearn.about import __version__
from spacy_structlearn.pipeline import fitting
from spacy_structlearn.pipeline.batch_trainable import write_bytes

PACKAGED = ROOT / "spacy_structlearn" / "data" / "en_structlearn_sm"
TAGGER_CONFIG = ROOT / "training" / "configs" / "tagger.cfg"
CHUNKER_CONFIG = ROOT / "training" / "configs" / "np_chunker.cfg"
CLASSES_FROM = ("craft", "ewt")  # the raw text of their training parts; both may be shipped
N_CLASSES = 400
FOLDS = 5
SMALLEST_WEIGHT = 0.05  # smaller weights are not shipped: 0.1 F1 at most on the tuning documents
TUNED_L2 = (0.5, 1.0, 2.0, 4.0)
# Of the parser's probabilities: smaller ones are not shipped, the others as float16. On the tuning
# documents that costs nothing.
SMALLEST_PROBABILITY = 1e-6
SMALLEST_ATTACHMENT_WEIGHT = 0.01  # the same, of the attachment of prepositional phrases
# What the labeler of semantic roles is learned from: on the tuning documents gold trees give F1
# 69.6, jackknifed ones 68.6, both 70.1.
ROLES_FROM = "both"
# Of its weights, as of those of the attachment, by stages.
SMALLEST_ROLE_WEIGHTS = {"predicates": 0.05, "senses": 0.05, "identification": 0.05, "roles": 0.05}
# E-mail addresses, the short ones of an office too, and telephone numbers: known words and names of
# features that are not published. The last pattern leaves alone the paths of word classes, which
# are of 0 and 1.
PERSONAL = re.compile(
    r"\w@\w|(?<!\d)\d{3}[-.)/ ]+\d{3}[-. ]?\d{4}|\d{3}-\d{4}(?!\d)"
    r"|(?<![\d.,])(?=\d*[2-9])\d{7,}(?![\d.,])"
)
RETRAINABLE = ("constituency_parser", "pp_attacher", "srl_labeler")

SOURCES = [
    {
        "name": "English Web Treebank: trees and propositions (PropBank release)",
        "url": "https://github.com/propbank/propbank-release",
        "license": "CC BY-SA 4.0",
        "author": "PropBank",
    },
    {
        "name": "English Web Treebank: words (UD_English-EWT)",
        "url": "https://github.com/UniversalDependencies/UD_English-EWT",
        "license": "CC BY-SA 4.0",
        "author": "Universal Dependencies",
    },
    {
        "name": "CRAFT: words, for word classes; attachments of prepositional phrases",
        "url": "https://github.com/UCDenver-ccp/CRAFT",
        "license": "CC BY 3.0",
        "author": "University of Colorado",
    },
]
LICENSES_SOURCES = """\
en_structlearn_sm is trained on the following corpora and licensed, like them, CC BY-SA 4.0
(https://creativecommons.org/licenses/by-sa/4.0/).

* English Web Treebank, trees and propositions: PropBank release, data/google/ewt
  https://github.com/propbank/propbank-release
  Creative Commons Attribution-ShareAlike 4.0 International
* English Web Treebank, words: UD_English-EWT
  https://github.com/UniversalDependencies/UD_English-EWT
  Creative Commons Attribution-ShareAlike 4.0 International for the annotations and database
  rights. Of the texts its licence says: "Some parts are in the public domain. Portions may be
  (c) 2012 Google Inc., (c) 2011 Yahoo! Inc., (c) 2012 Trustees of the University of Pennsylvania
  and/or (c) other original authors."
* CRAFT (Colorado Richly Annotated Full Text Corpus): the words of its training articles, for word
  classes, and the attachments of prepositional phrases in their trees
  https://github.com/UCDenver-ccp/CRAFT
  Creative Commons Attribution 3.0
"""


# --- stages ---------------------------------------------------------------------------------------
def train_tagger(docs: dict[str, Path], split: str, work: Path) -> Language:
    """Sentence splitter and tagger on one split of train; scores are logged on tune."""
    return trained(TAGGER_CONFIG, work / f"tagger-{split}", docs[split], docs["tune"])


def jackknifed(docs: dict[str, Path], work: Path, jobs: int) -> Path:
    """Train with predicted tags."""
    target = work / "ewt" / "train.jackknifed.spacy"
    if not target.exists():
        folds = work / "jackknife"
        jackknife(TAGGER_CONFIG, docs["train"], target, work=folds, folds=FOLDS, jobs=jobs)
    return target


def tagged(docs: Path, tagger: Language, target: Path) -> Path:
    """A file of Docs with the tags that `tagger` gives to its tokens."""
    if not target.exists():
        tag_docs(tagger, docs, target)
    return target


def learn_classes(corpora: Path, work: Path) -> Path:
    """Word classes of the raw text that may be shipped."""
    target = work / "classes.bin"
    if not target.exists():
        texts = (text for name in CLASSES_FROM for text in sentences(corpora / FILES[name]))
        work.mkdir(parents=True, exist_ok=True)
        write_bytes(target, train_classes(texts, N_CLASSES, 2).to_bytes())
    return target


def train_chunker(
    train: Path, dev: Path, classes: Path, output: Path | None = None, **settings: Any
) -> Language:
    """The chunker alone, on Docs as they are; `settings` go to its architecture."""
    paths = {"train": train, "dev": dev, "classes": classes}
    overrides = {f"paths.{name}": str(path) for name, path in paths.items()}
    overrides |= {f"components.np_chunker.model.{key}": val for key, val in settings.items()}
    return fitting.train(CHUNKER_CONFIG, output, overrides=overrides)


def train_pipeline(corpora: Path, work: Path, jobs: int) -> Language:
    """All stages: RETURNS the assembled pipeline, not yet evaluated."""
    docs = build_docs(corpora, work)
    tagger = train_tagger(docs, "train", work)
    train = jackknifed(docs, work, jobs)
    dev = tagged(docs["dev"], tagger, work / "ewt" / "dev.tagged.spacy")
    chunker = work / "chunker"
    if not chunker.exists():
        train_chunker(train, dev, learn_classes(corpora, work), chunker)
    add_chunker(tagger, spacy.load(chunker))
    add_parser(tagger, learn_parser(corpora, work, jobs))
    add_attacher(tagger, learn_attacher(corpora, work))
    add_labeler(tagger, learn_labeler(corpora, work, jobs))
    return assemble(tagger)


def learn_parser(corpora: Path, work: Path, threads: int) -> Language:
    """The parser alone, learned from all of train and calibrated on the tuning documents."""
    target = work / "parser"
    if not target.exists():
        nlp = train_parser(
            corpora,
            work / "parser.fit",
            use_all=True,
            held_out=work / HELD_OUT,
            threads=threads,
        )
        fitting.save(nlp, target)
    return spacy.load(target)


def learn_attacher(corpora: Path, work: Path) -> Language:
    """The attachment of prepositional phrases alone, learned from all sites."""
    target = work / "pp_attacher"
    if not target.exists():
        train_pp_attacher(corpora, work, target, use_all=True)
    return spacy.load(target)


def learn_labeler(corpora: Path, work: Path, threads: int) -> Language:
    """The labeler of semantic roles alone, learned from all of train and calibrated on the tuning
    documents.
    """
    target = work / "srl_labeler"
    if not target.exists():
        train_srl_labeler(training_files(ROLES_FROM, corpora, work, threads), target, use_all=True)
    return spacy.load(target)


def add_chunker(nlp: Language, trained: Language) -> None:
    """Add the chunker of another pipeline, as small as it is shipped."""
    nlp.add_pipe("np_chunker", source=trained)
    chunker = nlp.get_pipe("np_chunker")
    chunker.parameters = chunker.parameters.compact("float16", SMALLEST_WEIGHT)


def add_parser(nlp: Language, trained: Language) -> None:
    """Add the parser of another pipeline, or put it in the place of an older one."""
    add_in_place(nlp, "constituency_parser", trained)
    parser = nlp.get_pipe("constituency_parser")
    parser.parameters = parser.parameters.compact(SMALLEST_PROBABILITY, "float16")


def add_attacher(nlp: Language, trained: Language) -> None:
    """Add what attaches prepositional phrases, or put it in the place of an older one."""
    add_in_place(nlp, "pp_attacher", trained)
    attacher = nlp.get_pipe("pp_attacher")
    attacher.parameters = attacher.parameters.compact("float16", SMALLEST_ATTACHMENT_WEIGHT)


def add_labeler(nlp: Language, trained: Language) -> None:
    """Add the labeler of semantic roles, or put it in the place of an older one."""
    add_in_place(nlp, "srl_labeler", trained)
    labeler = nlp.get_pipe("srl_labeler")
    labeler.parameters = labeler.parameters.compact("float16", SMALLEST_ROLE_WEIGHTS)


def add_in_place(nlp: Language, name: str, trained: Language) -> None:
    """Add a component of another pipeline at the end, or where an older one is."""
    place = nlp.component_names.index(name) if name in nlp.component_names else None
    if place is not None:
        nlp.remove_pipe(name)
        before = nlp.component_names[place] if place < len(nlp.component_names) else None
        nlp.add_pipe(name, source=trained, before=before)
    else:
        nlp.add_pipe(name, source=trained)


def assemble(trained: Language) -> Language:
    """The pipeline without the words and paths of its training, and with its sources.

    Words that tell of persons are unknown to it: see `PERSONAL`.
    """
    config = trained.config.copy()
    config["paths"] = dict.fromkeys(config["paths"])
    config["components"]["np_chunker"]["model"]["classes"] = None  # the model holds them
    # Of this machine, and nothing that the weights depend on.
    config["components"]["constituency_parser"]["model"]["threads"] = 1
    nlp = load_model_from_config(config, auto_fill=True)
    # A StringStore only grows: a new one holds the labels, and none of the training text.
    nlp.from_bytes(trained.to_bytes(exclude=["vocab", "config"]), exclude=["vocab", "config"])
    forget_personal(nlp)
    for _, component in nlp.pipeline:
        for label in getattr(component, "labels", ()):
            nlp.vocab.strings.add(label)
    nlp.meta.update(
        {
            "name": "structlearn_sm",
            "version": __version__,
            "spacy_version": ">=3.8.0,<3.9.0",
            "description": (
                "Sentences, Penn Treebank tags, NP chunks, parses, attachment of prepositional "
                "phrases and semantic roles for English."
            ),
            "author": "the spacy-structlearn contributors",
            "license": "CC BY-SA 4.0",
            "sources": SOURCES,
        }
    )
    return nlp


def forget_personal(nlp: Language) -> None:
    """Take what `PERSONAL` finds out of the words and the names of features of all models."""
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
    """Scores of the components that are enabled on raw text, and their words per CPU second."""
    scores, speed = card.evaluate(nlp, read_docs(dev))
    return scores | {"words_per_cpu_s": speed["all"]}


def tune(corpora: Path, work: Path, jobs: int) -> None:
    """Compare settings of tagger and chunker on the tuning documents.

    Their predicted tags are those of the jackknife: no tagger has seen what it tags.
    """
    docs = build_docs(corpora, work)
    scores = train_tagger(docs, "fit", work).meta["performance"]
    print(f"tagger: accuracy {scores['tag_acc']:.4f}, sentences F1 {scores['sents_f']:.4f}")
    train, dev = split_tuning(corpora, jackknifed(docs, work, jobs), work)
    classes = learn_classes(corpora, work)
    for l2 in TUNED_L2:
        nlp = train_chunker(train, dev, classes, l2=l2)
        print(f"chunker, l2 {l2}: F1 {nlp.meta['performance']['np_chunk_f']:.4f}", flush=True)


def split_tuning(corpora: Path, train: Path, work: Path) -> tuple[Path, Path]:
    """A file with all documents of train, as two: without, and only, those of `ewt/tune.txt`."""
    tuning = tuning_documents(corpora)
    named = list(zip(document_names(corpora), read_docs(train), strict=True))
    paths = work / "ewt" / "fit.jackknifed.spacy", work / "ewt" / "tune.jackknifed.spacy"
    write_docs([doc for name, doc in named if name not in tuning], paths[0])
    write_docs([doc for name, doc in named if name in tuning], paths[1])
    return paths


def pipeline(args: argparse.Namespace) -> Language:
    """The pipeline, all of it or only one component trained."""
    if not args.only:
        return train_pipeline(args.corpora, args.work, args.jobs)
    trained = spacy.load(PACKAGED)
    if args.only == "constituency_parser":
        add_parser(trained, learn_parser(args.corpora, args.work, args.jobs))
    elif args.only == "pp_attacher":
        add_attacher(trained, learn_attacher(args.corpora, args.work))
    else:
        add_labeler(trained, learn_labeler(args.corpora, args.work, args.jobs))
    return assemble(trained)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--work", type=Path, default=WORK, help="kept stages")
    parser.add_argument("--output", type=Path, default=PACKAGED, help="where to save the pipeline")
    parser.add_argument("--jobs", type=int, default=1, help="processes or threads")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--only", choices=RETRAINABLE, help="train it alone; keep the others")
    instead.add_argument("--card", action="store_true", help="evaluate the pipeline that is there")
    instead.add_argument("--tune", action="store_true", help="compare settings instead")
    args = parser.parse_args()
    if args.tune:
        tune(args.corpora, args.work, args.jobs)
        return
    if not args.card:
        nlp = pipeline(args)
        fitting.save(nlp, args.output, extra={"LICENSES_SOURCES": LICENSES_SOURCES})
    gold = read_docs(build_docs(args.corpora, args.work)["dev"])
    print(srsly.json_dumps(card.write_card(args.output, gold), indent=2))


if __name__ == "__main__":
    main()
