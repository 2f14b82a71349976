"""Rules about port channels of pairs, mux cables, tunnels and hashes: each fault is found by the right rule."""

from __future__ import annotations

import copy
import json
import random
from typing import TYPE_CHECKING

import lint_fabrics
import lint_pairs
import pytest
from lint_pairs import ARS_FAULTS, HASH_FAULTS, MCLAG_FAULTS, MUX_FAULTS
from pauseframe.devices.read import read_fabric
from pauseframe.lint.engine import judge
from pauseframe.lint.fix import fix

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lint_faults import Devices, Fault

FABRICS: dict[str, tuple[Callable[[], Devices], list[Fault]]] = {
    "mclag": (lint_pairs.mclag, MCLAG_FAULTS),
    "dual_tor": (lint_pairs.dual_tor, MUX_FAULTS),
    "pods": (lint_pairs.pods, HASH_FAULTS),
    "adaptive": (lint_pairs.adaptive, ARS_FAULTS),
}
KINDS = [(name, number) for name, (_, faults) in FABRICS.items() for number in range(len(faults))]


def reading_of(devices: Devices, folder: Path):
    return read_fabric([lint_fabrics.write(devices, folder)])


@pytest.fixture(scope="module")
def bases() -> dict[str, Devices]:
    return {name: make() for name, (make, _) in FABRICS.items()}


@pytest.mark.parametrize("name", FABRICS)
def test_nothing_is_found_without_a_fault(bases, tmp_path, name):
    found = judge(reading_of(bases[name], tmp_path)).findings
    assert [f"{f.code} {f.place}: {f.message}" for f in found] == []


@pytest.mark.parametrize(("name", "number"), KINDS)
def test_a_fault_is_found_and_its_patch_causes_nothing_new(bases, tmp_path, name, number):
    fault: Fault = FABRICS[name][1][number]
    devices = copy.deepcopy(bases[name])
    what, codes = fault(devices, random.Random(f"{name} {number}"))
    report = judge(reading_of(devices, tmp_path))
    got = {finding.code for finding in report.findings}
    assert got & codes, (what, got)
    assert [f"{f.code} {f.place}: {f.message}" for f in fix(report).new] == [], what


@pytest.mark.parametrize("tor", ["tor0", "tor1"])
@pytest.mark.parametrize("what", ["row", "table", "address"])
def test_both_tors_are_judged(tmp_path, tor, what):
    devices = lint_pairs.dual_tor()
    tables = devices[tor]
    if what == "row":
        del tables["MUX_CABLE"]["Ethernet0"]
    elif what == "table":
        del tables["MUX_CABLE"]
    else:
        next(iter(tables["PEER_SWITCH"].values()))["address_ipv4"] = "10.1.0.99"
    assert [f.code for f in judge(reading_of(devices, tmp_path)).findings] == ["PF086"]


def test_a_mux_tunnel_ends_at_a_loopback_of_its_switch(tmp_path):
    devices = lint_pairs.dual_tor()
    for i, name in enumerate(("tor0", "tor1")):
        devices[name]["LOOPBACK_INTERFACE"] = {"Loopback0": {}, f"Loopback0|10.1.0.{i + 1}/32": {}}
        devices[name]["TUNNEL"]["MuxTunnel0"]["src_ip"] = f"10.1.0.{2 - i}"
    assert judge(reading_of(devices, tmp_path / "right")).findings == []
    devices["tor1"]["TUNNEL"]["MuxTunnel0"]["dst_ip"] = "10.1.0.9"
    found = judge(reading_of(devices, tmp_path / "wrong")).findings
    assert {f"{f.place.device} {f.place.field}" for f in found} == {"tor0 address_ipv4", "tor0 src_ip", "tor1 dst_ip"}


@pytest.mark.parametrize(("queue", "found"), [(None, True), ("3", True), ("2", False)])
def test_the_pauses_of_the_outer_class_stop_its_queue(tmp_path, queue, found):
    """A third paused class for the tunnel, as SONiC's remapping has it."""
    devices = lint_pairs.dual_tor()
    for tables in devices.values():
        tables["DSCP_TO_TC_MAP"]["AZURE"]["2"] = "2"
        tables["TC_TO_PRIORITY_GROUP_MAP"]["AZURE"]["2"] = "2"
        for row in tables["PORT_QOS_MAP"].values():
            row["pfc_enable"] = "2,3,4"
    for name in ("tor0", "tor1"):
        devices[name]["TC_TO_DSCP_MAP"]["AZURE_TUNNEL"] |= {"3": "2", "4": "1"}
        if queue is not None:
            devices[name]["TC_TO_QUEUE_MAP"]["TUNNEL"] = {"3": queue}
            devices[name]["TUNNEL"]["MuxTunnel0"]["encap_tc_to_queue_map"] = "TUNNEL"
    messages = [f.message for f in judge(reading_of(devices, tmp_path)).findings if f.code == "PF065"]
    assert any(message.startswith("class 3 enters the tunnel in queue 3") for message in messages) == found, messages


POLARIZED = [  # uplinks below, uplinks here, seed below and here, used: paths.md 2.3
    (8, 8, 0, 0, 1),
    (4, 4, 0, 0, 1),
    (4, 4, 0, 10, 1),
    (6, 4, 0, 0, 2),
    (6, 6, 0, 10, 3),
    (3, 4, 0, 0, 4),
]


@pytest.mark.parametrize(("n1", "n2", "below", "here", "used"), POLARIZED)
def test_polarized_switches_use_a_share_of_their_uplinks(tmp_path, n1, n2, below, here, used):
    """n2 / gcd(n1, n2) with one seed; with two seeds of a CRC only powers of two stay aligned."""
    devices = lint_pairs.pods(2, tors=2, leaves=n1, spines=n2)
    for name, tables in devices.items():
        tables["SWITCH"] = {"switch": {"ecmp_hash_seed": str(below if name.startswith("tor") else here),
                                       "ecmp_hash_offset": "0"}}  # fmt: skip
    found = [f for f in judge(reading_of(devices, tmp_path)).findings if f.code == "PF087"]
    if used == n2:
        assert found == []
    else:
        assert len(found) == 1
        assert found[0].message.startswith(f"polarized: {used} of {n2} uplinks used")
        assert len(found[0].places) == 2 * n1


def test_other_functions_and_rotated_hashes_are_independent(tmp_path):
    devices = lint_pairs.pods()
    lint_pairs.roles_alike(devices, random.Random(1))
    assert "PF087" in {f.code for f in judge(reading_of(devices, tmp_path / "same")).findings}
    for name, tables in devices.items():
        if name.startswith("leaf"):
            tables["SWITCH_HASH"]["GLOBAL"]["ecmp_hash_algorithm"] = "CRC_CCITT"
    assert "PF087" not in {f.code for f in judge(reading_of(devices, tmp_path / "other")).findings}


def test_the_patch_of_a_list_is_a_list(tmp_path):
    devices = lint_pairs.pods(1, 2, 2, 2)
    devices["tor0-0"]["SWITCH_HASH"]["GLOBAL"]["ecmp_hash"] = "SRC_IP,DST_IP"
    steps = fix(judge(reading_of(devices, tmp_path))).patches["tor0-0"]
    fields = ["IP_PROTOCOL", "SRC_IP", "DST_IP", "L4_SRC_PORT", "L4_DST_PORT"]  # as at the other ToR
    assert steps == [{"op": "replace", "path": "/SWITCH_HASH/GLOBAL/ecmp_hash", "value": fields}]


def bonded(folder: Path, mode: str) -> None:
    """The files of a server with a bond of eth0 and eth1."""
    (folder / "server0").mkdir(parents=True)
    rows = [{"ifname": f"eth{i}", "link_type": "ether", "mtu": 9000, "master": "bond0"} for i in range(2)]
    bond = {"ifname": "bond0", "link_type": "ether",
            "linkinfo": {"info_kind": "bond", "info_data": {"mode": mode, "miimon": 100}}}  # fmt: skip
    (folder / "server0" / "ip-link.json").write_text(json.dumps([*rows, bond]))


@pytest.mark.parametrize(
    ("mode", "change", "found"),
    [
        ("802.3ad", "", False),
        ("active-backup", "", True),
        ("balance-xor", "", True),
        ("802.3ad", "no member", True),
        ("802.3ad", "no mclag", True),
        ("active-backup", "no member", False),
    ],
)
def test_bonds_fit_the_channels_of_their_switches(tmp_path, mode, change, found):
    devices = lint_pairs.mclag()
    for name in ("leaf0", "leaf1"):
        if change == "no member":
            for table, key in (("PORTCHANNEL_MEMBER", "PortChannel1|Ethernet0"), ("PORTCHANNEL", "PortChannel1"),
                               ("MCLAG_INTERFACE", "1|PortChannel1")):  # fmt: skip
                del devices[name][table][key]
        elif change:
            del devices[name]["MCLAG_DOMAIN"], devices[name]["MCLAG_INTERFACE"]
    bonded(tmp_path, mode)
    report = judge(reading_of(devices, tmp_path))
    assert ("PF084" in {finding.code for finding in report.findings}) == found


def test_a_bounce_in_its_class_is_proved_by_a_deadlock(tmp_path):
    from pauseframe.lint.prove import prove

    devices = lint_pairs.dual_tor()
    for name in ("tor0", "tor1"):
        del devices[name]["TUNNEL"]["MuxTunnel0"]["encap_tc_to_dscp_map"]
    report = judge(reading_of(devices, tmp_path / "fabric"))
    report.findings = [finding for finding in report.findings if finding.code == "PF065"][:1]
    (proof,) = prove(report, tmp_path / "proofs")
    assert proof.why.startswith("1 deadlock")


@pytest.mark.parametrize(("table", "what"), [("MCLAG_DOMAIN", "domain"), ("ARS_PROFILE", "profile")])
def test_a_second_row_of_a_table_for_one_is_found(tmp_path, table, what):
    rows: dict[str, dict[str, str]] = {"one": {}, "two": {}}
    (tmp_path / "leaf.json").write_text(json.dumps({"PORT": {}, table: rows}), encoding="utf-8")
    messages = [finding.message for finding in judge(read_fabric([tmp_path])).findings]
    found = [message for message in messages if message.startswith("a switch has one")]
    assert found == [f"a switch has one {what}; one is here too"]
