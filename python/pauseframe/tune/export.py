"""Writes the tuned keys as configuration files of devices, using `pauseframe deploy`.

The folder is a complete deployment of the scenario: for SONiC with ECMP as `pauseframe deploy SCENARIO` writes it, else
a plan of VLANs. For each SONiC switch, `tuned.patch` is a JSON patch (RFC 6902) of the fields that the search changed.
Notes list keys that no device file has.
"""

from __future__ import annotations

import json
import math
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe._core import InputError
from pauseframe.deploy.design import ROUTED
from pauseframe.deploy.plan import Settings, Tuned, folder_names
from pauseframe.devices.files import pointer
from pauseframe.fabric.headroom import FRAME, LIGHT
from pauseframe.sweep.spec import split_unit
from pauseframe.terminal.text import format_number
from pauseframe.tune.formulas import Facts, facts_of
from pauseframe.tune.parameters import UNITS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.deploy.design import Design
    from pauseframe.deploy.plan import Plan
    from pauseframe.tune.study import Tuning

TARGETS = ("sonic", "linux")
HOSTS = ("tcp_bolt", "dctcp_plus", "dctcp")
PRIORITIES = (3, 4)
VLANS = 2
OF_DEVICES = (
    *("switch.marker.k", "switch.marker.min", "switch.marker.max", "switch.marker.p_max"),
    *("switch.buffer.size", "switch.buffer.alpha", "switch.pfc.headroom", "host.mtu", "transport.preset"),
    *("transport.rto_min", "transport.initial_window", "transport.delayed_ack_segments"),
)
"""Keys that have a field in device files."""


def export_answer(tuning: Tuning, target: str, out: str | Path, inventory: Sequence[Path] = ()) -> dict[str, Any]:
    """Writes the deployment of the recommended setting into the folder `out`; returns its summary with `out`.

    Raises InputError if no tuned key can be exported or `deploy` does not support the hosts' transport, and DeployError
    if the deployment fails.
    """
    if target not in TARGETS:
        raise InputError(f"--export {target}: write sonic or linux, then a folder")
    if tuning.recommended is None:
        raise InputError("no recommended setting to export: no setting keeps all constraints")
    resolved = tuning.study.source.resolve_with(tuning.recommended)
    summary = _export(tuning, resolved, target, Path(out), inventory)
    if not tuning.recommended:
        kept = "the search keeps the scenario as it stands: this is its deployment, and patches are empty"
        summary["notes"] = [kept, *summary["notes"]]
    return summary


def _export(
    tuning: Tuning, resolved: _core.Resolved, target: str, out: Path, inventory: Sequence[Path]
) -> dict[str, Any]:
    from pauseframe.deploy.write import write_deployment
    from pauseframe.fabric.routing import plan_routes, write_plan

    recommended = tuning.recommended or {}
    facts = facts_of(resolved)
    if target == "sonic" and facts.values["routing.kind"].strip('"') in ROUTED:
        return _export_scenario(tuning, resolved, out, inventory)
    settings, notes = _settings(facts, target, set(recommended))
    topology = _core.Topology.of_scenario(resolved).with_single_ports()
    with tempfile.TemporaryDirectory(prefix="pauseframe-") as folder:
        plan = Path(folder) / "plan"
        write_plan(plan_routes(topology, "up_down", vlans=VLANS, first_vlan=100), topology, plan)
        also = partial(_write_patches, settings) if target == "sonic" else None
        summary = write_deployment(plan, out, settings, inventory=inventory, also=also)
    unknown = sorted(path for path in recommended if path not in OF_DEVICES)
    notes += [f"{path} is not exported: files of {target} switches and hosts have no field for it" for path in unknown]
    return dict(summary) | {"out": str(out), "notes": [*summary["notes"], *notes]}


def _export_scenario(tuning: Tuning, resolved: _core.Resolved, out: Path, inventory: Sequence[Path]) -> dict[str, Any]:
    """Deploys the scenario with the recommended setting; patches are the difference from the scenario without it."""
    from pauseframe.deploy.scenario import deploy_scenario

    usual = tuning.study.source.resolve_with({})
    also = partial(_write_scenario_patches, usual)
    summary = deploy_scenario(resolved, out, Settings(), inventory=inventory, also=also)
    why = {row["key"]: row["why"] for row in summary["unwritten"]}
    notes = [f"{path} is not exported: {why[path]}" for path in sorted(tuning.recommended or ()) if path in why]
    return dict(summary) | {"out": str(out), "notes": [*summary["notes"], *notes]}


def _write_scenario_patches(usual: _core.Resolved, design: Design, out: Path) -> None:
    """Writes, for each switch, a patch of the fields that the search changed."""
    from pauseframe.deploy import routed
    from pauseframe.deploy.design import read_design
    from pauseframe.deploy.inventory import read_inventory
    from pauseframe.devices.sonic_db import ConfigDb
    from pauseframe.lint.patch import difference

    before = read_design(usual, Settings(), read_inventory([out / "inventory.csv"]), None)
    for switch, name in folder_names(design.plan.switches):
        first, last = (ConfigDb("", tables=routed.config_db(one, switch)) for one in (before, design))
        steps = list(difference(first, last))
        (out / "switches" / name / "tuned.patch").write_text(json.dumps(steps, indent=1) + "\n", encoding="utf-8")


def _settings(facts: Facts, target: str, tuned_keys: set[str]) -> tuple[Settings, list[str]]:
    """The settings for `deploy`, and notes on inexact values."""
    hosts = facts.values["transport.preset"].strip('"')
    if hosts not in HOSTS:
        raise InputError(
            f"--export: hosts run {hosts}, and a plan of VLANs is for {', '.join(HOSTS)}: write sonic with "
            'routing.kind = "ecmp", or set transport.preset'
        )
    notes: list[str] = []
    tuned = Tuned(
        **_marks(facts, notes),
        alpha_exponent=_alpha_exponent(facts, notes) if "switch.buffer.alpha" in tuned_keys else None,
        headroom=_whole(facts.size("switch.pfc.headroom")) if "switch.pfc.headroom" in tuned_keys else None,
        rto_min=_milliseconds(facts, notes) if "transport.rto_min" in tuned_keys else None,
        initial_window=_segments(facts) if "transport.initial_window" in tuned_keys else None,
        immediate_acks=facts.number("transport.delayed_ack_segments") == 1
        if "transport.delayed_ack_segments" in tuned_keys
        else None,
    )
    size = facts.size("switch.buffer.size")
    shared = facts.values["switch.buffer.policy"] == '"shared"' and size is not None
    if not shared:
        notes.append("the scenario has a buffer for each port; the files have a shared one of 32 MB")
    settings = Settings(
        target=target,
        hosts=hosts,
        priorities=PRIORITIES,
        cable=_cable(facts),
        mtu=round(facts.mtu),
        buffer=round(size or 0) if shared else Settings.buffer,
        tuned=tuned,
    )
    return settings, notes


def _marks(facts: Facts, notes: list[str]) -> dict[str, int | None]:
    step, low, high = (_bytes(facts, f"switch.marker.{key}") for key in ("k", "min", "max"))
    least = 2 * (round(facts.mtu) + FRAME)
    if facts.values["switch.marker.kind"] == '"red"':
        share = facts.number("switch.marker.p_max") or 0.0
        return {"mark_min": low, "mark_max": high, "mark_percent": max(1, round(100 * share))}
    if step is not None and step < least:
        notes.append(
            f"marks begin at {step} B, fewer than two frames ({least} B): check that the switch counts so finely"
        )
    return {"mark_min": step, "mark_max": step, "mark_percent": 100}


def _bytes(facts: Facts, path: str) -> int | None:
    """A size, or a number of MTU-sized packets, in bytes."""
    found = split_unit(facts.values.get(path, "").strip('"'))
    if found is not None and found[1] == "packets":
        return round(found[0] * (facts.mtu + FRAME))
    return _whole(facts.size(path))


def _alpha_exponent(facts: Facts, notes: list[str]) -> int | None:
    """Exponent of alpha as a power of two, rounded down, so that no group holds more than in the simulation."""
    alpha = facts.number("switch.buffer.alpha")
    if alpha is None:
        return None
    exponent = min(max(math.floor(math.log2(alpha) + 1e-9), -8), 7)
    if not math.isclose(2.0**exponent, alpha):
        notes.append(
            f"alpha = {format_number(alpha)} is written as {2.0**exponent:g}: SONiC has powers of two, and this is the "
            "next one below"
        )
    return exponent


def _milliseconds(facts: Facts, notes: list[str]) -> str | None:
    seconds = facts.size("transport.rto_min")
    if seconds is None:
        return None
    whole = max(1, math.ceil(seconds * 1e3 - 1e-9))
    if not math.isclose(whole / 1e3, seconds):
        notes.append(f"rto_min = {seconds * 1e3:g} ms is written as {whole} ms: routes take whole milliseconds")
    return f"{whole}ms"


def _segments(facts: Facts) -> int:
    text = facts.values["transport.initial_window"].strip('"')
    found = split_unit(text)
    segment = facts.mtu - 40
    if text == "bdp" or found is None:
        return max(1, math.ceil(facts.bdp / segment))
    return max(1, round(found[0] if found[1].startswith("segment") else found[0] * UNITS[found[1]] / segment))


def _cable(facts: Facts) -> float:
    """Length of the longest link in metres, for the headroom."""
    delays = [facts.size(f"topology.{link}.delay") for link in ("link", "fabric_link")]
    return max(1.0, math.ceil(max(delay or 0.0 for delay in delays) * LIGHT))


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _write_patches(settings: Settings, plan: Plan, out: Path) -> None:
    """Writes, for each switch, a patch of the fields that the search changed."""
    from pauseframe.deploy import sonic

    usual = replace(settings, tuned=Tuned())
    names = dict(folder_names(plan.switches))
    for switch in plan.switches:
        before, after = (sonic.config_db(plan, switch, one) for one in (usual, settings))
        steps = [
            {"op": "replace", "path": pointer(table, key, field), "value": value}
            for table, rows in after.items()
            for key, row in rows.items()
            for field, value in row.items()
            if before[table][key].get(field) != value
        ]
        (out / "switches" / names[switch] / "tuned.patch").write_text(
            json.dumps(steps, indent=1) + "\n", encoding="utf-8"
        )
