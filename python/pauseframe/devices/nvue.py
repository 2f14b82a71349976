"""Reads the configuration of Cumulus Linux: `nv config show -o yaml` or `-o json`, and /etc/nvue.d/startup.yaml.

Source of names and defaults: NVIDIA, Cumulus Linux 5.x user guide, "Quality of Service", "RDMA over Converged Ethernet
- RoCE", "Bonding - Link Aggregation", and the NVUE reference (docs.nvidia.com/networking-ethernet-software).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pauseframe.devices import bgp_statements
from pauseframe.devices.bundles import Channel
from pauseframe.devices.files import DeviceFileError, number_in, shown
from pauseframe.devices.model import BufferProfile, Maps, Port, PortQos, Queue, Scheduler, Switch, Watchdog, Wred
from pauseframe.devices.statements import Statements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.bundles import LacpMode
    from pauseframe.devices.statements import Path, Words

MOST_LEAVES = 500_000
DEEPEST = 32
GLOBAL = "default-global"
MTU = 9216
"""MTU of a port for which no statement sets one."""
CABLE = 100.0
"""Metres of cable that `qos roce` assumes."""
POLL, ROBUSTNESS = 100, 3
"""PFC watchdog: milliseconds between two looks, and looks before it acts."""
ECN = (150_000, 1_500_000, 100)
"""Bytes from which marks begin and are certain, and percentage, in the profile default-global."""
ROCE_QUEUES = {sp: sp if sp in {3, 6} else 0 for sp in range(8)}
"""Traffic class of each switch priority with `qos roce`."""
ROCE_SHARES = {0: 50, 3: 50, 6: 0}
"""Share of each traffic class with `qos roce`; 0 is strict."""
FEC = {"rs": "rs", "baser": "fc", "off": "none", "auto": "auto"}
SWITCH = dict.fromkeys(("on", "enable", "enabled", "true"), True)
SWITCH |= dict.fromkeys(("off", "disable", "disabled", "false"), False)
TRUST = {word: word for word in ("l2", "l3", "both", "port")}
UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
_START = re.compile(r"\s*(\[\s*\{|-\s+(header|set)\s*:|(set|header)\s*:)")
_SET = re.compile(r'(?m)^[\s\[{-]*"?set"?\s*:')
_RANGE = re.compile(r"([A-Za-z_.-]*(?:[0-9]+s)?)([0-9]+)-([0-9]+)(s[0-7](?:-[0-7])?)?")
"""Numbers after a prefix: ports (swp1-4), lanes of a port (swp1s0-3), or lanes of several ports (swp1-4s0-3)."""
MOST = 1024
"""Interfaces in a range."""
_PATTERNS = (re.compile(r"(swp|bond|eth|vlan|peerlink|lo)[0-9s.,-]*"), re.compile(r"[0-9]+"))
WORDS: dict[tuple[str, str], Words] = {
    ("PORT", ""): ("interface", "{}", "link"),
    ("PORT", "speed"): ("interface", "{}", "link speed"),
    ("PORT", "mtu"): ("interface", "{}", "link mtu"),
    ("PORT", "fec"): ("interface", "{}", "link fec"),
    ("PORT", "autoneg"): ("interface", "{}", "link auto-negotiate"),
    ("PORT", "admin_status"): ("interface", "{}", "link state"),
    ("PORT_QOS_MAP", ""): ("interface", "{}", "qos mapping profile"),
    ("PORT_QOS_MAP", "pfc_enable"): ("interface", "{}", "qos pfc profile"),
    ("PORT_QOS_MAP", "pfcwd_sw_enable"): ("interface", "{}", "qos pfc-watchdog"),
    ("PFC_WD", ""): ("interface", "{}", "qos pfc-watchdog"),
    ("BUFFER_PG", ""): ("interface", "{}", "qos pfc profile"),
    ("BUFFER_PROFILE", ""): ("qos pfc", "{}", ""),
    ("CABLE_LENGTH", ""): ("interface", "{}", "qos pfc profile"),
    ("DSCP_TO_TC_MAP", ""): ("qos mapping", "{}", "dscp {f}"),
    ("DOT1P_TO_TC_MAP", ""): ("qos mapping", "{}", "pcp {f}"),
    ("TC_TO_QUEUE_MAP", ""): ("qos egress-queue-mapping", "{}", "switch-priority {f}"),
    ("WRED_PROFILE", ""): ("qos congestion-control", "{}", ""),
    ("SCHEDULER", ""): ("qos egress-scheduler", "{}", ""),
    ("QUEUE", ""): ("interface", "{}", "qos congestion-control profile"),
    ("QUEUE", "scheduler"): ("interface", "{}", "qos egress-scheduler profile"),
    ("PORTCHANNEL", ""): ("interface", "{}", "bond"),
    ("PORTCHANNEL", "mtu"): ("interface", "{}", "link mtu"),
    ("PORTCHANNEL", "mode"): ("interface", "{}", "bond mode"),
    ("PORTCHANNEL", "fast_rate"): ("interface", "{}", "bond lacp-rate"),
    ("PORTCHANNEL", "fallback"): ("interface", "{}", "bond lacp-bypass"),
    ("PORTCHANNEL_MEMBER", ""): ("interface", "{}", "bond member {n}"),
    **bgp_statements.NVUE_WORDS,
}  # fmt: skip


def looks_like(text: str) -> bool:
    """True if a text begins as NVUE's configuration does."""
    head = re.sub(r"\A(\s*(#.*|---)\n)+", "", text[:4096])
    return bool(_START.match(head)) and bool(_SET.search(text))


def read(text: str, source: str, name: str) -> Switch | None:
    """The switch of a configuration; `name` applies if it has no hostname. None if the text has no `set`.

    Raises DeviceFileError for text that is not YAML.
    """
    leaves = dict(_leaves(text, source))
    if not leaves:
        return None
    found = Statements(source, leaves, WORDS, _general)
    switch = Switch(found.get("system", "hostname") or name, source, "nvue", statements=found)
    switch.tables = frozenset(table for table, _ in WORDS)
    roce = _roce(found)
    _read_maps(found, switch, roce)
    _read_marks(found, switch, roce)
    _read_schedulers(found, switch, roce)
    poll = found.number(1, 60_000, "qos", "pfc-watchdog", "polling-interval") or POLL
    switch.watchdog_poll = poll
    for port in found.names("interface"):
        for own in expanded(port):
            found.alias[own] = port
            if own.startswith("swp"):
                switch.ports[own] = _port(found, switch, port, own, roce)
            elif found.names("interface", port, "bond"):
                switch.channels[own] = _bond(found, port, own)
    bgp_statements.of_nvue(found, switch, expanded)
    return switch


def _leaves(text: str, source: str) -> Iterator[tuple[Path, tuple[str, int]]]:
    """The leaves below `set` with their lines; an empty mapping is a leaf with an empty value."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, Loader=loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise DeviceFileError(f"{shown(source)}: this is not YAML: {shown(error)}") from None
    entries = root.value if isinstance(root, yaml.SequenceNode) else [root]
    count = 0
    for entry in entries:
        for key, value in entry.value if isinstance(entry, yaml.MappingNode) else ():
            if key.value != "set":
                continue
            for leaf in _below(value, source):
                count += 1
                if count > MOST_LEAVES:
                    raise DeviceFileError(f"{shown(source)}: more than {MOST_LEAVES} statements: not read")
                yield leaf


def _below(node: Any, source: str) -> Iterator[tuple[Path, tuple[str, int]]]:
    """The leaves of a node; nodes by aliases are counted as often as they are named."""
    todo: list[tuple[Any, Path, int]] = [(node, (), node.start_mark.line + 1)]
    while todo:
        one, own, line = todo.pop()
        if len(own) > DEEPEST:
            raise DeviceFileError(f"{shown(source)}: line {line}: nested deeper than any configuration: not read")
        if isinstance(one.value, str):
            yield own, (one.value, line)
        elif not one.value:
            yield own, ("", line)
        elif one.id == "mapping":
            pairs = [(v, (*own, str(k.value)), k.start_mark.line + 1) for k, v in one.value]
            todo += reversed(pairs)
        else:
            todo += [(item, (*own, str(item.value)), item.start_mark.line + 1) for item in reversed(one.value)]


def _general(path: Path) -> str:
    """A path with * in place of names of interfaces and numbers, and of what NVUE lets people name."""
    named = {"pfc", "mapping", "congestion-control", "egress-scheduler", "egress-queue-mapping", "remark"}
    words = [
        "*" if any(p.fullmatch(word) for p in _PATTERNS) or (i and path[i - 1] in named and path[0] == "qos") else word
        for i, word in enumerate(path)
    ]
    return " ".join(words if path[0] in {"qos", "interface"} else words[:3])


def expanded(text: str) -> list[str]:
    """The interfaces of a key.

    >>> expanded("swp1-2,swp5s0")
    ['swp1', 'swp2', 'swp5s0']
    >>> expanded("swp1-2s0-1")
    ['swp1s0', 'swp1s1', 'swp2s0', 'swp2s1']
    """
    found: list[str] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match and int(match[3]) - int(match[2]) < MOST:
            ports = [f"{match[1]}{n}{match[4] or ''}" for n in range(int(match[2]), int(match[3]) + 1)]
            found += [lane for port in ports for lane in (expanded(port) if match[4] else [port])]
        else:
            found.append(part.strip())
    return found


def _numbered(found: Statements, most: int, *base: str) -> Iterator[tuple[str, list[int]]]:
    """The numbers of each key below a path; a key with others is refused."""
    for key in found.names(*base):
        numbers = [number_in(part, 0, most) for part in expanded(key)]
        if None in numbers:
            found.refuse(*base, key)
        yield key, [n for n in numbers if n is not None]


def _roce(found: Statements) -> str:
    """The mode of `qos roce`: lossless, lossy, or empty if it is off."""
    if not found.has("qos", "roce"):
        return ""
    states = [found.word(SWITCH, "qos", "roce", name) for name in ("enable", "state")]
    modes = {mode: mode.partition("-")[0] for mode in ("lossless", "lossless-single-ipool", "lossy", "lossy-multi-tc")}
    mode = found.word(modes, "qos", "roce", "mode") or "lossless"
    return "" if False in states else mode


def _read_maps(found: Statements, switch: Switch, roce: str) -> None:
    """Maps into switch priorities, which are the classes of the device model, and from these into traffic classes."""
    maps = switch.maps = Maps()
    for profile in {GLOBAL, *found.names("qos", "mapping")}:
        trust = found.word(TRUST, "qos", "mapping", profile, "trust") or ("both" if roce else "l2")
        kinds = (("dscp", maps.dscp_to_tc, {"l3", "both"}, 64), ("pcp", maps.dot1p_to_tc, {"l2", "both"}, 8))
        for kind, into, trusted, count in kinds:
            own = {n: n * 8 // count for n in range(count)}
            for key, numbers in _numbered(found, count - 1, "qos", "mapping", profile, kind):
                to = found.number(0, 7, "qos", "mapping", profile, kind, key, "switch-priority")
                own |= {n: to for n in numbers if to is not None}
            if trust in trusted:
                into[profile] = own
        if trust == "port":
            usual = found.number(0, 7, "qos", "mapping", profile, "port-default-sp") or 0
            maps.dscp_to_tc[profile] = dict.fromkeys(range(64), usual)
    queues = dict(ROCE_QUEUES) if roce else {sp: sp for sp in range(8)}
    base = ("qos", "egress-queue-mapping", GLOBAL, "switch-priority")
    for key, priorities in _numbered(found, 7, *base):
        to = found.number(0, 7, *base, key, "traffic-class")
        queues |= {sp: to for sp in priorities if to is not None}
    maps.tc_to_queue[GLOBAL] = maps.pfc_to_queue[GLOBAL] = queues


def _read_marks(found: Statements, switch: Switch, roce: str) -> None:
    """A WRED profile for each traffic class of a profile: "default-global traffic-class 3"."""
    for profile in {GLOBAL, *found.names("qos", "congestion-control")}:
        base = ("qos", "congestion-control", profile, "traffic-class")
        own = {tc: key for key, classes in _numbered(found, 7, *base) for tc in classes}
        usual = ({0, 3} if roce else {0}) if profile == GLOBAL else set()
        for tc in sorted(own.keys() | usual):
            key = own.get(tc, "")
            low, high = (found.parsed(_size, *base, key, f"{which}-threshold") for which in ("min", "max"))
            probability = found.number(0, 100, *base, key, "probability")
            marks = found.word(SWITCH, *base, key, "ecn") is not False
            drops = found.word(SWITCH, *base, key, "red") or False
            name = f"{profile} traffic-class {tc}"
            switch.wred[name] = Wred(
                name,
                "ecn_all" if marks else "ecn_none",
                ECN[0] if low is None else low,
                ECN[1] if high is None else high,
                ECN[2] if probability is None else probability,
                frozenset({"green", "yellow", "red"}) if marks or drops else frozenset(),
            )


def _size(text: str) -> int | None:
    """A size in bytes, with or without a unit: "150000", "150000 B", "1.43 MB"."""
    found = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([KMG]?)B?", text)
    return round(float(found[1]) * UNITS[found[2]]) if found else None


def _speed(text: str) -> int | None:
    """Mb/s; 0 if the ends negotiate the speed."""
    found = re.fullmatch(r"([0-9]{1,4}(?:\.5)?)([MG])", text.upper())
    if text == "auto" or found is None:
        return 0 if text == "auto" else None
    return round(float(found[1]) * (1000 if found[2] == "G" else 1)) or None


def _read_schedulers(found: Statements, switch: Switch, roce: str) -> None:
    if roce:
        for tc, share in ROCE_SHARES.items():
            name = f"{GLOBAL} traffic-class {tc}"
            switch.schedulers[name] = Scheduler(name, "DWRR" if share else "STRICT", share or 1)
    for profile in found.names("qos", "egress-scheduler"):
        base = ("qos", "egress-scheduler", profile, "traffic-class")
        for key, classes in _numbered(found, 7, *base):
            percent = found.number(0, 100, *base, key, "bw-percent")
            strict = found.word({"strict": True, "dwrr": False}, *base, key, "mode") or False
            for tc in classes:
                name = f"{profile} traffic-class {tc}"
                switch.schedulers[name] = Scheduler(name, "STRICT" if strict else "DWRR", percent or 1)


def _port(found: Statements, switch: Switch, key: str, name: str, roce: str) -> Port:
    link = ("interface", key, "link")
    port = Port(name, found.parsed(_speed, *link, "speed") or None, found.number(68, 9216, *link, "mtu") or MTU)
    port.fec = found.word(FEC, *link, "fec")
    port.autoneg = found.get(*link, "auto-negotiate")
    port.up = not found.has(*link, "state", "down") and found.get(*link, "state") != "down"
    found.has(*link, "state", "up")
    found.get("interface", key, "type")
    profiles = {kind: found.get("interface", key, "qos", kind, "profile") or GLOBAL
                for kind in ("mapping", "pfc", "congestion-control", "egress-scheduler")}  # fmt: skip
    for kind, profile in profiles.items():
        if profile not in {GLOBAL, *found.names("qos", kind)}:
            found.dangling["interface", key, "qos", kind, "profile"] = f"qos {kind} {profile}"
    mapping = profiles["mapping"]
    port.qos = PortQos(
        _paused(found, profiles["pfc"], roce),
        dscp_to_tc=mapping if mapping in switch.maps.dscp_to_tc else None,
        dot1p_to_tc=mapping if mapping in switch.maps.dot1p_to_tc else None,
        tc_to_queue=GLOBAL,
        pfc_to_queue=GLOBAL,
        key=name,
    )
    for tc in range(8):
        marks, shares = (f"{profiles[kind]} traffic-class {tc}" for kind in ("congestion-control", "egress-scheduler"))
        port.queues[tc] = Queue(
            None, marks if marks in switch.wred else None, shares if shares in switch.schedulers else None
        )
    _buffers(found, switch, port, profiles["pfc"], roce)
    _watchdog(found, switch, port, key)
    return port


def _paused(found: Statements, profile: str, roce: str) -> frozenset[int]:
    """The priorities that a port pauses by a PFC profile."""
    base = ("qos", "pfc", profile)
    own = set[int]()
    for key, priorities in _numbered(found, 7, *base, "switch-priority"):
        own |= {*priorities}
        found.take(*base, "switch-priority", key)
    if not own and roce == "lossless" and profile == GLOBAL:
        own = {3}
    if found.word(SWITCH, *base, "rx") is False:
        found.remarks.append(f"qos pfc {profile} rx disable: ports that do not obey pauses are judged as if they did")
        found.hold_not("ports are simulated as if they obeyed pauses", (*base, "rx"))
    return frozenset(() if found.word(SWITCH, *base, "tx") is False else own)


def _buffers(found: Statements, switch: Switch, port: Port, profile: str, roce: str) -> None:
    """The buffer of the paused priorities; Cumulus Linux computes it from the cable unless a profile gives it."""
    base = ("qos", "pfc", profile)
    length = found.number(1, 100_000, *base, "cable-length")
    if length is not None or (roce == "lossless" and port.lossless):
        port.cable = float(length) if length is not None else CABLE
    names = ("port-buffer", "xoff-threshold", "xon-threshold")
    size, xoff, xon = (found.parsed(_size, *base, name) or 0 for name in names)
    if port.lossless and profile not in switch.profiles:
        given = bool(size and xoff)
        if not given and (size or xoff or xon):
            found.remarks.append(f"qos pfc {profile}: {', '.join(names)}: used only with the first two given")
            found.hold_not(f"used only with {names[0]} and {names[1]}", *((*base, name) for name in names))
        switch.profiles[profile] = BufferProfile(
            profile, size=size, xon=xon, xoff=max(size - xoff, 0) if given else 0, computed=not given
        )
    for priority in port.lossless:
        port.groups[priority], port.group_rows[priority] = profile, f"{port.name}|{priority}"


def _watchdog(found: Statements, switch: Switch, port: Port, key: str) -> None:
    base = ("interface", key, "qos", "pfc-watchdog")
    on = found.has(*base) and found.word(SWITCH, *base, "state") is not False
    port.qos.watchdog = port.lossless if on else frozenset()
    looks = found.number(1, 1000, "qos", "pfc-watchdog", "robustness") or ROBUSTNESS
    if on:
        poll = switch.watchdog_poll or POLL
        # It restores a port after a look without a pause, so it has no time to restoration.
        port.watchdog = Watchdog("drop", poll * looks, None)


def _bond(found: Statements, key: str, name: str) -> Channel:
    base = ("interface", key, "bond")
    members = [one for part in found.names(*base, "member") for one in expanded(part)]
    found.take(*base, "member")
    channel = Channel(name, members, found.number(68, 9216, "interface", key, "link", "mtu"))
    modes: dict[str, LacpMode] = {"static": "static", "lacp": "active"}
    channel.mode = found.word(modes, *base, "mode") or "active"
    channel.fast = found.word({"fast": True, "slow": False}, *base, "lacp-rate") is not False
    channel.fallback = found.word(SWITCH, *base, "lacp-bypass") or False
    found.hold_not("the simulator has no such setting", (*base, "mode"), (*base, "lacp-bypass"))
    identifier = found.get(*base, "mlag", "id")
    channel.mclag = f"mlag {identifier}" if identifier else ""
    channel.up = not found.has("interface", key, "link", "state", "down")
    found.get("interface", key, "type")
    return channel
