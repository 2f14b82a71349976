"""Names of real devices, from a CSV file or from `lldpctl -f json0` on the cabled switches and hosts."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pauseframe.devices.files import Json, parse_json, read_text, shown
from pauseframe.devices.sonic import name_of_file
from pauseframe.devices.sonic_db import documents, looks_like_config_db
from pauseframe.devices.wiring import Neighbour, lldp_neighbours

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pauseframe.devices.sonic_db import ConfigDb

_MAC = re.compile(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}")
_PORT = re.compile(r"[A-Za-z0-9_./-]{1,64}")
_LANES = re.compile(r"[0-9]{1,5}(,[0-9]{1,5}){0,15}")
INTERFACE = re.compile(r"[A-Za-z0-9_.-]{1,15}")


class DeployError(ValueError):
    """A plan cannot be deployed as requested; the message gives the reason and the remedy."""


class Card(NamedTuple):
    """An interface of a host; an empty name or MAC address is unknown."""

    name: str = ""
    mac: str = ""


@dataclass
class Inventory:
    """MAC addresses and interfaces of hosts, ports and lanes of switches, and LLDP's view of the links."""

    cards: dict[str, list[Card]] = field(default_factory=lambda: defaultdict(list))
    """Interfaces of each host, in the order of its links."""
    ports: dict[tuple[str, str], str] = field(default_factory=dict)
    """Map from (device, port in the plan) to the port name on the device."""
    lanes: dict[tuple[str, str], str] = field(default_factory=dict)
    """Map from (device, port name) to the SerDes lanes of the port."""
    databases: dict[str, ConfigDb] = field(default_factory=dict)
    """The whole configuration of switches, if it was collected: a patch is then the difference from it."""
    given: bool = False
    """True if an inventory was read; without one, the files contain placeholders."""
    seen: dict[tuple[str, str], list[Neighbour]] = field(default_factory=lambda: defaultdict(list))
    """Map from (device, other device) to the first device's LLDP data about its links to the other device."""

    def card(self, host: str, number: int, wired: str) -> Card:
        """The interface of a host's link: the one that LLDP names (`wired`), else by the number of the link."""
        own = self.cards.get(host, [])
        named = [card for card in own if wired and card.name == wired]
        return (named or own[number : number + 1] or [Card()])[0]

    def links(self, one: str, other: str) -> list[tuple[str, str, str]]:
        """The links between two devices: (port of the first, port of the second, MAC address of the second port).

        Each device knows its own ports best: SONiC announces aliases, Linux MAC addresses. Raises DeployError if there
        are several links and the data of the two devices do not match.
        """
        ours, theirs = (sorted(self.seen.get(pair, []), key=_order) for pair in ((one, other), (other, one)))
        if not ours:
            return [(_announced(far), far.port, "") for far in theirs]
        found, left = [], list(theirs)
        for own in ours:
            match = next((far for far in left if far.port == own.far or own.port in {far.far, far.description}), None)
            if match is None and len(ours) == len(theirs) == 1:
                match = theirs[0]
            if match is None and theirs:
                raise DeployError(
                    f"LLDP does not say which port of {shown(other)} is behind {shown(one)} {shown(own.port)}: there "
                    f"are {len(ours)} links; name their ports in a CSV inventory"
                )
            if match is not None:
                left.remove(match)
            mac = own.mac if _MAC.fullmatch(own.mac) else ""
            found.append((own.port, match.port if match else _announced(own), mac))
        return found


def _announced(neighbour: Neighbour) -> str:
    """Name of the neighbour's port as LLDP announces it; Linux puts it into the description, beside the MAC address."""
    name = neighbour.description if neighbour.mac else neighbour.far
    return name if _PORT.fullmatch(name) else ""


def _order(neighbour: Neighbour) -> list[tuple[int, str]]:
    """Sort key that puts Ethernet8 before Ethernet12."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]{1,18})", neighbour.port)]


def read_inventory(paths: Iterable[Path]) -> Inventory:
    """Reads CSV files, LLDP files, the config_db.json of switches, or folders of these.

    The columns of a CSV file are `device` and, as far as known, `mac`, `port`, `name`, `lanes`. The name of another
    file or of its folder names the device (leaf0.lldp.json, leaf0/config_db.json).
    """
    found = Inventory()
    for path in paths:
        found.given = True
        if not path.exists():
            raise DeployError(f"{shown(path)}: there is no such file or folder")
        if path.is_dir():
            files = [p for p in sorted(path.rglob("*")) if p.suffix in {".csv", ".json"} and p.is_file()]
            if not sum(_read(file, found, wanted=False) for file in files):
                raise DeployError(
                    f"{shown(path)}: no CSV inventory, output of lldpctl -f json0 or config_db.json below it"
                )
        else:
            _read(path, found, wanted=True)
    return found


def _read(path: Path, found: Inventory, *, wanted: bool) -> bool:
    """Reads a file into the inventory; False if the file has another format, an error if such a file is `wanted`."""
    text = read_text(path)
    if path.suffix != ".json" and not text.lstrip().startswith("{"):
        try:
            _read_csv(path, text, found)
        except csv.Error as error:
            raise DeployError(f"{shown(path)}: not a CSV: {error}") from None
        return True
    device = name_of_file(path)
    value = parse_json(text, str(path))
    neighbours = lldp_neighbours(value)
    if neighbours is None and looks_like_config_db(value):
        _read_config_db(value, device, path, found)
        return True
    if neighbours is None:
        if wanted:
            raise DeployError(f"{shown(path)}: neither the output of `lldpctl -f json0` nor a config_db.json")
        return False
    for neighbour in neighbours:
        if not _PORT.fullmatch(neighbour.port):
            raise DeployError(f"{shown(path)}: {shown(neighbour.port)!r} is no name of a port")
        for name in dict.fromkeys((neighbour.device, neighbour.device.partition(".")[0])):
            found.seen[device, name].append(neighbour)
    return True


def _read_config_db(value: Json, device: str, path: Path, found: Inventory) -> None:
    """Reads the lanes of a switch from the switch's own table PORT."""
    for document in documents(value, str(path)):
        name = document.rows("DEVICE_METADATA").get("localhost", {}).get("hostname") or document.case or device
        if document.rows("DEVICE_METADATA") and document.rows("PORT"):
            found.databases[name] = document
        for port, row in document.rows("PORT").items():
            _add_lanes(found, name, port, row.get("lanes", ""), str(path))


def _add_lanes(found: Inventory, device: str, port: str, lanes: str, where: str) -> None:
    if not lanes:
        return
    if not _LANES.fullmatch(lanes):
        raise DeployError(f"{where}: {shown(lanes)!r} is not a list of lanes such as 0,1,2,3")
    found.lanes.setdefault((device, port), lanes)


def _read_csv(path: Path, text: str, found: Inventory) -> None:
    reader = csv.DictReader(text.splitlines())
    if not reader.fieldnames or "device" not in reader.fieldnames:
        raise DeployError(f"{shown(path)}: the header needs a column device; mac, port and name as far as known")
    if doubled := next((name for name in reader.fieldnames if reader.fieldnames.count(name) > 1), None):
        raise DeployError(f"{shown(path)}: the column {shown(doubled)} is there twice: keep one of them")
    for line, row in enumerate(reader, 2):
        where = f"{shown(path)}: line {line}"
        device, port = row.get("device") or "", row.get("port") or ""
        mac, name = (row.get("mac") or "").strip().lower(), (row.get("name") or "").strip()
        if mac and not _MAC.fullmatch(mac):
            raise DeployError(f"{where}: {shown(mac)!r} is no MAC address such as 00:11:22:33:44:55")
        if mac and any(mac == card.mac for own in found.cards.values() for card in own):
            raise DeployError(f"{where}: {mac} is there twice")
        if name and not _PORT.fullmatch(name):
            raise DeployError(f"{where}: {shown(name)!r} is no name of a port")
        _add_lanes(found, device, name or port, (row.get("lanes") or "").strip().replace(" ", ","), where)
        nic = "" if port else name
        if nic and not INTERFACE.fullmatch(nic):
            raise DeployError(f"{where}: {shown(nic)!r} is no name of an interface")
        if mac or nic:
            _add_card(found.cards[device], Card(nic, mac))
        if name and port:
            found.ports[device, port] = name


def _add_card(own: list[Card], card: Card) -> None:
    """Adds an interface; a name alone and a MAC address alone, in two rows or files, are of one."""
    last = own[-1] if own else card
    if own and not (last.name and card.name) and not (last.mac and card.mac):
        own[-1] = Card(last.name or card.name, last.mac or card.mac)
    else:
        own.append(card)
