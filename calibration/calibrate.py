"""Our model beside the real kernel: runs every scenario, writes docs/validation/linux.md and its plots.

Also writes the file of the package that says which figures vouch for which preset.

    python calibration/calibrate.py [--seeds N] [--out DIR] [SCENARIO ...]

With names it prints their rows and writes nothing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import evidence
import ours
import plots
import polars as pl
from figures import Recording, band, figures
from verdict import Row, compare, known, reason, reference

HERE = Path(__file__).parent
VALIDATION = HERE.parent / "docs" / "validation"
SEEDS = 10
"""Runs where chance enters; groups a and g have no jitter."""

GROUPS = {
    "a": "One flow, 1 Gb/s, 600 us, a queue of 467 packets (dctcp: marked from 20 packets on)",
    "b": "2 and 20 long flows of two hosts; two of them with segmentation and receive offload (tso)",
    "c": "20 KB responses in sequence on one connection beside two long flows",
    "d": "A second flow comes at 5 s and goes at 15 s",
    "e": "cubic without ECN (flow 1) and dctcp (flow 2, from 1 s) through a RED queue of 20 packets",
    "f": "Incast: N senders answer 16-byte requests at once, 10 rounds, a queue of 100 packets, 100 us",
    "g": "Single transfers on an idle path, 10 Gb/s, 240 us",
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
    "DCTCP: alpha, cuts, send buffer and pushes": (
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
"""Scenarios by the beginning of their names; one that two have belongs to the first."""
PICTURES = ("a_single_cubic.svg", "b.svg", "f.svg")


def main() -> None:
    """Runs and compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=VALIDATION)
    arguments = parser.parse_args()
    kernel = reference()
    runs: dict[str, list[Recording]] = {}
    rows: list[Row] = []
    for scenario in arguments.scenarios or kernel:
        sys.stderr.write(f"{scenario}\n")
        seeds = 1 if scenario[0] in "ag" else arguments.seeds
        runs[scenario] = [ours.record(scenario, seed) for seed in range(1, seeds + 1)]
        rows += compare(scenario, kernel[scenario], [figures(scenario, run) for run in runs[scenario]])
    if arguments.scenarios:
        sys.stdout.write("\n".join(table(rows)) + "\n")
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    pictures = draw(runs, arguments.out)
    (arguments.out / "linux.md").write_text(report(rows, pictures, arguments.seeds), encoding="utf-8")
    if arguments.out == VALIDATION:
        evidence.write(rows)


def draw(runs: dict[str, list[Recording]], out: Path) -> dict[str, list[str]]:
    """All plots; file names by group."""
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
    """Rows as Markdown."""
    text = [
        "| scenario | figure | Linux 6.1 | its own spread | pauseframe | seeds | band | |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        low, high = f"{row.low:.4g}", f"{row.high:.4g}"
        spread = "" if low == high else f"{low} … {high}"
        parts = "" if None in row.spread else "{:.4g} … {:.4g}".format(*row.spread)
        parts += f" ({1 + len(row.others)} runs)" if row.others else ""
        allowed = band(row.figure)
        width = f"{allowed.relative:.0%}" + (f" or {allowed.absolute:g}" if allowed.absolute else "")
        mark = row.standing if row.standing != "outside" else "**outside**"
        text.append(
            f"| {row.scenario} | {row.figure} | {row.kernel:.5g} | {parts} | {row.ours:.5g} | {spread} "
            f"| {width} | {mark} |"
        )
    return text


def report(rows: list[Row], pictures: dict[str, list[str]], seeds: int) -> str:
    """The page."""
    above, below = (HERE / "preface.md").read_text(encoding="utf-8").strip().split("<!-- summary -->\n")
    text = ["<!-- Written by `make calibrate`; do not edit. -->", above, *summary(rows, seeds), below, ""]
    reasons = known()
    for group, title in GROUPS.items():
        mine = [row for row in rows if row.scenario[0] == group]
        text += [f"## {group}: {title}", ""]
        text += [f"![{name}]({name})" for name in pictures[group]]
        text += ["", *table(mine), ""]
        text += explanations([row for row in mine if row.standing == "outside"], reasons)
        text.append("")
    return "\n".join(text).rstrip() + "\n"


def explanations(rows: list[Row], reasons: list[dict[str, Any]]) -> list[str]:
    """Why rows are outside, one line a reason."""
    told: dict[str, list[str]] = {}
    for row in rows:
        told.setdefault(reason(row, reasons) or "not explained yet", []).append(f"{row.scenario}: {row.figure}")
    return [f"- {why} (*{'; '.join(where)}*)" for why, where in told.items()]


def summary(rows: list[Row], seeds: int) -> list[str]:
    """What a reader wants to know first: how many rows lie where, by mechanism, and three pictures."""
    text = [
        shares(rows),
        "",
        "| mechanism | seen in | rows | inside | in range | outside | inside, reference run alone |",
        "|---|---|---|---|---|---|---|",
    ]
    rest = rows
    for name, prefixes in MECHANISMS.items():
        mine = [row for row in rest if row.scenario.startswith(prefixes)]
        rest = [row for row in rest if row not in mine]
        text.append(counted(name, ", ".join(prefixes), mine))
    text.append(counted("**all**", "", rows))
    note = f"Groups b to f are the median of {seeds} seeds. The kernel in orange, ours in blue:"
    return [*text, "", note, "", *(f"![{name}]({name})" for name in PICTURES), ""]


def counted(name: str, where: str, rows: list[Row]) -> str:
    """A line of the summary."""
    counts = [sum(row.standing == standing for row in rows) for standing in ("inside", "in range", "outside")]
    alone = sum(row.is_inside_reference for row in rows)
    share, share_alone = (f"{count} ({count / max(len(rows), 1):.0%})" for count in (counts[0], alone))
    return f"| {name} | {where} | {len(rows)} | {share} | {counts[1]} | {counts[2]} | {share_alone} |"


def shares(rows: list[Row]) -> str:
    """The sentence that says it all; single draws apart from the rest."""
    steady = [row for row in rows if not row.is_a_draw]
    inside = sum(row.standing == "inside" for row in rows)
    settled = sum(row.standing == "inside" for row in steady)
    spanned = sum(row.standing != "outside" for row in rows)
    alone = sum(row.is_inside_reference for row in rows)
    return (
        f"**{inside} of {len(rows)} figures ({inside / len(rows):.1%}) are inside the bands around all runs of the "
        f"kernel, {alone} ({alone / len(rows):.1%}) inside those around its reference run alone,** which is one draw "
        f"where chance enters. {spanned} ({spanned / len(rows):.1%}) are inside or in range. Of the {len(steady)} that "
        "are no single draw (a given round of an incast, who of several flows got more) "
        f"{settled} ({settled / len(steady):.1%}) are inside.\n\n"
        f"{beside_itself(rows)}"
    )


def beside_itself(rows: list[Row]) -> str:
    """What share of the rows two samples of the kernel would have inside, and ours of the same rows."""
    repeated = [(row, share) for row in rows if (share := row.kernel_inside_itself) is not None]
    ours = sum(row.standing == "inside" for row, _ in repeated)
    return (
        f"How far chance goes: {len(repeated)} of the figures were measured with other seeds of the kernel too. "
        "Its runs halved in every possible way, one half has, by the same rule, "
        f"{fmean(share for _, share in repeated):.1%} of them inside the bands around the other. Ours has "
        f"{ours / len(repeated):.1%} of them inside those around all of its runs."
    )


if __name__ == "__main__":
    main()
