"""`apply` on a Ray cluster: actors read files, parse their texts, and write their parts.

A task is a file, or every n-th part of it if there are fewer files than actors. Ray repeats the
task of an actor that died, a few times. This is safe, because a part is written as a whole and is
always the same. Without `force`, the parts that a lost task has written are skipped.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ...errors import StructlearnError
from .parts import ChunkParser, portable, write_parts
from .texts import Job, Source

RETRIES = 3  # of an actor that died, and of its task


class Failure(NamedTuple):
    """An error of an actor, and its traceback; Ray keeps only its text."""

    error: Exception
    trace: str


class Actor:
    """A process that parses and writes the parts of files."""

    def __init__(self, job: Job):
        self.job = job
        self.parser = ChunkParser(job.model)

    def write(self, source: Source, shard: tuple[int, int]) -> Counter[str] | Failure:
        """Write the parts of a shard of a file. Returns counts as `write_parts` does."""
        parts = self.job._replace(shard=shard).parts([source], self.parser.nlp.max_length)
        try:
            return write_parts(parts, self.job, self.parser.parse_all)
        except MemoryError:
            os._exit(1)  # as if killed by the system; the next actor may have more memory
        except Exception as error:
            return Failure(portable(error), traceback.format_exc())


def write_parts_by_ray(
    sources: Sequence[Source], job: Job, *, address: str | None, n_process: int | None
) -> Counter[str]:
    """Parse and write the parts of some files, and return counts, as `write_parts` does.

    address: See `connected`. n_process: None for one actor per processor.
    Raises StructlearnError without Ray, or if Ray fails, as it does if actors keep dying.
    """
    with connected(address):
        import ray
        from ray.exceptions import RayError
        from ray.util import ActorPool
        from tqdm import tqdm

        done: Counter[str] = Counter()
        n_process = n_process or max(1, int(ray.cluster_resources().get("CPU", 1)))
        shards = -(-n_process // len(sources))
        tasks = [(source, (i, shards)) for source in sources for i in range(shards)]
        options = {"num_cpus": 1, "max_restarts": RETRIES, "max_task_retries": RETRIES}
        make = ray.remote(**options)(Actor).remote
        pool = ActorPool([make(job) for _ in range(min(n_process, len(tasks)))])
        results = pool.map_unordered(lambda actor, task: actor.write.remote(*task), tasks)
        try:
            with tqdm(unit=" texts", disable=None) as progress:
                for result in results:
                    if isinstance(result, Failure):
                        raise result.error from RuntimeError(result.trace)
                    done += result
                    progress.update(result["texts"])
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
