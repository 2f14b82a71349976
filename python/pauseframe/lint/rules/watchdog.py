"""Rules PF04x: the watchdog must end pause storms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.devices.model import Place
from pauseframe.lint.finding import VENDORS, Finding, PatchOperation, Severity, rule
from pauseframe.terminal.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import Watchdog
    from pauseframe.devices.read import Reading

LONGEST_PAUSE = 65535 * 512
"""Bit times of the longest pause that one frame can request (IEEE 802.3 Annex 31B)."""


@rule(
    "PF040",
    "watchdog-loops",
    "https://github.com/sonic-net/sonic-buildimage/issues/29203",
    "https://github.com/sonic-net/sonic-swss/pull/4581",
    severity=Severity.warning,
    devices=("sonic", "eos"),
)
def check_loops(reading: Reading) -> Iterator[Finding]:
    """The watchdog ends a storm sooner than it could detect the next one.

    With a restoration time below the detection time, a continuing storm is declared over and detected again in a loop.

    Incident: sonic-buildimage#29203: 170 cycles in 20 minutes, and in each gap lossless traffic stood still.
    """
    for switch, port in reading.fabric.ports():
        dog = port.watchdog
        if dog and dog.detection and dog.restoration and dog.restoration < dog.detection:
            yield Finding(
                Place(switch.name, "PFC_WD", port.name, "restoration_time"),
                f"restoration after {dog.restoration} ms, detection takes {dog.detection} ms",
                f"at least {dog.detection}",
                patch=(PatchOperation("PFC_WD", port.name, "restoration_time", str(dog.detection)),),
            )


@rule(
    "PF041",
    "no-watchdog",
    "https://github.com/sonic-net/SONiC/wiki/PFC-Watchdog-Design",
    "SONiC: orchagent pfcwdorch.cpp, pfc_restore.lua",
    severity=Severity.warning,
    devices=VENDORS,
)
def check_presence(reading: Reading) -> Iterator[Finding]:
    """A port pauses a priority that no watchdog guards.

    `pfcwd_sw_enable` lacks the priority, or other ports have a row in PFC_WD and this one has none, or one without
    `detection_time`, which SONiC's pfcwdorch refuses, or one whose action is alert, which only reports. One NIC that
    pauses for ever then stops every switch behind it. Without `restoration_time` the action never ends: the queue drops
    or forwards until somebody restarts the watchdog.

    No incident is known.
    """
    for switch, port in reading.fabric.ports():
        if switch.kind == "linux" or not port.lossless:
            continue
        missing = sorted(port.lossless - port.qos.watchdog) if port.qos.watchdog is not None else []
        guarded = any(other.watchdog for other in switch.ports.values())
        if port.qos.watchdog is None and any(other.qos.watchdog for other in switch.ports.values()):
            missing = sorted(port.lossless)
        if missing:
            wanted = ",".join(map(str, sorted(port.lossless)))
            yield Finding(
                Place(switch.name, "PORT_QOS_MAP", port.qos.key, "pfcwd_sw_enable"),
                f"priorities {', '.join(map(str, missing))} are paused without a watchdog",
                f'"{wanted}"',
                patch=(PatchOperation("PORT_QOS_MAP", port.qos.key, "pfcwd_sw_enable", wanted),),
            )
        elif guarded and port.watchdog is None and port.up:
            yield Finding(
                Place(switch.name, "PFC_WD", port.name),
                "other ports have a watchdog, this one pauses without",
                "a row as the others have",
                patch=_like(port.name, next(other.watchdog for other in switch.ports.values() if other.watchdog)),
            )
        elif switch.kind == "sonic" and port.watchdog is not None and port.watchdog.detection is None:
            yield Finding(
                Place(switch.name, "PFC_WD", port.name, "detection_time"),
                "the row has no detection_time: SONiC refuses it, and the port pauses without a watchdog",
                "a time above the longest legal pause, such as 200 ms",
            )
        elif switch.kind == "sonic" and port.watchdog is not None:
            yield from _half(switch.name, port.name, port.watchdog)


def _half(device: str, port: str, dog: Watchdog) -> Iterator[Finding]:
    """Rows of PFC_WD that end no storm, or never end their action."""
    if dog.action == "alert":
        place = Place(device, "PFC_WD", port, "action")
        patch = (PatchOperation("PFC_WD", port, "action", "drop"),)
        message = "the action is alert: a storm is reported, and nothing ends it"
        yield Finding(place, message, '"drop" or "forward"', patch=patch)
    elif dog.restoration is None:
        place = Place(device, "PFC_WD", port, "restoration_time")
        wanted = str(2 * (dog.detection or 0))
        patch = (PatchOperation("PFC_WD", port, place.field, wanted),)
        message = f"no restoration_time: after a storm the queue stays in action {dog.action or 'drop'}"
        yield Finding(place, message, f"twice the detection time, {wanted}", patch=patch)


def _like(port: str, dog: Watchdog) -> tuple[PatchOperation, ...]:
    """A row of PFC_WD with the values of another port."""
    row = {"action": dog.action, "detection_time": dog.detection, "restoration_time": dog.restoration}
    return tuple(PatchOperation("PFC_WD", port, name, str(value)) for name, value in row.items() if value is not None)


@rule(
    "PF042",
    "watchdog-hits-legal-pauses",
    "IEEE 802.3 Annex 31B (65,535 quanta of 512 bit times)",
    severity=Severity.warning,
    devices=VENDORS,
)
def check_legal(reading: Reading) -> Iterator[Finding]:
    """The watchdog takes a legal pause for a storm: one frame may request 65,535 quanta, 335 ms at 100 Mb/s.

    No incident is known.
    """
    for switch, port in reading.fabric.ports():
        if port.watchdog and port.watchdog.detection and port.speed:
            legal = LONGEST_PAUSE / (port.speed * 1000)
            if port.watchdog.detection <= legal:
                yield Finding(
                    Place(switch.name, "PFC_WD", port.name, "detection_time"),
                    f"detection after {port.watchdog.detection} ms, one pause may last {legal:.0f} ms",
                    f"more than {legal:.0f}",
                    patch=(PatchOperation("PFC_WD", port.name, "detection_time", str(int(legal) + 1)),),
                )


@rule("PF043", "big-red-switch", "SONiC: orchagent pfcwdorch.cpp (enableBigRedSwitchMode)")
def check_big_red_switch(reading: Reading) -> Iterator[Finding]:
    """BIG_RED_SWITCH of the watchdog is on: the switch drops everything in its lossless queues, storm or not.

    It is meant for an emergency. It puts the action drop on all queues with PFC, whatever the rows of the ports say,
    and turns the watchdog itself off.

    No incident is known.
    """
    for switch in reading.fabric.switches.values():
        row = reading.rows(switch.name, "PFC_WD").get("GLOBAL", {})
        ports = [port for port in switch.ports.values() if port.lossless]
        if row.get("BIG_RED_SWITCH") == "enable" and ports:
            yield Finding(
                Place(switch.name, "PFC_WD", "GLOBAL", "BIG_RED_SWITCH"),
                f"on: the lossless queues of {counted(len(ports), 'port')} drop everything",
                '"disable"',
                patch=(PatchOperation("PFC_WD", "GLOBAL", "BIG_RED_SWITCH", "disable"),),
            )
