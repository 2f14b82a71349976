//! Virtual lanes of an InfiniBand fabric: the service level (SL) of each path, and the virtual lane (VL) in
//! which switches send packets of that SL.
//!
//! A route of `DFSSSP`, `LASH` or `Nue` is deadlock-free only in the lane that its SL selects. The SL depends
//! on source and destination. The plugin `dump_pr` of `OpenSM` writes `opensm-path-records.dump` if
//! `DUMP_FULL_PATH_RECORDS` is set: after a head such as `Channel Adapter 0x0000000000000041, base LID 8,
//! "node1 HCA-1", port 1`, it has a line `0x000C : 1  : 4   : 3` (destination LID, SL, MTU, rate) for each
//! destination. The output of `saquery -p` is accepted too: a block of `slid....11`, `dlid....12`,
//! `sl....0x1` for each path. The lane depends on the switch: after `Switch 0x0000000000000021, base LID 1,
//! "spine"`, the file `opensm-sl2vl.dump` of `OpenSM` (`osm_dump.c`) has a line `1   2   : 0  1  2 ...`
//! (ingress port, egress port, VL of each SL) for each pair of ports (IBA specification, 7.6.6).
//!
//! A pair (LMC path, SL) becomes the VLAN 16 x path + SL, in which exactly the sources whose path has that SL
//! may send. Not supported: lanes that depend on the ports (torus-2QoS), which are rejected; the lanes in
//! which hosts send, because hosts do not forward.

use super::builder::{Builder, Lane};
use super::opensm::guid;
use pauseframe_topology::NodeKind;
use pauseframe_topology::interchange::{Address, Flaw};
use pauseframe_units::NodeId;
use std::collections::{BTreeMap, BTreeSet};

/// Number of SLs of a path and of VLs of a port; the last VL is for management (IBA specification, 3.5.7).
const LEVELS: usize = 16;
const MANAGEMENT: u8 = 15;

/// The SLs of all paths, and the lanes of all switches.
#[derive(Default)]
pub(super) struct ServiceLevels {
    /// By destination and path, then by SL, the switches whose hosts may send.
    senders: BTreeMap<(NodeId, u16), BTreeMap<u8, BTreeSet<NodeId>>>,
    /// For each switch, the lane of each SL; without an entry, the lane is the SL.
    lanes: BTreeMap<NodeId, [u8; LEVELS]>,
}

impl ServiceLevels {
    /// Reads the SLs of `opensm-path-records.dump`, or the output of `saquery -p` in a file of that name.
    pub(super) fn of_paths(text: &str, builder: &Builder<'_>) -> Result<ServiceLevels, Flaw> {
        let mut levels = ServiceLevels::default();
        if text.contains("PathRecord dump:") {
            levels.read_answers(text, builder)?;
        } else {
            levels.read_records(text, builder)?;
        }
        if levels.senders.is_empty() {
            return Err(Flaw::of_file("there is no path to a host of the topology in this file"));
        }
        Ok(levels)
    }

    /// Allows a sender to reach a host and path at this SL.
    fn add(&mut self, from: NodeId, to: Address, level: u8) {
        let of_path = self.senders.entry((to.node, to.path)).or_default();
        of_path.entry(level).or_default().insert(from);
    }

    /// Reads the output of `saquery -p`; paths from or to switches carry management traffic.
    fn read_answers(&mut self, text: &str, builder: &Builder<'_>) -> Result<(), Flaw> {
        let host = |lid: Option<u16>| {
            lid.and_then(|lid| builder.address(&format!("lid {lid}")))
                .filter(|address| builder.kind(address.node) == NodeKind::Host)
        };
        let (mut from, mut to) = (None, None);
        for (line, text) in numbered(text) {
            let Some((key, value)) = text.split_once("..") else { continue };
            let value = value.trim_start_matches('.');
            match key.trim_end_matches('.') {
                "slid" => from = number(value),
                "dlid" => to = number(value),
                "sl" => {
                    let level = number(value).and_then(|level| u8::try_from(level).ok());
                    let Some(level) = level.filter(|level| usize::from(*level) < LEVELS) else {
                        return Err(Flaw::line(line, format!("a service level is 0 to 15, not {value:?}")));
                    };
                    let ends =
                        (host(from.take()).and_then(|from| builder.switch_of(from.node)), host(to.take()));
                    if let (Some(from), Some(to)) = ends {
                        self.add(from, to, level);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read_records(&mut self, text: &str, builder: &Builder<'_>) -> Result<(), Flaw> {
        let mut from: Option<NodeId> = None;
        for (line, text) in numbered(text) {
            let flaw = |message: String| Flaw::line(line, message);
            if let Some(node) = head(text, builder).map_err(flaw)? {
                from = builder.switch_of(node);
            } else if let (Some(rest), Some(from)) = (text.strip_prefix("0x"), from) {
                let Some((lid, level)) = path_record(rest) else {
                    return Err(flaw(format!("a row looks like 0x000C : 1 : 4 : 3, not {text:?}")));
                };
                let (Some(level), Some(to)) = (level, builder.address(&format!("lid {lid}"))) else {
                    continue;
                };
                if builder.kind(to.node) == NodeKind::Host {
                    self.add(from, to, level);
                }
            }
        }
        Ok(())
    }

    /// Adds the lanes of `opensm-sl2vl.dump`.
    pub(super) fn read_lanes(&mut self, text: &str, builder: &Builder<'_>) -> Result<(), Flaw> {
        let mut switch: Option<NodeId> = None;
        for (line, text) in numbered(text) {
            let flaw = |message: String| Flaw::line(line, message);
            if let Some(node) = head(text, builder).map_err(flaw)? {
                switch = Some(node).filter(|node| builder.kind(*node) == NodeKind::Switch);
            } else if let (Some(switch), true) = (switch, text.starts_with(|c: char| c.is_ascii_digit())) {
                let Some((ports, lanes)) = lanes_of_ports(text) else {
                    return Err(flaw(format!(
                        "a row looks like \"1 2 : 0 1 2 ...\" with 16 lanes, not {text:?}"
                    )));
                };
                // Port 0 is the switch itself, and no packet leaves through its ingress port.
                if ports.contains(&0) || ports[0] == ports[1] {
                    continue;
                }
                if *self.lanes.entry(switch).or_insert(lanes) != lanes {
                    return Err(flaw(
                        "the lanes of a service level depend on the ports here (torus-2QoS does so); only tables with \
                         the same lanes for all ports of a switch can be judged"
                            .to_owned(),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The VLANs of a destination and path.
    pub(super) fn vlans(&self, to: NodeId, path: u16) -> impl Iterator<Item = u16> + '_ {
        let levels = self.senders.get(&(to, path)).into_iter().flatten();
        levels.map(move |(level, _)| vlan(path, *level))
    }

    /// Adds lanes and senders of all VLANs.
    pub(super) fn add_to(&self, builder: &mut Builder<'_>) -> Result<(), Flaw> {
        let flaw = |message: String| Flaw::of_file(message);
        let mut used: BTreeSet<(u16, u8)> = BTreeSet::new();
        for ((to, path), levels) in &self.senders {
            for (level, from) in levels {
                used.insert((*path, *level));
                for from in from {
                    builder.may_send(vlan(*path, *level), *from, *to).map_err(flaw)?;
                }
            }
        }
        for (path, level) in used {
            let vlan = vlan(path, level);
            let lanes = || self.lanes.iter().map(|(switch, lanes)| (*switch, lanes[usize::from(level)]));
            if lanes().any(|(_, lane)| lane == MANAGEMENT) {
                let message = format!(
                    "a switch discards service level {level}: it has VL 15, and paths have that level"
                );
                return Err(flaw(message));
            }
            let usual = most_common(lanes().map(|(_, lane)| lane)).unwrap_or(level);
            builder.lane(&Lane { vlan, lane: usual }).map_err(flaw)?;
            for (switch, lane) in lanes().filter(|(_, lane)| *lane != usual) {
                builder.lane_at(vlan, switch, lane);
            }
        }
        let lanes = if self.lanes.is_empty() {
            "there is no opensm-sl2vl.dump: VL = SL was assumed"
        } else {
            "lanes are those of opensm-sl2vl.dump"
        };
        builder.notes.push(format!("a VLAN is 16 x LMC path + service level; {lanes}"));
        Ok(())
    }
}

/// The lane that most switches use; the lowest lane if several are equally common.
fn most_common(lanes: impl Iterator<Item = u8>) -> Option<u8> {
    let mut count: BTreeMap<u8, u32> = BTreeMap::new();
    for lane in lanes {
        *count.entry(lane).or_default() += 1;
    }
    count.into_iter().rev().max_by_key(|(_, count)| *count).map(|(lane, _)| lane)
}

fn vlan(path: u16, level: u8) -> u16 {
    path * LEVELS as u16 + u16::from(level)
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, line)| (i + 1, line.trim()))
}

/// Parses a number in the format of `OpenSM`'s tools, decimal or with `0x`.
fn number(text: &str) -> Option<u16> {
    match text.trim().strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => text.trim().parse().ok(),
    }
}

/// Finds the node of a head such as `Switch 0x0000000000000021, base LID 1, "spine"`.
fn head(text: &str, builder: &Builder<'_>) -> Result<Option<NodeId>, String> {
    let Some(word) =
        ["Switch 0x", "Channel Adapter 0x", "Router 0x"].iter().find(|word| text.starts_with(**word))
    else {
        return Ok(None);
    };
    let by_lid = || {
        let (_, rest) = text.split_once("base LID ")?;
        builder.address(&format!("lid {}", rest.split(',').next()?.trim()))
    };
    let kind = word.trim_end_matches(" 0x");
    if let Some(address) = guid(text, kind).and_then(|guid| builder.address(&guid)).or_else(by_lid) {
        return Ok(Some(address.node));
    }
    let name = text.split('"').nth(1).ok_or_else(|| format!("nothing in the topology is {text:?}"))?;
    builder.node(name).map(Some)
}

/// Splits `000C : 1  : 4   : 3` or `000C : UNREACHABLE` into the LID and, if there is a path, the SL.
fn path_record(text: &str) -> Option<(u16, Option<u8>)> {
    let mut fields = text.split(':').map(str::trim);
    let lid = u16::from_str_radix(fields.next()?, 16).ok()?;
    match fields.next()? {
        "UNREACHABLE" => Some((lid, None)),
        level => Some((lid, Some(level.parse().ok().filter(|level| usize::from(*level) < LEVELS)?))),
    }
}

/// Splits `1   2   : 0  1 ...` into the ports and the lane of each SL.
fn lanes_of_ports(text: &str) -> Option<([u16; 2], [u8; LEVELS])> {
    let (ports, lanes) = text.split_once(':')?;
    let ports: Vec<u16> = ports.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let lanes: Vec<u8> = lanes.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let in_bounds = lanes.iter().all(|lane| *lane <= MANAGEMENT);
    Some((ports.try_into().ok()?, lanes.try_into().ok().filter(|_| in_bounds)?))
}
