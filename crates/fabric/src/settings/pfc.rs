//! `[switch.pfc]`: priority flow control.

use super::buffer::ALPHAS;
use super::watchdog::PfcWatchdogSettings;
use crate::marker::BUFFER_MAX;
use pauseframe_schema::bounds::Each;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::nested::Absent;
use pauseframe_schema::reader::Table;
use pauseframe_schema::{choices, table};
use pauseframe_units::{BitRate, Bytes, Priority, Span};

const OVER_SUBSCRIPTION: f64 = 2.0;

table! {
    /// Priority flow control (IEEE 802.1Qbb), or PAUSE of whole links (IEEE 802.3 Annex 31B); by ingress (port, priority)
    #[source = "IEEE 802.1Qbb"]
    pub struct PfcSettings as "Pfc" {
        /// The lossless priorities; the i-th is that of lane i of the routes
        priorities: Vec<Priority> =
            or_because_in(read_lane_priorities(lanes, t), Each(Priority::ALL), "[3]; one for each lane of the routes") => {
            check_pfc_priorities(t, &priorities);
        };
        /// Pause whole links (PAUSE) instead of priorities: one ingress account per port, every priority lossless;
        /// priorities then only sets the priority of lossless transports
        #[source = "IEEE 802.3 Annex 31B"]
        whole_link: bool = or(false);
        /// Pause above this many ingress bytes
        xoff: Option<Bytes> = optional_in(
            Bytes::ZERO..=BUFFER_MAX,
            "automatic: the buffer less the headroom, or the dynamic threshold",
        );
        /// Resume at or below this many ingress bytes
        xon: Option<Bytes> = optional_in(Bytes::ZERO..=BUFFER_MAX, "automatic: two frames of the MTU below xoff") => {
            if let (Some(xoff), Some(xon)) = (xoff, xon) {
                let message = || format!("{xon} is not below xoff ({xoff})");
                t.check(xon < xoff, "xon", message, "lower xon by a few frames, or leave it out");
            }
        };
        /// Bytes per ingress (port, priority) for packets that arrive after XOFF
        #[source = "IEEE 802.1Qbb Annex O"]
        headroom: Option<Bytes> =
            optional_in(Bytes::ZERO..=BUFFER_MAX, "automatic: computed for each link (802.1Qbb Annex O)");
        /// One headroom pool for all ingress (port, priority) of a switch, or false: separate headroom for each
        #[source = "SONiC: shared headroom pool"]
        headroom_pool: Option<HeadroomPoolSettings> =
            switchable(Absent::Off(Origin::Default), "false", HeadroomPoolSettings::read);
        /// Time from the last bit of a pause frame until the sender stops
        #[source = "IEEE 802.3 31B.3.7"]
        reaction: Option<Span> =
            optional_in(Span::ZERO..=Span::from_ms(1), "automatic: the bound for the rate of the link");
        /// Pause time of a pause frame, in quanta of 512 bit times
        quanta: u16 = or_in(u16::MAX, 1..=u16::MAX);
        /// Watchdog that exempts a switch queue from flow control when it is paused for too long (SONiC's pfcwd), or false
        watchdog: Option<PfcWatchdogSettings> =
            switchable(Absent::Off(Origin::Default), "false", PfcWatchdogSettings::read);
        /// Ports of switches or hosts with other rules or thresholds
        #[source = "SONiC: pfc_asym"]
        ports: Vec<PfcPorts> = rows("none", PfcPorts::read);
    }
    pub fn read(t, lanes: usize);
}

table! {
    /// A headroom pool per switch: each (port, priority) takes room for packets after XOFF from it, up to its own
    /// headroom
    #[source = "SONiC: shared headroom pool"]
    #[derive(Copy)]
    pub struct HeadroomPoolSettings as "HeadroomPool" {
        /// Bytes of the pool of each switch
        size: Option<Bytes> = optional_in(Bytes(1)..=BUFFER_MAX, "total headroom divided by over_subscription");
        /// Total headroom over the size of the pool
        #[source = "SONiC: over_subscribe_ratio"]
        over_subscription: f64 = by(over_subscription, size) => {
            let both = size.is_some() && t.has("over_subscription");
            let message = || "has no meaning beside size".to_owned();
            t.check(!both, "over_subscription", message, "leave one of them out");
        };
    }
    pub fn read(t);
}

/// Beside `size` the key has no meaning, so that the resolved scenario does not list it.
fn over_subscription(t: &mut Table, key: &'static str, doc: &str, size: Option<Bytes>) -> f64 {
    if size.is_some() && !t.has(key) {
        return OVER_SUBSCRIPTION;
    }
    t.or_in(key, OVER_SUBSCRIPTION, 1.0..=1e6, doc)
}

table! {
    /// Ports whose flow control differs from that of the others; of rows that match a port, the last one with a key decides
    #[derive(Default)]
    pub struct PfcPorts {
        /// Globs over port names ("leaf0:*", "host3:0")
        ports: Vec<String> = required();
        /// Whether these ports send pause frames
        sends: Option<bool> = optional("true");
        /// Priorities in which pause frames stop these ports
        obeys: Option<ObeyedPausePriorities> = optional("lossless");
        /// Pause above this many bytes that arrived by the port
        xoff: Option<Bytes> = optional_in(Bytes::ZERO..=BUFFER_MAX, "as for all ports");
        /// Resume at or below this many bytes
        xon: Option<Bytes> = optional_in(Bytes::ZERO..=BUFFER_MAX, "as for all ports") => {
            if let (Some(xoff), Some(xon)) = (xoff, xon) {
                let message = || format!("{xon} is not below xoff ({xoff})");
                t.check(xon < xoff, "xon", message, "lower xon by a few frames, or leave it out");
            }
        };
        /// Bytes for packets that arrive by the port after XOFF, for each priority
        #[source = "IEEE 802.1Qbb Annex O"]
        headroom: Option<Bytes> = optional_in(Bytes::ZERO..=BUFFER_MAX, "as for all ports");
        /// Dynamic threshold of what arrives by the port in a lossless priority
        #[source = "SONiC: BUFFER_PROFILE dynamic_th"]
        alpha: Option<f64> = optional_in(ALPHAS, "as for its class");
        /// Whether the watchdog watches the queues of the port
        #[source = "SONiC: PFC_WD"]
        watchdog: Option<bool> = optional("true if switch.pfc.watchdog is on");
    }
    pub fn try_read(t);
}

impl PfcPorts {
    /// Takes the keys that another row gives.
    pub(crate) fn add(&mut self, row: &PfcPorts) {
        self.sends = row.sends.or(self.sends);
        self.obeys = row.obeys.or(self.obeys);
        self.xoff = row.xoff.or(self.xoff);
        self.xon = row.xon.or(self.xon);
        self.headroom = row.headroom.or(self.headroom);
        self.alpha = row.alpha.or(self.alpha);
        self.watchdog = row.watchdog.or(self.watchdog);
    }
}

choices! {
    /// In which priorities pause frames stop a port
    pub enum ObeyedPausePriorities {
        /// In the lossless ones
        Lossless = "lossless",
        /// In all, as with SONiC's asymmetric PFC
        All = "all",
        /// In none
        None = "none",
    }
}

/// The default lossless priorities: 3 and then 4, as in `SONiC`; 0 last, the priority of all other traffic.
const LOSSLESS: [u8; Priority::COUNT] = [3, 4, 5, 2, 6, 1, 7, 0];

fn read_lane_priorities(lanes: usize, t: &Table) -> (Vec<Priority>, Origin) {
    let default = |lanes| LOSSLESS.into_iter().filter_map(Priority::new).take(lanes).collect();
    match lanes {
        0 | 1 => (default(1), t.why()),
        lanes => (default(lanes), Origin::Computed(format!("one for each of {lanes} lanes of the routes"))),
    }
}

fn check_pfc_priorities(t: &mut Table, priorities: &[Priority]) {
    let message = || "[] names no priority".to_owned();
    t.check(!priorities.is_empty(), "priorities", message, "name one, as in [3], or write pfc = false");
    let twice = priorities.iter().enumerate().find(|(i, priority)| priorities[..*i].contains(priority));
    let message = || format!("{} is named twice", twice.map_or_else(Priority::default, |(_, p)| *p));
    t.check(twice.is_none(), "priorities", message, "name each priority once");
}

/// Longest reaction to a pause frame by rate in Gb/s, in quanta of 512 bit times (IEEE 802.3 31B.3.7, as `SONiC` has it).
const REACTION_QUANTA: [(u64, u64); 9] =
    [(1, 2), (10, 67), (25, 80), (40, 118), (50, 147), (100, 394), (200, 453), (400, 905), (800, 905)];

impl PfcSettings {
    /// Time from the last bit of a pause frame until a sender on a link of `rate` stops; a rate between two rows counts as the next higher one.
    pub fn reaction_time(pfc: Option<&PfcSettings>, rate: BitRate) -> Span {
        pfc.and_then(|pfc| pfc.reaction).unwrap_or_else(|| {
            let row = REACTION_QUANTA.iter().find(|(gbps, _)| rate <= BitRate::gbps(*gbps));
            let quanta = row.or(REACTION_QUANTA.last()).map_or(0, |(_, quanta)| *quanta);
            rate.serialise(Bytes(512 / 8 * quanta))
        })
    }
}
