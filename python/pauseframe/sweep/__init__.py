"""Sweeps: the axes (spec), the runs (plan), their computation (run), and their tables."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from distributed import Client

    from pauseframe._core import Resolved
    from pauseframe.run import Plugins
    from pauseframe.scenario.document import Scenario
    from pauseframe.sweep.results import Sweep
    from pauseframe.sweep.spec import Values


def sweep(
    scenario: Scenario | Resolved | str | Path,
    *,
    axes: Mapping[str, Values] | None = None,
    seeds: int | Sequence[int] | None = None,
    zip: Sequence[Sequence[str]] | None = None,
    exclude: Sequence[Mapping[str, Any]] | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    store: str | Path | None = None,
    resume: bool = True,
    jobs: int | None = None,
    on: str | Client | None = None,
    shard: tuple[int, int] | None = None,
    keep_runs: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
    plugins: Plugins = (),
) -> Sweep:
    """Runs a scenario for all combinations of `axes`, each for all `seeds`, and returns the tables of all runs.

    `scenario` is as for `pauseframe.run`; a `[sweep]` table in a file is equivalent to the arguments, which take
    precedence. `axes` maps paths of keys to lists of values or `{"from": 0.1, "to": 0.9, "steps": 9}`; `zip` names axes
    that vary together, `exclude` combinations to skip. Runs are stored in the folder `out`, many
    per file (results/NAME-sweep, or a numbered one if that has another sweep); with `keep_runs`, each run has a results
    folder instead.

    Existing runs are reused, also those of other sweeps with the same `store` (a folder beside `out`); `resume=False`
    rejects a folder that contains a sweep. `jobs` runs are computed at a time (at most one per core), on `threads`
    threads each (one); `on` is the address of a Dask scheduler or a `distributed.Client`. `shard=(i, n)` computes every
    n-th run, starting with the i-th. `plugins` are as for `pauseframe.run`; workers receive their files.

    Failed runs are listed in `Sweep.failures` and do not stop the others. Ctrl-C raises KeyboardInterrupt; finished
    runs are kept. Raises ScenarioError with every mistake in any combination before the first run, RunError if the
    sweep failed.

    >>> import pauseframe as pf
    >>> pf.sweep("load.toml", axes={"transport.preset": ["dctcp", "tcp_bolt"]}, seeds=10)  # doctest: +SKIP
    """
    from collections.abc import Iterator, Set

    from pauseframe.sweep.plan import Source
    from pauseframe.sweep.run import carry_out

    if plugins:
        from pauseframe.run import load_for

        load_for(scenario, plugins)
    source = Source.read(scenario)
    source.set(set or {})
    listed = list(seeds) if isinstance(seeds, Set | Iterator) else seeds
    source.vary(axes, seeds=listed, zip=zip, exclude=exclude)
    return carry_out(
        source.plan(),
        out=out,
        store=store,
        resume=resume,
        jobs=jobs,
        on=on,
        shard=shard,
        keep_runs=keep_runs,
        threads=threads,
        progress=progress,
    )
