"""Toutanova (2006): both of the paper's tasks, PP attachment and semantic roles.

    python corpora/fetch.py ppattach wsj_sample conll2000 ewt craft
    python -m training.papers.toutanova2006 --task pp
    python -m training.papers.toutanova2006 --task srl

Writes training/results/toutanova2006_pp.json and .md (tables 3, 4, 7 and 8, figure 2a), or
training/results/srl.json and .md (tables 5 to 8, figure 2b).

Parts of `--task pp`: `tables` of the paper; `best`, a model of lemmas, word classes and
conjunctions stacked on a network; `quadruples`, our quadruples from trees compared with the
original ones.

Parts of `--task srl`: for core arguments of verbs in gold trees, `core`, the paper's models on the
English Web Treebank, `extra`, additional features, and `wsj`, both on the sample of the Wall Street
Journal; `gap`, networks and log-linear models by the number of items; `climb`, networks by hill
climbing; `text`, the roles predicted by the default pipeline, which must be trained.
"""

from __future__ import annotations

from training.common.command import bound, options, run_parts
from training.papers.toutanova2006 import attachment, roles, roles_text
from training.papers.toutanova2006.role_items import read_ewt, read_wsj

# For each task, its results, and its parts, which are functions of the folders of corpora and work.
TASKS = {
    "pp": (
        "toutanova2006_pp",
        {
            "tables": lambda corpora, work: attachment.tables(corpora),
            "best": lambda corpora, work: attachment.best(corpora),
            "quadruples": lambda corpora, work: attachment.quadruples(corpora),
        },
    ),
    "srl": (
        "srl",
        {
            "core": lambda corpora, work: roles.core(read_ewt(corpora)),
            "extra": lambda corpora, work: roles.extra(read_ewt(corpora)),
            "wsj": lambda corpora, work: roles.both(read_wsj(corpora), "wsj."),
            "gap": lambda corpora, work: roles.gap(read_ewt(corpora)),
            "climb": lambda corpora, work: roles.climbed(read_ewt(corpora)),
            "text": roles_text.text,
        },
    ),
}


def main() -> None:
    names = [name for _, parts in TASKS.values() for name in parts]
    parser = options(__doc__, "corpora", "work", only=names)
    parser.add_argument("--task", choices=TASKS, required=True)
    args = parser.parse_args()
    name, parts = TASKS[args.task]
    if wrong := [part for part in args.only or () if part not in parts]:
        parser.error(f"--task {args.task} has no part {wrong[0]}")
    run_parts(name, bound(parts, args.corpora, args.work), args.only, page=True)


if __name__ == "__main__":
    main()
