"""Examples of gold Docs: the predicted Doc has the gold tokens, and what a component may read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ...errors import StructlearnError
from ...groups import CONSTITUENT_TAGS, CONSTITUENTS, NP_CHUNKS
from ...trees.brackets import text_lines
from ..training.batch_trainable import BatchTrainable

Reader = Callable[[Language], Iterator[Example]]
"""A corpus of a config: called with a pipeline, it yields the Examples."""


def to_example(doc: Doc, *, tags: bool = True, spans: Iterable[str] = ()) -> Example:
    """Make an Example of a gold Doc and a predicted Doc that also has its sentence boundaries.

    tags, spans: see `create_treebank_reader`. Missing annotation stays missing.
    """
    predicted = Doc(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=None if doc.has_unknown_spaces else [bool(token.whitespace_) for token in doc],
        sent_starts=(
            [token.is_sent_start for token in doc] if doc.has_annotation("SENT_START") else None
        ),
        tags=[token.tag_ for token in doc] if tags and doc.has_annotation("TAG") else None,
    )
    for key in spans:
        if key in doc.spans:
            predicted.spans[key] = doc.spans[key].copy(doc=predicted)
    return Example(predicted, doc)


def with_gold_tokens(nlp: Language, doc: Doc) -> Example:
    """Pair a gold Doc with its tokens and sentences, as the input of a pipeline.

    The input also has gold tags, trees and chunks if no component of the pipeline makes them.
    """
    made = {name for pipe in nlp.pipe_names for name in nlp.get_pipe_meta(pipe).assigns}
    groups = {"doc._.trees": [CONSTITUENTS, CONSTITUENT_TAGS], "doc._.np_chunks": [NP_CHUNKS]}
    given = [key for name, keys in groups.items() if name not in made for key in keys]
    example = to_example(doc, tags="token.tag" not in made, spans=given)
    with_norms(nlp, example.predicted)
    return example


def with_norms(nlp: Language, doc: Doc) -> Doc:
    """Set the norms of a Doc made from words to those that the tokenizer of `nlp` would set.

    The tokenizer sets special norms ("n't": "not"), which taggers read.
    """
    tokenized = {token.idx: token for token in nlp.make_doc(doc.text)}
    for token in doc:
        same = tokenized.get(token.idx)
        if same is not None and same.text == token.text:
            token.norm_ = same.norm_
    return doc


def check_tags(nlp: Language, tags: bool) -> None:
    """Raise StructlearnError if tags of the corpus would pass for predictions of a tagger.

    spaCy's tagger keeps them, and components behind any tagger would be trained on them.
    """
    for name, component in nlp.pipeline if tags else ():
        sets = "token.tag" in nlp.get_pipe_meta(name).assigns
        alone = len(nlp.pipeline) == 1 and isinstance(component, BatchTrainable)
        if sets and getattr(component, "set_tags", True) and not alone:
            raise StructlearnError("SL086", component=name)


def lines(path: Path | None) -> Iterator[str]:
    """Iterate over the lines of a text file, plain or .gz, which must exist."""
    yield from text_lines(existing(path))


def existing(path: Path | None) -> Path:
    """Return the path of a corpus. Raises StructlearnError if it is None or there is no file."""
    # A config without paths is valid, so that `spacy debug config` can check the rest of it.
    if path is None:
        raise StructlearnError("SL091")
    if not Path(path).is_file():
        raise StructlearnError("SL010", path=path)
    return Path(path)


def starts_of(lengths: list[int]) -> list[bool | int | None]:
    """Return for each token of sentences of these lengths whether it begins one."""
    return [index == 0 for length in lengths for index in range(length)]
