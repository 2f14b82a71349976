//! Terms of the field without a key or value here. The nearest existing name often means something else ("dcqcn" is not
//! "dctcp"), so a term gets an explanation instead of a suggestion.

/// Terms that are not modelled, with their meaning.
const NOT_MODELLED: [(&str, &str); 20] = [
    ("powertcp", "congestion control by in-band telemetry"),
    ("poseidon", "congestion control by in-band telemetry"),
    ("bbr2", "model-based congestion control of Google"),
    ("bbr3", "model-based congestion control of Google"),
    ("bbrv3", "model-based congestion control of Google"),
    ("copa", "delay-based congestion control"),
    ("ledbat", "congestion control for background traffic"),
    ("pcc", "congestion control by utility"),
    ("compound", "congestion control of Windows"),
    ("d2tcp", "DCTCP with deadlines"),
    ("d3", "rates by deadline"),
    ("hull", "DCTCP with phantom queues"),
    ("homa", "a receiver-driven transport"),
    ("ndp", "a receiver-driven transport with trimming"),
    ("phost", "a receiver-driven transport"),
    ("expresspass", "a credit-based transport"),
    ("quic", "a transport over UDP"),
    ("mptcp", "TCP over several paths"),
    ("srd", "a transport of AWS"),
    ("pie", "active queue management by delay"),
];

/// Terms that have another name here.
const OTHER_NAMES: [(&str, &[&str]); 16] = [
    ("tcp", &["cubic", "newreno"]),
    ("reno", &["newreno"]),
    ("clos", &["leaf_spine", "fat_tree"]),
    ("spineleaf", &["leaf_spine"]),
    ("singleswitch", &["star"]),
    ("singlerack", &["star"]),
    ("tree", &["fat_tree", "leaf_spine"]),
    ("manytoone", &["n_to_1", "incast"]),
    ("shuffle", &["permutation", "application"]),
    ("poisson", &["background"]),
    ("alltoall", &["application"]),
    ("allreduce", &["application"]),
    ("mpi", &["application"]),
    ("rpc", &["requests"]),
    ("iperf", &["long_flows"]),
    // A packing of spanning trees in earlier states of 0.1.0.
    ("hubseeded", &["exact"]),
];

/// Terms of RDMA, with the preset that models them.
const RDMA: [(&str, &str); 7] = [
    ("dcqcn", "roce_dcqcn"),
    ("hpcc", "roce_hpcc"),
    ("timely", "roce_timely"),
    ("swift", "roce_swift"),
    ("rdma", "roce_dcqcn"),
    ("roce", "roce_dcqcn"),
    ("rocev2", "roce_dcqcn"),
];

/// Terms that are values of another key.
const OTHER_KEYS: [(&str, &str); 3] = [
    ("codel", "switch.queue = \"codel\""),
    ("fqcodel", "switch.queue = \"fq_codel\""),
    ("red", "switch.marker = \"red\""),
];

/// Published flow sizes, which are sources of the distribution `cdf`.
const FLOW_SIZES: [&str; 3] = ["web_search", "data_mining", "facebook_key_value"];

/// Names of keys in other tools.
const KEYS: [(&str, &[&str]); 18] = [
    ("file", &["path"]),
    ("bandwidth", &["rate"]),
    ("speed", &["rate"]),
    ("capacity", &["rate"]),
    ("latency", &["delay"]),
    ("propagationdelay", &["delay"]),
    ("duration", &["stop"]),
    ("simtime", &["stop"]),
    ("time", &["stop"]),
    ("buffersize", &["buffer"]),
    ("ecn", &["marker"]),
    ("ecnthreshold", &["marker", "k"]),
    ("red", &["marker"]),
    ("nodes", &["hosts"]),
    ("numhosts", &["hosts"]),
    ("flowsize", &["size"]),
    ("protocol", &["preset"]),
    ("congestioncontrol", &["preset", "cc"]),
];

/// The keys that a term of the field can mean.
pub(crate) fn keys(word: &str) -> &'static [&'static str] {
    let plain = plain(word);
    KEYS.iter().find(|(term, _)| *term == plain).map_or(&[], |(_, names)| names)
}

/// The key for a term of the field, as a question, or "".
pub(crate) fn key_hint(word: &str, known: &[&str]) -> String {
    let meant = keys(word).iter().find(|name| known.contains(name));
    meant.map_or_else(String::new, |name| format!("did you mean {name:?}?"))
}

/// The explanation of a term of the field; `None` for any other word.
pub fn hint(word: &str, known: &[&str]) -> Option<String> {
    let term = plain(word);
    // Names of plug-ins are FILE:ALGORITHM.
    let of_plugin = |name: &&&str| name.contains(':') && name.split(':').any(|part| plain(part) == term);
    if let Some(name) = known.iter().find(of_plugin) {
        return Some(format!("did you mean {name:?}?"));
    }
    let names = OTHER_NAMES.iter().find(|(other, _)| *other == term).map_or(&[][..], |(_, names)| names);
    let here: Vec<String> =
        names.iter().filter(|name| known.contains(name)).map(|name| format!("{name:?}")).collect();
    if !here.is_empty() {
        return Some(format!("did you mean {}?", here.join(" or ")));
    }
    if known.contains(&"cdf")
        && let Some(source) = FLOW_SIZES.iter().find(|source| plain(source) == term)
    {
        return Some(format!("write sizes = {source:?}, or {{ kind = \"cdf\", source = {source:?} }}"));
    }
    if let Some((_, preset)) = RDMA.iter().find(|(rdma, _)| *rdma == term) {
        let is_here = known.contains(preset);
        return Some(if is_here {
            format!("did you mean {preset:?}?")
        } else {
            format!("for RDMA, write preset = {preset:?}")
        });
    }
    if let Some((_, key)) = OTHER_KEYS.iter().find(|(other, _)| *other == term) {
        return Some(format!("write {key}"));
    }
    let (_, what) = NOT_MODELLED.iter().find(|(missing, _)| *missing == term)?;
    Some(format!("{word} ({what}) is not modelled yet"))
}

/// A word without case and punctuation.
fn plain(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use crate::value::did_you_mean;

    #[test]
    fn a_term_of_the_field_is_not_taken_for_another() {
        let known = ["newreno", "cubic", "dctcp", "tcp_bolt"];
        for word in ["dcqcn", "DCQCN", "hpcc", "timely", "swift", "BBRv3", "RoCE"] {
            let hint = did_you_mean(word, known.iter().copied());
            assert!(!hint.contains("did you mean"), "{word}: {hint}");
        }
        assert_eq!(
            did_you_mean("bbr2", known.iter().copied()),
            "bbr2 (model-based congestion control of Google) is not modelled yet"
        );
        assert_eq!(did_you_mean("dcqcn", known.iter().copied()), "for RDMA, write preset = \"roce_dcqcn\"");
        assert_eq!(
            did_you_mean("dcqcn", ["dctcp", "roce_dcqcn"].into_iter()),
            "did you mean \"roce_dcqcn\"?"
        );
        assert_eq!(did_you_mean("tcp", known.iter().copied()), "did you mean \"cubic\" or \"newreno\"?");
        assert_eq!(did_you_mean("dctpc", known.iter().copied()), "did you mean \"dctcp\"?");
        let sizes = ["fixed", "uniform", "log_uniform", "cdf"];
        let form = "write sizes = \"web_search\", or { kind = \"cdf\", source = \"web_search\" }";
        assert_eq!(did_you_mean("websearch", sizes.into_iter()), form);
        assert_eq!(did_you_mean("codel", ["step", "red"].into_iter()), "write switch.queue = \"codel\"");
        assert_eq!(did_you_mean("codell", ["fifo", "codel"].into_iter()), "did you mean \"codel\"?");
        let plugged = ["cubic", "reno", "mine:swift"];
        assert_eq!(did_you_mean("swift", plugged.into_iter()), "did you mean \"mine:swift\"?");
        assert_eq!(did_you_mean("mine", plugged.into_iter()), "did you mean \"mine:swift\"?");
        assert_eq!(did_you_mean("bolt", known.iter().copied()), "did you mean \"tcp_bolt\"?");
    }
}
