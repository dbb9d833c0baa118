"""What the default pipeline is made from: what the package says is what the script says, and what
every command names can be fetched."""

import re
from pathlib import Path

import pytest
import srsly
from _build import BUILDERS

import spacy_structlearn
from training.pipeline import default

ROOT = Path(__file__).resolve().parents[2]
PACKAGED = Path(spacy_structlearn.__file__).parent / "data" / "en_structlearn_sm"
FETCHED = re.compile(r"python corpora/fetch\.py ((?:[a-z]\w* ?)+)$", re.MULTILINE)
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("training/**/*.md"), *ROOT.glob("training/**/*.py")]
COMMANDS = {
    path.relative_to(ROOT).as_posix(): names
    for path in PAGES
    if "work" not in path.relative_to(ROOT).parts
    if (names := FETCHED.findall(path.read_text(encoding="utf8")))
}


@pytest.mark.parametrize("page", COMMANDS)
def test_what_a_command_names_can_be_fetched(page):
    for names in COMMANDS[page]:
        assert set(names.split()) <= set(BUILDERS)


def test_the_pipeline_is_made_by_the_same_command_everywhere():
    # What further commands of a page fetch is for something else.
    for page in ("training/README.md", "training/pipeline/default.py"):
        assert COMMANDS[page][0] == "ewt craft mctb raw_text"


def test_the_package_names_the_sources_of_the_script():
    assert srsly.read_json(PACKAGED / "meta.json")["sources"] == default.SOURCES
    text = (PACKAGED / "LICENSES_SOURCES").read_text(encoding="utf8")
    assert text == default.LICENSES_SOURCES


@pytest.mark.parametrize(
    ("text", "personal"),
    [
        ("jo.doe@example.org", True),
        ("ORTH[0]=Doe@EXAMPLE.COM", True),
        ("Doe@EXAMPLE", True),
        ("555-0100", True),
        ("202/555-0100", True),
        ("(202)555-0100", True),
        ("2025550100", True),
        ("@", False),
        ("CLASS[0]=1011010011", False),
        ("11/10/2000", False),
        ("2,000,000,000", False),
        ("1234567.89", False),
    ],
)
def test_what_tells_of_persons(text, personal):
    assert bool(default.PERSONAL.search(text)) == personal


def test_the_package_knows_no_words_that_tell_of_persons(nlp):
    roles = nlp.get_pipe("srl_labeler").parameters
    models = [nlp.get_pipe(name).parameters for name in ("np_chunker", "pp_attacher")]
    models += [roles[stage] for stage in roles.stages]
    known = [name for model in models for name in model.names.values()]
    known += nlp.get_pipe("constituency_parser").parameters.lexicon.words
    assert len(known) > 50_000
    # Cruder than what took them out.
    assert not [text for text in known if re.search(r"[^\W_]@[^\W_]", text)]
    assert not [text for text in known if re.search(r"[2-9]\d\d[-./)]\d{3}[-.]?\d{4}", text)]
