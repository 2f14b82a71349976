"""Writes THIRD_PARTY_NOTICES.txt: the third-party software in a wheel, with its licences. `make dist` runs this script.

The crates that are compiled in, as Cargo.lock has them, with the licence texts of their folders; and the JavaScript
library in the package: uPlot, part of every report and of every page of the player.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "THIRD_PARTY_NOTICES.txt"
PACKAGE = "pauseframe-python"
PLATFORM = "x86_64-unknown-linux-gnu"
LINE = "-" * 100
LICENCE_NAMES = ("LICEN", "COPY", "UNLICEN")
PAGES = {"report": "HTML report and page of the player"}
"""By the folder in the package that holds the JavaScript library: the pages that contain it."""
HEAD = """Third-party notices of pauseframe

The compiled extension module contains the Rust crates below and parts of the Rust standard library (MIT OR Apache-2.0,
Copyright (c) The Rust Project Contributors). Where a crate offers the MIT licence among others, it is used under that.
HTML reports and pages of the player contain uPlot.

"""
MIT = """Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."""


def compiled_in() -> list[dict[str, Any]]:
    """Third-party crates in the extension module, by name and version, without procedural macros (build time only)."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [identity for identity, package in packages.items() if package["name"] == PACKAGE]
    found: dict[str, dict[str, Any]] = {}
    while waiting:
        identity = waiting.pop()
        package = packages[identity]
        if identity in found or any("proc-macro" in target["kind"] for target in package["targets"]):
            continue
        found[identity] = package
        normal = (d for d in nodes[identity]["deps"] if any(kind["kind"] is None for kind in d["dep_kinds"]))
        waiting += [dependency["pkg"] for dependency in normal]
    foreign = [package for package in found.values() if package["source"] is not None]
    return sorted(foreign, key=lambda package: (package["name"], package["version"]))


def texts(package: dict[str, Any]) -> list[str]:
    """The licence of a crate, and its notices."""
    folder = Path(package["manifest_path"]).parent
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    licences = [name for name in names if name.upper().startswith(LICENCE_NAMES)]
    mit = [name for name in licences if "MIT" in name.upper()]
    if mit and " AND " not in package["license"]:
        licences = mit
    notices = [name for name in names if name.upper().startswith("NOTICE")]
    if not licences:
        return [_without_file(package)]
    return [_tidy((folder / name).read_text(encoding="utf-8", errors="replace")) for name in [*licences, *notices]]


def _without_file(package: dict[str, Any]) -> str:
    if "MIT" in package["license"]:
        authors = ", ".join(package["authors"]) or f"the authors of {package['name']} ({package['repository']})"
        return f"(Its package has no file with the text.) Copyright (c) {authors}\n\n{MIT}"
    return f"(Its package has no file with the text.) {package['license']}: as in the file LICENSE of pauseframe."


def _tidy(text: str) -> str:
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    return "\n".join(lines).strip("\n")


def crates_part() -> str:
    """Each licence text once, after the names of all crates that use it."""
    having: dict[str, list[str]] = {}
    for package in compiled_in():
        name = f"{package['name']} {package['version']} ({package['license']})"
        for text in texts(package):
            having.setdefault(text, []).append(name)
    return HEAD + "\n".join(f"{LINE}\n" + "\n".join(names) + f"\n{LINE}\n{text}\n" for text, names in having.items())


def javascript_parts() -> str:
    """The licences of the JavaScript libraries in the package."""
    package, parts = ROOT / "python" / "pauseframe", []
    for folder, pages in PAGES.items():
        (licence,) = (package / folder / "assets").glob("*.LICENSE")

        name = licence.stem.replace("-", " ")
        text = _tidy(licence.read_text(encoding="utf-8"))
        parts.append(f"{LINE}\n{name}, part of every {pages}\n{LINE}\n{text}\n")
    return "\n".join(parts)


def notices() -> str:
    """The whole file."""
    return f"{crates_part()}\n{javascript_parts()}"


if __name__ == "__main__":
    TARGET.write_text(notices(), encoding="utf-8")
