"""Generated sentences with frames."""

import pytest

from training.pipeline import frames


@pytest.fixture(scope="module")
def docs(nlp):
    number, frames.NUMBER = frames.NUMBER, 1
    yield list(frames.generated(nlp))
    frames.NUMBER = number


def test_every_template_has_a_tree_and_frames(docs):
    phrases, templates = frames.read_templates()
    assert len(docs) == len(templates)
    assert all(len(own) > 1 for own in phrases.values())
    for doc, (roleset, _) in zip(docs, templates, strict=True):
        assert len(doc._.trees) == 1
        assert not {"{", "|"} & {*str(doc._.trees[0])}
        assert roleset == "-" or roleset in {frame.roleset for frame in doc._.frames}


def test_roles_are_those_of_the_template(nlp):
    template = (
        "(TOP (S (NP|ARG0.0 (PRP She)) (VP (VBD|V.0 told) (NP|ARG2.0,ARG0.1 (PRP him))"
        " (S|ARG1.0 (VP (TO to) (VP (VB|V.1 swim))))) (. .)))"
    )
    doc = frames._doc(nlp, template, "tell.01")
    found = {
        f.predicate.text: (f.roleset, [(a.label, a.span.text) for a in f.arguments])
        for f in doc._.frames
    }
    assert found["told"] == ("tell.01", [("ARG0", "She"), ("ARG2", "him"), ("ARG1", "to swim")])
    assert found["swim"][1] == [("ARG0", "him")]
