//! What has a number inside a network, each with a type of its own: a slot is no host, and a packet no place in a table.

use pauseframe_units::Id;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub(crate) struct $name(pub(crate) u32);

        impl Id for $name {
            #[inline(always)]
            fn from_index(index: usize) -> $name {
                $name(index as u32)
            }
            #[inline(always)]
            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

/// Those of which there may be none: an `Option` would make them twice as large.
macro_rules! none {
    ($($name:ident)*) => { $(
        impl $name {
            /// None of them.
            pub(crate) const NONE: $name = $name(u32::MAX);
        }
    )* };
}

id!(
    /// A host, among the hosts.
    HostId
);
id!(
    /// A switch, among the switches.
    SwitchId
);
id!(
    /// A class of a port.
    SlotId
);
id!(
    /// The place of a packet in the pool of its cell.
    PacketId
);
id!(
    /// The place of a connection end, or of one end of a flow of datagrams, in its cell.
    EndId
);
id!(
    /// The NIC queue for a destination and class, among those of its host.
    NicQueueId
);
none!(HostId SwitchId SlotId PacketId EndId);

impl PacketId {
    /// Itself, unless it is none.
    #[inline(always)]
    pub(crate) fn known(self) -> Option<PacketId> {
        (self != PacketId::NONE).then_some(self)
    }
}

impl EndId {
    /// Itself, unless it is none.
    #[inline(always)]
    pub(crate) fn known(self) -> Option<EndId> {
        (self != EndId::NONE).then_some(self)
    }
}
