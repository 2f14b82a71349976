//! Scale-up links: the GPUs of a server reach each other without the network (`NVLink` and `NVSwitch`).

use pauseframe_units::{BitRate, Bytes, NodeId, Span};
use std::collections::BTreeMap;

/// Servers whose hosts exchange data over separate links.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScaleUpSettings {
    /// Rate at which a host sends and, at the same time, receives.
    pub rate: BitRate,
    /// From one host to another, through the switch between them.
    pub latency: Span,
    /// Hosts by server.
    servers: Vec<Vec<NodeId>>,
    /// The server of a host, and its place there.
    places: BTreeMap<NodeId, (u32, u32)>,
}

impl ScaleUpSettings {
    /// Servers of these hosts.
    pub fn new(servers: Vec<Vec<NodeId>>, rate: BitRate, latency: Span) -> ScaleUpSettings {
        let place = |(server, hosts): (u32, &Vec<NodeId>)| {
            let places = (0..).zip(hosts);
            places.map(|(place, host)| (*host, (server, place))).collect::<Vec<_>>()
        };
        let places = (0..).zip(&servers).flat_map(place).collect();
        ScaleUpSettings { rate, latency, servers, places }
    }

    /// The hosts of each server.
    pub fn servers(&self) -> &[Vec<NodeId>] {
        &self.servers
    }

    /// The server of a host and its place there, which is also its rail.
    pub fn place_of_host(&self, host: NodeId) -> Option<(u32, u32)> {
        self.places.get(&host).copied()
    }

    /// The server that two different hosts share, if they do.
    pub fn shared_server(&self, one: NodeId, other: NodeId) -> Option<u32> {
        let (server, _) = self.place_of_host(one)?;
        (one != other && self.place_of_host(other)?.0 == server).then_some(server)
    }

    /// The time of `bytes` alone on the links.
    pub fn transfer_time(&self, bytes: u64) -> Span {
        self.rate.serialise(Bytes(bytes)).saturating_add(self.latency)
    }
}
