//! State of recovery refinements, in one box that a basic connection does not have. It is independent of the sender, whose parts are in `evidence.rs`
//! (an ACK), `reduction.rs` (the window), `timer.rs` and `turns.rs` (each transmission).

use super::delivery::NewlyDelivered;
use super::frto::FrtoState;
use super::idle::CwndUsageHistory;
use super::pacing::Pacer;
use super::prr::Prr;
use super::rack::Rack;
use super::rate::DeliveryRate;
use super::tlp::TailLossProbe;
use super::undo::{UndoState, dsack_range};
use crate::config::TcpConfig;
use crate::mechanisms::Mechanism;
use crate::scoreboard::Scoreboard;
use crate::segment::SackBlocks;
use crate::sequence::SequenceSpace;
use crate::small_queue::TcpSmallQueue;
use crate::super_packets::SuperPacketState;
use crate::writer::SocketWriter;
use pauseframe_units::{Span, Time};

/// Purposes of the timer other than the retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NonRtoTimerPurpose {
    /// Tail loss probe.
    Probe,
    /// End of RACK's reordering window.
    Reordering,
    /// The pacer or the host admits the next segment; the previous purpose returns afterwards.
    Pacing,
}

/// State of the enabled refinements.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecoveryRefinementState {
    pub(super) delivery: NewlyDelivered,
    /// Windows count packets, so without SACK duplicate ACKs stand for delivered ones (`new_reno.rs`).
    pub(super) counts_duplicates: bool,
    /// Duplicate ACKs that show a loss without SACK; reordering raises it (Linux `reordering`).
    pub(super) reordering: u32,
    pub(super) rack: Rack,
    pub(super) prr: Prr,
    pub(super) probe: TailLossProbe,
    /// Purpose and expiry of the timer, if it is not the retransmission timeout.
    pub(super) special: Option<(NonRtoTimerPurpose, Time)>,
    /// The timer as it was before the pacer took it.
    pub(super) behind_pacing: (Time, Option<(NonRtoTimerPurpose, Time)>),
    /// Purpose of the timer before the current ACK.
    pub(super) was_special: Option<NonRtoTimerPurpose>,
    pub(super) undo: UndoState,
    pub(super) frto: FrtoState,
    pub(super) usage: CwndUsageHistory,
    pub(super) pacer: Pacer,
    /// Delivery samples, if the congestion control sets the window from them.
    pub(super) rate: Option<Box<DeliveryRate>>,
    pub(crate) writer: Option<Box<SocketWriter>>,
    pub(crate) small_queue: TcpSmallQueue,
    pub(crate) supers: Option<Box<SuperPacketState>>,
    /// When the first of the consecutive timeouts expired (Linux `retrans_stamp`).
    pub(crate) first_timeout: Time,
    /// Tail loss probes sent.
    pub(crate) loss_probes: u32,
    /// Reductions undone.
    pub(crate) undone: u32,
}

impl RecoveryRefinementState {
    /// The state that `config` needs.
    pub(crate) fn new(config: &TcpConfig) -> Option<Box<RecoveryRefinementState>> {
        RecoveryRefinementState::is_needed(config).then(|| {
            let (writer, supers) = (SocketWriter::new(config), SuperPacketState::new(config));
            let counts_duplicates =
                config.recovery.count_packets && config.is_enabled(Mechanism::DuplicatesDelivered);
            let reordering = config.dup_thresh;
            let rate = config.congestion_control.owns_window().then(Box::default);
            Box::new(RecoveryRefinementState {
                counts_duplicates,
                reordering,
                rate,
                writer,
                supers,
                ..RecoveryRefinementState::default()
            })
        })
    }

    /// Whether any refinement is on.
    pub(crate) fn is_needed(config: &TcpConfig) -> bool {
        !config.recovery.has_no_refinements()
            || SocketWriter::new(config).is_some()
            || config.offload.tso > 0
            || config.small_queues
            || config.congestion_control.owns_window()
    }

    /// The smallest round-trip time so far; zero: none yet.
    pub(crate) fn min_rtt(&self) -> Span {
        self.delivery.min_rtt
    }

    /// Takes in a D-SACK block, if `blocks` begin with one; `retransmits`: segments ever sent again.
    pub(super) fn process_dsack(
        &mut self,
        blocks: &SackBlocks,
        space: SequenceSpace,
        snd_una: u64,
        mss: u64,
        retransmits: u32,
        scoreboard: &Scoreboard,
    ) {
        let Some((start, end)) = dsack_range(blocks, space, snd_una) else { return };
        let segments = (end - start).unsigned_abs().div_ceil(mss).min(u64::from(u32::MAX)) as u32;
        let [start, end] = [start, end].map(|offset| snd_una.saturating_add_signed(offset));
        if !self.undo.count_dsack(segments, retransmits) {
            return;
        }
        if self.probe.has_repeated(end) {
            self.delivery.probe_dsack = true;
        } else {
            self.delivery.dsack = true;
        }
        self.delivery.bytes += u64::from(segments) * mss;
        // Above the ACK only segments sent again count (`tcp_sacktag_one`); what is below is no longer known (`tcp_check_dsack`).
        let needless = if end > snd_una { scoreboard.count_resent(start, end) } else { segments };
        self.undo.count_needless(needless, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::RecoveryConfig;

    /// A basic connection has no box, so that a hundred thousand idle ones fit in memory.
    #[test]
    fn a_basic_connection_has_no_refinements() {
        assert!(RecoveryRefinementState::new(&TcpConfig::PLAIN).is_none());
        let config = TcpConfig { recovery: RecoveryConfig::LINUX, ..TcpConfig::PLAIN };
        assert!(RecoveryRefinementState::new(&config).is_some());
    }

    /// `tcp_check_dsack` takes a report of data below the ACK at its word, because the scoreboard has forgotten them. Above it, `tcp_sacktag_one`
    /// counts the segments that were sent again: none here.
    #[test]
    fn reports_below_the_ack_count_without_the_scoreboard() {
        let config = TcpConfig { recovery: RecoveryConfig::LINUX, ..TcpConfig::PLAIN };
        let space = SequenceSpace::after_syn(99);
        for (end, is_needless) in [(4000, true), (5000, true), (6000, false)] {
            let mut refined = RecoveryRefinementState::new(&config).expect("refinements");
            refined.undo.begin_reduction(0, Some((10_000, 8000)), 0);
            refined.undo.count_retransmission();
            let block = (space.wire_seq(end - 1000), space.wire_seq(end));
            let blocks = SackBlocks { count: 2, blocks: [block, block, (0, 0), (0, 0)] };
            refined.process_dsack(&blocks, space, 5000, 1000, 1, &Scoreboard::default());
            assert_eq!(refined.undo.were_all_needless(), is_needless, "{end}");
            assert!(refined.delivery.dsack && refined.delivery.bytes == 1000);
        }
    }
}
