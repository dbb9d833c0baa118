"""The card of a pipeline: scores and calibration against counts by hand, sizes against what is
known of the models, and that a card changes nothing but meta.json."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import srsly
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example
from spacy.vocab import Vocab

import spacy_structlearn
from spacy_structlearn.attachment.sites import Site
from spacy_structlearn.classification import (
    BayesNet,
    BayesNetSettings,
    LogLinear,
    LogLinearSettings,
)
from spacy_structlearn.classification.stages import Stages
from spacy_structlearn.pipeline.extensions import frame_spans, site_spans
from spacy_structlearn.pipeline.readers import read_treebank
from training.pipeline import card

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "corpora" / "sample"
PACKAGED = Path(spacy_structlearn.__file__).parent / "data" / "en_structlearn_sm"


@pytest.fixture(scope="module")
def gold():
    """Some documents of the sample treebank, with all layers."""
    files = {kind: SAMPLE / f"sample.{kind}" for kind in ("spaces", "props")}
    documents = read_treebank(Vocab(), SAMPLE / "sample.trees", **files)
    return [doc for _, doc in documents][:2]


# --- the whole ------------------------------------------------------------------------------------
def test_a_card_changes_meta_alone_and_only_speed_differs(gold, tmp_path):
    folder = tmp_path / "pipeline"
    shutil.copytree(PACKAGED, folder)
    before = files(folder)
    written = card.write_card(folder, gold)
    first = srsly.read_json(folder / "meta.json")
    card.write_card(folder, gold)
    second = srsly.read_json(folder / "meta.json")
    assert {name for name, data in files(folder).items() if data != before.get(name)} == {
        "meta.json"
    }
    assert list(first)[-1] == list(second)[-1] == "speed"
    assert (
        first.pop("speed")["words_per_cpu_s"].keys()
        == second.pop("speed")["words_per_cpu_s"].keys()
    )
    assert srsly.json_dumps(first) == srsly.json_dumps(second)
    packaged = srsly.read_json(PACKAGED / "meta.json")
    for key in ("name", "version", "license", "sources", "labels"):
        assert first[key] == packaged[key]
    assert set(first["performance"]) == {*card.SCORES, *(f"{name}_ece" for name in card.LAYERS)}
    assert first["size"] == srsly.json_loads(srsly.json_dumps(written["size"]))
    assert list(first["size"]) == packaged["pipeline"]
    assert set(written["speed"]["words_per_cpu_s"]) == {"all", *packaged["pipeline"]}


def files(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# --- sizes ----------------------------------------------------------------------------------------
def test_weights_of_chains_are_those_that_are_described(nlp):
    chunker = nlp.get_pipe("np_chunker")
    assert f"{card.weights_of(chunker)} weights" in repr(chunker.parameters)


def test_weights_of_grammars(nlp):
    span_grammar = nlp.get_pipe("constituency_parser").parameters
    grammar = span_grammar.grammar
    assert card.n_weights(span_grammar) == card.n_weights(grammar) + span_grammar.features.n_weights
    first, second = (card.n_weights(grammar.truncated(n)) for n in (1, 2))
    lexicon = grammar.lexicon.levels[1]
    further = grammar.levels[1].n_productions + sum(map(np.count_nonzero, lexicon))
    assert second - first == further > 0
    # The members of the product besides.
    assert card.n_weights(grammar) > card.n_weights(grammar.truncated(grammar.depth + 1))


def test_weights_of_classifiers():
    rows = [("ate", "with"), ("ate", "of"), ("saw", "of"), ("saw", "with")]
    labels = ["V", "N", "N", "V"]
    net = BayesNet(BayesNetSettings(structure="naive")).fit(rows, labels, variables=["v", "p"])
    # A count for each label, and for each of two values of two variables with it, but for those of
    # "p" that never occur; and a d for each level.
    assert card.n_weights(net) == net.n_keys + sum(d.size for d in net.d.values())
    alone = LogLinear(LogLinearSettings(templates=[["p"]], l2=1.0)).fit(
        rows, labels, variables=["v", "p"]
    )
    assert card.n_weights(alone) == 4 + np.count_nonzero(alone.bias)
    stacked = LogLinear(
        LogLinearSettings(templates=[["p"]], l2=1.0, base=BayesNetSettings(structure="naive"))
    )
    stacked.fit(rows, labels, variables=["v", "p"])
    assert card.n_weights(stacked) > card.n_weights(stacked.base) > 0
    both = Stages({"identification": alone, "roles": alone})
    assert card.n_weights(both) == 2 * card.n_weights(alone)
    with pytest.raises(TypeError, match="int"):
        card.n_weights(3)


# --- calibration ----------------------------------------------------------------------------------
def made(words, spans=(), key="np_chunks", scores=None, tags=None):
    """A Doc with one group of spans (label, start, end[, kb_id])."""
    doc = Doc(Vocab(), words=words, tags=tags)
    group = [
        Span(doc, start, end, label, kb_id=next(iter(kb), "")) for label, start, end, *kb in spans
    ]
    attrs = {} if scores is None else {"scores": np.array(scores, dtype=np.float32)}
    doc.spans[key] = SpanGroup(doc, name=key, spans=group, attrs=attrs)
    return doc


def judged(layer, predicted, gold):
    found = card.LAYERS[layer](Example(predicted, gold))
    return [(None if prob is None else round(prob, 2), right) for prob, right in found]


@pytest.mark.parametrize(("layer", "key"), [("np_chunk", "np_chunks"), ("constituents",) * 2])
def test_spans_are_right_with_their_label_as_often_as_in_gold(layer, key):
    words = ["They", "cannot", "swim", "here"]
    gold = made(
        ["They", "can", "not", "swim", "here"],
        [("NP", 0, 1), ("VP", 1, 4), ("NP", 4, 5)],
        key,
    )
    spans = [("NP", 0, 1), ("NP", 0, 1), ("VP", 1, 3), ("VP", 3, 4), ("VP", 2, 3)]
    found = judged(layer, made(words, spans, key, [0.9, 0.4, 0.8, 0.3, 0.2]), gold)
    assert found == [(0.9, True), (0.4, False), (0.8, True), (0.3, False), (0.2, False)]


def test_white_space_does_not_shift_probabilities():
    spans = [("NP", 0, 1), ("NP", 1, 2), ("NP", 2, 3)]
    found = judged(
        "np_chunk",
        made(["She", " ", "us"], spans, scores=[0.9, 0.1, 0.6]),
        made(["She", "us"], [("NP", 0, 1)]),
    )
    assert found == [(0.9, True), (0.6, False)]


def sites(words, found, scores=None):
    return made(words, list(site_spans(found)), "pp_attachments", scores)


def site(label, preposition):
    return Site(
        label=label,
        start=preposition,
        end=preposition + 2,
        verb=0,
        noun=1,
        preposition=preposition,
        object=preposition + 1,
    )


def test_attachments_are_judged_where_gold_has_a_site():
    words = ["ate", "pizza", "with", "forks", "in", "bed", "at", "night"]
    gold = sites(words, [site("V", 2), site("N", 4)])
    found = [site("V", 2), site("V", 4), site("V", 6)]
    predicted = sites(words, found, np.repeat([0.9, 0.6, 0.5], 5))
    assert judged("pp_attachment", predicted, gold) == [(0.9, True), (0.6, False)]


def test_arguments_belong_to_their_predicate_and_nouns_do_not_count():
    words = ["She", "sold", "it", "and", "sales", "rose", "fast"]
    tags = ["PRP", "VBD", "PRP", "CC", "NNS", "VBD", "RB"]

    def frames(found, scores=None):
        return made(words, list(frame_spans(found)), "srl", scores, tags)

    gold = frames(
        [
            (1, "sell.01", [("ARG0", 0, 1), ("ARG1", 2, 3)]),
            (4, "sale.01", [("ARG1", 2, 3)]),
            (5, "rise.01", [("ARG1", 4, 5)]),
        ]
    )
    predicted = frames(
        [
            (1, "sell.01", [("ARG0", 0, 1), ("ARG2", 2, 3)]),
            (4, None, [("ARG0", 0, 1)]),
            (5, None, [("ARG1", 2, 3), ("ARG1", 4, 5)]),
        ],
        [1, 0.9, 0.8, 1, 0.7, 1, 0.6, 0.5],
    )
    assert judged("srl", predicted, gold) == [
        (0.9, True),
        (0.8, False),
        (0.6, False),
        (0.5, True),
    ]


def test_the_error_is_the_mean_gap_of_the_bins():
    gold = made(["a", "b", "c", "d"], [("NP", 0, 1), ("NP", 2, 3)])
    spans = [("NP", i, i + 1) for i in range(4)]
    predicted = made(["a", "b", "c", "d"], spans, scores=[0.75, 0.75, 0.25, 0.25])
    found = card.calibration_errors([Example(predicted, gold)])
    assert found == {"np_chunk_ece": pytest.approx(0.25)}


@pytest.mark.parametrize("where", ["predicted", "gold", "scores"])
def test_what_is_not_there_is_not_judged(where):
    gold = made(["a"], [("NP", 0, 1)])
    predicted = made(["a"], [("NP", 0, 1)], scores=None if where == "scores" else [0.5])
    if where != "scores":
        doc = {"predicted": predicted, "gold": gold}[where]
        del doc.spans["np_chunks"]
    assert card.calibration_errors([Example(predicted, gold)]) == {}


def test_gold_of_the_reader_is_judged(nlp, gold):
    """A pipeline that says what gold says, and is sure, makes no error."""
    doc = gold[0].copy()
    for group in doc.spans.values():
        group.attrs["scores"] = np.ones(len(group), dtype=np.float32)
    found = card.calibration_errors([Example(doc, gold[0])])
    assert set(found) == {f"{name}_ece" for name in card.LAYERS}
    assert set(found.values()) == {0.0}
