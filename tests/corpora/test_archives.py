"""Archives made by hand: hostile, damaged and truncated ones end in one clear error."""

import gzip
import hashlib
import random
import tarfile
from contextlib import suppress

import pytest
from _archives import load_digests, read_members, save_digests
from _download import FetchError

SOURCE = {"root": "top", "max_member": 1000, "max_read": 1500, "max_stream": 100_000}
GOOD = {"top/a.txt": b"alpha", "top/b.txt": b"beta", "top/c.bin": b"no one asks for this"}


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


DIGESTS = {"a.txt": digest(b"alpha"), "b.txt": digest(b"beta")}


def read(path, digests=DIGESTS, **changed):
    source = SOURCE | changed
    if path.suffix == ".zip":
        data = path.read_bytes()
        source = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} | source
    return read_members(path, source, ["*.txt"], digests)


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.fixture(params=["tar.gz", "zip"])
def archive(request, tmp_path, make_tar, make_zip):
    """Packs members in either format."""
    make = make_zip if request.param == "zip" else make_tar
    return lambda members: make(tmp_path / f"x.{request.param}", members)


def test_only_wanted_members_are_read(archive):
    members = read(archive(GOOD))
    assert list(members) == ["a.txt", "b.txt"]
    assert members.text("a.txt") == "alpha"
    with pytest.raises(FetchError, match=r"c\.bin is missing"):
        members.read("c.bin")


@pytest.mark.parametrize(
    "name", ["/etc/a.txt", "../a.txt", "top/../../a.txt", "top\\a.txt", "C:/a.txt"]
)
def test_names_that_leave_the_archive(archive, name):
    with pytest.raises(FetchError, match="unsafe member name"):
        read(archive(GOOD | {name: b"x"}))


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        (tarfile.SYMTYPE, "/etc/passwd"),
        (tarfile.LNKTYPE, "top/a.txt"),
        (tarfile.CHRTYPE, ""),
        (tarfile.FIFOTYPE, ""),
    ],
)
def test_links_and_devices_in_a_tar(tmp_path, make_tar, kind, target):
    name = "top/z.txt"
    path = make_tar(tmp_path / "x.tar.gz", GOOD | {name: special(name, kind, target)})
    with pytest.raises(FetchError, match=r"z\.txt is a link, special or repeated"):
        read(path)


def test_headers_changed_at_random(tmp_path, make_tar):
    """Their checksums are right again, so that they are read; and the archive is whole."""
    whole = bytearray(gzip.decompress(make_tar(tmp_path / "x.tar.gz", GOOD).read_bytes()))
    path = tmp_path / "bad.tar.gz"
    rng = random.Random(0)
    for size in range(0, len(gzip.compress(whole)), 7):  # truncated
        path.write_bytes(gzip.compress(whole)[:size])
        with pytest.raises(FetchError, match=r"bad\.tar\.gz: "):
            read(path)
    for _ in range(200):
        changed = bytearray(whole)
        begin = rng.choice([0, 1024, 2048])  # of a header; each content has one block
        for _ in range(rng.randrange(1, 4)):
            changed[begin + rng.randrange(512)] = rng.randrange(256)
        header = changed[begin : begin + 512]
        changed[begin + 148 : begin + 156] = b"%06o\0 " % tarfile.calc_chksums(bytes(header))[0]
        path.write_bytes(gzip.compress(changed, 1))
        # Nothing else is raised, and what is read is what the digests are of.
        with suppress(FetchError):
            members = read(path)
            assert {members.read(name) for name in members} <= {b"alpha", b"beta"}


@pytest.mark.parametrize("sizes", [[1001], [800, 800]])
def test_size_caps(archive, sizes):
    members = {f"top/{i}.txt": bytes(size) for i, size in enumerate(sizes)}
    with pytest.raises(FetchError, match="over the size cap"):
        read(archive(members))


def one_digest(members: dict[str, bytes]) -> str:
    """What `sha256sum` prints for the members, hashed again."""
    lines = [f"{hashlib.sha256(members[name]).hexdigest()}  {name}\n" for name in sorted(members)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def test_one_digest_of_all_members(tmp_path, make_tar):
    expected = one_digest({"a.txt": b"alpha", "b.txt": b"beta"})
    path = make_tar(tmp_path / "x.tar.gz", GOOD)
    members = read(path, {}, members=2, members_sha256=expected)
    assert members.read("a.txt") == b"alpha"
    assert members.digests is None
    make_tar(path, dict(reversed(GOOD.items())))
    read(path, {}, members=2, members_sha256=expected)
    with pytest.raises(FetchError, match=r"x\.tar\.gz: 2 of 3 members"):
        read(path, {}, members=3, members_sha256=expected)


def test_wrong_digest_of_a_zip(tmp_path, make_zip):
    path = make_zip(tmp_path / "x.zip", GOOD)
    with pytest.raises(FetchError, match=r"x\.zip: wrong digest: expected 00, found [0-9a-f]{64}"):
        read(path, sha256="00")
    with pytest.raises(FetchError, match=r"x\.zip: truncated or wrong: \d+ of 9 bytes"):
        read(path, bytes=9)


def test_digests_survive_the_file(tmp_path):
    names = ["one.txt", "d/a", "d/aa", "d/ab.b", "d/ab.bb", "d/thé.txt", "d/the cup.txt"]
    path = tmp_path / "digests.txt"
    path.write_text("# a comment\n")
    digests = {"one": {name: digest(name.encode()) for name in names}, "two": {"x/y": "0" * 16}}
    save_digests(path, digests)
    assert load_digests(path) == digests
    assert path.read_text(encoding="utf-8").startswith("# a comment\n")
