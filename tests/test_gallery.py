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
    # Each choice of a path wins in one of its scenarios and loses in another.
    hashes, weights, table = numbers["polarization"], numbers["wcmp"], numbers["resilient"]
    assert hashes["crc32_same"] == pytest.approx(hashes["crc32_tier"])
    assert min(hashes["crc32_same"], hashes["murmur3_same"], hashes["siphash_same"]) > 5
    assert max(hashes["crc32_tier_rotated"], hashes["murmur3_tier"], hashes["siphash_switch"]) < 4
    assert weights["capacity_alone"] < 0.9 * weights["equal_alone"]
    assert weights["capacity_busy"] > 1.1 * weights["equal_busy"]
    assert [table[f"{index}_128"] for index in ("modulo", "threshold", "resilient")] == pytest.approx(
        [80, 50, 20], abs=8
    )
    assert table["again_modulo_128"] > table["again_threshold_128"] > table["again_resilient_128"]
    assert table["slowest_resilient_8"] > 1.1 * table["slowest_resilient_128"]
    conweave, quality, values = numbers["conweave"], numbers["ars"], numbers["entropy"]
    assert conweave["conweave_in_order"] < conweave["ecmp_in_order"] < conweave["adaptive_in_order"]
    assert conweave["adaptive_ooo_rw"] < conweave["conweave_ooo_rw"]
    assert quality["flowlet_quality_1"] < 1.01
    assert quality["flowlet_quality_200"] == quality["flowlet_random_200"]
    assert quality["packet_quality_16"] > 1.2 * quality["packet_random_16"]
    assert max(values["oblivious_known"], values["bitmap_known"]) < values["reps_known"] < values["none_known"]
    assert 10 * values["reps_unknown"] < values["bitmap_unknown"] < values["oblivious_unknown"]
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
