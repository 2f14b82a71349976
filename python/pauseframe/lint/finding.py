"""Defines findings, and registers the rules by their codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from inspect import cleandoc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pauseframe.devices.model import Place
    from pauseframe.devices.read import Reading
    from pauseframe.lint.prove import Consequence


class Severity(StrEnum):
    """Severity: an error will fail, a warning can."""

    error = "error"
    warning = "warning"


@dataclass(frozen=True, slots=True)
class PatchOperation:
    """An operation on a CONFIG_DB: a field of a row, or a row."""

    table: str
    key: str
    field: str
    value: str | None
    """None removes it."""


@dataclass(slots=True)
class Finding:
    """A problem, its place, and the replacement."""

    code: str
    place: Place
    message: str
    instead: str = ""
    severity: Severity = Severity.error
    other: Place | None = None
    """The other end of the link."""
    source: str = ""
    """The file."""
    patch: tuple[PatchOperation, ...] = ()
    consequence: Consequence | None = None
    """The consequence that `--prove` simulates."""


RuleFunction = Callable[["Reading"], Iterator[Finding]]


@dataclass(frozen=True)
class Rule:
    """A rule: what it checks, the incident behind it, and its sources."""

    code: str
    name: str
    summary: str
    text: str
    sources: tuple[str, ...]
    severity: Severity
    check: RuleFunction = field(compare=False)


RULES: dict[str, Rule] = {}


def rule(
    code: str, name: str, *sources: str, severity: Severity = Severity.error
) -> Callable[[RuleFunction], RuleFunction]:
    """Registers a rule; its docstring is its page, and the first paragraph the summary."""

    def register(check: RuleFunction) -> RuleFunction:
        text = cleandoc(check.__doc__ or "")
        RULES[code] = Rule(code, name, " ".join(text.split("\n\n")[0].split()), text, sources, severity, check)
        return check

    return register
