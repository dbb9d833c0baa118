"""Downloads from a loopback server that fails, cuts connections and changes files."""

import pytest
from _download import FetchError, download, obtain

CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def target(tmp_path):
    return tmp_path / "cache" / "file.bin"


@pytest.fixture
def url(site):
    (site.root / "file.bin").write_bytes(CONTENT)
    return f"{site.url}/file.bin"


def get(url, target, retries=3, limit=10**6):
    download(url, target, limit=limit, retries=retries, pause=0.01)


def leftovers(target):
    return sorted(path.name for path in target.parent.iterdir())


@pytest.mark.parametrize("status", [429, 500, 503])
def test_transient_status_is_tried_again(site, url, target, status):
    site.faults = [status, status]
    get(url, target)
    assert target.read_bytes() == CONTENT
    assert len(site.requests) == 3


def test_cut_download_is_resumed_by_the_next_run(site, url, target):
    site.faults = ["cut"]
    with pytest.raises(FetchError, match=r"broke off \(128000 of 256000 bytes\)"):
        get(url, target, retries=0)
    assert not target.exists()
    get(url, target, retries=0)
    assert target.read_bytes() == CONTENT
    assert site.requests[-1][1] == f"bytes={len(CONTENT) // 2}-"
    assert leftovers(target) == ["file.bin"]


@pytest.mark.parametrize("scheme", ["file", "ftp", "data", "gopher"])
def test_redirects_elsewhere_are_not_followed(site, url, target, scheme):
    site.faults = [f"{scheme}://127.0.0.1/etc/passwd"]
    with pytest.raises(FetchError, match=f"{scheme}://127"):
        get(url, target)
    assert len(site.requests) == 1
    assert leftovers(target) == []


def test_obtain_reads_a_mirror_directory_in_place(tmp_path):
    file = tmp_path / "mirror/host.example/a.zip"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"x")
    mirror = str(tmp_path / "mirror")
    arguments = {"limit": 10, "retries": 0}
    cache = tmp_path / "cache"
    assert obtain("https://host.example/a.zip", mirror, cache, **arguments) == file
    assert not cache.exists()
    with pytest.raises(FetchError, match=r"mirror has no file .*b\.zip"):
        obtain("https://host.example/b.zip", mirror, cache, **arguments)
