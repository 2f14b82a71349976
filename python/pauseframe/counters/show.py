"""Prints the counters of a run as devices print theirs: SONiC's commands for switches, mlx5's names for hosts.

Sources of the forms: sonic-net/sonic-utilities (scripts/pfcstat, queuestat, wredstat, watermarkstat), Linux
mlx5/counters.rst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pauseframe.counters.hosts import NSTAT, OF_PRIORITY
from pauseframe.counters.model import Key
from pauseframe.report.data import natural

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pauseframe.counters.model import Device, Kind
    from pauseframe.counters.of_run import Simulated

Form = Literal["sonic", "ethtool"]
"""Commands of SONiC switches, or of hosts with mlx5."""


def commands_of(run: Simulated, form: Form) -> Iterator[tuple[str, str, list[str]]]:
    """What the devices of a run print: device, command, lines."""
    for name in sorted({node for ends in run.links for node, _ in ends}, key=natural):
        if (name in run.hosts) == (form == "ethtool"):
            device = run.counted.device(name)
            ports = sorted(run.ports_of(name), key=natural)
            shown = _host(device, ports) if form == "ethtool" else _switch(device, ports)
            yield from ((name, command, lines) for command, lines in shown)


def transcript(run: Simulated, form: Form) -> Iterator[str]:
    """The commands and their output, with the prompts of the devices."""
    user, sign = ("admin", "$") if form == "sonic" else ("root", "#")
    for name, command, lines in commands_of(run, form):
        yield f"{user}@{name}:~{sign} {command}"
        yield from lines
        yield ""


def file_name(command: str) -> str:
    """The file for the output of a command: "pfc-counters.txt", "ethtool-eth0.txt"."""
    words = [word for word in command.split() if word not in {"show", "-S", "-az"}]
    return "-".join(words) + ".txt"


def _value(device: Device, port: str, kind: Kind, number: int | None) -> int:
    value = device.ports.get(port, {}).get(Key(kind, number))
    return value.count if value is not None else 0


def simple(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table in the form `simple` of tabulate, with all columns to the right."""
    # tabulate keeps two blanks more than a head has.
    widths = [max(len(head) + 2, *(len(row[i]) for row in rows)) for i, head in enumerate(heads)]
    lines = [heads, ["-" * width for width in widths], *rows]
    return ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]


def _switch(device: Device, ports: list[str]) -> Iterator[tuple[str, list[str]]]:
    numbers = range(8)

    def rows(kind: Kind) -> list[list[str]]:
        return [[port, *(f"{_value(device, port, kind, n):,}" for n in numbers)] for port in ports]

    classes = [f"PFC{n}" for n in numbers]
    received, sent = simple(["Port Rx", *classes], rows("pfc_rx")), simple(["Port Tx", *classes], rows("pfc_tx"))
    yield "show pfc counters", [*received, "", *sent]
    columns: tuple[Kind, ...] = ("queue_packets", "queue_bytes", "queue_drops")
    heads = ["Port", "TxQ", "Counter/pkts", "Counter/bytes", "Drop/pkts", "Drop/bytes"]
    lines = []
    for port in ports:
        own = [[port, f"UC{n}", *(str(_value(device, port, kind, n)) for kind in columns), "N/A"] for n in numbers]
        lines += [*simple(heads, own), ""]
    yield "show queue counters", lines[:-1]
    heads = ["Port", "TxQ", "WredDrp/pkts", "WredDrp/bytes", "EcnMarked/pkts", "EcnMarked/bytes"]
    marked = [
        [port, f"UC{n}", "N/A", "N/A", f"{_value(device, port, 'ecn_marks', n):,}", "N/A"]
        for port in ports
        for n in numbers
    ]
    yield "show queue wredcounters", simple(heads, marked)
    yield (
        "show priority-group watermark shared",
        ["Ingress shared pool occupancy per PG:", *simple(["Port", *(f"PG{n}" for n in numbers)], rows("shared_peak"))],
    )
    yield (
        "show queue watermark unicast",
        [
            "Egress shared pool occupancy per unicast queue:",
            *simple(["Port", *(f"UC{n}" for n in numbers)], rows("queue_peak")),
        ],
    )


def _host(device: Device, ports: list[str]) -> Iterator[tuple[str, list[str]]]:
    for port in ports:
        lines = [
            f"     {name.format(number)}: {_value(device, port, kind, number)}"
            for number in range(8)
            for name, kind in OF_PRIORITY.items()
            if kind != "rx_drops"
        ]
        yield f"ethtool -S {port}", ["NIC statistics:", *lines]
    kinds = {name: kind for name, kind in NSTAT.items() if kind != "segments"}
    lines = [f"{name:32}{_value(device, '', kind, None):<19}0.0" for name, kind in kinds.items()]
    yield "nstat -az", ["#kernel", *lines]
