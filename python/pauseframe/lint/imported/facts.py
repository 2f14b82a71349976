"""A scenario that was imported from devices, beside the import of their files today: what each port and node has."""

from __future__ import annotations

import fnmatch
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pauseframe.deploy import quantities
from pauseframe.devices.files import DeviceFileError
from pauseframe.imports.fabric import import_fabric
from pauseframe.imports.fabric.scenario import LOSSLESS, MADE, NOT_HELD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import End
    from pauseframe.devices.read import Reading
    from pauseframe.imports.fabric.scenario import ImportedFabric

Toml = dict[str, Any]
AUTO = "load auto:"
MARKS = {"min": "green_min_threshold", "max": "green_max_threshold", "p_max": "green_drop_probability"}
OF_CARD = "dcqcn_", "rdma_"
"""Begins of the keys that registers of a card set."""
LINK, BUFFER, POOL = "link", "buffer", "headroom_pool"


class Fact(NamedTuple):
    """A value that a port, switch or host of a scenario has itself."""

    node: str
    """A node, or node, colon and port."""
    key: str


@dataclass
class Comparison:
    """The scenario that was imported before, and the import of the files as they are."""

    reading: Reading
    text: str
    design: Toml
    now: ImportedFabric
    today: Toml

    @cached_property
    def facts(self) -> tuple[dict[Fact, Any], dict[Fact, Any]]:
        """What ports and nodes have themselves: in the scenario, and today."""
        return _facts(self.design, auto=self.auto), _facts(self.today, auto=self.auto)

    @cached_property
    def devices(self) -> dict[str, str]:
        """The device of each node."""
        scope = self.now.scope
        hosts = {node: end.device for end, node in scope.hosts.items()}
        return {node: device for device, node in scope.known().items()} | hosts

    @cached_property
    def ends(self) -> dict[str, End]:
        """The ends of links by the names of ports."""
        scope = self.now.scope
        return {scope.port_name(end): end for cable in scope.cables for end in cable.ends}

    @property
    def auto(self) -> bool:
        """Whether the scenario has the load of the files, and not one that somebody chose."""
        return any(line.startswith("# ") and AUTO in line for line in self.text.splitlines())


def is_import(text: str) -> bool:
    """Whether a scenario is what `import fabric` wrote, with links that name the devices' ports."""
    return f"# {MADE}" in text and re.search(r"^kind = \"custom\"", text, re.MULTILINE) is not None


def compare(reading: Reading, text: str) -> Comparison:
    """Imports the files again. Raises DeviceFileError for files that make no scenario."""
    try:
        now = import_fabric(reading, lossless=_lossless(text))
    except ValueError as error:
        raise DeviceFileError(f"--design is an imported scenario, and the files cannot be imported: {error}") from None
    return Comparison(reading, text, tomllib.loads(text), now, tomllib.loads(now.toml))


def _lossless(text: str) -> str:
    """The code point of the lossless traffic, as the head of the scenario names it."""
    begin = f"# {LOSSLESS}  "
    return next(
        (line.removeprefix(begin).partition(":")[0] for line in text.splitlines() if line.startswith(begin)), ""
    )


def uncompared(of: Comparison) -> list[str]:
    """What the files have and the scenario has no value for."""
    found = [row["key"] for row in of.now.rows if row["state"] == NOT_HELD]
    classes = of.now.classes
    others = ", ".join(str(n) for n in classes.paused if n != classes.data)
    found += [f"buffers of the groups of priority {others}"] if others else []
    points = ", ".join(str(point) for point, _ in classes.of_dscp)
    found += [f"DSCPs other than {points}"] if points else []
    found += ["MTUs of ports above that of hosts", "egress pools", "profiles of lossless queues and lossy groups"]
    found += ["of hosts what no transport has: addresses, DCB, other sysctls"] if of.reading.fabric.hosts else []
    return found + ([] if of.auto else ["transports of hosts (the load was chosen with --load)"])


def _facts(scenario: Toml, *, auto: bool) -> dict[Fact, Any]:
    found: dict[Fact, Any] = {}
    for link in scenario["topology"]["links"]:
        names = [f"{node}:{port}" for node, port in zip(link["ends"], link.get("ports", ["", ""]), strict=True)]
        speed = round(quantities.number(link["rate"]) / 1e6)
        for own, far in (names, names[::-1]):
            found |= {Fact(own, LINK): far, Fact(own, "rate"): link["rate"], Fact(own, "delay"): link["delay"]}
            if own.partition(":")[0] in scenario["topology"]["switches"]:
                found |= {Fact(own, key): value for key, value in _of_port(scenario["switch"], own, speed)}
    for node in scenario["topology"]["switches"]:
        found |= {Fact(node, key): value for key, value in _memory(scenario["switch"], node)}
    for row in scenario.get("corruption", []):
        found |= {Fact(port, "mtu"): row.get("mtu") for port in row.get("ports", [])}
    return found | (_transports(scenario) if auto else {})


def _of_port(switch: Toml, port: str, speed: int) -> Iterator[tuple[str, Any]]:
    pfc = switch.get("pfc") or {}
    classes = switch.get("classes", {}).values()
    alphas = [own["alpha"] for own in classes if {*own["priorities"]} & {*pfc.get("priorities", [])} and "alpha" in own]
    row = {"alpha": alphas[0] if alphas else None, "xoff": pfc.get("xoff"), "headroom": pfc.get("headroom")}
    row |= {"sends": bool(pfc), "obeys": "lossless", "watchdog": bool(pfc.get("watchdog"))}
    for own in pfc.get("ports", []):
        if any(fnmatch.fnmatchcase(port, glob) for glob in own["ports"]):
            row |= {key: value for key, value in own.items() if key != "ports"}
    yield from row.items()
    for own in classes:
        for key in MARKS if "marker" in own else ():
            for number in own["priorities"]:
                yield f"queue {number} {key}", quantities.at_port(own["marker"].get(key), port, speed)


def _memory(switch: Toml, node: str) -> Iterator[tuple[str, Any]]:
    pool = (switch.get("pfc") or {}).get("headroom_pool") or {}
    buffer = switch.get("buffer", {})
    row = {BUFFER: buffer.get("size") if buffer.get("policy") == "shared" else None, POOL: pool.get("size")}
    for own in switch.get("override", []):
        if any(fnmatch.fnmatchcase(node, glob) for glob in own["switches"]):
            row |= {key: value for key, value in own.items() if key in row}
    return iter(row.items())


def _transports(scenario: Toml) -> dict[Fact, Any]:
    """The keys of the transports by which each host sends, by DSCP or priority; those of its card as one."""
    known = {"default": scenario.get("transport", {})} | scenario.get("transports", {})
    found: dict[Fact, Any] = {}
    for work in scenario.get("workload", []):
        keys = known.get(work.get("transport", "default"), {})
        name = f"transport of {'DSCP' if 'dscp' in keys else 'priority'} {keys.get('dscp', keys.get('priority'))}"
        own = {key: value for key, value in keys.items() if not key.startswith(OF_CARD)}
        card = [f"{key} {value}" for key, value in sorted(keys.items()) if key.startswith(OF_CARD)]
        own |= {"registers": ", ".join(card)} if card else {}
        for host in {flow["src"] for flow in work.get("flows", [])}:
            found |= {Fact(host, f"{name} {key}"): value for key, value in own.items()}
    return found


def plain(value: Any) -> Any:
    """A quantity as a number, so that units do not count."""
    try:
        return quantities.number(value)
    except (ValueError, TypeError):
        return value


def size(value: Any) -> float:
    """A quantity as a number; 0 if it is missing."""
    return 0.0 if value is None else quantities.number(value)
