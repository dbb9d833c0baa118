"""The reports: made anew of the recorded figures they are those that are committed."""

import importlib
import shutil

import pytest
import recording
import tables

REPORTS = {
    "m_estimated_grammars": "me_report",
    "parsing_best": "pb_report",
    "petrov_klein2007": "pk_report",
    "smith2007": "smith_report",
    "titov_henderson2007": "th_report",
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
def test_plots(name, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    module = importlib.import_module(REPORTS[name])
    shutil.copy(recording.RESULTS / f"{name}.json", tmp_path)
    module.write(tmp_path, name)
    drawn = {path.name: path.read_bytes() for path in tmp_path.glob("*.svg")}
    assert bool(drawn) == hasattr(module, "plot")
    module.write(tmp_path, name)
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.svg")} == drawn


def test_tables_appear_when_all_is_measured(monkeypatch, tmp_path):
    for module in (recording, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    page = "<!-- table beyond -->\n<!-- end -->\n"
    assert tables.fill(page) == page
    for name in ("parsing_best", "parsing_generative"):
        committed = recording.ROOT / "training" / "results" / f"{name}.json"
        shutil.copy(committed, tmp_path)
    filled = tables.fill(page)
    assert len({line.count("|") for line in filled.splitlines() if line.startswith("|")}) == 1
    assert tables.fill(filled) == filled
    with pytest.raises(FileNotFoundError):
        tables.fill("<!-- table srl -->\n<!-- end -->\n")
