"""Paths of queue pairs and choices of switches, from the scenario to tables, warnings and errors."""

from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.report import Group, build_report, from_folder, paths

FABRIC = """
transport = { preset = "roce_dcqcn", rdma_control = "none" }
switch = { pfc = true }
[topology]
kind = "leaf_spine"
leaves = 2
spines = 4
hosts_per_leaf = 4
link = { rate = "100 Gbps", delay = "500 ns" }
[[workload]]
"""
PERMUTATION = FABRIC + 'kind = "permutation"\nsize = "1 MB"\n'
NSCC = {"transport.preset": "uec_nscc", "transport.rdma_control": "nscc"}
LINUX = {"routing.hash": "siphash", "routing.index": "threshold"}
OOO = {"transport.rdma_dp_ordering": "ooo_rw"}
SEVERAL = {"transport.rdma_qps_per_connection": 4, "transport.rdma_split_data_on_qps": True}


def warnings(run: pf.Run, key: str) -> list[str]:
    return [text for text in run.summary["warnings"] if text.startswith(key)]


def test_a_split_flow_is_one_row() -> None:
    run = pf.run(PERMUTATION, set=SEVERAL, progress=False)
    rows = list(run.flows)
    assert len(rows) == 8
    assert all(row["status"] == "finished" and row["delivered_bytes"] == 1_000_000 for row in rows)
    assert all(row["slowdown"] >= 1 for row in rows)
    assert not warnings(run, "transport.rdma_qps")


def test_split_messages_end_jobs_sooner_where_ecmp_collides() -> None:
    job = FABRIC + 'kind = "application"\npattern = "all_to_all"\nranks = 8\nsize = "8 MB"\n'
    times = {}
    for name, change in [("one", {}), ("in turn", {"transport.rdma_qps_per_connection": 4}), ("split", SEVERAL)]:
        run = pf.run(job, set=change, progress=False)
        [row] = run.jobs
        times[name] = row["finish_us"]
        assert not warnings(run, "transport.rdma_qps")
    assert times["split"] < times["one"]
    assert times["in turn"] > 0


@pytest.mark.parametrize(
    "workload",
    [
        'kind = "requests"\nclient = "host0"\nservers = "host4"\nresponse = "1 MB"\ncount = 2',
        'kind = "storage"\ninitiators = ["host0"]\ntargets = ["host4"]\nsizes = "4 KB"\ncount = 2',
        'kind = "incast"\nfan_in = [3]\nresponse = ["10 KB"]\nrequest = "1 KB"\nqueries = 2\nstop = "1 ms"',
    ],
)
def test_exchanges_on_one_queue_pair_are_refused(workload: str) -> None:
    with pytest.raises(pf.ScenarioError, match="on one queue pair"):
        pf.run(FABRIC + workload, set=SEVERAL, progress=False)


def test_keys_that_change_nothing_are_warned_of() -> None:
    [text] = warnings(pf.run(PERMUTATION, set={"transport.rdma_qps_per_connection": 2}, progress=False), "transport")
    assert "set transport.rdma_split_data_on_qps = true" in text
    [text] = warnings(pf.run(PERMUTATION, set={"transport.rdma_split_data_on_qps": True}, progress=False), "transport")
    assert "a connection has one queue pair" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"routing.weights": "capacity"}, "a remainder gives each next hop the same share"),
        ({"routing.buckets": 60}, "index is not"),
        ({"routing.kind": "spray", "routing.index": "threshold"}, "hashes nothing"),
        ({"routing.kind": "ars", "routing.low_load": 90}, "is not above low_load"),
        ({"routing.kind": "ars", "routing.flowlet_gap": "10 us"}, "flowlet_gap"),
        ({"routing.kind": "ars", "routing.mode": "fixed", "routing.idle_time": "1 us"}, "a gap moves no flow"),
        ({"transport.rdma_entropy": "oblivious"}, "go-back-N takes each for a loss"),
        ({"transport.rdma_entropy": "mixed", "transport.rdma_selective_repeat": True}, "only acknowledgements of NSCC"),
        (NSCC | {"transport.rdma_entropy": "reps"}, "without trimming"),
        (
            NSCC | {"transport.rdma_entropy": "mixed", "routing.hash": "crc32"},
            "for flows here",
        ),
        (NSCC | {"transport.rdma_entropy": "mixed", "routing.kind": "spray"}, "do not hash"),
        ({"transport.rdma_entropy_values": 48}, "not a power of two"),
        (NSCC | OOO, "NSCC delivers in any order"),
        (OOO | {"transport.preset": "roce_hpcc", "transport.rdma_control": "hpcc"}, "stamps"),
        (OOO | {"transport.rdma_send": True}, "next posted receive"),
        ({"routing.kind": "drill", "routing.spray": "round_robin"}, "spray"),
        (LINUX | {"routing.hash_fields": "5-tuple+dest_qp"}, "read no queue pair"),
        (LINUX | {"routing.hash_seeds": "tier"}, "no seeds by tier"),
        (LINUX | {"routing.hash_offsets": [0, 10]}, "do not rotate"),
        ({"routing.hash_fields": "addresses+flow_label"}, "ideal hash"),
    ],
)
def test_choices_that_cannot_act_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(pf.ScenarioError, match=message):
        pf.run(PERMUTATION, set=change, progress=False)


@pytest.mark.parametrize(
    ("preset", "fields", "told"),
    [
        ("dctcp", "5-tuple+dest_qp", True),
        ("roce_dcqcn", "5-tuple+dest_qp", False),
        ("dctcp", "inner-addresses", True),
        ("dctcp", "addresses+flow_label", False),
    ],
)
def test_fields_that_no_packet_has_are_warned_of(preset: str, fields: str, told: bool) -> None:
    change = {"transport": {"preset": preset}, "routing.hash": "crc32", "routing.hash_fields": fields}
    run = pf.run(PERMUTATION, set=change, progress=False)
    assert bool(warnings(run, "routing.hash_fields")) == told


def test_flow_level_obeys_weights_and_buckets() -> None:
    for index in ["threshold", "resilient"]:
        text = PERMUTATION.replace("[topology]", f'routing = {{ index = "{index}", weights = "capacity" }}\n[topology]')
        result = pf.run_flows(text, progress=False)
        assert not [text for text in result.summary["warnings"] if "routing." in text]


FAT_TREE = """
routing = { index = "threshold", weights = "capacity" }
transport.preset = "roce_dcqcn"
[topology]
kind = "custom"
hosts = ["h0", "h1"]
switches = ["a", "g1", "g2", "c1", "c2", "c3", "c4", "G1", "G2", "e"]
link = { rate = "100 Gbps", delay = "500 ns" }
links = [
    ["h0", "a"], ["h1", "e"], ["a", "g1"], ["a", "g2"], ["g1", "c1"], ["g1", "c2"], ["g2", "c3"], ["g2", "c4"],
    ["c1", "G1"], ["c2", "G1"], ["c3", "G2"], ["c4", "G2"], { ends = ["G1", "e"], rate = "50 Gbps" }, ["G2", "e"],
]
[[workload]]
kind = "flows"
flows = [FLOWS]
""".replace("FLOWS", ", ".join(600 * ['{ src = "h0", dst = "h1", size = "2 KB" }']))


def test_a_slow_last_link_of_a_fat_tree_has_half_of_the_weight() -> None:
    """Both cores behind an aggregation switch share its last link, which counts once."""
    run = pf.run(FAT_TREE, progress=False)
    slow, fast = (sum(row["tx_packets"] for row in run.ports if row["port"] == port) for port in ("a:1", "a:2"))
    assert 0.27 < slow / (slow + fast) < 0.4


def test_paths_of_queue_pairs_are_recorded_on_request(tmp_path: Path) -> None:
    run = pf.run(PERMUTATION, set=SEVERAL | {"record.paths": True}, out=tmp_path / "run", progress=False)
    rows = [row for row in pf.load(tmp_path / "run").paths if row["direction"] == "forward"]
    crossing = {row["flow"] for row in run.flows if (int(row["src"][4:]) < 4) != (int(row["dst"][4:]) < 4)}
    assert {row["queue_pair"] for row in rows} == {0, 1, 2, 3}
    # Each queue pair keeps one path: leaf, spine, leaf across racks, and the leaf alone within one.
    for flow in range(8):
        own = [row for row in rows if row["flow"] == flow]
        assert len(own) == (12 if flow in crossing else 4)
        assert all(row["moves"] == row["late_packets"] == 0 for row in own)
    assert not (pf.run(PERMUTATION, progress=False).paths.num_rows)


def test_sprayed_packets_come_late() -> None:
    change = {"routing.kind": "spray", "transport.rdma_selective_repeat": True, "record.paths": True}
    rows = list(pf.run(PERMUTATION, set=change, progress=False).paths)
    assert any(row["moves"] > 100 for row in rows if row["node"].startswith("leaf"))
    late = [row for row in rows if row["late_packets"]]
    assert late
    assert all(row["reorder_depth"] > 0 for row in late)


BY_PACKET = [
    {"routing.kind": "spray"},
    {"routing.kind": "spray", "routing.spray": "round_robin"},
    {"routing.kind": "drill"},
    {"routing.kind": "adaptive"},
    {"routing.kind": "ars", "routing.mode": "packet_quality"},
    {"topology.ports_per_host": 2, "host.port_choice": "balance-rr"},
]


@pytest.mark.parametrize("change", BY_PACKET)
def test_overtaken_packets_are_sent_again_by_cards_that_keep_order(change: dict[str, object]) -> None:
    """Loading warns and names the cure, with which nothing is sent again."""
    key = "host.port_choice" if "host.port_choice" in change else "routing."
    for repeats, how in [(False, "go-back-N"), (True, "others have overtaken")]:
        [text] = warnings(
            pf.run(PERMUTATION, set=change | {"transport.rdma_selective_repeat": repeats}, progress=False), key
        )
        assert how in text
        assert 'rdma_dp_ordering = "ooo_rw"' in text
        run = pf.run(PERMUTATION, set=change | OOO | {"transport.rdma_selective_repeat": repeats}, progress=False)
        assert sum(row["retransmits"] for row in run.flows) == 0
        assert not warnings(run, key)


def test_flowlets_and_one_path_need_no_cure() -> None:
    for kind in ["ecmp", "letflow", "ars", "conweave"]:
        assert not warnings(pf.run(PERMUTATION, set={"routing.kind": kind}, progress=False), "routing.")


@pytest.mark.parametrize("order", ["random", "round_robin"])
def test_a_sprayed_flow_in_turn_loads_uplinks_equally(order: str) -> None:
    flow = FABRIC + 'kind = "flows"\nflows = [{ src = "host0", dst = "host4", size = "4 MB" }]\n'
    change = OOO | {"routing.kind": "spray", "routing.spray": order, "record.paths": True}
    rows = list(pf.run(flow, set=change, progress=False).paths)
    sent = [row["packets"] for row in rows if row["node"] == "leaf0" and row["direction"] == "forward"]
    assert len(sent) == 4
    assert (max(sent) - min(sent) <= 1) == (order == "round_robin")


def test_a_report_shows_paths_and_shares_of_equal_links(tmp_path: Path) -> None:
    run = pf.run(PERMUTATION, set={"record.paths": True}, out=tmp_path / "run", progress=False)
    groups: dict[int, list[int]] = {}
    for row in run.equal_links:
        groups.setdefault(row["group"], []).append(row["flows"])
    crossing = sum((int(row["src"][4:]) < 4) != (int(row["dst"][4:]) < 4) for row in run.flows)
    assert all(len(flows) == 4 for flows in groups.values())
    assert sum(map(sum, groups.values())) == crossing
    page = build_report([Group("", [from_folder(tmp_path / "run")])], tmp_path / "report.html").read_text()
    assert "flows over equal links" in page
    assert "Most uneven" in page


def test_the_binomial_of_a_report_is_one() -> None:
    assert sum(paths.binomial(count, 8, 20) for count in range(21)) == pytest.approx(1)
    assert sum(count * paths.binomial(count, 8, 20) for count in range(21)) == pytest.approx(20 / 8)
    # As many flows as links use 1 - 1/e of many links.
    assert paths.used_links(1000, 1000) / 1000 == pytest.approx(0.632, abs=0.001)


STAR_OF_THREE = """
stop = "500 ms"
topology = {{ kind = "custom", hosts = [{hosts}], switches = ["S"], link = {{ rate = "10 Gbps", delay = "1 us" }},
  links = [["a", "S"], ["b", "S"], {{ ends = ["c", "S"], delay = "100 us" }}] }}
transport = {{ {transport} }}
workload = {{ kind = "flows", flows = [{{ src = "a", dst = "c", size = "5 MB" }}] }}
"""
TWO_WAYS = """
stop = "500 ms"
routing = {{ kind = "ecmp" }}
topology = {{ kind = "custom", hosts = ["a", "b"], switches = ["L1", "S1", "S2", "L2"],
  link = {{ rate = "10 Gbps", delay = "1 us" }},
  links = [["a", "L1"], ["b", "L2"], ["L1", "S1"], ["S1", "L2"],
  {{ ends = ["L1", "S2"], delay = "100 us" }}, ["S2", "L2"]] }}
transport = {{ preset = "roce_hpcc" }}
workload = {{ kind = "flows", flows = [{{ src = "a", dst = "b", size = "5 MB" }}] }}
"""


@pytest.mark.parametrize(
    "transport",
    [
        'preset = "roce_hpcc"',
        'preset = "roce_dcqcn", rdma_window = "fixed"',
        'preset = "tcp_bolt"',
    ],
)
def test_the_longest_path_is_that_of_the_longest_time(transport: str) -> None:
    """Windows of a round trip fill the way to the farthest host, in whatever order hosts are named."""
    times = set()
    for hosts in ('"a", "b", "c"', '"c", "a", "b"'):
        run = pf.run(pf.Scenario.from_toml(STAR_OF_THREE.format(hosts=hosts, transport=transport)), progress=False)
        [flow] = list(run.flows)
        assert flow["slowdown"] < 1.05
        times.add(flow["fct_us"])
    assert len(times) == 1


def test_the_longest_path_is_the_longest_of_several() -> None:
    for seed in (1, 2, 3, 4):
        run = pf.run(pf.Scenario.from_toml(TWO_WAYS.format()), seed=seed, progress=False)
        [flow] = list(run.flows)
        assert flow["fct_us"] < 4900, seed


def test_an_initial_window_of_a_bdp_is_that_of_the_own_link() -> None:
    """An idle host with a slow link does not shrink the windows of the others."""
    text = """
    topology = {{ kind = "custom", hosts = ["a", "b"{more}], switches = ["S"],
      link = {{ rate = "100 Gbps", delay = "1 us" }},
      links = [["a", "S"], ["b", "S"]{link}] }}
    transport = {{ preset = "newreno", stack = "none", initial_window = "bdp" }}
    workload = {{ kind = "flows", flows = [{{ src = "a", dst = "b", size = "500 KB" }}] }}
    """
    slow = {"more": ', "c"', "link": ', { ends = ["c", "S"], rate = "1 Gbps" }'}
    runs = [
        pf.run(pf.Scenario.from_toml(text.format(**one)), progress=False) for one in ({"more": "", "link": ""}, slow)
    ]
    alone, beside = (next(iter(run.flows))["slowdown"] for run in runs)
    assert alone < 1.1
    assert beside < 1.1


DUAL = """
topology = { kind = "star", hosts = 4, ports_per_host = 2, link = { rate = "100 Gbps", delay = "1 us" } }
transport = { preset = "roce_dcqcn", rdma_control = "none" }
workload = { kind = "n_to_1", senders = 3, size = "1 MB" }
"""


def sent_to(run: pf.Run, host: str) -> list[int]:
    """Packets sent to each port of a host."""
    return [row["tx_packets"] for row in run.ports if row["peer"].partition(":")[0] == host]


def test_a_backup_port_receives_nothing() -> None:
    run = pf.run(DUAL, set={"host.port_choice": "active-backup"}, progress=False)
    # Ports without a packet have no row.
    [first] = sent_to(run, "host0")
    assert first > 2900
    assert all(row["slowdown"] >= 1 for row in run.queries)


def test_the_least_loaded_port_is_so_with_the_new_flow() -> None:
    text = """
    topology = { kind = "custom", hosts = ["a", "b"], switches = ["S"], link = { delay = "1 us" },
      links = [{ ends = ["a", "S"], rate = "10 Gbps" }, { ends = ["a", "S"], rate = "40 Gbps" },
      { ends = ["b", "S"], rate = "100 Gbps" }] }
    host = { port_choice = "least_loaded" }
    transport = { preset = "roce_dcqcn", rdma_control = "none" }
    workload = { kind = "flows", flows = [{ src = "a", dst = "b", size = "1 MB" }] }
    """
    [flow] = list(pf.run(text, progress=False).flows)
    assert flow["fct_us"] < 225


def test_equally_loaded_ports_are_drawn() -> None:
    text = """
    topology = { kind = "star", hosts = 32, ports_per_host = 2, link = { rate = "10 Gbps", delay = "1 us" } }
    host = { port_choice = "least_loaded" }
    transport = { preset = "roce_dcqcn", rdma_control = "none" }
    workload = { kind = "permutation", size = "100 KB" }
    """
    run = pf.run(text, progress=False)
    by_port = [0, 0]
    for row in run.ports:
        if row["port"].startswith("host") and row["tx_packets"] > 50:
            by_port[int(row["port"].rpartition(":")[2])] += 1
    assert sum(by_port) == 32
    assert min(by_port) > 6


@pytest.mark.parametrize("kind", ["letflow", "ars"])
def test_a_repaired_link_moves_no_flow_without_a_gap(kind: str) -> None:
    """Packets come each 12 us; the link that they do not use is down for a while."""
    text = f"""
    stop = "3 ms"
    topology = {{ kind = "custom", hosts = ["a", "b"], switches = ["S", "T"],
      link = {{ rate = "10 Gbps", delay = "1 us" }},
      links = [["a", "S"], ["b", "T"], ["S", "T"], ["S", "T"]] }}
    routing = {{ kind = "{kind}", convergence = "10 us" }}
    record = {{ paths = true }}
    workload = {{ kind = "udp", sources = ["a"], destinations = ["b"], rate = "1 Gbps" }}
    """
    for seed in range(1, 9):
        moved = []
        for port in ("S:1", "S:2"):
            failure = [{"port": port, "down": "1 ms", "up": "2 ms"}]
            run = pf.run(text, set={"failure": failure}, seed=seed, progress=False)
            sent = {row["port"]: row["tx_packets"] for row in run.ports if row["port"] in ("S:1", "S:2")}
            moved.append(len([port for port, packets in sent.items() if packets]) > 1)
        # Only the failure of the link in use moves the flow.
        assert sorted(moved) == [False, True], seed


def test_trimming_that_no_transport_knows_is_told() -> None:
    text = (
        FABRIC.replace("switch = { pfc = true }", 'switch = { queue = "trim" }')
        + 'kind = "permutation"\nsize = "9 KB"\n'
    )
    [told] = warnings(pf.run(text, progress=False), "switch.queue")
    assert "NSCC alone" in told
    assert not warnings(pf.run(text, set=NSCC, progress=False), "switch.queue")
