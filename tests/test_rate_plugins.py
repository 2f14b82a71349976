"""Congestion controls of queue pairs as plug-ins, and controls of TCP that set the window by delivery samples."""

import itertools
import shutil
import subprocess
from pathlib import Path

import pauseframe as pf
import polars as pl
import pytest
from pauseframe import _core

pytest.importorskip("numba")

EXAMPLES = Path(__file__).parent.parent / "examples" / "plugins"
INCAST = """
name = "incast"
stop = "3 ms"
topology = { kind = "star", hosts = 9, link = { rate = "100 Gbps", delay = "1 us" } }
workload = [{ kind = "n_to_1", senders = 8, size = "1 MB" }]
transport = { preset = "roce_dcqcn" }
"""
TWO_TCP = """
name = "two"
stop = "100 ms"
topology = { kind = "star", hosts = 3, link = { rate = "1 Gbps", delay = "50 us" } }
workload = [{ kind = "n_to_1", senders = 2, size = "1 GB" }]
"""
PER_PACKET, ON_THE_WIRE = 1024, 1024 + 44 + 18 + 4 + 20
"""Bytes of payload, and with headers, tag, preamble and gap."""
numbers = itertools.count()


def written(folder, body, *, decorator='pf.rate_control("mine"{})', options="", head=""):
    """A plug-in file with a unique name, because modules stay loaded; returns the file and the name of its control."""
    stem = f"rates{next(numbers)}"
    lines = body.strip("\n").splitlines()
    text = "\n".join(
        [
            "import pauseframe as pf",
            head,
            f"@{decorator.format(options)}",
            "class Mine:",
            '    """A test"""',
            *(f"    {one}" for one in lines),
        ]
    )
    (folder / f"{stem}.py").write_text(text + "\n")
    return folder / f"{stem}.py", f"{stem}:mine"


def ran(file, name, scenario=INCAST, key="transport.rdma_control", **settings):
    return pf.run(scenario, plugins=[file], set={key: name, **settings}, progress=False)


HOLD = """
def on_ack(self, pair, ack):
    pair.rate = pair.line_rate // 16
"""


@pytest.mark.parametrize("compiled", [True, False])
def test_timely_has_the_fingerprint_of_the_built_in_one(tmp_path, compiled):
    text = (EXAMPLES / "timely_py.py").read_text()
    file, own = tmp_path / f"timely{next(numbers)}.py", "timely_py" if compiled else "timely_slow"
    file.write_text(text.replace('"timely_py"', f'"{own}", compile={compiled}'))
    built_in = pf.run(INCAST, set={"transport.rdma_control": "timely"}, progress=False)
    assert ran(file, f"{file.stem}:{own}").summary["fingerprint"] == built_in.summary["fingerprint"]


def test_a_rate_holds(tmp_path):
    """Eight senders at 1/16 of 100 Gb/s: what 1 MB costs on the wire takes 1.39 ms."""
    file, name = written(tmp_path, HOLD + "\ndef on_start(self, pair):\n    pair.rate = pair.line_rate // 16\n")
    flows = ran(file, name).flows.to_polars()
    expected = 1e6 * 8 * ON_THE_WIRE / PER_PACKET / (100e3 / 16)
    assert flows["fct_us"].to_list() == pytest.approx([expected] * 8, rel=0.005)


def test_a_window_holds(tmp_path):
    body = "def on_start(self, pair):\n    pair.window = 2 * pair.mtu\n\ndef on_ack(self, pair, ack):\n    pass\n"
    file, name = written(tmp_path, body, options=", window=True")
    run = ran(file, name, **{"workload.senders": 1})
    rtt = run.flows.to_polars()["fct_us"][0] / (1e6 / PER_PACKET / 2)
    # Two packets in each round trip: four microseconds of links, a packet on two of them and its acknowledgement.
    assert rtt == pytest.approx(4 + 2 * ON_THE_WIRE * 8 / 100e3, abs=0.05)


def test_packets_below_a_window_are_acknowledged(tmp_path):
    """`window=True` alone changes nothing: every packet asks for an acknowledgement while the window is above 0."""
    one = INCAST.replace("hosts = 9", "hosts = 2").replace("senders = 8", "senders = 1")
    acks = {}
    for size in (0, 1 << 30):
        body = f"def on_start(self, pair):\n    pair.window = {size}\n\ndef on_ack(self, pair, ack):\n    pass\n"
        file, name = written(tmp_path, body, options=", window=True")
        ports = ran(file, name, one).ports.to_polars()
        acks[size] = ports.filter(pl.col("port").cast(pl.String) == "host0:0")["tx_packets"].sum()
    packets = -(-1_000_000 // PER_PACKET)
    assert acks[1 << 30] == packets
    assert packets // 17 < acks[0] < packets // 10, "rdma_ack_every is 16"


def test_a_timer_comes_when_it_is_due(tmp_path):
    body = """
    fired: int = 0

    def on_start(self, pair):
        pair.rate = pair.line_rate // 100
        pair.timer = pair.now + 100 * pf.MICROSECOND

    def on_timer(self, pair):
        self.fired += 1
        pair.rate = pair.line_rate

    def on_ack(self, pair, ack):
        pass
    """
    file, name = written(tmp_path, "\n".join(line[4:] for line in body.splitlines()))
    fct = ran(file, name, **{"workload.senders": 1}).flows.to_polars()["fct_us"][0]
    # 11 packets of 9 us each at 1 Gb/s, a twelfth that ends at 107 us; the rest goes at 100 Gb/s.
    rest = (1e6 / PER_PACKET - 12) * ON_THE_WIRE * 8 / 100e3
    assert fct == pytest.approx(107 + rest + 2, abs=2)


def test_cnps_come_only_for_a_control_that_takes_them(tmp_path):
    deaf, deaf_name = written(tmp_path, HOLD.replace("// 16", "// 1"))
    body = HOLD.replace("pair.rate = pair.line_rate // 16", "pass")
    hearing, name = written(tmp_path, body + "\ndef on_cnp(self, pair):\n    pair.rate = pair.rate // 2 + 1\n")
    assert _cnps(ran(deaf, deaf_name)) == 0
    heard = ran(hearing, name)
    assert _cnps(heard) > 0
    assert heard.summary["pfc_pauses"] <= ran(deaf, deaf_name).summary["pfc_pauses"]


def _cnps(run):
    return int(run.flows.to_polars()["cnps_received"].sum())


def test_telemetry_is_that_of_the_port(tmp_path):
    """On an idle path the link behind the switch is seen at the rate at which it carries: HPCC's u of a hop."""
    body = """
    time: int = 0
    bytes: int = 0
    bad: int = 0

    def on_start(self, pair):
        pair.rate = pair.line_rate // 2

    def on_ack(self, pair, ack):
        if ack.hops != 1 or ack.hop_rate[0] != pair.line_rate:
            self.bad += 1
        if self.time > 0 and ack.hop_time[0] - self.time > 20 * pf.MICROSECOND:
            rate = (ack.hop_bytes[0] - self.bytes) * 8.0 / (ack.hop_time[0] - self.time) * pf.SECOND
            if rate < 0.45 * pair.line_rate or rate > 0.55 * pair.line_rate:
                self.bad += 1
        if ack.hop_time[0] - self.time > 20 * pf.MICROSECOND:
            self.time = ack.hop_time[0]
            self.bytes = ack.hop_bytes[0]
        if self.bad > 0:
            pair.rate = 0
    """
    body = "\n".join(line[4:] for line in body.splitlines())
    file, name = written(tmp_path, body, options=", telemetry=True")
    assert ran(file, name, **{"workload.senders": 1}).summary["flows_finished"] == 1


@pytest.mark.parametrize("size", [100, 1024, 1500])
def test_short_packets_count_as_their_bytes(tmp_path, size):
    body = f"""
total: int = 0

def on_ack(self, pair, ack):
    self.total += ack.acked
    if ack.una != self.total or ack.una > ack.nxt or ack.nxt > {size}:
        pair.rate = 0
"""
    file, name = written(tmp_path, body)
    run = ran(file, name, **{"workload.senders": 1, "workload.size": f"{size} B"})
    assert run.summary["flows_finished"] == 1


@pytest.mark.parametrize(
    ("body", "options", "message"),
    [
        (HOLD.replace("pair.line_rate // 16", "0"), "", "set rate to 0"),
        (HOLD.replace("rate = pair.line_rate // 16", "window = 8192"), "", "write window=True in @rate_control"),
        (HOLD.replace("rate = pair.line_rate // 16", "timer = pair.now"), "", "not after pair.now"),
        (HOLD.replace("rate = pair.line_rate // 16", "timer = pair.now + 1"), "", "has no function on_timer"),
        ("x: float = 1e308" + HOLD.replace("pair.line_rate // 16", "self.x * 10.0 - self.x * 10.0"), "", "rate to NaN"),
        (HOLD.replace("pair.line_rate // 16", "1e300"), "", "set rate to NaN or a number out of range"),
        (HOLD.replace("rate = pair.line_rate // 16", "timer = 1e300"), "", "set timer to NaN or a number out of range"),
        (
            HOLD.replace("rate = pair.line_rate // 16", "window = 1e300"),
            ", window=True",
            "set window to NaN or a number",
        ),
        (HOLD.replace("line_rate // 16", "line_rate + ack.hop_queue[ack.packets + 7]"), ", telemetry=True", "its line"),
        (HOLD.replace("rate = pair.line_rate // 16", "rate = ack.acked // (ack.acked - ack.acked)"), "", "its line"),
    ],
)
def test_a_wrong_value_ends_the_run(tmp_path, body, options, message):
    file, name = written(tmp_path, body, options=options)
    with pytest.raises(pf.RunError, match="function on_ack") as error:
        ran(file, name)
    assert message.replace("its line", f"{file.name}:6") in str(error.value)


@pytest.mark.parametrize(
    ("body", "head", "message"),
    [
        ("def on_start(self, pair):\n    pass", "", r"has no on_ack\(self, pair, ack\)"),
        ("def on_ack(self, pair, ack):\n    pair.cwnd = 1", "", "pair has no field cwnd"),
        ("def on_ack(self, flow, ack):\n    flow.rte = 1", "", "flow has no field rte; did you mean rate"),
        ("def on_ack(self, pair, ack):\n    self.count += 1", "", "self has no field count"),
        ("def on_ack(self, pair, ack):\n    pair.rate = int(random.random() * 1e9)", "import random", "pf.uniform"),
        (
            "def on_ack(self, pair, ack):\n    pair.rate = int(np.random.rand() * 1e9)",
            "import numpy as np",
            "pf.uniform",
        ),
        ("def increase(self, pair, ack):\n    pass", "", "the simulator calls no function of this name"),
        ("def on_ack(self, pair, ack):\n    pair.now = 5", "", "pair.now can only be read"),
        ("def on_ack(self, pair, ack):\n    ack.rtt += 5", "", "ack.rtt can only be read"),
        ("def on_ack(self, pair, ack):\n    x, pair.mtu = 5, 6", "", "pair.mtu can only be read"),
        ("def on_ack(self, pair, ack):\n    ack.hop_queue[0] = 5", "", "ack.hop_queue can only be read"),
        ("def on_ack(self, pair, ack):\n    x = ack.hop_queue[0]", "", "filled only with telemetry=True"),
        ("def on_ack(self, pair, ack):\n    pair.rate = float('nan')", "", "is a whole number"),
        ("many: int = [0] * 4\ndef on_ack(self, pair, ack):\n    self.many[4] = 1", "", "beyond the 4 elements"),
    ],
)
def test_what_is_wrong_in_the_text_has_its_line(tmp_path, body, head, message):
    file, name = written(tmp_path, body, head=head)
    with pytest.raises(pf.InputError, match=message) as error:
        ran(file, name)
    assert file.name in str(error.value)


WRAPS = """
def on_ack(self, pair, ack):
    drain = {} * ack.nxt * pf.SECOND // pair.line_rate
    pair.rate = pair.line_rate if drain < 1000 * pf.MICROSECOND else pair.line_rate // 2
"""


def test_check_finds_integers_that_wrap(tmp_path):
    from pauseframe.plugins.check import check

    found = []
    for factor in ("8", "8.0"):  # a wrapped product is negative from 1.15 MB on
        file, _ = written(tmp_path, WRAPS.format(factor))
        checked = check([file], out=None)
        found += [one.broken for one in checked.rules if one.rule == "interpreter"]
    assert "passes 2^63" in str(found[0])
    assert found[1] is None


@pytest.mark.parametrize("kind", ["field", "state", "array"])
def test_integers_of_the_interpreter_do_not_wrap_in_silence(tmp_path, kind):
    target = {"field": "pair.rate", "state": "self.sum", "array": "self.many[1]"}[kind]
    body = f"""
sum: int = 0
many: int = [0] * 2
def on_ack(self, pair, ack):
    {target} = ack.nxt * pf.SECOND * 1_000_000
"""
    file, name = written(tmp_path, body, options=", compile=False")
    with pytest.raises(_core.RunError, match=r"more than 64 bits.*rates\d+.py, line 9"):
        ran(file, name)


@pytest.mark.parametrize("name", ["timely", "hpcc", "rdma", "dcqcn_paper"])
def test_names_of_others_are_taken(tmp_path, name):
    file, _ = written(tmp_path, HOLD)
    file.write_text(file.read_text().replace('"mine"', f'"{name}"'))
    with pytest.raises(pf.InputError, match="choose another name"):
        ran(file, f"{file.stem}:{name}")


def test_each_kind_has_its_key(tmp_path):
    file, name = written(tmp_path, HOLD)
    with pytest.raises(pf.ScenarioError, match="congestion_control"):
        ran(file, name, scenario=TWO_TCP, key="transport.congestion_control")
    window, tcp = written(
        tmp_path,
        "def increase(self, window, ack):\n    pass\n\ndef reduced(self, window, cause):\n    return window.cwnd",
        decorator='pf.congestion_control("mine"{})',
    )
    with pytest.raises(pf.ScenarioError, match=r"(?s)rdma_control.*it controls TCP: set transport\.congestion_control"):
        ran(window, tcp)


def test_constants_are_keys(tmp_path):
    body = 'share = pf.constant(0.5, "Share of the line", range=(0.01, 1.0))\n\n' + HOLD.replace(
        "pair.line_rate // 16", "int(self.share * pair.line_rate)"
    )
    file, name = written(tmp_path, body)
    halves = ran(file, name, **{"workload.senders": 1}).flows.to_polars()["fct_us"][0]
    eighths = ran(file, name, **{"workload.senders": 1, "transport.mine_share": 0.125}).flows.to_polars()["fct_us"][0]
    assert eighths / halves == pytest.approx(4, rel=0.05)


RANDOM = """
def on_ack(self, pair, ack):
    pair.rate = int((0.2 + 0.8 * pf.uniform(pair)) * pair.line_rate)
"""


def test_random_numbers_follow_the_seed(tmp_path):
    file, name = written(tmp_path, RANDOM)
    runs = [ran(file, name, seed=seed).summary["fingerprint"] for seed in (1, 1, 2)]
    assert (runs[0] == runs[1], runs[0] == runs[2]) == (True, False)
    interpreted, slow = written(tmp_path, RANDOM, options=", compile=False")
    assert ran(interpreted, slow, seed=1).summary["fingerprint"] == runs[0]


def test_random_numbers_are_uniform():
    class Record:
        random = 88172645463325252

    record = Record()
    drawn = [pf.uniform(record) for _ in range(20_000)]
    assert 0 <= min(drawn) < 0.001
    assert 0.999 < max(drawn) < 1
    assert sum(drawn) / len(drawn) == pytest.approx(0.5, abs=0.01)


INHERITED = """
import pauseframe as pf


class Base:
    share = pf.constant(0.25, "Share of the line")
    count: int = 3

    def on_ack(self, pair, ack):
        self.count += 1
        pair.rate = int(self.share * pair.line_rate)


@pf.rate_control("heir")
class Heir(Base):
    \"\"\"A test\"\"\"

    def on_start(self, pair):
        pair.rate = int(self.share * pair.line_rate)
"""


def test_what_a_base_class_has_counts(tmp_path):
    file = tmp_path / f"heir{next(numbers)}.py"
    file.write_text(INHERITED)
    fct = ran(file, f"{file.stem}:heir", **{"workload.senders": 1}).flows.to_polars()["fct_us"][0]
    assert fct == pytest.approx(4 * 1e6 * 8 * ON_THE_WIRE / PER_PACKET / 100e3, rel=0.01)


def test_the_contract_finds_a_control_that_ignores_congestion(tmp_path):
    file, name = written(tmp_path, HOLD.replace("// 16", "// 1"))
    ran(file, name)
    broken = {rule for rule, _, violation in _core.congestion_control_contract(name) if violation is not None}
    assert broken == {"congestion"}


@pytest.mark.parametrize("name", ["timely", "swift", "hpcc", "dcqcn_connectx"])
def test_built_in_controls_keep_the_contract(name):
    assert all(violation is None for _, _, violation in _core.congestion_control_contract(name))


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_c_steers_queue_pairs(tmp_path):
    """AIMD on CNPs in C, beside the same class in Python."""
    library = tmp_path / f"librates{next(numbers)}.so"
    source = EXAMPLES / "cnp_aimd.c"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", f"-I{pf.include_dir()}", source, "-o", library], check=True)
    body = """
def on_cnp(self, pair):
    pair.rate = max(pair.rate // 2, pair.line_rate // 1000)

def on_ack(self, pair, ack):
    pair.rate = min(pair.rate + pair.line_rate // 2000, pair.line_rate)
"""
    file, name = written(tmp_path, body)
    in_c = ran(library, f"{library.stem.removeprefix('lib')}:cnp_aimd")
    assert in_c.summary["fingerprint"] == ran(file, name).summary["fingerprint"]
    assert _cnps(in_c) > 0


# Controls of TCP that own the window


OWNER = """
    def on_delivery(self, window, delivery):
        if delivery.rate > 0 and delivery.min_rtt > 0:
            bdp = delivery.rate / 8 * delivery.min_rtt / pf.SECOND
            window.cwnd = max(int(2 * bdp), 4 * window.mss)
"""


def owner(folder, body=OWNER, options=""):
    body = "\n".join(line[4:] for line in body.splitlines())
    return written(folder, body, decorator='pf.congestion_control("mine"{})', options=options)


def test_a_control_by_delivery_samples_fills_the_link(tmp_path):
    file, name = owner(tmp_path)
    run = ran(file, name, scenario=TWO_TCP, key="transport.congestion_control")
    delivered = run.flows.to_polars()["delivered_bytes"].sum()
    assert delivered * 8 / 0.1 == pytest.approx(0.94e9, rel=0.05)
    assert all(violation is None for _, _, violation in _core.congestion_control_contract(name))


def test_a_sample_holds_together(tmp_path):
    """in_flight, delivered, lost, rate and interval of each sample agree; a violation sets a window that is refused."""
    body = """
    delivered: int = 0

    def on_delivery(self, window, delivery):
        good = delivery.in_flight >= 0 and delivery.delivered >= delivery.prior_delivered
        good = good and delivery.delivered - self.delivered == delivery.acked or self.delivered == 0
        good = good and delivery.min_rtt <= max(delivery.rtt, delivery.min_rtt)
        if delivery.interval > 0:
            expected = (delivery.delivered - delivery.prior_delivered) * 8.0 * pf.SECOND / delivery.interval
            good = good and abs(delivery.rate - expected) <= 1 + expected * 1e-9
        self.delivered = delivery.delivered
        window.cwnd = 20 * window.mss if good else 0
    """
    file, name = owner(tmp_path, body)
    run = ran(file, name, scenario=TWO_TCP, key="transport.congestion_control", stop="20 ms")
    assert run.flows.to_polars()["delivered_bytes"].min() > 0


def test_reduced_beside_on_delivery_is_refused(tmp_path):
    file, name = owner(tmp_path, OWNER + "\n    def reduced(self, window, cause):\n        return window.cwnd\n")
    with pytest.raises(pf.InputError, match="reduced would never be called"):
        ran(file, name, scenario=TWO_TCP, key="transport.congestion_control")


def test_a_pacing_rate_that_is_not_declared_is_an_error(tmp_path):
    file, name = owner(tmp_path, OWNER + "            window.pacing_rate = 10**9\n")
    with pytest.raises(pf.RunError, match="write paces=True"):
        ran(file, name, scenario=TWO_TCP, key="transport.congestion_control")
