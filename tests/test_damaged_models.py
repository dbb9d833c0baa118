"""Files of a pipeline that are cut, changed, missing or of another version: always one clear error.

Which bytes are changed is drawn with a seed that is the name of the case.
"""

import os
import random
import shutil
from pathlib import Path

import pytest
import spacy
import srsly

import spacy_structlearn
from spacy_structlearn.cli.common.pipelines import load
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.storage import built_in, digests

DIRECTORY = Path(spacy_structlearn.__file__).parent / "data" / "en_structlearn_sm"
FILES = sorted(
    path.relative_to(DIRECTORY).as_posix()
    for path in DIRECTORY.rglob("*")
    if path.is_file() and path not in (DIRECTORY / "meta.json", DIRECTORY / digests.DIGESTS)
)
COMPONENTS = (
    *("sentence_splitter", "chain_tagger", "np_chunker"),
    *("constituency_parser", "pp_attacher", "srl_labeler"),
)


@pytest.fixture(scope="module")
def components():
    """Makes the component as the config of the pipeline has it, not loaded."""
    config = spacy.util.load_config(DIRECTORY / "config.cfg").interpolate()["components"]
    nlp = spacy.blank("en")

    def make(name):
        settings = dict(config[name])
        return nlp.create_pipe(settings.pop("factory"), name=name, config=settings)

    return {name: make(name) for name in COMPONENTS}, make


@pytest.fixture
def folder(tmp_path):
    """A copy of the folder of a component, outside of its pipeline."""
    return lambda name: Path(shutil.copytree(DIRECTORY / name, tmp_path / name))


# --- digests --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of the pipeline with digests, as `fitting.save` writes them."""
    root = tmp_path_factory.mktemp("package")
    folder = Path(shutil.copytree(DIRECTORY, root / "data" / DIRECTORY.name))
    digests.write(folder)
    return folder


@pytest.fixture
def pipeline(copied, monkeypatch):
    """The same as the built-in pipeline; what a test does to a file is undone."""
    monkeypatch.setattr(built_in, "FOLDER", copied)
    held = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}
    yield copied
    for path, data in held.items():
        if not path.is_file() or path.read_bytes() != data:
            path.write_bytes(data)


def damaged(pipeline, file):
    """The error with which the pipeline is refused, before anything is loaded."""
    for loaded in (spacy_structlearn.load, lambda: load(str(pipeline))):
        with pytest.raises(StructlearnError, match="SL083") as error:
            loaded()
        assert f"{pipeline / file} " in str(error.value)
        assert f"delete {pipeline / digests.DIGESTS}" in str(error.value)
    return str(error.value)


def test_a_pipeline_with_digests(pipeline):
    assert set(srsly.read_json(pipeline / digests.DIGESTS)["blake2b"]) == set(FILES)
    # What users and `spacy package` write is not looked at.
    (pipeline / "README.md").write_text("Read me.", encoding="utf8")
    srsly.write_json(pipeline / "meta.json", {**srsly.read_json(pipeline / "meta.json"), "x": 1})
    nlp = spacy_structlearn.load(exclude=["srl_labeler", "constituency_parser"])
    assert nlp.path == pipeline
    assert nlp.meta["x"] == 1


@pytest.mark.parametrize("file", FILES)
def test_any_file_that_is_damaged(pipeline, file):
    path = pipeline / file
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert "is not what was saved" in damaged(pipeline, file)
    rng = random.Random(file)
    changed = bytearray(data)
    changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(changed)
    assert "is not what was saved" in damaged(pipeline, file)
    path.unlink()
    assert "is missing" in damaged(pipeline, file)


@pytest.mark.parametrize("content", [b"", b"{}", b'{"blake2b": 1}', b"\xff", None])
def test_digests_that_are_damaged(tmp_path, content):
    file = tmp_path / digests.DIGESTS
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(StructlearnError, match=r"SL083.*(is damaged|is not a file)"):
        digests.check(tmp_path)


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("vocab/strings.json", b'{"a"'),
        ("tokenizer", b"hello"),
        ("config.cfg", b'[nlp]\nlang = "en"\npipeline = ["x"]\n'),
    ],
)
def test_without_digests_there_is_one_error_that_names_the_folder(pipeline, file, content):
    (pipeline / digests.DIGESTS).unlink()
    (pipeline / file).write_bytes(content)
    with pytest.raises(StructlearnError, match="SL084") as error:
        load(str(pipeline))
    assert str(pipeline) in str(error.value)


# --- swapped files --------------------------------------------------------------------------------
def test_the_files_of_another_kind(components, tmp_path):
    chunker, tagger = (components[1](name) for name in ("np_chunker", "chain_tagger"))
    chunker.to_disk(tmp_path / "one", exclude=["vocab"])
    data = chunker.to_bytes(exclude=["vocab"])
    with pytest.raises(StructlearnError, match="SL089") as error:
        tagger.from_disk(tmp_path / "one", exclude=["vocab"])
    assert f"{tmp_path / 'one' / 'cfg'} was saved by np_chunker" in str(error.value)
    with pytest.raises(StructlearnError, match=r"SL089.*by np_chunker, and 'chain_tagger'"):
        tagger.from_bytes(data, exclude=["vocab"])
    # A pipeline may give it any name.
    other = components[1]("np_chunker")
    other.name = "chunks"
    other.from_disk(tmp_path / "one", exclude=["vocab"])
    other.from_bytes(data, exclude=["vocab"])


@pytest.mark.parametrize("loads", [spacy.load, spacy_structlearn.load])
@pytest.mark.parametrize("file", ["model", ""])
def test_a_component_of_another_pipeline(copied, tmp_path, loads, file):
    """Of the same kind, with the same labels and sizes, and with digests of its own."""
    exclude = [name for name in COMPONENTS if name != "np_chunker"]
    nlp = spacy.load(DIRECTORY, exclude=exclude)
    nlp.get_pipe("np_chunker").parameters.transitions += 1
    nlp.to_disk(tmp_path / "other")
    folder = Path(shutil.copytree(copied, tmp_path / "copy"))
    if file:
        shutil.copy(tmp_path / "other" / "np_chunker" / file, folder / "np_chunker" / file)
    else:
        shutil.rmtree(folder / "np_chunker")
        shutil.copytree(tmp_path / "other" / "np_chunker", folder / "np_chunker")
    with pytest.raises(StructlearnError, match="SL083") as error:
        loads(folder, exclude=exclude)
    assert str(folder / "np_chunker") in str(error.value)


@pytest.mark.parametrize("file", ["config.cfg", "tokenizer", "vocab/strings.json"])
def test_spacy_finds_damage_to_its_own_files_by_the_digests_of_the_pipeline(copied, tmp_path, file):
    exclude = [name for name in COMPONENTS if name != "np_chunker"]
    folder = Path(shutil.copytree(copied, tmp_path / "copy"))
    spacy.load(folder, exclude=exclude)
    path = folder / file
    data = path.read_bytes()
    changed = {
        "config.cfg": data.replace(b"batch_size = ", b"batch_size = 1", 1),
        "tokenizer": data.replace(rb"\.", rb"\,", 1),
        "vocab/strings.json": data.replace(b'"', b'"x', 1),
    }[file]
    assert changed != data
    path.write_bytes(changed)
    with pytest.raises(StructlearnError, match="SL083") as error:
        spacy.load(folder, exclude=exclude)
    assert f"{path} is not what was saved" in str(error.value)
    assert f"delete {folder / digests.DIGESTS}" in str(error.value)
    # Without the digests, it is edited on purpose.
    (folder / digests.DIGESTS).unlink()
    spacy.load(folder, exclude=exclude)


# --- bytes ----------------------------------------------------------------------------------------
def changed(name, data):
    """Valid, and silent without a digest: a number of a node that thinc ignores, another label."""
    if name == "cfg":
        cfg = srsly.json_loads(data)
        return srsly.json_dumps({**cfg, "labels": [*cfg["labels"], "new"]}).encode()
    model = srsly.msgpack_loads(data)
    model["nodes"][0]["index"] = 7
    return srsly.msgpack_dumps(model)


@pytest.mark.parametrize("name", ["chain_tagger", "np_chunker", "srl_labeler"])
@pytest.mark.parametrize("part", ["cfg", "model"])
def test_changed_settings_and_layers(folder, name, part):
    others = [other for other in COMPONENTS if other != name]
    component, path = spacy.load(DIRECTORY, exclude=others).get_pipe(name), folder(name)
    component.to_disk(path, exclude=["vocab"])
    component.from_disk(path, exclude=["vocab"])
    data = component.to_bytes(exclude=["vocab"])
    stored = srsly.msgpack_loads(data)
    assert stored == {name: (path / name).read_bytes() for name in ("cfg", "model")}
    stored[part] = changed(part, stored[part])
    (path / part).write_bytes(stored[part])
    with pytest.raises(StructlearnError, match=r"SL080.*not what was saved"):
        component.from_bytes(srsly.msgpack_dumps(stored), exclude=["vocab"])
    with pytest.raises(StructlearnError, match=r"SL080.*not what was saved"):
        component.from_disk(path, exclude=["vocab"])
    # Without the digest, it was edited on purpose.
    cfg = srsly.json_loads(stored["cfg"])
    del cfg["digest"]
    (path / "cfg").write_text(srsly.json_dumps(cfg))
    component.from_disk(path, exclude=["vocab"])


@pytest.mark.parametrize("content", [{}, {"vocab": b""}, {"__array__": 1}, {"cfg": 1}])
def test_bytes_without_settings_and_model(components, content):
    with pytest.raises(StructlearnError, match="SL080"):
        components[0]["np_chunker"].from_bytes(srsly.msgpack_dumps(content), exclude=["vocab"])
    components[0]["np_chunker"].from_bytes(srsly.msgpack_dumps({}), exclude=["cfg", "model"])


# --- pipes, devices and links ---------------------------------------------------------------------
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes and devices")
CHUNKER = ("cfg", "model")


@pytest.fixture
def chunker_folder(components, tmp_path):
    """The folder of a chunker that is not trained, and the chunker."""
    component = components[1]("np_chunker")
    (tmp_path / "pipeline").mkdir()
    component.to_disk(tmp_path / "pipeline" / "np_chunker", exclude=["vocab"])
    return tmp_path / "pipeline" / "np_chunker", component


@needs_pipes
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("file", CHUNKER)
def test_a_pipe_or_a_device_in_place_of_a_file(chunker_folder, kind, file):
    folder, component = chunker_folder
    (folder / file).unlink()
    if kind == "pipe":
        os.mkfifo(folder / file)
    else:
        (folder / file).symlink_to("/dev/zero")
    with pytest.raises(StructlearnError, match=f"SL099.*{file} is a {kind}"):
        component.from_disk(folder, exclude=["vocab"])
    component.to_disk(folder, exclude=["vocab"])  # they are replaced
    component.from_disk(folder, exclude=["vocab"])


@needs_pipes
@pytest.mark.parametrize("file", ["config.cfg", "tokenizer", "vocab/key2row", "README.md"])
def test_the_package_looks_for_pipes_in_all_of_a_pipeline(pipeline, file):
    (pipeline / file).unlink(missing_ok=True)
    os.mkfifo(pipeline / file)
    try:
        for loaded in (spacy_structlearn.load, lambda: load(str(pipeline))):
            with pytest.raises(StructlearnError, match="SL099") as error:
                loaded()
            assert f"{pipeline / file} is a pipe" in str(error.value)
    finally:
        (pipeline / file).unlink()


@needs_pipes
@pytest.mark.parametrize("file", CHUNKER)
def test_a_component_is_not_written_through_links(chunker_folder, tmp_path, file):
    folder, component = chunker_folder
    outside = tmp_path / "outside"
    outside.write_bytes((folder / file).read_bytes())
    (folder / file).unlink()
    (folder / file).symlink_to(outside)
    component.from_disk(folder, exclude=["vocab"])  # a link is read
    before = outside.read_bytes()
    component.cfg["spans_key"] = "mine"
    component.to_disk(folder, exclude=["vocab"])
    assert outside.read_bytes() == before
    assert not (folder / file).is_symlink()


def test_a_pipeline_that_is_saved_again_where_it_was(tmp_path):
    exclude = [name for name in COMPONENTS if name != "np_chunker"]
    copy = tmp_path / "copy"
    shutil.copytree(DIRECTORY, copy, ignore=shutil.ignore_patterns(*exclude))
    nlp = spacy.load(copy, exclude=exclude)
    nlp.batch_size = 7
    nlp.get_pipe("np_chunker").cfg["spans_key"] = "mine"
    digests.write(copy)
    digests.check(copy)
    nlp.to_disk(copy)
    # The digests of what was there are gone with it.
    assert not (copy / digests.DIGESTS).exists()
    assert load(str(copy)).get_pipe("np_chunker").cfg["spans_key"] == "mine"


@pytest.mark.parametrize("content", [b"{", b'{"blake2b": {"mine": "00"}}'])
def test_what_is_beside_a_component_stays(chunker_folder, content):
    folder, component = chunker_folder
    (folder.parent / digests.DIGESTS).write_bytes(content)
    component.to_disk(folder, exclude=["vocab"])
    assert (folder.parent / digests.DIGESTS).read_bytes() == content


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-4],
        lambda data: b"[]",
        lambda data: data.replace(b'"lang"', b'"lung"'),
        lambda data: data.replace(b'"spacy_version":">=', b'"spacy_version":"?='),
        lambda data: data.replace(b'"version"', b'"version":[],"x"'),
        None,
    ],
)
def test_a_description_that_is_damaged_or_missing(pipeline, change):
    file = pipeline / "meta.json"
    data = file.read_bytes()
    if change is None:
        file.unlink()
    else:
        assert change(data) != data
        file.write_bytes(change(data))
    problem = "is missing" if change is None else "is damaged"
    assert problem in damaged(pipeline, "meta.json")
