//! Warnings about rates and delays of `[topology]` that no link takes.

use super::resolve_as;

fn warnings(topology: &str) -> String {
    let text =
        format!("stop = \"10 ms\"\n{topology}\n[[workload]]\nkind = \"permutation\"\nsize = \"1 MB\"\n");
    resolve_as("s.toml", &text, &[], None).unwrap_or_else(|error| panic!("{error}")).warnings.join("\n")
}

#[test]
fn a_family_without_links_between_switches() {
    let star = |keys: &str| warnings(&format!("topology = {{ kind = \"star\", hosts = 4, {keys} }}"));
    let idle = "topology.fabric_link.rate: no link takes it: it changes nothing";
    assert_eq!(star("fabric_link.rate = \"40 Gbps\""), idle);
    assert_eq!(star("link.rate = \"40 Gbps\", link.delay = \"2 us\""), "");
    let fabric = "kind = \"leaf_spine\", leaves = 2, spines = 2, hosts_per_leaf = 2";
    assert_eq!(warnings(&format!("topology = {{ {fabric}, fabric_link.rate = \"40 Gbps\" }}")), "");
}

#[test]
fn a_custom_fabric() {
    let custom = |at_hosts: &str, between: &str, keys: &str| {
        warnings(&format!(
            "[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\", \"t\"]\n{keys}\nlinks = [\n\
             {{ ends = [\"a\", \"s\"]{at_hosts} }}, {{ ends = [\"b\", \"t\"]{at_hosts} }}, {{ ends = [\"s\", \"t\"]{between} }}]"
        ))
    };
    let (own, key) = (", rate = \"25 Gbps\"", "link.rate = \"40 Gbps\"");
    let (both, fabric) =
        ("link.rate = \"40 Gbps\"\nfabric_link.rate = \"50 Gbps\"", "fabric_link.rate = \"50 Gbps\"");
    let idle = |key: &str| format!("topology.{key}: no link takes it: it changes nothing");
    assert_eq!(custom(own, own, key), idle("link.rate"));
    // The link between the switches follows it.
    assert_eq!(custom(own, "", key), "");
    assert_eq!(custom(own, "", both), idle("link.rate"));
    assert_eq!(custom("", own, fabric), idle("fabric_link.rate"));
    assert_eq!(custom("", "", both), "");
    assert_eq!(custom(own, own, "link.delay = \"2 us\""), "");
}

#[test]
fn a_file() {
    let file = |attributes: &str, keys: &str| {
        let link = |a: &str, b: &str| format!("{{\"source\": \"{a}\", \"target\": \"{b}\"{attributes}}}");
        let nodes = "{\"id\": \"a\", \"kind\": \"host\"}, {\"id\": \"b\", \"kind\": \"host\"}, {\"id\": \"s\", \"kind\": \"switch\"}";
        let json = format!("{{\"nodes\": [{nodes}], \"links\": [{}, {}]}}", link("a", "s"), link("b", "s"));
        warnings(&format!(
            "[topology]\nkind = \"file\"\nformat = \"node-link\"\ntext = '''{json}'''\n{keys}\n"
        ))
    };
    let (rate, key) = (", \"rate\": \"25 Gbps\", \"delay\": \"1 us\"", "link.rate = \"40 Gbps\"");
    assert!(!file("", key).contains("changes nothing"), "{}", file("", key));
    let idle = file(rate, key);
    assert!(idle.contains("topology.link.rate: "), "{idle}");
    assert!(idle.contains("gives each link its own: it changes nothing"), "{idle}");
    assert!(!file(rate, "").contains("changes nothing"));
}
