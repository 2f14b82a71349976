"""Converts a `config.txt` of the HPCC simulator (Li et al., SIGCOMM 2019) and its forks to a scenario.

Forks are ConWeave, PowerTCP, SimAI and astra-network-ns3. A line is a key and its values. Every key is used, has no
effect here for a stated reason, or is refused, so that nobody assumes equal runs; `without` leaves a key out.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pauseframe import _core
from pauseframe._core import InputError
from pauseframe._reading import read_bytes
from pauseframe.imports.config_file import Config, read_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CONTROLS = {"1": "dcqcn_hpcc", "3": "hpcc", "7": "timely", "8": "dctcp", "12": "none"}
"""Congestion control by CC_MODE; none reacts to 12, which astra-network-ns3 sets (rdma-hw.cc)."""
NAMES_OF_MODES = {"10": "HPCC-PINT"}
"""Congestion controls that are not simulated."""
BALANCERS = {"2": "DRILL", "3": "CONGA", "6": "LetFlow", "9": "ConWeave"}
"""Load balancers of ConWeave that are not simulated, by LB_MODE."""
OUTPUT = "the simulator's own output"
UNREAD = "the simulator reads it and does not use it"
SILENT = {
    "USE_DYNAMIC_PFC_THRESHOLD": "thresholds of PFC always follow the free buffer, as in the simulator",
    "TRACE_FILE": "it names the nodes of the simulator's own trace",
    "PAUSE_TIME": "a pause lasts until its resume frame",
    "INT_MULTI": "the unit of HPCC's telemetry follows from the line rate",
    "L2_CHUNK_SIZE": "it matters only with L2_BACK_TO_ZERO 1",
    "DATA_RATE": UNREAD,
    "LINK_DELAY": UNREAD,
    "NIC_TOTAL_PAUSE_TIME": UNREAD,
    "LOAD": "FLOW_FILE has the flows",
    "FLOWGEN_START_TIME": "FLOW_FILE has the starts",
    "PINT_LOG_BASE": "a key of HPCC-PINT",
    "PINT_PROB": "a key of HPCC-PINT",
} | dict.fromkeys(
    (
        "TRACE_OUTPUT_FILE",
        "FCT_OUTPUT_FILE",
        "PFC_OUTPUT_FILE",
        "ENABLE_TRACE",
        "QLEN_MON_FILE",
        "QLEN_MON_START",
        "QLEN_MON_END",
        "QLEN_MON_INTERVAL",
        "FLOW_INPUT_FILE",
        "CNP_OUTPUT_FILE",
        "VOQ_MON_FILE",
        "VOQ_MON_DETAIL_FILE",
        "UPLINK_MON_FILE",
        "CONN_MON_FILE",
        "EST_ERROR_MON_FILE",
        "SW_MONITORING_INTERVAL",
        "BW_MON_FILE",
        "BW_MON_INTERVAL",
        "RATE_MON_FILE",
        "CNP_MON_FILE",
        "MON_START",
        "MON_END",
        "QP_MON_INTERVAL",
    ),
    OUTPUT,
)
"""Keys without an effect here, whatever their value, with the reason."""
DCQCN = {
    "ALPHA_RESUME_INTERVAL": ("dcqcn_alpha_interval", '"{} us"'),
    "RP_TIMER": ("dcqcn_rise_interval", '"{} us"'),
    "EWMA_GAIN": ("dcqcn_gain", "{}"),
    "FAST_RECOVERY_TIMES": ("dcqcn_recovery_steps", "{}"),
    "RATE_AI": ("dcqcn_additive_increase", '"{}"'),
    "RATE_HAI": ("dcqcn_hyper_increase", '"{}"'),
    "MIN_RATE": ("dcqcn_minimum_rate", '"{}"'),
}
"""Constants of DCQCN, with the keys of a scenario."""
RATES = {
    "3": {"RATE_AI": "rdma_additive_increase", "MIN_RATE": "rdma_minimum_rate"},
    "7": {"RATE_AI": "rdma_additive_increase", "RATE_HAI": "rdma_hyper_increase", "MIN_RATE": "rdma_minimum_rate"},
}
"""Rates of HPCC and TIMELY by CC_MODE, with the keys of a scenario."""
FLAGS_OF_HPCC = {
    "MULTI_RATE": ("0", "HPCC has one rate for all hops here"),
    "SAMPLE_FEEDBACK": ("0", "each packet carries telemetry here"),
    "FAST_REACT": ("1", "HPCC reacts to each acknowledgement here"),
    "VAR_WIN": ("1", "HPCC's window follows its rate here"),
    "HAS_WIN": ("1", "HPCC always has a window here"),
}
"""Settings of HPCC without a key, with the value that is simulated."""
LONGEST = 86_400.0
"""Longest `stop.time`, in seconds."""


@dataclass(frozen=True)
class Imported:
    """A scenario as TOML, and one note on what became of each key."""

    toml: str
    notes: list[str]


@dataclass(frozen=True)
class Fabric:
    """The part of a topology file that a config refers to: names and kinds of nodes, ends and rates of links."""

    nodes: list[tuple[str, str]]
    links: list[tuple[str, str, int]]

    @property
    def switch_rates(self) -> set[int]:
        """Rates of links at switches, in bits per second."""
        kinds = dict(self.nodes)
        return {rate for a, b, rate in self.links if "switch" in (kinds[a], kinds[b])}

    @property
    def has_several_ports(self) -> bool:
        """Whether some host has several links."""
        counts = Counter(end for a, b, _ in self.links for end in (a, b))
        return any(kind == "host" and counts[name] > 1 for name, kind in self.nodes)


def read_config(
    path: Path,
    *,
    folder: Path | None = None,
    without: Sequence[str] = (),
    topology: Path | None = None,
    flows: Path | None = None,
) -> Imported:
    """The scenario of a `config.txt`, for a file in `folder` (beside it if not given).

    `without` names keys to leave out; `topology` and `flows` replace the files that the config names.

    Raises:
        InputError: a line is damaged, a file or key is missing, or a key cannot be followed.

    """
    if path.is_file() and not KNOWN & set(read_bytes(path, share=16).decode("utf-8", "replace").split()):
        raise InputError(f"{path} is no config.txt of the HPCC simulator: it has none of its keys, such as CC_MODE")
    config = Config(path, read_entries(path))
    if unknown := next((key for key in without if key not in config.entries), None):
        raise InputError(f"--without {unknown}: {path} has no such key")
    left = {key: f"left out, as --without asks: {key} {config.entries.pop(key).text}" for key in without}
    base = folder or path.parent
    wiring = _file(config, "TOPOLOGY_FILE", topology)
    fabric = _fabric(wiring)
    parts = [
        _head(config, path.stem),
        [
            "",
            "[topology]",
            'kind = "file"',
            f"path = {json.dumps(os.path.relpath(wiring, base))}",
            'format = "hpcc"',
        ],
        _hosts(config, fabric),
        _routing(config),
        _switches(config, fabric),
        _transport(config),
        _faults(config, fabric, _read_topology(wiring)),
        _flows(config, flows, base),
    ]
    for key, entry in config.entries.items():
        if why := SILENT.get(key):
            config.idle(key, why)
        elif key not in config.fates and key not in config.refusals:
            config.refuse(key, f"{entry.text}: this key is not known")
    config.raise_refusals()
    notes = [f"{key} {config.entries[key].text}: {fate}" for key, fate in config.fates.items() if key in config.entries]
    notes += left.values()
    head = [
        f"# From {path.name} of the HPCC simulator or a fork; what became of each key:",
        *(f"#   {n}" for n in notes),
    ]
    return Imported("\n".join([*head, *(line for part in parts for line in part), ""]), notes)


def _file(config: Config, key: str, given: Path | None) -> Path:
    """The file of a key: the simulator's names begin at the folder that it runs in, which is one above the config's."""
    if given is not None:
        if not given.is_file():
            raise InputError(f"{given}: there is no such file")
        if key in config.entries:
            config.used(key, f"replaced by {given}")
        return given
    option = "--topology" if key == "TOPOLOGY_FILE" else "--flows"
    try:
        name = config.one(key)
    except InputError as error:
        raise InputError(f"{error}: name the file with {option}") from None
    here = config.path.resolve().parent
    places = [here, *list(here.parents)[:6], Path.cwd()]
    for candidate in [*(folder / name for folder in places), here / Path(name).name]:
        if candidate.is_file():
            config.used(key, str(os.path.relpath(candidate, here)))
            return candidate
    raise config.error(key, f"{name}: no such file beside the config or in a folder above it; name it with {option}")


def _read_topology(path: Path) -> _core.Topology:
    return _core.Topology.read(str(path), format="hpcc")


def _fabric(path: Path) -> Fabric:
    read = _read_topology(path)
    # Refuses NVSwitches and hosts that are wired to hosts, with the message of all other commands.
    read.with_single_ports()
    nodes = [(name, kind) for name, kind, _ in read.nodes()]
    links = [(a, b, rate) for a, b, rate, _ in read.links()]
    return Fabric(nodes, links)


def _head(config: Config, name: str) -> list[str]:
    if "FLOWGEN_STOP_TIME" in config.entries and "SIMULATOR_STOP_TIME" not in config.entries:
        key, seconds = "FLOWGEN_STOP_TIME", config.number("FLOWGEN_STOP_TIME", "") + 10
    else:
        key, seconds = "SIMULATOR_STOP_TIME", config.number("SIMULATOR_STOP_TIME", "3.01")
        if "FLOWGEN_STOP_TIME" in config.entries:
            config.idle("FLOWGEN_STOP_TIME", "SIMULATOR_STOP_TIME ends the run")
    time = f'time = "{seconds:g} s", ' if 0 < seconds <= LONGEST else ""
    ends = f"the run ends at {seconds:g} s, or when all flows have finished" if time else "it ends with the last flow"
    config.used(key, ends)
    seed = []
    if "RANDOM_SEED" in config.entries:
        seed = [f"seed = {config.whole('RANDOM_SEED', '')}"]
        config.used("RANDOM_SEED", "seed")
    return [
        f"name = {json.dumps(name)}",
        *seed,
        f"stop = {{ {time}when_finished = true }}",
        'clocks = "ideal"',
    ]


def _payload(config: Config) -> int:
    """Payload of a packet: the next of the path MTUs that queue pairs have."""
    payload = config.whole("PACKET_PAYLOAD_SIZE", "1000")
    sizes = [256, 512, 1000, 1024, 2048, 4096]
    mtu = next((size for size in sizes if size >= payload), sizes[-1])
    if "PACKET_PAYLOAD_SIZE" in config.entries:
        if abs(mtu - payload) <= 0.05 * payload:
            config.used("PACKET_PAYLOAD_SIZE", f"packets carry {mtu} bytes, a path MTU of RoCEv2")
        else:
            choices = ", ".join(map(str, sizes))
            config.refuse("PACKET_PAYLOAD_SIZE", f"{payload}: packets carry {choices} bytes; set one of them")
    return mtu


def _hosts(config: Config, fabric: Fabric) -> list[str]:
    # GetNicIdxOfQp hashes addresses and ports once for each queue pair; RedistributeQp moves it when a link goes down.
    ports = ['port_choice = "xor"', 'miimon = "1 us" # the simulator moves queue pairs at once']
    return [
        "",
        "[host] # as in the simulator: no Ethernet headers and gaps, queue pairs take turns",
        f'mtu = "{max(1500, _payload(config) + 102)} B"',
        'wire_overhead = "none"',
        'nic_queue = "per_destination"',
        *(ports if fabric.has_several_ports else []),
    ]


def _routing(config: Config) -> list[str]:
    mode = config.one("LB_MODE", "0")
    if "LB_MODE" in config.entries:
        if mode == "0":
            config.used("LB_MODE", "ECMP by a hash of the flow")
        else:
            name = BALANCERS.get(mode, "this load balancer")
            config.refuse("LB_MODE", f"{mode}: {name} is not simulated; 0 is ECMP by a hash of the flow")
    for key in config.entries:
        if key.startswith("CONWEAVE_"):
            config.idle(key, "a key of ConWeave (LB_MODE 9)")
    return ["", "[routing]", 'kind = "ecmp"', 'convergence = "0 s" # the simulator changes its routes at once']


def _switches(config: Config, fabric: Fabric) -> list[str]:
    size = config.number("BUFFER_SIZE", "16")
    if size <= 0:
        raise config.error("BUFFER_SIZE", f"{config.one('BUFFER_SIZE')}: give a size in MiB above 0")
    if "BUFFER_SIZE" in config.entries:
        config.used("BUFFER_SIZE", f"switches share {size:g} MiB; a port may take 1/8 of the free buffer")
    lines = [
        "",
        "[switch]",
        f'buffer = {{ policy = "shared", size = "{size:g} MiB", alpha = 0.125 }}',
        f"marker = {_marker(config, fabric)}",
    ]
    if "ENABLE_PFC" in config.entries:
        on = config.one("ENABLE_PFC") != "0"
        config.used("ENABLE_PFC", "PFC is on" if on else "PFC is off (switch.pfc), and no class is lossless")
        lines += [] if on else ["pfc = false"]
    return lines


def _marker(config: Config, fabric: Fabric) -> str:
    """RED with thresholds (kB) and a probability for each link rate in use."""
    if config.one("ENABLE_QCN", "1") == "0":
        config.used("ENABLE_QCN", "switches mark nothing")
        for key in {"KMIN_MAP", "KMAX_MAP", "PMAX_MAP"} & config.entries.keys():
            config.idle(key, "ENABLE_QCN 0 turns marks off")
        return '"none"'
    if "ENABLE_QCN" in config.entries:
        config.used("ENABLE_QCN", "switches mark by the maps of KMIN, KMAX and PMAX")
    tables = {}
    for key, unit in (("KMIN_MAP", '"{:g} KB"'), ("KMAX_MAP", '"{:g} KB"'), ("PMAX_MAP", "{:g}")):
        values = config.by_rate(key)
        if missing := sorted(fabric.switch_rates - values.keys()):
            raise config.error(key, f"has no value for {missing[0]}, the rate of a link in bit/s: add a pair for it")
        if key == "PMAX_MAP" and (wrong := next((p for p in values.values() if not 0 <= p <= 1), None)) is not None:
            raise config.error(key, f"has the probability {wrong:g}; it is 0 to 1")
        rows = [f'"{rate / 1e9:.12g} Gbps" = {unit.format(values[rate])}' for rate in sorted(fabric.switch_rates)]
        tables[key] = f"{{ {', '.join(rows)} }}"
        config.used(
            key, f"RED for ports of {', '.join(f'{rate / 1e9:g} Gb/s' for rate in sorted(fabric.switch_rates))}"
        )
    return (
        f'{{ kind = "red", min = {tables["KMIN_MAP"]}, max = {tables["KMAX_MAP"]}, '
        f'p_max = {tables["PMAX_MAP"]}, w_q = 1.0, at = "dequeue", not_ect = "queue" }}'
    )


def _transport(config: Config) -> list[str]:
    mode = config.one("CC_MODE", "1")
    if mode not in CONTROLS:
        name = f" ({NAMES_OF_MODES[mode]})" if mode in NAMES_OF_MODES else ""
        known = ", ".join(f"{number} ({name})" for number, name in CONTROLS.items())
        raise config.error("CC_MODE", f"{mode}{name} is not simulated; supported are {known}")
    preset = {"1": "roce_dcqcn", "8": "tcp_bolt", "12": "roce_dcqcn"}.get(mode, f"roce_{CONTROLS[mode]}")
    lossless = config.one("ENABLE_PFC", "1") != "0"
    lines = ["", "[transport]", f"preset = {json.dumps(preset)}"]
    lines += [] if lossless else ["lossless = false"]
    if "CC_MODE" in config.entries:
        config.used(
            "CC_MODE",
            f"preset {preset}"
            + {"8": "; one segment more each round trip", "12": " without a congestion control"}.get(mode, ""),
        )
    lines += _dctcp(config) if mode == "8" else _queue_pairs(config, mode)
    for key, (expected, why) in FLAGS_OF_HPCC.items():
        if key in config.entries and key not in config.fates and key not in config.refusals:
            if mode != "3":
                config.idle(key, "a key of HPCC (CC_MODE 3)")
            elif config.number(key, "") == float(expected):
                config.used(key, why)
            else:
                config.refuse(key, f"{config.one(key)}: {why}, as with {key} {expected}")
    _constants(config, mode)
    for key, expected, why in (
        ("RATE_BOUND", "1", "rates always bound the sender here"),
        ("L2_BACK_TO_ZERO", "0", "lost packets are sent again from the gap on here (go-back-N)"),
    ):
        if key in config.entries:
            if config.one(key) == expected:
                config.used(key, why)
            else:
                config.refuse(key, f"{config.one(key)}: {why}")
    _global_round_trip(config, mode)
    return [*lines, *_utilisation(config, mode), *_priority_of_acks(config, mode)]


def _priority_of_acks(config: Config, mode: str) -> list[str]:
    if "ACK_HIGH_PRIO" not in config.entries:
        return []
    if config.one("ACK_HIGH_PRIO") == "0":
        config.used("ACK_HIGH_PRIO", "acknowledgements have the priority of the data")
        return []
    if mode == "8":
        config.refuse("ACK_HIGH_PRIO", f"{config.one('ACK_HIGH_PRIO')}: TCP's acknowledgements have its own priority")
        return []
    config.used("ACK_HIGH_PRIO", "acknowledgements have the strict priority of CNPs")
    return ["rdma_ack_as_cnp = true"]


def _queue_pairs(config: Config, mode: str) -> list[str]:
    payload = _payload(config)
    every = max(1, -(-config.whole("L2_ACK_INTERVAL", "0") // payload))
    if "L2_ACK_INTERVAL" in config.entries:
        config.used("L2_ACK_INTERVAL", f"bytes: an acknowledgement for every {every} packets")
    lines = [
        f"rdma_control = {json.dumps(CONTROLS[mode])}",
        f'rdma_mtu = "{payload} B"',
        f"rdma_ack_every = {every}",
        'rdma_nak_interval = "500 us"',
    ]
    if mode == "1":
        lines += [
            'rdma_cnp_interval = "0 s" # every marked packet is answered',
            'rdma_cnp_scope = "queue_pair"',
            "rdma_slow_restart = false",
        ]
    if mode == "3":
        lines.append(f"hpcc_max_stage = {config.whole('MI_THRESH', '5')}")
        if "MI_THRESH" in config.entries:
            config.used("MI_THRESH", "hpcc_max_stage")
    elif "MI_THRESH" in config.entries:
        config.idle("MI_THRESH", "a key of HPCC (CC_MODE 3)")
    for key, name in RATES.get(mode, {}).items():
        if key in config.entries:
            lines.append(f'{name} = "{_above_zero(config, key) / 1e6:.12g} Mbps"')
    return [*lines, *_windows(config, mode), *(_lines_of_dcqcn(config) if mode == "1" else [])]


def _utilisation(config: Config, mode: str) -> list[str]:
    if "U_TARGET" not in config.entries:
        return []
    if mode != "3":
        config.idle("U_TARGET", "a key of HPCC (CC_MODE 3)")
        return []
    config.used("U_TARGET", "hpcc_utilisation")
    return [f"hpcc_utilisation = {config.number('U_TARGET', ''):.12g}"]


def _above_zero(config: Config, key: str) -> int:
    rate = config.rate(key)
    if rate == 0:
        raise config.error(key, f"{config.one(key)}: give a rate above 0")
    return rate


def _windows(config: Config, mode: str) -> list[str]:
    """The window beside a rate (HAS_WIN, VAR_WIN, IRN), and the timer."""
    is_irn = config.one("ENABLE_IRN", "0") != "0"
    has_window = mode != "3" and config.one("HAS_WIN", "1") != "0"
    window = "by_rate" if has_window and config.one("VAR_WIN", "0") != "0" else "fixed"
    if mode != "3":
        _judge_windows(config, window if has_window else "none")
    if not is_irn and "ENABLE_IRN" in config.entries:
        config.used("ENABLE_IRN", "go-back-N")
    elif is_irn:
        config.used(
            "ENABLE_IRN",
            "selective repeat, a window of one bandwidth-delay product, timeouts of 320 us (RTO_high), and of 100 us "
            "(RTO_low) with at most three packets in flight",
        )
    irn = ["rdma_selective_repeat = true", 'rdma_timeout = "320 us"', 'rdma_timeout_low = "100 us"']
    lines = irn if is_irn else []
    if has_window or is_irn:
        lines.append(f'rdma_window = "{window}"')
    lines.append('rdma_timer = "ibta" # without IRN the simulator has no timer; this one is long')
    return lines


def _judge_windows(config: Config, window: str) -> None:
    for key in {"HAS_WIN", "VAR_WIN"} & config.entries.keys():
        if window == "none":
            config.used(key, "no window")
        else:
            config.used(key, f'rdma_window = "{window}"')


def _dctcp(config: Config) -> list[str]:
    """DCTCP is TCP's here; its window and increase are those of RFC 8257."""
    if config.one("HAS_WIN", "1") == "0":
        config.refuse("HAS_WIN", "0: DCTCP has a window here")
    elif "HAS_WIN" in config.entries:
        config.used("HAS_WIN", "TCP's window, which begins with one bandwidth-delay product")
    if "VAR_WIN" in config.entries:
        config.idle("VAR_WIN", "DCTCP steers a window here, not a rate")
    if "DCTCP_RATE_AI" in config.entries:
        config.idle("DCTCP_RATE_AI", "DCTCP adds one segment each round trip (RFC 8257)")
    if config.one("ENABLE_IRN", "0") != "0":
        config.refuse("ENABLE_IRN", "1: with DCTCP, TCP's own loss recovery runs")
    elif "ENABLE_IRN" in config.entries:
        config.used("ENABLE_IRN", "TCP's own loss recovery")
    if "MI_THRESH" in config.entries:
        config.idle("MI_THRESH", "a key of HPCC (CC_MODE 3)")
    lines = ["delayed_ack_segments = 1"]
    if "L2_ACK_INTERVAL" in config.entries:
        config.used("L2_ACK_INTERVAL", "each segment is acknowledged")
    if "EWMA_GAIN" in config.entries:
        lines.append(f"dctcp_g = {config.number('EWMA_GAIN', ''):.12g}")
        config.used("EWMA_GAIN", "dctcp_g")
    return lines


def _constants(config: Config, mode: str) -> None:
    """What became of the constants of congestion controls."""
    rates = RATES.get(mode, {})
    for key in [*DCQCN, "RATE_DECREASE_INTERVAL", "CLAMP_TARGET_RATE", "DCTCP_RATE_AI"]:
        if key not in config.entries or key in config.fates or key in config.refusals:
            continue
        if mode == "1" and key != "DCTCP_RATE_AI":
            _constant_of_dcqcn(config, key)
        elif key in rates:
            config.used(key, rates[key])
        else:
            of = "DCTCP (CC_MODE 8)" if key == "DCTCP_RATE_AI" else "DCQCN (CC_MODE 1)"
            config.idle(key, f"a key of {of}, or unused by {CONTROLS[mode]}")


def _constant_of_dcqcn(config: Config, key: str) -> None:
    if key in DCQCN:
        config.used(key, DCQCN[key][0])
    elif key == "RATE_DECREASE_INTERVAL":
        config.used(key, "dcqcn_cut_interval")
    else:
        config.used(key, "dcqcn_clamp_target")


def _lines_of_dcqcn(config: Config) -> list[str]:
    lines = []
    for key, (name, form) in DCQCN.items():
        if key in config.entries:
            value = f"{config.rate(key) / 1e6:.12g} Mbps" if "RATE" in key else f"{config.number(key, ''):.12g}"
            lines.append(f"{name} = {form.format(value)}")
    if "RATE_DECREASE_INTERVAL" in config.entries:
        lines.append(f'dcqcn_cut_interval = "{config.number("RATE_DECREASE_INTERVAL", ""):.12g} us"')
    if "CLAMP_TARGET_RATE" in config.entries:
        clamp = "after_increase" if config.one("CLAMP_TARGET_RATE") == "0" else "always"
        lines.append(f'dcqcn_clamp_target = "{clamp}"')
    return lines


def _global_round_trip(config: Config, mode: str) -> None:
    if "GLOBAL_T" not in config.entries:
        return
    if config.one("GLOBAL_T") == "1":
        config.used("GLOBAL_T", "windows and HPCC's round trip follow from the longest path")
    elif mode == "3" or (mode != "8" and config.one("HAS_WIN", "1") != "0" and "HAS_WIN" not in config.refusals):
        config.refuse("GLOBAL_T", f"{config.one('GLOBAL_T')}: the longest path sets the round trip of all pairs here")
    else:
        config.idle("GLOBAL_T", "without windows of queue pairs")


def _faults(config: Config, fabric: Fabric, topology: _core.Topology) -> list[str]:
    lines = []
    entry = config.entries.get("LINK_DOWN")
    if entry is not None:
        lines += _link_down(config, entry.words, fabric)
    ratio = config.number("ERROR_RATE_PER_LINK", "0")
    if not 0 <= ratio <= 1:
        raise config.error("ERROR_RATE_PER_LINK", f"{config.one('ERROR_RATE_PER_LINK')} is not from 0 to 1")
    if "ERROR_RATE_PER_LINK" in config.entries:
        config.used(
            "ERROR_RATE_PER_LINK", f"corruption of {ratio:g} of all frames" if ratio else "no link damages frames"
        )
    if ratio:
        lines += _corruption(['"*:*"'], ratio)
        # The last column of the topology file, if above 0, precedes the rate for all links.
        for ports, own in _own_errors(topology):
            lines += _corruption(ports, own)
    return lines


def _corruption(ports: list[str], ratio: float) -> list[str]:
    return ["", "[[corruption]]", f"ports = [{', '.join(ports)}]", f"fer = {ratio:.12g}"]


def _own_errors(topology: _core.Topology) -> Iterator[tuple[list[str], float]]:
    """Links with their own error rate: the names of their ports, and the rate."""
    counts: dict[str, int] = {}
    for edge in json.loads(topology.write("node-link"))["edges"]:
        ports = []
        for node in (edge["source"], edge["target"]):
            ports.append(json.dumps(f"{node}:{counts.get(node, 0)}"))
            counts[node] = counts.get(node, 0) + 1
        if error := float(edge.get("frame_error", 0)):
            yield ports, error


def _link_down(config: Config, words: list[str], fabric: Fabric) -> list[str]:
    if len(words) < 3 or not all(re.fullmatch(r"-?[0-9]{1,15}", word) for word in words[:3]):
        raise config.error("LINK_DOWN", f"{' '.join(words)}: expected a time in us and two node ids")
    after, *ends = map(int, words[:3])
    if after == 0:
        config.used("LINK_DOWN", "no link goes down")
        return []
    if any(not 0 <= end < len(fabric.nodes) for end in ends):
        raise config.error("LINK_DOWN", f"{' '.join(words)}: the topology has the nodes 0 to {len(fabric.nodes) - 1}")
    names = [fabric.nodes[end][0] for end in ends]
    if not any({a, b} == set(names) for a, b, _ in fabric.links):
        raise config.error(
            "LINK_DOWN", f"{' '.join(words)}: the topology has no link between {names[0]} and {names[1]}"
        )
    start = config.number("FLOWGEN_START_TIME", "2")
    down = f"{start + after * 1e-6:.12g} s"
    config.used("LINK_DOWN", f"a failure at {down}: {start:g} s and {after} us")
    return ["", "[[failure]]", f"link = {json.dumps(names)}", f'down = "{down}"']


def _flows(config: Config, given: Path | None, base: Path) -> list[str]:
    path = _file(config, "FLOW_FILE", given)
    return ["", "[[workload]]", 'kind = "flows"', f"file = {json.dumps(os.path.relpath(path, base))}"]


KNOWN = (
    SILENT.keys()
    | DCQCN.keys()
    | FLAGS_OF_HPCC.keys()
    | {
        "ACK_HIGH_PRIO",
        "BUFFER_SIZE",
        "CC_MODE",
        "CLAMP_TARGET_RATE",
        "DCTCP_RATE_AI",
        "ENABLE_IRN",
        "ENABLE_PFC",
        "ENABLE_QCN",
        "ERROR_RATE_PER_LINK",
        "FLOWGEN_STOP_TIME",
        "FLOW_FILE",
        "GLOBAL_T",
        "KMAX_MAP",
        "KMIN_MAP",
        "L2_ACK_INTERVAL",
        "L2_BACK_TO_ZERO",
        "LB_MODE",
        "LINK_DOWN",
        "MI_THRESH",
        "PACKET_PAYLOAD_SIZE",
        "PMAX_MAP",
        "RANDOM_SEED",
        "RATE_BOUND",
        "RATE_DECREASE_INTERVAL",
        "SIMULATOR_STOP_TIME",
        "TOPOLOGY_FILE",
    }
)
"""Keys of the HPCC simulator and its forks."""
