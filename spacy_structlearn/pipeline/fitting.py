"""The second door to training: the config of `spacy train`, fitted straight through.

`spacy train` runs a component of ours a few iterations at a time, with an evaluation after each
step. Here the same config is resolved by spaCy's own functions and each component is fitted to its
optimum once, which is several times faster and, without early stopping, ends at the same point.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import srsly
from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.util import load_config, registry, resolve_dot_names
from tqdm import tqdm

from ..errors import StructlearnError
from ..parallel.shards import MakeEngine, make_engine
from . import digests
from .batch_trainable import BatchTrainable


def train(
    config_path: Path,
    output: Path | None = None,
    *,
    overrides: dict[str, Any] | None = None,
    progress: bool = True,
    make_engine: MakeEngine = make_engine,
) -> Language:
    """Fit every component of ours that the config does not freeze, evaluate, and save.

    config_path: a config as for `spacy train`. output: directory for the pipeline, replaced as a
    whole once it is written. overrides: e.g. {"paths.train": "train.spacy"}. make_engine: makes
    what has the shards of the data, see `parallel.shards`.
    Of a training that is killed, the next call with the same arguments goes on, and ends with the
    same pipeline.
    RETURNS: the pipeline, with its scores on the dev corpus in `nlp.meta["performance"]`.
    RAISES: SL008 if a component that is to be trained is none of ours; SL014 if `output` exists
    and is no pipeline; SL015 if the config is none for training; SL085 if the state of a training
    that was killed is damaged.
    """
    if output is not None:
        output = Path(output).resolve()
        _restore(output)
        _check_replaceable(output)
    config = load_config(config_path, overrides=overrides or {}, interpolate=False)
    if "training" not in config:
        raise StructlearnError("SL015", path=config_path)
    nlp = init_nlp(config)
    settings = registry.resolve(nlp.config.interpolate()["training"], schema=ConfigSchemaTraining)
    corpora = resolve_dot_names(
        nlp.config.interpolate(), [settings["train_corpus"], settings["dev_corpus"]]
    )
    frozen = set(settings["frozen_components"])
    losses = fit_components(
        nlp,
        list(corpora[0](nlp)),
        frozen=frozen,
        progress=progress,
        checkpoints=output,
        make_engine=make_engine,
    )
    record_performance(nlp, list(corpora[1](nlp)), weights=settings["score_weights"], losses=losses)
    if output is not None:
        save(nlp, output)
        for name in losses:
            _checkpoint(output, name).unlink(missing_ok=True)
    return nlp


def fit_components(
    nlp: Language,
    examples: list[Example],
    *,
    frozen: set[str] = frozenset(),
    progress: bool = True,
    checkpoints: Path | None = None,
    make_engine: MakeEngine = make_engine,
) -> dict[str, float]:
    """Fit the trainable components of `nlp` one after another. RETURNS: their objectives.

    checkpoints: the state of each component's training is kept in a hidden file beside this path,
    for the next call to go on from. These stay until somebody removes them, who has saved `nlp`.
    """
    trained = {
        name: component
        for name, component in nlp.pipeline
        if name not in frozen and getattr(component, "is_trainable", False)
    }
    for name, component in trained.items():
        if not isinstance(component, BatchTrainable):
            raise StructlearnError("SL008", component=name)
    losses = {}
    for name, component in trained.items():
        checkpoint = None
        if checkpoints is not None:
            checkpoints.parent.mkdir(parents=True, exist_ok=True)
            checkpoint = _checkpoint(checkpoints, name)
        with _bar(name, component, progress) as on_iteration:
            losses[name] = component.fit(
                examples,
                make_engine=make_engine,
                on_iteration=on_iteration,
                checkpoint=checkpoint,
                settings=_settings(nlp.config.interpolate()["components"].get(name)),
                keep=True,
            )
        component.name_features([example.predicted for example in examples])
    return losses


def _checkpoint(output: Path, name: str) -> Path:
    return output.with_name(f".{output.name}.{name}.checkpoint")


def _settings(section: Any) -> str:
    """A digest of a section of a config, without what makes no difference to what is learned."""
    text = srsly.json_dumps(_without_threads(section), sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _without_threads(section: Any) -> Any:
    if not isinstance(section, dict):
        return section
    return {name: _without_threads(of) for name, of in section.items() if name != "threads"}


class _bar:
    """A progress bar over the iterations of one component, with the objective."""

    def __init__(self, name: str, component: BatchTrainable, enabled: bool):
        estimator = component.estimator
        total = getattr(estimator, "n_reports", getattr(estimator, "max_iterations", None))
        # None: tqdm itself is silent where the output is no terminal.
        self._tqdm = tqdm(desc=name, total=total, unit="it", disable=None if enabled else True)

    def __enter__(self) -> Callable[[int, float], None]:
        return self._update

    def _update(self, iteration: int, value: float) -> None:
        self._tqdm.set_postfix(loss=f"{value:.2f}", refresh=False)
        self._tqdm.update()

    def __exit__(self, *exc: object) -> None:
        self._tqdm.close()


def record_performance(
    nlp: Language,
    examples: list[Example],
    *,
    weights: dict[str, float | None],
    losses: dict[str, float],
) -> dict[str, Any]:
    """Evaluate, and write the scores to `nlp.meta["performance"]` as `spacy train` does."""
    scores = nlp.evaluate(examples) if examples else {}
    performance = {name: scores.get(name) for name, weight in weights.items() if weight is not None}
    performance.update({f"{name}_loss": value for name, value in losses.items()})
    nlp.meta["performance"] = performance
    return scores


def save(nlp: Language, output: Path, *, extra: dict[str, str] | None = None) -> None:
    """Write the pipeline beside `output`, then rename: a killed run leaves nothing half-written.

    With it go the digests of its files, by which damage is found later.
    extra: further text files, by name.
    RAISES: SL014 if `output` exists and is not a pipeline.
    """
    with replaced_whole(Path(output)) as fresh:
        nlp.to_disk(fresh)
        for name, text in (extra or {}).items():
            (fresh / name).write_text(text, encoding="utf8")


@contextmanager
def replaced_whole(output: Path) -> Iterator[Path]:
    """A folder for the files of a pipeline, which gets digests of them and then the name `output`.

    RAISES: SL014 if `output` exists and is not a pipeline.
    """
    output = output.resolve()
    _restore(output)
    _check_replaceable(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    fresh, old = output.with_name(f".{output.name}.new"), _old(output)
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        yield fresh
        digests.write(fresh)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    if output.exists():
        output.rename(old)
    fresh.rename(output)
    shutil.rmtree(old, ignore_errors=True)


def _old(output: Path) -> Path:
    """Where the former pipeline is while the new one takes its place."""
    return output.with_name(f".{output.name}.old")


def _restore(output: Path) -> None:
    """Put the former pipeline back, if `save` was killed when it had moved it and not more."""
    if not output.exists() and _is_pipeline(_old(output)):
        _old(output).rename(output)


def _is_pipeline(folder: Path) -> bool:
    return all((folder / name).is_file() for name in ("meta.json", "config.cfg"))


def _check_replaceable(output: Path) -> None:
    """Raise SL014 if something is at `output` that is neither a pipeline nor an empty directory."""
    if _is_pipeline(output):
        return
    if output.is_dir() and not any(output.iterdir()):
        return
    if output.exists():
        raise StructlearnError("SL014", path=output)
