"""Files appear complete or not at all, and never follow symbolic links."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pauseframe.files.atomic import write_text
from pauseframe.report import Group, build_report, from_folder


def test_a_planted_link_is_replaced_and_not_followed(tmp_path, folders):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    out = tmp_path / "report.html"
    out.symlink_to(precious)
    (tmp_path / "report.html.partial").symlink_to(precious)  # Temporary name of reports in an earlier version.
    build_report([Group("", [from_folder(folders["one"])])], out)
    assert precious.read_text() == "mine"
    assert not out.is_symlink()
    assert out.stat().st_size > 100_000


def test_a_name_that_is_taken_is_not_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "urandom", lambda _: b"\0")
    precious = tmp_path / "precious"
    precious.write_text("mine")
    taken = tmp_path / f".a.{os.uname().nodename}+{os.getpid()}+00.partial"
    taken.symlink_to(precious)
    with pytest.raises(FileExistsError):
        write_text(tmp_path / "a", "text")
    assert precious.read_text() == "mine"
    assert not (tmp_path / "a").exists()


def test_what_fails_leaves_nothing(tmp_path, folders, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="No space"):
        build_report([Group("", [from_folder(folders["one"])])], tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_permissions_are_those_of_any_new_file(tmp_path):
    mask = os.umask(0o027)
    try:
        assert write_text(tmp_path / "a", "x").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(mask)


def test_only_leftovers_of_the_dead_are_removed(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    begin = f".a.{os.uname().nodename}"
    gone, mine, elsewhere = (
        tmp_path / name
        for name in (
            f"{begin}+{dead.pid}+x.partial",
            f"{begin}+{os.getpid()}+x.partial",
            f".a.other+{dead.pid}+x.partial",
        )
    )
    for path in (gone, mine, elsewhere):
        path.write_text("half")
    write_text(tmp_path / "a", "whole")
    assert [path.exists() for path in (gone, mine, elsewhere)] == [False, True, True]
    assert (tmp_path / "a").read_text() == "whole"


def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE, text=True) as reader:
        write_text(pipe, "through")
        assert reader.communicate(timeout=60)[0] == "through"
    assert pipe.is_fifo()
