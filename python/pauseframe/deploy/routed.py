"""A scenario for SONiC: ports, maps, PFC, buffers, marks, schedulers and watchdog of each switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pauseframe.deploy import marks, memory, quantities
from pauseframe.deploy.design import SHARES
from pauseframe.deploy.inventory import DeployError
from pauseframe.deploy.sonic import NAME, Tables
from pauseframe.devices.model import PRIORITIES

if TYPE_CHECKING:
    from pauseframe.deploy.design import Design

POLL = 100, 1000
TIMES = {"detection_time": (100, 5000), "restoration_time": (100, 60_000)}
"""Limits of SONiC's watchdog in ms."""
CABLES = "AZURE"
"""Name of the row of cable lengths, which buffermgrd expects."""


def config_db(design: Design, switch: str) -> Tables:
    """The tables of a switch, without addresses and routing (`underlay.tables`)."""
    plan, ports = design.plan, design.plan.ports(switch)
    ends = list(design.ends(switch))
    tables: Tables = {
        "PORT": {
            end.port: {
                "lanes": plan.lanes[end],
                "speed": str(design.speed(end)),
                "mtu": str(design.settings.port_mtu),
                "admin_status": "up",
            }
            for end in ends
        },
        "DEVICE_NEIGHBOR": {port: {"name": far.device, "port": far.port} for port, (far, _) in ports.items()},
        "CABLE_LENGTH": {CABLES: {end.port: f"{design.cables[end]}m" for end in ends}},
        **_maps(design),
        "PORT_QOS_MAP": {end.port: _qos(design) for end in ends},
    }
    if design.lossless:
        tables["LOSSLESS_TRAFFIC_PATTERN"] = {CABLES: {"mtu": str(design.mtu), "small_packet_percentage": "100"}}
    tables |= memory.tables(design, switch)
    tables |= _queues(design, switch)
    if (dog := watchdog(design)) is not None:
        poll, times = dog
        tables["PFC_WD"] = {"GLOBAL": {"POLL_INTERVAL": poll}} | {end.port: dict(times) for end in ends}
    return tables


def _maps(design: Design) -> Tables:
    same = {str(n): str(n) for n in PRIORITIES}
    lossy = next(n for n in PRIORITIES if n not in design.lossless)
    groups = {str(n): str(n if n in design.lossless else lossy) for n in PRIORITIES}
    found: Tables = {
        "DSCP_TO_TC_MAP": {NAME: {str(dscp): str(priority) for dscp, priority in sorted(design.dscp_map.items())}},
        "TC_TO_QUEUE_MAP": {NAME: dict(same)},
        "TC_TO_PRIORITY_GROUP_MAP": {NAME: groups},
    }
    if design.lossless:
        found["MAP_PFC_PRIORITY_TO_QUEUE"] = {NAME: dict(same)}
    return found


def _qos(design: Design) -> dict[str, str]:
    found = {"dscp_to_tc_map": NAME, "tc_to_queue_map": NAME, "tc_to_pg_map": NAME}
    if design.lossless:
        paused = ",".join(map(str, design.lossless))
        found |= {"pfc_to_queue_map": NAME, "pfc_enable": paused}
        if design.switch["pfc"]["watchdog"]:
            found["pfcwd_sw_enable"] = paused
    return found


def weights(design: Design) -> dict[int, int]:
    """The weight of each priority: its share of the link in per cent, 0 for strict ones.

    SONiC gives weights to queues, not to groups; the queues of a group divide its share.
    """
    own = design.switch["scheduler"]
    if own["kind"] == "strict":
        return dict.fromkeys(PRIORITIES, 0)
    if "groups" not in own:
        return {n: SHARES.get(n, 0) for n in PRIORITIES}
    found = dict.fromkeys(PRIORITIES, 0)
    for group in own["groups"]:
        count = len(group["priorities"])
        if count > group["share"]:
            raise DeployError(f"switch.scheduler: {count} priorities share {group['share']} %: weights are 1 at least")
        for at, priority in enumerate(sorted(group["priorities"])):
            found[priority] = group["share"] // count + (at < group["share"] % count)
    if any(len(group["priorities"]) > 1 for group in own["groups"]):
        note = "switch.scheduler.groups: the queues of a group have equal weights; SONiC has no groups of queues"
        if note not in design.notes:
            design.notes.append(note)
    return found


def _scheduler(weight: int) -> tuple[str, dict[str, str]]:
    if weight == 0:
        return "scheduler.strict", {"type": "STRICT"}
    return f"scheduler.w{weight}", {"type": "DWRR", "weight": str(weight)}


def _queues(design: Design, switch: str) -> Tables:
    profiles, shares, marking = marks.Profiles(), weights(design), marks.marked(design)
    queues = {}
    for end in design.ends(switch):
        for n in PRIORITIES:
            row = {"scheduler": _scheduler(shares[n])[0]}
            if n in marking and (curve := marks.curve(design, end, n)) is not None:
                row["wred_profile"] = profiles.name(design.speed(end), curve)
            queues[f"{end.port}|{n}"] = row
    schedulers = dict(map(_scheduler, shares.values()))
    wred = {"WRED_PROFILE": profiles.rows} if profiles.rows else {}
    return {**wred, "SCHEDULER": schedulers, "QUEUE": queues}


def watchdog(design: Design) -> tuple[str, dict[str, str]] | None:
    """The poll interval, and the row of a port; None if the scenario has no watchdog."""
    own: Any = design.switch["pfc"] and design.switch["pfc"]["watchdog"]
    if not own:
        return None
    row = {"action": own["action"]}
    for field, key in (("detection_time", "detection"), ("restoration_time", "restoration")):
        row[field] = str(_within(design, f"switch.pfc.watchdog.{key}", own[key], *TIMES[field]))
    poll = _within(design, "switch.pfc.watchdog.poll", own["poll"], POLL[0], min(POLL[1], int(row["detection_time"])))
    return str(poll), row


def _within(design: Design, path: str, value: Any, low: int, high: int) -> int:
    """A time in whole ms within SONiC's limits; notes another value."""
    exact = quantities.number(value) * 1e3
    found = min(max(round(exact), low), high)
    note = f"{path} = {exact:g} ms is written as {found} ms: SONiC takes {low} to {high}"
    if abs(found - exact) > 1e-9 and note not in design.notes:
        design.notes.append(note)
    return found
