"""Chooses the changes that end findings, one fault at a time.

A change counts only if it ends its finding and causes no other one, so nothing is left of changes that did not help:
first the value that similar devices agree on, then the patch of the rule. One patch can uncover another fault (more
headroom may need a larger pool): then the patches of both are one change.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from pauseframe.devices.read import reread
from pauseframe.lint.engine import Report, judge
from pauseframe.lint.finding import PatchOperation, Severity
from pauseframe.lint.patch import difference
from pauseframe.lint.usual import Usual

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pauseframe.devices.model import Place
    from pauseframe.devices.read import Reading
    from pauseframe.devices.sonic_db import ConfigDb, Row
    from pauseframe.lint.finding import Finding, Rule
    from pauseframe.lint.patch import Step
    from pauseframe.lint.usual import Change

ROUNDS = 6
"""Maximum number of rounds of a change. The longest chain known has four: group, profile, headroom, pool."""
DESIGN = "PF091"
"""The rule about differences from a plan or scenario."""
BUFFERS = "PF01"
"""Rules about profiles, headroom and pools: a change of one may require a change of another."""
FEW = 12
"""Maximum number of restored values that one finding may need."""
COMPARED = 8
"""Maximum number of patches of which the one that ends most is chosen; of more, the first that helps."""
WORK = 500_000
"""Limit of switches times rules in all trials (about a minute); then findings of one rule share one trial."""

Tables = dict[str, "dict[str, Row]"]
Score = dict[tuple[str, "Place"], bool]
"""The places with a finding, by rule; True if it is an error."""


@dataclass
class Fix:
    """Patches by device, and the report on the patched devices."""

    patches: dict[str, list[Step]]
    after: Report
    mended: int
    """Number of findings that the patches end."""
    new: list[Finding]
    """Findings that the patches cause: a fault of this module, which the command names."""


def fix(report: Report) -> Fix:
    """Patches for all findings that a change ends without causing another one."""
    search = _Search(report)
    search.mend()
    after = search.now
    first, last = report.reading.databases, after.reading.databases
    patches = {name: list(difference(first[name], last[name])) for name in sorted(first)}
    left = _score(after)
    mended = sum(not any((finding.code, place) in left for place in finding.places) for finding in report.findings)
    return Fix({name: steps for name, steps in patches.items() if steps}, after, mended, _new(_score(report), after))


def patched(report: Report, finding: Finding) -> Reading:
    """The reading with the patch of one finding, and what the patch requires of buffers; the same if it has none."""
    rules = [rule for rule in report.rules if rule.code.startswith(BUFFERS)]
    now, operations = report.reading, _operations([finding])
    own = {(finding.code, place) for place in finding.places}
    known = {place: error for place, error in _score(report).items() if place not in own}
    for _ in range(ROUNDS):
        changed = _applied(now, operations)
        if not changed:
            break
        now = reread(now, changed)
        operations = _operations(_new(known, judge(now, rules)))
    return now


def _score(report: Report) -> Score:
    return {(f.code, place): f.severity is Severity.error for f in report.findings for place in f.places}


def _new(known: Score, after: Report) -> list[Finding]:
    """The findings at places where the rule had none, or a warning that is an error now."""
    return [f for f in after.findings if any(_is_new(known, f, place) for place in f.places)]


def _is_new(known: Score, finding: Finding, place: Place) -> bool:
    before = known.get((finding.code, place))
    return before is None or before < (finding.severity is Severity.error)


def _operations(findings: Iterable[Finding]) -> list[PatchOperation]:
    return [replace(o, device=o.device or finding.place.device) for finding in findings for o in finding.patch]


def _joined(changes: Iterable[Change]) -> list[PatchOperation]:
    return [operation for change in changes for operation in change]


def _is_at(place: Place, operation: PatchOperation) -> bool:
    """True if an operation changes the row of a place."""
    return (operation.device, operation.table, operation.key) == (place.device, place.table, place.key)


class _Search:
    """The state of the devices while faults are mended."""

    def __init__(self, report: Report) -> None:
        self.now, self._first = report, report
        self._usual = Usual(report.reading)
        self._taken: list[list[PatchOperation]] = []
        self._left = WORK

    def mend(self) -> None:
        """Takes changes until no one ends a finding, then takes back those that another one made unnecessary."""
        self._take_design()
        while self._pass():
            pass
        self._take_back()

    def _take_design(self) -> None:
        """Takes the differences from a design first: other rules would mend the same faults towards other values.

        A device keeps its name in a reading, so a finding about its hostname stays.
        """
        design = [finding for finding in self.now.findings if finding.code == DESIGN]
        for findings in (design, *([finding] for finding in design)):
            after = self._judge(_operations(findings))
            if after is not None and not _new(_score(self.now), after):
                self._first = self.now = after

    def _pass(self) -> bool:
        """Tries to end each finding once; True if a change was taken."""
        tried: set[tuple[str, Place]] = set()
        taken = False
        while (step := self._step(tried)) is not None:
            taken |= step
        return taken

    def _step(self, tried: set[tuple[str, Place]]) -> bool | None:
        """Takes one change, or notes which findings have none; None if all findings were tried."""
        todo = [f for f in self.now.findings if (f.code, f.place) not in tried]
        todo.sort(key=lambda f: f.severity is not Severity.error)
        if not todo:
            return None
        if self._left <= 0:
            return self._by_rule(todo, tried)
        for finding in todo:
            if self._restore(finding):
                return True
        found = [(f, trial) for f in todo[:COMPARED] if f.patch and (trial := self._try_patch([f])) is not None]
        if not found:
            rest = todo[COMPARED:]
            first = next(((f, t) for f in rest if f.patch and (t := self._try_patch([f])) is not None), None)
            found = [first] if first is not None else []
        if not found:
            tried |= {(f.code, f.place) for f in todo}
            return False
        _, (operations, after) = min(found, key=lambda one: _rank(*one[1]))
        self._take(operations, after)
        return True

    def _by_rule(self, todo: Sequence[Finding], tried: set[tuple[str, Place]]) -> bool:
        """Tries the patches of all findings of one rule together."""
        alike = [finding for finding in todo if finding.code == todo[0].code]
        tried |= {(f.code, f.place) for f in alike}
        return self._take_together(alike)

    def _take_together(self, findings: Sequence[Finding]) -> bool:
        trial = self._try_patch(findings) if any(f.patch for f in findings) else None
        if trial is not None:
            self._take(*trial)
        return trial is not None

    def _take(self, operations: list[PatchOperation], after: Report) -> None:
        self._taken.append(operations)
        self.now = after

    def _judge(
        self, operations: Iterable[PatchOperation], before: Report | None = None, rules: Sequence[Rule] = ()
    ) -> Report | None:
        """The report after operations, by all rules or some; None if they change nothing."""
        before = before or self.now
        changed = _applied(before.reading, operations)
        return self._judged(reread(before.reading, changed), rules or before.rules) if changed else None

    def _judged(self, reading: Reading, rules: Sequence[Rule]) -> Report:
        self._left -= len(reading.fabric.switches) * len(rules)
        return judge(reading, rules)

    def _try_patch(self, findings: Sequence[Finding]) -> tuple[list[PatchOperation], Report] | None:
        """The patch of findings with those of findings that it causes, and the report after; None if it is no cure."""
        known = _score(self.now)
        operations = _operations(findings)
        now, every = self.now, list(operations)
        for _ in range(ROUNDS):
            after = self._judge(operations, now)
            if after is None:
                return None
            now, new = after, _new(known, after)
            if not new:
                return (every, now) if self._ends(now, findings) else None
            operations = _operations(new)
            every += operations
        return None

    def _ends(self, after: Report, findings: Sequence[Finding], before: Report | None = None) -> bool:
        """True if fewer places have these findings, or errors became warnings."""
        known, left = _score(before or self.now), _score(after)
        places = [(finding.code, place) for finding in findings for place in finding.places]
        return any(place not in left or left[place] < known[place] for place in places)

    def _restore(self, finding: Finding) -> bool:
        """Takes the fewest values of similar devices that end a finding, and any other that this uncovers."""
        known, now, operations = _score(self.now), self.now, list[PatchOperation]()
        todo = [finding]
        for _ in range(ROUNDS):
            found = self._fewest(todo[0], now)
            if found is None:
                return False
            changes, now = found
            operations += _joined(changes)
            todo = _new(known, now)
            if not todo:
                break
        if todo or not self._ends(now, [finding]):
            return False
        self._take(operations, now)
        return True

    def _fewest(self, finding: Finding, before: Report) -> tuple[list[Change], Report] | None:
        """The fewest values of similar devices that end a finding of a report, and the report after."""
        changes = self._usual.changes(finding) if self._left > 0 else []
        changes = [change for change in changes if _applied(before.reading, change)]
        cures = partial(self._cures, finding, before)
        near = [change for change in changes if any(_is_at(finding.place, operation) for operation in change)]
        changes = near if near and cures(near) else changes
        if not changes or not cures(changes):
            return None
        while len(changes) > 1:
            half = len(changes) // 2
            better = next((part for part in (changes[:half], changes[half:]) if cures(part)), None)
            if better is None:
                break
            changes = better
        for change in list(changes) if 2 < len(changes) <= FEW else ():
            others = [other for other in changes if other is not change]
            changes = others if cures(others) else changes
        after = self._judge(_joined(changes), before) if len(changes) <= FEW else None
        return None if after is None else (changes, after)

    def _cures(self, finding: Finding, before: Report, changes: Sequence[Change]) -> bool:
        """True if changes end a finding, though they may cause others: only its own rule is run."""
        own = [rule for rule in before.rules if rule.code == finding.code]
        after = self._judge(_joined(changes), before, own)
        return after is not None and self._ends(after, [finding], before)

    def _take_back(self) -> None:
        """Leaves out each change without which the findings are the same, the first ones first."""
        goal = _score(self.now)
        for change in list(self._taken):
            if len(self._taken) < 2 or self._left <= 0:
                return
            others = [other for other in self._taken if other is not change]
            after = self._first
            for one in others:
                changed = _applied(after.reading, one)
                after = replace(after, reading=reread(after.reading, changed)) if changed else after
            after = self._judged(after.reading, after.rules)
            if _score(after).items() <= goal.items():
                self._taken, self.now = others, after


def _rank(operations: Sequence[PatchOperation], after: Report) -> tuple[int, int, int]:
    """Fewest errors, fewest findings, fewest changes."""
    return len(after.errors), len(after.findings), len(operations)


def _applied(reading: Reading, operations: Iterable[PatchOperation]) -> dict[str, ConfigDb]:
    """The databases that operations change; of two operations on one value the first counts."""
    databases = reading.databases
    changed: dict[str, ConfigDb] = {}
    taken: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for operation in operations:
        device, path = operation.device, (operation.table, operation.key, *filter(None, [operation.field]))
        if device not in databases or path in taken[device] or path[:2] in taken[device]:
            continue
        tables = (changed.get(device) or databases[device]).tables
        if _has(tables, operation):
            continue
        taken[device].add(path)
        if device not in changed:
            changed[device] = replace(databases[device], tables=dict(tables))
        _apply(changed[device].tables, operation)
    return changed


def _has(tables: Tables, change: PatchOperation) -> bool:
    """True if tables have the value of an operation already."""
    row = tables.get(change.table, {}).get(change.key)
    if row is None or not change.field:
        return (row is None) == (change.value is None)
    return row.get(change.field) == change.value


def _apply(tables: Tables, change: PatchOperation) -> None:
    """Applies an operation to tables; what it changes is copied, because trials share all else."""
    rows = tables[change.table] = dict(tables.get(change.table, {}))
    if not change.field and change.value is None:
        del rows[change.key]
        return
    row = rows[change.key] = dict(rows.get(change.key, {}))
    if change.value is None:
        del row[change.field]
    elif change.field:
        row[change.field] = change.value
