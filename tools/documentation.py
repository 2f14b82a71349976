"""Hooks of the documentation site (mkdocs.yml): what the build makes from today's code.

The page of the command line gets every command with its options. live/ gets the report and the player that the start
page shows: README's scenario over lossless and lossy Ethernet, and the gallery's storm.
"""

from __future__ import annotations

import itertools
import re
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pauseframe as pf
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
SEEDS = range(1, 6)
"""Seeds of the table of incasts."""
ELSEWHERE = r"(?:https?:)?//[^\"' >]+"
COMMON = {"--help", "--json"}
"""Options that the page explains once for all commands."""


def on_config(config: MkDocsConfig) -> None:
    """Replaces a glob in the navigation, such as rules/*.md, by its pages."""
    config.nav = _expanded(config.nav or [], Path(config.docs_dir))


def _expanded(entries: list[Any], docs: Path) -> list[Any]:
    result: list[Any] = []
    for entry in entries:
        if isinstance(entry, dict):
            ((title, below),) = entry.items()
            result.append({title: _expanded(below, docs) if isinstance(below, list) else below})
        elif "*" in entry:
            result += sorted(path.relative_to(docs).as_posix() for path in docs.glob(entry))
        else:
            result.append(entry)
    return result


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of live/."""
    for name, text in live_pages().items():
        files.append(File.generated(config, f"live/{name}", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Fills in what the build computes, and leaves of a code block's first line what readers need."""
    markdown = plain_fences(markdown)
    for place, made in COMPUTED.get(page.file.src_uri, {}).items():
        markdown = markdown.replace(f"<!-- {place} -->", made(markdown))
    return markdown


def plain_fences(markdown: str) -> str:
    """Code blocks with their language alone: with the tests' words behind it, as in "toml part", they would be text."""
    return re.sub(r"^( *```\w+) [^\n`]+$", r"\1", markdown, flags=re.MULTILINE)


def live_pages() -> dict[str, str]:
    """The pages of live/ by their paths: a report and the players of its two runs, and the player of the storm."""
    from pauseframe.report import Group, build_report, from_folder
    from pauseframe.view import build_view
    from pauseframe.view import from_folder as playback

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    scenario = re.search(r"^```toml\n(# incast\.toml.*?)^```", readme, re.M | re.S)
    if scenario is None:
        raise ValueError("README.md has no incast.toml")
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        runs = []
        for preset in ("dctcp", "tcp_bolt"):
            settings = {"name": preset, "transport.preset": preset, "record.states.every": "20 us"}
            pf.run(scenario[1], set=settings, out=folder / preset, progress=False)
            runs.append(from_folder(folder / preset))
        build_report([Group("", runs)], folder / "report.html", title="31 hosts answer one at the same time")
        pf.run(ROOT / "docs/gallery/storm.toml", out=folder / "storm", progress=False)
        build_view([playback(folder / "storm")], folder / "storm" / "view.html")
        return {
            path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.html")
        }


def commands(_: str = "") -> str:
    """Every command: what it does, how it is called, its options, and an example."""
    from pauseframe.cli import app
    from typer.main import get_command

    return "\n".join(_section(path, command) for path, command in _leaves(get_command(app), ()))


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "commands"):
        yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from _leaves(below, (*path, name))


def _section(path: tuple[str, ...], command: Any) -> str:
    called = f"pauseframe {' '.join(path)}"
    context = command.context_class(command, info_name=called)
    parameters = [one for one in command.params if COMMON.isdisjoint(one.opts)]
    rows = [f"| `{name}` | {_cell(told)} |" for name, told in (one.get_help_record(context) for one in parameters)]
    table = ["| argument or option | |", "|---|---|", *rows, ""] if rows else []
    usage = re.sub(r"\{(.*?)\}", r"\1", " ".join([called, *command.collect_usage_pieces(context)]))
    shown = examples(command.epilog or "")
    return "\n".join(
        [f"### {called}", "", (command.help or "").strip(), "", "```sh", usage, "```", "", *table]
        + (["```sh", *shown, "```", ""] if shown else [])
    )


def examples(epilog: str) -> list[str]:
    """The command lines of a help text's last paragraph, one command or pipe a line."""
    text = re.sub(r"\s+", " ", epilog).partition("Example")[2].lstrip("s:").strip()
    return re.split(r" \| (?=pauseframe )", text) if text else []


def _cell(text: str) -> str:
    """A text in a cell of a table; words between < and > are values, not HTML."""
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;")


CONTROLS = {
    "PFC alone": {"transport.rdma_control": "none"},
    **{f"`{name}`": {"transport.rdma_control": name} for name in (
        "dcqcn_connectx", "dcqcn_cx5_measured", "dcqcn_hpcc", "dcqcn_paper"
    )},
    "`dcqcn_connectx` with CNPs for each queue pair": {
        "transport.rdma_control": "dcqcn_connectx", "transport.rdma_cnp_scope": "queue_pair"
    },
}  # fmt: skip


def incasts(page: str, senders: Sequence[int] = (8, 24), rates: Sequence[int] = (25, 100, 200, 400, 800)) -> str:
    """The table of incasts in docs/models/rdma.md: medians, and the range of the seeds where they differ."""
    scenario = re.search(r"^```toml\n(# last-of-eight\.toml.*?)^```", page, re.M | re.S)
    if scenario is None:
        raise ValueError("docs/models/rdma.md has no last-of-eight.toml")
    rows = [f"| senders, line rate | {' | '.join(CONTROLS)} |", f"|{'---|' * (len(CONTROLS) + 1)}"]
    for count, rate in itertools.product(senders, rates):
        base, *others = (_last_times(scenario[1], count, rate, control) for control in CONTROLS.values())
        cells = [f"{statistics.median(base) / 1000:.2f} ms", *(_multiples(base, other) for other in others)]
        rows.append(f"| {count}, {rate} Gb/s | {' | '.join(cells)} |")
    told = f"Medians of the seeds {SEEDS[0]} to {SEEDS[-1]}, with their range where it is wider than 5 %."
    return "\n".join([*rows, "", told])


def _last_times(scenario: str, senders: int, rate: int, control: dict[str, str]) -> list[float]:
    """Completion time of the last message in microseconds, for each seed."""
    marker = {"switch.marker.min": f"{4 * rate} KB", "switch.marker.max": f"{16 * rate} KB"}
    fabric = {"topology.hosts": senders + 1, "topology.link.rate": f"{rate} Gbps"}
    runs = (pf.run(scenario, seed=seed, set=fabric | marker | control, progress=False) for seed in SEEDS)
    return [run.summary["fct_us"]["max"] or 0.0 for run in runs]


def _multiples(base: Sequence[float], other: Sequence[float]) -> str:
    """The times `other` as multiples of `base`, seed by seed."""
    ratios = sorted(one / of_base for one, of_base in zip(other, base, strict=True))
    spread = f" ({ratios[0]:.2f} to {ratios[-1]:.2f})" if ratios[-1] > 1.05 * ratios[0] else ""
    return f"{statistics.median(ratios):.2f}{spread}"


COMPUTED: dict[str, dict[str, Callable[[str], str]]] = {
    "reference/command-line.md": {"commands": commands},
    "models/rdma.md": {"incasts": incasts},
}
"""What the build computes: for each page its places, as comments, and the functions that fill them."""


def on_post_build(config: MkDocsConfig) -> None:
    """Fails if a page would fetch something from elsewhere, or shows a code block as text."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        html = path.read_text(encoding="utf-8")
        if "<p>```" in html:
            raise PluginError(f"{path.name} shows a code block as text")
        if found := fetched(html):
            raise PluginError(f"{path.name} fetches {found} from elsewhere: the site must work without a network")


def fetched(html: str) -> str:
    """What a page fetches from another server, or "": files, or the figures of a repository that the theme shows."""
    if 'data-md-component="source"' in html:
        return "the figures of repo_url"
    sources = rf"<(?:script|img|iframe|source|video)\b[^>]*?\bsrc=[\"']?({ELSEWHERE})"
    styles = rf"<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|icon|preconnect))[^>]*?\bhref=[\"']?({ELSEWHERE})"
    found = re.search(f"{sources}|{styles}", html)
    return (found[1] or found[2]) if found else ""
