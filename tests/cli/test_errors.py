"""Input that is not as it should be: one line on standard error, and nothing is written."""

import gzip
from itertools import cycle

import pytest
import spacy
from cli.toys import TREES, gold_docs, one_line_error
from spacy.tokens import DocBin
from spacy.vocab import Vocab

LATIN = "Zoë slept.".encode("latin-1")
PACKED = gzip.compress(b"(S (NN a))\n" * 1000)
FILES = {
    "latin.txt": LATIN,
    "latin.jsonl": b'{"text": "Run!"}\n' + LATIN,
    "half.jsonl": b'{"text": "Run!"}\n{"text": "\\ud83d Run!"}\n',
    "extra.jsonl": b'{"text": "Run!"}\n{"text": "Run!", "id": "\\uDE00"}\n',
    "long.jsonl": b'{"text": "Run!"}\n{"text": "' + b"dog " * 250_001 + b'"}',
    "long.txt": b"dog " * 250_001,
    "two.txt": b"Run!\n\n" + b"dog\n" * 250_001,
    "unpacked.txt.gz": b"Run!",
    "cut.txt.gz": gzip.compress(b"Run!")[:-4],
    "changed.jsonl.gz": gzip.compress(b"Run!")[:10] + b"\xff" * 20,
    "number.jsonl": b'{"text": 5}',
    "list.jsonl": b'["Run!"]',
    "open.jsonl": b'{"text": "Run!',
    "damaged.spacy": b"x",
    "text": b"Just text.",
    "nothing": b"",
    "blank": b"\n \n",
    "wide.trees": TREES[0].encode("utf-16"),
    "dog.conllu": b"1\tDogs\tdog\tNOUN\tNNS\t_\t2\tnsubj\t_\t_\n",
    "comments.conllu": b"# sent_id = 1\n",
    "dog.export": b"#FORMAT 4\n#BOS 1\n",
    "dog.xml": b'<?xml version="1.0"?>\n<corpus id="dogs">\n',
    "open.trees": b"(S (NP",
    "one.trees": TREES[0].encode(),
    "long.trees": b"(S (NN a))\n(S (NN " + b"a" * 1_000_001 + b"))\n",
    "trees": "\n".join(TREES * 5).encode(),
    "lang.cfg": b"[nlp]\nlang = en\n",
    "zz.cfg": b'[nlp]\nlang = "zz"\n\n[training]\nseed = 0\ngpu_allocator = null\n',
    "table.csv": b"number,text\n1,Run!\n",
    "section.cfg": b"[nlp\n",
    "value.cfg": b"[a]\nb = [",
    "folder/letter.eml": b"",
    "paper.txt": b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n",
    "image.mrg": b"\x89PNG\r\n\x1a\n\x00",
    "iobes.conll": b"Dogs NNS S-NP\n",
    **{
        f"{kind}.{name}.gz": data
        for name in ("trees", "conll", "spacy")
        for kind, data in {
            "short": PACKED[:-20],
            "head": PACKED[:12],
            "other": PACKED[:15] + b"x" * 20 + PACKED[35:],
            "plain": b"(S (NN a))\n",
        }.items()
    },
}
ARCHIVES = [name for name in FILES if name.endswith((".trees.gz", ".conll.gz", ".spacy.gz"))]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("errors")
    (folder / "folder").mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    DocBin().to_disk(folder / "empty.spacy")
    DocBin(docs=list(gold_docs(Vocab()))).to_disk(folder / "gold.spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("np_chunker")
    nlp.to_disk(folder / "untrained")
    return folder


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("parse Run! --model nowhere", ["nowhere"]),
        ("parse Run! --model folder", ["E053", "folder"]),
        ("parse Run! --model untrained", ["SL002"]),
        ("parse latin.txt --model MODEL", ["SL035", "latin.txt"]),
        ("parse - --model MODEL", ["SL035"]),
        ("parse caf\udce9 --model MODEL", ["SL035", "the text", "0xe9"]),
        ("parse half.jsonl --model MODEL", ["SL064", "half.jsonl, line 2", "surrogates"]),
        ("parse unpacked.txt.gz --model MODEL", ["SL121"]),
        ("parse number.jsonl --model MODEL", ["SL064"]),
        ("parse long.txt --model MODEL", ["SL065"]),
        ("parse LONG --model MODEL", ["E088"]),
        ("parse gold.spacy --model MODEL", ["SL075", "gold.spacy is a DocBin"]),
        *(
            (f"{command} folder --model MODEL", ["SL075", "is a folder", "`structlearn apply`"])
            for command in ("parse", "render")
        ),
        *(
            (
                f"{command} {name} --model MODEL",
                ["SL076", f"No such file: {name}.", f"echo {name} | structlearn parse -"],
            )
            for command in ("parse", "render")
            for name in ("notes.txt", "./notes", "none.spacy", "folder/file")
        ),
        ("apply MODEL number.jsonl out.spacy", ["SL064", "no text"]),
        ("apply MODEL list.jsonl out.spacy", ["SL064", "no text"]),
        ("apply MODEL open.jsonl out.spacy", ["SL064", "line 1"]),
        ("apply MODEL latin.txt out.spacy", ["SL035"]),
        ("apply MODEL latin.jsonl out.spacy", ["SL035", "line 2"]),
        *(
            (f"apply MODEL {name}.jsonl out.{kind}", ["SL064", f"{name}.jsonl, line 2"])
            for name in ("half", "extra")
            for kind in ("spacy", "jsonl")
        ),
        ("find NP half.jsonl --model MODEL", ["SL064", "half.jsonl, line 2"]),
        ("find NP long.txt --model MODEL", ["SL065", "long.txt, text 1"]),
        ("find NP long.jsonl --model MODEL", ["SL065", "long.jsonl, text 2"]),
        ("apply MODEL damaged.spacy out.spacy", ["SL013"]),
        ("apply MODEL unpacked.txt.gz out.spacy", ["SL121"]),
        ("apply MODEL cut.txt.gz out.spacy", ["SL121"]),
        ("apply MODEL changed.jsonl.gz out.spacy", ["SL121"]),
        ("apply MODEL two.txt out.spacy", ["SL065", "text 2"]),
        ("apply MODEL nowhere out.spacy", ["SL010"]),
        ("apply MODEL table.csv out.spacy", ["SL093", "table.csv"]),
        ("parse table.csv --model MODEL", ["SL093", "table.csv"]),
        ("apply untrained text out.spacy --n-process 2", ["SL002"]),
        ("convert text out", ["SL060"]),
        ("convert half.jsonl out", ["SL060"]),
        ("evaluate MODEL half.jsonl", ["SL060"]),
        *((f"convert {name} out", ["SL063", f"{name} is empty"]) for name in ("nothing", "blank")),
        ("convert nowhere out", ["SL010", "nowhere"]),
        ("convert latin.txt out", ["SL035", "0xeb", "iconv -f latin1"]),
        *(
            (f"convert wide.trees out{reader}", ["SL035", "UTF-16", "iconv -f utf-16"])
            for reader in ("", " --reader treebank")
        ),
        *(
            (f"convert {name}.conllu out", [*how])
            for name, how in (("dog", ["SL128", "line 1", "no words"]), ("comments", ["SL063"]))
        ),
        ("convert dog.export out", ["SL048", "export", "treetools"]),
        ("convert dog.xml out", ["SL048", "XML", "treetools"]),
        ("convert open.trees out", ["SL102"]),
        ("convert empty.spacy out", ["SL063", "empty.spacy is empty"]),
        ("convert one.trees out --dev dev", ["SL073"]),
        *(
            (f"convert {name} out{reader}", ["SL121", name])
            for name, reader in zip(
                ARCHIVES, cycle(("", " --reader treebank", " --reader conll2000")), strict=False
            )
        ),
        ("evaluate MODEL empty.spacy", ["SL063"]),
        *(
            (f"evaluate MODEL long.trees{tokens}", ["SL065", "long.trees, text 2"])
            for tokens in ("", " --gold-tokens")
        ),
        ("evaluate MODEL nowhere", ["SL010"]),
        ("info --component np_chunker --label Z", ["SL032] 'np_chunker' has no label 'Z'. Its la"]),
        ("info --component pp_attacher --label Z", ["SL032] 'pp_attacher' has no label 'Z'. Its "]),
        ("info --component parser", ["np_chunker"]),
        ("train zz.cfg -o out", ["E048", "language zz"]),
        ("train nowhere.cfg -o out", ["nowhere.cfg"]),
        *((f"train {name} -o out", []) for name in ("nothing", "text", "lang.cfg", "value.cfg")),
        ("train section.cfg -o out", []),
        # What a review found: data lost, and messages that did not help.
        *(
            pytest.param(line, named, marks=pytest.mark.finding)
            for line, named in [
                ("convert trees both.spacy --dev both.spacy", ["SL058", "another output"]),
                ("convert trees both.spacy --dev folder/../both.spacy", ["SL058"]),
                ("convert trees - --dev -", ["SL058"]),
                ("convert trees trees", ["SL058", "an input"]),
                ("convert trees out --props out", ["SL058", "an input"]),
                ("evaluate MODEL gold.spacy -o gold.spacy", ["SL058", "an input"]),
                ("render text -o text --model MODEL", ["SL058", "an input"]),
                ("apply MODEL folder out", ["SL125", "letter.eml", "--input-format"]),
                ("find NP folder", ["SL125", "letter.eml", ".mrg"]),
                ("parse paper.txt --model MODEL", ["SL127", "not plain text", "pdftotext"]),
                ("convert image.mrg out", ["SL127"]),
                ("convert iobes.conll out", ["SL126", "iobes.conll, line 1", "'S-NP'"]),
            ]
        ),
    ],
)
def test_errors_are_one_line(run, model, place, monkeypatch, line, named):
    monkeypatch.chdir(place)
    words = {"MODEL": model, "LONG": "dog " * 250_001}
    before = sorted(place.rglob("*"))
    error = one_line_error(run(*(words.get(word, word) for word in line.split()), stdin=LATIN))
    assert all(text in error for text in named), error
    assert sorted(place.rglob("*")) == before
