"""What holds for the settings of every learner, as their fields say it."""

import dataclasses
import math

import pytest
import spacy
from confection import Config
from contracts.cases import classes, listed

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.learning.settings import Settings, document, reference, signature
from spacy_structlearn.pipeline.training.factories import ComponentSettings
from spacy_structlearn.sequence.settings import CRFSettings, HMMSettings

LISTED = listed("CASES")  # imports all families
FACTORIES = sorted(spacy.registry._entry_point_factories.get_all())
COMPONENTS = [kind for kind in classes(Settings) if kind.name in FACTORIES]
LEARNERS = [kind for kind in classes(Settings) if kind.name and kind not in COMPONENTS]
KINDS = LEARNERS + COMPONENTS


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


def required(kind):
    """The settings without a default, as a listed learner has them."""
    names = [p.name for p in signature(kind).parameters.values() if p.default is p.empty]
    found = next((case.settings for case in LISTED if type(case.settings) is kind), None)
    return {name: getattr(found, name) for name in names}


def out_of_bounds(bounds):
    step = 1e-3
    for name, beyond in (("ge", -step), ("gt", 0), ("le", step), ("lt", 0)):
        if bounds.get(name) is not None:
            yield bounds[name] + beyond
    if bounds.get("choices"):
        yield "another" if isinstance(bounds["choices"][0], str) else 999


def test_every_setting_is_explained(kind):
    for name, of, _, text in reference(kind):
        assert of, name
        assert len(text) > 10, name
        assert text.endswith("."), name
    assert kind.__doc__
    for part in dataclasses.fields(kind):
        if part.metadata.get("exposed", True):
            assert part.name in document(kind)


def test_values_out_of_bounds(kind):
    checked = 0
    for part in dataclasses.fields(kind):
        for value in out_of_bounds(part.metadata["bounds"]):
            with pytest.raises(StructlearnError, match=f"SL043.*{part.name} is") as error:
                kind(**required(kind) | {part.name: value})
            assert error.value.fields["learner"] == kind.name
            checked += 1
    assert checked or not any(p.metadata["bounds"]["choices"] for p in dataclasses.fields(kind))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2**63, 10**400, object(), b"x"])
def test_values_that_nothing_can_be(kind, value):
    for part in dataclasses.fields(kind):
        with pytest.raises(StructlearnError, match="SL043"):
            kind(**required(kind) | {part.name: value})


def test_values_are_readable_in_errors():
    with pytest.raises(StructlearnError) as error:
        CRFSettings(encoding="x" * 10_000)
    assert len(str(error.value)) < 300
    with pytest.raises(StructlearnError, match="CRF: l2 is HMM; it must be"):
        CRFSettings(l2=HMMSettings())
    with pytest.raises(StructlearnError, match="CRF: l2 is sqrt; it must be"):
        CRFSettings(l2=math.sqrt)
    with pytest.raises(StructlearnError, match="CRF: l2 is -9223372036854775808; it must be"):
        CRFSettings(l2=-(2**63))


@pytest.mark.parametrize("name", ["missing", "", "x" * 10_000, "nul\0"])
def test_files_that_cannot_be_read(name, tmp_path):
    with pytest.raises(
        StructlearnError, match=r"SL043\] CRF: classes is .* a file that can be read"
    ):
        _ = CRFSettings(classes=tmp_path / name).word_classes
    with pytest.raises(StructlearnError, match=r"SL043\] CRF: classes is ''; it must be Path"):
        CRFSettings(classes="")


def test_every_component_is_listed():
    ours = spacy.registry._entry_point_factories.get_all().values()
    # merge_np_chunks is a function without settings.
    assert {kind.name for kind in COMPONENTS} | {"merge_np_chunks"} >= {
        make.__name__.removeprefix("make_") for make in ours if "structlearn" in make.__module__
    }


@pytest.mark.parametrize("kind", COMPONENTS, ids=lambda kind: kind.__name__)
def test_factory(kind):
    """A config can name all settings, and no others."""
    meta = spacy.blank("xx").get_factory_meta(kind.name)
    learner = {"model", "scorer"} if issubclass(kind, ComponentSettings) else set()
    assert set(meta.default_config) == {*learner, *signature(kind).parameters}
    component = spacy.blank("xx").create_pipe(kind.name)
    for name in signature(kind).parameters:
        assert getattr(component, name) == getattr(kind(), name)


@pytest.mark.parametrize("kind", LEARNERS, ids=lambda kind: kind.__name__)
def test_architecture(kind):
    """A config can name all settings, and no others."""
    found = [
        name
        for name in spacy.registry.architectures.get_all()
        if name.startswith(f"spacy_structlearn.{kind.name}.")
    ]
    assert found, kind.name
    name = max(found)
    build = spacy.registry.architectures.get(name)
    assert build.__doc__ == document(kind)
    text = f'[model]\n@architectures = "{name}"\n'
    if required(kind):
        return
    filled = spacy.registry.fill(Config().from_str(text))["model"]
    assert set(filled) == {"@architectures", *signature(kind).parameters}
    model = spacy.registry.resolve({"model": filled})["model"]
    assert model.attrs["parameters"].is_empty
    assert model.attrs["estimator"].settings == kind()
