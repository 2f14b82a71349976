//! Transport presets: a variant is a row of values below the file's own, never a copy of code.
//!
//! What a row does not name has the default that `resolve::transport` documents (a `NewReno` with an initial
//! window of ten segments). The operating systems' own values stand in `stacks.rs`, below these.

use crate::resolve::{Entry, Origin};
use crate::stacks;

/// A named row of transport settings.
#[derive(Debug)]
pub struct Preset {
    /// What `transport.preset` or `qcn.preset` says.
    pub name: &'static str,
    /// What it is, in one line.
    pub doc: &'static str,
    /// What it sets beyond the defaults.
    pub row: &'static [PresetValue],
}

/// One value of a preset.
#[derive(Debug)]
pub struct PresetValue {
    /// Key of `[transport]`.
    pub key: &'static str,
    /// The value, as `--set` takes it.
    pub value: &'static str,
    /// The document that it comes from.
    pub source: &'static str,
}

/// A value of a transport and where it is from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explained {
    /// Key of `[transport]`.
    pub key: String,
    /// The value as TOML, or what stands for it.
    pub value: String,
    /// "preset dctcp", "stack linux", "default".
    pub origin: String,
    /// Document and section; of a default, what the key means.
    pub source: String,
}

pub(crate) const fn set(key: &'static str, value: &'static str, source: &'static str) -> PresetValue {
    PresetValue { key, value, source }
}

const BOLT_WINDOW: PresetValue = set("initial_window", "bdp", "bolt §III: no slow start, at least one BDP");
const BOLT_CLASS: PresetValue = set("lossless", "true", "bolt §III: a PFC class (802.1Qbb)");
const DCTCP_CONTROL: PresetValue = set("congestion_control", "dctcp", "RFC 8257 §3.3");
const DCTCP_ECN: PresetValue = set("ecn", "dctcp", "RFC 8257 §3.1 and §3.2");
const DCTCP_ACKS: PresetValue =
    set("ect_on_ack", "true", "Linux: a DCTCP socket sends ACKs and retransmissions as ECT(0)");

/// bolt §IV-A2 (claim B-P09); the paper has 45 us with its 15 us round trip.
const PFABRIC_RTO: &str = "600 us";

/// The presets that there are.
pub const PRESETS: &[Preset] = &[
    Preset { name: "newreno", doc: "NewReno (RFC 5681, RFC 6582), lossy", row: &[] },
    Preset {
        name: "tcp_dcb",
        doc: "NewReno in a lossless class, starting at line rate (bolt)",
        row: &[BOLT_WINDOW, BOLT_CLASS],
    },
    Preset {
        name: "dctcp",
        doc: "DCTCP (RFC 8257) as Linux sends it, lossy",
        row: &[DCTCP_CONTROL, DCTCP_ECN, DCTCP_ACKS],
    },
    Preset {
        name: "dctcp_plus",
        doc: "DCTCP whose SYN and SYN-ACK are ECN-capable too (judd)",
        row: &[DCTCP_CONTROL, DCTCP_ECN, DCTCP_ACKS, set("ect_on_syn", "true", "judd §7.4")],
    },
    Preset {
        name: "tcp_bolt",
        doc: "DCTCP in a lossless class, starting at line rate (bolt)",
        row: &[DCTCP_CONTROL, DCTCP_ECN, DCTCP_ACKS, BOLT_WINDOW, BOLT_CLASS],
    },
    Preset {
        name: "cubic",
        doc: "CUBIC with HyStart (RFC 9438) as Linux sends it, lossy",
        row: &[set("congestion_control", "cubic", "RFC 9438")],
    },
    Preset {
        name: "vegas",
        doc: "Vegas (Brakmo and Peterson 1995) as Linux sends it, lossy",
        row: &[set("congestion_control", "vegas", "Brakmo and Peterson 1995")],
    },
    Preset {
        name: "pfabric",
        doc: "pFabric's rate control (Alizadeh et al. 2013), lossy; with a queue that knows what remains",
        row: &[
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

const QCN_MIN_RATE: PresetValue = set("min_rate", "100 Kbps", "cee Table I");

/// The presets of `[qcn]`: below its keys as those above are below the keys of `[transport]`. What cee Table I has beyond
/// these values is as in the standard: w 2, samples and byte counter 150 KB, timer 15 ms, five cycles, 5 and 50 Mb/s,
/// factor 0.5, extra fast recovery. Its "Gd 0.5" is read as the largest cut, `g_d` times 63 (docs/models/qcn.md).
pub const QCN_PRESETS: &[Preset] = &[
    Preset { name: "standard", doc: "Defaults of IEEE 802.1Q", row: &[] },
    Preset {
        name: "qcn20",
        doc: "cee Table I, Q_eq 20 KB",
        row: &[set("q_eq", "20 KB", "cee Table I"), QCN_MIN_RATE],
    },
    Preset {
        name: "qcn66",
        doc: "cee Table I, Q_eq 66 KB",
        row: &[set("q_eq", "66 KB", "cee Table I"), QCN_MIN_RATE],
    },
];

/// The preset that stands where the file names none.
pub(crate) const DEFAULT: &Preset = &PRESETS[0];

/// The preset of this name.
pub(crate) fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// What this row says about `key`.
    pub(crate) fn value(&self, key: &str) -> Option<&'static str> {
        self.row.iter().find(|value| value.key == key).map(|value| value.value)
    }

    /// Every key of `[transport]` with the value that this preset gives it (under ECMP), as TOML.
    pub fn expanded(&'static self) -> Vec<(String, String)> {
        let row = crate::resolve::transport_row(self, stacks::NONE);
        row.into_iter().map(|entry| (entry.path, entry.value)).collect()
    }

    /// Every key of `[transport]` with its value above the stack of this name, which layer gives it, and from which
    /// document it is. `None`: there is no such stack.
    pub fn explained(&'static self, stack: &str) -> Option<Vec<Explained>> {
        let (name, below) = match stacks::find(stack) {
            Some(row) => (row.name, Some(row)),
            None if stack == stacks::NONE => (stacks::NONE, None),
            None => return None,
        };
        let docs = crate::resolve::options();
        let doc_of = |key: &str| docs.iter().find(|doc| doc.path == format!("transport.{key}"));
        let source = |entry: &Entry| match entry.origin {
            Origin::Preset(_) => self.source(&entry.path).unwrap_or("").to_owned(),
            Origin::Stack(_) => below.and_then(|row| row.source(&entry.path)).unwrap_or("").to_owned(),
            _ => doc_of(&entry.path).map_or(String::new(), |doc| doc.doc.clone()),
        };
        let explain = |entry: Entry| {
            let (source, origin) = (source(&entry), entry.origin.to_string());
            Explained { key: entry.path, value: entry.value, origin, source }
        };
        Some(crate::resolve::transport_row(self, name).into_iter().map(explain).collect())
    }

    fn source(&self, key: &str) -> Option<&'static str> {
        self.row.iter().find(|value| value.key == key).map(|value| value.source)
    }
}
