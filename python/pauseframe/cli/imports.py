"""The commands `import`: input files of other simulators become scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pauseframe._core import InputError
from pauseframe.cli._common import AsJson, Force, name_file, out_option, say
from pauseframe.cli._options import PlainTyper

commands = PlainTyper()
imports = commands.group("import", "Turn inputs of other simulators into scenarios.")


@imports.command(epilog="Example: pauseframe import hpcc mix/config.txt && pauseframe run mix/config.toml")
def hpcc(
    config: Annotated[Path, typer.Argument(help="The simulator's config.txt.")],
    out: Annotated[Path | None, out_option("The scenario file; beside the config if left out.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the scenario of a config.txt of the HPCC simulator.

    Reads the topology and flow files unchanged; notes list the skipped parts.
    """
    from pauseframe.imports.hpcc import read_config

    imported = read_config(config)
    target = out or config.with_suffix(".toml")
    if target.exists() and not force:
        raise InputError(f"{target} exists: name another file, or replace it with --force")
    if target.parent.resolve() != config.parent.resolve():
        raise InputError(f"{target} must be beside {config}, because both name the same files")
    target.write_text(imported.toml, encoding="utf-8")
    for note in imported.notes:
        say(f"note: {note}")
    name_file(target, as_json)
