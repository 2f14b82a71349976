"""Closed forms beside the simulator, under both kinds of clock: what theory predicts, each with its tolerance.

RED's uniform spacing has the share of Floyd's count, not the 2p / (1 + p) that is usually quoted.
"""

from __future__ import annotations

import math
import statistics

import pauseframe as pf
import polars as pl
import pytest

CLOCKS = pytest.mark.parametrize("clocks", ["real", "ideal"])


def run(text: str, clocks: str, seed: int = 1) -> pf.Run:
    return pf.run(f'clocks = "{clocks}"\n{text}', seed=seed, progress=False)


def flows(results: pf.Run) -> pl.DataFrame:
    return pl.DataFrame(results.flows)


def port(results: pf.Run, name: str, priority: int) -> dict[str, float]:
    ports = pl.DataFrame(results.ports)
    return ports.filter((pl.col("port").cast(pl.String) == name) & (pl.col("priority") == priority)).row(0, named=True)


def mean_series(results: pf.Run, entity: str, after_us: float) -> float:
    series = pl.DataFrame(results.series).filter(
        (pl.col("metric") == "backlog_bytes")
        & (pl.col("time_us") > after_us)
        & (pl.col("entity").cast(pl.String) == entity)
    )
    return float(series["value"].mean())  # type: ignore[arg-type]


def star(hosts: int, gbps: float, delay: str = "1 us") -> str:
    return f'topology = {{ kind = "star", hosts = {hosts}, link = {{ rate = "{gbps} Gbps", delay = "{delay}" }} }}\n'


def to_one(senders: int) -> str:
    pairs = ", ".join(f'{{ src = "host{i}", dst = "host0" }}' for i in range(1, senders + 1))
    return f'[[workload]]\nkind = "long_flows"\nname = "l"\nflows = [{pairs}]\n'


@CLOCKS
@pytest.mark.parametrize("gbps", [1, 10, 25, 100, 400])
def test_a_lone_tcp_flow_is_exact(gbps: int, clocks: str) -> None:
    one = '[[workload]]\nkind = "flows"\nflows = [{ src = "host0", dst = "host1", size = "14480 B" }]\n'
    handshake_and_data_ns = (4 * 98 * 8 + 11 * 1538 * 8) / gbps + 6000
    assert flows(run(star(2, gbps) + one, clocks))["fct_us"][0] * 1000 == pytest.approx(handshake_and_data_ns, abs=1e-3)


@CLOCKS
@pytest.mark.parametrize("gbps", [10, 100, 400, 800])
def test_a_lone_write_is_exact(gbps: int, clocks: str) -> None:
    text = star(2, gbps) + 'transport = { preset = "roce_dcqcn" }\nhost = { mtu = "9000 B" }\n'
    text += '[[workload]]\nkind = "flows"\nflows = [{ src = "host0", dst = "host1", size = "1000000 B" }]\n'
    full = 1_000_000 // 4096
    frames = [4096 + 86 + 16] + [4096 + 86] * (full - 1) + [1_000_000 - full * 4096 + 86]
    assert flows(run(text, clocks))["fct_us"][0] * 1000 == pytest.approx(
        (frames[0] + sum(frames)) * 8 / gbps + 2000, abs=1e-3
    )


@CLOCKS
@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("gbps", [25, 100, 400])
def test_reads_take_the_latency_or_the_link(depth: int, gbps: int, clocks: str) -> None:
    text = 'stop = { time = "3 ms", when_finished = false }\n' + star(2, gbps)
    text += f"""transport = {{ preset = "roce_dcqcn" }}
[[workload]]
kind = "storage"
targets = ["host0"]
initiators = ["host1"]
queue_depth = {depth}
read_share = 1.0
sizes = "4096 B"
"""
    response = [1024 + 66 + 24, 1024 + 86, 1024 + 86, 1024 + 66 + 24]
    latency_ns = (2 * 102 * 8 / gbps + 2000) + (response[0] + sum(response)) * 8 / gbps + 2000
    expected = min(depth / latency_ns * 1e9, gbps * 1e9 / 8 / sum(response)) / 1e6
    done = flows(run(text, clocks)).filter(pl.col("fct_us").is_not_null() & (pl.col("start_us") > 500))
    ends = done["finish_us"].to_list()
    span = max(ends) - min(ends)
    assert (done.height - 1) / span == pytest.approx(expected, rel=0.002)


@CLOCKS
def test_pfc_changes_nothing_where_nothing_waits(clocks: str) -> None:
    text = star(16, 10, "100 ns")
    text += '[[workload]]\nkind = "application"\npattern = "all_to_all"\nranks = 16\nsize = "8 KB"\niterations = 60\n'
    times = []
    for lossless in ("false", "true"):
        results = run(f"transport = {{ lossless = {lossless} }}\n{text}", clocks)
        assert results.summary["drops"] == 0
        times.append(results.summary["sim_time_s"])
    assert times[1] == pytest.approx(times[0], rel=0.01)


@CLOCKS
def test_rings_run_at_the_rate_of_the_link(clocks: str) -> None:
    text = star(8, 100) + 'transport = { preset = "roce_dcqcn", rdma_control = "none" }\n'
    text += (
        '[[workload]]\nkind = "application"\npattern = "all_reduce"\nranks = 8\nsize = "16 MB"\nalgorithm = "ring"\n'
    )
    # On top of the bytes come acknowledgements (0.5 %) and 14 round trips (3.5 %).
    bound_ms = 2 * 7 / 8 * 16e6 * 1110 / 1024 * 8 / 100e9 * 1000
    ranks = pl.DataFrame(run(text, clocks).ranks)
    column = next(name for name in ranks.columns if "finish" in name or "end" in name)
    assert 1 <= float(ranks[column].max()) / 1000 / bound_ms <= 1.045  # type: ignore[arg-type]


@CLOCKS
@pytest.mark.parametrize(
    ("senders", "size", "gbps", "transport", "wire"),
    [
        (40, 256_000, 25, 'preset = "tcp_bolt"', 1542 / 1448),
        (24, 1_000_000, 100, 'preset = "roce_dcqcn"', 1110 / 1024),
        (12, 1_000_000, 400, 'preset = "roce_hpcc"', 1152 / 1024),
    ],
)
def test_an_incast_takes_the_time_of_its_bytes(
    senders: int, size: int, gbps: int, transport: str, wire: float, clocks: str
) -> None:
    text = star(senders + 1, gbps) + 'switch = { buffer = { policy = "shared", size = "16 MB" } }\n'
    text += f'transport = {{ {transport} }}\n[[workload]]\nkind = "n_to_1"\nsenders = {senders}\nsize = "{size} B"\n'
    ends = []
    for seed in (1, 2, 3):
        results = run(text, clocks, seed)
        assert results.summary["drops"] == 0
        ends.append(float(flows(results)["finish_us"].max()))  # type: ignore[arg-type]
    bound = senders * size * wire * 8 / gbps / 1000
    assert 1 <= statistics.median(ends) / bound <= (1.2 if "hpcc" in transport else 1.1)


def udp_arrivals(sizes: tuple[int, ...], load: float) -> str:
    sources, capacity = 40, 10e9
    service = (sum(sizes) / len(sizes) + 28) * 8 / capacity
    arrivals = load / service / sources / len(sizes)
    names = ", ".join(f'"h{i}"' for i in range(sources))
    links = ", ".join(f'["s", "h{i}"]' for i in range(sources))
    text = f"""stop = {{ time = "400 ms", when_finished = false }}
[topology]
kind = "custom"
hosts = [{names}, "r"]
switches = ["s"]
link = {{ rate = "1000 Gbps", delay = "0 us" }}
links = [{{ ends = ["s", "r"], rate = "10 Gbps" }}, {links}]
[host]
wire_overhead = "none"
[switch]
buffer = "20 MB"
"""
    for index, size in enumerate(sizes):
        idle = 1 / arrivals - (size + 28) * 8 / 1000e9
        text += f"""[[workload]]
name = "u{index}"
kind = "udp"
sources = [{names}]
destinations = ["r"]
rate = "1000 Gbps"
datagram = "{size} B"
burst = {{ sizes = "{size} B", idle = "{idle * 1e6:.6f} us" }}
"""
    return text


@CLOCKS
@pytest.mark.parametrize(("sizes", "load"), [((1472,), 0.9), ((172, 1472), 0.8)])
def test_poisson_arrivals_wait_as_pollaczek_and_khinchine_say(sizes: tuple[int, ...], load: float, clocks: str) -> None:
    service = [(size + 28) * 8 / 10e9 for size in sizes]
    first, second = statistics.mean(service), statistics.mean(value * value for value in service)
    results = run(udp_arrivals(sizes, load), clocks, seed=5)
    seen = port(results, "s:0", 0)
    came = seen["tx_bytes"] * 8 / 10e9 / results.summary["sim_time_s"]
    waiting_s = came / first * second / (2 * (1 - came))
    assert seen["backlog_mean_bytes"] == pytest.approx(came * 10e9 / 8 * waiting_s, rel=0.05)


@CLOCKS
def test_shares_of_ets(clocks: str) -> None:
    text = 'stop = { time = "10 ms", when_finished = false }\n' + star(4, 25)
    text += '[switch]\nbuffer = "500 KB"\n[switch.scheduler]\nkind = "ets"\n'
    text += "groups = [{ priorities = [3], share = 50 }, { priorities = [1], share = 30 }, "
    text += "{ priorities = [0, 2, 4, 5, 6, 7], share = 20 }]\n"
    for index, priority in enumerate((3, 1, 0)):
        text += f"""[[workload]]
kind = "udp"
name = "u{priority}"
sources = ["host{index + 1}"]
destinations = ["host0"]
rate = "25 Gbps"
datagram = "{(1472, 700, 300)[index]} B"
priority = {priority}
"""
    seen = [port(results, "switch:0", priority) for results in [run(text, clocks)] for priority in (3, 1, 0)]
    wire = [row["tx_bytes"] + 20 * row["tx_packets"] for row in seen]
    assert [value / sum(wire) for value in wire] == pytest.approx([0.5, 0.3, 0.2], abs=0.002)


@CLOCKS
@pytest.mark.parametrize("classes", [(3, 4), (0, 3), (1, 2)])
def test_backlogged_classes_share_a_link_by_default(classes: tuple[int, int], clocks: str) -> None:
    text = 'stop = { time = "4 ms", when_finished = false }\n' + star(3, 25) + "[switch.pfc]\npriorities = [3, 4]\n"
    for index, priority in enumerate(classes):
        text += f"""[[workload]]
kind = "udp"
name = "u{priority}"
sources = ["host{index + 1}"]
destinations = ["host0"]
rate = "25 Gbps"
priority = {priority}
"""
    results = run(text, clocks)
    sent = [port(results, "switch:0", priority)["tx_bytes"] for priority in classes]
    expected = {(3, 4): 0.5, (0, 3): 16 / 34, (1, 2): 0.5}[classes]
    assert sent[0] / sum(sent) == pytest.approx(expected, abs=0.01)


def red_share(spacing: str, at: str, clocks: str) -> float:
    marker = f'kind = "red", min = "100 KB", max = "200 KB", p_max = 0.2, spacing = "{spacing}", at = "{at}"'
    text = 'stop = { time = "100 ms", when_finished = false }\n' + star(3, 10) + '[host]\nwire_overhead = "none"\n'
    text += f'[switch]\nbuffer = "150 KB"\nmarker = {{ {marker} }}\n[[workload]]\nkind = "udp"\n'
    text += 'sources = ["host1", "host2"]\ndestinations = ["host0"]\nrate = "6 Gbps"\necn = true\n'
    seen = port(run(text, clocks), "switch:0", 0)
    return seen["ecn_marks"] / seen["tx_packets"]


def floyd_share(probability: float) -> float:
    """Marks per packet of Floyd's count: the first packet after a mark counts as one."""
    survives, gap, count = 1.0, 0.0, 0
    while survives > 1e-12:
        count += 1
        gap += survives
        survives *= 1 - min(1.0, probability / max(1e-12, 1 - count * probability))
    return 1 / gap


@CLOCKS
@pytest.mark.parametrize("at", ["enqueue", "dequeue"])
def test_red_marks_its_probability(at: str, clocks: str) -> None:
    # The queue moves between the limit and a frame below it; a departing frame is not counted.
    queue = 150_000 - 1500 * (1.0 if at == "enqueue" else 1.5)
    probability = 0.2 * (queue - 100_000) / 100_000
    assert red_share("geometric", at, clocks) == pytest.approx(probability, rel=0.04)
    assert red_share("uniform", at, clocks) == pytest.approx(floyd_share(probability), rel=0.04)


@CLOCKS
@pytest.mark.parametrize(("alpha", "hogs"), [(1, 1), (1, 4), (0.5, 2), (8, 2)])
def test_dynamic_thresholds_divide_the_pool(alpha: float, hogs: int, clocks: str) -> None:
    hosts = [f"d{i}" for i in range(hogs)] + [f"s{i}" for i in range(2 * hogs)]
    text = f"""stop = {{ time = "6 ms", when_finished = false }}
[topology]
kind = "custom"
hosts = [{", ".join(f'"{host}"' for host in hosts)}]
switches = ["x"]
link = {{ rate = "10 Gbps", delay = "1 us" }}
links = [{", ".join(f'["x", "{host}"]' for host in hosts)}]
[host]
wire_overhead = "none"
[switch]
buffer = {{ policy = "shared", size = "1 MB", alpha = {alpha} }}
[record]
series = {{ every = "20 us", ports = ["x:0"] }}
"""
    for i in range(hogs):
        text += f'[[workload]]\nkind = "udp"\nname = "u{i}"\nsources = ["s{2 * i}", "s{2 * i + 1}"]\n'
        text += f'destinations = ["d{i}"]\nrate = "10 Gbps"\n'
    held = mean_series(run(text, clocks), "x:0/p0", 4000)
    assert held == pytest.approx(alpha * 1_000_000 / (1 + alpha * hogs), abs=3000 * max(1, alpha))


@CLOCKS
def test_reno_follows_the_square_root_law(clocks: str) -> None:
    text = 'stop = { time = "30 s", when_finished = false }\n' + star(2, 1, "2.5 ms")
    text += """[transport]
preset = "newreno"
delayed_ack_segments = 1
delayed_ack_form = "fixed"
receive_buffer = "fixed"
receive_window = "16 MB"
[[workload]]
kind = "long_flows"
flows = [{ src = "host0", dst = "host1" }]
[[corruption]]
ports = ["switch:1"]
fer = 0.001
"""
    results = run(text, clocks)
    segments = flows(results)["delivered_bytes"][0] / 1448 / results.summary["sim_time_s"] * 10e-3
    low, high = 1.22 / math.sqrt(0.001), 1.31 / math.sqrt(0.001)
    assert 0.9 * low <= segments <= 1.1 * high


@pytest.mark.parametrize(("loss", "rtt_ms", "seconds"), [(1e-3, 20, 1200), (1e-4, 100, 2500)])
def test_cubic_under_random_loss(loss: float, rtt_ms: int, seconds: int) -> None:
    """RFC 9438 has 1.054 (RTT/p)^0.75 segments for periodic loss; under random loss it is 1.30."""
    text = f'stop = {{ time = "{seconds} s", when_finished = false }}\n' + star(2, 10, f"{rtt_ms / 4} ms")
    text += f"""[transport]
preset = "cubic"
cubic_friendly = false
cubic_fast_convergence = false
delayed_ack_segments = 1
delayed_ack_form = "fixed"
receive_buffer = "fixed"
receive_window = "64 MB"
[[workload]]
kind = "long_flows"
flows = [{{ src = "host0", dst = "host1" }}]
[[corruption]]
ports = ["switch:1"]
fer = {loss}
"""
    results = run(text, "ideal")
    flow = flows(results).row(0, named=True)
    # Fewer losses make the mean a matter of chance.
    assert flow["retransmits"] > 400
    window = flow["delivered_bytes"] / 1448 / results.summary["sim_time_s"] * rtt_ms / 1000
    assert window == pytest.approx(1.30 * (rtt_ms / 1000 / loss) ** 0.75, rel=0.1)


@CLOCKS
@pytest.mark.parametrize(("senders", "gbps"), [(8, 100), (4, 25)])
def test_the_queue_of_swift_is_its_target(senders: int, gbps: int, clocks: str) -> None:
    scale = 100 / (1 / math.sqrt(0.1) - 1 / math.sqrt(100))
    target = 50.0
    for _ in range(200):
        window = target * 1e-6 * gbps * 1e9 / 8 / 1110 / senders
        target = 20 + 3.05 * 2 + min(max(scale / math.sqrt(window) - scale / 10, 0), 100)
    base_us = 4 + (2 * 1110 + 2 * 90) * 8 / gbps / 1000
    text = 'stop = { time = "30 ms", when_finished = false }\n' + star(senders + 1, gbps)
    text += '[switch]\nbuffer = { policy = "shared", size = "32 MB" }\n[transport]\npreset = "roce_swift"\n'
    text += '[record]\nseries = { every = "20 us", ports = ["switch:0"] }\n' + to_one(senders)
    expected = (target - base_us) * 1e-6 * gbps * 1e9 / 8 * 1090 / 1110
    assert mean_series(run(text, clocks), "switch:0/p3", 15_000) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("gbps", [10, 100])
@pytest.mark.parametrize(
    "other",
    ['preset = "dctcp"', 'preset = "tcp_bolt"', 'preset = "roce_dcqcn"', 'preset = "roce_hpcc"', 'preset = "vegas"'],
)
def test_a_message_between_other_hosts_changes_nothing(other: str, gbps: int) -> None:
    """No default depends on which other transports a scenario has."""
    text = 'stop = { time = "8 ms", when_finished = false }\n' + star(6, gbps)
    text += f"""[transports.other]
{other}
[[workload]]
name = "l"
kind = "long_flows"
flows = [{{ src = "host0", dst = "host2" }}, {{ src = "host1", dst = "host2", start = "37 us" }}]
"""
    extra = '[[workload]]\nname = "one"\ntransport = "other"\nkind = "flows"\n'
    extra += 'flows = [{ src = "host4", dst = "host5", size = "1 KB", start = "100 us" }]\n'
    columns = ["delivered_bytes", "retransmits", "timeouts"]
    alone, beside = (
        flows(run(case, "ideal")).filter(pl.col("workload").cast(pl.String) == "l") for case in (text, text + extra)
    )
    assert alone.select(columns).rows() == beside.select(columns).rows()


@pytest.mark.parametrize("preset", ["roce_swift", "roce_timely", "roce_hpcc", "uec_nscc"])
@pytest.mark.parametrize("delay", ["7 us", "20 us", "100 us", "200 us"])
def test_a_flow_alone_fills_long_links(preset: str, delay: str) -> None:
    """No constant of a control may lie below the round trip of the idle network."""
    text = f"""
clocks = "ideal"
topology = {{ kind = "star", hosts = 2, link = {{ rate = "10 Gbps", delay = "{delay}" }} }}
transport = {{ preset = "{preset}" }}
workload = {{ kind = "flows", flows = [{{ src = "host0", dst = "host1", size = "3 MB" }}] }}
"""
    flow = pf.run(text, progress=False).flows[0]
    assert flow["slowdown"] < 1.05, flow
    assert flow["retransmits"] == 0


def test_a_query_begins_when_its_flows_do() -> None:
    text = """
topology = { kind = "star", hosts = 4, link = { rate = "10 Gbps", delay = "1 us" } }
[host]
reaction = "50 us"
[[workload]]
kind = "requests"
client = "host0"
servers = ["host1", "host2", "host3"]
count = 4
response = "20 KB"
"""
    for pause in ("0 s", "20 us", "300 us"):
        run = pf.run(text, set={"workload.0.pause": pause}, progress=False)
        flows, queries = run.flows.to_polars(), run.queries.to_polars().sort("query")
        assert flows.group_by("query").agg(start=pl.col("start_us").min()).sort("query")["start"].to_list() == (
            queries["start_us"].to_list()
        )


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("policy", ["per_port", "shared"])
def test_marks_of_a_switch_are_those_that_arrive(seed: int, policy: str) -> None:
    """Also where marked packets lose their places in a full queue to others that came at the same time."""
    text = f"""
topology = {{ kind = "star", hosts = 3, link = {{ rate = "10 Gbps", delay = "1 us" }} }}
switch = {{ buffer = {{ policy = "{policy}", size = "100 KB" }} }}
[[workload]]
kind = "udp"
sources = ["host1", "host2"]
destinations = ["host0"]
rate = "10 Gbps"
datagram = "100 B"
ecn = true
stop = "4 ms"
burst = {{ sizes = "55 KB", idle = "54 us" }}
"""
    run = pf.run(text, seed=seed, progress=False)
    assert run.summary["drops"] > 100
    assert sum(flow["ce_packets"] for flow in run.flows) == run.summary["ecn_marks"] > 1000


@pytest.mark.parametrize(("rate", "stop"), [("1 Mbps", "20 ms"), ("100 Mbps", "1 ms"), ("10 Gbps", "50 us")])
def test_datagrams_end_with_the_last_arrival(rate: str, stop: str) -> None:
    text = f"""
topology = {{ kind = "star", hosts = 2, link = {{ rate = "10 Gbps", delay = "1 us" }} }}
[[workload]]
kind = "udp"
sources = ["host1"]
destinations = ["host0"]
rate = "{rate}"
stop = "{stop}"
"""
    flow = pf.run(text, progress=False).flows[0]
    gbps = {"1 Mbps": 0.001, "100 Mbps": 0.1, "10 Gbps": 10.0}[rate]
    gap, frame = 1538 * 8e-3 / gbps, 1518 * 8e-4
    # Two frames of store and forward and two delays after the last one began.
    last = (flow["datagrams_sent"] - 1) * gap
    assert flow["finish_us"] == pytest.approx(last + 2 * frame + 2, abs=0.05)
