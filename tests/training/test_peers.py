"""peers.py on the sample treebank: its own systems, peers where they are installed, the report."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import product

import pytest
import srsly

from spacy_structlearn.trees.chunks import base_noun_phrases
from training.benchmarks import chunker
from training.benchmarks.peers import __main__ as peers
from training.benchmarks.peers import others, ours, report, worker
from training.common import recording
from training.common.kept import WSJ
from training.common.parsers import FEATURES
from training.pipeline.default import CHUNKER_CONFIG

ROWS = [(task, name) for task, rows in report.ROWS.items() for name in rows]
MODULES = {
    "python-crfsuite": "pycrfsuite",
    "scikit-learn": "sklearn",
    "spacy": "spacy",
    "nltk": "nltk",
    "pgmpy": "pgmpy",
    "supar": "supar",
}


def iob(tree):
    labels = ["O"] * len(tree.words())
    for start, end in base_noun_phrases(tree):
        labels[start:end] = ["B-NP", *["I-NP"] * (end - start - 1)]
    return labels


@pytest.fixture(scope="module")
def data(sample):
    """Some trees of the sample, their chunks, and quadruples by a rule."""
    trees = [tree for tree in sample if len(tree.words()) < 17]
    parts = {"train": trees[:30], "dev": trees[30:38], "test": trees[38:]}
    nouns = ("cake", "fork", "hill", "roof")
    rows = [
        (v, n, p, m) for v in ("eat", "see") for n in nouns for p in ("of", "by") for m in nouns
    ]
    labels = ["N" if row[2] == "of" else "V" for row in rows]
    return {
        "chunks": {
            name: peers.Part(
                [list(zip(tree.words(), tree.tags(), strict=True)) for tree in part],
                list(map(iob, part)),
            )
            for name, part in parts.items()
        },
        "attachment": {name: peers.Part(rows, labels) for name in parts},
        "parsing": {
            name: peers.Part([tree.words() for tree in part], list(map(str, part)))
            for name, part in parts.items()
        },
    }


@pytest.fixture
def small(monkeypatch, tmp_path, data):
    """These data, short training, and results elsewhere."""
    for name, task in peers.TASKS.items():
        own = peers.Task(lambda corpora, name=name: data[name], task.score, task.size)
        monkeypatch.setitem(peers.TASKS, name, own)
    for module in (recording, peers):
        monkeypatch.setattr(module, "RESULTS", tmp_path / "results")
    for name, grammar in {
        "ours_grammar": ours.Grammar(rounds=1),
        "ours_product": ours.Grammar(2, 2, 1, "labelled_recall"),
    }.items():
        monkeypatch.setitem(ours.SYSTEMS, name, grammar)
    monkeypatch.setattr(peers, "installed", lambda *_: {"install_mb": 1.0, "packages": 1})
    monkeypatch.setattr(worker, "SECONDS", 0.0)
    monkeypatch.setattr(report, "plot", lambda *_: False)
    return tmp_path


@pytest.fixture
def in_process(monkeypatch):
    """Without processes of their own. What is returned names the stages that were run."""
    stages = []

    def stage(run, system, name):
        folder = run.folder / system
        folder.mkdir(parents=True, exist_ok=True)
        stages.append((system, name))
        options = {"epochs": 1}
        found = worker.measured(peers._system(system), name, folder, options)
        return json.loads(json.dumps(found))

    monkeypatch.setattr(peers.Run, "_stage", stage)
    return stages


def run_script(monkeypatch, folder, *arguments):
    monkeypatch.setattr(sys, "argv", ["peers.py", "--work", str(folder / "work"), *arguments])
    peers.main()


def recorded(folder):
    return srsly.read_json(folder / "results" / "benchmarks.json")


def test_settings_are_those_of_other_scripts(data):
    assert ours.Grammar().estimator() == WSJ
    four = ours.SYSTEMS["ours_product"].estimator()
    assert four.grammar == replace(WSJ, grammars=4)
    assert four.features == replace(FEATURES, templates=None, tag_templates=None)
    assert ours.CONFIGS / ours.SYSTEMS["ours_best"].config == CHUNKER_CONFIG
    for tokens in data["chunks"]["train"].inputs[:5]:
        rows = [(word, tag, "O") for word, tag in tokens]
        assert others.predicates(tokens) == chunker.attributes(rows)


def test_ours(small, in_process, monkeypatch):
    names = [name for name in ours.SYSTEMS if name != "ours_pairs"]
    run_script(monkeypatch, small, "--only", *names, "--rounds", "1")
    found = recorded(small)
    for task, name in ROWS:
        if name in names:
            own = found[task][name]
            assert own[report.MEASURES[task]] > 50
            for key in ("train_cpu_s", "per_cpu_s", "train_rss_mb", "rss_mb", "model_mb"):
                assert own[key] > 0
    assert found["attachment"]["ours_bayes_net"]["accuracy"] == 100
    assert found["parsing"]["ours_grammar"]["f1_short"] > 0
    page = (small / "results" / "benchmarks.md").read_text(encoding="utf8")
    for row in report.ROWS["parsing"].values():
        assert (f"| {row.text} |" in page) is (row.package == "")


PAIR = ("ours_bayes_net", "ours_conjunctions")


def test_systems_take_turns_and_are_not_measured_again(small, in_process, monkeypatch):
    first, second = PAIR
    run_script(monkeypatch, small, "--only", *PAIR, "--rounds", "2")
    trained = [(first, "train"), (second, "train")]
    assert in_process == [*trained, *2 * [(first, "predict"), (second, "predict")]]
    in_process.clear()
    run_script(monkeypatch, small, "--only", *PAIR)
    assert in_process == []
    monkeypatch.setitem(ours.SYSTEMS, first, ours.Classifier("BayesNet", {"structure": "naive"}))
    run_script(monkeypatch, small, "--only", *PAIR, "--rounds", "1")
    assert in_process == [(first, "train"), (first, "predict")]


OTHERS = [
    *product(("chunks",), ("crfsuite_pairs", "sklearn_memm", "nltk_classifier", "nltk_bigrams")),
    *product(("attachment",), ("sklearn_nb", "sklearn_svc", "pgmpy", "nltk_nb")),
    *product(("parsing",), ("nltk_pcfg", "supar")),
]


@pytest.mark.parametrize(("task", "name"), OTHERS)
def test_peers(small, in_process, monkeypatch, task, name):
    pytest.importorskip(MODULES[report.ROWS[task][name].package])
    run_script(monkeypatch, small, "--only", name, "--rounds", "1")
    own = recorded(small)[task][name]
    assert own["per_cpu_s"] > 0
    if task == "attachment":
        assert own["accuracy"] > 90
    elif name in ("nltk_pcfg", "sklearn_memm"):
        assert own["f1_short" if task == "parsing" else "f1"] > 50
