"""Inputs on which the fuzzer of training/reliability failed, made small."""

import numpy as np
import pytest
import spacy
import srsly

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.isbn._network import Network
from spacy_structlearn.isbn._search import Searcher, Workspace
from spacy_structlearn.matching.patterns import compiled
from spacy_structlearn.matching.tregex import MOST_ALTERNATIVES, MOST_DEPTH, parsed
from spacy_structlearn.optimize._dual import epoch
from spacy_structlearn.roles._arguments import outside
from spacy_structlearn.sequence.chain._segments import nest
from spacy_structlearn.sequence.chain.model import ChainModel
from spacy_structlearn.serialization import pack, unpack
from spacy_structlearn.trees._nodes import build
from spacy_structlearn.words._classes import exchange
from spacy_structlearn.words.classes import derive_columns

MOST = 2**63 - 1


def array(dtype):
    return lambda *values: np.array(values, dtype=dtype)


ints, longs, floats, doubles = map(array, (np.int32, np.int64, np.float32, np.float64))

# --- arguments of kernels -------------------------------------------------------------------------
DUAL = {
    "indptr": longs(0, 1, 2),
    "indices": ints(0, 1),
    "data": doubles(1, 2),
    "norms": doubles(1, 4),
    "order": longs(0, 1),
    "c": 1.0,
    "w": np.zeros(2),
    "alpha": np.ones(2),
}
SIZES = {"state_size": 2, "n_labels": 2, "n_tags": 1, "item_offsets": ints(0, 1)}
ARGUMENTS = {"sizes": longs(1), "starts": longs(0), "ends": longs(1), "scores": doubles(1)}
FOREST = {"offsets": longs(0, 1), "starts": ints(0), "ends": ints(1), "tags": True}


def kernel(function):
    return lambda named: function(*named.values())


WRONG = {
    (kernel(epoch), "."): [
        DUAL | wrong
        for wrong in (
            {"indptr": longs()},
            {"indptr": longs(0, 2**62, 2)},
            {"indices": ints()},
            {"indices": ints(0, 2)},
            {"indices": ints(-1, 0)},
            {"norms": doubles(1)},
            {"alpha": np.ones(1)},
            {"order": longs(2)},
            {"order": longs(-1)},
            {"w": np.zeros(1)},
        )
    ],
    (lambda sizes: Network(**sizes), "SL640"): [
        SIZES | wrong
        for wrong in (
            {"n_labels": -1},
            {"n_tags": -1},
            {"n_tags": 2},
            {"n_signatures": -(2**31)},
            {"max_projects": -1},
            {"item_offsets": ints(1, 2)},
            {"item_offsets": ints(5, 1)},
            {"item_offsets": ints()},
        )
    ],
    (kernel(outside), "sizes must add up"): [
        ARGUMENTS | {"sizes": sizes}
        for sizes in (longs(2**62, 2**62), longs(MOST, MOST, 3), longs(-1, 2))
    ],
    (kernel(outside), "spans must not be empty"): [ARGUMENTS | {"ends": longs(MOST)}],
    (kernel(build), "nodes|offsets"): [
        FOREST | {"offsets": longs(0, end)} for end in (-(2**63), MOST, 2**62)
    ],
}
CASES = [(call, match, named) for (call, match), cases in WRONG.items() for named in cases]


@pytest.mark.parametrize(("call", "match", "arguments"), CASES)
def test_arguments_that_do_not_fit(call, match, arguments):
    with pytest.raises(ValueError, match=match):
        call(arguments)


@pytest.mark.parametrize(("call", "arguments"), [(epoch, DUAL)])
def test_arguments_that_are_missing(call, arguments):
    call(*arguments.values())
    for name in arguments:
        with pytest.raises((TypeError, ValueError)):
            call(*(arguments | {name: None}).values())


@pytest.mark.parametrize(
    ("n_weights", "chains"), [(-1, [[0], [1]]), (0, []), (0, [[0], [1], [0]]), (0, [[], [1]])]
)
def test_searchers_that_do_not_fit_their_network(n_weights, chains):
    network = Network(**SIZES)
    weights = np.zeros(network.n_weights + n_weights)
    with pytest.raises(ValueError, match="do not fit the network"):
        Searcher(network, weights, chains, -1)


@pytest.mark.parametrize("wrong", [{"beam": -2}, {"beam": 0}, {"branching": 0}, {"k": 2**30}])
def test_impossible_sizes_of_a_search(wrong):
    network = Network(**SIZES)
    searcher = Searcher(network, np.zeros(network.n_weights), [[0], [1]], -1)
    candidates = longs(0, 1), ints(0), ints(0), ints(-1), doubles(0)
    limits = {"beam": 2, "branching": 2, "k": 1, "max_pops": 10, "margin": 1.0}
    limits["workspace"] = Workspace()
    assert searcher.search(*candidates, *limits.values())
    with pytest.raises(ValueError, match="must be positive"):
        searcher.search(*candidates, *(limits | wrong).values())


def test_brackets_of_any_numbers():
    kept = np.full(2, 7, dtype=np.uint8)
    nest(longs(-(2**63), -(2**63), -(2**63), -(2**63)).reshape(2, 2), longs(0, 5), kept)
    assert kept.tolist() == [0, 0]
    nest(longs(-(2**63), MOST, 0, 2).reshape(2, 2), longs(0, 5), kept)
    assert kept.tolist() == [0, 1]


def test_negative_counts_of_neighbours():
    starts, counts, classes = longs(0, 1, 2), np.zeros((2, 2), dtype=np.int32), ints(0, 0)
    left = starts, ints(1, 0), ints(-(2**31), 1)
    right = starts, ints(1, 0), ints(1, 1)
    with pytest.raises(ValueError, match="a count is negative"):
        exchange(ints(0, 1), *left, *right, ints(0, 0), classes, counts, 2)


# --- stored models --------------------------------------------------------------------------------
def test_a_model_of_another_number_of_columns():
    with pytest.raises(StructlearnError, match="SL204"):
        derive_columns(np.zeros((4, 1), dtype=np.uint64), ["ORTH", "TAG"], None)


def test_a_pruned_model_of_too_many_columns():
    columns = np.zeros((4, 1), dtype=np.uint64)
    data = columns, longs(0, 4), ints(0, 1, 1, 0), ["A", "B"], ["ORTH[0]"], 1
    model = ChainModel.build(*data, order=1, pair_features=False, encoding="none")
    model = model.replaced(margin=1.0)
    version, fields = unpack(model.to_bytes(), ChainModel.kind, ChainModel.readable)
    assert ChainModel.from_bytes(pack(ChainModel.kind, version, fields)) == model
    with pytest.raises(StructlearnError, match="a weight is of no column"):
        ChainModel.from_bytes(pack(ChainModel.kind, version, fields | {"n_columns": 2**32}))


@pytest.mark.parametrize("others", [{}, {"tags": []}])
def test_a_labeler_without_tags_or_lemmas(others):
    labeler = spacy.blank("en").add_pipe("srl_labeler")
    cfg = srsly.json_dumps({**labeler.cfg, "others": others})
    stored = srsly.msgpack_loads(labeler.to_bytes(exclude=["vocab"])) | {"cfg": cfg.encode()}
    with pytest.raises(StructlearnError, match="SL081"):
        labeler.from_bytes(srsly.msgpack_dumps(stored))


# --- patterns -------------------------------------------------------------------------------------
@pytest.mark.parametrize(("opens", "closes"), [("(", ")"), ("NP < (", ")"), ("NP [< ", "]")])
def test_patterns_that_are_nested_too_deeply(opens, closes):
    assert parsed(opens * MOST_DEPTH + "NP" + closes * MOST_DEPTH)
    with pytest.raises(StructlearnError, match=f"at most {MOST_DEPTH} brackets"):
        parsed(opens * 5000 + "NP" + closes * 5000)


@pytest.mark.parametrize("regex", ["(" * 5000 + ")" * 5000, "a{" + "9" * 30 + "}"])
def test_regular_expressions_that_cannot_be_compiled(regex):
    with pytest.raises(StructlearnError, match="a regular expression"):
        parsed(f"/{regex}/")
    with pytest.raises(StructlearnError, match="SL702"):
        compiled([{"RIGHT_ID": "x", "RIGHT_ATTRS": {"LABEL": {"REGEX": regex}}}])


def test_patterns_with_too_many_alternatives():
    with pytest.raises(StructlearnError, match=f"at most {MOST_ALTERNATIVES:,} alternatives"):
        parsed("NP" + " [< A | < B]" * 60)
    assert len(parsed("NP" + " [< A | < B]" * 9)) == 2**9
