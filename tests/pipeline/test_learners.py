"""Configs of components with any of their learners: all train as they are printed."""

from functools import cache

import pytest
from contracts import components
from contracts.components import Component
from spacy.util import load_model_from_config
from thinc.api import Config

from spacy_structlearn.pipeline.training.configs import COMPONENTS, filled, learners

CHAINS = "CRF HMM MEMM MEstimation MEstimation.locally_uniform MEstimation.empirical "
NETS = "BayesNet BayesNet.joint BayesNet.naive LogLinear"
NAMES = {
    "chain_tagger": f"{CHAINS} PseudoLikelihood StochasticCRF",
    "constituency_parser": "ConditionalGrammar ConditionalGrammar.uniform ISBN ISBN.mean_field "
    "LatentGrammar LatentGrammar.treebank MEstimatedGrammar SpanGrammar",
    "np_chunker": f"{CHAINS} PseudoLikelihood PseudoLikelihood.joint StochasticCRF",
    "pp_attacher": f"{NETS} LogLinear.pairs LogLinear.stacked",
    "sentence_splitter": f"{CHAINS} PseudoLikelihood StochasticCRF",
    "srl_labeler": NETS,
    "tree_dependencies": NETS,
    "tree_morphologizer": "CRF MEMM PseudoLikelihood PseudoLikelihood.joint StochasticCRF",
}
# Little effort, of settings that are in the config.
FEW = dict.fromkeys(("split_iterations", "conditional_iterations", "folds", "max_iterations"), 2)
FEW |= dict.fromkeys(("rounds", "merge_iterations", "smooth_iterations", "min_word_count"), 1)
FEW |= {"state_size": 8, "buckets": 2**12}


BEFORE_TAGS = ("sentence_splitter", "chain_tagger", "constituency_parser")


def with_few_steps(block):
    """The block with little effort; `rounds = 0` stays."""
    for name, value in block.items():
        if isinstance(value, dict):
            with_few_steps(value)
        elif value:
            block[name] = FEW.get(name, value)


@cache
def texts(name):
    return {learner: filled(config) for learner, config in learners(name).items()}


@pytest.mark.parametrize("name", COMPONENTS)
def test_the_learners_of_each_component_are_known(name):
    of_others = ["contracts.Majority.v1"] if name == "pp_attacher" else []
    assert list(texts(name)) == [*of_others, *NAMES[name].split()]


@pytest.mark.parametrize(
    ("name", "learner"), [(name, one) for name in NAMES for one in NAMES[name].split()]
)
def test_every_learner_trains_as_printed(name, learner):
    config = Config().from_str(texts(name)[learner])
    assert config["training"]["max_steps"] >= 1
    model = config["components"][name]["model"]
    with_few_steps(model)
    nlp = load_model_from_config(config)
    pipe = nlp.get_pipe(name)
    found = components.examples(Component(name, model), nlp, 12)
    for example in found if name not in BEFORE_TAGS else ():
        example.predicted = example.reference.copy()  # with tags and trees
    nlp.initialize(lambda: found)
    for _ in range(2):
        losses = pipe.update(found)
    assert losses[name] == losses[name]  # a number
    for example in found:
        pipe(example.predicted)
    assert pipe.score(found)[pipe.main_score] is not None
    pipe.from_bytes(pipe.to_bytes())
