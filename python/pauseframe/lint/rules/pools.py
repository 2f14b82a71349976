"""Rules PF019 and PF029: the shared headroom must suffice, and a limit must hold a packet."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pauseframe.devices.files import shown
from pauseframe.devices.model import DEFAULT_MTU, End, Place
from pauseframe.lint.finding import Finding, PatchOperation, Severity, rule
from pauseframe.lint.subject import group_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import BufferProfile, Port, Switch
    from pauseframe.devices.read import Reading

_RATIO = 2
"""Largest ratio of all headroom to the pool without a warning: SONiC's `over_subscribe_ratio` on NVIDIA switches."""
_ZERO = "zero_profile"
"""In the names of profiles for ports that hold nothing: sonic-swss, buffermgrdyn.cpp."""
_SMALLEST = 64
"""Bytes of the smallest frame of Ethernet."""
_SHARED = "ingress_lossless_pool"
"""The pool of profiles that buffermgrd creates from pg_profile_lookup.ini."""


@rule(
    "PF019",
    "shared-headroom-oversubscribed",
    "https://github.com/sonic-net/SONiC/blob/master/doc/qos/dynamically-headroom-calculation.md (shared headroom pool)",
    severity=Severity.warning,
)
def check_shared_headroom(reading: Reading) -> Iterator[Finding]:
    """The groups of a headroom pool need more than the pool has.

    `xoff` of a pool is the headroom of all its groups; `xoff` of a profile is the maximum of one group. If many groups
    fill at once, packets that arrive after their pause are dropped. A *warning*: the groups need more than twice the
    pool, or more than `over_subscribe_ratio` times if that is larger. An *error*: the pool has no shared headroom
    (`xoff` is 0 or missing), and the reserved `size` of the profile does not contain its `xoff`.

    No incident is known.
    """
    for switch in reading.fabric.switches.values():
        if switch.model == "dynamic":
            continue
        needs = _needs(switch)
        for name, pool in switch.pools.items():
            groups = sorted(needs[name], key=lambda need: -need[0])
            if not groups or pool.size is None:
                continue
            place = Place(switch.name, "BUFFER_POOL", name, "xoff")
            if pool.xoff == 0:
                bare = [profile for _, profile in groups if profile is not None and profile.size < profile.xoff]
                if bare:
                    yield _none_shared(place, bare, pool.size)
            elif groups[0][0] <= pool.xoff:
                yield from _oversubscribed(switch, place, pool.xoff, [xoff for xoff, _ in groups])


def _needs(switch: Switch) -> dict[str, list[tuple[int, BufferProfile | None]]]:
    """Headroom of every group by pool, as (headroom, profile that a row names, if any)."""
    needs: dict[str, list[tuple[int, BufferProfile | None]]] = defaultdict(list)
    for port in switch.ports.values():
        for name in port.groups.values():
            profile = switch.profiles.get(name or "")
            if profile is not None and profile.xoff > 0 and not profile.computed:
                needs[profile.pool].append((profile.xoff, profile))
        for _ in _looked_up_groups(switch, port):
            row = switch.looked_up(port)
            if row is not None and row.xoff > 0:
                needs[_SHARED].append((row.xoff, None))
    return needs


def _looked_up_groups(switch: Switch, port: Port) -> set[int]:
    return {group_of(switch, port, priority) for priority in port.lossless} - set(port.groups)


def _none_shared(place: Place, bare: list[BufferProfile], size: int) -> Finding:
    first, total = bare[0], sum(profile.xoff for profile in bare)
    return Finding(
        place,
        f"no headroom is shared, and {first.name} reserves {first.size} B of the {first.xoff} B that it needs: "
        f"{len(bare)} groups without headroom",
        f"{total} for all groups at once",
        severity=Severity.error,
        patch=(PatchOperation(place.table, place.key, place.field, str(total)),) if total <= size else (),
    )


def _oversubscribed(switch: Switch, place: Place, pool: int, needs: list[int]) -> Iterator[Finding]:
    size = switch.pools[place.key].size or 0
    total = sum(needs)
    allowed = max(_RATIO, switch.over_subscribe_ratio or 0)
    if total <= allowed * pool:
        return
    left, groups = pool, 0
    for need in needs:
        if need > left:
            break
        left, groups = left - need, groups + 1
    enough = -(-total // allowed)
    yield Finding(
        place,
        f"{len(needs)} groups that need {total} B share {pool} B of headroom, over-subscribed {total / pool:.3g} "
        f"times: it suffices for {groups} of them at once",
        f"at least {enough} ({allowed} times), {total} for all groups at once",
        patch=(PatchOperation(place.table, place.key, place.field, str(enough)),) if enough <= size else (),
    )


@rule("PF029", "limit-below-packet", "SAI: sai_buffer_profile_attr_t (static threshold, reserved size)")
def check_limits(reading: Reading) -> Iterator[Finding]:
    """A buffer profile in use holds less than one packet: its groups or queues drop what arrives.

    A group or queue holds its reserved `size` and at most `static_th` bytes of the pool. With 0 and 0 every packet is
    dropped, with less than the MTU of the port every large one. Left out are ports that are down, SONiC's zero profiles
    at ports without a known neighbour, and groups with headroom, which pause instead.

    No incident is known.
    """
    peers = reading.fabric.peers()
    for switch in reading.fabric.switches.values():
        used: dict[str, tuple[int, str]] = {}
        for port in switch.ports.values():
            names = {*port.groups.values(), *(queue.profile for queue in port.queues.values())}
            wired = End(switch.name, port.name) in peers
            known = (name for name in names if name and (wired or _ZERO not in name))
            for name in sorted(known) if port.up else ():
                mtu = port.mtu or DEFAULT_MTU
                if mtu > used.get(name, (0, ""))[0]:
                    used[name] = mtu, port.name
        for name, (mtu, port_name) in used.items():
            profile = switch.profiles.get(name)
            if profile is None or profile.static_th is None or profile.has_headroom or profile.trims:
                continue
            most = profile.size + profile.static_th
            if most < mtu:
                yield Finding(
                    Place(switch.name, "BUFFER_PROFILE", name, "static_th"),
                    f"holds at most {most} B, and {shown(port_name)} has packets of up to {mtu} B: "
                    f"{'every packet' if most < _SMALLEST else 'each larger one'} is dropped",
                    "the limit of the platform's template",
                )
