"""One reader of TOML for all commands, one code for values and ranges, and carets under what is wrong."""

import re

import pytest
from pauseframe import _core
from pauseframe.cli._excerpt import excerpt
from pauseframe.files.reading import parse_toml
from pauseframe.sweep.spec import axis_values, split_values
from test_fabrics import cli

NEW_IN_TOML_11 = ("a = { b = 1, c = [2, 3], }", "a = {\n  b = 1, # a comment\n  c = 2,\n}", 'a = "\\e\\x41"')
SCENARIO = """topology = { kind = "star", hosts = 3, }
[[workload]]
kind = "permutation"
size = "20 KB"
"""
COMMANDS = {
    "run": ["run", "FILE", "-q", "--out", "out"],
    "flow": ["flow", "FILE", "-q", "--out", "out"],
    "show": ["show", "FILE"],
    "validate": ["validate", "FILE"],
    "sweep": ["sweep", "FILE", "-q", "--out", "out", "--set", "workload.size=20 KB,30 KB"],
    "tune": [
        *("tune", "FILE", "-q", "--out", "out", "--parameter", "workload.size=20 KB,30 KB"),
        *("--minimize", "fct_us.p99", "--trials", "2"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", NEW_IN_TOML_11)
def test_python_reads_what_the_core_reads(text):
    assert parse_toml(text)
    with pytest.raises(_core.ScenarioError) as refused:
        _core.resolve(text)
    assert "not TOML" not in str(refused.value)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_comma_before_a_bracket_works_in_every_command(command, tmp_path):
    (tmp_path / "a.toml").write_text(SCENARIO, encoding="utf-8")
    done = cli(*[word.replace("FILE", "a.toml") for word in COMMANDS[command]], cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("dctcp,tcp_bolt", ["dctcp", "tcp_bolt"]),
        ("[[1, 2], [3]], [4]", [[[1, 2], [3]], [4]]),
        ('{ kind = "red", p = [1, 2] }, "a, b"', [{"kind": "red", "p": [1, 2]}, "a, b"]),
        ("'it''s', x", ["'it''s'", "x"]),
        ('"a\\", b", c', ['a", b', "c"]),
        ("", []),
    ],
)
def test_values_are_split_outside_of_brackets_and_quotes(text, values):
    assert split_values(text) == values


def test_a_range_varies_an_axis_that_the_file_has(tmp_path):
    assert axis_values("{from=1,to=2}") == {"from": 1, "to": 2}, "incomplete, but meant as a range"
    text = f'name = "a"\n{SCENARIO}[sweep]\nworkload.size = ["20 KB", "30 KB"]\n'
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")
    ranged = "workload.size={from='10 KB',to='50 KB',steps=3}"
    done = cli("sweep", "a.toml", "--set", ranged, "-q", "--json", "--out", "out", cwd=tmp_path)
    assert '"planned": 3' in done.stdout, done.stderr
    wrong = cli("sweep", "a.toml", "--set", "workload.size={from='10 KB',to='50 KB',stpes=3}", cwd=tmp_path)
    assert (wrong.returncode, "a range has from, to, steps" in wrong.stderr) == (2, True)
    for command in ("run", "show"):
        refused = cli(command, "a.toml", "--set", ranged, cwd=tmp_path)
        assert (refused.returncode, "a range is for pauseframe sweep" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("line", "path", "value", "message", "marked"),
    [
        ('switch = { bufer = "9 MB", pfc = 7 }', "switch.bufer", '"9 MB"', "unknown key", "bufer"),
        ('switch = { bufer = "9 MB", pfc = 7 }', "switch.pfc", "7", "expected a table", "7"),
        ('size = "1 XB" # 1 XB', "workload.0.size", '"1 XB"', "unit", '"1 XB"'),
        ("size = '1 XB'", "workload.0.size", '"1 XB"', "unit", "'1 XB'"),
        ("[swich]", "swich", "", "unknown key", "swich"),
        ('"switch".buffer = -3', "switch.buffer.size", "-3", "has no unit", "-3"),
        ('name = "寿司", size = "1 XB"', "workload.0.size", '"1 XB"', "unit", '"1 XB"'),
        ('"switch.marker.k" = { from = 9, to = 5 }', "tune.parameters.switch.marker.k", "", "x", '"switch.marker.k"'),
        ("  nothing here # known", "a.b", "", "is required", "nothing here"),
    ],
)
def test_carets_stand_under_what_is_wrong(line, path, value, message, marked, tmp_path):
    file = tmp_path / "a.toml"
    file.write_text(f"# first\n{line}\n", encoding="utf-8")
    shown, carets = excerpt(f"{file}:2", path, value, message)
    assert shown == f"  2 | {line}"
    before = re.escape(shown[: shown.rindex(marked) if marked != "7" else shown.index("7 }")])
    wide = 2 if "寿司" in line else 0
    assert len(carets) - carets.count("^") == len(shown[: len(re.sub(r"\\(.)", r"\1", before))]) + wide
    assert carets.count("^") == len(marked)


def test_long_lines_are_cut_around_the_value(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text(f"flows = [{'1, ' * 500}99 XB]\n", encoding="utf-8")
    shown, carets = excerpt(f"{file}:1", "flows", "99 XB", "unit")
    assert "99 XB" in shown
    assert shown[carets.index("^") :].startswith("99 XB")
    assert len(shown) < 120


@pytest.mark.parametrize("place", ["", "--set", "standard input:2", "missing.toml:1", "a.toml:9", "line 3"])
def test_no_excerpt_where_no_file_is_named(place, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.toml").write_text("a = 1\n", encoding="utf-8")
    assert excerpt(place, "a", "1", "wrong") == []


def test_a_command_prints_the_carets(tmp_path):
    (tmp_path / "a.toml").write_text(SCENARIO.replace("20 KB", "20 XB"), encoding="utf-8")
    lines = cli("run", "a.toml", cwd=tmp_path).stderr.splitlines()
    assert lines[0].startswith('a.toml:4: workload.0.size = "20 XB"')
    assert lines[1:] == ['  4 | size = "20 XB"', "    |        ^^^^^^^"]


WRONG_TABLES = {
    "sweep": (
        '[sweep]\nworkload.size = { from = "1 KB", to = "9 MB", steps = 3 }\n',
        ["sweep", "a.toml"],
        ("a.toml:6: sweep.workload.size = ", '  6 | workload.size = { from = "1 KB", to = "9 MB", steps = 3 }'),
    ),
    "tune": (
        '[tune]\ntrials = 0\n[tune.parameters]\n"workload.size" = { from = "9 KB", to = "1 KB" }\n',
        ["tune", "a.toml", "--minimize", "fct_us.p99"],
        (
            "a.toml:6: tune.trials = 0: ",
            "  6 | trials = 0",
            "a.toml:8: tune.parameters.workload.size: from must be below to",
        ),
    ),
}


@pytest.mark.parametrize("table", WRONG_TABLES)
@pytest.mark.parametrize("checks", [False, True], ids=["command", "validate"])
def test_mistakes_of_tables_that_python_reads_have_lines_too(table, checks, tmp_path):
    text, command, wanted = WRONG_TABLES[table]
    (tmp_path / "a.toml").write_text(SCENARIO + text, encoding="utf-8")
    done = cli(*(["validate", "a.toml"] if checks else command), cwd=tmp_path)
    assert done.returncode == 2
    for line in wanted:
        assert any(shown.startswith(line) for shown in (done.stdout + done.stderr).splitlines()), (line, done.stderr)
    assert "'from'" not in done.stderr, "values are written as in TOML"
