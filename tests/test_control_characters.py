"""Control characters in a file never reach a terminal: every quoted text is escaped."""

import random
from pathlib import Path

import pauseframe as pf
import pytest
from conftest import SCENARIO
from pauseframe.cli import app
from typer.testing import CliRunner

HOSTILE = ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\x08\x08", "\r", "\x7f", "\u202e", "\u200b", "\u2028"]
DATA = Path(__file__).parent.parent / "crates" / "topology" / "tests" / "data"
ROUNDS = 60
"""Number of mutations of each file, about a thousand over all files."""

STAR = """name = "star"
stop = "1 ms"
topology = { kind = "star", hosts = 4 }
"""
FLOWS = "src,dst,size_bytes,start_us,id,after,compute_us\nhost0,host1,1000,0,a,,\nhost1,host2,1000,0,b,a,1.5\n"
HPCC_FLOWS = "2\n0 1 3 100 1000 0\n1 2 3 100 1000 0.001\n"
GOAL = "num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 0\n}\nrank 1 {\nl1: recv 8b from 0 tag 0\n}\n"
SIMGRID = "0 init\n1 init\n0 send 1 0 100\n1 recv 0 0 100\n0 finalize\n1 finalize\n"
PMPI = "# npb-pmpi-trace 1\nrank 0 of 2\n0 send 1 8 0\nend 5\nrank 1 of 2\n0 recv 0 8 0\nend 5\n"
TABLES = "switch,vlan,destination,port\ns0,1,host0,eth1\ns0,1,host1,eth2\n"


def with_trace(text: str) -> str:
    return f'{STAR}[[workload]]\nkind = "application"\ntrace = "{text}"\n'


def with_flows(name: str) -> str:
    return f'{STAR}[[workload]]\nkind = "flows"\nfile = "{name}"\n'


def with_fabric(name: str) -> str:
    fabric = f'topology = {{ kind = "file", path = "{name}" }}'
    return STAR.replace('topology = { kind = "star", hosts = 4 }', fabric) + SCENARIO.partition("[transport]")[2]


FILES = {
    "s.toml": (SCENARIO, None),
    "flows.csv": (FLOWS, with_flows),
    "flow.txt": (HPCC_FLOWS, with_flows),
    "a.goal": (GOAL, with_trace),
    "a.simgrid": (SIMGRID, with_trace),
    "a.pmpi": (PMPI, with_trace),
    **{
        path.name: (path.read_text(), with_fabric)
        for path in DATA.iterdir()
        if path.is_file() and path.suffix != ".lft"
    },
}


def mutated(text: str, random_: random.Random) -> str:
    """The text with hostile characters at one to three places, and sometimes truncated there."""
    for _ in range(random_.randint(1, 3)):
        at = random_.randrange(len(text) + 1)
        text = text[:at] + random_.choice(HOSTILE) + text[at + random_.choice([0, 0, 1, 5]) :]
    return text if random_.random() < 0.8 else text[: random_.randrange(len(text) + 1)]


def assert_harmless(said: str, origin: str) -> None:
    bad = {c for c in said if not c.isprintable() and c not in "\n\t"}
    assert not bad, f"{bad} in {said!r} from {origin!r}"


@pytest.mark.parametrize("name", FILES)
def test_what_is_said_of_a_mutated_file_is_harmless(name, tmp_path):
    text, scenario = FILES[name]
    random_ = random.Random(name)
    refused = 0
    for _ in range(ROUNDS):
        changed = mutated(text, random_)
        (tmp_path / name).write_text(changed, newline="")
        source = changed if scenario is None else scenario(name)
        try:
            resolved = pf._core.resolve(source, base_dir=str(tmp_path), file_name="s.toml")
        except pf.ScenarioError as error:
            refused += 1
            told = [str(part) for problem in error.problems for part in problem.values()]
        else:
            told = list(resolved.warnings)
        assert_harmless("".join(told), changed)
        if scenario is with_fabric:
            try:
                told = pf.Topology.read(str(tmp_path / name)).notes
            except ValueError as error:
                told = [str(error)]
            assert_harmless("".join(told), changed)
    assert refused > ROUNDS // 10, "the mutations hardly matter"


COMMANDS = {
    "tables": ("t.csv", TABLES, ["route", "check", "star:hosts=2", "--tables", "t.csv"]),
    "a scenario": ("s.toml", SCENARIO, ["validate", "s.toml"]),
    "a fabric": ("f.graphml", (DATA / "triangle.graphml").read_text(), ["topo", "show", "f.graphml"]),
    "a switch": (
        "config_db.json",
        '{"PORT": {"Ethernet0": {"speed": "100000", "mtu": "9100"}}, "PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "x"}}}',
        ["lint", "config_db.json"],
    ),
}


@pytest.mark.parametrize("kind", COMMANDS)
def test_what_a_command_prints_of_a_mutated_file_is_harmless(kind, tmp_path, monkeypatch):
    name, text, command = COMMANDS[kind]
    monkeypatch.chdir(tmp_path)
    random_ = random.Random(kind)
    for _ in range(ROUNDS // 3):
        changed = mutated(text, random_)
        (tmp_path / name).write_text(changed, newline="")
        done = CliRunner().invoke(app, command)
        said = done.output if done.exception is None else f"{done.output}{done.exception}"
        assert_harmless(said, changed)
