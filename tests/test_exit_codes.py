"""One rule for all commands: wrong input gives exit code 2, a reason and no changes; `--json` prints one value."""

import json
import re
import subprocess
import sys

import pytest
from pauseframe.cli import main

SCENARIO = """
stop = "1 ms"
[topology]
kind = "star"
hosts = 3
[[workload]]
kind = "permutation"
size = "10 KB"
"""
FABRIC = "ring:switches=4,hosts_per_switch=1"
# One command per line, split as a shell would. These exist: ok.toml, done/ (a run), plan/, taken/ (a user's file).
WRONG = """
run none.toml
run broken.toml
run ok.toml --out taken
run ok.toml --seed 9 --out done
run ok.toml --set nope=1
run ok.toml --set nope
run ok.toml --seed x
run ok.toml --threads 0
flow none.toml
flow ok.toml --out done
flow ok.toml --demand nope
demo --quick --out taken
demo --quick --out done
show none.toml
show ok.toml --set a.b=1
validate none.toml
validate ok.toml broken.toml
presets nope
presets dctcp --stack nope
options nope
schema -o done/manifest.json
report none
report taken
view done
view none
export perfetto none
export nope done
sweep none.toml
sweep ok.toml --set nope=1,2 --out new
sweep ok.toml --out taken
sweep ok.toml --seeds x --out new
sweep ok.toml --shard 5/2 --out new
compare none
compare taken
compare done --metric nope
compare done --by nope
reproduce nope
reproduce bolt/nope
reproduce bolt/fig12 --experiments taken
reproduce bolt/fig12 --out taken
reproduce bolt/fig12 --out done
topo show nope
topo show fat_tree
topo export nope -o new.json
topo export fat_tree:k=4 -o new.nope
topo draw fat_tree:k=4 -o new.nope
route plan nope -o new
route plan fat_tree:k=4 --engine nope -o new
route plan fat_tree:k=4 -o taken
route check fat_tree:k=4 none
route check fat_tree:k=4 taken
route update none fat_tree:k=4 -o new
route draw fat_tree:k=4 plan --to nope --vlan 100 -o new.svg
lint none
lint taken
lint --select nope taken
lint --explain nope
headroom
headroom none.toml
headroom --rate nope --cable 5m
deploy none -o new
deploy taken -o new
deploy plan -o taken
nope
""".strip().splitlines()

# A scenario or a sweep reports all its mistakes, each with its place and its key.
LISTED = {
    "run broken.toml",
    "run ok.toml --set nope=1",
    "show ok.toml --set a.b=1",
    "validate ok.toml broken.toml",
    "sweep ok.toml --set nope=1,2 --out new",
    "sweep ok.toml --seeds x --out new",
    "sweep ok.toml --shard 5/2 --out new",
}

# Every command that prints results.
PRINTING = """
run ok.toml --out new
flow ok.toml
show ok.toml
validate ok.toml
presets
presets dctcp
options
options buffer
schema -o new.json
report done
view logged
export perfetto logged
sweep ok.toml --seeds 2 --out new
compare done
reproduce --list
topo show ring:switches=4,hosts_per_switch=1
topo draw ring:switches=4,hosts_per_switch=1 -o new.svg
topo export ring:switches=4,hosts_per_switch=1 -o new.json
topo families
route plan ring:switches=4,hosts_per_switch=1 -o new
route check ring:switches=4,hosts_per_switch=1 plan
route update plan ring:switches=4,hosts_per_switch=1 -o new
route draw ring:switches=4,hosts_per_switch=1 plan --to host0 --vlan 100 -o new.svg
route engines
lint --rules
headroom ok.toml
headroom --rate 100Gbps --cable 5m
deploy plan -o new
""".strip().splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that the commands use."""
    place = tmp_path_factory.mktemp("commands")
    (place / "ok.toml").write_text(SCENARIO, encoding="utf-8")
    (place / "broken.toml").write_text("broken = [", encoding="utf-8")
    (place / "taken").mkdir()
    (place / "taken" / "letter.txt").write_text("mine", encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for line in (
            "run ok.toml --quiet --out done",
            "run ok.toml --quiet --out logged --set record.states=true",
            f"route plan {FABRIC} --first-vlan 100 -o plan --quiet",
        ):
            assert ended(line, patch) == 0
    return place


def ended(line, patch):
    """The exit code of a command line."""
    patch.setattr(sys, "argv", ["pauseframe", *line.split()])
    with pytest.raises(SystemExit) as end:
        main()
    return end.value.code


def listing(place):
    return sorted(str(path.relative_to(place)) for path in place.rglob("*") if ".pauseframe-store" not in path.parts)


@pytest.mark.parametrize("line", WRONG)
def test_wrong_input_ends_with_2(line, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    before = listing(folder)
    assert ended(line, monkeypatch) == 2
    said = capsys.readouterr()
    assert said.err.strip()
    assert "Traceback" not in said.err
    if line not in LISTED:
        assert re.search(r"^[eE]rror: ", said.err, re.MULTILINE), said.err
    assert listing(folder) == before
    assert (folder / "taken" / "letter.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("line", PRINTING)
def test_json_is_one_value(line, folder, monkeypatch, capsys):
    """The JSON value is the only output on stdout."""
    place = folder / f"json-{PRINTING.index(line)}"
    place.mkdir()
    for name in ("ok.toml", "done", "logged", "plan"):
        (place / name).symlink_to(folder / name)
    monkeypatch.chdir(place)
    capsys.readouterr()
    assert ended(f"{line} --json", monkeypatch) == 0
    json.loads(capsys.readouterr().out)


# What cron, a service manager or a shell may have closed, and a device that takes no bytes.
WITHOUT = ("<&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full")


def ended_without(closed, folder, *words):
    """A command line or program, run with standard input, output or error closed."""
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, *words]
    return subprocess.run(shell, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("closed", WITHOUT)
def test_commands_need_no_standard_files(closed, folder, tmp_path):
    """The second run finds the results of the first one and notes it on standard error."""
    (tmp_path / "ok.toml").write_text(SCENARIO, encoding="utf-8")
    for line, code in (("run ok.toml -o r", 0), ("run ok.toml -o r", 0), ("options", 0), ("run none.toml", 2)):
        done = ended_without(closed, tmp_path, "-m", "pauseframe", *line.split())
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), (line, done.stderr)
        assert "error: " not in done.stdout
    files = ("flows.parquet", "ports.parquet")
    assert [(tmp_path / "r" / name).read_bytes() for name in files] == [
        (folder / "done" / name).read_bytes() for name in files
    ]


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_sweeps_need_no_standard_files(closed, tmp_path):
    (tmp_path / "ok.toml").write_text(SCENARIO, encoding="utf-8")
    sweep = ("-m", "pauseframe", "sweep", "ok.toml", "--seeds", "2", "-o", "forked")
    assert ended_without(closed, tmp_path, *sweep).returncode == 0
    program = (
        "import pauseframe as pf; pf.run('ok.toml', out='one'); pf.sweep('ok.toml', seeds=2, store='s', out='two')"
    )
    assert ended_without(closed, tmp_path, "-c", program).returncode == 0
    tables = [(tmp_path / name / "runs.parquet").read_bytes() for name in ("forked", "two")]
    assert all(tables)


@pytest.mark.parametrize("command", ["run", "validate", "show", "flow", "sweep --seeds 2", "headroom"])
def test_closed_standard_input_is_refused(command, tmp_path):
    done = ended_without("<&-", tmp_path, "-m", "pauseframe", *command.split(), "-")
    assert (done.returncode, done.stderr) == (
        2,
        "error: standard input is closed: name a file, or redirect one to it\n",
    )


def test_unreadable_standard_input_is_refused(tmp_path):
    done = ended_without("0>/dev/null", tmp_path, "-m", "pauseframe", "run", "-")
    assert (done.returncode, done.stderr) == (2, "error: standard input cannot be read: Bad file descriptor\n")


def test_programs_that_a_command_starts_get_the_null_device(tmp_path):
    program = (
        "import subprocess; from pauseframe.terminal.standard import reopen_closed; reopen_closed()\n"
        "subprocess.run(['sh', '-c', 'echo lost; echo lost >&2; cat'], check=True)"
    )
    assert ended_without("<&- >&- 2>&-", tmp_path, "-c", program).returncode == 0
