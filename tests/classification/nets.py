"""Models in short, and Bayes nets with dictionaries: what arrays and kernel are compared with."""

from math import exp, log

import numpy as np
from hypothesis import strategies as st

from spacy_structlearn.attachment.sites import normalized
from spacy_structlearn.classification import BayesNetSettings, LogLinearSettings, training
from spacy_structlearn.classification.features import Table
from spacy_structlearn.classification.nets.counts import JointCounts
from spacy_structlearn.classification.trainers import fit
from spacy_structlearn.pipeline.readers import read_pp_quadruples

VARIABLES = ("a", "b", "c")
VALUES = ("x", "y", "z", "w", None)
LABELS = ("N", "O", "V")


class Untrained:
    """Settings with a method that fits them."""

    def __init__(self, settings):
        self.settings = settings

    def fit(self, *data, **options):
        return fit(self.settings, *data, **options)


def bayes_net(structure="search", **settings):
    return Untrained(BayesNetSettings(structure=structure, **settings))


def log_linear(templates="single", **settings):
    return Untrained(LogLinearSettings(templates=templates, **settings))


def left_out(net, rows, labels):
    """log P(x_i, y) of the training instances, each left out of the counts."""
    table = Table.of(rows, net.variables).select(net.used)
    ids = [net.labels.index(label) for label in labels]
    return net.scores_left_out(JointCounts(table, ids, net.labels))


def learned(settings, data, labels=()):
    """What a trainer learns, from the start to its end."""
    return end(training.trainer(settings, training.initialize(settings, data, labels), data))


def end(trainer):
    while trainer.step():
        pass
    return trainer.parameters()


class SlowNet:
    """Tables of labelled rows as section 2.1 of Toutanova (2006) defines them.

    rows: tuples of values; labels: one for each. order: how many values each variable has, by its
    place, and the class, by None, when that is not to be counted in the rows themselves.
    """

    def __init__(self, rows, labels, order=None):
        self.data = [(*row, label) for row, label in zip(rows, labels, strict=True)]
        self.n_variables = len(rows[0]) if rows else 0
        self.order = order or {
            None: len(set(labels)),
            **{i: len({row[i] for row in rows}) for i in range(self.n_variables)},
        }

    def value(self, row, i):
        """i is the place of a variable; None is the class."""
        return row[-1] if i is None else row[i]

    def contexts(self, variable, parents):
        """The variables of each level's context, from none to all."""
        if variable is None:
            return [[]]
        kept = [None, *sorted(parents)]
        levels = [list(kept)]
        while kept:
            most = max(self.order[i] for i in kept)
            # Of those with the most values the last is dropped; the class is the first of all.
            kept.remove([i for i in kept if self.order[i] == most][-1])
            levels.append(list(kept))
        return levels[::-1]

    def probability(self, variable, parents, row, d):
        """P(value | parents, class) of a row with its label at the end; d None: the ablation."""
        z = self.value(row, variable)
        p = uniform = 1 / (len({self.value(other, variable) for other in self.data}) + 1)
        levels = self.contexts(variable, parents)
        for k, context in enumerate(levels):
            inside = [
                self.value(other, variable)
                for other in self.data
                if all(self.value(other, i) == self.value(row, i) for i in context)
            ]
            c, t, f = len(inside), len(set(inside)), inside.count(z)
            if d is not None and c:
                weight = c / (c + d[k] * t)
                p = weight * f / c + (1 - weight) * p
            elif d is None and k == len(levels) - 1:
                p = 0.9 * f / c + 0.1 * uniform if c else uniform
        return p

    def log_joint(self, row, label, structure, d=None, smoothing="witten_bell"):
        """log P(x, y). structure: {place: places of parents}; d: {place: [...]}, or ones."""
        total = 0.0
        for variable, parents in {None: (), **structure}.items():
            ones = [1.0] * len(self.contexts(variable, parents))
            chosen = ones if d is None else d[variable]
            chosen = None if smoothing == "uniform" else chosen
            total += log(self.probability(variable, parents, (*row, label), chosen))
        return total


def joint_counts(rows, labels):
    ids = np.array([LABELS.index(label) for label in labels], dtype=np.int64)
    return JointCounts(Table.of(rows, VARIABLES), ids, LABELS)


def own_scores(scores, labels, names):
    """Of each row that of its own label."""
    return scores[np.arange(len(labels)), [names.index(label) for label in labels]]


def accuracy(model, rows, labels):
    return np.mean([a == b for a, b in zip(model.predict(rows), labels, strict=True)])


def quadruples(corpora, name):
    """Rows and labels of a file of Ratnaparkhi, Reynar & Roukos (1994)."""
    words, labels = zip(*read_pp_quadruples(corpora / "ppattach" / name), strict=True)
    return Table.of(list(map(normalized, words)), ("v", "n1", "p", "n2")), list(labels)


def slow_left_out(rows, labels, names, structure, **settings):
    """log P(x_i, y) with counts of all other instances, by counting them anew each time."""
    order = SlowNet(rows, labels).order
    scores = []
    for i, row in enumerate(rows):
        others = [j for j in range(len(rows)) if j != i]
        net = SlowNet([rows[j] for j in others], [labels[j] for j in others], order)
        scores.append([net.log_joint(row, name, structure, **settings) for name in names])
    return scores


def slow_accuracy(scores, labels, names):
    """How many instances have the best score for their own label."""
    best = []
    for row in scores:
        # Sums in another order differ in the last digits: what is as good is the first.
        best.append(next(n for n, s in zip(names, row, strict=True) if s > max(row) - 1e-9))
    return sum(a == b for a, b in zip(best, labels, strict=True)) / max(1, len(labels))


def slow_log_likelihood(scores, labels, names):
    total = 0.0
    for row, label in zip(scores, labels, strict=True):
        total += row[names.index(label)] - log(sum(map(exp, row)))
    return total


def named(structure):
    """A structure of places with the names of VARIABLES."""
    return {VARIABLES[i]: tuple(VARIABLES[j] for j in of) for i, of in structure.items()}


@st.composite
def tables(draw, min_size=1, max_size=14, n_labels=3):
    """Rows of three values and their labels, with few values, so that many tuples come twice."""
    value, label = st.sampled_from(VALUES), st.sampled_from(LABELS[:n_labels])
    size = draw(st.integers(min_size, max_size))
    rows = draw(st.lists(st.tuples(value, value, value), min_size=size, max_size=size))
    return rows, draw(st.lists(label, min_size=size, max_size=size))


@st.composite
def structures(draw):
    """{place: places of parents} without a cycle, in order of placement; some are left out."""
    order = draw(st.permutations(range(len(VARIABLES))))
    used = order[: draw(st.integers(0, len(order)))]
    return {
        i: tuple(sorted(draw(st.sets(st.sampled_from(used[:k]))) if k else ()))
        for k, i in enumerate(used)
    }
