"""The tables of SONiC's CONFIG_DB that concern a lossless fabric: keys, fields, limits, references.

Names and limits come from SONiC's YANG models (sonic-net/sonic-buildimage, src/sonic-yang-models, 086b03b). Other
tables are kept but not checked; `pauseframe lint --yang DIR` checks all of them with the operator's own models.
"""

from __future__ import annotations

from pauseframe.devices import sonic_multihoming, sonic_routing
from pauseframe.devices.model import QOS_MAPS
from pauseframe.devices.sonic_fields import (
    ABLE,
    BOOLEAN,
    DSCP,
    MAC,
    MAP_NAME,
    PRIORITY,
    PRIORITY_LIST,
    QUEUE_INDEX,
    QUEUE_RANGE,
    SIZE,
    TC,
    VLAN_NAME,
    WORD,
    Field,
    Table,
    address,
    code_map,
    fields,
    key,
    like,
    number,
    one_of,
    prefix,
    short,
    to,
)

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
_PORT = key("port", None, "PORT")
_VOQ = (key("hostname", short(63)), key("asic_name", short(63)))
_PROFILE_LIST = Table(((_PORT,),), {"profile_list": to("BUFFER_PROFILE", many=True)})

_ROUTED = fields(
    nat_zone=number(0, 3),
    mpls=one_of("enable", "disable"),
    mac_addr=MAC,
    ipv6_use_link_local_only=one_of("enable", "disable"),
    loopback_action=one_of("drop", "forward"),
    scope=one_of("global", "local"),
    family=one_of("IPv4", "IPv6"),
) | {"vnet_name": to("VNET"), "vrf_name": to("VRF")}
"""Fields of every table of router interfaces."""
_LLR_ACTION = one_of("discard", "block", "best_effort")

TABLES: dict[str, Table] = {
    "DEVICE_METADATA": Table(
        ((key("name", one_of("localhost")),),),
        fields(
            buffer_model=one_of("dynamic", "traditional"),
            default_pfcwd_status=one_of("enable", "disable"),
            subtype=one_of("DualToR", "SmartSwitch", "Supervisor", "UpstreamLC", "DownstreamLC"),
            hostname=short(63),
        ),
        open=True,
    ),
    "PORT": Table(
        ((key("name", short(128)),),),
        fields(
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
        ((key("name"),),),
        fields(
            type=one_of("ingress", "egress", "both"),
            mode=one_of("static", "dynamic"),
            size=SIZE,
            xoff=SIZE,
            percentage=number(0, 255),
        ),
        ("type", "mode"),
    ),
    "BUFFER_PROFILE": Table(
        ((key("name"),),),
        {"pool": to("BUFFER_POOL")}
        | fields(
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
        ((_PORT, key("pg_num", like(r"[0-7](-[0-7])?", 'a priority group from 0 to 7, or a range such as "3-4"'))),),
        {"profile": to("BUFFER_PROFILE", also="NULL 0")},
    ),
    "BUFFER_QUEUE": Table(
        ((_PORT, key("qindex", QUEUE_RANGE)), (*_VOQ, key("port", short(128)), key("qindex", QUEUE_RANGE))),
        {"profile": to("BUFFER_PROFILE", also="0")},
    ),
    "BUFFER_PORT_INGRESS_PROFILE_LIST": _PROFILE_LIST,
    "BUFFER_PORT_EGRESS_PROFILE_LIST": _PROFILE_LIST,
    "WRED_PROFILE": Table(((key("name", MAP_NAME),),), fields(**_WRED)),
    "SCHEDULER": Table(
        ((key("name"),),),
        fields(
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
            (key("ifname", None, "PORT", also="CPU"), key("qindex", QUEUE_RANGE)),
            (*_VOQ, key("ifname", short(128)), key("qindex", QUEUE_RANGE)),
        ),
        {"scheduler": to("SCHEDULER"), "wred_profile": to("WRED_PROFILE")},
    ),
    "PORT_QOS_MAP": Table(
        ((key("ifname", None, "PORT", also="global"),),),
        {f"{kind}_map": to(table) for kind, table in QOS_MAPS.items()}
        | {
            "tc_to_dscp_map": to("TC_TO_DSCP_MAP"),
            "scheduler": to("SCHEDULER"),
            "pfc_enable": Field(PRIORITY_LIST),
            "pfcwd_sw_enable": Field(PRIORITY_LIST),
        },
        open=True,
    ),
    "DSCP_TO_TC_MAP": code_map("dscp", DSCP, "tc", TC),
    "DOT1P_TO_TC_MAP": code_map("dot1p", PRIORITY, "tc", TC),
    "TC_TO_QUEUE_MAP": code_map("tc", TC, "qindex", QUEUE_INDEX),
    "TC_TO_PRIORITY_GROUP_MAP": code_map("tc", TC, "pg", PRIORITY),
    "MAP_PFC_PRIORITY_TO_QUEUE": code_map("pfc_priority", PRIORITY, "qindex", PRIORITY),
    "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP": code_map("pfc_priority", PRIORITY, "pg", PRIORITY),
    "TC_TO_DSCP_MAP": code_map("tc", TC, "dscp", DSCP),
    "CABLE_LENGTH": Table(
        ((key("name", MAP_NAME),),),
        entries=(("port", Field(None, ("PORT",))), ("length", Field(like(r"[0-9]{1,7}m", "metres such as 40m")))),
    ),
    "LOSSLESS_TRAFFIC_PATTERN": Table(
        ((key("name", MAP_NAME),),),
        fields(mtu=number(1, 9216), small_packet_percentage=number(0, 100)),
        ("mtu", "small_packet_percentage"),
    ),
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER": Table(
        ((key("name", MAP_NAME),),),
        fields(default_dynamic_th=number(-8, 7), over_subscribe_ratio=number(0, 65535)),
        ("default_dynamic_th",),
        open=True,
    ),
    "PFC_WD": Table(
        ((key("ifname", None, "PORT", also="GLOBAL"),),),
        fields(
            action=one_of("drop", "forward", "alert"),
            detection_time=number(100, 5000),
            restoration_time=number(100, 60000),
            POLL_INTERVAL=number(100, 1000),
            BIG_RED_SWITCH=one_of("enable", "disable"),
            pfc_stat_history=one_of("enable", "disable"),
        ),
        open=True,
    ),
    "VLAN": Table(
        ((key("name", VLAN_NAME),),),
        fields(
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
        | {
            "dhcp_servers": Field(address(None), many=True, listed=True),
            "dhcpv6_servers": Field(address(6), many=True, listed=True),
        },
        open=True,
    ),
    "VLAN_MEMBER": Table(
        ((key("name", None, "VLAN"), key("port", None, "PORT", "PORTCHANNEL")),),
        fields(tagging_mode=one_of("tagged", "untagged", "priority_tagged")),
        ("tagging_mode",),
        open=True,
    ),
    "VLAN_INTERFACE": Table(
        ((key("name", None, "VLAN"),), (key("name", None, "VLAN"), key("ip-prefix", prefix))),
        _ROUTED
        | fields(grat_arp=ABLE, proxy_arp=ABLE, static_anycast_gateway=one_of("true", "false", "True", "False")),
        open=True,
    ),
    "FDB": Table(
        ((key("vlan", None, "VLAN"), key("mac", MAC)),),
        {"port": Field(refers=("PORT", "PORTCHANNEL"))},
        ("port",),
        open=True,
    ),
    "PORTCHANNEL": Table(
        ((key("name", like(r"PortChannel[0-9]{1,4}", "PortChannel0 to PortChannel9999")),),),
        fields(
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
        | {"members": Field(refers=("PORT",), many=True, listed=True)},
    ),
    "PORTCHANNEL_MEMBER": Table(((key("name", None, "PORTCHANNEL"), key("port", None, "PORT")),), open=True),
    "PORTCHANNEL_INTERFACE": Table(
        ((key("name", None, "PORTCHANNEL"),), (key("name", None, "PORTCHANNEL"), key("ip_prefix", prefix))),
        _ROUTED,
        open=True,
    ),
    "INTERFACE": Table(
        ((key("name", None, "PORT"),), (key("name", None, "PORT"), key("ip-prefix", prefix))), _ROUTED, open=True
    ),
    "TUNNEL": Table(
        ((key("tunnel_name", like(r"[a-zA-Z0-9_-]{1,255}", "a name of letters, digits, - and _")),),),
        fields(
            tunnel_type=one_of("IPINIP"),
            src_ip=address(None),
            dst_ip=address(None),
            dscp_mode=one_of("uniform", "pipe"),
            ttl_mode=one_of("uniform", "pipe"),
            ecn_mode=one_of("copy_from_outer", "standard"),
            encap_ecn_mode=one_of("standard"),
        )
        | {
            "decap_dscp_to_tc_map": to("DSCP_TO_TC_MAP"),
            "decap_tc_to_pg_map": to("TC_TO_PRIORITY_GROUP_MAP"),
            "encap_tc_to_dscp_map": to("TC_TO_DSCP_MAP"),
            "encap_tc_to_queue_map": to("TC_TO_QUEUE_MAP"),
        },
    ),
    **sonic_multihoming.TABLES,
    **sonic_routing.TABLES,
    "PEER_SWITCH": Table(((key("peer_switch", short(63)),),), fields(address_ipv4=address(4))),
    "VXLAN_TUNNEL": Table(((key("name"),),), fields(src_ip=address(None), dst_ip=address(None)), open=True),
    "VXLAN_TUNNEL_MAP": Table(
        ((key("name", None, "VXLAN_TUNNEL"), key("mapname")),),
        {"vlan": to("VLAN"), "vni": Field(number(1, 2**24 - 1))},
        ("vlan", "vni"),
    ),
    "LLR_PORT": Table(
        ((_PORT,),),
        fields(llr_mode=one_of("static", "dynamic"), llr_local=ABLE, llr_remote=ABLE)
        | {"llr_profile": to("LLR_PROFILE")},
    ),
    "LLR_PROFILE": Table(
        ((key("name", short(128)),),),
        fields(
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
        ((key("name", one_of("GLOBAL")),),),
        fields(
            size=number(0, 2**32 - 1),
            dscp_value=like(r"[0-9]|[1-5][0-9]|6[0-3]|from-tc", "a DSCP from 0 to 63, or from-tc"),
            tc_value=number(0, 255),
            queue_index=like(r"[0-9]{1,3}|dynamic", "a queue, or dynamic"),
        ),
    ),
    "STP_VLAN": Table(((key("name", None, "VLAN"),),), fields(enabled=BOOLEAN, vlanid=number(1, 4095)), open=True),
    "DEVICE_NEIGHBOR": Table(
        ((key("local_port", short(255)),),), fields(name=WORD, port=WORD, local_port=WORD), open=True
    ),
}
