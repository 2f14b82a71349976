"""Formats numbers and tables for people, on a terminal, in a notebook and in reports.

One way everywhere, that of the docs: 4,441 (commas), 225 KB and 1 MiB (1 KB is 1000 B), 9.41 Gb/s, 240 us. Values that
a scenario file takes have the form of that file instead: "10 Gbps". Pages do the same in figures.js and charts.js.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Column, Table

    from pauseframe import _core
    from pauseframe.results import Run
    from pauseframe.types import CompletionTimes, FlowSummary, HeadroomRow, Slowdowns, Summary

MISSING = "–"
CELL_GAP = 2
"""Columns of a terminal between two cells of a table."""


def printable(text: str, breaks: str = "\n\t") -> str:
    r"""`text` with control, invisible and reordering characters escaped, except the characters in `breaks`.

    >>> printable("a\x1b[2Jb\u202e")
    'a\\x1b[2Jb\\u202e'
    """
    if text.isprintable():
        return text
    from unicodedata import category

    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    escaped = (
        c.encode("unicode_escape").decode("ascii") if category(c) in hidden and c not in breaks else c for c in text
    )
    return "".join(escaped)


def nearest(wrong: str, known: Iterable[str], count: int = 3) -> list[str]:
    """The names that a user may have meant: names that contain the wrong name, else the most similar names.

    >>> nearest("tcp-bolt", ["dctcp", "tcp_bolt", "tcp_dcb"], 1), nearest("p99", ["fct_us.p50", "fct_us.p99"])
    (['tcp_bolt'], ['fct_us.p99'])
    """
    from difflib import get_close_matches

    names, low = list(known), wrong.lower()
    if inside := [name for name in dict.fromkeys(names) if low and low in name.lower()]:
        return inside[:count]
    parts = dict.fromkeys(part for name in names for part in (name, name.rpartition(".")[2]))
    meant = get_close_matches(wrong, parts, count)
    found = (name for part in meant for name in names if part in (name, name.rpartition(".")[2]))
    return list(dict.fromkeys(found))[:count]


def none_of(wrong: str, known: Iterable[str]) -> str:
    """The message about an unknown name, with the names that the user may have meant; before a list that is long.

    >>> none_of("bolt", ["dctcp", "tcp_bolt"])
    "'bolt' is not one of dctcp, tcp_bolt; did you mean tcp_bolt?"
    """
    from pauseframe._core import term_hint

    names = list(known)
    term = term_hint(wrong, names)
    meant = [] if term else nearest(wrong, names)
    hint = f"; did you mean {' or '.join(meant)}?" if meant else f"; {term}" if term else ""
    if hint and len(names) > LONG_LIST:
        return f"{wrong!r} is not one of {len(names)} names{hint} They are {', '.join(names)}"
    return f"{wrong!r} is not one of {', '.join(names)}{hint}"


LONG_LIST = 20
"""Number of names up to which a hint after them is still seen."""


def is_number(text: str) -> bool:
    """True if a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def format_number(value: float | None, digits: int = 3) -> str:
    """A number with three significant digits, no exponent, and commas between thousands.

    >>> format_number(0.012345), format_number(12.345), format_number(4441.2)
    ('0.0123', '12.3', '4,441')
    """
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    if abs(value) >= 10**digits:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return text if "e" not in text else f"{value:.1e}"


def format_times(ratio: float) -> str:
    """A ratio with two digits, below 2 with the hundredths.

    >>> format_times(1.042), format_times(0.956), format_times(18.62), format_times(1.5)
    ('1.04', '0.96', '19', '1.5')
    """
    return format_number(ratio, 3 if 1 <= ratio < 2 else 2)


UNSEEN = "≈ 0 %"
"""A change below 0.05 %, which values with three digits cannot show."""


def format_change(ratio: float) -> str:
    """The change from a first value, given the ratio to it.

    >>> format_change(1.123), format_change(0.99999664), format_change(1.0)
    ('+12.3 %', '≈ 0 %', '0 %')
    """
    if ratio == 1:
        return "0 %"
    return UNSEEN if abs(ratio - 1) < 0.0005 else f"{(ratio - 1) * 100:+.3g} %"


def format_scaled(value: float | None, units: Iterable[tuple[float, str]]) -> str:
    """`value` in the largest unit in which it is at least one; `units` descend in size."""
    if value is None:
        return MISSING
    if value == 0:
        return f"0 {list(units)[-1][1]}".rstrip()
    table = list(units)
    scale, unit = next((row for row in table if abs(value) >= row[0] * 0.9995), table[-1])
    return f"{format_number(value / scale)} {unit}".rstrip()


def format_duration(seconds: float | None) -> str:
    """A duration in a suitable unit: '240 us', '1.24 ms', '3 min'.

    >>> format_duration(0.00024), format_duration(90.0)
    ('240 us', '1.5 min')
    """
    units = ((3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
    return format_scaled(seconds, units)


def format_us(microseconds: float | None) -> str:
    """A duration given in microseconds, in units of at most seconds."""
    return format_scaled(microseconds, ((1e6, "s"), (1e3, "ms"), (1.0, "us"), (1e-3, "ns")))


def format_bytes(count: float | None) -> str:
    """A size in bytes, such as '225 KB'; 1 KB is 1000 B.

    >>> format_bytes(225_000)
    '225 KB'
    """
    return format_scaled(count, ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")))


def format_count(count: float | None) -> str:
    """A count, written in full below a million.

    >>> format_count(512), format_count(16_789), format_count(8_100_000)
    ('512', '16,789', '8.1 M')
    """
    if count is None or abs(count) < 1e6:
        return format_number(count)
    return format_scaled(count, ((1e9, "G"), (1e6, "M")))


def plural(noun: str, count: int = 2) -> str:
    """A noun in the form that follows `count`; of "cycle of queues" the first word changes.

    >>> plural("query"), plural("switch", 0), plural("flow", 1), plural("pause frame"), plural("cycle of queues")
    ('queries', 'switches', 'flow', 'pause frames', 'cycles of queues')
    """
    if count == 1:
        return noun
    head, of, rest = noun.partition(" of ")
    many = (
        f"{head[:-1]}ies" if head.endswith("y") else f"{head}{'es' if head.endswith(('s', 'x', 'ch', 'sh')) else 's'}"
    )
    return f"{many}{of}{rest}"


def counted(count: int, noun: str) -> str:
    """A count with its noun.

    >>> counted(1, "fault"), counted(4441, "switch")
    ('1 fault', '4,441 switches')
    """
    return f"{format_count(count)} {plural(noun, count)}"


def format_rate(bits_per_second: float | None) -> str:
    """A rate such as '9.41 Gb/s'."""
    return format_scaled(bits_per_second, ((1e12, "Tb/s"), (1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "Kb/s"), (1.0, "b/s")))


def summary_rows(summary: Summary, completed: int | None = None) -> list[tuple[str, str]]:
    """The lines of a run's summary about what happened in the network.

    `completed` is the number of flows with a completion time, if some finished flows have none (applications keep their
    connections open).
    """
    fct, queries = summary["fct_us"], summary["query_fct_us"]
    count = summary["flows_finished"] if completed is None else completed
    left, long, stopped = unfinished_flows(summary), summary.get("flows_long", 0), summary.get("flows_stopped", 0)
    rows = []
    if left or summary["flows_finished"] or not (long or stopped):
        rows.append(("flows finished", _of(summary["flows_finished"], summary["flows_finished"] + left)))
        # Connections of applications stay open and have no completion time; the table of jobs shows their times.
        if fct["mean"] is not None:
            some = count < summary["flows_finished"]
            rows += completion_rows(fct, summary["slowdown"], count, left, some_only=some)
    rows += without_completion(summary)
    if summary["queries_total"]:
        done, left = summary["queries_finished"], summary["queries_total"] - summary["queries_finished"]
        rows += [
            ("queries finished", _of(done, summary["queries_total"])),
            (TIMES_HEADING, _times_text(queries, done, left)),
        ]
    if summary["datagrams_sent"]:
        rows.append(("datagrams lost", _of(summary["datagrams_lost"], summary["datagrams_sent"])))
    by_reason: Mapping[str, Any] = summary["drops_by_reason"]
    reasons = ", ".join(f"{name} {format_count(number)}" for name, number in by_reason.items() if number)
    return [
        *rows,
        ("drops", f"{format_count(summary['drops'])}{f' ({reasons})' if reasons else ''}"),
        *([("packets trimmed", format_count(trims))] if (trims := summary.get("trims", 0)) else []),
        ("timeouts", format_count(summary["timeouts"])),
        ("retransmits", format_count(summary["retransmits"])),
        ("packets marked CE", format_count(summary["ecn_marks"])),
        ("pause frames", format_count(summary["pfc_pauses"])),
        *_rare_rows(summary),
        ("fullest switch held", _fullest(summary)),
        *_remembered_rows(summary),
    ]


def _remembered_rows(summary: Summary) -> list[tuple[str, str]]:
    """Lines about steps that were replayed, or compared with what a replay would have given."""
    remembered = summary.get("remembered")
    if remembered is None:
        return []
    share, difference = remembered["replayed_share"], remembered["largest_difference"]
    title = "steps to replay" if remembered["only_checked"] else "steps replayed"
    rows = [
        (title, f"{_of(remembered['replayed'], remembered['steps'])}, within {remembered['bound']:.3g}"),
        ("  rounds left out inside steps", format_count(remembered["rounds"])),
        ("  share of packet hops", f"{share:.1%}"),
        ("  steps and rounds compared", format_count(remembered["compared"])),
    ]
    if remembered["compared"]:
        worst = "other reports" if difference is None else f"{difference:.3g} of a step's length"
        rows += [
            ("  largest difference", worst),
            ("  beyond the bound", format_count(remembered["beyond_bound"])),
        ]
    return rows


def unfinished_flows(summary: Summary | FlowSummary) -> int:
    """The number of flows that have not finished, of those that can.

    Long flows have no size and never finish. UDP flows with a size stop once their last datagram arrived or is lost.
    """
    others = summary.get("flows_long", 0) + summary.get("flows_stopped", 0)
    return summary["flows_total"] - summary["flows_finished"] - others


def without_completion(summary: Summary | FlowSummary) -> list[tuple[str, str]]:
    """Lines about flows that never have a completion time."""
    counts = {"long flows": summary.get("flows_long", 0), "UDP flows ended": summary.get("flows_stopped", 0)}
    return [(name, format_count(count)) for name, count in counts.items() if count]


def _rare_rows(summary: Summary) -> list[tuple[str, str]]:
    """Lines about what few runs have."""
    counts = {
        "flows failed": summary["flows_failed"],
        "queues with a watchdog's storm": summary["watchdog_storms"],
        "deadlocks": summary["deadlocks"],
        "QCN messages": summary["cnms"],
    }
    return [(name, format_count(count)) for name, count in counts.items() if count]


def simulator_rows(summary: Summary) -> list[tuple[str, str]]:
    """The lines of a run's summary about the simulator."""
    return [
        ("host's NIC queue", summary.get("nic_queue", MISSING).replace("_", " ")),
        ("simulated time", format_duration(summary["sim_time_s"])),
        ("wall time", format_duration(summary["wall_s"])),
        ("events", format_count(summary["events"])),
        ("speed", f"{format_count(summary['packet_hops_per_s'])} packet hops/s"),
        ("memory, peak", format_bytes(summary["peak_rss_bytes"])),
        ("fingerprint", summary["fingerprint"]),
    ]


def _of(part: int, whole: int) -> str:
    return f"{format_count(part)} of {format_count(whole)}"


def completion_rows(
    fct: CompletionTimes, slowdown: Slowdowns, count: int, unfinished: int, *, some_only: bool = False
) -> list[tuple[str, str]]:
    """Completion times and slowdowns of `count` flows, with the number of unfinished flows.

    `some_only` names the number of flows, because others finished without a completion time.
    """
    ratios = {key: format_number(slowdown[key]) for key in ("p50", "p99")}
    return [
        (f"FCT of {counted(count, 'flow')}, mean" if some_only else "FCT, mean", format_us(fct["mean"])),
        (TIMES_HEADING, _times_text(fct, count, unfinished)),
        ("slowdown, p50 / p99", percentiles_text(ratios, count, unfinished)),
    ]


TIMES_HEADING = "  p50 / p99 / p99.9 / slowest"


def _times_text(times: CompletionTimes, count: int, unfinished: int) -> str:
    shown = {"p50": times["p50"], "p99": times["p99"], "p999": times["p999"], "max": times.get("max")}
    return percentiles_text({key: format_us(us) for key, us in shown.items()}, count, unfinished)


def percentiles_text(texts: Mapping[str, str], samples: int, unfinished: int) -> str:
    """Percentiles on one line, with a mark where samples are too few, and with the number of unfinished flows.

    A maximum is no percentile and has no mark.

    >>> percentiles_text({"p50": "592 us", "p99": "6.3 ms", "max": "9 ms"}, 216, 3)
    '592 us / 6.3 ms ? / 9 ms (3 unfinished)'
    """
    from pauseframe.results.percentiles import SHARES, marked

    parts = (marked(text, samples, SHARES[name]) if name in SHARES else text for name, text in texts.items())
    line = " / ".join(parts)
    return f"{line} ({format_count(unfinished)} unfinished)" if unfinished else line


def _fullest(summary: Summary) -> str:
    held = format_bytes(summary.get("switch_held_max_bytes"))
    switch = summary.get("fullest_switch")
    return f"{held} ({switch})" if switch and summary["switch_held_max_bytes"] else held


def buffers(scenario_toml: str) -> tuple[bool, str]:
    r"""True if any transport of a resolved scenario is lossless, and a text about the buffer of its switches.

    >>> buffers('[switch.buffer]\npolicy = "per_port"\nsize = "225 KB"\n\n[transport]\nlossless = true')
    (True, 'per_port of 225 KB')
    """
    lossless = "\nlossless = true" in scenario_toml
    _, _, table = scenario_toml.partition("[switch.buffer]\n")
    keys = dict(line.split(" = ", 1) for line in table.partition("\n\n")[0].splitlines() if " = " in line)
    policy, size = (keys.get(key, "").strip('"') for key in ("policy", "size"))
    return lossless, f"{policy} of {size}"


def shows_colours() -> bool:
    """True if standard output is a terminal whose user wants colours (NO_COLOR)."""
    console = wide_console()
    return console.is_terminal and not console.no_color


def wide_console() -> Console:
    """A console as wide as the terminal; for a pipe or a file, wide enough that no table is cut to 80 columns."""
    console = plain_console()
    return console if console.is_terminal else plain_console(width=240)


def plain_console(**options: Any) -> Console:
    """A console that prints texts as they are, without rich's markup and pictures."""
    from rich.console import Console

    return Console(markup=False, emoji=False, **options)


def print_table(table: Table) -> None:
    """Prints a table, as several below one another if its numbers would break in the terminal's width."""
    console = wide_console()
    parts = in_width(table, console)
    for number, part in enumerate(parts):
        if number:
            console.print()
        console.print(part)


def in_width(table: Table, console: Console) -> list[Table]:
    """Tables of as many columns of numbers as fit, each with the columns of text that stand before them.

    First intervals and remarks go below their numbers. A difference (Δ) stays beside what it is of. Long text wraps.
    """
    labels = list(takewhile(lambda column: column.justify != "right", table.columns))
    numbers = table.columns[len(labels) :]
    width = partial(_least_width, console=console)
    if not numbers or sum(map(width, table.columns)) <= console.width:
        return [table]
    numbers = [replace(column, _cells=[_in_lines(cell) for cell in column.cells]) for column in numbers]
    groups: list[list[Column]] = []
    for column in numbers:
        if groups and str(column.header).startswith("Δ"):
            groups[-1].append(column)
        else:
            groups.append([column])
    room = console.width - sum(map(width, labels))
    parts: list[list[Column]] = [[]]
    for group in groups:
        if parts[-1] and sum(map(width, [*parts[-1], *group])) > room:
            parts.append([])
        parts[-1] += group
    return [_with_columns(table, [*labels, *part], has_title=number == 0) for number, part in enumerate(parts)]


def _least_width(column: Column, console: Console) -> int:
    """The width, with the gap to the next column, in which no number breaks; text of a third of the line may."""
    from rich.measure import Measurement

    wide = console.options.update(width=10_000)
    cells = [Measurement.get(console, wide, cell) for cell in column.cells]
    is_whole = column.justify == "right" or column.no_wrap
    widths = [cell.maximum if is_whole or cell.maximum <= console.width // 3 else cell.minimum for cell in cells]
    return max([*widths, Measurement.get(console, wide, column.header).minimum]) + CELL_GAP


def _in_lines(cell: Any) -> Any:
    from pauseframe.terminal.tables import as_text

    return as_text(str(cell).replace(" [", "\n[").replace(" (", "\n("))


def _with_columns(table: Table, columns: list[Column], has_title: bool) -> Table:
    part = copy(table)
    part.columns = [replace(column, _index=index) for index, column in enumerate(columns)]
    part.title = table.title if has_title else None
    return part


def two_columns(rows: Iterable[tuple[str, str]], title: str) -> str:
    """Formats names and numbers as lines of text without importing rich.

    >>> print(two_columns([("drops", "0"), ("wall time", "1.2 ms")], "incast, seed 1"))
    incast, seed 1
    drops           0
    wall time  1.2 ms
    """
    from pauseframe.results.percentiles import explanation

    pairs = list(rows)
    left = max(len(name) for name, _ in pairs)
    right = max(len(value) for _, value in pairs)
    note = explanation(value for _, value in pairs)
    return "\n".join([title, *(f"{name:{left}}  {value:>{right}}" for name, value in pairs), *([note] if note else [])])


def terminal_table(
    *columns: str | dict[str, Any],
    title: str | None = None,
    show_header: bool = True,
    rows: Iterable[Sequence[Any]] = (),
) -> Table:
    """A table in the common style; a column is a heading or a dict of `add_column` options."""
    from pauseframe.terminal.tables import PlainTable

    table = PlainTable(title, title_justify="left", show_header=show_header, box=None, pad_edge=False)
    for column in columns:
        table.add_column(**({"header": column} if isinstance(column, str) else column))
    for row in rows:
        table.add_row(*row)
    return table


ACTIVITIES = ("compute", "waiting", "sending")
"""What ranks do while their job lasts; a rank that has ended does none of them."""
OF_JOB = "shares of the job's time, mean of its ranks"
"""What the shares of activities refer to, as notes say it."""


def activity_shares(job: Mapping[str, Any], end_us: float) -> list[str]:
    """The share of each of `ACTIVITIES` in the time of a job, of its ranks' mean; `end_us` ends an unfinished job."""
    whole = end_us - job["start_us"] if job["time_us"] is None else job["time_us"]
    return [f"{job[f'{name}_us'] / whole:.0%}" if whole > 0 else MISSING for name in ACTIVITIES]


def jobs_table(run: Run) -> Table:
    """The terminal table of a run's applications, with run times and reference times."""
    numbers = ("ranks", "took", "× ideal", "× alone", *ACTIVITIES)
    table = terminal_table("job", *({"header": name, "justify": "right"} for name in numbers), title="applications")
    for job in run.jobs:
        table.add_row(
            job["job"],
            format_count(job["ranks"]),
            format_us(job["time_us"]) if job["time_us"] is not None else "not finished",
            format_number(job["slowdown"]),
            format_number(job["interference"]),
            *activity_shares(job, run.summary["sim_time_s"] * 1e6),
        )
    return table


def explain_table(resolved: _core.Resolved) -> Table:
    """A table of every key with its value and origin."""
    table = terminal_table(
        {"header": "key", "overflow": "fold"},
        {"header": "value", "overflow": "fold"},
        {"header": "origin", "style": "dim", "overflow": "fold"},
        title=f"{resolved.name}, seed {resolved.seed}",
    )
    for path, value, origin in resolved.explain():
        table.add_row(path, value, origin, style="bold" if origin in ("file", "--set") else None)
    return table


def headroom_table(rows: list[HeadroomRow]) -> Table:
    """A table of the headroom of each kind of link, term by term."""
    title = "headroom: data that still arrives after XOFF (IEEE 802.1Qbb Annex O), in bytes and nanoseconds"
    table = terminal_table({"header": "of ports like", "no_wrap": True}, title=title)
    names = {
        "ports": "ports",
        "priority": "priority",
        "frame_ahead_ns": "frame ahead",
        "pause_frames_ns": "pause frames",
        "delay_back_ns": "delay back",
        "reaction_ns": "reaction",
        "last_frame_ns": "last frame",
        "delay_ns": "delay",
        "pipeline_ns": "pipeline",
        "jitter_back_ns": "jitter back",
        "jitter_ns": "jitter",
        "arriving_bytes": "= arriving B",
        "crossing_bytes": "+ crossing B",
        "needed_bytes": "= needed B",
        "given_bytes": "given B",
        "xoff_bytes": "XOFF B",
        "xon_bytes": "XON B",
    }
    if any(row["pool_bytes"] for row in rows):
        names |= {"pool_bytes": "pool B", "pool_suffices_for": "suffices for"}
    for name in names.values():
        table.add_column(name, justify="right")
    for row in rows:
        short = row["given_bytes"] < row["needed_bytes"]
        values: Mapping[str, object] = row
        cells = [f"{values[key]:.10g}" for key in names]
        table.add_row(row["port"], *cells, style="bold" if short else None)
    return table
