"""Small pipelines as directories, and a command line that runs in this process."""

import io
import sys
from functools import lru_cache

import pytest
import spacy
from cli.toys import ATTACHED, GOLD, TREES, fitted_on_trees, gold_docs
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_structlearn import cli
from spacy_structlearn.cli import apply, evaluate, info, parse
from spacy_structlearn.cli.common import parts, pipelines, search
from spacy_structlearn.pipeline.readers import to_example

GRAMMAR = {"@architectures": "spacy_structlearn.LatentGrammar.v1", "rounds": 0}


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """A pipeline that tags by rule and has a trained chunker: its directory."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    ruler = nlp.add_pipe("attribute_ruler")
    for words, tags, _ in GOLD:
        for word, tag in zip(words.split(), tags.split(), strict=True):
            ruler.add([[{"LOWER": word.lower()}]], {"TAG": tag})
    ruler.add([[{"IS_SPACE": True}]], {"TAG": "_SP"})
    chunker = nlp.add_pipe("np_chunker")
    examples = [to_example(doc) for doc in gold_docs(nlp.vocab)]
    chunker.initialize(lambda: examples)
    chunker.fit(examples)
    path = tmp_path_factory.mktemp("cli") / "model"
    nlp.to_disk(path)
    return str(path)


@pytest.fixture(scope="session")
def parsing_model(model, tmp_path_factory):
    """The pipeline above with a parser besides."""
    folder = tmp_path_factory.mktemp("cli_parser")
    return fitted_on_trees(spacy.load(model), folder, TREES, constituency_parser=GRAMMAR)


@pytest.fixture(scope="session")
def attaching_model(tmp_path_factory):
    """A parser and an attacher of prepositional phrases: the directory."""
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    models = {"constituency_parser": GRAMMAR, "pp_attacher": {}}
    folder = tmp_path_factory.mktemp("cli_attacher")
    return fitted_on_trees(nlp, folder, (ATTACHED + TREES) * 3, **models)


@pytest.fixture
def gold(tmp_path):
    """Gold chunks as a DocBin."""
    DocBin(docs=list(gold_docs(Vocab()))).to_disk(tmp_path / "gold.spacy")
    return tmp_path / "gold.spacy"


@lru_cache(maxsize=8)
def loaded(model, files):
    """Load a pipeline. files: those of its folder, with times and sizes, so that changes count."""
    return pipelines.load(model)


def load_once(model):
    # Tests put other pipelines in the place of the built-in one.
    folder = pipelines.directory(model or pipelines.BUILT_IN)
    files = sorted(folder.rglob("*")) if folder.is_dir() else ()
    stats = tuple((path, path.lstat().st_mtime_ns, path.lstat().st_size) for path in files)
    return loaded(model, stats)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line. RETURNS: exit code, standard output, standard error.

    A pipeline is loaded once for all tests, which takes longer than most of them.
    """
    for command in (parts, search, apply, evaluate, info, parse):
        monkeypatch.setattr(command, "load", load_once)

    def run(*arguments, stdin=""):
        data = stdin.encode("utf8") if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "argv", ["structlearn", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf8"))
        try:
            cli.main()
            code = 0
        except SystemExit as error:
            code = error.code
        return code or 0, *capsys.readouterr()

    return run
