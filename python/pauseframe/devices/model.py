"""The device model of linter, deployer and simulator, independent of vendors' file formats.

Units: bytes, Mb/s, metres, milliseconds, unless a name says otherwise. None means that no file has the value.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PRIORITIES = range(8)
DEFAULT_MTU = 9100
"""MTU of a SONiC port without one in its row."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a setting: device, table (or file), key, field."""

    device: str
    table: str = ""
    key: str = ""
    field: str = ""

    def __str__(self) -> str:
        parts = [self.device, self.table, self.key, self.field]
        return " ".join(part for part in parts if part)


@dataclass(slots=True)
class Pool:
    """A buffer pool. `xoff` is the headroom shared by its groups; without it each group has its own headroom."""

    name: str
    direction: str = "ingress"
    mode: str = "dynamic"
    size: int | None = None
    xoff: int = 0


@dataclass(slots=True)
class BufferProfile:
    """Bytes of a priority group or queue: reserved `size`, and `xoff` for packets that arrive after the pause."""

    name: str
    pool: str = ""
    size: int = 0
    xon: int = 0
    xoff: int = 0
    xon_offset: int = 0
    static_th: int | None = None
    dynamic_th: int | None = None
    computed: bool = False
    """The device computes the sizes (`headroom_type` dynamic)."""
    trims: bool = False
    """Packets without room are cut to their headers and forwarded (`packet_discard_action` trim)."""

    @property
    def has_headroom(self) -> bool:
        """Whether the group has headroom."""
        return self.xoff > 0 or self.computed

    @property
    def alpha(self) -> float | None:
        """Maximum share of the free pool."""
        return None if self.dynamic_th is None else 2.0**self.dynamic_th


@dataclass(slots=True)
class Wred:
    """Marking and dropping of a queue. Thresholds apply to green packets, which include ECN-capable TCP."""

    name: str
    ecn: str = "ecn_none"
    min_threshold: int | None = None
    max_threshold: int | None = None
    drop_probability: int = 100
    enabled: frozenset[str] = frozenset()

    @property
    def marks_green(self) -> bool:
        """Whether green packets are marked."""
        return self.ecn == "ecn_all" or "green" in self.ecn


@dataclass(slots=True)
class Scheduler:
    """Scheduling of a queue."""

    name: str
    kind: str = "WRR"
    weight: int = 1


@dataclass(slots=True)
class Maps:
    """Maps of a device by kind and name. Keys and values are code points, classes, groups or queues."""

    dscp_to_tc: dict[str, dict[int, int]] = field(default_factory=dict)
    dot1p_to_tc: dict[str, dict[int, int]] = field(default_factory=dict)
    tc_to_pg: dict[str, dict[int, int]] = field(default_factory=dict)
    tc_to_queue: dict[str, dict[int, int]] = field(default_factory=dict)
    pfc_to_queue: dict[str, dict[int, int]] = field(default_factory=dict)
    pfc_to_pg: dict[str, dict[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class PortQos:
    """The maps that a port uses, and the priorities that it pauses."""

    pfc: frozenset[int] | None = None
    watchdog: frozenset[int] | None = None
    dscp_to_tc: str | None = None
    dot1p_to_tc: str | None = None
    tc_to_pg: str | None = None
    tc_to_queue: str | None = None
    pfc_to_queue: str | None = None
    pfc_to_pg: str | None = None
    key: str = ""
    """The row with the setting: the port's, or "global"."""


@dataclass(slots=True)
class Queue:
    """An egress queue."""

    profile: str | None = None
    wred: str | None = None
    scheduler: str | None = None


@dataclass(slots=True)
class Watchdog:
    """Watchdog times of a port, in milliseconds."""

    action: str | None = None
    detection: int | None = None
    restoration: int | None = None


@dataclass(slots=True)
class Port:
    """A port of a switch."""

    name: str
    speed: int | None = None
    mtu: int | None = None
    fec: str | None = None
    alias: str | None = None
    up: bool = True
    cable: float | None = None
    qos: PortQos = field(default_factory=PortQos)
    groups: dict[int, str | None] = field(default_factory=dict)
    """Profile of each priority group; None if the device computes it (NULL)."""
    group_rows: dict[int, str] = field(default_factory=dict)
    """The key of each group's row."""
    queues: dict[int, Queue] = field(default_factory=dict)
    watchdog: Watchdog | None = None

    @property
    def lossless(self) -> frozenset[int]:
        """The paused priorities."""
        return self.qos.pfc or frozenset()


@dataclass(slots=True)
class Vlan:
    """A VLAN of a switch: members, and flooding."""

    id: int
    members: dict[str, str] = field(default_factory=dict)
    """Port to "tagged" or "untagged"."""
    learning: bool | None = None
    flood: bool | None = None
    stp: bool | None = None
    priority: int | None = None
    """The priority of the plan's lane, if a description has it."""
    interface: bool = False
    """Whether the VLAN has an address, so that traffic is routed."""


@dataclass(slots=True)
class Channel:
    """A port channel (IEEE 802.1AX): its members, and the minimum number of links."""

    name: str
    members: list[str] = field(default_factory=list)
    mtu: int | None = None
    min_links: int | None = None
    up: bool = True


@dataclass(frozen=True, slots=True)
class Trimming:
    """Destination of trimmed packets (SWITCH_TRIMMING): size, DSCP and queue; None where the switch derives them."""

    size: int | None = None
    dscp: int | None = None
    queue: int | None = None
    tc: int | None = None


@dataclass(frozen=True, slots=True)
class FdbRow:
    """A static row of a forwarding table."""

    vlan: int
    mac: str
    port: str


@dataclass(frozen=True, slots=True)
class LookupRow:
    """A row of `pg_profile_lookup.ini`: the profile for lossless groups of ports with this speed and cable.

    `threshold` is the exponent of alpha (-8 to 7); some platforms ship a static limit in bytes instead.
    """

    speed: int
    cable: str
    size: int
    xon: int
    xoff: int
    threshold: int
    xon_offset: int | None = None

    @property
    def metres(self) -> float:
        """The cable's length."""
        return float(self.cable.removesuffix("m"))


@dataclass(slots=True)
class Switch:
    """A switch."""

    name: str
    source: str = ""
    kind: str = "sonic"
    hwsku: str = ""
    mac: str = ""
    model: str | None = None
    """"dynamic": the switch computes headroom and pools; "traditional": it looks them up."""
    tables: frozenset[str] = frozenset()
    """Tables in the switch's files."""
    whole: bool = True
    """False for a fragment of a configuration, whose missing parts may exist elsewhere."""
    ports: dict[str, Port] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    profiles: dict[str, BufferProfile] = field(default_factory=dict)
    wred: dict[str, Wred] = field(default_factory=dict)
    schedulers: dict[str, Scheduler] = field(default_factory=dict)
    maps: Maps = field(default_factory=Maps)
    global_qos: PortQos | None = None
    vlans: dict[int, Vlan] = field(default_factory=dict)
    fdb: list[FdbRow] = field(default_factory=list)
    loaded_fdb: list[FdbRow] = field(default_factory=list)
    """Rows of a file for `swssconfig`; `fdb` contains them too."""
    channels: dict[str, Channel] = field(default_factory=dict)
    trimming: Trimming | None = None
    neighbours: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Maps a local port to (device, its port) according to this device's files."""
    watchdog_poll: int | None = None
    lossless_mtu: int | None = None
    small_packets: int | None = None
    over_subscribe_ratio: int | None = None
    """Ratio of the total headroom of all groups to the shared pool (DEFAULT_LOSSLESS_BUFFER_PARAMETER)."""
    lookup: list[LookupRow] = field(default_factory=list)
    lookup_source: str = ""

    def mapped(self, kind: str, name: str | None) -> Mapping[int, int] | None:
        """A map by kind ("tc_to_pg") and name; the identity without a name, None for an unknown name."""
        if name is None:
            return {number: number for number in range(16)} if kind.startswith(("tc_", "pfc_")) else {}
        found: dict[str, dict[int, int]] = getattr(self.maps, kind)
        return found.get(name)

    def channel_of(self, port: str) -> Channel | None:
        """The port channel that a port belongs to."""
        return next((channel for channel in self.channels.values() if port in channel.members), None)

    def headroom_of(self, port: Port, group: int) -> tuple[int | None, str]:
        """(headroom of a group in bytes, the profile or file that defines it).

        None if the device computes it or no file has it.
        """
        name = port.groups.get(group)
        profile = self.profiles.get(name) if name else None
        if profile is not None:
            return (None if profile.computed else profile.xoff), profile.name
        row = self.looked_up(port)
        if row is not None and group not in port.groups:
            return row.xoff, self.lookup_source
        return None, ""

    def looked_up(self, port: Port) -> LookupRow | None:
        """The row of `pg_profile_lookup.ini` for a port."""
        if self.model == "dynamic" or port.speed is None or port.cable is None:
            return None
        return next((r for r in self.lookup if r.speed == port.speed and r.metres == port.cable), None)


@dataclass(slots=True)
class HostVlan:
    """A VLAN interface of a host: the priority of its frames, and its neighbours."""

    id: int
    interface: str
    egress: dict[int, int] = field(default_factory=dict)
    """Maps socket priorities to 802.1p code points."""
    neighbours: dict[str, str] = field(default_factory=dict)
    """Maps IP addresses to static MAC addresses."""
    addresses: list[str] = field(default_factory=list)


@dataclass(slots=True)
class HostRoute:
    """A route with its TCP attributes."""

    destination: str
    interface: str
    congctl: str | None = None
    initcwnd: int | None = None
    rto_min_ms: float | None = None
    quickack: bool = False
    ecn: bool = False


@dataclass(slots=True)
class Nic:
    """A network interface of a host."""

    name: str
    mac: str = ""
    speed: int | None = None
    mtu: int | None = None
    pfc: frozenset[int] | None = None
    trust: str | None = None
    dscp_to_priority: dict[int, int] = field(default_factory=dict)
    vlans: dict[int, HostVlan] = field(default_factory=dict)


@dataclass(slots=True)
class Host:
    """A host: its interfaces, TCP settings, routes."""

    name: str
    source: str = ""
    nics: dict[str, Nic] = field(default_factory=dict)
    routes: list[HostRoute] = field(default_factory=list)
    sysctl: dict[str, str] = field(default_factory=dict)
    neighbours: dict[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def congestion_controls(self) -> set[str]:
        """Congestion controls in use: the default one, and those of routes."""
        default = self.sysctl.get("net.ipv4.tcp_congestion_control")
        return {name for name in (default, *(route.congctl for route in self.routes)) if name}


@dataclass(frozen=True, slots=True)
class End:
    """One end of a link."""

    device: str
    port: str

    def __str__(self) -> str:
        return f"{self.device}:{self.port}"


@dataclass(frozen=True, slots=True)
class Link:
    """A cable."""

    a: End
    b: End

    def ends(self) -> tuple[tuple[End, End], tuple[End, End]]:
        """Maps each end to the other."""
        return (self.a, self.b), (self.b, self.a)


@dataclass(slots=True)
class Fabric:
    """The whole fabric."""

    switches: dict[str, Switch] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Notes on skipped input and on assumptions."""

    def port(self, end: End) -> Port | None:
        """The port of a switch at an end of a link."""
        switch = self.switches.get(end.device)
        return switch.ports.get(end.port) if switch else None

    def nic(self, end: End) -> Nic | None:
        """The interface of a host at an end of a link."""
        host = self.hosts.get(end.device)
        return host.nics.get(end.port) if host else None

    def peers(self) -> dict[End, End]:
        """The other end of each end."""
        return {end: other for link in self.links for end, other in link.ends()}

    def ports(self) -> Iterator[tuple[Switch, Port]]:
        """Every port with its switch."""
        for switch in self.switches.values():
            for port in switch.ports.values():
                yield switch, port
