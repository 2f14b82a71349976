//! Reads the output of `bridge -j fdb show` (iproute2) for a Linux switch.
//!
//! The reader uses static or learned rows that have a MAC address, an interface and a VLAN. The reader skips
//! the switch's own addresses (`permanent`), group addresses, and rows of the interface alone (`self` without
//! `master`). A row without a VLAN belongs to VLAN 0, which stands for a bridge without VLAN filtering.

use super::builder::Builder;
use pauseframe_topology::interchange::Flaw;
use serde::Deserialize;

#[derive(Deserialize)]
struct Entry {
    mac: String,
    ifname: Option<String>,
    #[serde(default)]
    vlan: u16,
    #[serde(default)]
    state: String,
    master: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
}

pub(super) fn read(name: &str, text: &str, builder: &mut Builder<'_>) -> Result<(), Flaw> {
    let switch = builder.switch(name).map_err(Flaw::of_file)?;
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| {
        Flaw::of_file(format!("this is not the output of \"bridge -j fdb show\": {error}"))
    })?;
    for (i, entry) in entries.iter().enumerate() {
        let flaw = |message: String| Flaw::at(format!("entry {i}"), message);
        let own = entry.flags.iter().any(|flag| flag == "self") && entry.master.is_none();
        let Some(interface) = entry.ifname.as_ref().filter(|_| !own) else { continue };
        if entry.state == "permanent" || is_group(&entry.mac) {
            continue;
        }
        let unknown = || {
            let mac = &entry.mac;
            flaw(format!(
                "no host of the topology has the address {mac}: add it to the addresses (address,node)"
            ))
        };
        let host = builder.address(&entry.mac).ok_or_else(unknown)?.node;
        let port = builder.port(switch, interface).map_err(flaw)?;
        builder.row(("entry", i as u32), switch, entry.vlan, host, port).map_err(flaw)?;
    }
    Ok(())
}

/// True for a group address: lowest bit of the first byte set (IEEE 802, clause 8.2).
fn is_group(mac: &str) -> bool {
    let first = mac.split(':').next().and_then(|byte| u8::from_str_radix(byte, 16).ok());
    first.is_some_and(|byte| byte & 1 == 1)
}
