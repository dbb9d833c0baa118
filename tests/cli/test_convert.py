"""`structlearn convert`: corpora in, DocBins out, and documents that are held out."""

import os
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from cli.toys import ATTACHED, TREES, docs_of, one_line_error
from contracts.components import COMPONENTS, own

from spacy_structlearn.cli.convert import spread
from spacy_structlearn.pipeline.universal.conllu import read_conllu
from spacy_structlearn.trees.brackets import read_trees

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"
BESIDE = ["--spaces", SAMPLE / "sample.spaces", "--props", SAMPLE / "sample.props"]


@pytest.fixture
def trees(tmp_path):
    path = tmp_path / "trees"
    path.write_text("\n".join((TREES + ATTACHED) * 5), encoding="utf8")
    return path


def test_a_treebank_with_all_its_layers(run, tmp_path):
    target = tmp_path / "new" / "all.spacy"
    code, out, err = run("convert", SAMPLE / "sample.trees", target, *BESIDE)
    assert (code, out) == (0, "")
    docs = docs_of(target)
    n_tokens = sum(map(len, docs))
    layers = "constituents, np_chunks, pp_attachments, srl"
    assert err == f"{target}: {len(docs)} documents, {n_tokens:,} tokens, {layers}\n"
    assert all(set(doc.spans) == set(layers.split(", ")) for doc in docs)
    assert docs[0][0].tag_
    assert not docs[0].has_unknown_spaces
    assert len(list(docs[0].sents)) > 1
    assert [path.name for path in target.parent.iterdir()] == ["all.spacy"]


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and devices")
def test_a_device_is_written_and_not_replaced(run, trees, tmp_path):
    target = tmp_path / "null"
    target.symlink_to("/dev/null")
    assert run("convert", trees, target)[0] == 0
    assert target.is_symlink()
    assert target.is_char_device()
    (tmp_path / "outside").write_bytes(b"kept")
    (tmp_path / "link").symlink_to("outside")
    assert run("convert", trees, tmp_path / "link")[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "outside").read_bytes() != b"kept"


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_a_lock_that_is_a_link_is_not_followed(run, model, tmp_path):
    (tmp_path / "x.txt").write_text("A dog.")
    (tmp_path / ".y.jsonl.lock").symlink_to(tmp_path / "outside")
    one_line_error(run("apply", model, tmp_path / "x.txt", tmp_path / "y.jsonl"), "y.jsonl")
    assert not (tmp_path / "outside").exists()


def test_function_tags_and_layers_that_are_not_found_are_reported(run, tmp_path):
    path, out = tmp_path / "german.trees", tmp_path / "german.spacy"
    hund = "(NP-SB-1 (ART Der) (NN Hund))"
    trees = [
        f"(S {hund} (VVFIN schläft))",
        f"(S (NP-SB (PPER Er)) (VVFIN sieht) {hund.replace('SB', 'OA')})",
        *(f"(S-2 (NP-{tag} (PPER Er)) (VVFIN schläft))" for tag in ("A", "B", "C", "D")),
    ]
    path.write_text("\n".join(trees), encoding="utf8")
    code, _, err = run("convert", path, out)
    assert code == 0
    layers, dropped = err.splitlines()
    assert layers == f"{out}: 6 documents, 15 tokens, constituents, np_chunks"
    named = ", ".join(f"NP-{tag} -> NP (1)" for tag in ("OA", "A", "B", "C"))
    assert dropped == f"function tags dropped: NP-SB -> NP (2), {named}, and 1 more"


def test_a_share_of_the_documents_is_held_out(run, trees, tmp_path):
    fit, dev = tmp_path / "fit.spacy", tmp_path / "dev.spacy"
    assert run("convert", trees, fit, "--dev", dev)[0] == 0
    assert (len(docs_of(fit)), len(docs_of(dev))) == (18, 2)
    assert run("convert", trees, fit, "--dev", dev, "--dev-share", "0.5")[0] == 0
    assert (len(docs_of(fit)), len(docs_of(dev))) == (10, 10)
    # The order is kept, and nothing is lost: of every two sentences the second is held out.
    texts = [doc.text.strip() for doc in docs_of(dev)]
    assert set(texts) == {"Run !", "She ate bowls of soup ."}
    both = Counter(doc.text for path in (fit, dev) for doc in docs_of(path))
    assert set(both.values()) == {5}


@pytest.mark.parametrize("share", [0.1, 0.2, 0.29, 0.5, 0.9])
def test_a_share_is_exact_and_spread_evenly(share):
    names = [str(i) for i in range(100)]
    chosen = [int(name) for name in spread(names, share)]
    assert len(chosen) == round(100 * share)
    gaps = {b - a for a, b in pairwise(chosen)}
    assert max(gaps) - min(gaps) <= 1


def test_a_share_is_never_nothing_or_all():
    assert spread(["a", "b"], 0.1) == ["b"]
    assert spread(["a", "b"], 0.0) == ["b"]
    assert spread(["a", "b"], 1.0) == ["a"]
    assert spread(["a"], 0.5) == []


def test_wrong_uses(run, trees, tmp_path):
    for arguments in (["--dev-share", "0.1"], ["--dev-share", "2", "--dev", "dev"]):
        assert run("convert", trees, tmp_path / "out", *arguments)[0] == 2


CONLLU = (
    "1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2\tdog\tdog\tNOUN\tNN\tNumber=Sing\t0\troot\t_\t_\n\n"
)


def test_conllu_in_and_out(run, tmp_path):
    (tmp_path / "in.conllu").write_text(CONLLU * 3, encoding="utf8")
    code, _, err = run("convert", tmp_path / "in.conllu", tmp_path / "out.spacy")
    assert (code, err) == (0, f"{tmp_path / 'out.spacy'}: 3 documents, 6 tokens\n")
    (doc, *_) = docs_of(tmp_path / "out.spacy")
    found = [(t.pos_, str(t.morph), t.lemma_, t.head.i, t.dep_, t.tag_) for t in doc]
    assert found == [
        ("DET", "", "the", 1, "det", "DT"),
        ("NOUN", "Number=Sing", "dog", 1, "ROOT", "NN"),
    ]
    assert run("convert", tmp_path / "out.spacy", tmp_path / "again.conllu")[0] == 0
    lines = (tmp_path / "again.conllu").read_text(encoding="utf8").splitlines(keepends=True)
    assert "".join(line for line in lines if line[0] != "#") == CONLLU * 3


def test_trees_of_others_as_conllu(run, tmp_path):
    nlp = own(COMPONENTS["tree_dependencies Stages"])
    nlp.add_pipe("tree_morphologizer", source=own(COMPONENTS["tree_morphologizer StochasticCRF"]))
    nlp.to_disk(tmp_path / "model")
    target = tmp_path / "out.conllu"
    arguments = "convert", SAMPLE / "sample.trees", target, "--model"
    assert run(*arguments, tmp_path / "model")[0] == 0
    read = list(read_conllu(nlp.vocab, target))
    assert len(read) == len(list(read_trees(SAMPLE / "sample.trees")))
    for _, doc in read:
        assert all(token.pos and token.dep and token.lemma for token in doc)
        assert len([token for token in doc if token.head.i == token.i]) == 1
    nlp.remove_pipe("tree_dependencies")
    nlp.to_disk(tmp_path / "other")
    one_line_error(run(*arguments, tmp_path / "other"), "SL129", "tree_dependencies")
