"""Lint closed over deploy: of what deploy writes each single value is changed, and `lint --design` finds each change.

What it does not find stands in HARMLESS, with the reason.
"""

import json
import random
import re
import shutil
from pathlib import Path

import lint_collected
import pauseframe as pf
import pytest
from pauseframe.deploy import Settings, write_deployment
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.devices.read import read_fabric
from pauseframe.examples import HOME
from pauseframe.lint import engine
from pauseframe.lint.design import read_design
from pauseframe.lint.fix import fix
from pauseframe.lint.patch import write_fixed
from test_deploy import planned
from test_deploy_ports import CASES
from test_deploy_ports import deployed as with_ports
from test_fabrics import cli

HARMLESS = {
    "ROLLOUT.md": "prose for people",
    "deploy.json": "a summary; its settings say how the design is deployed again, see the test below",
    "inventory.csv": "names of the design, see the test below",
    "scenario.resolved.toml": "the scenario that was deployed; the design is the file that lint is given",
    "a comment": "no device reads it",
    "fdb-undo.json of another order": "JSON is compared by its values",
}
"""What may change without a finding, and why."""
KINDS = ("sonic plan", "sonic next", "linux plan", "roce", "dctcp", "storage")
MORE = ("roce_dcqcn hosts", "dctcp_plus hosts", "rail", "pair of MCLAG")
"""Kinds that are changed by night alone."""
SAMPLE = 8
"""Changes of each kind by day."""


def of(design, out):
    """A design that is read, from a path; one that was read stays."""
    return read_design(design, [out], None) if isinstance(design, Path) else design


def deployed(kind, folder):
    """A deployment and the plan or scenario of it."""
    out = folder / "out"
    if kind in CASES:
        source = folder / "ports.toml"
        text, _ = with_ports(CASES[kind], out)
        source.write_text(text)
        return out, source
    if kind in {"roce", "dctcp", "storage"}:
        source = folder / "fabric.toml"
        text = (HOME / kind / "fabric.toml").read_text().replace("spines = 2", "spines = 1")
        text = re.sub(r"senders = \d", "senders = 1", re.sub(r"hosts_per_leaf = \d", "hosts_per_leaf = 1", text))
        text = text.replace('"host4"', '"host1"').replace('["host0", "host3"]', '["host0"]')
        source.write_text(text)
        deploy_scenario(pf.Scenario.from_toml(text).resolve(), out, Settings())
        return out, source
    source = planned(folder / "plan", "leaf_spine:leaves=2,spines=1,hosts_per_leaf=1", "up_down", 1, 2)
    release = "next" if kind == "sonic next" else Settings.sonic_release
    target = "linux" if kind == "linux plan" else "sonic"
    hosts = kind.removesuffix(" hosts") if kind.endswith(" hosts") else Settings.hosts
    write_deployment(source, out, Settings(target=target, sonic_release=release, hosts=hosts))
    return out, source


def changes(out, folders):
    """(file, text after one change, what changed) for each value of one switch of each kind and of one host."""
    for folder in folders:
        for path in sorted((out / folder).rglob("*")):
            if path.is_file():
                text = path.read_text()
                yield from ((path, *one) for one in (_of_json if path.suffix == ".json" else _of_text)(text))


def _of_json(text):
    value = json.loads(text)
    for path, leaf in _leaves(value):
        changed = json.loads(text)
        at = changed
        for part in path[:-1]:
            at = at[part]
        if leaf is not None:  # a flag, such as "ecn" of a route
            at[path[-1]] = _other(leaf)
            yield json.dumps(changed), f"{path}: {leaf} -> {at[path[-1]]}"
        if isinstance(path[-1], str):
            at[f"{path[-1]}9"] = at.pop(path[-1])
            yield json.dumps(changed), f"{path}: another name"


def _leaves(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
        return
    for key, item in items:
        yield from _leaves(item, (*path, key))


def _other(leaf):
    if isinstance(leaf, bool):
        return not leaf
    if isinstance(leaf, int | float):
        return leaf + 1
    return str(int(leaf) + 1) if leaf.isdecimal() else f"{leaf}x"


def _of_text(text):
    """Each word of each line that is no comment."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.lstrip().startswith("#") and not line.startswith("#!"):
            continue
        for word in re.finditer(r"[\w.:/-]+", line):
            changed = line[: word.start()] + _other(word[0]) + line[word.end() :]
            yield (
                "\n".join([*lines[:number], changed, *lines[number + 1 :]]) + "\n",
                f"line {number + 1}: {changed.strip()}",
            )


def found(out, design, path, text):
    """The findings about a device after a change, which is taken back."""
    before = path.read_text()
    path.write_text(text)
    try:
        report = engine.lint([out], design=of(design, out), select=["PF091", "PF005"])
    except ValueError as error:  # a file that cannot be read is found as well
        return [str(error)]
    finally:
        path.write_text(before)
    device = path.relative_to(out).parts[1]
    return [f for f in report.findings if device in {place.device for place in f.places} or "PF005" in f.code]


FOLDERS = ("switches/leaf0", "switches/spine0", "hosts/host0")
"""A switch of each kind and a host: the files of the others have the same form."""


def check(kind, tmp_path, only=None, folders=FOLDERS):
    out, source = deployed(kind, tmp_path)
    design = read_design(source, [out], None)
    assert [(f.code, str(f.place), f.message) for f in engine.lint([out], design=of(design, out)).findings] == []
    every = list(changes(out, folders))
    assert len(every) > 100
    for path, text, what in every if only is None else random.Random(kind).sample(every, only):
        assert found(out, design, path, text), (str(path.relative_to(out)), what)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_changes_is_found(tmp_path, kind):
    check(kind, tmp_path, SAMPLE)


@pytest.mark.night
@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("kind", [*KINDS, *MORE])
def test_each_change_is_found(tmp_path, kind, folder):
    check(kind, tmp_path, folders=[folder])


HARMLESS_COLLECTED = {
    r"dcb-pfc-.*pfc_cap": "what the NIC could do",
    r"hostname ": "another host; a note counts the hosts of the design without files",
    r"ip-link.json .*link_type": "an Ethernet interface without this key is one as well",
    r"ip-addr.json \(\d, 'ifname'\)": "a row without addresses; rows with some are found by these",
    r"ip-link.json \(\d, 'master'\):( | another)": "no bond is the master of this interface",
    r"ip-link.json .*(slow -> |hash_policy'\): another|ad_lacp_rate'\): another)": "the driver's default",
    r"ip-rule.json .*priority": "rules of different sources do not compete",
    r"ip-rule.json \(0,": "the kernel's own rule",
    r"nft.json .*(metainfo|family|table)": "names of the table; the rule counts",
}
"""What may change on a host without a finding, and why."""


def gathered(kind, folder):
    """A deployment as it is collected from the devices: the folder, and its design."""
    out, source = deployed(kind, folder)
    root = folder / "collected"
    for switch in (out / "switches").iterdir():
        (root / switch.name).mkdir(parents=True)
        parts = [switch / name for name in ("config_db.json", "underlay.json") if (switch / name).is_file()]
        tables = {table: rows for part in parts for table, rows in json.loads(part.read_text()).items()}
        (root / switch.name / "config_db.json").write_text(json.dumps(tables))
    for host in (out / "hosts").iterdir():
        lint_collected.collected(host, root / host.name)
    return root, read_design(source, [root], None)


def missed_of_host(root, design, sample=None):
    """The changes in the files of host0 without a finding; and how many there are."""
    host = root / "host0"
    every = [
        (path, *one)
        for path in sorted(host.iterdir())
        for one in (_of_json if path.suffix == ".json" else _of_text)(path.read_text())
    ]
    found = []
    for path, text, what in every if sample is None else random.Random(1).sample(every, sample):
        before = path.read_text()
        path.write_text(text)
        try:
            report = engine.lint([root], design=design, select=["PF091"])
        except ValueError:  # a file that cannot be read is found as well
            continue
        finally:
            path.write_text(before)
        if "host0" not in {place.device for finding in report.findings for place in finding.places}:
            found.append(f"{path.name} {what}")
    return [what for what in found if not any(re.match(harmless, what) for harmless in HARMLESS_COLLECTED)], len(every)


@pytest.mark.parametrize("kind", ["sonic plan", "dctcp"])
def test_a_sample_of_changes_of_a_collected_host_is_found(tmp_path, kind):
    root, design = gathered(kind, tmp_path)
    assert engine.lint([root], design=design, select=["PF075", "PF091"]).findings == []
    assert missed_of_host(root, design, SAMPLE)[0] == []


@pytest.mark.night
@pytest.mark.parametrize("kind", ["sonic plan", "roce", "dctcp", "storage", *CASES])
def test_each_change_of_a_collected_host_is_found(tmp_path, kind):
    missed, count = missed_of_host(*gathered(kind, tmp_path))
    assert (missed, count > 100) == ([], True)


def test_what_is_harmless(tmp_path):
    """Comments, prose and the form of JSON; what HARMLESS names is all."""
    out, source = deployed("sonic plan", tmp_path)
    assert {path.name for path in out.iterdir() if path.is_file()} <= HARMLESS.keys()
    for name in ("ROLLOUT.md",):
        (out / name).write_text("other")
    script = out / "hosts" / "host0" / "setup.sh"
    script.write_text(script.read_text().replace("# Running it twice does no harm.", "# a remark\n\n"))
    undo = out / "switches" / "leaf0" / "fdb-undo.json"
    undo.write_text(json.dumps(json.loads(undo.read_text()), indent=4))
    assert engine.lint([out], design=of(source, out)).findings == []


def test_names_and_settings_are_those_of_the_design(tmp_path):
    """A changed setting or name gives another design, from which the files then differ."""
    out, source = deployed("sonic plan", tmp_path)
    for name, old, new in (
        ("deploy.json", '"mtu": 9000', '"mtu": 8000'),
        ("deploy.json", '"buffer": 32000000', '"buffer": 33000000'),
        ("inventory.csv", "02:00:00:00:00:01", "02:00:00:00:00:09"),
        ("inventory.csv", "Ethernet4", "Ethernet44"),
    ):
        before = (out / name).read_text()
        assert old in before
        (out / name).write_text(before.replace(old, new))
        assert {f.code for f in engine.lint([out], design=of(source, out)).findings} >= {"PF091"}, (name, old)
        (out / name).write_text(before)


def test_missing_and_further_rows_files_and_switches(tmp_path):
    out, source = deployed("roce", tmp_path)
    design = read_design(source, [out], None)
    config = out / "switches" / "leaf0" / "config_db.json"
    tables = json.loads(config.read_text())
    del tables["QUEUE"]["Ethernet0|3"]
    tables["SCHEDULER"]["mine"] = {"type": "STRICT"}
    config.write_text(json.dumps(tables))
    (out / "hosts" / "host0" / "sysctl.conf").unlink()
    (out / "hosts" / "host1" / "extra.sh").write_text("reboot\n")
    shutil.rmtree(out / "switches" / "spine0")
    messages = {
        (str(f.place), f.message) for f in engine.lint([out], design=of(design, out), select=["PF091"]).findings
    }
    assert ("leaf0 QUEUE Ethernet0|3", "the row is missing") in messages
    assert ("leaf0 SCHEDULER mine", "the design has no such row") in messages
    assert ("host0 sysctl.conf", "the file is missing") in messages
    assert ("host1 extra.sh", "the design has no such file") in messages
    assert ("spine0 config_db.json", "the design has this switch, no file does") in messages


def test_files_that_were_collected(tmp_path):
    """Rows of the device's own are no fault; other values than those of the design are, and --fix mends them."""
    out, source = deployed("roce", tmp_path)
    collected = tmp_path / "collected"
    for folder in (out / "switches").iterdir():
        tables: dict[str, dict[str, dict[str, str]]] = {}
        for name in ("config_db.json", "underlay.json"):
            tables |= json.loads((folder / name).read_text())
        tables["SYSLOG_SERVER"] = {"10.0.0.9": {}}
        if folder.name == "leaf0":
            tables["WRED_PROFILE"]["PF_25000"]["green_drop_probability"] = "21"
        (collected / folder.name).mkdir(parents=True)
        (collected / folder.name / "config_db.json").write_text(json.dumps(tables))
    (finding,) = engine.lint([collected], design=of(source, collected), select=["PF091"]).findings
    assert str(finding.place) == "leaf0 WRED_PROFILE PF_25000 green_drop_probability"
    done = cli(
        "lint", collected, "--design", source, "--select", "PF091", "--fix", "--write", tmp_path / "mended", "-q"
    )
    assert done.returncode == 1
    steps = json.loads(done.stdout)["leaf0"]
    assert steps == [{"op": "replace", "path": "/WRED_PROFILE/PF_25000/green_drop_probability", "value": "20"}]
    assert cli("lint", tmp_path / "mended", "--design", source).returncode == 0


def test_no_design(tmp_path):
    out, _ = deployed("roce", tmp_path)
    done = cli("lint", out, "--design", tmp_path / "nothing.toml")
    assert (done.returncode, "there is no such file" in done.stderr) == (2, True)
    assert Path(out).is_dir()


def changed_values(root, device):
    """Each field of the tables of a switch once, in a random row: (file, table, key, field)."""
    found: dict[tuple[str, str], tuple[Path, str, str, str]] = {}
    for path in (root / "switches" / device / name for name in ("config_db.json", "underlay.json")):
        rows = [(t, k, f) for t, of in json.loads(path.read_text()).items() for k, row in of.items() for f in row]
        for table, key, field in random.Random(7).sample(rows, len(rows)):
            named = table == "CABLE_LENGTH" or field.isdecimal()  # fields of maps have no names
            found.setdefault((table, "" if named else field), (path, table, key, field))
    return list(found.values())


def leads_back(root, design, value, new):
    """Whether patches make the tables of a deployment again from files with another value; None removes it."""
    path, table, key, field = value
    before = path.read_text()
    wanted = read_fabric([root]).databases
    tables = json.loads(before)
    old = tables[table][key].pop(field)
    if new is not None:
        tables[table][key][field] = new(old)
    path.write_text(json.dumps(tables))
    try:
        fixed = fix(engine.lint([root], design=design))
        write_fixed(fixed, [root], root.parent / "fixed")
        now = read_fabric([root.parent / "fixed"]).databases
    finally:
        path.write_text(before)
        shutil.rmtree(root.parent / "fixed", ignore_errors=True)
    return {name: database.tables for name, database in now.items()} == {
        name: database.tables for name, database in wanted.items()
    }


def other(old):
    return str(int(old) + 1) if old.isdecimal() else f"{old}x"


@pytest.mark.parametrize("kind", ["roce", pytest.param("storage", marks=pytest.mark.night)])
def test_patches_make_the_deployment_again(tmp_path, kind):
    """Any value of a switch: also where other rules mend it otherwise (PORT mtu), or a file gets lost (hostname)."""
    root, source = deployed(kind, tmp_path)
    design = read_design(source, [root], None)
    values = changed_values(root, "leaf0")
    assert len(values) > 45
    sampled = [v for v in values if (v[1], v[3]) in {("PORT", "mtu"), ("DEVICE_METADATA", "hostname")}]
    sampled += values if kind == "storage" else random.Random(1).sample(values, 4)
    wrong = [value[1:] for value in sampled for new in (other, None) if not leads_back(root, design, value, new)]
    assert wrong == []
