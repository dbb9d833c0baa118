"""Check that the pages say what was run, and record the number of open findings.

    python -m training.audit

Writes training/results/audit.json; --trial only prints. Problems are printed. A finding is open
while it has problems:

s1  A peer that was stopped before its planned end, and a page that does not say so, or that claims
    settings fixed in advance.
s2  A table of scores on fewer than 1,000 sentences, such as the WSJ sample, without the value of a
    standard error or of a standard deviation over seeds; the sample of Titov & Henderson (2007)
    without four seeds.
s3  A figure of section 6.1 of Titov & Henderson (2007) that is measured and not on the page.
s4  A figure of a peer that is typed, not filled in from the results.
s5  Optimizers that are compared though one was stopped while the objective still fell, unless the
    page says so.
s6  Figures of Titov & Henderson (2007) with a problem of `python -m training.all --check`, or older
    than their own stamp. s7: the same of all other results.
s8  The paper's discriminative grammar of Petrov & Klein (2007), not beside one of ours.

The figures are audit.open, the number of open findings; audit.SN.open, 1 or 0; audit.SN.problems;
and audit.kinds.KIND, the number of problems in s6 and s7 by kind.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import srsly

from training.all import parts, problems
from training.common.recording import RESULTS, ROOT, STAMPS, git, record
from training.common.report import flat

NAME = "audit"
TEMPLATES = "training/tables.md"
PEERS_MODULE = "training/benchmarks/peers/__main__.py"
PEERS = re.compile(
    r"\b(Berkeley|supar|benepar|stanza|spaCy's|spaCy,|(?:python-)?CRFsuite|NLTK|scikit-learn|pgmpy"
    r"|nupunkt|pySBD|syntok|Bling Fire|blingfire)\b",
    re.IGNORECASE,
)
# A decimal number, but not one of a version, and a cell that is a number.
DECIMAL = re.compile(r"(?<![\d.])\d+\.\d+(?![\d.]*\d)")
VERSION = re.compile(rf"{PEERS.pattern}(?:\s+parser)?\s+v?\d[\d.]*", re.IGNORECASE)
NUMERIC = re.compile(r"[-+±~<>\s]*\d[\d.,]*\s*(%|s|ms|MB|GB)?")
LINK = re.compile(r"\]\(https?:")
FILLED = re.compile(r"\{[^{}]*\}")
# In prose with its value, which may be in a sentence with a decimal point.
ERROR = re.compile(
    r"standard (error|deviation)s?\b((?!not recorded|\. [A-Z])[^:]){0,200}?\d|\(sd \d|±",
    re.IGNORECASE,
)
COLUMN = re.compile(r"standard (error|deviation)|\bseeds\b|±", re.IGNORECASE)
# Test sets of fewer than 1,000 sentences, and columns of scores.
SMALL = re.compile(
    r"\bWSJ (sample|dev|test)|\bsample of (the Wall|it)|\bthe sample\b"
    r"|(?<![\d,])\d{1,3} (test )?sentences\b"
)
SCORE = re.compile(r"\bF1\b|accuracy|exact|\bR\b")
MIN_SEEDS = 4
FALLING = 1e-3  # relative decrease in the last step of an optimizer that was stopped too early
TIMES = re.compile(r"(_s|_us|_min|seconds|ms_per_\w+|per_cpu_s)$")
SINGLE = re.compile(r"\{titov_henderson2007 (wsj15\.(?:nn|mf)\.f1) \S+\}")

Figures = Mapping[str, Any]
Pages = Mapping[str, str]


class Table(NamedTuple):
    """A table of a page. heading: of its section. context: the text before and after it. head: the
    text before the first section of the page.
    """

    heading: str
    context: str
    head: str
    rows: list[list[str]]  # the header first

    def __str__(self) -> str:
        return f'"{self.heading}", {" | ".join(filter(None, self.rows[0]))[:60]}'


def tables(page: str) -> Iterator[Table]:
    """Yield all tables of a page. The text between two tables is the context of both."""
    head, *sections = re.split(r"^(?=##+ )", page, flags=re.MULTILINE)
    for section in (head, *sections):
        title, _, body = section.partition("\n")
        texts, found = [""], []
        for line in body.split("\n"):
            if not line.startswith("|"):
                texts[-1] += f"{line}\n"
            elif not texts[-1] and found:
                found[-1].append(line)
            else:
                found.append([line])
                texts.append("")
        for i, lines in enumerate(found):
            rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
            context = f"{texts[i]}\n{texts[i + 1]}"
            yield Table(title.strip("# "), context, head, [rows[0], *rows[2:]])


# --- findings -------------------------------------------------------------------------------------
def stopped_peers(
    results: Figures, planned: Mapping[str, int], stamps: Figures, pages: Pages
) -> Iterator[str]:
    """s1. results: of benchmarks.json. planned: epochs by system; a command may give others."""
    if not planned:
        yield f"{PEERS_MODULE} has no planned numbers of epochs"
    for task, systems in results.items():
        for name in planned.keys() & (systems.keys() if isinstance(systems, Mapping) else ()):
            made_by = stamps.get(f"{task}.{name}", {}).get("command", "")
            asked = re.search(rf"--{name}-epochs[ =](\d+)", made_by)
            epochs, whole = systems[name].get("epochs"), int(asked[1]) if asked else planned[name]
            if epochs is None:
                yield f"{name} has no number of epochs"
            elif epochs < whole:
                for page, text in pages.items():
                    if name in text:
                        yield from (f"{page}: {x}" for x in _unsaid(text, name, epochs, whole))


def _unsaid(text: str, name: str, epochs: int, whole: int) -> Iterator[str]:
    """Yield what a page about a stopped peer should say, or should not claim."""
    plain = " ".join(text.split())
    if not re.search(rf"{name}\b.{{0,400}}\bstopped after {epochs}\b", plain):
        yield f"{name} was stopped after {epochs} of {whole} epochs, which is not said"
    elif not re.search(rf"{name}\b.{{0,400}}\b{whole}( epochs)?\b", plain):
        yield f"{name} was to have {whole} epochs, which is not said"
    if re.search(r"settings were fixed (in advance|beforehand)", plain, re.IGNORECASE):
        yield f"settings are claimed to be fixed in advance, but {name} was stopped"


def small_samples(pages: Pages, templates: str, titov: Figures) -> Iterator[str]:
    """s2. templates: of the tables. titov: the figures of Titov & Henderson (2007)."""
    for page, text in pages.items():
        for table in tables(text):
            shown = " ".join([table.heading, *table.rows[0], *_labels(table)])
            own = f"{shown} {table.context}"
            prose = " ".join(f"{table.context} {table.head}".split())
            cells = " ".join(cell for row in table.rows for cell in row)
            said = COLUMN.search(shown) or ERROR.search(f"{cells} {prose}")
            if SMALL.search(own) and SCORE.search(shown) and not said:
                yield f"{page}: no seeds or standard error at {table}"
    for key in SINGLE.findall(templates):
        yield f"{TEMPLATES}: {key} is of one seed"
    page = pages.get("titov_henderson2007.md", "")
    for name, text in (("nn", "feed-forward approximation"), ("mf", "mean-field approximation")):
        seeds = titov.get(f"wsj15.seeds.{name}.f1", [])
        if len(seeds) < MIN_SEEDS:
            yield f"{text}: {len(seeds)} seeds on the WSJ sample"
        mean, single = (
            titov.get(f"wsj15.{key}") for key in (f"seeds.{name}.mean_f1", f"{name}.f1")
        )
        if single is not None and single != mean and re.search(rf"\| {text} .*{single:.2f}", page):
            yield f"titov_henderson2007.md: {text} has the {single:.2f} of one seed"


def _labels(table: Table) -> list[str]:
    return [row[0] for row in table.rows[1:]]


def withheld(page: str, figures: Figures) -> Iterator[str]:
    """s3. page, figures: of Titov & Henderson (2007)."""
    for key, label in (("mf_wins", "mf is better"), ("mf_significant", "significant")):
        value = figures.get(f"artificial.{key}")
        rows = [row for table in tables(page) for row in table.rows if label in row[0]]
        if value is None:
            yield f"artificial.{key} is not recorded"
        elif not any(re.fullmatch(r"[\d.]+", row[-1]) and float(row[-1]) == value for row in rows):
            yield f"artificial.{key}, which is {value}, is not on the page"


def typed_figures(templates: str, modules: Pages, pages: Pages) -> Iterator[str]:
    """s4. modules: sources of scripts that write pages. pages: those that are written by hand."""
    for table in tables(templates):
        header = table.rows[0]
        for row in table.rows[1:]:
            for title, cell in zip(header[1:], row[1:], strict=False):
                is_of_peer = PEERS.search(row[0]) or PEERS.search(title)
                if is_of_peer and "paper" not in title and _is_typed(cell):
                    yield f"{TEMPLATES}: {row[0]}: {cell}"
    for path, text in modules.items():
        for node in ast.walk(ast.parse(text)):
            yield from (f"{path}:{node.lineno}: {found}" for found in _typed(node))
    for page, text in pages.items():
        prose = "\n".join(line for line in text.split("\n") if not line.startswith("|"))
        prose = re.sub(r"<!-- table .*?<!-- end -->", "", prose, flags=re.DOTALL)
        yield from (f"{page}: {found}" for found in _sentences(prose))


def _is_typed(cell: str) -> bool:
    """Return whether a cell has a figure that is neither filled in nor that of a linked source."""
    text = VERSION.sub("", FILLED.sub("", cell))
    return not LINK.search(cell) and bool(DECIMAL.search(text) or NUMERIC.fullmatch(text))


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences that name a peer and have a decimal number, no version and no link.

    A sentence that begins with a pronoun belongs to the one before.
    """
    for sentence in re.split(r"(?<=[.:])\s+(?!Its?\b|The[yi]r?\b)|\n\s*\n|\n\* ", text):
        number = DECIMAL.search(VERSION.sub("", FILLED.sub("", sentence)))
        if number and PEERS.search(sentence) and not LINK.search(sentence):
            yield " ".join(sentence.split())


def _typed(node: ast.AST) -> Iterator[str]:
    """Yield figures of peers in a constant, or in a tuple, list, call or entry that names one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _sentences(node.value)
    groups: list[list[ast.AST]] = []
    if isinstance(node, (ast.Tuple, ast.List)):
        groups = [[*node.elts]]
    elif isinstance(node, ast.Call):
        groups = [[*node.args, *(keyword.value for keyword in node.keywords)]]
    elif isinstance(node, ast.Dict):
        groups = [[key, value] for key, value in zip(node.keys, node.values, strict=True) if key]
    for group in groups:
        leaves = [leaf for part in group for leaf in _leaves(part)]
        names = [x for x in leaves if isinstance(x, str) and PEERS.search(x)]
        typed = [x for x in leaves if isinstance(x, float) or _is_number(x)]
        if names and typed:
            yield f"{names[0]}: {typed[0]}"


def _leaves(node: ast.AST) -> Iterator[Any]:
    """Yield the constants in a display of constants."""
    if isinstance(node, ast.Constant):
        yield node.value
    elif isinstance(node, (ast.Tuple, ast.List)):
        for part in node.elts:
            yield from _leaves(part)


def _is_number(value: Any) -> bool:
    return isinstance(value, str) and bool(NUMERIC.fullmatch(value))


def stopped_optimizers(solvers: Figures, curves: Figures, pages: Pages) -> Iterator[str]:
    """s5. solvers: of adagrad.json. curves: by solver, objectives after each pass."""
    page = " ".join(pages.get("adagrad.md", "").split())
    if not solvers:
        yield "the solvers of adagrad.json are not recorded"
    for name, own in solvers.items():
        n = own["iterations"]
        said = re.search(rf"(stopped|cut)\b.{{0,40}}\bafter {n} (iterations|passes)", page)
        if not own.get("converged") and not said:
            yield f"adagrad.md: {name} was stopped after {n} iterations, which is not said"
    page = " ".join(pages.get("parsing_best.md", "").split())
    for name, values in curves.items():
        last = (values[-2] - values[-1]) / abs(values[-1]) if len(values) > 1 else 1.0
        said = re.search(rf"(stopped|cut)\b.{{0,60}}\bafter {len(values)}\b", page)
        if last > FALLING and not said:
            yield (
                f"parsing_best.md: {name} was stopped after {len(values)} passes, with a decrease "
                f"of {100 * last:.2f} % in the last, which is not said"
            )


def discriminative(page: str) -> Iterator[str]:
    """s8. page: of Petrov & Klein (2007)."""
    found = [table for table in tables(page) if table.heading == "The best grammars"]
    rows = [row for table in found for row in table.rows[1:] if "88.3" in row[1:]]
    if not rows:
        yield "no row has the paper's discriminative grammar, 88.3"
    for label, *cells in rows:
        if "discriminative" not in label or re.search(r"generative grammars|product", label):
            yield f"88.3 is in the row of {label}, not of a discriminative grammar"
        elif not cells[-1]:
            yield "our figure next to the paper's discriminative grammar, 88.3, is missing"


# --- where figures come from ----------------------------------------------------------------------
KINDS = {
    "uncommitted": "with uncommitted changes",
    "gone": "not in the history",
    "unknown_command": "by an unknown command",
    "old": "older than",
    "other_data": "from another",
    "other": "",
}


def kind_of(problem: str) -> str:
    """Return the first kind whose text is in a problem."""
    return next(kind for kind, text in KINDS.items() if text in problem)


def provenance(
    found: Iterable[tuple[str, str, Mapping[str, Any]]], then: Callable[[str, str, str], Any]
) -> Iterator[tuple[str, str]]:
    """s6, s7. Yield the name of the results and a problem.

    found: names, parts and stamps. then: returns what a part of results was at a commit.
    """
    for name, part, stamp in found:
        for problem in problems(stamp):
            yield name, f"{name} {part}: {problem}"
        figures = then(name, part, "")
        before = then(name, part, stamp["commit"].rstrip("+"))
        if times(figures) and times(figures) == times(before):
            yield name, f"{name} {part}: older than its stamp, at whose commit it had these times"


def times(figures: Any) -> dict[str, Any]:
    """Return the measured times in a part. Two measurements never agree in all digits."""
    values = flat(figures) if isinstance(figures, Mapping) else {}
    return {key: value for key, value in values.items() if TIMES.search(key) and value}


@cache
def results_at(name: str, commit: str) -> Figures:
    """Return results/NAME.json at a commit, or the present one. Empty if missing."""
    path = RESULTS / f"{name}.json"
    if not commit:
        return srsly.read_json(path) if path.exists() else {}
    text = git("show", f"{commit}:{path.relative_to(ROOT)}")
    return srsly.json_loads(text) if text else {}


def part_at(name: str, part: str, commit: str) -> Any:
    """Return a part of results at a commit, {} if it had none."""
    found: Any = results_at(name, commit)
    for key in part.split(".", 1):
        found = found.get(key, {}) if isinstance(found, Mapping) else {}
    return found


# --- all ------------------------------------------------------------------------------------------
def audit() -> tuple[dict[str, list[str]], Counter[str]]:
    """Return the problems of each finding, and the number of those of s6 and s7 by kind."""
    pages = {path.name: text(path) for path in sorted(RESULTS.glob("*.md"))}
    pages |= {"results/README.md": pages.pop("README.md"), "README.md": text(ROOT / "README.md")}
    by_hand = {name: pages[name] for name in ("README.md", "results/README.md")}
    by_hand |= {path.name: text(path) for path in sorted(ROOT.glob("training/guides/*.md"))}
    templates = text(ROOT / TEMPLATES)
    writers = [*ROOT.glob("training/**/report.py"), ROOT / "training" / "tables.py"]
    modules = {str(path.relative_to(ROOT)): text(path) for path in sorted(writers)}
    benchmarks, titov = results_at("benchmarks", ""), flat(results_at("titov_henderson2007", ""))
    solvers = {k: own for k, own in results_at("adagrad", "").items() if k not in STAMPS}
    batch = results_at("parsing_best", "").get("span_features_batch", {})
    curves = {k: [row[1] for row in own["points"]] for k, own in batch.items() if "points" in own}
    planned = planned_epochs(text(ROOT / PEERS_MODULE))
    made = [part for part in parts() if part[0] != NAME]
    where = list(provenance(made, part_at))
    own = "titov_henderson2007"
    found = {
        "s1": stopped_peers(benchmarks, planned, benchmarks.get("stamps", {}), pages),
        "s2": small_samples(pages, templates, titov),
        "s3": withheld(pages["titov_henderson2007.md"], titov),
        "s4": typed_figures(templates, modules, by_hand),
        "s5": stopped_optimizers(solvers, curves, pages),
        "s6": (problem for name, problem in where if name == own),
        "s7": (problem for name, problem in where if name != own),
        "s8": discriminative(pages["petrov_klein2007.md"]),
    }
    return {key: list(own) for key, own in found.items()}, Counter(kind_of(p) for _, p in where)


def planned_epochs(source: str) -> dict[str, int]:
    """Return the default epochs of peers, of the options --PEER-epochs of benchmarks/peers."""
    options = re.findall(r'"--(\w+)-epochs", type=int, default=(\d+)', source)
    return {name: int(number) for name, number in options}


def text(path: Path) -> str:
    return path.read_text(encoding="utf8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trial", action="store_true", help="record nothing")
    args = parser.parse_args()
    found, kinds = audit()
    for name, own in found.items():
        for problem in own:
            print(f"{name}: {problem}")
    figures: dict[str, int] = {"audit.open": sum(map(bool, found.values()))}
    for name, own in found.items():
        figures |= {f"audit.{name}.open": int(bool(own)), f"audit.{name}.problems": len(own)}
    figures |= {f"audit.kinds.{kind}": kinds[kind] for kind in KINDS}
    if not args.trial:
        record(NAME, figures)
    print(*(f"{key}: {value}" for key, value in figures.items()), sep="\n")
    if figures["audit.open"]:
        sys.exit(f"{figures['audit.open']} findings are open")


if __name__ == "__main__":
    main()
