"""Columns of flow lists: times of Parquet files and data frames, doubled columns, and names that are numbers."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pauseframe as pf
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from pathlib import Path

STAR = '[topology]\nkind = "star"\nhosts = 3\n[[workload]]\nkind = "flows"\n'
COLUMNS: dict[str, list[Any]] = {"src": ["host0"], "dst": ["host1"], "size_bytes": [1000], "start_us": [12.0]}


def of_file(path: Path) -> pl.DataFrame:
    text = f'name = "x"\n{STAR}file = "{path}"\n'
    return pf.run_flows(text, progress=False).flows.to_polars()


def of_frame(frame: Any) -> pl.DataFrame:
    scenario = pf.Scenario(name="x", topology=pf.Star(hosts=3), workload=[pf.Flows(flows=frame)])
    return pf.run_flows(scenario, progress=False).flows.to_polars()


def parquet(folder: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(COLUMNS | columns), folder / "f.parquet")
    return folder / "f.parquet"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_converted(tmp_path: Path, unit: str) -> None:
    two = pa.array([{"s": 2, "ms": 2_000, "us": 2_000_000, "ns": 2_000_000_000}[unit]]).cast(pa.duration(unit))
    assert of_file(parquet(tmp_path, start_us=two))["start_us"].to_list() == [2e6]
    assert of_file(parquet(tmp_path, compute_us=two))["start_us"].to_list() == [2e6 + 12]
    assert of_frame(pa.table(COLUMNS | {"start_us": two}))["start_us"].to_list() == [2e6]


@pytest.mark.parametrize("column", ["start_us", "compute_us", "size_bytes", "id", "src"])
@pytest.mark.parametrize("kind", [pa.time64("ns"), pa.time64("us"), pa.time32("ms"), pa.timestamp("ns"), pa.date32()])
def test_times_of_day_are_refused(tmp_path: Path, column: str, kind: Any) -> None:
    number = pa.array([5], pa.int32() if kind.bit_width == 32 else pa.int64())
    with pytest.raises(pf.ScenarioError, match=f"the column {column} has values of type"):
        of_file(parquet(tmp_path, **{column: number.cast(kind)}))


def test_durations_are_no_bytes_and_no_names(tmp_path: Path) -> None:
    for column in ("size_bytes", "dst", "after"):
        with pytest.raises(pf.ScenarioError, match=f"the column {column} has values of type Duration"):
            of_file(parquet(tmp_path, **{column: pa.array([5], pa.duration("s"))}))


@pytest.mark.parametrize("start", [1 / 3, 0.1 + 0.2, 1e-7, 5e9 / 3])
def test_frames_round_times_as_files_do(tmp_path: Path, start: float) -> None:
    frame = pl.DataFrame(COLUMNS | {"start_us": [start], "compute_us": [start]})
    frame.write_csv(tmp_path / "f.csv")
    frame.write_parquet(tmp_path / "f.parquet")
    found = of_frame(frame)
    assert found.equals(of_file(tmp_path / "f.csv"))
    assert found.equals(of_file(tmp_path / "f.parquet"))
    single = frame.cast({"start_us": pl.Float32, "compute_us": pl.Float32})
    assert of_frame(single)["start_us"].to_list() == pytest.approx([2 * start], rel=1e-6, abs=1e-6)


def test_names_may_be_numbers_in_frames_as_in_files(tmp_path: Path) -> None:
    frame = pl.DataFrame({name: values * 2 for name, values in COLUMNS.items()} | {"id": [1, 2], "after": [None, "1"]})
    frame.write_parquet(tmp_path / "f.parquet")
    assert of_frame(frame).equals(of_file(tmp_path / "f.parquet"))
    assert of_frame(frame.with_columns(after=pl.Series([None, 1]))).equals(of_frame(frame))


def test_frames_take_timedeltas_and_refuse_bytes() -> None:
    later = pl.DataFrame(COLUMNS | {"start_us": [timedelta(microseconds=7)]})
    assert of_frame(later)["start_us"].to_list() == [7.0]
    with pytest.raises(ValueError, match="the column src of the frame has bytes"):
        of_frame(pl.DataFrame(COLUMNS | {"src": [b"host0"]}))


def test_doubled_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("src,dst,size_bytes,start_us,size_bytes\nhost0,host1,1,0,2\n")
    with pytest.raises(pf.ScenarioError, match="column size_bytes is there 2 times"):
        of_file(tmp_path / "f.csv")
    names = [*COLUMNS, "start_us"]
    table = pa.table([pa.array(COLUMNS[name]) for name in names], names=names)
    pq.write_table(table, tmp_path / "f.parquet")
    with pytest.raises(pf.ScenarioError, match="column start_us is there 2 times"):
        of_file(tmp_path / "f.parquet")
    with pytest.raises(ValueError, match="column start_us 2 times"):
        of_frame(table)
    with pytest.raises(ValueError, match="size_bytes and size of the frame are both the key size"):
        of_frame(pl.DataFrame(COLUMNS | {"size": ["2 KB"]}))
    rows = "timestamp_ms,input_tokens,input_tokens\n0,1,2\n"
    (tmp_path / "k.csv").write_text(rows)
    text = f'{STAR.replace("flows", "kv_transfer")}[workload.requests]\nkind = "trace"\nfile = "{tmp_path}/k.csv"\n'
    with pytest.raises(pf.ScenarioError, match="column input_tokens is there 2 times"):
        pf.run_flows(text, progress=False)


def test_times_beyond_the_limit_name_it(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("src,dst,size_bytes,start_us\nhost0,host1,1,1e13\n")
    with pytest.raises(pf.ScenarioError, match="expected at least 0 and at most 2400 h"):
        of_file(tmp_path / "f.csv")
