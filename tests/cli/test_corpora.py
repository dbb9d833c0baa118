"""Corpora of any format: recognized by their first line, read with the names of their documents."""

import io
import sys

import pytest
from cli.toys import TREES, gold_docs
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_structlearn.cli.common.corpora import Reader, recognized
from spacy_structlearn.cli.common.corpora import gold_docs as read
from spacy_structlearn.errors import StructlearnError

CONLL = "The DT B-NP\ndog NN I-NP\nslept VBD O\n\n( ( O\nRun VB O\n"
PROPBANK = """\
0 0 0 Dogs NNS (TOP(S(NP*) - - (ARG0*)
0 0 1 slept VBD (VP*))) sleep sleep.01 (V*)

1 0 0 Run VB (TOP(S(VP*) - -
1 0 1 ! . *)) - -
"""
PRODIGY = '{"text": "Run!", "spans": [{"start": 0, "end": 3, "label": "VP"}]}\n\n{"text": "No."}\n'
QUADRUPLES = "0 ate soup with spoons V\n1 ate bowls of soup N\n"

CONLLU = (
    "# newdoc id = {}\n1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n"
    "2\tslept\tsleep\tVERB\tVBD\t_\t0\troot\t_\t_\n\n"
)


@pytest.fixture
def files(tmp_path):
    """One file of each format."""
    paths = {reader: tmp_path / reader.value for reader in Reader}
    DocBin(docs=list(gold_docs(Vocab()))).to_disk(paths[Reader.docbin])
    paths[Reader.treebank].write_text("\n \n" + "\n".join(TREES), encoding="utf8")
    paths[Reader.conll2000].write_text(CONLL, encoding="utf8")
    paths[Reader.propbank].write_text(PROPBANK, encoding="utf8")
    paths[Reader.quadruples].write_text(QUADRUPLES, encoding="utf8")
    paths[Reader.conllu].write_text(CONLLU.format(0) + CONLLU.format(1), encoding="utf8")
    paths[Reader.prodigy].write_text(PRODIGY, encoding="utf8")
    return paths


@pytest.mark.parametrize("reader", list(Reader))
def test_a_format_is_recognized_by_the_content(files, reader):
    assert recognized(files[reader]) is reader


@pytest.mark.parametrize(
    ("line", "reader"),
    [
        ("( ( O", Reader.conll2000),
        ("( (S (NP x)))", Reader.treebank),
        ("x^ y z", None),
        ("The dog slept.", None),
        ("0 a b c d X", None),
        ("# A heading", None),
        ("12 men", None),
    ],
)
def test_first_lines(tmp_path, line, reader):
    (tmp_path / "file").write_text(line, encoding="utf8")
    if reader:
        assert recognized(tmp_path / "file") is reader
    else:
        with pytest.raises(StructlearnError, match="SL060"):
            recognized(tmp_path / "file")


@pytest.mark.parametrize("reader", list(Reader))
def test_documents_of_each_format(files, reader):
    named = list(read(Vocab(), files[reader]))
    assert [name for name, _ in named] == [str(i) for i in range(len(named))]
    assert len(named) == (4 if reader is Reader.docbin else 2)
    keys = set(named[0][1].spans)
    if reader is Reader.quadruples:
        assert keys == {"pp_attachments", "constituents", "np_chunks"}
        site = named[0][1].spans["constituents"][0]
        assert (site.label_, site.start, site.end) == ("VP", 0, 4)
    elif reader is Reader.treebank:
        assert keys == {"np_chunks", "constituents", "pp_attachments"}
    elif reader is Reader.propbank:
        assert keys == {"np_chunks", "constituents", "pp_attachments", "srl"}
    elif reader is Reader.prodigy:
        assert keys == {"constituent_constraints"}
    else:
        assert keys == (set() if reader is Reader.conllu else {"np_chunks"})


def test_documents_of_a_folder_have_the_names_of_their_files(tmp_path):
    (tmp_path / "b.c").mkdir()
    (tmp_path / "b.c" / "one.mrg.txt").write_text("\n".join(TREES), encoding="utf8")
    (tmp_path / "two.mrg").write_text(TREES[0], encoding="utf8")
    (tmp_path / ".hidden").write_text("no tree", encoding="utf8")
    named = list(read(Vocab(), tmp_path))
    assert [(name, len(doc)) for name, doc in named] == [("b.c/one", 5), ("b.c/one", 2), ("two", 5)]


def test_a_corpus_on_standard_input(files, monkeypatch):
    data = files[Reader.docbin].read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert len(list(read(Vocab(), "-"))) == 4
