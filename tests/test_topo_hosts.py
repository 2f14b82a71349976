"""Files and figures of fabrics whose hosts have several ports count hosts, whatever wrote or read the file."""

from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.fabric.draw import arrange
from pauseframe.view import from_folder
from test_fabrics import cli

FAMILY = "leaf_spine:leaves=2,spines=2,hosts_per_leaf=2"
TABLE = 'kind = "leaf_spine"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n'
PORTS = """kind = "custom"
hosts = ["a", "b"]
switches = ["s", "t"]
link = { rate = "40 Gbps" }
links = [
  { ends = ["a", "s"], ports = ["nic1", "Ethernet0"] }, { ends = ["a", "t"], ports = ["nic2", "Ethernet0"] },
  { ends = ["b", "t"], ports = ["nic1", "Ethernet4"] }, { ends = ["s", "b"], ports = ["Ethernet4", "nic2"] },
  { ends = ["s", "t"], rate = "100 Gbps", delay = "3 us", ports = ["Ethernet8", "Ethernet8"] },
]
"""
REST = '\n[transport]\npreset = "roce_dcqcn"\n\n[workload]\nkind = "permutation"\nsize = "10 KB"\n'
SCENARIOS = {
    "dual": TABLE + "ports_per_host = 2",
    "planes": TABLE + "planes = 2",
    "mlag": TABLE + "ports_per_host = 2\npeer_links = 2",
    "star": 'kind = "star"\nhosts = 3\nports_per_host = 2',
    "custom": PORTS,
}
FORMATS = {"graphml": "graphml", "node-link": "json", "hpcc": "txt", "containerlab": "clab.yml"}


def scenario(folder: Path, topology: str, name: str = "fabric.toml") -> Path:
    path = folder / name
    path.write_text(f'stop = "1 ms"\n\n[topology]\n{topology}\n{REST}')
    return path


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_hosts_ports_and_links_of_a_scenario_come_back_from_every_format(
    tmp_path: Path, name: str, format: str
) -> None:
    fabric = pf.load_topology(scenario(tmp_path, SCENARIOS[name]))
    if name == "custom":
        assert fabric.ports()[0] == ("a:nic1", "s:Ethernet0")
    path = tmp_path / f"fabric.{FORMATS[format]}"
    path.write_text(fabric.write(format))
    again = pf.load_topology(path)
    assert sorted(again.nodes()) == sorted(fabric.nodes())
    assert again.links() == fabric.links()
    if format != "hpcc":  # which has no names of ports
        assert again.ports() == fabric.ports()
    assert again.statistics() == fabric.statistics()
    assert all("." not in name for name, _, _ in again.nodes())


@pytest.mark.parametrize("format", FORMATS)
def test_a_graph_with_a_node_for_each_port_is_written_with_its_hosts(tmp_path: Path, format: str) -> None:
    """`route plan` works on such graphs, and its topology.graphml is one."""
    fabric = pf.load_topology(f"{FAMILY},planes=2")
    path = tmp_path / f"fabric.{FORMATS[format]}"
    path.write_text(fabric.with_single_ports().write(format))
    again = pf.load_topology(path)
    assert (again.nodes(), again.links()) == (fabric.nodes(), fabric.links())
    assert again.statistics() == fabric.statistics()


def test_a_scenario_has_the_figures_of_its_family(tmp_path: Path) -> None:
    for keys in ("ports_per_host = 2", "planes = 2"):
        own = pf.load_topology(scenario(tmp_path, TABLE + keys)).statistics()
        assert own == pf.load_topology(f"{FAMILY},{keys.replace(' ', '')}").statistics()
        assert own["problems"] == []


def test_distances_are_those_between_the_nearest_ports_of_hosts() -> None:
    near = pf.load_topology(f"{FAMILY},ports_per_host=2").statistics()
    assert (near["distance_mean"], near["diameter"]) == (0, 0)
    assert list(near["hosts_per_switch"] or ()) == [4, 4]
    planes = pf.load_topology(f"{FAMILY},planes=2").statistics()
    assert planes["distance_mean"] == pytest.approx(4 / 3)
    assert planes["diameter"] == 2
    star = pf.load_topology("star:hosts=3,ports_per_host=2").statistics()
    assert list(star["hosts_per_switch"] or ()) == [3, 3]


@pytest.mark.parametrize("form", ["graphml", "split"])
def test_planes_that_were_exported_run(tmp_path: Path, form: str) -> None:
    fabric = pf.load_topology(scenario(tmp_path, TABLE + "planes = 2"))
    fabric = fabric.with_single_ports() if form == "split" else fabric
    (tmp_path / "planes.graphml").write_text(fabric.write("graphml"))
    run = scenario(tmp_path, 'kind = "file"\npath = "planes.graphml"', "run.toml")
    assert cli("validate", run).returncode == 0
    assert cli("run", run, "--out", tmp_path / "out").returncode == 0


def test_a_plan_of_a_scenario_names_ports_as_the_scenario_does(tmp_path: Path) -> None:
    """So the tables of a plan fit the scenario, and the plan's own topology."""
    file = scenario(tmp_path, SCENARIOS["custom"])
    assert cli("route", "plan", file, "-o", tmp_path / "plan").returncode == 0
    for source in (file, tmp_path / "plan" / "topology.graphml"):
        assert cli("route", "check", source, tmp_path / "plan").returncode == 0
    text = file.read_text().replace("[transport]", '[routing]\nkind = "plan"\npath = "plan"\n\n[transport]')
    (tmp_path / "tables.toml").write_text(text)
    done = cli("validate", tmp_path / "tables.toml")
    assert done.returncode == 0, done.stderr


BCUBE = "8 4 8\n4 5 6 7\n" + "".join(f"{a} {b} 10Gbps 1us 0\n" for a, b in
                                     [(0, 4), (1, 4), (2, 5), (3, 5), (0, 6), (2, 6), (1, 7), (3, 7)])  # fmt: skip
SIMAI = "7 2 1 2 6 H100\n4 5 6\n" + "".join(f"{gpu} 4 2880Gbps 0.000025ms 0\n{gpu} {5 + gpu} 400Gbps 1us 0\n"
                                            for gpu in (0, 1)) + "2 5 400Gbps 1us 0\n3 6 400Gbps 1us 0\n"  # fmt: skip
WIRED = "4 1 4\n3\n0 3 10Gbps 1us 0\n1 3 10Gbps 1us 0\n2 3 10Gbps 1us 0\n0 1 10Gbps 1us 0\n"
REASONS = {
    "bcube": (BCUBE, "hosts never forward"),
    "simai": (SIMAI, "`pauseframe import simai`"),
    "wired": (WIRED, "one of them to a host"),
}


@pytest.mark.parametrize("name", REASONS)
@pytest.mark.parametrize("command", ["topo show", "route plan", "route check", "run", "validate", "deploy", "show"])
def test_every_command_gives_the_same_reason_for_a_topology(tmp_path: Path, name: str, command: str) -> None:
    text, reason = REASONS[name]
    file = tmp_path / "fabric.txt"
    file.write_text(text)
    (tmp_path / "tables.csv").write_text("switch,vlan,destination,port\n")
    run = scenario(tmp_path, 'kind = "file"\npath = "fabric.txt"')
    done = cli(*{
        "topo show": ["topo", "show", file],
        "route plan": ["route", "plan", file, "-o", tmp_path / "plan"],
        "route check": ["route", "check", file, tmp_path / "tables.csv"],
        "run": ["run", run, "--out", tmp_path / "out"],
        "validate": ["validate", run],
        "deploy": ["deploy", run, "-o", tmp_path / "out"],
        "show": ["topo", "show", run],
    }[command])  # fmt: skip
    assert done.returncode != 0
    assert reason in " ".join(done.stderr.split()), done.stderr


ONE_WAY = """kind = "custom"
hosts = ["a", "b"]
switches = ["s", "t"]
links = [
  { ends = ["a", "s"] }, { ends = ["t", "b"], rate_back = "5 Gbps" },
  { ends = ["s", "t"], rate = "1 Gbps", rate_back = "40 Gbps" },
  { ends = ["s", "t"], rate = "40 Gbps", rate_back = "1 Gbps" },
  { ends = ["s", "t"], delay = "5 us", delay_back = "9 us" },
]
"""


def test_links_whose_directions_differ_are_shown_with_both(tmp_path: Path) -> None:
    path = scenario(tmp_path, ONE_WAY)
    shown = " ".join(cli("topo", "show", path).stdout.split())
    rates = "2 × 40 Gb/s one way and 1 Gb/s back, 2 × 10 Gb/s, 1 × 10 Gb/s one way and 5 Gb/s back"
    assert f"links by rate {rates} ports used" in shown
    captions = [caption for _, _, caption in arrange(pf.load_topology(path), "auto").links]
    assert [caption.partition(": ")[2] for caption in captions] == [
        "10 Gb/s, 1 us",
        "10 Gb/s, 1 us; back 5 Gb/s, 1 us",
        "1 Gb/s, 1 us; back 40 Gb/s, 1 us",
        "40 Gb/s, 1 us; back 1 Gb/s, 1 us",
        "10 Gb/s, 5 us; back 10 Gb/s, 9 us",
    ]


def test_the_player_has_the_rate_of_each_direction(tmp_path: Path) -> None:
    pf.run(f'stop = "1 ms"\nrecord.states = {{ every = "10 us" }}\n[topology]\n{ONE_WAY}{REST}', out=tmp_path / "run")
    fabric = from_folder(tmp_path / "run").fabric
    assert fabric.rates == [int(rate * 1e9) for rate in (10, 10, 10, 5, 1, 40, 40, 1, 10, 10)]
    assert len(fabric.rates) == len(fabric.port_names)


def test_messages_on_hosts_with_several_ports_name_what_to_call() -> None:
    fabric = pf.load_topology(f"{FAMILY},ports_per_host=2")
    for call in (lambda: pf.plan_routes(fabric, "up_down"), lambda: pf.flow_rates(fabric, "permutation")):
        with pytest.raises(
            (pf.FabricError, pf.RunError), match=r"links.*: use topology\.with_single_ports\(\)"
        ) as error:
            call()
        assert "::" not in str(error.value)
    assert pf.plan_routes(fabric.with_single_ports(), "up_down").check()["clean"]
