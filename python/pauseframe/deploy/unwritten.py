"""Which keys of a scenario the files of devices have, and why the others are not written.

Every key that the file, `--set` or a preset gives is either written or listed with its reason.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pauseframe.deploy import bonds, marks, routed_hosts

if TYPE_CHECKING:
    from pauseframe.deploy.design import Design
    from pauseframe.deploy.traffic import TrafficClass


class Unwritten(NamedTuple):
    """A key without a counterpart on devices."""

    key: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.key} = {self.value}: {self.why}" if self.value else f"{self.key}: {self.why}"


_RUN = "it describes the run, not the devices"
_CHIP = "the switch chip has its own rule"
_NIC = "the card or the kernel has its own rule"
_FAULT = "it is a fault of the simulated fabric"
TABLES = {
    "name|seed|clocks|stop|remember": _RUN,
    "workload": _RUN,
    "record": _RUN,
    "failure|corruption|pause_storm": _FAULT,
    "plugins": "devices have no plug-ins",
}
"""Tables that are listed as one, by their names."""
_WRITTEN = (
    r"topology\.(?!.*(rate|delay)_back$|scale_up\b).*",
    r"routing\.kind",
    r"host\.mtu",
    r"switch\.priority_of_dscp.*",
    r"switch\.override.*",
    r"switch\.buffer\.(policy|size|alpha|reserved|egress_pool)",
    r"switch(\.classes\.[^.]+)?\.marker\.(kind|k|min|max|p_max)(\..*)?",
    r"switch\.classes\.[^.]+\.(priorities|alpha|reserved)",
    r"switch\.scheduler\..*",
    r"switch\.pfc",
    r"switch\.pfc\.(priorities|headroom|xoff|headroom_pool.*|watchdog.*)",
    r"transport[^.]*(\.[^.]+)?\.(preset|kind|lossless|priority|dscp|ecn|stack)",
)
_REASONS = {
    r"topology\.scale_up.*": "links between the GPUs of a server are no part of the network",
    r"topology\..*_back": "both ends of a link have one speed and one cable",
    r"routing\..*": "the hash and the convergence of switches are those of their chip and of BGP",
    r"host\..*": _NIC,
    r"switch\.pfc\.xon": "written as xon_offset if switch.pfc.xoff is set as well; else two frames, as by default",
    r"switch\.pfc\.(reaction|quanta)": "the reaction of ports and the quanta of pause frames are those of the chip",
    r"switch\.pfc\.ports.*": "SONiC pauses all ports alike",
    r"switch\.model": "it only gives defaults, which are written",
    r"switch\.(latency|queue|queue_packets|codel.*)|switch\.classes\.[^.]+\.(queue|codel.*)": _CHIP,
    r"switch.*\.marker\..*": "WRED of the chip judges where, and spaces marks as, it does",
    r"qcn.*": "SONiC has no QCN (802.1Qau); set switch.marker and a transport with ECN",
}
_CHOICES = {
    "queue_affinity": "written as a bond of mode 802.3ad; how queue pairs take its ports is a setting of the card",
    "least_loaded": "written as a bond of mode balance-tlb, whose load is that of the last 10 s",
}
_OF_BONDS = ("host.port_choice", "host.hash_policy", "host.miimon", "host.lacp_rate")
_MLAG_ANYWAY = "an MCLAG domain is written, because the ports of a bond are at two switches"
_TCP = ("congestion_control", "rto_min", "initial_window", "delayed_ack_segments")
"""Keys of TCP that routes have."""
_RDMA = ("rdma_control", "rdma_cnp_interval", "rdma_cnp_priority", "rdma_cnp_dscp")
GIVEN = ("file", "--set", "preset")
"""Origins of keys that somebody chose; the others are defaults, or computed from these."""


def unwritten(design: Design) -> list[Unwritten]:
    """The keys that the scenario gives and no file of a device has, in the order of the scenario."""
    found: dict[Unwritten, None] = {}
    classes = {one.path: one for one in design.classes}
    for path, (value, origin) in design.origins.items():
        if not origin.startswith(GIVEN):
            continue
        table = next((names for names in TABLES if re.match(rf"({names})(\.|$)", path)), None)
        idle = _idle(path, classes)
        if idle and not origin.startswith("preset"):
            found[Unwritten(idle, "", "no workload uses this transport")] = None
        elif idle:
            continue
        elif table is not None:
            found[Unwritten(path.partition(".")[0], "", TABLES[table])] = None
        elif (why := _reason(path, classes, design)) is not None:
            found[Unwritten(path, value, why)] = None
    return [*found, *_markers(design)]


def _reason(path: str, classes: dict[str, TrafficClass], design: Design) -> str | None:
    """The reason why a key is not written; None if it is."""
    if path == "routing.kind" and design.scenario["routing"]["kind"] != "ecmp":
        return "switches hash flows to equal paths (ECMP)"
    if path in {"host.tso", "host.gro"}:
        value = design.scenario["host"][path[5:]]
        return None if value else "off is the simulator's default, no advice for a NIC"
    if path in {"routing.mlag", *_OF_BONDS}:
        return _of_bonds(path, design)
    owner, _, key = path.rpartition(".")
    if path.startswith("transport"):
        own = next(one for name, one in classes.items() if owner == name or owner.startswith(f"{name}."))
        return _of_transport(own, path.removeprefix(f"{own.path}."), key)
    is_written = any(re.fullmatch(pattern, path) for pattern in _WRITTEN)
    if is_written or (path == "switch.pfc.xon" and "xoff" in design.switch["pfc"]):
        return None
    return next(
        (why for pattern, why in _REASONS.items() if re.fullmatch(pattern, path)), "devices have no such setting"
    )


def _of_bonds(path: str, design: Design) -> str | None:
    """The reason why a key of hosts with several ports, or of their switches, is not written."""
    bond, choice = bonds.of(design), design.scenario["host"]["port_choice"]
    if path == "routing.mlag":
        return _MLAG_ANYWAY if bonds.pairs(design) and not design.scenario["routing"]["mlag"] else None
    if all(len(ports) == 1 for ports in design.machines.values()):
        return "no host has several ports, so none has a bond"
    if path == "host.port_choice":
        return _CHOICES.get(choice)
    if bond is None:
        return "each port has its own address, so no host has a bond"
    return None if bond.lacp or path == "host.miimon" else f"a bond of mode {bond.mode} is written without it"


def _idle(path: str, classes: dict[str, TrafficClass]) -> str:
    """The table of a transport that no workload uses; empty for other keys."""
    found = re.match(r"transports\.[^.]+|transport(?=\.)", path)
    return found[0] if found and found[0] not in classes else ""


def _of_transport(own: TrafficClass, rest: str, key: str) -> str | None:
    if "." in rest and rest.partition(".")[0] != own.kind:
        return f"the transport is of kind {own.kind}"
    if key in {"preset", "kind", "lossless", "priority", "dscp", "ecn", "stack"}:
        return None
    if own.kind == "tcp":
        buffers = key in routed_hosts.BUFFER_KEYS and own.keys[f"{key.partition('_')[0]}_buffer"] == "linux"
        written = key in {*_TCP, *routed_hosts.SYSCTL_KEYS} or buffers
        written |= key in {"ect_on_syn", "ect_on_ack"} and own.keys["congestion_control"] == "dctcp"
        if key in routed_hosts.SWITCHES and own.keys[key] not in routed_hosts.SWITCHES[key][1]:
            written = False
        return None if written else _NIC
    dcqcn = str(own.keys.get("rdma_control", "")).startswith("dcqcn")
    if not dcqcn:
        return "cards have DCQCN only, whose registers are left as they are" if key == "rdma_control" else _NIC
    return None if key in _RDMA or (key.startswith("dcqcn_") and key != "dcqcn_byte_counter") else _NIC


def _markers(design: Design) -> list[Unwritten]:
    """Queues whose marker is not written: WRED would drop their traffic, which has no ECN."""
    marking = marks.marked(design)
    plain = sorted({one.priority for one in design.classes if one.priority not in marking})
    wanted = [n for n in plain if (design.setting(n, "marker") or {}).get("kind", "none") != "none"]
    why = "its traffic is not ECN-capable, and WRED would drop it: drop-tail"
    return [Unwritten(f"switch.marker of priority {n}", "", why) for n in wanted]
