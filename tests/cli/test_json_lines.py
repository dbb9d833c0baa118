"""JSONL in and out of `apply`: every key and value of users stays as it is written."""

import json

import pytest
from cli.toys import as_tuples, docs_of, one_line_error
from hypothesis import given
from hypothesis import strategies as st

from spacy_structlearn.cli.common.json_lines import DEEPEST, parsed, with_predictions

PRECISE = '{"lat":51.50735091234567, "p": 3.2e-12,"text" : " Run!","n":[-0, 1E2, 1.10, {"é":1}]}'
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.finding
def test_apply_changes_no_number_key_or_order(run, model, tmp_path):
    """Row 2: ujson rounded numbers of kept keys."""
    path = tmp_path / "in.jsonl"
    path.write_text(f'{PRECISE}\n\n{{"text": ""}}\n', encoding="utf8")
    out = run("apply", model, path, "-")[1].splitlines()
    assert out[0].startswith(
        PRECISE.replace(", ", ",", 1).replace(" : ", ":").replace(": 3", ":3")[:-1]
    )
    assert [*json.loads(out[0])][:5] == ["lat", "p", "text", "n", "tokens"]
    assert json.loads(out[1]) == {"text": "", "tokens": [], "sents": [], "np_chunks": []}
    assert run("apply", model, path, tmp_path / "out.spacy")[0] == 0
    own = json.loads(PRECISE)
    del own["text"]
    assert docs_of(tmp_path / "out.spacy")[0].user_data == as_tuples(own)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), VALUES), st.booleans())
def test_members_are_copied_as_they_are(own, ascii):
    own = {**own, "text": "Run!"}
    line = json.dumps(own, ensure_ascii=ascii)
    if "Infinity" in line:
        return
    assert parsed(line, stored=True) == own
    out = json.loads(with_predictions(line, {"text": "Run!", "tokens": [1]}, {"text", "tokens"}))
    assert out.pop("tokens") == [1]
    assert list(out.items()) == [(key.replace("tokens", "input_tokens"), own[key]) for key in own]


@pytest.mark.finding
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("1e999", "the number 1e999 is too large"),
        ("0123", "delimiter"),
        ("NaN", "NaN is not JSON"),
        ("-Infinity", "-Infinity is not JSON"),
        ('{"a": 1, "a": 2}', "'a' is there twice"),
        ("1" * 5000, "4300 digits"),
        ("[" * 100_000, f"more than {DEEPEST} brackets"),
        ("'x'", "Expecting value"),
    ],
)
@pytest.mark.parametrize("target", ["out.jsonl", "out.spacy", "out", "-"])
def test_what_is_no_json_is_named_by_its_line(run, model, tmp_path, value, problem, target):
    """Row 5: a number too large was a traceback without file and line; 0123 was read as 123."""
    path = tmp_path / "in.jsonl"
    path.write_text(f'{{"text": "Run!"}}\n\n{{"text": "Run!", "x": {value}}}\n', encoding="utf8")
    target = target if target == "-" else tmp_path / target
    error = one_line_error(run("apply", model, path, target), "SL064", f"{path}, line 3", problem)
    assert len(error) < 1000


def test_whole_numbers_that_a_docbin_cannot_hold_are_refused(run, model, tmp_path):
    line = f'{{"text": "Run!", "id": {2**70}}}'
    result = run("apply", model, "-", tmp_path / "o.spacy", "--input-format", "jsonl", stdin=line)
    one_line_error(result, "SL064", "line 1", str(2**70), "JSONL can keep it")
    out = run("apply", model, "-", "-", "--input-format", "jsonl", stdin=line)[1]
    assert json.loads(out)["id"] == 2**70


def test_deep_values_fit_into_a_docbin(run, model, tmp_path):
    line = f'{{"text": "Run!", "x": {"[" * (DEEPEST - 1)}{"]" * (DEEPEST - 1)}}}'
    for target in (tmp_path / "out.spacy", tmp_path / "out.jsonl"):
        assert run("apply", model, "-", target, "--input-format", "jsonl", stdin=line)[0] == 0
    assert json.loads((tmp_path / "out.jsonl").read_text("utf8"))["x"] == json.loads(line)["x"]
    assert str(docs_of(tmp_path / "out.spacy")[0].user_data["x"]).count("(") == DEEPEST - 1


@pytest.mark.finding
def test_users_keys_with_names_of_ours_are_kept(run, model, tmp_path):
    """Row 6: `tokens`, `sents` and `frames` of users were overwritten without a word."""
    own = {"frames": 1, "tokens": [1.50], "input_tokens": 2, "text": "Run!", "id": 7}
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(own) + "\n", encoding="utf8")
    _, out, err = run("apply", model, path, "-")
    kept = {"input_frames": 1, "input_input_tokens": [1.5], "input_tokens": 2, "id": 7}
    found = json.loads(out)
    assert kept.items() <= found.items()
    assert found["tokens"] == [
        {"start": 0, "end": 3, "tag": "VB"},
        {"start": 3, "end": 4, "tag": "."},
    ]
    assert [*found][:5] == ["input_frames", "input_input_tokens", "input_tokens", "text", "id"]
    assert "structlearn: the key 'frames' of the input is kept as 'input_frames'\n" in err
    assert run("apply", model, path, tmp_path / "out.spacy")[0] == 0
    assert docs_of(tmp_path / "out.spacy")[0].user_data["tokens"] == (1.5,)
