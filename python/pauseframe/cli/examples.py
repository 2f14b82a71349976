"""The command `example`: ready folders to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pauseframe.cli import _complete
from pauseframe.cli._common import AsJson, out_option, print_json, print_known
from pauseframe.cli._options import PlainTyper

commands = PlainTyper()


@commands.command(
    epilog="Examples: pauseframe example | pauseframe example sonic | pauseframe example flows --out mine"
)
def example(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="Example to write [default: list all].", autocompletion=_complete.examples),
    ] = None,
    out: Annotated[Path | None, out_option("Folder [default: NAME].")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a ready folder: a scenario, flows, a topology, a plug-in or configurations of switches.

    README.txt in the folder has the commands to run next.
    """
    from pauseframe.examples import README, examples, write_example

    if name is None:
        if out is not None:
            raise typer.BadParameter("name the example: pauseframe example NAME --out DIR", param_hint="--out")
        print_known(examples(), as_json, note="\nnext: pauseframe example NAME")
        return
    folder = write_example(name, out)
    if as_json:
        files = [str(file) for file in sorted(folder.rglob("*")) if file.is_file()]
        print_json({"out": str(folder), "files": files})
        return
    print((folder / README).read_text(encoding="utf-8"))
    print(f"next: cd {folder}, then the commands above, which {README} has too")
