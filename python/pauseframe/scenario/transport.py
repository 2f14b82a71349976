"""TCP: `[transport]` and `[transports.NAME]`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from pauseframe import _core
from pauseframe._plain import Part


@cache
def _constants() -> frozenset[str]:
    """The constants of all congestion controls, which exist under a choice of one."""
    rows = [row for row in _core.options() if row["when"].startswith("transport.congestion_control = ")]
    return frozenset(row["path"].removeprefix("transport.") for row in rows)


@dataclass(frozen=True, kw_only=True)
class Transport(Part):
    """A preset's row (`pauseframe presets`) with what is changed in it.

    `constants` are those of congestion controls, in the file keys of the table like the others:
    `constants={"cubic_hystart": False}`. Which there are, the core says (`pauseframe options transport`).
    """

    stack: str | None = None
    preset: str | None = None
    congestion_control: str | None = None
    initial_window: str | None = None
    ecn: str | None = None
    ect_on_syn: bool | None = None
    ect_on_ack: bool | None = None
    lossless: bool | None = None
    priority: int | None = None
    dscp: int | None = None
    sack: bool | None = None
    timestamps: bool | None = None
    fast_retransmit: bool | None = None
    dup_thresh: int | None = None
    limited_transmit: bool | None = None
    rack: bool | None = None
    tlp: bool | None = None
    recovery_slack: str | None = None
    count_packets: bool | None = None
    prr: bool | None = None
    undo: bool | None = None
    frto: bool | None = None
    ecn_hides_loss: bool | None = None
    window_validation: bool | None = None
    rto_growth: str | None = None
    idle_restart: str | None = None
    pacing: bool | None = None
    pacing_slow_start: int | None = None
    pacing_avoidance: int | None = None
    pacing_burst: int | None = None
    handshake: bool | None = None
    rto_initial: str | None = None
    rto_min: str | None = None
    rto_max: str | None = None
    rto_granularity: str | None = None
    rto_form: str | None = None
    rto_slop: str | None = None
    timer_wheel: bool | None = None
    delayed_ack_form: str | None = None
    quick_acks: int | None = None
    sack_compression: bool | None = None
    delayed_ack_segments: int | None = None
    delayed_ack_timeout: str | None = None
    receive_window: str | None = None
    receive_buffer: str | None = None
    receive_buffer_initial: str | None = None
    receive_buffer_max: str | None = None
    receive_buffer_step: str | None = None
    send_buffer: str | None = None
    send_buffer_initial: str | None = None
    send_buffer_max: str | None = None
    small_segments: str | None = None
    small_queues: bool | None = None
    reassembly_limit: int | None = None
    dsack: bool | None = None
    read_rate: str | None = None
    fin: bool | None = None
    cache: str | None = None
    syn_retries: int | None = None
    retries: int | None = None
    constants: Mapping[str, float | bool | str] | None = field(default=None, metadata={"keys": _constants})
