"""The conjunctions of features that the stages of the role labeler weigh, by the name of the stage.

The features are those of `trees.srl_features`. The lists were chosen on held-out documents of the
English Web Treebank, where longer ones were no better; nothing in them is English.
"""

from __future__ import annotations

from itertools import combinations

from ..errors import StructlearnError
from ..roles.features import ADDITIONAL, GILDEA_JURAFSKY, PREDICATE_FEATURES

PREDICATES, SENSES, IDENTIFICATION, ROLES = "predicates", "senses", "identification", "roles"
STAGES = (PREDICATES, SENSES, IDENTIFICATION, ROLES)

_OF_ARGUMENTS = (
    *((name,) for name in (*GILDEA_JURAFSKY, *ADDITIONAL)),
    *combinations(GILDEA_JURAFSKY, 2),
)
# What else tells roles apart differs from predicate to predicate.
_WITH_LEMMA = (
    *("first_word", "first_tag", "last_word", "head_tag", "content", "right_head", "left"),
    *("parent", "frame", "distance", "particle", "partial_path"),
)
_TEMPLATES: dict[str, tuple[tuple[str, ...], ...]] = {
    PREDICATES: (
        *((name,) for name in PREDICATE_FEATURES),
        *(("lemma", name) for name in PREDICATE_FEATURES if name != "lemma"),
    ),
    SENSES: (
        ("lemma",),
        *(("lemma", name) for name in PREDICATE_FEATURES if name != "lemma"),
    ),
    IDENTIFICATION: _OF_ARGUMENTS,
    ROLES: (*_OF_ARGUMENTS, *((name, "lemma") for name in _WITH_LEMMA)),
}


def srl_templates(stage: str) -> list[list[str]]:
    """The templates of one stage: "predicates", "senses", "identification" or "roles".

    For `LogLinear.v1`. Raises SL039 for another name.
    """
    if stage not in _TEMPLATES:
        raise StructlearnError("SL039", stage=stage, known=", ".join(STAGES))
    return [list(template) for template in _TEMPLATES[stage]]
