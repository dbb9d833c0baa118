"""`structlearn serve` and `annotate`: servers with a page, to try a pipeline and to annotate."""

from __future__ import annotations

import re
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from ..errors import StructlearnError
from .common.corpora import is_prodigy
from .common.files import lines_of
from .common.pipelines import HELP, ModelArgument, load
from .common.terminal import echo, table
from .common.texts import TREES, Unit, UnitOption, read, sources

HostOption: TypeAlias = Annotated[str, typer.Option(help="Address to listen on.")]
PortOption: TypeAlias = Annotated[int, typer.Option(help="Port; 0 for any.", min=0, max=65535)]
AllowHostOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="A name of this server, besides localhost; * for any. Repeatable."),
]
ANNOTATED = (".spacy", ".conll", *TREES)
SAYS = "Annotate on {} (stop: Ctrl+C)"


def serve_cli(
    model: Annotated[
        str | None, typer.Argument(metavar="MODEL", help=f"{HELP} Default: the built-in one.")
    ] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    workers: Annotated[
        int, typer.Option(help="Number of processes, each with a pipeline.", min=1)
    ] = 1,
    max_length: Annotated[
        int, typer.Option(help="Most characters of a request.", min=1, max=1_000_000)
    ] = 100_000,
    max_texts: Annotated[int, typer.Option(help="Most texts of a request.", min=1)] = 100,
    timeout: Annotated[float, typer.Option(help="Seconds until an answer.", min=0.1)] = 30.0,
    queue: Annotated[int, typer.Option(help="Most requests that wait.", min=1)] = 64,
    allow_host: AllowHostOption = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="A site whose pages may send requests: https://name. Repeatable."),
    ] = None,
) -> None:
    """Serve a pipeline as JSON, and a page to try it. Needs the extra `serve`.

    POST /parse takes {"text": ...} or {"texts": [...]}, with {"layers": [...]} for some layers
    only, and returns what `parse --format jsonl` prints. The page is at /, the description of
    the API at /docs and /openapi.json, and the state of the server at /health.

    Only this machine can connect, unless --host is another address. There are no passwords and no
    encryption: put a proxy that has both in front of it before others can connect.

    SIGINT (Ctrl+C) and SIGTERM stop the server when the requests in progress are answered.
    """
    _check_extra()
    from ..pipeline.storage.built_in import BUILT_IN
    from ..serve.app import Limits, serve

    name = model or BUILT_IN
    echo(f"Loading {name} ...", error=True)
    serve(
        partial(load, model),
        name,
        host=host,
        port=port,
        workers=workers,
        queue=queue,
        limits=Limits(max_length, max_texts, timeout),
        hosts=allow_host or [],
        origins=allow_origin or [],
        ready=lambda address: echo(f"Serving on {address} (stop: Ctrl+C)"),
    )


def annotate_cli(
    model: ModelArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder with a folder for each annotator.")
    ],
    texts: Annotated[
        str | None, typer.Argument(metavar="TEXTS", help="A file, or a folder of texts.")
    ] = None,
    annotator: Annotated[str, typer.Option(help="Name of the annotator's folder.")] = "annotator",
    order: Annotated[
        str,
        typer.Option(help="What is first: errors, entropy, length, random or text."),
    ] = "errors",
    seed: Annotated[int, typer.Option(help="Seed of the order random.")] = 0,
    unit: UnitOption = Unit.paragraph,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    allow_host: AllowHostOption = None,
    export: Annotated[
        bool, typer.Option("--export", help="Only export what is accepted, and stop.")
    ] = False,
    agreement: Annotated[
        bool, typer.Option("--agreement", help="Only print how far annotators agree, and stop.")
    ] = False,
) -> None:
    """Correct the trees of texts on a page in a browser. Needs the extra `serve`.

    The page has one sentence at a time, first those in which the pipeline expects most errors. All
    that you do is saved at once: start the command again to go on, without TEXTS or with more of
    them.

    TEXTS is a text file or .jsonl, a folder of them, or a treebank: a DocBin (.spacy), brackets
    (.trees, .mrg), columns (.conll) or Prodigy's .jsonl. The trees of a treebank count as accepted.

    Each annotator has a folder in --output. What they accept is exported to its folder "export",
    as DocBin, brackets, columns and the JSON of Prodigy. `adapt` and `convert` read the DocBin.

    The page is for one annotator, and there are no passwords: see `serve` for who can connect.
    """
    _check_extra()
    from ..pipeline.annotation.order import ORDERS
    from ..serve.annotate.annotation import Annotation
    from ..serve.annotating import EXPORT, agreements, annotate

    if order not in ORDERS:
        raise typer.BadParameter(f"--order is one of {', '.join(ORDERS)}")
    if not re.fullmatch(r"\w[\w .-]*", annotator):
        raise typer.BadParameter("a name has letters, digits, blanks, periods, - and _")
    if agreement:
        rows = [
            (*own.pop("annotators"), *("-" if n is None else f"{n:.4g}" for n in own.values()))
            for own in agreements(output)
        ]
        return table(rows, header=("annotator", "other", "sentences", "brackets", "labels", "tags"))
    folder = output / annotator
    echo(f"Loading {model} ...", error=True)
    nlp, path = load(model), Path(texts or "")
    new: dict[str, str] = {}
    is_json = path.suffix == ".jsonl" and path.is_file()
    is_treebank = path.suffix in ANNOTATED or (
        is_json and is_prodigy(next(iter(lines_of(str(path))), ""))
    )
    for file in sources(texts, str(output), None) if texts and not is_treebank else ():
        for own in read(file.path, None, unit, nlp.max_length):
            # Not a number, because a text may be put before others later.
            digest = blake2b(str(own.content).encode("utf8", "replace"), digest_size=5).hexdigest()
            new[f"{file.name}:{digest}"] = str(own.content)
    opened = Annotation(nlp, folder, new.items(), order=order, seed=seed)
    try:
        if is_treebank:
            opened.import_(path)
        if export:
            for name in opened.export(folder / EXPORT)["files"]:
                echo(folder / EXPORT / name)
            return None
        progress = ", ".join(f"{n:,} {status}" for status, n in opened.progress().items())
        echo(f"{folder}: {progress}", error=True)
        annotate(opened, model, host, port, allow_host or [], lambda own: echo(SAYS.format(own)))
    finally:
        opened.close()
    return None


def _check_extra() -> None:
    if any(find_spec(name) is None for name in ("starlette", "uvicorn")):
        raise StructlearnError("SL181", package="'spacy-structlearn[serve]'")
