"""Hosts with a Linux kernel: the same frames in every run, PAUSE, marks, and an end without leftovers.

Tests that need a kernel are skipped where none is built: `make test-kernel` builds one. PAUSEFRAME_KERNEL names the
folder of another.
"""

import json
import os
import platform
import signal
import stat
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pauseframe as pf
import pauseframe.kernel
import polars as pl
import pytest
from pauseframe import InputError
from pauseframe.run import resolve
from test_cli import cli

INCAST = """
name = "kernel-incast"
stop = { time = "2 s", when_finished = true }
topology = { kind = "star", hosts = 9, link = { rate = "10 Gbps", delay = "1 us" } }
workload = [{ kind = "n_to_1", senders = 8, size = "500 KB" }]
switch = { buffer = "60 KB" }
host = { stack = "kernel" }
"""
LONG = """
name = "kernel-long"
stop = "100 s"
topology = { kind = "star", hosts = 3, link = { rate = "1 Gbps", delay = "1 us" } }
workload = [{ kind = "n_to_1", senders = 2, size = "100 GB" }]
host = { stack = "kernel" }
"""
DCTCP = {"transport.preset": "dctcp", "switch.marker.kind": "step", "switch.marker.k": "22.5 KB"}
WAIT = 60
"""Seconds of real time for what takes about one on an idle machine."""


@pytest.fixture(scope="module")
def kernel():
    try:
        return pauseframe.kernel.find(os.environ.get("PAUSEFRAME_KERNEL"))
    except InputError as error:
        pytest.skip(str(error))


def run(kernel, scenario=INCAST, out=None, **changes):
    return pf.run(scenario, kernel=kernel, out=out, set=changes, progress=False)


@pytest.fixture
def busy():
    """Two processes on every core that do nothing but compute."""
    command = [sys.executable, "-c", "while True: pass"]
    others = [subprocess.Popen(command) for _ in range(2 * (os.cpu_count() or 1))]
    yield
    for process in others:
        process.kill()
        process.wait()


def test_connections_that_open_at_once_open_at_once(kernel):
    """No host gets a SYN before it listens, and the agent takes no simulated time: all handshakes last equally long."""
    permutation = {"workload": [{"kind": "permutation", "size": "10 KB"}], "topology.hosts": 20}
    for interrupt_delay, handshake in (("10 us", 20), ("0 s", 4.3)):
        changes = permutation | {"host.interrupt_delay": interrupt_delay}
        flows = pl.DataFrame(run(kernel, **changes).flows)
        assert flows["failure"].unique().to_list() == [""]
        # Linux 6.1 reads the clock twice for each connection, 1 ns each.
        assert flows["connect_us"].to_list() == pytest.approx([handshake] * 20, abs=0.2)


def test_more_orders_at_once_than_the_agent_has_buffers_for(kernel):
    """256 frames of 22 orders fill the ring of the agent's card: the others follow when it has taken those."""
    pairs = [(a, b) for a in range(20) for b in range(20) if a != b]
    flows = [{"src": f"host{a}", "dst": f"host{b}", "size": "100 B", "start": "0 s"} for a, b in pairs]
    count = 256 * 22 // 2 // len(pairs) + 1
    changes = {"workload": [{"kind": "flows", "flows": flows * count}], "topology.hosts": 20, "switch.buffer": "20 MB"}
    result = run(kernel, **changes)
    assert result.summary["flows_finished"] == count * len(pairs) > 256 * 22 / 2


def test_two_runs_have_the_same_frames_on_a_busy_machine_too(kernel, tmp_path, busy):
    changes = {"record.packets": True, "workload.0.size": "100 KB"}
    first = run(kernel, out=tmp_path / "first", **changes)
    second = run(kernel, out=tmp_path / "second", **changes)
    captures = [(tmp_path / name / "packets.pcapng").read_bytes() for name in ("first", "second")]
    assert len(captures[0]) > 100_000
    assert captures[0] == captures[1]
    assert first.summary["fingerprint"] == second.summary["fingerprint"]
    other = run(kernel, out=tmp_path / "other", seed=2, **changes)
    assert other.summary["fingerprint"] != first.summary["fingerprint"], "sequence numbers and ports follow the seed"


def test_pause_stops_the_senders(kernel):
    lossy = run(kernel)
    lossless = run(kernel, **{"transport.lossless": True})
    assert lossy.summary["drops"] > 0, "the incast overflows this buffer"
    assert lossless.summary["drops"] == 0
    assert pl.DataFrame(lossless.flows)["retransmits"].sum() == 0
    assert lossless.summary["pfc_pauses"] > 0
    assert lossless.summary["flows_finished"] == 8
    hosts = pl.DataFrame(lossless.ports).filter(pl.col("node").cast(pl.String).str.starts_with("host"))
    assert max(hosts["paused_us"].to_list()) > 100


def test_dctcp_of_the_kernel_reacts_to_marks(kernel):
    changes = {"workload.0.size": "5 MB", "workload.0.senders": 2, "switch.buffer": "2 MB"}
    cubic, dctcp = (run(kernel, **changes, **more) for more in ({}, DCTCP))
    assert min(pl.DataFrame(dctcp.flows)["ce_packets"].to_list()) > 0
    assert dctcp.summary["drops"] == 0

    def backlog(result):
        ports = pl.DataFrame(result.ports).filter(pl.col("tier") == "switch-host")
        return max(ports["backlog_mean_bytes"].to_list())

    # The step is at 22.5 KB: about as much as that waits, while CUBIC fills the buffer.
    assert backlog(dctcp) < 45_000 < backlog(cubic)


def test_settings_reach_the_kernel(kernel):
    """42 segments take three rounds from 10 segments on, and one if the route or the transport says 100."""
    changes = {"workload.0.senders": 1, "workload.0.size": "60 KB", "topology.link.delay": "100 us"}
    slow, *fast = (
        pl.DataFrame(run(kernel, **changes, **more).flows)["fct_us"][0]
        for more in ({}, {"host.route": "initcwnd 100"}, {"transport.initial_window": "100 segments"})
    )
    assert fast[0] == fast[1]
    # Two rounds of 400 us and the times of a few frames.
    assert 800 - 50 < slow - fast[0] < 800 + 20
    shaped = run(kernel, **changes, **{"host.qdisc": "tbf rate 100mbit burst 3000 limit 1000000"})
    [fct] = pl.DataFrame(shaped.flows)["fct_us"]
    # At 100 Mb/s, after the handshake of 400 us.
    assert 60_000 * 8 / 100 < fct < 1.2 * 60_000 * 8 / 100


def test_keys_of_the_transport_reach_the_kernel(kernel, tmp_path, monkeypatch):
    """What a program sees in the kernel, whose folder has a relative path; `host.sysctl` has precedence."""
    files = ["net/ipv4/tcp_sack", "net/ipv4/tcp_rmem", "net/ipv4/tcp_retries2"]
    shown = " ".join(f"/proc/sys/{file}" for file in files)
    command = f"cat {shown} /sys/module/tcp_cubic/parameters/hystart; ip route"
    keys = {"sack": False, "undo": False, "frto": False, "prr": False, "rto_min": "20 ms", "delayed_ack_segments": 1}
    keys |= {"receive_buffer_max": "1 MB", "cubic_hystart": False, "retries": 3}
    changes = {f"transport.{key}": value for key, value in keys.items()}
    changes |= {"host.sysctl": ["net.ipv4.tcp_retries2 = 7"], "workload.0.size": "10 KB"}
    monkeypatch.chdir(kernel.parent)
    run = pf.run(
        INCAST, kernel=kernel.name, programs=[("host1", command)], out=tmp_path / "out", set=changes, progress=False
    )
    text = (tmp_path / "out" / "kernel" / "program-0.log").read_text()
    sack, rmem, retries, hystart, *routes = text.splitlines()
    assert (sack, rmem.split(), retries, hystart) == ("0", ["4096", "131072", "1000000"], "7", "0")
    for words in ("initcwnd 10", "rto_min lock 20ms", "quickack 1"):
        assert any(words in route for route in routes), routes
    warned = [warning.split(" ")[0] for warning in run.summary["warnings"] if "kernel hosts" in warning]
    assert warned == ["transport.prr", "transport.undo"]


def test_an_experiment_runs_on_a_kernel_too(kernel, tmp_path):
    paper = tmp_path / "experiments" / "tiny"
    paper.mkdir(parents=True)
    (paper / "paper.toml").write_text('title = "T"\ncitation = "C"\n')
    (paper / "two.scenario.toml").write_text(TINY)
    (paper / "two.toml").write_text(TINY_EXPERIMENT)
    out = tmp_path / "out"
    arguments = ("--experiments", paper.parent, "--stack", "kernel", "--kernel", kernel, "--seeds", "1", "--out", out)
    done = cli("reproduce", "tiny/two", *arguments, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [record] = json.loads(done.stdout)
    assert record["verdict"] == "reproduced"
    ran = [path.read_text() for path in (out / "runs").rglob("*.resolved.toml")]
    assert ['stack = "kernel"' in text for text in ran] == [True, True]
    (paper / "two.toml").write_text(TINY_EXPERIMENT.replace('"cubic"', '"aimd"'))
    done = cli("reproduce", "tiny/two", *arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert "does not run with a kernel" in done.stdout + done.stderr
    assert "Linux has no aimd" in done.stdout + done.stderr


def test_series_of_flows_have_the_goodput_of_the_kernel(kernel):
    series = {"every": "100 us", "ports": [], "flows": ["*"]}
    flows = {"workload.0.size": "2 MB", "workload.0.senders": 2, "switch.buffer": "2 MB"}
    result = run(kernel, **flows, **{"record.series": series})
    goodput = pl.DataFrame(result.series).filter(pl.col("metric").cast(pl.String) == "goodput_gbps")
    # Samples of 100 us; the last part of a flow may lie behind the last one.
    carried = sum(goodput["value"].to_list()) * 1e9 / 8 * 100e-6
    assert 3_500_000 < carried <= 4_000_000
    assert 8 < max(goodput.group_by("time_us").agg(pl.col("value").sum())["value"].to_list()) < 10


TINY = """
stop = { time = "1 s", when_finished = true }
topology = { kind = "star", hosts = 2, link = { rate = "1 Gbps", delay = "10 us" } }
host = { tx_delay = "50 us", rx_delay = "50 us" }
workload = [{ kind = "n_to_1", senders = 1, size = "100 KB" }]
"""
TINY_EXPERIMENT = """
title = "Slow is slower"
scenario = "two.scenario.toml"
[variants]
slow = { "topology.link.rate" = "100 Mbps", "transport.congestion_control" = "cubic" }
fast = {}
[metrics.fct]
sql = "SELECT AVG(fct_us) AS value FROM flows"
[[claims]]
id = "T-1"
text = "Slow is slower"
kind = "factor"
metric = "fct"
of = "slow"
over = "fast"
low = 2
high = 10
"""


def test_sockets_and_counters_are_sampled(kernel, tmp_path):
    changes = {"workload.0.size": "3 MB", "workload.0.senders": 2, "switch.buffer": "2 MB", **DCTCP}
    changes["host.interrupt_delay"] = "0 s"  # or the card would merge segments
    result = run(kernel, out=tmp_path / "out", **changes, **{"record.kernel": {"every": "250 us"}})
    sockets, counters = pl.DataFrame(result.kernel_sockets), pl.DataFrame(result.kernel_counters)
    assert {time % 250 for time in sockets["time_us"]} == {0}
    assert sockets["flow"].unique().sort().to_list() == [0, 1]
    senders = sockets.filter((pl.col("acked_bytes") > 0) & (pl.col("state").cast(pl.String) == "ESTAB"))
    assert senders["node"].cast(pl.String).unique().sort().to_list() == ["host1", "host2"]
    assert senders["congestion_control"].cast(pl.String).unique().to_list() == ["dctcp"]
    assert senders["cwnd_segments"].n_unique() > 3
    assert 0 < statistics.fmean(senders["alpha"]) <= 1
    for _, of_flow in senders.group_by("flow"):
        acked = of_flow.sort("time_us")["acked_bytes"].to_list()
        assert acked == sorted(acked)
        assert acked[-1] <= 3_000_001
    received = counters.filter(
        (pl.col("node").cast(pl.String) == "host0") & (pl.col("counter").cast(pl.String) == "IpInReceives")
    )["value"].to_list()
    assert received == sorted(received)
    assert 4000 < received[-1] < 6000, "6 MB are 4145 segments, and some SYN and FIN"
    assert (tmp_path / "out" / "kernel_sockets.parquet").is_file()
    done = cli("export", "csv", tmp_path / "out", "--table", "kernel_counters", "-o", tmp_path / "csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "csv" / "kernel_counters.csv").read_text().startswith("time_us,node,counter,value\n")


def test_samples_at_ticks_of_an_idle_kernel(kernel):
    """Hosts wait for timeouts while the agent samples: Linux 6.1 ran past a sample, and its time went backwards."""
    changes = {"topology.link.rate": "1 Gbps", "switch.buffer": "30 KB", "workload.0.size": "200 KB"}
    result = run(kernel, **changes, **{"record.kernel": {"every": "1 ms"}})
    assert result.summary["flows_finished"] == 8
    assert result.summary["retransmits"] > 0
    counts = pl.DataFrame(result.kernel_counters)
    assert counts.filter(pl.col("time_us") > 10_000).height > 0


BOLT = """
name = "kernel-bolt"
stop = { time = "2 s", when_finished = true }
topology = { kind = "star", hosts = 48, link = { rate = "10 Gbps", delay = "1 us" } }
workload = [{ kind = "n_to_1", senders = 47, size = "60 KB" }]
switch = { buffer = "2 MB", marker = { kind = "step", k = "97.5 KB" }, pfc = { xoff = "20 KB", xon = "15 KB" } }

[transport]
preset = "tcp_bolt"
stack = "linux"
initial_window = "44 segments"

[host]
stack = "kernel"
"""


def test_bolts_incast_of_47_drops_nothing_and_takes_as_long_as_in_the_model(kernel):
    """Line rate from the start (initcwnd), DCTCP and PFC, as TCP-Bolt; the kernel is not changed."""
    of_kernel = run(kernel, BOLT)
    model = run(kernel, BOLT, **{"host.stack": "simulated"})
    for result in (of_kernel, model):
        assert result.summary["flows_finished"] == 47
        assert result.summary["drops"] == 0
        assert result.summary["pfc_pauses"] > 0
    last = [pl.DataFrame(result.flows)["fct_us"].max() for result in (of_kernel, model)]
    assert last[0] == pytest.approx(last[1], rel=0.05)


def test_bbr_of_the_kernel_and_of_the_model_agree(kernel):
    """10 Mb/s and 40 ms; `validation/linux/bbr.py` has two flows, other buffers and 10 Gb/s."""
    changes = {"workload.0.senders": 1, "workload.0.size": "100 MB", "topology.hosts": 2, "stop": "5 s"}
    changes |= {"topology.link.rate": "10 Mbps", "topology.link.delay": "10 ms", "transport.preset": "bbr"}
    of_kernel = run(kernel, **changes, **{"host.interrupt_delay": "0 s"})
    model = run(kernel, **changes, **{"host.stack": "simulated", "host.tso": True})
    delivered = [pl.DataFrame(result.flows)["delivered_bytes"][0] for result in (of_kernel, model)]
    # 95 % of the payload of 5 s.
    assert delivered[0] > 0.95 * 5 * 10e6 / 8 * 1448 / 1538
    assert delivered[1] == pytest.approx(delivered[0], rel=0.01)
    assert [result.summary["drops"] for result in (of_kernel, model)] == [0, 0]


def test_a_panic_ends_the_run_with_the_last_lines(kernel, tmp_path):
    """A program overwrites the code of the kernel's first process, which a kernel does not survive."""
    (tmp_path / "s.toml").write_text(INCAST)
    crash = "host0=dd if=/bin/sh of=/proc/1/mem bs=4096 seek=1025 conv=notrunc"
    done = cli("run", tmp_path / "s.toml", "--kernel", kernel, "--exec", crash, cwd=tmp_path)
    assert done.returncode == 1
    for text in ("the kernel ended", "Kernel panic", "Attempted to kill init"):
        assert text in done.stderr
    assert len(done.stderr.splitlines()) <= 22


def processes_in(folder):
    """Processes that work in a folder or below it."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith(str(folder)):
            found.append(int(link.parent.name))
    return found


def until(condition):
    end = time.monotonic() + WAIT
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


@pytest.fixture
def running(kernel, tmp_path):
    """A run that goes on for long, and the kernel's process, which has opened all its devices."""
    (tmp_path / "s.toml").write_text(LONG)
    # An address of a socket has 107 bytes; the folder for temporary files may have a longer path.
    runs = tmp_path / ("runs" * 40)
    runs.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "pauseframe", "run", "s.toml", "--kernel", str(kernel), "--quiet"],
        cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(runs)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process, until(lambda: not sockets(runs) and processes_in(runs)), runs
    finally:
        process.kill()
        process.communicate()


def sockets(folder):
    """Sockets in the folder; true as long as no run has begun."""
    if not any(folder.glob("*/setup.log")):
        return True
    return [path for path in folder.rglob("*") if stat.S_ISSOCK(path.stat().st_mode)]


def test_no_process_outlives_a_killed_run(running, kernel):
    process, started, runs = running
    assert started
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: not processes_in(runs))
    assert not sockets(runs)
    # The next run removes the folder.
    [left] = runs.iterdir()
    done = subprocess.run(
        [sys.executable, "-m", "pauseframe", "run", "s.toml", "--kernel", str(kernel), "--set", "stop=1 ms", "--force"],
        cwd=runs.parent,
        env=os.environ | {"TMPDIR": str(runs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not list(runs.iterdir()), left


def test_a_killed_kernel_ends_the_run(running):
    process, started, runs = running
    os.kill(min(started), signal.SIGKILL)
    _, errors = process.communicate(timeout=WAIT)
    assert process.returncode != 0
    assert "the kernel ended" in errors
    assert "Traceback" not in errors
    assert not processes_in(runs)
    assert not list(runs.iterdir())


def test_an_interrupt_leaves_nothing(running):
    process, _, runs = running
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT)
    assert process.returncode == 130
    assert not processes_in(runs)
    assert not list(runs.iterdir())


def test_without_a_kernel_one_line_says_what_to_do(tmp_path, monkeypatch):
    if (why := pauseframe.kernel.obstacle()) is not None:
        pytest.skip(why)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "s.toml").write_text(INCAST)
    done = cli("run", tmp_path / "s.toml", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == ["error: no kernel is built: run pauseframe kernel build"]
    done = cli("reproduce", "repro/fig04", "--stack", "kernel", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: no kernel is built: run pauseframe kernel build\n")
    with pytest.raises(InputError, match=r"kernel 6\.12 is not built: run pauseframe kernel build --version 6\.12"):
        pauseframe.kernel.find("6.12")


def test_other_systems_get_one_line(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(InputError, match="need an x86-64 processor, and this is aarch64"):
        pauseframe.kernel.find()
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(InputError, match="need Linux, and this is Darwin"):
        pauseframe.kernel.build()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"transport.preset": "roce_dcqcn"}, "TCP only"),
        ({"transport.congestion_control": "aimd"}, "Linux has no aimd"),
        ({"topology.hosts": 53}, "at most 52 hosts"),
        ({"host.tx_delay": "1 us", "host.kernel_hosts": ["host0", "host1"]}, "host.tx_delay"),
        ({"host.stack": "simulated", "host.qdisc": "fq"}, "for hosts with a kernel"),
        ({"host.stack": "simulated", "record.kernel": True}, "for hosts with a kernel"),
        ({"host.qdisc": "fq; reboot"}, "characters that a command could misread"),
        ({"host.sysctl": ["net.ipv4.tcp_ecn"]}, "key = value"),
        ({"host.kernel_hosts": ["host99"]}, 'no node "host99"'),
    ],
)
def test_what_a_kernel_cannot_do_is_refused(changes, message):
    with pytest.raises(pf.ScenarioError, match=message):
        resolve(INCAST, set=changes)


TWO = """
name = "kernel-programs"
stop = { time = "20 s", when_finished = true }
[topology]
kind = "leaf_spine"
leaves = 2
spines = 2
hosts_per_leaf = 1
link = { rate = "1 Gbps", delay = "1 us" }

[host]
stack = "kernel"
"""
SERVER = """
import socket
s = socket.create_server(("0.0.0.0", 5000))
c, _ = s.accept()
total = 0
while data := c.recv(1 << 16):
    total += len(data)
print(total)
"""
CLIENT = """
import socket, sys, time
before = time.monotonic()
s = socket.create_connection((sys.argv[1], 5000))
s.sendall(bytes(10_000_000))
s.shutdown(socket.SHUT_WR)
s.recv(1)
print(time.monotonic() - before)
"""


def test_programs_of_the_user_talk_through_the_fabric(kernel, tmp_path):
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)
    python = Path(sys.executable).resolve()
    client = f"sleep 0.1; {python} -SE {tmp_path}/client.py host0"
    programs = [("host0", f"{python} -SE {tmp_path}/server.py"), ("host1", client)]
    result = pf.run(TWO, kernel=kernel, programs=programs, out=tmp_path / "out", progress=False)
    total, seconds = ((tmp_path / f"out/kernel/program-{number}.log").read_text() for number in range(2))
    assert int(total) == 10_000_000
    # 1 Gb/s less the headers, and slow start; the link carries 1448 of 1538 bytes.
    assert 0.0849 < float(seconds) < 0.1
    assert 0.18 < result.summary["sim_time_s"] < 0.2, "the run ends with its programs"
    assert result.summary["warnings"] == []


def test_what_programs_set_holds_for_the_first_flow(kernel):
    """A send buffer of 200 KB holds fewer bytes of single segments than of large batches."""
    changes = {"topology.hosts": 2, "topology.link.delay": "500 us", "transport.send_buffer_max": "200 KB"}
    changes |= {"workload.0.senders": 1, "workload.0.size": "1 MB", "switch.buffer": "1 MB"}
    single = [(f"host{n}", "ip link set dev eth0 gso_max_segs 1") for n in range(2)]

    def fct(start, programs=()):
        keys = changes | {"workload.0.start": start}
        result = pf.run(INCAST, kernel=kernel, programs=programs, set=keys, progress=False)
        assert result.summary["warnings"] == []
        return pl.DataFrame(result.flows)["fct_us"][0]

    at_zero, later, without = fct("0 s", single), fct("20 ms", single), fct("0 s")
    assert at_zero == pytest.approx(later, rel=0.01)
    assert at_zero > 1.1 * without
    shaped = fct("0 s", [("host1", "tc qdisc replace dev eth0 root tbf rate 100mbit burst 3000 limit 1000000")])
    assert shaped > 1e6 * 8 / 100


def test_programs_start_before_time_zero(kernel, tmp_path):
    """A client finds its server, a program that has ended by then has sent its datagram, and a busy one is named."""
    (tmp_path / "server.py").write_text(SERVER)
    (tmp_path / "client.py").write_text(CLIENT)
    receiver = "import socket; s = socket.socket(type=2); s.bind(('', 6000)); print(s.recv(9).decode())"
    sender = "import socket; socket.socket(type=2).sendto(b'datagram', ('host0', 6000))"
    python = f"{Path(sys.executable).resolve()} -SE"
    programs = [
        ("host0", f"{python} {tmp_path}/server.py"),
        ("host1", f"{python} {tmp_path}/client.py host0"),
        ("host0", f'{python} -c "{receiver}"'),
        ("host1", f'{python} -c "{sender}"'),
    ]
    result = pf.run(TWO, kernel=kernel, programs=programs, out=tmp_path / "out", progress=False)
    total, _, datagram, _ = ((tmp_path / f"out/kernel/program-{number}.log").read_text() for number in range(4))
    assert (int(total), datagram) == (10_000_000, "datagram\n")
    assert 0.0849 < result.summary["sim_time_s"] < 0.1
    assert result.summary["warnings"] == []
    busy = [("host1", f'{python} -c "import time; [time.sleep(5e-4) for _ in range(400)]"')]
    [warning] = pf.run(TWO, kernel=kernel, programs=busy, progress=False).summary["warnings"]
    assert warning.startswith("programs of --exec were still busy 100 ms after their start")


def test_failures_of_programs_are_reported(kernel, tmp_path):
    failing = pf.run(TWO, kernel=kernel, programs=[("host1", "exit 7")], progress=False)
    assert failing.summary["warnings"] == ['program host1="exit 7" ended with status 7']
    short = pf.run(TWO, kernel=kernel, programs=[("host1", "sleep 30")], set={"stop.time": "1 s"}, progress=False)
    assert short.summary["warnings"] == ['program host1="sleep 30" still ran when the run ended']
    with pytest.raises(pf.RunError, match='no host "host9" has a kernel'):
        pf.run(TWO, kernel=kernel, programs=[("host9", "true")], progress=False)


def test_simulated_hosts_and_those_of_a_kernel_share_a_fabric(kernel):
    flows = [{"src": f"host{n}", "dst": f"host{n + 1}", "size": "1 MB", "start": "0 s"} for n in (1, 3)]
    changes = {"host.kernel_hosts": ["host1", "host2"], "workload": [{"kind": "flows", "flows": flows}]}
    mixed = pl.DataFrame(run(kernel, **changes).flows)
    assert mixed["fct_us"].null_count() == 0
    simulated = changes | {"host.stack": "simulated", "host.kernel_hosts": []}
    ours = pl.DataFrame(run(kernel, **simulated).flows)
    assert mixed["fct_us"][1] == ours["fct_us"][1], "hosts without the kernel are as they were"
    assert mixed["fct_us"][0] != ours["fct_us"][0]
    flows[0]["dst"] = "host3"
    with pytest.raises(pf.ScenarioError, match="from host1 to host3 has a kernel at one end only"):
        run(kernel, **changes)
    drawn = changes | {"workload": [{"kind": "permutation", "size": "10 KB"}]}
    with pytest.raises(pf.RunError, match="a kernel at one end only"):
        run(kernel, **drawn)


ENDS = [{"src": "host1", "dst": "host2", "size": "1 MB"}, {"src": "host2", "dst": "host3", "size": "1 MB"}]


@pytest.mark.parametrize(
    "workload",
    [
        {"kind": "flows", "flows": ENDS},
        {"kind": "long_flows", "flows": [{"src": "host2", "dst": "host3", "stop": "1 ms"}]},
        {"kind": "requests", "client": "host2", "server": "host3", "response": "1 KB", "count": 1},
        {"kind": "requests", "client": "host2", "servers": ["host1", "host3"], "response": "1 KB", "count": 1},
    ],
    ids=["flows", "long", "server", "servers"],
)
def test_a_kernel_at_one_end_is_refused_before_the_run(workload):
    both = {"host.kernel_hosts": ["host1", "host2", "host3"], "workload": [workload]}
    assert resolve(INCAST, set=both).has_kernel
    with pytest.raises(pf.ScenarioError, match="the flow from host2 to host3 has a kernel at one end only"):
        resolve(INCAST, set=both | {"host.kernel_hosts": ["host1", "host2"]})


def test_a_kernel_at_one_end_in_a_file_is_refused_before_the_run(tmp_path):
    (tmp_path / "flows.csv").write_text("src,dst,size_bytes,start_us\nhost0,host1,1000,0\nhost2,host3,1000,0\n")
    changes = {"host.kernel_hosts": ["host3"], "workload": [{"kind": "flows", "file": str(tmp_path / "flows.csv")}]}
    with pytest.raises(pf.ScenarioError, match="the flow from host2 to host3 has a kernel at one end only"):
        resolve(INCAST, set=changes)


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """Makes complete kernels without content, the oldest first."""
    if (why := pauseframe.kernel.obstacle()) is not None:
        pytest.skip(why)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def make(*names):
        for age, name in enumerate(names):
            folder = pauseframe.kernel.cache() / name
            folder.mkdir(parents=True)
            for part in pauseframe.kernel.PARTS:
                (folder / part).touch()
            (folder / "sources").write_text(pauseframe.kernel._sources())
            os.utime(folder, (age, age))

    return make


def test_hosts_boot_the_default_version_else_the_last_kernel_built(cached):
    cached("6.1-hz1000", "own-0123")
    assert pauseframe.kernel.find().name == "own-0123"
    cached("6.12-hz1000", "6.12-hz250")
    os.utime(pauseframe.kernel.cache() / "own-0123", (9, 9))
    assert pauseframe.kernel.find().name == "6.12-hz250"
    assert pauseframe.kernel.find("6.1").name == "6.1-hz1000"


def test_a_kernel_with_older_options_is_built_again(cached):
    cached("6.12-hz1000")
    file = pauseframe.kernel.cache() / "6.12-hz1000" / "kernel.json"
    recipe = pauseframe.kernel._recipe("6.12", 1000, None, None, None)
    file.write_text(json.dumps(recipe))
    assert pauseframe.kernel.find().name == "6.12-hz1000"
    file.write_text(json.dumps(recipe | {"config": "0"}))
    with pytest.raises(InputError, match="run pauseframe kernel build again"):
        pauseframe.kernel.find()


@pytest.fixture
def source(tmp_path):
    """What tells a source of Linux."""
    folder = tmp_path / "linux"
    (folder / "arch/um").mkdir(parents=True)
    (folder / "arch/um/Kconfig").write_text("config HZ\n")
    (folder / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 13\nSUBLEVEL = 7\nEXTRAVERSION =\n")
    return folder


def test_a_kernel_of_another_source_or_configuration_has_another_digest(source, tmp_path):
    config = tmp_path / "more.config"
    config.write_text("# congestion control\nCONFIG_TCP_CONG_BBR=y\n")
    make = pauseframe.kernel._recipe
    plain, other, both = (
        make("6.12", 1000, None, *parts) for parts in ((None, None), (source, None), (source, config))
    )
    assert (plain["folder"], plain["source"]) == ("6.12-hz1000", "linux-source-6.12")
    assert other["version"] == "6.13.7"
    assert other["folder"] == f"6.13.7-hz1000-{other['digest'][:12]}"
    assert other["source"] == both["source"]
    assert other["config"] == plain["config"] != both["config"]
    (source / ".git").mkdir()
    (source / ".git/HEAD").write_text("ref")
    assert make("6.12", 1000, None, source, None)["digest"] == other["digest"], "the repository is no source"
    (source / "Makefile").write_text((source / "Makefile").read_text() + "# changed\n")
    assert make("6.12", 1000, None, source, None)["digest"] != other["digest"]


def test_what_is_no_source_and_no_configuration_is_named(source, tmp_path):
    config = tmp_path / "more.config"
    config.write_text("CONFIG_TCP_CONG_BBR=y\nTCP_CONG_BBR\n")
    with pytest.raises(InputError, match=r"line 2: 'TCP_CONG_BBR' is no option"):
        pauseframe.kernel._recipe("6.12", 1000, None, source, config)
    with pytest.raises(InputError, match="is no source of Linux"):
        pauseframe.kernel._recipe("6.12", 1000, None, tmp_path, None)
    with pytest.raises(InputError, match="cannot read"):
        pauseframe.kernel._recipe("6.12", 1000, None, None, tmp_path / "nowhere")
    image = tmp_path / "image"
    image.write_bytes(b"\x7fELF Linux version 6.13.7 time-travel-timer")
    assert pauseframe.kernel._recipe("6.12", 1000, image, None, None)["version"] == "own"
    image.write_bytes(b"\x7fELF Linux version 6.13.7")
    for other in (image, Path(sys.executable), source / "Makefile"):
        with pytest.raises(InputError, match="is no user-mode kernel with time travel"):
            pauseframe.kernel._recipe("6.12", 1000, other, None, None)
    done = cli("kernel", "build", "--kernel", source / "Makefile", "--source", source)
    assert (done.returncode, "do not go with it" in done.stderr) == (2, True)


def test_a_refused_setting_is_named_and_the_manifest_has_the_kernel(kernel, tmp_path):
    small = {"workload.0.size": "10 KB", "workload.0.senders": 1}
    refused = ["net.ipv4.tcp_nonsense = 1", "net.ipv4.tcp_sack = yes", "net.ipv4.tcp_dsack = 0"]
    with pytest.raises(pf.RunError) as error:
        run(kernel, **small, **{"host.sysctl": refused, "host.qdisc": "nonsense"})
    text = str(error.value)
    assert "sysctl 'net.ipv4.tcp_nonsense = 1': this kernel has no such key (host0 and 8 more)" in text
    assert "sysctl 'net.ipv4.tcp_sack = yes': the kernel refuses this value" in text
    assert "host.qdisc 'nonsense'" in text
    assert "dsack" not in text
    assert "panic" not in text
    run(kernel, out=tmp_path / "run", **small)
    record = json.loads((tmp_path / "run" / "manifest.json").read_text()).get("kernel")
    file = kernel / "kernel.json"
    assert record == (json.loads(file.read_text()) if file.is_file() else None)
