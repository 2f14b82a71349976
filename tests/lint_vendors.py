"""A generated mixed fabric: leaves of Cumulus Linux and Arista EOS, and spines of SONiC; and single faults in it.

The texts have the vendors' forms, and values that fit one another.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import lint_fabrics
import yaml

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

UP, DOWN, MTU = 100, 25, 9214
SERVERS, SPINES = 2, 2


def nvue(name: str, number: int) -> list[dict[str, Any]]:
    """startup.yaml of a leaf: servers at swp1 and swp2, spines at swp11 and swp12, all with `qos roce`."""
    interfaces: dict[str, Any] = {"eth0": {"ip": {"address": {"dhcp": {}}}, "type": "eth"}}
    for n in range(SERVERS):
        interfaces[f"swp{n + 1}"] = {
            "link": {"mtu": MTU, "speed": f"{DOWN}G", "state": {"up": {}}},
            "qos": {"pfc": {"profile": "servers"}, "pfc-watchdog": {"state": "enabled"}},
            "type": "swp",
        }
    for s in range(SPINES):
        interfaces[f"swp{s + 11}"] = {
            "link": {"mtu": MTU, "speed": f"{UP}G", "fec": "rs"},
            "qos": {"pfc": {"profile": "uplinks"}, "pfc-watchdog": {"state": "enabled"}},
            "type": "swp",
        }
    roce = {
        "roce": {"enable": "on", "mode": "lossless"},
        "pfc": {
            profile: {"switch-priority": {"3": {}}, "tx": "enable", "rx": "enable", "cable-length": metres}
            for profile, metres in (("uplinks", 40), ("servers", 5))
        },
        "mapping": {"default-global": {"trust": "l3"}},
        "congestion-control": {
            "default-global": {
                "traffic-class": {
                    "3": {"ecn": "enable", "red": "disable", "min-threshold": 150_000, "max-threshold": 1_500_000,
                          "probability": 100}
                }
            }
        },
        "pfc-watchdog": {"polling-interval": 100, "robustness": 3},
    }  # fmt: skip
    own = {
        "interface": interfaces,
        "qos": roce,
        "system": {"hostname": name},
        "router": {"bgp": {"autonomous-system": 65000 + number}},
    }
    head = {"model": "VX", "nvue-api-version": "nvue_v1", "version": "Cumulus Linux 5.9.0"}
    return [{"header": head}, {"set": own}]


def eos(name: str, number: int) -> str:
    """Running-configuration of a leaf: servers at Ethernet1 and 2, spines at Ethernet11 and 12."""
    ports = [(f"Ethernet{n + 1}", f"forced {DOWN}gfull", "") for n in range(SERVERS)]
    ports += [(f"Ethernet{s + 11}", f"{UP}g-4", "   error-correction encoding reed-solomon\n") for s in range(SPINES)]
    interfaces = "".join(
        f"interface {port}\n   mtu {MTU}\n   speed {speed}\n{fec}   no switchport\n   service-profile ROCE\n!\n"
        for port, speed, fec in ports
    )
    maps = "".join(f"qos map dscp {d} {d + 1} to traffic-class 0\n" for d in range(0, 8, 2))
    maps += "qos map dscp 8-15 to traffic-class 1\nqos map traffic-class 0 1 2 4 5 7 to tx-queue 0\n"
    return f"""! Command: show running-config
! device: {name} (DCS-7060CX-32S, EOS-4.28.3M)
!
hostname {name}
!
{maps}!
priority-flow-control pause watchdog action drop
priority-flow-control pause watchdog default timeout 0.30
priority-flow-control pause watchdog default recovery-time 0.60
priority-flow-control pause watchdog default polling-interval 0.10
!
qos profile ROCE
   qos trust dscp
   priority-flow-control on
   priority-flow-control priority 3 no-drop
   !
   uc-tx-queue 0
      bandwidth percent 50
      no priority
   !
   uc-tx-queue 3
      no priority
      bandwidth percent 50
      random-detect ecn minimum-threshold 150 kbytes maximum-threshold 1500 kbytes max-mark-probability 100 weight 0
   !
   uc-tx-queue 6
      priority strict
!
{interfaces}router bgp {65100 + number}
   router-id 10.0.0.{number + 1}
!
end
"""


def spine(name: str, links: list[tuple[str, str]]) -> dict[str, Any]:
    """CONFIG_DB of a spine whose classes are those of `qos roce`."""
    ports = {f"Ethernet{4 * i}": (UP * 1000, 40, far, port) for i, (far, port) in enumerate(links)}
    tables = lint_fabrics.switch(name, ports, lookup=False)
    queues = {str(tc): str(tc if tc in {3, 6} else 0) for tc in range(8)}
    tables["DSCP_TO_TC_MAP"] = {"AZURE": {str(d): str(d // 8) for d in range(64)}}
    tables["TC_TO_QUEUE_MAP"] = {"AZURE": queues}
    tables["TC_TO_PRIORITY_GROUP_MAP"] = {"AZURE": {str(tc): "3" if tc == 3 else "0" for tc in range(8)}}
    for port in ports:
        tables["PORT"][port]["mtu"] = str(MTU)
        tables["PORT_QOS_MAP"][port] |= {"pfc_enable": "3", "pfcwd_sw_enable": "3"}
        profile = tables["BUFFER_PG"].pop(f"{port}|3-4")
        tables["BUFFER_PG"][f"{port}|3"] = profile
        tables["BUFFER_QUEUE"][f"{port}|3"] = tables["BUFFER_QUEUE"].pop(f"{port}|3-4")
        tables["BUFFER_QUEUE"][f"{port}|4"] = tables["BUFFER_QUEUE"][f"{port}|0-2"]
        tables["QUEUE"][f"{port}|4"] = {"scheduler": "scheduler.0"}
        tables["QUEUE"][f"{port}|6"] = {"scheduler": "strict"}
    tables["SCHEDULER"]["strict"] = {"type": "STRICT"}
    return tables


class Mixed:
    """The files of a mixed fabric."""

    def __init__(self) -> None:
        """Two leaves of each vendor, and two spines."""
        self.nvue = {f"cumulus{i}": nvue(f"cumulus{i}", i) for i in range(2)}
        self.eos = {f"arista{i}": eos(f"arista{i}", i) for i in range(2)}
        leaves = [(name, "swp{}") for name in self.nvue] + [(name, "Ethernet{}") for name in self.eos]
        self.spines = {
            f"spine{s}": spine(f"spine{s}", [(name, form.format(s + 11)) for name, form in leaves])
            for s in range(SPINES)
        }

    def set(self, name: str) -> Any:
        """The statements of a leaf of Cumulus Linux."""
        return self.nvue[name][1]["set"]

    def replace(self, name: str, old: str, new: str) -> None:
        """Changes the text of a leaf of EOS."""
        assert old in self.eos[name], old
        self.eos[name] = self.eos[name].replace(old, new)

    def copy(self) -> Mixed:
        """A copy to change."""
        return copy.deepcopy(self)

    def write(self, folder: Path) -> Path:
        """Writes a folder for each device."""
        lint_fabrics.write(self.spines, folder)
        for name, value in self.nvue.items():
            (folder / name).mkdir()
            (folder / name / "startup.yaml").write_text(yaml.safe_dump(value, sort_keys=False))
        for name, text in self.eos.items():
            (folder / name).mkdir()
            (folder / name / "running-config").write_text(text)
        return folder


def routed(mixed: Mixed) -> Mixed:
    """The fabric with addresses and eBGP between leaves and spines."""
    for i, leaf in enumerate([*mixed.nvue, *mixed.eos]):
        lines, neighbours = "", {}
        for s in range(SPINES):
            last, asn = 2 * (i * SPINES + s), 64900 + s
            here, there = f"10.1.0.{last}", f"10.1.0.{last + 1}"
            tables, port = mixed.spines[f"spine{s}"], f"Ethernet{4 * i}"
            own = 65000 + i if leaf in mixed.nvue else 65098 + i
            tables["DEVICE_METADATA"]["localhost"] |= {"bgp_asn": str(asn), "type": "SpineRouter"}
            tables.setdefault("INTERFACE", {}).update({port: {}, f"{port}|{there}/31": {}})
            tables["LOOPBACK_INTERFACE"] = {"Loopback0": {}, f"Loopback0|10.255.0.{s}/32": {}}
            row = {"asn": str(own), "local_addr": there, "name": leaf, "holdtime": "9", "keepalive": "3"}
            tables.setdefault("BGP_NEIGHBOR", {})[here] = row
            if leaf in mixed.nvue:
                mixed.set(leaf)["interface"][f"swp{s + 11}"]["ip"] = {"address": {f"{here}/31": {}}}
                timers = {"hold": 9, "keepalive": 3}
                neighbours[there] = {"type": "numbered", "remote-as": asn, "timers": timers}
            else:
                old = f"interface Ethernet{s + 11}\n"
                mixed.replace(leaf, old, f"{old}   ip address {here}/31\n")
                lines += f"   neighbor {there} peer group UP\n   neighbor {there} remote-as {asn}\n"
        if leaf in mixed.nvue:
            mixed.set(leaf)["vrf"] = {"default": {"router": {"bgp": {"neighbor": neighbours, "enable": "on"}}}}
        else:
            first = f"router bgp {65098 + i}\n"
            group = "   neighbor UP peer group\n   neighbor UP timers 3 9\n   maximum-paths 64 ecmp 64\n"
            mixed.replace(leaf, first, first + group + lines)
    return mixed


def _interface(name: str, *path: str, value: Any) -> Callable[[Mixed], None]:
    def fault(mixed: Mixed) -> None:
        node = mixed.set("cumulus0")["interface"][name]
        for word in path[:-1]:
            node = node.setdefault(word, {})
        node[path[-1]] = value

    return fault


def _qos(*path: str, value: Any) -> Callable[[Mixed], None]:
    def fault(mixed: Mixed) -> None:
        node = mixed.set("cumulus0")["qos"]
        for word in path[:-1]:
            node = node.setdefault(word, {})
        node[path[-1]] = value

    return fault


def _text(old: str, new: str) -> Callable[[Mixed], None]:
    return lambda mixed: mixed.replace("arista0", old, new)


_HEADROOM = """platform trident mmu queue profile roce
   ingress headroom bytes 3000
!
platform trident mmu queue profile roce apply
"""
_LAST = "interface Ethernet11\n"


def _without_roce(mixed: Mixed) -> None:
    """Lossless traffic without `qos roce`, which assumes a length of cables, and without a length."""
    own = mixed.set("cumulus0")["qos"]
    del own["roce"], own["pfc"]["uplinks"]["cable-length"]


def _without_port(mixed: Mixed) -> None:
    del mixed.set("cumulus0")["interface"]["swp11"]


FAULTS: dict[str, tuple[Callable[[Mixed], None], str]] = {
    "cumulus mtu": (_interface("swp11", "link", "mtu", value=1500), "PF051"),
    "cumulus speed": (_interface("swp11", "link", "speed", value="40G"), "PF050"),
    "cumulus fec": (_interface("swp11", "link", "fec", value="baser"), "PF056"),
    "cumulus down": (_interface("swp11", "link", "state", value={"down": {}}), "PF059"),
    "cumulus other priority": (_qos("pfc", "uplinks", "switch-priority", value={"4": {}}), "PF052"),
    "cumulus pfc tx": (_qos("pfc", "uplinks", "tx", value="disable"), "PF052"),
    "cumulus cable": (_qos("pfc", "uplinks", "cable-length", value=400), "PF054"),
    "cumulus short cable": (_qos("pfc", "uplinks", "cable-length", value=30), "PF054"),
    "cumulus no cable": (_without_roce, "PF054"),
    "cumulus map": (_qos("mapping", "default-global", "dscp", value={"26": {"switch-priority": 0}}), "PF053"),
    "cumulus cnp": (_qos("mapping", "default-global", "dscp", value={"48": {"switch-priority": 3}}), "PF025"),
    "cumulus trust": (_qos("mapping", "default-global", "trust", value="port"), "PF021"),
    "cumulus marks off": (
        _qos("congestion-control", "default-global", "traffic-class", "3", "ecn", value="disable"), "PF034"),
    "cumulus red": (
        _qos("congestion-control", "default-global", "traffic-class", "3", value={"ecn": "disable", "red": "enable"}),
        "PF032",
    ),
    "cumulus watchdog off": (_interface("swp12", "qos", "pfc-watchdog", "state", value="disabled"), "PF041"),
    "cumulus buffer": (
        _qos("pfc", "uplinks", value={"switch-priority": {"3": {}}, "cable-length": 40, "port-buffer": 25_000,
                                      "xoff-threshold": 20_000, "xon-threshold": 18_000}),
        "PF010",
    ),
    "cumulus strict data": (
        _qos("egress-scheduler", "default-global", "traffic-class", value={"3": {"mode": "strict"}}), "PF027"),
    "cumulus port": (_without_port, "PF055"),
    "arista port": (_text(_LAST, "interface Ethernet13\n"), "PF055"),
    "arista mtu": (_text(_LAST + f"   mtu {MTU}", _LAST + "   mtu 1500"), "PF051"),
    "arista speed": (
        _text(f"{_LAST}   mtu {MTU}\n   speed {UP}g-4", f"{_LAST}   mtu {MTU}\n   speed forced 40gfull"), "PF050"),
    "arista fec": (_text("   error-correction encoding reed-solomon", "   no error-correction encoding"), "PF056"),
    "arista down": (_text(_LAST, _LAST + "   shutdown\n"), "PF059"),
    "arista no pfc": (_text("   priority-flow-control on\n", ""), "PF052"),
    "arista other priority": (_text("priority 3 no-drop", "priority 4 no-drop"), "PF052"),
    "arista map": (_text("qos map dscp 0 1 to", "qos map dscp 26 27 to traffic-class 0\nqos map dscp 0 1 to"), "PF053"),
    "arista cnp": (_text("qos map dscp 0 1 to", "qos map dscp 48 to traffic-class 3\nqos map dscp 0 1 to"), "PF025"),
    "arista drops": (
        _text("random-detect ecn minimum-threshold 150 kbytes maximum-threshold 1500 kbytes max-mark-probability 100 "
              "weight 0", "random-detect drop minimum-threshold 1 kbytes maximum-threshold 9 kbytes"), "PF032"),
    "arista no marks": (_text("      random-detect ecn minimum-threshold 150 kbytes maximum-threshold 1500 kbytes "
                              "max-mark-probability 100 weight 0\n", ""), "PF034"),
    "arista no watchdog": (_text("priority-flow-control pause watchdog default timeout 0.30\n", ""), "PF041"),
    "arista watchdog loops": (_text("recovery-time 0.60", "recovery-time 0.10"), "PF040"),
    "arista strict data": (
        _text("   uc-tx-queue 3\n      no priority", "   uc-tx-queue 3\n      priority strict"), "PF027"),
    "arista headroom": (_text("hostname arista0\n", f"hostname arista0\n!\n{_HEADROOM}"), "PF010"),
    "arista trust": (_text("   qos trust dscp", "   no qos trust"), "PF021"),
    "arista member": (_text(_LAST, _LAST + "   channel-group 1 mode active\n"), "PF082"),
}  # fmt: skip
