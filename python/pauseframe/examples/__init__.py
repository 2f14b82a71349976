"""Ready folders of `pauseframe example`: scenarios, flows, topologies, a plug-in, configurations of switches.

Each folder beside this file is an example; its README.txt begins with one line that says what it shows. Most files are
shipped as they are. `generated` makes the others with the package's own generators, so that they always fit them.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from pauseframe._core import InputError
from pauseframe.examples import generated, training_files
from pauseframe.files.atomic import whole_folder
from pauseframe.terminal.text import none_of

HOME = Path(__file__).parent
README = "README.txt"
GENERATED = {
    "flows": generated.flows,
    "routes": generated.routes,
    "sonic": generated.sonic,
    "training": training_files.training,
}
"""Functions that add generated files to an example's folder."""


def examples() -> dict[str, str]:
    """The names of all examples, with one line about each."""
    return {
        page.parent.name: page.read_text(encoding="utf-8").partition("\n")[0]
        for page in sorted(HOME.glob(f"*/{README}"))
    }


def write_example(name: str, out: Path | None = None) -> Path:
    """Writes an example's folder, by default one with its name; returns the folder.

    A folder that has all files of the example, unchanged, stays as it is. Raises InputError for an unknown name, and
    for any other folder that is not empty.
    """
    known = examples()
    if name not in known:
        raise InputError(none_of(name, known))
    folder = out or Path(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        _check_unchanged(name, folder)
        return folder
    with whole_folder(folder) as partial:
        _fill(name, partial)
    return folder


def _fill(name: str, folder: Path) -> None:
    shutil.copytree(HOME / name, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    if name in GENERATED:
        GENERATED[name](folder)


def _check_unchanged(name: str, folder: Path) -> None:
    """Raises InputError if `folder` lacks a file of the example, or has another content for it."""
    with tempfile.TemporaryDirectory() as made:
        _fill(name, Path(made))
        for file in sorted(path.relative_to(made) for path in Path(made).rglob("*") if path.is_file()):
            there = folder / file
            if not there.is_file() or there.read_bytes() != (Path(made) / file).read_bytes():
                what = f"its {file} is another" if there.exists() else f"has no {file}"
                raise InputError(f"{folder} exists and is not empty, and {what}: name another folder with --out")
