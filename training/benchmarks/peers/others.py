"""The peers of benchmarks/peers; see worker.py. Each runs in its own virtual environment without
this package. Settings were fixed in advance; all others are defaults.
"""

from __future__ import annotations

import contextlib
import functools
import pickle
import random
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

Data = dict[str, list]
Token = tuple[str, str]  # word, tag
Row = Sequence[str]  # verb, noun, preposition, noun


def _imported(*modules: str) -> None:
    for name in modules:
        import_module(name)


def _save(folder: Path, model: Any) -> None:
    with open(folder / "model", "wb") as file:
        pickle.dump(model, file)


def _saved(folder: Path) -> Any:
    with open(folder / "model", "rb") as file:
        return pickle.load(file)


# --- NP chunks ------------------------------------------------------------------------------------
START = "-"
# The predicates of Sha & Pereira (2003): words and tags around the token.
TEMPLATES = (
    *([("w", k)] for k in (0, -1, 1, -2, 2)),
    [("w", -1), ("w", 0)],
    [("w", 0), ("w", 1)],
    *([("t", k)] for k in (0, -1, 1, -2, 2)),
    *([("t", k), ("t", k + 1)] for k in (-1, -2, 0, 1)),
    *([("t", k), ("t", k + 1), ("t", k + 2)] for k in (-2, -1, 0)),
)
NAMES = tuple("|".join(f"{c}[{k}]" for c, k in template) for template in TEMPLATES)


def predicates(tokens: Sequence[Token]) -> list[list[str]]:
    """Return the predicates of each token, with padding symbols by distance, and a bias."""
    n = len(tokens)
    columns = {"w": [word for word, _ in tokens], "t": [tag for _, tag in tokens]}

    def at(column: str, i: int) -> str:
        return columns[column][i] if 0 <= i < n else f"<{i if i < 0 else i - n + 1}>"

    return [
        [
            *(
                f"{name}={'|'.join(at(c, i + k) for c, k in template)}"
                for name, template in zip(NAMES, TEMPLATES, strict=True)
            ),
            "bias",
        ]
        for i in range(n)
    ]


@dataclass(frozen=True)
class CRFsuite:
    """python-crfsuite. pairs: use pairs of the previous and the current label as labels."""

    algorithm: str
    parameters: dict[str, Any]
    pairs: bool = False

    def setup(self) -> None:
        _imported("pycrfsuite")

    def train(self, train: Data, dev: Data, folder: Path, options: dict[str, Any]) -> None:
        import pycrfsuite

        trainer = pycrfsuite.Trainer(algorithm=self.algorithm, verbose=False)
        for tokens, labels in zip(train["inputs"], train["outputs"], strict=True):
            before = [START, *labels[:-1]]
            pairs = [f"{a}|{b}" for a, b in zip(before, labels, strict=True)]
            trainer.append(predicates(tokens), pairs if self.pairs else labels)
        trainer.set_params(self.parameters)
        trainer.train(str(folder / "model"))

    def load(self, folder: Path) -> Any:
        import pycrfsuite

        tagger = pycrfsuite.Tagger()
        tagger.open(str(folder / "model"))

        def predict(sentences: Sequence[Sequence[Token]]) -> list[list[str]]:
            found = [tagger.tag(predicates(tokens)) for tokens in sentences]
            return [[label.rpartition("|")[2] for label in labels] for labels in found]

        return predict


@dataclass(frozen=True)
class SpacyNer:
    """spaCy's ner with a small tok2vec, with the CPU defaults of `spacy init config`.

    attributes: embedded by the tok2vec, with the rows of their tables.
    """

    attributes: dict[str, int]
    epochs: int

    def setup(self) -> None:
        import spacy

        spacy.blank("en").add_pipe("ner")

    def train(self, train: Data, dev: Data, folder: Path, options: dict[str, Any]) -> None:
        import spacy
        from spacy.tokens import Doc
        from spacy.training import Example, iob_utils
        from spacy.training.batchers import minibatch_by_words
        from spacy.util import compounding, fix_random_seed

        fix_random_seed(0)
        width = 96
        embed = {
            "@architectures": "spacy.MultiHashEmbed.v2",
            "width": width,
            "attrs": list(self.attributes),
            "rows": list(self.attributes.values()),
            "include_static_vectors": False,
        }
        encode = {
            "@architectures": "spacy.MaxoutWindowEncoder.v2",
            "width": width,
            "depth": 4,
            "window_size": 1,
            "maxout_pieces": 3,
        }
        model = {
            "@architectures": "spacy.TransitionBasedParser.v2",
            "state_type": "ner",
            "extra_state_tokens": False,
            "hidden_width": 64,
            "maxout_pieces": 2,
            "use_upper": True,
            "tok2vec": {"@architectures": "spacy.Tok2Vec.v2", "embed": embed, "encode": encode},
        }
        nlp = spacy.blank("en")
        nlp.add_pipe("ner", config={"model": model})
        examples = []
        for tokens, labels in zip(train["inputs"], train["outputs"], strict=True):
            gold = self._doc(nlp.vocab, tokens, Doc)
            gold.ents = iob_utils.biluo_tags_to_spans(gold, iob_utils.iob_to_biluo(labels))
            examples.append(Example(self._doc(nlp.vocab, tokens, Doc), gold))
        sgd = nlp.initialize(lambda: examples)
        shuffle, sizes = random.Random(0).shuffle, compounding(100, 1000, 1.001)
        for _ in range(self.epochs):
            shuffle(examples)
            for batch in minibatch_by_words(examples, size=sizes):
                nlp.update(batch, sgd=sgd, drop=0.1)
        nlp.to_disk(folder)

    @staticmethod
    def _doc(vocab: Any, tokens: Sequence[Token], kind: Any) -> Any:
        words, tags = zip(*tokens, strict=True)
        return kind(vocab, words=words, tags=tags)

    def load(self, folder: Path) -> Any:
        import spacy
        from spacy.tokens import Doc

        nlp = spacy.load(folder)

        def predict(sentences: Sequence[Sequence[Token]]) -> list[list[str]]:
            docs = nlp.pipe(self._doc(nlp.vocab, tokens, Doc) for tokens in sentences)
            return [
                [t.ent_iob_ if t.ent_iob_ == "O" else f"{t.ent_iob_}-NP" for t in doc]
                for doc in docs
            ]

        return predict


@dataclass(frozen=True)
class SklearnMEMM:
    """LogisticRegression on the predicates of a token and the previous label: the gold label in
    training, the predicted label in prediction. All sentences are predicted in parallel. C is
    1 / (2 c2) of CRFsuite.
    """

    c: float = 0.5

    def setup(self) -> None:
        _imported("sklearn.feature_extraction", "sklearn.linear_model", "sklearn.pipeline")

    @staticmethod
    def _rows(found: Sequence[Sequence[str]], before: Sequence[str]) -> Iterator[dict[str, int]]:
        for own, label in zip(found, before, strict=True):
            yield {**dict.fromkeys(own, 1), f"before={label}": 1}

    def train(self, train: Data, dev: Data, folder: Path, options: dict[str, Any]) -> None:
        from sklearn.feature_extraction import DictVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        rows = [
            row
            for tokens, labels in zip(train["inputs"], train["outputs"], strict=True)
            for row in self._rows(predicates(tokens), [START, *labels[:-1]])
        ]
        labels = [label for own in train["outputs"] for label in own]
        model = make_pipeline(DictVectorizer(), LogisticRegression(C=self.c, max_iter=1000))
        _save(folder, model.fit(rows, labels))

    def load(self, folder: Path) -> Any:
        model = _saved(folder)

        def predict(sentences: Sequence[Sequence[Token]]) -> list[list[str]]:
            found = list(map(predicates, sentences))
            labels: list[list[str]] = [[] for _ in sentences]
            for i in range(max(map(len, sentences), default=0)):
                there = [n for n, own in enumerate(found) if i < len(own)]
                before = [labels[n][-1] if i else START for n in there]
                rows = list(self._rows([found[n][i] for n in there], before))
                for n, label in zip(there, model.predict(rows), strict=True):
                    labels[n].append(str(label))
            return labels

        return predict


# --- PP attachment --------------------------------------------------------------------------------
VARIABLES = ("v", "n1", "p", "n2")
CONJUNCTIONS = [t for n in (1, 2, 3) for t in combinations(range(4), n)]


def single(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return the words by variable."""
    return [dict(zip(VARIABLES, row, strict=True)) for row in rows]


def conjunctions(rows: Sequence[Row]) -> list[dict[str, str]]:
    """Return the words of each variable, pair and triple."""
    names = ["|".join(VARIABLES[i] for i in t) for t in CONJUNCTIONS]
    return [
        {name: "|".join(row[i] for i in t) for name, t in zip(names, CONJUNCTIONS, strict=True)}
        for row in rows
    ]


FEATURES = {"single": single, "conjunctions": conjunctions}


@dataclass(frozen=True)
class Sklearn:
    """A classifier after DictVectorizer.

    kind: module and name of the class. prepare: function of FEATURES that converts rows.
    """

    kind: tuple[str, str]
    settings: dict[str, Any]
    prepare: str = "single"

    def setup(self) -> None:
        modules = ("feature_extraction", "pipeline", "preprocessing", self.kind[0])
        _imported(*(f"sklearn.{name}" for name in modules))

    def train(self, train: Data, dev: Data, folder: Path, options: dict[str, Any]) -> None:
        from sklearn.feature_extraction import DictVectorizer
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer

        module, name = self.kind
        model = getattr(import_module(f"sklearn.{module}"), name)(**self.settings)
        narrow = FunctionTransformer(_narrow, accept_sparse=True)
        pipeline = make_pipeline(DictVectorizer(), narrow, model)
        _save(folder, pipeline.fit(FEATURES[self.prepare](train["inputs"]), train["outputs"]))

    def load(self, folder: Path) -> Any:
        model = _saved(folder)
        return lambda rows: model.predict(FEATURES[self.prepare](rows)).tolist()


def _narrow(matrix: Any) -> Any:
    """Convert indices to 32 bits, as SVC requires."""
    matrix.indices, matrix.indptr = matrix.indices.astype("int32"), matrix.indptr.astype("int32")
    return matrix


# --- constituency parsing -------------------------------------------------------------------------
NO_TAG = "_"  # in trees of parsers without tags


def _escaped(word: str) -> str:
    """Escape round brackets as in trees."""
    return word.replace("(", "-LRB-").replace(")", "-RRB-")


@dataclass(frozen=True)
class Supar:
    """supar's CRF over a BiLSTM of words and characters, without pretraining, small enough for
    CPUs. The optimiser is the default of supar; the best of `epochs` on dev is kept.
    """

    lstm: int = 200
    layers: int = 2
    batch_tokens: int = 1000

    def setup(self) -> None:
        _imported("supar.parsers.const")
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(1)
        # supar saves objects, which this version of torch does not load by default.
        torch.load = functools.partial(torch.load, weights_only=False)

    def _settings(self) -> dict[str, Any]:
        return {
            "feat": ["char"],
            "encoder": "lstm",
            "embed": None,
            "unk": "unk",
            "n_embed": 100,
            "n_pretrained": 100,
            "n_lstm_hidden": self.lstm,
            "n_lstm_layers": self.layers,
            "lr": 2e-3,
            "mu": 0.9,
            "nu": 0.9,
            "eps": 1e-12,
            "weight_decay": 0,
            "decay": 0.75,
            "decay_steps": 5000,
            "clip": 5.0,
            "seed": 1,
        }

    def train(self, train: Data, dev: Data, folder: Path, options: dict[str, Any]) -> dict:
        """options: epochs. SIGTERM ends training with the best epoch so far.

        Returns the number of epochs.
        """
        from supar.parsers.const import CRFConstituencyParser

        done: list[int] = []

        class Parser(CRFConstituencyParser):  # type: ignore[misc]
            def _train(self, loader: Any) -> None:
                super()._train(loader)
                done.append(len(done) + 1)
                print("epoch", done[-1], flush=True)

        def stop(*_: Any) -> None:
            raise _Stopped

        files = {}
        # supar requires test trees and scores them after each epoch, so give it two trees of dev.
        for name, trees in (
            ("train", train["outputs"]),
            ("dev", dev["outputs"]),
            ("test", dev["outputs"][:2]),
        ):
            path = folder.parent / f"supar.{name}.trees"
            path.write_text("".join(f"{tree}\n" for tree in trees), encoding="utf8")
            files[name] = str(path)
        path = str(folder / "parser")
        parser = Parser.build(path, build=True, checkpoint=False, **files, **self._settings())
        signal.signal(signal.SIGTERM, stop)
        with contextlib.suppress(_Stopped):
            parser.train(
                **files,
                epochs=options["epochs"],
                batch_size=self.batch_tokens,
                verbose=False,
                checkpoint=False,
            )
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        CRFConstituencyParser.load(path).save(path)  # without the state of the optimizer
        return {"epochs": len(done)}

    def load(self, folder: Path) -> Any:
        from supar.parsers.const import CRFConstituencyParser

        parser = CRFConstituencyParser.load(str(folder / "parser"))

        def predict(sentences: Sequence[Sequence[str]]) -> list[str]:
            tokens = [[(_escaped(word), NO_TAG) for word in sentence] for sentence in sentences]
            found = parser.predict(tokens, batch_size=self.batch_tokens, verbose=False)
            return [" ".join(str(tree).split()) for tree in found.trees]

        return predict


class _Stopped(BaseException):
    """Ends the training."""


# --- all of them ----------------------------------------------------------------------------------
WORDS = {"NORM": 5000, "PREFIX": 1000, "SUFFIX": 2500, "SHAPE": 2500}
LOGISTIC = ("linear_model", "LogisticRegression")
SYSTEMS = {
    "crfsuite_crf": CRFsuite("lbfgs", {"c1": 0.0, "c2": 1.0, "max_iterations": 500}),
    "crfsuite_pairs": CRFsuite("lbfgs", {"c1": 0.0, "c2": 0.5, "max_iterations": 500}, pairs=True),
    "crfsuite_perceptron": CRFsuite("averaged-perceptron", {"max_iterations": 20}, pairs=True),
    "spacy_words": SpacyNer(WORDS, epochs=4),
    "spacy_tags": SpacyNer({**WORDS, "TAG": 100}, epochs=3),
    "sklearn_memm": SklearnMEMM(),
    "sklearn_logistic": Sklearn(LOGISTIC, {"C": 1.0, "max_iter": 1000}),
    "sklearn_conjunctions": Sklearn(LOGISTIC, {"C": 2.0, "max_iter": 1000}, prepare="conjunctions"),
    "sklearn_svc": Sklearn(
        ("svm", "SVC"), {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0, "C": 0.1}
    ),
    "supar": Supar(),
}
