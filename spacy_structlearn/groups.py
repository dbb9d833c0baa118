"""The keys in `doc.spans` of all that is stored in a Doc."""

from __future__ import annotations

NP_CHUNKS = "np_chunks"
CONSTITUENTS = "constituents"
CONSTITUENT_TAGS = "constituent_tags"  # tags of the tree, where `token.tag` has others
PARSE_FAILURES = "parse_failures"
PP_ATTACHMENTS = "pp_attachments"
SRL = "srl"
GROUPS = (NP_CHUNKS, CONSTITUENTS, CONSTITUENT_TAGS, PARSE_FAILURES, PP_ATTACHMENTS, SRL)
