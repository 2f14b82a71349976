"""Runs every command of README and the site, in the site's order, without --force: who follows the pages succeeds.

By day the pages of each tab share one folder, which is empty at first; by night all pages do,
README first. The test saves the scenarios of a page (```toml blocks) under the names that the page gives, and
compares the lines that a page shows below a command with what the command prints. `INSTEAD` lists commands that would
take too long or need resources that a test machine lacks, with the command that runs instead and the reason; an entry
that no page uses any more fails the test.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pauseframe import InputError, kernel
from pauseframe.reproduce.command import _chosen
from pauseframe.reproduce.spec import find_experiments

ROOT = Path(__file__).parent.parent
CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
CHECKOUT = ("python/pauseframe/experiments",)
"""Folders of the checkout whose files pages name."""
LONG = "minutes: tests/test_reproduce.py does experiments; here the name is checked"
SMALL_STUDY = "a minute or two: tests/test_tune.py runs it at a small size"
INSTEAD: dict[str, tuple[str | None, str]] = {
    "pauseframe kernel build": (None, "minutes of compiling; `make test-kernel` does it"),
    "pauseframe kernel build --source ~/linux --config more.config": (None, "a source of the reader's"),
    "pip install pauseframe-*.whl": (None, "tools/dist installs the wheel"),
    "pip install 'pauseframe[cluster]'": (None, "it is installed already"),
    "pip install 'pauseframe[perfetto]'": (None, "it is installed already"),
    "pip install 'pauseframe[plugins]'": (None, "it is installed already"),
    "for switch in leaf0 leaf1 spine0; do": (None, "it fetches files of real switches"),
    "for switch in cumulus0 cumulus1; do": (None, "it fetches files of real switches"),
    "for switch in arista0 arista1; do": (None, "it fetches files of real switches"),
    "pauseframe tune tune/dctcp_threshold.toml": (
        None,
        SMALL_STUDY,
    ),
    "pauseframe tune tune/incast_timers.toml --beside-random": (
        None,
        SMALL_STUDY,
    ),
    "pauseframe tune tune/ecn_before_pfc.toml --beside-random": (
        None,
        SMALL_STUDY,
    ),
    "dask scheduler --host 127.0.0.1 --port 8786 &": (None, "tests/test_sweep_cluster.py does it"),
    "dask worker tcp://127.0.0.1:8786 --nthreads 1 --nworkers 2 &": (None, "tests/test_sweep_cluster.py does it"),
    'pauseframe sweep load.toml --shard "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --quiet': (
        "for n in 1 2 3; do pauseframe sweep load.toml --shard $n/3 --quiet; done",
        "Slurm sets these",
    ),
    "pauseframe sweep load.toml --on tcp://127.0.0.1:8786": (None, "tests/test_sweep_cluster.py does it"),
}
EXIT = {
    "pauseframe lint sonic/configs/": 1,
    "pauseframe lint sonic/configs/ --design good.toml": 1,
    "pauseframe lint sonic/configs/ --sonic-release 202405": 1,
    "pauseframe lint sonic/configs/ --prove": 1,
    "pauseframe lint sonic/configs/ --fix --write fixed/ > patch.json": 1,
    "pauseframe run incast.toml --set switch.bufer='9 MB'": 2,
    "pauseframe run ring.toml": 3,
    "pauseframe run deadlock.toml": 3,
    "pauseframe run python/pauseframe/experiments/bolt/ring.scenario.toml": 3,
    "pauseframe run python/pauseframe/experiments/bolt/ring_of_three.scenario.toml": 3,
}
"""The commands that fail on purpose, with the exit codes that the pages state."""
PROGRAMS = r"(?:pauseframe|make|tshark|pip|dask|for|sbatch|snakemake)\b"


def pages_below(entry: Any) -> list[Path]:
    """The pages of an entry of the navigation, in order."""
    if isinstance(entry, str):
        return sorted((ROOT / "docs").glob(entry))
    return [page for below in (entry.values() if isinstance(entry, dict) else entry) for page in pages_below(below)]


TABS = {title: pages_below(below) for tab in CONFIG["nav"] for title, below in tab.items()}
TABS["Start"].insert(0, ROOT / "README.md")
PAGES = [page for pages in TABS.values() for page in pages]


def transcript(text: str) -> list[tuple[str, list[str]]]:
    """The shell commands of a page, each with the output that the page prints below it.

    Commands are indented lines that begin with a program, and the text after "$ " in a block `console`.
    """
    found: list[tuple[str, list[str]]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = not inside
            console = line.startswith("```console")
            script = line.startswith("```bash")
        elif inside and console and line.startswith("$ "):
            found.append((line[2:], []))
        elif inside and console and line.startswith("> "):
            found[-1] = (f"{found[-1][0]}\n{line[2:]}", [])
        elif inside and console and line.strip():
            found[-1][1].append(line.strip())
        elif (inside and script and re.match(PROGRAMS, line)) or (not inside and re.match(rf"    {PROGRAMS}", line)):
            found.append((line.strip(), []))
    return [(re.split(r"\s{2,}#", command)[0].rstrip(), output) for command, output in found]


def commands(text: str) -> list[str]:
    """The shell commands of a page."""
    return [command for command, _ in transcript(text)]


def missing(shown: list[str], printed: str) -> str:
    """The first line that a page shows and a command does not print in this order, or ""; "..." is any lines."""
    rest = iter(printed.splitlines())
    wanted = (" ".join(line.split()) for line in shown if line != "...")
    return next((line for line in wanted if not any(line == " ".join(other.split()) for other in rest)), "")


def scenarios(page: Path) -> dict[str, str]:
    """The scenario files of a page, by name: those in its text, and those beside it that it links."""
    text = page.read_text(encoding="utf-8")
    linked = re.findall(r"\]\((\w+\.toml)\)", text)
    files = {name: (page.parent / name).read_text(encoding="utf-8") for name in linked}
    for info, body in re.findall(r"^```toml([^\n]*)\n(.*?)^```", text, re.M | re.S):
        given = re.search(r"file=(\S+)", info) or re.match(r"# (\S+\.toml)", body)
        named = re.search(r'^name = "(.+?)"', body, re.M)
        if "part" not in info.split() and (given or named):
            files[given[1] if given else f"{named[1]}.toml"] = body  # type: ignore[index]
    files |= dict(re.findall(r"^```python file=(\S+)\n(.*?)^```", text, re.M | re.S))
    return files


@pytest.fixture
def shell(tmp_path):
    """Runs a command in a temporary folder with `pauseframe` on the path; the command opens no browser."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, command in (("pauseframe", f'exec {sys.executable} -m pauseframe "$@"'), ("xdg-open", "exit 0")):
        (tools / name).write_text(f"#!/bin/sh\n{command}\n")
        (tools / name).chmod(0o755)
    folder = tmp_path / "empty"
    folder.mkdir()

    def run(script, expected=0):
        done = subprocess.run(
            ["bash", "-ec", script],
            cwd=folder,
            env=os.environ | {"PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == expected, f"{script}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return f"{done.stdout}\n{done.stderr}"

    run.folder = folder  # type: ignore[attr-defined]
    return run


@pytest.mark.timeout(900)
@pytest.mark.parametrize("tab", TABS)
def test_commands(tab, shell, capsys):
    for page in TABS[tab]:
        follow(page, shell, capsys)


@pytest.mark.night
@pytest.mark.timeout(900)
def test_commands_of_all_pages_in_one_folder(shell, capsys):
    for pages in TABS.values():
        for page in pages:
            follow(page, shell, capsys)


def follow(page, shell, capsys):
    """Does what a reader of the page does, in the folder of the shell."""
    text = page.read_text(encoding="utf-8")
    for name, body in scenarios(page).items():
        (shell.folder / name).write_text(body, encoding="utf-8")
    for name in CHECKOUT:
        if re.search(rf"\b{name}/", text) and not (shell.folder / name).exists():
            (shell.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (shell.folder / name).symlink_to(ROOT / name)
    for command, shown in transcript(text):
        assert "--force" not in command.split(), f"{page.name}: {command} overwrites"
        instead, why = replacement(command)
        if why:
            with capsys.disabled():
                done = f"instead {instead!r}" if instead else "not run here"
                sys.stderr.write(f"\n{page.name}: {command!r}: {why}; {done}\n")
        if instead is not None:
            printed = shell(instead, EXIT.get(command, 0))
            assert not missing(shown, printed), (
                f"{page.name}: {command} does not print {missing(shown, printed)!r}\n{printed}"
            )


def test_output_that_a_page_shows_must_be_printed():
    printed = "flows finished   31 of 31\ndrops   0\ntimeouts   4"
    assert missing(["flows finished  31 of 31", "...", "timeouts 4"], printed) == ""
    assert missing(["timeouts 4", "drops 0"], printed) == "drops 0"
    assert missing(["drops 1"], printed) == "drops 1"
    assert transcript("```console\n$ a\n> b\nc\n\n$ d\n```") == [("a\nb", ["c"]), ("d", [])]


def replacement(command: str) -> tuple[str | None, str]:
    """The command that runs instead of a command, and the reason, or ""."""
    if command in INSTEAD:
        return INSTEAD[command]
    if command.startswith("pauseframe reproduce") and "--list" not in command:
        names = re.sub(r" --(full|quick|(out|stack|seeds|set) \S+)", "", command).split()[2:]
        assert _chosen(names, find_experiments(ROOT / "python/pauseframe/experiments")), names
        return None, LONG
    if command.startswith("tshark") and not any(
        (Path(folder) / "tshark").exists() for folder in os.environ["PATH"].split(os.pathsep)
    ):
        return None, "SKIPPED: tshark is not installed"
    if "kernel.toml" in command and (why := no_kernel()):
        return None, f"SKIPPED: {why}"
    return command, ""


def no_kernel() -> str:
    """Why hosts cannot have a kernel here, or ""."""
    try:
        kernel.find()
    except InputError as error:
        return str(error)
    return ""


def test_every_replacement_is_used():
    known = {command for page in PAGES for command in commands(page.read_text(encoding="utf-8"))}
    assert not INSTEAD.keys() - known
    assert not EXIT.keys() - known


def test_the_first_scenario_shows_what_it_is_for(shell):
    """README: the lossless run pauses, the lossy run drops and times out, with the numbers that commands print."""
    import pauseframe as pf
    import polars as pl
    from pauseframe.terminal.text import format_us, summary_rows

    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    (shell.folder / "incast.toml").write_text(scenarios(ROOT / "README.md")["incast.toml"], encoding="utf-8")
    file = shell.folder / "incast.toml"
    runs = [pf.run(file, set={"transport.preset": name}, progress=False) for name in ("tcp_bolt", "dctcp")]
    bolt, dctcp = (run.summary for run in runs)
    shown = [dict(summary_rows(run.summary)) for run in runs]
    slowest = [format_us(max(pl.DataFrame(run.flows)["fct_us"])) for run in runs]
    assert (bolt["drops"], bolt["timeouts"], dctcp["pfc_pauses"]) == (0, 0, 0)
    assert bolt["pfc_pauses"] > 0
    assert f"prints {shown[0]['pause frames']} pause frames, 0 drops and a mean FCT of {shown[0]['FCT, mean']}" in text
    drops, timeouts, mean = dctcp["drops"], shown[1]["timeouts"], shown[1]["FCT, mean"]
    times_out = "1 timeout" if timeouts == "1" else f"{timeouts} timeouts"
    assert f"prints {drops} drops, {times_out} and a mean FCT of {mean}" in text
    assert f"begins with the slowest flow: {slowest[0]} beside {slowest[1]}" in text
    held = [row["fullest switch held"].partition(" (")[0] for row in shown]
    assert f'the fullest switch held {held[0]} beside {held[1]}. With `switch.buffer = "{held[0]}"`' in text
    equal = pf.run(file, set={"transport.preset": "dctcp", "switch.buffer": held[0]}, progress=False).summary
    mean = dict(summary_rows(equal))["FCT, mean"]
    assert f"DCTCP drops {equal['drops']} packets and has a mean FCT of {mean} too" in text


def test_figures_of_the_readme_stand_on_the_pages_that_it_names():
    """No figure of README's table is older than the page that says how it was measured."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (?!beside|-)(.+?) \| (.+?) \| (.+?) \| \[.+?\]\((docs/[\w/-]+\.md)", text, re.M)
    assert len(rows) == 5
    for beside, compared, result, page in rows:
        known = re.findall(NUMBER, (ROOT / page).read_text(encoding="utf-8"))
        for number in re.findall(NUMBER, f"{compared} {result}"):
            assert number in known, f"{beside}: {number} is not in {page}"


NUMBER = r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?"
