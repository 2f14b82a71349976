"""Tables of CONFIG_DB about BGP, its policies, and loopback interfaces.

Names and limits are those of SONiC's YANG models, as in `sonic_schema`; tables of the management framework for FRR are
left open, because images add fields to them.
"""

from __future__ import annotations

from pauseframe.devices.sonic_fields import (
    BOOLEAN,
    Field,
    Table,
    address,
    fields,
    key,
    like,
    number,
    one_of,
    prefix,
    short,
    to,
)

ASN = number(1, 2**32 - 1)
_UP = one_of("up", "down")
_INTERFACE = like(r"(Ethernet|PortChannel|Vlan)[0-9.]+", "an IP address or an interface")


def _peer(text: str) -> str | None:
    """The fault of a text that should name the other end of a session, or None."""
    return None if _ANY_ADDRESS(text) is None else _INTERFACE(text)


_ANY_ADDRESS = address(None)
_SECONDS, _BIT = number(0, 65535), number(0, 1)
_SESSION = {
    **fields(
        asn=ASN,
        local_asn=ASN,
        name=short(255),
        admin_status=_UP,
        local_addr=address(None),
        holdtime=_SECONDS,
        keepalive=_SECONDS,
        conn_retry=number(1, 65535),
        min_adv_interval=number(0, 600),
        nhopself=_BIT,
        rrclient=_BIT,
        peer_type=one_of("internal", "external"),
        peer_port=_SECONDS,
        ebgp_multihop_ttl=number(1, 255),
        ttl_security_hops=number(1, 254),
        shutdown_message=short(127),
        auth_password=short(255),
    ),
    **fields(
        **dict.fromkeys(
            (
                "bfd",
                "bfd_check_ctrl_plane_failure",
                "capability_dynamic",
                "capability_ext_nexthop",
                "disable_ebgp_connected_route_check",
                "dont_negotiate_capability",
                "ebgp_multihop",
                "enforce_first_as",
                "enforce_multihop",
                "local_as_no_prepend",
                "local_as_replace_as",
                "override_capability",
                "passive_mode",
                "solo_peer",
                "strict_capability_match",
            ),
            BOOLEAN,
        )
    ),
}
"""Fields of sessions, and of groups of them."""
_MAPS = Field(refers=("ROUTE_MAP_SET",), many=True, listed=True)
_POLICY = {
    "route_map_in": _MAPS,
    "route_map_out": _MAPS,
    "default_rmap": to("ROUTE_MAP_SET"),
    "unsuppress_map_name": to("ROUTE_MAP_SET"),
    "prefix_list_in": to("PREFIX_SET"),
    "prefix_list_out": to("PREFIX_SET"),
    "filter_list_in": to("AS_PATH_SET"),
    "filter_list_out": to("AS_PATH_SET"),
}
_FAMILY = key("afi_safi", one_of("ipv4_unicast", "ipv6_unicast", "l2vpn_evpn"))

TABLES: dict[str, Table] = {
    "LOOPBACK_INTERFACE": Table(
        ((key("name", short(15)),), (key("name", short(15)), key("ip-prefix", prefix))),
        fields(
            admin_status=_UP,
            nat_zone=number(0, 3),
            scope=one_of("global", "local"),
            family=one_of("IPv4", "IPv6"),
        )
        | {"vrf_name": to("VRF")},
        open=True,
    ),
    "BGP_NEIGHBOR": Table(
        ((key("neighbor", _peer),), (key("vrf_name"), key("neighbor", _peer))),
        _SESSION | {"peer_group_name": Field(short(255))},
    ),
    "BGP_NEIGHBOR_AF": Table(((key("vrf_name"), key("neighbor"), _FAMILY),), _POLICY, open=True),
    "BGP_PEER_GROUP": Table(((key("vrf_name"), key("peer_group_name")),), _SESSION, open=True),
    "BGP_PEER_GROUP_AF": Table(((key("vrf_name"), key("peer_group_name"), _FAMILY),), _POLICY, open=True),
    "BGP_GLOBALS": Table(((key("vrf_name"),),), fields(local_asn=ASN, load_balance_mp_relax=BOOLEAN), open=True),
    "BGP_GLOBALS_AF": Table(
        ((key("vrf_name"), _FAMILY),),
        fields(max_ebgp_paths=number(1, 256), max_ibgp_paths=number(1, 256)),
        open=True,
    ),
    "BGP_PEER_RANGE": Table(
        ((key("peer_group"),), (key("vrf_name"), key("peer_group"))),
        fields(peer_asn=ASN, name=short(255), src_address=address(None))
        | {"ip_range": Field(prefix, many=True, listed=True)},
        open=True,
    ),
    "ROUTE_MAP": Table(
        ((key("name"), key("stmt_name", number(1, 65535))),),
        {
            "match_prefix_set": to("PREFIX_SET"),
            "match_ipv6_prefix_set": to("PREFIX_SET"),
            "match_next_hop_set": to("PREFIX_SET"),
            "match_as_path": to("AS_PATH_SET"),
            "match_community": to("COMMUNITY_SET"),
            "call_route_map": to("ROUTE_MAP_SET"),
        },
        open=True,
    ),
}
