"""Feature templates of the stages of the role labeler.

The features are those of `roles.features`. The lists were chosen on held-out documents of the
English Web Treebank, where longer ones were not better. They do not depend on English.
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
# Conjunctions with the lemma: what these say of roles depends on the predicate.
_WITH_LEMMA = (
    *("first_word", "first_tag", "last_word", "head_tag", "content", "right_head", "left"),
    *("parent", "frame", "distance", "particle", "partial_path"),
)
# What tells places from times: the classes and the spelling of "Ohio" in "in Ohio".
_OF_CLASSES = (
    *(("content_class",), ("head", "content_class"), ("content_class", "lemma")),
    *(("content_form",), ("head", "content_form")),
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


def srl_templates(stage: str, classes: bool = False) -> list[list[str]]:
    """Get the templates of one stage, for `LogLinear`.

    stage: "predicates", "senses", "identification" or "roles".
    classes: adds templates of the word classes of `Stages`, and of the spelling of words, to those
        of "roles".
    Raises StructlearnError for another name.
    """
    if stage not in _TEMPLATES:
        raise StructlearnError("SL039", stage=stage, known=", ".join(STAGES))
    more = _OF_CLASSES if classes and stage == ROLES else ()
    return [list(template) for template in (*_TEMPLATES[stage], *more)]
