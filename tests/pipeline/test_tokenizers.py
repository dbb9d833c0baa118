"""The tokenizer of the treebanks: what it cuts, that it loses nothing, that it is spaCy's own."""

import pickle
import time
from unicodedata import category

import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st

CONFIG = {"nlp": {"tokenizer": {"@tokenizers": "spacy_structlearn.english_tokenizer.v1"}}}
NLP = spacy.blank("en", config=CONFIG)

# The tokens of each text, with blanks between them.
TEXTS = {
    "runs of signs": [
        ("Wait!!! What?!? No... yes.....", "Wait !!! What ?!? No ... yes ....."),
        ("Really...? Yes.!", "Really ... ? Yes .!"),
        ("----- ***** _____ ==== >>> --> ~~", "----- ***** _____ ==== >>> --> ~~"),
        ("(see it)), <>", "( see it ) ) , < >"),
        ("so -- you know--it", "so -- you know -- it"),
        ("and…more … end…", "and … more … end …"),
    ],
    "quotes": [
        ('He said, "Go!" (now).', 'He said , " Go ! " ( now ) .'),
        ("She said “Go”. ‘No,’ he said.", "She said “ Go ” . ‘ No , ’ he said ."),
        ("``Old'' 'quotes'", "`` Old '' ' quotes '"),
        ("text—with – dashes", "text — with – dashes"),
    ],
    "contractions": [
        ("I don't, can't, won't.", "I do n't , ca n't , wo n't ."),
        ("I don’t think we’ve (it’s) you’re", "I do n’t think we ’ve ( it ’s ) you ’re"),
        ("DON'T I'M SHE'S", "DO N'T I 'M SHE 'S"),
        ("shouldn't've who'd", "should n't 've who 'd"),
        ("dont cant its id Wed im", "do nt ca nt its id Wed i m"),
        ("cannot gonna wanna gotta gimme", "can not gon na wan na got ta gim me"),
        ("the dogs' bone, James's, mama`s", "the dogs ' bone , James 's , mama `s"),
        ("O'Connor o'clock rock'n'roll 'em", "O'Connor o'clock rock'n'roll 'em"),
        ("'tis c'mon d'you fish 'n' chips", "'t is c'm on d' you fish 'n' chips"),
    ],
    "hyphens": [
        ("e-mail E-mails e-mailed.", "e-mail E-mails e-mailed ."),
        ("co-operate re-elect non-profit", "co-operate re-elect non-profit"),
        ("post-war mid-week mid-1980s pre-9/11", "post-war mid-week mid-1980s pre-9/11"),
        ("two-fold 10-fold 2.5-fold", "two-fold 10-fold 2.5-fold"),
        ("a well-known 15-year-old", "a well - known 15 - year - old"),
        ("over-the-counter UN-led", "over - the - counter UN - led"),
        ("-item x- self-help", "- item x - self - help"),
    ],
    "numbers": [
        ("713-555-0123, 555-0123 (713) 555-0123", "713-555-0123 , 555-0123 ( 713 ) 555-0123"),
        ("2004-05-06 12/25/2004 5/16 9/11", "2004-05-06 12/25/2004 5/16 9/11"),
        ("1/2 cup, 24/7, 1999-2000, 5-6", "1 / 2 cup , 24 / 7 , 1999 - 2000 , 5 - 6"),
        ("$1.2B US$4.50 £3 €20 20%", "$ 1.2 B US$ 4.50 £ 3 € 20 20 %"),
        ("1,000,000 3.14 .5 [1,2] 2:3", "1,000,000 3.14 .5 [ 1 , 2 ] 2:3"),
        ("10am 7:30PM 7 p.m. 5:00-6:30", "10 am 7:30 PM 7 p.m. 5:00 - 6:30"),
        ("5km 35mm. 3.5kg 100W 3D 2nd 90s", "5 km 35 mm . 3.5 kg 100W 3D 2nd 90s"),
        ("the '90s, 1990's, 37 °C 5°C.", "the '90s , 1990's , 37 °C 5 °C ."),
        ("$5-$10 -5 ±3 p<0.05", "$ 5 - $ 10 - 5 ± 3 p < 0.05"),
    ],
    "full stops": [
        ("Mr. Hill, Dr. Wu, St. Ives.", "Mr. Hill , Dr. Wu , St. Ives ."),
        ("J. R. Hill, J.K. Wu and S.Hill", "J. R. Hill , J.K. Wu and S. Hill"),
        ("the U.S.-based U.N., a Ph.D.", "the U.S. - based U.N. , a Ph.D."),
        ("e.g. this, i.e., fig. 3, p.5", "e.g. this , i.e. , fig. 3 , p. 5"),
        ("(cakes, etc.) and etc.", "( cakes , etc. ) and etc ."),
        ("So did I. No. She sat.", "So did I . No . She sat ."),
        ("the end.The next", "the end . The next"),
        ("Version 1.2.3 of v2.0", "Version 1.2.3 of v2.0"),
    ],
    "addresses": [
        ("See http://x.org/a_(b)?q=1&r=2.", "See http://x.org/a_(b)?q=1&r=2 ."),
        ("(https://x.org/), www.x.org!", "( https://x.org/ ) , www.x.org !"),
        ("x.com/a, x.co.uk's", "x.com/a , x.co.uk 's"),
        ("<me@x.org> a.b@x-y.com.", "< me@x.org > a.b@x-y.com ."),
        ("my-file.txt, A1.DOC. main.py", "my-file.txt , A1.DOC . main.py"),
        ("a .pdf in /usr/share/doc", "a .pdf in /usr/share/doc"),
        ("#topic @name, item #1", "#topic @name , item # 1"),
        ("doi 10.1000/xyz.123.", "doi 10.1000/xyz.123 ."),
    ],
    "signs in words": [
        ("and/or he/she w/o w/milk", "and / or he / she w/o w/ milk"),
        ("AT&T R&D C++ C# foo_bar", "AT&T R&D C++ C# foo_bar"),
        ("account(s) A+ &amp;", "account ( s ) A + &amp;"),
    ],
    "Markdown": [
        ("**bold** _word_ `code`", "** bold ** _ word _ ` code `"),
        ("# Title\n- item\n1. item", "# Title \n - item \n 1 . item"),
        ("[a link](http://x.org/y).", "[ a link ] ( http://x.org/y ) ."),
    ],
    "emoji": [
        ("ok👍🏽 👨‍👩‍👧 🇩🇪🇫🇷 ❤️", "ok 👍🏽 👨‍👩‍👧 🇩🇪 🇫🇷 ❤️"),
        (":) ;-) :( =) :D <3", ":) ;-) :( =) :D <3"),
        ("(as here): (yes:)", "( as here ) : ( yes : )"),
    ],
    "science": [
        ("IL-2, NF-κB, TGF-β1", "IL - 2 , NF - κB , TGF - β1"),
        ("anti-CD3 p53-dependent 3'-UTR", "anti-CD3 p53 - dependent 3 ' - UTR"),
        ("H₂O at 5mg/ml, 10µm", "H₂O at 5 mg / ml , 10 µm"),
    ],
    "scripts": [
        ("naïve Größe e\u0301te\u0301.", "naïve Größe e\u0301te\u0301 ."),
        ("नमस्ते दुनिया। Москва", "नमस्ते दुनिया । Москва"),
    ],
}
CASES = [(text, tokens) for cases in TEXTS.values() for text, tokens in cases]


def words(text, nlp=NLP):
    return [token.text for token in nlp.tokenizer(text)]


@pytest.mark.parametrize(("text", "tokens"), CASES, ids=[text for text, _ in CASES])
def test_texts_are_cut_as_in_the_treebanks(text, tokens):
    assert words(text) == tokens.split(" ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(don't)", ["(", "do", "not", ")"]),
        ("CAN’T", ["can", "not"]),
        ("won't", ["will", "not"]),
        ("let's", ["let", "us"]),
        ("wanna", ["want", "to"]),
        ("Jan.", ["January"]),
        ("9pm", ["9", "p.m."]),
    ],
)
def test_norms_are_those_of_spacy(text, expected):
    # spaCy leaves the apostrophe of a few as it is.
    norms = [token.norm_.replace("’", "'") for token in NLP.tokenizer(text)]
    assert norms == expected


# fmt: off
PIECES = st.sampled_from([
    "a", "The", "don't", "-", "'s", "’", ".", "...", "!", "(", ")", "1", "2.5", "http://", "@", "#",
    "\u0301", "\u200d", "👍", "_", "/", " ", "  ", "\n", "\n\n", "\t", "\xa0", '"', "e-", "&amp;",
])
# fmt: on


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES | st.text(max_size=5), max_size=12).map("".join))
def test_nothing_of_the_text_is_lost(text):
    doc = NLP.tokenizer(text)
    assert "".join(token.text_with_ws for token in doc) == text
    assert all(token.text for token in doc)
    assert not any(token.text.strip() != token.text for token in doc if not token.is_space)


# fmt: off
UNITS = [
    "a", "!", "-", "a-", "http://", ".", "(", "'", "n't", "1-", "1.", "1:", "1,", "1/", "_", "a_",
    "a.", "@", "a@", "x@y.", "<>", "*", "a/", ":(", "e-", "\\", "www.a(", "👍\u200d", "=",
]
# fmt: on


@pytest.mark.parametrize("unit", UNITS)
def test_time_is_linear_in_the_length_of_a_chunk(unit):
    """This takes hundredths of a second, and would take many seconds in quadratic time."""
    for end in ("", "x", "-", "\u0903"):
        text = (unit * 20_000)[:20_000] + end
        start = time.process_time()
        doc = NLP.tokenizer(text)
        assert time.process_time() - start < 1.0
        assert doc.text == text


def test_it_is_saved_with_its_rules(tmp_path):
    NLP.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    assert loaded.config["nlp"]["tokenizer"] == CONFIG["nlp"]["tokenizer"]
    read = spacy.blank("en").from_disk(tmp_path)  # rules are data: any Tokenizer can read them
    copy = pickle.loads(pickle.dumps(NLP))
    for text, tokens in CASES:
        for nlp in (NLP, loaded, read, copy):
            assert words(text, nlp) == tokens.split(" ")
    assert loaded.tokenizer.to_bytes() == NLP.tokenizer.to_bytes()


# --- control and format characters ----------------------------------------------------------------
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4))
def test_tokens_of_control_and_format_characters_are_white_space(text):
    odd = {"Cc", "Cf", "Zs", "Zl", "Zp"}
    assert NLP.vocab[text].is_space == all(category(character) in odd for character in text)
    doc = NLP(text)
    assert doc.text == text
    if NLP.vocab[text].is_space:
        assert all(token.is_space for token in doc)


def test_marks_next_to_a_letter_belong_to_its_word():
    doc = NLP("\ufeffThe dog\u200f \u202e barked\x00.")
    assert [token.text for token in doc if not token.is_space] == [
        "\ufeffThe", "dog\u200f", "barked", "."
    ]  # fmt: skip
    # Like all of spaCy's tokenizers: others do not know these characters.
    assert not spacy.blank("en").vocab["\u202e"].is_space
