//! Tests of stacks: every row resolves, and precedence is file, preset, stack, default.

use pauseframe_scenario::presets::PRESETS;
use pauseframe_scenario::resolve::explained;
use pauseframe_scenario::stacks::STACKS;
use pauseframe_scenario::{Input, resolve};
use std::path::Path;

fn origin(transport: &str, key: &str) -> (String, String) {
    let text = format!(
        "topology = {{ kind = \"star\", hosts = 2 }}\n[transport]\n{transport}\n\
         [[workload]]\nkind = \"permutation\"\nsize = \"1 MB\"\n"
    );
    let input =
        Input { text: &text, base_dir: Path::new("."), file_name: "a.toml", overrides: &[], seed: None };
    let resolved = resolve(&input).expect("a good scenario");
    let path = format!("transport.{key}");
    let entry = resolved.explain().iter().find(|entry| entry.path == path).expect("the key");
    (entry.value.clone(), entry.origin.to_string())
}

#[test]
fn file_above_preset_above_stack_above_default() {
    let plain = "preset = \"dctcp\"\nstack = \"none\"";
    assert_eq!(origin(plain, "timestamps"), ("false".into(), "default".into()));
    let stacked = "preset = \"dctcp\"\nstack = \"linux\"";
    assert_eq!(origin(stacked, "timestamps"), ("true".into(), "stack linux".into()));
    assert_eq!(origin(stacked, "ecn"), ("\"dctcp\"".into(), "preset dctcp".into()));
    let (window, from) = origin("preset = \"tcp_bolt\"\nstack = \"freebsd9\"\n", "initial_window");
    assert_eq!((window.as_str(), from.as_str()), ("\"bdp\"", "preset tcp_bolt"), "both rows have it");
    assert_eq!(
        origin(&format!("{stacked}\ntimestamps = false"), "timestamps"),
        ("false".into(), "file".into())
    );
}

/// A host without any setting is Linux with CUBIC.
#[test]
fn the_default_is_cubic_on_linux() {
    let of = |key| origin("", key);
    assert_eq!(of("stack"), ("\"linux\"".into(), "default".into()));
    assert_eq!(of("preset"), ("\"cubic\"".into(), "default".into()));
    assert_eq!(of("congestion_control"), ("\"cubic\"".into(), "preset cubic".into()));
    for key in ["rack", "tlp", "prr", "frto", "undo", "sack", "timestamps", "small_queues"] {
        assert_eq!(of(key), ("true".into(), "stack linux".into()), "{key}");
    }
    assert_eq!(origin("preset = \"pfabric\"", "stack"), ("\"none\"".into(), "preset pfabric".into()));
    assert_eq!(origin("preset = \"pfabric\"\nstack = \"linux\"", "tlp").0, "true");
}

/// The resolved scenario turns off a feature of the stack that the transport cannot use; if the file sets
/// such a feature, a warning appears.
#[test]
fn recovery_of_the_stack_needs_sack() {
    let off = |needs: &str| ("false".to_owned(), format!("computed: it needs {needs}"));
    assert_eq!(origin("sack = false", "tlp"), off("sack"));
    assert_eq!(origin("sack = false", "rack"), off("sack and fast_retransmit"));
    assert_eq!(origin("fast_retransmit = false", "rack"), off("sack and fast_retransmit"));
    assert_eq!(origin("sack = false\ntlp = true", "tlp"), ("true".into(), "file".into()));
}

/// Applications that pass messages disable Nagle's algorithm, unless the file enables it.
#[test]
fn applications_set_tcp_nodelay() {
    let small_segments = |rest: &str| {
        let text = format!(
            "topology = {{ kind = \"star\", hosts = 4 }}\n{rest}\n[[workload]]\nkind = \"application\"\n\
             transport = \"mpi\"\npattern = \"all_reduce\"\nranks = 4\nsize = \"1 MB\"\n\
             [[workload]]\nkind = \"permutation\"\nsize = \"1 MB\"\n"
        );
        let input =
            Input { text: &text, base_dir: Path::new("."), file_name: "a.toml", overrides: &[], seed: None };
        let resolved = resolve(&input).expect("a good scenario");
        let of = |path: &str| {
            let entry = resolved.explain().iter().find(|entry| entry.path == path).expect("the key");
            (entry.value.clone(), entry.origin.to_string())
        };
        (of("transport.small_segments"), of("transports.mpi.small_segments"))
    };
    let (of_flows, of_ranks) = small_segments("[transports.mpi]");
    assert_eq!(of_flows, ("\"nagle\"".into(), "stack linux".into()));
    let why = "computed: workload \"application\" is an application: TCP_NODELAY";
    assert_eq!(of_ranks, ("\"at_once\"".into(), why.into()));
    let (_, given) = small_segments("[transports.mpi]\nsmall_segments = \"nagle\"");
    assert_eq!(given, ("\"nagle\"".into(), "file".into()));
    let (_, plain) = small_segments("[transports.mpi]\nstack = \"none\"");
    assert_eq!(plain, ("\"at_once\"".into(), "default".into()));
}

/// Linux: `tcp_ecn_send_syn` and `tcp_ecn_send_synack` send both packets as ECT(0) for a DCTCP socket.
#[test]
fn syns_of_dctcp_are_ecn_capable_on_linux() {
    let syn = |transport: &str| origin(transport, "ect_on_syn");
    let computed = ("true".to_owned(), "computed: DCTCP of the linux stack".to_owned());
    for preset in ["dctcp", "tcp_bolt"] {
        assert_eq!(syn(&format!("preset = \"{preset}\"")), computed);
        assert_eq!(syn(&format!("preset = \"{preset}\"\nect_on_syn = false")).0, "false");
        for stack in ["none", "freebsd9", "ns3"] {
            assert_eq!(syn(&format!("preset = \"{preset}\"\nstack = \"{stack}\"")).0, "false", "{stack}");
        }
    }
    for preset in ["cubic", "newreno", "tcp_dcb", "vegas", "bbr"] {
        assert_eq!(syn(&format!("preset = \"{preset}\"")).0, "false", "{preset} has no ECN");
    }
}

/// DCTCP+ is DCTCP on Linux; on another stack the preset names the features that the stack lacks.
#[test]
fn dctcp_plus_is_for_any_stack() {
    let values = |preset: &str, stack: &str| {
        let preset = PRESETS.iter().find(|known| known.name == preset).expect("a preset");
        let rows = explained(preset, stack).expect("a stack");
        let named = rows.into_iter().filter(|row| row.key != "preset");
        named.map(|row| (row.key, row.value)).collect::<Vec<_>>()
    };
    assert_eq!(values("dctcp", "linux"), values("dctcp_plus", "linux"));
    let different = |stack| {
        let pairs = values("dctcp", stack).into_iter().zip(values("dctcp_plus", stack));
        pairs.filter(|(one, other)| one != other).map(|(one, _)| one.0).collect::<Vec<_>>()
    };
    for stack in ["none", "freebsd9", "ns3"] {
        assert_eq!(different(stack), ["ect_on_syn"], "{stack}");
    }
}

/// The resolved key has the value that the stack or preset sets, and each value names its source document.
#[test]
fn every_row_is_read_and_explained() {
    // Queue pairs and datagrams have no stack.
    for preset in PRESETS.iter().filter(|preset| preset.row.iter().all(|value| value.key != "kind")) {
        for stack in STACKS {
            let rows = explained(preset, stack.name).expect("a stack that there is");
            for value in stack.row {
                let row = rows.iter().find(|row| row.key == value.key);
                // A constant of a congestion control is a key only if that congestion control is in use.
                if row.is_none() && value.key.starts_with("dctcp_") {
                    assert!(
                        rows.iter().all(|row| row.value != "\"dctcp\"" || row.key != "congestion_control")
                    );
                    continue;
                }
                let row = row.unwrap_or_else(|| panic!("{}: {} is no key", stack.name, value.key));
                // pFabric has no fast retransmit, so pFabric cannot use RACK.
                if row.origin.starts_with("computed: it needs ") {
                    assert_eq!((preset.name, row.value.as_str()), ("pfabric", "false"));
                    continue;
                }
                let above = preset.row.iter().any(|above| above.key == value.key);
                let expected = if above { "preset " } else { "stack " };
                assert!(row.origin.starts_with(expected), "{}: {row:?}", stack.name);
                assert!(!row.source.is_empty(), "{row:?}");
            }
        }
    }
    assert!(explained(&PRESETS[0], "windows").is_none());
}
