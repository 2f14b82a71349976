//! Thresholds of single ports, buffers of single switches, and buckets, against what the fabric has.

use super::{GOOD, resolve_as};

const LOSSLESS: [(&str, &str); 2] = [("transport.lossless", "true"), ("switch.buffer.size", "100 KB")];

/// The errors or warnings of the star of 4 hosts with lossless traffic and an addition.
fn said(addition: &str) -> String {
    match resolve_as("s.toml", &format!("{GOOD}{addition}"), &LOSSLESS, None) {
        Ok(resolved) => resolved.warnings.join("\n"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn thresholds_of_a_port_fit_in_the_buffer_of_its_switch() {
    let row = |keys: &str| said(&format!("[switch]\npfc.ports = [{{ ports = [\"switch:*\"], {keys} }}]\n"));
    assert_eq!(row("xoff = \"60 KB\""), "");
    let above = row("xoff = \"120 KB\"");
    assert!(
        above.contains(
            "switch.pfc.ports.0.xoff: 120 KB leaves no headroom in the buffer of switch (100 KB) at port switch:0"
        ),
        "{above}"
    );
    let both = row("xoff = \"60 KB\", headroom = \"50 KB\"");
    assert!(
        both.contains("ports.0.xoff: 60 KB and headroom (50 KB) are more than the buffer of switch"),
        "{both}"
    );
    let headroom = row("headroom = \"100 KB\"");
    assert!(headroom.contains("ports.0.headroom: 100 KB leaves nothing for traffic"), "{headroom}");
    let xon = row("xon = \"100 KB\"");
    assert!(xon.contains("ports.0.xon: 100 KB is not below the buffer of switch"), "{xon}");
}

/// With less than a frame below XOFF each frame is answered with a pause, for all ports and for single ones. A frame of 1500 bytes has 1518.
#[test]
fn thresholds_below_a_frame_are_warned_of() {
    let of_all = |xoff: u32| said(&format!("[switch.pfc]\nxoff = \"{xoff} B\"\n"));
    assert!(
        of_all(1517).contains("switch.pfc.xoff: 1.517 KB is less than one frame of host.mtu"),
        "{}",
        of_all(1517)
    );
    assert_eq!(of_all(1518), "");
    let of_port = said("[switch]\npfc.ports = [{ ports = [\"switch:*\"], xoff = \"1 KB\" }]\n");
    assert!(of_port.contains("switch.pfc.ports.0.xoff: 1 KB is less than one frame"), "{of_port}");
}

/// A port can have XOFF from one table and XON or headroom from another.
#[test]
fn thresholds_of_a_port_fit_each_other() {
    let below = said(
        "[switch.pfc]\nxoff = \"40 KB\"\nports = [{ ports = [\"switch:1\"], xon = \"50 KB\" }, { ports = [\"switch:2\"], xon = \"30 KB\" }]\n",
    );
    assert!(
        below.contains("switch.pfc.ports.0.xon: 50 KB is not below xoff (40 KB) at port switch:1"),
        "{below}"
    );
    let second = said(
        "[switch.pfc]\nports = [{ ports = [\"switch:*\"], headroom = \"50 KB\" }, { ports = [\"switch:3\"], xoff = \"60 KB\" }]\n",
    );
    assert!(second.contains("switch.pfc.ports.1.xoff: 60 KB and headroom (50 KB)"), "{second}");
    // A later row takes precedence.
    let mended = said(
        "[switch.pfc]\nports = [{ ports = [\"switch:*\"], xoff = \"120 KB\" }, { ports = [\"*\"], xoff = \"60 KB\" }]\n",
    );
    assert_eq!(mended, "");
}

#[test]
fn a_smaller_buffer_of_one_switch_counts() {
    let small = "[[switch.override]]\nswitches = [\"switch\"]\nbuffer = \"50 KB\"\n";
    let shared = |pfc: &str| said(&format!("[switch]\nbuffer.policy = \"shared\"\n{pfc}{small}"));
    assert_eq!(shared(""), "");
    let above = shared("pfc.xoff = \"60 KB\"\n");
    assert!(
        above.contains("switch.pfc.xoff: 60 KB leaves no headroom in the buffer of switch (50 KB)"),
        "{above}"
    );
    assert!(!above.contains("ports"), "{above}");
}

#[test]
fn a_row_of_ports_alone_is_refused() {
    let alone = said("[switch]\npfc.ports = [{ ports = [\"switch:*\"] }]\n");
    assert!(alone.contains("switch.pfc.ports.0: changes nothing"), "{alone}");
}

/// Eight next hops need eight buckets: with four, half of the spines idle.
#[test]
fn fewer_buckets_than_next_hops_are_said() {
    let with = |buckets: u32| {
        let text = format!(
            "stop = \"10 ms\"\ntopology = {{ kind = \"leaf_spine\", leaves = 2, spines = 8, hosts_per_leaf = 4 }}\n\
             routing = {{ index = \"resilient\", buckets = {buckets} }}\n[[workload]]\nkind = \"permutation\"\nsize = \"1 MB\"\n"
        );
        resolve_as("s.toml", &text, &[], None).unwrap_or_else(|error| panic!("{error}")).warnings
    };
    assert_eq!(with(8), [""; 0]);
    let said = with(4).join("\n");
    assert!(
        said.contains("routing.buckets: 4 for 8 next hops of leaf0: 4 of them never get a flow"),
        "{said}"
    );
}

/// The ports of a receiver share its memory, so it is slow below the sum of their rates.
#[test]
fn a_receiver_is_slow_below_the_rate_of_all_its_links() {
    let warnings = |ports: u32, rate: &str| {
        let text = format!(
            "topology = {{ kind = \"star\", hosts = 3, ports_per_host = {ports}, link = {{ rate = \"10 Gbps\" }} }}\n\
             host = {{ port_choice = \"rail\", slow_receivers = [{{ host = \"host0\", rate = \"{rate}\", buffer = \"400 KB\" }}] }}\n\
             transport = {{ preset = \"roce_dcqcn\" }}\n\
             workload = {{ kind = \"flows\", flows = [{{ src = \"host1\", dst = \"host0\", size = \"1 MB\" }}] }}\n"
        );
        let all = resolve_as("s.toml", &text, &[], None).unwrap().warnings;
        all.into_iter().filter(|warning| warning.contains("slow_receivers")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!((warnings(1, "9 Gbps"), warnings(2, "12 Gbps")), (String::new(), String::new()));
    let one = warnings(1, "12 Gbps");
    assert!(
        one.contains(
            "12 Gbps is not below the rate of the link to host0 (10 Gbps): this receiver is never slow"
        ),
        "{one}"
    );
    let two = warnings(2, "20 Gbps");
    assert!(
        two.contains(
            "20 Gbps is not below the rate of the links to host0 (20 Gbps): this receiver is never slow"
        ),
        "{two}"
    );
}
