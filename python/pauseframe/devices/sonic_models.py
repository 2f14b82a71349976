"""What the YANG models of each SONiC release allow: tables, fields, enumerations, ranges, references.

The facts are in sonic_models.json, which tools/sonic_models.py derives from the models of sonic-net/sonic-buildimage;
the file names their commits and licence. The models' patterns and `must` are not in it: `pauseframe lint --yang DIR`
checks them with the operator's own models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

from pauseframe.devices.files import whole_number

Release = Literal["202311", "202405", "202411", "202505", "202511", "202605", "master"]
"""The releases whose models are known."""
RELEASES: tuple[str, ...] = get_args(Release)
Limits = Mapping[str, Any]
"""Limits of a value: enum, range, length, any (of several limits), refers (to a table), many, mandatory."""
OMITTED = {("PORT", "speed"): "l2switch.json"}
"""Fields that the models demand and a sample that SONiC itself generates omits: (table, field) and the sample.

The samples are in src/sonic-config-engine/tests/sample_output/py3 of the release.
"""
GENERATED = {
    ("202311", "BUFFER_POOL", "type", "both"): "buffer-arista7800r3-48cq2-lc.json",
    ("202311", "TC_TO_DSCP_MAP", "", ""): "qos-arista7050cx3-dualtor.json",
    ("202405", "TC_TO_DSCP_MAP", "", ""): "qos-arista7050cx3-dualtor.json",
}
"""What the models of a release do not allow and its own samples have: (release, table, field, value) and the sample."""


@cache
def _data() -> dict[str, Any]:
    text = (files("pauseframe.devices") / "sonic_models.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


@cache
def tables(release: str) -> Mapping[str, Limits]:
    """The tables of a release by name. KeyError for an unknown release."""
    found = dict(_data()["tables"])
    for older in reversed(RELEASES[RELEASES.index(release) : -1]):
        for name, table in _data()["releases"][older]["differs"].items():
            if table is None:
                found.pop(name, None)
            else:
                found[name] = table
    return found


def commit(release: str) -> str:
    """The commit of sonic-buildimage whose models a release has here."""
    return str(_data()["releases"][release]["commit"])


def releases_with(table: str, field: str = "") -> list[str]:
    """The releases whose models have a table, or a field of it."""
    return [r for r in RELEASES if table in tables(r) and (not field or field in tables(r)[table]["fields"])]


def fault(limits: Limits, text: str) -> str:
    """What a text should be, or empty if it is within the limits. References are not checked."""
    if "any" in limits:
        wrong = [fault(part, text) for part in limits["any"]]
        return "" if "" in wrong else " or ".join(wrong)
    if "enum" in limits:
        return "" if text in limits["enum"] else "one of " + ", ".join(limits["enum"])
    if "range" in limits and "refers" not in limits:
        number = whole_number(text)
        if number is None:
            return (
                ""
                if any(None in span for span in limits["range"])
                else f"a whole number from {_spans(limits['range'])}"
            )
        return "" if _within(limits["range"], number) else f"a whole number from {_spans(limits['range'])}"
    if "length" in limits and not _within(limits["length"], len(text)):
        return f"a text of {_spans(limits['length'])} characters"
    return ""


def _within(spans: list[list[int | None]], number: int) -> bool:
    """True if a number lies in one of the spans; None is no limit."""
    return any((low is None or number >= low) and (high is None or number <= high) for low, high in spans)


def _spans(spans: list[list[int | None]]) -> str:
    return " or ".join(f"{low} to {high}" if low != high else f"{low}" for low, high in spans)


def referred(limits: Limits) -> tuple[str, ...]:
    """The tables whose keys a value may name; empty if it may be anything else as well."""
    if "any" in limits:
        parts = [referred(part) for part in limits["any"]]
        return tuple(name for part in parts for name in part) if all(parts) else ()
    return (limits["refers"],) if "refers" in limits else ()
