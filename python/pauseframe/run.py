"""`pauseframe.run`: runs a scenario and returns a `Run`."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pauseframe import _core
from pauseframe.files.atomic import refuse_file
from pauseframe.results import Run, from_core, given_keys, load
from pauseframe.results.places import is_whole, keep_inputs, mark_failed, may_replace, touched
from pauseframe.results.run_key import run_key
from pauseframe.scenario.plain import native
from pauseframe.scenario.text import resolve_changed, source_of
from pauseframe.terminal.standard import shows_errors_on_terminal, write_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pauseframe.scenario.document import Scenario
    from pauseframe.terminal.progress import Display
    from pauseframe.types import RunProgress

Progress: TypeAlias = "Callable[[RunProgress], None]"
Plugins: TypeAlias = "Sequence[str | Path | type] | bool"
"""Plug-ins to load: files or classes; True loads the plug-ins that the scenario names."""


def thread_count(threads: int | Literal["auto"] | None) -> int:
    """The number of threads in the core's format, which is 0 for "auto" and None."""
    threads = native(threads)
    if threads is None or threads == "auto":
        return 0
    if not isinstance(threads, int) or threads < 1:
        raise ValueError(f'threads: {threads!r} is neither "auto" nor a whole number from 1 on')
    return threads


def run(
    scenario: Scenario | _core.Resolved | str | Path,
    *,
    seed: int | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    force: bool = False,
    force_large: bool = False,
    threads: int | Literal["auto"] | None = None,
    progress: Progress | bool | None = None,
    plugins: Plugins = (),
    kernel: str | Path | None = None,
    programs: Iterable[tuple[str, str]] = (),
) -> Run:
    """Runs a scenario to its end and returns its tables and summary.

    `scenario` is a `Scenario`, the path of a scenario file, or the text of a scenario (a str with line breaks). `set`
    changes keys, given by path: `set={"switch.pfc.xoff": "96 KB"}`. `out` names a results folder to write as well. If
    it has the results of equal inputs (scenario and its files, plug-ins, kernel, programs, version), they are returned
    and nothing runs. Only `force=True` runs again, or replaces results of other inputs. A series, a capture or
    open flows that would fill memory or disk are an error with the estimated size, unless `force_large=True`.

    `threads` threads run the network, at most one for each switch with hosts. None and "auto" use at most the idle
    cores that this process may use, and fewer if more would not help; `summary["threads_reason"]` explains the choice.
    The results do not depend on the number of threads. `progress` is called about ten times per second with a dict
    (sim_time_s, stop_time_s, wall_s, events, packet_hops, flows_started, flows_finished); None shows a bar on a
    terminal and in Jupyter, False shows nothing.

    `plugins` are congestion controls to load first: Python files, shared libraries, or classes with
    `@pauseframe.congestion_control`; True loads the scenario's `[plugins] files`. Loading a plug-in runs its code.

    `kernel` is a Linux kernel for scenarios with `host.stack = "kernel"`: its version, or its folder as
    `pauseframe.kernel.build` returns it; None takes Linux 6.12 if it is built, else the one that was built last.
    `programs` are shell commands that run on such hosts, each a host and its command; what they set at once holds for
    the first flow, and the run lasts until they have ended.

    Ctrl-C (SIGINT) ends the run within a second without KeyboardInterrupt: the returned `Run` holds the results so far,
    its `interrupted` is true, and a note goes to stderr. While results are being written, Ctrl-C raises
    KeyboardInterrupt, and the folder is marked as incomplete. Ctrl-C is handled only in the main thread, where Python
    handles signals.

    Raises ScenarioError with every mistake in the scenario, InputError if `out` has other results or another process
    writes there, RunError if the run failed.

    >>> import pauseframe as pf
    >>> text = '''
    ... workload = [{ kind = "n_to_1", senders = 2, size = "1 MB" }]
    ... topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
    ... '''
    >>> pf.run(text, set={"transport.preset": "dctcp"}).summary["drops"]
    0
    """
    folder = None if out is None else path_of(out)
    progress = checked_progress(progress)
    resolved = resolve(scenario, seed=seed, set=set, plugins=plugins)
    programs = checked_programs(programs, resolved)
    kernel_folder = kernel_for(resolved, kernel)
    key = "" if folder is None else key_of(resolved, kernel_folder, programs)
    if folder is not None:
        refuse_file(folder)
        if not force and is_whole(folder, key):
            write_note(f"{folder} has the results of these inputs already; --force (in Python: force=True) runs again")
            return load(touched(folder))
        force = force or may_replace(folder, key)
    display = automatic_display(resolved) if progress is None or progress is True else None
    report = progress if callable(progress) else display
    try:
        with errors_of_plugins(resolved):
            core = _core.run(
                resolved,
                out=None if out is None else str(out),
                force=force,
                force_large=force_large,
                threads=thread_count(threads),
                kernel=kernel_folder,
                programs=programs,
                progress=report,
            )
    except _core.RunError as error:
        if folder is not None:
            mark_failed(folder, str(error))
        raise
    finally:
        if display is not None:
            display.close()
    if folder is not None:
        keep_inputs(folder, key, given_keys(resolved), core.summary)
    if core.interrupted:
        from pauseframe.terminal.text import format_duration

        at = format_duration(core.summary["sim_time_s"])
        write_note(f"interrupted at {at} of simulated time; what was recorded is kept")
    return from_core(core, resolved)


def path_of(out: str | os.PathLike[str]) -> Path:
    """The path that `out` names."""
    if not isinstance(out, str | os.PathLike):
        raise TypeError(f'out = {out!r}: the path of a folder is needed, such as "results/one"')
    return Path(out)


def checked_progress(progress: Progress | bool | None) -> Progress | bool | None:
    """What shows the progress of a run, if it is one of what `run` takes."""
    if progress is None or isinstance(progress, bool) or callable(progress):
        return progress
    raise TypeError(f"progress = {progress!r}: give a function, or True, False or None")


def checked_programs(programs: Iterable[tuple[str, str]], scenario: _core.Resolved) -> list[tuple[str, str]]:
    """Hosts and their commands, if the hosts can run them."""
    pairs = list(programs)
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not all(isinstance(one, str) for one in pair):
            raise TypeError(f'programs: {pair!r} is no host and its command, such as ("host3", "iperf3 -s")')
    if pairs and not scenario.has_kernel:
        host, command = pairs[0]
        raise _core.InputError(
            f'--exec {host}={command}: programs run on hosts with a kernel only: set host.stack = "kernel"'
        )
    return [(host, command) for host, command in pairs]


def key_of(scenario: _core.Resolved, kernel: str | None, programs: Sequence[tuple[str, str]]) -> str:
    """The digest of all inputs of a run; `kernel` is the folder of its Linux kernel."""
    more = [(Path(kernel) / "kernel.json").read_text(encoding="utf-8")] if kernel is not None else []
    return run_key(scenario.toml, scenario.seed, *more, *("=".join(program) for program in programs))


def kernel_for(scenario: _core.Resolved, kernel: str | Path | None) -> str | None:
    """The folder of the kernel that a scenario needs; None if it needs none."""
    if not scenario.has_kernel:
        if kernel is not None:
            write_note(f'{kernel} is not used: no host of this scenario has a kernel (host.stack = "kernel")')
        return None
    from pauseframe.kernel import find

    return str(find(kernel))


def resolve(
    scenario: Scenario | _core.Resolved | str | Path,
    *,
    seed: int | None = None,
    set: Mapping[str, Any] | None = None,
    plugins: Plugins = (),
) -> _core.Resolved:
    """Converts any input of `run` to a complete scenario."""
    if plugins:
        load_for(scenario, plugins)
    if isinstance(scenario, _core.Resolved) and seed is None and not set:
        return scenario
    text, base_dir, name = source_of(scenario)
    return resolve_changed(text, base_dir=base_dir, file_name=name, set=set, seed=seed)


def errors_of_plugins(scenario: _core.Resolved) -> AbstractContextManager[None]:
    """A context in which exceptions of plug-ins are added to the error of the run."""
    if not scenario.has_plugins:
        return nullcontext()
    from pauseframe.plugins.errors import plugin_errors

    return plugin_errors()


def load_for(scenario: Scenario | _core.Resolved | str | Path, plugins: Plugins) -> None:
    """Loads `plugins`; True loads the plug-ins that the scenario names."""
    from pauseframe.plugins.load import files_of, load

    text, base_dir, _ = source_of(scenario)
    load(files_of(text) if isinstance(plugins, bool) else plugins, base_dir)


def automatic_display(scenario: _core.Resolved) -> Display | None:
    """A progress bar in a notebook or terminal; otherwise nothing."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None and hasattr(shell, "kernel"):
        from pauseframe.terminal.progress import NotebookDisplay

        return NotebookDisplay(scenario.name)
    if shows_errors_on_terminal():
        from pauseframe.terminal.progress import LateDisplay

        return LateDisplay(scenario.name)
    return None
