"""Array functions that several rooms share."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.arrays import Coded, cumulative, followed, ranges

COLUMNS = st.lists(st.none() | st.text(max_size=2))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4))))
def test_ranges(pairs):
    starts, sizes = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    wanted = [i for start, size in pairs for i in range(start, start + size)]
    assert ranges(starts, sizes).tolist() == wanted
    assert cumulative(sizes).tolist() == [sum(sizes[:i]) for i in range(len(sizes) + 1)]


@given(COLUMNS, st.data())
def test_coded_columns(values, data):
    column = Coded.of(values)
    assert list(column) == values
    assert len(column) == len(values)
    assert column.texts[-1] is None
    assert len(set(column.texts)) == len(column.texts)
    rows = data.draw(st.lists(st.sampled_from(range(len(values))))) if values else []
    assert list(column.at(np.array(rows, dtype=np.intp))) == [values[row] for row in rows]
    doubled = [None if value is None else 2 * value for value in values]
    assert list(column.map(lambda text: 2 * text)) == doubled


@given(st.lists(st.integers(0, 20), min_size=1))
def test_chains_are_followed_to_their_ends(steps):
    links = np.array([max(i - step, 0) for i, step in enumerate(steps)])
    wanted = []
    for place in range(len(links)):
        while links[place] != place:
            place = links[place]
        wanted.append(place)
    assert followed(links).tolist() == wanted
