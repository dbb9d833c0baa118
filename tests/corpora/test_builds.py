"""The parts of the builds, on sentences made up here."""

import json

import pytest
from _build import build_ewt, build_propbank_frames
from _download import FetchError
from _formats import mrg_trees, props_block, skeleton_sentences, tree_line

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


def spaced(comments, *marked):
    """A sentence of CoNLL-U; a word that ends in "_" has no space after it."""
    lines = [f"# {comment}" for comment in comments]
    for number, word in enumerate(marked, 1):
        misc = "SpaceAfter=No" if word[-1] == "_" else "_"
        tag, features, lemma, head, label = UD_LINE.split()
        columns = (lemma, tag, "_", features, head, label, "_", misc)
        lines.append("\t".join([str(number), word.strip("_"), *columns]))
    return "\n".join(lines) + "\n\n"


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
UD_LINE = "NOUN\tNumber=Sing\tlemma\t0\troot\n"
NO_UD_LINE = "_\t_\t_\t_\t_\n"


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
    other = "0 of 2 sentences have other tokens in UD"
    missing = "test: 1 of 1 documents are not in the source, passed over"
    assert lines == [f"train: {other}", f"dev: {other}", missing]
    kinds = ("trees.gz", "props.gz", "spaces.gz", "raw.jsonl.gz", "ud.gz")
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


def test_dependencies_of_ewt():
    sources = ewt_sources("train", "dev", "test")
    name = "not-to-release/sources/email/train.conllu"
    sources["ud_ewt_r2_6"][name] = spaced(["newdoc"], *"ab") + spaced(["newpar"], *"cdef")
    lines = []
    files = build_ewt(sources, lines.append)
    assert lines[0] == "train: 1 of 2 sentences have other tokens in UD"
    assert files["train.ud.gz"] == f"{2 * UD_LINE}\n{3 * NO_UD_LINE}\n"
    assert files["dev.ud.gz"] == f"{2 * UD_LINE}\n{3 * UD_LINE}\n"
    assert "test.ud.gz" not in files  # held out


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("word", "'word' is neither"),
        ("( (NN) )", "'NN' is neither"),
        ("( (NN a)", "1 brackets are not closed"),
        (")", "closing bracket without an opening one"),
        ("(" * 100_000, "100000 brackets are not closed"),
    ],
)
def test_brackets_that_make_no_tree(text, problem):
    with pytest.raises(FetchError, match=f"x: .*{problem}"):
        mrg_trees(text, "x")


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
