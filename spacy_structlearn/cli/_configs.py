"""The configs of `init-config`: defaults, changed by a file of the package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import reduce
from itertools import takewhile
from pathlib import Path
from textwrap import wrap
from typing import Any

import spacy
from confection import Config
from spacy.util import combine_score_weights, get_lang_class, registry

from ..errors import StructlearnError
from ..learning.settings import reference
from ._corpora import Reader
from ._files import BASE, CONFIGS

REGISTERED = {
    Reader.docbin: "spacy_structlearn.DocBin.v1",
    Reader.treebank: "spacy_structlearn.Treebank.v1",
    Reader.conll2000: "spacy_structlearn.ConllChunks.v1",
    Reader.quadruples: "spacy_structlearn.PPQuadruples.v1",
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
    Reader.treebank: "The corpora contain trees in Penn brackets.",
    Reader.conll2000: "The corpora have the columns of CoNLL-2000: word, tag, chunk tag.",
    Reader.quadruples: "The corpora are quadruples: number, verb, noun, preposition, noun, V or N.",
}
# Settings for English, and their replacements for other languages.
ENGLISH = {
    "english": "shape",  # signatures of unknown words
    "spacy_structlearn.collins_head_rules.v1": "spacy_structlearn.leftmost_head_rules.v1",
    "spacy_structlearn.english_role_labels.v1": "spacy_structlearn.role_labels.v1",
}
ENGLISH_BLOCKS = ("spacy_structlearn.english_tokenizer.v1", "spacy_structlearn.english_lemmas.v1")
TO_FILL_IN = [
    'To be filled in: the tags of words that can be predicates, such as ["VVFIN"];',
    "with --corpus, `structlearn init-config` takes them from a DocBin with gold frames.",
]
CROSS_PREDICTED = "spacy_structlearn.CrossPredicted.v1"
TAGGER, PARSER = "chain_tagger", "constituency_parser"
TRAINED_ON_PREDICTIONS = {"np_chunker", "srl_labeler"}
TOGETHER = [
    "The components are trained together. The corpora contain the gold annotation of all of them.",
    "Each component is trained and scored on what the components before it predict, and not on",
    "their gold annotation. For training, each document is annotated by components that were",
    "trained on the other documents.",
]
Comments = dict[tuple[str, str], list[str]]
"""Lines before a setting, by section and name; the name is "" before a section."""
_WIDTH = 98


def predicate_tags(path: Path) -> Counter[str]:
    """Count the tags of the gold predicates of a DocBin, as `srl_labeler` reads tags.

    Raises StructlearnError if the file is missing or damaged, or has no predicates with tags.
    """
    from spacy.vocab import Vocab

    from ..pipeline import extensions
    from ._corpora import gold_docs

    counts = Counter(
        tag
        for _, doc in gold_docs(Vocab(), path, Reader.docbin)
        for frame in extensions.frames(doc)
        for tag in extensions.constituent_tags(doc, [frame.predicate.start])
        if tag != extensions.brackets.UNKNOWN_TAG
    )
    if not counts:
        raise StructlearnError("SL074", path=path)
    return counts


def config_text(
    components: str | Iterable[str],
    reader: Reader = Reader.docbin,
    lang: str = "en",
    tags: Mapping[str, int] | None = None,
    architecture: str | None = None,
) -> str:
    """Write a config for one component or several, with all settings of factories and models.

    tags: for srl_labeler, the tags of predicates with their counts. None: the tags of English
        verbs, or a note to fill them in for other languages.
    architecture: one of `ARCHITECTURES` of one component. None: the default.
    Raises StructlearnError if a component cannot be trained on the format of the reader, and
    ImportError (E048) if spaCy has no such language.
    """
    chosen = {components} if isinstance(components, str) else set(components)
    names = [name for name in SUITABLE if name in chosen]
    base, comments, about = _read(BASE)
    parts, weights = [], []
    for name in names:
        if reader not in SUITABLE[name]:
            known = ", ".join(choice.value for choice in SUITABLE[name])
            raise StructlearnError("SL062", component=name, reader=reader.value, known=known)
        own = f"{name}.{architecture}"
        given, more, about = _read(own if (CONFIGS / f"{own}.cfg").exists() else name)
        comments |= more
        factory = spacy.blank("xx").get_factory_meta(name)  # also finds entry points
        defaults = {key: of for key, of in factory.default_config.items() if key != "scorer"}
        base["components"][name] = {"factory": name, **deepcopy(defaults)}
        parts.append(given)
        weights.append(dict(factory.default_score_weights))
    config = reduce(Config.merge, parts, base)
    spacys = get_lang_class(lang).default_config  # raises ImportError if there is no such language
    config["nlp"].update(lang=lang, pipeline=names)
    _add_corpora(config, names, reader)
    if len(names) > 1:
        about = TOGETHER
        comments.pop(("training", "max_steps"), None)
        every = [Config.merge(base, part)["training"]["max_steps"] for part in parts]
        config["training"]["max_steps"] = max(every)
        _join(config["components"])
    if lang != "en":
        config = Config(_translated(config))
    for name in names:
        section, place = config["components"][name], f"components.{name}"
        if name == "srl_labeler" and lang != "en":
            comments[place, "predicate_tags"] = TO_FILL_IN
        if name == "srl_labeler" and tags is not None:
            section["predicate_tags"], comments[place, "predicate_tags"] = _predicate_tags(tags)
        section["model"] = registry.fill({"model": section["model"]}, validate=False)["model"]
        _link_seeds(section)
        comments |= _explained(section["model"], f"{place}.model", set())
    config["training"]["score_weights"] = combine_score_weights(weights)
    if reader is not Reader.docbin:
        about = wrap(f"{' '.join(about).partition(' The DocBins')[0]} {ABOUT[reader]}", _WIDTH)
    config = spacys.merge(config)  # `spacy debug` and `spacy assemble` need all settings
    lines = _commented(Config(_in_order(config, base)).to_str().splitlines(), comments)
    return "\n".join([*(f"# {line}" for line in about), *lines, ""])


def _join(components: dict[str, Any]) -> None:
    """Let all components use the same tags: those of the parser, which reads the tagger's."""
    if PARSER in components and components.keys() & {TAGGER, "np_chunker"}:
        components[PARSER]["set_tags"] = True
    if PARSER in components and TAGGER in components:
        components[PARSER]["tags"] = "prior"


def _read(name: str) -> tuple[Config, Comments, list[str]]:
    """Read a config of the package, its comments, and the comments at its beginning."""
    text = (CONFIGS / f"{name}.cfg").read_text(encoding="utf8")
    lines = text.splitlines()
    about = [line[2:] for line in takewhile(lambda line: line.startswith("#"), lines)]
    comments: Comments = {}
    section, held = "", []
    for line in lines[len(about) :]:
        if line.startswith("# "):
            held.append(line[2:])
            continue
        key = ""
        if line.startswith("["):
            section = line.strip("[]")
        else:
            key = line.partition(" = ")[0]
        if held and line:
            comments[section, key], held = held, []
    return Config().from_str(text, interpolate=False), comments, about


def _in_order(value: Any, like: Any) -> Any:
    """Sort the keys of a config like those of `like`, and put other keys last."""
    if not isinstance(value, dict) or not isinstance(like, dict):
        return value
    keys = [key for key in like if key in value]
    return {key: _in_order(value[key], like.get(key)) for key in dict.fromkeys([*keys, *value])}


def _add_corpora(config: Config, components: list[str], reader: Reader) -> None:
    """Add the readers with all their settings."""
    given = config["corpora"]
    together = len(components) > 1
    annotating = [name for name in (TAGGER, PARSER) if together and name in components]
    for name in ("train", "dev"):
        own = {"@readers": REGISTERED[reader], **given.get(name, {})}
        if annotating:
            own["tags"] = False
        if reader is Reader.quadruples or PARSER in annotating:
            own.pop("spans", None)
        filled = registry.fill({"corpus": {**own, "path": "path"}}, validate=False)["corpus"]
        given[name] = {**filled, "path": f"${{paths.{name}}}"}
        if "seed" in given[name]:
            given[name]["seed"] = "${system.seed}"
        if "srl_labeler" in components and reader is Reader.treebank:
            # The roles are only in the columns of PropBank.
            config["paths"][f"{name}_props"] = None
            given[name]["props"] = f"${{paths.{name}_props}}"
    if annotating and TRAINED_ON_PREDICTIONS.intersection(components):
        wrapped = {"@readers": CROSS_PREDICTED, "annotating": annotating, "corpus": {}}
        filled = registry.fill({"corpus": wrapped}, validate=False)["corpus"]
        given["train"] = {**filled, "seed": "${system.seed}", "corpus": given["train"]}


def _translated(value: Any) -> Any:
    """Replace or remove the settings for English in a config or a part of one."""
    if isinstance(value, dict):
        if ENGLISH_BLOCKS[1] in value.values():
            return None
        return {key: _translated(of) for key, of in value.items() if key != "tokenizer"}
    return ENGLISH.get(value, value) if isinstance(value, str) else value


def _link_seeds(section: dict[str, Any]) -> None:
    """Replace all seeds by a reference to the seed of the system."""
    for key, value in section.items():
        if key == "seed":
            section[key] = "${system.seed}"
        elif isinstance(value, dict):
            _link_seeds(value)


def _explained(block: dict[str, Any], place: str, known: set[str]) -> Comments:
    """Explain the settings of an architecture and of its inner architectures, each one once."""
    comments: Comments = {}
    name = block.get("@architectures")
    settings = getattr(registry.architectures.get(name), "settings", None) if name else None
    if settings is not None and name not in known:
        known.add(name)
        for setting, _, _, text in reference(settings):
            comments[place, setting] = wrap(f"{setting}: {text}", width=_WIDTH)
    for key, value in block.items():
        if isinstance(value, dict):
            comments |= _explained(value, f"{place}.{key}", known)
    return comments


def _commented(text: Iterable[str], comments: Comments) -> list[str]:
    """Insert comments before the settings and sections of a config."""
    lines, section = [], ""
    for line in text:
        key = line.partition(" = ")[0]
        if line.startswith("["):
            section, key = line.strip("[]"), ""
        if line:
            lines += [f"# {comment}" for comment in comments.get((section, key), ())]
        lines.append(line)
    return lines


def _predicate_tags(tags: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Return the setting, sorted by frequency, and a comment with the counts."""
    ranked = sorted(tags, key=lambda tag: (-tags[tag], tag))
    counts = ", ".join(f"{tag} {tags[tag]:,}" for tag in ranked)
    about = f"The tags of gold predicates with their frequencies: {counts}. Remove errors."
    # $ begins a variable, even an escaped $ after the config is stored and read again.
    if left_out := [tag for tag in ranked if "$" in tag]:
        about += f" Omitted, because a config cannot contain tags with $: {', '.join(left_out)}."
    return [tag for tag in ranked if "$" not in tag], wrap(about, width=_WIDTH)
