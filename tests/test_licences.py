"""The licence of every bundled crate is one that deny.toml allows, and each comes from the registry."""

import re
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ALLOWED = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
BUNDLED = runpy.run_path(str(ROOT / "tools" / "notices.py"))["compiled_in"]()


def is_allowed(expression: str) -> bool:
    """Evaluates an SPDX expression without parentheses; crates of old write `/` for OR."""
    alternatives = re.split(r" OR |/", expression)
    return any(all(part.strip() in ALLOWED for part in one.split(" AND ")) for one in alternatives)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("MIT/Apache-2.0", True), ("GPL-3.0 OR MIT", True), ("GPL-3.0", False), ("MIT AND GPL-2.0", False)],
)
def test_expressions(expression: str, expected: bool) -> None:
    assert is_allowed(expression) == expected


def test_licences_of_all_crates() -> None:
    assert len(BUNDLED) > 50
    assert {
        package["name"]: package["license"] for package in BUNDLED if not is_allowed(package["license"] or "")
    } == {}


def test_sources_of_all_crates() -> None:
    assert {package["source"] for package in BUNDLED} == {"registry+https://github.com/rust-lang/crates.io-index"}
