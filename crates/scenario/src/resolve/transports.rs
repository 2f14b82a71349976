//! Reads `[transport]` and `[transports.NAME]`, and chooses the priority of each transport, which depends on
//! the switches.

use super::SCENARIO;
use super::checks::Named;
use super::kinds;
use crate::spec::transport::kind_of;
use crate::spec::{Protocol, SwitchSpec, TransportKindName, TransportSpec};
use pauseframe_schema::document::{Item, Place, parse_word};
use pauseframe_schema::ledger::{Entry, Ledger, Origin};
use pauseframe_schema::reader::Table;
use pauseframe_schema::row::Row;
use pauseframe_schema::value::Setting;
use pauseframe_transport::SmallSegments;
use pauseframe_units::Priority;

/// Reads `[transport]` first, then `[transports.NAME]` in the order of the file.
pub(super) fn read(t: &mut Table, reorders: Option<&str>) -> Vec<Named> {
    let transport = |t: &mut Table, name: &str| {
        let mut given = None;
        let spec = TransportSpec::read(t, reorders, &mut given);
        kinds::refuse_keys_of_other_kinds(t, &spec);
        let keeps_small_segments = t.has("small_segments");
        let (name, path) = (name.to_owned(), t.path.clone());
        Named { name, path, spec, priority: given, keeps_small_segments, is_used: false }
    };
    let mut transports = vec![t.section("transport", |t| transport(t, "default"))];
    let doc = "Further transports, with the keys of [transport]";
    transports.extend(t.named("transports", "transport", doc, |t, name| {
        let plain =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if !plain || name == "default" {
            let hint = "use letters, digits, '_' and '-'; \"default\" is [transport] itself";
            t.check(false, "", || format!("{name:?} is not a name for a transport"), hint);
        }
        transport(t, name)
    }));
    transports
}

/// Chooses the priority of a transport that was read at `path`, after the lossless priorities are known.
pub(super) fn settle_priority(
    ledger: &mut Ledger,
    path: &str,
    spec: &mut TransportSpec,
    given: Option<Priority>,
    (lossless, switch): (&[Priority], &SwitchSpec),
    is_used: bool,
) {
    let path = format!("{path}.priority");
    let of_dscp = switch.priority_of_dscp.iter().find(|[dscp, _]| *dscp == spec.dscp);
    let of_dscp = of_dscp.and_then(|[_, priority]| Priority::new(*priority));
    let other = of_dscp.filter(|of_dscp| is_used && Some(*of_dscp) != given);
    if let (Some(given), Some(of_dscp)) = (given, other) {
        let message =
            format!("{given}, but switch.priority_of_dscp gives DSCP {} priority {of_dscp}", spec.dscp);
        ledger.problem(&path, message, "leave one of them out");
    }
    if let (None, Some(of_dscp)) = (given, of_dscp) {
        spec.priority = of_dscp;
        let origin = Origin::Computed(format!("switch.priority_of_dscp for DSCP {}", spec.dscp));
        ledger.settle(&path, of_dscp.toml(), origin);
    }
    let Some(given) = given.or(of_dscp) else {
        let (choice, why) = if spec.lossless {
            (lossless.first().copied(), "the first of switch.pfc.priorities")
        } else {
            (
                (0..8).filter_map(Priority::new).find(|priority| !lossless.contains(priority)),
                "the lowest that is not lossless",
            )
        };
        spec.priority = choice.unwrap_or_default();
        let origin = Origin::Computed(why.to_owned());
        ledger.settle(&path, spec.priority.toml(), origin);
        if choice.is_none() && !spec.lossless && is_used {
            let hint = "leave a priority out of switch.pfc.priorities, or set lossless = true";
            ledger.problem(&path, "all eight priorities are lossless, and this transport is not", hint);
        }
        return;
    };
    // A transport that no workload uses may have an unsuitable priority.
    if is_used && spec.lossless != lossless.contains(&given) && !ledger.failed(&path) {
        let (is, hint) = if spec.lossless {
            (
                "is not one of switch.pfc.priorities, but the transport is lossless",
                "add it there, or leave priority out",
            )
        } else {
            (
                "is a lossless priority, but the transport is lossy",
                "set lossless = true, or leave priority out",
            )
        };
        ledger.problem(&path, format!("{given} {is}"), hint);
    }
}

/// Sets `TCP_NODELAY` for an application that passes messages, as Open MPI, NCCL and gRPC do, and for storage, as `NVMe` over TCP
/// does at both ends (Linux: `nvme/host/tcp.c`, `nvme/target/tcp.c`). With Nagle's algorithm the end of a message would
/// wait for the delayed ACK of the previous message. A value in the file takes precedence.
pub(super) fn settle_small_segments(
    ledger: &mut Ledger,
    transport: &mut Named,
    (workload, kind): (&str, &str),
) {
    let Named { path, spec, keeps_small_segments, .. } = transport;
    let Protocol::Tcp(tcp) = &mut spec.protocol else { return };
    if !*keeps_small_segments && tcp.config.small_segments == SmallSegments::Nagle {
        tcp.config.small_segments = SmallSegments::AtOnce;
        let origin = Origin::Computed(format!("workload {workload:?} is {kind}: TCP_NODELAY"));
        ledger.settle(&format!("{path}.small_segments"), SmallSegments::AtOnce.toml(), origin);
    }
}

/// Every key of `[transport]` with the value that `preset` above `stack` gives.
pub(super) fn row(preset: &'static Row, stack: &'static str) -> Vec<Entry> {
    read_row(preset, stack).1
}

/// The settings that `preset` above `stack` gives, and every key with its value.
pub(super) fn read_row(preset: &Row, stack: &str) -> (TransportSpec, Vec<Entry>) {
    let mut root = Item::table(Place::Nowhere);
    if kind_of(preset.name) == TransportKindName::Tcp {
        root.insert("stack", parse_word(stack, Place::Nowhere));
    }
    root.insert("preset", parse_word(preset.name, Place::Nowhere));
    let mut ledger = Ledger::new(&root, "", &SCENARIO);
    let spec = TransportSpec::read(&mut Table::root(&mut ledger), None, &mut None);
    (spec, ledger.close().map_or_else(|_| Vec::new(), |(entries, _)| entries))
}
