//! Headroom: the bytes that can still arrive after a frame has pushed an ingress account over XOFF, term by term.
//!
//! The arithmetic of IEEE 802.1Qbb Annex O. In order: a full frame in service on the way back; a pause frame of each
//! of the other lossless classes and the pause frame itself; its propagation; the reaction time; a full frame that
//! started just before the pause took effect; the propagation of all that. Then the frame that crossed XOFF itself,
//! which is in the headroom but for one byte. Left out: what Annex O grants cables and PHYs beyond the link's delay.

use crate::buffer::Thresholds;
use crate::network::Network;
use crate::packet::NIL;
use crate::settings::Overhead;
use pauseframe_topology::Channel;
use pauseframe_units::{Bytes, PortId, Priority, Span};

/// The terms of the headroom of one link for one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headroom {
    /// A full frame in service on the way back.
    pub frame_ahead: Span,
    /// The pause frames: this one, and one of each other lossless class ahead of it.
    pub pause_frames: Span,
    /// Propagation of the pause frame.
    pub delay_back: Span,
    /// From its last bit to its effect.
    pub reaction: Span,
    /// A full frame that started just before that.
    pub last_frame: Span,
    /// Propagation of the data.
    pub delay: Span,
    /// What the link carries in the sum of these times, without preambles and gaps.
    pub arriving: Bytes,
    /// What the frame that crosses XOFF has beyond it: all but a byte.
    pub crossing: Bytes,
}

impl Headroom {
    /// For a link whose frames come by `data` and whose pause frames go by `back`. `max_frame`: largest frame without
    /// preamble and gap, bytes; `lossless`: number of lossless classes.
    pub fn of(
        data: Channel,
        back: Channel,
        max_frame: u32,
        overhead: Overhead,
        reaction: Span,
        lossless: u32,
    ) -> Headroom {
        let on_wire = |frame: u32| Bytes(u64::from(frame + overhead.gap));
        let mut terms = Headroom {
            frame_ahead: back.rate.serialise(on_wire(max_frame)),
            pause_frames: back.rate.serialise(on_wire(Overhead::PAUSE_FRAME)) * u64::from(lossless),
            delay_back: back.delay,
            reaction,
            last_frame: data.rate.serialise(on_wire(max_frame)),
            delay: data.delay,
            arriving: Bytes::ZERO,
            crossing: Bytes(u64::from(max_frame) - 1),
        };
        // Preambles and gaps do not reach the buffer; full frames waste the least on them.
        let wire = data.rate.bytes_in(terms.time()).0 + 1;
        terms.arriving = Bytes((wire * u64::from(max_frame)).div_ceil(u64::from(max_frame + overhead.gap)));
        terms
    }

    /// From the crossing of XOFF to the arrival of the last bit that was sent in spite of it.
    pub fn time(&self) -> Span {
        self.frame_ahead + self.pause_frames + self.delay_back + self.reaction + self.last_frame + self.delay
    }

    /// All of it.
    pub fn total(&self) -> Bytes {
        Bytes(self.arriving.0 + self.crossing.0)
    }
}

/// [`Headroom::total`] of [`Headroom::of`].
pub fn headroom(
    data: Channel,
    back: Channel,
    max_frame: u32,
    overhead: Overhead,
    reaction: Span,
    lossless: u32,
) -> Bytes {
    Headroom::of(data, back, max_frame, overhead, reaction, lossless).total()
}

/// What a switch keeps for what arrives by `port` at `priority`, and what that link needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadroomReport {
    /// The port that sends.
    pub port: PortId,
    /// A lossless priority.
    pub priority: Priority,
    /// What the link needs.
    pub needed: Headroom,
    /// XOFF, XON and the headroom that the switch gives.
    pub limits: Thresholds,
}

impl Network {
    /// The headroom of every lossless ingress of a switch: what its link needs, and what it has.
    pub fn headrooms(&self) -> Vec<HeadroomReport> {
        let to_switches = self.ports.ids().filter(|port| self.ports[*port].to_switch != NIL);
        let all =
            to_switches.flat_map(|port| (0..self.priorities.len() as u8).map(move |class| (port, class)));
        all.filter(|(_, class)| self.is_lossless(*class))
            .map(|(port, class)| {
                let (limits, needed) = self.thresholds_of(port, class);
                HeadroomReport { port, priority: self.priorities[usize::from(class)], needed, limits }
            })
            .collect()
    }
}
