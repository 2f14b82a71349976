"""Third-party notices name every component of a wheel.

`tools/check_dist.py` checks that the wheel and the source distribution contain the notices.
"""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOTICES = runpy.run_path(str(ROOT / "tools" / "notices.py"))["notices"]()


def test_direct_dependencies_are_named():
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    versions = {(package["name"], package["version"]) for package in locked}
    named = set(re.findall(r"^(\S+) (\d\S*) \(.*\)$", NOTICES, re.M))
    assert named <= versions
    assert {"arrow-array", "csv", "libm", "parquet", "pyo3", "rand_pcg", "serde_json", "toml", "zstd-sys"} <= {
        name for name, _ in named
    }
    assert not {"proptest", "serde_derive"} & {name for name, _ in named}  # these crates are not part of the wheel


@pytest.mark.parametrize(
    ("folder", "named", "owner"),
    [("report", "HTML report and page of the player", "Leon Sorokin")],
)
def test_javascript_is_named_in_the_version_that_is_there(folder, named, owner):
    (script,) = (ROOT / "python" / "pauseframe" / folder / "assets").glob("*.min.js")
    name, _, version = script.name.removesuffix(".min.js").rpartition("-")
    assert f"v{version}" in script.read_text(encoding="utf-8")[:200]
    assert owner in NOTICES.partition(f"{name.replace('-', ' ')} {version}, part of every {named}")[2]


def test_packages_take_the_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license-files"] == ["LICENSE", "THIRD_PARTY_NOTICES.txt"]
