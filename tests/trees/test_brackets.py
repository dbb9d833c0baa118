import codecs
import gzip
import io

import pytest

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.trees import brackets
from spacy_structlearn.trees.brackets import MOST_OPEN, parse_tree, read_trees, unescape
from spacy_structlearn.trees.tree import Tree

TEXT = "(S (NP (NNS Cats)) (VP (VBP sleep)) (. .))"


@pytest.mark.parametrize(
    "source", [[TEXT, "", TEXT], [f"{TEXT} {TEXT}"], [TEXT + TEXT], io.StringIO(TEXT * 2)]
)
def test_sources(source):
    assert list(map(str, read_trees(source))) == [TEXT] * 2


def test_layout_does_not_matter():
    broken = TEXT.replace(" ", "\n  ").replace(")", "\n)").replace("(", "(\n")
    assert parse_tree(broken) == parse_tree(TEXT)
    assert str(parse_tree("(NFP :-LRB-)")) == "(NFP :-LRB-)"
    assert parse_tree("( S( NP(NNS\tCats ))(VP(VBP  sleep))(. .) )") == parse_tree(TEXT)


def test_empty_outer_bracket_is_a_node_with_an_empty_label():
    tree = parse_tree(f"( {TEXT} )")
    assert tree == Tree("", [parse_tree(TEXT)])
    assert parse_tree(str(tree)) == tree


@pytest.mark.parametrize(
    ("written", "word"),
    [
        ("-LRB-", "("),
        ("-RRB-", ")"),
        (":-RRB-", ":)"),
        (":--LRB-", ":-("),
        ("-LCB-", "{"),
        ("-RSB-", "]"),
        ("a-LSB-", "a-LSB-"),
        ("well-known", "well-known"),
        ("[", "["),
    ],
)
def test_brackets_in_words(written, word):
    assert unescape(written) == word
    tree = parse_tree(f"(X (-LRB- {written}))")
    assert tree.words() == [word]
    assert tree.tags() == ["-LRB-"]
    assert parse_tree(str(tree)) == tree


@pytest.mark.parametrize("layout", ["(", "(\n", "(X ", "(X (NN dog) "])
def test_too_many_open_brackets(layout):
    with pytest.raises(StructlearnError, match=r"SL124.*line \d+: more than 10000"):
        parse_tree(layout * 100_000)
    deep = "(X " * (MOST_OPEN - 1) + "(NN dog)" + ")" * (MOST_OPEN - 1)
    assert str(parse_tree(deep)) == deep


@pytest.mark.parametrize(
    ("lines", "code", "line"),
    [
        ([TEXT, TEXT + ")"], "SL101", 2),
        ([TEXT, "(S (NN x)", "", ""], "SL102", 4),
        (["# comment", TEXT], "SL103", 1),
        ([TEXT + " x"], "SL103", 1),
        ([TEXT, "()"], "SL104", 2),
        (["(S (NN x)", " ( ))"], "SL104", 2),
        (["(S (NP ) (NN x))"], "SL105", 1),
        (["(S", "( word ))"], "SL105", 2),
        (["(S (NN x) word)"], "SL106", 1),
        (["(S (NN two words))"], "SL106", 1),
        (["(S (NN word (NN x)))"], "SL106", 1),
        (["((NN x) word)"], "SL106", 1),
    ],
)
def test_errors_name_the_line(lines, code, line):
    with pytest.raises(StructlearnError) as caught:
        list(read_trees(lines))
    assert caught.value.code == code
    assert caught.value.fields["line"] == line


def test_premature_end_names_the_beginning_and_the_file(tmp_path):
    path = tmp_path / "cut.mrg"
    path.write_text(f"{TEXT}\n\n(S\n  (NP (NN x))\n")
    with pytest.raises(StructlearnError, match=r"cut\.mrg, line 4: .* began on line 3"):
        list(read_trees(path))


@pytest.mark.parametrize("text", ["", TEXT + TEXT])
def test_parse_tree_wants_one_tree(text):
    with pytest.raises(StructlearnError, match="SL107"):
        parse_tree(text)


def test_files_that_are_no_text(tmp_path):
    latin, damaged, short = (tmp_path / name for name in ("a.trees", "b.trees.gz", "c.trees.gz"))
    latin.write_bytes("(NN café)".encode("latin-1"))
    damaged.write_bytes(b"(NN dog)")
    short.write_bytes(gzip.compress(b"(NN dog)" * 100)[:20])
    for path, code in ((latin, "SL035"), (damaged, "SL121"), (short, "SL121")):
        with pytest.raises(StructlearnError) as error:
            list(read_trees(path))
        assert error.value.code == code
        assert str(path) in str(error.value)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_line_that_is_not_utf8_is_named(tmp_path, pack):
    path = tmp_path / ("a.trees" if pack is bytes else "a.trees.gz")
    path.write_bytes(pack(codecs.BOM_UTF8 + b"(NN dog)\n" * 5000 + b"(NN caf\xe9)\n"))
    with pytest.raises(StructlearnError, match=r"SL035.*line 5001: .* 0xe9 in position 7"):
        list(read_trees(path))


def test_a_very_long_line_is_read_in_pieces(monkeypatch):
    line = "(S (NP (DT the)(NN dog)) (VP (VBD ran)))((X (NN a) (NP(NN -LRB-))))\n"
    whole = list(read_trees([line]))
    assert len(whole) == 2
    for size in range(1, len(line)):
        monkeypatch.setattr(brackets, "PIECE", size)
        assert list(read_trees([line])) == whole
        with pytest.raises(StructlearnError, match="SL101"):
            list(read_trees([f"{line})"]))
    with pytest.raises(StructlearnError, match=r"SL102.*line 1\b"):
        list(read_trees([line[:30]]))
