"""Scorers for `spacy train` and `nlp.evaluate`: Docs in, the measures of `evaluation` out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import compress
from typing import Any, TypeAlias

from spacy.tokens import Doc
from spacy.training import Example

from ..evaluation.evalb import COLLINS, EvalbParameters
from ..evaluation.prf import PRF, Span, character_spans, score_spans, score_token_spans
from ..evaluation.srl import TokenFrame, score_token_roles
from .extensions import (
    CONSTITUENTS,
    NP_CHUNKS,
    PP_ATTACHMENTS,
    PREDICATE,
    SRL,
    Frame,
    aligned_group,
    constituent_tags,
    frames,
    pp_attachments,
    sentences,
)


def make_np_chunk_scorer() -> Callable[..., dict[str, Any]]:
    """The scorer of NP chunks, for the registry; see `np_chunk_score`."""
    return np_chunk_score


def np_chunk_score(
    examples: Iterable[Example], *, spans_key: str = NP_CHUNKS, **cfg: Any
) -> dict[str, Any]:
    """Precision, recall and F1 of the chunks: conlleval's measure over character offsets.

    On gold tokens it equals conlleval; where the tokens are predicted, a chunk is right if it
    covers the same characters, white space apart. Examples without gold chunks do not count; if
    none has any, the scores are None.
    """
    return span_score(examples, spans_key, "np_chunk")


def span_score(examples: Iterable[Example], key: str, prefix: str) -> dict[str, Any]:
    """Score the group `doc.spans[key]`, under score names that begin with `prefix`."""
    gold, predicted = [], []
    for example in examples:
        if key in example.reference.spans:
            gold.append(_labelled_spans(example.reference, key))
            predicted.append(_labelled_spans(example.predicted, key))
    names = [f"{prefix}_{measure}" for measure in ("p", "r", "f", "per_type")]
    if not gold:
        return dict.fromkeys(names)
    scores = score_token_spans(gold, predicted)
    per_type = _per_type(scores.per_label)
    return dict(zip(names, (scores.precision, scores.recall, scores.f1, per_type), strict=True))


def _per_type(per_label: dict[str, PRF]) -> dict[str, dict[str, float]]:
    return {
        label: {"p": prf.precision, "r": prf.recall, "f": prf.f1}
        for label, prf in per_label.items()
    }


def _labelled_spans(doc: Doc, key: str) -> tuple[list[str], list[tuple[str, int, int]]]:
    group = aligned_group(doc, key) or ()
    return [token.text for token in doc], [(s.label_, s.start, s.end) for s in group]


# --- constituents ---------------------------------------------------------------------------------
def make_constituency_scorer(
    deleted: list[str] | None = None, equal_labels: list[list[str]] | None = None
) -> Callable[..., dict[str, Any]]:
    """deleted: tags of words that do not count, and labels of brackets that do not.

    equal_labels: lists of labels that count as one. None: as for the Penn Treebank (COLLINS.prm):
    punctuation does not count, and ADVP and PRT are one.
    """
    return partial(
        constituency_score,
        parameters=EvalbParameters(
            deleted=COLLINS.deleted if deleted is None else frozenset(deleted),
            uncounted=COLLINS.uncounted,
            equal_labels=(
                COLLINS.equal_labels if equal_labels is None else tuple(map(tuple, equal_labels))
            ),
        ),
    )


def constituency_score(
    examples: Iterable[Example], *, parameters: EvalbParameters = COLLINS, **cfg: Any
) -> dict[str, Any]:
    """Labelled brackets as EVALB counts them, over character offsets.

    Punctuation is what the gold tags say. On gold tokens and sentences the figures are those of
    `score_trees(..., punctuation="gold")`; where they are predicted, a bracket is right if it
    covers the same characters. `exact`: gold sentences all of whose brackets, and no others, are
    predicted. `tag_acc`: gold words with the tag that the parser gave them. Examples without gold
    constituents do not count; if none has any, the scores are None.
    """
    gold, predicted = [], []
    counts: Counter[str] = Counter()
    for example in examples:
        if CONSTITUENTS not in example.reference.spans:
            continue
        kept = _kept_letters(example.reference, parameters)
        wanted, given = (
            _scored(doc, iter(kept), parameters) for doc in (example.reference, example.predicted)
        )
        gold.append(wanted[:2])
        predicted.append(given[:2])
        counts += _complete(example.reference, wanted, given)
        tags = _tagged(*given)
        counts["words"] += len(_tagged(*wanted))
        counts["tags"] += sum(tags.get(place) == tag for place, tag in _tagged(*wanted).items())
    names = [f"constituents_{name}" for name in ("p", "r", "f", "exact", "tag_acc", "per_type")]
    if not gold:
        return dict.fromkeys(names)
    scores = score_token_spans(gold, predicted)
    exact, tag_acc = (
        counts[part] / counts[whole] if counts[whole] else 0.0
        for part, whole in (("complete", "sentences"), ("tags", "words"))
    )
    values = (scores.precision, scores.recall, scores.f1, exact, tag_acc)
    return dict(zip(names, (*values, _per_type(scores.per_label)), strict=True))


def _kept_letters(gold: Doc, parameters: EvalbParameters) -> list[bool]:
    """Whether each character that is not white space belongs to a word that counts."""
    tags = constituent_tags(gold, range(len(gold)))
    return [
        tag not in parameters.deleted
        for token, tag in zip(gold, tags, strict=True)
        for _ in "".join(token.text.split())
    ]


def _scored(
    doc: Doc, kept: Iterator[bool], parameters: EvalbParameters
) -> tuple[list[str], list[Span], list[str]]:
    """What is left of each token, the brackets that count, and the tags by the parser.

    kept: for the characters of `doc` that are not white space.
    """
    words = ["".join(compress("".join(token.text.split()), kept)) for token in doc]
    group = aligned_group(doc, CONSTITUENTS)
    if group is None:
        return words, [], []
    named = ((parameters.bracket_label(s.label_), s.start, s.end) for s in group)
    tags = map(parameters.same, constituent_tags(doc, range(len(doc))))
    return words, [span for span in named if span[0] is not None], list(tags)


def _complete(gold: Doc, wanted: tuple, given: tuple) -> Counter[str]:
    """How many sentences of `gold` have words that count, and exactly the gold brackets."""
    words = wanted[0]
    bounds = character_spans(words, [("", s.start, s.end) for s in sentences(gold)])
    ends = [end for _, _, end in bounds]
    found: list[list[Counter[Span]]] = []
    for own_words, spans, _ in (wanted, given):
        found.append([Counter() for _ in bounds])
        for span in character_spans(own_words, spans):
            # A bracket across a boundary spoils all the sentences that it is part of.
            for index in range(bisect_right(ends, span[1]), bisect_left(ends, span[2]) + 1):
                found[-1][index][span] += 1
    right = sum(a == b for a, b in zip(*found, strict=True))
    return Counter(complete=right, sentences=len(bounds))


def _tagged(words: list[str], _: list[Span], tags: list[str]) -> dict[tuple[int, int], str]:
    """The tag of each word that counts, by its characters."""
    spans = [(tag, index, index + 1) for index, tag in enumerate(tags)]
    return {(start, end): tag for tag, start, end in character_spans(words, spans)}


# --- attachments of prepositional phrases ---------------------------------------------------------
def make_pp_attachment_scorer() -> Callable[..., dict[str, Any]]:
    """The scorer of prepositional phrases, for the registry; see `pp_attachment_score`."""
    return pp_attachment_score


def pp_attachment_score(examples: Iterable[Example], **cfg: Any) -> dict[str, Any]:
    """Attachments of prepositional phrases, known by the characters of their prepositions.

    `acc`: of the prepositions that have a site on both sides, the share with the right label: the
    measure of Ratnaparkhi, Reynar & Roukos (1994). `p`, `r`, `f`: of prepositions with labels.
    `per_prep`: the four, and the number of gold sites `n`, for each preposition in lower case.
    Examples without gold attachments do not count; if none has any, the scores are None.
    """
    gold, predicted = [], []
    for example in examples:
        if PP_ATTACHMENTS in example.reference.spans:
            gold.append(_attachments(example.reference))
            predicted.append(_attachments(example.predicted))
    names = [f"pp_attachment_{name}" for name in ("acc", "p", "r", "f", "per_prep")]
    if not gold:
        return dict.fromkeys(names)
    sites, attached = (
        score_token_spans(_prepositions(gold, labels), _prepositions(predicted, labels))
        for labels in (False, True)
    )
    right: Counter[str] = Counter()
    for name, prf in attached.per_label.items():
        right[name.rpartition(" ")[0]] += prf.correct
    # Sites with their labels are as many as without them.
    per_prep = {
        prep: _measures(PRF(right[prep], prf.predicted, prf.gold), prf.correct) | {"n": prf.gold}
        for prep, prf in sites.per_label.items()
    }
    return dict(zip(names, (*_measures(attached, sites.correct).values(), per_prep), strict=True))


def _measures(attached: PRF, n_shared: int) -> dict[str, float]:
    return {
        "acc": attached.correct / n_shared if n_shared else 0.0,
        "p": attached.precision,
        "r": attached.recall,
        "f": attached.f1,
    }


def _attachments(doc: Doc) -> tuple[list[str], list[tuple[str, str, int]]]:
    """The words, and of each attachment the preposition, the label and its place."""
    # Not `lower_`: it is empty in a Doc whose vocab is not a pipeline's.
    found = [(a.prep.text.lower(), a.label, a.prep.i) for a in pp_attachments(doc)]
    return [token.text for token in doc], found


def _prepositions(docs: list, labels: bool) -> list[tuple[list[str], list[Span]]]:
    """Documents as `score_token_spans` takes them; `labels`: whether labels count."""
    return [
        (words, [(f"{prep} {label}" if labels else prep, i, i + 1) for prep, label, i in found])
        for words, found in docs
    ]


# --- semantic roles -------------------------------------------------------------------------------
def make_srl_scorer() -> Callable[..., dict[str, Any]]:
    """The scorer of semantic roles, for the registry; see `srl_score`."""
    return srl_score


def srl_score(
    examples: Iterable[Example], *, predicate_tags: Collection[str] | None = None, **cfg: Any
) -> dict[str, Any]:
    """Semantic roles as CoNLL-2005 measures them, over character offsets.

    `p`, `r`, `f` and `per_type`: arguments, without the predicates and with their pieces joined
    (`evaluation.srl`). `id_p`, `id_r`, `id_f`: arguments whatever their labels; `label_acc`: of
    those found so, the share with the right label. `predicate_p`, `predicate_r`, `predicate_f`:
    predicates. `sense_acc`: of the predicates found that have a gold roleset, the share with the
    right one; None if no gold predicate has any.

    predicate_tags: frames of gold predicates with another gold tag are left out on both sides; None
    keeps all. Examples without gold frames do not count; if none has any, the scores are None.
    """
    gold, predicted = [], []
    for example in examples:
        if SRL not in example.reference.spans:
            continue
        wanted, given = _placed_frames(example.reference), _placed_frames(example.predicted)
        if predicate_tags is not None:
            # A token without a tag has no other one.
            counted = {"", *predicate_tags}
            out = {p for p, frame in wanted if frame.predicate[0].tag_ not in counted}
            wanted, given = (
                [pair for pair in side if pair[0] not in out] for side in (wanted, given)
            )
        gold.append((example.reference, wanted))
        predicted.append((example.predicted, given))
    names = ["p", "r", "f", "id_p", "id_r", "id_f", "label_acc"]
    names += ["predicate_p", "predicate_r", "predicate_f", "sense_acc", "per_type"]
    names = [f"srl_{name}" for name in names]
    if not gold:
        return dict.fromkeys(names)
    roles = score_token_roles(
        *([_token_frames(*pair) for pair in side] for side in (gold, predicted))
    )
    predicates = score_spans(
        *([[(PREDICATE, *p) for p, _ in pairs] for _, pairs in side] for side in (gold, predicted))
    )
    values = (
        *_fractions(roles),
        *_fractions(roles.identification),
        roles.classification,
        *_fractions(predicates),
        _sense_accuracy([pairs for _, pairs in gold], [pairs for _, pairs in predicted]),
        _per_type(roles.per_label),
    )
    return dict(zip(names, values, strict=True))


# The first and the last character of a predicate, end exclusive, and its frame.
PlacedFrame: TypeAlias = tuple[tuple[int, int], Frame]


def _placed_frames(doc: Doc) -> list[PlacedFrame]:
    """The frames of `doc`, without those of white space."""
    found = [(frame, frame.predicate.start, frame.predicate.start + 1) for frame in frames(doc)]
    placed = character_spans([token.text for token in doc], found)
    return [((start, end), frame) for frame, start, end in placed]


def _token_frames(doc: Doc, pairs: list[PlacedFrame]) -> tuple[list[str], list[TokenFrame]]:
    """A document as `score_token_roles` takes it."""
    found = [
        (frame.predicate.start, [(a.label, a.span.start, a.span.end) for a in frame.arguments])
        for _, frame in pairs
    ]
    return [token.text for token in doc], found


def _sense_accuracy(
    gold: list[list[PlacedFrame]], predicted: list[list[PlacedFrame]]
) -> float | None:
    known = [{place: f.roleset for place, f in pairs if f.roleset} for pairs in gold]
    if not any(known):
        return None
    right = [
        frame.roleset == senses[place]
        for senses, pairs in zip(known, predicted, strict=True)
        for place, frame in pairs
        if place in senses
    ]
    return sum(right) / len(right) if right else 0.0


def _fractions(prf: PRF) -> tuple[float, float, float]:
    return prf.precision, prf.recall, prf.f1
