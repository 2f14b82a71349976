"""Mutated input for every reader of files, each in its own grammar: numbers become other numbers, names other names.

`python tests/mutants.py 1000 [SEED [SURFACE]]` tries 1000 inputs in this process. A test does so under a limit of
memory. A traceback, a panic or an abort is a defect: the last line of the folder's file `case` says which input it was.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import grammars
import lint_vendors
import polars as pl
import test_busbw
import test_counters
import test_import_astra
import test_import_mlxconfig
import test_import_ports
import test_import_simai
import test_traces
import yaml
from pauseframe.examples import write_example
from test_damaged_results import call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parent.parent
DATA = ROOT / "crates" / "topology" / "tests" / "data"
HEAD = 'stop = "1 ms"\ntopology = { kind = "star", hosts = 4 }\n'
NUMBERS = (
    "0",
    "-1",
    "1",
    "3",
    "255",
    "65536",
    "4294967296",
    "18446744073709551616",
    "1e308",
    "1" * 5000,
    "nan",
    "-0.5",
)
STRANGE = ("\0", "\ufeff", "\x1b[2J", "\r", "\x85", '"', "'", "\\", "#", "&a;", "x" * 70_000)
JUDGES = {"counters", "lint", "packetdrill", "route", "topo"}
"""Commands that print what they find on stdout."""
SLOW_S = 30.0
"""CPU time that no input of some kilobytes deserves, not even a sweep of 60 runs on thousands of hosts."""


@dataclass(frozen=True)
class Surface:
    """A kind of input: whole files, which of them to mutate, and the command that reads them.

    `@` before the name of a file in the command stands for its text.
    """

    name: str
    files: dict[str, str | bytes]
    command: tuple[str, ...]
    mutated: str = ""
    """Name of the file to mutate; by default the first."""


# Mutations of a text -------------------------------------------------------------------------------------------------


def _token(text: str, draw: random.Random, pattern: str) -> re.Match[str] | None:
    found = list(re.finditer(pattern, text))
    return draw.choice(found) if found else None


def _instead(text: str, place: re.Match[str] | None, new: str) -> str:
    return text if place is None else text[: place.start()] + new + text[place.end() :]


def other_number(text: str, draw: random.Random) -> str:
    return _instead(text, _token(text, draw, r"-?\d+(\.\d+)?"), draw.choice(NUMBERS))


def other_word(text: str, draw: random.Random) -> str:
    words = re.findall(r"[A-Za-z_][\w.-]*", text) or ["x"]
    return _instead(
        text, _token(text, draw, r"[A-Za-z_][\w.-]*"), draw.choice([*words, "x", "", "ü\u202e", "../..", "-"])
    )


def no_token(text: str, draw: random.Random) -> str:
    return _instead(text, _token(text, draw, r"\S"), draw.choice(["", " "]))


def lines_changed(text: str, draw: random.Random) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
    how = draw.choice(["drop", "double", "swap", "many"])
    if how == "swap":
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at : at + 1] = [lines[at]] * {"drop": 0, "double": 2, "many": 300}[how]
    return "".join(lines)


def cut(text: str, draw: random.Random) -> str:
    return text[: draw.randrange(len(text) + 1)]


def nested(text: str, draw: random.Random) -> str:
    at = _token(text, draw, r"[\[{(<=:,]|\s")
    opened = draw.choice(["[", "{", "(", "[[", "<a>", '{"a":', "- ", "a.", "*(", "%{"])
    return _instead(text, at, (at[0] if at else "") + opened * draw.choice([3, 90, 3000]))


def strange(text: str, draw: random.Random) -> str:
    at = draw.randrange(len(text) + 1)
    return text[:at] + draw.choice(STRANGE) + text[at:]


TEXT_MUTATIONS: list[Callable[[str, random.Random], str]] = [
    *[other_number, other_word] * 3,
    *[no_token, lines_changed] * 2,
    cut,
    nested,
    strange,
]


def flip(content: bytes, draw: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(draw.choice([1, 2, 8])):
        data[draw.randrange(len(data))] = draw.choice([0, 0x7F, 0xFF, draw.randrange(256)])
    return bytes(data[: draw.choice([len(data), len(data), draw.randrange(1, len(data) + 1)])])


def mutant(name: str, content: str | bytes, draw: random.Random) -> bytes:
    """Half of the mutants keep the grammar of their format.

    Others are a text after one to three mutations, seldom with flipped bytes, or bytes with flipped ones.
    """
    if draw.random() < 0.5 and (found := grammars.document(name, content, draw)) is not None:
        return found
    if isinstance(content, bytes):
        return flip(content, draw)
    for _ in range(draw.choice([1, 1, 2, 3])):
        content = draw.choice(TEXT_MUTATIONS)(content, draw)
    data = content.encode("utf-8", "surrogatepass")
    return flip(data, draw) if data and draw.random() < 0.05 else data


# Whole inputs -------------------------------------------------------------------------------------------------------

WORK = '[[workload]]\nkind = "n_to_1"\nsize = "64 KB"\n'
FLOWS = "src,dst,size_bytes,start_us,id,after,compute_us\nhost0,host1,1000,0,a,,0\nhost2,host1,5000,1.5,b,a,2\n"
RING = "ring:switches=4,hosts_per_switch=1"
HPCC = """ENABLE_QCN 1
CC_MODE 1
TOPOLOGY_FILE topo.txt
FLOW_FILE flow.txt
SIMULATOR_STOP_TIME 4.0
PACKET_PAYLOAD_SIZE 1000
RP_TIMER 300
EWMA_GAIN 0.00390625
HAS_WIN 1
GLOBAL_T 1
ERROR_RATE_PER_LINK 0.001
LINK_DOWN 0 0 0
KMAX_MAP 2 25000000000 400 100000000000 1600
KMIN_MAP 2 25000000000 100 100000000000 400
PMAX_MAP 2 25000000000 0.2 100000000000 0.2
BUFFER_SIZE 32
"""
TOPO = "4 1 3\n3\n0 3 100Gbps 1us 0\n1 3 100Gbps 1us 0\n2 3 100Gbps 1us 0\n"
FLOW = "2\n0 1 3 100 1000 2.0\n2 1 3 100 5000 2.1\n"
TUNE = """
[tune]
trials = 8
constraints = { pfc_pauses = 0 }
objectives = [{ minimize = "fct_us.p99" }]
[tune.parameters]
"switch.marker.k" = { from = "10 KB", to = "300 KB", scale = "log" }
"""
SWEEP = """
[sweep]
seeds = 3
"transport.preset" = ["dctcp", "cubic"]
"workload.0.size" = { from = "1 KB", to = "9 KB", steps = 3 }
"""
PKT = """
`sysctl -q net.ipv4.tcp_timestamps=0`
    0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
   +0 bind(3, ..., ...) = 0
   +0 listen(3, 1) = 0
  +.1 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,nop,nop,wscale 7>
   +0 > S. 0:0(0) ack 1 <mss 1460,nop,nop,sackOK,nop,wscale 8>
  +.1 < . 1:1(0) ack 1 win 320
   +0 accept(3, ..., ...) = 4
   +0 write(4, ..., 4000) = 4000
   +0 > P. 1:4001(4000) ack 1
   +0 %{ assert tcpi_snd_cwnd == 10 and tcpi_ca_state == TCP_CA_Open, tcpi_snd_cwnd }%
"""
MINIGRAPH = """<DeviceMiniGraph xmlns="Microsoft.Search.Autopilot.Evolution">
<PngDec><DeviceInterfaceLinks>
<DeviceLinkBase><ElementType>DeviceInterfaceLink</ElementType><EndDevice>s1</EndDevice><EndPort>Ethernet0</EndPort>
<StartDevice>s0</StartDevice><StartPort>Ethernet0</StartPort></DeviceLinkBase>
</DeviceInterfaceLinks></PngDec></DeviceMiniGraph>
"""
PORT = {"speed": "100000", "mtu": "9100", "pfc_asym": "off"}
PROFILE = "pg_lossless_100000_5m_profile"
CONFIG_DB = {
    "DEVICE_METADATA": {"localhost": {"hostname": "s0", "type": "LeafRouter"}},
    "PORT": {f"Ethernet{n}": {"lanes": f"{n},{n + 1}", "alias": f"etp{n}", **PORT} for n in (0, 4)},
    "BUFFER_POOL": {"ingress_pool": {"type": "ingress", "mode": "dynamic", "size": "12766208", "xoff": "4194112"}},
    "BUFFER_PROFILE": {
        PROFILE: {"pool": "ingress_pool", "size": "1248", "xon": "2288", "xoff": "66560", "dynamic_th": "0"}
    },
    "BUFFER_PG": {"Ethernet0|3-4": {"profile": PROFILE}},
    "PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3,4", "pfcwd_sw_enable": "3,4", "dscp_to_tc_map": "AZURE"}},
    "DSCP_TO_TC_MAP": {"AZURE": {str(n): str(n % 8) for n in range(64)}},
    "WRED_PROFILE": {"AZURE": {"ecn": "ecn_all", "green_min_threshold": "250000", "green_max_threshold": "2097152"}},
    "QUEUE": {"Ethernet0|3": {"wred_profile": "AZURE", "scheduler": "scheduler.1"}},
    "SCHEDULER": {"scheduler.1": {"type": "DWRR", "weight": "15"}},
    "PFC_WD": {"Ethernet0": {"action": "drop", "detection_time": "400", "restoration_time": "400"}},
}
NEIGHBOUR = {
    "chassis": {"s1": {"id": {"type": "mac", "value": "00:00:00:00:00:01"}}},
    "port": {"id": {"type": "local", "value": "Ethernet4"}},
}
LOOKUP = "# PG lossless profiles.\n# speed cable size xon xoff threshold\n100000 5m 1248 2288 66560 0\n"
PLUGIN = '''
import pauseframe as pf


class Fixed(pf.CongestionControl):
    """A window that never changes."""

    segments = 10.0

    def on_ack(self, flow, ack):
        flow.cwnd = self.segments * flow.mss
'''
INVENTORY = "device,mac,port,name,lanes\n" + "".join(
    f"s{n},02:00:00:00:0{port}:0{n},eth{port},Ethernet{4 * port - 4},{port}\n" for n in range(4) for port in (1, 2, 3)
)


def flow_list(name: str) -> str:
    return f'{HEAD}workload = [{{ kind = "flows", file = "{name}" }}]\n'


def parquet(home: Path) -> bytes:
    rows = {"src": ["host0", "host2"] * 20, "dst": ["host1"] * 40, "size_bytes": [10] * 40, "start_us": [0.5] * 40}
    pl.DataFrame(rows).write_parquet(home / "flows.parquet")
    return (home / "flows.parquet").read_bytes()


def beside_a_scenario(name: str, text: str, file: str, content: str | bytes) -> Surface:
    """A file that the scenario `text` names."""
    return Surface(name, {"s.toml": text, file: content}, ("validate", "s.toml"), file)


def of_scenarios(home: Path) -> Iterator[Surface]:
    """Scenarios with sweeps and searches, and the lists that they name."""
    check = ("validate", "s.toml")
    cdf = "1000 0\n5000 0.5\n1000000 1\n"
    for path in sorted((ROOT / "python/pauseframe/examples").glob("*/*.toml")):
        if path.parent.name in ("flows", "plugin", "training", "tune"):
            continue  # they name files; below: flow lists, a search, files of SimAI
        yield Surface(f"scenario {path.parent.name} {path.stem}", {"s.toml": path.read_text()}, check)
    yield Surface("sweep", {"s.toml": f"{HEAD}{WORK}{SWEEP}"}, check)
    yield Surface("tune", {"s.toml": f"{HEAD}{WORK}{TUNE}"}, check)
    numbered = HEAD.replace('kind = "star", hosts = 4', 'kind = "file", path = "topo.txt", format = "hpcc"')
    list_of_hpcc = f'{numbered}workload = [{{ kind = "flows", file = "flow.txt" }}]\n'
    yield Surface("flows txt", {"s.toml": list_of_hpcc, "topo.txt": TOPO, "flow.txt": FLOW}, check, "flow.txt")
    yield beside_a_scenario("flows csv", flow_list("flows.csv"), "flows.csv", FLOWS)
    yield beside_a_scenario("flows parquet", flow_list("f.parquet"), "f.parquet", parquet(home))
    background = '[[workload]]\nkind = "background"\narrivals = { kind = "load", load = 0.1 }\n'
    background += 'sizes = { kind = "cdf", source = "sizes.cdf" }\n'
    yield beside_a_scenario("sizes", HEAD + background, "sizes.cdf", cdf)
    ranks = 'pattern = "stencil"\nranks = 2\nsize = "1 KB"\niterations = 3\nhosts_file = "hosts.txt"\n'
    ranked = f'{HEAD}[[workload]]\nkind = "application"\n{ranks}'
    yield beside_a_scenario("hosts", ranked, "hosts.txt", "host0\nhost1\n")
    yield Surface("pattern", {"s.toml": ranked, "hosts.txt": "host0\nhost1\n"}, check)
    made = write_example("training", home / "training")
    step: dict[str, str | bytes] = {"s.toml": (made / "step.toml").read_text()}
    step |= {name: (made / name).read_text() for name in ("rails.json", "gpus.txt", "step.txt")}
    for name in ("s.toml", "step.txt"):
        yield Surface(f"training {name}", step, check, name)


def of_traces() -> Iterator[Surface]:
    chakra = b"".join(test_traces.node(n, 4, num_ops=5) for n in (1, 2)) + test_traces.node(
        3, 7, comm_type=0, comm_size=9
    )
    traces: dict[str, str | bytes] = {
        "pmpi.txt": test_traces.PMPI,
        "goal.txt": test_traces.GOAL,
        "simgrid.txt": test_traces.SIMGRID,
        "chakra.et": test_traces.METADATA + chakra,
        "pmpi.gz": gzip.compress(test_traces.PMPI.encode()),
    }
    for name, content in traces.items():
        job = f'{HEAD}workload = [{{ kind = "application", trace = "{name}" }}]\n'
        yield beside_a_scenario(f"trace {name}", job, name, content)


def route_plan(out: Path) -> None:
    code, err = call(["route", "plan", RING, "-o", str(out), "--json-tables", "--first-vlan", "2", "-q"])
    assert code == 0, err


def of_graphs(home: Path) -> Iterator[Surface]:
    """Topologies, plans of routes, and tables as other tools write them."""
    for path in sorted(DATA.iterdir()):
        if path.is_file() and path.suffix != ".lft":
            yield Surface(f"topology {path.name}", {path.name: path.read_text()}, ("topo", "show", path.name))
    route_plan(home / "plan")
    plan: dict[str, str | bytes] = {f"plan/{path.name}": path.read_text() for path in (home / "plan").iterdir()}
    for name in ("tables.csv", "tables.json"):
        yield Surface(f"route {name}", plan, ("route", "check", RING, f"plan/{name}"), f"plan/{name}")
    dumps: dict[str, str | bytes] = {f"d/{path.name}": path.read_text() for path in sorted((DATA / "ring4").iterdir())}
    for name in dumps:
        yield Surface(f"route {name}", dumps, ("route", "check", "d/ring4.ibnetdiscover", "d"), name)
    deploy = ("deploy", "plan", "-o", "d", "--force")
    yield Surface("inventory", {**plan, "i.csv": INVENTORY}, (*deploy, "--inventory", "i.csv"), "i.csv")
    for name in ("plan.json", "topology.graphml"):
        yield Surface(f"deploy {name}", plan, deploy, f"plan/{name}")
    groups = ("route", "plan", RING, "-o", "p", "--groups", "g.csv", "-q", "--force", "--first-vlan", "2")
    yield Surface("groups", {"g.csv": "group,port\n1,s0:eth1\n1,s1:eth1\n"}, groups)


def of_devices() -> Iterator[Surface]:
    config = json.dumps(CONFIG_DB, indent=1)
    lldp = json.dumps({"lldp": [{"interface": [{"Ethernet0": NEIGHBOUR}]}]}, indent=1)
    files = {"lldp.json": lldp, "minigraph.xml": MINIGRAPH, "pg_profile_lookup.ini": LOOKUP, "config_db.json": config}
    for name, content in files.items():
        both: dict[str, str | bytes] = {"c/config_db.json": config, f"c/{name}": content}
        yield Surface(f"lint {name}", both, ("lint", "c"), f"c/{name}")
    vendors = {"startup.yaml": yaml.safe_dump(lint_vendors.nvue("a", 1)), "running-config": lint_vendors.eos("b", 1)}
    vendors["minigraph.xml"] = test_import_ports.dual_tor_minigraph()
    for name, content in vendors.items():
        yield Surface(f"lint {name} alone", {f"c/{name}": content}, ("lint", "c"))
        into = ("import", "fabric", "c", "-o", "f.toml", "--force")
        yield Surface(f"import {name}", {f"c/{name}": content}, into)
    texts = {f"pfc {i}": text for i, text in enumerate(test_counters.TEXTS.values())}
    texts |= {"ethtool": test_counters.ETHTOOL, "nstat": test_counters.NSTAT, "ss": test_counters.SS}
    for name, text in texts.items():
        yield Surface(f"counters {name}", {"c/a.txt": text}, ("counters", "c"))
    queues = json.dumps({"Ethernet0": {"UC3": {"totalpacket": "5", "droppacket": "0"}}})
    yield Surface("counters json", {"c/a.json": queues}, ("counters", "c"))


def of_others(home: Path) -> Iterator[Surface]:
    yield Surface("packetdrill", {"a.pkt": PKT}, ("packetdrill", "a.pkt"))
    card = test_import_mlxconfig.dump(home).read_text()
    yield Surface("mlxconfig", {"card.txt": card}, ("import", "mlxconfig", "card.txt"))
    config: dict[str, str | bytes] = {"c.txt": HPCC, "topo.txt": TOPO, "flow.txt": FLOW}
    for name in config:
        yield Surface(f"hpcc {name}", config, ("import", "hpcc", "c.txt", "-o", "o.toml", "--force"), name)
    paper = ROOT / "python" / "pauseframe" / "experiments" / "bolt"
    all_of_it: dict[str, str | bytes] = {f"e/bolt/{path.name}": path.read_text() for path in paper.glob("*.toml")}
    for name in ("paper", "fig11", "fat_tree.scenario"):
        listed = ("reproduce", "--list", "--experiments", "e")
        yield Surface(f"experiment {name}", all_of_it, listed, f"e/bolt/{name}.toml")
    yield beside_a_scenario("plugin", HEAD + WORK, "p.py", PLUGIN)


def of_simulators() -> Iterator[Surface]:
    """Inputs of SimAI and ASTRA-sim, and a table of nccl-tests."""
    simai: dict[str, str | bytes] = {
        "rails.txt": test_import_simai.rails(),
        "step.txt": f"{test_import_simai.HEADER}\n1\n{test_import_simai.LINE}\n",
        "SimAI.conf": test_import_simai.CONF,
    }
    line = ("import", "simai", "-n", "rails.txt", "-w", "step.txt", "-c", "SimAI.conf", "-o", "o", "--force")
    for name in simai:
        yield Surface(f"simai {name}", simai, line, name)
    astra: dict[str, str | bytes] = {
        "system.json": json.dumps(test_import_astra.SYSTEM, indent=1),
        "net.yml": test_import_astra.STAR,
        "dims.json": '{"logical-dims": ["4"]}',
        **{f"t/s.{rank}.et": test_import_astra.trace(64) for rank in range(4)},
    }
    files = ("-w", "t", "-n", "net.yml", "-s", "system.json", "--logical", "dims.json")
    for name in ("system.json", "net.yml", "dims.json"):
        yield Surface(f"astra {name}", astra, ("import", "astra", *files, "-o", "o", "--force"), name)
    table: dict[str, str | bytes] = {"measured.txt": test_busbw.OLD.replace("1048576", "1024")}
    yield Surface("busbw", table, ("busbw", "--gpus", "2", "--compare", "measured.txt", "--library", "mpi"))


SPECS = (
    *("fat_tree:k=4", "star:hosts=4,rate=25 Gbps", "leaf_spine:leaves=2,spines=2,hosts_per_leaf=2,delay=2 us"),
    *("dragonfly:p=1,a=2,h=1,g=3", "dumbbell:left=2,right=2", "torus:lengths=3x3,hosts_per_switch=1"),
    *("jellyfish:switches=6,network_ports=3,hosts_per_switch=1,seed=2", "xgft:m=2x2,w=1x2", "pgft:m=2x2,w=1x2,p=1x1"),
)


def of_words() -> Iterator[Surface]:
    """Words of the command line that have a grammar."""
    for spec in SPECS:
        yield Surface(f"spec {spec.partition(':')[0]}", {"spec": spec}, ("topo", "show", "@spec"))
    scenario = {"s.toml": HEAD + WORK}
    for key in ("switch.pfc.xoff=96 KB", "workload.0.size=32 KB", "transport.preset=dctcp", "topology.hosts=5"):
        path = key.partition("=")[0]
        yield Surface(f"set {path}", {**scenario, "key": key}, ("show", "s.toml", "--set", "@key"), "key")
    link = ("headroom", "--rate", "@rate", "--cable", "@cable")
    for name in ("rate", "cable"):
        yield Surface(f"headroom {name}", {"rate": "100 Gbps", "cable": "40m"}, link, name)
    yield Surface("lint codes", {"codes": "PF01,PF060", "c/config_db.json": json.dumps(CONFIG_DB)},
                  ("lint", "c", "--select", "@codes"))  # fmt: skip


def surfaces(home: Path) -> list[Surface]:
    """All kinds of input, each whole: its command succeeds, or finds what it looks for."""
    return [
        *of_scenarios(home),
        *of_traces(),
        *of_graphs(home),
        *of_devices(),
        *of_others(home),
        *of_simulators(),
        *of_words(),
    ]


# Trying ---------------------------------------------------------------------------------------------------------------


def write(files: dict[str, str | bytes]) -> None:
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


def attempt(surface: Surface, draw: random.Random, *, whole: bool = False) -> tuple[int, str]:
    """Exit code and stderr of the command on a mutant in the working folder."""
    files = dict(surface.files)
    if not whole:
        name = surface.mutated or next(iter(files))
        files[name] = mutant(name, files[name], draw)
    write(files)
    return call([_argument(word, files) for word in surface.command])


def _argument(word: str, files: dict[str, str | bytes]) -> str:
    """A word of a command; of a text, what the system can hand to a program."""
    if not word.startswith("@"):
        return word
    text = files[word.removeprefix("@")]
    return (text if isinstance(text, str) else text.decode("utf-8", "surrogateescape")).replace("\0", "").rstrip("\n")


def attempts(count: int, seed: int, only: str = "") -> dict[str, Counter[int]]:
    """Tries so many mutants; for each surface, how often each exit code came."""
    codes: dict[str, Counter[int]] = {}
    home = Path(tempfile.mkdtemp(prefix="mutants-"))
    work = home / "work"
    everything = [surface for surface in surfaces(home) if only in surface.name]
    for number in range(count):
        surface = everything[number % len(everything)]
        work.mkdir()
        os.chdir(work)
        draw = random.Random(f"{seed} {number} {surface.name}")
        (home / "case").write_text(f"{seed} {number} {surface.name}\n")
        begin = time.process_time()
        code, err = attempt(surface, draw)
        took = time.process_time() - begin
        what = f"case {seed} {number}, {surface.name} in {work}"
        assert code in {0, 1, 2, 3}, f"{what}: {err[-3000:]}"
        assert code == 0 or err.strip() or surface.command[0] in JUDGES, f"{what}: exit code {code} without a word"
        assert took < SLOW_S, f"{what}: took {took:.0f} s"
        codes.setdefault(surface.name, Counter())[code] += 1
        os.chdir(home)
        shutil.rmtree(work)
    shutil.rmtree(home)
    return codes


if __name__ == "__main__":
    arguments = [*sys.argv[1:], "1", ""]
    total = attempts(
        int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1, sys.argv[3] if len(sys.argv) > 3 else ""
    )
    sys.stdout.write(json.dumps(total) + "\n")
