"""The constituency parser with a scorer of spans by vectors of tokens."""

import numpy as np
import pytest
import spacy
from contracts.components import FILES, SAMPLE

from spacy_structlearn.encoder.scorer import Potentials, SiteScorer
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.pipeline.architectures import estimator, learner_model
from spacy_structlearn.pipeline.constituency_parser import ConstituencyParser
from spacy_structlearn.pipeline.doc_arrays import set_vectors
from spacy_structlearn.pipeline.readers import create_treebank_reader
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize

WIDTH = 5


@pytest.fixture
def parser():
    """Makes a parser with a random scorer."""
    trees = [normalize(tree) for tree in read_trees(SAMPLE / "sample.trees")]
    labels = sorted({label for tree in trees for label, _, _ in tree.spans()[1:]})
    scorer = SiteScorer.untrained(["", *labels], WIDTH, 4, hidden=8)
    output = np.random.default_rng(0).normal(0, 1, scorer.output.shape)
    scorer = scorer.replaced(output=output.astype(np.float32), storage="float32")

    def make(**settings):
        nlp = spacy.blank("en")
        nlp.add_pipe("sentencizer")
        learner = estimator(LatentGrammarSettings())
        model = learner_model("grammar", treebank_grammar(binarize(trees)), learner)
        made = ConstituencyParser(nlp.vocab, model, encoder=True, **settings)
        made.potentials = Potentials({"spans": scorer})
        made.cfg["labels"] = labels
        return nlp, made

    return make


def with_vectors(doc):
    """Give the same vector to the same word."""
    rows = [np.random.default_rng(len(t.text)).normal(0, 1, WIDTH) for t in doc]
    set_vectors(doc, np.array(rows, dtype=np.float32).reshape(-1, WIDTH))
    return doc


def brackets(doc):
    group = doc.spans["constituents"]
    return [(s.label_, s.start, s.end) for s in group], group.attrs["scores"].tolist()


def test_docs_are_parsed_with_their_vectors(parser):
    nlp, made = parser()
    texts = ["The dog ran. \n She saw it.", "", " ", "We ran."]
    docs = list(made.pipe([with_vectors(nlp(text)) for text in texts]))
    assert brackets(docs[0]) == brackets(made(with_vectors(nlp(texts[0]))))
    plain = ConstituencyParser(nlp.vocab, learner_model("grammar", made.parameters, None))
    assert brackets(docs[0]) != brackets(plain(nlp(texts[0])))
    made.potentials["spans"].weights = (1.0, 0.0)
    assert brackets(made(docs[0]))[0] == brackets(plain(nlp(texts[0])))[0]


def test_docs_without_vectors_are_an_error(parser):
    nlp, made = parser()
    with pytest.raises(StructlearnError, match=r"\[SL192\] 'constituency_parser' reads vectors"):
        made(nlp("The dog ran."))
    with pytest.raises(StructlearnError, match=r"\[SL192\]"):
        made.k_best(nlp("The dog ran."))
    doc = nlp("The dog ran.")
    set_vectors(doc, np.zeros((len(doc), WIDTH + 1), dtype=np.float32))
    with pytest.raises(StructlearnError, match=r"\[SL195\]"):
        made(doc)


def test_the_best_tree_is_the_first_of_the_k_best(parser):
    nlp, made = parser(decoder="max_rule_product")
    doc = made(with_vectors(nlp("We ran. \n The dog saw it.")))
    for sentence in doc.sents:
        best = made.k_best(sentence, 3)
        assert best[0][1].spans()[1:] == sentence._.tree.spans()


def test_pieces_of_long_sentences_get_their_vectors(parser):
    nlp, made = parser(max_length=4)
    doc = made(with_vectors(nlp("The dog ran ; she saw it .")))
    for text, start in (("The dog ran ;", 0), ("she saw it .", 4)):
        piece = made(with_vectors(nlp(text)))
        wanted = {(label, start + i, start + j) for label, i, j in brackets(piece)[0]}
        assert wanted <= set(brackets(doc)[0])


def test_calibration_fits_the_weights(parser):
    nlp, made = parser()
    examples = list(create_treebank_reader(SAMPLE / "sample.trees", **FILES)(nlp))[:6]
    for example in examples:
        with_vectors(example.predicted)
    temperature = made.calibrate(examples)
    weights = made.potentials["spans"].weights
    assert weights != (1.0, 1.0)
    model = learner_model("grammar", made.parameters, made.estimator)
    again = ConstituencyParser(nlp.vocab, model, encoder=True)
    again.from_bytes(made.to_bytes())
    assert again.potentials["spans"].weights == weights
    assert again.parameters.temperature == temperature
    doc = with_vectors(nlp("The dog ran."))
    assert brackets(again(doc)) == brackets(made(doc))


def test_trees_by_derivations_have_no_scorers():
    model = {"@architectures": "spacy_structlearn.ISBN.v1"}
    with pytest.raises(StructlearnError, match=r"\[SL198\]"):
        spacy.blank("en").add_pipe("constituency_parser", config={"model": model, "encoder": True})
