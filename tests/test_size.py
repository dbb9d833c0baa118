"""The number of lines of every room. The limits only fall.

What comes in pays by what leaves. A limit is lowered when its room has become smaller by a tenth.
To raise one is a decision: the commit that does it says why, and what went in exchange.
"""

from collections import Counter

import pytest

from training.benchmarks import house

LIMITS = {
    "spacy_structlearn": 1_330,
    "spacy_structlearn/attachment": 760,
    "spacy_structlearn/classification": 3_900,
    "spacy_structlearn/cli": 2_460,
    "spacy_structlearn/display": 1_320,
    "spacy_structlearn/evaluation": 960,
    "spacy_structlearn/grammar": 3,
    "spacy_structlearn/grammar/chart": 4_990,
    "spacy_structlearn/grammar/discriminative": 1_710,
    "spacy_structlearn/grammar/fragments": 2_250,
    "spacy_structlearn/grammar/latent": 2_540,
    "spacy_structlearn/grammar/spans": 1_880,
    "spacy_structlearn/grammar/treebank": 1_760,
    "spacy_structlearn/isbn": 3_520,
    "spacy_structlearn/kernels": 1_110,
    "spacy_structlearn/learning": 920,
    "spacy_structlearn/matching": 830,
    "spacy_structlearn/optimize": 760,
    "spacy_structlearn/parallel": 250,
    "spacy_structlearn/pipeline": 3_690,
    "spacy_structlearn/pipeline/extensions": 1_910,
    "spacy_structlearn/pipeline/readers": 750,
    "spacy_structlearn/pipeline/storage": 480,
    "spacy_structlearn/pipeline/training": 1_000,
    "spacy_structlearn/roles": 1_640,
    "spacy_structlearn/sequence": 290,
    "spacy_structlearn/sequence/chain": 2_480,
    "spacy_structlearn/sequence/estimators": 3_170,
    "spacy_structlearn/sequence/layout": 1_100,
    "spacy_structlearn/trees": 1_350,
    "spacy_structlearn/words": 1_010,
    "tests": 2_700,
    "tests/attachment": 520,
    "tests/classification": 2_020,
    "tests/cli": 2_400,
    "tests/contracts": 2_320,
    "tests/corpora": 1_080,
    "tests/corpora_sample": 113,
    "tests/display": 1_260,
    "tests/evaluation": 920,
    "tests/grammar": 7_670,
    "tests/isbn": 2_420,
    "tests/kernels": 51,
    "tests/learning": 65,
    "tests/matching": 700,
    "tests/optimize": 450,
    "tests/parallel": 210,
    "tests/pipeline": 5_950,
    "tests/roles": 830,
    "tests/sequence": 3_040,
    "tests/training": 490,
    "tests/trees": 680,
    "tests/words": 440,
    "training": 520,
    "training/benchmarks": 3_200,
    "training/beyond": 640,
    "training/common": 1_510,
    "training/languages": 420,
    "training/papers": 4_910,
    "training/pipeline": 1_620,
    "training/reliability": 2_000,
}
MAX_FILES = 12  # in a folder of the package
MAX_LINES = 500  # of a Python file of the package
MAX_README = 9_000  # bytes
DEEP = ("spacy_structlearn/grammar/", "spacy_structlearn/pipeline/", "spacy_structlearn/sequence/")


def room(path: str) -> str:
    """Return the room of a file: the first folder, or two in the large rooms; "" in no folder."""
    depth = 3 if path.startswith(DEEP) else 2
    return "/".join(path.split("/")[:-1][:depth])


LINES = Counter[str]()
for path, number in house.lines(house.ROOT).items():
    LINES[room(path)] += number


def test_every_room_has_a_limit():
    assert LINES.keys() == LIMITS.keys()


@pytest.mark.parametrize("name", LIMITS)
def test_lines(name):
    assert LINES[name] <= LIMITS[name]
    assert LINES[name] > 0.9 * LIMITS[name], "lower the limit"


def test_files():
    sizes = house.sizes(house.ROOT)
    assert sizes["files_per_room_max"] <= MAX_FILES
    assert sizes["largest_file.python"] <= MAX_LINES
    assert sizes["readme_kb"] <= MAX_README / 1000
