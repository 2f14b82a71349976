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
        what = "it has no manifest.json" if folder.is_dir() else "there is no such folder"
        raise FileNotFoundError(f"{folder} is not a results folder: {what}")
    try:
        manifest: Manifest = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(manifest.get("summary"), dict):
            raise _core.RunError(f"{folder}: the run did not come to its end (status {manifest.get('status')!r})")
    except ValueError as error:
        raise _core.RunError(f"{path} is damaged: {error}") from error
    return manifest
