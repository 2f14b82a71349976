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
    /// The place of a packet in the pool of its partition.
    PacketId
);
id!(
    /// The place of a connection end, or of one end of a flow of datagrams, in its partition.
    EndpointId
);
id!(
    /// The NIC queue for a destination and class, among those of its host.
    NicQueueId
);
none!(SlotId PacketId EndpointId);

impl PacketId {
    /// Itself, unless it is none.
    #[inline(always)]
    pub(crate) fn known(self) -> Option<PacketId> {
        (self != PacketId::NONE).then_some(self)
    }
}

impl EndpointId {
    /// Itself, unless it is none.
    #[inline(always)]
    pub(crate) fn known(self) -> Option<EndpointId> {
        (self != EndpointId::NONE).then_some(self)
    }
}

/// A switch or a host, in one word: whose something is, or where it leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner(u32);

/// Nobody's.
impl Default for Owner {
    fn default() -> Owner {
        Owner(u32::MAX)
    }
}

/// The same, told apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    Switch(SwitchId),
    Host(HostId),
}

impl Owner {
    /// Set for hosts.
    const HOST: u32 = 1 << 31;

    pub(crate) fn new(node: Node) -> Owner {
        match node {
            Node::Switch(switch) => Owner(switch.0),
            Node::Host(host) => Owner(host.0 | Owner::HOST),
        }
    }

    #[inline(always)]
    pub(crate) fn node(self) -> Node {
        if self.is_switch() {
            Node::Switch(SwitchId(self.0))
        } else {
            Node::Host(HostId(self.0 & !Owner::HOST))
        }
    }

    #[inline(always)]
    pub(crate) fn is_switch(self) -> bool {
        self.0 & Owner::HOST == 0
    }

    /// The switch that it is, if it is one.
    #[inline(always)]
    pub(crate) fn switch(self) -> Option<SwitchId> {
        self.is_switch().then_some(SwitchId(self.0))
    }

    /// The host that it is, if it is one.
    #[inline(always)]
    pub(crate) fn host(self) -> Option<HostId> {
        (!self.is_switch()).then_some(HostId(self.0 & !Owner::HOST))
    }
}
