//! The hash of Linux's routers (`fib_multipath_hash` in `net/ipv4/route.c`): `SipHash`-2-4 of `struct flow_keys`, with a key made of a seed.
//!
//! The flow keys lie in memory as on a little-endian host. Source and destination are sorted, so both directions of a flow have one hash.

use super::HashFields;
use crate::host_ports::bond::{FlowAddresses, ipv4};

/// Bytes of `struct flow_keys` from `basic` on, with IPv4 addresses (Linux 6.11, `include/net/flow_dissector.h`).
const KEYS_LENGTH: usize = 44;
const PROTOCOL_AT: usize = 2;
const FLOW_LABEL_AT: usize = 4;
const PORTS_AT: usize = 28;
const ADDRESSES_AT: usize = 36;

/// The hash of 31 bits by which a router chooses.
pub(super) fn multipath_hash(fields: HashFields, addresses: &FlowAddresses, label: u32, seed: u32) -> u32 {
    let hash = siphash(key(seed), &flow_keys(fields, addresses, label)) as u32;
    hash.max(1) >> 1
}

/// The key that a seed gives (Linux: `fib_multipath_hash_construct_key`).
fn key(seed: u32) -> [u64; 2] {
    let seed = u64::from(seed);
    [seed << 32 | seed; 2]
}

fn flow_keys(fields: HashFields, addresses: &FlowAddresses, label: u32) -> [u8; KEYS_LENGTH] {
    let mut keys = [0; KEYS_LENGTH];
    let mut hosts = addresses.hosts.map(ipv4);
    hosts.sort_by_key(|address| u32::from_le_bytes(*address));
    keys[ADDRESSES_AT..].copy_from_slice(hosts.as_flattened());
    if fields.has_ports() {
        keys[PROTOCOL_AT] = addresses.protocol;
        let mut ports = addresses.ports.map(u16::to_be_bytes);
        ports.sort_by_key(|port| u16::from_le_bytes(*port));
        keys[PORTS_AT..PORTS_AT + 4].copy_from_slice(ports.as_flattened());
    }
    if fields == HashFields::AddressesAndFlowLabel {
        keys[FLOW_LABEL_AT..FLOW_LABEL_AT + 4].copy_from_slice(&label.to_be_bytes());
    }
    keys
}

/// `SipHash`-2-4 (Aumasson and Bernstein 2012).
fn siphash(key: [u64; 2], bytes: &[u8]) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    for word in words.map(word).chain([word(rest) | (bytes.len() as u64) << 56]) {
        state[3] ^= word;
        mix(&mut state, 2);
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    mix(&mut state, 4);
    state.into_iter().fold(0, |hash, word| hash ^ word)
}

fn mix([a, b, c, d]: &mut [u64; 4], rounds: u32) {
    for _ in 0..rounds {
        *a = a.wrapping_add(*b);
        *b = b.rotate_left(13) ^ *a;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*d);
        *d = d.rotate_left(16) ^ *c;
        *a = a.wrapping_add(*d);
        *d = d.rotate_left(21) ^ *a;
        *c = c.wrapping_add(*b);
        *b = b.rotate_left(17) ^ *c;
        *c = c.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_ports::bond::FlowKind;
    use pauseframe_units::NodeId;

    /// Vectors of the reference implementation: key 00 to 0f, messages of 0, 8 and 15 bytes that count up.
    #[test]
    fn siphash_has_its_check_values() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let hash = |length: u8| siphash(key, &(0..length).collect::<Vec<u8>>());
        assert_eq!(
            [0, 8, 15].map(hash),
            [0x726f_db47_dd0e_0e31, 0x93f5_f579_9a93_2462, 0xa129_ca61_49be_45e5]
        );
    }

    /// Hashes of a C program with the kernel's structures, for 10.0.0.1:49152 to 10.0.0.2:4791 over UDP, label 0x12345, seed 7.
    #[test]
    fn hashes_are_those_of_the_kernel() {
        let mut addresses = FlowAddresses::of_flow([NodeId(1), NodeId(2)], 0, true, FlowKind::QueuePair);
        addresses.ports = [49_152, 4_791];
        let hash = |fields| multipath_hash(fields, &addresses, 0x1_2345, 7);
        let fields = [HashFields::Addresses, HashFields::FiveTuple, HashFields::AddressesAndFlowLabel];
        assert_eq!(fields.map(hash), [0x025e_7c9f, 0x1013_afca, 0x3971_ec56]);
        let back = FlowAddresses { hosts: [NodeId(2), NodeId(1)], ports: [4_791, 49_152], ..addresses };
        assert_eq!(multipath_hash(HashFields::FiveTuple, &back, 0, 7), 0x1013_afca);
    }
}
