"""All unsafe code says why it is there and why it is sound; the page "How this is tested" lists it."""

import runpy
from pathlib import Path

TOOL = runpy.run_path(str(Path(__file__).parent.parent / "tools" / "unsafe.py"))


def test_every_block_has_its_reason() -> None:
    found = TOOL["files"]()
    assert sum(one.blocks for one in found) > 20
    assert [(one.file, one.bare) for one in found if one.bare or not one.reasons] == []


def test_a_block_without_a_comment_is_found() -> None:
    lines = ["fn f() {", *["// SAFETY: too far"], *["let x = 1;"] * 9, "unsafe { g() }"]
    assert not TOOL["_is_explained"](lines, len(lines) - 1)
    assert TOOL["BLOCK"].search("unsafe impl Send for X {}")
    assert TOOL["BLOCK"].search("let x = unsafe { f() };")
