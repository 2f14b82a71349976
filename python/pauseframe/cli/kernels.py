"""The command `kernel`: Linux kernels for hosts with `stack = "kernel"`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pauseframe.cli._common import AsJson, Quiet, print_json, say
from pauseframe.cli._options import PlainTyper
from pauseframe.kernel import HZ, VERSIONS

commands = PlainTyper()
kernel = commands.group("kernel", "Build Linux kernels that hosts run.")


@kernel.command(epilog="Example: pauseframe kernel build --version 6.1")
def build(
    version: Annotated[
        str, typer.Option(help=f"Version of Debian's source package: {', '.join(VERSIONS)}.")
    ] = VERSIONS[0],
    hz: Annotated[int, typer.Option(help="Ticks of the kernel's timer in a second: 100, 250, 300 or 1000.")] = 1000,
    own: Annotated[
        Path | None, typer.Option("--kernel", help="Take this user-mode kernel instead of building one.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option("--source", help="Folder with the source of Linux, instead of Debian's package.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", help="File of options to add, as in a kernel's .config.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Compilers at once [default: one for each core].")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Build it even if it is built already.")] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Build a user-mode kernel with its agent, once; scenarios with host.stack = "kernel" use it.

    This takes some minutes, 1.6 GB in the cache while it builds and 10 MB afterwards.
    """
    from pauseframe._core import InputError
    from pauseframe.kernel import build as build_kernel

    if own is not None and (source is not None or config is not None):
        raise InputError("--kernel takes a kernel as it is: --source and --config do not go with it")
    if version not in VERSIONS and own is None and source is None:
        raise InputError(f"version {version} is not known to work; {' and '.join(VERSIONS)} are")
    if hz not in HZ:
        raise InputError(f"--hz {hz}: the kernel has {', '.join(map(str, HZ))}")
    tell = None if quiet else say
    folder = build_kernel(version, hz=hz, kernel=own, source=source, config=config, jobs=jobs, force=force, tell=tell)
    if as_json:
        print_json({"kernel": str(folder)})
    else:
        print(folder)
