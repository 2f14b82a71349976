"""Headroom: both formulas against an arithmetic of this file's own, in whole numbers."""

import csv
import itertools
import json
import math
from importlib.resources import files
from xml.etree import ElementTree as ET

import pytest
from pauseframe import calculator
from pauseframe.headroom import QUANTA, annex_o, mellanox
from test_fabrics import cli

SPEEDS = [1_000, 10_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000, 800_000]
CABLES = [0, 1, 5, 40, 300, 2000]
MTUS = [(1500, 1024), (9100, 1024), (9100, 1500), (9216, 9100)]
CELLS = [80, 96, 128, 144, 192, 256]


def published_2024(speed, cable, port_mtu, lossless_mtu, cell, percent, *, shared):
    """buffer_headroom_mellanox.lua (sonic-swss #3235, #4757) as fractions of whole numbers; mac_phy 0.8 KiB."""
    worst = -(-cell // 64) if cell > 128 else -(-2 * cell // (1 + cell))
    small, all_bytes = percent * 64, percent * 64 + (100 - percent) * lossless_mtu
    # Delay in units of 1/15840 bytes: 2 * cable * speed * 10^9 / 1.98e8 / 8000 is 2 * cable * speed / 1584.
    delay = (port_mtu + QUANTA[speed] * 64) * 15840 + 20 * cable * speed + 8192 * 1584

    def rounded(times, over):
        numerator = lossless_mtu * 15840 * over + delay * times
        return -(-numerator // (15840 * over * 1024)) * 1024

    xoff = rounded(all_bytes - small + small * worst, all_bytes)
    if not shared and percent != 100 and xoff + 2048 < rounded(worst, 1):
        xoff += 2048
    return xoff


def published_2021(speed, cable, port_mtu, lossless_mtu, cell, percent):
    """The same before #3235, evaluated in doubles in the order of the script."""
    worst = cell / 64 if cell > 128 else (2 * cell) / (1 + cell)
    occupancy = (100 - percent + percent * worst) / 100
    on_cable = 2 * cable * speed * 1000000000 / 198000000 / (8 * 1024)
    delay = port_mtu + on_cable + 2 * 0 + 0.8 * 1024 + QUANTA[speed] * 512 / 8
    return math.ceil((lossless_mtu + delay * occupancy) / 1024) * 1024


def test_mellanox_is_the_published_formula():
    grid = itertools.product(SPEEDS, CABLES, MTUS, CELLS, [0, 20, 100], [True, False])
    compared = 0
    for speed, cable, (port_mtu, lossless_mtu), cell, percent, shared in grid:
        own = mellanox(
            speed, cable, port_mtu=port_mtu, lossless_mtu=lossless_mtu, cell=cell, small_packets=percent, shared=shared
        )
        assert own.xoff == published_2024(speed, cable, port_mtu, lossless_mtu, cell, percent, shared=shared)
        if shared:
            old = mellanox(
                speed,
                cable,
                port_mtu=port_mtu,
                lossless_mtu=lossless_mtu,
                cell=cell,
                small_packets=percent,
                revision=2021,
            )
            assert old.xoff == published_2021(speed, cable, port_mtu, lossless_mtu, cell, percent)
        compared += 1
    assert compared == 7776


def test_mellanox_xon_size_and_generations():
    plain = mellanox(100_000, 40, port_mtu=9100)
    assert (plain.xon, plain.size) == (19 * 1024, 19 * 1024)
    assert mellanox(100_000, 40, port_mtu=9100, shared=False).size == plain.xoff + plain.xon
    eight = mellanox(400_000, 40, port_mtu=9100, lanes=8, shared=False)
    assert (eight.xon, eight.size) == (38 * 1024, -(-(eight.xoff + 38 * 1024 + 9100) // 1024) * 1024)
    assert (
        mellanox(100_000, 40, port_mtu=9100, cell=256, generation=6).xoff
        == mellanox(100_000, 40, port_mtu=9100, cell=256).xoff + 18 * 1024
    )
    assert mellanox(100_000, 40, port_mtu=9100, generation=4).terms[5].bytes == 1500
    assert mellanox(100_000, 40, port_mtu=9100, gearbox=100).terms[2].bytes == pytest.approx(2 * 100_000 * 100 / 8192)
    with pytest.raises(ValueError, match="not one of the speeds"):
        mellanox(56_000, 40, port_mtu=9100)


@pytest.mark.parametrize("speed", SPEEDS)
def test_annex_o_is_the_sum_of_its_terms(speed):
    rate = speed * 10**6

    def serialise(size):
        return -(-size * 8 * 10**12 // rate)

    for cable, frame, classes in itertools.product(CABLES, [1046, 1522, 9122], [1, 2]):
        delay = round(cable * 10**12 / 198_000_000)
        reaction = QUANTA[speed] * 512 * 10**6 // speed
        time = 2 * serialise(frame + 20) + classes * serialise(84) + 2 * delay + reaction
        wire = time * rate // (8 * 10**12) + 1
        total = -(-wire * frame // (frame + 20)) + frame - 1
        own = annex_o(speed, cable, max_frame=frame, lossless=classes)
        assert own.total == total
        on_wire = sum(term.bytes for term in own.terms[:-1])
        assert on_wire * frame / (frame + 20) + own.terms[-1].bytes == pytest.approx(total, abs=100)


def test_shipped_values():
    text = files("pauseframe").joinpath(calculator.SHIPPED).read_text()
    rows = [row for row in csv.DictReader(text.splitlines()) if (row["speed_mbps"], row["cable"]) == ("100000", "40m")]
    shipped = calculator.shipped_for(100_000, 40.0)
    assert shipped is not None
    assert (shipped.values[0], shipped.values[-1], len(shipped.values)) == (29_696, 612_140, len(rows))
    assert shipped.below(30_000) == sum(int(row["xoff_b"]) < 30_000 for row in rows)
    near = calculator.shipped_for(100_000, 35.0)
    assert near is not None
    assert near.cable == "40m"
    assert calculator.shipped_for(12_345, 40.0) is None


def test_command(tmp_path):
    done = cli(
        "headroom", "--rate", "100G", "--cable", "40m", "--mtu", 9100, "--cell", 144, "--vendor", "mellanox", "--json"
    )
    value = json.loads(done.stdout)
    assert (done.returncode, value["headroom"]) == (0, published_2024(100_000, 40, 9100, 1024, 144, 100, shared=True))
    shown = cli("headroom", "--rate", "100 Gbps", "--cable", "40m", "--plot", tmp_path / "h.svg").stdout
    assert "IEEE 802.3 31B.3.7" in shown
    assert "29,696 to 612,140" in shown
    lines = [e for e in ET.parse(tmp_path / "h.svg").getroot().iter() if e.tag.endswith("line")]
    assert len(lines) == 65 + 2
    for wrong in (
        ["--rate", "fast", "--cable", "1m"],
        ["--rate", "1G", "--cable", "1"],
        ["--rate", "1G", "--cable", "1m", "--plot", "x.png"],
    ):
        done = cli("headroom", *wrong)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")
