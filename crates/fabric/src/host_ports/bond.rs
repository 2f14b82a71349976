//! The hash policies of Linux's bonding driver (`drivers/net/bonding/bond_main.c`, 6.1, on little-endian hosts).
//!
//! Addresses and ports enter in network byte order, as they lie in memory, so a big-endian host would get other values.

use crate::records::FIRST_PART;
use crate::settings::HashPolicy;
use pauseframe_units::NodeId;

/// `EtherType` of IPv4.
const IPV4: u32 = 0x0800;
/// UDP port of `RoCEv2`.
pub const ROCE_PORT: u16 = 4791;
/// IP protocol numbers (IANA).
const IP_IN_IP: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// The addresses of a flow's packets in one direction, as captures show them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlowAddresses {
    /// The sending and the receiving host.
    pub hosts: [NodeId; 2],
    /// Source and destination port of TCP or UDP.
    pub ports: [u16; 2],
    /// IP protocol number.
    pub protocol: u8,
    /// Destination queue pair in the BTH of `RoCEv2`; 0 without one.
    pub destination_pair: u32,
    /// The IPv6 flow label of a queue pair; `None` for a socket, whose label is random.
    pub flow_label: Option<u32>,
}

/// The kinds of flows, as far as their headers differ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowKind {
    /// A TCP connection.
    Tcp,
    /// A queue pair of `RoCEv2`.
    QueuePair,
    /// UDP datagrams.
    Datagrams,
}

impl FlowAddresses {
    /// Those of the packets from `hosts[0]` to `hosts[1]` of a flow; `forward`: away from the host that opened it.
    pub fn of_flow(hosts: [NodeId; 2], flow: u32, forward: bool, kind: FlowKind) -> FlowAddresses {
        let (client, server) = tcp_ports(flow);
        let is_pair = kind == FlowKind::QueuePair;
        let pairs = if is_pair { queue_pair_numbers(flow) } else { [0; 2] };
        let ports = match (kind, forward) {
            (FlowKind::QueuePair, _) => [roce_source_port(pairs), ROCE_PORT],
            (_, true) => [client, server],
            (_, false) => [server, client],
        };
        FlowAddresses {
            hosts,
            ports,
            protocol: if kind == FlowKind::Tcp { TCP } else { UDP },
            destination_pair: pairs[usize::from(forward)],
            flow_label: is_pair.then(|| roce_flow_label(pairs)),
        }
    }

    /// Those of the outer header of a tunnel between two switches (RFC 2003).
    pub(crate) fn of_tunnel(switches: [NodeId; 2]) -> FlowAddresses {
        FlowAddresses {
            hosts: switches,
            ports: [0; 2],
            protocol: IP_IN_IP,
            destination_pair: 0,
            flow_label: Some(0),
        }
    }
}

/// Queue pair numbers that no reliable connection has: those of management packets (SMI, GSI) and of multicast (InfiniBand Architecture
/// Specification, 3.5; Linux: `IB_MULTICAST_QPN`).
const RESERVED_PAIRS: [u32; 3] = [0, 1, 0xff_ffff];
/// The pair in place of one with a reserved number. Its flow label is 0, as that of 0 and 1, so the first flow has the same paths as with these.
const INSTEAD_OF_RESERVED: [u32; 2] = [0xda_f0de, 0xda_f0df];

/// The numbers of a flow's queue pairs: at the host that opened it, and at the other. Those of flows with several are in the upper half.
pub fn queue_pair_numbers(flow: u32) -> [u32; 2] {
    let half = if flow < FIRST_PART { 0 } else { 0x80_0000 };
    let pair = [flow * 2, flow * 2 + 1].map(|number| number & 0xff_ffff | half);
    if pair.iter().any(|number| RESERVED_PAIRS.contains(number)) { INSTEAD_OF_RESERVED } else { pair }
}

/// Flow label of both directions of a queue pair (Linux: `rdma_calc_flow_label` in `ib_verbs.h`).
fn roce_flow_label([local, remote]: [u32; 2]) -> u32 {
    let product = u64::from(local) * u64::from(remote);
    let product = product ^ (product >> 20);
    ((product ^ (product >> 40)) & 0xf_ffff) as u32
}

/// UDP source port of both directions of a queue pair (Linux: `rdma_flow_label_to_udp_sport` in `ib_verbs.h`).
pub fn roce_source_port(pair: [u32; 2]) -> u16 {
    let label = roce_flow_label(pair);
    0xc000 | ((label & 0x3fff) ^ (label >> 14)) as u16
}

/// Ports of the side that opened a connection (ephemeral: RFC 6335 §6) and of the other side; the first
/// 270 million flows have different pairs. Subflows have even ports first, as `connect` chooses them (Linux: `__inet_hash_connect`): hashes of bonds drop the
/// last bit for that reason.
pub fn tcp_ports(flow: u32) -> (u16, u16) {
    if let Some(subflow) = flow.checked_sub(FIRST_PART) {
        let client = 49_152 + ((subflow << 1) & 0x3fff | (subflow >> 13) & 1);
        return (client as u16, 36_384 + ((subflow >> 14) & 0x1fff) as u16);
    }
    let client = 49_152 + (flow & 0x3fff);
    let server = 20_000 + ((flow >> 14) & 0x3fff);
    (client as u16, server as u16)
}

/// The IPv4 address of a host.
pub fn ipv4(node: NodeId) -> [u8; 4] {
    let [_, a, b, c] = node.0.to_be_bytes();
    [10, a, b, c]
}

/// The MAC address of a host.
pub fn mac(node: NodeId) -> [u8; 6] {
    let [_, a, b, c] = node.0.to_be_bytes();
    [0x02, 0, 0, a, b, c]
}

impl HashPolicy {
    /// The hash of packets with these addresses (`bond_xmit_hash`); the port is its remainder by the number of ports.
    pub fn hash(self, addresses: &FlowAddresses) -> u32 {
        let [source, destination] = addresses.hosts;
        self.hash_of_fields(
            [mac(source)[5], mac(destination)[5]],
            [ipv4(source), ipv4(destination)],
            addresses.ports,
        )
    }

    fn hash_of_fields(self, macs: [u8; 2], addresses: [[u8; 4]; 2], ports: [u16; 2]) -> u32 {
        let layer2 = IPV4 ^ u32::from(macs[0] ^ macs[1]);
        let with_addresses = |hash: u32| {
            let hash = hash ^ u32::from_le_bytes(addresses[0]) ^ u32::from_le_bytes(addresses[1]);
            let hash = hash ^ (hash >> 16);
            hash ^ (hash >> 8)
        };
        let [[a, b], [c, d]] = ports.map(u16::to_be_bytes);
        match self {
            HashPolicy::Layer2 => layer2,
            HashPolicy::Layer23 => with_addresses(layer2),
            // Clients use even ports, so the lowest bit would choose nothing.
            HashPolicy::Layer34 => with_addresses(u32::from_le_bytes([a, b, c, d])) >> 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_ports_of_queue_pairs_are_those_of_the_kernel() {
        let ports = [[420, 434], [1024, 1024], [17, 18]].map(roce_source_port);
        assert_eq!(ports, [51_203, 49_153, 49_458]);
        assert_eq!(roce_flow_label([420, 434]), 182_280);
        // 64 consecutive queue pairs to another 64: all ports differ.
        let ports: std::collections::BTreeSet<u16> =
            (0..64).map(|pair| roce_source_port([1000 + pair, 2000 + pair])).collect();
        assert_eq!(ports.len(), 64);
    }

    /// The first flow, those after 2^23 flows, whose numbers begin again, and the last queue pair of flows with several.
    #[test]
    fn no_queue_pair_has_a_reserved_number() {
        for flow in [0, 1, (1 << 23) - 1, 1 << 23, FIRST_PART, FIRST_PART + (1 << 22) - 1] {
            let pair = queue_pair_numbers(flow);
            assert!(pair.iter().all(|number| (2..0xff_ffff).contains(number)), "{flow}: {pair:?}");
            assert_eq!(pair[1], pair[0] + 1);
        }
        assert_eq!(queue_pair_numbers(1), [2, 3]);
        assert_eq!(roce_flow_label(queue_pair_numbers(0)), roce_flow_label([0, 1]));
    }

    /// Vectors computed from the driver's source for 10.0.0.1 -> 10.0.0.2 and MAC addresses that end in 01 and 02.
    #[test]
    fn hashes_are_those_of_the_kernel() {
        let hash =
            |policy: HashPolicy, ports| policy.hash_of_fields([1, 2], [[10, 0, 0, 1], [10, 0, 0, 2]], ports);
        assert_eq!(hash(HashPolicy::Layer2, [0, 0]), 0x0803);
        assert_eq!(hash(HashPolicy::Layer23, [0, 0]), 0x0303_0b08);
        assert_eq!(hash(HashPolicy::Layer34, [50_000, 5_001]), 0x454c_e485);
        assert_eq!(hash(HashPolicy::Layer34, [50_002, 5_001]), 0x454c_e584);
        assert_eq!(hash(HashPolicy::Layer34, [49_152, ROCE_PORT]), 0x5a53_5333);
        let ports = |policy, ports| [2, 4].map(|count| hash(policy, ports) % count);
        assert_eq!(ports(HashPolicy::Layer2, [0, 0]), [1, 3]);
        assert_eq!(ports(HashPolicy::Layer23, [0, 0]), [0, 0]);
        assert_eq!(ports(HashPolicy::Layer34, [50_000, 5_001]), [1, 1]);
        assert_eq!(ports(HashPolicy::Layer34, [50_002, 5_001]), [0, 0]);
        assert_eq!(ports(HashPolicy::Layer34, [49_152, ROCE_PORT]), [1, 3]);
    }
}
