"""Downloads from a loopback server that fails, cuts connections and changes files."""

import socket
import urllib.request

import pytest
from _download import FetchError, _SecureRedirects, download, obtain

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


def test_download_writes_the_file_and_nothing_else(url, target):
    get(url, target)
    assert target.read_bytes() == CONTENT
    assert leftovers(target) == ["file.bin"]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_transient_status_is_tried_again(site, url, target, status):
    site.faults = [status, status]
    get(url, target)
    assert target.read_bytes() == CONTENT
    assert len(site.requests) == 3


def test_lasting_server_error_ends_after_the_retries(site, url, target):
    site.faults = [500] * 9
    with pytest.raises(FetchError, match=r"file\.bin: HTTP 500 .*--mirror"):
        get(url, target, retries=2)
    assert len(site.requests) == 3
    assert not target.exists()


def test_not_found_is_not_tried_again(site, target):
    with pytest.raises(FetchError, match="HTTP 404"):
        get(f"{site.url}/absent", target)
    assert len(site.requests) == 1
    assert leftovers(target) == []


def test_cut_connection_is_resumed_with_a_range(site, url, target):
    site.faults = ["cut"]
    get(url, target)
    assert target.read_bytes() == CONTENT
    assert [r for _, r in site.requests] == [None, f"bytes={len(CONTENT) // 2}-"]


def test_cut_download_is_resumed_by_the_next_run(site, url, target):
    site.faults = ["cut"]
    with pytest.raises(FetchError, match=r"broke off \(128000 of 256000 bytes\)"):
        get(url, target, retries=0)
    assert not target.exists()
    get(url, target, retries=0)
    assert target.read_bytes() == CONTENT
    assert site.requests[-1][1] == f"bytes={len(CONTENT) // 2}-"
    assert leftovers(target) == ["file.bin"]


def test_server_without_ranges_starts_anew(site, url, target):
    site.ranges, site.faults = False, ["cut"]
    get(url, target)
    assert target.read_bytes() == CONTENT


def test_file_that_changed_meanwhile_is_not_joined(site, url, target):
    site.faults = ["cut"]
    with pytest.raises(FetchError):
        get(url, target, retries=0)
    (site.root / "file.bin").write_bytes(CONTENT[::-1])
    get(url, target, retries=0)
    assert target.read_bytes() == CONTENT[::-1]


def test_part_without_validator_is_not_trusted(site, url, target):
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(b"of another file")
    get(url, target)
    assert target.read_bytes() == CONTENT
    assert site.requests == [("/file.bin", None)]


@pytest.mark.parametrize("scheme", ["file", "ftp", "data", "gopher"])
def test_redirects_elsewhere_are_not_followed(site, url, target, scheme):
    site.faults = [f"{scheme}://127.0.0.1/etc/passwd"]
    with pytest.raises(FetchError, match=f"{scheme}://127"):
        get(url, target)
    assert len(site.requests) == 1
    assert leftovers(target) == []


def test_redirects_that_go_round(site, url, target):
    site.faults = [url] * 50
    with pytest.raises(FetchError, match="infinite loop"):
        get(url, target)
    assert len(site.requests) < 20


def test_redirect_from_https_to_http(url, target):
    request = urllib.request.Request("https://host.example/file.bin")
    with pytest.raises(FetchError, match="which is not https"):
        _SecureRedirects().redirect_request(request, None, 302, "Found", {}, url)


def test_no_network(target):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(FetchError, match=rf"http://127\.0\.0\.1:{port}/x: no connection"):
        get(f"http://127.0.0.1:{port}/x", target, retries=1)
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


def test_obtain_downloads_from_a_mirror_url_once(site, tmp_path):
    (site.root / "host.example").mkdir()
    (site.root / "host.example/a.zip").write_bytes(b"x")
    for _ in range(2):
        path = obtain("https://host.example/a.zip", site.url, tmp_path, limit=10, retries=0)
    assert path.read_bytes() == b"x"
    assert site.requests == [("/host.example/a.zip", None)]
