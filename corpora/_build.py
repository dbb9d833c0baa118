"""Build the files of each corpus from members of its sources. A builder takes `Members` by source
name and a `report` function that prints lines, and returns a dict from file names to contents; the
caller compresses files named .gz. In all splits, missing documents are reported and skipped."""

import json
import re
from collections.abc import Callable, Iterable, Sequence

from _archives import Members
from _download import FetchError
from _formats import (
    TAG,
    WORD,
    Rows,
    conllu_sentences,
    escape_brackets,
    mrg_trees,
    paragraph_starts,
    props_block,
    raw_line,
    skeleton_sentences,
    tree_line,
    ud_block,
)
from _languages import ICEPAHC_DEV, ICEPAHC_TEST, greynir_trees, icepahc_trees, icon_trees
from _mctb import converted, read_tree
from _raw_text import parsed as parsed_xml
from _raw_text import raw_text_files
from _wsj_sample import align

Sources = dict[str, Members]
Report = Callable[[str], None]
Files = dict[str, str | bytes]

SPLITS = ("train", "dev", "test")
HELD_OUT = "test"


def present(
    split: str, documents: Iterable[str], exists: Callable[[str], bool], report: Report
) -> list[str]:
    """Return the existing documents of a split. Only the whole test split may be missing."""
    documents = list(documents)
    found = [document for document in documents if exists(document)]
    if missing := len(documents) - len(found):
        total = len(documents)
        report(f"{split}: {missing} of {total} documents are not in the source, passed over")
    if not found and split != HELD_OUT:
        raise FetchError(f"the source has no document of the {split} split")
    return found


def copy_members(members: Members, names: dict[str, str]) -> Files:
    return {file: members.read(member) for file, member in names.items()}


def build_conll2000(sources: Sources, report: Report) -> Files:
    names = {
        "train.txt.gz": "train.txt",
        "test.txt.gz": "test.txt",
        "README.original.txt": "README",
    }
    return copy_members(sources["nltk_conll2000"], names)


def build_ppattach(sources: Sources, report: Report) -> Files:
    names = {name: name for name in ("training", "devset", "test")}
    names |= {"bitstrings.gz": "bitstrings", "README.original.txt": "README"}
    return copy_members(sources["nltk_ppattach"], names)


def build_ewt(sources: Sources, report: Report) -> Files:
    """Build EWT from PropBank skeletons, the words of UD r1.4, and the spacing and dependencies of
    UD r2.6."""
    propbank, words, spacing = (sources[n] for n in ("propbank", "ud_ewt_r1_4", "ud_ewt_r2_6"))
    files: Files = {}
    for split in SPLITS:
        names = propbank.text(f"docs/evaluation/ewt.{split}.txt").split()
        documents = present(
            split,
            (name.removesuffix(".conllu") for name in names),
            lambda d: (
                ewt_skeleton(d) in propbank and all(ewt_conllu(d) in m for m in (words, spacing))
            ),
            report,
        )
        parts: dict[str, list[str]] = {}
        for document in documents:
            found = ewt_document(document, propbank, words, spacing, held_out=split == HELD_OUT)
            if found is None:
                report(f"{split}: the sources disagree on the tokens of {document}, passed over")
                continue
            for kind, text in found.items():
                parts.setdefault(kind, []).append(text)
        files |= {f"{split}.{kind}.gz": "".join(texts) for kind, texts in parts.items()}
        if sentences := re.split(r"(?<=\n)\n", "".join(parts.get("ud", ())))[:-1]:
            without = sum(sentence.startswith("_\t") for sentence in sentences)
            report(f"{split}: {without} of {len(sentences)} sentences have other tokens in UD")
        if split == "train":
            tune = documents[9::10]
            files["tune.txt"] = "".join(f"{ewt_name(document)}\n" for document in tune)
    return files


def ewt_document(
    document: str, propbank: Members, words: Members, spacing: Members, *, held_out: bool
) -> dict[str, str] | None:
    """Return the trees, props, spaces, raw text and, unless it is held out, the UD columns of a
    document; None if its tokens differ in the sources."""
    name = ewt_conllu(document)
    skeleton = propbank.text(ewt_skeleton(document), held_out=held_out)
    sentences = skeleton_sentences(skeleton, document)
    rows = conllu_sentences(words.text(name, held_out=held_out), name)
    forms = [[row[1] for row in own] for own in rows]
    shape = [len(own) for own in sentences]
    newer = spacing.text(name, held_out=held_out)
    digits = spacing_lines(newer, name, shape)
    if shape != [len(own) for own in forms] or digits is None:
        return None
    for own, own_forms in zip(sentences, forms, strict=True):
        for row, form in zip(own, own_forms, strict=True):
            row[WORD] = escape_brackets(form)
    built = {
        "trees": "".join(map(tree_line, sentences)),
        "props": "".join(map(props_block, sentences)),
        "spaces": "".join(f"{line}\n" for line in digits),
        "raw.jsonl": raw_line(ewt_name(document), forms, digits),
    }
    if not held_out:
        built["ud"] = "".join(map(ud_block, conllu_sentences(newer, name), shape))
    return built


def ewt_skeleton(document: str) -> str:
    return f"data/google/ewt/{document}.gold_skel"


def ewt_name(document: str) -> str:
    """Return the name of a document as in the first column of the skeletons."""
    return f"google/ewt/{document}"


def ewt_conllu(document: str) -> str:
    genre, _, name = document.split("/")
    return f"not-to-release/sources/{genre}/{name}.conllu"


def spacing_lines(text: str, name: str, shape: Sequence[int]) -> list[str] | None:
    """Return one digit per token, a key of GAPS, for each sentence of a CoNLL-U file. `shape` is
    the number of tokens of each sentence. Return None if the number of sentences differs.

    Nothing follows the last token of the document."""
    sentences = conllu_sentences(text, name)
    if not sentences or len(sentences) != len(shape):
        return None
    lines = [space_line(rows, tokens) for rows, tokens in zip(sentences, shape, strict=True)]
    for i, begins in enumerate(paragraph_starts(text)[1:]):
        if begins:
            lines[i] = lines[i][:-1] + "2"
    lines[-1] = lines[-1][:-1] + "0"
    return lines


def space_line(rows: Rows, tokens: int) -> str:
    """Return one digit per token. If the tokenisation differs, a blank follows each token."""
    if len(rows) != tokens:
        return "1" * tokens
    return "".join("0" if "SpaceAfter=No" in row[9] else "1" for row in rows)


def build_craft(sources: Sources, report: Report) -> Files:
    """Build CRAFT: one tree per line as in the source, without blanks inside leaves."""
    craft = sources["craft"]
    files: Files = {}
    for split in SPLITS:
        articles = craft.text(f"articles/ids/craft-ids-{split}.txt").split()
        trees: list[str] = []
        index = ["#tree\tarticle\ttree_in_article\n"]
        for article in present(split, articles, lambda a: craft_trees(a) in craft, report):
            text = craft.text(craft_trees(article), held_out=split == HELD_OUT)
            # Readers that use str.split would split leaves at no-break, thin or hair spaces.
            text = re.sub("[\u00a0\u2009\u200a]", "", text)
            lines = (line.rstrip() for line in text.split("\n"))
            for number, line in enumerate(line for line in lines if line):
                index.append(f"{len(trees)}\t{article}\t{number}\n")
                trees.append(line + "\n")
        if trees:
            files[f"{split}.trees.gz"] = "".join(trees)
            files[f"{split}.index.tsv.gz"] = "".join(index)
    return files


def craft_trees(article: str) -> str:
    return f"structural-annotation/treebank/penn/{article}.tree"


MCTB_DOMAINS = ("dialogue", "forum", "law", "literature", "review")
MCTB_TRAIN = 800  # the first trees of a domain, in the order of the source, which has no documents


def build_mctb(sources: Sources, report: Report) -> Files:
    """Build each domain of MCTB_en in the conventions of EWT, and unchanged."""
    mctb = sources["mctb"]
    files: Files = {"LICENSE.original.txt": mctb.read("LICENSE")}
    for domain in MCTB_DOMAINS:
        name = f"data/MCTB_en/{domain}.cleaned.txt"
        text = mctb.text(name)
        lines = (line for line in text.split("\n") if line.strip())
        trees = [f"{converted(read_tree(line, name))}\n" for line in lines]
        files[f"{domain}.train.trees.gz"] = "".join(trees[:MCTB_TRAIN])
        files[f"{domain}.dev.trees.gz"] = "".join(trees[MCTB_TRAIN:])
        files[f"{domain}.original.trees.gz"] = text
    return files


MCTB_PARSERS = {"in_order": "inorder", "in_order_bert": "inorder_bert"}


def build_mctb_outputs(sources: Sources, report: Report) -> Files:
    """Build the trees that the parsers of Yang et al. predicted for dev of MCTB_en, unchanged."""
    mctb = sources["mctb"]
    files: Files = {"LICENSE.original.txt": mctb.read("LICENSE")}
    for domain in MCTB_DOMAINS:
        for name, ending in MCTB_PARSERS.items():
            text = mctb.text(f"data/parsed_outputs/mctb_{domain}.{ending}")
            lines = [f"{line}\n" for line in text.split("\n") if line.strip()]
            files[f"{domain}.{name}.trees.gz"] = "".join(lines[MCTB_TRAIN:])
    return files


# The lists of OntoNotes have other splits than the usual sections for parsing.
WSJ_SECTIONS = {
    "train": [f"{number:02}" for number in range(2, 22)],
    "dev": ["22", "24"],
    "test": ["23"],
}


def build_wsj_skeleton(sources: Sources, report: Report) -> Files:
    """Build trees over POS tags. A tag replaces its word, which the source lacks."""
    propbank = sources["propbank"]
    files: Files = {}
    for split, sections in WSJ_SECTIONS.items():
        listed = propbank.text(f"docs/evaluation/ontonotes-{split}-list.txt").split()
        documents = sorted(name for name in listed if wsj_section(name) in sections)
        trees, index = [], []
        for document in present(split, documents, lambda d: wsj_member(d) in propbank, report):
            text = propbank.text(wsj_member(document), held_out=split == HELD_OUT)
            for rows in skeleton_sentences(text, document):
                for row in rows:
                    row[WORD] = row[TAG]
                trees.append(tree_line(rows))
                index.append(f"{wsj_section(document)}\t{document.rpartition('/')[2]}\n")
        if trees:
            files[f"{split}.postrees.gz"] = "".join(trees)
            files[f"{split}.index.tsv.gz"] = "".join(index)
    return files


def wsj_member(document: str) -> str:
    return f"data/{document}.gold_skel"


def wsj_section(document: str) -> str | None:
    match = re.fullmatch(r"ontonotes/nw/wsj/(\d\d)/wsj_\d{4}", document)
    return match[1] if match else None


SAMPLE_SPLITS = {"train": (1, 159), "dev": (160, 179), "test": (180, 199)}


def build_wsj_sample(sources: Sources, report: Report) -> Files:
    """Build NLTK's treebank sample, with PropBank for files that are also in OntoNotes."""
    sample, propbank = sources["nltk_treebank"], sources["propbank"]
    names = [name for name in sample if name.endswith(".mrg")]
    texts = {name.rpartition("/")[2].removesuffix(".mrg"): sample.text(name) for name in names}
    trees = {file: mrg_trees(text, file) for file, text in texts.items()}
    first_tree: dict[str, int] = {}
    index = ["#tree\tfile\ttree_in_file\ttokens\tleaves_with_traces\n"]
    for file, parsed in trees.items():
        first_tree[file] = len(index) - 1
        for number, tree in enumerate(parsed):
            sizes = f"{len(tree.tokens)}\t{len(tree.leaves)}"
            index.append(f"{len(index) - 1}\t{file}\t{number}\t{sizes}\n")
    return {
        "README.original.txt": sample.read("combined/README"),
        "trees.mrg.gz": "".join(texts.values()),
        "trees.index.tsv": "".join(index),
        "split.json": sample_split(trees),
    } | sample_props(trees, first_tree, propbank, report)


def sample_split(trees: dict) -> str:
    splits = {}
    for split, (first, last) in SAMPLE_SPLITS.items():
        chosen = [t for file in trees if first <= int(file[-4:]) <= last for t in trees[file]]
        splits[split] = {
            "files": [first, last],
            "sentences": len(chosen),
            "tokens": sum(len(tree.tokens) for tree in chosen),
            "multi_root": sum(tree.roots > 1 for tree in chosen),
        }
    rule = "NLTK treebank sample, wsj_0001-0199; split by file number"
    return json.dumps({"rule": rule, "splits": splits}, indent=1)


def sample_props(trees: dict, first_tree: dict, propbank: Members, report: Report) -> Files:
    """Align the words of tree i with sentence i of the skeleton of each file."""
    listed = propbank.text("docs/evaluation/ontonotes-dev-list.txt").split()
    documents = sorted(name for name in listed if name.rpartition("/")[2] in trees)
    documents = present("props", documents, lambda d: wsj_member(d) in propbank, report)
    props: list[str] = []
    index = ["#file\tskeleton_sent\ttree\ttree_in_file\tmode\tpos_cost\n"]
    for document in documents:
        file = document.rpartition("/")[2]
        sentences = skeleton_sentences(propbank.text(wsj_member(document)), document)
        if len(sentences) != len(trees[file]):
            found = f"{len(sentences)} sentences for {len(trees[file])} trees"
            raise FetchError(f"{document}: {found}")
        for number, (rows, tree) in enumerate(zip(sentences, trees[file], strict=True)):
            aligned = align(tree.tokens, [row[TAG] for row in rows])
            if aligned is None:
                report(f"props: {file} sentence {number} cannot be aligned, left out")
                continue
            words, cost = aligned
            for row, word in zip(rows, words, strict=True):
                row[WORD] = word
            mode = "exact" if len(rows) == len(tree.tokens) else "split"
            where = f"{file}\t{number}\t{first_tree[file] + number}\t{number}"
            index.append(f"{where}\t{mode}\t{cost}\n")
            props.append(props_block(rows))
    return {"props.conll.gz": "".join(props), "props.index.tsv": "".join(index)}


def build_propbank_frames(sources: Sources, report: Report) -> Files:
    """Build a table of rolesets and what they mean, the names that the frames give them."""
    frames = sources["propbank_frames"]
    meanings: dict[str, str] = {}
    for name in frames:
        for roleset in parsed_xml(frames.text(name), name).iter("roleset"):
            meanings[roleset.get("id", "")] = " ".join(roleset.get("name", "").split())
    lines = (f"{roleset}\t{meaning}\n" for roleset, meaning in sorted(meanings.items()))
    return {"rolesets.tsv": "".join(lines)}


def build_raw_text(sources: Sources, report: Report) -> Files:
    """Build the prose of each source, and report the number of words."""
    files = raw_text_files(sources)
    sizes = [line.split("\t") for line in files["counts.tsv"].splitlines()[1:]]
    report(f"{sum(int(words) for _, _, words in sizes)} words from {len(sizes)} sources")
    return dict(files)


def build_indonesian(sources: Sources, report: Report) -> Files:
    """Build the trees of ICON, in its own split."""
    icon = sources["icon"]
    files: Files = {"LICENSE.original.txt": icon.read("id/constituency/LICENSE")}
    for split in SPLITS:
        name = f"id/constituency/{split}.txt"
        trees = icon_trees(icon.text(name, held_out=split == HELD_OUT), name)
        files[f"{split}.trees.gz"] = "".join(trees)
    return files


def build_greynir(sources: Sources, report: Report) -> Files:
    """Build the gold trees of GreynirCorpus. Every tenth file of its development set is dev, the
    others are train."""
    greynir = sources["greynir"]
    files: Files = {"LICENSE.original.txt": greynir.read("LICENSE.txt")}
    known = [name for name in greynir if name.startswith("devset/")]
    dev = known[9::10]
    splits = {
        "train": [name for name in known if name not in dev],
        "dev": dev,
        "test": [name for name in greynir if name.startswith("testset/")],
    }
    for split, names in splits.items():
        texts = ((name, greynir.text(name, held_out=split == HELD_OUT)) for name in names)
        files[f"{split}.trees.gz"] = "".join(
            tree for name, text in texts for tree in greynir_trees(text, name)
        )
    return files


def build_icepahc(sources: Sources, report: Report) -> Files:
    """Build the trees of IcePaHC in the split of UD_Icelandic-IcePaHC, which is one of texts."""
    icepahc = sources["icepahc"]
    files: Files = {"LICENSE.original.txt": icepahc.read("cc-by-4.0.txt")}
    texts = {name.rpartition("/")[2].removesuffix(".psd"): name for name in icepahc}
    del texts["cc-by-4.0.txt"]
    splits = {"dev": ICEPAHC_DEV, "test": ICEPAHC_TEST}
    splits["train"] = tuple(text for text in texts if text not in (*ICEPAHC_DEV, *ICEPAHC_TEST))
    for split, wanted in splits.items():
        trees: list[str] = []
        index = ["#tree\ttext\n"]
        for text in present(split, wanted, texts.__contains__, report):
            content = icepahc.text(texts[text], held_out=split == HELD_OUT)
            own = icepahc_trees(content, texts[text])
            index += (f"{len(trees) + i}\t{text}\n" for i in range(len(own)))
            trees += own
        if trees:
            files[f"{split}.trees.gz"] = "".join(trees)
            files[f"{split}.index.tsv.gz"] = "".join(index)
    return files


BUILDERS: dict[str, Callable[[Sources, Report], Files]] = {
    "conll2000": build_conll2000,
    "ppattach": build_ppattach,
    "wsj_sample": build_wsj_sample,
    "ewt": build_ewt,
    "craft": build_craft,
    "mctb": build_mctb,
    "mctb_outputs": build_mctb_outputs,
    "wsj_skeleton": build_wsj_skeleton,
    "propbank_frames": build_propbank_frames,
    "raw_text": build_raw_text,
    "indonesian": build_indonesian,
    "greynir": build_greynir,
    "icepahc": build_icepahc,
}
