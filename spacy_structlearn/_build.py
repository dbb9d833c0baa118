"""How setuptools compiles the kernels, and makes links of the README that work elsewhere, too.

Every `.pyx` file of the package is an extension module.

Cython keeps track of what a kernel includes, so a build compiles only what changed. Cython's own
code for memoryviews is compiled once, in `kernels/_cyutility`, and not again in every kernel.
"""

import os
import re
from pathlib import Path

from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.command.egg_info import egg_info

SHARED = "spacy_structlearn.kernels._cyutility"
# What a type checker sees of a kernel, whose functions check what they are given.
STUB = "from typing import Any\n\ndef __getattr__(name: str) -> Any: ...\n"
HEADERS = [path.as_posix() for path in Path("spacy_structlearn/kernels").glob("*.h")]


def _extension(source: Path) -> Extension:
    return Extension(
        ".".join(source.with_suffix("").parts),
        [source.as_posix()],
        include_dirs=["spacy_structlearn/kernels"],
        # Compilers take the last of such options: those of the environment come too early.
        extra_compile_args=os.environ.get("STRUCTLEARN_CFLAGS", "-O3 -g0").split(),
    )


class BuildKernels(build_ext):
    """Translates and compiles all kernels, on all cores unless `--parallel` says otherwise."""

    parallel: int | None

    def finalize_options(self) -> None:
        """Find the kernels; setuptools calls this in the root of the repository."""
        # The largest come first, so that no core has one of them left at the end.
        kernels = sorted(
            Path("spacy_structlearn").rglob("*.pyx"), key=lambda path: -path.stat().st_size
        )
        shared = Path(SHARED.replace(".", "/") + ".c")
        self.distribution.ext_modules = [*map(_extension, kernels), _extension(shared)]
        super().finalize_options()
        if self.parallel is None:
            self.parallel = os.cpu_count()

    def build_extensions(self) -> None:
        """Translate to C in parallel processes, write stubs, and compile in parallel."""
        # Not needed to import this module: Cython is installed for a build only.
        from Cython.Build import cythonize

        translated = cythonize(
            self.extensions,
            nthreads=self.parallel,
            force=bool(self.force),
            quiet=not self.verbose,
            shared_utility_qualified_name=SHARED,
        )
        for extension, in_c in zip(self.extensions, translated, strict=True):
            extension.sources = in_c.sources
            Path(in_c.sources[0]).with_suffix(".pyi").write_text(STUB, encoding="utf8")
            # Cython knows the header that a kernel names, and not those that this one includes.
            extension.depends = HEADERS if in_c.depends else []
        super().build_extensions()


class ReadmeElsewhere(egg_info):
    """Writes the metadata, with links of the README to files of the repository."""

    def run(self) -> None:
        """Make relative links absolute; pictures are read as files, other pages as pages."""
        metadata = self.distribution.metadata
        address = metadata.project_urls["Source"]

        def absolute(link: re.Match[str]) -> str:
            kind = "raw" if link[1].endswith((".png", ".svg")) else "blob"
            return f"]({address}/{kind}/main/{link[1]}"

        text = metadata.long_description or ""
        metadata.long_description = re.sub(r"\]\((?!\w+:|#)([^)#]+)", absolute, text)
        super().run()
