"""`apply` on a Ray cluster: tasks read the files, and actors parse and write their parts.

A part is sent from the task that reads it to an actor; the first process only receives counts. Ray
repeats work that was lost with an actor or a machine, a few times. This is safe, because a part is
written as a whole and is always the same.

Existing parts are listed once at the beginning, because a repeated reading task must yield the same
parts again.
"""

from __future__ import annotations

import logging
import os
import pickle
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import StructlearnError
from .files import written
from .parts import Chunk, ChunkParser, Output, chunks, portable, write_chunks
from .texts import Cutting, Source

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Datasource

READING = 0.01  # processors of a reading task, which mostly waits for parsing
RETRIES = 3  # of an actor that died, and of its part


class Outcome(NamedTuple):
    """The result of a part: numbers of texts and files."""

    texts: int = 0
    written: int = 0
    skipped: int = 0


class Failure(NamedTuple):
    """An error in another process, and its traceback."""

    error: Exception
    trace: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Wrap an error that has just been raised."""
        return cls(portable(error), "".join(traceback.format_exception(error)))


class Parsing(NamedTuple):
    """The settings of a run, for all machines."""

    model: str
    cutting: Cutting
    most: int  # maximum length of a text
    format: Output
    batch_size: int
    force: bool


def write_parts_by_ray(
    sources: Sequence[Source], parsing: Parsing, *, address: str | None, n_process: int | None
) -> Counter[str]:
    """Parse and write the parts of some files, and return counts, as `write_parts` does.

    address: See `connected`. n_process: None for one actor per processor.
    Raises StructlearnError without Ray, or if Ray fails, as it does if actors keep dying.
    """
    try:
        import ray.data
        from ray.exceptions import RayError
    except ImportError:
        raise StructlearnError("SL250") from None
    from tqdm import tqdm

    done: Counter[str] = Counter()
    with connected(address), tqdm(unit=" texts", disable=None) as progress:
        context = ray.data.DataContext.get_current()
        # In bytes. Each row is larger, and therefore a block of its own, the input of an actor.
        context.target_max_block_size = 1
        context.enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        n_process = n_process or max(1, int(ray.cluster_resources().get("CPU", 1)))
        found = ray.data.read_datasource(_datasource(sources, parsing), num_cpus=READING).map(
            PartParser,
            fn_constructor_args=[parsing],
            # The pool grows with the work; one of fixed size waits for all actors.
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=n_process),
            num_cpus=1,
            max_restarts=RETRIES,
            max_task_retries=RETRIES,
        )
        try:
            for row in found.iter_rows():
                outcome = pickle.loads(row["outcome"])
                if isinstance(outcome, Failure):
                    raise outcome.error from RuntimeError(outcome.trace)
                done.update(outcome._asdict())
                progress.update(outcome.texts)
        except RayError as error:
            first = str(error).strip().splitlines()[:1]
            problem = ": ".join([type(error).__name__, *first])
            raise StructlearnError("SL079", problem=problem) from error
    return done


@contextmanager
def connected(address: str | None = None) -> Iterator[None]:
    """Connect to a Ray cluster, and disconnect at the end unless already connected.

    address: None: the cluster of RAY_ADDRESS or the one running on this machine, otherwise a new
    one on this machine. Raises StructlearnError if Ray is not installed.
    """
    try:
        import ray
    except ImportError:
        raise StructlearnError("SL250") from None
    if ray.is_initialized():
        yield
        return
    # No usage statistics are sent and no dashboard is started.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        yield
    finally:
        ray.shutdown()


# --- reading --------------------------------------------------------------------------------------
def _datasource(sources: Sequence[Source], parsing: Parsing) -> Datasource:
    """Make a source with one row for each part of some files."""
    from ray.data import Datasource
    from ray.data.block import BlockMetadata
    from ray.data.datasource import ReadTask

    there = _there(parsing.cutting)

    class PartsSource(Datasource):
        """Ray asks for tasks, each with some of the files."""

        def estimate_inmemory_data_size(self) -> int | None:
            """Return None: the size is unknown before reading."""
            return None

        def get_read_tasks(self, parallelism: int, *arguments: Any, **more: Any) -> list[ReadTask]:
            """Return tasks for groups of neighbouring files."""
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
    """Yield the parts of some files, each as a table of one row.

    The column `part` is a pickled pair of the output file and its chunks, or a Failure. Errors are
    passed on as Failures, because Ray keeps only their text.

    before: Output files that existed when the run began, by source; their chunks are None.
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
    """List the existing parts of the folder by the names of their sources."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in cutting.output.rglob(f"*{cutting.ending}"):
        name, _, number = path.relative_to(cutting.output).stem.rpartition(".")
        if number.isdigit():
            folder = path.relative_to(cutting.output).parent
            found[(folder / name).as_posix()].add(str(path))
    return found


# --- parsing --------------------------------------------------------------------------------------
class PartParser:
    """An actor that parses and writes parts."""

    def __init__(self, parsing: Parsing):
        self.parsing = parsing
        self.parser = ChunkParser(parsing.model)

    def __call__(self, row: dict[str, Any]) -> dict[str, bytes]:
        """Write the part of a row of `read_parts`; return a pickled Outcome or Failure."""
        part = pickle.loads(row["part"])
        try:
            outcome = part if isinstance(part, Failure) else self._outcome(*part)
        except MemoryError:
            os._exit(1)  # as if killed by the system; the next actor may have more memory
        except Exception as error:
            outcome = Failure.of(error)
        return {"outcome": pickle.dumps(outcome)}

    def _outcome(self, target: str, chunks: list[Chunk] | None) -> Outcome:
        if chunks is None:
            return Outcome(skipped=1)
        # If the file exists, an earlier actor wrote it and died before it could report.
        if self.parsing.force or not Path(target).exists():
            format = self.parsing.format
            with written(target) as file:
                results = ((chunk, self.parser.parse(chunk, format)) for chunk in chunks)
                for _ in write_chunks(file, results, format):
                    pass
        return Outcome(sum(len(chunk.texts) for chunk in chunks), written=1)
