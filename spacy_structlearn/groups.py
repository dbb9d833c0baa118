"""The keys of the span groups in `doc.spans`."""

from __future__ import annotations

SENTENCE_STARTS = "sentence_starts"  # tokens that may begin a sentence
NP_CHUNKS = "np_chunks"
CONSTITUENTS = "constituents"
CONSTITUENT_TAGS = "constituent_tags"  # tags of the tree, if `token.tag` may differ
TAG_CANDIDATES = "tag_candidates"  # likely tags of tokens whose `token.tag` is not certain
PARSE_FAILURES = "parse_failures"
PP_ATTACHMENTS = "pp_attachments"
SRL = "srl"
GROUPS = (
    SENTENCE_STARTS,
    TAG_CANDIDATES,
    NP_CHUNKS,
    CONSTITUENTS,
    CONSTITUENT_TAGS,
    PARSE_FAILURES,
    PP_ATTACHMENTS,
    SRL,
)
