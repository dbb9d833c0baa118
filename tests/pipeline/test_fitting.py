"""Both doors to training: `spacy train` and the fitting loop of the package."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly
from pipeline.written import config_of
from spacy.tokens import DocBin

import spacy_structlearn
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.learning import training
from spacy_structlearn.pipeline.extensions import trees
from spacy_structlearn.pipeline.readers import create_docbin_reader
from spacy_structlearn.pipeline.storage import digests
from spacy_structlearn.pipeline.training import fitting
from spacy_structlearn.pipeline.training.batch_trainable import BatchTrainable

CONFIG, PARSER_CONFIG = config_of("np_chunker"), config_of("constituency_parser")
SCORES = ("np_chunk_f", "np_chunk_p", "np_chunk_r")


@pytest.fixture(scope="module")
def fitted(paths, tmp_path_factory):
    """What the fitting loop saves: (the pipeline it returns, its directory)."""
    output = tmp_path_factory.mktemp("fitted") / "model"
    return fitting.train(CONFIG, output, overrides=paths, progress=False), output


def parameters(nlp):
    return nlp.get_pipe("np_chunker").parameters


def dev_examples(nlp, paths):
    return list(create_docbin_reader(Path(paths["paths.dev"]))(nlp))


# --- what is saved --------------------------------------------------------------------------------
def test_what_is_saved_is_what_is_returned(fitted, paths):
    nlp = spacy.load(fitted[1])
    assert parameters(nlp) == parameters(fitted[0])
    assert [path.name for path in fitted[1].parent.iterdir()] == ["model"]
    performance = srsly.read_json(fitted[1] / "meta.json")["performance"]
    assert set(performance) == {*SCORES, "np_chunker_loss"}
    assert 0.7 < performance["np_chunk_f"] <= 1.0
    assert performance["np_chunker_loss"] > 0
    scores = nlp.evaluate(dev_examples(nlp, paths))
    for name in SCORES:
        assert scores[name] == pytest.approx(fitted[0].meta["performance"][name])


def test_an_existing_pipeline_is_replaced(fitted, paths, tmp_path):
    output = tmp_path / "model"
    shutil.copytree(fitted[1], output)
    (output / "leftover").write_text("of the old pipeline", encoding="utf8")
    fitting.train(CONFIG, output, overrides=paths | {"components.np_chunker.model.l2": 5.0})
    assert not (output / "leftover").exists()
    assert parameters(spacy.load(output)) != parameters(fitted[0])
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_is_saved_has_digests_of_all_its_files(fitted, tmp_path):
    fitting.save(fitted[0], tmp_path / "model", extra={"NOTES": "Hand-made."})
    for folder, extra in ((fitted[1], set()), (tmp_path / "model", {"NOTES"})):
        files = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
        covered = set(srsly.read_json(folder / digests.DIGESTS)["blake2b"])
        assert covered == files - {digests.DIGESTS, "meta.json"}
        assert covered > {"config.cfg", "np_chunker/model", "vocab/strings.json", *extra}
        digests.check(folder)


def test_what_is_no_pipeline_is_never_replaced(fitted, tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "load_config", lambda *a, **k: pytest.fail("training has begun"))
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf8")
    for place in (tmp_path, tmp_path / "thesis.tex"):
        for write in (
            lambda place=place: fitting.save(fitted[0], place),
            lambda place=place: fitting.train(CONFIG, place),
        ):
            with pytest.raises(StructlearnError, match="SL014"):
                write()
    assert (tmp_path / "thesis.tex").read_text(encoding="utf8") == "years of work"


# --- the best on the dev corpus ------------------------------------------------------------------
SCORES_BY_STEP = [0.5, 0.8, 0.9, 0.9, 0.1]


def scripted(monkeypatch, calls, interrupted_after=None):
    """Let the score of a chunker depend on the number of its comparison, and record parameters."""

    def score(self, examples):
        assert all(example.predicted.has_annotation("SENT_START") for example in examples)
        if len(calls) == interrupted_after:
            raise KeyboardInterrupt
        calls.append(self.parameters)
        number = self._training.trainer.n_iterations - 1
        return SCORES_BY_STEP[number] if number < len(SCORES_BY_STEP) else 0.2

    monkeypatch.setattr(BatchTrainable, "main_score_on", score)
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0)


STEPS = {"components.np_chunker.iterations_per_step": 1}


@pytest.mark.finding
def test_the_best_parameters_on_dev_are_kept(paths, tmp_path, monkeypatch):
    calls = []
    scripted(monkeypatch, calls)
    nlp = fitting.train(CONFIG, tmp_path / "a", overrides=paths | STEPS, progress=False)
    assert len(calls) > len(SCORES_BY_STEP)
    # Of two equal scores, the later one.
    assert parameters(nlp) == calls[3] == parameters(spacy.load(tmp_path / "a"))
    assert parameters(nlp) != calls[-1]
    last = fitting.train(CONFIG, overrides=paths | STEPS, best=False, progress=False)
    np.testing.assert_array_equal(parameters(last).weights, calls[-1].weights)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("after", [1, 3, 6])
def test_the_best_parameters_survive_an_interruption(paths, tmp_path, monkeypatch, after):
    calls = []
    scripted(monkeypatch, calls)
    whole = fitting.train(CONFIG, overrides=paths | STEPS, progress=False)
    scripted(monkeypatch, calls := [], interrupted_after=after)
    arguments = (CONFIG, tmp_path / "a")
    with pytest.raises(KeyboardInterrupt):
        fitting.train(*arguments, overrides=paths | STEPS, progress=False)
    assert {path.suffix for path in tmp_path.iterdir()} <= {".checkpoint"}
    scripted(monkeypatch, calls := [])
    assert parameters(fitting.train(*arguments, overrides=paths | STEPS)) == parameters(whole)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


# --- settings -------------------------------------------------------------------------------------
def test_nothing_to_train_on_is_an_error(paths, tmp_path):
    DocBin(docs=[spacy.blank("en")("No chunks here")]).to_disk(tmp_path / "train.spacy")
    with pytest.raises(StructlearnError, match="SL005"):
        fitting.train(CONFIG, overrides=paths | {"paths.train": str(tmp_path / "train.spacy")})


# --- other components -----------------------------------------------------------------------------
def with_senter(tmp_path, pipeline, frozen):
    """The config with a component of spaCy's own in the pipeline."""
    config = spacy.util.load_config(CONFIG)
    config["nlp"]["pipeline"] = pipeline
    config["components"]["senter"] = {"factory": "senter"}
    config["training"]["frozen_components"] = frozen
    config.to_disk(tmp_path / "config.cfg")
    return tmp_path / "config.cfg"


def weights(component):
    nodes = component.model.walk()
    return [node.get_param(name).copy() for node in nodes for name in node.param_names]


def test_a_foreign_component_is_refused_before_any_training(paths, tmp_path, monkeypatch):
    monkeypatch.setattr(BatchTrainable, "fit", lambda *a, **k: pytest.fail("training has begun"))
    with pytest.raises(StructlearnError, match="'senter'") as error:
        fitting.train(with_senter(tmp_path, ["np_chunker", "senter"], []), overrides=paths)
    assert error.value.code == "SL008"


def test_frozen_components_are_left_as_they_are(fitted, paths, tmp_path):
    senter = spacy.blank("en")
    senter.add_pipe("senter")
    examples = dev_examples(senter, paths)
    senter.initialize(lambda: examples)
    senter.to_disk(tmp_path / "senter")
    before = weights(senter.get_pipe("senter"))
    path = with_senter(tmp_path, ["senter", "np_chunker"], ["senter"])
    config = spacy.util.load_config(path)
    config["components"]["senter"] = {"source": str(tmp_path / "senter")}
    config.to_disk(path)
    nlp = fitting.train(path, overrides=paths)
    after = weights(nlp.get_pipe("senter"))
    assert len(before) > 5
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    assert parameters(nlp) == parameters(fitted[0])


# --- learning on ----------------------------------------------------------------------------------
def test_a_sourced_component_learns_on(fitted, paths, tmp_path):
    config = spacy.util.load_config(CONFIG)
    config["components"]["np_chunker"] = {"source": str(fitted[1])}
    config.to_disk(tmp_path / "config.cfg")
    overrides = paths | {"paths.train": paths["paths.dev"]}
    nlp = fitting.train(tmp_path / "config.cfg", overrides=overrides, progress=False)
    expected = spacy.load(fitted[1])
    examples = dev_examples(expected, paths)
    expected.get_pipe("np_chunker").fit(examples)
    expected.get_pipe("np_chunker").name_features([example.predicted for example in examples])
    assert parameters(nlp) == parameters(expected)
    assert parameters(nlp) != parameters(fitted[0])
    assert parameters(nlp).names.items() > parameters(fitted[0]).names.items()
    scratch = fitting.train(CONFIG, overrides=overrides, progress=False)
    assert set(parameters(nlp).names) > set(parameters(scratch).names)


def test_a_learner_that_cannot_learn_on_says_so_however_much_there_is(paths):
    config = {"model": {"@architectures": "spacy_structlearn.HMM.v1"}}
    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker", config=config)
    examples = dev_examples(nlp, paths)
    chunker.initialize(lambda: examples)
    chunker.fit(examples)
    chunker.from_bytes(chunker.to_bytes())
    before = chunker.parameters
    for copies in (1, 10):
        with pytest.raises(StructlearnError, match="'np_chunker'") as error:
            chunker.fit([e for _ in range(copies) for e in dev_examples(nlp, paths)])
        assert error.value.code == "SL094"
    assert chunker.parameters is before


def test_components_that_adapt_read_what_the_old_pipeline_predicts(paths, tmp_path, monkeypatch):
    given = {}

    def fit(self, examples, **options):
        given[self.name] = [(e.predicted.copy(), e.reference) for e in examples]

    monkeypatch.setattr(BatchTrainable, "fit", fit)
    nlp = spacy_structlearn.load()
    docs = list(DocBin().from_disk(paths["paths.train"]).get_docs(nlp.vocab))
    single = next(docs[0].sents).as_doc()
    wanted = ["np_chunker", "sentence_splitter", "chain_tagger", "srl_labeler"]
    output = tmp_path / "new"
    learned = fitting.adapt(nlp, [*docs, single], output, components=wanted, progress=False)
    assert learned == ["sentence_splitter", "chain_tagger", "np_chunker", "srl_labeler"]
    # A sentence alone does not show where sentences end.
    assert [gold for _, gold in given["sentence_splitter"]] == docs
    for name in learned[1:]:
        assert [gold for _, gold in given[name]] == [*docs, single]
    for doc, _ in given["sentence_splitter"]:
        assert not doc.has_annotation("SENT_START")
    for doc, gold in given["chain_tagger"]:
        assert [s.start for s in doc.sents] == [s.start for s in gold.sents]
        assert not doc.has_annotation("TAG")
    whole = spacy_structlearn.load()
    for doc, gold in given["srl_labeler"]:
        other = whole(fitting.with_gold_tokens(whole, gold).predicted)
        assert [token.tag_ for token in doc] == [token.tag_ for token in other]
        assert trees(doc) == trees(other)
        assert "srl" not in doc.spans
    assert any(trees(doc) != trees(gold) for doc, gold in given["srl_labeler"])
