"""The NP chunker as spaCy sees it: training, prediction, storage, odd input."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline import batch_trainable

TEXT = "The old dog slept under the table. My sister bought two red apples."
CHUNKS = ["The old dog", "the table", "My sister", "two red apples"]


def texts(doc):
    return [chunk.text for chunk in doc._.np_chunks]


def tagged(nlp, words, tags):
    return nlp.get_pipe("np_chunker")(Doc(nlp.vocab, words=words, tags=tags))


# --- training -------------------------------------------------------------------------------------
def test_overfits_its_training_data(make_chunker, make_examples):
    nlp = make_chunker()
    examples = make_examples(nlp)
    for example in examples:
        nlp.get_pipe("np_chunker")(example.predicted)
    scores = nlp.get_pipe("np_chunker").score(examples)
    assert scores["np_chunk_f"] == 1.0
    assert scores["np_chunk_per_type"]["NP"]["r"] == 1.0


def test_update_decreases_the_loss_and_reaches_the_optimum_of_fit(make_chunker, make_examples):
    fitted = make_chunker().get_pipe("np_chunker")
    nlp = spacy.blank("en")
    nlp.add_pipe("np_chunker", config={"iterations_per_step": 3})
    examples = make_examples(nlp)
    sgd = nlp.initialize(lambda: examples)
    losses = [nlp.update(examples, sgd=sgd)["np_chunker"] for _ in range(60)]
    assert all(after <= before for before, after in pairwise(losses))
    assert losses[-1] < losses[0]
    assert nlp.get_pipe("np_chunker").parameters == fitted.parameters


def test_small_batches_end_at_the_same_optimum(make_chunker, make_examples):
    settings = {"model": {"@architectures": "spacy_structlearn.CRF.v1", "tolerance": 1e-9}}
    fitted = make_chunker(**settings).get_pipe("np_chunker").parameters
    nlp = spacy.blank("en")
    nlp.add_pipe("np_chunker", config=settings)
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    for _ in range(30):
        for start in range(0, len(examples), 2):
            nlp.update(examples[start : start + 2])
    batched = nlp.get_pipe("np_chunker").parameters
    np.testing.assert_allclose(batched.weights, fitted.weights, atol=1e-3)
    np.testing.assert_allclose(batched.transitions, fitted.transitions, atol=1e-3)


def test_losses_are_written_even_if_nothing_is_annotated(make_examples):
    nlp = spacy.blank("en")
    nlp.add_pipe("np_chunker")
    nlp.initialize(lambda: make_examples(nlp))
    example = Example(nlp.make_doc("A dog"), nlp.make_doc("A dog"))
    assert nlp.get_pipe("np_chunker").update([example]) == {"np_chunker": 0.0}


@pytest.mark.parametrize("bad", [None, 1, lambda: None, lambda: [], lambda: ["text"]])
def test_initialize_refuses_what_are_no_examples(bad):
    chunker = spacy.blank("en").add_pipe("np_chunker")
    with pytest.raises(TypeError):
        chunker.initialize(bad)


def test_initialize_without_gold_names_what_is_missing():
    nlp = spacy.blank("en")
    nlp.add_pipe("np_chunker")
    with pytest.raises(StructlearnError, match=r"np_chunks.*reference"):
        nlp.initialize()


def test_initialize_keeps_loaded_parameters(nlp):
    before = nlp.get_pipe("np_chunker").parameters
    nlp.initialize()
    assert nlp.get_pipe("np_chunker").parameters == before
    assert texts(nlp(TEXT)) == CHUNKS


def test_examples_without_gold_are_passed_over(make_examples):
    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker")
    examples = make_examples(nlp)
    del examples[0].reference.spans["np_chunks"]
    nlp.initialize(lambda: examples)
    assert chunker.fit(examples) > 0
    assert chunker.score(examples[:1])["np_chunk_f"] is None


def test_gold_chunks_that_do_not_fit_the_tokens_are_left_out(make_examples):
    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker")
    reference = make_examples(nlp)[1].reference
    words = ["My", "sister", "bought two", "red", "apples", "."]
    tags = ["PRP$", "NN", "VBD", "JJ", "NNS", "."]
    chunker.add_label("NP")
    example = Example(Doc(nlp.vocab, words=words, tags=tags), reference)
    assert chunker.gold_data(example).tags == ("B-NP", "I-NP", "O", "O", "O", "O")


def test_labels(make_examples):
    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker")
    assert (chunker.add_label("VP"), chunker.add_label("VP")) == (1, 0)
    nlp.initialize(lambda: make_examples(nlp))
    assert chunker.labels == ("NP", "VP")
    assert chunker.label_data == ["NP", "VP"]
    with pytest.raises(StructlearnError, match="fixed"):
        chunker.add_label("PP")


def test_label_data_initializes_another_pipeline(make_chunker, make_examples):
    data = make_chunker().get_pipe("np_chunker").label_data
    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker")
    chunker.initialize(lambda: make_examples(nlp), labels=data)
    assert chunker.label_data == data


def test_bad_settings_are_refused():
    nlp = spacy.blank("en")
    with pytest.raises(StructlearnError, match="iterations_per_step"):
        nlp.add_pipe("np_chunker", name="a", config={"iterations_per_step": 0})
    bad = {"@architectures": "spacy_structlearn.CRF.v1", "templates": ["WORD[0]"]}
    with pytest.raises(StructlearnError, match="no token attribute"):
        nlp.add_pipe("np_chunker", name="b", config={"model": bad})


# --- prediction -----------------------------------------------------------------------------------
def test_chunks_and_probabilities(nlp):
    doc = nlp(TEXT)
    assert texts(doc) == CHUNKS
    scores = doc.spans["np_chunks"].attrs["scores"]
    assert scores.dtype == np.float32
    assert len(scores) == len(CHUNKS)
    for chunk, score in zip(doc._.np_chunks, scores, strict=True):
        assert 0.0 < score <= 1.0
        assert chunk._.np_chunk_prob == pytest.approx(score)
    assert doc[0:2]._.np_chunk_prob is None
    assert doc[3:4]._.np_chunk_prob is None
    assert [t._.np_iob for t in doc[:8]] == ["B", "I", "I", "O", "O", "B", "I", "O"]


def test_getters_without_annotation(nlp):
    doc = nlp.make_doc("A dog")
    assert doc._.np_chunks == ()
    assert doc[0]._.np_iob == ""
    assert doc[0:2]._.np_chunk_prob is None


def test_scores_of_another_length_count_as_missing(nlp):
    doc = nlp(TEXT)
    doc.spans["np_chunks"].attrs["scores"] = np.ones(1, dtype=np.float32)
    assert doc._.np_chunks[0]._.np_chunk_prob is None


def test_untrained_component_says_so():
    nlp = spacy.blank("en")
    nlp.add_pipe("np_chunker")
    with pytest.raises(StructlearnError, match="not been trained"):
        nlp("A dog")


def test_missing_tags_are_named(make_chunker):
    nlp = make_chunker()
    with pytest.raises(StructlearnError, match=r"token.tag_.*The old dog"):
        nlp("The old dog")


@pytest.mark.parametrize("text", ["", " ", "\n\n\t ", "\u200b", "dog", "!", "🙂 🙂"])
def test_odd_texts(nlp, text):
    doc = nlp(text)
    assert doc.text == text
    assert len(doc.spans["np_chunks"]) == len(doc.spans["np_chunks"].attrs["scores"])


def test_empty_docs_among_others(nlp):
    docs = list(nlp.pipe(["", TEXT, "  ", TEXT]))
    assert [texts(doc) for doc in docs] == [[], CHUNKS, [], CHUNKS]
    assert nlp.get_pipe("np_chunker").predict([]) == []


def test_white_space_tokens_are_not_seen(nlp):
    plain = nlp(TEXT)
    spread = nlp("\n The old \n\n dog slept  under the\ttable. My sister bought two red apples. ")
    squeezed = [" ".join(chunk.split()) for chunk in texts(spread)]
    assert squeezed == texts(plain)
    scores = [doc.spans["np_chunks"].attrs["scores"] for doc in (plain, spread)]
    np.testing.assert_array_equal(*scores)
    assert [spread[1]._.np_iob, spread[3]._.np_iob] == ["B", "I"]


def test_very_long_sentence(make_chunker):
    nlp = make_chunker()
    words = ["the", "red", "table", "slept"] * 5000
    doc = tagged(nlp, words, ["DT", "JJ", "NN", "VBD"] * 5000)
    assert len(doc._.np_chunks) == 5000
    assert np.isfinite(doc.spans["np_chunks"].attrs["scores"]).all()


def test_predict_leaves_the_doc_alone(nlp):
    doc = nlp.get_pipe("sentencizer")(nlp.make_doc(TEXT))
    nlp.get_pipe("np_chunker").predict([doc])
    assert "np_chunks" not in doc.spans


def test_set_annotations_replaces(nlp):
    doc = nlp(TEXT)
    assert texts(nlp.get_pipe("np_chunker")(doc)) == CHUNKS


def test_pipe_equals_call(nlp):
    many = [TEXT, "Nobody saw the thief.", "Run!"] * 5
    assert [texts(doc) for doc in nlp.pipe(many, batch_size=4)] == [texts(nlp(t)) for t in many]


def test_memory_zone(nlp):
    with nlp.memory_zone():
        nlp("An unheard-of zyzzyva slept under the table.")
    assert texts(nlp(TEXT)) == CHUNKS


def test_noun_chunks_hook(make_chunker):
    nlp = make_chunker(set_noun_chunks=True)
    doc = tagged(nlp, ["the", "dog", "saw", "a", "bird"], ["DT", "NN", "VBD", "DT", "NN"])
    assert [chunk.text for chunk in doc.noun_chunks] == ["the dog", "a bird"]
    assert [chunk.text for chunk in doc[2:].noun_chunks] == ["a bird"]
    assert {chunk.label_ for chunk in doc.noun_chunks} == {"NP"}
    with pytest.raises(StructlearnError, match="np_chunker first"):
        list(nlp.make_doc("the dog").noun_chunks)


def test_noun_chunks_are_left_alone_by_default(make_chunker):
    before = spacy.blank("en").vocab.get_noun_chunks
    assert make_chunker().vocab.get_noun_chunks == before


def test_analysis_of_the_pipeline(nlp):
    assert "np_chunker" in nlp.analyze_pipes()["summary"]
    assert "doc._.np_chunks" in nlp.get_pipe_meta("np_chunker").assigns


# --- chunks under a tree --------------------------------------------------------------------------
def rechunked(nlp, doc, *brackets):
    """The Doc with other constituents, and chunks that fit them."""
    doc.spans["constituents"] = [Span(doc, start, end, "X") for start, end in brackets]
    return nlp.get_pipe("np_chunker")(doc)


def places(doc):
    return [(chunk.start, chunk.end) for chunk in doc._.np_chunks]


def test_chunks_do_not_cross_constituents(nlp):
    doc = nlp(TEXT)
    assert places(doc)[0] == (0, 3)
    free = doc.spans["np_chunks"].attrs["scores"]
    rechunked(nlp, doc, (0, 8), (1, 4), (8, 15))
    scores = doc.spans["np_chunks"].attrs["scores"]
    assert (0, 3) not in places(doc)
    assert not any(i < 1 < j < 4 or 1 < i < 4 < j for i, j in places(doc))
    assert len(scores) == len(doc._.np_chunks)
    # Those of the other sentence are as they were.
    assert texts(doc)[-2:] == CHUNKS[2:]
    np.testing.assert_allclose(scores[-2:], free[-2:], rtol=1e-5)


def test_chunks_within_or_around_constituents_are_allowed(nlp):
    doc = rechunked(nlp, nlp(TEXT), (0, 3), (0, 8), (1, 3), (3, 7), (4, 7), (6, 7), (10, 14))
    assert texts(doc) == CHUNKS
    # Given the tree they are more probable, since it rules out others.
    free = nlp(TEXT).spans["np_chunks"].attrs["scores"]
    assert (doc.spans["np_chunks"].attrs["scores"] >= free - 1e-6).all()


def test_constituents_count_past_white_space(nlp):
    doc = nlp("\n The old \n\n dog slept  under the\ttable.")
    words = [token.i for token in doc if not token.is_space]
    assert places(doc)[0] == (words[0], words[2] + 1)
    rechunked(nlp, doc, (words[1], words[3] + 1))
    assert not any(i < words[1] < j <= words[3] for i, j in places(doc))
    rechunked(nlp, doc, (words[0], words[2] + 1))
    assert places(doc)[0] == (words[0], words[2] + 1)


def test_a_possessive_marker_begins_the_next_chunk():
    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker")
    words, tags = ["the", "dog", "'s", "old", "table"], ["DT", "NN", "POS", "JJ", "NN"]
    gold = Doc(nlp.vocab, words=words, tags=tags)
    gold.spans["np_chunks"] = [Span(gold, 0, 2, "NP"), Span(gold, 2, 5, "NP")]
    examples = [Example(gold.copy(), gold)]
    nlp.initialize(lambda: examples)
    chunker.fit(examples)
    doc = Doc(nlp.vocab, words=words, tags=tags)
    assert places(rechunked(nlp, doc, (0, 5), (0, 3))) == [(0, 2), (2, 5)]
    # No phrase without it may be crossed.
    assert (2, 5) not in places(rechunked(nlp, doc, (0, 5), (0, 4)))


def test_docs_with_and_without_trees_in_one_batch(nlp):
    chunker = nlp.get_pipe("np_chunker")
    docs = [nlp(TEXT) for _ in range(3)]
    expected = places(rechunked(nlp, nlp(TEXT), (1, 4)))
    docs[1].spans["constituents"] = [docs[1][1:4]]
    docs[2].spans["constituents"] = []
    assert [places(doc) for doc in chunker.pipe(docs)] == [
        places(nlp(TEXT)), expected, places(nlp(TEXT))
    ]  # fmt: skip


def test_constituents_beyond_a_sentence_do_not_count(nlp):
    assert texts(rechunked(nlp, nlp(TEXT), (2, 11))) == CHUNKS


def test_constituents_can_be_left_alone(make_chunker):
    nlp = make_chunker(respect_constituents=False)
    doc = tagged(nlp, ["the", "dog", "slept"], ["DT", "NN", "VBD"])
    assert places(rechunked(nlp, doc, (1, 3))) == [(0, 2)]
    nlp = make_chunker()
    doc = tagged(nlp, ["the", "dog", "slept"], ["DT", "NN", "VBD"])
    assert (0, 2) not in places(rechunked(nlp, doc, (1, 3)))


def test_n_best_is_of_the_chunker_alone(nlp):
    doc = rechunked(nlp, nlp("The old dog slept under the table."), (1, 4))
    (_, best), *_ = nlp.get_pipe("np_chunker").n_best(doc, 2)
    assert [span.text for span in best] == CHUNKS[:2]


# --- storage of the component ---------------------------------------------------------------------
@pytest.fixture(params=["disk", "bytes", "pickle"])
def restored(request, nlp, tmp_path):
    if request.param == "disk":
        nlp.to_disk(tmp_path / "model")
        return spacy.load(tmp_path / "model")
    if request.param == "bytes":
        return spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    return pickle.loads(pickle.dumps(nlp))


def test_component_round_trip(nlp, restored):
    assert restored.get_pipe("np_chunker").parameters == nlp.get_pipe("np_chunker").parameters
    assert restored.get_pipe("np_chunker").labels == ("NP",)
    doc, again = nlp(TEXT), restored(TEXT)
    assert texts(again) == texts(doc) == CHUNKS
    scores = [d.spans["np_chunks"].attrs["scores"] for d in (doc, again)]
    np.testing.assert_array_equal(*scores)


def test_training_goes_on_after_loading(make_chunker, make_examples, tmp_path):
    make_chunker().to_disk(tmp_path / "model")
    nlp = spacy.load(tmp_path / "model")
    chunker = nlp.get_pipe("np_chunker")
    examples = make_examples(nlp)
    optimum = make_chunker().get_pipe("np_chunker").fit(examples)
    assert chunker.fit(examples) == pytest.approx(optimum, rel=1e-3)


def test_an_interrupted_fit_goes_on_from_its_checkpoint(
    make_chunker, make_examples, tmp_path, monkeypatch
):
    monkeypatch.setattr(batch_trainable, "CHECKPOINT_SECONDS", -1)
    expected = make_chunker().get_pipe("np_chunker").parameters
    checkpoint = tmp_path / "state"

    def interrupt(iteration, value):
        if iteration == 8:
            raise KeyboardInterrupt

    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker")
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    with pytest.raises(KeyboardInterrupt):
        chunker.fit(examples, on_iteration=interrupt, checkpoint=checkpoint)
    assert checkpoint.exists()
    iterations = []
    chunker.fit(examples, on_iteration=lambda i, _: iterations.append(i), checkpoint=checkpoint)
    assert iterations[0] == 8
    assert chunker.parameters == expected
    assert not checkpoint.exists()


def test_a_checkpoint_of_other_data_is_passed_over(make_examples, tmp_path):
    nlp = spacy.blank("en")
    chunker = nlp.add_pipe("np_chunker")
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    chunker._take_in(examples[:3])
    chunker._step()
    (tmp_path / "state").write_bytes(chunker._training.trainer.to_bytes())
    iterations = []
    chunker.fit(
        examples, on_iteration=lambda i, _: iterations.append(i), checkpoint=tmp_path / "state"
    )
    assert iterations[0] == 1


def test_a_checkpoint_of_another_learner_is_passed_over(make_examples, tmp_path):
    nlp = spacy.blank("en")
    # With l1 it is another optimiser.
    crf = {"@architectures": "spacy_structlearn.CRF.v1"}
    other = nlp.add_pipe("np_chunker", "other", config={"model": crf | {"l1": 0.1}})
    chunker = nlp.add_pipe("np_chunker", config={"model": crf})
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    other._take_in(examples)
    other._step()
    state = tmp_path / "state"
    state.write_bytes(other._training.trainer.to_bytes())
    iterations = []
    chunker.fit(examples, on_iteration=lambda i, _: iterations.append(i), checkpoint=state)
    assert iterations[0] == 1


def test_bytes_are_deterministic(make_chunker):
    first, second = (make_chunker().get_pipe("np_chunker").to_bytes() for _ in range(2))
    assert first == second


# --- storage of the predictions -------------------------------------------------------------------
def annotation(doc, start=0, end=None):
    return [
        (s.label_, s.start - start, s.end - start)
        for s in doc._.np_chunks
        if s.start >= start and (end is None or s.end <= end)
    ]


def test_store_bytes_and_docbin(nlp):
    doc = nlp(TEXT)
    for again in (
        Doc(nlp.vocab).from_bytes(doc.to_bytes()),
        _through_docbin(doc, nlp.vocab),
        doc.copy(),
        pickle.loads(pickle.dumps(doc)),
    ):
        assert annotation(again) == annotation(doc)
        probs = [chunk._.np_chunk_prob for chunk in again._.np_chunks]
        assert probs == [chunk._.np_chunk_prob for chunk in doc._.np_chunks]


def _through_docbin(doc, vocab):
    data = DocBin(docs=[doc]).to_bytes()
    return next(DocBin().from_bytes(data).get_docs(vocab))


def test_store_from_docs(nlp):
    docs = [nlp(TEXT), nlp("Nobody saw the thief at the station."), nlp("Run!")]
    joined = Doc.from_docs(docs)
    expected = [text for doc in docs for text in texts(doc)]
    assert texts(joined) == expected
    # The scores do not survive the joining; a getter says None rather than another span's score.
    assert {chunk._.np_chunk_prob for chunk in joined._.np_chunks} == {None}
    assert [t._.np_iob for t in joined] == [t._.np_iob for doc in docs for t in doc]


def test_store_as_doc(nlp):
    doc = nlp(TEXT)
    second = list(doc.sents)[1].as_doc()
    assert texts(second) in ([], CHUNKS[2:])
    assert second[0]._.np_iob in ("", "B")


def test_store_n_process_under_spawn(nlp, tmp_path):
    # A fresh interpreter whose start method is spawn, as on macOS and Windows.
    import subprocess
    import sys

    nlp.to_disk(tmp_path / "model")
    script = tmp_path / "run.py"
    script.write_text(
        "import multiprocessing, sys, spacy\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_start_method('spawn')\n"
        "    nlp = spacy.load(sys.argv[1])\n"
        "    docs = list(nlp.pipe([sys.argv[2]] * 6, n_process=2, batch_size=2))\n"
        "    for doc in docs:\n"
        "        print([(c.text, round(c._.np_chunk_prob, 6)) for c in doc._.np_chunks])\n",
        encoding="utf8",
    )
    run = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "model"), TEXT],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    expected = str([(c.text, round(c._.np_chunk_prob, 6)) for c in nlp(TEXT)._.np_chunks])
    assert run.stdout.splitlines() == [expected] * 6


def test_getters_do_not_scan(nlp):
    """A look-up in a document twenty times as long costs about as many group accesses."""

    class Counting:
        def __init__(self, group):
            self.group, self.count = group, 0

        def __len__(self):
            return len(self.group)

        def __getitem__(self, index):
            self.count += 1
            return self.group[index]

    from spacy_structlearn.pipeline.extensions import _last_starting_by

    counts = []
    for copies in (10, 200):
        doc = Doc.from_docs([nlp(TEXT)] * copies)
        group = Counting(doc.spans["np_chunks"])
        for token in doc:
            _last_starting_by(group, token.i)
        counts.append(group.count / len(doc))
    assert counts[1] < 2 * counts[0]


def test_features_of_single_symbols_get_names(make_chunker, make_examples):
    nlp = make_chunker()
    chunker = nlp.get_pipe("np_chunker")
    assert chunker.parameters.strongest(5, named=True) == []
    chunker.name_features([example.predicted for example in make_examples(nlp)])
    named = chunker.parameters.strongest(10_000, named=True)
    assert "TAG[0]=DT" in {name for name, _, _, _ in named}
    assert not any("|" in name for name, _, _, _ in named)
    assert all(nlp.vocab.strings[name.split("=", 1)[1]] for name, _, _, _ in named)
