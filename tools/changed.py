"""Checks and tests what has changed: crates, Python modules, tests and pages.

    python tools/changed.py [--since COMMIT] [CRATE ...]

`make changed` compares with the branch main, uncommitted files included; `make changed CRATE=rdma` checks one crate.
A change of a module runs the tests that are named after it or import it, so `make test` remains the last word.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
BY_FOLDER = {
    "docs": ("test_docs.py", "test_docs_commands.py"),
    "validation/linux": ("test_calibration.py",),
    "python/pauseframe/experiments": ("test_reproduce.py",),
}
"""Tests of folders without modules."""


def changed_files(since: str) -> list[Path]:
    """Files that differ from a commit, and files that git does not know yet."""
    commands = (["diff", "--name-only", "--diff-filter=d", since], ["ls-files", "--others", "--exclude-standard"])
    output = [
        subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True) for command in commands
    ]
    return sorted({Path(line) for one in output for line in one.stdout.splitlines()})


def crates_of(files: list[Path]) -> list[str]:
    """Names of the crates that contain these files."""
    return sorted({file.parts[1] for file in files if file.parts[0] == "crates"})


def tests_of(files: list[Path]) -> list[Path]:
    """Test files for these files: themselves, those named after a module or importing it, and those of a folder."""
    found: set[Path] = set()
    for file in files:
        found.update(
            TESTS / test for folder, tests in BY_FOLDER.items() if file.is_relative_to(folder) for test in tests
        )
        if file.suffix != ".py" or file.parts[0] not in {"python", "tests"}:
            continue
        if file.name.startswith("test_"):
            found.add(ROOT / file)
            continue
        words = [
            part.removesuffix(".py") for part in file.parts[-2:] if part not in {"pauseframe", "tests", "__init__.py"}
        ]
        found.update(test for test in TESTS.glob("test_*.py") if any(is_test_of(test, word) for word in words))
    return sorted(found)


def is_test_of(test: Path, module: str) -> bool:
    """Whether a test file is named after a module, or imports it."""
    name = module.strip("_")
    if re.match(rf"test_{name}(_|\.)", test.name):
        return True
    imported = rf"^(from|import) (\w+\.)*{module}\b|^from \S+ import .*\b{module}\b"
    return re.search(imported, test.read_text(encoding="utf-8"), re.MULTILINE) is not None


def commands(crates: list[str], files: list[Path]) -> list[list[str]]:
    """What to run, the quick ones first."""
    packages = [word for crate in crates for word in ("-p", f"pauseframe-{crate}")]
    tested = [word for crate in crates if crate != "python" for word in ("-p", f"pauseframe-{crate}")]
    sources = [str(file) for file in files if file.suffix in {".py", ".pyi"}]
    tests = [str(test) for test in tests_of(files)]
    ruff, python = str(ROOT / ".venv/bin/ruff"), str(ROOT / ".venv/bin/python")
    planned = [
        (packages, ["cargo", "fmt", "--check", *packages]),
        (sources, [ruff, "format", "--check", *sources]),
        (sources, [ruff, "check", *sources]),
        (packages, ["cargo", "clippy", "--quiet", *packages, "--all-targets", "--", "-D", "warnings"]),
        (tested, ["cargo", "test", "--quiet", *tested]),
        (tests, ["make", ".venv/.stamps/dev"]),
        (tests, [python, "-m", "pytest", "--quiet", "-n", "auto", *tests]),
    ]
    return [command for needed, command in planned if needed]


def main() -> int:
    """Runs the commands until one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("crates", nargs="*", metavar="CRATE")
    parser.add_argument("--since", default="main", metavar="COMMIT")
    arguments = parser.parse_args()
    files = [] if arguments.crates else changed_files(arguments.since)
    for command in commands(arguments.crates or crates_of(files), files):
        print("+", *command, flush=True)
        code = subprocess.run(command, cwd=ROOT, check=False).returncode
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
