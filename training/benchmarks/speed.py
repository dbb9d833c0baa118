"""The speed and the accuracy of the parser, compared with another checkout of this repository.

    python corpora/fetch.py ewt craft wsj_sample
    git worktree add ../before 031d252
    python -m training.benchmarks.parser --speed --before ../before

The other checkout needs its compiled kernels in place (`python setup.py build_ext --inplace` of
setuptools, or an editable installation). Both parse with their own default pipeline
in processes that live through all rounds and take turns, so that a busy machine slows down both.
Times are CPU seconds; ratios are medians over the rounds. The objects of the benchmark itself, such
as the trees of the treebanks, are left out of garbage collection, which would take a third of the
time. With --berkeley and --grammar, a grammar that the Berkeley parser has learned from train of
EWT, that parser reads every fourth of the sentences. Figures are recorded in
training/results/speed.json:

ratio.*      new over old, of words (and punctuation) per CPU second: of the parser, which gets
             sentences with predicted tags; of the role labeler, for verbs; of the pipeline on raw
             text; and (train) of making the forests on which span features are trained
parser.*     words per CPU second on dev of EWT; ms_100_tokens: CPU milliseconds for a sentence of
             100 tokens; exponent: of the time as a power of the length, from 20 to 100 tokens
f1, ece      on dev of EWT, with predicted tags; `change` is new minus old
peak_rss_mb  of the process that parses dev of EWT
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from training.common.recording import CORPORA, ROOT, peak_mb

LENGTHS = (20, 30, 40, 60, 80, 100)
COPIES = 12  # sentences of each length
PARTS = ("parser", "srl", "pipeline", "train")
Work = Callable[[], Any]


def compare(before: Path, rounds: int, limit: int | None) -> dict[str, float]:
    """Run both checkouts, and return the figures. limit: of sentences, for a trial."""
    checkouts = {"new": ROOT, "old": before}
    workers = {name: Worker(path, limit) for name, path in checkouts.items()}
    scores = {name: worker.ask("scores") for name, worker in workers.items()}
    figures: dict[str, float] = {
        f"{key}.{name}": value for name, own in scores.items() for key, value in own.items()
    }
    for key in ("f1.ewt_dev", "ece.ewt_dev"):
        figures[f"{key}.change"] = scores["new"][key] - scores["old"][key]
    for part in PARTS:
        times = {name: [] for name in workers}
        for number in range(rounds + 1):
            for name in sorted(workers, reverse=bool(number % 2)):
                times[name].append(workers[name].ask(part))
        # The first round fills caches.
        new, old = (np.array(times[name][1:]) for name in ("new", "old"))
        figures[f"ratio.{part}.new_over_old"] = float(np.median(new / old))
        figures[f"{part}.words_per_cpu_s.new"] = float(np.median(new))
        figures[f"{part}.words_per_cpu_s.old"] = float(np.median(old))
    for name, worker in workers.items():
        seconds = np.median([worker.ask("lengths") for _ in range(rounds)], axis=0)
        slope = np.polyfit(np.log(LENGTHS), np.log(seconds), 1)[0]
        figures[f"parser.exponent.{name}"] = float(slope)
        figures[f"parser.ms_100_tokens.{name}"] = 1000 * float(seconds[-1])
    return figures | {"rounds": rounds}


class Worker:
    """A process that parses with one checkout."""

    def __init__(self, checkout: Path, limit: int | None):
        environment = {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
        environment["STRUCTLEARN_CORPORA"] = str(CORPORA.resolve())
        # As text, so that the folder of this file is not searched for modules.
        script = Path(__file__).read_text(encoding="utf8")
        command = [sys.executable, "-c", script, str(limit or 0)]
        self._process = subprocess.Popen(
            command, env=environment, cwd=checkout, stdin=-1, stdout=-1, text=True
        )

    def ask(self, what: str) -> Any:
        """Return the answer to a question, see `answers`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"the process that measures {what} has ended")
        return json.loads(line)


# --- in the process -------------------------------------------------------------------------------
def answers(limit: int) -> dict[str, Work]:
    """The questions, and what answers them. Reads only what both checkouts have."""
    from spacy.tokens import Doc

    import spacy_structlearn
    from spacy_structlearn.evaluation.calibration import expected_calibration_error
    from spacy_structlearn.grammar.chart.decode import ChartParser
    from spacy_structlearn.trees.brackets import unescape
    from training.common.scoring import brackets_right, scored
    from training.common.treebanks import ewt_trees

    nlp = spacy_structlearn.load()
    pipes: dict[str, Any] = dict(nlp.pipeline)
    parser, labeler = pipes["constituency_parser"], pipes["srl_labeler"]
    trees = list(ewt_trees(CORPORA, "dev"))[slice(limit or None)]
    words = [[unescape(word) for word in tree.words()] for tree in trees]
    n_words = sum(map(len, words))
    texts = [" ".join(" ".join(own) for own in words[i : i + 10]) for i in range(0, len(words), 10)]
    of_length = _of_lengths(words)

    def docs(sentences: list[list[str]]) -> list[Doc]:
        starts = ([place == 0 for place in range(len(own))] for own in sentences)
        pairs = zip(sentences, starts, strict=True)
        made = [Doc(nlp.vocab, words=own, sent_starts=first) for own, first in pairs]
        return list(pipes["chain_tagger"].pipe(made))

    def roles(docs: list[Doc]) -> None:
        before = labeler.predicates
        labeler.predicates = "verbs"  # the other one may find no others
        labeler.predict(docs)
        labeler.predicates = before

    def speed(work: Work, n: int = n_words) -> float:
        start = process_time()
        work()
        return n / (process_time() - start)

    def scores() -> dict[str, float]:
        parsed = list(parser.pipe(docs(words)))
        peak, parses = peak_mb(), list(map(parse_of, parsed))
        return {
            "f1.ewt_dev": scored(parses, trees, "gold").f1,
            "ece.ewt_dev": expected_calibration_error(*brackets_right(parses, trees)),
            "peak_rss_mb": peak,
            "n.ewt_dev": len(trees),
        }

    def lengths() -> Iterator[float]:
        for sentences in of_length:
            given = docs(sentences)
            start = process_time()
            parser.predict(given)
            yield (process_time() - start) / len(given)

    tagged = docs(words)
    with_trees = list(parser.pipe(docs(words)))
    of_forests = ChartParser(parser.parameters.grammar)
    return {
        "scores": scores,
        "parser": lambda: speed(lambda: parser.predict(tagged)),
        "srl": lambda: speed(lambda: roles(with_trees)),
        "pipeline": lambda: speed(lambda: list(nlp.pipe(texts))),
        "train": lambda: speed(lambda: of_forests.forests(words)),
        "lengths": lambda: list(lengths()),
    }


def parse_of(doc: Any) -> Any:
    """The constituents of a Doc of one sentence as a `Parse`."""
    from spacy_structlearn.trees.parse import Parse

    group = doc.spans["constituents"]
    return Parse(
        [span.label_ for span in group],
        [span.start for span in group],
        [span.end for span in group],
        np.array(group.attrs["scores"], dtype=np.float32),
        [token.tag_ for token in doc],
    )


def _of_lengths(sentences: list[list[str]]) -> list[list[list[str]]]:
    """Sentences of each of LENGTHS, cut from the text of the others."""
    text = [word for words in sentences for word in words]
    made = []
    for length in LENGTHS:
        begins = range(0, len(text) - length, max((len(text) - length) // COPIES, 1))
        made.append([text[begin : begin + length] for begin in begins][:COPIES])
    return made


def serve() -> None:
    """Answer the questions of stdin, a line each."""
    known = answers(int(sys.argv[1]))
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(known[line.strip()]()), flush=True)


if __name__ == "__main__":
    serve()
