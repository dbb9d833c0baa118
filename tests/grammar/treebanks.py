"""Small treebanks for the tests of this folder."""

from pathlib import Path

from spacy_structlearn.pipeline.architectures import estimator as learner
from spacy_structlearn.trees.brackets import parse_tree, read_trees
from spacy_structlearn.trees.normalize import normalize

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample" / "sample.trees"

# No label is English, and the order of words is that of a language with the head at the end.
TOY = """
(R (P (L (N tora) (A ni)) (P (L (N inu) (A o)) (V mita)) (. 。)))
(R (P (L (D kono) (N inu) (A ga)) (V naita) (. 。)))
(R (P (L (L (N tora) (A no)) (N kage) (A ga)) (L (D ano) (N mori) (A ni)) (V kieta) (. 。)))
(R (P (L (D kono) (D ano) (N tora) (A ga)) (P (L (N neko) (A o)) (V mita)) (. 。)))
(R (L (N inu)))
(R (N neko))
(R (P (V naita)) (. 。))
"""


def toy():
    return [parse_tree(line) for line in TOY.split("\n") if line]


def sample():
    return [normalize(tree) for tree in read_trees(SAMPLE)]


def trees(*texts):
    return [parse_tree(text) for text in texts]


def finish(trainer):
    """The trainer at its end, and what it reported."""
    calls = []
    trainer.on_iteration = calls.append
    while trainer.step():
        pass
    return trainer, calls


def learned(settings, trees):
    """What is learned of them."""
    return finish(learner(settings).trainer(None, [trees]))[0].parameters()
