"""Hand-made training data for the components: seven sentences, chunked by hand."""

import pytest
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_structlearn.grammar.latent.em import treebank_grammar
from spacy_structlearn.grammar.treebank.data import binarize
from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.pipeline.readers import read_treebank, to_example
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.normalize import normalize

SENTENCES = [
    "[The/DT old/JJ dog/NN] slept/VBD under/IN [the/DT table/NN] ./.",
    "[My/PRP$ sister/NN] bought/VBD [two/CD red/JJ apples/NNS] ./.",
    "[She/PRP] gave/VBD [the/DT boy/NN] [a/DT green/JJ apple/NN] ./.",
    "In/IN [the/DT garden/NN] ,/, [birds/NNS] sang/VBD loudly/RB ./.",
    "[Nobody/NN] saw/VBD [the/DT thief/NN] at/IN [the/DT station/NN] ./.",
    "Run/VB !/.",
    "[The/DT girl/NN] and/CC [her/PRP$ mother/NN] wrote/VBD [long/JJ letters/NNS] ./.",
]


def gold_doc(vocab, text):
    """A Doc from the bracketed notation above."""
    words, tags, spans, start = [], [], [], None
    for piece in text.split():
        if piece.startswith("["):
            start = len(words)
        word, _, tag = piece.strip("[]").rpartition("/")
        words.append(word)
        tags.append(tag)
        if piece.endswith("]"):
            spans.append(("NP", start, len(words)))
    starts = [index == 0 for index in range(len(words))]
    doc = Doc(vocab, words=words, tags=tags, sent_starts=starts)
    set_spans(doc, "np_chunks", spans)
    return doc


@pytest.fixture(scope="session")
def paths(tmp_path_factory):
    """The sample treebank, in two files, as overrides of a config."""
    from contracts.components import FILES, SAMPLE

    folder = tmp_path_factory.mktemp("corpus")
    docs = [doc for _, doc in read_treebank(Vocab(), SAMPLE / "sample.trees", **FILES)]
    DocBin(docs=docs[2:]).to_disk(folder / "train.spacy")
    DocBin(docs=docs[:2]).to_disk(folder / "dev.spacy")
    return {f"paths.{name}": str(folder / f"{name}.spacy") for name in ("train", "dev")}


@pytest.fixture(scope="module")
def grammar():
    """The grammar of the sample treebank as it is."""
    from contracts.components import SAMPLE

    return treebank_grammar(binarize(map(normalize, read_trees(SAMPLE / "sample.trees"))))


@pytest.fixture
def make_examples():
    """Examples of the sentences above for one pipeline, tags in the predicted Docs."""

    def make(nlp):
        return [to_example(gold_doc(nlp.vocab, text)) for text in SENTENCES]

    return make


@pytest.fixture
def make_chunker(make_examples):
    """A pipeline with a trained chunker, and a rule-based tagger and splitter before it."""

    def make(**config):
        from pipeline.parsed import fitted

        return fitted("np_chunker", make_examples, config)

    return make


@pytest.fixture
def nlp(make_chunker):
    """A chunker over words alone, so that raw text needs no tagger; sentences by rule."""
    nlp = make_chunker(model={"@architectures": "spacy_structlearn.CRF.v1", **WORDS_ONLY})
    nlp.add_pipe("sentencizer", first=True)
    return nlp


WORDS_ONLY = {"templates": ["ORTH[0]", "LOWER[0]", "LOWER[-1]", "LOWER[1]", "SUFFIX[0]", "bias"]}
