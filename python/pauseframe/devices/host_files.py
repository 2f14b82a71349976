"""Reads netplan files, and the commands of a host's `setup.sh`, as `pauseframe deploy` writes them.

A script is not executed: only commands of ip, dcb, ethtool and sysctl with literal arguments count, and the registers
of a card that `pauseframe deploy` names in a variable.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from pauseframe.devices import bonds
from pauseframe.devices.files import DeviceFileError, as_text, milliseconds, number_in, read_text, shown, whole_number
from pauseframe.devices.host_state import ets_of_words
from pauseframe.devices.model import PRIORITIES, Host, HostRoute, HostVlan, Nic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    Command = Callable[[Host, list[str]], None]

SCRIPT, NETPLAN = "setup.sh", "netplan.yaml"
NVIDIA = f"mlnx_qos of {SCRIPT}"
"""What a script does where NVIDIA's tools are: the same in other words."""
_PORT = re.compile(r"^ +port '?([A-Za-z0-9_.-]{1,15})'?\n(?:(?! +port ).*\n)*? +qos$", re.MULTILINE)
"""A port whose queues a script of `pauseframe deploy` sets, of a host with several."""
_JOIN = re.compile(r"^ +port '?([A-Za-z0-9_.-]{1,15})'?\n +join '?([A-Za-z0-9_.-]{1,15})'?$", re.MULTILINE)
"""A port that joins a bond there."""


def read_netplan(path: Path) -> Host:
    """Interfaces, VLANs and addresses of a netplan file."""
    import yaml

    try:
        value = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DeviceFileError(f"{shown(path)}: this is not YAML: {shown(error)}") from None
    network = _rows(_rows(value).get("network"))
    host = Host(path.parent.name, str(path))
    for name, about in _rows(network.get("ethernets")).items():
        host.nics[str(name)] = Nic(str(name), mtu=whole_number(as_text(_rows(about).get("mtu"))))
    for name, about in _rows(network.get("bonds")).items():
        row = _rows(about)
        parts = {str(key): as_text(value) for key, value in _rows(row.get("parameters")).items()}
        members = row.get("interfaces")
        host.bonds[str(name)] = bonds.made(
            str(name),
            parts.get("mode", ""),
            list(map(str, members if isinstance(members, list) else ())),
            miimon=parts.get("mii-monitor-interval", ""),
            policy=parts.get("transmit-hash-policy", ""),
            rate=parts.get("lacp-rate", ""),
        )
    for name, about in _rows(network.get("vlans")).items():
        row = _rows(about)
        number, link = number_in(as_text(row.get("id")), 0, 4095), as_text(row.get("link"))
        if number is not None and link:
            addresses = row.get("addresses")
            vlan = HostVlan(
                number, str(name), addresses=list(map(str, addresses if isinstance(addresses, list) else ()))
            )
            host.nics.setdefault(link, Nic(link)).vlans[number] = vlan
    return host


def _rows(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def read_script(path: Path) -> Host:
    """Interfaces, VLANs, addresses, neighbours, routes and sysctls that a script sets; shares and pauses by dcb."""
    host, variables, text = _carried_out(path, _COMMANDS)
    _read_card(host, variables)
    _of_each_port(host, _PORT.findall(text))
    for port, bond in _JOIN.findall(text):
        if bond in host.bonds and port not in host.bonds[bond].members:
            host.bonds[bond].members.append(port)
    return host


def read_nvidia(path: Path) -> Host:
    """What a script sets by `mlnx_qos`, where NVIDIA's tools are, in the place of dcb."""
    host, _, text = _carried_out(path, {"mlnx_qos": _mlnx_qos})
    _of_each_port(host, _PORT.findall(text))
    return host


def _carried_out(path: Path, known: Mapping[str, Command]) -> tuple[Host, dict[str, str], str]:
    """The host that the known commands of a script make, the variables that it sets last, and its text."""
    host = Host(path.parent.name, str(path))
    variables: dict[str, str] = {}
    text = read_text(path)
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and name.isidentifier():
            variables[name] = value.strip("'\"")
        words = [variables.get(word[1:], word) if word.startswith("$") else word for word in _words(line)]
        for command in _commands(words):
            start = next((i for i, word in enumerate(command) if word in known), None)
            if start is not None:
                known[command[start]](host, [*command[start + 1 :], "", ""])
    return host, variables, text


def _of_each_port(host: Host, names: list[str]) -> None:
    """Gives what functions set at `$1` to each port for which the script calls them."""
    unnamed = [host.nics.pop(name) for name in [*host.nics] if name.startswith("$")]
    for nic in (host.nics.setdefault(name, Nic(name)) for name in dict.fromkeys(names)):
        for one in unnamed:
            nic.pfc = one.pfc if nic.pfc is None else nic.pfc
            nic.trust = nic.trust or one.trust
            nic.dscp_to_priority = nic.dscp_to_priority | one.dscp_to_priority
            nic.ets, nic.offloads = one.ets | nic.ets, one.offloads | nic.offloads


def _read_card(host: Host, variables: dict[str, str]) -> None:
    """The registers of a script of `pauseframe deploy`, and the traffic class of RoCE."""
    for pair in variables.get("registers", "").split():
        file, _, text = pair.partition("=")
        if (value := whole_number(text)) is not None:
            host.registers[file.rpartition("/")[2].upper()] = value
    if (traffic_class := number_in(variables.get("roce_tos"), 0, 255)) is not None:
        host.roce_traffic_class = traffic_class


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:  # a quotation over several lines
        return []


def _commands(words: list[str]) -> list[list[str]]:
    """The simple commands of a line: `have X || ip link add ..` has two."""
    found: list[list[str]] = [[]]
    for word in words:
        if word in {"&&", "||", "|", ";", "then", "do"}:
            found.append([])
        else:
            found[-1].append(word)
    return found


def _after(words: Sequence[str], name: str) -> str | None:
    """The word after a keyword."""
    return words[words.index(name) + 1] if name in words[:-1] else None


def _ip(host: Host, words: list[str]) -> None:
    if words[0] == "saddr":
        _marks(host, words)
    elif words[0] in _OF_IP:
        _OF_IP[words[0]](host, words[1:])


def _link(host: Host, words: list[str]) -> None:
    device, under, number = _after(words, "dev"), _after(words, "link"), number_in(_after(words, "id"), 0, 4095)
    if words[0] == "add" and under and number is not None and (name := _after(words, "name")):
        host.nics.setdefault(under, Nic(under)).vlans[number] = HostVlan(number, name)
    elif words[0] == "add" and "bond" in words[:-1] and _after(words, "type") == "bond":
        _add_bond(host, _after(words, "name") or (words[2] if words[1] == "dev" else words[1]), words)
    elif words[0] == "set" and (master := _after(words, "master")) is not None and master in host.bonds:
        host.bonds[master].members.append(device or words[1])
    elif words[0] == "set" and device and "egress-qos-map" in words and (vlan := _vlan(host, device)):
        pairs = [word.partition(":") for word in words[words.index("egress-qos-map") + 1 :]]
        numbers = [(whole_number(one), whole_number(other)) for one, colon, other in pairs if colon]
        vlan.egress |= {one: other for one, other in numbers if one is not None and other is not None}
    elif words[0] == "set" and device and (mtu := whole_number(_after(words, "mtu"))) is not None:
        host.nics.setdefault(device, Nic(device)).mtu = mtu
    if words[0] == "set" and device in host.nics and {"up", "down"} & {*words}:
        host.nics[device].up = "up" in words


def _add_bond(host: Host, name: str, words: list[str]) -> None:
    keys = {"miimon": "miimon", "policy": "xmit_hash_policy", "rate": "lacp_rate"}
    own = {key: _after(words, word) or "" for key, word in keys.items()}
    host.bonds[name] = bonds.made(name, _after(words, "mode") or "", [], **own)


def _vlan(host: Host, interface: str | None) -> HostVlan | None:
    return next((vlan for vlan in host.vlans() if vlan.interface == interface), None)


def _address(host: Host, words: list[str]) -> None:
    device = _after(words, "dev")
    if words[0] not in {"add", "replace"} or device is None:
        return
    of = _vlan(host, device) or host.nics.setdefault(device, Nic(device))
    of.addresses.append(words[1])


def _neighbour(host: Host, words: list[str]) -> None:
    mac = _after(words, "lladdr")
    if words[0] in {"add", "replace"} and mac and (vlan := _vlan(host, _after(words, "dev"))):
        vlan.neighbours[words[1]] = mac.lower()


def _route(host: Host, words: list[str]) -> None:
    device = _after(words, "dev")
    if words[0] in {"add", "replace"} and device:
        host.routes.append(
            HostRoute(
                words[1],
                device,
                _after(words, "congctl"),
                whole_number(_after(words, "initcwnd")),
                milliseconds(_after(words, "rto_min") or ""),
                _after(words, "quickack") == "1",
                _after(words, "features") == "ecn",
                whole_number(_after(words, "table")),
                _after(words, "src") or "",
                _after(words, "via") or "",
            )
        )


def _rule(host: Host, words: list[str]) -> None:
    source, table = _after(words, "from"), whole_number(_after(words, "lookup") or _after(words, "table"))
    if words[0] == "add" and source and table is not None:
        host.rules[source] = table


def _dcb(host: Host, words: list[str]) -> None:
    device = _after(words, "dev")
    if words[:2] == ["app", "replace"] and device and "dscp-prio" in words:
        nic = host.nics.setdefault(device, Nic(device))
        for point, colon, priority in (word.partition(":") for word in words[words.index("dscp-prio") + 1 :]):
            numbers = number_in(point, 0, 63), number_in(priority, 0, 7)
            if colon and numbers[0] is not None and numbers[1] is not None:
                nic.dscp_to_priority[numbers[0]] = numbers[1]
                nic.trust = "dscp"
    if words[:2] == ["ets", "set"] and device:
        ets_of_words(host.nics.setdefault(device, Nic(device)), words)
    if words[:2] == ["pfc", "set"] and device and "prio-pfc" in words:
        on = [whole_number(word.partition(":")[0]) for word in words if word.endswith(":on")]
        host.nics.setdefault(device, Nic(device)).pfc = frozenset(number for number in on if number is not None)


def _mlnx_qos(host: Host, words: list[str]) -> None:
    """`mlnx_qos` has a list by priority for each option; 1 stands for a paused priority."""
    if (name := _after(words, "-i")) is None:
        return
    nic, options = host.nics.setdefault(name, Nic(name)), {"--tsa": "tc-tsa", "--tcbw": "tc-bw", "--prio_tc": "prio-tc"}
    nic.trust = {"dscp": "dscp", "pcp": "pcp"}.get(_after(words, "--trust") or "", nic.trust)
    pfc = (_after(words, "--pfc") or "").split(",")
    if len(pfc) == len(PRIORITIES):
        nic.pfc = frozenset(n for n in PRIORITIES if pfc[n] == "1")
    for option, parameter in options.items():
        values = (_after(words, option) or "").split(",")
        if len(values) == len(PRIORITIES):
            nic.ets[parameter] = " ".join(f"{n}:{value}" for n, value in enumerate(values))


def _ethtool(host: Host, words: list[str]) -> None:
    if words[0] == "-K":
        nic = host.nics.setdefault(words[1], Nic(words[1]))
        nic.offloads |= {name: words[words.index(name) + 1] == "on" for name in ("tso", "gro") if name in words}


def _marks(host: Host, words: list[str]) -> None:
    """A rule of nftables: `ip saddr ADDRESS .. ip dscp set NUMBER`."""
    address, point = _after(words, "saddr"), number_in(_after(words, "set"), 0, 63)
    if address and "dscp" in words and point is not None:
        host.code_points[address] = point


def _sysctl(host: Host, words: list[str]) -> None:
    for word in words[words.index("-w") + 1 :] if "-w" in words else ():
        name, equals, value = word.partition("=")
        if equals:
            host.sysctl[name] = value


_OF_IP: dict[str, Command] = {
    "link": _link,
    "address": _address,
    "addr": _address,
    "neigh": _neighbour,
    "neighbour": _neighbour,
    "route": _route,
    "rule": _rule,
}
_COMMANDS: dict[str, Command] = {
    "ip": _ip,
    "dcb": _dcb,
    "ethtool": _ethtool,
    "sysctl": _sysctl,
    "neigh": _neighbour,
}
"""Commands by their first word; `neigh` begins the lines of `ip -batch`."""
