"""The commands `import`: inputs of other simulators, registers of cards, device files and captures become scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pauseframe._core import InputError
from pauseframe.cli._common import (
    AsJson,
    Force,
    in_shell,
    name_file,
    out_option,
    print_json,
    print_table,
    refuse_existing,
    say,
)
from pauseframe.cli._errors import wrong_values
from pauseframe.cli._options import PlainTyper

if TYPE_CHECKING:
    from pauseframe.imports.fabric import ImportedFabric
    from pauseframe.imports.fates import ImportedFolder
    from pauseframe.imports.hpcc import Imported

LoadName = Literal["auto", "roce", "storage", "tcp", "incast", "all-to-all"]
"""Loads that `import fabric` can give to a scenario."""
SHOWN = 20
"""Maximum number of places with other values that the terminal shows; the file has all."""

LONGEST_VALUE = 24
"""Number of characters of a value that the table of keys shows."""

commands = PlainTyper()
imports = commands.group(
    "import",
    "Turn configurations of a fabric, inputs of other simulators, registers of cards, and captures into scenarios.",
)


@imports.command(epilog="Example: pauseframe import hpcc mix/config.txt && pauseframe run mix/config.toml")
def hpcc(
    config: Annotated[Path, typer.Argument(help="The simulator's config.txt.")],
    out: Annotated[Path | None, out_option("The scenario file; beside the config if left out.")] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Leave a key of the config out, which is refused otherwise. Repeatable."),
    ] = None,
    topology: Annotated[Path | None, typer.Option(help="Topology file, in place of TOPOLOGY_FILE.")] = None,
    flows: Annotated[Path | None, typer.Option(help="Flow file, in place of FLOW_FILE.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the scenario of a config.txt of the HPCC simulator or a fork: ConWeave, PowerTCP, SimAI.

    Each key is used, shows why it changes nothing, or is refused; the scenario file lists them. The topology and flow
    files are read unchanged.
    """
    from pauseframe.imports.hpcc import read_config
    from pauseframe.scenario.text import resolve_text

    target = out or _beside(config, ".toml")
    imported = read_config(config, folder=target.parent, without=without or (), topology=topology, flows=flows)
    target.parent.mkdir(parents=True, exist_ok=True)
    resolve_text(imported.toml, base_dir=str(target.parent), file_name=target.name)  # what `run` would refuse
    _write(imported, target, force=force, as_json=as_json)


@imports.command(
    epilog="Example: pauseframe import simai -w microAllReduce.txt -n Spectrum-X_32g_8gps_400Gbps_H100 -c SimAI.conf "
    "--env AS_SEND_LAT=2 --out micro && pauseframe run micro/scenario.toml"
)
def simai(
    topology: Annotated[Path, typer.Option("--topology", "-n", help="Topology text, whose first line has six words.")],
    workload: Annotated[
        Path | None,
        typer.Option("--workload", "-w", help="Workload text of SimAI or AICB; if left out, an all-reduce of 1 MiB."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="SimAI.conf; if left out, the preset roce_dcqcn.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="A variable of SimAI's environment, such as AS_SEND_LAT=2. Repeatable."
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Leave a key of SimAI.conf out, which is refused otherwise. Repeatable."),
    ] = None,
    as_simai: Annotated[
        bool, typer.Option("--as-simai", help="Follow SimAI's rules for groups and sizes, to compare with its results.")
    ] = False,
    out: Annotated[Path | None, out_option("Folder to write [default: the topology's name].")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a folder with the scenario of a run of SimAI: topology, workload and SimAI.conf.

    The letters are those of SimAI_simulator. NVSwitches become [topology.scale_up]. A table shows what became of each
    key.
    """
    from pauseframe.imports.simai import import_simai

    target = out or Path(topology.stem)
    refuse_existing(target / "scenario.toml", force)
    imported = import_simai(topology, workload, config, environment=env or (), without=without or (), as_simai=as_simai)
    _write_folder(imported, target, force=force, as_json=as_json)


@imports.command(
    epilog="Example: pauseframe import astra -w traces/all_reduce -s Ring_4chunks.json -n Switch.yml "
    "--logical 1D.json --out astra && pauseframe run astra/scenario.toml"
)
def astra(
    workload: Annotated[
        Path, typer.Option("--workload", "-w", help="Chakra traces: a folder, or NAME of NAME.0.et, NAME.1.et, ...")
    ],
    network: Annotated[
        Path, typer.Option("--network", "-n", help="network.yml of the analytical backend, or the ns-3 config.")
    ],
    system: Annotated[Path | None, typer.Option("--system", "-s", help="System file (JSON).")] = None,
    logical: Annotated[Path | None, typer.Option(help="Logical topology (JSON with logical-dims).")] = None,
    groups: Annotated[Path | None, typer.Option(help="Communicator groups (JSON).")] = None,
    memory: Annotated[Path | None, typer.Option(help="Remote memory (JSON).")] = None,
    topology: Annotated[Path | None, typer.Option(help="Topology file, in place of TOPOLOGY_FILE.")] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Leave a key out, which is refused otherwise. Repeatable."),
    ] = None,
    out: Annotated[Path | None, out_option("Folder to write [default: the workload's name].")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a folder with the scenario of a run of ASTRA-sim: Chakra traces, system, network, logical topology.

    A table shows what became of each key.
    """
    from pauseframe.imports.astra import import_astra

    target = out or Path(workload.name)
    refuse_existing(target / "scenario.toml", force)
    imported = import_astra(
        workload, network, system, logical=logical, groups=groups, memory=memory, topology=topology,
        without=without or (),
    )  # fmt: skip
    _write_folder(imported, target, force=force, as_json=as_json)


@imports.command(
    epilog="Example: mlxconfig -d /dev/mst/mt4125_pciconf0 query > card.txt; pauseframe import mlxconfig card.txt"
)
def mlxconfig(
    dump: Annotated[Path, typer.Argument(help="The text that `mlxconfig -d DEVICE query` prints.")],
    port: Annotated[int, typer.Option(min=1, help="Port of the card: its registers end with _P1, _P2.")] = 1,
    out: Annotated[Path | None, out_option("The TOML file; beside the dump if left out.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the [transport] table of a ConnectX card from its registers.

    Uses each register of DCQCN, shows why it changes nothing, or refuses it; notes list all other names of the dump.
    """
    from pauseframe.imports.mlxconfig import read_dump

    _write(read_dump(dump, port), out or _beside(dump, ".toml"), force=force, as_json=as_json)


@imports.command(epilog="Example: pauseframe import fabric configs/ -o fabric.toml && pauseframe run fabric.toml")
def fabric(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Device files, or folders of them.")],
    out: Annotated[Path, out_option("The scenario file, or a folder for scenario.toml.")] = Path("fabric.toml"),
    load: Annotated[
        LoadName, typer.Option(help="What the hosts send; auto: each class of the hosts' and switches' files.")
    ] = "auto",
    topology: Annotated[Path | None, typer.Option(help="Wiring: a topology file with the ports of both ends.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a scenario of a fabric from the files that `lint` reads, under the devices' own names.

    A table shows each field of the files as used, mapped, or not held by the simulator; below it, each port whose
    value the scenario does not have.
    """
    from pauseframe.devices import read_fabric
    from pauseframe.files.atomic import write_text
    from pauseframe.imports.fabric import import_fabric

    target = out if out.suffix == ".toml" else out / "scenario.toml"
    refuse_existing(target, force)
    with wrong_values():
        reading = read_fabric(paths, topology=topology)
        imported = import_fabric(reading, load=load, name=target.stem if out.suffix else out.name)
    write_text(target, imported.toml, replace=force)
    if as_json:
        account = imported.scope.account
        print_json(
            {
                "out": str(target),
                "fields": imported.rows,
                "assumed": account.assumed,
                "not_held": [one._asdict() for one in sorted(account.odd)],
                "notes": reading.fabric.notes,
            }
        )
        return
    for note in reading.fabric.notes:
        say(f"note: {note}")
    _show_account(imported, target)
    print(f"{target}; next: pauseframe run {in_shell(target)}")


def _show_account(imported: ImportedFabric, target: Path) -> None:
    from pauseframe.terminal.text import terminal_table

    rows = [(row["key"], row["state"], f"{row['values']:,}", row["how"]) for row in imported.rows]
    columns = [{"header": "field"}, {"header": "state"}, {"header": "values", "justify": "right"}, {"header": "as"}]
    print_table(terminal_table(*columns, rows=rows))
    account = imported.scope.account
    lines = [*(f"assumed: {text}" for text in account.assumed), *(f"not held: {odd}" for odd in sorted(account.odd))]
    for line in lines[:SHOWN]:
        print(line)
    if len(lines) > SHOWN:
        print(f"... {len(lines) - SHOWN} more: the comments at the head of {target}")


@imports.command(epilog="Example: pauseframe import pcap server1.pcapng server2.pcapng --out captured")
def pcap(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Captures of the same time, pcap or pcapng: of each server.")
    ],
    out: Annotated[
        Path | None, out_option("Folder to write; beside the first file, with its name, if left out.")
    ] = None,
    cut: Annotated[
        Literal["push", "turn", "connection"],
        typer.Option(
            help="What ends a flow: a segment with PUSH, an answer of the other side, or its connection alone."
        ),
    ] = "push",
    idle: Annotated[
        float | None,
        typer.Option(metavar="US", min=0.0, help="End a flow after a pause of so many microseconds, too."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Find the flows of TCP in captures, and write a scenario that sends them, their laws and three figures.

    By default a flow ends with PUSH, as in Judd (NSDI 2015, section 2.2). Notes count all frames that are not of TCP.
    """
    from pauseframe.imports.pcap import read_captures, summary, write

    target = out or _beside(files[0], "")
    refuse_existing(target / "scenario.toml", force)
    imported = read_captures(files, cut, idle)
    write(imported, target, files[0].stem, replace=force)
    say(summary(imported))
    for note in imported.notes:
        say(f"note: {note}")
    name_file(target / "scenario.toml", as_json)


def _write(imported: Imported, target: Path, *, force: bool, as_json: bool) -> None:
    refuse_existing(target, force)
    from pauseframe.files.atomic import write_text

    write_text(target, imported.toml, replace=force)
    for note in imported.notes:
        say(f"note: {note}")
    name_file(target, as_json)


def _write_folder(imported: ImportedFolder, target: Path, *, force: bool, as_json: bool) -> None:
    """Writes the files of an import, and shows the table of its keys. Nothing is written if `run` would refuse them."""
    from shutil import copyfile

    from pauseframe.files.atomic import added_files
    from pauseframe.scenario.text import resolve_text
    from pauseframe.terminal.text import printable, terminal_table

    with added_files(target) as partial:
        # Only here does no other process write to the folder.
        for name in (*imported.files, *imported.copies):
            refuse_existing(target / name, force)
        for name, source in imported.copies.items():
            (partial / name).parent.mkdir(exist_ok=True)
            copyfile(source, partial / name)
        for name, text in imported.files.items():
            (partial / name).write_text(text, encoding="utf-8")
        # What `run` would refuse is refused here, where the input stands that has to change.
        resolve_text(imported.files["scenario.toml"], base_dir=str(partial), file_name="scenario.toml")
    if as_json:
        files = [str(target / name) for name in imported.files]
        print_json({"out": files, "fates": [fate._asdict() for fate in imported.fates], "notes": imported.notes})
        return
    for note in imported.notes:
        say(f"note: {note}")
    cells = [(one.file, one.key, _short(one.value), one.state, one.how) for one in imported.fates]
    rows = [tuple(map(printable, row)) for row in cells]
    print_table(terminal_table("file", "key", "value", "state", "how", rows=rows))
    print(f"{target / 'scenario.toml'}; next: pauseframe run {in_shell(target / 'scenario.toml')}")


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 3]}..."


def _beside(path: Path, suffix: str) -> Path:
    """The default output: the name of the input with another suffix; InputError for a folder without a name."""
    if not path.name:
        raise InputError(f"{path} is a folder: name a file in it")
    return path.with_suffix(suffix)
