"""Reads device files, runs the rules, and sorts their findings."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pauseframe.devices.read import Reading, read_fabric
from pauseframe.devices.sonic_models import RELEASES
from pauseframe.lint.finding import RULES, Finding, Rule, Severity
from pauseframe.terminal.text import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from pauseframe.devices.model import Place
    from pauseframe.lint.design import Design

_MODULES = (
    "schema",
    "names",
    "constraints",
    "release",
    "buffers",
    "lossless_queues",
    "pools",
    "maps",
    "notifications",
    "marking",
    "watchdog",
    "ends",
    "vlans",
    "wiring",
    "routes",
    "addresses",
    "sessions",
    "hosts",
    "channels",
    "pairs",
    "mux",
    "hashing",
    "tunnels",
    "likeness",
    "design",
)


@dataclass
class Report:
    """The findings, the rules that were run, and the files that were read."""

    reading: Reading
    rules: Sequence[Rule]
    findings: list[Finding] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        """The findings that are errors."""
        return [finding for finding in self.findings if finding.severity is Severity.error]


def rules() -> dict[str, Rule]:
    """All lint rules by code."""
    for module in _MODULES:
        importlib.import_module(f"pauseframe.lint.rules.{module}")
    return dict(sorted(RULES.items()))


def lint(
    paths: Sequence[Path],
    *,
    topology: Path | None = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    release: str | None = None,
    design: Design | None = None,
) -> Report:
    """Reads device files and runs the rules.

    `select` and `ignore` are codes of rules or beginnings of codes; the longer prefix decides, as in ruff. `release` is
    a SONiC release, as in `sonic_models.RELEASES`. `design` (`design.read_design`) is what the files must equal. Raises
    DeviceFileError for an unreadable file, ValueError for a code that matches no rule or an unknown release.
    """
    if release is not None and release not in RELEASES:
        raise ValueError(f"{release!r} is no SONiC release with known models: {', '.join(RELEASES)}")
    chosen = choose(rules(), list(select), list(ignore))
    reading = read_fabric(paths, topology=topology)
    reading.release = release
    reading.design = design
    return judge(reading, chosen)


def judge(reading: Reading, chosen: Sequence[Rule] | None = None) -> Report:
    """Runs rules on files that were read: all rules unless some are chosen."""
    report = Report(reading, list(rules().values()) if chosen is None else chosen)
    alike: dict[tuple[object, ...], list[Finding]] = {}
    # The names of devices that share one are this program's; files have the hostname.
    numbered = {switch.name: switch.hostname for switch in reading.fabric.switches.values() if "#" in switch.name}
    for rule in report.rules:
        for finding in rule.check(reading):
            if _kind(reading, finding) not in rule.devices:
                continue
            _in_own_words(reading, finding)
            finding.patch = tuple(
                replace(o, value=numbered.get(o.value or "", o.value))
                for o in finding.patch
                if (o.device or finding.place.device) in reading.databases
            )
            finding.code, finding.severity = rule.code, finding.severity or rule.severity
            alike.setdefault(_fault(finding), []).append(finding)
    report.findings = _without_repeats([first.joined(others) for first, *others in alike.values()])
    report.findings.sort(key=lambda f: (f.place.device, f.code, f.place.table, f.place.key, f.place.field))
    return report


LIKENESS = "PF090"
"""The rule about values that differ from all similar ones."""


def _without_repeats(findings: list[Finding]) -> list[Finding]:
    """The findings without those of PF090 at places about which another rule tells more."""
    known = {place for finding in findings if finding.code != LIKENESS for place in finding.places if place.field}
    return [f for f in findings if f.code != LIKENESS or not known.issuperset(f.places)]


_TABLE = re.compile(r"\b[A-Z]+_[A-Z_]+\b")
"""The name of a table of CONFIG_DB."""


def _in_own_words(reading: Reading, finding: Finding) -> None:
    """Puts the places of a finding into the words of the device's vendor; values for CONFIG_DB are no advice there."""

    def own(place: Place) -> Place:
        switch = reading.fabric.switches.get(place.device)
        return place if switch is None or switch.statements is None else switch.statements.own(place)

    places = [finding.place, *finding.also, *([] if finding.other is None else [finding.other])]
    finding.place = own(finding.place)
    finding.also = tuple(map(own, finding.also))
    finding.other = None if finding.other is None else own(finding.other)
    other = any(own(place) != place for place in places)
    if (finding.place != places[0] and finding.instead.startswith('"')) or (other and _TABLE.search(finding.instead)):
        finding.instead = ""


def _kind(reading: Reading, finding: Finding) -> str:
    """The kind of the device of a finding, as rules name it; a file that belongs to no device counts as SONiC's."""
    switch = reading.fabric.switches.get(finding.place.device)
    if switch is None:
        return "host" if finding.place.device in reading.fabric.hosts else "sonic"
    return "sonic" if switch.kind == "minigraph" else switch.kind


def _fault(finding: Finding) -> tuple[object, ...]:
    """What findings of one fault have in common."""
    place, other = finding.place, finding.other
    end = () if other is None else (other,)
    texts = finding.message, finding.instead, finding.source
    return finding.code, finding.severity, place.table, place.field, *end, *texts


def like_rules(code: str) -> str:
    """The end of a message about a code that no rule has: rules with a like name, and the command that lists all."""
    names = {rule.name: rule.code for rule in rules().values()}
    meant = [f"{names[name]} ({name})" for name in nearest(code, names)]
    return f"; did you mean {' or '.join(meant)}?" if meant else "; pauseframe lint --rules lists all of them"


def choose(known: dict[str, Rule], select: list[str], ignore: list[str]) -> list[Rule]:
    """The rules that are selected and not ignored."""
    for code in (*select, *ignore):
        if code != "ALL" and not any(name.startswith(code) for name in known):
            raise ValueError(f"no rule begins with {code!r}{like_rules(code)}")

    def longest(code: str, prefixes: list[str]) -> int:
        return max((len(p) if p != "ALL" else 0 for p in prefixes if p == "ALL" or code.startswith(p)), default=-1)

    def wanted(code: str) -> bool:
        return longest(code, select or ["ALL"]) >= 0 and longest(code, select or ["ALL"]) > longest(code, ignore)

    return [rule for code, rule in known.items() if wanted(code)]
