"""Hostile input, a little of it: the targets of the fuzzer, without sanitizers."""

import os
import shutil
import sys
from itertools import chain

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from training.reliability import fuzz
from training.reliability.fuzz_targets import kernels
from training.reliability.fuzz_targets.checks import ANSWERED, NotSane
from training.reliability.fuzz_targets.readers import FORMATS

FEW = ("crf_l1", "memm", "stochastic_crf", "latent", "bayes_net", "isbn")
CHAINS = tuple(module for module in kernels.MODULES if module.startswith("sequence."))
KERNELS = (
    *CHAINS,
    "grammar.chart._chart",
    "grammar.latent._derivations",
    "classification.nets._counts",
    "isbn._network",
    "isbn._search",
)
# Places of arguments of the kernels of chains: arrays of any length, and arrays of ids.
ANY_LENGTH = {
    **{"fold": (0, 3, 4), "unfold": (3, 4), "exchange": (0,), "epoch": (3,), "nest": (1,)},
    **{"Segmenter.best": (2,), "Segmenter.begins": (2,)},
}
IDS = {
    **{"expected_counts": (1, 2), "exchange": (0, 2, 5, 8), "epoch": (2, 3)},
    **{"next_states": (2, 4), "each_label": (3, 5, 6, 7), "segment_probabilities": (5,)},
}
EXAMPLES = settings(
    max_examples=20,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with what the small pipelines store, and the calls of kernels that they made."""
    folder = tmp_path_factory.mktemp("fuzz")
    fuzz.prepare(folder, sentences=3, only=FEW)
    return folder


@pytest.fixture(scope="module")
def calls(work):
    return kernels.load(work / fuzz.CALLS)


# --- kernels --------------------------------------------------------------------------------------
@pytest.mark.parametrize("module", KERNELS)
def test_kernels(calls, module):
    target = kernels.Kernel(module, calls)

    @EXAMPLES
    @given(st.binary(min_size=8, max_size=48))
    def run(data):
        target(data)

    run()


@pytest.mark.parametrize("module", CHAINS)
def test_kernels_refuse_short_arrays_and_ids_out_of_range(calls, module):
    target = kernels.Kernel(module, calls)
    for call in chain.from_iterable(target.calls.values()):
        for place, value in enumerate(call.args):
            wrong = []
            if isinstance(value, np.ndarray) and value.size:
                if place not in ANY_LENGTH.get(call.name, ()):
                    wrong.append(value[:-1].copy())
                if place in IDS.get(call.name, ()):
                    wrong.append(np.full_like(value, np.iinfo(value.dtype).max))
            for other in wrong:
                args = (*call.args[:place], other, *call.args[place + 1 :])
                with pytest.raises(ValueError, match=" "):
                    target.run(call._replace(args=args))


# --- models ---------------------------------------------------------------------------------------
TARGETS = {
    **{f"loaders.{name}": 20 for name in FEW},
    "loaders.trainers": 20,
    "loaders.serialization": 20,
    **{f"readers.{name}": 20 for name in FORMATS},
    "pipelines.small": 5,
}


@pytest.mark.parametrize("name", TARGETS)
def test_targets(work, name):
    target = fuzz.target(name, work)

    @settings(EXAMPLES, max_examples=TARGETS[name])
    @given(st.binary(min_size=8, max_size=fuzz.LENGTH))
    def run(data):
        assert target(data)

    run()


def test_unchanged_inputs_are_answered(work):
    # The first choices of zeros change nothing that matters.
    for name in ("loaders.crf_l1", "loaders.trainers", "readers.text", "kernels.kernels.index"):
        target = fuzz.target(name, work)
        outcomes = [target(fuzz.data_of(name, 0, number)) for number in range(200)]
        assert outcomes.count(ANSWERED) >= 10


def test_the_default_pipeline(work):
    target = fuzz.target("pipelines.default", work)
    assert target(b"one") == ANSWERED


# --- invariants -----------------------------------------------------------------------------------
def test_a_kernel_with_random_results_is_found(calls, monkeypatch):
    target = kernels.Kernel("kernels.index", calls)
    random = np.random.default_rng(0)
    monkeypatch.setattr(target, "run", lambda call: (random.random(3), []))
    inputs = [fuzz.data_of("kernels.kernels.index", 0, number) for number in range(100)]
    with pytest.raises(NotSane, match="another result"):
        list(map(target, inputs))


# --- the script -----------------------------------------------------------------------------------
def test_inputs_are_those_of_their_numbers():
    names = [*fuzz.targets(1000, 0)][:2]
    inputs = {(n, s, k): fuzz.data_of(n, s, k) for n in names for s in (0, 1) for k in (0, 5, 1029)}
    assert len(set(inputs.values())) == len(inputs)
    assert all(fuzz.data_of(*key) == data for key, data in inputs.items())
    assert {len(data) for data in inputs.values()} == {fuzz.LENGTH}


def test_all_inputs_are_shared_among_targets():
    found = fuzz.targets(10_000, 100)
    assert sum(found.values()) - found["pipelines.default"] >= 10_000
    assert 32 * found["pipelines.default"] >= 100
    assert not fuzz.targets(0, 0)["kernels.sequence.chain._chain"]


def refuse(data):
    raise RuntimeError("broken")


def die(data):
    os._exit(3)


def hang(data):
    while True:
        pass


def grow(data):
    # A forked process does not begin with all the memory of its parent.
    hang(bytes(range(256)) * (2**12 * int(fuzz.MEGABYTES + 32)))


@pytest.mark.skipif(sys.platform != "linux", reason="the fuzzer needs Linux")
@pytest.mark.parametrize(
    ("broken", "report"),
    [(refuse, "broken"), (die, "exit code 3"), (hang, "exit code -27"), (grow, "exit code -9")],
)
def test_failures_are_counted_and_kept(tmp_path, monkeypatch, broken, report):
    def one(data):
        return broken(data) if data == bad else ANSWERED

    bad = fuzz.data_of("kernels.a", 0, 3)
    monkeypatch.setattr(fuzz, "target", lambda name, folder: one)
    monkeypatch.setattr(fuzz, "SECONDS", 0.2 if broken is hang else 60)
    monkeypatch.setattr(
        fuzz, "MEGABYTES", fuzz._rss_mb(os.getpid()) + 32 if broken is grow else 2**20
    )
    parts = []
    fuzz.run_all({"kernels.a": 8, "kernels.b": 0}, [], tmp_path, 0, 1, parts.append)
    assert [part.failures for part in parts if part.failures] == [[3]]
    assert max(part.end for part in parts) == 8
    assert report in (tmp_path / "failures" / "kernels.a.3.txt").read_text()
    assert fuzz.figures(parts)["fuzz.failures"] == 1


def test_a_target_is_aborted(tmp_path):
    part = fuzz.run_part(refuse, "kernels.a", 0, 0, 20, tmp_path)
    assert part.failures == [*range(fuzz.MOST_FAILURES)]
    assert part.end == fuzz.MOST_FAILURES


def test_a_run_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "target", lambda name, folder: lambda data: ANSWERED)
    monkeypatch.setattr(fuzz, "PART_S", -1)  # one input per part
    parts = []
    fuzz.run_all({"kernels.a": 2}, [], tmp_path, 0, 1, parts.append)
    fuzz.run_all({"kernels.a": 4}, parts, tmp_path, 0, 2, parts.append)
    assert [(part.begin, part.end) for part in parts] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert fuzz.figures(parts)["fuzz.inputs"] == 4


def test_the_script(work, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fuzz, "prepare", lambda folder: shutil.copytree(work, folder))
    arguments = ["--ordinary", "--no-record", "--target", "readers", "kernels.kernels"]
    arguments += ["--inputs", "300", "--documents", "0", "--work", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["fuzz.py", *arguments])
    with pytest.raises(SystemExit) as done:
        fuzz.main()
    assert done.value.code == 0
    found = dict(line.split() for line in capsys.readouterr().out.splitlines())
    assert int(found["fuzz.readers.text.inputs"]) > 0
    assert found["fuzz.failures"] == "0"
    assert found["fuzz.sanitized"] == "0"
