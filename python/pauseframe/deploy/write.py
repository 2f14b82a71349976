"""Writes a deployment into one folder, atomically."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from pauseframe.deploy import checks, dcqcn, hosts, linux, patches, rollout, sonic
from pauseframe.deploy.inventory import read_inventory
from pauseframe.deploy.plan import DeployError, Plan, Settings, folder_names, read_plan
from pauseframe.devices.model import End
from pauseframe.files.atomic import whole_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from pauseframe.deploy.sonic import Tables
    from pauseframe.devices.sonic_db import ConfigDb
    from pauseframe.types import DeploymentSummary

MARK = "deploy.json"


def write_deployment(
    folder: Path,
    out: Path,
    settings: Settings,
    *,
    inventory: Sequence[Path] = (),
    force: bool = False,
    also: Callable[[Plan, Path], None] | None = None,
) -> DeploymentSummary:
    """Reads a plan, verifies every step of its roll-out, and writes the files. Returns counts and notes.

    `switches/NAME/` and `hosts/NAME/` hold the files of each device; ROLLOUT.md holds the order, inventory.csv the
    names and addresses; `also` writes further files into the new folder. Raises DeployError and DeviceFileError (both
    ValueError).
    """
    known = read_inventory(inventory)
    check_empty(out, force)
    plan = read_plan(folder, settings, known)
    order = rollout.steps(plan)
    checked = rollout.check(plan, order)
    names = dict(folder_names(plan.switches)) | dict(folder_names([host.name for host in plan.hosts]))
    with whole_folder(out, replace=force) as partial:
        before = patches.of_inventory(known, plan.switches) if settings.target == "sonic" else {}
        _write_switches(plan, partial / "switches", settings, names, before)
        _write_hosts(plan, partial / "hosts", settings, names)
        (partial / "inventory.csv").write_text(inventory_text(plan), encoding="utf-8")
        (partial / "ROLLOUT.md").write_text(
            rollout.as_text(order, checked, settings.target, settings.sonic_release, names, patched=bool(before)),
            encoding="utf-8",
        )
        summary: DeploymentSummary = {
            "program": "pauseframe",
            "target": settings.target,
            "hosts_run": settings.hosts,
            "switches": len(plan.switches),
            "hosts": len(plan.hosts),
            "vlans": plan.vlans,
            "steps": checked,
            "priorities": settings.priorities,
            "settings": asdict(settings),
            "notes": plan.notes,
        }
        if also is not None:
            also(plan, partial)
        (partial / MARK).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return summary


def check_empty(out: Path, force: bool) -> None:
    """Raises DeployError if a folder has files, unless they are a deployment and `force` is true."""
    if not out.exists() or not any(out.iterdir()):
        return
    if not (out / MARK).is_file():
        raise DeployError(f"{out} has files and is no deployment of pauseframe: name another folder")
    if not force:
        raise DeployError(f"{out} has a deployment: name another folder, or replace it with --force")


def _write_switches(
    plan: Plan, folder: Path, settings: Settings, names: dict[str, str], before: Mapping[str, ConfigDb]
) -> None:
    for switch in plan.switches:
        own = folder / names[switch]
        own.mkdir(parents=True)
        if settings.target == "linux":
            write_script(own / "setup.sh", linux.script(plan, switch, settings))
            (own / "hostname").write_text(switch + "\n", encoding="utf-8")
            for name, value in linux.expected(plan, switch, settings).items():
                write_json(own / f"{name}.json", value)
            write_json(own / "lldp.json", _neighbours(plan, switch))
            continue
        tables = sonic.config_db(plan, switch, settings)
        if names[switch] != switch:
            tables["DEVICE_METADATA"] = {"localhost": {"hostname": switch}}
        write_json(own / "config_db.json", tables)
        parts = [tables]
        if settings.sonic_release == "next":
            parts.append(sonic.static_layer2(plan, switch))
            write_json(own / "static-l2.json", parts[-1])
        write_change(own, switch, parts, before.get(switch))
        if settings.sonic_release != "next":
            write_json(own / "fdb.json", sonic.swssconfig(plan, switch))
            write_json(own / "no-flooding.json", sonic.no_flooding(plan, switch))
            write_json(own / "fdb-undo.json", [{**row, "OP": "DEL"} for row in sonic.swssconfig(plan, switch)])
            write_json(own / "flooding-undo.json", sonic.flooding(plan, switch))


def write_change(own: Path, switch: str, parts: list[Tables], before: ConfigDb | None) -> None:
    """Writes check.sh, and patch.json if the switch's configuration was collected."""
    steps = patches.patch(before, *parts) if before is not None else []
    expected = patches.expectations(before, steps) if before is not None else []
    write_script(own / "check.sh", checks.check_script(parts[0], switch, expected))
    if before is not None:
        write_json(own / "patch.json", steps)


def _neighbours(plan: Plan, switch: str) -> dict[str, object]:
    """The output of `lldpctl -f json0` for correct wiring."""
    interfaces = [
        {
            "name": port,
            "chassis": [{"name": [{"value": far.device}]}],
            "port": [{"id": [{"type": "ifname", "value": far.port}]}],
        }
        for port, (far, _) in plan.ports(switch).items()
    ]
    return {"lldp": [{"interface": interfaces}]}


def _write_hosts(plan: Plan, folder: Path, settings: Settings, names: dict[str, str]) -> None:
    for host in plan.hosts:
        own = folder / names[host.name]
        (own / "networkd").mkdir(parents=True)
        write_script(own / "setup.sh", hosts.script(plan, host, settings))
        if text := hosts.sysctl_file(host, settings):
            (own / "sysctl.conf").write_text(text, encoding="utf-8")
        if registers := hosts.registers(host, settings):
            (own / "mlxconfig.txt").write_text(dcqcn.query(registers), encoding="utf-8")
        (own / "netplan.yaml").write_text(hosts.netplan(plan, host, settings), encoding="utf-8")
        (own / "hostname").write_text(host.name + "\n", encoding="utf-8")
        for name, text in hosts.networkd(plan, host, settings).items():
            (own / "networkd" / name).write_text(text, encoding="utf-8")


def write_script(path: Path, text: str) -> None:
    """Writes a script that can be executed."""
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def write_json(path: Path, value: object) -> None:
    """Writes JSON with one line for each row."""
    path.write_text(_lines(value, 2 if isinstance(value, dict) else 1) + "\n", encoding="utf-8")


def _lines(value: object, depth: int, margin: str = "") -> str:
    """JSON with one line per item down to `depth` levels, because json.dumps with an indent takes ten times as long."""
    if depth == 0 or not value or not isinstance(value, dict | list):
        return json.dumps(value)
    inner = margin + " "
    if isinstance(value, list):
        items = [f"{inner}{_lines(item, depth - 1, inner)}" for item in value]
    else:
        items = [f"{inner}{json.dumps(key)}: {_lines(item, depth - 1, inner)}" for key, item in value.items()]
    start, end = "[]" if isinstance(value, list) else "{}"
    return f"{start}\n" + ",\n".join(items) + f"\n{margin}{end}"


def inventory_text(plan: Plan) -> str:
    """The text of inventory.csv, which `--inventory` reads: hosts with their NIC, and ports with their lanes."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["device", "mac", "port", "name", "lanes", "switch", "switch_port"])
    for host in plan.hosts:
        rows.writerow([host.name, host.mac, "", host.nic, "", host.switch, host.port])
    for (switch, port), name in plan.port_names.items():
        rows.writerow([switch, "", port, name, plan.lanes.get(End(switch, name), "").replace(",", " "), "", ""])
    return text.getvalue()
