"""Build kernels with sanitizers for memory errors and undefined behaviour."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path

from tqdm import tqdm

from .workloads import ROOT

PACKAGE = "spacy_structlearn"
FOLDER = "sanitized"
SANITIZE = "address,undefined,fuzzer-no-link"
# C now allows adding zero to a null pointer and copying zero bytes from it (N3322). Older versions
# of Clang do not distinguish this from overflow.
FLAGS = ["-fno-sanitize=pointer-overflow,nonnull-attribute", "-fno-sanitize-recover=all"]
FLAGS += ["-g1", "-O1", "-fno-omit-frame-pointer", "-w", "-fPIC"]


def build(work: Path, clang: str, jobs: int = 1) -> Path:
    """Build a copy of the package with sanitized kernels in `work`. Return the folder for imports.

    Only kernels with changed sources are built again.
    """
    target = work / FOLDER
    package = target / PACKAGE
    kept = {path.name: path.read_bytes() for path in target.glob("*.digest")}
    ignored = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    shutil.copytree(ROOT / PACKAGE, package, ignore=ignored, dirs_exist_ok=True)
    kernels = sorted(package.rglob("*.pyx"))

    def made(source: Path) -> None:
        shared = package / "kernels"
        headers = sorted([*source.parent.glob("*.h"), *shared.glob("*.h"), *shared.glob("*.pxd")])
        digest = blake2b(" ".join([clang, SANITIZE, *FLAGS]).encode())
        for path in (source, *headers):
            digest.update(path.read_bytes())
        name = f"{source.parent.name}.{source.stem}.digest"
        built = source.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
        if kept.get(name) != digest.digest() or not built.exists():
            _compile(source, built, clang, shared)
            (target / name).write_bytes(digest.digest())

    with ThreadPoolExecutor(jobs) as pool:
        for _ in tqdm(pool.map(made, kernels), total=len(kernels), desc="build", disable=None):
            pass
    return target


def _compile(source: Path, built: Path, clang: str, shared: Path) -> None:
    c = source.with_suffix(".c")
    cython = [sys.executable, "-m", "cython", "-3", "--line-directives", str(source), "-o", str(c)]
    subprocess.run(cython, check=True, capture_output=True)
    include = [f"-I{sysconfig.get_paths()['include']}", f"-I{source.parent}", f"-I{shared}"]
    command = [clang, f"-fsanitize={SANITIZE}", *FLAGS, "-shared", *include, str(c), "-lm"]
    subprocess.run([*command, "-o", str(built)], check=True)
    c.unlink()
