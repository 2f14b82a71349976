//! What leaves that measure their paths (`ConWeave`) write on packets, stored outside of packets so that a frame stays one cache line.

use super::{PacketId, PacketPool};
use pauseframe_units::{Id, NodeId, PortId, Time};

/// Switches on a path from leaf to leaf that choose a port, the first leaf included.
pub(crate) const PATH_PORTS_MAX: usize = 4;

/// The ports of a path from leaf to leaf, filled up with [`PortId::NONE`].
pub(crate) type LeafPath = [PortId; PATH_PORTS_MAX];

/// What a packet asks of the leaf of its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PathMark {
    /// Nothing.
    None,
    /// A reply, from which the first leaf takes the round-trip time.
    Request,
    /// It is the last packet on the old path.
    Tail,
}

/// What the first leaf writes on a packet; in a control frame, what the last leaf returns of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathTag {
    pub(crate) path: LeafPath,
    /// Start of the epoch, which also identifies it.
    pub(crate) epoch: Time,
    /// When the packet left the first leaf.
    pub(crate) sent: Time,
    /// When the last packet of the old path left the first leaf; only later packets have it.
    pub(crate) tail: Time,
    /// The sender.
    pub(crate) from: NodeId,
    pub(crate) mark: PathMark,
    /// It comes after the tail, on the new path.
    pub(crate) rerouted: bool,
}

impl PathTag {
    const EMPTY: PathTag = PathTag {
        path: [PortId::NONE; PATH_PORTS_MAX],
        epoch: Time::ZERO,
        sent: Time::ZERO,
        tail: Time::ZERO,
        from: NodeId(u32::MAX),
        mark: PathMark::None,
        rerouted: false,
    };
}

impl PacketPool {
    /// The tag of a packet that has one.
    pub(crate) fn path_tag(&self, index: PacketId) -> PathTag {
        self.path_tags.get(index.index()).copied().unwrap_or(PathTag::EMPTY)
    }

    pub(crate) fn set_path_tag(&mut self, index: PacketId, tag: PathTag) {
        if self.path_tags.len() <= index.index() {
            self.path_tags.resize(index.index() + 1, PathTag::EMPTY);
        }
        self.path_tags[index.index()] = tag;
    }

    /// Two packets have changed places.
    pub(crate) fn swap_path_tags(&mut self, one: PacketId, other: PacketId) {
        if !self.path_tags.is_empty() {
            let tags = [self.path_tag(one), self.path_tag(other)];
            self.set_path_tag(one, tags[1]);
            self.set_path_tag(other, tags[0]);
        }
    }
}
