"""Ready folders of `pauseframe example`: scenarios, flows, topologies, a plug-in, configurations of switches.

Each folder beside this file is an example; its README.txt begins with one line that says what it shows. Most files are
shipped as they are. `generated` makes the others with the package's own generators, so that they always fit them.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pauseframe._core import InputError
from pauseframe._files import whole_folder
from pauseframe._text import none_of
from pauseframe.examples import generated

HOME = Path(__file__).parent
README = "README.txt"
GENERATED = {"flows": generated.flows, "routes": generated.routes, "sonic": generated.sonic}
"""Functions that add generated files to an example's folder."""


def examples() -> dict[str, str]:
    """The names of all examples, with one line about each."""
    return {
        page.parent.name: page.read_text(encoding="utf-8").partition("\n")[0]
        for page in sorted(HOME.glob(f"*/{README}"))
    }


def write_example(name: str, out: Path | None = None) -> Path:
    """Writes an example's folder, by default one with its name; returns the folder.

    Raises InputError for an unknown name, and for a folder that is not empty.
    """
    known = examples()
    if name not in known:
        raise InputError(none_of(name, known))
    folder = out or Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty: name another folder with --out")
    with whole_folder(folder) as partial:
        shutil.copytree(HOME / name, partial, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        if name in GENERATED:
            GENERATED[name](partial)
    return folder
