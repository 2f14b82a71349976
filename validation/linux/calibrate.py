"""Compares pauseframe with the Linux kernel: runs every scenario, writes docs/validation/linux.md, tables and plots.

The tables are linux.csv and, for the scenarios of held_out.toml, held_out.csv. Also writes the package's file with the
number of figures that support each preset.

    python validation/linux/calibrate.py [--seeds N] [--out DIR] [SCENARIO ...]

With names of scenarios, the script only prints the rows of these scenarios and writes nothing.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import evidence
import ours
import plots
import polars as pl
from figures import Recording, band, figures
from verdict import Row, compare, held_out, kept_runs, kernel_hosts, known, reason, reference

HERE = Path(__file__).parent
VALIDATION = HERE.parents[1] / "docs" / "validation"
SEEDS = 10
"""Number of runs per scenario with jitter; the scenarios of groups a and g have no jitter and run once."""

GROUPS = {
    "a": "One flow at 1 Gb/s, 600 us, a queue of 467 packets (DCTCP: marking from 20 packets on)",
    "b": "2 and 20 long flows from two hosts; `tso`: 2 flows with segmentation and receive offload",
    "c": "Responses of 20 KB, one after another on one connection, beside two long flows",
    "d": "A second flow joins at 5 s and leaves at 15 s",
    "e": "CUBIC without ECN (flow 1) and DCTCP (flow 2, from 1 s on) through a RED queue of 20 packets",
    "f": "Incast: N senders answer 16-byte requests at the same time; 10 rounds, a queue of 100 packets, 100 us",
    "g": "Single transfers on an idle path of 10 Gb/s and 240 us",
}


MECHANISMS = {
    "segmentation and receive offload (TSO, GRO)": ("b_long2_cubic_rtt600_tso", "b_long2_dctcp_rtt600_tso"),
    "slow start, HyStart, CUBIC and Reno growth": (
        "a_single_cubic",
        "a_single_reno",
        "b_long2_cubic",
        "b_long20_cubic",
        "d_converge_1g_cubic",
    ),
    "DCTCP: alpha, window cuts, send buffer, PSH": (
        "a_single_dctcp",
        "b_long2_dctcp",
        "b_long20_dctcp",
        "d_converge_1g_dctcp",
    ),
    "Vegas": ("a_single_vegas",),
    "short responses beside long flows": ("c_buildup",),
    "small queues; RED with and without ECN": ("e_coexist",),
    "recovery in incast: RACK, probes, PRR, timeouts": ("f_incast",),
    "receive windows, quick and delayed ACKs": ("g_fct",),
}
"""Prefixes of scenario names by mechanism; a scenario that matches two mechanisms counts for the first."""
COUNTS = " figures | inside | in range | outside | inside the reference run's band |"
COLUMNS = ("scenario", "figure", "Linux 6.1", "Linux spread", "pauseframe", "pauseframe seeds", "band", "result")


def main() -> None:
    """Runs the scenarios and compares them with the kernel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=VALIDATION)
    parser.add_argument("--hosts", action="store_true", help="renew the section of kernel hosts only, without a run")
    arguments = parser.parse_args()
    if arguments.hosts:
        renew_hosts(arguments.out)
        return
    if arguments.scenarios:
        kernel = {name: found for name, found in (reference() | held_out()).items() if name in arguments.scenarios}
        sys.stdout.write("\n".join(table(measure(kernel, arguments.seeds)[1])) + "\n")
        return
    runs, rows = measure(reference(), arguments.seeds)
    _, held = measure(held_out(), arguments.seeds)
    arguments.out.mkdir(parents=True, exist_ok=True)
    pictures = draw(runs, arguments.out)
    (arguments.out / "linux.md").write_text(report(rows, held, pictures, arguments.seeds), encoding="utf-8")
    write(rows, arguments.out / "linux.csv")
    write(held, arguments.out / "held_out.csv")
    if arguments.out == VALIDATION:
        evidence.write(rows)


def measure(kernel: dict[str, dict[str, float]], seeds: int) -> tuple[dict[str, list[Recording]], list[Row]]:
    """Runs the scenarios and compares their figures with those of the kernel."""
    runs: dict[str, list[Recording]] = {}
    rows: list[Row] = []
    for scenario, found in kernel.items():
        sys.stderr.write(f"{scenario}\n")
        count = 1 if scenario[0] in "ag" else seeds
        runs[scenario] = [ours.record(scenario, seed) for seed in range(1, count + 1)]
        rows += compare(scenario, found, [figures(scenario, run) for run in runs[scenario]])
    return runs, rows


def write(rows: list[Row], path: Path) -> None:
    """Writes all rows as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *map(cells, rows)])


def draw(runs: dict[str, list[Recording]], out: Path) -> dict[str, list[str]]:
    """Draws all plots; returns their file names by group."""
    lines = pl.read_parquet(plots.REFERENCE / "lines.parquet")
    of = {group: {name: found for name, found in runs.items() if name[0] == group} for group in GROUPS}
    pictures: dict[str, list[str]] = {group: [f"{group}.svg"] for group in GROUPS}
    pictures["a"] = [f"{name}.svg" for name in of["a"]]
    for name, found in of["a"].items():
        plots.single(name, found[0], lines.filter(pl.col("scenario") == name), out / f"{name}.svg")
    plots.queues(of["b"], out / "b.svg")
    plots.responses(of["c"], out / "c.svg")
    plots.rates(of["d"], lines, out / "d.svg")
    plots.rates(of["e"], lines, out / "e.svg")
    plots.incast(of["f"], out / "f.svg")
    plots.transfers(of["g"], out / "g.svg")
    return pictures


def table(rows: list[Row]) -> list[str]:
    """The rows as a Markdown table."""
    return [
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
        *(f"| {' | '.join(cells(row, marks=True))} |" for row in rows),
    ]


def cells(row: Row, *, marks: bool = False) -> list[str]:
    """A row as text, one cell for each column of `COLUMNS`; `marks`: daggers where the laboratory's spacing counts."""
    low, high = f"{row.low:.4g}", f"{row.high:.4g}"
    spread = "" if None in row.spread else "{:.4g} … {:.4g}".format(*row.spread)
    runs = f" ({1 + len(row.others)} runs)" if row.others else ""
    allowed = band(row.figure)
    width = f"{allowed.relative:.0%}" + (f" or {allowed.absolute:g}" if allowed.absolute else "")
    seeds = "" if low == high else f"{low} … {high}"
    return [
        row.scenario,
        row.figure + (" †" if marks and row.measures_spacing else ""),
        f"{row.kernel:.5g}",
        spread + runs,
        f"{row.ours:.5g}",
        seeds,
        width,
        row.standing,
    ]


def report(rows: list[Row], held: list[Row], pictures: dict[str, list[str]], seeds: int) -> str:
    """The text of the page `linux.md`."""
    preface = (HERE / "preface.md").read_text(encoding="utf-8").strip()
    above, of_held_out, of_hosts, below = re.split("<!-- (?:summary|held out|kernel hosts) -->\n", preface)
    text = ["<!-- Written by `make calibrate`; do not edit. -->", above, *summary(rows, held, seeds)]
    text += ["## Figures that are not inside", "", *not_inside(rows)]
    text += [of_held_out, *by_scenario(held), *not_inside([row for row in held if row.standing == "outside"])]
    mine = {(row.scenario, row.figure) for row in rows if row.standing == "inside"}
    text += [of_hosts, *beside_hosts(mine)]
    text += ["## Plots", "", "Linux in orange, pauseframe in blue.", ""]
    for group, title in GROUPS.items():
        text += [f"**{group}.** {title}.", "", *(f"![{name}]({name})" for name in pictures[group]), ""]
    return "\n".join([*text, below]).rstrip() + "\n"


def not_inside(rows: list[Row]) -> list[str]:
    """The rows that are not inside, and the reasons for those outside."""
    text = [*table([row for row in rows if row.standing != "inside"]), ""]
    reasons = explanations([row for row in rows if row.standing == "outside"], known())
    return [*text, *reasons, ""] if reasons else text


def by_scenario(rows: list[Row]) -> list[str]:
    """A table of the number of rows inside, in range and outside, by scenario."""
    text = ["| scenario | runs of the kernel |" + COUNTS, "|---" * 7 + "|"]
    for name in dict.fromkeys(row.scenario for row in rows):
        mine = [row for row in rows if row.scenario == name]
        text.append(counted(f"`{name}`", str(1 + len(mine[0].others)), mine))
    return [*text, counted("**all**", "", rows), "", "[`held_out.csv`](held_out.csv) has all rows.", ""]


def renew_hosts(out: Path) -> None:
    """Writes the section of kernel hosts again, beside pauseframe's figures as `linux.csv` has them."""
    of_hosts = re.split("<!-- (?:summary|held out|kernel hosts) -->\n", (HERE / "preface.md").read_text("utf-8"))[2]
    rows = pl.read_csv(out / "linux.csv").filter(pl.col("result") == "inside")
    mine = set(rows.select("scenario", "figure").iter_rows())
    page = out / "linux.md"
    text = page.read_text("utf-8")
    start, end = text.index(of_hosts.split("\n", 1)[0]), text.index("## Plots")
    section = "\n".join([of_hosts, *beside_hosts(mine)])
    page.write_text(f"{text[:start]}{section}\n{text[end:]}", encoding="utf-8")


def beside_hosts(ours: set[tuple[str, str]]) -> list[str]:
    """A table of pauseframe's TCP beside Linux in its fabric, and the rows of the latter that are outside.

    `ours` are the scenarios and figures of pauseframe's TCP that are inside.
    """
    hosts = kernel_hosts()
    names = list(dict.fromkeys(row.scenario for row in hosts))
    missing = [f"`{name}`" for name in reference() if name not in names]
    text = [f"Not run: {', '.join(missing)}.", ""] if missing else []
    heads = ("scenario", "kernel", "seeds", "figures", "pauseframe's TCP inside", "Linux in the fabric inside")
    text.append(f"| {' | '.join(heads)} | in range | outside |")
    text.append("|---" * 8 + "|")
    text.extend(beside(f"`{name}`", ours, hosts, [name]) for name in names)
    text += [beside("**all**", ours, hosts, names), ""]
    header, *lines = table([row for row in hosts if row.standing == "outside"])
    return [*text, header.replace("pauseframe", "Linux in the fabric"), *lines, ""]


def beside(title: str, ours: set[tuple[str, str]], hosts: list[Row], names: list[str]) -> str:
    """A line of the table of kernel hosts."""
    mine = [row for row in hosts if row.scenario in names]
    both = len(ours & {(row.scenario, row.figure) for row in mine})
    inside, in_range, outside = (
        sum(row.standing == standing for row in mine) for standing in ("inside", "in range", "outside")
    )
    runs = kept_runs(names[0]) if len(names) == 1 else {}
    version = ", ".join(sorted({version for version, _ in runs.values()}))
    share = f"{inside} ({inside / len(mine):.0%})"
    return f"| {title} | {version} | {len(runs) or ''} | {len(mine)} | {both} | {share} | {in_range} | {outside} |"


def explanations(rows: list[Row], reasons: list[dict[str, Any]]) -> list[str]:
    """The reasons for rows outside their bands, one line for each reason."""
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(reason(row, reasons) or "not explained yet", []).append(f"{row.scenario}: {row.figure}")
    return [f"- {why} (*{'; '.join(where)}*)" for why, where in found.items()]


def summary(rows: list[Row], held: list[Row], seeds: int) -> list[str]:
    """A table of the number of rows inside, in range and outside, by mechanism."""
    text = [
        shares(rows),
        "",
        of_held_out(held),
        "",
        "| mechanism | scenarios |" + COUNTS,
        "|---" * 7 + "|",
    ]
    rest = rows
    for name, prefixes in MECHANISMS.items():
        mine = [row for row in rest if row.scenario.startswith(prefixes)]
        rest = [row for row in rest if row not in mine]
        text.append(counted(name, ", ".join(f"`{prefix}`" for prefix in prefixes), mine))
    text.append(counted("**all**", "", rows))
    note = f"Groups b to f use the median of {seeds} seeds. [`linux.csv`](linux.csv) has all {len(rows)} rows."
    return [*text, "", note, ""]


def counted(name: str, where: str, rows: list[Row]) -> str:
    """A line of the summary table."""
    counts = [sum(row.standing == standing for row in rows) for standing in ("inside", "in range", "outside")]
    alone = sum(row.is_inside_reference for row in rows)
    share, share_alone = (f"{count} ({count / max(len(rows), 1):.0%})" for count in (counts[0], alone))
    return f"| {name} | {where} | {len(rows)} | {share} | {counts[1]} | {counts[2]} | {share_alone} |"


def shares(rows: list[Row]) -> str:
    """The shares of rows inside and in range; rows that are single random events are counted separately."""
    steady = [row for row in rows if not row.is_a_draw]
    inside = sum(row.standing == "inside" for row in rows)
    settled = sum(row.standing == "inside" for row in steady)
    spanned = sum(row.standing != "outside" for row in rows)
    alone = sum(row.is_inside_reference for row in rows)
    spaced = [row for row in rows if row.measures_spacing]
    others = [row for row in rows if not row.measures_spacing]
    inside_others = sum(row.standing == "inside" for row in others)
    return (
        f"**{inside} of {len(rows)} figures ({inside / len(rows):.1%}) are inside the bands around all runs of the "
        f"kernel; {spanned} ({spanned / len(rows):.1%}) are inside or in range.** Around the kernel's reference run "
        f"alone, {alone} ({alone / len(rows):.1%}) are inside. {len(rows) - len(steady)} figures are single random "
        f"draws (one round of an incast, one flow's share); of the other {len(steady)}, {settled} "
        f"({settled / len(steady):.1%}) are inside. "
        f"{len(spaced)} figures are completions of incasts (†): they measure the spacing of the laboratory's answers "
        f"as much as TCP. Of the other {len(others)}, {inside_others} ({inside_others / len(others):.1%}) are "
        "inside.\n\n"
        f"{beside_itself(rows)}"
    )


def of_held_out(rows: list[Row]) -> str:
    """The share of the held-out rows inside."""
    scenarios = len({row.scenario for row in rows})
    inside, spanned = (sum(row.standing in which for row in rows) for which in (("inside",), ("inside", "in range")))
    return (
        f"**Held out: {inside} of {len(rows)} figures ({inside / len(rows):.1%}) of {scenarios} scenarios "
        f"outside the calibration are inside; {spanned} ({spanned / len(rows):.1%}) are inside or in range** "
        "([below](#held-out-scenarios))."
    )


def beside_itself(rows: list[Row]) -> str:
    """The share of rows that two samples of the kernel would have inside, and the simulator's share for these rows."""
    repeated = [(row, share) for row in rows if (share := row.kernel_inside_itself) is not None]
    ours = sum(row.standing == "inside" for row, _ in repeated)
    return (
        f"The kernel differs from itself about as often: {len(repeated)} figures were measured with several seeds of "
        "the kernel. If its runs are split into two halves, in every possible way, "
        f"{fmean(share for _, share in repeated):.1%} of the figures of one half are inside the bands around the other "
        f"half. Of pauseframe's figures for the same rows, {ours / len(repeated):.1%} are inside."
    )


if __name__ == "__main__":
    main()
