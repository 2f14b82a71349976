"""The command line: outputs, exit codes, and no files left after wrong input."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

import pauseframe as pf
import pytest
from conftest import SCENARIO
from pauseframe.cli import GROUPS, _app_of, _complete, app
from pauseframe.examples import HOME
from typer.main import get_command
from typer.testing import CliRunner

PACKAGE = Path(pf.__file__).parent


def cli(*arguments, cwd=None, timeout=120):
    return subprocess.run(
        [sys.executable, "-m", "pauseframe", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=timeout,
        check=False,
    )


def test_a_key_that_is_set_twice_and_a_plug_in_without_use_are_named(tmp_path):
    twice = cli("run", HOME / "incast/incast.toml", "--set", "seed=1", "--set", "seed=2", cwd=tmp_path)
    assert twice.returncode == 2
    assert "seed is set twice: keep one" in twice.stderr
    plugin = HOME / "plugin/swift.py"
    unused = cli("run", HOME / "incast/incast.toml", "--plugin", plugin, cwd=tmp_path)
    assert f"warning: --plugin {plugin}: no transport of the scenario has the control" in unused.stderr
    choice = "transport.congestion_control=swift:swift"
    used = cli("run", HOME / "plugin/incast.toml", "--plugin", plugin, "--set", choice, cwd=tmp_path)
    assert (used.returncode, "no transport" in used.stderr) == (0, False), used.stderr


def test_files_without_anything_for_a_rule_are_named(tmp_path):
    (tmp_path / "config_db.json").write_text("{}", encoding="utf-8")
    assert "it has no table that rules read: nothing was checked" in cli("lint", "config_db.json", cwd=tmp_path).stderr


def test_wrong_options_get_no_far_fetched_advice():
    unlike = cli("busbw", "x.toml", "--op", "allreduce").stderr
    assert "No such option: --op (Possible options: --out)" in " ".join(unlike.split())
    assert "(Possible options: --seed, --set)" in " ".join(cli("run", "x.toml", "--sed", "3").stderr.split())
    wrong = cli("reproduce", "bolt/ping", "--stack", "kernl").stderr
    assert "'kernl' is not one of" in wrong
    assert "Value error" not in wrong


def test_proposed_commands_can_be_pasted_into_a_shell(scenario_file, tmp_path):
    done = cli("run", scenario_file, "--out", tmp_path / "my run (1)")
    (line,) = [line for line in done.stdout.splitlines() if "next: " in line]
    assert shlex.split(line.partition("next: ")[2]) == ["pauseframe", "report", str(tmp_path / "my run (1)")]


def test_run_writes_results_and_a_table(scenario_file, tmp_path):
    done = cli("run", scenario_file, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "flows finished" in done.stdout
    assert "pauseframe report" in done.stdout
    assert pf.load(tmp_path / "results" / "small-1").status == "complete"


def test_json_is_one_object_and_nothing_else(scenario_file, tmp_path):
    done = cli("run", scenario_file, "--json", "--seed", 7, "--out", tmp_path / "out")
    summary = json.loads(done.stdout)
    wanted = (
        "fingerprint sim_time_s wall_s events packet_hops packet_hops_per_s peak_rss_bytes flows_total flows_finished"
    )
    wanted += " drops drops_by_reason ecn_marks pfc_pauses fct_us slowdown"
    assert set(wanted.split()) <= set(summary)
    assert set(summary["fct_us"]) == {"mean", "p50", "p99", "p999", "max"}
    assert set(summary["slowdown"]) == {"p50", "p99"}
    assert summary["seed"] == 7
    assert re.fullmatch(r"[0-9a-f]{16}", summary["fingerprint"])
    assert done.stderr == ""


def test_quiet(scenario_file, tmp_path):
    done = cli("run", scenario_file, "--quiet", "--out", tmp_path / "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_set_and_force(scenario_file, tmp_path):
    first = cli("run", scenario_file, "--set", "transport.rto_min=7 ms", "--out", tmp_path / "out")
    assert first.returncode == 0
    again = cli("run", scenario_file, "--out", tmp_path / "out")
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert 'rto_min = "7 ms"' in pf.load(tmp_path / "out").scenario_toml
    assert cli("report", tmp_path / "out").returncode == 0
    assert [cli("export", ending, tmp_path / "out").returncode for ending in ("csv", "arrow")] == [0, 0]
    (tmp_path / "out" / "arrow" / "mine.txt").write_text("not ours")
    forced = cli("run", scenario_file, "--force", "--quiet", "--out", tmp_path / "out")
    assert (forced.returncode, forced.stdout) == (0, "")
    assert forced.stderr == "note: the new run removed report.html, csv, arrow with the results of the old run\n"
    assert not any((tmp_path / "out" / name).exists() for name in ("report.html", "csv"))
    assert [path.name for path in (tmp_path / "out" / "arrow").iterdir()] == ["mine.txt"]
    assert 'rto_min = "7 ms"' not in pf.load(tmp_path / "out").scenario_toml


WRONG = {
    "unknown key": (SCENARIO.replace("senders", "sendrs"), "senders"),
    "no unit": (SCENARIO.replace('"200 KB"', "200"), "workload.0.size"),
    "negative": (SCENARIO.replace('"1 us"', '"-1 us"'), "topology.link.delay"),
    "gigantic": (SCENARIO.replace('"200 KB"', '"99999999999999999999 TB"'), "workload.0.size"),
    "zero rate": (SCENARIO.replace('"10 Gbps"', '"0 Gbps"'), "topology.link.rate"),
    "truncated": (SCENARIO[:120], ""),
    "empty": ("", "topology"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_scenarios(name, tmp_path):
    text, mentioned = WRONG[name]
    file = tmp_path / "wrong.toml"
    file.write_text(text)
    done = cli("run", file, "--json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert mentioned in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "results").exists()
    assert cli("validate", file).returncode == 2


def test_all_mistakes_at_once(tmp_path):
    file = tmp_path / "wrong.toml"
    file.write_text(SCENARIO.replace("senders", "sendrs").replace('"200 KB"', "200").replace('"1 us"', '"-1 us"'))
    lines = cli("run", file, "--set", "transport.preset=bolt").stderr.splitlines()
    assert len(lines) >= 4
    for path in ("workload.0.sendrs", "workload.0.size", "topology.link.delay", "transport.preset"):
        assert any(path in line for line in lines)


def test_files_that_are_no_scenarios(tmp_path):
    binary = tmp_path / "binary.toml"
    binary.write_bytes(bytes(range(256)))
    for path in (binary, tmp_path / "missing.toml", tmp_path):
        done = cli("run", path)
        assert done.returncode == 2
        assert str(path) in done.stderr
        assert "Traceback" not in done.stderr


def test_unwritable_output(scenario_file, tmp_path):
    (tmp_path / "file").write_text("")
    done = cli("run", scenario_file, "--out", tmp_path / "file" / "out")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert str(tmp_path / "file") in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt(scenario_file, tmp_path, number):
    settings = ["--set", "stop=1 h", "--set", "workload.1.stop=1 h", "--set", "workload.1.rate=20000.0"]
    command = [sys.executable, "-m", "pauseframe", "run", scenario_file, *settings, "--json", "--out", tmp_path / "out"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120
        while not (tmp_path / "out" / "manifest.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(process.pid, number)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "kept" in stderr
    assert json.loads(stdout)["status"] == "interrupted"
    assert pf.load(tmp_path / "out").interrupted


def test_show(scenario_file):
    text = cli("show", scenario_file, "--set", "transport.dup_thresh=4").stdout
    assert re.search(r"transport\.dup_thresh +4 +--set", text)
    assert re.search(r"transport\.congestion_control +\"?dctcp\"? +preset dctcp", text)
    rows = json.loads(cli("show", scenario_file, "--json").stdout)
    assert {"path": "name", "value": '"small"', "origin": "file"} in rows
    toml = cli("show", scenario_file, "--toml").stdout
    assert pf.Scenario.from_toml(toml).resolve().toml == toml


def test_one_preset_with_its_sources():
    rows = json.loads(cli("presets", "tcp_bolt", "--json").stdout)
    values = {row["key"]: row["value"] for row in rows}
    assert values["congestion_control"].strip('"') == pf.presets()["tcp_bolt"]["congestion_control"].strip('"')
    assert all(row["source"] for row in rows if row["origin"] != "default")
    of_stack = json.loads(cli("presets", "dctcp", "--stack", "linux", "--json").stdout)
    assert any(row["origin"] == "stack linux" for row in of_stack)
    assert "RFC" in cli("presets", "dctcp", "--stack", "linux").stdout
    assert json.loads(cli("presets", "dctcp", "--json").stdout) == of_stack, "Linux is its own stack"
    for wrong in (["presets", "bolt"], ["presets", "--stack", "linux"], ["show"]):
        assert cli(*wrong).returncode == 2


def test_presets_and_options():
    text = cli("presets").stdout
    for name in ("newreno", "tcp_dcb", "dctcp", "dctcp_plus", "tcp_bolt"):
        assert name in text
    rows = json.loads(cli("presets", "--json").stdout)
    assert {name: row["values"] for name, row in rows.items()} == pf.presets()
    assert "switch.pfc.xoff" in cli("options", "xoff").stdout
    # Not in this process, where other tests have loaded plug-ins with keys.
    count = [sys.executable, "-c", "import pauseframe as pf; print(len(pf.options()))"]
    options = subprocess.run(count, check=True, capture_output=True, text=True).stdout
    assert len(json.loads(cli("options", "--json").stdout)) == int(options)


def test_a_run_shows_the_network_and_with_v_the_simulator(scenario_file, tmp_path):
    simulator = ("wall time", "packet hops/s", "memory, peak", "fingerprint", "threads: ", "events")
    for command in ("run", "flow"):
        plain = cli(command, scenario_file, "--out", tmp_path / command).stdout
        assert "flows finished" in plain
        assert not any(word in plain for word in simulator), plain
        verbose = cli(command, scenario_file, "--out", tmp_path / command, "-v").stdout
        known = simulator if command == "run" else ("wall time", "memory, peak")
        assert all(word in verbose for word in known), verbose
    assert "pause frames" in cli("run", scenario_file, "--out", tmp_path / "run").stdout


def test_a_run_on_storage_shows_its_operations(tmp_path):
    printed = cli("run", HOME / "storage" / "storage.toml", "--out", tmp_path / "run").stdout
    assert re.search(r"flows finished +\d,\d{3} of \d,\d{3}\n", printed)
    assert re.search(r"storage, read +\d+ +\d+,\d{3} +\d+ Gb/s +[\d.]+ ms", printed)


def test_numbers_have_one_form_in_all_sources():
    """No thin spaces between thousands, no micro sign for times, no small k of bytes and rates (`terminal.text`)."""
    sources = [
        path for kind in ("py", "js", "j2") for path in PACKAGE.rglob(f"*.{kind}") if path.parent.name != "assets"
    ]
    assert len(sources) > 150
    wrong = re.compile(r"\\u20(09|2f)|[\u2009\u202f]|[0-9})] ?µs|[0-9})] ?(kB|kb/s)\b|:\.?\d?[fg]\} Gbps")
    found = {(path.name, part[0]) for path in sources for part in wrong.finditer(path.read_text(encoding="utf-8"))}
    assert found == set()


def on_terminal(*arguments, columns):
    """What a command prints on a terminal, without colours."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (40, columns))
    command = [sys.executable, "-m", "pauseframe", *map(str, arguments)]
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    with subprocess.Popen(command, stdout=its, env=environment | {"TERM": "xterm"}) as process:
        os.close(its)
        text = b""
        with suppress(OSError):  # the end of a terminal
            while part := os.read(ours, 65536):
                text += part
    os.close(ours)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", text.decode()).splitlines()


@pytest.mark.parametrize("columns", [70, 100])
def test_lists_fit_the_terminal_and_cut_nothing(columns, scenario_file):
    for command in (["presets"], ["presets", "dctcp"], ["options"], ["show", scenario_file]):
        lines = on_terminal(*command, columns=columns)
        assert max(map(len, lines)) <= columns, command
        assert not any("…" in line for line in lines), command


def test_presets_are_one_table_of_100_columns():
    lines = cli("presets").stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) < 3 * len(pf.presets())
    assert {line.split()[0] for line in lines if line[:1].isalpha()} >= pf.presets().keys()


def test_options_are_found_by_their_condition():
    found = json.loads(cli("options", "udp", "--json").stdout)
    of_udp = [row for row in pf.options() if "= udp" in row["when"]]
    assert [row for row in found if row in of_udp] == of_udp != []


def test_presets_say_what_vouches_for_them():
    """Presets show their stack, their kernel and the calibrated figures, and say so if no kernel has the preset."""
    rows = json.loads(cli("presets", "--json").stdout)
    assert {name for name, row in rows.items() if row["values"].get("stack", '"linux"') != '"linux"'} == {"pfabric"}
    assert {name for name, row in rows.items() if row["calibration"] is None} == {
        "tcp_dcb",
        "tcp_bolt",
        "pfabric",
        "roce_cx5",
        "roce_dcqcn",
        "roce_hpcc",
        "roce_timely",
        "roce_swift",
        "uec_nscc",
        "udp",
        "bbr",
    }
    dctcp = rows["dctcp"]["calibration"]
    assert dctcp == rows["dctcp_plus"]["calibration"], "the same transport on Linux"
    assert dctcp["kernel"].startswith("Linux 6.1")
    assert dctcp["figures"] == sum(row["figures"] for row in dctcp["scenarios"].values()) > 80
    assert set(rows["vegas"]["calibration"]["scenarios"]) == {"a_single_vegas"}
    assert re.search(rf"dctcp +linux +{dctcp['inside']} of {dctcp['figures']} ", cli("presets").stdout)
    assert f"{dctcp['kernel']}: {dctcp['inside']} of {dctcp['figures']} figures" in cli("presets", "dctcp").stdout
    assert "a_single_vegas (13 of 13)" in cli("presets", "vegas").stdout
    for unknown in (["tcp_bolt"], ["vegas", "--stack", "none"]):
        assert "no figure beside a real kernel vouches for it" in cli("presets", *unknown).stdout


def test_validate(scenario_file, tmp_path):
    done = cli("validate", scenario_file, scenario_file)
    assert done.returncode == 0
    assert done.stdout.count(": ok") == 2
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(SCENARIO.replace("senders", "sendrs"))
    mixed = cli("validate", scenario_file, wrong, tmp_path / "none.toml", "--json")
    right, bad, missing = json.loads(mixed.stdout)
    assert (mixed.returncode, mixed.stderr) == (2, "")
    assert (right["ok"], right["runs"], right["problems"]) == (True, 1, [])
    assert (bad["ok"], bad["problems"][0]["path"]) == (False, "workload.0.sendrs")
    assert (missing["ok"], "there is no such file" in missing["problems"][0]["message"]) == (False, True)


def test_a_scenario_from_standard_input(scenario_file, tmp_path):
    def piped(*arguments, text=None):
        return subprocess.run(
            [sys.executable, "-m", "pauseframe", *arguments],
            input=text or scenario_file.read_text(),
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )

    from_pipe = json.loads(piped("run", "-", "--json").stdout)
    from_file = json.loads(cli("run", scenario_file, "--json", "--out", tmp_path / "file").stdout)
    assert from_pipe["fingerprint"] == from_file["fingerprint"]
    assert pf.load(tmp_path / "results" / "small-1").status == "complete"
    assert piped("validate", "-").returncode == piped("show", "-").returncode == 0
    wrong = piped("run", "-", text=SCENARIO.replace("senders", "sendrs"))
    assert (wrong.returncode, "standard input" in wrong.stderr) == (2, True)
    assert piped("validate", "-", "-").returncode == 2


def test_version():
    assert cli("-V").stdout == cli("--version").stdout == f"pauseframe {pf.__version__}\n"


def completed(shell, *words, cwd=None):
    """What a shell completes, asked as its completion script asks; the last word is the one at the cursor."""
    asked = {
        "source": {},
        "bash": {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)},
        "zsh": {"_TYPER_COMPLETE_ARGS": " ".join(words)},
        "fish": {"_TYPER_COMPLETE_ARGS": " ".join(words), "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
    }[shell if words else "source"]
    program = "import sys; sys.argv[:] = ['pauseframe']; from pauseframe.cli import main; main()"
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | asked | {"_PAUSEFRAME_COMPLETE": f"{'complete' if words else 'source'}_{shell}"},
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    ).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell):
    """Loads the completion script in a shell, and asks it for words."""
    assert "_PAUSEFRAME_COMPLETE" in completed(shell)
    assert {"report", "reproduce"} <= set(re.findall(r"\w+", completed(shell, "pauseframe", "rep")))
    assert "tcp_bolt" in completed(shell, "pauseframe", "presets", "tcp_b")


@pytest.mark.parametrize(
    ("line", "words"),
    {
        "presets tcp_": ["tcp_bolt", "tcp_dcb"],
        "example sto": ["storage", "storm"],
        "reproduce bolt/fig1": ["bolt/fig11", "bolt/fig12", "bolt/fig14"],
        "lint --select PF01,PF07": ["PF01,PF070", "PF01,PF071", "PF01,PF072", "PF01,PF073", "PF01,PF074", "PF01,PF075"],
        "lint --explain PF09": ["PF090", "PF091"],
        "run a.toml --set switch.pfc.xo": ["switch.pfc.xoff=", "switch.pfc.xon="],
        "run a.toml --set host.gro = t": ["true"],
        "run a.toml --set transport.preset = dctcp --set transport.preset = tcp_": ["tcp_dcb", "tcp_bolt"],
        "sweep a.toml --set qcn.q_e": ["qcn.q_eq="],
        "reproduce all --set host.stac": ["host.stack=simulated", "host.stack=kernel"],
        "tune a.toml --parameter switch.pfc.xof": ["switch.pfc.xoff="],
        "view ": ["results/incast-1", "results/incast-1-preset=dctcp"],
        "report results/incast-1-preset = d": ["dctcp"],
        "export csv res": ["results/incast-1", "results/incast-1-preset=dctcp"],
    }.items(),
)
def test_completion_of_values(line, words, tmp_path):
    """Bash splits words at `=`; it replaces the last part."""
    for name in ("incast-1", "incast-1-preset=dctcp"):
        (tmp_path / "results" / name).mkdir(parents=True)
        (tmp_path / "results" / name / "manifest.json").write_text('{"program": "pauseframe"}')
    assert completed("bash", "pauseframe", *line.split(" "), cwd=tmp_path).splitlines() == words


def test_completed_experiments_are_all():
    listed = {row["experiment"] for row in json.loads(cli("reproduce", "--list", "--json").stdout)}
    assert {name for name in _complete.experiments("") if "/" in name} == listed


def test_completion_loads_no_heavy_library(tmp_path):
    """A shell waits for the answer."""
    calls = "; ".join(f"_complete.{name}('')" for name in ("presets", "examples", "experiments", "rules", "results"))
    program = f"import sys; from pauseframe.cli import _complete; {calls}; _complete.settings('s'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert not {"polars", "pydantic", "rich"} & set(done.stdout.split())


def leaves(command, path=()):
    """Every command that has no subcommands, with its path."""
    if hasattr(command, "commands"):
        for name, sub in command.commands.items():
            yield from leaves(sub, (*path, name))
    else:
        yield path, command


COMMANDS = dict(leaves(get_command(app)))


@pytest.mark.parametrize("group", GROUPS)
def test_a_file_of_commands_has_those_that_it_is_loaded_for(group):
    assert tuple(dict.fromkeys(path[0] for path, _ in leaves(get_command(_app_of([group]))))) == GROUPS[group]


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_prints_json_and_has_an_example(path):
    command = COMMANDS[path]
    assert any("--json" in parameter.opts for parameter in command.params)
    assert re.search(rf"Examples?: .*pauseframe {' '.join(path)}\b", command.epilog or "")


def test_schema(tmp_path):
    printed = json.loads(cli("schema").stdout)
    assert printed["properties"]["topology"]
    assert cli("schema", "-o", tmp_path / "scenario.schema.json").returncode == 0
    assert json.loads((tmp_path / "scenario.schema.json").read_text()) == printed
    assert cli("schema", "-o", tmp_path / "scenario.schema.json").returncode == 2


JSON = (
    "schema",
    "presets",
    "presets dctcp",
    "options pfc",
    "topo families",
    "route engines",
    "lint --rules",
    "topo draw fat_tree:k=4 -o fabric.svg",
    "topo export fat_tree:k=4 -o fabric.graphml",
    "headroom --rate 100G --cable 40m",
    "reproduce --list",
    "report RUN --out report.html",
    "compare RUN",
)


@pytest.mark.parametrize("command", JSON)
def test_json_is_all_there_is_on_stdout(command, folders, tmp_path):
    done = cli(*(folders["dctcp"] if word == "RUN" else word for word in command.split()), "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    json.loads(done.stdout)


def test_report(folders, tmp_path):
    runner = CliRunner()
    out = tmp_path / "compare.html"
    done = runner.invoke(app, ["report", str(folders["dctcp"]), str(folders["tcp_bolt"]), "--out", str(out)])
    assert done.exit_code == 0
    assert 100_000 < out.stat().st_size < 600_000
    missing = cli("report", tmp_path / "nothing")
    assert missing.returncode == 2
    assert "not a results folder" in missing.stderr


def test_report_of_a_real_run(scenario_file, tmp_path):
    series = ["--set", "record.series.every=100 us", "--set", 'record.series.flows=["*"]']
    assert cli("run", scenario_file, *series, "--out", tmp_path / "out").returncode == 0
    assert cli("report", tmp_path / "out").returncode == 0
    html = (tmp_path / "out" / "report.html").read_text()
    assert "Backlog (egress queues)" in html
    assert "Congestion window" in html


def test_backups_close_no_cycle_with_routes_beyond_the_rules(tmp_path):
    """In this torus, the orders leave pairs without a route; those pairs' own routes take forbidden turns."""
    torus = "torus:lengths=24x24,hosts_per_switch=1"
    done = cli("route", "plan", torus, "--effort", "fast", "--out", tmp_path / "plan")
    assert done.returncode == 0, done.stderr
    assert "no cycle" in done.stdout
