"""Hostile input, a little of it: the targets of the fuzzer, without sanitizers."""

import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from training.reliability import fuzz
from training.reliability.fuzz_targets import kernels, loaders, workloads
from training.reliability.fuzz_targets.pipeline import Pipeline, mixed
from training.reliability.fuzz_targets.readers import Readers

FEW = ("crf_l1", "memm", "perceptron", "stochastic_crf", "latent", "bayes_net", "isbn")
CHAINS = tuple(module for module in kernels.MODULES if module.startswith("sequence."))
KERNELS = (
    *CHAINS,
    "grammar.chart._chart",
    "grammar.latent._derivations",
    "classification._counts",
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
    return kernels.load(work / "seeds" / "calls.pickle")


@pytest.fixture(scope="module")
def trained(work):
    return {name: workloads.load(work / "seeds" / f"{name}.pickle") for name in FEW}


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
    for call in target.calls:
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


@pytest.mark.parametrize("kind", [loaders.Loader, loaders.Trainers, loaders.Serialization])
def test_models(trained, kind):
    target = kind([trained[name] for name in ("crf_l1", "latent", "isbn")])

    @EXAMPLES
    @given(st.binary(min_size=8, max_size=96))
    def run(data):
        target(data)

    run()


# --- corpora --------------------------------------------------------------------------------------
def test_readers():
    target = Readers()

    @settings(EXAMPLES, max_examples=100)
    @given(st.binary(min_size=8, max_size=96))
    def run(data):
        target(data)

    run()


# --- pipelines ------------------------------------------------------------------------------------
def test_pipelines(nlp, trained):
    target = Pipeline([(nlp, 0.5), *((small, 0.1) for small in mixed(trained)[:1])])
    # Seeds of long inputs are left to the script.
    for seed in range(1, 6):
        target(seed)


# --- the script -----------------------------------------------------------------------------------
def test_a_failure_is_counted_and_kept(work, monkeypatch):
    def broken(data):
        raise RuntimeError("broken")

    monkeypatch.setattr(fuzz, "target", lambda name, folder: broken)
    assert fuzz.looped("readers.all", 10, work, 0) == (fuzz.MOST_FAILURES, fuzz.MOST_FAILURES)
    kept = work / "failures" / "readers.all"
    assert len(list(kept.glob("input?"))) == fuzz.MOST_FAILURES
    assert "broken" in (kept / "input0.txt").read_text()


def test_the_loop(work, monkeypatch, capsys):
    arguments = ["--loop", "--no-record", "--only", "readers", "loaders.serialization"]
    arguments += ["--share", "0.0005", "--work", str(work)]
    monkeypatch.setattr(sys, "argv", ["fuzz.py", *arguments])
    with pytest.raises(SystemExit) as done:
        fuzz.main()
    assert done.value.code == 0
    found = dict(
        line.split() for line in capsys.readouterr().out.splitlines() if line[:5] == "fuzz."
    )
    assert found["fuzz.readers.all.inputs"] == "40"
    assert found["fuzz.failures"] == "0"
