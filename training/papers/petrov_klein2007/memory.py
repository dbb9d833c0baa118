"""Print the peak memory, in MB, of a process that loads a grammar and parses, without spaCy.

This is a module of its own because modules that read treebanks import spaCy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from spacy_structlearn.grammar.chart.decode import ChartParser
from spacy_structlearn.grammar.latent.model import LatentGrammar
from training.common.recording import peak_mb


def main() -> None:
    grammar, sentences = map(Path, sys.argv[1:])
    parser = ChartParser(LatentGrammar.from_bytes(grammar.read_bytes()))
    parser.parse(json.loads(sentences.read_text(encoding="utf8")))
    if "spacy" in sys.modules:
        raise RuntimeError("spaCy was imported, so the memory is not of the parser alone")
    print(json.dumps({"peak_rss_mb": peak_mb()}))


if __name__ == "__main__":
    main()
