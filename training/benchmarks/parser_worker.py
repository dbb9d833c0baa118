"""Train a grammar or parse with one, and print the costs of this process as JSON.

    python -m training.benchmarks.parser_worker train TREES ROUNDS
    python -m training.benchmarks.parser_worker parse GRAMMAR SENTENCES

TREES has a tree a line, SENTENCES is a JSON list of lists of words. `train` prints the CPU seconds
of the whole process, `parse` the CPU milliseconds a sentence, the median of some passes. Both print
the peak memory in MB. To parse, spaCy is not imported.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from training.common.recording import peak_mb

PASSES = 9


def train(trees: str, rounds: str) -> dict[str, float]:
    """Train one grammar with the settings of the WSJ sample."""
    from spacy_structlearn.trees.brackets import read_trees
    from training.common.kept import LEXICON, LatentGrammarSettings, run_training

    settings = LEXICON.part(LatentGrammarSettings, rounds=int(rounds))
    run_training(settings, list(read_trees(trees)), "training")
    return {"cpu_s": time.process_time(), "peak_rss_mb": peak_mb()}


def parse(grammar: str, sentences: str) -> dict[str, float]:
    """Parse all sentences several times, after a warm-up."""
    from spacy_structlearn.grammar.chart.decode import ChartParser
    from spacy_structlearn.grammar.latent.model import LatentGrammar

    parser = ChartParser(LatentGrammar.from_bytes(Path(grammar).read_bytes()))
    words = json.loads(Path(sentences).read_text(encoding="utf8"))
    seconds = []
    for _ in range(PASSES + 1):
        start = time.process_time()
        parser.parse(words)
        seconds.append(time.process_time() - start)
    if "spacy" in sys.modules:
        raise RuntimeError("spaCy was imported, so the memory is not of the parser alone")
    middle = sorted(seconds[1:])[PASSES // 2]
    return {"ms_per_sentence": 1000 * middle / len(words), "peak_rss_mb": peak_mb()}


if __name__ == "__main__":
    print(json.dumps({"train": train, "parse": parse}[sys.argv[1]](*sys.argv[2:])))
