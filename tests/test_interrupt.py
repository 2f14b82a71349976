"""Ctrl-C at any moment of a command gives exit code 130, no traceback and no partial file, and the next run works.

The moment is deterministic: an audit hook stops the command when it imports a module or opens a file, reports the
event, and waits there for the signal.
"""

import os
import signal
import subprocess
import sys

import pytest
from pauseframe.terminal.interrupt import __file__ as guard
from test_cli import cli

HOOK = """
import os, sys, time
EVENT, WORD = os.environ["STOP_AT"].split("|")
def hook(event, arguments):
    global WORD
    if event == EVENT and WORD and WORD in str(arguments[0] if arguments else arguments):
        WORD = ""
        os.write(2, b"here\\n")
        # One long sleep would miss a signal that comes right before it.
        for _ in range(6_000):
            time.sleep(0.1)
sys.addaudithook(hook)
"""


@pytest.fixture
def stopped(tmp_path):
    """Starts a command that waits at an event; returns the process when it has reached the event."""
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(HOOK)
    paths = [str(hooks), *filter(None, [os.environ.get("PYTHONPATH")])]
    started = []

    def start(event, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-m", "pauseframe", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "STOP_AT": event},
            cwd=tmp_path,
        )
        started.append(process)
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line == "here\n", line + process.stderr.read()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def interrupt(process):
    os.kill(process.pid, signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert "Traceback" not in stderr
    assert "Exception ignored" not in stderr
    assert process.returncode == 130
    return stdout, stderr


def names(folder):
    return sorted(path.name for path in folder.iterdir())


WHILE_LOADING = [
    "import|pauseframe._core",
    "import|pauseframe.results",
    "import|typer",
    "open|cli/__pycache__/look.",
]
IN_THE_COMMAND = [
    "import|polars",
    "import|jinja2",
    "open|uPlot-1.6",
    "open|.report.html.",
    "os.rename|.report.html.",
]


@pytest.mark.parametrize("event", [*WHILE_LOADING, *IN_THE_COMMAND])
def test_report(event, stopped, folders, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    target = out / "report.html"
    target.write_text("the one before")
    command = ["report", folders["dctcp"], "--out", target]
    interrupt(stopped(event, *command))
    assert names(out) == ["report.html"]
    assert target.read_text() == "the one before"
    assert cli(*command).returncode == 0
    assert names(out) == ["report.html"]


@pytest.mark.parametrize(
    ("event", "command"),
    [
        ("import|tomli", ["sweep", "small.toml", "--seeds", "2", "--out", "out"]),
        ("os.fork|()", ["sweep", "small.toml", "--seeds", "2", "--out", "out"]),
        ("import|rich.table", ["presets"]),
        ("os.mkdir|partial", ["route", "plan", "fat_tree:k=4", "-o", "out"]),
        ("open|topology.svg", ["route", "plan", "fat_tree:k=4", "-o", "out"]),
        ("open|small.toml", ["run", "small.toml", "--out", "out"]),
    ],
)
def test_other_commands(event, command, stopped, scenario_file, tmp_path):
    interrupt(stopped(event, *command))
    assert not [name for name in names(tmp_path) if "partial" in name]
    assert not (tmp_path / "out" / "plan.json").exists()
    again = cli(*command, *(["--resume"] if command[0] == "sweep" else []), cwd=tmp_path)
    assert (again.returncode, again.stderr.count("Traceback")) == (0, 0)


def test_an_interrupt_that_a_library_makes_an_error_of(tmp_path):
    """While a class is created, Python 3.11 turns an interrupt into RuntimeError, "Error calling __set_name__"."""
    code = (
        "import os, signal, sys; sys.argv = ['pauseframe', 'presets']\n"
        "import pauseframe, pauseframe.cli\n"
        "def presets():\n"
        "    try: os.kill(os.getpid(), signal.SIGINT)\n"
        "    except KeyboardInterrupt as error: raise RuntimeError('Error calling __set_name__') from error\n"
        "pauseframe.presets = presets\n"
        "pauseframe.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_kill_in_the_middle_of_writing(stopped, folders, tmp_path):
    """SIGKILL leaves a hidden file, which the next report removes."""
    out = tmp_path / "out"
    out.mkdir()
    process = stopped("os.rename|.report.html.", "report", folders["dctcp"], "--out", out / "report.html")
    assert [name.startswith(".report.html.") for name in names(out)] == [True]
    process.kill()
    process.wait()
    assert cli("report", folders["dctcp"], "--out", out / "report.html").returncode == 0
    assert names(out) == ["report.html"]


def test_who_ignores_ctrl_c_goes_on(folders, tmp_path):
    """A process may ignore Ctrl-C, as in the background of a script or under nohup."""
    code = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    report = [sys.executable, "-m", "pauseframe", "report", folders["dctcp"], "--out", tmp_path / "report.html"]
    check = "import signal, pauseframe.cli; assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN"
    assert subprocess.run([sys.executable, "-c", code, *report], check=False).returncode == 0
    assert subprocess.run([sys.executable, "-c", code, sys.executable, "-c", check], check=False).returncode == 0


def test_the_guard_loads_nothing_from_files():
    """Code that runs before the guard would be unprotected."""
    code = (
        "import sys; sys.argv[0] = 'pauseframe'\n"
        "from pathlib import Path; before = set(sys.modules)\n"
        f"exec(Path({guard!r}).read_text())\n"
        "assert set(sys.modules) - before <= {'_signal'}, set(sys.modules) - before"
    )
    subprocess.run([sys.executable, "-S", "-c", code], check=True)


def test_programs_keep_their_handling():
    """Only the command line handles Ctrl-C; importing the package does not change the handler."""
    code = (
        "import signal; mine = lambda *_: None; signal.signal(signal.SIGINT, mine)\n"
        "import pauseframe, pauseframe.cli; assert signal.getsignal(signal.SIGINT) is mine"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
