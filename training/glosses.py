"""Write what the rolesets of the built-in pipeline mean, for `spacy_structlearn.explain`.

    python corpora/fetch.py propbank_frames
    python -m training.glosses [--corpora corpora/data]

Run it after the built-in pipeline was trained again. Light verbs (make.LV) have no frames.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from spacy.language import Language

import spacy_structlearn
from spacy_structlearn.glossary import LIGHT, ROLESETS
from training.common.recording import CORPORA

HEADER = "# An extract of PropBank's frames, licence CC BY-SA 4.0; see LICENSES_SOURCES."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    args = parser.parse_args()
    table = (args.corpora / "propbank_frames" / "rolesets.tsv").read_text(encoding="utf8")
    meanings = dict(line.split("\t") for line in table.splitlines())
    lines = [f"{roleset}\t{meanings[roleset]}" for roleset in predicted(spacy_structlearn.load())]
    ROLESETS.write_text("\n".join([HEADER, *lines, ""]), encoding="utf8")


def predicted(nlp: Language) -> list[str]:
    """Return the rolesets with a sense that a pipeline can predict, in alphabetical order."""
    rolesets = nlp.get_pipe("srl_labeler").cfg["rolesets"].values()
    names = {roleset for numbers in rolesets for roleset in numbers.values()}
    return sorted(roleset for roleset in names if not roleset.endswith(LIGHT))


if __name__ == "__main__":
    main()
