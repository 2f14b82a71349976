"""Converts the text of `mlxconfig -d DEVICE query` to the `[transport]` table of a scenario.

Every register of DCQCN is used, shown with the reason why it changes nothing here, or refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pauseframe._core import InputError
from pauseframe.files.reading import read_text
from pauseframe.imports.hpcc import Imported

if TYPE_CHECKING:
    from pathlib import Path

LINE = re.compile(r"^[\s>*]*(?:RO\s+)?([A-Z][A-Z0-9]*_[A-Z0-9_]+)(?:\s*=\s*|\s+)(\S.*?)\s*$")
"""A name and its values: one, or those of the columns of the header."""
VALUE = re.compile(r"^(?:[A-Za-z_0-9]*\()?(?:0x([0-9A-Fa-f]{1,16})|([0-9]{1,20}))\)?$")
"""A number, or a word with its number, such as `True(1)`."""
COLUMNS = ("Default", "Current", "Next Boot")


class RefusedError(Exception):
    """A value that cannot be simulated, and why."""


Rule = Callable[[int], str]
"""The line for the value of a register: a key with its value, or a comment."""


def _time(key: str) -> Rule:
    def line(value: int) -> str:
        if value == 0:
            raise RefusedError("a time of 0 us cannot be simulated")
        return f'{key} = "{value} us"'

    return line


def _rate(key: str) -> Rule:
    def line(value: int) -> str:
        if value == 0:
            raise RefusedError("the rate would never rise")
        return f'{key} = "{value} Mbps"'

    return line


def _share(key: str, most: int, of: Callable[[int], int]) -> Rule:
    def line(value: int) -> str:
        if not 0 < of(value) <= most:
            raise RefusedError(f"expected a share of {most} that is not 0")
        return f"{key} = {of(value) / most}"

    return line


def _number(key: str, least: int, most: int) -> Rule:
    def line(value: int) -> str:
        if not least <= value <= most:
            raise RefusedError(f"expected {least} to {most}")
        return f"{key} = {value}"

    return line


def _only(accepted: Callable[[int], bool], meaning: str, otherwise: str) -> Rule:
    def line(value: int) -> str:
        if not accepted(value):
            raise RefusedError(otherwise)
        return f"# {meaning}"

    return line


def _byte_reset(value: int) -> str:
    if value == 0:
        return "# off: increases come by time alone"
    most = "the largest value, " if value == 0x7FFF else ""
    return (
        f"# treated as off: its unit is not documented; {most}if it counts 1 KB, "
        f'then dcqcn_byte_counter = "{value * 1024} B"'
    )


def _minimum(value: int) -> str:
    if value == 0:
        raise RefusedError("a rate of 0 never sends again")
    if value > 1:
        return f'dcqcn_minimum_rate = "{value} Mbps"'
    return '# raised to 1 % of the line rate from 100 Gb/s on; the register itself: dcqcn_minimum_rate = "1 Mbps"'


def _mask(value: int) -> str:
    if value == 0:
        return 'rdma_control = "none"'
    on = [str(priority) for priority in range(8) if value >> priority & 1]
    return f"# DCQCN is on in priorities {', '.join(on)}: let `priority` be one of them"


SWITCH = "ROCE_CC_PRIO_MASK"
"""The register with the priorities in which DCQCN is on."""
RULES: dict[str, Rule] = {
    "ROCE_CC_ALGORITHM": _only(lambda value: value == 0, "ECN: DCQCN", "the card runs QCN; set qcn in the scenario"),
    SWITCH: _mask,
    "RATE_REDUCE_MONITOR_PERIOD": _time("dcqcn_cut_interval"),
    "DCE_TCP_RTT": _time("dcqcn_alpha_interval"),
    "DCE_TCP_G": _share("dcqcn_gain", 1024, lambda value: 1024 - value),
    "INITIAL_ALPHA_VALUE": _share("dcqcn_initial_alpha", 1024, lambda value: value),
    "RPG_TIME_RESET": _time("dcqcn_rise_interval"),
    "RPG_BYTE_RESET": _byte_reset,
    "RPG_THRESHOLD": _number("dcqcn_recovery_steps", 1, 1000),
    "RPG_AI_RATE": _rate("dcqcn_additive_increase"),
    "RPG_HAI_RATE": _rate("dcqcn_hyper_increase"),
    "RPG_MIN_RATE": _minimum,
    "RPG_MAX_RATE": _only(lambda value: value == 0, "off: the line rate", "no other largest rate is simulated"),
    "RPG_GD": _only(lambda value: value == 11, "a cut takes alpha/2", "only 11, a cut by alpha/2, is simulated"),
    "RPG_MIN_DEC_FAC": _only(
        lambda value: value <= 50, "no effect: alpha/2 never cuts more than 50 %", "only cuts by alpha/2 are simulated"
    ),
    "RATE_TO_SET_ON_FIRST_CNP": _only(
        lambda value: value == 0, "off: the first CNP sets no rate", "no rate at the first CNP is simulated"
    ),
    "MIN_TIME_BETWEEN_CNPS": lambda value: f'rdma_cnp_interval = "{value} us"',
    "CNP_802P_PRIO": _number("rdma_cnp_priority", 0, 7),
    "CNP_DSCP": _number("rdma_cnp_dscp", 0, 63),
    "ROCE_CC_CNP_MODERATION": lambda _: "# not simulated",
    "ROCE_CC_SHAPER_COALESCE": lambda _: "# not simulated",
}
"""Registers of DCQCN (mstflint's descriptions) in the order of the table."""
CLAMPS = ("CLAMP_TGT_RATE", "CLAMP_TGT_RATE_AFTER_TIME_INC")
WITHOUT_DCQCN = {SWITCH, "MIN_TIME_BETWEEN_CNPS", "CNP_802P_PRIO", "CNP_DSCP", "ROCE_CC_CNP_MODERATION"}
"""Registers that act on a card with DCQCN off: it still answers marked packets with CNPs."""
OPTIONAL = {"ROCE_CC_ALGORITHM", "ROCE_CC_CNP_MODERATION", "ROCE_CC_SHAPER_COALESCE"}
"""Registers that not every card has."""
IDLE = "no effect: DCQCN is off"
"""The comment of registers that a card with DCQCN off does not use."""


def read_dump(path: Path, port: int = 1) -> Imported:
    """The `[transport]` table for a port of the card of a dump.

    Raises:
        InputError: the file is no dump of one card, or has values that cannot be simulated.

    """
    ports, others = read_registers(path)
    values = ports.get(port, {})
    if not values:
        message = f"{path}: port {port} has none of the registers of DCQCN, such as RPG_TIME_RESET_P{port}"
        raise InputError(f"{message}; give the text of `mlxconfig -d DEVICE query`")
    lines, refused = lines_of(values)
    if refused:
        raise InputError(f"{path}: port {port} has values that cannot be simulated:\n  " + "\n  ".join(refused))
    off = is_off(values)
    control = [] if off else ['rdma_control = "dcqcn_connectx"']
    head = [f"# Port {port} of the card in {path.name} (`pauseframe import mlxconfig`).", "[transport]"]
    head += ['preset = "roce_dcqcn"', *control, 'rdma_cnp_scope = "port" # of MIN_TIME_BETWEEN_CNPS']
    notes = [line[2:] for line in lines if line.startswith("# ") and IDLE not in line]
    if off:
        notes.append(f"{SWITCH} 0: DCQCN is off, so its other registers change nothing")
    for other, theirs in ports.items():
        if differs := sorted(name for name in values if theirs.get(name, values[name]) != values[name]):
            notes.append(f"port {other} differs in {', '.join(differs)}; --port {other} takes its values")
    needed = (WITHOUT_DCQCN if off else {*RULES, *CLAMPS}) - OPTIONAL
    missing = [name for name in (*RULES, *CLAMPS) if name not in values and name in needed]
    if missing:
        notes.append(f"not in the dump, so as dcqcn_connectx has them: {', '.join(missing)}")
    if others:
        notes.append(f"not used: {', '.join(others)}")
    return Imported("\n".join([*head, *lines, ""]), notes)


def _otherwise(rule: Rule, value: int) -> str:
    """The key that a register would have on a card with DCQCN on; empty for other registers and refused values."""
    try:
        line = rule(value)
    except RefusedError:
        return ""
    return "" if line.startswith("# ") else f"; otherwise {line}"


def is_off(values: dict[str, int]) -> bool:
    """True if a card has DCQCN in no priority."""
    return values.get(SWITCH) == 0


def lines_of(values: dict[str, int]) -> tuple[list[str], list[str]]:
    """The lines of the table, and the values that are refused, with the reasons."""
    lines, refused = [], []
    off = is_off(values)
    for name, rule in RULES.items():
        if name not in values:
            continue
        if off and name not in WITHOUT_DCQCN:
            lines.append(f"# {name} {values[name]}: {IDLE}{_otherwise(rule, values[name])}")
            continue
        try:
            line = rule(values[name])
        except RefusedError as reason:
            refused.append(f"{name} {values[name]}: {reason}")
            continue
        comment = line.startswith("# ")
        lines.append(f"# {name} {values[name]}: {line[2:]}" if comment else f"{line} # {name} {values[name]}")
    if off:
        return lines + [f"# {name} {values[name]}: {IDLE}" for name in CLAMPS if name in values], refused
    always, after = values.get(CLAMPS[0], 0), values.get(CLAMPS[1], 1)
    if not always and not after:
        refused.append(f"{CLAMPS[0]} 0 with {CLAMPS[1]} 0: cuts that never lower the target are not simulated")
    kind = "always" if always else "after_increase"
    lines.append(f'dcqcn_clamp_target = "{kind}" # {CLAMPS[0]} {always}, {CLAMPS[1]} {after}')
    return lines, refused


def read_registers(path: Path) -> tuple[dict[int, dict[str, int]], list[str]]:
    """The registers of DCQCN by port, and all other names. Raises InputError if it is no dump of one card."""
    text = read_text(path, share=16)
    if len(re.findall(r"^[\s>]*Device #\d+", text, re.M)) > 1:
        raise InputError(f"{path} has several devices; give the dump of one: mlxconfig -d DEVICE query")
    column = 0
    found: dict[int, dict[str, int]] = {}
    others: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip("> ").startswith("Configurations:"):
            names = [name for name in COLUMNS if name in line]
            column = names.index("Current") if "Current" in names else 0
            continue
        match = LINE.match(line)
        if not match:
            continue
        name, words = match[1], match[2].split()
        base, _, port = name.rpartition("_P")
        if not re.fullmatch(r"[0-9]{1,2}", port) or base not in (*RULES, *CLAMPS):
            others.setdefault(name)
            continue
        value = VALUE.match(words[column] if column < len(words) else "")
        if value is None:
            raise InputError(f"{path}, line {number}: {name} has no number in {line.strip()!r}")
        found.setdefault(int(port), {})[base] = int(value[1], 16) if value[1] else int(value[2])
    order = (*RULES, *CLAMPS)
    return {port: {name: of[name] for name in order if name in of} for port, of in found.items()}, list(others)
