"""A neural grammar over an inline transformer: a tiny BERT with random weights."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin
from spacy.util import load_config
from spacy.vocab import Vocab

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import fitting
from spacy_structlearn.pipeline.readers import read_treebank

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "training" / "configs" / "transformer.cfg"
SAMPLE = ROOT / "corpora" / "sample" / "sample.trees"
MODEL = "components.constituency_parser.model"
TEXT = "The old man took a key from his pocket."
LISTENER = {
    "@architectures": "spacy-transformers.TransformerListener.v1",
    "pooling": {"@layers": "reduce_mean.v1"},
}


def test_the_settings_of_the_config_exist():
    """Those of the package, also where the transformer cannot be made."""
    config = load_config(CONFIG, interpolate=True)["components"]["constituency_parser"]
    config["model"].pop("tok2vec")
    factory = config.pop("factory")
    parser = spacy.blank("en").add_pipe(factory, config=config)
    assert parser.estimator.learn_rate == config["model"]["learn_rate"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """The folder of a BERT whose word pieces are characters."""
    pytest.importorskip("torch", reason="needs torch and spacy-transformers")
    pytest.importorskip("spacy_transformers", reason="needs torch and spacy-transformers")
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("bert")
    letters = [chr(number) for number in range(33, 127)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += [*letters, *(f"##{letter}" for letter in letters)]
    (folder / "vocab.txt").write_text("\n".join(pieces), encoding="utf8")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
    )
    BertModel(config).save_pretrained(folder)
    return folder


@pytest.fixture
def overrides(bert, tmp_path):
    """Of the config, for little training on a part of the sample."""
    docs = [doc for _, doc in read_treebank(Vocab(), SAMPLE)]
    for name, part in (("train", docs[:24]), ("dev", docs[24:28])):
        DocBin(docs=part).to_disk(tmp_path / f"{name}.spacy")
    shutil.copytree(bert, tmp_path / "bert")
    return {
        "paths.train": str(tmp_path / "train.spacy"),
        "paths.dev": str(tmp_path / "dev.spacy"),
        f"{MODEL}.tok2vec.name": str(tmp_path / "bert"),
        f"{MODEL}.grammar.rounds": 0,
        f"{MODEL}.folds": 2,
        f"{MODEL}.max_iterations": 1,
        f"{MODEL}.learn_rate": 0.01,
    }


def weights(nlp):
    """The weights of the transformer, by name."""
    layers = nlp.get_pipe("constituency_parser").network.tok2vec
    (shim,) = (shim for node in layers.walk() for shim in node.shims)
    return {name: array.numpy() for name, array in shim._model.state_dict().items()}


def parse(nlp):
    doc = nlp(TEXT)
    return str(doc._.trees[0]), doc.spans["constituents"].attrs["scores"]


@pytest.mark.parametrize("trained", [True, False])
def test_a_transformer_is_trained_and_stored_with_the_parser(overrides, bert, tmp_path, trained):
    from transformers import BertModel

    if not trained:
        overrides |= {f"{MODEL}.tok2vec.grad_factor": 0.0, f"{MODEL}.weight_decay": 0.0}
    nlp = fitting.train(CONFIG, tmp_path / "model", overrides=overrides)
    parser = nlp.get_pipe("constituency_parser")
    assert not parser.network.is_silent
    before = {
        name: value.numpy() for name, value in BertModel.from_pretrained(bert).state_dict().items()
    }
    after = weights(nlp)
    assert before.keys() == after.keys()
    assert any((before[name] != after[name]).any() for name in before) == trained
    # The pipeline needs nothing from where the transformer came from.
    shutil.rmtree(tmp_path / "bert")
    tree, scores = parse(nlp)
    again, same = parse(spacy.load(tmp_path / "model"))
    assert again == tree
    np.testing.assert_array_equal(same, scores)


def test_a_listener_is_refused(bert):
    model = {"@architectures": "spacy_structlearn.NeuralGrammar.v2", "tok2vec": LISTENER}
    named = r"SL040.*transformer-listener.*spacy-transformers\.Tok2VecTransformer\.v3"
    with pytest.raises(StructlearnError, match=named):
        spacy.blank("en").add_pipe("constituency_parser", config={"model": model})
