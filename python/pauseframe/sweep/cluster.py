"""Runs of a sweep on a Dask cluster (`pip install 'pauseframe[cluster]'`).

Workers send the records of their runs, and the sweep writes these records into a batch. If runs are kept as folders, a
worker that shares the file system of the sweep's store writes its run into the store; other workers send the files.
Dask repeats the runs of a worker that died.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import time
import uuid
from asyncio import CancelledError as AsyncCancelledError
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pauseframe._core import InputError, RunError, __version__
from pauseframe.sweep.batch import BatchWriter, scenario_key
from pauseframe.sweep.store import Store
from pauseframe.sweep.task import Answer, Outcome, Target, Task, compute, task_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from distributed import Client

    from pauseframe.sweep.plan import PlannedRun

T = TypeVar("T")

CONNECT_S = 30
APPEARS_S = 60
LOST = "the connection to the scheduler was lost; what is finished is kept, and the sweep can be resumed"


def run_on(cluster: str | Client, runs: Sequence[PlannedRun], target: Target) -> Iterator[Outcome]:
    """Computes the runs on a cluster, given by its scheduler's address or a client; yields outcomes as they arrive.

    Raises RunError if the scheduler cannot be reached or is lost.
    """
    if not isinstance(cluster, str):
        yield from _outcomes(cluster, runs, target)
        return
    with connect(cluster) as client:
        yield from _outcomes(client, runs, target)


def connect(address: str) -> Any:
    """Connects a client to the scheduler at an address.

    Raises InputError for a wrong address, RunError if the scheduler cannot be reached.
    """
    distributed = _distributed()
    _refuse_wrong_address(address)
    for name in ("distributed", "distributed.client", "tornado"):  # RunError reports the relevant error
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        return distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise RunError(
            f"no scheduler at {address}: {error}; start one with `dask scheduler`, or leave --on out"
        ) from None


def _refuse_wrong_address(address: str) -> None:
    """Raises InputError: a client with such an address fails at once, but waits a minute when it is deleted."""
    if address.startswith("inproc://"):  # a scheduler in this process
        return
    try:
        _, port = import_module("distributed.comm.addressing").get_address_host_port(address)
        if not 0 < port < 1 << 16:
            raise ValueError(f"{port} is no port")
    except ValueError as error:
        raise InputError(f"{address!r} is no address of a scheduler: {error}; write tcp://HOST:8786") from None


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        raise RunError("a cluster needs dask.distributed: pip install 'pauseframe[cluster]'") from None


def _outcomes(client: Any, runs: Sequence[PlannedRun], target: Target) -> Iterator[Outcome]:
    if target.store is None:
        receiver: _Folders | _Batch = _Batch(target)
    else:
        receiver = _Folders(target, target.store)
    tasks = [TaskThere(**task_for(run, receiver.target), token=receiver.token, version=__version__) for run in runs]
    futures = client.map(compute_there, tasks, key=f"pauseframe-{uuid.uuid4().hex}", pure=False)
    by_key = {future.key: run for future, run in zip(futures, runs, strict=True)}
    finished = iter(_distributed().as_completed(futures, loop=client.loop))
    try:
        while (future := _while_connected(lambda: next(finished, None))) is not None:
            yield _outcome(future, by_key.pop(future.key), receiver)
            future.release()
    finally:
        receiver.close()
        with suppress(*_losses()):  # a lost scheduler makes cancelling fail
            client.cancel(list(futures))


class _Batch:
    """Writes the records of workers into a batch."""

    token = ""

    def __init__(self, target: Target) -> None:
        self.target = replace(target, batches=None)
        self._writer = BatchWriter(target.batches or Path())

    def take(self, run: PlannedRun, answer: Answer) -> str | None:
        """Stores the result that a worker sent."""
        if "record" in answer:
            self._writer.add_scenario(run.toml, scenario_key(run.toml))
            self._writer.append(answer["record"])
        return answer.get("error")

    def close(self) -> None:
        """Ends the batch."""
        self._writer.close()


class _Folders:
    """Writes the results of workers into a store, unless the workers have written there themselves."""

    def __init__(self, target: Target, store: Path) -> None:
        self.target = replace(target, store=store.absolute(), batches=None)
        self._store = Store(store.absolute())
        path = self._store.scratch() / uuid.uuid4().hex  # a worker that sees this file shares the store
        path.touch()
        self.token = str(path)

    def take(self, run: PlannedRun, answer: Answer) -> str | None:
        """Stores the result that a worker sent."""
        error = answer.get("error")
        if "files" in answer:
            _write(self._store, run.key, answer["files"])
        elif error is None and not _appears(self._store, run.key):
            error = f"the worker wrote the run into {self._store.root}, where it does not appear"
        return error

    def close(self) -> None:
        """Removes the token file."""
        shutil.rmtree(Path(self.token).parent, ignore_errors=True)


def _losses() -> tuple[type[BaseException], ...]:
    """The exceptions that Dask raises when the scheduler disappears, depending on the moment."""
    return (import_module("distributed.comm").CommClosedError, CancelledError, AsyncCancelledError)


def _while_connected(ask: Callable[[], T]) -> T:
    try:
        return ask()
    except _losses():
        raise RunError(LOST) from None


def _outcome(future: Any, run: PlannedRun, receiver: _Batch | _Folders) -> Outcome:
    if future.status == "cancelled":
        raise RunError(LOST)
    if future.status == "error":  # workers died repeatedly during this run
        reason = _while_connected(future.exception)
        return Outcome(run, f"{type(reason).__name__}: {reason}")
    # "lost": the worker died before the record was fetched, and the scheduler repeats the run on another worker
    return Outcome(run, receiver.take(run, _while_connected(future.result)))


def _appears(store: Store, key: str) -> bool:
    """Waits for a file written by another machine, which a network file system may show late."""
    end = time.monotonic() + APPEARS_S
    while not store.has(key):
        if time.monotonic() > end:
            return False
        time.sleep(0.5)
    return True


def _write(store: Store, key: str, files: dict[str, bytes]) -> None:
    scratch = store.scratch()
    try:
        for name, content in files.items():
            (scratch / name).write_bytes(content)
        store.add(scratch, key)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class TaskThere(Task):
    """A task for a worker on another machine."""

    token: str
    """A file that is visible to every machine that shares the store; "" if records are sent."""
    version: str


def compute_there(task: TaskThere) -> Answer:
    """Computes a run on a worker of the cluster: into the store, or returning its files or its record."""
    if task["version"] != __version__:
        return {"error": f"the worker has pauseframe {__version__}, the sweep {task['version']}"}
    if "store" not in task:
        return compute(task)
    if Path(task["token"]).exists():
        return compute(task)
    with tempfile.TemporaryDirectory(prefix="pauseframe-") as folder:
        answer = compute(cast("Task", task | {"store": folder}))
        if "error" in answer:
            return answer
        result = Store(Path(folder)).folder(task["key"])
        answer["files"] = {path.name: path.read_bytes() for path in result.iterdir()}
        return answer
