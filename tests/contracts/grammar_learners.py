"""The learners of grammars, and what they learn."""

from contracts.cases import Case, Model

from spacy_structlearn.grammar.discriminative.settings import ConditionalGrammarSettings
from spacy_structlearn.grammar.fragments.settings import MEstimatedGrammarSettings
from spacy_structlearn.grammar.latent.model import LatentGrammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.spans.model import SpanGrammar
from spacy_structlearn.grammar.spans.settings import SpanGrammarSettings
from spacy_structlearn.pipeline.architectures import estimator
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
    trainer = estimator(found).trainer(None, trees())
    while trainer.step():
        pass
    return trainer.parameters()


def latent(name, settings, *changes):
    return Case(name, settings, trees, other_trees, changes=changes)


class LearningOn(Case):
    """A grammar that learns on from that of some of the trees."""

    def trainer(self, data=None, **changes):
        settings = self.settings.part(type(self.settings), **changes)
        data = self.data() if data is None else data
        return estimator(settings).adapter(learned(rounds=1, grammars=2), data, (), strength=3.0)


def groups(trees=trees):
    """Of which each makes two folds."""
    found = trees()
    return [found[:2], found[2:4], found[4:]]


def other_groups():
    return groups(other_trees)


FEATURES = {"buckets": 2**10, "min_word_count": 1, "l1_per_sentence": 1e-3}
SCORED = {
    "grammar": LatentGrammarSettings(rounds=1, **EM),
    "folds": 2,
    "max_iterations": 2,
    "batch_size": 2,
}
M_ESTIMATED = {
    "grammar": LatentGrammarSettings(rounds=0, root="R"),
    "templates": ["RULE|PARENT", "LABEL|SUFFIX2[last]"],
    "min_count": 1,
    "max_iterations": 15,
    "tolerance": 0.0,
}


def scored(settings, groups=groups):
    trainer = estimator(settings).trainer(None, groups())
    while trainer.step():
        pass
    return trainer.parameters()


def span_grammar():
    return scored(SpanGrammarSettings(**SCORED, **FEATURES))


def m_estimated_grammar():
    return scored(MEstimatedGrammarSettings(**M_ESTIMATED))


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
            rounds=1, lexicon="simple", min_word_count=2, binarization="left", **EM
        ),
    ),
    latent("product", LatentGrammarSettings(rounds=1, seed=3, grammars=3, **EM), {"seed": 4}),
    LearningOn(
        "latent_grammar_that_learns_on",
        LatentGrammarSettings(root="R"),
        other_trees,
        lambda: other_trees()[1:],
        changes=({"min_word_count": 1},),
    ),
    latent(
        "conditional_grammar",
        ConditionalGrammarSettings(rounds=1, conditional_iterations=4, shards=2, l1=0.05, **EM),
        {"shards": 3},
        {"l2": 0.1},
        {"l1": 0.0},
        {"first_level": 1},
        {"seed": 1},
        {"merge_fraction": 0.3},
    ),
    latent(
        "conditional_grammar_of_a_uniform_base",
        ConditionalGrammarSettings(
            rounds=1,
            lexicon="simple",
            base="uniform",
            start="copy",
            l1=0.0,
            l2=0.5,
            conditional_iterations=3,
            **EM,
        ),
    ),
    latent(
        "conditional_product",
        ConditionalGrammarSettings(rounds=1, grammars=2, conditional_iterations=2, **EM),
    ),
    Case(
        "span_grammar",
        SpanGrammarSettings(**SCORED, **FEATURES),
        groups,
        other_groups,
        changes=(
            {"seed": 1},
            {"folds": 3},
            {"l1_per_sentence": 0.0},
            {"templates": ["WORD[first]"]},
            {"grammar": LatentGrammarSettings(rounds=2, **EM)},
        ),
    ),
    Case(
        "m_estimated_grammar",
        MEstimatedGrammarSettings(**M_ESTIMATED),
        groups,
        other_groups,
        changes=(
            {"l2": 3.0},
            {"scaling": 0.0},
            {"min_count": 2},
            {"grammar": LatentGrammarSettings(rounds=1, **EM)},
        ),
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
    Model("empty_span_grammar", SpanGrammar.empty, {"weight": 2.0}),
    Model("span_grammar", span_grammar, {"features": None}),
    Model(
        "compact_span_grammar",
        lambda: span_grammar().compact(1e-4, "float16", feature_threshold=1e-3),
        {"temperature": 1.5},
    ),
    Model("m_estimated_grammar", m_estimated_grammar, {"weight": 0.5}),
    Model(
        "compact_m_estimated_grammar",
        lambda: m_estimated_grammar().compact(1e-4, "float16", feature_threshold=1e-3),
        {"fragments": None},
    ),
    Model("span_weights", lambda: span_grammar().features, {"spans": ["bias"]}),
    Model("fragment_weights", lambda: m_estimated_grammar().fragments, {"templates": ["RULE"]}),
]
