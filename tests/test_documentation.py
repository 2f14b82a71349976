"""tools/documentation.py: what the build of the documentation site makes from today's code."""

import pkgutil
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pauseframe as pf
import pytest
import yaml
from pauseframe.cli import GROUPS, app
from typer.main import get_command

ROOT = Path(__file__).parents[1]
site = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "documentation.py")))
pictures = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "pictures.py")))
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def leaves(command, path=()):
    for name, below in getattr(command, "commands", {}).items():
        yield from leaves(below, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


def test_the_reference_has_every_command_and_option():
    text = site.commands()
    sections = dict(re.findall(r"^### pauseframe (.+?)\n(.*?)(?=^### |\Z)", text, re.M | re.S))
    commands = dict(leaves(get_command(app)))
    assert list(sections) == [" ".join(path) for path in commands]
    assert {name.split()[0] for name in sections} == {name for group in GROUPS.values() for name in group}
    for path, command in commands.items():
        section = sections[" ".join(path)]
        assert f"pauseframe {' '.join(path)}" in section
        for parameter in command.params:
            name = max(parameter.opts, key=len)
            assert name in {"--json", "--help"} or not name.startswith("-") or f"{name}" in section, (path, name)
        assert section.count("```sh") == 2  # usage and example


def test_the_build_fills_every_place_of_a_page():
    for name, places in site.COMPUTED.items():
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert re.findall(r"^<!-- (\w+) -->$", text, re.M) == list(places)


def test_incasts_are_those_of_runs():
    """PFC alone keeps the link busy; the page has no copy of the table."""
    page = (ROOT / "docs/models/rdma.md").read_text(encoding="utf-8")
    assert "| PFC alone |" not in page
    head, _, row, *_ = site.incasts(page, senders=[8], rates=[100]).splitlines()
    cells = dict(zip(head.split(" | ")[1:], row.split(" | ")[1:], strict=True))
    packets, frame = 8 * -(-1_000_000 // 1024), 1024 + 82  # with preamble, gap, and headers of 4 layers
    assert float(cells["PFC alone"].removesuffix(" ms")) == pytest.approx(
        packets * frame * 8 / 100e6, abs=0.01
    )  # two digits
    assert float(cells["`dcqcn_paper`"].split()[0]) > float(cells["`dcqcn_connectx`"].split()[0]) > 1
    filled = site.on_page_markdown("<!-- incasts -->", SimpleNamespace(file=SimpleNamespace(src_uri="index.md")))
    assert filled == "<!-- incasts -->"


def test_examples_of_a_help_text():
    text = "Exit code 3: a deadlock.\nExamples: pauseframe run a.toml | pauseframe run b.toml | less"
    assert site.examples(text) == ["pauseframe run a.toml", "pauseframe run b.toml | less"]
    assert site.examples("Exit code 3: a deadlock.") == []


def test_what_the_python_reference_collects_exists():
    """A renamed module breaks the site, which `make docs` builds long after the tests."""
    names = re.findall(r"^::: (\S+)", (ROOT / "docs/reference/python.md").read_text(encoding="utf-8"), re.M)
    assert len(names) > 10
    for name in names:
        pkgutil.resolve_name(name)


def test_six_tabs_lead_to_every_page():
    """mkdocs refuses pages that the navigation lacks; here the tabs and that no page stands in two places."""
    assert [next(iter(tab)) for tab in CONFIG["nav"]] == [
        "Start",
        "Gallery",
        "How-to",
        "Models",
        "Reference",
        "Validation",
    ]
    pages = list(named(site._expanded(CONFIG["nav"], ROOT / "docs")))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(pages) == sorted(there)


def named(entry):
    """The pages below an entry of the navigation."""
    if isinstance(entry, str):
        yield entry
    for below in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from named(below)


def test_the_start_page_shows_what_the_build_makes():
    pages = site.live_pages()
    start = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    shown = re.findall(r'<iframe[^>]* src="live/(.+?)"', start)
    assert len(shown) == 2
    assert set(shown) <= pages.keys()
    # The report leads to the players of its runs, which stand where its links point.
    links = set(re.findall(r'href="([^":#]+view\.html)', pages["report.html"]))
    assert links == {"dctcp/view.html", "tcp_bolt/view.html"} <= pages.keys()
    assert not any(map(site.fetched, pages.values()))


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example/a.js"></script>',
        "<script async src=//cdn.example/a.js></script>",
        '<link href="https://fonts.example/a.css" rel="stylesheet">',
        '<link rel="preconnect" href="https://fonts.example" crossorigin>',
        '<img alt="" src="http://example.org/a.png">',
        '<a href="https://github.com/a/b" data-md-component="source">',
    ],
)
def test_a_page_that_fetches_is_found(html):
    assert site.fetched(f"<p>{html}</p>")


def test_links_and_own_files_are_not_fetched_from_elsewhere():
    html = '<a href="https://example.org">x</a><script src="a.js"></script><link rel="canonical" href="https://a.example/">'
    assert site.fetched(html) == ""


def test_the_picture_of_the_player_is_that_of_today():
    run = pf.run(pictures.SCENARIO, progress=False)
    assert pictures.stored(pictures.PICTURE) == pictures.digest(run), "run `make pictures`"
    assert pictures.PICTURE.stat().st_size < 300_000


def test_a_picture_keeps_its_digest(tmp_path):
    from matplotlib.image import imread, imsave

    imsave(tmp_path / "a.png", [[0.0, 1.0]])
    pixels = imread(tmp_path / "a.png")
    assert pictures.stored(tmp_path / "a.png") == pictures.stored(tmp_path / "none.png") == ""
    (tmp_path / "a.png").write_bytes(pictures.with_digest((tmp_path / "a.png").read_bytes(), "f" * 64))
    assert pictures.stored(tmp_path / "a.png") == "f" * 64
    assert (imread(tmp_path / "a.png") == pixels).all(), "other programs read it"


def test_words_for_tests_are_no_part_of_a_code_block():
    text = "```toml part\na = 1\n```\n  ```python file=swift.py\n```\n```sh\nls | cat\n```\n"
    assert site.plain_fences(text) == "```toml\na = 1\n```\n  ```python\n```\n```sh\nls | cat\n```\n"
