"""Bracket scoring of constituency trees (Black et al. 1991) as the program EVALB (Sekine & Collins
1997) does it with its parameter file COLLINS.prm, which is what published figures for the Penn
Treebank mean: labelled precision and recall of brackets, exact match, crossing brackets, tagging
accuracy, over all sentences and over those of at most 40 words.

Beyond EVALB: a strict view, in which sentences that EVALB drops count as missed; punctuation taken
from the gold tags, so that none is dropped; and brackets over characters, for text with another
tokenisation or other sentence boundaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, compress, zip_longest

from ..errors import StructlearnError
from ..trees.normalize import strip_function
from ..trees.tree import Tree
from .prf import PRF, Span, SpanScore, score_spans

# EVALB's status of a sentence: scored; the words that remain differ; no predicted word remains.
SCORED, ERROR, SKIPPED = 0, 1, 2


@dataclass(frozen=True)
class EvalbParameters:
    """What EVALB reads from a parameter file; nothing in the functions below knows a treebank.

    deleted (DELETE_LABEL): a leaf with such a tag is deleted with its word, a phrase with such a
    label loses its bracket only; a phrase left without words vanishes. uncounted
    (DELETE_LABEL_FOR_LENGTH): tags that do not count in the length of a sentence, those of traces.
    equal_labels (EQ_LABEL): groups of labels that count as the same, the first stands for all.
    separators: what follows the first of them in a label of a phrase is cut (`strip_function`).
    labelled (LABELED): whether labels count at all. cutoff (CUTOFF_LEN): the length, in words, up
    to which `EvalbScore.report` gives a second summary. quote_labels (QUOTE_LABEL): tags mistaken
    for each other on `quote_words`; where one tree deletes such a word, the other keeps it, and the
    two keep different numbers of words, both keep it.
    """

    deleted: frozenset[str] = frozenset()
    uncounted: frozenset[str] = frozenset()
    equal_labels: tuple[tuple[str, ...], ...] = ()
    separators: str = "-="
    labelled: bool = True
    cutoff: int = 40
    quote_labels: frozenset[str] = frozenset()
    quote_words: frozenset[str] = frozenset({"'", '"', "/"})

    @cached_property
    def _same(self) -> dict[str, str]:
        """The label that stands for each of `equal_labels`."""
        return {label: group[0] for group in reversed(self.equal_labels) for label in group}

    @cached_property
    def _deleted_phrases(self) -> frozenset[str]:
        return frozenset(map(self.same, self.deleted))

    def same(self, label: str) -> str:
        """The label that stands for this one and those equal to it."""
        return self._same.get(label, label)

    def bracket_label(self, label: str) -> str | None:
        """The label under which a phrase is scored, None if its bracket is deleted."""
        label = self.same(strip_function(label, self.separators))
        if label in self._deleted_phrases:
            return None
        return label if self.labelled else ""


COLLINS = EvalbParameters(
    deleted=frozenset({"TOP", "-NONE-", ",", ":", "``", "''", "."}),
    uncounted=frozenset({"-NONE-"}),
    equal_labels=(("ADVP", "PRT"),),
)


@dataclass(frozen=True)
class Row:
    """One sentence.

    id: counted from 1. length: words of the gold tree, punctuation counted, traces not. status: 0
    scored, 1 error (the words left by the deletions differ), 2 skipped (no predicted word is left).
    brackets: the counts, per label as well. crossing: predicted brackets that cross a gold one,
    whatever their labels. words: those left in the gold tree, of which correct_tags have the gold
    tag in the predicted tree. parsed: whether there is a predicted tree.
    """

    id: int
    length: int
    status: int
    brackets: SpanScore = field(default_factory=SpanScore)
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0
    parsed: bool = True

    @property
    def matched(self) -> int:
        """Brackets both gold and predicted."""
        return self.brackets.correct

    @property
    def gold(self) -> int:
        """Brackets of the gold tree."""
        return self.brackets.gold

    @property
    def test(self) -> int:
        """Brackets of the predicted tree."""
        return self.brackets.predicted

    @property
    def recall(self) -> float:
        """matched / gold in percent."""
        return _percent(self.matched, self.gold)

    @property
    def precision(self) -> float:
        """matched / test in percent."""
        return _percent(self.matched, self.test)

    @property
    def tag_accuracy(self) -> float:
        """correct_tags / words in percent."""
        return _percent(self.correct_tags, self.words)

    @property
    def complete(self) -> bool:
        """Whether the sentence is scored and all its brackets match."""
        return self.status == SCORED and self.gold == self.test == self.matched

    def __str__(self) -> str:
        return (
            f"{self.id:4d}  {self.length:3d}    {self.status:d}  {self.recall:6.2f} "
            f"{self.precision:6.2f}   {self.matched:3d}    {self.gold:3d}  {self.test:3d}    "
            f"{self.crossing:3d}   {self.words:4d}  {self.correct_tags:4d}   "
            f"{self.tag_accuracy:6.2f}"
        )


@dataclass(frozen=True)
class EvalbScore:
    """The figures of EVALB, from 0 to 100 as it prints them (average crossing: brackets a
    sentence), 0 where undefined.

    sentences: every sentence with all its brackets and words, dropped ones too; `rows` is what
    counts. counts_failures: whether dropped sentences count as missed (see `strict`). cutoff: the
    length, in words, of the second summary of `report`.
    """

    sentences: tuple[Row, ...]
    counts_failures: bool = False
    cutoff: int = 40

    @property
    def strict(self) -> EvalbScore:
        """The same with errors and unparsed sentences counted: their gold brackets missed, their
        predicted brackets and their tags wrong, and none of them a complete match. Crossing
        brackets are still those of scored sentences, lest failures count as sentences without any.
        """
        return replace(self, counts_failures=True)

    def up_to(self, length: int) -> EvalbScore:
        """The same over the sentences of at most `length` words."""
        return replace(self, sentences=tuple(row for row in self.sentences if row.length <= length))

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each sentence; all counts of a dropped one are 0 unless failures count."""
        if self.counts_failures:
            return list(self.sentences)
        return [
            row if row.status == SCORED else replace(row, brackets=SpanScore(), words=0)
            for row in self.sentences
        ]

    @cached_property
    def brackets(self) -> SpanScore:
        """The counts summed over the rows."""
        return _sum(row.brackets for row in self.rows)

    def labels(self) -> dict[str, PRF]:
        """Counts and fractions (from 0 to 1) for each label, in alphabetical order."""
        return self.brackets.per_label

    @property
    def recall(self) -> float:
        """Gold brackets that were predicted."""
        return _percent(self.brackets.correct, self.brackets.gold)

    @property
    def precision(self) -> float:
        """Predicted brackets that are gold."""
        return _percent(self.brackets.correct, self.brackets.predicted)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def complete_match(self) -> float:
        """Sentences whose brackets all match."""
        # A sentence of nothing but punctuation cannot be missed, so not even `strict` counts it.
        strict = self._count(lambda row: row.status != SKIPPED or row.words > 0)
        sentences = strict if self.counts_failures else self.valid
        return _percent(self._count(lambda row: row.complete), sentences)

    @property
    def tag_accuracy(self) -> float:
        """Words that have the gold tag, deleted ones not counted."""
        return _percent(self._total("correct_tags"), self._total("words"))

    @property
    def average_crossing(self) -> float:
        """Crossing brackets a sentence."""
        return self._total("crossing") / self.valid if self.valid else 0.0

    @property
    def no_crossing(self) -> float:
        """Sentences without crossing brackets."""
        return self._crossing_at_most(0)

    @property
    def two_or_less_crossing(self) -> float:
        """Sentences with at most two crossing brackets."""
        return self._crossing_at_most(2)

    @property
    def valid(self) -> int:
        """Number of sentences scored."""
        return self._count(lambda row: row.status == SCORED)

    @property
    def errors(self) -> int:
        """Number of sentences dropped because the words left by the deletions differ."""
        return self._count(lambda row: row.status == ERROR)

    @property
    def skipped(self) -> int:
        """Number of sentences dropped because no predicted word is left, unparsed ones included."""
        return self._count(lambda row: row.status == SKIPPED)

    @property
    def n_failed(self) -> int:
        """Number of sentences without a predicted tree."""
        return self._count(lambda row: not row.parsed)

    def report(self) -> str:
        """The text that EVALB prints: a row a sentence, the totals, and the figures of all
        sentences and of those of at most `cutoff` words.
        """
        rule = "=" * 76
        total = (
            f"{'':16}{self.recall:6.2f} {self.precision:6.2f} {self.brackets.correct:6d} "
            f"{self.brackets.gold:5d} {self.brackets.predicted:5d}  {self._total('crossing'):5d}  "
            f"{self._total('words'):5d} {self._total('correct_tags'):5d}   {self.tag_accuracy:6.2f}"
        )
        lines = [
            "  Sent.                        Matched  Bracket   Cross        Correct Tag",
            " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy",
            rule,
            *map(str, self.rows),
            rule,
            total,
            "=== Summary ===",
            "",
            "-- All --",
            *self._summary(),
            "",
            f"-- len<={self.cutoff} --",
            *self.up_to(self.cutoff)._summary(),
        ]
        return "\n".join(lines)

    def _summary(self) -> list[str]:
        return [
            f"Number of sentence        = {len(self.sentences):6d}",
            f"Number of Error sentence  = {self.errors:6d}",
            f"Number of Skip  sentence  = {self.skipped:6d}",
            f"Number of Valid sentence  = {self.valid:6d}",
            f"Bracketing Recall         = {self.recall:6.2f}",
            f"Bracketing Precision      = {self.precision:6.2f}",
            f"Bracketing FMeasure       = {self.f1:6.2f}",
            f"Complete match            = {self.complete_match:6.2f}",
            f"Average crossing          = {self.average_crossing:6.2f}",
            f"No crossing               = {self.no_crossing:6.2f}",
            f"2 or less crossing        = {self.two_or_less_crossing:6.2f}",
            f"Tagging accuracy          = {self.tag_accuracy:6.2f}",
        ]

    def _count(self, condition: Callable[[Row], bool]) -> int:
        return sum(map(condition, self.sentences))

    def _total(self, count: str) -> int:
        return sum(getattr(row, count) for row in self.rows)

    def _crossing_at_most(self, most: int) -> float:
        fine = self._count(lambda row: row.status == SCORED and row.crossing <= most)
        return _percent(fine, self.valid)


def score_trees(
    gold: Iterable[Tree],
    predicted: Iterable[Tree | None],
    parameters: EvalbParameters = COLLINS,
    *,
    punctuation: str = "own",
) -> EvalbScore:
    """Score predicted trees against gold ones, in the same order; None is an unparsed sentence.

    Trees are scored as they stand: an outer bracket with a label that is not `deleted` counts, so
    name it alike on both sides (`normalize` calls it TOP).

    punctuation: "own" deletes words by the tags of the tree they stand in, as EVALB does; sentences
    whose remaining words then differ are dropped. "gold" deletes the same words, those deleted in
    the gold tree, from both, whatever the predicted tags; words are counted without the `uncounted`
    ones of either tree, which are deleted. A sentence without a word left is always skipped. Raises
    SL301 if the numbers of trees differ, SL306 where the words differ and the gold tags are to be
    used (the sentence is named, counted from 1), SL307 for any other `punctuation`.
    """
    if punctuation not in ("own", "gold"):
        raise StructlearnError("SL307", value=punctuation)
    gold, predicted = list(gold), list(predicted)
    if len(gold) != len(predicted):
        raise StructlearnError("SL301", gold=len(gold), predicted=len(predicted), what="trees")
    by_gold = punctuation == "gold"
    pairs = enumerate(zip(gold, predicted, strict=True), 1)
    rows = (_score(number, a, b, parameters, by_gold) for number, (a, b) in pairs)
    return EvalbScore(tuple(rows), cutoff=parameters.cutoff)


def brackets(tree: Tree, parameters: EvalbParameters = COLLINS) -> list[Span]:
    """The brackets that are scored, (label, start, end) in pre-order.

    start and end count the words left by the deletions, end is exclusive. A unary chain gives
    several brackets with the same words.
    """
    return _brackets(tree, _kept(tree.leaves(), parameters), parameters)


def offset_brackets(
    tree: Tree, offsets: Sequence[tuple[int, int]], parameters: EvalbParameters = COLLINS
) -> list[Span]:
    """The brackets of a sentence as (label, start, end) in characters, for `score_offset_brackets`.

    offsets: (start, end) of each leaf in the document; those of deleted leaves do not matter. Words
    are deleted by their tags in this tree. A bracket begins with its first word that is left, and
    ends with its last; one without characters is left out. Raises SL308 unless there is one pair of
    offsets for each leaf.
    """
    leaves = tree.leaves()
    if len(offsets) != len(leaves):
        raise StructlearnError("SL308", offsets=len(offsets), leaves=len(leaves))
    kept = _kept(leaves, parameters)
    places = list(compress(offsets, kept))
    return [
        (label, places[start][0], places[end - 1][1])
        for label, start, end in _brackets(tree, kept, parameters)
        if places[start][0] != places[end - 1][1]
    ]


def score_offset_brackets(
    gold_docs: Sequence[Iterable[Span]], predicted_docs: Sequence[Iterable[Span]]
) -> SpanScore:
    """Score brackets over the characters of documents, which may be tokenised and split into
    sentences differently on the two sides.

    Each document is the collection of the brackets of all its sentences (see `offset_brackets`);
    one without a tree contributes none. The offsets of both sides must count the same characters,
    and, where white space may differ, no white space (see `character_spans`). Returns counts and
    fractions (from 0 to 1). Raises SL301 if the numbers of documents differ, SL309 for an empty
    bracket.
    """
    gold_docs, predicted_docs = list(map(list, gold_docs)), list(map(list, predicted_docs))
    for spans in (*gold_docs, *predicted_docs):
        for span in spans:
            if not 0 <= span[1] < span[2]:
                raise StructlearnError("SL309", span=span)
    return score_spans(gold_docs, predicted_docs)


def _score(
    number: int, gold: Tree, predicted: Tree | None, parameters: EvalbParameters, by_gold: bool
) -> Row:
    leaves, others = gold.leaves(), predicted.leaves() if predicted is not None else []
    length = sum(leaf.label not in parameters.uncounted for leaf in leaves)
    kept, others_kept = _kept(leaves, parameters), _kept(others, parameters)
    if predicted is not None and by_gold:
        others_kept = _kept_as_in_gold(leaves, others, parameters, number)
    elif parameters.quote_labels and sum(kept) != sum(others_kept):
        _keep_quotes(leaves, kept, others, others_kept, parameters)
    wanted = _brackets(gold, kept, parameters)
    given = _brackets(predicted, others_kept, parameters) if predicted is not None else []
    leaves, others = list(compress(leaves, kept)), list(compress(others, others_kept))
    if not others or [leaf.word for leaf in leaves] != [leaf.word for leaf in others]:
        return Row(
            number,
            length,
            ERROR if others else SKIPPED,
            _sum([score_spans([wanted], [[]]), score_spans([[]], [given])]),
            words=len(leaves),
            parsed=predicted is not None,
        )
    same = parameters.same
    pairs = zip(leaves, others, strict=True)
    return Row(
        number,
        length,
        SCORED,
        score_spans([wanted], [given]),
        _crossing(wanted, given, len(leaves)),
        len(leaves),
        sum(a.label == b.label or same(a.label) == same(b.label) for a, b in pairs),
    )


def _kept(leaves: Sequence[Tree], parameters: EvalbParameters) -> list[bool]:
    """Whether each leaf stays, by its own tag."""
    return [leaf.label not in parameters.deleted for leaf in leaves]


def _kept_as_in_gold(
    leaves: Sequence[Tree], others: Sequence[Tree], parameters: EvalbParameters, number: int
) -> list[bool]:
    """Whether each of `others` stays: as the gold leaf at its place does, traces left out."""
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
    kept = iter(_kept(gold, parameters))
    return [leaf.label not in parameters.uncounted and next(kept) for leaf in others]


def _keep_quotes(
    leaves: Sequence[Tree],
    kept: list[bool],
    others: Sequence[Tree],
    others_kept: list[bool],
    parameters: EvalbParameters,
) -> None:
    """Keep quotation marks in both trees that stand after equally many kept words and are deleted
    in one of them only; changes `kept` and `others_kept`.
    """
    gold, given = _quotes(leaves, kept, parameters), _quotes(others, others_kept, parameters)
    i = j = 0
    more = others_more = 0  # words kept on either side that were deleted before
    while i < len(gold) and j < len(given):
        (at, before), (other_at, other_before) = gold[i], given[j]
        ahead = before + more - other_before - others_more
        if ahead == 0 and kept[at] != others_kept[other_at]:
            more += not kept[at]
            others_more += not others_kept[other_at]
            kept[at] = others_kept[other_at] = True
        i += ahead <= 0
        j += ahead >= 0


def _quotes(
    leaves: Sequence[Tree], kept: Sequence[bool], parameters: EvalbParameters
) -> list[tuple[int, int]]:
    """The index of each quotation mark, and the number of kept words before it."""
    before = accumulate(kept, initial=0)
    return [
        (at, count)
        for at, (leaf, count) in enumerate(zip(leaves, before, strict=False))
        if leaf.label in parameters.quote_labels and leaf.word in parameters.quote_words
    ]


def _brackets(tree: Tree, kept: Sequence[bool], parameters: EvalbParameters) -> list[Span]:
    """The brackets over the kept leaves, in pre-order."""
    before = list(accumulate(kept, initial=0))
    found: list[Span] = []
    for label, start, end in tree.spans():
        if before[start] < before[end]:
            name = parameters.bracket_label(label)
            if name is not None:
                found.append((name, before[start], before[end]))
    return found


def _crossing(gold: Sequence[Span], predicted: Iterable[Span], length: int) -> int:
    """The number of predicted brackets that share words with a gold bracket while neither holds
    the other. gold: the brackets of one tree, in pre-order, over `length` words.
    """
    # Gold brackets around the gap before a word are nested, so if any of them crosses a bracket
    # that begins or ends in the gap, the innermost does.
    innermost: list[tuple[int, int]] = []
    opened = [(0, length)]
    position = 0
    for gap in range(length + 1):
        while len(opened) > 1 and opened[-1][1] <= gap:
            opened.pop()
        innermost.append(opened[-1])
        while position < len(gold) and gold[position][1] == gap:
            opened.append(gold[position][1:])
            position += 1
    return sum(
        innermost[start][1] < end or innermost[end][0] > start for _, start, end in predicted
    )


def _sum(scores: Iterable[SpanScore]) -> SpanScore:
    """The counts of all scores together."""
    correct: Counter[str] = Counter()
    predicted: Counter[str] = Counter()
    gold: Counter[str] = Counter()
    for score in scores:
        for label, counts in score.per_label.items():
            correct[label] += counts.correct
            predicted[label] += counts.predicted
            gold[label] += counts.gold
    per_label = {x: PRF(correct[x], predicted[x], gold[x]) for x in sorted(gold)}
    return SpanScore(correct.total(), predicted.total(), gold.total(), per_label)


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else 0.0
