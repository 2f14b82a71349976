"""Cumulus Linux (NVUE) and Arista EOS: lint judges mixed fabrics, and `import fabric` simulates them."""

import json
import tomllib
from typing import Any

import pytest
from lint_vendors import FAULTS, MTU, Mixed, routed
from pauseframe import run
from pauseframe.devices import eos, nvue
from pauseframe.devices.files import DeviceFileError
from pauseframe.devices.model import Place
from pauseframe.devices.read import read_fabric
from pauseframe.devices.statements import ranges
from pauseframe.devices.wiring import lldp_neighbours
from pauseframe.imports.fabric import import_fabric
from pauseframe.lint import engine, output
from pauseframe.lint.design import read_design
from pauseframe.lint.engine import judge, rules
from pauseframe.lint.fix import fix
from pauseframe.lint.locate import Locator


@pytest.fixture(scope="module")
def mixed():
    return Mixed()


def test_a_mixed_fabric_without_faults_is_clean(mixed, tmp_path):
    report = judge(read_fabric([mixed.write(tmp_path)]))
    assert [f"{f.code} {f.place}: {f.message}" for f in report.findings] == []
    kinds = {name: switch.kind for name, switch in report.reading.fabric.switches.items()}
    assert kinds == {"cumulus0": "nvue", "cumulus1": "nvue", "arista0": "eos", "arista1": "eos"} | dict.fromkeys(
        ("spine0", "spine1"), "sonic"
    )


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_of_a_vendor_is_found_in_its_own_words(mixed, tmp_path, kind):
    change, code = FAULTS[kind]
    own = mixed.copy()
    change(own)
    report = judge(read_fabric([own.write(tmp_path)]))
    name = f"{kind.split()[0]}0"
    about = [(f, {f.place.device, f.other and f.other.device}) for f in report.findings if f.code == code]
    found = [f for f, devices in about if name in devices or f" {name}:" in f.message]
    assert found, [f"{f.code} {f.place}: {f.message}" for f in report.findings]
    locator = Locator(report.reading)
    for finding in report.findings:
        assert report.reading.fabric.switches[finding.place.device].kind in rules()[finding.code].devices
        for place in (*finding.places, *([finding.other] if finding.other else ())):
            if place.device.startswith("spine"):
                continue
            assert place.table == place.table.lower(), "a table of CONFIG_DB is none of this vendor's words"
            assert locator.find(place, "").line, place
    assert fix(report).patches.keys() <= {"spine0", "spine1"}
    assert "".join(output.as_text(report))


BGP = "vrf default router bgp"
SESSIONS: dict[str, Any] = {  # the change of a leaf: what is found, with the line at which the place begins
    "arista no as": (("   neighbor 10.1.0.9 remote-as 64900\n", ""),
                     {"PF066 router bgp 65100 neighbor 10.1.0.9 remote-as"}),
    "arista no session": (("   neighbor 10.1.0.9 peer group UP\n   neighbor 10.1.0.9 remote-as 64900\n", ""),
                          {"PF066 router bgp 65100 neighbor 10.1.0.9"}),
    "arista as": (("10.1.0.9 remote-as 64900", "10.1.0.9 remote-as 64.900"),
                  {"PF066 router bgp 65100 neighbor 10.1.0.9 remote-as"}),
    "arista own as": (("router bgp 65100", "router bgp 65111"), {"PF066 router bgp 65111"}),
    "arista shut": (("   maximum-paths", "   neighbor 10.1.0.9 shutdown\n   maximum-paths"),
                    {"PF066 router bgp 65100 neighbor 10.1.0.9 shutdown"}),
    "arista off": (("   maximum-paths", "   shutdown\n   maximum-paths"), {"PF066 router bgp 65100 shutdown"}),
    "arista wide": (("ip address 10.1.0.8/31", "ip address 10.1.0.8/30"),
                    {"PF064 spine0", "PF064 interface Ethernet12 ip address"}),
    "arista one path": (("   maximum-paths 64 ecmp 64\n", ""), {"PF068 router bgp 65100 maximum-paths"}),
    "arista relax": (("   maximum-paths", "   no bgp bestpath as-path multipath-relax\n   maximum-paths"),
                     {"PF068 router bgp 65100 bgp bestpath as-path multipath-relax"}),
    "arista timers": (("timers 3 9", "timers 60 180"),
                      {f"PF069 router bgp 65100 neighbor 10.1.0.{n} timers" for n in (9, 11)}),
    "arista bfd": (("   maximum-paths", "   neighbor 10.1.0.9 bfd\n   maximum-paths"), {"PF069 spine0"}),
    "arista address": (("ip address 10.1.0.8/31", "ip address 10.1.0.28/31"),
                       {"PF064 spine0", "PF067 router bgp 65100 neighbor 10.1.0.9"}),
    "arista route map": (("   maximum-paths", "   neighbor UP route-map IN in\n   maximum-paths"),
                         {"PF002 router bgp 65100 neighbor UP route-map IN in"}),
    "arista group": (("neighbor 10.1.0.9 peer group UP", "neighbor 10.1.0.9 peer group UPP"),
                     {"PF002 router bgp 65100 neighbor 10.1.0.9 peer group UPP"}),
    "arista profile": (("Ethernet1\n   mtu 9214\n   speed forced 25gfull\n   no switchport\n   service-profile ROCE",
                        "Ethernet1\n   mtu 9214\n   speed forced 25gfull\n   no switchport\n   service-profile ROCEE"),
                       {"PF002 interface Ethernet1 service-profile ROCEE"}),
    "cumulus as": ((("neighbor", "10.1.0.1", "remote-as"), 64999), {f"PF066 {BGP} neighbor 10.1.0.1 remote-as"}),
    "cumulus external": ((("neighbor", "10.1.0.1", "remote-as"), "external"), set()),
    "cumulus internal": ((("neighbor", "10.1.0.1", "remote-as"), "internal"),
                         {f"PF066 {BGP} neighbor 10.1.0.1 remote-as"}),
    "cumulus shut": ((("neighbor", "10.1.0.1", "shutdown"), "on"), {f"PF066 {BGP} neighbor 10.1.0.1 shutdown"}),
    "cumulus off": ((("enable",), "off"), {f"PF066 {BGP} enable"}),
    "cumulus timers": ((("neighbor", "10.1.0.1", "timers"), {"hold": 180, "keepalive": 60}),
                       {f"PF069 {BGP} neighbor 10.1.0.1 timers hold"}),
    "cumulus one path": ((("address-family",), {"ipv4-unicast": {"multipaths": {"ebgp": 1}}}),
                         {f"PF068 {BGP} address-family ipv4-unicast multipaths ebgp"}),
    "cumulus relax": ((("path-selection",), {"multipath": {"aspath-ignore": "off"}}),
                      {f"PF068 {BGP} path-selection multipath aspath-ignore"}),
    "cumulus bfd": ((("neighbor", "10.1.0.1", "bfd"), {"enable": "on"}), {"PF069 spine0"}),
    "cumulus route map": (
        (("neighbor", "10.1.0.1", "address-family"), {"ipv4-unicast": {"policy": {"inbound": {"route-map": "IN"}}}}),
        {f"PF002 {BGP} neighbor 10.1.0.1 address-family ipv4-unicast policy inbound route-map"}),
    "cumulus group": ((("neighbor", "10.1.0.1"), {"type": "numbered", "peer-group": "up"}), set()),
}  # fmt: skip


@pytest.mark.parametrize("kind", SESSIONS)
def test_a_fault_of_bgp_of_a_vendor(tmp_path, kind):
    """Sessions of all vendors with SONiC are judged by the same rules, and the places are in the vendor's words."""
    own = routed(Mixed())
    change, wanted = SESSIONS[kind]
    if kind.startswith("arista"):
        own.replace("arista0", *change)
    else:
        node = own.set("cumulus0")["vrf"]["default"]["router"]["bgp"]
        node["peer-group"] = {"up": {"remote-as": 64900, "timers": {"hold": 9}}}
        path, value = change
        for word in path[:-1]:
            node = node.setdefault(word, {})
        node[path[-1]] = value
    report = judge(read_fabric([own.write(tmp_path)]))
    found = {
        f"{f.code} {'spine0' if f.place.device == 'spine0' else ' '.join(str(f.place).split()[1:])}"
        for f in report.findings
    }
    assert found == wanted
    locator = Locator(report.reading)
    assert all(locator.find(f.place, "").line for f in report.findings if f.place.device != "spine0")


def test_a_wide_subnet_of_one_uplink_is_not_that_of_the_other(tmp_path):
    """The session of the other uplink is known by the longest prefix, as routes are."""
    own = routed(Mixed())
    own.set("cumulus0")["interface"]["swp11"]["ip"] = {"address": {"10.1.0.0/30": {}}}
    report = judge(read_fabric([own.write(tmp_path)]))
    assert {f.code for f in report.findings} == {"PF064"}


def test_bgp_that_is_off_in_all_vrfs(tmp_path):
    own = routed(Mixed())
    own.set("cumulus0")["router"]["bgp"]["enable"] = "off"
    (found,) = judge(read_fabric([own.write(tmp_path)])).findings
    assert (found.code, found.message) == (
        "PF066",
        "BGP is shut down here, and 2 sessions of other switches wait for it",
    )


def test_an_address_of_a_switched_port_of_eos_is_named(tmp_path):
    own = routed(Mixed())
    text = own.eos["arista0"]
    at = text.index("interface Ethernet11")
    own.eos["arista0"] = text[:at] + text[at:].replace("   no switchport\n", "", 1)
    report = judge(read_fabric([own.write(tmp_path)]))
    assert any("ip address 10.1.0.8/31: EOS ignores it" in note for note in report.reading.fabric.notes)
    assert "PF067 arista0 router bgp 65100 neighbor 10.1.0.9" in {f"{f.code} {f.place}" for f in report.findings}


def test_a_routed_mixed_fabric_is_clean(tmp_path):
    report = judge(read_fabric([routed(Mixed()).write(tmp_path)]))
    assert [f"{f.code} {f.place}: {f.message}" for f in report.findings] == []
    assert not any("not read: router bgp" in note and "router-id" not in note for note in report.reading.fabric.notes)


@pytest.mark.parametrize("metres", [None, 5])
def test_profiles_with_names_of_sonic_on_other_switches_have_no_patch(mixed, tmp_path, metres):
    name = "pg_lossless_25000_40m_profile"
    own = mixed.copy()
    node = own.set("cumulus0")
    profile = {"switch-priority": {"3": {}}, "port-buffer": 900_000, "xoff-threshold": 20_000}
    node["qos"]["pfc"][name] = profile | ({"cable-length": metres} if metres else {})
    del node["qos"]["roce"]
    node["interface"]["swp11"]["qos"]["pfc"]["profile"] = name
    report = judge(read_fabric([own.write(tmp_path)]))
    assert not any(finding.patch for finding in report.findings if finding.place.device == "cumulus0")


def test_values_of_nvue(tmp_path):
    switch: Any = nvue.read(NVUE, "startup.yaml", "unnamed")
    port = switch.ports["swp3s0"]
    assert (switch.name, port.speed, port.mtu, port.fec, port.cable) == ("leaf07", 50_000, 9000, "rs", 30.0)
    assert (port.lossless, switch.ports["swp1"].lossless, switch.ports["swp4"].lossless) == ({3, 5}, {2}, {2})
    assert switch.maps.dscp_to_tc["storage"][26] == 5
    assert switch.maps.dscp_to_tc["storage"][48] == 6
    assert port.qos.dscp_to_tc == "storage"
    assert port.qos.dot1p_to_tc is None
    assert switch.wred[port.queues[5].wred].min_threshold == 40_000
    assert switch.schedulers[port.queues[6].scheduler].kind == "STRICT"
    bond = switch.channels["bond1"]
    assert (bond.members, bond.mode, bond.fast, bond.mclag) == (["swp7", "swp8"], "active", False, "mlag 1")
    assert not switch.ports["swp8"].up
    assert "startup.yaml: not read: system ntp server (line" in "".join(switch.statements.notes())


NVUE = """
- header: {model: VX, nvue-api-version: nvue_v1}
- set:
    interface:
      swp1-2,swp4:
        link: {speed: 100G}
        qos: {pfc: {profile: plain}}
        type: swp
      swp3s0:
        link: {speed: 50G, mtu: 9000, fec: rs}
        qos:
          pfc: {profile: storage}
          mapping: {profile: storage}
          congestion-control: {profile: storage}
          egress-scheduler: {profile: storage}
        type: swp
      swp7: {type: swp}
      swp8:
        link: {state: {down: {}}}
        type: swp
      bond1:
        bond:
          member: {swp7: {}, swp8: {}}
          lacp-rate: slow
          mlag: {id: 1}
        type: bond
    qos:
      pfc:
        storage: {switch-priority: {'3': {}, '5': {}}, cable-length: 30, rx: disable}
        plain: {switch-priority: {'2': {}}}
      mapping:
        storage: {trust: l3, dscp: {'24-31': {switch-priority: 5}}}
      congestion-control:
        storage: {traffic-class: {'4,5': {min-threshold: 40000, max-threshold: 90000}}}
      egress-scheduler:
        storage: {traffic-class: {'6': {mode: strict}, '5': {mode: dwrr, bw-percent: 60}}}
    system:
      hostname: leaf07
      ntp: {server: {10.0.0.1: {}}}
"""


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("min-threshold: 40000", "min-threshold: banana", "min-threshold: banana"),
        ("max-threshold: 90000", "max-threshold: 90000, probability: 0.5", "probability: 0.5"),
        ("max-threshold: 90000", "max-threshold: 90000, probability: 500", "probability: 500"),
        ("max-threshold: 90000", "max-threshold: 90000, ecn: perhaps", "ecn: perhaps"),
        ("link: {speed: 100G}", "link: {speed: 100000}", "speed: 100000"),
        ("fec: rs", "fec: driver-auto", "fec: driver-auto"),
        ("mtu: 9000", "mtu: 9217", "mtu: 9217"),
        ("cable-length: 30", "cable-length: 10000000", "cable-length: 10000000"),
        ("cable-length: 30", "port-buffer: lots", "port-buffer: lots"),
        ("trust: l3", "trust: banana", "trust: banana"),
        ("'3': {}, '5': {}", "'3': {}, '9': {}", "9"),
        ("'24-31': {switch-priority: 5}", "'24-31': {switch-priority: 8}", "switch-priority: 8"),
        ("bw-percent: 60", "bw-percent: 600", "bw-percent: 600"),
        ("lacp-rate: slow", "lacp-rate: slower", "lacp-rate: slower"),
        ("    qos:\n      pfc:\n", "    qos:\n      pfc-watchdog: {robustness: 50000}\n      pfc:\n",
         "robustness: 50000"),
    ],
)  # fmt: skip
def test_values_of_nvue_that_are_not_understood_are_named(old, new, named):
    assert old in NVUE
    switch: Any = nvue.read(NVUE.replace(old, new), "startup.yaml", "unnamed")
    (note,) = (note for note in switch.statements.notes() if "not understood, so not used" in note)
    assert f": {named} (line " in note


@pytest.mark.parametrize(
    ("text", "speed"), [("2.5G", 2500), ("100g", 100_000), ("10M", 10), ("800G", 800_000), ("auto", None)]
)
def test_speeds_of_nvue(text, speed):
    switch: Any = nvue.read(NVUE.replace("speed: 50G", f"speed: {text}"), "startup.yaml", "unnamed")
    assert switch.ports["swp3s0"].speed == speed
    assert not switch.statements.refused


def test_sizes_of_nvue():
    text = NVUE.replace("max-threshold: 90000", "max-threshold: 1 GB").replace("cable-length: 30", "port-buffer: 1 MB")
    switch: Any = nvue.read(text, "startup.yaml", "unnamed")
    assert switch.wred["storage traffic-class 5"].max_threshold == 1024**3
    assert [note for note in switch.statements.notes() if "used only with the first two given" in note]


def test_what_has_no_place_in_the_model_is_said():
    switch: Any = nvue.read(NVUE, "startup.yaml", "unnamed")
    notes = list(switch.statements.notes())
    assert "startup.yaml: qos pfc storage rx disable: ports that do not obey pauses are judged as if they did" in notes


def test_defaults_of_qos_roce():
    switch: Any = nvue.read("- set: {qos: {roce: {}}, interface: {swp1: {link: {speed: 100G}}}}\n", "a.yaml", "a")
    port = switch.ports["swp1"]
    assert (port.lossless, port.cable, port.mtu) == ({3}, 100.0, 9216)
    assert switch.maps.tc_to_queue["default-global"] == {0: 0, 1: 0, 2: 0, 3: 3, 4: 0, 5: 0, 6: 6, 7: 0}
    assert {n for n, q in port.queues.items() if q.wred} == {0, 3}
    assert switch.schedulers[port.queues[6].scheduler].kind == "STRICT"
    off: Any = nvue.read("- set: {qos: {roce: {enable: 'off'}}, interface: {swp1: {}}}\n", "a.yaml", "a")
    assert off.ports["swp1"].lossless == frozenset()
    lossy: Any = nvue.read("- set: {qos: {roce: {mode: lossy}}, interface: {swp1: {}}}\n", "a.yaml", "a")
    assert lossy.ports["swp1"].lossless == frozenset()


def test_json_of_nvue_is_the_same_as_its_yaml(mixed, tmp_path):
    for name, value in mixed.nvue.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "nvue.json").write_text(json.dumps(value, indent=2))
    found = read_fabric([tmp_path]).fabric.switches
    assert set(found) == {"cumulus0", "cumulus1"}
    assert found["cumulus0"].ports["swp11"].lossless == {3}


@pytest.mark.parametrize(
    "text",
    [
        "- set: {a: &x {b: *x}}\n",
        "- set: &a {b: [*a]}\n",
        "- set: {" + "a: {" * 60 + "}" * 61 + "\n",
        "- set: [\n",
    ],
)
def test_damaged_files_of_nvue_are_errors_or_nothing(tmp_path, text):
    (tmp_path / "startup.yaml").write_text(text)
    with pytest.raises(DeviceFileError):
        read_fabric([tmp_path / "startup.yaml"])


EOS = """! device: leaf3 (DCS-7050CX3-32S, EOS-4.30.1F)
!
hostname leaf3
!
qos map cos 5 to traffic-class 3
qos map dscp 40 41 42 to traffic-class 3
qos map traffic-class 3 to tx-queue 4
!
platform trident mmu queue profile lossless
   ingress reserved bytes 2080
   ingress headroom cells 300
!
platform trident mmu queue profile lossless apply
!
interface Port-Channel10
   mtu 9000
   port-channel min-links 2
   port-channel lacp fallback timeout 10
   mlag 10
!
interface Ethernet1/1
   speed forced 100gfull
   channel-group 10 mode passive
   lacp timer fast
   priority-flow-control on
   priority-flow-control priority 3 no-drop
   tx-queue 4
      random-detect ecn minimum-threshold 10 microseconds maximum-threshold 400 segments max-mark-probability 50
   priority-flow-control pause watchdog
   priority-flow-control pause watchdog port action drop
   priority-flow-control pause watchdog port timer timeout 0.05 polling-interval auto recovery-time 1.11 forced
!
interface Ethernet1/2
   channel-group 10 mode passive
   no switchport
   qos trust cos
   shutdown
!
ip routing
end
"""


def test_values_of_eos():
    switch: Any = eos.read(EOS, "leaf3.cfg", "unnamed")
    one, two = switch.ports["Ethernet1/1"], switch.ports["Ethernet1/2"]
    assert (switch.name, one.speed, one.mtu, two.mtu, two.up) == ("leaf3", 100_000, 9214, 1500, False)
    assert (one.lossless, two.lossless) == ({3}, frozenset())
    assert (one.qos.dscp_to_tc, one.qos.dot1p_to_tc, two.qos.dot1p_to_tc) == (None, "qos map", "qos map")
    maps = switch.maps
    assert (maps.dscp_to_tc["qos map"][0], maps.dscp_to_tc["qos map"][8], maps.dscp_to_tc["qos map"][41]) == (1, 0, 3)
    assert (maps.dot1p_to_tc["qos map"][0], maps.dot1p_to_tc["qos map"][5]) == (1, 3)
    assert maps.tc_to_queue["qos map"][3] == 4
    wred = switch.wred[one.queues[4].wred]
    assert (wred.min_threshold, wred.max_threshold, wred.drop_probability) == (125_000, 83_200, 50)
    dog = one.watchdog
    assert (dog.action, dog.detection, dog.restoration) == ("drop", 50, 1110)
    assert switch.headroom_of(one, 3) == (62_400, "lossless")
    channel = switch.channels["Port-Channel10"]
    assert (channel.members, channel.mode, channel.fast) == (["Ethernet1/1", "Ethernet1/2"], "passive", False)
    assert (channel.min_links, channel.fallback, channel.mclag, channel.mtu) == (2, True, "mlag 10", 9000)
    interval = "leaf3.cfg: interface Ethernet1/1: polling-interval auto: judged as the interval of all ports"
    assert sorted(switch.statements.notes()) == [interval, "leaf3.cfg: not read: ip routing (line 39)"]
    place = switch.statements.own(Place("leaf3", "PORT", "Ethernet1/2", "admin_status"))
    assert str(place) == "leaf3 interface Ethernet1/2 shutdown"
    assert EOS.splitlines()[switch.statements.line_of(place) - 1].strip() == "shutdown"


TIMED = ("150 kbytes maximum-threshold 1500 kbytes", "12 microseconds maximum-threshold 120 microseconds")
"""Thresholds of generated switches in bytes, and as long as 100 Gb/s takes for these bytes."""


def _cables(leaves):
    forms = {"cumulus": "swp{}", "arista": "Ethernet{}"}
    rows = [(leaf, forms[leaf[:-1]].format(n), f"server-{leaf}-{n}") for leaf in leaves for n in (1, 2)]
    head = "device_a,termination_a,device_b,termination_b,status\n"
    return head + "".join(f"{leaf},{port},{server},eth0,connected\n" for leaf, port, server in rows)


@pytest.mark.parametrize("speed", ["   speed 100g-4\n", ""])
def test_thresholds_in_time_are_bytes_at_the_rate_of_each_port(mixed, tmp_path, speed):
    own = mixed.copy()
    own.replace("arista0", *TIMED)
    own.replace("arista0", "   speed 100g-4\n", speed)
    (own.write(tmp_path) / "cables.csv").write_text(_cables([*own.nvue, *own.eos]))
    reading = read_fabric([tmp_path])
    for port in reading.fabric.switches["arista0"].ports.values():
        wred = reading.fabric.switches["arista0"].wred[port.queues[3].wred or ""]
        rate = None if port.speed is None else port.speed // 1000
        assert (wred.min_threshold, wred.max_threshold) == (
            (None, None) if rate is None else (1500 * rate, 15_000 * rate)
        )
    marker = tomllib.loads(import_fabric(reading, load="incast").toml)["switch"]["classes"]["queue3"]["marker"]
    for which, threshold in (("min", 150_000), ("max", 1_500_000)):
        assert marker[which]["arista0:Ethernet11"] == f"{threshold} B"
        assert marker[which]["arista0:Ethernet1"] == f"{threshold // 4} B"
    statements = reading.fabric.switches["arista0"].statements
    assert statements is not None
    place = statements.own(
        Place("arista0", "WRED_PROFILE", "qos profile ROCE uc-tx-queue 3|25000 Mb/s", "green_min_threshold")
    )
    assert str(place) == "arista0  qos profile ROCE uc-tx-queue 3 random-detect".replace("  ", " ")


@pytest.mark.parametrize(
    ("text", "speed"),
    [("forced 10000full", 10_000), ("forced 1000full", 1000), ("25gfull", 25_000), ("auto 100gfull", 100_000),
     ("50g-1", 50_000), ("200g-4", 200_000), ("auto 2.5gfull", 2500), ("100full", 100), ("auto", None)],
)  # fmt: skip
def test_speeds_of_eos(text, speed):
    switch: Any = eos.read(EOS.replace("speed forced 100gfull", f"speed {text}"), "leaf3.cfg", "unnamed")
    assert switch.ports["Ethernet1/1"].speed == speed
    assert not switch.statements.refused


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("speed forced 100gfull", "speed 100banana"),
        ("speed forced 100gfull", "speed 100000"),
        ("mtu 9000", "mtu 90000"),
        ("lacp timer fast", "error-correction encoding banana"),
        ("max-mark-probability 50", "max-mark-probability 500"),
        ("ingress headroom cells 300", "ingress headroom pages 300"),
        ("port-channel min-links 2", "port-channel min-links two"),
        ("   no switchport\n   qos trust cos", "   no qos trust\n   qos cos 9"),
        ("qos map cos 5", "priority-flow-control pause watchdog default timeout soon\nqos map cos 5"),
    ],
)
def test_values_of_eos_that_are_not_understood_are_named(old, new):
    switch: Any = eos.read(EOS.replace(old, new), "leaf3.cfg", "unnamed")
    (note,) = (note for note in switch.statements.notes() if "not understood, so not used" in note)
    assert new.split("\n")[new.count("\n") and "qos cos" in new].strip() in note
    assert "(line " in note


def test_weight_and_polling_interval_of_eos():
    text = EOS.replace("probability 50", "probability 50 weight 9").replace("interval auto", "interval 0.025")
    switch: Any = eos.read(text, "leaf3.cfg", "unnamed")
    assert (switch.ports["Ethernet1/1"].watchdog.poll, switch.watchdog_poll) == (25, 100)
    assert [note for note in switch.statements.notes() if "tx-queue 4: weight 9: the queue is not averaged" in note]
    text = EOS.replace("random-detect ecn minimum-threshold 10 microseconds maximum-threshold 400 segments",
                       "random-detect drop minimum-threshold 3 kbytes maximum-threshold 9 kbytes")  # fmt: skip
    switch = eos.read(text.replace(" max-mark-probability 50", ""), "leaf3.cfg", "unnamed")
    assert switch.wred[switch.ports["Ethernet1/1"].queues[4].wred].min_threshold == 3000


def test_an_unknown_unit_of_a_threshold_is_named(mixed, tmp_path):
    own = mixed.copy()
    own.replace("arista0", TIMED[0], "150 gallons maximum-threshold 1500 kbytes")
    report = judge(read_fabric([own.write(tmp_path)]))
    (note,) = (note for note in report.reading.fabric.notes if "not understood" in note)
    assert "random-detect ecn minimum-threshold 150 gallons" in note
    assert {f.code for f in report.findings if f.place.device == "arista0"} == {"PF034"}


def test_a_mixed_fabric_is_simulated(mixed, tmp_path):
    (mixed.write(tmp_path) / "cables.csv").write_text(_cables([*mixed.nvue, *mixed.eos]))
    found = import_fabric(read_fabric([tmp_path]), load="incast")
    scenario = tomllib.loads(found.toml)
    assert len(scenario["topology"]["hosts"]) == 8
    assert scenario["switch"]["pfc"]["priorities"] == [3]
    marks = scenario["switch"]["classes"]["queue3"]["marker"]["min"]
    assert (marks["arista0:Ethernet11"], marks["cumulus1:swp12"]) == ("150000 B", "150000 B")
    rows = {row["key"]: row["state"] for row in found.rows}
    assert rows["interface * link speed"] == "mapped"
    assert rows["router bgp / router-id *.*"] == rows["router bgp autonomous-system"] == "not held"
    summary = run(found.toml, progress=False).summary
    assert summary["flows_finished"] == summary["flows_total"] == 7
    assert summary["drops"] == 0


def test_what_no_simulated_fabric_has_is_not_called_mapped(tmp_path):
    """Statements that rules read, but the scenario lacks; `lint --design` lists them as uncompared."""
    own = Mixed()
    own.eos["arista0"] = own.eos["arista0"].replace(
        "   uc-tx-queue 3\n", "   uc-tx-queue 3\n      shape rate 5000000 kbps\n"
    )
    node = own.set("cumulus0")
    pfc = node["qos"]["pfc"]
    name = next(iter(pfc))
    pfc[name] |= {"rx": "disable", "xoff-threshold": 20_000}
    own.write(tmp_path)
    found = import_fabric(read_fabric([tmp_path]), load="incast")
    state = {row["key"]: (row["state"], row["how"]) for row in found.rows}
    assert state["qos profile / shape rate"] == ("not held", "the simulator has no shaper")
    assert state["qos pfc * rx"] == ("not held", "ports are simulated as if they obeyed pauses")
    assert state["qos pfc * xoff-threshold"] == ("not held", "used only with port-buffer and xoff-threshold")


def test_a_design_names_places_that_other_vendors_have(tmp_path):
    """A longer cable is one error, at the port that has it: the memory that follows from it stands in no statement."""
    own = Mixed()
    own.write(tmp_path / "before")
    source = tmp_path / "good.toml"
    source.write_text(import_fabric(read_fabric([tmp_path / "before"]), load="roce").toml)
    own.set("cumulus0")["qos"]["pfc"]["uplinks"]["cable-length"] = 300
    root = tmp_path / "after"
    own.write(root)
    report = engine.lint([root], design=read_design(source, [root], None), select=["PF091"])
    [finding] = report.findings
    assert str(finding.place) == "cumulus0 interface swp11 qos pfc profile"
    assert not finding.patch


def test_pages_of_rules_say_to_whom_they_apply():
    kinds = {code: set(rule.devices) for code, rule in rules().items()}
    assert {"nvue", "eos"} <= kinds["PF053"]
    assert not {"nvue", "eos"} & kinds["PF001"]
    assert "Applies to: SONiC, Cumulus Linux (NVUE), Arista EOS" in output.explain("PF041")


@pytest.mark.parametrize(
    ("key", "ports"),
    [
        ("swp1s0-1", ["swp1s0", "swp1s1"]),
        ("swp1s0-3,swp2", ["swp1s0", "swp1s1", "swp1s2", "swp1s3", "swp2"]),
        ("swp1-2s0-1", ["swp1s0", "swp1s1", "swp2s0", "swp2s1"]),
        ("swp1-2s0, swp9", ["swp1s0", "swp2s0", "swp9"]),
        ("swp1-2,swp5s0", ["swp1", "swp2", "swp5s0"]),
    ],
)
def test_ranges_of_interfaces(key, ports):
    assert nvue.expanded(key) == ports
    switch: Any = nvue.read(NVUE.replace("swp1-2,swp4:", f"'{key}':"), "startup.yaml", "unnamed")
    assert {switch.ports[port].speed for port in ports} == {100_000}


def test_ranges_of_lines():
    assert ranges([5, 4, 9, 4]) == "4-5, 9"
    assert MTU == 9214


def eos_lldp(rows: list[tuple[str, str, str, bool]], *, detail: bool) -> dict[str, Any]:
    """`show lldp neighbors | json` of rows with port, neighbour, its port, and whether it forwards."""
    management = ("Management1", "spine9.dc1.example.net", "Management1", True)
    if not detail:
        listed = [{"port": p, "neighborDevice": d, "neighborPort": far, "ttl": 120} for p, d, far, _ in rows]
        return {"tablesLastChangeTime": 1.5, "lldpNeighbors": [*listed, dict(zip(listed[0], management, strict=True))]}
    by_port = {
        port: {
            "lldpNeighborInfo": [
                {
                    "chassisId": "001c.7300.0001",
                    "systemName": device,
                    "systemCapabilities": {"bridge": forwards, "router": forwards, "stationOnly": not forwards},
                    "neighborInterfaceInfo": {"interfaceId": f'"{far}"', "interfaceId_v2": far},
                }
            ]
        }
        for port, device, far, forwards in [*rows, management]
    }
    return {"lldpNeighbors": by_port | {"Ethernet30": {"lldpNeighborInfo": []}}}


@pytest.mark.parametrize("detail", [False, True])
def test_eos_shows_its_neighbours(mixed, tmp_path, detail):
    """Names with a domain, MAC addresses in groups of four digits, and no cable of the management network."""
    mixed = mixed.copy()
    for tables in mixed.spines.values():
        neighbours = tables["DEVICE_NEIGHBOR"]
        for port in [port for port, row in neighbours.items() if row["name"].startswith("arista")]:
            del neighbours[port]
    folder = mixed.write(tmp_path)
    for i in range(2):
        rows = [(f"Ethernet{s + 11}", f"spine{s}.dc1.example.net", f"Ethernet{8 + 4 * i}", True) for s in range(2)]
        rows += [(f"Ethernet{n}", f"server{i}-{n}", f"0c42.a100.0{i}0{n}", False) for n in (1, 2)]
        (folder / f"arista{i}" / "lldp.json").write_text(json.dumps(eos_lldp(rows, detail=detail)))
    report = judge(read_fabric([folder]))
    assert [f"{f.code} {f.place}: {f.message}" for f in report.findings] == []
    fabric = report.reading.fabric
    links = {frozenset({f"{link.a.device} {link.a.port}", f"{link.b.device} {link.b.port}"}) for link in fabric.links}
    assert frozenset({"arista1 Ethernet12", "spine1 Ethernet12"}) in links
    assert frozenset({"arista0 Ethernet2", "server0-2 0c:42:a1:00:00:02"}) in links
    assert len(links) == 12
    assert fabric.roles == ({f"server{i}-{n}": "host" for i in range(2) for n in (1, 2)} if detail else {})


@pytest.mark.parametrize("value", ["[]", "{}", "[1]", '[{"port": "Ethernet1"}]', '{"Ethernet1": [3]}', "null", '"x"'])
def test_damaged_neighbours_of_eos_are_none(value):
    assert lldp_neighbours({"lldpNeighbors": json.loads(value)}) == []
