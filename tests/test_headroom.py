"""Headroom: NVIDIA's formula against published numbers, and Annex O against integer arithmetic of this file."""

import csv
import itertools
import json
from importlib.resources import files
from xml.etree import ElementTree as ET

import pytest
from pauseframe.fabric import calculator
from pauseframe.fabric.headroom import QUANTA, SPECTRUM_CELLS, annex_o, mellanox
from test_fabrics import cli

SPEEDS = [1_000, 10_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000, 800_000]
CABLES = [0, 1, 5, 40, 300, 2000]

MAINTAINERS = [
    # Columns: speed, cable length, generation, cell size, lanes; xon, xoff, size.
    (400_000, 300, 3, 144, 8, 38_912, 272_384, 320_512),
    (100_000, 40, 3, 144, 4, 19_456, 51_200, 70_656),
    (800_000, 300, 4, 192, 8, 38_912, 474_112, 522_240),
    (200_000, 40, 4, 192, 4, 19_456, 65_536, 84_992),
]
"""Output of the switch's own script (sonic-swss #3235): port MTU 9100, lossless MTU 1024, 50 % small packets."""
SN5600 = {
    5: {
        10: 45_056, 25: 48_128, 40: 57_344, 50: 63_488, 100: 113_664, 200: 131_072, 400: 231_424, 800: 257_024,
    },
    40: {
        10: 46_080, 25: 52_224, 40: 62_464, 50: 69_632, 100: 126_976, 200: 157_696, 400: 283_648, 800: 362_496,
    },
    300: {
        10: 56_320, 25: 76_800, 40: 101_376, 50: 118_784, 100: 225_280, 200: 355_328, 400: 677_888, 800: 1_150_976,
    },
}  # fmt: skip
"""xoff of ACS-SN5600 by metres and Gb/s (sonic-buildimage 086b03b, pg_profile_lookup.ini), for small packets only."""
SN4600C = {
    5: {10: 24_576, 25: 26_624, 40: 30_720, 50: 33_792, 100: 59_392},
    40: {10: 25_600, 25: 28_672, 40: 33_792, 50: 36_864, 100: 66_560},
}
"""xoff of Mellanox-SN4600C-D112C8, by metres and Gb/s: 50 % small packets, counted as the script did until 2024."""


@pytest.mark.parametrize(("speed", "cable", "generation", "cell", "lanes", "xon", "xoff", "size"), MAINTAINERS)
def test_mellanox_gives_the_numbers_of_the_maintainers(speed, cable, generation, cell, lanes, xon, xoff, size):
    link = {"port_mtu": 9100, "lossless_mtu": 1024, "small_packets": 50, "generation": generation, "cell": cell}
    pooled = mellanox(speed, cable, lanes=lanes, **link)
    assert (pooled.xon, pooled.xoff, pooled.size) == (xon, xoff, xon)
    # Without a pool, the script adds 2 KiB since 2026 (sonic-swss #4757), after the publication of these numbers.
    own = mellanox(speed, cable, lanes=lanes, shared=False, **link)
    assert (own.xon, own.xoff, own.size) == (xon, xoff + 2048, size + 2048)


def test_mellanox_gives_the_shipped_tables():
    for cable, rows in SN5600.items():
        for gbps, xoff in rows.items():
            lanes = 8 if gbps == 800 else 4
            own = mellanox(gbps * 1000, cable, lanes=lanes, port_mtu=9216, small_packets=100, generation=4, cell=192)
            assert own.xoff == xoff, (cable, gbps)
    for cable, rows in SN4600C.items():
        for gbps, xoff in rows.items():
            own = mellanox(gbps * 1000, cable, port_mtu=9216, small_packets=50, revision=2021)
            assert own.xoff == xoff, (cable, gbps)


def test_no_small_packets_still_means_one_in_the_mean():
    """The script divides 64 by the mean packet size for every percentage, so 0 % does not give a factor of 1."""
    none, half = (mellanox(100_000, 40, port_mtu=9100, small_packets=share) for share in (0, 50))
    assert none.occupancy == pytest.approx(1 + 2 * 64 / 1024)
    assert half.occupancy == pytest.approx(1 + 2 * 64 / 544)


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
    for generation, cell in SPECTRUM_CELLS.items():
        named = mellanox(100_000, 40, port_mtu=9100, generation=generation, cell=cell)
        assert mellanox(100_000, 40, port_mtu=9100, generation=generation).xoff == named.xoff
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
    text = files("pauseframe.fabric").joinpath(calculator.SHIPPED).read_text()
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
    assert (done.returncode, value["headroom"]) == (0, 121_856)
    shown = cli("headroom", "--rate", "100 Gbps", "--cable", "40m", "--plot", tmp_path / "h.svg").stdout
    assert "IEEE 802.3 31B.3.7" in shown
    assert "29,696 to 612,140" in shown
    lines = [e for e in ET.parse(tmp_path / "h.svg").getroot().iter() if e.tag.endswith("line")]
    assert len(lines) == 65 + 2
    for wrong in (
        ["--rate", "fast", "--cable", "1m"],
        ["--rate", "1G", "--cable", "1"],
        ["--rate", "1G", "--cable", "1m", "--plot", "x.png"],
        ["--rate", "1G", "--cable", "1m", "--mtu", "1500", "--lossless-mtu", "9000"],
    ):
        done = cli("headroom", *wrong)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("error: ")
