"""The measurement of `structlearn apply` on many texts, with a few of them and a small pipeline."""

from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly

from training.reliability import scale

TEXTS = ["The old dog slept.", "Run!", "My sister bought apples."]


@pytest.fixture(scope="module")
def blank(tmp_path_factory):
    """A pipeline that only finds sentences: its directory."""
    path = tmp_path_factory.mktemp("scale") / "model"
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(path)
    return path


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_run_loses_nothing(blank, monkeypatch):
    monkeypatch.setattr(scale, "EVERY", 0.05)
    found = scale.run(TEXTS, 10, model=blank, kill=False)
    assert (found["sentences"], found["distinct"]) == (10, 3)
    assert (found["lost"], found["duplicated"], found["deaths"]) == (0, 0, 0)
    # "." and "!" are words, too.
    assert found["words"] == 4 * 5 + 3 * 2 + 3 * 5
    for key in ("words_per_cpu_s", "peak_rss_mb", "peak_rss_main_mb", "output_mb"):
        assert found[key] > 0


def test_what_is_lost_and_what_is_there_twice_is_counted(tmp_path):
    for number, keys in enumerate([[0, 1, 1], [3, 1]]):
        records = [{"id": key, "tokens": [{}, {}]} for key in keys]
        srsly.write_jsonl(tmp_path / f"texts.jsonl.000{number}.jsonl", records)
    (tmp_path / "structlearn-apply.json").write_text("{}", encoding="utf8")
    keys, words, size = scale.counted(tmp_path)
    assert keys == {0: 1, 1: 3, 3: 1}
    assert words == 10
    assert size == sum(path.stat().st_size for path in tmp_path.glob("texts.*"))
    assert scale.missing(keys, 4) == {"lost": 1, "duplicated": 2}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("He did n't go , did he ?", "He didn't go, did he?"),
        ("the dog 's -LRB- old -RRB- tail", "the dog's (old) tail"),
        ("`` Run ! ''", '" Run! "'),
        ("It cost $ 5 .", "It cost $5."),
        ("a 'quoted word", "a 'quoted word"),
    ],
)
def test_tokens_become_texts(words, text):
    assert scale.raw_text(words.split()) == text


def test_the_report_is_arithmetic():
    figures = {
        "sentences": 1000,
        "distinct": 1000,
        "deaths": 1,
        "lost": 0,
        "duplicated": 0,
        "words": 20_000,
        "words_per_cpu_s": 2000,
        "components": {"parser": {"words_per_cpu_s": 2500}},
        "rss_growth_mb": 1.5,
        "rss_growth_main_mb": 0.5,
        "peak_rss_mb": 512,
        "peak_rss_main_mb": 200,
        "speedup_2_over_1": 1.9,
        "bytes_per_sentence": {"docbin": 900, "jsonl": 4000},
        "load_s": 0.7,
    }
    results = {"commit": "abc", "machine": {"cores": 2, "cpu": "a processor"}}
    lines = scale.report(figures, results).splitlines()
    # 20 words a sentence at 2000 a second: 10 ms, and 10^7 s for a billion.
    assert "| CPU hours | 10.0 ms per sentence | 2,778 |" in lines
    assert "| memory of 64 processes, GB | peak of one | 32 |" in lines
    assert "| a process dies, CPU seconds lost | 256 sentences and load() | 3.3 |" in lines


def samples(series):
    """A sample each second: the memory of each process, None before its start and after its end."""
    n = len(next(iter(series.values())))
    return [
        scale.Sample(at, {pid: mb[at] for pid, mb in series.items() if mb[at] is not None})
        for at in range(n)
    ]


def test_growth_is_that_after_the_warm_up_of_the_process_that_grew_most():
    flat = [50, *np.linspace(60, 300, 9), *[300] * 90]
    assert scale.growth(samples({1: flat})) == pytest.approx(0, abs=1e-9)
    leaking = np.linspace(100, 199, 100)
    assert scale.growth(samples({1: flat, 2: leaking})) == pytest.approx(89.1, abs=1)
    # A process that replaces another one warms up, too.
    late = [*[None] * 50, *np.linspace(60, 300, 10), *[300] * 40]
    assert scale.growth(samples({1: flat, 2: late})) == pytest.approx(0, abs=1e-9)
    assert np.isnan(scale.growth(samples({1: [1, 2]})))
    assert scale.peak(samples({1: flat, 2: leaking})) == 300
