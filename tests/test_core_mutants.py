"""The mutants of the core are what they say: one change each, in code that runs in a release build."""

import itertools
from pathlib import Path

import core_mutants
import pytest

SOURCE = b"""
const LIMIT: u64 = 3 + 4;
fn is_late(now: u64, due: u64) -> bool {
    debug_assert!(now + 1 > 0);
    !(now < due) && now != LIMIT
}
const fn twice(value: u64) -> u64 { value * 2 }
#[cfg(test)]
mod tests {
    fn helper() -> bool { 1 < 2 }
}
"""


def of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[core_mutants.Mutant]:
    monkeypatch.setattr(core_mutants, "ROOT", tmp_path)
    (tmp_path / "crates").mkdir()
    (tmp_path / "crates" / "late.rs").write_bytes(SOURCE)
    return list(core_mutants.candidates("late.rs"))


def test_places_are_code_of_a_release_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {(mutant.before, mutant.after) for mutant in of(tmp_path, monkeypatch)}
    assert changes == {
        ("fn is_late", "true"),
        ("fn is_late", "false"),
        ("!(now < due) && now != LIMIT", "!(now < due) || now != LIMIT"),
        ("!(now < due)", "(now < due)"),
        ("now < due", "now <= due"),
        ("now < due", "now > due"),
        ("now != LIMIT", "now == LIMIT"),
    }


def test_one_build_holds_the_code_and_its_mutant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mutants = of(tmp_path, monkeypatch)
    swapped = next(mutant for mutant in mutants if mutant.after == "now <= due")
    assert swapped.render(7) == "(if pauseframe_units::mutant(7) { now <= due } else { now < due })"
    returns = next(mutant for mutant in mutants if mutant.after == "true")
    assert returns.render(8) == " if pauseframe_units::mutant(8) { return true; } "
    assert SOURCE[returns.start - 1 : returns.start] == b"{"


def test_a_draw_has_no_two_mutants_in_one_place() -> None:
    drawn = core_mutants.draw(200, 5, "rdma/src")
    spans = sorted((mutant.file, mutant.start, mutant.end) for mutant in drawn)
    assert len(drawn) > 100
    assert all(here[0] != there[0] or here[2] <= there[1] for here, there in itertools.pairwise(spans))
    assert drawn == core_mutants.draw(200, 5, "rdma/src")
