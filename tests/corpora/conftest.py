"""A loopback web server that can misbehave on purpose, and a hand-made miniature of two sources."""

import gzip
import hashlib
import io
import tarfile
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CORPORA = ROOT / "corpora"


@dataclass
class Site:
    """Serves the files under `root`. `faults` are taken one a request: a status to answer with,
    `cut`: close the connection in the middle of the body, or an address to redirect to."""

    root: Path
    url: str = ""
    faults: list = field(default_factory=list)
    requests: list = field(default_factory=list)  # (path, Range header or None)


class _Handler(BaseHTTPRequestHandler):
    site: Site

    def log_message(self, *_):
        pass

    def do_GET(self):
        site = self.site
        site.requests.append((self.path, self.headers.get("Range")))
        fault = site.faults.pop(0) if site.faults else None
        path = site.root / self.path.lstrip("/")
        if fault is not None and ":" in str(fault):
            self.send_response(302)
            self.send_header("Location", fault)
            self.end_headers()
            return
        if isinstance(fault, int) or not path.is_file():
            self.send_error(fault or 404)
            return
        body = path.read_bytes()
        start = self._start(body)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        self.send_header("Content-Length", str(len(body) - start))
        self.send_header("ETag", self._etag(body))
        self.end_headers()
        body = body[start:]
        self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
        self.close_connection = True

    def _start(self, body: bytes) -> int:
        wanted = self.headers.get("Range")
        if not wanted or self.headers.get("If-Range") != self._etag(body):
            return 0
        return int(wanted.removeprefix("bytes=").rstrip("-"))

    @staticmethod
    def _etag(body: bytes) -> str:
        return f'"{hashlib.sha256(body).hexdigest()}"'


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def site(tmp_path):
    """A web site over an empty directory."""
    site = Site(tmp_path / "site")
    site.root.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"site": site}))
    site.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield site
    server.shutdown()
    server.server_close()


def make_tar(path: Path, members: dict[str, bytes | tarfile.TarInfo]) -> Path:
    """A tar.gz of contents, or of ready headers (links, devices)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.fixture(name="make_tar")
def _make_tar():
    return make_tar


@pytest.fixture(name="make_zip")
def _make_zip():
    return make_zip


MINI_CONFIG = """
[sources.nltk_conll2000]
url = "https://zips.example/conll2000.zip"
root = "conll2000"
bytes = {bytes}
sha256 = "{sha256}"
max_download = 100000
max_member = 10000
max_read = 20000

[sources.craft]
url = "https://tars.example/archive/v1.tar.gz"
root = "CRAFT-1"
max_download = 100000
max_stream = 100000
max_member = 10000
max_read = 20000

[corpora.conll2000]
title = "Two words in chunks"
licence = "free as the air"
size = "1 kB"
reads = {{ nltk_conll2000 = ["*"] }}
builds = []

[corpora.craft]
title = "Three trees"
licence = "free as the sea"
size = "1 kB"
reads = {{ craft = ["articles/ids/*", "structural-annotation/treebank/penn/*.tree"] }}
builds = []
"""


@dataclass
class Mini:
    """A mirror directory with a zip and a tar.gz, and the command line that uses it."""

    folder: Path
    tar_members: dict[str, bytes]

    @property
    def mirror(self) -> Path:
        return self.folder / "mirror"

    @property
    def zip(self) -> Path:
        return self.mirror / "zips.example/conll2000.zip"

    @property
    def tar(self) -> Path:
        return self.mirror / "tars.example/archive/v1.tar.gz"

    @property
    def output(self) -> Path:
        return self.folder / "output"

    @property
    def digests(self) -> Path:
        return self.folder / "digests.txt"

    def arguments(self, *names: str, mirror: str | None = None) -> list[str]:
        paths = {
            "--mirror": mirror or self.mirror,
            "--output": self.output,
            "--config": self.folder / "corpora.toml",
            "--digests": self.digests,
            "--retries": 0,
        }
        return [*names, *(str(item) for pair in paths.items() for item in pair)]

    def rewrite_tar(self, **changed: bytes | None) -> None:
        """Pack the tar.gz again with other documents (by stem; None: without it)."""
        names = {Path(name).stem: name for name in self.tar_members}
        given = {names[stem.strip("_")]: content for stem, content in changed.items()}
        members = self.tar_members | given
        make_tar(self.tar, {name: data for name, data in members.items() if data is not None})

    def read(self, name: str) -> str:
        data = (self.output / name).read_bytes()
        return (gzip.decompress(data) if name.endswith(".gz") else data).decode()


@pytest.fixture
def mini(tmp_path) -> Mini:
    from _archives import save_digests

    penn = "CRAFT-1/structural-annotation/treebank/penn"
    members = {
        "CRAFT-1/articles/ids/craft-ids-train.txt": b"11\n12\n",
        "CRAFT-1/articles/ids/craft-ids-dev.txt": b"21\n",
        "CRAFT-1/articles/ids/craft-ids-test.txt": b"31\n",
        f"{penn}/11.tree": "( (NP (NN a\u2009b)) ) \n\n( (NP (NN c)) )\n".encode(),
        f"{penn}/12.tree": b"( (NP (NN d)) )\n",
        f"{penn}/21.tree": b"( (NP (NN e)) )\n",
    }
    mini = Mini(tmp_path / "mini", members)
    mini.rewrite_tar()
    make_zip(
        mini.zip,
        {
            "conll2000/train.txt": b"Go VB O\n\n",
            "conll2000/test.txt": b"Stop VB O\n\n",
            "conll2000/README": b"Made by hand.\n",
        },
    )
    data = mini.zip.read_bytes()
    config = MINI_CONFIG.format(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    (mini.folder / "corpora.toml").write_text(config)
    mini.digests.write_text("# by hand\n")
    found = {
        name.removeprefix("CRAFT-1/"): hashlib.sha256(content).hexdigest()[:16]
        for name, content in members.items()
    }
    save_digests(mini.digests, {"craft": found})
    return mini
