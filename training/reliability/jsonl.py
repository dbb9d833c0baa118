"""Let random JSON values go through `structlearn apply`, and compare what comes out.

    python -m training.reliability --only jsonl

The values are in keys of lines of JSONL, next to the text: numbers, texts, lists and objects, also
under names that the output has. Input is a file, a compressed file and a folder; output is JSONL
and DocBins. In results/reliability.json: jsonl.values, the number of values, and jsonl.changed, the
number of them that are lost afterwards, or of another value, type or order.
"""

from __future__ import annotations

import gzip
import json
import random
import struct
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import spacy
from spacy.tokens import DocBin

from spacy_structlearn.cli.common.json_lines import PREFIX
from training.reliability.kills import run_command
from training.reliability.texts import random_word

LINES, KEYS = 1_600, 12
INPUTS = ("in.jsonl", "in.jsonl.gz", "in")
OUTPUTS = ("out.jsonl", "out.spacy")
TAKEN = ("tokens", "sents", "frames", "chunks", "tags")  # names that the output may have


def random_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(6 if depth > 2 else 8)
    if kind == 0:
        return rng.choice((None, True, False, 0, -0.0, 1e-320, 1.0, 2**53 + 1, "", [], {}))
    if kind < 3:
        value = struct.unpack("d", rng.randbytes(8))[0]
        return value if value - value == 0 else 51.50735091234567  # NaN and infinity are not JSON
    if kind == 3:
        return rng.randrange(-(2 ** rng.randrange(1, 63)), 2 ** rng.randrange(1, 64))
    if kind < 6:
        return random_word(rng)
    items = [(random_word(rng), random_value(rng, depth + 1)) for _ in range(rng.randrange(4))]
    return dict(items) if kind == 6 else [value for _, value in items]


def random_line(rng: random.Random) -> dict[str, Any]:
    """Return a text and other keys, in any order."""
    keys = [rng.choice(TAKEN) if rng.random() < 0.1 else random_word(rng) for _ in range(KEYS)]
    items = [("text", "She left."), *((key, random_value(rng)) for key in keys if key != "text")]
    return dict(rng.sample(items, len(items)))


def values_in(path: Path) -> list[dict[str, Any]]:
    """Return the keys of users in an output."""
    if path.suffix == ".spacy":
        docs = DocBin().from_disk(path).get_docs(spacy.blank("en").vocab)
        return [{k: v for k, v in doc.user_data.items() if isinstance(k, str)} for doc in docs]
    lines = (json.loads(line) for line in path.read_text(encoding="utf8").split("\n")[:-1])
    return [{key.removeprefix(PREFIX): line[key] for key in reversed(line)} for line in lines]


def run(lines: int = LINES) -> dict[str, int]:
    """Apply a pipeline to each input, with each output. Return the figures."""
    rng, values, changed = random.Random(0), 0, 0
    with TemporaryDirectory() as folder:
        work = Path(folder)
        spacy.blank("en").to_disk(work / "model")
        (work / "in").mkdir()
        for name in INPUTS:
            given = [random_line(rng) for _ in range(lines)]
            text = "".join(
                json.dumps(line, ensure_ascii=rng.random() < 0.5) + "\n" for line in given
            )
            data = text.encode()
            path = work / name / "a.jsonl" if name == "in" else work / name
            path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
            for output in OUTPUTS:
                target = work / f"{name}.{output}"
                run_command(["apply", work / "model", work / name, target], work)
                for line, kept in zip(given, values_in(target), strict=True):
                    values += len(line) - 1
                    for key in line.keys() - {"text"}:
                        # As JSON, because spaCy reads lists in user data as tuples.
                        changed += json.dumps(line[key]) != json.dumps(kept.get(key, "?"))
    return {"jsonl.values": values, "jsonl.changed": changed}
