"""Petrov & Klein (2007): generative and discriminative grammars with latent annotations.

    python corpora/fetch.py wsj_sample wsj_skeleton ewt craft
    pip install matplotlib
    python -m training.papers.petrov_klein2007 --jobs 2

Writes training/results/petrov_klein2007.json, .md and .svg, with the figures of the paper. Parts,
which --only selects: `copy`, tables 1 and 2; `skeleton`, the gain by the number of trees over tags;
`causes`, what the gain depends on; `analysis`, section 4.4 (levels.py). With weights that are
corrections of generative ones (discriminative.py): `pruning`, figure 2; `cost`; `best`, selected
grammars.

    python -m training.papers.petrov_klein2007 --generative

writes training/results/parsing_generative.json, with the generative grammars and those of the
default parser (generative.py): `wsj` and `ewt`.

Sentences are parsed from gold tokens without tags. wsj_sample: files 0001-0159 for training,
0160-0179 as dev, 0180-0199 for the test, scored by EVALB with the original COLLINS.prm. EWT:
punctuation is identified by gold tags, so that no sentence is dropped. Models are kept in
training/work/models by their settings; interrupted training resumes.
"""

from __future__ import annotations

from training.common.command import bound, options, run_parts
from training.papers.petrov_klein2007 import discriminative, generative, levels, report

GENERATIVE = "parsing_generative"
NAME = "petrov_klein2007"
PARTS = {**levels.PARTS, **discriminative.PARTS}


def main() -> None:
    names = [*PARTS, *generative.PARTS]
    parser = options(__doc__, "corpora", "work", "jobs", only=names)
    parser.add_argument("--generative", action="store_true", help="measure the generative grammars")
    args = parser.parse_args()
    parts = generative.PARTS if args.generative else PARTS
    if wrong := [name for name in args.only or () if name not in parts]:
        parser.error(f"with{'' if args.generative else 'out'} --generative no part {wrong[0]}")
    run = discriminative.Run(args.corpora, args.work, args.jobs)
    if args.generative:
        run_parts(GENERATIVE, bound(parts, run), args.only)
    else:
        run_parts(NAME, bound(parts, run), args.only, page=True, write=report.plot)


if __name__ == "__main__":
    main()
