"""The learners of grammars, and what they learn."""

from cases import Case, Model

from spacy_structlearn.grammar.model import LatentGrammar
from spacy_structlearn.grammar.settings import ConditionalGrammarSettings, LatentGrammarSettings
from spacy_structlearn.trees.brackets import parse_tree

# No label is English, and the order of words is that of a language with the head at the end.
TREEBANK = """\
(R (P (L (N tora) (A ni)) (P (L (N inu) (A o)) (V mita)) (. 。)))
(R (P (L (D kono) (N inu) (A ga)) (V naita) (. 。)))
(R (P (L (L (N tora) (A no)) (N kage) (A ga)) (L (D ano) (N mori) (A ni)) (V kieta) (. 。)))
(R (P (L (D kono) (D ano) (N tora) (A ga)) (P (L (N neko) (A o)) (V mita)) (. 。)))
(R (L (N inu)))
(R (P (V naita) (. 。)))"""
EM = {"split_iterations": 3, "merge_iterations": 2, "smooth_iterations": 2, "root": "R"}


def trees():
    return [parse_tree(line) for line in TREEBANK.splitlines()]


def other_trees():
    return [*trees()[:-1], parse_tree("(R (P (V nemuru) (. 。)))")]


def learned(**settings):
    found = LatentGrammarSettings(**EM, **settings)
    trainer = found.trainer(None, trees())
    while trainer.step():
        pass
    return trainer.parameters()


def latent(name, settings, *changes):
    return Case(name, settings, trees, other_trees, changes=changes)


CASES = [
    latent(
        "latent_grammar",
        LatentGrammarSettings(rounds=2, **EM),
        {"seed": 1},
        {"rounds": 1},
        {"lexicon": "simple"},
        {"min_word_count": 2},
        {"merge_fraction": 0.3},
        {"grammars": 2},
    ),
    latent(
        "simple_lexicon",
        LatentGrammarSettings(
            rounds=1, lexicon="simple", min_word_count=2, tolerance=2e-2, binarization="left", **EM
        ),
    ),
    latent("product", LatentGrammarSettings(rounds=1, seed=3, grammars=3, **EM), {"seed": 4}),
    latent(
        "conditional_grammar",
        ConditionalGrammarSettings(rounds=1, conditional_iterations=4, shards=2, l1=0.05, **EM),
        {"shards": 3},
        {"l2": 0.1},
        {"l1": 0.0},
        {"solver": "adagrad"},
        {"scales": "all"},
        {"first_level": 1},
        {"seed": 1},
        {"merge_fraction": 0.3},
    ),
    latent(
        "multi_scale_grammar",
        ConditionalGrammarSettings(
            rounds=1,
            lexicon="simple",
            base="uniform",
            scales="all",
            start="copy",
            l1=0.0,
            l2=0.5,
            conditional_iterations=3,
            **EM,
        ),
    ),
    latent(
        "conditional_grammar_by_adagrad",
        ConditionalGrammarSettings(
            rounds=1, solver="adagrad", batch_size=3, conditional_iterations=3, **EM
        ),
        {"batch_size": 2},
        {"learn_rate": 0.1},
    ),
    latent(
        "conditional_product",
        ConditionalGrammarSettings(rounds=1, grammars=2, conditional_iterations=2, **EM),
    ),
]
STORED = [
    Model("empty_latent_grammar", LatentGrammar.empty, {"binarization": "left"}),
    Model("latent_grammar", lambda: learned(rounds=2), {"temperature": 1.5}),
    Model(
        "compact_latent_grammar",
        lambda: learned(rounds=1, grammars=2).compact(1e-4, "float16"),
        {"binarization": "left"},
    ),
    Model(
        "log8_latent_grammar",
        lambda: learned(rounds=1, lexicon="simple").compact(1e-4, "log8"),
        {"temperature": 0.5},
    ),
]
