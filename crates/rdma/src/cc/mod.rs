//! Congestion controls: each has a file with its constants and reaction, and a variant of [`Control`] and
//! [`Controller`].

pub mod dcqcn;
pub mod hpcc;
pub mod nscc;
pub mod swift;
pub mod timely;

use crate::queue_pair::QueuePairSettings;
use dcqcn::{Dcqcn, DcqcnChanges, DcqcnSettings, Preset};
use hpcc::{Hpcc, HpccSettings, Quantum, Telemetry};
use nscc::{Nscc, NsccSettings};
use pauseframe_schema::bounds::Above;
use pauseframe_schema::table;
use pauseframe_units::{BitRate, Span, Time};
use std::ops::RangeInclusive;
use swift::{Swift, SwiftSettings};
use timely::{Timely, TimelySettings};

/// A congestion control with its constants.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Control {
    /// Constant line rate: PFC alone.
    None,
    /// DCQCN.
    Dcqcn(DcqcnSettings),
    /// TIMELY.
    Timely(TimelySettings),
    /// Swift on a path with this number of hops.
    Swift(SwiftSettings, u32),
    /// HPCC.
    Hpcc(HpccSettings),
    /// NSCC.
    Nscc(NsccNetwork),
}

/// What the constants of NSCC follow from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NsccNetwork {
    /// Round trip of the longest path of the idle network.
    pub base_rtt: Span,
    /// Switches trim packets that find no room.
    pub trims: bool,
}

const RATES: RangeInclusive<BitRate> = BitRate(1)..=BitRate(100_000_000_000_000);

table! {
    /// Constants that replace those of TIMELY and HPCC
    #[derive(Copy, Default)]
    pub struct ControlChanges {
        /// Additive increase of TIMELY, or of HPCC in the form of its simulator
        #[source = "HPCC simulator: RATE_AI"]
        additive as "rdma_additive_increase": Option<BitRate> = optional_in(RATES, "timely: 10 Mb/s for each 10 Gb/s of the line rate; hpcc: for each 25 Gb/s");
        /// Increase of TIMELY after five increases in a row
        #[source = "HPCC simulator: RATE_HAI"]
        hyper as "rdma_hyper_increase": Option<BitRate> = optional_in(RATES, "timely: 50 Mb/s for each 10 Gb/s of the line rate");
        /// Smallest rate of TIMELY or HPCC
        #[source = "HPCC simulator: MIN_RATE"]
        minimum as "rdma_minimum_rate": Option<BitRate> = optional_in(RATES, "timely, hpcc: 1/100 of the line rate");
        /// Target utilisation of HPCC, eta
        #[source = "Li et al., SIGCOMM 2019; HPCC simulator: U_TARGET"]
        utilisation as "hpcc_utilisation": Option<f64> = optional_in(Above(0.0, 1.0, ""), "0.95");
    }
    pub fn part(t);
}

/// A congestion control before the line rate is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ControlChoice {
    /// These constants for any line rate.
    Fixed(Control),
    /// DCQCN.
    Dcqcn(Preset, DcqcnChanges),
    /// TIMELY.
    Timely,
    /// Swift on a path with this number of hops.
    Swift(u32),
    /// HPCC.
    Hpcc {
        /// Additive steps before the next multiplicative one.
        max_stage: u32,
        /// N of the paper's additive increase; `None`: the form of the simulator.
        flows: Option<u32>,
        /// Base round trip of the network.
        base_rtt: Span,
    },
    /// NSCC.
    Nscc(NsccNetwork),
}

impl ControlChoice {
    /// Whether its packets carry telemetry.
    pub fn has_telemetry(self) -> bool {
        matches!(self, ControlChoice::Hpcc { .. } | ControlChoice::Fixed(Control::Hpcc(_)))
    }

    /// The same on a path of so many links; 0: the longest path of the network.
    #[must_use]
    pub fn on_path(self, links: u32) -> ControlChoice {
        match self {
            ControlChoice::Swift(_) if links > 0 => ControlChoice::Swift(links),
            other => other,
        }
    }

    /// The constants for a host with a line rate in bits per second, in a network with this unit of telemetry.
    pub fn resolve(self, line: u64, quantum: Quantum) -> Control {
        match self {
            ControlChoice::Fixed(control) => control,
            ControlChoice::Dcqcn(preset, changes) => {
                Control::Dcqcn(DcqcnSettings::of(preset, line).with(&changes))
            }
            ControlChoice::Timely => Control::Timely(TimelySettings::for_line(line)),
            ControlChoice::Hpcc { max_stage, flows, base_rtt } => {
                Control::Hpcc(HpccSettings::for_line(line, max_stage, flows, base_rtt, quantum))
            }
            ControlChoice::Swift(hops) => Control::Swift(SwiftSettings::default(), hops),
            ControlChoice::Nscc(network) => Control::Nscc(network),
        }
    }
}

/// Packets have been acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgement<'a> {
    pub(crate) now: Time,
    pub(crate) packets: u64,
    /// Bytes up to here are acknowledged, and were sent.
    pub(crate) acked: u64,
    pub(crate) next: u64,
    /// Round-trip time of the last packet.
    pub(crate) rtt: Option<Span>,
    pub(crate) telemetry: &'a Telemetry,
}

#[derive(Clone, Debug)]
pub(crate) enum Controller {
    None(u64),
    Dcqcn(Dcqcn),
    Hpcc(Hpcc),
    /// With the byte number at which the measured round trip ends.
    Timely(Timely, u64),
    Swift {
        state: Swift,
        mtu: u32,
        line: u64,
    },
    Nscc(Nscc, u64),
}

impl Controller {
    pub(crate) fn new(settings: &QueuePairSettings) -> Controller {
        let line = settings.line;
        match settings.control {
            Control::None => Controller::None(line),
            Control::Dcqcn(dcqcn) => Controller::Dcqcn(Dcqcn::new(dcqcn, line)),
            Control::Hpcc(hpcc) => Controller::Hpcc(Hpcc::new(hpcc.with(&settings.changes), line)),
            Control::Timely(timely) => {
                Controller::Timely(Timely::new(timely.with(&settings.changes), line), 0)
            }
            Control::Nscc(NsccNetwork { base_rtt, trims }) => {
                let (mtu, full) = (u64::from(settings.mtu), settings.full_packet());
                let constants = NsccSettings::of(mtu, full, line, base_rtt, trims);
                Controller::Nscc(Nscc::new(constants), line)
            }
            Control::Swift(swift, hops) => {
                let target = (swift.base_target.0 + u64::from(hops) * swift.per_hop.0) as f64;
                let window = line as f64 / 8e12 * target / f64::from(settings.mtu);
                Controller::Swift { state: Swift::new(swift, hops, window), mtu: settings.mtu, line }
            }
        }
    }

    pub(crate) fn rate(&self) -> u64 {
        match self {
            Controller::None(line) | Controller::Nscc(_, line) => *line,
            Controller::Dcqcn(state) => state.rate(),
            Controller::Hpcc(state) => state.rate(),
            Controller::Timely(state, _) => state.rate(),
            Controller::Swift { state, mtu, line } => {
                // Below one packet, a packet is sent every rtt / window.
                let paced = state.window() * f64::from(*mtu) * 8e12 / state.rtt().0.max(1) as f64;
                if state.window() < 1.0 { (paced as u64).clamp(1, *line) } else { *line }
            }
        }
    }

    pub(crate) fn window(&self, settings: &QueuePairSettings) -> Option<u64> {
        match self {
            Controller::Swift { state, mtu, .. } => Some((state.window().max(1.0) * f64::from(*mtu)) as u64),
            Controller::Hpcc(state) => Some(state.window()),
            Controller::Nscc(state, _) => Some(state.window()),
            Controller::None(_) | Controller::Dcqcn(_) | Controller::Timely(..) => {
                settings.window.bytes(self.rate(), settings.line)
            }
        }
    }

    pub(crate) fn on_cnp(&mut self, now: Time) {
        if let Controller::Dcqcn(state) = self {
            state.on_cnp(now);
        }
    }

    pub(crate) fn on_ack(&mut self, ack: &Acknowledgement) {
        match self {
            Controller::Hpcc(state) if !ack.telemetry.hops().is_empty() => {
                state.on_ack(ack.acked, ack.next, ack.telemetry);
            }
            Controller::Timely(state, update_beyond) if ack.acked > *update_beyond => {
                *update_beyond = ack.next;
                if let Some(rtt) = ack.rtt {
                    state.on_rtt(rtt.0 / 1000);
                }
            }
            Controller::Swift { state, .. } => {
                if let Some(rtt) = ack.rtt {
                    state.on_ack(ack.packets as f64, rtt, ack.now);
                }
            }
            _ => {}
        }
    }

    /// Packets of unordered delivery have arrived.
    pub(crate) fn on_unordered_ack(&mut self, sample: &nscc::Sample) {
        if let Controller::Nscc(state, _) = self {
            state.on_ack(sample);
        }
    }

    /// A packet of unordered delivery was trimmed.
    pub(crate) fn on_trimmed(&mut self, sample: &nscc::Sample) {
        if let Controller::Nscc(state, _) = self {
            state.on_trimmed(sample);
        }
    }

    /// Bytes of unordered delivery were lost without a trace.
    pub(crate) fn on_unordered_timeout(&mut self, bytes: u64) {
        if let Controller::Nscc(state, _) = self {
            state.on_timeout(bytes);
        }
    }

    pub(crate) fn on_loss(&mut self, now: Time) {
        if let Controller::Swift { state, .. } = self {
            state.on_loss(now);
        }
    }

    pub(crate) fn on_sent(&mut self, bytes: u64, now: Time) {
        if let Controller::Dcqcn(state) = self {
            state.on_timeout(now);
            state.on_sent(bytes);
        }
    }

    pub(crate) fn deadline(&self) -> Time {
        let Controller::Dcqcn(state) = self else { return Time::MAX };
        state.next_timer().map_or(Time::MAX, |(at, _)| at)
    }

    pub(crate) fn on_timeout(&mut self, now: Time) {
        if let Controller::Dcqcn(state) = self {
            state.on_timeout(now);
        }
    }
}
