"""`help` of a component describes its settings."""

import pydoc
from importlib.metadata import distribution

import pytest
import spacy

from spacy_structlearn.learning.settings import reference

POINTS = distribution("spacy-structlearn").entry_points
LOADED = {point.name: point.load() for point in POINTS if point.group == "spacy_factories"}
# Without the components that are functions, which have no settings.
FACTORIES = sorted(name for name, make in LOADED.items() if hasattr(make, "component"))


@pytest.mark.parametrize("factory", FACTORIES)
def test_help_of_a_component_shows_its_settings(factory):
    component = spacy.blank("en").add_pipe(factory)
    text = " ".join(pydoc.render_doc(component, renderer=pydoc.plaintext).replace("|", "").split())
    for name, kind, default, meaning in reference(component.settings_kind):
        row = f"{name} ({kind}, default {default}): {meaning}"
        assert " ".join(row.replace("|", "").split()) in text, name
    assert "Create an untrained component." in text
