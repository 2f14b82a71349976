"""Keeps the measured points of experiments beside their runs, so that later calls keep their claims in the pages.

`measured/PAPER/NAME.json` has what one experiment measured. Claims are judged again when the file is read. A folder has
verdicts of one set of options: those of other options are removed, with a note.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe.files.atomic import read_object, write_text
from pauseframe.reproduce import functions
from pauseframe.reproduce.judge import judge
from pauseframe.reproduce.points import Point
from pauseframe.reproduce.run import Outcome
from pauseframe.results.run_key import core_build
from pauseframe.terminal.standard import write_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence, Set

    from pauseframe.reproduce.spec import Experiment

FOLDER = "measured"


def merge(
    outcomes: Sequence[Outcome], out: Path, known: Iterable[Experiment], command_of: Callable[[Experiment], str]
) -> list[Outcome]:
    """Keeps the outcomes in the folder, and returns all outcomes that it has, in the order of the experiments.

    `command_of` gives the command that makes an experiment with the present options. Removes what another command made,
    and experiments that changed, and writes a note about them.
    """
    by_file = {_file(out, one): one for one in known}
    new = {_file(out, outcome.experiment): outcome for outcome in outcomes}
    earlier, gone = dict[Path, Outcome](), list[Path]()
    for file in sorted((out / FOLDER).glob("*/*.json")):
        experiment = by_file.get(file)
        one = None if experiment is None else _read(file, experiment, command_of(experiment))
        if one is not None:
            earlier[file] = one
        else:
            gone.append(file)
    for file, outcome in new.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, _text(outcome))
    found = [(earlier | new)[file] for file in by_file if file in earlier or file in new]
    _remove(gone, out, {outcome.experiment.key for outcome in found}, set(new))
    return found


def _remove(gone: Sequence[Path], out: Path, papers: Set[str], written: Set[Path]) -> None:
    """Removes what was measured otherwise, unless it was `written` just now, and pages of papers with nothing else."""
    for file in gone:
        if file not in written:
            file.unlink()
        if file.parent.name not in papers:
            (out / f"{file.parent.name}.html").unlink(missing_ok=True)
    if gone:
        names = ", ".join(f"{file.parent.name}/{file.stem}" for file in gone)
        write_note(
            f"note: {out} had verdicts of {names} that are damaged, or of other options, another version or other "
            "files: they are replaced, and their runs are kept; another --out keeps both"
        )


def _file(out: Path, experiment: Experiment) -> Path:
    return out / FOLDER / experiment.key / f"{experiment.name}.json"


def _text(outcome: Outcome) -> str:
    table = {
        "seeds": outcome.seeds,
        "points": [vars(point) | {"at": dict(point.at), "axes": dict(point.axes)} for point in outcome.points],
        "failures": outcome.failures,
        "told": outcome.told,
        "scan": outcome.scan,
        "changes": outcome.changes,
        "size": outcome.size,
        "command": outcome.command,
    }
    return json.dumps({"seal": _seal(outcome.experiment, outcome.command, table), "outcome": table}) + "\n"


def _read(file: Path, experiment: Experiment, command: str) -> Outcome | None:
    """An earlier outcome of a command; None if its file is damaged, or the command or the experiment is another one."""
    there = read_object(file) or {}
    table: Any = there.get("outcome")
    if there.get("seal") != _seal(experiment, command, table):
        return None
    points = [Point(**point) for point in table.pop("points")]
    claims = [] if experiment.spec.stages else experiment.spec.claims
    return Outcome(experiment, points=points, judgements=[judge(one, points) for one in claims], **table)


def _seal(experiment: Experiment, command: str, table: object) -> str:
    """A digest of an outcome and of everything that decides it."""
    texts = [core_build(), command, experiment.spec.model_dump_json(), json.dumps(table)]
    texts += [one.model_dump_json() for one in experiment.scored]
    name = experiment.spec.function
    texts.append(functions.source(name) if name else experiment.scenario.read_text(encoding="utf-8"))
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()
