"""Configs of the HPCC simulator and its forks: lines of a key and its values, and what became of each key."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pauseframe._core import InputError
from pauseframe.files.reading import read_bytes

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """The values of a key, and its line."""

    words: list[str]
    line: int

    @property
    def text(self) -> str:
        """The values as in the file."""
        return " ".join(self.words)


@dataclass
class Config:
    """A config, and what became of the keys decided up to now."""

    path: Path
    entries: dict[str, Entry]
    fates: dict[str, str] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)

    def used(self, key: str, text: str) -> None:
        """The scenario follows the key."""
        self.fates[key] = f"used: {text}"

    def idle(self, key: str, why: str) -> None:
        """The key changes nothing here."""
        self.fates[key] = f"no effect: {why}"

    def refuse(self, key: str, why: str) -> None:
        """The key cannot be followed, which `raise_refusals` reports."""
        self.refusals[key] = why

    def error(self, key: str, message: str) -> InputError:
        """An error about this key, with its line."""
        entry = self.entries.get(key)
        place = f"{self.path}, line {entry.line}" if entry else f"{self.path}"
        return InputError(f"{place}: {key} {message}")

    def one(self, key: str, default: str | None = None) -> str:
        """The first value of a key. Raises InputError if the key is missing and has no default."""
        entry = self.entries.get(key)
        if entry is None:
            if default is None:
                raise InputError(f"{self.path}: {key} is missing")
            return default
        if not entry.words:
            raise self.error(key, "has no value")
        return entry.words[0]

    def number(self, key: str, default: str) -> float:
        """The value of a key as a finite number."""
        text = self.one(key, default)
        try:
            return finite(text)
        except ValueError:
            raise self.error(key, f"{text} is no number") from None

    def whole(self, key: str, default: str) -> int:
        """The value of a key as a whole number from 0 on."""
        number = self.number(key, default)
        if number != int(number) or number < 0:
            raise self.error(key, f"{self.one(key, default)} is no whole number from 0 on")
        return int(number)

    def rate(self, key: str) -> int:
        """A rate in ns-3's notation, in bits per second."""
        text = self.one(key)
        found = re.fullmatch(r"([0-9.]+(?:[eE][0-9]+)?)([kKMG]?)(?:bps|b/s)?", text)
        number, unit = found.groups() if found else ("", "")
        try:
            return round(finite(number) * {"": 1, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}[unit])
        except (ValueError, OverflowError):
            raise self.error(key, f"{text} is no rate in bits per second, such as 40Mb/s") from None

    def by_rate(self, key: str) -> dict[int, float]:
        """The entries of a map (`KMAX_MAP count rate value rate value ...`) by link rate in bits per second."""
        example = f"{key} 1 100000000000 {'0.2' if key == 'PMAX_MAP' else '1600'}"
        if key not in self.entries:
            raise InputError(
                f"{self.path}: {key} is missing; it is a count, then so many pairs of link rate and value: {example}"
            )
        count = self.whole(key, "")
        words = self.entries[key].words[1 : 1 + 2 * count] if count else []
        if not count or len(words) < 2 * count:
            raise self.error(key, f"is a count, then so many pairs of rate and value: {example}")
        try:
            return {int(finite(rate)): finite(value) for rate, value in zip(words[::2], words[1::2], strict=True)}
        except ValueError:
            raise self.error(key, f"{' '.join(words)}: a rate in bit/s or a value is no number") from None

    def raise_refusals(self) -> None:
        """Raises InputError with all keys that cannot be followed, if any."""
        if not self.refusals:
            return
        ordered = sorted(self.refusals.items(), key=lambda row: self.entries[row[0]].line)
        rows = [f"{self.path}, line {self.entries[key].line}: {key} {why}" for key, why in ordered]
        keys = " ".join(f"--without {key}" for key, _ in ordered)
        raise InputError("\n".join([*rows, f"change these keys, or leave them out knowingly: {keys}"]))


def finite(text: str) -> float:
    """The finite number in a text; ValueError if there is none."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


def read_entries(path: Path) -> dict[str, Entry]:
    """The keys of a config with their values and lines. Raises InputError with the line of a damaged one."""
    entries: dict[str, Entry] = {}
    try:
        data = read_bytes(path, share=16)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    for number, raw in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            line = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            byte = raw[error.start]
            raise InputError(f"{path}, line {number}: this is not UTF-8 text (byte 0x{byte:02x})") from None
        # The simulator skips words that are no keys: explanations in braces, as in its config_doc.txt.
        words = re.sub(r"\{[^}]*\}?", " ", line.split("#")[0]).split()
        if words:
            if (earlier := entries.get(words[0])) and earlier.words != words[1:]:
                raise InputError(
                    f"{path}, line {number}: {words[0]} has another value in line {earlier.line}: remove one of them"
                )
            entries[words[0]] = Entry(words[1:], number)
    return entries
