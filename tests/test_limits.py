"""A test that hangs fails with its name: tests of the watcher for Rust's test binaries, and of pytest's limits."""

import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parent.parent
WATCH = ROOT / "tools" / "limit_test_time.py"


def watched(limit, script):
    command = [sys.executable, str(WATCH), str(limit), "sh", "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


def test_a_hanging_test_is_named():
    script = """
    echo 'test good has been running for over 60 seconds'
    echo 'test deadlock::of_five has been running for over 60 seconds'
    echo 'test good ... ok'
    exec sleep 600
    """
    code, said = watched(61, script)
    assert code == 124
    assert "HANGS: test deadlock::of_five has taken more than 61 s" in said
    assert "HANGS: test good" not in said


def test_a_hanging_test_is_named_where_they_run_one_by_one():
    code, said = watched(1, "echo 'test one ... ok'; printf 'test two ... '; exec sleep 600")
    assert code == 124
    assert "HANGS: test two has taken" in said


def test_silence_ends_too():
    code, said = watched(1, "exec sleep 600")
    assert (code, "HANGS: something" in said) == (124, True)


def test_what_does_not_hang_is_left_alone():
    assert watched(60, "echo 'test one ... ok'; exit 0") == (0, "test one ... ok\n")
    assert watched(60, "echo 'test one ... FAILED'; exit 101") == (101, "test one ... FAILED\n")


def pytest_of(folder, code, *options):
    (folder / "test_it.py").write_text(textwrap.dedent(code))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        ROOT / "pyproject.toml",
        "--rootdir",
        folder,
        "-p",
        "no:cacheprovider",
    ]
    return subprocess.run(
        [*command, *options, folder / "test_it.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_hanging_test_of_ours_fails_and_the_others_go_on(tmp_path):
    code = """
    import subprocess
    def test_hangs(): subprocess.run(["sleep", "600"])
    def test_next(): pass
    """
    done = pytest_of(tmp_path, code, "--timeout", "2")
    assert "1 failed, 1 passed" in done.stdout
    assert "test_hangs - Failed: Timeout" in done.stdout


def test_what_python_cannot_interrupt_ends_the_run_with_a_name(tmp_path):
    """The core runs an endless loop while it holds the lock, so no Python code can run any more."""
    code = """
    import ctypes
    def test_hangs(): ctypes.PyDLL(None).sleep(600)
    """
    done = pytest_of(tmp_path, code, "-o", "faulthandler_timeout=2")
    assert done.returncode != 0
    assert "in test_hangs" in done.stdout + done.stderr


def test_the_limits_are_on():
    """The time limits are active in this test run."""
    config = (ROOT / "pyproject.toml").read_text()
    assert "\ntimeout = 300\n" in config
    assert "\nfaulthandler_exit_on_timeout = true\n" in config
    assert "limit_test_time.py', '300'" in (ROOT / "Makefile").read_text()
    for command in ("make test", "make check"):
        assert f"\n{command}\n" in (ROOT / ".ci" / "run").read_text()
