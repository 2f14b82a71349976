"""The progress display of a run, on a terminal and in a notebook."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pauseframe as pf
import pytest
from conftest import SCENARIO
from pauseframe.run import automatic_display
from pauseframe.terminal.progress import NotebookDisplay, TerminalDisplay, describe, time_left
from pauseframe.types import RunProgress

INFO: RunProgress = {
    "sim_time_s": 0.0125,
    "stop_time_s": 0.05,
    "wall_s": 2.0,
    "events": 16_200_000,
    "packet_hops": 9_000_000,
    "flows_started": 40,
    "flows_finished": 30,
}


def test_the_line():
    assert time_left(INFO) == pytest.approx(6.0)
    assert describe(INFO) == "12.5 ms of 50 ms · 8.1 M events/s · 6 s left"
    assert describe(INFO | {"stop_time_s": None}) == "12.5 ms · 8.1 M events/s · 30 of 40 flows"
    assert describe(INFO | {"sim_time_s": 0.0, "wall_s": 0.0}).startswith("0 ns of 50 ms · 0 events/s")


def test_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    display = TerminalDisplay("incast")
    display(INFO)
    display(INFO | {"stop_time_s": None})
    display.close()
    captured = capsys.readouterr()
    assert captured.out == "", "stdout belongs to the results"
    assert "incast" in captured.err


@pytest.fixture
def notebook(monkeypatch):
    """A fake notebook kernel; returns the list of texts that the kernel has displayed."""
    shown: list[str] = []

    def display(html, display_id):
        shown.append(html)
        return SimpleNamespace(update=shown.append)

    module: Any = ModuleType("IPython")
    module.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.display = displays = ModuleType("IPython.display")
    module.display.HTML, module.display.display = str, display
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    return shown


def test_notebook(notebook):
    display = NotebookDisplay("a<b")
    display(INFO)
    display.close()
    assert notebook[0] == "a&lt;b"
    assert 'max="0.05"' in notebook[1]
    assert "6 s left" in notebook[1]
    assert notebook[-1] == "", "nothing stays behind"


def test_chosen_by_the_place(notebook, monkeypatch):
    scenario = pf.Scenario.from_toml(SCENARIO).resolve()
    assert isinstance(automatic_display(scenario), NotebookDisplay)
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", lambda: None)
    assert automatic_display(scenario) is None, "pytest captures stderr: nobody looks"
