"""The statements of a vendor's configuration: which were read, and where each stands."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from pauseframe.devices.files import number_in, shown
from pauseframe.devices.model import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

T = TypeVar("T")
Path = tuple[str, ...]
Words = tuple[str, str, str]
"""A place in the vendor's words: the kind of object, its name ("{}" stands for the key of the row), and the rest."""


@dataclass(slots=True)
class Statements:
    """The leaves of a configuration by their path; reading one takes it."""

    source: str
    leaves: dict[Path, tuple[str, int]]
    """Value and line of each leaf; of a path that stands twice the last counts, as on the device."""
    words: Mapping[tuple[str, str], Words]
    """The vendor's words for a table of SONiC and a field of it."""
    general: Callable[[Path], str]
    """The kind of a statement, without its names and numbers."""
    taken: set[Path] = field(default_factory=set)
    alias: dict[str, str] = field(default_factory=dict)
    """For the name of an interface, the key with several that has its statements."""
    refused: dict[Path, None] = field(default_factory=dict)
    """Statements whose value is not understood: they are named, and do not count as read."""
    dangling: dict[Path, str] = field(default_factory=dict)
    """Statements that name something, and the kind and name of it, which no statement defines."""
    unheld: dict[Path, str] = field(default_factory=dict)
    """Statements that rules read, and why a simulated fabric has nothing of them."""
    remarks: list[str] = field(default_factory=list)
    """What was read and has no place in the device model."""
    _children: dict[Path, dict[str, None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Indexes the children of each path."""
        for path in self.leaves:
            for depth in range(len(path)):
                self._children.setdefault(path[:depth], {})[path[depth]] = None

    def names(self, *path: str) -> list[str]:
        """The words that follow a path, in order."""
        return list(self._children.get(path, {}))

    def get(self, *path: str) -> str | None:
        """The value of a leaf, which counts as read; None if it is missing."""
        found = self.leaves.get(path)
        if found is None:
            return None
        self.taken.add(path)
        return found[0]

    def parsed(self, parse: Callable[[str], T | None], *path: str) -> T | None:
        """A leaf's value by `parse`; None if it is missing, or not understood, which its note tells."""
        text = self.get(*path)
        value = None if text is None else parse(text)
        if text is not None and value is None:
            self.refused[path] = None
        return value

    def number(self, low: int, high: int, *path: str) -> int | None:
        """A leaf's whole number within limits; None if it is missing or refused."""
        return self.parsed(lambda text: number_in(text, low, high), *path)

    def word(self, words: Mapping[str, T], *path: str) -> T | None:
        """What one of the words of a leaf means; None if it is missing or refused."""
        return self.parsed(words.get, *path)

    def take(self, *path: str) -> None:
        """Counts all leaves below a path as read."""
        self.taken.update(self._below(path))

    def refuse(self, *path: str) -> None:
        """Names all leaves below a path as not understood."""
        self.refused |= dict.fromkeys(self._below(path))

    def _below(self, path: Path) -> Iterator[Path]:
        """The leaves at and below a path."""
        todo = [path]
        while todo:
            one = todo.pop()
            if one in self.leaves:
                yield one
            todo += [(*one, name) for name in self._children.get(one, ())]

    def has(self, *path: str) -> bool:
        """True if a path is there, with or without something below it; a leaf counts as read."""
        if path in self.leaves:
            self.taken.add(path)
        return path in self.leaves or path in self._children

    def own(self, place: Place) -> Place:
        """A place of a rule in the vendor's words."""
        key, _, number = place.key.partition("|")
        for known in ((place.table, place.field), (place.table, "")):
            if known in self.words:
                kind, name, rest = (text.replace("{}", key).replace("{n}", number or key) for text in self.words[known])
                return Place(place.device, kind, name.replace("{f}", place.field), rest.replace("{f}", place.field))
        return place

    def line_of(self, place: Place) -> int:
        """The line of a place in the vendor's words: that of the statement that begins most like it; 0 if none does."""
        words = f"{place.table} {self.alias.get(place.key, place.key)} {place.field}".split()
        best, line = 1, 0
        for leaf, (_, at) in self.leaves.items():
            alike = 0
            for one, other in zip(words, " ".join(leaf).split(), strict=False):
                if one != other:
                    break
                alike += 1
            if alike > best:
                best, line = alike, at
        return line

    def kinds(self) -> dict[str, tuple[bool, list[int]]]:
        """Statements by kind: whether all of them were read, and the lines of those that were not, or of all."""
        read: dict[str, list[int]] = defaultdict(list)
        unread: dict[str, list[int]] = defaultdict(list)
        for path, (_, line) in self.leaves.items():
            (read if path in self.taken and path not in self.refused else unread)[self.general(path)].append(line)
        return {kind: (True, lines) for kind, lines in read.items()} | {
            kind: (False, lines) for kind, lines in unread.items()
        }

    def hold_not(self, why: str, *paths: Path) -> None:
        """Notes statements that rules read and a simulated fabric has nothing of."""
        self.unheld |= dict.fromkeys(paths, why)

    def unheld_kinds(self) -> dict[str, str]:
        """Kinds of which a simulated fabric lacks a statement, with the reason."""
        return {self.general(path): why for path, why in self.unheld.items() if path in self.leaves}

    def notes(self) -> Iterator[str]:
        """A note for each kind of statement that was not read, with file and lines."""
        refused: dict[str, list[int]] = defaultdict(list)
        for path in self.refused:
            value, line = self.leaves[path]
            refused[f"{path[-1]}: {value}" if value else path[-1]].append(line)
        named = {line for lines in refused.values() for line in lines}
        for kind, (taken, lines) in self.kinds().items():
            if not taken and (left := [line for line in lines if line not in named]):
                yield f"{shown(self.source)}: not read: {shown(kind)} ({_at(left)})"
        for text, lines in refused.items():
            yield f"{shown(self.source)}: not understood, so not used: {shown(text)} ({_at(lines)})"
        yield from (f"{shown(self.source)}: {shown(remark)}" for remark in dict.fromkeys(self.remarks))


def _at(lines: list[int]) -> str:
    return f"{'lines' if len(set(lines)) > 1 else 'line'} {ranges(lines)}"


def ranges(lines: list[int]) -> str:
    """Line numbers with ranges.

    >>> ranges([3, 1, 2, 9])
    '1-3, 9'
    """
    found: list[list[int]] = []
    for line in sorted(set(lines)):
        if found and line == found[-1][1] + 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return ", ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in found)
