"""The tests of reliability, on little input: what they find, and what they count."""

import os
import signal

import pytest

from training.reliability import corruption, fuzz, kernels, kills, models, platforms, texts


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


def test_inputs_are_the_same_for_each_number_and_do_not_fail(targets):
    assert fuzz.data_of("x", 7) == fuzz.data_of("x", 7) != fuzz.data_of("y", 7)
    for name, target in targets.items():
        for number in range(0 if name == "pipelines.default" else 3):
            data = fuzz.data_of(name, number)
            assert fuzz.outcome(target, data) == fuzz.outcome(target, data)


def test_inputs_that_fail_or_kill_the_process_are_counted(tmp_path):
    def fails(choices):
        if choices.byte() % 2:
            raise AssertionError("wrong")

    def dies(choices):
        os.kill(os.getpid(), signal.SIGKILL)

    wanted = {"readers.fails": 40, "readers.dies": 40}
    fuzz.run_all({"readers.fails": fails, "readers.dies": dies}, wanted, tmp_path, "ordinary")
    fuzz.run_all({"readers.fails": fails}, wanted, tmp_path, "ordinary")  # nothing is left
    found = fuzz.figures(list(fuzz.srsly.read_jsonl(tmp_path / "done.jsonl")))
    assert found["fuzz.failures"] == 2 * fuzz.MOST_FAILURES
    assert found["fuzz.readers.inputs"] == found["fuzz.inputs"] < 80
    assert len(list(tmp_path.glob("*.txt"))) == found["fuzz.failures"]


def test_invalid_docs_are_noticed(nlp):
    doc = nlp("She saw the old man.")
    texts.check_spans(doc)
    texts.check_trees(doc)
    texts.check_getters(doc, [doc[1:3]])
    doc.spans["np_chunks"].attrs["scores"] = [2.0] * len(doc.spans["np_chunks"])
    with pytest.raises(AssertionError, match="probabilities"):
        texts.check_spans(doc)


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

    files = [tmp_path / "file"]
    found = list(corruption.damaged(tmp_path, files, behaviour, clear_errors=(OSError,), repeats=1))
    assert set(found) == {expected}
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
    rows = {"cp310": {"passed": 5, "failed": 0}, "cp311_musl": {"passed": 5, "failed": 1}}
    assert platforms.whole(rows) == 1
