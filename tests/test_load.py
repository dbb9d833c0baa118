"""`spacy_structlearn.load`: as `spacy.load`, with a check of the files."""

import inspect
import shutil

import pytest
import spacy

import spacy_structlearn
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.storage import built_in, digests
from spacy_structlearn.pipeline.training import fitting


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A pipeline with digests, of which one component is disabled."""
    nlp = spacy.blank("en", config={"nlp": {"batch_size": 7}})
    for name in ("sentencizer", "np_chunker", "pp_attacher"):
        nlp.add_pipe(name)
    nlp.disable_pipe("np_chunker")
    folder = tmp_path_factory.mktemp("load") / "pipeline"
    nlp.to_disk(folder)
    digests.write(folder)
    return folder


def test_its_arguments_are_those_of_spacy():
    ours, spacys = (inspect.signature(f).parameters for f in (spacy_structlearn.load, spacy.load))
    assert [(p.name, p.kind) for p in ours.values()] == [(p.name, p.kind) for p in spacys.values()]


@pytest.mark.parametrize(
    "given",
    [
        {"disable": "pp_attacher"},
        {"disable": ["pp_attacher", "sentencizer"]},
        {"enable": ["sentencizer"]},
        {"exclude": "np_chunker"},
        {"exclude": ["np_chunker", "pp_attacher"]},
        {"config": {"components.np_chunker.set_noun_chunks": True}},
        {"config": {"nlp": {"batch_size": 3}}},
    ],
)
def test_every_argument_does_what_it_does_in_spacy(saved, given):
    ours, spacys = (load(saved, **given) for load in (spacy_structlearn.load, spacy.load))
    assert ours.component_names == spacys.component_names
    assert sorted(ours.disabled) == sorted(spacys.disabled)
    assert ours.batch_size == spacys.batch_size
    assert ours.config == spacys.config


def test_a_damaged_file_is_found_unless_it_is_not_loaded(saved, tmp_path):
    folder = shutil.copytree(saved, tmp_path / "copy")
    file = folder / "np_chunker" / "cfg"
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(StructlearnError, match="SL083"):
        spacy_structlearn.load(folder)
    assert spacy_structlearn.load(folder, exclude="np_chunker").component_names == [
        "sentencizer",
        "pp_attacher",
    ]


@pytest.mark.finding
def test_a_misspelt_name_gets_a_suggestion():
    with pytest.raises(OSError, match=r"E050.*Did you mean 'en_structlearn_sm'"):
        spacy_structlearn.load("en_structlern_sm")


def test_other_built_in_pipelines(saved, tmp_path, monkeypatch):
    shutil.copytree(saved, tmp_path / "en_structlearn_xy")
    monkeypatch.setattr(built_in, "DATA", tmp_path)
    assert built_in.names() == ["en_structlearn_sm", "en_structlearn_xy"]
    nlp = spacy_structlearn.load("en_structlearn_xy")
    assert nlp.path == tmp_path / "en_structlearn_xy"
    with pytest.raises(OSError, match=r"E050.*Did you mean 'en_structlearn_xy'"):
        spacy_structlearn.load("en_structlearn_xz")


@pytest.mark.finding
def test_dir_names_what_the_package_offers():
    assert dir(spacy_structlearn) == sorted(spacy_structlearn.__all__)
    assert {"as_dict", "explain", "load", "ConstituentMatcher"} <= set(dir(spacy_structlearn))


def test_no_such_pipeline():
    with pytest.raises(OSError, match="E050"):
        spacy_structlearn.load("en_nowhere")


def test_a_pipeline_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    old, new = (spacy.blank(language) for language in ("en", "de"))
    fitting.save(old, tmp_path / "model")
    load = spacy.load

    def replace(*arguments, **options):
        monkeypatch.setattr(spacy, "load", load)
        nlp = load(*arguments, **options)
        fitting.save(new, tmp_path / "model")
        return nlp

    monkeypatch.setattr(spacy, "load", replace)
    assert spacy_structlearn.load(tmp_path / "model").lang == "de"
