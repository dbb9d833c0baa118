"""The learners of chains, on random sentences of a few words."""

import numpy as np
from contracts.cases import Case, Model

from spacy_structlearn.sequence.chain.model import ChainModel
from spacy_structlearn.sequence.layout.data import SequenceData
from spacy_structlearn.sequence.layout.features import Templates
from spacy_structlearn.sequence.settings import (
    CRFSettings,
    HMMSettings,
    MEMMSettings,
    MEstimationSettings,
    PseudoLikelihoodSettings,
    StochasticCRFSettings,
)
from spacy_structlearn.words.classes import WordClasses

TEMPLATES = ("ORTH[0]", "TAG[-1]|TAG[0]", "TAG[0]", "ORTH[1]", "bias")
SINGLE = ("ORTH[0]", "TAG[-1]", "TAG[0]")
TAGS = np.array(["O", "B-NP", "I-NP"])


def sentences(seed):
    """One part of a corpus: five sentences, one of them empty, whose words mostly tell the tag."""
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, 4, 1, 0, 6, 3])
    words, tags = rng.integers(5, size=14), rng.integers(3, size=14)
    columns = np.column_stack([words, (words + (tags > 1)) % 4]).astype(np.uint64)
    return SequenceData(columns, offsets, tuple(TAGS[tags].tolist()))


def case(name, settings, *changes, **options):
    return Case(
        name,
        settings,
        data=lambda: [sentences(seed) for seed in (1, 2, 3)],
        other=lambda: [sentences(seed) for seed in (1, 2, 4)],
        labels=("NP",),
        changes=changes,
        **options,
    )


def likelihood(name, kind, *changes, any_order=False, **values):
    settings = kind(**{"templates": TEMPLATES, "max_iterations": 12} | values)
    return case(name, settings, {"l2": 0.3}, {"shards": 2}, *changes, same_in_any_order=any_order)


def m_estimation(name, *changes, **values):
    values = {"templates": SINGLE, "max_iterations": 8, "tolerance": 1e-6} | values
    settings = MEstimationSettings(**values)
    return case(f"m_estimation_{name}", settings, {"l2": 0.3}, *changes, same_in_any_order=True)


def classes():
    words, numbers = np.array([3, 9], np.uint64), np.array([0, 1], np.uint16)
    return WordClasses(words, numbers, np.array([2, 3], np.uint64))


def chain_model(order=1, **further):
    """With all that a model can have, but for what a chain of this order cannot."""
    data = sentences(1)
    label_ids = [TAGS.tolist().index(tag) for tag in data.tags]
    templates = Templates(TEMPLATES, 40 if "margin" in further else 64)
    model = ChainModel.build(
        data.columns,
        data.offsets,
        np.array(label_ids),
        TAGS.tolist(),
        templates,
        min_count=1,
        order=order,
        pair_features=True,
        encoding="IOB2",
    )
    rng = np.random.default_rng(0)
    weights = rng.normal(size=model.weights.shape) * (rng.random(model.weights.shape) < 0.5)
    names = {int(key): f"predicate {key}" for key in model.keys[::2]}
    return model.replaced(weights=weights, names=names, classes=classes(), **further)


def chain_model_of_text():
    """With what a model has that closes vocabularies."""
    model = chain_model(2)
    return model.replaced(
        vocabularies={"ORTH": np.array([2, 4], dtype=np.uint64)}, locally_normalized=True
    )


CASES = [
    likelihood("crf", CRFSettings, {"order": 2}),
    likelihood("crf_of_second_order", CRFSettings, {"pair_features": False}, order=2, shards=3),
    likelihood("crf_with_l1", CRFSettings, {"l1": 0.2}, l1=0.1, min_count=2),
    likelihood("memm", MEMMSettings),
    likelihood("pseudolikelihood", PseudoLikelihoodSettings, order=2),
    likelihood(
        "joint",
        PseudoLikelihoodSettings,
        {"joint": False},
        joint=True,
        templates=SINGLE,
        any_order=True,
    ),
    case(
        "stochastic_crf",
        StochasticCRFSettings(templates=TEMPLATES, max_iterations=3),
        {"seed": 1},
        {"margin": 2.0},
    ),
    case("hmm", HMMSettings(), {"smoothing": 0.1}),
    m_estimation("by_hmm", {"base": "empirical"}, {"input_only": True}),
    m_estimation("without_prior", l2=0.0, base="locally_uniform"),
    m_estimation("by_samples", {"seed": 3}, samples=20),
]
STORED = [
    Model("chain_model", chain_model, {"encoding": "IOBES"}),
    Model("chain_model_of_pairs", lambda: chain_model(2), {"locally_normalized": True}),
    Model("chain_model_with_vocabularies", chain_model_of_text, {"vocabularies": {}}),
    Model("chain_model_with_margin", lambda: chain_model(margin=4.0), {"margin": 2.0}),
    Model("word_classes", classes, {"words": np.array([3, 8], np.uint64)}),
]
