"""Write which rolesets the built-in pipeline can predict, and what they mean.

They are those of its training, those with particles, and the first one of each other verb.

    python corpora/fetch.py propbank_frames
    python -m training.glosses [--corpora corpora/data]

Run it after the built-in pipeline was trained again. Light verbs (make.LV) have no frames.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from spacy.language import Language

import spacy_structlearn
from spacy_structlearn.roles.rolesets import LIGHT, ROLESETS, verb_of
from training.common.recording import CORPORA

HEADER = "# An extract of PropBank's frames, licence CC BY-SA 4.0; see LICENSES_SOURCES."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    args = parser.parse_args()
    table = (args.corpora / "propbank_frames" / "rolesets.tsv").read_text(encoding="utf8")
    meanings = dict(line.split("\t") for line in table.splitlines())
    names = listed(predicted(spacy_structlearn.load()), meanings)
    lines = [f"{roleset}\t{meanings[roleset]}" for roleset in names]
    ROLESETS.write_text("\n".join([HEADER, *lines, ""]), encoding="utf8")


def listed(known: Iterable[str], every: Iterable[str]) -> list[str]:
    """Return the rolesets that are listed, in alphabetical order.

    known: those of the training. every: those of the frames.
    """
    found = {*known}
    plain = {verb_of(roleset) for roleset in found if "_" not in roleset}
    for roleset in sorted(every, key=lambda roleset: roleset.rpartition(".")[-1]):
        if "_" in roleset or verb_of(roleset) not in plain:
            found.add(roleset)
            plain |= set() if "_" in roleset else {verb_of(roleset)}
    return sorted(found)


def predicted(nlp: Language) -> list[str]:
    """Return the rolesets with a sense that a pipeline has learned, in alphabetical order."""
    rolesets = nlp.get_pipe("srl_labeler").cfg["rolesets"].values()
    names = {roleset for numbers in rolesets for roleset in numbers.values()}
    return sorted(roleset for roleset in names if not roleset.endswith(LIGHT))


if __name__ == "__main__":
    main()
