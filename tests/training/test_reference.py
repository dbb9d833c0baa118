"""The reference is that of the code, and names everything that is registered."""

from importlib.metadata import distribution

from spacy.tokens import Doc, Span, Token

from spacy_structlearn.errors import MESSAGES
from spacy_structlearn.groups import GROUPS
from spacy_structlearn.pipeline.extensions import GETTERS
from training import reference

PAGE = reference.PAGE.read_text(encoding="utf8")


def test_the_page_is_up_to_date():
    assert reference.page() == PAGE, "run python -m training.reference"


def test_everything_is_on_the_page():
    owners = {Doc: "doc", Span: "span", Token: "token"}
    names = [f"{owners[kind]}._.{of.__name__}" for kind in GETTERS for of in GETTERS[kind]]
    for name in [*names, *GROUPS, *MESSAGES]:
        assert f"| `{name}` |" in PAGE, name
    for point in distribution("spacy-structlearn").entry_points:
        assert not point.group.startswith("spacy_") or f"### {point.name}\n" in PAGE


def test_texts_become_cells_and_lists():
    def function(path, types):
        """Read lines.

        path: a file,
        plain or .gz. It is *long*.
        types: `a|b`.
        Raises ValueError for <others>.
        """

    assert reference.listed(function).splitlines() == [
        "Read lines.",
        "",
        r"* `path`: a file, plain or .gz. It is \*long\*.",
        "* `types`: `a|b`.",
        "",
        "Raises ValueError for &lt;others>.",
    ]
    assert reference.flat("one |\n  `two|`") == r"One \| `two\|`"
