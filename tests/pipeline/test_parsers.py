"""What is particular to parsers of one architecture or another; `contracts` has what is not."""

import subprocess
import sys

import pytest
import spacy
from contracts.components import COMPONENTS, PARSERS, TEXT, block, own, part
from contracts.components import blank as blank_of
from pipeline.parsed import parsed_doc

from spacy_structlearn import serialization
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.readers import to_example
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.normalize import normalize


def listed(name):
    return COMPONENTS[f"constituency_parser {name}"]


def loaded(name):
    """A trained pipeline and its parser, which each test may change."""
    nlp = own(listed(name))
    return nlp, part(listed(name), nlp)


def trees(doc):
    return [str(tree) for tree in doc._.trees]


def scores(doc):
    return doc.spans["constituents"].attrs["scores"]


# --- settings -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "bad", "code"),
    [
        ("SpanGrammar", {"templates": ["WORD[middle]"]}, "SL430"),
        ("SpanGrammar", {"tag_templates": ["WORD[first]"]}, "SL430"),
        ("SpanGrammar", {"templates": ["bias", "bias"]}, "SL202"),
        ("SpanGrammar", {"grammar": block("BayesNet")}, r"SL043\] SpanGrammar: grammar is"),
        ("SpanGrammar", {"grammar": block("CRF")}, r"SL043\] SpanGrammar: grammar is CRF"),
        (
            "SpanGrammar",
            {"grammar": block("SpanGrammar", **PARSERS["SpanGrammar"])},
            "SL043.*grammar is SpanGrammar",
        ),
        ("MEstimatedGrammar", {"templates": ["RULE|WORD[middle]"]}, "SL441"),
        ("MEstimatedGrammar", {"templates": ["RULE", "RULE"]}, "SL202"),
        (
            "MEstimatedGrammar",
            {"grammar": block("LatentGrammar", grammars=2)},
            "SL043.*not a product",
        ),
        ("MEstimatedGrammar", {"grammar": block("BayesNet")}, "SL043.*grammar is BayesNet"),
    ],
)
def test_blocks_and_templates_that_do_not_fit(name, bad, code):
    with pytest.raises(StructlearnError, match=code):
        blank_of(listed(name), **bad)


# --- training -------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["LatentGrammar", "ISBN"])
def test_another_treebank_with_other_labels(name):
    """No label, tag or language is wired in, and no tag of the tokens is needed."""
    brackets = [
        "(CLAUSE (NOM (N kala)) (PRED (V ui)))",
        "(CLAUSE (NOM (A iso) (N kala)) (PRED (V ui)))",
    ]
    gold = [normalize(parse_tree(text)) for text in brackets]
    nlp = spacy.blank("fi")
    found = [to_example(parsed_doc(nlp.vocab, tree), tags=False) for tree in gold * 10]
    nlp.add_pipe("constituency_parser", config={"model": listed(name).model})
    nlp.initialize(lambda: found)
    nlp.get_pipe("constituency_parser").fit(found)
    nlp.get_pipe("constituency_parser").one_sentence = True
    assert [nlp(text)._.trees for text in ("kala ui", "iso kala ui")] == [(t,) for t in gold]


# --- storage --------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["SpanGrammar", "MEstimatedGrammar"])
def test_no_word_is_stored_with_the_features(name):
    parameters = loaded(name)[1].parameters
    features = parameters.features or parameters.fragments
    data = serialization.pack("features", 1, features.fields())
    long = [word for word in parameters.lexicon.words if len(word) > 6 and word.isalpha()]
    assert len(long) > 50
    assert not [word for word in long if word.encode() in data]


# --- imports --------------------------------------------------------------------------------------
def test_a_pipeline_without_a_network_does_not_import_it(tmp_path):
    code = f"import sys, spacy_structlearn\nspacy_structlearn.load()({TEXT!r})\n"
    code += "print(*sys.modules, sep='\\n')"
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=tmp_path, capture_output=True, text=True
    )
    found = run.stdout.splitlines()
    assert "spacy_structlearn.pipeline.constituency_parser" in found
    # Its settings are read with those of all learners.
    network = {name for name in found if name.startswith("spacy_structlearn.isbn")}
    assert network <= {"spacy_structlearn.isbn", "spacy_structlearn.isbn.settings"}
    assert "scipy" not in found
