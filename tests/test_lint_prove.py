"""Simulates the consequences of findings: for thirty faults the predicted loss, storm or deadlock occurs."""

import json
import random

import lint_fabrics
import pytest
from lint_faults import (
    code_points,
    group_map,
    late_mark,
    lossy_profile,
    no_headroom,
    no_watchdog,
    pause_off,
    small_headroom,
)
from pauseframe.lint import lint
from pauseframe.lint.prove import prove, short_headroom
from test_fabrics import cli

FAULTS = [small_headroom, no_headroom, lossy_profile, group_map, code_points, pause_off, no_watchdog, late_mark]


def ring(count, speed, cable):
    devices = {}
    for i in range(count):
        ports = {
            "Ethernet0": (speed, 5, f"host{i}", "eth0"),
            "Ethernet4": (speed, cable, f"r{(i + 1) % count}", "Ethernet8"),
            "Ethernet8": (speed, cable, f"r{(i - 1) % count}", "Ethernet4"),
        }
        devices[f"r{i}"] = lint_fabrics.switch(f"r{i}", ports, lookup=False)
    return devices


@pytest.mark.parametrize("number", range(24))
def test_faults_in_a_clos(tmp_path, number):
    draw = random.Random(f"prove {number}")
    devices = lint_fabrics.clos(3, 2, 2, seed=number)
    what, codes = FAULTS[number % len(FAULTS)](devices, draw)
    report = lint([lint_fabrics.write(devices, tmp_path / "fabric")])
    found = [finding for finding in report.findings if finding.code in codes and finding.consequence]
    proofs = prove(found, tmp_path / "proofs", most=1)
    assert proofs, what
    assert proofs[0].shown, (what, proofs[0].file.read_text())


@pytest.mark.parametrize("number", range(6))
def test_circles(tmp_path, number):
    devices = ring(5 + number, [10_000, 25_000, 100_000][number % 3], 40)
    report = lint([lint_fabrics.write(devices, tmp_path / "ring")])
    proofs = prove(report.findings, tmp_path / "proofs", most=1)
    assert proofs[0].code == "PF060"
    assert "deadlock" in (proofs[0].shown or "")


def test_enough_headroom_loses_nothing(tmp_path):
    """The same scenario with the formula's headroom loses nothing: the fault causes the loss, not the scenario."""
    from pauseframe.devices.model import Place
    from pauseframe.headroom import FRAME, annex_o
    from pauseframe.lint.finding import Finding

    for speed, cable, mtu in ((10_000, 5, 1500), (100_000, 40, 1024), (100_000, 300, 9000), (25_000, 100, 9000)):
        need = annex_o(speed, cable, max_frame=mtu + FRAME).total
        for headroom, lossy in ((need, False), (need // 4, True)):
            finding = Finding(Place("x"), "", code="PF010", consequence=short_headroom(speed, cable, mtu, headroom))
            shown = prove([finding], tmp_path / f"{speed}-{mtu}-{headroom}")[0].shown
            assert (shown is not None) == lossy, (speed, cable, mtu, headroom, shown)


def test_command(tmp_path):
    devices = lint_fabrics.clos(3, 2, 2)
    profile = next(p for p in devices["leaf0"]["BUFFER_PROFILE"] if p.startswith("pg_lossless"))
    devices["leaf0"]["BUFFER_PROFILE"][profile]["xoff"] = "1000"
    folder = lint_fabrics.write(devices, tmp_path / "fabric")
    done = cli("lint", folder, "--prove", "--proofs", tmp_path / "proofs")
    assert done.returncode == 1
    assert "packets lost (headroom_exceeded): pauseframe run" in done.stderr
    scenario = tmp_path / "proofs" / "PF010-1" / "scenario.toml"
    summary = json.loads(cli("run", scenario, "--out", tmp_path / "run", "--json").stdout)
    assert summary["drops_by_reason"]["headroom_exceeded"] > 0
