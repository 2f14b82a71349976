"""A disk that is full: each command names the file and the reason, leaves nothing half, and its retry works.

A limit of file sizes stands for the full disk: the system refuses each byte beyond it.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import lint_fabrics
import mutants
import pauseframe as pf
import pytest
import test_import_mlxconfig
import test_import_simai
from pauseframe.files import atomic
from pauseframe.files.atomic import added_files, whole_folder, write_bytes, write_text
from test_damaged_results import SCENARIO, call, write_run

if TYPE_CHECKING:
    from pathlib import Path

# A command, what it writes, and the bytes that fit: none, or a part of what it writes.
COMMANDS = [
    ("topo export fat_tree:k=8 -o t.json", "t.json", 4096),
    ("topo draw fat_tree:k=4 -o t.svg", "t.svg", 0),
    ("import hpcc c.txt -o o.toml", "o.toml", 0),
    ("import mlxconfig card.txt -o card.toml", "card.toml", 0),
    ("import simai -n rails.txt -o o", "o", 0),
    ("busbw --gpus 2 -b 1K -e 2K --library mpi -o b.csv", "b.csv", 0),
    ("schema -o schema.json", "schema.json", 4096),
    ("route plan fat_tree:k=4 --first-vlan 100 --effort fast -o p", "p", 4096),
    ("route plan fat_tree:k=4 --first-vlan 100 --effort fast --tables parquet -o p", "p", 1000),
    ("route draw ring:switches=4,hosts_per_switch=1 plan --to host0 --vlan 2 -o r.svg", "r.svg", 0),
    ("deploy plan -o d --inventory i.csv", "d", 2000),
    ("import fabric c -o l.toml", "l.toml", 0),
    ("lint dep --export l", "l", 100),
    ("headroom --rate 100G --cable 5m --plot h.svg", "h.svg", 0),
    ("report run -o r.html", "run/view.html", 4096),
    ("view run -o v.html", "v.html", 4096),
    ("export perfetto run -o t.pftrace", "t.pftrace", 100),
    ("export csv run -o tables", "tables", 4096),
    ("export arrow run", "run/arrow", 4096),
    ("compare run --csv c.csv", "c.csv", 0),
    ("compare run --latex c.tex", "c.tex", 0),
    ("sweep s.toml --seeds 2 -o sw", "sw", 100),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an input for every command."""
    home = tmp_path_factory.mktemp("inputs")
    mutants.route_plan(home / "plan")
    write_run(home / "run")
    (home / "i.csv").write_text(mutants.INVENTORY)
    deploy = ["deploy", str(home / "plan"), "-o", str(home / "dep"), "--inventory", str(home / "i.csv")]
    assert call(deploy)[0] == 0
    lint_fabrics.write(lint_fabrics.clos(2, 1, 1), home / "c")
    for name, text in {
        "c.txt": mutants.HPCC,
        "topo.txt": mutants.TOPO,
        "flow.txt": mutants.FLOW,
        "s.toml": SCENARIO,
        "rails.txt": test_import_simai.rails(),
    }.items():
        (home / name).write_text(text)
    test_import_mlxconfig.dump(home)
    return home


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def limited(room: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))


@pytest.mark.parametrize(("line", "written", "room"), COMMANDS)
def test_a_full_disk_leaves_nothing_half(line: str, written: str, room: int, place: Path, tmp_path: Path) -> None:
    home = shutil.copytree(place, tmp_path / "home")
    before = files(home)
    command = [sys.executable, "-m", "pauseframe", *line.split()]
    full = subprocess.run(
        command,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: limited(room),
    )
    assert full.returncode == 1, full.stderr
    assert re.search(r"error: \S+: cannot be written: File too large; nothing is left", full.stderr)
    assert files(home) == before
    again = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    assert again.returncode in ({0, 1} if line.startswith("lint") else {0}), again.stderr
    assert (home / written).exists()


# Commands that replace files only with --force, and one of their files.
SPARING = [
    ("topo export fat_tree:k=4 -o t.json", "t.json"),
    ("schema -o schema.json", "schema.json"),
    ("busbw --gpus 2 -b 1K -e 1K --library mpi -o b.csv", "b.csv"),
    ("import hpcc c.txt -o o.toml", "o.toml"),
    ("import mlxconfig card.txt -o card.toml", "card.toml"),
    ("import fabric c -o l.toml", "l.toml"),
    ("import fabric c -o l", "l/scenario.toml"),
    ("import simai -n rails.txt -o o", "o/scenario.toml"),
    ("import pcap run/packets.pcapng -o flows", "flows/scenario.toml"),
    ("import pcap run/packets.pcapng -o flows", "flows/sizes.csv"),
    ("export csv run -o tables", "tables/flows.csv"),
]


@pytest.mark.parametrize(("line", "written"), SPARING)
def test_another_process_was_quicker(
    line: str, written: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file appears when this process has found the name free and begins to write."""
    home = shutil.copytree(place, tmp_path / "home")
    if "pcap" in line:
        pf.run(SCENARIO, set={"record.packets": True}, out=home / "run", force=True, progress=False)
    monkeypatch.chdir(home)
    temporary_name = atomic._partial_of

    def rival(path: Path) -> Path:
        (home / written).parent.mkdir(exist_ok=True)
        (home / written).write_text("theirs")
        return temporary_name(path)

    monkeypatch.setattr(atomic, "_partial_of", rival)
    code, message = call(line.split())
    assert (code, "exists" in message) == (2, True), message
    assert (home / written).read_text() == "theirs"
    assert not [name for name in files(home) if "partial" in name]
    monkeypatch.undo()
    monkeypatch.chdir(home)
    assert call([*line.split(), "--force"])[0] == 0
    assert (home / written).read_text() != "theirs"


def test_an_error_says_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, folder = tmp_path / "a", tmp_path / "b"
    write_text(file, "old")
    (folder / "x").mkdir(parents=True)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(
        OSError, match=r"cannot be written: No space left on device; the file that was there is unch"
    ) as e:
        write_bytes(file, b"new")
    assert e.value.filename == str(file)
    assert file.read_text() == "old"
    with pytest.raises(OSError, match="nothing is left"):
        write_text(tmp_path / "new", "new")
    with pytest.raises(OSError, match="the folder that was there is unchanged"), whole_folder(folder) as partial:
        write_text(partial / "inside", "new")
    with pytest.raises(OSError, match="the folder that was there is unchanged"), added_files(folder) as partial:
        (partial / "y").write_text("new")
    assert files(tmp_path) == {"a"}


def test_a_list_of_copies_that_failed_has_one_reason(tmp_path: Path) -> None:
    """As `shutil.copytree` raises it for `lint --fix --write` on a full disk."""
    rows = [("a", str(tmp_path / ".f.partial" / "a"), f"[Errno 28] No space left on device: 'a' -> '{tmp_path}'")] * 2
    message = r"^.*cannot be written: No space left on device; nothing is left: '.*/f'$"
    with pytest.raises(OSError, match=message), whole_folder(tmp_path / "f"):
        raise shutil.Error(rows)


def test_a_full_standard_output_is_named(place: Path) -> None:
    for line in ("options", "run s.toml -o full --force", "run s.toml -o full --force --json"):
        with open("/dev/full", "w") as full:  # noqa: PTH123
            command = [sys.executable, "-m", "pauseframe", *line.split()]
            done = subprocess.run(command, cwd=place, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        message = "error: standard output cannot be written: No space left on device; results in files are kept\n"
        assert (done.returncode, done.stderr) == (1, message)


def test_an_export_is_whole_or_absent(place: Path, tmp_path: Path) -> None:
    home = shutil.copytree(place, tmp_path / "home")
    out = home / "tables"
    assert call(["export", "csv", str(home / "run"), "--table", "flows", "-o", str(out)])[0] == 0
    assert call(["export", "csv", str(home / "run"), "--table", "ports", "-o", str(out)])[0] == 0
    assert files(out) == {"export.json", "flows.csv", "ports.csv"}
    assert '"flows.csv",\n  "ports.csv"' in (out / "export.json").read_text()
    kept = (out / "flows.csv").read_bytes()
    (home / "run" / "ports.parquet").write_bytes(b"damaged")
    assert call(["export", "csv", str(home / "run"), "-o", str(out), "--force"])[0] == 2
    assert (files(out), (out / "flows.csv").read_bytes()) == ({"export.json", "flows.csv", "ports.csv"}, kept)
    assert all(not name.startswith(".") for name in files(home))
