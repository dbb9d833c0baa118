"""Corrections and the queue: each kind of action, undo, and going on later."""

import json
import subprocess

import pytest

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.evaluation.agreement import agreement
from spacy_structlearn.pipeline.annotation.corrections import KINDS, Wish, made_true
from spacy_structlearn.pipeline.annotation.gold import Gold
from spacy_structlearn.pipeline.constituency_parser import ConstituencyParser
from spacy_structlearn.serve.annotate import learning
from spacy_structlearn.serve.annotate.annotation import Annotation, accepted

VERB = ("PP", 4, 7)


def test_an_attachment(annotation):
    assert ("NP", 2, 7) not in annotation.get(0)["brackets"]
    found = annotation.act(0, {"do": "attach", "start": 4, "end": 7, "head": 3})
    assert {("NP", 2, 7), ("NP", 2, 4), VERB} <= {*found["brackets"]}
    assert found["made"] == []
    found = annotation.act(0, {"do": "attach", "start": 4, "end": 7, "head": 1})
    assert ("NP", 2, 7) not in found["brackets"]
    assert {("VP", 1, 7), VERB} <= {*found["brackets"]}
    assert ("NP", 2, 7) in annotation.undo(0)["brackets"]


def test_phrases_and_labels(annotation):
    found = annotation.act(0, {"do": "phrase", "start": 2, "end": 7, "label": "NP"})
    assert found["probs"][found["brackets"].index(("NP", 2, 7))] > 0.99
    found = annotation.act(0, {"do": "no_phrase", "start": 2, "end": 7})
    assert not [own for own in found["brackets"] if own[1:] == (2, 7)]
    found = annotation.act(
        0, {"do": "phrase", "start": 2, "end": 4, "label": "QP", "instead": "NP"}
    )
    assert [own[0] for own in found["brackets"] if own[1:] == (2, 4)] == ["QP"]


def test_what_no_tree_meets_is_made(annotation):
    annotation.act(0, {"do": "phrase", "start": 2, "end": 7, "label": "NP"})
    found = annotation.act(0, {"do": "phrase", "start": 1, "end": 3, "label": "NEW"})
    assert found["made"] == [1]
    assert ("NEW", 1, 3) in found["brackets"]
    assert ("NP", 2, 7) not in found["brackets"]  # the later one counts
    found = annotation.act(0, {"do": "tag", "word": 0, "tag": "QQ"})
    assert (found["tags"][0], found["made"]) == ("QQ", [1, 2])
    annotation.accept(0)
    assert Gold.of(annotation.get(0)).tree.tags()[0] == "QQ"


def test_preview(annotation):
    shown = annotation.next()
    action = {"do": "phrase", "start": 1, "end": 3, "label": "VP"}
    new = annotation.act(shown["id"], action, preview=True)
    assert ("VP", 1, 3) in new["brackets"]
    assert new["actions"] == []
    assert annotation.get(shown["id"]) == shown
    assert annotation.act(shown["id"], action)["brackets"] == new["brackets"]
    with pytest.raises(StructlearnError, match="before it is done"):
        annotation.act(shown["id"], {"do": "split", "word": 1}, preview=True)


def test_alone(annotation):
    before = annotation.act(0, {"do": "tag", "word": 5, "tag": "QQ"})
    new = {"do": "phrase", "start": 1, "end": 4, "label": "NEW", "alone": True}
    found = annotation.act(0, new)
    assert {*found["brackets"]} ^ {*before["brackets"]} == {("NEW", 1, 4)}
    assert found["tags"] == before["tags"]
    found = annotation.act(0, {"do": "no_phrase", "start": 0, "end": 8})
    assert {*found["brackets"]} ^ {*before["brackets"]} == {("NEW", 1, 4), ("S", 0, 8)}
    found = annotation.act(0, {"do": "role", "predicate": 1, "start": 2, "end": 4, "label": None})
    assert ("ARG1", 2, 4) not in found["frames"][0][2]
    annotation.undo(0)
    annotation.undo(0)
    assert {*annotation.undo(0)["brackets"]} == {*before["brackets"]}


def test_alternatives(annotation):
    annotation.act(0, {"do": "tag", "word": 0, "tag": "PRP"})
    before, trees = annotation.get(0), annotation.alternatives(0)["trees"]
    assert 2 < len(trees) <= 10
    assert before["brackets"] == tuple(trees[0]["brackets"])
    assert 1 > trees[0]["prob"] > trees[-1]["prob"] > 0
    for tree in trees:
        chosen = json.loads(json.dumps(tree["brackets"]))
        found = annotation.act(0, {"do": "choose", "brackets": chosen})
        assert {*found["brackets"]} == {*tree["brackets"]}
        assert found["made"] == []
    annotation.act(0, {"do": "phrase", "start": 2, "end": 7, "label": "NP"})
    trees = annotation.alternatives(0)["trees"]
    assert all(("NP", 2, 7) in tree["brackets"] for tree in trees)
    new = {"do": "phrase", "start": 1, "end": 3, "label": "NEW"}
    annotation.act(0, new | {"alone": True})
    found = annotation.act(0, {"do": "choose", "brackets": [["S", 0, 8]]})
    assert found["brackets"] == (("S", 0, 8),)
    assert annotation.alternatives(0)["trees"]


def test_labels_and_lists(annotation):
    labels = annotation.labels()
    assert labels["phrases"]["NP"] == "noun phrase"
    assert {"VBD", "."} <= labels["tags"].keys()
    assert labels["roles"]["ARG0"]
    assert annotation.act(1, {"do": "tag", "word": 8, "tag": "VBD"})["tags"][8] == "VBD"
    annotation.skip(1)
    assert annotation.next("random")["id"] in (0, 2)
    with pytest.raises(StructlearnError, match="random"):
        annotation.next("text")
    annotation.act(0, {"do": "split", "word": 4})
    rows = annotation.list()
    assert [(own["id"], own["status"]) for own in rows] == [
        (3, "open"),
        (4, "open"),
        (1, "skipped"),
        (2, "open"),
    ]
    assert rows[0] == {"id": 3, "text": "a", "status": "open", "words": "She saw the man"}


def test_odd_texts(built_in, tmp_path):
    long = "the 🐈 and " * 100 + "it"
    texts = [("empty", ""), ("blank", " \n\t "), ("emoji", "😀🇩🇪  ok\n"), ("long", long)]
    own = Annotation(built_in, tmp_path, texts)
    assert {row["text"] for row in own.list()} == {"emoji", "long"}
    (row,) = (row for row in own.list() if row["text"] == "long")
    assert own.alternatives(row["id"]) == {"trees": []}
    action = {"do": "phrase", "start": 0, "end": 301, "label": "NP"}
    assert ("NP", 0, 301) in own.act(row["id"], action)["brackets"]
    choice = {"do": "choose", "brackets": [["NP", 0, 301], ["NP", 0, 2]]}
    assert ("NP", 0, 2) in own.act(row["id"], choice)["brackets"]
    own.accept(row["id"])
    with pytest.raises(StructlearnError, match="same name"):
        Annotation(built_in, tmp_path / "other", [("a", "It is."), ("a", "He is.")])
    own.close()


def test_another_pipeline(annotation, built_in, tmp_path, monkeypatch):
    annotation.close()
    of = Annotation.labels
    monkeypatch.setattr(Annotation, "labels", lambda own: of(own) | {"phrases": {"NP": None}})
    for _ in range(2):  # its lock is not held
        with pytest.raises(StructlearnError, match="pipeline: it lacks ADJP"):
            Annotation(built_in, tmp_path / "me")


def test_roles_and_chunks(annotation):
    role = {"do": "role", "predicate": 1, "start": 2, "end": 7, "label": "ARG9"}
    found = annotation.act(0, role)
    assert found["frames"][0][2] == (("ARG0", 0, 1), ("ARG9", 2, 7))
    found = annotation.act(0, role | {"label": None})
    assert found["frames"][0][2] == (("ARG0", 0, 1),)
    found = annotation.act(0, {"do": "predicate", "word": 3, "roleset": "man.01"})
    assert found["frames"][1] == (3, "man.01", ())
    assert annotation.act(0, {"do": "predicate", "word": 1, "keep": False})["frames"][0][0] == 3
    assert (2, 4) in annotation.get(0)["chunks"]
    found = annotation.act(0, {"do": "chunk", "start": 3, "end": 4})
    assert found["chunks"] == ((0, 1), (3, 4), (5, 7))
    found = annotation.act(0, {"do": "chunk", "start": 3, "end": 4, "keep": False})
    assert found["chunks"] == ((0, 1), (5, 7))


def test_boundaries(annotation):
    first = annotation.act(1, {"do": "split", "word": 6})
    assert (first["id"], len(first["words"])) == (3, 6)
    assert annotation.get(1)["status"] == "replaced"
    whole = annotation.act(4, {"do": "merge"})
    assert whole["words"] == ("because", "it", "rained", ".", "Nobody", "knew", "why", ".")
    assert annotation.progress()["open"] == 3
    with pytest.raises(StructlearnError, match="its other part"):
        annotation.undo(3)
    assert annotation.undo(whole["id"])["id"] == 4
    assert annotation.undo(3)["id"] == 1
    assert [own.id for own in annotation.state.items if own.status == "open"] == [0, 1, 2]
    with pytest.raises(StructlearnError, match="no sentence of its text follows"):
        annotation.act(2, {"do": "merge"})
    with pytest.raises(StructlearnError, match="split or merged"):
        annotation.act(3, {"do": "tag", "word": 0, "tag": "NN"})


def test_accept_skip_undo_and_going_on(annotation, built_in, tmp_path):
    annotation.act(0, {"do": "attach", "start": 4, "end": 7, "head": 3})
    annotation.accept(0)
    assert annotation.skip(1) == {"open": 1, "accepted": 1, "skipped": 1}
    assert annotation.next()["id"] == 2
    same = {name: accepted(tmp_path / "me") for name in ("ann", "bob")}
    (found,) = agreement(same)
    assert (found["sentences"], found["labelled_f"], found["tags_kappa"]) == (1, 1.0, 1.0)
    annotation.act(2, {"do": "tag", "word": 0, "tag": "NNP"})
    before = [json.dumps(annotation.get(id)) for id in range(3)]
    annotation.close()
    again = Annotation(built_in, tmp_path / "me", [("b", "It works.")])
    assert [json.dumps(again.get(id)) for id in range(3)] == before
    assert again.undo(1)["status"] == again.undo(0)["status"] == "open"
    assert again.get(3)["words"] == ("It", "works", ".")
    assert len(again.undo(0)["actions"]) == 0
    with pytest.raises(StructlearnError, match="nothing to undo"):
        again.undo(0)
    again.close()


@pytest.mark.parametrize(
    "action",
    [
        {},
        {"do": "jump"},
        {"do": "phrase", "start": 2, "end": 2, "label": "NP"},
        {"do": "phrase", "start": 3, "end": 2, "label": "NP"},
        {"do": "phrase", "start": 0, "end": 9, "label": "NP"},
        {"do": "phrase", "start": 0, "end": 2, "label": "!NP"},
        {"do": "phrase", "start": 0, "end": 2, "label": "N P"},
        {"do": "phrase", "start": 0, "end": 2, "label": None},
        {"do": "phrase", "start": True, "end": 2, "label": "NP"},
        {"do": "tag", "word": -1, "tag": "NN"},
        {"do": "tag", "word": 1, "tag": "NN", "more": 1},
        {"do": "split", "word": 0},
        {"do": "chunk", "start": 0, "end": 2, "keep": 1},
        {"do": "attach", "start": 4, "end": 7, "head": 5},
        {"do": "role", "predicate": 1, "start": 1, "end": 4, "label": "ARG1"},
        {"do": "choose"},
        {"do": "choose", "brackets": [["NP", 0]]},
        {"do": "choose", "brackets": [["NP", 0, 3], ["NP", 2, 4]]},
        {"do": "choose", "brackets": [["NP", 0, 9]]},
    ],
)
def test_what_is_no_action(annotation, action):
    with pytest.raises(StructlearnError, match="SL271"):
        annotation.act(0, action)
    assert annotation.get(0)["actions"] == []


@pytest.mark.parametrize("id", [-1, 3, True, "0", None])
def test_no_sentence(annotation, id):
    for does in (annotation.get, annotation.undo, annotation.accept, annotation.skip):
        with pytest.raises(StructlearnError, match="SL271"):
            does(id)


def test_every_kind_is_documented():
    assert all(f"{kind}:" in Annotation.act.__doc__ for kind in KINDS)


def test_made_true():
    brackets = [("S", 0, 4, 0.9), ("VP", 1, 4, 0.8), ("NP", 2, 4, 0.7)]
    wishes = [Wish(1, 3, None, True), Wish(0, 4, "S", False), Wish(0, 4, "X", True)]
    tags, found = made_true(["A"] * 4, brackets, [*wishes, Wish(0, 1, "B", True, True)])
    assert tags == ["B", "A", "A", "A"]
    assert [own[:3] for own in found] == [("X", 0, 4), ("VP", 1, 4), ("X", 1, 3)]


def test_without_parser(tmp_path):
    import spacy

    with pytest.raises(StructlearnError, match="no constituency_parser"):
        Annotation(spacy.blank("en"), tmp_path)


def test_learning(annotation, built_in, tmp_path, monkeypatch):
    """The process is run here; adaptation is tested elsewhere."""

    class Process:
        code = None

        def poll(self):
            return self.code

        def kill(self):
            self.code = -9

        def wait(self):
            return self.code

    process, commands = Process(), []
    monkeypatch.setattr(
        subprocess, "Popen", lambda command, **_: commands.append(command) or process
    )
    assert annotation.learned() == {"status": "none"}
    with pytest.raises(StructlearnError, match="at least 10"):
        annotation.learn()
    path = tmp_path / "in.trees"
    path.write_text("(S (NP (PRP It)) (VP (VBZ works)) (. .))\n" * 10)
    annotation.import_(path)
    assert annotation.learn() == annotation.learn() == {"status": "running"}
    (made,) = (tmp_path / "me" / "learned").iterdir()
    assert commands[0][1:] == ["-m", learning.__name__, str(made)]

    def adapt(nlp, docs, output):
        assert len([*docs]) == 10
        nlp.meta["notes"] = "adapted"
        nlp.to_disk(output)
        return ["constituency_parser"]

    adaptation = property(lambda own: (10, 30.0, (0.5, 0.6)))
    monkeypatch.setattr(learning, "adapt", adapt)
    monkeypatch.setattr(ConstituencyParser, "adaptation", adaptation)
    monkeypatch.setattr("os.nice", lambda n: n)
    annotation.act(1, {"do": "split", "word": 6})  # in the meantime
    learning.main(made)
    process.code = 0
    found = annotation.learned()
    assert (found["status"], found["better"]) == ("done", True)
    assert found["after"] == {"constituency_parser": 0.6}
    assert annotation.nlp.meta["notes"] == "adapted"
    assert len(annotation.state.documents()) == 10
    order = [own["id"] for own in annotation.list()]
    assert sorted(order) == [0, *range(2, 15)]
    annotation.close()
    again = Annotation(built_in, tmp_path / "me")
    assert [own["id"] for own in again.list()] == order
    assert again.nlp.meta["notes"] == "adapted"
    assert again.next() is not None
    process.code = None
    again.learn()
    again.close()
    assert process.code == -9
