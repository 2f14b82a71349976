"""The user documentation: its Python examples give the printed results, and its scenarios are valid."""

import doctest
import re
from pathlib import Path

import pauseframe as pf
import pytest

DOCS = Path(__file__).parent.parent / "docs"
REST = """
[topology]
kind = "star"
hosts = 3
[[workload]]
kind = "permutation"
size = "1 MB"
"""
PAGES = [
    DOCS / "tutorial.md",
    DOCS / "your-own-algorithm.md",
    *sorted(DOCS.glob("how-to/*.md")),
    *sorted(DOCS.glob("models/*.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_examples(page):
    assert doctest.testfile(str(page), module_relative=False).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_scenarios(page):
    for text in re.findall(r"^```toml\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
        assert pf.Scenario.from_toml(text).resolve().warnings == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_fragments_and_scenarios_that_warn(page):
    """A block `toml part` is a fragment that completes a plain scenario; a block `toml warns` causes a warning."""
    text = page.read_text(encoding="utf-8")
    for warned in re.findall(r"^```toml warns\n(.*?)^```", text, re.M | re.S):
        assert pf.Scenario.from_toml(warned).resolve().warnings != []
    for part in re.findall(r"^```toml part\n(.*?)^```", text, re.M | re.S):
        assert pf.Scenario.from_toml(part + REST).resolve()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_page_on_plugins_shows_the_example():
    page = (DOCS / "your-own-algorithm.md").read_text(encoding="utf-8")
    example = DOCS.parent / "python/pauseframe/examples/plugin/swift.py"
    assert f"```python file=swift.py\n{example.read_text(encoding='utf-8')}```\n" in page
