//! Code shared by the kinds of topologies: their trait, the links, and flaws of graphs.

use pauseframe_schema::table;
use pauseframe_topology::generate::GenerateError;
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{Channel, Topology, check};
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
    pub(crate) fabric: LinkSpec,
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
        rate: BitRate = or_in(BitRate::gbps(10), RATES);
        /// Propagation delay, one way
        delay: Span = or_in(Span::from_us(1), DELAYS);
    }
    pub fn read(t);
}

impl LinkSpec {
    pub(crate) fn channel(self) -> Channel {
        Channel { rate: self.rate, delay: self.delay }
    }
}

/// The result of a generator, if it is a fabric.
pub(crate) fn generated(topology: Result<Topology, GenerateError>) -> Result<Topology, Vec<Flaw>> {
    sound(topology.map_err(|error| vec![parameter(&error)])?)
}

/// A generator's error at the key that it concerns.
fn parameter(error: &GenerateError) -> Flaw {
    match error {
        GenerateError::Parameter { parameter, value, allowed, .. }
            if parameter.chars().all(|c| c.is_ascii_alphabetic() || c == '_') =>
        {
            (format!("topology.{parameter}"), format!("{value} is not possible: {allowed}"), String::new())
        }
        _ => ("topology".to_owned(), error.to_string(), String::new()),
    }
}

/// The graph, unless hosts have no link or two, or it is disconnected.
pub(crate) fn sound(topology: Topology) -> Result<Topology, Vec<Flaw>> {
    let errors = check(&topology);
    if errors.is_empty() {
        return Ok(topology);
    }
    Err(errors.iter().map(|error| ("topology".to_owned(), error.to_string(), String::new())).collect())
}
