"""What the component contracts are about: each component with each learner, listed once.

They learn the sample treebank with little effort. A component with a learner of its own is listed
here, and what holds for all is tested.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import spacy
from encoder.tiny import tiny
from isbn.networks import initialized, sample, symbols_of
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import registry

from spacy_structlearn.classification.features import Table
from spacy_structlearn.learning import settings
from spacy_structlearn.learning.settings import Settings
from spacy_structlearn.learning.stored import Stored
from spacy_structlearn.learning.training import Trainer
from spacy_structlearn.pipeline.architectures import architecture
from spacy_structlearn.pipeline.readers import read_treebank, to_example
from spacy_structlearn.trees.heads import COLLINS
from spacy_structlearn.trees.tree import Tree
from spacy_structlearn.words.lemmas import lemma

# In which processes find this module.
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
ANALYSES = {
    "NN": ("NOUN", "Number=Sing"),
    "NNS": ("NOUN", "Number=Plur"),
    "NNP": ("PROPN", "Number=Sing"),
    "VBD": ("VERB", "Mood=Ind|Tense=Past|VerbForm=Fin"),
    "VB": ("VERB", "VerbForm=Inf"),
    "DT": ("DET", ""),
    "IN": ("ADP", ""),
    "PRP": ("PRON", "PronType=Prs"),
    ".": ("PUNCT", ""),
    ",": ("PUNCT", ""),
}
SAMPLE = Path(__file__).resolve().parents[2] / "corpora" / "sample"
FILES = {"spaces": SAMPLE / "sample.spaces", "props": SAMPLE / "sample.props"}
TEXT = "The old man took a key from his pocket. He opened the door with the key."
OTHER = "She read the report. It was long."
# What each component reads in a Doc, by its factory: lists of what is said of which words, and the
# probabilities.
Answer = tuple[list[Any], list[float | None]]


@dataclass(frozen=True, eq=False)
class Component:
    """A component with a learner.

    factory: of spaCy. model: its block in a config. config: the rest. before: components in front,
    as names of listed ones or factories. floor: of the first of its scores on its training data.
    any_order: whether the order of the examples makes no difference. layout: whether it reads white
    space. needs_scipy: whether it needs SciPy once it is learned. With the setting `encoder` in its
    config, a small random encoder is in front; with `rerank`, it has a random network.
    """

    factory: str
    model: dict[str, Any]
    config: dict[str, Any] = field(default_factory=dict)
    before: tuple[str, ...] = ("sentencizer",)
    floor: float = 0.8
    any_order: bool = False
    layout: bool = False
    needs_scipy: bool = False

    @property
    def name(self) -> str:
        learner = self.model["@architectures"].split(".")[1]
        further = "".join(f" {name}" for name in ("encoder", "rerank") if self.config.get(name))
        return f"{self.factory} {learner}{further}"

    @property
    def reads_vectors(self) -> bool:
        return self.config.get("encoder", False)

    @property
    def key(self) -> str | None:
        """The span group that it writes; None if it writes attributes of tokens."""
        return KEYS.get(self.factory)

    @property
    def score(self) -> str:
        return next(iter(Language.get_factory_meta(self.factory).default_score_weights))

    def answer(self, doc: Doc) -> Answer:
        said, scores = [], []
        for what, score in ANSWERS[self.factory](doc):
            said.append(what)
            scores += score if isinstance(score, list) else [score]
        return said, scores


# --- what they say --------------------------------------------------------------------------------
def words(span: Any) -> list[str]:
    return [token.text for token in span if not token.is_space]


def chunks(doc: Doc) -> Iterator[tuple]:
    for chunk in doc._.np_chunks:
        yield (chunk.label_, words(chunk)), chunk._.np_chunk_prob
    for token in doc:
        if token._.np_iob and not token.is_space:
            yield token._.np_iob, []


def tags(doc: Doc) -> Iterator[tuple]:
    for token in doc:
        if not token.is_space:
            yield token.tag_, list((token._.tag_probs or {token.tag_: None}).values())


def starts(doc: Doc) -> Iterator[tuple]:
    for token in doc:
        yield token.is_sent_start, token._.sent_start_prob


def trees(doc: Doc) -> Iterator[tuple]:
    for tree in doc._.trees if "constituents" in doc.spans else ():
        yield str(tree), []
    for failure in doc._.parse_failures:
        yield (failure.label_, words(failure)), []
    for span in doc.spans.get("constituents", ()):
        yield span._.labels, span._.constituent_prob


def attachments(doc: Doc) -> Iterator[tuple]:
    for site in doc._.pp_attachments:
        heads = site.verb, site.noun, site.prep, site.object, site.head, site.prep._.pp_head
        yield (site.label, words(site.pp), *map(str, heads)), site.prob


def frames(doc: Doc) -> Iterator[tuple]:
    for frame in doc._.frames:
        assert frame.predicate[0]._.srl == frame
        yield (frame.predicate.text, frame.roleset), frame.prob
        for argument in frame.arguments:
            yield (argument.label, words(argument.span)), argument.prob


def analyses(doc: Doc) -> Iterator[tuple]:
    for token in doc:
        if token.pos and not token.is_space:
            yield (token.pos_, str(token.morph), token.lemma_), []


def dependencies(doc: Doc) -> Iterator[tuple]:
    for token in doc:
        if token.dep and not token.is_space:
            yield (token.text, token.dep_, token.head.text), token._.dep_prob


ANSWERS = {
    "np_chunker": chunks,
    "chain_tagger": tags,
    "sentence_splitter": starts,
    "constituency_parser": trees,
    "pp_attacher": attachments,
    "srl_labeler": frames,
    "tree_morphologizer": analyses,
    "tree_dependencies": dependencies,
}
KEYS = {
    "np_chunker": "np_chunks",
    "chain_tagger": "tag_candidates",
    "sentence_splitter": "sentence_starts",
    "constituency_parser": "constituents",
    "pp_attacher": "pp_attachments",
    "srl_labeler": "srl",
    "tree_dependencies": "dependencies",
}


# --- a learner of somebody else -------------------------------------------------------------------
class Majority(Stored):
    """Gives the labels as often as they were seen, whatever it is asked about."""

    kind = "toy_majority"

    def __init__(self, labels: tuple[str, ...] = (), counts: tuple[int, ...] = ()):
        self.labels, self.counts = tuple(labels), tuple(counts)

    @property
    def is_empty(self) -> bool:
        return not self.labels

    def predict_proba(self, table: Table) -> np.ndarray:
        return np.tile(np.array(self.counts) / sum(self.counts), (len(table), 1))


@dataclass(frozen=True, kw_only=True)
class MajoritySettings(Settings):
    """The most frequent label."""

    max_iterations: int = settings.max_iterations(1)


class MajorityTrainer(Trainer[MajoritySettings]):
    saved = ("counts",)

    def __init__(self, settings, parameters, data):
        super().__init__(settings)
        self.labels, self.seen, self.counts = parameters.labels, [], [1] * len(parameters.labels)
        self.add(data)

    def _add(self, data):
        self.seen += [label for part in data for label in part.labels]

    def iterate(self):
        self.counts = [self.seen.count(label) for label in self.labels]
        self.value = float(len(self.seen) - max(self.counts))
        self.n_iterations += 1
        return False

    def parameters(self):
        return Majority(self.labels, self.counts)

    def data_digest(self):
        return "".join(self.seen).encode()


def initialize(settings, data, labels, previous=None) -> Majority:
    return Majority(labels, [1] * len(labels))


def trainer(settings, parameters, data) -> MajorityTrainer:
    return MajorityTrainer(settings, parameters, data)


registry.architectures.register(
    "contracts.Majority.v1",
    func=architecture(
        MajoritySettings, lambda settings: Majority(), "components", package="contracts"
    ),
)

# --- the list -------------------------------------------------------------------------------------
GRAMMAR = {
    "@architectures": "spacy_structlearn.LatentGrammar.v1",
    "rounds": 1,
    "split_iterations": 3,
    "merge_iterations": 2,
    "smooth_iterations": 1,
}
ANCHORED = {"grammar": GRAMMAR, "folds": 2, "max_iterations": 3, "batch_size": 16}
PARSERS = {
    "LatentGrammar": {name: value for name, value in GRAMMAR.items() if name[0] != "@"},
    "ConditionalGrammar": {
        "rounds": 1,
        "split_iterations": 6,
        "merge_iterations": 3,
        "smooth_iterations": 2,
        "conditional_iterations": 8,
        "l1": 0.1,
    },
    "SpanGrammar": ANCHORED | {"buckets": 2**16},
    "ISBN": {
        "state_size": 24,
        "min_word_count": 1,
        "min_unknown": 1,
        "min_chain_count": 20,
        "max_iterations": 20,
        "batch_size": 4,
        "optimizer": "adam",
        "learn_rate": 0.01,
    },
    "MEstimatedGrammar": {},
}
WORDS = ["ORTH[0]", "LOWER[0]", "LOWER[-1]", "LOWER[1]", "SUFFIX[0]", "bias"]
GAPS = ["bias", "GAP[0]", "KIND[-1]|GAP[0]|KIND[0]", "BREAK[0]|KIND[0]", "LOWER[0]|KIND[-1]"]
CLASSES = [["path"], ["phrase"], ["path", "voice"], ["path", "lemma"], ["head"]]
STAGES = {
    "predicates": [["lemma"], ["predicate_tag"], ["next_tag"]],
    "senses": [["lemma"], ["lemma", "after_phrase"]],
    "identification": CLASSES,
    "roles": CLASSES,
}
ARCS = {
    "heads": [["q"], ["q", "prev", "next"], ["q", "place"]],
    "sisters": [["r"], ["q", "d"], ["r", "t"]],
    "labels": [["l"], ["q"], ["t", "t2"]],
}
PARSED = ("sentencizer", "constituency_parser LatentGrammar")


def block(name: str, **values: Any) -> dict[str, Any]:
    owner = "contracts" if name == "Majority" else "spacy_structlearn"
    registered = f"{owner}.{name}.v1"
    return {"@architectures": registered, **values}


def chunker(name: str, floor: float = 0.8, needs_scipy: bool = False, **values: Any) -> Component:
    if name != "HMM":
        values["templates"] = WORDS
    return Component("np_chunker", block(name, **values), floor=floor, needs_scipy=needs_scipy)


def parser(name: str, **settings: Any) -> Component:
    return Component(
        "constituency_parser",
        block(name, **PARSERS[name], **settings),
        {"decoder": "labelled_recall", "thresholds": [0.01]} if name == "MEstimatedGrammar" else {},
        floor=0.75,
        any_order=True,
        needs_scipy=name == "MEstimatedGrammar",
    )


def stages(templates: dict[str, list[list[str]]] = STAGES) -> dict[str, Any]:
    learners = {
        stage: block("LogLinear", l2=0.1, templates=own, max_iterations=30)
        for stage, own in templates.items()
    }
    return block("Stages", order=list(templates), stages=learners)


def read_vectors() -> Iterator[Component]:
    """Those that read vectors, with little else."""
    tags = ["ORTH[0]", "bias"]
    kinds = {
        "chain_tagger": block("StochasticCRF", encoding="none", templates=tags, max_iterations=5),
        "np_chunker": block("CRF", templates=WORDS, max_iterations=20),
        "constituency_parser": block("LatentGrammar", **PARSERS["LatentGrammar"]),
        "pp_attacher": block("BayesNet", structure="naive"),
        "srl_labeler": stages(),
        "tree_dependencies": stages(ARCS),
    }
    for factory, model in kinds.items():
        reads_trees = factory in ("pp_attacher", "srl_labeler", "tree_dependencies")
        before = PARSED if reads_trees else ("sentencizer",)
        floor = 0.3 if factory == "srl_labeler" else 0.55  # random vectors do not say much
        yield Component(factory, model, {"encoder": True}, before, floor, any_order=True)


COMPONENTS = {
    component.name: component
    for component in [
        Component(
            "sentence_splitter",
            block("CRF", encoding="none", templates=GAPS, max_iterations=30),
            before=(),
            floor=0.7,
            layout=True,
        ),
        Component(
            "chain_tagger",
            block(
                "StochasticCRF",
                encoding="none",
                templates=["ORTH[0]", "LOWER[-1]", "SUFFIX[0]", "bias"],
                max_iterations=5,
            ),
        ),
        chunker("CRF", max_iterations=20),
        chunker("MEMM", max_iterations=20),
        chunker("PseudoLikelihood", max_iterations=20, needs_scipy=True),
        chunker("StochasticCRF", max_iterations=5),
        chunker("HMM", floor=0.4, word="LOWER", tag="SHAPE"),
        parser("LatentGrammar"),
        parser("ConditionalGrammar"),
        parser("SpanGrammar"),
        parser("ISBN"),
        Component(
            "constituency_parser",
            block("LatentGrammar", **PARSERS["LatentGrammar"]),
            {"rerank": 5},
            floor=0.75,
            any_order=True,
        ),
        Component("pp_attacher", block("BayesNet", structure="naive"), before=PARSED),
        Component(
            "pp_attacher", block("LogLinear", templates=[["p"], ["p", "n2"]], l2=1.0), before=PARSED
        ),
        Component("pp_attacher", block("Majority"), before=PARSED, floor=0.5, any_order=True),
        Component(
            "tree_morphologizer",
            block(
                "StochasticCRF",
                encoding="none",
                templates=["TAG[0]", "LOWER[0]", "TAG[0]|PHRASE[0]", "VERB_BEFORE[0]", "bias"],
            ),
            before=("sentencizer", "chain_tagger StochasticCRF"),
        ),
        Component("srl_labeler", stages(), before=PARSED, floor=0.6, any_order=True),
        Component("tree_dependencies", stages(ARCS), before=PARSED, any_order=True),
        *(read_vectors() if find_spec("onnxruntime") else ()),
        chunker("MEstimation", needs_scipy=True, floor=0.5),
        parser("MEstimatedGrammar"),
    ]
}


# --- pipelines ------------------------------------------------------------------------------------
def blank(component: Component, **settings: Any) -> Language:
    """A pipeline with the component, named after it, that is not trained; what is before it is.

    settings: other ones of its learner.
    """
    nlp = spacy.blank("en")
    for name in component.before:
        listed = COMPONENTS.get(name)
        nlp.add_pipe(name if listed is None else listed.factory, source=listed and shared(listed))
    if component.reads_vectors:
        nlp.add_pipe("token_encoder").parameters = tiny()
    model = {**component.model, **settings}
    nlp.add_pipe(component.factory, config={"model": model, **component.config})
    if component.config.get("rerank"):
        part(component, nlp).reranker = initialized(*symbols_of(sample()), state_size=4)
    return nlp


def part(component: Component, nlp: Language) -> Any:
    return nlp.get_pipe(component.factory)


def with_arcs(doc: Doc) -> Doc:
    """The Doc with the dependencies that follow from its trees by head rules, and their phrases as
    labels."""
    heads, labels = list(range(len(doc))), ["ROOT"] * len(doc)

    def head(node: Tree, words: Iterator[int]) -> int:
        if node.is_leaf:
            return next(words)
        below = [head(child, words) for child in node.children]
        main = below[COLLINS.head_child(node)]
        for word, child in zip(below, node.children, strict=True):
            if word != main:
                heads[word], labels[word] = main, child.label
        return main

    for sentence in doc.sents:
        words = [token.i for token in sentence if not token.is_space]
        head(sentence._.tree, iter(words))
        for token in sentence:
            if token.is_space:
                heads[token.i], labels[token.i] = words[-1], ""
    copy = Doc(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
        tags=[token.tag_ for token in doc],
        heads=heads,
        deps=labels,
    )
    for key, group in doc.spans.items():
        copy.spans[key] = group.copy(doc=copy)
    return copy


def examples(component: Component, nlp: Language, limit: int | None = None) -> list[Example]:
    """The sample, a document each."""
    docs = [doc for _, doc in read_treebank(nlp.vocab, SAMPLE / "sample.trees", **FILES)][:limit]
    if component.factory == "tree_dependencies":
        docs = [with_arcs(doc) for doc in docs]
    reads_tags = component.factory == "tree_morphologizer"
    made = [to_example(analysed(doc), tags=reads_tags) for doc in docs]
    for example in made:
        if component.factory == "sentence_splitter":
            spaces = [bool(token.whitespace_) for token in example.reference]
            example.predicted = Doc(nlp.vocab, words=words(example.reference), spaces=spaces)
        if component.reads_vectors:
            nlp.get_pipe("token_encoder")(example.predicted)
    return made


def analysed(doc: Doc) -> Doc:
    """Annotate a Doc with the analyses of its tags."""
    for token in doc:
        if token.tag_:
            token.pos_, features = ANALYSES.get(token.tag_, ("X", ""))
            token.set_morph(features)
            token.lemma_ = lemma(token.text, token.tag_).lower()
    return doc


def trained(
    component: Component,
    *,
    limit: int | None = None,
    on_iteration: Any = None,
    checkpoint: Path | None = None,
    **settings: Any,
) -> Language:
    """A pipeline whose component has learned so many documents of the sample."""
    nlp = blank(component, **settings)
    found = examples(component, nlp, limit)
    part(component, nlp).initialize(lambda: found)
    part(component, nlp).fit(found, on_iteration=on_iteration, checkpoint=checkpoint)
    return nlp


@cache
def fitted(component: Component) -> tuple[Language, list[tuple[int, float]]]:
    """The trained pipeline, which no test may change, and what was told of its training."""
    calls: list[tuple[int, float]] = []
    return trained(component, on_iteration=lambda *call: calls.append(call)), calls


def shared(component: Component) -> Language:
    return fitted(component)[0]


@cache
def pickled(component: Component) -> bytes:
    return pickle.dumps(shared(component))


def own(component: Component) -> Language:
    """The trained pipeline, which a test may change."""
    return pickle.loads(pickled(component))


@cache
def untrained(component: Component) -> Any:
    """The component as its config makes it, which no test may change."""
    return part(component, blank(component))


def stored(component: Component, nlp: Language) -> bytes:
    """All that is learned."""
    return part(component, nlp).model.to_bytes()
