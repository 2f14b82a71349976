"""What a plug-in's source reaches: random numbers, clocks, fields in helper functions, modules and libraries."""

import itertools
import json
import linecache
import re
import shlex
import shutil
import subprocess
import sys

import pauseframe as pf
import pytest
from pauseframe.plugins import load
from test_cli import cli
from test_plugins import EXAMPLES, INCAST, library
from test_rate_plugins import INCAST as RATE_INCAST

pytest.importorskip("numba")

numbers = itertools.count()
TCP = """
import pauseframe as pf
{head}

@pf.congestion_control("{stem}"{options})
class Mine:
    \"\"\"A test\"\"\"

    def increase(self, window, ack):
        {body}

    def reduced(self, window, cause):
        return max(window.cwnd // 2, window.mss)

{helper}
"""
RATE = """
import pauseframe as pf
{head}

@pf.rate_control("{stem}"{options})
class Mine:
    \"\"\"A test\"\"\"

    count: int = 0

    def on_ack(self, pair, ack):
        {body}

{helper}
"""


def loaded(folder, body, *, text=TCP, head="", helper="", interpreted=False):
    """Loads a plug-in file with a unique name."""
    stem = f"source{next(numbers)}"
    file = folder / f"{stem}.py"
    options = ", compile=False" if interpreted else ""
    file.write_text(text.format(head=head, stem=stem, options=options, body=body, helper=helper))
    return load.load([file])[0]


# Values that no seed decides

UNSEEDED = {
    "from": ("from random import random", "random()"),
    "alias of numpy": ("from numpy import random as rr", "rr.rand()"),
    "clock": ("from time import perf_counter", "perf_counter()"),
    "date": ("import datetime", "datetime.datetime.now().microsecond"),
    "class of a date": ("from datetime import datetime as d", "d.now().microsecond"),
    "system": ("import os", "os.urandom(1)[0]"),
    "generator": ("import numpy as np\nRNG = np.random.default_rng(3)", "RNG.random()"),
    "object": ("import random\nRNG = random.Random(3)", "RNG.random()"),
    "table": ("import random\nDRAWS = {'a': random.random}", "DRAWS['a']()"),
    "partial": ("import functools, random\ndraw = functools.partial(random.uniform, 0, 1)", "draw()"),
    "class": (
        "import random\nclass Rng:\n    def draw(self):\n        return random.random()\nRNG = Rng()",
        "RNG.draw()",
    ),
    "default": ("import random\ndef draw(of=random.random):\n    return of()", "draw()"),
    "compiled": ("import numba, random\n@numba.njit\ndef draw():\n    return random.random()", "draw()"),
    "argument": ("import random\ndef call(of):\n    return of()", "call(random.random)"),
    "import by name": ("", "__import__('random').random()"),
    "value": ("import random\nSHARE = random.random()", "SHARE"),
    "values": ("import numpy as np\nTABLE = []\nfor _ in range(3):\n    TABLE.append(np.random.rand())", "TABLE[0]"),
    "address": ("", "id(self)"),
}


@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("how", UNSEEDED)
def test_values_that_no_seed_decides_are_refused(tmp_path, how, interpreted):
    head, value = UNSEEDED[how]
    with pytest.raises(pf.InputError, match="differs from run to run of one seed") as error:
        loaded(tmp_path, f"window.cwnd += int({value})", head=head, interpreted=interpreted)
    assert "line " in str(error.value)


def test_a_helper_has_its_line(tmp_path):
    helper = "def draw(self):\n    return deeper()\n\ndef deeper():\n    return random.random()\n"
    with pytest.raises(pf.InputError, match=r"deeper, called by Mine.increase \(.*, line 19\): random.random differs"):
        loaded(tmp_path, "window.cwnd += int(draw(self))", head="import random", helper=helper)


def test_an_import_in_a_method_is_followed(tmp_path):
    body = "from random import random as r; window.cwnd += int(r())"
    with pytest.raises(pf.InputError, match=r"line 10\): r differs from run to run"):
        loaded(tmp_path, body, interpreted=True)


SEEDED = [
    "import numpy as np\nTABLE = np.random.default_rng(3).random(8)",
    "import numpy as np\nnp.random.seed(4)\nTABLE = np.random.rand(8)",
    "import numpy as np\ndef made():\n    rng = np.random.default_rng(4)\n    return rng.random(8)\nTABLE = made()",
    "import random\nRNG = random.Random(4)\nTABLE = (RNG.random(), 0.5)",
]


@pytest.mark.parametrize("head", SEEDED)
def test_a_table_of_a_generator_with_a_seed_is_fine(tmp_path, head):
    file = loaded(tmp_path, "window.cwnd += int(ack.acked * TABLE[1])", head=head)
    assert file.names


def test_objects_of_the_user_cause_no_notes(tmp_path, capfd):
    head = """
import collections, dataclasses, math
Pair = collections.namedtuple("Pair", "a b")
PAIR = Pair(1, 2)
@dataclasses.dataclass
class Step:
    size: float = 2.0
    @classmethod
    def twice(cls):
        return cls(4.0)
    def grown(self, by):
        return self.size * by
STEP = Step.twice()
"""
    loaded(tmp_path, "window.cwnd += int(STEP.grown(PAIR.a) + math.sqrt(4.0))", head=head, interpreted=True)
    assert "not checked" not in capfd.readouterr().err


def test_functions_that_hand_each_other_on_end(tmp_path):
    """Methods of objects and inner functions are new objects each time."""
    head = "class Box:\n    def get(self, f):\n        return 1\nBOX = Box()\ndef again(f):\n    return again(BOX.get)"
    head += "\ndef inner(f):\n    return inner(lambda: f) if f is None else 1"
    assert loaded(tmp_path, "window.cwnd += inner(BOX.get)", head=head, interpreted=True).names
    assert loaded(tmp_path, "window.cwnd += again(1)", head=head, interpreted=True).names


def test_a_value_of_a_star_import_is_followed(tmp_path):
    (tmp_path / "starred.py").write_text("import random\nSHARE = random.random()\n")
    with pytest.raises(pf.InputError, match=r"SHARE, used by Mine.increase \(.*starred.py, line 2\)"):
        loaded(tmp_path, "window.cwnd += int(SHARE)", head="from starred import *")


def test_what_cannot_be_followed_is_noted(tmp_path, capfd):
    head = "import polars\ndef apply(function, *values):\n    return 1"
    body = "window.cwnd += eval('1') + len(polars.Series([1])) + apply(max, *(window, 2))"
    file = loaded(tmp_path, body, head=head, interpreted=True)
    notes = [line for line in capfd.readouterr().err.splitlines() if "not checked" in line]
    assert [file.path in line and "line 12" in line for line in notes] == [True] * len(notes)
    for what in ("eval('1')", "polars.Series is of another package", "*arguments", "fields of window"):
        assert sum(what in line for line in notes) == 1, notes


# Fields in helper functions

FIELDS = {
    "unknown": ("helper(self, pair)", "def helper(self, p):\n    p.rat = 5", "p has no field rat; did you mean rate"),
    "state": ("helper(self)", "def helper(me):\n    me.cut = 5", "me has no field cut; did you mean count"),
    "read only": ("helper(pair)", "def helper(p):\n    p.mtu = 3", "p.mtu can only be read"),
    "by name": ("helper(of=pair)", "def helper(of):\n    of.mtu = 3", "of.mtu can only be read"),
    "alias": ("p = pair; p.mtu = 3", "", "p.mtu can only be read"),
    "telemetry": ("helper(ack)", "def helper(a):\n    return a.hop_queue[0]", "only with telemetry=True"),
    "two calls": (
        "one(pair)",
        "def one(p):\n    two(p)\n\ndef two(q):\n    q.links += 1",
        "two, called by Mine.on_ack .* q.links can only",
    ),
    "uniform": ("pair.rate = int(pf.uniform(ack))", "", r"pf.uniform\(ack\): record has no field random"),
}


@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("how", FIELDS)
def test_fields_in_helpers_are_checked(tmp_path, how, interpreted):
    body, helper, message = FIELDS[how]
    with pytest.raises(pf.InputError, match=message) as error:
        loaded(tmp_path, body, text=RATE, helper=helper, interpreted=interpreted)
    lines = (tmp_path / error.value.args[0].partition(f"{tmp_path}/")[2].partition(",")[0]).read_text().splitlines()
    field, *_ = re.findall(r"\): (?:pf\.uniform\()?(\w+)", str(error.value))
    line, *_ = re.findall(r"line (\d+)\)", str(error.value))
    assert field in lines[int(line) - 1]


def test_the_rate_of_a_delivery_can_only_be_read(tmp_path):
    text = TCP.replace("increase(self, window, ack)", "on_delivery(self, window, delivery)").partition(
        "    def reduced"
    )[0]
    with pytest.raises(pf.InputError, match=r"delivery.rate can only be read"):
        loaded(tmp_path, "delivery.rate = 5", text=text + "\n{helper}")


@pytest.mark.parametrize(
    ("statement", "message"),
    [("one.rat = 5", "there is no field pair.rat"), ("one.mtu = 3", "pair.mtu can only be read")],
)
def test_the_interpreter_refuses_what_the_walk_does_not_see(tmp_path, statement, message):
    file = loaded(tmp_path, f"for one in (pair,): {statement}", text=RATE, interpreted=True)
    with pytest.raises(pf.RunError, match=message) as error:
        pf.run(RATE_INCAST, set={"transport.rdma_control": file.names[0]}, progress=False)
    assert f"{file.path}, line 12" in str(error.value)


# Modules of the user's own

PARM = """
import pauseframe as pf
from best{n} import BEST
import tables{n}.rows


@pf.rate_control("parm{n}"{options})
class Parm:
    \"\"\"A test\"\"\"

    share = pf.constant(1.0, "Share")

    def on_start(self, pair):
        {lazy}
        pair.rate = int(pair.line_rate * BEST * self.share * tables{n}.rows.ROW)

    def on_ack(self, pair, ack):
        pass
"""


def parm(folder, best=0.5, row=1.0, n=None, options="", lazy="pass"):
    """A plug-in with a module and a package beside it; returns its file and its name."""
    n = next(numbers) if n is None else n
    folder.mkdir(exist_ok=True)
    (folder / f"best{n}.py").write_text(f"BEST = {best}\n")
    package = folder / f"tables{n}"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text("from . import rows\n")
    (package / "rows.py").write_text("from .cells import ROW\n")
    (package / "cells.py").write_text(f"ROW = {row}\n")
    file = folder / f"parm{n}.py"
    file.write_text(PARM.format(n=n, options=options, lazy=lazy))
    return file, f"parm{n}:parm{n}", n


def scenario(name, folder=None, share=1.0):
    constant = f"{name.rpartition(':')[2]}_share = {share}"
    own = f'transport = {{ rdma_control = "{name}", {constant},'
    text = RATE_INCAST.replace("transport = {", own)
    if folder is not None:
        (folder / "scenario.toml").write_text(text)
    return text


def ran(file, name):
    return pf.run(scenario(name), plugins=[file], progress=False)


def test_the_digest_covers_modules_and_their_modules(tmp_path):
    """In one process: nothing of the earlier version is left."""
    file, name, n = parm(tmp_path / "a")
    runs = [ran(file, name)]
    for change in ({"best": 0.25}, {"row": 0.75}, {}):
        parm(tmp_path / "a", n=n, **change)
        runs.append(ran(file, name))
    prints = [run.summary["fingerprint"] for run in runs]
    assert (len(set(prints)), prints[0]) == (3, prints[3])
    assert len({run.scenario_toml for run in runs}) == 3
    pf.run(scenario(name), plugins=[file], out=tmp_path / "out", progress=False)
    (record,) = json.loads((tmp_path / "out" / "manifest.json").read_text())["plugins"]
    assert record["source"].startswith(file.read_text())
    assert "BEST = 0.5" in record["source"]


def test_a_second_run_of_a_changed_module_is_computed(tmp_path):
    file, name, n = parm(tmp_path / "a")
    scenario(name, tmp_path)
    command = ("run", "scenario.toml", "--plugin", file, "--json")
    prints = []
    for best in (0.5, 0.25):
        parm(tmp_path / "a", best, n=n)
        done = cli(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        prints.append(json.loads(done.stdout)["fingerprint"])
    assert prints[0] != prints[1]
    assert "already" in cli(*command, cwd=tmp_path).stderr


def test_two_plugins_have_modules_of_one_name(tmp_path):
    first, name, n = parm(tmp_path / "a", 0.5)
    second, _, _ = parm(tmp_path / "b", 0.25, n=n)
    other = second.with_name(f"other{n}.py")
    other.write_text(second.read_text().replace(f'"parm{n}"', f'"other{n}"'))
    load.load([first, other])
    prints = [ran(first, name).summary["fingerprint"], ran(other, f"other{n}:other{n}").summary["fingerprint"]]
    assert prints[0] != prints[1]
    assert f"best{n}" not in sys.modules


def test_a_method_imports_a_module_of_the_user_as_it_runs(tmp_path):
    file, name, n = parm(tmp_path / "a", 0.5, options=", compile=False")
    before = ran(file, name).summary["fingerprint"]
    file.write_text(PARM.format(n=n, options=", compile=False", lazy=f"from late{n} import BEST"))
    (tmp_path / "a" / f"late{n}.py").write_text("BEST = 0.25\n")
    axes = {f"transport.{name.rpartition(':')[2]}_share": [1.0]}
    sweep = pf.sweep(scenario(name), axes=axes, plugins=[file], out=tmp_path / "s", progress=False)
    assert sweep.failures == []
    assert sweep.manifests[0]["fingerprint"] != before


@pytest.mark.parametrize("keep_files", [True, False])
def test_workers_get_modules(tmp_path, keep_files):
    from pauseframe.sweep.plan import Source
    from pauseframe.sweep.task import Target, task_for

    file, name, _ = parm(tmp_path / "a")
    load.load([file])
    plan = Source.read(scenario(name)).plan()
    task = task_for(plan.runs[0], Target(plugins=plan.plugins))
    if not keep_files:
        shutil.rmtree(tmp_path / "a")
    assert worked(tmp_path, [task]) == [None]


def worked(folder, tasks):
    """The errors of tasks in a worker of another folder."""
    code = (
        "import json, sys\nfrom pauseframe.sweep.task import Computer\ncomputer = Computer()\n"
        "print(json.dumps([computer.compute(one).get('error') for one in json.load(sys.stdin)]))\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=json.dumps(tasks), capture_output=True, text=True, check=True, cwd=folder)
    return json.loads(done.stdout)


def test_each_run_after_a_failed_load_gives_the_true_reason(tmp_path):
    """A worker gets the plug-in once."""
    from pauseframe.sweep.plan import Source
    from pauseframe.sweep.task import Target, task_for

    file, name, _ = parm(tmp_path / "a")
    load.load([file])
    plan = Source.read(scenario(name)).plan()
    first = task_for(plan.runs[0], Target(plugins=plan.plugins))
    first["plugins"][0]["others"] = {}
    shutil.rmtree(tmp_path / "a")
    second = {key: value for key, value in first.items() if key != "plugins"}
    errors = worked(tmp_path, [first, second, second])
    assert "No module named" in errors[0]
    assert errors[1:] == [errors[0]] * 2


def test_a_sweep_takes_modules_along(tmp_path):
    file, name, _ = parm(tmp_path / "a")
    scenario(name, tmp_path)
    key = f"transport.{name.rpartition(':')[2]}_share"
    done = cli("sweep", "scenario.toml", "--plugin", file, "--set", f"{key}=1,0.5", "--out", "s", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len({one["fingerprint"] for one in pf.load_sweep(tmp_path / "s").manifests}) == 2


def test_the_command_that_repeats_a_failed_run_loads_the_plugin(tmp_path):
    body = "pair.timer = 0 * (1 // (self.k - 3))"
    stem = f"source{next(numbers)}"
    text = RATE.format(head="", stem=stem, options=", compile=False", body=body, helper="")
    (tmp_path / f"{stem}.py").write_text(text.replace("count: int = 0", "k = pf.constant(1, 'k')"))
    (tmp_path / "scenario.toml").write_text(
        RATE_INCAST.replace("preset =", f'rdma_control = "{stem}:{stem}", preset =')
    )
    options = ("--plugin", f"{stem}.py", "--set", f"transport.{stem}_k=1,3", "--out", "out")
    cli("sweep", "scenario.toml", *options, cwd=tmp_path)
    (failure,) = pf.load_sweep(tmp_path / "out").failures
    again = cli(*shlex.split(failure["command"])[1:], cwd=tmp_path)
    assert "ZeroDivisionError" in again.stderr, again.stderr
    assert f"--plugin {stem}.py" in failure["command"]


@pytest.mark.parametrize(("value", "message"), [("None", "it returns nothing"), ("'a'", "it returns text")])
def test_a_result_that_is_no_number_is_named_in_the_interpreter(tmp_path, value, message):
    text = TCP.replace("return max(window.cwnd // 2, window.mss)", f"return {value}")
    file = loaded(tmp_path, "window.cwnd += ack.acked", text=text, interpreted=True)
    with pytest.raises(pf.RunError, match=f"{message}: return a whole number") as error:
        pf.run(INCAST, set={"transport.congestion_control": file.names[0]}, progress=False)
    assert "compile=False" not in str(error.value)
    assert f"{file.path}:12" in str(error.value)


def test_a_mistake_in_a_module_has_its_line(tmp_path):
    file, _, n = parm(tmp_path / "a")
    (tmp_path / "a" / f"best{n}.py").write_text("\nBEST = 1 / 0\n")
    with pytest.raises(pf.InputError, match=rf"best{n}.py, line 2\): ZeroDivisionError"):
        load.load([file])
    (tmp_path / "a" / f"best{n}.py").write_text("import random\nBEST = random.random()\n")
    with pytest.raises(
        pf.InputError, match=rf"BEST, used by Parm.on_start \(.*best{n}.py, line 2\): random.random\(\)"
    ):
        load.load([file])


# Classes of notebooks


def test_cells_of_a_notebook_count(tmp_path):
    """A cell that is run again with another value or function gives another digest; the same cell gives the same."""
    names = {"__name__": "__main__"}

    def cell(text):
        file = f"<ipython-input-{next(numbers)}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), names)
        if "Mine" not in names:
            return None
        changes = {"transport.rdma_control": f"notebook:{name}"}
        run = pf.run(RATE_INCAST, set=changes, plugins=[names["Mine"]], progress=False)
        return run.summary["fingerprint"], run.scenario_toml

    name = f"cell{next(numbers)}"
    cell("BEST = 0.5\ndef share():\n    return BEST\n")
    first = cell(
        RATE.format(head="", stem=name, options="", body="pair.rate = int(pair.line_rate * share())", helper="")
    )
    second, third = cell("BEST = 0.25"), cell("def share():\n    return 0.125\n")
    assert len({first, second, third}) == 3
    assert [len({one[n] for one in (first, second, third)}) for n in (0, 1)] == [3, 3]
    assert cell("BEST = 0.5\ndef share():\n    return BEST\n") == first
    with pytest.raises(pf.InputError, match=r"share, called by Mine.on_ack \(<ipython-input-\d+>, line 3\): random"):
        cell("import random\ndef share():\n    return random.random()\n")


# Libraries of the user's own


def linked(folder, factor):
    """AIMD that calls a library beside it."""
    folder.mkdir(exist_ok=True)
    (folder / "steps.c").write_text(f"long steps(void) {{ return {factor}; }}\n")
    library(folder / "steps.c", folder / "libsteps.so", "-Wl,-soname,libsteps.so")
    text = (EXAMPLES / "aimd.c").read_text()
    text = text.replace("aimd_c", "linked_c")
    (folder / "linked.c").write_text(
        "extern long steps(void);\n" + text.replace("+= segments *", "+= steps() * segments *")
    )
    return library(
        folder / "linked.c", folder / "linked.so", "-Wl,--no-as-needed", f"-L{folder}", "-lsteps", "-Wl,-rpath,$ORIGIN"
    )


CHECK = (
    "import sys, pauseframe as pf\n"
    "changes = {{'transport.congestion_control': 'linked:linked_c'}}\n"
    "run = pf.run({text!r}, set=changes, plugins=[{file!r}], progress=False)\n"
    "import hashlib; print(hashlib.sha256(run.scenario_toml.encode()).hexdigest())\n"
)


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF and /proc")
def test_the_digest_covers_linked_libraries(tmp_path):
    digests = []
    for factor in (1, 2, 1):
        file = linked(tmp_path / "a", factor)
        code = CHECK.format(text=INCAST, file=str(file))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        digests.append(done.stdout)
    assert (digests[0] == digests[2], digests[0] == digests[1]) == (True, False)


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF and /proc")
def test_workers_get_linked_libraries(tmp_path):
    from pauseframe.sweep.plan import Source
    from pauseframe.sweep.task import Target, task_for

    file = linked(tmp_path / "a", 1)
    (loaded_file,) = load.load([file])
    assert [name for name, _ in loaded_file.others] == ["libsteps.so"]
    source = Source.read(INCAST)
    source.set({"transport.congestion_control": "linked:linked_c"})
    plan = source.plan()
    task = task_for(plan.runs[0], Target(plugins=plan.plugins))
    shutil.rmtree(tmp_path / "a")
    assert worked(tmp_path, [task]) == [None]
    linked(tmp_path / "a", 2)
    with pytest.raises(pf.InputError, match="has changed since this process loaded it"):
        load.load([file])


def test_a_library_that_was_built_again_is_loaded_again(tmp_path):
    def built(factor):
        text = (EXAMPLES / "aimd.c").read_text().replace("aimd_c", "again_c")
        text = text.replace("+= segments *", f"+= {factor} * segments *")
        (tmp_path / "again.c").write_text(text)
        file = library(tmp_path / "again.c", tmp_path / "again.so")
        changes = {"transport.congestion_control": "again:again_c"}
        return pf.run(INCAST, set=changes, plugins=[file], progress=False).summary["fingerprint"]

    first, second, third = built(1), built(3), built(1)
    assert (first == third, first == second) == (True, False)
