"""What was stored before settings had one vocabulary: refused as it is, read once converted.

before.json has, of every architecture, its defaults and a small component as they were then: its
section of a config, its bytes, and a digest of what it found in the sample.
default_pipeline.cfg is the config of the default pipeline.
"""

import base64
import json
import shutil
import zlib
from hashlib import blake2b
from pathlib import Path

import pytest
import spacy
from confection import Config
from typer.testing import CliRunner

import spacy_structlearn
from spacy_structlearn.cli import app
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import digests
from spacy_structlearn.pipeline.readers import create_treebank_reader
from spacy_structlearn.pipeline.upgrade import CHANGES, read_config, upgraded

HERE = Path(__file__).parent
SAMPLE = HERE.parents[1] / "corpora" / "sample"
FILES = {"spaces": SAMPLE / "sample.spaces", "props": SAMPLE / "sample.props"}
BEFORE = json.loads((HERE / "before.json").read_text(encoding="utf8"))
SHIPPED = Path(spacy_structlearn.__file__).parent / "data" / "en_structlearn_sm"
READ = {"pp_attacher": ["constituents"], "srl_labeler": ["constituents"]}


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result


# Settings that came later. With their defaults nothing changes.
LATER = {"prior", "prior_trees"}


@pytest.mark.parametrize("name", BEFORE["components"].keys() - {"NeuralGrammar"})
def test_components_of_before_find_the_same(name):
    before = BEFORE["components"][name]
    config = upgraded(before["config"])
    nlp = spacy.blank("en")
    factory = config.pop("factory")
    component = nlp.add_pipe(factory, config=config)
    component.from_bytes(zlib.decompress(base64.b85decode(before["bytes"])), exclude=["vocab"])
    spans = READ.get(factory)
    reader = create_treebank_reader(SAMPLE / "sample.trees", **FILES, spans=spans)
    doc = component(next(iter(reader(nlp))).predicted)
    found = {
        key: [[span.start, span.end, span.label_] for span in group]
        for key, group in doc.spans.items()
        if key not in (spans or ())
    }
    found["tags"] = [token.tag_ for token in doc]
    found["starts"] = [int(token.is_sent_start or 0) for token in doc]
    text = json.dumps(found, sort_keys=True).encode()
    assert blake2b(text, digest_size=16).hexdigest() == before["answer"]


@pytest.mark.parametrize("name", BEFORE["defaults"])
def test_defaults_mean_what_they_meant(name):
    before = BEFORE["defaults"][name]
    assert name in CHANGES
    kind = next(key for key in before if key.startswith("@"))
    after = spacy.registry.fill(Config({"x": {kind: before[kind].replace(".v1", ".v2")}}))["x"]
    assert upgraded(before) == {key: value for key, value in after.items() if key not in LATER}


@pytest.mark.parametrize("name", BEFORE["defaults"])
def test_old_names_are_refused_with_the_new_ones(name):
    with pytest.raises(StructlearnError, match=r"SL044.*structlearn upgrade") as error:
        spacy.registry.resolve(Config({"x": BEFORE["defaults"][name]}))
    for old, change in CHANGES[name].items():
        assert f"{old} {change}" in str(error.value)


def test_a_setting_that_was_taken_out():
    section = BEFORE["defaults"]["ConditionalGrammar"]
    assert section["scales"] == "own"
    assert "scales" not in upgraded(section)
    without = {name: value for name, value in section.items() if name != "scales"}
    assert upgraded(without) == upgraded(section)
    now = {"@architectures": "spacy_structlearn.ConditionalGrammar.v2", "l1": 0.5}
    assert upgraded(now | {"solver": "lbfgs", "learn_rate": 0.1, "batch_size": 9}) == now
    with pytest.raises(StructlearnError, match=r"SL046.*solver is 'adagrad'"):
        upgraded(now | {"solver": "adagrad"})
    with pytest.raises(StructlearnError, match=r"SL046.*grammar\.scales is 'all'.*taken out"):
        upgraded({"grammar": section | {"scales": "all"}})


def test_an_architecture_that_was_taken_out():
    layers = {"@architectures": "spacy_structlearn.BiLSTMEncoder.v1", "width": 64, "seed": 0}
    with pytest.raises(StructlearnError, match=r"SL047.*BiLSTMEncoder\.v1.*MaxoutWindowEncoder"):
        spacy.registry.resolve(Config({"x": layers}))


@pytest.fixture
def pipeline(tmp_path):
    """The default pipeline as it was stored."""
    folder = tmp_path / "before"
    shutil.copytree(SHIPPED, folder)
    shutil.copy(HERE / "default_pipeline.cfg", folder / "config.cfg")
    digests.write(folder)
    return folder


def test_the_default_pipeline_of_before(pipeline, tmp_path):
    with pytest.raises(StructlearnError, match="SL044"):
        spacy.load(pipeline)
    after = tmp_path / "new" / "after"
    assert run("upgrade", pipeline, "--output", after).exit_code == 0
    assert read_config(after / "config.cfg") == read_config(SHIPPED / "config.cfg")
    text = "My sister sold her new boat to a dealer in Bristol. It sank in two days."
    found, wanted = (spacy.load(path)(text) for path in (after, SHIPPED))
    assert found.to_bytes() == wanted.to_bytes()
    # In place, and what is of this version stays as it is.
    assert run("upgrade", pipeline, "--output", pipeline).exit_code == 0
    assert run("upgrade", pipeline, "--output", pipeline).exit_code == 0
    assert read_config(pipeline / "config.cfg") == read_config(after / "config.cfg")


def test_a_damaged_pipeline_is_not_converted(pipeline, tmp_path):
    with (pipeline / "np_chunker" / "model").open("ab") as file:
        file.write(b"x")
    result = run("upgrade", pipeline, "--output", tmp_path / "after")
    assert isinstance(result.exception, StructlearnError)
    assert result.exception.code == "SL083"
    assert not (tmp_path / "after").exists()


def test_a_config(tmp_path):
    file = tmp_path / "config.cfg"
    section = "[components.x.model]"
    head = "[system]\nseed = 0\n\n[components]\n\n[components.x]\n\n"
    model = (
        '@architectures = "spacy_structlearn.CRF.v1"\nmin_frequency = 3\nseed = ${system.seed}\n'
    )
    file.write_text(f"{head}{section}\n{model}l2 = 2.0\n", encoding="utf8")
    result = run("upgrade", file)
    found = Config().from_str(result.stdout, interpolate=False)["components"]["x"]["model"]
    assert found == {
        "@architectures": "spacy_structlearn.CRF.v2",
        "min_count": 3,
        "seed": "${system.seed}",
        "l2": 4.0,
    }
    file.write_text(f"{head}{section}\n{model}l2 = ${{system.seed}}\n", encoding="utf8")
    assert run("upgrade", file).exception.code == "SL045"
    assert run("upgrade", tmp_path / "none.cfg").exception.code == "SL010"
    assert run("upgrade", tmp_path).exit_code == 2
