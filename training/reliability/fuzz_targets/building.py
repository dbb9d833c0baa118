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
FLAGS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# C now allows adding zero to a null pointer and copying zero bytes from it (N3322). GCC does not
# distinguish this from overflow.
FLAGS += ["-fno-sanitize=pointer-overflow,nonnull-attribute"]
FLAGS += ["-g1", "-O1", "-fno-omit-frame-pointer", "-w", "-fPIC", "-shared"]


def build(folder: Path, compiler: str, jobs: int = 1) -> None:
    """Build a copy of the package with sanitized kernels in `folder`, which is for imports.

    Only kernels with changed sources are built again.
    """
    package = folder / PACKAGE
    ignored = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    shutil.copytree(ROOT / PACKAGE, package, ignore=ignored, dirs_exist_ok=True)
    shared = blake2b(" ".join([compiler, *FLAGS]).encode())
    for header in sorted([*package.rglob("*.h"), *package.rglob("*.pxd")]):
        shared.update(header.read_bytes())

    def made(source: Path) -> None:
        built = source.with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
        digest = shared.copy()
        digest.update(source.read_bytes())
        stored = built.with_suffix(".digest")
        if not built.exists() or not stored.exists() or stored.read_text() != digest.hexdigest():
            _compile(source, built, compiler, package / "kernels")
            stored.write_text(digest.hexdigest())

    sources = sorted(package.rglob("*.pyx"))
    with ThreadPoolExecutor(jobs) as pool:
        for _ in tqdm(pool.map(made, sources), total=len(sources), desc="build", disable=None):
            pass


def _compile(source: Path, built: Path, compiler: str, shared: Path) -> None:
    c = source.with_suffix(".c")
    cython = [sys.executable, "-m", "cython", "-3", "--line-directives", str(source), "-o", str(c)]
    subprocess.run(cython, check=True, capture_output=True)
    include = [f"-I{sysconfig.get_paths()['include']}", f"-I{source.parent}", f"-I{shared}"]
    subprocess.run([compiler, *FLAGS, *include, str(c), "-lm", "-o", str(built)], check=True)
    c.unlink()


def environment(folder: Path, compiler: str) -> dict[str, str]:
    """Return the variables of a process that runs the kernels built in `folder`."""
    runtime = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    )
    return {
        # Python itself is not built with the sanitizers.
        "LD_PRELOAD": runtime.stdout.strip(),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=2048"
        ":quarantine_size_mb=16",
        "UBSAN_OPTIONS": "print_stacktrace=1",
        # This copy precedes that of the checkout.
        "PYTHONPATH": f"{folder}:{ROOT}",
    }
