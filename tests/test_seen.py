"""What a person reads where an input is wrong: what it is, and what to do, in the words of the place."""

import json
import re
from io import StringIO
from pathlib import Path

import networkx as nx
import pauseframe as pf
import pytest
from pauseframe.cli import devices
from pauseframe.examples import write_example
from pauseframe.lint.engine import rules
from pauseframe.packetdrill import run as play
from pauseframe.terminal.text import in_width, none_of, terminal_table
from rich.console import Console
from test_fabrics import cli

STAR = """
topology = { kind = "star", hosts = 3 }
workload = { kind = "n_to_1", size = "10 KB" }
"""


def refused(*words):
    """stderr of a command that ends with an error, as one line."""
    done = cli(*words)
    assert done.returncode in (1, 2), done.stdout
    return " ".join(done.stderr.split())


def test_a_mistake_in_set_is_placed_as_python_wrote_it():
    with pytest.raises(pf.ScenarioError, match=r"^set: switch.bufer = \"9 MB\": unknown key") as wrong:
        pf.run(STAR, set={"switch.bufer": "9 MB"})
    assert wrong.value.problems[0]["place"] == "set"
    with pytest.raises(pf.ScenarioError, match=r'as in set={"topology.KEY": VALUE}$'):
        pf.run(STAR, set={"topology": "ring"})
    scenario = pf.Scenario(topology=pf.Star(hosts=3), workload=[pf.NToOne(size="10 KB")])
    with pytest.raises(pf.ScenarioError, match=r"^set: stop"):
        scenario.resolve(set={"stop": "never"})


@pytest.mark.parametrize("function", [pf.flow_rates, pf.plan_routes, pf.to_networkx])
def test_a_text_is_no_topology_and_the_message_makes_one(function):
    with pytest.raises(TypeError, match=r"a Topology is needed; pauseframe.load_topology\('star:hosts=3'\) makes one"):
        function("star:hosts=3")


def test_functions_with_a_topology_behind_another_argument_say_so_too(tmp_path):
    routes = pf.plan_routes(pf.load_topology("ring:switches=3,hosts_per_switch=1"))
    for call in (
        lambda: pf.read_routes("plan", topology="star:hosts=3"),  # type: ignore[arg-type]
        lambda: pf.write_plan(routes, "star:hosts=3", tmp_path / "plan"),  # type: ignore[arg-type]
        lambda: pf.plan_routes(topology="star:hosts=3"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match="a Topology is needed"):
            call()
    with pytest.raises(TypeError, match=r"from_networkx\(GRAPH\) makes one"):
        pf.plan_routes(nx.Graph())
    with pytest.raises(TypeError, match="a graph of NetworkX is needed"):
        pf.from_networkx("star:hosts=3")


def test_a_wrong_key_of_a_summary_names_the_near_ones(tmp_path):
    run = pf.run(STAR, out=tmp_path / "run")
    for summary in (run.summary, pf.load(tmp_path / "run").summary):
        with pytest.raises(KeyError, match="did you mean fct_us or query_fct_us"):
            summary["fct"]  # type: ignore[typeddict-item]
        with pytest.raises(KeyError, match="did you mean p50"):
            summary["fct_us"]["p5"]  # type: ignore[typeddict-item]
        assert summary.get("fct") is None
        assert json.loads(json.dumps(summary)) == dict(summary)


@pytest.mark.parametrize(
    ("right", "wrong", "line", "meant"),
    [
        ("socket(", "socekt(", 4, "no call is called socekt: did you mean socket?"),
        (" win 320", " wni 320", 10, "no word of a packet is called wni: did you mean win?"),
        ("sackOK", "sakOK", 8, "no TCP option is called sakOK: did you mean sackOK?"),
        ("tcp_timestamps", "tcp_timestmps", 2, "no sysctl is called tcp_timestmps: did you mean tcp_timestamps?"),
    ],
)
def test_a_misspelt_packetdrill_script_fails(tmp_path, right, wrong, line, meant):
    write_example("packetdrill", tmp_path / "script")
    script = tmp_path / "script/handshake.pkt"
    assert play(script).verdict == "pass"
    script.write_text(script.read_text().replace(right, wrong))
    result = play(script)
    assert (result.verdict, result.line, result.reason) == ("fail", line, meant)


def test_what_packetdrill_has_and_the_model_has_not_is_no_mistake(tmp_path):
    write_example("packetdrill", tmp_path / "script")
    script = tmp_path / "script/handshake.pkt"
    text = script.read_text()
    for right, other in (("listen(3, 1)", "epoll_wait(3, 1)"), ("tcp_timestamps=0", "tcp_mtu_probing=1")):
        script.write_text(text.replace(right, other))
        assert play(script).verdict == "not applicable"


def test_near_names_stand_before_a_long_list(tmp_path):
    pf.run(STAR, out=tmp_path / "run")
    said = refused("compare", tmp_path / "run", "--metric", "fct")
    assert said.index("did you mean fct_us.max") < said.index("drops_by_reason.buffer_full")
    assert none_of("bolt", ["dctcp", "tcp_bolt"]).endswith("did you mean tcp_bolt?")


@pytest.mark.parametrize("option", ["--explain", "--select", "--ignore"])
def test_a_wrong_rule_names_rules_and_not_all_codes(tmp_path, option):
    write_example("sonic", tmp_path / "sonic")
    folder = [] if option == "--explain" else [tmp_path / "sonic/configs"]
    assert "PF010 (headroom-too-small)" in refused("lint", *folder, option, "headroom")
    assert refused("lint", *folder, option, "PFC").endswith("pauseframe lint --rules lists all of them")


def test_a_file_of_another_kind_leads_to_what_takes_it(tmp_path):
    write_example("incast", tmp_path / "incast")
    write_example("sonic", tmp_path / "sonic")
    scenario = tmp_path / "incast/incast.toml"
    assert f"pauseframe run {scenario} writes one" in refused("report", tmp_path / "incast")
    fabric = tmp_path / "sonic/fabric.graphml"
    old = refused("route", "update", tmp_path / "incast", fabric, "-o", tmp_path / "new")
    assert "is not the folder of a route plan: name one that pauseframe route plan -o wrote" in old
    taken = refused("route", "plan", fabric, "-o", tmp_path / "incast")
    assert "holds files but no plan.json" in taken
    assert "--force" not in taken  # which would be refused as well
    said = refused("counters", tmp_path / "sonic/configs")
    assert "leaf0/config_db.json" in said
    assert "and 1 more" in said
    write_example("training", tmp_path / "training")
    words = ("-n", tmp_path / "training/simai/rails.txt", "--without", "CC_MODE", "-o", tmp_path / "simai")
    assert "name one with --config, or remove this" in refused("import", "simai", *words)


def test_a_broken_file_of_a_fabric_is_mended_by_what_the_message_says(tmp_path):
    write_example("routes", tmp_path / "routes")
    fabric, plan, bare = tmp_path / "routes/fabric.graphml", tmp_path / "plan", tmp_path / "bare.json"
    pf.write_plan(pf.plan_routes(topology := pf.load_topology(fabric)), topology, plan)
    table = plan / "tables.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines[:-1], "4,x"]) + "\n")
    assert f"line {len(lines)}" in (said := refused("route", "check", fabric, plan))
    assert "correct this line, or plan again: pauseframe route plan" in said
    bare.write_text('{"nodes": [{"id": "a"}, {"id": "b"}]}')
    assert 'list its links under "edges", as {"source": "a", "target": "b"}' in refused("topo", "show", bare)
    bare.write_text('{"nodes": [{"id": "a"}, {"id": "b"}], "edges": [{"source": "a", "target": "b"}]}')
    assert pf.load_topology(bare).links()


def test_the_figures_of_presets_say_what_they_sum_to():
    said = " ".join(cli("presets").stdout.split())
    known = json.loads((Path(pf.__file__).parent / "calibration.json").read_text())["scenarios"].values()
    inside, figures = (sum(one[name] for one in known) for name in ("inside", "figures"))
    assert f"Linux 6.1.192: {inside} of {figures} figures. Rows share figures" in said


def test_the_rules_fit_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr("pauseframe.terminal.text.wide_console", lambda: Console(width=100))
    devices._list_rules(as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert sum(line.startswith("PF") for line in lines) == len(rules())


@pytest.mark.parametrize("width", [80, 100, 130, 240])
def test_no_number_breaks_in_a_narrow_terminal(width):
    cells = ["381 us [380 us, 382 us] ?", "+1.4 % [+1.13 %, +1.67 %] (memory differs)"]
    variants = [name for one in range(6) for name in (f"variant{one}", "Δ to variant0")]
    columns = [{"header": name, "justify": "right"} for name in variants]
    table = terminal_table("", *columns, title="a table", rows=[("FCT, mean", *(cells * 6))])
    output = StringIO()
    console = Console(width=width, file=output)
    parts = in_width(table, console)
    for part in parts:
        console.print(part)
    printed = output.getvalue()
    assert max(map(len, printed.splitlines())) <= width
    for whole in (*re.split(r" (?=[\[(])", cells[0]), *re.split(r" (?=[\[(])", cells[1])):
        assert printed.count(whole) == 6, whole
    heads = [str(column.header) for part in parts for column in part.columns[1:]]
    assert heads == variants
    assert all(not str(part.columns[1].header).startswith("Δ") for part in parts)
    assert printed.count("a table") == 1


@pytest.mark.parametrize(
    ("setting", "cure"),
    [
        ('failure=[{link="leaf0-spine1", down="1 ms"}]', 'write ["leaf0", "spine1"]'),
        ('failure=[{link="leaf0 -> spine1", down="1 ms"}]', 'write ["leaf0", "spine1"]'),
        ('failure=[{link=["leaf0:spine1"], down="1 ms"}]', 'write ["leaf0", "spine1"]'),
        ("stop=never", "leave the key out"),
        ("stop.time=false", "leave the key out"),
        ("transport.preset.kind=tcp", "did you mean transport.kind"),
        ("workload.size.bytes=3", "did you mean workload.bytes"),
    ],
)
def test_a_value_of_another_form_leads_to_the_right_one(tmp_path, setting, cure):
    path = tmp_path / "star.toml"
    path.write_text(STAR)
    assert cure in refused("run", str(path), "--set", setting)
