"""`apply` on a Ray cluster: tasks read the files, actors parse their parts and write them.

A part travels from the task that reads it to an actor; the first process has nothing but counts of
them. Ray does again what was lost with an actor or a machine. That does no harm: a part is written
whole, by renaming, and always the same. One that this run has already written is left alone; with
`force` none tells from the old ones, and it is written once more.

Which parts were there before is found once, in the beginning: a task that reads again has to give
the same parts again.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import StructlearnError
from ..parallel.cluster import connected, import_ray
from ._files import write_text, written
from ._parts import Chunk, ChunkParser, Output, chunks, write_chunks
from ._texts import Cutting, Source
from ._workers import DEATHS, Failure

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Datasource

READING = 0.01  # of a processor: tasks that read wait for those that parse


class Outcome(NamedTuple):
    """What became of a part: numbers of texts and files, and what actors died of."""

    texts: int = 0
    written: int = 0
    skipped: int = 0
    deaths: Sequence[str] = ()


class Parsing(NamedTuple):
    """What all machines know of a run.

    model: what actors load. most: so many characters a text may have. run: its name.
    """

    model: str
    cutting: Cutting
    most: int
    format: Output
    batch_size: int
    force: bool
    run: str


def write_parts_by_ray(
    sources: Sequence[Source], parsing: Parsing, *, address: str | None, n_process: int | None
) -> Counter[str]:
    """Have the parts of these files parsed and written on the machines of a cluster.

    address: see `parallel.cluster.connected`. n_process: so many actors at most; None: one for each
    processor. RETURNS: as `write_parts`.
    RAISES: SL250 without Ray; SL072 for texts that several actors died of; SL079 for what goes
    wrong with Ray itself; what reading and parsing raise.
    """
    import_ray()
    try:
        import ray.data
    except ImportError:  # of what the extra brings beside Ray itself
        raise StructlearnError("SL250") from None
    from tqdm import tqdm

    done: Counter[str] = Counter()
    with connected(address), tqdm(unit=" texts", disable=None) as progress:
        _be_quiet()
        n_process = n_process or max(1, int(ray.cluster_resources().get("CPU", 1)))
        found = ray.data.read_datasource(_datasource(sources, parsing), num_cpus=READING).map(
            PartParser,
            fn_constructor_args=[parsing],
            # As many as there is work for: a pool of a fixed size waits for all of them.
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=n_process),
            num_cpus=1,
        )
        with _ray_errors():
            for row in found.iter_rows():
                outcome = pickle.loads(row["outcome"])
                if isinstance(outcome, Failure):
                    outcome.raise_here()
                for death in outcome.deaths:
                    tqdm.write(f"structlearn: a worker died of {death}", file=sys.stderr)
                done.update(texts=outcome.texts, written=outcome.written, skipped=outcome.skipped)
                progress.update(outcome.texts)
    return done


# --- reading --------------------------------------------------------------------------------------
def _datasource(sources: Sequence[Source], parsing: Parsing) -> Datasource:
    """The parts of some files, a row each."""
    from ray.data import Datasource
    from ray.data.block import BlockMetadata
    from ray.data.datasource import ReadTask

    there = _there(parsing.cutting)

    class PartsSource(Datasource):
        """Ray asks for tasks, each with some of the files."""

        def estimate_inmemory_data_size(self) -> int | None:
            """Nobody knows before it is read."""
            return None

        def get_read_tasks(self, parallelism: int, *arguments: Any, **more: Any) -> list[ReadTask]:
            """Tasks with neighbouring files."""
            size = -(-len(sources) // max(1, parallelism))
            tasks = []
            for start in range(0, len(sources), size):
                some = sources[start : start + size]
                before = {source.name: there.get(source.name, set()) for source in some}
                metadata = BlockMetadata(None, None, None, None)
                tasks.append(ReadTask(partial(read_parts, some, parsing, before), metadata))
            return tasks

    return PartsSource()


def read_parts(
    sources: Sequence[Source], parsing: Parsing, before: dict[str, set[str]]
) -> Iterator[pa.Table]:
    """The parts of some files, each a table of one row: `part`, a pickled pair of the file to write
    and its chunks; or a Failure. What is raised is given on, because Ray keeps only its text.

    before: the files of the output that were there when the run began, by the names of their
    sources; they have None in place of chunks.
    """
    try:
        for source in sources:
            for target, texts in parsing.cutting.parts([source], parsing.most):
                found = None
                if parsing.force or target not in before[source.name]:
                    found = list(chunks(target, texts, parsing.batch_size))
                yield _row((target, found))
    except Exception as error:
        yield _row(Failure.of(error))


def _row(part: tuple[str, list[Chunk] | None] | Failure) -> pa.Table:
    import pyarrow as pa

    return pa.table({"part": pa.array([pickle.dumps(part)], pa.large_binary())})


def _there(cutting: Cutting) -> dict[str, set[str]]:
    """The parts that are in the folder, by the names of their sources."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in cutting.output.rglob(f"*{cutting.ending}"):
        name, _, number = path.relative_to(cutting.output).stem.rpartition(".")
        if number.isdigit():
            folder = path.relative_to(cutting.output).parent
            found[(folder / name).as_posix()].add(str(path))
    return found


# --- parsing --------------------------------------------------------------------------------------
class PartParser:
    """An actor: a pipeline that parses parts, and writes them."""

    def __init__(self, parsing: Parsing):
        self.parsing = parsing

    @cached_property
    def parser(self) -> ChunkParser:
        """The pipeline; loaded for the first part, so that whoever dies of it has begun a part."""
        return ChunkParser(self.parsing.model)

    def __call__(self, row: dict[str, Any]) -> dict[str, bytes]:
        """row: of `read_parts`. RETURNS: as `outcome` an Outcome or a Failure, pickled."""
        part = pickle.loads(row["part"])
        try:
            outcome = part if isinstance(part, Failure) else self._outcome(*part)
        except MemoryError:
            os._exit(1)  # as where the system ends it: the next one may have more
        except Exception as error:
            outcome = Failure.of(error)
        return {"outcome": pickle.dumps(outcome)}

    def _outcome(self, target: str, found: list[Chunk] | None) -> Outcome:
        if found is None:
            return Outcome(skipped=1)
        tries = Tries(target, self.parsing.run)
        # If it is there, an actor before this one has written it and died before it could say so.
        try:
            if self.parsing.force or not Path(target).exists():
                with written(target) as file:
                    tries.begin(file.name)
                    results = (self._parsed(chunk, tries) for chunk in found)
                    for _ in write_chunks(file, results, self.parsing.format):
                        pass
        finally:
            tries.end()
        return Outcome(sum(len(chunk.texts) for chunk in found), written=1, deaths=tries.deaths)

    def _parsed(self, chunk: Chunk, tries: Tries) -> tuple[int, bytes]:
        tries.at(chunk)
        return len(chunk.texts), self.parser.parse(chunk, self.parsing.format)


class Tries:
    """What actors have died of over one part, in a hidden file beside it.

    An actor that dies says nothing, and Ray would give the part to the next one for ever.
    """

    def __init__(self, target: str, run: str):
        self._path = Path(target).with_name(f".{Path(target).name}.tries")
        self._state: dict[str, Any] = {"run": run, "deaths": []}
        with suppress(OSError, ValueError):
            before = json.loads(self._path.read_text(encoding="utf8"))
            # That of a run that was ended says nothing of this one.
            if before["run"] == run:
                Path(before["fresh"]).unlink(missing_ok=True)
                self._state["deaths"] = [*before["deaths"], before["at"]]

    @property
    def deaths(self) -> list[str]:
        """Which texts they were, one after another."""
        return self._state["deaths"]

    def begin(self, fresh: str) -> None:
        """Remember what is left if this actor dies, too. RAISES: SL072 if enough have died."""
        if len(self.deaths) >= DEATHS:
            raise StructlearnError(
                "SL072", place=self.deaths[-1], deaths=len(self.deaths), death="an actor of Ray"
            )
        self._state["fresh"] = fresh

    def at(self, chunk: Chunk) -> None:
        """Remember which texts are being parsed."""
        self._state["at"] = chunk.place()
        write_text(self._path, json.dumps(self._state))

    def end(self) -> None:
        """The part is written, or given up: what remembers is removed."""
        self._path.unlink(missing_ok=True)


# --- Ray itself -----------------------------------------------------------------------------------
def _be_quiet() -> None:
    """A row is a part: they are neither put together nor told of one by one."""
    from ray.data import DataContext

    context = DataContext.get_current()
    # Bytes: each row is more than that, and so a block, which is what an actor is given.
    context.target_max_block_size = 1
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)


@contextmanager
def _ray_errors() -> Iterator[None]:
    """RAISES: SL079 for what Ray raises, in a line."""
    from ray.exceptions import RayError

    try:
        yield
    except RayError as error:
        first = str(error).strip().splitlines()[:1]
        problem = ": ".join([type(error).__name__, *first])
        raise StructlearnError("SL079", problem=problem) from error
