"""The account of an import is true: a value that it calls used or mapped changes the scenario when it changes.

Each field of each table is changed in one row of each kind. The scenario, or the places listed in its head, must then
change; other fields are to be named as not held.
"""

import contextlib
import copy
import json
import tomllib
from functools import cache

import pauseframe as pf
import pytest
from pauseframe.deploy.plan import Settings
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.devices.read import read_fabric
from pauseframe.imports.fabric import import_fabric
from pauseframe.imports.fabric.account import FATES, MAP_ENTRIES, _fate
from pauseframe.imports.fabric.uses import Uses
from pauseframe.lint.design import read_design
from test_fabrics import cli

FABRIC = """
name = "deployed"
stop = "50 ms"
topology = { kind = "leaf_spine", leaves = 2, spines = 2, hosts_per_leaf = 4, link = { delay = "25 ns" } }
"""
INCAST = '[[workload]]\nkind = "n_to_1"\nsize = "200 KB"\n'
PER_PORT = f'{FABRIC}switch = {{ buffer = "100 KB" }}\ntransport = {{ preset = "cubic" }}\n{INCAST}'
MARKED = PER_PORT.replace("cubic", "dctcp")
CLASS = f"""{FABRIC}
[switch]
buffer = {{ policy = "shared", size = "400 KB", alpha = 1 }}
[switch.classes.x]
priorities = [2]
alpha = 0.125
[transports.a]
preset = "cubic"
dscp = 16
priority = 2
[transports.b]
preset = "cubic"
{INCAST}transport = "a"
"""
LOSSLESS = f'{FABRIC}switch = {{ buffer = "1 MB" }}\ntransport = {{ preset = "roce_dcqcn" }}\n{INCAST}'
SHARED = f"""{FABRIC}
switch = {{ buffer = {{ policy = "shared", size = "16 MB" }}, pfc = {{ watchdog = {{ detection = "300 ms" }} }} }}
transport = {{ preset = "roce_dcqcn" }}
{INCAST}"""
DEPLOYED = {"per port": PER_PORT, "marks": MARKED, "class": CLASS, "lossless": LOSSLESS, "shared": SHARED}
AGAIN = {("DEVICE_NEIGHBOR", "name"), ("DEVICE_NEIGHBOR", "port"), ("PORT_QOS_MAP", "pfc_to_queue_map")}
"""Fields that the other end of a link has too, and a map that changes no number."""
WORDS = {
    "true": "false", "false": "true", "up": "down", "drop": "forward", "DWRR": "STRICT", "STRICT": "DWRR",
    "ecn_all": "ecn_none", "rs": "none", "ingress": "egress",
}  # fmt: skip


def deployed(text, folder):
    deploy_scenario(pf.Scenario.from_toml(text).resolve(), folder, Settings(), cable=None, inventory=[])
    return folder


def head_and_keys(found):
    """The keys of a scenario, and the places of its head whose value it does not have."""
    lines = found.toml.splitlines()
    keys = [line.partition("  # ")[0] for line in lines if not line.startswith("#")]
    return keys, {str(odd) for odd in found.scope.account.odd}


def others(value, rows, field):
    """Further values of a field: those of other rows, other numbers, other words, nothing."""
    yield from sorted({str(row[field]) for row in rows.values() if field in row and str(row[field]) != value})
    with contextlib.suppress(ValueError):
        yield from (str(int(value) // 3), str(int(value) * 3 + 1))
    if value.removesuffix("m").isdecimal() and value.endswith("m"):
        yield "500m"
    yield from [WORDS[value]] if value in WORDS else []
    yield from ["unknown"] if field.endswith("_map") else []  # without a map, classes and priorities keep their number
    yield None


@pytest.mark.parametrize("name", DEPLOYED)
def test_what_is_used_or_mapped_changes_the_scenario(name, tmp_path):
    root = deployed(DEPLOYED[name], tmp_path / "fabric")
    reading = read_fabric([root])
    found = import_fabric(reading)
    before = head_and_keys(found)
    per_port = 'policy = "per_port"' in found.toml
    seen, silent = set(), []
    for file in sorted(root.rglob("config_db.json")):
        device = file.parent.name
        uses = Uses(found.scope, found.classes, device, reading.databases[device], per_port=per_port)
        tables = json.loads(file.read_text())
        for table, key, field, value in values_of(tables):
            kind = (
                table,
                "" if MAP_ENTRIES in FATES[table] else field,
                value,
                key.rpartition("|")[2] if "|" in key else "",
            )
            if kind in seen or _fate(table, field)[1].state == "not held" or uses.lacks(table, key, field):
                continue
            seen.add(kind)
            if (table, field) not in AGAIN and not any(
                changes(root, file, before, tables, (table, key, field, other))
                for other in others(value, tables[table], field)
            ):
                silent.append(f"{device} {table} {key} {field} {value}")
        file.write_text(json.dumps(tables))
    assert len(seen) > 30
    assert silent == []


def values_of(tables):
    for table, rows in tables.items():
        for key, row in rows.items() if table in FATES else ():
            for field, value in row.items() if isinstance(row, dict) else ():
                if isinstance(value, str):
                    yield table, key, field, value


def changes(root, file, before, tables, change):
    table, key, field, value = change
    changed = copy.deepcopy(tables)
    if value is None:
        del changed[table][key][field]
    else:
        changed[table][key][field] = value
    file.write_text(json.dumps(changed))
    try:
        return head_and_keys(import_fabric(read_fabric([root]))) != before
    except ValueError:
        return True  # refused in words


@pytest.mark.parametrize("name", ["per port", "marks", "class"])
def test_limits_come_back_from_what_deploy_wrote(name, tmp_path):
    text = DEPLOYED[name]
    found = import_fabric(read_fabric([deployed(text, tmp_path / "fabric")]))
    load = {"workload": [{"kind": "n_to_1", "size": "200 KB"}]}
    first, again = pf.run(text, progress=False).summary, pf.run(found.toml, set=load, progress=False).summary
    assert first["drops"] > 0
    assert again["drops"] == pytest.approx(first["drops"], rel=0.1)
    assert again["switch_held_max_bytes"] == pytest.approx(first["switch_held_max_bytes"], rel=0.05)


@cache
def table_of(toml):
    return tomllib.loads(toml)["switch"]


def edited(root, change, device="leaf0"):
    file = root / "switches" / device / "config_db.json"
    tables = json.loads(file.read_text())
    change(tables)
    file.write_text(json.dumps(tables))
    return import_fabric(read_fabric([root]))


def limit(tables, value):
    tables["BUFFER_PROFILE"]["egress_lossy_profile"]["static_th"] = value


def test_one_limit_for_all_queues_and_others_listed(tmp_path):
    root = deployed(PER_PORT, tmp_path / "fabric")
    found = edited(root, lambda tables: limit(tables, "90000"))
    assert table_of(found.toml)["buffer"] == {"policy": "per_port", "size": "100000 B"}
    assert any("limit of queue 0 90000; the scenario has 100000" in str(odd) for odd in found.scope.account.odd)
    small = edited(root, lambda tables: tables["BUFFER_POOL"]["ingress_lossless_pool"].update(size="150000"))
    assert table_of(small.toml)["buffer"]["policy"] == "shared", "the pool cannot hold the limits of all ports"
    assert any(
        "limit of queue 0 100000; the scenario has a shared buffer" in str(odd) for odd in small.scope.account.odd
    )


def test_a_design_notices_another_limit(tmp_path):
    """Of one switch, and of all."""
    root = deployed(PER_PORT, tmp_path / "fabric")
    design = tmp_path / "design.toml"
    design.write_text(import_fabric(read_fabric([root]), name="design").toml)
    assert read_design(design, [root], None).imported
    arguments = ("lint", root, "--design", design, "--select", "PF091")
    assert cli(*arguments).returncode == 0
    for device in ("leaf0", "leaf1", "spine0", "spine1"):
        edited(root, lambda tables: limit(tables, "1000000"), device)
        done = cli(*arguments)
        assert done.returncode == 1
        assert "limit of queue 0 1000000, the design has 100000" in done.stdout
        assert "BUFFER_POOL" not in done.stdout


def test_a_port_without_pfcwd_sw_enable_is_not_watched(tmp_path):
    """Beside ports with it; SONiC before 202205 had no such field, and watched all paused priorities."""
    root = deployed(SHARED, tmp_path / "fabric")
    (tmp_path / "design.toml").write_text(import_fabric(read_fabric([root]), name="design").toml)
    found = edited(root, lambda tables: tables["PORT_QOS_MAP"]["Ethernet0"].pop("pfcwd_sw_enable"))
    done = cli("lint", root, "--design", tmp_path / "design.toml", "--select", "PF091")
    assert "leaf0 PORT_QOS_MAP Ethernet0 pfcwd_sw_enable: error PF091 watchdog False" in done.stdout
    rows = {port: row.get("watchdog") for row in table_of(found.toml)["pfc"]["ports"] for port in row["ports"]}
    assert rows["leaf0:Ethernet0"] is False
    assert rows["leaf0:Ethernet4"] is None
    old = edited(root, lambda tables: [row.pop("pfcwd_sw_enable", None) for row in tables["PORT_QOS_MAP"].values()])
    assert not any("watchdog" in row for row in table_of(old.toml)["pfc"]["ports"])
