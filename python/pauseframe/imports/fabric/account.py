"""The account of an import: which values of the device files the scenario uses, maps, or cannot hold.

The account has a row for each field of each table, and a row for each place whose value differs from what the scenario
holds. Nothing is left out in silence.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from pauseframe.devices.files import shown
from pauseframe.devices.model import QOS_MAPS
from pauseframe.devices.sonic_schema import TABLES
from pauseframe.devices.tunnels import BUFFER_MAPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pauseframe.devices.sonic_db import ConfigDb
    from pauseframe.devices.statements import Statements
    from pauseframe.imports.fabric.uses import Uses

State = Literal["used", "mapped", "not held"]
MAP_ENTRIES = "an entry"
"""Stands for the fields of a map, whose names are code points."""


class Fate(NamedTuple):
    """What becomes of a field, and the keys of the scenario that have it, or the reason."""

    state: State
    how: str


class AccountRow(TypedDict):
    """A row of the account as JSON."""

    key: str
    state: State
    values: int
    how: str


class Odd(NamedTuple):
    """A place whose value the scenario does not have."""

    device: str
    port: str
    key: str
    value: str
    instead: str

    def __str__(self) -> str:
        place = f"{self.device}:{self.port}" if self.port else self.device
        return shown(f"{place} {self.key} {self.value}; the scenario has {self.instead}")


def _used(how: str, *names: str) -> dict[str, Fate]:
    return {name: Fate("used", how) for name in names}


def _mapped(how: str, *names: str) -> dict[str, Fate]:
    return {name: Fate("mapped", how) for name in names}


def _none(how: str, *names: str) -> dict[str, Fate]:
    return {name: Fate("not held", how) for name in names}


_BY_DEVICE = "one value for all switches; other values are listed below"
_NO_PACKETS = "changes no packet"
_BOTH = "a link whose ends differ is down"
_COLOURS = "the simulator has no colours; green packets count"
_VLAN = "the simulator routes by ECMP; `pauseframe lint --export` writes the static rows for routing.kind = plan"
_LIMIT = "switch.buffer of a port if all are static; other limits are listed below"
_MAP = "switch.priority_of_dscp, and switch.pfc.ports where a port treats the class of the load otherwise"
FATES: dict[str, dict[str, Fate]] = {
    **{name: _mapped(_MAP, MAP_ENTRIES) for name in QOS_MAPS.values()},
    "TC_TO_DSCP_MAP": _mapped("routing.tunnel_remap, of tunnels between ToRs", MAP_ENTRIES),
    "DEVICE_METADATA": _used("topology.switches", "hostname")
    | _mapped("routing.hash_seeds and hash_offsets, which SONiC sets by role", "type"),
    "PORT": {
        **_used("topology.links", "speed"),
        **_used("failure", "admin_status"),
        **_mapped(f"failure: {_BOTH}", "fec", "autoneg", "link_training"),
        **_mapped("host.mtu, and corruption.mtu of ports with a smaller one", "mtu"),
        **_none(_NO_PACKETS, "alias", "description", "index", "lanes", "role"),
    },
    "CABLE_LENGTH": _used(
        "topology.links: the delay of the longer end, or of the length in NetBox, at 198,000 km/s", MAP_ENTRIES
    ),
    "DEVICE_NEIGHBOR": _used("topology.links", "name", "port"),
    "PORT_QOS_MAP": {
        **_used("switch.pfc.priorities and switch.pfc.ports", "pfc_enable"),
        **_mapped("switch.pfc.watchdog, and switch.pfc.ports without it", "pfcwd_sw_enable"),
        **_mapped(_MAP, "dscp_to_tc_map", "dot1p_to_tc_map", "tc_to_queue_map", "tc_to_pg_map"),
        **_mapped(_MAP, "pfc_to_queue_map", "pfc_to_pg_map"),
    },
    "BUFFER_POOL": {
        **_used("switch.buffer.size and switch.override, with the headroom beside it", "size"),
        **_mapped("switch.pfc.headroom_pool and switch.override", "xoff"),
        **_mapped("without lossless groups, the first ingress pool is switch.buffer", "type"),
        **_none("the thresholds of the profiles count", "mode"),
        **_none("the device computes it", "percentage"),
    },
    "BUFFER_PROFILE": {
        **_used("switch.pfc.ports: headroom", "xoff"),
        **_mapped(f"switch.classes.NAME.reserved: {_BY_DEVICE}", "size"),
        **_mapped("switch.classes.NAME.alpha, and switch.pfc.ports of lossless groups", "dynamic_th"),
        **_used(f"switch.pfc.xoff and switch.pfc.ports; of queues {_LIMIT}", "static_th"),
        **_used("switch.buffer", "pool"),
        **_mapped("switch.pfc.headroom: automatic if dynamic", "headroom_type"),
        **_none("switch.pfc.xon is two frames below xoff", "xon", "xon_offset"),
        **_none("the simulator trims by class, not by profile", "packet_discard_action"),
    },
    "BUFFER_PG": _used("switch.pfc, by the profile", "profile"),
    "BUFFER_QUEUE": _mapped(f"switch.classes.NAME.alpha of the lossy classes, by the profile, or {_LIMIT}", "profile"),
    "WRED_PROFILE": {
        **_used("switch.classes.NAME.marker, by port", "ecn", "wred_green_enable"),
        **_used(
            "switch.classes.NAME.marker, by port",
            "green_min_threshold",
            "green_max_threshold",
            "green_drop_probability",
        ),
        **_none(
            _COLOURS,
            *(
                name
                for c in ("yellow", "red")
                for name in (f"wred_{c}_enable", f"{c}_min_threshold", f"{c}_max_threshold", f"{c}_drop_probability")
            ),
        ),
    },
    "QUEUE": {
        **_used("switch.classes.NAME.marker, by port", "wred_profile"),
        **_mapped(f"switch.scheduler: {_BY_DEVICE}", "scheduler"),
    },
    "SCHEDULER": {
        **_mapped(f"switch.scheduler: {_BY_DEVICE}", "type", "weight"),
        **_none("the simulator has no shaper", "cir", "pir", "cbs", "pbs", "meter_type"),
    },
    "PFC_WD": _mapped(
        f"switch.pfc.watchdog: {_BY_DEVICE}", "action", "detection_time", "restoration_time", "POLL_INTERVAL"
    ),
    "LOSSLESS_TRAFFIC_PATTERN": {
        **_mapped("host.mtu", "mtu"),
        **_none("the scenario has its own packets", "small_packet_percentage"),
    },
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER": _none("the device computes headroom with it", "default_dynamic_th")
    | _none("the scenario has the size of the pool", "over_subscribe_ratio"),
    "PORTCHANNEL": {
        **_mapped("failure: the members of a channel that is down are down", "admin_status", "min_links"),
        **_mapped("host.lacp_rate, of channels to hosts", "fast_rate"),
        **_none("host.mtu", "mtu"),
    },
    "MUX_CABLE": {
        **_mapped("host.port_choice = mux; xor if active-active", "cable_type"),
        **_mapped("host.mux_active", "state"),
        **_none("hosts have addresses of the simulator", "server_ipv4", "server_ipv6", "soc_ipv4", "soc_ipv6"),
    },
    "TUNNEL": _mapped("routing.tunnel_remap, by the T1's map of DSCPs", "encap_tc_to_dscp_map", "tunnel_type")
    | _mapped("host.port_choice = mux: the end of the tunnel restores the class", "decap_dscp_to_tc_map", "dscp_mode")
    | _mapped("the queue and group of the outer class; other numbers are listed below", *BUFFER_MAPS)
    | _none("hosts have addresses of the simulator", "dst_ip", "src_ip")
    | _none("the simulator has no time to live", "ttl_mode")
    | _mapped("ECN is that of RFC 6040, normal mode", "encap_ecn_mode", "ecn_mode"),
    "MUX_LINKMGR": _mapped(f"host.link_prober_interval: {_BY_DEVICE}", "interval_v4")
    | _mapped(f"host.negative_signal_count: {_BY_DEVICE}", "negative_signal_count")
    | _none("hosts have one address, of IPv4", "interval_v6")
    | _none("the ToR that took over stays active when the other is heard again", "positive_signal_count")
    | _none("the ToR that took over stays active", "suspend_timer", "oscillation_enabled", "interval_sec")
    | _none(_NO_PACKETS, "interval_pck_loss_count_update", "use_well_known_mac", "src_mac")
    | _none(_NO_PACKETS, "log_verbosity", "kill_radv"),
    "PEER_SWITCH": _mapped("the other ToR of mux cables", "address_ipv4"),
    "MCLAG_DOMAIN": _mapped("routing.mlag, if links join the two switches", "peer_link")
    | _none("peers notice each other by routing.convergence", "keepalive_interval", "session_timeout")
    | _none("hosts have addresses of the simulator", "source_ip", "peer_ip"),
    "MCLAG_INTERFACE": _mapped("hosts with a port at each of the two switches", "if_type"),
    "SWITCH": _mapped(f"routing.hash_seeds and hash_offsets: {_BY_DEVICE}", "ecmp_hash_seed", "ecmp_hash_offset"),
    "DEVICE_NEIGHBOR_METADATA": _mapped("whether a device without files is a switch or a host", "type"),
    "SWITCH_HASH": {
        **_mapped(f"routing.hash: {_BY_DEVICE}", "ecmp_hash", "ecmp_hash_algorithm"),
        **_none("links of a port channel are next hops of their own", "lag_hash", "lag_hash_algorithm"),
    },
    "PORTCHANNEL_MEMBER": _mapped("failure: a member at one end only, or of another speed, is down", MAP_ENTRIES),
    "FDB": _none(_VLAN, "port", "type"),
    "VLAN": _none(_VLAN, "vlanid"),
    "VLAN_MEMBER": _none(_VLAN, "tagging_mode"),
}
"""The fate of each field, by table. Other fields of known tables are not held; other tables are not read."""

UNREAD = Fate("not held", "no statement that the import reads")
ROUTING = ("router ", "vrf ")
"""Begins of statements that `lint` reads and the import does not."""


@dataclass
class Account:
    """The account of one import."""

    odd: list[Odd] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    """Values that no file gives."""
    values: dict[str, dict[tuple[str, str], str]] = field(default_factory=dict)
    """What each device and port has of what the scenario has one value of, by the names of `odd`."""
    chosen: dict[str, str] = field(default_factory=dict)
    """That one value."""
    _seen: set[Odd] = field(default_factory=set)

    def differs(self, device: str, port: str, key: str, value: str, instead: str) -> None:
        """Notes a place whose value the scenario does not have."""
        one = Odd(device, port, key, value, instead)
        if one not in self._seen:
            self._seen.add(one)
            self.odd.append(one)

    def assume(self, text: str) -> None:
        """Notes a value that no file gives."""
        if text not in self.assumed:
            self.assumed.append(text)


def rows_of(
    databases: Mapping[str, ConfigDb], uses: Mapping[str, Uses], vendors: Mapping[str, Statements]
) -> list[AccountRow]:
    """A row for each field of the tables of some switches, and each kind of statement of other vendors'.

    A field that the scenario takes from some rows only has two. In the order of the states.
    """
    count: dict[str, int] = defaultdict(int)
    fates: dict[str, Fate] = {}
    for name, own in uses.items():
        for table, rows in databases[name].tables.items():
            if table not in TABLES and table not in FATES:
                key = table
                fates[key] = Fate("not held", "no table that the import reads")
                count[key] += len(rows)
                continue
            for row_key, row in rows.items():
                for name_of_field in row or ["(row)"]:
                    key, fate = _fate(table, name_of_field)
                    lack = own.lacks(table, row_key, name_of_field) if fate.state != "not held" else None
                    if lack is not None:
                        key, fate = f"{key} {lack.which}", Fate("not held", lack.why)
                    fates[key] = fate
                    count[key] += 1
    for statements in vendors.values():
        lacks = statements.unheld_kinds()
        for kind, (taken, lines) in statements.kinds().items():
            held = taken and not kind.startswith(ROUTING) and " ip address" not in kind
            fate = Fate("mapped", "as SONiC's field of the same meaning") if held else UNREAD
            # Of several switches one that lacks it decides.
            if kind not in fates or fates[kind].state != "not held":
                fates[kind] = Fate("not held", lacks[kind]) if kind in lacks else fate
            count[kind] += len(lines)
    states = ("used", "mapped", "not held")
    order = sorted(fates, key=lambda key: (states.index(fates[key].state), key))
    return [AccountRow(key=key, state=fates[key].state, values=count[key], how=fates[key].how) for key in order]


def _fate(table: str, name: str) -> tuple[str, Fate]:
    known = FATES.get(table, {})
    if name in known:
        return f"{table} {name}", known[name]
    if MAP_ENTRIES in known:
        return table, known[MAP_ENTRIES]
    if name == "(row)":
        return table, Fate("not held", "the simulator has no such setting")
    return f"{table} {name}", Fate("not held", "the simulator has no such setting")
