"""Licences of others: the notices are those of Cargo.lock, and packages have them."""

import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
NOTICES = (ROOT / "THIRD_PARTY_NOTICES.txt").read_text(encoding="utf-8")


def test_the_notices_are_current():
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "notices.py", "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_direct_dependencies_are_named():
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    versions = {(package["name"], package["version"]) for package in locked}
    named = set(re.findall(r"^(\S+) (\d\S*) \(.*\)$", NOTICES, re.M))
    assert named <= versions
    assert {"arrow-array", "csv", "libm", "parquet", "pyo3", "rand_pcg", "serde_json", "toml", "zstd-sys"} <= {
        name for name, _ in named
    }
    assert not {"proptest", "serde_derive"} & {name for name, _ in named}  # not in the wheel


def test_plotly_is_named():
    assert "plotly.js" in NOTICES
    assert "Plotly" in NOTICES.rpartition("plotly.js, part of every HTML report")[2]


def test_uplot_is_named_in_the_version_that_is_there():
    (script,) = (ROOT / "python" / "pauseframe" / "view" / "assets").glob("uPlot-*.min.js")
    version = script.name.removeprefix("uPlot-").removesuffix(".min.js")
    assert f"(v{version})" in script.read_text(encoding="utf-8")[:200]
    assert f"uPlot {version}, part of every page of the player" in NOTICES
    assert "Leon Sorokin" in NOTICES


def test_packages_have_them(tmp_path):
    """The source package; a wheel takes the same entry of pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE", "THIRD_PARTY_NOTICES.txt"]
    command = [Path(sys.executable).parent / "maturin", "sdist", "--out", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (package,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(package) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "THIRD_PARTY_NOTICES.txt"} <= names
