//! A scenario's name becomes part of a folder's name, and must not point to another folder.

use super::{packets, read, texts};
use pauseframe_scenario::resolve::{Input, resolve};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const STAR: &str = "stop = \"1 ms\"\ntopology = { kind = \"star\", hosts = 4 }\n";
const PLAIN: &str = "workload = { kind = \"permutation\", size = \"10 KB\" }\n";

fn refusal(text: &str, file_name: &str) -> Option<String> {
    let input = Input { text, file_name, base_dir: Path::new("."), overrides: &[], seed: None };
    resolve(&input).err().map(|error| error.to_string())
}

#[test]
fn a_name_that_leads_elsewhere_is_refused() {
    let long = "x".repeat(201);
    for name in [
        "../../escaped",
        "/etc/x",
        "..",
        ".",
        ".hidden",
        "a/b",
        "a\\\\b",
        "C:x",
        "a\\u0000b",
        "a\\nb",
        "",
        " ",
        "x ",
        "-rf",
        "~root",
        "a*",
        "\\u009b2J",
        &long,
    ] {
        let text = format!("name = \"{name}\"\n{STAR}{PLAIN}");
        let error = refusal(&text, "test.toml").unwrap_or_else(|| panic!("{name:?} is taken"));
        assert!(error.contains("test.toml:1: name: ") && !error.contains('\0'), "{error}");
    }
    for name in ["incast", "incast 2", "x_1.5-b", "Überlast", &long[1..]] {
        assert_eq!(refusal(&format!("name = \"{name}\"\n{STAR}{PLAIN}"), "test.toml"), None, "{name}");
    }
}

#[test]
fn a_name_from_a_file_is_judged_too() {
    let text = format!("{STAR}{PLAIN}");
    for file_name in ["a\u{1b}[2J.toml", "a\\..\\b.toml", "-x.toml", &format!("{}.toml", "y".repeat(240))] {
        let error = refusal(&text, file_name).unwrap_or_else(|| panic!("{file_name:?} is taken"));
        assert!(
            error.contains("the name of the file") && error.contains("set name")
                || error.contains("choose a plain name"),
            "{error}"
        );
    }
    assert_eq!(refusal(&text, "some/where/incast.toml"), None);
    // If the scenario sets a name, the file may have any name.
    assert_eq!(refusal(&format!("name = \"x\"\n{text}"), "-x.toml"), None);
}

#[test]
fn a_node_of_a_custom_topology_has_a_plain_name() {
    for name in ["..", ".", "../x", "a/b", "a\\u0000", "a\\u001b", "a:b", "-x", "=1+1"] {
        let text = format!(
            "stop = \"1 ms\"\n{PLAIN}[topology]\nkind = \"custom\"\nhosts = [\"{name}\", \"b\"]\nswitches = [\"S\"]\n\
             links = [[\"{name}\", \"S\"], [\"b\", \"S\"]]\n"
        );
        let error = refusal(&text, "test.toml").unwrap_or_else(|| panic!("{name:?} is taken"));
        assert!(error.contains("is not a name for a node"), "{error}");
    }
}

/// Several workloads have queries, two of them of the same kind; a query number identifies one query of the
/// run.
#[test]
fn a_query_has_a_number_of_its_own() {
    let text = format!(
        "{}[[workload]]\nkind = \"incast\"\nfan_in = 2\nrate = 2000.0\n[[workload]]\nkind = \"incast\"\nfan_in = 2\n\
         rate = 2000.0\n[[workload]]\nkind = \"requests\"\nclient = \"host0\"\nservers = [\"host1\", \"host2\"]\n\
         count = 20\n[[workload]]\nkind = \"scatter_gather\"\naggregators = [\"host3\"]\nresponse = \"2 KB\"\n\
         gaps = {{ kind = \"exponential\", mean = \"200 us\" }}\n",
        STAR.replace("1 ms", "10 ms")
    );
    assert!(read(&text).scenario.workload.len() == 4);
    let results = packets(&text);
    let queries = super::numbers(&results.queries, "query").into_iter().flatten();
    let of: BTreeMap<u32, String> = queries.zip(texts(&results.queries, "workload")).collect();
    assert_eq!(of.len(), results.queries.num_rows(), "a number stands for two queries");
    assert_eq!(of.values().collect::<BTreeSet<_>>().len(), 4, "every workload has queries");
    assert_eq!(of.keys().copied().collect::<Vec<_>>(), (0..of.len() as u32).collect::<Vec<_>>());
    // A join by the query number alone finds flows of the same workload only.
    let flows = super::numbers(&results.flows.batch(), "query")
        .into_iter()
        .zip(texts(&results.flows.batch(), "workload"));
    for (query, workload) in flows {
        assert_eq!(of.get(&query.unwrap()), Some(&workload));
    }
}
