"""The README's tables, made from training/results/*.json: `python training/tables.py`.

A table stands between two HTML comments, `<!-- table NAME -->` and `<!-- end -->`, and is replaced
as a whole. With --check nothing is written, and the exit status says whether all are up to date.
"""

from __future__ import annotations

import argparse
import re
import sys
from functools import reduce
from typing import Any

import srsly
from recording import RESULTS, ROOT

README = ROOT / "README.md"
# Rows of each table: text, and the key of each figure with the format of its cell.
TABLES = {
    "conll2000": {
        "header": ["CoNLL-2000, NP chunks", "test F1", "training, CPU s", "features"],
        "rows": [
            (
                "first-order CRF, 7,936 sentences",
                [
                    ("chunking", "crf1.test_f1", "{:.2f}"),
                    ("chunking", "crf1.train_cpu_s", "{:.0f}"),
                    ("chunking", "crf1.features", "{:,.0f}"),
                ],
            ),
            *(
                (
                    text,
                    [
                        ("chunking", f"{key}.test_f1", "{:.2f}"),
                        ("chunking", f"{key}.train_cpu_s", "{:.0f}"),
                        ("chunking", f"{key}.features", "{:,.0f}"),
                    ],
                )
                for text, key in (
                    ("label pairs, 7,936 sentences", "crf2"),
                    ("averaged perceptron, label pairs, 7,936 sentences", "perceptron"),
                    ("second-order HMM, 7,936 sentences", "hmm"),
                    ("label pairs, all 8,936 sentences", "crf2.full"),
                    ("word classes, shapes, IOBES, all 8,936 sentences", "best.full"),
                    ("all eleven chunk types, first order, all sentences", "all_chunks"),
                )
            ),
        ],
    },
    "peers": {
        "header": ["beside CRFsuite, same features and objective", "ratio"],
        "rows": [
            (
                "CPU time of an iteration: CRFsuite over ours",
                [("chunking", "ratio.cpu_per_iteration.crfsuite_over_ours", "{:.1f}")],
            ),
            (
                "CPU time of training to the same loss: CRFsuite over ours",
                [("chunking", "ratio.train_cpu.crfsuite_over_ours", "{:.1f}")],
            ),
            (
                "peak memory of training: CRFsuite over ours",
                [("chunking", "ratio.peak_rss.crfsuite_over_ours", "{:.1f}")],
            ),
            (
                "tokens a CPU second in prediction: ours over CRFsuite",
                [("chunking", "ratio.tagging.ours_over_crfsuite", "{:.1f}")],
            ),
            (
                "time of a gradient: one thread over two",
                [("chunking", "ratio.threads_2_over_1", "{:.2f}")],
            ),
        ],
    },
    "ewt": {
        "header": ["English Web Treebank, dev", "figure"],
        "rows": [
            (
                "NP chunks, F1: gold tokens and tags",
                [("chunking", "ewt.dev_f1.gold_tags", "{:.2f}")],
            ),
            (
                "NP chunks, F1: gold tokens, predicted tags",
                [("chunking", "ewt.dev_f1.predicted_tags", "{:.2f}")],
            ),
            (
                "the same, trained on gold tags instead of jackknifed ones",
                [("chunking", "ewt.dev_f1.no_jackknife", "{:.2f}")],
            ),
            (
                "NP chunks, F1: raw text",
                [("chunking", "pipeline.raw.np_chunk_f1", "{:.2f}")],
            ),
            ("tags, accuracy: gold tokens", [("chunking", "tagger.ewt_dev_acc", "{:.2f}")]),
            ("sentences, F1: raw text", [("chunking", "pipeline.raw.sents_f1", "{:.2f}")]),
            (
                "whole pipeline, words per CPU second",
                [("chunking", "pipeline.words_per_cpu_s", "{:,.0f}")],
            ),
            ("size on disk, MB", [("chunking", "pipeline.mb", "{:.1f}")]),
            (
                "`spacy_structlearn.load()`, seconds",
                [("chunking", "pipeline.load_s", "{:.2f}")],
            ),
        ],
    },
}


def figure(results: str, key: str) -> Any:
    """One figure of training/results/RESULTS.json."""
    return reduce(lambda table, part: table[part], key.split("."), _results(results))


def _results(name: str) -> dict:
    return srsly.read_json(RESULTS / f"{name}.json")


def table(name: str) -> str:
    """One table as Markdown."""
    header = TABLES[name]["header"]
    lines = [header, ["---"] + ["---:"] * (len(header) - 1)]
    for text, cells in TABLES[name]["rows"]:
        lines.append([text, *(form.format(figure(file, key)) for file, key, form in cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def fill(text: str) -> str:
    """`text` with every table in it made anew."""
    pattern = re.compile(r"(<!-- table (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
    return pattern.sub(lambda found: f"{found[1]}{table(found[2])}\n{found[3]}", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    args = parser.parse_args()
    text = README.read_text(encoding="utf8")
    filled = fill(text)
    if args.check:
        sys.exit(0 if filled == text else "README.md: run python training/tables.py")
    README.write_text(filled, encoding="utf8")


if __name__ == "__main__":
    main()
