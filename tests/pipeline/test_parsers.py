"""What holds for parsers of every architecture: odd input, storage, other processes."""

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
import spacy
from parsers import MODELS, TEXT, loaded, parser_of, scores, stored, strings
from spacy.tokens import Doc, DocBin

ODD = ["", " ", "\n\n\t ", "dog", "!", "🙂 🙂", "\u200b", ") (", "a " * 600, "door, " * 300]
# One pipeline of them all, so that they share the workers. What each says is kept before the next.
SCRIPT = """\
import json
import multiprocessing
import sys

import spacy
from spacy.language import Language


class Keep:
    def __init__(self, name):
        self.name = name

    def __call__(self, doc):
        trees = [sentence._.parse_string for sentence in doc.sents]
        probs = [span._.constituent_prob for span in doc.spans["constituents"]]
        doc.user_data[self.name] = [trees, probs]
        return doc


@Language.factory("keep")
def keep(nlp, name):
    return Keep(name)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    folder, text, *names = sys.argv[1:]
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    for name in names:
        parser = spacy.load(f"{folder}/{name}")
        parser(text)
        print(json.dumps("scipy" in sys.modules))
        nlp.add_pipe("constituency_parser", source=parser, name=f"{name} parser")
        nlp.add_pipe("keep", name=name)
    for doc in nlp.pipe([text] * 4, n_process=2, batch_size=2):
        print(json.dumps({name: doc.user_data[name] for name in names}))
"""


@pytest.fixture(params=MODELS)
def nlp(request):
    return loaded(request.param)


# --- odd input ------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", ODD)
def test_odd_texts(nlp, text):
    doc = nlp(text)
    words = [token.text for token in doc if not token.is_space]
    assert [word for tree in doc._.trees for word in tree.words()] == words
    assert np.isfinite(scores(doc)).all()
    assert (scores(doc) >= 0).all()
    assert (scores(doc) <= 1).all()


@pytest.mark.parametrize("decoder", ["max_rule_product", "max_rule_sum", "viterbi", "variational"])
@pytest.mark.parametrize("name", ["SpanGrammar", "NeuralGrammar"])
def test_every_decoder_of_scored_trees(name, decoder):
    nlp = loaded(name)
    parser = parser_of(nlp)
    parser.decoder = decoder
    doc = nlp(TEXT)
    best = parser.k_best(next(doc.sents), 3)
    assert doc._.parse_failures == ()
    assert strings(doc)[1] == "(S (NP (PRP He)) (VP (VBD opened) (NP (DT the) (NN door))) (. .))"
    assert str(best[0][1]) == f"(TOP {strings(doc)[0]})"
    assert sum(np.exp(log_probability) for log_probability, _ in best) <= 1 + 1e-9


# --- storage --------------------------------------------------------------------------------------
@pytest.mark.parametrize("way", ["disk", "bytes", "pickle"])
def test_component_round_trip(nlp, way, tmp_path):
    if way == "disk":
        nlp.to_disk(tmp_path / "model")
        restored = spacy.load(tmp_path / "model")
    elif way == "bytes":
        restored = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    else:
        nlp(TEXT)  # there is a chart or a search now, which must not travel
        restored = pickle.loads(pickle.dumps(nlp))
    ours, again = parser_of(nlp), parser_of(restored)
    assert stored(restored) == stored(nlp)
    assert again.parameters == ours.parameters
    assert again.labels == ours.labels
    assert again.estimator == ours.estimator
    if ours.network is not None:
        # What is trained, stored and parsed with are the same layers.
        assert again.network.tok2vec is again.model.get_ref("tok2vec")
        assert again.network.scorer is again.model.get_ref("scorer")
    assert strings(restored(TEXT)) == strings(nlp(TEXT))
    np.testing.assert_array_equal(scores(restored(TEXT)), scores(nlp(TEXT)))


def test_initialize_keeps_what_is_loaded(nlp):
    before, layers = parser_of(nlp).parameters, stored(nlp)
    nlp.initialize()
    assert parser_of(nlp).parameters is before
    assert stored(nlp) == layers


def test_store_of_predictions(nlp):
    doc = nlp(TEXT)
    for again in (
        Doc(nlp.vocab).from_bytes(doc.to_bytes()),
        next(DocBin().from_bytes(DocBin(docs=[doc]).to_bytes()).get_docs(nlp.vocab)),
        doc.copy(),
        pickle.loads(pickle.dumps(doc)),
    ):
        assert again._.trees == doc._.trees
        np.testing.assert_array_equal(scores(again), scores(doc))
    joined = Doc.from_docs([doc, nlp("Run!"), doc])
    assert joined._.trees == doc._.trees + nlp("Run!")._.trees + doc._.trees


# --- other processes ------------------------------------------------------------------------------
def test_workers_under_spawn_find_the_same_and_need_no_scipy(tmp_path):
    script = tmp_path / "run.py"
    script.write_text(SCRIPT, encoding="utf8")
    for name in MODELS:
        loaded(name).to_disk(tmp_path / name)
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path), TEXT, *MODELS],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    *has_scipy, a, b, c, d = map(json.loads, run.stdout.splitlines())
    # The last of them, M-estimation, is learned with matrices of SciPy's.
    assert list(MODELS)[-1] == "MEstimatedGrammar"
    assert not any(has_scipy[:-1])
    for name in MODELS:
        doc = loaded(name)(TEXT)
        probs = [span._.constituent_prob for span in doc.spans["constituents"]]
        for of_worker in (a, b, c, d):
            trees, others = of_worker[name]
            assert trees == strings(doc)
            assert others == pytest.approx(probs, abs=1e-4 if name == "NeuralGrammar" else 1e-5)
