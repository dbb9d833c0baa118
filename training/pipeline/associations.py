"""Count prepositional phrases with a certain attachment in the raw text of the fetched corpora.

    python corpora/fetch.py raw_text
    python -m training.pipeline.associations

The text is split, tagged and chunked by components of the default pipeline, without the parser.
What is stored are the counts of hashes of one or two words (`attachment.associations`), of lemmas
in lower case, as the attacher reads them. The verb "be" is left out: it does not take the phrases
behind it in the same sense as other verbs (Ratnaparkhi 1998).
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from time import process_time

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc

import spacy_structlearn
from spacy_structlearn.attachment.associations import SEEDS, STEPS, Associations, Symbols, keys_of
from spacy_structlearn.attachment.sites import NOUN, VERB, normalized
from spacy_structlearn.classification.features import MISSING, symbol
from spacy_structlearn.words.lemmas import lemma
from spacy_structlearn.writing import write_bytes
from training.common.command import options
from training.pipeline.unambiguous import unambiguous_heads

NEEDED = ("sentence_splitter", "chain_tagger", "np_chunker")
MIN_COUNT, MIN_WORD_COUNT = 3, 5
PIECE = 50_000  # characters of a text that are processed together, at the end of a paragraph
IGNORED = symbol("be")

Phrase = tuple[str, int, int, int]
"""A label ("V" or "N"), and symbols of a word, a preposition, and its object (0 for no phrase)."""


def raw_texts(corpora: Path) -> Iterator[str]:
    """Iterate over the texts of `raw_text`, in pieces of whole paragraphs."""
    for path in sorted((corpora / "raw_text").glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf8") as lines:
            for line in lines:
                yield from pieces(json.loads(line)["text"])


def pieces(text: str) -> Iterator[str]:
    """Split a text behind the paragraph in which a piece becomes long enough."""
    piece: list[str] = []
    size = 0
    for paragraph in text.split("\n\n"):
        piece.append(paragraph)
        size += len(paragraph)
        if size >= PIECE:
            yield "\n\n".join(piece)
            piece, size = [], 0
    if piece:
        yield "\n\n".join(piece)


def count_phrases(nlp: Language, texts: Iterable[str]) -> Counter[Phrase]:
    """Count the phrases of `associated`. nlp: predicts sentences, tags and chunks."""
    counts: Counter[Phrase] = Counter()
    for doc in nlp.pipe(texts, batch_size=64):
        counts.update(phrases(doc))
    return counts


def phrases(doc: Doc) -> Iterator[Phrase]:
    """Iterate over the unambiguous verbs and nouns of a Doc, as symbols of their lemmas."""
    words, tags = [token.text for token in doc], [token.tag_ for token in doc]
    chunks = iter([(chunk.start, chunk.end) for chunk in doc._.np_chunks] + [(len(doc), len(doc))])
    start, end = next(chunks)
    for sentence in doc.sents:
        first, last = sentence.start, sentence.end
        own = []
        while start < last:
            if first <= start and end <= last:
                own.append((start - first, end - first))
            start, end = next(chunks)
        for label, head, preposition, last_word in unambiguous_heads(tags[first:last], own):
            word = _symbol(words[first + head], label)
            if word == IGNORED and label == VERB:
                continue
            if preposition < 0:
                yield label, word, MISSING, MISSING
            else:
                of = words[first + preposition].lower(), words[first + last_word]
                yield label, word, symbol(of[0]), _symbol(of[1], NOUN)


@cache
def _symbol(word: str, label: str) -> int:
    """Return the symbol of the lemma of a verb or noun."""
    verb, noun, *_ = normalized((word, word, word, word), lemma)
    return symbol(verb if label == VERB else noun)


def associated(
    phrases: Mapping[Phrase, int],
    *,
    min_count: int = 1,
    min_word_count: int = 1,
) -> Associations:
    """Return the associations of counted phrases.

    phrases: how often each phrase occurs.
    min_count: rarer pairs of two words are left out. min_word_count: rarer words.
    """
    keys, counts = [], []

    def count(seed: int, first: Symbols, second: Symbols, n: Symbols, least: int = 1) -> None:
        distinct, numbers = np.unique(keys_of(seed, first, second), return_inverse=True)
        totals = np.bincount(numbers, n, minlength=len(distinct))
        frequent = totals >= least
        keys.append(distinct[frequent])
        counts.append(np.rint(STEPS * np.log2(1 + totals[frequent])).clip(0, 255))

    for label, (seed, object_seed) in SEEDS.items():
        counted = [(*words, n) for (name, *words), n in phrases.items() if name == label]
        rows = np.array(counted, dtype=np.uint64).reshape(-1, 4)
        _, numbers = np.unique(rows[:, 0], return_inverse=True)
        frequent = np.bincount(numbers, rows[:, 3])[numbers] >= min_word_count
        has = rows[:, 1] != MISSING
        anything = np.full(len(rows), MISSING, dtype=np.uint64)
        count(seed, anything, anything, rows[:, 3])
        for chosen, first, second, least in (
            (frequent, rows[:, 0], anything, 1),
            (has, anything, rows[:, 1], 1),
            (has & frequent, rows[:, 0], rows[:, 1], min_count),
        ):
            count(seed, first[chosen], second[chosen], rows[chosen, 3], least)
        count(object_seed, rows[has, 1], anything[has], rows[has, 3])
        count(object_seed, rows[has, 1], rows[has, 2], rows[has, 3], min_count)
    merged, places = np.unique(np.concatenate(keys), return_index=True)
    found = Associations(merged, np.concatenate(counts)[places].astype(np.uint8))
    return found.compact()


def learn_associations(
    corpora: Path, work: Path, chunker: Callable[[], Language] | None = None
) -> Path:
    """Write the associations of the default pipeline.

    chunker: makes the pipeline that predicts sentences, tags and chunks. None: the default one.
    """
    target = work / "pp_associations.bin"
    if not target.exists():
        work.mkdir(parents=True, exist_ok=True)
        counts = count_phrases((chunker or chunking_pipeline)(), raw_texts(corpora))
        found = associated(counts, min_count=MIN_COUNT, min_word_count=MIN_WORD_COUNT)
        write_bytes(target, found.to_bytes())
    return target


def chunking_pipeline() -> Language:
    """Return the components of the default pipeline that are needed."""
    nlp = spacy_structlearn.load()
    for name in set(nlp.pipe_names).difference(NEEDED):
        nlp.remove_pipe(name)
    return nlp


def main() -> None:
    args = options(__doc__, "corpora", "work").parse_args()
    start = process_time()
    path = learn_associations(args.corpora, args.work)
    found = Associations.from_bytes(path.read_bytes())
    size = path.stat().st_size
    print(f"{len(found):,} counts, {size:,} bytes, {process_time() - start:.0f} CPU s: {path}")


if __name__ == "__main__":
    main()
