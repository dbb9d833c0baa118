"""Base forms of English verbs and nouns.

Like WordNet's morphological processor ("morphy"; Miller 1995, "WordNet: A Lexical Database for
English"), this module has tables of irregular forms and removes endings from all other words.
Morphy removes an ending in every possible way and looks up the results in its dictionary. This
module has no dictionary: the letters before the ending decide ("settl-ed" settle, "hand-ed" hand,
"stopp-ed" stop), and the exceptions are listed. A list of base forms can be given in addition.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping

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
_DROPS = _words("equall gass initiall pedall quizz rivall signall totall")
_KEEPS = _words(
    """
    add boycott butt ebb egg enroll err foretell misspell outsell oversell purr putt resell retell
    undersell unroll
    """
)
_WITH_E = _words(
    """
    c u v z s dg lg rg ag eg ig og ug rang chang lleng aveng eveng plung loung fring cring hing
    bl cl dl fl gl kl pl sl tl zl inhal exhal impal il ol ul yl
    ad ed id od ud uad ib ob ub ak ik ok uk af if
    at creat meat neat delineat ot ut unit invit ignit excit recit incit extradit
    tast wast hast ^past
    complet delet deplet compet obsolet
    am com im um ym in un rven nven contraven postpon ^phon telephon clon condon aton dethron
    ar adher interfer persever coher rever ir quir ur yr
    explor ignor restor ador deplor implor underscor
    ap ip yp telescop massacr ^ach ^ow
    breath bath cloth sooth loath sheath wreath seeth teeth writh
    """
)
_WITHOUT_E = _words(
    """
    ss ^focus ^bias ^gas ^bus ^canvas sync quit
    ail eil oil aul oul ool eal oal eel
    ead eed eid oad aid oid ood oud aud eud eak oak ook eek oof eaf oaf ief
    eat oat ait oot out format combat pilot pivot ballot debut
    eam oam aim eem oom vacuum ain ein oin uin een oon
    ear oar iar air eir oir our eur eer oor collar pillar mortar murmur
    eap oap aip oop oup eep gossip worship
    """
)
_VERB_ENDINGS: Endings = {"s": _third_person, "ed": _past, "ing": _participle}

_IRREGULAR_VERBS = _table(
    """
    be am is are was were been being 's 're 'm ai, have has had having 've, do does did done
    doing, will 'll wo, can ca, arise arose arisen, awake awoke awoken, bear bore borne born, beat
    beaten, become became, begin began begun, bend bent, beset besetting, bet betting, bid
    bidding, bind bound, bite bit bitten, bleed bled, blow blew blown, break broke broken, breed
    bred, bring brought, broadcast, build built, burn burnt, burst, buy bought, cast, catch
    caught, choose chose chosen, cling clung, come came, cost, creep crept, cut cutting, deal
    dealt, die died dies dying, dig dug, dye dyed dyes dyeing, draw drew drawn, dream dreamt,
    drink drank drunk, drive drove driven, dwell dwelt, eat ate eaten, fall fell fallen, feed fed,
    feel felt, fight fought, find found, flee fled, fling flung, fly flew flown flies, forbid
    forbade forbidden, forecast, foresee foresaw foreseen, forget forgot forgotten, forgive
    forgave forgiven, forgo forwent forgone, forsake forsook forsaken, freeze froze frozen, get
    got gotten getting, give gave given, go goes went gone, grind ground, grow grew grown, hang
    hung, hear heard, hide hid hidden, hit hitting, hold held, hurt, keep kept, kneel knelt, knit,
    know knew known, lay laid, lead led, leap leapt, learn learnt, leave left, lend lent, let
    letting, lie lay lain lied lies lying, light lit, lose lost, make made, mean meant, meet met,
    mislead misled, mistake mistook mistaken, misunderstand misunderstood, offset offsetting,
    outdo outdid outdone, overcome overcame, overrun overran overrunning, overhear overheard,
    override overrode overridden, oversee oversaw overseen, overtake overtook overtaken, overthrow
    overthrew overthrown, pay paid, prepay prepaid, picnic picnicked picnicking, panic panicked
    panicking, mimic mimicked mimicking, traffic trafficked trafficking, prove proven, put
    putting, quit quitting, read, rebuild rebuilt, redo redid redone, repay repaid, reset
    resetting, rid ridding, ride rode ridden, ring rang rung, rise rose risen, run ran running,
    say said, see saw seen, seek sought, sell sold, send sent, set setting, sew sewn, shake shook
    shaken, shed shedding, shine shone, shoot shot, show shown, shrink shrank shrunk, shut
    shutting, sing sang sung, ski skis, sink sank sunk, sit sat sitting, sleep slept, slide slid,
    sling slung, smell smelt, sow sown, speak spoke spoken, speed sped, spell spelt, spend spent,
    spill spilt, spin spun, spit spat, split splitting, spoil spoilt, spread, spring sprang
    sprung, stand stood, steal stole stolen, stick stuck, sting stung, stink stank stunk, stride
    strode stridden, strike struck stricken, string strung, strive strove striven, swear swore
    sworn, sweep swept, swell swollen, swim swam swum, swing swung, take took taken, taxi taxis,
    teach taught, tear tore torn, tell told, think thought, throw threw thrown, thrust, tie tied
    ties tying, underlie underlay underlain underlying, undergo undergoes underwent undergone,
    understand understood, undertake undertook undertaken, undo undid undone, uphold upheld, upset
    upsetting, vie vied vies vying, wake woke woken, wear wore worn, weave wove woven, wed
    wedding, weep wept, wet wetting, win won winning, wind wound, withdraw withdrew withdrawn,
    withhold withheld, withstand withstood, wring wrung, write wrote written, agree agreed,
    disagree disagreed, decree decreed, free freed, guarantee guaranteed, referee refereed, ache
    aches, axe axes, cache caches, quiz quizzes, waltz waltzes, canoe canoes, focus focuses
    focusses, bias biases, gas gases, bus buses, veto vetoes, tiptoe tiptoes
    """
) | _unchanged("embed canvas")


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
    _table(
        """
        man men, woman women, child children, grandchild grandchildren, foot feet, tooth
        teeth, goose geese, mouse mice, louse lice, die dice dies, ox oxen, life lives, wife
        wives, housewife housewives, knife knives, leaf leaves, shelf shelves, half halves,
        self selves, wolf wolves, loaf loaves, thief thieves, calf calves, elf elves, scarf
        scarves, hoof hooves, sheaf sheaves, criterion criteria, phenomenon phenomena,
        bacterium bacteria, curriculum curricula, memorandum memoranda, stratum strata,
        spectrum spectra, basis, index indices, matrix matrices, vertex vertices, appendix
        appendices, alumnus alumni, cactus cacti, fungus fungi, locus loci, nucleus nuclei,
        radius radii, stimulus stimuli, syllabus syllabi, alga algae, antenna antennae,
        formula formulae, larva larvae, quiz quizzes
        """
    )
    | _plurals(
        """
        ski taxi alibi ache headache avalanche cache creche mustache moustache niche psyche shoe
        toe foe woe hoe canoe use abuse excuse fuse misuse muse recluse refuse ruse auntie brownie
        calorie cookie genie goalie groupie hippie hoodie junkie magpie movie newbie prairie
        rookie selfie smoothie sortie sweetie talkie veggie zombie
        """,
        "s",
    )
    | _plurals("bias bus gas lens iris atlas canvas waltz", "es")
    | _plurals(
        """
        analysis axis crisis diagnosis emphasis hypothesis oasis parenthesis prognosis synopsis
        synthesis thesis
        """,
        "es",
        "is",
    )
    | _unchanged(
        """
        abdomen acumen omen regimen semen specimen always barracks clothes corps crossroads
        gallows headquarters jeans means news pants scissors series shorts species thanks
        trousers whereabouts aerobics athletics economics electronics ethics genetics
        gymnastics linguistics logistics mathematics obstetrics pediatrics physics politics
        robotics christmas perhaps alas
        """
    )
)
