"""Reads the members that a build needs out of a zip or tar.gz, in memory and in one pass: nothing
is unpacked to disk. Refuses names that leave the archive, links, devices and sizes over the caps
in corpora.toml, and checks a digest for each member (for a zip: of the whole file) before use."""

import gzip
import hashlib
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from _download import CHUNK, FetchError

DIGEST_HEX = 16  # the first 64 bits of a SHA-256 keep the list of digests small
Digests = dict[str, dict[str, str]]  # source -> member -> digest

# What the readers of the standard library raise for what no archiver has written: encrypted members
# and headers within headers without end are a RuntimeError, numbers that are none a ValueError.
DAMAGE = (
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    ArithmeticError,
    struct.error,
    zlib.error,
    gzip.BadGzipFile,
    tarfile.TarError,
    zipfile.BadZipFile,
)


class DamagedError(FetchError):
    """The file `path` as a whole is broken; a cached copy of it is of no use."""

    def __init__(self, path: Path, problem: str):
        super().__init__(f"{path}: {problem}")
        self.path = path


class Members:
    """The wanted members of one archive by name (without the archive's top directory)."""

    def __init__(self, path: Path, contents: dict[str, bytes], digests: dict[str, str] | None):
        self.path = path
        self.digests = digests  # None: the whole file has been checked already
        self.used: dict[str, str] = {}
        self.recording = False
        self._contents = contents

    def __contains__(self, name: object) -> bool:
        return name in self._contents

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._contents))

    def read(self, name: str, *, held_out: bool = False) -> bytes:
        """The content of a member, checked. Only a held-out (test) document may lack a recorded
        digest: no one who wrote the list has seen it. Raises FetchError."""
        if name not in self._contents:
            raise FetchError(f"{self.path}: member {name} is missing")
        content = self._contents[name]
        if self.digests is not None:
            self.used[name] = found = hashlib.sha256(content).hexdigest()[:DIGEST_HEX]
            expected = self.digests.get(name)
            if not self.recording and (expected or not held_out) and found != expected:
                raise FetchError(
                    f"{self.path}: wrong digest of member {name}: "
                    f"expected {expected or 'none, it is not in the list'}, found {found}"
                )
        return content

    def text(self, name: str, *, held_out: bool = False) -> str:
        try:
            return self.read(name, held_out=held_out).decode("utf-8")
        except UnicodeDecodeError as error:
            raise FetchError(f"{self.path}: member {name} is not UTF-8 ({error})") from None


def read_members(path: Path, source: dict, patterns: list[str], digests: dict[str, str]) -> Members:
    """The members of `path` that match one of `patterns`. `source` is an entry of corpora.toml,
    `digests` are those of its members. Raises FetchError."""
    is_zip = path.suffix == ".zip"
    if is_zip:
        check_file(path, source)
    reader = _read_zip if is_zip else _read_tar
    try:
        contents = reader(path, source, lambda n: any(fnmatchcase(n, p) for p in patterns))
    except DAMAGE as error:
        raise DamagedError(path, f"truncated or damaged archive ({error})") from None
    return Members(path, contents, None if is_zip else digests)


def check_file(path: Path, source: dict) -> None:
    """Size and SHA-256 of a whole file."""
    size = path.stat().st_size
    if size != source["bytes"]:
        raise DamagedError(path, f"truncated or wrong: {size} of {source['bytes']} bytes")
    found = file_digest(path)
    if found != source["sha256"]:
        raise DamagedError(path, f"wrong digest: expected {source['sha256']}, found {found}")


def file_digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _safe_name(path: Path, name: str) -> PurePosixPath:
    pure = PurePosixPath(name)
    # The archive's own folder, ".", has no parts.
    has_drive = any(":" in part for part in pure.parts[:1])
    if pure.is_absolute() or ".." in pure.parts or "\\" in name or "\0" in name or has_drive:
        raise DamagedError(path, f"unsafe member name {name!r}")
    return pure


class _Sizes:
    """Keeps the sizes of the members read under the caps of a source."""

    def __init__(self, path: Path, source: dict):
        self.path, self.member, self.left = path, source["max_member"], source["max_read"]

    def take(self, name: str, size: int) -> None:
        self.left -= size
        if not 0 <= size <= self.member or self.left < 0:
            raise DamagedError(self.path, f"member {name} ({size} bytes) is over the size cap")


class _Capped:
    """A stream of uncompressed bytes that ends with an error behind `cap` (a compression bomb)."""

    def __init__(self, path: Path, stream: gzip.GzipFile, cap: int):
        self.path, self.stream, self.left = path, stream, cap

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise DamagedError(self.path, "uncompressed size is over the size cap")
        return data


def _read_tar(path: Path, source: dict, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    sizes = _Sizes(path, source)
    with gzip.open(path, "rb") as stream:
        capped = _Capped(path, stream, source["max_stream"])
        with tarfile.open(fileobj=capped, mode="r|") as archive:
            for info in archive:
                root, *rest = _safe_name(path, info.name).parts or ("",)
                name = "/".join(rest)
                if root != source["root"] or info.isdir() or not wanted(name):
                    continue
                if not info.isreg() or info.sparse is not None or name in contents:
                    raise DamagedError(path, f"member {name} is a link, special or repeated")
                sizes.take(name, info.size)
                contents[name] = _whole(path, name, archive.extractfile(info), info.size)
        # The end of the tar is not the end of the gzip: read on, so that its checksum is checked.
        while capped.read(CHUNK):
            pass
    if not contents:
        raise DamagedError(path, f"no member that is needed under {source['root']}/")
    return contents


def _read_zip(path: Path, source: dict, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    sizes = _Sizes(path, source)
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            root, *rest = _safe_name(path, info.filename).parts or ("",)
            name = "/".join(rest)
            if root != source["root"] or info.is_dir() or not wanted(name):
                continue
            # Unix keeps the kind of file in the upper half; 0 where the writer was not on Unix.
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG) or name in contents:
                raise DamagedError(path, f"member {name} is a link, special or repeated")
            sizes.take(name, info.file_size)
            with archive.open(info) as member:
                contents[name] = _whole(path, name, member, info.file_size)
    return contents


def _whole(path: Path, name: str, member, size: int) -> bytes:
    """Never more than the size the header told, which the caps have passed."""
    content = member.read(size + 1)
    if len(content) != size:
        raise DamagedError(path, f"member {name} is not of the size that the archive tells")
    return content


def load_digests(path: Path) -> Digests:
    """The list of digests: `[source]`, then a pattern with one `*`, then lines of what stands
    for the star and the digest."""
    digests: Digests = {}
    members: dict[str, str] = {}
    prefix = suffix = ""
    for line in path.read_text(encoding="ascii").splitlines():
        if line.startswith("#"):
            continue
        star, _, digest = line.rpartition(" ")
        if digest.startswith("["):
            members = digests.setdefault(digest.strip("[]"), {})
        elif not star:
            prefix, _, suffix = line.partition("*")
        else:
            members[prefix + star + suffix] = digest
    return digests


def save_digests(path: Path, digests: Digests) -> None:
    """Write `digests` in the form that `load_digests` reads, sorted; the comment on top stays."""
    lines = [x for x in path.read_text(encoding="ascii").splitlines() if x.startswith("#")]
    for source in sorted(digests):
        lines.append(f"[{source}]")
        folders: dict[str, list[str]] = {}
        for name in sorted(digests[source]):
            folders.setdefault(name.rpartition("/")[0], []).append(name)
        for folder, names in folders.items():
            prefix, suffix = _common_ends(folder + "/" if folder else "", names)
            lines.append(f"{prefix}*{suffix}")
            for name in names:
                star = name[len(prefix) : len(name) - len(suffix)]
                lines.append(f"{star} {digests[source][name]}")
    path.write_text("\n".join(lines) + "\n", encoding="ascii", newline="\n")


def _common_ends(folder: str, names: list[str]) -> tuple[str, str]:
    """What the names of a folder share in front and behind, leaving a character of each."""
    if len(names) == 1:
        return folder, ""
    prefix = _common_prefix(names)
    shortest = min(map(len, names)) - len(prefix)
    if shortest == 0:
        return folder, ""
    suffix = _common_prefix([name[::-1] for name in names])[: shortest - 1][::-1]
    return prefix, suffix


def _common_prefix(names: list[str]) -> str:
    first, last = min(names), max(names)  # in order of letters these two differ the earliest
    differ = (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(differ, len(first))]
