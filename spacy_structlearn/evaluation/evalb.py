"""Bracket scores of constituency trees (Black et al. 1991), as computed by the program EVALB.

EVALB (Sekine & Collins 1997) with its parameter file COLLINS.prm is the standard for the Penn
Treebank. Of what it reports, this module has labelled precision and recall of brackets, exact match
and tagging accuracy, for all sentences and for those of at most 40 words.

In addition to EVALB, there is a strict view, which counts sentences that EVALB drops as missed, and
an option to delete punctuation by the gold tags, so that no sentence is dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, compress, zip_longest

from ..errors import StructlearnError
from ..trees.normalize import strip_function
from ..trees.tree import Tree
from .prf import Span, SpanScore, check_numbers, score_spans, span_score

# The status of a sentence in EVALB: scored, remaining words differ, no predicted word remains.
SCORED, ERROR, SKIPPED = 0, 1, 2


@dataclass(frozen=True)
class EvalbParameters:
    """The parameter file of EVALB. All properties of a treebank are in these parameters.

    deleted: DELETE_LABEL. Leaves with these tags are deleted. Phrases with these labels lose their
        bracket, and phrases without remaining words are deleted.
    uncounted: DELETE_LABEL_FOR_LENGTH. Tags that do not count in the length of a sentence (traces).
    equal_labels: EQ_LABEL. Groups of equivalent labels; the first one represents the group.
    separators: Labels of phrases are cut at the first of these characters (`strip_function`).
    """

    deleted: frozenset[str] = frozenset()
    uncounted: frozenset[str] = frozenset()
    equal_labels: tuple[tuple[str, ...], ...] = ()
    separators: str = "-="

    @cached_property
    def _same(self) -> dict[str, str]:
        """Map each of `equal_labels` to the label that represents it."""
        return {label: group[0] for group in reversed(self.equal_labels) for label in group}

    @cached_property
    def _deleted_phrases(self) -> frozenset[str]:
        return frozenset(map(self.same, self.deleted))

    def same(self, label: str) -> str:
        """Return the label that represents the equivalent labels."""
        return self._same.get(label, label)

    def bracket_label(self, label: str) -> str | None:
        """Return the label under which a phrase is scored, or None if its bracket is deleted."""
        label = self.same(strip_function(label, self.separators))
        return None if label in self._deleted_phrases else label


COLLINS = EvalbParameters(
    deleted=frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."}),
    uncounted=frozenset({"-NONE-"}),
    equal_labels=(("ADVP", "PRT"),),
)


@dataclass(frozen=True)
class Row:
    """The counts of one sentence.

    id: Number of the sentence, from 1.
    length: Number of words of the gold tree, with punctuation and without traces.
    status: 0 scored, 1 error (the remaining words differ), 2 skipped (no predicted word remains).
    brackets: Counts of brackets, in total and per label.
    words: Number of remaining words of the gold tree.
    correct_tags: Number of these words that have the gold tag in the predicted tree.
    """

    id: int
    length: int
    status: int
    brackets: SpanScore = field(default_factory=SpanScore)
    words: int = 0
    correct_tags: int = 0


@dataclass(frozen=True)
class EvalbScore:
    """The figures of EVALB, in percent as it prints them, and 0 if undefined.

    sentences: All sentences with all brackets and words, including dropped ones (see `rows`).
    counts_failures: Whether dropped sentences count as missed (see `strict`).
    """

    sentences: tuple[Row, ...]
    counts_failures: bool = False

    @property
    def strict(self) -> EvalbScore:
        """The same score, with errors and unparsed sentences counted as missed.

        Their gold brackets are missed, their predicted brackets and tags are wrong, and they are no
        complete matches.
        """
        return replace(self, counts_failures=True)

    def up_to(self, length: int) -> EvalbScore:
        """Restrict the score to sentences of at most `length` words."""
        return replace(self, sentences=tuple(row for row in self.sentences if row.length <= length))

    @cached_property
    def rows(self) -> list[Row]:
        """One row for each sentence; dropped sentences have counts of 0 unless failures count."""
        if self.counts_failures:
            return list(self.sentences)
        return [
            row if row.status == SCORED else replace(row, brackets=SpanScore(), words=0)
            for row in self.sentences
        ]

    @cached_property
    def brackets(self) -> SpanScore:
        """Counts summed over the rows."""
        correct, predicted, gold = Counter[str](), Counter[str](), Counter[str]()
        for row in self.rows:
            for label, counts in row.brackets.per_label.items():
                correct[label] += counts.correct
                predicted[label] += counts.predicted
                gold[label] += counts.gold
        return span_score(correct, predicted, gold)

    @property
    def recall(self) -> float:
        """Percentage of gold brackets that were predicted."""
        return _percent(self.brackets.correct, self.brackets.gold)

    @property
    def precision(self) -> float:
        """Percentage of predicted brackets that are gold."""
        return _percent(self.brackets.correct, self.brackets.predicted)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 100 * self.brackets.f1

    @property
    def tag_accuracy(self) -> float:
        """Percentage of remaining words that have the gold tag."""
        words = sum(row.words for row in self.rows)
        return _percent(sum(row.correct_tags for row in self.rows), words)

    @property
    def complete_match(self) -> float:
        """Percentage of sentences whose brackets all match."""
        # A sentence of only punctuation cannot be missed, so `strict` does not count it either.
        strict = sum(row.status != SKIPPED or row.words > 0 for row in self.sentences)
        scored = [row.brackets for row in self.sentences if row.status == SCORED]
        complete = sum(counts.gold == counts.predicted == counts.correct for counts in scored)
        return _percent(complete, strict if self.counts_failures else self.valid)

    @property
    def valid(self) -> int:
        """Number of sentences scored."""
        return sum(row.status == SCORED for row in self.sentences)

    @property
    def errors(self) -> int:
        """Number of sentences dropped because the remaining words differ."""
        return sum(row.status == ERROR for row in self.sentences)

    @property
    def skipped(self) -> int:
        """Number of sentences dropped without a predicted word, including unparsed ones."""
        return sum(row.status == SKIPPED for row in self.sentences)


def score_trees(
    gold: Iterable[Tree],
    predicted: Iterable[Tree | None],
    parameters: EvalbParameters = COLLINS,
    *,
    punctuation: str = "own",
) -> EvalbScore:
    """Score predicted trees against gold trees in the same order.

    An outer bracket counts unless its label is `deleted`, so it must have the same label on both
    sides (`normalize` uses TOP). Sentences without remaining words are skipped.

    predicted: The trees; None for an unparsed sentence.
    punctuation: "own" deletes words by the tags of their own tree, as EVALB does, and drops
        sentences whose remaining words differ. "gold" deletes the words that are deleted in the
        gold tree from both trees; `uncounted` words of either tree are deleted first.

    Raises StructlearnError if the numbers of trees differ, or with "gold", if the words differ.
    """
    if punctuation not in ("own", "gold"):
        raise StructlearnError("SL307", value=punctuation)
    gold, predicted = list(gold), list(predicted)
    check_numbers(gold, predicted, "trees")
    by_gold = punctuation == "gold"
    pairs = enumerate(zip(gold, predicted, strict=True), 1)
    rows = (_score(number, a, b, parameters, by_gold) for number, (a, b) in pairs)
    return EvalbScore(tuple(rows))


def brackets(
    tree: Tree, parameters: EvalbParameters = COLLINS, *, kept: Sequence[bool] | None = None
) -> list[Span]:
    """Return the scored brackets as (label, start, end) in pre-order.

    start and end count the remaining words; end is exclusive. A unary chain has several brackets
    with the same words.
    kept: Whether each leaf remains. None: all but those with deleted tags.
    """
    kept = kept_words(tree.leaves(), parameters) if kept is None else kept
    before = list(accumulate(kept, initial=0))
    return [
        (name, before[start], before[end])
        for label, start, end in tree.spans()
        if before[start] < before[end] and (name := parameters.bracket_label(label)) is not None
    ]


def _score(
    number: int, gold: Tree, predicted: Tree | None, parameters: EvalbParameters, by_gold: bool
) -> Row:
    leaves, others = gold.leaves(), predicted.leaves() if predicted is not None else []
    length = sum(leaf.label not in parameters.uncounted for leaf in leaves)
    kept, others_kept = kept_words(leaves, parameters), kept_words(others, parameters)
    if predicted is not None and by_gold:
        others_kept = kept_as_in_gold(leaves, others, parameters, number)
    wanted = brackets(gold, parameters, kept=kept)
    given = [] if predicted is None else brackets(predicted, parameters, kept=others_kept)
    leaves, others = list(compress(leaves, kept)), list(compress(others, others_kept))
    if not others or [leaf.word for leaf in leaves] != [leaf.word for leaf in others]:
        return Row(
            number,
            length,
            ERROR if others else SKIPPED,
            score_spans([wanted, []], [[], given]),
            words=len(leaves),
        )
    same = parameters.same
    pairs = zip(leaves, others, strict=True)
    return Row(
        number,
        length,
        SCORED,
        score_spans([wanted], [given]),
        len(leaves),
        sum(a.label == b.label or same(a.label) == same(b.label) for a, b in pairs),
    )


def kept_words(leaves: Sequence[Tree], parameters: EvalbParameters) -> list[bool]:
    """Return whether each leaf is counted."""
    return [leaf.label not in parameters.deleted for leaf in leaves]


def kept_as_in_gold(
    leaves: Sequence[Tree], others: Sequence[Tree], parameters: EvalbParameters, number: int
) -> list[bool]:
    """Return whether each of `others` is kept: as its gold leaf is; traces are not aligned."""
    gold = [leaf for leaf in leaves if leaf.label not in parameters.uncounted]
    given = [leaf for leaf in others if leaf.label not in parameters.uncounted]
    for place, (a, b) in enumerate(zip_longest(gold, given)):
        if a is None or b is None or a.word != b.word:
            raise StructlearnError(
                "SL306",
                sentence=number,
                place=place + 1,
                gold=None if a is None else a.word,
                predicted=None if b is None else b.word,
            )
    kept = iter(kept_words(gold, parameters))
    return [leaf.label not in parameters.uncounted and next(kept) for leaf in others]


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
