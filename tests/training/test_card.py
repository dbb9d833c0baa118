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


def test_gold_of_the_reader_is_judged(nlp, gold):
    """A pipeline that says what gold says, and is sure, makes no error."""
    doc = gold[0].copy()
    for group in doc.spans.values():
        group.attrs["scores"] = np.ones(len(group), dtype=np.float32)
    found = card.calibration_errors([Example(doc, gold[0])])
    assert set(found) == {f"{name}_ece" for name in card.LAYERS}
    assert set(found.values()) == {0.0}
