"""Costs of the package for users: disk space, start-up time, speed and memory.

    python corpora/fetch.py ewt
    python -m training.benchmarks.product

Each measurement runs in its own process with one thread. Start-up times are medians. MB are
1,000,000 bytes on disk and 1,048,576 in memory. In training/results/product.json:

package_mb       size of the pipeline en_structlearn_sm in the package
install_mb       size of the package and its dependencies as installed
load_s           spacy_structlearn.load() after `import spacy`, seconds
help_s           `structlearn --help` in a new process, seconds
words_per_cpu_s  words and punctuation per CPU second on raw text of EWT's dev: of the pipeline, and
                 of each component alone on Docs annotated by earlier components
rss_mb           peak memory of a process that loads the pipeline and annotates these texts
packages         number of distributions in install_mb
peers.NAME       packages, install_mb and version of another package, without models;
                 without_gpu_mb: without the packages for GPUs that torch requires, but not its
                 builds for CPUs

    python -m venv peers && peers/bin/pip install benepar stanza
    python -m training.benchmarks.product --peers peers/lib/python3.11/site-packages

records the sizes of the peers that are installed in a folder.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distributions
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from training.common.command import options, run_parts
from training.common.ewt import treebank
from training.common.process import in_process
from training.common.recording import CORPORA, ROOT, peak_mb

OURS = "spacy-structlearn"
RESULTS = "product"
RUNS = 7
WARM_UP = 20  # documents
COMPONENTS = {
    "chunk": "np_chunker",
    "parse": "constituency_parser",
    "pp": "pp_attacher",
    "srl": "srl_labeler",
    "dependencies": "tree_dependencies",
    "morphology": "tree_morphologizer",
}
PEERS = ("benepar", "stanza")
# GPU packages required by torch for Linux, but not by its CPU builds, which have their own index.
GPU = ("cuda-", "nvidia-", "triton")


# --- disk -----------------------------------------------------------------------------------------
def megabytes(folder: Path) -> float:
    """Return the size of a folder, without bytecode and build files."""
    return 1e-6 * sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in {".pyc", ".c"}
    )


def requirements(name: str, folder: Path | None = None) -> dict[str, Distribution]:
    """Return a distribution and its requirements in this environment, or a folder, by name.

    Raises PackageNotFoundError if `name` is not installed. Missing requirements are skipped,
    because they are optional or for other platforms.
    """
    path = sys.path if folder is None else [str(folder)]
    installed = {canonicalize_name(d.metadata["Name"]): d for d in distributions(path=path)}
    found: dict[str, Distribution] = {}
    asked: set[tuple[str, frozenset[str]]] = set()
    waiting = [(canonicalize_name(name), frozenset[str]())]
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in asked:
            continue
        asked.add((name, extras))
        if name not in installed:
            if not found:
                raise PackageNotFoundError(name)
            continue
        found[name] = installed[name]
        for text in found[name].requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in extras or {""}
            ):
                waiting.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    return found


def installed_mb(distributions: Iterable[Distribution]) -> float:
    """Return the size of distributions on disk, without bytecode, counting each file once."""
    files = {
        Path(str(dist.locate_file(file))).resolve()
        for dist in distributions
        for file in dist.files or ()
        if file.suffix != ".pyc"
    }
    return 1e-6 * sum(path.stat().st_size for path in files if path.is_file())


def install_mb() -> dict[str, float]:
    """Return the size of this package, whose files are not listed by an editable install."""
    import spacy_structlearn

    found = requirements(OURS)
    others = [dist for name, dist in found.items() if name != OURS]
    own = megabytes(Path(spacy_structlearn.__file__).parent)
    return {"install_mb": own + installed_mb(others), "packages": len(found)}


def peers(folder: Path) -> dict[str, float | str]:
    """Return the sizes of PEERS that are installed in a folder, with their requirements."""
    figures: dict[str, float | str] = {}
    for name in PEERS:
        found = requirements(name, folder)
        others = [dist for key, dist in found.items() if not key.startswith(GPU)]
        figures[f"peers.{name}.version"] = found[name].version
        figures[f"peers.{name}.packages"] = len(found)
        figures[f"peers.{name}.install_mb"] = installed_mb(found.values())
        figures[f"peers.{name}.without_gpu_mb"] = installed_mb(others)
    return figures


# --- time and memory ------------------------------------------------------------------------------
def load_s() -> float:
    """Return the seconds of one load()."""
    import spacy  # noqa: F401

    import spacy_structlearn

    start = perf_counter()
    spacy_structlearn.load()
    return perf_counter() - start


def help_s() -> float:
    """Return the seconds of a process that runs `structlearn --help`."""
    command = Path(sys.executable).with_name("structlearn")
    start = perf_counter()
    subprocess.run([command, "--help"], check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - start


def texts() -> list[str]:
    """Return the documents of EWT's dev."""
    from spacy.vocab import Vocab

    from spacy_structlearn.pipeline.readers import read_treebank

    files = treebank(CORPORA, "dev")
    documents = read_treebank(Vocab(), files["trees"], spaces=files["spaces"], props=files["props"])
    return [doc.text for _, doc in documents]


def speed() -> dict[str, float]:
    """Return words per CPU second of the whole pipeline, and peak memory."""
    import spacy_structlearn

    documents = texts()
    nlp = spacy_structlearn.load()
    list(nlp.pipe(documents[:WARM_UP]))
    start = process_time()
    words = sum(len(doc) for doc in nlp.pipe(documents))
    return {"words_per_cpu_s.all": words / (process_time() - start), "rss_mb": peak_mb()}


def components() -> dict[str, float]:
    """Return words per CPU second of each component alone."""
    import spacy_structlearn
    from training.pipeline.card import annotated

    _, speed = annotated(spacy_structlearn.load(), texts())
    return {f"words_per_cpu_s.{key}": speed[name] for key, name in COMPONENTS.items()}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument(
        "--peers", type=Path, metavar="FOLDER", help="only sizes of the peers installed there"
    )
    args = parser.parse_args()
    data = ROOT / "spacy_structlearn" / "data" / "en_structlearn_sm"
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "package_mb": lambda: {"package_mb": megabytes(data)},
        "install_mb": install_mb,
        "load_s": lambda: {"load_s": median(in_process(load_s) for _ in range(RUNS))},
        "help_s": lambda: {"help_s": median(help_s() for _ in range(RUNS))},
        "speed": lambda: in_process(speed),
        "components": lambda: in_process(components),
    }
    run_parts(RESULTS, {"peers": lambda: peers(args.peers)} if args.peers else parts)


if __name__ == "__main__":
    main()
