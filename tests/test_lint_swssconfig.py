"""Files for `swssconfig`: what their rows leave behind, half files, and rows that contradict each other."""

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from pauseframe.deploy import Settings, write_deployment
from pauseframe.devices import swssconfig
from pauseframe.devices.model import FdbRow
from pauseframe.lint.engine import lint
from test_deploy import planned

if TYPE_CHECKING:
    from pauseframe.devices.files import Json

RELEASES = {"master": Settings(), "next": Settings(sonic_release="next")}


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    root = tmp_path_factory.mktemp("swssconfig")
    plan = planned(root / "source", "leaf_spine:leaves=2,spines=2,hosts_per_leaf=2", "up_down", 1, 2)
    for name, settings in RELEASES.items():
        write_deployment(plan, root / name, settings)
    return root


@pytest.fixture
def plan(bases, tmp_path):
    return shutil.copytree(bases / "master", tmp_path / "plan")


def found(root, path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    return {(f.code, f.place.device, f.place.field, f.message) for f in lint([root]).findings}


def without(*rows):
    def change(value):
        for row in sorted(rows, reverse=True):
            del value[row]

    return change


NOTHING = "a VLAN has static rows, and nothing turns {} off"


@pytest.mark.parametrize(
    ("change", "field", "what"),
    [
        (without(0), "unknown_unicast_flood", "flooding"),
        (without(1, 2, 3, 4), "mac_learning", "learning"),
        (without(1), "mac_learning", "learning at Ethernet8"),
        (lambda value: value[1].update(OP="DEL"), "mac_learning", "learning at Ethernet8"),
        (lambda value: value[0].update(OP="DEL"), "unknown_unicast_flood", "flooding"),
    ],
)
def test_half_a_file_without_learning_and_flooding(plan, change, field, what):
    file = plan / "switches" / "leaf0" / "no-flooding.json"
    assert found(plan, file, change) == {("PF062", "leaf0", field, NOTHING.format(what))}


def test_half_a_file_and_the_other_half(plan):
    folder = plan / "switches" / "leaf0"
    rows = json.loads((folder / "no-flooding.json").read_text())
    (folder / "no-flooding.json").write_text(json.dumps(rows[:2]))
    (folder / "switch.json").write_text(json.dumps(rows[2:]))
    assert lint([plan]).findings == []


@pytest.mark.parametrize("field", ["mac_learning", "unknown_unicast_flood", "broadcast_flood"])
def test_half_a_row_of_a_vlan(bases, tmp_path, field):
    """Of the release whose CONFIG_DB has these fields, each is enabled by default."""
    root = shutil.copytree(bases / "next", tmp_path / "next")
    file = root / "switches" / "leaf0" / "static-l2.json"
    assert lint([root]).findings == []
    got = found(root, file, lambda value: [row.pop(field, None) for row in value["VLAN"].values()])
    assert {code for code, *_ in got} == {"PF062"}


def test_a_removed_row_is_missing(plan):
    got = found(plan, plan / "switches" / "leaf0" / "fdb.json", lambda value: value[1].update(OP="DEL"))
    assert {code for code, *_ in got} == {"PF061"}


def test_rows_that_are_all_removed(plan):
    got = found(plan, plan / "switches" / "leaf0" / "fdb.json", lambda value: [row.update(OP="DEL") for row in value])
    assert any(device == "leaf0" and "no row leads to host0" in message for _, device, _, message in got)


def test_two_rows_for_one_address(plan):
    """The last one counts; the messages have the names of the files."""
    file = plan / "switches" / "leaf0" / "fdb.json"
    first = next(iter(json.loads(file.read_text())[0]))
    row = {first: {"port": "Ethernet8", "type": "static"}, "OP": "SET"}
    got = found(plan, file, lambda value: value.append(row))
    assert ("PF063", "leaf0", "port", "rows to Ethernet0 and to Ethernet8: the last one counts") in got
    assert not any("tables.csv" in message for *_, message in got)


@pytest.mark.parametrize(("operation", "what"), [(None, "no OP"), ("ADD", "OP ADD")])
def test_a_row_without_an_operation_is_malformed(plan, operation, what):
    def change(value):
        value[0].pop("OP")
        value[0] |= {"OP": operation} if operation else {}

    got = found(plan, plan / "switches" / "leaf0" / "fdb.json", change)
    assert any(code == "PF005" and what in message for code, _, _, message in got)


def test_operations_in_turn():
    row: dict[str, Json] = {"FDB_TABLE:Vlan5:00-00-00-00-00-0A": {"port": "Ethernet0", "type": "static"}}
    rows = [FdbRow(5, "00:00:00:00:00:0a", "Ethernet0")]
    for operations, left in (("SET", rows), ("SET DEL", []), ("SET DEL SET", rows), ("DEL", [])):
        loaded = swssconfig.read([row | {"OP": word} for word in operations.split()], "fdb.json")
        assert loaded is not None
        assert (loaded.fdb, loaded.faults) == (left, [])


def test_one_file_with_rows_and_settings_and_more():
    value: list[Json] = [
        {"FDB_TABLE:Vlan5:00-00-00-00-00-0A": {"port": "Ethernet0"}, "OP": "SET"},
        {"PORT_TABLE:Ethernet0": {"learn_mode": "disable", "mtu": "9100"}, "OP": "SET"},
        {"ROUTE_TABLE:10.0.0.0/8": {"nexthop": "10.0.0.1"}, "OP": "SET"},
    ]
    loaded = swssconfig.read(value, "all.json")
    assert loaded is not None
    assert (len(loaded.fdb or []), loaded.learns) == (1, {"Ethernet0": False})
    assert loaded.others == {"PORT_TABLE mtu", "ROUTE_TABLE"}
    assert swssconfig.read([{"ROUTE_TABLE:10.0.0.0/8": {}, "OP": "SET"}], "all.json") is None
