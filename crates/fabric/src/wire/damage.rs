//! Wires that damage frames.

use crate::frame::{Content, PacketId};
use crate::near::Near;
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
    /// By port: how often its frames are damaged, and the draws; empty without any.
    of_port: Vec<Option<(ErrorModel, Rng)>>,
}

impl Errors {
    /// Damages what this port sends.
    ///
    /// # Panics
    /// If a probability is outside 0 to 1.
    pub(crate) fn corrupt(&mut self, port: PortId, model: ErrorModel, near: &mut Near) {
        let (ErrorModel::BitErrors(p) | ErrorModel::FrameErrors(p)) = model;
        assert!((0.0..=1.0).contains(&p), "{p} is no probability");
        self.of_port.resize(near.plan.topology.port_count(), None);
        let rng = stream(near.settings.seed, "corruption", u64::from(port.0));
        self.of_port[port.0 as usize] = Some((model, rng));
        near.hot.tapped = true;
        near.expect_losses();
    }

    /// A frame goes on the wire of `port`: whether it arrives whole is drawn here.
    pub(super) fn damage(&mut self, port: PortId, index: PacketId, near: &mut Near) {
        let packet = near.packets[index];
        let Some(Some((model, rng))) = self.of_port.get_mut(port.0 as usize) else { return };
        if rng.unit() >= model.of_frame(u32::from(packet.size)) {
            return;
        }
        near.give_up(index);
        let was_pause = if let Content::Pause { classes, .. } = packet.content {
            near.packets[index].class = classes.trailing_zeros() as u8;
            true
        } else {
            false
        };
        near.packets.spoil(index, Content::Damaged { was_pause });
    }
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
