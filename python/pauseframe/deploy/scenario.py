"""Writes the files of a scenario: what was simulated is what devices get."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pauseframe.deploy import bonds, dcqcn, patches, rollout_routed, routed, routed_hosts, underlay
from pauseframe.deploy.design import Design, read_design
from pauseframe.deploy.inventory import DeployError, read_inventory
from pauseframe.deploy.plan import Settings, folder_names
from pauseframe.deploy.unwritten import unwritten
from pauseframe.deploy.write import MARK, check_empty, inventory_text, write_change, write_json, write_script
from pauseframe.files.atomic import whole_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pauseframe import _core
    from pauseframe.deploy.sonic import Tables
    from pauseframe.devices.sonic_db import ConfigDb
    from pauseframe.types import ScenarioDeployment

RESOLVED = "scenario.resolved.toml"
"""The scenario that was deployed, each key with its value."""


def deploy_scenario(
    resolved: _core.Resolved,
    out: Path,
    settings: Settings,
    *,
    cable: float | None = None,
    inventory: Sequence[Path] = (),
    force: bool = False,
    also: Callable[[Design, Path], None] | None = None,
) -> ScenarioDeployment:
    """Writes the files of a scenario's switches and hosts into the folder `out`. Returns counts, notes, unwritten keys.

    `settings` give target and release; `cable` in metres replaces the cables that delays imply. Raises DeployError for
    a scenario that devices cannot run, and for files with which `pauseframe lint` finds an error.
    """
    known = read_inventory(inventory)
    check_empty(out, force)
    design = read_design(resolved, settings, known, cable)
    plan, addresses = design.plan, underlay.addresses(design)
    before, machines = patches.of_inventory(known, plan.switches), bonds.machines(design)
    names = dict(folder_names(plan.switches)) | dict(folder_names([machine.name for machine in machines]))
    with whole_folder(out, replace=force) as partial:
        for switch in plan.switches:
            own = partial / "switches" / names[switch]
            own.mkdir(parents=True)
            tables = routed.config_db(design, switch)
            write_json(own / "config_db.json", tables)
            routing = underlay.tables(design, switch)
            write_json(own / "underlay.json", routing)
            write_change(own, switch, _parts(design, switch, tables, routing, before), before.get(switch))
        for host in machines:
            own = partial / "hosts" / names[host.name]
            (own / "networkd").mkdir(parents=True)
            write_script(own / "setup.sh", routed_hosts.script(design, host, addresses))
            (own / "hostname").write_text(host.name + "\n", encoding="utf-8")
            for name, text in routed_hosts.networkd(design, host, addresses).items():
                (own / "networkd" / name).write_text(text, encoding="utf-8")
            if text := routed_hosts.sysctl_file(design):
                (own / "sysctl.conf").write_text(text, encoding="utf-8")
            if registers := routed_hosts.registers(design, host.ports[0]):
                (own / "mlxconfig.txt").write_text(dcqcn.query(registers), encoding="utf-8")
        (partial / "inventory.csv").write_text(inventory_text(plan), encoding="utf-8")
        (partial / "ROLLOUT.md").write_text(
            rollout_routed.as_text(design, names, patched=bool(before)), encoding="utf-8"
        )
        _check(design, partial)
        summary = _summary(design, cable)
        (partial / RESOLVED).write_text(resolved.toml, encoding="utf-8")
        if also is not None:
            also(design, partial)
        (partial / MARK).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return summary


def _parts(
    design: Design, switch: str, tables: Tables, routing: Tables, before: Mapping[str, ConfigDb]
) -> list[Tables]:
    """What a patch brings; a fabric that has BGP sessions keeps its own routing."""
    if switch not in before or not before[switch].rows("BGP_NEIGHBOR"):
        return [tables, routing]
    note = "the switches have BGP sessions: their patches leave underlay.json out; give hosts their own addresses"
    if note not in design.notes:
        design.notes.append(note)
    return [tables]


def _summary(design: Design, cable: float | None) -> ScenarioDeployment:
    return {
        "program": "pauseframe",
        "target": design.settings.target,
        "settings": {"target": design.settings.target, "sonic_release": design.settings.sonic_release},
        "cable": cable,
        "scenario": str(design.scenario["name"]),
        "switches": len(design.plan.switches),
        "hosts": len(design.machines),
        "classes": [
            {
                "transport": one.path,
                "dscp": one.dscp,
                "priority": one.priority,
                "lossless": one.lossless,
                "ecn": one.ecn,
            }
            for one in design.classes
        ],
        "notes": design.notes,
        "unwritten": [{"key": one.key, "value": one.value, "why": one.why} for one in unwritten(design)],
    }


def _check(design: Design, folder: Path) -> None:
    """Lints what was written. An error is one of the scenario; warnings become notes."""
    from pauseframe.lint import lint

    report = lint([folder], release=_release(design))
    if report.errors:
        first = report.errors[0]
        raise DeployError(
            f"the scenario would be deployed with {len(report.errors)} errors, the first: {first.code} {first.place}: "
            f"{first.message} (pauseframe lint --explain {first.code})"
        )
    for finding in report.findings:
        design.notes.append(f"lint will warn: {finding.code} {finding.place}: {finding.message}")


def _release(design: Design) -> str | None:
    release = design.settings.sonic_release
    return None if release == "next" else release
