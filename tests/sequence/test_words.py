"""Columns that are made of the spelling of words, against slices of strings."""

from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_structlearn.sequence.layout.words import is_word_column, word_columns


@settings(max_examples=30)
@given(st.lists(st.text(max_size=8)))
def test_affixes_are_equal_where_those_of_the_words_are(words):
    names = ("PREFIX1", "PREFIX3", "SUFFIX2", "SUFFIX5")
    columns = word_columns(words, names)
    lower = [word.lower() for word in words]
    for name, column in zip(names, columns.T, strict=True):
        n = int(name[-1])
        texts = [
            "" if len(word) <= n else word[:n] if name.startswith("P") else word[-n:]
            for word in lower
        ]
        ids = dict(zip(texts, column.tolist(), strict=True))
        assert len(set(ids.values())) == len(ids)
        assert [ids[text] for text in texts] == column.tolist()
        assert ids.get("", 0) == 0


def test_flags():
    expected = {
        "The": 4 + 1024,
        "the": 1024,
        "USA": 4 + 8 + 16,
        "A": 4,
        "ÉTÉ": 4 + 8 + 16,
        "iPod": 16 + 1024,
        "e-mail": 2 + 1024,
        "U.S.": 4 + 8 + 16 + 64,
        "3rd": 1 + 1024,
        "1990": 1 + 512,
        "1/2": 1 + 256 + 512,
        "!!": 32,
        "a@b": 128 + 1024,
        "don't": 1024 + 2048,
        "": 32,
    }
    assert word_columns(list(expected), ["FLAGS"])[:, 0].tolist() == list(expected.values())


def test_symbols_never_change():
    # They are in the models that are out in the world.
    columns = word_columns(["Cats", "ÉTÉ"], ("PREFIX2", "SUFFIX1"))
    assert columns.tolist() == GOLDEN


GOLDEN = [[17926784202484934754, 17349591320303641314], [4777484188119879250, 16642747858552157993]]


def test_names():
    assert [name for name in NAMES if is_word_column(name)] == NAMES[:4]


NAMES = ["PREFIX1", "SUFFIX16", "PREFIX4", "FLAGS", "PREFIX", "SUFFIX0", "SUFFIX17", "SHAPE"]
