"""Hashes of attributes of words: those that features of fragments and of spans share."""

import pytest

from spacy_structlearn.grammar.spans.word_attributes import WordAttributes, hash_of, word_hash

NAMES = ("WORD", "SUFFIX2", "PREFIX3", "SHAPE", "CLASS")
KNOWN = frozenset(word_hash(word) for word in ("tora", "Inu", "12"))


def of(word, known=KNOWN):
    return WordAttributes(NAMES, known).hashes([[word]])[0].tolist()


@pytest.mark.parametrize(
    ("word", "texts"),
    [
        ("tora", ["WORD=tora", "SUFFIX2=ra", "PREFIX3=tor", "SHAPE=x", "CLASS=x"]),
        ("Tora", ["WORD=tora", "SUFFIX2=ra", "PREFIX3=tor", "SHAPE=Xx", "CLASS=X"]),
        ("Inu", ["WORD=Inu", "SUFFIX2=nu", "PREFIX3=inu", "SHAPE=Xx", "CLASS=X"]),
        ("inu", ["SIGNATURE=x~inu", "SUFFIX2=nu", "PREFIX3=inu", "SHAPE=x", "CLASS=x"]),
        ("12", ["WORD=12", "SUFFIX2=00", "PREFIX3=00", "SHAPE=d", "CLASS=d"]),
        ("3,5-mm", ["SIGNATURE=d,d-x~-mm", "SUFFIX2=mm", "PREFIX3=0,0", "SHAPE=d,d-x", "CLASS=d"]),
        ("", ["SIGNATURE=~", "SUFFIX2=", "PREFIX3=", "SHAPE=", "CLASS="]),
        ("日本", ["SIGNATURE=x~日本", "SUFFIX2=日本", "PREFIX3=日本", "SHAPE=x", "CLASS=x"]),
    ],
)
def test_attributes(word, texts):
    assert of(word) == [hash_of(text) for text in texts]
    shape = "x-" * 6  # at most 12 runs
    assert of("a-" * 20)[3] == hash_of(f"SHAPE={shape}")


def test_hashes_are_part_of_the_model_format():
    assert hash_of("WORD=tora") == word_hash("tora") == 706298944958317466
    assert hash_of("BOUNDARY") == 1771466940530546770
    # Of what no encoding has, there is a hash, too.
    assert 0 <= hash_of("\ud800") < 2**64
