"""Mutants of our code differ from it in one place, and can be loaded; `make night` runs the tests on a sample."""

import ast

import code_mutants
import pytest


def test_a_mutant_differs_in_one_place() -> None:
    source = "def f(a: int = 3) -> bool:\n    return not (a < 3 and a + 1 == 2)\n"
    texts = [code_mutants.mutate(source, number)[0] for number in range(len(code_mutants.places(ast.parse(source))))]
    assert len(set(texts)) == len(texts)
    whole = "\n".join(texts)
    for part in ("a <= 3", "a < 4", "3 or", "a - 1", "+ 2", "!= 2", "== 3", "a: int=4", "not not"):
        assert part in whole, part


@pytest.mark.parametrize("module", code_mutants.MODULES)
def test_mutants_of_our_modules_load(module: str) -> None:
    source = (code_mutants.PACKAGE / module).read_text(encoding="utf-8")
    places = code_mutants.places(ast.parse(source))
    original = ast.unparse(ast.parse(source))
    for number in range(0, len(places), max(1, len(places) // 5)):
        text, _ = code_mutants.mutate(source, number)
        compile(text, module, "exec")
        assert text != original
    for test in code_mutants.MODULES[module]:
        assert (code_mutants.ROOT / "tests" / test).is_file()
