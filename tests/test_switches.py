"""Switch features that operators use: markers by port, marking at dequeue, pause storms, shared headroom."""

import json

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.lint import lint
from test_fabrics import cli

FRAME = 1518
"""Bytes of a full datagram's frame in a buffer."""
WIRE = 1538

RATES = """
name = "rate"
seed = 1
stop = "1 ms"
[topology]
kind = "leaf_spine"
leaves = 2
spines = 2
hosts_per_leaf = 8
link = { rate = "25 Gbps", delay = "1 us" }
fabric_link = { rate = "100 Gbps", delay = "1 us" }
[switch]
marker = { kind = "red", min = { "25 Gbps" = "100 KB", "100 Gbps" = "400 KB" }, max = "400 KB", p_max = 0.2, w_q = 1.0 }
"""
"""HPCC's setting: Kmin = 100 KB x rate / 25G."""


def run(text, tmp_path, **kwargs):
    return pf.run(text, out=tmp_path / "run", progress=False, **kwargs)


def table(rows):
    return pl.DataFrame(rows).with_columns(pl.col(pl.Categorical).cast(pl.String))


def test_a_marker_by_rate_runs_as_dctcp_meets_it(tmp_path):
    text = RATES + '[transport]\npreset = "dctcp"\n[[workload]]\nkind = "n_to_1"\nsize = "1 MB"\n'
    ports = table(run(text, tmp_path).ports).filter(pl.col("tier") != "host")
    least = pl.when(pl.col("rate_bps") == 25_000_000_000).then(100_000).otherwise(400_000)
    marked = ports.filter(pl.col("ecn_marks") > 0)
    assert len(marked) > 0
    assert (marked.select(pl.col("backlog_max_bytes") > least)).to_series().all()


def test_each_rate_has_its_threshold(tmp_path):
    """With min = max, a port marks only if a packet exceeds its threshold, and always marks the first such packet."""
    text = RATES.replace('max = "400 KB"', 'max = { "25 Gbps" = "100 KB", "100 Gbps" = "400 KB" }')
    udp = """
[[workload]]
kind = "udp"
sources = ["host8", "host9", "host10", "host11", "host12", "host13", "host14", "host15"]
destinations = ["host3", "host4", "host5", "host6", "host7"]
rate = "25 Gbps"
ecn = true
[[workload]]
kind = "udp"
name = "beside"
sources = ["host1", "host2"]
destinations = ["host0"]
rate = "13200 Mbps"
ecn = true
"""
    result = run(text + udp, tmp_path, set={"switch.buffer.size": "4 MB"})
    ports = table(result.ports).filter((pl.col("tier") != "host") & (pl.col("tx_packets") > 0))
    least = {25_000_000_000: 100_000, 100_000_000_000: 400_000}
    for port in ports.iter_rows(named=True):
        met = port["backlog_max_bytes"] - FRAME >= least[port["rate_bps"]]
        # Packets from the other leaf may already carry a mark.
        assert (port["ecn_marks"] > 0) == met or (met and port["node"] == "leaf0" != port["peer"]), port
    # An excess of 1.4 Gb/s for 1 ms gives 175 KB at a port of 25 Gb/s, and marks in the last 75 KB.
    [beside] = [port for port in ports.iter_rows(named=True) if port["peer"] == "host0"]
    assert 150_000 < beside["backlog_max_bytes"] < 180_000
    assert beside["ecn_marks"] > 500
    by_rate = ports.group_by("rate_bps").agg(pl.col("ecn_marks").sum())
    assert (by_rate["ecn_marks"] > 0).all()
    assert len(by_rate) == 2
    # The rows of the flows count marked packets that arrived.
    flows = table(result.flows)
    assert 0 < flows["ce_packets"].sum() <= ports["ecn_marks"].sum()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("min", {"25 Gbps": "100 KB"}, "no value for port"),
        ("min", {"25 Gbps": "100 KB", "*": "500 KB"}, "above max"),
        ("min", {"leaf*:*": "1 KB", "*:0": "2 KB", "*": "3 KB"}, "two values for port"),
        ("min", {"25": "100 KB"}, "neither a rate nor a port"),
        ("min", {"25 Gbps": "100"}, "25 Gbps"),
        ("min", {}, "has no values"),
    ],
)
def test_wrong_thresholds_name_the_port(key, value, says):
    text = RATES + '[[workload]]\nkind = "permutation"\nsize = "1 KB"\n'
    with pytest.raises(pf.ScenarioError, match=says):
        pf.Scenario.from_toml(text).resolve(set={f"switch.marker.{key}": value})


DEQUEUE = """
name = "red"
stop = "20 ms"
[topology]
kind = "star"
hosts = 3
link = { rate = "100 Gbps", delay = "1 us" }
[switch]
buffer = { policy = "shared", size = "32 MB", alpha = 8.0 }
marker = { kind = "red", min = "500 KB", max = "2000 KB", p_max = 0.05, w_q = 1.0, at = "dequeue" }
[[workload]]
kind = "udp"
sources = ["host0", "host1"]
destinations = ["host2"]
rate = "60 Gbps"
ecn = true
"""
"""sonic-mgmt's test of ECN accuracy: the instantaneous queue, marked at dequeue. Without `ecn`, no packet is marked."""


def closed_form(until_ns):
    """(mean, variance) of the number of marks: each departure leaves 0.2 frames more in the queue than the last."""
    mean = variance = 0.0
    departures = int(until_ns / (WIRE * 8 / 100))
    for number in range(departures):
        queue = 0.2 * number * FRAME
        p = 0.0 if queue < 500_000 else 1.0 if queue >= 2_000_000 else 0.05 * (queue - 500_000) / 1_500_000
        mean, variance = mean + p, variance + p * (1 - p)
    return mean, variance


def test_marks_at_dequeue_follow_the_slope(tmp_path):
    mean, variance = closed_form(790_000)
    assert 100 < mean < 130
    marks = 0
    for seed in range(1, 9):
        found = pf.run(DEQUEUE, out=tmp_path / str(seed), seed=seed, set={"stop": "790 us"}, progress=False).summary
        marks += found["ecn_marks"]
    assert marks == pytest.approx(8 * mean, abs=5 * (8 * variance) ** 0.5 + 16)
    # Above the slope all packets are marked; the queue is far above it for most of the file's 20 ms.
    whole = run(DEQUEUE, tmp_path)
    mean, variance = closed_form(20_000_000)
    assert whole.summary["ecn_marks"] == pytest.approx(mean, abs=5 * variance**0.5 + 30)
    assert table(whole.flows)["ce_packets"].sum() == pytest.approx(mean, abs=200)


def test_datagrams_that_cannot_be_marked_are_told(tmp_path):
    result = run(DEQUEUE.replace("ecn = true", ""), tmp_path, set={"stop": "790 us"})
    assert result.summary["ecn_marks"] == 0
    assert any("not ECN-capable" in warning for warning in result.summary["warnings"])


STORM = """
name = "wd"
stop = "3000 ms"
[topology]
kind = "star"
hosts = 3
link = { rate = "1 Gbps", delay = "1 us" }
[switch]
pfc = { priorities = [3], watchdog = { detection = "200 ms", restoration = "200 ms", action = "drop" } }
[[pause_storm]]
senders = ["host1"]
priorities = [3]
start = "50 ms"
stop = "900 ms"
[[workload]]
name = "t1"
kind = "udp"
sources = ["host0"]
destinations = ["host1"]
rate = "500 Mbps"
priority = 3
start = "100 ms"
stop = "850 ms"
[[workload]]
name = "t2"
kind = "udp"
sources = ["host0"]
destinations = ["host1"]
rate = "500 Mbps"
priority = 3
start = "1900 ms"
stop = "2900 ms"
[[workload]]
name = "bg"
kind = "udp"
sources = ["host2"]
destinations = ["host1"]
rate = "100 Mbps"
priority = 0
start = "100 ms"
stop = "2900 ms"
"""
"""sonic-mgmt's basic test of pfcwd: detect 200 ms, restore 200 ms, traffic 1 during the storm, traffic 2 after it."""


def lost_by_workload(result):
    flows = table(result.flows)
    rows = zip(flows["workload"], flows["datagrams_sent"], flows["datagrams_lost"], strict=True)
    return {name: (sent, lost) for name, sent, lost in rows}


def test_a_storm_costs_its_priority_and_its_time_alone(tmp_path):
    result = run(STORM, tmp_path)
    lost = lost_by_workload(result)
    assert lost["t1"][0] == lost["t1"][1] > 30_000
    assert lost["t2"][1] == lost["bg"][1] == 0
    queue = table(result.ports).filter((pl.col("peer") == "host1") & (pl.col("node") != "host1"))
    by_priority = {row["priority"]: row for row in queue.iter_rows(named=True)}
    assert (by_priority[3]["watchdog_storms"], by_priority[0]["paused_us"]) == (1, 0)
    assert by_priority[3]["drops_watchdog"] > 20_000 > by_priority[0]["drops_watchdog"] == 0


@pytest.mark.parametrize(("action", "storms"), [("alert", 1), ("forward", 1)])
def test_other_actions(action, storms, tmp_path):
    result = run(STORM, tmp_path, set={"switch.pfc.watchdog.action": action, "switch.pfc.watchdog.poll": "200 ms"})
    lost = lost_by_workload(result)
    assert result.summary["watchdog_storms"] == storms
    assert lost["t2"][1] == lost["bg"][1] == 0
    delivered = lost["t1"][0] - lost["t1"][1]
    # The watchdog forwards from its poll at 400 ms on: 450 ms of 500 Mb/s. With the action alert, the queue stays
    # paused.
    assert (delivered > 18_000) == (action == "forward")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"pause_storm.0.senders": ["nobody"]}, "no node or port"),
        ({"pause_storm.0.quanta": 0}, "frames_per_second"),
        ({"pause_storm.0.stop": "10 ms"}, "not after start"),
        ({"switch.pfc": False}, "switch.pfc is off"),
        ({"switch.pfc.headroom_pool": True}, "not .shared."),
        ({"switch.pfc.watchdog.poll": "300 ms"}, "longer than detection"),
        ({"switch.pfc.ports": [{"ports": ["x:*"]}]}, "no port is called"),
    ],
)
def test_wrong_storms(change, says):
    with pytest.raises(pf.ScenarioError, match=says):
        pf.Scenario.from_toml(STORM).resolve(set=change)


POOL = """
stop = "2 ms"
seed = 1
[topology]
kind = "star"
hosts = 9
link = { rate = "100 Gbps", delay = "200 ns" }
[host]
mtu = "1500 B"
[switch]
buffer = { policy = "shared", size = "4 MB", alpha = 0.05 }
pfc = { priorities = [3], headroom = "51200 B", reaction = "2 us", headroom_pool = { size = "60 KB" } }
[[workload]]
kind = "udp"
sources = ["host1", "host2", "host3", "host4", "host5", "host6", "host7", "host8"]
destinations = ["host0"]
rate = "100 Gbps"
priority = 3
"""


def test_a_pool_for_one_group_drops_for_eight(tmp_path):
    short = run(POOL, tmp_path)
    assert short.summary["drops_by_reason"]["headroom_pool"] > 0
    assert short.summary["drops_by_reason"]["headroom_exceeded"] == 0
    assert any("suffices for 1 at once" in warning for warning in short.summary["warnings"])
    assert table(short.ports)["drops_headroom_pool"].sum() == short.summary["drops_by_reason"]["headroom_pool"]
    ample = {"switch.pfc.headroom_pool": {"over_subscription": 1.0}}
    enough = pf.run(POOL, out=tmp_path / "enough", set=ample, progress=False)
    assert enough.summary["drops"] == enough.summary["drops_by_reason"]["buffer_full"]  # All drops are at the sources.
    assert not any("headroom_pool" in warning for warning in enough.summary["warnings"])


def test_the_headroom_table_shows_the_pool(tmp_path):
    (tmp_path / "pool.toml").write_text(POOL)
    rows = json.loads(cli("headroom", tmp_path / "pool.toml", "--json").stdout)
    assert [(row["pool_bytes"], row["pool_suffices_for"]) for row in rows] == [(60_000, 1)]
    assert "suffices for" in cli("headroom", tmp_path / "pool.toml").stdout


def shared_headroom(xoff, size=19_456, ratio=None):
    """A switch with 8 ports, each with two lossless groups that need 51,200 B: 819,200 B together."""
    ports = [f"Ethernet{n}" for n in range(8)]
    profile = {"pool": "ingress_lossless_pool", "xon": "19456", "xoff": "51200", "size": str(size), "dynamic_th": "0"}
    pool = {"size": "30000000", "type": "ingress", "mode": "dynamic"} | ({} if xoff is None else {"xoff": str(xoff)})
    tables = {
        "DEVICE_METADATA": {"localhost": {"hostname": "leaf1", "buffer_model": "traditional"}},
        "PORT": {p: {"lanes": str(i), "speed": "100000", "mtu": "9100"} for i, p in enumerate(ports)},
        "CABLE_LENGTH": {"AZURE": dict.fromkeys(ports, "40m")},
        "BUFFER_POOL": {"ingress_lossless_pool": pool},
        "BUFFER_PROFILE": {"pg_lossless_100000_40m_profile": profile},
        "BUFFER_PG": {f"{p}|3-4": {"profile": "pg_lossless_100000_40m_profile"} for p in ports},
    }
    if ratio is not None:
        parameter = {"default_dynamic_th": "0", "over_subscribe_ratio": str(ratio)}
        tables["DEFAULT_LOSSLESS_BUFFER_PARAMETER"] = {"AZURE": parameter}
    return tables


def found(tmp_path, tables):
    folder = tmp_path / "leaf1"
    folder.mkdir(exist_ok=True)
    (folder / "config_db.json").write_text(json.dumps(tables))
    return [f for f in lint([tmp_path]).findings if f.code in {"PF014", "PF019"}]


def test_lint_says_for_how_many_groups_a_pool_suffices(tmp_path):
    [finding] = found(tmp_path, shared_headroom(60_000))
    assert (finding.code, str(finding.severity)) == ("PF019", "warning")
    assert "16 groups that need 819200 B share 60000 B" in finding.message
    assert "13.7 times" in finding.message
    assert "suffices for 1 of them" in finding.message
    # SONiC's default allows an over-subscription of 2; more is accepted only if the device sets it.
    assert found(tmp_path, shared_headroom(409_600)) == []
    assert [f.code for f in found(tmp_path, shared_headroom(409_599))] == ["PF019"]
    assert found(tmp_path, shared_headroom(204_800, ratio=4)) == []


def test_lint_names_a_pool_without_headroom(tmp_path):
    for xoff in (0, None):
        [finding] = found(tmp_path, shared_headroom(xoff))
        assert (finding.code, str(finding.severity)) == ("PF019", "error")
        assert "16 groups without headroom" in finding.message
        # Profiles that reserve their own headroom need no pool.
        assert found(tmp_path, shared_headroom(xoff, size=70_656)) == []
    [finding] = found(tmp_path, shared_headroom(51_199))
    assert (finding.code, str(finding.severity)) == ("PF014", "error")
