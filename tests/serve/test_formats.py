"""Files of accepted sentences, and back."""

import json

import pytest

from spacy_structlearn.cli.common.corpora import gold_docs, recognized
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.annotation import formats
from spacy_structlearn.pipeline.annotation.gold import Gold, doc_of, golds_of

EDGES = [
    Gold(("(", "No", ")", "!"), (False, False, True, False), ("-LRB-", "UH", "-RRB-", ".")),
    Gold(
        ("She", "ran"),
        (True, False),
        ("PRP", "VBD"),
        (("S", 0, 2), ("NP", 0, 1), ("VP", 1, 2), ("VP", 1, 2)),
        ((0, 1),),
        ((1, None, (("ARG0", 0, 1),)),),
    ),
    Gold(("Yes",), (True,), ("UH",), (("FRAG", 0, 1), ("INTJ", 0, 1))),
]


@pytest.mark.parametrize("name", [own for own in formats.FILES if not own.endswith("spaces")])
def test_round_trip(annotation, built_in, tmp_path, name):
    annotation.act(0, {"do": "role", "predicate": 1, "start": 4, "end": 7, "label": "ARGM-MNR"})
    annotation.act(2, {"do": "chunk", "start": 0, "end": 2})
    for id in range(3):
        annotation.accept(id)
    own = [*annotation.state.documents(), EDGES[1:2]]
    assert [len(golds) for golds in own] == [3, 1]
    formats.write(tmp_path, own, built_in.vocab)
    found = [gold for golds, whole in formats.read(built_in, tmp_path / name) for gold in golds]
    wanted = [gold for golds in own for gold in golds]
    for gold, other in zip(wanted, found, strict=True):
        same = {"frames": ()} if name.endswith(".trees") else {}
        if name.endswith((".trees", ".conll")):  # chunks are read off the tree
            same["chunks"] = other.chunks
            same["brackets"] = tuple(dict.fromkeys(gold.brackets))
        assert other == gold._replace(**same)
    if not name.endswith(".spacy"):
        assert recognized(tmp_path / name).value in ("treebank", "propbank", "prodigy")


@pytest.mark.parametrize("gold", EDGES)
def test_json_and_docs(built_in, tmp_path, gold):
    data = json.loads(json.dumps(gold._asdict()))
    assert Gold.of(data) == gold
    formats.write(tmp_path, [[gold]], built_in.vocab)
    assert [*formats.read(built_in, tmp_path / "accepted.jsonl")] == [([gold], True)]
    ((_, doc),) = gold_docs(built_in.vocab, tmp_path / "accepted.jsonl")  # as `convert` reads it
    assert [*golds_of(doc)] == [gold]
    assert list(golds_of(doc_of(built_in.vocab, [gold, gold]))) == [gold, gold]


def test_white_space(built_in):
    (one, two) = golds_of(built_in("  It works.\n\n And how!"))
    assert (one.words, one.spaces) == (("It", "works", "."), (True, False, True))
    assert one.frames[0][0] == 1
    assert two.brackets[0][1:] == (0, 3)
    assert list(golds_of(built_in(" \n "))) == []


def test_spans_of_prodigy_are_wishes(annotation, tmp_path):
    path = tmp_path / "in.jsonl"
    span = {"start": 8, "end": 34, "label": "NP"}
    rows = [
        {"text": "She saw the man with the telescope.", "spans": [span], "answer": "accept"},
        {"text": "Not this.", "spans": [], "answer": "reject"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert annotation.import_(path)["open"] == 4
    found = annotation.get(3)
    assert ("NP", 2, 7) in found["brackets"]
    assert found["actions"][0]["do"] == "phrase"
    assert annotation.import_(path)["open"] == 4  # it was taken before
    ((_, doc),) = gold_docs(annotation.nlp.vocab, path)
    assert [(own.label_, own.text[-9:]) for own in doc.spans["constituent_constraints"]] == [
        ("NP", "telescope")
    ]


def test_trees_are_accepted(annotation, tmp_path):
    path = tmp_path / "in.mrg"
    path.write_text("( (S (NP-SBJ (PRP It)) (VP (VBZ works)) (. .)) )\n(TOP (INTJ (UH Yes)))")
    assert annotation.import_(path) == {"open": 3, "accepted": 2, "skipped": 0}
    assert annotation.get(3)["brackets"] == (("S", 0, 3), ("NP", 0, 1), ("VP", 1, 2))


@pytest.mark.parametrize(
    "line", ["{", "[]", "{}", '{"text": "It works.", "spans": [{"start": 1, "end": 2}]}']
)
def test_what_is_not_prodigy(built_in, tmp_path, line):
    path = tmp_path / "in.jsonl"
    path.write_text(line)
    with pytest.raises(StructlearnError, match=r"SL271.*line 1"):
        list(formats.read(built_in, path))
