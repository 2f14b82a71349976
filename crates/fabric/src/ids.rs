//! Typed indices, one type per kind of object, so that a slot cannot be used as a host.

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

/// Adds a `NONE` value, because an `Option` would double the size.
macro_rules! none {
    ($($name:ident)*) => { $(
        impl $name {
            /// No index.
            pub(crate) const NONE: $name = $name(u32::MAX);
        }
    )* };
}

id!(
    /// Index of a host.
    HostId
);
id!(
    /// Index of a switch.
    SwitchId
);
id!(
    /// Index of a (port, class) pair.
    SlotId
);
id!(
    /// Index of a packet in the pool of its partition.
    PacketId
);
id!(
    /// Index of an endpoint (TCP or datagram) in its partition.
    EndpointId
);
id!(
    /// Index of a NIC queue (flow or destination, and class) of its host.
    NicQueueId
);
none!(SlotId PacketId EndpointId);

impl PacketId {
    /// The index, or `None` for `NONE`.
    #[inline(always)]
    pub(crate) fn to_option(self) -> Option<PacketId> {
        (self != PacketId::NONE).then_some(self)
    }
}

impl EndpointId {
    /// The index, or `None` for `NONE`.
    #[inline(always)]
    pub(crate) fn to_option(self) -> Option<EndpointId> {
        (self != EndpointId::NONE).then_some(self)
    }
}

/// A switch or a host in one word: the owner of a port, or the end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PackedNodeId(u32);

/// No owner.
impl Default for PackedNodeId {
    fn default() -> PackedNodeId {
        PackedNodeId(u32::MAX)
    }
}

/// A switch or a host as an enum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SwitchOrHost {
    Switch(SwitchId),
    Host(HostId),
}

impl PackedNodeId {
    /// Set for hosts.
    const HOST_BIT: u32 = 1 << 31;

    pub(crate) fn new(node: SwitchOrHost) -> PackedNodeId {
        match node {
            SwitchOrHost::Switch(switch) => PackedNodeId(switch.0),
            SwitchOrHost::Host(host) => PackedNodeId(host.0 | PackedNodeId::HOST_BIT),
        }
    }

    #[inline(always)]
    pub(crate) fn unpack(self) -> SwitchOrHost {
        if self.is_switch() {
            SwitchOrHost::Switch(SwitchId(self.0))
        } else {
            SwitchOrHost::Host(HostId(self.0 & !PackedNodeId::HOST_BIT))
        }
    }

    #[inline(always)]
    pub(crate) fn is_switch(self) -> bool {
        self.0 & PackedNodeId::HOST_BIT == 0
    }

    /// The switch, if it is one.
    #[inline(always)]
    pub(crate) fn as_switch(self) -> Option<SwitchId> {
        self.is_switch().then_some(SwitchId(self.0))
    }

    /// The host, if it is one.
    #[inline(always)]
    pub(crate) fn as_host(self) -> Option<HostId> {
        (!self.is_switch()).then_some(HostId(self.0 & !PackedNodeId::HOST_BIT))
    }
}
