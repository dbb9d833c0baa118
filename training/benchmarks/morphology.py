"""Parts of benchmarks/dependencies.py: parts of speech, morphology and lemmas, and CoNLL-U.

On EWT's dev, in percent of the tokens with UD:

pos.NAME.acc, morph.NAME.acc, lemma.NAME.acc   on gold tokens in gold sentences, with predicted tags
                                               and trees
conllu.invalid   errors at level 2 of validate.py (github.com/UniversalDependencies/tools), whose
                 path is given, in what sm writes of raw text
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from spacy.language import Language

from spacy_structlearn.pipeline.readers import with_gold_tokens
from spacy_structlearn.pipeline.scorers import morphology_score
from spacy_structlearn.pipeline.universal.conllu import conllu_lines
from training.common.command import Figures
from training.common.ewt import read_documents

COMPONENT = "tree_morphologizer"
LAYERS = ("pos", "morph", "lemma")


def parts(
    pipelines: Mapping[str, Language], corpora: Path, validator: Path | None, limit: int | None
) -> dict[str, Callable[[], Figures]]:
    """Return the parts by name, for `run_parts`; CoNLL-U needs the path of validate.py."""
    found: dict[str, Any] = {
        f"{name}.morphology": partial(accuracies, name, nlp, corpora, limit)
        for name, nlp in pipelines.items()
    }
    if validator is not None:
        found["conllu"] = partial(invalid, pipelines["sm"], corpora, validator, limit)
    return found


def accuracies(name: str, nlp: Language, corpora: Path, limit: int | None = None) -> Figures:
    """Return the accuracy of each layer of a pipeline."""
    gold = [doc for _, doc in read_documents(corpora, "dev")][:limit]
    examples = [with_gold_tokens(nlp, doc) for doc in gold]
    predicted = nlp.pipe([example.predicted for example in examples])
    for example, doc in zip(examples, predicted, strict=True):
        example.predicted = doc
    scores = morphology_score(examples)
    return {f"{layer}.{name}.acc": 100 * scores[f"{layer}_acc"] for layer in LAYERS}


def invalid(nlp: Language, corpora: Path, validator: Path, limit: int | None = None) -> Figures:
    """Return how many errors validate.py finds in the CoNLL-U of raw texts."""
    texts = [doc.text for _, doc in read_documents(corpora, "dev")][:limit]
    docs = enumerate(nlp.pipe(texts), 1)
    lines = (f"{line}\n" for number, doc in docs for line in conllu_lines(doc, str(number)))
    with TemporaryDirectory() as folder:
        path = Path(folder, "dev.conllu")
        path.write_text("".join(lines), encoding="utf8")
        command = [sys.executable, str(validator), "--lang", "en", "--level", "2", str(path)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    verdict = re.search(r"\*\*\* (PASSED|FAILED \*\*\* with (\d+) errors)", run.stdout + run.stderr)
    if verdict is None:
        raise RuntimeError(f"{validator} gives no verdict: {run.stderr[-500:]}")
    return {"conllu.invalid": int(verdict[2] or 0)}
