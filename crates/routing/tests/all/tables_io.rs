//! Tests of reading and writing tables.

use crate::common::LINK;
use pauseframe_routing::tables_io::{
    TableFormat, read, read_addresses, read_bridges, read_path, write, write_to,
};
use pauseframe_routing::verify::{Options, RouteLengths, Tables, verify};
use pauseframe_routing::{Dfsssp, OrderPair, RoutingEngine};
use pauseframe_topology::generate::{self, Jellyfish};
use pauseframe_topology::interchange::{Defaults, Import, Labels, read_file};
use pauseframe_topology::{SwitchGraph, Topology, check};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn data(file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../topology/tests/data").join(file)
}

fn csv(text: &str, topology: &Topology) -> Result<Tables, String> {
    let read = read("plan.csv", text, TableFormat::Csv, topology, &Labels::default());
    read.map(|import| import.tables).map_err(|error| error.to_string())
}

#[test]
fn plans_survive_csv_and_json() {
    let size = Jellyfish { switches: 12, network_ports: 5, hosts_per_switch: 3 };
    let topology = generate::jellyfish(size, 1, LINK, LINK).unwrap();
    let graph = SwitchGraph::new(&topology).unwrap();
    let order_pair = OrderPair { vlans: 4, ..OrderPair::default() }.plan(&topology, &graph).unwrap();
    let dfsssp = Dfsssp { lanes_max: 8, seed: 1 }.plan(&topology, &graph).unwrap();
    for plan in [order_pair, dfsssp] {
        let tables = Tables::of_plan(&plan, 100);
        let report = verify(&topology, &tables, &Options::default()).unwrap();
        for format in [TableFormat::Csv, TableFormat::Json] {
            let text = write(&tables, format, &topology, &Labels::default()).unwrap();
            let again = read("plan", &text, format, &topology, &Labels::default()).unwrap().tables;
            assert_eq!(verify(&topology, &again, &Options::default()).unwrap(), report);
            for (from, to) in topology.hosts().zip(topology.hosts().skip(5)) {
                for vlan in tables.vlans() {
                    assert_eq!(again.route(vlan.id, from, to), tables.route(vlan.id, from, to));
                }
            }
            assert_eq!(write(&again, format, &topology, &Labels::default()).unwrap(), text);
        }
    }
}

/// Plans with and without lists of senders, and a plan with rows for single hosts.
#[test]
fn plans_survive_parquet() {
    let topology = generate::named("jellyfish:switches=12,network_ports=5,hosts_per_switch=3").unwrap();
    let graph = SwitchGraph::new(&topology).unwrap();
    let order_pair = OrderPair { vlans: 4, ..OrderPair::default() }.plan(&topology, &graph).unwrap();
    let dfsssp = Dfsssp { lanes_max: 8, seed: 1 }.plan(&topology, &graph).unwrap();
    let by_host =
        csv("switch,vlan,destination,port\ns0,7,host5,eth1\n\nswitch,vlan,lane\ns0,7,3\n", &topology);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plans_survive_parquet");
    std::fs::create_dir_all(&folder).unwrap();
    let (file, labels) = (folder.join("tables.parquet"), Labels::default());
    for tables in [Tables::of_plan(&order_pair, 100), Tables::of_plan(&dfsssp, 1), by_host.unwrap()] {
        let mut out = std::fs::File::create(&file).unwrap();
        write_to(&tables, TableFormat::Parquet, &topology, &labels, &mut out).unwrap();
        let again = read_path(&folder, None, &topology, &labels).unwrap().tables;
        let text = |tables| write(tables, TableFormat::Csv, &topology, &labels).unwrap();
        assert_eq!(text(&again), text(&tables));
    }
    let other = generate::named("jellyfish:switches=5,network_ports=2,hosts_per_switch=1").unwrap();
    let error = read_path(&file, None, &other, &labels).unwrap_err().to_string();
    assert!(error.contains("tables.parquet, row 0: ") && error.contains("is not in the topology"), "{error}");
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let error = read_path(&file, None, &topology, &labels).unwrap_err().to_string();
    assert!(error.contains("this is not a table in Parquet"), "{error}");
}

#[test]
fn a_row_for_a_host_goes_before_one_for_its_switch() {
    let topology = generate::leaf_spine(2, 2, 2, LINK, LINK).unwrap();
    let text = "# Hosts 0 and 1 are at leaf0. Ports 2 and 3 of a leaf lead to the spines.\n\
                switch,vlan,destination,port\n\
                leaf1,5,leaf0,2\nspine0,5,leaf0,0\nspine1,5,leaf0,eth1\nleaf1,5,host1,leaf1:3\n\
                leaf0,5,leaf1,2\nspine0,5,leaf1,1\n";
    let tables = csv(text, &topology).unwrap();
    let [leaf1, host0, host1, host3] =
        ["leaf1", "host0", "host1", "host3"].map(|n| topology.find(n).unwrap());
    let names = |from, to| -> Vec<String> {
        tables.route(5, from, to).into_iter().map(|port| topology.port_name(port)).collect()
    };
    assert_eq!(names(host3, host0), ["host3:0", "leaf1:2", "spine0:0", "leaf0:0"]);
    assert_eq!(names(host3, host1), ["host3:0", "leaf1:3", "spine1:0", "leaf0:1"]);
    assert_eq!(names(host0, host1), ["host0:0", "leaf0:1"]);
    assert_eq!(topology.port_name(tables.port(5, leaf1, host1).unwrap()), "leaf1:3");
    assert!(verify(&topology, &tables, &Options::default()).unwrap().is_clean());
    let text = write(&tables, TableFormat::Csv, &topology, &Labels::default()).unwrap();
    assert!(text.contains("leaf1,5,host1,eth4\n"), "{text}");
    let again = csv(&text, &topology).unwrap();
    assert_eq!(again.route(5, host3, host1), tables.route(5, host3, host1));
}

/// Rows that lose packets, send packets in a loop, or use the port of one host for all hosts at its switch.
#[test]
fn lengths_of_whole_trees_are_those_of_the_routes() {
    let topology = generate::leaf_spine(3, 2, 2, LINK, LINK).unwrap();
    let text = "switch,vlan,destination,port\n\
                leaf1,5,leaf0,2\nspine0,5,leaf0,0\nleaf2,5,leaf0,3\nspine1,5,leaf0,1\n\
                leaf0,5,leaf1,0\n\
                leaf1,6,leaf0,2\nspine0,6,leaf0,0\nleaf0,6,leaf0,0\n\
                leaf1,7,leaf0,2\nspine0,7,leaf0,2\nleaf2,7,leaf0,3\nspine1,7,leaf0,1\n\
                leaf1,8,host1,3\nspine1,8,host1,0\nleaf0,8,host1,1\nleaf2,8,host1,2\n";
    let tables = csv(text, &topology).unwrap();
    let lengths = RouteLengths::new(&tables);
    let hosts: Vec<_> = topology.hosts().collect();
    let mut arrive = 0;
    for (from, to) in hosts.iter().flat_map(|from| hosts.iter().map(move |to| (*from, *to))) {
        for vlan in 0..tables.vlans().len() {
            let length = tables.length(vlan, from, to);
            assert_eq!(lengths.length(vlan, from, to), length, "VLAN {vlan}, {from:?} to {to:?}");
            arrive += usize::from(length.is_some());
        }
        let mut both = [Vec::new(), Vec::new()];
        lengths.vlans_between(from, to, 1, &mut both[0]);
        tables.vlans_between(from, to, 1, &mut both[1]);
        assert_eq!(both[0], both[1]);
    }
    assert!(arrive > 20, "{arrive}");
}

#[test]
fn mistakes_name_file_line_and_remedy() {
    let topology = generate::leaf_spine(2, 2, 2, LINK, LINK).unwrap();
    let head = "switch,vlan,destination,port\n";
    let cases = [
        ("leaf0,1,host9,0", "plan.csv, line 2: \"host9\" is not in the topology; did you mean \"host0\"?"),
        ("leaf7,1,host0,0", "plan.csv, line 2: \"leaf7\" is not in the topology; did you mean \"leaf0\"?"),
        ("host0,1,host1,0", "plan.csv, line 2: \"host0\" is a host: rows belong to switches"),
        (
            "leaf0,1,host3,4",
            "plan.csv, line 2: \"leaf0\" has no port \"4\"; it has 4 ports: \"0\", \"1\", \"2\", \"3\", \"eth1\", \"eth2\", ...",
        ),
        (
            "leaf0,1,host3,2\nleaf0,1,host3,3",
            "plan.csv, line 3: \"leaf0\" sends packets for \"host3\" in VLAN 1 to leaf0:eth4 here and to leaf0:eth3 in line 2: remove one",
        ),
        (
            "leaf0,one,host3,2",
            "plan.csv, line 2: \"leaf0,one,host3,2\" does not fit the header \"switch,vlan,destination,port\"",
        ),
        (
            "leaf0,1,host3",
            "plan.csv, line 2: \"leaf0,1,host3\" does not fit the header \"switch,vlan,destination,port\"",
        ),
        ("leaf0,1,host3,2\nvlan,lane\n1,0\n1,3", "plan.csv, line 5: VLAN 1 has lane 3 here and 0 above"),
        ("leaf0,1,host3,2\nvlan,lane\n1,99", "plan.csv, line 4: there is no lane 99: write 0 to 15"),
        ("leaf0,1,host3,2\nvlan,lane\n2,0", "plan.csv: VLAN 1 has rows and no lane: give it one"),
        ("leaf0,1,host3,2\nvlan,from,to\n1,spine0,leaf0", "plan.csv, line 4: \"spine0\" has no hosts"),
        ("", "plan.csv: there are no rows: name tables, or the folder of a plan"),
    ];
    for (text, expected) in cases {
        let error = csv(&format!("{head}{text}"), &topology).unwrap_err();
        assert!(error.starts_with(expected), "expected {expected}\nfound    {error}");
    }
    let error = csv("leaf0,1,host3,2", &topology).unwrap_err();
    assert_eq!(error, "plan.csv, line 1: begin with a header: switch,vlan,destination,port");
    let json =
        "{\"rows\": [{\"switch\": \"leaf0\", \"vlan\": 1, \"destination\": \"hostess\", \"port\": \"2\"}]}";
    let error = read("plan.json", json, TableFormat::Json, &topology, &Labels::default()).unwrap_err();
    assert!(
        error.to_string().starts_with("plan.json, rows[0]: \"hostess\" is not in the topology"),
        "{error}"
    );
}

fn infiniband() -> Import {
    let defaults = Defaults { channel: LINK };
    let import = read_file(&data("pair.ibnetdiscover"), None, defaults).unwrap();
    assert_eq!(check(&import.topology), []);
    import
}

#[test]
fn infiniband_tables() {
    let Import { topology, labels, .. } = infiniband();
    let import = read_path(&data("pair.lft"), None, &topology, &labels).unwrap();
    assert_eq!(import.notes.len(), 2);
    assert_eq!(import.notes[0], "left out: 2 rows for the LIDs of switches");
    let hosts: Vec<_> = topology.hosts().collect();
    // The leaf of node1 does not know the second LID of node2, and the leaf of node2 does not know that of
    // node1.
    let report = verify(&topology, &import.tables, &Options::default()).unwrap();
    assert_eq!((report.vlans, report.delivered, report.black_holes.count), (2, 2, 2));
    assert_eq!(import.tables.route(0, hosts[0], hosts[1]).len(), 4);
    let bad = "Unicast lids [0x0-0xd] of switch Lid 1 guid 0x0000000000000021 (spine):\n0x0008 009 : ()\n";
    let error = read("x.lft", bad, TableFormat::OpenSm, &topology, &labels).unwrap_err().to_string();
    assert_eq!(error, "x.lft, line 2: \"spine\" has no port \"9\"; it has 2 ports: \"1\", \"4\"");
    let bad = bad.replace("0x0008", "0x0077");
    let error = read("x.lft", &bad, TableFormat::OpenSm, &topology, &labels).unwrap_err().to_string();
    assert!(
        error.starts_with("x.lft, line 2: nothing in the topology has LID 119 (0x0077), and "),
        "{error}"
    );
}

#[test]
fn a_dump_that_is_cut_off_is_told_from_a_whole_one() {
    let Import { topology, labels, .. } = infiniband();
    let whole = std::fs::read_to_string(data("pair.lft")).unwrap();
    let read = |text: &str| read("x.lft", text, TableFormat::OpenSm, &topology, &labels);
    // The dump ends within a row: the truncated port number might be 20.
    let cut = whole.rfind("0x000c 002").unwrap() + "0x000c 002".len();
    let error = read(&whole[..cut]).unwrap_err().to_string();
    assert!(error.starts_with("x.lft, line 18: the table of \"S-0000000000000032\" has"), "{error}");
    assert!(error.ends_with("no line \"... lids dumped\": the dump is cut off; take it anew"), "{error}");
    // The dump ends between two tables.
    let cut = whole.rfind("Unicast lids").unwrap();
    let notes = read(&whole[..cut]).unwrap().notes;
    assert!(
        notes.contains(&"the dump has no table for S-0000000000000032: is it whole?".to_owned()),
        "{notes:?}"
    );
    // If a tool writes no end marks at all, the tables count as complete.
    let endless: Vec<&str> = whole.lines().filter(|line| !line.ends_with("dumped")).collect();
    assert_eq!(read(&endless.join("\n")).unwrap().tables, read(&whole).unwrap().tables);
}

#[test]
fn linux_bridges() {
    let topology = generate::leaf_spine(2, 1, 1, LINK, LINK).unwrap();
    let mut labels = Labels::default();
    let addresses = "address,node\n02:00:00:00:00:0A,host0\n02:00:00:00:00:0b,host1\n";
    read_addresses("a.csv", addresses, &topology, &mut labels).unwrap();
    let bridge = |rows: &[(&str, &str)]| {
        let row = |(mac, port): &(&str, &str)| {
            format!(
                "{{\"mac\":\"02:00:00:00:00:{mac}\",\"ifname\":\"{port}\",\"vlan\":100,\"flags\":[],\"master\":\"br0\",\"state\":\"static\"}}"
            )
        };
        let own = "{\"mac\":\"02:ff:00:00:00:01\",\"ifname\":\"eth1\",\"flags\":[],\"master\":\"br0\",\"state\":\"permanent\"},\
                   {\"mac\":\"33:33:00:00:00:01\",\"ifname\":\"eth1\",\"flags\":[\"self\"],\"state\":\"permanent\"}";
        format!("[{own},{}]", rows.iter().map(row).collect::<Vec<_>>().join(","))
    };
    let mut outputs: BTreeMap<String, String> = [
        ("leaf0", bridge(&[("0a", "eth1"), ("0b", "eth2")])),
        ("leaf1", bridge(&[("0a", "eth2"), ("0b", "eth1")])),
        ("spine0", bridge(&[("0a", "eth1"), ("0B", "eth2")])),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .into();
    let mut tables = read_bridges(&outputs, &topology, &labels).unwrap().tables;
    let report = verify(&topology, &tables, &Options::default()).unwrap();
    assert!(report.is_clean() && report.delivered == 2, "{report}");
    assert_eq!(tables.assign_lanes(&BTreeMap::from([(200, 3)])), Err(100));
    tables.assign_lanes(&BTreeMap::from([(100, 3)])).unwrap();
    assert_eq!(tables.lanes(), 4);

    outputs.insert("spine0".to_owned(), bridge(&[("0a", "eth1"), ("0c", "eth2")]));
    let error = read_bridges(&outputs, &topology, &labels).unwrap_err().to_string();
    assert!(
        error.starts_with("spine0.json, entry 3: no host of the topology has the address 02:00:00:00:00:0c"),
        "{error}"
    );
    outputs.insert("spine0".to_owned(), bridge(&[("0a", "swp7")]));
    let error = read_bridges(&outputs, &topology, &labels).unwrap_err().to_string();
    assert!(
        error.starts_with("spine0.json, entry 2: \"spine0\" has no port \"swp7\"; it has 2 ports"),
        "{error}"
    );
    outputs.insert("spine9".to_owned(), bridge(&[]));
    outputs.remove("spine0");
    let error = read_bridges(&outputs, &topology, &labels).unwrap_err().to_string();
    assert_eq!(error, "spine9.json: \"spine9\" is not in the topology; did you mean \"spine0\"?");
    let error = read_addresses("a.csv", "address,node\naa,hust0\n", &topology, &mut labels).unwrap_err();
    assert_eq!(error.to_string(), "a.csv, line 2: \"hust0\" is not in the topology; did you mean \"host0\"?");
}

#[test]
fn a_folder_with_a_plan_is_read_as_the_plan() {
    let topology = generate::leaf_spine(3, 2, 2, LINK, LINK).unwrap();
    let graph = SwitchGraph::new(&topology).unwrap();
    let plan = OrderPair { vlans: 4, ..OrderPair::default() }.plan(&topology, &graph).unwrap();
    let tables = Tables::of_plan(&plan, 10);
    let labels = Labels::default();
    let folder = std::env::temp_dir().join(format!("pauseframe-plan-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let csv = write(&tables, TableFormat::Csv, &topology, &labels).unwrap();
    std::fs::write(folder.join("tables.csv"), &csv).unwrap();
    // This file is not the table of a switch called "plan".
    std::fs::write(folder.join("plan.json"), "{}").unwrap();
    let read = read_path(&folder, None, &topology, &labels).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(write(&read.tables, TableFormat::Csv, &topology, &labels).unwrap(), csv);
}

/// Reads dumps of a ring of four switches, written by hand in the format of `OpenSM`. A route leads clockwise
/// unless the destination is one link away. The two paths that cross the link from s4 to s1 on their way to
/// others have service level 1.
fn ring_with(name: &str, change: impl Fn(&str, String) -> Option<String>) -> (PathBuf, Import) {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    for file in ["opensm-lfts.dump", "opensm-path-records.dump", "opensm-sl2vl.dump"] {
        let text = std::fs::read_to_string(data("ring4").join(file)).unwrap();
        if let Some(text) = change(file, text) {
            std::fs::write(folder.join(file), text).unwrap();
        }
    }
    let defaults = Defaults { channel: LINK };
    (folder, read_file(&data("ring4/ring4.ibnetdiscover"), None, defaults).unwrap())
}

/// Path records in the format of `saquery -p`, with a path to a switch (LID 1) and a path to LID 0, as in
/// `ibsim`.
fn as_answers(records: &str) -> String {
    let mut source = String::new();
    let mut answers = "PathRecord dump:\n\t\tdlid....................0\n\t\tslid....................0\n\t\tsl......................0x0\n"
        .to_owned();
    let answer = |from: &str, to: u16, level: &str| {
        format!(
            "PathRecord dump:\n\t\tdlid....................{to}\n\t\tslid....................{from}\n\t\tqos_class...............0x0\n\
             \t\tsl......................0x{level}\n\t\tmtu.....................0x83\n"
        )
    };
    for line in records.lines() {
        if let Some((_, rest)) = line.split_once("base LID ") {
            rest.split(',').next().unwrap().clone_into(&mut source);
            answers += &answer(&source, 1, "7");
        } else if let Some((to, rest)) = line.strip_prefix("0x").and_then(|row| row.split_once(':')) {
            let to = u16::from_str_radix(to.trim(), 16).unwrap();
            answers += &answer(&source, to, rest.split(':').next().unwrap().trim());
        }
    }
    answers
}

#[test]
fn service_levels_part_the_routes_of_a_ring() {
    let judged = |name: &str, change: &dyn Fn(&str, String) -> Option<String>| {
        let (folder, ring) = ring_with(name, change);
        let import = read_path(&folder, None, &ring.topology, &ring.labels).unwrap();
        (verify(&ring.topology, &import.tables, &Options::default()).unwrap(), import, ring)
    };
    // Lane 0 contains the routes 1-2-3 and 2-3-4, lane 1 contains 3-4-1 and 4-1-2. Each route causes one
    // dependency, and no lane has a cycle.
    let (report, import, ring) = judged("ring-lanes", &|_, text| Some(text));
    assert!(report.is_clean(), "{report}");
    assert_eq!((report.vlans, report.lanes, report.dependencies), (2, 2, 4));
    let csv = write(&import.tables, TableFormat::Csv, &ring.topology, &ring.labels).unwrap();
    let again = read("ring.csv", &csv, TableFormat::Csv, &ring.topology, &ring.labels);
    let again = write(&again.unwrap().tables, TableFormat::Csv, &ring.topology, &ring.labels);
    assert_eq!(again.unwrap(), csv);
    // In a single lane these dependencies form a cycle of four: if no file assigns lanes, and if both service
    // levels use one lane.
    let alone = judged("ring-alone", &|file, text| Some(text).filter(|_| file == "opensm-lfts.dump"));
    let one = judged("ring-one-lane", &|_, text| Some(text.replace(": 0  1  2", ": 0  0  2")));
    for (report, import, _) in [alone, one] {
        assert!(report.can_deadlock, "{:?}", import.notes);
        assert_eq!((report.lanes, report.dependencies, report.shortest_cycle.len()), (1, 4, 4));
    }
    // The answers of the subnet administrator give the same result.
    let (report, ..) = judged("ring-saquery", &|file, text| {
        Some(if file.contains("path") { as_answers(&text) } else { text })
    });
    assert_eq!((report.is_clean(), report.vlans, report.lanes, report.dependencies), (true, 2, 2, 4));
    // If switches have no lanes, the lane number is the service level.
    let (report, import, _) =
        judged("ring-levels", &|file, text| Some(text).filter(|_| !file.contains("sl2vl")));
    assert!(
        report.is_clean() && report.lanes == 2 && import.notes.iter().any(|note| note.contains("VL = SL"))
    );
    // If one switch changes the lane, no new cycle appears, and the report names the switch.
    let at_s4 = |file: &str, text: String| {
        let (before, after) = text.split_once("Switch 0x0000000000000024").unwrap();
        let changed = format!("{before}Switch 0x0000000000000024{}", after.replace(": 0  1  2", ": 0  0  2"));
        Some(if file.contains("sl2vl") { changed } else { text })
    };
    let (report, ..) = judged("ring-rewrite", &|file, text| {
        if file.contains("lfts") { Some(text) } else { at_s4(file, text) }
    });
    assert_eq!((report.can_deadlock, report.dependencies), (false, 4));
    assert_eq!(report.lane_violations[0].switches, ["s4"]);
}

#[test]
fn lanes_that_cannot_be_judged_are_refused_with_their_line() {
    let refused = |name: &str, change: &dyn Fn(&str, String) -> Option<String>| {
        let (folder, ring) = ring_with(name, change);
        read_path(&folder, None, &ring.topology, &ring.labels).unwrap_err().to_string()
    };
    let swap = |of: &'static str, from: &'static str, to: &'static str| {
        move |file: &str, text: String| {
            Some(if file.contains(of) { text.replacen(from, to, 1) } else { text })
        }
    };
    let error = refused("ring-ports", &swap("sl2vl", "1   2   : 0  1", "1   2   : 0  0"));
    assert!(error.contains("opensm-sl2vl.dump, line ") && error.contains("depend on the ports"), "{error}");
    let error = refused("ring-short", &swap("sl2vl", "1   2   : 0  1", "1   2   : 0"));
    assert!(error.contains("with 16 lanes"), "{error}");
    let error = refused("ring-management", &|file, text| {
        Some(if file.contains("sl2vl") { text.replace(": 0  1  2", ": 0  15 2") } else { text })
    });
    assert!(error.contains("discards service level 1"), "{error}");
    let error = refused("ring-record", &swap("path", "0x000D : 0 ", "0x000D : 16"));
    assert!(error.contains("opensm-path-records.dump, line 5: a row looks like"), "{error}");
    let error = refused("ring-answer", &|file, text| {
        Some(if file.contains("path") { as_answers(&text).replace("0x1\n", "0x1f\n") } else { text })
    });
    assert!(error.contains("a service level is 0 to 15"), "{error}");
}
