"""Word classes that the components of a pipeline share.

They are stored once, in `nlp.vocab.lookups`, which spaCy saves and loads before the components. The
model of a component that uses the same classes is then saved with their digest only.
"""

from __future__ import annotations

from functools import lru_cache

from spacy.tokens import Doc
from spacy.vocab import Vocab

from ...words.classes import WordClasses

TABLE = "word_classes"  # of vocab.lookups
_KEY = "classes"


def word_classes(vocab: Vocab) -> WordClasses | None:
    """Return the classes that the components of a pipeline share, or None."""
    data = vocab.lookups.get_table(TABLE, {}).get(_KEY)
    return None if data is None else _read(data)


def share_classes(vocab: Vocab, classes: WordClasses | None) -> None:
    """Let the components of a pipeline share these classes. None: remove them.

    Components keep the classes that they were trained with. Those that have other classes save
    them in their models.
    """
    if vocab.lookups.has_table(TABLE):
        vocab.lookups.remove_table(TABLE)
    if classes is not None:
        vocab.lookups.add_table(TABLE, {_KEY: classes.to_bytes()})


def add_classes(doc: Doc, source: Vocab) -> Doc:
    """Add the classes of another vocab to the vocab of a Doc if it has none. Returns the Doc.

    A component that is copied to another pipeline keeps its vocab, but is saved with the other one.
    """
    if source is not doc.vocab and not doc.vocab.lookups.has_table(TABLE):
        share_classes(doc.vocab, word_classes(source))
    return doc


@lru_cache(maxsize=4)
def _read(data: bytes) -> WordClasses:
    return WordClasses.from_bytes(data)
