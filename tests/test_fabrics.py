"""Topologies, routes and the flow level from Python and the command line."""

import base64
import contextlib
import io
import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.cli import main
from pauseframe.fabric.draw import arrange, draw, to_html
from pauseframe.reproduce.fig14 import jellyfish, throughput

if TYPE_CHECKING:
    from pauseframe.types import StageProgress


def cli(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command line in this process, because `cli` in test_cli spends a second of start-up on each call."""
    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd()
    code = 0
    try:
        os.chdir(cwd or before)
        sys.argv, argv = ["pauseframe", *map(str, arguments)], sys.argv
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = int(ended.code or 0)
    finally:
        os.chdir(before)
        sys.argv = argv
    return subprocess.CompletedProcess(list(map(str, arguments)), code, out.getvalue(), err.getvalue())


@pytest.fixture
def ring():
    return pf.Topology.family("ring:switches=4,hosts_per_switch=1")


def test_what_is_no_topology_or_no_table_ends_with_what_to_do(tmp_path):
    node = '{"nodes": [%s], "links": [%s]}'
    switches = '{"id": "s0", "kind": "switch"}, {"id": "s1", "kind": "switch"}'
    hosts = '{"id": "h0", "kind": "host"}, {"id": "h1", "kind": "host"}'
    files = {
        "empty.graphml": "",
        "empty.json": " \n",
        "bare.json": node % (switches, '{"source": "s0", "target": "s1"}'),
        "hosts.json": node % (hosts, '{"source": "h0", "target": "h1"}'),
        "fabric.xyz": "hello",
        "folder/notes.txt": "hello",
        "empty.csv": "",
        "other.csv": "node,vid,dst,out\ns0,1,h0,eth1\n",
    }
    (tmp_path / "folder").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    os.mkfifo(tmp_path / "pipe.graphml")
    fabric = "ring:switches=4,hosts_per_switch=1"
    for command, expected in {
        ("plan", "empty.graphml", "-o", "out"): "the file is empty: export the topology again, or name another file",
        ("plan", "empty.json", "-o", "out"): "the file is empty: export the topology again, or name another file",
        ("plan", "bare.json", "-o", "out"): "give every switch some (--hosts-per-switch 4",
        ("plan", "hosts.json", "-o", "out"): "hosts back to back need no tables",
        ("plan", "fabric.xyz", "-o", "out"): "name one of graphml .graphml",
        (
            "plan",
            "pipe.graphml",
            "-o",
            "out",
        ): "pipe.graphml: this is a device, a pipe or a socket: name a regular file",
        ("plan", "folder", "-o", "out"): "folder: this is a folder: name a file in it",
        ("check", fabric, "empty.csv"): "there are no rows: name tables, or the folder of a plan",
        ("check", fabric, "other.csv"): "begin with a header: switch,vlan,destination,port",
        ("check", fabric, "folder"): "no SWITCH.json for any switch: name one that has",
    }.items():
        done = cli("route", *command, cwd=tmp_path)
        assert done.returncode == 2, (command, done)
        assert expected in done.stderr, (command, done.stderr)
    assert not (tmp_path / "out").exists()


def test_families_files_and_scenarios_are_loaded(tmp_path, scenario_file):
    fabric = pf.load_topology("leaf_spine:leaves=2,spines=2,hosts_per_leaf=3,rate=25 Gbps")
    assert repr(fabric) == "Topology(6 hosts, 4 switches, 10 links)"
    for name, kind in (("a.graphml", "graphml"), ("b.json", "node-link"), ("c.clab.yml", "containerlab")):
        path = tmp_path / name
        path.write_text(fabric.write(kind))
        again = pf.load_topology(path)
        assert (again.nodes(), again.links()) == (fabric.nodes(), fabric.links())
    assert pf.load_topology(scenario_file).statistics()["hosts"] == 4
    with pytest.raises(pf.FabricError, match="did you mean"):
        pf.load_topology("leaf_spin:leaves=2")
    with pytest.raises(FileNotFoundError):
        pf.load_topology(tmp_path / "nothing.graphml")


def test_networkx_both_ways():
    nx = pytest.importorskip("networkx")
    graph = nx.MultiGraph()
    for switch in range(3):
        graph.add_node(f"s{switch}", kind="switch")
        graph.add_node(f"h{switch}", kind="host")
        graph.add_edge(f"h{switch}", f"s{switch}", rate="10 Gbps", delay="1 us")
    graph.add_edges_from([("s0", "s1"), ("s1", "s2"), ("s0", "s1")], rate="40 Gbps", delay="500 ns")
    fabric = pf.from_networkx(graph)
    statistics = fabric.statistics()
    assert (statistics["hosts"], statistics["fabric_links"], statistics["diameter"]) == (3, 3, 2)
    back = pf.to_networkx(fabric)
    assert nx.utils.graphs_equal(back.subgraph(graph.nodes), back)
    assert back.number_of_edges("s0", "s1") == 2
    assert {data["rate"] for _, _, data in back.edges("h0", data=True)} == {"10 Gbps"}
    again = pf.from_networkx(back)
    assert (again.nodes(), again.links()) == (fabric.nodes(), fabric.links())


def test_without_networkx_the_error_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    fabric = pf.load_topology("line:switches=2,hosts_per_switch=1")
    with pytest.raises(pf.FabricError, match=r"needs NetworkX: pip install 'pauseframe\[networkx\]'"):
        pf.to_networkx(fabric)


def test_names_and_ports_survive_every_format(tmp_path):
    source = tmp_path / "lab.graphml"
    source.write_text(pf.Topology.family("xgft:m=3x2,w=1x2,rate=10 Gbps,fabric_rate=40 Gbps").write("graphml"))
    for name in ("lab.json", "lab.txt", "lab.clab.yml", "back.graphml"):
        target = tmp_path / name
        assert cli("topo", "export", source, "-o", target).returncode == 0
        source = target
    assert pf.load_topology(source).links() == pf.load_topology(tmp_path / "lab.graphml").links()
    again = cli("topo", "export", source, "-o", tmp_path / "lab.json")
    assert (again.returncode, "--force" in again.stderr) == (2, True)


def test_show():
    done = cli("topo", "show", "fat_tree:k=4")
    assert (done.returncode, done.stderr) == (0, "")
    assert "100 %" in done.stdout
    shown = json.loads(cli("topo", "show", "fat_tree:k=4", "--json").stdout)
    assert shown["bisection"]["per_host_rate"] == 1.0
    wrong = cli("topo", "show", "fat_tree:k=5")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "k = 5" in wrong.stderr


def drawn(page):
    """The drawing in a page."""
    return ET.fromstring(re.findall(r"<svg.*</svg>", page, re.DOTALL)[0])


def test_drawings(tmp_path):
    for source in ("fat_tree:k=4", "ring:switches=5,hosts_per_switch=2", "star:hosts=3"):
        done = cli("topo", "draw", source, "-o", tmp_path / "fabric.svg")
        assert done.returncode == 0
        root = ET.parse(tmp_path / "fabric.svg").getroot()
        fabric = pf.load_topology(source)
        found = [sum(element.tag.endswith(tag) for element in root.iter()) for tag in ("circle", "line")]
        assert found == [len(fabric.nodes()), len(fabric.links())]
    draw(pf.load_topology("fat_tree:k=4"), tmp_path / "fabric.html", title="a fat tree")
    page = (tmp_path / "fabric.html").read_text()
    assert "a fat tree" in page
    assert "prefers-color-scheme: dark" in page.partition("</head>")[0]
    figure = drawn(page)
    told = [element.text for element in figure.iter() if element.tag.endswith("title")]
    assert sum("10 Gb" in text and " us" in text for text in told) == 48, "each link says its ports and its rate"
    names = [element.text for element in figure.iter() if element.tag.endswith("text")]
    assert names == [name for name, _, _ in pf.load_topology("fat_tree:k=4").nodes()]
    assert "<h1>a fat tree</h1>" in page, "where a long one breaks"
    large = arrange(pf.load_topology("jellyfish:switches=40,ports=20,hosts_per_switch=10"), "auto")
    assert (len(large.places), {large.hosts_at[name] for name in large.places}) == (40, {10})
    with pytest.raises(pf.FabricError, match="no levels"):
        arrange(pf.load_topology("ring:switches=5,hosts_per_switch=2"), "levels")
    with pytest.raises(pf.FabricError, match=r"\.svg or \.html"):
        draw(pf.load_topology("star:hosts=3"), tmp_path / "fabric.png")


def test_a_plan_is_written_whole_and_checks(tmp_path):
    plan = tmp_path / "plan"
    fabric = "jellyfish:switches=12,ports=8,hosts_per_switch=3"
    done = cli("route", "plan", fabric, "--vlans", 4, "--seed", 3, "--effort", "fast", "--json-tables", "-o", plan)
    assert (done.returncode, done.stderr) == (0, "")
    assert "auto chose order_pair" in done.stdout.replace("\n", " ")
    names = {"plan.json", "tables.csv", "tables.json", "topology.graphml", "topology.svg"}
    assert {path.name for path in plan.iterdir()} == names
    summary = json.loads((plan / "plan.json").read_text())
    assert (summary["engine"], summary["report"]["can_deadlock"], summary["rows"]["vlans"]) == ("auto", False, 4)
    for topology, tables in ((fabric, plan), (plan / "topology.graphml", plan / "tables.json")):
        done = cli("route", "check", topology, tables, "--what-if", "--json")
        report = json.loads(done.stdout)
        assert (done.returncode, report["clean"], report["what_if"]["links"]["tried"]) == (0, True, 30)
    again = cli("route", "plan", fabric, "-o", plan)
    assert (again.returncode, "--force" in again.stderr) == (2, True)
    assert cli("route", "plan", fabric, "-o", plan, "--force", "-q").returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("")
    assert cli("route", "plan", fabric, "-o", foreign, "--force").returncode == 2
    assert (foreign / "thesis.tex").exists()


def test_a_plan_for_another_topology_says_so(tmp_path):
    large, small = tmp_path / "large", tmp_path / "small"
    for k, folder in ((6, large), (4, small)):
        options = ("--vlans", 4, "--effort", "fast", "-q", "-o", folder)
        assert cli("route", "plan", f"fat_tree:k={k}", *options).returncode == 0
    scenario = tmp_path / "fabric.toml"
    scenario.write_text(
        "topology = { kind = 'fat_tree', k = 4 }\nworkload = [{ kind = 'permutation', size = '1 MB' }]\n"
    )
    for command in (
        ("route", "check", "fat_tree:k=4", large),
        ("route", "check", "fat_tree:k=4", large / "tables.csv"),
        ("route", "draw", "fat_tree:k=4", large, "--to", "host0", "--vlan", 1, "-o", tmp_path / "tree.svg"),
        ("flow", scenario, "--tables", large, "-o", tmp_path / "flow"),
    ):
        done = cli(*command)
        difference = "the plan is for another topology: the host host16 is only in the plan; its own topology: "
        assert (done.returncode, difference + str(large / "topology.graphml") in done.stderr) == (2, True), done.stderr
        assert "line " not in done.stderr
    for path in (large, large / "tables.csv"):
        done = cli("show", scenario, "--set", "routing.kind=plan", "--set", f"routing.path={path}")
        advice = f"if the plan is for another topology, name its own ({large / 'topology.graphml'})"
        assert (done.returncode, advice in done.stderr) == (2, True), done.stderr
    # All rows of the smaller plan fit the larger fabric, where most pairs have no route.
    done = cli("route", "check", "fat_tree:k=6", small)
    assert (done.returncode, "note: " in done.stderr) == (1, True)
    assert "the host host16 is not in the plan" in done.stderr
    assert "the host host16" in json.loads(cli("route", "check", "fat_tree:k=6", small, "--json").stdout)["notes"][-1]
    # One link less: nodes are the same, and the error of tables without a plan stays.
    fabric = pf.load_topology("fat_tree:k=4").with_single_ports()
    (tmp_path / "cut.graphml").write_text(fabric.without([31]).write("graphml"))
    done = cli("route", "check", tmp_path / "cut.graphml", small)
    assert f"the link {' - '.join(sorted(fabric.ports()[31]))} is only in the plan" in done.stderr, done.stderr
    (large / "plan.json").unlink()
    assert "line 9: " in cli("route", "check", "fat_tree:k=4", large).stderr
    assert cli("route", "check", "fat_tree:k=4", small).stderr == ""


def test_a_plan_of_many_rows_is_parquet(tmp_path, monkeypatch):
    fabric = "jellyfish:switches=12,ports=8,hosts_per_switch=3"
    monkeypatch.setattr("pauseframe.fabric.routing.ROWS_CSV", 12 * 12 * 4 - 1)
    for folder, more in (("large", ()), ("csv", ("--tables", "csv"))):
        done = cli("route", "plan", fabric, "--vlans", 4, "--effort", "fast", *more, "-q", "-o", tmp_path / folder)
        assert (done.returncode, done.stderr) == (0, "")
        assert cli("route", "check", fabric, tmp_path / folder).returncode == 0
    rows = pl.read_parquet(tmp_path / "large" / "tables.parquet")
    assert rows.columns == ["switch", "vlan", "destination", "port"]
    known = pf.load_topology(fabric)
    text = [pf.read_routes(str(tmp_path / folder), known).write("csv") for folder in ("large", "csv")]
    assert text[0] == text[1] == (tmp_path / "csv" / "tables.csv").read_text()
    assert rows.height == sum(line.count(",") == 3 for line in text[0].splitlines()) - 1
    # Another program has rewritten the file, with another encoding of names and other numbers.
    foreign = tmp_path / "foreign.parquet"
    kinds: list[tuple[pl.DataType, pl.DataType]] = [(pl.String(), pl.Int64()), (pl.Categorical(), pl.UInt8())]
    for names, number in kinds:
        as_names = [pl.col(column).cast(names) for column in ("switch", "destination", "port")]
        rows.with_columns(pl.col("vlan").cast(number), *as_names).write_parquet(foreign)
        assert pf.read_routes(str(foreign), known).check()["unreachable"]["count"] == 0
    rows.cast({"vlan": pl.Float64}).write_parquet(foreign)
    with pytest.raises(pf.FabricError, match='the column "vlan" has values of type Float64, not whole numbers'):
        pf.read_routes(str(foreign), known)


def test_a_link_from_a_switch_to_itself_is_left_out(tmp_path):
    zoo = tmp_path / "zoo.graphml"
    zoo.write_text(
        "<graphml><graph edgedefault='undirected'><node id='a'/><node id='b'/><node id='c'/>"
        "<edge source='a' target='b'/><edge source='b' target='c'/><edge source='c' target='c'/></graph></graphml>"
    )
    done = cli("route", "plan", zoo, "--hosts-per-switch", 1, "-q", "-o", tmp_path / "plan")
    assert done.returncode == 0, done.stderr
    assert "links from a switch to itself were left out: c" in done.stderr
    assert "links have no rate: 10 Gbps was taken" in done.stderr


def test_budgets_that_can_not_be_met(tmp_path):
    fabric = "jellyfish:switches=20,ports=8,hosts_per_switch=3"
    rows = cli("route", "plan", fabric, "--rows", 100, "-o", tmp_path / "plan")
    assert rows.returncode == 2
    assert "can hold 100" in rows.stderr
    assert "1 VLAN instead of 16" in rows.stderr
    lanes = cli("route", "plan", fabric, "--engine", "lash", "--lanes", 1, "-o", tmp_path / "plan")
    assert lanes.returncode == 2
    assert "only 1 are allowed: the route from" in lanes.stderr
    assert "up_down" in lanes.stderr
    unused = cli("route", "plan", fabric, "--engine", "lash", "--vlans", 4, "-o", tmp_path / "plan")
    assert "no setting" in unused.stderr
    assert not (tmp_path / "plan").exists()


def write_bridges(ring, folder):
    """Each host's packets go clockwise around the ring, in the format of `bridge -j fdb show`."""
    folder.mkdir()
    nodes = [name for name, _, _ in ring.nodes()]
    ports: dict[str, list[str]] = {name: [] for name in nodes}
    for a, b, _, _ in ring.links():
        ports[a].append(b)
        ports[b].append(a)
    addresses = {f"host{i}": f"02:00:00:00:00:{i:02x}" for i in range(4)}
    for i in range(4):
        rows = []
        for host, address in addresses.items():
            towards = host if host == f"host{i}" else f"s{(i + 1) % 4}"
            interface = f"eth{ports[f's{i}'].index(towards) + 1}"
            rows.append({"mac": address, "ifname": interface, "vlan": 10, "master": "br0", "state": "static"})
        (folder / f"s{i}.json").write_text(json.dumps(rows))
    table = "address,node\n" + "".join(f"{address},{host}\n" for host, address in addresses.items())
    (folder.parent / "macs.csv").write_text(table)


def test_a_ring_of_bridges_can_deadlock(ring, tmp_path):
    write_bridges(ring, tmp_path / "fdb")
    command = ["route", "check", "ring:switches=4,hosts_per_switch=1", tmp_path / "fdb"]
    command += ["--addresses", tmp_path / "macs.csv", "--lane", "10=3", "--draw", tmp_path / "cycle.svg"]
    done = cli(*command, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["can_deadlock"], report["clean"]) == (1, True, False)
    cycle = report["shortest_cycle"]
    assert [arc["wanted"] for arc in cycle] == [arc["held"] for arc in cycle[1:]] + [cycle[0]["held"]]
    assert len(cycle) == 4
    assert {arc["held"]["lane"] for arc in cycle} == {3}
    for arc in cycle:
        assert {arc["held"]["port"], arc["wanted"]["port"]} <= set(arc["witness"]["ports"])
    assert (tmp_path / "cycle.svg").read_text().count("#d62728") == 4
    text = cli(*command)
    assert text.returncode == 1
    assert "CAN DEADLOCK" in text.stdout
    assert "NOT RIGHT" in text.stdout
    assert cli(*command[:-4], "--lane", "three").returncode == 2


def test_holes_and_loops_are_not_right(tmp_path):
    fabric = "line:switches=2,hosts_per_switch=1"
    tables = tmp_path / "tables.csv"
    # s0 has no route to host1; s1 sends frames for host0 to s0, which returns them.
    names = [name for name, _, _ in pf.load_topology(fabric).nodes()]
    assert names == ["host0", "host1", "s0", "s1"]
    tables.write_text("switch,vlan,destination,port\ns1,1,host0,eth2\ns0,1,host0,eth2\n\nvlan,lane\n1,0\n")
    done = cli("route", "check", fabric, tables, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["loops"]["count"], report["unreachable"]["count"]) == (1, 1, 2)
    wrong = cli("route", "check", "line:switches=3,hosts_per_switch=1", tmp_path / "nothing.csv")
    assert (wrong.returncode, wrong.stdout) == (2, "")


class PressesCtrlC:
    """A progress display that simulates Ctrl-C at its first call."""

    def __call__(self, info):
        signal.raise_signal(signal.SIGINT)

    def close(self):
        pass


def test_interrupting_a_plan_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("pauseframe.terminal.progress.stage_display", lambda name: PressesCtrlC())
    fabric = "jellyfish:switches=600,ports=48,hosts_per_switch=16"
    done = cli("route", "plan", fabric, "--vlans", 64, "-o", tmp_path / "plan")
    assert (done.returncode, done.stdout) == (130, "")
    assert list(tmp_path.iterdir()) == []


def test_interrupting_a_search_once_writes_its_plan(tmp_path, monkeypatch):
    once = iter([signal.SIGINT])
    seen = []

    class PressesOnce(PressesCtrlC):
        def __call__(self, info):
            seen.append(info["best"])
            for number in once:
                signal.raise_signal(number)

    monkeypatch.setattr("pauseframe.terminal.progress.stage_display", lambda name: PressesOnce())
    fabric = "jellyfish:switches=100,network_ports=3,hosts_per_switch=1"
    options = ("--effort", "best", "--budget", 600)
    done = cli("route", "plan", fabric, *options, "-o", tmp_path / "plan")
    plan = json.loads((tmp_path / "plan/plan.json").read_text())
    assert (done.returncode, plan["budget_s"], plan["report"]["can_deadlock"]) == (130, 600, False)
    assert f"--steps {plan['steps']}" in done.stdout
    again = cli("route", "plan", fabric, *options, "--steps", plan["steps"], "-q", "-o", tmp_path / "again")
    assert again.returncode == 0
    assert (tmp_path / "again/tables.csv").read_text() == (tmp_path / "plan/tables.csv").read_text()


@pytest.mark.parametrize("engine", ["up_down", "edst", "lash"])
def test_a_budget_is_for_searches_only(engine):
    fabric = pf.load_topology("ring:switches=5,hosts_per_switch=1")
    for settings in ({"budget": 1.0}, {"steps": 1000}):
        with pytest.raises(pf.FabricError, match=f'"{engine}" has no setting "{next(iter(settings))}"'):
            pf.plan_routes(fabric, engine, **settings)
    with pytest.raises(pf.FabricError, match="a budget of -1 s is not possible"):
        pf.plan_routes(fabric, budget=-1)


def test_progress_is_shown_and_its_errors_come_through():
    fabric = pf.load_topology("jellyfish:switches=300,ports=32,hosts_per_switch=8")
    seen: list[StageProgress] = []
    routes = pf.plan_routes(fabric, vlans=16, progress=seen.append)
    assert {tuple(info) for info in seen} <= {("stage", "done", "of"), ("stage", "done", "of", "best")}

    def angry(info):
        raise RuntimeError(info["stage"])

    def plan_until_shown():
        while True:
            pf.plan_routes(fabric, vlans=64, progress=angry)

    with pytest.raises(RuntimeError, match=r"orders|trees"):
        plan_until_shown()
    assert routes.check()["clean"]


def test_flows_of_a_scenario(scenario_file, tmp_path):
    done = cli("flow", scenario_file, "--out", tmp_path / "out", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    flows = pl.read_parquet(tmp_path / "out" / "flows.parquet")
    assert summary["flows_total"] == len(flows)
    many = flows.filter(pl.col("workload") == "many")
    # Three transfers of 200 KB share 10 Gb/s; the jobs may arrive in between.
    assert min(many["fct_us"].to_list()) >= 480.0 - 1e-6
    assert min(flows["slowdown"].drop_nulls().to_list()) >= 1 - 1e-9
    links = pl.read_parquet(tmp_path / "out" / "links.parquet")
    assert links["utilisation"].is_between(0, 1 + 1e-9).all()
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert (manifest["kind"], manifest["status"]) == ("flow_level", "complete")
    idle = cli("flow", scenario_file, "--set", "switch.latency=1 us", "--out", tmp_path / "idle", "--quiet")
    assert "at flow level these keys change nothing" in idle.stderr
    assert "switch.latency" in idle.stderr
    again = cli("flow", scenario_file, "--out", tmp_path / "out")
    assert (again.returncode, "--force" in again.stderr) == (0, True)
    other = cli("flow", scenario_file, "--seed", 7, "--out", tmp_path / "out")
    assert (other.returncode, "--force" in other.stderr) == (2, True)
    table = cli("flow", scenario_file, "--demand", "permutation", "--bound", "--out", tmp_path / "two")
    assert "any routing, every pair at once" in table.stdout
    assert cli("flow", scenario_file, "--bound", cwd=tmp_path).returncode == 2
    for wrong in ("everything", "n_to_1:4000", "skewed:-1"):
        refused = cli("flow", scenario_file, "--demand", wrong, cwd=tmp_path)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr


def test_flows_by_tables(tmp_path):
    scenario = "workload = [{ kind = 'permutation', size = '1 MB' }]\ntopology = { kind = 'fat_tree', k = 4 }\n"
    file = tmp_path / "fabric.toml"
    file.write_text(scenario)
    assert cli("route", "plan", file, "--vlans", 8, "-o", tmp_path / "plan", "-q").returncode == 0
    options = ("--demand", "permutation", "--tables", tmp_path / "plan", "--json")
    by_load = json.loads(cli("flow", file, *options, "--choice", "least_loaded", "--out", tmp_path / "a").stdout)
    by_hash = json.loads(cli("flow", file, "--demand", "permutation", "--json", "--out", tmp_path / "b").stdout)
    assert by_load["throughput_bps"] > by_hash["throughput_bps"]
    assert by_load["rate_bps"]["max"] <= 10e9 * (1 + 1e-9)
    other = pf.plan_routes(pf.load_topology("fat_tree:k=6"))
    with pytest.raises(pf.FabricError, match="another topology"):
        pf.run_flows(scenario, routes=other, progress=False)
    with pytest.raises(pf.FabricError, match="give tables"):
        pf.run_flows(scenario, choice="least_loaded", progress=False)


def test_rates_of_many_seeds_are_those_of_each():
    fabric = jellyfish(20, 6, 4, seed=1)
    both = throughput(fabric, "permutation", range(1, 3), None, "random")
    assert both == [throughput(fabric, "permutation", range(seed, seed + 1), None, "random")[0] for seed in (1, 2)]
    rates = pf.flow_rates(fabric, "all_to_all", bound=0.1)[0]
    bounds, least = rates["bound_bps"], rates["rate_bps"]["min"]
    assert bounds is not None
    assert least is not None
    lower, upper = bounds
    assert lower <= upper <= 1.1 * lower * (1 + 1e-9)
    assert least <= upper


def test_failures_that_nobody_answers():
    fabric = pf.load_topology("ring:switches=4,hosts_per_switch=1")
    routes = pf.plan_routes(fabric, "up_down", vlans=1)
    links = [i for i, (a, b, _, _) in enumerate(fabric.links()) if a.startswith("s") and b.startswith("s")]
    assert routes.pairs_lost([]) == (0, 12)
    lost, pairs = routes.pairs_lost(links)
    assert lost == pairs == 12
    assert fabric.without(links).statistics()["diameter"] is None
    with pytest.raises(pf.FabricError, match="no link 99"):
        routes.pairs_lost([99])


def test_help_has_examples():
    for command in (
        ("topo", "show"),
        ("topo", "draw"),
        ("topo", "export"),
        ("route", "plan"),
        ("route", "check"),
        ("flow",),
    ):
        text = cli(*command, "--help").stdout
        assert f"pauseframe {' '.join(command)} " in text.replace("\n", " ")
        assert "Example" in text


@pytest.mark.night
def test_fig14_is_judged(tmp_path):
    experiments = tmp_path / "experiments"
    (experiments / "bolt").mkdir(parents=True)
    shipped = Path(__file__).parents[1] / "python/pauseframe/experiments" / "bolt"
    small = (shipped / "fig14.toml").read_text().replace("pauseframe.reproduce.fig14:points", "small_fig14:points")
    (experiments / "bolt" / "fig14.toml").write_text(small)
    (experiments / "bolt" / "paper.toml").write_text((shipped / "paper.toml").read_text())
    done = cli(
        *("reproduce", "bolt/fig14", "--quick", "--out", tmp_path / "new", "--json", "--experiments", experiments)
    )
    verdicts = {claim["id"]: claim["verdict"] for claim in json.loads(done.stdout)}
    assert done.returncode == 0
    # Small graphs: the claims that do not depend on the size hold.
    assert {name: verdicts[name] for name in ("B-M29", "B-M31", "B-M33")} == dict.fromkeys(
        ("B-M29", "B-M31", "B-M33"), "reproduced"
    )
    assert set(verdicts) == {"B-M29", "B-M30", "B-M31", "B-M33"}


def test_what_can_not_be_planned(tmp_path):
    nothing = tmp_path / "empty.graphml"
    nothing.write_text("<graphml><graph/></graphml>")
    pair = tmp_path / "pair.json"
    hosts = [{"id": name, "kind": "host"} for name in "ab"]
    pair.write_text(json.dumps({"nodes": hosts, "edges": [{"source": "a", "target": "b"}]}))
    for source, word in ((nothing, "no hosts"), (pair, "no switches")):
        done = cli("route", "plan", source, "-o", tmp_path / "plan")
        assert (done.returncode, word in done.stderr.replace("\n", " ")) == (2, True), done.stderr
    missing = cli("route", "check", "star:hosts=3", tmp_path / "nothere")
    assert (missing.returncode, "no such file or folder" in missing.stderr.replace("\n", " ")) == (2, True)
    torus = cli("topo", "show", "torus:lengths=4xz")
    assert "such as 8x2" in torus.stderr.replace("\n", " ")
    assert "lengths=4x4" in cli("topo", "families").stdout
    assert cli("topo", "show", tmp_path / "none.json").returncode == 2
    assert "regular file" in cli("topo", "show", "/dev/zero", "--from", "node-link").stderr.replace("\n", " ")


def test_graphs_without_hosts_and_hosts_with_two_links(tmp_path):
    bare = tmp_path / "bare.json"
    nodes = [{"id": f"s{i}"} for i in range(4)]
    ring = [{"source": f"s{i}", "target": f"s{(i + 1) % 4}", "source_port": f"e{i}"} for i in range(4)]
    bare.write_text(json.dumps({"nodes": nodes, "edges": ring}))
    done = cli("route", "plan", bare, "--hosts-per-switch", 2, "-o", tmp_path / "a", "--json")
    assert (done.returncode, json.loads(done.stdout)["report"]["hosts"]) == (0, 8)
    assert "e1" in (tmp_path / "a" / "tables.csv").read_text()
    dual = tmp_path / "dual.json"
    nodes = [{"id": f"s{i}"} for i in range(2)] + [{"id": f"h{i}", "kind": "host"} for i in range(2)]
    edges = [{"source": f"h{i}", "target": f"s{k}"} for i in range(2) for k in range(2)]
    dual.write_text(json.dumps({"nodes": nodes, "edges": [*edges, {"source": "s0", "target": "s1"}]}))
    done = cli("route", "plan", dual, "-o", tmp_path / "b", "--json")
    assert (done.returncode, json.loads(done.stdout)["report"]["hosts"]) == (0, 2)
    assert "2 hosts with several ports" in done.stderr.replace("\n", " ")


def test_failures_of_groups_and_pairs(tmp_path):
    fabric = "jellyfish:switches=12,ports=8,hosts_per_switch=3"
    plan = tmp_path / "plan"
    assert cli("route", "plan", fabric, "--effort", "fast", "-o", plan, "-q").returncode == 0
    report = json.loads(cli("route", "check", fabric, plan, "--what-if", "--what-if-pairs", 20, "--json").stdout)
    backed = report["what_if"]["links"]
    assert cli("route", "plan", fabric, "--backup-vlans", 0, "-o", tmp_path / "bare", "-q").returncode == 0
    bare = json.loads(cli("route", "check", fabric, tmp_path / "bare", "--what-if", "--json").stdout)
    # The neighbours use the link between them in every VLAN, and two lanes have no room for every detour.
    assert bare["what_if"]["links"]["harmless"] == 0
    assert backed["harmless"] >= 20
    assert backed["pairs_lost"] * 2 < bare["what_if"]["links"]["pairs_lost"]
    assert report["what_if_several"]["two links"]["tried"] == 20
    topology = pf.load_topology(fabric)
    kinds = {name: kind for name, kind, _ in topology.nodes()}
    links = [n for n, (a, b, *_) in enumerate(topology.links()) if kinds[a] == kinds[b]]
    groups = tmp_path / "groups.csv"
    lines = [f"duct{n},{topology.ports()[links[n + k * 5]][0]}" for n in range(5) for k in range(2)]
    groups.write_text("\n".join(["group,port", *lines]) + "\n")
    options = ("--groups", groups, "--effort", "fast", "--backup-vlans", 8)
    assert cli("route", "plan", fabric, *options, "-o", tmp_path / "safe", "-q").returncode == 0
    harmless = []
    for folder in ("bare", "safe"):
        done = cli("route", "check", fabric, tmp_path / folder, "--what-if-groups", groups, "--json")
        harmless.append(json.loads(done.stdout)["what_if_several"]["a group of links"]["harmless"])
    assert harmless[0] == 0
    assert harmless[1] >= 3
    groups.write_text("group,port\nduct,s0:eth99\n")
    wrong = cli("route", "check", fabric, plan, "--what-if-groups", groups)
    assert (wrong.returncode, "line 2" in wrong.stderr) == (2, True)


def test_captions_of_arrows_stand_beside_their_links(tmp_path):
    """Captions do not lie on the nodes, whose names they would cover."""
    ring = pf.load_topology("ring:switches=5,hosts_per_switch=1")
    drawing = arrange(ring, "auto", {"s0:eth2": "s0:eth2, lane 0"})
    figure = drawn(to_html(drawing))
    (caption,) = [one for one in figure.iter() if one.tag.endswith("text") and one.text == "s0:eth2, lane 0"]
    dots = [one for one in figure.iter() if one.tag.endswith("circle")]
    at = (float(caption.attrib["x"]), float(caption.attrib["y"]))
    assert all(math.dist(at, (float(dot.attrib["cx"]), float(dot.attrib["cy"]))) > 25 for dot in dots)


def test_pictures_in_a_notebook():
    fabric = pf.load_topology("fat_tree:k=4")
    text = 'topology = { kind = "fat_tree", k = 4 }\nworkload = { kind = "permutation", size = "1 MB" }\n'
    scenario = pf.Scenario.from_toml(text)
    for html in (fabric._repr_html_(), scenario._repr_html_()):
        encoded = html.partition("base64,")[2].partition('"')[0]
        root = ET.fromstring(base64.b64decode(encoded))
        assert sum(element.tag.endswith("circle") for element in root.iter()) == 36
    assert "fat_tree" in scenario._repr_html_()


def test_a_tree_is_drawn_with_arrows(tmp_path):
    plan = tmp_path / "plan"
    assert cli("route", "plan", "fat_tree:k=4", "--vlans", 2, "-o", plan, "-q").returncode == 0
    done = cli("route", "draw", "fat_tree:k=4", plan, "--to", "host0", "--vlan", 1, "-o", tmp_path / "tree.svg")
    assert done.returncode == 0
    root = ET.parse(tmp_path / "tree.svg").getroot()
    # Every other host and every switch on the path sends through one port.
    assert sum(element.tag.endswith("polygon") for element in root.iter()) >= 16
    large = "jellyfish:switches=40,ports=20,hosts_per_switch=10"
    assert cli("topo", "draw", large, "-o", tmp_path / "large.svg").returncode == 0
    assert "400 hosts are not drawn" in (tmp_path / "large.svg").read_text()
    bare = pf.Topology.parse(pf.load_topology("fat_tree:k=4").write("hpcc").split("#")[0], "hpcc")
    assert {level for _, _, level in bare.nodes()} == {None}
    levels = bare.levels()
    assert levels is not None
    assert sorted(set(levels.values())) == [0, 1, 2, 3]


def simulate(topology, tables, folder):
    """Simulates a permutation of the hosts with tables from a file."""
    file = folder / "migration.toml"
    file.write_text(
        f"""
        stop = "20 ms"
        topology = {{ kind = "file", path = "{topology}" }}
        routing = {{ kind = "plan", path = "{tables}" }}
        transport = {{ preset = "tcp_dcb" }}
        workload = [{{ kind = "permutation", size = "100 KB" }}]
        """
    )
    return pf.run(file, progress=False)


def test_an_update_in_steps_under_load(tmp_path):
    fabric = pf.load_topology("jellyfish:switches=10,network_ports=4,hosts_per_switch=2")
    old = tmp_path / "fabric.graphml"
    old.write_text(fabric.write("graphml"))
    kinds = {name: kind for name, kind, _ in fabric.nodes()}
    gone = [n for n, (a, b, *_) in enumerate(fabric.links()) if kinds[a] == kinds[b]][:2]
    new = tmp_path / "new.graphml"
    new.write_text(fabric.without(gone).write("graphml"))
    plan = tmp_path / "plan"
    assert cli("route", "plan", old, "--vlans", 4, "--effort", "fast", "-o", plan, "-q").returncode == 0
    done = cli("route", "update", plan, new, "-o", tmp_path / "update", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert [step["file"] for step in summary["steps"] if "file" in step] == [
        "1-add-rows.csv",
        "2-senders.csv",
        "3-remove-rows.csv",
    ]
    update = tmp_path / "update"
    differ = (update / "diff.csv").read_text().splitlines()[1:]
    assert len(differ) == summary["rows_added"] + summary["rows_removed"] + summary["rows_changed"] > 0
    states = (
        (plan / "topology.graphml", plan / "tables.csv"),
        (update / "during.graphml", update / "during.csv"),
        (update / "plan" / "topology.graphml", update / "plan" / "tables.csv"),
    )
    for topology, tables in states:
        assert cli("route", "check", topology, tables).returncode == 0
        run = simulate(topology, tables, tmp_path)
        assert run.summary["flows_finished"] == run.summary["flows_total"] == 20
        assert run.summary["drops"] == 0
    again = cli("route", "update", plan, new, "-o", tmp_path / "update")
    assert (again.returncode, "not empty" in again.stderr) == (2, True)
    added = set((update / "1-add-rows.csv").read_text().splitlines()[1:])
    before = {line for line in (plan / "tables.csv").read_text().splitlines() if line.count(",") == 3}
    removed = set((update / "3-remove-rows.csv").read_text().splitlines()[1:])
    after = {line for line in (update / "plan" / "tables.csv").read_text().splitlines() if line.count(",") == 3}
    assert (before | added) - removed == after


@pytest.mark.parametrize("protect", ["link", "switch", "two_links"])
def test_a_plan_says_which_failures_it_does_not_cover(tmp_path, protect):
    torus = "torus:lengths=3x3,hosts_per_switch=1"
    line = ("route", "plan", torus, "--engine", "order_pair", "--protect", protect)
    done = cli(*line, "-o", "plan", cwd=tmp_path)
    checked = json.loads(cli("route", "check", torus, "plan", "--what-if", "--json", cwd=tmp_path).stdout)
    links = checked["what_if"]["links"]
    lost = links["tried"] - links["harmless"]
    assert lost > 0
    assert f"{lost} of the {links['tried']} links still cost pairs their last route" in done.stdout
    notes = json.loads((tmp_path / "plan" / "plan.json").read_text())["notes"]
    assert sum("still cost pairs" in note for note in notes) == (1 if protect == "link" else 2)
    assert ("of the 153 pairs of links still cost pairs" in done.stdout) == (protect == "two_links")
    assert "one lane by levels" not in done.stdout
    whole = cli("route", "plan", "fat_tree:k=4", "--protect", "link", "-o", "whole", cwd=tmp_path)
    assert "still cost pairs" not in whole.stdout


def test_a_plan_by_levels_says_what_no_vlan_protects(tmp_path):
    """Both links fail that leave leaf0 and leaf1 only the way over leaf2."""
    (tmp_path / "groups.csv").write_text("group,port\nA,leaf0:eth3\nA,leaf1:eth4\n")
    clos = "leaf_spine:leaves=3,spines=2,hosts_per_leaf=2"
    done = cli("route", "plan", clos, "--vlans", "16", "--groups", "groups.csv", "-o", "plan", cwd=tmp_path)
    assert "1 of the groups still cost pairs" in done.stdout
    assert "what needs a way down and up again stays, because one lane by levels has none" in done.stdout
