"""Values of NumPy, pandas, polars, Arrow and pathlib wherever the Python interface takes a value, a list or a frame."""

import enum
from pathlib import Path
from typing import Any

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.scenario.plain import native, to_plain, toml_value

np = pytest.importorskip("numpy")

STAR = """
workload = [{ kind = "n_to_1", senders = 2, size = "10 KB" }]
topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
"""
LOADED = """
stop = "1 ms"
workload = [{ kind = "background", arrivals = { kind = "load", load = 0.3 }, sizes = "web_search" }]
topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
"""
FLOWS = {
    "id": ["a", "b"],
    "src": ["host0", "host1"],
    "dst": ["host1", "host2"],
    "size_bytes": [1000, 2_000_000],
    "start_us": [1e-5, None],
    "after": [None, "a"],
}
ROWS = (
    {"id": "a", "src": "host0", "dst": "host1", "size": "1000 B", "start": "0.00001 us"},
    {"id": "b", "src": "host1", "dst": "host2", "size": "2000000 B", "after": ["a"]},
)


class Count(enum.IntEnum):
    TWO = 2


PLAIN = [
    (np.float64(0.25), 0.25),
    (np.float32(0.25), 0.25),
    (np.longdouble(0.25), 0.25),
    (np.int64(2), 2),
    (np.uint8(2), 2),
    (np.bool_(False), False),
    (np.str_("a"), "a"),
    (np.array(3), 3),
    (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    ([np.int64(1), (np.float64(2.5),)], [1, [2.5]]),
    ({"a": np.int64(1)}, {"a": 1}),
    (range(3), [0, 1, 2]),
    (pl.Series([1, 2]), [1, 2]),
    (Path("a/b"), "a/b"),
]


@pytest.mark.parametrize(("value", "plain"), PLAIN, ids=lambda one: repr(one)[:30])
def test_values_become_plain(value, plain):
    found = to_plain(value)
    assert found == plain
    assert type(found) is type(plain)
    assert toml_value(value) == toml_value(plain)


def test_types_stay_as_they_are():
    assert native(np.float64) is np.float64
    assert native(pl.DataFrame) is pl.DataFrame


def given(settings):
    return dict(one[:2] for one in pf.Scenario.from_toml(STAR).resolve(set=settings).explain())


def test_set_takes_them():
    found = given({"workload.0.senders": np.int64(1), "transport.sack": np.bool_(False), "name": Path("b")})
    assert (found["workload.0.senders"], found["transport.sack"], found["name"]) == ("1", "false", '"b"')
    assert given({"workload.0.senders": Count.TWO})["workload.0.senders"] == "2"
    run = pf.run(LOADED, set={"workload.0.arrivals.load": np.float64(0.25)}, progress=False)
    assert "load = 0.25" in run.scenario_toml


def test_a_number_is_no_name():
    with pytest.raises(pf.ScenarioError, match=r"2\.0 is a number; expected text in quotes"):
        given({"name": np.float64(2)})


@pytest.mark.parametrize("value", [object(), {1}, b"1"], ids=["object", "set", "bytes"])
def test_what_no_scenario_has_is_refused_with_what_to_write(value):
    with pytest.raises(TypeError, match='write a number, a flag, a text such as "10 us", a list or a table of them'):
        given({"workload.0.size": value})
    with pytest.raises(pf.ScenarioError, match=r"sweep.workload.0.size .*write a number"):
        pf.sweep(STAR, axes={"workload.0.size": [value]})
    with pytest.raises(TypeError, match="leave its key out"):
        given({"workload.0.size": None})


def test_objects_take_them():
    path: Any = Path("flows.csv")
    scenario = pf.Scenario(
        topology=pf.Star(np.int64(3), link=pf.Link("10 Gbps", "1 us")),
        workload=[pf.Flows(file=path)],
    )
    assert pf.Scenario(**{**vars(scenario), "topology": pf.Star(3, link=pf.Link("10 Gbps", "1 us"))}) == scenario
    assert 'file = "flows.csv"' in scenario.to_toml()
    assert "hosts = 3" in scenario.to_toml()


@pytest.mark.parametrize(
    ("axis", "seeds", "loads"),
    [
        (np.linspace(0.1, 0.2, 2), np.int64(2), [0.1, 0.2]),
        (pl.Series([0.1, 0.2]), np.arange(1, 3), [0.1, 0.2]),
        ({"from": np.float64(0.1), "to": np.float64(0.2), "steps": np.int64(2)}, range(1, 3), [0.1, 0.2]),
        ([np.float64(0.1)], {1, 2}, [0.1]),
        (iter([0.1]), (one for one in (1, 2)), [0.1]),
    ],
    ids=["arrays", "series", "range", "set", "iterator"],
)
def test_sweeps_take_them(tmp_path, axis, seeds, loads):
    sweep = pf.sweep(
        LOADED,
        axes={"workload.0.arrivals.load": axis},
        seeds=seeds,
        exclude=[],
        set={"name": np.str_("loaded")},
        out=tmp_path / "out",
        jobs=np.int64(2),
        threads=np.int64(1),
        progress=False,
    )
    assert [(row["axes"]["workload.0.arrivals.load"], row["seed"]) for row in sweep.finished] == [
        (load, seed) for seed in (1, 2) for load in loads
    ]


def test_tune_takes_them(tmp_path):
    tuning = pf.tune(
        STAR,
        parameters={"transport.initial_window": np.array(["2 segments", "10 segments"])},
        objectives=[{"minimize": "fct_us.p99"}],
        trials=np.int64(2),
        seeds=np.int64(2),
        jobs=np.int64(1),
        threads=np.int64(1),
        out=tmp_path / "out",
        play=False,
        progress=False,
    )
    assert tuning.recommended is None or set(tuning.recommended) == {"transport.initial_window"}


def test_counts_take_them():
    assert pf.run(STAR, threads=np.int64(2), seed=np.int64(3), progress=False).summary["seed"] == 3

    def program(kind: Any) -> pf.Application:
        return pf.programs(
            kind(2), lambda rank: rank.send(kind(1), kind(9), kind(4)) if rank.rank == 0 else rank.recv(kind(0))
        )

    texts = [program(int), program(np.int64)]
    assert texts[0] == texts[1]


def test_plugins_take_them():
    @pf.rate_control("arrays")
    class Arrays:
        """A test"""

        gain = pf.constant(np.float64(0.5), "gain", range=(np.float64(0), np.float64(1)))
        on = pf.constant(np.bool_(True), "flag")
        last: float = np.zeros(3)
        count: int = np.int64(4)

        def on_ack(self, pair, ack):
            pair.rate = pair.line_rate

    made = vars(Arrays)["__pauseframe_congestion_control__"]
    assert {key: one.value for key, one in made.constants.items()} == {"gain": 0.5, "on": True}
    assert (made.state["last"].length, made.state["last"].is_float, made.state["count"].default) == (3, True, 4)


FRAMES = {
    "polars": lambda: pl.DataFrame(FLOWS),
    "lazy": lambda: pl.LazyFrame(FLOWS),
    "pandas": lambda: pytest.importorskip("pandas").DataFrame(FLOWS),
    "arrow": lambda: pytest.importorskip("pyarrow").table(FLOWS),
    "batch": lambda: pytest.importorskip("pyarrow").RecordBatch.from_pydict(FLOWS),
    "reader": lambda: pytest.importorskip("pyarrow").table(FLOWS).to_reader(),
    "table": lambda: Exported(pl.DataFrame(FLOWS)),
}


class Exported:
    """A table that has nothing but Arrow's interface."""

    def __init__(self, frame):
        self.__arrow_c_stream__ = frame.__arrow_c_stream__


@pytest.mark.parametrize("kind", list(FRAMES))
def test_flows_can_be_any_frame(kind):
    frame = FRAMES[kind]
    flows: Any = pf.Flows(flows=frame())
    assert flows.flows == ROWS
    scenario = pf.Scenario(topology=pf.Star(3, link=pf.Link("10 Gbps", "1 us")), workload=[flows])
    assert pf.run(scenario, progress=False).summary["flows_finished"] == 2
    changes = {"workload": [{"kind": "flows", "flows": frame()}]}
    assert pf.run(STAR, set=changes, progress=False).summary["flows_finished"] == 2


def test_gaps_do_not_make_whole_numbers_real():
    """A column of whole numbers with a gap holds floats in pandas."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"src": ["host0", "host1"], "queue_pairs": [2.0, float("nan")]})
    assert native(frame) == [{"src": "host0", "queue_pairs": 2}, {"src": "host1"}]
    assert type(native(frame)[0]["queue_pairs"]) is int
