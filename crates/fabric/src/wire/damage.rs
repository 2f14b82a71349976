//! Wires that damage frames.

use super::counters::Amount;
use crate::context::Context;
use crate::frame::{Content, PacketId};
use pauseframe_engine::{Rng, stream};
use pauseframe_units::{PortId, Time};

/// How often frames are damaged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ErrorModel {
    /// Each bit of a frame with this probability, independently.
    BitErrors(f64),
    /// Each frame with this probability.
    FrameErrors(f64),
}

impl ErrorModel {
    /// The probability that a frame of `bytes` is damaged.
    fn of_frame(self, bytes: u32) -> f64 {
        match self {
            // 1 - (1 - p)^bits, exact for the smallest p.
            ErrorModel::BitErrors(p) => -libm::expm1(f64::from(bytes) * 8.0 * libm::log1p(-p)),
            ErrorModel::FrameErrors(p) => p,
        }
    }
}

/// What is known of bad wires, and of those that are down.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    /// By port: when the frame that was cut off would have been over; empty without failures.
    pub(super) cut: Vec<Time>,
    /// By port; empty if no wire is bad.
    pub(super) of_port: Vec<Option<ErroneousLink>>,
    /// By port, pause frames not counted; empty without failures or bad wires.
    pub(super) lost_on_wire: Vec<Amount>,
}

/// How often the frames on a wire are damaged, up to when, and the draws.
#[derive(Clone, Debug)]
pub(super) struct ErroneousLink {
    model: ErrorModel,
    stop: Time,
    rng: Rng,
}

impl Errors {
    /// What this port has sent that was lost before it came to a node of this partition.
    pub(crate) fn lost_on_wire(&self, port: PortId) -> Amount {
        self.lost_on_wire.get(port.0 as usize).copied().unwrap_or_default()
    }

    /// Whether the wire from this port is a bad one.
    pub(crate) fn can_damage(&self, port: PortId) -> bool {
        self.of_port.get(port.0 as usize).is_some_and(Option::is_some)
    }

    /// Damages what this port sends before `stop`.
    ///
    /// # Panics
    /// If a probability is outside 0 to 1.
    pub(crate) fn corrupt(&mut self, port: PortId, model: ErrorModel, stop: Time, ctx: &mut Context) {
        let (ErrorModel::BitErrors(p) | ErrorModel::FrameErrors(p)) = model;
        assert!((0.0..=1.0).contains(&p), "{p} is no probability");
        self.of_port.resize(ctx.plan.topology.port_count(), None);
        self.lost_on_wire.resize(ctx.plan.topology.port_count(), Amount::default());
        let rng = stream(ctx.settings.seed, "corruption", u64::from(port.0));
        self.of_port[port.0 as usize] = Some(ErroneousLink { model, stop, rng });
        ctx.expect_losses();
    }
}

impl ErroneousLink {
    /// Whether a frame of `bytes` that goes on the wire arrives damaged: drawn here.
    pub(super) fn damages(&mut self, bytes: u32, now: Time) -> bool {
        self.stop > now && self.rng.unit() < self.model.of_frame(bytes)
    }
}

/// A frame arrives damaged.
pub(super) fn damage(index: PacketId, ctx: &mut Context) {
    let packet = ctx.packets[index];
    ctx.report_lost(index);
    let was_pause = if let Content::Pause { classes, .. } = packet.content {
        ctx.packets[index].class = classes.trailing_zeros() as u8;
        true
    } else {
        false
    };
    ctx.packets.mark_damaged(index, Content::Damaged { was_pause });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_errors_add_up_to_frame_errors() {
        // 1 - (1 - 1e-3)^8 to 13 digits, and a ratio far below the resolution of 1 - p.
        assert!((ErrorModel::BitErrors(1e-3).of_frame(1) - 0.007_972_055_930_056).abs() < 1e-15);
        let small = ErrorModel::BitErrors(1e-18).of_frame(1500);
        assert!((small / 1.2e-14 - 1.0).abs() < 1e-9, "{small}");
        assert!((ErrorModel::BitErrors(1.0).of_frame(64) - 1.0).abs() < f64::EPSILON);
        assert!((ErrorModel::FrameErrors(0.25).of_frame(9000) - 0.25).abs() < f64::EPSILON);
    }
}
