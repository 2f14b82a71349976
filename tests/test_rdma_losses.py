"""Queue pairs that lose packets, what acknowledgements cost, and hosts that do not answer."""

import pauseframe as pf
import polars as pl
import pytest
from pauseframe import ScenarioError
from pauseframe.sweep.plan import Source

TWO_TO_ONE = """
stop = { time = "1 s", when_finished = true }
topology = { kind = "star", hosts = 3, link = { rate = "100 Gbps", delay = "1 us" } }
switch = { buffer = { policy = "per_port", size = "100 KB" }, marker = "none" }
transport = { preset = "roce_dcqcn", lossless = false, rdma_control = "none" }
[[workload]]
kind = "flows"
flows = [ { src = "host1", dst = "host0", size = "1 MB" }, { src = "host2", dst = "host0", size = "1 MB" } ]
"""
LONG = """
stop = { time = "1 ms", when_finished = false }
topology = { kind = "star", hosts = 2, link = { rate = "100 Gbps", delay = "1 us" } }
transport = { preset = "roce_dcqcn", rdma_control = "none" }
[[workload]]
kind = "long_flows"
flows = [ { src = "host0", dst = "host1" } ]
"""


def run(text: str, **changes: str | float | bool) -> pf.Run:
    return pf.run(Source.read(text).resolve_with(changes, seed=1), progress=False)


def flows_of(done: pf.Run) -> pl.DataFrame:
    return pl.DataFrame(done.flows)


def goodput(done: pf.Run, seconds: float) -> list[float]:
    return [delivered * 8e-9 / seconds for delivered in flows_of(done)["delivered_bytes"]]


@pytest.mark.parametrize("buffer", ["30 KB", "100 KB", "1 MB"])
@pytest.mark.parametrize("rate", ["10 Gbps", "400 Gbps"])
def test_no_queue_pair_waits_for_the_timer_of_67_ms(buffer: str, rate: str) -> None:
    changes = {"switch.buffer.size": buffer, "topology.link.rate": rate, "transport.rdma_control": "dcqcn_paper"}
    done = run(TWO_TO_ONE, **changes)
    assert done.summary["drops"] > 0
    assert float(flows_of(done)["finish_us"].to_numpy().max()) < 20_000


def test_causes_of_retransmissions_add_up() -> None:
    for selective in (False, True):
        flows = flows_of(run(TWO_TO_ONE, **{"transport.rdma_selective_repeat": selective}))
        causes = sum(flows["repeats_by_nak"].to_list()) + sum(flows["repeats_by_timeout"].to_list())
        assert int(flows["retransmits"].sum()) == causes > 0
        assert int(flows["repeats_by_nak"].sum()) > 0


def test_a_run_warns_of_queue_pairs_that_wait_for_timers_or_send_most_packets_again() -> None:
    def warned(**changes: str) -> bool:
        found = run(TWO_TO_ONE, **changes).summary["warnings"]
        return any(text.startswith(("transport.rdma_timer", "transport.rdma_control")) for text in found)

    never = {"transport.rdma_timer": "ibta", "transport.rdma_nak_interval": "1 h"}
    assert warned(**never)
    assert not warned(**{"switch.buffer.size": "10 MB"})


def test_warnings_name_a_cause_that_the_run_has() -> None:
    """Packets to a silent host fill no queue, and the advice is never the control that is in use."""

    def said(**changes: str | bool | list[str]) -> list[str]:
        found = run(TWO_TO_ONE, **changes).summary["warnings"]  # type: ignore[arg-type]
        return [text for text in found if text.startswith("transport.rdma_control")]

    assert "use one of DCQCN" in " ".join(said())
    assert said(**{"host.silent": ["host0"]}) == []
    reacting: dict[str, str | bool | list[str]] = {
        "transport.rdma_control": "dcqcn_connectx",
        "transport.rdma_slow_restart": False,
    }
    with_reaction = " ".join(said(**reacting))
    assert "packets again" in with_reaction
    assert "DCQCN" not in with_reaction


def test_acknowledgements_leave_the_link_to_data() -> None:
    both = LONG + '[[workload]]\nname = "back"\nkind = "long_flows"\nflows = [ { src = "host1", dst = "host0" } ]\n'
    assert min(goodput(run(both), 1e-3)) > 91.0
    assert max(goodput(run(both, **{"transport.rdma_ack_every": 1}), 1e-3)) < 86.0


def test_a_path_mtu_of_1024_costs_what_its_headers_say() -> None:
    def of(mtu: str) -> float:
        return goodput(run(LONG, **{"transport.rdma_mtu": mtu, "host.mtu": "9000 B"}), 1e-3)[0]

    assert of("auto") == of("4096 B")
    # 82 bytes of headers, preamble and gap.
    assert of("1024 B") / of("4096 B") == pytest.approx((1024 / 1106) / (4096 / 4178), rel=3e-3)
    with pytest.raises(ScenarioError, match="not a path MTU"):
        of("1500 B")


def test_a_silent_host_fails_a_queue_pair_after_its_retries() -> None:
    changes = {"host.silent": ["host0"], "transport.rdma_timeout": "3 ms", "transport.rdma_retry_count": 2}
    flows = flows_of(run(TWO_TO_ONE, **changes))  # type: ignore[arg-type]
    assert flows["failure"].cast(pl.String).to_list() == ["retries_exhausted"] * 2
    # 2 and 3 ms, 3 ms more, and the rest of three times 3 ms.
    assert flows["timeouts"].to_list() == [4, 4]


def test_a_receiving_card_slows_senders_when_its_input_is_full() -> None:
    changes: dict[str, str | float] = {"transport.rdma_control": "dcqcn_paper", "transport.rdma_cnp_on_ingress": 0.9}
    plain = run(LONG, **{"transport.rdma_control": "dcqcn_paper"})
    slowed = run(LONG, **changes)
    assert int(flows_of(plain)["cnps_sent"].sum()) == 0 < int(flows_of(slowed)["cnps_sent"].sum())
    assert goodput(slowed, 1e-3)[0] < 0.9 * goodput(plain, 1e-3)[0]


@pytest.mark.parametrize(
    ("key", "value"),
    [("rdma_receives", 3), ("rdma_cnp_on_ingress", 0.5)],
)
def test_keys_without_an_effect_are_refused(key: str, value: float) -> None:
    with pytest.raises(ScenarioError, match=f"{key}.*no effect"):
        run(LONG, **{f"transport.{key}": value})


LOADED = """
stop = "1 ms"
topology = { kind = "star", hosts = 4, link = { rate = "100 Gbps", delay = "1 us" } }
[transports.a]
preset = "roce_dcqcn"
rdma_control = "dcqcn_paper"
dcqcn_minimum_rate = "100 Gbps"
rdma_cnp_on_ingress = 0.6
rdma_cnp_interval = "1 us"
rdma_tx_window = "24 KB"
[transports.b]
preset = "udp"
[[workload]]
kind = "flows"
transport = "a"
flows = [{ src = "host1", dst = "host0", size = "20 MB" }]
[[workload]]
kind = "udp"
transport = "b"
sources = ["host2"]
destinations = ["host0"]
rate = "40 Gbps"
stop = "1 ms"
"""


def test_a_receiving_card_counts_all_that_comes_in() -> None:
    """Half of the link is a queue pair's, 40 % are datagrams of another transport."""

    def cnps(**changes: str | float) -> int:
        return int(flows_of(run(LOADED, **changes))["cnps_sent"].sum())

    assert cnps() > 0
    assert cnps(**{"transports.a.rdma_cnp_on_ingress": 0.95}) == 0
    assert cnps(**{"workload.1.rate": "1 Gbps"}) == 0


@pytest.mark.parametrize(("choice", "limit"), [("802.3ad", 0.9), ("queue_affinity", 0.6)])
def test_a_receiving_card_looks_at_the_port_by_which_a_packet_came(choice: str, limit: float) -> None:
    """Three queue pairs of half a link each: those that share an input get CNPs, the one alone gets none."""
    flows = ", ".join(f'{{ src = "host{n}", dst = "host0", size = "3 MB" }}' for n in (1, 2, 3))
    text = (
        LOADED.split("[transports.b]", maxsplit=1)[0]
        + f'[[workload]]\nkind = "flows"\ntransport = "a"\nflows = [{flows}]\n'
    )
    changes: dict[str, str | float | bool] = {
        "topology.ports_per_host": 2,
        "host.port_choice": choice,
        "transports.a.rdma_cnp_on_ingress": limit,
        "record.paths": True,
    }
    done = run(text, **changes)
    to_host = pl.DataFrame(done.paths).filter(pl.col("direction").cast(pl.String) == "forward").select("flow", "port")
    of_port = flows_of(done).join(to_host, on="flow").group_by("port").agg(pl.col("cnps_sent").alias("cnps"))
    assert sorted(len(cnps) for cnps in of_port["cnps"].to_list()) == [1, 2]
    for cnps in of_port["cnps"].to_list():
        assert all((count > 0) == (len(cnps) > 1) for count in cnps)
