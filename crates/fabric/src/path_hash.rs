//! Which of several equal next hops a switch takes for a flow (ECMP).
//!
//! The ideal hash is independent at every switch. Hashes of real switches are not: two tiers that compute the same function of the same fields choose
//! in step, and only some of the equal links carry anything (polarization). A CRC is affine, so another seed changes it by a constant and does not
//! help where the number of links is a power of two; rotating it (offset) does.

mod siphash;

use crate::hash_index::{HashIndex, HashIndexSettings, owners_after_loss, thresholds};
use crate::host_ports::bond::{FlowAddresses, ipv4};
use pauseframe_engine::mix_bits;
use pauseframe_routing::{NextHops, ecmp_index};
use pauseframe_schema::choices;
use pauseframe_topology::Topology;
use pauseframe_units::{IndexVec, NodeId, PortId};
use std::sync::Arc;

choices! {
    /// The function by which switches choose among equal next hops
    pub enum HashFunction {
        /// Independent at every switch, and even
        Ideal = "ideal",
        /// MurmurHash3 of addresses and ports, as in the HPCC simulator and its forks
        Murmur3 = "murmur3",
        /// CRC-32 (IEEE 802.3)
        Crc32 = "crc32",
        /// The lower half of a CRC-32
        Crc32Lo = "crc32_lo",
        /// The upper half of a CRC-32
        Crc32Hi = "crc32_hi",
        /// CRC-16-CCITT
        CrcCcitt = "crc_ccitt",
        /// XOR of all 16-bit words
        Xor = "xor",
        /// SipHash of Linux's routers, with a random key; both directions of a flow have one hash
        Siphash = "siphash",
    }
}

choices! {
    /// The fields of a packet that enter the hash
    pub enum HashFields {
        /// Addresses, protocol and ports
        FiveTuple = "5-tuple",
        /// Addresses only, in a tunnel those of its ends: all flows of two hosts share a path
        Addresses = "addresses",
        /// Addresses only, in a tunnel those of the packet inside
        InnerAddresses = "inner-addresses",
        /// Addresses and IPv6 flow label
        AddressesAndFlowLabel = "addresses+flow_label",
        /// Addresses, protocol, ports, and the destination queue pair of RoCEv2
        FiveTupleAndPair = "5-tuple+dest_qp",
    }
}

impl HashFields {
    fn has_ports(self) -> bool {
        matches!(self, HashFields::FiveTuple | HashFields::FiveTupleAndPair)
    }

    /// Whether a switch hashes the outer header of a tunnel.
    pub(crate) fn are_outer(self) -> bool {
        matches!(self, HashFields::Addresses | HashFields::AddressesAndFlowLabel)
    }
}

choices! {
    /// The seeds of switches
    pub enum HashSeeds {
        /// Each switch its own
        Switch = "switch",
        /// One for each tier, as SONiC sets them by role
        Tier = "tier",
        /// The same for all
        Same = "same",
    }
}

impl HashFunction {
    /// Bits of its values.
    fn bits(self) -> u32 {
        match self {
            HashFunction::Ideal | HashFunction::Murmur3 | HashFunction::Crc32 => 32,
            HashFunction::Siphash => 31,
            HashFunction::Crc32Lo | HashFunction::Crc32Hi | HashFunction::CrcCcitt | HashFunction::Xor => 16,
        }
    }
}

/// How switches choose among equal next hops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathHashSettings {
    /// The function.
    pub function: HashFunction,
    /// The fields that enter it.
    pub fields: HashFields,
    /// Its seed.
    pub seeds: HashSeeds,
    /// By tier, from that of the hosts' switches on: bits by which the hash is rotated right.
    pub offsets: Vec<u32>,
    /// How it becomes a next hop.
    pub index: HashIndexSettings,
}

impl PathHashSettings {
    /// The ideal hash.
    pub const IDEAL: PathHashSettings = PathHashSettings {
        function: HashFunction::Ideal,
        fields: HashFields::FiveTuple,
        seeds: HashSeeds::Switch,
        offsets: Vec::new(),
        index: HashIndexSettings::MODULO,
    };

    /// Whether next hops are chosen evenly and independently.
    pub fn is_ideal(&self) -> bool {
        self.function == HashFunction::Ideal && self.index.index == HashIndex::Modulo
    }
}

/// Seeds of `SONiC`'s roles ToR, leaf, spine, fabric spine, upper spine (switch.json.j2 of docker-orchagent, sonic-buildimage 086b03b).
const SONIC_SEEDS: [u32; 5] = [0, 10, 25, 40, 50];

/// The hash of all switches.
#[derive(Debug)]
pub struct PathHash {
    settings: PathHashSettings,
    /// Master seed, for the ideal hash.
    seed: u64,
    /// By node: the number of its tier, 0 for the hosts' switches.
    tiers: IndexVec<NodeId, u32>,
    /// The routes of the whole graph, which fill tables of buckets.
    whole: Option<Arc<NextHops>>,
}

impl PathHash {
    /// The hash of the switches of `topology`.
    pub fn new(topology: &Topology, routes: &NextHops, settings: PathHashSettings, seed: u64) -> PathHash {
        let graph = routes.graph();
        let mut distance = vec![0; graph.len()];
        graph.distances_to_any(graph.attachments(), &mut distance, &mut Vec::new());
        let tier = |node| graph.number(node).map_or(0, |number| distance[number as usize]);
        PathHash { settings, seed, tiers: topology.nodes().ids().map(tier).collect(), whole: None }
    }

    /// The same with the routes of the whole graph, from which buckets know the next hops that are lost.
    #[must_use]
    pub fn with_whole_graph(self, routes: &Arc<NextHops>) -> PathHash {
        let is_resilient = self.settings.index.index == HashIndex::Resilient;
        PathHash { whole: is_resilient.then(|| Arc::clone(routes)), ..self }
    }

    /// Writes the egress ports of a flow's path into `out`: from the port of the node `ports[0]` to the node `ports[1]`.
    pub fn path(
        &self,
        graph: (&Topology, &NextHops),
        ports: [NodeId; 2],
        flow: u32,
        addresses: &FlowAddresses,
        out: &mut Vec<PortId>,
    ) {
        self.path_from(ports[0], graph, ports, flow, addresses, out);
    }

    /// The same from the node `start` on, which a packet from `ports[0]` has reached.
    pub(crate) fn path_from(
        &self,
        start: NodeId,
        (topology, routes): (&Topology, &NextHops),
        [from, to]: [NodeId; 2],
        flow: u32,
        addresses: &FlowAddresses,
        out: &mut Vec<PortId>,
    ) {
        let is_ideal = self.settings.function == HashFunction::Ideal;
        // The 5-tuple of a flow: its hosts, and ports that differ from flow to flow.
        let tuple = mix_bits(u64::from(from.0) << 32 | u64::from(to.0)) ^ mix_bits(u64::from(flow));
        let choose = |at: NodeId, count: usize| {
            if self.settings.is_ideal() {
                return ecmp_index(mix_bits(tuple), self.salt(at), count);
            }
            let hash = if is_ideal {
                (mix_bits(tuple ^ self.salt(at)) >> 32) as u32
            } else {
                self.hash(at, addresses)
            };
            self.index((topology, routes), [at, to], hash)
        };
        routes.walk(topology, start, to, choose, out);
    }

    fn salt(&self, switch: NodeId) -> u64 {
        mix_bits(self.seed ^ mix_bits(u64::from(switch.0)))
    }

    /// The number of the next hop from `ends[0]` to `ends[1]` of a packet with this entropy value, by the ideal hash; `key` is that of its endpoint.
    pub(crate) fn next_hop_index(
        &self,
        (topology, routes): (&Topology, &NextHops),
        ends: [NodeId; 2],
        key: u32,
        entropy: u8,
    ) -> usize {
        let (tuple, salt) = (mix_bits(u64::from(key) << 8 | u64::from(entropy)), self.salt(ends[0]));
        if self.settings.is_ideal() {
            return ecmp_index(tuple, salt, routes.ports(ends[0], ends[1]).len());
        }
        self.index((topology, routes), ends, (mix_bits(tuple ^ salt) >> 32) as u32)
    }

    /// The number of the next hop from `at` to `to` for a hash.
    fn index(&self, (topology, routes): (&Topology, &NextHops), [at, to]: [NodeId; 2], hash: u32) -> usize {
        let HashIndexSettings { index, weights, buckets } = self.settings.index;
        let among = routes.ports(at, to);
        match index {
            HashIndex::Modulo => hash as usize % among.len(),
            HashIndex::Threshold => {
                let weights = weights.of_hops(topology, routes, [at, to]);
                let place = hash << (u32::BITS - self.settings.function.bits()) >> 1;
                thresholds(&weights).partition_point(|bound| *bound < place).min(among.len() - 1)
            }
            HashIndex::Resilient => {
                let whole = self.whole.as_deref().unwrap_or(routes);
                let all = whole.ports(at, to);
                let left: Vec<usize> = (0..all.len()).filter(|hop| among.contains(&all[*hop])).collect();
                // On a detour, all next hops may be others than before.
                let (all, left, known) = if left.is_empty() {
                    (among, (0..among.len()).collect(), routes)
                } else {
                    (all, left, whole)
                };
                let weights = weights.of_hops(topology, known, [at, to]);
                let owners = owners_after_loss(&weights, &left, buckets);
                let port = all[owners[(hash % buckets) as usize]];
                among.iter().position(|other| *other == port).unwrap_or(0)
            }
        }
    }

    /// The hash that a switch computes.
    fn hash(&self, switch: NodeId, addresses: &FlowAddresses) -> u32 {
        let PathHashSettings { function, fields: of, seeds, .. } = self.settings;
        let tier = self.tiers[switch] as usize;
        let label = addresses.flow_label.unwrap_or_else(|| self.socket_label(addresses));
        if function == HashFunction::Siphash {
            return siphash::multipath_hash(of, addresses, label, self.boot_seed(switch));
        }
        let seed = match seeds {
            HashSeeds::Switch => switch.0,
            HashSeeds::Tier => SONIC_SEEDS[tier.min(SONIC_SEEDS.len() - 1)],
            HashSeeds::Same => 0,
        };
        let offset = self.settings.offsets.get(tier).copied().unwrap_or(0);
        hash(function, &fields(of, addresses, label), seed, offset)
    }

    /// The seed that a router draws when it boots; one for all if they have the same.
    fn boot_seed(&self, switch: NodeId) -> u32 {
        let is_own = self.settings.seeds == HashSeeds::Switch;
        (if is_own { self.salt(switch) } else { mix_bits(self.seed) } >> 32) as u32
    }

    /// The flow label of a socket, random for each side of a connection (Linux: `auto_flowlabels` 1, `sk_set_txhash`).
    fn socket_label(&self, addresses: &FlowAddresses) -> u32 {
        let [hosts, ports] = [addresses.hosts.map(|node| node.0), addresses.ports.map(u32::from)];
        let mix = |hash: u64, [from, to]: [u32; 2]| mix_bits(hash ^ (u64::from(from) << 32 | u64::from(to)));
        (mix(mix(mix_bits(self.seed), hosts), ports) >> 44) as u32
    }

    /// Whether switches hash the outer header of a tunnel.
    pub(crate) fn reads_outer_headers(&self) -> bool {
        self.settings.fields.are_outer()
    }
}

/// The fields in the order in which headers have them: source, destination, then ports, protocol and queue pair, or the flow label.
fn fields(fields: HashFields, addresses: &FlowAddresses, label: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = addresses.hosts.into_iter().flat_map(ipv4).collect();
    if fields.has_ports() {
        bytes.extend(addresses.ports.into_iter().flat_map(u16::to_be_bytes));
        bytes.push(addresses.protocol);
    }
    if fields == HashFields::FiveTupleAndPair {
        bytes.extend(&addresses.destination_pair.to_be_bytes()[1..]);
    }
    if fields == HashFields::AddressesAndFlowLabel {
        bytes.extend(label.to_be_bytes());
    }
    bytes
}

fn hash(function: HashFunction, bytes: &[u8], seed: u32, offset: u32) -> u32 {
    let crc = || crc32(bytes, seed);
    let half = |value: u16| u32::from(value.rotate_right(offset));
    match function {
        HashFunction::Ideal | HashFunction::Siphash => unreachable!("hashes no bytes"),
        HashFunction::Murmur3 => murmur3(&hpcc_words(bytes), seed).rotate_right(offset),
        HashFunction::Crc32 => crc().rotate_right(offset),
        HashFunction::Crc32Lo => half(crc() as u16),
        HashFunction::Crc32Hi => half((crc() >> 16) as u16),
        HashFunction::CrcCcitt => half(crc_ccitt(bytes, seed as u16)),
        HashFunction::Xor => half(xor(bytes, seed as u16)),
    }
}

/// CRC-32 (IEEE 802.3 §3.2.9) that starts with `seed`; reflected, inverted at both ends.
fn crc32(bytes: &[u8], seed: u32) -> u32 {
    !bytes.iter().fold(!seed, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

/// CRC-16-CCITT that starts with `seed`, most significant bit first.
fn crc_ccitt(bytes: &[u8], seed: u16) -> u16 {
    bytes.iter().fold(seed, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| (crc << 1) ^ (0x1021 & (crc >> 15).wrapping_neg()))
    })
}

fn xor(bytes: &[u8], seed: u16) -> u16 {
    bytes
        .chunks(2)
        .fold(seed, |hash, pair| hash ^ u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
}

/// Source, destination, and both ports in one word with the source below, as in switch-node.cc of the HPCC simulator; what follows, in words.
fn hpcc_words(bytes: &[u8]) -> Vec<u32> {
    let word = |at: usize| {
        bytes.get(at..at + 4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
    };
    let ports = word(8).map(|ports| ports.rotate_left(16));
    [word(0), word(4), ports, word(12)].into_iter().flatten().collect()
}

/// `MurmurHash3_x86_32` (Appleby).
fn murmur3(words: &[u32], seed: u32) -> u32 {
    let hash = words.iter().fold(seed, |hash, word| {
        let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let hash = hash ^ (4 * words.len() as u32);
    let hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    let hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_ports::bond::FlowKind;
    use std::collections::BTreeSet;

    /// Check values of the catalogue of CRCs for "123456789", and of the HPCC simulator's layout for 11.0.0.1:10000 -> 11.0.1.1:100.
    #[test]
    fn functions_have_their_check_values() {
        assert_eq!(crc32(b"123456789", 0), 0xcbf4_3926);
        assert_eq!(crc_ccitt(b"123456789", 0), 0x31c3);
        assert_eq!(crc_ccitt(b"123456789", 0xffff), 0x29b1);
        assert_eq!(xor(&[0x12, 0x34, 0x56, 0x78, 0x9a], 0), 0x1234 ^ 0x5678 ^ 0x9a00);
        let mut bytes = vec![11, 0, 0, 1, 11, 0, 1, 1];
        bytes.extend([10_000_u16, 100].into_iter().flat_map(u16::to_be_bytes));
        let murmur = |seed| hash(HashFunction::Murmur3, &bytes, seed, 0);
        assert_eq!([0, 16, 17].map(murmur), [0x13ad_ce27, 0x9720_2071, 0xc461_67a1]);
    }

    /// Uplinks of one switch of the second tier that flows use which the first tier sent there, of `n2`.
    fn used(function: HashFunction, seeds: [u32; 2], offsets: [u32; 2], [n1, n2]: [u32; 2]) -> usize {
        let flows = (0..20_000_u32).map(|flow| {
            let mixed = mix_bits(u64::from(flow));
            [&mixed.to_be_bytes()[..], &[6]].concat()
        });
        let choices = flows.map(|bytes| {
            let hash = |tier: usize| hash(function, &bytes, seeds[tier], offsets[tier]);
            (hash(0) % n1, hash(1) % n2)
        });
        choices.filter(|(first, _)| *first == 0).map(|(_, second)| second).collect::<BTreeSet<u32>>().len()
    }

    fn gcd(a: u32, b: u32) -> u32 {
        if b == 0 { a } else { gcd(b, a % b) }
    }

    /// One hash at two tiers uses n2 / gcd(n1, n2) uplinks. Another seed does not help a CRC with powers of two; an offset does, and so does another
    /// seed of Murmur.
    #[test]
    fn equal_hashes_polarize() {
        use HashFunction::{Crc32, Crc32Lo, CrcCcitt, Murmur3, Xor};
        for links in [[8, 8], [16, 12], [3, 4], [4, 8]] {
            for function in [Murmur3, Crc32, CrcCcitt, Xor] {
                let expected = (links[1] / gcd(links[0], links[1])) as usize;
                assert_eq!(used(function, [0, 0], [0, 0], links), expected, "{function:?} {links:?}");
            }
        }
        for function in [Crc32, Crc32Lo, CrcCcitt] {
            assert_eq!(used(function, [0, 10], [0, 0], [8, 8]), 1, "{function:?}");
            assert_eq!(used(function, [0, 10], [0, 10], [8, 8]), 8, "{function:?}");
        }
        assert_eq!(used(Crc32, [0, 10], [0, 0], [6, 6]), 3);
        assert_eq!(used(Murmur3, [0, 10], [0, 0], [8, 8]), 8);
    }

    /// The hash of a flow's first packet at a switch.
    fn of_flow(settings: &PathHashSettings, seed: u64, switch: u32, addresses: &FlowAddresses) -> u32 {
        let tiers = std::iter::repeat_n(0, 64).collect();
        PathHash { settings: settings.clone(), seed, tiers, whole: None }.hash(NodeId(switch), addresses)
    }

    fn with(function: HashFunction, fields: HashFields, seeds: HashSeeds) -> PathHashSettings {
        PathHashSettings { function, fields, seeds, ..PathHashSettings::IDEAL }
    }

    fn addresses(flow: u32, kind: FlowKind) -> FlowAddresses {
        FlowAddresses::of_flow([NodeId(1), NodeId(2)], flow, true, kind)
    }

    /// Routers with a key each do not polarize one another; with one key they do, by thresholds also where the numbers of links have no common divisor.
    #[test]
    fn keys_of_routers_are_their_own() {
        let second_hops = |seeds, [n1, n2]: [u64; 2]| {
            let settings = with(HashFunction::Siphash, HashFields::FiveTuple, seeds);
            let hop = |switch, flow, of: u64| {
                let hash = of_flow(&settings, 1, switch, &addresses(flow, FlowKind::Tcp));
                (u64::from(hash) * of) >> 31
            };
            let first = (0..4_000).filter(|flow| hop(1, *flow, n1) == 0);
            first.map(|flow| hop(2, flow, n2)).collect::<BTreeSet<u64>>().len()
        };
        for (links, same) in [([8, 8], 1), ([3, 4], 2), ([4, 8], 2)] {
            assert_eq!(second_hops(HashSeeds::Same, links), same);
            assert_eq!(second_hops(HashSeeds::Switch, links), links[1] as usize);
        }
    }

    /// Queue pairs whose UDP source port is the same have one hash of the 5-tuple; the destination queue pair tells them apart.
    #[test]
    fn the_destination_queue_pair_tells_flows_with_one_source_port_apart() {
        let all: Vec<FlowAddresses> = (0..400_000).map(|flow| addresses(flow, FlowKind::QueuePair)).collect();
        let port = all[1_000].ports[0];
        let same: Vec<&FlowAddresses> = all.iter().filter(|one| one.ports[0] == port).collect();
        assert!(same.len() > 16);
        for function in [HashFunction::Murmur3, HashFunction::Crc32, HashFunction::CrcCcitt] {
            let hashes = |fields| {
                let settings = with(function, fields, HashSeeds::Switch);
                same.iter().map(|one| of_flow(&settings, 1, 3, one)).collect::<BTreeSet<u32>>().len()
            };
            assert_eq!(hashes(HashFields::FiveTuple), 1);
            assert_eq!(hashes(HashFields::FiveTupleAndPair), same.len(), "{function:?}");
        }
    }

    /// Flow labels spread the flows of two hosts, which share a path by their addresses. Those of sockets are random, those of queue pairs are not.
    #[test]
    fn flow_labels_spread_flows_of_two_hosts() {
        for function in [HashFunction::Murmur3, HashFunction::Crc32, HashFunction::Siphash] {
            let hash = |fields, seed, flow, kind| {
                of_flow(&with(function, fields, HashSeeds::Same), seed, 3, &addresses(flow, kind))
            };
            for kind in [FlowKind::Tcp, FlowKind::QueuePair] {
                let hops = |fields| {
                    (0..64).map(|flow| hash(fields, 1, flow + 9, kind) % 8).collect::<BTreeSet<u32>>().len()
                };
                let counts = [HashFields::Addresses, HashFields::AddressesAndFlowLabel].map(hops);
                assert_eq!(counts, [1, 8], "{function:?} {kind:?}");
            }
            if function != HashFunction::Siphash {
                let of_seed = |seed, kind| hash(HashFields::AddressesAndFlowLabel, seed, 9, kind);
                assert_ne!(of_seed(1, FlowKind::Tcp), of_seed(2, FlowKind::Tcp));
                assert_eq!(of_seed(1, FlowKind::QueuePair), of_seed(2, FlowKind::QueuePair));
            }
        }
    }
}
