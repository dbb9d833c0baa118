"""Pipelines of other languages, on a treebank made here."""

import gzip

import pytest
import spacy
import srsly

from spacy_structlearn.trees.brackets import parse_tree
from training.languages import common
from training.languages.common import Treebank, spaced, trees_of
from training.languages.icelandic import BANKS as ICELANDIC
from training.languages.icelandic import greynir_tag, icepahc_tag
from training.languages.indonesian import ICON, tokenize_as_icon

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
OTHER = "(R (P (D kono) (N inu) (A ga) (V naita)) (X .))\n"
SOURCE = {"name": "a toy", "url": "https://example.org", "license": "CC0", "author": "nobody"}


@pytest.fixture
def corpora(tmp_path):
    folder = tmp_path / "corpora" / "toy"
    folder.mkdir(parents=True)
    for split, text in (("train", TREES * 3), ("dev", TREES + OTHER), ("test", TREES + OTHER)):
        (folder / f"{split}.trees.gz").write_bytes(gzip.compress(text.encode()))
    return folder.parent


@pytest.fixture
def bank():
    return Treebank(
        corpus="toy",
        prefix="japanese.toy",
        lang="xx",
        name="toy_sm",
        source=SOURCE,
        tag=lambda tag: f"{tag}{tag}",
        tagger={"max_iterations": 2, "min_count": 1},
        parser={
            **{"folds": 2, "max_iterations": 1, "grammar.rounds": 1, "grammar.grammars": 2},
            **{"grammar.min_word_count": 3},
        },
    )


def test_trees_have_the_tags_of_the_pipeline(corpora, bank):
    first = trees_of(bank, corpora, "dev")[0]
    assert str(first).startswith("(TOP (R (P (L (NN tora) (AA ga))")


@pytest.mark.parametrize(("most", "expected"), [(None, "abcde"), (9, "abcde"), (2, "ac"), (0, "")])
def test_spaced(most, expected):
    assert "".join(spaced("abcde", most)) == expected


def test_a_pipeline_in_one_command(corpora, bank, tmp_path, capsys, monkeypatch):
    recorded = {}
    monkeypatch.setattr(common, "record", lambda name, figures: recorded.update(figures))
    common.run(bank, corpora, tmp_path / "out", None, recorded=True)
    assert recorded["japanese.toy.test_f1"] == recorded["japanese.toy.dev_f1"] > 80
    assert recorded["japanese.toy.train_sentences"] == 24
    assert recorded["japanese.toy.dev_tag_acc"] > 80
    assert 0 < recorded["japanese.toy.mb"] < 10
    assert "japanese.toy.train_cpu_s" in capsys.readouterr().out
    folder = tmp_path / "out" / "xx_toy_sm"
    meta = srsly.read_json(folder / "meta.json")
    assert meta["license"] == "CC0"
    assert meta["sources"] == [SOURCE]
    assert meta["performance"]["dev_sentences"] == 9
    assert "test_f1" not in meta["performance"]
    nlp = spacy.load(folder)
    assert "kieta" not in nlp.vocab.strings
    assert str(tmp_path) not in nlp.config.to_str()
    doc = nlp("kono neko ga inu o mita . ano tora ga naita .")
    assert len(list(doc.sents)) == 2
    tree = doc._.trees[0]
    assert tree.words() == ["kono", "neko", "ga", "inu", "o", "mita", "."]
    assert [leaf.label for leaf in tree.leaves()] == [token.tag_ for token in doc[:7]]


def test_without_record_the_test_set_is_not_read(corpora, bank, tmp_path, monkeypatch):
    (corpora / "toy" / "test.trees.gz").unlink()
    monkeypatch.setattr(common, "record", None)
    common.run(bank, corpora, tmp_path / "out", 9, recorded=False)


def test_tokens_of_icon():
    nlp = spacy.blank("id")
    trees = ["(S (NNO buku) (PRK nya) (ADV hanya))", "(S (NNO isi) (PRK nya) (ADV isinya))"]
    tokenize_as_icon(nlp, [parse_tree(tree) for tree in trees])
    text = 'Hanya buku-bukunya, masing-masing isinya "hanya" 3-4 nya.'
    expected = 'Hanya buku - buku nya , masing - masing isinya " hanya " 3 - 4 nya .'
    assert " ".join(token.text for token in nlp(text)) == expected
    other = spacy.blank("id").from_bytes(nlp.to_bytes())
    assert " ".join(token.text for token in other(text)) == expected


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("no_et_þf_hk_gr", "no_þf"),
        ("so_1_þf_nh_gm", "so_1_nh"),
        ("so_fh_p3", "so_fh"),
        ("fs_þgf", "fs_þgf"),
        ("grm", "grm"),
    ],
)
def test_greynir_tag(tag, expected):
    assert greynir_tag(tag) == expected


@pytest.mark.parametrize(
    ("tag", "expected"), [("N-A", "N-A"), ("VBPI-TTT", "VBPI"), ("NP-SBJ", "NP"), ("N-D-1", "N-D")]
)
def test_icepahc_tag(tag, expected):
    assert icepahc_tag(tag) == expected


def test_sources_may_be_distributed():
    for bank in (ICON, *ICELANDIC):
        assert bank.source["license"].startswith("CC BY")
