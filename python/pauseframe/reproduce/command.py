"""Output of the command `reproduce`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, get_args

from pauseframe._core import InputError
from pauseframe.files.atomic import write_text
from pauseframe.files.lock import locked
from pauseframe.reproduce import expected, kept, scan, search, turned
from pauseframe.reproduce.judge import VERDICTS, Verdict, tally
from pauseframe.reproduce.report import build_pages, provisional, save_plots
from pauseframe.reproduce.run import command_of, refuse_foreign, reproduce, seeds_of
from pauseframe.reproduce.spec import Size, find_experiments, select
from pauseframe.results.places import EXPERIMENTS
from pauseframe.terminal.text import format_number, print_table, terminal_table, wide_console

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe.reproduce.judge import Judgement
    from pauseframe.reproduce.run import Outcome, Record
    from pauseframe.reproduce.spec import Experiment, Settings

VERDICTS_FILE = "verdicts.json"
COLOURS = {"reproduced": "green", "shape only": "yellow", "differs": "red", "not run": "dim"}


def list_experiments(folder: Path | None, *, as_json: bool) -> None:
    """Lists all experiments with their claims."""
    experiments = find_experiments(folder)
    if as_json:
        _write_json(
            [
                {"experiment": one.id, "title": one.title, "claims": [c.id for c in one.spec.claims]}
                for one in experiments
            ]
        )
        return
    heads = ("experiment", "figure", "title", "claims")
    columns = [{"header": name, "overflow": "fold"} for name in heads]
    rows = [
        (one.id, one.spec.figure, one.title, " ".join(claim.id for claim in one.spec.claims)) for one in experiments
    ]
    print_table(terminal_table(*columns, rows=rows))


def run_reproduce(
    wanted: Sequence[str],
    folder: Path | None,
    out: Path,
    *,
    size: Size,
    seed: int,
    seeds: int | None,
    changes: Settings,
    kernel: Path | None,
    jobs: int | None,
    pdf: Path | None,
    as_json: bool,
    quiet: bool,
) -> list[Outcome]:
    """Runs experiments, prints one line per claim (or one JSON array), and writes `verdicts.json` into `out`.

    That file and the pages also have the experiments of earlier calls with the same options.
    """
    experiments = find_experiments(folder)
    chosen = _chosen(wanted, experiments)
    refuse_foreign(out)

    def command(one: Experiment) -> str:
        return command_of(one, size, seeds_of(one, size, seed, seeds), changes, kernel)

    with locked(out):
        outcomes = reproduce(
            chosen,
            out,
            size=size,
            seed=seed,
            seeds=seeds,
            changes=changes,
            kernel=kernel,
            jobs=jobs,
            progress=False if quiet else None,
        )
        everything = kept.merge(outcomes, out, experiments, command)
        write_text(out / VERDICTS_FILE, json.dumps(_records(everything), indent=1, allow_nan=False) + "\n")
        page = build_pages(everything, out)
    if pdf is not None:
        save_plots(outcomes, pdf)
    if as_json:
        _write_json(_records(outcomes))
    elif not quiet:
        _print(outcomes)
        wide_console().print(f"\nreport: {page}", highlight=False)
    return outcomes


def _chosen(wanted: Sequence[str], experiments: list[Experiment]) -> list[Experiment]:
    return list({one.id: one for name in wanted for one in select(experiments, name)}.values())


def _records(outcomes: Sequence[Outcome]) -> list[Record]:
    return [record for outcome in outcomes for record in outcome.records()]


def run_search(
    wanted: Sequence[str],
    folder: Path | None,
    out: Path,
    *,
    jobs: int | None,
    record: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Searches what papers leave open, and prints a line per claim; `record` keeps the results beside the papers.

    Raises InputError for anything but papers: the joint set belongs to a whole paper.
    """
    experiments = find_experiments(folder)
    papers = sorted({one.key for one in experiments if one.paper.search})
    chosen = papers if "all" in wanted else list(dict.fromkeys(wanted))
    if unknown := [name for name in chosen if name not in papers]:
        raise InputError(f"{', '.join(unknown)}: --search needs papers that declare keys: {', '.join(papers)}, or all")
    root = folder or EXPERIMENTS
    known = expected.read(root)
    reverse = turned.orders(experiments, known)
    bench = search.Bench(out, jobs, False if quiet else None)
    results = {}
    for name in chosen:
        mine = [one for one in experiments if one.key == name]
        results[name] = search.search(mine, reverse, bench)
        write_text(out / f"{name}-{search.NAME}", json.dumps(results[name], indent=1) + "\n")
        if record:
            search.write(root / name, results[name])
    if as_json:
        _write_json(results)
    elif not quiet:
        for name, found in results.items():
            _print_search(name, found, known)


def _print_search(paper: str, found: search.Searched, known: expected.Verdicts) -> None:
    heads = ("claim", "as stated", "points", "joint set, unseen seeds")
    rows = []
    for claim in dict.fromkeys(claim for point in found["points"] for claim in point["verdicts"]):
        held, points = search.share(found, claim)
        stated = known[claim]["quick"]["verdict"] if claim in known else "-"
        rows.append((claim, stated, f"{held} of {points}", found["joint"]["verdicts"].get(claim, "-")))
    console = wide_console()
    console.print(terminal_table(*({"header": name, "overflow": "fold"} for name in heads), rows=rows))
    for name, settings in found["joint"]["settings"].items():
        console.print(f"{paper}/{name}: {search.in_words(settings)}")
    held, points = search.turned_round(found)
    console.print(f"orders turned round: {held} of {points} hold with their own joint set")
    for point in found["missed"]:
        console.print(f"not searched, the processor time was used up: {point}")


def record_verdicts(outcomes: Sequence[Outcome], folder: Path | None) -> None:
    """Stores verdicts in the experiments' folder; if the reduced size equals the papers', for both sizes."""
    for outcome in outcomes:
        for size in get_args(Size) if outcome.experiment.has_one_size else (outcome.size,):
            expected.write(folder or EXPERIMENTS, outcome.judgements, size, outcome.told)
        if outcome.experiment.spec.stages and outcome.size == "full":
            scan.write(outcome.experiment.known_scan, outcome.scan)


def failures_of(outcomes: Sequence[Outcome]) -> list[str]:
    """A line for each run that failed, and for each experiment that cannot run."""
    return [f"{outcome.experiment.id}: failed: {failure}" for outcome in outcomes for failure in outcome.failures]


def unexpected(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """A line for each verdict that differs from the recorded one."""
    judgements = [judgement for outcome in outcomes for judgement in outcome.judgements]
    return expected.changes(expected.read(folder or EXPERIMENTS), judgements, outcomes[0].size)


def beside_simulated(outcomes: Sequence[Outcome], folder: Path | None) -> list[str]:
    """A line for each claim: its verdict with a kernel, and the recorded one of simulated hosts."""
    known = expected.read(folder or EXPERIMENTS)
    return [
        f"{judgement.claim.id}: {judgement.verdict} with the kernel; simulated hosts: {before}"
        for outcome in outcomes
        for judgement in outcome.judgements
        if (before := expected.stability(known, judgement.claim.id, outcome.size))
    ]


def _write_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


def _print(outcomes: Sequence[Outcome]) -> None:
    from rich.text import Text

    heads = {"claim": True, "experiment": False, "paper": False, "here": False, "verdict": True, "seeds": True}
    table = terminal_table(
        *({"header": name, "overflow": "fold", "no_wrap": no_wrap} for name, no_wrap in heads.items())
    )
    counts: dict[Verdict, int] = dict.fromkeys(VERDICTS, 0)
    for outcome in outcomes:
        for judgement in outcome.judgements:
            counts[judgement.verdict] += 1
            right, seeds = judgement.holds_in
            verdict = Text(judgement.verdict, COLOURS[judgement.verdict])
            shown = measured(judgement)
            table.add_row(
                judgement.claim.id, outcome.experiment.id, judgement.claim.claimed, shown, verdict, f"{right}/{seeds}"
            )
    print_table(table)
    wide_console().print(", ".join(tally(verdict, count) for verdict, count in counts.items() if count))
    if few := provisional(outcomes):
        wide_console().print(few)


def measured(judgement: Judgement) -> str:
    """The median of each part of a claim; of a part that was not run, also the reason."""
    texts = []
    for part in judgement.parts:
        value = format_number(part.median, 3) if part.values else part.note
        why = f" ({part.note.removeprefix('refused: ')})" if part.values and part.verdict == "not run" else ""
        texts.append(f"{part.part.title} = {value}{why}")
    return "; ".join(texts)
