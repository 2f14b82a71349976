"""docs/gallery: the page has the numbers of the current simulator, and the numbers support the page's statements."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

gallery = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[1] / "tools" / "gallery.py")))


@pytest.fixture(scope="module")
def numbers():
    return gallery.draw(None)


def test_the_page_is_up_to_date(numbers):
    page = (gallery.FOLDER / "README.md").read_text(encoding="utf-8")
    assert page == gallery.page(numbers), "run `make gallery`"


def test_every_scenario_has_a_thumbnail_and_a_command():
    names = gallery.SCENARIOS
    assert sorted(names) == sorted(path.stem for path in gallery.FOLDER.glob("*.toml"))
    assert sorted(names) == sorted(path.stem for path in gallery.FOLDER.glob("*.svg"))
    page = (gallery.FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f" {name}.toml\n" in page for name in names)


def test_what_the_page_says_without_a_number_holds(numbers):
    """The page states in words that lossless runs lose nothing, that a flow starves, and that a link halves."""
    assert numbers["incast"]["tcp_bolt_drops"] == 0
    assert min(numbers["incast"]["cubic_ms"], numbers["incast"]["dctcp_ms"]) > 200
    assert [numbers[name]["drops"] for name in ("storm", "victim", "roce", "all_reduce")] == [0, 0, 0, 0]
    # Parts win where paths collide, and a spray loses where receivers keep order.
    collisions, overtaking = numbers["collisions"], numbers["overtaking"]
    assert collisions["ecmp_1"] > collisions["ecmp_4"] > collisions["ecmp_16"] > collisions["adaptive_1"]
    assert overtaking["spray_g"] > 5 * max(overtaking["ecmp_g"], overtaking["spray_s"])
    assert overtaking["letflow_g"] == pytest.approx(overtaking["ecmp_g"], rel=0.3)
    lot = numbers["parking_lot"]
    # 1/2, 1/4, 1/8, 1/16, 1/16: each link is divided equally between the next switch and the next host.
    shares = [lot[f"host{index}"] / (5 * lot["fair"]) for index in range(5)]
    assert shares == pytest.approx([1 / 16, 1 / 16, 1 / 8, 1 / 4, 1 / 2], rel=0.03)
    # Choudhury and Hahne: n queues with alpha = 1 hold B / (1 + n) each.
    thresholds = numbers["dynamic_thresholds"]
    assert [thresholds[f"queue{n}_kb"] for n in (1, 2, 3)] == pytest.approx(
        [1000 / (1 + n) for n in (1, 2, 3)], rel=0.01
    )
    assert numbers["deadlock"]["finished"] == 0
