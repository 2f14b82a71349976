"""`manifest.json`: what a results folder says of its run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pauseframe import _core

if TYPE_CHECKING:
    from pathlib import Path

    from pauseframe.types import Manifest

FINISHED = ("complete", "deadlock")
"""Statuses of runs that came to an end of their own."""


def read_manifest(folder: Path) -> Manifest:
    """`manifest.json` of a results folder; FileNotFoundError if it has none, RunError if it is damaged."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise FileNotFoundError(_no_results(folder))
    try:
        manifest: Manifest = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(manifest.get("summary"), dict):
            raise _core.RunError(f"{folder}: the run did not come to its end (status {manifest.get('status')!r})")
    except ValueError as error:
        raise _core.RunError(f"{path} is damaged: {error}") from error
    return manifest


def _no_results(path: Path) -> str:
    """What stands in the place of a results folder, and what to do."""
    if path.suffix == ".toml" and path.is_file():
        return f"{path} is a scenario, not a results folder: run it with pauseframe run {path}, then name its folder"
    if path.is_file():
        inside = f": did you mean its folder {path.parent}?" if (path.parent / "manifest.json").is_file() else ""
        return f"{path} is a file, not a results folder{inside}"
    if path.is_dir():
        return f"{path} is not a results folder: it has no manifest.json{_runs_near(path)}"
    return f"{path} is not a results folder: there is no such folder{_runs_near(path.parent, path.name)}"


def _runs_near(folder: Path, like: str = "") -> str:
    """'; did you mean results/incast-1?', of the results folders in `folder`."""
    from pauseframe._text import nearest

    found = sorted(path.parent.name for path in folder.glob("*/manifest.json")) if folder.is_dir() else []
    meant = nearest(like, found) if like else found[:3]
    return f"; did you mean {' or '.join(str(folder / name) for name in meant)}?" if meant else ""
