"""What counters are expected to show: by a run, by the devices' configuration, or by both."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pauseframe.counters.model import Key
from pauseframe.counters.spread import Spread
from pauseframe.devices.tiers import levels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pauseframe.counters.model import Kind
    from pauseframe.counters.of_run import Simulated
    from pauseframe.devices.model import Fabric, Port


@dataclass
class Expected:
    """Expectations about a fabric; with neither run nor configuration everything is possible."""

    run: Simulated | None = None
    fabric: Fabric | None = None
    source: str = "nothing"
    devices: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    _links: list[tuple[tuple[str, str], tuple[str, str]]] = field(default_factory=list)
    _tier: dict[str, int] = field(default_factory=dict)
    _used: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, run: Simulated | None, fabric: Fabric | None) -> Expected:
        """The expectations of a run and a configuration, either of which may be missing."""
        found = cls(run, fabric, " and ".join(n for n, one in (("the run", run), ("the configuration", fabric)) if one))
        if run is not None:
            found.devices |= {node for ends in run.links for node, _ in ends}
            found.hosts |= run.hosts
            found._links += run.links
            for device in run.counted.devices.values():
                found._used |= {*device.numbers("queue_packets")}
        if fabric is not None:
            found.devices |= fabric.switches.keys() | fabric.hosts.keys()
            found.hosts |= fabric.hosts.keys()
            found.devices |= {end.device for x in fabric.links for end in (x.a, x.b)}
            if run is None:
                found._links += [((x.a.device, x.a.port), (x.b.device, x.b.port)) for x in fabric.links]
                found.hosts |= {end.device for x in fabric.links for end in (x.a, x.b)} - fabric.switches.keys()
        switches = {node for ends in found._links for node, _ in ends} - found.hosts
        found._tier = levels([(a[0], b[0]) for a, b in found._links], switches)
        return found

    def _port(self, device: str, port: str) -> Port | None:
        switch = self.fabric.switches.get(device) if self.fabric is not None else None
        return switch.ports.get(port) if switch is not None else None

    def _lossless(self, device: str, port: str) -> set[int] | None:
        own = self._port(device, port)
        if own is not None:
            return {*own.lossless}
        if self.run is not None and device in self.devices:
            return self.run.lossless
        return None

    def is_lossless(self, device: str, port: str, number: int) -> bool:
        """True if a port pauses a priority."""
        return number in (self._lossless(device, port) or ())

    def is_lossy(self, device: str, port: str, number: int) -> bool:
        """True if a port is known not to pause a priority."""
        known = self._lossless(device, port)
        return known is not None and number not in known

    def simulated(self, device: str, port: str, kind: Kind, number: int) -> int | None:
        """A counter in the run: 0 if the run has the port and did not count there; None if it has no such port."""
        if self.run is None or port not in self.run.ports_of(device):
            return None
        own = self.run.counted.devices.get(device)
        value = own.ports.get(port, {}).get(Key(kind, number)) if own is not None else None
        return value.count if value is not None else 0

    def total(self, device: str, kind: Kind, number: int | None = None) -> int | None:
        """A counter of a device in the run, over all ports; None if the run does not have the device."""
        if self.run is None or device not in self.devices:
            return None
        own = self.run.counted.devices.get(device)
        return (own.total(kind, number) or 0) if own is not None else 0

    def used(self, number: int) -> bool:
        """True if the run sends anything in a class."""
        return number in self._used

    def leads_to_host(self, device: str, port: str) -> bool:
        """True if a host is known at the other end of a port."""
        return any(near == (device, port) and far[0] in self.hosts for near, far in self._both())

    def _both(self) -> Iterable[tuple[tuple[str, str], tuple[str, str]]]:
        return ((near, far) for a, b in self._links for near, far in ((a, b), (b, a)))

    def headroom(self, device: str, port: str, group: int | None) -> int | None:
        """Headroom of a group in bytes, if the configuration gives it."""
        own = self._port(device, port)
        if own is None or group is None or self.fabric is None:
            return None
        return self.fabric.switches[device].headroom_of(own, group)[0]

    def groups(self, device: str) -> list[list[str]]:
        """The ports of a switch that lead up: equal links, if they have one speed."""
        if device not in self._tier:
            return []
        groups: dict[int | None, list[str]] = defaultdict(list)
        for (name, port), far in self._both():
            if name == device and self._tier.get(far[0], -1) == self._tier[device] + 1:
                own = self._port(device, port)
                groups[own.speed if own is not None else None].append(port)
        return [sorted(ports) for ports in groups.values() if len(ports) > 1]

    def flows_through(self, device: str) -> int | None:
        """The equal flows that spread as those of the run which the hosts at a switch send to others: (Σb)² / Σb².

        None without a run, or for a switch without hosts.
        """
        if self.run is None:
            return None
        own = {far[0] for (name, _), far in self._both() if name == device and far[0] in self.hosts}
        sizes = [
            size
            for (sender, receiver), sent in self.run.flows.items()
            if sender in own and receiver not in own
            for size in sent
        ]
        return round(sum(sizes) ** 2 / sum(size**2 for size in sizes)) if any(sizes) else None

    def spread(self, counted: Spread) -> Spread | None:
        """The spread of the run over the same links; None if the run sends nothing there."""
        own = self.run.counted.devices.get(counted.device) if self.run is not None else None
        if own is None:
            return None
        kind = f"queue_{counted.what}"
        counts = {
            port: sum(value.count for key, value in own.ports.get(port, {}).items() if key.kind == kind)
            for port in counted.counts
        }
        return Spread(counted.device, counts, counted.what) if sum(counts.values()) else None
