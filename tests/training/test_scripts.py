"""Each script of training/ can be imported and says how it is called; the default pipeline is what
its script says; and a pipeline of another language is made of a toy treebank."""

import ast
import gzip
import importlib
import re
import sys
from pathlib import Path

import pytest
import spacy
import srsly
from _build import BUILDERS

import spacy_structlearn
from spacy_structlearn.trees.brackets import read_trees
from training.languages import common
from training.pipeline import default, templates

ROOT = Path(__file__).resolve().parents[2]
PACKAGED = Path(spacy_structlearn.__file__).parent / "data" / "en_structlearn_sm"
SOURCES = [
    path for path in ROOT.glob("training/**/*.py") if "work" not in path.relative_to(ROOT).parts
]
PAGES = [*SOURCES, *ROOT.glob("*.md"), *ROOT.glob("training/**/*.md")]


def module_of(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def has_options(path):
    """Whether a module is a command with options."""
    text = path.read_text(encoding="utf8")
    functions = {
        n.name: n.args.args for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)
    }
    return functions.get("main") == [] and ("ArgumentParser(" in text or "options(" in text)


def imported(module):
    if module.startswith("training.encoder."):
        pytest.importorskip("torch", reason="needs torch, of the extra teacher")
    if module == "training.site.docstrings":
        pytest.importorskip("griffe", reason="needs griffe, of the extra docs")
    return importlib.import_module(module)


@pytest.mark.parametrize("module", sorted(map(module_of, SOURCES)))
def test_modules_can_be_imported(module):
    imported(module)


@pytest.mark.parametrize("module", sorted(module_of(p) for p in SOURCES if has_options(p)))
def test_commands_say_how_they_are_called(module, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [module, "--help"])
    with pytest.raises(SystemExit) as ended:
        imported(module).main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: {module}")


def test_a_script_on_the_sample(monkeypatch, tmp_path, capsys, request):
    from training.beyond import m_estimated_grammars as script

    request.getfixturevalue("on_the_sample")
    paths = ["--corpora", str(tmp_path), "--work", str(tmp_path / "work")]
    parts = ["--limit", "25", "--only", "wsj_xbar", "wsj_xbar_conditional"]
    monkeypatch.setattr(sys, "argv", ["x", *paths, *parts])
    script.main()
    figures = dict(line.split() for line in capsys.readouterr().out.splitlines() if "_f1" in line)
    assert figures
    assert all(0 < float(value) <= 100 for value in figures.values())


# --- the default pipeline -------------------------------------------------------------------------
def test_what_a_command_names_can_be_fetched():
    commands = {}
    for page in PAGES:
        text = page.read_text(encoding="utf8")
        found = re.findall(r"python corpora/fetch\.py ((?:[a-z]\w* ?)+)$", text, re.MULTILINE)
        commands |= {page.relative_to(ROOT).as_posix(): found} if found else {}
        assert {name for names in found for name in names.split()} <= set(BUILDERS), page
    for page in ("training/README.md", "training/pipeline/default.py"):
        assert commands[page][0] == "ewt craft mctb raw_text"


def test_the_package_names_the_sources_of_the_script():
    assert srsly.read_json(PACKAGED / "meta.json")["sources"] == default.SOURCES
    text = (PACKAGED / "LICENSES_SOURCES").read_text(encoding="utf8")
    assert text == default.LICENSES_SOURCES


@pytest.mark.parametrize("text", ["a@b.org", "ORTH[0]=Doe@EXAMPLE.COM", "555-0100", "2025550100"])
def test_what_tells_of_persons(text):
    assert default.PERSONAL.search(text)


@pytest.mark.parametrize("text", ["@", "CLASS[0]=1011010011", "11/10/2000", "2,000,000,000"])
def test_what_tells_of_no_person(text):
    assert not default.PERSONAL.search(text)


def test_the_package_knows_no_words_that_tell_of_persons(nlp):
    roles = nlp.get_pipe("srl_labeler").parameters
    models = [nlp.get_pipe(name).parameters for name in ("np_chunker", "pp_attacher")]
    models += [roles[stage] for stage in roles.stages]
    known = [name for model in models for name in model.names.values()]
    known += nlp.get_pipe("constituency_parser").parameters.lexicon.words
    assert len(known) > 50_000
    # Cruder than what removed them.
    assert not [text for text in known if re.search(r"[^\W_]@[^\W_]", text)]
    assert not [text for text in known if re.search(r"[2-9]\d\d[-./)]\d{3}[-.]?\d{4}", text)]


# --- other languages ------------------------------------------------------------------------------
TREES = """\
(R (P (L-1 (N tora) (A ga)) (L (N inu) (A o)) (V mita)) (X .))
(R (P (L (D kono) (N inu) (A ga)) (V naita)) (X .))
(R (P (L (N neko) (A ga)) (L (D ano) (N tora) (A o)) (V mita)) (X .))
(R (P (L (D kono) (N tora) (A ga)) (V naita)) (X .))
(R (P (L (L (N neko) (A no)) (N kage) (A ga)) (V kieta)) (X .))
(R (P (L (N inu) (A ga)) (L (D kono) (N neko) (A o)) (V mita)) (X .))
(R (P (L (D ano) (N neko) (A ga)) (V kieta)) (X .))
(R (P (L (L (N inu) (A no)) (N kage) (A ga)) (V kieta)) (X .))
"""
# Of one sentence of dev and test, the parser predicts another tree.
OTHER = TREES + "(R (P (D kono) (N inu) (A ga) (V naita)) (X .))\n"
SOURCE = {"name": "a toy", "url": "https://example.org", "license": "CC0", "author": "nobody"}


def test_a_pipeline_of_another_language(tmp_path, monkeypatch):
    (tmp_path / "toy").mkdir()
    for split, text in (("train", TREES * 3), ("dev", OTHER), ("test", OTHER)):
        (tmp_path / "toy" / f"{split}.trees.gz").write_bytes(gzip.compress(text.encode()))
    parser = {"folds": 2, "max_iterations": 1, "grammar.rounds": 1, "grammar.grammars": 2}
    bank = common.Treebank(
        corpus="toy",
        prefix="japanese.toy",
        lang="xx",
        name="toy_sm",
        source=SOURCE,
        tagger={"max_iterations": 2, "min_count": 1},
        parser={**parser, "grammar.min_word_count": 3},
    )
    recorded = {}
    monkeypatch.setattr(common, "record", lambda name, figures: recorded.update(figures))
    common.run(bank, tmp_path, tmp_path / "out", None, recorded=True)
    assert recorded["japanese.toy.test_f1"] == recorded["japanese.toy.dev_f1"] > 80
    assert recorded["japanese.toy.train_sentences"] == 24
    nlp = spacy.load(tmp_path / "out" / "xx_toy_sm")
    assert nlp.meta["sources"] == [SOURCE]
    assert "kieta" not in nlp.vocab.strings
    assert str(tmp_path) not in nlp.config.to_str()
    (tree,) = nlp("kono neko ga inu o mita .")._.trees
    assert tree.words() == ["kono", "neko", "ga", "inu", "o", "mita", "."]


def test_templates_depend_on_the_seed_alone():
    sample = list(read_trees(ROOT / "corpora" / "sample" / "sample.trees")) * 3
    for kind in templates.KINDS:
        trees = [templates.Templates(sample, seed=seed).sentence(kind) for seed in (1, 1, 2)]
        assert trees[0] == trees[1] != trees[2]
