//! Tests of file formats: a sample file of each, round trips over generators and random graphs, and rejected
//! files.

use pauseframe_topology::generate::{self, Dragonfly, Jellyfish};
use pauseframe_topology::interchange::{
    Defaults, Format, Import, Labels, read, read_file, write, write_labelled,
};
use pauseframe_topology::{Channel, NodeKind, Topology};
use pauseframe_units::{BitRate, LinkId, NodeId, PortId, Span};
use proptest::prelude::*;
use std::path::Path;

const DEFAULTS: Defaults = Defaults { channel: Channel { rate: BitRate::gbps(3), delay: Span::from_ns(70) } };
const TWO_WAY: [Format; 4] = [Format::GraphMl, Format::NodeLink, Format::Hpcc, Format::Containerlab];

fn sample(file: &str) -> Import {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    read_file(&path, None, DEFAULTS).unwrap()
}

fn names(topology: &Topology) -> Vec<&str> {
    topology.nodes().iter().map(|node| node.name.as_str()).collect()
}

fn kinds(topology: &Topology) -> String {
    topology.nodes().iter().map(|node| if node.kind == NodeKind::Host { 'h' } else { 's' }).collect()
}

fn channel(topology: &Topology, link: usize, end: usize) -> (u64, u64) {
    let Channel { rate, delay } = topology.links().as_slice()[link].channels[end];
    (rate.0, delay.0)
}

#[test]
fn graphml_of_others() {
    let Import { topology, labels, notes } = sample("triangle.graphml");
    assert_eq!(names(&topology), ["Aix & Arles", "Bern", "Calais", "h0", "h1"]);
    assert_eq!(kinds(&topology), "ssshh");
    assert_eq!(topology.links().len(), 5);
    assert_eq!(channel(&topology, 0, 0), (10_000_000_000, 2_000_000_000));
    assert_eq!(channel(&topology, 0, 1), (1_000_000_000, 3_000_000_000));
    assert_eq!(channel(&topology, 1, 0), (10_000_000_000, 70_000));
    assert_eq!(labels.port(PortId(0)), Some("uplink"));
    assert_eq!(
        notes,
        ["3 of 5 links have no rate: 3 Gbps was taken", "4 of 5 links have no delay: 70 ns was taken"]
    );
}

#[test]
fn names_in_graphml_may_be_cdata_or_have_elements_of_yed_beside_them() {
    // The Topology Zoo of 2013 writes the first kind of file, yEd the second.
    let text =
        "<graphml><key id='d0' for='node' attr.name='label'/><key id='d1' for='graph' attr.name='Source'/>
        <key id='d2' for='node' yfiles.type='nodegraphics'/><graph edgedefault='undirected'>
        <data key='d1'><![CDATA[https://example.org/?a=1&b=<2>]]></data>
        <node id='n0'><data key='d0'><![CDATA[R&D <1>]]></data></node>
        <node id='n1'><data key='d0'>&#197;s &amp; Oslo</data></node>
        <node id='n2'><data key='d2'><y:ShapeNode><y:NodeLabel>Bonn<y:LabelModel>
        <y:SmartNodeLabelModel distance='4.0'/></y:LabelModel></y:NodeLabel></y:ShapeNode></data></node>
        <edge source='n0' target='n1'/><edge source='n1' target='n2'/></graph></graphml>";
    let Import { topology, .. } = read(text, Format::GraphMl, DEFAULTS).unwrap();
    assert_eq!(names(&topology), ["R&D <1>", "\u{c5}s & Oslo", "Bonn"]);
    let error = read(&text.replace("&amp;", "&nbsp;"), Format::GraphMl, DEFAULTS).unwrap_err().to_string();
    assert!(error.contains("line 5: there is no character &nbsp;: write & itself as &amp;"), "{error}");
}

#[test]
fn node_link_json_of_networkx() {
    let Import { topology, notes, .. } = sample("ring.json");
    assert_eq!((names(&topology), kinds(&topology)), (vec!["0_0", "0_1", "1_0", "7"], "sssh".to_owned()));
    assert_eq!(topology.nodes()[NodeId(3)].level, Some(0));
    assert_eq!(channel(&topology, 2, 1), (3_000_000_000, 500_000));
    assert_eq!(notes.len(), 3);
    assert!(notes[0].starts_with("attributes of edges left out: \"weight\"; a link has"), "{}", notes[0]);
}

#[test]
fn a_directed_graph_with_edges_one_way_only_is_taken_for_undirected() {
    let text = "<graphml><graph edgedefault='directed'><node id='a'/><node id='b'/><edge source='a' target='b'/></graph></graphml>";
    let Import { topology, notes, .. } = read(text, Format::GraphMl, DEFAULTS).unwrap();
    assert_eq!((topology.links().len(), notes.len()), (1, 4));
    assert!(notes.iter().any(|note| note.contains("taken for undirected")), "{notes:?}");
}

#[test]
fn hpcc_topology() {
    let Import { topology, labels, notes } = sample("dumbbell.txt");
    // Hosts keep the ids of the file as names, because flow files use these ids.
    assert_eq!(names(&topology)[3..], ["3", "4", "5"]);
    assert_eq!(channel(&topology, 1, 0), (10_000_000_000, 1_000_000));
    assert_eq!(channel(&topology, 4, 1), (40_000_000_000, 1_500_000));
    assert_eq!(notes, ["line 9 and all behind it were left out: the first line says 5 links"]);
    assert_eq!(labels.frame_errors().collect::<Vec<_>>(), [(LinkId(4), 0.01)]);
    let text = write_labelled(&topology, &labels, Format::Hpcc).unwrap();
    assert_eq!(read(&text, Format::Hpcc, DEFAULTS).unwrap().labels, labels);
}

fn hpcc(text: &str) -> Result<Import, String> {
    read(text, Format::Hpcc, DEFAULTS).map_err(|error| error.to_string())
}

#[test]
fn first_lines_and_units_of_the_descendants_of_hpcc_are_read() {
    let powertcp =
        hpcc("4 2 2 3\n2 3 \n0 2 25000000000.0 1us 0\n1 3 25Gb/s 0.000001 0\n2 3 12.5GBps 1000ns 0\n");
    let Import { topology, notes, .. } = powertcp.unwrap();
    assert_eq!((kinds(&topology), notes), ("hhss".to_owned(), vec![]));
    assert_eq!(channel(&topology, 0, 0), (25_000_000_000, 1_000_000));
    assert_eq!(channel(&topology, 1, 0), (25_000_000_000, 1_000_000));
    assert_eq!(channel(&topology, 2, 1), (100_000_000_000, 1_000_000));

    let short = hpcc("4 2 2 5\n2 3\n0 2 25Gbps 1us 0\n1 3 25Gbps 1us 0\n2 3 25Gbps 1us 0\n").unwrap();
    assert_eq!(short.notes, ["the first line says 5 links, and the file has 3"]);

    let simai = "5 2 1 2 4 H100\r\n2 3 4\r\n0 2 2880Gbps 0.000025ms 0 # NVLink\r\n1 2 2880Gbps 0.000025ms 0\r\n\
                 0 3 400Gbps 0.0005ms 0\r\n1 4 400Gbps 0.0005ms 0\r\n";
    let Import { topology, labels, notes } = hpcc(&format!("\u{feff}{simai}")).unwrap();
    assert_eq!(
        (names(&topology), kinds(&topology)),
        (vec!["0", "1", "nvswitch2", "3", "4"], "hhsss".to_owned())
    );
    assert_eq!(channel(&topology, 0, 0), (2_880_000_000_000, 25_000));
    assert!(notes[0].starts_with("1 NVSwitch shown as switches"), "{notes:?}");
    let error = labels.split_hosts(&topology).unwrap_err();
    assert!(error.starts_with("1 NVSwitch, such as \"nvswitch2\""), "{error}");
    assert!(error.contains("`pauseframe import simai`"), "{error}");
    assert_eq!(labels.problems(&topology), [error]);

    for (text, expected) in [
        ("5 2 1 2 4\n", "hpcc, line 1: 5 words: the first line has 3"),
        ("3 2 2\n1 1\n", "hpcc, line 2: switch 1 is listed twice"),
        ("2 1 1\n1\n0 1 10Gbps 1parsec 0\n", "hpcc, line 3: \"1parsec\" is not a time of ns-3"),
        ("2 1 1\n1\n0 1 10Gbps 1us 1.5\n", "hpcc, line 3: \"1.5\" is not an error rate from 0 to 1"),
        ("2 1 1\n1\n0 1 -1Gbps 1us 0\n", "hpcc, line 3: \"-1Gbps\" is not a rate of ns-3"),
    ] {
        let error = hpcc(text).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn an_interface_on_two_links_is_an_error_in_every_format_that_names_interfaces() {
    let twice = "interface \"leaf:e1\" is on two links, to \"a\" and to \"b\"";
    let cases = [
        (
            Format::Containerlab,
            "topology:\n  nodes:\n    leaf: {}\n    a: {}\n    b: {}\n  links:\n    - endpoints: [\"leaf:e1\", \"a:e1\"]\n    - endpoints: [\"b:e1\", \"leaf:e1\"]\n",
            "containerlab, line 8: ",
        ),
        (
            Format::NodeLink,
            "{\"nodes\": [{\"id\": \"leaf\"}, {\"id\": \"a\"}, {\"id\": \"b\"}], \"edges\": [{\"source\": \"leaf\", \
             \"target\": \"a\", \"source_port\": \"e1\"}, {\"source\": \"leaf\", \"target\": \"b\", \"source_port\": \"e1\"}]}",
            "node-link, edges[1]: ",
        ),
        (
            Format::GraphMl,
            "<graphml><graph><node id='leaf'/><node id='a'/><node id='b'/><edge source='leaf' target='a' sourceport='e1'/>\n\
             <edge source='leaf' target='b' sourceport='e1'/></graph></graphml>",
            "graphml, line 2: ",
        ),
    ];
    for (format, text, place) in cases {
        let error = read(text, format, DEFAULTS).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{place}{twice}")), "{error}");
    }
    let discovery = "Switch 4 \"S-1\"\n[1] \"H-1\"[1]\nCa 1 \"H-1\"\nSwitch 4 \"S-2\"\n[3] \"H-1\"[1]\n";
    let error = discovered(discovery).unwrap_err();
    assert_eq!(error, "ibnetdiscover, line 5: port 1 of H-1 is linked to S-2[3] here and to S-1[1] above");
}

#[test]
fn keys_of_topology_beside_it_and_a_second_node_of_an_id_are_errors() {
    let outside = "topology:\n  nodes:\n    a: {}\nlinks:\n  - endpoints: [\"a:e1\", \"b:e1\"]\n";
    let error = read(outside, Format::Containerlab, DEFAULTS).unwrap_err().to_string();
    assert!(error.starts_with("containerlab, line 5: links belongs below topology"), "{error}");
    let label = |text: &str| format!("<data key='label'>{text}</data>");
    let text = format!(
        "<graphml><key id='label' for='node' attr.name='label'/><graph><node id='a'>{}</node><node id='a'>{}</node></graph></graphml>",
        label("one"),
        label("two")
    );
    let error = read(&text, Format::GraphMl, DEFAULTS).unwrap_err().to_string();
    assert!(error.contains("a second node is called \"a\""), "{error}");
}

#[test]
fn hosts_wired_to_hosts_have_one_message() {
    let text =
        "5 2 5\n3 4\n0 3 1Gbps 1us 0\n1 3 1Gbps 1us 0\n2 4 1Gbps 1us 0\n3 4 1Gbps 1us 0\n0 1 1Gbps 1us 0\n";
    let Import { topology, labels, .. } = hpcc(text).unwrap();
    let error = labels.split_hosts(&topology).unwrap_err();
    assert_eq!(error, pauseframe_topology::check(&topology)[0].to_string());
    assert!(error.starts_with("host \"0\" has 2 links (to \"3\", \"1\"), one of them to a host"), "{error}");
    // The second port of a host with two links to switches becomes a separate node.
    let text = "4 2 4\n2 3\n0 2 1Gbps 1us 0\n0 3 1Gbps 1us 0.5\n1 2 1Gbps 1us 0\n2 3 1Gbps 1us 0\n";
    let Import { topology, labels, .. } = hpcc(text).unwrap();
    let (split, labels) = labels.split_hosts(&topology).unwrap();
    assert_eq!((names(&split)[1], labels.frame_error(LinkId(1))), ("0.eth2", Some(0.5)));
    let ports: Vec<String> = [0, 1].map(|link| split.port_name(PortId::of_link(LinkId(link), 0))).to_vec();
    assert_eq!(ports, ["0:0", "0:1"]);
    assert_eq!(split.hosts().count(), 2);
    assert_eq!(labels.split_hosts(&split).unwrap().0, split, "it stays as it is");
    assert_eq!(split.ports_of_hosts().values().map(Vec::len).collect::<Vec<_>>(), [2]);
}

#[test]
fn a_graph_without_hosts_is_a_problem() {
    let text = "<graphml><graph><node id='a'/><node id='b'/><edge source='a' target='b'/></graph></graphml>";
    let without = read(text, Format::GraphMl, DEFAULTS).unwrap().topology;
    let problems = pauseframe_topology::check(&without);
    assert!(problems[0].to_string().starts_with("none of the 2 nodes is a host"), "{problems:?}");
    let roles = text.replace("<graph>", "<key id='r' for='node' attr.name='role'/><graph>");
    let roles = roles.replace("<node id='a'/>", "<node id='a'><data key='r'>server</data></node>");
    assert_eq!(kinds(&read(&roles, Format::GraphMl, DEFAULTS).unwrap().topology), "hs");
}

#[test]
fn htsim_topo() {
    let Import { topology, notes, .. } = sample("small.topo");
    assert_eq!(
        (topology.hosts().count(), topology.switches().count(), topology.links().len()),
        (16, 10, 16 + 8 + 8)
    );
    assert_eq!(notes, ["line 18: switch_latency_ns 300 was left out"]);
    // Aggregation switch i of each pod has double links to core switch i.
    let peers = |name: &str| -> Vec<&str> {
        let node = &topology.nodes()[topology.find(name).unwrap()];
        node.ports.iter().map(|port| topology.nodes()[topology.peer(*port)].name.as_str()).collect()
    };
    assert_eq!(peers("core1"), ["agg0_1", "agg0_1", "agg1_1", "agg1_1"]);
    assert_eq!(peers("agg1_0"), ["edge1_0", "edge1_1", "core0", "core0"]);
    assert_eq!(channel(&topology, 31, 0), (400_000_000_000, 2_000_000));
    let again = read(&write(&topology, Format::Htsim).unwrap(), Format::Htsim, DEFAULTS).unwrap();
    assert_eq!((again.topology, again.notes), (topology, vec![]));
}

#[test]
fn containerlab_lab() {
    let Import { topology, labels, notes } = sample("lab.clab.yml");
    assert_eq!(names(&topology), ["leaf1", "leaf2", "7", "client2", "frr"]);
    assert_eq!(kinds(&topology), "sshhs");
    assert_eq!(channel(&topology, 1, 0), (25_000_000_000, 300_000));
    assert_eq!(labels.port(PortId(3)), Some("Ethernet4"));
    assert_eq!(labels.address("02:00:00:00:00:0a").unwrap().node, NodeId(3));
    assert_eq!(
        notes,
        [
            "taken for switches: 1 node of kind linux with several links, such as \"frr\" (image of a router, or links to \
             other machines); the label pauseframe-kind: host makes a host",
            "left out: 2 links out of the lab or to nowhere",
            "4 of 5 links have no rate: 3 Gbps was taken",
            "4 of 5 links have no delay: 70 ns was taken"
        ]
    );
    let text = write_labelled(&topology, &labels, Format::Containerlab).unwrap();
    let again = read(&text, Format::Containerlab, DEFAULTS).unwrap();
    assert_eq!((again.topology, again.labels), (topology, labels));
}

#[test]
fn ibnetdiscover_fabric() {
    let Import { topology, labels, notes } = sample("pair.ibnetdiscover");
    assert_eq!(
        names(&topology),
        ["spine", "S-0000000000000031", "S-0000000000000032", "node1 HCA-1", "node2 HCA-1"]
    );
    assert_eq!((kinds(&topology), topology.links().len()), ("ssshh".to_owned(), 4));
    assert_eq!(channel(&topology, 0, 0), (200_000_000_000, 70_000));
    assert_eq!(channel(&topology, 3, 0), (8_000_000_000, 70_000));
    assert_eq!((labels.port(PortId(2)), labels.port(PortId(3))), (Some("4"), Some("3")));
    let second = labels.address("lid 13").unwrap();
    assert_eq!((second.node, second.path), (NodeId(4), 1));
    assert_eq!(labels.address("guid 0x0000000000000031").unwrap().node, NodeId(1));
    assert_eq!(notes.len(), 2);
}

fn discovered(text: &str) -> Result<Import, String> {
    read(text, Format::IbNetDiscover, DEFAULTS).map_err(|error| error.to_string())
}

/// ibsim writes `Hca`, contains no GUIDs, and may write a link at only one of its ends.
#[test]
fn the_files_of_ibsim_are_read() {
    let text = "# net\nSwitch 4 \"Switch1\"\n[1]\t\"Switch2\"[1]\n[2]\t\"Hca1\"[1]\n[3]\t\"Hca2\"[1]\n\n\
                Switch 4 \"Switch2\"\n[1]\t\"Switch1\"[1]\n[2]\t\"Hca3\"[1]\n\n\
                Hca 1 \"Hca1\"\n[1]\t\"Switch1\"[2]\n\nHca 1 \"Hca2\"\n\nHca 1 \"Hca3\"\n[1]\t\"Switch2\"[2]\n";
    let Import { topology, notes, .. } = discovered(text).unwrap();
    assert_eq!(names(&topology), ["Switch1", "Switch2", "Hca1", "Hca2", "Hca3"]);
    assert_eq!((kinds(&topology), topology.links().len()), ("sshhh".to_owned(), 4));
    assert!(pauseframe_topology::check(&topology).is_empty());
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert_eq!(Format::of(Path::new("fabric.net"), text), Some(Format::IbNetDiscover));
}

const DUAL: &str = "Switch\t4 \"S-1\"\t# \"left\" base port 0 lid 1 lmc 0\n[1]\t\"H-1\"[1](11) # \"node\" lid 11 4xEDR\n[2]\t\"R-1\"[1]\n\
     Switch\t4 \"S-2\"\t# \"right\" base port 0 lid 2 lmc 0\n[1]\t\"H-1\"[2](12) # \"node\" lid 12 4xEDR\n[2]\t\"R-1\"[2]\n\
     Ca\t2 \"H-1\"\t# \"node\"\n[1](11) \"S-1\"[1] # lid 11 lmc 0 \"left\" lid 1 4xEDR\n\
     [2](12) \"S-2\"[1] # lid 12 lmc 0 \"right\" lid 2 4xEDR\nRt\t2 \"R-1\"\t# \"router\"\n";

#[test]
fn an_adapter_with_two_linked_ports_is_one_host_and_a_router_is_a_switch() {
    let Import { topology, labels, notes } = discovered(DUAL).unwrap();
    assert_eq!(names(&topology), ["left", "right", "node", "router"]);
    assert_eq!((kinds(&topology), topology.links().len()), ("sshs".to_owned(), 4));
    assert!(pauseframe_topology::check(&topology).is_empty());
    assert!(notes[0].starts_with("1 adapters have several linked ports"), "{notes:?}");
    assert!(notes[1].starts_with("1 routers were taken for switches"), "{notes:?}");
    // Tables name destinations by LID, and each port has its own.
    let node_of = |topology: &Topology, labels: &Labels, lid: u32| {
        topology.nodes()[labels.address(&format!("lid {lid}")).unwrap().node].name.clone()
    };
    assert_eq!([11, 12].map(|lid| node_of(&topology, &labels, lid)), ["node", "node"]);
    let (split, of_split) = labels.split_hosts(&topology).unwrap();
    assert_eq!([11, 12].map(|lid| node_of(&split, &of_split, lid)), ["node", "node.2"]);
    assert_eq!(of_split.join_hosts(&split), (topology.clone(), labels.clone()));
    let (_, left) = labels.without_links(&topology, &[LinkId(0)]);
    assert_eq!((left.address("lid 11"), left.address("lid 12").unwrap().port), (None, Some(PortId(3))));
}

#[test]
fn adapters_of_one_server_are_one_host_if_their_names_say_so() {
    let fabric = |descriptions: [&str; 4]| {
        let cards = descriptions.iter().enumerate().map(|(i, name)| {
            format!(
                "Ca 1 \"H-{i}\" # \"{name}\"\n[1] \"S-{}\"[{}] # lid {} lmc 0 \"x\" lid 1 4xEDR\n",
                i % 2,
                i + 1,
                i + 10
            )
        });
        let text = "Switch 9 \"S-0\"\n[9] \"S-1\"[9]\nSwitch 9 \"S-1\"\n".to_owned();
        discovered(&(text + &cards.collect::<String>())).unwrap()
    };
    let Import { topology, labels, notes } = fabric(["a mlx5_0", "a mlx5_1", "b HCA-1", "b HCA-2"]);
    assert_eq!((names(&topology), topology.links().len()), (vec!["S-0", "S-1", "a", "b"], 5));
    assert_eq!(labels.port_name(&topology, PortId(2)), "a:mlx5_0");
    assert!(notes[0].starts_with("2 servers have several adapters"), "{notes:?}");
    let (split, of_split) = labels.split_hosts(&topology).unwrap();
    assert_eq!(split.nodes()[of_split.address("lid 13").unwrap().node].name, "b.HCA-2");
    for other in [
        ["a mlx5_0", "b mlx5_0", "c", "d"],
        ["x HCA-1", "x HCA-1", "x HCA-2", "y"],
        ["a 1", "a 2", "b 1", "b 2"],
    ] {
        assert_eq!(fabric(other).topology.hosts().count(), 4, "{other:?}");
    }
}

#[test]
fn what_ibnetdiscover_does_not_print_is_an_error_with_its_line() {
    let error = discovered("Switch 4 \"S-1\"\n\nTca 1 \"T-1\"\n[1] \"S-1\"[1]\n").unwrap_err();
    assert_eq!(
        error,
        "ibnetdiscover, line 3: \"Tca\" begins no node: expected Switch, Ca, Hca, Rt or a port such as [1]"
    );
    let error = discovered("[1] \"S-1\"[1]\n").unwrap_err();
    assert!(error.starts_with("ibnetdiscover, line 1: this port belongs to no node"), "{error}");
}

/// Nodes "l1" and "l2" of kind `ceos`, and `nodes` with these links.
fn lab(nodes: &str, links: &[&str]) -> Result<Import, String> {
    let link = |link: &&str| {
        let ends: Vec<String> = link.split(' ').map(|end| format!("\"{end}\"")).collect();
        format!("    - endpoints: [{}]\n", ends.join(", "))
    };
    let links: String = links.iter().map(link).collect();
    let text = format!(
        "topology:\n  nodes:\n    l1: {{kind: ceos}}\n    l2: {{kind: ceos}}\n{nodes}  links:\n{links}"
    );
    read(&text, Format::Containerlab, DEFAULTS).map_err(|error| error.to_string())
}

#[test]
fn linux_machines_of_containerlab_are_hosts_unless_they_forward() {
    let dual = ["h:eth1 l1:e1", "h:eth2 l2:e1"];
    let bond = ["h:eth1 l1:e1", "h:eth2 l1:e2"];
    let behind = ["h:eth1 l1:e1", "h:eth2 l2:e1", "h:eth3 pc:eth1"];
    let pc = "    pc: {kind: linux}\n";
    for (node, links, kind) in [
        ("{kind: linux}", &dual[..], NodeKind::Host),
        ("{kind: linux}", &bond, NodeKind::Host),
        ("{kind: host}", &dual, NodeKind::Host),
        ("{kind: linux}", &behind, NodeKind::Switch),
        ("{kind: linux, image: \"quay.io/frrouting/frr:9\"}", &dual, NodeKind::Switch),
        ("{kind: linux, image: \"birdhouse/pc\"}", &dual, NodeKind::Host),
        ("{kind: linux, labels: {pauseframe-kind: switch}}", &dual, NodeKind::Switch),
        ("{kind: ceos, labels: {pauseframe-kind: host}}", &dual, NodeKind::Host),
        ("{kind: linux, image: bird, labels: {pauseframe-kind: host}}", &dual, NodeKind::Host),
    ] {
        let nodes = format!("    h: {node}\n{}", if links.len() > 2 { pc } else { "" });
        let Import { topology, notes, .. } = lab(&nodes, links).unwrap();
        assert_eq!(topology.nodes()[topology.find("h").unwrap()].kind, kind, "{node} {links:?}");
        let is_guess = node.contains("linux") && !node.contains("labels");
        assert_eq!(notes.iter().any(|note| note.contains("pauseframe-kind")), is_guess, "{node} {notes:?}");
    }
    // Two machines between switches and each other forward; labels may stand at kinds.
    let chain = ["h:eth1 l1:e1", "h:eth2 g:eth1", "g:eth2 l2:e1"];
    let nodes = "    h: {kind: linux}\n    g: {kind: linux}\n";
    assert_eq!(kinds(&lab(nodes, &chain).unwrap().topology), "ssss");
    let nodes = "    h: {kind: linux}\n  kinds:\n    linux: {labels: {pauseframe-kind: switch}}\n";
    assert_eq!(kinds(&lab(nodes, &dual).unwrap().topology), "sss");
}

#[test]
fn a_mac_address_belongs_to_its_port_in_containerlab() {
    let text = "topology:\n  nodes:\n    h: {kind: linux}\n    l1: {kind: ceos}\n  links:\n    - endpoints:\n        - {node: h, \
                interface: eth1, mac: \"02:00:00:00:00:01\"}\n        - {node: l1, interface: e1}\n    - endpoints:\n        - \
                {node: h, interface: eth2, mac: \"02:00:00:00:00:02\"}\n        - {node: l1, interface: e2}\n";
    let Import { topology, labels, .. } = read(text, Format::Containerlab, DEFAULTS).unwrap();
    let (split, of_split) = labels.split_hosts(&topology).unwrap();
    assert_eq!(split.nodes()[of_split.address("02:00:00:00:00:02").unwrap().node].name, "h.eth2");
    let written = write_labelled(&split, &of_split, Format::Containerlab).unwrap();
    let again = read(&written, Format::Containerlab, DEFAULTS).unwrap();
    assert_eq!((again.topology, again.labels), (topology, labels));
}

/// containerlab writes this file into the folder of a lab: since 0.73 with "endpoints", before 0.73 without.
#[test]
fn the_export_of_containerlab_is_read() {
    let end = |node: &str, interface: &str, mac: &str, peer: &str| {
        format!(
            "{{\"node\": \"{node}\", \"interface\": \"{interface}\", \"mac\": \"{mac}\", \"peer\": \"{peer}\"}}"
        )
    };
    let link = |a: &str, z: &str| format!("{{\"endpoints\": {{\"a\": {a}, \"z\": {z}}}}}");
    let before = |a: &str, z: &str| format!("{{\"a\": {a}, \"z\": {z}}}");
    let nodes = "{\"leaf1\": {\"index\": \"0\", \"kind\": \"nokia_srlinux\", \"labels\": {}, \"port-bindings\": []},\
                  \"client1\": {\"index\": \"1\", \"kind\": \"linux\", \"labels\": {}, \"port-bindings\": []}}";
    let a = end("leaf1", "e1-1", "aa:c1:ab:00:00:01", "z");
    let z = end("client1", "eth1", "aa:c1:ab:00:00:02", "a");
    let dummy =
        format!("{{\"endpoints\": {{\"a\": {}}}}}", end("leaf1", "e1-9", "aa:c1:ab:00:00:03", "dummy"));
    let outside = link(&end("leaf1", "e1-2", "aa:c1:ab:00:00:04", "z"), &end("host", "leaf1-e2", "", "a"));
    for links in [[link(&a, &z), dummy.clone(), outside.clone()], [before(&a, &z), dummy, outside]] {
        let text = format!(
            "{{\n  \"name\": \"lab\",\n  \"type\": \"clab\",\n  \"clab\": {{\"config\": {{\"prefix\": \"clab\"}}}},\n  \
             \"nodes\": {nodes},\n  \"links\": [{}]\n}}\n",
            links.join(", ")
        );
        assert_eq!(Format::of(Path::new("topology-data.json"), &text), Some(Format::Containerlab));
        let Import { topology, labels, notes } = read(&text, Format::Containerlab, DEFAULTS).unwrap();
        assert_eq!((names(&topology), kinds(&topology)), (vec!["leaf1", "client1"], "sh".to_owned()));
        assert_eq!((labels.port(PortId(0)), labels.port(PortId(1))), (Some("e1-1"), Some("eth1")));
        assert_eq!(labels.address("aa:c1:ab:00:00:02").unwrap().node, NodeId(1));
        assert_eq!(notes[0], "left out: 2 links out of the lab or to nowhere");
    }
}

#[test]
fn generated_fabrics_survive_every_two_way_format() {
    let fast = Channel { rate: BitRate(12_345_678_901), delay: Span(1_234_567) };
    let size = Jellyfish { switches: 12, network_ports: 5, hosts_per_switch: 2 };
    for topology in [
        generate::fat_tree(4, fast, fast).unwrap(),
        generate::leaf_spine(3, 2, 4, DEFAULTS.channel, fast).unwrap(),
        generate::pgft(&[2, 2], &[1, 2], &[1, 3], fast, DEFAULTS.channel).unwrap(),
        generate::jellyfish(size, 3, DEFAULTS.channel, fast).unwrap(),
        generate::torus(&[3, 2], 1, fast, fast).unwrap(),
        generate::dragonfly(Dragonfly { p: 1, a: 2, h: 1, g: 3 }, fast, fast).unwrap(),
        generate::dumbbell(2, 2, fast, DEFAULTS.channel).unwrap(),
    ] {
        for format in TWO_WAY {
            let again = read(&write(&topology, format).unwrap(), format, DEFAULTS).unwrap();
            assert_eq!((&again.topology, again.notes), (&topology, vec![]), "{format}");
        }
    }
}

#[test]
fn htsim_is_written_for_fat_trees_and_for_nothing_else() {
    let link = Channel { rate: BitRate::gbps(100), delay: Span::from_ns(600) };
    let count = |topology: &Topology| {
        let mut degrees: Vec<_> =
            topology.nodes().iter().map(|node| (kinds_of(node.kind), node.ports.len())).collect();
        degrees.sort_unstable();
        (degrees, topology.links().len())
    };
    for topology in [
        generate::fat_tree(4, link, link).unwrap(),
        generate::leaf_spine(6, 4, 3, link, link).unwrap(),
        generate::pgft(&[2, 2, 3], &[1, 2, 2], &[1, 2, 3], link, link).unwrap(),
        generate::pgft(&[4, 3], &[1, 2], &[1, 2], link, link).unwrap(),
    ] {
        let text = write(&topology, Format::Htsim).unwrap();
        let again = read(&text, Format::Htsim, DEFAULTS).unwrap();
        assert_eq!((count(&again.topology), again.notes), (count(&topology), vec![]), "{text}");
        assert_eq!(write(&again.topology, Format::Htsim).unwrap(), text);
    }
    let size = Jellyfish { switches: 12, network_ports: 5, hosts_per_switch: 2 };
    let mut uneven = generate::leaf_spine(3, 2, 4, link, link).unwrap();
    let (leaf, spine) = (uneven.find("leaf0").unwrap(), uneven.find("spine0").unwrap());
    uneven.add_link(leaf, spine, link);
    for topology in [
        generate::jellyfish(size, 3, link, link).unwrap(),
        generate::torus(&[3, 3], 1, link, link).unwrap(),
        uneven,
        generate::leaf_spine(3, 2, 4, link, Channel { delay: Span(1), ..link }).unwrap(),
    ] {
        let error = write(&topology, Format::Htsim).unwrap_err().to_string();
        assert!(error.starts_with("htsim: only fat trees and leaf-spines can be written, and "), "{error}");
    }
}

fn kinds_of(kind: NodeKind) -> u8 {
    u8::from(kind == NodeKind::Switch)
}

/// `NetworkX` may swap the ends of edges of an undirected graph and change the order of edges.
#[test]
fn order_and_direction_are_restored_after_networkx() {
    let mut topology = Topology::new();
    let nodes = ["a", "b", "c"].map(|name| topology.add_node(name, NodeKind::Switch, None));
    let slow = Channel { rate: BitRate::gbps(1), delay: Span(1) };
    topology.add_asymmetric_link(nodes[0], nodes[1], [slow, DEFAULTS.channel]);
    topology.add_link(nodes[2], nodes[0], slow);
    let mut labels = Labels::default();
    labels.name_port(PortId(2), "uplink");
    let text = write_labelled(&topology, &labels, Format::NodeLink).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let edges = json["edges"].as_array_mut().unwrap();
    edges.reverse();
    for edge in edges {
        let [source, target] = ["source", "target"].map(|key| edge[key].clone());
        (edge["source"], edge["target"]) = (target, source);
    }
    let again = read(&json.to_string(), Format::NodeLink, DEFAULTS).unwrap();
    assert_eq!((again.topology, &again.labels), (topology.clone(), &labels));

    // to_directed() of NetworkX makes two arcs with the same attributes from each edge.
    let arcs = json["edges"].as_array().unwrap().iter().flat_map(|edge| {
        let mut back = edge.clone();
        (back["source"], back["target"]) = (edge["target"].clone(), edge["source"].clone());
        [back, edge.clone()]
    });
    let arcs: Vec<_> = arcs.collect();
    (json["directed"], json["edges"]) = (true.into(), arcs.into());
    let again = read(&json.to_string(), Format::NodeLink, DEFAULTS).unwrap();
    assert_eq!((again.topology, again.labels), (topology, labels));
}

#[test]
fn mistakes_are_named_with_their_place() {
    let cases = [
        (
            Format::GraphMl,
            "<graphml>\n<graph><node id='a'/>\n<edge source='a' target='b'/></graph></graphml>",
            "graphml, line 3: there is no node \"b\"",
        ),
        (Format::GraphMl, "<graphml>\n<graph></node></graph></graphml>", "graphml, line 2: this is not XML"),
        (Format::GraphMl, "<html/>", "graphml: there is no <graph>"),
        (
            Format::GraphMl,
            "<graphml><graph edgedefault='directed'><node id='a'/><node id='b'/><edge source='a' target='b'/><edge source='b' target='a'/>\n\n<edge source='a' target='b'/></graph></graphml>",
            "graphml, line 3: the graph is directed and has no edge back from \"b\" to \"a\"",
        ),
        (
            Format::NodeLink,
            "{\"nodes\": [{\"id\": \"leaf0\"}], \"edges\": [{\"source\": \"leaf0\", \"target\": \"leaf1\"}]}",
            "node-link, edges[0]: there is no node \"leaf1\"; did you mean \"leaf0\"?",
        ),
        (
            Format::NodeLink,
            "{\"nodes\": [{\"id\": 1}, {\"id\": 2}], \"edges\": [{\"source\": 1, \"target\": 2, \"rate\": 10}]}",
            "node-link, edges[0]: \"10\" has no unit",
        ),
        (
            Format::NodeLink,
            "{\"nodes\": [{\"id\": 1}, {\"id\": 1}], \"edges\": []}",
            "node-link, nodes[1]: a second node is called \"1\"",
        ),
        (
            Format::NodeLink,
            "{\"nodes\": [{\"id\": 1, \"kind\": \"hub\"}], \"edges\": []}",
            "node-link, nodes[0]: the kind \"hub\" is not known",
        ),
        (Format::NodeLink, "[", "node-link: this is not node-link JSON: EOF"),
        (Format::Hpcc, "2 1 1\n0\n0 5 1Gbps 1us 0", "hpcc, line 3: there is no node 5"),
        (Format::Hpcc, "2 1 1\n0\n0 1 1Gbit 1us 0", "hpcc, line 3: \"1Gbit\" is not a rate of ns-3"),
        (
            Format::Hpcc,
            "2 1 2\n0\n0 1 1Gbps 1us 0",
            "hpcc, line 3: the file ends where the id of a node should follow",
        ),
        (
            Format::Htsim,
            "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nRadix 4",
            "htsim, line 5: \"radix\" is not known",
        ),
        (Format::Htsim, "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nRadix_Down 2", "htsim: there is no tier 1"),
        (
            Format::Htsim,
            "Nodes 4\nTiers 2\nPodsize 4\nTier 0\nRadix_Down 3\nTier 1\nRadix_Down 2",
            "htsim: podsize and radix_down of tier 0: 4 is not a multiple of 3",
        ),
        (
            Format::Containerlab,
            "topology:\n  nodes:\n    a:\n  links:\n    - endpoints: [\"a:e1\"]",
            "containerlab, line 5: a link has two endpoints",
        ),
        (
            Format::Containerlab,
            "topology:\n  nodes:\n    a: {}\n    a: {}",
            "containerlab, line 4: this is not YAML",
        ),
        (Format::Containerlab, "name: x", "containerlab: there is no topology with nodes"),
        (
            Format::IbNetDiscover,
            "Switch 4 \"S-01\" # \"s\"\n[1] \"H-02\"",
            "ibnetdiscover, line 2: a port looks like",
        ),
        (Format::IbNetDiscover, "hello", "ibnetdiscover, line 1: \"hello\" begins no node"),
    ];
    for (format, text, expected) in cases {
        let error = read(text, format, DEFAULTS).unwrap_err().to_string();
        assert!(error.starts_with(expected), "expected {expected}\nfound    {error}");
    }
    assert!(
        read_file(Path::new("missing.topo"), None, DEFAULTS)
            .unwrap_err()
            .to_string()
            .starts_with("missing.topo: ")
    );
}

#[test]
fn what_a_format_can_not_hold_is_refused() {
    let mut topology = Topology::new();
    let nodes = ["a", "b"].map(|name| topology.add_node(name, NodeKind::Switch, None));
    let slow = Channel { rate: BitRate::gbps(1), delay: Span(1) };
    topology.add_asymmetric_link(nodes[0], nodes[1], [slow, DEFAULTS.channel]);
    let error = write(&topology, Format::Hpcc).unwrap_err().to_string();
    assert!(error.starts_with("hpcc: the directions of the link between \"a\" and \"b\" differ"), "{error}");
    assert!(write(&topology, Format::IbNetDiscover).is_err());
    topology.add_node("a", NodeKind::Host, None);
    assert!(
        write(&topology, Format::GraphMl).unwrap_err().to_string().contains("two nodes are called \"a\"")
    );
}

fn channels() -> impl Strategy<Value = Channel> {
    (1_u64..400_000_000_000, 0_u64..3_000_000_000)
        .prop_map(|(rate, delay)| Channel { rate: BitRate(rate), delay: Span(delay) })
}

/// Any graph: parallel links, self-loops, isolated nodes, hosts with many links, unusual names.
fn graphs(symmetric: bool) -> impl Strategy<Value = (Topology, Labels)> {
    let node = ("[a-zA-Zäλ0-9 <>&\"':/#,.{}\\[\\]\\\\_-]{0,6}", any::<bool>(), prop::option::of(0_u8..5));
    let link =
        (any::<[prop::sample::Index; 2]>(), channels(), channels(), prop::option::of("[a-z<&\" 0-9/-]{1,5}"));
    (prop::collection::vec(node, 1..8), prop::collection::vec(link, 0..12)).prop_map(move |(nodes, links)| {
        let (mut topology, mut labels) = (Topology::new(), Labels::default());
        for (i, (name, host, level)) in nodes.iter().enumerate() {
            let kind = if *host { NodeKind::Host } else { NodeKind::Switch };
            // Names that contain paths to other folders are rejected.
            topology.add_node(format!("{}{i}", name.replace("..", ".")), kind, *level);
        }
        for (number, (ends, forth, back, label)) in links.into_iter().enumerate() {
            let ends = ends.map(|end| NodeId(end.index(nodes.len()) as u32));
            let back = if symmetric { forth } else { back };
            let link = topology.add_asymmetric_link(ends[0], ends[1], [forth, back]);
            if let Some(label) = label {
                labels.name_port(PortId::of_link(link, 0), format!("p{label}{number}"));
                labels.name_port(PortId::of_link(link, 1), format!("q{number}"));
                labels.set_frame_error(link, 1e-3);
            }
        }
        (topology, labels)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_graph_survives((topology, labels) in graphs(false)) {
        for format in [Format::GraphMl, Format::NodeLink] {
            let text = write_labelled(&topology, &labels, format).unwrap();
            let again = read(&text, format, DEFAULTS).unwrap();
            prop_assert_eq!(&again.topology, &topology, "{}", text);
            prop_assert_eq!(&again.labels, &labels);
        }
        let text = write_labelled(&topology, &labels, Format::Containerlab).unwrap();
        let again = read(&text, Format::Containerlab, DEFAULTS).unwrap();
        prop_assert_eq!(&again.topology, &topology, "{}", text);
        for port in (0..topology.port_count() as u32).map(PortId) {
            let name = labels.port_or_default(&topology, port);
            prop_assert_eq!(again.labels.port(port), Some(name.as_str()));
        }
    }

    #[test]
    fn any_graph_with_equal_directions_survives_hpcc((topology, _) in graphs(true)) {
        let again = read(&write(&topology, Format::Hpcc).unwrap(), Format::Hpcc, DEFAULTS).unwrap();
        prop_assert_eq!(again.topology, topology);
    }

    #[test]
    fn no_text_makes_a_reader_panic(text in "(Switch|Ca|\\[1\\]|\"S-1\"|#|lid|[0-9]{1,3}| |\n|Tier|Nodes|<node |>|<edge|id=|topology:|nodes:|links:|- |\\{|\\}|:){0,30}") {
        for format in TWO_WAY.into_iter().chain([Format::Htsim, Format::IbNetDiscover]) {
            let _ = read(&text, format, DEFAULTS);
        }
    }
}

#[test]
fn rates_under_other_names_are_read_with_a_unit_and_named_without() {
    let file = |name: &str, value: &str| {
        format!(
            "<graphml><key id='r' for='edge' attr.name='{name}'/><graph edgedefault='undirected'><node id='a'/><node id='b'/>\
             <edge source='a' target='b'><data key='r'>{value}</data></edge></graph></graphml>"
        )
    };
    for name in ["speed", "bandwidth", "capacity", "rate"] {
        let Import { topology, notes, .. } =
            read(&file(name, "100 Gbps"), Format::GraphMl, DEFAULTS).unwrap();
        assert_eq!(channel(&topology, 0, 0).0, 100_000_000_000);
        assert!(!notes.iter().any(|note| note.contains("left out") || note.contains("no rate")), "{notes:?}");
    }
    let Import { notes, .. } = read(&file("speed", "100"), Format::GraphMl, DEFAULTS).unwrap();
    assert!(
        notes.iter().any(|note| note.contains("left out: \"speed\"; a link has the attributes rate")),
        "{notes:?}"
    );
}

#[test]
fn two_other_names_of_a_rate_must_agree() {
    let file = |second: &str| {
        format!(
            "<graphml><key id='s' for='edge' attr.name='speed'/><key id='b' for='edge' attr.name='bandwidth'/><graph \
             edgedefault='undirected'><node id='a'/><node id='b'/><edge source='a' target='b'><data key='s'>40 Gbps</data>\
             <data key='b'>{second}</data></edge></graph></graphml>"
        )
    };
    assert_eq!(
        channel(&read(&file("40 Gbps"), Format::GraphMl, DEFAULTS).unwrap().topology, 0, 0).0,
        40_000_000_000
    );
    let error = read(&file("10 Gbps"), Format::GraphMl, DEFAULTS).unwrap_err().to_string();
    assert!(error.contains("keep one, or write rate"), "{error}");
}
