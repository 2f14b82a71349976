"""Headroom, the bytes that still arrive after a switch has sent a pause frame, by two formulas with all their terms.

- `annex_o`: IEEE 802.1Qbb Annex O, the formula of the simulator (crates/fabric/src/headroom.rs).
- `mellanox`: the formula of SONiC on NVIDIA switches, `buffer_headroom_mellanox.lua` of sonic-net/sonic-swss, revision
  of 2024 (#3235) with the compensations of 2026 (#4757, #4797), or the revision of 2021 (#1930).

>>> annex_o(100_000, 40, max_frame=9122).total
57650
>>> mellanox(100_000, 40, port_mtu=9100, lossless_mtu=1024, cell=144).xoff
121856
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

QUANTA = {
    100: 1,
    1_000: 2,
    10_000: 67,
    25_000: 80,
    40_000: 118,
    50_000: 147,
    100_000: 394,
    200_000: 453,
    400_000: 905,
    800_000: 905,
}
"""Maximum pause response time by speed in Mb/s, in quanta of 512 bit times (IEEE 802.3 31B.3.7, as SONiC has it)."""
LIGHT = 198_000_000
"""Signal speed in a cable in metres per second, as SONiC has it."""
FRAME = 22
"""Bytes of an Ethernet frame besides its IP packet: header, VLAN tag, FCS."""
SPECTRUM_CELLS = {1: 96, 2: 144, 3: 144, 4: 192, 5: 192, 6: 256}
"""Size of a buffer cell in bytes by generation of Spectrum (platform/mellanox/asic_table.j2)."""


def reaction_quanta(speed: int) -> int:
    """Quanta by speed; a speed that is not in the table counts as the next higher one."""
    return next((quanta for known, quanta in sorted(QUANTA.items()) if known >= speed), max(QUANTA.values()))


@dataclass(frozen=True)
class Term:
    """A term of the sum: its bytes, and their cause."""

    name: str
    bytes: float
    why: str


@dataclass(frozen=True)
class AnnexO:
    """Headroom by 802.1Qbb Annex O."""

    terms: tuple[Term, ...]
    total: int


def annex_o(
    speed: int, cable: float, *, max_frame: int, reaction: bool = True, lossless: int = 1, behind: int = 0
) -> AnnexO:
    """Headroom by Annex O. `speed` is in Mb/s, `cable` in metres, `max_frame` in bytes without preamble.

    With `reaction`, the peer takes the longest response time that the standard allows; without it, no time. `behind` is
    the number of bytes by which a frame that delays the pause frame can exceed `max_frame` (a frame of another class).
    """
    from pauseframe import _core

    delay = round(cable * 10**12 / LIGHT)
    quanta = reaction_quanta(speed) if reaction else 0
    react_ps = quanta * 512 * 10**6 // speed
    wait_ps = behind * 8 * 10**6 // speed
    found = _core.link_headroom(
        speed * 10**6, delay, max_frame, reaction_ps=react_ps + wait_ps, lossless=max(1, lossless)
    )

    def carried(name: str) -> float:
        return found[name] * speed / 8e6

    terms = (
        Term("frame ahead", carried("frame_ahead_ps") + behind, "a full frame in service on the way back"),
        Term("pause frames", carried("pause_frames_ps"), "this one, and one of each other lossless class"),
        Term("cable, back", carried("delay_back_ps"), f"{cable:g} m at {LIGHT} m/s"),
        Term("reaction", react_ps * speed / 8e6, f"{quanta} quanta of 512 bit times (IEEE 802.3 31B.3.7)"),
        Term("last frame", carried("last_frame_ps"), "a full frame begun just before the pause took effect"),
        Term("cable, forth", carried("delay_ps"), "what is under way"),
        Term("crossing frame", found["crossing_bytes"], "the frame that crossed XOFF, but for a byte"),
    )
    return AnnexO(terms, found["total_bytes"])


@dataclass(frozen=True)
class Mellanox:
    """Headroom by SONiC's formula for NVIDIA switches: a group's `xoff`, `xon` and reserved `size`, in bytes."""

    terms: tuple[Term, ...]
    occupancy: float
    xoff: int
    xon: int
    size: int


def mellanox(
    speed: int,
    cable: float,
    *,
    port_mtu: int,
    lossless_mtu: int = 1024,
    cell: int | None = None,
    small_packets: int = 100,
    mac_phy: Fraction | float = Fraction(8, 10),
    pipeline: int = 19,
    gearbox: float = 0,
    lanes: int = 4,
    generation: int = 3,
    shared: bool = True,
    revision: int = 2024,
) -> Mellanox:
    """Headroom by SONiC's formula for NVIDIA switches.

    `mac_phy` and `pipeline` are in KiB and `cell` in bytes (None: that of the generation), as in ASIC_TABLE; `gearbox`
    is in ns, `small_packets` in percent. `generation` is that of Spectrum; `shared` means that a shared headroom pool
    is in use.

    Raises ValueError for a speed without quanta in the formula.
    """
    if speed not in QUANTA:
        raise ValueError(f"{speed} Mb/s is not one of the speeds of the formula: {', '.join(map(str, QUANTA))}")
    cell = SPECTRUM_CELLS[generation] if cell is None else cell
    exact = [Fraction(str(value)) for value in (cable, mac_phy, gearbox)]
    metres, phy_kib, gearbox_ns = exact
    old = revision < 2024
    worst = Fraction(cell, 64) if cell > 128 else Fraction(2 * cell, 1 + cell)
    share = Fraction(small_packets, 100)
    if not old:
        worst = Fraction(math.ceil(worst))
        share = Fraction(64) / (share * 64 + (1 - share) * lossless_mtu)
    occupancy = 1 - share + share * worst
    on_cable = 2 * metres * speed * 10**9 / LIGHT / (8 * (1024 if old else 1000))
    on_gearbox = Fraction(speed) * gearbox_ns / (8 * 1024)
    on_tile = Fraction(speed, 1000) * 120 / 8 if not old and generation in {4, 5} else Fraction(0)
    reaction = QUANTA[speed] * 64
    terms = (
        Term("port MTU", port_mtu, "a full frame in service on the way back"),
        Term("cable", float(on_cable), f"2 × {cable:g} m at {LIGHT} m/s"),
        Term("gearbox", float(2 * on_gearbox), f"2 × {gearbox:g} ns"),
        Term("MAC and PHY", float(phy_kib * 1024), "ASIC_TABLE mac_phy_delay"),
        Term("reaction", reaction, f"{QUANTA[speed]} quanta of 64 bytes (IEEE 802.3 31B.3.7)"),
        Term("on tile", float(on_tile), "Spectrum-4 and 5"),
    )
    delay = port_mtu + on_cable + 2 * on_gearbox + phy_kib * 1024 + reaction + on_tile
    xoff = _kib(lossless_mtu + delay * occupancy)
    if not old:
        xoff += 18 * 1024 if generation == 6 else 0
        if not shared and small_packets != 100 and xoff + 2048 < _kib(lossless_mtu + delay * worst):
            xoff += 2048
    eight = lanes == 8
    latency = Fraction(pipeline) * 1024 * (2 if eight else 1) - (1024 if eight and old else 0)
    xon = _kib(latency)
    size = xon if shared else _kib(Fraction(xoff + xon + (port_mtu if eight else 0)))
    crossing = Term("lossless MTU", lossless_mtu, "the frame that crossed XOFF")
    return Mellanox((*terms, crossing), float(occupancy), xoff, xon, size)


def _kib(value: Fraction | int) -> int:
    return math.ceil(Fraction(value) / 1024) * 1024
