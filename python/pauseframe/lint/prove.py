"""`--prove`: builds and runs the smallest scenario that shows the consequence of a finding.

A consequence is a scenario and a sentence about its summary that must hold: bytes lost, a deadlock, traffic blocked by
a storm, pauses without marks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pauseframe._files import write_text
from pauseframe.headroom import LIGHT, reaction_quanta
from pauseframe.scenario import Scenario
from pauseframe.scenario.tables import (
    Custom,
    Dumbbell,
    Flow,
    Flows,
    HeadroomPool,
    Host,
    Link,
    NoMarker,
    NToOne,
    Pfc,
    Routing,
    Shared,
    SlowReceiver,
    Step,
    Switch,
    Transport,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pauseframe.lint.finding import Finding
    from pauseframe.types import Summary


@dataclass(frozen=True, slots=True)
class Consequence:
    """A scenario (TOML), and a function that describes its run, or returns None if the consequence did not occur."""

    kind: str
    scenario: str
    shown_by: Callable[[Summary], str | None]
    files: tuple[tuple[str, str], ...] = ()
    """Files that the scenario needs: (name, text)."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of simulating a consequence."""

    code: str
    place: str
    file: Path
    shown: str | None


def _loss(summary: Summary) -> str | None:
    reasons = summary["drops_by_reason"]
    lost = {name: count for name, count in reasons.items() if count}
    return f"{summary['drops']} packets lost ({', '.join(lost)})" if lost else None


def short_headroom(speed: int, cable: float, mtu: int, headroom: int) -> Consequence:
    """Four hosts send through one port with the headroom, cable and speed of the finding. `speed` in Mb/s."""
    mtu = min(max(mtu, 576), 9216)
    xoff = max(100_000, 40 * mtu)
    burst = max(2_000_000, 40 * xoff, speed * 20)
    scenario = Scenario(
        name="short-headroom",
        stop="200 ms",
        topology=Dumbbell(4, 1, link=Link(f"{speed} Mbps", _delay(cable))),
        transport=_bolt(f"{burst} B", f"{2 * burst} B"),
        host=Host(mtu=f"{mtu} B"),
        switch=Switch(
            buffer=f"{2 * xoff + headroom + 2_000_000} B",
            marker=NoMarker(),
            pfc=Pfc(xoff=f"{xoff} B", headroom=f"{headroom} B", reaction=_reaction(speed)),
        ),
        workload=[NToOne(f"{burst} B", senders=4)],
    )
    return Consequence("loss", scenario.to_toml(), _loss)


def short_pool(speed: int, needs: Sequence[int], pool: int) -> Consequence:
    """One host per group of the pool, at most 16, all paused at once. `speed` is in Mb/s, `needs` and `pool` in bytes.

    The hosts react so late that after the pause each still sends as much as its group's headroom.
    """
    needs = needs[:16]
    burst = max(4_000_000, 20 * needs[0])
    share = pool * len(needs)
    scenario = Scenario(
        name="short-pool",
        stop="200 ms",
        topology=Dumbbell(len(needs), 1, link=_near(speed)),
        transport=_bolt(f"{burst} B", f"{2 * burst} B"),
        switch=Switch(
            buffer=Shared(size=f"{share + 8_000_000} B", alpha=0.05),
            marker=NoMarker(),
            pfc=Pfc(
                headroom=f"{needs[0]} B",
                headroom_pool=HeadroomPool(size=f"{pool} B"),
                reaction=f"{max(1, min(1_000_000, needs[0] * 6400 // speed))} ns",
            ),
        ),
        workload=[NToOne(f"{burst} B", senders=len(needs))],
    )
    return Consequence("loss", scenario.to_toml(), _loss)


def _bolt(window: str, receive: str, *, lossless: bool | None = None) -> Transport:
    return Transport(preset="tcp_bolt", initial_window=window, receive_window=receive, lossless=lossless)


def _near(speed: int) -> Link:
    return Link(f"{speed} Mbps", "500 ns")


def _delay(cable: float) -> str:
    return f"{max(1, round(cable * 1e9 / LIGHT))} ns"


def _reaction(speed: int) -> str:
    return f"{max(1, round(reaction_quanta(speed) * 512e3 / speed))} ns"


def lossy_class(speed: int) -> Consequence:
    """Losses of lossless TCP-Bolt traffic in a switch's lossy class. `speed` in Mb/s."""
    scenario = Scenario(
        name="lossy-class",
        stop="200 ms",
        topology=Dumbbell(8, 1, link=_near(speed)),
        transport=_bolt("2 MB", "4 MB", lossless=False),
        switch=Switch(buffer="500 KB", marker=NoMarker()),
        workload=[NToOne("2 MB", senders=8)],
    )
    return Consequence("loss", scenario.to_toml(), _loss)


def late_marks(speed: int) -> Consequence:
    """A marking threshold above the pause threshold of one port. `speed` in Mb/s."""

    def shown(summary: Summary) -> str | None:
        unmarked = summary["pfc_pauses"] > 0 and summary["ecn_marks"] == 0
        return f"{summary['pfc_pauses']} pauses and not one mark" if unmarked else None

    scenario = Scenario(
        name="late-marks",
        stop="20 ms",
        topology=Dumbbell(4, 1, link=_near(speed)),
        transport=_bolt("2 MB", "4 MB"),
        switch=Switch(buffer="4 MB", marker=Step("3 MB"), pfc=Pfc(xoff="100 KB")),
        workload=[NToOne("2 MB", senders=4)],
    )
    return Consequence("late marks", scenario.to_toml(), shown)


def pause_storm(speed: int) -> Consequence:
    """A host that reads almost nothing, and a neighbour's flow blocked behind it. `speed` in Mb/s."""

    def shown(summary: Summary) -> str | None:
        stuck = summary["flows_total"] - summary["flows_finished"]
        return f"{stuck} flows stand still after {summary['pfc_pauses']} pauses" if stuck > 1 else None

    later = f"{max(2000, 64_000_000 // speed)} us"
    scenario = Scenario(
        name="pause-storm",
        stop="20 ms",
        topology=Dumbbell(2, 2, link=_near(speed)),
        transport=_bolt("4 MB", "8 MB"),
        switch=Switch(buffer="1 MB"),
        host=Host(slow_receivers=[SlowReceiver("r0", "1 Mbps", buffer="128 KB")]),
        workload=[Flows([Flow("l0", "r0", "4 MB"), Flow("l1", "r1", "4 MB", start=later)])],
    )
    return Consequence("storm", scenario.to_toml(), shown)


def circle(hops: Sequence[tuple[str, str]], speed: int) -> Consequence:
    """A ring of the switches whose buffers wait for each other; each flow crosses two links of the ring.

    `hops` lists (switch, its egress port) in the order of waiting.
    """

    def shown(summary: Summary) -> str | None:
        return f"{summary['deadlocks']} deadlock, nothing moves any more" if summary["deadlocks"] else None

    count = max(len(hops), 3)
    names = [f"r{i}" for i in range(count)]
    links = [(f"h{i}", name) for i, name in enumerate(names)]
    links += [(name, names[(i + 1) % count]) for i, name in enumerate(names)]
    # Ports have the order of the links: eth1 leads to the switch's host, the next two ports to the ring.
    onward = ["eth2", *["eth3"] * (count - 1)]
    rows = [
        f"{name},1,h{to},{'eth1' if at == to else onward[at]}" for to in range(count) for at, name in enumerate(names)
    ]
    tables = "\n".join(["vlan,lane", "1,0", "", "switch,vlan,destination,port", *rows, ""])
    about = "\n".join(
        f"# {names[i]} stands for {_plain(hop[0])}, egress {_plain(hop[1])}" for i, hop in enumerate(hops)
    )
    scenario = Scenario(
        name="circle",
        stop="20 ms",
        transport=_bolt("4 MB", "8 MB"),
        switch=Switch(buffer="100 KB", marker=NoMarker(), pfc=Pfc(xoff="40 KB")),
        routing=Routing("plan", path="circle-tables.csv"),
        topology=Custom([f"h{i}" for i in range(count)], names, links, link=_near(speed)),
        workload=[Flows([Flow(f"h{i}", f"h{(i + 2) % count}", "6 MB") for i in range(count)])],
    )
    return Consequence("deadlock", f"{scenario.to_toml()}\n{about}\n", shown, (("circle-tables.csv", tables),))


def _plain(text: str) -> str:
    return re.sub(r"[^\w.:|#/@ -]", "?", text)


def prove(findings: Sequence[Finding], folder: Path, *, most: int = 20) -> list[Proof]:
    """Runs the scenarios of findings, one per rule and scenario, and keeps them in `folder`."""
    from pauseframe.run import run

    proofs: list[Proof] = []
    ran: dict[str, tuple[Path, str | None]] = {}
    for finding in findings:
        what = finding.consequence
        if what is None or (what.scenario not in ran and len(ran) >= most):
            continue
        if what.scenario not in ran:
            target = folder / f"{finding.code}-{len(ran) + 1}"
            for name, text in what.files:
                write_text(target / name, text)
            file = write_text(target / "scenario.toml", what.scenario)
            summary = run(file, progress=False).summary
            ran[what.scenario] = (file, what.shown_by(summary))
        file, shown = ran[what.scenario]
        proofs.append(Proof(finding.code, str(finding.place), file, shown))
    return proofs
