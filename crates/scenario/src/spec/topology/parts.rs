//! Code shared by the kinds of topologies: their trait, the links, and flaws of graphs.

use pauseframe_schema::table;
use pauseframe_topology::generate::GenerateError;
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{Channel, Topology};
use pauseframe_units::{BitRate, Span};
use std::ops::RangeInclusive;
use std::path::Path;

/// A flaw of a graph: path, message, hint.
pub(crate) type Flaw = (String, String, String);

/// A kind of topology.
pub trait Graph {
    /// The graph, with these links at hosts and between switches; or its flaws.
    ///
    /// # Errors
    /// Path, message and hint of each flaw.
    fn graph(&self, host: LinkSpec, fabric: LinkSpec) -> Result<Topology, Vec<Flaw>>;
    /// Names of ports and further addresses of nodes, if a file has them.
    fn labels(&self) -> Labels {
        Labels::default()
    }
}

/// Input of the readers of kinds.
pub struct Links<'a> {
    pub(crate) host: LinkSpec,
    /// The folder of relative file names.
    pub(crate) base_dir: &'a Path,
}

/// Limits of plausible link rates; above the highest, a byte takes less than two picoseconds.
pub(crate) const RATES: RangeInclusive<BitRate> = BitRate(1_000)..=BitRate(4_000_000_000_000);
/// The longest plausible delay: from the Earth to the Moon it is 1.3 s.
pub(crate) const DELAYS: RangeInclusive<Span> = Span::ZERO..=Span::from_secs(10);

table! {
    /// Rate and one-way delay of a link, both directions
    #[derive(Copy)]
    pub struct LinkSpec {
        /// Rate of the links at hosts, per direction
        rate: BitRate = or_in(LinkSpec::DEFAULT.rate, RATES);
        /// Propagation delay, one way
        delay: Span = or_in(LinkSpec::DEFAULT.delay, DELAYS);
    }
    pub fn read(t);
}

impl LinkSpec {
    pub(crate) const DEFAULT: LinkSpec = LinkSpec { rate: BitRate::gbps(10), delay: Span::from_us(1) };

    /// The keys whose values differ from those of `other`, each with these values but that of `other` for the key.
    pub(crate) fn without_each(self, other: LinkSpec) -> impl Iterator<Item = (&'static str, LinkSpec)> {
        let rate = ("rate", LinkSpec { rate: other.rate, ..self });
        let delay = ("delay", LinkSpec { delay: other.delay, ..self });
        [rate, delay].into_iter().filter(move |(_, without)| *without != self)
    }

    pub(crate) fn channel(self) -> Channel {
        Channel { rate: self.rate, delay: self.delay }
    }
}

/// The result of a generator, if it is a fabric.
pub(crate) fn generated(topology: Result<Topology, GenerateError>) -> Result<Topology, Vec<Flaw>> {
    sound(&topology.map_err(|error| vec![parameter(&error)])?, &Labels::default())
}

/// A generator's error at the key that it concerns.
fn parameter(error: &GenerateError) -> Flaw {
    match error {
        GenerateError::Parameter { parameter, value, allowed, .. }
            if parameter.chars().all(|c| c.is_ascii_alphabetic() || ['_', '.'].contains(&c)) =>
        {
            (format!("topology.{parameter}"), format!("{value} is not possible: {allowed}"), String::new())
        }
        _ => ("topology".to_owned(), error.to_string(), String::new()),
    }
}

/// Maximum number of flaws in a message; a fabric with a systematic mistake has one at every host.
const FLAWS_MAX: usize = 8;

/// The graph with a node for each port of its hosts, unless hosts have no link, it is disconnected, or rates and delays are implausible.
pub(crate) fn sound(topology: &Topology, labels: &Labels) -> Result<Topology, Vec<Flaw>> {
    let mut errors = labels.problems(topology);
    errors.extend(implausible_channels(topology));
    if errors.is_empty() {
        let split = labels.split_hosts(topology).map(|(topology, _)| topology);
        return split.map_err(|error| vec![("topology".to_owned(), error, String::new())]);
    }
    if errors.len() > FLAWS_MAX {
        let more = errors.len() - FLAWS_MAX;
        errors.truncate(FLAWS_MAX);
        errors.push(format!("{more} more mistakes like these; `pauseframe topo show` lists all"));
    }
    Err(errors.into_iter().map(|error| ("topology".to_owned(), error, String::new())).collect())
}

/// Links of a file whose rate or delay a scenario would not accept.
fn implausible_channels(topology: &Topology) -> Vec<String> {
    let mut errors = Vec::new();
    for link in topology.links() {
        let [a, b] = link.ends.map(|end| &topology.nodes()[end].name);
        // The check of the graph reports rates of zero.
        let ways = link.channels.iter().filter(|channel| channel.rate.0 > 0);
        if let Some(channel) = ways.clone().find(|channel| !RATES.contains(&channel.rate)) {
            let [least, most] = [RATES.start(), RATES.end()];
            errors.push(format!(
                "the link between {a:?} and {b:?} has a rate of {}: {least} to {most} are accepted",
                channel.rate
            ));
        }
        if let Some(channel) = ways.clone().find(|channel| !DELAYS.contains(&channel.delay)) {
            let most = DELAYS.end();
            errors.push(format!(
                "the link between {a:?} and {b:?} has a delay of {}: at most {most} is accepted",
                channel.delay
            ));
        }
    }
    errors
}
