"""Both doors to training: `spacy train` and the fitting loop of the package."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly
from spacy.cli.train import train as spacy_train
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.vocab import Vocab
from written import config_of

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import digests, fitting
from spacy_structlearn.pipeline.batch_trainable import BatchTrainable
from spacy_structlearn.pipeline.readers import create_docbin_reader, read_treebank

SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"
CONFIG, PARSER_CONFIG = config_of("np_chunker"), config_of("constituency_parser")
SCORES = ("np_chunk_f", "np_chunk_p", "np_chunk_r")


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """The sample treebank, in two files, as overrides of the config."""
    folder = tmp_path_factory.mktemp("corpus")
    files = {"spaces": SAMPLE / "sample.spaces", "props": SAMPLE / "sample.props"}
    docs = [doc for _, doc in read_treebank(Vocab(), SAMPLE / "sample.trees", **files)]
    DocBin(docs=docs[2:]).to_disk(folder / "train.spacy")
    DocBin(docs=docs[:2]).to_disk(folder / "dev.spacy")
    return {f"paths.{name}": str(folder / f"{name}.spacy") for name in ("train", "dev")}


@pytest.fixture(scope="module")
def fitted(paths, tmp_path_factory):
    """What the fitting loop saves: (the pipeline it returns, its directory)."""
    output = tmp_path_factory.mktemp("fitted") / "model"
    return fitting.train(CONFIG, output, overrides=paths, progress=False), output


@pytest.fixture(scope="module")
def stepwise(paths, tmp_path_factory):
    """What `spacy train` saves, and its log, a line a step."""
    folder = tmp_path_factory.mktemp("stepwise")
    config = folder / "config.cfg"
    logger = f'[training.logger]\n@loggers = "spacy.ConsoleLogger.v3"\noutput_file = "{folder}/log"'
    config.write_text(f"{CONFIG.read_text(encoding='utf8')}\n{logger}\n", encoding="utf8")
    spacy_train(config, folder / "out", overrides=paths)
    return spacy.load(folder / "out" / "model-last"), list(srsly.read_jsonl(folder / "log"))


def parameters(nlp):
    return nlp.get_pipe("np_chunker").parameters


def dev_examples(nlp, paths):
    return list(create_docbin_reader(Path(paths["paths.dev"]))(nlp))


# --- two doors, one optimum -----------------------------------------------------------------------
def test_spacy_train_converges_early_and_further_steps_change_nothing(stepwise):
    losses = [line["losses"]["np_chunker"] for line in stepwise[1]]
    assert len(losses) == 31
    assert losses == sorted(losses, reverse=True)
    assert losses[0] > losses[10] == losses[-1]


def test_spacy_train_stops_early_if_it_is_told_to(paths, tmp_path):
    spacy_train(CONFIG, tmp_path / "out", overrides=paths | {"training.patience": 2})
    best = spacy.load(tmp_path / "out" / "model-best")
    assert best.meta["performance"]["np_chunk_f"] > 0.7


# --- two doors, one grammar -----------------------------------------------------------------------
@pytest.fixture(scope="module")
def parser_overrides(paths):
    return paths | {"components.constituency_parser.model.rounds": 2}


def test_progress_of_a_parser_counts_iterations_of_em(parser_overrides, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    fitting.train(PARSER_CONFIG, overrides=parser_overrides)
    shown = capsys.readouterr().err
    assert "constituency_parser" in shown
    # The treebank grammar, a round, and the iterations of two.
    total = 1 + 1 + 2 * (50 + 20 + 10)
    assert f"{total}/{total} " in shown


# --- what is saved --------------------------------------------------------------------------------
def test_the_performance_is_in_meta_json(fitted):
    performance = srsly.read_json(fitted[1] / "meta.json")["performance"]
    assert set(performance) == {*SCORES, "np_chunker_loss"}
    assert 0.7 < performance["np_chunk_f"] <= 1.0
    assert performance["np_chunker_loss"] > 0


def test_the_saved_pipeline_is_the_returned_one(fitted):
    assert parameters(spacy.load(fitted[1])) == parameters(fitted[0])
    assert [path.name for path in fitted[1].parent.iterdir()] == ["model"]


def test_evaluation_of_the_saved_pipeline_gives_the_recorded_scores(fitted, paths):
    nlp = spacy.load(fitted[1])
    scores = nlp.evaluate(dev_examples(nlp, paths))
    for name in SCORES:
        assert scores[name] == pytest.approx(fitted[0].meta["performance"][name])


def test_initialize_without_data_keeps_the_weights_of_a_loaded_pipeline(fitted, paths):
    nlp = spacy.load(fitted[1])
    nlp.initialize()
    assert parameters(nlp) == parameters(fitted[0])


def test_a_sourced_component_keeps_its_weights_when_a_pipeline_is_assembled(fitted, tmp_path):
    config = tmp_path / "config.cfg"
    config.write_text(
        '[nlp]\nlang = "en"\npipeline = ["np_chunker"]\n[components]\n'
        f'[components.np_chunker]\nsource = "{fitted[1]}"\n',
        encoding="utf8",
    )
    nlp = spacy.util.load_model_from_config(spacy.util.load_config(config), auto_fill=True)
    nlp.initialize()
    assert parameters(nlp) == parameters(fitted[0])


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


def test_missing_parents_of_the_output_are_made(fitted, tmp_path):
    fitting.save(fitted[0], tmp_path / "a" / "b")
    assert parameters(spacy.load(tmp_path / "a" / "b")) == parameters(fitted[0])


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failure_while_saving_leaves_the_old_pipeline_alone(fitted, tmp_path, monkeypatch, error):
    output = tmp_path / "model"
    shutil.copytree(fitted[1], output)
    to_disk = Language.to_disk

    def fail(self, path, **kwargs):
        to_disk(self, path, **kwargs)
        (path / "config.cfg").unlink()
        raise error("disk full")

    monkeypatch.setattr(Language, "to_disk", fail)
    with pytest.raises(error):
        fitting.save(fitted[0], output)
    assert parameters(spacy.load(output)) == parameters(fitted[0])
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_leftovers_of_a_killed_run_are_in_nobodys_way(fitted, tmp_path):
    for name in (".model.new", ".model.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_text("written", encoding="utf8")
    fitting.save(fitted[0], tmp_path / "model")
    assert not (tmp_path / "model" / "half").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_directory_that_is_no_pipeline_is_never_replaced(fitted, paths, tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work", encoding="utf8")
    for write in (
        lambda: fitting.save(fitted[0], tmp_path),
        lambda: fitting.train(CONFIG, tmp_path, overrides=paths),
        lambda: fitting.save(fitted[0], tmp_path / "thesis.tex"),
    ):
        with pytest.raises(StructlearnError, match="SL014"):
            write()
    assert (tmp_path / "thesis.tex").read_text(encoding="utf8") == "years of work"


def test_an_empty_directory_can_be_the_output(fitted, tmp_path, monkeypatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    fitting.save(fitted[0], "model")
    assert parameters(spacy.load("model")) == parameters(fitted[0])


def test_an_output_that_cannot_be_used_is_refused_before_the_training(tmp_path, monkeypatch):
    (tmp_path / "notes").write_text("", encoding="utf8")
    monkeypatch.setattr(fitting, "load_config", lambda *a, **k: pytest.fail("training has begun"))
    with pytest.raises(StructlearnError, match="SL014"):
        fitting.train(CONFIG, tmp_path / "notes")


# --- settings -------------------------------------------------------------------------------------
def test_overrides_change_the_config_and_the_result(fitted, paths):
    overrides = paths | {
        "components.np_chunker.model.l2": 16.0,
        "components.np_chunker.model.templates": ["TAG[0]", "bias"],
    }
    nlp = fitting.train(CONFIG, overrides=overrides, progress=False)
    assert nlp.config["components"]["np_chunker"]["model"]["l2"] == 16.0
    assert len(parameters(nlp).keys) < len(parameters(fitted[0]).keys)
    assert np.abs(parameters(nlp).weights).max() < np.abs(parameters(fitted[0]).weights).max()


def test_scores_without_a_weight_are_left_out(paths):
    nlp = fitting.train(CONFIG, overrides=paths | {"training.score_weights.np_chunk_r": None})
    assert set(nlp.meta["performance"]) == {"np_chunk_f", "np_chunk_p", "np_chunker_loss"}


def test_nothing_to_evaluate_on_gives_no_scores(paths, tmp_path):
    DocBin().to_disk(tmp_path / "dev.spacy")
    nlp = fitting.train(CONFIG, overrides=paths | {"paths.dev": str(tmp_path / "dev.spacy")})
    assert [nlp.meta["performance"][name] for name in SCORES] == [None] * 3
    assert nlp.meta["performance"]["np_chunker_loss"] > 0


def test_nothing_to_train_on_is_an_error(paths, tmp_path):
    DocBin(docs=[spacy.blank("en")("No chunks here")]).to_disk(tmp_path / "train.spacy")
    with pytest.raises(StructlearnError, match="SL005"):
        fitting.train(CONFIG, overrides=paths | {"paths.train": str(tmp_path / "train.spacy")})


@pytest.mark.parametrize("progress", [True, False])
def test_nothing_is_printed_where_the_output_is_no_terminal(paths, capsys, progress):
    fitting.train(CONFIG, overrides=paths, progress=progress)
    assert capsys.readouterr() == ("", "")


def test_progress_is_shown_on_a_terminal(paths, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    fitting.train(CONFIG, overrides=paths)
    assert "np_chunker" in capsys.readouterr().err
    fitting.train(CONFIG, overrides=paths, progress=False)
    assert capsys.readouterr().err == ""


# --- other components -----------------------------------------------------------------------------
def with_tagger(tmp_path, pipeline, frozen):
    """The config with a component of spaCy's own in the pipeline."""
    config = spacy.util.load_config(CONFIG)
    config["nlp"]["pipeline"] = pipeline
    config["components"]["tagger"] = {"factory": "tagger"}
    config["training"]["frozen_components"] = frozen
    config.to_disk(tmp_path / "config.cfg")
    return tmp_path / "config.cfg"


def weights(component):
    nodes = component.model.walk()
    return [node.get_param(name).copy() for node in nodes for name in node.param_names]


@pytest.mark.parametrize("pipeline", [["tagger", "np_chunker"], ["np_chunker", "tagger"]])
def test_a_foreign_component_is_refused_before_any_training(paths, tmp_path, monkeypatch, pipeline):
    monkeypatch.setattr(BatchTrainable, "fit", lambda *a, **k: pytest.fail("training has begun"))
    with pytest.raises(StructlearnError, match="'tagger'") as error:
        fitting.train(with_tagger(tmp_path, pipeline, []), overrides=paths)
    assert error.value.code == "SL008"


def test_frozen_components_are_left_as_they_are(fitted, paths, tmp_path):
    tagger = spacy.blank("en")
    tagger.add_pipe("tagger")
    examples = dev_examples(tagger, paths)
    tagger.initialize(lambda: examples)
    tagger.to_disk(tmp_path / "tagger")
    before = weights(tagger.get_pipe("tagger"))
    path = with_tagger(tmp_path, ["tagger", "np_chunker"], ["tagger"])
    config = spacy.util.load_config(path)
    config["components"]["tagger"] = {"source": str(tmp_path / "tagger")}
    config.to_disk(path)
    nlp = fitting.train(path, overrides=paths)
    after = weights(nlp.get_pipe("tagger"))
    assert len(before) > 5
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(old, new)
    assert parameters(nlp) == parameters(fitted[0])


def test_a_frozen_chunker_is_evaluated_but_not_trained(fitted, paths, tmp_path):
    config = spacy.util.load_config(CONFIG)
    config["components"]["np_chunker"] = {"source": str(fitted[1])}
    config["training"]["frozen_components"] = ["np_chunker"]
    config.to_disk(tmp_path / "config.cfg")
    nlp = fitting.train(tmp_path / "config.cfg", overrides=paths)
    assert parameters(nlp) == parameters(fitted[0])
    assert set(nlp.meta["performance"]) == set(SCORES)
    assert nlp.meta["performance"]["np_chunk_f"] == fitted[0].meta["performance"]["np_chunk_f"]
