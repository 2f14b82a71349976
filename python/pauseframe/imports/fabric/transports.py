"""The transports of a host's traffic: RoCE and TCP classes, by its files, its card and the switches."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from pauseframe.deploy import dcqcn
from pauseframe.deploy.routed_hosts import LINUX_RTO_MS, NUMBERS, SWITCHES
from pauseframe.deploy.traffic import TrafficClass
from pauseframe.imports.fabric.traffic import BEST_EFFORT, marked_code_points
from pauseframe.imports.mlxconfig import is_off, lines_of
from pauseframe.scenario.plain import decimal

if TYPE_CHECKING:
    from pauseframe.devices.model import Host, HostRoute
    from pauseframe.imports.fabric.scope import Scope
    from pauseframe.imports.fabric.switches import Classes

Keys = dict[str, Any]
CONTROLS = {"dctcp": "dctcp", "cubic": "cubic", "reno": "newreno", "vegas": "vegas", "bbr": "bbr"}
"""Preset of each congestion control of Linux that the simulator has."""
DCQCN = ("dcqcn_connectx", "dcqcn_cx5_measured", "dcqcn_hpcc")
"""Values of rdma_control that cards can have; the first is the preset's."""
LINUX = {
    "net.ipv4.tcp_sack": "1",
    "net.ipv4.tcp_dsack": "1",
    "net.ipv4.tcp_timestamps": "1",
    "net.ipv4.tcp_recovery": "1",
    "net.ipv4.tcp_early_retrans": "3",
    "net.ipv4.tcp_frto": "2",
    "net.ipv4.tcp_slow_start_after_idle": "1",
    "net.ipv4.tcp_no_metrics_save": "0",
    "net.ipv4.tcp_reordering": "3",
    "net.ipv4.tcp_syn_retries": "6",
    "net.ipv4.tcp_retries2": "15",
    "net.ipv4.tcp_rmem": "4096 131072 6291456",
    "net.ipv4.tcp_wmem": "4096 16384 4194304",
}
"""Linux's defaults (Documentation/networking/ip-sysctl.rst), which are also those of the presets."""


def of_host(scope: Scope, classes: Classes, node: str, load: str = "auto") -> list[Keys]:
    """What a host sends: each TCP class of its files, and RoCE.

    RoCE needs registers of a card, or a lossless class without a TCP class. Without files of the host the classes of
    the switches decide: RoCE in the lossless class, DCTCP in queues with marks.
    """
    host = _host(scope, node)
    if host is None or not _tells(host):
        scope.account.assume(
            f"load {load}: by the lossless and marked queues of the switches, because hosts have no files"
        )
        return _of_switches(scope, classes)
    return _of_files(scope, classes, host, load, _speed(scope, node))


def _tells(host: Host) -> bool:
    """True if the files of a host tell what it sends."""
    return bool(host.routes or host.sysctl or host.registers)


def _of_files(scope: Scope, classes: Classes, host: Host, load: str, speed: int) -> list[Keys]:
    found = [_tcp(scope, classes, host, route) for route in _routes(host)] if host.routes or host.sysctl else []
    card = host.registers or host.roce_dscp is not None
    if card or (classes.lossless and not any(own["lossless"] for own in found)):
        why = "files give registers of cards" if card else "no TCP class of the hosts is in the lossless class"
        scope.account.assume(f"load {load}: RoCE, because {why}")
        found.insert(0, roce(classes, host, speed=speed))
    return found


def lossy_of(scope: Scope, classes: Classes) -> dict[int, Keys]:
    """What the fabric's hosts send into lossy queues, by queue: of their files, or by the marks of the switches."""
    speed = max((cable.speed for cable in scope.cables), default=0)
    known = [host for _, host in sorted(scope.fabric.hosts.items()) if _tells(host)]
    sent = [own for host in known for own in _of_files(scope, classes, host, "proof", speed)]
    found: dict[int, Keys] = {}
    for own in sent or _of_switches(scope, classes):
        if not own["lossless"]:
            queue = own["priority"] if "priority" in own else dict(classes.of_dscp).get(own["dscp"], 0)
            found.setdefault(queue, own)
    return found


def name_of(own: Keys) -> str:
    """A transport in words: "cubic in DSCP 0"."""
    return f"{own['preset']} in {'DSCP' if 'dscp' in own else 'priority'} {own.get('dscp', own.get('priority'))}"


def _of_switches(scope: Scope, classes: Classes) -> list[Keys]:
    """The transports of a host without files."""
    marked = marked_code_points(scope.fabric) if classes.of_dscp else []
    lossy = [point for point in marked if dict(classes.of_dscp).get(point) not in {None, *classes.paused}]
    found = [{"preset": "dctcp", **_class(classes, dict(classes.of_dscp)[point], point)} for point in lossy]
    if classes.lossless:
        found.insert(0, roce(classes))
    if not found:
        found.append({"preset": "cubic", **best_effort(classes)})
    return found


def roce(classes: Classes, host: Host | None = None, *, control: str | None = None, speed: int = 0) -> Keys:
    """The transport of RoCE traffic, with the registers of the host's card; `control` replaces DCQCN."""
    point = None if host is None or dict(classes.of_dscp).get(host.roce_dscp or 0) is None else host.roce_dscp
    priority = classes.data if point is None else dict(classes.of_dscp)[point]
    own: Keys = {"preset": "roce_dcqcn", **_class(classes, priority, point)}
    if control is not None:
        return own | {"rdma_control": control}
    own |= {"rdma_cnp_dscp": classes.cnp_dscp, "rdma_cnp_priority": classes.notifications}
    return own | (_registers(host, speed) if host is not None and host.registers else {})


def _registers(host: Host, speed: int) -> Keys:
    """The keys of registers that differ from the preset's, or the name of the DCQCN that has them all."""
    for control in () if is_off(host.registers) else DCQCN:
        keys = {"rdma_control": control, "rdma_cnp_interval": f"{host.registers.get('MIN_TIME_BETWEEN_CNPS', 4)} us"}
        cnp = {"rdma_cnp_priority": host.registers.get("CNP_802P_PRIO", 6), "rdma_cnp_scope": "port"}
        cnp["rdma_cnp_dscp"] = host.registers.get("CNP_DSCP", 48)
        one = TrafficClass("", "rdma", 0, 0, lossless=True, ecn=True, keys=keys | cnp)
        wanted = dcqcn.registers(one, speed)[0]
        if all(wanted.get(name, value) == value for name, value in host.registers.items()):
            usual = control == DCQCN[0] and keys["rdma_cnp_interval"] == "4 us"
            return {} if usual else keys
    lines, refused = lines_of(host.registers)
    if refused:
        raise ValueError(f"{host.name}: registers of its card cannot be simulated: {'; '.join(refused)}")
    found = tomllib.loads("\n".join(lines))
    return {key: value for key, value in found.items() if key not in {"rdma_cnp_dscp", "rdma_cnp_priority"}}


def tcp(scope: Scope, classes: Classes, node: str) -> Keys:
    """The transport of a host's first TCP class: congestion control, ECN, RTO and class, as its files give them."""
    host = _host(scope, node)
    if host is None:
        return {"preset": "cubic", **best_effort(classes)}
    return _tcp(scope, classes, host, _routes(host)[0])


def _routes(host: Host) -> list[HostRoute | None]:
    """A route for each TCP class of the host, which is an address of its first interface; None without routes."""
    own = [route for route in host.routes if route.congctl] or host.routes
    by_source: dict[str, HostRoute | None] = {}
    for route in own:
        if route.interface == own[0].interface:
            by_source.setdefault(route.source, route)
    return [*by_source.values()] or [None]


def _tcp(scope: Scope, classes: Classes, host: Host, route: HostRoute | None) -> Keys:
    name = (route and route.congctl) or host.sysctl.get("net.ipv4.tcp_congestion_control", "cubic")
    own: Keys = {"preset": CONTROLS.get(name, "cubic"), **_class_of(classes, host, route)}
    if name not in CONTROLS:
        scope.account.differs(host.name, "", "congestion control", name, "cubic")
    ecn = host.sysctl.get("net.ipv4.tcp_ecn")
    if ecn == "0" and not (route and route.ecn):
        # Linux without ECN: dctcp_init in net/ipv4/tcp_dctcp.c falls back to Reno.
        own |= {"preset": "newreno"} if name == "dctcp" else {"ecn": "off"}
    elif own["preset"] != "dctcp" and (ecn == "1" or (route and route.ecn)):
        own["ecn"] = "classic"
    if route and route.rto_min_ms not in {None, LINUX_RTO_MS}:
        own["rto_min"] = f"{decimal(route.rto_min_ms)} ms"
    if route and route.initcwnd is not None:
        own["initial_window"] = f"{route.initcwnd} segments"
    if route and route.quickack:
        own["delayed_ack_segments"] = 1
    return own | _sysctls(host)


def _class_of(classes: Classes, host: Host, route: HostRoute | None) -> Keys:
    """The class of a host's route: by the DSCP of its address, or by the 802.1p priorities of its VLANs."""
    point = host.code_points.get(route.source) if route else None
    if point is not None and point in dict(classes.of_dscp):
        return _class(classes, dict(classes.of_dscp)[point], point)
    sent = [one for vlan in host.vlans() for one in vlan.egress.values() if one in classes.paused]
    return _class(classes, sent[0]) if sent else best_effort(classes)


def _sysctls(host: Host) -> Keys:
    """The keys of sysctls that differ from Linux's defaults."""
    own = {name: " ".join(value.split()) for name, value in host.sysctl.items()}
    own = {name: value for name, value in own.items() if name in LINUX and value != LINUX[name]}
    keys: Keys = {}
    for key, (name, values) in SWITCHES.items():
        found = [value for value, text in values.items() if own.get(name) == text]
        keys |= {key: found[0]} if found else {}
    keys |= {key: int(own[name]) for key, name in NUMBERS.items() if own.get(name, "").isdecimal()}
    for side, name in (("receive", "net.ipv4.tcp_rmem"), ("send", "net.ipv4.tcp_wmem")):
        parts = own.get(name, "").split()
        if len(parts) == 3 and all(part.isdecimal() for part in parts):
            keys |= {f"{side}_buffer_initial": f"{parts[1]} B", f"{side}_buffer_max": f"{parts[2]} B"}
    return keys


def best_effort(classes: Classes) -> Keys:
    """The keys of a transport of best-effort traffic."""
    return _class(classes, classes.best_effort, BEST_EFFORT.value)


def _class(classes: Classes, priority: int, point: int | None = None) -> Keys:
    """The keys that put packets into a priority: a DSCP that has it, if the switches look DSCPs up."""
    own: Keys = {"lossless": priority in classes.paused}
    if not classes.of_dscp:
        return own | {"priority": priority}
    if point is None and priority == classes.data and classes.code:
        point = classes.code.value
    others = [one for one, to in classes.of_dscp if to == priority and one != classes.cnp_dscp]
    return own | {"dscp": min(others, default=0) if point is None else point}


def _host(scope: Scope, node: str) -> Host | None:
    return next((scope.fabric.hosts.get(end.device) for end, name in scope.hosts.items() if name == node), None)


def _speed(scope: Scope, node: str) -> int:
    return next(scope.by_end[end].speed for end, name in scope.hosts.items() if name == node)
