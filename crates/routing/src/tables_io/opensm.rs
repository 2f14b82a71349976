//! Linear forwarding tables of an InfiniBand fabric as text: the output of `ibroute` for a switch, of
//! `dump_lfts.sh` for all switches, and the file `opensm-lfts.dump` of `OpenSM`.
//!
//! A switch is identified by its GUID or else its description, a destination by its LID or else by the GUID
//! or the description in the comment. The reader skips LIDs of switches, because they carry management
//! traffic in a separate lane. With an LMC above 0 a host has several LIDs with different routes; the n-th
//! LID becomes VLAN n. Ports without a label count from 1 in the order of the topology. Other files contain
//! the lanes ([`super::service_levels`]); without them every route is in lane 0.

use super::builder::Builder;
use super::service_levels::ServiceLevels;
use pauseframe_topology::NodeKind;
use pauseframe_topology::interchange::{Address, Flaw};
use pauseframe_units::{NodeId, counted};
use std::collections::BTreeSet;

pub(super) fn read(
    text: &str,
    levels: Option<&ServiceLevels>,
    builder: &mut Builder<'_>,
) -> Result<(), Flaw> {
    let mut switch: Option<NodeId> = None;
    let mut to_switches = 0;
    let mut sections = Sections::default();
    for (line, text) in text.lines().enumerate().map(|(i, line)| (i + 1, line.trim())) {
        let flaw = |message: String| Flaw::line(line, message);
        if let Some(head) = text.strip_prefix("Unicast lids") {
            let found = find_switch(head, builder).map_err(flaw)?;
            sections.begin(line, found);
            switch = Some(found);
        } else if text.ends_with("lids dumped") {
            sections.end();
        } else if let Some(rest) = text.strip_prefix("0x") {
            let Some(switch) = switch else {
                return Err(flaw(
                    "a row comes before any line \"Unicast lids ... of switch ...\"".to_owned(),
                ));
            };
            let Some((lid, port, comment)) = columns(rest) else {
                return Err(flaw(format!("a row looks like 0x0011 003 : (...), not {text:?}")));
            };
            let Address { node, path, .. } = find_destination(lid, comment, builder).map_err(flaw)?;
            if builder.kind(node) == NodeKind::Switch {
                to_switches += 1;
                continue;
            }
            let port = builder.numbered_port(switch, port).map_err(flaw)?;
            let vlans = levels.map_or_else(|| vec![path], |levels| levels.vlans(node, path).collect());
            for vlan in vlans {
                builder.row(("line", line as u32), switch, vlan, node, port).map_err(flaw)?;
            }
        }
    }
    sections.check(builder)?;
    if to_switches > 0 {
        builder.notes.push(format!("left out: {} for the LIDs of switches", counted(to_switches, "row")));
    }
    if let Some(levels) = levels {
        return levels.add_to(builder);
    }
    let note = "the dump has no lanes: every route was taken to be in lane 0; name a folder that has \
                opensm-path-records.dump and opensm-sl2vl.dump too";
    builder.notes.push(note.to_owned());
    Ok(())
}

/// The tables of a dump: the switch of each table, and whether the table is complete.
#[derive(Default)]
struct Sections {
    of: BTreeSet<NodeId>,
    /// The table being read, with its line number.
    open: Option<(usize, NodeId)>,
    /// The first table without an end mark.
    endless: Option<(usize, NodeId)>,
    ended: usize,
}

impl Sections {
    fn begin(&mut self, line: usize, switch: NodeId) {
        self.of.insert(switch);
        self.endless = self.endless.or(self.open.replace((line, switch)));
    }

    fn end(&mut self) {
        self.open = None;
        self.ended += 1;
    }

    /// Adds notes on switches that have no table.
    ///
    /// # Errors
    /// If a table has no end mark and others have one: the port number in its last row may be truncated.
    fn check(&self, builder: &mut Builder<'_>) -> Result<(), Flaw> {
        if let Some((line, switch)) = self.endless.or(self.open).filter(|_| self.ended > 0) {
            let name = builder.name(switch);
            let message =
                format!("the table of {name:?} has no line \"... lids dumped\": the dump is cut off");
            return Err(Flaw::line(line, message + "; take it anew"));
        }
        let bare = builder.switches().filter(|switch| !self.of.contains(switch));
        let mut bare: Vec<String> = bare.map(|switch| builder.name(switch).to_owned()).collect();
        if bare.len() > 4 {
            let more = bare.split_off(3).len();
            bare.push(format!("{more} more"));
        }
        if !bare.is_empty() {
            builder.notes.push(format!("the dump has no table for {}: is it whole?", bare.join(", ")));
        }
        Ok(())
    }
}

/// Splits a line such as `0011 003 : (...)` into LID, port and rest.
fn columns(text: &str) -> Option<(u16, u16, &str)> {
    let (lid, rest) = text.split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let (port, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    Some((u16::from_str_radix(lid, 16).ok()?, port.parse().ok()?, rest))
}

/// The GUID after `word`, in the format of our labels.
pub(super) fn guid(text: &str, word: &str) -> Option<String> {
    let (_, rest) = text.split_once(word)?;
    let digits = rest.trim_start().strip_prefix("0x")?;
    let digits = digits.split(|c: char| !c.is_ascii_hexdigit()).next()?;
    Some(format!("guid 0x{:016x}", u64::from_str_radix(digits, 16).ok()?))
}

/// The description of a node: the text in quotes, or else in the last brackets.
fn description(text: &str) -> Option<&str> {
    let quoted = text.split_once('\'').and_then(|(_, rest)| rest.rsplit_once('\'')).map(|(name, _)| name);
    let bracketed = || text.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map(|(name, _)| name);
    quoted.or_else(bracketed).map(str::trim)
}

fn find_switch(head: &str, builder: &Builder<'_>) -> Result<NodeId, String> {
    let by_guid = guid(head, "guid").and_then(|guid| builder.address(&guid));
    match (by_guid, description(head)) {
        (Some(address), _) => Ok(address.node),
        (None, Some(name)) => builder.switch(name),
        (None, None) => Err(format!("no switch of the topology has the GUID in {head:?}")),
    }
}

fn find_destination(lid: u16, comment: &str, builder: &Builder<'_>) -> Result<Address, String> {
    let by_guid = || guid(comment, "portguid").and_then(|guid| builder.address(&guid));
    if let Some(address) = builder.address(&format!("lid {lid}")).or_else(by_guid) {
        return Ok(address);
    }
    let what = format!("nothing in the topology has LID {lid} (0x{lid:04x})");
    match description(comment) {
        Some(name) => {
            let node = builder.node(name).map_err(|error| format!("{what}, and {error}"))?;
            Ok(Address { node, port: None, path: 0 })
        }
        None => Err(format!("{what}: take the topology from ibnetdiscover of the same fabric")),
    }
}
