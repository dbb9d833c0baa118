"""Check that odd values of settings give a clear error or a sound answer.

    python -m training.reliability.settings

Each setting of each component and architecture, also in nested blocks, gets odd values: NaN,
infinities, huge and negative numbers, wrong types, long texts, blocks, unknown names. They come in
four ways, the doors:

add_pipe  `nlp.add_pipe(name, config=...)`
file      a config on disk, as `structlearn train` and `spacy train` read it
pipeline  config.cfg of a trained pipeline, read by `spacy.load`
cfg       the file `cfg` of a component of a trained pipeline, read by `spacy.load`

If a pipeline is made, it is initialised and trained for a few steps, unless it is trained; then it
annotates texts. The outcome is

errors       an error of the package, or of spaCy's checks of configs, which names the setting and
             the value, before anything is trained or annotated
late         the same error in training
answers      the pipeline works, and all numbers in its answers are in their range
nan_answers  a number in an answer is NaN or out of its range; a log probability may be -inf
unclear      any other error, too much memory, a hang, a crash

Two values on which spaCy fails before it calls the package are left out: names of registered
functions that are not text, and integers of more than 64 bits in files.

Cases run in child processes with limits of memory and time. This needs fork and /proc of Linux.
With --record, figures are recorded in training/results/reliability.json: settings.{cases, errors,
late, answers, nan_answers, unclear}, and the same by door.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import resource
import shutil
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import fields
from functools import cached_property
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import spacy
import srsly
from catalogue import RegistryError
from confection import Config, ConfigValidationError
from confection.util import is_promise
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import load_config, load_model_from_config, registry
from spacy.vocab import Vocab
from tqdm import tqdm

from spacy_structlearn.errors import StructlearnError
from spacy_structlearn.learning.settings import Settings, quoted
from spacy_structlearn.pipeline import digests
from spacy_structlearn.pipeline.batch_trainable import BatchTrainable, without_models
from spacy_structlearn.pipeline.constituency_parser import ConstituencyParser
from spacy_structlearn.pipeline.extensions import CONSTITUENTS
from spacy_structlearn.pipeline.np_chunker import NPChunker
from spacy_structlearn.pipeline.readers import read_treebank, to_example
from spacy_structlearn.pipeline.upgrade import current
from training.common.recording import clean_commit, record, show
from training.reliability.small_pipelines import SAMPLE, SMALL, Small, config_of, write_corpus

OURS = "spacy_structlearn."
DOORS = ("add_pipe", "file", "pipeline", "cfg")
OUTCOMES = ("errors", "late", "answers", "nan_answers", "unclear")
DOCUMENTS = 2  # of the training data
TEXTS = 3
STEPS = 10  # of a training
SECONDS = 10  # of CPU, for a case
PATIENCE = 1200  # seconds until a child process counts as hung
MEMORY = 2 << 30  # bytes that a case may take
LONGEST = 2000  # characters of a message of the package
LARGEST = sys.float_info.max

FEATURES = {"@misc": f"{OURS}span_features.v2", "buckets": 2**12}
NETWORK = {**SMALL["neural"].model, "features": FEATURES}
HYBRID = {"@architectures": current("LogLinear"), "base": {"@architectures": current("BayesNet")}}
PIPELINES = {
    "tagger": Small("chain_tagger", {"max_iterations": 2}),
    "splitter": Small("sentence_splitter", {"max_iterations": 10}),
    **{name: small for name, small in SMALL.items() if name != "product"},
    "neural": Small("constituency_parser.NeuralGrammar", NETWORK),
    "hybrid": Small("pp_attacher", HYBRID, replace=True),
}
"""Small pipelines with all components and architectures."""

TEXT = "x" * 10_000
WRITTEN = (  # also by the doors that read files
    *(math.nan, -1, 2**31, 2**63, "abc", [], None),
    {"@architectures": "spacy_structlearn.Unknown.v1"},
)
VALUES = (
    *WRITTEN,
    *(math.inf, -math.inf, 1e300, 1e-300, 0, 2**62, -(2**63), 2**100),
    *(True, "", TEXT, [1, "a"], ["abc", "abc"], [1e300], {}, {"a": 1e300}, {"abc": ["abc"]}),
    {"@architectures": "spacy_structlearn.BayesNet.v2"},
    {"@misc": "spacy_structlearn.english_lemmas.v1"},
)


class Case(NamedTuple):
    """A value of a setting of one of PIPELINES, and the door by which it comes."""

    door: str
    pipeline: str
    setting: tuple[str, ...]
    value: Any

    def __str__(self) -> str:
        return f"{self.door} {self.pipeline} {'.'.join(self.setting)} = {self.value!r:.60}"

    def put_into(self, section: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of the section of the component with the value."""
        section = deepcopy(section)
        *parents, last = self.setting
        block = section
        for name in parents:
            block = block[name]
        block[last] = self.value
        return section


# --- cases ----------------------------------------------------------------------------------------
def settings_of(section: Mapping[str, Any], place: tuple[str, ...] = ()) -> Iterator[tuple]:
    """Yield a key of each setting of a section, the same wherever it stands, and its place."""
    kind = next((of for key, of in section.items() if key[0] == "@"), section.get("factory"))
    if kind is not None and place and not kind.startswith(OURS):
        return
    for name in (*section, "unknown_setting"):
        if name != "factory":
            yield (kind, len(place), name), (*place, name)
    for name, value in section.items():
        if isinstance(value, Mapping):
            yield from settings_of(value, (*place, name))


def choices() -> dict[str, set[Any]]:
    """Return the choices of all settings with this name: some do not suit a component, or the other
    settings. Those of "@architectures" are all names of the package."""
    found: defaultdict[str, set[Any]] = defaultdict(set)
    for name, function in registry.architectures.get_all().items():
        if name.startswith(OURS):
            found["@architectures"].add(name)
            for part in fields(getattr(function, "settings", Settings)):
                found[part.name].update(part.metadata["bounds"].get("choices", ()))
    return found


def cases(benches: Iterable[Bench]) -> Iterator[Case]:
    """Yield all cases. A setting that several pipelines have is changed in the first one."""
    known, chosen = set(), choices()
    for bench in benches:
        new = {key: place for key, place in settings_of(bench.section) if key not in known}
        known.update(new)
        for number, place in enumerate(new.values()):
            # spaCy expects a text as the name of a function.
            suits = str if place[-1][0] == "@" else object
            for value in (*VALUES, *sorted(chosen[place[-1]])):
                if isinstance(value, suits):
                    yield Case("add_pipe", bench.name, place, value)
            for parity, value in enumerate(WRITTEN, number):
                if isinstance(value, suits):
                    yield Case(("file", "pipeline")[parity % 2], bench.name, place, value)
        if bench.component not in known:
            known.add(bench.component)
            for name in (*bench.stored, "unknown_setting"):
                for value in VALUES:
                    yield Case("cfg", bench.name, (name,), value)


# --- pipelines ------------------------------------------------------------------------------------
class Bench:
    """A small pipeline, untrained and trained, with data."""

    def __init__(self, name: str, work: Path, overrides: Mapping[str, str]):
        self.name = name
        self.work = work
        self.vocab = Vocab()
        self.config = config_of(PIPELINES[name])
        # The rules of English take most of the time of loading.
        self.config["nlp"]["lang"] = "xx"
        self.config["nlp"].pop("tokenizer", None)
        for place, path in overrides.items():
            self.config["paths"][place.partition(".")[2]] = path
        self.config = self.config.interpolate()
        self.component = PIPELINES[name].component
        self.section["model"] = registry.fill({"model": self.section["model"]})["model"]

    @property
    def section(self) -> dict[str, Any]:
        """The section of the component in the config."""
        return self.config["components"][self.component]

    @property
    def stored(self) -> list[str]:
        """The names of the settings in the file `cfg` of the component."""
        return sorted(self._made(self.config).get_pipe(self.component).cfg_types)

    @cached_property
    def blank(self) -> Language:
        """A pipeline for the components of `add_pipe`."""
        return spacy.blank("xx", vocab=self.vocab)

    @cached_property
    def examples(self) -> list[Example]:
        """Examples for training."""
        nlp = self._made(self.config)
        reader = registry.resolve(self.config["corpora"])["train"]
        examples = list(reader(nlp))[:DOCUMENTS]
        for example in examples:  # some values let components read tags
            for token in example.predicted:
                token.tag_ = token.tag_ or "X"
        return examples

    @cached_property
    def texts(self) -> list[Example]:
        """Short texts to annotate, with what components before this one would predict."""
        if self.component == "sentence_splitter":
            return self.examples[:TEXTS]
        docs = (doc for _, doc in read_treebank(self.vocab, SAMPLE / "sample.trees"))
        return [to_example(doc, spans=[CONSTITUENTS]) for doc in islice(docs, 80, 80 + TEXTS)]

    @cached_property
    def trained(self) -> Path:
        """The folder of the trained pipeline."""
        nlp = self._made(self.config)
        self.train(nlp)
        folder = self.work / self.name
        nlp.to_disk(folder)
        return folder

    def _made(self, config: Config) -> Language:
        return load_model_from_config(config, vocab=self.vocab, auto_fill=True)

    def load(self, case: Case) -> Language:
        """Make the pipeline of a case."""
        if case.door == "add_pipe":
            section = case.put_into(self.section)
            if self.component in self.blank.pipe_names:
                self.blank.remove_pipe(self.component)
            self.blank.add_pipe(section.pop("factory"), config=section)
            return self.blank
        if case.door == "file":
            path = self.work / "config.cfg"
            self._changed(self.config, case).to_disk(path)
            return self._made(load_config(path, interpolate=False))
        sound = self.trained
        folder = self.work / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(sound, folder)
        if case.door == "pipeline":
            config = Config().from_disk(sound / "config.cfg", interpolate=False)
            self._changed(config, case).to_disk(folder / "config.cfg")
        else:
            path = folder / self.component / "cfg"
            (path.parent / digests.DIGESTS).unlink()  # as somebody who edits it on purpose
            path.write_text(json.dumps(case.put_into(srsly.read_json(path))), encoding="utf8")
        return spacy.load(folder, vocab=self.vocab)

    def _changed(self, config: Config, case: Case) -> Config:
        config = config.copy()
        section = config["components"][self.component]
        config["components"][self.component] = case.put_into(section)
        return config

    def train(self, nlp: Language) -> float:
        """Train for a few steps. Return the loss."""
        nlp.initialize(lambda: self.examples)
        component = nlp.get_pipe(self.component)
        losses: dict[str, float] = {}
        for _ in range(STEPS // min(component.iterations_per_step, STEPS)):
            losses = nlp.update(self.examples)
        return losses[self.component]

    def numbers(self, nlp: Language, *, trained: bool) -> Iterator[tuple[float, float, float]]:
        """Yield the numbers of the answers of a pipeline, each with its range."""
        if not trained:
            yield self.train(nlp), -LARGEST, LARGEST
        component = nlp.get_pipe(self.component)
        docs = [component(text.predicted.copy()) for text in self.texts]
        for doc in docs:
            for group in doc.spans.values():
                for score in np.ravel(group.attrs.get("scores", ())).tolist():
                    yield score, 0.0, 1.0
            yield from ((number, -math.inf, 0.0) for number in best(component, doc))
        pairs = zip(docs, self.texts, strict=True)
        scores = nlp.evaluate([Example(doc, example.reference) for doc, example in pairs])
        for number in floats({name: of for name, of in scores.items() if name != "speed"}):
            yield number, 0.0, 1.0


def best(component: BatchTrainable, doc: Doc) -> list[float]:
    """Return log probabilities of the best readings of a sentence."""
    sentence = next(iter(doc.sents))
    if isinstance(component, ConstituencyParser):
        return [number for number, _ in component.k_best(sentence, 2)]
    if isinstance(component, NPChunker):
        return [number for number, _ in component.n_best(sentence.as_doc(), 2)]
    return []


def floats(value: Any) -> Iterator[float]:
    """Yield all floats in nested dicts."""
    if isinstance(value, Mapping):
        for item in value.values():
            yield from floats(item)
    elif isinstance(value, float):
        yield value


# --- outcomes -------------------------------------------------------------------------------------
def outcome(bench: Bench, case: Case) -> tuple[str, str]:
    """Return one of OUTCOMES, and what was said or found."""
    stage = "errors"
    try:
        nlp = bench.load(case)
        stage = "late"
        for number, low, high in bench.numbers(nlp, trained=case.door in ("pipeline", "cfg")):
            if not low - 1e-5 <= number <= high + 1e-5:
                return "nan_answers", f"{number}"
    except Exception as error:
        said = f"{stage}: {type(error).__name__}: {error}"
        return (stage if is_clear(error, case) else "unclear"), said
    return "answers", ""


def is_clear(error: Exception, case: Case) -> bool:
    """Return whether an error is one of the package or of spaCy's checks, and names the setting
    and the value."""
    text = str(error)
    if isinstance(error, ConfigValidationError):
        # Without the config, which the message shows as a whole.
        text = f"{error.title} {error.errors}"
    elif isinstance(error, StructlearnError):
        if error.code == "SL082":  # a file does not tell which setting was another
            return case.door == "pipeline"
        text = text if len(text) <= LONGEST else ""
    elif not text.startswith("[E"):
        return False
    name = case.setting[-1].strip("@").removesuffix("s")
    names = [name, "template"] if name.endswith("template") else [name]
    if case.setting[-1][0] == "@":
        names.append(OURS)
    if is_promise(case.value):  # the error can be about the block
        names += [key.strip("@") for key in case.value]
    # The values of null, the default, and of unknown settings do not matter.
    of_no_value = case.value is None or name == "unknown_setting"
    said = of_no_value or any(of_value in text for of_value in said_of(case.value))
    return said and any(name in text for name in names)


def said_of(value: Any) -> Iterator[str]:
    """Yield texts that can stand for a value in a message."""
    yield repr(value)[:40].strip("([{}])'\"")
    yield json.dumps(value)[:40].strip('[{}]"')
    if is_promise(value):
        with suppress(RegistryError):
            block = registry.resolve({"block": value})["block"]
            yield from map(quoted, (block, without_models(block)))
    if isinstance(value, str) and value.startswith(OURS):
        yield value.split(".")[1]
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value or [()]:
            yield from said_of(item)


def in_children(bench: Bench, todo: Sequence[Case]) -> Iterator[tuple[Case, str, str]]:
    """Yield each case, its outcome, and what was said or found."""
    context = get_context("fork")
    _ = bench.texts, bench.trained  # made once, before the processes fork
    done = 0
    while done < len(todo):
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_work, args=(bench, todo[done:], theirs), daemon=True)
        child.start()
        theirs.close()
        try:
            while done < len(todo):
                if not ours.poll(PATIENCE):
                    child.kill()
                    raise EOFError
                yield todo[done], *ours.recv()
                done += 1
        except EOFError:
            child.join()
            yield todo[done], "unclear", f"the process ended with {child.exitcode}"
            done += 1
        child.join()


def _work(bench: Bench, todo: Sequence[Case], pipe: Any) -> None:
    """Send the outcomes of cases, with limits of memory and time."""
    (size,) = (x for x in Path("/proc/self/status").read_text().splitlines() if "VmSize" in x)
    most = int(size.split()[1]) * 1024 + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for case in todo:
        used = resource.getrusage(resource.RUSAGE_SELF)
        seconds = math.ceil(used.ru_utime + used.ru_stime) + SECONDS
        # At the limit, the kernel ends the process.
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
        pipe.send(outcome(bench, case))


# --- the command ----------------------------------------------------------------------------------
def figures(found: Iterable[tuple[Case, str]]) -> dict[str, int]:
    """Return the numbers of cases by door and outcome, and their sums."""
    counts: Counter[tuple[str, str]] = Counter()
    for case, result in found:
        for door in ("", f".{case.door}"):
            counts[door, "cases"] += 1
            counts[door, result] += 1
    doors = ("", *(f".{door}" for door in DOORS))
    return {f"settings{d}.{name}": counts[d, name] for d in doors for name in ("cases", *OUTCOMES)}


def main(arguments: list[str] | None = None) -> dict[str, int]:
    """Run the command line and return the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", default=list(PIPELINES), choices=PIPELINES)
    parser.add_argument("--verbose", action="store_true", help="print cases that are not clear")
    parser.add_argument("--record", action="store_true", help="write the figures to the results")
    args = parser.parse_args(arguments)
    if args.record:
        clean_commit()
    logging.disable(logging.WARNING)
    warnings.filterwarnings("ignore")
    found = []
    with TemporaryDirectory() as folder:
        work = Path(folder)
        overrides = write_corpus(work)
        benches = {name: Bench(name, work, overrides) for name in PIPELINES}
        everything = list(cases(benches.values()))
        for name in args.only:
            own = [case for case in everything if case.pipeline == name]
            bar = tqdm(in_children(benches[name], own), name, len(own), disable=None)
            for case, result, said in bar:
                found.append((case, result))
                if args.verbose and result not in ("errors", "answers"):
                    print(f"{result} {case}: {said:.300}")
    result = figures(found)
    show(result)
    if args.record:
        record("reliability", result)
    return result


if __name__ == "__main__":
    main()
