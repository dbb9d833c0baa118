"""CoNLL-U: Docs as its lines, and files of it as Docs."""

import pytest
import spacy
from spacy.tokens import Doc

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.universal.conllu import conllu_lines, read_conllu

VOCAB = spacy.blank("en").vocab
FILE = """\
# newdoc id = a
# newpar
# sent_id = a-1
# text = Don't _ go!
1-2	Don't	_	_	_	_	_	_	_	_
1	Do	do	AUX	VB	VerbForm=Fin	4	aux	_	_
2	n't	not	PART	RB	_	4	advmod	_	_
3	_	_	SYM	NFP	_	4	punct	_	_
4	go	go	VERB	_	Mood=Imp|VerbForm=Fin	0	root	_	SpaceAfter=No
4.1	gone	_	_	_	_	_	_	_	_
5	!	!	PUNCT	.	_	4	punct	_	_

# newpar
# sent_id = a-2
1	Why	why	ADV	WRB	PronType=Int	0	root	_	SpaceAfter=No
2	?	?	PUNCT	.	_	1	punct	_	SpaceAfter=No

# newdoc id = b
1	Yes	_	_	_	_	_	_	_	_
2	sir	_	_	_	_	_	_	_	_
"""


@pytest.fixture
def read(tmp_path):
    def of(text):
        (tmp_path / "x.conllu").write_text(text, encoding="utf8")
        return list(read_conllu(VOCAB, tmp_path / "x.conllu"))

    return of


def rows(doc):
    words = [t for t in doc if not t.is_space]
    return [(t.text, t.tag_, t.pos_, str(t.morph), t.lemma_, t.head.text, t.dep_) for t in words]


def test_documents_of_a_file(read):
    (name, doc), (other, bare) = read(FILE)
    assert (name, other) == ("a", "b")
    assert doc.text == "Don't _ go!\n\nWhy?"
    assert [sentence.text.strip() for sentence in doc.sents] == ["Don't _ go!", "Why?"]
    assert rows(doc)[:4] == [
        ("Do", "VB", "AUX", "VerbForm=Fin", "do", "go", "aux"),
        ("n't", "RB", "PART", "", "not", "go", "advmod"),
        ("_", "NFP", "SYM", "", "_", "go", "punct"),
        ("go", "VERB", "VERB", "Mood=Imp|VerbForm=Fin", "go", "go", "ROOT"),
    ]
    assert len(list(bare.sents)) == 1
    ((_, both),) = read(FILE.replace("# newdoc id = b", ""))
    assert [len(sentence) for sentence in both.sents] == [6, 2, 2]
    assert not any(bare.has_annotation(name) for name in ("DEP", "POS", "LEMMA", "TAG"))


def test_lines_are_read_as_they_were_written(read):
    (_, doc), (_, bare) = read(FILE)
    lines = list(conllu_lines(doc, "a"))
    assert lines[:3] == ["# newdoc id = a", "# sent_id = a-1", "# text = Don't _ go!"]
    assert lines[3] == "1\tDo\tdo\tAUX\tVB\tVerbForm=Fin\t4\taux\t_\tSpaceAfter=No"
    assert lines[5] == FILE.splitlines()[7]
    assert "# newpar" in lines
    ((_, again), (_, same)) = read("\n".join([*lines, *conllu_lines(bare, "b")]))
    assert rows(again) == rows(doc)
    assert again.text == doc.text
    assert same.to_array(["ORTH", "SENT_START"]).tolist() == (
        bare.to_array(["ORTH", "SENT_START"]).tolist()
    )


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("\t_\tSpaceAfter=No\n4.1", "\n4.1"), "line 9: 8 columns"),
        (("3\t_\t", "7\t_\t"), "line 11: .*words with other numbers"),
        (("\t0\troot\t_\tSpaceAfter=No\n4.1", "\t5\troot\t_\t_\n4.1"), "a cycle of heads"),
        (("4\taux", "9\taux"), "heads that are no words"),
        (("4\taux", "_\taux"), "heads that are no words"),
        (("4\taux", "0\taux"), "2 roots"),
    ],
)
def test_what_is_not_conllu(read, change, problem):
    assert change[0] in FILE
    with pytest.raises(StructlearnError, match=rf"SL128.*x\.conllu, {problem}|SL128.*{problem}"):
        read(FILE.replace(*change))


def test_heads_that_are_white_space():
    doc = Doc(
        VOCAB,
        words=["Go", "\n", "away", "\n"],
        heads=[0, 0, 1, 2],
        deps=["ROOT", "dep", "advmod", "dep"],
        pos=["VERB", "SPACE", "ADV", "SPACE"],
    )
    found = [line.split("\t") for line in conllu_lines(doc, "1") if line[:1].isdigit()]
    assert [(row[1], row[3], row[6], row[7]) for row in found] == [
        ("Go", "VERB", "0", "root"),
        ("away", "ADV", "1", "advmod"),
    ]
