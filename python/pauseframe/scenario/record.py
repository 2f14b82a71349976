"""What goes wrong, what is written down, and when the run ends: `[[failure]]`, `[[corruption]]`, `[record]`, `stop`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pauseframe._plain import Part


@dataclass(frozen=True, kw_only=True)
class Failure(Part):
    """The links between two nodes, the link at a `port`, or a whole `node`, from `down` to `up`."""

    link: Sequence[str] | None = None
    port: str | None = None
    node: str | None = None
    down: str
    up: str | None = None


@dataclass(frozen=True, kw_only=True)
class Corruption(Part):
    """Damage to what these ports send: a bit error ratio `ber` or a frame error ratio `fer`."""

    ports: Sequence[str]
    ber: float | None = None
    fer: float | None = None


@dataclass(frozen=True, kw_only=True)
class Series(Part):
    """Time lines: globs over port names and over names of workloads."""

    every: str | None = None
    ports: Sequence[str] | None = None
    flows: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class Packets(Part):
    """A pcapng file of what passes these ports, each packet once unless `every_hop`."""

    ports: Sequence[str] | None = None
    every_hop: bool | None = None
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class PauseTree(Part):
    """Every pause with what caused it, up to `limit` of them."""

    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class States(Part):
    """What `pauseframe view` plays back: queues and links once in `every`, pauses exactly; up to `limit` changes."""

    every: str | None = None
    limit: int | None = None


@dataclass(frozen=True, kw_only=True)
class Record(Part):
    """What is written down."""

    flows: bool | None = None
    ports: bool | None = None
    series: Series | bool | None = None
    packets: Packets | bool | None = None
    pause_tree: PauseTree | bool | None = None
    states: States | bool | None = None
    deadlock_after: str | None = None


@dataclass(frozen=True)
class Stop(Part):
    """When the run ends: at `time` in any case, and earlier when all is done unless `when_finished` is false."""

    time: str | None = None
    when_finished: bool | None = None
    on_deadlock: bool | None = None
