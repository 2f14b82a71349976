"""The environment variables of SimAI (the tutorial of aliyun/SimAI), as `--env NAME=VALUE` gives them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pauseframe._core import InputError
from pauseframe.imports.fates import Fate
from pauseframe.scenario.plain import decimal
from pauseframe.terminal.text import none_of

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("AS_SEND_LAT", "AS_PXN_ENABLE", "AS_NVLS_ENABLE", "AS_NVLSTREE_ENABLE", "AS_LOG_LEVEL")
WHERE = "environment"


def read_environment(settings: Sequence[str]) -> tuple[list[str], list[Fate]]:
    """The entries of `workload.collectives`, and what became of each variable.

    Raises InputError for an unknown name, a value that is none, and NVLS, which is not simulated.
    """
    given: dict[str, str] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not value:
            raise InputError(f"--env {setting}: give NAME=VALUE, such as AS_SEND_LAT=2")
        if name not in NAMES:
            raise InputError(f"--env {setting}: {none_of(name, NAMES)}")
        given[name] = value
    entries, fates = [], []
    for name, value in given.items():
        entry, fate = _judge(name, value)
        entries += entry
        fates.append(fate)
    if "AS_PXN_ENABLE" not in given:
        entries.append("pxn = false")
        fates.append(Fate(WHERE, "AS_PXN_ENABLE", "", "assumed", "0, as in SimAI: collectives.pxn = false"))
    if "AS_SEND_LAT" not in given:
        why = "0: give --env AS_SEND_LAT=US; SimAI's own tables would take 7.2 to 22.4 ms a message"
        fates.append(Fate(WHERE, "AS_SEND_LAT", "", "assumed", why))
    return entries, fates


def _judge(name: str, value: str) -> tuple[list[str], Fate]:
    if name == "AS_LOG_LEVEL":
        return [], Fate(WHERE, name, value, "no effect", "SimAI's own output")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 <= number < 1e6:
        raise InputError(f"--env {name}={value}: give a number from 0 on")
    if name == "AS_SEND_LAT":
        how = "collectives.message_cost in us: SimAI multiplies it by 1,000 ns, though its page says ns"
        return [f'message_cost = "{decimal(number)} us"'], Fate(WHERE, name, value, "used", how)
    if name == "AS_PXN_ENABLE":
        return [f"pxn = {'true' if number else 'false'}"], Fate(WHERE, name, value, "used", "collectives.pxn")
    if number:
        raise InputError(f"--env {name}={value}: NVLS (reduction in the NVSwitch) is not simulated: leave it out")
    return [], Fate(WHERE, name, value, "used", "no reduction in the NVSwitch")
