"""`structlearn train`: overrides of the config, and what is saved."""

import pytest
import spacy
from cli.toys import one_line_error


@pytest.fixture
def data(gold):
    """The overrides that every training needs, as arguments."""
    return ["--paths.train", gold, "--paths.dev", gold]


@pytest.mark.finding
def test_train_says_what_the_pipeline_lacks(run, data, tmp_path):
    _, out, _ = run("train", "np_chunker", "-o", tmp_path / "model", *data)
    # The tags of the examples are gold, and nothing will give tags to a text.
    assert "np_chunker reads token.tag_" in " ".join(out.split())


def test_train_with_overrides(run, data, tmp_path):
    output = tmp_path / "model"
    code, out, err = run(
        "train", "np_chunker", "-o", output, *data, "--components.np_chunker.model.l2=0.01"
    )
    assert (code, err) == (0, "")
    nlp = spacy.load(output)
    assert nlp.config["components"]["np_chunker"]["model"]["l2"] == 0.01
    assert nlp.meta["performance"]["np_chunk_f"] == 1.0
    assert "np_chunk_f" in out
    assert "1.0000" in out
    assert str(output) in out


@pytest.mark.parametrize("argument", ["--foo", "stray"])
def test_arguments_that_are_no_overrides_are_wrong_usage(run, data, tmp_path, argument):
    assert run("train", "np_chunker", "-o", tmp_path / "model", *data, argument)[0] != 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--nowhere.seed", "1"], "nowhere"),
        (["--components.np_chunker.model.l3", "1"], "l3"),
        (["--components.np_chunker.model.l2", "much"], "l2"),
        (["--components.np_chunker.iterations_per_step", "0"], "SL043"),
        (["--components.np_chunker.model.@architectures", "nobody.CRF.v2"], "nobody.CRF.v2"),
        (["--components.np_chunker.factory", "np_chunkier"], "np_chunkier"),
        (["--components.np_chunker.model.templates", '["WORD[0]"]'], "SL003"),
        (["--training.max_steps", "many"], "max_steps"),
        (["--training.dev_corpus", "corpora.nowhere"], "nowhere"),
        (["--paths.train", "nowhere.spacy"], "nowhere.spacy"),
        (["--paths.dev", "nowhere.spacy"], "nowhere.spacy"),
        (["--paths.train", "null"], "--paths.train"),
    ],
)
def test_overrides_that_make_no_config_are_one_line(run, data, tmp_path, arguments, named):
    output = tmp_path / "model"
    assert named in one_line_error(run("train", "np_chunker", "-o", output, *data, *arguments))
    assert not output.exists()


def test_an_output_that_is_no_pipeline_is_not_overwritten(run, data, tmp_path):
    one_line_error(run("train", "np_chunker", "-o", tmp_path, *data), "SL014")
    assert (tmp_path / "gold.spacy").exists()


def test_a_missing_path_is_named(run, gold, tmp_path):
    for given in ([], ["--paths.train", gold], ["--paths.dev", gold]):
        result = run("train", "np_chunker", "-o", tmp_path / "model", *given)
        one_line_error(result, "SL091", "--paths.train and --paths.dev")


@pytest.mark.finding
def test_a_config_that_is_none_gets_the_names_of_those_that_are(run, tmp_path):
    """`init-config parser`, now `train parser`, had no suggestion."""
    code, _, err = run("train", "parser", "-o", tmp_path / "model")
    assert code == 2
    assert "constituency_parser" in err


def test_learning_curves(run, data, tmp_path):
    plot = tmp_path / "curve.svg"
    assert run("train", "np_chunker", "-o", tmp_path / "model", *data, "--plot", plot)[0] == 0
    svg = plot.read_text(encoding="utf8")
    assert ">np_chunker: objective</text>" in svg
    assert ">np_chunker: score</text>" in svg
