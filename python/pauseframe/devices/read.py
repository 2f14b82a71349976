"""Reads files and folders into a `Fabric`. The content decides a file's format; `Fabric.notes` lists skipped parts."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from pauseframe.devices import eos, linux, minigraph, netbox, nvue, sonic, swssconfig, wiring
from pauseframe.devices.files import DeviceFileError, parse_json, read_text, shown
from pauseframe.devices.model import Fabric, LookupRow, Switch
from pauseframe.devices.sonic_db import ConfigDb, documents, looks_like_config_db
from pauseframe.devices.sonic_schema import TABLES
from pauseframe.files.kinds import kind_of
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pauseframe.lint.design import Design

MOST_FILES = 20_000
SKIPPED = {"plan.json", "tables.json", "rollout.json", "inventory.json", "deploy.json", "fdb-undo.json",
           "flooding-undo.json", "check.sh", "tuned.patch"}  # fmt: skip
"""Files that this program writes and that configure no device."""
INVENTORY = "device,mac,"
"""Begin of the inventory that `pauseframe deploy` writes and reads."""
READ = {".json", ".xml", ".ini", ".network", ".netdev", ".csv", ".yaml", ".yml", ".cfg", ".conf", ".eos"}
NAMES = re.compile(r"(.*[._-])?(running|startup)[._-]config(\.txt)?")
"""Names of configurations without one of these suffixes."""

__all__ = ["DeviceFileError", "Reading", "read_fabric"]


@dataclass
class Reading:
    """The fabric, and the rows of each CONFIG_DB as written."""

    fabric: Fabric = field(default_factory=Fabric)
    databases: dict[str, ConfigDb] = field(default_factory=dict)
    """The CONFIG_DB of each switch, by name."""
    malformed: list[tuple[str, str]] = field(default_factory=list)
    """Faults as (file, fault), for files of which the remainder was read."""
    files: int = 0
    release: str | None = None
    """The SONiC release whose models the rows are checked against."""
    design: Design | None = None
    """What a plan or scenario puts on the devices, to compare them with."""
    _wires: list[wiring.Wire] = field(default_factory=list)
    _unread: list[Path] = field(default_factory=list)
    """Files in the folders of devices that no reader knows."""
    _lookups: list[tuple[Path, list[LookupRow]]] = field(default_factory=list)
    _loaded: list[tuple[str, swssconfig.Loaded]] = field(default_factory=list)
    _minigraphs: list[minigraph.Minigraph] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)
    """For each file or folder name, the name that the device gives itself."""
    _files: dict[str, str] = field(default_factory=dict)
    """For each device, the name by its file or folder."""

    def rows(self, device: str, table: str) -> Mapping[str, Mapping[str, str]]:
        """The rows of a table of CONFIG_DB; none for devices without one: other vendors', and those of minigraphs."""
        database = self.databases.get(device)
        return {} if database is None else database.rows(table)


WANTED = (
    "config_db.json, pg_profile_lookup.ini, minigraph.xml, lldp.json, NVUE's startup.yaml, running-configurations of "
    "EOS, cables of NetBox, or folders of `collect.sh`"
)


def _refuse_other_kinds(path: Path) -> None:
    kind = kind_of(path)
    if kind is not None and kind.key not in ("device", "deployment"):
        raise DeviceFileError(f"{shown(kind.message(path, 'a device file'))}; device files are {WANTED}")


def read_fabric(paths: Sequence[Path], *, topology: Path | None = None) -> Reading:
    """Reads device files, and searches folders for them.

    Raises DeviceFileError if a named file cannot be read, or if no device file exists.
    """
    reading = Reading()
    for path in paths:
        if not path.exists():
            raise DeviceFileError(f"{shown(path)}: there is no such file or folder")
        if path.is_file():
            _refuse_other_kinds(path)
        if path.is_dir() and linux.is_host_folder(path):
            _read_host(path, reading)
            continue
        for file in [path] if path.is_file() else _files_below(path, reading):
            _read_file(file, reading)
    if reading.files == 0:
        for path in paths:
            _refuse_other_kinds(path)
        if reading.fabric.notes:
            raise DeviceFileError(f"{reading.fabric.notes[0]}; give {WANTED}")
        raise DeviceFileError(f"{shown(', '.join(map(str, paths)))}: no device file: give {WANTED}")
    cabling = [] if topology is None else wiring.of_topology(topology)
    reading._wires = cabling + reading._wires
    _put_together(reading)
    if topology is not None:
        _check_cabling(topology, cabling, reading)
    _name_unread(reading)
    return reading


def _check_cabling(topology: Path, wires: Sequence[wiring.Wire], reading: Reading) -> None:
    """Refuses a topology file without a device of these files; adds a note about one without names of ports."""
    named = {name for wire in wires for name in (wire.device, wire.other)}
    known = {*reading.fabric.switches, *reading.fabric.hosts}
    if not wires:
        reading.fabric.notes.append(f"{shown(topology)}: names the ports of no link, so it gives no cables")
    elif not named & known:
        raise DeviceFileError(
            f"{shown(topology)}: none of its nodes ({shown(', '.join(sorted(named)[:4]))}) is one of the devices "
            f"({shown(', '.join(sorted(known)[:4]))}): use the names of the devices"
        )


def _name_unread(reading: Reading) -> None:
    """Adds a note with the files of devices that no rule reads."""
    sources = [host.source for host in reading.fabric.hosts.values()]
    folders = {Path(source) for source in (*sources, *(switch.source for switch in reading.fabric.switches.values()))}
    folders |= {folder.parent for folder in folders if folder.is_file()}
    own = Counter(path.name for path in reading._unread if folders & {*path.parents} and path.suffix != ".md")
    if own:
        listed = ", ".join(
            shown(name) + (f" ({count} times)" if count > 1 else "") for name, count in sorted(own.items())
        )
        reading.fabric.notes.append(f"no rule reads these files of devices: {listed}")


def _files_below(folder: Path, reading: Reading) -> Iterator[Path]:
    found = 0
    # A config_db.json is read before the files beside it, because their tables are added to it.
    for path in sorted(folder.rglob("*"), key=lambda p: (str(p.parent), p.name != "config_db.json", p.name)):
        if path.is_dir() and linux.is_host_folder(path):
            _read_host(path, reading)
        if not path.is_file() or path.name in SKIPPED:
            continue
        if linux.is_host_folder(path.parent) or path.parent.name == "networkd":
            continue
        if path.is_symlink() or not (path.suffix.lower() in READ or NAMES.fullmatch(path.name.lower())):
            reading._unread.append(path)
            continue
        found += 1
        if found > MOST_FILES:
            raise DeviceFileError(f"{shown(folder)}: more than {MOST_FILES} files: name the ones to read")
        yield path


def _read_host(folder: Path, reading: Reading) -> None:
    files = linux.read_host(folder, reading.fabric)
    reading._unread += [file for file in files if not linux.is_read(file)]
    reading.files += len(files)


def _read_file(path: Path, reading: Reading) -> None:
    suffix = path.suffix.lower()
    if suffix in {".network", ".netdev"}:
        return
    text = read_text(path)
    source = str(path)
    if suffix == ".xml" or text.lstrip().startswith("<"):
        graph = minigraph.read(text, source)
        reading._minigraphs.append(graph)
        reading._wires += graph.wires
    elif suffix == ".ini":
        rows, wrong = sonic.lookup_rows(text)
        reading.malformed += [(source, line) for line in wrong]
        reading._lookups.append((path, rows))
    elif suffix == ".csv":
        _read_csv(text, source, reading)
    elif eos.looks_like(text):
        _add_vendor(eos.read(text, source, sonic.name_of_file(path)), reading, path)
    elif nvue.looks_like(text) and (switch := nvue.read(text, source, sonic.name_of_file(path))) is not None:
        _add_vendor(switch, reading, path)
    elif suffix != ".json" and not text.lstrip().startswith(("{", "[")):
        reading._unread.append(path)
        return
    else:
        _read_json(path, text, reading)
    reading.files += 1


def _read_csv(text: str, source: str, reading: Reading) -> None:
    wires = netbox.of_csv(text, source)
    if wires is None and text.startswith(INVENTORY):
        reading.files -= 1
    elif wires is None:
        reading.fabric.notes.append(f"{shown(source)}: no cables of NetBox: left out")
        reading.files -= 1
    else:
        reading._wires += wires


def _read_json(path: Path, text: str, reading: Reading) -> None:
    twice: list[str] = []
    value = parse_json(text, str(path), twice)
    reading.malformed += [
        (str(path), f"{shown(key)} stands twice in one object: only the last counts") for key in twice
    ]
    name = sonic.name_of_file(path)
    if (found := wiring.lldp_neighbours(value)) is not None:
        reading._wires += wiring.wires_of(found, name, str(path))
        reading.fabric.roles |= wiring.roles_of(found)
    elif (cables := netbox.of_json(value, str(path))) is not None:
        reading._wires += cables
    elif (loaded := swssconfig.read(value, str(path))) is not None:
        reading._loaded.append((name, loaded))
        reading.malformed += [(str(path), fault) for fault in loaded.faults]
        if loaded.others:
            listed = ", ".join(map(shown, sorted(loaded.others)))
            reading.fabric.notes.append(f"{shown(path)}: no rule reads {listed}")
    elif looks_like_config_db(value):
        for document in documents(value, str(path)):
            if not _joined(document, path, reading):
                _add_switch(document, document.case or name, reading, (path, name))
    elif isinstance(value, dict) and not value:
        _add_switch(ConfigDb(str(path)), name, reading, (path, name))
    else:
        known = "CONFIG_DB, lldpctl -f json0, EOS's show lldp neighbors | json, swssconfig FDB_TABLE, cables of NetBox"
        reading.fabric.notes.append(f"{shown(path)}: none of what is read ({known}): left out")
        reading.files -= 1


def _add_vendor(switch: Switch, reading: Reading, path: Path) -> None:
    """Adds a switch of another vendor, with notes about the statements that were not read."""
    by_file = sonic.name_of_file(path)
    switch.hostname = switch.name if switch.name != by_file else ""
    _distinguish(switch, reading, by_file)
    reading.fabric.switches[switch.name] = switch
    reading._names.setdefault(by_file, switch.name)
    reading._names.setdefault(f"{path.resolve().parent}/", switch.name)
    if switch.statements is not None:
        reading.fabric.notes += switch.statements.notes()


def _distinguish(switch: Switch, reading: Reading, by_file: str, *, noted: bool = True) -> None:
    """Gives a switch whose name is taken the name of its file, or the first one that of its file: leaf0/config_db.json.

    A number is added where both are taken.
    """
    switches, own = reading.fabric.switches, switch.name
    first = switches.get(own)
    if first is not None:
        of_first = reading._files.get(own, own)
        if noted and by_file == own and of_first not in switches:
            _rename(reading, own, of_first)
        elif noted and by_file not in switches:
            switch.name = by_file
        else:
            switch.name = next(name for n in count(2) if (name := f"{own}#{n}") not in switches)
        one, other = (switch, first) if switch.name != own else (first, switch)
        if noted:
            reading.fabric.notes.append(
                f"{shown(one.source)}: its hostname {shown(own)} is also that of {shown(other.source)}: read as "
                f"{shown(one.name)}"
            )
    reading._files[switch.name] = by_file


def _rename(reading: Reading, old: str, new: str) -> None:
    """Gives a device that was read another name."""
    if old == new:
        return
    for devices in (reading.fabric.switches, reading.databases, reading._files):
        if old in devices:
            devices[new] = devices.pop(old)  # type: ignore[assignment]
    if new in reading.fabric.switches:
        reading.fabric.switches[new].name = new
    for key, name in reading._names.items():
        if name == old:
            reading._names[key] = new


def _joined(document: ConfigDb, path: Path, reading: Reading) -> bool:
    """Adds the tables of a file to the config_db.json beside it, as `config load` would; True if it did.

    A file with another hostname belongs to another device, unless the config_db.json has none.
    """
    main = path.parent / "config_db.json"
    if document.case or path.name == main.name or not main.is_file():
        return False
    device = next((name for name, known in reading.databases.items() if known.source == str(main)), None)
    if device is None:
        return False
    known = reading.databases[device]
    hostname, own = (one.rows("DEVICE_METADATA").get("localhost", {}).get("hostname") for one in (document, known))
    if hostname not in {None, device, own} and (own is not None or document.whole):
        return False
    for table, rows in document.tables.items():
        into = known.tables.setdefault(table, {})
        for key, row in rows.items():
            into.setdefault(key, {}).update(row)
    known.malformed += document.malformed
    known.joined.append(document.source)
    known.bracketed |= document.bracketed
    switch = sonic.switch_of(known, device)
    if switch.name in reading.fabric.switches:
        switch.name = device
    else:
        _rename(reading, device, switch.name)
    reading.fabric.switches[switch.name] = switch
    return True


def _add_switch(document: ConfigDb, name: str, reading: Reading, origin: tuple[Path, str]) -> None:
    switch = sonic.switch_of(document, name)
    switch.hostname = "" if document.case else switch.hostname
    _distinguish(switch, reading, origin[1], noted=not document.case)
    reading.fabric.switches[switch.name] = switch
    reading.databases[switch.name] = document
    path, by_file = origin
    reading._names.setdefault(by_file, switch.name)
    reading._names.setdefault(f"{path.resolve().parent}/", switch.name)
    others = sorted(set(document.tables) - set(TABLES))
    if others and not document.case:
        listed = ", ".join(map(shown, others[:8])) + (" …" if len(others) > 8 else "")
        reading.fabric.notes.append(
            f"{shown(switch.name)}: {counted(len(others), 'other table')}, not looked at: {listed}"
        )
    if not document.case and not set(document.tables) & set(TABLES):
        reading.fabric.notes.append(f"{shown(document.source)}: it has no table that rules read: nothing was checked")


def reread(reading: Reading, changed: Mapping[str, ConfigDb]) -> Reading:
    """The reading with other CONFIG_DBs for some switches."""
    fabric = replace(reading.fabric, switches=dict(reading.fabric.switches), links=[], notes=[])
    again = replace(reading, fabric=fabric, databases={**reading.databases, **changed})
    for name, database in changed.items():
        fabric.switches[name] = replace(sonic.switch_of(database, name), name=name)
    _put_together(again)
    return again


def _add_devices(reading: Reading) -> None:
    """Adds the kinds of devices, and the switches of minigraphs that no CONFIG_DB describes."""
    fabric = reading.fabric
    for database in reading.databases.values():
        for name, row in database.rows("DEVICE_NEIGHBOR_METADATA").items():
            if row.get("type"):
                fabric.roles[name] = minigraph.role_of(row["type"])
    for graph in reading._minigraphs:
        fabric.roles |= graph.roles
        if graph.switch is not None:
            known = fabric.switches.setdefault(graph.switch.name, graph.switch)
            known.peer_switch = known.peer_switch or graph.switch.peer_switch


def _put_together(reading: Reading) -> None:
    fabric = reading.fabric
    _add_devices(reading)
    for path, rows in reading._lookups:
        folder = f"{path.resolve().parent}/"
        below = [s for s in fabric.switches.values() if f"{Path(s.source).resolve().parent}/".startswith(folder)]
        for switch in below if len(reading._lookups) > 1 else fabric.switches.values():
            switch.lookup, switch.lookup_source = rows, str(path)
        if not fabric.switches:
            lone = sonic.switch_of(ConfigDb(str(path)), sonic.name_of_file(path))
            lone.lookup, lone.lookup_source, lone.whole = rows, str(path), False
            fabric.switches[lone.name] = lone
    learns: dict[str, dict[str, bool]] = defaultdict(dict)
    for name, loaded in reading._loaded:
        owner = fabric.switches.get(reading._names.get(name, name))
        if owner is None:
            what = "static FDB rows" if loaded.fdb is not None else "learning and flooding"
            fabric.notes.append(f"{what} of {shown(name)}: no CONFIG_DB of it: left out")
            continue
        learns[owner.name] |= loaded.learns
        replace(loaded, learns=learns[owner.name]).apply(owner)
        if loaded.fdb is not None:
            owner.loaded_fdb = list(dict.fromkeys([*owner.loaded_fdb, *loaded.fdb]))
            owner.fdb = list(dict.fromkeys([*owner.fdb, *loaded.fdb]))
    names = reading._names
    wiring.connect(
        fabric,
        [
            one._replace(device=names.get(one.device, one.device), other=names.get(one.other, one.other))
            for one in reading._wires
        ],
    )
