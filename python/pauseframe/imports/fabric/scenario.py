"""Writes the text of an imported scenario: a line for each link and port, with the device's own names in a comment."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pauseframe.devices.files import shown
from pauseframe.fabric.headroom import LIGHT
from pauseframe.imports.fabric import hashing, loads, marks, own, pairs, ports, switches
from pauseframe.imports.fabric.account import rows_of
from pauseframe.imports.fabric.scope import Scope, scope_of
from pauseframe.imports.fabric.traffic import code_point, lossless_code_points, treatment
from pauseframe.imports.fabric.uses import Uses
from pauseframe.lint.subject import lossless_queues
from pauseframe.scenario.plain import toml_value
from pauseframe.scenario.table_names import SCHEMA_URL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pauseframe.devices.model import End
    from pauseframe.devices.read import Reading
    from pauseframe.imports.fabric.account import AccountRow
    from pauseframe.imports.fabric.loads import Load, LoadName
    from pauseframe.imports.fabric.switches import Classes
    from pauseframe.imports.fabric.traffic import CodePoint

Toml = dict[str, Any]
MADE = "Made by `pauseframe import fabric`."
"""Begin of the comment at the head of an imported scenario."""
LOSSLESS = "lossless"
"""Begin of the comment with the code point of the lossless traffic."""
NOT_HELD = "not held"
"""Begin of the comments about places whose value the scenario does not have."""


def _inline(value: Any) -> str:
    """A value in TOML syntax, with the bare keys that people write."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_inline(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return toml_value(value)


@dataclass
class ImportedFabric:
    """The text of a scenario, and the account of its values."""

    toml: str
    scope: Scope
    classes: Classes
    rows: list[AccountRow]


def import_fabric(
    reading: Reading, *, load: LoadName = "auto", name: str = "fabric", lossless: str = ""
) -> ImportedFabric:
    """A scenario of a fabric whose device files were read. ValueError if fewer than two hosts are connected.

    `lossless` is the code point of the lossless traffic, such as "DSCP 26": by default what most ports pause.
    """
    codes = [code] if (code := code_point(lossless)) is not None else lossless_code_points(reading.fabric)
    return build(reading, scope_of(reading.fabric), codes[0] if codes else None, loads.LOADS[load], name=name)


def build(
    reading: Reading, scope: Scope, code: CodePoint | None, load: Callable[[Scope, Classes], Load], *, name: str
) -> ImportedFabric:
    """A scenario of a scope; `code` is the code point of the lossless traffic."""
    classes = switches.classes_of(scope, code)
    mtu = switches.mtu_of(scope)
    work = load(scope, classes)
    settings = _settings(scope, classes, mtu)
    lines = [f"name = {_inline(name)}", f"stop = {_inline(work.stop)}", "", *_topology(scope), ""]
    host = ports.host_keys(scope)
    if host.get("port_choice") == "mux":
        host |= pairs.mux_times(scope, reading)
    routing = hashing.routing_of(scope) | pairs.routing_of(scope, reading, classes, host)
    lines += ["[routing]", *(f"{key} = {_inline(value)}" for key, value in routing.items())]
    lines += ['convergence = "0 s"', "", "[host]", f"mtu = {_inline(f'{mtu} B')}"]
    lines += [f"{key} = {_inline(value)}" for key, value in (host | ports.offloads(scope)).items()]
    lines += [*([f"slow_receivers = {_inline(work.slow)}"] if work.slow else []), ""]
    lines += [*_switch(settings), *_pfc_ports(scope, classes, settings), *_classes(scope, classes)]
    lines += [*_overrides(scope, classes, mtu, settings), *_faults(scope, work, mtu)]
    lines += _work(work)
    own = {name: scope.fabric.switches[name].statements for name in scope.switches}
    vendors = {name: statements for name, statements in own.items() if statements is not None}
    per_port = settings["buffer"]["policy"] == "per_port"
    uses = {
        one: Uses(scope, classes, one, reading.databases[one], per_port=per_port)
        for one in scope.switches
        if one in reading.databases
    }
    rows = rows_of(reading.databases, uses, vendors)
    head = [f"#:schema {SCHEMA_URL}", "", *(f"# {line}" for line in _legend(scope, classes, rows)), ""]
    return ImportedFabric("\n".join([*head, *lines]).rstrip() + "\n", scope, classes, rows)


def _settings(scope: Scope, classes: Classes, mtu: int) -> Toml:
    """The values of [switch] that hold for all switches."""
    pfc = switches.pfc_of(scope, classes) if classes.paused else None
    table: Toml = {"marker": "none"}
    if classes.of_dscp:
        table["priority_of_dscp"] = [list(pair) for pair in classes.of_dscp]
    if (scheduler := switches.scheduler_of(scope)) is not None:
        table["scheduler"] = scheduler
    own_size = switches.port_buffer_of(scope, classes, mtu)
    if own_size is not None:
        return table | {"buffer": {"policy": "per_port", "size": f"{own_size} B"}, "pfc": False if pfc is None else pfc}
    sizes = Counter(own.memory_of(scope, classes, mtu).values())
    size = min(sizes, key=lambda value: (-sizes[value], value))
    return table | {"buffer": {"policy": "shared", "size": f"{size} B"}, "pfc": False if pfc is None else pfc}


def _overrides(scope: Scope, classes: Classes, mtu: int, settings: Toml) -> Iterator[str]:
    """The switches whose memory differs from that of most."""
    if settings["buffer"]["policy"] == "per_port":
        return
    buffer = int(settings["buffer"]["size"].removesuffix(" B"))
    for row in own.overrides(scope, classes, mtu, buffer, settings["pfc"] or None):
        yield from ("[[switch.override]]", *(f"{key} = {_inline(value)}" for key, value in row.items()), "")


def _legend(scope: Scope, classes: Classes, rows: list[AccountRow]) -> Iterator[str]:
    """The comment at the head of the file: what is used, mapped, assumed, and not held."""
    yield f"{MADE} Nodes and ports have the names of the devices."
    if classes.code is not None:
        yield f"{LOSSLESS}  {classes.code}: headroom, pauses and their limits are those of its group at each port"
    for row in rows:
        yield f"{row['state']:8}  {shown(row['key'])}: {row['how']}"
    yield from (f"assumed   {shown(text)}" for text in scope.account.assumed)
    yield from (f"{NOT_HELD}  {odd}" for odd in sorted(scope.account.odd))


def _topology(scope: Scope) -> Iterator[str]:
    yield "[topology]"
    yield 'kind = "custom"'
    yield f"hosts = {_inline(scope.host_nodes())}"
    yield f"switches = {_inline(list(scope.known().values()))}"
    yield "links = ["
    for cable in scope.cables:
        delay = max(1, round(cable.metres * 1e9 / LIGHT))
        row: Toml = {"ends": list(cable.nodes), "ports": [port.rsplit(":", 1)[1] for port in cable.ports]}
        row |= {"rate": f"{cable.speed} Mbps", "delay": f"{delay} ns"}
        yield f"    {_inline(row)},  # {shown(' - '.join(map(str, cable.ends)))}"
    yield "]"


def _switch(settings: Toml) -> Iterator[str]:
    yield "[switch]"
    yield from (f"{key} = {_inline(value)}" for key, value in settings.items() if key != "pfc")
    yield ""
    if settings["pfc"] is False:
        yield "pfc = false"
    else:
        yield "[switch.pfc]"
        yield from (f"{key} = {_inline(value)}" for key, value in settings["pfc"].items())


def _pfc_ports(scope: Scope, classes: Classes, settings: Toml) -> Iterator[str]:
    """What differs between ports: who pauses the lossless traffic and obeys its pauses, thresholds and headroom."""
    if classes.paused:
        common = own.common_of(scope, classes, settings["pfc"])
        ends = (end for cable in scope.cables for end in cable.ends)
        rows = [row for end in ends if (row := _rule(scope, classes, end, common))]
        if rows:
            yield from ("ports = [", *(f"    {row}" for row in rows), "]")
    yield ""


def _rule(scope: Scope, classes: Classes, end: End, common: Toml) -> str:
    sends, obeys = _pauses(scope, classes, end)
    rule: Toml = {"ports": [scope.port_name(end)]}
    if not sends:
        rule["sends"] = False
    if not obeys:
        rule["obeys"] = "none"
    rule |= own.port_keys(scope, classes, end, common)
    return f"{_inline(rule)},  # {shown(str(end))}" if len(rule) > 1 else ""


def _pauses(scope: Scope, classes: Classes, end: End) -> tuple[bool, bool]:
    """Whether an end pauses the lossless traffic, and whether it obeys pauses of it."""
    port, nic = scope.fabric.port(end), scope.fabric.nic(end)
    if not classes.lossless:
        return True, True
    if port is not None:
        switch = scope.fabric.switches[end.device]
        found = treatment(switch, port, classes.code) if classes.code is not None else None
        return (found is None or found.lossless), (found is None or found.queue in lossless_queues(switch, port))
    if nic is not None and nic.pfc is not None:
        return classes.data in nic.pfc, classes.data in nic.pfc
    return True, True


def _classes(scope: Scope, classes: Classes) -> Iterator[str]:
    """A class for the lossless traffic, and for each lossy queue with marks or a code point of the scenario."""
    curves = marks.curves_of(scope)
    for number in sorted({*switches.lossy_queues(scope, classes), *curves, classes.data}):
        yield f"[switch.classes.queue{number}]"
        yield f"priorities = [{number}]"
        lossless = number in classes.paused
        alpha = switches.alpha_of(scope, classes) if lossless else switches.lossy_alpha_of(scope, number)
        if alpha is not None:
            yield f"alpha = {alpha!r}"
        if lossless and (reserved := switches.reserved_of(scope, classes)):
            yield f"reserved = {_inline(f'{reserved} B')}"
        yield ""
        if number in curves:
            yield from _marker(scope, f"switch.classes.queue{number}.marker", curves[number], lossless)


def _marker(scope: Scope, path: str, curves: Mapping[End, marks.Curve], lossless: bool) -> Iterator[str]:
    yield f"[{path}]"
    yield 'kind = "red"'
    if not lossless:  # SONiC drops what it cannot mark
        yield from ('at = "enqueue"', 'not_ect = "drop"')
    for key, name, off in (("min", "low", marks.NEVER), ("max", "high", marks.NEVER), ("p_max", "probability", 0.0)):
        yield f"[{path}.{key}]"
        for end, curve in curves.items():
            value = _inline(getattr(curve, name))
            yield f"{toml_value(scope.port_name(end))} = {value}  # {shown(str(end))}: {shown(curve.profile)}"
        yield f'"*" = {_inline(off)}'
    yield ""


def _faults(scope: Scope, work: Load, mtu: int) -> Iterator[str]:
    for row in own.small_mtus(scope, mtu):
        yield from ("[[corruption]]", *(f"{key} = {_inline(value)}" for key, value in row.items()), "")
    for cable in scope.cables:
        if cable.down:
            yield from ("[[failure]]", f"port = {_inline(cable.ports[0])}  # {shown(cable.down)}", 'down = "0 s"', "")
    for storm in work.storms:
        yield from ("[[pause_storm]]", *(f"{key} = {_inline(value)}" for key, value in storm.items()), "")


def _work(work: Load) -> Iterator[str]:
    for name, transport in work.transports.items():
        yield "[transport]" if name == "default" else f"[transports.{name}]"
        yield from (f"{key} = {_inline(value)}" for key, value in transport.items())
        yield ""
    for one in work.workloads:
        yield "[[workload]]"
        for key, value in one.items():
            if key == "flows":
                yield from ("flows = [", *(f"    {_inline(row)}," for row in value), "]")
            elif not (key == "transport" and value == "default"):
                yield f"{key} = {_inline(value)}"
        yield ""
