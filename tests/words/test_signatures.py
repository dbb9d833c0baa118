import pytest

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.words import signatures


@pytest.mark.parametrize(
    ("word", "initial", "signature"),
    [
        ("Zorbing", True, "UNK-INITC-ing"),
        ("The", True, "UNK-INITC-KNOWNLC"),
        ("Zorbing", False, "UNK-CAPS-ing"),
        ("USX", True, "UNK-CAPS"),
        ("zorbed", False, "UNK-LC-ed"),
        ("zorbs", False, "UNK-LC-s"),
        ("zorbss", False, "UNK-LC"),
        ("1980s", False, "UNK-LC-NUM-s"),
        ("12.5", False, "UNK-NUM"),
        ("5B", False, "UNK-CAPS-NUM"),
        ("well-known", False, "UNK-LC-DASH"),
        ("A4-sized", False, "UNK-CAPS-NUM-DASH"),
        ("nationality", False, "UNK-LC-ity"),
        ("happily", False, "UNK-LC-ly"),
        ("fly", False, "UNK-LC"),
        ("...", False, "UNK"),
        ("", False, "UNK"),
    ],
)
def test_english_signatures(word, initial, signature):
    assert signatures.english_signature(word, initial, {"the"})[0] == signature


def test_signatures_of_shape_are_of_any_language():
    chain = ("lower ιος", "lower ος", "lower ς", "lower")
    assert signatures.shape_signature("πλοίαριος", False, {}) == chain
    assert signatures.shape_signature("Ab", True, {})[-1] == "Initial"
    assert signatures.shape_signature("Ab", False, {})[-1] == "Title"
    assert signatures.shape_signature("B52", False, {})[0] == "Title+digit b00"
    assert signatures.shape_signature("e-mail", False, {})[0] == "lower+mark ail"
    assert signatures.shape_signature("東京", False, {})[0] == "lower 東京"
    assert signatures.shape_signature("", False, {}) == ("none",)


def test_typography():
    assert signatures.typographic("“", 0)[0] == "``"
    assert signatures.typographic('"', 0)[0] == "``"
    assert signatures.typographic('"', 1)[0] == "''"
    assert signatures.typographic("—", 0)[0] == "--"
    assert "(" in signatures.typographic("[", 0)
    assert signatures.typographic("don’t", 0) == ("don't",)
    assert signatures.typographic("word", 0) == ()


@pytest.mark.parametrize("name", ["typographic", "", None, 3])
def test_what_is_not_registered(name):
    with pytest.raises(StructlearnError, match=r"SL405.*signature.*english, shape"):
        signatures.registered(signatures.SIGNATURES, "signature", name)
