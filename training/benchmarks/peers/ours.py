"""The systems of this package that benchmarks/peers compares with others; see worker.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
Data = dict[str, list]


# --- NP chunks ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Chunker:
    """A pipeline with only the component. Inputs are (word, tag), outputs IOB labels.

    model: settings of the model, which override those of `config`, a file of training/configs.
    n_classes: number of word classes, learned from the words of the same sentences.
    """

    model: dict[str, Any]
    config: str = ""
    n_classes: int = 0

    def setup(self) -> None:
        import spacy

        spacy.blank("en").add_pipe("np_chunker")

    def train(self, train: Data, dev: Data, folder: Path, options: dict[str, Any]) -> None:
        import spacy
        from spacy.util import load_config

        from spacy_structlearn.evaluation.conlleval import chunks
        from spacy_structlearn.groups import NP_CHUNKS
        from spacy_structlearn.pipeline.extensions import set_spans
        from spacy_structlearn.pipeline.readers import to_example
        from training.pipeline.classes import train_classes

        model = dict(self.model)
        if self.config:
            config = load_config(CONFIGS / self.config, interpolate=True)
            model = {**config["components"]["np_chunker"]["model"], **model}
        if self.n_classes:
            texts = ([word for word, _ in tokens] for tokens in train["inputs"])
            classes = folder.parent / "classes.bin"
            classes.write_bytes(train_classes(texts, self.n_classes, 2).to_bytes())
            model["classes"] = str(classes)
        nlp = spacy.blank("en")
        chunker = nlp.add_pipe("np_chunker", config={"model": model})
        examples = []
        for tokens, labels in zip(train["inputs"], train["outputs"], strict=True):
            doc = _doc(nlp.vocab, tokens)
            set_spans(doc, NP_CHUNKS, chunks(labels))
            examples.append(to_example(doc))
        chunker.initialize(lambda: examples)
        chunker.fit(examples)
        nlp.to_disk(folder)

    def load(self, folder: Path) -> Any:
        import spacy

        from spacy_structlearn.groups import NP_CHUNKS

        nlp = spacy.load(folder)

        def labels(doc: Any) -> list[str]:
            found = ["O"] * len(doc)
            for chunk in doc.spans[NP_CHUNKS]:
                found[chunk.start : chunk.end] = ["B-NP", *["I-NP"] * (len(chunk) - 1)]
            return found

        def predict(sentences: Sequence[Any]) -> list[list[str]]:
            return [labels(doc) for doc in nlp.pipe(_doc(nlp.vocab, s) for s in sentences)]

        return predict


def _doc(vocab: Any, tokens: Sequence[tuple[str, str]]) -> Any:
    from spacy.tokens import Doc

    words, tags = zip(*tokens, strict=True)
    starts = [True, *[False] * (len(words) - 1)]
    return Doc(vocab, words=words, tags=tags, sent_starts=starts)


# --- PP attachment --------------------------------------------------------------------------------
VARIABLES = ("v", "n1", "p", "n2")
CONJUNCTIONS = [t for n in (1, 2, 3) for t in combinations(VARIABLES, n)]


@dataclass(frozen=True)
class Classifier:
    """A BayesNet or a LogLinear, with selection on dev."""

    kind: str
    settings: dict[str, Any]

    def setup(self) -> None:
        from spacy_structlearn import classification

        getattr(classification, self.kind)

    def train(self, train: Data, dev: Data, folder: Path, options: dict[str, Any]) -> None:
        from spacy_structlearn import classification
        from spacy_structlearn.classification.trainers import fit

        settings = getattr(classification, f"{self.kind}Settings")(**self.settings)
        rows, labels = _tuples(train["inputs"]), train["outputs"]
        on_dev = (_tuples(dev["inputs"]), dev["outputs"])
        model = fit(settings, rows, labels, dev=on_dev, variables=VARIABLES)
        (folder / "model").write_bytes(model.to_bytes())

    def load(self, folder: Path) -> Any:
        from spacy_structlearn import classification

        data = (folder / "model").read_bytes()
        model = getattr(classification, self.kind).from_bytes(data)
        return lambda rows: list(model.predict(_tuples(rows)))


def _tuples(rows: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    return [tuple(row) for row in rows]


# --- constituency parsing -------------------------------------------------------------------------
SMALLEST_PROBABILITY = 1e-6  # as in pipeline/default.py


@dataclass(frozen=True)
class Grammar:
    """Split-merge grammars, with span features as in the default parser.

    folds: for training features; 0: no features.
    """

    grammars: int = 1
    folds: int = 0
    rounds: int = 4
    decoder: str = "max_rule_product"

    def setup(self) -> None:
        pass

    def settings(self) -> Any:
        """Return the settings of the training."""
        from spacy_structlearn.grammar.latent.settings import LatentGrammarSettings
        from spacy_structlearn.grammar.spans.settings import SpanGrammarSettings

        base = LatentGrammarSettings(
            rounds=self.rounds,
            grammars=self.grammars,
            signature="english",
            word_backoff="signature",
        )
        if not self.folds:
            return base
        return SpanGrammarSettings(grammar=base, folds=self.folds)

    def train(self, train: Data, dev: Data, folder: Path, options: dict[str, Any]) -> None:
        from spacy_structlearn.pipeline.architectures import estimator
        from spacy_structlearn.trees.brackets import parse_tree

        trees = list(map(parse_tree, train["outputs"]))
        trainer = estimator(self.settings()).trainer(None, [trees])
        while trainer.step():
            pass
        compact = trainer.parameters().compact(SMALLEST_PROBABILITY, "float16")
        (folder / "model").write_bytes(compact.to_bytes())

    def load(self, folder: Path) -> Any:
        from spacy_structlearn.grammar.chart.decode import ChartParser
        from spacy_structlearn.grammar.latent.model import LatentGrammar
        from spacy_structlearn.grammar.spans.model import SpanGrammar

        kind = SpanGrammar if self.folds else LatentGrammar
        grammar = kind.from_bytes((folder / "model").read_bytes())
        parser = ChartParser(grammar, decoder=self.decoder)

        def predict(sentences: Sequence[Sequence[str]]) -> list[str]:
            parses = parser.parse(sentences)
            return [str(p.tree(words)) for p, words in zip(parses, sentences, strict=True)]

        return predict


# --- all of them ----------------------------------------------------------------------------------
CRF = {"@architectures": "spacy_structlearn.CRF.v1"}
SYSTEMS = {
    "ours_crf": Chunker(CRF),
    "ours_pairs": Chunker({**CRF, "order": 2, "l2": 1.0}),
    "ours_best": Chunker({"l2": 2.0}, config="np_chunker.cfg", n_classes=400),
    "ours_bayes_net": Classifier("BayesNet", {"fit_d": "conditional", "n_d": "many"}),
    "ours_log_linear": Classifier("LogLinear", {"l2": "search"}),
    "ours_conjunctions": Classifier("LogLinear", {"templates": CONJUNCTIONS, "l2": 1.0}),
    "ours_grammar": Grammar(),
    "ours_product": Grammar(grammars=4, folds=10, decoder="labelled_recall"),
}
