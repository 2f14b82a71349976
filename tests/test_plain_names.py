"""Names that look like rich's markup or pictures stay as they are in every table and message."""

import re
import shutil
from io import StringIO
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.terminal.progress import TerminalDisplay
from pauseframe.terminal.text import in_width, plain_console, terminal_table
from rich.console import Console
from test_fabrics import cli

PACKAGE = Path(pf.__file__).parent
HOSTILE = ["w[red]", "[/x]", "[bold]", "a:b:c"]
SCENARIO = """
name = "{name}"
stop = "2 ms"
record = {{ flows = true }}
topology = {{ kind = "star", hosts = 4 }}
switch = {{ pfc = true }}
[[workload]]
kind = "n_to_1"
name = "w[red]"
size = "10 KB"
[[workload]]
kind = "application"
name = "job[x]"
pattern = "all_to_all"
ranks = 4
size = "8 KB"
"""


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(SCENARIO.format(name="n[red]"))
    return path


def said(*words):
    done = cli(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_of_a_scenario(scenario):
    assert "n[red], seed 1" in said("show", scenario)
    assert '"w[red]"' in said("show", scenario)


def test_of_runs_and_comparisons(scenario, tmp_path):
    printed = said("run", scenario, "--out", tmp_path / "one[red]")
    for name in ("n[red], seed 1", "w[red] ", "job[x]"):
        assert name in printed
    shutil.copytree(tmp_path / "one[red]", tmp_path / "two[x]")
    printed = said("compare", tmp_path / "one[red]", tmp_path / "two[x]")
    assert "one[red]" in printed
    assert "two[x]" in printed


def test_of_values_of_sweeps(scenario, tmp_path):
    pf.sweep(scenario.read_text(), axes={"name": ["v[red]", "w[bold]"]}, out=tmp_path / "out")
    printed = said("compare", tmp_path / "out")
    assert "v[red]" in printed
    assert "w[bold]" in printed


def test_of_packetdrill_scripts(tmp_path):
    for name in ("one[red].pkt", "two[x].pkt"):
        shutil.copy(PACKAGE / "examples" / "packetdrill" / "handshake.pkt", tmp_path / name)
    printed = said("packetdrill", tmp_path)
    assert "one[red].pkt" in printed
    assert "two[x].pkt" in printed


@pytest.mark.parametrize("width", [40, 200])
def test_of_any_table_on_any_console(width):
    numbers = [{"header": name, "justify": "right"} for name in HOSTILE]
    table = terminal_table("", *numbers, title="a [red] title", rows=[HOSTILE[:1] + HOSTILE])
    for make in (Console, plain_console):
        output = StringIO()
        console = make(width=width, file=output)
        for part in in_width(table, console):
            console.print(part)
        for name in HOSTILE:
            assert output.getvalue().count(name) >= 2, name
        assert "a [red] title" in output.getvalue()


def test_of_progress():
    display = TerminalDisplay("n[/x]")
    output = StringIO()
    Console(file=output, force_terminal=True, width=100).print(display._progress.get_renderable())
    display.close()
    assert "n[/x]" in output.getvalue()


def test_nothing_prints_with_markup():
    """Tables and consoles of rich come from pauseframe.terminal."""
    own = {"terminal/text.py", "terminal/tables.py"}
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        made = re.search(r"\bConsole\(", text) or ("rich.table" in text and re.search(r"\bTable\(", text))
        assert not made or path.relative_to(PACKAGE).as_posix() in own, path
