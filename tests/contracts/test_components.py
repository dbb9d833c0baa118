"""What every component does with every learner: trains, answers, is stored, and refuses damage."""

import json
import math
import pickle
import random
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b

import numpy as np
import pytest
import spacy
import srsly
from contracts import components
from contracts.components import COMPONENTS, OTHER, TEXT
from spacy.tokens import Doc, DocBin, Span, Token
from spacy.training import Example
from thinc.api import Linear

from spacy_structlearn import serialization
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.learning import training

CHAINS = {"sentence_splitter", "chain_tagger", "np_chunker", "tree_morphologizer"}
PARSERS = [name for name in COMPONENTS if name.startswith("constituency_parser")]
# One of each factory: what a component does with a Doc does not depend on its learner. How it is
# stored may also depend on layers, and on a model of another family.
FACTORIES = list(
    {component.factory: name for name, component in reversed(COMPONENTS.items())}.values()
)
STORED = [*FACTORIES, "constituency_parser ISBN"]
WITH_SPANS = [name for name in FACTORIES if COMPONENTS[name].key]
one_of_each = pytest.mark.parametrize("component", FACTORIES, indirect=True)
with_spans = pytest.mark.parametrize("component", WITH_SPANS, indirect=True)
stored_alike = pytest.mark.parametrize("component", STORED, indirect=True)
ODD = ["", " ", "\n\n\t ", "dog", "!", "🙂 🙂", "\u200b", "\x00", ") (", "door , " * 60]


@pytest.fixture(params=COMPONENTS)
def component(request):
    return COMPONENTS[request.param]


@pytest.fixture
def nlp(component):
    """The trained pipeline, as it is for all tests."""
    return components.shared(component)


@pytest.fixture
def trained(component, nlp):
    return components.part(component, nlp)


@pytest.fixture
def fresh(component):
    """Not trained, and the sample for it: (pipeline, component, examples)."""
    made = components.blank(component)
    return made, components.part(component, made), components.examples(component, made)


def same(one, other, rel=1e-4):
    assert other[0] == one[0]
    assert other[1] == pytest.approx(one[1], rel=rel, abs=1e-5)


def through(nlp, doc, without=()):
    for name, pipe in nlp.pipeline:
        doc = doc if name in without else pipe(doc)
    return doc


def raises(code, call, *arguments, **named):
    with pytest.raises(StructlearnError) as error:
        call(*arguments, **named)
    assert error.value.code in code.split()
    return str(error.value)


# --- answers --------------------------------------------------------------------------------------
def test_learns_the_sample(component, nlp, trained):
    scores = nlp.evaluate(components.examples(component, nlp))
    weights = nlp.get_pipe_meta(component.factory).default_score_weights
    assert scores[component.score] > component.floor
    assert {name for name, weight in weights.items() if weight is not None} <= set(scores)
    assert trained.labels == tuple(sorted(trained.labels))
    assert trained.label_data == list(trained.labels)


def test_probabilities(component, nlp):
    doc = nlp(TEXT)
    said, scores = component.answer(doc)
    assert len(said) >= 2
    assert all(score is not None and 0 <= score <= 1 for score in scores)
    if component.key is None:
        return
    written = doc.spans[component.key].attrs["scores"]
    assert written.dtype == np.float32
    assert len(written) == len(doc.spans[component.key])


def test_odd_texts(component, nlp):
    for text in ODD:
        doc = nlp(text)
        assert doc.text == text
        _, scores = component.answer(doc)
        assert all(score is None or 0 <= score <= 1 for score in scores)
        if component.key:
            group = doc.spans[component.key]
            assert len(group) == len(group.attrs["scores"])
        if component.factory == "constituency_parser":
            found = [word for tree in doc._.trees for word in tree.words()]
            assert found == components.words(doc)


@pytest.mark.parametrize(
    "component", [name for name in FACTORIES if name.split()[0] in CHAINS], indirect=True
)
def test_a_very_long_sentence(component, nlp):
    doc = nlp.make_doc("the door and " * 1000)
    doc[0].is_sent_start = True
    for token in doc[1:]:
        token.is_sent_start, token.tag_ = False, "NN"
    doc = components.part(component, nlp)(doc)
    said, scores = component.answer(doc)
    assert len(said) >= len(doc)
    assert np.isfinite(np.array(scores, dtype=float)).all()


@one_of_each
def test_white_space_is_not_seen(component, nlp):
    if component.layout:
        return  # it reads white space
    spread = "\n The old  man \n took a\tkey from his pocket . \n\n He opened the door. "
    plain = "The old man took a key from his pocket . He opened the door."
    same(component.answer(nlp(plain)), component.answer(nlp(spread)), rel=0)


@one_of_each
def test_a_batch_is_as_its_texts(component, nlp):
    texts = [TEXT, "", OTHER, " ", "Run!"] * 2
    found = list(nlp.pipe(texts, batch_size=4))
    for doc, text in zip(found, texts, strict=True):
        same(component.answer(nlp(text)), component.answer(doc))
    assert list(nlp.pipe([])) == []


@one_of_each
def test_annotations_are_replaced_and_those_of_others_stay(component, nlp, trained):
    doc = through(nlp, nlp.make_doc(TEXT), without=[component.factory])
    doc.spans["mine"] = [doc[0:1], doc[0:2]]
    kept = {key: [*group] for key, group in doc.spans.items()}
    readings = trained.predict([doc])
    assert {key: [*group] for key, group in doc.spans.items()} == kept
    trained.set_annotations([doc], readings)
    same(component.answer(nlp(TEXT)), component.answer(doc))
    trained(doc)
    # Boundaries that are set are certain.
    assert component.answer(doc)[0] == component.answer(nlp(TEXT))[0]
    assert {key: [*doc.spans[key]] for key in kept} == kept
    assert trained.predict([]) == []


@one_of_each
def test_docs_of_another_vocab(component, nlp):
    words = ["The", "zorkish", "man", "opened", "the", "blicketing", "door", "."]
    answers = []
    for vocab in (nlp.vocab, spacy.blank("en").vocab):
        doc = Doc(vocab, words=words, sent_starts=[word == "The" for word in words])
        answers.append(component.answer(through(nlp, doc)))
    assert answers[0] == answers[1]


@one_of_each
def test_memory_zone(component, nlp):
    before, strings = component.answer(nlp(TEXT)), set(nlp.vocab.strings)
    with nlp.memory_zone():
        inside = component.answer(nlp("An unheard-of zyzzyva slept. " + TEXT))
    assert len(inside[0]) >= len(before[0])
    assert set(nlp.vocab.strings) == strings
    assert component.answer(nlp(TEXT)) == before


@one_of_each
def test_threads_take_turns(component, nlp):
    # What it makes when it is first needed is made by threads too.
    loaded, expected = components.own(component), component.answer(nlp(TEXT))
    data = loaded.to_bytes()
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: loaded(TEXT) if i % 4 else loaded.to_bytes(), range(8)))
    assert found[::4] == [data] * 2
    assert [component.answer(doc) for i, doc in enumerate(found) if i % 4] == [expected] * 6


@one_of_each
def test_in_another_pipeline(component, nlp):
    other = spacy.blank("en")
    for name in nlp.pipe_names:
        other.add_pipe(name, source=nlp)
    text = "The zorkish man opened the blicketing door."
    assert component.answer(other(text)) == component.answer(nlp(text))


@one_of_each
def test_analysis_of_the_pipeline(component, nlp):
    assert not nlp.analyze_pipes()["problems"][component.factory]
    targets = {"doc": Doc, "span": Span, "token": Token}
    for name in nlp.get_pipe_meta(component.factory).assigns:
        target, _, attribute = name.partition("._.")
        assert not attribute or targets[target].has_extension(attribute), name


# --- annotation in a Doc --------------------------------------------------------------------------
THROUGH = {
    "bytes": lambda doc: Doc(doc.vocab).from_bytes(doc.to_bytes()),
    "docbin": lambda doc: next(
        DocBin().from_bytes(DocBin(docs=[doc]).to_bytes()).get_docs(doc.vocab)
    ),
    "copy": lambda doc: doc.copy(),
    "pickle": lambda doc: pickle.loads(pickle.dumps(doc)),
}


@one_of_each
def test_stored_docs(component, nlp):
    doc = nlp("\n" + TEXT)
    for way, through in THROUGH.items():
        assert component.answer(through(doc)) == component.answer(doc), way


@one_of_each
def test_joined_docs_and_parts(component, nlp):
    docs = [nlp(TEXT), nlp(" "), nlp(OTHER)]
    said, scores = component.answer(Doc.from_docs(docs))
    wanted = [one for doc in docs for one in component.answer(doc)[0]]
    # What is said of all tokens is said once.
    assert sorted(map(repr, said)) == sorted(map(repr, wanted))
    # Scores do not survive the joining; a getter says None rather than another span's score.
    assert set(scores) <= {None}
    sentence = list(docs[0].sents)[1]
    part = sentence.as_doc()
    assert len(component.answer(part)[0]) <= len(component.answer(docs[0])[0])
    component.answer(through(nlp, part))


@with_spans
def test_scores_that_do_not_fit_count_as_missing(component, nlp):
    doc = nlp(TEXT)
    said, _ = component.answer(doc)
    doc.spans[component.key].attrs["scores"] = np.ones(1, dtype=np.float32)
    assert component.answer(doc) == (said, [None] * len(component.answer(doc)[1]))


@one_of_each
def test_without_annotation_there_is_nothing_to_read(component, nlp):
    said, scores = component.answer(nlp.make_doc("A dog"))
    assert not any(isinstance(one, tuple) for one in said)
    assert set(scores) <= {None}


# --- storage --------------------------------------------------------------------------------------
def through_disk(component, nlp, folder):
    nlp.to_disk(folder / "model")
    return spacy.load(folder / "model")


def through_bytes(component, nlp, folder):
    again = components.blank(component)
    components.part(component, again).from_bytes(components.part(component, nlp).to_bytes())
    return again


def through_pickle(component, nlp, folder):
    nlp(TEXT)  # the parser has a chart or a search now, which must not be pickled
    return pickle.loads(pickle.dumps(nlp))


@pytest.mark.parametrize(
    ("component", "way"),
    [
        *((name, through_bytes) for name in COMPONENTS),
        *((name, way) for name in STORED for way in (through_disk, through_pickle)),
    ],
    indirect=["component"],
)
def test_round_trip(component, nlp, trained, way, tmp_path):
    again = way(component, nlp, tmp_path)
    loaded = components.part(component, again)
    assert components.stored(component, again) == components.stored(component, nlp)
    assert loaded.estimator == trained.estimator
    assert loaded.cfg == trained.cfg
    assert component.answer(again(TEXT)) == component.answer(nlp(TEXT))


@one_of_each
def test_what_is_excluded_is_not_stored(trained, component, tmp_path):
    trained.to_disk(tmp_path / "part", exclude=["model", "vocab"])
    assert not (tmp_path / "part" / "model").exists()
    whole = trained.to_bytes(exclude=["vocab"])
    loaded = components.part(component, components.blank(component))
    loaded.from_bytes(whole, exclude=["vocab", "model"])
    assert loaded.parameters.is_empty
    assert loaded.labels == trained.labels
    loaded.from_bytes(trained.to_bytes(exclude=["vocab", "cfg"]), exclude=["vocab", "cfg"])
    assert loaded.parameters.to_bytes() == trained.parameters.to_bytes()


# One pipeline of them all, so that they share the workers. What each says is kept before the next.
SCRIPT = """\
import json
import multiprocessing
import pickle
import sys
from hashlib import blake2b

import spacy
from spacy.language import Language


class Keep:
    def __init__(self, of):
        self.of = of

    def __call__(self, doc):
        from contracts import components

        doc.user_data[self.of] = components.COMPONENTS[self.of].answer(doc)
        return doc


@Language.factory("keep", default_config={"of": ""})
def keep(nlp, name, of):
    return Keep(of)


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    folder, text = sys.argv[1:]
    from contracts import components

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    with open(f"{folder}/pickled", "rb") as file:
        names, pickled = zip(*pickle.load(file))
    for name, data in zip(names, pickled):
        # Nobody has made one here, or told thinc how it is stored.
        found, factory = pickle.loads(data), components.COMPONENTS[name].factory
        stored = found.get_pipe(factory).to_bytes(exclude=["vocab"])
        found(text)
        print(json.dumps([name, blake2b(stored).hexdigest(), "scipy" in sys.modules]))
        nlp.add_pipe(factory, source=found, name=name)
        nlp.add_pipe("keep", name=f"{name}: keep", config={"of": name})
    alone = nlp(text)
    print(json.dumps([alone.user_data[name] for name in names]))
    for doc in nlp.pipe([text] * 4, n_process=2, batch_size=2):
        print(json.dumps([doc.user_data[name] for name in names]))
"""


def test_processes_under_spawn(tmp_path):
    """They are stored whole where none was made, need no SciPy, and find the same in workers."""
    script = tmp_path / "run.py"
    script.write_text(SCRIPT, encoding="utf8")
    # Those that need SciPy come last, and what reads tags or trees behind those that make them.
    names = sorted(
        [*STORED, "np_chunker MEstimation"], key=lambda name: (COMPONENTS[name].needs_scipy, name)
    )
    found = [(name, components.pickled(COMPONENTS[name])) for name in names]
    (tmp_path / "pickled").write_bytes(pickle.dumps(found))
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path), TEXT],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**components.ENVIRONMENT},
    )
    assert run.stderr == "", run.stderr
    lines = list(map(json.loads, run.stdout.splitlines()))
    for name, digest, has_scipy in lines[: len(names)]:
        part = components.part(COMPONENTS[name], components.own(COMPONENTS[name]))
        assert digest == blake2b(part.to_bytes(exclude=["vocab"])).hexdigest(), name
        assert COMPONENTS[name].needs_scipy or not has_scipy, name
    alone, *of_workers = lines[len(names) :]
    assert len(of_workers) == 4
    for one in of_workers:
        for ours, theirs in zip(alone, one, strict=True):
            same(ours, theirs)


# --- damage ---------------------------------------------------------------------------------------
@pytest.fixture
def folder(component, trained, tmp_path):
    trained.to_disk(tmp_path / "part", exclude=["vocab"])
    return tmp_path / "part"


def flipped(data, number):
    """One bit is another; of three, the first is at the beginning and the last at the end."""
    rng = random.Random(number)
    n = len(data)
    begin, end = [(0, min(90, n)), (0, n), (max(n - 90, 0), n)][number % 3]
    changed = bytearray(data)
    changed[rng.randrange(begin, end)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def refused(part, folder, name, content, code):
    file = folder / name
    whole = file.read_bytes()
    file.write_bytes(content)
    message = raises(code, part.from_disk, folder, exclude=["vocab"])
    file.write_bytes(whole)
    assert str(file) in message
    return message


@pytest.mark.parametrize("component", FACTORIES[:1], indirect=True)
def test_a_damaged_folder(component, trained, folder):
    part = components.untrained(component)
    for name in ("cfg", "model"):
        data = (folder / name).read_bytes()
        for content in (b"", data[:-3], data + b"x", *(flipped(data, i) for i in range(9))):
            (folder / name).write_bytes(content)
            # SL089: a name of another kind of component.
            raises("SL080 SL081 SL082 SL089", part.from_disk, folder, exclude=["vocab"])
        (folder / name).write_bytes(data)
    loaded = components.part(component, components.blank(component))
    loaded.from_disk(folder, exclude=["vocab"])
    assert loaded.parameters.to_bytes() == trained.parameters.to_bytes()


@stored_alike
def test_parts_of_a_folder(component, trained, folder):
    data, cfg = ((folder / name).read_bytes() for name in ("model", "cfg"))
    part = components.part(component, components.blank(component))
    for content in (b"", data[:-1], data[: len(data) // 2], b"\xc0", b"\x80", b"hello", b"{}"):
        refused(part, folder, "model", content, "SL080")
    for i in range(27):
        refused(part, folder, "model", flipped(data, i), "SL080 SL082")
    for version in (0, 99):
        stored = srsly.msgpack_loads(data)
        inner = bytes(stored["attrs"][0]["parameters"])
        kind = srsly.msgpack_loads(inner[len(serialization.MAGIC) + serialization.DIGEST_SIZE :])[
            "kind"
        ]
        stored["attrs"][0]["parameters"] = serialization.pack(kind, version, {})
        message = refused(part, folder, "model", srsly.msgpack_dumps(stored), "SL080")
        assert f"format version {version}; this installation reads" in message
    for content in (b"", cfg[:-1], b"[]", cfg.replace(b'"labels"', b'"l\xffbels"')):
        refused(part, folder, "cfg", content, "SL081")
    settings = srsly.json_loads(cfg)
    del settings["digest"]
    for name in part.cfg_types:
        for value in (7, [math.nan, 1.0]):
            content = json.dumps({**settings, name: value}).encode()
            message = refused(part, folder, "cfg", content, "SL081")
            assert f"({name} is {json.dumps(value).replace('N', 'n')}; it must be" in message
    content = srsly.json_dumps({**settings, "labels": [*trained.labels[:-1], "another"]})
    message = refused(part, folder, "cfg", content.encode(), "SL081")
    assert f"without labels that the model gives: {trained.labels[-1]}" in message
    for name in ("cfg", "model"):
        shutil.move(folder / name, folder / "elsewhere")
        with pytest.raises(FileNotFoundError) as error:
            part.from_disk(folder, exclude=["vocab"])
        assert error.value.filename == str(folder / name)
        shutil.move(folder / "elsewhere", folder / name)


@stored_alike
def test_the_model_of_another_component(component, folder):
    part = components.untrained(component)
    for name in ("srl_labeler Stages", "np_chunker CRF", *PARSERS[::4]):
        other = COMPONENTS[name]
        # Of models of one architecture the labels tell them apart.
        if other.model["@architectures"] != component.model["@architectures"]:
            content = components.stored(other, components.shared(other))
            message = refused(part, folder, "model", content, "SL082")
            assert "with the config that it was saved with" in message


@one_of_each
def test_damaged_bytes(component, trained):
    data = trained.to_bytes(exclude=["vocab"])
    part = components.part(component, components.own(component))
    held = part.parameters
    for content in (b"", data[: len(data) // 2], data[:-1]):
        message = raises("SL080", part.from_bytes, content, exclude=["vocab"])
        assert repr(component.factory) in message
    stored = srsly.msgpack_loads(data)
    content = srsly.msgpack_dumps({**stored, "cfg": "{"})
    raises("SL080", part.from_bytes, content, exclude=["vocab"])
    content = srsly.msgpack_dumps({**stored, "cfg": b"{"})
    raises("SL081", part.from_bytes, content, exclude=["vocab"])
    # What could not be loaded stays as it was.
    assert part.parameters is held


# --- training -------------------------------------------------------------------------------------
@stored_alike
def test_steps_of_spacy_end_where_fit_ends(component, nlp, fresh):
    stepwise, part, found = fresh
    part.initialize(lambda: found[::-1] if component.any_order else found)
    before = [name for name in stepwise.pipe_names if name != component.factory]
    sgd, losses = stepwise.create_optimizer(), []
    while len(set(losses[-3:])) > 1 or len(losses) < 3:
        losses.append(stepwise.update(found, sgd=sgd, exclude=before)[component.factory])
    assert np.isfinite(losses).all()
    assert components.stored(component, stepwise) == components.stored(component, nlp)
    # What others do has no part in it.
    stepwise.update(found, sgd=sgd, exclude=stepwise.pipe_names)
    part.finish_update(sgd)
    stepwise.resume_training()
    with stepwise.use_params({}):
        assert component.answer(stepwise(TEXT)) == component.answer(nlp(TEXT))


@one_of_each
def test_an_interrupted_fit_goes_on_from_its_checkpoint(component, nlp, tmp_path, monkeypatch):
    calls, file = [], tmp_path / "state"
    total = len(components.fitted(component)[1])
    if total < 2:
        pytest.skip("one step")

    def save_every(seconds):
        monkeypatch.setattr(training, "CHECKPOINT_SECONDS", seconds)

    def interrupt(*call):
        calls.append(call)
        if len(calls) == 2 * total // 3:
            save_every(-1)
        elif len(calls) > 2 * total // 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        components.trained(component, on_iteration=interrupt, checkpoint=file)
    save_every(99)
    went_on = []
    other = components.trained(
        component, on_iteration=lambda *call: went_on.append(call), checkpoint=file
    )
    assert went_on[0][0] >= calls[-2][0]
    assert len(went_on) < total
    assert components.stored(component, other) == components.stored(component, nlp)
    assert not file.exists()


@one_of_each
def test_initialize_keeps_what_is_loaded(component, nlp):
    loaded = components.own(component)
    held = components.part(component, loaded).parameters
    loaded.initialize()
    assert components.part(component, loaded).parameters is held
    assert components.stored(component, loaded) == components.stored(component, nlp)


@one_of_each
def test_training_goes_on_after_loading(component):
    loaded = components.own(component)
    part, found = components.part(component, loaded), components.examples(component, loaded)
    losses = part.update(found[:3])
    assert np.isfinite(losses[component.factory])
    assert component.answer(loaded(TEXT))[0]


def bare(nlp):
    return Example(nlp.make_doc("A dog slept."), nlp.make_doc("A dog slept."))


@one_of_each
def test_without_gold_there_is_nothing_to_learn(component, fresh):
    nlp, part, found = fresh
    message = raises("SL005", part.initialize, lambda: [bare(nlp)])
    assert repr(component.factory) in message
    assert part.gold_data(bare(nlp)) is None
    part.initialize(lambda: [bare(nlp), *found])
    assert part.update([bare(nlp)]) == {component.factory: 0.0}
    assert part.score([bare(nlp)])[component.score] is None
    raises("SL005", part.fit, [bare(nlp)])
    for bad in (None, 1, lambda: None, lambda: [], lambda: ["text"]):
        with pytest.raises(TypeError):
            part.initialize(bad)


@one_of_each
def test_gold_of_other_tokens(component, trained):
    (example,) = components.examples(component, components.shared(component), 1)
    words = [token.text for token in example.reference]
    starts = [token.is_sent_start for token in example.reference]
    words[:3], starts[:3] = ["".join(words[:3])], [True]
    tags = ["NN"] * len(words)
    predicted = Doc(trained.vocab, words=words, tags=tags, sent_starts=starts)
    assert trained.gold_data(Example(predicted, example.reference)) is not None


@stored_alike
def test_untrained_ones_say_so_and_are_stored(component):
    part = components.untrained(component)
    message = raises("SL002", part, spacy.blank("en").make_doc("A dog slept."))
    assert repr(component.factory) in message
    loaded = components.part(component, components.blank(component))
    loaded.from_bytes(part.to_bytes(exclude=["vocab"]), exclude=["vocab"])
    assert loaded.parameters.is_empty


@one_of_each
def test_labels(component, trained, fresh):
    _, part, found = fresh
    assert [part.add_label("XX"), part.add_label("XX")] == [1, 0]
    assert part.label_data == ["XX"]
    part.initialize(lambda: found, labels=trained.label_data)
    assert part.label_data == trained.label_data
    assert part.add_label(part.labels[0]) == 0
    raises("SL006", part.add_label, "YY")


# --- settings -------------------------------------------------------------------------------------
@one_of_each
def test_models_of_other_families_are_refused(component):
    nlp = spacy.blank("en")
    staged = {"srl_labeler", "tree_dependencies"}  # which name the stages that they need
    family = {component.factory}
    own = next((same for same in (CHAINS, staged) if component.factory in same), family)
    for factory in sorted(components.ANSWERS.keys() - own):
        with pytest.raises(StructlearnError, match=f"SL029.*{factory}.*its default"):
            nlp.create_pipe(factory, factory, config={"model": component.model})
    for factory in sorted(staged - family) if component.factory in staged else ():
        with pytest.raises(StructlearnError, match=f"SL0(36|47).*{factory}.* stages "):
            nlp.create_pipe(factory, factory, config={"model": component.model})
    kind = type(components.untrained(component))
    for model, name in ((Linear(2, 2), "linear"), (len, "len"), (5, "5")):
        assert f"'{name}'" in raises("SL029", kind, nlp.vocab, model)


@one_of_each
def test_settings_of_every_component(component):
    nlp = spacy.blank("en")
    config = {"model": component.model, **component.config}
    for bad in (0, -1):
        with pytest.raises(StructlearnError, match=f"SL043.*{component.factory}"):
            nlp.create_pipe(component.factory, config={**config, "iterations_per_step": bad})
    with pytest.raises(StructlearnError, match=f"SL043.*{component.factory}: scorer is 'f1'"):
        nlp.create_pipe(component.factory, config={**config, "scorer": "f1"})
    part = nlp.create_pipe(component.factory, config={**config, "scorer": None})
    assert part.score([]) == {}


# --- parsers --------------------------------------------------------------------------------------
@pytest.fixture(params=PARSERS)
def parser(request):
    """A trained pipeline and its parser, which a test may change."""
    nlp = components.own(COMPONENTS[request.param])
    return nlp, nlp.get_pipe("constituency_parser")


DOOR = "(S (NP (PRP He)) (VP (VBD opened) (NP (DT the) (NN door))) (. .))"
DECODERS = ["max_rule_product", "max_rule_sum", "viterbi", "variational", "labelled_recall"]


def test_every_decoder(parser):
    nlp, part = parser
    for part.decoder in DECODERS:
        doc = nlp("He opened the door.")
        best = part.k_best(next(doc.sents), 5)
        assert doc._.parse_failures == ()
        assert best[0][1] == doc._.trees[0]
        assert str(best[0][1]) == f"(TOP {DOOR})"
        assert len({str(tree) for _, tree in best}) == len(best) == 5
        assert sum(np.exp(log_probability) for log_probability, _ in best) <= 1 + 1e-4
        assert part.k_best(doc[2:4], 1)[0][1].words() == ["the", "door"]
        assert part.k_best(nlp(" \n"), 3) == []


def test_brackets_that_must_be(parser):
    nlp, part = parser
    for part.decoder in DECODERS:
        for label in ("NP", "", "!NP", "!"):
            doc = nlp.make_doc("He opened the door with the key.")
            doc.spans["constituent_constraints"] = [Span(doc, 2, 7, label)]
            if hasattr(part.parameters, "derivations"):
                raises("SL633", nlp, doc)
                continue
            nlp(doc)
            best = [tree for _, tree in part.k_best(doc, 5)]
            assert doc._.parse_failures == ()
            for tree in (*best, doc._.trees[0]):
                labels = [name for name, *span in tree.spans() if span == [2, 7]]
                has = label.strip("!") in labels if label.strip("!") else bool(labels)
                assert has == (label[:1] != "!")


def test_tags_of_the_tokens(parser):
    nlp, part = parser
    if nlp.has_pipe("token_encoder"):
        return  # which is not asked here
    part.one_sentence = True
    doc = nlp.make_doc("He opened the door.")
    given = ["PRP", "VBD", "DT", "VB", "."]
    own = ["PRP", "VBD", "DT", "NN", "."]
    for how, weight, wanted in (
        ("ignore", 0.0, own),
        ("prior", 0.0, own),
        ("prior", 100.0, given),
        ("require", 0.0, given),
    ):
        for token, tag in zip(doc, given, strict=True):
            token.tag_ = tag
        part.tags, part.tag_weight = how, weight
        assert part(doc)._.trees[0].tags() == wanted, how
        assert [token.tag_ for token in doc] == given
    for token in doc:
        token.tag_ = "NONE"  # not known to the parser
    assert part(doc)._.trees[0].tags() == own
    part.tags, part.set_tags = "ignore", True
    assert [token.tag_ for token in nlp("He opened the door. \n")] == [*own, ""]


def test_settings_of_a_parser_may_change_between_texts(parser):
    nlp, part = parser
    part.threads, part.max_length = 2, 4
    doc = nlp("He opened the door , and she took the key from his pocket .")
    assert next((s.label_, s.text) for s in doc._.parse_failures) == ("cut", doc.text)
    assert doc[:]._.constituent_prob == 0
    assert doc[:]._.labels[0] == part.parameters.top_label == "S"
    assert doc._.trees[0].words() == [token.text for token in doc]


def test_temperature(parser):
    nlp, part = parser
    if nlp.has_pipe("token_encoder"):
        return  # weights are fitted, too
    before = COMPONENTS[PARSERS[0]].answer(nlp(TEXT))[1]
    temperature = part.parameters.temperature
    raises("SL424", part.calibrate, [])
    assert part.parameters.temperature == temperature
    temperature = part.calibrate(components.examples(COMPONENTS[PARSERS[0]], nlp))
    assert temperature == part.parameters.temperature != 1.0
    after = COMPONENTS[PARSERS[0]].answer(nlp(TEXT))[1]
    raised = [b > a for a, b in zip(before, after, strict=True) if 0.5 < a < 0.99]
    assert set(raised) == {temperature < 1}
    again = pickle.loads(pickle.dumps(nlp))
    assert COMPONENTS[PARSERS[0]].answer(again(TEXT))[1] == after
