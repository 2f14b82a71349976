"""Makes the small reference data in `recorded/` from the raw folder of reference runs.

    python validation/linux/digest.py --from DIR [--held-out]

Only the owner of the raw runs calls this script, once; all other scripts need only `recorded/`. The raw runs come from
Linux 6.1.192 as user-mode Linux in virtual time (HZ 1000), with the topology of docs/validation/linux.md.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import figures
import ours
import polars as pl
import verdict
from figures import LINES, Recording

HERE = Path(__file__).parent
REFERENCE = HERE / "recorded"
POINTS = 600
CAPTURED = {
    "b_long2_dctcp_rtt600": {"run p50": 6.0, "run p95": 20.0},
    "b_long2_dctcp_rtt600_tso": {"run p50": 22.0, "run p95": 44.0},
}
"""Lengths of bursts (consecutive packets of one flow), from captures at the receiver that the folder does not hold."""


def table(folder: Path, name: str, kind: str) -> pl.DataFrame | None:
    """Reads NAME.KIND.csv, compressed or not."""
    found = sorted(folder.glob(f"{name}.{kind}.csv*"))
    return pl.read_csv(found[0], infer_schema_length=None) if found else None


def recording(folder: Path, name: str) -> Recording:
    """A reference run in the common form of `figures.py`."""
    parts = []
    counts: dict[str, float] = {}
    sent = marked = 0.0
    if (rate := table(folder, name, "rate")) is not None:
        parts.append(line("rate", rate, "mbps"))
        sent = float(rate.group_by("flow").agg(pl.col("bytes_received").max())["bytes_received"].sum()) / 1448
    if (queue := table(folder, name, "queue")) is not None:
        parts.append(line("queue", queue.with_columns(flow=pl.lit(0)), "qlen_pkts"))
        counts["drops total"] = float(queue["drops"][-1])
        marked = float(queue["marked"][-1])
    if (flows := table(folder, name, "flows")) is not None:
        parts.append(line("cwnd", flows, "cwnd"))
        parts.append(line("alpha", flows.filter(pl.col("dctcp_alpha") >= 0), "dctcp_alpha"))
    responses = table(folder, name, "rr")
    if responses is not None:
        sent += responses.height * math.ceil(20_000 / 1448)
    if marked:
        counts["marked fraction"] = marked / sent
    fct = table(folder, name, "fct")
    incast = table(folder, name, "incast")
    if incast is not None:
        incast = incast.rename({"retransmitted_segs": "retransmits"}).select(
            "senders", "bytes_each", "rep", "completion_us", "timeouts", "retransmits", "loss_probes"
        )
    return Recording(
        lines=pl.concat(parts) if parts else pl.DataFrame(schema=LINES),
        responses=None if responses is None else responses.select("completion_us"),
        fct=None if fct is None else fct.group_by("bytes", maintain_order=True).agg(pl.col("fct_us").median()),
        incast=incast,
        counts=counts,
    )


def line(metric: str, rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """The values of one metric in long form."""
    return rows.select(
        pl.lit(metric).alias("metric"),
        pl.col("flow").cast(pl.Int64),
        pl.col("t_us").cast(pl.Float64),
        pl.col(column).cast(pl.Float64).alias("value"),
    )


def rounded(value: float) -> float:
    """Rounds to six significant digits."""
    return float(f"{value:.6g}")


def held_out(folder: Path) -> None:
    """Writes the figures of the held-out scenarios from DIR/SEED/NAME.json; figures without a value have no row."""
    rows = [
        (path.stem, figure, int(path.parent.name), rounded(value))
        for path in sorted(folder.glob("*/*.json"), key=lambda path: (path.stem, int(path.parent.name)))
        if path.stem in ours.held_out()
        for figure, value in figures.figures(path.stem, recording(path.parent, path.stem)).items()
        if not math.isnan(value)
    ]
    schema = ["scenario", "figure", "seed", "kernel"]
    pl.DataFrame(rows, schema=schema, orient="row").write_csv(verdict.HELD_OUT)


def main() -> None:
    """Converts every NAME.json of the raw folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="folder", type=Path, required=True)
    parser.add_argument("--held-out", action="store_true", help="DIR has one folder for each seed")
    options = parser.parse_args()
    folder: Path = options.folder
    if options.held_out:
        held_out(folder)
        return
    REFERENCE.mkdir(exist_ok=True)
    figure_rows: list[tuple[str, str, float, float | None, float | None]] = []
    known = {path.stem for path in (HERE / "scenarios").glob("*.toml")}
    cdfs: list[tuple[str, int, float | None]] = []
    lines: list[pl.DataFrame] = []
    responses: list[pl.DataFrame] = []
    fcts: list[pl.DataFrame] = []
    incasts: list[pl.DataFrame] = []
    for path in sorted(folder.glob("*.json")):
        name = path.stem
        if name.split("_rto")[0] not in known and name not in known:
            continue
        settings = json.loads(path.read_text())
        run = recording(folder, name)
        own = figures.noise(name, run)
        for figure, value in (figures.figures(name, run) | CAPTURED.get(name, {})).items():
            low, high = own.get(figure, (None, None))
            figure_rows.append((name, figure, rounded(value), low and rounded(low), high and rounded(high)))
        label = pl.lit(name).alias("scenario")
        if run.lines.height:
            step = max(float(settings["summary"].get("from_us", 0)), float(run.lines["t_us"].max() or 0)) / POINTS  # type: ignore[arg-type]
            few = run.lines.filter((pl.col("metric") != "cwnd") | (pl.col("flow") <= 2))
            lines.append(figures.thin(few, math.ceil(step)).with_columns(label))
            queue = figures.within(run.lines, "queue", figures.steady(name))
            cdfs += [(name, percent, queue.quantile(percent / 100)) for percent in range(101)]
        for frame, into in ((run.responses, responses), (run.fct, fcts), (run.incast, incasts)):
            if frame is not None:
                into.append(frame.with_columns(label))
    pl.DataFrame(figure_rows, schema=["scenario", "figure", "kernel", "low", "high"], orient="row").write_csv(
        REFERENCE / "figures.csv"
    )
    pl.DataFrame(cdfs, schema=["scenario", "percent", "packets"], orient="row").write_csv(REFERENCE / "queue_cdf.csv")
    pl.concat(responses).write_csv(REFERENCE / "responses.csv")
    pl.concat(fcts).write_csv(REFERENCE / "fct.csv")
    pl.concat(incasts).write_csv(REFERENCE / "incast.csv")
    shrunk = pl.concat(lines).with_columns(pl.col("t_us", "value").cast(pl.Float32), pl.col("flow").cast(pl.Int8))
    shrunk.write_parquet(REFERENCE / "lines.parquet", compression="zstd", compression_level=19)


if __name__ == "__main__":
    main()
