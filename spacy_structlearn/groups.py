"""The keys of the span groups in `doc.spans`, and what each group contains."""

from __future__ import annotations

SENTENCE_STARTS = "sentence_starts"
NP_CHUNKS = "np_chunks"
CONSTITUENT_CONSTRAINTS = "constituent_constraints"
CONSTITUENTS = "constituents"
CONSTITUENT_TAGS = "constituent_tags"
TAG_CANDIDATES = "tag_candidates"
PARSE_FAILURES = "parse_failures"
PP_ATTACHMENTS = "pp_attachments"
SRL = "srl"
DEPENDENCIES = "dependencies"
GROUPS = {
    SENTENCE_STARTS: "Tokens at which a sentence may begin, without labels. Scores: the "
    "probability that it does, of at least 0.01.",
    TAG_CANDIDATES: "The likely tags of tokens whose tag is uncertain, the most probable first: "
    "one span with the tag as its label for each. Scores: their probabilities.",
    NP_CHUNKS: "The chunks in order, with the label NP. Scores: the probability of exactly this "
    "chunk.",
    CONSTITUENT_CONSTRAINTS: "Set by the user before the parser runs: spans that must be brackets "
    'with their label (none: with any label), or with "!" before it, must not be. No scores.',
    CONSTITUENTS: "The brackets, sorted by start, -end and depth; a unary chain is a repeated "
    "span. Scores: their calibrated probabilities.",
    CONSTITUENT_TAGS: "The tags of the tree, one for each token, if the parser does not write them "
    "to `token.tag_`. No scores.",
    PARSE_FAILURES: 'Sentences without a proper parse, with the label "cut", "fallback" or '
    '"constraints". No scores. The group exists only if there are any.',
    PP_ATTACHMENTS: "Five spans for each site: the phrase, with the label V or N, then one token "
    "each with the labels verb, noun, prep and object. Scores: the probability of the label.",
    SRL: "Each frame: its predicate, with the label V and the roleset as `kb_id_`, then its "
    "arguments. Scores: the calibrated probabilities of the predicate and of each argument.",
    DEPENDENCIES: "The tokens that are no white space, with the label of their arc. Scores: the "
    "calibrated probability that `token.head` is right.",
}
