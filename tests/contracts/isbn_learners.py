"""Incremental sigmoid belief networks."""

from contracts.cases import Case, Model, end

from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.isbn.settings import ISBNSettings
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.normalize import normalize

# No label is English, and the order of words is that of a language with the head at the end.
TREES = """
(TOP (P (L (N tora) (A ni)) (P (L (N inu) (A o)) (V mita))))
(TOP (P (L (D kono) (N inu) (A ga)) (V naita)))
(TOP (P (L (L (N tora) (A no)) (N kage) (A ga)) (L (D ano) (N mori) (A ni)) (V kieta)))
(TOP (P (L (D kono) (D ano) (N tora) (A ga)) (P (L (N neko) (A o)) (V mita))))
(TOP (P (L (N neko) (A ga)) (V naita)))
(TOP (P (L (N kage))))
(TOP (P (L (D ano) (N neko) (A o)) (V mita)))
"""


def parts():
    trees = [normalize(parse_tree(line)) for line in TREES.split("\n") if line]
    return [trees[:3], trees[3:5], trees[5:]]


def case(name, *changes, **settings):
    small = {"state_size": 6, "min_word_count": 1, "min_unknown": 1, "max_iterations": 3}
    return Case(
        name,
        ISBNSettings(**small | settings),
        parts,
        lambda: parts()[:-1],
        same_in_any_order=True,
        changes=({"seed": 1}, {"weight_decay": 0.1}, *changes),
    )


CASES = [
    case("isbn", {"validation": 0.3}, {"averages": False}, batch_size=2),
    case("isbn_mean_field", {"dropout": 0.0}, means="mean_field", averages=False),
    case(
        "isbn_validation",
        {"min_chain_count": 1},
        validation=0.3,
        optimizer="adam",
        learn_rate=0.05,
        signature="english",
    ),
]
STORED = [
    Model("isbn", lambda: end(CASES[0].trainer()), {"beam": 3}),
    Model("isbn_mean_field", lambda: end(CASES[1].trainer()), {"temperature": 2.0}),
    Model("isbn_empty", ISBN.empty, {"beam": 3}),
]
