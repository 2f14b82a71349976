"""What a plan or a scenario puts on devices, for `pauseframe lint --design`.

It is deployed again into a temporary folder; a scenario that was imported from devices is compared with a new import.
"""

from __future__ import annotations

import tempfile
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe.devices.files import DeviceFileError, shown
from pauseframe.devices.read import Reading, read_fabric
from pauseframe.files.atomic import read_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.deploy.plan import Settings

MARK, NAMES, RESOLVED = "deploy.json", "inventory.csv", "scenario.resolved.toml"


@dataclass
class Design:
    """The files that devices should have."""

    source: Path
    """The plan or scenario."""
    root: Path | None
    """The deployment that is compared file by file; None for files that were collected from devices."""
    files: dict[str, str]
    """Text of each file of the design, by path below the deployment."""
    reading: Reading
    imported: str = ""
    """The text of a scenario that was imported from devices; `files` and `reading` are empty then."""
    uncompared: list[str] = field(default_factory=list)
    """What the devices have and the design does not say."""


def read_design(source: Path, paths: Sequence[Path], release: str | None) -> Design:
    """The design of a plan's folder or a scenario file, with the names and settings of what is linted.

    Of a deployment, `deploy.json` has the settings and `inventory.csv` the names; for collected files, both are those
    that `pauseframe deploy` takes by default, and the files themselves are the inventory. Raises DeviceFileError and
    DeployError (ValueError).
    """
    if not source.exists():
        raise DeviceFileError(f"{shown(source)}: there is no such file or folder")
    root = paths[0] if len(paths) == 1 and (paths[0] / MARK).is_file() else None
    about = (read_object(root / MARK) or {}) if root else {}
    if (text := _imported(source, root)) is not None:
        return Design(source, root, {}, Reading(), imported=text)
    inventory = [root / NAMES] if root and (root / NAMES).is_file() else list(paths)
    with tempfile.TemporaryDirectory(prefix="pauseframe-") as folder:
        out = Path(folder) / "design"
        _deploy(source, out, _settings(about, release), about, inventory)
        found = [path for path in sorted(out.rglob("*")) if path.is_file() and path.parent != out]
        files = {str(path.relative_to(out)): path.read_text(encoding="utf-8") for path in found}
        return Design(source, root, files, read_fabric([out]))


def _imported(source: Path, root: Path | None) -> str | None:
    """The text of a scenario that was imported from devices, unless the folder is a deployment of that scenario."""
    from pauseframe.lint.imported import is_import
    from pauseframe.scenario.text import read_scenario_file, resolve_text

    if source.is_dir():
        return None
    text, base_dir, name = read_scenario_file(source)
    if not is_import(text):
        return None
    resolve_text(text, base_dir=base_dir, file_name=name)  # raises ScenarioError for what a person broke
    return None if root is not None and _deployed(root) == tomllib.loads(text).get("name") else text


def _deployed(root: Path) -> str | None:
    """The name of the scenario with the devices' own ports of which a folder is the deployment, or None."""
    known = root / RESOLVED
    scenario = tomllib.loads(known.read_text(encoding="utf-8")) if known.is_file() else {}
    return str(scenario["name"]) if scenario and scenario["topology"]["kind"] == "custom" else None


def _settings(about: dict[str, Any], release: str | None) -> Settings:
    """The settings in deploy.json; unknown keys are left out."""
    from pauseframe.deploy.plan import Settings, Tuned

    given = dict(about.get("settings", {}))
    if "priorities" in given:
        given["priorities"] = tuple(given["priorities"])
    given["tuned"] = Tuned(**given.get("tuned", {}))
    if release is not None and "sonic_release" not in given:
        given["sonic_release"] = release
    return Settings(**{name.name: given[name.name] for name in fields(Settings) if name.name in given})


def _deploy(source: Path, out: Path, settings: Settings, about: dict[str, Any], inventory: list[Path]) -> None:
    from pauseframe.deploy import write_deployment

    if source.is_dir():
        write_deployment(source, out, settings, inventory=inventory)
        return
    from pauseframe.deploy.scenario import deploy_scenario
    from pauseframe.scenario.text import read_scenario_file, resolve_text

    text, base_dir, name = read_scenario_file(source)
    resolved = resolve_text(text, base_dir=base_dir, file_name=name, overrides=[], seed=None)
    deploy_scenario(resolved, out, settings, cable=about.get("cable"), inventory=inventory)
