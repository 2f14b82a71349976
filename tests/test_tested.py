"""The page "How this is tested" has a place for every figure, and lists the inputs and the unsafe code of today."""

import runpy
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).parent.parent / "tools" / "tested.py"))


def test_the_page_is_current() -> None:
    parts = TOOL["parts"]()
    page = TOOL["PAGE"].read_text()
    assert TOOL["filled"](TOOL["filled"](page, parts), parts) == TOOL["filled"](page, parts)
    for name in ("surfaces", "unsafe"):
        assert parts[name] in page, f"{name}: make docs fills in the page"


def test_figures_of_a_night() -> None:
    text = TOOL["faults"]('{"points": 7, "defects": 0, "calls": {"run": 163}}')
    assert "7 points, 0 defects" in text
    assert "| `run` | 163 |" in text
