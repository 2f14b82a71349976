"""Prints findings as text, JSON, SARIF and GitHub annotations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pauseframe._core import __version__
from pauseframe.devices.files import shown
from pauseframe.lint.engine import Report, rules
from pauseframe.lint.finding import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe._plain import Value
    from pauseframe.devices.model import Place

LIMIT = 200
"""Maximum number of findings per rule and device in the text output; JSON and SARIF have all."""


def as_text(report: Report) -> Iterator[str]:
    """The findings as lines of text."""
    count: dict[tuple[str, str], int] = {}
    for finding in report.findings:
        key = (finding.place.device, finding.code)
        count[key] = count.get(key, 0) + 1
        if count[key] > LIMIT:
            continue
        yield f"{shown(finding.place)}: {finding.severity} {finding.code} {finding.message}"
        if finding.other is not None:
            yield f"    other end: {shown(finding.other)}"
        if finding.instead:
            yield f"    instead: {finding.instead}"
    for (device, code), found in count.items():
        if found > LIMIT:
            yield f"{shown(device)}: {found - LIMIT} more of {code}"


def summary(report: Report) -> str:
    """One line with the files read and the number of findings."""
    fabric = report.reading.fabric
    errors = len(report.errors)
    found = f"{errors} errors, {len(report.findings) - errors} warnings" if report.findings else "nothing wrong found"
    read = f"{len(fabric.switches)} switches, {len(fabric.hosts)} hosts, {len(fabric.links)} links"
    return f"{read}: {found}"


def as_json(report: Report) -> dict[str, Value]:
    """All findings as plain values."""
    fabric = report.reading.fabric
    return {
        "program": "pauseframe",
        "version": __version__,
        "switches": len(fabric.switches),
        "hosts": len(fabric.hosts),
        "links": len(fabric.links),
        "notes": [shown(note) for note in fabric.notes],
        "errors": len(report.errors),
        "findings": [_plain(finding) for finding in report.findings],
    }


def _plain(finding: Finding) -> dict[str, Value]:
    known = rules()[finding.code]
    return {
        "code": finding.code,
        "name": known.name,
        "severity": str(finding.severity),
        "place": _place(finding.place),
        "other": None if finding.other is None else _place(finding.other),
        "message": finding.message,
        "instead": finding.instead,
        "file": shown(finding.source),
        "sources": list(known.sources),
        "fixable": bool(finding.patch),
        "provable": finding.consequence is not None,
    }


def _place(place: Place) -> dict[str, Value]:
    return {name: shown(getattr(place, name)) for name in ("device", "table", "key", "field")}


def as_sarif(report: Report) -> dict[str, Value]:
    """SARIF 2.1.0 (OASIS), for code scanning."""
    known = rules()
    used = sorted({finding.code for finding in report.findings})
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
                "results": [_sarif(finding, used.index(finding.code)) for finding in report.findings],
            }
        ],
    }


def _sarif(finding: Finding, index: int) -> dict[str, Value]:
    from pathlib import Path
    from urllib.parse import quote

    text = finding.message + (f"; instead: {finding.instead}" if finding.instead else "")
    name = shown(finding.place)
    location: dict[str, Value] = {"logicalLocations": [{"fullyQualifiedName": name}]}
    if finding.source:
        location["physicalLocation"] = {"artifactLocation": {"uri": quote(Path(finding.source).as_posix())}}
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": str(finding.severity),
        "message": {"text": text},
        "locations": [location],
    }


def as_github(report: Report) -> Iterator[str]:
    """Workflow commands for GitHub Actions."""
    for finding in report.findings:
        kind = "error" if finding.severity is Severity.error else "warning"
        text = f"{shown(finding.place)}: {finding.message}"
        file = _property(shown(finding.source))
        yield f"::{kind} file={file},title={finding.code}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def explain(code: str) -> str:
    """The page of a lint rule, as text."""
    known = rules()
    if code not in known:
        raise ValueError(f"there is no rule {code!r}: the rules are {', '.join(known)}")
    found = known[code]
    sources = "\n".join(f"- {source}" for source in found.sources)
    return f"# {found.code}: {found.name}\n\nSeverity: {found.severity}\n\n{found.text}\n\n## Sources\n\n{sources}\n"


def dump(value: Mapping[str, object]) -> str:
    """JSON text in ASCII."""
    return json.dumps(value, indent=1)
