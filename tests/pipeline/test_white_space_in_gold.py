"""White space tokens in gold Docs, as paragraphs have between them: all that components learn from
such Docs, and all scores, are as without.
"""

from dataclasses import fields, is_dataclass

import numpy as np
import pytest
import spacy
from contracts.components import SAMPLE
from spacy.scorer import Scorer
from spacy.training import Example

from spacy_structlearn.classification.features import Table
from spacy_structlearn.pipeline.readers import read_treebank, to_example

COMPONENTS = ["chain_tagger", "np_chunker", "constituency_parser", "pp_attacher", "srl_labeler"]


@pytest.fixture(scope="module")
def nlp():
    """All components over gold layers, initialised on the sample as it is."""
    nlp = spacy.blank("en")
    for name in COMPONENTS:
        nlp.add_pipe(name)
    examples = [to_example(doc) for doc in sample_docs(nlp, SAMPLE / "sample.spaces")]
    nlp.initialize(lambda: examples)
    return nlp


def sample_docs(nlp, spaces):
    files = {"spaces": spaces, "props": SAMPLE / "sample.props"}
    return [doc for _, doc in read_treebank(nlp.vocab, SAMPLE / "sample.trees", **files)]


@pytest.fixture(scope="module")
def both(nlp, tmp_path_factory):
    """The documents of the sample as they are, and with each sentence a paragraph."""
    lines = (SAMPLE / "sample.spaces").read_text(encoding="utf8").splitlines()
    spaces = tmp_path_factory.mktemp("spaces") / "paragraphs"
    spaces.write_text("".join(f"{line[:-1]}2\n" for line in lines), encoding="utf8")
    plain, broken = sample_docs(nlp, SAMPLE / "sample.spaces"), sample_docs(nlp, spaces)
    assert not any(token.is_space for doc in plain for token in doc)
    assert sum(token.is_space for doc in broken for token in doc) == len(lines) - len(plain)
    return plain, broken


def content(data):
    """Data of any component as lists."""
    if isinstance(data, np.ndarray):
        return data.tolist()
    if isinstance(data, dict):
        return {key: content(value) for key, value in data.items()}
    if isinstance(data, Table):
        return data.variables, data.symbols.tolist()
    if is_dataclass(data):
        return [content(getattr(data, field.name)) for field in fields(data)]
    return [content(value) for value in data] if isinstance(data, (list, tuple)) else data


@pytest.mark.parametrize("name", COMPONENTS)
def test_components_learn_the_same(nlp, both, name):
    component = nlp.get_pipe(name)
    for plain, broken in zip(*(map(to_example, docs) for docs in both), strict=True):
        assert set(component.gold_labels(broken)) == set(component.gold_labels(plain))
        found = component.gold_data(broken)
        assert found is not None
        assert content(found) == content(component.gold_data(plain))


def test_scores_are_as_without(nlp, both):
    """Of gold annotation on itself, and on tokens without the white space and the other way."""
    plain, broken = both
    scorer = Scorer(nlp=nlp)
    for gold, predicted in ((broken, broken), (plain, broken), (broken, plain)):
        pairs = zip(predicted, gold, strict=True)
        scores = scorer.score([Example(doc.copy(), other) for doc, other in pairs])
        names = ["tag_acc", "np_chunk_f", "constituents_f", "constituents_exact"]
        names += ["constituents_tag_acc", "pp_attachment_acc", "pp_attachment_f", "srl_f"]
        names += ["srl_predicate_f", "srl_sense_acc"]
        assert {name: scores[name] for name in names} == dict.fromkeys(names, 1.0)
