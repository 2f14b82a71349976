"""The command `busbw`: the table of nccl-tests for a fabric."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from pauseframe.cli._common import (
    AsJson,
    Force,
    Quiet,
    Set,
    Threads,
    out_option,
    pairs_of,
    print_json,
    refuse_existing,
    say,
)
from pauseframe.cli._options import PlainTyper

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pauseframe.busbw import Measured, Row

commands = PlainTyper()

Name = Literal["all_reduce", "all_gather", "reduce_scatter", "alltoall"]
LARGEST = 1 << 40
"""Largest size in bytes."""
UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


def _size(text: str, option: str) -> int:
    """A size as nccl-tests takes it: 8, 1K, 64M, 1G; K is 1,024."""
    found = re.fullmatch(r"([0-9]{1,13})([KMG]?)(?:i?B)?", text, re.IGNORECASE)
    size = int(found[1]) << UNITS[found[2].upper()] if found else 0
    if not 0 < size <= LARGEST:
        raise typer.BadParameter(
            f"{text!r} is not a size such as 8, 64K, 1M or 1G (powers of 1,024)", param_hint=option
        )
    return size


@commands.command(
    epilog="Examples: pauseframe busbw --gpus 8 --rate 400Gbps -b 1M -e 64M | "
    "pauseframe busbw fabric.toml --collective alltoall | pauseframe busbw fabric.toml --compare all_reduce_perf.txt"
)
def busbw(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Scenario file, whose workloads are not used.")
    ] = None,
    gpus: Annotated[
        int | None, typer.Option(min=2, max=65_536, help="Number of GPUs [default: all hosts of the scenario].")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="Without a scenario: rate of each GPU's NIC at one switch [default: 400Gbps].")
    ] = None,
    collective: Annotated[
        Name | None, typer.Option(help="Collective [default: that of --compare, else all_reduce].")
    ] = None,
    first: Annotated[
        str | None,
        typer.Option("--minbytes", "-b", metavar="SIZE", help="First size [default: 1K, or that of --compare]."),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option("--maxbytes", "-e", metavar="SIZE", help="Last size [default: 1G, or that of --compare]."),
    ] = None,
    factor: Annotated[
        int | None, typer.Option("--stepfactor", "-f", min=2, help="Factor between sizes [default: 2].")
    ] = None,
    iters: Annotated[int, typer.Option("--iters", "-n", min=1, max=10_000, help="Calls for each size.")] = 1,
    library: Annotated[
        Literal["nccl", "mpi"], typer.Option(help="Algorithms: NCCL's, or those of MPI by size.")
    ] = "nccl",
    compare: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Output of nccl-tests: simulate its sizes, show the difference.")
    ] = None,
    set_: Set = None,
    threads: Threads = None,
    out: Annotated[Path | None, out_option("Also write the rows: .csv, .json or .parquet.")] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Print nccl-tests' table for a fabric: time, algbw and busbw of a collective for each size.

    GB/s are 10^9 bytes, as in nccl-tests. Each size runs alone in the idle fabric. After Ctrl-C the rows so far remain.
    """
    from pauseframe.busbw import bench, measure, read_measured

    if out is not None:
        _check_out(out, force)
    measured = read_measured(compare, collective) if compare is not None else None
    name = _collective(collective, measured, compare)
    if measured is not None and file is None:
        gpus = gpus or measured.gpus
    fabric = bench(file, gpus=gpus, rate=rate, overrides=pairs_of(set_))
    if measured is not None and measured.gpus not in {None, fabric.gpus}:
        say(f"note: {compare} has {measured.gpus} ranks, and this fabric {fabric.gpus} GPUs")
    if measured is not None and factor is not None:
        raise typer.BadParameter(f"{compare} has the sizes: leave it out", param_hint="--stepfactor")
    sizes = _sizes(first or "1K", last or "1G", factor or 2) if measured is None else _within(measured, first, last)
    shows = not as_json and not quiet
    if shows:
        _print_heading(name, fabric.gpus, iters, library)
    found = measure(
        fabric, name, sizes, library=library, iterations=iters, threads=threads, warn=lambda it: say(f"warning: {it}")
    )
    rows = list(_printed(found, shows))
    if not rows:
        from pauseframe._core import InputError
        from pauseframe.busbw.measure import ALIGNED

        raise InputError(f"all sizes were left out: give sizes of at least {ALIGNED} B for each of {fabric.gpus} GPUs")
    if measured is None:
        records = [row.record() for row in rows]
    else:
        records = _compared(measured, rows, (name, fabric.gpus), shows)
    if as_json:
        print_json({"collective": name, "gpus": fabric.gpus, "library": library, "rows": records})
    if out is not None:
        _write(out, records, force=force)
        say(f"rows in {out}")


def _sizes(first: str, last: str, factor: int) -> list[int]:
    from pauseframe.busbw import sizes_between

    least, most = _size(first, "--minbytes"), _size(last, "--maxbytes")
    if most < least:
        raise typer.BadParameter(f"{last} is below --minbytes {first}", param_hint="--maxbytes")
    return sizes_between(least, most, factor)


def _within(measured: Measured, first: str | None, last: str | None) -> list[int]:
    """The measured sizes between two bounds."""
    least = _size(first, "--minbytes") if first else 0
    most = _size(last, "--maxbytes") if last else LARGEST
    if found := [size for size in sorted(measured.rows) if least <= size <= most]:
        return found
    raise typer.BadParameter(
        f"none of the measured sizes ({min(measured.rows)} to {max(measured.rows)} B) is within these bounds",
        param_hint="--minbytes, --maxbytes",
    )


def _collective(given: Name | None, measured: Measured | None, path: Path | None) -> Name:
    """The collective of the option, of the measured table, or an all-reduce."""
    found = measured.collective if measured is not None else None
    if found and given and found != given:
        raise typer.BadParameter(f"{path} has {found}", param_hint="--collective")
    return given or cast("Name", found or "all_reduce")


def _print_heading(name: Name, gpus: int, iters: int, library: str) -> None:
    from pauseframe.busbw import text

    algorithms = "NCCL's model" if library == "nccl" else "MPI's, by size"
    print(f"# {name}: {gpus} GPUs, calls for each size: {iters}, algorithms: {algorithms}\n#")
    print("\n".join(text.heading()), flush=True)


def _printed(rows: Iterable[Row], shows: bool) -> Iterator[Row]:
    """The rows, each printed as soon as it is known, and their mean."""
    from pauseframe.busbw import text

    seen = []
    for row in rows:
        seen.append(row)
        if shows:
            print(text.line(row), flush=True)
        yield row
    if shows and seen:
        print(text.average(seen))


def _compared(measured: Measured, rows: Sequence[Row], of: tuple[Name, int], shows: bool) -> list[dict[str, Any]]:
    """Measured beside simulated values of a collective of so many GPUs."""
    from pauseframe.busbw import compare, text

    found = compare(measured, rows, *of)
    if shows:
        print("\n".join(["#", *text.comparison(found)]))
    return [one.record() for one in found]


def _check_out(out: Path, force: bool) -> None:
    if out.suffix not in {".csv", ".json", ".parquet"}:
        raise typer.BadParameter(f"{out}: give a name that ends with .csv, .json or .parquet", param_hint="--out")
    refuse_existing(out, force)


def _write(out: Path, records: Sequence[dict[str, Any]], *, force: bool) -> None:
    import json
    from io import BytesIO

    import polars as pl

    from pauseframe.files.atomic import write_bytes

    frame = pl.DataFrame(records)
    if out.suffix == ".csv":
        content = frame.write_csv().encode()
    elif out.suffix == ".json":
        content = (json.dumps(records, indent=1) + "\n").encode()
    else:
        buffer = BytesIO()
        frame.write_parquet(buffer)
        content = buffer.getvalue()
    write_bytes(out, content, replace=force)
