"""Records the decisive runs for `pauseframe view`: the recommended setting and its alternatives."""

from __future__ import annotations

import shlex
import shutil
import statistics
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pauseframe.tune.finals import KEPT
from pauseframe.tune.trials import per_seed

if TYPE_CHECKING:
    from pathlib import Path

    from pauseframe.tune.answer import Answer, Judged
    from pauseframe.tune.study import Study

FOLDER = "decisive"
STEPS = 2000
"""Number of samples in the log of states of a recorded run."""
LARGEST = 30_000_000
"""Maximum size of a player's page in bytes; a larger page is not written automatically."""


def record_decisive(study: Study, answer: Answer, folder: Path) -> list[dict[str, Any]]:
    """Runs the recommended, the default and the next best setting again with `record.states`; returns their folders.

    The seed is the held-out seed for which the recommended setting is closest to its median.
    """
    if answer.recommended is None:
        return []
    seed = _typical_seed(study, answer)
    default = next((one for one in answer.references if one.name == "default" and not one.setting.refused), None)
    kept = not answer.recommended.setting.changes
    why = "the scenario as it stands, which is recommended" if kept else "the recommended setting"
    wanted = [(answer.recommended, why), (None if kept else default, "the scenario as it stands")]
    wanted.append((answer.runner_up, "the next best setting of the search"))
    return [_record(study, one, why, seed, folder) for one, why in wanted if one is not None]


def _typical_seed(study: Study, answer: Answer) -> int:
    assert answer.recommended is not None
    values = per_seed(answer.recommended.setting, study.spec.objectives[0], answer.scale, study.spec)
    mine = {seed: values[seed] for seed in answer.seeds["held_out"]}
    middle = statistics.median(mine.values())
    return min(mine, key=lambda seed: (abs(mine[seed] - middle), seed))


def _record(study: Study, one: Judged, why: str, seed: int, folder: Path) -> dict[str, Any]:
    from pauseframe.run import run
    from pauseframe.view import build_view, from_folder

    situation = study.spec.situations[0]
    changes = one.setting.changes | situation.changes
    name = one.name.removesuffix(KEPT)
    target = folder / FOLDER / name
    shutil.rmtree(target, ignore_errors=True)
    every_us = max(1, round(one.setting.sim_time_s * 1e6 / STEPS))
    resolved = study.source.resolve_with(changes | {"record.states": {"every": f"{every_us} us"}}, seed=seed)
    run(resolved, out=target, progress=False, threads=1)
    page = build_view([from_folder(target)], target / "view.html")
    if page.stat().st_size > LARGEST:
        page.unlink()
    entry = {"name": one.name, "why": why, "scenario": situation.name, "seed": seed, "folder": str(target)}
    link = quote(f"{FOLDER}/{name}/view.html") if page.exists() else ""
    return entry | {"command": f"pauseframe view {shlex.quote(str(target))} --open", "page": link}
