"""Device data for the linter, the deployer and the simulator, typed and independent of vendors' files.

Units are bytes, Mb/s, metres and milliseconds, unless a name says otherwise. None means that no file gives the value.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pauseframe.devices.bundles import Bond, Channel, Hashing, Mclag, MuxCable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.devices.bgp import Bgp
    from pauseframe.devices.statements import Statements

PRIORITIES = range(8)
DEFAULT_MTU = 9100
"""MTU in bytes of a SONiC port whose row sets none."""
FASTEST_LANE = 200_000
"""Mb/s of the fastest SerDes lanes (IEEE 802.3dj)."""
CNP_DSCP = 48
"""DSCP of congestion notification packets unless the register CNP_DSCP of a card sets another (NVIDIA)."""
SAME = {number: number for number in range(16)}
"""The map of classes or priorities of a port that names none."""
QOS_MAPS = {
    "dscp_to_tc": "DSCP_TO_TC_MAP",
    "dot1p_to_tc": "DOT1P_TO_TC_MAP",
    "tc_to_pg": "TC_TO_PRIORITY_GROUP_MAP",
    "tc_to_queue": "TC_TO_QUEUE_MAP",
    "pfc_to_queue": "MAP_PFC_PRIORITY_TO_QUEUE",
    "pfc_to_pg": "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
}
"""The table of each kind of map; a port names its maps in the fields `dscp_to_tc_map` etc. of PORT_QOS_MAP."""


@dataclass(frozen=True, slots=True)
class Place:
    """Place of a value in a file: device, table (or file), key, field."""

    device: str
    table: str = ""
    key: str = ""
    field: str = ""

    def __str__(self) -> str:
        parts = [self.device, self.table, self.key, self.field]
        return " ".join(part for part in parts if part)


@dataclass(slots=True)
class Pool:
    """A buffer pool. `xoff` is the headroom that its groups share; if None, each group has its own headroom."""

    name: str
    direction: str = "ingress"
    mode: str = "dynamic"
    size: int | None = None
    xoff: int = 0


@dataclass(slots=True)
class BufferProfile:
    """Buffer of a priority group or queue: reserved `size`, and `xoff`, the headroom after a pause, in bytes."""

    name: str
    pool: str = ""
    size: int = 0
    xon: int = 0
    xoff: int = 0
    xon_offset: int = 0
    static_th: int | None = None
    dynamic_th: int | None = None
    computed: bool = False
    """True if the device computes the sizes itself (`headroom_type` dynamic)."""
    trims: bool = False
    """True if packets that do not fit are trimmed to their headers and forwarded (`packet_discard_action` trim)."""

    @property
    def has_headroom(self) -> bool:
        """True if the profile has headroom after a pause."""
        return self.xoff > 0 or self.computed

    @property
    def alpha(self) -> float | None:
        """Share of the free pool that the group or queue may take."""
        return None if self.dynamic_th is None else 2.0**self.dynamic_th


@dataclass(slots=True)
class Wred:
    """Marking and dropping of a queue; the thresholds apply to green packets, including ECN-capable TCP."""

    name: str
    ecn: str = "ecn_none"
    min_threshold: int | None = None
    max_threshold: int | None = None
    drop_probability: int = 100
    enabled: frozenset[str] = frozenset()
    min_us: float | None = None
    """The lower threshold as time in the queue, where no file of the switch gives the rate that makes it bytes."""
    max_us: float | None = None

    @property
    def marks_green(self) -> bool:
        """True if green packets are marked."""
        return self.ecn == "ecn_all" or "green" in self.ecn


@dataclass(slots=True)
class Scheduler:
    """The scheduling of a queue at its port."""

    name: str
    kind: str = "WRR"
    weight: int = 1
    most: int | None = None
    """Maximum rate in bytes per second; None: that of the port."""


@dataclass(slots=True)
class Maps:
    """QoS maps of a device by kind and name; keys and values are code points, classes, groups or queues."""

    dscp_to_tc: dict[str, dict[int, int]] = field(default_factory=dict)
    dot1p_to_tc: dict[str, dict[int, int]] = field(default_factory=dict)
    tc_to_pg: dict[str, dict[int, int]] = field(default_factory=dict)
    tc_to_queue: dict[str, dict[int, int]] = field(default_factory=dict)
    pfc_to_queue: dict[str, dict[int, int]] = field(default_factory=dict)
    pfc_to_pg: dict[str, dict[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class PortQos:
    """The QoS maps of a port, and the priorities that the port pauses."""

    pfc: frozenset[int] | None = None
    watchdog: frozenset[int] | None = None
    dscp_to_tc: str | None = None
    dot1p_to_tc: str | None = None
    tc_to_pg: str | None = None
    tc_to_queue: str | None = None
    pfc_to_queue: str | None = None
    pfc_to_pg: str | None = None
    key: str = ""
    """Key of the row that sets the port's maps: the port's name, or "global"."""


@dataclass(slots=True)
class Queue:
    """An egress queue."""

    profile: str | None = None
    wred: str | None = None
    scheduler: str | None = None


@dataclass(slots=True)
class Watchdog:
    """Times of a port's PFC watchdog, in milliseconds."""

    action: str | None = None
    detection: int | None = None
    restoration: int | None = None
    poll: int | None = None
    """Between two looks at this port; None: as the switch's."""


@dataclass(slots=True)
class Port:
    """A port of a switch."""

    name: str
    speed: int | None = None
    mtu: int | None = None
    fec: str | None = None
    autoneg: str | None = None
    link_training: str | None = None
    alias: str | None = None
    up: bool = True
    cable: float | None = None
    qos: PortQos = field(default_factory=PortQos)
    groups: dict[int, str | None] = field(default_factory=dict)
    """Buffer profile of each priority group; None (NULL) if the device computes the profile."""
    group_rows: dict[int, str] = field(default_factory=dict)
    """Row key of each priority group."""
    queues: dict[int, Queue] = field(default_factory=dict)
    watchdog: Watchdog | None = None

    @property
    def lossless(self) -> frozenset[int]:
        """The priorities that the port pauses."""
        return self.qos.pfc or frozenset()


@dataclass(slots=True)
class Vlan:
    """A VLAN of a switch: its members, and its flooding."""

    id: int
    members: dict[str, str] = field(default_factory=dict)
    """"tagged" or "untagged" for each member port."""
    learning: bool | None = None
    flood: bool | None = None
    stp: bool | None = None
    priority: int | None = None
    """Priority of the plan's lane, if a description states it."""
    loaded: str = ""
    """The file for `swssconfig` that sets learning or flooding; empty if CONFIG_DB does."""
    unset: list[str] = field(default_factory=list)
    """Members whose learning that file does not set, if it sets that of others."""
    interface: bool = False
    """True if the VLAN has an address, so that the switch routes its traffic."""


@dataclass(frozen=True, slots=True)
class Trimming:
    """Handling of trimmed packets (SWITCH_TRIMMING): size, DSCP and queue; None if the switch derives the value."""

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
    """A row of `pg_profile_lookup.ini`: the buffer of a port's lossless groups for this speed and cable.

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
        """Length of the cable in metres."""
        return float(self.cable.removesuffix("m"))


@dataclass(slots=True)
class Switch:
    """A switch."""

    name: str
    source: str = ""
    kind: str = "sonic"
    hostname: str = ""
    """The name that its files give the switch; `name` differs if another device has it too. Empty if none does."""
    hwsku: str = ""
    mac: str = ""
    model: str | None = None
    """"dynamic": the switch computes headroom and pools itself; "traditional": it looks the values up."""
    tables: frozenset[str] = frozenset()
    """Names of the tables in the switch's files."""
    whole: bool = True
    """False for a fragment of a configuration; missing rows may be elsewhere."""
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
    """Rows of a file for `swssconfig`; `fdb` also contains these rows."""
    channels: dict[str, Channel] = field(default_factory=dict)
    mclag: Mclag | None = None
    mux: dict[str, MuxCable] = field(default_factory=dict)
    """Ports to servers that hang at this switch and at `peer_switch`."""
    peer_switch: str = ""
    role: str = ""
    """Role in the fabric, in SONiC's words: ToRRouter, LeafRouter, SpineRouter."""
    hashing: Hashing = field(default_factory=Hashing)
    trimming: Trimming | None = None
    neighbours: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Neighbours by local port, as (device, port), from this device's files."""
    addresses: dict[str, list[str]] = field(default_factory=dict)
    """Addresses with prefix lengths of each interface of the default VRF, as its files write them."""
    bgp: Bgp | None = None
    """BGP of the default VRF; None if no file of the switch configures it."""
    watchdog_poll: int | None = None
    lossless_mtu: int | None = None
    small_packets: int | None = None
    over_subscribe_ratio: int | None = None
    """Maximum ratio of all groups' headroom to the shared pool (DEFAULT_LOSSLESS_BUFFER_PARAMETER)."""
    lookup: list[LookupRow] = field(default_factory=list)
    lookup_source: str = ""
    statements: Statements | None = None
    """The statements of a vendor's configuration; None for SONiC and Linux."""

    def mapped(self, kind: str, name: str | None) -> Mapping[int, int] | None:
        """A map by kind ("tc_to_pg") and name: the identity if `name` is None, None for an unknown name."""
        if name is None:
            return SAME if kind.startswith(("tc_", "pfc_")) else {}
        found: dict[str, dict[int, int]] = getattr(self.maps, kind)
        return found.get(name)

    def channel_of(self, port: str) -> Channel | None:
        """The port channel that a port belongs to."""
        return next((channel for channel in self.channels.values() if port in channel.members), None)

    def headroom_of(self, port: Port, group: int) -> tuple[int | None, str]:
        """The headroom of a group in bytes, and the profile or file that sets it.

        The headroom is None if the device computes it, or no file gives it.
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
        """The row of `pg_profile_lookup.ini` for a port, or None."""
        if self.model == "dynamic" or port.speed is None or port.cable is None:
            return None
        return next((r for r in self.lookup if r.speed == port.speed and r.metres == port.cable), None)


@dataclass(slots=True)
class HostVlan:
    """A VLAN interface of a host: the priorities of its frames, and its static neighbours."""

    id: int
    interface: str
    egress: dict[int, int] = field(default_factory=dict)
    """802.1p code point of each socket priority."""
    neighbours: dict[str, str] = field(default_factory=dict)
    """MAC address of each static neighbour, by IP address."""
    addresses: list[str] = field(default_factory=list)


@dataclass(slots=True)
class HostRoute:
    """A route with the attributes that TCP uses."""

    destination: str
    interface: str
    congctl: str | None = None
    initcwnd: int | None = None
    rto_min_ms: float | None = None
    quickack: bool = False
    ecn: bool = False
    table: int | None = None
    """Number of the routing table; None: the main one."""
    source: str = ""
    """Address of packets that take the route, or empty."""
    gateway: str = ""
    """Address of the next hop, or empty for a destination on the link."""


@dataclass(slots=True)
class Nic:
    """A network interface of a host."""

    name: str
    mac: str = ""
    speed: int | None = None
    mtu: int | None = None
    up: bool | None = None
    """Whether a file sets the interface up or down."""
    carrier: bool | None = None
    """Whether it had a link when the files were collected."""
    pfc: frozenset[int] | None = None
    trust: str | None = None
    dscp_to_priority: dict[int, int] = field(default_factory=dict)
    vlans: dict[int, HostVlan] = field(default_factory=dict)
    addresses: list[str] = field(default_factory=list)
    """Addresses that a configuration file gives to the interface itself."""
    offloads: dict[str, bool] = field(default_factory=dict)
    """Offloads that are on or off (ethtool): tso, gro."""
    ets: dict[str, str] = field(default_factory=dict)
    """Parameters of `dcb ets` as lists such as "0:ets 1:strict": tc-tsa, tc-bw, prio-tc."""


@dataclass(slots=True)
class Host:
    """A host: its interfaces, TCP settings and routes."""

    name: str
    source: str = ""
    hostname: str = ""
    """The name that its files give the host, as of a switch."""
    nics: dict[str, Nic] = field(default_factory=dict)
    routes: list[HostRoute] = field(default_factory=list)
    sysctl: dict[str, str] = field(default_factory=dict)
    neighbours: dict[str, tuple[str, str]] = field(default_factory=dict)
    bonds: dict[str, Bond] = field(default_factory=dict)
    registers: dict[str, int] = field(default_factory=dict)
    """Registers of DCQCN of the host's RoCE card by the names of mlxconfig, without the number of the port."""
    roce_traffic_class: int | None = None
    """DSCP and ECN bits of the host's RoCE packets as one octet, if a file gives it."""
    code_points: dict[str, int] = field(default_factory=dict)
    """DSCP that packets of a source address get (nftables); others have what their sockets set, by default 0."""
    rules: dict[str, int] = field(default_factory=dict)
    """Number of the routing table of packets from a source address (`ip rule`)."""
    gathered: frozenset[str] = frozenset()
    """Tables of which the files of collect.sh have every value, by the names that findings use."""
    forms: dict[str, Host] = field(default_factory=dict)
    """The host by each of its files: what was collected, networkd, netplan.yaml, setup.sh."""

    @property
    def roce_dscp(self) -> int | None:
        """DSCP of the host's RoCE packets, if a file gives it."""
        return None if self.roce_traffic_class is None else self.roce_traffic_class >> 2

    def vlans(self) -> list[HostVlan]:
        """The VLAN interfaces of all NICs."""
        return [vlan for nic in self.nics.values() for vlan in nic.vlans.values()]

    def logical(self, port: str) -> Nic | None:
        """The interface that sends through a port: the bond that has it, or the interface of the port."""
        master = next((bond.name for bond in self.bonds.values() if port in bond.members), port)
        return self.nics.get(master)

    @property
    def congestion_controls(self) -> set[str]:
        """The congestion controls that the host uses, by default or on a route."""
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
    """A cable; its length is that of the wiring file, the ports have the configured one."""

    a: End
    b: End
    metres: float | None = None

    def ends(self) -> tuple[tuple[End, End], tuple[End, End]]:
        """Both (end, other end) pairs of the link."""
        return (self.a, self.b), (self.b, self.a)


@dataclass(frozen=True, slots=True)
class TwoCables:
    """A port that files wire to two others; only the first is used."""

    end: End
    first: End
    second: End
    source: str
    """The file that names the second; empty for DEVICE_NEIGHBOR."""
    first_source: str
    """The file that names the first; empty for DEVICE_NEIGHBOR."""
    row: End | None = None
    """The port whose row of DEVICE_NEIGHBOR names the second."""


@dataclass(slots=True)
class Fabric:
    """The switches, hosts and links of a deployed network."""

    switches: dict[str, Switch] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Notes about data that the reader left out or assumed."""
    wired_twice: list[TwoCables] = field(default_factory=list)
    roles: dict[str, Literal["switch", "host"]] = field(default_factory=dict)
    """What devices without files are, as far as minigraphs, DEVICE_NEIGHBOR_METADATA or LLDP tell."""

    def port(self, end: End) -> Port | None:
        """The switch port at an end of a link, or None."""
        switch = self.switches.get(end.device)
        return switch.ports.get(end.port) if switch else None

    def nic(self, end: End) -> Nic | None:
        """The host interface at an end of a link, or None."""
        host = self.hosts.get(end.device)
        return host.nics.get(end.port) if host else None

    @property
    def cnp_dscp(self) -> int:
        """DSCP of congestion notification packets: that of most cards (CNP_DSCP), by default 48."""
        count = Counter(host.registers["CNP_DSCP"] for host in self.hosts.values() if "CNP_DSCP" in host.registers)
        return min(count, key=lambda dscp: (-count[dscp], dscp), default=CNP_DSCP)

    def peers(self) -> dict[End, End]:
        """The other end of each link end."""
        return {end: other for link in self.links for end, other in link.ends()}

    def ports(self) -> Iterator[tuple[Switch, Port]]:
        """Every port with its switch."""
        for switch in self.switches.values():
            for port in switch.ports.values():
                yield switch, port
