"""The examples run unchanged: the commands of each README.txt in an empty folder, notebooks cell by cell."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pauseframe.examples import HOME, README, examples, write_example
from pauseframe.examples.generated import FAULTS
from pauseframe.lint import engine
from test_cli import cli
from test_docs_commands import shell  # noqa: F401 (a fixture)

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
CODES = {"leaf0": {"PF010"}, "leaf1": {"PF011"}, "spine0": {"PF052", "PF017"}, "spine1": {"PF030", "PF041"}}
"""The rules that find the fault of each switch of the example `sonic`."""


LONG = {"tune": pytest.mark.night}
"""Examples whose commands take tens of seconds."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG.get(name, ())) for name in examples()])
def test_the_commands_of_an_example_run_in_an_empty_folder(name, shell):  # noqa: F811
    page = shell(f"pauseframe example {name} && cat {name}/{README}")
    lines = re.findall(r"^    (pauseframe .*?)(?: +# exit code (\d).*)?$", page.partition("next: cd")[2], re.M)
    assert len(lines) == page.partition("next: cd")[0].count("\n    pauseframe ") > 0
    for command, code in lines:
        shell(f"cd {name} && {command}", int(code or 0))


@pytest.mark.parametrize("file", sorted(HOME.glob("*/*.toml")), ids=lambda path: path.stem)
def test_scenarios_are_valid_and_named_in_the_page(file, tmp_path):
    folder = write_example(file.parent.name, tmp_path / "example")
    assert cli("validate", file.name, cwd=folder).returncode == 0
    assert re.search(rf"^{re.escape(file.name)}  ", (folder / README).read_text(), re.M)


@pytest.mark.parametrize("switch", ["", *CODES])
def test_each_switch_has_its_fault_and_no_other(switch, tmp_path, monkeypatch):
    for name in FAULTS.keys() - {switch}:
        monkeypatch.setitem(FAULTS, name, lambda database: None)
    folder = write_example("sonic", tmp_path / "sonic")
    found = {finding.code for finding in engine.lint([folder / "configs"]).findings}
    assert found == CODES.get(switch, set())
    assert FAULTS.keys() == CODES.keys()


def test_the_list_and_the_json(tmp_path):
    listed = json.loads(cli("example", "--json").stdout)
    assert listed == examples()
    assert all(f"{name} " in cli("example").stdout for name in listed)
    written = json.loads(cli("example", "flows", "--json", cwd=tmp_path).stdout)
    assert written["out"] == "flows"
    assert set(written["files"]) == {
        f"flows/{name}" for name in ("README.txt", "fabric.graphml", "flows.csv", "flows.toml")
    }
    (tmp_path / "flows" / "results").mkdir()
    again = cli("example", "flows", cwd=tmp_path)
    assert (again.returncode, again.stderr) == (0, ""), "its files are there: nothing to do"
    for change, reason in (("", "its flows.csv is another"), (None, "has no flows.csv")):
        file = tmp_path / "flows" / "flows.csv"
        file.unlink() if change is None else file.write_text(change)
        refused = cli("example", "flows", cwd=tmp_path)
        assert (refused.returncode, f"flows exists and is not empty, and {reason}" in refused.stderr) == (2, True)
        assert not file.exists() or file.read_text() == change
    unknown = cli("example", "sonics", cwd=tmp_path)
    assert (unknown.returncode, "did you mean sonic?" in unknown.stderr) == (2, True)


def test_files_that_others_have_too_are_the_same():
    data = ROOT / "crates/topology/tests/data/ring4"
    for file in data.iterdir():
        assert (HOME / "infiniband" / file.name).read_text() == file.read_text()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks(name, tmp_path):
    read = f"nbformat.read({str(FOLDER / name)!r}, 4)"
    code = f"import nbformat, nbclient; nbclient.NotebookClient({read}, timeout=200).execute()"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def test_notebooks_are_kept_without_what_they_print():
    for name in NOTEBOOKS:
        assert '"output_type"' not in (FOLDER / name).read_text(encoding="utf-8"), f"{name}: clear its outputs"


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("README.md", "incast/incast.toml"),
        ("docs/how-to/watch-a-pause-storm.md", "storm/storm.toml"),
        ("docs/how-to/tcp-and-roce.md", "roce/roce.toml"),
        ("docs/your-own-algorithm.md", "plugin/incast.toml"),
    ],
)
def test_pages_and_files_say_the_same(page, name):
    blocks = re.findall(r"^```toml\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.M | re.S)
    assert (HOME / name).read_text(encoding="utf-8") in blocks


def test_the_list_names_every_file():
    listed = set(re.findall(r"^\| `(\S+)`", (FOLDER / "README.md").read_text(encoding="utf-8"), re.M))
    assert listed == {*NOTEBOOKS, *(f"plugins/{path.name}" for path in (FOLDER / "plugins").iterdir())}
