"""Sigmoid belief networks as spaCy sees them: settings, training, storage, odd input."""

import dataclasses
import os
import pickle
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import parsers
import pytest
import spacy
from parsers import FILES, SAMPLE, TEXT, parser_of, scores, stored, strings, treebank
from spacy import registry
from spacy.cli.train import train as spacy_train
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.grammar.decode import ChartParser
from spacy_structlearn.isbn.decode import DerivationParser
from spacy_structlearn.isbn.model import ISBN
from spacy_structlearn.isbn.settings import ISBNSettings
from spacy_structlearn.pipeline import batch_trainable, fitting
from spacy_structlearn.pipeline.constituency_parser import ConstituencyParser
from spacy_structlearn.pipeline.readers import (
    read_treebank,
    set_gold_spans,
    to_example,
)
from spacy_structlearn.trees.brackets import parse_tree
from spacy_structlearn.trees.normalize import normalize

NAME = "spacy_structlearn.ISBN.v1"
CONFIG = Path(fitting.__file__).parent / "configs" / "constituency_parser.ISBN.cfg"
blank = partial(parsers.blank, "ISBN")
trained = partial(parsers.trained, "ISBN")
FEW = parsers.MODELS["ISBN"]


@pytest.fixture(scope="module")
def pickled_unsure():
    nlp = blank(max_iterations=10)
    examples = treebank(nlp)[:5]
    parser_of(nlp).initialize(lambda: examples)
    parser_of(nlp).fit(examples)
    return pickle.dumps(nlp)


@pytest.fixture
def unsure(pickled_unsure):
    """One that knows little of half of the sample, and documents of the other half."""
    nlp = pickle.loads(pickled_unsure)
    return nlp, treebank(nlp)[5:7]


@pytest.fixture
def nlp():
    return parsers.loaded("ISBN")


# --- settings -------------------------------------------------------------------------------------
def test_the_defaults():
    model = registry.architectures.get(NAME)()
    assert model.attrs["estimator"] == ISBNSettings()
    assert model.attrs["parameters"] == ISBN.empty()
    assert model.layers == []


def test_settings():
    own = {
        "means": "mean_field",
        "state_size": 12,
        "min_word_count": 3,
        "min_unknown": 2,
        "min_chain_count": 7,
    }
    own |= {"signature": "english", "normalization": "", "features": "abd", "max_iterations": 4}
    own |= {
        "batch_size": 5,
        "optimizer": "adam",
        "learn_rate": 0.05,
        "weight_decay": 0.01,
        "dropout": 0.2,
    }
    own |= {"grad_clip": 2.0, "averages": False, "validation": 0.25, "seed": 7, "beam": 6}
    own |= {"branching": 8, "search": "word_synchronous", "shards": 3, "threads": 2}
    assert own.keys() == {field.name for field in dataclasses.fields(ISBNSettings)}
    estimator = parser_of(blank(**own)).estimator
    assert estimator == ISBNSettings(**own)
    defaults = dataclasses.asdict(ISBNSettings())
    assert not [name for name, value in own.items() if defaults[name] == value]


@pytest.mark.parametrize(
    "bad",
    [
        {"means": "exact"},
        {"state_size": 0},
        {"features": "abx"},
        {"optimizer": "lbfgs"},
        {"learn_rate": -1.0},
        {"dropout": 1.0},
        {"validation": 1.0},
        {"signature": "elvish"},
        {"beam": 0},
        {"threads": 0},
    ],
)
def test_bad_settings(bad):
    with pytest.raises(StructlearnError, match=next(iter(bad))):
        blank(**bad)


@pytest.mark.parametrize("component", ["np_chunker", "chain_tagger", "pp_attacher", "srl_labeler"])
def test_other_components_refuse_one(component):
    with pytest.raises(StructlearnError, match=f"SL029.*{component}.*'isbn'"):
        spacy.blank("en").add_pipe(component, config={"model": {"@architectures": NAME}})


def test_an_untrained_one_says_so():
    with pytest.raises(StructlearnError, match="SL002"):
        blank()("A dog slept.")


# --- training -------------------------------------------------------------------------------------
def test_learns_the_sample(nlp):
    found = nlp.evaluate(treebank(nlp))
    assert found["constituents_f"] > 0.9
    assert found["constituents_tag_acc"] > 0.95
    parser = parser_of(nlp)
    assert set(parser.labels) == set(parser.parameters.symbols.phrases) - {"TOP"}
    assert (parser.parameters.beam, parser.parameters.branching) == (10, 10)


def test_mean_field_learns_the_sample():
    nlp = trained(means="mean_field", state_size=12)
    assert parser_of(nlp).parameters.means == "mean_field"
    assert nlp.evaluate(treebank(nlp)[:3])["constituents_f"] > 0.8
    assert nlp(TEXT)._.parse_failures == ()


def test_update_ends_at_the_network_of_fit():
    straight, stepwise = trained(max_iterations=3), blank(max_iterations=3, threads=2)
    examples = treebank(stepwise)
    sgd = stepwise.initialize(lambda: examples)
    losses = [stepwise.update(examples, sgd=sgd)["constituency_parser"] for _ in range(4)]
    assert losses[0] > losses[1] > losses[2] == losses[3]
    assert stored(stepwise) == stored(straight)


def test_updates_by_parts_of_the_corpus_end_there_too():
    straight, stepwise = trained(max_iterations=3), blank(max_iterations=3)
    examples = treebank(stepwise)
    sgd = stepwise.initialize(lambda: examples)
    for part in (examples[:4], examples[4:], examples, examples, examples):
        stepwise.update(part, sgd=sgd)
    assert stored(stepwise) == stored(straight)


def test_the_order_of_the_examples_makes_no_difference():
    straight, other = trained(max_iterations=2), blank(max_iterations=2)
    examples = treebank(other)
    random.Random(0).shuffle(examples)
    parser_of(other).initialize(lambda: treebank(other))
    parser_of(other).fit(examples)
    assert stored(other) == stored(straight)


@pytest.mark.parametrize("settings", [{}, {"validation": 0.03}])
@pytest.mark.parametrize("step", [0, 2])
def test_an_interrupted_fit_goes_on_from_its_checkpoint(tmp_path, monkeypatch, settings, step):
    """From within the first epoch, and from within a later one."""
    monkeypatch.setattr(batch_trainable, "CHECKPOINT_SECONDS", -1)
    straight, other = trained(max_iterations=3, **settings), blank(max_iterations=3, **settings)
    parser = parser_of(other)
    examples = treebank(other)
    parser.initialize(lambda: examples)
    calls = []

    def interrupt(number, value):
        assert np.isfinite(value)
        calls.append(number)
        if calls.count(step) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parser.fit(examples, on_iteration=interrupt, checkpoint=tmp_path / "state")
    assert (tmp_path / "state").exists()
    went_on = []
    parser.fit(examples, on_iteration=lambda n, _: went_on.append(n), checkpoint=tmp_path / "state")
    assert went_on[0] == step
    assert stored(other) == stored(straight)
    assert not (tmp_path / "state").exists()


def test_another_treebank_with_other_labels():
    """No label, tag or language is wired in, and no tag of the tokens is needed."""
    trees = [
        "(CLAUSE (NOM (N kala)) (PRED (V ui)))",
        "(CLAUSE (NOM (A iso) (N kala)) (PRED (V ui)))",
    ]
    nlp = spacy.blank("fi")
    docs = []
    for text in trees:
        tree = normalize(parse_tree(text))
        doc = Doc(nlp.vocab, words=tree.words(), tags=tree.tags())
        set_gold_spans(doc, "constituents", tree.spans()[1:])
        docs.append(doc)
    examples = [to_example(doc, tags=False) for doc in docs] * 10
    model = {"@architectures": NAME, **FEW, "max_iterations": 40}
    nlp.add_pipe("constituency_parser", config={"model": model})
    nlp.initialize(lambda: examples)
    parser_of(nlp).fit(examples)
    assert nlp("iso kala ui")._.trees == (normalize(parse_tree(trees[1])),)
    assert nlp("kala ui")._.trees == (normalize(parse_tree(trees[0])),)


# --- two doors ------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def overrides(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    docs = [doc for _, doc in read_treebank(Vocab(), SAMPLE / "sample.trees", **FILES)]
    DocBin(docs=docs[2:]).to_disk(folder / "train.spacy")
    DocBin(docs=docs[:2]).to_disk(folder / "dev.spacy")
    # Some settings are not in the config, and cannot be overridden.
    settings = {k: v for k, v in FEW.items() if k not in ("min_unknown", "min_chain_count")} | {
        "max_iterations": 5
    }
    return {
        "training.max_steps": 5,
        **{f"paths.{name}": str(folder / f"{name}.spacy") for name in ("train", "dev")},
        **{f"components.constituency_parser.model.{k}": v for k, v in settings.items()},
    }


def test_both_doors_end_at_the_same_parser(overrides, tmp_path):
    straight = fitting.train(CONFIG, tmp_path / "model", overrides=overrides, progress=False)
    spacy_train(CONFIG, tmp_path / "out", overrides=overrides)
    steps = spacy.load(tmp_path / "out" / "model-last")
    assert stored(steps) == stored(straight) == stored(spacy.load(tmp_path / "model"))
    performance = straight.meta["performance"]
    assert 0.2 < performance["constituents_f"] < 1.0
    for name, value in performance.items():
        assert steps.meta["performance"][name] == pytest.approx(value, rel=1e-6)


def test_progress_is_shown_up_to_the_end(overrides, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    fitting.train(CONFIG, overrides=overrides)
    shown = capsys.readouterr().err
    assert "loss=" in shown
    assert "100%" in shown


# --- odd input ------------------------------------------------------------------------------------
def test_long_sentences_are_cut(nlp):
    parser = parser_of(nlp)
    parser.max_length = 4
    doc = nlp("He opened the door , and she took the key from his pocket .")
    assert next((s.label_, s.text) for s in doc._.parse_failures) == ("cut", doc.text)
    assert doc[:]._.constituent_prob == 0
    assert doc[:]._.labels[0] == parser.parameters.top_label == "S"


def test_white_space_changes_nothing(nlp):
    spread = nlp("\n The old  man \n took a\tkey from his pocket . \n\n He opened the door. ")
    plain = nlp("The old man took a key from his pocket . He opened the door.")
    assert strings(spread) == strings(plain)
    np.testing.assert_array_equal(scores(spread), scores(plain))


def test_pipe_equals_call(nlp):
    many = [TEXT, "", "He opened the door."] * 3
    expected = [strings(nlp(text)) for text in many]
    assert [strings(doc) for doc in nlp.pipe(many, batch_size=4)] == expected
    parser_of(nlp).threads = 2
    assert [strings(doc) for doc in nlp.pipe(many, batch_size=9)] == expected


def test_threads_take_turns(nlp):
    expected = strings(nlp(TEXT))
    with ThreadPoolExecutor(4) as pool:
        docs = list(pool.map(nlp, [TEXT] * 12))
    assert [strings(doc) for doc in docs] == [expected] * 12


def test_memory_zone(nlp):
    with nlp.memory_zone():
        nlp("An unheard-of zyzzyva slept under the table.")
    assert strings(nlp(TEXT))[0].startswith("(S (NP ")


def test_a_parser_in_another_pipeline(nlp):
    other = spacy.blank("en")
    other.add_pipe("sentencizer")
    other.add_pipe("constituency_parser", source=nlp)
    text = "The zorkish man opened the blicketing door."
    assert strings(other(text)) == strings(nlp(text))


# --- settings of the component --------------------------------------------------------------------
def test_parses_text(nlp):
    doc = nlp(TEXT)
    assert doc._.parse_failures == ()
    assert strings(doc)[1] == "(S (NP (PRP He)) (VP (VBD opened) (NP (DT the) (NN door))) (. .))"
    for bracket, score in zip(doc.spans["constituents"], scores(doc), strict=True):
        assert 0.0 < score <= 1.0
        assert bracket._.constituent_prob == pytest.approx(score)


@pytest.mark.parametrize(
    "decoder", ["max_rule_product", "max_rule_sum", "viterbi", "variational", "labelled_recall"]
)
def test_every_decoder(unsure, decoder):
    nlp, examples = unsure
    parser = parser_of(nlp)
    parser.decoder = decoder
    by_brackets = decoder in ("max_rule_sum", "labelled_recall")
    differ = 0
    for example in examples:
        doc = parser(example.predicted)
        for sentence in doc.sents:
            best = parser.k_best(sentence, 50)
            assert sum(np.exp(log_probability) for log_probability, _ in best) <= 1 + 1e-9
            taken = [str(tree) for _, tree in best].index(f"(TOP {sentence._.parse_string})")
            assert taken == 0 or by_brackets
            differ += taken > 0
    assert bool(differ) == by_brackets


def test_k_best(nlp):
    parser = parser_of(nlp)
    doc = nlp("He opened the door.")
    readings = parser.k_best(doc, 5)
    logs = [log for log, _ in readings]
    assert len({tree for _, tree in readings}) == len(readings) == 5
    assert readings[0][1] == doc._.trees[0]
    assert logs == sorted(logs, reverse=True)
    assert all(log < 0 for log in logs)
    assert parser.k_best(doc[2:4], 1)[0][1].words() == ["the", "door"]
    assert parser.k_best(nlp(" \n"), 3) == []
    with pytest.raises(StructlearnError, match="SL024"):
        parser.k_best(nlp(TEXT))


def test_settings_may_change_between_texts(nlp):
    parser = parser_of(nlp)
    first = parser._parser()
    assert isinstance(first, DerivationParser)
    assert parser._parser() is first
    # Of grammars alone.
    parser.thresholds = [0.5]
    assert parser._parser() is first
    parser.parameters.beam = 3
    second = parser._parser()
    assert second is not first
    assert len(nlp(TEXT)._.trees) == 2
    parser.parameters.search = "word_synchronous"
    third = parser._parser()
    assert third is not second
    assert third.search == "word_synchronous"
    parser.decoder = "labelled_recall"
    assert parser._parser() is not third


def test_a_component_takes_models_of_both_families(nlp):
    parser = parser_of(nlp)
    grammar = {"@architectures": "spacy_structlearn.LatentGrammar.v1", "rounds": 0}
    other = spacy.blank("en").add_pipe("constituency_parser", config={"model": grammar})
    examples = treebank(nlp)
    other.initialize(lambda: examples)
    other.fit(examples)
    network, parser.parameters = parser.parameters, other.parameters
    assert isinstance(parser._parser(), ChartParser)
    trees = strings(nlp(TEXT))
    parser.parameters = network
    assert isinstance(parser._parser(), DerivationParser)
    assert trees[1] == strings(nlp(TEXT))[1]


def test_tags_of_the_tokens(nlp):
    parser = parser_of(nlp)
    doc = nlp.get_pipe("sentencizer")(nlp.make_doc("He opened the door."))
    given = ["PRP", "NN", "DT", "NN", "."]
    for token, tag in zip(doc, given, strict=True):
        token.tag_ = tag
    found = {}
    for tags, weight in (("ignore", 0.0), ("prior", 0.0), ("prior", 50.0), ("require", 0.0)):
        parser.tags, parser.tag_weight = tags, weight
        found[tags, weight] = parser(doc)._.trees[0].tags()
    assert found["ignore", 0.0] == found["prior", 0.0] == ["PRP", "VBD", "DT", "NN", "."]
    assert found["prior", 50.0] == found["require", 0.0] == given
    assert [token.tag_ for token in doc] == given


def test_tags_that_the_network_does_not_know_are_ignored(nlp):
    parser = parser_of(nlp)
    doc = nlp.get_pipe("sentencizer")(nlp.make_doc("He opened the door."))
    for token, tag in zip(doc, ["PRON", "VBD", "DET", "NOUN", "PUNCT"], strict=True):
        token.tag_ = tag
    parser.tags = "require"
    assert parser(doc)._.trees[0].tags() == ["PRP", "VBD", "DT", "NN", "."]


def test_tags_are_written_if_asked_for(nlp):
    parser_of(nlp).set_tags = True
    doc = nlp("He opened the door. \n")
    assert [token.tag_ for token in doc] == ["PRP", "VBD", "DT", "NN", ".", ""]
    assert strings(doc) == ["(S (NP (PRP He)) (VP (VBD opened) (NP (DT the) (NN door))) (. .))"]


def test_calibration(unsure):
    nlp, examples = unsure
    parser = parser_of(nlp)
    raw = np.concatenate([scores(parser(example.predicted)) for example in examples])
    temperature = parser.calibrate(examples)
    assert temperature == parser.parameters.temperature != 1.0
    fitted = np.concatenate([scores(parser(example.predicted)) for example in examples])
    # Odds that are even, or beyond all doubt, stay as they are.
    moved = (np.abs(raw - 0.5) > 1e-4) & (raw > 1e-4) & (raw < 1 - 1e-4)
    assert moved.mean() > 0.3
    assert ((fitted < raw) == ((raw > 0.5) == (temperature > 1)))[moved].all()
    again = ConstituencyParser(nlp.vocab, parser.model.copy()).from_bytes(parser.to_bytes())
    assert again.parameters.temperature == temperature


# --- storage --------------------------------------------------------------------------------------
def test_an_untrained_one_is_stored_and_trained_later(tmp_path):
    nlp = blank(max_iterations=1)
    nlp.to_disk(tmp_path / "model")
    other = spacy.load(tmp_path / "model")
    assert parser_of(other).parameters.is_empty
    examples = treebank(other)
    parser_of(other).initialize(lambda: examples)
    parser_of(other).fit(examples)
    assert stored(other) == stored(trained(max_iterations=1))


def test_a_compact_network_parses_as_the_whole_one(nlp):
    other = pickle.loads(pickle.dumps(nlp))
    parser_of(other).parameters = parser_of(nlp).parameters.compact("float16")
    assert len(stored(other)) < 0.6 * len(stored(nlp))
    again = pickle.loads(pickle.dumps(other))
    assert parser_of(again).parameters == parser_of(other).parameters
    assert strings(again(TEXT)) == strings(nlp(TEXT))
    np.testing.assert_allclose(scores(again(TEXT)), scores(nlp(TEXT)), atol=0.02)


def test_a_model_that_is_damaged(nlp, tmp_path):
    parser_of(nlp).to_disk(tmp_path / "parser", exclude=["vocab"])
    file = tmp_path / "parser" / "model"
    whole, rng = file.read_bytes(), random.Random(0)
    other = parser_of(blank())
    places = [*range(90), *(rng.randrange(len(whole)) for _ in range(60))]
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.randrange(8)
        file.write_bytes(changed)
        with pytest.raises(StructlearnError, match=r"SL08[023]") as error:
            other.from_disk(tmp_path / "parser", exclude=["vocab"])
        assert str(file) in str(error.value)
    file.write_bytes(whole)
    for size in (len(whole) - 1, len(whole) // 2, 1):
        os.truncate(file, size)
        with pytest.raises(StructlearnError, match=r"SL08[03]") as error:
            other.from_disk(tmp_path / "parser", exclude=["vocab"])
        assert str(file) in str(error.value)
    assert other.parameters.is_empty
    file.write_bytes(whole)
    other.from_disk(tmp_path / "parser", exclude=["vocab"])
    assert other.parameters == parser_of(nlp).parameters


def test_the_model_of_a_grammar(nlp, tmp_path):
    """Each family refuses to load what the other has written."""
    parser_of(nlp).to_disk(tmp_path / "network", exclude=["vocab"])
    other = spacy.blank("en").add_pipe("constituency_parser")
    with pytest.raises(StructlearnError, match="SL082"):
        other.from_disk(tmp_path / "network", exclude=["vocab"])


# --- imports --------------------------------------------------------------------------------------
def loaded_modules(code, folder):
    """What Python has imported after this code."""
    code = f"import sys\n{code}\nprint(*sys.modules, sep='\\n')"
    run = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=folder, capture_output=True, text=True
    )
    return set(run.stdout.splitlines())


def test_a_pipeline_without_one_does_not_import_it(tmp_path):
    found = loaded_modules(
        f"import spacy_structlearn\nspacy_structlearn.load()({TEXT!r})", tmp_path
    )
    assert "spacy_structlearn.pipeline.constituency_parser" in found
    package = "spacy_structlearn.isbn"
    assert {name for name in found if name.startswith(package)} <= {package, f"{package}.settings"}
    assert "scipy" not in found
