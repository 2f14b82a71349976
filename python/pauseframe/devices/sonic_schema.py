"""The tables of SONiC's CONFIG_DB that concern a lossless fabric: keys, fields, limits, references.

Names and limits come from SONiC's YANG models (sonic-net/sonic-buildimage, src/sonic-yang-models, 086b03b). Other
tables are kept but not checked; `pauseframe lint --yang DIR` checks all of them with the operator's own models.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pauseframe.devices.files import whole_number
from pauseframe.devices.model import QOS_MAPS

Check = Callable[[str], str | None]
"""Function from a text to its fault, or None."""


def number(low: int, high: int) -> Check:
    """Checks for an integer in a range."""

    def check(text: str) -> str | None:
        value = whole_number(text)
        return None if value is not None and low <= value <= high else f"a whole number from {low} to {high}"

    return check


@dataclass(frozen=True)
class OneOf:
    """Checks for one of the given words."""

    words: tuple[str, ...]

    def __call__(self, text: str) -> str | None:
        """The fault of a text, or None."""
        return None if text in self.words else "one of " + ", ".join(self.words)


def one_of(*names: str) -> Check:
    """Checks for one of the given words."""
    return OneOf(names)


def like(pattern: str, meaning: str) -> Check:
    """Checks that the whole text matches a regular expression."""
    compiled = re.compile(pattern)
    return lambda text: None if compiled.fullmatch(text) else meaning


def short(longest: int) -> Check:
    """Checks for a text of limited length."""
    return lambda text: None if len(text) <= longest else f"at most {longest} characters"


def _address(version: int | None) -> Check:
    def check(text: str) -> str | None:
        try:
            found = ipaddress.ip_address(text)
        except ValueError:
            return f"an IP{f'v{version}' if version else ''} address"
        return None if version in {None, found.version} else f"an IPv{version} address"

    return check


def _prefix(text: str) -> str | None:
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return "an IP prefix such as 10.0.0.1/24"
    return None if "/" in text else "an IP prefix such as 10.0.0.1/24"


SIZE, WORD = number(0, 2**64 - 1), short(255)
BOOLEAN, ABLE = one_of("true", "false"), one_of("enabled", "disabled")
MAP_NAME = like(r"[a-zA-Z0-9][-a-zA-Z0-9_]{0,31}", "a name of at most 32 letters, digits, - and _")
PRIORITY_LIST = like(r"([0-7](,[0-7])*)?", 'priorities such as "3,4"')
MAC = like(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", "a MAC address such as 00:11:22:33:44:55")
QUEUE_RANGE = like(r"(1[0-5]|[0-9])(-(1[0-5]|[0-9]))?", 'a queue from 0 to 15, or a range such as "3-4"')
TC, DSCP, PRIORITY, QUEUE_INDEX = number(0, 15), number(0, 63), number(0, 7), number(0, 9)
VLAN_NAME = like(r"Vlan(409[0-5]|40[0-8][0-9]|[1-3][0-9]{3}|[1-9][0-9]{2}|[1-9][0-9]|[2-9])", "Vlan2 to Vlan4095")


@dataclass(frozen=True)
class Field:
    """A field of a row (or a part of its key): limits, and the tables whose keys the field may name."""

    check: Check | None = None
    refers: tuple[str, ...] = ()
    also: frozenset[str] = frozenset()
    """Words that are allowed in addition to keys of `refers`."""
    many: bool = False
    """True for a list, or a text with commas."""


@dataclass(frozen=True)
class Table:
    """A table: the parts of its key (alternatives by number of parts), and its fields; `entries` for maps."""

    keys: tuple[tuple[tuple[str, Field], ...], ...]
    fields: Mapping[str, Field] = field(default_factory=dict)
    mandatory: tuple[str, ...] = ()
    entries: tuple[tuple[str, Field], tuple[str, Field]] | None = None
    """For a map, whose fields are entries: (name, limits) of an entry's key, and of its value."""
    open: bool = False
    """True if the table may have further fields, which are not checked."""


def _key(name: str, check: Check | None = None, *refers: str, also: str = "") -> tuple[str, Field]:
    return name, Field(check, refers, frozenset(also.split()))


def _fields(**checks: Check) -> dict[str, Field]:
    return {name: Field(check) for name, check in checks.items()}


def _to(table: str, *, many: bool = False, also: str = "") -> Field:
    return Field(refers=(table,), many=many, also=frozenset(also.split()))


def _map(key: str, key_check: Check, value: str, value_check: Check) -> Table:
    return Table(((_key("name", MAP_NAME),),), entries=((key, Field(key_check)), (value, Field(value_check))))


_COLOURS = ("green", "yellow", "red")
_WRED = (
    {f"{colour}_{which}_threshold": SIZE for colour in _COLOURS for which in ("min", "max")}
    | {f"{colour}_drop_probability": number(0, 100) for colour in _COLOURS}
    | {f"wred_{colour}_enable": BOOLEAN for colour in _COLOURS}
    | {
        "ecn": one_of(
            "ecn_none",
            "ecn_green",
            "ecn_yellow",
            "ecn_red",
            "ecn_green_yellow",
            "ecn_green_red",
            "ecn_yellow_red",
            "ecn_all",
        )
    }
)
_PORT = _key("port", None, "PORT")
_VOQ = (_key("hostname", short(63)), _key("asic_name", short(63)))
_PROFILE_LIST = Table(((_PORT,),), {"profile_list": _to("BUFFER_PROFILE", many=True)})

_ROUTED = _fields(
    nat_zone=number(0, 3),
    mpls=one_of("enable", "disable"),
    mac_addr=MAC,
    ipv6_use_link_local_only=one_of("enable", "disable"),
    loopback_action=one_of("drop", "forward"),
    scope=one_of("global", "local"),
    family=one_of("IPv4", "IPv6"),
) | {"vnet_name": _to("VNET"), "vrf_name": _to("VRF")}
"""Fields of every table of router interfaces."""
_LLR_ACTION = one_of("discard", "block", "best_effort")

TABLES: dict[str, Table] = {
    "DEVICE_METADATA": Table(
        ((_key("name", one_of("localhost")),),),
        _fields(
            buffer_model=one_of("dynamic", "traditional"),
            default_pfcwd_status=one_of("enable", "disable"),
            subtype=one_of("DualToR", "SmartSwitch", "Supervisor", "UpstreamLC", "DownstreamLC"),
            hostname=short(63),
        ),
        open=True,
    ),
    "PORT": Table(
        ((_key("name", short(128)),),),
        _fields(
            speed=number(1, 1_600_000),
            mtu=number(68, 9216),
            admin_status=one_of("up", "down"),
            fec=one_of("rs", "fc", "none", "auto"),
            autoneg=one_of("on", "off"),
            link_training=one_of("on", "off"),
            pfc_asym=one_of("on", "off"),
            tpid=one_of("0x8100", "0x9100", "0x9200", "0x88a8", "0x88A8"),
            alias=short(128),
            lanes=short(128),
            description=WORD,
            role=one_of("Ext", "Int", "Inb", "Rec", "Dpc"),
            mode=one_of("routed", "access", "trunk"),
            index=number(0, 65535),
            subport=number(0, 8),
            dom_polling=ABLE,
            mux_cable=BOOLEAN,
            laser_freq=number(-(2**31), 2**31 - 1),
            tx_power=like(r"-?[0-9]+(\.[0-9])?", "a number with one decimal"),
        ),
        ("speed",),
        open=True,
    ),
    "BUFFER_POOL": Table(
        ((_key("name"),),),
        _fields(
            type=one_of("ingress", "egress", "both"),
            mode=one_of("static", "dynamic"),
            size=SIZE,
            xoff=SIZE,
            percentage=number(0, 255),
        ),
        ("type", "mode"),
    ),
    "BUFFER_PROFILE": Table(
        ((_key("name"),),),
        {"pool": _to("BUFFER_POOL")}
        | _fields(
            size=SIZE,
            xon=SIZE,
            xoff=SIZE,
            xon_offset=SIZE,
            static_th=SIZE,
            dynamic_th=number(-8, 7),
            headroom_type=one_of("static", "dynamic"),
            packet_discard_action=one_of("drop", "trim"),
        ),
        ("size", "pool"),
    ),
    "BUFFER_PG": Table(
        ((_PORT, _key("pg_num", like(r"[0-7](-[0-7])?", 'a priority group from 0 to 7, or a range such as "3-4"'))),),
        {"profile": _to("BUFFER_PROFILE", also="NULL 0")},
    ),
    "BUFFER_QUEUE": Table(
        ((_PORT, _key("qindex", QUEUE_RANGE)), (*_VOQ, _key("port", short(128)), _key("qindex", QUEUE_RANGE))),
        {"profile": _to("BUFFER_PROFILE", also="0")},
    ),
    "BUFFER_PORT_INGRESS_PROFILE_LIST": _PROFILE_LIST,
    "BUFFER_PORT_EGRESS_PROFILE_LIST": _PROFILE_LIST,
    "WRED_PROFILE": Table(((_key("name", MAP_NAME),),), _fields(**_WRED)),
    "SCHEDULER": Table(
        ((_key("name"),),),
        _fields(
            type=one_of("DWRR", "WRR", "STRICT"),
            weight=number(1, 100),
            priority=number(0, 9),
            meter_type=one_of("packets", "bytes"),
            cir=SIZE,
            pir=SIZE,
            cbs=number(0, 2**32 - 1),
            pbs=number(0, 2**32 - 1),
        ),
    ),
    "QUEUE": Table(
        (
            (_key("ifname", None, "PORT", also="CPU"), _key("qindex", QUEUE_RANGE)),
            (*_VOQ, _key("ifname", short(128)), _key("qindex", QUEUE_RANGE)),
        ),
        {"scheduler": _to("SCHEDULER"), "wred_profile": _to("WRED_PROFILE")},
    ),
    "PORT_QOS_MAP": Table(
        ((_key("ifname", None, "PORT", also="global"),),),
        {f"{kind}_map": _to(table) for kind, table in QOS_MAPS.items()}
        | {
            "tc_to_dscp_map": _to("TC_TO_DSCP_MAP"),
            "scheduler": _to("SCHEDULER"),
            "pfc_enable": Field(PRIORITY_LIST),
            "pfcwd_sw_enable": Field(PRIORITY_LIST),
        },
        open=True,
    ),
    "DSCP_TO_TC_MAP": _map("dscp", DSCP, "tc", TC),
    "DOT1P_TO_TC_MAP": _map("dot1p", PRIORITY, "tc", TC),
    "TC_TO_QUEUE_MAP": _map("tc", TC, "qindex", QUEUE_INDEX),
    "TC_TO_PRIORITY_GROUP_MAP": _map("tc", TC, "pg", PRIORITY),
    "MAP_PFC_PRIORITY_TO_QUEUE": _map("pfc_priority", PRIORITY, "qindex", PRIORITY),
    "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": _map("pfc_priority", PRIORITY, "pg", PRIORITY),
    "TC_TO_DSCP_MAP": _map("tc", TC, "dscp", DSCP),
    "CABLE_LENGTH": Table(
        ((_key("name", MAP_NAME),),),
        entries=(("port", Field(None, ("PORT",))), ("length", Field(like(r"[0-9]{1,7}m", "metres such as 40m")))),
    ),
    "LOSSLESS_TRAFFIC_PATTERN": Table(
        ((_key("name", MAP_NAME),),),
        _fields(mtu=number(1, 9216), small_packet_percentage=number(0, 100)),
        ("mtu", "small_packet_percentage"),
    ),
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER": Table(
        ((_key("name", MAP_NAME),),),
        _fields(default_dynamic_th=number(-8, 7), over_subscribe_ratio=number(0, 65535)),
        ("default_dynamic_th",),
        open=True,
    ),
    "PFC_WD": Table(
        ((_key("ifname", None, "PORT", also="GLOBAL"),),),
        _fields(
            action=one_of("drop", "forward", "alert"),
            detection_time=number(100, 5000),
            restoration_time=number(100, 60000),
            POLL_INTERVAL=number(100, 1000),
            pfc_stat_history=one_of("enable", "disable"),
        ),
        open=True,
    ),
    "VLAN": Table(
        ((_key("name", VLAN_NAME),),),
        _fields(
            vlanid=number(2, 4094),
            mtu=number(1, 9216),
            admin_status=one_of("up", "down"),
            mac=MAC,
            alias=WORD,
            description=like(r"(?s).{1,255}", "1 to 255 characters"),
            mac_learning=ABLE,
            unknown_unicast_flood=ABLE,
            unknown_multicast_flood=ABLE,
            broadcast_flood=ABLE,
        )
        | {"dhcp_servers": Field(_address(None), many=True), "dhcpv6_servers": Field(_address(6), many=True)},
        open=True,
    ),
    "VLAN_MEMBER": Table(
        ((_key("name", None, "VLAN"), _key("port", None, "PORT", "PORTCHANNEL")),),
        _fields(tagging_mode=one_of("tagged", "untagged", "priority_tagged")),
        ("tagging_mode",),
        open=True,
    ),
    "VLAN_INTERFACE": Table(
        ((_key("name", None, "VLAN"),), (_key("name", None, "VLAN"), _key("ip-prefix", _prefix))),
        _ROUTED
        | _fields(grat_arp=ABLE, proxy_arp=ABLE, static_anycast_gateway=one_of("true", "false", "True", "False")),
        open=True,
    ),
    "FDB": Table(
        ((_key("vlan", None, "VLAN"), _key("mac", MAC)),),
        {"port": Field(refers=("PORT", "PORTCHANNEL"))},
        ("port",),
        open=True,
    ),
    "PORTCHANNEL": Table(
        ((_key("name", like(r"PortChannel[0-9]{1,4}", "PortChannel0 to PortChannel9999")),),),
        _fields(
            admin_status=one_of("up", "down"),
            mtu=number(1, 9216),
            min_links=number(1, 1024),
            fallback=BOOLEAN,
            fast_rate=BOOLEAN,
            tpid=one_of("0x8100", "0x9100", "0x9200", "0x88a8", "0x88A8"),
            mode=one_of("routed", "access", "trunk"),
            description=WORD,
            lacp_key=like(r"auto|[1-9][0-9]{0,4}", "auto, or a number from 1 to 65535"),
            system_mac=MAC,
        )
        | {"members": _to("PORT", many=True)},
    ),
    "PORTCHANNEL_MEMBER": Table(((_key("name", None, "PORTCHANNEL"), _key("port", None, "PORT")),), open=True),
    "PORTCHANNEL_INTERFACE": Table(
        ((_key("name", None, "PORTCHANNEL"),), (_key("name", None, "PORTCHANNEL"), _key("ip_prefix", _prefix))),
        _ROUTED,
        open=True,
    ),
    "INTERFACE": Table(
        ((_key("name", None, "PORT"),), (_key("name", None, "PORT"), _key("ip-prefix", _prefix))), _ROUTED, open=True
    ),
    "TUNNEL": Table(
        ((_key("tunnel_name", like(r"[a-zA-Z0-9_-]{1,255}", "a name of letters, digits, - and _")),),),
        _fields(
            tunnel_type=one_of("IPINIP"),
            src_ip=_address(None),
            dst_ip=_address(None),
            dscp_mode=one_of("uniform", "pipe"),
            ttl_mode=one_of("uniform", "pipe"),
            ecn_mode=one_of("copy_from_outer", "standard"),
            encap_ecn_mode=one_of("standard"),
        )
        | {
            "decap_dscp_to_tc_map": _to("DSCP_TO_TC_MAP"),
            "decap_tc_to_pg_map": _to("TC_TO_PRIORITY_GROUP_MAP"),
            "encap_tc_to_dscp_map": _to("TC_TO_DSCP_MAP"),
            "encap_tc_to_queue_map": _to("TC_TO_QUEUE_MAP"),
        },
    ),
    "PEER_SWITCH": Table(((_key("peer_switch", short(63)),),), _fields(address_ipv4=_address(4))),
    "VXLAN_TUNNEL": Table(((_key("name"),),), _fields(src_ip=_address(None), dst_ip=_address(None)), open=True),
    "VXLAN_TUNNEL_MAP": Table(
        ((_key("name", None, "VXLAN_TUNNEL"), _key("mapname")),),
        {"vlan": _to("VLAN"), "vni": Field(number(1, 2**24 - 1))},
        ("vlan", "vni"),
    ),
    "LLR_PORT": Table(
        ((_PORT,),),
        _fields(llr_mode=one_of("static", "dynamic"), llr_local=ABLE, llr_remote=ABLE)
        | {"llr_profile": _to("LLR_PROFILE")},
    ),
    "LLR_PROFILE": Table(
        ((_key("name", short(128)),),),
        _fields(
            max_outstanding_frames=number(0, 524288),
            max_outstanding_bytes=number(0, 2**32 - 1),
            max_replay_count=number(1, 255),
            max_replay_timer=number(0, 65535),
            pcs_lost_timeout=number(0, 4_290_000_000),
            data_age_timeout=number(0, 4_290_000_000),
            ctlos_spacing_bytes=number(400, 16384),
            init_action=_LLR_ACTION,
            flush_action=_LLR_ACTION,
        ),
        ("max_outstanding_frames", "max_outstanding_bytes"),
    ),
    "SWITCH_TRIMMING": Table(
        ((_key("name", one_of("GLOBAL")),),),
        _fields(
            size=number(0, 2**32 - 1),
            dscp_value=like(r"[0-9]|[1-5][0-9]|6[0-3]|from-tc", "a DSCP from 0 to 63, or from-tc"),
            tc_value=number(0, 255),
            queue_index=like(r"[0-9]{1,3}|dynamic", "a queue, or dynamic"),
        ),
    ),
    "STP_VLAN": Table(((_key("name", None, "VLAN"),),), _fields(enabled=BOOLEAN, vlanid=number(1, 4095)), open=True),
    "DEVICE_NEIGHBOR": Table(
        ((_key("local_port", short(255)),),), _fields(name=WORD, port=WORD, local_port=WORD), open=True
    ),
}
