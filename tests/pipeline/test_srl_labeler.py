"""The role labeler as spaCy sees it: training, prediction, storage, odd input."""

import pickle
import re
import warnings
from itertools import pairwise

import numpy as np
import pytest
import spacy
from contracts.components import STAGES as TEMPLATES
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline import parsed
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry
from spacy.vocab import Vocab

from spacy_structlearn.classification.features import Table
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import srl_stages
from spacy_structlearn.pipeline.doc_arrays import form_ids
from spacy_structlearn.pipeline.extensions import frame_spans, set_spans
from spacy_structlearn.pipeline.readers import to_example
from spacy_structlearn.pipeline.srl_labeler import SRLLabeler
from spacy_structlearn.pipeline.srl_stages import STAGES, srl_templates
from spacy_structlearn.pipeline.storage.word_classes import share_classes
from spacy_structlearn.roles.features import features, predicate_features
from spacy_structlearn.roles.phrases import RoleTrees, candidates
from spacy_structlearn.roles.propositions import ENGLISH
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.heads import LEFTMOST
from spacy_structlearn.trees.nodes import Brackets
from spacy_structlearn.trees.normalize import normalize
from spacy_structlearn.trees.tree import Tree
from spacy_structlearn.words.classes import WordClasses


def stages(*order, l2=0.1):
    """The architecture with few features."""
    model = {"@architectures": "spacy_structlearn.LogLinear.v1", "l2": l2}
    return {
        "@architectures": "spacy_structlearn.Stages.v1",
        "order": list(order or STAGES),
        "stages": {stage: model | {"templates": TEMPLATES[stage]} for stage in order or STAGES},
    }


# Trees, and frames by their predicates: roleset, and arguments by their words.
ATE = (
    "(S (NP (PRP She)) (VP (VBD ate) (NP (NN pizza)) (PP (IN with) (NP (NNS forks)))) (. .))",
    {"ate": ("eat.01", "ARG0 She | ARG1 pizza | ARGM-MNR with forks")},
)
HAS_EATEN = (
    "(S (NP (PRP He)) (VP (VBZ has) (VP (VBN eaten) (NP (DT the) (NN bread)))) (. .))",
    {"eaten": ("eat.01", "ARG0 He | ARG1 the bread")},
)
PASSIVE = (
    "(S (NP (DT The) (NN bread)) (VP (VBD was) (VP (VBN eaten) (PP (IN by) (NP (NNS birds)))))"
    " (. .))",
    {"eaten": ("eat.01", "ARG1 The bread | ARG0 by birds")},
)
GAVE = (
    "(S (NP (DT The) (NN man)) (VP (VBD gave) (NP (PRP me)) (NP (DT a) (NN bone))) (. .))",
    {"gave": ("give.01", "ARG0 The man | ARG2 me | ARG1 a bone")},
)
RELATIVE = (
    "(S (NP (PRP I)) (VP (VBD saw) (NP (NP (DT the) (NN man)) (SBAR (WHNP (WP who))"
    " (S (VP (VBD ate) (NP (NN soup))))))) (. .))",
    {
        "saw": ("see.01", "ARG0 I | ARG1 the man who ate soup"),
        "ate": ("eat.01", "ARG0 the man | R-ARG0 who | ARG1 soup"),
    },
)
RAN_HOME = (
    "(S (NP (NNS Dogs)) (VP (VBD ran) (ADVP (RB home))) (. .))",
    {"ran": ("run.02", "ARG0 Dogs | ARGM-DIR home")},
)
RAN_A_SHOP = (
    "(S (NP (PRP They)) (VP (VBD ran) (NP (DT a) (NN shop))) (. .))",
    {"ran": ("run.01", "ARG0 They | ARG1 a shop")},
)
YES = ("(INTJ (UH Yes))", {})
SENTENCES = [ATE, HAS_EATEN, PASSIVE, GAVE, RELATIVE, RAN_HOME, RAN_A_SHOP, YES]
N_FRAMES = sum(len(frames) for _, frames in SENTENCES)


def parsed_doc(vocab, *sentences, gold=False, space=()):
    """A Doc with the trees of some sentences as constituents, and (`gold`) their frames."""
    doc = parsed.parsed_doc(vocab, *(tree for tree, _ in sentences), space=space)
    if gold:
        places, frames = [token.i for token in doc if not token.is_space], []
        for tree, (_, of_predicates) in zip(doc._.trees, sentences, strict=True):
            at, places = places[: len(tree.words())], places[len(tree.words()) :]
            for predicate, (roleset, arguments) in of_predicates.items():
                spans = []
                for argument in filter(None, arguments.split(" | ")):
                    label, _, text = argument.partition(" ")
                    start, end = place(tree.words(), text)
                    spans.append((label, at[start], at[end - 1] + 1))
                spans.sort(key=lambda span: (span[1], -span[2]))
                frames.append((at[place(tree.words(), predicate)[0]], roleset, spans))
        set_spans(doc, "srl", frame_spans(sorted(frames)))
    return doc


def place(words, text):
    wanted = text.split()
    (start,) = (i for i in range(len(words)) if words[i : i + len(wanted)] == wanted)
    return start, start + len(wanted)


def training_examples(nlp, sentences=SENTENCES):
    docs = [parsed_doc(nlp.vocab, sentence, gold=True) for sentence in sentences * 3]
    return [to_example(doc, spans=["constituents"]) for doc in docs]


def trained(sentences=SENTENCES, **config):
    config = {"model": stages()} | config
    return parsed.fitted("srl_labeler", lambda nlp: training_examples(nlp, sentences), config)


@pytest.fixture(scope="module")
def nlp():
    """A labeler alone; Docs with constituents come from `parsed_doc`."""
    return trained()


@pytest.fixture(scope="module")
def verbs():
    """One to which each verb is a predicate, and whose predicates have no rolesets."""
    return trained(model=stages("identification", "roles"))


@pytest.fixture
def labeler(nlp):
    return nlp.get_pipe("srl_labeler")


@pytest.fixture
def setting(labeler, monkeypatch):
    """Change a setting for one test."""
    return lambda **new: [monkeypatch.setattr(labeler, *item) for item in new.items()]


def readable(doc):
    """The frames as they are written in SENTENCES."""
    return [
        (f.predicate.text, f.roleset, " | ".join(f"{a.label} {a.span.text}" for a in f.arguments))
        for f in doc._.frames
    ]


def exact(doc):
    """All that is said of a Doc, a line a frame."""
    return [
        (
            (f.predicate.start, f.roleset, f.prob),
            [(a.label, a.span.start, a.span.end, a.prob) for a in f.arguments],
        )
        for f in doc._.frames
    ]


def expected(*sentences):
    """What `readable` should give."""
    return [(word, *frame) for _, frames in sentences for word, frame in frames.items()]


# --- prediction -----------------------------------------------------------------------------------
def test_frames_of_a_doc(labeler, nlp):
    doc = labeler(parsed_doc(nlp.vocab, *SENTENCES))
    assert readable(doc) == expected(*SENTENCES)
    assert len(readable(doc)) == N_FRAMES
    for frame in doc._.frames:
        assert frame.predicate[0]._.srl == frame
    assert sum(token._.srl is not None for token in doc) == N_FRAMES


def test_what_the_stages_say_is_what_is_reported(labeler, nlp):
    """Without candidates that overlap, probabilities are products of those of the classifiers."""
    doc = labeler(parsed_doc(nlp.vocab, RAN_HOME))
    nodes = RoleTrees(Brackets.of([normalize(parse_tree(RAN_HOME[0]))]))
    sites = candidates(nodes, [1])
    rows = features(nodes, sites)
    found, roles = (labeler.parameters[name] for name in ("identification", "roles"))
    is_one = found.predict_proba(rows)[:, found.labels.index("ARG")]
    of_role = roles.predict_proba(rows)
    (frame,) = doc._.frames
    assert len(frame.arguments) == len(sites.nodes) == 2
    words = predicate_features(nodes, [1])
    is_predicate = labeler.parameters["predicates"]
    row = is_predicate.predict_proba(words)[0]
    assert is_predicate.labels == ("NONE", "PREDICATE")
    assert frame.prob == pytest.approx(row[1], rel=1e-6)
    assert row[1] < 0.999
    for argument, p, row in zip(frame.arguments, is_one, of_role, strict=True):
        assert roles.labels[row.argmax()] == argument.label
        assert argument.prob == pytest.approx(frame.prob * p * row.max(), rel=1e-6)


def test_what_may_be_no_constituent_may_be_no_argument(labeler, nlp):
    def found(probability):
        doc = parsed_doc(nlp.vocab, ATE)
        brackets = doc.spans["constituents"]
        scores = [probability if span.label_ == "PP" else 1.0 for span in brackets]
        brackets.attrs["scores"] = np.array(scores, dtype=np.float32)
        return {a.span.text: a.prob for a in labeler(doc)._.frames[0].arguments}

    sure, unsure = found(1.0), found(0.75)
    plain = labeler(parsed_doc(nlp.vocab, ATE))._.frames[0].arguments
    assert sure == {argument.span.text: argument.prob for argument in plain}
    assert unsure["with forks"] < 0.85 * sure["with forks"]
    assert unsure["pizza"] == pytest.approx(sure["pizza"])
    assert "with forks" not in found(0.01)


@pytest.mark.parametrize(
    ("groups", "tags", "named"),
    [((), True, ["constituents"]), (("constituents",), False, ["constituents", "tag_"])],
)
def test_what_is_missing_is_named(labeler, nlp, groups, tags, named):
    whole = parsed_doc(nlp.vocab, ATE, GAVE)
    words, labels = ([t.text for t in whole], [t.tag_ for t in whole])
    doc = Doc(nlp.vocab, words=words, tags=labels if tags else None)
    for key in groups:
        doc.spans[key] = whole.spans[key].copy(doc=doc)
    with pytest.raises(StructlearnError, match=r"SL026.*She ate") as error:
        labeler(doc)
    for name in named:
        assert name in str(error.value)


OTHER_TAGS = "(S (NP (PRN Dia)) (VP (VBT makan) (NP (NNO roti))))"


def test_the_first_doc_with_other_tags_gets_a_warning(nlp):
    component = pickle.loads(pickle.dumps(nlp)).get_pipe("srl_labeler")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        component(parsed_doc(nlp.vocab, YES))
        assert not found
        for _ in range(2):
            assert component(parsed_doc(nlp.vocab, (OTHER_TAGS, {})))._.frames == ()
    (warning,) = found
    assert re.search(
        r"SL801.*'srl_labeler'.*'Dia makan roti ?'.*PRN, VBT, NNO", str(warning.message)
    )


@pytest.mark.parametrize("rows", [1, 20])
def test_candidates_are_classified_in_portions(labeler, nlp, monkeypatch, rows):
    """A long sentence has as many candidates as words, for each of its predicates."""
    together = exact(labeler(parsed_doc(nlp.vocab, *SENTENCES)))
    monkeypatch.setattr(srl_stages, "ROWS", rows)
    assert exact(labeler(parsed_doc(nlp.vocab, *SENTENCES))) == together


LEAVES = st.sampled_from(
    [
        Tree.leaf(tag, word)
        for tag, word in (("VBD", "ate"), ("NN", "man"), ("IN", "of"), (",", ","))
    ]
    + [Tree.leaf("VBN", "eaten"), Tree.leaf("VBZ", "has"), Tree.leaf("WP", "who")]
)
PHRASES = st.sampled_from(["S", "NP", "VP", "PP", "SBAR", "WHNP", "X"])
TREES = st.recursive(
    LEAVES,
    lambda below: st.builds(Tree, PHRASES, st.lists(below, min_size=1, max_size=4)),
    max_leaves=12,
)


@given(st.lists(TREES, min_size=1, max_size=3), st.sets(st.integers(0, 20), max_size=4), st.data())
@settings(deadline=None)
def test_frames_of_any_trees(nlp, trees, space, data):
    """Each verb that is one has a frame; arguments neither overlap nor hold their predicate."""
    labeler = nlp.get_pipe("srl_labeler")
    doc = parsed_doc(nlp.vocab, *((str(tree), {}) for tree in trees), space=space)
    try:
        labeler.bias = data.draw(st.sampled_from([-2.0, 0.0, 2.0, 100.0]))
        found = labeler(doc)._.frames
    finally:
        labeler.bias = 0.0
    assert [f.predicate.start for f in found] == sorted({f.predicate.start for f in found})
    for frame in found:
        assert frame.predicate[0].tag_ in ENGLISH.verbs
        assert 0.5 < frame.prob <= 1
        places = {frame.predicate.start}
        sentence = frame.predicate.sent
        for left, right in pairwise(frame.arguments):
            assert left.span.end <= right.span.start
        for argument in frame.arguments:
            assert places.isdisjoint(range(argument.span.start, argument.span.end))
            assert sentence.start <= argument.span.start < argument.span.end <= sentence.end
            assert not argument.span[0].is_space
            assert not argument.span[-1].is_space
            assert 0 <= argument.prob <= 1
        core = [a.label for a in frame.arguments if a.label in ("ARG0", "ARG1", "ARG2")]
        assert len(core) == len(set(core))


# --- settings -------------------------------------------------------------------------------------
def test_arguments_below_the_confidence_are_not_reported(labeler, nlp, setting):
    doc = labeler(parsed_doc(nlp.vocab, *SENTENCES))
    probabilities = sorted(a.prob for f in doc._.frames for a in f.arguments)
    limit = (probabilities[0] + probabilities[-1]) / 2
    setting(min_confidence=limit)
    found = labeler(parsed_doc(nlp.vocab, *SENTENCES))._.frames
    assert len(found) == N_FRAMES
    kept = sorted(a.prob for f in found for a in f.arguments)
    assert kept == [p for p in probabilities if p >= limit]
    assert 0 < len(kept) < len(probabilities)
    # What is as probable is reported.
    reading = labeler.predict([parsed_doc(nlp.vocab, YES, ATE)])[0]
    setting(min_confidence=max(reading.scores[1:]))
    assert [len(f.arguments) for f in labeler(parsed_doc(nlp.vocab, YES, ATE))._.frames] == [1]


def test_bias_finds_more_and_leaves_probabilities_as_they_are(labeler, nlp, setting):
    def found():
        doc = labeler(parsed_doc(nlp.vocab, (ATE[0].replace("She", "Zork"), {}), RELATIVE, PASSIVE))
        return {
            (f.predicate.start, a.span.start, a.span.end): a.prob
            for f in doc._.frames
            for a in f.arguments
        }

    plain = found()
    setting(bias=20.0)
    more = found()
    assert len(more) > len(plain)
    assert {place: more[place] for place in plain if place in more} == {
        place: prob for place, prob in plain.items() if place in more
    }
    setting(bias=-20.0)
    assert len(found()) < len(plain)


def test_calibration(nlp, tmp_path):
    """Probabilities of arguments in predicted trees are fitted to what is right in them."""
    again = pickle.loads(pickle.dumps(nlp))
    labeler = again.get_pipe("srl_labeler")

    def scored(*sentences):
        doc = parsed_doc(again.vocab, *sentences, gold=True)
        example = to_example(doc, spans=["constituents"])
        brackets = example.predicted.spans["constituents"]
        brackets.attrs["scores"] = np.ones(len(brackets), dtype=np.float32)
        return example

    assert labeler.calibration is None
    with pytest.raises(StructlearnError, match=r"SL037.*srl_labeler"):
        labeler.calibrate([scored(*SENTENCES)])  # all are right
    wrong = (ATE[0], {"ate": ("eat.01", "ARG1 She | ARG0 pizza")})
    before = labeler(scored(*SENTENCES).predicted)
    fitted = labeler.calibrate([scored(*SENTENCES), scored(wrong, wrong)])
    assert fitted == labeler.calibration
    after = labeler(scored(*SENTENCES).predicted)
    assert readable(after) == readable(before)
    pairs = [
        (a.prob, b.prob)
        for f, g in zip(before._.frames, after._.frames, strict=True)
        for a, b in zip(f.arguments, g.arguments, strict=True)
    ]
    assert np.mean([b for _, b in pairs]) < np.mean([a for a, _ in pairs])
    assert {0 <= b <= 1 for _, b in pairs} == {True}
    assert [f.prob for f in after._.frames] == [f.prob for f in before._.frames]
    # Of trees whose brackets have no probabilities nothing else is said than before.
    plain = parsed_doc(again.vocab, *SENTENCES)
    assert exact(labeler(plain.copy())) == exact(nlp.get_pipe("srl_labeler")(plain))
    again.to_disk(tmp_path / "model")
    stored = spacy.load(tmp_path / "model").get_pipe("srl_labeler")
    assert stored.calibration == pytest.approx(labeler.calibration, rel=1e-8)
    scores = stored(scored(*SENTENCES).predicted).spans["srl"].attrs["scores"]
    np.testing.assert_allclose(scores, after.spans["srl"].attrs["scores"], rtol=1e-6)


def test_no_core_role_twice(labeler, nlp):
    twice = ("(S (NP (PRP She)) (VP (VBD ate) (NP (DT the) (NN bread)) (NP (NN pizza))) (. .))", {})
    labels = [a.label for a in labeler(parsed_doc(nlp.vocab, twice))._.frames[0].arguments]
    assert labels.count("ARG1") == 1


NOUN = (
    "(S (NP (NP (PRP$ Her) (NN gift)) (PP (IN of) (NP (NN bread)))) (VP (VBD ate)) (. .))",
    {"gift": ("give.01", "ARG0 Her | ARG1 of bread"), "ate": ("eat.01", "ARG0 Her gift of bread")},
)


def test_nouns_as_predicates(nlp):
    both = trained([*SENTENCES, NOUN], predicates="all")
    labeler = both.get_pipe("srl_labeler")
    assert labeler.cfg["others"] == {"tags": ["NN"], "lemmas": ["gift"]}
    assert readable(both(parsed_doc(both.vocab, NOUN))) == expected(NOUN)
    # Only what was a predicate in training can be one: of its nouns, and with its tag.
    for changed in (NOUN[0].replace("gift", "piece"), NOUN[0].replace("NN gift", "JJ gift")):
        (frame,) = both(parsed_doc(both.vocab, (changed, {})))._.frames
        assert frame.predicate.text == "ate"
    for sentence in SENTENCES:
        assert readable(both(parsed_doc(both.vocab, sentence))) == expected(sentence)
    again = spacy.blank("en")
    again.add_pipe("srl_labeler", config={"model": stages(), "predicates": "all"})
    again.from_bytes(both.to_bytes())
    assert exact(again(parsed_doc(again.vocab, NOUN))) == exact(both(parsed_doc(both.vocab, NOUN)))
    (example,) = training_examples(both, [NOUN])[:1]
    example.predicted = labeler(example.predicted)
    scores = labeler.score([example])
    assert scores["srl_f"] == scores["srl_verbs_f"] == scores["srl_others_f"] == 1.0
    # Without them the others are looked for no more.
    labeler.predicates = "verbs"
    (frame,) = both(parsed_doc(both.vocab, NOUN))._.frames
    assert frame.predicate.text == "ate"


def test_classes_of_words(tmp_path):
    """Words that were not seen have the roles of their class."""
    words = ["soup", "pizza", "noon", "dawn"]
    ids = form_ids(words)[:, 0]
    order = np.argsort(ids)
    classes = WordClasses(
        ids[order], np.array([0, 0, 1, 1], dtype=np.uint16)[order], np.array([2, 3], np.uint64)
    )
    path = tmp_path / "classes.bin"
    path.write_bytes(classes.to_bytes())
    food = ("(S (NP (PRP She)) (VP (VBD ate) (NP (NN soup))))", {"ate": (None, "ARG1 soup")})
    time = ("(S (NP (PRP She)) (VP (VBD ate) (NP (NN noon))))", {"ate": (None, "ARGM-TMP noon")})
    model = stages("identification", "roles") | {"classes": str(path)}
    model["stages"]["roles"] = model["stages"]["roles"] | {"templates": [["content_class"]]}
    nlp = trained([food, time], model=model)
    for before, new in (("soup", "pizza"), ("noon", "dawn")):
        sentence = food if before == "soup" else time
        (frame,) = nlp(parsed_doc(nlp.vocab, (sentence[0].replace(before, new), {})))._.frames
        assert {a.label for a in frame.arguments if a.span.text == new} == {
            sentence[1]["ate"][1].split()[0]
        }
    # They are part of the model, or of the pipeline.
    del nlp.config["components"]["srl_labeler"]["model"]["classes"]
    size = len(nlp.get_pipe("srl_labeler").to_bytes(exclude=["vocab"]))
    assert (
        spacy.blank("en")
        .from_config(nlp.config)
        .from_bytes(nlp.to_bytes())
        .get_pipe("srl_labeler")
        .model.attrs["classes"]
        == nlp.get_pipe("srl_labeler").model.attrs["classes"]
    )
    share_classes(nlp.vocab, classes)
    assert len(nlp.get_pipe("srl_labeler").to_bytes(exclude=["vocab"])) < size


BATH = (
    "(S (NP (PRP She)) (VP (VBD took) (NP (DT a) (NN bath))) (. .))",
    {"took": ("take.LV", "ARGM-PRR bath")},
)


def test_arguments_within_noun_phrases():
    """The noun of a light verb is one."""
    sentences = [BATH, *SENTENCES]
    nlp = trained(sentences)
    found = readable(nlp.get_pipe("srl_labeler")(parsed_doc(nlp.vocab, *sentences)))
    assert found == expected(*sentences)


@pytest.mark.parametrize(
    "order",
    [
        ["roles"],
        ["predicates", "identification"],
        ["roles", "identification"],
        ["frames", "identification", "roles"],
    ],
)
def test_models_of_other_stages_are_refused(order):
    model = stages("identification", "roles")
    model["stages"] = {name: {"@architectures": "spacy_structlearn.LogLinear.v1"} for name in order}
    build = registry.resolve({"model": model | {"order": order}})["model"]
    with pytest.raises(StructlearnError, match=f"SL036.*'srl_labeler'.*{', '.join(order)}"):
        SRLLabeler(Vocab(), build)


# --- stages ---------------------------------------------------------------------------------------
def test_without_the_first_stages_each_verb_is_a_predicate_without_a_roleset(verbs):
    doc = verbs.get_pipe("srl_labeler")(parsed_doc(verbs.vocab, HAS_EATEN, ATE))
    assert [(f.predicate.text, f.roleset, f.prob) for f in doc._.frames] == [
        ("has", None, 1.0),
        ("eaten", None, 1.0),
        ("ate", None, 1.0),
    ]
    assert readable(doc)[-1][2] == ATE[1]["ate"][1]


def test_stages_that_learn_nothing_are_passed_over():
    without = [(tree, {w: ("", args) for w, (_, args) in f.items()}) for tree, f in SENTENCES]
    nlp = trained(without)
    labeler = nlp.get_pipe("srl_labeler")
    assert labeler.parameters["senses"].is_empty
    assert labeler.cfg["rolesets"] == {}
    doc = labeler(parsed_doc(nlp.vocab, ATE))
    assert readable(doc) == [("ate", None, ATE[1]["ate"][1])]


# --- training -------------------------------------------------------------------------------------
def test_gold_data(labeler, nlp):
    doc = parsed_doc(nlp.vocab, RELATIVE, HAS_EATEN, gold=True)
    data = labeler.gold_data(Example(Doc(nlp.vocab, words=["x"]), doc))
    assert {stage: part.labels for stage, part in data.items()} == {
        "predicates": ("PREDICATE", "PREDICATE", "NONE", "PREDICATE"),
        "senses": ("01",) * 3,
        # Of "saw": I, the man who ate soup, and its parts. Of "ate": I, saw, the man, who, soup. Of
        # "eaten": He, has, the bread, bread.
        "identification": tuple(
            "ARG" if role else "NONE" for role in (1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 1, 0)
        ),
        "roles": ("ARG0", "ARG1", "ARG0", "ARG0", "ARG1", "ARG0", "ARG1"),
    }
    (tree,) = parsed_doc(nlp.vocab, HAS_EATEN)._.trees
    nodes = RoleTrees(Brackets.of([tree]))
    wanted = Table.of(features(nodes, candidates(nodes, [2])))
    table = data["identification"].table
    assert table.select(wanted.variables).symbols[-4:].tolist() == wanted.symbols.tolist()


def test_what_does_not_fit_is_left_out(labeler, nlp):
    doc = parsed_doc(nlp.vocab, ATE, GAVE, gold=True)
    frames = [
        (1, "eat.01", [("ARG9", 0, 1), ("ARG1", 2, 3), ("C-V", 3, 5)]),
        (5, "x.01", [("ARG0", 0, 1)]),  # a full stop
        (8, "give.01", [("ARG0", 4, 8), ("ARG2", 9, 10)]),  # from the sentence before on
    ]
    set_spans(doc, "srl", frame_spans(frames))
    assert set(labeler.gold_labels(to_example(doc))) == {"ARG0", "ARG1", "ARG2", "ARG9"}
    data = labeler.gold_data(to_example(doc))
    assert data["roles"].labels == ("ARG1", "ARG2")
    assert data["identification"].labels.count("ARG") == 3  # whatever its role


def test_gold_whose_predicates_have_other_tags_names_the_tags(nlp):
    doc = parsed_doc(nlp.vocab, ATE, gold=True)
    labels = {"@misc": "spacy_structlearn.role_labels.v1", "verbs": ["VERB", "NOUN"]}
    fresh = spacy.blank("en").add_pipe("srl_labeler", config={"role_labels": labels})
    with pytest.raises(StructlearnError, match=r"SL005.*predicates tagged.*NOUN or VERB"):
        fresh.initialize(lambda: [to_example(doc)])


def test_of_rolesets_with_one_number_the_frequent_one_is_known():
    up = (RAN_HOME[0], {"ran": ("run_up.02", "ARG0 Dogs")})
    rolesets = trained([*SENTENCES, up, up]).get_pipe("srl_labeler").cfg["rolesets"]
    assert rolesets["run"] == {"01": "run.01", "02": "run_up.02"}
    rolesets = trained([*SENTENCES, up]).get_pipe("srl_labeler").cfg["rolesets"]
    assert rolesets["run"]["02"] == "run.02"


def test_rolesets_of_new_data_are_added_and_the_calibration_is_kept(nlp):
    again = pickle.loads(pickle.dumps(nlp))
    labeler = again.get_pipe("srl_labeler")
    before = pickle.loads(pickle.dumps(labeler.cfg["rolesets"]))
    labeler.calibration = calibration = (-1.0, 0.5)
    # Another name for a known number, and a number that is new.
    new = [(RAN_HOME[0], {"ran": (name, "ARG0 Dogs")}) for name in ("run_up.02", "run.09")]
    labeler.update(training_examples(again, new))
    run = {**before["run"], "09": "run.09"}
    assert labeler.cfg["rolesets"] == before | {"run": run}
    assert before["run"]["02"] == "run.02"
    assert "run.09" in again.vocab.strings
    assert labeler.calibration == calibration


def toy_doc(vocab, words):
    """A sentence of a treebank with other labels: the verb is the last word, of each phrase the
    first word is its head, and roles have other names.
    """
    agent, patient, verb = words.split()
    brackets = f"(TEIL (GRP (SUB {agent}) (ART e)) (GRP (SUB {patient})) (TUN {verb}))"
    return parsed_doc(
        vocab, (brackets, {verb: (None, f"WER {agent} e | WAS {patient}")}), gold=True
    )


def test_another_treebank_with_other_labels():
    nlp = spacy.blank("xx")
    model = stages()
    model["stages"]["roles"]["templates"] = [["last_tag"]]
    config = {
        "model": model,
        "lemmatizer": None,
        "head_rules": {"@misc": "spacy_structlearn.leftmost_head_rules.v1"},
        "role_labels": {"@misc": "spacy_structlearn.role_labels.v1", "verbs": ["TUN"]},
    }
    labeler = nlp.add_pipe("srl_labeler", config=config)
    assert labeler.head_rules is LEFTMOST
    assert labeler.tags == {"TUN"}
    texts = ["hund knochen frisst", "katze maus jagt", "frau brot backt", "kind ball wirft"]
    examples = [to_example(toy_doc(nlp.vocab, t), spans=["constituents"]) for t in texts * 3]
    nlp.initialize(lambda: examples)
    labeler.fit(examples)
    assert labeler.labels == ("WAS", "WER")
    doc = labeler(toy_doc(nlp.vocab, "mann apfel isst"))
    assert readable(doc) == [("isst", None, "WER mann e | WAS apfel")]
    again = spacy.blank("xx").from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert again.get_pipe("srl_labeler").role_labels == labeler.role_labels
    assert exact(again.get_pipe("srl_labeler")(doc.copy())) == exact(doc)


# --- registered functions -------------------------------------------------------------------------
def test_templates_of_the_registry():
    templates = registry.misc.get("spacy_structlearn.srl_templates.v1")
    assert templates("roles") == srl_templates("roles")
    more = [*srl_templates("roles"), ["content_class"]]
    assert srl_templates("roles", classes=True)[: len(more)] == more
    assert srl_templates("senses", classes=True) == srl_templates("senses")
    with pytest.raises(StructlearnError, match=r"SL039.*'frames'.*identification"):
        templates("frames")
