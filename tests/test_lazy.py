"""Heavy modules are imported only on demand: `import pauseframe` and `--help` stay fast."""

import subprocess
import sys

import pytest

HEAVY = {"polars", "jinja2", "rich", "pandas", "pyarrow", "duckdb", "IPython", "tomli_w", "numpy"}


def modules_after(code):
    program = f"import sys\n{code}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_of_the_package():
    assert modules_after("import pauseframe") & (HEAVY | {"typer", "multiprocessing"}) == set()


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_help(arguments):
    code = (
        "from pauseframe.cli import main\nimport contextlib, io\n"
        f"sys.argv = ['pauseframe', *{arguments!r}]\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()"
    )
    assert modules_after(code) & HEAVY == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "FILE", "--out", "OUT"],
        [
            "run",
            "FILE",
            "--out",
            "OUT",
            "--seed",
            "7",
            "--set",
            "transport.preset=dctcp",
            "--threads",
            "auto",
            "--force",
        ],
        ["sweep", "FILE", "--seeds", "2", "--out", "OUT"],
    ],
)
def test_small_runs_load_no_libraries(arguments, tmp_path):
    """Typer builds pydantic adapters for options, and rich draws tables: either takes longer than a small run."""
    file = tmp_path / "two.toml"
    file.write_text('workload = [{ kind = "n_to_1", size = "1 KB" }]\n[topology]\nkind = "star"\nhosts = 2\n')
    given = {"FILE": str(file), "OUT": str(tmp_path / "out")}
    code = (
        "from pauseframe.cli import main\nimport contextlib, io\n"
        f"sys.argv = ['pauseframe', *{[given.get(one, one) for one in arguments]!r}]\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit): main()"
    )
    assert modules_after(code) & (HEAVY | {"pydantic"}) == set()
    assert (tmp_path / "out").is_dir()


def test_run_without_display_needs_no_libraries():
    code = (
        "import pauseframe as pf\n"
        'pf.run(\'workload = [{ kind = "n_to_1", size = "1 KB" }]\\n[topology]\\nkind = "star"\\nhosts = 2\\n\')'
    )
    assert modules_after(code) & HEAVY == set()
