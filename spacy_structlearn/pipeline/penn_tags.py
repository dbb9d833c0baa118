"""A warning for Docs with other tags than those of the Penn Treebank.

Components whose rules read these tags find nothing in such Docs.
"""

from __future__ import annotations

import warnings

from spacy.tokens import Doc

from ..errors import message
from ..glossary import TAGS
from ..trees.labels import VERBS
from . import extensions

PENN_TAGS = VERBS.union(TAGS)


def warn_of_other_tags(component: str, doc: Doc, *, of_trees: bool) -> bool:
    """Warn if words of a Doc have tags, and none of them is a tag of the Penn Treebank.

    Words have letters: punctuation marks have the same tags in many treebanks.
    of_trees: whether the tags of the trees are read, if there are any, and not `token.tag_`.
    Returns whether there was a warning.
    """
    words = [token.i for token in doc if any(map(str.isalpha, token.text))]
    read = extensions.constituent_tags(doc, words) if of_trees else [doc[i].tag_ for i in words]
    tags = dict.fromkeys(filter(None, read))
    if not tags or not PENN_TAGS.isdisjoint(tags):
        return False
    some = ", ".join(list(tags)[:5])
    text = message("SL801", component=component, text=doc.text[:40], tags=some)
    warnings.warn(text, stacklevel=2)
    return True
