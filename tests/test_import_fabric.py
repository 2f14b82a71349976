"""`import fabric`: a scenario with the devices' own names and each port's own values, and an account of every key."""

import json
import tomllib

import lint_fabrics
import pytest
from pauseframe import Scenario, run
from pauseframe._core import resolve
from pauseframe.devices.read import read_fabric
from pauseframe.devices.sonic_schema import TABLES
from pauseframe.imports.fabric import import_fabric
from pauseframe.imports.fabric.loads import LOADS
from test_fabrics import cli


def imported(folder, **options):
    return import_fabric(read_fabric([folder]), **options)


def text_of(devices, folder):
    return imported(lint_fabrics.write(devices, folder)).toml


@pytest.mark.parametrize("load", LOADS)
def test_each_load_runs_to_its_end_without_a_loss(tmp_path, load):
    folder = lint_fabrics.write(lint_fabrics.clos(3, 2, 2), tmp_path / "fabric")
    summary = run(imported(folder, load=load).toml, progress=False).summary
    assert summary["flows_total"] == summary["flows_finished"] > 0
    assert summary["drops"] == 0


def test_names_rates_and_delays_are_those_of_the_files(tmp_path):
    devices = lint_fabrics.clos(2, 1, 2, seed=2)
    scenario = tomllib.loads(text_of(devices, tmp_path))
    assert scenario["topology"]["switches"] == ["leaf0", "leaf1", "spine0"]
    assert set(scenario["topology"]["hosts"]) == {"server0-0", "server0-1", "server1-0", "server1-1"}
    links = {frozenset(link["ends"]): link for link in scenario["topology"]["links"]}
    tables = devices["leaf0"]
    for port, far in tables["DEVICE_NEIGHBOR"].items():
        link = links[frozenset({"leaf0", far["name"]})]
        metres = float(tables["CABLE_LENGTH"]["AZURE"][port].removesuffix("m"))
        assert link["rate"] == f"{tables['PORT'][port]['speed']} Mbps"
        assert link["delay"] == f"{round(metres / 0.198)} ns"


CHANGES = {
    "speed": lambda t, p: t["PORT"][p].__setitem__("speed", "40000"),
    "cable": lambda t, p: t["CABLE_LENGTH"]["AZURE"].__setitem__(p, "2000m"),
    "pfc": lambda t, p: t["PORT_QOS_MAP"][p].__setitem__("pfc_enable", ""),
    "wred": lambda t, p: t["QUEUE"][f"{p}|3"].pop("wred_profile"),
    "mtu": lambda t, p: t["PORT"][p].__setitem__("mtu", "1500"),
    "group": lambda t, p: t["BUFFER_PG"][f"{p}|3-4"].__setitem__("profile", "ingress_lossy_profile"),
    "watchdog": lambda t, p: t["PFC_WD"].pop(p),
    "down": lambda t, p: t["PORT"][p].__setitem__("admin_status", "down"),
    "map": lambda t, p: t["PORT_QOS_MAP"][p].pop("dscp_to_tc_map"),
    "scheduler": lambda t, p: t["QUEUE"][f"{p}|3"].__setitem__("scheduler", "scheduler.0"),
}
FRAME = {"ports = [", "]", "[[failure]]", 'down = "0 s"', "[[corruption]]", 'mtu = "1500 B"', ""}
"""Lines around rows of a port, which appear with the first of them."""


@pytest.mark.parametrize("change", CHANGES)
def test_one_value_changes_only_the_rows_of_its_port(tmp_path, change):
    devices = lint_fabrics.clos(3, 2, 2)
    before = text_of(devices, tmp_path / "before").splitlines()
    CHANGES[change](devices["leaf1"], "Ethernet0")
    after = text_of(devices, tmp_path / "after").splitlines()
    keys = {line for line in (*before, *after) if line.startswith(("# used", "# mapped", "# not held  B"))}
    differing = (set(before) ^ set(after)) - FRAME - keys
    assert differing
    own = ("leaf1:Ethernet0", "leaf1 Ethernet0")
    assert all(any(name in line for name in own) or line.startswith("port = ") for line in differing), differing


def test_every_key_of_the_files_has_a_fate(tmp_path):
    devices = lint_fabrics.bundled(2, 1, 2)
    devices["leaf0"]["ACL_RULE"] = {"a|b": {"PRIORITY": "1"}}
    found = imported(lint_fabrics.write(devices, tmp_path))
    states = {row["key"]: row["state"] for row in found.rows}
    for tables in devices.values():
        for table, rows in tables.items():
            of_table = [key for key in states if key.split()[0] == table]
            assert of_table, table
            if table in TABLES and TABLES[table].entries is None and table != "CABLE_LENGTH":
                fields = {field for row in rows.values() for field in row}
                known = {" ".join(key.split()[:2]) for key in states}
                assert {f"{table} {field}" for field in fields} <= known or states.get(table), table
    assert states["ACL_RULE"] == "not held"
    assert (states["PORT speed"], states["CABLE_LENGTH"], states["PORT lanes"]) == ("used", "used", "not held")


def test_links_that_stay_down_carry_nothing(tmp_path):
    devices = lint_fabrics.clos(2, 2, 2)
    devices["leaf0"]["PORT"]["Ethernet8"]["speed"] = "1000"
    scenario = text_of(devices, tmp_path)
    (row,) = tomllib.loads(scenario)["failure"]
    assert row == {"port": "leaf0:Ethernet8", "down": "0 s"}
    ports = run(scenario, progress=False).ports
    assert not [row for row in ports if row["port"] == "leaf0:Ethernet8" and row["tx_packets"]]


def test_hosts_own_settings_decide_their_transport(tmp_path):
    folder = lint_fabrics.write(lint_fabrics.clos(2, 1, 2), tmp_path / "fabric")
    for name, control in (("server0-0", "dctcp"), ("server0-1", "bbr")):
        (folder / name).mkdir()
        (folder / name / "ip-link.json").write_text(json.dumps([{"ifname": "eth0", "link_type": "ether", "mtu": 4000}]))
        (folder / name / "sysctl.txt").write_text(f"net.ipv4.tcp_congestion_control = {control}\n")
    scenario = tomllib.loads(imported(folder, load="tcp").toml)
    presets = [scenario["transport"]["preset"], *(t["preset"] for t in scenario["transports"].values())]
    assert sorted(presets) == ["bbr", "cubic", "dctcp"]
    assert scenario["host"]["mtu"] == "4000 B"


def test_a_card_with_dcqcn_off_gets_no_control(tmp_path):
    """Its other registers are those of the preset, and would change nothing."""
    folder = lint_fabrics.write(lint_fabrics.clos(2, 1, 2), tmp_path / "fabric")
    for name in ("server0-0", "server0-1", "server1-0", "server1-1"):
        (folder / name).mkdir()
        (folder / name / "ip-link.json").write_text(json.dumps([{"ifname": "eth0", "link_type": "ether", "mtu": 4000}]))
        (folder / name / "mlxconfig.txt").write_text(
            "ROCE_CC_PRIO_MASK_P1 0\nMIN_TIME_BETWEEN_CNPS_P1 4\nRPG_GD_P1 11\n"
        )
    toml = imported(folder, load="incast").toml
    assert tomllib.loads(toml)["transport"]["rdma_control"] == "none"
    assert [one for one in resolve(toml).warnings if one.startswith("transport.")] == []


def test_an_mtu_beyond_the_limits_of_the_key_is_listed(tmp_path):
    folder = lint_fabrics.write(lint_fabrics.clos(2, 1, 2), tmp_path / "fabric")
    (folder / "server0-0").mkdir()
    rows = [{"ifname": "eth0", "link_type": "ether", "mtu": 9600}]
    (folder / "server0-0" / "ip-link.json").write_text(json.dumps(rows))
    found = imported(folder, load="incast")
    assert tomllib.loads(found.toml)["host"]["mtu"] == "9216 B"
    assert "server0-0:eth0 mtu 9600; the scenario has 9216" in map(str, found.scope.account.odd)
    Scenario.from_toml(found.toml).resolve()


def test_a_fabric_without_hosts_gets_one_at_each_open_port(tmp_path):
    devices = {
        "lone": lint_fabrics.switch("lone", {f"Ethernet{n}": (25_000, 5, "", "") for n in range(3)}, lookup=False)
    }
    devices["lone"]["DEVICE_NEIGHBOR"] = {}
    found = imported(lint_fabrics.write(devices, tmp_path))
    assert len(found.scope.hosts) == 3
    assert sum("no file names its neighbour" in text for text in found.scope.account.assumed) == 3


def test_command(tmp_path):
    folder = lint_fabrics.write(lint_fabrics.clos(2, 1, 2), tmp_path / "fabric")
    file = tmp_path / "fabric.toml"
    done = cli("import", "fabric", folder, "-o", file, "--load", "incast")
    assert done.returncode == 0, done.stderr
    assert "PORT speed" in done.stdout
    assert cli("import", "fabric", folder, "-o", file).returncode == 2
    assert json.loads(cli("run", file, "--out", tmp_path / "run", "--json").stdout)["drops"] == 0
    told = json.loads(cli("import", "fabric", folder, "-o", tmp_path / "new", "--json").stdout)
    assert told["out"] == str(tmp_path / "new" / "scenario.toml")
    assert {row["state"] for row in told["fields"]} == {"used", "mapped", "not held"}
    assert cli("import", "fabric", tmp_path / "nothing").returncode == 2


CSV = {
    "table": (
        "ID,Label,Termination A,Termination B,Device A,Device B,Status,Length",
        "1,,Ethernet8,Ethernet0,leaf0,spine0,Connected,7 m",
    ),
    "form": (
        "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name,status,length,length_unit",
        "leaf0,dcim.interface,Ethernet8,spine0,dcim.interface,Ethernet0,connected,700,cm",
    ),
}


@pytest.mark.parametrize("form", [*CSV, "api"])
def test_cables_of_netbox(tmp_path, form):
    """They wire the fabric in place of DEVICE_NEIGHBOR, with their length; a planned cable is not there."""
    devices = lint_fabrics.clos(1, 1, 2)
    for tables in devices.values():
        del tables["DEVICE_NEIGHBOR"]
    folder = lint_fabrics.write(devices, tmp_path)
    if form == "api":
        ends = [
            [{"object_type": "dcim.interface", "object": {"device": {"name": device}, "name": port}}]
            for device, port in (("leaf0", "Ethernet8"), ("spine0", "Ethernet0"))
        ]
        cable = {"a_terminations": ends[0], "b_terminations": ends[1], "length": 7.0, "length_unit": {"value": "m"}}
        other = cable | {"status": {"value": "planned"}, "b_terminations": ends[0]}
        (folder / "cables.json").write_text(
            json.dumps({"results": [cable | {"status": {"value": "connected"}}, other]})
        )
    else:
        head, row = CSV[form]
        planned = row.replace("Ethernet8", "Ethernet4").replace("Connected", "Planned").replace("connected", "planned")
        (folder / "cables.csv").write_text(f"{head}\n{row}\n{planned}\n")
    links = read_fabric([folder]).fabric.links
    assert [(str(link.a), str(link.b), link.metres) for link in links] == [("leaf0:Ethernet8", "spine0:Ethernet0", 7.0)]
    scenario = tomllib.loads(imported(folder).toml)
    assert {link["delay"] for link in scenario["topology"]["links"] if "spine0" in link["ends"]} == {"35 ns"}


def test_switches_without_a_path_are_left_out_by_name(tmp_path):
    devices = lint_fabrics.clos(2, 1, 2) | {"lone": lint_fabrics.clos(1, 1, 2)["leaf0"]}
    devices["lone"]["DEVICE_METADATA"]["localhost"]["hostname"] = "lone"
    devices["lone"]["DEVICE_NEIGHBOR"] = {}
    found = imported(lint_fabrics.write(devices, tmp_path))
    assert "lone" not in found.scope.switches
    assert [one.device for one in found.scope.account.odd if one.key == "switch"] == ["lone"]
    assert run(found.toml, progress=False).summary["drops"] == 0


def test_ports_and_switches_have_their_own_values(tmp_path):
    """Headroom of each port, a port without a watchdog, a small MTU, and a switch with a larger pool."""
    devices = lint_fabrics.clos(2, 1, 2)
    leaf = devices["leaf0"]
    group, port = leaf["BUFFER_PG"]["Ethernet0|3-4"]["profile"], "leaf0:Ethernet0"
    leaf["BUFFER_PROFILE"]["tight"] = leaf["BUFFER_PROFILE"][group] | {"xoff": "12345"}
    leaf["BUFFER_PG"]["Ethernet0|3-4"]["profile"] = "tight"
    leaf["PFC_WD"].pop("Ethernet0")
    leaf["PORT"]["Ethernet0"]["mtu"] = "1500"
    pool = next(iter(leaf["BUFFER_POOL"]))
    leaf["BUFFER_POOL"][pool]["size"] = str(int(leaf["BUFFER_POOL"][pool]["size"]) + 1_000_000)
    scenario = tomllib.loads(text_of(devices, tmp_path))
    rules = {row["ports"][0]: row for row in scenario["switch"]["pfc"]["ports"]}
    others = [row for name, row in rules.items() if name != port and not name.startswith("server")]
    assert (rules[port]["headroom"], rules[port]["watchdog"]) == ("12345 B", False)
    assert all("watchdog" not in row and row["headroom"] != "12345 B" for row in others)
    (small,) = scenario["corruption"]
    assert (port in small["ports"], small["mtu"]) == (True, "1500 B")
    buffers = {name: row["buffer"] for row in scenario["switch"]["override"] for name in row["switches"]}
    assert int(buffers["leaf0"].removesuffix(" B")) > 1_000_000
    assert run(scenario_of(scenario), progress=False).summary["flows_total"] > 0


def scenario_of(tables):
    """The text of a scenario that was read."""
    from pauseframe.scenario.plain import toml_value

    return "\n".join(f"{key} = {toml_value(value)}" for key, value in tables.items())
