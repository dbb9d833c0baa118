"""Core arguments of verbs with their roles, as rows of nominal variables.

An item is a node of a gold tree that is a core argument (ARG0 to ARG5, ARGA) of a verb. Arguments
that are not nodes are skipped. The variables are those of the role labeler and `ARGUMENTS`, which
describe the other arguments of the verb: this task assumes that the arguments are known.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import srsly
from numpy.typing import NDArray

from spacy_structlearn.classification import Table
from spacy_structlearn.roles.features import FEATURES, ROLESET, features
from spacy_structlearn.roles.phrases import ArgumentNodes, RoleTrees
from spacy_structlearn.roles.propositions import CORE, ENGLISH, Sentence, read_props
from spacy_structlearn.trees.nodes import Brackets
from training.common.ewt import treebank, tuning_documents

ARGUMENTS = ("arguments", "argument_phrases", "place", "previous_argument", "next_argument")
VARIABLES = (*FEATURES, ROLESET, *ARGUMENTS)
# Phrases whose label is extended by the head word, such as the preposition.
OPENED = frozenset({"PP", "SBAR", "ADVP"})
VERB = -1  # the predicate in a list of nodes of its arguments


class Items(NamedTuple):
    """Core arguments, one per row, with their roles and documents."""

    table: Table
    labels: list[str]
    documents: list[str]

    def take(self, chosen: NDArray[np.bool_]) -> Items:
        """Return the items selected by a mask."""
        rows = np.flatnonzero(chosen)
        labels, documents = ([column[i] for i in rows] for column in self[1:])
        return Items(self.table.take(rows), labels, documents)


class Corpus(NamedTuple):
    """train and tune for model selection, and test for the reported figures. names: of the parts
    in the figures.
    """

    train: Items
    tune: Items
    test: Items
    names: tuple[str, str, str]

    def select(self, variables: Sequence[str]) -> Corpus:
        """Return the corpus with only these variables."""
        parts = (part._replace(table=part.table.select(variables)) for part in self[:3])
        return Corpus(*parts, self.names)

    def without_test(self) -> Items:
        """Return the items of train and tune."""
        table = Table.concatenate([self.train.table, self.tune.table])
        labels, documents = (
            own + other for own, other in zip(self.train[1:], self.tune[1:], strict=True)
        )
        return Items(table, labels, documents)


def read_ewt(corpora: Path) -> Corpus:
    """Read the English Web Treebank: train without the documents of tune.txt, these, and dev."""
    chosen = tuning_documents(corpora)
    train, dev = (list(read_props(treebank(corpora, split)["props"])) for split in ("train", "dev"))
    fit, tune = divided(train, lambda sentence: sentence.document in chosen)
    return corpus((fit, tune, dev), ("train", "tune", "dev"))


def read_wsj(corpora: Path) -> Corpus:
    """Read the WSJ sample: train, dev and test of split.json, by the number of the file."""
    folder = corpora / "wsj_sample"
    splits = srsly.read_json(folder / "split.json")["splits"]
    sentences = list(read_props(folder / "props.conll.gz"))
    parts = []
    for name in ("train", "dev", "test"):
        first, last = splits[name]["files"]
        parts.append([s for s in sentences if first <= int(s.document[-4:]) <= last])
    return corpus(parts, ("train", "tune", "test"))


def divided(
    sentences: Iterable[Sentence], chosen: Callable[[Sentence], bool]
) -> tuple[list[Sentence], list[Sentence]]:
    """Return the sentences that are not chosen, and the chosen ones."""
    parts: tuple[list[Sentence], list[Sentence]] = ([], [])
    for sentence in sentences:
        parts[chosen(sentence)].append(sentence)
    return parts


def corpus(parts: Iterable[Iterable[Sentence]], names: tuple[str, str, str]) -> Corpus:
    gc.freeze()  # without this, repeated traversal of the trees by the collector halves the speed
    return Corpus(*map(items, parts), names)


def items(sentences: Iterable[Sentence]) -> Items:
    """Return all nodes that are core arguments of a verb, with all variables."""
    sentences = list(sentences)
    nodes = RoleTrees(Brackets.of(sentence.tree for sentence in sentences))
    labels, documents, sites, rolesets = [], [], [], []
    first = 0  # token of the sentence
    for sentence in sentences:
        for proposition in sentence.propositions:
            if sentence.tags[proposition.predicate] not in ENGLISH.verbs:
                continue
            core = [piece for piece in proposition.arguments if piece.label in CORE]
            spans = [(label, nodes.node(first + start, first + end)) for label, start, end in core]
            found = [(label, node) for label, node in spans if node is not None]
            if found:
                labels += [label for label, _ in found]
                documents += [sentence.document] * len(found)
                sites.append((first + proposition.predicate, [node for _, node in found]))
                rolesets.append(proposition.roleset)
        first += len(sentence.words)
    columns = dict(
        features(nodes, ArgumentNodes.of(sites), (*FEATURES, ROLESET), rolesets=rolesets)
    )
    among = [argument_columns(nodes, *site) for site in sites]
    for name in ARGUMENTS:
        columns[name] = [value for own in among for value in own[name]]
    return Items(Table.of(columns, VARIABLES), labels, documents)


def argument_columns(
    nodes: RoleTrees, predicate: int, below: Sequence[int]
) -> dict[str, list[str | None]]:
    """Return the variables of the sequence of core arguments of a predicate, including the verb.

    arguments: "NP v [PP-to]", with this argument in brackets, and some head words.
    argument_phrases: the same without words. place: distance from the verb in arguments, -1 for the
    one before it. previous_argument, next_argument: the neighbours, or the verb.
    """
    ordered = [n for _, n in sorted([(predicate, VERB), *((nodes.starts[n], n) for n in below)])]
    phrases = ["v" if node == VERB else nodes.label(node) for node in ordered]
    texts = [
        f"{phrase}-{word_of_head(nodes, node)}" if phrase in OPENED else phrase
        for phrase, node in zip(phrases, ordered, strict=True)
    ]
    columns: dict[str, list[str | None]] = {name: [] for name in ARGUMENTS}
    for node in below:
        place = ordered.index(node)
        values = (
            marked(texts, place),
            marked(phrases, place),
            str(place - ordered.index(VERB)),
            texts[place - 1] if place else None,
            texts[place + 1] if place + 1 < len(texts) else None,
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return columns


def word_of_head(nodes: RoleTrees, node: int) -> str:
    """Return the head word of a node in lower case."""
    return nodes.lower.texts[nodes.lower.codes[nodes.heads[node]]]


def marked(texts: Sequence[str], place: int) -> str:
    """Join the texts, with the one at `place` in brackets."""
    return " ".join([*texts[:place], f"[{texts[place]}]", *texts[place + 1 :]])
