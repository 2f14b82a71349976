"""The places of the values that an imported scenario has: tables, rows and fields of the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.deploy.routed_hosts import NUMBERS, SWITCHES
from pauseframe.devices.model import End, Place
from pauseframe.imports.fabric import switches
from pauseframe.lint.imported.facts import BUFFER, LINK, MARKS, POOL

if TYPE_CHECKING:
    from pauseframe.devices.model import Port, Switch
    from pauseframe.lint.imported.facts import Comparison, Fact

TABLES = {
    "paused queues": ("PORT_QOS_MAP", "pfc_enable"),
    "queue of": ("PORT_QOS_MAP", ""),
    "watchdog": ("PFC_WD", ""),
    "weights": ("QUEUE", "scheduler"),
    "alpha of": ("BUFFER_QUEUE", "profile"),
    "limit of": ("BUFFER_QUEUE", "profile"),
    "shared headroom": ("BUFFER_POOL", "xoff"),
    "mtu of hosts": ("LOSSLESS_TRAFFIC_PATTERN", "mtu"),
    "ecmp_hash": ("SWITCH_HASH", ""),
    "neighbour": ("DEVICE_NEIGHBOR", ""),
    "cable": ("CABLE_LENGTH", ""),
}
"""Where devices have these: table and field."""
OF_HOST = {
    "registers": ("card", ""),
    "rto_min": ("route", "rto_min"),
    "initial_window": ("route", "initcwnd"),
    "delayed_ack_segments": ("route", "quickack"),
    "preset": ("route", "congctl"),
    "ecn": ("sysctl", "net.ipv4.tcp_ecn"),
    "dscp": ("nft", "dscp"),
    **{key: ("sysctl", name) for key, (name, _) in SWITCHES.items()},
    **{key: ("sysctl", name) for key, name in NUMBERS.items()},
}
"""Where hosts have the keys of a transport: table and field."""


def place_of(of: Comparison, fact: Fact) -> Place | None:
    """The place of a value; None for the end of a link at which nothing was changed."""
    node, _, name = fact.node.partition(":")
    device = of.devices.get(node, node)
    if not name:
        return _of_node(of, device, fact.key)
    end = of.ends.get(fact.node, End(device, name))
    switch, port = of.reading.fabric.switches.get(end.device), of.reading.fabric.port(end)
    if switch is None or port is None:
        known = device in of.reading.fabric.switches
        return Place(device, "DEVICE_NEIGHBOR", name) if fact.key == LINK and known else None
    if fact.key == "delay":
        return _of_cable(of, device, port.name)
    table, field = {"rate": ("PORT", "speed"), LINK: ("DEVICE_NEIGHBOR", ""), "mtu": ("PORT", "mtu")}.get(
        fact.key, ("PORT_QOS_MAP", "pfc_enable")
    )
    if fact.key.startswith("queue "):
        return _of_mark(switch, port, fact.key)
    if fact.key == "watchdog":  # a port with times lacks the priority that they are for
        table, field = ("PFC_WD", "") if port.watchdog is None else ("PORT_QOS_MAP", "pfcwd_sw_enable")
    if fact.key in {"headroom", "xoff", "alpha"}:
        return _of_group(of, switch, port, fact.key)
    return Place(device, table, port.name, field)


def _of_cable(of: Comparison, device: str, port: str) -> Place:
    """The length of a port's cable; other vendors have it at the port, SONiC in a row of all ports."""
    if device not in of.reading.databases:
        return Place(device, "CABLE_LENGTH", port)
    return Place(device, "CABLE_LENGTH", next(iter(of.reading.rows(device, "CABLE_LENGTH")), "AZURE"), port)


def _of_group(of: Comparison, switch: Switch, port: Port, key: str) -> Place:
    """The profile of the lossless group of a port, or its row."""
    group = switches.data_of(switch, port, of.now.classes).group
    profile = switch.profiles.get(port.groups.get(group) or "")
    if profile is None:
        return Place(switch.name, "BUFFER_PG", port.group_rows.get(group, f"{port.name}|{group}"))
    field = {"headroom": "xoff", "xoff": "static_th", "alpha": "dynamic_th"}[key]
    return Place(switch.name, "BUFFER_PROFILE", profile.name, field)


def _of_mark(switch: Switch, port: Port, key: str) -> Place:
    """The WRED profile of a queue, or its row if it has none."""
    _, number, mark = key.split()
    queue = port.queues.get(int(number))
    wred = switch.wred.get(queue.wred or "") if queue else None
    if wred is None:
        return Place(switch.name, "QUEUE", f"{port.name}|{number}", "wred_profile")
    field = MARKS[mark] if wred.marks_green and "green" in wred.enabled else "wred_green_enable"
    return Place(switch.name, "WRED_PROFILE", wred.name, field)


def _of_node(of: Comparison, device: str, key: str) -> Place:
    if key in {BUFFER, POOL}:
        pools = switches.pools_of(of.now.scope, of.now.classes)
        name = next((pool.name for end, _, _, pool in pools if end.device == device), "")
        return Place(device, "BUFFER_POOL", name, "size" if key == BUFFER else "xoff")
    table, field = OF_HOST.get(key.rsplit(maxsplit=1)[-1], ("transport", key.rsplit(maxsplit=1)[-1]))
    return Place(device, table, "", field)


def spot(of: Comparison, device: str, port: str, key: str) -> Place:
    """The place of what a device or port has and the scenario has one value of."""
    if key == "cable":
        return _of_cable(of, device, port)
    table, field = next((own for begin, own in TABLES.items() if key.startswith(begin)), ("", ""))
    if key.startswith("reserved") and port:
        switch, own = of.reading.fabric.switches[device], of.reading.fabric.switches[device].ports[port]
        place = _of_group(of, switch, own, "headroom")
        return Place(device, place.table, place.key, "size")
    if key.startswith("queue of") and port:
        return _of_map(of, device, port, key)
    row = {"QUEUE": _odd_queues, "BUFFER_QUEUE": _queue_of}.get(table)
    return Place(device, table, row(of, device, port, key) if row else port, field)


def _queue_of(_of: Comparison, _device: str, port: str, key: str) -> str:
    return f"{port}|{key.rsplit(maxsplit=1)[-1]}"


def _odd_queues(of: Comparison, device: str, port: str, key: str) -> str:
    """The first queue with another weight than most ports have."""
    account = of.now.scope.account
    own, usual = account.values[key][device, port].split(","), account.chosen[key].split(",")
    return f"{port}|{next((n for n, (a, b) in enumerate(zip(own, usual, strict=False)) if a != b), 0)}"


def _of_map(of: Comparison, device: str, port: str, key: str) -> Place:
    """The map by which a code point gets into its queue, if it is the port's own."""
    name = of.reading.fabric.switches[device].ports[port].qos.dscp_to_tc
    if name is None:
        return Place(device, "PORT_QOS_MAP", port)
    return Place(device, "DSCP_TO_TC_MAP", name, str(point_of(of, key)))


def point_of(of: Comparison, key: str) -> int:
    """The code point whose queue devices have."""
    name = key.removeprefix("queue of ")
    known = {"best effort": 0, "CNPs": of.now.scope.fabric.cnp_dscp}
    return known[name] if name in known else int(name.split()[-1])
