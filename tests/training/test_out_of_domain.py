"""Figures of other domains, on hand-written trees."""

import gzip

from spacy_structlearn.trees.brackets import read_trees
from training.benchmarks import out_of_domain

GOLD = "(TOP (S (NP (PRP We)) (VP (VBD slept)) (. .)))\n"
FLAT = "(TOP (S (PRP We) (VBD slept) (. .)))\n"


def test_the_figures_of_each_domain(monkeypatch, tmp_path):
    for corpus, name, lines in (
        ("mctb", "law.original", FLAT + GOLD),  # scored against its last trees
        ("mctb_outputs", "law.in_order", GOLD),
        ("mctb_outputs", "law.in_order_bert", FLAT),
    ):
        path = tmp_path / corpus / f"{name}.trees.gz"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(lines.encode()))
    gold = tuple(read_trees(tmp_path / "mctb_outputs" / "law.in_order.trees.gz"))
    monkeypatch.setattr(out_of_domain, "CORPORA", tmp_path)
    monkeypatch.setattr(out_of_domain, "MCTB_DOMAINS", ["law"])
    monkeypatch.setattr(out_of_domain, "DOMAINS", ["law"])
    monkeypatch.setattr(out_of_domain, "domain_trees", lambda *_: gold)
    right, flat, own = (*out_of_domain.published(), *out_of_domain.ours())
    assert right == {"law.in_order.f1": 100, "law.in_order.f1_se": 0, "law.in_order.exact": 100}
    assert flat["law.in_order_bert.f1"] == 50
    assert own == {"law.sentences": 1, "law.f1": 100, "law.f1_se": 0, "law.exact": 100}
