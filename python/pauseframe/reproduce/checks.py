"""Checks of experiments across their tables: names of metrics, variants, experiments, and the scenario's file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.reproduce import why
from pauseframe.reproduce.parts import variants_named
from pauseframe.terminal.problems import problem
from pauseframe.terminal.text import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pauseframe.reproduce.spec import Experiment, Figure
    from pauseframe.types import Problem


def contradictions(experiment: Experiment) -> list[Problem]:
    """Checks across tables: names of metrics and variants, the scenario's file."""
    spec, found = experiment.spec, []
    if bool(spec.scenario) == bool(spec.function):
        found.append(problem("scenario", spec.scenario, "name either a scenario file or a function"))
    elif spec.scenario and not experiment.scenario.is_file():
        found.append(problem("scenario", spec.scenario, "does not exist"))
    if spec.function:
        return found  # a joint scan takes metrics and variants from other experiments
    for index, claim in enumerate(spec.claims):
        for number, part in enumerate(claim.parts):
            path = f"claims.{index}.parts.{number}"
            found += unknown(f"{path}.metric", part.metric, spec.metrics)
            for name in dict.fromkeys(variants_named(part)):
                found += unknown(f"{path}.variant", name, spec.variants)
        found += _misnamed(f"claims.{index}.why", claim.why, spec)
    for index, plot in enumerate(spec.plots):
        found += unknown(f"plots.{index}.metric", plot.metric, spec.metrics)
        for name in [*plot.variants, *([plot.over] if plot.over else [])]:
            found += unknown(f"plots.{index}.variants", name, spec.variants)
    return found


def _misnamed(path: str, text: str, spec: Figure) -> list[Problem]:
    """Placeholders in a text that name no result."""
    found = []
    for name in why.names(text):
        metric, _, rest = name.partition("|")
        variant = rest.partition("|")[0]
        if why.PART.fullmatch(name):
            continue
        if metric not in spec.metrics:
            found.append(_hint(path, name, "names no metric", metric, spec.metrics))
        elif variant not in spec.variants:
            found.append(_hint(path, name, "names no variant", variant, spec.variants))
    return found


def _hint(path: str, name: str, message: str, wrong: str, known: Mapping[str, object]) -> Problem:
    meant = nearest(wrong, known)
    return problem(path, name, message, f"did you mean {' or '.join(meant)}?" if meant else "")


def unknown(path: str, name: str, known: Mapping[str, object]) -> list[Problem]:
    """The problem of a name that is not among the known ones; empty if it is."""
    if name in known:
        return []
    return [_hint(path, name, f"is not one of {', '.join(known)}", name, known)]


def unsearchable(experiments: Sequence[Experiment]) -> list[Problem]:
    """Keys of a search that reach no experiment."""
    wrong = []
    for about in dict.fromkeys(one.source.parent / "paper.toml" for one in experiments):
        mine = {one.name: one for one in experiments if one.source.parent == about.parent}
        for index, row in enumerate(next(iter(mine.values())).paper.search):
            for name in row.experiments:
                wrong += [entry | {"place": str(about)} for entry in unknown(f"search.{index}.experiments", name, mine)]
    return wrong
