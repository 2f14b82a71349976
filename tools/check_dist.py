"""Fails if a wheel or a source distribution lacks a file that it needs, or contains a file that it should not.

A wheel must also run on the systems that its name promises: auditwheel finds the oldest glibc that it needs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "python" / "pauseframe"
FORBIDDEN = re.compile(
    r"__pycache__|\.pyc$|\.o$|(^|/)(\.venv|target|site|tests)/"
    r"|(^|(?<!^pauseframe)(?<!python/pauseframe)/)results/"  # what runs have left, not the package of that name
)
LARGEST_WHEEL = 15_000_000
"""Bytes. The compiled module is most of it."""
IN_SDIST = (
    "pyproject.toml",
    "Cargo.lock",
    "LICENSE",
    "THIRD_PARTY_NOTICES.txt",
    "README.md",
    "python/README.md",
    "crates/python/Cargo.toml",
)


def needed() -> set[str]:
    """The files of the package in the checkout."""
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {f"pauseframe/{path.relative_to(PACKAGE)}" for path in files if path.suffix != ".so"}


def problems(archive: Path) -> list[str]:
    """The missing and the superfluous files of an archive."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as file:
            names = set(file.namelist())
        missing = {*needed(), "pauseframe/_core.abi3.so"} - names
        missing |= {name for name in ("LICENSE", "THIRD_PARTY_NOTICES.txt") if not any(n.endswith(name) for n in names)}
    else:
        with tarfile.open(archive) as file:
            names = {name.partition("/")[2] for name in file.getnames()}
        missing = {f"python/{name}" for name in needed()} | set(IN_SDIST)
        missing -= names
    wrong = [f"{archive.name} lacks {name}" for name in sorted(missing)]
    if archive.suffix == ".whl" and archive.stat().st_size > LARGEST_WHEEL:
        wrong.append(f"{archive.name} has {archive.stat().st_size:,} bytes, more than {LARGEST_WHEEL:,}")
    inside = {name for name in names if FORBIDDEN.search(name) and not name.startswith("crates/")}
    return wrong + [f"{archive.name} has {name}" for name in sorted(inside)]


def glibc_problem(wheel: Path) -> str:
    """Why a wheel does not keep the promise of its name, or "".

    PEP 600: manylinux_2_17 runs with glibc 2.17 and later, manylinux2014 is its older name.
    """
    promised = min(
        ((int(major), int(minor)) for major, minor in re.findall(r"manylinux_(\d+)_(\d+)_", wheel.name)), default=None
    )
    if promised is None:
        return f"{wheel.name} names no glibc: build it with --compatibility"
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    text = " ".join(done.stdout.split())
    found = re.search(r'consistent with the following platform tag: "manylinux_(\d+)_(\d+)_', text)
    if found is None:
        return f"{wheel.name}: auditwheel finds no manylinux tag: {text or done.stderr.strip()[-300:]}"
    needed = (int(found[1]), int(found[2]))
    if needed > promised:
        return f"{wheel.name} needs glibc {needed[0]}.{needed[1]}, and its name promises {promised[0]}.{promised[1]}"
    return ""


def main() -> int:
    """Checks the archives that are named; the exit code."""
    archives = [Path(name) for name in sys.argv[1:]]
    wrong = [line for archive in archives for line in problems(archive)]
    wrong += [line for wheel in archives if wheel.suffix == ".whl" and (line := glibc_problem(wheel))]
    sizes = (f"{archive.name}: complete, {archive.stat().st_size / 1e6:.1f} MB" for archive in archives)
    print("\n".join(wrong or sizes))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
