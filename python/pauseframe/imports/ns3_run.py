"""The keys of the HPCC simulator and its forks about the run itself, and those without an effect here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pauseframe.scenario.plain import decimal

if TYPE_CHECKING:
    from pauseframe.imports.config_file import Config

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
LONGEST = 86_400.0
"""Longest `stop.time`, in seconds."""


def opening(config: Config, name: str) -> list[str]:
    """The first lines of a scenario: name, seed, end of the run, clocks."""
    if "FLOWGEN_STOP_TIME" in config.entries and "SIMULATOR_STOP_TIME" not in config.entries:
        key, seconds = "FLOWGEN_STOP_TIME", config.number("FLOWGEN_STOP_TIME", "") + 10
    else:
        key, seconds = "SIMULATOR_STOP_TIME", config.number("SIMULATOR_STOP_TIME", "3.01")
        if "FLOWGEN_STOP_TIME" in config.entries:
            config.idle("FLOWGEN_STOP_TIME", "SIMULATOR_STOP_TIME ends the run")
    time = f'time = "{decimal(seconds)} s", ' if 0 < seconds <= LONGEST else ""
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


def judge_rest(config: Config) -> None:
    """Judges the keys that no part of the scenario has used. Raises InputError if one is unknown or refused."""
    for key, entry in config.entries.items():
        if why := SILENT.get(key):
            config.idle(key, why)
        elif key not in config.fates and key not in config.refusals:
            config.refuse(key, f"{entry.text}: this key is not known")
    config.raise_refusals()
