"""Findings, and the registry of rules by code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from inspect import cleandoc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pauseframe.devices.model import Place
    from pauseframe.devices.read import Reading
    from pauseframe.lint.circle import Circle


KINDS = {
    "sonic": "SONiC",
    "linux": "Linux bridges",
    "nvue": "Cumulus Linux (NVUE)",
    "eos": "Arista EOS",
    "host": "hosts",
}
"""Kinds of devices that rules judge: `Switch.kind`, or "host"."""
SONIC = ("sonic",)
BRIDGES = ("sonic", "linux")
VENDORS = ("sonic", "nvue", "eos")
SWITCHES = ("sonic", "linux", "nvue", "eos")
HOSTS = ("host",)
EVERY = (*SWITCHES, *HOSTS)


class Severity(StrEnum):
    """Certainty of the damage: an error causes a failure, a warning can cause one."""

    error = "error"
    warning = "warning"


@dataclass(frozen=True, slots=True)
class PatchOperation:
    """A change to a CONFIG_DB: of a field, or with an empty `field` of a whole row. A missing row is added."""

    table: str
    key: str
    field: str
    value: str | None
    """The new value; None removes the field or the row."""
    device: str = ""
    """The device to change; empty for the device of the finding."""


@dataclass(slots=True)
class Finding:
    """A fault, its place, and the suggested change."""

    place: Place
    message: str
    instead: str = ""
    other: Place | None = None
    """The place at the other end of the link."""
    code: str = ""
    """Code of the rule, set by `judge`."""
    severity: Severity | None = None
    """Set by `judge` to the severity of the rule, unless the rule has several."""
    source: str = ""
    """The file with the fault, if it is not that of the device."""
    also: tuple[Place, ...] = ()
    """Further places with the same fault: the other rows of a wrong profile, the other devices of a wrong template."""
    detail: str = ""
    """The calculation behind the message."""
    patch: tuple[PatchOperation, ...] = ()
    circle: Circle | None = None
    """The deadlock that `--prove` simulates."""

    @property
    def places(self) -> tuple[Place, ...]:
        """All places with the fault."""
        return self.place, *self.also

    def joined(self, others: Iterable[Finding]) -> Finding:
        """One finding for several with the same fault."""
        every = (self, *others)
        patch = [replace(o, device=o.device or finding.place.device) for finding in every for o in finding.patch]
        places = dict.fromkeys(place for finding in every for place in finding.places)
        return replace(
            self, also=tuple(place for place in places if place != self.place), patch=tuple(dict.fromkeys(patch))
        )


RuleFunction = Callable[["Reading"], Iterator[Finding]]


@dataclass(frozen=True)
class Rule:
    """A rule: the fault that it finds, the incident behind it, and its source."""

    code: str
    name: str
    summary: str
    text: str
    sources: tuple[str, ...]
    severity: Severity
    devices: tuple[str, ...]
    """Kinds of devices to which the rule applies (`KINDS`): findings about others are not raised."""
    check: RuleFunction = field(compare=False)


RULES: dict[str, Rule] = {}


def _origin(check: RuleFunction) -> str:
    return f"{check.__module__}.{check.__qualname__}"


def rule(
    code: str, name: str, *sources: str, severity: Severity = Severity.error, devices: tuple[str, ...] = SONIC
) -> Callable[[RuleFunction], RuleFunction]:
    """Registers a rule; the rule's docstring is its page, whose first paragraph is the summary."""

    def register(check: RuleFunction) -> RuleFunction:
        known = RULES.get(code)
        if known is not None and _origin(known.check) != _origin(check):
            raise ValueError(f"rule {code} exists twice: {_origin(known.check)} and {_origin(check)}")
        text = cleandoc(check.__doc__ or "")
        summary = " ".join(text.split("\n\n")[0].split())
        RULES[code] = Rule(code, name, summary, text, sources, severity, devices, check)
        return check

    return register
