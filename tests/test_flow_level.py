"""The flow level keeps starts, spreads replies over ports, and names what it leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pauseframe as pf
import pytest
from test_fabrics import cli

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl

STAR = '[topology]\nkind = "star"\nhosts = 5\n'
TWO_PORTS = f"{STAR}ports_per_host = 2\n"
BULK = '[[workload]]\nkind = "permutation"\nsize = "1 MB"\n'


def warnings(text: str, **options: Any) -> list[str]:
    return pf.run_flows(f'name = "x"\n{text}', progress=False, **options).summary["warnings"]


def rows(text: str, **options: Any) -> pl.DataFrame:
    return pf.run_flows(f'name = "x"\n{text}', progress=False, **options).flows.to_polars()


def test_a_connection_that_is_opened_ahead_sends_at_its_start() -> None:
    """A request of 100 B and a response of 20 KB at 10 Gb/s take 16.08 us; before, flows ended before they began."""
    ahead = '[[workload]]\nkind = "requests"\nclient = "host0"\nservers = ["host1"]\ncount = 2\nstart = "1 ms"\n'
    plain = rows(STAR + ahead)
    early = rows(f'{STAR}{ahead}connect_ahead = "100 us"\n')
    assert early["start_us"].to_list() == plain["start_us"].to_list()
    assert early["fct_us"].to_list() == pytest.approx([16.08, 16.08])
    assert "connect_ahead" in warnings(f'{STAR}{ahead}connect_ahead = "100 us"\n')[0]


@pytest.mark.parametrize(
    "workload",
    [
        '[[workload]]\nkind = "storage"\ntargets = ["host0"]\nsizes = "100 KB"\ncount = 1\n',
        "".join(
            f'[[workload]]\nname = "w{i}"\nkind = "requests"\nclient = "host{i}"\nserver = "host0"\ncount = 1\n'
            'response = "100 KB"\n'
            for i in range(1, 5)
        ),
    ],
)
def test_replies_take_the_least_loaded_port(workload: str) -> None:
    """Four simultaneous replies of a host with two ports: two on each, as with packets, whatever the seed."""
    text = f'clocks = "ideal"\n{TWO_PORTS}[host]\nport_choice = "least_loaded"\n{workload}'
    for seed in range(6):
        links = pf.run_flows(f'name = "x"\n{text}', progress=False, seed=seed).links.to_polars()
        flows = {row["port"]: row["flows"] for row in links.iter_rows(named=True) if row["node"] == "host0"}
        assert sorted(flows.values()) == [2, 2], seed


REFUSED = {
    "topology.scale_up": f"{STAR.replace('hosts = 5', 'hosts = 4')}"
    'scale_up = { gpus_per_server = 2, rate = "400 Gbps" }\n',
    'host.port_choice = "balance-rr"': f'host = {{ port_choice = "balance-rr" }}\n{TWO_PORTS}',
    "failure": f'failure = [{{ node = "switch", down = "1 us" }}]\n{STAR}',
}


@pytest.mark.parametrize("demand", [None, "permutation"])
@pytest.mark.parametrize("key", REFUSED)
def test_a_demand_is_refused_with_the_same_keys_as_workloads(key: str, demand: str | None) -> None:
    with pytest.raises(pf.InputError, match="cannot be followed at flow level") as error:
        pf.run_flows(f'name = "x"\n{REFUSED[key]}{BULK}', demand=demand, progress=False)
    assert key in str(error.value)


def test_ends_far_from_zero_are_not_merged() -> None:
    """1 KB and 2 KB share 100 Gb/s from 100 h on: they end after 160 and 240 ns, to the resolution of the clock."""
    flows = '{ src = "host0", dst = "host1", size = "1 KB", start = "100 h" }, '
    flows += '{ src = "host2", dst = "host1", size = "2 KB", start = "100 h" }'
    found = rows(f'{STAR}link = {{ rate = "100 Gbps" }}\n[[workload]]\nkind = "flows"\nflows = [{flows}]\n')
    assert found["fct_us"].to_list() == pytest.approx([0.16, 0.24], abs=2e-4)


UDP = """
stop = "5 ms"
topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "50 us" } }
host = { slow_receivers = [{ host = "host1", rate = "5 Gbps", buffer = "1 KB" }] }
transports.x = { kind = "udp", priority = 4 }
[[workload]]
kind = "udp"
rate = "3 Gbps"
sources = ["host0"]
destinations = ["host1"]
transport = "x"
"""


def test_the_warning_of_idle_keys_names_delays_and_buffers_and_no_priority() -> None:
    """A priority above 0 adds a VLAN tag to datagrams, and so changes their bytes."""
    (found,) = warnings(UDP)
    assert "topology.link.delay" in found
    assert "host.slow_receivers[].buffer" in found
    assert "priority" not in found
    with_tag, without = (rows(UDP.replace("priority = 4", f"priority = {n}"))["delivered_bytes"][0] for n in (4, 0))
    assert with_tag < without
    (of_ecn,) = warnings(f'stop = "5 ms"\n{STAR}[[workload]]\nkind = "udp"\nrate = "3 Gbps"\necn = true\n')
    assert "workload.0.ecn" in of_ecn


LINE = """
stop = "20 ms"
[topology]
kind = "custom"
hosts = ["a", "b", "c", "d", "e"]
switches = ["s1", "s2"]
links = [["a", "s1"], ["b", "s1"], ["s1", "s2"], ["c", "s2"], ["d", "s2"], ["e", "s2"]]
[[workload]]
kind = "udp"
name = "u"
sources = SOURCES
destinations = ["c"]
rate = "8 Gbps"
"""
TCP = '[[workload]]\nkind = "long_flows"\nflows = [{ src = "a", dst = "e" }]\n'


def test_datagrams_that_are_lost_beyond_a_shared_link_are_a_warning() -> None:
    two, one = LINE.replace("SOURCES", '["b", "d"]'), LINE.replace("SOURCES", '["b"]')
    assert [text.startswith("workload u: datagrams are lost") for text in warnings(two + TCP)] == [True]
    assert warnings(one + TCP) == []
    assert warnings(two) == []


def test_tables_replace_the_routing_by_name(tmp_path: Path) -> None:
    (tmp_path / "f.toml").write_text(
        f'name = "f"\n[topology]\nkind = "leaf_spine"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n{BULK}'
    )
    assert cli("route", "plan", "f.toml", "--vlans", "2", "-o", "plan", cwd=tmp_path).returncode == 0
    run = ["flow", "f.toml", "--tables", "plan", "--quiet", "--out", "o", "--force"]
    for key in ("routing.kind=spray", "routing.hash=crc32"):
        done = cli(*run, "--set", key, cwd=tmp_path)
        assert "the given forwarding tables replace these keys: " + key.split("=")[0] in done.stderr
    assert "replace" not in cli(*run, cwd=tmp_path).stderr
    for options in (("--gap", "0.01"), ("--demand", "permutation", "--gap", "0.01")):
        done = cli("flow", "f.toml", *options, cwd=tmp_path)
        assert done.returncode == 2
        assert "add --bound" in done.stderr


def test_a_bound_says_that_it_keeps_the_ports_of_hosts() -> None:
    told = "bound: each flow keeps the ports"
    for fabric, count in ((TWO_PORTS, 1), (STAR, 0)):
        found = warnings(f"{fabric}{BULK}", demand="permutation", bound=0.05)
        assert sum(text.startswith(told) for text in found) == count


DAG = """
clocks = "ideal"
topology = { kind = "star", hosts = 4 }
[[workload]]
name = "dag"
kind = "flows"
flows = [
  { src = "host0", dst = "host1", size = "1 KB", id = "a" },
  { src = "host1", dst = "host2", size = "1 KB", id = "b", after = ["a"] },
  { src = "host2", dst = "host3", size = "1 KB", id = "c", after = ["b"], compute = "1 s" },
]
"""
STORAGE = f'{STAR}[[workload]]\nname = "s"\nkind = "storage"\ntargets = ["host0"]\nsizes = "100 KB"\ncount = COUNT\n'
REQUESTS = f'{STAR}[[workload]]\nname = "r"\nkind = "requests"\nclient = "host1"\nserver = "host0"\n'
CUT = [
    ('stop = "50 us"\n' + DAG, "workload dag: 1 of 3 flows did not start: the run ended first"),
    ('stop = "1 ms"\n' + STORAGE.replace("COUNT", "100"), "of 400 flows did not start: the run ended first"),
    (f'stop = "1 ms"\n{REQUESTS}count = 500\n', "of 500 flows did not start: the run ended first"),
    (
        f'stop = "1 ms"\n{STAR}[[workload]]\nkind = "n_to_1"\nsize = "1 KB"\nspread = "3 ms"\n',
        "of 4 flows did not start: the run ended first",
    ),
]


@pytest.mark.parametrize(("text", "told"), CUT)
@pytest.mark.parametrize("run", [pf.run, pf.run_flows])
def test_flows_that_did_not_start_are_counted(run: Callable[..., Any], text: str, told: str) -> None:
    found = run(f'name = "x"\n{text}', progress=False, seed=3).summary["warnings"]
    assert any(told in text for text in found), found


@pytest.mark.parametrize("run", [pf.run, pf.run_flows])
def test_whole_workloads_have_no_such_warning(run: Callable[..., Any]) -> None:
    """Neither have requests without a count, which the end of the run limits."""
    for text in (DAG, STORAGE.replace("COUNT", "2"), f'stop = "1 ms"\n{REQUESTS}'):
        found = run(f'name = "x"\n{text}', progress=False).summary["warnings"]
        assert not any("did not start" in text for text in found), found


def test_flows_after_one_that_failed_are_counted() -> None:
    refusing = DAG.replace("topology = {", 'host = { refusing = ["host2"] }\ntopology = {')
    found = pf.run(f'name = "x"\n{refusing}', progress=False).summary["warnings"]
    assert "workload dag: 1 of 3 flows did not start: flows before them failed" in found


POLARIZED = """
stop = "2 ms"
topology = { kind = "xgft", m = [2, 4, 4], w = [1, 4, 4] }
routing = { hash = "crc32", hash_seeds = "tier", hash_offsets = [] }
transport.preset = "roce_dcqcn"
workload = { kind = "background", sizes = "50 KB", arrivals = { kind = "load", load = 0.4 }, stop = "2 ms" }
"""


def polarized(run: pf.Run | pf.FlowRun) -> list[str]:
    return [text for text in run.summary["warnings"] if "polarized" in text]


def test_polarization_is_warned_of_as_with_packets() -> None:
    """The same flows take the same links, so both count the same ones."""
    told = polarized(pf.run_flows(POLARIZED, progress=False))
    assert told
    assert told == polarized(pf.run(POLARIZED, progress=False))
    rotated = POLARIZED.replace("hash_offsets = []", "hash_offsets = [0, 10]")
    assert polarized(pf.run_flows(rotated, progress=False)) == []


def test_polarization_of_a_static_demand() -> None:
    assert polarized(pf.run_flows(POLARIZED, demand="all_to_all", progress=False))
    rotated = POLARIZED.replace("hash_offsets = []", "hash_offsets = [0, 10]")
    assert polarized(pf.run_flows(rotated, demand="all_to_all", progress=False)) == []
