"""Converts CONFIG_DB to the device model.

Values that the schema forbids are skipped; `pauseframe.lint` reports them.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from pauseframe.devices import bgp
from pauseframe.devices.bundles import Channel, Hashing, Mclag, MuxCable, seed_of_role
from pauseframe.devices.files import number_in, whole_number
from pauseframe.devices.model import (
    QOS_MAPS,
    BufferProfile,
    FdbRow,
    LookupRow,
    Pool,
    Port,
    PortQos,
    Queue,
    Scheduler,
    Switch,
    Trimming,
    Vlan,
    Watchdog,
    Wred,
)
from pauseframe.devices.swssconfig import vlan_number

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pauseframe.devices.sonic_db import ConfigDb, Row

_LARGEST = 2**63
"""Maximum size in bytes; a larger value is a mistake, which the schema check reports."""
_LANE = re.compile(r"\bpriority ([0-7])\b")


def switch_of(db: ConfigDb, name: str) -> Switch:
    """The switch of a CONFIG_DB. `name` applies if DEVICE_METADATA has no hostname."""
    meta = db.rows("DEVICE_METADATA").get("localhost", {})
    switch = Switch(
        name=meta.get("hostname") or name,
        source=db.source,
        hostname=meta.get("hostname", ""),
        hwsku=meta.get("hwsku", ""),
        mac=meta.get("mac", ""),
        model=meta.get("buffer_model"),
        tables=frozenset(db.tables),
        whole=db.whole,
    )
    for key, row in db.rows("PORT").items():
        switch.ports[key] = _port(key, row)
    _read_buffers(db, switch)
    _read_maps(db, switch)
    _read_ports(db, switch)
    _read_channels(db, switch)
    _read_vlans(db, switch)
    switch.role = meta.get("type", "")
    _read_pairs(db, switch)
    switch.addresses, switch.bgp = bgp.addresses_of(db), bgp.bgp_of(db)
    for key, row in db.rows("DEVICE_NEIGHBOR").items():
        if row.get("name") and row.get("port"):
            switch.neighbours[row.get("local_port") or key] = (row["name"], row["port"])
    for row in db.rows("LOSSLESS_TRAFFIC_PATTERN").values():
        switch.lossless_mtu = number_in(row.get("mtu"), 1, 9216)
        switch.small_packets = whole_number(row.get("small_packet_percentage"))
    for row in db.rows("DEFAULT_LOSSLESS_BUFFER_PARAMETER").values():
        switch.over_subscribe_ratio = number_in(row.get("over_subscribe_ratio"), 0, 65535)
    return switch


def _port(name: str, row: Row) -> Port:
    return Port(
        name=name,
        speed=number_in(row.get("speed"), 1, 1_600_000),
        mtu=number_in(row.get("mtu"), 68, 9216),
        fec=row.get("fec"),
        autoneg=row.get("autoneg"),
        link_training=row.get("link_training"),
        alias=row.get("alias"),
        up=row.get("admin_status", "up") != "down",
    )


def _read_buffers(db: ConfigDb, switch: Switch) -> None:
    for key, row in db.rows("BUFFER_POOL").items():
        size, xoff = (number_in(row.get(name), 0, _LARGEST) for name in ("size", "xoff"))
        switch.pools[key] = Pool(key, row.get("type", "ingress"), row.get("mode", "dynamic"), size, xoff or 0)
    for key, row in db.rows("BUFFER_PROFILE").items():
        sizes = {name: number_in(row.get(name), 0, _LARGEST) or 0 for name in ("size", "xon", "xoff", "xon_offset")}
        switch.profiles[key] = BufferProfile(
            key,
            row.get("pool", ""),
            **sizes,
            static_th=number_in(row.get("static_th"), 0, _LARGEST),
            dynamic_th=number_in(row.get("dynamic_th"), -8, 7),
            computed=row.get("headroom_type") == "dynamic" and "xoff" not in row,
            trims=row.get("packet_discard_action") == "trim",
        )
    for row in db.rows("SWITCH_TRIMMING").values():
        switch.trimming = Trimming(
            *(whole_number(row.get(name)) for name in ("size", "dscp_value", "queue_index", "tc_value"))
        )
    for key, row in db.rows("WRED_PROFILE").items():
        colours = frozenset(c for c in ("green", "yellow", "red") if row.get(f"wred_{c}_enable") == "true")
        probability = whole_number(row.get("green_drop_probability"))
        switch.wred[key] = Wred(
            key,
            row.get("ecn", "ecn_none"),
            whole_number(row.get("green_min_threshold")),
            whole_number(row.get("green_max_threshold")),
            100 if probability is None else probability,
            colours,
        )
    for key, row in db.rows("SCHEDULER").items():
        most = number_in(row.get("pir"), 1, _LARGEST) if row.get("meter_type") != "packets" else None
        switch.schedulers[key] = Scheduler(key, row.get("type", "WRR"), whole_number(row.get("weight")) or 1, most)


def _read_maps(db: ConfigDb, switch: Switch) -> None:
    for kind, table in QOS_MAPS.items():
        into: dict[str, dict[int, int]] = getattr(switch.maps, kind)
        for name, row in db.rows(table).items():
            pairs = ((whole_number(key), whole_number(value)) for key, value in row.items())
            into[name] = {key: value for key, value in pairs if key is not None and value is not None}


def _qos(key: str, row: Row) -> PortQos:
    return PortQos(
        pfc=_priorities(row.get("pfc_enable")),
        watchdog=_priorities(row.get("pfcwd_sw_enable")),
        key=key,
        **{kind: row.get(f"{kind}_map") for kind in QOS_MAPS},
    )


def _priorities(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    return frozenset(int(part) for part in text.split(",") if part in {"0", "1", "2", "3", "4", "5", "6", "7"})


def _read_ports(db: ConfigDb, switch: Switch) -> None:
    everywhere = db.rows("PORT_QOS_MAP").get("global")
    switch.global_qos = None if everywhere is None else _qos("global", everywhere)
    for key, row in db.rows("PORT_QOS_MAP").items():
        for name in key.split(",") if key != "global" else ():
            port_of(switch, name).qos = _inheriting(_qos(key, row), switch.global_qos)
    for row in db.rows("CABLE_LENGTH").values():
        for name, length in row.items():
            metres = number_in(length.removesuffix("m"), 0, 9_999_999)
            port_of(switch, name).cable = None if metres is None else float(metres)
    for name, number, key, row in _port_rows(db, "BUFFER_PG"):
        profile, port = row.get("profile"), port_of(switch, name)
        port.groups[number] = None if profile in {None, "NULL", "0"} else profile
        port.group_rows[number] = key
    for table in ("BUFFER_QUEUE", "QUEUE"):
        for name, number, _, row in _port_rows(db, table):
            queue = port_of(switch, name).queues.setdefault(number, Queue())
            queue.profile = row.get("profile", queue.profile)
            queue.wred = row.get("wred_profile", queue.wred)
            queue.scheduler = row.get("scheduler", queue.scheduler)
    _read_watchdogs(db, switch)


def _read_watchdogs(db: ConfigDb, switch: Switch) -> None:
    for key, row in db.rows("PFC_WD").items():
        if key == "GLOBAL":
            switch.watchdog_poll = whole_number(row.get("POLL_INTERVAL"))
        else:
            times = (whole_number(row.get(name)) for name in ("detection_time", "restoration_time"))
            port_of(switch, key).watchdog = Watchdog(row.get("action"), *times)


def _inheriting(own: PortQos, everywhere: PortQos | None) -> PortQos:
    """A port's row, with the switch's DSCP map if the port names none, as orchagent does."""
    if everywhere is None or own.dscp_to_tc is not None or own.dot1p_to_tc is not None:
        return own
    return replace(own, dscp_to_tc=everywhere.dscp_to_tc)


def _port_rows(db: ConfigDb, table: str) -> Iterator[tuple[str, int, str, Row]]:
    """(port, number, key, row) for rows whose key ends with a port and a number or range."""
    for key, row in db.rows(table).items():
        parts = key.split("|")
        if len(parts) < 2 or parts[-2] == "CPU":
            continue
        first, _, last = parts[-1].partition("-")
        low, high = whole_number(first), whole_number(last or first)
        if low is None or high is None or not 0 <= low <= high <= 15:
            continue
        for name in parts[-2].split(","):
            for number in range(low, high + 1):
                yield name, number, key, row


def port_of(switch: Switch, name: str) -> Port:
    """A port by name; adds a port that PORT lacks, because a fragment may have no PORT table."""
    found = switch.ports.get(name)
    if found is None:
        found = switch.ports[name] = Port(name)
    return found


def _read_channels(db: ConfigDb, switch: Switch) -> None:
    for key, row in db.rows("PORTCHANNEL").items():
        mtu, least = number_in(row.get("mtu"), 68, 9216), number_in(row.get("min_links"), 0, 1024)
        channel = switch.channels[key] = Channel(key, [], mtu, least, row.get("admin_status", "up") != "down")
        channel.mode = "static" if row.get("static") == "true" else "active"
        channel.fast, channel.fallback = row.get("fast_rate") == "true", row.get("fallback") == "true"
    for key in db.rows("PORTCHANNEL_MEMBER"):
        name, _, port = key.partition("|")
        if port:
            switch.channels.setdefault(name, Channel(name)).members.append(port)
    for key in db.rows("MCLAG_INTERFACE"):
        domain, _, name = key.partition("|")
        if name in switch.channels:
            switch.channels[name].mclag = f"{domain} {name}"


def _read_pairs(db: ConfigDb, switch: Switch) -> None:
    """MCLAG, dual ToR, and the hash of equal next hops."""
    for key, row in db.rows("MCLAG_DOMAIN").items():
        source, peer, link = (row.get(name, "") for name in ("source_ip", "peer_ip", "peer_link"))
        times = [whole_number(row.get(name)) for name in ("keepalive_interval", "session_timeout")]
        switch.mclag = Mclag(key, source, peer, link, *times)
    for key, row in db.rows("MUX_CABLE").items():
        kind, state = row.get("cable_type", "active-standby"), row.get("state", "auto")
        switch.mux[key] = MuxCable(key, kind, state, row.get("server_ipv4", ""))
    switch.peer_switch = next(iter(db.rows("PEER_SWITCH")), "")
    seed, offset = seed_of_role(switch.role)
    hashing = db.rows("SWITCH_HASH").get("GLOBAL", {})
    own = db.rows("SWITCH").get("switch", {})
    fields = frozenset(part for part in hashing.get("ecmp_hash", "").split(",") if part)
    number, rotated = (whole_number(own.get(f"ecmp_hash_{name}")) for name in ("seed", "offset"))
    switch.hashing = Hashing(
        hashing.get("ecmp_hash_algorithm", "CRC"),
        fields or None,
        seed if number is None else number,
        offset if rotated is None else rotated,
        known=bool(switch.role or hashing or own),
    )


def _read_vlans(db: ConfigDb, switch: Switch) -> None:
    for key, row in db.rows("VLAN").items():
        number = vlan_number(key)
        if number is None:
            continue
        vlan = switch.vlans[number] = Vlan(number)
        vlan.learning = None if "mac_learning" not in row else row["mac_learning"] == "enabled"
        vlan.flood = _floods(row)
        lane = _LANE.search(row.get("description", ""))
        vlan.priority = int(lane[1]) if lane else None
    for key, row in db.rows("VLAN_MEMBER").items():
        name, _, port = key.partition("|")
        number = vlan_number(name)
        if number is not None and port:
            mode = row.get("tagging_mode", "tagged")
            channel = switch.channels.get(port)
            for member in (port, *(channel.members if channel else ())):
                switch.vlans.setdefault(number, Vlan(number)).members[member] = mode
    for key in db.rows("VLAN_INTERFACE"):
        number = vlan_number(key.partition("|")[0])
        if number in switch.vlans:
            switch.vlans[number].interface = True
    for key, row in db.rows("STP_VLAN").items():
        number = vlan_number(key)
        if number in switch.vlans:
            switch.vlans[number].stp = row.get("enabled") == "true"
    _read_fdb(db, switch)


def _floods(row: Row) -> bool | None:
    """Whether a VLAN floods frames of any kind; each kind is on by default. None if no field says."""
    if not any(name in row for name in FLOODS):
        return None
    return any(row.get(name, "enabled") == "enabled" for name in FLOODS)


def _read_fdb(db: ConfigDb, switch: Switch) -> None:
    for key, row in db.rows("FDB").items():
        name, _, mac = key.partition("|")
        number = vlan_number(name)
        if number is not None and row.get("port") and row.get("type") != "dynamic":
            switch.fdb.append(FdbRow(number, mac.lower(), row["port"]))


FLOODS = ("unknown_unicast_flood", "unknown_multicast_flood", "broadcast_flood")


def lookup_rows(text: str) -> tuple[list[LookupRow], list[str]]:
    """Rows of a `pg_profile_lookup.ini`, and the faults of its other lines."""
    rows, wrong = [], []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        numbers = [whole_number(word) for word in [words[0], *words[2:]]]
        cable = words[1] if len(words) > 1 else ""
        right = 6 <= len(words) <= 7 and None not in numbers and re.fullmatch(r"[0-9]{1,7}m", cable)
        if not right or number_in(words[0], 1, 1_600_000) is None:
            wrong.append(f"line {number}: this is not: speed cable size xon xoff threshold [xon_offset]")
            continue
        speed, size, xon, xoff, threshold, *offset = [n for n in numbers if n is not None]
        rows.append(LookupRow(speed, cable, size, xon, xoff, threshold, offset[0] if offset else None))
    return rows, wrong


def name_of_file(path: Path) -> str:
    """The device of a file whose content names none: the file's name, or its folder's if the file has a usual name."""
    stem = path.name.partition(".")[0] if path.stem.endswith((".lldp", ".fdb", ".config_db")) else path.stem
    usual = {
        "config_db",
        "lldp",
        "lldpctl",
        "minigraph",
        "fdb",
        "pg_profile_lookup",
        "config",
        "port_config",
        "no-flooding",
        "switch",
        "startup",
        "startup-config",
        "running-config",
        "nvue",
    }
    return path.resolve().parent.name if stem.lower() in usual else stem
