"""`structlearn init-config`: a config to train a component with, from those in the package."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import Path
from textwrap import wrap
from typing import Annotated

import typer

from ..errors import StructlearnError
from ._corpora import Reader
from ._files import STANDARD, write_text

CONFIGS = Path(__file__).parent.parent / "pipeline" / "configs"
Component = Enum("Component", {path.stem: path.stem for path in sorted(CONFIGS.glob("*.cfg"))})
REGISTERED = {
    Reader.docbin: "DocBin.v1",
    Reader.treebank: "Treebank.v1",
    Reader.conll2000: "ConllChunks.v1",
    Reader.quadruples: "PPQuadruples.v1",
}
SUITABLE = {
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
    'lang = "en"': 'lang = "{lang}"',
    'signature = "english"': 'signature = "shape"',
    "spacy_structlearn.collins_head_rules.v1": "spacy_structlearn.leftmost_head_rules.v1",
    "spacy_structlearn.english_role_labels.v1": "spacy_structlearn.role_labels.v1",
    "predicate_tags = null": (
        '# To be filled in: the tags of words that may be predicates, such as ["VVFIN"].\n'
        "predicate_tags = null"
    ),
}
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
    lang: Annotated[str, typer.Option(help="The language, as spaCy abbreviates it.")] = "en",
    output: Annotated[str, typer.Option("--output", "-o", help="A file, or - for stdout.")] = "-",
) -> None:
    """Print a config for `structlearn train` and `spacy train`.

    The corpora are named in training: --paths.train train.spacy --paths.dev dev.spacy
    """
    write_text(output, config_text(component.value, reader, lang))
    if output != STANDARD:
        print(output)


def config_text(component: str, reader: Reader = Reader.docbin, lang: str = "en") -> str:
    """The config of the package for a component, changed for this reader and language.

    RAISES: SL062 if the component cannot be trained on what the reader reads.
    """
    suitable = SUITABLE[component]
    if reader not in suitable:
        known = ", ".join(choice.value for choice in suitable)
        raise StructlearnError("SL062", component=component, reader=reader.value, known=known)
    text = (CONFIGS / f"{component}.cfg").read_text(encoding="utf8")
    if reader is not Reader.docbin:
        text = _with_reader(text, component, reader)
    if lang != "en":
        for english, other in ENGLISH.items():
            text = text.replace(english, other.format(lang=lang))
        text = text.replace(LEMMATIZER, "").replace(
            "bias = 0.0\n", "bias = 0.0\nlemmatizer = null\n"
        )
    return text


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
