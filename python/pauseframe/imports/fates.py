"""What became of the keys of another simulator's files: used, mapped, without effect, or assumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

State = Literal["used", "mapped", "no effect", "assumed"]


class Fate(NamedTuple):
    """A key of a file, its value, what became of it, and the keys of the scenario that have it or the reason."""

    file: str
    key: str
    value: str
    state: State
    how: str

    def __str__(self) -> str:
        return f"{self.file}: {self.key} {self.value}".rstrip() + f": {self.state}: {self.how}"


def comments(fates: Iterable[Fate]) -> list[str]:
    """The fates as comments of a scenario file."""
    return [f"#   {fate}" for fate in fates]


@dataclass(frozen=True)
class ImportedFolder:
    """The files of a folder by name, what became of each key, and notes about files that are not as they should be."""

    files: dict[str, str]
    fates: list[Fate]
    notes: list[str] = field(default_factory=list)
    copies: dict[str, Path] = field(default_factory=dict)
    """Files that are copied unchanged, by their names in the folder."""
