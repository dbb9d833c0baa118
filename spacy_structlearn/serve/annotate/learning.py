"""Learn now: adaptation in a process of its own, and the new order of what is still open.

It is `structlearn adapt base accepted.spacy` of the files in its folder, and makes the same weights
in the same environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import DocBin

from ... import load
from ...errors import StructlearnError
from ...pipeline.annotation.corrections import Corrector
from ...pipeline.annotation.gold import Gold, doc_of
from ...pipeline.annotation.order import Parsed, ordered
from ...pipeline.training.fitting import adapt, save
from ...writing import write_bytes

LEAST = 10  # documents
GOLD, QUEUE, RESULT = "accepted.spacy", "queue.json", "result.json"
BASE, MODEL = "base", "model"


class Learning:
    """A process that learns.

    documents: accepted sentences. queue: open ones, of which the new model makes a new order: see
    `order.ordered`. folder: of the annotator; its folder "learned" has all that is made.
    Raises StructlearnError if there are fewer than LEAST documents.
    """

    def __init__(
        self,
        nlp: Language,
        documents: Sequence[Sequence[Gold]],
        queue: Mapping[int, Gold],
        folder: Path,
        order: tuple[str, int],
    ):
        if len(documents) < LEAST:
            problem = f"accept sentences of at least {LEAST} places of the texts first"
            raise StructlearnError("SL271", what="Nothing is learned", problem=problem)
        number = 1
        while (made := folder / "learned" / str(number)).exists():
            number += 1
        made.mkdir(parents=True)
        self._made, self._name = made, f"learned/{number}/{MODEL}"
        docs = [doc_of(nlp.vocab, own) for own in documents]
        write_bytes(made / GOLD, DocBin(docs=docs).to_bytes())
        write_bytes(made / QUEUE, json.dumps([[*order], [*queue], [*queue.values()]]).encode())
        save(nlp, made / BASE)
        with (made / "log").open("w") as log:
            command = [sys.executable, "-m", __name__, str(made)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def poll(self) -> dict[str, Any]:
        """Return what `Annotation.learned` does, with the name of the `model` in the folder and the
        numbers of the open sentences in their new `order`."""
        code = self._process.poll()
        if code is None:
            return {"status": "running"}
        if code:
            return {"status": "failed", "log": str(self._made / "log")}
        return {"status": "done", "model": self._name, **_json(self._made / RESULT)}


def main(made: Path) -> None:
    """Learn from what is in a folder, and write the scores and the new order there."""
    if hasattr(os, "nice"):
        os.nice(10)  # whoever annotates should not wait
    nlp = load(made / BASE)
    names = adapt(nlp, DocBin().from_disk(made / GOLD).get_docs(nlp.vocab), made / MODEL)
    adapted: Any = ((name, nlp.get_pipe(name)) for name in names)
    scores = {name: own.adaptation[2] for name, own in adapted if own.adaptation[2]}
    before, after = ({name: own[side] for name, own in scores.items()} for side in (0, 1))
    is_better = sum(after.values()) > sum(before.values())
    order, ids, rows = _json(made / QUEUE)
    corrector = Corrector(nlp, roles=False)
    found = [corrector.corrected(Gold(*row)) for row in rows if is_better]
    parsed = [Parsed(own.gold.words, own.gold.tags, own.probs) for own in found]
    new = [ids[number] for number in ordered(parsed, *order)]
    result = {"before": before, "after": after, "better": is_better, "order": new}
    write_bytes(made / RESULT, json.dumps(result).encode())


def _json(path: Path) -> Any:
    return json.loads(path.read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
