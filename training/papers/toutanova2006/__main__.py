"""Toutanova (2006): both of the paper's tasks, PP attachment and semantic roles.

    python corpora/fetch.py ppattach wsj_sample conll2000 ewt craft
    python -m training.papers.toutanova2006

Writes training/results/toutanova2006_pp.json, .md and .svg (tables 3, 4, 7 and 8, figure 2a), and
training/results/srl.json, .md and .svg (tables 5 to 8, figure 2b).

Parts of `--task pp`: `tables` of the paper; `best`, a model of lemmas, word classes and
conjunctions stacked on a network; `quadruples`, our quadruples from trees compared with the
original ones; `text`, whether PP attachment improves a parser on the English Web
Treebank.

Parts of `--task srl`: for core arguments of verbs in gold trees, `core`, the paper's models on the
English Web Treebank, `extra`, additional features, and `wsj`, both on the sample of the Wall Street
Journal; `trees`, a comparison of training trees, and of trees with re-attached phrases; `text`, the
roles predicted by the default pipeline.

`text` needs a trained default pipeline.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import srsly

from spacy_structlearn.display.networks import network_svg
from training.common.recording import CORPORA, RESULTS, WORK, clean_commit, record
from training.common.report import flat
from training.papers.toutanova2006 import attachment, attachment_text, roles, roles_text
from training.papers.toutanova2006.report import pp_page, srl_page
from training.papers.toutanova2006.role_items import read_ewt, read_wsj

PARTS = {
    "pp": ("tables", "best", "quadruples", "text"),
    "srl": ("core", "extra", "wsj", "trees", "text"),
}

Part = Callable[[], dict[str, Any]]


def pp(args: argparse.Namespace) -> None:
    """Run the experiments on PP attachment."""
    corpora = args.corpora
    parts: dict[str, Part] = {
        "tables": lambda: attachment.tables(corpora),
        "best": lambda: attachment.best(corpora),
        "quadruples": lambda: attachment.quadruples(corpora),
        "text": lambda: attachment_text.text(corpora, args.work, args.jobs),
    }
    run("toutanova2006_pp", parts, args.only)
    figures = recorded("toutanova2006_pp")
    if "structure" in figures:  # from the part `tables`
        page = pp_page(figures, attachment.CLAIMS)
        write("toutanova2006_pp", page, figures["structure"], "y")


def srl(args: argparse.Namespace) -> None:
    """Run the experiments on semantic roles."""
    parts: dict[str, Part] = {
        "core": lambda: roles.core(read_ewt(args.corpora)),
        "extra": lambda: roles.extra(read_ewt(args.corpora)),
        "wsj": lambda: roles.both(read_wsj(args.corpora), "wsj."),
        "trees": lambda: roles_text.trees(args.corpora, args.work, args.jobs),
        "text": lambda: roles_text.text(args.corpora, args.work),
    }
    run("srl", parts, args.only)
    figures = recorded("srl")
    if "core.structure" in figures and "wsj.core.structure" in figures:
        page = srl_page(figures, roles.CLAIMS)
        write("srl", page, figures["core.structure"], "role")


def run(name: str, parts: Mapping[str, Part], only: str | None) -> None:
    """Run all parts, or one, and record the figures after each part."""
    for part, figures in parts.items():
        if only in (None, part):
            record(name, figures())


def recorded(name: str) -> dict[str, Any]:
    path = RESULTS / f"{name}.json"
    return flat(srsly.read_json(path)) if path.exists() else {}


def write(name: str, page: str, structure: Mapping[str, str], target: str) -> None:
    """Write the report, and draw the network."""
    (RESULTS / f"{name}.md").write_text(page, encoding="utf8")
    parents = {variable: parents.split() for variable, parents in structure.items()}
    svg = network_svg(parents, target=target)
    (RESULTS / f"{name}.svg").write_text(svg, encoding="utf8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpora", type=Path, default=CORPORA, help="default: %(default)s")
    parser.add_argument("--work", type=Path, default=WORK, help="cache of `text` and `trees`")
    parser.add_argument("--jobs", type=int, default=1, help="number of threads or processes")
    parser.add_argument("--task", choices=PARTS, help="one task; default: both")
    parser.add_argument(
        "--only", choices=sorted({*PARTS["pp"], *PARTS["srl"]}), help="one part; default: all"
    )
    args = parser.parse_args()
    clean_commit()
    for task, own in {"pp": pp, "srl": srl}.items():
        if args.task in (None, task) and (args.only is None or args.only in PARTS[task]):
            own(args)


if __name__ == "__main__":
    main()
