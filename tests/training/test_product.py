"""Sizes of packages that are installed in another folder."""

from importlib.metadata import PackageNotFoundError

import pytest

from training.benchmarks import product


def install(folder, name, size, *requires):
    """Write the files of a distribution: a module of `size` bytes, and its metadata."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    needs = "".join(f"Requires-Dist: {text}\n" for text in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
    (info / "RECORD").write_text(f"{name}.py,,\n{name}.pyc,,\n")
    (folder / f"{name}.py").write_bytes(bytes(size))
    (folder / f"{name}.pyc").write_bytes(bytes(9999))


def test_sizes_of_peers(tmp_path):
    install(tmp_path, "benepar", 1_000_000, "torch", "missing", "extra; extra == 'dev'")
    install(tmp_path, "torch", 2_000_000, "nvidia_x>=1", "benepar")
    install(tmp_path, "nvidia_x", 4_000_000)
    install(tmp_path, "extra", 8_000_000)
    with pytest.raises(PackageNotFoundError, match="stanza"):
        product.peers(tmp_path)
    install(tmp_path, "stanza", 16_000_000)
    figures = product.peers(tmp_path)
    assert figures == {
        "peers.benepar.version": "1.0",
        "peers.benepar.packages": 3,
        "peers.benepar.install_mb": pytest.approx(7.0),
        "peers.benepar.without_gpu_mb": pytest.approx(3.0),
        "peers.stanza.version": "1.0",
        "peers.stanza.packages": 1,
        "peers.stanza.install_mb": pytest.approx(16.0),
        "peers.stanza.without_gpu_mb": pytest.approx(16.0),
    }
