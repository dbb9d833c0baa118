"""Components that read the vectors of an encoder: what their site scorers learn from, and when."""

from pathlib import Path

import numpy as np
import pytest
import spacy
from contracts.components import FILES, SAMPLE, with_arcs
from encoder.tiny import tiny
from pipeline.written import config_of
from spacy.cli.train import train as spacy_train
from spacy.tokens import DocBin
from spacy.util import load_config

from spacy_structlearn.encoder.spans import n_spans
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.readers import read_treebank, to_example
from spacy_structlearn.pipeline.training import fitting, gold_sites
from spacy_structlearn.pipeline.training.gold_sites import HEADS
from training.encoder.examples import of_doc

pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
MODEL = {
    "@architectures": "spacy_structlearn.StochasticCRF.v1",
    "encoding": "none",
    "templates": ["ORTH[0]", "SUFFIX[0]"],
    "max_iterations": 3,
}


class Reader:
    """Stands for a component with all heads."""

    name, key, heads, site_scorers = "reader", "np_chunks", HEADS, {}


def pipeline(**config):
    nlp = spacy.blank("en")
    nlp.add_pipe("token_encoder").parameters = tiny()
    nlp.add_pipe("chain_tagger", config={"encoder": True, "model": MODEL, **config})
    return nlp


def examples(nlp):
    docs = [doc for _, doc in read_treebank(nlp.vocab, SAMPLE / "sample.trees", **FILES)]
    return [to_example(with_arcs(doc), tags=False) for doc in docs[:6]]


def tagger(nlp):
    return nlp.get_pipe("chain_tagger")


def encoded(nlp, found):
    for example in found:
        nlp.get_pipe("token_encoder")(example.predicted)
    return found


def test_gold_sites():
    """The sites of all sentences of a Doc; those that an encoder is trained on are the same."""
    nlp = pipeline()
    for example in encoded(nlp, examples(nlp)):
        doc, found = example.reference, gold_sites.site_examples(Reader, example)
        assert found.keys() == HEADS.keys()
        labels = {
            head: dict(zip(map(tuple, sites.tolist()), own, strict=True))
            for head, (sites, own, *_) in found.items()
        }
        lengths = [len(tree.words()) for tree in doc._.trees]
        assert found["spans"].vectors.shape == (sum(lengths), 16)
        assert found["spans"].lengths == lengths
        assert len(found["spans"].labels) == sum(map(n_spans, lengths))
        first, brackets = 0, {}
        for tree, n in zip(doc._.trees, lengths, strict=True):
            for label, i, j in tree.spans()[1:]:
                outside = first + i - 1 if i else -1, first + j if j < n else -1
                row = outside[0], first + i, first + j - 1, outside[1]
                brackets[row] = f"{brackets[row]}+{label}" if row in brackets else label
            first += n
        assert {row: label for row, label in labels["spans"].items() if label} == brackets
        assert list(labels["tags"].values()) == [t.tag_ for t in doc if not t.is_space]
        assert list(labels["chunks"].values()).count("B") == len(doc._.np_chunks)
        assert len(labels["attachments"]) == len(doc._.pp_attachments)
        assert sum(map(bool, labels["arcs"].values())) == sum(bool(t.dep_) for t in doc)
        frames = doc._.frames
        assert sum(map(bool, labels["rolesets"].values())) == len(frames)
        arguments = sorted(argument.label for frame in frames for argument in frame.arguments)
        assert sorted(filter(None, labels["arguments"].values())) == arguments
        first, again = 0, {head: {} for head in HEADS}
        for words, sites in of_doc(doc):
            for head, (rows, own) in sites.items():
                rows = np.where(rows < 0, -1, rows + first).tolist()
                again[head] |= zip(map(tuple, rows), own, strict=True)
            first += len(words)
        assert again == labels
        other = to_example(spacy.blank("en")("Other words."))
        other.predicted = spacy.blank("en")("Other")
        assert gold_sites.site_examples(Reader, other) == {}


def test_fit_and_update():
    nlp, again = pipeline(), pipeline()
    data = encoded(nlp, examples(nlp))
    for own in (nlp, again):
        tagger(own).initialize(lambda: data)
        assert not tagger(own).potentials.scorers
        tagger(own).fit(data)
    scorer = tagger(nlp).potentials["tags"]
    assert set(scorer.labels) == {t.tag_ for e in data for t in e.reference if not t.is_space}
    assert scorer == tagger(again).potentials["tags"]
    # It learns on from what it has, and the learner does, too.
    nlp.from_bytes(nlp.to_bytes())
    nlp.update(data, annotates=["token_encoder"])
    new = tagger(nlp).potentials["tags"]
    assert new.labels == scorer.labels
    assert new != scorer


def test_without_vectors_there_is_a_clear_error():
    nlp = pipeline()
    data = examples(nlp)
    tagger(nlp).initialize(lambda: data)
    with pytest.raises(StructlearnError, match="SL192"):
        tagger(nlp).fit(data)


def test_adapt(tmp_path):
    nlp = pipeline()
    data = encoded(nlp, examples(nlp))
    tagger(nlp).initialize(lambda: data)
    tagger(nlp).fit(data)
    before = tagger(nlp).potentials["tags"]
    docs = [example.reference for example in data[:3]]
    fitting.adapt(nlp, docs, tmp_path / "new", progress=False)
    new = tagger(spacy.load(tmp_path / "new")).potentials["tags"]
    assert np.abs(new.output - before.output).max() > 1e-4


@pytest.mark.parametrize("by_spacy", [False, True])
def test_training_by_a_config(tmp_path, paths, by_spacy):
    nlp = pipeline()
    nlp.remove_pipe("chain_tagger")
    nlp.to_disk(tmp_path / "encoder")
    config = load_config(config_of("chain_tagger"))
    config["nlp"]["pipeline"] = ["token_encoder", "chain_tagger"]
    config["components"]["token_encoder"] = {"source": str(tmp_path / "encoder")}
    config["components"]["chain_tagger"].update(encoder=True, model=MODEL)
    config["training"] |= {
        "max_steps": 2,
        "frozen_components": ["token_encoder"],
        "annotating_components": ["token_encoder"],
    }
    config.to_disk(tmp_path / "config.cfg")
    output = tmp_path / "output"
    if by_spacy:
        spacy_train(tmp_path / "config.cfg", output, overrides=paths)
        output = output / "model-last"
    else:
        fitting.train(tmp_path / "config.cfg", output, overrides=paths, progress=False)
    found = tagger(spacy.load(output)).potentials["tags"]
    docs = DocBin().from_disk(Path(paths["paths.train"])).get_docs(nlp.vocab)
    assert set(found.labels) == {t.tag_ for doc in docs for t in doc if t.tag_}
