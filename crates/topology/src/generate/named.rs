//! Generates a topology from a short text, as on a command line: `fat_tree:k=6`,
//! `jellyfish:switches=225,network_ports=32,hosts_per_switch=32,seed=7`.
//!
//! Each family declares its keys. Every family also accepts `rate` and `delay` for links at hosts (defaults:
//! 10 Gbps and 1 us), and `fabric_rate` and `fabric_delay` for links between switches (defaults: the values
//! of the links at hosts), `ports_per_host` and `planes` ([`Homes`]). Lists are written `8x2`. For a Jellyfish, `ports` (all ports of a switch) can
//! replace `network_ports`.

use super::{FamilyKind, GenerateError, Homes};
use crate::interchange::{did_you_mean, hint};
use crate::{Channel, Topology};
use pauseframe_schema::docs::OptionDoc;
use pauseframe_schema::document::{Item, Place, Value, parse_word};
use pauseframe_schema::language::Language;
use pauseframe_schema::ledger::Ledger;
use pauseframe_schema::reader::Table;
use pauseframe_schema::shape::Shape;
use pauseframe_units::{BitRate, Span, counted};
use std::collections::BTreeMap;
use std::str::FromStr;
use thiserror::Error;

/// Reasons why a text does not describe a topology.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum NamedError {
    /// The text is malformed, or a parameter is unknown or missing.
    #[error("{0}")]
    Text(String),
    /// The generator rejected the parameters.
    #[error(transparent)]
    Generate(#[from] GenerateError),
}

/// The keys that set rates and delays of links in a text.
const LINKS: [&str; 4] = ["rate", "delay", "fabric_rate", "fabric_delay"];
/// The keys that set the ports of hosts in a text.
const HOMES: [&str; 2] = ["ports_per_host", "planes"];

static LANGUAGE: Language = Language::new(|ledger| drop(read(ledger)), &[], &[]);

fn read(ledger: &mut Ledger) -> Option<FamilyKind> {
    let mut table = Table::root(ledger);
    let family = FamilyKind::read(&mut table, "kind", None, "Family of the fabric");
    table.finish();
    family
}

/// Returns the keys of a family.
fn keys(family: &str) -> impl Iterator<Item = &'static OptionDoc> {
    let when = format!("kind = {family}");
    LANGUAGE.options().iter().filter(move |option| option.when == when)
}

/// Returns the names of the families, each with its parameters, for help texts.
pub fn families() -> impl Iterator<Item = (&'static str, String)> {
    FamilyKind::NAMES.iter().map(|&(name, _)| (name, parameters(name)))
}

fn parameters(family: &str) -> String {
    let shown = |key: &OptionDoc| match (&key.shape, key.default.as_str()) {
        (Shape::List(_), "required") => format!("{0} (a list: {0}=4x4)", key.path),
        (_, "required") if key.path == "network_ports" => "network_ports (or ports, of all kinds)".to_owned(),
        (_, "required") => key.path.clone(),
        (_, default) => format!("{} = {default}", key.path),
    };
    keys(family).map(shown).collect::<Vec<_>>().join(", ")
}

/// Builds the topology that `text` describes.
///
/// # Errors
/// If the family or a parameter is unknown, a parameter is missing or cannot be parsed, or the generator
/// rejects the parameters.
pub fn named(text: &str) -> Result<Topology, NamedError> {
    let (family, rest) = text.split_once(':').unwrap_or((text, ""));
    let family = family.trim();
    let names: Vec<String> = FamilyKind::NAMES.iter().map(|(name, _)| (*name).to_owned()).collect();
    if !names.iter().any(|name| name == family) {
        let hint = hint(&did_you_mean(family, names.iter()), &names);
        return Err(NamedError::Text(format!("there is no family {family:?}{hint}")));
    }
    build(family, rest).map_err(|error| match error {
        NamedError::Text(why) => NamedError::Text(format!("{family}: {why}")),
        refused @ NamedError::Generate(_) => refused,
    })
}

fn build(family: &str, rest: &str) -> Result<Topology, NamedError> {
    let mut given = pairs(rest)?;
    if family == "jellyfish" {
        count_network_ports(&mut given)?;
    }
    check_names(family, &given)?;
    let host = Channel {
        rate: quantity(&given, "rate", BitRate::gbps(10))?,
        delay: quantity(&given, "delay", Span::from_us(1))?,
    };
    let fabric = Channel {
        rate: quantity(&given, "fabric_rate", host.rate)?,
        delay: quantity(&given, "fabric_delay", host.delay)?,
    };
    let [ports_per_host, planes] = HOMES.map(|key| ports(&given, key));
    let homes = Homes { ports_per_host: ports_per_host?, planes: planes?, peer_links: 0 };
    Ok(homes.apply(declared(family, &given)?.generate(host, fabric)?)?)
}

fn ports(given: &BTreeMap<&str, String>, key: &str) -> Result<u32, NamedError> {
    let count = quantity(given, key, 1)?;
    if (1..=64).contains(&count) { Ok(count) } else { wrong(format!("{key} = {count}: expected 1 to 64")) }
}

/// Reads the keys with the reader that the family declares.
fn declared(family: &str, given: &BTreeMap<&str, String>) -> Result<FamilyKind, NamedError> {
    let mut root = Item::table(Place::Set);
    root.insert("kind", Item { value: Value::Text(family.to_owned()), place: Place::Set });
    for key in keys(family) {
        match given.get(key.path.as_str()) {
            Some(text) => root.insert(&key.path, item(key, text)?),
            None if key.default == "required" => {
                let all = parameters(family);
                return wrong(format!("{} is missing; its parameters are {all}", key.path));
            }
            None => {}
        }
    }
    let mut ledger = Ledger::new(&root, "", &LANGUAGE);
    let read = read(&mut ledger);
    match (read, ledger.close()) {
        (Some(family), Ok(_)) => Ok(family),
        (_, Err(problems)) => {
            let lines = problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message));
            wrong(lines.collect::<Vec<_>>().join("; "))
        }
        (None, Ok(_)) => wrong("it cannot be read".to_owned()),
    }
}

/// Converts a value to the TOML item that a scenario would contain.
fn item(key: &OptionDoc, text: &str) -> Result<Item, NamedError> {
    if !matches!(key.shape, Shape::List(_)) {
        return Ok(parse_word(text, Place::Set));
    }
    let number = |part: &str| Some(Item { value: Value::Integer(part.parse().ok()?), place: Place::Set });
    match text.split('x').map(number).collect() {
        Some(numbers) => Ok(Item { value: Value::Array(numbers), place: Place::Set }),
        None => wrong(format!("{} = {text:?} is not a list of whole numbers such as 8x2", key.path)),
    }
}

/// Parses the `key=value` pairs after the colon.
fn pairs(text: &str) -> Result<BTreeMap<&str, String>, NamedError> {
    let mut found = BTreeMap::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((key, value)) = part.split_once('=') else {
            let list = if part.parse::<u32>().is_ok() { "; lists are written 4x4" } else { "" };
            return wrong(format!("{part:?} is not of the form parameter=value{list}"));
        };
        if found.insert(key.trim(), value.trim().to_owned()).is_some() {
            return wrong(format!("{} is given twice", key.trim()));
        }
    }
    Ok(found)
}

fn check_names(family: &str, given: &BTreeMap<&str, String>) -> Result<(), NamedError> {
    let known: Vec<String> = keys(family)
        .map(|key| key.path.clone())
        .chain(LINKS.into_iter().chain(HOMES).map(str::to_owned))
        .collect();
    let Some(key) = given.keys().find(|key| !known.iter().any(|name| name == *key)) else { return Ok(()) };
    wrong(format!("there is no parameter {key:?}{}", did_you_mean(key, known.iter())))
}

fn quantity<T: FromStr>(given: &BTreeMap<&str, String>, key: &str, default: T) -> Result<T, NamedError>
where
    T::Err: std::fmt::Display,
{
    let Some(value) = given.get(key) else { return Ok(default) };
    value.parse().map_err(|why| NamedError::Text(format!("{key} = {value:?}: {why}")))
}

/// Replaces `ports`, the number of all ports of a switch, by `network_ports`: the ports that the hosts leave
/// free.
fn count_network_ports(given: &mut BTreeMap<&str, String>) -> Result<(), NamedError> {
    let Some(ports) = given.remove("ports") else { return Ok(()) };
    if given.contains_key("network_ports") {
        return wrong("give ports or network_ports, not both".to_owned());
    }
    let whole = |key: &str, text: &str| {
        text.parse::<u32>().map_err(|_| NamedError::Text(format!("{key} = {text:?} is not a whole number")))
    };
    let hosts = given.get("hosts_per_switch").map_or("0", String::as_str);
    let (ports, hosts) = (whole("ports", &ports)?, whole("hosts_per_switch", hosts)?);
    let Some(left) = ports.checked_sub(hosts) else {
        return wrong(format!("they do not fit: {} on {}", counted(hosts, "host"), counted(ports, "port")));
    };
    given.insert("network_ports", left.to_string());
    Ok(())
}

fn wrong<T>(why: String) -> Result<T, NamedError> {
    Err(NamedError::Text(why))
}
