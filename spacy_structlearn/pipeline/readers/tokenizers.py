"""English tokenization by conventions of the Linguistic Data Consortium, with spaCy's Tokenizer.

The English Web Treebank, OntoNotes and CRAFT share these conventions: a hyphen is a token, except
after the affixes of their guidelines (`e-mail`, `non-smoker`, `two-fold`) and in telephone numbers
and dates; a run of punctuation (`!!!`, `----`) is one token, and so is a URL, an e-mail address or
a file name; `don't` is `do` `n't`, and `7pm` is `7` `pm`.

A Tokenizer splits text at white space and applies its rules to each chunk. Prefix and suffix rules
take one affix at a time and see only the rest of the chunk. The scanner here is therefore an infix
rule: `_TOKEN` matches one token after the other, sees both sides of a character, and reads each
chunk once. There are no prefix and suffix rules. `token_match` is a shortcut for plain words, the
most frequent chunks. The exceptions are those of spaCy for English that change anything, mostly
norms (`n't` is `not`), and their forms in capitals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any
from unicodedata import category

from spacy.attrs import IS_SPACE
from spacy.lang.en.tokenizer_exceptions import TOKENIZER_EXCEPTIONS
from spacy.language import Language
from spacy.symbols import NORM, ORTH
from spacy.tokenizer import Tokenizer
from spacy.util import expand_exc

# Characters that are not in words: white space, punctuation and symbols. All others may be:
# letters and their marks in every script, digits, `_`, joiners.
_SIGNS = (
    r"\s\x00-\x2f:-@\[-\^`{-\xa9\xab\xac\xae-\xb1\xb4\xb6-\xb8\xbb\xbf×÷"
    r"\u055a-\u055f\u0589\u05be\u05f3\u05f4\u060c\u061b\u061f\u066a-\u066d\u06d4\u0964\u0965"
    r"\u2010-\u2027\u2030-\u205e\u20a0-\u20cf\u2100-\u214f\u2190-\u2bff\u2e00-\u2e7f"
    r"\u3000-\u3004\u3008-\u3020\u3030\u303d\ufe10-\ufe1f\ufe30-\ufe6f"
    r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\U0001f000-\U0001faff"
)
_L = rf"[^{_SIGNS}\d_]"  # a letter
_X = rf"[^{_SIGNS}_]"  # a letter or a digit
_W = rf"[^{_SIGNS}]"  # a letter, a digit or `_`
_END = rf"(?!{_W})"
_APOSTROPHE = "['’]"

# Affixes that keep their hyphen, according to the guidelines of the treebanks.
_PREFIXES = """
    agro ante anti arch auto bi bio co counter cross cyber eco ex extra hetero hyper inter intra
    macro mal mega micro mid mini mis multi neo non over pan para peri poly post pre pro pseudo
    psycho quasi re semi socio sub super tri ultra un
"""
_SUFFIXES = "esque ette fest fold gate itis less most rama wise"

# Abbreviations that keep their full stop, in addition to spaCy's.
_ABBREVIATIONS = """
    Apt Art Assn Assoc Asst Attn Ave Bldg Blvd Capt Ch Cie Cmdr Col Cpl Cpt Ct Dept Dist Drs Est Esq
    Exh Ext Fig Figs Fr Fri Ft Gt Hist Hon Hwy Inst Jan Jnr Lt Maj Mlle Mme Mon Mssrs Mt Mts Nos
    Para Paras Pkwy Pl Pres Pt Pvt Rd Ref Refs Reps Sat Sec Sens Ser Sgt Snr Spc Sq Sr Ste Subs
    Suppl Supt Thos Thu Thur Thurs Tue Tues Univ Vol Wed Wm Eq Eqs Ph
    al approx arrv asst attn ave bldg blvd ca cf ch chs dept ed eds eg eq eqs esp est ext fig figs
    ft hrs incl lb lbs oz para paras pp pt ref refs resp sec sgt sp spp suppl viz vol vols yrs c p v
"""

_UNITS = """
    am pm AM PM a.m p.m a.m. p.m. m km cm mm nm µm μm l ml g kg mg µg μg lb lbs oz ft in yd yds mi
    mph kph Hz kHz MHz GHz kB KB MB GB TB hr hrs min mins sec secs yr yrs bn mn b k K M MM B x
"""
_EXTENSIONS = """
    com org net edu gov mil int info biz io co uk us de fr eu ca au nz ch jp ai tv me
    asp aspx avi bat bmp cfg cpp css csv dat doc docx eps exe gif gz htm html ini ipynb java
    jpeg jpg js json log md mdb mov mp3 mp4 mpeg pdf php png ppt pptx ps py rar rtf sh sql svg tar
    tex tgz tif tiff ts txt url vsd wav xls xlsx xml yaml yml zip
"""


def _any(words: Iterable[str]) -> str:
    """Make a group that matches the longest of `words`: `(?:J(?:an|ul(?:y)?)|May)`."""
    tails: dict[str, set[str]] = {}
    for word in words:
        tails.setdefault(word[:1], set()).add(word[1:])
    longer = "|".join(
        re.escape(letter) + (_any(tails[letter]) if tails[letter] != {""} else "")
        for letter in sorted(tails.keys() - {""})
    )
    return f"(?:{longer})" + ("?" if "" in tails else "")


_PREFIX = _any(form for word in _PREFIXES.split() for form in (word, word.title()))
_SPACY_ABBREVIATIONS = filter(re.compile(r"[A-Za-z][a-z]+\.").fullmatch, TOKENIZER_EXCEPTIONS)
_ABBREVIATION = _any([*(text[:-1] for text in _SPACY_ABBREVIATIONS), *_ABBREVIATIONS.split()])
_EXTENSION = _any(form for word in _EXTENSIONS.split() for form in (word, word.upper()))
_CLITIC = rf"{_APOSTROPHE}(?:[sSmMdD]|[rRvV][eE]|[lL][lL]){_END}"
# The rest of a URL: round brackets in pairs, no punctuation at its end.
_PART = r"[^\s<>()\"“”]*"
_URL = rf"{_PART}(?:\({_PART}\){_PART})*(?<![.,;:!?'’*`\]\[|])"
# Words that keep their full stop: initials, `U.S.`, `Ph.D.`, abbreviations.
_WITH_FULL_STOP = "|".join(
    (
        rf"(?:[A-Za-z]\.){{2,}}{_END}",
        rf"Ph\.D\.?{_END}",
        r"(?:[A-Z]\.)+(?=[A-Z][a-z])",
        r"[A-HJ-Z]\.(?<!\w..)(?![\w.])",
        rf"{_ABBREVIATION}\.(?![.a-z])",
        r"[Ee]tc\.(?=[),;:'\"])",
    )
)
# Telephone numbers, dates (but not fractions), DOIs, decades, `9-fold`; numbers before a unit.
_WITH_DIGITS = "|".join(
    (
        r"\d+(?=[,.;!?)\"\]”]?\Z)",
        r"\d{1,7}(?:-\d{1,7}){2,6}(?![\w-])",
        r"(?:(?:\d{3}/)?\d{3}|\d{5}|\d)-\d{4}(?![\w-])",
        rf"\d{{1,4}}/\d{{1,2}}/\d{{1,4}}{_END}",
        r"(?![1-3]/[2-48]\b)(?:0?[1-9]|1[0-2])/(?:0[1-9]|[12]\d|3[01]|[1-9])(?![\w/-])",
        rf"10\.\d{{4,6}}/(?=\w){_URL}",
        rf"\d+0{_APOSTROPHE}s{_END}",
        rf"\d+(?:\.\d+)?-fold{_END}",
        rf"\d+(?:,\d{{3}}(?!\d)|[.:]\d+|,\d\d(?=,\d)){{0,20}}"
        rf"(?:(?={_any(_UNITS.split())}{_END})|(?!{_W}|[.:]\d))",
        rf"\d+(?:\.\d+(?={_L}+{_END})|(?=[a-z]{{3,}}{_END}))",
    )
)
# Text after a full stop inside a word: `U.S`, `alt.animals`, `data.XLS`, but not `end.The`.
_INNER = rf"(?:(?<!\w[A-Za-z]\.)(?<=[A-Za-z]\.){_W}|[a-z0-9]|[A-Z](?=[A-Z])){_W}*"
_EMOJI = r"[\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
_EMOJI += r"[\ufe0f\U0001f3fb-\U0001f3ff]*"

# One token: the first alternative that matches, frequent ones first. Each looks ahead only a
# bounded number of characters, so that time is linear in the length of a chunk.
_TOKEN = "|".join(
    (
        # An address of mail, then words with a full stop of their own, then words before a sign
        # that joins them to nothing.
        rf"\w[\w.+%-]{{0,63}}@[A-Za-z][\w-]*(?:\.[\w-]+)*{_END}",
        rf"(?=[A-Za-z]{{1,6}}\.)(?:{_WITH_FULL_STOP})",
        rf"{_L}+(?=[,;!?)\"\]”]|\.?\Z|{_CLITIC})",
        # Signs that are always by themselves, runs of signs.
        r"[)\]}\"“”%]|,(?!,)|\.\Z|\((?!:)",
        r"\.{2,}|(?:[!?]|\.(?!\.)){2,}|…+|''|`{2,}|,{2,}|:{2,}|/{2,}|\\{2,}",
        r"(?!<>|><)[-–—=_*~+|<>^#]{2,}",
        # Contractions.
        _CLITIC,
        rf"[nN]{_APOSTROPHE}[tT]{_END}",
        rf"{_L}+(?=[nN]{_APOSTROPHE}[tT]{_END})",
        rf"`[sS](?<=\w..){_END}",
        rf"{_APOSTROPHE}(?<!\w.)\d\d(?:{_APOSTROPHE}?s)?{_END}",
        # Addresses on the web, names of files, of people and topics on the web.
        rf"[A-Za-z][A-Za-z0-9+.-]{{1,15}}://{_URL}",
        rf"(?:mailto:|www\.)(?=\w){_URL}",
        rf"\w[\w#-]{{0,63}}\.(?:[\w-]{{1,63}}\.){{0,8}}{_EXTENSION}{_END}(?!\.\w)(?:/{_URL})?",
        rf"\.(?<!\w\.){_EXTENSION}{_END}",
        r"/(?<!\w/)(?:[\w.-]{1,63}/)+[\w.-]*\w|~/[\w./-]*\w|[A-Z]:\\[\w.\\-]*\w",
        rf"[@#](?<!\w.){_L}{_W}*",
        # Numbers.
        rf"(?=\d)(?:{_WITH_DIGITS})",
        rf"\.\d+(?<!\w\.){_END}",
        rf"\+(?<!\w.)\d{{1,3}}{_END}",
        # Words with hyphens.
        rf"(?=[A-Za-z]{{1,7}}-\w)(?:[eE]-(?={_L}{_L})|{_PREFIX}-(?!the-)){_W}+(?:(?<=\d)/\d+)?",
        rf"{_L}+-{_any(_SUFFIXES.split())}{_END}",
        rf"{_L}{{2,}}(?=[-–—/:(…]|\.\.)",
        # Words with other signs: a.k.a, AT&T, w/o, C++, sh*t, O'Connor; other words.
        rf"{_W}+\.{_INNER}(?:\.{_INNER})*",
        rf"[A-Za-z]{{1,4}}&[A-Za-z]{_END}",
        r"[A-Za-z]/[A-Za-z](?<!/\w/\w)(?![\w/])",
        r"w/(?:out\b|(?=\w))",
        r"[A-Z]{1,3}\$(?=\d)",
        rf"C\+\+|[CF]#{_END}",
        rf"[a-z]+\*+[a-z]+{_END}",
        rf"{_L}+(?:(?!{_CLITIC}){_APOSTROPHE}{_L}+)+",
        rf"{_X}(?:{_W}*{_X})?",
        # Emoticons and emoji.
        rf"[:;=](?:-|(?<!\w.)['’o]?)(?:[)(\]\[|/\\*]+|[DPpO]{_END})",
        rf">:\(|\(:(?<!\w..)|<3{_END}",
        r"[\U0001f1e6-\U0001f1ff]{2}",
        rf"{_EMOJI}(?:\u200d{_EMOJI})*",
        # Signs of more than one character, any other character.
        r"&(?:[a-z]{2,8}|#\d{1,6});",
        rf"°[CFK]{_END}",
        r"\S",
    )
)

# Exceptions that spaCy does not have, as (token, norm) pairs; they hold with a capital too.
_EXTRA = (
    *(((form, "and"),) for form in ("'n'", "'n")),
    *((("d'", "do"), (form, "you")) for form in ("you", "ya")),
    (("ar", "are"), ("nt", "not")),
    (("du", "do"), ("n", "not"), ("no", "know")),
    (("gim", "give"), ("me", "me")),
    (("lem", "let"), ("me", "me")),
    (("Let", "let"), ("s", "us")),
    (("out", "out"), ("ta", "of")),
    (("wan", "want"), ("na", "to")),
    *((("'t", "it"), (verb, verb)) for verb in ("is", "was")),
)
# spaCy's exceptions that are more often words of their own, or are split differently here.
_LEFT_OUT = {"and/or", "id", "Id", "wed", "Wed", "hed", "Hed", *(f"°{c}." for c in "cfkCFK")}
# Exceptions that are unambiguous in capitals too (`DON'T`, `CANNOT`, but not `ILL`).
_IN_CAPITALS = re.compile(r"(?i)'|n(?:o?t|a)$|ta$")


def create_english_tokenizer() -> Callable[[Language], Tokenizer]:
    """Get a factory of spaCy Tokenizers that split English like its treebanks."""
    return make_english_tokenizer


def make_english_tokenizer(nlp: Language) -> Tokenizer:
    """Make spaCy's Tokenizer for the vocab of `nlp`, with the rules of this module.

    In this vocab, tokens of control and format characters are white space; see `is_blank`.
    """
    vocab: Any = nlp.vocab  # spaCy's stub lacks this attribute
    vocab.lex_attr_getters[IS_SPACE] = is_blank
    scanner = re.compile(_TOKEN).finditer
    words = re.compile(r"[A-Za-z]+\Z").match
    plain = Tokenizer(nlp.vocab, infix_finditer=scanner, token_match=words)
    return Tokenizer(nlp.vocab, rules=_exceptions(plain), infix_finditer=scanner, token_match=words)


def is_blank(text: str) -> bool:
    """Return whether all characters of a token are white space, control or format characters.

    Such a token, for example a byte order mark or a mark of direction by itself, is not a word, so
    that components leave it out like white space: `token.is_space`. Next to a letter, these marks
    belong to its word, as in spaCy.
    """
    return bool(text) and all(c.isspace() or category(c) in ("Cc", "Cf", "Cs") for c in text)


def _exceptions(plain: Tokenizer) -> dict[str, list[dict]]:
    """Get the exceptions that change the tokens of the `plain` tokenizer, or their norms.

    The others would cost time, because a Tokenizer looks for exceptions in every Doc."""
    exceptions = {
        text: tokens
        for text, tokens in TOKENIZER_EXCEPTIONS.items()
        # The patterns cover the others.
        if (len(tokens) > 1 or NORM in tokens[0]) and text not in _LEFT_OUT
    }
    for (first, norm), *rest in _EXTRA:
        for spelled in (first, first.title()):
            pairs = ((spelled, norm), *rest)
            exceptions["".join(orth for orth, _ in pairs)] = [{ORTH: o, NORM: n} for o, n in pairs]
    for text in [text for text in exceptions if _IN_CAPITALS.search(text)]:
        exceptions[text.upper()] = [
            {ORTH: token[ORTH].upper(), NORM: token.get(NORM, token[ORTH].lower())}
            for token in exceptions[text]
        ]
    exceptions = expand_exc(exceptions, "'", "’")
    return {text: tokens for text, tokens in exceptions.items() if _changes(plain, text, tokens)}


def _changes(plain: Tokenizer, text: str, tokens: list[dict]) -> bool:
    """Check whether an exception changes the tokens or norms of the `plain` tokenizer."""
    cut = list(plain(text))
    if [token.text for token in cut] != [token[ORTH] for token in tokens]:
        return True
    return any(NORM in new and new[NORM] != old.norm_ for old, new in zip(cut, tokens, strict=True))
