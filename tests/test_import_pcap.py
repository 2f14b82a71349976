"""Captures become workloads: our own pcapng returns the flows that were sent; hand-made frames cover the formats."""

import struct
from collections import Counter
from itertools import pairwise

import polars as pl
import pytest
from pauseframe import InputError
from pauseframe.imports.capture_file import REORDERED, frames
from pauseframe.imports.pcap import by_service, bytes_by_size, gaps, law, read_captures, write
from test_fabrics import cli

SCENARIO = """
stop = { time = "2 s", when_finished = true }
topology = { kind = "star", hosts = 4, link = { rate = "10 Gbps", delay = "1 us" } }
switch = { buffer = "30 KB" }
record = { packets = { ports = ["*"], every_hop = true } }
[[workload]]
kind = "flows"
flows = [
    { src = "host0", dst = "host1", size = "100 KB" }, { src = "host2", dst = "host1", size = "300 KB" },
    { src = "host3", dst = "host1", size = "777 B", start = "2 ms" },
]
[[workload]]
kind = "requests"
client = "host0"
servers = ["host2", "host3"]
request = "200 B"
response = "50 KB"
count = 5
persistent = true
"""
SENT = Counter(
    {
        ("host0", "host1", 100_000): 1, ("host2", "host1", 300_000): 1, ("host3", "host1", 777): 1,
        ("host0", "host2", 200): 5, ("host0", "host3", 200): 5,
        ("host2", "host0", 50_000): 5, ("host3", "host0", 50_000): 5,
    }
)  # fmt: skip


def sizes(flows):
    return Counter(flows.select("src", "dst", "size_bytes").iter_rows())


def test_our_own_capture_returns_the_flows_that_were_sent(tmp_path):
    """Every port is captured, so that each segment is there twice, and a buffer of 30 KB makes losses."""
    (tmp_path / "s.toml").write_text(SCENARIO)
    assert cli("run", "s.toml", "--out", "r", "--quiet", cwd=tmp_path).returncode == 0
    assert pl.read_parquet(tmp_path / "r" / "flows.parquet")["retransmits"].sum() > 0
    done = cli("import", "pcap", "r/packets.pcapng", "--cut", "turn", "--out", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sizes(pl.read_csv(tmp_path / "found" / "flows.csv")) == SENT
    again = cli("run", "found/scenario.toml", "--out", "again", "--quiet", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert (
        sizes(pl.read_parquet(tmp_path / "again" / "flows.parquet").with_columns(pl.col("src", "dst").cast(str)))
        == SENT
    )
    refused = cli("import", "pcap", "r/packets.pcapng", "--out", "found", cwd=tmp_path)
    assert refused.returncode == 2


def test_the_laws_are_read_by_a_workload(tmp_path):
    """The law of sizes drives a background workload: its sizes are those of the capture."""
    write(
        read_captures([capture(tmp_path, [segment(0, 1, 1, 100, PUSH), segment(5, 2, 101, 900, PUSH)])]), tmp_path, "x"
    )
    assert (tmp_path / "sizes.csv").read_text() == "bytes,percent\n99,0\n100,50\n899,50\n900,100\n"
    (tmp_path / "b.toml").write_text(
        'stop = "20 ms"\ntopology = { kind = "star", hosts = 4, link = { rate = "10 Gbps", delay = "1 us" } }\n'
        '[[workload]]\nkind = "background"\nsizes = "sizes.csv"\narrivals = { kind = "rate", per_host = 5000 }\n'
    )
    assert cli("run", "b.toml", "--out", "b", "--quiet", cwd=tmp_path).returncode == 0
    assert set(pl.read_parquet(tmp_path / "b" / "flows.parquet")["size_bytes"].unique()) <= {99, 100, 899, 900}
    page = (tmp_path / "figures.html").read_text()
    assert all(f"Fig. {number}" in page for number in (2, 3, 4))


PUSH, FIN, SYN, ACK = 8, 1, 2, 16


def segment(us, place, seq, size, flags=0, *, vlan=False, version=4):
    """A frame of host `place` to 10.0.0.9, port 80; the payload is cut off, as in captures with a snap length."""
    tcp = struct.pack("!HHIIBBHHH", 4000 + place, 80, seq, 0, 5 << 4, flags | ACK, 0, 0, 0)
    if version == 4:
        ip = struct.pack(
            "!BBHHHBBH4s4s", 0x45, 0, 40 + size, 0, 0, 64, 6, 0, bytes([10, 0, 0, place]), bytes([10, 0, 0, 9])
        )
    else:
        ip = struct.pack("!IHBB16s16s", 6 << 28, 20 + size, 6, 64, bytes(15) + bytes([place]), bytes(15) + b"\x09")
    kind = struct.pack("!H", 0x0800 if version == 4 else 0x86DD)
    return us, bytes(12) + (b"\x81\x00\x00\x03" if vlan else b"") + kind + ip + tcp


def capture(folder, packets, name="x.pcap", order="<", magic=0xA1B2C3D4, link=1):
    unit = 1000 if magic == 0xA1B23C4D else 1
    body = struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    for us, data in packets:
        body += struct.pack(order + "IIII", us // 1_000_000, us % 1_000_000 * unit, len(data), len(data)) + data
    (folder / name).write_bytes(body)
    return folder / name


def found(path, **options):
    flows = read_captures([path], **options).flows
    return list(flows.select("src", "size_bytes", "start_us", "end_us").iter_rows())


@pytest.mark.parametrize(
    ("order", "magic"), [("<", 0xA1B2C3D4), (">", 0xA1B2C3D4), ("<", 0xA1B23C4D), (">", 0xA1B23C4D)]
)
@pytest.mark.parametrize("options", [{}, {"vlan": True}, {"version": 6}])
def test_every_form_of_pcap_gives_the_same_flows(tmp_path, order, magic, options):
    packets = [
        segment(7, 1, 1, 1000, **options),
        segment(9, 1, 1001, 500, PUSH, **options),
        segment(30, 1, 1501, 40, PUSH, **options),
    ]
    name = f"{'0000-' * 7}0001" if options.get("version") == 6 else "10.0.0.1"
    assert found(capture(tmp_path, packets, order=order, magic=magic)) == [(name, 1500, 0, 2), (name, 40, 23, 23)]


def test_what_ends_a_flow(tmp_path):
    packets = [
        segment(0, 1, 0, 0, SYN),
        segment(1, 1, 1, 100, PUSH),
        segment(2, 1, 101, 100),
        segment(900, 1, 201, 100),
        segment(901, 1, 301, 0, FIN),
    ]
    path = capture(tmp_path, packets)
    assert [size for _, size, *_ in found(path)] == [100, 200]
    assert [size for _, size, *_ in found(path, idle_us=500)] == [100, 100, 100]
    assert [size for _, size, *_ in found(path, cut="connection")] == [300]


def test_segments_that_come_twice_late_or_not_at_all_count_once(tmp_path):
    """A retransmission, a reordered segment, one that the capture missed, and sequence numbers that wrap round."""
    first = 2**32 - 150
    twice = [segment(0, 1, first - 1, 0, SYN), segment(0, 1, first - 1, 0, SYN)]
    twice += [segment(1, 1, first, 100), segment(2, 1, first, 100)]
    late = [segment(3, 1, 50, 100), segment(4, 1, 2**32 - 50, 100)]
    packets = [*twice, *late, segment(5, 1, 250, 100, PUSH), segment(6, 1, 250, 100, PUSH)]
    assert [size for _, size, *_ in found(capture(tmp_path, packets))] == [500]


def test_frames_of_others_are_counted(tmp_path):
    udp = (
        bytes(12)
        + b"\x08\x00"
        + struct.pack("!BBHHHBBH4s4s", 0x45, 0, 60, 0, 0, 64, 17, 0, bytes(4), bytes(4))
        + bytes(40)
    )
    path = capture(tmp_path, [(0, udp), (1, bytes(60)), segment(2, 1, 1, 10, PUSH)])
    notes = read_captures([path]).notes
    assert "1 frame of UDP skipped" in notes
    assert "1 frame without IP skipped" in notes
    assert any("open when the capture began" in note for note in notes)
    with pytest.raises(InputError, match=r"no flow of TCP in 1 frame \(1 of UDP\)"):
        read_captures([capture(tmp_path, [(0, udp)])])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "neither a pcap"),
        (b"\x1f\x8b\x08\x00", "unpack it first"),
        (b"\xd4\xc3\xb2\xa1" + bytes(20) + bytes(9), "cut off"),
    ],
)
def test_what_is_no_capture_is_refused(tmp_path, data, told):
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(InputError, match=told):
        list(frames(tmp_path / "x", {}))


def test_late_frames_are_sorted_and_very_late_ones_refused(tmp_path):
    packets = [segment(us, 1, 1 + 100 * us, 100, PUSH) for us in range(9)]
    assert found(capture(tmp_path, packets[::-1])) == found(capture(tmp_path, packets))
    many = [segment(10 + us, 1, 1 + 100 * us, 100) for us in range(REORDERED + 1)]
    with pytest.raises(InputError, match="frame 10002 is earlier than frames long before it; sort it first"):
        found(capture(tmp_path, [*many, segment(0, 1, 1, 100)]))


def test_frames_within_a_host_are_skipped(tmp_path):
    own = segment(0, 9, 1, 100, PUSH)
    with pytest.raises(InputError, match=r"no flow of TCP in 1 frame \(1 within a host\)"):
        found(capture(tmp_path, [own]))
    assert [size for _, size, *_ in found(capture(tmp_path, [own, segment(1, 1, 1, 70, PUSH)]))] == [70]


@pytest.mark.parametrize("version", [4, 6])
def test_packets_without_a_length_have_that_of_their_frame(tmp_path, version):
    """TSO: the kernel captures a segment before the NIC cuts it; with BIG TCP it may be longer than the field holds."""
    us, data = segment(0, 1, 1, 0, PUSH, version=version)
    place = 16 if version == 4 else 18
    data = data[:place] + bytes(2) + data[place + 2 :]
    assert [size for _, size, *_ in found(capture(tmp_path, [(us, data + bytes(70_000))]))] == [70_000]


def test_a_jumbogram_has_the_length_of_its_option(tmp_path):
    us, data = segment(0, 1, 1, 0, PUSH, version=6)
    option = struct.pack("!BBBBI", 6, 0, 0xC2, 4, 8 + 20 + 90_000)
    data = data[:18] + bytes(3) + data[21:54] + option + data[54:]
    assert [size for _, size, *_ in found(capture(tmp_path, [(us, data)]))] == [90_000]


def test_an_ipv6_capture_gives_a_scenario_that_runs(tmp_path):
    packets = [segment(0, 1, 1, 100, PUSH, version=6)]
    write(read_captures([capture(tmp_path, packets)]), tmp_path, "x")
    done = cli("run", "scenario.toml", "--out", "r", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_shares_and_gaps():
    flows = pl.DataFrame(
        {"src": ["a", "b", "a"], "size_bytes": [10, 30, 10], "start_us": [0.0, 1.0, 5.0], "service": [80, 443, 80]}
    )
    assert law(flows["size_bytes"]) == ([10, 30], [2 / 3, 1.0])
    assert bytes_by_size(flows["size_bytes"]) == ([10, 30], [0.4, 1.0])
    assert by_service(flows) == [("port 443", 0.6), ("port 80", 0.4)]
    assert gaps(flows).to_list() == [5.0]


def test_a_law_of_many_samples_keeps_its_ends_and_steps():
    values, shares = law(pl.Series(range(1, 100_001)))
    assert (values[0], values[-1], shares[-1]) == (1, 100_000, 1.0)
    assert len(values) <= 202
    assert max(b - a for a, b in pairwise(shares)) < 0.011
