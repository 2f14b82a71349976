"""ROLLOUT.md carried out: each command as printed, each check before its step, and the way back to the state before."""

import json
import os
import re
import shutil
import subprocess

import pauseframe as pf
import pytest
import sonic_switch
from pauseframe.deploy import Settings, write_deployment
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.examples import HOME
from pauseframe.lint import lint
from test_deploy import planned


def sections(text):
    """The commands of ROLLOUT.md by title and part ("Check", "Then", "Back")."""
    found: dict[tuple[str, str], list[str]] = {}
    title = part = ""
    for line in text.splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif re.fullmatch(r"(Check|Then|Back):", line):
            part = line.removesuffix(":")
        elif line.startswith("    "):
            found.setdefault((title, part), []).append(line.strip())
    return found


def steps(text):
    """The numbered steps: (kind, folders of devices)."""
    return [(kind, names.split(", ")) for kind, names in re.findall(r"^\d+\. (\w+): (.+)$", text, re.MULTILINE)]


def carry_out(commands, folder, path):
    for command in commands:
        done = subprocess.run(
            command, shell=True, cwd=folder, env={**os.environ, "PATH": f"{path}:{os.environ['PATH']}"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout, done.stderr)


def running(tables):
    """The configuration of a switch before: the factory's ports and queues, and a VLAN of somebody else."""
    ports = {port: {"lanes": row["lanes"], "speed": "10000", "mtu": "9100"} for port, row in tables["PORT"].items()}
    return {
        "DEVICE_METADATA": {"localhost": {"hostname": "", "hwsku": "Generic", "bgp_asn": "65100"}},
        "PORT": ports,
        "SCHEDULER": {"scheduler.0": {"type": "DWRR", "weight": "14"}},
        "QUEUE": {f"{port}|{numbers}": {"scheduler": "scheduler.0"} for port in ports for numbers in ("0-2", "3-4")},
        "VLAN": {"Vlan20": {"vlanid": "20"}},
    }


def switches_of(root, deployment):
    """Stand-ins of all switches, by folder name."""
    found = {}
    for folder in sorted((deployment / "switches").iterdir()):
        tables = json.loads((folder / "config_db.json").read_text())
        before = running(tables)
        before["DEVICE_METADATA"]["localhost"]["hostname"] = folder.name
        lldp = {port: f"{row['name']}.example.org" for port, row in tables["DEVICE_NEIGHBOR"].items()}
        found[folder.name] = sonic_switch.stand_in(root / folder.name, before, lldp)
    return found


PLAN = ("leaf_spine:leaves=2,spines=1,hosts_per_leaf=1", "up_down", 1, 2)


def deploy(kind, out, inventory=()):
    if kind == "scenario":
        text = (HOME / "roce" / "fabric.toml").read_text().replace("hosts_per_leaf = 4", "hosts_per_leaf = 1")
        text = text.replace("senders = 6", "senders = 1").replace("senders = 2", "senders = 1")
        text = text.replace('receiver = "host4"', 'receiver = "host1"')
        deploy_scenario(pf.Scenario.from_toml(text).resolve(), out, Settings(), inventory=inventory)
    else:
        plan = out.parent / "plan"
        if not plan.exists():
            planned(plan, *PLAN)
        release = "next" if kind == "next" else Settings.sonic_release
        write_deployment(plan, out, Settings(sonic_release=release), inventory=inventory)
    return out


@pytest.mark.parametrize("patched", [False, True])
@pytest.mark.parametrize("kind", ["plan", pytest.param("next", marks=pytest.mark.night), "scenario"])
def test_sonic(tmp_path, kind, patched):
    out = deploy(kind, tmp_path / "out")
    places = switches_of(tmp_path / "before", out)
    if patched:
        collected = tmp_path / "collected"
        for name in places:
            (collected / name).mkdir(parents=True)
            shutil.copy(tmp_path / "before" / name / "config.json", collected / name / "config_db.json")
        out = deploy(kind, tmp_path / "patched", [collected])
    text = (out / "ROLLOUT.md").read_text()
    commands = sections(text)
    assert any("apply-patch" in one for one in commands["A switch", "Then"]) == patched
    names_every_file(out, text)
    before = {name: sonic_switch.state(tmp_path / "before" / name) for name in places}
    order = [name for step, names in steps(text) if step == "switch" for name in names]
    assert set(order) == set(places)
    for name in order:
        for part in ("Check", "Then"):
            carry_out(commands["A switch", part], out / "switches" / name, places[name])
        holds_all(tmp_path / "before" / name, out / "switches" / name, patched=patched)
    for name in reversed(order):
        carry_out(commands["A switch", "Back"], out / "switches" / name, places[name])
        config, appl = sonic_switch.state(tmp_path / "before" / name)
        assert config == before[name][0]
        assert {key: row for key, row in appl.items() if not key.startswith(("SWITCH_TABLE", "PORT_TABLE"))} == before[
            name
        ][1]
        misses = {value for key, row in appl.items() if key.startswith("SWITCH_TABLE") for value in row.values()}
        learn = {row["learn_mode"] for key, row in appl.items() if key.startswith("PORT_TABLE")}
        assert (misses, learn) in ((set(), set()), ({"forward"}, {"hardware"}))  # SONiC's defaults


def names_every_file(out, text):
    """Every file that ROLLOUT.md names is there, and every file of a switch or script of a host is named or listed."""
    kinds: dict[str, set[str]] = {"switches": set(), "hosts": set()}
    for kind, names in kinds.items():
        folders = sorted((out / kind).iterdir())
        names |= {path.name for path in folders[0].iterdir() if path.is_file()}
        assert all(names <= {path.name for path in folder.iterdir()} for folder in folders)
    named = set(re.findall(r"[\w-]+\.(?:json|sh|conf|csv)", text))
    assert named <= kinds["switches"] | kinds["hosts"]
    contents = {"config_db.json", "underlay.json", "static-l2.json"} if "patch.json" in named else set()
    assert kinds["switches"] - named - contents == set()


def holds_all(place, folder, *, patched):
    """The switch has what the files say; with a patch nothing else has the same queues, and lint finds no error."""
    config, appl = sonic_switch.state(place)
    for file in ("underlay.json", "config_db.json", "static-l2.json"):
        for table, rows in json.loads((folder / file).read_text()).items() if (folder / file).exists() else ():
            for key, row in rows.items():
                assert row.items() <= config[table][key].items(), (table, key)
    for item in json.loads((folder / "fdb.json").read_text()) if (folder / "fdb.json").exists() else ():
        assert set(item) - {"OP"} <= set(appl)
    if patched:
        assert not [key for key in config["QUEUE"] if "-" in key]
        assert config["VLAN"]["Vlan20"] == {"vlanid": "20"}
        found = place / "lint" / "config_db.json"
        found.parent.mkdir()
        found.write_text(json.dumps(config))
        errors = [f for f in lint([found], release="202605").errors if f.place.table not in {"VLAN", "FDB"}]
        assert [(f.code, str(f.place), f.message) for f in errors if f.code not in {"PF055", "PF061"}] == []


def test_a_check_finds_another_switch(tmp_path):
    out = deploy("plan", tmp_path / "out")
    places = switches_of(tmp_path / "before", out)
    folder, place = out / "switches" / "leaf0", tmp_path / "before" / "leaf0"
    config, appl = sonic_switch.state(place)

    def check():
        environment = {"PATH": f"{places['leaf0']}:{os.environ['PATH']}"}
        command = ["sh", "check.sh"]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    assert check()[0] == 0
    port = next(iter(config["PORT"]))
    for change, words in (
        (lambda c, a: c["DEVICE_METADATA"]["localhost"].__setitem__("hostname", "leaf9"), "this switch is leaf9"),
        (lambda c, a: c["PORT"].pop(port), f"no port {port}"),
        (lambda c, a: c["PORT"][port].__setitem__("lanes", "77"), f"port {port} has lanes 77"),
        (lambda c, a: a[f"LLDP_ENTRY_TABLE:{port}"].__setitem__("lldp_rem_sys_name", "x"), f"port {port} leads to x"),
        (lambda c, a: c["VLAN"].__setitem__("Vlan100", {"vlanid": "100"}), "Vlan100 is another VLAN"),
    ):
        changed = json.loads(json.dumps([config, appl]))
        change(*changed)
        sonic_switch.write(place, *changed)
        status, said = check()
        assert status == 1
        assert words in said, said


def test_a_check_finds_what_changed_since_the_configuration_was_collected(tmp_path):
    out = deploy("scenario", tmp_path / "out")
    places = switches_of(tmp_path / "before", out)
    for name in places:
        (tmp_path / "in" / name).mkdir(parents=True)
        shutil.copy(tmp_path / "before" / name / "config.json", tmp_path / "in" / name / "config_db.json")
    out = deploy("scenario", tmp_path / "patched", [tmp_path / "in"])
    config, appl = sonic_switch.state(tmp_path / "before" / "leaf0")
    port = next(iter(config["PORT"]))
    config["PORT"][port]["mtu"] = "1500"
    sonic_switch.write(tmp_path / "before" / "leaf0", config, appl)
    environment = {"PATH": f"{places['leaf0']}:{os.environ['PATH']}"}
    folder = out / "switches" / "leaf0"
    done = subprocess.run(["sh", "check.sh"], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"PORT|{port} has mtu '1500', not '9100': collect the configuration" in done.stderr


def test_routing_of_a_fabric_stays(tmp_path):
    """Switches with BGP sessions keep their routing: the patch has no addresses."""
    out = deploy("scenario", tmp_path / "out")
    for folder in (out / "switches").iterdir():
        before = running(json.loads((folder / "config_db.json").read_text())) | {
            "BGP_NEIGHBOR": {"10.0.0.1": {"asn": "1"}}
        }
        before["DEVICE_METADATA"]["localhost"]["hostname"] = folder.name
        (tmp_path / "in" / folder.name).mkdir(parents=True)
        (tmp_path / "in" / folder.name / "config_db.json").write_text(json.dumps(before))
    out = deploy("scenario", tmp_path / "patched", [tmp_path / "in"])
    for folder in (out / "switches").iterdir():
        tables = {step["path"].split("/")[1] for step in json.loads((folder / "patch.json").read_text())}
        assert "QUEUE" in tables
        assert not {"BGP_NEIGHBOR", "INTERFACE", "VLAN_INTERFACE", "DEVICE_METADATA"} & tables
