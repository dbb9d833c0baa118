"""house.py on a package made up here, and on this one."""

import pytest

from training.benchmarks import house

PROJECT = """\
[project.entry-points.spacy_architectures]
"spacy_structlearn.Old.v1" = "spacy_structlearn.architectures:build_nothing"
"spacy_structlearn.Old.v2" = "spacy_structlearn.architectures:build_old"
"spacy_structlearn.New.v1" = "spacy_structlearn.architectures:build_new"
"spacy_structlearn.Layer.v1" = "spacy_structlearn.architectures:build_layer"
"another.New.v9" = "spacy_structlearn.architectures:build_nothing"
"""
FILES = {
    "__init__.py": "",
    "architectures.py": """\
from .family.settings import NewSettings as Settings
from .other import learner_model

def build_old(l2=1.0, *, order: int = 1, name=None):
    from .family.old import Old
    return learner_model(_made(l2, order))

def _made(l2, order):
    from .family.old import Old
    return Old(l2=l2, order=order)

def build_layer(width=3):
    return width

build_new = architecture(Settings, stored_as="new")
""",
    "other.py": "def learner_model(model): ...\nclass Elsewhere:\n    order: int = 1\n",
    "family/__init__.py": "",
    "family/old.py": """\
from typing import ClassVar
from ..other import Elsewhere

@dataclass(frozen=True)
class Old(Base):
    order: int = 2

    def trainer(self):
        Elsewhere(order=self.order)
        return Model.empty(), OldTrainer(self, order=self.order)

class Base:
    l2: float = 1.0
    kind: ClassVar[int] = 3

class Model:
    def __init__(self, order=1): ...
    @classmethod
    def empty(cls, name="x"): ...

class OldTrainer(Protocol[T]):
    def __init__(self, settings, order=1): ...
    def step(self): ...
""",
    "family/settings.py": """\
class NewSettings(Shared):
    l2: float = setting(1.0, ge=0)
    width: int
    hidden: int = setting(1, exposed=False)
    depth: int = setting(1, exposed=False)

class Shared:
    l1: float = l1(0.0)
    depth: int = setting(2)

class Trainer(Generic[S]):
    def take(self):
        raise NotImplementedError
    def step(self): ...
    def resume(self): ...

class Concrete(Trainer):
    def step(self): ...
    def resume(self): ...
""",
    "family/_kernel.pyx": "cdef class Model:\n    pass\nclass _Part:\n    cdef int x\n",
    "data/left_out.py": "x = 1\n",
}


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf8")
    for name, text in FILES.items():
        path = tmp_path / "spacy_structlearn" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf8")
    for name in ("tests", "training"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "one.py").write_text("1\n\n", encoding="utf8")
    return tmp_path


def test_places_of_settings(checkout):
    old = ["architectures.build_old", "family.old.Old", "family.old.OldTrainer"]
    assert house.places(house.Code(checkout)) == {
        ("Old", "l2"): ["architectures.build_old", "family.old.Base"],
        ("Old", "name"): ["architectures.build_old", "family.old.Model"],
        ("Old", "order"): old,
        ("New", "l1"): ["family.settings.Shared"],
        ("New", "l2"): ["family.settings.NewSettings"],
        ("New", "width"): [],
    }


def test_all_counts(checkout):
    figures, named = house.counted(checkout)
    n_lines = {name: text.count("\n") for name, text in FILES.items() if "data" not in name}
    assert figures["lines.package"] == sum(n_lines.values())
    assert figures["lines.package_of.pyx"] == 4
    assert (figures["lines.tests"], figures["lines.training"]) == (2, 2)
    assert [figures[f"settings.{key}"] for key in ("learners", "n", "places_max")] == [2, 6, 3]
    assert named["trainers.protocols"] == ["family.old.OldTrainer", "family.settings.Trainer"]
    assert named["class_names.duplicated"] == ["Model"]
    assert figures["settings.repeated"] == len(named["settings.repeated"]) == 3
