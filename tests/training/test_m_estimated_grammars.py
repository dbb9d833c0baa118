"""M-estimates and conditional likelihood on the sample treebank, with little training."""

from __future__ import annotations

from dataclasses import replace

import pytest

from training.beyond.m_estimated_grammars import __main__ as script
from training.beyond.m_estimated_grammars import report
from training.beyond.m_estimated_grammars.__main__ import Run
from training.common import recording


@pytest.fixture(scope="module")
def trees(sample):
    return tuple(tree for tree in sample if len(tree.words()) < 16)


@pytest.fixture
def small(smaller, tmp_path, treebanks, trees):
    """Treebanks of some sentences, and few iterations."""
    treebanks(train=trees[:14], fit=trees[:12], others=trees[40:44])
    latent = replace(script.BASES["latent"], rounds=1, split_iterations=2, merge_iterations=1)
    smaller(
        script,
        BASES={"xbar": script.BASES["xbar"], "latent": latent},
        SETTINGS=replace(script.SETTINGS, folds=2),
        GRID={0.0: (2.0,), 0.75: (0.3, 1.0)},
        GRID_L2=(1.0, 10.0),
        ITERATIONS=4,
        SCORED=(2, 4),
        GROUPS={name: script.GROUPS[name] for name in ("parent", "tags")},
        GROUP_ITERATIONS=2,
        CHOSEN=1,
        SIZES=(10,),
    )
    smaller(report, plot=lambda *_: False)
    return Run(tmp_path, tmp_path / "work")


def test_all_steps(small, run_script):
    found = run_script(script, "--corpora", small.corpora, "--work", small.work)
    for corpus, scored in (("wsj", ("dev", "test")), ("ewt", ("tune", "dev"))):
        assert found["identities"][corpus]["log10_max_abs_difference"] < -12
        for base in ("xbar", "latent"):
            own = found[corpus][base]
            for kind in ("q0", "m_est", "m_est_paper", "discriminative"):
                assert own[kind]["cpu_s"] > 0
                assert {f"{split}_f1" for split in scored} <= own[kind].keys()
            assert own["m_est_paper"]["scaling"] == 0.0
            assert own["discriminative"]["iterations"] == 4
            assert set(own["curve"]) == {"dev", "from_m_est"} | ({"tune"} & set(scored))
            assert all([row["iterations"] for row in c] == [2, 4] for c in own["curve"].values())
            assert own["initialiser"]["scale"] <= 1
            parts = [own["discriminative"][f"{p}_cpu_s"] for p in ("forests", "features")]
            spent = sum(parts) + own["discriminative"]["iterations_cpu_s"]
            assert own["discriminative"]["cpu_s"] == pytest.approx(spent, abs=1e-5)
            ratio = found["ratio"]["cpu"][corpus][base]["discriminative_over_m_est"]
            assert ratio == pytest.approx(spent / own["m_est"]["cpu_s"], rel=1e-2)
            assert found["ratio"]["cpu"]["discriminative_over_m_est"] <= ratio
    assert [row["l2"] for row in found["wsj"]["latent"]["penalties"]] == [1.0, 10.0]
    assert set(found["sizes"]) == {"10"}
    assert len(found["templates"]["chosen_by_m_est"]["groups"]) == 1
    assert found["templates"]["chosen_by_m_est"]["cpu_s"] > 0
    page = (small.corpora / "results" / "m_estimated_grammars.md").read_text(encoding="utf8")
    for title in ("X-bar grammar", "Priors", "Penalties", "Fewer sentences"):
        assert title in page


def test_ratios_of_equal_scores(small):
    own = {
        "m_est": {"dev_f1": 70.0, "cpu_s": 2.0},
        "discriminative": {"cpu_s": 60.0, "forests_cpu_s": 4.0, "features_cpu_s": 6.0},
        "curve": {"dev": [{"cpu_s": 5.0, "f1": 60.0}, {"cpu_s": 20.0, "f1": 70.5}]},
    }
    recording.record("m_estimated_grammars", {"wsj.xbar": own})
    (found,) = script.ratios(small)
    assert found == {
        "ratio.cpu.wsj.xbar.discriminative_over_m_est": 30.0,
        "ratio.cpu.wsj.xbar.same_f1": 15.0,
        "ratio.cpu.discriminative_over_m_est": 30.0,
    }
    # Never as good: no figure.
    own["curve"]["dev"] = [{"cpu_s": 5.0, "f1": 60.0}]
    recording.record("m_estimated_grammars", {"wsj.xbar": own})
    (found,) = script.ratios(small)
    assert "ratio.cpu.wsj.xbar.same_f1" not in found
