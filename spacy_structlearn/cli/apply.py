"""`structlearn apply`: parse any number of texts, from disk to disk.

The input is divided into parts, and each part becomes a file of the output folder. A part is
written to a temporary file that is renamed, so existing parts are complete, and an interrupted run
can continue. The shard of a part depends only on the names of the input files, so shards need not
communicate, and any scheduler can run them.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import nullcontext
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from ..about import __version__
from ..errors import StructlearnError
from ..reading import special
from ..writing import locked
from .common.files import STANDARD, check_targets
from .common.manifest import agree, check_unchanged, describe
from .common.parts import ChunkParser, Parse, parse_in_processes, write_parts
from .common.pipelines import ModelArgument, load
from .common.terminal import echo
from .common.texts import OUTPUTS, InputOption, Job, Output, Unit, UnitOption, counted, sources


def apply_cli(
    model: ModelArgument,
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help='Text, JSONL with the key "text", or DocBins: a file, a folder, or - for stdin.',
        ),
    ],
    output: Annotated[
        str,
        typer.Argument(
            metavar="OUTPUT",
            help="A file .spacy, .jsonl or .conllu, - for JSONL on stdout, or a folder.",
        ),
    ],
    input_format: InputOption = None,
    unit: UnitOption = Unit.paragraph,
    format: Annotated[
        Output, typer.Option(help="Format of the files in an output folder.")
    ] = Output.docbin,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Process only shard I of N; needs an output folder.")
    ] = "1/1",
    n_process: Annotated[
        int | None,
        typer.Option(
            help="Number of processes. Default: 1; on a Ray cluster, one for each processor.",
            min=1,
            show_default=False,
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Number of texts per batch.", min=1)] = 256,
    part_size: Annotated[
        int, typer.Option(help="Maximum number of texts in one file of an output folder.", min=1)
    ] = 10_000,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing output.")] = False,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help='Run on a Ray cluster. "auto": the cluster that runs on this machine or is named '
            "by RAY_ADDRESS; if there is none, a new one on this machine only.",
        ),
    ] = None,
) -> None:
    """Apply a pipeline to files, from disk to disk.

    In an output folder, the results of texts.jsonl are texts.jsonl.0000.spacy,
    texts.jsonl.0001.spacy and so on. Existing files are skipped, so an interrupted run continues.
    Run --shard 1/N to N/N to share the work between N runs, on one or many machines. Another
    pipeline, other settings and changed input are refused, because structlearn-apply.json in the
    folder records them. With --force, everything is done anew.

    In JSONL, every text is one line, as `parse --format jsonl` prints it, together with the other
    keys of its input line; in DocBins, these keys are in doc.user_data. Paragraphs of a text file
    are separated by blank lines and may contain line breaks. Files .gz are read as well.

    From DocBin to DocBin, all annotation is kept, including user data and Doc._ values, unless the
    pipeline sets it. JSONL contains the text and the predictions of the pipeline.

    With --ray (pip install 'spacy-structlearn[ray]'), all machines must find INPUT, OUTPUT and a
    MODEL given as a path under the same names, for example on a network drive.
    """
    chosen = _shard(shard)
    single = output == STANDARD or Path(output).suffix in OUTPUTS
    if single:
        if chosen != (0, 1):
            raise typer.BadParameter("--shard needs a folder as OUTPUT")
        format = OUTPUTS.get(Path(output).suffix, Output.jsonl)
    elif Path(output).suffix and Path(source).is_file() and not Path(output).is_dir():
        raise typer.BadParameter(
            f"OUTPUT must end in .spacy, .jsonl or .conllu, or be a folder: {output}"
        )
    if chosen != (0, 1) and source == STANDARD:
        raise typer.BadParameter("--shard needs a file or a folder as INPUT")
    if ray and (single or source == STANDARD):
        raise typer.BadParameter("--ray needs a file or a folder as INPUT, and a folder as OUTPUT")
    if ray and chosen != (0, 1):
        raise typer.BadParameter("--ray shares the work itself: leave out --shard")
    if ray:
        # Other machines have another working directory.
        source, output = os.path.abspath(source), os.path.abspath(output)
        model = os.path.abspath(model) if Path(model).exists() else model
    check_targets([output], [source])
    found = sources(source, output, input_format)
    target, lock = Path(output), None
    job = Job(
        model, target, format, input_format, unit, part_size, chosen, batch_size, force or single
    )
    if not single:
        lock = target / f".shard-{chosen[0] + 1}-of-{chosen[1]}.lock"
    with nullcontext() if output == STANDARD or special(target) else locked(target, lock):
        if single and not force and target.is_file():
            raise StructlearnError("SL059", path=target)
        nlp = load(model)
        parse: Parse = ChunkParser(model, nlp).parse_all
        if n_process is not None and n_process > 1:
            parse = partial(parse_in_processes, model=model, number=n_process)
        if lock is None:
            texts = chain.from_iterable(job.read(path, nlp.max_length) for _, path, _ in found)
            done = write_parts([(output, texts)], job, parse)
        else:
            settings = {
                "format": format.value,
                "input_format": input_format and input_format.value,
                "unit": unit.value,
                "part_size": part_size,
                "version": __version__,
            }
            description = partial(describe, nlp, settings, found, time.time_ns())
            run = description()
            agree(target, run, lock, force=force)
            if ray:
                from .common.ray import write_parts_by_ray

                address = None if ray == "auto" else ray
                done = write_parts_by_ray(found, job, address=address, n_process=n_process)
            else:
                done = write_parts(job.parts(found, nlp.max_length), job, parse)
            check_unchanged(target, run, description())
    if output != STANDARD:
        there = f", {counted(done['skipped'], 'file')} there already" if done["skipped"] else ""
        files = counted(done["written"], "file")
        echo(f"{output}: {counted(done['texts'], 'text')}, {files} written{there}", error=True)


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    number, of = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= of:
        raise typer.BadParameter(f"--shard is I/N, with I from 1 to N, not {text!r}")
    return number - 1, of
