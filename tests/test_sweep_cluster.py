"""Sweeps on a Dask cluster: a real scheduler and worker processes on this machine, killed during their work."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.sweep import cluster
from pauseframe.sweep.batch import BATCHES, Batches
from pauseframe.sweep.plan import Source
from pauseframe.sweep.store import Store
from pauseframe.sweep.task import Target, task_for
from test_cli import cli
from test_sweep import LONGER, TINY, finished, popen, wait_for

CommClosedError = pytest.importorskip("distributed.comm").CommClosedError


@contextmanager
def processes():
    """A function that starts dask commands; the fixture kills them at the end."""
    started = []

    def start(*arguments, log):
        with log.open("a") as file:
            command = [sys.executable, "-m", "dask", *arguments]
            process = subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)
        started.append(process)
        return process

    try:
        yield start
    finally:
        for process in started:
            process.kill()
            process.wait()


def scheduler(start, folder):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = start(
        "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", log=folder / "scheduler.log"
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.05)
    return process, f"tcp://127.0.0.1:{port}"


def worker(start, address, folder):
    options = ("--nthreads", "1", "--no-dashboard", "--no-nanny", "--local-directory", str(folder))
    return start("worker", address, *options, log=folder / "worker.log")


def tables(out):
    """The tables of all runs, as bytes, by run and table; manifests hold times of the machine and are left out."""
    batches = Batches(Path(out) / BATCHES)
    records = {key: batches.read(key) for key in batches.runs}
    return {
        (key, name): record.section(name)
        for key, record in records.items()
        for name in record.names
        if name != "manifest"
    }


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}


def test_a_worker_and_the_scheduler_are_killed(tmp_path):
    file = tmp_path / "longer.toml"
    file.write_text(LONGER)
    out = tmp_path / "cluster" / "out"
    with processes() as start:
        boss, address = scheduler(start, tmp_path)
        first, _ = worker(start, address, tmp_path), worker(start, address, tmp_path)
        with popen("sweep", file, "--seeds", 30, "--out", out, "--on", address) as process:
            wait_for(out, 3)
            os.kill(first.pid, signal.SIGKILL)
            wait_for(out, 12)
            boss.kill()
            _, stderr = process.communicate(timeout=120)
        assert process.returncode == 1
        assert "scheduler was lost" in stderr
        assert "Traceback" not in stderr
        before = finished(out)
        assert len(before) >= 12
    assert cli("sweep", file, "--seeds", 30, "--out", out, "--resume").returncode == 0
    assert before.items() <= finished(out).items()  # No run was lost, and none was computed again.
    here = pf.sweep(file, seeds=30, out=tmp_path / "here" / "out")
    assert len(here.finished) == len(pf.load_sweep(out).finished) == 30
    assert tables(out) == tables(here.folder)


class Unreachable:
    """A future whose scheduler disappears during the request."""

    status = "finished"

    def __init__(self, error):
        self.error = error

    def result(self):
        raise self.error


@pytest.mark.parametrize("error", [CommClosedError("in gather"), CancelledError("gone")])
def test_a_scheduler_lost_between_an_answer_and_its_fetch(tmp_path, error):
    (run,) = Source.read(TINY).plan().runs
    with pytest.raises(pf.RunError, match="scheduler was lost"):
        cluster._outcome(Unreachable(error), run, cluster._Batch(Target(batches=tmp_path)))


def test_without_a_common_file_system_files_are_sent(tmp_path, monkeypatch):
    source = Source.read(TINY)
    (run,) = source.plan().runs
    target = Target(store=tmp_path / "not here")
    task = cluster.TaskThere(**task_for(run, target), token=str(tmp_path / "no token"), version=pf.__version__)
    answer = cluster.compute_there(task)
    assert not (tmp_path / "not here").exists()
    assert (answer["peak_rss_bytes"] or 0) > 0
    store = Store(tmp_path / "store")
    cluster._write(store, run.key, answer["files"])
    assert store.has(run.key)
    store.place(run.key, tmp_path / "sent")
    here = pf.sweep(TINY, out=tmp_path / "out", keep_runs=True)
    assert files(tmp_path / "sent") == files(here.folder / here.planned[0]["path"])
    assert "99.0" in cluster.compute_there(cluster.TaskThere(**(task | {"version": "99.0"})))["error"]
    shutil.rmtree(tmp_path / "sent")


@pytest.mark.parametrize("address", ["nowhere", "tcp://localhost", "tcp://localhost:x", "localhost:99999", "foo://a:1"])
def test_a_wrong_address_is_refused_at_once(address, tmp_path):
    with pytest.raises(pf.InputError, match=r"is no address of a scheduler: .*; write tcp://HOST:8786"):
        pf.sweep(TINY, out=tmp_path / "out", on=address)


def test_nobody_there(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_S", 1)
    with pytest.raises(pf.RunError, match="no scheduler"):
        pf.sweep(TINY, out=tmp_path / "out", on="tcp://127.0.0.1:9")
