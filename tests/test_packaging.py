"""What others see of the package: its description, keywords and links, and whether a wheel keeps its name's promise."""

import ast
import re
import runpy
import sys
import tomllib
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
checks = SimpleNamespace(**runpy.run_path(str(ROOT / "tools" / "check_dist.py")))
LINK = re.compile(r"\]\((?!#)([^)]+)\)")


def test_the_description_says_what_it_is_and_its_links_work_anywhere():
    text = (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")
    links = [link for link in LINK.findall(text) if not link.startswith("https://")]
    assert links == []
    assert len(LINK.findall(text)) >= 4
    for word in ("RoCE", "lint", "TCP"):
        assert word in f"{PROJECT['description']} {' '.join(PROJECT['keywords'])}"
        assert word in text
    assert all(url.startswith("https://") for url in PROJECT["urls"].values())
    assert len(PROJECT["description"]) < 200


def test_links_of_readme_lead_somewhere():
    for link in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")):
        assert link.startswith("https://") or (ROOT / link.partition("#")[0]).exists(), link


def test_every_crate_of_ours_is_optimised():
    """The release profile optimises libraries a little; what it names, and that is every crate of ours, fully."""
    profile = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["profile"]["release"]
    ours = {f"pauseframe-{crate.parent.name}" for crate in (ROOT / "crates").glob("*/Cargo.toml")}
    full = {name for name, settings in profile["package"].items() if settings.get("opt-level") == 3}
    assert ours <= full
    # An entry for "*" would optimise macros and build scripts too.
    assert "opt-level" not in profile["package"]["*"]


def test_classifiers_name_the_versions_that_it_needs():
    versions = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert f">={versions[0]}" == PROJECT["requires-python"]


IMPORT = {"pyyaml": "yaml", "tomli-w": "tomli_w"}
"""Packages that are imported under another name than they are installed."""
BELOW = {"markupsafe", "pydantic_core", "typing_extensions", "IPython", "llvmlite"}
"""Packages that a dependency installs; IPython: progress of a notebook, which runs in it."""


def imported(file):
    """The top-level packages that a module imports, also inside of functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def test_only_packages_that_an_installation_has_are_imported():
    """A checkout has all of `dev`, so only this test sees an import that fails after `pip install pauseframe`."""
    extras = [names for extra, names in PROJECT["optional-dependencies"].items() if extra != "dev"]
    packages = [re.split(r"[>=\[]", given)[0] for given in sum(extras, PROJECT["dependencies"])]
    allowed = {*sys.stdlib_module_names, "pauseframe", *BELOW, *(IMPORT.get(name, name) for name in packages)}
    files = [*(ROOT / "python" / "pauseframe").rglob("*.py")]
    found = {f"{file.relative_to(ROOT)}: {name}" for file in files for name in imported(file) if name not in allowed}
    assert found == set()


def fake_wheel(folder, tag):
    """A wheel with the compiled core under a name of our choice."""
    path = folder / f"pauseframe-0.1.0-cp311-abi3-{tag}.whl"
    core = next((ROOT / "python" / "pauseframe").glob("_core*.so"))
    info = "pauseframe-0.1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.write(core, "pauseframe/_core.abi3.so")
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-abi3-{tag}\n")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: pauseframe\nVersion: 0.1.0\n")
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in [*wheel.namelist(), f"{info}/RECORD"]))
    return path


def test_a_wheel_must_run_with_the_glibc_that_it_names(tmp_path):
    """The core of a checkout is built against the glibc of its machine, which is later than 2.5 of manylinux1."""
    pytest.importorskip("auditwheel", reason="no auditwheel here: pip install 'pauseframe[dev]'")
    assert checks.glibc_problem(fake_wheel(tmp_path, "manylinux_2_99_x86_64")) == ""
    problem = checks.glibc_problem(fake_wheel(tmp_path, "manylinux_2_5_x86_64.manylinux1_x86_64"))
    assert re.search(r"needs glibc 2\.\d+, and its name promises 2\.5$", problem)
    assert "names no glibc" in checks.glibc_problem(fake_wheel(tmp_path, "linux_x86_64"))


def test_what_could_not_be_tried_says_so():
    workflow = ROOT / ".github" / "workflows" / "release.yml"
    for file in (workflow, ROOT / "Containerfile"):
        assert "UNTRIED" in file.read_text(encoding="utf-8")
    steps = [
        step for job in yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values() for step in job["steps"]
    ]
    targets = {word for step in steps for word in re.findall(r"^make (\w+)", step.get("run", ""), re.M)}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert targets >= {"test", "dist", "platforms", "docs"}
    assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets)
