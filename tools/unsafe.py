"""Lists all unsafe code of the core with its reasons: `python tools/unsafe.py`. A test holds that each has one.

The workspace denies unsafe code; each place that has some says why in `#[expect(unsafe_code, reason = ...)]`, and each
block says in a comment `SAFETY:` why it is sound.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"\bunsafe (\{|impl\b)|^\s*pub(\([a-z]+\))? unsafe fn")
REASON = re.compile(r"expect\(\s*unsafe_code,\s*reason = \"([^\"]*)\"")
ABOVE = 8
"""Lines above a block in which its SAFETY comment stands."""


class Unsafe(NamedTuple):
    """One file with unsafe code."""

    file: str
    reasons: list[str]
    blocks: int
    bare: list[int]
    """Lines of blocks without a comment about their safety."""


def files() -> list[Unsafe]:
    """All files of the core with unsafe code, tests included."""
    found = []
    for path in sorted((ROOT / "crates").rglob("*.rs")):
        lines = path.read_text(encoding="utf-8").splitlines()
        blocks = [number for number, line in enumerate(lines) if BLOCK.search(line.partition("//")[0])]
        if blocks:
            bare = [number + 1 for number in blocks if not _is_explained(lines, number)]
            reasons = list(dict.fromkeys(REASON.findall("\n".join(lines))))
            found.append(Unsafe(str(path.relative_to(ROOT / "crates")), reasons, len(blocks), bare))
    return found


def _is_explained(lines: list[str], number: int) -> bool:
    near = lines[max(0, number - ABOVE) : number + 2]
    return any("SAFETY" in line or "# Safety" in line for line in near)


def table() -> str:
    """The list as Markdown."""
    rows = [f"| `{one.file}` | {one.blocks} | {'; '.join(one.reasons)} |" for one in files()]
    return "\n".join(["| file | blocks | reason |", "|---|---|---|", *rows])


if __name__ == "__main__":
    sys.stdout.write(table() + "\n")
    sys.exit(any(one.bare for one in files()))
