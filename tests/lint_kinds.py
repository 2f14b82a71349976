"""The kinds of faults that operators injected, at places that are drawn at random: in generated and deployed fabrics.

A kind changes the files of a fabric, as a mistaken hand would. `Nowhere` says that a fabric has no place for it.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pauseframe.devices.model import PRIORITIES

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lint_fabrics import Tables


class Nowhere(Exception):  # noqa: N818 - no error of the fabric
    """The fabric has no place for a kind of fault."""


class Files:
    """The files of a fabric, which a fault changes and `changed` restores."""

    def __init__(self, root: Path, draw: random.Random) -> None:
        """Switches have a config_db.json; hosts have networkd files."""
        self.root, self.draw = root, draw
        self.switches = {path.parent.name: path for path in sorted(root.rglob("config_db.json"))}
        self.hosts = sorted(path.parent for path in root.rglob("sysctl.conf"))
        self._before: dict[Path, str | None] = {}
        self._tables: dict[str, Tables] = {}

    def tables(self, switch: str) -> Tables:
        """The tables of a switch, to change."""
        if switch not in self._tables:
            self._tables[switch] = json.loads(self.text(self.switches[switch]))
        return self._tables[switch]

    def text(self, path: Path) -> str:
        """The text of a file, which is restored later."""
        if not path.is_file():
            raise Nowhere(path.name)
        text = path.read_text()
        self._before.setdefault(path, text)
        return text

    def replace(self, path: Path, old: str, new: str) -> None:
        """Changes the first place in the text of a file."""
        text = self.text(path)
        changed = re.sub(old, new, text, count=1)
        if changed == text:
            raise Nowhere(old)
        path.write_text(changed)

    def remove(self, path: Path) -> None:
        """Removes a file."""
        self.text(path)
        path.unlink()

    def pick(self, of: list[Any]) -> Any:
        """One of several."""
        if not of:
            raise Nowhere
        return self.draw.choice(of)

    def switch(self) -> tuple[str, Tables]:
        """A switch, and its tables."""
        name = self.pick(list(self.switches))
        return name, self.tables(name)

    def with_table(self, *tables: str) -> tuple[str, Tables]:
        """A switch that has rows of these tables."""
        name = self.pick([one for one in self.switches if all(self.tables(one).get(table) for table in tables)])
        return name, self.tables(name)

    def port(self, *, inner: bool = False) -> tuple[str, Tables, str]:
        """A port; `inner`: one that leads to another switch."""
        places = [
            (name, port)
            for name in self.switches
            for port, far in self.tables(name)["DEVICE_NEIGHBOR"].items()
            if far["name"] in self.switches or not inner
        ]
        name, port = self.pick(places)
        return name, self.tables(name), port

    def lossless(self, *, inner: bool = False) -> tuple[str, Tables, str, int]:
        """A port that pauses, and one of its paused priorities."""
        name, tables, port = self.port(inner=inner)
        paused = tables["PORT_QOS_MAP"].get(port, {}).get("pfc_enable", "")
        return name, tables, port, int(self.pick([one for one in paused.split(",") if one]))

    def write(self) -> None:
        """Writes what was changed."""
        for name, tables in self._tables.items():
            self.switches[name].write_text(json.dumps(tables))

    def restore(self) -> None:
        """Takes back what was changed."""
        for path, text in self._before.items():
            if text is not None:
                path.write_text(text)


@contextmanager
def changed(root: Path, kind: str, draw: random.Random) -> Iterator[tuple[str, set[str]]]:
    """A fabric with a fault of a kind while the block runs: the device, and the rules that may report it."""
    files = Files(root, draw)
    try:
        found = (KINDS | SIBLINGS)[kind](files)
        files.write()
        yield found
    finally:
        files.restore()


KINDS: dict[str, Callable[[Files], tuple[str, set[str]]]] = {}
"""Kinds by the names that operators gave them."""


def kind(name: str) -> Callable[[Any], Any]:
    """Adds a kind."""

    def add(fault: Any) -> Any:
        KINDS[name] = fault
        return fault

    return add


def _points(tables: Tables) -> dict[str, str]:
    """A map of DSCP to classes; raises Nowhere if the switch has none."""
    rows = tables.get("DSCP_TO_TC_MAP", {})
    if not rows:
        raise Nowhere("no DSCP map")
    return rows[min(rows)]


def _lossless_classes(tables: Tables) -> list[str]:
    return sorted(
        {one for row in tables["PORT_QOS_MAP"].values() for one in row.get("pfc_enable", "").split(",") if one}
    )


@kind("cnp48->tc3")
def cnp_lossless(files):
    name, tables = files.with_table("DSCP_TO_TC_MAP")
    _points(tables)["48"] = files.pick(_lossless_classes(tables))
    return name, {"PF025"}


@kind("cnp48->tc0 (best effort)")
def cnp_best_effort(files):
    name, tables = files.with_table("DSCP_TO_TC_MAP")
    points = _points(tables)
    if not _lossless_classes(tables) or points.get("48") == points.get("0", "0"):
        raise Nowhere("no CNPs")
    points["48"] = points.get("0", "0")
    return name, {"PF026", "PF090"}


@kind("cnp strict -> behind strict data")
def cnp_behind(files):
    name, tables, port, _ = files.lossless()
    rows = {key: row for key, row in tables["QUEUE"].items() if key.startswith(f"{port}|")}
    paused = tables["PORT_QOS_MAP"][port]["pfc_enable"].split(",")
    tables["SCHEDULER"]["mine"] = {"type": "STRICT"}
    for key, row in rows.items():
        if key.partition("|")[2] in paused:
            row["scheduler"] = "mine"
    return name, {"PF026", "PF027"}


@kind("roce dscp26->tc0")
def data_lossy(files):
    name, tables = files.with_table("DSCP_TO_TC_MAP")
    points, lossless = _points(tables), _lossless_classes(tables)
    point = files.pick([one for one, tc in points.items() if tc in lossless])
    points[point] = "0"
    return name, {"PF053", "PF021", "PF022"}


@kind("dscp map unbound on one port")
def unbound(files):
    name, tables, port = files.port()
    del tables["PORT_QOS_MAP"][port][files.pick([m for m in tables["PORT_QOS_MAP"][port] if m.endswith("to_tc_map")])]
    return name, {"PF024", "PF080", "PF090"}


def _wred(name, changes, codes):
    @kind(name)
    def fault(files):
        switch, tables = files.with_table("WRED_PROFILE")
        tables["WRED_PROFILE"][files.pick(list(tables["WRED_PROFILE"]))] |= changes
        return switch, codes


_wred("wred min>max", {"green_min_threshold": "3000000", "green_max_threshold": "1000000"}, {"PF003"})
_wred("wred probability 0", {"green_drop_probability": "0"}, {"PF030"})
ABOVE = {"green_min_threshold": "90000000", "green_max_threshold": "99000000"}


@kind("wred above alpha limit")
def wred_above(files):
    name, tables, port, priority = files.lossless()
    tables["WRED_PROFILE"][tables["QUEUE"][f"{port}|{priority}"]["wred_profile"]] |= ABOVE
    return name, {"PF031"}


@kind("alpha -8 with same wred")
def small_alpha(files):
    name, tables = files.with_table("BUFFER_PROFILE", "WRED_PROFILE")
    profiles = [one for one in tables["BUFFER_PROFILE"] if one.startswith("pg_lossless")]
    row = tables["BUFFER_PROFILE"][files.pick(profiles)]
    limit = int(tables["BUFFER_POOL"][row["pool"]]["size"]) / 257
    if min(int(wred["green_min_threshold"]) for wred in tables["WRED_PROFILE"].values()) <= limit:
        raise Nowhere("marks begin before the pause all the same")
    row["dynamic_th"] = "-8"
    return name, {"PF031"}


@kind("wred missing on queue 3 of one port")
def no_wred(files):
    name, tables, port, priority = files.lossless()
    del tables["QUEUE"][f"{port}|{priority}"]["wred_profile"]
    return name, {"PF034", "PF033", "PF090"}


@kind("queue 3 row gone")
def no_queue(files):
    name, tables, port, priority = files.lossless()
    del tables["QUEUE"][f"{port}|{priority}"]
    return name, {"PF034", "PF033", "PF090"}


def _dogged(files):
    name, tables = files.with_table("PFC_WD")
    return name, tables, files.pick([key for key in tables["PFC_WD"] if key != "GLOBAL"])


@kind("watchdog detection 10 ms below poll 200")
def fast_dog(files):
    name, tables, port = _dogged(files)
    tables["PFC_WD"][port]["detection_time"] = "10"
    return name, {"PF001", "PF003"}


@kind("watchdog action misspelt")
def odd_dog(files):
    name, tables, port = _dogged(files)
    tables["PFC_WD"][port]["action"] = files.pick(["dropp", "Drop", "fwd"])
    return name, {"PF001"}


@kind("pfcwd_sw_enable only 3")
def half_dog(files):
    name, tables, port = _dogged(files)
    paused = tables["PORT_QOS_MAP"][port]["pfc_enable"].split(",")
    tables["PORT_QOS_MAP"][port]["pfcwd_sw_enable"] = ",".join(paused[1:]) or "4"
    return name, {"PF041"}


def _pool(name, field, value, codes):
    @kind(name)
    def fault(files):
        switch, tables = files.with_table("BUFFER_POOL")
        pool = next(row for row in tables["BUFFER_POOL"].values() if row["type"] == "ingress")
        # No headroom is shared where no pool has any, so 0 changes nothing there.
        if pool.get(field, "0") == value or (field in {"size", "xoff"} and not _lossless_classes(tables)):
            raise Nowhere(field)
        pool[field] = value
        return switch, codes


_pool("pool type egress", "type", "egress", {"PF003"})
_pool("pool mode static with dynamic_th", "mode", "static", {"PF003"})
_pool("pool size 200 KB", "size", "200000", {"PF014", "PF031", "PF090"})
_pool("shared headroom pool xoff 0", "xoff", "0", {"PF014", "PF019", "PF011", "PF010"})


@kind("lossy pg profile on pg 3")
def lossy_group(files):
    name, tables, port, priority = files.lossless()
    tables["BUFFER_PG"][_row(tables["BUFFER_PG"], port, priority)]["profile"] = "ingress_lossy_profile"
    return name, {"PF011"}


def _row(rows, port, number):
    """The key of a port's row for a group or queue."""
    for key in rows:
        own, _, range_ = key.partition("|")
        low, _, high = range_.partition("-")
        if own == port and int(low) <= number <= int(high or low):
            return key
    raise Nowhere(port)


@kind("lossy egress profile on queue 3")
def lossy_queue(files):
    name, tables, port, priority = files.lossless()
    tables["BUFFER_QUEUE"][_row(tables["BUFFER_QUEUE"], port, priority)]["profile"] = "egress_lossy_profile"
    return name, {"PF015"}


@kind("lossless profile without xon_offset/xon")
def no_xon(files):
    name, tables = files.with_table("BUFFER_PROFILE")
    profile = tables["BUFFER_PROFILE"][files.pick([o for o in tables["BUFFER_PROFILE"] if o.startswith("pg_lossless")])]
    profile.pop("xon", None)
    profile.pop("xon_offset", None)
    return name, {"PF003", "PF001", "PF090"}


@kind("pg 3 deleted")
def no_group(files):
    name, tables, port, priority = files.lossless()
    del tables["BUFFER_PG"][_row(tables["BUFFER_PG"], port, priority)]
    return name, {"PF011"}


@kind("pg 3-4 and 3 overlap")
def overlap(files):
    name, tables, port, priority = files.lossless()
    rows = tables["BUFFER_PG"]
    key = _row(rows, port, priority)
    rows[f"{port}|{priority}-{priority + 1}" if "-" not in key else f"{port}|{priority}"] = dict(rows[key])
    return name, {"PF003"}


@kind("range of groups turned round")
def turned_range(files):
    name, tables, port, priority = files.lossless()
    tables["BUFFER_PG"][f"{port}|{priority + 3}-{priority + 1}"] = {"profile": "ingress_lossy_profile"}
    return name, {"PF003"}


@kind("pg profile NULL in a static buffer model")
def no_profile(files):
    name, tables, port, priority = files.lossless()
    if tables.get("DEVICE_METADATA", {}).get("localhost", {}).get("buffer_model") == "dynamic":
        raise Nowhere(name)
    tables["BUFFER_PG"][_row(tables["BUFFER_PG"], port, priority)] = {"profile": "NULL"}
    return name, {"PF011"}


@kind("xon_offset above the pool")
def resumes_never(files):
    name, tables = files.with_table("BUFFER_PROFILE")
    profile = tables["BUFFER_PROFILE"][files.pick([o for o in tables["BUFFER_PROFILE"] if o.startswith("pg_lossless")])]
    profile["xon_offset"] = "999999999"
    return name, {"PF003"}


@kind("port without lanes")
def no_lanes(files):
    name, tables = files.with_table("PORT")
    tables["PORT"][files.pick(list(tables["PORT"]))]["lanes"] = ""
    return name, {"PF003"}


def _member(files):
    name, tables = files.with_table("PORTCHANNEL_MEMBER")
    channel, _, port = files.pick(list(tables["PORTCHANNEL_MEMBER"])).partition("|")
    return name, tables, channel, port


@kind("channel member other speed")
def member_speed(files):
    name, tables, _, port = _member(files)
    tables["PORT"][port]["speed"] = str(int(tables["PORT"][port]["speed"]) // 4)
    return name, {"PF080"}


@kind("channel one end not bundled")
def unbundled(files):
    name, tables, channel, _ = _member(files)
    for table in ("PORTCHANNEL_MEMBER", "PORTCHANNEL", "PORTCHANNEL_INTERFACE"):
        tables[table] = {key: row for key, row in tables[table].items() if key.partition("|")[0] != channel}
    return name, {"PF082"}


@kind("channel min_links 2 of 1")
def min_links(files):
    name, tables, channel, _ = _member(files)
    count = sum(key.startswith(f"{channel}|") for key in tables["PORTCHANNEL_MEMBER"])
    tables["PORTCHANNEL"][channel]["min_links"] = str(count + 1)
    return name, {"PF081"}


@kind("vlan on member and channel")
def vlan_twice(files):
    name, tables, channel, port = _member(files)
    tables["VLAN"] = {"Vlan300": {"vlanid": "300"}}
    tables["VLAN_MEMBER"] = {f"Vlan300|{one}": {"tagging_mode": "tagged"} for one in (port, channel)}
    return name, {"PF003"}


@kind("channel mtu 1500")
def channel_mtu(files):
    name, tables, channel, _ = _member(files)
    tables["PORTCHANNEL"][channel]["mtu"] = "1500"
    return name, {"PF080", "PF082", "PF051"}


def _vlan(files, *, inner=False):
    name, tables = files.with_table("VLAN", "VLAN_MEMBER")
    return name, tables, files.pick(list(tables["VLAN"]))


@kind("vlanid contradicts name")
def vlanid(files):
    name, tables, vlan = _vlan(files)
    tables["VLAN"][vlan]["vlanid"] = str(int(vlan[4:]) + 7)
    return name, {"PF003"}


@kind("vlan deleted on one switch")
def no_vlan(files):
    name, tables, vlan = _vlan(files)
    del tables["VLAN"][vlan]
    if files.draw.random() < 0.5:
        tables["VLAN_MEMBER"] = {
            key: row for key, row in tables["VLAN_MEMBER"].items() if not key.startswith(f"{vlan}|")
        }
    return name, {"PF002", "PF057", "PF061", "PF090"}


@kind("trunk untagged one end")
def untagged(files):
    name, tables, port = files.port(inner=True)
    key = files.pick([key for key in tables.get("VLAN_MEMBER", {}) if key.endswith(f"|{port}")])
    tables["VLAN_MEMBER"][key]["tagging_mode"] = "untagged"
    return name, {"PF058"}


def _cable(name, value, codes, *, inner=False):
    @kind(name)
    def fault(files):
        switch, tables, port, _ = files.lossless(inner=inner)
        tables["CABLE_LENGTH"]["AZURE"][port] = value
        return switch, codes


_cable('cable "5" without unit', "5", {"PF001"})
_cable("cable 300m one end", "301m", {"PF054"}, inner=True)


@kind("two ports share a lane")
def one_lane(files):
    name, tables = files.switch()
    one, other = files.draw.sample(sorted(tables["PORT"]), 2)
    lanes = tables["PORT"][other]["lanes"].split(",")
    tables["PORT"][one]["lanes"] = ",".join([*tables["PORT"][one]["lanes"].split(",")[1:], lanes[-1]])
    return name, {"PF003"}


@kind("speed not of its lanes (400G on 1 lane, both ends)")
def lane_speed(files):
    name, tables, port = files.port(inner=True)
    far = tables["DEVICE_NEIGHBOR"][port]
    for device, end in ((name, port), (far["name"], far["port"])):
        row = files.tables(device)["PORT"][end]
        row["speed"], row["lanes"] = "400000", row["lanes"].split(",")[0]
    return name, {"PF003", "PF001", "PF013"}


@kind("speed 12345")
def odd_speed(files):
    name, tables, port = files.port()
    tables["PORT"][port]["speed"] = "12345"
    return name, {"PF001", "PF003", "PF050"}


def _port(name, field, values, codes, *, inner=True):
    @kind(name)
    def fault(files):
        switch, tables, port = files.port(inner=inner)
        row = tables["PORT"][port]
        row[field] = files.pick([value for value in values if value != row.get(field)])
        return switch, codes


_port("fec rs one end", "fec", ["rs", "fc"], {"PF056", "PF080"})
_port("autoneg on one end", "autoneg", ["on"], {"PF056"})
_port("down at one end", "admin_status", ["down"], {"PF059"})
_port("mtu 1500 one end", "mtu", ["1500"], {"PF051", "PF080"})


def _trimming(files):
    name, tables = files.with_table("BUFFER_PROFILE")
    tables["SWITCH_TRIMMING"] = {"GLOBAL": {"size": "128", "dscp_value": "48", "queue_index": "6"}}
    return name, tables


@kind("trim on lossless profile")
def trim_lossless(files):
    name, tables = _trimming(files)
    profile = files.pick([one for one in tables["BUFFER_PROFILE"] if "lossless" in one])
    tables["BUFFER_PROFILE"][profile]["packet_discard_action"] = "trim"
    return name, {"PF018"}


@kind("trim into queue 3")
def trim_into(files):
    name, tables = _trimming(files)
    tables["BUFFER_PROFILE"]["egress_lossy_profile"]["packet_discard_action"] = "trim"
    tables["SWITCH_TRIMMING"]["GLOBAL"]["queue_index"] = files.pick(_lossless_classes(tables))
    return name, {"PF018"}


@kind("trim without SWITCH_TRIMMING")
def trim_alone(files):
    name, tables = _trimming(files)
    del tables["SWITCH_TRIMMING"]
    tables["BUFFER_PROFILE"]["egress_lossy_profile"]["packet_discard_action"] = "trim"
    return name, {"PF018"}


@kind("pfc only 3 at one end")
def half_pause(files):
    name, tables, port, _ = files.lossless(inner=True)
    row = tables["PORT_QOS_MAP"][port]
    paused = row["pfc_enable"].split(",")
    row["pfc_enable"] = (
        files.pick(paused) if len(paused) > 1 else str(files.pick(sorted({*PRIORITIES} - {int(paused[0])})))
    )
    return name, {"PF052", "PF080"}


def _map(name, table, value, codes):
    @kind(name)
    def fault(files):
        switch, tables = files.with_table(table)
        rows, lossless = tables[table][min(tables[table])], _lossless_classes(tables)
        number = files.pick(lossless)
        rows[number] = value if value not in lossless else "2"
        return switch, codes


_map("pfc_to_queue 3->5", "MAP_PFC_PRIORITY_TO_QUEUE", "5", {"PF020", "PF021", "PF023"})
_map("tc_to_queue 3->1", "TC_TO_QUEUE_MAP", "1", {"PF020", "PF021", "PF023"})


@kind("tc0->pg3 lossy in lossless")
def intruder(files):
    name, tables = files.with_table("TC_TO_PRIORITY_GROUP_MAP")
    lossless = _lossless_classes(tables)
    rows = tables["TC_TO_PRIORITY_GROUP_MAP"][min(tables["TC_TO_PRIORITY_GROUP_MAP"])]
    rows[files.pick([tc for tc in rows if tc not in lossless])] = files.pick(lossless)
    return name, {"PF023"}


@kind("scheduler weight 0")
def weight(files):
    name, tables = files.with_table("SCHEDULER")
    tables["SCHEDULER"][files.pick([key for key, row in tables["SCHEDULER"].items() if "weight" in row])]["weight"] = (
        "0"
    )
    return name, {"PF001"}


@kind("neighbours swapped")
def swapped(files):
    name, tables, port = files.port(inner=True)
    rows = tables["DEVICE_NEIGHBOR"]
    other = files.pick([one for one in rows if rows[one] != rows[port]])
    rows[port], rows[other] = rows[other], rows[port]
    return name, {"PF055"}


@kind("blank in number")
def blank(files):
    name, tables, port = files.port()
    profile = files.pick(list(tables["WRED_PROFILE"]))
    row, field = files.pick([(tables["PORT"][port], "mtu"), (tables["WRED_PROFILE"][profile], "green_max_threshold")])
    row[field] = files.pick([f" {row[field]}", f"{row[field]} ", f"{row[field][:1]} {row[field][1:]}"])
    return name, {"PF001"}


@kind("headroom x0.9")
def headroom(files):
    name, tables = files.with_table("BUFFER_PROFILE")
    if tables.get("DEVICE_METADATA", {}).get("localhost", {}).get("hwsku") == "Generic":
        raise Nowhere("generated headroom is generous")
    row = tables["BUFFER_PROFILE"][
        files.pick([one for one in tables["BUFFER_PROFILE"] if one.startswith("pg_lossless")])
    ]
    row["xoff"] = str(int(row["xoff"]) * 9 // 10)
    return name, {"PF010", "PF090"}


@kind("asymmetric pfc on")
def asymmetric(files):
    name, tables, port, _ = files.lossless(inner=True)  # towards hosts it is meant so
    tables["PORT"][port]["pfc_asym"] = "on"
    return name, {"PF052", "PF090"}


def _fdb_files(files):
    return files.pick(sorted(files.root.rglob("fdb.json")))


@kind("old plan fdb on one switch")
def old_fdb(files):
    path = _fdb_files(files)
    rows = json.loads(files.text(path))
    ports = sorted({next(iter(row.values()))["port"] for row in rows})
    for row in rows:
        own = next(iter(row.values()))
        own["port"] = ports[(ports.index(own["port"]) + 1) % len(ports)]
    path.write_text(json.dumps(rows))
    return path.parent.name, {"PF061", "PF060", "PF063"}


@kind("old plan whole switch")
def old_switch(files):
    """The rows, VLANs and members of a plan whose VLANs have other numbers."""
    path = _fdb_files(files)
    for own in (path, path.parent / "config_db.json"):
        text = files.text(own)
        own.write_text(re.sub(r"Vlan1(\d\d)", r"Vlan2\1", re.sub(r'"vlanid": "1(\d\d)"', r'"vlanid": "2\1"', text)))
    return path.parent.name, {"PF061", "PF057"}


@kind("fdb row gone")
def row_gone(files):
    if files.draw.random() < 0.5 or not list(files.root.rglob("static-l2.json")):
        path = _fdb_files(files)
        rows = json.loads(files.text(path))
        rows.remove(files.pick(rows))
    else:
        path = files.pick(sorted(files.root.rglob("static-l2.json")))
        rows = json.loads(files.text(path))
        del rows["FDB"][files.pick(list(rows["FDB"]))]
    path.write_text(json.dumps(rows))
    return path.parent.name, {"PF061", "PF063"}


@kind("fdb other port")
def row_elsewhere(files):
    paths = sorted(files.root.rglob("static-l2.json")) or sorted(files.root.rglob("fdb.json"))
    path = files.pick(paths)
    value = json.loads(files.text(path))
    rows = list(value["FDB"].values()) if "FDB" in value else [next(iter(row.values())) for row in value]
    row = files.pick(rows)
    row["port"] = files.pick([port for port in files.tables(path.parent.name)["PORT"] if port != row["port"]])
    path.write_text(json.dumps(value))
    return path.parent.name, {"PF061", "PF060", "PF063"}


@kind("fdb.json missing")
def no_fdb(files):
    path = _fdb_files(files)
    files.remove(path)
    return path.parent.name, {"PF061"}


@kind("no-flooding missing")
def floods(files):
    path = files.pick(sorted(files.root.rglob("no-flooding.json")))
    files.remove(path)
    return path.parent.name, {"PF062"}


@kind("unicast miss forward")
def misses(files):
    path = files.pick(sorted(files.root.rglob("no-flooding.json")))
    files.replace(path, r'("fdb_unicast_miss_packet_action"): "drop"', r'\1: "forward"')
    return path.parent.name, {"PF062"}


def _of_host(name, changes, codes):
    """A kind that changes a value in one of the files of a host, each of which may be what is installed."""

    @kind(name)
    def fault(files):
        host = files.pick(files.hosts)
        file = files.pick([one for one in changes if (host / one).is_file()])
        for old, new in changes[file]:
            files.replace(host / file, old, new)
        return host.name, codes


_of_host(
    "host ecn 0",
    {
        "sysctl.conf": [(r"(tcp_ecn ?=) ?1", r"\1 0")],
        "setup.sh": [(r"tcp_ecn=1", "tcp_ecn=0")],
    },
    {"PF070", "PF075"},
)
_of_host(
    "host mtu 9600",
    {
        "netplan.yaml": [(r"mtu: \d+", "mtu: 9600")],
        "setup.sh": [(r"mtu \d+ up", "mtu 9600 up")],
        "networkd/40-pauseframe.network": [(r"MTUBytes=\d+", "MTUBytes=9600")],
    },
    {"PF051", "PF075"},
)
_of_host(
    "host other vlan id",
    {
        "netplan.yaml": [(r"id: \d+", "id: 4000")],
        "setup.sh": [(r" id \d+\b", " id 4000")],
        "networkd/41-pf100.netdev": [(r"Id=\d+", "Id=4000")],
    },
    {"PF075", "PF073", "PF074", "PF061"},
)
_of_host(
    "host vlan0 without egress map",
    {
        "setup.sh": [(r"egress-qos-map .*\n", "\n")],
        "networkd/41-pf100.netdev": [(r"EgressQOSMaps=.*\n", "")],
    },
    {"PF073", "PF075"},
)
_of_host(
    "host neighbour gone",
    {
        "setup.sh": [(r"neigh replace .*\n", "")],
        "networkd/42-pf100.network": [(r"\[Neighbor\]\n.*\n.*\n", "")],
    },
    {"PF074", "PF075"},
)


SIBLINGS: dict[str, Callable[[Files], tuple[str, set[str]]]] = {}
"""Kinds beside those of operators: the same faults as a deleted key, with another unit, or in another row."""


def _without(name, table, field, codes):
    """A kind that deletes a field of a port's row."""

    def fault(files):
        switch, tables, port, priority = files.lossless()
        key = f"{port}|{priority}" if table == "QUEUE" else port
        if field not in tables.get(table, {}).get(key, {}):
            raise Nowhere(field)
        del tables[table][key][field]
        return switch, codes

    SIBLINGS[name] = fault


def _row_of(name, table, begin, field, value, codes):
    """A kind that changes a field of a row; `value` is the new text for the old one, None deletes the field."""

    def fault(files):
        switch, tables = files.with_table(table)
        row = tables[table][files.pick([key for key in tables[table] if key.startswith(begin)])]
        found = value(row[field]) if field in row else row.get(field)
        if found == row.get(field):
            raise Nowhere(field)
        row[field] = found
        if found is None:
            del row[field]
        return switch, codes

    SIBLINGS[name] = fault


_without("port lanes deleted", "PORT", "lanes", {"PF003"})
_without("watchdog detection_time deleted", "PFC_WD", "detection_time", {"PF041"})
_without("neighbour name deleted", "DEVICE_NEIGHBOR", "name", {"PF055", "PF001"})
_without("queue scheduler deleted", "QUEUE", "scheduler", {"PF034", "PF090"})
_row_of("port lanes no numbers", "PORT", "", "lanes", lambda _: "a,b", {"PF003"})
_row_of("alpha deleted", "BUFFER_PROFILE", "pg_lossless", "dynamic_th", lambda _: None, {"PF003", "PF090"})
_row_of("egress limit deleted", "BUFFER_PROFILE", "egress_lossless", "static_th", lambda _: None, {"PF003"})
_row_of("xon above the pool", "BUFFER_PROFILE", "pg_lossless", "xon", lambda _: "999999999", {"PF003"})
_row_of("wred min deleted", "WRED_PROFILE", "", "green_min_threshold", lambda _: None, {"PF003"})
_row_of("wred max deleted", "WRED_PROFILE", "", "green_max_threshold", lambda _: None, {"PF003"})
_row_of("wred in KB", "WRED_PROFILE", "", "green_min_threshold", lambda old: str(int(old) // 1000), {"PF003"})


def _dscp_without_class(files):
    name, tables = files.with_table("DSCP_TO_TC_MAP")
    points = _points(tables)
    if not _lossless_classes(tables) or points.get("0") != "0" or points.get("48") in {None, "0"}:
        raise Nowhere("no CNPs")
    del points["48"]
    return name, {"PF026"}


def _high_maximum(files):
    name, tables, port, priority = files.lossless()
    tables["WRED_PROFILE"][tables["QUEUE"][f"{port}|{priority}"]["wred_profile"]]["green_max_threshold"] = "990000000"
    return name, {"PF031"}


def _row_that_ages(files):
    path = _fdb_files(files)
    files.replace(path, "static", "dynamic")
    return path.parent.name, {"PF061", "PF063"}


SIBLINGS |= {
    "cnp48 deleted": _dscp_without_class,
    "wred max above the pool": _high_maximum,
    "fdb row dynamic": _row_that_ages,
}
