"""The reports in Markdown, with the figures of the paper and of the package."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import Any, NamedTuple

from spacy_structlearn.classification import BayesNet
from training.common.report import p_value, shown, standard_error, table

Figures = Mapping[str, Any]


class Claim(NamedTuple):
    """What the paper says about two models by McNemar's test: p is below a level or, if they are a
    tie, above it.
    """

    a: str
    b: str
    level: float = 0.05
    differ: bool = True

    def holds(self, p: float) -> bool:
        return (p < self.level) == self.differ

    def __str__(self) -> str:
        return f"p {'<' if self.differ else '>='} {self.level:g}"


def verdict(claim: Claim, p: float) -> str:
    return "yes" if claim.holds(p) else "**no**"


def pair_key(a: str, b: str) -> str:
    """Return the key of McNemar's test of two models."""
    return f"mcnemar.pairs.{a.replace('.', '_')}_vs_{b.replace('.', '_')}.p"


def n_of_d(net: BayesNet) -> int:
    """Return the number of smoothing parameters d of a network."""
    return 1 if net.settings.n_d == "one" else sum(map(len, net.d.values()))


def factors(structure: Mapping[str, str], target: str = "y") -> str:
    """Format a network in one line: "p | y; n1 | y p"."""
    return "; ".join(" | ".join([v, f"{target} {p}".strip()]) for v, p in structure.items())


# --- PP attachment --------------------------------------------------------------------------------
PP_ITEMS = 3097  # of the test
PP = {
    "Table 3": [
        ("naive Bayes, 1 d", "nb.1", "81.2"),
        ("naive Bayes, 9 d", "nb.9", "81.2"),
        ("logistic regression", "lr", "82.6"),
        ("hybrid naive Bayes, 1 d", "hybrid_nb.1", "81.2"),
        ("hybrid naive Bayes, 9 d", "hybrid_nb.9", "81.5"),
    ],
    "Table 4": [
        ("Bayes net, 1 d", "bn.1", "84.6"),
        ("Bayes net, 13 d", "bn.13", "84.6"),
        ("log-linear model", "loglinear", "83.8"),
        ("hybrid Bayes net, 1 d", "hybrid_bn.1", "85.0"),
        ("hybrid Bayes net, 13 d", "hybrid_bn.13", "84.8"),
    ],
    "Table 8, minimal smoothing": [
        ("Bayes net", "minimal.bn", "82.8"),
        ("log-linear model", "minimal.loglinear", "81.2"),
    ],
    "Beyond the paper": [
        ("hybrid Bayes net, 13 d, counts of training and devset", "recount.hybrid_bn", ""),
        ("lemmas, word classes and conjunctions, stacked on a network", "best", ""),
    ],
}


def pp_page(figures: Figures, claims: Iterable[Claim]) -> str:
    """Return the page: tables, significance tests, structures and times."""
    error = standard_error(figures["hybrid_bn.13.test_acc"], PP_ITEMS)
    lines = [
        "# Toutanova (2006), PP attachment",
        "",
        "Made by training/papers/toutanova2006. Accuracy is in percent. The test has "
        f"{PP_ITEMS:,} items,",
        f"and the standard error is {error:.2f}. A difference below two standard errors is a tie.",
    ]
    for title, rows in PP.items():
        found = [row for row in rows if f"{row[1]}.test_acc" in figures]
        cells = [
            (name, paper, *(shown(figures, f"{key}.{part}_acc") for part in ("test", "dev")))
            for name, key, paper in found
        ]
        lines += ["", f"## {title}", *table(("model", "paper", "here", "dev"), cells)]
    pairs = []
    for claim in claims:
        p = figures[pair_key(claim.a, claim.b)]
        pairs.append((f"{claim.a} and {claim.b}", f"{claim}", p_value(p), verdict(claim, p)))
    lines += ["", "## McNemar's test", *table(("models", "paper", "here", "same"), pairs)]
    lines += [
        "",
        "## Figure 2a and table 7",
        "",
        "Structure: " + factors(figures["structure"]),
        "",
        "![the network](toutanova2006_pp.svg)",
        "",
        "Templates: " + "; ".join(figures["loglinear.templates"]),
        "",
        f"Search: {figures['search_s.bn']:.2f} CPU s for the network, "
        f"{figures['search_s.loglinear']:.1f} for the log-linear model. The paper has times for "
        "semantic roles only.",
        "",
    ]
    return "\n".join(lines)


# --- semantic roles -------------------------------------------------------------------------------
SRL = {
    "Table 5": [
        ("naive Bayes, 1 d", "core.nb.1", "83.3"),
        ("naive Bayes, 15 d", "core.nb.15", "85.2"),
        ("logistic regression", "core.lr", "91.1"),
        ("hybrid naive Bayes, 1 d", "core.hybrid_nb.1", "84.1"),
        ("hybrid naive Bayes, 15 d", "core.hybrid_nb.15", "86.5"),
    ],
    "Table 6": [
        ("Bayes net, 1 d", "core.bn.1", "93.5"),
        ("Bayes net, many d (paper: 20)", "core.bn.multi", "93.6"),
        ("log-linear model", "core.loglinear", "93.9"),
        ("hybrid Bayes net, 1 d", "core.hybrid_bn.1", "93.5"),
        ("hybrid Bayes net, many d (paper: 20)", "core.hybrid_bn.multi", "93.7"),
    ],
    "Table 8, minimal smoothing": [
        ("Bayes net", "core.minimal.bn", "92.5"),
        ("log-linear model", "core.minimal.loglinear", "92.7"),
    ],
    "The seven features of the paper, other structures": [
        ("hybrid Bayes net, 3 parents and the class", "core.hybrid_bn.3_parents", ""),
        ("the same, hill climbing (climb.py)", "core.hybrid_bn.best", ""),
        ("log-linear model, the templates of table 7", "core.loglinear.paper", ""),
        ("log-linear model, all pairs", "core.loglinear.pairs", ""),
    ],
    "More features, log-linear models": [
        ("20 more features of the node (Toutanova et al. 2005)", "extra.local", "96.0"),
        ("with the gold sense of the verb", "extra.local_gold_roleset", ""),
        ("with the other core arguments of the verb", "extra.loglinear", ""),
        ("with both", "extra.gold_roleset", ""),
    ],
}
SRL_TEXT = """\
Made by training/papers/toutanova2006. The task is to predict the role of a node of a gold tree that
is a core argument (ARG0 to ARG5, ARGA) of a verb. Accuracy is in percent. The paper trains on
173,514 nodes of the Wall Street Journal and tests on 9,272. We use the English Web Treebank, {ewt}
nodes (train / tune / dev), and NLTK's sample of the Wall Street Journal, {wsj}. The standard error
is {wsj_error:.1f} on the test part of this small sample, and {ewt_error:.2f} on EWT dev. Models are
selected on train and tune (so the figures on tune are too good). Then they are retrained on both,
and evaluated once on dev or test."""


def srl_page(figures: Figures, claims: Iterable[Claim]) -> str:
    """Return the page: tables of both corpora, significance tests, structures and times."""
    text = SRL_TEXT.format(
        ewt=sizes(figures, "core", ("train", "tune", "dev")),
        wsj=sizes(figures, "wsj.core", ("train", "tune", "test")),
        ewt_error=figures["core.loglinear.test_standard_error"],
        wsj_error=figures["wsj.core.loglinear.test_standard_error"],
    )
    lines = ["# Toutanova (2006), semantic roles", "", fill(text, 100)]
    header = ("model", "paper", "EWT dev", "EWT tune", "WSJ sample test", "WSJ sample tune")
    parts = [prefix + part for prefix in ("", "wsj.") for part in ("test", "tune")]
    for title, rows in SRL.items():
        cells = [
            (name, paper, *(shown(figures, of_part(key, part)) for part in parts))
            for name, key, paper in rows
        ]
        lines += ["", f"## {title}", *table(header, cells)]
    pairs = []
    for claim in claims:
        found = [figures[prefix + pair_key(claim.a, claim.b)] for prefix in CORE_OF]
        cells = [text for p in found for text in (p_value(p), verdict(claim, p))]
        pairs.append((f"{claim.a} and {claim.b}", f"{claim}", *cells))
    lines += ["", "## McNemar's test"]
    lines += table(("models", "paper", "p, EWT", "same", "p, WSJ sample", "same"), pairs)
    return "\n".join([*lines, *srl_structures(figures), ""])


CORE_OF = ("core.", "wsj.core.")


def srl_structures(figures: Figures) -> list[str]:
    """Return figure 2b and table 7."""
    return [
        "",
        "## Figure 2b and table 7",
        "",
        "Structure: " + factors(figures["core.structure"], "role"),
        "",
        "![the network](srl.svg)",
        "",
        "Hill climbing: " + factors(figures["core.structure_best"], "role"),
        "",
        "WSJ sample: " + factors(figures["wsj.core.structure"], "role"),
        "",
        "Templates: " + "; ".join(figures["core.loglinear.templates"]),
        "",
        "WSJ sample: " + "; ".join(figures["wsj.core.loglinear.templates"]),
        "",
        f"Search: {figures['search_s.bn']:.2f} CPU s for the network (paper: 2 h), "
        f"{figures['search_s.climb']:.0f} for hill climbing "
        f"({figures['core.structure_best_tried']} networks), "
        f"{figures['search_s.loglinear']:.0f} for the log-linear model (paper: 24 h).",
    ]


def of_part(key: str, part: str) -> str:
    """Return the key of an accuracy. part: "test", "wsj.tune" ..."""
    *prefix, name = part.split(".")
    return ".".join([*prefix, key, f"{name}_acc"])


def sizes(figures: Figures, prefix: str, names: Iterable[str]) -> str:
    return " / ".join(f"{figures[f'{prefix}.items.{name}']:,}" for name in names)
