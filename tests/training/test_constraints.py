"""The benchmark of constraints: what is drawn, and how it is checked."""

from training.benchmarks.constraints import MOST, SOURCES, draw, violations

GOLD = [[("S", 0, 4), ("NP", 0, 1), ("VP", 1, 4)], [("S", 0, 2)], []]
OWN = [[("S", 0, 4), ("VP", 1, 4), ("PP", 2, 4)], [("S", 0, 2)], []]


def test_constraints_are_drawn():
    drawn = draw(200, GOLD, OWN, [4, 2, 1])
    assert drawn == draw(200, GOLD, OWN, [4, 2, 1])
    assert sum(len(one.spans) for one in drawn) == 200
    assert all(1 <= len(one.spans) <= MOST for one in drawn)
    assert {one.source for one in drawn} == set(SOURCES)
    for one in drawn:
        if one.source == "own":
            assert not violations(OWN[one.sentence], one.spans)
        if one.source == "gold":
            assert not violations(GOLD[one.sentence], one.spans)
    labels = {span[0] for one in drawn for span in one.spans}
    assert {"", "!", "S", "!PP", "VP"} < labels


def test_what_is_not_met_is_counted():
    met = [("S", 0, 4), ("", 1, 4), ("!NP", 1, 4), ("!", 0, 3), ("!PP", 0, 2)]
    assert violations(OWN[0], met) == 0
    assert violations(OWN[0], [("NP", 1, 4), ("", 0, 2), ("!PP", 2, 4), ("!", 0, 4), *met]) == 4
