//! The text that `ibnetdiscover` prints (infiniband-diags): switches, then channel adapters, with a line for
//! each port.
//!
//! A node is named by its description if no other node has the same description, else by its GUID
//! ("S-0000000000000011"). Port numbers become labels; LIDs and GUIDs become addresses ("lid 17", "guid
//! 0x0000000000000011"; with an LMC, one address for each LID). Width and speed ("4xEDR") determine the rate:
//! the data rate without line coding.
//!
//! Blocks begin with `Switch`, `Ca` or `Rt`; the files of ibsim, which contain no GUIDs, use `Hca` for `Ca`.
//! A router becomes a switch, because it forwards. An adapter becomes a host with the adapter's ports. The adapters of
//! one server become one host if their descriptions differ in the device only ("node1 `mlx5_0`", "node1 `mlx5_1`").

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
    let servers = servers(&blocks, &described);
    let linked = linked_ports(&blocks);
    let mut nodes = Nodes::new();
    let mut by_server: BTreeMap<&str, NodeId> = BTreeMap::new();
    for block in &blocks {
        let unique = described.get(block.description) == Some(&1);
        let name = if unique { block.description } else { block.id };
        let server = servers.get(block.id).map(|(server, _)| *server);
        let known = server.and_then(|server| by_server.get(server).copied());
        let new = || draft.node(server.unwrap_or(name), block.kind, None).map_err(Flaw::on(block.line));
        let node = known.map_or_else(new, Ok)?;
        by_server.extend(server.map(|server| (server, node)));
        nodes.insert(block.id, node);
    }
    let ports = add_links(&mut draft, &blocks, &nodes, &|id, number| {
        let Some((_, card)) = servers.get(id) else { return number.to_string() };
        if linked[id].len() > 1 { format!("{card}.{number}") } else { (*card).to_owned() }
    })?;
    for block in &blocks {
        add_addresses(&mut draft, block, nodes[block.id], &ports);
    }
    let several = |block: &&Block<'_>| block.kind == NodeKind::Host && linked[block.id].len() > 1;
    let several = blocks.iter().filter(several).count();
    let ids = described.values().filter(|count| **count > 1).sum::<usize>();
    let routers = blocks.iter().filter(|block| block.word == "Rt").count();
    for (count, text) in [
        (ids, "nodes share their description with another: they are called by GUID"),
        (several, "adapters have several linked ports: each is a host with these ports"),
        (
            by_server.len(),
            "servers have several adapters (\"NAME mlx5_0\", \"NAME mlx5_1\"): each is one host \"NAME\"",
        ),
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

/// The node of each block, by its id.
type Nodes<'a> = BTreeMap<&'a str, NodeId>;

/// The port at each linked port number of a block.
type Ports<'a> = BTreeMap<(&'a str, u16), PortId>;

/// What names of devices begin with, before a number, in descriptions such as "node1 `mlx5_0`".
const DEVICES: [&str; 7] = ["HCA-", "mlx4_", "mlx5_", "hfi1_", "qib", "mthca", "ibp"];

/// Splits "node1 `mlx5_0`" into server and device.
fn server_and_device(description: &str) -> Option<(&str, &str)> {
    let (server, device) = description.rsplit_once(' ')?;
    let is_device = device.ends_with(|c: char| c.is_ascii_digit())
        && DEVICES.iter().any(|start| device.starts_with(start));
    (is_device && !server.is_empty()).then_some((server, device))
}

/// Server and device of each adapter that shares its server with another adapter. A description that two adapters
/// share names no server: "localhost HCA-1" is that of every server without a name.
fn servers<'a>(
    blocks: &[Block<'a>],
    described: &BTreeMap<&str, usize>,
) -> BTreeMap<&'a str, (&'a str, &'a str)> {
    let mut found: BTreeMap<&str, Vec<(&Block<'a>, &str)>> = BTreeMap::new();
    for block in blocks.iter().filter(|block| block.kind == NodeKind::Host) {
        if let Some((server, device)) = server_and_device(block.description) {
            found.entry(server).or_default().push((block, device));
        }
    }
    let is_server = |server: &str, cards: &[(&Block<'_>, &str)]| {
        cards.len() > 1
            && cards.iter().all(|(card, _)| described[card.description] == 1)
            && !blocks.iter().any(|block| [block.id, block.description].contains(&server))
    };
    found.retain(|server, cards| is_server(server, cards));
    let cards = found
        .into_iter()
        .flat_map(|(server, cards)| cards.into_iter().map(move |(card, device)| (card.id, (server, device))));
    cards.collect()
}

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

fn add_addresses(draft: &mut Draft, block: &Block<'_>, node: NodeId, ports: &Ports<'_>) {
    let mut add = |text: &str, number: Option<u16>, path| {
        let port = number.and_then(|number| ports.get(&(block.id, number)).copied());
        draft.labels.add_address(text, Address { node, port, path });
    };
    let guid = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let own = guid(block.id.split_once('-').map_or("", |(_, guid)| guid)).map(|guid| (guid, None));
    let of_ports = block.ports.iter().filter_map(|port| Some((guid(port.guid?)?, Some(port.number))));
    for (guid, number) in own.into_iter().chain(of_ports) {
        add(&format!("guid 0x{guid:016x}"), number, 0);
    }
    let own = block.lid.filter(|_| block.kind == NodeKind::Switch).map(|lid| ((lid, 0), None));
    let of_ports = block.ports.iter().filter_map(|port| Some((port.lid?, Some(port.number))));
    for ((lid, lmc), number) in of_ports.chain(own) {
        for path in 0..1_u16 << lmc.min(7) {
            add(&format!("lid {}", lid.saturating_add(path)), number, path);
        }
    }
}

/// Adds the links, with the names that `name` gives to ports. Every link is printed at both of its ends; the first
/// line adds the link, the second line must agree.
fn add_links<'a>(
    draft: &mut Draft,
    blocks: &[Block<'a>],
    nodes: &Nodes<'a>,
    name: &dyn Fn(&str, u16) -> String,
) -> Result<Ports<'a>, Flaw> {
    let mut outside: Vec<&PortLine<'_>> = Vec::new();
    let mut known: BTreeMap<(&str, u16), (&str, u16)> = BTreeMap::new();
    let mut ports = Ports::new();
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
        let Some(to) = nodes.get(port.peer) else {
            outside.push(port);
            continue;
        };
        let channel = Partial { rate: port.rate, delay: None };
        let link = draft.link([nodes[block.id], *to], [channel; 2]);
        for (end, at) in [own, peer].into_iter().enumerate() {
            let port = PortId::of_link(link, end);
            draft.labels.name_port(port, name(at.0, at.1));
            ports.insert(at, port);
        }
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
    Ok(ports)
}
