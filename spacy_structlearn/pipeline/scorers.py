"""Scorers for `spacy train` and `nlp.evaluate`: apply the measures of `evaluation` to Docs.

Examples without gold annotation of the layer are ignored. If no example has any, all scores are
None. Precision, recall and F1 are also given as `spans_np_chunks_f` and so on, after the span
group, because `spacy evaluate` shows only scores with the names of spaCy.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import compress
from typing import Any, TypeAlias, TypeVar

from spacy.scorer import Scorer
from spacy.tokens import Doc, Token
from spacy.training import Example

from ..evaluation.dependencies import Arc, attachment_score
from ..evaluation.evalb import COLLINS, EvalbParameters
from ..evaluation.prf import (
    PRF,
    Span,
    SpanScore,
    character_spans,
    letters,
    score_spans,
    score_token_spans,
)
from ..evaluation.srl import RoleScore, TokenFrame, score_token_roles
from ..groups import CONSTITUENTS, NP_CHUNKS, PP_ATTACHMENTS, SRL
from ..roles.propositions import PREDICATE
from .extensions import Frame, aligned_group, constituent_tags, frames, pp_attachments, sentences

T = TypeVar("T")


def make_np_chunk_scorer() -> Callable[..., dict[str, Any]]:
    """Get the scorer of NP chunks, see `np_chunk_score`."""
    return np_chunk_score


def np_chunk_score(
    examples: Iterable[Example], *, spans_key: str = NP_CHUNKS, **cfg: Any
) -> dict[str, Any]:
    """Compute precision, recall and F1 of the chunks: conlleval's measure over character offsets.

    The scores equal conlleval's on gold tokens. On predicted tokens, a chunk is right if it covers
    the same characters other than white space.
    """

    def read(doc: Doc) -> tuple[list[str], list[Span]]:
        group = aligned_group(doc, spans_key) or ()
        return _words(doc), [(span.label_, span.start, span.end) for span in group]

    gold, predicted = _sides(examples, spans_key, read)
    scores = score_token_spans(gold, predicted)
    values = _prf(scores) | {"per_type": _per_type(scores)}
    return _named("np_chunk", values, spans_key, gold)


def _sides(
    examples: Iterable[Example], key: str, read: Callable[[Doc], T]
) -> tuple[list[T], list[T]]:
    """Read the gold and the predicted annotation of the examples whose reference has this group."""
    docs = [(e.reference, e.predicted) for e in examples if key in e.reference.spans]
    return [read(gold) for gold, _ in docs], [read(predicted) for _, predicted in docs]


def _prf(prf: PRF, before: str = "") -> dict[str, Any]:
    return {f"{before}p": prf.precision, f"{before}r": prf.recall, f"{before}f": prf.f1}


def _per_type(scores: SpanScore) -> dict[str, Any]:
    return {label: _prf(prf) for label, prf in scores.per_label.items()}


def _named(layer: str, scores: dict[str, Any], key: str, gold: list) -> dict[str, Any]:
    """Name scores after the layer, and some also like spaCy's span categorizer.

    `spacy evaluate --spans-key` shows these. The scores of each type are the last ones. Without
    gold documents, the scores of the layer are None.
    """
    named = {f"{layer}_{name}": value for name, value in scores.items()}
    if not gold:
        return dict.fromkeys(named)
    *_, per_type = scores.values()
    again = dict(zip(("p", "r", "f", "per_type"), (*map(scores.get, "prf"), per_type), strict=True))
    return named | {f"spans_{key}_{name}": value for name, value in again.items()}


def _words(doc: Doc) -> list[str]:
    return [token.text for token in doc]


# --- morphology -----------------------------------------------------------------------------------
def make_morphology_scorer() -> Callable[..., dict[str, Any]]:
    """Get the scorer of parts of speech, morphology and lemmas, see `morphology_score`."""
    return morphology_score


def morphology_score(examples: Iterable[Example], **cfg: Any) -> dict[str, Any]:
    """Compute spaCy's accuracies of `pos`, `morph` and `lemma` of tokens with a gold `pos`."""
    examples = list(examples)
    return {
        **Scorer.score_token_attr(examples, "pos"),
        **Scorer.score_token_attr(examples, "morph", getter=_features),
        **Scorer.score_token_attr(examples, "lemma"),
    }


def _features(token: Token, attribute: str) -> int:
    # Where there is no gold annotation, features are empty too.
    return token.pos and token.morph.key  # type: ignore[attr-defined] # spaCy's stub lacks it


# --- dependencies ---------------------------------------------------------------------------------
def make_dependency_scorer(subtypes: bool = False) -> Callable[..., dict[str, Any]]:
    """Get the scorer of dependencies, see `dependency_score`."""
    return partial(dependency_score, subtypes=subtypes)


def dependency_score(
    examples: Iterable[Example], *, subtypes: bool = False, **cfg: Any
) -> dict[str, Any]:
    """Compute attachment scores, `dep_uas` and `dep_las`, of words with a gold label, punctuation
    included. A word without exactly one gold word is not scored.

    subtypes: whether "nmod:poss" is another label than "nmod".
    """
    pairs: list[tuple[list[Arc | None], list[Arc]]] = []
    for example in examples:
        places = example.alignment.x2y
        of_gold = [
            int(places[i].data[0]) if places.lengths[i] == 1 else -1
            for i in range(len(places.lengths))
        ]
        pairs.append(([], []))
        for token, place in zip(example.predicted, of_gold, strict=True):
            gold = example.reference[place]
            if place >= 0 and gold.dep and not token.is_space:
                pairs[-1][0].append((gold.head.i, gold.dep_))
                pairs[-1][1].append((of_gold[token.head.i], token.dep_))
    score = attachment_score(pairs, subtypes=subtypes)
    return (
        {"dep_uas": score.uas, "dep_las": score.las}
        if score.words
        else dict.fromkeys(("dep_uas", "dep_las"))
    )


# --- constituents ---------------------------------------------------------------------------------
def make_constituency_scorer(
    deleted: list[str] | None = None, equal_labels: list[list[str]] | None = None
) -> Callable[..., dict[str, Any]]:
    """Get the scorer of constituents, see `constituency_score`.

    deleted: tags of words and labels of brackets that do not count. None: those of COLLINS.prm for
        the Penn Treebank, mostly punctuation.
    equal_labels: lists of labels that count as one. None: ADVP and PRT, as in COLLINS.prm.
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
    """Score labelled brackets like EVALB, over character offsets.

    Gold tags tell what is punctuation. On gold tokens and sentences the scores equal those of
    `score_trees(..., punctuation="gold")`. On predicted ones, a bracket is right if it covers the
    same characters.
    exact: share of the gold sentences whose predicted brackets are exactly the gold brackets.
    tag_acc: share of the gold words with the right tag by the parser.
    """
    gold, predicted = [], []
    counts: Counter[str] = Counter()
    for example in examples:
        if CONSTITUENTS not in example.reference.spans:
            continue
        # Whether each character other than white space is in a word that counts.
        tags = constituent_tags(example.reference, range(len(example.reference)))
        words = zip(example.reference, tags, strict=True)
        kept = [tag not in parameters.deleted for word, tag in words for _ in letters(word.text)]
        wanted, given = (
            _scored(doc, iter(kept), parameters) for doc in (example.reference, example.predicted)
        )
        gold.append(wanted[:2])
        predicted.append(given[:2])
        counts += _complete(example.reference, wanted, given)
        own, found = _tagged(wanted[0], wanted[2]), _tagged(given[0], given[2])
        counts["words"] += len(own)
        counts["tags"] += sum(found.get(place) == tag for place, tag in own.items())
    scores = score_token_spans(gold, predicted)
    values = _prf(scores) | {
        "exact": counts["complete"] / max(counts["sentences"], 1),
        "tag_acc": counts["tags"] / max(counts["words"], 1),
        "per_type": _per_type(scores),
    }
    return _named("constituents", values, CONSTITUENTS, gold)


def _scored(
    doc: Doc, kept: Iterator[bool], parameters: EvalbParameters
) -> tuple[list[str], list[Span], list[str]]:
    """Get what is left of each token, the brackets that count, and the tags by the parser."""
    words = ["".join(compress(letters(token.text), kept)) for token in doc]
    group = aligned_group(doc, CONSTITUENTS)
    if group is None:
        return words, [], []
    named = [
        (label, span.start, span.end)
        for span in group
        if (label := parameters.bracket_label(span.label_)) is not None
    ]
    tags = map(parameters.same, constituent_tags(doc, range(len(doc))))
    return words, named, list(tags)


def _complete(gold: Doc, wanted: tuple, given: tuple) -> Counter[str]:
    """Count the sentences of `gold`, and those whose predicted brackets are all right."""
    words = wanted[0]
    bounds = character_spans(words, [("", s.start, s.end) for s in sentences(gold)])
    ends = [end for _, _, end in bounds]
    found: list[list[Counter[Span]]] = []
    for own_words, spans, _ in (wanted, given):
        found.append([Counter() for _ in bounds])
        for span in character_spans(own_words, spans):
            # A bracket across a boundary counts as an error in all its sentences.
            for index in range(bisect_right(ends, span[1]), bisect_left(ends, span[2]) + 1):
                found[-1][index][span] += 1
    right = sum(a == b for a, b in zip(*found, strict=True))
    return Counter(complete=right, sentences=len(bounds))


def _tagged(words: list[str], tags: list[str]) -> dict[tuple[int, int], str]:
    """Get the tag of each word that counts, by its characters."""
    spans = [(tag, index, index + 1) for index, tag in enumerate(tags)]
    return {(start, end): tag for tag, start, end in character_spans(words, spans)}


# --- attachments of prepositional phrases ---------------------------------------------------------
def make_pp_attachment_scorer() -> Callable[..., dict[str, Any]]:
    """Get the scorer of PP attachments, see `pp_attachment_score`."""
    return pp_attachment_score


def pp_attachment_score(examples: Iterable[Example], **cfg: Any) -> dict[str, Any]:
    """Score PP attachments, identified by the characters of their prepositions.

    acc: share of the prepositions with a gold and a predicted site that have the right label, the
        measure of Ratnaparkhi, Reynar & Roukos (1994).
    p, r, f: precision, recall and F1 of prepositions with labels.
    per_prep: these scores and the number of gold sites `n` for each preposition in lower case.
    """

    def read(doc: Doc) -> tuple[list[str], list[tuple[str, str, int]]]:
        # Not `lower_`, which is empty in a Doc with a bare Vocab.
        found = [(a.prep.text.lower(), a.label, a.prep.i) for a in pp_attachments(doc)]
        return _words(doc), found

    gold, predicted = _sides(examples, PP_ATTACHMENTS, read)
    sites, attached = (
        score_token_spans(_prepositions(gold, labels), _prepositions(predicted, labels))
        for labels in (False, True)
    )
    right: Counter[str] = Counter()
    for name, prf in attached.per_label.items():
        right[name.rpartition(" ")[0]] += prf.correct
    # The numbers of sites are the same with and without labels.
    per_prep = {
        prep: _measures(PRF(right[prep], prf.predicted, prf.gold), prf.correct) | {"n": prf.gold}
        for prep, prf in sites.per_label.items()
    }
    values = _measures(attached, sites.correct) | {"per_prep": per_prep}
    return _named("pp_attachment", values, PP_ATTACHMENTS, gold)


def _measures(attached: PRF, n_shared: int) -> dict[str, Any]:
    return {"acc": attached.correct / n_shared if n_shared else 0.0, **_prf(attached)}


def _prepositions(docs: list, labels: bool) -> list[tuple[list[str], list[Span]]]:
    """Convert documents for `score_token_spans`. labels: whether labels count."""
    return [
        (words, [(f"{prep} {label}" if labels else prep, i, i + 1) for prep, label, i in found])
        for words, found in docs
    ]


# --- semantic roles -------------------------------------------------------------------------------
VERBS = "verbs"
KINDS = (VERBS, "others")  # of predicates


def make_srl_scorer() -> Callable[..., dict[str, Any]]:
    """Get the scorer of semantic roles, see `srl_score`."""
    return srl_score


def srl_score(
    examples: Iterable[Example],
    *,
    predicate_tags: Collection[str] | None = None,
    verb_tags: Collection[str] | None = None,
    **cfg: Any,
) -> dict[str, Any]:
    """Score semantic roles like CoNLL-2005, over character offsets.

    predicate_tags: frames of gold predicates with other gold tags are ignored on both sides. None
        keeps all frames.
    verb_tags: adds scores for frames of words with these gold tags, and for all other frames.

    The scores are:
    p, r, f, per_type: arguments, with their pieces joined and without predicates
        (`evaluation.srl`).
    id_p, id_r, id_f: arguments regardless of their labels.
    label_acc: share of these correct arguments with the right label.
    predicate_p, predicate_r, predicate_f: predicates.
    sense_acc: share of the correct predicates with a gold roleset that have the right roleset; None
        if no gold predicate has a roleset.
    verbs_p, verbs_r, verbs_f, others_p, others_r, others_f: arguments of verbs, and of other
        predicates, if there are `verb_tags`.
    """
    gold, predicted = _sides(examples, SRL, _placed_frames)
    if predicate_tags is not None:
        # Predicates without a tag are kept.
        counted = {"", *predicate_tags}
        for (_, wanted), (_, given) in zip(gold, predicted, strict=True):
            out = {p for p, frame in wanted if frame.predicate[0].tag_ not in counted}
            for side in (wanted, given):
                side[:] = [pair for pair in side if pair[0] not in out]
    roles = _score_frames(gold, predicted)
    predicates = score_spans(
        *([[(PREDICATE, *p) for p, _ in pairs] for _, pairs in side] for side in (gold, predicted))
    )
    values = {
        **_prf(roles),
        **_prf(roles.identification, "id_"),
        "label_acc": roles.classification,
        **_prf(predicates, "predicate_"),
        "sense_acc": _sense_accuracy(gold, predicted),
    }
    for kind in KINDS if verb_tags is not None else ():
        sides = _of_kind(gold, predicted, verb_tags or (), kind == VERBS)
        values |= _prf(_score_frames(*sides), f"{kind}_")
    values["per_type"] = _per_type(roles)
    return _named("srl", values, SRL, gold)


# (start, end) of a predicate in characters, and its frame.
PlacedFrame: TypeAlias = tuple[tuple[int, int], Frame]
DocFrames: TypeAlias = tuple[Doc, list[PlacedFrame]]


def _score_frames(gold: list[DocFrames], predicted: list[DocFrames]) -> RoleScore:
    def plain(frame: Frame) -> TokenFrame:
        arguments = [(a.label, a.span.start, a.span.end) for a in frame.arguments]
        return frame.predicate.start, arguments

    return score_token_roles(
        *(
            [(_words(doc), [plain(frame) for _, frame in pairs]) for doc, pairs in side]
            for side in (gold, predicted)
        )
    )


def _of_kind(
    gold: list[DocFrames], predicted: list[DocFrames], verb_tags: Collection[str], of_verbs: bool
) -> list[list[DocFrames]]:
    """Get the frames of words whose gold tags are, or are not, those of verbs."""
    sides: list[list[DocFrames]] = [[], []]
    for (reference, wanted), (doc, given) in zip(gold, predicted, strict=True):
        tags = _tagged(_words(reference), [token.tag_ for token in reference])
        for part, of_doc, pairs in zip(sides, (reference, doc), (wanted, given), strict=True):
            # A predicted word that is no gold word has its own tag.
            own_tags = [tags.get(place, frame.predicate[0].tag_) for place, frame in pairs]
            chosen = [(tag in verb_tags) == of_verbs for tag in own_tags]
            part.append((of_doc, list(compress(pairs, chosen))))
    return sides


def _placed_frames(doc: Doc) -> DocFrames:
    """Get the frames of `doc`, except those of white space."""
    spans = [(frame, frame.predicate.start, frame.predicate.start + 1) for frame in frames(doc)]
    placed = character_spans(_words(doc), spans)
    return doc, [((start, end), frame) for frame, start, end in placed]


def _sense_accuracy(gold: list[DocFrames], predicted: list[DocFrames]) -> float | None:
    known = [{place: f.roleset for place, f in pairs if f.roleset} for _, pairs in gold]
    if not any(known):
        return None
    right = [
        frame.roleset == senses[place]
        for senses, (_, pairs) in zip(known, predicted, strict=True)
        for place, frame in pairs
        if place in senses
    ]
    return sum(right) / len(right) if right else 0.0
