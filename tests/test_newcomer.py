"""Wrong inputs of a beginner: every message names place, reason and remedy, and no message misleads.

A message misleads if it proposes a value of another magnitude or an option that means something else.
"""

from dataclasses import dataclass

import pauseframe as pf
import pytest
from pauseframe.cli import app
from typer.testing import CliRunner

GOOD = """name = "first"
stop = "1 ms"

[topology]
kind = "star"
hosts = 4
link = { rate = "10 Gbps", delay = "1 us" }

[switch]
buffer = "100 KB"

[transport]
preset = "newreno"

[[workload]]
name = "web"
kind = "background"
sizes = { kind = "fixed", size = "20 KB" }
arrivals = { kind = "load", load = 0.3 }

[record]
series = { every = "1 ms", ports = ["*"] }
"""
WORKLOAD = GOOD[GOOD.index('kind = "background"') : GOOD.index("[record]")]
FABRIC = GOOD[GOOD.index('kind = "star"') : GOOD.index("[switch]")]


@dataclass(frozen=True)
class Case:
    """An input, texts that the answer must contain (place, reason, remedy), and texts that it must not contain."""

    write: str
    instead_of: str
    place: str
    reason: str
    cure: str = ""
    never: str = ""


SCENARIOS = {
    "bytes for bits": Case('"10 GBps"', '"10 Gbps"', "topology.link.rate", "a capital B counts bytes", '"80 Gbps"'),
    "small letters": Case('"10 gbps"', '"10 Gbps"', "topology.link.rate", "unknown unit", 'write "10 Gbps"'),
    "all capitals": Case('"10 GBPS"', '"10 Gbps"', "topology.link.rate", "bits or bytes", "8 times"),
    "seconds as a float": Case(
        "delay = 1e-6", 'delay = "1 us"', "topology.link.delay", "no unit", 'write "1 us"', "1e-6 us"
    ),
    "a bare delay": Case(
        "delay = 1", 'delay = "1 us"', "first.toml:7", "no unit", 'if 1 is in seconds, write "1 s"', '"1 us"?'
    ),
    "a bare rate": Case("rate = 10", 'rate = "10 Gbps"', "first.toml:7", "no unit", "Gbps", "did you mean"),
    "bits as a float": Case(
        "rate = 10e9", 'rate = "10 Gbps"', "first.toml:7", "no unit", 'write "10 Gbps"', "10000000000.0 Gbps"
    ),
    "a bare buffer": Case("buffer = 100000", 'buffer = "100 KB"', "first.toml:10", "no unit", 'write "100 KB"'),
    "a text without a unit": Case('"1"', '"1 us"', "topology.link.delay", "no unit", 'write "1 s"', "1 us"),
    "a micro sign": Case('"1 \u00b5s"', '"1 us"', "topology.link.delay", "unknown unit", 'write "1 us"'),
    "a rate for a time": Case(
        '"1 Gbps"', '"1 us"', "topology.link.delay", "Gbps is the unit of a rate", "a time such as"
    ),
    "an exponent": Case('"1e-6 s"', '"1 us"', "topology.link.delay", "exponents are not read", 'write "1 us"'),
    "a decimal comma": Case('"1,5 us"', '"1 us"', "topology.link.delay", "unknown unit", "decimal point"),
    "bits for bytes": Case(
        '"100 kb"', '"100 KB"', "switch.buffer", "a small b counts bits", "write B for bytes", '"100 KB"?'
    ),
    "packets": Case(
        '"100 packets"', '"100 KB"', "switch.buffer", "sizes are in bytes", "multiply by the bytes of a packet"
    ),
    "no quotes": Case("delay = 1 us", 'delay = "1 us"', "first.toml:7", "must be quoted", "stand in quotes"),
    "a word without quotes": Case(
        "preset = dctcp", 'preset = "newreno"', "first.toml:13", "must be quoted", "stand in quotes"
    ),
    "a percentage": Case(
        "load = 30", "load = 0.3", "workload.0.arrivals.load", "a share, not a percentage", "write 0.3"
    ),
    "a percent sign": Case('load = "30%"', "load = 0.3", "workload.0.arrivals.load", "is text", "write 0.3"),
    "a negative rate": Case(
        '"-10 Gbps"', '"10 Gbps"', "topology.link.rate", "does not begin with a number", "cannot be negative"
    ),
    "negative hosts": Case("hosts = -4", "hosts = 4", "topology.hosts", "not a whole number", "from 0 to"),
    "hosts as text": Case('hosts = "4"', "hosts = 4", "topology.hosts", "is text", "write 4 without quotes"),
    "dcqcn": Case(
        '"dcqcn"', '"newreno"', "transport.preset", "is not one of cubic", 'did you mean "roce_dcqcn"?', '"dctcp"?'
    ),
    "published flow sizes as a kind": Case(
        'kind = "websearch"',
        'kind = "fixed", size = "20 KB"',
        "workload.0.sizes.kind",
        "is not one of fixed",
        'write sizes = "web_search"',
    ),
    "copa": Case('"copa"', '"newreno"', "transport.preset", "not modelled yet", "is not one of cubic", "did you mean"),
    "a typo of a preset": Case('"dtcp"', '"newreno"', "transport.preset", "is not one of", 'did you mean "dctcp"?'),
    "tcp": Case('"tcp"', '"newreno"', "transport.preset", "is not one of", '"cubic" or "newreno"', '"dctcp"?'),
    "clos": Case('"clos"', '"star"', "topology.kind", "is not one of", '"leaf_spine" or "fat_tree"'),
    "bandwidth": Case("bandwidth =", "rate =", "topology.link.bandwidth", "unknown key", 'did you mean "rate"?'),
    "latency": Case("latency =", "delay =", "topology.link.latency", "unknown key", 'did you mean "delay"?'),
    "a wrong table": Case("[switches]", "[switch]", "switches", "unknown key", 'did you mean "switch"?'),
    "a key of another table": Case(
        '[transport]\nmtu = "9000 B"', "[transport]", "transport.mtu", "unknown key", "belongs in [host]"
    ),
    "a table of another": Case(
        '[pfc]\nxoff = "50 KB"\n[switch]', "[switch]", "pfc", "unknown key", "belongs in [switch]"
    ),
    "a seed as text": Case('name = "x"\nseed = "one"', 'name = "first"', "seed", "is text", "a whole number"),
    "no topology": Case("", "[topology]\n" + FABRIC, "topology.kind", "is required", "add a line [topology]"),
    "no workload": Case(
        "", '[[workload]]\nname = "web"\n' + WORKLOAD, "workload", "is required", "[[workload]] with kind"
    ),
    "no end": Case("", 'stop = "1 ms"\n', "workload.0.stop", "no end", 'stop = "50 ms"'),
    "duration": Case('duration = "1 ms"', 'stop = "1 ms"', "duration", "unknown key", 'did you mean "stop"?'),
    "no size": Case(
        'kind = "n_to_1"\nsenders = 3\n\n', WORKLOAD, "workload.0.size", "is required: size", "under [[workload]]"
    ),
    "an unknown host": Case(
        'kind = "n_to_1"\nsenders = 3\nreceiver = "hots0"\nsize = "1 KB"\n\n',
        WORKLOAD,
        "workload.0.receiver",
        'there is no host "hots0"',
        'did you mean "host0"?',
    ),
    "a host behind the last": Case(
        'kind = "n_to_1"\nsenders = 3\nreceiver = "host99"\nsize = "1 KB"\n\n',
        WORKLOAD,
        "workload.0.receiver",
        'there is no host "host99"',
        "(host0 to host",
    ),
    "too many senders": Case(
        'kind = "n_to_1"\nsenders = 10\nsize = "1 KB"\n\n',
        WORKLOAD,
        "workload.0.senders",
        "10 is not possible",
        "choose 1 to 3",
    ),
    "poisson": Case('kind = "poisson"', 'kind = "background"', "workload.0.kind", "is not one of", '"background"'),
    "a number for a host": Case(
        'kind = "n_to_1"\nsenders = 3\nreceiver = 0\nsize = "1 KB"\n\n',
        WORKLOAD,
        "workload.0.receiver",
        "0 is a number; expected text in quotes",
        'write "0"',
    ),
    "True": Case(
        "flows = True", 'series = { every = "1 ms", ports = ["*"] }', "first.toml:22", "not TOML", "in small letters"
    ),
    "yes": Case(
        'flows = "yes"', 'series = { every = "1 ms", ports = ["*"] }', "record.flows", "is text", "true or false"
    ),
    "no list": Case('ports = "*"', 'ports = ["*"]', "record.series.ports", "expected a list", 'write ["*"]'),
    "a key twice": Case(
        "hosts = 4\nhosts = 8", "hosts = 4", "first.toml:7", "duplicate key", "each key and each table once"
    ),
    "an open quote": Case('name = "first', 'name = "first"', "first.toml:1", "not TOML", "ends with a quote"),
    "hosts that forward": Case(
        'kind = "custom"\nhosts = ["a", "b", "c"]\nswitches = ["s", "t"]\n'
        'links = [["a", "s"], ["b", "s"], ["b", "t"], ["c", "t"]]\n\n',
        FABRIC,
        "topology",
        'every path between "a" and "c" passes through other hosts',
        "link them by switches",
    ),
    "an odd fat tree": Case(
        'kind = "fat_tree"\nk = 3', 'kind = "star"\nhosts = 4', "topology.k", "must be even", "at least 2"
    ),
    "a priority": Case("[transport]\npriority = 9", "[transport]", "transport.priority", "9 is outside", "0 to 7"),
    "PFC on": Case('[switch]\npfc = "on"', "[switch]", "switch.pfc", "is text", "write true, without quotes", "["),
    "ECN at the switch": Case(
        "[switch]\necn = true", "[switch]", "switch.ecn", "unknown key", 'did you mean "marker"?', "belongs in"
    ),
    "hosts with a point": Case("hosts = 4.0", "hosts = 4", "topology.hosts", "has a decimal point", "write 4"),
    "a load beside the arrivals": Case(
        'arrivals = { kind = "load", load = 0.3 }\nload = 0.3',
        'arrivals = { kind = "load", load = 0.3 }',
        "workload.0.load",
        "unknown key",
        "it belongs in [workload.arrivals]",
        "hotspot",
    ),
    "a stop with a mistake": Case(
        'stop = "1 msec"', 'stop = "1 ms"', "stop.time", "unknown unit", 'write "1 ms"', "this workload has no end"
    ),
    "a stop without a unit": Case(
        "stop = 0.001", 'stop = "1 ms"', "stop.time", "no unit", 'write "1 ms"', "this workload has no end"
    ),
    "a comment of C": Case(
        '// mine\nname = "first"', 'name = "first"', "first.toml:1", "not TOML", "comments begin with #", "quotes"
    ),
    "no comma": Case(
        'kind = "load" load', 'kind = "load", load', "first.toml:19", "missing comma", "two keys of { }", "quotes"
    ),
}


@pytest.fixture
def desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.toml").write_text(GOOD)
    return tmp_path


def mistakes(said):
    """The lines of an answer without the lines of the file that it shows."""
    return [line for line in said.splitlines() if not line.startswith("  ")]


def answer(*command: str) -> str:
    """The stderr output of a command that must be refused as wrong input."""
    done = CliRunner().invoke(app, list(command))
    if isinstance(done.exception, Exception):
        from pauseframe.cli._errors import complain, exit_code_of

        assert exit_code_of(done.exception) == 2, done.exception
        said: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pauseframe.cli._errors.say", said.append)
            complain(done.exception)
        return "\n".join(said)
    assert done.exit_code == 2, done.output
    return done.stderr


def test_there_are_at_least_39():
    assert len(SCENARIOS) + len(COMMANDS) >= 39


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_wrong_scenario_is_answered_with_place_reason_and_cure(name, desk):
    case = SCENARIOS[name]
    assert GOOD.count(case.instead_of) == 1
    (desk / "first.toml").write_text(GOOD.replace(case.instead_of, case.write))
    said = answer("validate", "first.toml")
    for part in (case.place, case.reason, case.cure):
        assert part in said, said
    assert not case.never or case.never not in said, said
    assert len(mistakes(said)) <= 5


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("a.yaml", "name: first\ntopology:\n  kind: star\n  hosts: 4\n", "YAML"),
        ("a.toml", "name: first\ntopology:\n  kind: star\n  hosts: 4\n", "YAML"),
        ("a.json", '{"name": "first", "topology": {"kind": "star"}}', "JSON"),
        ("a.csv", "src,dst,size_bytes,start_us\nhost0,host1,1000,0\n", "a list of flows"),
        ("flow.txt", "1\n0 1 3 100 1000 2\n", "a list of numbers"),
        ("fabric.graphml", "<graphml></graphml>", "a topology in GraphML"),
        ("a.toml", "{'name': 'first', 'seed': 1}", "JSON with a mistake, or a Python dictionary"),
    ],
)
def test_files_of_another_kind_are_called_by_their_name(name, text, language, desk):
    (desk / name).write_text(text)
    said = answer("run", name)
    assert said.startswith((f"{name}: this is {language}, not ", f"error: {name} is {language}, not "))
    assert "TOML" in said
    assert "[topology]" in said or "[[workload]]" in said
    assert len(mistakes(said)) == 1


COMMANDS = {
    "report good.toml": ("good.toml", "is a scenario, not a results folder", "pauseframe run good.toml"),
    "view good.toml": ("good.toml", "is a scenario, not a results folder", "pauseframe run good.toml"),
    "compare good.toml good.toml": ("good.toml", "is a scenario, not a results folder", "pauseframe run good.toml"),
    "export csv good.toml": ("good.toml", "is a scenario, not a results folder", "pauseframe run good.toml"),
    "report out/flows.parquet": (
        "out/flows.parquet",
        "is a file, not a results folder",
        "did you mean its folder out?",
    ),
    "report uot": ("uot", "there is no such folder", "did you mean out?"),
    "run out": ("out", "is a folder, not a scenario file", "out/scenario.resolved.toml"),
    "run goob.toml": ("goob.toml", "there is no such file", "did you mean good.toml?"),
    "run good.toml --seed 9 --out out": ("out", "not empty", "--force"),
    "good.toml": ("good.toml", "is not a command", "pauseframe run good.toml"),
    "simulate good.toml": ("simulate", "is not a command", "did you mean run?"),
    "run good.toml --set transport.preset dctcp": ("(dctcp)", "unexpected extra argument", "PATH=VALUE"),
    "run dctcp good.toml": ("(good.toml)", "unexpected extra argument", "--set KEY=VALUE"),
    "run good.toml --set topology.hosts=many": ("--set: topology.hosts", "is text", "a whole number"),
    "run good.toml --seed one": ("--seed", "'one'", "a whole number from 0"),
    "sweep good.toml --seeds abc": ("--seeds", "abc", "3,5,8"),
    "export csv out --table flow": ("out", "'flow' is not one of", "did you mean flows?"),
    "presets dcqcn": ("NAME", "is not one of cubic", 'did you mean "roce_dcqcn"?'),
    "run good.toml --out good.toml": ("good.toml", "is a file", "name a folder"),
    "flow good.toml --out good.toml": ("good.toml", "is a file", "name a folder"),
    "report out --out .": (".", "is a folder", "name a file, such as page.html"),
    "run good.toml --seed -1": ("--seed", "'-1'", "a whole number from 0"),
    "run good.toml --seeds 5": ("run", "No such option: --seeds", "sweep, tune, reproduce have it"),
    "version": ("version", "is not a command", "pauseframe --version"),
    "help": ("help", "is not a command", "pauseframe --help"),
    "list": ("list", "is not a command", "reproduce --list"),
    "init": ("init", "is not a command", "a scenario file that you write"),
    "export parquet out": ("export", "'parquet' is not one of", "csv"),
    "export out": ("export", "'out' is not one of", "the command comes first"),
    "lint out": ("out is the results folder of a run", "device files are config_db.json", "pauseframe report out"),
    "lint good.toml": ("good.toml", "is a scenario, not a device file", "device files are config_db.json"),
    "route check fat_tree:k=4 out": ("out", "holds the results of a run", "route plan"),
    "sweep good.toml --set topology.hosts=4..8": ("--set", "is no range", "from = 4, to = 8"),
    "tune good.toml": ("tune.parameters", "names no key", "[tune.parameters]"),
    "reproduce fig11": ("'fig11'", "is no paper, experiment or claim", "bolt/fig11"),
    "options ecn_threshold": ("'ecn_threshold'", "no key has", "pauseframe options ecn"),
    "options kmin": ("'kmin'", "no key has", "pauseframe options lists all"),
    "options topolgy.kind": ("'topolgy.kind'", "no key has", "did you mean topology.kind?"),
    "import pcap .": (".", "is a folder", "name a file in it"),
    "import hpcc .": (".", "is a folder", "name a file in it"),
    "headroom --rate 100GB --cable 40m": ("'100GB'", "a capital B counts bytes", "write 800G"),
    "headroom --rate 100GBps --cable 40m": ("'100GBps'", "a capital B counts bytes", "write 800G"),
    "headroom --rate 100G --cable 40m --mtu 9.1k": ("--mtu", "'9.1k'", "is not a whole number from 68 to 9,216"),
    "tune good.toml --trials 0": ("--trials", "'0'", "is not a whole number from 1 on"),
    "compare out --level 95": ("--level", "'95'", "is not a number from 0.5 to 0.9999"),
    "report out --out good.toml": ("good.toml is a scenario", "would overwrite it", "name another file"),
    "compare out --csv good.toml": ("good.toml is a scenario", "would overwrite it", "name another file"),
    "compare out --latex good.toml": ("good.toml is a scenario", "would overwrite it", "name another file"),
    "compare out --report good.toml": ("good.toml is a scenario", "would overwrite it", "name another file"),
    "export perfetto out -o good.toml": ("good.toml is a scenario", "would overwrite it", "name another file"),
    "import hpcc good.toml": ("good.toml", "is no config.txt", "CC_MODE"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_command_is_answered_with_place_reason_and_cure(command, desk, monkeypatch):
    pf.run(desk / "good.toml", out=desk / "out", progress=False)
    monkeypatch.setattr("sys.argv", ["pauseframe", *command.split()])
    said = " ".join(answer(*command.split()).split())
    for part in COMMANDS[command]:
        assert part in said, said


def test_a_run_is_not_compared_with_a_sweep(desk):
    pf.run(desk / "good.toml", out=desk / "out", progress=False)
    axes = {"transport.preset": ["dctcp", "cubic"]}
    pf.sweep(desk / "good.toml", axes=axes, out=desk / "swept", jobs=1, progress=False)
    said = answer("compare", "out", "swept")
    assert "out is a single run, and swept a sweep over transport.preset: compare runs with runs" in said


def test_a_sweep_without_an_axis_says_so(desk):
    done = CliRunner().invoke(app, ["sweep", "good.toml", "--out", "sweep", "--jobs", "1"])
    assert (done.exit_code, "nothing is varied" in done.stderr) == (0, True)
    assert "--set PATH=V1,V2" in done.stderr


def test_a_comparison_of_one_run_says_so(desk):
    pf.run(desk / "good.toml", out=desk / "out", progress=False)
    done = CliRunner().invoke(app, ["compare", "out"])
    assert (done.exit_code, done.stderr) == (
        0,
        "warning: out is a single run: name a second folder to compare it with\n",
    )


def test_the_next_step_after_states_is_the_player(desk):
    done = CliRunner().invoke(app, ["run", "good.toml", "-o", "states", "--set", "record.states=true"])
    assert "next: pauseframe view states" in done.stdout
    done = CliRunner().invoke(app, ["run", "good.toml", "-o", "plain"])
    assert "next: pauseframe report plain" in done.stdout


def test_out_is_o_everywhere():
    from typer.main import get_command

    def leaves(command):
        for sub in getattr(command, "commands", {}).values():
            yield from leaves(sub)
        yield command

    found = [option.opts for command in leaves(get_command(app)) for option in command.params if "--out" in option.opts]
    assert len(found) > 10
    assert all("-o" in options for options in found)


def test_presets_fit_a_terminal():
    lines = CliRunner().invoke(app, ["presets"]).stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert {name for name in pf.presets() if any(name in line.split() for line in lines)} == set(pf.presets())


def test_a_run_of_jobs_prints_their_times_and_no_dashes(desk):
    (desk / "jobs.toml").write_text(
        GOOD.replace(
            'name = "web"\n' + WORKLOAD, 'kind = "application"\npattern = "all_reduce"\nranks = 4\nsize = "100 KB"\n\n'
        )
    )
    out = CliRunner().invoke(app, ["run", "jobs.toml", "-o", "jobs"]).stdout
    assert "applications" in out
    assert "FCT" not in out
    assert "– / –" not in out


def test_a_flow_list_of_another_fabric_is_answered_in_a_handful_of_lines(desk):
    rows = "".join(f"{i},{i + 1},1000,0\n" for i in range(300))
    (desk / "flows.csv").write_text("src,dst,size_bytes,start_us\n" + rows)
    (desk / "flows.toml").write_text(GOOD.replace(WORKLOAD, 'kind = "flows"\nfile = "flows.csv"\n\n'))
    lines = mistakes(answer("validate", "flows.toml"))
    assert len(lines) <= 6, lines
    assert "flows.csv, line 2" in lines[0]
    assert "(host0 to host" in lines[0]
    assert lines[-1].endswith("295 further mistakes are not listed")


def test_files_of_hpcc_work_together_as_they_are(desk):
    (desk / "topology.txt").write_text("5 1 4\n0\n" + "".join(f"0 {host} 100Gbps 0.001ms 0\n" for host in range(1, 5)))
    (desk / "flow.txt").write_text("3\n2 1 3 100 20000 2\n3 1 3 100 20000 2\n4 1 3 100 20000 2.0001\n")
    (desk / "hpcc.toml").write_text(
        'topology = { kind = "file", path = "topology.txt" }\ntransport = { preset = "newreno" }\n'
        '[[workload]]\nkind = "flows"\nfile = "flow.txt"\n'
    )
    run = pf.run(desk / "hpcc.toml", progress=False)
    assert [(row["src"], row["dst"], row["size_bytes"]) for row in run.flows] == [
        (src, "1", 20000) for src in ("2", "3", "4")
    ]
    assert run.summary["flows_finished"] == 3


def test_tables_are_exported(desk):
    import polars as pl

    run = pf.run(desk / "good.toml", out=desk / "out", progress=False)
    done = CliRunner().invoke(app, ["export", "csv", "out", "--table", "flows", "-o", "tables"])
    assert (done.exit_code, done.stdout.split()) == (0, ["tables/flows.csv"])
    flows = pl.read_csv("tables/flows.csv")
    assert (flows.height, flows.columns) == (len(run.flows), run.flows.column_names)
    assert ("src" in run.flows, "source" in run.flows, run.flows[0] in run.flows) == (True, False, True)
    assert CliRunner().invoke(app, ["export", "arrow", "out"]).exit_code == 0
    assert pl.read_ipc("out/arrow/flows.arrow").equals(
        pl.read_parquet("out/flows.parquet").cast(pl.read_ipc("out/arrow/flows.arrow").schema)
    )
    again = answer("export", "arrow", "out")
    assert "exists" in again
    assert "--force" in again
