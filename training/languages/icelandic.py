"""Train two Icelandic pipelines of tags and trees, on GreynirCorpus and on IcePaHC.

    python corpora/fetch.py greynir icepahc
    python -m training.languages.icelandic

The gold trees of GreynirCorpus are of news and government texts of 2015 to 2021, those of IcePaHC
of texts of nine centuries. Their labels differ, so each has its own pipeline. --record also scores
the test sets, and writes training/results/languages.json.
"""

import re

from training.languages.common import Treebank, main

CASES = frozenset({"nf", "þf", "þgf", "ef"})
FORMS = frozenset({"fh", "vh", "nh", "bh", "lhþt", "lhnt", "sagnb"})


def greynir_tag(tag: str) -> str:
    """Return the category of a tag of GreynirCorpus with the case, or the form of a verb and the
    number of its objects, without gender, number, person and other features."""
    category, *features = tag.split("_")
    if category == "so":
        objects = features[:1] if features[:1] and features[0].isdigit() else []
        kept = [*objects, *(feature for feature in features if feature in FORMS)]
    else:
        kept = [feature for feature in features if feature in CASES]
    return "_".join([category, *kept])


def icepahc_tag(tag: str) -> str:
    """Return a tag of IcePaHC without indices and notes."""
    return re.sub(r"[-=](\d+|[A-Z]{2,})$", "", tag)


GREYNIR = Treebank(
    corpus="greynir",
    prefix="icelandic.greynir",
    lang="is",
    name="greynir_sm",
    tag=greynir_tag,
    parser={"grammar.rounds": 4},
    source={
        "name": "GreynirCorpus, gold standard",
        "url": "https://github.com/mideind/GreynirCorpus",
        "license": "CC BY 4.0",
        "author": "Miðeind ehf.",
    },
)
ICEPAHC = Treebank(
    corpus="icepahc",
    prefix="icelandic.icepahc",
    lang="is",
    name="icepahc_sm",
    tag=icepahc_tag,
    limit=15_000,  # of 54,558, so that training takes less than half an hour
    parser={"grammar.rounds": 4, "grammar.grammars": 2, "folds": 3},
    source={
        "name": "IcePaHC, the Icelandic Parsed Historical Corpus",
        "url": "https://github.com/antonkarl/icecorpus",
        "license": "CC BY 4.0",
        "author": "Joel C. Wallenberg, Anton Karl Ingason and others",
    },
)

BANKS = (GREYNIR, ICEPAHC)

if __name__ == "__main__":
    main(__doc__, BANKS)
