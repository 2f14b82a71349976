//! Tests with files that mislead or exhaust a reader: each gives an error with a position. The tests of the
//! routing crate add random damage.

use crate::common::LINK;
use pauseframe_topology::Topology;
use pauseframe_topology::interchange::{Defaults, Format, Import, InterchangeError, read, read_file};
use std::path::Path;

const DEFAULTS: Defaults = Defaults { channel: LINK };

fn parse(text: &str, format: Format) -> Result<Import, InterchangeError> {
    read(text, format, DEFAULTS)
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
}
