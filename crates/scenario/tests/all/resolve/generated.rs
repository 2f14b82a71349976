//! Random valid scenarios: the resolver accepts each, and the resolved scenario survives the round trip
//! through TOML.

use super::resolve_as;
use proptest::prelude::*;
use proptest::sample::select;

fn topology() -> impl Strategy<Value = String> {
    let link = (1u64..400_000_000_000, 0u64..1_000_000_000).prop_map(|(rate, delay)| {
        format!("link = {{ rate = \"{} bps\", delay = \"{delay} ps\" }}\n", rate + 1_000_000)
    });
    let kind = prop_oneof![
        (1u32..4).prop_map(|half| format!("kind = \"fat_tree\"\nk = {}\n", 2 * half)),
        (2u32..5, 1u32..4).prop_map(|(m, w)| format!("kind = \"xgft\"\nm = [{m}, 3]\nw = [1, {w}]\n")),
        (2u32..5, 1u32..4, 1u32..4).prop_map(|(leaves, spines, hosts)| {
            format!("kind = \"leaf_spine\"\nleaves = {leaves}\nspines = {spines}\nhosts_per_leaf = {hosts}\n")
        }),
        (2u32..9).prop_map(|hosts| format!("kind = \"star\"\nhosts = {hosts}\n")),
        (3u32..9)
            .prop_map(|switches| format!("kind = \"ring\"\nswitches = {switches}\nhosts_per_switch = 1\n")),
    ];
    (kind, link).prop_map(|(kind, link)| format!("[topology]\n{kind}{link}"))
}

fn switch() -> impl Strategy<Value = String> {
    let buffer = prop_oneof![
        (20_000u64..4_000_000).prop_map(|size| format!("buffer = \"{size} B\"\n")),
        (1_000_000u64..90_000_000, 0.001f64..64.0).prop_map(|(size, alpha)| format!(
            "buffer = {{ policy = \"shared\", size = \"{size} B\", alpha = {alpha:?} }}\n"
        )),
        (20_000u64..4_000_000).prop_map(|size| format!(
            "buffer = {{ policy = \"ideal_output_queued\", size = \"{size} B\" }}\n"
        )),
        (1u64..900_000).prop_map(|size| format!(
            "model = \"g8264\"\nbuffer = {{ egress_pool = \"{size} B\" }}\nclasses.a = {{ priorities = [7], alpha = 2 }}\n"
        )),
    ];
    let pfc = prop_oneof![
        Just(String::new()),
        (1u64..9_000, 1u64..9_000, 0u64..1_000).prop_map(|(xon, more, headroom)| {
            format!(
                "pfc = {{ xon = \"{xon} B\", xoff = \"{} B\", headroom = \"{headroom} B\" }}\n",
                xon + more
            )
        }),
        prop::collection::btree_set(1u8..8, 1..7).prop_map(|priorities| {
            let priorities: Vec<u8> = priorities.into_iter().collect();
            format!("pfc = {{ priorities = {priorities:?} }}\n")
        }),
    ];
    let marker = select(vec![
        "",
        "marker = \"none\"\n",
        "marker = { k = \"7 KB\", at = \"dequeue\" }\n",
        "marker.k = \"7 packets\"\n",
        "marker = { kind = \"red\", max = \"70 KB\", gentle = true }\n",
    ]);
    let more = (
        select(vec!["fifo", "pfabric", "trim"]),
        1u8..100,
        select(vec!["", "classes.b = { priorities = [5], marker = \"none\" }\n"]),
    )
        .prop_map(|(queue, share, class)| {
            let rest = 100 - share;
            format!(
                "queue = \"{queue}\"\n{class}scheduler.groups = [{{ priorities = [0, 1], share = {share} }}, \
                 {{ priorities = [3], share = {rest} }}]\n"
            )
        });
    let more = prop_oneof![Just(String::new()), more];
    (buffer, pfc, marker, more)
        .prop_map(|(buffer, pfc, marker, more)| format!("[switch]\n{buffer}{pfc}{marker}{more}"))
}

fn transport(table: &'static str) -> impl Strategy<Value = String> {
    let preset =
        select(vec!["newreno", "tcp_dcb", "dctcp", "dctcp_plus", "tcp_bolt", "cubic", "vegas", "bbr"]);
    let window = select(vec!["3 segments", "bdp", "77 KB"]);
    (preset, window, 1u64..1_000_000_000_000, 0.001f64..=1.0, any::<bool>()).prop_map(
        move |(preset, window, rto, g, on)| {
            format!(
                "[{table}]\npreset = \"{preset}\"\ninitial_window = \"{window}\"\nrto_min = \"{rto} ps\"\n\
             dctcp_g = {g:?}\nsack = {on}\nfast_retransmit = {on}\n\
             rack = {on}\nprr = {on}\nidle_restart = \"linux\"\nrto_growth = \"delivered\"\npacing = {on}\n"
            )
        },
    )
}

fn workload() -> impl Strategy<Value = String> {
    let name = select(vec!["", "transport = \"other\"\n"]);
    let kind = prop_oneof![
        (1u64..1_000_000_000_000).prop_map(|size| format!("kind = \"permutation\"\nsize = \"{size} B\"\n")),
        (0u64..1_000_000_000).prop_map(|start| format!("kind = \"n_to_1\"\nsize = \"1 MB\"\nstart = \"{start} ps\"\nspread = \"{start} ps\"\n")),
        (0.01f64..1e6).prop_map(|rate| format!("kind = \"incast\"\nfan_in = 1\nrate = {rate:?}\n")),
        (0.01f64..=1.0, select(vec!["data_mining", "web_search", "20 KB"])).prop_map(|(load, sizes)| format!(
            "kind = \"background\"\nsizes = \"{sizes}\"\narrivals = {{ kind = \"load\", load = {load:?} }}\nintra_rack = {load:?}\n"
        )),
    ];
    (name, kind).prop_map(|(name, kind)| format!("[[workload]]\n{name}{kind}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn survive_being_written_down(
        topology in topology(),
        switch in switch(),
        transports in (transport("transport"), transport("transports.other")),
        workloads in prop::collection::vec(workload(), 1..4),
        seed: u64,
        routing in select(vec!["ecmp", "spray"]),
    ) {
        let (first, second) = transports;
        let text = format!(
            "seed = {seed}\nstop = \"2 s\"\n{topology}[routing]\nkind = \"{routing}\"\n{switch}{first}{second}{}",
            workloads.concat()
        );
        let resolved = match resolve_as("g.toml", &text, &[], None) {
            // A random link may need more headroom than the random buffer holds.
            Err(error) if error.to_string().contains("nothing is left to share") => return Ok(()),
            resolved => resolved.unwrap_or_else(|error| panic!("{error}\n{text}")),
        };
        prop_assert_eq!(resolved.scenario.seed, seed);
        let written = resolved.to_toml();
        let again = resolve_as("g.toml", &written, &[], None).unwrap_or_else(|error| panic!("{error}\n{written}"));
        prop_assert_eq!(&again.scenario, &resolved.scenario);
        prop_assert_eq!(again.to_toml(), written);
        // Warnings depend on the scenario, not on the form of its text.
        prop_assert_eq!(again.warnings, resolved.warnings);
    }
}
