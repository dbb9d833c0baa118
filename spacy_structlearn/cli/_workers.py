"""A pool of parsing processes that tolerates the death of processes without losing texts.

spaCy's n_process sends Docs between processes, which takes longer than parsing them, and a pool of
the standard library breaks when one of its processes dies. Here each process has one chunk at a
time, so the chunk of a dead process is known, and a new process replaces the dead one.

The chunk of a dead process is parsed again: first as before, because another chunk may be the
cause; then text by text while no other process is at work, so that all memory is available.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import LifoQueue
from threading import Lock
from typing import NamedTuple, NoReturn

from ..cleanup import ensured
from ..errors import StructlearnError
from ._parts import Chunk, ChunkParser, Output
from ._terminal import guard_errors

DEATHS = 3  # maximum number of processes that may die of a text; the last one runs alone


class Workers:
    """A pool of processes that each load a pipeline. Leaving the context kills them."""

    def __init__(self, model: str | None, format: Output, number: int):
        self.model = model
        self.format = format
        self.number = number
        if os.name == "posix":
            from multiprocessing import resource_tracker

            # A later start would unblock the signals of its thread.
            resource_tracker.ensure_running()
        # One thread waits for each process, and knows its chunk.
        self._threads = ThreadPoolExecutor(number, initializer=_block_signals)
        # Last in, first out: no process is started while another one is free.
        self._free: LifoQueue[_Worker | None] = LifoQueue()
        for _ in range(number):
            self._free.put(None)
        self._alive: set[_Worker] = set()
        self._lock = Lock()
        self._is_closed = False
        self._killing = ensured(self._kill)

    def __enter__(self) -> Workers:
        self._killing.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._killing.__exit__(None, None, None)
        self._threads.shutdown(cancel_futures=True)
        for worker in self._alive:
            worker.buried()

    def parse(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, bytes]]:
        """Yield the chunks in order with their results; some are divided into single texts.

        Raises StructlearnError for a text that several processes died of, and errors of parsing.
        """
        waiting: deque[tuple[Chunk, Future[bytes]]] = deque()
        for chunk in chunks:
            waiting.append((chunk, self._threads.submit(self._tried, chunk)))
            # The input may be larger than memory.
            if len(waiting) > 2 * self.number:
                yield from self._next(waiting)
        while waiting:
            yield from self._next(waiting)

    def _next(self, waiting: deque[tuple[Chunk, Future[bytes]]]) -> list[tuple[Chunk, bytes]]:
        chunk, result = waiting.popleft()
        try:
            return [(chunk, result.result())]
        except _Death:
            # Nothing else is submitted meanwhile, so all memory is available.
            wait([other for _, other in waiting])
            return [(single, self._alone(single)) for single in chunk.singles()]

    def _tried(self, chunk: Chunk, tries: int = DEATHS - 1) -> bytes:
        """Parse a chunk, again if the process dies; raise _Death if all tries fail."""
        try:
            return self._by_one(chunk)
        except _Death as death:
            _say(f"structlearn: a worker died ({death}) of {chunk.place()}; a new one goes on")
            if tries == 1:
                raise
            return self._tried(chunk, tries - 1)

    def _alone(self, single: Chunk) -> bytes:
        try:
            return self._by_one(single)
        except _Death as death:
            _say(f"structlearn: a worker died ({death}) of {single.place()} alone")
            raise StructlearnError(
                "SL072", place=single.place(), deaths=DEATHS, death=death
            ) from None

    def _by_one(self, chunk: Chunk) -> bytes:
        """Parse a chunk in a free process; raise _Death if the process dies."""
        worker = self._free.get()
        try:
            if worker is None:
                worker = self._started()
            return worker.parse(chunk)
        except _Death:
            # Locked, because starting a process also polls all others.
            with self._lock:
                if self._is_closed:
                    raise _Closed from None
                self._alive.discard(worker)
                death, worker = _Death(worker.buried()), None
            raise death from None
        finally:
            self._free.put(worker)

    def _kill(self) -> None:
        """Kill all processes, which breaks their pipes, and start no more."""
        # With a timeout, because the signal that ends this process may have interrupted the holder.
        is_locked = self._lock.acquire(timeout=0.5)
        self._is_closed = True
        for worker in list(self._alive):
            worker.process.kill()
        if is_locked:
            self._lock.release()

    def _started(self) -> _Worker:
        with self._lock:
            if self._is_closed:
                raise _Closed
            worker = _Worker(self.model, self.format)
            self._alive.add(worker)
            return worker


class Failure(NamedTuple):
    """An exception of another process, with its traceback."""

    error: Exception
    said: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """Wrap an error; replace it by a RuntimeError if it cannot be pickled."""
        said = "".join(traceback.format_exception(error))
        try:
            return cls(pickle.loads(pickle.dumps(error)), said)
        except Exception:  # the class may raise anything
            return cls(RuntimeError(f"{type(error).__name__}: {error}"), said)

    def raise_here(self) -> NoReturn:
        """Raise the error in this process, with the original traceback as its cause."""
        raise self.error from RuntimeError(self.said)


class _Death(Exception):
    """A process has died."""


class _Closed(Exception):
    """The pool is closed, and nobody waits for the result."""


class _Worker:
    """A process and the pipe to it. The process ends if this one does."""

    def __init__(self, model: str | None, format: Output):
        # spawn: a forked process would inherit BLAS threads in an undefined state.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, model, format))
        self.process.start()
        # The pipe breaks when the process dies, but only if this end is closed here.
        theirs.close()

    def parse(self, chunk: Chunk) -> bytes:
        """Parse a chunk; raise _Death or the errors of parsing."""
        found: bytes | Failure
        try:
            self._pipe.send(chunk)
            found = self._pipe.recv()
        except (EOFError, OSError):
            raise _Death from None
        if isinstance(found, bytes):
            return found
        found.raise_here()

    def buried(self) -> str:
        """Kill the process, and describe how it ended, such as "killed by SIGKILL"."""
        self.process.kill()
        self.process.join()
        self._pipe.close()
        code = self.process.exitcode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"


def _block_signals() -> None:
    """Block the signals of this thread, and of the processes that it starts.

    Ctrl-C and some supervisors send signals to all processes; the main process ends the others.
    They cannot ignore signals early enough themselves.
    """
    if os.name == "posix":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})


def _say(line: str) -> None:
    """Print a line on standard error, above the progress bar."""
    from tqdm import tqdm

    tqdm.write(line, file=sys.stderr)


# --- in the process -------------------------------------------------------------------------------
def serve(pipe: Connection, model: str | None, format: Output) -> None:
    """Parse the chunks that arrive through the pipe, until it is closed.

    The answer to a chunk is bytes or a Failure.
    """
    guard_errors()
    # Where signals cannot be blocked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parser = None
    with suppress(EOFError, ConnectionError):
        while True:
            chunk = pipe.recv()
            try:
                parser = parser or ChunkParser(model)
                found = parser.parse(chunk, format)
            except MemoryError:
                sys.exit("structlearn: out of memory")
            except Exception as error:
                found = Failure.of(error)
            pipe.send(found)
