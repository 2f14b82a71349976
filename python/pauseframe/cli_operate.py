"""The commands `lint`, `deploy` and `headroom`: from and to real devices.

Exit codes of `lint` are those of ruff: 0 nothing found, 1 findings, 2 what was given cannot be read.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class Output(StrEnum):
    """Forms of findings."""

    text = "text"
    json = "json"
    sarif = "sarif"
    github = "github"


class Target(StrEnum):
    """What a plan is written for."""

    sonic = "sonic"
    linux = "linux"


class Vendor(StrEnum):
    """Whose formula."""

    general = "general"
    mellanox = "mellanox"


class HostProfile(StrEnum):
    """What the hosts run."""

    tcp_bolt = "tcp_bolt"
    dctcp_plus = "dctcp_plus"
    dctcp = "dctcp"


def lint(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="Device files, or folders of them.")
    ] = None,
    topology: Annotated[
        Path | None, typer.Option("--topology", help="Wiring: a topology file with the ports of both ends.")
    ] = None,
    select: Annotated[str, typer.Option("--select", metavar="CODES", help="Only these rules: PF01,PF060.")] = "",
    ignore: Annotated[str, typer.Option("--ignore", metavar="CODES", help="Without these rules.")] = "",
    explain: Annotated[str | None, typer.Option("--explain", metavar="CODE", help="Show the page of a rule.")] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules.")] = False,
    output: Annotated[Output, typer.Option("--output-format", help="How to print.")] = Output.text,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --output-format json.")] = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Print a JSON patch for each CONFIG_DB instead; writes nothing.")
    ] = False,
    prove: Annotated[bool, typer.Option("--prove", help="Simulate what the findings lead to.")] = False,
    proofs: Annotated[Path, typer.Option("--proofs", help="Folder for the scenarios of --prove.")] = Path(
        "lint-proofs"
    ),
    yang: Annotated[
        Path | None, typer.Option("--yang", metavar="DIR", help="Also validate with yanglint against these models.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option("--export", metavar="DIR", help="Write static forwarding rows as tables for `route check`."),
    ] = None,
    scenario: Annotated[
        Path | None, typer.Option("--scenario", metavar="FILE", help="Write a scenario of the fabric, to be simulated.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Findings alone: no notes, no summary.")] = False,
) -> None:
    """Judge what is deployed: every device at once, schema and meaning, both ends of links, deadlock."""
    from pauseframe.devices.read import DeviceFileError
    from pauseframe.lint import engine
    from pauseframe.lint.output import as_patch, dump
    from pauseframe.lint.output import explain as page

    if rules:
        for rule in engine.rules().values():
            _print(f"{rule.code}  {rule.severity:8} {rule.name:30} {rule.summary}")
        return
    try:
        if explain is not None:
            _print(page(explain.upper()))
            return
        if not paths:
            raise typer.BadParameter("give device files or folders of them", param_hint="PATH")
        report = engine.lint(paths, topology=topology, select=_codes(select), ignore=_codes(ignore))
        _write_files(report, export, scenario)
    except (DeviceFileError, ValueError) as error:
        _complain(str(error))
        raise typer.Exit(2) from None
    if fix:
        _print(dump(as_patch(report)))
    else:
        _show(report, Output.json if as_json else output, quiet)
    trouble = _validate(yang, report) if yang is not None else False
    if prove:
        _prove(report, proofs)
    if report.findings or trouble:
        raise typer.Exit(1)


def _codes(text: str) -> list[str]:
    return [part.strip().upper() for part in text.split(",") if part.strip()]


def _show(report: Any, form: Output, quiet: bool) -> None:
    from pauseframe.devices.files import shown
    from pauseframe.lint import output

    if form is Output.json:
        _print(output.dump(output.as_json(report)))
    elif form is Output.sarif:
        _print(output.dump(output.as_sarif(report)))
    elif form is Output.github:
        for line in output.as_github(report):
            _print(line)
    else:
        for line in output.as_text(report):
            _print(line)
        if not quiet:
            for note in report.reading.fabric.notes:
                _complain(f"note: {shown(note)}")
            _print(output.summary(report))


def _write_files(report: Any, tables: Path | None, scenario: Path | None) -> None:
    """What --export and --scenario ask for."""
    if tables is not None:
        from pauseframe.lint.export import export

        rows = export(report.reading, tables)
        _complain(f"{rows} rows; next: pauseframe route check {tables}/topology.graphml {tables}/tables.json")
    if scenario is not None:
        _save_scenario(report, scenario)


def _save_scenario(report: Any, file: Path) -> None:
    from pauseframe.devices.simulate import scenario_of

    if file.exists():
        raise ValueError(f"{file} exists: name another file")
    file.write_text(scenario_of(report.reading.fabric), encoding="utf-8")
    _complain(f"scenario: pauseframe run {file}")


def _prove(report: Any, folder: Path) -> None:
    from pauseframe.devices.files import shown
    from pauseframe.lint.prove import prove

    proofs = prove(report.findings, folder)
    for proof in proofs:
        what = proof.shown or "not shown by this scenario"
        _complain(f"proof: {proof.code} {shown(proof.place)}: {what}: pauseframe run {proof.file}")
    if not proofs:
        _complain("proof: none of the findings has a scenario that shows its consequence")


def _validate(models: Path, report: Any) -> bool:
    from pauseframe.lint.yang import validate

    lines, failed = validate(models, report.reading)
    for line in lines:
        _complain(line)
    return failed


def headroom(
    rate: Annotated[str, typer.Option("--rate", help="Of the link: 100G, 25000M, 100 Gbps.")],
    cable: Annotated[str, typer.Option("--cable", help="Its length: 40m.")],
    mtu: Annotated[int, typer.Option("--mtu", min=68, max=9216, help="Of the port, bytes.")] = 9100,
    lossless_mtu: Annotated[
        int | None,
        typer.Option(
            "--lossless-mtu", min=1, max=9216, help="Largest lossless packet [default: the MTU; mellanox: 1024]."
        ),
    ] = None,
    vendor: Annotated[
        Vendor, typer.Option("--vendor", help="802.1Qbb Annex O, or NVIDIA's formula in SONiC.")
    ] = Vendor.general,
    cell: Annotated[int, typer.Option("--cell", min=1, max=4096, help="mellanox: bytes of a buffer cell.")] = 144,
    small_packets: Annotated[
        int, typer.Option("--small-packets", min=0, max=100, help="mellanox: percentage of 64-byte packets.")
    ] = 100,
    mac_phy: Annotated[float, typer.Option("--mac-phy", min=0, help="mellanox: KiB in MAC and PHY.")] = 0.8,
    gearbox: Annotated[float, typer.Option("--gearbox", min=0, help="mellanox: ns in a gearbox.")] = 0.0,
    generation: Annotated[int, typer.Option("--spectrum", min=1, max=6, help="mellanox: generation of Spectrum.")] = 3,
    lanes: Annotated[int, typer.Option("--lanes", min=1, max=16, help="mellanox: lanes of the port.")] = 4,
    shared: Annotated[bool, typer.Option("--shared/--own", help="mellanox: a shared headroom pool is in use.")] = True,
    revision: Annotated[int, typer.Option("--revision", help="mellanox: formula of 2024 on, or of 2021.")] = 2024,
    lossless: Annotated[
        int, typer.Option("--classes", min=1, max=8, help="general: lossless classes of the port.")
    ] = 1,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw it among what platforms ship: .svg or .html.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout and nothing else.")] = False,
) -> None:
    """How much headroom a lossless link needs: each term, and where the result lies among shipped values."""
    from pauseframe import calculator

    if revision not in {2021, 2024}:
        raise typer.BadParameter("2021 or 2024", param_hint="--revision")
    try:
        speed, metres = calculator.parse_rate(rate), calculator.parse_length(cable)
        result = calculator.calculate(
            speed, metres, mtu=mtu, lossless_mtu=lossless_mtu, vendor=vendor.value, cell=cell,
            small_packets=small_packets, mac_phy=mac_phy, gearbox=gearbox, generation=generation, lanes=lanes,
            shared=shared, revision=revision, classes=lossless,
        )  # fmt: skip
        if plot is not None:
            calculator.draw(result, plot)
    except ValueError as error:
        _complain(f"error: {error}")
        raise typer.Exit(2) from None
    _print(calculator.as_json(result) if as_json else calculator.as_text(result))


def deploy(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="Folder of `pauseframe route plan`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the files of all devices.")],
    target: Annotated[Target, typer.Option("--target", help="What the switches run.")] = Target.sonic,
    hosts: Annotated[HostProfile, typer.Option("--hosts", help="What the hosts run.")] = HostProfile.tcp_bolt,
    inventory: Annotated[
        Path | None, typer.Option("--inventory", help="CSV: device,port,name,mac,address. Without it placeholders.")
    ] = None,
    priorities: Annotated[str, typer.Option("--priorities", help="Lossless priority of each lane.")] = "3,4",
    cable: Annotated[str, typer.Option("--cable", help="Length of cables.")] = "5m",
    mtu: Annotated[int, typer.Option("--mtu", min=576, max=9216, help="Of hosts; switches take 100 more.")] = 9000,
    buffer: Annotated[str, typer.Option("--buffer", help="Packet memory of a switch, such as 32 MB.")] = "32 MB",
    force: Annotated[bool, typer.Option("--force", help="Replace a folder that this command wrote.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout and nothing else.")] = False,
) -> None:
    """Write a plan of routes as files for switches and hosts, with an order of roll-out and the way back."""
    import json

    from pauseframe.calculator import parse_length, parse_size
    from pauseframe.deploy import Settings, write_deployment

    try:
        settings = Settings(
            target=target.value, hosts=hosts.value, priorities=tuple(_priority(p) for p in priorities.split(",")),
            cable=parse_length(cable), mtu=mtu, buffer=parse_size(buffer),
        )  # fmt: skip
        summary = write_deployment(plan, out, settings, inventory=inventory, force=force)
    except ValueError as error:
        _complain(f"error: {error}")
        raise typer.Exit(2) from None
    if as_json:
        _print(json.dumps(summary))
        return
    for note in summary["notes"]:
        _complain(f"note: {note}")
    _print(f"{summary['switches']} switches, {summary['hosts']} hosts, {summary['steps']} steps of roll-out in {out}")
    _print(f"next: pauseframe lint {out}; then read {out}/ROLLOUT.md")


def _priority(text: str) -> int:
    if text.strip() not in {"0", "1", "2", "3", "4", "5", "6", "7"}:
        raise ValueError(f"--priorities: {text!r} is no priority from 0 to 7")
    return int(text)


def add_to(app: typer.Typer) -> None:
    """Adds the commands to the program."""
    app.command(epilog="Examples: pauseframe lint configs/ | pauseframe lint --explain PF010 | "
                "pauseframe lint configs/ --prove | pauseframe lint configs/ --fix > patch.json")(lint)  # fmt: skip
    app.command(epilog="Example: pauseframe deploy plan/ --target sonic --inventory macs.csv -o rollout/")(deploy)
    app.command(epilog="Example: pauseframe headroom --rate 100G --cable 40m --mtu 9100 --cell 144 --vendor mellanox")(
        headroom
    )


def _print(text: str) -> None:
    sys.stdout.write(text.rstrip("\n") + "\n")


def _complain(text: str) -> None:
    sys.stderr.write(text + "\n")
