"""Explanations of the labels of this package, and of all those that spaCy explains."""

from __future__ import annotations

from ..glossary import explanation


def explain(label: str) -> str | None:
    """Get a short explanation of a label: "noun phrase" for "NP", "transfer" for "give.01".

    Explains the labels of phrases, tags, chunks, attachments, semantic roles and failed parses, and
    the rolesets of the built-in pipeline. Any other label gets the explanation of `spacy.explain`,
    or None.
    """
    found = explanation(label)
    if found is None:
        import spacy  # which takes a second, and most labels are ours

        found = spacy.explain(label)
    return found
