"""The constituency parser as spaCy sees it: training, prediction, storage, odd input.

What does not depend on the grammar is tested with a chart parser that makes right-branching trees.
"""

import logging
import pickle
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training import Example
from spacy.vocab import Vocab

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.em import treebank_grammar
from spacy_structlearn.grammar.model import LatentGrammar
from spacy_structlearn.grammar.symbols import binarize
from spacy_structlearn.pipeline import batch_trainable, constituency_parser
from spacy_structlearn.pipeline.architectures import learner_model
from spacy_structlearn.pipeline.constituency_parser import ConstituencyParser, cut
from spacy_structlearn.pipeline.readers import create_treebank_reader, set_gold_spans, to_example
from spacy_structlearn.trees.brackets import parse_tree, read_trees
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.parse import Parse

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"
FILES = {"spaces": SAMPLE / "sample.spaces", "props": SAMPLE / "sample.props"}
MODEL = {"@architectures": "spacy_structlearn.LatentGrammar.v1", "rounds": 2}
TEXT = "The old man took a key from his pocket. He opened the door."


def treebank(nlp):
    """The sample as Examples, a document each."""
    return list(create_treebank_reader(SAMPLE / "sample.trees", **FILES)(nlp))


def strings(doc):
    return [s._.parse_string for s in doc.sents if not s.text.isspace()]


def scores(doc):
    return doc.spans["constituents"].attrs["scores"]


# --- a chart parser without a grammar -------------------------------------------------------------
class RightBranching:
    """S over everything, X over every suffix of two words or more; failed if a word is FAIL."""

    calls: ClassVar[list] = []

    def __init__(self, grammar, **settings):
        self.settings = settings

    def parse(self, sentences, tags=None, **settings):
        RightBranching.calls.append((sentences, tags, {**self.settings, **settings}))
        return [self.tree(words) for words in sentences]

    def k_best(self, sentence, k, tags=None, **settings):
        return self.parse([sentence], None if tags is None else [tags], **settings)[:k]

    def tree(self, words):
        n = len(words)
        return Parse(
            labels=["S"] + ["X"] * max(n - 2, 0),
            starts=[0, *range(1, n - 1)],
            ends=[n] * max(n - 1, 1),
            probabilities=np.linspace(1, 0.5, max(n - 1, 1), dtype=np.float32),
            tags=["NN"] * n,
            log_probability=-1.0,
            failed="FAIL" in words,
        )


class Counts:
    """An estimator without training: the grammar of the treebank as it is."""

    attributes = ()

    def initialize(self, data, labels, previous):
        return treebank_grammar(binarize(tree for trees in data for tree in trees))


@pytest.fixture
def fake(monkeypatch):
    """Makes parsers of right-branching trees: (nlp, component)."""
    monkeypatch.setattr(constituency_parser, "ChartParser", RightBranching)
    RightBranching.calls = []

    def make(**settings):
        nlp = spacy.blank("en")
        nlp.add_pipe("sentencizer")
        model = learner_model("fake", LatentGrammar.empty(), Counts())
        parser = ConstituencyParser(nlp.vocab, model, **settings)
        parser.initialize(lambda: treebank(nlp))
        return nlp, parser

    return make


def parsed(made, text):
    nlp, parser = made
    return parser(nlp(text))


def test_brackets_of_all_sentences_in_order(fake):
    doc = parsed(fake(), "I saw it. You ran")
    assert [(s.label_, s.start, s.end) for s in doc.spans["constituents"]] == [
        ("S", 0, 4),
        ("X", 1, 4),
        ("X", 2, 4),
        ("S", 4, 6),
    ]
    assert scores(doc).dtype == np.float32
    assert scores(doc).tolist() == [1.0, 0.75, 0.5, 1.0]
    assert doc[1:4]._.constituent_prob == 0.75
    assert strings(doc)[1] == "(S (NN You) (NN ran))"
    assert doc._.parse_failures == ()


def test_the_sentences_of_all_docs_are_parsed_at_once(fake):
    nlp, parser = fake()
    docs = list(nlp.pipe(["I ran. You ran.", "", " ", "We ran."]))
    list(parser.pipe(docs, batch_size=10))
    assert len(RightBranching.calls) == 1
    assert RightBranching.calls[0][0] == [[w, "ran", "."] for w in ("I", "You", "We")]
    assert [len(doc._.trees) for doc in docs] == [2, 0, 0, 1]


def test_white_space_tokens_are_left_out(fake):
    plain = parsed(fake(), "I saw it. You ran.")
    doc = parsed(fake(), "\n\n I \n saw  it .\n\n You  ran. \n")
    assert RightBranching.calls[-1][0] == RightBranching.calls[0][0]
    assert strings(doc) == strings(plain)
    assert scores(doc).tolist() == scores(plain).tolist()
    for group in (doc.spans["constituents"], doc.spans["constituent_tags"]):
        assert not any(span[0].is_space or span[-1].is_space for span in group)
    assert [len(group) for group in doc.spans.values()] == [5, 7]


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n\t ", "dog", "!", "🙂 🙂", "\u200b", "( )", "[LRB-"]
)
def test_odd_texts(fake, text):
    doc = parsed(fake(), text)
    words = [token.text for token in doc if not token.is_space]
    assert [word for tree in doc._.trees for word in tree.words()] == words
    assert len(scores(doc)) == len(doc.spans["constituents"])


def test_without_sentence_boundaries_the_doc_is_one_sentence(fake):
    nlp, parser = fake()
    doc = parser(nlp.make_doc("I ran. You ran."))
    assert len(doc._.trees) == 1


def test_tags_are_kept_beside_those_of_the_tokens(fake):
    nlp, parser = fake()
    doc = nlp("I ran.")
    doc[0].tag_ = "PRP"
    parser(doc)
    assert strings(doc) == ["(S (NN I) (X (NN ran) (NN .)))"]
    assert [token.tag_ for token in doc] == ["PRP", "", ""]


def test_tags_are_written_if_asked_for(fake):
    nlp, parser = fake()
    again = fake(set_tags=True)[1]
    again.vocab = nlp.vocab
    doc = again(parser(nlp("I ran. \n")))
    assert [token.tag_ for token in doc] == ["NN", "NN", "NN", ""]
    assert "constituent_tags" not in doc.spans
    assert strings(doc) == ["(S (NN I) (X (NN ran) (NN .)))"]


@pytest.mark.parametrize(
    "text", ["", " \n", "\n I  ran , you sat ; FAIL there .\n\nFAIL. We ran. "]
)
def test_written_tags_are_those_of_the_trees(fake, text):
    nlp, parser = fake(set_tags=True, tags="prior", max_length=4)
    doc = nlp(text)
    for token in doc:
        token.tag_ = "_SP" if token.is_space else "nowhere"
    set_gold_spans(doc, "constituent_tags", [("XY", token.i, token.i + 1) for token in doc])
    parser(doc)
    assert {s.label_ for s in doc._.parse_failures} == (
        {"cut", "fallback"} if "I" in text else set()
    )
    tags = [tag for tree in doc._.trees for tag in tree.tags()]
    assert [token.tag_ for token in doc if not token.is_space] == tags
    assert {token.tag_ for token in doc if token.is_space} <= {"_SP"}
    assert "constituent_tags" not in doc.spans


@pytest.mark.parametrize(
    ("settings", "tags", "weight"),
    [
        ({}, None, None),
        ({"tags": "prior", "tag_weight": 0.5}, [["PRP", "", "."]], 0.5),
        ({"tags": "require"}, [["PRP", "", "."]], np.inf),
    ],
)
def test_tags_go_to_the_chart_parser(fake, settings, tags, weight):
    nlp, parser = fake(**settings)
    doc = nlp("I  ran.")
    for token, tag in zip(doc, ["PRP", "_SP", "", "."], strict=True):
        token.tag_ = tag
    parser(doc)
    _, given, told = RightBranching.calls[-1]
    assert given == tags
    assert told.get("tag_weight") == weight


def with_candidates(doc, tags, candidates, scores):
    """Tags of the tokens, and of some of them other candidates, as (token, tag)."""
    for token, tag in zip(doc, tags, strict=True):
        token.tag_ = tag
    set_gold_spans(doc, "tag_candidates", [(tag, i, i + 1) for i, tag in candidates])
    doc.spans["tag_candidates"].attrs["scores"] = np.array(scores, dtype=np.float32)
    return doc


CANDIDATES = [(2, "NN"), (2, "VBD"), (3, "."), (3, ":")]


@pytest.mark.parametrize("k_best", [False, True])
def test_probabilities_of_tags_go_to_the_chart_parser(fake, k_best):
    nlp, parser = fake(tags="prior")

    def told(doc):
        if k_best:
            parser.k_best(next(doc.sents), 1)
        else:
            parser.predict([doc])
        return RightBranching.calls[-1][1][:1]

    def doc():
        tags = ["PRP", "_SP", "NN", "."]
        return with_candidates(nlp("I  ran."), tags, CANDIDATES, [0.75, 0.25, 0.5, 0.5])

    assert told(doc()) == [["PRP", {"NN": 0.75, "VBD": 0.25}, {".": 0.5, ":": 0.5}]]
    parser.tags = "require"
    assert told(doc()) == [["PRP", "NN", "."]]
    parser.tags = "prior"
    # Whoever has set another tag since means it.
    other = doc()
    other[2].tag_ = "VBD"
    assert told(other) == [["PRP", "VBD", {".": 0.5, ":": 0.5}]]
    # Scores get lost where Docs are joined.
    joined = Doc.from_docs([doc(), doc()])
    assert "tag_candidates" in joined.spans
    for scores in ({}, {"scores": np.ones(3, np.float32)}, {"scores": None}):
        joined.spans["tag_candidates"].attrs.update(scores)
        assert told(joined) == [["PRP", "NN", "."]]


def test_candidates_of_several_docs(fake):
    nlp, parser = fake(tags="prior")
    docs = [
        with_candidates(nlp(" Run. Run."), ["_SP", "VB", ".", "VB", "."], [(3, "VB")], [0.5]),
        nlp(""),
        with_candidates(nlp("Run."), ["VB", "."], [(0, "VB"), (0, "NN")], [0.5, 0.5]),
    ]
    parser.predict(docs)
    assert RightBranching.calls[-1][1] == [
        ["VB", "."],
        [{"VB": 0.5}, "."],
        [{"VB": 0.5, "NN": 0.5}, "."],
    ]


def test_tags_that_are_to_be_used_and_missing_are_named(fake):
    nlp, parser = fake(tags="require")
    with pytest.raises(StructlearnError, match=r"token.tag_.*I ran"):
        parser(nlp("I ran."))


def test_a_prior_may_be_missing(fake):
    nlp, parser = fake(tags="prior")
    doc = parser(nlp.make_doc("I ran"))
    assert doc.has_annotation("TAG") is False
    assert len(doc._.trees) == 1


def test_failures(fake):
    doc = parsed(fake(), "I ran. \n FAIL here \n. You ran.")
    assert [(s.label_, s.text) for s in doc._.parse_failures] == [("fallback", "FAIL here \n.")]
    assert list(doc.sents)[1]._.is_constituent


def test_failures_of_before_are_forgotten(fake):
    made = fake()
    doc = parsed(made, "FAIL here.")
    assert len(doc._.parse_failures) == 1
    made[1].max_length = 1000
    constituency = made[1]
    constituency.set_annotations([doc], [constituency_parser.Reading([], [], [])])
    assert doc._.parse_failures == ()
    assert "parse_failures" not in doc.spans


def test_long_sentences_are_cut_and_joined(fake):
    made = fake(max_length=4)
    doc = parsed(made, "I ran , I sat ; you slept , FAIL . Fine.")
    first = next(doc.sents)
    assert first._.labels[0] == "S"
    assert first._.constituent_prob == 0.0
    assert [c.text for c in first._.children] == ["I ran ,", "I sat ;", "you slept ,", "FAIL ."]
    assert [(s.label_, s.text) for s in doc._.parse_failures] == [
        ("cut", first.text),
        ("fallback", "FAIL ."),
    ]
    assert first._.tree.words() == [token.text for token in first]


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("a b c", [3]),
        ("a b c d", [4]),
        ("a ; b c d", [2, 5]),
        ("a ; b : c d", [4, 6]),
        ("a , b c d", [2, 5]),
        ("a , b ; c d", [4, 6]),
        ("a ; b , c d", [2, 6]),
        ("a b c d e f g h i", [4, 8, 9]),
        ("a -- b c d", [2, 5]),
        ("a - b c d", [4, 5]),
        ("; ; ; ; ;", [4, 5]),
    ],
)
def test_where_a_sentence_is_cut(text, ends):
    assert cut(text.split(), 4) == ends


def test_a_sentence_of_five_thousand_words(fake):
    nlp, parser = fake()
    words = ["the", "red", "table", ","] * 1250
    doc = parser(Doc(nlp.vocab, words=words))
    assert max(len(piece) for piece in RightBranching.calls[-1][0]) <= 250
    assert [s.label_ for s in doc._.parse_failures] == ["cut"]
    assert doc._.trees[0].words() == words


def test_predict_leaves_the_doc_alone(fake):
    nlp, parser = fake()
    doc = nlp("I ran.")
    parser.predict([doc])
    assert not doc.spans
    assert parser.predict([]) == []


@pytest.mark.parametrize(
    "bad",
    [
        {"decoder": "best"},
        {"tags": "yes"},
        {"max_length": 0},
        {"tag_weight": -1.0},
        {"iterations_per_step": 0},
    ],
)
def test_bad_settings_are_refused(bad):
    with pytest.raises(StructlearnError, match=next(iter(bad))):
        spacy.blank("en").add_pipe("constituency_parser", config=bad)


def test_untrained_component_says_so():
    nlp = spacy.blank("en")
    nlp.add_pipe("constituency_parser")
    with pytest.raises(StructlearnError, match="not been trained"):
        nlp("A dog")


# --- gold -----------------------------------------------------------------------------------------
@pytest.fixture
def untrained():
    return spacy.blank("en").add_pipe("constituency_parser", config={"model": MODEL})


def test_gold_data_are_the_trees_of_the_treebank(untrained):
    found = [untrained.gold_data(example) for example in treebank(spacy.blank("en"))]
    gold = [normalize(tree) for tree in read_trees(SAMPLE / "sample.trees")]
    assert [tree for trees in found for tree in trees] == gold


def test_gold_data_are_over_the_words_of_the_reference(untrained):
    nlp = spacy.blank("en")
    example = treebank(nlp)[0]
    words = [token.text for token in example.reference]
    joined = Example(Doc(nlp.vocab, words=["".join(words)]), example.reference)
    assert (
        untrained.gold_data(joined)[0].words()
        == words[: len(untrained.gold_data(joined)[0].words())]
    )


def test_sentences_without_a_complete_tree_are_left_out(untrained, caplog):
    words, tags = ["a", "b", "c", "d", "\n", "e", "f", "g"], ["X"] * 7 + [""]
    starts = [i in (0, 2, 4, 5, 7) for i in range(8)]
    vocab = spacy.blank("en").vocab
    doc = Doc(vocab, words=words, tags=tags, sent_starts=starts)
    # Without brackets; good; white space; across a boundary; without a tag.
    set_gold_spans(doc, "constituents", [("A", 2, 4), ("B", 5, 8), ("B", 6, 7)])
    with caplog.at_level(logging.WARNING, "spacy_structlearn"):
        data = untrained.gold_data(to_example(doc))
    assert list(map(str, data)) == ["(TOP (A (X c) (X d)))"]
    assert "3 of the sentences" in caplog.text


def test_gold_without_tags_is_an_error(untrained):
    doc = Doc(spacy.blank("en").vocab, words=["a", "b"])
    set_gold_spans(doc, "constituents", [("A", 0, 2)])
    with pytest.raises(StructlearnError, match="SL022"):
        untrained.gold_data(to_example(doc))


def test_gold_without_constituents_is_none(untrained):
    doc = Doc(spacy.blank("en").vocab, words=["a", "b"])
    assert untrained.gold_data(to_example(doc)) is None
    with pytest.raises(StructlearnError, match=r"constituents.*reference"):
        untrained.initialize(lambda: [to_example(doc)])


# --- a real grammar: training ---------------------------------------------------------------------
def blank(**config):
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("constituency_parser", config={"model": MODEL, **config})
    return nlp


@pytest.fixture(scope="module")
def nlp():
    """Two rounds on the sample."""
    nlp = blank()
    examples = treebank(nlp)
    nlp.get_pipe("constituency_parser").initialize(lambda: examples)
    nlp.get_pipe("constituency_parser").fit(examples)
    return nlp


def test_learns_the_sample(nlp):
    parser = nlp.get_pipe("constituency_parser")
    examples = treebank(nlp)
    list(parser.pipe([example.predicted for example in examples]))
    scores = parser.score(examples)
    assert scores["constituents_f"] > 0.9
    assert scores["constituents_tag_acc"] > 0.95
    assert scores["constituents_per_type"]["NP"]["r"] > 0.9
    assert len(parser.parameters.levels) == 3
    assert set(parser.labels) == set(parser.parameters.symbols.phrases) - {"TOP"}


def test_parses_text(nlp):
    doc = nlp(TEXT)
    assert doc._.parse_failures == ()
    first = next(doc.sents)
    assert first._.labels == ("S",)
    assert [child._.labels for child in first._.children][:2] == [("NP",), ("VP",)]
    for bracket, score in zip(doc.spans["constituents"], scores(doc), strict=True):
        assert 0.0 < score <= 1.0
        assert bracket._.constituent_prob == pytest.approx(score)
    starts = [(span.start, -span.end) for span in doc.spans["constituents"]]
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    "text", ["", " ", "\n\n\t ", "dog", "!", "🙂 🙂", "\u200b", ") (", "a " * 400]
)
def test_odd_texts_with_a_real_grammar(nlp, text):
    doc = nlp(text)
    words = [token.text for token in doc if not token.is_space]
    assert [word for tree in doc._.trees for word in tree.words()] == words


def test_docs_of_another_vocab(nlp):
    parser = nlp.get_pipe("constituency_parser")
    words = ["The", "zorkest", "man", "opened", "the", "blicket", "."]
    known, unknown = (Doc(vocab, words=words) for vocab in (nlp.vocab, Vocab()))
    both = parser.predict([known, unknown])
    assert both[0] == both[1]
    assert parser(unknown)._.trees == parser(known)._.trees != ()


def test_a_parser_in_another_pipeline(nlp):
    other = spacy.blank("en")
    other.add_pipe("sentencizer")
    other.add_pipe("constituency_parser", source=nlp)
    text = "The zorkish man opened the blicketing door."
    assert strings(other(text)) == strings(nlp(text))


def test_white_space_changes_nothing(nlp):
    spread = nlp("\n The old  man \n took a\tkey from his pocket . \n\n He opened the door. ")
    plain = nlp("The old man took a key from his pocket . He opened the door.")
    assert strings(spread) == strings(plain)
    np.testing.assert_array_equal(scores(spread), scores(plain))


def test_pipe_equals_call(nlp):
    many = [TEXT, "", "He opened the door."] * 3
    expected = [strings(nlp(text)) for text in many]
    assert [strings(doc) for doc in nlp.pipe(many, batch_size=4)] == expected


def test_update_ends_at_the_grammar_of_fit(nlp):
    stepwise = blank()
    examples = treebank(stepwise)
    sgd = stepwise.initialize(lambda: examples)
    losses = [stepwise.update(examples, sgd=sgd)["constituency_parser"] for _ in range(4)]
    assert losses[0] > losses[1] > losses[2] == losses[3]
    trained = stepwise.get_pipe("constituency_parser").parameters
    assert trained.to_bytes() == nlp.get_pipe("constituency_parser").parameters.to_bytes()


def test_initialize_keeps_a_loaded_grammar(nlp):
    before = nlp.get_pipe("constituency_parser").parameters
    nlp.initialize()
    assert nlp.get_pipe("constituency_parser").parameters is before


def test_an_interrupted_fit_goes_on_from_its_checkpoint(nlp, tmp_path, monkeypatch):
    monkeypatch.setattr(batch_trainable, "CHECKPOINT_SECONDS", -1)
    other = blank()
    parser = other.get_pipe("constituency_parser")
    examples = treebank(other)
    parser.initialize(lambda: examples)
    calls: ClassVar[list] = []

    def interrupt(iteration, value):
        calls.append((iteration, value))
        if len(calls) == 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parser.fit(examples, on_iteration=interrupt, checkpoint=tmp_path / "state")
    assert (tmp_path / "state").exists()
    assert calls[-1][0] == 1  # in the middle of the second round
    went_on = []
    parser.fit(
        examples, on_iteration=lambda *call: went_on.append(call), checkpoint=tmp_path / "state"
    )
    assert went_on[0][0] == 1
    assert len(calls) + len(went_on) < 170
    expected = nlp.get_pipe("constituency_parser").parameters.to_bytes()
    assert parser.parameters.to_bytes() == expected
    assert not (tmp_path / "state").exists()


def test_examples_without_gold_are_passed_over(nlp):
    parser = blank().get_pipe("constituency_parser")
    examples = treebank(nlp)
    for example in examples[1:]:
        del example.reference.spans["constituents"]
    parser.initialize(lambda: examples)
    parser.fit(examples)
    n_sentences = len(list(examples[0].reference.sents))
    assert len(parser.gold_data(examples[0])) == n_sentences
    assert parser.score(examples[1:])["constituents_f"] is None


def test_another_treebank_with_other_labels():
    """No label, tag or language is wired in."""
    trees = [
        "(CLAUSE (NOM (N kala)) (PRED (V ui)))",
        "(CLAUSE (NOM (A iso) (N kala)) (PRED (V ui)))",
    ]
    nlp = spacy.blank("fi")
    docs = []
    for text in trees:
        tree = normalize(parse_tree(text))
        doc = Doc(nlp.vocab, words=tree.words(), tags=tree.tags())
        set_gold_spans(doc, "constituents", tree.spans()[1:])
        docs.append(doc)
    examples = [to_example(doc, tags=False) for doc in docs] * 3
    nlp.add_pipe("constituency_parser", config={"model": {**MODEL, "rounds": 1}})
    nlp.initialize(lambda: examples)
    nlp.get_pipe("constituency_parser").fit(examples)
    assert nlp("iso kala ui")._.trees == (normalize(parse_tree(trees[1])),)


# --- a real grammar: settings ---------------------------------------------------------------------
def test_settings_may_change_between_texts(nlp):
    parser = nlp.get_pipe("constituency_parser")
    first = parser._parser()
    assert parser._parser() is first
    try:
        parser.decoder = "viterbi"
        assert parser._parser() is not first
        assert nlp(TEXT)._.parse_failures == ()
        parser.thresholds = [0.0, 0.0]
        assert len(nlp(TEXT)._.trees) == 2
    finally:
        parser.decoder, parser.thresholds = "max_rule_product", None


@pytest.mark.parametrize("tags", ["prior", "require"])
def test_tags_of_the_tokens(nlp, tags):
    parser = nlp.get_pipe("constituency_parser")
    doc = nlp.get_pipe("sentencizer")(nlp.make_doc("He opened the door."))
    given = ["PRP", "VBD", "DT", "NN", "."]
    for token, tag in zip(doc, given, strict=True):
        token.tag_ = tag
    try:
        parser.tags, parser.tag_weight = tags, 20.0
        assert parser(doc)._.trees[0].tags() == given
    finally:
        parser.tags = "ignore"
    assert [token.tag_ for token in doc] == given


def test_k_best(nlp):
    parser = nlp.get_pipe("constituency_parser")
    doc = nlp("He opened the door.")
    readings = parser.k_best(doc, 5)
    logs = [log for log, _ in readings]
    assert len({tree for _, tree in readings}) == len(readings) == 5
    assert readings[0][1] == doc._.trees[0]
    assert all(log < 0 for log in logs)
    sentence = list(nlp(TEXT).sents)[1]
    assert parser.k_best(sentence, 1)[0][1] == doc._.trees[0]
    assert parser.k_best(doc[2:4], 1)[0][1].words() == ["the", "door"]
    assert parser.k_best(nlp(" \n"), 3) == []
    with pytest.raises(StructlearnError, match=r"SL025.* 251 words .* 250 "):
        parser.k_best(Doc(nlp.vocab, words=["door"] * 251), 3)
    with pytest.raises(StructlearnError, match="SL024"):
        parser.k_best(nlp(TEXT))


def test_calibration():
    nlp = blank(model={**MODEL, "rounds": 0})
    parser = nlp.get_pipe("constituency_parser")
    examples = treebank(nlp)
    parser.initialize(lambda: examples[:5])
    parser.fit(examples[:5])
    raw = np.concatenate([scores(parser(example.predicted)) for example in examples[5:]])
    temperature = parser.calibrate(examples[5:])
    assert temperature == parser.parameters.temperature != 1.0
    fitted = np.concatenate([scores(parser(example.predicted)) for example in examples[5:]])
    assert ((fitted < raw) == ((raw > 0.5) == (temperature > 1))).mean() > 0.9
    again = ConstituencyParser(nlp.vocab, parser.model.copy()).from_bytes(parser.to_bytes())
    assert again.parameters.temperature == temperature


def test_threads_take_turns(nlp):
    from concurrent.futures import ThreadPoolExecutor

    expected = strings(nlp(TEXT))
    with ThreadPoolExecutor(4) as pool:
        docs = list(pool.map(nlp, [TEXT] * 12))
    assert [strings(doc) for doc in docs] == [expected] * 12


def test_memory_zone(nlp):
    with nlp.memory_zone():
        nlp("An unheard-of zyzzyva slept under the table.")
    assert strings(nlp(TEXT))[0].startswith("(S (NP ")


def test_analysis_of_the_pipeline(nlp):
    analysis = nlp.analyze_pipes()
    assert not analysis["problems"]["constituency_parser"]
    meta = nlp.get_pipe_meta("constituency_parser")
    assert {"span._.labels", "token.tag"} <= set(meta.assigns)
    assert list(meta.requires) == ["doc.sents"]


# --- storage --------------------------------------------------------------------------------------
@pytest.fixture(params=["disk", "bytes", "pickle"])
def restored(request, nlp, tmp_path):
    if request.param == "disk":
        nlp.to_disk(tmp_path / "model")
        return spacy.load(tmp_path / "model")
    if request.param == "bytes":
        return spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    nlp(TEXT)  # there is a chart parser now, which must not travel
    return pickle.loads(pickle.dumps(nlp))


def test_component_round_trip(nlp, restored):
    ours, again = (n.get_pipe("constituency_parser") for n in (nlp, restored))
    assert again.parameters.to_bytes() == ours.parameters.to_bytes()
    assert again.labels == ours.labels
    assert strings(restored(TEXT)) == strings(nlp(TEXT))
    np.testing.assert_array_equal(scores(restored(TEXT)), scores(nlp(TEXT)))


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
    assert strings(joined) == strings(doc) + strings(nlp("Run!")) + strings(doc)


def test_store_n_process_under_spawn(nlp, tmp_path):
    nlp.to_disk(tmp_path / "model")
    script = tmp_path / "run.py"
    script.write_text(
        "import multiprocessing, sys, spacy\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_start_method('spawn')\n"
        "    nlp = spacy.load(sys.argv[1])\n"
        "    docs = list(nlp.pipe([sys.argv[2]] * 6, n_process=2, batch_size=2))\n"
        "    for doc in docs:\n"
        "        print([s._.parse_string for s in doc.sents],\n"
        "              [round(s._.constituent_prob, 5) for s in doc.spans['constituents']])\n",
        encoding="utf8",
    )
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "model"), TEXT],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    doc = nlp(TEXT)
    probs = [round(s._.constituent_prob, 5) for s in doc.spans["constituents"]]
    assert run.stdout.splitlines() == [f"{strings(doc)} {probs}"] * 6
