"""The tests of reliability, on little input: what they find, and what they count."""

import os
import signal

import pytest
import srsly

from training.reliability import corruption, fuzz, jsonl, kernels, kills, models, platforms, races
from training.reliability.texts import check_getters, check_spans, check_trees


@pytest.fixture(scope="module")
def targets(tmp_path_factory):
    return fuzz.targets(tmp_path_factory.mktemp("fuzz"))


def test_unchanged_inputs_are_answered(targets, monkeypatch):
    for module in (kernels, models):
        monkeypatch.setattr(module, "CHANGES", (0,))
    assert sum(name.startswith("kernels.") for name in targets) >= 15
    for name, target in targets.items():
        if name.startswith("kernels."):
            assert {fuzz.outcome(target, bytes([i, i, 0])) for i in range(40)} == {"answered"}
        elif name.startswith("models."):
            assert fuzz.outcome(target, b"") == "answered", name


def test_inputs_are_the_same_for_each_number_and_do_not_fail(targets, tmp_path):
    assert fuzz.data_of("x", 7) == fuzz.data_of("x", 7) != fuzz.data_of("y", 7)
    fuzz.run_all(targets, dict.fromkeys(targets, 3) | {"pipelines.default": 0}, tmp_path)
    assert fuzz.figures(list(srsly.read_jsonl(tmp_path / "done.jsonl")))["fuzz.failures"] == 0


def test_inputs_that_fail_or_kill_the_process_are_counted(tmp_path):
    def fails(choices):
        if choices.byte() % 2:
            raise AssertionError("wrong")

    def dies(choices):
        os.kill(os.getpid(), signal.SIGKILL)

    wanted = {"readers.fails": 40, "readers.dies": 40}
    fuzz.run_all({"readers.fails": fails, "readers.dies": dies}, wanted, tmp_path)
    fuzz.run_all({"readers.fails": fails}, wanted, tmp_path)  # nothing is left
    found = fuzz.figures(list(srsly.read_jsonl(tmp_path / "done.jsonl")))
    assert found["fuzz.failures"] == 2 * fuzz.MOST_FAILURES
    assert found["fuzz.readers.inputs"] == found["fuzz.inputs"] < 80
    assert len(list(tmp_path.glob("*.txt"))) == found["fuzz.failures"]


def test_invalid_docs_are_noticed(nlp):
    doc = nlp("She saw the old man.")
    check_spans(doc)
    check_trees(doc)
    check_getters(doc, [doc[1:3]])
    doc.spans["np_chunks"].attrs["scores"] = [2.0] * len(doc.spans["np_chunks"])
    with pytest.raises(AssertionError, match="probabilities"):
        check_spans(doc)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [(b"other", "silent"), (ValueError("x"), "unclear"), (OSError(2, "x", "FILE"), "errors")],
)
def test_outcomes_of_damage(tmp_path, changed, expected):
    (tmp_path / "file").write_bytes(b"sound")

    def behaviour():
        if (tmp_path / "file").exists() and (tmp_path / "file").read_bytes() == b"sound":
            return b"sound"
        if isinstance(changed, OSError):
            raise OSError(2, "No such file", str(tmp_path / "file"))
        if isinstance(changed, Exception):
            raise changed
        return changed

    found = list(corruption.damaged("spacy_load", tmp_path, behaviour, repeats=1))
    assert set(found) == {("spacy_load", expected)}
    assert len(found) == len(corruption.REPEATED) + len(corruption.ONCE)
    assert (tmp_path / "file").read_bytes() == b"sound"


def test_damage_of_a_small_pipeline_is_found():
    found = corruption.run(["hmm"], repeats=1, default=False)
    assert found["corruption.cases"] > 40
    assert found["corruption.silent"] == found["corruption.unclear"] == 0


def test_a_killed_training_is_resumed(tmp_path):
    found = kills.train_killed("crf", tmp_path, runs=1, kills=3)
    assert found == {"families": 1, "runs": 1, "kills": found["kills"], "different": 0}
    assert found["kills"] >= 1


def test_counts_of_a_report(tmp_path):
    suite = '<testsuite tests="9" failures="1" errors="2" skipped="3"/>'
    (tmp_path / "tests.xml").write_text(f"<testsuites>{suite}</testsuites>")
    assert platforms.counts(tmp_path / "tests.xml") == {"passed": 3, "failed": 3, "skipped": 3}


def test_commands_that_write_to_one_target():
    found = races.run(3)
    assert found["races.rounds"] == 3
    assert found["races.lost"] == found["races.mixed"] == found["races.unclear"] == 0


def test_values_of_users_are_kept():
    found = jsonl.run(20)
    assert found["jsonl.values"] > 500
    assert found["jsonl.changed"] == 0
