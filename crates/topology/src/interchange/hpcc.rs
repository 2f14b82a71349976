//! The `topology.txt` of the HPCC simulator (Li et al., SIGCOMM 2019) and its many descendants on ns-3.
//!
//! The file contains `nodes switches links`, the ids of the switches, then a line `a b rate delay error_rate`
//! for each link. The HPCC simulator stops reading there, so this writer puts names and levels into comments
//! after the last link. A node without such a comment is named by its id, as in the flow files of the same
//! simulator ("0", "320"). The reader skips packet error rates, with a note.

use super::attributes::{Attributes, channels};
use super::draft::{Draft, number};
use super::{Defaults, Flaw, Import};
use crate::{Link, NodeKind, Topology};
use pauseframe_units::{BitRate, NodeId, Span};
use std::fmt::Write;

/// Comments after the last link begin with this text: `# node 3 level 1 "leaf0"`; an unknown level is
/// omitted.
const NODE_MARK: &str = "# node ";

/// The words of a file with their line numbers; comment lines are kept separately.
struct Words<'a> {
    words: Vec<(usize, &'a str)>,
    next: usize,
}

impl<'a> Words<'a> {
    fn next(&mut self, what: &str) -> Result<(usize, &'a str), Flaw> {
        let last = self.words.last().map_or(1, |(line, _)| *line);
        let word = self.words.get(self.next).copied();
        self.next += 1;
        word.ok_or_else(|| Flaw::line(last, format!("the file ends where {what} should follow")))
    }

    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<(usize, T), Flaw> {
        let (line, word) = self.next(what)?;
        Ok((line, number(word, what).map_err(Flaw::on(line))?))
    }
}

struct Naming {
    /// Line of the comment that names the node, if there is one.
    line: Option<usize>,
    name: String,
    level: Option<u8>,
}

pub(super) fn read(text: &str, defaults: Defaults) -> Result<Import, Flaw> {
    let lines = || text.lines().enumerate().map(|(i, line)| (i + 1, line));
    let data = lines().filter(|(_, line)| !line.trim_start().starts_with('#'));
    let words = data.flat_map(|(i, line)| line.split_whitespace().map(move |word| (i, word))).collect();
    let mut words = Words { words, next: 0 };
    let (_, nodes) = words.number::<usize>("the number of nodes")?;
    let (_, switches) = words.number::<usize>("the number of switches")?;
    let (line, links) = words.number::<usize>("the number of links")?;
    if nodes.max(links) > text.len() {
        return Err(Flaw::line(
            line,
            format!("{nodes} nodes and {links} links cannot be in so short a file"),
        ));
    }
    let mut kinds = vec![NodeKind::Host; nodes];
    for _ in 0..switches {
        let (line, id) = words.number::<usize>("the id of a switch")?;
        *kinds.get_mut(id).ok_or_else(|| out_of_range(line, id, nodes))? = NodeKind::Switch;
    }
    let names = namings(lines(), &kinds)?;
    let mut draft = Draft::new(defaults);
    for (kind, Naming { line, name, level }) in kinds.into_iter().zip(names) {
        let flaw =
            |message: String| line.map_or(Flaw::of_file(message.clone()), |line| Flaw::line(line, message));
        draft.node(&name, kind, level).map_err(flaw)?;
    }
    let mut lossy = 0;
    for _ in 0..links {
        lossy += usize::from(read_link(&mut words, nodes, &mut draft)?);
    }
    // The HPCC simulator never reads what follows.
    if let Some((line, _)) = words.words.get(words.next) {
        draft
            .notes
            .push(format!("line {line} and all behind it were left out: the first line says {links} links"));
    }
    if lossy > 0 {
        draft.notes.push(format!("{lossy} of {links} links have an error rate above 0: it was left out"));
    }
    Ok(draft.finish())
}

fn out_of_range(line: usize, id: usize, nodes: usize) -> Flaw {
    Flaw::line(line, format!("there is no node {id}: the first line says {nodes} nodes, counted from 0"))
}

/// Adds the next link; returns true if the link has an error rate.
fn read_link(words: &mut Words<'_>, nodes: usize, draft: &mut Draft) -> Result<bool, Flaw> {
    let mut end = || -> Result<(usize, NodeId), Flaw> {
        let (line, id) = words.number::<usize>("the id of a node")?;
        if id < nodes { Ok((line, NodeId(id as u32))) } else { Err(out_of_range(line, id, nodes)) }
    };
    let ((line, a), (_, b)) = (end()?, end()?);
    let rate = words.next("the rate of a link")?.1;
    let delay = words.next("the delay of a link")?.1;
    let (error_line, error) = words.next("the error rate of a link")?;
    let error: f64 = error
        .parse()
        .map_err(|_| Flaw::line(error_line, format!("{error:?} is not an error rate such as 0.0")))?;
    let attributes = [("rate", rate), ("delay", delay)].map(|(key, text)| (key.to_owned(), text.to_owned()));
    let channels = channels(&Attributes::from(attributes)).map_err(Flaw::on(line))?;
    draft.link([a, b], channels);
    Ok(error > 0.0)
}

/// Returns the name of each node: the name in our comment, else the node's id.
fn namings<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    kinds: &[NodeKind],
) -> Result<Vec<Naming>, Flaw> {
    let default = |id: usize| Naming { line: None, name: id.to_string(), level: None };
    let mut names: Vec<_> = (0..kinds.len()).map(default).collect();
    for (line, text) in lines {
        let Some(rest) = text.strip_prefix(NODE_MARK) else { continue };
        let bad = || Flaw::line(line, "a comment on a node looks like: # node 3 level 1 \"leaf0\"");
        let (head, name) = rest.split_once('"').ok_or_else(bad)?;
        let name = serde_json::from_str(&format!("\"{name}")).map_err(|_| bad())?;
        let head: Vec<_> = head.split_whitespace().collect();
        let (id, level) = match head[..] {
            [id] => (id, None),
            [id, "level", level] => (id, Some(level.parse().map_err(|_| bad())?)),
            _ => return Err(bad()),
        };
        let id = id.parse::<usize>().map_err(|_| bad())?;
        *names.get_mut(id).ok_or_else(|| out_of_range(line, id, kinds.len()))? =
            Naming { line: Some(line), name, level };
    }
    Ok(names)
}

pub(super) fn write(topology: &Topology) -> Result<String, Flaw> {
    let switches: Vec<_> = topology.switches().map(|node| node.0.to_string()).collect();
    let counts = [topology.nodes().len(), switches.len(), topology.links().len()];
    let mut text = format!("{} {} {}\n{}\n", counts[0], counts[1], counts[2], switches.join(" "));
    for link in topology.links() {
        let [a, b] = link.ends;
        let channel = symmetric(topology, link)?;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {} {} {} 0", a.0, b.0, ns3_rate(channel.rate), ns3_time(channel.delay));
    }
    for (id, node) in topology.nodes().iter_enumerated() {
        let level = node.level.map_or(String::new(), |level| format!("level {level} "));
        let name = serde_json::Value::from(node.name.as_str());
        let _ = writeln!(text, "{NODE_MARK}{} {level}{name}", id.0);
    }
    Ok(text)
}

fn symmetric(topology: &Topology, link: &Link) -> Result<crate::Channel, Flaw> {
    let [forth, back] = link.channels;
    if forth == back {
        return Ok(forth);
    }
    let [a, b] = link.ends.map(|end| &topology.nodes()[end].name);
    Err(Flaw::of_file(format!(
        "the directions of the link between {a:?} and {b:?} differ, which this format cannot say: use graphml \
         or node-link"
    )))
}

/// Formats a rate as ns-3's `DataRate`: without a space and without the unit Tbps.
fn ns3_rate(BitRate(rate): BitRate) -> String {
    let steps = [(1_000_000_000, "Gbps"), (1_000_000, "Mbps"), (1_000, "Kbps")];
    let step = steps.into_iter().find(|(scale, _)| rate >= *scale && rate % scale == 0);
    step.map_or(format!("{rate}bps"), |(scale, unit)| format!("{}{unit}", rate / scale))
}

/// Formats a time as ns-3's `Time`: in whole nanoseconds (ns-3's resolution) if that is exact.
fn ns3_time(Span(delay): Span) -> String {
    if delay.is_multiple_of(1000) { format!("{}ns", delay / 1000) } else { format!("{delay}ps") }
}
