"""In a notebook: figures are drawn in their frames, wrong requests name the cure, and `dir` lists every public name."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pauseframe as pf
import pytest

if TYPE_CHECKING:
    from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SCENARIO = """name = "two"
topology = { kind = "star", hosts = 4, link = { rate = "10 Gbps", delay = "1 us" } }
workload = [{ kind = "n_to_1", size = "200 KB" }]
record = { states = true, series = { every = "10 us", ports = ["*"] } }
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> pf.Run:
    return pf.run(SCENARIO, out=tmp_path_factory.mktemp("notebook") / "two", progress=False)


def test_dir_is_whole() -> None:
    assert {*pf.__all__} <= {*dir(pf)}
    assert all(hasattr(pf, name) for name in dir(pf))


def test_frames_show_their_figures(run: pf.Run, tmp_path: Path) -> None:
    """A browser draws the frame of each: a chart with ink, the player with its clock."""
    api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install 'pauseframe[dev]'")
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    other = pf.run(SCENARIO, set={"transport.preset": "dctcp", "name": "other"}, progress=False)
    sweep = pf.sweep(SCENARIO, axes={"transport.preset": ["cubic", "dctcp"]}, seeds=2, out=tmp_path / "sweep")
    shown = [run.plot(), run.plot("backlog_bytes", "switch:*", beside=[other]), sweep.plot(), run.report(), run.view()]
    page_file = tmp_path / "cells.html"
    page_file.write_text("<!doctype html><title>cells</title>" + "".join(one._repr_html_() for one in shown))
    said: list[str] = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1000, "height": 6000})
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(page_file.as_uri())
        frames = page.frames[1:]
        for frame in frames:
            frame.wait_for_selector("html[data-ready]")
        for frame in frames[:4]:
            frame.wait_for_function("plots.size > 0")
        counts = [frame.evaluate("document.querySelectorAll('[data-figure]').length") for frame in frames[:3]]
        inside = [frame.evaluate("document.documentElement.scrollHeight <= innerHeight") for frame in frames[:3]]
        browser.close()
    assert said == []
    assert counts == [1, 2, 1]
    assert inside == [True, True, True], "no figure needs a second scroll bar"


def test_what_cannot_be_shown_names_the_cure(run: pf.Run, tmp_path: Path) -> None:
    in_memory = pf.run(SCENARIO, set={"record.series": False, "record.states": False}, progress=False)
    with pytest.raises(pf.InputError, match="did you mean cwnd_bytes"):
        run.plot("cwnd")
    with pytest.raises(pf.InputError, match=r"record them with record\.series"):
        in_memory.plot("backlog_bytes")
    with pytest.raises(pf.InputError, match=r"have a name like nobody\*; recorded are host0:0/p0"):
        run.plot("backlog_bytes", "nobody*")
    with pytest.raises(pf.InputError, match="give it a folder"):
        in_memory.view()
    path = run.plot().save(tmp_path / "plot.html")
    assert path.stat().st_size < 150_000
    assert repr(run.plot()).startswith("<figure of received_bps")


def test_a_control_without_alpha_is_named() -> None:
    flows = {"record.series": {"every": "10 us", "flows": ["*"]}, "record.states": False}
    cubic, dctcp = {"transport.preset": "cubic"}, {"transport.preset": "dctcp"}
    with pytest.raises(pf.InputError, match=r"has samples of flows.*alpha\(self\)"):
        pf.run(SCENARIO, set=cubic | flows, progress=False).plot("alpha")
    with pytest.raises(pf.InputError, match=r"record them with record\.series"):
        pf.run(SCENARIO, set=cubic | {"record.series": False}, progress=False).plot("alpha")
    assert pf.run(SCENARIO, set=dctcp | flows, progress=False).plot("alpha").html
