"""The keys of the HPCC simulator and its forks about queue pairs, congestion controls and windows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pauseframe.imports.config_file import Config

CONTROLS = {"1": "dcqcn_hpcc", "3": "hpcc", "7": "timely", "8": "dctcp", "12": "none"}
"""Congestion control by CC_MODE; none reacts to 12, which astra-network-ns3 sets (rdma-hw.cc)."""
NAMES_OF_MODES = {"10": "HPCC-PINT"}
"""Congestion controls that are not simulated."""
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


def payload(config: Config) -> int:
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


def transport(config: Config) -> list[str]:
    """The table [transport]."""
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
    size = payload(config)
    every = max(1, -(-config.whole("L2_ACK_INTERVAL", "0") // size))
    if "L2_ACK_INTERVAL" in config.entries:
        config.used("L2_ACK_INTERVAL", f"bytes: an acknowledgement for every {every} packets")
    lines = [
        f"rdma_control = {json.dumps(CONTROLS[mode])}",
        f'rdma_mtu = "{size} B"',
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
