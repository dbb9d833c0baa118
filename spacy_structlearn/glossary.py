"""Explanations of labels, for `spacy_structlearn.explain`.

Phrases are those of the Penn Treebank (Bies et al. 1995) with the additions of later treebanks,
tags those of the English Web Treebank (Mott et al. 2012), roles those of PropBank (Bonial et al.
2015). What a roleset means is in data/propbank_frames, which `python -m training.glosses` makes.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from .roles.propositions import CONTINUATION, REFERENCE

ROLESETS = Path(__file__).parent / "data" / "propbank_frames" / "rolesets.tsv"
LIGHT = ".LV"  # in place of the number, in rolesets of verbs whose noun has the meaning

PHRASES = {
    "ADJP": "adjective phrase",
    "ADVP": "adverb phrase",
    "CONJP": "conjunction of several words",
    "EDITED": "words that the speaker replaces",
    "FRAG": "fragment, a sentence or clause with parts left out",
    "INTJ": "interjection",
    "LST": "list marker with its punctuation",
    "META": "metadata, not part of the sentence",
    "NAC": "not a constituent, words that belong together inside a noun phrase",
    "NML": "part of a noun phrase before its head",
    "NP": "noun phrase",
    "NX": "head, or one of the heads, of a complex noun phrase",
    "PP": "prepositional phrase",
    "PRN": "parenthetical",
    "PRT": "particle of a verb",
    "QP": "quantifier phrase, a complex measure or amount",
    "RRC": "reduced relative clause",
    "S": "declarative clause, imperative or infinitive",
    "SBAR": "clause after a subordinating conjunction or relative word, which may be left out",
    "SBARQ": "question after a wh-word",
    "SINV": "inverted declarative clause, with the subject after the verb",
    "SQ": "yes/no question, or the rest of a question after its wh-phrase",
    "TOP": "root of the tree",
    "UCP": "coordination of different phrases",
    "VP": "verb phrase",
    "WHADJP": "wh-adjective phrase, such as how old",
    "WHADVP": "wh-adverb phrase, such as when or why",
    "WHNP": "wh-noun phrase, such as who or which boat",
    "WHPP": "wh-prepositional phrase, such as of which",
    "X": "unknown or not bracketed",
}
TAGS = {
    "$": "currency symbol",
    "''": "closing quotation mark",
    ",": "comma or dash in a sentence",
    "-LRB-": "opening bracket",
    "-RRB-": "closing bracket",
    ".": "punctuation mark that ends a sentence",
    ":": "colon, semicolon or dash between clauses",
    "ADD": "e-mail address, web address or user name",
    "AFX": "affix that is a word of its own",
    "CC": "coordinating conjunction",
    "CD": "cardinal number",
    "DT": "determiner",
    "EX": "existential there",
    "FW": "foreign word",
    "GW": "part of a word that is written as several",
    "HYPH": "hyphen",
    "IN": "preposition or subordinating conjunction",
    "JJ": "adjective",
    "JJR": "adjective, comparative",
    "JJS": "adjective, superlative",
    "LS": "list marker",
    "MD": "modal verb",
    "NFP": "punctuation that ends no sentence, such as smileys and lines",
    "NN": "noun, singular or mass",
    "NNP": "proper noun, singular",
    "NNPS": "proper noun, plural",
    "NNS": "noun, plural",
    "PDT": "predeterminer, such as all in all the boats",
    "POS": "possessive ending",
    "PRP": "personal pronoun",
    "PRP$": "possessive pronoun",
    "RB": "adverb",
    "RBR": "adverb, comparative",
    "RBS": "adverb, superlative",
    "RP": "particle of a verb",
    "SYM": "symbol",
    "TO": "infinitival to",
    "UH": "interjection",
    "VB": "verb, base form",
    "VBD": "verb, past tense",
    "VBG": "verb, gerund or present participle",
    "VBN": "verb, past participle",
    "VBP": "verb, present, not third person singular",
    "VBZ": "verb, present, third person singular",
    "WDT": "wh-determiner",
    "WP": "wh-pronoun",
    "WP$": "possessive wh-pronoun",
    "WRB": "wh-adverb",
    "XX": "unknown, or no tag",
    "``": "opening quotation mark",
}
CHUNKS = {
    "B": "first token of a chunk or sentence",
    "I": "token inside a chunk or sentence, after the first one",
    "O": "token outside of all chunks",
}
ATTACHMENTS = {
    "N": "prepositional phrase that belongs to the noun",
    "V": "prepositional phrase that belongs to the verb; predicate of a frame",
    "verb": "verb of an attachment",
    "noun": "noun of an attachment, the head of the object of the verb",
    "prep": "preposition of an attachment",
    "object": "head of the object of the preposition of an attachment",
}
ROLES = {
    "ARG0": "agent, causer or experiencer",
    "ARG1": "patient or theme",
    "ARG2": "instrument, beneficiary, attribute or end state; depends on the roleset",
    "ARG3": "starting point, beneficiary, instrument or attribute; depends on the roleset",
    "ARG4": "end point; depends on the roleset",
    "ARG5": "depends on the roleset",
    "ARGA": "secondary agent, who makes the agent act",
    "ARGM-ADJ": "adjectival modifier of a noun",
    "ARGM-ADV": "adverbial, a modifier of another kind",
    "ARGM-CAU": "cause",
    "ARGM-COM": "comitative, with whom",
    "ARGM-CXN": "part of a construction, such as a comparison",
    "ARGM-DIR": "direction",
    "ARGM-DIS": "discourse marker or vocative",
    "ARGM-EXT": "extent",
    "ARGM-GOL": "goal or beneficiary",
    "ARGM-LOC": "location",
    "ARGM-LVB": "light verb of a noun",
    "ARGM-MNR": "manner",
    "ARGM-MOD": "modal verb",
    "ARGM-NEG": "negation",
    "ARGM-PRD": "secondary predication",
    "ARGM-PRP": "purpose",
    "ARGM-PRR": "noun that has the meaning of a light verb",
    "ARGM-REC": "reciprocal or reflexive",
    "ARGM-TMP": "time",
}
FAILURES = {
    "cut": "sentence that was too long and was parsed in pieces",
    "fallback": "sentence without a parse, which has a fallback tree",
    "constraints": "sentence whose tree does not meet all constraints",
}
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
    return "light verb" if label.endswith(LIGHT) else rolesets().get(label)


@lru_cache(maxsize=1)
def rolesets() -> dict[str, str]:
    """Return the meanings of the rolesets of the built-in pipeline, except of light verbs."""
    lines = ROLESETS.read_text(encoding="utf8").splitlines()
    return dict(line.split("\t") for line in lines if not line.startswith("#"))
