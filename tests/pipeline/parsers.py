"""A parser of each architecture beside `LatentGrammar`, learned from the sample treebank with
little effort.
"""

import pickle
from functools import cache
from pathlib import Path

import spacy

from spacy_structlearn.pipeline.readers import create_treebank_reader

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"
FILES = {"spaces": SAMPLE / "sample.spaces", "props": SAMPLE / "sample.props"}
TEXT = "The old man took a key from his pocket. He opened the door."
GRAMMAR = {
    "@architectures": "spacy_structlearn.LatentGrammar.v1",
    "rounds": 1,
    "split_iterations": 3,
    "merge_iterations": 2,
    "smooth_iterations": 1,
}
ENCODE = {"@architectures": "spacy.MaxoutWindowEncoder.v2", "width": 16, "depth": 1}
ENCODE |= {"window_size": 1, "maxout_pieces": 2}
EMBED = {"@architectures": "spacy.MultiHashEmbed.v2", "width": 16, "include_static_vectors": False}
TOK2VEC = {"@architectures": "spacy.Tok2Vec.v2", "encode": ENCODE}
TOK2VEC["embed"] = EMBED | {"attrs": ["NORM", "SUFFIX", "SHAPE"], "rows": [500, 200, 200]}
SCORED = {"grammar": GRAMMAR, "folds": 2, "max_iterations": 3, "batch_size": 16}
MODELS = {
    "ConditionalGrammar": {
        "rounds": 1,
        "split_iterations": 6,
        "merge_iterations": 3,
        "smooth_iterations": 2,
        "conditional_iterations": 8,
        "l1": 0.1,
    },
    "SpanGrammar": SCORED | {"buckets": 2**16},
    "NeuralGrammar": SCORED | {"tok2vec": TOK2VEC, "hidden_width": 12, "learn_rate": 0.01},
    "ISBN": {
        "state_size": 24,
        "min_word_count": 1,
        "min_unknown": 1,
        "min_chain_count": 20,
        "max_iterations": 20,
        "batch_size": 4,
        "optimizer": "adam",
        "learn_rate": 0.01,
    },
    "MEstimatedGrammar": {},
}
COMPONENTS = {"MEstimatedGrammar": {"decoder": "labelled_recall", "thresholds": [0.01]}}


def treebank(nlp, limit=None):
    return list(create_treebank_reader(SAMPLE / "sample.trees", **FILES)(nlp))[:limit]


def blank(name, **settings):
    """A pipeline with a parser that is not trained; settings: other ones of its architecture."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    model = {"@architectures": f"spacy_structlearn.{name}.v1", **MODELS[name], **settings}
    nlp.add_pipe("constituency_parser", config={"model": model, **COMPONENTS.get(name, {})})
    return nlp


def parser_of(nlp):
    return nlp.get_pipe("constituency_parser")


def trained(name, **settings):
    nlp = blank(name, **settings)
    examples = treebank(nlp)
    parser_of(nlp).initialize(lambda: examples)
    parser_of(nlp).fit(examples)
    return nlp


@cache
def _pickled(name):
    return pickle.dumps(trained(name))


def loaded(name):
    """A trained parser, of which each test may change its own; it is trained once."""
    return pickle.loads(_pickled(name))


def strings(doc):
    return [s._.parse_string for s in doc.sents if not s.text.isspace()]


def scores(doc):
    return doc.spans["constituents"].attrs["scores"]


def stored(nlp):
    """The parameters, and the layers of the network if there is one."""
    parser = parser_of(nlp)
    layers = ("tok2vec", "scorer") if parser.network is not None else ()
    return b"".join(
        [parser.parameters.to_bytes(), *(parser.model.get_ref(x).to_bytes() for x in layers)]
    )
