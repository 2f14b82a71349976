"""A changed key that another key leaves without an effect has a warning and changes nothing; defaults have none."""

import pauseframe as pf
import pytest
from pauseframe import _core
from pauseframe.run import resolve

INCAST = """
name = "incast"
stop = { time = "20 ms", when_finished = true }
topology = { kind = "star", hosts = 5, link = { rate = "10 Gbps", delay = "1 us" } }
switch = { buffer = "60 KB" }
[[workload]]
kind = "n_to_1"
size = "200 KB"
receiver = "host0"
"""
TYPES = {option["path"]: option["type"] for option in _core.options()}
PRESETS = [name.strip() for name in TYPES["transport.preset"].removeprefix("one of").split(",")]
IDLE = [
    ("cubic", "", "rto_slop", "5 ms"),
    ("cubic", "", "receive_buffer_step", "4 KB"),
    ("cubic", "", "ect_on_syn", True),
    ("cubic", "", "ect_on_ack", True),
    ("bbr", "", "ecn_hides_loss", True),
    ("cubic", "", "pacing_burst", 10),
    ("cubic", "", "pacing_slow_start", 300),
    ("bbr", "", "pacing_avoidance", 300),
    ("cubic", "none", "send_buffer_initial", "4096 B"),
    ("cubic", "none", "send_buffer_max", "800 KB"),
    ("cubic", "none", "quick_acks", 1),
    ("dctcp", "freebsd9", "sack_compression", False),
    ("cubic", "none", "recovery_slack", "50 us"),
    ("roce_cx5", "", "rdma_rnr_timer", 1),
    ("roce_cx5", "", "rdma_rnr_retry", 1),
    ("roce_dcqcn", "", "rdma_repost_delay", "1 ms"),
    ("roce_hpcc", "", "rdma_max_rd_atomic", 1),
    ("roce_hpcc", "", "rdma_ack_every", 31),
    ("roce_swift", "", "rdma_ack_every", 31),
    ("roce_hpcc", "", "ecn", "classic"),
    ("roce_timely", "", "ecn", "classic"),
    ("uec_nscc", "", "rdma_ack_every", 1),
    ("uec_nscc", "", "rdma_ack_as_cnp", True),
    ("uec_nscc", "", "rdma_timer", "ibta"),
    ("uec_nscc", "", "rdma_timeout_low", "10 us"),
    ("uec_nscc", "", "rdma_selective_repeat", True),
    ("uec_nscc", "", "rdma_cnp_dscp", 20),
    ("roce_hpcc", "", "rdma_cnp_dscp", 20),
]


def of(preset, stack, more=None):
    named = {"transport.preset": preset} | ({"transport.stack": stack} if stack else {})
    return pf.run(INCAST, set=named | (more or {}), progress=False).summary


@pytest.mark.parametrize(("preset", "stack", "key", "value"), IDLE)
def test_a_key_that_changes_nothing_is_said(preset, stack, key, value):
    plain, changed = of(preset, stack), of(preset, stack, {f"transport.{key}": value})
    assert changed["fingerprint"] == plain["fingerprint"]
    assert [said for said in plain["warnings"] if "changes nothing" in said] == []
    said = [warning for warning in changed["warnings"] if warning.startswith(f"transport.{key}: ")]
    assert len(said) == 1
    assert said[0].endswith("so it changes nothing")


SWITCHES = [
    ("cubic", {"sack": False}, "dsack", False),
    ("cubic", {"sack": False}, "sack_compression", False),
    ("dctcp", {"handshake": False}, "ect_on_syn", False),
    ("cubic", {"handshake": False, "ecn": "classic"}, "ect_on_syn", True),
    ("cubic", {"fast_retransmit": False}, "limited_transmit", False),
    ("bbr", {}, "prr", False),
    ("bbr", {}, "rto_growth", "segment"),
    ("bbr", {}, "idle_restart", "off"),
    ("bbr", {}, "window_validation", False),
    ("cubic", {"cubic_hystart": False}, "cubic_hystart_milliseconds", True),
    ("cubic", {"cubic_hystart": False}, "cubic_hystart_low_window", 20),
    ("dctcp", {"delayed_ack_segments": 1}, "delayed_ack_timeout", "5 ms"),
]


@pytest.mark.parametrize(("preset", "needs", "key", "value"), SWITCHES)
def test_a_key_that_another_one_leaves_idle_is_said(preset, needs, key, value):
    needs = {f"transport.{name}": one for name, one in needs.items()}
    plain, changed = of(preset, "", needs), of(preset, "", needs | {f"transport.{key}": value})
    assert changed["fingerprint"] == plain["fingerprint"]
    said = [warning for warning in changed["warnings"] if warning.startswith(f"transport.{key}: ")]
    assert len(said) == 1
    assert said[0].endswith("so it changes nothing")
    # A resolved scenario has every key; the value of the stack is not meant.
    resolved = resolve(resolve(INCAST, set={"transport.preset": preset} | needs).toml).warnings
    assert not any(warning.startswith(f"transport.{key}: ") for warning in resolved)
    if needs:
        others = dict(list(needs.items())[1:])
        acts = of(preset, "", others | {f"transport.{key}": value})["warnings"]
        assert not any(warning.startswith(f"transport.{key}: ") for warning in acts)


def test_a_reaction_of_flows_that_wait_for_none_is_said():
    assert any(said.startswith("host.reaction: ") for said in of("cubic", "", {"host.reaction": "1 us"})["warnings"])
    after = """[[workload]]
kind = "requests"
client = "host1"
server = "host2"
count = 2
response = "1 KB"
"""
    both = pf.run(INCAST + after, set={"host.reaction": "1 us"}, progress=False).summary["warnings"]
    assert not any(said.startswith("host.reaction: ") for said in both)


@pytest.mark.parametrize(
    ("preset", "needs", "key", "value"),
    [
        ("cubic", {"transport.rto_form": "freebsd"}, "rto_slop", "5 ms"),
        ("cubic", {"transport.ecn": "classic"}, "ect_on_syn", True),
        ("cubic", {"transport.pacing": True}, "pacing_burst", 10),
        ("roce_cx5", {"transport.rdma_send": True, "transport.rdma_receives": 4}, "rdma_rnr_timer", 1),
        ("cubic", {}, "syn_retries", 2),
        ("roce_dcqcn", {}, "rdma_ack_every", 31),
        ("cubic", {"host.tso": True}, "tso_size", "20 KB"),
    ],
)
def test_where_it_acts_nothing_is_said(preset, needs, key, value):
    table = "host" if key == "tso_size" else "transport"
    summary = of(preset, "", needs | {f"{table}.{key}": value})
    assert [said for said in summary["warnings"] if "changes nothing" in said] == []


@pytest.mark.parametrize(("key", "value"), [("tso_size", "20 KB"), ("gro_timeout", "50 us")])
def test_sizes_and_times_of_offloads_that_are_off_are_said(key, value):
    said = of("cubic", "", {f"host.{key}": value})["warnings"]
    assert any(warning.startswith(f"host.{key}: ") for warning in said)


def of_markers(summary):
    return [said for said in summary["warnings"] if said.startswith("switch.marker: ")]


@pytest.mark.parametrize("preset", ["cubic", "tcp_dcb", "roce_timely"])
@pytest.mark.parametrize("marker", [{"kind": "red"}, {"k": "50 KB"}, {"at": "dequeue"}])
def test_a_marker_that_nothing_heeds_is_said(preset, marker):
    plain, changed = of(preset, ""), of(preset, "", {f"switch.marker.{key}": value for key, value in marker.items()})
    assert of_markers(plain) == []
    assert of_markers(changed) == ["switch.marker: nothing that passes it is ECN-capable: it marks nothing"]
    assert changed["ecn_marks"] == 0


@pytest.mark.parametrize(
    ("preset", "more"),
    [
        ("dctcp", {"switch.marker.kind": "red"}),
        ("roce_dcqcn", {"switch.marker.k": "50 KB"}),
        ("cubic", {"switch.marker.kind": "red", "switch.marker.not_ect": "drop", "switch.marker.at": "enqueue"}),
        ("cubic", {"switch.marker.kind": "none"}),
        ("cubic", {"topology.link.rate": "100 Gbps"}),
    ],
)
def test_a_marker_that_acts_or_is_the_default_is_not_said(preset, more):
    assert of_markers(of(preset, "", more)) == []
    text = resolve(INCAST, set={"transport.preset": preset} | more).toml
    assert not any(warning.startswith("switch.marker: ") for warning in resolve(text).warnings)


@pytest.mark.parametrize(("preset", "warns"), [("roce_dcqcn", True), ("cubic", False)])
@pytest.mark.parametrize("queue", ["per_flow", "fifo"])
def test_the_share_of_sockets_in_a_nic_is_not_for_queue_pairs(preset, warns, queue):
    summary = of(preset, "", {"host.nic_queue": queue, "host.nic_buffer": "64 KB"})
    assert any(warning.startswith("host.nic_buffer: ") for warning in summary["warnings"]) is warns
    plain = of(preset, "", {"host.nic_queue": queue})
    assert not any(warning.startswith("host.nic_buffer: ") for warning in plain["warnings"])
    assert not warns or plain["fingerprint"] == summary["fingerprint"]


REQUESTS = """
name = "requests"
stop = { when_finished = true }
topology = { kind = "star", hosts = 4, link = { rate = "10 Gbps", delay = "1 us" } }
[[workload]]
name = "ask"
kind = "requests"
client = "host0"
response = "20 KB"
"""
ONE, TWO = 'server = "host1"\n', 'servers = ["host1", "host2"]\n'


@pytest.mark.parametrize(
    ("servers", "more", "key"),
    [
        (TWO, 'reply_law = "exponential"', "reply_law"),
        (TWO, 'reply_law = "staggered"', "reply_law"),
        (ONE, 'reply_delay = "5 us"\nreply_law = "staggered"', "reply_delay"),
        (ONE, 'spacing = "5 us"', "spacing"),
        ('servers = ["host1"]\n', 'spacing = "5 us"', "spacing"),
        (TWO, 'pause = "5 us"\ncount = 1', "pause"),
        (ONE, "persistent = false\ncount = 1", "persistent"),
    ],
)
def test_keys_of_replies_that_change_nothing_are_said(servers, more, key):
    more += "" if "count" in more else "\ncount = 3"
    without = "\n".join(line for line in more.splitlines() if not line.startswith(key))
    plain, changed = (pf.run(REQUESTS + servers + text, progress=False).summary for text in (without, more))
    assert changed["fingerprint"] == plain["fingerprint"]
    said = [warning for warning in changed["warnings"] if "changes nothing" in warning]
    assert len(said) == 1
    assert said[0].startswith(f"workload.0.{key}: ")
    assert resolve(resolve(REQUESTS + servers + more).toml).warnings == resolve(REQUESTS + servers + more).warnings


@pytest.mark.parametrize(
    "more", ['reply_law = "staggered"\nreply_delay = "5 us"', 'spacing = "5 us"', 'pause = "5 us"', ""]
)
def test_keys_of_replies_that_act_are_not_said(more):
    summary = pf.run(f"{REQUESTS}{TWO}{more}\ncount = 3", progress=False).summary
    assert [said for said in summary["warnings"] if "changes nothing" in said] == []


@pytest.mark.parametrize(("preset", "said"), [("roce_dcqcn", True), ("roce_cx5", False), ("dctcp", False)])
def test_a_limit_of_lossy_queues_beside_lossless_data_is_said(preset, said):
    warnings = of(preset, "", {"switch.queue_packets": 500})["warnings"]
    assert any(warning.startswith("switch.queue_packets: ") for warning in warnings) == said


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("stack", ["", "none", "freebsd9", "ns3"])
def test_defaults_are_never_said(preset, stack):
    """Neither as they are, nor in the resolved scenario, which has every key."""
    if preset == "udp" or (stack and preset.startswith(("roce", "uec"))):
        return
    settings = {"transport.preset": preset} | ({"transport.stack": stack} if stack else {})
    scenario = resolve(INCAST, set=settings)
    for one in (scenario, resolve(scenario.toml)):
        assert [said for said in one.warnings if "changes nothing" in said] == []


@pytest.mark.parametrize(
    ("globs", "said"), [(["nosuch"], True), (["nosuch", "in*"], False), (["*"], False), ([], False)]
)
def test_series_of_unknown_workloads_get_a_warning(globs, said):
    summary = pf.run(INCAST, set={"record.series": {"flows": globs}, "workload.name": "incast"}, progress=False).summary
    assert (
        any(one.startswith("record.series.flows: no workload is called nosuch") for one in summary["warnings"]) == said
    )


def idle(summary):
    """The keys of warnings that say so."""
    return [warning.split(": ")[0] for warning in summary["warnings"] if "changes nothing" in warning]


@pytest.mark.parametrize(
    ("preset", "needs", "key", "value"),
    [
        ("newreno", {"transport.handshake": False}, "transport.syn_retries", 2),
        ("roce_cx5", {"transport.rdma_send": True}, "transport.rdma_rnr_timer", 1),
        ("roce_cx5", {"transport.rdma_send": True}, "transport.rdma_rnr_retry", 1),
        ("roce_cx5", {"transport.rdma_send": True}, "transport.rdma_repost_delay", "1 ms"),
        ("cubic", {}, "record.deadlock_after", "2 ms"),
        ("cubic", {}, "stop.on_deadlock", True),
        ("cubic", {}, "routing.hash", "crc32"),
        ("cubic", {}, "routing.index", "threshold"),
        ("cubic", {}, "switch.classes.spare", {"priorities": [5], "marker": {"kind": "step", "k": "9 KB"}}),
    ],
)
def test_a_key_without_its_partner_is_said(preset, needs, key, value):
    plain, changed = of(preset, "", needs), of(preset, "", needs | {key: value})
    assert changed["fingerprint"] == plain["fingerprint"]
    assert (idle(plain), idle(changed)) == ([], [key])
    text = resolve(INCAST, set={"transport.preset": preset} | needs | {key: value}).toml
    assert sum("changes nothing" in warning for warning in resolve(text).warnings) == 1


@pytest.mark.parametrize(
    ("preset", "more"),
    [
        ("roce_dcqcn", {"record.deadlock_after": "2 ms", "stop.on_deadlock": True}),
        ("cubic", {"topology": {"kind": "leaf_spine", "leaves": 3, "spines": 2, "hosts_per_leaf": 2,
                                "link": {"rate": "10 Gbps", "delay": "1 us"}}, "routing.hash": "crc32"}),
        ("roce_dcqcn", {"switch.classes.cnp": {"priorities": [6], "queue": "fifo"}}),
    ],
)  # fmt: skip
def test_a_key_beside_its_partner_is_not_said(preset, more):
    assert idle(of(preset, "", more)) == []


def test_a_map_of_the_dscp_of_cnps_does_not_move_them():
    key = "switch.priority_of_dscp"
    plain, same, other = (of("roce_dcqcn", "", more) for more in ({}, {key: [[48, 6]]}, {key: [[48, 2]]}))
    assert plain["fingerprint"] == same["fingerprint"] == other["fingerprint"]
    assert (plain["warnings"], same["warnings"]) == ([], [])
    assert other["warnings"] == [
        f"{key}: DSCP 48 has priority 2, and CNPs with this DSCP keep priority 6: set transport.rdma_cnp_priority"
    ]


READS = """
name = "reads"
topology = { kind = "star", hosts = 4, link = { rate = "10 Gbps", delay = "1 us" } }
transport = { preset = "roce_dcqcn" }
[[workload]]
kind = "storage"
targets = ["host1", "host2", "host3"]
initiators = ["host0"]
sizes = "60 KB"
count = 20
queue_depth = 8
read_share = 1.0
"""


@pytest.mark.parametrize(
    ("key", "value"), [("rdma_send", True), ("rdma_window", "fixed"), ("rdma_ack_as_cnp", True), ("rdma_ack_every", 4)]
)
def test_keys_of_messages_beside_reads_alone_are_said(key, value):
    plain = pf.run(READS, progress=False).summary
    changed, mixed = (
        pf.run(READS, set={f"transport.{key}": value} | more, progress=False).summary
        for more in ({}, {"workload.0.read_share": 0.5})
    )
    assert changed["fingerprint"] == plain["fingerprint"]
    assert (idle(plain), idle(changed), idle(mixed)) == ([], [f"transport.{key}"], [])


def application(pattern, library="mpi", **more):
    keys = {
        "kind": "application",
        "pattern": pattern,
        "ranks": 4,
        "size": "100 KB",
        "collectives": {"library": library},
    }
    for key, value in more.items():
        if key.startswith("nccl_"):
            keys["collectives"][key.removeprefix("nccl_")] = value
        else:
            keys[key] = value
    return pf.run(INCAST, set={"workload": keys, "transport.preset": "roce_dcqcn"}, progress=False).summary


HOSTS = ["host0", "host1", "host2", "host3"]


@pytest.mark.parametrize(
    ("pattern", "library", "key", "value"),
    [
        ("all_reduce", "mpi", "grid", [2, 2]),
        ("all_reduce", "mpi", "compute_scale", 2.0),
        ("all_reduce", "mpi", "algorithms", ["bcast = binomial"]),
        ("pipeline", "mpi", "algorithm", "ring"),
        ("k_means", "mpi", "algorithm", "ring"),
        ("all_reduce", "nccl", "eager_limit", "1 KB"),
        ("all_reduce", "nccl", "envelope", "64 B"),
        ("all_to_all", "nccl", "nccl_algorithm", "tree"),
        ("all_to_all", "nccl", "nccl_channels", 2),
        ("pipeline", "nccl", "nccl_slice", "3 KB"),
        ("pipeline", "nccl", "nccl_in_flight", 2),
        ("all_reduce", "nccl", "nccl_pxn", False),
    ],
)
def test_keys_of_operations_that_no_rank_calls_are_said(pattern, library, key, value):
    plain, changed = application(pattern, library), application(pattern, library, **{key: value})
    assert changed["fingerprint"] == plain["fingerprint"]
    library = {"workload.0.collectives.library"} if (pattern, library) == ("pipeline", "nccl") else set()
    assert (set(idle(plain)), set(idle(changed)) - library) == (
        library,
        {f"workload.0.{key.replace('nccl_', 'collectives.')}"},
    )


@pytest.mark.parametrize(
    ("pattern", "library", "more"),
    [
        ("stencil", "mpi", {"grid": [2, 2], "compute": "1 us", "compute_scale": 2.0}),
        ("all_reduce", "mpi", {"algorithm": "ring", "algorithms": ["allreduce = ring"]}),
        ("all_reduce", "nccl", {"nccl_algorithm": "tree", "nccl_channels": 2, "nccl_slice": "3 KB"}),
    ],
)
def test_keys_of_operations_that_ranks_call_are_not_said(pattern, library, more):
    assert idle(application(pattern, library, **more)) == []


def test_messages_keep_their_keys_where_no_rank_calls_the_library():
    found = idle(application("pipeline", "nccl", eager_limit="1 KB", envelope="64 B"))
    assert found == ["workload.0.collectives.library"]


def test_ranks_of_listed_hosts_have_their_places():
    plain, changed = application("all_reduce", hosts=HOSTS), application("all_reduce", hosts=HOSTS, ranks_per_host=2)
    assert changed["fingerprint"] == plain["fingerprint"]
    assert (idle(plain), idle(changed)) == ([], ["workload.0.ranks_per_host"])


@pytest.mark.parametrize("algorithm", ["rabenseifner", "tree"])
def test_an_algorithm_of_mpi_is_refused_with_nccl(algorithm):
    with pytest.raises(pf.ScenarioError, match=r"algorithm = .* is MPI's.*NCCL.*set collectives\.algorithm"):
        application("all_reduce", "nccl", algorithm=algorithm)


TRAINING = {"kind": "training", "gpus": 4, "layers": 2, "hidden": 64, "sequence": 64, "forward": "10 us"}


@pytest.mark.parametrize(("key", "value"), [("expert_skew", 1.0), ("sequence_parallel", False)])
def test_keys_of_groups_of_one_gpu_are_said_once(key, value):
    plain, changed = (
        pf.run(INCAST, set={"workload": TRAINING | more}, progress=False).summary for more in ({}, {key: value})
    )
    assert changed["fingerprint"] == plain["fingerprint"]
    assert (idle(plain), idle(changed)) == ([], [f"workload.0.{key}"])


def test_bytes_of_a_token_without_tokens_are_said():
    requests = {"kind": "poisson", "per_second": 4000, "sizes": "60 KB", "stop": "2 ms"}
    keys = {"kind": "kv_transfer", "requests": requests, "prefill": ["host0"]}
    plain, changed, timed = (
        pf.run(INCAST, set={"workload": keys | more}, progress=False).summary
        for more in ({}, {"bytes_per_token": "2 KB"}, {"bytes_per_token": "2 KB", "prefill_rate": 1e6})
    )
    assert changed["fingerprint"] == plain["fingerprint"]
    assert (idle(plain), idle(changed), idle(timed)) == ([], ["workload.0.bytes_per_token"], [])


def test_a_burst_after_the_end_is_said():
    keys = {"kind": "hotspot", "stop": "1 ms", "burst": "200 us"}
    late, early = (
        pf.run(INCAST, set={"workload": keys | {"burst_start": start}}, progress=False).summary["warnings"]
        for start in ("1 ms", "500 us")
    )
    assert late == ["workload.0.burst_start: 1 ms is not before stop (1 ms): no burst is sent"]
    assert early == []


ARS = {
    "topology": {
        "kind": "leaf_spine",
        "leaves": 2,
        "spines": 2,
        "hosts_per_leaf": 2,
        "link": {"rate": "10 Gbps", "delay": "1 us"},
    },
    "routing.kind": "ars",
}


@pytest.mark.parametrize(
    ("mode", "key", "value", "is_said"),
    [
        ("packet_quality", "flow_states", 7, True),
        ("packet_random", "idle_time", "3 us", True),
        ("flowlet_random", "low_load", 30, True),
        ("packet_random", "high_load", 70, True),
        ("flowlet_random", "sampling_interval", "3 us", True),
        ("flowlet_quality", "flow_states", 7, False),
        ("flowlet_random", "idle_time", "3 us", False),
        ("packet_quality", "low_load", 30, False),
    ],
)
def test_keys_of_ars_that_a_mode_does_not_use_are_said(mode, key, value, is_said):
    changed = resolve(INCAST, set=ARS | {"routing.mode": mode, f"routing.{key}": value}).warnings
    assert any(said.startswith(f"routing.{key}: it changes nothing") for said in changed) is is_said


@pytest.mark.parametrize(("preset", "is_said"), [("cubic", True), ("dctcp", False)])
@pytest.mark.parametrize(("queue", "key", "value"), [("codel", "ecn", True), ("fq_codel", "ce_threshold", "1 ms")])
def test_marks_of_codel_without_ecn_are_said(preset, is_said, queue, key, value):
    changes = {"transport.preset": preset, "switch.queue": queue, f"switch.codel.{key}": value}
    warnings = resolve(INCAST, set=changes | {"switch.marker": "none"}).warnings
    assert any(said.startswith(f"switch.codel.{key}: ") for said in warnings) is is_said


@pytest.mark.parametrize("whole_link", [True, False])
def test_priorities_of_a_storm_that_stops_whole_links_are_said(whole_link):
    storm = {"senders": ["host1"], "priorities": [3], "start": "1 us", "stop": "20 us"}
    changes = {"transport.preset": "tcp_bolt", "switch.pfc.whole_link": whole_link, "pause_storm": [storm]}
    warnings = resolve(INCAST, set=changes).warnings
    assert any(said.startswith("pause_storm.0.priorities: ") for said in warnings) is whole_link


@pytest.mark.parametrize(("delay", "is_said"), [("1 us", False), ("100 us", True)])
def test_a_timer_of_nscc_below_the_round_trip_is_said(delay, is_said):
    summary = of("uec_nscc", "", {"topology.link.delay": delay})
    assert any("twice the idle round trip" in said for said in summary["warnings"]) is is_said
