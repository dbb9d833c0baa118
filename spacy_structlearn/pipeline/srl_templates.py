"""Feature templates of the stages of the role labeler.

The features are those of `roles.features`. The lists were chosen on held-out documents of the
English Web Treebank, where longer ones were not better. They do not depend on English.
"""

from __future__ import annotations

from itertools import combinations

from ..errors import StructlearnError
from ..learning.settings import quoted
from ..roles.features import (
    ADDITIONAL,
    GILDEA_JURAFSKY,
    OF_LOWER_CASE,
    PREDICATE_FEATURES,
    ROLESET,
)

PREDICATES, SENSES, IDENTIFICATION, ROLES = "predicates", "senses", "identification", "roles"
STAGES = (PREDICATES, SENSES, IDENTIFICATION, ROLES)


def _lower(*names: str) -> tuple[str, ...]:
    """Replace features by those in lower case."""
    return tuple(f"{name}_lower" if f"{name}_lower" in OF_LOWER_CASE else name for name in names)


_OF_ARGUMENTS = (
    *((name,) for name in _lower(*GILDEA_JURAFSKY, *ADDITIONAL)),
    *combinations(_lower(*GILDEA_JURAFSKY), 2),
)
# Conjunctions with the lemma: what these say of roles depends on the predicate.
_WITH_LEMMA = _lower(
    *("first_word", "first_tag", "last_word", "head_tag", "content", "right_head", "left"),
    *("parent", "frame", "distance", "particle", "partial_path"),
)
# Each sense has its own roles, and that of a light verb has few: "take" in "take a bath".
_OF_SENSES = (
    (ROLESET,),
    *((name, ROLESET) for name in _lower("path", "position", "phrase", "head")),
)
# What is next to a phrase tells whether it is complete.
_OF_NEIGHBOURS = (
    *((name, "lemma") for name in _lower("right_head", "parent", "parent_head")),
    *(("path", name) for name in _lower("right_head", "right", "left_head", "content")),
    _lower("parent", "right_head"),
)
_OF_GRAMMAR = (
    ("frame", ROLESET),
    ("voice", "position", "phrase"),
    ("voice", "position", "phrase", ROLESET),
    _lower("phrase", "head", ROLESET),
)
# What tells places from times: the classes and the spelling of "Ohio" in "in Ohio". With coarser
# classes, "in March" is like "in June".
_OF_CLASSES = (
    *(("content_class",), _lower("head", "content_class"), ("content_class", "lemma")),
    *(("content_class_8",), _lower("head", "content_class_8")),
    *(("content_class_10",), _lower("head", "content_class_10")),
    *(("content_form",), _lower("head", "content_form"), _lower("head", "content")),
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
    IDENTIFICATION: (*_OF_ARGUMENTS, *_OF_NEIGHBOURS, *_OF_SENSES),
    ROLES: (
        *_OF_ARGUMENTS,
        *((name, "lemma") for name in _WITH_LEMMA),
        *_OF_SENSES,
        *_OF_GRAMMAR,
    ),
}


def srl_templates(stage: str, classes: bool = False) -> list[list[str]]:
    """Get the templates of one stage, for `LogLinear`.

    stage: "predicates", "senses", "identification" or "roles".
    classes: adds templates of the word classes of `Stages`, and of the spelling of words, to those
        of "roles".
    Raises StructlearnError for another name.
    """
    if stage not in _TEMPLATES:
        raise StructlearnError("SL039", stage=quoted(stage), known=", ".join(STAGES))
    more = _OF_CLASSES if classes and stage == ROLES else ()
    return [list(template) for template in (*_TEMPLATES[stage], *more)]
