"""The order of roll-out of a scenario: switches first, so that no host sends into a class that a switch lacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.deploy.commands import LINUX, of_sonic, section
from pauseframe.deploy.underlay import FIRST_AS, HOSTS, LINKS, LOOPBACKS, VLAN

if TYPE_CHECKING:
    from pauseframe.deploy.design import Design

_HOST = (
    "The script keeps what it changes in /var/lib/pauseframe. `networkd/`, `sysctl.conf` and, for RoCE, "
    "`mlxconfig.txt` have the same settings as files."
)


def steps(design: Design) -> list[tuple[str, tuple[str, ...]]]:
    """The steps: each switch, then the hosts of each switch."""
    racks: dict[str, list[str]] = {}
    for name, ports in design.machines.items():
        racks.setdefault(ports[0].switch, []).append(name)
    return [("switch", (name,)) for name in design.plan.switches] + [("host", tuple(own)) for own in racks.values()]


def as_text(design: Design, names: dict[str, str], *, patched: bool = False) -> str:
    """The text of ROLLOUT.md."""
    lines = [
        "# Order of roll-out",
        "",
        "Devices of one step can be changed in any order. Copy the folder of a device (`switches/NAME`, `hosts/NAME`) "
        "to it, and run the commands there as root. A check that fails ends the roll-out. Back: the same list from its "
        "end.",
        "",
        "Until all switches and hosts are done, traffic of a new class is best effort where a device does not know the "
        "class: start no load that needs it.",
        "",
    ]
    lines += section(
        "A switch",
        f"`underlay.json` has addresses (hosts {HOSTS}, links {LINKS}, switches {LOOPBACKS}), VLAN {VLAN} for hosts, "
        f"and BGP (AS {FIRST_AS} and up). If the fabric routes already, leave the file out, and give hosts their own "
        "addresses in `setup.sh`.",
        of_sonic("underlay.json", "config_db.json", patched=patched),
    )
    lines += section("A host", _HOST, LINUX)
    lines += ["## Steps", ""]
    order = enumerate(steps(design), 1)
    lines += [f"{i}. {kind}: {', '.join(names[device] for device in devices)}" for i, (kind, devices) in order]
    return "\n".join(lines) + "\n"
