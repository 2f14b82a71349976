"""Hosts with several ports, names of ports, and hashes of switches, from the scenario to the tables."""

import pauseframe as pf
import pytest

CUSTOM = """
stop = "5 ms"
topology.kind = "custom"
topology.hosts = ["a", "b"]
topology.switches = ["s", "t"]
topology.links = [
    { ends = ["a", "s"], ports = ["eth0", "Ethernet0"] },
    { ends = ["a", "t"], ports = ["eth1", "Ethernet0"] },
    { ends = ["b", "s"], ports = ["eth0", "Ethernet4"] },
    { ends = ["b", "t"], ports = ["eth1", "Ethernet4"] },
]
host.port_choice = "rail"
transport.preset = "roce_dcqcn"
[[workload]]
kind = "flows"
flows = [{ src = "a", dst = "b", size = "1 MB" }, { src = "a", dst = "b", size = "1 MB" }]
"""


def sent(run: pf.Run) -> dict[str, int]:
    """Bytes of data sent by each port."""
    return {row["port"]: row["tx_bytes"] for row in run.ports if row["priority"] == 3}


def test_ports_have_the_names_that_links_give_them() -> None:
    run = pf.run(CUSTOM, progress=False)
    ports = sent(run)
    assert ports["a:eth0"] == ports["a:eth1"] > 1_000_000
    assert {"s:Ethernet4", "t:Ethernet4"} <= ports.keys()
    assert {row["node"] for row in run.ports} == {"a", "b", "s", "t"}
    assert {row["src"] for row in run.flows} == {"a"}


@pytest.mark.parametrize("port", ["a:eth1", "a:1"])
def test_a_port_is_known_by_name_and_by_number(port: str) -> None:
    failure = f'[[failure]]\nport = "{port}"\ndown = "100 us"\n'
    run = pf.run(CUSTOM.replace("host.port", 'host.miimon = "50 us"\nhost.port') + failure, progress=False)
    assert run.summary["flows_finished"] == 2
    ports = sent(run)
    assert ports["a:eth1"] < 200_000
    assert ports["a:eth0"] + ports["a:eth1"] > 1_800_000


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"eth1", "Ethernet0"', '"eth0", "Ethernet0"', "a:eth0 is at another link too"),
        ('"eth1", "Ethernet0"', '"1", "Ethernet0"', '"1" is not a name for a port'),
        ('port_choice = "rail"', 'stack = "kernel"', "a kernel host has one port, and a has 2"),
    ],
)
def test_mistakes_about_ports_are_named(old: str, new: str, message: str) -> None:
    with pytest.raises(pf.ScenarioError, match=message):
        pf.run(CUSTOM.replace(old, new), progress=False)


def test_keys_of_ports_say_when_they_change_nothing() -> None:
    star = 'topology = { kind = "star", hosts = 2 }\nworkload = { kind = "permutation", size = "1 KB" }\n'
    run = pf.run(star + 'host.miimon = "10 ms"\nhost.lacp_rate = "fast"\n', progress=False)
    assert [text.split(":")[0] for text in run.summary["warnings"]] == ["host.miimon", "host.lacp_rate"]


def test_advice_for_waits_names_what_is_not_set_and_the_failure() -> None:
    text = """
    stop = "40 ms"
    topology.kind = "leaf_spine"
    topology.leaves = 4
    topology.spines = 2
    topology.hosts_per_leaf = 4
    topology.ports_per_host = 2
    topology.link = { rate = "100 Gbps", delay = "500 ns" }
    host = { port_choice = "802.3ad", miimon = "2 ms" }
    transport = { preset = "roce_dcqcn" }
    workload = { kind = "permutation", size = "20 MB" }
    failure = [{ port = "host0:1", down = "500 us" }]
    """
    [waits] = [w for w in pf.run(text, progress=False).summary["warnings"] if w.startswith("transport.rdma_timer")]
    _, _, advice = waits.rpartition("%: ")
    assert advice.startswith("shorten the time until hosts and network have noticed a failure (host.miimon")
    assert "adaptive" not in advice
    assert "lossless" not in advice
    assert "rdma_selective_repeat" in advice


def test_a_bond_without_a_look_at_the_carrier_is_warned_of() -> None:
    run = pf.run(CUSTOM.replace('"rail"', '"802.3ad"\nhost.miimon = "0 s"'), progress=False)
    assert any(text.startswith("host.miimon: with 802.3ad") for text in run.summary["warnings"])


def test_a_rotated_hash_uses_the_links_that_another_seed_leaves_idle() -> None:
    """CRC-32 with the seeds 0 and 10 uses 1 of 4 uplinks of the second tier; rotated by 10 bits it uses all."""
    text = """
        topology = { kind = "xgft", m = [2, 4, 4], w = [1, 4, 4] }
        routing = { hash = "crc32", hash_seeds = "tier", hash_offsets = [] }
        workload = { kind = "background", sizes = "20 KB", arrivals = { kind = "load", load = 0.3 }, stop = "1 ms" }
    """
    used = []
    for offsets in ("[]", "[0, 10]"):
        run = pf.run(text.replace("hash_offsets = []", f"hash_offsets = {offsets}"), progress=False)
        polarized = [text for text in run.summary["warnings"] if "polarized" in text]
        assert bool(polarized) == (offsets == "[]")
        used.append(sum(row["node"] == "s2_0" and row["peer"].startswith("s3") for row in run.ports if row["tx_bytes"]))
    assert used == [1, 4]


DUAL_HOMED = """
host = { port_choice = "active-backup", miimon = "2 ms" }
routing.convergence = "100 us"
[topology]
kind = "leaf_spine"
leaves = 4
spines = 2
hosts_per_leaf = 2
ports_per_host = 2
link = { rate = "10 Gbps" }
"""
DOWN = [4_000 + 700 * leaf for leaf in range(4)]
"""When one port of each leaf fails, in microseconds."""


def failures_in_turn() -> str:
    """The active port of a host at each leaf fails."""
    return "".join(f'[[failure]]\nport = "host{2 * leaf}:0"\ndown = "{at} us"\n' for leaf, at in enumerate(DOWN))


def test_failover_takes_up_to_one_look_at_the_carrier() -> None:
    """After the look a source sends by the other port, at its rate until the end."""
    text = 'stop = "10 ms"\n' + DUAL_HOMED + '[[workload]]\nkind = "udp"\nrate = "5 Gbps"\n' + failures_in_turn()
    run = pf.run(text, progress=False)
    frames = {row["port"]: row["tx_bytes"] / 1518 for row in run.ports if row["port"].startswith("host")}
    interval = 1538 * 8 / 5_000  # microseconds between datagrams
    outages = [10_000 - frames[f"host{2 * leaf}:1"] * interval - at for leaf, at in enumerate(DOWN)]
    assert all(0 <= outage <= 2_000 + 2 * interval for outage in outages), outages
    assert len({round(outage) for outage in outages}) == 4, "each host looks at moments of its own"


def test_a_lossless_fabric_outlives_a_port_of_each_leaf() -> None:
    """Switches drop what was in flight to a dead port until routes have changed, nothing for want of room."""
    workload = 'transport.preset = "roce_dcqcn"\nworkload = { kind = "permutation", size = "10 MB" }\n'
    run = pf.run('stop = "200 ms"\n' + workload + DUAL_HOMED + failures_in_turn(), progress=False)
    assert run.summary["flows_finished"] == run.summary["flows_total"] == 8
    lost = {row["port"]: row["drops_link_down"] for row in run.ports if row["drops_link_down"]}
    reasons = ("drops_buffer_full", "drops_headroom_exceeded", "drops_headroom_pool")
    assert all(row[reason] == 0 for row in run.ports for reason in reasons)
    # A frame in service and those on the wire at the host, acknowledgements among them; at the leaf also what arrives
    # until the routes have changed: 1.25 GB/s.
    in_flight = 2 + 1.25e9 * 110e-6 / 1_000
    assert lost
    assert all(count <= (3 if port.startswith("host") else in_flight) for port, count in lost.items()), lost


QUERIES = """
stop = { when_finished = true }
clocks = "ideal"
transport.preset = "dctcp"
[topology]
PORTS
link = { rate = "10 Gbps", delay = "1 us" }
"""
REQUESTS = """
[[workload]]
kind = "requests"
client = "CLIENT"
servers = SERVERS
count = 12
response = "SIZE"
persistent = false
"""
SEVERAL = [
    'kind = "fat_tree"\nk = 4\nplanes = 3',
    'kind = "leaf_spine"\nleaves = 4\nspines = 2\nhosts_per_leaf = 6\nports_per_host = 2',
]


def requests(size: str, client: str, *servers: str) -> str:
    return (
        REQUESTS.replace("SIZE", size).replace("CLIENT", client).replace("SERVERS", str([*servers]).replace("'", '"'))
    )


CHOICES = ["802.3ad", "xor", "active-backup", "balance-rr", "rail", "least_loaded"]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("ports", SEVERAL, ids=["planes", "two leaves"])
@pytest.mark.parametrize("preset", ["dctcp", "roce_dcqcn"])
def test_the_ideal_of_a_query_is_a_bound_whatever_ports_its_flows_take(preset: str, ports: str, choice: str) -> None:
    """The responses of a query come in by all ports of its client at once, or by one, as the flows hash."""
    given = {"host.port_choice": choice, "transport.preset": preset}
    run = pf.run(
        QUERIES.replace("PORTS", ports) + requests("20 KB", "host5", "host10", "host0", "host8"),
        set=given,
        progress=False,
    )
    slowdowns = sorted(row["slowdown"] for row in run.queries)
    assert len(slowdowns) == 12
    assert slowdowns[0] >= 1
    # Nothing else is on the way, so the bound is not far.
    assert slowdowns[0] < 2.5


UNEQUAL = """
stop = { when_finished = true }
clocks = "ideal"
topology.kind = "custom"
topology.hosts = ["c", "x", "y", "z"]
topology.switches = ["s", "t"]
topology.links = [
    { ends = ["c", "s"], rate = "10 Gbps" }, { ends = ["c", "t"], rate = "25 Gbps" },
    { ends = ["x", "s"], rate = "10 Gbps" }, { ends = ["x", "t"], rate = "25 Gbps" },
    { ends = ["y", "s"], rate = "10 Gbps" }, { ends = ["y", "t"], rate = "25 Gbps" },
    { ends = ["z", "s"], rate = "10 Gbps" }, { ends = ["z", "t"], rate = "25 Gbps" },
]
"""


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("preset", ["dctcp", "roce_dcqcn"])
def test_requests_and_replies_may_take_ports_of_other_rates(preset: str, choice: str) -> None:
    """With the least loaded port a request leaves by one link and its reply by another, which may be faster."""
    given = {"host.port_choice": choice, "transport.preset": preset}
    run = pf.run(UNEQUAL + requests("200 KB", "c", "x", "y", "z"), set=given, progress=False)
    for table in (run.flows, run.queries):
        assert min(row["slowdown"] for row in table) >= 1


MPTCP = """
stop = "500 ms"
transport = { preset = "dctcp", subflows = 2 }
[topology]
kind = "leaf_spine"
leaves = 2
spines = 2
hosts_per_leaf = 2
link = { rate = "10 Gbps", delay = "2 us" }
[[workload]]
kind = "flows"
flows = [{ src = "host0", dst = "host2", size = "4 MB" }]
"""


@pytest.mark.parametrize(
    ("host", "ports"),
    [
        ({"host.port_choice": "active-backup", "topology.ports_per_host": 2}, 1),
        ({"host.hash_policy": "layer2", "topology.ports_per_host": 2}, 1),
        ({"host.port_choice": "active-backup", "topology.planes": 2}, 1),
        ({"host.port_choice": "rail", "topology.ports_per_host": 2}, 2),
    ],
)
def test_the_ideal_time_of_mptcp_knows_the_ports_of_its_subflows(host: dict[str, object], ports: int) -> None:
    """Alone in the network a connection takes hardly longer than its ideal time, by one port or by both."""
    run = pf.run(MPTCP, set=host, progress=False)
    row = next(iter(run.flows))
    assert row["ideal_fct_us"] > 4e6 * 8 / (ports * 10e3)
    assert 1 <= row["slowdown"] < 1.05


UNEQUAL_PORTS = """
[topology]
kind = "custom"
hosts = ["a", "b"]
switches = ["s", "t"]
link = { rate = "10 Gbps", delay = "500 ns" }
links = [
    ["a", "s"], { ends = ["a", "t"], rate = "40 Gbps" }, ["b", "s"], { ends = ["b", "t"], rate = "40 Gbps" },
    { ends = ["s", "t"], rate = "400 Gbps" },
]
"""
TEN_FLOWS = """
stop = "20 ms"
transport = { preset = "roce_dcqcn" }
[[workload]]
kind = "flows"
flows = [FLOWS]
""".replace("FLOWS", ", ".join(10 * ['{ src = "a", dst = "b", size = "100 KB" }']))


def test_a_bond_of_unequal_ports_uses_one_aggregator() -> None:
    """802.3ad takes the ports of the larger bandwidth (Linux: ports of other speeds are in another aggregator)."""
    run = pf.run(TEN_FLOWS + UNEQUAL_PORTS, progress=False)
    assert {row["port"] for row in run.ports if row["tx_bytes"]} == {"a:1", "b:1", "t:0", "t:1"}
    named = [text for text in run.summary["warnings"] if text.startswith("host.port_choice: 2 hosts, as a, with ports")]
    assert len(named) == 1
    # A static bond spreads flows over all ports.
    static = pf.run(TEN_FLOWS + UNEQUAL_PORTS, set={"host.port_choice": "xor"}, progress=False)
    assert {"a:0", "a:1"} <= {row["port"] for row in static.ports if row["tx_bytes"]}
    assert not [text for text in static.summary["warnings"] if text.startswith("host.port_choice")]
    # Without a port of the aggregator the other one takes over; all flows end.
    failure = '[[failure]]\nport = "a:1"\ndown = "20 us"\n'
    run = pf.run(TEN_FLOWS + failure + UNEQUAL_PORTS, set={"host.miimon": "50 us"}, progress=False)
    assert run.summary["flows_finished"] == 10
    assert sum(row["tx_bytes"] for row in run.ports if row["port"] == "a:0") > 500_000


IN_TURN = {"host.port_choice": "balance-rr", "host.nic_queue": "per_flow"}


@pytest.mark.parametrize(
    ("transport", "rate"),
    [
        ('{ preset = "dctcp", initial_window = "8 MB" }', 20),
        ('{ preset = "roce_dcqcn", rdma_control = "none", rdma_dp_ordering = "ooo_rw" }', 10),
    ],
)
@pytest.mark.parametrize("slaves", [1, 4])
def test_ports_in_turn_are_as_fast_as_the_slowest(transport: str, rate: int, slaves: int) -> None:
    """Each port gets equally many packets; a queue pair is paced at the rate of one port."""
    flow = '[[workload]]\nkind = "flows"\nflows = [{ src = "a", dst = "b", size = "2 MB" }]\n'
    settings = {**IN_TURN, "host.packets_per_slave": slaves}
    row = next(
        iter(
            pf.run(
                f'stop = "20 ms"\ntransport = {transport}\n{flow}{UNEQUAL_PORTS}', set=settings, progress=False
            ).flows
        )
    )
    assert row["ideal_fct_us"] > 2e6 * 8 / (rate * 1e3)
    # Blocks of packets reach the switch out of order, for which TCP sends more slowly.
    assert 1 <= row["slowdown"] < (1.25 if slaves == 1 else 2)


CUT_OFF = """
stop = "100 ms"
[topology]
kind = "leaf_spine"
leaves = 4
spines = 2
hosts_per_leaf = 2
ports_per_host = 2
link = { rate = "10 Gbps", delay = "500 ns" }
[host]
miimon = "1 ms"
port_choice = "802.3ad"
nic_queue = "per_flow"
[routing]
kind = "ecmp"
convergence = "1 ms"
[transport]
preset = "roce_dcqcn"
"""
LEAF = [("link", '["leaf2", "spine0"]'), ("link", '["leaf2", "spine1"]')]
PLANE = [("node", '"spine0-p0"'), ("node", '"spine1-p0"')]
LEAF_OF_PLANE = [("link", '["leaf2-p0", "spine0-p0"]'), ("link", '["leaf2-p0", "spine1-p0"]')]


def cut_off(cut: list[tuple[str, str]], flows: list[str], down: str = "0 s") -> str:
    """A scenario in which a leaf has lost its uplinks, or a plane its spines, while all links of hosts are up."""
    text = CUT_OFF if cut == LEAF else CUT_OFF.replace("ports_per_host", "planes")
    failures = "".join(f'[[failure]]\n{key} = {what}\ndown = "{down}"\n' for key, what in cut)
    return text + failures + f'[[workload]]\nkind = "flows"\nflows = [{", ".join(flows)}]\n'


def flow(src: str, dst: str, start: float, size: str = "20 KB") -> str:
    return f'{{ src = "{src}", dst = "{dst}", size = "{size}", start = "{start} ms" }}'


@pytest.mark.parametrize("cut", [LEAF, PLANE, LEAF_OF_PLANE], ids=["leaf", "plane", "leaf of a plane"])
@pytest.mark.parametrize(
    "choice", ["802.3ad", "xor", "queue_affinity", "least_loaded", "active-backup", "rail", "balance-rr", "spray"]
)
def test_hosts_leave_switches_without_a_path(cut: list[tuple[str, str]], choice: str) -> None:
    """Flows that begin after the convergence lose nothing, in both directions; the reverse flows too."""
    flows = [flow("host0", "host4", 10 + i) for i in range(8)] + [flow("host4", "host0", 10.5 + i) for i in range(8)]
    text = cut_off(cut, flows)
    text = text.replace('"ecmp"', '"spray"') if choice == "spray" else text.replace("802.3ad", choice)
    run = pf.run(text, progress=False)
    assert run.summary["flows_finished"] == 16
    assert sum(row["drops_link_down"] for row in run.ports) == 0


@pytest.mark.parametrize("preset", ["roce_dcqcn", "dctcp"])
def test_flows_under_way_leave_a_leaf_without_uplinks(preset: str) -> None:
    """What a port loses is at most what it sends in the time of the convergence."""
    flows = [flow(f"host{i}", f"host{4 + i}", 0, "4 MB") for i in range(4)]
    flows += [flow(f"host{4 + i}", f"host{i}", 0, "4 MB") for i in range(4)]
    run = pf.run(cut_off(LEAF, flows, "2 ms").replace("100 ms", "2 s").replace("roce_dcqcn", preset), progress=False)
    assert run.summary["flows_finished"] == 8
    lost = [row["drops_link_down"] for row in run.ports]
    assert 0 < max(lost) < 1e-3 * 10e9 / 8 / 900


def test_hosts_of_a_leaf_without_uplinks_reach_each_other_there() -> None:
    run = pf.run(cut_off(LEAF, [flow("host4", "host5", 10 + i) for i in range(8)]), progress=False)
    assert run.summary["flows_finished"] == 8
    assert sum(row["tx_packets"] for row in run.ports if row["node"] == "leaf2" and row["tier"] != "host") > 0
    assert sum(row["drops_link_down"] for row in run.ports) == 0


def test_ideal_times_know_no_switches_without_a_path() -> None:
    """The ideal time is that of the intact network, whatever ports are left."""
    flows = [flow("host0", "host4", 10, "200 KB")]
    early, late = (
        pf.run(cut_off(LEAF, flows, down), progress=False).flows["ideal_fct_us"][0] for down in ("0 s", "90 ms")
    )
    assert early == late
