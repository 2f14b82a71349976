"""Programs of ranks written in Python, and their results in the packet network."""

from __future__ import annotations

import pauseframe as pf
import polars as pl
import pytest


def ring(rank: pf.Program, rounds: int) -> None:
    for _ in range(rounds):
        rank.compute("10 us")
        request = rank.isend((rank.rank + 1) % rank.ranks, 20_000)
        rank.recv((rank.rank - 1) % rank.ranks)
        rank.wait(request)


def test_a_program_is_unrolled_into_lines() -> None:
    program = pf.Program(1, 3)
    program.compute("1.5 us")
    program.compute("250 ns")
    first = program.isend(2, 100, tag=7)
    second = program.irecv(tag=3)
    program.wait(second)
    assert program.isend(0, 5) == second, "numbers of requests are used again"
    program.wait()
    program.recv()
    program.bcast(64, root=2)
    program.compute("1 ms")
    assert first == 0
    assert program.text().splitlines() == [
        "rank 1 of 3",
        "comm 0 3 all",
        "1750 isend 0 2 100 7",
        "0 irecv 1 any any 3",
        "0 waitall 1",
        "0 isend 1 0 5 0",
        "0 waitall 0 1",
        "0 recv any any any",
        "0 bcast 0 2 64",
        "end 1000000",
    ]


def forgetful(rank: pf.Program) -> None:
    rank.isend(1 - rank.rank, 5)


def test_mistakes_are_said_where_they_are_made() -> None:
    program = pf.Program(0, 2)
    with pytest.raises(ValueError, match="there is no rank 2 among 2, counted from 0"):
        program.send(2, 1)
    with pytest.raises(ValueError, match="5 is not a time such as '10 us'"):
        program.compute(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'5 KB' is not a size: it must be a whole number of bytes"):
        program.send(1, "5 KB")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'x' is not a tag"):
        program.isend(1, 5, tag="x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ranks = -2: must be a whole number from 1 on"):
        pf.programs(-2, lambda rank: rank.barrier())
    with pytest.raises(TypeError, match="body = 4: must be a function"):
        pf.programs(3, 4)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'10' is not a time such as"):
        program.compute("10")
    with pytest.raises(ValueError, match="rank 0 has no open request 4"):
        program.wait(4)
    with pytest.raises(ValueError, match="cannot have -1 bytes"):
        program.send(1, -1)
    with pytest.raises(ValueError, match="-3 is not a tag: it must be a whole number from 0 on"):
        program.recv(1, tag=-3)
    with pytest.raises(ValueError, match="None is not a tag"):
        program.send(1, 5, tag=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rank 0 ends with request 0 open: wait"):
        pf.programs(2, forgetful)
    request = program.irecv(1)
    with pytest.raises(ValueError, match="waits for a request twice: 0, 0"):
        program.wait(request, request)


def test_programs_run_in_the_packet_network() -> None:
    workload = pf.programs(4, lambda rank: ring(rank, 3), name="ring", timeline=False)
    scenario = pf.Scenario(name="ring", topology=pf.Star(4), workload=[workload])
    jobs = pl.DataFrame(pf.run(scenario).jobs)
    assert jobs["job"].to_list() == ["ring"]
    assert jobs["ranks"].to_list() == [4]
    assert jobs["slowdown"][0] > 1
    # Each message has an envelope, and each pair of neighbours a connection.
    assert (jobs["messages"][0], jobs["message_bytes"][0], jobs["connections"][0]) == (12, 12 * 20_032, 4)
    assert jobs["compute_us"][0] == pytest.approx(30)


def test_a_data_frame_is_a_dag_of_flows() -> None:
    """The columns of a file or the keys of a list: 100 KB, 50 KB 10 us after it, then 20 KB after both."""
    hosts = {"src": ["host0", "host1", "host2"], "dst": ["host1", "host2", "host3"], "id": ["a", "b", "c"]}
    columns = {"size_bytes": [100_000, 50_000, 20_000], "after": [None, "a", "a b"], "compute_us": [None, 10.0, 0.0]}
    keys = {"size": ["100 KB", "50 KB", "20 KB"], "after": [[], ["a"], ["a", "b"]], "compute": ["0 s", "10 us", None]}
    starts = []
    for more in (columns, keys):
        flows = pf.Flows(flows=pl.DataFrame(hosts | more))  # type: ignore[arg-type]
        table = pl.DataFrame(pf.run(pf.Scenario(name="dag", topology=pf.Star(4), workload=[flows])).flows)
        ends = (table["start_us"] + table["fct_us"]).to_list()
        # The last flow begins when the second ends, because its application reacts at once.
        assert table["start_us"].to_list()[:2] == [0.0, pytest.approx(ends[0] + 10)]
        assert table["start_us"][2] == pytest.approx(ends[1])
        starts.append(table["start_us"].to_list())
    assert starts[0] == starts[1]
