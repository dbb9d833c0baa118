"""A page on the predictions of a pipeline: scores, errors by kind, calibration, worst sentences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Any

from spacy.tokens import Span

from ...display import page
from ...display.html import Page, by_layer, escaped
from ...display.plots import plot_svg
from ...evaluation.calibration import expected_calibration_error, reliability
from ...evaluation.prf import PRF, SpanScore, score_spans
from ...evaluation.tree_errors import TreeError, tree_errors
from .items import LAYERS, Item, Sentence

MOST_ROWS = 25  # of a table
MOST_DRAWN = 10  # sentences
WORDS = 10  # of an error
FEW = 10  # items; bins of fewer are not drawn
LENGTHS = (5, 10, 20, 40)
STYLE = """\
table { border-collapse: collapse; font-size: 0.9rem; margin: 0.5rem 0; }
caption { text-align: start; white-space: nowrap; padding: 0.25rem 0; opacity: 0.8; }
th, td { padding: 0.15rem 0.6rem; text-align: start; border-bottom: 1px solid #8884;
  vertical-align: top; white-space: nowrap; }
.structlearn ul.errors li { line-height: 1.4; font-size: 0.9rem; }
td.n, th.n { text-align: end; font-variant-numeric: tabular-nums; white-space: nowrap; }
.tables, .sides { display: grid; gap: 0 2rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.tables > *, .sides > * { min-width: 0; }
.plot > svg { max-width: 100%; height: auto; }
"""
Cell = str | int | float


def table(
    caption: str, header: Sequence[str], rows: Iterable[Sequence[Cell]], most: int = 0
) -> str:
    """Return rows as a table that scrolls; "" without any. most: rows that are shown, 0 for all.

    Whole numbers are counts, and others are written with three digits.
    """
    rows = list(rows)
    if not rows:
        return ""
    shown = rows[: most or None]
    if len(shown) < len(rows):
        caption += f", the first {most} of {len(rows)}"
    numbers = [any(not isinstance(row[i], str) for row in rows) for i in range(len(header))]
    lines = []
    for kind, row in [("th", header), *(("td", row) for row in shown)]:
        cells = (
            f"<{kind}{' class=n' if number else ''}>{escaped(_formatted(value))}</{kind}>"
            for value, number in zip(row, numbers, strict=True)
        )
        lines.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(lines)
    return (
        f'<div class="scroll" role="group" aria-label="{escaped(caption)}" tabindex="0">'
        f"<table><caption>{escaped(caption)}</caption>\n{body}\n</table></div>\n"
    )


def _formatted(value: Cell) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def section(title: str, *parts: str, note: str = "") -> str:
    """Return a section of a page; "" if it has no parts."""
    body = "".join(parts)
    text = f"<p>{escaped(note)}</p>\n" if note else ""
    return f"<section>\n<h2>{escaped(title)}</h2>\n{text}{body}</section>\n" if body else ""


def report(sentences: Sequence[Sentence], title: str) -> Page:
    """Return a page on the predictions for some sentences, with the layers that both sides have."""
    names = [name for name in LAYERS if any(name in own.items for own in sentences)]
    errors = [(own, error) for own in sentences for error in errors_of(own)]
    return page.whole(
        title,
        _scores(sentences, names)
        + _kinds(errors)
        + _causes(sentences)
        + "".join(_layer(sentences, name) for name in names if name not in ("sents", "predicate"))
        + _lengths(sentences, names)
        + _calibration(sentences)
        + _worst(sentences),
        STYLE,
    )


def score_of(sentences: Iterable[Sentence], name: str) -> SpanScore:
    """Return precision, recall and F1 of a layer."""
    shared = [own for own in sentences if name in own.items]
    return score_spans(
        [own.gold_items[name].elements() for own in shared],
        [own.items[name].elements() for own in shared],
    )


def _prf(score: PRF) -> tuple[float, float, float, int]:
    return score.precision, score.recall, score.f1, score.gold


_SCORES = ("precision", "recall", "F1", "gold")


def _scores(sentences: Sequence[Sentence], names: Sequence[str]) -> str:
    rows = []
    for name in names:
        counts = [own.counts(name) for own in sentences if name in own.items]
        exact = sum(len(set(own)) == 1 for own in counts) / len(counts)
        rows.append((LAYERS[name], *_prf(score_of(sentences, name)), exact))
    header = ("layer", *_SCORES, "sentences without error")
    return section("Scores", table("Items of gold sentences", header, rows))


def _layer(sentences: Sequence[Sentence], name: str) -> str:
    """Return the tables by label and of confusions."""
    labels = sorted(score_of(sentences, name).per_label.items(), key=lambda pair: -pair[1].gold)
    scores = [(label, *_prf(score)) for label, score in labels]
    pairs = [(*pair, n) for pair, n in confusions(sentences, name).most_common()]
    tables = table("By label", ("label", *_SCORES), scores, MOST_ROWS)
    tables += table("Confused labels", ("gold", "predicted", "n"), pairs, MOST_ROWS)
    return section(LAYERS[name], tables and f'<div class="tables">{tables}</div>')


def confusions(sentences: Iterable[Sentence], name: str) -> Counter[tuple[str, str]]:
    """Count the pairs of gold and predicted labels of items that differ only by these."""
    found: Counter[tuple[str, str]] = Counter()
    for own in sentences:
        if name in own.items:
            missing, extra = _differences(own, name)
            left: dict[Any, list[str]] = defaultdict(list)
            for label, *rest in extra:
                left[tuple(rest)].append(label)
            found.update((label, at.pop(0)) for label, *r in missing if (at := left[tuple(r)]))
    return found


def _differences(own: Sentence, name: str) -> tuple[list[Item], list[Item]]:
    gold, found = own.gold_items[name], own.items[name]
    return list((gold - found).elements()), list((found - gold).elements())


def errors_of(own: Sentence) -> list[TreeError]:
    """Return the errors of a tree with the gold words; [] without trees or with other words."""
    if "constituents" not in own.items or not len(own.predicted):
        return []
    gold, predicted = own.gold._.tree, own.predicted._.tree
    if predicted is None or gold is None or gold.words() != predicted.words():
        return []
    return tree_errors(gold, predicted)


def _shown(own: Sentence, error: TreeError) -> str:
    words = own.gold._.tree.words()[error.start : error.end]
    return " ".join(words if len(words) <= WORDS else [*words[:WORDS], "\N{HORIZONTAL ELLIPSIS}"])


def _kinds(errors: Sequence[tuple[Sentence, TreeError]]) -> str:
    repaired, numbers = Counter[str](), Counter[str]()
    examples: dict[str, str] = {}
    for own, error in errors:
        repaired[error.kind] += error.repaired
        numbers[error.kind] += 1
        examples.setdefault(error.kind, f"{error.label}: {_shown(own, error)}")
    rows = [
        (kind, numbers[kind], n, n / repaired.total(), examples[kind])
        for kind, n in repaired.most_common()
    ]
    note = (
        "What was moved, relabelled, added or removed to make the predicted trees gold trees, of "
        "sentences with the same words (Kummerfeld et al. 2012). One error may be several brackets."
    )
    header = ("kind", "errors", "brackets", "share of brackets", "example")
    return section("Errors of trees by kind", table("Kinds", header, rows), note=note)


def _causes(sentences: Iterable[Sentence]) -> str:
    """Return why roles are wrong."""
    counts: Counter[str] = Counter()
    for own in sentences:
        if "srl" in own.items:
            missing, extra = _differences(own, "srl")
            gold, found = (
                {place for _, place, _ in side["predicate"]} for side in (own.gold_items, own.items)
            )
            labelled = {(place, pieces) for _, place, pieces in extra}
            wanted = {(place, pieces) for _, place, pieces in missing}
            for _, place, pieces in missing:
                if place not in found:
                    counts["gold: the predicate is missing"] += 1
                elif (place, pieces) in labelled:
                    counts["gold: the label is another one"] += 1
                elif own.phrases and not set(pieces) <= own.phrases:
                    counts["gold: the tree has no such phrase"] += 1
                else:
                    counts["gold: no argument was predicted there"] += 1
            for _, place, pieces in extra:
                if place not in gold:
                    counts["predicted: no such predicate"] += 1
                elif (place, pieces) not in wanted:
                    counts["predicted: no such argument"] += 1
    rows = [(name, n, n / counts.total()) for name, n in counts.most_common()]
    return section("Wrong roles by cause", table("Arguments", ("cause", "n", "share"), rows))


def _lengths(sentences: Sequence[Sentence], names: Sequence[str]) -> str:
    rows = []
    for low, high in zip((0, *LENGTHS), (*LENGTHS, 10**9), strict=True):
        part = [own for own in sentences if low < len(own.gold) <= high]
        if part:
            scores = [score_of(part, name) for name in names]
            length = f"{low + 1} to {high}" if high < 10**9 else f"over {low}"
            rows.append((length, len(part), *(score.f1 if score.gold else "" for score in scores)))
    header = ("words", "sentences", *(LAYERS[name] for name in names))
    return section("F1 by length", table("Tokens of the gold sentence", header, rows))


def _calibration(sentences: Iterable[Sentence]) -> str:
    found: dict[str, tuple[list[float], list[bool]]] = {}
    for own in sentences:
        for name, pairs in own.probabilities.items():
            left = own.gold_items[name].copy()
            probabilities, right = found.setdefault(name, ([], []))
            sites = {place for _, place, _ in left} if name == "pp_attachment" else None
            for item, p in pairs:
                if sites is not None and item[1] not in sites:
                    continue  # the probability is that of the label of a site
                probabilities.append(p)
                right.append(left[item] > 0)
                left[item] -= 1
    lines = {
        LAYERS[name]: [(b.probability, b.accuracy) for b in reliability(*columns) if b.count >= FEW]
        for name, columns in found.items()
    }
    rows = [
        (LAYERS[name], len(columns[0]), expected_calibration_error(*columns))
        for name, columns in found.items()
    ]
    if not lines:
        return ""
    plot = plot_svg(lines, x="probability", y="share of right items", diagonal=True)
    header = ("layer", "items", "expected calibration error")
    figures = table("Predicted items with probabilities", header, rows)
    note = "The share of right items by probability. On the dashed line, probabilities are right."
    body = f'<div class="tables"><div class="plot">{plot}</div>{figures}</div>'
    return section("Calibration", body, note=note)


def _worst(sentences: Iterable[Sentence]) -> str:
    worst = nlargest(MOST_DRAWN, sentences, key=lambda own: own.wrong)
    parts = [
        drawn({"Gold": own.gold, "Predicted": own.predicted}, own, f"worst-{i}", i < 3)
        for i, own in enumerate(worst)
        if own.wrong
    ]
    return section("Worst sentences", *parts)


def drawn(sides: Mapping[str, Span], own: Sentence, name: str, is_open: bool) -> str:
    """Draw the sides of a sentence next to each other, with the errors of its tree.

    name: begins the ids of the drawings.
    """
    errors = dict.fromkeys(f"{e.kind}: {e.label} {_shown(own, e)}" for e in errors_of(own))
    lines = "".join(f"<li>{escaped(error)}</li>" for error in errors)
    drawings = "".join(line for side, span in sides.items() for line in _side(side, span, name))
    return (
        f'<details class="sentence structlearn"{" open" if is_open else ""}>\n<summary>'
        f'<h3 dir="auto">{escaped(" ".join(own.gold.text.split()))}</h3> ({own.wrong} wrong)'
        f'</summary>\n<ul class="errors">{lines}</ul>\n<div class="sides">{drawings}</div>\n'
        "</details>\n"
    )


def _side(title: str, span: Span, name: str) -> Iterator[str]:
    yield f"<div><h4>{escaped(title)}</h4>\n"
    for index, (sentence, layers) in enumerate(by_layer(span) if len(span) else ()):
        yield from page.drawings(sentence, layers, 5, f"{name}-{title}-{index}")
    yield "</div>\n"
