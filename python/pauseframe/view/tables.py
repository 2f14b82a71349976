"""Writes the tables of a run as CSV or Arrow IPC files, for programs without Parquet."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from pauseframe._core import InputError
from pauseframe.files.atomic import added_files, read_object
from pauseframe.results.folder import open_tables
from pauseframe.terminal.text import none_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import polars as pl

MARK = "export.json"
"""Lists the tables of an export; written last."""


def export_tables(
    folder: Path, out: Path, names: Sequence[str], ending: Literal["csv", "arrow"] | str, *, force: bool = False
) -> list[Path]:
    """Writes tables of a results folder (all tables if no names are given) as `out`/NAME.`ending`; returns the files.

    FileNotFoundError if it is no results folder, InputError for a table that it does not have or a file that is there
    already, DamagedResultsError for one that is damaged.
    """
    results = open_tables(folder)
    known = results.tables()
    if unknown := [name for name in names if name not in known]:
        raise InputError(f"{folder}: table {none_of(unknown[0], known)}")
    files = {name: out / f"{name}.{ending}" for name in (names or known)}
    with added_files(out) as partial:
        if not force and (taken := [file for file in files.values() if file.exists()]):
            raise InputError(f"{taken[0]} exists: name another folder with --out, or overwrite it with --force")
        earlier = (read_object(out / MARK) or {}).get("files", [])
        kept = {name for name in earlier if (out / str(name)).is_file()}
        whole = sorted({file.name for file in files.values()} | kept)
        for name, file in files.items():
            frame = results.frame(name)
            (partial / file.name).write_bytes(_csv(frame) if ending == "csv" else _arrow(frame))
        (partial / MARK).write_text(json.dumps({"program": "pauseframe", "files": whole}, indent=1) + "\n")
    return list(files.values())


def _csv(frame: pl.DataFrame) -> bytes:
    import polars as pl

    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    joined = [pl.col(name).list.eval(pl.element().cast(pl.String)).list.join(" ") for name in lists]
    return frame.with_columns(joined).write_csv().encode()


def _arrow(frame: pl.DataFrame) -> bytes:
    from io import BytesIO

    import polars as pl

    buffer = BytesIO()
    # Types that pandas, R and older readers support, which excludes string views.
    frame.write_ipc(buffer, compat_level=pl.CompatLevel.oldest())
    return buffer.getvalue()
