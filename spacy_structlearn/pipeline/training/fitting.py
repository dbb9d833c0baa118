"""Training without `spacy train`: fit the components of its config straight to the optimum.

`spacy train` runs a component a few iterations at a time, with an evaluation after each step. Here
spaCy's own functions resolve the same config, and each component is fitted once. This is several
times faster. As with `spacy train`, the parameters with the best score on the dev corpus are kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeAlias

import srsly
from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.util import load_config, registry, resolve_dot_names
from tqdm import tqdm

from ...errors import StructlearnError
from ...writing import locked, replaced, resolved, tidy
from ..doc_arrays import SET_BY_COMPONENTS
from ..readers import with_gold_tokens
from ..sentence_splitter import SentenceSplitter
from ..storage import digests
from ..token_encoder import TokenEncoder
from .batch_trainable import BatchTrainable
from .cross_prediction import annotated

Curves: TypeAlias = dict[str, list[tuple[float, float]]]
"""Points of lines, by their names."""


def train(
    config_path: Path,
    output: Path | None = None,
    *,
    overrides: dict[str, Any] | None = None,
    best: bool = True,
    progress: bool = True,
    curves: Curves | None = None,
) -> Language:
    """Fit the components of this package in a config, evaluate, and save the pipeline.

    A training that was killed is resumed by a call with the same arguments, with the same result.
    output: directory of the pipeline, replaced as a whole once everything is written.
    overrides: changes of the config, such as {"paths.train": "train.spacy"}.
    best: keep the parameters of each component with the best main score on the dev corpus, as
        `BatchTrainable.fit` does. Otherwise, the last ones.
    curves: gets the iterations and the objectives of each component, and its scores on dev.
    Returns the pipeline, with its scores on the dev corpus in `nlp.meta["performance"]`. Raises
    StructlearnError if a component to be trained is not of this package, if `output` exists and is
    not a pipeline, if the config has no [training], and for a damaged checkpoint.
    """
    with nullcontext() if output is None else _locked(output) as place:
        try:
            config = load_config(config_path, overrides=overrides or {}, interpolate=False)
        except RecursionError:  # sections in sections
            raise StructlearnError("SL056", path=str(config_path)) from None
        if "training" not in config:
            raise StructlearnError("SL015", path=config_path)
        nlp = init_nlp(config)
        settings = registry.resolve(
            nlp.config.interpolate()["training"], schema=ConfigSchemaTraining
        )
        corpora = resolve_dot_names(
            nlp.config.interpolate(), [settings["train_corpus"], settings["dev_corpus"]]
        )
        frozen = set(settings["frozen_components"])
        dev = list(corpora[1](nlp))  # before the training, because the file may be missing
        losses = _fit(
            nlp, list(corpora[0](nlp)), dev if best else [], frozen, progress, place, curves
        )
        scores, weights = nlp.evaluate(dev) if dev else {}, settings["score_weights"]
        # As `spacy train` does: those without a weight, too.
        nlp.meta["performance"] = {
            **{
                name: scores.get(name)
                for name, weight in weights.items()
                if weight or name in scores
            },
            **{f"{name}_loss": value for name, value in losses.items()},
        }
        if place is not None:
            _save(nlp, place, {})
            for file in (_checkpoint(place, name) for name in losses):
                file.unlink(missing_ok=True)
        return nlp


def adapt(
    nlp: Language,
    docs: Iterable[Doc],
    output: Path,
    *,
    components: Collection[str] | None = None,
    reinitialise: Collection[str] = (),
    source: object = "The data",
    progress: bool = True,
) -> list[str]:
    """Let the components of a trained pipeline learn on from new data, and save the pipeline.

    Each component reads what the components before it, as they were, predict on the gold tokens.
    What was measured on the old pipeline is dropped from `nlp.meta`.
    docs: gold Docs with the vocab of `nlp`. A sentence splitter learns from those of several
        sentences whose spaces are known.
    output: directory of the pipeline, replaced as a whole once everything is written.
    components: names of components that should learn. None: all of this package for which the Docs
        have gold annotation.
    reinitialise: names of components that are trained from scratch instead, on these Docs alone.
    source: what error messages call the Docs.
    Returns the names of the components that learned; see `BatchTrainable.adaptation` of each.
    Raises StructlearnError for an unknown component and if one cannot learn on, if there is no gold
    annotation, and if `output` exists and is not a pipeline.
    """
    with _locked(output) as place:
        ours = {name: of for name, of in nlp.pipeline if isinstance(of, BatchTrainable)}
        named = {*(components or ()), *reinitialise}
        for name in sorted(named.difference(ours)):
            raise StructlearnError("SL097", component=name, names=", ".join(ours) or "none")
        wanted = list(ours) if components is None else [name for name in ours if name in named]
        lessons = _lessons(nlp, wanted, docs)
        missing = sorted(named.difference(lessons))
        if missing or not lessons:
            names = ", ".join(missing or wanted) or "any component of this pipeline"
            raise StructlearnError("SL096", source=source, components=names)
        for name in lessons:
            if name not in reinitialise and not ours[name].reinitialise:
                ours[name].require_adaptable()
        for name, examples in lessons.items():
            if name in reinitialise:
                ours[name].initialize(partial(list, examples))
            _fit_component(name, ours[name], examples, progress)
        for measured in ("size", "speed"):
            nlp.meta.pop(measured, None)
        old = "{lang}_{name} {version}".format(**nlp.meta)
        nlp.meta.update(performance={}, notes=f"Adapted from {old}: {', '.join(lessons)}.")
        _save(nlp, place, {})
        return list(lessons)


def _lessons(
    nlp: Language, wanted: Collection[str], docs: Iterable[Doc]
) -> dict[str, list[Example]]:
    """Get the Examples of each component that has gold annotation, in the order of the pipeline."""
    lessons, left = {}, set(wanted)
    so_far = [with_gold_tokens(nlp, doc) for doc in docs]
    for name, component in nlp.pipeline:
        if name in wanted and isinstance(component, BatchTrainable):
            splits = isinstance(component, SentenceSplitter)
            examples = list(_unsplit(so_far)) if splits else so_far
            if any(set(component.gold_labels(example)) for example in examples):
                lessons[name] = examples
            left.remove(name)
        if not left:
            break
        so_far = _annotated(nlp, name, so_far)
    return lessons


def _annotated(nlp: Language, name: str, examples: Sequence[Example]) -> list[Example]:
    """Let a component annotate copies of the predicted Docs."""
    docs = annotated(nlp, name, (example.predicted for example in examples))
    return [Example(doc, e.reference) for doc, e in zip(docs, examples, strict=True)]


def _unsplit(examples: Iterable[Example]) -> Iterator[Example]:
    """Iterate over Examples of texts, without their sentence boundaries.

    Sentences on their own are no texts: a splitter would learn that nothing ends.
    """
    for example in examples:
        gold = example.reference
        if not gold.has_unknown_spaces and sum(token.is_sent_start is True for token in gold) > 1:
            doc = example.predicted.copy()
            for token in doc:
                token.is_sent_start = None
            yield Example(doc, gold)


def unset_attributes(nlp: Language) -> Iterator[tuple[str, str]]:
    """Iterate over components and the token attributes that they read but no earlier one sets."""
    assigned: set[str] = set()
    for name, component in nlp.pipeline:
        read = getattr(getattr(component, "estimator", None), "attributes", ())
        for attribute in SET_BY_COMPONENTS:
            if attribute in read and f"token.{attribute.lower()}" not in assigned:
                yield name, f"token.{attribute.lower()}_"
        meta = nlp.get_pipe_meta(name)
        assigned.update(meta.assigns)
        if meta.factory == "attribute_ruler":  # which can set all
            return
        if getattr(component, "set_tags", False):
            assigned.add("token.tag")


def _fit(
    nlp: Language,
    examples: list[Example],
    dev: list[Example],
    frozen: set[str],
    progress: bool,
    checkpoints: Path | None,
    curves: Curves | None,
) -> dict[str, float]:
    """Fit the components of `nlp` one after another, and return the objective of each.

    The caller removes the checkpoints, which are next to `checkpoints`, after saving `nlp`.
    """
    trained: dict[str, BatchTrainable] = {}
    for name, component in nlp.pipeline:
        if name in frozen or not getattr(component, "is_trainable", False):
            continue
        if not isinstance(component, BatchTrainable):
            raise StructlearnError("SL008", component=name)
        trained[name] = component
    losses: dict[str, float] = {}
    for name in nlp.pipe_names:
        if name in trained:
            component, checkpoint = trained[name], None
            if checkpoints is not None:
                checkpoint = _checkpoint(checkpoints, name)
                tidy(checkpoint)
            losses[name] = _fit_component(
                name,
                component,
                examples,
                progress,
                dev=dev if any(set(component.gold_labels(example)) for example in dev) else (),
                checkpoint=checkpoint,
                settings=_settings(nlp.config.interpolate()["components"].get(name)),
                keep=True,
                curves=curves,
            )
        elif isinstance(nlp.get_pipe(name), TokenEncoder):
            examples = _annotated(nlp, name, examples)
        if dev and len(losses) < len(trained):
            dev = _annotated(nlp, name, dev)
    return losses


def _fit_component(
    name: str,
    component: BatchTrainable,
    examples: list[Example],
    progress: bool,
    curves: Curves | None = None,
    **options: Any,
) -> float:
    """Fit a component, with a progress bar over its iterations, and return the objective."""
    learner = component.estimator.settings
    total = getattr(learner, "n_reports", getattr(learner, "max_iterations", None))
    lines: list[list[tuple[float, float]]] = [[], []]
    if curves is not None:
        curves[f"{name}: objective"], curves[f"{name}: score"] = lines
    # disable=None: tqdm is silent if the output is not a terminal.
    with tqdm(desc=name, total=total, unit="it", disable=None if progress else True) as bar:

        def update(iteration: int, value: float) -> None:
            bar.set_postfix(loss=f"{value:.2f}", refresh=False)
            bar.update()
            lines[0].append((iteration, value))

        def score(iteration: int, value: float) -> None:
            lines[1].append((iteration, value))

        loss = component.fit(examples, on_iteration=update, on_score=score, **options)
    component.name_features([example.predicted for example in examples])
    return loss


def _checkpoint(output: Path, name: str) -> Path:
    return output.with_name(f".{output.name}.{name}.checkpoint")


def _settings(section: Any) -> str:
    """Compute a digest of a section of a config, without settings that do not affect training."""
    text = srsly.json_dumps(_without_threads(section), sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _without_threads(section: Any) -> Any:
    if not isinstance(section, dict):
        return section
    return {name: _without_threads(of) for name, of in section.items() if name != "threads"}


def save(nlp: Language, output: Path, *, extra: dict[str, str] | None = None) -> None:
    """Write the pipeline as a whole: after an error or a signal, `output` is as it was before.

    Digests of the files are saved too, by which damage is found later.
    extra: further text files, by name.
    Raises StructlearnError if `output` exists and is not a pipeline, and if another process is
    writing it.
    """
    with _locked(output) as place:
        _save(nlp, place, extra or {})


def _save(nlp: Language, output: Path, extra: dict[str, str]) -> None:
    with replaced(_replaceable(output)) as fresh:
        nlp.to_disk(fresh)
        for name, text in extra.items():
            (fresh / name).write_text(text, encoding="utf8")
        digests.write(fresh)


@contextmanager
def _locked(output: Path) -> Iterator[Path]:
    """Hold the lock of the directory of a pipeline, and provide its path without links."""
    output = resolved(Path(output))
    _replaceable(output)
    with locked(output):
        yield _replaceable(output)


def _replaceable(output: Path) -> Path:
    """Raise StructlearnError unless `output` is a pipeline, an empty directory or missing."""
    pipeline = all((output / name).is_file() for name in ("meta.json", "config.cfg"))
    empty = output.is_dir() and not any(output.iterdir())
    if output.exists() and not empty and not pipeline:
        raise StructlearnError("SL014", path=output)
    return output
