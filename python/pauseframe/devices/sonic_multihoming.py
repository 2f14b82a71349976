"""Tables of CONFIG_DB about devices at several switches, and about the choice among equal paths.

Those of ARS are in no release's models; their names and limits are those of the design (sonic-net/SONiC: Adaptive
Routing and Switching), with SAI's defaults (opencomputeproject/SAI, inc/saiars.h, inc/saiarsprofile.h).
"""

from __future__ import annotations

from pauseframe.devices.sonic_fields import (
    BOOLEAN,
    Field,
    Table,
    address,
    fields,
    key,
    number,
    one_of,
    prefix,
    short,
    to,
)

HASH_FIELDS = (
    "IN_PORT", "DST_MAC", "SRC_MAC", "ETHERTYPE", "VLAN_ID", "IP_PROTOCOL", "DST_IP", "SRC_IP", "L4_DST_PORT",
    "L4_SRC_PORT", "INNER_DST_MAC", "INNER_SRC_MAC", "INNER_ETHERTYPE", "INNER_IP_PROTOCOL", "INNER_DST_IP",
    "INNER_SRC_IP", "INNER_L4_DST_PORT", "INNER_L4_SRC_PORT", "IPV6_FLOW_LABEL",
)  # fmt: skip
ALGORITHMS = ("CRC", "XOR", "RANDOM", "CRC_32LO", "CRC_32HI", "CRC_CCITT", "CRC_XOR")
_HASH = Field(one_of(*HASH_FIELDS), many=True, listed=True)
_SHORT, _LONG = number(0, 2**16 - 1), number(0, 2**32 - 1)
_LOADS = tuple(f"{which}_load_{what}" for which in ("past", "future", "current") for what in ("min_value", "max_value"))

TABLES: dict[str, Table] = {
    "MCLAG_DOMAIN": Table(
        ((key("domain_id", number(1, 4095)),),),
        fields(
            source_ip=address(4),
            peer_ip=address(4),
            keepalive_interval=number(1, 60),
            session_timeout=number(1, 3600),
        )
        | {"peer_link": Field(refers=("PORT", "PORTCHANNEL"))},
        open=True,
    ),
    "MCLAG_INTERFACE": Table(
        ((key("domain_id", None, "MCLAG_DOMAIN"), key("if_name", None, "PORTCHANNEL")),),
        fields(if_type=short(255)),
    ),
    "MUX_CABLE": Table(
        ((key("ifname", None, "PORT"),),),
        fields(
            cable_type=one_of("active-active", "active-standby"),
            prober_type=one_of("hardware", "software"),
            neighbor_mode=one_of("prefix-route", "host-route"),
            server_ipv4=prefix,
            server_ipv6=prefix,
            soc_ipv4=prefix,
            soc_ipv6=prefix,
            state=one_of("auto", "manual", "detach", "active", "standby"),
        ),
    ),
    "MUX_LINKMGR": Table(
        ((key("name", one_of("LINK_PROBER", "TIMED_OSCILLATION", "MUXLOGGER", "SERVICE_MGMT")),),),
        fields(
            interval_v4=_LONG,
            interval_v6=_LONG,
            positive_signal_count=_LONG,
            negative_signal_count=_LONG,
            suspend_timer=_LONG,
            interval_pck_loss_count_update=_LONG,
            interval_sec=_LONG,
            use_well_known_mac=one_of("enabled", "disabled"),
            src_mac=one_of("ToRMac", "VlanMac"),
            log_verbosity=one_of("trace", "debug", "info", "error", "fatal"),
            oscillation_enabled=one_of("true", "false"),
            kill_radv=one_of("True", "False"),
        ),
    ),
    "SWITCH": Table(
        ((key("name", one_of("switch")),),),
        fields(
            ecmp_hash_seed=_LONG, lag_hash_seed=_LONG, ecmp_hash_offset=number(0, 15), lag_hash_offset=number(0, 15)
        ),
        open=True,
    ),
    "DEVICE_NEIGHBOR_METADATA": Table(((key("name", short(255)),),), fields(type=short(255)), open=True),
    "SWITCH_HASH": Table(
        ((key("name", one_of("GLOBAL")),),),
        fields(ecmp_hash_algorithm=one_of(*ALGORITHMS), lag_hash_algorithm=one_of(*ALGORITHMS))
        | {"ecmp_hash": _HASH, "lag_hash": _HASH},
    ),
    "ARS_PROFILE": Table(
        ((key("profile_name", short(255)),),),
        fields(
            algorithm=one_of("ewma"),
            ars_nhg_path_selector_mode=one_of("global", "interface", "nexthop"),
            ars_lag_path_selector_mode=one_of("global", "interface"),
            max_flows=_LONG,
            sampling_interval=_LONG,
            past_load_weight=_SHORT,
            future_load_weight=_SHORT,
            ipv4_enable=BOOLEAN,
            ipv6_enable=BOOLEAN,
            **dict.fromkeys(_LOADS, _SHORT),
        )
        | {"default_ars_object": to("ARS_OBJECT")},
    ),
    "ARS_OBJECT": Table(
        ((key("ars_obj_name", short(255)),),),
        fields(
            assign_mode=one_of("per_flowlet_quality", "per_packet_quality"),
            flowlet_idle_time=number(2, 2047),
            max_flows=_LONG,
            primary_path_threshold=_LONG,
            alternative_path_cost=_LONG,
        ),
    ),
    "ARS_INTERFACES": Table(
        ((key("if_name", None, "PORT"),),), fields(scaling_factor=_LONG) | {"ars_obj_name": to("ARS_OBJECT")}
    ),
    "ARS_NEXTHOPS": Table(
        ((key("vrf_name", None, "VRF", also="default"), key("nexthop_ip", address(None))),),
        fields(role=one_of("primary_path", "alternative_path")) | {"ars_obj_name": to("ARS_OBJECT")},
    ),
    "ARS_PORTCHANNELS": Table(
        ((key("if_name", None, "PORTCHANNEL"),),),
        {"alternative_path_members": Field(refers=("PORT",), many=True, listed=True)},
    ),
}
"""The tables by name."""
