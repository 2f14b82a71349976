"""Rule PF007: no two devices have one hostname."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import Host, Place, Switch
from pauseframe.lint.finding import EVERY, Finding, PatchOperation, Severity, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.read import Reading


@rule("PF007", "hostname-twice", "RFC 1178; IEEE 802.1AB §8.5.6 (system name)", severity=Severity.warning,
      devices=EVERY)  # fmt: skip
def check_hostnames(reading: Reading) -> Iterator[Finding]:
    """Two devices have the same hostname.

    LLDP, DEVICE_NEIGHBOR and monitoring name devices by it, so the neighbours of one are taken for those of the other.
    The linter reads such devices by the names of their files or folders.

    No incident is known.
    """
    devices: list[Switch | Host] = [*reading.fabric.switches.values(), *reading.fabric.hosts.values()]
    by_name: dict[str, list[Switch | Host]] = defaultdict(list)
    for device in devices:
        by_name[device.hostname or device.name].append(device)
    for hostname, alike in by_name.items():
        first = next((one for one in alike if one.name == hostname), alike[0])
        for one in alike:
            if one is not first:
                own = "" if "#" in one.name else one.name
                yield Finding(
                    _place(one),
                    f"hostname {shown(hostname)} here and in {shown(first.source)}",
                    f'"{shown(own)}"' if own else "the name of this device",
                    patch=(PatchOperation("DEVICE_METADATA", "localhost", "hostname", own),) if own else (),
                )


def _place(device: Switch | Host) -> Place:
    if isinstance(device, Host):
        return Place(device.name, "hostname")
    return Place(device.name, "DEVICE_METADATA", "localhost", "hostname")
