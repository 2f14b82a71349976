"""What a table of CONFIG_DB is: keys, fields, limits and references."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pauseframe.devices.files import whole_number

Check = Callable[[str], str | None]
"""Function from a text to its fault, or None."""


def number(low: int, high: int) -> Check:
    """Checks for an integer in a range."""

    def check(text: str) -> str | None:
        value = whole_number(text)
        return None if value is not None and low <= value <= high else f"a whole number from {low} to {high}"

    return check


@dataclass(frozen=True)
class OneOf:
    """Checks for one of the given words."""

    words: tuple[str, ...]

    def __call__(self, text: str) -> str | None:
        """The fault of a text, or None."""
        return None if text in self.words else "one of " + ", ".join(self.words)


def one_of(*names: str) -> Check:
    """Checks for one of the given words."""
    return OneOf(names)


def like(pattern: str, meaning: str) -> Check:
    """Checks that the whole text matches a regular expression."""
    compiled = re.compile(pattern)
    return lambda text: None if compiled.fullmatch(text) else meaning


def short(longest: int) -> Check:
    """Checks for a text of limited length."""
    return lambda text: None if len(text) <= longest else f"at most {longest} characters"


def address(version: int | None) -> Check:
    """Checks for an IP address of a version, or of any."""

    def check(text: str) -> str | None:
        try:
            found = ipaddress.ip_address(text)
        except ValueError:
            return f"an IP{f'v{version}' if version else ''} address"
        return None if version in {None, found.version} else f"an IPv{version} address"

    return check


def prefix(text: str) -> str | None:
    """The fault of a text that should be an IP prefix, or None."""
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return "an IP prefix such as 10.0.0.1/24"
    return None if "/" in text else "an IP prefix such as 10.0.0.1/24"


SIZE, WORD = number(0, 2**64 - 1), short(255)
BOOLEAN, ABLE = one_of("true", "false"), one_of("enabled", "disabled")
MAP_NAME = like(r"[a-zA-Z0-9][-a-zA-Z0-9_]{0,31}", "a name of at most 32 letters, digits, - and _")
PRIORITY_LIST = like(r"([0-7](,[0-7])*)?", 'priorities such as "3,4"')
MAC = like(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", "a MAC address such as 00:11:22:33:44:55")
QUEUE_RANGE = like(r"(1[0-5]|[0-9])(-(1[0-5]|[0-9]))?", 'a queue from 0 to 15, or a range such as "3-4"')
TC, DSCP, PRIORITY, QUEUE_INDEX = number(0, 15), number(0, 63), number(0, 7), number(0, 9)
VLAN_NAME = like(r"Vlan(409[0-5]|40[0-8][0-9]|[1-3][0-9]{3}|[1-9][0-9]{2}|[1-9][0-9]|[2-9])", "Vlan2 to Vlan4095")


@dataclass(frozen=True)
class Field:
    """A field of a row (or a part of its key): limits, and the tables whose keys the field may name."""

    check: Check | None = None
    refers: tuple[str, ...] = ()
    also: frozenset[str] = frozenset()
    """Words that are allowed in addition to keys of `refers`."""
    many: bool = False
    """True for a list, or a text with commas."""
    listed: bool = False
    """True if CONFIG_DB has a list, not a text."""


@dataclass(frozen=True)
class Table:
    """A table: the parts of its key (alternatives by number of parts), and its fields; `entries` for maps."""

    keys: tuple[tuple[tuple[str, Field], ...], ...]
    fields: Mapping[str, Field] = field(default_factory=dict)
    mandatory: tuple[str, ...] = ()
    entries: tuple[tuple[str, Field], tuple[str, Field]] | None = None
    """For a map, whose fields are entries: (name, limits) of an entry's key, and of its value."""
    open: bool = False
    """True if the table may have further fields, which are not checked."""


def key(name: str, check: Check | None = None, *refers: str, also: str = "") -> tuple[str, Field]:
    """A part of a key."""
    return name, Field(check, refers, frozenset(also.split()))


def fields(**checks: Check) -> dict[str, Field]:
    """Fields by name, each with its limits."""
    return {name: Field(check) for name, check in checks.items()}


def to(table: str, *, many: bool = False, also: str = "") -> Field:
    """A field that names a row of a table."""
    return Field(refers=(table,), many=many, also=frozenset(also.split()))


def code_map(code: str, code_check: Check, value: str, value_check: Check) -> Table:
    """A table of maps, whose fields are code points."""
    return Table(((key("name", MAP_NAME),),), entries=((code, Field(code_check)), (value, Field(value_check))))
