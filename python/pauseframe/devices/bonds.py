"""Bonds of hosts, as ip, netplan and systemd-networkd write them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, get_args

from pauseframe.devices.bundles import Bond, BondMode
from pauseframe.devices.files import whole_number

if TYPE_CHECKING:
    from collections.abc import Sequence

MODES: tuple[BondMode, ...] = get_args(BondMode)
_TIMES = {"": 1.0, "us": 0.001, "ms": 1.0, "s": 1000.0}


def made(name: str, mode: str, members: Sequence[str], *, miimon: str = "", policy: str = "", rate: str = "") -> Bond:
    """A bond from the words of a file; a mode may be a number (0: balance-rr). Unknown words count as the defaults."""
    bond = Bond(name, members=list(members))
    if mode.isdecimal() and int(mode) < len(MODES):
        bond.mode = MODES[int(mode)]
    elif mode in MODES:
        bond.mode = mode
    bond.miimon_ms = _milliseconds(miimon)
    bond.hash_policy = policy or "layer2"
    bond.fast = rate in {"fast", "1"}
    return bond


def _milliseconds(text: str) -> int | None:
    """A time: a number alone is milliseconds (miimon, netplan); None for any other text."""
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)\s*(us|ms|s|)", text)
    return round(float(found[1]) * _TIMES[found[2]]) if found else whole_number(text)
