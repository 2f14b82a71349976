"""Mutants that keep the grammar of their format, so that readers come to what a document means.

A document is taken apart (JSON, TOML, XML, Parquet, protocol buffers, lines of words), changed in one to three places
and written again; three kinds of traces are also drawn as whole programs. `tests/mutants.py` takes half of its mutants
from here.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import tomllib
from copy import deepcopy
from io import BytesIO
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Draw = random.Random
SMALL = (0, 1, 2, 3, 4, 5, 6, 7, 8, 2**31, 10**12)
NUMBERS = (0, 1, 2, 3, 4, 7, 8, 100, 1000, 65536, 2**31, 10**12)
"""Numbers that a reader may well accept."""


def document(name: str, content: str | bytes, draw: Draw) -> bytes | None:
    """Another document of the format of a file; None for a format without a grammar here."""
    kind = PurePath(name).suffix
    if kind in STRUCTURED:
        return STRUCTURED[kind](content if isinstance(content, bytes) else content.encode(), draw)
    if name in PROGRAMS and draw.random() < 0.5:
        return PROGRAMS[name](draw).encode()
    if isinstance(content, bytes):
        return None
    # A large fabric takes seconds, so that words of the command line get small numbers.
    return words(content, draw, NUMBERS if kind else SMALL).encode()


# Trees of values ------------------------------------------------------------------------------------------------------


def _places(value: Any, inside: Any = None, at: Any = None) -> list[tuple[Any, Any]]:
    """All (container, key) of a tree of dicts and lists."""
    here = [] if inside is None else [(inside, at)]
    if isinstance(value, dict):
        return here + [place for key in value for place in _places(value[key], value, key)]
    if isinstance(value, list):
        return here + [place for number in range(len(value)) for place in _places(value[number], value, number)]
    return here


def changed(root: Any, draw: Draw) -> Any:
    """A copy of a tree with one to three changes: another value of the same type, one part less or twice."""
    root = deepcopy(root)
    for _ in range(draw.choice([1, 1, 2, 3])):
        places = _places(root)
        if not places:
            break
        inside, at = draw.choice(places)
        how = draw.choice(["other", "other", "other", "drop", "twice", "elsewhere"])
        if how == "drop":
            del inside[at]
        elif how == "twice" and isinstance(inside, list):
            inside.append(deepcopy(inside[at]))
        elif how == "elsewhere":
            other, key = draw.choice(places)
            inside[at] = deepcopy(other[key]) if other is not inside else inside[at]
        else:
            inside[at] = _other(inside[at], places, draw)
    return root


def _other(value: Any, places: list[tuple[Any, Any]], draw: Draw) -> Any:
    """A value of the same type: of another place, or a number close by."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return draw.choice([*NUMBERS, -value, value + 1, value * 2])
    if isinstance(value, str) and (number := re.search(r"\d+", value)) and draw.random() < 0.6:
        return value[: number.start()] + str(draw.choice(NUMBERS)) + value[number.end() :]
    same = [inside[at] for inside, at in places if type(inside[at]) is type(value)]
    return deepcopy(draw.choice(same))


def toml(value: Any) -> str:
    """A value in TOML, tables inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return str(value) if isinstance(value, float) else json.dumps(value, default=str)


def whole_toml(table: dict[str, Any]) -> bytes:
    """A file in TOML; its tables are inline."""
    return "".join(f"{json.dumps(key)} = {toml(item)}\n" for key, item in table.items()).encode()


def _toml(content: bytes, draw: Draw) -> bytes:
    return whole_toml(changed(tomllib.loads(content.decode()), draw))


def _json(content: bytes, draw: Draw) -> bytes:
    return json.dumps(changed(json.loads(content), draw), indent=1).encode()


def _xml(content: bytes, draw: Draw) -> bytes:
    root = ET.fromstring(content)
    for _ in range(draw.choice([1, 2, 3])):
        parents = [one for one in root.iter() if len(one)]
        named = [one for one in root.iter() if one.attrib or (one.text or "").strip()]
        if not named or not parents:
            break
        one, other, parent = draw.choice(named), draw.choice(named), draw.choice(parents)
        how = draw.choice(["text", "attributes", "drop", "twice"])
        if how == "text":
            one.text = draw.choice([other.text, str(draw.choice(NUMBERS))])
        elif how == "attributes":
            one.attrib.update(other.attrib)
        elif how == "drop":
            parent.remove(draw.choice(list(parent)))
        else:
            parent.append(deepcopy(draw.choice(list(parent))))
    return bytes(ET.tostring(root))


def _parquet(content: bytes, draw: Draw) -> bytes:
    import polars as pl

    frame = pl.read_parquet(content)
    rows = frame.sample(frame.height, with_replacement=True, seed=draw.randrange(2**32))
    column = draw.choice(frame.columns)
    kind = frame.schema[column]
    new: Any = pl.lit(draw.choice(NUMBERS)) if kind.is_numeric() else pl.lit(draw.choice(["host0", "host3", "host9"]))
    types = [pl.Int32, pl.UInt64, pl.Float32] if kind.is_numeric() else [pl.Categorical]
    how = draw.choice(["value", "value", "type", "null", "more"])
    match how:
        case "value":
            rows = rows.with_columns(pl.when(pl.int_range(pl.len()) == 3).then(new).otherwise(column).alias(column))
        case "type":
            rows = rows.with_columns(pl.col(column).cast(draw.choice(types)))
        case "null":
            rows = rows.with_columns(pl.when(pl.int_range(pl.len()) != 3).then(column).alias(column))
        case _:
            rows = pl.concat([rows] * draw.choice([2, 5]))
    file = BytesIO()
    rows.write_parquet(file)
    return file.getvalue()


# Protocol buffers -----------------------------------------------------------------------------------------------------

Field = tuple[int, int, Any]
"""Number, wire type, and value: an integer or bytes."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def _as_varint(value: int) -> bytes:
    value %= 2**64
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _fields(data: bytes) -> list[Field]:
    at, found = 0, list[Field]()
    while at < len(data):
        tag, at = _varint(data, at)
        value, at = _varint(data, at)
        if tag & 7 == 2:
            value, at = data[at : at + value], at + value  # type: ignore[assignment]
        found.append((tag >> 3, tag & 7, value))
    return found


def _as_message(fields: list[Field]) -> bytes:
    parts = []
    for number, wire, value in fields:
        rest = _as_varint(len(value)) + value if wire == 2 else _as_varint(value)
        parts.append(_as_varint(number << 3 | wire) + rest)
    return b"".join(parts)


def _chakra(content: bytes, draw: Draw) -> bytes:
    """The messages of a trace, each with its length before it; a field, or one of an attribute, is another."""
    messages, at = [], 0
    while at < len(content):
        length, at = _varint(content, at)
        messages.append(_fields(content[at : at + length]))
        at += length
    for _ in range(draw.choice([1, 1, 2, 3])):
        nodes = messages[1:]
        message = draw.choice(nodes)
        _change_field(message, draw)
        if draw.random() < 0.2:
            messages.append(deepcopy(draw.choice(nodes)))
        message.append((draw.choice([4, 5]), 0, draw.choice([1, 2, 3, 9])))  # depends on
        if draw.random() < 0.7:
            message.pop()
    return b"".join(_as_varint(len(one)) + one for one in map(_as_message, messages))


def _change_field(message: list[Field], draw: Draw) -> None:
    at = draw.randrange(len(message))
    number, wire, value = message[at]
    if wire == 2 and number == 10:
        inner = _fields(value)
        where = draw.randrange(len(inner))
        if inner[where][1] == 0:
            inner[where] = (inner[where][0], 0, draw.choice([*NUMBERS, -1]))
        message[at] = (number, wire, _as_message(inner))
    elif wire == 0:
        message[at] = (number, wire, draw.choice([*NUMBERS, -1]))
    elif draw.random() < 0.3:
        del message[at]


# Lines of words -------------------------------------------------------------------------------------------------------


def words(text: str, draw: Draw, others: Sequence[int] = NUMBERS) -> str:
    """Lines with another word of the same column, another number, or one line less, twice or elsewhere."""
    lines = text.splitlines() or [""]
    for _ in range(draw.choice([1, 1, 2, 3])):
        at = draw.randrange(len(lines))
        how = draw.choice(["number", "number", "column", "column", "drop", "twice", "move"])
        if how == "number":
            numbers = list(re.finditer(r"\d+", lines[at]))
            if numbers:
                one = draw.choice(numbers)
                lines[at] = lines[at][: one.start()] + str(draw.choice(others)) + lines[at][one.end() :]
        elif how == "column":
            lines[at] = _other_word(lines, at, draw)
        elif how == "drop" and len(lines) > 1:
            del lines[at]
        elif how == "twice":
            lines.insert(at, lines[at])
        else:
            lines.insert(draw.randrange(len(lines)), lines.pop(at))
    return "\n".join(lines) + "\n"


def _other_word(lines: list[str], at: int, draw: Draw) -> str:
    apart = [re.split(r"([\s,]+)", line) for line in lines]
    column = draw.randrange(len(apart[at]))
    same = [line[column] for line in apart if len(line) > column]
    apart[at][column] = draw.choice(same)
    return "".join(apart[at])


# Whole programs -------------------------------------------------------------------------------------------------------


def _messages(draw: Draw, ranks: int) -> list[tuple[int, int, int, int]]:
    """Sender, receiver, bytes and tag of messages; seldom one to its own rank."""
    return [
        (draw.randrange(ranks), draw.randrange(ranks), draw.choice([1, 8, 1000, 65536]), draw.choice([0, 1, 7]))
        for _ in range(draw.randrange(1, 8))
    ]


def goal(draw: Draw) -> str:
    """A schedule of LogGOPSim (GOAL): labelled steps with dependencies, seldom a receive or a label too few."""
    ranks = draw.choice([1, 2, 3, 4])
    steps: list[list[str]] = [[] for _ in range(ranks)]
    for a, b, size, tag in _messages(draw, ranks):
        steps[a].append(f"send {size}b to {b} tag {tag}")
        if draw.random() < 0.95:
            steps[b].append(f"recv {size}b from {a} tag {tag}")
    text = f"num_ranks {ranks}\n"
    for rank, own in enumerate(steps):
        own.append(f"calc {draw.choice([0, 1, 1000])}")
        lines = [f"l{number}: {step}" for number, step in enumerate(own)]
        for number in range(1, len(own)):
            if draw.random() < 0.5:
                other = draw.randrange(number) if draw.random() < 0.95 else draw.randrange(len(own) + 1)
                lines.append(f"l{number} {draw.choice(['requires', 'requires', 'irequires'])} l{other}")
        text += f"rank {rank} {{\n" + "".join(f"{line}\n" for line in lines) + "}\n"
    return text


def pmpi(draw: Draw) -> str:
    """A trace of MPI calls (docs/reference/traces.md) of all ranks."""
    ranks = draw.choice([1, 2, 3, 4])
    calls: list[list[str]] = [[] for _ in range(ranks)]
    for number, (a, b, size, tag) in enumerate(_messages(draw, ranks)):
        calls[a] += [f"10 isend {number} {b} {size} {tag}", f"0 wait {number}"]
        if draw.random() < 0.95:
            calls[b].append(f"0 recv {a} {size + draw.choice([0, 0, 8])} {tag}")
        if draw.random() < 0.3:
            for own in calls if draw.random() < 0.95 else calls[:-1]:
                own.append("0 barrier 0")
    text = "# npb-pmpi-trace 1\n"
    for rank, own in enumerate(calls):
        text += f"rank {rank} of {ranks}\ncomm 0 {ranks} all\n" + "".join(f"{call}\n" for call in own) + "end 0\n"
    return text


def simgrid(draw: Draw) -> str:
    """A time-independent trace of SimGrid of all ranks."""
    ranks = draw.choice([1, 2, 3, 4])
    calls: list[list[str]] = [[f"{rank} init"] for rank in range(ranks)]
    for a, b, size, tag in _messages(draw, ranks):
        calls[a].append(f"{a} send {b} {tag} {size}")
        if draw.random() < 0.95:
            calls[b].append(f"{b} recv {a} {tag} {size}")
        calls[a].append(f"{a} compute {draw.choice([0, 1000, 10**9])}")
    return "".join(f"{call}\n" for rank, own in enumerate(calls) for call in [*own, f"{rank} finalize"])


def _gzip(_: bytes, draw: Draw) -> bytes:
    return gzip.compress(pmpi(draw).encode())


PROGRAMS: dict[str, Callable[[Draw], str]] = {"goal.txt": goal, "pmpi.txt": pmpi, "simgrid.txt": simgrid}
STRUCTURED: dict[str, Callable[[bytes, Draw], bytes]] = {
    ".json": _json,
    ".toml": _toml,
    ".xml": _xml,
    ".graphml": _xml,
    ".parquet": _parquet,
    ".et": _chakra,
    ".gz": _gzip,
}
