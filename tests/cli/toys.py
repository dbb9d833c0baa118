"""What the tests of all commands use: four sentences, two trees, and how errors should look."""

import os

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.pipeline.readers import create_treebank_reader

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


def in_reliability(*values):
    """The parameters of a test that only the run of reliability takes, because they are many."""
    if os.environ.get("HYPOTHESIS_PROFILE") == "random":
        return list(values)
    skipped = pytest.mark.skip(reason="taken by training.reliability")
    return [pytest.param(value, marks=skipped) for value in values]


def gold_docs(vocab):
    for words, tags, chunks in GOLD:
        doc = Doc(vocab, words=words.split(), tags=tags.split())
        set_spans(doc, "np_chunks", [("NP", start, end) for start, end in chunks])
        yield doc


def fitted_on_trees(nlp, folder, trees, **models):
    """Train further components, by name, and save the pipeline. RETURNS: its directory."""
    (folder / "trees").write_text("\n".join(trees), encoding="utf8")
    added = [nlp.add_pipe(name, config={"model": model}) for name, model in models.items()]
    examples = list(create_treebank_reader(folder / "trees")(nlp))
    for component in added:
        component.initialize(lambda: examples)
        component.fit(examples)
    nlp.to_disk(folder / "model")
    return str(folder / "model")


def docs_of(path):
    return list(DocBin().from_disk(path).get_docs(Vocab()))


def as_tuples(value):
    """DocBin reads lists as tuples."""
    if isinstance(value, dict):
        return {key: as_tuples(item) for key, item in value.items()}
    return tuple(map(as_tuples, value)) if isinstance(value, list) else value


def left(folder):
    """All files below a folder, hidden ones too, with what is in them."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def one_line_error(result, *named):
    """The line on standard error of a run that failed in the way users should see.

    named: what stands in it.
    """
    code, out, err = result
    assert code == 1
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("structlearn: ")
    assert "Traceback" not in err
    assert all(text in err for text in named), err
    return err


DEADLY = """
import os, signal
from pathlib import Path

from spacy.language import Language

@Language.factory("deadly", default_config={"times": {}, "log": ""})
def make_deadly(nlp, name, times: dict[str, int], log: str):
    def deadly(doc):
        if doc.text in times:
            with Path(log).open("a", encoding="utf8") as file:
                file.write(f"{doc.text}\\n")
            if Path(log).read_text(encoding="utf8").count(f"{doc.text}\\n") <= times[doc.text]:
                os.kill(os.getpid(), signal.SIGKILL)
        return doc
    return deadly
"""


def install_deadly(folder):
    """A package with the component "deadly" in a folder that is to be on the path.

    It kills its process over a text, as often as `times` says, and names it in the file `log`.
    """
    (folder / "deadly-1.dist-info").mkdir(parents=True)
    (folder / "deadly.py").write_text(DEADLY, encoding="utf8")
    (folder / "deadly-1.dist-info" / "METADATA").write_text("Name: deadly\nVersion: 1\n")
    points = "[spacy_factories]\ndeadly = deadly:make_deadly\n"
    (folder / "deadly-1.dist-info" / "entry_points.txt").write_text(points)


def deadly_model(model, folder, times):
    """A pipeline with that component at its end. RETURNS: its directory, and the log."""
    import deadly  # noqa: F401

    nlp = spacy.load(model)
    log = folder / "deaths.txt"
    nlp.add_pipe("deadly", config={"times": times, "log": str(log)})
    nlp.to_disk(folder / "deadly_model")
    return folder / "deadly_model", log
