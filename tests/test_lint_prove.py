"""`lint --prove`: for each kind of fault the run as it is differs from the mended one in the quantity that is named."""

import json
import random
import re

import lint_fabrics
import lint_pairs
import pytest
from lint_faults import (
    code_points,
    fec,
    foreign_profile,
    group_map,
    late_mark,
    lossy_profile,
    mtu,
    no_headroom,
    no_watchdog,
    other_cable,
    pause_off,
    short_restoration,
    small_headroom,
    small_pool,
    speed,
    wred_off,
)
from pauseframe.lint import lint
from pauseframe.lint.prove import prove
from test_deploy_scenario import deployed, text_of
from test_fabrics import cli


def notifications_in_lossless_class(devices, draw):
    devices["leaf0"]["DSCP_TO_TC_MAP"]["AZURE"]["48"] = "3"
    return "CNPs to class 3", {"PF025"}


def strict_data(devices, draw):
    tables = devices["leaf0"]
    tables["SCHEDULER"]["strict"] = {"type": "STRICT"}
    for key in tables["QUEUE"]:
        if key.endswith("|3"):
            tables["QUEUE"][key]["scheduler"] = "strict"
    return "strict queue 3", {"PF026"}


def strict_before_best_effort(devices, draw):
    strict_data(devices, draw)
    return "best effort behind strict data", {"PF027"}


def longer_cables(devices, draw):
    lengths = devices["leaf0"]["CABLE_LENGTH"]["AZURE"]
    lengths |= dict.fromkeys(lengths, "900m")
    return "900 m", {"PF010"}


def host_without_ecn(devices, draw):
    """The fabric marks best effort too; the files of the host are added by `fabric_with_hosts`."""
    for tables in devices.values():
        for key in [key for key in tables["QUEUE"] if key.endswith("|1")]:
            tables["QUEUE"][key]["wred_profile"] = "AZURE_LOSSLESS"
    return "tcp_ecn 0 and DCTCP", {"PF070"}


def step_on_best_effort(devices, draw):
    tables = devices["leaf0"]
    step = tables["WRED_PROFILE"]["AZURE_LOSSLESS"] | {"green_min_threshold": "65000", "green_max_threshold": "65000"}
    tables["WRED_PROFILE"]["STEP"] = step | {"green_drop_probability": "100"}
    for key in [key for key in tables["QUEUE"] if key.endswith("|1")]:
        tables["QUEUE"][key]["wred_profile"] = "STEP"
    return "step on queue 1", {"PF035"}


def member_at_one_end(devices, draw):
    members = devices["leaf0"]["PORTCHANNEL_MEMBER"]
    del members[next(iter(members))]
    return "no member", {"PF082"}


def computed_for_a_short_cable(devices, draw):
    """The switches compute headroom, and one end of a cable of 2 km says 5 m."""
    for tables in devices.values():
        tables["DEVICE_METADATA"]["localhost"]["buffer_model"] = "dynamic"
        tables["DEFAULT_LOSSLESS_BUFFER_PARAMETER"] = {"AZURE": {"default_dynamic_th": "0"}}
        rows = tables["BUFFER_PROFILE"]
        tables["BUFFER_PROFILE"] = {name: row for name, row in rows.items() if not name.startswith("pg_lossless")}
        for key in [key for key in tables["BUFFER_PG"] if key.endswith("|3-4")]:
            tables["BUFFER_PG"][key] = {"profile": "NULL"}
    far = devices["spine0"]["DEVICE_NEIGHBOR"]["Ethernet0"]
    devices[far["name"]]["CABLE_LENGTH"]["AZURE"][far["port"]] = "2000m"
    devices["spine0"]["CABLE_LENGTH"]["AZURE"]["Ethernet0"] = "5m"
    return "5 m of 2 km", {"PF054"}


def unbound_groups(devices, draw):
    del devices["spine0"]["PORT_QOS_MAP"]["Ethernet4"]["tc_to_pg_map"]
    return "no map of groups", {"PF024"}


KINDS = [
    (computed_for_a_short_cable, "packets lost"),
    (unbound_groups, "pauses"),
    (small_headroom, "packets lost"),
    (no_headroom, "packets lost"),
    (lossy_profile, "packets lost"),
    (pause_off, "packets lost"),
    (group_map, "packets lost"),
    (code_points, "packets lost"),
    (small_pool, "packets lost"),
    (longer_cables, "packets lost"),
    (wred_off, "ECN marks"),
    (late_mark, "ECN marks"),
    (notifications_in_lossless_class, "pauses"),
    (strict_data, "ECN marks"),
    (strict_before_best_effort, "TCP waits"),
    (speed, "links down"),
    (fec, "links down"),
    (member_at_one_end, "links down"),
    (short_restoration, "storms"),
    (no_watchdog, "storms"),
    (host_without_ecn, "ECN marks"),
    (step_on_best_effort, "packets lost"),
]


def fabric_with_hosts(devices, folder):
    lint_fabrics.write(devices, folder)
    for leaf, server in ((0, 0), (0, 1)):
        place = folder / f"server{leaf}-{server}"
        place.mkdir()
        link = {"ifname": "eth0", "link_type": "ether", "mtu": 9000, "address": f"02:00:00:00:00:0{server}"}
        (place / "ip-link.json").write_text(json.dumps([link]))
        ecn = "0" if server == 0 else "1"
        (place / "sysctl.txt").write_text(f"net.ipv4.tcp_ecn = {ecn}\nnet.ipv4.tcp_congestion_control = dctcp\n")
    return folder


def report_of(fault, folder, seed):
    devices = lint_fabrics.bundled(3, 2, 2, seed=seed) if fault is member_at_one_end else lint_fabrics.clos(3, 2, 2)
    what, codes = fault(devices, random.Random(f"prove {seed}"))
    write = fabric_with_hosts if fault is host_without_ecn else lint_fabrics.write
    report = lint([write(devices, folder)])
    report.findings = [finding for finding in report.findings if finding.code in codes][:1]
    assert report.findings, what
    return report


@pytest.mark.parametrize(("fault", "quantity"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_costs_what_its_finding_names(tmp_path, fault, quantity):
    (proof,) = prove(report_of(fault, tmp_path / "fabric", 1), tmp_path / "proofs")
    differences = {here.name: (here.value, there.value) for here, there in proof.rows}
    assert quantity in differences, proof
    worse, better = differences[quantity]
    silent = fault in {wred_off, late_mark, host_without_ecn, unbound_groups, no_watchdog}
    assert (worse < better) if silent else (worse > better), (quantity, worse, better)
    if quantity == "packets lost":
        assert better == 0
    assert proof.why == ""


def lossy_queue_of_one_port(devices, draw):
    devices["leaf0"]["BUFFER_QUEUE"]["Ethernet8|3-4"]["profile"] = "egress_lossy_profile"
    return "lossy queue", {"PF015"}


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (other_cable, "profiles fix the headroom in bytes"),
        (foreign_profile, "as much headroom in bytes"),
        (lossy_queue_of_one_port, "egress pools have no memory in it"),
    ],
)
def test_equal_scenarios_have_a_reason(tmp_path, fault, why):
    (proof,) = prove(report_of(fault, tmp_path / "fabric", 1), tmp_path / "proofs")
    assert proof.rows == []
    assert proof.why.startswith("the scenarios with and without it are equal: ")
    assert why in proof.why


def polarized(devices):
    lint_pairs.roles_alike(devices, random.Random(1))
    return "PF087"


def polarized_without_row(devices):
    for tables in devices.values():
        del tables["SWITCH_HASH"]
    return polarized(devices)


def without_ports(devices):
    for tables in devices.values():
        tables["SWITCH_HASH"]["GLOBAL"]["ecmp_hash"] = "SRC_IP,DST_IP"
    return "PF088"


@pytest.mark.parametrize("fault", [polarized, polarized_without_row, without_ports])
def test_hashes_fill_one_link(tmp_path, fault):
    """Four uplinks share what one of them carries, except for the luck of the hash."""
    devices = lint_pairs.pods()
    code = fault(devices)
    report = lint([lint_fabrics.write(devices, tmp_path / "fabric")])
    report.findings = [finding for finding in report.findings if finding.code == code][:1]
    (proof,) = prove(report, tmp_path / "proofs")
    differences = {here.name: (here.value, there.value) for here, there in proof.rows}
    worse, better = differences["busiest link"]
    assert worse > 1.5 * better, (proof, differences)


def test_a_small_mtu_loses_what_is_larger(tmp_path):
    (proof,) = prove(report_of(mtu, tmp_path / "fabric", 1), tmp_path / "proofs")
    lost = {here.name: (here.value, there.value) for here, there in proof.rows}["packets lost"]
    assert lost[0] > 0 == lost[1]


@pytest.mark.parametrize("number", [0, 3])
def test_circles(tmp_path, number):
    devices = {}
    count, speed = 5 + number, [10_000, 25_000, 100_000][number % 3]
    for i in range(count):
        ports = {
            "Ethernet0": (speed, 5, f"host{i}", "eth0"),
            "Ethernet4": (speed, 40, f"r{(i + 1) % count}", "Ethernet8"),
            "Ethernet8": (speed, 40, f"r{(i - 1) % count}", "Ethernet4"),
        }
        devices[f"r{i}"] = lint_fabrics.switch(f"r{i}", ports, lookup=False)
    report = lint([lint_fabrics.write(devices, tmp_path / "ring")], select=["PF060"])
    report.findings = report.findings[:1]
    (proof,) = prove(report, tmp_path / "proofs")
    assert "deadlock" in proof.why
    assert "never end" in proof.why
    assert proof.folder
    assert 'switches = [\n    "r' in (proof.folder / "as-is.toml").read_text()


def test_command(tmp_path):
    devices = lint_fabrics.clos(3, 2, 2)
    profile = next(p for p in devices["leaf0"]["BUFFER_PROFILE"] if p.startswith("pg_lossless"))
    devices["leaf0"]["BUFFER_PROFILE"][profile]["xoff"] = "1000"
    folder, proofs = lint_fabrics.write(devices, tmp_path / "fabric"), tmp_path / "proofs"
    done = cli("lint", folder, "--prove", "--proofs", proofs)
    assert done.returncode == 1
    assert ": PF010 leaf0" in done.stdout
    assert "as it is" in done.stdout
    assert re.search(r"longest paused .* [\d.]+ [um]s", done.stdout), "sizes and times are written as everywhere"
    assert not re.search(r"\d,\d{3} (us|KB)", done.stdout)
    (row,) = json.loads((proofs / "proofs.json").read_text())
    lost = row["differences"]["packets lost"]
    assert lost["as_is"] > lost["mended"] == 0
    run = cli("run", proofs / "PF010-1" / "as-is.toml", "--out", tmp_path / "run", "--json")
    assert json.loads(run.stdout)["drops"] == lost["as_is"]
    as_json = cli("lint", folder, "--prove", "--proofs", proofs, "--json")
    assert json.loads(as_json.stdout)["errors"] == 1
    assert "proof 1 of 1: PF010 leaf0" in as_json.stderr


def test_an_interrupt_keeps_the_proofs_so_far(tmp_path):
    devices = lint_fabrics.clos(3, 2, 2)
    draw = random.Random(1)
    small_headroom(devices, draw)
    wred_off(devices, draw)
    report = lint([lint_fabrics.write(devices, tmp_path / "fabric")])
    assert len(report.findings) > 1
    proofs = prove(report, tmp_path / "proofs")
    first = next(proofs)  # and an interrupt here
    assert [row["place"] for row in json.loads((tmp_path / "proofs/proofs.json").read_text())] == [first.place]


def test_the_patch_of_a_switch_mends_its_hosts_too(tmp_path):
    deployed(text_of("roce"), tmp_path / "out")
    file = tmp_path / "out" / "switches" / "leaf0" / "config_db.json"
    tables = json.loads(file.read_text())
    tables["DSCP_TO_TC_MAP"]["PAUSEFRAME"]["26"] = "0"
    file.write_text(json.dumps(tables))
    report = lint([tmp_path / "out"])
    index = next(i for i, finding in enumerate(report.findings) if finding.code == "PF022")
    assert report.findings[index].instead == "another map at the switch"
    report.findings.insert(0, report.findings.pop(index))
    proof = next(prove(report, tmp_path / "proofs"))
    assert proof.change == "with the patches of leaf0"
    lost = next((here, there) for here, there in proof.rows if here.name == "packets lost")
    assert lost[0].value > lost[1].value == 0
