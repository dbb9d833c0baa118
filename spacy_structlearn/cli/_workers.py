"""Processes that parse, and may die: nothing is lost, and nothing is made twice.

spaCy's own n_process sends Docs from process to process, which takes longer than parsing them; and
a pool of the standard library ends with the first of its processes that dies. Here each process has
one chunk at a time, so that it is known whose it was, and a new one takes its place.

A chunk that a process died of is parsed anew: as before, in case that it was another's fault; then
text by text, with nothing else at work, so that it has all memory and no other chunk is blamed.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import sys
import traceback
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from queue import LifoQueue
from threading import Condition, Lock
from typing import NamedTuple, NoReturn

from ..errors import StructlearnError
from ._parts import Chunk, ChunkParser, Output, joined

DEATHS = 3  # so many processes may die of a text: the last one has it alone


class Workers:
    """So many processes, each with a pipeline of its own.

    model: what they load. As a context manager it ends them, whatever they are at.
    """

    def __init__(self, model: str | None, format: Output, number: int):
        self.model = model
        self.format = format
        self.number = number
        # A thread for each process waits for it: what a process is at is then known by the thread.
        self._threads = ThreadPoolExecutor(number)
        # The last that was used first: none is started as long as another one is free.
        self._free: LifoQueue[_Worker | None] = LifoQueue()
        for _ in range(number):
            self._free.put(None)
        self._alive: set[_Worker] = set()
        self._lock = Lock()
        self._is_closed = False
        self._room = _Room()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._is_closed = True
            for worker in self._alive:
                worker.kill()
        self._threads.shutdown(cancel_futures=True)
        for worker in self._alive:
            worker.buried()

    def parse(self, chunks: Iterable[Chunk]) -> Iterator[tuple[Chunk, bytes]]:
        """The chunks in order, each with what was made of it.

        RAISES: SL072 for a text that several processes died of; what parsing raises.
        """
        waiting: deque[tuple[Chunk, Future[bytes]]] = deque()
        for chunk in chunks:
            waiting.append((chunk, self._threads.submit(self._parsed, chunk)))
            # Not all at once: the input may be larger than memory.
            if len(waiting) > 2 * self.number:
                chunk, result = waiting.popleft()
                yield chunk, result.result()
        for chunk, result in waiting:
            yield chunk, result.result()

    def _parsed(self, chunk: Chunk) -> bytes:
        for _ in range(DEATHS - 1):
            try:
                with self._room.shared():
                    return self._by_one(chunk)
            except _Death as death:
                _say(f"structlearn: a worker died ({death}) of {chunk.place()}; a new one goes on")
        with self._room.alone():
            return joined([self._alone(single) for single in chunk.singles()], self.format)

    def _alone(self, single: Chunk) -> bytes:
        try:
            return self._by_one(single)
        except _Death as death:
            _say(f"structlearn: a worker died ({death}) of {single.place()} alone")
            raise StructlearnError(
                "SL072", place=single.place(), deaths=DEATHS, death=death
            ) from None

    def _by_one(self, chunk: Chunk) -> bytes:
        """RAISES: _Death if the process dies of it, or is ended."""
        worker = self._free.get()
        try:
            if worker is None:
                worker = self._started()
            return worker.parse(chunk)
        except _Death:
            # Not while another one starts, which asks after all processes, too.
            with self._lock:
                if self._is_closed:
                    raise _Closed from None
                self._alive.discard(worker)
                death, worker = _Death(worker.buried()), None
            raise death from None
        finally:
            self._free.put(worker)

    def _started(self) -> _Worker:
        with self._lock:
            if self._is_closed:
                raise _Closed
            worker = _Worker(self.model, self.format)
            self._alive.add(worker)
            return worker


class Failure(NamedTuple):
    """What was raised in another process, with the traceback there."""

    error: Exception
    said: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """To be sent; the error is replaced by one that tells of it if it cannot be."""
        said = "".join(traceback.format_exception(error))
        try:
            return cls(pickle.loads(pickle.dumps(error)), said)
        except Exception:  # whatever somebody else's class raises
            return cls(RuntimeError(f"{type(error).__name__}: {error}"), said)

    def raise_here(self) -> NoReturn:
        """RAISES: the error, as if it were of this process; its cause is the traceback."""
        raise self.error from RuntimeError(self.said)


class _Death(Exception):
    """A process has ended before its time."""


class _Closed(Exception):
    """All processes are being ended; nobody waits for this one's result."""


class _Worker:
    """A process, and the pipe to it. It ends by itself where this process does."""

    def __init__(self, model: str | None, format: Output):
        # spawn: a forked child would inherit the threads of BLAS in an undefined state.
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, model, format))
        self._process.start()
        # The pipe breaks when the process dies, but only if nobody else has its end.
        theirs.close()

    def parse(self, chunk: Chunk) -> bytes:
        """RAISES: _Death; what parsing raises."""
        found: bytes | Failure
        try:
            self._pipe.send(chunk)
            found = self._pipe.recv()
        except (EOFError, OSError):
            raise _Death from None
        if isinstance(found, bytes):
            return found
        found.raise_here()

    def kill(self) -> None:
        """End it, whatever it is at; the pipe breaks."""
        self._process.kill()

    def buried(self) -> str:
        """How it ended, such as "killed by SIGKILL"; it is ended if it has not."""
        self._process.kill()
        self._process.join()
        self._pipe.close()
        code = self._process.exitcode
        if code is not None and code < 0:
            with suppress(ValueError):
                return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"


class _Room:
    """For many at once, or for one alone, who need not wait for those that come later."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside = 0
        self._wanting = 0  # to be alone

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Be in it with others."""
        with self._changed:
            self._changed.wait_for(lambda: not self._wanting)
            self._inside += 1
        try:
            yield
        finally:
            self._leave()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be in it alone."""
        with self._changed:
            self._wanting += 1
            self._changed.wait_for(lambda: not self._inside)
            self._inside += 1
        try:
            yield
        finally:
            self._leave(1)

    def _leave(self, wanting: int = 0) -> None:
        with self._changed:
            self._inside -= 1
            self._wanting -= wanting
            self._changed.notify_all()


def _say(line: str) -> None:
    """On standard error, above the bar that may be there."""
    from tqdm import tqdm

    tqdm.write(line, file=sys.stderr)


# --- over there -----------------------------------------------------------------------------------
def serve(pipe: Connection, model: str | None, format: Output) -> None:
    """Parse chunks as they come through the pipe, until it ends.

    Each is answered by bytes, or by a Failure.
    """
    # Ctrl-C reaches all processes; the first one ends the others.
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
