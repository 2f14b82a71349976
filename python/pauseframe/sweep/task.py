"""One run of a sweep, in a local worker process or on a cluster."""

from __future__ import annotations

import base64
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

from pauseframe import _core
from pauseframe.run import errors_of_plugins, kernel_for
from pauseframe.sweep.batch import BatchWriter, run_record, scenario_key

if TYPE_CHECKING:
    from pauseframe.plugins.load import LoadedFile
    from pauseframe.sweep.plan import PlannedRun

SMALL_S = 0.02
"""Limit of the resolution time for a small topology, in seconds.

A worker caches all scenarios below this limit, and only the last scenario above it.
"""


class Task(TypedDict):
    """A task for a worker, as JSON."""

    key: str
    seed: int
    scenario: str
    """Key of the scenario."""
    toml: NotRequired[str]
    """The scenario without its seed; omitted if the worker already has this scenario."""
    plugins: NotRequired[list[ShippedPlugin]]
    """Plug-ins to load before the scenario is read; omitted if the worker has already loaded them."""
    threads: int
    store: NotRequired[str]
    """Folder of the run, if it is kept as a folder."""
    batches: NotRequired[str]
    """Folder of the run's batch."""
    kernel: NotRequired[str]
    """Folder of the kernel of hosts; without it the worker takes its default (`kernel.find`)."""


class ShippedPlugin(TypedDict):
    """A plug-in file for a worker that has not loaded it."""

    path: str
    """Path from which the sweep read the plug-in."""
    sha256: str
    content: str
    """Content of the file in Base64."""
    others: dict[str, str]
    """Contents of the user's own modules or libraries that it needs, by their paths beside it."""


class Answer(TypedDict, total=False):
    """A worker's answer about a run: its error, or its memory."""

    ready: bool
    """Sent first, after the worker has loaded the package."""
    error: str
    cpu_s: float
    peak_rss_bytes: int | None
    files: dict[str, bytes]
    """The files of the run, from a worker on a machine without access to the store."""
    record: bytes
    """The record of the run, from a worker that cannot write the batch."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run: stored in the store or a batch, unless `error` gives a reason."""

    run: PlannedRun
    error: str | None = None


@dataclass(frozen=True)
class Target:
    """The stores of a sweep's runs, and the options of their computation."""

    store: Path | None = None
    """The store of runs kept as folders."""
    batches: Path | None = None
    """The folder of the batches of all other runs."""
    threads: int = 1
    """One thread per run by default, because cores are used for parallel runs first."""
    plugins: tuple[LoadedFile, ...] = ()
    """The plug-ins that runs use."""
    kernel: Path | None = None
    """The folder of the kernel of hosts."""

    @property
    def needs_packages(self) -> bool:
        """True if workers need more packages than pauseframe: a Python plug-in may import any package, often Numba."""
        return any(plugin.path.endswith(".py") for plugin in self.plugins)


def task_for(run: PlannedRun, target: Target) -> Task:
    """The task of a worker for a run."""
    task: Task = {
        "key": run.key,
        "seed": run.seed,
        "scenario": scenario_key(run.toml),
        "toml": run.toml,
        "threads": target.threads,
    }
    if target.plugins:
        task["plugins"] = [
            {"path": one.path, "sha256": one.sha256, "content": _base64(one.content), "others": _others(one)}
            for one in target.plugins
        ]
    if target.kernel is not None:
        task["kernel"] = str(target.kernel)
    if target.store is not None:
        task["store"] = str(target.store)
    if target.batches is not None:
        task["batches"] = str(target.batches)
    return task


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _others(plugin: LoadedFile) -> dict[str, str]:
    return {name: _base64(content) for name, content in plugin.others}


class Computer:
    """Computes runs one after the other; runs of one scenario share everything independent of the seed."""

    def __init__(self) -> None:
        self._tomls: dict[str, str] = {}
        self._resolved: dict[str, _core.Resolved] = {}
        self._large = False
        self._unloaded: list[ShippedPlugin] = []
        """Plug-ins whose loading has failed: each run that follows gives that error again."""
        self._writers: dict[str, BatchWriter] = {}

    def compute(self, task: Task) -> Answer:
        """Computes a run into the store (unless it exists), into a batch, or as a record in the answer."""
        if "toml" in task:
            self._tomls[task["scenario"]] = task["toml"]
        begun = time.process_time()
        try:
            self._unloaded = task.get("plugins", self._unloaded)
            if self._unloaded:
                _load(self._unloaded)
            self._unloaded = []
            if "store" in task:
                answer = self._into_store(task)
            elif "batches" in task:
                answer = self._into_batch(task)
            else:
                answer = self.record(task)
        except Exception as error:  # noqa: BLE001 (whatever it is, it must not stop the other runs)
            answer = {"error": f"{type(error).__name__}: {error}"}
        answer["cpu_s"] = time.process_time() - begun
        return answer

    def record(self, task: Task) -> Answer:
        """Computes a run and returns its record."""
        scenario = self._scenario(task)
        with errors_of_plugins(scenario):
            run = _core.run(scenario, threads=task["threads"], kernel=kernel_for(scenario, task.get("kernel")))
        if run.interrupted:
            return {"error": "interrupted"}
        if not run.finished:
            return {"error": "the run did not come to its end"}
        record = run_record(task["key"], task["scenario"], task["seed"], run.manifest_json, run.packed())
        return {"record": record, "peak_rss_bytes": run.peak_rss_bytes}

    def _into_batch(self, task: Task) -> Answer:
        answer = self.record(task)
        if "record" in answer:
            folder = task["batches"]
            if folder not in self._writers:
                self._writers[folder] = BatchWriter(Path(folder))
            writer = self._writers[folder]
            writer.add_scenario(self._tomls[task["scenario"]], task["scenario"])
            writer.append(answer.pop("record"))
        return answer

    def _into_store(self, task: Task) -> Answer:
        from pauseframe.results.folder import open_results
        from pauseframe.sweep.store import Store

        store, key = Store(Path(task["store"])), task["key"]
        if not store.has(key):
            scratch = store.scratch()
            try:
                scenario = self._scenario(task)
                with errors_of_plugins(scenario):
                    kernel = kernel_for(scenario, task.get("kernel"))
                    run = _core.run(scenario, out=str(scratch), threads=task["threads"], kernel=kernel)
                if run.interrupted:
                    return {"error": "interrupted"}
                # What the kernel printed: a store keeps tables only.
                shutil.rmtree(scratch / "kernel", ignore_errors=True)
                store.add(scratch, key)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        return {"peak_rss_bytes": open_results(store.folder(key)).summary["peak_rss_bytes"]}

    def _scenario(self, task: Task) -> _core.Resolved:
        key = task["scenario"]
        if key not in self._resolved:
            begun = time.perf_counter()
            resolved = _core.resolve(self._tomls[key], seed=task["seed"])
            if self._large or time.perf_counter() - begun > SMALL_S:
                self._large = True
                self._resolved.clear()
            self._resolved[key] = resolved
        return self._resolved[key].with_seed(task["seed"])


def _load(plugins: list[ShippedPlugin]) -> None:
    """Loads plug-ins from the content that the sweep read."""
    from pauseframe.plugins.load import is_loaded, load_shipped

    for one in plugins:
        path = Path(one["path"])
        if not is_loaded(path.name, one["sha256"]):
            others = {name: base64.b64decode(content) for name, content in one["others"].items()}
            load_shipped(path, base64.b64decode(one["content"]), others)


def compute(task: Task) -> Answer:
    """Computes one run."""
    return Computer().compute(task)


def scenario_of(run: PlannedRun) -> str:
    """The complete scenario of a run, with its seed."""
    try:
        return _core.resolve(run.toml, seed=run.seed).toml
    except _core.ScenarioError:  # the plan resolved this scenario, so an error here is a bug
        return run.toml
