"""Reads Linux hosts and bridges from folders of `collect.sh` and from systemd-networkd files.

`collect.sh` stores the output of ip, bridge, dcb and sysctl. A device with a VLAN-filtering bridge of at least two
ports is a switch; every other device is a host.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import TYPE_CHECKING

from pauseframe.devices import bonds, wiring
from pauseframe.devices.files import (
    DeviceFileError,
    Json,
    as_list,
    as_rows,
    as_text,
    milliseconds,
    parse_json,
    read_text,
    shown,
    whole_number,
)
from pauseframe.devices.host_files import NETPLAN, NVIDIA, SCRIPT, read_netplan, read_nvidia, read_script
from pauseframe.devices.host_state import INTERFACE, add_state, rows_of
from pauseframe.devices.model import (
    End,
    Fabric,
    FdbRow,
    Host,
    HostRoute,
    HostVlan,
    Nic,
    Port,
    PortQos,
    Switch,
    TwoCables,
    Vlan,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_READ = re.compile(
    r"networkd/.*\.(netdev|network)"
    r"|.*/(ip-(link|addr|neigh|route|rule)\.json|bridge-(vlan|fdb)\.json|dcb-(pfc|app|ets)-.*\.json|lldp\.json)"
    r"|.*/(hostname|nft\.json|ethtool-.*\.txt|(speed|roce)\.txt)"
    r"|.*/(sysctl\.(txt|conf)|netplan\.yaml|setup\.sh|mlxconfig\.txt)"
)
COLLECTED, CARD = "ip-link.json", "mlxconfig.txt"
"""What stands for the files of collect.sh; the text of `mlxconfig -d DEVICE query` of a host's RoCE card."""
_FLOODS = ("flood", "mcast_flood", "bcast_flood")
_SECTION = re.compile(r"\[([A-Za-z0-9]+)\]")


def is_host_folder(path: Path) -> bool:
    """True for the folder of one Linux device. A script alone may be of anything, and netplan beside JSON as well."""
    if (path / "ip-link.json").is_file() or (path / "networkd").is_dir():
        return True
    return (path / NETPLAN).is_file() and not any(path.glob("*.json"))


def read_host(path: Path, fabric: Fabric) -> list[Path]:
    """Reads the folder of a device; returns its files. Raises DeviceFileError for an unreadable file."""
    own = read_text(path / "hostname").strip() if (path / "hostname").is_file() else ""
    name = own or path.resolve().name
    links = rows_of(path / "ip-link.json")
    slaves = [row for row in links if as_rows(as_rows(row).get("linkinfo")).get("info_slave_kind") == "bridge"]
    filtering = any(_info(row).get("vlan_filtering") == 1 for row in links)
    if name in fabric.switches or name in fabric.hosts:
        first = (fabric.switches.get(name) or fabric.hosts[name]).source
        name = path.resolve().name
        fabric.notes.append(
            f"{shown(str(path))}: its hostname {shown(own)} is also that of {shown(first)}: read as {shown(name)}"
        )
    device: Switch | Host
    if filtering and len(slaves) >= 2:
        device = fabric.switches[name] = _switch(name, path, slaves)
    else:
        device = fabric.hosts[name] = _host(name, path, links)
    device.neighbours, device.hostname = _neighbours(path, name, fabric.wired_twice), own
    return [file for file in sorted(path.rglob("*")) if file.is_file()]


def is_read(file: Path) -> bool:
    """True if `read_host` reads a file of this name."""
    return _READ.fullmatch(f"{file.parent.name}/{file.name}") is not None


def _info(row: Json) -> dict[str, Json]:
    return dict(as_rows(as_rows(as_rows(row).get("linkinfo")).get("info_data")))


def _neighbours(path: Path, device: str, twice: list[TwoCables]) -> dict[str, tuple[str, str]]:
    """The port at the other end of each port; `twice` receives the ports with several."""
    file = path / "lldp.json"
    if not file.is_file() or not (text := read_text(file)).strip():
        return {}
    found: dict[str, tuple[str, str]] = {}
    neighbours = wiring.lldp_neighbours(parse_json(text, str(file))) or []
    for wire in wiring.wires_of(neighbours, device, str(file)):
        first = found.setdefault(wire.port, (wire.other, wire.other_port))
        if first != (wire.other, wire.other_port):
            ends = End(device, wire.port), End(*first), End(wire.other, wire.other_port)
            twice.append(TwoCables(*ends, str(file), str(file)))
    return found


def _switch(name: str, path: Path, slaves: list[dict[str, Json]]) -> Switch:
    switch = Switch(name, str(path), "linux", tables=frozenset({"VLAN_MEMBER", "FDB"}))
    flags: dict[str, dict[str, Json]] = {}
    for row in slaves:
        port = Port(as_text(row.get("ifname")), mtu=whole_number(as_text(row.get("mtu"))), qos=PortQos(_pfc(path, row)))
        states = {as_text(flag) for flag in as_list(row.get("flags"))}
        port.up = not states or "UP" in states
        switch.ports[port.name] = port
        flags[port.name] = dict(as_rows(as_rows(row.get("linkinfo")).get("info_slave_data")))
    if any(port.qos.pfc is not None for port in switch.ports.values()):
        switch.tables |= {"PORT_QOS_MAP"}
    for row in rows_of(path / "bridge-vlan.json"):
        port_name = as_text(row.get("ifname"))
        for item in map(as_rows, as_list(row.get("vlans"))):
            number = whole_number(as_text(item.get("vlan")))
            if number is not None and port_name in switch.ports:
                untagged = "Egress Untagged" in map(as_text, as_list(item.get("flags")))
                vlan = switch.vlans.setdefault(number, Vlan(number, stp=False))
                vlan.members[port_name] = "untagged" if untagged else "tagged"
    for vlan in switch.vlans.values():
        own = [flags[port] for port in vlan.members if flags.get(port)]
        if own:
            vlan.learning = any(flag.get("learning", True) for flag in own)
            vlan.flood = any(flag.get(kind, True) for flag in own for kind in _FLOODS)
    for row in rows_of(path / "bridge-fdb.json"):
        number, port_name = whole_number(as_text(row.get("vlan"))), as_text(row.get("ifname"))
        if number is not None and port_name in switch.ports and row.get("state") == "static":
            switch.fdb.append(FdbRow(number, as_text(row.get("mac")).lower(), port_name))
    return switch


def _pfc(path: Path, row: dict[str, Json]) -> frozenset[int] | None:
    """The PFC priorities of an interface in the output of `dcb -j pfc show`."""
    name = as_text(row.get("ifname"))
    if not INTERFACE.fullmatch(name):
        return None
    found = rows_of(path / f"dcb-pfc-{name}.json")
    value = found[0].get("prio_pfc") if found else None
    rows = {str(i): item for i, item in enumerate(value)} if isinstance(value, list) else as_rows(value)
    on = {whole_number(key) for key, item in rows.items() if item is True or item == "on"}
    return frozenset(n for n in on if n is not None) if found else None


def _host(name: str, path: Path, links: list[dict[str, Json]]) -> Host:
    """The host of a folder: as collected from it, else by the first of its files."""
    forms: dict[str, Host] = {}
    settings = dict(_sysctls(path))
    own = Host(name, str(path), sysctl=settings if links else {})
    for row in links:
        _add_link(own, path, row)
    for row in links:
        if (master := as_text(row.get("master"))) in own.bonds:
            own.bonds[master].members.append(as_text(row.get("ifname")))
    if links:
        _add_addresses(own, path)
        _add_routes(own, path)
        add_state(own, path)
        forms[COLLECTED] = own
    elif (path / "networkd").is_dir():
        _read_networkd(own, path / "networkd")
        forms["networkd"] = own
    readers = ((SCRIPT, read_script), (NETPLAN, read_netplan))
    forms |= {file: read(path / file) for file, read in readers if (path / file).is_file()}
    if (path / CARD).is_file():
        forms[CARD] = Host(name, str(path / CARD), registers=_registers(path / CARD))
    if settings and not links:
        forms["sysctl.conf"] = Host(name, str(path / "sysctl.conf"), sysctl=settings)
    first = deepcopy(next(iter(forms.values()), own))
    _merge(first, list(forms.values()))
    if SCRIPT in forms and (nvidia := read_nvidia(path / SCRIPT)).nics:
        forms[NVIDIA] = nvidia
    first.name, first.source, first.forms = name, str(path), forms
    return first


def _merge(first: Host, forms: list[Host]) -> None:
    """Adds to a copy of the first form of a host what the others alone have."""
    for form in reversed(forms):
        first.sysctl = form.sysctl | first.sysctl
        first.registers = form.registers | first.registers
        if first.roce_traffic_class is None:
            first.roce_traffic_class = form.roce_traffic_class
        for nic in form.nics.values():
            known = first.nics.get(nic.name)
            if known is not None and known.pfc is None:
                known.pfc = nic.pfc
            if known is not None and known.up is None:
                known.up = nic.up
            if known is not None and known.trust is None:
                known.trust, known.dscp_to_priority = nic.trust, nic.dscp_to_priority
            if known is not None:
                known.offloads, known.ets = nic.offloads | known.offloads, nic.ets | known.ets
        first.code_points = form.code_points | first.code_points
        first.rules = form.rules | first.rules


def _registers(path: Path) -> dict[str, int]:
    """The registers of DCQCN of the first port in the text of `mlxconfig -d DEVICE query`."""
    from pauseframe._core import InputError
    from pauseframe.imports.mlxconfig import read_registers

    try:
        ports, _ = read_registers(path)
    except InputError as error:
        raise DeviceFileError(shown(str(error))) from None
    return ports[min(ports)] if ports else {}


def _add_link(host: Host, path: Path, row: dict[str, Json]) -> None:
    name, kind = as_text(row.get("ifname")), as_rows(row.get("linkinfo")).get("info_kind")
    if kind == "vlan":
        data = _info(row)
        number = whole_number(as_text(data.get("id")))
        under = as_text(row.get("link"))
        if number is not None:
            vlan = HostVlan(number, name)
            for item in map(as_rows, as_list(data.get("egress_qos"))):
                pair = whole_number(as_text(item.get("from"))), whole_number(as_text(item.get("to")))
                if pair[0] is not None and pair[1] is not None:
                    vlan.egress[pair[0]] = pair[1]
            host.nics.setdefault(under, Nic(under)).vlans[number] = vlan
    elif kind == "bond":
        about = _info(row)
        names = ("mode", "miimon", "xmit_hash_policy", "ad_lacp_rate")
        mode, miimon, policy, rate = (as_text(about.get(field)) for field in names)
        host.bonds[name] = bonds.made(name, mode, [], miimon=miimon, policy=policy, rate=rate)
        host.nics.setdefault(name, Nic(name)).mtu = whole_number(as_text(row.get("mtu")))
    elif kind is None and row.get("link_type") in {"ether", None}:
        nic = host.nics.setdefault(name, Nic(name))
        nic.mac, nic.mtu = as_text(row.get("address")).lower(), whole_number(as_text(row.get("mtu")))
        flags = {as_text(flag) for flag in as_list(row.get("flags"))}
        nic.up = "UP" in flags if flags else None
        nic.carrier = True if "LOWER_UP" in flags else False if "NO-CARRIER" in flags else None
        nic.pfc = _pfc(path, row)
        nic.dscp_to_priority = _dscp(path, name)
        nic.trust = "dscp" if nic.dscp_to_priority else "pcp" if nic.pfc is not None else None


def _dscp(path: Path, name: str) -> dict[int, int]:
    """The DSCP entries in the output of `dcb -j app show`: code point to priority."""
    app = rows_of(path / f"dcb-app-{name}.json") if INTERFACE.fullmatch(name) else []
    found = {}
    for item in as_list(app[0].get("dscp_prio")) if app else []:
        numbers = [whole_number(as_text(value)) for value in as_list(item)]
        if len(numbers) == 2 and numbers[0] is not None and numbers[1] is not None:
            found[numbers[0]] = numbers[1]
    return found


def _add_addresses(host: Host, path: Path) -> None:
    vlans = {vlan.interface: vlan for vlan in host.vlans()}
    for row in rows_of(path / "ip-addr.json"):
        name = as_text(row.get("ifname"))
        of = vlans.get(name) or host.nics.get(name)
        for item in map(as_rows, as_list(row.get("addr_info"))):
            if of is not None and item.get("family") == "inet":
                of.addresses.append(f"{as_text(item.get('local'))}/{as_text(item.get('prefixlen'))}")
    for row in rows_of(path / "ip-neigh.json"):
        vlan = vlans.get(as_text(row.get("dev")))
        if vlan is not None and "PERMANENT" in map(as_text, as_list(row.get("state"))):
            vlan.neighbours[as_text(row.get("dst"))] = as_text(row.get("lladdr")).lower()


def _add_routes(host: Host, path: Path) -> None:
    for row in rows_of(path / "ip-route.json"):
        metrics: dict[str, Json] = dict(row)
        for item in as_list(row.get("metrics")):
            metrics |= as_rows(item)
        rto = metrics.get("rto_min")
        host.routes.append(
            HostRoute(
                as_text(row.get("dst")),
                as_text(row.get("dev")),
                congctl=as_text(metrics.get("congestion", metrics.get("congctl"))) or None,
                initcwnd=whole_number(as_text(metrics.get("initcwnd"))),
                rto_min_ms=milliseconds(f"{rto}ms" if isinstance(rto, int | float) else as_text(rto)),
                quickack=as_text(metrics.get("quickack")) in {"1", "true"},
                ecn="ecn" in metrics,
                table=whole_number(as_text(row.get("table"))),
                source=as_text(row.get("prefsrc")),
                gateway=as_text(row.get("gateway")),
            )
        )


def _sysctls(path: Path) -> Iterator[tuple[str, str]]:
    for name in ("sysctl.txt", "sysctl.conf"):
        if (path / name).is_file():
            for line in read_text(path / name).splitlines():
                key, equals, value = line.partition("=")
                if equals and not line.lstrip().startswith(("#", ";")):
                    yield key.strip(), value.strip()


def _read_networkd(host: Host, folder: Path) -> None:
    """VLAN interfaces, addresses, neighbours and routes of .netdev and .network files."""
    kinds: dict[str, HostVlan] = {}
    parsed = [
        (path, list(_sections(path)))
        for path in sorted(folder.glob("*.net*"))
        if path.suffix in {".netdev", ".network"}
    ]
    for path, sections in parsed:
        if path.suffix == ".netdev":
            values = {f"{name}.{key}": value for name, pairs in sections for key, value in pairs}
            number = whole_number(values.get("VLAN.Id"))
            if values.get("NetDev.Kind") == "vlan" and number is not None:
                vlan = kinds[values.get("NetDev.Name", "")] = HostVlan(number, values.get("NetDev.Name", ""))
                for pair in values.get("VLAN.EgressQOSMaps", "").split():
                    one, other = (whole_number(part) for part in pair.partition("-")[::2])
                    if one is not None and other is not None:
                        vlan.egress[one] = other
            if values.get("NetDev.Kind") == "bond" and (name := values.get("NetDev.Name")):
                keys = {"miimon": "MIIMonitorSec", "policy": "TransmitHashPolicy", "rate": "LACPTransmitRate"}
                own = {key: values.get(f"Bond.{field}", "") for key, field in keys.items()}
                own["miimon"] += "s" if own["miimon"].isdecimal() else ""  # systemd.time(7): seconds
                host.bonds[name] = bonds.made(name, values.get("Bond.Mode", ""), [], **own)
    for path, sections in parsed:
        if path.suffix == ".network":
            _network(host, kinds, sections)


def _network(host: Host, kinds: dict[str, HostVlan], sections: list[tuple[str, list[tuple[str, str]]]]) -> None:
    name = next((v for section, pairs in sections if section == "Match" for k, v in pairs if k == "Name"), "")
    vlan = kinds.get(name)
    for section, pairs in sections:
        values = dict(pairs)
        if vlan is None and section == "Network":
            nic = host.nics.setdefault(name, Nic(name))
            members = [kinds[v] for k, v in pairs if k == "VLAN" and v in kinds]
            nic.vlans |= {member.id: member for member in members}
            for master in (v for k, v in pairs if k == "Bond" and v in host.bonds):
                host.bonds[master].members.append(name)
        elif vlan is None and section == "Link" and "MTUBytes" in values:
            host.nics.setdefault(name, Nic(name)).mtu = whole_number(values["MTUBytes"])
        elif vlan is None and section == "Address" and "Address" in values:
            host.nics.setdefault(name, Nic(name)).addresses.append(values["Address"])
        elif vlan is not None and section == "Address" and "Address" in values:
            vlan.addresses.append(values["Address"])
        elif section == "RoutingPolicyRule" and (table := whole_number(values.get("Table"))) is not None:
            host.rules[values.get("From", "")] = table
        elif vlan is not None and section == "Neighbor":
            vlan.neighbours[values.get("Address", "")] = values.get("LinkLayerAddress", "").lower()
        elif section == "Route" and name:
            host.routes.append(
                HostRoute(
                    values.get("Destination", ""),
                    name,
                    values.get("TCPCongestionControlAlgorithm"),
                    whole_number(values.get("InitialCongestionWindow")),
                    milliseconds(values.get("TCPRetransmissionTimeoutSec", "-")),
                    values.get("QuickAck") == "yes",
                    table=whole_number(values.get("Table")),
                    source=values.get("PreferredSource", ""),
                    gateway=values.get("Gateway", ""),
                )
            )


def _sections(path: Path) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Sections of a systemd file in order; systemd allows repeated sections, which configparser refuses."""
    section, pairs = "", list[tuple[str, str]]()
    for line in read_text(path).splitlines():
        text = line.strip()
        if not text or text.startswith(("#", ";")):
            continue
        found = _SECTION.fullmatch(text)
        if found:
            if section:
                yield section, pairs
            section, pairs = found[1], []
            continue
        key, equals, value = text.partition("=")
        if not equals:
            raise DeviceFileError(f"{shown(path)}: {shown(text)!r} is neither [Section] nor Key=Value")
        pairs.append((key.strip(), value.strip()))
    if section:
        yield section, pairs
