"""Entropy values of NSCC beside htsim's (ultraethernet/uet-htsim 40ccb05, `htsim_uec -tiers 2 -nodes 32 -failed 1`).

A permutation of 32 hosts crosses four spines, of which one has a quarter of the rate. The figures are means of ten
seeds of htsim, counted until the last acknowledgement arrives. Queues of the slow spine are as long as the others
(htsim scales them down). With a timeout of 100 us no packet expires. With 45 us those expire that meet a full queue of
a slow link, which freezes the values of REPS. `bitmap` and `mixed` are compared without timeouts, of which htsim
forgets the value.
"""

import statistics
import tomllib
from typing import Any

import pauseframe as pf
import pytest

# To each host, the host that sends to it: connection_matrices/perm_32n_32c_2MB.cm.
SENDERS = [
    19,
    23,
    10,
    22,
    13,
    3,
    8,
    21,
    6,
    31,
    26,
    4,
    18,
    7,
    30,
    29,
    0,
    5,
    20,
    14,
    27,
    28,
    16,
    11,
    25,
    1,
    17,
    9,
    12,
    15,
    24,
    2,
]
ACK_US = 4.3
SCENARIO = """
name = "slow_spine"
clocks = "ideal"
stop = { time = "100 ms", when_finished = true }
host = { mtu = "9000 B" }
topology = { kind = "custom", link = { rate = "100 Gbps", delay = "1 us" } }
transport = { preset = "uec_nscc", rdma_mtu = "4096 B" }

[switch]
queue = "trim"
buffer = "120350 B"

[switch.marker]
kind = "red"
min = { "25 Gbps" = "6225 B", "100 Gbps" = "24900 B" }
max = { "25 Gbps" = "24900 B", "100 Gbps" = "99600 B" }
p_max = 1
at = "dequeue"
not_ect = "queue"
"""


def _scenario(entropy: str, timeout_us: int, size: str) -> pf.Scenario:
    tables: dict[str, Any] = tomllib.loads(SCENARIO)
    leaves = [f"leaf{n}" for n in range(8)]
    spines = [f"spine{n}" for n in range(4)]
    hosts = [f"host{n}" for n in range(32)]
    links: list[object] = [[host, leaves[n // 4]] for n, host in enumerate(hosts)]
    for spine in spines:
        rate = "25 Gbps" if spine == "spine0" else "100 Gbps"
        links += [{"ends": [leaf, spine], "rate": rate} for leaf in leaves]
    tables["topology"] |= {"hosts": hosts, "switches": leaves + spines, "links": links}
    tables["transport"] |= {"rdma_entropy": entropy, "rdma_timeout": f"{timeout_us} us"}
    flows = [{"src": f"host{sender}", "dst": f"host{n}", "size": size} for n, sender in enumerate(SENDERS)]
    tables["workload"] = [{"kind": "flows", "flows": flows}]
    return pf.Scenario(**tables)


@pytest.mark.parametrize(
    ("entropy", "timeout_us", "mean_us"),
    [
        ("oblivious", 100, 2297.4),
        ("bitmap", 100, 1310.8),
        ("mixed", 100, 1034.2),
        ("reps", 100, 1804.1),
        ("oblivious", 45, 2342.5),
        ("reps", 45, 963.2),
    ],
)
def test_a_slow_spine_costs_what_it_costs_in_htsim(entropy: str, timeout_us: int, mean_us: float) -> None:
    runs = [pf.run(_scenario(entropy, timeout_us, "8 MB"), seed=seed, progress=False) for seed in (1, 2, 3)]
    mean = statistics.mean(time for run in runs for time in run.flows["fct_us"]) + ACK_US
    assert mean == pytest.approx(mean_us, rel=0.05)
    timeouts = [run.summary["timeouts"] for run in runs]
    assert min(timeouts) > 200 if timeout_us == 45 else max(timeouts) <= 5, "of the packets that met two full queues"
