"""The parts of the builds, on sentences made up here."""

import json

import pytest
from _build import (
    build_ewt,
    build_propbank_frames,
    present,
    sample_props,
    sample_split,
    spacing_lines,
)
from _download import FetchError
from _formats import (
    conllu_sentences,
    mrg_trees,
    paragraph_starts,
    props_block,
    raw_line,
    skeleton_sentences,
    tree_line,
)
from _wsj_sample import align, cuts

SKELETON = """\
doc/x   0   0  [WORD]  DT   (TOP(S(NP*     -       -   (ARG0*
doc/x   0   1  [WORD]  NN            *)    -       -        *)
doc/x   0   2  [WORD]  VBZ        (VP*))) bark bark.01     (V*)

doc/x   1   0  [WORD]  UH   (TOP(INTJ*))  -       -
"""


def test_tree_and_props_of_a_skeleton():
    first, second = skeleton_sentences(SKELETON, "doc/x")
    for row, word in zip(first, ["The", "(dog", "barks"], strict=True):
        row[3] = word.replace("(", "-LRB-")
    assert tree_line(first) == "(TOP (S (NP (DT The) (NN -LRB-dog)) (VP (VBZ barks))))\n"
    assert tree_line(second) == "(TOP (INTJ (UH [WORD])))\n"
    assert props_block(first).splitlines() == [
        "doc/x  0  0  The       DT   (TOP(S(NP*  -     -        (ARG0*",
        "doc/x  0  1  -LRB-dog  NN   *)          -     -        *)",
        "doc/x  0  2  barks     VBZ  (VP*)))     bark  bark.01  (V*)",
        "",
    ]


def test_ragged_skeleton():
    with pytest.raises(FetchError, match="x: a sentence with rows of different lengths"):
        skeleton_sentences(SKELETON.replace("(V*)", ""), "x")


def conllu(*rows):
    return "".join("\t".join([*row, *"________"]) + "\n" for row in rows)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_conllu_keeps_words_only(end):
    first = conllu(["1-2", "ab"], ["1", "a\x85"], ["2", "b"], ["2.1", "e"])
    text = f"# text = a b\n{first}\n# c\n\n{conllu(['1', 'd'])}".replace("\n", end)
    found = [[row[:2] for row in rows] for rows in conllu_sentences(text, "x")]
    assert found == [[["1", "a\x85"], ["2", "b"]], [["1", "d"]]]


@pytest.mark.parametrize("text", ["1\ta\n", "a", "\0\n", conllu(["1", "a", "b"])])
def test_conllu_of_other_columns(text):
    with pytest.raises(FetchError, match="x: a line without 10 columns"):
        conllu_sentences(text, "x")


def spaced(comments, *marked):
    """A sentence of CoNLL-U; a word that ends in "_" has no space after it."""
    lines = [f"# {comment}" for comment in comments]
    for number, word in enumerate(marked, 1):
        misc = "SpaceAfter=No" if word[-1] == "_" else "_"
        lines.append("\t".join([str(number), word.strip("_"), *"_" * 7, misc]))
    return "\n".join(lines) + "\n\n"


NOTES = (
    spaced(["newdoc id = a", "newpar id = a-1", "text = Hi :)"], "Hi", ":)")
    + spaced(["newpar", "text = (Go.)"], "(_", "Go_", "._", ")_")
    + spaced(["newpartner", "text = No"], "No")
    + spaced(["text = newpar", "newpar id = a-3"], "Bye_", ".")
)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_paragraph_starts(end):
    assert paragraph_starts(NOTES.replace("\n", end)) == [True, True, False, True]
    assert paragraph_starts(f"# newpar{end}{end}") == []


def test_spacing_lines():
    """A paragraph ends with a blank line, the document with nothing."""
    assert spacing_lines(NOTES, "x", [2, 4, 1, 2]) == ["12", "0000", "2", "00"]
    # Other tokens: a blank after each. Another number of sentences: nothing is known.
    assert spacing_lines(NOTES, "x", [2, 3, 2, 1]) == ["12", "111", "12", "0"]
    assert spacing_lines(NOTES, "x", [2, 4, 1]) is None


def test_raw_line():
    sentences = [["Hi", ":)"], ["(", "Go", ".", ")"], ["é"], ["Bye", "."]]
    line = raw_line("doc/x", sentences, ["12", "0000", "2", "01"])
    assert "é" in line
    assert line.endswith("}\n")
    found = json.loads(line)
    text = found["text"]
    assert text == "Hi :)\n\n(Go.)é\n\nBye."
    assert [text[start:end] for start, end in found["tokens"]] == [w for s in sentences for w in s]
    assert [text[start:end] for start, end in found["sentences"]] == ["Hi :)", "(Go.)", "é", "Bye."]
    assert found["document"] == "doc/x"


class Archive(dict):
    """Members of an archive by name, without digests."""

    def text(self, name, *, held_out=False):
        return self[name]


LETTER = """\
google/ewt/email/00/NAME 0 0 [WORD] JJ    (TOP(NP*   - -
google/ewt/email/00/NAME 0 1 [WORD] NNP   *))        - -

google/ewt/email/00/NAME 1 0 [WORD] PRP   (TOP(S(NP*) - -
google/ewt/email/00/NAME 1 1 [WORD] VBP   (VP*)      - -
google/ewt/email/00/NAME 1 2 [WORD] -RRB- *))        - -
"""


def ewt_sources(*splits):
    """A letter of two sentences in each of these splits, and the lists of all three."""
    propbank, words, spacing = Archive(), Archive(), Archive()
    for split in ("train", "dev", "test"):
        propbank[f"docs/evaluation/ewt.{split}.txt"] = f"email/00/{split}.conllu\n"
    for split in splits:
        member = f"not-to-release/sources/email/{split}.conllu"
        propbank[f"data/google/ewt/email/00/{split}.gold_skel"] = LETTER.replace("NAME", split)
        words[member] = spaced([], "Dear", "Bob") + spaced([], "I", "agree", ")")
        spacing[member] = spaced(["newdoc"], *"ab") + spaced(["newpar"], "c", "d_", "e")
    return {"propbank": propbank, "ud_ewt_r1_4": words, "ud_ewt_r2_6": spacing}


def test_ewt():
    """The words are those of one source, the white space that of another."""
    lines = []
    files = build_ewt(ewt_sources("train", "dev"), lines.append)
    assert lines == ["test: 1 of 1 documents are not in the source, passed over"]
    kinds = ("trees.gz", "props.gz", "spaces.gz", "raw.jsonl.gz")
    expected = {f"{split}.{kind}" for split in ("train", "dev") for kind in kinds}
    assert set(files) == expected | {"tune.txt"}
    assert files["dev.trees.gz"].splitlines() == [
        "(TOP (NP (JJ Dear) (NNP Bob)))",
        "(TOP (S (NP (PRP I)) (VP (VBP agree)) (-RRB- -RRB-)))",
    ]
    assert files["dev.props.gz"].split()[0] == "google/ewt/email/00/dev"
    assert files["dev.spaces.gz"] == "12\n100\n"
    assert json.loads(files["dev.raw.jsonl.gz"]) == {
        "document": "google/ewt/email/00/dev",
        "text": "Dear Bob\n\nI agree)",
        "sentences": [[0, 8], [10, 18]],
        "tokens": [[0, 4], [5, 8], [10, 11], [12, 17], [17, 18]],
    }


def test_ewt_treats_a_test_split_as_the_others():
    files = build_ewt(ewt_sources("train", "dev", "test"), print)
    for kind in ("trees", "spaces"):
        assert files[f"test.{kind}.gz"] == files[f"dev.{kind}.gz"]
    raw = files["dev.raw.jsonl.gz"].replace("email/00/dev", "email/00/test")
    assert files["test.raw.jsonl.gz"] == raw


@pytest.mark.parametrize("name", ["ud_ewt_r1_4", "ud_ewt_r2_6"])
def test_ewt_sources_that_disagree(name):
    sources, lines = ewt_sources("train", "dev"), []
    sources[name]["not-to-release/sources/email/dev.conllu"] = spaced([], "Dear", "Bob")
    assert "dev.raw.jsonl.gz" not in build_ewt(sources, lines.append)
    assert lines[0] == "dev: the sources disagree on the tokens of email/00/dev, passed over"


def test_mrg_trees():
    one, two = mrg_trees(
        "\n( (S (NP-1 (-NONE- *T*) )\n  (VP (VB go) )))\r\n( (X (UH oh))\n (. .) )\n", "x"
    )
    assert one.leaves == [("-NONE-", "*T*"), ("VB", "go")]
    assert one.tokens == [("VB", "go")]
    assert (one.roots, two.roots) == (1, 2)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("word", "'word' is neither"),
        ("a ) ( b", "'a' is neither"),
        ("( (NN a) ) b", "'b' is neither"),
        ("\ufeff( (NN a) )", "neither"),
        ("( (NN a b) )", "'a' is neither"),
        ("( (NN) )", "'NN' is neither"),
        ("( (NN a)", "1 brackets are not closed"),
        ("( (NN a", "'a' is neither"),
        ("( (NN a) ))", "closing bracket without an opening one"),
        (")", "closing bracket without an opening one"),
        ("(" * 100_000, "100000 brackets are not closed"),
    ],
)
def test_brackets_that_make_no_tree(text, problem):
    with pytest.raises(FetchError, match=f"x: .*{problem}"):
        mrg_trees(text, "x")


def test_brackets_within_brackets_without_end():
    (tree,) = mrg_trees("(" + "(X " * 100_000 + "(NN a)" + ")" * 100_001, "x")
    assert tree.leaves == [("NN", "a")]


def test_sample_split_goes_by_file_number():
    trees = {f"wsj_{n:04}": mrg_trees("( (X (UH oh)) )", "x") for n in (1, 159, 160, 199)}
    splits = json.loads(sample_split(trees))["splits"]
    assert [splits[s]["sentences"] for s in ("train", "dev", "test")] == [2, 1, 1]


class Text:
    """Members of an archive, whatever their names."""

    def __init__(self, **texts):
        self.texts = texts

    def __contains__(self, name):
        return True

    def text(self, name):
        return self.texts["listed" if name.endswith("-list.txt") else "skeleton"]


def test_sample_with_more_sentences_than_trees():
    trees = {"wsj_0001": mrg_trees("( (X (UH oh)) )", "x")}
    source = Text(listed="ontonotes/nw/wsj/00/wsj_0001\n", skeleton=SKELETON)
    with pytest.raises(FetchError, match="wsj_0001: 2 sentences for 1 trees"):
        sample_props(trees, {"wsj_0001": 0}, source, print)


def test_cuts():
    assert cuts("word") == []
    assert cuts("-") == []
    assert cuts("a-b") == [["a", "-", "b"]]
    assert cuts(r"1\/2") == [["1", r"\/", "2"]]
    assert cuts("a-b-c") == [["a", "-", "b-c"], ["a-b", "-", "c"], ["a", "-", "b", "-", "c"]]


def test_align_equal_length_counts_tags_that_differ():
    assert align([("DT", "a"), ("NN", "b-c")], ["DT", "JJ"]) == (["a", "b-c"], 1)


def test_align_cuts_where_the_separator_is():
    tokens = [("JJ", "x-y"), ("JJ", "old-time"), ("NN", "dog")]
    words, cost = align(tokens, ["JJ", "JJ", "HYPH", "NN", "NN"])
    assert (words, cost) == (["x-y", "old", "-", "time", "dog"], 0)


def test_align_gives_up():
    assert align([("NN", "dog")], ["NN", "NN"]) is None
    assert align([("JJ", "9%-owned")], ["CD", "NN", "HYPH", "VBN"]) is None
    assert align([("NN", "a"), ("NN", "b")], ["NN"]) is None


def test_present_reports_what_is_missing():
    lines = []
    assert present("dev", "abc", lambda d: d != "b", lines.append) == ["a", "c"]
    assert present("test", "ab", lambda d: False, lines.append) == []
    assert lines == [
        "dev: 1 of 3 documents are not in the source, passed over",
        "test: 2 of 2 documents are not in the source, passed over",
    ]
    with pytest.raises(FetchError, match="no document of the train split"):
        present("train", "ab", lambda d: False, lines.append)


def test_rolesets_and_what_they_mean():
    frames = Archive()
    frames["frames/b.xml"] = """<frameset><predicate lemma="b">
        <roleset id="b.01" name="go \n on"/></predicate></frameset>"""
    frames["frames/a.xml"] = "<frameset><roleset id='a_c.02' name='stop'/></frameset>"
    files = build_propbank_frames({"propbank_frames": frames}, print)
    assert files == {"rolesets.tsv": "a_c.02\tstop\nb.01\tgo on\n"}
    frames["frames/a.xml"] = "<frameset>"
    with pytest.raises(FetchError, match=r"frames/a\.xml"):
        build_propbank_frames({"propbank_frames": frames}, print)
