"""The attachment of prepositional phrases as spaCy sees it: training, prediction, storage, odd
input.
"""

import pickle

import numpy as np
import pytest
import spacy
from pipeline import parsed
from spacy.strings import hash_string
from spacy.tokens import Doc
from spacy.training import Example

from spacy_structlearn.attachment.sites import Site, sites
from spacy_structlearn.classification.features import symbol
from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.pipeline.extensions import set_spans, site_spans
from spacy_structlearn.pipeline.pp_attacher import variables
from spacy_structlearn.pipeline.readers import to_example
from spacy_structlearn.pipeline.storage.alternatives import set_alternatives
from spacy_structlearn.words.classes import WordClasses
from training.pipeline.associations import associated

# Objects with their prepositional phrases; the word after the phrase tells what it belongs to.
PHRASES = {
    "V": ["pizza with forks", "soup with spoons", "fish at noon", "bread in silence"],
    "N": ["pizza with olives", "soup with noodles", "pieces of bread", "bowls of soup"],
}


def verb_phrase(object_, preposition, noun, label, verb="ate"):
    """A sentence in brackets, with the phrase where `label` wants it."""
    head = f"(NP (NNS {object_}))"
    phrase = f"(PP (IN {preposition}) (NP (NNS {noun})))"
    behind = f"{head} {phrase}" if label == "V" else f"(NP {head} {phrase})"
    return f"(S (NP (PRP I)) (VP (VBD {verb}) {behind}) (. .))"


SENTENCES = [verb_phrase(*p.split(), label) for label, ps in PHRASES.items() for p in ps]


def parsed_doc(vocab, *sentences, gold=False, space=()):
    """A Doc with the trees of some sentences as constituents, and (`gold`) the attachments."""
    doc = parsed.parsed_doc(vocab, *sentences, space=space)
    if gold:
        places, found = [token.i for token in doc if not token.is_space], []
        for tree in doc._.trees:
            at, places = places[: len(tree.words())], places[len(tree.words()) :]
            for site in sites(tree):
                heads = (at[i] for i in site[:4])
                found.append(Site(*heads, at[site.start], at[site.end - 1] + 1, site.label))
        set_spans(doc, "pp_attachments", site_spans(found))
    return doc


def training_examples(nlp):
    docs = [parsed_doc(nlp.vocab, sentence, gold=True) for sentence in SENTENCES * 3]
    return [to_example(doc, spans=["constituents"]) for doc in docs]


def trained(**config):
    return parsed.fitted("pp_attacher", training_examples, config)


@pytest.fixture(scope="module")
def nlp():
    """An attacher alone; Docs with constituents come from `parsed_doc`."""
    return trained()


@pytest.fixture
def attacher(nlp):
    return nlp.get_pipe("pp_attacher")


def test_a_treebank_without_the_labels_of_the_rules():
    nlp = spacy.blank("de")
    attacher = nlp.add_pipe("pp_attacher")
    doc = parsed_doc(nlp.vocab, "(S (NP (PPER Er)) (VVFIN isst) (PP (APPR mit)))", gold=True)
    with pytest.raises(StructlearnError, match=r"SL005.* VP, NP, PP, .*VBD.* verbs, .*IN, TO"):
        attacher.initialize(lambda: [to_example(doc)])


def readable(doc):
    return [(a.pp.text, a.head.text, round(a.prob, 6)) for a in doc._.pp_attachments]


# --- prediction -----------------------------------------------------------------------------------
def test_the_group_of_a_doc(attacher, nlp):
    doc = attacher(parsed_doc(nlp.vocab, SENTENCES[0], SENTENCES[6]))
    found = [f"{span.label_} {span.text}" for span in doc.spans["pp_attachments"]]
    assert found[:5] == ["V with forks", "verb ate", "noun pizza", "prep with", "object forks"]
    assert found[5:] == ["N of bread", "verb ate", "noun pieces", "prep of", "object bread"]
    probabilities = [attachment.prob for attachment in doc._.pp_attachments]
    assert all(0.5 < probability <= 1 for probability in probabilities)
    scores = doc.spans["pp_attachments"].attrs["scores"]
    assert scores.dtype == np.float32
    assert scores.tolist() == np.repeat(probabilities, 5).tolist()


# --- where sites come from ------------------------------------------------------------------------
def chunked_doc(vocab, space=()):
    doc = parsed_doc(vocab, SENTENCES[0], SENTENCES[6], space=space)
    chunks = [(s.label_, s.start, s.end) for s in doc.spans["constituents"] if s.label_ == "NP"]
    # The innermost are the chunks.
    chunks = [c for c in chunks if not any(c[1] <= d[1] < d[2] <= c[2] for d in chunks if d != c)]
    set_spans(doc, "np_chunks", chunks)
    return doc


@pytest.mark.parametrize("space", [(), (0, 1, 3, 4, 7, 8)])
def test_chunks_and_tags(attacher, nlp, space):
    expected = readable(attacher(parsed_doc(nlp.vocab, SENTENCES[0], SENTENCES[6])))
    doc = chunked_doc(nlp.vocab, space)
    del doc.spans["constituents"]
    found = [("".join(pp.split("\n")), head, prob) for pp, head, prob in readable(attacher(doc))]
    assert [f[1:] for f in found] == [f[1:] for f in expected]
    assert [f[0].split() for f in found] == [f[0].split() for f in expected]


def test_chunks_across_sentences_and_of_white_space_are_passed_over(attacher, nlp):
    doc = chunked_doc(nlp.vocab, (6,))
    del doc.spans["constituents"]
    chunks = [("NP", s.start, s.end) for s in doc.spans["np_chunks"]]
    assert len(list(doc.sents)) == 2
    set_spans(doc, "np_chunks", [*chunks[:3], ("NP", 5, 8), ("NP", 7, 8), *chunks[3:]])
    assert [a.prep.text for a in attacher(doc)._.pp_attachments] == ["with", "of"]


def test_constituents_go_before_chunks(nlp, attacher):
    doc = chunked_doc(nlp.vocab)
    set_spans(doc, "np_chunks", [])
    assert len(attacher(doc)._.pp_attachments) == 2
    set_spans(doc, "constituents", [])
    assert len(attacher(doc)._.pp_attachments) == 0


@pytest.mark.parametrize(
    ("groups", "tags", "named"),
    [
        ((), True, ["constituents", "np_chunks", "tag_"]),
        (("np_chunks",), False, ["tag_"]),
        (("constituents",), False, ["tag_", "constituents"]),
    ],
)
def test_what_is_missing_is_named(nlp, attacher, groups, tags, named):
    whole = chunked_doc(nlp.vocab)
    words, labels = ([t.text for t in whole], [t.tag_ for t in whole])
    doc = Doc(nlp.vocab, words=words, tags=labels if tags else None)
    for key in groups:
        doc.spans[key] = whole.spans[key].copy(doc=doc)
    with pytest.raises(StructlearnError, match="SL026") as error:
        attacher(doc)
    for name in named:
        assert name in str(error.value)
    assert "I ate pizza" in str(error.value)
    assert "\n" not in str(error.value)


# --- settings -------------------------------------------------------------------------------------
def test_attachments_below_the_confidence_are_not_reported(attacher, nlp):
    docs = [parsed_doc(nlp.vocab, s) for s in (*SENTENCES, verb_phrase("a", "b", "c", "V"))]
    probabilities = [attacher(doc)._.pp_attachments[0].prob for doc in docs]
    limit = (min(probabilities) + max(probabilities)) / 2
    assert probabilities[-1] < limit < probabilities[0]
    try:
        attacher.min_confidence = limit
        found = [len(attacher(doc)._.pp_attachments) for doc in docs]
    finally:
        attacher.min_confidence = 0.0
    assert found == [int(probability >= limit) for probability in probabilities]


def test_classes_are_variables_of_their_own():
    classes = WordClasses(
        words=np.array(sorted(map(hash_string, ("Forks", "xxxx"))), dtype=np.uint64),
        classes=np.array([0, 1], dtype=np.uint16),
        paths=np.array([0b10, 0b11], dtype=np.uint64),
    )
    path = dict(zip(classes.words.tolist(), (0b10, 0b11), strict=True))
    table = variables(
        [("Took", "ham", "with", "Forks"), ("eaten", "it", "by", "her")], None, classes
    )
    expected = "v n1 p n2 v_class n1_class n2_class v_class7 n1_class7 n2_class7"
    assert " ".join(table.variables) == expected
    shape = path[hash_string("xxxx")]  # "eaten" has no class, and neither have most shapes
    assert table.symbols[:, 4:7].tolist() == [[0, 0, path[hash_string("Forks")]], [shape, 0, 0]]
    assert variables([], None, classes).symbols.shape == (0, 10)
    assert variables([], None, WordClasses.empty()).variables == ("v", "n1", "p", "n2")


def test_variables():
    quadruples = [("Ate", "1994", "With", "Forks"), ("saw", "3.5", "of", "them")]
    for lemmatize in (None, lambda word, tag: f"{tag[0]}:{word[:2]}"):
        table = variables(quadruples, lemmatize)
        names = [[table.names[symbol] for symbol in row] for row in table.symbols.tolist()]
        assert table.variables[:4] == ("v", "n1", "p", "n2")
        assert names[0][:4] == ["ate", "YEAR", "with", "forks"]
        assert names[1][:4] == ["saw", "NUM", "of", "them"]
    assert table.variables[4:] == ("v_lemma", "n1_lemma", "n2_lemma")
    assert [name.lower() for name in names[1][4:]] == ["v:sa", "num", "n:th"]
    assert len(variables([])) == 0


def test_a_lemmatizer_from_the_registry():
    lemmatizer = {"@misc": "spacy_structlearn.english_lemmas.v1"}
    model = {
        "@architectures": "spacy_structlearn.BayesNet.v1",
        "structure": {"p": [], "v_lemma": ["p"], "n1_lemma": ["p"], "n2_lemma": ["p"]},
    }
    nlp = trained(lemmatizer=lemmatizer, model=model)
    attacher = nlp.get_pipe("pp_attacher")
    assert attacher.lemmatizer is not None
    by_lemma, again = (
        attacher(parsed_doc(nlp.vocab, verb_phrase("pizza", "with", "forks", "N", verb=verb)))
        for verb in ("ate", "eats")
    )
    # Of forms that were not seen nothing but the base form is known, and that was.
    assert [a.prob for a in by_lemma._.pp_attachments] == [a.prob for a in again._.pp_attachments]
    other = pickle.loads(pickle.dumps(nlp)).get_pipe("pp_attacher")
    assert other.lemmatizer("ate", "VB") == attacher.lemmatizer("ate", "VB") == "eat"


def test_what_was_trained_with_a_lemmatizer_says_that_it_is_missing():
    model = {
        "@architectures": "spacy_structlearn.BayesNet.v1",
        "structure": {"p": [], "v_lemma": ["p"]},
    }
    nlp = trained(lemmatizer={"@misc": "spacy_structlearn.english_lemmas.v1"}, model=model)
    attacher = nlp.get_pipe("pp_attacher")
    attacher.lemmatizer = None
    with pytest.raises(StructlearnError, match=r"SL030.*'v_lemma'.*lemmatizer"):
        attacher(parsed_doc(nlp.vocab, SENTENCES[0]))


# --- further variables and further phrases --------------------------------------------------------
def with_associations(path, **settings):
    counts = {("N", symbol("pizza"), symbol("with"), symbol("olives")): 9}
    path.write_bytes(associated(counts).to_bytes())
    templates = [["p"], ["n1_p"], ["p_n2"], ["v_p"]]
    return trained(
        lemmatizer={"@misc": "spacy_structlearn.english_lemmas.v1"},
        associations=str(path),
        model={"@architectures": "spacy_structlearn.LogLinear.v1", "templates": templates},
        **settings,
    )


def test_associations_are_stored(tmp_path, nlp):
    ours = with_associations(tmp_path / "associations.bin")
    attacher = ours.get_pipe("pp_attacher")
    docs = [parsed_doc(nlp.vocab, sentence) for sentence in SENTENCES]
    expected = [readable(attacher(doc.copy())) for doc in docs]
    assert len({p for ((_, _, p),) in expected}) > 2
    ours.to_disk(tmp_path / "pipeline")
    (tmp_path / "associations.bin").unlink()
    without_file = {"components.pp_attacher.associations": None}
    again = spacy.load(tmp_path / "pipeline", config=without_file).get_pipe("pp_attacher")
    assert again.model.attrs["associations"] == attacher.model.attrs["associations"]
    assert [readable(again(doc.copy())) for doc in docs] == expected
    again.from_bytes(attacher.to_bytes())
    assert [readable(again(doc.copy())) for doc in docs] == expected


CHAIN = """(S (NP (PRP I)) (VP (VBD ate) (NP (NP (NNS bowls)) (PP (IN of) (NP (NP (NN soup))
    (PP (IN with) (NP (NNS noodles)))))) (PP (IN in) (NP (NN silence)))) (. .))"""


def test_all_phrases_of_a_chain(attacher, nlp):
    doc = attacher(parsed_doc(nlp.vocab, CHAIN, space=(3,)))
    assert [(a.prep.text, a.head.text) for a in doc._.pp_attachments] == [
        ("of", "bowls"),
        ("with", "soup"),
        ("in", "ate"),
    ]
    assert all(0 < a.prob <= 1 for a in doc._.pp_attachments)
    assert [token._.pp_head.text for token in doc if token._.pp_head] == ["bowls", "soup", "ate"]
    for words in ([], ["\n"]):
        doc = Doc(nlp.vocab, words=words)
        set_spans(doc, "constituents", [])
        assert attacher(doc)._.pp_attachments == ()


@pytest.mark.parametrize("space", [(), (0, 3, 7)])
@pytest.mark.parametrize("move_confidence", [0.0, 1.0, None])
def test_trees_follow(attacher, nlp, monkeypatch, space, move_confidence):
    monkeypatch.setattr(attacher, "move_confidence", move_confidence)
    right, wrong = SENTENCES[6], verb_phrase("pieces", "of", "bread", "V")
    doc = parsed_doc(nlp.vocab, wrong, SENTENCES[0], space=space)
    before = list(doc._.trees)
    assert [a.label for a in attacher(doc)._.pp_attachments] == ["N", "V"]
    assert list(doc._.trees) == before  # without probabilities, they are gold
    doc.spans["constituents"].attrs |= {"scores": [0.9] * len(doc.spans["constituents"]), "n": 1}
    set_alternatives(doc, {0: [], doc[-1].sent.start: []})
    (own, prob), _ = ((a.label, a.prob) for a in attacher(doc)._.pp_attachments)
    if move_confidence != 0.0:
        assert list(doc._.trees) == before
        assert own == ("N" if move_confidence is None else "V")
        assert (prob > 0.5) == (own == "N")
        return
    assert (own, str(doc._.trees[0])) == ("N", str(parsed_doc(nlp.vocab, right)._.trees[0]))
    assert doc._.trees[1] == before[1]
    probs = {b._.constituent_prob for b in doc.spans["constituents"]}
    assert probs == {np.float32(0.9), np.float32(prob)}
    assert doc.spans["constituents"].attrs["n"] == 1


@pytest.mark.parametrize("of", ["constraints", "certain brackets"])
def test_what_is_given_is_not_moved(attacher, nlp, of):
    doc = parsed_doc(nlp.vocab, verb_phrase("pizza", "with", "forks", "N"))
    before, group = list(doc._.trees), doc.spans["constituents"]
    group.attrs["scores"] = [1.0 if of == "certain brackets" else 0.5] * len(group)
    if of == "constraints":
        set_spans(doc, "constituent_constraints", [("!VP", 0, 2)])
    (found,) = attacher(doc)._.pp_attachments
    assert (list(doc._.trees), found.label) == (before, "N")
    assert found.prob < 0.5


# --- training -------------------------------------------------------------------------------------
def test_gold_data_are_the_words_of_the_reference(nlp):
    attacher = nlp.get_pipe("pp_attacher")
    reference = parsed_doc(nlp.vocab, *SENTENCES[3:5], gold=True)
    del reference.spans["constituents"]
    words = "".join(token.text for token in reference)
    data = attacher.gold_data(Example(Doc(nlp.vocab, words=[words]), reference))
    assert data.labels == ("V", "N")
    expected = variables([("ate", "bread", "in", "silence"), ("ate", "pizza", "with", "olives")])
    np.testing.assert_array_equal(data.table.symbols, expected.symbols)


def test_gold_with_a_label_that_is_not_known_is_left_out(attacher, nlp):
    doc = parsed_doc(nlp.vocab, *SENTENCES[3:5], gold=True)
    spans = [(s.label_, s.start, s.end) for s in doc.spans["pp_attachments"]]
    set_spans(doc, "pp_attachments", [("X", *spans[0][1:]), *spans[1:]])
    assert attacher.gold_data(to_example(doc)).labels == ("N",)
