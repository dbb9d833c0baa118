"""Readers: what of each file format is in the reference, what in the predicted Doc."""

import gzip
import zlib

import pytest
import spacy
import srsly
from contracts.components import FILES, SAMPLE
from spacy.tokens import Doc, DocBin
from spacy.util import registry
from spacy.vocab import Vocab

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import readers
from spacy_structlearn.pipeline.extensions import set_spans
from spacy_structlearn.trees.brackets import read_trees
from spacy_structlearn.trees.chunks import base_noun_phrases
from spacy_structlearn.trees.normalize import normalize

NLP = spacy.blank("en")


def write(path, text):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf8") as file:
        file.write(text)
    return path


def docs(reader):
    return [example.reference for example in reader(NLP)]


def words(doc):
    return [token.text for token in doc]


def group(doc, key="np_chunks"):
    return [(span.label_, span.start, span.end) for span in doc.spans[key]]


def check_error(reader, number, *texts):
    """Reading fails with this number, and a message in one line with these texts."""
    with pytest.raises(StructlearnError, match=number) as error:
        list(reader(NLP))
    message = str(error.value)
    assert [text for text in ("\n", *texts) if text not in message] == ["\n"], message
    return message


# --- ConllChunks ----------------------------------------------------------------------------------
CONLL = """\
The DT B-NP
baker NN I-NP
baked VBD B-VP
bread NN B-NP
. . O

-DOCSTART- -X- -X- O

Nobody NN B-NP
spoke VBD B-VP
to TO B-PP
him PRP B-NP
"""


@pytest.fixture
def conll(tmp_path):
    return write(tmp_path / "chunks.txt", CONLL)


def test_conll_a_sentence_is_a_doc_with_its_np_chunks(conll):
    first, second = docs(readers.create_conll_chunks_reader(conll))
    assert words(first) == ["The", "baker", "baked", "bread", "."]
    assert [token.tag_ for token in second] == ["NN", "VBD", "TO", "PRP"]
    assert group(first) == [("NP", 0, 2), ("NP", 3, 4)]
    assert group(second) == [("NP", 0, 1), ("NP", 3, 4)]
    assert [len(list(doc.sents)) for doc in (first, second)] == [1, 1]


@pytest.mark.parametrize(("line", "found"), [("word NN", 2), ("word NN O 7", 4), ("word", 1)])
def test_conll_wrong_number_of_columns_names_the_line(tmp_path, line, found):
    path = write(tmp_path / "bad.txt", f"a NN O\n\n{line}\n")
    reader = readers.create_conll_chunks_reader(path)
    check_error(reader, "SL011", "bad.txt, line 3", f"{found} columns")


# --- Treebank -------------------------------------------------------------------------------------
TREES = """\
(TOP (S (NP (DT The) (NN baker)) (VP (VBD baked) (NP (NN bread))) (. .)))
(TOP (S (NP-SBJ-1 (PRP It)) (VP (VBD was) (VP (VBN eaten) (NP (-NONE- *-1))
    (PP (IN by) (NP (NP (DT a) (NN friend)) (PP (IN of) (NP (NNS cats))))))) (. .)))
(TOP (S (NP (NNS Cats)) (VP (VBP purr)) (. !)))
"""
SPACES = "11101\n111111101\n101\n"
PROPS = """\
news/1 0 0 The   DT  (TOP(S(NP* - -       (ARG0*
news/1 0 1 baker NN  *)         - -       *)
news/1 0 2 baked VBD (VP*       - bake.01 (V*)
news/1 0 3 bread NN  (NP*))     - -       (ARG1*)
news/1 0 4 .     .   *))        - -       *

news/1 1 0 It     PRP (TOP(S(NP*)   -      -      *    (ARG1*)
news/1 1 1 was    VBD (VP*          be     be.03  (V*) *
news/1 1 2 eaten  VBN (VP*          eat    eat.01 *    (V*)
news/1 1 3 by     IN  (PP*          -      -      *    (ARG0*
news/1 1 4 a      DT  (NP(NP*       -      -      *    *
news/1 1 5 friend NN  *)            -      -      *    *
news/1 1 6 of     IN  (PP*          -      -      *    *
news/1 1 7 cats   NNS (NP*))))))    -      -      *    *)
news/1 1 8 .      .   *))           -      -      *    *

blog/2 0 0 Cats NNS (TOP(S(NP*) - -       (ARG0*)
blog/2 0 1 purr VBP (VP*)       - purr.01 (V*)
blog/2 0 2 !    .   *))         - -       *
"""
MORE_PROPS = "\nblog/2 1 0 Dogs NNS (TOP(NP*)) - -\n"


@pytest.fixture
def treebank(tmp_path):
    return {
        "path": write(tmp_path / "all.trees", TREES),
        "spaces": write(tmp_path / "all.spaces", SPACES),
        "props": write(tmp_path / "all.props", PROPS),
    }


def flat_props(*sentences, document="a"):
    """Columns without phrases and predicates."""
    blocks = []
    for number, words in enumerate(map(str.split, sentences)):
        bits = ["*"] * len(words)
        bits[0] = "(TOP*"
        bits[-1] += ")"
        rows = (f"{document} {number} {i} {w} X {bits[i]} - -\n" for i, w in enumerate(words))
        blocks.append("".join(rows))
    return "\n".join(blocks)


def test_treebank_attachments_of_prepositional_phrases(tmp_path):
    trees = """\
(TOP (S (NP-SBJ-1 (PRP She)) (VP (VBD ate) (NP (NN soup)) (PP-MNR (IN with) (NP (NN care)))) (. .)))
(TOP (S (NP (-NONE- *)) (VP (VB Eat) (NP (NP (NNS bowls)) (PP (IN of) (NP (NN soup))))) (. .)))
(TOP (S (NP (PRP She)) (VP (VBD ate) (NP-TMP (NN today)) (PP (IN with) (NP (NN care)))) (. .)))
"""
    text = flat_props(
        "She ate soup with care .", "Eat bowls of soup .", "She ate today with care ."
    )
    reader = readers.create_treebank_reader(
        write(tmp_path / "a.trees", trees), props=write(tmp_path / "a.props", text)
    )
    (doc,) = docs(reader)
    assert group(doc, "pp_attachments") == [
        *(("V", 3, 5), ("verb", 1, 2), ("noun", 2, 3), ("prep", 3, 4), ("object", 4, 5)),
        *(("N", 8, 10), ("verb", 6, 7), ("noun", 7, 8), ("prep", 8, 9), ("object", 9, 10)),
    ]


BLANK_LINES = "11102\n111111101\n102\n"  # behind the first and the last sentence


def test_treebank_blank_lines_are_white_space_tokens(treebank):
    write(treebank["spaces"], BLANK_LINES)
    examples = list(readers.create_treebank_reader(**treebank)(NLP))
    news = examples[0].reference
    assert news.text == "The baker baked bread.\n\nIt was eaten by a friend of cats. "
    assert words(news)[4:7] == [".", "\n\n", "It"]
    assert [token.i for token in news if token.is_space] == [5]
    # It belongs to the sentence before it, and has no tag.
    assert [sentence.start for sentence in news.sents] == [0, 6]
    assert (news[5].tag_, news[5].is_sent_start, news[6].is_sent_start) == ("", False, True)
    assert news.has_annotation("TAG")
    # A Doc does not end with one.
    assert examples[1].reference.text == "Cats purr!"
    for example in examples:
        for left, right in zip(example.predicted, example.reference, strict=True):
            for name in ("text", "tag_", "whitespace_", "is_sent_start"):
                assert getattr(left, name) == getattr(right, name), name


def test_treebank_spaces_of_other_digits_name_the_line(treebank):
    write(treebank["spaces"], "11102\n11111111²\n101\n")
    reader = readers.create_treebank_reader(**treebank)
    check_error(reader, "SL038", "all.spaces, line 2", "'11111111²'")


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        ("blog/2\n\n", None, ["Cats"]),
        ("news/1\nblog/2\n", "news/1\n", ["Cats"]),
        (None, "", ["The", "Cats"]),
    ],
)
def test_treebank_include_and_exclude(treebank, tmp_path, include, exclude, expected):
    names = {
        key: write(tmp_path / key, text)
        for key, text in (("include", include), ("exclude", exclude))
        if text is not None
    }
    assert [
        doc[0].text for doc in docs(readers.create_treebank_reader(**treebank, **names))
    ] == expected


def test_treebank_a_tree_of_traces_alone_is_left_out_with_its_lines(tmp_path):
    trees = "(TOP (NP (-NONE- *)))\n(TOP (S (NP (NNS Cats)) (VP (VBP purr)) (. !)))\n"
    path = write(tmp_path / "a.trees", trees)
    spaces = write(tmp_path / "a.spaces", "0\n101\n")
    text = flat_props("*", document="one") + "\n" + flat_props("Cats purr !", document="two")
    props = write(tmp_path / "a.props", text)
    ((name, doc),) = readers.read_treebank(Vocab(), path, spaces=spaces, props=props)
    assert (name, doc.text) == ("two", "Cats purr! ")
    assert group(doc, "srl") == []


@pytest.mark.parametrize(
    ("kind", "text", "number"),
    [
        ("spaces", "11101\n111111101\n", 3),  # a sentence too few
        ("spaces", SPACES + "11\n", 4),  # one too many
        ("spaces", "11101\n11111111\n101\n", 2),  # a token too few
        ("spaces", "11101\n\n101\n", 2),  # none
        ("props", PROPS.split("blog", maxsplit=1)[0], 3),
        ("props", PROPS + MORE_PROPS, 4),
        ("path", TREES.split("(TOP (S (NP (NNS Cats", maxsplit=1)[0], 3),
        ("path", TREES + "(TOP (NP (NNS Dogs)))\n", 4),
    ],
)
def test_treebank_files_that_do_not_fit_name_the_sentence(treebank, kind, text, number):
    spare = {"spaces": "props", "props": "spaces"}
    write(treebank[kind], text)
    for files in (treebank, {k: v for k, v in treebank.items() if k != spare.get(kind)}):
        reader = readers.create_treebank_reader(**files)
        message = check_error(reader, "SL012", f"sentence {number}.", "all.trees")
        assert "all.spaces" in message or "all.props" in message


# Propositions
def frames(doc):
    """The frames as text, predicates with the number of their token."""
    return [
        (f.predicate.text, f.predicate.start, f.roleset, *(f"{a[1]} {a[0].text}" for a in f[2]))
        for f in doc._.frames
    ]


def test_treebank_propositions(treebank):
    news, blog = docs(readers.create_treebank_reader(**treebank))
    assert frames(news) == [
        ("baked", 2, "bake.01", "ARG0 The baker", "ARG1 bread"),
        ("was", 6, "be.03"),
        ("eaten", 7, "eat.01", "ARG1 It", "ARG0 by a friend of cats"),
    ]
    assert frames(blog) == [("purr", 1, "purr.01", "ARG0 Cats")]
    assert group(blog, "srl") == [("V", 1, 2), ("ARG0", 0, 1)]
    assert "scores" not in blog.spans["srl"].attrs
    for example in readers.create_treebank_reader(**treebank)(NLP):
        assert "srl" not in example.predicted.spans


def test_treebank_arguments_in_pieces_and_predicates_in_several_words(tmp_path):
    trees = (
        "(TOP (S (NP (NNS Cats)) (WP who) (VP (VBP give) (NP (NN sleep)) (PRT (RP up)) (UH no))))"
    )
    props = """\
a 0 0 Cats  NNS (TOP(S(NP*) - -       (ARG0*)
a 0 1 who   WP  *           - -       (R-ARG0*)
a 0 2 give  VBP (VP*        - give.02 (V*)
a 0 3 sleep NN  (NP*)       - -       (ARG1-DSP*)
a 0 4 up    RP  (PRT*)      - -       (C-V*)
a 0 5 no    UH  *)))        - -       (C-ARG1-DSP*)
"""
    files = write(tmp_path / "a.trees", trees), write(tmp_path / "a.props", props)
    (doc,) = docs(readers.create_treebank_reader(files[0], props=files[1]))
    arguments = ("ARG0 Cats", "R-ARG0 who", "ARG1 sleep", "C-ARG1 no")
    assert frames(doc) == [("give", 2, "give.02", *arguments)]


MORE = "'!' where it has no token"
LAST_LINES = """\
(VP*)       - purr.01 (V*)
blog/2 0 2 !    .   *))         - -       *
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("purr VBP", "pur VBP", 18, "'pur' where it has 'purr'"),
        ("Cats NNS", "Dogs NNS", 17, "'Dogs' where it has 'Cats'"),
        (LAST_LINES, "(VP*))) - purr.01 (V*)\n", 19, "no token where it has '!'"),
        ("*))         - -       *\n", "* - - *\nblog/2 0 3 ! . *)) - - *\n", 20, MORE),
    ],
)
def test_treebank_propositions_of_other_tokens_name_the_line(treebank, old, new, line, problem):
    assert old in PROPS
    write(treebank["props"], new.join(PROPS.rsplit(old, 1)) + MORE_PROPS)
    wanted = f"all.props, line {line}: sentence 3 has {problem}"
    check_error(readers.create_treebank_reader(**treebank), "SL034", wanted, "all.trees")


# --- every sentence of the sample treebank --------------------------------------------------------
def test_sample_every_sentence_is_read_back_from_its_document():
    trees = [normalize(tree) for tree in read_trees(SAMPLE / "sample.trees")]
    spaces = (SAMPLE / "sample.spaces").read_text(encoding="utf8").split()
    sentences = [
        sentence
        for doc in docs(readers.create_treebank_reader(SAMPLE / "sample.trees", **FILES))
        for sentence in doc.sents
    ]
    assert len(sentences) == len(trees) >= 80
    lines = FILES["props"].read_text(encoding="utf8").splitlines()
    documents = readers.read_treebank(Vocab(), SAMPLE / "sample.trees", **FILES)
    assert [name for name, _ in documents] == list(
        dict.fromkeys(line.split()[0] for line in lines if line.strip())
    )
    for sentence, tree, digits in zip(sentences, trees, spaces, strict=True):
        assert words(sentence) == list(tree.words())
        assert [token.tag_ for token in sentence] == list(tree.tags())
        assert "".join("1" if token.whitespace_ else "0" for token in sentence) == digits
        chunks = [
            (span.start - sentence.start, span.end - sentence.start)
            for span in sentence.doc.spans["np_chunks"]
            if sentence.start <= span.start < sentence.end
        ]
        assert chunks == base_noun_phrases(tree)


# --- DocBin ---------------------------------------------------------------------------------------
def gold_doc(vocab, **kwargs):
    doc = Doc(
        vocab,
        words=["Cats", "purr", "!", "Dogs", "bark", "."],
        tags=["NNS", "VBP", ".", "NNS", "VBP", "."],
        **{"sent_starts": [1, 0, 0, 1, 0, 0], "spaces": [1, 0, 1, 1, 0, 0]} | kwargs,
    )
    set_spans(doc, "np_chunks", [("NP", 0, 1), ("NP", 3, 4)])
    set_spans(doc, "frames", [("V", 1, 2)])
    return doc


def docbin(path, *written):
    DocBin(docs=written, store_user_data=True).to_disk(path)
    return path


@pytest.mark.parametrize("tags", [True, False])
def test_docbin_round_trip(tmp_path, tags):
    doc = gold_doc(Vocab())
    reader = readers.create_docbin_reader(docbin(tmp_path / "a.spacy", doc, doc), tags=tags)
    examples = list(reader(NLP))
    assert len(examples) == 2
    for example in examples:
        reference, predicted = example.reference, example.predicted
        assert reference.text == predicted.text == doc.text == "Cats purr! Dogs bark."
        assert words(predicted) == words(reference)
        assert group(reference) == group(doc)
        assert group(reference, "frames") == [("V", 1, 2)]
        assert len(predicted.spans) == 0
        assert [token.tag_ for token in reference] == [token.tag_ for token in doc]
        assert [token.tag_ for token in predicted] == [token.tag_ if tags else "" for token in doc]
        for read in (reference, predicted):
            assert [sentence.start for sentence in read.sents] == [0, 3]


def packed(content):
    return zlib.compress(srsly.msgpack_dumps(content))


def with_part(part, value):
    return lambda data: packed({**srsly.msgpack_loads(zlib.decompress(data)), part: value})


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda _: b"Cats purr.",
        lambda data: data[: len(data) // 2],
        lambda _: packed({"attrs": [65], "tokens": b"123"}),
        lambda _: packed(7),
        with_part("span_groups", [b"junk"]),
        with_part("cats", []),
        with_part("attrs", [65]),
        with_part("flags", [7]),
        with_part("tokens", b""),
    ],
)
def test_docbin_damaged_files_are_named_in_one_line(tmp_path, damage):
    path = docbin(tmp_path / "broken.spacy", gold_doc(Vocab()))
    path.write_bytes(damage(path.read_bytes()))
    reader = readers.create_docbin_reader(path)
    assert "v2" not in check_error(reader, "SL013", "broken.spacy", "structlearn convert")


# --- PPQuadruples ---------------------------------------------------------------------------------
QUADRUPLES = """\
40000 set stage for increase N
40002 Advanced 1 to 75 V

40007 is % of $ N
"""


@pytest.fixture
def quadruples(tmp_path):
    return write(tmp_path / "devset", QUADRUPLES)


@pytest.mark.parametrize("key", ["constituents", "np_chunks"])
def test_quadruples_have_their_site_in_the_predicted_docs(quadruples, key):
    from spacy_structlearn.pipeline.architectures import build_bayes_net
    from spacy_structlearn.pipeline.pp_attacher import PPAttacher

    nlp = NLP
    attacher = PPAttacher(nlp.vocab, build_bayes_net())
    for example in readers.create_pp_quadruples_reader(quadruples)(nlp):
        if key == "np_chunks":
            del example.predicted.spans["constituents"]
        assert "pp_attachments" not in example.predicted.spans
        (((site,),),) = attacher.found([example.predicted])
        assert site[:6] == (0, 1, 2, 3, 2, 4)
        # The same for all, so nothing is given away.
        assert site.label == {"constituents": "V", "np_chunks": ""}[key]


@pytest.mark.parametrize("line", ["1 a b c d", "1 a b c d e", "1 a b c d V N", "1 a b c d v", "x"])
def test_quadruples_that_are_none_name_the_line(tmp_path, line):
    path = write(tmp_path / "bad", f"1 a b c d N\n\n{line}\n")
    check_error(readers.create_pp_quadruples_reader(path), "SL028", "bad, line 3", line)


# --- all readers ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ConllChunks", {}),
        ("PPQuadruples", {}),
        ("Treebank", {}),
        ("DocBin", {}),
        ("Treebank", {"path": "sample.trees", "spaces": "nowhere"}),
        ("Treebank", {"path": "sample.trees", "props": "nowhere"}),
        ("Treebank", {"path": "sample.trees", "exclude": "nowhere"}),
    ],
)
def test_missing_files_are_named_by_readers_from_a_config(name, settings):
    paths = {key: str(SAMPLE / value) for key, value in ({"path": "nowhere"} | settings).items()}
    config = {"reader": {"@readers": f"spacy_structlearn.{name}.v1", **paths}}
    check_error(registry.resolve(config)["reader"], "SL010", "nowhere")
