"""The commands that write, for tests/faults.py; as a program it makes their inputs: `fault_commands.py FOLDER`."""

from __future__ import annotations

import random
import sys
from importlib import import_module
from pathlib import Path

from fault_checks import Command

RING = "ring:switches=4,hosts_per_switch=1"
SMALL = """
topology = {kind = "star", hosts = 4}
switch = {pfc = {}}
transport = {preset = "tcp_bolt"}
workload = {kind = "n_to_1", size = "20 KB"}
stop = {time = "3 ms", when_finished = true}
"""
RECORDED = SMALL + 'record = {states = true, pause_tree = true, series = {every = "20 us"}, packets = {}}\n'
TUNE = (
    SMALL
    + """
[tune]
trials = 4
seeds = 2
check_seeds = 2
held_out = 4
finalists = 1
sensitivity = false
objectives = [{ minimize = "fct_us.p99" }]
[tune.parameters]
"switch.marker.k" = { from = "5 KB", to = "500 KB", scale = "log" }
"""
)


def commands(*, slow: bool) -> list[Command]:
    """All commands that write; with `slow` also those that take seconds."""
    plan = f"route plan {RING} --first-vlan 2 --effort fast -q -o"
    deploy = "deploy plan --inventory i.csv -o d"
    quick = [
        Command("run", "run r.toml -q -o R", ("r.toml",)),
        Command("run --force", "run r.toml -q -o R --force", ("r.toml",), fresh=False),
        Command("flow", "flow s.toml -q -o R", ("s.toml",)),
        Command("sweep", "sweep s.toml --seeds 3 --jobs 1 -q -o sw --resume", ("s.toml",)),
        Command("sweep --keep-runs", "sweep s.toml --seeds 2 --jobs 1 -q -o sw --resume --keep-runs", ("s.toml",)),
        Command("route plan", f"{plan} p", ()),
        Command("route plan parquet", f"{plan} p --tables parquet --json-tables", ()),
        Command("route plan --force", f"{plan} p --force", (), fresh=False),
        Command("route update", f"route update plan {RING.replace('4,', '5,')} -q -o u", ("plan",)),
        Command("route draw", f"route draw {RING} plan --to host0 --vlan 2 -o r.svg", ("plan",)),
        Command("deploy", deploy, ("plan", "i.csv")),
        Command("deploy scenario", "deploy s.toml -o ds", ("s.toml",)),
        Command("deploy --target linux", f"{deploy} --target linux", ("plan", "i.csv")),
        Command("deploy --force", f"{deploy} --force", ("plan", "i.csv"), fresh=False),
        Command("report", "report R -o r.html", ("R",)),
        Command("view", "view R -o v.html", ("R",)),
        Command("export perfetto", "export perfetto R -o t.pftrace", ("R",)),
        Command("export csv", "export csv R -o e", ("R",)),
        Command("export csv --force", "export csv R -o e --force", ("R",), fresh=False),
        Command("export arrow", "export arrow R", ("R",)),
        Command("compare", "compare R --csv c.csv --latex c.tex", ("R",)),
        Command("lint --fix --write", "lint c --fix --write fixed -q", ("c",), codes=(0, 1)),
        Command("lint --export", "lint dep --export l -q", ("dep",), codes=(0, 1)),
        Command("import fabric", "import fabric dep --load incast -o fabric.toml", ("dep",), codes=(0, 1, 2)),
        Command("counters", "counters counted --run R -o c.html", ("counted", "R"), codes=(0, 1)),
        Command("counters --as", "counters R --as sonic -o as", ("R",)),
        Command("lint --prove", "lint c --prove --proofs pr -q", ("c",), codes=(0, 1)),
        Command("import hpcc", "import hpcc c.txt -o o.toml", ("c.txt", "topo.txt", "flow.txt")),
        Command(
            "import simai",
            "import simai -n rails.txt -w step.txt -c SimAI.conf -o o",
            ("rails.txt", "step.txt", "SimAI.conf"),
        ),
        Command("busbw", "busbw s.toml --library mpi -b 1K -e 2K -q -o b.csv", ("s.toml",)),
        Command("import mlxconfig", "import mlxconfig card.txt -o card.toml", ("card.txt",)),
        Command("topo export", "topo export fat_tree:k=4 -o t.json", ()),
        Command("topo draw", "topo draw fat_tree:k=4 -o t.svg", ()),
        Command("headroom", "headroom --rate 100G --cable 5m --plot h.svg", ()),
        Command("schema", "schema -o schema.json", ()),
        Command("example", "example sonic", ()),
    ]
    long = [
        Command("tune", "tune t.toml --jobs 1 -q -o T --resume", ("t.toml",)),
        Command("reproduce", "reproduce tiny --experiments e --seeds 1 --jobs 1 -q -o out", ("e",)),
        Command("demo", "demo --quick --jobs 1 -o demo", (), most=100),
    ]
    return quick + (long if slow else [])


def load() -> None:
    """Loads what the commands load, so that their forks need not."""
    from pauseframe import cli

    for name in cli.GROUPS:
        import_module(f"pauseframe.cli.{name}")
    for name in ("run", "flow", "sweep.run", "sweep.spec", "tune.study", "report.tune", "report"):
        import_module(f"pauseframe.{name}")
    for name in (
        "fabric.routing",
        "fabric.draw",
        "view",
        "view.tables",
        "view.perfetto",
        "lint.rules",
        "lint.fix",
        "deploy.write",
        "imports",
        "demo",
    ):
        import_module(f"pauseframe.{name}")
    import_module("polars")


def write_inputs(home: Path) -> None:
    """Writes an input for every command."""
    import lint_fabrics
    import lint_faults
    import mutants
    import test_import_mlxconfig
    import test_import_simai
    from test_damaged_results import call, write_run

    for name, text in {
        "s.toml": SMALL,
        "r.toml": RECORDED,
        "t.toml": TUNE,
        "i.csv": mutants.INVENTORY,
        "c.txt": mutants.HPCC,
        "topo.txt": mutants.TOPO,
        "flow.txt": mutants.FLOW,
        "rails.txt": test_import_simai.rails(),
        "step.txt": f"{test_import_simai.HEADER}\n1\n{test_import_simai.LINE}\n",
        "SimAI.conf": test_import_simai.CONF,
    }.items():
        (home / name).write_text(text)
    mutants.route_plan(home / "plan")
    write_run(home / "R")
    code, err = call(["counters", str(home / "R"), "--as", "sonic", "-o", str(home / "counted")])
    assert code == 0, err
    code, err = call(["deploy", str(home / "plan"), "-o", str(home / "dep"), "--inventory", str(home / "i.csv")])
    assert code == 0, err
    devices = lint_fabrics.clos(2, 1, 1)
    lint_faults.small_headroom(devices, random.Random(1))
    lint_fabrics.write(devices, home / "c")
    test_import_mlxconfig.dump(home)
    experiment(home / "e")


def experiment(folder: Path) -> None:
    """A paper with one experiment of two tiny runs."""
    paper = folder / "tiny"
    paper.mkdir(parents=True)
    flows = '[[workload]]\nkind = "flows"\nflows = [{ src = "host0", dst = "host1", size = "100 KB" }]\n'
    (paper / "paper.toml").write_text('title = "T"\ncitation = "C"\n')
    (paper / "two.scenario.toml").write_text(f'stop = "2 s"\ntopology = {{ kind = "star", hosts = 3 }}\n{flows}')
    (paper / "two.toml").write_text("""
title = "Two"
scenario = "two.scenario.toml"
variants = { slow = { "topology.link.rate" = "1 Gbps" }, fast = {} }
[metrics.fct]
sql = "SELECT AVG(fct_us) FROM flows"
[[claims]]
id = "T-1"
text = "Slow is slower"
kind = "factor"
metric = "fct"
of = "slow"
over = "fast"
low = 8
high = 10
""")


if __name__ == "__main__":
    write_inputs(Path(sys.argv[1]))
