"""The English pipeline inside the package, as its users meet it."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly
from spacy.tokens import Doc

import spacy_structlearn
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.trees.brackets import parse_tree

DATA = Path(spacy_structlearn.__file__).parent / "data"
DIRECTORY = DATA / "en_structlearn_sm"
PIPELINES = ("en_structlearn_sm", "en_structlearn_md")
TEXT = "The committee approved a new plan for the old harbor. Did your sister read it?"
CHUNKS = ["The committee", "a new plan", "the old harbor", "your sister", "it"]


@pytest.fixture(scope="module")
def nlp():
    return spacy_structlearn.load()


def chunks(doc):
    return [chunk.text for chunk in doc._.np_chunks]


def annotation(doc):
    keys = ("np_chunks", "constituents", "pp_attachments", "srl")
    groups = (doc.spans[key] for key in keys)
    return [[(s.label_, s.start, s.end, s.kb_id_) for s in group] for group in groups]


# --- what is in the package -----------------------------------------------------------------------
def test_analysis_of_the_pipeline(nlp):
    found = nlp.analyze_pipes()["problems"].values()
    assert list(found) == [[]] * len(nlp.pipe_names)


def test_size_on_disk():
    size = sum(path.stat().st_size for path in DIRECTORY.rglob("*") if path.is_file())
    assert 0 < size <= 25e6


@pytest.mark.parametrize("name", PIPELINES)
def test_licence_and_sources(name):
    meta = srsly.read_json(DATA / name / "meta.json")
    assert "CC BY-SA" in meta["license"]
    text = (DATA / name / "LICENSES_SOURCES").read_text(encoding="utf8")
    assert meta["sources"]
    for source in meta["sources"]:
        assert source["license"]
        assert source["url"] in text


@pytest.mark.parametrize("name", PIPELINES)
def test_card(name):
    meta = srsly.read_json(DATA / name / "meta.json")
    assert f"en_{meta['name']}" == name
    assert meta["version"] == spacy_structlearn.__version__
    assert meta["author"]
    assert meta["description"].startswith("Sentences, Penn Treebank tags")
    performance = meta["performance"]
    names = [f"{layer}_{score}" for layer in ("np_chunk", "constituents", "srl") for score in "fpr"]
    for name in ("tag_acc", "sents_f", "pp_attachment_acc", "srl_sense_acc", *names):
        assert 0.5 < performance[name] <= 1.0
    for name in ("np_chunk", "constituents", "pp_attachment", "srl"):
        assert 0.0 < performance[f"{name}_ece"] < 0.1
    assert "words_per_cpu_s" not in performance  # it differs from run to run


def test_card_of_each_component(nlp):
    meta = srsly.read_json(DIRECTORY / "meta.json")
    assert list(meta["size"]) == meta["components"]
    for name, size in meta["size"].items():
        files = sum(path.stat().st_size for path in (DIRECTORY / name).iterdir())
        assert size["mb"] == pytest.approx(1e-6 * files, abs=0.001)
        assert size["weights"] > 100
    chunker = nlp.get_pipe("np_chunker").parameters
    allowed = chunker.transitions[np.isfinite(chunker.transitions)]
    weights = np.count_nonzero(chunker.weights) + np.count_nonzero(allowed)
    assert meta["size"]["np_chunker"]["weights"] == weights
    speed = meta["speed"]["words_per_cpu_s"]
    assert set(speed) == {"all", *meta["components"]}
    assert 0 < speed["all"] < min(speed[name] for name in meta["components"])
    assert meta["speed"]["cpu"]


def test_nothing_of_the_training_machine_is_in_the_files():
    config = (DIRECTORY / "config.cfg").read_text(encoding="utf8")
    meta = (DIRECTORY / "meta.json").read_text(encoding="utf8")
    for place in (Path.home(), Path(spacy_structlearn.__file__).parents[1]):
        assert str(place) not in config + meta
    for line in config.splitlines():
        value = line.partition("=")[2].strip().strip('"')
        assert not value.startswith(("/", "~", "\\")), line
        assert value[1:3] not in (":\\", ":/"), line


def test_the_vocabulary_does_not_hold_words_of_the_training_texts():
    # Labels, tags and the language's own tables, and rolesets of PropBank, which are no text of the
    # corpus; its words would be tens of thousands.
    strings = srsly.read_json(DIRECTORY / "vocab" / "strings.json")
    rolesets = [string for string in strings if re.fullmatch(r"\S+\.(\d+|[A-Z]{2,3})", string)]
    assert len(strings) - len(rolesets) < 5000
    assert 1000 < len(rolesets) < 5000


# --- predictions ----------------------------------------------------------------------------------
def test_sentences_tags_and_chunks(nlp):
    doc = nlp(TEXT)
    assert chunks(doc) == CHUNKS
    assert [len(sentence) for sentence in doc.sents] == [11, 6]
    assert [token.tag_ for token in doc[:5]] == ["DT", "NN", "VBD", "DT", "JJ"]
    assert [token._.np_iob for token in doc[:6]] == ["B", "I", "O", "B", "I", "I"]


# --- parses ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "tree",
    [
        "(S (NP (DT The) (NN committee)) (VP (VBD approved) (NP (DT a) (JJ new) (NN plan))) (. .))",
        "(SQ (VBD Did) (NP (PRP$ your) (NN sister)) (VP (VB read) (NP (PRP it))) (. ?))",
        "(S (NP (PRP She)) (VP (VBZ knows) (SBAR (IN that) (S (NP (NNS birds)) (VP (MD can) "
        "(VP (VB sing)))))) (. .))",
        "(S (NP (NP (DT The) (NN price)) (PP (IN of) (NP (NN oil)))) (VP (VBZ has) (VP (VBN fallen)"
        ")) (. .))",
    ],
)
def test_trees_of_simple_sentences(nlp, tree):
    words = parse_tree(tree).words()
    doc = nlp(" ".join(words[:-1]) + words[-1])
    assert [sentence._.parse_string for sentence in doc.sents] == [tree]
    assert doc._.parse_failures == ()


def test_a_sentence_of_600_words_is_cut(nlp):
    doc = Doc(nlp.vocab, words=["the", "old", "dog", "and"] * 150)
    with pytest.raises(StructlearnError, match="SL191"):
        nlp.get_pipe("constituency_parser")(doc)
    doc[0].is_sent_start = True
    for token in doc[1:]:
        token.is_sent_start = False
    doc = nlp(doc)
    assert [(span.label_, len(span)) for span in doc._.parse_failures] == [("cut", 600)]
    assert doc._.trees[0].words() == [token.text for token in doc]


# --- attachments of prepositional phrases ---------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She ate the pizza with a fork.", [("with", "ate")]),
        ("He opened the door of the shed.", [("of", "door")]),
        ("They saw a film about whales.", [("about", "film")]),
        ("She put the book on the table.", [("on", "put")]),
        ("He slept in the garden.", []),
        ("She sold the keys of the house to a friend.", [("of", "keys"), ("to", "sold")]),
    ],
)
def test_attachments_of_simple_sentences(nlp, text, expected):
    doc = nlp(text)
    assert [(site.prep.text, site.head.text) for site in doc._.pp_attachments] == expected
    assert all(0.5 <= site.prob <= 1 for site in doc._.pp_attachments)
    assert [(t.text, t._.pp_head.text) for t in doc if t._.pp_head is not None] == expected


# --- semantic roles -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "predicate", "expected"),
    [
        (
            "My sister sold her new boat to a dealer.",
            "sold",
            {"ARG0": "My sister", "ARG1": "her new boat", "ARG2": "to a dealer"},
        ),
        ("The window broke.", "broke", {"ARG1": "The window"}),
        (
            "The plan was approved by the mayor.",
            "approved",
            {"ARG1": "The plan", "ARG0": "by the mayor"},
        ),
        ("She wants to leave.", "wants", {"ARG0": "She", "ARG1": "to leave"}),
        (
            "The man who sold the boat died yesterday.",
            "sold",
            {"ARG0": "The man", "R-ARG0": "who", "ARG1": "the boat"},
        ),
        (
            "The man who sold the boat died yesterday.",
            "died",
            {"ARG1": "The man who sold the boat", "ARGM-TMP": "yesterday"},
        ),
        ("He did not sing.", "sing", {"ARG0": "He", "ARGM-NEG": "not"}),
    ],
)
def test_roles_in_simple_sentences(nlp, text, predicate, expected):
    doc = nlp(text)
    frame = next(token._.srl for token in doc if token.text == predicate)
    assert {argument.label: argument.span.text for argument in frame.arguments} == expected
    assert all(0 < argument.prob <= 1 for argument in frame.arguments)
    assert frame.prob > 0.5
    assert frame in doc._.frames


def test_rolesets(nlp):
    doc = nlp("They picked the kids up. He picked a red apple. She broke up. They made a lamp.")
    wanted = ["pick_up.04", "pick.01", "break_up.08", "make.01"]
    assert [frame.roleset for frame in doc._.frames] == wanted
    assert nlp("She blorked the lamp.")[1]._.srl.roleset is None


def test_roles_and_attachments_agree(nlp):
    for text in ("She ate the pizza with a fork.", "She ate the pizza with olives."):
        doc = nlp(text)
        (site,) = doc._.pp_attachments
        phrases = {(a.span.start, a.span.end) for a in site.verb._.srl.arguments}
        assert ((site.pp.start, site.pp.end) in phrases) == (site.label == "V")


# --- storage --------------------------------------------------------------------------------------
@pytest.mark.parametrize("store", ["pickle", "disk"])
def test_the_pipeline_itself_can_be_stored(nlp, store, tmp_path):
    if store == "pickle":
        again = pickle.loads(pickle.dumps(nlp))
    else:
        nlp.to_disk(tmp_path / "model")
        again = spacy.load(tmp_path / "model")
    first, second = nlp(TEXT), again(TEXT)
    assert annotation(first) == annotation(second)
    scores = [doc.spans["np_chunks"].attrs["scores"] for doc in (first, second)]
    np.testing.assert_array_equal(*scores)
