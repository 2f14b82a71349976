"""The tables of a sweep: the rows of all runs, with the axes as columns."""

from __future__ import annotations

import json
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pauseframe._core import InputError, ParquetWriter, RunError, table_of, unpack_tables
from pauseframe.files.atomic import whole_file
from pauseframe.files.reading import read_text
from pauseframe.results import Run, has_deadlock, load
from pauseframe.results.folder import DamagedResultsError, open_results
from pauseframe.scenario.plain import leaves
from pauseframe.sweep.batch import BATCHES, Batches, Record
from pauseframe.sweep.spec import label
from pauseframe.sweep.store import FailureEntry, file_flaw, is_whole, read_failure, sealed_files
from pauseframe.terminal.text import counted, is_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import polars as pl

    from pauseframe import _core
    from pauseframe.report.inline import InlinePage
    from pauseframe.results import TableName
    from pauseframe.scenario.plain import Settings, Value
    from pauseframe.sweep.plan import PlannedRow, SweepManifest
    from pauseframe.types import Manifest

MANIFEST = "sweep.json"
AGAIN = "the same pauseframe sweep computes its run again"
PART_BYTES = 1 << 23
"""Maximum bytes of packed tables that are decoded at a time."""
TABLES = ("runs.parquet", "flows.parquet", "queries.parquet", "ports.parquet", "jobs.parquet", "ranks.parquet")
"""The tables of a finished sweep: one row per run, and the tables that a run writes at its end.

Time series (series, throughput, states) stay in the batches, because they may be much larger.
"""


class Failure(FailureEntry):
    """A run of a sweep that failed."""

    path: str


class Sweep:
    """A sweep's folder. The tables of a sweep contain only finished runs."""

    def __init__(self, folder: Path, manifest: SweepManifest) -> None:
        self.folder = folder
        self.name: str = manifest["name"]
        self.axes: dict[str, list[Value]] = manifest["axes"]
        """Values of each axis by the path of its key."""
        self.seeds: list[int] = manifest["seeds"]
        self.planned: list[PlannedRow] = [
            {"path": row["path"], "key": row["key"], "axes": row["axes"], "seed": row["seed"]}
            for row in manifest["runs"]
        ]
        """All runs: path of the folder, key, axes, seed."""

    @cached_property
    def batches(self) -> Batches:
        """The batches with the runs of the sweep."""
        return Batches(self.folder / BATCHES)

    @cached_property
    def finished(self) -> list[PlannedRow]:
        """The finished runs of `planned`."""
        runs = self.batches.runs
        return [row for row in self.planned if row["key"] in runs or is_whole(self.folder / row["path"], row["key"])]

    @cached_property
    def manifests(self) -> list[Manifest]:
        """The manifests of the finished runs."""
        return [self.manifest(row) for row in self.finished]

    def manifest(self, row: PlannedRow) -> Manifest:
        """The manifest of a finished run."""
        if row["key"] in self.batches.runs:
            return self.record(row).manifest
        return open_results(self.folder / row["path"]).manifest

    def record(self, row: PlannedRow) -> Record:
        """The record of a run in a batch. Raises DamagedResultsError if the record is damaged."""
        with _advice():
            return self.batches.read(row["key"])

    @cached_property
    def failures(self) -> list[Failure]:
        """Failed runs: path, axes, seed, message, and the command that repeats the run."""
        entries = [(row["path"], read_failure(self.folder / row["path"])) for row in self.planned]
        return [Failure(path=path, **entry) for path, entry in entries if entry is not None]

    @property
    def missing(self) -> str:
        """The runs that have not finished, and the values of axes that no finished run has; "" if all runs finished.

        Tables of such a sweep look complete, but lack these rows.
        """
        done, planned, failed = len(self.finished), len(self.planned), len(self.failures)
        if done == planned:
            return ""
        values = [
            f"{axis} = {', '.join(absent)}"
            for axis in self.axes
            if (absent := sorted(_labels(axis, self.planned) - _labels(axis, self.finished), key=_numbers_first))
        ]
        parts = [f"{self.folder}: {done} of {counted(planned, 'run')} have finished"]
        parts += [f"{failed} failed"] if failed else []
        parts += [f"none with {'; '.join(values)}"] if done and values else []
        return ", ".join(parts)

    @cached_property
    def deadlocked(self) -> list[str]:
        """The paths of finished runs that have a deadlock."""
        pairs = zip(self.finished, self.manifests, strict=True)
        return [row["path"] for row, manifest in pairs if has_deadlock(manifest["summary"])]

    @property
    def flows(self) -> pl.LazyFrame:
        """The table of flows, one row per flow, followed by columns for the axes and `seed`."""
        return self.table("flows")

    @property
    def queries(self) -> pl.LazyFrame:
        """The table of queries, one row per partition-aggregate job."""
        return self.table("queries")

    @property
    def ports(self) -> pl.LazyFrame:
        """The table of ports, one row per port and priority."""
        return self.table("ports")

    @property
    def series(self) -> pl.LazyFrame:
        """Time series, one row per sample."""
        return self.table("series")

    @cached_property
    def summaries(self) -> pl.DataFrame:
        """One row per run: axes, `seed`, and the entries of the run's summary (nested entries as `fct_us.p99`)."""
        import polars as pl

        return pl.DataFrame(table_of(list(self.summary_columns().items())))

    def summary_columns(self) -> dict[str, list[Any]]:
        """The columns of `summaries`."""
        columns = self._axis_columns(self.finished)
        for number, manifest in enumerate(self.manifests):
            for name, value in flat(manifest["summary"]).items():
                if name not in self.axes and name != "seed":
                    column = columns.setdefault(name, [])
                    column += [None] * (number - len(column))
                    column.append(value)
        count = len(self.finished)
        return {name: column + [None] * (count - len(column)) for name, column in columns.items()}

    def table(self, name: TableName) -> pl.LazyFrame:
        """A lazy table of all finished runs."""
        import polars as pl

        if not self.finished:
            raise RunError(f"{self.folder}: no run has finished")
        in_batches = [row for row in self.finished if row["key"] in self.batches.runs]
        in_folders = [row for row in self.finished if row["key"] not in self.batches.runs]
        frames = []
        if in_folders:
            frames.append(self._scan_folders(name, in_folders))
        if in_batches:
            frames.append(self._scan_batches(name, in_batches))
        return frames[0] if len(frames) == 1 else pl.concat(frames)

    def _scan_folders(self, name: TableName, rows: Sequence[PlannedRow]) -> pl.LazyFrame:
        import polars as pl

        files = [self.folder / row["path"] / f"{name}.parquet" for row in rows]
        for file in files:
            if (damage := file_flaw(file, sealed_files(file.parent).get(file.name))) is not None:
                raise DamagedResultsError(f"{file} {damage}: {AGAIN}")
        types = {bool: pl.Boolean(), int: pl.Int64(), float: pl.Float64(), str: pl.String()}
        dtypes = {axis: types[kind] for axis, kind in self._typed_axes().items()} | {"seed": pl.Int64()}
        columns = self._axis_columns(rows)
        # The values come from the list of runs: names of folders hold them shortened.
        frames = [
            pl.scan_parquet(file, glob=False, hive_partitioning=False).with_columns(
                pl.lit(columns[axis][number], dtype).alias(axis) for axis, dtype in dtypes.items()
            )
            for number, file in enumerate(files)
        ]
        return pl.concat(frames)

    def _scan_batches(self, name: TableName, rows: Sequence[PlannedRow]) -> pl.LazyFrame:
        """A lazy table that decodes some runs at a time when it is collected."""
        import polars as pl
        from polars.io.plugins import register_io_source

        texts = [axis for axis, kind in self._typed_axes().items() if kind is str]

        def frame(part: _core.Table) -> pl.DataFrame:
            return pl.DataFrame(part).with_columns(pl.col(texts).cast(pl.String()))

        def read(
            columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
        ) -> Iterator[pl.DataFrame]:
            for part in self.parts(name, rows):
                piece = frame(part)
                if predicate is not None:
                    piece = piece.filter(predicate)
                if columns is not None:
                    piece = piece.select(columns)
                if n_rows is not None:
                    piece = piece.head(n_rows)
                    n_rows -= piece.height
                yield piece
                if n_rows == 0:
                    return

        schema = frame(self.unpacked(name, [], [])).schema
        return register_io_source(read, schema=schema)

    def parts(self, name: TableName, rows: Sequence[PlannedRow]) -> Iterator[_core.Table]:
        """A table of runs in batches, with as many runs at a time as fit into memory; the axes are columns."""
        packed: list[bytes] = []
        having: list[PlannedRow] = []
        size = 0
        for row in rows:
            part = self.record(row).section(name)
            if part is None:  # no run in this part has rows
                continue
            packed.append(part)
            having.append(row)
            size += len(part)
            if size > PART_BYTES:
                yield self.unpacked(name, packed, having)
                packed, having, size = [], [], 0
        if packed:
            yield self.unpacked(name, packed, having)

    def unpacked(self, name: TableName, packed: list[bytes], rows: Sequence[PlannedRow]) -> _core.Table:
        """A table of some runs, with the axes as columns."""
        columns = self._axis_columns(rows)
        if not rows:  # one dummy value per column gives the types
            first = self._axis_columns(self.planned[:1])
            columns = {axis: first[axis] for axis in columns}
        return unpack_tables(name, packed, list(columns.items()))

    def _axis_columns(self, rows: Sequence[PlannedRow]) -> dict[str, list[Any]]:
        typed = self._typed_axes()
        columns = {axis: [_column_value(row["axes"][axis], kind) for row in rows] for axis, kind in typed.items()}
        return columns | {"seed": [row["seed"] for row in rows]}

    def run(self, seed: int | None = None, **axes: Any) -> Run:
        """The run with this seed and these values: `sweep.run(1, **{"transport.preset": "dctcp"})`."""
        wanted = axes | ({} if seed is None else {"seed": seed})
        rows = [row for row in self.finished if wanted.items() <= (row["axes"] | {"seed": row["seed"]}).items()]
        if len(rows) != 1:
            raise KeyError(f"{len(rows)} finished runs have {wanted}")
        return self.load(rows[0])

    def load(self, row: PlannedRow) -> Run:
        """A finished run."""
        if row["key"] not in self.batches.runs:
            return load(self.folder / row["path"])
        record = self.record(row)
        manifest = record.manifest
        with _advice():
            scenario_toml = self.batches.toml(record)
        return Run(
            manifest["summary"],
            lambda name: unpack_tables(name, [] if (part := record.section(name)) is None else [part], []),
            status=manifest["status"],
            scenario_toml=scenario_toml,
            folder=None,
        )

    def report(self, out: str | Path) -> Path:
        """Writes the HTML report of this sweep to the file `out`."""
        from pauseframe.report.sweep import build_sweep_report
        from pauseframe.sweep.compare import compare

        return build_sweep_report(compare([self.folder]), Path(out))

    def plot(self, metric: str = "fct_us.p99") -> InlinePage:
        """Medians of a metric over the axes, with intervals over the seeds, shown in a notebook.

        `metric` is named as in the summary. Raises InputError if no run has it.
        """
        from pauseframe.report.sweep import plot_sweep

        return plot_sweep(self.folder, metric)

    def _typed_axes(self) -> dict[str, type]:
        return {axis: _kind(values) for axis, values in self.axes.items()}

    def __repr__(self) -> str:
        axes = " × ".join(f"{axis} ({len(values)})" for axis, values in self.axes.items())
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return (
            f"<pauseframe.Sweep {self.name!r}: {axes or 'no axes'} × {counted(len(self.seeds), 'seed')}, "
            f"{len(self.finished)} of {counted(len(self.planned), 'run')} finished{failed}>"
        )

    def _repr_html_(self) -> str:
        """The sweep and the summaries of its runs, for a notebook."""
        from html import escape

        return f"<p>{escape(repr(self))}</p>{self.summaries._repr_html_()}"


@contextmanager
def _advice() -> Iterator[None]:
    """Adds the remedy to an error about a damaged batch."""
    try:
        yield
    except DamagedResultsError as error:
        raise DamagedResultsError(f"{error}: {AGAIN}") from None


def load_sweep(folder: str | Path) -> Sweep:
    """Reads a sweep's folder. Raises FileNotFoundError without a sweep, DamagedResultsError for a damaged run list.

    >>> import pauseframe as pf
    >>> pf.load_sweep("results/load-sweep").flows  # doctest: +SKIP
    """
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise FileNotFoundError(f"{folder} is not the folder of a sweep: it has no {MANIFEST}")
    manifest, wrong = _read(path)
    if wrong:
        raise DamagedResultsError(f"{path} is damaged: {wrong}; copy the folder again, or run the sweep again")
    return Sweep(Path(folder), manifest)


def damage_of_list(folder: Path) -> str | None:
    """A description of the damage of a sweep's list of runs; None for a whole or absent list."""
    path = folder / MANIFEST
    return _read(path)[1] if path.is_file() else None


def _read(path: Path) -> tuple[Any, str | None]:
    """A sweep's list of runs, and a description of its damage."""
    try:
        manifest = json.loads(read_text(path))
    except (ValueError, RecursionError, OSError, InputError) as error:
        return None, f"it is not JSON: {error}"
    return manifest, _wrong(manifest)


def _wrong(manifest: Any) -> str | None:
    """A description of what a sweep's list of runs lacks; None if the list is complete."""
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


def write_tables(sweep: Sweep) -> Sweep:
    """Writes the tables of a sweep's finished runs as Parquet files, and returns the sweep with them.

    Repeats the writing if another shard's process has finished runs meanwhile.
    """
    while sweep.finished:
        with ExitStack() as files:
            _write(sweep, [_TableFile(sweep, file, files) for file in TABLES])
        now = load_sweep(sweep.folder)
        if len(now.finished) == len(sweep.finished):
            return sweep
        sweep = now
    return sweep


def _write(sweep: Sweep, tables: list[_TableFile]) -> None:
    """Writes all tables in a single pass over the runs."""
    summaries, *others = tables
    if all(
        row["key"] in sweep.batches.runs for row in sweep.finished
    ):  # runs that are kept as folders have their tables there
        manifests = []
        for row in sweep.finished:
            record = sweep.record(row)
            manifests.append(record.manifest)
            for table in others:
                table.add(row, record)
        sweep.manifests = manifests
    summaries.write(table_of(list(sweep.summary_columns().items())))
    for table in tables:
        table.close()


class _TableFile:
    """A table that is being written. Tables without rows have no file."""

    def __init__(self, sweep: Sweep, file: str, files: ExitStack) -> None:
        self._sweep = sweep
        self._path = sweep.folder / file
        self._name = cast("TableName", file.removesuffix(".parquet"))
        self._files = files
        self._writer: ParquetWriter | None = None
        self._packed: list[bytes] = []
        self._rows: list[PlannedRow] = []
        self._size = 0

    def add(self, row: PlannedRow, record: Record) -> None:
        """Adds the rows of a run."""
        part = record.section(self._name)
        if part is None:
            return
        self._packed.append(part)
        self._rows.append(row)
        self._size += len(part)
        if self._size > PART_BYTES:
            self._flush()

    def write(self, table: _core.Table) -> None:
        """Adds rows to the table."""
        if self._writer is None:
            self._writer = ParquetWriter(str(self._files.enter_context(whole_file(self._path))))
        self._writer.write(table)

    def close(self) -> None:
        """Writes the remaining rows."""
        if self._packed:
            self._flush()
        if self._writer is None:
            self._path.unlink(missing_ok=True)
        else:
            self._writer.close()

    def _flush(self) -> None:
        self.write(self._sweep.unpacked(self._name, self._packed, self._rows))
        self._packed, self._rows, self._size = [], [], 0


def flat(table: Mapping[str, Any]) -> Settings:
    """Nested dicts as dotted paths; lists are omitted.

    >>> flat({"fct_us": {"p50": 1.0}, "drops": 0, "warnings": []})
    {'fct_us.p50': 1.0, 'drops': 0}
    """
    return {path: value for path, value in leaves(table) if not isinstance(value, list)}


def _labels(axis: str, rows: Sequence[PlannedRow]) -> set[str]:
    return {label(row["axes"][axis]) for row in rows}


def _numbers_first(text: str) -> tuple[bool, float, str]:
    number = is_number(text)
    return not number, float(text) if number else 0.0, text


def _kind(values: list[Any]) -> type:
    """The type of a column with the given values: numbers stay numbers, and all other values become text."""
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return float
    (kind,) = kinds if len(kinds) == 1 else (str,)
    return kind if kind in (bool, int, float) else str


def _column_value(value: Any, kind: type) -> Any:
    return label(value) if kind is str else kind(value)
