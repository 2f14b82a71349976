"""The examples run unchanged: scenario files with the commands that they name, notebooks cell by cell."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_cli import cli

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples"
SCENARIOS = sorted(path.name for path in FOLDER.glob("*.toml"))
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
EXIT = {"ring.toml": 3}
"""The example shows a deadlock, so its exit code is 3."""


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(FOLDER, tmp_path / "examples"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios(name, folder):
    assert cli("validate", name, cwd=folder).returncode == 0
    command = "sweep" if "\n[sweep]" in (folder / name).read_text() else "run"
    done = cli(command, name, "--quiet", cwd=folder)
    assert done.returncode == EXIT.get(name, 0), done.stderr


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks(name, folder):
    code = f"import nbformat, nbclient; nbclient.NotebookClient(nbformat.read({name!r}, 4), timeout=200).execute()"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_notebooks_are_kept_without_what_they_print():
    for name in NOTEBOOKS:
        assert '"output_type"' not in (FOLDER / name).read_text(encoding="utf-8"), f"{name}: clear its outputs"


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("README.md", "incast.toml"),
        ("docs/how-to/watch-a-pause-storm.md", "storm.toml"),
        ("docs/how-to/tcp-and-roce.md", "roce.toml"),
    ],
)
def test_pages_and_files_say_the_same(page, name):
    blocks = re.findall(r"^```toml\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
    assert (FOLDER / name).read_text(encoding="utf-8") in blocks


def test_the_list_names_every_file():
    listed = set(re.findall(r"^\| `(\S+)`", (FOLDER / "README.md").read_text(encoding="utf-8"), re.M))
    assert listed == {*SCENARIOS, *NOTEBOOKS}
