"""Values in which a port or a switch differs from the others: rows of switch.pfc.ports and of [[switch.override]]."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from pauseframe.fabric.headroom import FRAME, annex_o
from pauseframe.imports.fabric import switches

if TYPE_CHECKING:
    from pauseframe.devices.model import End, Port, Switch
    from pauseframe.imports.fabric.scope import Scope
    from pauseframe.imports.fabric.switches import Classes


def port_keys(scope: Scope, classes: Classes, end: End, common: dict[str, Any]) -> dict[str, Any]:
    """Thresholds of a port of a switch: its headroom, and what differs from `common`, the values of most ports."""
    port = scope.fabric.port(end)
    if port is None or end.device not in scope.switches:
        return {}
    switch = scope.fabric.switches[end.device]
    found = switches.data_of(switch, port, classes)
    if not found.lossless:
        return {}
    keys: dict[str, Any] = {}
    headroom = switches.headroom_of(switch, port, found.group)
    if headroom is None and port.speed and port.cable is not None and port.cable < scope.by_end[end].metres:
        # The device computes headroom for a shorter cable than the link has (PF054).
        frame, count = switches.mtu_of(scope) + FRAME, len(classes.paused)
        headroom = annex_o(port.speed, port.cable, max_frame=frame, lossless=count).total
    if headroom is not None:
        keys["headroom"] = f"{headroom} B"
    profile = switches.profile_of(switch, port, found)
    if profile is not None and profile.static_th and f"{profile.static_th} B" != common.get("xoff"):
        keys["xoff"] = f"{profile.static_th} B"
    if profile is not None and profile.alpha is not None and profile.alpha != common.get("alpha"):
        keys["alpha"] = profile.alpha
    if "watchdog" in common and switches.watchdog_at(switch, port, classes) is None:
        keys["watchdog"] = False
    return keys


def common_of(scope: Scope, classes: Classes, pfc: dict[str, Any]) -> dict[str, Any]:
    """The values of ports without a row."""
    common: dict[str, Any] = {key: pfc[key] for key in ("xoff", "watchdog") if key in pfc}
    alpha = switches.alpha_of(scope, classes)
    return common if alpha is None else common | {"alpha": alpha}


def memory_of(scope: Scope, classes: Classes, mtu: int) -> dict[str, int]:
    """Bytes of packet memory of each switch: pool, and the headroom and reserved bytes that SONiC keeps beside it."""
    pools = {end.device: pool for end, _, _, pool in switches.pools_of(scope, classes)}
    if len(pools) < len(scope.switches):
        scope.account.assume(f"no file gives the size of some pools: {switches.POOL // 10**6} MB are shared there")
    reserved = switches.reserved_of(scope, classes)
    beside = Counter[str]()
    for end, switch, port in scope.ports():
        beside[end.device] += reserved
        shared = pools.get(end.device)
        if classes.paused and not (shared is not None and shared.xoff):
            beside[end.device] += _headroom(scope, classes, end, mtu, switch, port) * len(classes.paused)
    sizes = {name: pools[name].size or switches.POOL if name in pools else switches.POOL for name in scope.switches}
    shared_headroom = {name: pools[name].xoff if name in pools else 0 for name in scope.switches}
    return {name: sizes[name] + shared_headroom[name] + beside[name] for name in scope.switches}


def _headroom(scope: Scope, classes: Classes, end: End, mtu: int, switch: Switch, port: Port) -> int:
    """The headroom of a port: its own, or what its link needs, which the simulator gives it."""
    found = switches.data_of(switch, port, classes)
    own = switches.headroom_of(switch, port, found.group) if found.lossless else None
    if own is not None:
        return own
    cable = scope.by_end[end]
    return annex_o(cable.speed, cable.metres, max_frame=mtu + FRAME, lossless=len(classes.paused)).total


def overrides(
    scope: Scope, classes: Classes, mtu: int, buffer: int, pfc: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """A row for each switch whose memory or shared headroom is another than `buffer` and `pfc` say."""
    pools = {end.device: pool for end, _, _, pool in switches.pools_of(scope, classes)}
    shared = (pfc or {}).get("headroom_pool", {}).get("size")
    rows = []
    for device, size in memory_of(scope, classes, mtu).items():
        row: dict[str, Any] = {"switches": [scope.switches[device]]}
        if size != buffer:
            row["buffer"] = f"{size} B"
        own = f"{pools[device].xoff} B" if device in pools and pools[device].xoff else shared
        if shared is not None and own != shared:
            row["headroom_pool"] = own
        if len(row) > 1:
            rows.append(row)
    return rows


def small_mtus(scope: Scope, mtu: int) -> list[dict[str, Any]]:
    """Rows of [[corruption]] for ports whose MTU is below that of the hosts: both directions lose larger packets."""
    rows = []
    for end, _, port in scope.ports():
        if port.mtu is not None and port.mtu < mtu:
            cable = scope.by_end[end]
            far = cable.ports[1 - cable.ends.index(end)]
            rows.append({"ports": [scope.port_name(end), far], "mtu": f"{port.mtu} B"})
    return rows
