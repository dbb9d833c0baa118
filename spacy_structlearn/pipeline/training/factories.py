"""The factories of components, and the settings that all components have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from spacy.language import Language
from thinc.api import Model

from ...learning.settings import Settings, document, setting, signature

if TYPE_CHECKING:
    from .batch_trainable import BatchTrainable

SETTINGS = "Settings, which are also attributes of the component:"  # a line in docstrings


@dataclass(frozen=True, kw_only=True)
class ComponentSettings(Settings):
    """Settings of all components. Each is an attribute of the component and may be changed."""

    iterations_per_step: int = setting(
        10, ge=1, help="Number of iterations of the learner in one `nlp.update`."
    )
    reinitialise: bool = setting(
        False,
        help="Whether a component that was loaded with its parameters is trained from scratch. "
        "By default it learns on.",
    )
    encoder: bool = setting(
        False,
        help="Whether the vectors of `token_encoder` are read: site scorers of the component score "
        "its labels too. They learn with the component; the encoder stays as it is.",
    )


def factory(
    component: type[BatchTrainable],
    *,
    model: dict[str, Any],
    scorer: str,
    scores: Sequence[str],
    blocks: dict[str, Any] | None = None,
    assigns: Iterable[str] = (),
    requires: Iterable[str] = (),
) -> Callable[..., BatchTrainable]:
    """Register the factory of a component, with the settings of its class.

    model: the default architecture, as in a config.
    scorer: the registered name of the default scorer.
    scores: names of the scores. The first one has weight 1 in training; `spacy train` shows no
        other, because it cuts the names of columns.
    blocks: config blocks of settings whose default is not a plain value.
    assigns, requires: see `Language.factory`.
    """
    kind = component.settings_kind
    component.main_score = scores[0]
    settings = signature(kind).parameters
    defaults = {name: setting.default for name, setting in settings.items()} | (blocks or {})

    def make(nlp: Language, name: str, model: Model, scorer: Any, **given: Any) -> BatchTrainable:
        return component(nlp.vocab, model, name, scorer=scorer, **given)

    ours = [p for p in Signature.from_callable(make).parameters.values() if p.name != "given"]
    given = [setting.replace(default=Parameter.empty) for setting in settings.values()]
    make.__signature__ = Signature([*ours, *given])  # type: ignore[attr-defined]
    make.component, make.default_model = component, model  # type: ignore[attr-defined]
    make.__name__ = make.__qualname__ = f"make_{kind.name}"
    make.__doc__ = (
        f"{document(kind)}\nmodel: the architecture, see above.\n"
        "scorer: the scoring function for `nlp.evaluate`."
    )
    return Language.factory(
        kind.name,
        assigns=list(assigns),
        requires=list(requires),
        default_config={"model": model, **defaults, "scorer": {"@scorers": scorer}},
        default_score_weights={scores[0]: 1.0, **dict.fromkeys(scores[1:])},
        func=make,
    )


def without_models(value: Any) -> Any:
    """Replace a Model of this package by its settings; return other values unchanged."""
    if isinstance(value, Model) and "estimator" in value.attrs:
        return value.attrs["estimator"].settings
    if isinstance(value, dict):
        return {key: without_models(item) for key, item in value.items()}
    return value
