//! The text that `ibnetdiscover` prints (infiniband-diags): switches, then channel adapters, with a line for
//! each port.
//!
//! A node is named by its description if no other node has the same description, else by its GUID
//! ("S-0000000000000011"). Port numbers become labels; LIDs and GUIDs become addresses ("lid 17", "guid
//! 0x0000000000000011"; with an LMC, one address for each LID). Width and speed ("4xEDR") determine the rate:
//! the data rate without line coding.
//!
//! Blocks begin with `Switch`, `Ca` or `Rt`; the files of ibsim, which contain no GUIDs, use `Hca` for `Ca`.
//! A router becomes a switch, because it forwards. An adapter with several linked ports becomes one host per
//! port ("node1.1", "node1.2"): in this simulator a host has one port and forwards nothing, and the ports of
//! an adapter do not forward either.

use super::draft::{Draft, Partial, number};
use super::guard::shown;
use super::{Address, Defaults, Flaw, Import};
use crate::NodeKind;
use pauseframe_units::{BitRate, NodeId, PortId};
use std::collections::{BTreeMap, BTreeSet};

/// Data rate of one lane in Mbit/s (InfiniBand Architecture Specification vol. 2; FDR after its 64b/66b code).
const LANE_MBPS: [(&str, u64); 9] = [
    ("SDR", 2_000),
    ("DDR", 4_000),
    ("QDR", 8_000),
    ("FDR10", 10_000),
    ("FDR", 13_636),
    ("EDR", 25_000),
    ("HDR", 50_000),
    ("NDR", 100_000),
    ("XDR", 200_000),
];

/// A node with its ports, as read from the file.
struct Block<'a> {
    line: usize,
    /// The first word of the block; one of [`KINDS`].
    word: &'static str,
    kind: NodeKind,
    id: &'a str,
    description: &'a str,
    lid: Option<u16>,
    ports: Vec<PortLine<'a>>,
}

/// A line such as `[1](1001) "S-0000000000000011"[5] # lid 1 lmc 0 "leaf" lid 17 4xEDR`.
struct PortLine<'a> {
    line: usize,
    number: u16,
    guid: Option<&'a str>,
    peer: &'a str,
    peer_number: u16,
    /// The LID of this port and its LMC; `ibnetdiscover` prints them for channel adapters.
    lid: Option<(u16, u8)>,
    rate: Option<BitRate>,
}

pub(super) fn read(text: &str, defaults: Defaults) -> Result<Import, Flaw> {
    let blocks = blocks(text)?;
    if blocks.is_empty() {
        return Err(Flaw::of_file(
            "there is no line \"Switch ...\" or \"Ca ...\": is this from ibnetdiscover?",
        ));
    }
    let mut draft = Draft::new(defaults);
    let mut described: BTreeMap<&str, usize> = BTreeMap::new();
    for block in blocks.iter().filter(|block| !block.description.is_empty()) {
        *described.entry(block.description).or_default() += 1;
    }
    let linked = linked_ports(&blocks);
    let mut nodes = Nodes::new();
    let mut several = 0;
    for block in &blocks {
        let unique = described.get(block.description) == Some(&1);
        let name = if unique { block.description } else { block.id };
        several += usize::from(add_nodes(&mut draft, block, name, &linked[block.id], &mut nodes)?);
    }
    add_links(&mut draft, &blocks, &nodes)?;
    let ids = described.values().filter(|count| **count > 1).sum::<usize>();
    let routers = blocks.iter().filter(|block| block.word == "Rt").count();
    for (count, text) in [
        (ids, "nodes share their description with another: they are called by GUID"),
        (several, "adapters have several linked ports: each port is a host of its own (\"NAME.PORT\")"),
        (routers, "routers were taken for switches"),
    ] {
        if count > 0 {
            draft.notes.push(format!("{count} {text}"));
        }
    }
    Ok(draft.finish())
}

/// The first word of a block, and the kind of node that the block describes.
const KINDS: [(&str, NodeKind); 4] =
    [("Switch", NodeKind::Switch), ("Ca", NodeKind::Host), ("Hca", NodeKind::Host), ("Rt", NodeKind::Switch)];

fn blocks(text: &str) -> Result<Vec<Block<'_>>, Flaw> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    for (line, text) in text.lines().enumerate().map(|(i, text)| (i + 1, text.trim())) {
        let Some(word) = text.split_whitespace().next().filter(|_| !is_extra(text)) else { continue };
        if word.starts_with('[') {
            let port = port_line(line, text)?;
            let block = blocks.last_mut();
            let flaw = || {
                Flaw::line(
                    line,
                    "this port belongs to no node: a line such as Switch 4 \"S-0011\" is missing",
                )
            };
            block.ok_or_else(flaw)?.ports.push(port);
            continue;
        }
        let Some((word, kind)) = KINDS.into_iter().find(|(known, _)| *known == word) else {
            let known: Vec<&str> = KINDS.iter().map(|(known, _)| *known).collect();
            let word = shown(word);
            return Err(Flaw::line(
                line,
                format!("{word} begins no node: expected {} or a port such as [1]", known.join(", ")),
            ));
        };
        let mut quoted = text.split('"').skip(1).step_by(2);
        let id =
            quoted.next().ok_or_else(|| Flaw::line(line, format!("this line is cut short: {text:?}")))?;
        let description = quoted.next().unwrap_or("");
        let lid = after(text, "lid").and_then(|lid| lid.parse().ok());
        blocks.push(Block { line, word, kind, id, description, lid, ports: Vec::new() });
    }
    Ok(blocks)
}

/// True for lines without information on the graph: comments, `vendid=0x2c9`, and the headings of
/// `ibnetdiscover -g`.
fn is_extra(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or("#");
    let is_key = first.split_once('=').is_some_and(|(key, _)| key.chars().all(|c| c.is_ascii_lowercase()));
    first.starts_with('#') || is_key || first == "Chassis" || text == "Non-Chassis Nodes"
}

/// The node of each linked port: the same node for all ports of a block, except for adapters with several
/// linked ports.
type Nodes<'a> = BTreeMap<(&'a str, u16), NodeId>;

/// The linked ports of each block. The file may contain a link at only one of its ends.
fn linked_ports<'a>(blocks: &[Block<'a>]) -> BTreeMap<&'a str, BTreeSet<u16>> {
    let mut linked: BTreeMap<&str, BTreeSet<u16>> =
        blocks.iter().map(|block| (block.id, BTreeSet::new())).collect();
    for (block, port) in blocks.iter().flat_map(|block| block.ports.iter().map(move |port| (block, port))) {
        if linked.contains_key(port.peer) {
            linked.entry(port.peer).or_default().insert(port.peer_number);
            linked.entry(block.id).or_default().insert(port.number);
        }
    }
    linked
}

/// Adds the nodes of a block; returns true if the block is an adapter that became several hosts.
fn add_nodes<'a>(
    draft: &mut Draft,
    block: &Block<'a>,
    name: &str,
    linked: &BTreeSet<u16>,
    nodes: &mut Nodes<'a>,
) -> Result<bool, Flaw> {
    let several = block.kind == NodeKind::Host && linked.len() > 1;
    if !several {
        let node = draft.node(name, block.kind, None).map_err(Flaw::on(block.line))?;
        nodes.extend(linked.iter().map(|number| ((block.id, *number), node)));
        add_addresses(draft, block, &block.ports.iter().collect::<Vec<_>>(), node);
        return Ok(false);
    }
    for number in linked {
        let name = format!("{name}.{number}");
        let node = draft.node(&name, block.kind, None).map_err(Flaw::on(block.line))?;
        nodes.insert((block.id, *number), node);
        let own: Vec<_> = block.ports.iter().filter(|port| port.number == *number).collect();
        add_addresses(draft, block, &own, node);
    }
    Ok(true)
}

/// Returns the word after `key`.
fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut words = text.split_whitespace();
    words.find(|word| *word == key)?;
    words.next()
}

/// Returns the text between the first `open` and the next `close`, and the text after it.
fn bracketed(text: &str, open: char, close: char) -> Option<(&str, &str)> {
    text.split_once(open)?.1.split_once(close)
}

fn port_line(line: usize, text: &str) -> Result<PortLine<'_>, Flaw> {
    let flaw = || {
        Flaw::line(line, format!("a port looks like [1] \"S-0011\"[2] # \"leaf\" lid 17 4xEDR, not {text:?}"))
    };
    let port = |text: &str| number::<u16>(text, "a port").map_err(Flaw::on(line));
    let (own, rest) = bracketed(text, '[', ']').ok_or_else(flaw)?;
    let guid = rest.starts_with('(').then(|| bracketed(rest, '(', ')')).flatten().map(|(guid, _)| guid);
    let (peer, rest) = bracketed(rest, '"', '"').ok_or_else(flaw)?;
    let (peer_number, rest) = bracketed(rest, '[', ']').ok_or_else(flaw)?;
    let comment = rest.split_once('#').map_or("", |(_, comment)| comment);
    // Only channel adapters print their own LID, before the description of the neighbour.
    let own_part = comment.split('"').next().unwrap_or("");
    let lmc = after(own_part, "lmc").and_then(|lmc| lmc.parse().ok()).unwrap_or(0);
    let lid = after(own_part, "lid").and_then(|lid| lid.parse().ok()).map(|lid| (lid, lmc));
    let rate = comment.split_whitespace().last().and_then(rate);
    Ok(PortLine { line, number: port(own)?, guid, peer, peer_number: port(peer_number)?, lid, rate })
}

/// Parses width and speed: "4xEDR" is 100 Gbps.
fn rate(text: &str) -> Option<BitRate> {
    let (width, speed) = text.split_once('x')?;
    let (_, mbps) = LANE_MBPS.into_iter().find(|(name, _)| *name == speed)?;
    Some(BitRate(width.parse::<u64>().ok()?.checked_mul(mbps * 1_000_000)?))
}

fn add_addresses(draft: &mut Draft, block: &Block<'_>, ports: &[&PortLine<'_>], node: NodeId) {
    let mut guid = |text: &str| {
        if let Ok(guid) = u64::from_str_radix(text.trim_start_matches("0x"), 16) {
            draft.labels.add_address(&format!("guid 0x{guid:016x}"), Address { node, port: None, path: 0 });
        }
    };
    guid(block.id.split_once('-').map_or("", |(_, guid)| guid));
    ports.iter().filter_map(|port| port.guid).for_each(guid);
    let own = block.lid.filter(|_| block.kind == NodeKind::Switch).map(|lid| (lid, 0));
    for (lid, lmc) in ports.iter().filter_map(|port| port.lid).chain(own) {
        for path in 0..1_u16 << lmc.min(7) {
            let text = format!("lid {}", lid.saturating_add(path));
            draft.labels.add_address(&text, Address { node, port: None, path });
        }
    }
}

/// Adds the links. Every link is printed at both of its ends; the first line adds the link, the second line
/// must agree.
fn add_links<'a>(draft: &mut Draft, blocks: &[Block<'a>], nodes: &Nodes<'a>) -> Result<(), Flaw> {
    let mut outside: Vec<&PortLine<'_>> = Vec::new();
    let mut known: BTreeMap<(&str, u16), (&str, u16)> = BTreeMap::new();
    for (block, port) in blocks.iter().flat_map(|block| block.ports.iter().map(move |port| (block, port))) {
        let (own, peer) = ((block.id, port.number), (port.peer, port.peer_number));
        for (at, here) in [(own, peer), (peer, own)] {
            if let Some(above) = known.get(&at).filter(|above| **above != here) {
                let message = format!(
                    "port {} of {} is linked to {}[{}] here and to {}[{}] above",
                    at.1, at.0, here.0, here.1, above.0, above.1
                );
                return Err(Flaw::line(port.line, message));
            }
        }
        if known.contains_key(&own) {
            continue;
        }
        let Some(to) = nodes.get(&peer) else {
            outside.push(port);
            continue;
        };
        let channel = Partial { rate: port.rate, delay: None };
        let link = draft.link([nodes[&own], *to], [channel; 2]);
        draft.labels.name_port(PortId::of_link(link, 0), port.number.to_string());
        draft.labels.name_port(PortId::of_link(link, 1), port.peer_number.to_string());
        known.insert(own, peer);
        known.insert(peer, own);
    }
    if let Some(first) = outside.first() {
        draft.notes.push(format!(
            "{} links lead to nodes without a block, such as {} in line {}: they were left out",
            outside.len(),
            shown(first.peer),
            first.line
        ));
    }
    Ok(())
}
