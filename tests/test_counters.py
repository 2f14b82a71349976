"""`counters`: what devices print is read, compared with a run, and a run is printed as devices print it."""

import json
import random
import re
from collections import Counter

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.counters import expected as expectations
from pauseframe.counters.judge import judge
from pauseframe.counters.model import Counted, Key, since
from pauseframe.counters.of_run import read_run
from pauseframe.counters.read import read_counters
from pauseframe.counters.show import commands_of, file_name, transcript
from pauseframe.counters.spread import Spread, tail
from pauseframe.devices.files import DeviceFileError
from test_fabrics import cli

SCENARIO = """
stop = "20 ms"
[topology]
kind = "leaf_spine"
leaves = 2
spines = 4
hosts_per_leaf = 4
link = { rate = "10 Gbps", delay = "1 us" }
[switch]
buffer = "200 KB"
[switch.pfc]
priorities = [3]
[switch.classes.queue3]
priorities = [3]
[switch.classes.queue3.marker]
kind = "red"
min = "20 KB"
max = "60 KB"
p_max = 0.5
[transport]
preset = "roce_dcqcn"
priority = 3
rdma_control = "none"
[[workload]]
kind = "n_to_1"
size = "600 KB"
[[workload]]
kind = "permutation"
size = "200 KB"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run"
    pf.run(SCENARIO, out=path, progress=False)
    return path


@pytest.fixture(scope="module")
def run(folder):
    return read_run(folder)


def written(run, folder, *forms):
    for form in forms:
        for name, command, lines in commands_of(run, form):
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name / file_name(command)).write_text("\n".join(lines) + "\n")
    return folder


def values(counted):
    return {
        (device.name, port, key): value.count
        for device in counted.devices.values()
        for port, own in device.ports.items()
        for key, value in own.items()
        if value.count
    }


SHOWN = {
    "sonic": {"pfc_rx", "pfc_tx", "queue_packets", "queue_bytes", "queue_drops", "ecn_marks", "shared_peak",
              "queue_peak"},
    "ethtool": {"pfc_rx", "pfc_tx", "pause_us", "queue_packets", "queue_bytes", "rx_packets", "rx_bytes", "retransmits",
                "timeouts", "ce_received"},
}  # fmt: skip


def test_a_run_as_devices_print_it_reads_back_as_the_run(run, tmp_path):
    found = values(read_counters([written(run, tmp_path, "sonic", "ethtool")]))
    simulated = {
        place: count
        for place, count in values(run.counted).items()
        if place[2].kind in SHOWN["ethtool" if place[0] in run.hosts else "sonic"]
    }
    assert found == simulated
    assert {key.kind for _, _, key in found} >= {"pfc_rx", "pfc_tx", "ecn_marks"}


def test_a_transcript_names_devices_by_its_prompts(run, tmp_path):
    (tmp_path / "session.log").write_text("\n".join([*transcript(run, "sonic"), *transcript(run, "ethtool")]))
    assert values(read_counters([tmp_path / "session.log"])) == values(
        read_counters([written(run, tmp_path / "folder", "sonic", "ethtool")])
    )


def test_pauses_are_counted_at_both_ends(run):
    """A frame that a switch sends arrives at the port at the other end of the link."""
    far = {a: b for link in run.links for a, b in (link, link[::-1])}
    for (device, port, key), count in values(run.counted).items():
        if key.kind == "pfc_rx":
            other, at = far[device, port]
            sent = run.counted.devices[other].ports[at][Key("pfc_tx", key.number)].count
            assert 0 <= sent - count <= 2, "at most those that were on the wire at the end"


REQUESTS = """
stop = "2 s"
topology = { kind = "custom", hosts = ["client", "server"], switches = ["S"], link = { delay = "1 us" }, links = [
    { ends = ["client", "S"], rate = "10 Gbps" },
    { ends = ["server", "S"], rate = "100 Gbps" },
] }
transport = { PRESET, rto_min = "1 ms" }
workload = { kind = "requests", client = "client", server = "server", count = 5, request = "1 KB", response = "1 MB" }
"""
DAMAGE = '[[corruption]]\nports = ["S:0"]\nfer = 0.01\n'
FLOW = 'workload = { kind = "flows", flows = [{ src = "server", dst = "client", size = "5 MB" }] }\n'
ROCE = REQUESTS.partition("transport =")[0] + 'transport = { preset = "roce_dcqcn" }\n' + FLOW + DAMAGE


def counts_of(text, folder):
    """What the hosts of a run print, by host and name, without zeros; and its tables."""
    run = pf.run(text, out=folder, progress=False)
    simulated = read_run(folder)
    printed: dict[tuple[str, str], int] = {}
    for host, _, lines in commands_of(simulated, "ethtool"):
        words = [line.replace(":", " ").split() for line in lines]
        printed |= {(host, word[0]): int(word[1]) for word in words if len(word) > 1 and word[1].strip("0").isdecimal()}
    return printed, run, simulated


def test_repeats_count_at_the_end_that_sends_them(tmp_path):
    """Frames of the response are damaged: the server sends them again, and the client does not count them."""
    text = REQUESTS.replace("PRESET", 'preset = "cubic"')
    printed, run, simulated = counts_of(text + DAMAGE, tmp_path / "run")
    flows = run.flows.to_polars()
    repeats = flows["retransmits"].sum()
    assert repeats == flows["reply_retransmits"].sum() > 5
    assert (printed["server", "TcpRetransSegs"], printed.get(("client", "TcpRetransSegs"))) == (repeats, None)
    of_port = {row["port"]: row for row in run.ports.to_polars().to_dicts()}["S:0"]
    assert of_port["drops_corrupted"] > 5
    assert printed["client", "rx_prio0_packets"] == of_port["tx_packets"] - of_port["drops_corrupted"]
    assert printed["client", "rx_prio0_bytes"] < of_port["tx_bytes"]
    assert simulated.flows["server", "client"] == [1_000_000] * 5
    assert simulated.flows["client", "server"] == [1000] * 5


def test_marks_count_at_the_end_that_receives_them(tmp_path):
    printed, run, _ = counts_of(REQUESTS.replace("PRESET", 'preset = "dctcp"'), tmp_path / "run")
    marks = run.flows.to_polars()["ce_packets"].sum()
    assert marks > 50
    assert (printed["client", "IpExtInCEPkts"], printed.get(("server", "IpExtInCEPkts"))) == (marks, None)


def test_kernels_do_not_count_queue_pairs(tmp_path):
    """The NIC sends packets of RoCE again and sees their marks."""
    printed, run, simulated = counts_of(ROCE, tmp_path / "run")
    assert run.flows.to_polars()["repeats_by_nak"].sum() > 10
    assert not [name for _, name in printed if not name.startswith(("rx_prio", "tx_prio"))]
    assert simulated.flows["server", "client"] == [5_000_000]


PAUSES = """
stop = { time = "5 ms", when_finished = false }
topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
switch = { buffer = "100 KB", pfc = { priorities = [0] } }
corruption = [{ ports = ["switch:1"], fer = 0.1 }]
[[workload]]
kind = "udp"
sources = ["host1", "host2"]
destinations = ["host0"]
rate = "10 Gbps"
[[workload]]
kind = "udp"
name = "back"
sources = ["host0"]
destinations = ["host1"]
rate = "1 Gbps"
stop = "4 ms"
"""


def test_lost_pauses_are_no_lost_packets(tmp_path):
    """`drops_corrupted` has pause frames too. The datagrams to host1 tell how many packets it received."""
    printed, run, _ = counts_of(PAUSES, tmp_path / "run")
    (back,) = run.flows.to_polars().filter(pl.col("workload") == "back").to_dicts()
    ports = {row["port"]: row for row in run.ports.to_polars().to_dicts()}
    pauses = ports["host1:0"]
    assert pauses["pauses_sent"] > pauses["pauses_received"]
    received = back["datagrams_sent"] - back["datagrams_lost"]
    assert received > ports["switch:1"]["tx_packets"] - ports["switch:1"]["drops_corrupted"]
    # No table counts the frames that end pauses and were lost.
    open_pauses = pauses["pauses_received"] - pauses["resumes_received"]
    assert received - open_pauses <= printed["host1", "rx_prio0_packets"] <= received


def test_the_run_itself_is_as_expected(run, tmp_path):
    verdict = judge(read_counters([written(run, tmp_path, "sonic", "ethtool")]), expectations.Expected.of(run, None))
    assert verdict.remarks == []
    assert {spread.device for spread in verdict.spreads} == {"leaf0", "leaf1"}


TEXTS = {
    "pfc.txt": """
    Port Rx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7
-----------  ------  ------  ------  ------  ------  ------  ------  ------
  Ethernet0       0       0       0  11,021       3       0       0       0
Ethernet120     N/A     N/A     N/A     N/A     N/A     N/A     N/A     N/A

    Port Tx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7
-----------  ------  ------  ------  ------  ------  ------  ------  ------
  Ethernet0       0       0       0      17       0       0       0       0
Ethernet120     N/A     N/A     N/A     N/A     N/A     N/A     N/A     N/A
""",
    "queue.txt": """Ethernet0 Last cached time was 2026-11-26 22:10:02.123456
     Port    TxQ    Counter/pkts    Counter/bytes    Drop/pkts    Drop/bytes    Trim/pkts
---------  -----  --------------  ---------------  -----------  ------------  -----------
Ethernet0    UC3       1,200,345    4,980,000,001           12           N/A            0
Ethernet0    MC8              77              N/A            0           N/A          N/A

""",
    "wred.txt": """     Port    TxQ    WredDrp/pkts    WredDrp/bytes    EcnMarked/pkts    EcnMarked/bytes
---------  -----  --------------  ---------------  ----------------  -----------------
Ethernet0    UC3             N/A              N/A             4,021                N/A
Ethernet4    UC3             N/A              N/A               N/A                N/A
""",
    "pg.txt": """Ingress headroom per PG:
     Port    PG0    PG1    PG2    PG3    PG4    PG5    PG6    PG7
---------  -----  -----  -----  -----  -----  -----  -----  -----
Ethernet0      0      0      0  18432      0      0      0      0
""",
    "pool.txt": """Shared pool maximum occupancy:
                 Pool    Bytes
---------------------  -------
ingress_lossless_pool   812032
""",
    "if.txt": """    IFACE    STATE       RX_OK        RX_BPS    RX_UTIL    RX_ERR    RX_DRP    RX_OVR       TX_OK
---------  -------  ----------  ------------  ---------  --------  --------  --------  ----------
Ethernet0        U  12,345,678  2000.00 MB/s      1.60%         0         5         0  23,456,789
""",
}


def test_tables_of_sonic(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / f"leaf7.{name}").write_text(text)
    device = read_counters([tmp_path]).devices["leaf7"]
    own = {(port, key): (value.count, value.name) for port, rows in device.ports.items() for key, value in rows.items()}
    assert own["Ethernet0", Key("pfc_rx", 3)] == (11_021, "PFC3 Rx")
    assert own["Ethernet0", Key("pfc_tx", 3)] == (17, "PFC3 Tx")
    assert own["Ethernet0", Key("queue_packets", 3)] == (1_200_345, "UC3 Counter/pkts")
    assert own["Ethernet0", Key("queue_drops", 3)] == (12, "UC3 Drop/pkts")
    assert own["Ethernet0", Key("ecn_marks", 3)] == (4021, "UC3 EcnMarked/pkts")
    assert own["Ethernet0", Key("headroom_peak", 3)] == (18_432, "PG3 headroom")
    assert own["ingress_lossless_pool", Key("pool_peak")] == (812_032, "Bytes")
    assert own["Ethernet0", Key("tx_packets")] == (23_456_789, "TX_OK")
    assert own["Ethernet0", Key("rx_drops")] == (5, "RX_DRP")
    assert ("Ethernet0", Key("queue_packets", 8)) not in own
    assert device.missing >= {"pfc_rx", "pfc_tx", "ecn_marks"}


def test_json_of_sonic(tmp_path):
    queues = {"Ethernet0": {"time": "now", "UC3": {"totalpacket": "5,000", "totalbytes": "9", "droppacket": "1"}}}
    named = {"Ethernet4": {"UC4": {"Counter/pkts": "7", "Drop/pkts": "N/A", "EcnMarked/pkts": "2"}}}
    (tmp_path / "leaf1").mkdir()
    for name, value in {
        "queues": queues,
        "wred": named,
        "headroom": [{"Port": "Ethernet0", "PG3": "100", "PG4": "N/A"}],
        "shared": [{"Port": "Ethernet0", "PG3": "200"}],
        "uc": [{"Port": "Ethernet0", "UC3": "300"}],
        "pools": [{"ingress_lossless_pool": "400"}],
        "watermark": [{"Port": "Ethernet0", "PG3": "500"}],
    }.items():
        (tmp_path / "leaf1" / f"{name}.json").write_text(json.dumps(value))
    counted = read_counters([tmp_path])
    own = counted.devices["leaf1"].ports
    assert own["Ethernet0"][Key("queue_packets", 3)].count == 5000
    assert own["Ethernet4"][Key("ecn_marks", 4)].count == 2
    peaks = [own["Ethernet0"][Key(kind, 3)].count for kind in ("headroom_peak", "shared_peak", "queue_peak")]
    assert peaks == [100, 200, 300]
    assert own["ingress_lossless_pool"][Key("pool_peak")].count == 400
    assert [note for note in counted.notes if "watermark.json" in note and "headroom or shared" in note]


ETHTOOL = """NIC statistics:
     rx_packets: 900
     rx_ecn_mark: 41
     tx_bytes_phy: 8000000
     rx_discards_phy: 3
     rx_prio3_bytes: 700000
     rx_prio3_pause: 12
     rx_prio3_pause_duration: 3456
     rx_prio3_pause_transition: 6
     tx_prio3_pause: 88
     tx_prio3_packets: 5
     rx_prio3_discards: 2
     tx_global_pause: 9
"""
NSTAT = """#kernel
IpInReceives                    2251               0.0
TcpOutSegs                      1811               0.0
TcpRetransSegs                  14                 0.0
TcpExtTCPTimeouts               3                  0.0
IpExtInCEPkts                   120                0.0
"""
SS = """State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process
ESTAB  0      0           10.0.0.1:5001      10.0.0.2:41234
\t ts sack dctcp wscale:7,7 rto:204 rtt:0.11/0.02 ato:40 mss:8948 cwnd:10 bytes_sent:99 retrans:0/7 delivered:9
ESTAB  0      0           10.0.0.1:5003      10.0.0.2:41238
\t ts sack ecn dctcp wscale:7,7 rto:204 rtt:0.11/0.02 mss:8948 cwnd:10 delivered:9 delivered_ce:4
ESTAB  0      0           10.0.0.1:5002      10.0.0.2:41236
\t ts sack ecn ecnseen dctcp wscale:7,7 rto:204 rtt:0.11/0.02 mss:8948 cwnd:10 retrans:0/2
ESTAB  0      0           10.0.0.1:22        10.0.0.9:51236
\t ts sack cubic wscale:7,7 rto:204 rtt:0.11/0.02 mss:1448 cwnd:10
"""
"""Of `ss -toi`, which prints options before the congestion control."""
PLAIN_SS = re.sub(r"\t (?:(?:ts|sack|ecn|ecnseen) )+", "\t ", SS)
"""Of `ss -ti`."""


def test_texts_of_hosts(tmp_path):
    host = tmp_path / "server3"
    host.mkdir()
    (host / "ethtool-ens1f0.txt").write_text(ETHTOOL)
    (host / "nstat.txt").write_text(NSTAT)
    own = read_counters([host]).devices["server3"].ports
    port = {key: value.count for key, value in own["ens1f0"].items()}
    assert (port[Key("pfc_rx", 3)], port[Key("pfc_tx", 3)]) == (12, 88)
    assert (port[Key("pause_us", 3)], port[Key("rx_bytes", 3)], port[Key("rx_drops", 3)]) == (3456, 700_000, 2)
    assert (port[Key("ce_received")], port[Key("tx_bytes")], port[Key("rx_drops")]) == (41, 8_000_000, 3)
    whole = {key.kind: value.count for key, value in own[""].items()}
    assert whole == {"segments": 1811, "retransmits": 14, "timeouts": 3, "ce_received": 120}
    (host / "nstat.txt").write_text(SS)
    whole = {key.kind: value.count for key, value in read_counters([host]).devices["server3"].ports[""].items()}
    assert whole == {"retransmits": 9, "ce_received": 4, "no_ecn_sockets": 1}
    (host / "nstat.txt").write_text(PLAIN_SS)
    counted = read_counters([host])
    whole = {key.kind: value.count for key, value in counted.devices["server3"].ports[""].items()}
    assert whole == {"retransmits": 9, "ce_received": 4}
    assert [note for note in judge(counted, expectations.Expected.of(None, None)).notes if "`ss -toi`" in note]
    marked = PLAIN_SS.replace("delivered:9\n", "delivered:9 delivered_ce:1\n").replace("retrans:0/2", "delivered_ce:1")
    (host / "nstat.txt").write_text(marked)
    assert not judge(read_counters([host]), expectations.Expected.of(None, None)).notes
    (host / "nstat.json").write_text(json.dumps({"kernel": {"TcpRetransSegs": 77}}))
    (host / "nstat.txt").unlink()
    assert read_counters([host]).devices["server3"].ports[""][Key("retransmits")].count == 77


def faulty(run, tmp_path, change, **options):
    """The remarks about the counters of the run with one change."""
    counted = read_counters([written(run, tmp_path, "sonic", "ethtool")])
    change(counted.devices)
    return judge(counted, expectations.Expected.of(run, None), **options).remarks


def _all_on_one(devices):
    ports = devices["leaf0"].ports
    up = sorted(port for port, own in ports.items() if int(port) >= 4)
    for port in up:
        packets = ports[port].pop(Key("queue_packets", 3)).count
        size = ports[port].pop(Key("queue_bytes", 3)).count
        devices["leaf0"].add(up[0], Key("queue_packets", 3), packets, "UC3 Counter/pkts", more=True)
        devices["leaf0"].add(up[0], Key("queue_bytes", 3), size, "UC3 Counter/bytes", more=True)


def _no_marks(devices):
    for device in devices.values():
        for own in device.ports.values():
            if Key("ecn_marks", 3) in own:
                own[Key("ecn_marks", 3)] = own[Key("ecn_marks", 3)].__class__(0, "UC3 EcnMarked/pkts")


CHANGES = {
    "foreign pauses": (lambda d: d["leaf0"].add("0", Key("pfc_rx", 5), 9, "PFC5 Rx"), "fault", "PFC5 Rx"),
    "no marks": (_no_marks, "fault", "PFC3 Tx"),
    "class in use": (
        lambda d: d["leaf1"].add("1", Key("queue_packets", 5), 7, "UC5 Counter/pkts"),
        "hint",
        "UC5 Counter/pkts",
    ),
    "lost": (lambda d: d["leaf0"].add("2", Key("queue_drops", 3), 4, "UC3 Drop/pkts"), "fault", "UC3 Drop/pkts"),
    "uneven paths": (_all_on_one, "fault", "bytes"),
    "slow host": (lambda d: d["host3"].add("0", Key("pfc_tx", 3), 50, "tx_prio3_pause"), "hint", "tx_prio3_pause"),
    "no ECN": (
        lambda d: d["host3"].add("", Key("no_ecn_sockets"), 2, "dctcp without ecn"),
        "fault",
        "dctcp without ecn",
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_nobody_expects_is_named(run, tmp_path, kind):
    change, level, counter = CHANGES[kind]
    remarks = [one for one in faulty(run, tmp_path, change, flows=64) if one.kind == kind]
    assert remarks
    assert {(one.level, one.counter) for one in remarks} == {(level, counter)}


def test_configurations_alone_tell_which_pauses_are_foreign(tmp_path):
    import lint_fabrics
    from pauseframe.devices.read import read_fabric

    lint_fabrics.write(lint_fabrics.clos(2, 2, 2), tmp_path / "configs")
    fabric = read_fabric([tmp_path / "configs"]).fabric
    headroom = fabric.switches["leaf0"].headroom_of(fabric.switches["leaf0"].ports["Ethernet0"], 3)[0] or 0
    counted = Counted()
    leaf = counted.device("leaf0")
    for port in fabric.switches["leaf0"].ports:
        leaf.add(port, Key("pfc_rx", 3), 5, "PFC3 Rx")
        leaf.add(port, Key("queue_bytes", 3), 1000, "UC3 Counter/bytes")
    leaf.add("Ethernet4", Key("pfc_rx", 2), 5, "PFC2 Rx")
    leaf.add("Ethernet0", Key("headroom_peak", 3), headroom, "PG3 headroom")
    verdict = judge(counted, expectations.Expected.of(None, fabric))
    assert {(one.kind, one.counter) for one in verdict.remarks} >= {
        ("foreign pauses", "PFC2 Rx"),
        ("headroom", "PG3 headroom"),
    }
    assert [one.counter for one in verdict.remarks if one.kind == "foreign pauses"] == ["PFC2 Rx"]
    assert [(one.used, set(one.counts)) for one in verdict.spreads] == [(2, {"Ethernet8", "Ethernet12"})]


def test_a_fair_hash_is_rarely_called_uneven():
    """The chance bounds the share of false alarms; a single hot link among eight is found."""
    draw = random.Random(4)
    alarms = 0
    for _ in range(1000):
        ports = Counter({str(i): 0 for i in range(8)})
        ports.update(str(draw.randrange(8)) for _ in range(64))
        alarms += Spread("s", dict(ports), "flows").chance(64) < 0.01
    assert alarms <= 10
    hot = Spread("s", {"0": 23, **{str(i): 6 for i in range(1, 8)}}, "flows")
    assert hot.chance(65) < 0.001
    assert tail(4, 0.5, 4) == pytest.approx(1 / 16)
    assert sum(tail(9, 0.3, k) for k in range(1, 10)) == pytest.approx(2.7), "the sum of the tails is the mean"


def test_counters_since_an_earlier_collection():
    before, now = Counted(), Counted()
    for counted, count, fell in ((before, 100, 50), (now, 130, 5)):
        counted.device("a").add("p", Key("pfc_rx", 3), count, "PFC3 Rx")
        counted.device("a").add("p", Key("pfc_tx", 3), fell, "PFC3 Tx")
        counted.device("a").add("p", Key("headroom_peak", 3), 7, "PG3 headroom")
    found = since(now, before)
    assert {key.kind: value.count for key, value in found.devices["a"].ports["p"].items()} == {
        "pfc_rx": 30,
        "pfc_tx": 5,
        "headroom_peak": 7,
    }
    assert "it was reset" in found.notes[0]


def test_the_command(run, folder, tmp_path):
    printed = cli("counters", folder, "--as", "sonic").stdout
    assert "admin@leaf0:~$ show pfc counters\n  Port Rx    PFC0    PFC1" in printed
    done = cli("counters", folder, "--as", "ethtool", "-o", tmp_path / "files")
    assert done.returncode == 0
    assert (tmp_path / "files" / "host0" / "ethtool-0.txt").is_file()
    assert cli("counters", folder, "--as", "sonic", "-o", tmp_path / "files").returncode == 0
    page = tmp_path / "page.html"
    done = cli("counters", tmp_path / "files", "--run", folder, "--out", page)
    assert (done.returncode, "nothing unexpected" in done.stdout) == (0, True), done.stderr
    assert "Traffic over equal links" in page.read_text()
    alone = cli("counters", tmp_path / "files")
    assert "pauses and classes were compared with nothing" in alone.stdout
    assert "name --run RUN or --configs PATH" in alone.stderr
    text = (tmp_path / "files" / "leaf0" / "pfc-counters.txt").read_text()
    (tmp_path / "files" / "leaf0" / "pfc-counters.txt").write_text(text.replace("     0\n", "     9\n", 1))
    done = cli("counters", tmp_path / "files", "--run", folder, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["remarks"][0]["counter"] == "PFC7 Rx"
    for wrong in ((folder,), (tmp_path / "none",), (tmp_path,), (folder, folder, "--as", "sonic")):
        assert cli("counters", *wrong).returncode in ({2} if wrong != (tmp_path,) else {0, 1})


def test_files_without_counters_are_named(tmp_path):
    (tmp_path / "leaf0.txt").write_text("show version\n")
    with pytest.raises(DeviceFileError, match=r"no counters in leaf0\.txt: give the output of show pfc counters"):
        read_counters([tmp_path])
    (tmp_path / "leaf1.pfc.txt").write_text(TEXTS["pfc.txt"])
    assert any("leaf0.txt: not read" in note for note in read_counters([tmp_path]).notes)
