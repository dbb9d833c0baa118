"""The nine counts and fourteen indices of the L2 Syntactic Complexity Analyzer (Lu 2010, "Automatic
analysis of syntactic complexity in second language writing", International Journal of Corpus
Linguistics 15).

The analyzer defines each count as the nodes that a pattern of Tregex finds. The patterns here find
the same nodes, so that figures can be compared with published ones, also where a pattern departs
from the definition in words. Only words are counted in another way: the analyzer
leaves out words with a hyphen.
"""

from __future__ import annotations

from functools import cache
from itertools import chain

import numpy as np

from ..matching.forest import Forest, Nodes
from ..matching.patterns import Pattern, compiled
from ..matching.search import first_nodes
from ..matching.tregex import parsed

_FINITE = "MD|VBD|VBP|VBZ"
_SENTENCE = "S|SBARQ|SINV|SQ"
_CLAUSE = (
    "S|SINV|SQ [> ROOT <, (VP <# VB)"  # an imperative
    f" | <# {_FINITE} | < (VP [<# {_FINITE} | < CC < (VP <# {_FINITE})])]"
)
_T_UNIT = f"{_SENTENCE} [> ROOT | $-- {_SENTENCE} !>> SBAR|VP]"
_DEPENDENT = f"SBAR < ({_CLAUSE})"

PATTERNS = {
    "S": ["ROOT !> __"],
    # A question without a verb phrase has its verb counted: "Are you ready?"
    "VP": ["VP > S|SINV|SQ", f"{_FINITE} > (SQ !< VP)"],
    "C": [_CLAUSE, f"FRAG > ROOT !<< ({_CLAUSE})"],
    "T": [_T_UNIT, f"FRAG > ROOT !<< ({_T_UNIT})"],
    "DC": [_DEPENDENT],
    "CT": [f"{_T_UNIT} << ({_DEPENDENT})"],
    "CP": ["ADJP|ADVP|NP|VP < CC"],
    "CN": [
        "NP !> NP [<< JJ|POS|PP|S|VBG | << (NP $++ NP !$+ CC)]",
        "SBAR [<# WHNP | <# (IN < That|that|For|for) | <, S] [$+ VP | > VP]",
        "S < (VP <# TO|VBG) $+ VP",
    ],
}
"""What is counted besides words: sentences, verb phrases, clauses, T-units, dependent clauses,
complex T-units, coordinate phrases and complex nominals. A node is counted once."""
COUNTS = ("W", *PATTERNS)
PHRASES = ("NP", "VP", "PP")
_RATIOS = "C/S", "VP/T", "C/T", "DC/C", "DC/T", "T/S", "CT/T", "CP/T", "CP/C", "CN/T", "CN/C"
INDICES = {
    **{f"ML{count}": ("W", count) for count in "STC"},
    **{name: tuple(name.split("/")) for name in _RATIOS},
}
"""Each index with the counts that it is the ratio of. ML: mean length in words."""


@cache
def _compiled() -> dict[str, list[Pattern]]:
    every = PATTERNS | {f"{label}s": [f"{label} < (__ < __)"] for label in PHRASES}
    return {
        name: [compiled(dicts) for text in texts for dicts in parsed(text)]
        for name, texts in every.items()
    }


def counted(forest: Forest) -> dict[str, Nodes]:
    """Return the nodes of each of PATTERNS, and of all PHRASES ("NPs"), ascending."""
    patterns = _compiled()
    nodes = iter(first_nodes(forest, list(chain.from_iterable(patterns.values()))))
    return {
        name: np.unique(np.concatenate([next(nodes) for _ in own]))
        for name, own in patterns.items()
    }
