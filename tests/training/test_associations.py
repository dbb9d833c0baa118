"""The counts of prepositional phrases in raw text, and the leaning of the attacher."""

import gzip
import json

import numpy as np
import pytest

from spacy_structlearn.attachment.associations import Associations
from spacy_structlearn.classification import LogLinearSettings, fit
from spacy_structlearn.classification.features import symbol
from training.pipeline import associations
from training.pipeline.associations import learn_associations, phrases, pieces, raw_texts
from training.pipeline.attacher import leaning

TEXT = "The roofs of the houses fell. She reminded him of the day. He was in the garden."


def test_phrases_of_a_text(nlp):
    found = set(phrases(nlp(TEXT)))
    assert ("N", symbol("roof"), symbol("of"), symbol("house")) in found
    assert ("V", symbol("remind"), symbol("of"), symbol("day")) in found
    assert ("V", symbol("fall"), 0, 0) in found
    assert symbol("be") not in {word for _, word, *_ in found}


def test_pieces_are_whole_paragraphs(monkeypatch):
    monkeypatch.setattr(associations, "PIECE", 5)
    assert list(pieces("abcdef\n\nab\n\ncde\n\nf")) == ["abcdef", "ab\n\ncde", "f"]
    assert list(pieces("")) == [""]


def test_associations_are_learned_once(tmp_path, nlp):
    (tmp_path / "raw_text").mkdir()
    with gzip.open(tmp_path / "raw_text" / "a.jsonl.gz", "wt", encoding="utf8") as file:
        file.writelines(json.dumps({"text": TEXT}) + "\n" for _ in range(6))
    assert list(raw_texts(tmp_path)) == [TEXT] * 6
    path = learn_associations(tmp_path, tmp_path / "work", lambda: nlp)
    found = Associations.from_bytes(path.read_bytes())
    assert len(found)
    assert learn_associations(tmp_path, tmp_path / "work", lambda: 1 / 0) == path


def test_leaning_changes_the_odds_of_the_noun():
    model = fit(LogLinearSettings(), [("a",), ("b",)], ["N", "V"])
    odds = [np.subtract(*m.log_proba([("a",)])[0]) for m in (model, leaning(model, 0.5))]
    assert odds[1] - odds[0] == pytest.approx(0.5)
