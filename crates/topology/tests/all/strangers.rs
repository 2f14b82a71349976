//! Tests with damaged files: whatever a file contains, a reader returns a topology, tables, or an error with
//! a position.

use crate::common::LINK;
use pauseframe_topology::generate;
use pauseframe_topology::interchange::{
    Defaults, Format, Import, InterchangeError, Labels, read, read_file, write,
};
use pauseframe_topology::routing::tables_io::{self, TableFormat};
use pauseframe_topology::routing::verify::{Options, Tables, verify};
use pauseframe_topology::routing::{OrderPair, RoutingEngine, SwitchGraph};
use pauseframe_topology::{Statistics, Topology, check};
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
        Format::IbNetDiscover => include_str!("../data/pair.ibnetdiscover").to_owned(),
        Format::Htsim => include_str!("../data/small.topo").to_owned(),
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
    let fabric = parse(include_str!("../data/pair.ibnetdiscover"), Format::IbNetDiscover).unwrap();
    let mut rng = Pcg64::seed_from_u64(8);
    for _ in 0..3000 {
        let text = mutated(include_str!("../data/pair.lft"), &mut rng);
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
fn depth_is_bounded() {
    let deep = 100_000;
    let yaml = format!("topology:\n  nodes:\n    {}a", "- ".repeat(deep));
    for text in [yaml, "? ".repeat(10_000), "[".repeat(deep), "{a: ".repeat(deep)] {
        let error = parse(&text, Format::Containerlab).unwrap_err();
        assert!(error.message.contains("deep") || error.message.contains("not YAML"), "{error}");
        assert!(error.place.is_some(), "{error}");
    }
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
        bomb.extend([format!("a{i}: &a{i} [{aliases}]\n")]);
    }
    assert!(parse(&bomb, Format::Containerlab).unwrap_err().message.contains("aliases"));
    let json = format!("{{\"nodes\": [{{\"id\": {}", "[".repeat(deep));
    assert!(parse(&json, Format::NodeLink).is_err());
    let xml = format!("<graphml><graph>{}", "<node id=\"a\"><graph>".repeat(deep));
    assert!(parse(&xml, Format::GraphMl).is_err());
}

#[test]
fn an_empty_graph_is_a_graph() {
    let text = "<?xml version=\"1.0\"?><graphml><graph edgedefault=\"undirected\"/></graphml>";
    assert_eq!(parse(text, Format::GraphMl).unwrap().topology, Topology::new());
}

#[test]
fn names_that_mislead_are_refused_with_their_place() {
    for name in ["\\u0000", "a\\u001b[2J", "../../etc/passwd", "a/../b", "\\u202etxt.exe", "a\\u0085b", ".."]
    {
        let json = format!("{{\"nodes\": [{{\"id\": \"ok\"}}, {{\"id\": \"{name}\"}}], \"edges\": []}}");
        let error = parse(&json, Format::NodeLink).unwrap_err();
        assert_eq!(error.place.as_deref(), Some("nodes[1]"), "{error}");
        assert!(!error.to_string().chars().any(char::is_control), "{error}");
        let yaml = format!("topology:\n  nodes:\n    ok: {{}}\n    \"{name}\": {{}}\n");
        let error = parse(&yaml, Format::Containerlab).unwrap_err();
        assert_eq!(error.place.as_deref(), Some("line 4"), "{error}");
    }
    let port = "{\"nodes\": [{\"id\": \"a\"}, {\"id\": \"b\"}], \"edges\": [{\"source\": \"a\", \"target\": \"b\", \
                \"source_port\": \"eth\\u0007\"}]}";
    assert_eq!(parse(port, Format::NodeLink).unwrap_err().place.as_deref(), Some("edges[0]"));
    let xml = "<graphml><graph>\n<node id=\"a&#27;[1m\"/></graph></graphml>";
    assert_eq!(parse(xml, Format::GraphMl).unwrap_err().place.as_deref(), Some("line 2"));
    let hpcc = "1 1 0\n0\n# node 0 \"a\\u0000b\"\n";
    assert_eq!(parse(hpcc, Format::Hpcc).unwrap_err().place.as_deref(), Some("line 3"));
}

#[test]
fn only_regular_files_are_read() {
    for (path, what) in
        [("/dev/zero", "regular file"), ("/dev", "regular file"), ("/nowhere.json", "no such file")]
    {
        let error = read_file(Path::new(path), Some(Format::NodeLink), DEFAULTS).unwrap_err();
        assert!(error.message.contains(what), "{error}");
    }
    let error = tables_io::read_path(Path::new("nothere"), None, &Topology::new(), &Labels::default());
    assert!(error.unwrap_err().message.contains("no such file"));
}
