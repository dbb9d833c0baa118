"""Kinds of sentences that were always wrong once, with their right values.

kinds.jsonl has a text and its checks on each line; `holds` says what each of them means.
"""

from fnmatch import fnmatchcase
from pathlib import Path

import pytest
import srsly

import spacy_structlearn

CASES = list(srsly.read_jsonl(Path(__file__).parent / "everyday" / "kinds.jsonl"))


@pytest.fixture(scope="module")
def nlp():
    return spacy_structlearn.load()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_kind(nlp, case):
    doc = nlp(case["text"])
    for check in case["checks"]:
        ((name, value),) = check.items()
        assert holds(doc, name, value), check


def holds(doc, name, value):
    if name.startswith("no_"):
        return not holds(doc, name.removeprefix("no_"), value)
    if name == "sentences":  # exactly these
        return [sentence.text.strip() for sentence in doc.sents] == value
    if name == "n_sentences":
        return len(list(doc.sents)) == value
    if name == "token":
        return value in [token.text for token in doc]
    if name == "bracket":  # a label, or several, and the words
        labels, words = map(one_or_more, value)
        return any(is_text(s, words) for s in doc.spans["constituents"] if s.label_ in labels)
    if name == "chunk":
        return any(is_text(chunk, one_or_more(value)) for chunk in doc._.np_chunks)
    word, number, *rest = value  # this occurrence of the word
    places = [
        at
        for own in one_or_more(word)
        for at in [token.i for token in doc if token.text == own][number : number + 1]
    ]
    if name == "tag":
        return any(doc[at].tag_ in rest[0] for at in places)
    if name == "attach":  # to a verb or a noun, and this one
        sites = [site for site in doc._.pp_attachments if site.pp.start in places]
        return any(s.label == rest[0] and s.head.text in one_or_more(rest[1]) for s in sites)
    frames = [frame for frame in doc._.frames if frame.predicate.start in places]
    if name == "frame":
        return any(fnmatchcase(f.roleset or "", own) for f in frames for own in rest[0])
    assert name == "role"
    arguments = [argument for frame in frames for argument in frame.arguments]
    return any(a.label in rest[0] and is_text(a.span, rest[1]) for a in arguments)


def one_or_more(value):
    return [value] if isinstance(value, str) else value


def is_text(span, texts):
    return "*" in texts or bool({span.text.strip(), " ".join(t.text for t in span)} & {*texts})
