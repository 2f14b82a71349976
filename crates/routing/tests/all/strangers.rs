//! Tests with damaged files: whatever a file contains, a reader returns a topology, tables, or an error with
//! a position.

use crate::common::LINK;
use pauseframe_routing::tables_io::{self, TableFormat};
use pauseframe_routing::verify::{Options, Tables, verify};
use pauseframe_routing::{OrderPair, RoutingEngine};
use pauseframe_topology::interchange::{Defaults, Format, Import, InterchangeError, Labels, read, write};
use pauseframe_topology::{Statistics, SwitchGraph, Topology, check, generate};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use std::collections::BTreeMap;
use std::path::Path;

const DEFAULTS: Defaults = Defaults { channel: LINK };
const FORMATS: [Format; 6] = [
    Format::GraphMl,
    Format::NodeLink,
    Format::Hpcc,
    Format::Htsim,
    Format::Containerlab,
    Format::IbNetDiscover,
];

fn parse(text: &str, format: Format) -> Result<Import, InterchangeError> {
    read(text, format, DEFAULTS)
}

/// Text pieces that a reader may handle wrongly.
const PIECES: [&str; 24] = [
    "\0",
    "\u{1b}[31m",
    "../",
    "-1",
    "99999999999999999999",
    "1e999",
    "NaN",
    "[",
    "{",
    "\"",
    "<graph>",
    "</node>",
    "&lt;",
    "&#0;",
    "- - -",
    "? ",
    "*a",
    "&a ",
    ": ",
    "\n",
    "[1]",
    "4xEDR",
    "nodes",
    "0x",
];

/// `text` with a few bytes changed, pieces inserted, and lines duplicated or removed.
fn mutated(text: &str, rng: &mut Pcg64) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..rng.random_range(1..6) {
        let at = rng.random_range(0..=bytes.len());
        let end = (at + rng.random_range(0..40)).min(bytes.len());
        match rng.random_range(0..5) {
            0 if at < bytes.len() => bytes[at] = rng.random_range(0..128),
            1 => drop(bytes.drain(at..end)),
            2 => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
            3 => drop(bytes.splice(at..at, PIECES[rng.random_range(0..PIECES.len())].bytes())),
            _ => drop(bytes.splice(at..at, rng.random_range(0..=u32::MAX).to_string().bytes())),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// `text` with one digit changed: the result is a valid table more often than after [`mutated`].
fn one_digit(text: &str, rng: &mut Pcg64) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let digits: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at].is_ascii_digit()).collect();
    bytes[digits[rng.random_range(0..digits.len())]] = rng.random_range(b'0'..=b'9');
    String::from_utf8_lossy(&bytes).into_owned()
}

fn sample(format: Format) -> String {
    let fabric = generate::leaf_spine(3, 2, 2, LINK, LINK).unwrap();
    match format {
        Format::IbNetDiscover => include_str!("../../../topology/tests/data/pair.ibnetdiscover").to_owned(),
        Format::Htsim => include_str!("../../../topology/tests/data/small.topo").to_owned(),
        format => write(&fabric, format).unwrap(),
    }
}

#[test]
fn no_mutation_of_a_topology_panics() {
    for (seed, format) in FORMATS.into_iter().enumerate() {
        let (text, mut rng) = (sample(format), Pcg64::seed_from_u64(seed as u64));
        let mut read = 0;
        for _ in 0..3000 {
            let Ok(import) = parse(&mutated(&text, &mut rng), format) else { continue };
            read += 1;
            for node in import.topology.nodes() {
                assert!(!node.name.chars().any(char::is_control), "{:?}", node.name);
            }
            if import.topology.links().len() > 200 {
                continue;
            }
            let _ = check(&import.topology);
            let _ = Statistics::of(&import.topology);
            if let Ok(graph) = SwitchGraph::new(&import.topology) {
                let _ = OrderPair { vlans: 2, ..OrderPair::default() }.plan(&import.topology, &graph);
            }
        }
        assert!(read > 20, "{format}: {read} of 3000 were read, too few to say anything");
    }
}

fn judged(tables: &Tables, topology: &Topology) {
    let _ = verify(topology, tables, &Options { what_ifs: true, ..Options::default() });
}

#[test]
fn no_mutation_of_tables_panics() {
    let fabric = generate::leaf_spine(3, 2, 2, LINK, LINK).unwrap();
    let plan = OrderPair { vlans: 3, ..OrderPair::default() };
    let plan = Tables::of_plan(&plan.plan(&fabric, &SwitchGraph::new(&fabric).unwrap()).unwrap(), 1);
    let none = Labels::default();
    for format in [TableFormat::Csv, TableFormat::Json] {
        let text = tables_io::write(&plan, format, &fabric, &none).unwrap();
        let (mut rng, mut read) = (Pcg64::seed_from_u64(7), 0);
        for _ in 0..6000 {
            let text = if rng.random() { mutated(&text, &mut rng) } else { one_digit(&text, &mut rng) };
            if let Ok(import) = tables_io::read("t", &text, format, &fabric, &none) {
                read += 1;
                judged(&import.tables, &fabric);
            }
        }
        assert!(read > 20, "{read}");
    }
    let fabric =
        parse(include_str!("../../../topology/tests/data/pair.ibnetdiscover"), Format::IbNetDiscover)
            .unwrap();
    let mut rng = Pcg64::seed_from_u64(8);
    for _ in 0..3000 {
        let text = mutated(include_str!("../../../topology/tests/data/pair.lft"), &mut rng);
        if let Ok(import) = tables_io::read("t", &text, TableFormat::OpenSm, &fabric.topology, &fabric.labels)
        {
            judged(&import.tables, &fabric.topology);
        }
        let row = r#"[{"mac":"02:00:00:00:00:01","ifname":"1","vlan":7,"flags":[],"state":"static"}]"#;
        let bridges = BTreeMap::from([("leaf1".to_owned(), mutated(row, &mut rng))]);
        let _ = tables_io::read_bridges(&bridges, &fabric.topology, &fabric.labels);
    }
}

#[test]
fn missing_tables_are_named() {
    let error = tables_io::read_path(Path::new("nothere"), None, &Topology::new(), &Labels::default());
    assert!(error.unwrap_err().message.contains("no such file"));
}
