"""Congestion controls that are loaded at run time: Python classes, compiled or not, and shared libraries."""

import ctypes
import itertools
import json
import random
import re
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import pauseframe as pf
import polars as pl
import pytest
from pauseframe import _core
from pauseframe.cli._common import is_own_page
from pauseframe.plugins import abi, classes, load, records
from pauseframe.plugins.check import check
from pauseframe.run import resolve
from test_cli import cli

pytest.importorskip("numba")

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples" / "plugins"
SWIFT = ROOT / "python/pauseframe/examples/plugin/swift.py"
IN_PYTHON = {path.stem: path for path in (*EXAMPLES.glob("*.py"), SWIFT)}
DCTCP_PAPER = ROOT / "python" / "pauseframe" / "experiments" / "dctcp"
CC = shutil.which("cc") or "cc"
INCAST = """
name = "incast"
stop = "20 ms"
clocks = "ideal"
workload = [{ kind = "n_to_1", senders = 8, size = "500 KB" }]
topology = { kind = "star", hosts = 9, link = { rate = "10 Gbps", delay = "1 us" } }
switch = { buffer = "100 KB" }
"""
HEAD = """
import pauseframe as pf


@pf.congestion_control("mine"{options})
class Mine:
    \"\"\"A test\"\"\"

"""
INCREASE = """
    def increase(self, window, ack):
        window.cwnd += ack.acked
"""
REDUCED = """
    def reduced(self, window, cause):
        return window.cwnd // 2
"""
numbers = itertools.count()


def plugin(folder, body, *, increase=INCREASE, reduced=REDUCED, options=""):
    """Writes a plug-in file with a unique name, because modules stay loaded; returns the file and the algorithm."""
    stem = f"mine{next(numbers)}"
    file = folder / f"{stem}.py"
    file.write_text(HEAD.format(options=options).replace('"mine"', f'"{stem}"') + body + increase + reduced)
    return file, f"{stem}:{stem}"


def run(file, name, text=INCAST, **options):
    changes = {"transport.congestion_control": name} | options.pop("set", {})
    return pf.run(text, set=changes, plugins=[file], progress=False, **options)


def library(source, target, *options):
    command = [CC, "-O1", "-w", "-shared", "-fPIC", f"-I{pf.include_dir()}", *options, str(source), "-o", str(target)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return target


@pytest.fixture(scope="session")
def aimd(tmp_path_factory):
    return library(EXAMPLES / "aimd.c", tmp_path_factory.mktemp("c") / "aimd.so", "-Wall", "-Werror")


# Trajectories equal those of the built-in algorithms


def like_built_in(scenario, algorithm, settings, variant):
    """The settings with which a plug-in run has all features of the built-in algorithm."""
    values = {path: value for path, value, _ in resolve(scenario, set=settings).explain()}
    own = f"transport.{algorithm}_"
    constants = {
        path.replace(own, f"transport.{variant}_"): tomllib.loads(f"x = {value}")["x"]
        for path, value in values.items()
        if path.startswith(own) and not path.endswith("hystart_milliseconds")
    }
    marks = {path: values[path] == "true" for path in ("transport.ect_on_syn", "transport.ect_on_ack")}
    return settings | marks | constants


CASES = {
    "fat-tree-k6": (ROOT / "benchmarks" / "fat-tree-k6.toml", {"workload.size": "500 KB"}),
    "incast": (DCTCP_PAPER / "incast.scenario.toml", {}),
    "long": (DCTCP_PAPER / "long.scenario.toml", {"stop": "1 s"}),
    "short": (DCTCP_PAPER / "short.scenario.toml", {"stop": "1 s"}),
    "multi_hop": (DCTCP_PAPER / "multi_hop.scenario.toml", {"stop": "200 ms"}),
    "all_to_all": (DCTCP_PAPER / "all_to_all.scenario.toml", {"stop": "20 ms"}),
    "benchmark": (DCTCP_PAPER / "benchmark.scenario.toml", {"stop": "200 ms"}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("algorithm", ["dctcp", "cubic"])
def test_a_plugin_has_the_fingerprint_of_the_built_in_one(case, algorithm):
    scenario, changes = CASES[case]
    settings = {"transport.preset": algorithm} | changes
    built_in = pf.run(scenario, set=settings, progress=False)
    variant = f"{algorithm}_py"
    same = like_built_in(scenario, algorithm, settings, variant)
    same["transport.congestion_control"] = f"{variant}:{variant}"
    mine = pf.run(scenario, set=same, plugins=[EXAMPLES / f"{variant}.py"], progress=False)
    assert mine.summary["fingerprint"] == built_in.summary["fingerprint"]
    assert mine.summary["events"] == built_in.summary["events"] > 10_000


@pytest.mark.parametrize("algorithm", ["dctcp", "cubic"])
def test_the_interpreter_gives_the_same(tmp_path, algorithm):
    text = (EXAMPLES / f"{algorithm}_py.py").read_text()
    plain = text.replace(f'"{algorithm}_py"', f'"{algorithm}_plain", compile=False')
    assert plain != text
    file = tmp_path / f"{algorithm}_plain.py"
    file.write_text(plain)
    settings = {"transport.preset": algorithm}
    built_in = pf.run(INCAST, set=settings, progress=False)
    same = like_built_in(INCAST, algorithm, settings, f"{algorithm}_plain")
    mine = run(file, f"{algorithm}_plain:{algorithm}_plain", set=same)
    assert mine.summary["fingerprint"] == built_in.summary["fingerprint"]


def test_c_has_the_fingerprint_of_the_built_in_one(aimd):
    settings = {"transport.aimd_a": 2.0, "transport.congestion_control": "aimd"}
    built_in = pf.run(INCAST, set=settings, progress=False)
    assert built_in.summary["drops"] > 0
    mine = run(aimd, "aimd:aimd_c", set={"transport.aimd_c_a": 2.0})
    assert mine.summary["fingerprint"] == built_in.summary["fingerprint"]


NO_STD_OPTIONS = ("-C", "panic=abort", "-C", "lto=fat")
PANIC_HANDLER = """
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
"""


@pytest.mark.skipif(shutil.which("rustc") is None, reason="needs rustc")
@pytest.mark.parametrize("std", [True, False])
def test_rust_with_and_without_its_standard_library(tmp_path, std):
    source, target = tmp_path / "aimd.rs", tmp_path / "libaimd_rust.so"
    text = (EXAMPLES / "aimd.rs").read_text()
    if not std:
        text = text.replace("\nuse std::ffi", "\n#![no_std]\nuse core::ffi").replace("std::", "core::") + PANIC_HANDLER
    source.write_text(text)
    options = ("-O", "--edition", "2024", "--crate-type", "cdylib", *(() if std else NO_STD_OPTIONS))
    subprocess.run(["rustc", *options, source, "-o", target], check=True, capture_output=True)
    built_in = pf.run(INCAST, set={"transport.aimd_a": 2.0, "transport.congestion_control": "aimd"}, progress=False)
    mine = run(target, "aimd_rust:aimd_rust", set={"transport.aimd_rust_a": 2.0})
    assert mine.summary["fingerprint"] == built_in.summary["fingerprint"]


def test_threads_change_nothing():
    leaf_spine = INCAST.replace(
        'kind = "star", hosts = 9', 'kind = "leaf_spine", leaves = 2, spines = 2, hosts_per_leaf = 5'
    )
    settings = {"transport.preset": "dctcp", "transport.dctcp_py_fixed_point": True}
    file, name = EXAMPLES / "dctcp_py.py", "dctcp_py:dctcp_py"
    alone = run(file, name, leaf_spine, set=settings, threads=1)
    together = run(file, name, leaf_spine, set=settings, threads=2)
    assert together.summary["threads"] == 2
    assert together.summary["fingerprint"] == alone.summary["fingerprint"]


def test_the_header_says_what_python_and_rust_say(tmp_path):
    """Sizes, offsets and constants of the C header, as a C compiler computes them."""
    structures = {
        "pauseframe_cc": abi.Algorithm,
        "pauseframe_rate_control": abi.RateAlgorithm,
        "pauseframe_parameter": abi.Parameter,
        "pauseframe_window": pf.Window,
        "pauseframe_ack": pf.Ack,
        "pauseframe_delivery": pf.Delivery,
        "pauseframe_pair": pf.Pair,
        "pauseframe_pair_ack": pf.PairAck,
        "pauseframe_value": abi.Value,
    }
    lines = [f'printf("%zu\\n", sizeof({name}));' for name in structures]
    expected = [ctypes.sizeof(kind) for kind in structures.values()]
    for name, kind in list(structures.items())[:-1]:
        declared: Any = kind._fields_
        names = [entry[0] for entry in declared]
        lines += [f'printf("%zu\\n", offsetof({name}, {field}));' for field in names]
        expected += [getattr(kind, field).offset for field in names]
    values = {
        "PAUSEFRAME_CC_ABI": abi.ABI,
        "PAUSEFRAME_OK": abi.OK,
        "PAUSEFRAME_FAILED": abi.FAILED,
        "PAUSEFRAME_CC_NEEDS_EXACT_ECN": abi.NEEDS_EXACT_ECN,
        "PAUSEFRAME_CC_PACES": abi.PACES,
        "PAUSEFRAME_RATE_CONTROL": abi.RATE_CONTROL,
        "PAUSEFRAME_READS_TELEMETRY": abi.READS_TELEMETRY,
        "PAUSEFRAME_SETS_WINDOW": abi.SETS_WINDOW,
        "PAUSEFRAME_HOPS_MAX": records.HOPS_MAX,
        "PAUSEFRAME_STATE_MAX": abi.STATE_MAX,
        "PAUSEFRAME_PARAMETERS_MAX": abi.PARAMETERS_MAX,
        "PAUSEFRAME_NUMBER": abi.NUMBER,
        "PAUSEFRAME_COUNT": abi.COUNT,
        "PAUSEFRAME_FLAG": abi.FLAG,
        "PAUSEFRAME_TIME": abi.TIME,
        "PAUSEFRAME_ECN": pf.ECN,
        "PAUSEFRAME_LOSS": pf.LOSS,
        "PAUSEFRAME_MICROSECOND": pf.MICROSECOND,
        "PAUSEFRAME_SECOND": pf.SECOND,
        "PAUSEFRAME_WINDOW_MAX": 2**40,
        "PAUSEFRAME_PACING_RATE_MAX": 10**15,
    }
    lines += [f'printf("%lld\\n", (long long){name});' for name in values]
    expected += list(values.values())
    source = tmp_path / "layout.c"
    head = "#include <pauseframe_cc.h>\n#include <stddef.h>\n#include <stdio.h>\n"
    source.write_text(head + "int main(void) {\n" + "\n".join(lines) + "\n}\n")
    subprocess.run([CC, "-w", f"-I{pf.include_dir()}", source, "-o", tmp_path / "layout"], check=True)
    printed = subprocess.run([tmp_path / "layout"], check=True, capture_output=True, text=True).stdout
    assert [int(line) for line in printed.split()] == expected


# Keys of plug-ins


WITH_CONSTANTS = """
    gain = pf.constant(0.5, "Gain of the test", range=(0.0, 1.0))
    floor = pf.constant(2, "Floor in segments", range=(1, 10))
    fast = pf.constant(False, "Is fast")
    target = pf.constant("1.5 us", "Target delay", range=("1 us", "1 ms"))
"""


def test_constants_are_keys(tmp_path):
    file, name = plugin(tmp_path, WITH_CONSTANTS, options=", compile=False")  # the keys are those of a compiled one
    own = name.partition(":")[2]
    settings = ["--set", f"transport.congestion_control={name}", "--set", f"transport.{own}_target=3 us"]
    scenario = tmp_path / "incast.toml"
    scenario.write_text(INCAST)
    shown = cli("show", scenario, "--plugin", file, *settings, "--json")
    rows = {row["path"]: (row["value"], row["origin"]) for row in json.loads(shown.stdout)}
    assert rows[f"transport.{own}_gain"] == ("0.5", "default")
    assert rows[f"transport.{own}_floor"] == ("2", "default")
    assert rows[f"transport.{own}_fast"] == ("false", "default")
    assert rows[f"transport.{own}_target"] == ('"3 us"', "--set")
    assert rows["plugins.files"][0] == f'["{file.name}"]'
    options = json.loads(cli("options", f"{own}_", "--plugin", file, "--json").stdout)
    assert [option["type"] for option in options] == ["number", "whole number", "true or false", "time"]
    assert options[3]["doc"] == "Target delay (1 us to 1 ms)"
    schema = cli("schema", "--plugin", file).stdout
    assert f'"{own}_target"' in schema
    assert name in schema
    wrong = cli("show", scenario, "--plugin", file, *settings, "--set", f"transport.{own}_gain=2")
    assert "2.0 is outside 0.0 to 1.0" in wrong.stderr
    near = cli("show", scenario, "--plugin", file, *settings, "--set", f"transport.{own}_gian=0.2")
    assert f'did you mean "{own}_gain"?' in near.stderr


def test_constants_arrive_in_their_units(tmp_path):
    """The window equals the constants of the plug-in."""
    reduced = """
    def reduced(self, window, cause):
        return self.floor * window.mss
"""
    increase = """
    def on_ack(self, window, ack):
        self.seen = self.gain + self.floor + self.fast + self.target

    def increase(self, window, ack):
        pass

    def alpha(self):
        return self.seen
"""
    for options in ("", ", compile=False"):
        file, name = plugin(
            tmp_path, WITH_CONSTANTS + "\n    seen: float = 0.0\n", increase=increase, reduced=reduced, options=options
        )
        own = name.partition(":")[2]
        changes = {
            f"transport.{own}_gain": 0.25,
            f"transport.{own}_floor": 3,
            f"transport.{own}_fast": True,
            f"transport.{own}_target": "2 us",
            "record.series": {"every": "1 ms", "flows": ["*"]},
        }
        series = pl.DataFrame(run(file, name, set=changes).series).filter(pl.col("metric") == "alpha")
        assert set(series["value"]) == {0.25 + 3 + 1 + 2e6}


def test_state_begins_with_its_defaults(tmp_path):
    body = """
    count: int = 7
    share: float = 0.25
    flag: bool = True
    list: float = [0.5] * 3
    wide: int = [2] * 100

    def init(self):
        self.list[1] = 4.0

    def alpha(self):
        return self.count + self.share + self.flag + self.list[0] + self.list[1] + self.list[2] + self.wide[99]
"""
    for options in ("", ", compile=False"):
        file, name = plugin(tmp_path, body, options=options)
        changes = {"record.series": {"every": "1 ms", "flows": ["*"]}}
        series = pl.DataFrame(run(file, name, set=changes).series).filter(pl.col("metric") == "alpha")
        assert set(series["value"]) == {7 + 0.25 + 1 + 5 + 2}


def test_a_pacing_rate_holds(tmp_path):
    body = """
    rate = pf.constant(1_000, "Mbit/s", range=(1, 100_000))

    def on_ack(self, window, ack):
        window.pacing_rate = self.rate * 1_000_000
"""
    text = INCAST.replace("senders = 8", "senders = 1").replace("500 KB", "5 MB").replace("20 ms", "200 ms")
    for options in (", paces=True", ", paces=True, compile=False"):
        file, name = plugin(tmp_path, body, options=options)
        paced = run(file, name, text)
        assert ("pacing", "true") in [(p.rpartition(".")[2], v) for p, v, _ in resolve(paced.scenario_toml).explain()]
        # 5 MB at 1 Gbit/s, minus the segments sent before the first ACK.
        (fct,) = pl.DataFrame(paced.flows)["fct_us"]
        assert fct == pytest.approx(5e6 * 8 / 1e9 * 1e6, rel=0.02)
        unpaced = run(file, name, text, set={"transport.pacing": False})
        assert any("has no effect" in warning for warning in unpaced.summary["warnings"])
        assert pl.DataFrame(unpaced.flows)["fct_us"][0] < fct / 5


def test_a_timer_acts_when_it_is_due(tmp_path):
    """A window of one segment a round trip of 106 us, until a timer opens it after 1 ms: the rest goes at 10 Gb/s."""
    body = """
    armed: int = 0

    def on_ack(self, window, ack):
        if self.armed == 0:
            self.armed = 1
            window.timer = ack.now + 900 * pf.MICROSECOND

    def on_timer(self, window, now):
        window.cwnd = 100 * window.mss
"""
    closed = "\n    def increase(self, window, ack):\n        pass\n"
    text = INCAST.replace("senders = 8", "senders = 1").replace("500 KB", "1 MB")
    changes = {"transport.initial_window": "1 segment", "transport.delayed_ack_segments": 1, "host.rx_delay": "50 us"}
    for options in ("", ", compile=False"):
        file, name = plugin(tmp_path, body, increase=closed, options=options)
        (fct,) = pl.DataFrame(run(file, name, text, set=changes).flows)["fct_us"]
        assert fct == pytest.approx(1000 + 1e6 / 1460 * 1.23 + 106, rel=0.1)
        file, name = plugin(
            tmp_path, body.replace("armed: int = 0", "armed: int = 1"), increase=closed, options=options
        )
        assert pl.DataFrame(run(file, name, text, set=changes).flows)["fct_us"].to_list() == [None]


# Plug-ins that load, and plug-ins that are refused


def test_a_scenario_alone_loads_nothing(tmp_path):
    marker = tmp_path / "loaded"
    file, name = plugin(tmp_path, "")
    file.write_text(f"open({str(marker)!r}, 'w').close()\n" + file.read_text())
    scenario = tmp_path / "theirs.toml"
    scenario.write_text(
        f'plugins = {{ files = ["{file.name}"] }}\n{INCAST}\n[transport]\ncongestion_control = "{name}"\n'
    )
    for command in ("run", "show", "validate", "flow"):
        done = cli(command, scenario, cwd=tmp_path)
        assert done.returncode == 2
        assert "a plug-in is a program, and a scenario file alone starts none" in done.stderr
        assert f"--plugin {file.name}" in done.stderr
        assert not marker.exists()
    with pytest.raises(pf.ScenarioError, match="is not loaded"):
        pf.run(scenario, progress=False)
    assert not marker.exists()
    assert cli("run", scenario, "--allow-plugins", "-q", cwd=tmp_path).returncode == 0
    assert marker.exists()
    assert cli("run", scenario, "--plugin", file, "-q", "--force", cwd=tmp_path).returncode == 0
    assert pf.run(scenario, plugins=True, progress=False).status == "complete"


def test_results_keep_the_source_and_refuse_another(tmp_path):
    file, name = plugin(tmp_path, "")
    result = run(file, name, out=tmp_path / "out")
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    (record,) = manifest["plugins"]
    assert (record["name"], record["file"], record["source"]) == (name, file.name, file.read_text())
    assert record["sha256"] in result.scenario_toml
    again = tmp_path / "out" / "scenario.resolved.toml"
    assert pf.run(again, plugins=[file], progress=False).summary["fingerprint"] == result.summary["fingerprint"]
    file.write_text(file.read_text() + "\n# another\n")
    with pytest.raises(pf.ScenarioError, match="it has changed"):
        pf.run(again, plugins=[file], progress=False)


def test_a_newer_version_replaces_an_older_one(tmp_path):
    file, name = plugin(tmp_path, "")
    before = run(file, name).summary["fingerprint"]
    file.write_text(file.read_text().replace("// 2", "// 3"))
    after = run(file, name).summary["fingerprint"]
    assert before != after


def test_reports_need_no_plugin(tmp_path):
    file, name = plugin(tmp_path, WITH_CONSTANTS)
    run(file, name, set={"record.states": True}, out=tmp_path / "mine")
    pf.run(INCAST, set={"record.states": True}, out=tmp_path / "cubic", progress=False)
    both = (tmp_path / "mine", tmp_path / "cubic")
    assert cli("report", *both, "--out", tmp_path / "report.html").returncode == 0
    assert cli("view", *both, "--out", tmp_path / "view.html").returncode == 0
    assert cli("compare", *both, "--metric", "fct_us.p50").returncode == 0
    assert cli("topo", "show", tmp_path / "mine" / "scenario.resolved.toml").returncode == 0


def test_a_class_of_a_script(tmp_path):
    file, name = plugin(tmp_path, "")
    script = tmp_path / "script.py"
    script.write_text(
        file.read_text()
        + f"\n\nrun = pf.run({INCAST!r}, set={{'transport.congestion_control': 'script:{name.partition(':')[2]}'}}, "
        "plugins=[Mine], progress=False)\nprint(run.status)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert done.stdout == "complete\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "has no class with @pauseframe.congestion_control or @pauseframe.rate_control"),
        ("1 / 0", "failed while it was loaded (line 1): ZeroDivisionError"),
        ("import pauseframe as pf\n@pf.congestion_control('a')\nclass A:\n    pass", "has no increase"),
        (
            HEAD.format(options="") + INCREASE + "\n    def reduce(self, window, cause):\n        pass",
            "did you mean reduced?",
        ),
        (HEAD.format(options="") + INCREASE + "\n    def reduced(self, window):\n        pass", "takes 2 arguments"),
        (HEAD.format(options="") + "\n    x: int" + INCREASE + REDUCED, "has no default"),
        (HEAD.format(options="") + "\n    x: int = 'a'" + INCREASE + REDUCED, "state is a number"),
        (HEAD.format(options="") + "\n    x: int = [1] * 9000" + INCREASE + REDUCED, "at most 65536 are allowed"),
        (HEAD.format(options="").replace("mine", "cubic") + INCREASE + REDUCED, "the name of a built-in"),
        (HEAD.format(options="").replace('"mine"', '"a b"') + INCREASE + REDUCED, "is no name"),
        (
            HEAD.format(options="") + "\n    UP = pf.constant(1, 'x')" + INCREASE + REDUCED,
            "use lower-case letters, digits and '_'",
        ),
        (
            HEAD.format(options="") + "\n    x = pf.constant(5, 'x', range=(1, 2))" + INCREASE + REDUCED,
            "outside of its range",
        ),
        (HEAD.format(options="") + "\n    x = pf.constant('5 years', 'x')" + INCREASE + REDUCED, "is no time"),
        (
            HEAD.format(options="") + "\n    def increase(self, window, ack):\n        window.nothing = 1" + REDUCED,
            "window has no field nothing",
        ),
        (
            HEAD.format(options="") + "\n    def increase(self, window, ack):\n        window.mss = 1" + REDUCED,
            "window.mss can only be read",
        ),
    ],
)
def test_what_is_no_plugin(tmp_path, text, message):
    file = tmp_path / f"wrong{next(numbers)}.py"
    file.write_text(text)
    with pytest.raises(pf.InputError) as error:
        pf.run(INCAST, plugins=[file], progress=False)
    assert message in str(error.value)
    assert file.name in str(error.value) or "Mine" in str(error.value)


def test_what_is_no_library(tmp_path):
    text = tmp_path / "text.so"
    text.write_text("text")
    with pytest.raises(pf.InputError, match="cannot be loaded as a shared library"):
        pf.run(INCAST, plugins=[text], progress=False)
    empty = tmp_path / "empty.c"
    empty.write_text("int nothing;")
    with pytest.raises(pf.InputError, match=r"defines neither pauseframe_congestion_control\(\) nor"):
        pf.run(INCAST, plugins=[library(empty, tmp_path / "empty.so")], progress=False)
    old = tmp_path / "old.c"
    old.write_text((EXAMPLES / "aimd.c").read_text().replace("= PAUSEFRAME_CC_ABI", "= 99"))
    with pytest.raises(pf.InputError, match="built for version 99"):
        pf.run(INCAST, plugins=[library(old, tmp_path / "old.so")], progress=False)
    with pytest.raises(FileNotFoundError, match=r"did you mean .*empty\.so"):
        pf.run(INCAST, plugins=[tmp_path / "empt.so"], progress=False)
    with pytest.raises(pf.InputError, match="neither a Python file"):
        pf.run(INCAST, plugins=[empty], progress=False)
    with pytest.raises(TypeError, match="give a list"):
        pf.run(INCAST, plugins=str(empty), progress=False)


def test_one_class_or_file_is_no_list():
    class Mine:
        """One class."""

    for given, shown in ((Mine, "Mine"), ("mine.py", "'mine.py'"), (Path("mine.py"), "'mine.py'")):
        wanted = re.escape(f"plugins={shown}: give a list, such as plugins=[{shown}]")
        for command in (partial(pf.run, INCAST), partial(pf.sweep, INCAST, out="out"), partial(pf.run_flows, INCAST)):
            with pytest.raises(TypeError, match=wanted):
                command(plugins=given)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=wanted):
            check(given)  # type: ignore[arg-type]


def test_two_plugins_cannot_share_a_key(tmp_path):
    first, name = plugin(tmp_path, "\n    x = pf.constant(1, 'x')\n")
    second = tmp_path / f"other{next(numbers)}.py"
    second.write_text(first.read_text())
    run(first, name)
    with pytest.raises(pf.InputError, match="has the key"):
        pf.run(INCAST, plugins=[second], progress=False)


def test_an_unknown_plugin_is_one_mistake():
    with pytest.raises(pf.ScenarioError) as error:
        pf.run(INCAST, set={"transport.congestion_control": "theirs:Algo", "transport.algo_gain": 1}, progress=False)
    (problem,) = error.value.problems
    assert "a plug-in must be loaded first: add --plugin" in problem["hint"]


def test_without_numba():
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import pauseframe as pf\n"
        f"try: pf.run({INCAST!r}, plugins=[{str(EXAMPLES / 'dctcp_py.py')!r}])\n"
        "except pf.InputError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'pauseframe[plugins]'" in done.stdout


def test_numba_is_loaded_for_compiled_plugins_alone(aimd):
    code = (
        "import sys, pauseframe as pf\n"
        "pf.constant, pf.include_dir()\n"
        f"pf.run({INCAST!r}, set={{'transport.congestion_control': 'aimd:aimd_c'}}, plugins=[{str(aimd)!r}])\n"
        "print('numba' in sys.modules, 'numpy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


# Plug-ins that end a run


WRONG = {
    "zero": ("window.cwnd = 0", "set cwnd to 0; it must be from 1 to 2^40 bytes"),
    "negative": ("window.cwnd = -5", "set cwnd to -5"),
    "runs away": ("window.cwnd *= 1000", "it must be from 1 to 2^40 bytes"),
    "ssthresh": ("window.ssthresh = 0", "set ssthresh to 0"),
    "rate": ("window.pacing_rate = -1", "set pacing_rate to -1; it must be from 0 (none) to 10^15 bit/s"),
    "large rate": ("window.pacing_rate = 10**16", "10^15 bit/s"),
    "exception": ("window.cwnd += 1 // (ack.acked * 0)", "ZeroDivisionError"),
    "timer": ("window.timer = ack.now + 1", "set timer, but the algorithm has no function on_timer"),
}


@pytest.mark.parametrize("options", ["", ", compile=False"], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_answer_names_flow_time_and_seed(tmp_path, wrong, options):
    line, message = WRONG[wrong]
    increase = f"\n    def increase(self, window, ack):\n        {line}\n"
    file, name = plugin(tmp_path, "", increase=increase, options=options)
    with pytest.raises(pf.RunError) as error:
        run(file, name, seed=7)
    text = str(error.value)
    assert message in text
    assert f'congestion control "{name}" (flow ' in text
    assert "its function increase" in text
    assert "with seed 7 ended at simulated time" in text
    assert "bug of pauseframe" not in text
    # The line of the method, or with an interpreter that of the statement.
    assert re.search(rf"{re.escape(Path(file).name)}(:|, line )\d+", text), text


@pytest.mark.parametrize("options", ["", ", compile=False"], ids=["compiled", "interpreted"])
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            "def reduced(self, window, cause):\n        return window.cwnd * (ack_like(window) - 1)",
            "set the window to 0",
        ),
        (
            "def reduced(self, window, cause):\n        return float('nan') * window.cwnd",
            "NaN or a number out of range",
        ),
        ("def reduced(self, window, cause):\n        return -1.5 * window.cwnd", "set the window to -"),
        ("def alpha(self):\n        return float('nan')", "returned NaN; it must be a finite number"),
        ("def probe_after(self):\n        return 0", "returned 0; it must be from 1 on"),
        ("def on_ack(self, window, ack):\n        window.cwnd += 1", "changed cwnd, which only increase"),
        ("def init(self):\n        self.x = 1 // self.x", "its function init raised ZeroDivisionError"),
        (
            "def on_ack(self, window, ack):\n        window.timer = ack.now + 1000\n\n"
            "    def on_timer(self, window, now):\n        window.timer = now",
            "which is not after now",
        ),
    ],
)
def test_wrong_answers_of_the_other_functions(tmp_path, function, message, options):
    reduced = "" if "def reduced" in function else REDUCED
    file, name = plugin(tmp_path, f"\n    x: int = 0\n\n    {function}\n", reduced=reduced, options=options)
    file.write_text(file.read_text() + "\n\ndef ack_like(window):\n    return 1\n")
    lossy = {"switch.buffer": "30 KB", "record.series": {"every": "1 ms", "flows": ["*"]}}
    dead = {"failure": [{"link": ["host0", "switch"], "down": "1 ms"}], "transport.rto_min": "2 ms"}
    changes = lossy | (dead if "probe_after" in function else {})
    with pytest.raises(pf.RunError) as error:
        run(file, name, set=changes)
    assert message in str(error.value)


BEYOND = {
    "cwnd": ("increase(self, window, ack)", "window.cwnd = {}"),
    "ssthresh": ("on_ack(self, window, ack)", "window.ssthresh = {}"),
    "pacing_rate": ("on_ack(self, window, ack)", "window.pacing_rate = {}"),
    "timer": ("on_ack(self, window, ack)", "window.timer = {}"),
    "the window": ("reduced(self, window, cause)", "return {}"),
}


@pytest.mark.parametrize("value", ["1e300", "-1e300", "1e19", "int(1e300)", "np.int64(1e19)", "round(1e300)", "field"])
@pytest.mark.parametrize("what", BEYOND)
def test_a_constant_beyond_64_bits_ends_the_run(tmp_path, what, value):
    """Also where the compiler knows the number, and may drop what the language leaves undefined."""
    method, line = BEYOND[what]
    line = "self.x = float('inf')\n        " + line.format("self.x") if value == "field" else line.format(value)
    body = f"\n    x: float = 0.0\n\n    def {method}:\n        {line}\n"
    body += "\n    def on_timer(self, window, now):\n        pass\n"
    increase, reduced = ("" if f"def {one}" in body else text for one, text in METHODS.items())
    file, name = plugin(tmp_path, body, increase=increase, reduced=reduced, options=", paces=True")
    file.write_text("import numpy as np\n" + file.read_text())
    with pytest.raises(pf.RunError, match=f"set {what} to NaN or a number out of range"):
        run(file, name)


METHODS = {"increase": INCREASE, "reduced": REDUCED}


def test_other_compiled_code_keeps_its_conversions(tmp_path):
    from llvmlite import ir

    before = ir.IRBuilder.fptosi, ir.IRBuilder.fptoui
    file, name = plugin(tmp_path, "", increase=INCREASE.replace("ack.acked", "ack.acked * 1.0"))
    assert run(file, name).status == "complete"
    assert (ir.IRBuilder.fptosi, ir.IRBuilder.fptoui) == before


def test_loading_says_that_nothing_ends_an_interpreted_loop(tmp_path, capfd):
    compiled, _ = plugin(tmp_path, "")
    load.load([compiled])
    assert not capfd.readouterr().err
    file, _ = plugin(tmp_path, "", options=", compile=False")
    load.load([file])
    load.load([file])
    assert capfd.readouterr().err == (
        f"note: {file} runs in the interpreter (compile=False): a function that does not return is not ended after "
        "10 s; Ctrl-C ends it\n"
    )


def test_a_wrong_answer_on_another_thread(tmp_path):
    leaf_spine = INCAST.replace(
        'kind = "star", hosts = 9', 'kind = "leaf_spine", leaves = 2, spines = 2, hosts_per_leaf = 5'
    )
    increase = (
        "\n    def increase(self, window, ack):\n        window.cwnd = 0 if ack.snd_una > 100_000 else window.cwnd\n"
    )
    file, name = plugin(tmp_path, "", increase=increase)
    with pytest.raises(pf.RunError, match="set cwnd to 0"):
        run(file, name, leaf_spine, threads=2)
    assert pf.run(leaf_spine, threads=2, progress=False).status == "complete"


def test_a_wrong_answer_ends_the_command(tmp_path):
    increase = "\n    def increase(self, window, ack):\n        window.cwnd = 1 // (ack.acked * 0)\n"
    file, name = plugin(tmp_path, "", increase=increase, options=", compile=False")
    scenario = tmp_path / "incast.toml"
    scenario.write_text(INCAST)
    done = cli("run", scenario, "--plugin", file, "--set", f"transport.congestion_control={name}", cwd=tmp_path)
    assert done.returncode == 1
    assert f"ZeroDivisionError: integer division or modulo by zero ({file}, line" in done.stderr
    assert "Traceback" not in done.stderr
    (manifest,) = (tmp_path / "results").glob("incast-1*/manifest.json")
    assert json.loads(manifest.read_text())["status"] == "failed"


TRAPS = {1: "SIGFPE", 2: "SIGSEGV", 3: "SIGABRT", 4: "SIGSEGV", 5: "not returning within 10 s"}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("how", TRAPS)
def test_a_trap_ends_the_process_with_a_message(tmp_path, how, threads):
    trap = library(ROOT / "tests" / "plugin_traps.c", tmp_path / "trap.so", f"-DHOW={how}")
    scenario = tmp_path / "incast.toml"
    scenario.write_text(
        INCAST.replace('kind = "star", hosts = 9', 'kind = "leaf_spine", leaves = 2, spines = 2, hosts_per_leaf = 5')
    )
    done = cli(
        "run", scenario, "--plugin", trap, "--set", "transport.congestion_control=trap:trap", "--threads", threads,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 1
    assert f'congestion control "trap:trap" ({trap}), flow' in done.stderr
    assert f"its function increase ended the program by {TRAPS[how]}" in done.stderr


def test_a_fault_outside_of_a_plugin_goes_to_the_handler_before(aimd):
    code = (
        "import ctypes, faulthandler, pauseframe as pf\n"
        "faulthandler.enable()\n"
        f"pf.run({INCAST!r}, set={{'transport.congestion_control': 'aimd:aimd_c'}}, plugins=[{str(aimd)!r}])\n"
        "ctypes.string_at(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode < 0
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert "congestion control" not in done.stderr


@pytest.mark.parametrize("seed", range(60))
def test_random_answers_end_in_results_or_an_error(tmp_path, seed):
    """Random answers of an interpreted plug-in, which can have any value; the same events give the same outcome."""
    draw = random.Random(seed)
    anything = [
        "0",
        "-1",
        "1",
        "2**70",
        "-(2**63)",
        "1e300",
        "1e308 * 10 - 1e308 * 10",
        "1e308 * 10",
        "None",
        "'x'",
        "window",
        "[]",
    ]
    anything += ["window.cwnd", "window.cwnd * 2", "window.mss", "window.cwnd // 3", "window.ssthresh", "10**6"]

    def value(*names):
        return draw.choice([one for one in anything if "window" not in one or "window" in names])

    fields = ["cwnd", "ssthresh", "pacing_rate"]
    increase = "\n    def increase(self, window, ack):\n" + "".join(
        f"        window.{draw.choice(fields)} = {value('window')}\n" for _ in range(draw.randint(1, 3))
    )
    reduced = f"\n    def reduced(self, window, cause):\n        return {value('window')}\n"
    body = "\n    x: int = 0\n    y: float = 0.0\n\n    def on_ack(self, window, ack):\n"
    body += f"        window.ssthresh = {value('window')}\n"
    body += f"        self.x = {value('window')}\n        self.y = {value('window')}\n"
    if draw.random() < 0.5:
        body += f"\n    def alpha(self):\n        return {value()}\n"
        body += f"\n    def on_timeout(self):\n        self.x = {value()}\n"
    file, name = plugin(tmp_path, body, increase=increase, reduced=reduced, options=", compile=False")

    def outcome():
        try:
            return run(file, name, set={"record.series": {"every": "1 ms", "flows": ["*"]}}).summary["fingerprint"]
        except pf.RunError as error:
            return str(error)

    first = outcome()
    assert first == outcome()
    assert len(first) == 16 or f'congestion control "{name}"' in first
    assert "bug of pauseframe" not in first


def test_random_descriptions_are_refused():
    """Random changes to the bytes of a description cause an error or a valid plug-in, but never a crash."""
    description = vars(load_example("dctcp_py"))[classes.MARK]
    draw = random.Random(5)
    raw = load._described(description, {})
    for _ in range(200):
        copy = abi.Algorithm.from_buffer_copy(raw)
        field = draw.choice(["abi", "flags", "parameter_count", "state_size"])
        setattr(copy, field, draw.choice([0, 1, 2, 33, 2**31, 2**32 - 1] + ([2**63] if field.endswith("e") else [])))
        with pytest.raises(pf.InputError):  # The functions are missing, so loading always fails.
            _core.register_plugin("fuzz", abi.address_of(copy), file="fuzz.so", sha256="0")
    with pytest.raises(pf.InputError, match="not aligned"):
        _core.register_plugin("fuzz", 1, file="fuzz.so", sha256="0")


def load_example(stem):
    load.load([IN_PYTHON[stem]])
    module = sys.modules[f"pauseframe_plugin_{stem}"]
    return next(value for value in vars(module).values() if isinstance(value, type) and classes.MARK in vars(value))


# Sweeps with plug-ins


def sweep_axes(aimd_too=True):
    names = ["dctcp", "dctcp_py:dctcp_py", *(["aimd:aimd_c"] if aimd_too else [])]
    return {"transport.congestion_control": names}


def fingerprints(sweep):
    return {
        (row["axes"]["transport.congestion_control"], row["seed"]): sweep.manifest(row)["fingerprint"]
        for row in sweep.planned
    }


@pytest.mark.parametrize("keep_runs", [False, True])
def test_a_sweep_takes_plugins_along(tmp_path, aimd, keep_runs):
    settings = {"transport.preset": "dctcp", "transport.dctcp_py_fixed_point": True}
    files = [EXAMPLES / "dctcp_py.py", aimd]
    sweep = pf.sweep(
        INCAST, axes=sweep_axes(), seeds=2, set=settings, plugins=files, out=tmp_path / "out", keep_runs=keep_runs,
        progress=False,
    )  # fmt: skip
    assert sweep.failures == []
    found = fingerprints(sweep)
    for seed in (1, 2):
        assert found["dctcp", seed] == found["dctcp_py:dctcp_py", seed] != found["aimd:aimd_c", seed]
    (manifest,) = [one for one in sweep.manifests if "aimd" in str(one.get("plugins"))][:1]
    assert manifest["plugins"][0]["source"] is None
    assert cli("report", tmp_path / "out").returncode == 0
    compared = cli("compare", tmp_path / "out", "--metric", "fct_us.p50")
    assert "dctcp_py:dctcp_py" in compared.stdout


@pytest.mark.night
def test_tune_takes_plugins_along(tmp_path):
    """Workers load the plug-in, and the tuned parameter is its constant."""
    pytest.importorskip("numpy")
    found = pf.tune(
        INCAST, plugins=[SWIFT],
        set={"transport.congestion_control": "swift:swift"}, parameters={"transport.swift_ai": [0.5, 1.0]},
        objectives=[{"minimize": "fct_us.p50"}], trials=2, seeds=1, check_seeds=1, held_out=2, play=False,
        sensitivity=False, out=tmp_path / "out", progress=False,
    )  # fmt: skip
    assert found.recommended is not None
    assert found.recommended["transport.swift_ai"] in {0.5, 1.0}


def test_headroom_reads_a_scenario_with_a_plugin(tmp_path, aimd):
    file = tmp_path / "scenario.toml"
    file.write_text(INCAST.replace('buffer = "100 KB"', "pfc = true"))
    settings = ("--set", "transport.congestion_control=aimd:aimd_c", "--set", "transport.lossless=true")
    assert "--plugin" in cli("headroom", file, *settings).stderr
    done = cli("headroom", file, *settings, "--plugin", aimd)
    assert done.returncode == 0, done.stderr
    assert "802.1Qbb Annex O" in done.stdout


def test_shards_take_plugins_along(tmp_path, aimd):
    """Shards, such as jobs of Slurm, each name the plug-in."""
    scenario = tmp_path / "incast.toml"
    scenario.write_text(INCAST)
    options = ["--set", "transport.congestion_control=aimd,aimd:aimd_c", "--plugin", aimd, "--out", tmp_path / "out"]
    for shard in ("1/2", "2/2"):
        assert cli("sweep", scenario, *options, "--shard", shard, "--quiet").returncode == 0
    found = fingerprints(pf.load_sweep(tmp_path / "out"))
    assert found["aimd", 1] == found["aimd:aimd_c", 1]


def test_a_failure_in_a_sweep_says_what_it_was(tmp_path):
    increase = "\n    def increase(self, window, ack):\n        window.cwnd = 0\n"
    file, name = plugin(tmp_path, "", increase=increase)
    sweep = pf.sweep(
        INCAST, axes={"transport.congestion_control": ["cubic", name]}, plugins=[file], out=tmp_path / "out"
    )
    (failure,) = sweep.failures
    assert "set cwnd to 0" in json.dumps(failure)
    assert len(sweep.finished) == 1


def test_a_worker_without_the_file_gets_its_content(tmp_path):
    from pauseframe.sweep.plan import Source
    from pauseframe.sweep.task import Target, task_for

    file, name = plugin(tmp_path, "")
    load.load([file])
    source = Source.read(INCAST)
    source.set({"transport.congestion_control": name})
    plan = source.plan()
    (planned,) = plan.runs
    task = task_for(planned, Target(plugins=plan.plugins))
    file.unlink()
    code = (
        "import json, sys\nfrom pauseframe.sweep.task import compute\n"
        "answer = compute(json.load(sys.stdin))\nprint(answer.get('error'), len(answer.get('record', b'')) > 0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(task), capture_output=True, text=True, check=True
    )
    assert done.stdout == "None True\n"


# The check of plug-ins


def test_check_of_a_good_plugin(tmp_path):
    done = cli("cc", "check", SWIFT, "--out", tmp_path / "check.html")
    assert done.returncode == 0, done.stdout
    assert "BROKEN" not in done.stdout
    for scenario in ("one flow", "two flows", "incast lossy", "incast lossless", "web search"):
        assert scenario in done.stdout
    page = (tmp_path / "check.html").read_text()
    assert "swift:swift beside CUBIC and DCTCP" in page
    order = [
        page.index(part) for part in ("keeps all 10 rules of the contract", "<h2>Contract</h2>", "<summary>One flow")
    ]
    assert order == sorted(order), "the answer, the contract, and the scenarios folded"
    assert done.stdout.index("rule idle") < done.stdout.index("one flow"), "the contract before anything is simulated"
    assert is_own_page(tmp_path / "check.html"), "so that the next check may replace it"
    (tmp_path / "notes.html").write_text("<p>my own notes")
    refused = cli("cc", "check", SWIFT, "--out", tmp_path / "notes.html")
    assert (refused.returncode, "--force" in refused.stderr) == (2, True)


BREAKS = {
    "window": (INCREASE.replace("+= ack.acked", "+= 3 * ack.acked"), REDUCED),
    "marks": (INCREASE, REDUCED.replace("return window.cwnd // 2", "return window.cwnd if cause == pf.ECN else 9000")),
    "loss": (INCREASE, REDUCED.replace("return window.cwnd // 2", "return window.cwnd if cause == pf.LOSS else 9000")),
    "avoidance": (INCREASE, REDUCED),
    "own state": (
        "\n    def increase(self, window, ack):\n        SHARED[0] += 1\n        window.cwnd += SHARED[0] % 50\n",
        REDUCED,
    ),
    "below a segment": (INCREASE, REDUCED.replace("window.cwnd // 2", "window.mss // 2")),
}


@pytest.mark.parametrize("breaks", BREAKS)
def test_check_finds_what_breaks_the_contract(tmp_path, breaks):
    increase, reduced = BREAKS[breaks]
    file, _ = plugin(tmp_path, "", increase=increase, reduced=reduced, options=", compile=False")
    file.write_text(file.read_text().replace("\n\n\n@pf", "\n\nSHARED = [0]\n\n\n@pf"))
    done = cli("cc", "check", file, "--contract", "--json")
    assert done.returncode == 1
    broken = {row["rule"]: row["broken"] for row in json.loads(done.stdout)["rules"] if row["broken"]}
    if breaks == "below a segment":
        assert "less than one segment" in broken["window"]
    else:
        assert breaks in broken


@pytest.mark.parametrize("name", ["dctcp_py", "cubic_py", "swift"])
def test_the_examples_keep_the_contract(name):
    (loaded,) = load.load([IN_PYTHON[name]])
    assert [rule for rule in _core.congestion_control_contract(loaded.names[0]) if rule[2] is not None] == []


@pytest.mark.parametrize("name", ["newreno", "dctcp", "cubic", "vegas", "pfabric", "aimd", "bbr"])
def test_the_built_in_ones_keep_it(name):
    assert all(broken is None for _, _, broken in _core.congestion_control_contract(name))


def test_bolt_on_top_of_a_plugin():
    """A line-rate start in a lossless class."""
    settings = {"transport.preset": "tcp_bolt", "transport.dctcp_py_fixed_point": True}
    bolt = run(EXAMPLES / "dctcp_py.py", "dctcp_py:dctcp_py", set=settings)
    built_in = pf.run(INCAST, set={"transport.preset": "tcp_bolt"}, progress=False)
    assert (bolt.summary["drops"], bolt.summary["ecn_marks"] > 0) == (0, True)
    assert bolt.summary["fingerprint"] == built_in.summary["fingerprint"]
