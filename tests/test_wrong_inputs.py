"""Wrong inputs of all surfaces: each message names the place, the reason, and a cure that works."""

import json
import sys
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.cli import app
from pauseframe.plugins.load import load
from pauseframe.results.folder import open_results
from test_fabrics import cli
from typer.testing import CliRunner

BASE = """stop = "200 us"
[topology]
kind = "leaf_spine"
leaves = 2
spines = 2
hosts_per_leaf = 4
"""
TCP = '[transport]\npreset = "dctcp"\n'
ROCE = '[transport]\npreset = "roce_dcqcn"\n'
ONE = '[[workload]]\nkind = "permutation"\nsize = "1 KB"\n'
JOB = """[[workload]]
kind = "training"
gpus = 4
tp = 2
layers = 2
hidden = 64
sequence = 128
forward = "1 us"
"""
FAILURE = "[[failure]]\n"
SERVERS = '[topology.scale_up]\ngpus_per_server = 4\ngpu = "H100"\n'
SCENARIOS = {
    "a table in a list": (BASE + ROCE + JOB + "checkpoint = true\n", "write [workload.checkpoint] on a line"),
    "a row that is no table": (
        BASE + "[routing]\ntunnel_remap = [[3, 4]]\n" + TCP + ONE,
        "write its keys in braces: { KEY = VALUE, ... }",
    ),
    "one bracket": (BASE + TCP + ONE + '[failure]\nnode = "leaf0"\ndown = "1 us"\n', "write [[failure]]"),
    "nothing fails": (BASE + TCP + ONE + FAILURE + 'down = "1 us"\n', "add link, port or node"),
    "two things fail": (
        BASE + TCP + ONE + FAILURE + 'node = "leaf0"\nport = "leaf0:0"\ndown = "1 us"\n',
        "leave one of port and node out",
    ),
    "a link in one text": (
        BASE + TCP + ONE + FAILURE + 'link = "leaf0-spine0"\ndown = "1 us"\n',
        "expected two values in brackets (two texts)",
    ),
    "no such link": (
        BASE + TCP + ONE + FAILURE + 'link = ["leaf0", "leaf1"]\ndown = "1 us"\n',
        "leaf0 has links to host0, host1, host2, host3, spine0, spine1",
    ),
    "the same failure": (BASE + TCP + ONE + 2 * (FAILURE + 'node = "leaf0"\ndown = "1 us"\n'), "is the same failure"),
    "a preset by its part": (BASE + '[transport]\npreset = "roce_nscc"\n' + ONE, 'did you mean "uec_nscc"?'),
    "a key of the other kind": (
        BASE + TCP + 'rdma_congestion_control = "dcqcn"\n' + ONE,
        'did you mean "rdma_control"? such keys need a preset of RDMA',
    ),
    "a rate control on TCP": (
        BASE + TCP + 'rdma_control = "hpcc"\n' + ONE,
        'choose a preset of RDMA, such as "roce_hpcc", or use congestion_control',
    ),
    "a key that stands there": (
        BASE + '[topology.scale_up]\ngpus = 4\ngpu = "H100"\n' + ROCE + JOB,
        'did you mean "gpus_per_server"?',
    ),
    "several values": (BASE + '[transport]\npreset = ["dctcp", "cubic"]\n' + ONE, "pauseframe sweep compares several"),
    "typographic quotes": (BASE + "[transport]\npreset = “dctcp”\n" + ONE, "these are typographic quotes"),
    "a colon": (BASE + "[transport]\npreset: dctcp\n" + ONE, "write = between a key and its value"),
    "a target with a rank": (
        BASE + ROCE + JOB + 'hosts = ["host0", "host1", "host2", "host7"]\ncheckpoint = { targets = ["host7"] }\n',
        'workload.0.checkpoint.targets.0 = "host7": "host7" has a rank of this job (hosts)',
    ),
    "hidden in whole heads": (
        BASE + ROCE + JOB.replace("hidden = 64", "hidden = 62") + 'cp = 2\nkv_hidden = 4\ncp_comm = "a2a"\n',
        'workload.0.hidden = 62: 62 is not a multiple of tp · cp = 4: ranks of cp_comm = "a2a" have whole heads;',
    ),
    "a sequence": (BASE + ROCE + JOB.replace("128", "129") + "cp = 2\n", "choose a multiple, or change what divides"),
    "gpus that nobody set": (
        BASE + ROCE + JOB.replace("gpus = 4\n", "").replace("tp = 2", "tp = 3"),
        "choose a divisor, or set gpus to another number",
    ),
    "too many gpus": (BASE + ROCE + JOB.replace("gpus = 4", "gpus = 12"), "workload.0.gpus = 12: no room for 12"),
    "datagrams alone": (BASE + '[transport]\npreset = "udp"\n' + ONE, "choose a preset of TCP or RoCE"),
    "a gpu that is unknown": (BASE + SERVERS.replace("H100", "H20") + ROCE + JOB, '"H20" is not one of A100'),
    "a peer link": (
        BASE.replace("leaves", "peer_links = 1\nports_per_host = 2\nleaves")
        + '[routing]\nkind = "letflow"\nmlag = true\n'
        + TCP
        + ONE,
        "it goes with kind = ecmp",
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_wrong_scenario_is_told_how_to_mend_it(name):
    text, said = SCENARIOS[name]
    with pytest.raises(pf.ScenarioError) as error:
        pf.run(text)
    assert said in str(error.value)
    others = [one for one in error.value.problems if one["message"].startswith("is required")]
    assert len(error.value.problems) - len(others) <= 1, "one mistake, one message"


def test_gpus_without_servers_of_targets():
    """The rest of a target's server has no ranks, so the default number of GPUs leaves it out."""
    run = pf.run(BASE + SERVERS + ROCE + JOB.replace("gpus = 4\n", "") + 'checkpoint = { targets = ["host7"] }\n')
    assert "gpus = 4" in run.scenario_toml


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "s.toml").write_text(BASE + TCP + ONE)
    (tmp_path / "flow.csv").write_text("src;dst;size_bytes;start_us\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMANDS = {
    "run s.toml --set workload[0].size=2KB": "write workload.0.size",
    "run s.toml --set topology.link.rate='25": "write both quotes, or none",
    "run s.toml --set failure.0.node=leaf0": "failure.0.down: is required",
    "run s.toml --set switch.pfc=3": "--set switch.pfc.KEY=VALUE",
    "run s.toml --exec host0=ls --out o": "--exec host0=ls: programs run on hosts with a kernel only",
    "flow s.toml --set workload.kind=flows --set workload.file=flows.csv": "did you mean flow.csv?",
    "topo show fat_tree:k=4 --rate 100GB": "--rate 100GB: it is for files whose links have none",
    "headroom --rate 100G --cable 10m --gearbox 10": "add --vendor mellanox",
    "headroom --rate 100G --cable 10": "--cable: '10' is not a length",
    "report s.pdf --out s.pdf": "pages are HTML",
    "busbw --gpus 2 --rate 1GB": "--rate",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_command_is_told_how_to_mend_it(command, folder):
    done = cli(*command.split(), cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert COMMANDS[command] in " ".join(done.stderr.split())
    assert not (folder / "o").exists()


CONTROL = '''import pauseframe as pf
@pf.congestion_control("mine", compile=False)
class Mine:
    """Mine"""
    n: int = 0
    def increase(self, window, ack):
        window.cwnd += window.mss // self.n
    def reduced(self, window, cause):
        return window.cwnd // self.n
'''


def test_a_failed_run_says_so(folder):
    """Its folder has the reason, and another run may take its place."""
    (folder / "p.py").write_text(CONTROL)
    settings = {"transport.congestion_control": "p:mine", "workload.size": "200 KB"}
    with pytest.raises(pf.RunError, match=r"its function increase raised ZeroDivisionError: .*p\.py, line 7"):
        pf.run("s.toml", set=settings, plugins=["p.py"], out="o")
    assert json.loads(Path("o/manifest.json").read_text())["status"] == "failed"
    with pytest.raises(pf.InputError, match=r"the run failed and has no results: .*ZeroDivisionError"):
        open_results(Path("o"))
    assert pf.run("s.toml", out="o").status == "complete"


def test_check_has_no_tracebacks(folder):
    """An exception of compiled code is the reason in place of the 0 that the function returned."""
    pytest.importorskip("numba")
    (folder / "p.py").write_text(CONTROL.replace(", compile=False", ""))
    done = CliRunner().invoke(app, ["cc", "check", "p.py", "--contract", "-q"])
    assert "Traceback" not in done.output
    assert "raised ZeroDivisionError" in done.stdout
    assert "set the window to 0" not in done.stdout


FILES = {
    "two classes": (CONTROL + CONTROL.partition("\n")[2], "lines 3 and 11 are both called Mine"),
    "a line that raises": ("import pauseframe\n\n1 / 0\n", r"failed while it was loaded \(line 3\): ZeroDivisionError"),
    "an exit": (
        "import sys\n\nsys.exit(0)\n",
        r"failed while it was loaded \(line 3\): SystemExit: it ends the program",
    ),
    "an exit of a module beside it": ("import helper\n", r"failed while .* \(.*helper\.py, line 2\): SystemExit"),
    "nothing returned": (
        CONTROL.replace(", compile=False", "").replace("return window.cwnd // self.n", "pass"),
        r"Mine\.reduced \(.*p\.py:8\) returns nothing: return a whole number",
    ),
    "text and a number": (
        CONTROL.replace(", compile=False", "").replace("window.cwnd += window.mss // self.n", "self.n = 'a' + 1"),
        r"Mine\.increase \(.*p\.py:7\)",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_wrong_plug_in_is_told_its_line(name, folder):
    pytest.importorskip("numba")
    (folder / "helper.py").write_text("# a script\nraise SystemExit(3)\n")
    (folder / "p.py").write_text(FILES[name][0])
    with pytest.raises(pf.InputError, match=FILES[name][1]):
        load(["p.py"])


def test_a_plug_in_that_exits_ends_no_command(folder):
    (folder / "p.py").write_text("import sys; sys.exit()")
    for line in ("run s.toml --plugin p.py -o new", "validate s.toml --plugin p.py", "cc check p.py"):
        done = cli(*line.split(), cwd=folder)
        assert done.returncode == 2
        assert "p.py failed while it was loaded (line 1): SystemExit" in done.stderr
    assert not (folder / "new").exists()


def test_a_plug_in_does_not_parse_the_command_line(folder):
    """A script that became a plug-in may have argparse at its top level."""
    (folder / "p.py").write_text(f"import argparse\nargparse.ArgumentParser().parse_args()\n{CONTROL}")
    words = list(sys.argv)
    (file,) = load(["p.py"], quiet=True)
    assert file.names
    assert sys.argv == words


CALLS = {
    "progress": lambda: pf.run(BASE + TCP + ONE, progress="yes"),  # type: ignore[arg-type]
    "programs": lambda: pf.run(BASE + TCP + ONE, programs=["host0=ls"]),  # type: ignore[list-item]
    "out": lambda: pf.run(BASE + TCP + ONE, out=5),  # type: ignore[arg-type]
    "beside": lambda: pf.run(BASE + TCP + ONE).plot(beside=["results"]),  # type: ignore[list-item]
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_named(name):
    with pytest.raises(TypeError, match=f"^{name}"):
        CALLS[name]()


def test_python_errors_name_arguments(folder):
    pf.run("s.toml", out="o")
    with pytest.raises(pf.InputError, match=r"in Python: force=True"):
        pf.run("s.toml", out="o", seed=2)


def test_a_rate_beside_the_one_that_is_taken_is_named(tmp_path):
    head = '<graphml><key id="r" for="edge" attr.name="rate"/><key id="l" for="edge" attr.name="LinkSpeedRaw"/><graph>'
    edge = '<edge source="a" target="b"><data key="r">25 Gbps</data><data key="l">1e10</data></edge>'
    (tmp_path / "g.graphml").write_text(f'{head}<node id="a"/><node id="b"/>{edge}</graph></graphml>')
    notes = pf.load_topology(tmp_path / "g.graphml").notes
    assert any("LinkSpeedRaw of 1 of 1 edges differ from the rate" in note for note in notes)


def test_an_inventory_of_other_devices_is_noted(folder):
    assert cli("route", "plan", "star:hosts=2", "-o", "plan", "-q", cwd=folder).returncode == 0
    (folder / "macs.csv").write_text("device,mac,port,name,lanes\nhost9,02:00:00:00:00:01,,,\n")
    done = cli("deploy", "plan", "--target", "linux", "--inventory", "macs.csv", "-o", "out", cwd=folder)
    assert "devices of the inventory that are not in the plan: 1, such as host9" in done.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("transport.rto_mn=2 ms", 'did you mean "rto_min"?'),
        ("topology.host=3", 'did you mean "hosts"?'),
        ("transports.0.preset=dctcp", ""),
        ('workload.0.name="\'tis"', ""),
        ('switch={ buffer = { policy = "shared", size = "1 MB" } }', ""),
        ('name="a b.c=d"', ""),
    ],
)
def test_a_set_key_is_judged_by_what_the_file_has(tmp_path, text, said):
    """`--set` changes keys that stand in the file; names may be numbers, and texts may have quotes and equals signs."""
    file = tmp_path / "s.toml"
    file.write_text(
        'topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }\n'
        'transport = { preset = "dctcp", rto_min = "1 ms" }\n'
        'workload = [{ kind = "n_to_1", size = "1 KB" }]\n'
    )
    done = cli("show", file, "--set", text)
    assert (done.returncode == 0) == (said == ""), done.stderr
    assert said in done.stderr
