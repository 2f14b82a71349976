"""The tables of a sweep: those of its runs as one, with the axes as columns."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pauseframe._core import RunError
from pauseframe._results_folder import DamagedResultsError, open_results
from pauseframe.results import Run, load
from pauseframe.sweep.spec import label
from pauseframe.sweep.store import FailureEntry, file_flaw, is_whole, read_failure, sealed_files

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from pauseframe._plain import Settings, Value
    from pauseframe.results import TableName
    from pauseframe.sweep.plan import PlannedRow, SweepManifest

MANIFEST = "sweep.json"


class Failure(FailureEntry):
    """A run that failed."""

    path: str


class Sweep:
    """A sweep's folder. Runs that are not finished are not in its tables."""

    def __init__(self, folder: Path, manifest: SweepManifest) -> None:
        self.folder = folder
        self.name: str = manifest["name"]
        self.axes: dict[str, list[Value]] = manifest["axes"]
        """Values by path of the key."""
        self.seeds: list[int] = manifest["seeds"]
        self.planned: list[PlannedRow] = [
            {"path": row["path"], "key": row["key"], "axes": row["axes"], "seed": row["seed"]}
            for row in manifest["runs"]
        ]
        """All runs: path of the folder, key, axes, seed."""

    @cached_property
    def finished(self) -> list[PlannedRow]:
        """Those of `planned` that are finished."""
        return [row for row in self.planned if is_whole(self.folder / row["path"], row["key"])]

    @cached_property
    def failures(self) -> list[Failure]:
        """Runs that failed: path, axes, seed, message, command (which does it again)."""
        entries = [(row["path"], read_failure(self.folder / row["path"])) for row in self.planned]
        return [Failure(path=path, **entry) for path, entry in entries if entry is not None]

    @cached_property
    def deadlocked(self) -> list[str]:
        """The paths of finished runs that have a deadlock."""
        return [row["path"] for row in self.finished if load(self.folder / row["path"]).deadlocked]

    @property
    def flows(self) -> pl.LazyFrame:
        """One row per flow; columns of the axes and `seed` at the end."""
        return self.table("flows")

    @property
    def queries(self) -> pl.LazyFrame:
        """One row a partition-aggregate job."""
        return self.table("queries")

    @property
    def ports(self) -> pl.LazyFrame:
        """One row per port and priority."""
        return self.table("ports")

    @property
    def series(self) -> pl.LazyFrame:
        """Time lines in long form."""
        return self.table("series")

    @cached_property
    def summaries(self) -> pl.DataFrame:
        """One row per run: the axes, `seed`, and the entries of its summary (nested ones as `fct_us.p99`)."""
        import polars as pl

        typed = self._typed_axes()
        rows = []
        for row in self.finished:
            values = {axis: _column_value(row["axes"][axis], kind) for axis, kind in typed.items()}
            numbers = flat(open_results(self.folder / row["path"]).summary)
            rows.append(values | {"seed": row["seed"]} | {k: v for k, v in numbers.items() if k not in values})
        return pl.DataFrame(rows, infer_schema_length=None)

    def table(self, name: TableName) -> pl.LazyFrame:
        """A table of all finished runs, read when it is collected."""
        import polars as pl

        if not self.finished:
            raise RunError(f"{self.folder}: no run has finished")
        files = [self.folder / row["path"] / f"{name}.parquet" for row in self.finished]
        for file in files:
            if (damage := file_flaw(file, sealed_files(file.parent).get(file.name))) is not None:
                raise DamagedResultsError(f"{file} {damage}: pauseframe sweep --resume computes its run again")
        typed = self._typed_axes()
        texts = dict.fromkeys(typed, pl.String()) | {"seed": pl.Int64()}
        frame = pl.scan_parquet(files, hive_partitioning=True, hive_schema=texts)
        casts = {bool: lambda c: c == "true", int: lambda c: c.cast(pl.Int64), float: lambda c: c.cast(pl.Float64)}
        columns = [casts[kind](pl.col(axis)).alias(axis) for axis, kind in typed.items() if kind in casts]
        return frame.with_columns(columns)

    def run(self, seed: int | None = None, **axes: Any) -> Run:
        """The run with this seed and these values: `sweep.run(1, **{"transport.preset": "dctcp"})`."""
        wanted = axes | ({} if seed is None else {"seed": seed})
        rows = [row for row in self.finished if wanted.items() <= (row["axes"] | {"seed": row["seed"]}).items()]
        if len(rows) != 1:
            raise KeyError(f"{len(rows)} finished runs have {wanted}")
        return load(self.folder / rows[0]["path"])

    def report(self, out: str | Path) -> Path:
        """Writes the HTML report of this sweep to the file `out`."""
        from pauseframe.report.sweep import build_sweep_report
        from pauseframe.sweep.compare import compare

        return build_sweep_report(compare([self.folder]), Path(out))

    def _typed_axes(self) -> dict[str, type]:
        return {axis: _kind(values) for axis, values in self.axes.items()}

    def __repr__(self) -> str:
        axes = " × ".join(f"{axis} ({len(values)})" for axis, values in self.axes.items())
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return (
            f"<pauseframe.Sweep {self.name!r}: {axes or 'no axes'} × {len(self.seeds)} seeds, "
            f"{len(self.finished)} of {len(self.planned)} runs finished{failed}>"
        )

    def _repr_html_(self) -> str:
        """What it is, and the summaries of its runs, for a notebook."""
        from html import escape

        return f"<p>{escape(repr(self))}</p>{self.summaries._repr_html_()}"


def load_sweep(folder: str | Path) -> Sweep:
    """Reads a sweep's folder. Raises FileNotFoundError if it is none, DamagedResultsError if its list is damaged.

    >>> import pauseframe as pf
    >>> pf.load_sweep("results/load-sweep").flows  # doctest: +SKIP
    """
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not the folder of a sweep: it has no {MANIFEST}")
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        wrong = _wrong(manifest)
    except (ValueError, RecursionError, OSError) as error:
        wrong = f"it is not JSON: {error}"
    if wrong:
        raise DamagedResultsError(f"{path} is damaged: {wrong}; copy the folder again, or run the sweep again")
    return Sweep(Path(folder), manifest)


def _wrong(manifest: Any) -> str | None:
    """What a sweep's list of runs lacks; None if it is whole."""
    if not isinstance(manifest, dict):
        return "it is not a JSON object"
    kinds: dict[str, type] = {"name": str, "axes": dict, "seeds": list, "runs": list}
    of_row: dict[str, type] = {"path": str, "key": str, "axes": dict, "seed": int}
    for name, kind in kinds.items():
        if not isinstance(manifest.get(name), kind):
            return f"{name} is missing or of another type"
    axes = manifest["axes"]
    if not all(isinstance(values, list) for values in axes.values()):
        return "the values of an axis are not a list"
    for number, row in enumerate(manifest["runs"]):
        for name, kind in of_row.items():
            if not isinstance(row, dict) or not isinstance(row.get(name), kind):
                return f"runs, entry {number}: {name} is missing or of another type"
        if set(axes) != set(row["axes"]):
            return f"runs, entry {number}: it has other axes than the sweep"
    return None


def read_plan(folder: Path) -> SweepManifest | None:
    """What `sweep.json` of a folder says; None if there is none or it is damaged."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return None
    return cast("SweepManifest", manifest) if isinstance(manifest, dict) else None


def flat(table: Mapping[str, Any], prefix: str = "") -> Settings:
    """Nested dicts as dotted paths; lists are left out.

    >>> flat({"fct_us": {"p50": 1.0}, "drops": 0, "warnings": []})
    {'fct_us.p50': 1.0, 'drops': 0}
    """
    result: Settings = {}
    for key, value in table.items():
        if isinstance(value, dict):
            result |= flat(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            result[prefix + key] = value
    return result


def _kind(values: list[Any]) -> type:
    """What a column of these values holds: numbers stay numbers, all else is text."""
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return float
    (kind,) = kinds if len(kinds) == 1 else (str,)
    return kind if kind in (bool, int, float) else str


def _column_value(value: Any, kind: type) -> Any:
    return label(value) if kind is str else kind(value)
