"""What is exported from torch computes the same in the package."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from encoder.tiny import PIECES, SPECIAL  # noqa: E402

from spacy_structlearn.encoder.pieces import WordPieces  # noqa: E402
from training.encoder.examples import HEADS  # noqa: E402
from training.encoder.export import compare, exported, scorers  # noqa: E402
from training.encoder.network import Shape, new_network  # noqa: E402

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
    made = new_network(shape, 16, LABELS).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, 0.0, 0.3)
    return made


def test_vectors(network):
    pieces = WordPieces(PIECES, *SPECIAL)
    plain, int8 = compare(network, pieces, SENTENCES)
    assert plain["difference"] < 0.02  # float16
    assert plain["cosine"] > 0.9999
    assert int8["least_cosine"] > 0.95
    encoder = exported(network, pieces, quantized=False, float16=False)
    with torch.inference_mode():
        for words, found in zip(SENTENCES, encoder.vectors(SENTENCES), strict=True):
            wanted = network.vectors(pieces.batch([words])).numpy()
            np.testing.assert_allclose(found, wanted, atol=1e-4)


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
