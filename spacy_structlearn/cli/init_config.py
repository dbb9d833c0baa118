"""`structlearn init-config`: a config to train a component with, from those in the package."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from textwrap import wrap
from typing import Annotated

import typer

from ..errors import StructlearnError
from ._corpora import Reader
from ._files import STANDARD, write_text

CONFIGS = Path(__file__).parent.parent / "pipeline" / "configs"
_STEMS = sorted(path.stem for path in CONFIGS.glob("*.cfg"))
Component = Enum("Component", {stem: stem for stem in _STEMS if "." not in stem})
# Of each component the architectures other than its default that have a config of their own.
ARCHITECTURES = {
    name: [stem.partition(".")[2] for stem in _STEMS if stem.startswith(f"{name}.")]
    for name in Component.__members__
}
REGISTERED = {
    Reader.docbin: "DocBin.v1",
    Reader.treebank: "Treebank.v1",
    Reader.conll2000: "ConllChunks.v1",
    Reader.quadruples: "PPQuadruples.v1",
}
SUITABLE = {
    "sentence_splitter": (Reader.docbin,),
    "chain_tagger": (Reader.docbin, Reader.treebank),
    "constituency_parser": (Reader.docbin, Reader.treebank),
    "np_chunker": (Reader.docbin, Reader.treebank, Reader.conll2000),
    "pp_attacher": (Reader.docbin, Reader.treebank, Reader.quadruples),
    "srl_labeler": (Reader.docbin, Reader.treebank),
}
ABOUT = {
    Reader.treebank: "The corpora are trees in Penn brackets.",
    Reader.conll2000: "The corpora are columns of CoNLL-2000: word, tag, chunk tag.",
    Reader.quadruples: "The corpora are quadruples: number, verb, noun, preposition, noun, V or N.",
}
# What is for English in the configs, and what there is instead for all other languages.
ENGLISH = {
    '[nlp.tokenizer]\n@tokenizers = "spacy_structlearn.english_tokenizer.v1"\n\n': "",
    'lang = "en"': 'lang = "{lang}"',
    'signature = "english"': 'signature = "shape"',
    "spacy_structlearn.collins_head_rules.v1": "spacy_structlearn.leftmost_head_rules.v1",
    "spacy_structlearn.english_role_labels.v1": "spacy_structlearn.role_labels.v1",
}
PREDICATE_TAGS = "predicate_tags = null"
TO_FILL_IN = (
    '# To be filled in: the tags of words that may be predicates, such as ["VVFIN"];\n'
    "# with --corpus `structlearn init-config` takes them from a DocBin with gold frames.\n"
)
LEMMATIZER = (
    '\n[components.srl_labeler.lemmatizer]\n@misc = "spacy_structlearn.english_lemmas.v1"\n'
)


def init_config_cli(
    component: Annotated[
        Component,
        typer.Argument(metavar="COMPONENT", help=f"One of: {', '.join(Component.__members__)}."),
    ],
    reader: Annotated[
        Reader, typer.Option(help="What the corpora are; `convert` makes DocBins of all others.")
    ] = Reader.docbin,
    architecture: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What it learns with, if not the usual: ConditionalGrammar, MEstimatedGrammar, "
            "SpanGrammar, NeuralGrammar or ISBN, for constituency_parser.",
        ),
    ] = None,
    lang: Annotated[str, typer.Option(help="The language, as spaCy abbreviates it.")] = "en",
    corpus: Annotated[
        Path | None,
        typer.Option(
            metavar="DOCBIN", help="For srl_labeler: predicates have the tags that they have here."
        ),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.")] = "-",
) -> None:
    """Print a config for `structlearn train` and `spacy train`.

    The corpora are named in training: --paths.train train.spacy --paths.dev dev.spacy

    For another language than English srl_labeler has to be told the tags of predicates, since no
    treebank names its verbs alike: give --corpus train.spacy, or fill them in.
    """
    if corpus is not None and component.value != "srl_labeler":
        raise typer.BadParameter("--corpus is for srl_labeler")
    known = ARCHITECTURES[component.value]
    if architecture is not None and architecture not in known:
        found = ", ".join(known) or "none"
        raise typer.BadParameter(
            f"--architecture of {component.value} can be: {found}. Without it the config has the "
            "usual one; all others go into the block of the model by hand."
        )
    tags = None if corpus is None else predicate_tags(corpus)
    write_text(output, config_text(component.value, reader, lang, tags, architecture))
    if output != STANDARD:
        print(output)


def predicate_tags(path: Path) -> Counter[str]:
    """How often the gold predicates of a DocBin have which tag, as `srl_labeler` reads tags.

    RAISES: SL010 if there is no such file, SL013 if it is no DocBin, SL074 if it has no predicates
    with tags.
    """
    from spacy.vocab import Vocab

    from ..pipeline import extensions
    from ._corpora import gold_docs

    found = Counter(
        tag
        for _, doc in gold_docs(Vocab(), path, Reader.docbin)
        for frame in extensions.frames(doc)
        for tag in extensions.constituent_tags(doc, [frame.predicate.start])
        if tag != extensions.UNKNOWN_TAG
    )
    if not found:
        raise StructlearnError("SL074", path=path)
    return found


def config_text(
    component: str,
    reader: Reader = Reader.docbin,
    lang: str = "en",
    tags: Mapping[str, int] | None = None,
    architecture: str | None = None,
) -> str:
    """The config of the package for a component, changed for this reader and language.

    tags: for srl_labeler, those of predicates and how often each is one. None: those of English
    verbs, or for other languages a note that they are to be filled in. architecture: one of
    `ARCHITECTURES`; None: the default.
    RAISES: SL062 if the component cannot be trained on what the reader reads.
    """
    suitable = SUITABLE[component]
    if reader not in suitable:
        known = ", ".join(choice.value for choice in suitable)
        raise StructlearnError("SL062", component=component, reader=reader.value, known=known)
    name = component if architecture is None else f"{component}.{architecture}"
    text = (CONFIGS / f"{name}.cfg").read_text(encoding="utf8")
    if reader is not Reader.docbin:
        text = _with_reader(text, component, reader)
    if lang != "en":
        for english, other in ENGLISH.items():
            text = text.replace(english, other.format(lang=lang))
        text = text.replace(PREDICATE_TAGS, TO_FILL_IN + PREDICATE_TAGS)
        text = text.replace(LEMMATIZER, "").replace(
            "bias = 0.0\n", "bias = 0.0\nlemmatizer = null\n"
        )
    if tags is not None:
        text = text.replace(TO_FILL_IN, "").replace(PREDICATE_TAGS, _predicate_tags(tags))
    return text


def _predicate_tags(tags: Mapping[str, int]) -> str:
    """The setting, the most frequent first, with what to judge it by."""
    ranked = sorted(tags, key=lambda tag: (-tags[tag], tag))
    counts = ", ".join(f"{tag} {tags[tag]:,}" for tag in ranked)
    about = f"The tags of gold predicates and how often each is one: {counts}. Leave out errors."
    # $ begins a variable, and what escapes it is read as one again when the config is stored.
    kept = [tag for tag in ranked if "$" not in tag]
    if left_out := [tag for tag in ranked if "$" in tag]:
        about += f" Left out, because a config cannot hold tags with $: {', '.join(left_out)}."
    lines = "".join(f"# {line}\n" for line in wrap(about, width=98))
    return f"{lines}predicate_tags = {json.dumps(kept, ensure_ascii=False)}"


def _with_reader(text: str, component: str, reader: Reader) -> str:
    comment, _, rest = text.partition("[paths]")
    if component == "srl_labeler":
        # Without the columns of PropBank there is nothing to learn from.
        rest = "\ntrain_props = null\ndev_props = null" + rest
    for name in ("train", "dev"):
        own = "spaces = null\nprops = null\n"
        if component == "srl_labeler":
            own = f"spaces = null\nprops = ${{paths.{name}_props}}\n"
        path = f"path = ${{paths.{name}}}\n"
        rest = rest.replace(path, path + own if reader is Reader.treebank else path)
    rest = rest.replace(REGISTERED[Reader.docbin], REGISTERED[reader])
    if reader is Reader.quadruples:
        rest = re.sub(r"(?m)^spans = .*\n", "", rest)
    return _comment(comment, reader) + "[paths]" + rest


def _comment(text: str, reader: Reader) -> str:
    """The sentences at the beginning of a config up to those on DocBins, then what is read here."""
    words = " ".join(line.lstrip("# ") for line in text.splitlines())
    about = words.partition(" The DocBins")[0]
    lines = wrap(f"{about} {ABOUT[reader]}", width=98)
    return "".join(f"# {line}\n" for line in lines)
