"""Configs of the components with any of their learners, made from the registered architectures.

The learners of a component are the registered architectures that it accepts. They are named like
their settings, `MEstimation`, and so are their variants, `MEstimation.empirical`. In a component
with several stages, the last stage has the learner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import Any

import spacy
from spacy.util import load_config, load_model_from_config, registry
from thinc.api import Config, ConfigValidationError

from ...errors import StructlearnError
from ...learning.settings import Settings, signature

CONFIGS = Path(__file__).parent.parent / "configs"
COMPONENTS = sorted(path.stem for path in CONFIGS.glob("*_*.cfg") if "." not in path.stem)


def usual(component: str) -> Config:
    """Return the config of one of `COMPONENTS` with its usual learner."""
    return load_config(CONFIGS / f"{component}.cfg", interpolate=False)


def learners(component: str) -> dict[str, Config]:
    """Return the config of each learner that a component can have, by the name of the learner.

    component: one of `COMPONENTS`.
    """
    nlp, found = spacy.blank("en"), {}
    for architecture, build in sorted(registry.architectures.get_all().items()):
        kind = getattr(build, "settings", None)
        for name, config in _configs(component, architecture, kind) if kind else ():
            section = config.interpolate()["components"][component]
            del section["factory"]
            try:
                pipe: Any = nlp.add_pipe(component, name, config=section)
            except (StructlearnError, ConfigValidationError):
                continue  # for other components
            settings = pipe.estimator.settings
            if "TAG" in settings.attributes and "tag" in pipe.counted:
                continue  # it would read the tags that come after this component
            if not pipe.pairs and getattr(settings, "order", 2) == 2:
                continue
            found[name] = config
            if "max_steps" not in config["training"]:
                iterations = getattr(settings, "max_iterations", 0)
                config["training"]["max_steps"] = 1 + ceil(iterations / pipe.iterations_per_step)
    return found


def filled(config: Config) -> str:
    """Return the text of a config, with all settings."""
    return load_model_from_config(config, auto_fill=True).config.to_str()


def _configs(
    component: str, architecture: str, kind: type[Settings]
) -> Iterator[tuple[str, Config]]:
    """Iterate over the names and configs of a learner, whether or not it is for this component."""
    own = CONFIGS / f"{component}.{kind.name}.cfg"
    path = own if own.exists() else CONFIGS / f"{component}.cfg"
    factory: Any = registry.get("factories", component)
    for variant, changes in {"": {}, **kind.variants}.items():
        config = load_config(path, interpolate=False)
        section = config["components"][component]
        model, default = section["model"], factory.default_model
        if model["@architectures"] == default["@architectures"]:
            model = {**default, **model}
        if stages := model.get("stages"):
            last = model["order"][-1]
            if variant and stages[last]["@architectures"] == architecture:
                return  # its templates are those of the stage
            block = {**_with(stages[last], architecture, kind), **changes}
            model, changes = {**model, "stages": {**stages, last: block}}, {}
        elif model["@architectures"] != architecture:
            del config["training"]["max_steps"]
            section.pop("iterations_per_step", None)
            model = _with({**factory.component.counted, **model}, architecture, kind)
        section["model"] = {**model, **changes}
        yield f"{kind.name or architecture}.{variant}".rstrip("."), config


def _with(block: Mapping[str, Any], architecture: str, kind: type[Settings]) -> dict[str, Any]:
    """Return the block of another architecture, with the settings that it shares with this one."""
    known = {"seed": "${system.seed}", **block}
    shared = {name: known[name] for name in signature(kind).parameters if name in known}
    return {"@architectures": architecture, **shared}
