"""`structlearn package`: build an installable wheel from a pipeline, without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ..cleanup import ensured, temporary_folder
from ..errors import StructlearnError
from ..pipeline.storage.built_in import directory
from ._files import written
from ._pipelines import HELP
from ._terminal import echo

OURS = "spacy-structlearn"
_LONGEST = 100  # characters of a name or a version, which get into the name of a file
_NAME = re.compile(rf"[A-Za-z0-9_]{{1,{_LONGEST}}}")
BUILD = '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'


def package_cli(
    model: Annotated[str, typer.Argument(metavar="MODEL", help=HELP)],
    output: Annotated[
        Path, typer.Argument(metavar="OUTPUT_DIR", help="Folder for the wheel.")
    ] = Path(),
    name: Annotated[
        str | None,
        typer.Option(help="Name of the package, after the language. Default: from its meta."),
    ] = None,
    version: Annotated[
        str | None, typer.Option(help="Version of the package. Default: from its meta.")
    ] = None,
) -> None:
    """Build an installable wheel from a pipeline.

    The path of the wheel is printed.

    Nothing is downloaded; the installed setuptools builds the wheel. It contains the
    pipeline with its config, meta, LICENSES_SOURCES, and digests of its files to detect damage. It
    requires spacy-structlearn. A pipeline is refused if it is damaged according to its digests, if
    it has links to files elsewhere, and if its meta has a name or a version that no package can
    have.
    """
    from ..pipeline.storage import digests
    from ..pipeline.training.fitting import is_pipeline
    from ..reading import check_within

    source = directory(model)
    if not is_pipeline(source):
        raise StructlearnError("SL071", path=model)
    check_within(source)
    digests.check(source)
    with temporary_folder() as work:
        project = _project(source, work, name, version)
        wheel = _build(project, work / "wheels")
        # Copied last, so that an existing wheel is always complete.
        target = output / wheel.name
        with written(target) as file:
            file.write(wheel.read_bytes())
    echo(target, raw=True)


def _project(source: Path, work: Path, name: str | None, version: str | None) -> Path:
    """Make the project of `spacy package --build none`; raise SL066 if spaCy refuses."""
    import srsly
    from spacy.cli.package import package

    from ..pipeline.storage import digests

    (work / "project").mkdir()
    meta = work / "meta.json"
    given = {"name": name, "version": version}
    srsly.write_json(meta, _with_requirement(_checked(source / "meta.json", given)))
    said = StringIO()
    try:
        with redirect_stdout(said):
            package(
                source,
                work / "project",
                meta_path=meta,
                name=name,
                version=version,
                create_sdist=False,
                require_parent=True,
                silent=False,
            )
    except SystemExit:
        problem = " ".join(said.getvalue().partition("✘")[2].split())
        raise StructlearnError("SL066", path=source, problem=problem) from None
    (project,) = (work / "project").iterdir()
    (config,) = project.glob("*/*/config.cfg")
    digests.write(config.parent)
    (project / "pyproject.toml").write_text(BUILD, encoding="utf8")
    return project


def _checked(path: Path, given: dict[str, str | None]) -> dict[str, Any]:
    """Read a meta.json. Raises SL090 for what must not get into a file name or a header.

    given: the name and the version that replace those of the file, if they are not None.
    """
    import srsly
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.version import InvalidVersion, Version
    from spacy.schemas import ModelMetaSchema, validate

    def refuse(problem: str) -> NoReturn:
        raise StructlearnError("SL090", path=path, problem=" ".join(problem.split()))

    try:
        meta = dict(srsly.read_json(path))
    except (ValueError, TypeError) as error:
        refuse(str(error))
    meta |= {setting: value for setting, value in given.items() if value is not None}
    if problems := validate(ModelMetaSchema, meta):
        refuse(problems[0])
    for setting in ("lang", "name"):
        if not _NAME.fullmatch(meta[setting]):
            refuse(
                f"the {setting} {meta[setting][:60]!r} has other characters than A-Z, a-z, 0-9 "
                "and _, or too many"
            )
    version = meta["version"]
    try:
        Version(version)
    except InvalidVersion:
        refuse(f"the version {version[:60]!r} is not one of a Python package, such as '1.0.0'")
    if len(version) > _LONGEST or not version.isascii() or re.search(r"\s", version):
        refuse(f"the version {version[:60]!r} has other characters than ASCII, or too many")
    for requirement in meta.get("requirements", ()):
        try:
            Requirement(requirement)
        except InvalidRequirement:
            refuse(f"{requirement[:60]!r} in requirements does not name a Python package")
    for setting in ("author", "email", "url", "license"):
        if not str(meta.get(setting) or "").isprintable():
            refuse(f"{setting} has line breaks or control characters")
    return meta


def _with_requirement(meta: dict[str, Any]) -> dict[str, Any]:
    """Add this package to the requirements, because spaCy does not see it in a checkout."""
    from spacy.util import get_minor_version_range, split_requirement

    from ..about import __version__

    wanted = meta.get("requirements", [])
    if OURS in [split_requirement(requirement)[0] for requirement in wanted]:
        return meta
    return {**meta, "requirements": [*wanted, OURS + get_minor_version_range(__version__)]}


def _build(project: Path, target: Path) -> Path:
    """Build the wheel of a project; raise SL067 with the last line that setuptools prints."""
    # Not with pip, whose own processes and temporary files would outlive it if it is killed.
    build = "from setuptools.build_meta import build_wheel as build; import sys; build(sys.argv[1])"
    target.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", build, str(target)],
        cwd=project,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with ensured(process.kill):
        said, _ = process.communicate()
    if process.returncode:
        lines = said.strip().splitlines()
        raise StructlearnError("SL067", path=project.name, problem=lines[-1] if lines else "")
    (wheel,) = target.glob("*.whl")
    return wheel
