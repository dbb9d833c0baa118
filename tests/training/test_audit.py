"""Every check of the audit passes a good page and finds what is wrong with a bad one."""

import pytest

from training import audit

PAGE = """\
# A page

{head}

## Scores

{before}

| model | {column} |
| --- | --- |
| one grammar | 86.1 |

{after}
"""


def page(head="", before="", column="WSJ sample, test F1", after=""):
    return PAGE.format(head=head, before=before, column=column, after=after)


def test_tables_have_the_text_around_them():
    text = page("Head.", "Before.", after="Between.\n\n| a |\n| --- |\n| b |\n\nAfter.")
    one, two, _ = audit.tables(f"{text}\n## Next\n\nOther.\n\n| c |\n| --- |\n")
    assert one.rows == [["model", "WSJ sample, test F1"], ["one grammar", "86.1"]]
    assert one.context.split() == ["Before.", "Between."]
    assert two.context.split() == ["Between.", "After."]
    assert two.rows == [["a"], ["b"]]
    assert one.heading == two.heading == "Scores"
    assert one.head.split() == ["#", "A", "page", "Head."]


# --- s1 -------------------------------------------------------------------------------------------
def stopped(text, epochs=16, command="python -m training.benchmarks.peers"):
    results = {"parsing": {"supar": {"f1": 83.9, "epochs": epochs}}, "commit": "abc"}
    stamps = {"parsing.supar": {"command": command}}
    return list(audit.stopped_peers(results, {"supar": 35}, stamps, {"x.md": text, "y.md": ""}))


def test_s1_stopped_peers():
    good = "supar was to have 35 epochs, and was\nstopped after 16."
    assert stopped(good) == []
    assert stopped("| supar, stopped after 16 of 35 epochs | 83.9 |") == []
    assert stopped("supar: 83.9", epochs=35) == []
    assert stopped("supar: 83.9", command="... --supar-epochs 16") == []
    assert "stopped after 16 of 35 epochs, which is not" in stopped("supar: 83.9")[0]
    assert "was to have 35" in stopped("supar, stopped after 16 epochs: 83.9")[0]
    assert "fixed in advance" in stopped(f"Settings\nwere fixed in advance. {good}")[0]
    assert stopped("supar: 83.9", epochs=None) == ["supar has no number of epochs"]


def test_s1_knows_what_was_planned():
    source = audit.text(audit.ROOT / audit.PEERS_MODULE)
    assert audit.planned_epochs(source)["supar"] > 0
    assert list(audit.stopped_peers({}, {}, {}, {}))


# --- s2 -------------------------------------------------------------------------------------------
SEEDS = {f"wsj15.seeds.{name}.f1": [1.0] * 4 for name in ("nn", "mf")}


def small(text, templates="", titov=SEEDS, name="x.md"):
    return list(audit.small_samples({name: text}, templates, titov))


@pytest.mark.parametrize(
    "good",
    [
        page(before="The standard error of F1 is 2.1."),
        page(after="Over four seeds, the\nstandard deviation is about 0.7."),
        page(head="The standard errors are 1.1 and 2.0."),
        page(column="WSJ sample, F1 | standard deviation"),
        page(column="WSJ sample, mean F1 of four seeds"),
        page(column="EWT dev, F1"),
        page(column="WSJ sample, CPU s"),
    ],
)
def test_s2_errors_of_small_samples(good):
    assert small(good) == []


@pytest.mark.parametrize(
    "bad",
    [
        page(),
        page(column="dev, F1", before="NLTK's sample of the Wall Street Journal."),
        page(column="law, F1", before="On 200 sentences of each domain."),
        page(before="The standard error was not recorded. It has 245 sentences."),
        page(before="Less than two standard errors are a tie. There are 245 sentences."),
        page(before="The standard error of F1 is 2.1.").replace(
            "## Scores", "## A\n\n| a |\n\n## B"
        )
        + page(),
    ],
)
def test_s2_no_errors_of_small_samples(bad):
    assert len(small(bad)) == 1


def test_s2_sizes_of_large_samples():
    assert small(page(column="F1", before="On 1,974 sentences.")) == []


def test_s2_seeds_of_networks():
    assert small("", titov={}) == [
        "feed-forward approximation: 0 seeds on the WSJ sample",
        "mean-field approximation: 0 seeds on the WSJ sample",
    ]
    assert small("", templates="{titov_henderson2007 wsj15.seeds.nn.mean_f1 .1f}") == []
    assert len(small("", templates="{titov_henderson2007 wsj15.nn.f1 .1f}")) == 1
    figures = SEEDS | {"wsj15.nn.f1": 88.54, "wsj15.seeds.nn.mean_f1": 89.51}
    row = "| feed-forward approximation | 89.51 (sd 0.73) |"
    assert small(row, titov=figures, name="titov_henderson2007.md") == []
    row = "| feed-forward approximation | 88.54 |"
    assert len(small(row, titov=figures, name="titov_henderson2007.md")) == 1


# --- s3 -------------------------------------------------------------------------------------------
def test_s3_withheld_figures():
    rows = [
        "| experiments in which mf is better | 9 | 8.00 |",
        "| of these, significant | 8 | 1.00 |",
    ]
    table = "## S\n\n| | paper | ours |\n| --- | --- | --- |\n"
    figures = {"artificial.mf_wins": 8, "artificial.mf_significant": 1}
    assert list(audit.withheld(table + "\n".join(rows), figures)) == []
    (found,) = audit.withheld(table + rows[0], figures)
    assert "mf_significant" in found
    (found,) = audit.withheld(table + "\n".join(rows).replace("1.00", "8.00"), figures)
    assert "which is 1" in found
    assert len(list(audit.withheld(table + "\n".join(rows), {}))) == 2


# --- s4 -------------------------------------------------------------------------------------------
def typed(templates="", module="", text=""):
    return list(audit.typed_figures(templates, {"report.py": module}, {"README.md": text}))


HEADER = "## T\n\n| parser | ours | Berkeley 1.7 | paper |\n| --- | --- | --- | --- |\n"


@pytest.mark.parametrize(
    "good",
    [
        "| F1 | {a b .1f} | {c d .1f} | 88.3 |",
        "| supar 1.1.4, stopped after {a b d} of 35 epochs | {a b .1f} | | |",
        "| F1 | 86.1 | [95.4](https://example.org) on news, 96.1 with another model | |",
        "| needs | a CPU | torch, a T5 transformer | |",
    ],
)
def test_s4_figures_that_are_filled_in(good):
    assert typed(HEADER + good + "\n") == []


@pytest.mark.parametrize(
    "bad",
    [
        "| F1 | {a b .1f} | 85.5 | 88.3 |",
        "| NLTK, naive Bayes | {a b .1f} | 1,980 | |",
        "| scikit-learn | about 82.5 | | |",
        "| supar 1.1.4 | {a b .1f} and 85.7 | | |",
    ],
)
def test_s4_figures_that_are_typed(bad):
    assert len(typed(HEADER + bad + "\n")) == 1


@pytest.mark.parametrize(
    ("module", "n"),
    [
        ('ROWS = {"supar": Row("supar", "CRF over a BiLSTM")}', 0),
        ('PEERS = {"python-crfsuite": ("python-crfsuite==0.9.12",)}', 0),
        ('TEXT = "stanza 1.15.0 needs CoreNLP. C is 0.5."', 0),
        ('TABLE = {"Charniak 2000": (90.0, 90.2, 90.1)}', 0),
        ('PEERS = {"Berkeley": (85.4, 28.3)}', 1),
        ('PEERS = {"supar": ("87.1", "18.8")}', 1),
        ('rows.append(("Berkeley 1.7", "85.5"))', 1),
        ('TEXT = "The F1 of supar is 85.7."', 1),
    ],
)
def test_s4_modules(module, n):
    assert len({found.split(":")[-1] for found in typed(module=module)}) == n


def test_s4_prose():
    assert typed(text="supar 1.1.4 is slow. Ours takes 1.5 s.") == []
    assert typed(text="benepar reports [95.4](https://example.org).") == []
    assert typed(text="<!-- table a -->\nNLTK reaches 81.2.\n<!-- end -->") == []
    assert len(typed(text="The tables of pgmpy are dense. Its `query` takes 0.3 ms.")) == 1
    assert len(typed(text="The Berkeley parser reaches 85.5.")) == 1


# --- s5 -------------------------------------------------------------------------------------------
def optimizers(pages=None, converged=1.0, curve=(9.0, 8.0, 7.9999)):
    solvers = {"owlqn": {"iterations": 12, "converged": converged}}
    return list(audit.stopped_optimizers(solvers, {"adagrad": list(curve)}, pages or {}))


def test_s5_stopped_optimizers():
    assert optimizers() == []
    assert len(optimizers(converged=0.0)) == 1
    assert optimizers({"adagrad.md": "It was stopped after 12\niterations."}, converged=0.0) == []
    assert len(optimizers({"adagrad.md": "It took 12 iterations."}, converged=0.0)) == 1
    assert len(optimizers(curve=(9.0, 8.0, 7.0))) == 1
    assert len(optimizers(curve=(9.0,))) == 1
    assert optimizers({"parsing_best.md": "cut after 3 passes"}, curve=(9.0, 8.0, 7.0)) == []
    assert list(audit.stopped_optimizers({}, {}, {}))


# --- s6, s7 ---------------------------------------------------------------------------------------
def test_s6_s7_where_figures_come_from(monkeypatch):
    monkeypatch.setattr(audit, "problems", lambda stamp: stamp.get("problems", []))
    then = {"": {"f1": 1.0, "cpu_s": 2.5}, "old": {"f1": 1.0, "cpu_s": 2.5}, "new": {"cpu_s": 2.4}}
    found = [
        ("x", "a.good", {"commit": "new"}),
        ("x", "a.bad", {"commit": "new+", "problems": ["made with uncommitted changes"]}),
        ("y", "a.stamped", {"commit": "old"}),
    ]
    result = list(audit.provenance(found, lambda name, part, commit: then[commit]))
    assert [name for name, _ in result] == ["x", "y"]
    assert result[0][1] == "x a.bad: made with uncommitted changes"
    assert "older than its stamp" in result[1][1]
    # Figures without times can be equal by right.
    then["old"] = then[""] = {"f1": 1.0}
    assert len(list(audit.provenance(found, lambda name, part, commit: then[commit]))) == 1


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        ("x a: made with uncommitted changes", "uncommitted"),
        ("x a: made at abc, which is not in the history", "gone"),
        ("x a: made by an unknown command", "unknown_command"),
        ("x a: older than training/x.py", "old"),
        ("x a: older than its stamp, at whose commit it had these times", "old"),
        ("x a: made from another ewt", "other_data"),
        ("x a: made by training.x, which is gone", "other"),
    ],
)
def test_kinds(problem, kind):
    assert audit.kind_of(problem) == kind


# --- s8 -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("row", "n"),
    [
        ("| test F1, its finest level trained discriminatively | 88.3 | 86.48 |", 0),
        ("| discriminative | 88.3 | 86.48 |", 0),
        ("| discriminative | 88.3 |  |", 1),
        ("| four generative grammars | 88.3 | 87.36 |", 1),
        ("| four generative and discriminative grammars, product | 88.3 | 87.36 |", 1),
        ("| discriminative |  | 86.48 |", 1),
    ],
)
def test_s8_discriminative_grammars(row, n):
    text = f"## The best grammars\n\n|  | paper | ours |\n| --- | --- | --- |\n{row}\n"
    assert len(list(audit.discriminative(text))) == n
    assert len(list(audit.discriminative(text.replace("best", "other")))) == 1


# --- all ------------------------------------------------------------------------------------------
def test_the_audit_of_this_checkout_is_recorded(monkeypatch, capsys):
    recorded = {}
    found = {f"s{n}": [] for n in range(1, 9)} | {"s2": ["one", "two"]}
    monkeypatch.setattr(audit, "audit", lambda: (found, audit.Counter(old=3)))
    monkeypatch.setattr(audit, "record", lambda name, figures: recorded.update(figures))
    monkeypatch.setattr(audit.sys, "argv", ["audit"])
    with pytest.raises(SystemExit, match="1 findings"):
        audit.main()
    assert recorded["audit.open"] == recorded["audit.s2.open"] == 1
    assert recorded["audit.s2.problems"] == 2
    assert recorded["audit.s1.open"] == 0
    assert recorded["audit.kinds.old"] == 3
    assert "s2: one" in capsys.readouterr().out
    found["s2"] = []
    audit.main()
    assert recorded["audit.open"] == 0


def test_all_checks_read_this_checkout():
    found, _ = audit.audit()
    assert list(found) == [f"s{n}" for n in range(1, 9)]
