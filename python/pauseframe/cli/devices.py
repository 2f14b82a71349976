"""The commands `lint`, `deploy` and `headroom`, which read and write files of real devices.

Exit codes of `lint` follow ruff: 0 for no finding, 1 for findings, 2 for input that cannot be read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pauseframe.cli import _complete
from pauseframe.cli._common import (
    AllowPlugins,
    AsJson,
    PluginFiles,
    Set,
    in_shell,
    out_option,
    print_json,
    print_table,
    resolve_file,
    say,
)
from pauseframe.cli._errors import NOT_DONE, wrong_values
from pauseframe.cli._options import PlainTyper

if TYPE_CHECKING:
    from pauseframe.deploy.plan import Settings
    from pauseframe.types import HeadroomRow

commands = PlainTyper()


Output = Literal["text", "json", "sarif", "github"]
"""Output formats of findings."""
MOST_NAMED = 20
"""Maximum number of findings without a patch that `--fix` names one by one."""
Target = Literal["sonic", "linux"]
Vendor = Literal["general", "mellanox"]
"""Vendors whose headroom formula is available."""
HostProfile = Literal["tcp_bolt", "dctcp_plus", "dctcp", "roce_dcqcn"]


@commands.command(
    epilog="Examples: pauseframe lint configs/ | pauseframe lint --explain PF010 | "
    "pauseframe lint rollout/ --design fabric.toml | pauseframe lint configs/ --prove | "
    "pauseframe lint configs/ --fix --write fixed/ > patch.json"
)
def lint(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH...", help="Device files, or folders of them.")
    ] = None,
    topology: Annotated[Path | None, typer.Option(help="Wiring: a topology file with the ports of both ends.")] = None,
    select: Annotated[
        str, typer.Option(metavar="CODES", help="Only these rules: PF01,PF060.", autocompletion=_complete.rules)
    ] = "",
    ignore: Annotated[
        str, typer.Option(metavar="CODES", help="All but these rules.", autocompletion=_complete.rules)
    ] = "",
    explain: Annotated[
        str | None, typer.Option(metavar="CODE", help="Show the page of a rule.", autocompletion=_complete.rules)
    ] = None,
    rules: Annotated[bool, typer.Option("--rules", help="List the rules.")] = False,
    output: Annotated[Output, typer.Option("--output-format", help="How to print.")] = "text",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --output-format json.")] = False,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Print a JSON patch for each CONFIG_DB in place of the findings; changes no file."),
    ] = False,
    write: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With --fix: write a patched copy of the files to a new folder.")
    ] = None,
    sonic_release: Annotated[
        str | None,
        typer.Option(
            "--sonic-release",
            metavar="RELEASE",
            help="Also check names, words and ranges of the models of 202311, 202405, 202411, 202505, 202511, 202605 "
            "or master.",
        ),
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Simulate each finding as it is and mended, and show what it costs.")
    ] = False,
    proofs: Annotated[Path, typer.Option(help="Folder for the scenarios of --prove.")] = Path("lint-proofs"),
    yang: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also validate with yanglint against these models.")
    ] = None,
    design: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Plan or scenario: find every value that differs from what deploy writes."),
    ] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write static forwarding rows as tables for `route check`.")
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print findings only, without notes and summary.")
    ] = False,
) -> None:
    """Check the configuration of switches and hosts.

    Checks all devices together: values, references, both ends of each link, headroom, deadlock.
    """
    from pauseframe.lint import engine
    from pauseframe.lint.design import read_design
    from pauseframe.lint.output import explain as page

    if rules:
        _list_rules(as_json)
        return
    with wrong_values():
        if explain is not None:
            print(page(explain.upper()))
            return
        named = _check_folders(paths, write if not fix else None, yang, proofs if prove else None)
        report = engine.lint(
            named,
            topology=topology,
            select=_codes(select),
            ignore=_codes(ignore),
            release=sonic_release,
            design=None if design is None else read_design(design, named, sonic_release),
        )
        if export is not None:
            _export(report, export)
        if fix:
            _fix(report, named, write)
    if not fix:
        _show(report, "json" if as_json else output, quiet)
    trouble = _validate(yang, report) if yang is not None else False
    if prove:
        _prove(report, proofs, as_text=output == "text" and not as_json)
    if report.findings or trouble:
        raise typer.Exit(NOT_DONE)


def _check_folders(paths: list[Path] | None, write: Path | None, yang: Path | None, proofs: Path | None) -> list[Path]:
    """The named device files; refuses folders that are missing or of no use before anything is checked."""
    from pauseframe.files.atomic import refuse_file

    if not paths:
        raise typer.BadParameter("give device files or folders of them", param_hint="PATH")
    if write is not None:
        raise typer.BadParameter("give --fix as well", param_hint="--write")
    if yang is not None and not yang.is_dir():
        raise typer.BadParameter(f"there is no folder {yang}: give the folder of sonic-*.yang", param_hint="--yang")
    if proofs is not None:
        refuse_file(proofs)
    return paths


def _list_rules(as_json: bool) -> None:
    from pauseframe.lint import engine

    known = engine.rules().values()
    if as_json:
        names = ("code", "severity", "name", "summary")
        rows = [{name: str(getattr(rule, name)) for name in names} | {"devices": [*rule.devices]} for rule in known]
        print_json(rows)
    else:
        from pauseframe.terminal.text import terminal_table

        columns = [{"no_wrap": True}] * 3
        lines = [(rule.code, rule.severity, rule.name, rule.summary) for rule in known]
        print_table(terminal_table(*columns, "", show_header=False, rows=lines))


def _codes(text: str) -> list[str]:
    return [part.strip().upper() for part in text.split(",") if part.strip()]


def _show(report: Any, form: Output, quiet: bool) -> None:
    from pauseframe.devices.files import shown
    from pauseframe.lint import output
    from pauseframe.terminal.text import shows_colours

    if form == "json":
        print(output.dump(output.as_json(report)))
    elif form == "sarif":
        print(output.dump(output.as_sarif(report)))
    elif form == "github":
        for line in output.as_github(report):
            print(line)
    else:
        for line in output.as_text(report, colour=shows_colours()):
            print(line)
        if not quiet:
            for note in report.reading.fabric.notes:
                say(f"note: {shown(note)}")
            print(output.summary(report))


def _export(report: Any, folder: Path) -> None:
    from pauseframe.lint.export import export
    from pauseframe.terminal.text import counted

    rows = counted(export(report.reading, folder), "row")
    graph, tables = in_shell(folder / "topology.graphml"), in_shell(folder / "tables.json")
    say(f"{rows}; next: pauseframe route check {graph} {tables}")


def _fix(report: Any, paths: list[Path], folder: Path | None) -> None:
    """Prints the patches, and names the findings that they leave or cause."""
    from pauseframe.devices.files import shown
    from pauseframe.lint.fix import fix
    from pauseframe.lint.output import dump
    from pauseframe.lint.patch import write_fixed

    fixed = fix(report)
    print(dump(fixed.patches))
    if folder is not None:
        for line in write_fixed(fixed, paths, folder):
            say(f"note: {line}")
        say(f"patched copy in {folder}; next: pauseframe lint {in_shell(folder)}")
    for finding in fixed.new:
        say(f"note: the patch causes {finding.code} at {shown(finding.place)}: {finding.message}")
    if fixed.after.findings:
        codes = ", ".join(sorted({finding.code for finding in fixed.after.findings}))
        say(f"note: findings that the patch leaves: {len(fixed.after.findings)}, mended: {fixed.mended}; {codes}")
        for finding in fixed.after.findings[:MOST_NAMED]:
            what = finding.instead or finding.message
            say(f"note: yours to decide: {finding.code} at {shown(finding.place)}: {what}")


def _prove(report: Any, folder: Path, *, as_text: bool) -> None:
    from pauseframe.lint.prove import AS_IS, MOST, PROOFS, prove
    from pauseframe.terminal.text import counted, terminal_table

    count = min(len(report.findings), MOST)
    done = 0
    for done, proof in enumerate(prove(report, folder), 1):
        if not as_text:
            say(f"proof {done} of {count}: {proof.code} {proof.place}")
            continue
        runs = f": pauseframe run {proof.folder / AS_IS}" if proof.folder else ""
        print(
            f"proof {done} of {count}: {proof.code} {proof.place}: {proof.why or 'as it is, and ' + proof.change}{runs}"
        )
        if proof.rows:
            rows = [(here.name, here.text, there.text) for here, there in proof.rows]
            print_table(terminal_table("", "as it is", "mended", rows=rows))
        if proof.price:
            print(proof.price)
        sys.stdout.flush()
    if len(report.findings) > MOST:
        say(f"note: findings that were not simulated: {len(report.findings) - MOST}; choose some with --select")
    say(f"proofs: {counted(done, 'finding')} in {folder / PROOFS}")


def _validate(models: Path, report: Any) -> bool:
    from pauseframe.lint.yang import validate

    lines, failed = validate(models, report.reading)
    for line in lines:
        say(line)
    return failed


@commands.command(
    epilog="Examples: pauseframe headroom --rate 100G --cable 40m --mtu 9100 --cell 144 --vendor mellanox | "
    "pauseframe headroom storm.toml --set topology.link.delay='2 us'"
)
def headroom(
    context: typer.Context,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="Scenario file: compute the headroom of each kind of link in it."),
    ] = None,
    set_: Set = None,
    rate: Annotated[str | None, typer.Option(help="Rate of the link: 100G, 25000M, 100 Gbps.")] = None,
    cable: Annotated[str | None, typer.Option(help="Length of the cable: 40m.")] = None,
    mtu: Annotated[int, typer.Option(min=68, max=9216, help="MTU of the port, bytes.")] = 9100,
    lossless_mtu: Annotated[
        int | None, typer.Option(min=1, max=9216, help="Largest lossless packet [default: the MTU; mellanox: 1024].")
    ] = None,
    vendor: Annotated[Vendor, typer.Option(help="802.1Qbb Annex O, or NVIDIA's formula in SONiC.")] = "general",
    cell: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="mellanox: bytes of a buffer cell [default: that of the generation]."),
    ] = None,
    small_packets: Annotated[int, typer.Option(min=0, max=100, help="mellanox: percentage of 64-byte packets.")] = 100,
    mac_phy: Annotated[float, typer.Option(min=0, help="mellanox: KiB in MAC and PHY.")] = 0.8,
    gearbox: Annotated[float, typer.Option(min=0, help="mellanox: ns in a gearbox.")] = 0.0,
    generation: Annotated[int, typer.Option("--spectrum", min=1, max=6, help="mellanox: Spectrum generation.")] = 3,
    lanes: Annotated[int, typer.Option(min=1, max=16, help="mellanox: SerDes lanes of the port.")] = 4,
    shared: Annotated[
        bool, typer.Option("--shared/--own", help="mellanox: headroom from a shared pool, or each port's own.")
    ] = True,
    revision: Annotated[int, typer.Option(help="mellanox: the formula of 2024, or that of 2021.")] = 2024,
    lossless: Annotated[
        int, typer.Option("--classes", min=1, max=8, help="general: lossless classes of the port.")
    ] = 1,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the result among the values that platforms ship with: .svg or .html.")
    ] = None,
    plugin: PluginFiles = None,
    allow_plugins: AllowPlugins = False,
    as_json: AsJson = False,
) -> None:
    """Compute the headroom that a lossless link needs.

    Prints each term, and the rank of the result among the values that platforms ship; for a scenario, prints the
    headroom of each kind of link.
    """
    from pauseframe.fabric import calculator

    if file is not None:
        if any(option is not None for option in (rate, cable, plot)):
            raise typer.BadParameter("--rate, --cable and --plot are for one link: leave the scenario file out")
        _show_headroom(file, resolve_file(file, set_, None, plugin, allow_plugins).headroom(), as_json)
        return
    if rate is None or cable is None or set_:
        raise typer.BadParameter("give --rate and --cable, or a scenario file")
    if vendor == "general" and (given := _of_mellanox(context)):
        raise typer.BadParameter("the formula of 802.1Qbb does not have it: add --vendor mellanox", param_hint=given)
    if revision not in {2021, 2024}:
        raise typer.BadParameter("2021 or 2024", param_hint="--revision")
    with wrong_values():
        speed, metres = calculator.parse_rate(rate, "--rate: "), calculator.parse_length(cable, "--cable: ")
        result = calculator.calculate(
            speed, metres, mtu=mtu, lossless_mtu=lossless_mtu, vendor=vendor, cell=cell,
            small_packets=small_packets, mac_phy=mac_phy, gearbox=gearbox, generation=generation, lanes=lanes,
            shared=shared, revision=revision, classes=lossless,
        )  # fmt: skip
        if plot is not None:
            calculator.draw(result, plot)
    print(calculator.as_json(result) if as_json else calculator.as_text(result))


def _of_mellanox(context: typer.Context) -> str | None:
    """The first option of the command line that only NVIDIA's formula has."""
    names = ("cell", "small_packets", "mac_phy", "gearbox", "generation", "lanes", "shared", "revision")
    options = {one.name: one.opts[0] for one in context.command.params}
    sources = {name: context.get_parameter_source(name) for name in names}
    return next((options[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"), None)


def _show_headroom(file: Path, rows: list[HeadroomRow], as_json: bool) -> None:
    if as_json:
        print_json(rows)
    elif rows:
        from pauseframe.terminal.text import headroom_table

        print_table(headroom_table(rows))
    else:
        say(f"{file} has no lossless class: switch.pfc is off, and no link needs headroom")


@commands.command(
    epilog="Examples: pauseframe deploy fabric.toml --inventory macs.csv -o rollout/ | "
    "pauseframe deploy plan/ --target linux --hosts dctcp_plus -o rollout/"
)
def deploy(
    source: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Scenario (.toml), or the folder that `pauseframe route plan` wrote."),
    ],
    out: Annotated[Path, out_option("Folder for the files of all devices.")],
    target: Annotated[Target, typer.Option(help="What the switches run; linux: for plans.")] = "sonic",
    hosts: Annotated[HostProfile | None, typer.Option(help="Plan: what the hosts run [default: tcp_bolt].")] = None,
    inventory: Annotated[
        list[Path] | None,
        typer.Option(
            help="CSV (device,mac,port,name,lanes), `lldpctl -f json0`, config_db.json (lanes), or a folder of "
            "these; without it there are placeholders."
        ),
    ] = None,
    priorities: Annotated[str | None, typer.Option(help="Plan: lossless priority of each lane [default: 3,4].")] = None,
    cable: Annotated[
        str | None, typer.Option(help="Length of the cables [default: 5m; scenario: by the delays of its links].")
    ] = None,
    mtu: Annotated[
        int | None,
        typer.Option(
            min=576, max=9216, help="Plan: MTU of the hosts, bytes [default: 9000]; that of the switches is 100 more."
        ),
    ] = None,
    buffer: Annotated[str | None, typer.Option(help="Plan: packet memory of a switch [default: 32 MB].")] = None,
    sonic_release: Annotated[
        str | None, typer.Option(help="SONiC image: 202311 to 202605, master, next [default: 202605].")
    ] = None,
    set_: Set = None,
    plugin: PluginFiles = None,
    allow_plugins: AllowPlugins = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a folder that this command wrote.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a scenario, or a plan of routes, into files for switches and hosts.

    Of a scenario, the classes of traffic decide the design, and each key without a counterpart on devices is listed.
    A plan becomes VLANs with static rows. Both have an order of roll-out with checks, and the way back.
    """
    from pauseframe.deploy.plan import NEWEST_RELEASE, SONIC_RELEASES, Settings
    from pauseframe.files.kinds import kind_of

    with wrong_values():
        release = NEWEST_RELEASE if sonic_release is None else sonic_release
        if release not in SONIC_RELEASES:
            raise ValueError(f"--sonic-release: {release!r} is not one of {', '.join(SONIC_RELEASES)}")
        if sonic_release is not None and target != "sonic":
            raise ValueError("--sonic-release is for --target sonic: leave one of them out")
        if not source.exists():
            raise ValueError(f"{source}: no such file or folder: give a scenario, or the folder of a route plan")
        settings = Settings(target=target, sonic_release=release)
        of_plan = {"--hosts": hosts, "--priorities": priorities, "--mtu": mtu, "--buffer": buffer}
        if source.is_file():
            kind = kind_of(source)
            if kind is not None and kind.name != "a scenario":
                raise ValueError(kind.message(source, "a scenario or the folder of a route plan"))
            if given := [name for name, value in of_plan.items() if value is not None]:
                raise ValueError(f"{given[0]} is for plans: the scenario sets it, and --set changes the scenario")
            resolved = resolve_file(source, set_, None, plugin, allow_plugins)
            _deploy_scenario(resolved, out, settings, cable, inventory or [], force, as_json)
            return
        if set_ or plugin or allow_plugins:
            raise ValueError(f"--set and --plugin are for scenarios: {source} is no file")
        _deploy_plan(source, out, settings, of_plan, cable, inventory or [], force, as_json)


def _deploy_scenario(
    resolved: Any, out: Path, settings: Settings, cable: str | None, inventory: list[Path], force: bool, as_json: bool
) -> None:
    from pauseframe.deploy.scenario import deploy_scenario
    from pauseframe.fabric.calculator import parse_length
    from pauseframe.terminal.text import counted

    metres = None if cable is None else parse_length(cable, "--cable: ")
    summary = deploy_scenario(resolved, out, settings, cable=metres, inventory=inventory, force=force)
    if as_json:
        print_json(summary)
        return
    for note in summary["notes"]:
        say(f"note: {note}")
    for key in summary["unwritten"]:
        value = f" = {key['value']}" if key["value"] else ""
        print(f"not written: {key['key']}{value}: {key['why']}")
    for one in summary["classes"]:
        kind = "lossless" if one["lossless"] else "lossy"
        marks = "ECN-capable" if one["ecn"] else "without ECN"
        print(f"class: {one['transport']}: DSCP {one['dscp']}, priority {one['priority']}, {kind}, {marks}")
    print(f"{counted(summary['switches'], 'switch')}, {counted(summary['hosts'], 'host')} in {out}")
    print(f"next: pauseframe lint {in_shell(out)}; then read {out}/ROLLOUT.md")


def _deploy_plan(
    plan: Path,
    out: Path,
    settings: Settings,
    given: dict[str, Any],
    cable: str | None,
    inventory: list[Path],
    force: bool,
    as_json: bool,
) -> None:
    from dataclasses import replace

    from pauseframe.deploy import write_deployment
    from pauseframe.fabric.calculator import parse_length, parse_size
    from pauseframe.terminal.text import counted

    own: dict[str, Any] = {name.removeprefix("--"): value for name, value in given.items() if value is not None}
    if "priorities" in own:
        own["priorities"] = tuple(_priority(part) for part in own["priorities"].split(","))
    if "buffer" in own:
        own["buffer"] = parse_size(own["buffer"], "--buffer: ")
    if cable is not None:
        own["cable"] = parse_length(cable, "--cable: ")
    summary = write_deployment(plan, out, replace(settings, **own), inventory=inventory, force=force)
    if as_json:
        print_json(summary)
        return
    for note in summary["notes"]:
        say(f"note: {note}")
    devices = f"{counted(summary['switches'], 'switch')}, {counted(summary['hosts'], 'host')}"
    print(f"{devices}, {counted(summary['steps'], 'step of roll-out')} in {out}")
    print(f"next: pauseframe lint {in_shell(out)}; then read {out}/ROLLOUT.md")


def _priority(text: str) -> int:
    if text.strip() not in {"0", "1", "2", "3", "4", "5", "6", "7"}:
        raise ValueError(f"--priorities: {text!r} is no priority from 0 to 7")
    return int(text)
