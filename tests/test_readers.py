"""No reader ends in a traceback, a panic or an abort, whatever its input is; limits refuse what would take the memory.

`MUTANTS=100000 pytest tests/test_readers.py` tries more inputs: `make night`.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import resource
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING

import mutants
import polars as pl
import pytest
import test_traces
from test_damaged_results import call

if TYPE_CHECKING:
    from pathlib import Path

COUNT = int(os.environ.get("MUTANTS", "400"))
SEED = int(os.environ.get("MUTANTS_SEED", "1"))
MEMORY = 6_000_000_000
"""Address space of a command; the limits keep a reader below 4 GB."""


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def command(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "pauseframe", *map(str, arguments)]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, check=False, preexec_fn=limited)


def application(folder: Path, keys: str) -> str:
    path = folder / "s.toml"
    path.write_text(f'{mutants.HEAD}workload = [{{ kind = "application", {keys} }}]\n')
    return path.name


def flows(folder: Path, file: str) -> str:
    path = folder / "s.toml"
    path.write_text(mutants.flow_list(file))
    return path.name


def zstd_of_blanks(blocks: int) -> bytes:
    """A zstd frame of so many blocks, each 128 KiB of blanks in 4 bytes (RFC 8878: RLE blocks)."""
    head = b"\x28\xb5\x2f\xfd" + b"\0" + bytes([7 << 3])
    return head + b"".join(
        (int(n == blocks - 1) | 1 << 1 | 131072 << 3).to_bytes(3, "little") + b" " for n in range(blocks)
    )


def refused(folder: Path, *arguments: object, words: tuple[str, ...]) -> None:
    done = command(*arguments, cwd=folder)
    assert done.returncode == 2, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr[-2000:]


# One case for each input that took all memory, or ended in a traceback, at its full size.


def test_a_pattern_of_billions_of_steps(tmp_path: Path) -> None:
    keys = 'pattern = "all_reduce", size = "1 KB", ranks = {}, iterations = {}'
    refused(tmp_path, "validate", application(tmp_path, keys.format(2, 4_000_000_000)), words=("outside 1 to 1000000",))
    file = application(tmp_path, keys.format(4, 1_000_000).replace('"all_reduce"', '"stencil", grid = [2, 2]'))
    words = ("iterations", "68000000 steps of all ranks", "--limit steps=68000000")
    refused(tmp_path, "validate", file, words=words)


@pytest.mark.parametrize("pattern", ["all_reduce", "all_to_all", "pipeline", "k_means", "stencil"])
def test_every_pattern_has_a_limit(pattern: str, tmp_path: Path) -> None:
    keys = f'pattern = "{pattern}", ranks = 4, size = "1 KB", iterations = 1000'
    file = application(tmp_path, keys)
    steps = {"stencil": 9, "pipeline": 2, "k_means": 2}.get(pattern, 1) * 4000
    refused(tmp_path, f"--limit=steps={steps - 1}", "validate", file, words=(f"--limit steps={steps}",))
    assert command(f"--limit=steps={steps}", "validate", file, cwd=tmp_path).returncode == 0


def test_a_device_as_a_trace(tmp_path: Path) -> None:
    file = application(tmp_path, 'trace = "/dev/zero"')
    refused(tmp_path, "validate", file, words=("workload.0.trace", "a device, a pipe"))


def test_a_device_as_a_scenario(tmp_path: Path) -> None:
    refused(tmp_path, "--limit=bytes=1000000", "validate", "/dev/zero", words=("/dev/zero", "--limit bytes="))


def test_a_table_of_many_equal_rows(tmp_path: Path) -> None:
    count = 20_000_000
    row = pl.DataFrame({"src": ["host1"], "dst": ["host0"], "size_bytes": [1000], "start_us": [0.0]})
    row.select(pl.all().repeat_by(count).explode()).write_parquet(tmp_path / "f.parquet", compression="zstd")
    words = ("workload.0.file", "20000000 rows", "--limit rows=20000000")
    refused(tmp_path, "validate", flows(tmp_path, "f.parquet"), words=words)


@pytest.mark.night
def test_a_table_of_one_long_text(tmp_path: Path) -> None:
    rows = {"src": ["x" * 1_000_000] * 3000, "dst": ["host0"] * 3000, "size_bytes": [1] * 3000, "start_us": [0] * 3000}
    pl.DataFrame(rows).write_parquet(tmp_path / "f.parquet", compression="zstd")
    assert (tmp_path / "f.parquet").stat().st_size < 2_000_000
    words = ("bytes of text", "--limit bytes=")
    refused(tmp_path, "--limit=bytes=100000000", "validate", flows(tmp_path, "f.parquet"), words=words)


@pytest.mark.parametrize("name", ["trace.zst", "trace.gz"])
def test_a_small_file_that_unpacks_to_gigabytes(name: str, tmp_path: Path) -> None:
    content = zstd_of_blanks(24_000) if name == "trace.zst" else gzip.compress(b" " * 20_000_000) * 100
    (tmp_path / name).write_bytes(content)
    assert len(content) < 3_000_000
    file = application(tmp_path, f'trace = "{name}"')
    refused(tmp_path, "validate", file, words=("cannot be unpacked: more than the limit of 1073741824 bytes",))


def test_steps_of_traces_have_a_limit(tmp_path: Path) -> None:
    steps = "".join(f"l{n}: calc 1\n" for n in range(1000))
    (tmp_path / "t.goal").write_text(f"num_ranks 1\nrank 0 {{\n{steps}}}\n")
    file = application(tmp_path, 'trace = "t.goal"')
    refused(tmp_path, "--limit=steps=1000", "validate", file, words=("1003 lines", "--limit steps=1003"))
    (tmp_path / "t.goal").write_bytes(test_traces.METADATA + b"\0" * 2000)
    refused(tmp_path, "--limit=steps=1000", "validate", file, words=("more than the limit of 1000 nodes",))
    lines = "rank 0 of 1000000\n" + "".join(f"comm {n} 1000000 all\n" for n in range(40))
    (tmp_path / "t.goal").write_text(lines)
    refused(tmp_path, "validate", file, words=("members of communicators", "--limit steps="))
    (tmp_path / "t.goal").write_text(
        test_traces.PMPI.replace("isend 0", "isend 9999999").replace("wait 0", "wait 9999999")
    )
    refused(tmp_path, "--limit=steps=1000", "validate", file, words=("requests", "--limit steps="))


def test_lines_of_lists_have_a_limit(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("src,dst,size_bytes,start_us\n" + "host0,host1,1,0\n" * 1000)
    words = ("1001 lines", "--limit rows=1001")
    refused(tmp_path, "--limit=rows=1000", "validate", flows(tmp_path, "f.csv"), words=words)
    assert command("--limit=rows=1001", "validate", flows(tmp_path, "f.csv"), cwd=tmp_path).returncode == 0


def test_a_wrong_limit_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, "--limit=lines=3", "presets", words=("lines=3", "bytes, rows, steps, table"))


@pytest.mark.parametrize(
    "text", ["x=" + "[" * 30_000, "x=" + "[" * 300 + "]" * 300, "x." * 3000 + "y=1", "[sweep]\nx=" + "{a=" * 3000]
)
def test_deep_nesting(text: str, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(text)
    for name in ("validate", "show", "run", "sweep", "tune"):
        done = command(name, "s.toml", cwd=tmp_path)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), f"{name}: {done.stderr[-500:]}"


def test_a_config_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_bytes(b"\xff\n")
    refused(tmp_path, "import", "hpcc", "c.txt", words=("c.txt",))


# All surfaces.


def test_every_surface_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without mutations, each input is accepted: the mutants begin at inputs that reach the end of their reader."""
    refusals = []
    for surface in mutants.surfaces(tmp_path):
        work = tmp_path / surface.name.replace("/", "-")
        work.mkdir()
        monkeypatch.chdir(work)
        code, err = mutants.attempt(surface, random.Random(0), whole=True)
        finds = surface.name.startswith(("counters", "lint"))
        refusals += [] if code in ({0, 1} if finds else {0}) else [f"{surface.name}: {code} {err}"]
    assert refusals == []


def test_no_mutant_breaks_a_reader(tmp_path: Path) -> None:
    line = [sys.executable, mutants.__file__, str(COUNT), str(SEED)]
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(line, capture_output=True, text=True, env=environment, check=False, preexec_fn=limited)
    cases = [path.read_text() for path in tmp_path.glob("mutants-*/case")]
    assert done.returncode == 0, f"{cases}\n{done.stdout[-500:]}\n{done.stderr[-4000:]}"
    codes: dict[str, Counter[str]] = {name: Counter(found) for name, found in json.loads(done.stdout).items()}
    assert sum(sum(found.values()) for found in codes.values()) == COUNT
    # Mutants are neither all refused nor all accepted.
    accepted = sum(found["0"] + found["1"] for found in codes.values()) / COUNT
    assert 0.1 < accepted < 0.9, codes


def test_a_table_of_results_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from test_damaged_results import write_run

    out = write_run(tmp_path / "run")
    monkeypatch.setenv("PAUSEFRAME_LIMITS", "table=1000")
    for name in ("report", "view"):
        code, err = call([name, str(out)])
        assert code == 2, err
        assert "--limit table=" in err


def test_a_word_that_is_no_text(tmp_path: Path) -> None:
    for line in (["topo", "show"], ["run"], ["headroom", "--rate"]):
        words = [os.fsencode(word) for word in (sys.executable, "-m", "pauseframe", *line)]
        done = subprocess.run([*words, b"x=\x87"], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
        assert "x=\\x87: this word of the command line is not UTF-8" in done.stderr
