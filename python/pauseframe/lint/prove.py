"""`--prove`: simulates the fabric with a finding and without it, and shows what the finding costs.

The scenario is that of `import fabric`, cut to the device of the finding with its neighbours as hosts, so that values
that the simulator holds once for all switches are those of this device, and of the port of the finding. Findings about
a link or a port channel are simulated in the whole fabric.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, TypedDict

from pauseframe.devices.files import shown
from pauseframe.files.atomic import write_text
from pauseframe.imports.fabric import scenario as scenarios
from pauseframe.imports.fabric import switches
from pauseframe.imports.fabric.scope import scope_of
from pauseframe.imports.fabric.through import through
from pauseframe.imports.fabric.traffic import lossless_code_points
from pauseframe.lint.circle import TABLES
from pauseframe.lint.cost import Measure, measures
from pauseframe.lint.mend import mended
from pauseframe.lint.place import ends_of
from pauseframe.terminal.text import counted, unfinished_flows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pauseframe.devices.model import End
    from pauseframe.devices.read import Reading
    from pauseframe.imports.fabric.scenario import ImportedFabric
    from pauseframe.imports.fabric.through import Kind
    from pauseframe.imports.fabric.traffic import CodePoint
    from pauseframe.lint.engine import Report
    from pauseframe.lint.finding import Finding

LINKS = ("PF050", "PF055", "PF056", "PF059", "PF080", "PF081", "PF082")
HASHES = ("PF087", "PF088")
WHOLE = LINKS + HASHES
"""Findings that are simulated in the whole fabric."""
MIXED = ("PF025", "PF026", "PF027")
CONTROLLED = ("PF030", "PF031", "PF033", "PF034")
STORMS = ("PF040", "PF041", "PF042")
TCP = ("PF035", "PF070", "PF071")
MOST = 40
"""Maximum number of findings that are simulated."""
TRIES = 8
"""Maximum number of pairs of runs of a finding."""
NAMED: dict[str, tuple[str, ...]] = {
    "PF01": ("packets lost",),
    "PF02": ("packets lost", "pauses", "ECN marks", "slowest flow"),
    "PF03": ("ECN marks", "pauses", "packets lost"),
    "PF05": ("packets lost", "links down"),
    "PF08": ("links down",),
    "PF087": ("busiest link",),
    "PF088": ("busiest link",),
    "PF04": ("storms",),
    "": ("packets lost", "pauses", "flows finished", "slowest flow"),
}
"""The quantities that findings name, by their codes or the first letters: the search for a difference ends at one."""
EQUAL_TEXT = "the scenarios with and without it are equal: {}"
NO_KEY = EQUAL_TEXT.format("the simulator has no key for this value, or it changes nothing")
EQUAL = {
    "PF013": "the profile of the patch has as much headroom in bytes, and the simulator takes nothing else from it",
    "PF015": "the simulator drops at ingress alone: egress pools have no memory in it",
    "PF017": "no lossless traffic uses the group, so that nothing fills its headroom",
    "PF018": "the simulator trims by class, not by buffer profile",
    "PF023": "the simulator has a group for each priority, and no class gets into that of another",
    "PF024": "the simulator has one map of queues for all switches, that of most ports",
    "PF053": "mended, this code point is lossy everywhere, and the load has no lossless packets of it",
    "PF054": "profiles fix the headroom in bytes, and the delay is that of the longer end; a length counts where the "
    "switch computes headroom from it",
    "PF055": "a file moves no cable: both scenarios are wired as most files say",
    "PF056": "one end has the default of its platform, which no file gives",
}
"""Why the scenarios with and without a finding can be equal, by code."""
HIDDEN = "no fewer packets are lost with the patch: other findings at this place hide its effect, mend them first"
NOTHING = "no difference measured: this load loses, pauses and marks the same packets with and without it"
UNUSED = "no difference measured: as files tell, no host sends into queue {}"
LOSSES = ("packets lost", "bytes lost", "sent again", "timeouts", "datagrams lost", "deadlocks")
WAITS = ("longest paused", "slowest flow", "TCP waits")
PRICES = {
    "PF01": "what was lost has to wait now",
    "PF05": "what was lost has to wait now",
    "PF03": "marks make senders slower before a queue is full, and those that learn late take longer",
    "PF04": "a watchdog drops what waits for a port in a storm, and what still comes, so that all others go on",
}
"""What a patch costs, by the first letters of the code."""
AS_IS, MENDED = "as-is.toml", "mended.toml"
PROOFS = "proofs.json"
"""The file with the numbers of all proofs."""


@dataclass
class Proof:
    """The result of simulating a finding: what differs between the two runs, or why nothing does."""

    code: str
    place: str
    change: str
    """What the mended side changes."""
    why: str = ""
    """The reason if nothing was run or nothing differs."""
    folder: Path | None = None
    rows: list[tuple[Measure, Measure]] = field(default_factory=list)
    """Measures that differ: as it is, mended."""

    @property
    def price(self) -> str:
        """What is worse with the patch, and why; "" if nothing is."""
        worse = [here.name for here, there in self.rows if here.name in LOSSES + WAITS and there.value > here.value]
        worse += [here.name for here, there in self.rows if here.name == "flows finished" and there.value < here.value]
        if not worse or self.why:
            return ""
        why = PRICES.get(self.code[:4])
        return f"worse with the patch: {', '.join(worse)}" + (f": {why}" if why else "")


class ProofRow(TypedDict):
    """A proof in proofs.json."""

    code: str
    place: str
    change: str
    why: str
    folder: str
    differences: dict[str, dict[str, float | str]]


@dataclass(frozen=True)
class Pair:
    """The two scenarios of a finding."""

    as_is: ImportedFabric
    mended: ImportedFabric
    unused: str = ""
    """The queues of the finding into which no host sends, or ""."""

    @property
    def differ(self) -> bool:
        """True if a key of the scenarios differs, not just their comments."""
        return _keys(self.as_is) != _keys(self.mended)


def _keys(imported: ImportedFabric) -> list[str]:
    lines = (line.partition("  # ")[0] for line in imported.toml.splitlines() if not line.startswith("#"))
    return [line for line in lines if line and not line.startswith("name = ")]


Runs = dict[tuple[str, ...], tuple[list[dict[str, Measure]], str]]
"""The measures of each pair of scenarios: several findings often have one."""


def prove(report: Report, folder: Path) -> Iterator[Proof]:
    """Simulates the first findings, at most `MOST`, and keeps the scenarios and proofs.json in `folder`.

    After each proof proofs.json is complete, so that an interrupt loses nothing.
    """
    runs: Runs = {}
    rows: list[ProofRow] = []
    for number, finding in enumerate(report.findings[:MOST], 1):
        proof = proof_of(report, finding, folder / f"{finding.code}-{number}", runs)
        rows.append(_row(proof))
        write_text(folder / PROOFS, json.dumps(rows, indent=1) + "\n")
        yield proof
    if not report.findings:
        write_text(folder / PROOFS, "[]\n")


def _row(proof: Proof) -> ProofRow:
    differences: dict[str, dict[str, float | str]] = {
        here.name: {"as_is": here.value, "mended": there.value, "as_is_text": here.text, "mended_text": there.text}
        for here, there in proof.rows
    }
    return ProofRow(
        code=proof.code,
        place=proof.place,
        change=proof.change,
        why=proof.why,
        folder=str(proof.folder or ""),
        differences=differences,
    )


def proof_of(report: Report, finding: Finding, folder: Path, runs: Runs) -> Proof:
    """Simulates one finding as it is and mended; a deadlock alone, because no patch is known."""
    if finding.circle is not None:
        return _deadlock(finding, folder)
    proof = Proof(finding.code, shown(finding.place), "")
    cure = mended(report, finding)
    if cure is None:
        proof.why = "no cure is known that could be simulated"
        return proof
    after, change = cure
    proof.change, proof.why = shown(change), EQUAL_TEXT.format(EQUAL[finding.code]) if finding.code in EQUAL else NO_KEY
    for pair, why in _pairs(report.reading, after, finding):
        if pair is None:
            proof.why = why
            continue
        key = (*_keys(pair.as_is), "", *_keys(pair.mended))
        if key not in runs:
            runs[key] = _measured(pair, folder)
        found, refused = runs[key]
        rows = [(found[0][name], found[1][name]) for name in found[0] if _differs(*(one[name] for one in found))]
        named = {here.name for here, _ in rows} & {*_names(finding.code)}
        hidden = "packets lost" in _names(finding.code) and any(
            here.name == "packets lost" and here.value <= there.value for here, there in rows
        )
        if (named and not hidden) or not proof.rows:
            proof.folder, proof.rows, proof.why = folder, rows, refused or ("" if rows else pair.unused or NOTHING)
            _keep(pair, folder)
        if named and not hidden:
            break
        if hidden and not proof.why:
            proof.why = HIDDEN
    return proof


def _names(code: str) -> tuple[str, ...]:
    return next(NAMED[key] for key in (code, code[:4], "") if key in NAMED)


def _keep(pair: Pair, folder: Path) -> None:
    for name, imported in ((AS_IS, pair.as_is), (MENDED, pair.mended)):
        write_text(folder / name, imported.toml)


def _deadlock(finding: Finding, folder: Path) -> Proof:
    from pauseframe.run import run

    assert finding.circle is not None
    write_text(folder / TABLES, finding.circle.tables)
    summary = run(write_text(folder / AS_IS, finding.circle.scenario), progress=False).summary
    proof = Proof(finding.code, shown(finding.place), "", folder=folder)
    stuck = unfinished_flows(summary)
    if summary["deadlocks"]:
        count = summary["flows_finished"] + stuck
        proof.why = f"{counted(summary['deadlocks'], 'deadlock')}: {stuck} of {count} flows never end"
    else:
        proof.why = "no deadlock with this load"
    return proof


def _measured(pair: Pair, folder: Path) -> tuple[list[dict[str, Measure]], str]:
    """The measures of both runs; of none if the simulator refuses a scenario."""
    from pauseframe._core import ScenarioError
    from pauseframe.run import run

    found = []
    for name, imported in ((AS_IS, pair.as_is), (MENDED, pair.mended)):
        try:
            found.append(measures(run(imported.toml, progress=False), imported.scope))
        except ScenarioError as error:
            return [{}, {}], f"the simulator refuses {folder / name}: {shown(str(error).splitlines()[0])}"
    return found, ""


def _differs(here: Measure, there: Measure) -> bool:
    """True if the values differ by more than the times of two equal flows do."""
    return abs(here.value - there.value) > 0.001 * max(abs(here.value), abs(there.value))


def _pairs(before: Reading, after: Reading, finding: Finding) -> Iterator[tuple[Pair | None, str]]:
    """The scenarios with and without a finding that differ, for each of its ports and each lossless code point.

    (None, reason) if a pair cannot be made.
    """
    codes: list[CodePoint | None] = [*lossless_code_points(after.fabric)]
    ends: list[End | None] = [*ends_of(before.fabric, finding)] or [None]
    made = 0
    for focus, code, alone in product(ends, codes or [None], (False, True)):
        try:
            pair = _built(before, after, finding, (focus, code, alone))
        except ValueError as error:
            yield None, str(error)
            continue
        if pair.differ and made < TRIES:
            made += 1
            yield pair, ""


def _built(before: Reading, after: Reading, finding: Finding, side: tuple[End | None, CodePoint | None, bool]) -> Pair:
    focus, code, alone = side
    if focus is None:
        raise ValueError("no port of the finding is wired to another device")
    device = "" if finding.code in WHOLE else focus.device
    scopes = [scope_of(one.fabric, device=device, focus=focus) for one in (before, after)]
    classes = switches.classes_of(scopes[1], code)
    gap = _gap(before, after, focus, finding)
    mtu, queues = switches.mtu_of(scopes[1]), _queues(after, focus, finding)
    work = through(scopes[1], focus, classes, mtu, gap, alone=alone, queues=queues)
    made = [
        scenarios.build(reading, scope, code, work.load(_kind(finding.code)), name=f"{finding.code} {side}")
        for reading, scope, side in zip((before, after), scopes, ("as it is", "mended"), strict=True)
    ]
    return Pair(made[0], made[1], "" if work.fits else UNUSED.format(", ".join(map(str, sorted(queues)))))


def _queues(reading: Reading, focus: End, finding: Finding) -> frozenset[int]:
    """The queues that a finding is about: that of its row, or those with its WRED profile; none if it names none."""
    table, key = finding.place.table, finding.place.key
    first, _, last = key.rpartition("|")[2].partition("-")
    if table in {"QUEUE", "BUFFER_QUEUE"} and first.isdecimal() and (last or first).isdecimal():
        return frozenset(range(int(first), int(last or first) + 1))
    port = reading.fabric.port(focus)
    if table != "WRED_PROFILE" or port is None:
        return frozenset()
    return frozenset(number for number, queue in port.queues.items() if queue.wred == key)


def _kind(code: str) -> Kind:
    kinds: tuple[tuple[Kind, tuple[str, ...]], ...] = (
        ("controlled", CONTROLLED),
        ("across", LINKS),
        ("spread", HASHES),
        ("mixed", MIXED),
        ("storm", STORMS),
        ("tcp", TCP),
    )
    return next((kind for kind, codes in kinds if code in codes), "burst")


def _gap(before: Reading, after: Reading, focus: End, finding: Finding) -> tuple[int, int] | None:
    """Length of a storm and of the gap after it, in ms: one watchdog takes the gap for the end, the other does not."""
    ports = [reading.fabric.port(focus) for reading in (before, after)]
    dogs = [port.watchdog for port in ports if port is not None and port.watchdog is not None]
    if finding.code != "PF040" or len(dogs) < 2:
        return None
    poll = before.fabric.switches[focus.device].watchdog_poll or 0
    short, long = sorted(dog.restoration or 0 for dog in dogs)
    detection = max(dog.detection or 0 for dog in dogs)
    return detection + 2 * poll + 100, (short + long + poll) // 2
