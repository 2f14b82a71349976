"""Prints the table of docs/models/rdma.md that compares preset roce_cx5 with measurements of a ConnectX-5.

The measurements are those of openfabric-systems/simllm (paper/mlx5, Apache-2.0): four hosts with ConnectX-5 Ex cards
at 100 Gb/s, MTU 4096, one switch without PFC and marks, tail drop of about 5.2 MB a port.
"""

import pauseframe as pf
import polars as pl
from pauseframe.sweep.plan import Source

BASE = """
topology = { kind = "star", hosts = 4, link = { rate = "100 Gbps", delay = "515 ns" } }
host = { mtu = "4200 B" }
switch = { buffer = { policy = "per_port", size = "5.2 MB" }, marker = "none", pfc = false }
transport = { preset = "roce_cx5" }
"""
PAIRS = {
    "1 sender": [("host1", "host0")],
    "2 senders to 1": [("host1", "host0"), ("host2", "host0")],
    "1 sender to 2": [("host0", "host1"), ("host0", "host2")],
}
LONG, WARM = 0.3, 0.1
Row = tuple[str, str, str, float, float]


def _totals(pairs: list[tuple[str, str]], datagrams: bool, until: float, seed: int) -> dict[str, float]:
    """Sums from the start of a run to a time; the same seed gives the same run up to there."""
    if datagrams:
        load = "".join(
            f'[[workload]]\nname = "{a}"\nkind = "udp"\nrate = "99 Gbps"\ndatagram = "4096 B"\n'
            f'flows = [{{ src = "{a}", dst = "{b}" }}]\n'
            for a, b in pairs
        )
    else:
        flows = ", ".join(f'{{ src = "{a}", dst = "{b}" }}' for a, b in pairs)
        load = f'[[workload]]\nkind = "long_flows"\nflows = [{flows}]\n'
    text = f'stop = {{ time = "{until * 1e3:.0f} ms", when_finished = false }}\n{BASE}{load}'
    done = pf.run(Source.read(text).resolve_with({}, seed=seed), progress=False)
    flows_, ports = pl.DataFrame(done.flows), pl.DataFrame(done.ports)
    busy = ports.filter(pl.col("tier").cast(pl.String) == "switch-host").sort("tx_bytes").tail(1)
    sent = ports.filter(pl.col("tier").cast(pl.String) == "host").sort("tx_packets").tail(len({a for a, _ in pairs}))
    return {
        "goodput": float(flows_["delivered_bytes"].sum()) * 8e-9,
        "first": float(flows_["delivered_bytes"][0]) * 8e-9,
        "wire": float(busy["utilisation"][0]) * 100 * until,
        "drops": float(done.summary["drops"]),
        "sent": float(sent["tx_packets"].sum()),
        "cnps": float(flows_["cnps_sent"].sum()),
    }


def _measure(name: str, seed: int = 1, datagrams: bool = False) -> dict[str, float]:
    """Rates between WARM and LONG."""
    early, late = (_totals(PAIRS[name], datagrams, until, seed) for until in (WARM, LONG))
    rates = {key: (late[key] - early[key]) / (LONG - WARM) for key in late}
    return rates | {"loss": 100 * rates["drops"] / rates["sent"], "split": 100 * rates["first"] / rates["goodput"]}


def rows() -> list[Row]:
    """Case, quantity, use, measured and simulated value."""
    one, two, fan = (_measure(name) for name in PAIRS)
    return [
        ("2 senders to 1", "goodput, Gb/s", "fitted", 73.89, two["goodput"]),
        ("2 senders to 1", "lost at the switch, %", "fitted", 1.6502, two["loss"]),
        ("2 senders to 1", "share of one sender, %", "fitted", 50.39, two["split"]),
        ("2 senders to 1", "received on the wire, Gb/s", "predicted", 99.52, two["wire"]),
        ("2 senders to 1", "CNPs a second and queue pair", "predicted", 1000 / 3.54, two["cnps"] / 2),
        ("1 sender", "goodput, Gb/s", "predicted", 97.435, one["goodput"]),
        ("1 sender to 2", "goodput, Gb/s", "predicted", 97.825, fan["goodput"]),
        ("1 sender to 2", "share of one receiver, %", "predicted", 50.0, fan["split"]),
    ]


def main() -> None:
    """Prints the rows as a table in Markdown."""
    print("| case | quantity | | measured | simulated | error |\n|---|---|---|---|---|---|")
    for case, quantity, use, measured, simulated in rows():
        error = simulated / measured - 1
        print(f"| {case} | {quantity} | {use} | {measured:.2f} | {simulated:.2f} | {error:+.1%} |")


if __name__ == "__main__":
    main()
