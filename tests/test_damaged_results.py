"""Damaged results folders: a command reports the damage with exit code 2, or succeeds; none shows a traceback.

`python tests/test_damaged_results.py 2000` tries 2000 damages.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pauseframe as pf
import polars as pl
import pytest
from pauseframe import cli
from pauseframe.flow import run_flows
from pauseframe.results.folder import DamagedResultsError, open_results
from pauseframe.run import resolve

SCENARIO = """
topology = {kind = "star", hosts = 6}
switch = {pfc = {}}
transport = {preset = "tcp_bolt"}
workload = {kind = "incast", fan_in = 4, response = ["20 KB"]}
record = {states = true, pause_tree = true, series = {every = "20 us"}}
stop = "3 ms"
seed = 5
"""
COMMANDS = (
    ["report"],
    ["view"],
    ["compare"],
    ["export", "perfetto"],
    ["export", "csv", "--force"],
    ["export", "arrow", "--force"],
)
FLOW_LEVEL_COMMANDS = (*COMMANDS[-2:], *COMMANDS[-2:], *COMMANDS)
SEED = 20261125
Damage = Callable[[Path, random.Random], str]
Sources = list[tuple[Path, Sequence[list[str]]]]


def truncate(file: Path, draw: random.Random) -> str:
    size = file.stat().st_size
    left = draw.choice([0, 1, size // 2, size - 1, draw.randrange(size)])
    file.write_bytes(file.read_bytes()[:left])
    return f"cut to {left}"


def flip(file: Path, draw: random.Random) -> str:
    data = bytearray(file.read_bytes())
    for _ in range(draw.choice([1, 3, 20])):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)
    return "bits flipped"


def append(file: Path, draw: random.Random) -> str:
    file.write_bytes(file.read_bytes() + draw.randbytes(draw.randrange(1, 100)))
    return "bytes appended"


def delete(file: Path, draw: random.Random) -> str:
    file.unlink()
    return "deleted"


def other_text(file: Path, draw: random.Random) -> str:
    texts = [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe\x00x",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"1" * 5000,
        b"= [",
        b'""',
    ]
    file.write_bytes(draw.choice(texts))
    return "other text"


def swap(file: Path, draw: random.Random) -> str:
    other = draw.choice([path for path in file.parent.iterdir() if path != file and path.is_file()])
    kept = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(kept)
    return f"swapped with {other.name}"


def rename(file: Path, draw: random.Random) -> str:
    file.rename(file.with_name(draw.choice([file.name + ".bak", "deadlocks.parquet", "x.json"])))
    return "renamed"


def folder(file: Path, draw: random.Random) -> str:
    file.unlink()
    file.mkdir()
    return "a folder"


def loop(file: Path, draw: random.Random) -> str:
    file.unlink()
    file.symlink_to(draw.choice([file.name, "nowhere", "."]))
    return "a link in a circle or to nowhere"


def fifo(file: Path, draw: random.Random) -> str:
    file.unlink()
    os.mkfifo(file)
    return "a pipe"


def unreadable(file: Path, draw: random.Random) -> str:
    file.chmod(0)
    return "no permission"


def other_columns(file: Path, draw: random.Random) -> str:
    """A valid table with a column missing, renamed, of another type or with absurd values."""
    if file.suffix != ".parquet":
        return flip(file, draw)
    frame = pl.read_parquet(file)
    column = draw.choice(frame.columns)
    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric()]
    number = draw.choice(numbers) if numbers else column
    changed = {
        "missing": lambda: frame.drop(column),
        "renamed": lambda: frame.rename({column: "other"}),
        "text": lambda: frame.with_columns(pl.lit("x").alias(column)),
        "number": lambda: frame.with_columns(pl.lit(7).alias(column)),
        "null": lambda: frame.with_columns(pl.lit(None).cast(frame.schema[column]).alias(column)),
        "huge": lambda: frame.with_columns(pl.lit(2**31).cast(frame.schema[number], strict=False).alias(number)),
        "no rows": lambda: frame.head(0),
        "twice": lambda: pl.concat([frame, frame]),
    }
    how = draw.choice(sorted(changed))
    changed[how]().write_parquet(file)
    return f"column {column} {how}"


def other_cell(file: Path, draw: random.Random) -> str:
    """A table with one value that no run writes; digests in the manifest are those of this table."""
    tables = sorted(file.parent.glob("*.parquet"))
    file = draw.choice([path for path in tables if len(pl.read_parquet(path))])
    frame = pl.read_parquet(file)
    column = draw.choice(frame.columns)
    kind, row = frame.schema[column], draw.randrange(len(frame))
    values = frame[column].cast(pl.String).to_list() if kind == pl.Categorical else frame[column].to_list()
    odd: list[object] = [None, "nohost", "", "host0:99", "flow x", "7"]
    if kind.is_numeric():
        odd = [None, 0, 255, 2**31, *([float("nan"), float("inf"), -1.0, 1e300] if kind.is_float() else [])]
    elif isinstance(kind, pl.List):
        odd = [None, [], [2**32 - 1], [None]]
    value = draw.choice(odd)
    try:
        changed = pl.Series(column, [*values[:row], value, *values[row + 1 :]], strict=True, dtype=kind)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):  # too large for the type
        value, changed = None, pl.Series(column, [*values[:row], None, *values[row + 1 :]], dtype=kind)
    frame.with_columns(changed).write_parquet(file)
    reseal(file.parent)
    return f"{file.name} {column} {value!r}, resealed"


def reseal(folder: Path) -> None:
    """Puts the digests of the files into the manifest, as someone may who changes a table on purpose."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for name, seal in manifest.get("files", {}).items():
        content = (folder / name).read_bytes()
        seal |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    path.write_text(json.dumps(manifest))


def other_json(file: Path, draw: random.Random) -> str:
    """The manifest with an entry removed, or with another type, size or sign."""
    file = file.with_name("manifest.json")
    value = json.loads(file.read_text())
    at, key = value, draw.choice(sorted(value))
    while isinstance(at[key], dict) and at[key] and draw.random() < 0.7:
        at, key = at[key], draw.choice(sorted(at[key]))
    what: object = "removed"
    if draw.random() < 0.2:
        del at[key]
    else:
        what = draw.choice([None, True, -1, 10**400, 1e308, float("nan"), float("inf"), "x", [], {}, [1], {"a": {}}, 0])
        at[key] = what
    file.write_text(json.dumps(value))
    return f"{key} {what}"


def foreign(file: Path, draw: random.Random) -> str:
    """The folder of another version or program, with the manifest or the columns that it might write."""
    path = file.with_name("manifest.json")
    value = json.loads(path.read_text())
    how = draw.choice(["version", "program", "no summary", "other keys", "kind"])
    if how in {"version", "program"}:
        value[how] = draw.choice(["0.0.3", "9.9.9", "ns-3", "", None, 7])
    elif how == "kind":
        value["kind"] = draw.choice(["flow_level", "sweep", "", None, 3])
    elif how == "no summary":
        del value["summary"]
    else:
        value |= {"format": 7, "runs": [1, 2]}
        value.get("files", {}).pop(draw.choice(sorted(value.get("files", {"-": 0}))), None)
    path.write_text(json.dumps(value))
    return f"foreign: {how}"


DAMAGES: list[Damage] = [
    foreign,
    foreign,
    truncate,
    truncate,
    flip,
    flip,
    append,
    delete,
    other_text,
    swap,
    rename,
    folder,
    loop,
    fifo,
    unreadable,
    other_columns,
    other_columns,
    *[other_cell] * 5,
    other_json,
    other_json,
]


def call(arguments: list[str]) -> tuple[int, str]:
    """Exit code and stderr of a command that runs in this process; a traceback counts as exit code -1."""
    err = io.StringIO()
    kept, sys.argv = sys.argv, ["pauseframe", *arguments]
    try:
        with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
            cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:  # noqa: BLE001 (panics of libraries are no Exception)
        return -1, traceback.format_exc()
    finally:
        sys.argv = kept
    return code, err.getvalue()


def without_seals(folder: Path) -> None:
    """The results folder as an older version wrote it, without digests in the manifest."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest.pop("files", None)
    path.write_text(json.dumps(manifest))


def attempt(sources: Sources, home: Path, draw: random.Random, *, sealed: bool) -> tuple[str, int, str]:
    """Damages a copy of a results folder and runs a command on it."""
    copy = home / "run"
    source, commands = draw.choice(sources)
    shutil.copytree(source, copy)
    if not sealed:
        without_seals(copy)
    damage = draw.choice(DAMAGES)
    file = draw.choice(sorted(path for path in copy.iterdir() if path.suffix in {".json", ".toml", ".parquet"}))
    what = f"{'sealed' if sealed else 'unsealed'} {file.name}: {damage(file, draw)}"
    command = draw.choice(commands)
    folders = [str(copy)] + ([str(source)] if command == ["compare"] else [])
    try:
        code, err = call([*command, *folders])
    finally:
        shutil.rmtree(copy)
    return f"{' '.join(command)} {what}", code, err


def attempts(sources: Sources, count: int, *, sealed_share: float) -> Counter[int]:
    """Tries so many damages; how often each exit code came."""
    draw, codes = random.Random(SEED), Counter[int]()
    with tempfile.TemporaryDirectory() as home:
        for number in range(count):
            what, code, err = attempt(sources, Path(home), draw, sealed=draw.random() < sealed_share)
            assert code in {0, 2}, f"{number}: {what}: exit code {code}\n{err}"
            assert code == 0 or err.startswith("error: "), f"{number}: {what}\n{err}"
            codes[code] += 1
    return codes


def write_run(out: Path) -> Path:
    pf.run(SCENARIO, out=out, progress=False)
    return out


def write_sources(home: Path) -> Sources:
    """Folders to damage with the commands to try on them: two of three are runs with packets."""
    run_flows(resolve(SCENARIO), out=home / "flow_level", progress=False)
    packets = (write_run(home / "whole"), COMMANDS)
    return [packets, packets, (home / "flow_level", FLOW_LEVEL_COMMANDS)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("results") / "whole")


def test_every_damage_is_named(tmp_path: Path) -> None:
    codes = attempts(write_sources(tmp_path), 150, sealed_share=0.8)
    assert codes[2] > 75, codes


def test_an_export_names_a_table_that_is_gone(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    (copy / "ports.parquet").unlink()
    code, err = call(["export", "csv", str(copy)])
    assert code == 2
    assert "ports.parquet" in err


@pytest.mark.parametrize("damage", [truncate, flip, append, delete, other_text, folder, loop, fifo, other_columns])
def test_tables_are_checked_against_the_manifest(run: Path, tmp_path: Path, damage: Damage) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    damage(copy / "flows.parquet", random.Random(1))
    with pytest.raises(DamagedResultsError, match=r"flows\.parquet is damaged: .*copy the folder again"):
        open_results(copy).read("flows")
    with pytest.raises(DamagedResultsError, match=r"flows\.parquet is damaged"):
        open_results(copy).scan("flows")


def test_the_digest_is_that_of_the_file(run: Path) -> None:
    files = json.loads((run / "manifest.json").read_text())["files"]
    assert set(files) == {path.name for path in run.iterdir()} - {"manifest.json", ".lock"}
    for name, seal in files.items():
        content = (run / name).read_bytes()
        assert seal == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_a_whole_folder_is_read(run: Path) -> None:
    results = open_results(run)
    assert results.summary["seed"] == 5
    assert len(results.frame("flows")) == results.summary["flows_total"]
    for command in COMMANDS[:2]:
        assert call([*command, str(run), "--out", str(run.parent / "page.html")])[0] == 0


TINY = """
workload = [{ kind = "n_to_1", size = "10 KB" }]
topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
"""
DAMAGED_LISTS: dict[str, Callable[[str], str]] = {
    "cut": lambda text: text[:200],
    "empty": lambda _: "",
    "deep": lambda _: "[" * 100_000,
    "no list": lambda text: json.dumps(json.loads(text) | {"runs": 3}),
    "no key": lambda text: json.dumps(json.loads(text) | {"runs": [{"path": "seed=1"}]}),
    "no axes": lambda text: json.dumps({**json.loads(text), "axes": None}),
}


@pytest.mark.parametrize("damage", DAMAGED_LISTS)
@pytest.mark.parametrize("keep_runs", [False, True])
def test_a_damaged_list_of_runs_is_written_again(
    damage: str, keep_runs: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The cure that `report` and `compare` name: run the sweep again. Its runs are kept."""
    sweep = pf.sweep(TINY, seeds=2, out=tmp_path / "out", keep_runs=keep_runs, progress=False)
    path = sweep.folder / "sweep.json"
    before, rows = path.read_text(), sweep.flows.collect()
    path.write_text(DAMAGED_LISTS[damage](before))
    with pytest.raises(pf.DamagedResultsError, match=r"sweep\.json is damaged: .*run the sweep again"):
        pf.load_sweep(sweep.folder)
    shutil.rmtree(tmp_path / ".pauseframe-store")
    capsys.readouterr()
    again = pf.sweep(TINY, seeds=2, out=tmp_path / "out", keep_runs=keep_runs, progress=True)
    told = capsys.readouterr().err
    assert (told.count("sweep.json is damaged; it is replaced"), "2 of 2 runs are there already" in told) == (
        1,
        True,
    ), told
    assert path.read_text() == before
    assert again.flows.collect().equals(rows)


def test_a_sweep_without_its_list_is_found_by_its_runs(tmp_path: Path) -> None:
    sweep = pf.sweep(TINY, seeds=3, out=tmp_path / "out", progress=False)
    (sweep.folder / "sweep.json").unlink()
    assert pf.sweep(TINY, seeds=2, out=tmp_path / "out", progress=False).summaries.height == 2
    assert pl.read_parquet(sweep.folder / "runs.parquet").height == 2


def test_a_damaged_list_of_another_sweep_is_not_replaced(tmp_path: Path) -> None:
    sweep = pf.sweep(TINY, out=tmp_path / "out", progress=False)
    (sweep.folder / "sweep.json").write_text("{")
    with pytest.raises(pf.InputError, match=r"has a damaged sweep\.json, and none of its runs is one of this sweep"):
        pf.sweep(TINY.replace("10 KB", "20 KB"), out=tmp_path / "out", progress=False)
    assert (sweep.folder / "sweep.json").read_text() == "{"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        sys.stdout.write(f"{attempts(write_sources(Path(place)), int(sys.argv[1]), sealed_share=0.8)}\n")
