"""Arrays of hypergraphs that kernels must refuse."""

import numpy as np


def set_to(name, value):
    return lambda arrays: {**arrays, name: np.asarray(value, arrays[name].dtype)}


def changed(name, place, value):
    def change(arrays):
        array = arrays[name].copy()
        array[place] = value
        return {**arrays, name: array}

    return change


def cut(name, *part):
    return lambda arrays: {**arrays, name: np.ascontiguousarray(arrays[name][part])}


CHANGES = [
    *(set_to("node_offsets", value) for value in ([], [0], [0, 4], [0, -1, 8])),
    set_to("edge_offsets", [0]),
    *(changed("node_offsets", place, value) for place, value in ((0, 1), (1, 10**12))),
    *(changed("edge_offsets", place, value) for place, value in ((0, -1), (1, 10**12))),
    *(changed("begins", place, value) for place, value in ((0, 1), (2, -5), (2, 1000), (-1, 1000))),
    changed("tails", (0, 0), -2),
    changed("tails", (0, 1), 10**9),
    cut("tails", slice(-1)),
    cut("tails", slice(None), slice(1)),
    cut("begins", slice(-1)),
]
