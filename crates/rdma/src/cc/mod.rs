//! Congestion controls of queue pairs: the interface, and their registry.
//!
//! To add one: a file here with its constants, a [`RateControl`] and a [`ControlKind`], and a row in `registry!` below. Scenario files (`rdma_control`), their
//! reference, Python and the JSON Schema know it from that row (docs/how-to/extend-the-core.md).

pub mod contract;
mod control;
pub mod dcqcn;
pub mod hpcc;
pub(crate) mod line_rate;
pub mod nscc;
mod plugin;
pub mod swift;
pub mod timely;

pub use control::RdmaControl;

use crate::queue_pair::QueuePairSettings;
use dcqcn::DcqcnChanges;
use hpcc::{Quantum, Telemetry};
use pauseframe_schema::bounds::Above;
use pauseframe_schema::{choices, table};
use pauseframe_units::{BitRate, Span, Time};
use std::ops::RangeInclusive;

/// A congestion control of a queue pair, which steers its rate, its window, or both.
pub(crate) trait RateControl {
    /// Bits per second.
    fn rate(&self) -> u64;
    /// Bytes that may be in flight; `None`: it has no window.
    fn own_window(&self) -> Option<u64> {
        None
    }
    /// A packet with so many bytes has left.
    fn on_sent(&mut self, _bytes: u64, _now: Time) {}
    /// Packets have been acknowledged.
    fn on_ack(&mut self, _ack: &Acknowledgement) {}
    /// A congestion notification has come.
    fn on_cnp(&mut self, _now: Time) {}
    /// Packets are sent again.
    fn on_loss(&mut self, _now: Time) {}
    /// When [`RateControl::on_timeout`] is due.
    fn deadline(&self) -> Time {
        Time::MAX
    }
    /// Timers of the control may be due.
    fn on_timeout(&mut self, _now: Time) {}
    /// What it has seen happened so much later, and its timers are later, too.
    fn move_later(&mut self, _by: Span) {}
    /// Packets of unordered delivery have arrived.
    fn on_unordered_ack(&mut self, _sample: &nscc::Sample) {}
    /// A packet of unordered delivery was trimmed.
    fn on_trimmed(&mut self, _sample: &nscc::Sample) {}
    /// Bytes of unordered delivery were lost without a trace.
    fn on_unordered_timeout(&mut self, _bytes: u64) {}
}

/// What the registry knows of a control.
pub(crate) trait ControlKind: RateControl + Sized {
    /// What tells rows of the registry apart that share this control.
    type Form;
    /// Its data packets carry telemetry of switches, which acknowledgements return.
    const READS_TELEMETRY: bool = false;
    /// It reacts to CNPs; for no other does the receiver send them.
    const REACTS_TO_CNPS: bool = false;
    /// It limits the bytes in flight by itself.
    const HAS_WINDOW: bool = false;
    /// Its target follows from the number of links on the path.
    const FOLLOWS_LINKS: bool = false;
    /// It is part of a transport that delivers in any order.
    const IS_UNORDERED: bool = false;

    /// The state of a queue pair at its beginning.
    fn new(form: Self::Form, settings: &QueuePairSettings) -> Self;
}

macro_rules! registry {
    ($( $control:ident($ty:ty) { $( $(#[doc = $doc:literal])+ $name:ident = $text:literal => $form:expr; )+ } )+) => {
        choices! {
            /// Congestion controls of queue pairs
            pub enum ControlName { $($( $(#[doc = $doc])+ $name = $text ),+),+ }
        }

        #[derive(Clone, Debug)]
        pub(crate) enum Controller { $( $control($ty), )+ Plugin(Box<plugin::PluginControl>) }

        impl Controller {
            pub(crate) fn new(settings: &QueuePairSettings) -> Controller {
                let name = match settings.control {
                    RdmaControl::BuiltIn(name) => name,
                    RdmaControl::Plugin(config) => {
                        return Controller::Plugin(Box::new(plugin::PluginControl::new(config, settings)));
                    }
                };
                match name {
                    $($( ControlName::$name => Controller::$control(ControlKind::new($form, settings)), )+)+
                }
            }
        }

        impl Controller {
            registry! { @verb [$($control)+] rate(self: &self) -> u64, () }
            registry! { @verb [$($control)+] own_window(self: &self) -> Option<u64>, () }
            registry! { @verb [$($control)+] deadline(self: &self) -> Time, () }
            registry! { @verb [$($control)+] on_sent(self: &mut self, bytes: u64, now: Time) -> (), (bytes, now) }
            registry! { @verb [$($control)+] on_ack(self: &mut self, ack: &Acknowledgement) -> (), (ack) }
            registry! { @verb [$($control)+] on_cnp(self: &mut self, now: Time) -> (), (now) }
            registry! { @verb [$($control)+] on_loss(self: &mut self, now: Time) -> (), (now) }
            registry! { @verb [$($control)+] on_timeout(self: &mut self, now: Time) -> (), (now) }
            registry! { @verb [$($control)+] move_later(self: &mut self, by: Span) -> (), (by) }
            registry! { @verb [$($control)+] on_unordered_ack(self: &mut self, sample: &nscc::Sample) -> (), (sample) }
            registry! { @verb [$($control)+] on_trimmed(self: &mut self, sample: &nscc::Sample) -> (), (sample) }
            registry! { @verb [$($control)+] on_unordered_timeout(self: &mut self, bytes: u64) -> (), (bytes) }
        }

        impl ControlName {
            /// Whether its data packets carry telemetry of switches.
            pub fn reads_telemetry(self) -> bool {
                match self { $( $( ControlName::$name )|+ => <$ty>::READS_TELEMETRY ),+ }
            }

            /// Whether it reacts to CNPs.
            pub fn reacts_to_cnps(self) -> bool {
                match self { $( $( ControlName::$name )|+ => <$ty>::REACTS_TO_CNPS ),+ }
            }

            /// Whether it limits the bytes in flight by itself.
            pub fn has_window(self) -> bool {
                match self { $( $( ControlName::$name )|+ => <$ty>::HAS_WINDOW ),+ }
            }

            /// Whether its target follows from the number of links on the path.
            pub fn follows_links(self) -> bool {
                match self { $( $( ControlName::$name )|+ => <$ty>::FOLLOWS_LINKS ),+ }
            }

            /// Whether it is part of a transport that delivers in any order.
            pub fn is_unordered(self) -> bool {
                match self { $( $( ControlName::$name )|+ => <$ty>::IS_UNORDERED ),+ }
            }
        }
    };
    // A verb of `RateControl`, without a table of functions: the calls of the hot path are inlined.
    (@verb [$($control:ident)+] $verb:ident($own:ident: $($declared:tt)+) -> $out:ty, $args:tt) => {
        #[inline]
        pub(crate) fn $verb($($declared)+) -> $out {
            match $own { $( Controller::$control(state) => state.$verb $args, )+ Controller::Plugin(state) => state.$verb $args }
        }
    };
}

registry! {
    LineRate(line_rate::LineRate) {
        /// None: line rate, PFC alone
        None = "none" => ();
    }
    Dcqcn(dcqcn::Dcqcn) {
        /// DCQCN as in the paper (SIGCOMM 2015)
        DcqcnPaper = "dcqcn_paper" => dcqcn::Preset::Paper;
        /// DCQCN with the registers of NVIDIA `ConnectX` cards
        DcqcnConnectx = "dcqcn_connectx" => dcqcn::Preset::ConnectX;
        /// The same with the increase timer that gives the recovery measured on a ConnectX-5
        DcqcnCx5Measured = "dcqcn_cx5_measured" => dcqcn::Preset::Cx5Measured;
        /// DCQCN as the HPCC simulator has it: increases that scale with the line rate
        DcqcnHpcc = "dcqcn_hpcc" => dcqcn::Preset::Hpcc;
    }
    Timely(timely::TimelyControl) {
        /// TIMELY (SIGCOMM 2015)
        Timely = "timely" => ();
    }
    Swift(swift::SwiftControl) {
        /// Swift (SIGCOMM 2020), the window for the fabric's delay
        Swift = "swift" => ();
    }
    Hpcc(hpcc::Hpcc) {
        /// HPCC (SIGCOMM 2019); switches stamp telemetry, 42 bytes of each packet
        Hpcc = "hpcc" => ();
    }
    Nscc(nscc::NsccControl) {
        /// NSCC as htsim has it: unordered delivery, for sprayed packets, with and without trimming (switch.queue)
        Nscc = "nscc" => ();
    }
}

impl Controller {
    /// Begins a plug-in: the flow of its queue pair, and what decides its random numbers.
    pub(crate) fn start_plugin(&mut self, flow: u32, seed: u64, now: Time) {
        if let Controller::Plugin(control) = self {
            control.start(flow, seed, now);
        }
    }

    /// Bytes that may be in flight: the control's own window, or that beside its rate.
    pub(crate) fn window(&self, settings: &QueuePairSettings) -> Option<u64> {
        self.own_window().or_else(|| settings.window.bytes(self.rate(), settings.line))
    }
}

/// What controls follow from besides the queue pair's settings: the network, and constants that a file has set.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct ControlParameters {
    /// Constants of DCQCN.
    pub dcqcn: DcqcnChanges,
    /// Additive steps of HPCC before the next multiplicative one.
    pub hpcc_max_stage: u32,
    /// N of the HPCC paper's additive increase; `None`: the form of the simulator.
    pub hpcc_flows: Option<u32>,
    /// Round trip of the longest path of the idle network.
    pub base_rtt: Span,
    /// Links on the path, or on the longest path of the network.
    pub links: u32,
    /// Switches trim packets that find no room.
    pub trims: bool,
    /// Unit of the telemetry.
    pub quantum: Quantum,
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

/// Packets have been acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledgement<'a> {
    pub(crate) now: Time,
    pub(crate) packets: u64,
    /// The first packet that is not acknowledged, and the next to send, times the MTU.
    pub(crate) acked: u64,
    pub(crate) next: u64,
    /// Payload of this side that is acknowledged, and that was sent at least once, since the queue pair began.
    pub(crate) acked_bytes: u64,
    pub(crate) sent_bytes: u64,
    /// Round-trip time of the last packet.
    pub(crate) rtt: Option<Span>,
    pub(crate) telemetry: &'a Telemetry,
}
