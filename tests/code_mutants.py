"""Mutants of our Python code: `python tests/code_mutants.py [COUNT [SEED [MODULE]]]` runs the fast tests on each.

A mutant is one changed operator or number in one of MODULES. It is killed if a test of that module fails. The script
prints each survivor that EQUIVALENT does not list, and fails if more than 5 % of the mutants survive. Each mutant runs
in a copy of the package, so that the tests' own package stays as it is.
"""

from __future__ import annotations

import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "pauseframe"
MODULES = {
    "sweep/statistics.py": ["test_sweep_compare.py", "test_percentiles.py"],
    "results/percentiles.py": ["test_percentiles.py"],
    "tune/chance.py": ["test_tune.py"],
    "reproduce/judge.py": ["test_reproduce.py"],
    **{
        f"lint/rules/{path.name}": ["test_lint.py", "test_lint_faults.py"]
        for path in sorted((PACKAGE / "lint" / "rules").glob("*.py"))
    },
}
"""Modules, and the tests that have to kill their mutants."""
EQUIVALENT: dict[str, str] = {}
"""Survivors that no test can tell from the code, with the reason."""
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip


def places(tree: ast.Module) -> list[ast.AST]:
    """All nodes of a module that a mutant may change, without annotations."""
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if part is not None
        for inner in ast.walk(part)
    }
    return [node for node in ast.walk(tree) if id(node) not in skipped and _can_change(node)]


def _can_change(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in SWAPS
    if isinstance(node, ast.BoolOp | ast.BinOp):
        return type(node.op) in SWAPS
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float, bool)


def mutate(source: str, number: int) -> tuple[str, str]:
    """A module with its `number`-th place changed, and what was changed."""
    tree = ast.parse(source)
    node = places(tree)[number]
    before = ast.unparse(node)
    if isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()  # type: ignore[call-overload]
    elif isinstance(node, ast.BoolOp | ast.BinOp):
        node.op = SWAPS[type(node.op)]()  # type: ignore[assignment]
    elif isinstance(node, ast.UnaryOp):
        node.op, node.operand = ast.Not(), ast.UnaryOp(ast.Not(), node.operand)
    elif isinstance(node, ast.Constant):
        node.value = not node.value if isinstance(node.value, bool) else node.value + 1  # type: ignore[operator]
    ast.fix_missing_locations(tree)
    line = getattr(node, "lineno", 0)
    return ast.unparse(tree), f"line {line}: {before} -> {ast.unparse(node)}"


def survives(module: str, number: int | None) -> str | None:
    """What was changed, if no test of the module notices; without a number, the module as it is survives."""
    source = (PACKAGE / module).read_text(encoding="utf-8")
    text, what = (source, "unchanged") if number is None else mutate(source, number)
    with tempfile.TemporaryDirectory(prefix="code-mutant-") as home:
        shutil.copytree(PACKAGE, Path(home) / "pauseframe", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
        for library in PACKAGE.glob("*.so"):
            (Path(home) / "pauseframe" / library.name).symlink_to(library)
        (Path(home) / "pauseframe" / module).write_text(text, encoding="utf-8")
        line = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *MODULES[module]]
        environment = os.environ | {"PYTHONPATH": home, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(line, cwd=ROOT / "tests", env=environment, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1, 2, 3, 4):
            raise RuntimeError(done.stdout[-2000:])
        return f"{module} {what}" if done.returncode == 0 else None


def main(count: int = 100, seed: int = 1, only: str = "") -> int:
    """Draws mutants with a seed; the number of survivors without a reason."""
    everything = [
        (module, number)
        for module in MODULES
        if only in module
        for number in range(len(places(ast.parse((PACKAGE / module).read_text(encoding="utf-8")))))
    ]
    drawn = random.Random(seed).sample(everything, min(count, len(everything)))
    for module in sorted({module for module, _ in drawn}):
        if survives(module, None) is None:
            raise RuntimeError(f"the tests of {module} fail without a mutant")
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = [one for one in pool.map(lambda mutant: survives(*mutant), drawn) if one is not None]
    survivors = [one for one in found if one not in EQUIVALENT]
    for one in survivors:
        sys.stdout.write(f"survives: {one}\n")
    record = {"mutants": len(drawn), "places": len(everything), "seed": seed, "survivors": len(survivors)}
    sys.stdout.write(json.dumps(record) + "\n")
    return len(survivors)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    left = main(*map(int, arguments[:2]), *arguments[2:])  # type: ignore[arg-type]
    sys.exit(left > 0.05 * int(arguments[0] if arguments else 100))
