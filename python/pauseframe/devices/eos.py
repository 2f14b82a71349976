"""Reads running-configurations of Arista EOS: interfaces, QoS profiles and maps, PFC, ECN, buffers, port channels.

Sources of the forms and defaults: Arista, EOS User Manual, "Quality of Service", "Port Channels and LACP" and
"Multi-Chassis Link Aggregation" (www.arista.com/en/um-eos); aristanetworks/avd, eos_cli_config_gen (templates qos-*,
priority-flow-control, platform-trident).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pauseframe.devices import bgp_statements
from pauseframe.devices.bundles import Channel
from pauseframe.devices.files import number_in
from pauseframe.devices.model import BufferProfile, Port, PortQos, Queue, Scheduler, Switch, Watchdog, Wred
from pauseframe.devices.statements import Statements, T

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pauseframe.devices.bundles import LacpMode
    from pauseframe.devices.statements import Path, Words

MTU = {True: 1500, False: 9214}
"""MTU of a routed and of a switched port for which no statement sets one."""
MAP = "qos map"
DSCP = {dscp: {0: 1, 1: 0}.get(dscp // 8, dscp // 8) for dscp in range(64)}
"""Traffic class of each DSCP: 0-7 to class 1, 8-15 to class 0, then eight by eight."""
COS = {0: 1, 1: 0} | {cos: cos for cos in range(2, 8)}
SEGMENT = 208
"""Bytes of a segment, the unit of thresholds on Trident and Tomahawk."""
UNITS = {"bytes": 1, "kbytes": 1000, "mbytes": 1_000_000, "segments": SEGMENT}
TIMES = {"milliseconds": 1000.0, "microseconds": 1.0}
"""Microseconds of the units of thresholds in time."""
FEC = {"reed-solomon": "rs", "fire-code": "fc"}
MODES: dict[str, LacpMode] = {"active": "active", "passive": "passive", "on": "static"}
POLL, TIMEOUT = 100, 200
"""Milliseconds between two looks of the watchdog, and until it acts, if no statement sets them."""
_ECN = re.compile(
    r"random-detect ecn minimum-threshold (\d+) (\w+) maximum-threshold (\d+) (\w+)"
    r"(?: max-mark-probability (\d+))?(?: weight (\d+))?"
)
_SPEED = re.compile(
    r"(?:forced |auto )?(?:(\d{1,4}(?:\.5)?)g(?:full|half|-\d+)?|(\d{2,6})(?:full|half))", re.IGNORECASE
)
"""A speed in Gb/s, as 25gfull or 100g-4, or in Mb/s, as 1000full or 10000full."""
_QUEUE = re.compile(r"(?:uc-)?tx-queue (\d)")
_NUMBER = re.compile(r"\d+(/\d+)*(\.\d+)?")
_PLATFORM = "platform trident mmu queue profile "
WORDS: dict[tuple[str, str], Words] = {
    ("PORT", ""): ("interface", "{}", ""),
    ("PORT", "speed"): ("interface", "{}", "speed"),
    ("PORT", "mtu"): ("interface", "{}", "mtu"),
    ("PORT", "fec"): ("interface", "{}", "error-correction encoding"),
    ("PORT", "admin_status"): ("interface", "{}", "shutdown"),
    ("PORT_QOS_MAP", ""): ("interface", "{}", "qos trust"),
    ("PORT_QOS_MAP", "pfc_enable"): ("interface", "{}", "priority-flow-control"),
    ("PORT_QOS_MAP", "pfcwd_sw_enable"): ("interface", "{}", "priority-flow-control pause watchdog"),
    ("PFC_WD", ""): ("interface", "{}", "priority-flow-control pause watchdog"),
    ("BUFFER_PG", ""): ("interface", "{}", "priority-flow-control"),
    ("BUFFER_PROFILE", ""): ("platform trident mmu queue profile", "{}", ""),
    ("DSCP_TO_TC_MAP", ""): ("qos map dscp", "{f}", "to traffic-class"),
    ("DOT1P_TO_TC_MAP", ""): ("qos map cos", "{f}", "to traffic-class"),
    ("TC_TO_QUEUE_MAP", ""): ("qos map traffic-class", "{f}", "to tx-queue"),
    ("WRED_PROFILE", ""): ("", "{}", "random-detect"),
    ("SCHEDULER", ""): ("", "{}", ""),
    ("QUEUE", ""): ("interface", "{}", "tx-queue {n}"),
    ("PORTCHANNEL", ""): ("interface", "{}", ""),
    ("PORTCHANNEL", "mode"): ("interface", "{}", "channel-group mode"),
    ("PORTCHANNEL", "fast_rate"): ("interface", "{}", "lacp timer"),
    ("PORTCHANNEL", "fallback"): ("interface", "{}", "port-channel lacp fallback"),
    ("PORTCHANNEL", "min_links"): ("interface", "{}", "port-channel min-links"),
    ("PORTCHANNEL_MEMBER", ""): ("interface", "{n}", "channel-group"),
    **bgp_statements.EOS_ADDRESSES,
}  # fmt: skip


def looks_like(text: str) -> bool:
    """True if a text is a configuration of EOS: its head, or sections that are indented by three blanks."""
    if re.search(r"(?m)^! device: .*EOS|^! boot system flash:.*EOS|^!RANCID-CONTENT-TYPE: arista", text):
        return True
    body = re.search(r"(?m)^interface (Ethernet|Port-Channel)\S+\n   \S", text)
    return bool(body) and bool(re.search(r"(?m)^hostname \S", text)) and bool(re.search(r"(?m)^!$", text))


def read(text: str, source: str, name: str) -> Switch:
    """The switch of a running-configuration; `name` applies if it has no hostname."""
    leaves: dict[Path, tuple[str, int]] = {}
    for path, line in _lines(text):
        leaves[path] = ("", line)
    found = Statements(source, leaves, WORDS, _general)
    switch = Switch(_one(found, "hostname ") or name, source, "eos", statements=found)
    switch.tables = frozenset(table for table, _ in WORDS)
    _read_maps(found, switch)
    watchdog = _defaults_of_watchdog(found, switch)
    for section in found.names():
        if section.startswith("interface Ethernet"):
            port = _port(found, switch, section, watchdog)
            switch.ports[port.name] = port
        elif section.startswith("interface Port-Channel"):
            _channel(found, switch, section)
    _read_buffers(found, switch)
    bgp_statements.of_eos(found, switch)
    return switch


def _lines(text: str) -> Iterator[tuple[Path, int]]:
    """The statements as paths of their sections; a section without statements in it is one itself."""
    above: list[tuple[int, str]] = []
    pending: tuple[Path, int] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("!") or words == ["end"]:
            continue
        depth = len(line) - len(line.lstrip())
        if pending is not None and depth <= above[-1][0]:
            yield pending
        while above and above[-1][0] >= depth:
            above.pop()
        above.append((depth, " ".join(words)))
        pending = tuple(name for _, name in above), number
    if pending is not None:
        yield pending


def _general(path: Path) -> str:
    """A statement without numbers and names: the section's first two words, and the statement's first two."""
    parts = [part.split()[:2] for part in (path if len(path) == 1 else (path[0], path[-1]))]
    words = [re.sub(r"(Ethernet|Port-Channel|Vlan|Loopback|Management)[\d/.]+", r"\1*", " ".join(p)) for p in parts]
    return " / ".join(_NUMBER.sub("*", word) for word in words)


def _one(found: Statements, prefix: str, *section: str) -> str | None:
    """What follows a prefix in the last statement of a section that has it; the statements count as read."""
    value = None
    for name in found.names(*section):
        if name.startswith(prefix) and (*section, name) in found.leaves:
            found.get(*section, name)
            value = name[len(prefix) :]
    return value


def _value(found: Statements, parse: Callable[[str], T | None], prefix: str, *section: str) -> T | None:
    """What follows a prefix, by `parse`; None if it is missing, or not understood, which its note tells."""
    text = _one(found, prefix, *section)
    value = None if text is None else parse(text)
    if text is not None and value is None:
        found.refuse(*section, prefix + text)
    return value


def _whole(low: int, high: int) -> Callable[[str], int | None]:
    return lambda text: number_in(text, low, high)


def _speed(text: str) -> int | None:
    """Mb/s; 0 if the ends negotiate the speed."""
    match = _SPEED.fullmatch(text)
    if text == "auto" or match is None:
        return 0 if text == "auto" else None
    return round(float(match[1]) * 1000) if match[1] else int(match[2])


def _all(found: Statements, pattern: re.Pattern[str], *section: str) -> Iterator[re.Match[str]]:
    """The statements of a section that match, which count as read."""
    for name in found.names(*section):
        match = pattern.fullmatch(name)
        if match:
            found.get(*section, name)
            yield match


def _read_maps(found: Statements, switch: Switch) -> None:
    maps = switch.maps
    maps.dscp_to_tc[MAP], maps.dot1p_to_tc[MAP] = dict(DSCP), dict(COS)
    queues = maps.tc_to_queue[MAP] = {tc: tc for tc in range(8)}
    into = {"dscp": maps.dscp_to_tc[MAP], "cos": maps.dot1p_to_tc[MAP]}
    for match in _all(found, re.compile(r"qos map (dscp|cos) ([\d ,-]+) to traffic-class ([0-7])")):
        into[match[1]] |= dict.fromkeys(_mapped(found, match, 2, 63 if match[1] == "dscp" else 7), int(match[3]))
    for match in _all(found, re.compile(r"qos map traffic-class ([\d ,-]+) to (?:uc-)?tx-queue (\d)")):
        queues |= dict.fromkeys(_mapped(found, match, 1, 7), int(match[2]))
    maps.pfc_to_queue[MAP] = dict(queues)


def _mapped(found: Statements, match: re.Match[str], part: int, most: int) -> list[int]:
    """The numbers that a statement maps, such as "1 2 3", "1-3" or "1,2"; refused if one of them does not exist."""
    numbers: list[int] = []
    for text in match[part].replace(",", " ").split():
        first, _, last = text.partition("-")
        low, high = number_in(first, 0, most), number_in(last or first, 0, most)
        if low is None or high is None:
            found.refuse(match[0])
            return []
        numbers += range(low, high + 1)
    return numbers


def _defaults_of_watchdog(found: Statements, switch: Switch) -> Watchdog:
    """The watchdog's times of all ports, in seconds in the file."""
    prefix = "priority-flow-control pause watchdog "
    names = ("timeout", "recovery-time", "polling-interval")
    milliseconds = {name: _value(found, _milliseconds, f"{prefix}default {name} ") for name in names}
    switch.watchdog_poll = milliseconds["polling-interval"] or POLL
    action = _one(found, f"{prefix}action ") or "errdisable"
    return Watchdog(action, milliseconds["timeout"] or TIMEOUT, milliseconds["recovery-time"])


def _milliseconds(text: str) -> int | None:
    match = re.fullmatch(r"(\d{1,4}(?:\.\d{1,4})?)(?: forced)?", text)
    return round(float(match[1]) * 1000) or None if match else None


def _port(found: Statements, switch: Switch, section: str, watchdog: Watchdog) -> Port:
    name = section.split()[1]
    routed = found.has(section, "no switchport")
    speed = _value(found, _speed, "speed ", section) or None
    port = Port(name, speed, _value(found, _whole(68, 9416), "mtu ", section))
    port.mtu = port.mtu or MTU[routed]
    encoding = _value(found, FEC.get, "error-correction encoding ", section)
    port.fec = encoding or ("none" if found.has(section, "no error-correction encoding") else None)
    port.up = not found.has(section, "shutdown")
    profile = _one(found, "service-profile ", section)
    if profile is not None and f"qos profile {profile}" not in found.names():
        found.dangling[section, f"service-profile {profile}"] = f"qos profile {profile}"
    sections = [*([f"qos profile {profile}"] if profile else []), section]
    trust = next((word for one in reversed(sections) if (word := _one(found, "qos trust ", one))), None)
    # A routed port trusts DSCP, a switched one CoS, unless a statement says otherwise (EOS manual, QoS).
    trusts = trust or ("dscp" if routed else "cos")
    off = any(found.has(one, "no qos trust") for one in sections)
    if off:
        chosen = (_value(found, _whole(0, 7), "qos cos ", one) for one in reversed(sections))
        usual = next((cos for cos in chosen if cos is not None), 0)
        switch.maps.dscp_to_tc[f"no qos trust, cos {usual}"] = dict.fromkeys(
            range(64), switch.maps.dot1p_to_tc[MAP][usual]
        )
    port.qos = PortQos(
        _paused(found, sections),
        dscp_to_tc=f"no qos trust, cos {usual}" if off else MAP if trusts == "dscp" else None,
        dot1p_to_tc=MAP if trusts == "cos" and not off else None,
        tc_to_queue=MAP,
        pfc_to_queue=MAP,
        key=name,
    )
    for one in sections:
        _queues(found, switch, port, one)
    _watch(found, port, sections, watchdog)
    _member(found, switch, port, section)
    return port


def _paused(found: Statements, sections: list[str]) -> frozenset[int]:
    on, own = False, set[int]()
    for one in sections:
        on = (on or found.has(one, "priority-flow-control on")) and not found.has(one, "no priority-flow-control")
        for match in _all(found, re.compile(r"priority-flow-control priority (\d) (no-drop|drop)"), one):
            own = own | {int(match[1])} if match[2] == "no-drop" else own - {int(match[1])}
    off = found.has("priority-flow-control all off")
    return frozenset(own if on and not off else ())


def _queues(found: Statements, switch: Switch, port: Port, section: str) -> None:
    """Marks and schedulers of the queues of a port or profile."""
    for sub in found.names(section):
        match = _QUEUE.fullmatch(sub)
        if match is None:
            continue
        number, name = int(match[1]), f"{section} {sub}"
        queue = port.queues.setdefault(number, Queue())
        found.has(section, sub)
        for ecn in _all(found, _ECN, section, sub):
            if not {ecn[2], ecn[4]} <= UNITS.keys() | TIMES.keys() or int(ecn[5] or 100) > 100:
                found.refuse(section, sub, ecn[0])
                continue
            # Thresholds in time are as many bytes as the port sends in it, so ports of other rates have other profiles.
            if int(ecn[6] or 0):
                found.remarks.append(f"{section} {sub}: weight {ecn[6]}: the queue is not averaged, as with weight 0")
            timed = {ecn[2], ecn[4]} & TIMES.keys()
            own = f"{name}|{port.speed} Mb/s" if timed and port.speed else name
            low, high = (_threshold(ecn[i], ecn[i + 1], port) for i in (1, 3))
            times = (_microseconds(ecn[i], ecn[i + 1], port) for i in (1, 3))
            switch.wred[own] = Wred(
                own, "ecn_all", low, high, int(ecn[5] or 100), frozenset({"green", "yellow", "red"}), *times
            )
            queue.wred = own
        for drop in _all(found, re.compile(r"random-detect drop .*"), section, sub):
            least = re.search(r"minimum-threshold (\d+) (\w+)", drop[0])
            low = _threshold(least[1], least[2], port) if least else None
            switch.wred[name] = Wred(name, "ecn_none", low, None, 100, frozenset({"green", "yellow", "red"}))
            queue.wred = name
        strict, plain = (found.has(section, sub, text) for text in ("priority strict", "no priority"))
        percent = _value(found, _whole(1, 100), "bandwidth percent ", section, sub)
        found.has(section, sub, "random-detect ecn count")
        most = _value(found, _shape, "shape rate ", section, sub)
        shapes = [name for name in found.names(section, sub) if name.startswith("shape rate ")]
        found.hold_not("the simulator has no shaper", *((section, sub, name) for name in shapes))
        if strict or percent or plain or most:
            kind = "STRICT" if strict else "DWRR"
            switch.schedulers[name] = Scheduler(name, kind, percent or 1, most)
            queue.scheduler = name


def _shape(text: str) -> int | None:
    """Bytes per second of a rate in kbps, the only unit in which a rate is not a share or a number of packets."""
    match = re.fullmatch(r"(\d{1,10})(?: kbps)?", text)
    return int(match[1]) * 125 if match else None


def _threshold(number: str, unit: str, port: Port) -> int | None:
    """A threshold in bytes; one in time needs the port's rate."""
    if unit in UNITS:
        return int(number) * UNITS[unit]
    return round(int(number) * TIMES[unit] * port.speed / 8) if unit in TIMES and port.speed else None


def _microseconds(number: str, unit: str, port: Port) -> float | None:
    """A threshold in time of a port whose rate its file does not give."""
    return int(number) * TIMES[unit] if unit in TIMES and not port.speed else None


def _watch(found: Statements, port: Port, sections: list[str], watchdog: Watchdog) -> None:
    """The watchdog of a port: on if the port, its profile, or a default timeout for all ports turns it on."""
    prefix = "priority-flow-control pause watchdog"
    on = any(name.startswith(f"{prefix} default timeout") for name in found.names())
    time = r"(\d{1,4}(?:\.\d{1,4})?)"
    timer = re.compile(
        rf"{prefix} port timer timeout {time} polling-interval (?:auto|{time}) recovery-time {time}( forced)?"
    )
    own = Watchdog(watchdog.action, watchdog.detection, watchdog.restoration)
    for one in sections:
        on = (on or found.has(one, prefix)) and not found.has(one, f"no {prefix}")
        own.action = _one(found, f"{prefix} port action ", one) or own.action
        for match in _all(found, timer, one):
            times = [_milliseconds(match[n] or "") for n in (1, 3, 2)]
            if None in times[:2] or (match[2] and times[2] is None):
                found.refuse(one, match[0])
                continue
            own.detection, own.restoration, own.poll = times
            if match[2] is None:
                found.remarks.append(f"{one}: polling-interval auto: judged as the interval of all ports")
    port.qos.watchdog = port.lossless if on else frozenset()
    if on and port.lossless:
        port.watchdog = own


def _member(found: Statements, switch: Switch, port: Port, section: str) -> None:
    for match in _all(found, re.compile(r"channel-group (\d+) mode (active|passive|on)"), section):
        channel = switch.channels.setdefault(f"Port-Channel{match[1]}", Channel(f"Port-Channel{match[1]}"))
        channel.members.append(port.name)
        channel.mode = MODES[match[2]]
        rate = _one(found, "lacp timer ", section) or _one(found, "lacp rate ", section)
        channel.fast = rate == "fast"


def _channel(found: Statements, switch: Switch, section: str) -> None:
    name = section.split()[1]
    channel = switch.channels.setdefault(name, Channel(name))
    channel.mtu = _value(found, _whole(68, 9416), "mtu ", section)
    channel.min_links = _value(found, _whole(0, 1024), "port-channel min-links ", section)
    channel.up = not found.has(section, "shutdown")
    channel.fallback = _one(found, "port-channel lacp fallback", section) is not None
    fallbacks = [name for name in found.names(section) if name.startswith("port-channel lacp fallback")]
    found.hold_not("the simulator has no such setting", *((section, name) for name in fallbacks))
    number = _one(found, "mlag ", section)
    channel.mclag = f"mlag {number}" if number else ""


def _read_buffers(found: Statements, switch: Switch) -> None:
    """The headroom of the MMU profile that the platform applies, for all paused priorities."""
    applied = _one(found, _PLATFORM) or ""
    for section in found.names():
        name = section.removeprefix(_PLATFORM)
        if not section.startswith(_PLATFORM) or name.endswith(" apply"):
            continue
        kinds = ("headroom", "reserved", "resume")
        sizes = {kind: _value(found, _bytes, f"ingress {kind} ", section) for kind in kinds}
        if name != applied.removesuffix(" apply") or sizes["headroom"] is None:
            continue
        switch.profiles[name] = BufferProfile(name, size=sizes["reserved"] or 0, xoff=sizes["headroom"])
        for port in switch.ports.values():
            for priority in port.lossless:
                port.groups[priority], port.group_rows[priority] = name, f"{port.name}|{priority}"


def _bytes(text: str) -> int | None:
    """A size as "bytes 40000", "cells 200" or "40000"; a cell is a segment."""
    match = re.fullmatch(r"(?:(bytes|cells) )?(\d{1,9})", text)
    return int(match[2]) * (SEGMENT if match[1] == "cells" else 1) if match else None
