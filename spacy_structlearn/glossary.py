"""Explanations of labels, for `spacy_structlearn.explain`.

Phrases are those of the Penn Treebank (Bies et al. 1995) with the additions of later treebanks,
tags those of the English Web Treebank (Mott et al. 2012), roles those of PropBank (Bonial et al.
2015): they are in data/labels.tsv. What a roleset means is in data/propbank_frames, which
`python -m training.glosses` makes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from .errors import message
from .roles.propositions import CONTINUATION, REFERENCE
from .roles.rolesets import LIGHT, meanings

_LABELS = Path(__file__).parent / "data" / "labels.tsv"

ROOT = "TOP"  # above the tree, as in `trees.normalize`

_TABLES: dict[str, dict[str, str]] = {}
for _line in _LABELS.read_text(encoding="utf8").splitlines()[1:]:
    _layer, _label, _text = _line.split("\t")
    _TABLES.setdefault(_layer, {})[_label] = _text
PHRASES, TAGS, CHUNKS, ATTACHMENTS, ROLES, FAILURES = _TABLES.values()
LABELS = {**PHRASES, **TAGS, **CHUNKS, **ATTACHMENTS, **ROLES, **FAILURES}
PREFIXES = {
    REFERENCE: "relative or question word for {label}: {text}",
    CONTINUATION: "continuation of {label}: {text}",
}


def explanation(label: str) -> str | None:
    """Return a short explanation of a label or roleset; None if it is not one of this package."""
    if label in LABELS:
        return LABELS[label]
    for prefix, text in PREFIXES.items():
        if label.startswith(prefix) and label.removeprefix(prefix) in ROLES:
            base = label.removeprefix(prefix)
            return text.format(label=base, text=ROLES[base])
    return "light verb" if label.endswith(LIGHT) else meanings().get(label)


def warn_of_unknown(labels: Iterable[str], known: Any) -> None:
    """Warn of labels that are in no list of labels, and not known either.

    known: the strings of the vocab, where components keep the labels that they predict. It may also
        have words, so labels in lower case are not known by it. Without any label, it says nothing.
    """
    says = "NP" in known or "ARG0" in known
    for label in labels:
        base = label.removeprefix(REFERENCE).removeprefix(CONTINUATION)
        listed = base in LABELS or label == ROOT
        if not listed and ((says and label not in known) or base.upper() in LABELS):
            close = get_close_matches(base.upper(), LABELS, 1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            warnings.warn(message("SL802", label=label, hint=hint), stacklevel=3)
