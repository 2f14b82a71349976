//! Transport presets: a preset is a row of values that the file's own values override, never a copy of code.
//!
//! The stack below a preset (`stacks.rs`) supplies every value that the preset does not set. The default
//! stack is Linux; the file or the preset may name another stack.

use pauseframe_schema::row::{Row, RowValue, set};

const BOLT_WINDOW: RowValue = set("initial_window", "bdp", "bolt §III: no slow start, at least one BDP");
const BOLT_CLASS: RowValue = set("lossless", "true", "bolt §III: a PFC class (802.1Qbb)");
// Linux first advertises a window of 64 KB and keeps little unsent data, which would limit the initial window
// of Bolt.
const BOLT_RECEIVER: RowValue = set("receive_buffer", "fixed", "bolt §III: the receiver takes a BDP at once");
const BOLT_SENDER: RowValue = set("send_buffer", "unlimited", "bolt §III: the sender has a BDP at once");
const RENO: RowValue = set("congestion_control", "newreno", "RFC 5681, RFC 6582");
const DCTCP_CONTROL: RowValue = set("congestion_control", "dctcp", "RFC 8257 §3.3");
const DCTCP_ECN: RowValue = set("ecn", "dctcp", "RFC 8257 §3.1 and §3.2");
const DCTCP_ACKS: RowValue =
    set("ect_on_ack", "true", "Linux: a DCTCP socket sends ACKs and retransmissions as ECT(0)");

/// bolt §IV-A2 (claim B-P09); the paper has an RTO of 45 us with its round trip of 15 us.
const PFABRIC_RTO: &str = "600 us";

const ACK_EACH: RowValue =
    set("rdma_ack_every", "1", "HPCC simulator: L2_ACK_INTERVAL 1; each acknowledgement is a sample");

/// All transport presets; the first is the default.
pub const PRESETS: &[Row] = &[
    Row {
        name: "cubic",
        doc: "CUBIC with HyStart (RFC 9438), lossy",
        row: &[set("congestion_control", "cubic", "RFC 9438")],
    },
    Row { name: "newreno", doc: "NewReno (RFC 5681, RFC 6582), on Linux its reno, lossy", row: &[RENO] },
    Row {
        name: "tcp_dcb",
        doc: "NewReno in a lossless class, starting at line rate (bolt)",
        row: &[RENO, BOLT_WINDOW, BOLT_CLASS, BOLT_RECEIVER, BOLT_SENDER],
    },
    Row {
        name: "dctcp",
        doc: "DCTCP (RFC 8257); on Linux all its packets are ECN-capable, lossy",
        row: &[DCTCP_CONTROL, DCTCP_ECN, DCTCP_ACKS],
    },
    Row {
        name: "dctcp_plus",
        doc: "DCTCP whose SYN and SYN-ACK are ECN-capable on any stack (judd); on Linux the same as dctcp",
        row: &[DCTCP_CONTROL, DCTCP_ECN, DCTCP_ACKS, set("ect_on_syn", "true", "judd §7.4")],
    },
    Row {
        name: "tcp_bolt",
        doc: "DCTCP in a lossless class, starting at line rate (bolt)",
        row: &[DCTCP_CONTROL, DCTCP_ECN, DCTCP_ACKS, BOLT_WINDOW, BOLT_CLASS, BOLT_RECEIVER, BOLT_SENDER],
    },
    Row {
        name: "vegas",
        doc: "Vegas (Brakmo and Peterson 1995), lossy",
        row: &[set("congestion_control", "vegas", "Brakmo and Peterson 1995")],
    },
    Row {
        name: "bbr",
        doc: "BBR version 1 (Cardwell et al. 2016), which paces its segments, lossy",
        row: &[set("congestion_control", "bbr", "Cardwell et al. 2016")],
    },
    Row {
        name: "roce_dcqcn",
        doc: "RoCEv2 queue pairs with DCQCN as ConnectX cards have it, in a lossless class",
        row: &[
            set("kind", "rdma", "InfiniBand Architecture Specification, annex A17"),
            set("rdma_control", "dcqcn_connectx", "NVIDIA: DCQCN CC parameters, dumps of mlxconfig"),
            set("ecn", "classic", "SIGCOMM 2015 §3.1: data packets are ECN-capable"),
            set("lossless", "true", "SIGCOMM 2015 §2.2: a PFC class"),
        ],
    },
    Row {
        name: "roce_cx5",
        doc: "RoCEv2 queue pairs of a ConnectX-5 on a network that drops, as measured (docs/models/rdma.md), lossy",
        row: &[
            set("kind", "rdma", "InfiniBand Architecture Specification, annex A17"),
            set("rdma_control", "dcqcn_connectx", "NVIDIA: DCQCN CC parameters"),
            set("ecn", "classic", "SIGCOMM 2015 §3.1: data packets are ECN-capable"),
            set(
                "dcqcn_rise_interval",
                "500 us",
                "fitted: 50 Mb/s of hyper increase a step give the measured 0.1 Gb/s a ms",
            ),
            set("rdma_cnp_interval", "50 us", "fitted: goodput and loss of two senders of 1 MiB"),
        ],
    },
    Row {
        name: "roce_hpcc",
        doc: "RoCEv2 queue pairs with HPCC (SIGCOMM 2019) in a lossless class",
        row: &[
            set("kind", "rdma", "InfiniBand Architecture Specification, annex A17"),
            set("rdma_control", "hpcc", "SIGCOMM 2019"),
            ACK_EACH,
            set("lossless", "true", "SIGCOMM 2019 §4: with PFC"),
        ],
    },
    Row {
        name: "roce_timely",
        doc: "RoCEv2 queue pairs with TIMELY (SIGCOMM 2015) in a lossless class",
        row: &[
            set("kind", "rdma", "InfiniBand Architecture Specification, annex A17"),
            set("rdma_control", "timely", "SIGCOMM 2015"),
            ACK_EACH,
            set("lossless", "true", "SIGCOMM 2015 §6: with PFC"),
        ],
    },
    Row {
        name: "roce_swift",
        doc: "RoCEv2 queue pairs with Swift (SIGCOMM 2020) in a lossless class",
        row: &[
            set("kind", "rdma", "InfiniBand Architecture Specification, annex A17"),
            set("rdma_control", "swift", "SIGCOMM 2020"),
            ACK_EACH,
            set("lossless", "true", "none: the paper ran lossy; here as the other RoCE presets"),
        ],
    },
    Row {
        name: "uec_nscc",
        doc: "Queue pairs with NSCC as htsim has it, lossy; with switch.queue = \"trim\" and routing.kind = \"spray\"",
        row: &[
            set("kind", "rdma", "packets as RoCEv2 has them; htsim counts 64 bytes of headers"),
            set("rdma_control", "nscc", "htsim uec.cpp"),
            set("ecn", "classic", "htsim: data packets are ECN-capable"),
            set("rdma_timeout", "100 us", "htsim: DEFAULT_UEC_RTO_MIN"),
        ],
    },
    Row {
        name: "udp",
        doc: "UDP datagrams without congestion control, not ECN-capable, lossy: for workloads of kind udp",
        row: &[set("kind", "udp", "RFC 768")],
    },
    Row {
        name: "pfabric",
        doc: "pFabric's rate control (Alizadeh et al. 2013), lossy, on no operating system; with switch.queue = \"pfabric\"",
        row: &[
            set("stack", "none", "SIGCOMM 2013 §4.2: a minimal rate control, no kernel's TCP"),
            set("congestion_control", "pfabric", "SIGCOMM 2013 §4.2"),
            set("initial_window", "bdp", "SIGCOMM 2013 §4.2: starts at line rate"),
            set("fast_retransmit", "false", "SIGCOMM 2013 §4.2: losses show by timeouts only"),
            set("limited_transmit", "false", "SIGCOMM 2013 §4.2: nothing is sent for duplicate ACKs"),
            set("delayed_ack_segments", "1", "SIGCOMM 2013 §4.2: every packet is acknowledged"),
            set("rto_form", "rfc", "the minimum is the value, not a term"),
            set("rto_initial", PFABRIC_RTO, "bolt §IV-A2: 600 us, about three round trips"),
            set("rto_min", PFABRIC_RTO, "bolt §IV-A2"),
            set("rto_max", PFABRIC_RTO, "SIGCOMM 2013 §4.2: fixed, no back-off"),
            set("rto_granularity", "1 us", "finer than a packet's time"),
        ],
    },
];

/// Finds the preset with the given name.
pub(crate) fn find(name: &str) -> Option<&'static Row> {
    PRESETS.iter().find(|preset| preset.name == name)
}
