//! The `topology.txt` of the HPCC simulator (Li et al., SIGCOMM 2019) and its many descendants on ns-3.
//!
//! The file contains `nodes switches links`, the ids of the switches, then a line `a b rate delay error_rate`
//! for each link. The first line of `PowerTCP` has four words (`nodes switches tors links`), that of `SimAI` six
//! (`nodes gpus_per_server nvswitches switches links gpu_type`, and the ids of its `NVSwitches` come first).
//! Rates and delays are in ns-3's notation: `100Gbps`, `100Gb/s`, `25000000000.0` (bit/s), `0.001ms`. An error
//! rate is the probability that a frame is damaged, in both directions ([`Labels::frame_errors`]).
//!
//! The HPCC simulator stops reading after the last link, so this writer puts names and levels into comments
//! there. A node without such a comment is named by its id, as in the flow files of the same simulator ("0",
//! "320"); an `NVSwitch` is called `nvswitch320`.
//!
//! [`Labels::frame_errors`]: super::Labels::frame_errors

use super::draft::{Draft, Partial, number};
use super::{Defaults, Flaw, Import, Labels};
use crate::{Link, NodeKind, Topology};
use pauseframe_units::{BitRate, NodeId, Span, counted};
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
    fn of(lines: impl Iterator<Item = (usize, &'a str)>) -> Words<'a> {
        let data = lines.map(|(i, line)| (i, line.split('#').next().unwrap_or("")));
        let words = data.flat_map(|(i, line)| line.split_whitespace().map(move |word| (i, word)));
        Words { words: words.collect(), next: 0 }
    }

    /// Number of words in the first line.
    fn in_first_line(&self) -> usize {
        let first = self.words.first().map_or(1, |(line, _)| *line);
        self.words.iter().take_while(|(line, _)| *line == first).count()
    }

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

/// The counts of the first line.
struct Counts {
    line: usize,
    /// The form of `PowerTCP` or `SimAI`.
    is_of_fork: bool,
    nodes: usize,
    nvswitches: usize,
    switches: usize,
    links: usize,
}

impl Counts {
    /// Reads the first line of the HPCC simulator, of `PowerTCP` or of `SimAI`, which differ in the number of words.
    fn read(words: &mut Words<'_>) -> Result<Counts, Flaw> {
        let form = words.in_first_line();
        let (_, nodes) = words.number::<usize>("the number of nodes")?;
        let mut nvswitches = 0;
        if form == 6 {
            words.number::<usize>("the number of GPUs of a server")?;
            nvswitches = words.number("the number of NVSwitches")?.1;
        }
        let (_, switches) = words.number::<usize>("the number of switches")?;
        if form == 4 {
            words.number::<usize>("the number of ToR switches")?;
        }
        let (line, links) = words.number::<usize>("the number of links")?;
        if form == 6 {
            words.next("the type of the GPUs")?;
        }
        if form == 5 || form > 6 {
            return Err(Flaw::line(
                line,
                format!(
                    "{form} words: the first line has 3 (nodes switches links), 4 (PowerTCP: nodes switches tors \
                     links) or 6 (SimAI: nodes gpus_per_server nvswitches switches links gpu_type)"
                ),
            ));
        }
        Ok(Counts { line, is_of_fork: form > 3, nodes, nvswitches, switches, links })
    }
}

pub(super) fn read(text: &str, defaults: Defaults) -> Result<Import, Flaw> {
    // Editors of some systems put a byte order mark in front.
    let text = text.trim_start_matches('\u{feff}');
    let lines = || text.lines().enumerate().map(|(i, line)| (i + 1, line));
    let mut words = Words::of(lines());
    let counts = Counts::read(&mut words)?;
    let Counts { line, nodes, nvswitches, switches, links, .. } = counts;
    if nodes.max(links) > text.len() {
        return Err(Flaw::line(
            line,
            format!("{} and {} cannot be in so short a file", counted(nodes, "node"), counted(links, "link")),
        ));
    }
    let mut kinds = vec![NodeKind::Host; nodes];
    let mut scale_up = Vec::new();
    for position in 0..nvswitches.saturating_add(switches) {
        let (line, id) = words.number::<usize>("the id of a switch")?;
        let kind = kinds.get_mut(id).ok_or_else(|| out_of_range(line, id, nodes))?;
        if std::mem::replace(kind, NodeKind::Switch) == NodeKind::Switch {
            return Err(Flaw::line(line, format!("switch {id} is listed twice")));
        }
        if position < nvswitches {
            scale_up.push(id);
        }
    }
    let names = namings(lines(), &kinds, &scale_up)?;
    let mut draft = Draft::new(defaults);
    for (kind, Naming { line, name, level }) in kinds.into_iter().zip(names) {
        let flaw =
            |message: String| line.map_or(Flaw::of_file(message.clone()), |line| Flaw::line(line, message));
        draft.node(&name, kind, level).map_err(flaw)?;
    }
    for id in &scale_up {
        draft.labels.mark_scale_up(NodeId(*id as u32));
    }
    for read in 0..links {
        // Headers of PowerTCP and SimAI that people adapt by hand often count wrongly.
        if words.next == words.words.len() && counts.is_of_fork && read > 0 {
            draft
                .notes
                .push(format!("the first line says {}, and the file has {read}", counted(links, "link")));
            break;
        }
        read_link(&mut words, nodes, &mut draft)?;
    }
    // The HPCC simulator never reads what follows.
    if let Some((line, _)) = words.words.get(words.next) {
        let links = counted(links, "link");
        draft.notes.push(format!("line {line} and all behind it were left out: the first line says {links}"));
    }
    if nvswitches > 0 {
        draft.notes.push(format!(
            "{} shown as switches: `pauseframe import simai` makes a scenario of this file",
            counted(nvswitches, "NVSwitch")
        ));
    }
    Ok(draft.finish())
}

fn out_of_range(line: usize, id: usize, nodes: usize) -> Flaw {
    let nodes = counted(nodes, "node");
    Flaw::line(line, format!("there is no node {id}: the first line says {nodes}, counted from 0"))
}

/// A slower link of a datacenter is likely to lack its unit.
const SLOWEST_LIKELY: BitRate = BitRate(1_000_000);

/// Adds the next link.
fn read_link(words: &mut Words<'_>, nodes: usize, draft: &mut Draft) -> Result<(), Flaw> {
    let mut end = || -> Result<NodeId, Flaw> {
        let (line, id) = words.number::<usize>("the id of a node")?;
        if id < nodes { Ok(NodeId(id as u32)) } else { Err(out_of_range(line, id, nodes)) }
    };
    let ends = [end()?, end()?];
    let (line, rate) = words.next("the rate of a link")?;
    let text = rate;
    let rate = rate_of_ns3(text).map_err(Flaw::on(line))?;
    if rate < SLOWEST_LIKELY {
        let note = format!(
            "line {line}: the rate {text} is {rate}; a rate without a unit counts bits per second, as in ns-3"
        );
        draft.notes.push(note);
    }
    let (line, delay) = words.next("the delay of a link")?;
    let delay = time_of_ns3(delay).map_err(Flaw::on(line))?;
    let (line, error) = words.next("the error rate of a link")?;
    let ratio = error.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    let ratio: f64 =
        ratio.ok_or_else(|| Flaw::line(line, format!("{error:?} is not an error rate from 0 to 1")))?;
    let link = draft.link(ends, [Partial { rate: Some(rate), delay: Some(delay) }; 2]);
    if ratio > 0.0 {
        draft.labels.set_frame_error(link, ratio);
    }
    Ok(())
}

/// Splits "100Gbps" into number and unit.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let is_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
    let (number, unit) = text.split_at(text.find(|c| !is_number(c)).unwrap_or(text.len()));
    Some((number.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?, unit))
}

/// Parses a rate as ns-3's `DataRate` does: `100Gbps`, `100Gb/s`, `12.5GBps` (bytes), or bits per second without
/// a unit.
fn rate_of_ns3(text: &str) -> Result<BitRate, String> {
    let parse = || {
        let (number, unit) = number_and_unit(text)?;
        let bits = [("bps", 1.0), ("b/s", 1.0), ("Bps", 8.0), ("B/s", 8.0)];
        let (prefix, bits) = if unit.is_empty() {
            ("", 1.0)
        } else {
            bits.iter().find_map(|(name, bits)| Some((unit.strip_suffix(name)?, *bits)))?
        };
        let scale = match prefix {
            "" => 1.0,
            "k" | "K" => 1e3,
            "M" => 1e6,
            "G" => 1e9,
            "T" => 1e12,
            "Ki" => 1024.0,
            "Mi" => 1_048_576.0,
            "Gi" => 1_073_741_824.0,
            _ => return None,
        };
        let rate = (number * bits * scale).round();
        (rate < 1e18).then_some(BitRate(rate as u64))
    };
    parse().ok_or_else(|| {
        format!("{text:?} is not a rate of ns-3, such as 100Gbps, 100Gb/s or 100000000000 (bit/s)")
    })
}

/// Parses a time as ns-3's `Time` does: `1us`, `0.001ms`, or seconds without a unit.
fn time_of_ns3(text: &str) -> Result<Span, String> {
    let parse = || {
        let (number, unit) = number_and_unit(text)?;
        let picoseconds = match unit {
            "" | "s" => 1e12,
            "ms" => 1e9,
            "us" => 1e6,
            "ns" => 1e3,
            "ps" => 1.0,
            "fs" => 1e-3,
            "min" => 6e13,
            _ => return None,
        };
        let time = (number * picoseconds).round();
        (time < 1e18).then_some(Span(time as u64))
    };
    parse()
        .ok_or_else(|| format!("{text:?} is not a time of ns-3, such as 1us, 1000ns or 0.000001 (seconds)"))
}

/// Returns the name of each node: the name in our comment, else the node's id.
fn namings<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    kinds: &[NodeKind],
    scale_up: &[usize],
) -> Result<Vec<Naming>, Flaw> {
    let default = |id: usize| Naming { line: None, name: id.to_string(), level: None };
    let mut names: Vec<_> = (0..kinds.len()).map(default).collect();
    for id in scale_up {
        names[*id].name = format!("nvswitch{id}");
    }
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

pub(super) fn write(topology: &Topology, labels: &Labels) -> Result<String, Flaw> {
    let switches: Vec<_> = topology.switches().map(|node| node.0.to_string()).collect();
    let counts = [topology.nodes().len(), switches.len(), topology.links().len()];
    let mut text = format!("{} {} {}\n{}\n", counts[0], counts[1], counts[2], switches.join(" "));
    for (id, link) in topology.links().iter_enumerated() {
        let [a, b] = link.ends;
        let channel = symmetric(topology, link)?;
        let (rate, delay) = (ns3_rate(channel.rate), ns3_time(channel.delay));
        let error = labels.frame_error(id).unwrap_or(0.0);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {} {rate} {delay} {error}", a.0, b.0);
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
