"""Prints findings as text, JSON, SARIF and GitHub annotations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import typer

from pauseframe._core import __version__
from pauseframe.devices.files import shown
from pauseframe.lint.engine import Report, like_rules, rules
from pauseframe.lint.finding import KINDS, Finding, Severity
from pauseframe.lint.locate import Location, Locator
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.devices.model import Place
    from pauseframe.scenario.plain import Value

LIMIT = 200
"""Maximum number of findings per rule and device in the text output; JSON and SARIF have all."""
PLACES = 6
"""Maximum number of further places of a finding in the text output."""
_COLOURS = {Severity.error: "red", Severity.warning: "yellow"}


def as_text(report: Report, *, colour: bool = False) -> Iterator[str]:
    """The findings as lines of text, with colours for a terminal if wanted."""
    count: dict[tuple[str, str], int] = {}
    locator = Locator(report.reading)
    for finding in report.findings:
        key = (finding.place.device, finding.code)
        count[key] = count.get(key, 0) + 1
        if count[key] <= LIMIT:
            yield from _lines(finding, locator, colour)
    for (device, code), found in count.items():
        if found > LIMIT:
            yield f"{shown(device)}: {found - LIMIT} more of {code}"


def _lines(finding: Finding, locator: Locator, colour: bool) -> Iterator[str]:
    def style(text: str, **how: Any) -> str:
        return typer.style(text, **how) if colour else text

    kind = style(f"{finding.severity} {finding.code}", fg=_COLOURS[finding.severity or Severity.error], bold=True)
    yield f"{style(shown(finding.place), bold=True)}: {kind} {finding.message}"
    rows = [
        ("at", shown(locator.find(finding.place, finding.source))),
        ("also at", _listed(finding)),
        ("other end", shown(finding.other or "")),
        ("sum", finding.detail),
        ("instead", finding.instead),
    ]
    for name, text in rows:
        if text:
            yield f"    {style(f'{name}:', dim=True)} {text}"


def _listed(finding: Finding) -> str:
    """The further places of a finding: their keys, with the device where it is another one."""
    names = [
        shown(place.key or place.table)
        if place.device == finding.place.device
        else shown(f"{place.device} {place.key}")
        for place in finding.also[:PLACES]
    ]
    more = len(finding.also) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def summary(report: Report) -> str:
    """One line with the files read and the number of findings."""
    fabric = report.reading.fabric
    errors = len(report.errors)
    found = (
        f"{counted(errors, 'error')}, {counted(len(report.findings) - errors, 'warning')}"
        if report.findings
        else "nothing wrong found"
    )
    counts = {"switch": len(fabric.switches), "host": len(fabric.hosts), "link": len(fabric.links)}
    read = ", ".join(counted(count, kind) for kind, count in counts.items())
    return f"{read}: {found}{_uncompared(report)}"


def _uncompared(report: Report) -> str:
    """What `--design` did not compare, by its first few names; JSON has all."""
    names = report.reading.design.uncompared if report.reading.design else []
    if not names:
        return ""
    more = f" and {len(names) - PLACES} more" if len(names) > PLACES else ""
    return f"; not compared, because the design does not say it: {shown(', '.join(names[:PLACES]))}{more}"


def as_json(report: Report) -> dict[str, Value]:
    """All findings as plain values."""
    fabric, locator = report.reading.fabric, Locator(report.reading)
    return {
        "program": "pauseframe",
        "version": __version__,
        "switches": len(fabric.switches),
        "hosts": len(fabric.hosts),
        "links": len(fabric.links),
        "notes": [shown(note) for note in fabric.notes],
        "uncompared": [shown(name) for name in (report.reading.design.uncompared if report.reading.design else [])],
        "errors": len(report.errors),
        "findings": [_plain(finding, locator) for finding in report.findings],
    }


def _plain(finding: Finding, locator: Locator) -> dict[str, Value]:
    known = rules()[finding.code]
    places: list[Value] = [_place(place, locator, finding.source) for place in finding.places]
    return {
        "code": finding.code,
        "name": known.name,
        "severity": str(finding.severity),
        "place": places[0],
        "also": places[1:],
        "other": None if finding.other is None else _place(finding.other, locator, ""),
        "message": finding.message,
        "detail": finding.detail,
        "instead": finding.instead,
        "sources": list(known.sources),
        "fixable": bool(finding.patch),
    }


def _place(place: Place, locator: Locator, source: str) -> dict[str, Value]:
    at = locator.find(place, source)
    names: dict[str, Value] = {name: shown(getattr(place, name)) for name in ("device", "table", "key", "field")}
    return names | {"file": shown(at.file), "line": at.line or None, "column": at.column or None}


def as_sarif(report: Report) -> dict[str, Value]:
    """SARIF 2.1.0 (OASIS), for code scanning."""
    known = rules()
    used = sorted({finding.code for finding in report.findings})
    locator = Locator(report.reading)
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "pauseframe",
                        "version": __version__,
                        "rules": [
                            {
                                "id": code,
                                "name": known[code].name,
                                "shortDescription": {"text": known[code].summary},
                                "fullDescription": {"text": known[code].text},
                                "defaultConfiguration": {"level": str(known[code].severity)},
                            }
                            for code in used
                        ],
                    }
                },
                "results": [_sarif(finding, used.index(finding.code), locator) for finding in report.findings],
            }
        ],
    }


def _sarif(finding: Finding, index: int, locator: Locator) -> dict[str, Value]:
    text = finding.message + (f"; instead: {finding.instead}" if finding.instead else "")
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": str(finding.severity),
        "message": {"text": text},
        "locations": [_sarif_location(place, locator.find(place, finding.source)) for place in finding.places],
    }


def _sarif_location(place: Place, at: Location) -> dict[str, Value]:
    location: dict[str, Value] = {"logicalLocations": [{"fullyQualifiedName": shown(place)}]}
    if at.file:
        physical: dict[str, Value] = {"artifactLocation": {"uri": quote(Path(at.file).as_posix())}}
        if at.line:
            physical["region"] = {"startLine": at.line, "startColumn": at.column}
        location["physicalLocation"] = physical
    return location


def as_github(report: Report) -> Iterator[str]:
    """Workflow commands for GitHub Actions."""
    locator = Locator(report.reading)
    for finding in report.findings:
        kind = "error" if finding.severity is Severity.error else "warning"
        more = f" (and at {len(finding.also)} more places)" if finding.also else ""
        at = locator.find(finding.place, finding.source)
        where = f",line={at.line},col={at.column}" if at.line else ""
        text = _data(f"{shown(finding.place)}: {finding.message}{more}")
        yield f"::{kind} file={_property(shown(at.file))}{where},title={finding.code}::{text}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def explain(code: str) -> str:
    """The page of a lint rule, as text."""
    known = rules()
    if code not in known:
        raise ValueError(f"there is no rule {code!r}{like_rules(code)}")
    found = known[code]
    sources = "\n".join(f"- {source}" for source in found.sources)
    devices = ", ".join(name for kind, name in KINDS.items() if kind in found.devices)
    head = f"# {found.code}: {found.name}\n\nSeverity: {found.severity}\n\nApplies to: {devices}"
    return f"{head}\n\n{found.text}\n\n## Sources\n\n{sources}\n"


def dump(value: Mapping[str, object]) -> str:
    """JSON text in ASCII."""
    return json.dumps(value, indent=1)
