"""The measurement of interrupted commands, with the fastest command."""

import pytest

# It takes modules that Windows has not.
interrupts = pytest.importorskip(
    "training.reliability.interrupts", reason="needs fork", exc_type=ImportError
)
NAME = "init-config"


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return interrupts.undisturbed(NAME, {}, tmp_path_factory.mktemp("usual"))


def test_interrupted_commands_leave_nothing(usual, tmp_path):
    found = interrupts.interrupted({NAME: usual}, {}, tmp_path, seed=0, warm=3, cold=0)
    assert found["interrupts.cases"] >= 1
    assert found["interrupts.commands"] == 1
    for key in ("half_written", "unclear", "orphans"):
        assert found[f"interrupts.{key}"] == 0


def test_damage_is_found(usual, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    assert not interrupts.is_damaged(out, usual.out, whole=False)
    assert interrupts.is_damaged(out, usual.out, whole=True)
    text = (usual.out / "config.cfg").read_bytes()
    (out / "config.cfg").write_bytes(text)
    assert not interrupts.is_damaged(out, usual.out, whole=True)
    (out / "config.cfg").write_bytes(text[:-1])
    assert interrupts.is_damaged(out, usual.out, whole=False)
    (out / "config.cfg").unlink()
    (out / ".config.cfg.new").touch()
    assert interrupts.is_damaged(out, usual.out, whole=False)
