//! State of what goes beyond the basic algorithms, in one box that a plain connection does not have. It knows no sender: where
//! it meets the ordinary path stands in `evidence.rs` (an ACK), `reduction.rs` (the window), `timer.rs` and `turns.rs` (each
//! transmission).

use super::delivery::Delivery;
use super::frto::Frto;
use super::idle::Usage;
use super::pacing::Pacer;
use super::prr::Prr;
use super::rack::Rack;
use super::tlp::Probe;
use super::undo::{Undo, duplicate_of};
use crate::config::Config;
use crate::segment::SackBlocks;
use crate::sequence::SequenceSpace;
use crate::small_queue::SmallQueue;
use crate::super_packets::SuperPackets;
use crate::writer::Writer;
use pauseframe_units::{Span, Time};

/// What else than the retransmission timeout the timer can stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Special {
    /// Send a tail loss probe.
    Probe,
    /// RACK's reordering window ends.
    Reordering,
    /// The pacer, or room in the host, lets the next segment through; what the timer stood for before comes back then.
    Pacing,
}

/// State of the refinements that are on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refined {
    pub(super) delivery: Delivery,
    pub(super) rack: Rack,
    pub(super) prr: Prr,
    pub(super) probe: Probe,
    /// What the timer stands for, and when it was set to expire.
    pub(super) special: Option<(Special, Time)>,
    /// The timer as it was before the pacer took it.
    pub(super) behind_pacing: (Time, Option<(Special, Time)>),
    /// What the timer stood for before the ACK that is being worked on.
    pub(super) was_special: Option<Special>,
    pub(super) undo: Undo,
    pub(super) frto: Frto,
    pub(super) usage: Usage,
    pub(super) pacer: Pacer,
    pub(crate) writer: Option<Box<Writer>>,
    pub(crate) small_queue: SmallQueue,
    pub(crate) supers: Option<Box<SuperPackets>>,
    /// Tail loss probes sent.
    pub(crate) loss_probes: u32,
    /// Reductions taken back.
    pub(crate) undone: u32,
}

impl Refined {
    /// The state that `config` needs.
    pub(crate) fn new(config: &Config) -> Option<Box<Refined>> {
        Refined::is_needed(config).then(|| {
            let (writer, supers) = (Writer::new(config), SuperPackets::new(config));
            Box::new(Refined { writer, supers, ..Refined::default() })
        })
    }

    /// Whether anything of it is on.
    pub(crate) fn is_needed(config: &Config) -> bool {
        !config.recovery.is_plain()
            || Writer::new(config).is_some()
            || config.offload.tso > 0
            || config.small_queues
    }

    /// The smallest round-trip time so far; zero: none yet.
    pub(crate) fn min_rtt(&self) -> Span {
        self.delivery.min_rtt
    }

    /// Takes in a D-SACK block, if `blocks` begin with one; `retransmits`: segments ever sent again.
    pub(super) fn on_d_sack(
        &mut self,
        blocks: &SackBlocks,
        space: SequenceSpace,
        snd_una: u64,
        mss: u64,
        retransmits: u32,
    ) {
        let Some((start, end)) = duplicate_of(blocks, space, snd_una) else { return };
        let segments = (end - start).unsigned_abs().div_ceil(mss).min(u64::from(u32::MAX)) as u32;
        let end = snd_una.saturating_add_signed(end);
        if !self.undo.count_report(segments, retransmits) {
            return;
        }
        if self.probe.is_for(end) {
            self.delivery.probe_dsack = true;
        } else {
            self.delivery.dsack = true;
        }
        self.delivery.bytes += u64::from(segments) * mss;
        self.undo.count_needless(segments, end, snd_una);
    }
}
