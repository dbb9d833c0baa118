"""Read members of a zip or tar.gz in memory and in one pass; nothing is unpacked to disk. Names
outside the archive, links, devices and sizes over the caps in corpora.toml are refused. A digest of
each member, of all members, or of the whole file (zip) is checked before use."""

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

# Members that describe the next one, and the largest size of one.
EXTENDED = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
MAX_EXTENDED = 1 << 20

# Exceptions of the standard library for invalid archives: RuntimeError for encrypted members and
# endless nested headers, ValueError for invalid numbers.
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
    """The whole file `path` is damaged; a cached copy should be deleted."""

    def __init__(self, path: Path, problem: str):
        super().__init__(f"{path}: {problem}")
        self.path = path


class Members:
    """The requested members of an archive by name, without the top directory of the archive."""

    def __init__(
        self,
        path: Path,
        contents: dict[str, bytes],
        digests: dict[str, str] | None,
        source: dict | None = None,
    ):
        self.path = path
        self.source = source or {}  # its entry of corpora.toml
        self.digests = digests  # None: all members have already been checked
        self.used: dict[str, str] = {}
        self.recording = False
        self._contents = contents

    def __contains__(self, name: object) -> bool:
        return name in self._contents

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._contents))

    def read(self, name: str, *, held_out: bool = False) -> bytes:
        """Return the content of a member after checking it. Only a held-out (test) document may
        lack a digest, because the list was made without test data. Raises FetchError."""
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
    """Read the members of `path` that match one of `patterns`. `source` is an entry of
    corpora.toml; `digests` are of its members, unless it has one of all. Raises FetchError."""
    is_zip = path.suffix == ".zip"
    if is_zip:
        check_file(path, source)
    reader = _read_zip if is_zip else _read_tar
    try:
        contents = reader(path, source, lambda n: any(fnmatchcase(n, p) for p in patterns))
    except DAMAGE as error:
        raise DamagedError(path, f"truncated or damaged archive ({error})") from None
    one_digest = "members_sha256" in source
    if one_digest:
        check_members(path, contents, source)
    return Members(path, contents, None if is_zip or one_digest else digests, source)


def check_members(path: Path, contents: dict[str, bytes], source: dict) -> None:
    """Check number and SHA-256 of the members. The digest is that of the lines of `sha256sum`."""
    if len(contents) != source["members"]:
        raise FetchError(f"{path}: {len(contents)} of {source['members']} members")
    digests = ((hashlib.sha256(contents[name]).hexdigest(), name) for name in sorted(contents))
    lines = "".join(f"{digest}  {name}\n" for digest, name in digests)
    found = hashlib.sha256(lines.encode()).hexdigest()
    if found != source["members_sha256"]:
        expected = source["members_sha256"]
        raise FetchError(f"{path}: wrong digest of its members: expected {expected}, found {found}")


def check_file(path: Path, source: dict) -> None:
    """Check size and SHA-256 of a whole file."""
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
    # The top folder of the archive, ".", has no parts.
    has_drive = any(":" in part for part in pure.parts[:1])
    if pure.is_absolute() or ".." in pure.parts or "\\" in name or "\0" in name or has_drive:
        raise DamagedError(path, f"unsafe member name {name!r}")
    return pure


class _Sizes:
    """Enforces the size caps of a source."""

    def __init__(self, path: Path, source: dict):
        self.path, self.member, self.left = path, source["max_member"], source["max_read"]

    def take(self, name: str, size: int) -> None:
        self.left -= size
        if not 0 <= size <= self.member or self.left < 0:
            raise DamagedError(self.path, f"member {name} ({size} bytes) is over the size cap")


class _Capped:
    """A stream of uncompressed bytes that raises an error after `cap` bytes (compression bombs)."""

    def __init__(self, path: Path, stream: gzip.GzipFile, cap: int):
        self.path, self.stream, self.left = path, stream, cap

    def read(self, size: int) -> bytes:
        data = self.stream.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise DamagedError(self.path, "uncompressed size is over the size cap")
        return data


class _Header(tarfile.TarInfo):
    """A header of a tar. tarfile reads long names and the like in memory, whatever their size."""

    @classmethod
    def frombuf(cls, buf, encoding, errors):
        header = super().frombuf(buf, encoding, errors)
        if header.type in EXTENDED and header.size > MAX_EXTENDED:
            raise tarfile.ReadError(f"an extended header of {header.size} bytes")
        return header


def _read_tar(path: Path, source: dict, wanted: Callable[[str], bool]) -> dict[str, bytes]:
    contents: dict[str, bytes] = {}
    sizes = _Sizes(path, source)
    with gzip.open(path, "rb") as stream:
        capped = _Capped(path, stream, source["max_stream"])
        with tarfile.open(fileobj=capped, mode="r|", tarinfo=_Header) as archive:
            for info in archive:
                root, *rest = _safe_name(path, info.name).parts or ("",)
                name = "/".join(rest)
                if root != source["root"] or info.isdir() or not wanted(name):
                    continue
                if not info.isreg() or info.sparse is not None or name in contents:
                    raise DamagedError(path, f"member {name} is a link, special or repeated")
                sizes.take(name, info.size)
                contents[name] = _whole(path, name, archive.extractfile(info), info.size)
        # Read the gzip to its end, after the end of the tar, so that its checksum is checked.
        while capped.read(CHUNK):
            pass
    if not contents:
        raise DamagedError(path, f"no required member in {source['root']}/")
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
            # On Unix, the upper half is the type of the file; otherwise it is 0.
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG) or name in contents:
                raise DamagedError(path, f"member {name} is a link, special or repeated")
            sizes.take(name, info.file_size)
            with archive.open(info) as member:
                contents[name] = _whole(path, name, member, info.file_size)
    return contents


def _whole(path: Path, name: str, member, size: int) -> bytes:
    """Read a member, at most the size in its header, which is within the caps."""
    content = member.read(size + 1)
    if len(content) != size:
        raise DamagedError(path, f"member {name} differs in size from its header")
    return content


def load_digests(path: Path) -> Digests:
    """Read the list of digests: `[source]`, then a pattern with one `*`, then lines with the text
    that replaces the star, and the digest."""
    digests: Digests = {}
    members: dict[str, str] = {}
    prefix = suffix = ""
    for line in path.read_text(encoding="utf-8").splitlines():
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
    """Write `digests` in the format of `load_digests`, sorted, and keep the comment at the top."""
    lines = [x for x in path.read_text(encoding="utf-8").splitlines() if x.startswith("#")]
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
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")


def _common_ends(folder: str, names: list[str]) -> tuple[str, str]:
    """Return the common prefix and suffix of names, which leave at least one character of each."""
    if len(names) == 1:
        return folder, ""
    prefix = _common_prefix(names)
    shortest = min(map(len, names)) - len(prefix)
    if shortest == 0:
        return folder, ""
    suffix = _common_prefix([name[::-1] for name in names])[: shortest - 1][::-1]
    return prefix, suffix


def _common_prefix(names: list[str]) -> str:
    first, last = min(names), max(names)  # their common prefix is the prefix of all names
    differ = (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(differ, len(first))]
