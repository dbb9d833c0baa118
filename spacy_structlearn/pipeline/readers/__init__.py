"""Readers for `[corpora]`: from files to Examples whose predicted Docs have the gold tokens.

spaCy's own Corpus drops span groups when it splits documents, so treebanks are read by these. The
reference Doc has every layer of the file. The predicted Doc has its words, spaces, sentence
boundaries and, with `tags`, its tags: these are for a component that is trained alone, on the tags
of the corpus. They should be predicted ones, as in CoNLL-2000, because at run time they are. If the
pipeline has a tagger, they would pass for its predictions, so this is refused; `cross_prediction`
predicts the tags instead.
"""

from __future__ import annotations

from .columns import (
    create_conll_chunks_reader,
    create_pp_quadruples_reader,
    read_conll_columns,
    read_pp_quadruples,
)
from .docbin import create_docbin_reader, load_docbin
from .examples import Reader, to_example, with_gold_tokens, with_norms
from .prodigy import read_prodigy
from .treebank import create_treebank_reader, read_treebank

__all__ = [
    "Reader",
    "create_conll_chunks_reader",
    "create_docbin_reader",
    "create_pp_quadruples_reader",
    "create_treebank_reader",
    "load_docbin",
    "read_conll_columns",
    "read_pp_quadruples",
    "read_prodigy",
    "read_treebank",
    "to_example",
    "with_gold_tokens",
    "with_norms",
]
