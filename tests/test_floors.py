"""The floors of the house: who may import whom, and that there is no circle.

Imports inside functions count, imports for type checkers do not.
"""

import pytest

from training.benchmarks import house

# A module may import from its own room and from rooms below; families, the floor of 8, never from
# one another. The names without a folder are single modules.
FLOORS = {
    "_build": 0,
    "about": 0,
    "cleanup": 0,
    "errors": 0,
    "groups": 0,
    "kernels": 0,
    "arrays": 1,
    "reading": 1,
    "serialization": 1,
    "writing": 2,
    "optimize": 2,
    "trees": 2,
    "matching": 3,
    "parallel": 3,
    "learning": 4,
    "measures": 4,
    "words": 5,
    "attachment": 6,
    "dependencies": 6,
    "encoder": 6,
    "roles": 7,
    "sequence": 8,
    "classification": 8,
    "grammar": 8,
    "isbn": 8,
    "evaluation": 9,
    "glossary": 9,
    "display": 10,
    "pipeline": 11,
    "serve": 12,
    "cli": 13,
    "__main__": 14,
}
# The same inside grammar.
GRAMMAR = {"treebank": 0, "latent": 1, "chart": 2, "discriminative": 3, "spans": 4, "fragments": 5}
GRAMMAR |= {"fitting": 6}
NO_SPACY = {room for room, floor in FLOORS.items() if floor < FLOORS["display"]}
LAYERS = {"spacy_structlearn.encoder.training", "spacy_structlearn.isbn.training"}


MODULES = house.modules(house.ROOT)
PYTHON = {name: path for name, path in MODULES.items() if path.suffix == ".py"}
IMPORTS = {name: house.imports(name, path) for name, path in PYTHON.items()}


def room(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else ""


def test_every_room_has_a_floor():
    assert {room(name) for name in MODULES} - {""} <= set(FLOORS)


@pytest.mark.parametrize("name", [name for name in PYTHON if room(name)])
def test_no_import_runs_upstairs(name):
    for imported in IMPORTS[name]:
        # `from . import x` of the package itself names no room; the top module is above all.
        if not imported.startswith("spacy_structlearn.") or room(imported) not in FLOORS:
            continue
        here, there = room(name), room(imported)
        assert there == here or FLOORS[there] < FLOORS[here], f"{name} imports {imported}"


def grammar_room(name: str) -> str:
    parts = name.split(".")
    return parts[2] if len(parts) > 2 and parts[1] == "grammar" else ""


def test_every_room_of_grammar_has_a_floor():
    assert {grammar_room(name) for name in MODULES} - {""} == set(GRAMMAR)


@pytest.mark.parametrize("name", [name for name in PYTHON if grammar_room(name)])
def test_no_import_runs_upstairs_in_grammar(name):
    here = grammar_room(name)
    for imported in IMPORTS[name]:
        there = grammar_room(imported)
        if there in GRAMMAR:
            assert there == here or GRAMMAR[there] < GRAMMAR[here], f"{name} imports {imported}"


@pytest.mark.parametrize("name", [name for name in PYTHON if room(name) in NO_SPACY])
def test_families_know_nothing_of_spacy(name):
    roots = {imported.split(".")[0] for imported in IMPORTS[name]}
    # The optimizers of networks are thinc's.
    allowed = {"thinc"} if name in LAYERS else set()
    assert roots & {"spacy", "thinc"} == allowed


@pytest.mark.parametrize("name", [name for name in MODULES if name not in PYTHON])
def test_kernels_use_no_foreign_headers(name):
    lines = MODULES[name].read_text(encoding="utf8").splitlines()
    assert not [line for line in lines if "cimport numpy" in line or "cimport spacy" in line]


def test_no_circle():
    assert house.circles(house.ROOT) == []
