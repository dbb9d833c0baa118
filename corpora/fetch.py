"""Fetch public corpora and build data files for training and tests. Sources, licences and digests
are in corpora.toml and digests.txt. Only the standard library and tqdm are needed."""

import argparse
import gzip
import io
import json
import os
import shutil
import sys
from pathlib import Path

from _archives import DamagedError, Members, file_digest, load_digests, read_members, save_digests
from _build import BUILDERS, Files
from _download import FetchError, is_url, obtain

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
MANIFEST = "MANIFEST.json"


def load_config(path: Path) -> dict:
    with path.open("rb") as file:
        return tomllib.load(file)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    options = parse(arguments)
    config = load_config(options.config)
    try:
        if options.list:
            list_corpora(config)
            return 0
        names = list(config["corpora"]) if "all" in options.names else options.names
        for name in dict.fromkeys(names):
            fetch(name, config, options)
    except (FetchError, OSError) as error:
        print(f"fetch.py: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fetch.py: interrupted; the next run resumes the download", file=sys.stderr)
        return 130
    return 0


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="fetch.py",
        description="Download public corpora and build the data files for training and tests.",
        epilog="Read the licence of a corpus before you ship anything that was trained on it.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(BUILDERS)}, or all")
    parser.add_argument("--list", action="store_true", help="list names, licences and sizes")
    parser.add_argument(
        "--mirror",
        metavar="DIR|URL",
        help="a directory or an http(s) URL that contains the sources as host/path",
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        type=Path,
        default=HERE / "data",
        help="write to DIR/NAME/ and keep downloads in DIR/.downloads (default: corpora/data)",
    )
    parser.add_argument("--force", action="store_true", help="build existing corpora again")
    parser.add_argument(
        "--retries",
        metavar="N",
        type=int,
        default=4,
        help="retries after a failure, with increasing pauses (default: 4)",
    )
    parser.add_argument("--config", metavar="FILE", type=Path, default=HERE / "corpora.toml")
    parser.add_argument("--digests", metavar="FILE", type=Path, default=HERE / "digests.txt")
    parser.add_argument(
        "--record-digests",
        action="store_true",
        help="for maintainers: write digests instead of checking them",
    )
    options = parser.parse_args(arguments)
    if not options.list and not options.names:
        parser.error("name a corpus, or all, or --list")
    if unknown := set(options.names) - set(BUILDERS) - {"all"}:
        parser.error(f"unknown corpus {', '.join(sorted(unknown))}; --list shows the names")
    if options.retries < 0:
        parser.error("--retries must not be negative")
    mirror = options.mirror
    if mirror is not None and not is_url(mirror) and not Path(mirror).is_dir():
        parser.error(f"--mirror {mirror} is neither a directory nor an http(s) URL")
    return options


def list_corpora(config: dict) -> None:
    for name, entry in config["corpora"].items():
        print(f"{name:<14}{entry['size']:>8}  {entry['title']}\n{'':<24}{entry['licence']}")


def fetch(name: str, config: dict, options: argparse.Namespace) -> None:
    """Build one corpus, unless its directory is complete according to corpora.toml."""
    entry = config["corpora"][name]
    recipe = {"corpus": entry, "sources": {s: config["sources"][s] for s in entry["reads"]}}
    target = options.output / name
    rebuild = options.force or options.record_digests
    if not rebuild and is_complete(target, recipe):
        print(f"{name}: {target} is complete")
        return
    print(f"{name}: {entry['title']}\n  licence: {entry['licence']}")
    notes: list[str] = []

    def report(line: str) -> None:
        notes.append(line)
        print(f"  {line}", flush=True)

    sources = open_sources(recipe, options)
    files = BUILDERS[name](sources, report)
    unlisted = sum(len(m.used.keys() - m.digests.keys()) for m in sources.values() if m.digests)
    if options.record_digests:
        record_digests(sources, options.digests)
    elif unlisted:
        report(f"test: {unlisted} members have no recorded digest, taken as they are")
    write_corpus(target, files, recipe, notes)
    print(f"  built {len(files)} files in {target}")


def open_sources(recipe: dict, options: argparse.Namespace) -> dict[str, Members]:
    digests = load_digests(options.digests)
    cache = options.output / ".downloads"
    opened = {}
    for name, source in recipe["sources"].items():
        path = obtain(
            source["url"],
            options.mirror,
            cache,
            limit=source["max_download"],
            retries=options.retries,
        )
        patterns = recipe["corpus"]["reads"][name]
        try:
            opened[name] = read_members(path, source, patterns, digests.get(name, {}))
        except DamagedError:
            if cache in path.parents:
                path.unlink()  # otherwise the next run would use it
            raise
        opened[name].recording = options.record_digests
    return opened


def record_digests(sources: dict[str, Members], path: Path) -> None:
    digests = load_digests(path)
    for name, members in sources.items():
        if members.digests is not None:
            digests[name] = digests.get(name, {}) | members.used
    save_digests(path, digests)


def is_complete(target: Path, recipe: dict) -> bool:
    """Return whether there is a manifest with this recipe, and all files agree with it."""
    try:
        manifest = json.loads((target / MANIFEST).read_text(encoding="utf-8"))
        return manifest["recipe"] == recipe and all(
            file_digest(target / name) == digest for name, digest in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def write_corpus(target: Path, files: Files, recipe: dict, notes: list[str]) -> None:
    """Write a temporary directory, and then replace `target` by it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}.new")
    former = target.with_name(f".{target.name}.{os.getpid()}.old")
    try:
        fresh.mkdir()
        digests = {}
        for name, content in sorted(files.items()):
            data = content.encode("utf-8") if isinstance(content, str) else content
            (fresh / name).write_bytes(compress(data) if name.endswith(".gz") else data)
            digests[name] = file_digest(fresh / name)
        manifest = {"recipe": recipe, "notes": notes, "files": digests}
        text = json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        (fresh / MANIFEST).write_text(text, encoding="utf-8")
        replace_directory(target, fresh, former)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(former, ignore_errors=True)


def replace_directory(target: Path, fresh: Path, former: Path) -> None:
    """Replace a directory. The former one is moved first, because a rename cannot overwrite it."""
    if not target.exists():
        fresh.rename(target)
        return
    target.rename(former)
    try:
        fresh.rename(target)
    except BaseException:
        former.rename(target)
        raise


def compress(data: bytes) -> bytes:
    """Compress by gzip without name and time, so that equal contents give equal files."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
        file.write(data)
    return buffer.getvalue()


if __name__ == "__main__":
    sys.exit(main())
