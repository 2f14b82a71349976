"""The registers of DCQCN of NVIDIA's cards for a transport: the inverse of `pauseframe import mlxconfig`.

Names and units are those of mlxconfig (mstflint's descriptions) and of the files below /sys/class/net/NIC/ecn, which
have the same names in lower case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pauseframe.deploy import quantities

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pauseframe.deploy.traffic import TrafficClass

Registers = dict[str, int]
FLOOR_FROM = 100_000
"""Mb/s from which on the simulator's cards have a floor of 1 % of the line rate (crates/rdma/src/cc/dcqcn.rs)."""
NOTIFIES = ("CNP_802P_PRIO", "CNP_DSCP", "MIN_TIME_BETWEEN_CNPS")
"""Registers of the receiver (`roce_np`); the others are those of the sender (`roce_rp`)."""
FIXED = {
    "RPG_BYTE_RESET": 32767,
    "RPG_MAX_RATE": 0,
    "RPG_GD": 11,
    "RPG_MIN_DEC_FAC": 50,
    "RATE_TO_SET_ON_FIRST_CNP": 0,
}
"""Registers whose only simulated value is this: no byte counter, the line rate at most, cuts by alpha/2."""
_CONNECTX: dict[str, Any] = {
    "cut_interval": "4 us",
    "alpha_interval": "1 us",
    "gain": 5 / 1024,
    "initial_alpha": 1023 / 1024,
    "rise_interval": "300 us",
    "recovery_steps": 1,
    "additive_increase": "5 Mbps",
    "hyper_increase": "50 Mbps",
    "clamp_target": "after_increase",
}


def constants(control: str, speed: int) -> dict[str, Any]:
    """The constants of a DCQCN at a line rate in Mb/s (crates/rdma/src/cc/dcqcn.rs: `DcqcnSettings::of`)."""
    connectx = _CONNECTX | {"minimum_rate": f"{speed // 100 if speed >= FLOOR_FROM else 1} Mbps"}
    if control == "dcqcn_cx5_measured":
        return connectx | {"rise_interval": "500 us"}
    if control == "dcqcn_hpcc":
        steps = speed / 25_000
        rates = {"additive_increase": f"{5 * steps:g} Mbps", "hyper_increase": f"{50 * steps:g} Mbps"}
        return connectx | {"gain": 1 / 256, "initial_alpha": 1.0, "minimum_rate": "1000 Mbps"} | rates
    if control == "dcqcn_paper":
        times = {"cut_interval": None, "alpha_interval": "55 us", "rise_interval": "55 us"}
        rates = dict.fromkeys(("additive_increase", "hyper_increase"), "40 Mbps") | {"minimum_rate": "10 Mbps"}
        rest = {"gain": 1 / 256, "initial_alpha": 1.0, "recovery_steps": 5, "clamp_target": "always"}
        return connectx | times | rates | rest | {"byte_counter": "10 MB"}
    return connectx


def registers(one: TrafficClass, speed: int) -> tuple[Registers, list[str]]:
    """The registers of a transport's DCQCN at a line rate in Mb/s, and notes on values that no register has."""
    notes: list[str] = []
    own = constants(one.keys["rdma_control"], speed)
    own |= {name: one.keys[key] for name in (*own, "byte_counter") if (key := f"dcqcn_{name}") in one.keys}

    def put(path: str, exact: float, low: int, high: int) -> int:
        found = min(max(round(exact), low), high)
        if abs(found - exact) > 1e-6 * max(1.0, abs(exact)):
            notes.append(f"{one.path}.{path} is {exact:g} in the unit of its register, which has {found}")
        return found

    found = {
        "DCE_TCP_RTT": put("dcqcn_alpha_interval", _micro(own["alpha_interval"]), 1, 131071),
        "DCE_TCP_G": 1024 - put("dcqcn_gain", 1024 * quantities.number(own["gain"]), 1, 1023),
        "INITIAL_ALPHA_VALUE": put("dcqcn_initial_alpha", 1024 * quantities.number(own["initial_alpha"]), 1, 1023),
        "RPG_TIME_RESET": put("dcqcn_rise_interval", _micro(own["rise_interval"]), 1, 131071),
        "RPG_THRESHOLD": put("dcqcn_recovery_steps", own["recovery_steps"], 1, 31),
        **{
            name: put(f"dcqcn_{key}", _mega(own[key]), 1, 131071)
            for name, key in (
                ("RPG_AI_RATE", "additive_increase"),
                ("RPG_HAI_RATE", "hyper_increase"),
                ("RPG_MIN_RATE", "minimum_rate"),
            )
        },
        "CLAMP_TGT_RATE": int(own["clamp_target"] == "always"),
        "CLAMP_TGT_RATE_AFTER_TIME_INC": 1,
        "MIN_TIME_BETWEEN_CNPS": put("rdma_cnp_interval", _micro(one.keys["rdma_cnp_interval"]), 0, 4095),
        "CNP_802P_PRIO": one.keys["rdma_cnp_priority"],
        "CNP_DSCP": one.keys["rdma_cnp_dscp"],
    }
    cut = own["cut_interval"]
    found["RATE_REDUCE_MONITOR_PERIOD"] = 1 if cut is None else put("dcqcn_cut_interval", _micro(cut), 1, 131071)
    if cut is None:
        notes.append(f"{one.path}: each CNP cuts at once; cards cut once in RATE_REDUCE_MONITOR_PERIOD, 1 us at least")
    if own.get("byte_counter") is not None:
        notes.append(
            f"{one.path}.dcqcn_byte_counter {own['byte_counter']}: the unit of RPG_BYTE_RESET is not documented"
        )
    if one.keys["rdma_cnp_scope"] != "port":
        notes.append(f"{one.path}.rdma_cnp_scope: MIN_TIME_BETWEEN_CNPS holds for the port, not for each queue pair")
    return found | FIXED, notes


def _micro(value: Any) -> float:
    return quantities.number(value) * 1e6


def _mega(value: Any) -> float:
    return quantities.number(value) / 1e6


def query(own: Mapping[str, int]) -> str:
    """The registers in the form of `mlxconfig -d DEVICE query`, which `pauseframe import mlxconfig` reads."""
    lines = [f"         {name + '_P1':<45}{value}" for name, value in own.items()]
    return "\n".join(["Configurations:                              Default", *lines]) + "\n"


def files(own: Mapping[str, int]) -> dict[str, int]:
    """The registers by file below /sys/class/net/NIC/ecn."""
    return {f"{'roce_np' if n in NOTIFIES else 'roce_rp'}/{n.lower()}": value for n, value in own.items()}
