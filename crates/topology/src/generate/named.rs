//! Families by a short text, as on a command line: `fat_tree:k=6`, `jellyfish:switches=225,network_ports=32,
//! hosts_per_switch=32,seed=7`.
//!
//! Every family also takes `rate`, `delay` (links at hosts; 10 Gbps and 1 us without), `fabric_rate` and
//! `fabric_delay` (links between switches; as those at hosts without). Lists are written `8x2`.

use super::{
    Dragonfly, GenerateError, Jellyfish, dragonfly, dumbbell, fat_tree, jellyfish, leaf_spine, line, pgft,
    ring, star, torus, xgft,
};
use crate::interchange::did_you_mean;
use crate::{Channel, Topology};
use pauseframe_units::{BitRate, Span};
use std::error::Error;
use std::num::ParseIntError;
use std::str::FromStr;
use thiserror::Error;

/// Why a text is no family with its parameters.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NamedError {
    /// The text does not say what is needed.
    #[error("{0}")]
    Text(String),
    /// The generator refused.
    #[error(transparent)]
    Generate(#[from] GenerateError),
}

/// Builds a family from the parameters that were given, with the links at hosts and between switches.
type Build = fn(&mut Parameters, Channel, Channel) -> Result<Topology, NamedError>;

/// The families: name, parameters as help texts show them, and how one is built.
static FAMILIES: [(&str, &str, Build); 11] = [
    ("fat_tree", "k", |given, host, fabric| Ok(fat_tree(given.take("k")?, host, fabric)?)),
    ("xgft", "m, w (lists: m=4x4,w=1x2)", |given, host, fabric| {
        Ok(xgft(&given.list("m")?, &given.list("w")?, host, fabric)?)
    }),
    ("pgft", "m, w, p (lists: m=4x4,w=1x2,p=1x2)", |given, host, fabric| {
        Ok(pgft(&given.list("m")?, &given.list("w")?, &given.list("p")?, host, fabric)?)
    }),
    ("leaf_spine", "leaves, spines, hosts_per_leaf", |given, host, fabric| {
        let (leaves, spines) = (given.take("leaves")?, given.take("spines")?);
        Ok(leaf_spine(leaves, spines, given.take("hosts_per_leaf")?, host, fabric)?)
    }),
    (
        "jellyfish",
        "switches, network_ports (or ports, of all kinds), hosts_per_switch, seed = 1",
        |given, host, fabric| Ok(jellyfish(jellyfish_size(given)?, given.or("seed", 1)?, host, fabric)?),
    ),
    ("torus", "lengths (a list: lengths=4x4), hosts_per_switch = 1", |given, host, fabric| {
        Ok(torus(&given.list("lengths")?, given.or("hosts_per_switch", 1)?, host, fabric)?)
    }),
    ("dragonfly", "p, a, h, g", |given, host, fabric| {
        let [p, a, h, g] = [given.take("p")?, given.take("a")?, given.take("h")?, given.take("g")?];
        Ok(dragonfly(Dragonfly { p, a, h, g }, host, fabric)?)
    }),
    ("dumbbell", "left, right", |given, host, fabric| {
        Ok(dumbbell(given.take("left")?, given.take("right")?, host, fabric)?)
    }),
    ("star", "hosts", |given, host, _| Ok(star(given.take("hosts")?, host)?)),
    ("line", "switches, hosts_per_switch", |given, host, fabric| {
        Ok(line(given.take("switches")?, given.take("hosts_per_switch")?, host, fabric)?)
    }),
    ("ring", "switches, hosts_per_switch", |given, host, fabric| {
        Ok(ring(given.take("switches")?, given.take("hosts_per_switch")?, host, fabric)?)
    }),
];

/// The names of the families, each with its parameters, for help texts.
pub fn families() -> impl Iterator<Item = (&'static str, &'static str)> {
    FAMILIES.iter().map(|&(name, keys, _)| (name, keys))
}

/// Builds the family that `text` names.
///
/// # Errors
/// If the family or a parameter is not known, is missing or does not parse, or the generator refuses.
pub fn named(text: &str) -> Result<Topology, NamedError> {
    let (family, rest) = text.split_once(':').unwrap_or((text, ""));
    let family = family.trim();
    let Some(&(_, _, build)) = FAMILIES.iter().find(|(name, ..)| *name == family) else {
        let names: Vec<String> = families().map(|(name, _)| name.to_owned()).collect();
        let near = did_you_mean(family, names.iter());
        let all = names.join(", ");
        return Err(NamedError::Text(format!("there is no family {family:?}{near}; there are {all}")));
    };
    let mut given = Parameters::parse(family, rest)?;
    let rate = given.or("rate", BitRate::gbps(10))?;
    let delay = given.or("delay", Span::from_us(1))?;
    let host = Channel { rate, delay };
    let fabric = Channel { rate: given.or("fabric_rate", rate)?, delay: given.or("fabric_delay", delay)? };
    let topology = build(&mut given, host, fabric)?;
    given.finish()?;
    Ok(topology)
}

/// `ports` are those of a switch in all; what the hosts leave is for the network.
fn jellyfish_size(given: &mut Parameters) -> Result<Jellyfish, NamedError> {
    let switches = given.take("switches")?;
    let hosts_per_switch: u32 = given.take("hosts_per_switch")?;
    let ports: Option<u32> = given.optional("ports")?;
    let network_ports = match ports {
        None => given.take("network_ports")?,
        Some(ports) => ports.checked_sub(hosts_per_switch).ok_or_else(|| {
            NamedError::Text(format!("jellyfish: {hosts_per_switch} hosts do not fit on {ports} ports"))
        })?,
    };
    Ok(Jellyfish { switches, network_ports, hosts_per_switch })
}

/// What stands after the colon and has not been asked for yet.
struct Parameters {
    family: String,
    left: Vec<(String, String)>,
    asked: Vec<String>,
}

impl Parameters {
    fn parse(family: &str, text: &str) -> Result<Parameters, NamedError> {
        let mut left: Vec<(String, String)> = Vec::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(NamedError::Text(format!(
                    "{family}: {part:?} is not of the form parameter=value"
                )));
            };
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            if left.iter().any(|(other, _)| *other == key) {
                return Err(NamedError::Text(format!("{family}: {key} is given twice")));
            }
            left.push((key, value));
        }
        Ok(Parameters { family: family.to_owned(), left, asked: Vec::new() })
    }

    fn text(&mut self, key: &str) -> Option<String> {
        self.asked.push(key.to_owned());
        let place = self.left.iter().position(|(given, _)| given == key)?;
        Some(self.left.remove(place).1)
    }

    fn optional<T: FromStr<Err: Error + 'static>>(&mut self, key: &str) -> Result<Option<T>, NamedError> {
        let Some(value) = self.text(key) else { return Ok(None) };
        let family = &self.family;
        let wrong = |why: T::Err| match (&why as &dyn Error).downcast_ref::<ParseIntError>() {
            Some(_) => {
                NamedError::Text(format!("{family}: {key} = {value:?} is not a whole number in its range"))
            }
            None => NamedError::Text(format!("{family}: {key} = {value:?}: {why}")),
        };
        value.parse().map(Some).map_err(wrong)
    }

    fn or<T: FromStr<Err: Error + 'static>>(&mut self, key: &str, default: T) -> Result<T, NamedError> {
        Ok(self.optional(key)?.unwrap_or(default))
    }

    fn take<T: FromStr<Err: Error + 'static>>(&mut self, key: &str) -> Result<T, NamedError> {
        self.optional(key)?.ok_or_else(|| self.missing(key))
    }

    fn list(&mut self, key: &str) -> Result<Vec<u32>, NamedError> {
        let text = self.text(key).ok_or_else(|| self.missing(key))?;
        let family = &self.family;
        let wrong = |_| {
            NamedError::Text(format!("{family}: {key} = {text:?} is not a list of whole numbers such as 8x2"))
        };
        text.split('x').map(|item| item.parse().map_err(wrong)).collect()
    }

    fn missing(&self, key: &str) -> NamedError {
        let all = families().find(|(name, _)| *name == self.family).map_or("", |(_, keys)| keys);
        NamedError::Text(format!("{}: {key} is missing; its parameters are {all}", self.family))
    }

    fn finish(self) -> Result<(), NamedError> {
        let Some((key, _)) = self.left.first() else { return Ok(()) };
        let near = did_you_mean(key, self.asked.iter());
        Err(NamedError::Text(format!("{}: there is no parameter {key:?}{near}", self.family)))
    }
}
