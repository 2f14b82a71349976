"""Compares a Linux machine as a switch (switch.kind = "linux") with namespaces of the kernel of this computer.

Two senders, a machine that forwards, and a receiver are namespaces joined by veth. A token bucket gives the port to the
receiver a rate, and a pfifo waits behind it. Super-packets of a given number of segments leave the senders and stay
merged up to that pfifo, as after GRO. Two long flows (CUBIC) fill it. In the simulator the frames of a super-packet
arrive at 100 Gb/s and merge again. Runs in real time, as root, on an idle machine:

    sudo python validation/linux/linux_switch.py [--seconds 12] [--segments 1 4 9] [--limit 40]

Prints a Markdown table: segments of a queued packet, and the largest and the median queue in frames.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pauseframe as pf
import polars as pl
import tomli_w

if TYPE_CHECKING:
    from collections.abc import Iterator

RATE_MBPS = 100
PORT = 5001
SKIP_S = 2.0
CLONE_NEWNET = 0x40000000
KERNEL_FRAME, FRAME = 1514, 1518
SPACES = ["pfl-s1", "pfl-s2", "pfl-sw", "pfl-r"]


def sh(text: str, space: str | None = None) -> str:
    """Runs a command, in a namespace if one is named."""
    command = (["ip", "netns", "exec", space] if space else []) + ["sh", "-c", text]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def namespaces(segments: int, limit: int) -> Iterator[None]:
    """Senders 10.9.1.2 and 10.9.2.2, receiver 10.9.3.2; the machine between them has .1 of each."""
    try:
        for space in SPACES:
            sh(f"ip netns add {space}")
        for number, space in enumerate(["pfl-s1", "pfl-s2", "pfl-r"], start=1):
            sh(f"ip link add a{number} netns pfl-sw type veth peer name eth netns {space}")
            sh(f"ip addr add 10.9.{number}.1/24 dev a{number}; ip link set a{number} up", "pfl-sw")
            sh(f"ip addr add 10.9.{number}.2/24 dev eth; ip link set lo up; ip link set eth up", space)
            sh(f"ip route add default via 10.9.{number}.1", space)
            sh(f"ip link set dev eth gso_max_segs {segments}", space)
        sh("echo 1 > /proc/sys/net/ipv4/ip_forward", "pfl-sw")
        for space in SPACES:
            sh("echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save", space)
            # Distributions differ in their buffers.
            sh("echo 4096 131072 6291456 > /proc/sys/net/ipv4/tcp_rmem", space)
            sh("echo 4096 16384 4194304 > /proc/sys/net/ipv4/tcp_wmem", space)
        bucket = f"tbf rate {RATE_MBPS}mbit burst 70000 limit 100mb"
        sh(f"tc qdisc add dev a3 root handle 1: {bucket}", "pfl-sw")
        sh(f"tc qdisc add dev a3 parent 1:1 handle 2: pfifo limit {limit}", "pfl-sw")
        yield
    finally:
        for space in SPACES:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)


def enter(space: str) -> None:
    """Moves this thread into a namespace: sockets that it makes from now on are there."""
    handle = os.open(f"/run/netns/{space}", os.O_RDONLY)
    failed = ctypes.CDLL(None, use_errno=True).setns(handle, CLONE_NEWNET)
    os.close(handle)
    if failed:
        raise OSError(ctypes.get_errno(), f"setns {space}")


def receiver(listening: threading.Event, until: float) -> None:
    """Takes the data of two long flows."""
    enter("pfl-r")
    server = socket.create_server(("10.9.3.2", PORT))
    listening.set()

    def drain(connection: socket.socket) -> None:
        while time.monotonic() < until and connection.recv(1 << 18):
            pass

    for _ in range(2):
        threading.Thread(target=drain, args=(server.accept()[0],), daemon=True).start()


def sender(space: str, until: float) -> None:
    """Sends a long flow."""
    enter(space)
    connection = socket.socket()
    # A distribution may have another default, such as BBR.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
    connection.connect(("10.9.3.2", PORT))
    block = bytes(1 << 18)
    connection.settimeout(1)
    # The receiver closes at the end.
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < until:
            with contextlib.suppress(TimeoutError):
                connection.send(block)


def backlog() -> tuple[int, int]:
    """Bytes and packets of the pfifo."""
    rows = json.loads(sh("tc -j -s qdisc show dev a3", "pfl-sw"))
    pfifo = next(row for row in rows if row["kind"] == "pfifo")
    return pfifo["backlog"], pfifo["qlen"]


def kernel(segments: int, limit: int, seconds: float) -> dict[str, float]:
    """Figures of the kernel."""
    with namespaces(segments, limit):
        begin = time.monotonic() + SKIP_S
        until = begin + seconds
        listening = threading.Event()
        threading.Thread(target=receiver, args=(listening, until), daemon=True).start()
        listening.wait()
        work = [threading.Thread(target=sender, args=(space, until), daemon=True) for space in SPACES[:2]]
        for thread in work:
            thread.start()
        samples = []
        while time.monotonic() < until:
            time.sleep(0.01)
            if time.monotonic() > begin:
                samples.append(backlog())
        for thread in work:
            thread.join(timeout=3)
    frames = [size / KERNEL_FRAME for size, _ in samples]
    return summary(frames) | {"packet": sum(frames) / sum(count for _, count in samples)}


def summary(frames: list[float]) -> dict[str, float]:
    """Figures of samples of the queue."""
    return {"largest": max(frames), "median": statistics.median(frames)}


def scenario(segments: int, limit: int, seconds: float) -> dict[str, Any]:
    """The same in the simulator: the interrupt comes when all frames of some super-packets have arrived."""
    # The receiver's card holds frames until the super-packet is complete, or until the next is, as a delayed ACK waits.
    train = f"{2 * segments * 1538 * 8 / RATE_MBPS:.0f} us"
    names = ["host0", "host1", "host2"]
    rates = ["100 Mbps", "100 Gbps", "100 Gbps"]
    return {
        "stop": f"{SKIP_S + seconds} s",
        "topology": {
            "kind": "custom",
            "hosts": names,
            "switches": ["switch"],
            "links": [
                {"ends": [name, "switch"], "rate": rate, "delay": "1 us"}
                for name, rate in zip(names, rates, strict=True)
            ],
        },
        "host": {
            "tso": segments > 1,
            "gro": segments > 1,
            "tx_jitter": "10 us",
            "tx_delay": "15 us",
            "rx_delay": "15 us",
        }
        | ({"tso_size": f"{segments * 1448} B", "gro_timeout": train} if segments > 1 else {}),
        "switch": {
            "kind": "linux",
            "queue_packets": limit,
            "linux": {"interrupt_delay": "5 us", "gro": segments > 1},
        },
        "transport": {"preset": "cubic", "stack": "linux"},
        "workload": [
            {
                "name": "long",
                "kind": "long_flows",
                "flows": [{"src": "host1", "dst": "host0"}, {"src": "host2", "dst": "host0"}],
            },
        ],
        "record": {"series": {"every": "10 ms", "ports": ["switch:0"]}},
    }


def simulated(segments: int, limit: int, seconds: float, seed: int) -> dict[str, float]:
    """Figures of the simulator."""
    results = pf.run(tomli_w.dumps(scenario(segments, limit, seconds)) + "\n", seed=seed, progress=False)
    series = pl.DataFrame(results.series).filter(pl.col("time_us") > SKIP_S * 1e6)
    frames = (series.filter(pl.col("metric") == "backlog_bytes")["value"] / FRAME).to_list()
    return summary(frames)


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--segments", type=int, nargs="+", default=[1, 4, 9])
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    if os.geteuid() != 0:
        print("namespaces need root", file=sys.stderr)
        return 2
    print("| segments | run | segments of a queued packet | largest queue, frames | median |")
    print("|---|---|---|---|---|")
    for segments in args.segments:
        case = (segments, args.limit, args.seconds)
        runs = [(f"kernel {number}", kernel(*case)) for number in range(1, args.seeds + 1)]
        runs += [(f"seed {seed}", simulated(*case, seed)) for seed in range(1, args.seeds + 1)]
        for name, row in runs:
            size = f"{row['packet']:.2f}" if "packet" in row else ""
            print(f"| {segments} | {name} | {size} | {row['largest']:.1f} | {row['median']:.1f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
