"""Scores of NP chunks, constituents, attachments and semantic roles from Examples."""

import pickle
import random

import numpy as np
import pytest
import spacy
from pipeline.parsed import parsed_doc
from pipeline.test_extensions import random_tree
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry

from spacy_structlearn.attachment.sites import Site
from spacy_structlearn.evaluation.conlleval import chunks, conlleval
from spacy_structlearn.evaluation.evalb import score_trees
from spacy_structlearn.evaluation.srl import score_roles
from spacy_structlearn.pipeline import scorers
from spacy_structlearn.pipeline.extensions import frame_spans, set_spans, site_spans
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree

VOCAB = spacy.blank("en").vocab
WORDS = ["The", "dogs", "saw", "a", "red-haired", "cat", "."]


def prf(scores, layer):
    return [scores[f"{layer}_{name}"] for name in "prf"]


def make_doc(words, spans=None):
    doc = Doc(VOCAB, words=words)
    if spans is not None:
        set_spans(doc, "np_chunks", spans)
    return doc


def make_example(predicted, gold, words=WORDS, gold_words=None):
    return Example(make_doc(words, predicted), make_doc(gold_words or words, gold))


def test_on_gold_tokens_it_equals_conlleval():
    generator = random.Random(3)

    def random_tags():
        return [generator.choice(["O", "B-NP", "I-NP", "B-VP", "I-VP"]) for _ in range(12)]

    gold, predicted = ([random_tags() for _ in range(30)] for _ in range(2))
    examples = [
        make_example(chunks(p), chunks(g), words=[f"w{i}" for i in range(12)])
        for p, g in zip(predicted, gold, strict=True)
    ]
    scores, expected = scorers.np_chunk_score(examples), conlleval(gold, predicted)
    assert 0 < expected.correct < expected.gold
    assert prf(scores, "np_chunk") == [expected.precision, expected.recall, expected.f1]
    per_type = {label: prf["f"] for label, prf in scores["np_chunk_per_type"].items()}
    assert per_type == {label: prf.f1 for label, prf in expected.per_label.items()}
    assert set(per_type) == {"NP", "VP"}


def test_other_tokens_over_the_same_characters_are_right():
    finer = ["The", "dogs", "saw", "a", "red", "-", "haired", "cat", "."]
    gold = [("NP", 0, 2), ("NP", 3, 6)]
    right = make_example([("NP", 0, 2), ("NP", 3, 8)], gold, words=finer, gold_words=WORDS)
    assert scorers.np_chunk_score([right])["np_chunk_f"] == 1.0
    # As right, but without the first half of the compound: a chunk of other characters.
    wrong = make_example([("NP", 0, 2), ("NP", 5, 8)], gold, words=finer, gold_words=WORDS)
    assert scorers.np_chunk_score([wrong])["np_chunk_f"] == 0.5


# --- constituents ---------------------------------------------------------------------------------
def tree_doc(trees):
    return parsed_doc(VOCAB, *trees)


def scored_tree(generator, n_words):
    labels, tags = ["S", "NP", "ADVP", "PRT", "TOP"], ["NN", "VB", ",", ".", "``"]
    return normalize(Tree("TOP", random_tree(generator, n_words, tags, labels).children))


def test_on_gold_tokens_it_equals_evalb_with_gold_punctuation():
    generator = random.Random(5)
    gold, predicted, examples = [], [], []
    for _ in range(60):
        sizes = generator.choices(range(1, 10), k=3)
        pair = [[scored_tree(generator, n) for n in sizes] for _ in range(2)]
        gold += pair[0]
        predicted += pair[1]
        examples.append(Example(tree_doc(pair[1]), tree_doc(pair[0])))
    expected = score_trees(gold, predicted, punctuation="gold")
    scores = scorers.constituency_score(examples)
    assert 0 < expected.complete_match < expected.recall < 60
    assert expected.skipped
    found = [
        *prf(scores, "constituents"),
        *(scores[f"constituents_{n}"] for n in ("exact", "tag_acc")),
    ]
    wanted = [
        expected.precision,
        expected.recall,
        expected.f1,
        expected.complete_match,
        expected.tag_accuracy,
    ]
    assert 100 * np.array(found) == pytest.approx(wanted)


def test_constituents_over_other_tokens_and_sentences():
    gold = parse_tree("(TOP (S (NP (NNS dogs)) (VP (MD can) (RB not) (VP (VB sing))) (. .)))")
    other = parse_tree("(TOP (S (NP (NNS dogs)) (VP (MD cannot) (VP (VB sing))) (. .)))")
    examples = [Example(tree_doc([other, gold]), tree_doc([gold, gold]))]
    scores = scorers.constituency_score(examples)
    assert scores["constituents_f"] == scores["constituents_exact"] == 1.0
    assert scores["constituents_tag_acc"] == 6 / 8
    halves = [parse_tree(t) for t in ("(TOP (NP (NNS dogs)))", "(TOP (VP (MD can) (RB not)))")]
    rest = parse_tree("(TOP (VP (VB sing) (. .)))")
    scores = scorers.constituency_score([Example(tree_doc([*halves, rest]), tree_doc([gold]))])
    assert scores["constituents_p"] == 2 / 3
    assert scores["constituents_r"] == 2 / 4


def test_constituents_of_another_treebank():
    make = registry.scorers.get("spacy_structlearn.constituency_scorer.v1")
    gold = parse_tree("(TOP (CLAUSE (N dogs) (PUNCT .)))")
    other = parse_tree("(TOP (PHRASE (N dogs)) (PUNCT .))")
    example = Example(tree_doc([other]), tree_doc([gold]))
    settings = {"deleted": ["PUNCT"], "equal_labels": [["PHRASE", "CLAUSE"]]}
    scorer = pickle.loads(pickle.dumps(make(**settings)))
    assert scorer([example])["constituents_f"] == 1.0
    assert make()([example])["constituents_f"] == 0.0


# --- attachments of prepositional phrases ---------------------------------------------------------
SITES = ["ate pizza with forks", "saw men with hats", "ate lots Of soup", "put it on tables"]


def attached_doc(labels, words=None):
    """Four sites, as far as they have a label; `words` that are no Doc of SITES shift nothing."""
    words = " ".join(SITES).split() if words is None else words
    doc = Doc(VOCAB, words=words)
    if labels is not None:
        places = enumerate(labels)
        found = [Site(b, b + 1, b + 2, b + 3, b + 2, b + 4, x) for k, x in places for b in [4 * k]]
        spans = [s for site in found if site.label for s in site_spans([site])]
        set_spans(doc, "pp_attachments", spans)
    return doc


def pp_scores(predicted, gold):
    return scorers.pp_attachment_score([Example(attached_doc(predicted), attached_doc(gold))])


def test_attachments_counted_by_hand():
    # Right, wrong, found though it is none, missed.
    scores = pp_scores(["V", "V", "N", ""], ["V", "N", "", "V"])
    assert scores["pp_attachment_acc"] == 1 / 2
    assert prf(scores, "pp_attachment") == [1 / 3] * 3
    assert scores["pp_attachment_per_prep"] == {
        "of": {"acc": 0.0, "p": 0.0, "r": 0.0, "f": 0.0, "n": 0},
        "on": {"acc": 0.0, "p": 0.0, "r": 0.0, "f": 0.0, "n": 1},
        "with": {"acc": 1 / 2, "p": 1 / 2, "r": 1 / 2, "f": 1 / 2, "n": 2},
    }


# --- semantic roles -------------------------------------------------------------------------------
ROLE_WORDS = ["Cats", "that", "ate", "fish", "today", "said", "so", "and", "slept", "."]
ROLE_TAGS = ["NNS", "WDT", "VBD", "NN", "NN", "VBD", "RB", "CC", "VBD", "."]
GOLD_FRAMES = [
    (2, "eat.01", [("ARG0", 0, 1), ("R-ARG0", 1, 2), ("ARG1", 3, 4), ("ARGM-TMP", 4, 5)]),
    (5, "say.01", [("ARG0", 0, 5), ("ARG1", 6, 7), ("C-ARG1", 8, 9)]),
    (8, "sleep.01", [("ARG0", 0, 5)]),
]
SRL_NAMES = ["p", "r", "f", "id_p", "id_r", "id_f", "label_acc"]
SRL_NAMES += ["predicate_p", "predicate_r", "predicate_f", "sense_acc", "per_type"]


def framed_doc(frames, words=ROLE_WORDS, tags=None):
    doc = Doc(VOCAB, words=words, tags=tags)
    if frames is not None:
        set_spans(doc, "srl", frame_spans(frames))
    return doc


def srl_scores(predicted, gold=GOLD_FRAMES, *, tags=ROLE_TAGS, **settings):
    example = Example(framed_doc(predicted), framed_doc(gold, tags=tags))
    found = scorers.srl_score([example], **settings)
    scores = {name: value for name, value in found.items() if not name.startswith("spans_")}
    assert list(scores) == [f"srl_{name}" for name in SRL_NAMES]
    return {name.removeprefix("srl_"): value for name, value in scores.items()}


def random_frames(generator, n_words):
    frames = []
    for predicate in sorted(generator.sample(range(n_words), 3)):
        cuts = sorted(generator.sample(range(n_words + 1), 5))
        labels = generator.choices(["ARG0", "ARG1", "R-ARG0", "C-ARG0", "ARGM-TMP"], k=4)
        arguments = [(label, *cuts[i : i + 2]) for i, label in enumerate(labels)]
        frames.append((predicate, None, arguments[generator.randint(0, 2) :]))
    return frames


def test_on_gold_tokens_it_equals_the_measure_of_conll_2005():
    generator = random.Random(4)
    n = len(ROLE_WORDS)
    gold, predicted = ([random_frames(generator, n) for _ in range(80)] for _ in range(2))
    for pair in zip(gold, predicted, strict=True):
        for i in range(3):
            if generator.random() < 0.7:
                pair[1][i] = pair[0][i]
    predicted = [sorted({f[0]: f for f in frames}.values()) for frames in predicted]
    expected = score_roles(*([[(f[0], f[2]) for f in fs] for fs in d] for d in (gold, predicted)))
    examples = [
        Example(framed_doc(given), framed_doc(wanted))
        for given, wanted in zip(predicted, gold, strict=True)
    ]
    scores = scorers.srl_score(examples)
    assert 0 < expected.correct < expected.identification.correct < expected.gold
    assert prf(scores, "srl") == [expected.precision, expected.recall, expected.f1]
    assert scores["srl_id_f"] == expected.identification.f1
    assert scores["srl_label_acc"] == expected.classification
    assert scores["srl_sense_acc"] is None
    per_type = {label: prf["f"] for label, prf in scores["srl_per_type"].items()}
    assert per_type == {label: prf.f1 for label, prf in expected.per_label.items()}


def test_roles_over_other_tokens_and_among_white_space():
    words = ["Ca", "ts", "that", "\n", "ate", "fish", " ", "today"]
    words += ["said", "so", "and", "slept", "."]
    frames = [
        (4, "eat.01", [("ARG0", 0, 2), ("R-ARG0", 2, 4), ("ARG1", 5, 7), ("ARGM-TMP", 7, 8)]),
        (6, None, [("ARG0", 0, 2)]),  # white space is no predicate
        (8, "say.01", [("ARG0", 0, 8), ("ARGM-ADV", 6, 7), ("ARG1", 9, 10), ("C-ARG1", 11, 12)]),
        (11, "sleep.01", [("ARG0", 1, 8)]),  # half of the first word is missing
    ]
    example = Example(framed_doc(frames, words), framed_doc(GOLD_FRAMES))
    scores = scorers.srl_score([example])
    assert scores["srl_p"] == scores["srl_r"] == 6 / 7
    assert scores["srl_predicate_f"] == scores["srl_sense_acc"] == 1.0


def test_frames_of_predicates_with_other_tags_are_left_out():
    noun = (3, "fish.01", [("ARG0", 0, 1), ("ARG1", 4, 5)])
    gold = [GOLD_FRAMES[0], noun, *GOLD_FRAMES[1:]]
    assert srl_scores(GOLD_FRAMES, gold)["r"] == 7 / 9
    found = srl_scores(GOLD_FRAMES, gold, predicate_tags=["VBD", "VBZ"])
    assert found["r"] == found["predicate_r"] == 1.0
    # What was predicted there does not count, right or wrong.
    wrong = [GOLD_FRAMES[0], (3, "fish.02", [("ARG0", 4, 5)]), *GOLD_FRAMES[1:]]
    assert srl_scores(wrong, gold, predicate_tags=("VBD",)) == found
    assert srl_scores(GOLD_FRAMES, predicate_tags=[])["predicate_r"] == 0.0


def test_verbs_and_other_predicates_apart():
    noun = (3, "fish.01", [("ARG0", 0, 1), ("ARG1", 4, 5)])
    gold = [GOLD_FRAMES[0], noun, *GOLD_FRAMES[1:]]
    verbs = ("VBD", "VBZ")

    def apart(predicted, gold):
        example = Example(framed_doc(predicted), framed_doc(gold, tags=ROLE_TAGS))
        scores = scorers.srl_score([example], verb_tags=verbs)
        return [
            tuple(scores[f"srl_{kind}_{name}"] for name in "prf") for kind in ("verbs", "others")
        ], scores["srl_f"]

    assert apart(gold, gold) == ([(1.0, 1.0, 1.0)] * 2, 1.0)
    assert apart(GOLD_FRAMES, gold)[0] == [(1.0, 1.0, 1.0), (0.0, 0.0, 0.0)]
    half = (3, "fish.01", [("ARG0", 0, 1), ("ARG2", 4, 5)])
    assert apart([GOLD_FRAMES[0], half, *GOLD_FRAMES[1:]], gold)[0][1][0] == 0.5
    assert set(scorers.srl_score([], verb_tags=verbs).values()) == {None}


def test_senses_are_scored_where_gold_has_them():
    gold = [(p, sense if p == 5 else None, parts) for p, sense, parts in GOLD_FRAMES]
    assert srl_scores(GOLD_FRAMES, gold)["sense_acc"] == 1.0
    bare = [(p, None, parts) for p, _, parts in GOLD_FRAMES]
    assert srl_scores(bare, gold)["sense_acc"] == 0.0
    assert srl_scores(GOLD_FRAMES, bare)["sense_acc"] is None
    assert srl_scores([], gold)["sense_acc"] == 0.0


# --- all ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("score", "key", "prefix", "predicted", "gold"),
    [
        (
            scorers.np_chunk_score,
            *("np_chunks", "np_chunk"),
            *(make_doc(WORDS, spans) for spans in ([("NP", 0, 2)], [("NP", 0, 2), ("NP", 3, 6)])),
        ),
        (scorers.srl_score, "srl", "srl", framed_doc(GOLD_FRAMES[:1]), framed_doc(GOLD_FRAMES)),
    ],
)
def test_scores_with_the_names_that_spacy_shows(score, key, prefix, predicted, gold):
    """As of the span categorizer: `spacy evaluate --spans-key`."""
    scores = score([Example(predicted, gold)])
    assert scores[f"spans_{key}_p"] != scores[f"spans_{key}_r"]
    assert 0 < scores[f"spans_{key}_f"] < 1
    assert prf(scores, f"spans_{key}") == prf(scores, prefix)
    per_type = scores[f"spans_{key}_per_type"]
    assert per_type in (scores.get(f"{prefix}_per_{part}") for part in ("type", "prep"))
    assert all({"p", "r", "f"} <= {*measures} for measures in per_type.values())
