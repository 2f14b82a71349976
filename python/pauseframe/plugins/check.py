"""`pauseframe cc check` tests the contract of congestion controls, and compares them with built-in ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pauseframe as pf
from pauseframe import _core
from pauseframe._core import InputError, RunError
from pauseframe.plugins.errors import heard, with_cause
from pauseframe.plugins.load import interpreted_twin, load
from pauseframe.report.build import Check
from pauseframe.run import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

STANDARD = Path(__file__).parent / "standard"
SCENARIOS = ("one_flow", "two_flows", "incast_lossy", "incast_lossless", "web_search")
"""The standard scenarios, in the order of the report."""
LONG = ("web_search",)
"""Scenarios that take the interpreter too long."""
RIVALS: dict[str, dict[str, Any]] = {"cubic": {"transport.preset": "cubic"}, "dctcp": {"transport.preset": "dctcp"}}
RATE_SCENARIOS = ("roce_one_flow", "roce_two_flows", "roce_incast")
"""The standard scenarios for controls of queue pairs."""
RATE_RIVALS: dict[str, dict[str, Any]] = {"dcqcn": {}, "swift": {"transport.rdma_control": "swift"}}


@dataclass(frozen=True)
class Checked:
    """The result of checking congestion controls."""

    rules: list[Check]
    runs: dict[str, dict[str, pf.Run]]
    """Runs by scenario and congestion control."""
    report: Path | None

    @property
    def kept(self) -> bool:
        """True if the plug-in keeps the contract."""
        return all(result.broken is None for result in self.rules)


def check(
    plugins: Sequence[str | Path | type],
    *,
    out: str | Path | None = None,
    contract_only: bool = False,
    set: Mapping[str, Any] | None = None,
    tell: Callable[[str], None] | None = None,
    show_rules: Callable[[list[Check]], None] | None = None,
) -> Checked:
    """Checks every congestion control of `plugins`.

    `out` is the report's file, `set` changes keys of the scenarios for the plug-ins (not for CUBIC and DCTCP), `tell`
    is called with progress messages, and `show_rules` with the contract before anything is simulated, and with the
    comparison with the interpreter at the end. Raises InputError if a file is not a plug-in, ScenarioError for a
    mistake in `set`, RunError if a run failed.
    """
    say = tell or (lambda _: None)
    names = [name for file in load(plugins) for name in file.names]
    if not names:
        raise InputError("name a plug-in to check")
    of_pairs = [name for name in names if _core.is_rate_control(name)]
    if of_pairs and len(of_pairs) < len(names):
        raise InputError("check controls of TCP and of queue pairs in two commands: their scenarios differ")
    contenders = _rate_contenders(names, set or {}) if of_pairs else _contenders(names, set or {})
    for settings in contenders.values():
        resolve(STANDARD / f"{(RATE_SCENARIOS if of_pairs else SCENARIOS)[0]}.toml", set=settings)
    rules = [rule for name in names for rule in _contract(name)]
    if show_rules is not None:
        show_rules(rules)
    if contract_only:
        return Checked(rules, {}, None)
    runs: dict[str, dict[str, pf.Run]] = {}
    for scenario in RATE_SCENARIOS if of_pairs else SCENARIOS:
        runs[scenario] = {}
        for label, settings in contenders.items():
            say(f"{scenario.replace('_', ' ')}: {label}")
            runs[scenario][label] = pf.run(STANDARD / f"{scenario}.toml", set=settings, progress=False)
    compared = [one for name in names for one in _beside_interpreter(name, runs, set or {}, say)]
    if show_rules is not None:
        show_rules(compared)
    rules += compared
    report = None if out is None else _write_report(names, rules, runs, Path(out))
    return Checked(rules, runs, report)


def _contract(name: str) -> list[Check]:
    """The rules of the contract, with the exception of a function that raised one."""
    with heard() as raised:
        rules = [Check(name, *rest) for rest in _core.congestion_control_contract(name)]
        if not raised:
            return rules
        cause = raised[0]
    if isinstance(cause, KeyboardInterrupt):
        raise cause
    return [one if one.broken is None else replace(one, broken=with_cause(one.broken, cause)) for one in rules]


def _beside_interpreter(
    name: str, runs: Mapping[str, Mapping[str, pf.Run]], changes: Mapping[str, Any], say: Callable[[str], None]
) -> list[Check]:
    """The rule that a compiled algorithm gives what it gives in the interpreter, where integers do not wrap."""
    twin = interpreted_twin(name)
    if twin is None:
        return []
    old, new = (f"transport.{one.partition(':')[2]}_" for one in (name, twin))
    own = {new + key.removeprefix(old) if key.startswith(old) else key: value for key, value in changes.items()}
    settings = (_rate_contenders if _core.is_rate_control(name) else _contenders)([twin], own)[twin]
    broken = None
    for scenario in (one for one in runs if one not in LONG):
        say(f"{scenario.replace('_', ' ')}: {name} in the interpreter")
        try:
            run = pf.run(STANDARD / f"{scenario}.toml", set=settings, progress=False)
        except RunError as error:
            broken = str(error)
        else:
            if run.summary["fingerprint"] != runs[scenario][name].summary["fingerprint"]:
                broken = f"{scenario.replace('_', ' ')}: it gives others; most often a product of integers passes 2^63"
        if broken is not None:
            broken += "; make a factor a float (8.0 * bytes)"
            break
    return [Check(name, "interpreter", "The interpreter, whose integers have no end, gives the same results", broken)]


def _contenders(names: Sequence[str], changes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each congestion control with its settings; a plug-in that needs the exact ECN echo gets DCTCP's settings."""
    own: dict[str, dict[str, Any]] = {}
    for name in names:
        preset = "dctcp" if _needs_exact_ecn(name) else "cubic"
        own[name] = {"transport.preset": preset, "transport.congestion_control": name, **changes}
    return own | RIVALS


def _rate_contenders(names: Sequence[str], changes: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Each control of queue pairs with its settings, and the built-in ones."""
    return {name: {"transport.rdma_control": name, **changes} for name in names} | RATE_RIVALS


def _needs_exact_ecn(name: str) -> bool:
    """True if the core warns that a scenario of the plug-in lacks the exact ECN echo."""
    resolved = resolve(STANDARD / "one_flow.toml", set={"transport.congestion_control": name})
    return any("needs the exact echo of CE" in warning for warning in resolved.warnings)


def _write_report(names: Sequence[str], rules: Sequence[Check], runs: dict[str, dict[str, pf.Run]], out: Path) -> Path:
    from pauseframe.report import Group, answers, build_report, from_run

    groups = [
        Group(
            title=scenario.replace("_", " ").capitalize(),
            runs=[replace(from_run(run), label=label) for label, run in of_control.items()],
            text=_about(scenario),
        )
        for scenario, of_control in runs.items()
    ]
    out.parent.mkdir(parents=True, exist_ok=True)
    rivals = "DCQCN and Swift" if _core.is_rate_control(names[0]) else "CUBIC and DCTCP"
    answer = answers.of_scenarios(_kept(names, rules), {group.title: group.runs for group in groups})
    return build_report(groups, out, title=f"{', '.join(names)} beside {rivals}", checks=rules, answer=answer)


def _kept(names: Sequence[str], rules: Sequence[Check]) -> str:
    """The verdict on the contract as a sentence."""
    broken = [f"{one.subject} breaks rule {one.rule}" for one in rules if one.broken is not None]
    if broken:
        return f"{'; '.join(broken)}."
    if len(names) == 1:
        return f"{names[0]} keeps all {len(rules)} rules of the contract."
    return f"{' and '.join(names)} keep all rules of the contract."


def _about(scenario: str) -> str:
    """The comment at the head of a scenario file."""
    lines = (STANDARD / f"{scenario}.toml").read_text(encoding="utf-8").splitlines()
    head = []
    for line in lines:
        if not line.startswith("#"):
            break
        head.append(line.lstrip("# "))
    return " ".join(head)


def key_figures(run: pf.Run) -> dict[str, str]:
    """The figures of a run that the terminal shows."""
    from pauseframe.results.percentiles import SHARES, marked
    from pauseframe.terminal.text import format_count, format_us, unfinished_flows

    summary = run.summary
    percentiles = summary["fct_us"]
    finished = summary["flows_finished"]
    left = unfinished_flows(summary)
    return {
        "unfinished": f"{format_count(left)} of {format_count(finished + left)}" if left else "0",
        "p50 FCT": marked(format_us(percentiles["p50"]), finished, SHARES["p50"]),
        "p99 FCT": marked(format_us(percentiles["p99"]), finished, SHARES["p99"]),
        "goodput": _goodput(run),
        "largest queue": _largest_queue(run),
        "drops": format_count(summary["drops"]),
        "marks": format_count(summary["ecn_marks"]),
        "pauses": format_count(summary["pfc_pauses"]),
        "timeouts": format_count(summary["timeouts"]),
    }


def _goodput(run: pf.Run) -> str:
    """Application bytes that arrived, divided by the duration of the run."""
    import polars as pl

    from pauseframe.terminal.text import format_rate

    table = pl.DataFrame(run.flows)
    received = int(table["delivered_bytes"].sum())
    seconds = run.summary["sim_time_s"]
    return format_rate(received * 8 / seconds) if seconds else ""


def _largest_queue(run: pf.Run) -> str:
    import polars as pl

    from pauseframe.terminal.text import format_bytes

    table = pl.DataFrame(run.ports).filter(pl.col("tier").cast(pl.String) != "host")
    return format_bytes(int(table["backlog_max_bytes"].cast(pl.Int64).sort().to_list()[-1])) if len(table) else ""
