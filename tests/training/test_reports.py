"""The reports: made anew of the recorded figures they are those that are committed."""

import importlib
import shutil

import pytest

from training import tables
from training.common import recording
from training.common import report as common

REPORTS = {
    "m_estimated_grammars": "training.beyond.m_estimated_grammars.report",
    "parsing_best": "training.beyond.span_parser.report",
    "petrov_klein2007": "training.papers.petrov_klein2007.report",
    "smith2007": "training.papers.smith2007.report",
    "titov_henderson2007": "training.papers.titov_henderson2007.report",
}


@pytest.fixture(params=REPORTS)
def report(request, monkeypatch):
    """A name and its report, without plots."""
    module = importlib.import_module(REPORTS[request.param])
    if hasattr(module, "plot"):
        monkeypatch.setattr(module, "plot", lambda *_, **__: True)
    return request.param, module


def test_the_report_of_the_recorded_figures_is_the_committed_one(report, tmp_path):
    name, module = report
    shutil.copy(recording.RESULTS / f"{name}.json", tmp_path)
    module.write(tmp_path, name)
    page, committed = (folder / f"{name}.md" for folder in (tmp_path, recording.RESULTS))
    assert page.read_text(encoding="utf8") == committed.read_text(encoding="utf8")


def test_a_report_of_nothing_has_no_tables(report, monkeypatch, tmp_path):
    name, module = report
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    recording.record(name, {})
    module.write(tmp_path, name)
    assert "\n| " not in (tmp_path / f"{name}.md").read_text(encoding="utf8")


@pytest.mark.parametrize("name", REPORTS)
def test_plots(name, tmp_path):
    pytest.importorskip("matplotlib")
    module = importlib.import_module(REPORTS[name])
    shutil.copy(recording.RESULTS / f"{name}.json", tmp_path)
    drawn = []
    for _ in range(2):
        module.write(tmp_path, name)
        drawn.append({path.name: path.read_bytes() for path in tmp_path.glob("*.svg")})
    assert drawn[0] == drawn[1]
    assert bool(drawn[0]) == hasattr(module, "plot")


def test_errors_of_shares(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    (tmp_path / "x.json").write_text('{"a": {"acc": 80.0}}')
    assert tables.filled("{x a.acc .1f} ({se 400 x a.acc .2f})\n") == "80.0 (2.00)\n"


def test_a_text_on_errors(monkeypatch, tmp_path):
    monkeypatch.setattr(recording, "RESULTS", tmp_path)
    pattern = "model.{corpus}.{split}_{score}"
    figures = {"model.wsj.dev_exact": 20.0}
    exact = "The standard error of exact match is about 2.4 on WSJ dev (273 sentences)."
    assert "\n".join(common.error_lines(figures, pattern)).strip() == exact
    seeds = {"dev_f1": {"sd": 0.2}, "test_f1": {"sd": 0.7}}
    recording.record("parsing_generative", {"wsj.seeds": seeds})
    assert "over four seeds" in " ".join(common.error_lines(figures, pattern)).lower()
    figures["model.wsj.dev_f1_se"] = 1.04
    found = " ".join(common.error_lines(figures, pattern))
    assert found.endswith("That of F1 is about 1.0 on WSJ dev.")
    assert common.error_lines({}, pattern) == []


def test_tables_appear_when_all_is_measured(monkeypatch, tmp_path):
    for module in (recording, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    page = "<!-- table beyond -->\n<!-- end -->\n"
    assert tables.fill(page) == page
    for name in ("parsing_best", "parsing_generative", "benchmarks", "speed"):
        committed = recording.ROOT / "training" / "results" / f"{name}.json"
        shutil.copy(committed, tmp_path)
    filled = tables.fill(page)
    assert len({line.count("|") for line in filled.splitlines() if line.startswith("|")}) == 1
    assert tables.fill(filled) == filled
    with pytest.raises(FileNotFoundError):
        tables.fill("<!-- table srl -->\n<!-- end -->\n")
