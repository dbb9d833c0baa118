"""The journal of an annotator: one JSON object a line, behind its checksum.

Lines are only added, and each is on the disk before `append` returns. What a killed process left of
its last line is dropped. A line that is damaged elsewhere is an error, as nothing may be lost.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ...errors import StructlearnError
from ...writing import locked, resolved, write_bytes

Record = dict[str, Any]


class Journal:
    """A journal that this process writes, and no other one.

    path: of the file, which is created. Raises StructlearnError if another process writes it, or if
    it is damaged.
    records: what it had when it was opened.
    """

    def __init__(self, path: Path):
        with ExitStack() as stack:
            path = resolved(path)
            stack.enter_context(locked(path))
            if not path.exists():
                write_bytes(path, b"")
            self.records, self._size = read(path)
            self._file = stack.enter_context(path.open("r+b", buffering=0))
            self._cut()
            self._stack = stack.pop_all()

    def append(self, record: Record) -> None:
        """Add a record. After an error, such as a full disk, the journal is as it was before."""
        text = json.dumps(record, separators=(",", ":")).encode("ascii")
        data = b"%08x %s\n" % (zlib.crc32(text), text)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except BaseException:
            self._cut()
            raise
        self._size += len(data)

    def close(self) -> None:
        """Let others write the journal."""
        self._stack.close()

    def _cut(self) -> None:
        self._file.truncate(self._size)
        self._file.seek(self._size)


def read(path: Path) -> tuple[list[Record], int]:
    """Return the records of a journal, and how many bytes they take.

    Raises StructlearnError for a damaged line; the last one is dropped if its end is missing.
    """
    records, size = [], 0
    # What follows the last line break is no line.
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
        checksum, _, text = line.partition(b" ")
        if checksum != b"%08x" % zlib.crc32(text):
            problem = f"line {number} is damaged. Take the file from a backup"
            raise StructlearnError("SL271", what=path, problem=problem)
        records.append(json.loads(text))
        size += len(line) + 1
    return records, size
