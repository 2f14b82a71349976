"""A folder of `reproduce` keeps the claims of earlier calls, and its pages name the options of their verdicts."""

import html
import json
import re
import shlex
from pathlib import Path

import pytest
from pauseframe import InputError
from pauseframe.reproduce.run import command_of, reproduce
from pauseframe.reproduce.spec import find_experiments, select
from test_fabrics import cli
from test_reproduce import folder  # noqa: F401  the fixture

CHANGE = ("--set", "topology.link.delay=1 ms")


@pytest.fixture
def folder_of_two(folder):  # noqa: F811
    """Two papers with an experiment each, of equal runs."""
    two = (folder / "tiny" / "two.toml").read_text()
    (folder / "tiny" / "more.toml").write_text(two.replace("T-1", "T-2"))
    other = folder / "other-one"
    other.mkdir()
    (other / "paper.toml").write_text('title = "O"\ncitation = "C"\n')
    (other / "two.scenario.toml").write_text((folder / "tiny" / "two.scenario.toml").read_text())
    (other / "two.toml").write_text(two.replace("T-1", "O-1"))
    return folder


def call(experiments, what, out, *more):
    done = cli("reproduce", what, "--experiments", experiments, "--out", out, "--seeds", 1, "-q", *more)
    assert done.returncode == 0, done.stderr
    return done.stderr


def claims(out):
    return [record["id"] for record in json.loads((out / "verdicts.json").read_text())]


def commands(out):
    page = (out / "tiny.html").read_text()
    return [shlex.split(html.unescape(text)) for text in re.findall(r"<pre>(pauseframe reproduce .*?)</pre>", page)]


def test_the_claims_of_earlier_calls_stay(folder_of_two, tmp_path):
    out = tmp_path / "out"
    assert call(folder_of_two, "tiny/two", out) + call(folder_of_two, "O-1", out) == ""
    assert claims(out) == ["O-1", "T-1"]
    first = (out / "tiny.html").read_text()
    assert call(folder_of_two, "tiny/more", out) == ""
    assert claims(out) == ["O-1", "T-2", "T-1"]
    page, index = (out / "tiny.html").read_text(), (out / "index.html").read_text()
    assert 'id="T-1"' in page
    assert 'id="T-2"' in page
    assert "Of 3 claims 3 are reproduced." in index
    assert "other-one.html#O-1" in index
    records = json.loads((out / "verdicts.json").read_text())
    call(folder_of_two, "all", out)
    assert json.loads((out / "verdicts.json").read_text()) == records, "the kept verdicts are those of one call"
    (folder_of_two / "tiny" / "more.toml").unlink()
    assert "had verdicts of tiny/more" in call(folder_of_two, "tiny/two", out)
    assert (out / "tiny.html").read_text() == first


@pytest.mark.parametrize("options", [CHANGE, ("--full",), ("--seed", "2"), ("--seeds", "2")])
def test_verdicts_of_other_options_are_replaced_with_a_note(folder_of_two, tmp_path, options):
    out = tmp_path / "out"
    call(folder_of_two, "all", out)
    note = call(folder_of_two, "tiny/two", out, *options)
    assert "had verdicts of other-one/two, tiny/more, tiny/two that are damaged, or of other options" in note
    assert claims(out) == ["T-1"]
    assert not (out / "other-one.html").exists()
    assert call(folder_of_two, "tiny/two", out, *options) == ""


@pytest.mark.parametrize("damage", ["", "{", '{"seal": 1}', "flip"])
def test_a_damaged_file_is_left_out_with_a_note(folder_of_two, tmp_path, damage):
    out = tmp_path / "out"
    call(folder_of_two, "tiny/two", out)
    path = out / "measured" / "tiny" / "two.json"
    path.write_text(path.read_text().replace('"value": ', '"value": 1') if damage == "flip" else damage)
    assert "had verdicts of tiny/two" in call(folder_of_two, "O-1", out)
    assert claims(out) == ["O-1"]


def test_changed_experiments_and_scenarios_are_left_out(folder_of_two, tmp_path):
    out = tmp_path / "out"
    for name, old, new in (("two.toml", "low = 8", "low = 7"), ("two.scenario.toml", "100 KB", "90 KB")):
        call(folder_of_two, "tiny", out)
        path = folder_of_two / "tiny" / name
        path.write_text(path.read_text().replace(old, new))
        assert "had verdicts of tiny/" in call(folder_of_two, "O-1", out)


def test_the_command_of_the_page_gives_its_verdict(folder_of_two, tmp_path):
    """With `--set` and `--experiments`, without which it gave another one, or none."""
    call(folder_of_two, "tiny/two", tmp_path / "out", *CHANGE)
    (words,) = commands(tmp_path / "out")
    done = cli(*words[1:], "--json", "--out", tmp_path / "again")
    (record,) = json.loads(done.stdout)
    assert [record] == json.loads((tmp_path / "out" / "verdicts.json").read_text())
    assert (record["verdict"], record["changes"]) == ("differs", {"topology.link.delay": "1 ms"})


def test_the_index_names_changed_keys_and_few_seeds(folder_of_two, tmp_path):
    call(folder_of_two, "tiny/two", tmp_path / "out", *CHANGE)
    for name in ("index.html", "tiny.html"):
        page = (tmp_path / "out" / name).read_text()
        assert "Made with topology.link.delay = 1 ms: not the paper" in page, name
        assert "Verdicts are provisional: 1 seed, fewer than the 5 that a verdict needs." in page, name
    done = cli("reproduce", "tiny", "--experiments", folder_of_two, "--out", tmp_path / "whole")
    assert "provisional" not in done.stdout + (tmp_path / "whole" / "index.html").read_text()
    done = cli("reproduce", "tiny", "--experiments", folder_of_two, "--out", tmp_path / "few", "--seeds", 4)
    assert "Verdicts are provisional: 4 seeds, fewer than the 5 that a verdict needs." in done.stdout


@pytest.mark.parametrize(("first", "count"), [(-3, 5), (2**64 - 4, 5), (2**64, 1), (-1, 1)])
def test_seeds_that_no_run_can_have_are_refused(folder_of_two, tmp_path, first, count):
    what = ("reproduce", "tiny/two", "--experiments", folder_of_two, "--out", tmp_path / "out")
    assert cli(*what, "--seed", first, "--seeds", count).returncode == 2
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="from 0 to 2"):
        reproduce(find_experiments(folder_of_two), tmp_path / "out", seed=first, seeds=count)


@pytest.mark.parametrize(("what", "settings"), [("bolt/fig02", ['stop.time="3 s"']), ("bolt/fig14", [])])
def test_the_command_has_the_kernel_and_no_change_of_what_has_no_scenario(what, settings):
    (experiment,) = select(find_experiments(), what)
    words = shlex.split(command_of(experiment, "full", [3, 4], {"stop.time": "3 s"}, Path("my kernel")))
    changed = [word for item in settings for word in ("--set", item)]
    kernel = ["--stack", "kernel", "--kernel", "my kernel"]
    assert words == ["pauseframe", "reproduce", what, "--full", "--seed", "3", "--seeds", "2", *kernel, *changed]
