"""Base forms of English verbs and nouns.

Like WordNet's morphological processor ("morphy"; Miller 1995, "WordNet: A Lexical Database for
English"), this module has tables of irregular forms and removes endings from all other words.
Morphy removes an ending in every possible way and looks up the results in its dictionary. This
module has no dictionary: the letters before the ending decide ("settl-ed" settle, "hand-ed" hand,
"stopp-ed" stop), and the exceptions are listed. A list of base forms can be given in addition. Two
libraries were not better, with and without learned exceptions (training/pipeline/morphology.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

Lemmatizer = Callable[[str, str], str]
"""Maps a word and its tag to its base form."""
Endings = Mapping[str, Callable[[str], list[str]]]


def english_lemmas() -> Lemmatizer:
    """Return the function `lemma`, for English. This is a registered function."""
    return lemma


def lemma(word: str, tag: str, known: Collection[str] = ()) -> str:
    """Return the base form of a word, in lower case for verbs and common nouns.

    tag: its Penn Treebank tag. Only verbs (VB..., MD, AUX...) and common nouns (NN, NNS) are
        changed; "VB" may stand for all tags of verbs and "NN" for the plural too.
    known: base forms in lower case. A word in this list stays unchanged, and of several ways to
        remove an ending one that leads to such a word is preferred. Irregular forms come first.
    """
    if tag[:2] in ("VB", "MD", "AU"):
        return _lemma(word.lower(), _IRREGULAR_VERBS, _VERB_ENDINGS, known)
    if tag in ("NN", "NNS"):
        return _lemma(word.lower(), _IRREGULAR_NOUNS, _NOUN_ENDINGS, known)
    return word


def lower(word: str, tag: str) -> str:
    """Return the word in lower case, in place of a base form."""
    return word.lower()


def _lemma(
    word: str, irregular: Mapping[str, str], endings: Endings, known: Collection[str]
) -> str:
    """Return the base form of a word in lower case.

    endings: for each ending, in the order in which they are tried, a function that returns the
        possible base forms of a word, the likeliest first; no forms if this is not its ending.
    """
    first, hyphen, last = word.rpartition("-")
    if last in irregular:
        return first + hyphen + irregular[last]
    if word in known or not last.isalpha():
        return word
    for ending, bases in endings.items():
        if last.endswith(ending):
            candidates = [first + hyphen + base for base in bases(last)] or [word]
            return next((base for base in candidates if base in known), candidates[0])
    return word


def _table(text: str) -> dict[str, str]:
    """Return a map from form to base form. Entries, a base form and its other forms, are separated
    by commas.
    """
    table: dict[str, str] = {}
    for entry in text.split(","):
        base, *forms = entry.split()
        for form in (base, *forms):
            table.setdefault(form, base)
    return table


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _plurals(text: str, plural: str, singular: str = "") -> dict[str, str]:
    """Return a map from form to base form of nouns with the ending `plural` for `singular`."""
    bases = text.split()
    return _unchanged(text) | {base.removesuffix(singular) + plural: base for base in bases}


def _unchanged(text: str) -> dict[str, str]:
    return {word: word for word in text.split()}


def _lists() -> dict[str, str]:
    """Return the lists of the file of irregular forms, by their headings."""
    path = Path(__file__).parents[1] / "data" / "english_lemmas.txt"
    parts = re.split(r"^# (.*)\n", path.read_text(encoding="utf8"), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


_LISTS = _lists()


# --- verbs ----------------------------------------------------------------------------------------
def _third_person(word: str) -> list[str]:
    """ "takes", "goes", "tries"."""
    if len(word) < 4 or word.endswith(("ss", "us", "is")):
        return []
    if word.endswith("ies"):
        return [word[:-3] + "y", word[:-1]]
    if word.endswith(("sses", "shes", "ches", "xes", "zzes", "oes")):
        return [word[:-2], word[:-1]]
    return [word[:-1], word[:-2]] if word.endswith("es") else [word[:-1]]


def _past(word: str) -> list[str]:
    """ "talked", "liked", "tried"."""
    if word.endswith("ied"):
        return [word[:-3] + "y", word[:-1]]
    if word.endswith("eed") or not _VOWEL.search(word[:-2]):
        return []
    return _regular(word[:-2])


def _participle(word: str) -> list[str]:
    """ "talking", "liking", "stopping"."""
    return _regular(word[:-3]) if _VOWEL.search(word[:-3]) else []


def _regular(stem: str) -> list[str]:
    """Return verbs with this stem before -ed and -ing ("talk", "lik", "stopp"), likeliest first."""
    if stem[-2:-1] == stem[-1:] and stem[-1] in "bdfglmnprstz":
        bases = [stem[:-1], stem]
        keep = stem not in _DROPS and (stem in _KEEPS or _keeps_double(stem))
        return bases[::-1] if keep else bases
    bases = [stem, stem + "e"]
    return bases[::-1] if _lost_e(stem) else bases


def _keeps_double(stem: str) -> bool:
    """ "pass-ed", "call-ed", "recall-ed", but "stopp-ed", "controll-ed", "cancell-ed"."""
    return stem[-1] in "fsz" or (stem[-1] == "l" and not _DROPS_L.search(stem))


def _lost_e(stem: str) -> bool:
    """Whether an e was lost before the ending.

    Stems of one syllable with one vowel and one consonant have always lost an e, or the consonant
    would be doubled ("hop-ing" versus "hopp-ing"). For other stems the longest matching entry of
    the two lists decides; ^ marks the beginning of a word.
    """
    if _ONE_SYLLABLE.fullmatch(stem) and stem not in _WITHOUT_E:
        return True
    marked = f"^{stem}"
    for start in range(len(marked)):
        if marked[start:] in _WITH_E or marked[start:] in _WITHOUT_E:
            return marked[start:] in _WITH_E
    return False


_VOWEL = re.compile(r"[aeiou]|.y")
_ONE_SYLLABLE = re.compile(r"(?:qu|[^aeiouyq]|^y)*[aeiouy][^aeiouwxyh]")
_DROPS_L = re.compile(r"[aeiou].*[eo]ll")
_DROPS = _words(_LISTS["stems of verbs that drop a doubled consonant"])
_KEEPS = _words(_LISTS["stems of verbs that keep one"])
_WITH_E = _words(_LISTS["ends of stems that lost an e, ^ at the beginning of a word"])
_WITHOUT_E = _words(_LISTS["ends of stems that lost none"])
_VERB_ENDINGS: Endings = {"s": _third_person, "ed": _past, "ing": _participle}

_IRREGULAR_VERBS = _table(_LISTS["verbs: a base form and its other forms, separated by commas"])
_IRREGULAR_VERBS |= _unchanged(_LISTS["verbs that are base forms"])


# --- nouns ----------------------------------------------------------------------------------------
def _plural(word: str) -> list[str]:
    """ "ducks", "boxes", "cities"."""
    if word.endswith("ies") and len(word) == 4:
        return [word[:-1]]
    if word.endswith("uses"):
        bases = [word[:-1], word[:-2]]
        return bases if word.endswith(("auses", "ouses")) else bases[::-1]
    return _third_person(word)


def _men(word: str) -> list[str]:
    """ "salesmen"."""
    return [word[:-2] + "an"]


_NOUN_ENDINGS: Endings = {"s": _plural, "men": _men}

_IRREGULAR_NOUNS = (
    _table(_LISTS["nouns: a base form and its other forms, separated by commas"])
    | _plurals(_LISTS["nouns with the plural in s"], "s")
    | _plurals(_LISTS["nouns with the plural in es"], "es")
    | _plurals(_LISTS["nouns with the plural in es for is"], "es", "is")
    | _unchanged(_LISTS["nouns that are base forms"])
)
