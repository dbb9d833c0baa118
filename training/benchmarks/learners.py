"""Every learner of every component, trained on the same part of EWT as `init-config` prints it.

    python corpora/fetch.py ewt
    python -m training.benchmarks.learners

All learners of a component train on the same documents of train (every sixth, or fewer where some
learners are slow, see OF_TRAIN) and are scored on every third document of dev, with one thread,
without early stopping and without tuning. Taggers and parsers read gold tokens and sentences,
chunkers gold tags too, and what comes after the parser reads gold trees. The splitter reads raw
text. In training/results/learners.json, for each component and learner:

COMPONENT.LEARNER.score         main score of the component on dev in percent
COMPONENT.LEARNER.score_se      its standard error, by the jackknife over ten groups of documents
COMPONENT.LEARNER.train_s       CPU seconds of training, with features, without reading
COMPONENT.LEARNER.words_per_s   words of dev per CPU second of the component
COMPONENT.LEARNER.mb            size of the parameters in 10^6 bytes
COMPONENT.n.{train,dev}_{sentences,words}
untrainable                     number of learners that failed, or did not learn anything

Colons replace the dots in names of learners (`MEstimation:empirical`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from time import process_time
from typing import Any

import numpy as np
import srsly
from spacy.training import Example
from spacy.util import load_model_from_config, registry
from thinc.api import Config

from spacy_structlearn.pipeline.training.configs import COMPONENTS, learners
from training.common.command import Figures, options, run_parts
from training.common.ewt import build_docs, read_docs, write_docs
from training.common.recording import RESULTS

NAME = "learners"
EVERY, OF_DEV = 6, 3  # every sixth document of train, every third of dev
OF_TRAIN = {"constituency_parser": 18, "srl_labeler": 30, "tree_dependencies": 30}
OF_TRAIN |= dict.fromkeys(("sentence_splitter", "chain_tagger", "tree_morphologizer"), 60)
GROUPS = 10


def data(component: str, args: Any) -> tuple[dict[str, str], Figures]:
    """Write the parts of train and dev for a component, and return their files and sizes."""
    whole, paths, sizes = build_docs(args.corpora, args.work), {}, {}
    for split, every in (("train", OF_TRAIN.get(component, EVERY)), ("dev", OF_DEV)):
        docs = read_docs(whole[split])[::every][: args.limit]
        path = args.work / "learners" / f"{component}.{split}.spacy"
        write_docs(docs, path)
        paths[split] = str(path)
        prefix = f"{component}.n.{split}"
        sizes[f"{prefix}_sentences"] = sum(len(list(doc.sents)) for doc in docs)
        sizes[f"{prefix}_words"] = sum(not token.is_space for doc in docs for token in doc)
    return paths, sizes


def learner_figures(component: str, config: Config, paths: dict[str, str]) -> Figures:
    """Train and score one learner."""
    config["paths"] |= paths
    nlp = load_model_from_config(config, auto_fill=True)
    pipe: Any = nlp.get_pipe(component)
    corpora = registry.resolve(nlp.config.interpolate()["corpora"])
    train, dev = (list(corpora[split](nlp)) for split in ("train", "dev"))
    start = process_time()
    nlp.initialize(lambda: train)
    pipe.fit(train)
    train_s = process_time() - start
    docs = [example.predicted for example in dev]
    list(pipe.pipe(doc.copy() for doc in docs[::4]))  # caches, and what is imported late
    words = sum(not token.is_space for doc in docs for token in doc)
    start = process_time()
    docs = list(pipe.pipe(docs, batch_size=32))
    seconds = process_time() - start
    examples = [Example(doc, old.reference) for doc, old in zip(docs, dev, strict=True)]
    score = partial(main_score, pipe)
    return {
        "score": score(examples),
        "score_se": jackknife(score, examples),
        "train_s": train_s,
        "words_per_s": words / seconds,
        "mb": len(pipe.parameters.to_bytes()) / 1e6,
    }


def main_score(pipe: Any, examples: Sequence[Example]) -> float:
    """Return the main score of a component, in percent."""
    return 100 * (pipe.score(examples)[pipe.main_score] or 0.0)


def jackknife(score: Any, examples: Sequence[Example]) -> float:
    """Return the standard error of a score, from scores without one group of documents each."""
    left = [
        score([example for i, example in enumerate(examples) if i % GROUPS != group])
        for group in range(GROUPS)
    ]
    return float(np.sqrt((GROUPS - 1) * np.var(left)))


def component_figures(component: str, args: Any) -> Iterator[Figures]:
    """Yield the figures of the learners of a component, one after another."""
    paths, sizes = data(component, args)
    yield sizes
    for name, config in learners(component).items():
        if args.learners is None or name in args.learners:
            try:
                found = learner_figures(component, config, paths)
            except Exception as error:
                found = {"score": 0.0, "error": f"{type(error).__name__}: {error}"}
            yield {f"{component}.{key_of(name)}.{key}": value for key, value in found.items()}


def key_of(learner: str) -> str:
    """Return the name of a learner in keys, whose parts dots separate."""
    return learner.replace(".", ":")


def untrainable() -> Figures:
    """Return the number of learners without a score."""
    results = srsly.read_json(RESULTS / f"{NAME}.json")
    missing = [
        f"{component} {name}"
        for component in COMPONENTS
        for name in learners(component)
        if not results.get(component, {}).get(key_of(name), {}).get("score")
    ]
    return {"untrainable": len(missing)}


def main() -> None:
    parser = options(__doc__, "corpora", "work", "limit", only=COMPONENTS)
    parser.add_argument("--learners", nargs="+", help="names of some learners; default: all")
    args = parser.parse_args()
    names, is_trial = args.only or COMPONENTS, args.limit is not None
    parts: dict[str, Any] = {name: partial(component_figures, name, args) for name in names}
    run_parts(NAME, parts | ({} if is_trial else {"untrainable": untrainable}), is_trial=is_trial)


if __name__ == "__main__":
    main()
