"""Reads what `collect.sh` gathers of a host's queues, packet rules and cards: dcb, nft, ip rule, ethtool, sysfs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pauseframe.devices.files import Json, as_list, as_rows, as_text, number_in, parse_json, read_text, whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pauseframe.devices.model import Host, Nic

INTERFACE = re.compile(r"[A-Za-z0-9_.-]{1,15}")
_OFFLOADS = {"tcp-segmentation-offload": "tso", "generic-receive-offload": "gro"}
_CLASSES = {"ef": 46, "lephb": 1, "va": 44} | {f"cs{n}": 8 * n for n in range(8)}
_CLASSES |= {f"af{n}{drop}": 8 * n + 2 * drop for n in range(1, 5) for drop in range(1, 4)}
"""DSCPs by the names that nft prints (RFC 2474, 2597, 3246, 5865, 8622)."""
ETS = ("tc-tsa", "tc-bw", "prio-tc")
"""Parameters of `dcb ets` that decide shares; its JSON has underscores."""


_GATHERED = {
    "link": "ip-link.json",
    "vlan": "ip-link.json",
    "bond": "ip-link.json",
    "address": "ip-addr.json",
    "route": "ip-route.json",
    "rule": "ip-rule.json",
    "neighbour": "ip-neigh.json",
    "dcb": "dcb-*.json",
    "nft": "nft.json",
}
"""The files from which each table of findings is read."""


def rows_of(path: Path) -> list[dict[str, Json]]:
    """Rows of a file; none if the file is missing or empty, as for a command that the device does not have."""
    if not path.is_file():
        return []
    text = read_text(path)
    value = parse_json(text, str(path)) if text.strip() else None
    return [dict(as_rows(row)) for row in (as_list(value) or ([value] if isinstance(value, dict) else []))]


def add_state(host: Host, folder: Path) -> None:
    """Adds shares, offloads, speeds, rules and registers to a host of which the interfaces are known."""
    speeds = dict(_pairs(folder / "speed.txt"))
    for nic in host.nics.values():
        if INTERFACE.fullmatch(nic.name):
            nic.ets = _ets(folder / f"dcb-ets-{nic.name}.json")
            nic.offloads |= _offloads(folder / f"ethtool-{nic.name}.txt")
            nic.speed = number_in(speeds.get(nic.name), 1, 10_000_000)
    host.gathered = frozenset(table for table, file in _GATHERED.items() if any(folder.glob(file)))
    host.rules |= _rules(folder / "ip-rule.json")
    host.code_points |= _marks(folder / "nft.json")
    _add_card(host, folder / "roce.txt")


def _ets(path: Path) -> dict[str, str]:
    """The shares in the output of `dcb -j ets show`: for each parameter a list such as "0:ets 1:strict"."""
    (row, *_) = rows_of(path) or [{}]
    found = {name: as_list(row.get(name.replace("-", "_"))) for name in ETS}
    return {
        name: " ".join(f"{n}:{as_text(v)}" for n, v in enumerate(values)) for name, values in found.items() if values
    }


def _lines(path: Path) -> list[str]:
    return read_text(path).splitlines() if path.is_file() else []


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    for line in _lines(path):
        name, _, value = line.strip().partition(" ")
        if value:
            yield name, value


def _offloads(path: Path) -> dict[str, bool]:
    """TSO and GRO in the output of `ethtool -k`."""
    values = {name.strip(): value.split() for name, _, value in (line.partition(":") for line in _lines(path))}
    return {short: values[name][0] == "on" for name, short in _OFFLOADS.items() if values.get(name)}


def _rules(path: Path) -> dict[str, int]:
    """The routing table of each source address in the output of `ip -j rule show`."""
    found = {as_text(row.get("src")): whole_number(as_text(row.get("table"))) for row in rows_of(path)}
    return {source: table for source, table in found.items() if table is not None and source not in {"", "all"}}


def _marks(path: Path) -> dict[str, int]:
    """The DSCP that rules of nftables set, by source address, in the output of `nft -j list ruleset`."""
    found: dict[str, int] = {}
    for item in as_list(rows_of(path)[0].get("nftables")) if rows_of(path) else []:
        parts = [as_rows(part) for part in as_list(as_rows(as_rows(item).get("rule")).get("expr"))]
        sources = [one for part in parts for one in _sources(as_rows(part.get("match")))]
        for change in (as_rows(part.get("mangle")) for part in parts):
            text = as_text(change.get("value"))
            if (
                _field(change.get("key")) == "dscp"
                and (point := _CLASSES.get(text, number_in(text, 0, 63))) is not None
            ):
                found |= dict.fromkeys(sources, point)
    return found


def _sources(match: Mapping[str, Json]) -> list[str]:
    """The source addresses that a match of nftables compares with."""
    right = match.get("right")
    if match.get("op") != "==" or _field(match.get("left")) != "saddr":
        return []
    values = as_list(as_rows(right).get("set")) or [right]
    return [value for value in values if isinstance(value, str)]


def _field(value: Json) -> str:
    """The field of an IPv4 header that an expression of nftables names."""
    payload = as_rows(as_rows(value).get("payload"))
    return as_text(payload.get("field")) if payload.get("protocol") == "ip" else ""


def _add_card(host: Host, path: Path) -> None:
    """Registers of DCQCN and the traffic class of RoCE packets, by their files in sysfs."""
    for file, text in _pairs(path):
        parts = file.split("/")
        if "ecn" in parts and (value := whole_number(text)) is not None:
            host.registers[parts[-1].upper()] = value
        numbers = re.findall(r"\d+", text)
        if parts[-1] == "traffic_class" and numbers and (octet := number_in(numbers[-1], 0, 255)) is not None:
            host.roce_traffic_class = octet


def ets_of_words(nic: Nic, words: list[str]) -> None:
    """The parameters of `dcb ets set`, in the order of their numbers."""
    for name in ETS:
        if name in words:
            own = []
            for word in words[words.index(name) + 1 :]:
                if not re.fullmatch(r"\d:\w+", word):
                    break
                own.append(word)
            nic.ets[name] = " ".join(sorted(own))
