"""Worker processes, each with a pipeline of its own, and the bounded queue of the jobs for them.

A process can be ended when a text takes too long, and its memory is its own; a thread cannot. A
worker takes several short jobs at once, because a pipeline parses a batch several times as fast
as its texts one by one. This module imports neither spaCy nor a web framework.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import warnings
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from threading import Condition, Thread
from typing import Any, NamedTuple

from ..errors import StructlearnError

BATCH = 5_000  # characters of jobs that a worker takes at once; longer ones are alone
WORDS = 1_000_000  # in a vocab, freed ones included; then the pipeline is loaded again
AGAIN = 2.0  # seconds until a worker that could not start is started again
GOODBYE = 5.0  # seconds in which a worker ends by itself
_SPAWN = multiprocessing.get_context("spawn")
_log = logging.getLogger(__name__)


class Job(NamedTuple):
    """What a request asks for.

    texts: those to parse. several: whether the answer is a list. layers: those of the answer; None
    for all. trees: number of best trees to draw; None for an answer without drawings.
    """

    texts: list[str]
    several: bool = False
    layers: list[str] | None = None
    trees: int | None = None


class Busy(Exception):
    """The queue is full."""


class Stopped(Exception):
    """The pool does not take jobs any more."""


class Broken(Exception):
    """The worker of a job ended, or was ended because it took too long."""


class Failed(Exception):
    """The pipeline raised an error, whose type is the message."""


@dataclass
class _Item:
    job: Job
    future: Future[bytes] = field(default_factory=Future)
    alone: bool = False  # once its worker has ended

    def size(self) -> int:
        return sum(map(len, self.job.texts))


class Pool:
    """A queue of jobs, and the processes that work on them.

    load: returns the pipeline. It is called in each process, so it must be possible to pickle it.
    workers: the number of processes. queue: the most jobs that wait. timeout: seconds until a
    worker at a job is ended.
    """

    def __init__(
        self,
        load: Callable[[], Any],
        *,
        workers: int = 1,
        queue: int = 64,
        timeout: float = 30.0,
    ):
        self.queue, self.timeout = queue, timeout
        self.layers: list[str] = []
        self._waiting: deque[_Item] = deque()
        self._changed = Condition()
        self._stopping = False
        self._workers = [_Worker(load) for _ in range(workers)]
        self._threads = [
            Thread(target=self._run, args=(worker,), daemon=True) for worker in self._workers
        ]

    def start(self) -> None:
        """Start all processes. Raises StructlearnError if they cannot load the pipeline."""
        for worker in self._workers:
            worker.start()
        try:
            for worker in self._workers:
                self.layers = worker.wait_until_ready()
        except _CannotStart as error:
            self.stop()
            raise StructlearnError("SL270", problem=error) from None
        for thread in self._threads:
            thread.start()

    def submit(self, job: Job) -> Future[bytes]:
        """Queue a job. Returns the future of its JSON, which may raise Failed, Broken or Stopped.

        Raises Busy if the queue is full, and Stopped after `stop`.
        """
        item = _Item(job)
        with self._changed:
            if self._stopping:
                raise Stopped
            # Those of clients that have gone need no place.
            if len(self._waiting) >= self.queue:
                self._waiting = deque(own for own in self._waiting if not own.future.cancelled())
            if len(self._waiting) >= self.queue:
                raise Busy
            self._waiting.append(item)
            self._changed.notify()
        return item.future

    def state(self) -> dict[str, int]:
        """Return the number of `workers` that are ready, and of the jobs that are `waiting`."""
        return {
            "workers": sum(worker.is_ready for worker in self._workers),
            "waiting": len(self._waiting),
        }

    def stop(self) -> None:
        """End all processes. Jobs that wait are not done."""
        with self._changed:
            self._stopping = True
            left, self._waiting = self._waiting, deque()
            self._changed.notify_all()
        for item in left:
            if not item.future.cancel() and not item.future.done():
                item.future.set_exception(Stopped())
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(GOODBYE)
        for worker in self._workers:
            worker.end()

    def _run(self, worker: _Worker) -> None:
        """Let a worker work until the pool stops."""
        while items := self._take():
            try:
                found = worker.ask([item.job for item in items], self.timeout)
            except (EOFError, OSError) as error:
                late = isinstance(error, TimeoutError)
                _log.warning("a worker %s; starting another", "took too long" if late else "died")
                self._put_back(items, late)
                self._restart(worker)
                continue
            for item, answer in zip(items, found, strict=True):
                if isinstance(answer, bytes):
                    item.future.set_result(answer)
                else:
                    item.future.set_exception(Failed(answer))

    def _take(self) -> list[_Item]:
        """Wait for jobs, and return one, or several short ones; none when the pool stops."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._stopping)
                if self._stopping:
                    return []
                # The other workers get the same number.
                share = -(-len(self._waiting) // len(self._workers))
                taken: list[_Item] = []
                size = 0
                while self._waiting and len(taken) < share:
                    item = self._waiting[0]
                    size += item.size()
                    if taken and (item.alone or size > BATCH):
                        break
                    self._waiting.popleft()
                    if item.alone or item.future.set_running_or_notify_cancel():
                        taken.append(item)
                    if item.alone:
                        break
                if taken:
                    return taken

    def _put_back(self, items: list[_Item], late: bool) -> None:
        """Let the jobs of a worker that died be done one by one, because one is the cause."""
        if late or len(items) == 1 or self._stopping:
            for item in items:
                item.future.set_exception(Broken())
            return
        for item in items:
            item.alone = True
        with self._changed:
            self._waiting.extendleft(reversed(items))
            self._changed.notify_all()

    def _restart(self, worker: _Worker) -> None:
        worker.end(0)
        while not self._stopping:
            try:
                worker.start()
                worker.wait_until_ready()
                return
            except (_CannotStart, OSError) as error:
                _log.warning("a worker cannot start (%s)", type(error).__name__)
                worker.end(0)
                with self._changed:
                    self._changed.wait_for(lambda: self._stopping, AGAIN)


class _CannotStart(Exception):
    """The process could not load the pipeline; the message says why."""


class _Worker:
    """A process and the connection to it."""

    def __init__(self, load: Callable[[], Any]):
        self.is_ready = False
        self._load = load
        self._process: Any = None
        self._connection: Connection | None = None

    def start(self) -> None:
        self._connection, there = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=work, args=(there, self._load), daemon=True)
        self._process.start()
        there.close()

    def wait_until_ready(self) -> list[str]:
        """Return the layers that can be asked for, once the pipeline is loaded."""
        assert self._connection is not None
        try:
            problem, layers = self._connection.recv()
        except (EOFError, OSError):
            problem, layers = "the process died", []
        if problem is not None:
            raise _CannotStart(problem)
        self.is_ready = True
        return layers

    def ask(self, jobs: list[Job], timeout: float) -> list[bytes | str]:
        """Return the answers; raise TimeoutError if it takes too long, EOFError if it died."""
        assert self._connection is not None
        self._connection.send(jobs)
        if not self._connection.poll(timeout):
            raise TimeoutError
        return self._connection.recv()

    def end(self, patience: float = GOODBYE) -> None:
        """End the process. patience: seconds in which it may end by itself."""
        self.is_ready = False
        if self._connection is not None:
            self._connection.close()
        if self._process is not None and self._process.pid is not None:
            # An idle one ends when its connection is closed.
            self._process.join(patience)
            self._process.kill()
            self._process.join()


def work(connection: Connection, load: Callable[[], Any]) -> None:
    """Answer jobs in a process of its own until the connection is closed."""
    # Those of the whole process group are for the server, which ends this one.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    # Warnings quote texts.
    warnings.simplefilter("ignore")
    logging.disable()
    try:
        from .answers import NAMES, answers

        nlp = load()
        answers(nlp, [Job(["Ready."], trees=1)])
    except BaseException as error:
        connection.send((f"{error}" or type(error).__name__, []))
        return
    connection.send((None, NAMES))
    while True:
        try:
            jobs = connection.recv()
        except (EOFError, OSError):
            return
        found = answers(nlp, jobs)
        try:
            connection.send(found)
        except OSError:
            return
        if len(nlp.vocab) > WORDS:
            del nlp
            nlp = load()
