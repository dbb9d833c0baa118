"""Download files over HTTP or from a mirror, with progress, retries with increasing pauses,
resuming by Range requests, and an atomic rename, so that a file with its final name is complete."""

import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote, urlsplit

from tqdm import tqdm

CHUNK = 1 << 16
TIMEOUT = 30.0
LONGEST_PAUSE = 30.0
TRANSIENT_STATUS = frozenset({408, 416, 425, 429, 500, 502, 503, 504})


class FetchError(Exception):
    """An expected failure with a one-line message."""


class CutShort(Exception):
    """The server closed the connection before the last byte."""


TRANSIENT_ERRORS = (
    ConnectionError,
    TimeoutError,
    ssl.SSLError,
    http.client.HTTPException,
    CutShort,
)


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, except from https to http or to other schemes."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        if not is_url(newurl):
            raise FetchError(f"{req.full_url}: refused a redirect to {newurl}, which is not http")
        if urlsplit(req.full_url).scheme == "https" and urlsplit(newurl).scheme != "https":
            raise FetchError(f"{req.full_url}: refused a redirect to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_SecureRedirects)


def is_url(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def mirror_path(url: str) -> str:
    """Return the path of `url` in a mirror: its host and path, without the scheme."""
    parts = urlsplit(url)
    return parts.netloc + parts.path


def obtain(url: str, mirror: str | None, cache: Path, *, limit: int, retries: int) -> Path:
    """Return a local file with the content of `url`, from the mirror directory or the cache, or
    downloaded into the cache (at most `limit` bytes)."""
    if mirror is not None and not is_url(mirror):
        path = Path(mirror) / mirror_path(url)
        if not path.is_file():
            raise FetchError(f"the mirror has no file {path}")
        return path
    if mirror is not None:
        url = f"{mirror.rstrip('/')}/{quote(mirror_path(url))}"
    # Name the cached file by the requested address, because a mirror may differ from the source.
    target = cache / mirror_path(url).replace(":", "_")
    if not target.is_file():
        download(url, target, limit=limit, retries=retries)
    return target


def download(url: str, target: Path, *, limit: int, retries: int = 4, pause: float = 1.0) -> None:
    """Write the content of `url` to `target` atomically. An interrupted transfer in `target`.part
    is resumed if the server confirms that the file has not changed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    validator = target.with_name(target.name + ".part.validator")
    for attempt in range(retries + 1):
        if attempt:
            time.sleep(min(pause * 2 ** (attempt - 1), LONGEST_PAUSE))
        try:
            _transfer(url, part, validator, limit)
        except urllib.error.HTTPError as error:
            error.close()
            problem = f"HTTP {error.code} {error.reason}"
            if error.code not in TRANSIENT_STATUS:
                break
            if error.code == 416:
                part.unlink(missing_ok=True)
        except urllib.error.URLError as error:
            problem = f"no connection ({error.reason})"
        except TRANSIENT_ERRORS as error:
            problem = f"the transfer broke off ({error or type(error).__name__})"
        else:
            part.replace(target)
            validator.unlink(missing_ok=True)
            return
    raise FetchError(f"{url}: {problem}; try again later, or use --mirror DIR|URL")


def _transfer(url: str, part: Path, validator: Path, limit: int) -> None:
    """Make one request. Append to `part` if the server supports it, otherwise start again."""
    headers = {"User-Agent": "spacy-structlearn-fetch", "Accept-Encoding": "identity"}
    have = part.stat().st_size if part.is_file() and validator.is_file() else 0
    if have:
        headers["Range"] = f"bytes={have}-"
        headers["If-Range"] = validator.read_text(encoding="ascii")
    request = urllib.request.Request(url, headers=headers)
    with _OPENER.open(request, timeout=TIMEOUT) as response:
        if response.status != 206 or _range_start(response) != have:
            have = 0
        _keep_validator(response, validator)
        length = response.headers.get("Content-Length")
        total = have + int(length) if length and length.isdigit() else None
        if total is not None and total > limit:
            raise FetchError(f"{url}: {total} bytes is more than the limit of {limit}")
        received = _copy(response, part, have, total, limit, url)
    # http.client raises no error if a sized read ends early.
    if total is not None and received != total:
        raise CutShort(f"{received} of {total} bytes")


def _range_start(response) -> int | None:
    match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(match[1]) if match else None


def _keep_validator(response, validator: Path) -> None:
    """Store the validator for a later resume if it is strong. A weak one could join two files."""
    etag = response.headers.get("ETag", "")
    value = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")
    if value.isascii() and value:
        validator.write_text(value, encoding="ascii")
    else:
        validator.unlink(missing_ok=True)


def _copy(response, part: Path, have: int, total: int | None, limit: int, url: str) -> int:
    """Append the body after the first `have` bytes of `part`. Return the size of `part`."""
    bar = tqdm(
        total=total,
        initial=have,
        unit="B",
        unit_scale=True,
        desc=url.rsplit("/", 1)[-1],
        disable=None,  # no bar if stderr is not a terminal
    )
    with bar, part.open("ab" if have else "wb") as out:
        while chunk := response.read(CHUNK):
            have += len(chunk)
            if have > limit:
                raise FetchError(f"{url}: more than the limit of {limit} bytes")
            out.write(chunk)
            bar.update(len(chunk))
    return have
