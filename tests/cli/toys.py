"""What the tests of all commands use: four sentences, two trees, and how errors should look."""

import os

from spacy.tokens import Doc

from spacy_structlearn.pipeline.readers import set_gold_spans

TEXT = "The old dog slept. My sister bought apples."
PARSED = [
    "[NP The/DT old/JJ dog/NN ] slept/VBD ./.",
    "[NP My/PRP$ sister/NN ] bought/VBD [NP apples/NNS ] ./.",
]
GOLD = [
    ("The old dog slept .", "DT JJ NN VBD .", [(0, 3)]),
    ("My sister bought apples .", "PRP$ NN VBD NNS .", [(0, 2), (3, 4)]),
    ("The sister bought old apples .", "DT NN VBD JJ NNS .", [(0, 2), (3, 5)]),
    ("Run !", "VB .", []),
]
TREES = ["(S (NP (DT The) (JJ old) (NN dog)) (VP (VBD slept)) (. .))", "(S (VP (VB Run)) (. !))"]
ATTACHED = [
    "(S (NP (PRP She)) (VP (VBD ate) (NP (NN soup)) (PP (IN with) (NP (NNS spoons)))) (. .))",
    "(S (NP (PRP She)) (VP (VBD ate) (NP (NP (NNS bowls)) (PP (IN of) (NP (NN soup))))) (. .))",
]


def gold_docs(vocab):
    for words, tags, chunks in GOLD:
        doc = Doc(vocab, words=words.split(), tags=tags.split())
        set_gold_spans(doc, "np_chunks", [("NP", start, end) for start, end in chunks])
        yield doc


def one_line_error(result):
    """The line on standard error of a run that failed in the way users should see."""
    code, out, err = result
    assert code == 1
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("structlearn: ")
    assert "Traceback" not in err
    return err


def die(*arguments):
    """End this process at once, as the system does it for want of memory."""
    os._exit(1)
