//! Links that damage frames.

use super::counters::PacketsAndBytes;
use crate::context::Context;
use crate::frame::{DamagedFrame, FrameContent, PacketId};
use pauseframe_engine::{Rng, random_stream};
use pauseframe_units::{PortId, Time};
use std::ops::Range;

/// How often frames are damaged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ErrorModel {
    /// Each bit of a frame with this probability, independently.
    BitErrors(f64),
    /// Each frame with this probability.
    FrameErrors(f64),
    /// Each frame of more bytes without its tag, as at a port with a smaller MTU.
    LargerThan(u32),
}

impl ErrorModel {
    /// The probability that a frame of `bytes`, of which `tag` are its tag, is damaged.
    fn error_probability(self, bytes: u32, tag: u32) -> f64 {
        match self {
            // 1 - (1 - p)^bits, exact for the smallest p.
            ErrorModel::BitErrors(p) => -libm::expm1(f64::from(bytes) * 8.0 * libm::log1p(-p)),
            ErrorModel::FrameErrors(p) => p,
            ErrorModel::LargerThan(limit) => f64::from(u8::from(bytes - tag > limit)),
        }
    }
}

/// State of links that damage frames or are down.
#[derive(Debug, Default)]
pub(crate) struct LinkErrorStates {
    /// By port: when the transmission that a failure cut off would have ended; empty without failures.
    pub(super) cut: Vec<Time>,
    /// By port; empty if no link damages frames.
    pub(super) of_port: Vec<Option<ErroneousLink>>,
    /// Packets lost on the wire, by port, without pause frames; empty without failures or errors.
    pub(super) lost_on_wire: Vec<PacketsAndBytes>,
}

/// Error models of a link and their times, times when it damages every frame, and a random generator.
#[derive(Clone, Debug)]
pub(super) struct ErroneousLink {
    models: Vec<(ErrorModel, Range<Time>)>,
    silent: Vec<Range<Time>>,
    rng: Rng,
}

impl LinkErrorStates {
    /// Packets sent by this port that were lost on the wire to a node of this partition.
    pub(crate) fn lost_on_wire(&self, port: PortId) -> PacketsAndBytes {
        self.lost_on_wire.get(port.0 as usize).copied().unwrap_or_default()
    }

    /// Whether the link from this port damages frames.
    pub(crate) fn can_damage_frames(&self, port: PortId) -> bool {
        self.of_port.get(port.0 as usize).is_some_and(Option::is_some)
    }

    /// Damages frames that this port sends during `time`, beside the models that it has.
    ///
    /// # Panics
    /// If a probability is outside 0 to 1.
    pub(crate) fn add_error_model(
        &mut self,
        port: PortId,
        model: ErrorModel,
        time: Range<Time>,
        ctx: &mut Context,
    ) {
        if let ErrorModel::BitErrors(p) | ErrorModel::FrameErrors(p) = model {
            assert!((0.0..=1.0).contains(&p), "{p} is no probability");
        }
        self.erroneous_link(port, ctx).models.push((model, time));
    }

    /// Damages every frame of this port that is on the wire during `time`.
    pub(crate) fn silence(&mut self, port: PortId, time: Range<Time>, ctx: &mut Context) {
        self.erroneous_link(port, ctx).silent.push(time);
    }

    fn erroneous_link(&mut self, port: PortId, ctx: &mut Context) -> &mut ErroneousLink {
        self.of_port.resize(ctx.plan.topology.port_count(), None);
        self.lost_on_wire.resize(ctx.plan.topology.port_count(), PacketsAndBytes::default());
        ctx.allow_lossless_drops();
        let rng = random_stream(ctx.settings.seed, "corruption", u64::from(port.0));
        self.of_port[port.0 as usize].get_or_insert(ErroneousLink {
            models: Vec::new(),
            silent: Vec::new(),
            rng,
        })
    }
}

impl ErroneousLink {
    /// Draws whether a frame of `bytes`, of which `tag` are its tag, is damaged while it is `on_wire`. A model works on frames that begin in its time,
    /// a silent failure on all that are on the wire in any part of its time.
    pub(super) fn draw_damage(&mut self, bytes: u32, tag: u32, on_wire: Range<Time>) -> bool {
        if self.silent.iter().any(|time| time.start < on_wire.end && on_wire.start < time.end) {
            return true;
        }
        let at_work = self.models.iter().filter(|(_, time)| time.contains(&on_wire.start));
        let mut ratios = at_work.map(|(model, _)| model.error_probability(bytes, tag));
        ratios.any(|ratio| self.rng.uniform_unit() < ratio)
    }
}

/// Marks a frame as damaged.
pub(super) fn mark_damaged(index: PacketId, ctx: &mut Context) {
    let packet = ctx.packets[index];
    let was = match packet.content {
        FrameContent::Pause { classes, .. } => {
            ctx.packets[index].class = classes.trailing_zeros() as u8;
            DamagedFrame::Pause
        }
        FrameContent::Datagram { to, len, .. } => DamagedFrame::Datagram { to, len },
        _ => DamagedFrame::Other,
    };
    ctx.packets.replace_content(index, FrameContent::Damaged(was));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_errors_add_up_to_frame_errors() {
        // 1 - (1 - 1e-3)^8 to 13 digits, and a ratio far below the resolution of 1 - p.
        assert!((ErrorModel::BitErrors(1e-3).error_probability(1, 0) - 0.007_972_055_930_056).abs() < 1e-15);
        let small = ErrorModel::BitErrors(1e-18).error_probability(1500, 4);
        assert!((small / 1.2e-14 - 1.0).abs() < 1e-9, "{small}");
        assert!((ErrorModel::BitErrors(1.0).error_probability(64, 0) - 1.0).abs() < f64::EPSILON);
        assert!((ErrorModel::FrameErrors(0.25).error_probability(9000, 0) - 0.25).abs() < f64::EPSILON);
    }
}
