"""Fills in the figures of docs/how-it-is-tested.md: `python tools/tested.py [faults.json]`.

The counts come from the code. The calls of commands come from the file that `tests/faults.py --record` writes, if it is
named; otherwise that table stays as it is.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "how-it-is-tested.md"
TESTS = ROOT / "tests"


def counts() -> str:
    """Tests in the source, a parametrised one once."""
    rust = sum(len(re.findall(r"#\[test\]", path.read_text())) for path in (ROOT / "crates").rglob("*.rs"))
    python = sum(len(re.findall(r"^def test_", path.read_text(), re.M)) for path in TESTS.glob("test_*.py"))
    return f"| | number |\n|---|---|\n| tests in Rust | {rust} |\n| tests in Python | {python} |"


def surfaces() -> str:
    """The kinds of input by their first word."""
    sys.path.insert(0, str(TESTS))
    import mutants

    with tempfile.TemporaryDirectory() as home:
        names = [surface.name for surface in mutants.surfaces(Path(home))]
    kinds: dict[str, list[str]] = {}
    for name in names:
        kind, _, rest = name.partition(" ")
        kinds.setdefault(kind, []).append(rest.removeprefix("d/"))
    rows = [f"| {kind} | {len(found)} | {', '.join(filter(None, found))} |" for kind, found in kinds.items()]
    return "\n".join(["| kind | inputs | which |", "|---|---|---|", *rows])


def faults(record: str) -> str:
    """The calls of each command."""
    found = json.loads(record)
    rows = [f"| `{command}` | {calls} |" for command, calls in found["calls"].items()]
    head = f"Last recorded: {found['points']} points, {found['defects']} defects.\n\n| command | calls |\n|---|---|"
    return "\n".join([head, *rows])


def filled(page: str, parts: dict[str, str]) -> str:
    """The page with its parts."""
    for name, text in parts.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        before, rest = page.split(begin)
        page = f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}"
    return page


def parts() -> dict[str, str]:
    """What follows from the code."""
    unsafe = runpy.run_path(str(ROOT / "tools" / "unsafe.py"))["table"]()
    return {"counts": counts(), "surfaces": surfaces(), "unsafe": unsafe}


if __name__ == "__main__":
    known = parts()
    if len(sys.argv) > 1:
        known["faults"] = faults(Path(sys.argv[1]).read_text())
    PAGE.write_text(filled(PAGE.read_text(), known))
