//! Keys of a transport that another of its keys leaves without an effect: warned of where they are changed. A resolved scenario has every key, so those
//! with a default, or the value of a stack or preset, are not meant.

use super::checks::Named;
use crate::presets;
use crate::spec::transport::{CNP_DSCP, CNP_PRIORITY, EcnCapability, cnp_limit};
use crate::spec::{RdmaSpec, TcpSpec};
use crate::stacks::STACKS;
use pauseframe_rdma::cc::ControlName;
use pauseframe_rdma::{QueuePairSettings, RetransmissionTimer, WindowKind};
use pauseframe_schema::document::{Item, Value};
use pauseframe_schema::ledger::Ledger;
use pauseframe_schema::value::Choice;
use pauseframe_transport::{DelayedAckForm, EcnMode, PacingConfig, ReceiveBuffer, RtoForm, TcpConfig};
use pauseframe_units::Span;
use pauseframe_workload::{Partial, WorkloadKind};

/// The default of `rto_slop`, and the value of FreeBSD.
const SLOPS: [Span; 2] = [Span::from_ms(20), Span::from_ms(200)];

/// A key, whether it is changed, and whether anything uses it.
type Use = (&'static str, bool, bool);

/// Why keys change nothing, and which.
type Idle = (String, Vec<String>);

/// Warns of each changed key that nothing uses.
pub(super) fn check(ledger: &mut Ledger, transports: &[Named], workloads: &[Partial]) {
    for named in transports {
        let path = &named.path;
        if let Some(tcp) = named.spec.tcp() {
            let mut idle = idle_keys_of_tcp(tcp);
            idle.extend(idle_switches_of_tcp(tcp, &named.spec.preset, &switches_at(ledger, path)));
            warn(ledger, path, &idle);
        }
        if let Some(spec) = named.spec.rdma() {
            let written = keys_at(ledger, path);
            warn(ledger, path, &idle_keys_of_queue_pairs(spec, &written));
            warn(ledger, path, &idle_keys_of_storage(named, spec, workloads));
        }
    }
}

/// Keys that act on READs alone, or on all messages but these.
fn idle_keys_of_storage(named: &Named, spec: &RdmaSpec, workloads: &[Partial]) -> Vec<Idle> {
    let (pair, plain) = (&spec.pair, QueuePairSettings::default());
    let changed = pair.max_reads != plain.max_reads;
    let reads = !named.is_used || shares_of_reads(named, workloads).any(|share| share > 0.0);
    let sends = !named.is_used || shares_of_reads(named, workloads).any(|share| share < 1.0);
    vec![
        unused("no workload reads", &[("rdma_max_rd_atomic", changed, reads)]),
        unused(
            "workloads only read, and READs are neither sent nor acknowledged",
            &[
                ("rdma_send", pair.uses_send, sends),
                ("rdma_window", spec.window != WindowKind::None, sends),
                ("rdma_ack_as_cnp", pair.ack_as_cnp, sends),
                ("rdma_ack_every", pair.ack_every != plain.ack_every, sends),
            ],
        ),
    ]
}

fn warn(ledger: &mut Ledger, path: &str, idle: &[Idle]) {
    for (why, key) in idle.iter().flat_map(|(why, keys)| keys.iter().map(move |key| (why, key))) {
        ledger.warn(format!("{path}.{key}: {why}, so it changes nothing"));
    }
}

fn unused(why: impl Into<String>, uses: &[Use]) -> Idle {
    let idle = uses.iter().filter(|(_, is_changed, is_used)| *is_changed && !is_used);
    (why.into(), idle.map(|(key, ..)| (*key).to_owned()).collect())
}

/// The share of READs of each workload of a transport.
fn shares_of_reads<'a>(named: &'a Named, workloads: &'a [Partial]) -> impl Iterator<Item = f64> + 'a {
    let own = workloads.iter().filter(|workload| workload.transport == named.name);
    own.map(|workload| match &workload.kind {
        Some(WorkloadKind::Storage(storage)) => storage.read_share,
        _ => 0.0,
    })
}

fn idle_keys_of_tcp(tcp: &TcpSpec) -> Vec<Idle> {
    let config = &tcp.config;
    let TcpConfig { recovery, rto, .. } = config;
    let pacing = &recovery.pacing;
    let (plain, unpaced) = (TcpConfig::PLAIN, PacingConfig::OFF);
    let control = &config.congestion_control;
    let has_ecn = config.ecn != EcnMode::Off || control.needs_exact_echo();
    let has_timer = recovery.rack || recovery.tlp;
    let is_linux = config.delayed_ack_form == DelayedAckForm::Linux;
    let of_percent = pacing.on && !control.sets_pacing_rate();
    let without_pacing = if pacing.on {
        format!("{} sets the pacing rate itself", control.name())
    } else {
        "pacing is off".to_owned()
    };
    let adds_slop = rto.form == RtoForm::Freebsd;
    vec![
        unused(
            "ecn is \"off\"",
            &[("ect_on_syn", config.ect_on_syn, has_ecn), ("ect_on_ack", config.ect_on_ack, has_ecn)],
        ),
        unused(
            "sack is on",
            &[("ecn_hides_loss", recovery.ecn_hides_loss, !config.sack || tcp.stack == "freebsd9")],
        ),
        unused(
            "handshake is off",
            &[("syn_retries", config.syn_retries != plain.syn_retries, config.handshake)],
        ),
        unused("rto_form is not \"freebsd\"", &[("rto_slop", !SLOPS.contains(&rto.slop), adds_slop)]),
        unused(
            "rack and tlp are off",
            &[("recovery_slack", recovery.timer_slack != plain.recovery.timer_slack, has_timer)],
        ),
        unused(
            without_pacing,
            &[
                ("pacing_slow_start", pacing.slow_start_percent != unpaced.slow_start_percent, of_percent),
                ("pacing_avoidance", pacing.avoidance_percent != unpaced.avoidance_percent, of_percent),
                ("pacing_burst", pacing.burst != unpaced.burst, pacing.on),
            ],
        ),
        unused(
            format!("delayed_ack_form is \"{}\"", config.delayed_ack_form.name()),
            &[
                ("quick_acks", config.quick_acks != plain.quick_acks, is_linux),
                ("sack_compression", config.sack_compression != plain.sack_compression, is_linux),
            ],
        ),
        receive_buffer(config),
        buffer_of_writer(config),
    ]
}

/// Switches and choices of TCP that are written otherwise than the preset or the stack has them.
fn idle_switches_of_tcp(tcp: &TcpSpec, preset: &str, written: &[(String, String)]) -> Vec<Idle> {
    let (config, control) = (&tcp.config, &tcp.config.congestion_control);
    let rows = [presets::find(preset), STACKS.iter().find(|stack| stack.name == tcp.stack)];
    let unused = |why: String, is_used: bool, keys: &[(&str, &str)]| {
        let is_meant = |(key, default): &&(&str, &str)| {
            let usual = rows.iter().flatten().find_map(|row| row.value(key)).unwrap_or(default);
            written.iter().any(|(name, value)| name == key && value != usual)
        };
        let keys = if is_used { &[] } else { keys };
        (why, keys.iter().filter(is_meant).map(|(key, _)| (*key).to_owned()).collect())
    };
    let ect_on_syn = if tcp.stack == STACKS[0].name && control.needs_exact_echo() { "true" } else { "false" };
    let of_hystart = [("cubic_hystart_milliseconds", "false"), ("cubic_hystart_low_window", "16")];
    let has_hystart = !written.iter().any(|(key, value)| key == "cubic_hystart" && value == "false");
    vec![
        unused("sack is off".to_owned(), config.sack, &[("dsack", "false"), ("sack_compression", "true")]),
        unused("handshake is off".to_owned(), config.handshake, &[("ect_on_syn", ect_on_syn)]),
        unused("fast_retransmit is off".to_owned(), config.fast_retransmit, &[("limited_transmit", "true")]),
        unused(
            format!("{} sets the window itself", control.name()),
            !control.owns_window(),
            &[
                ("prr", "false"),
                ("rto_growth", "segment"),
                ("idle_restart", "off"),
                ("window_validation", "true"),
            ],
        ),
        unused("cubic_hystart is off".to_owned(), has_hystart, &of_hystart),
        unused(
            "every segment is acknowledged at once".to_owned(),
            config.delayed_ack.segments > 1,
            &[("delayed_ack_timeout", "40 ms")],
        ),
    ]
}

/// Sizes that the kind of receive buffer does not use.
fn receive_buffer(config: &TcpConfig) -> Idle {
    let is_changed = |value: u32, defaults: &[u32]| !defaults.contains(&value);
    let (initial, max) = (config.receive_buffer_initial, config.receive_buffer_max);
    let is_fixed = config.receive_buffer == ReceiveBuffer::Fixed;
    let in_steps = config.receive_buffer == ReceiveBuffer::Freebsd;
    unused(
        format!("receive_buffer is \"{}\"", config.receive_buffer.name()),
        &[
            ("receive_window", is_changed(config.receive_window, &[4_000_000]), is_fixed),
            ("receive_buffer_initial", is_changed(initial, &[131_072, 65_536]), !is_fixed),
            ("receive_buffer_max", is_changed(max, &[6_291_456, 262_144]), !is_fixed),
            ("receive_buffer_step", is_changed(config.receive_buffer_step, &[16_384]), in_steps),
        ],
    )
}

/// Sizes of a buffer that holds what the application has written.
fn buffer_of_writer(config: &TcpConfig) -> Idle {
    let is_limited = config.limits_writer();
    let (initial, max) = (config.send_buffer_initial, config.send_buffer_max);
    unused(
        "the send buffer is unlimited",
        &[
            ("send_buffer_initial", initial != TcpConfig::PLAIN.send_buffer_initial, is_limited),
            ("send_buffer_max", max != TcpConfig::PLAIN.send_buffer_max, is_limited),
        ],
    )
}

/// Control packets of NSCC have the priority of CNPs, not their DSCP; the form of HPCC with `hpcc_flows` has its own increase.
fn idle_keys_of_queue_pairs(spec: &RdmaSpec, written: &[String]) -> Vec<Idle> {
    let (pair, changes) = (&spec.pair, spec.pair.changes);
    let plain = QueuePairSettings::default();
    let (is_hpcc, is_timely) = (is(spec, ControlName::Hpcc), is(spec, ControlName::Timely));
    let (has_cnps, is_nscc) = (spec.control.reacts_to_cnps(), spec.control.is_unordered());
    let has_window = spec.control.has_window() || spec.window != WindowKind::None;
    let has_priority = has_cnps || is_nscc || pair.ack_as_cnp;
    let (interval, scope) = cnp_limit(spec.control);
    let by_control = format!("rdma_control is \"{}\"", spec.control.name());
    let of_dcqcn = written.iter().filter(|key| key.starts_with("dcqcn_") && !spec.control.is_dcqcn());
    let is_ibta = pair.timer == RetransmissionTimer::Ibta;
    vec![
        (by_control.clone(), of_dcqcn.cloned().collect()),
        unused(
            by_control,
            &[
                ("hpcc_max_stage", spec.hpcc_max_stage != 0, is_hpcc),
                ("hpcc_flows", spec.hpcc_flows.is_some(), is_hpcc),
                ("hpcc_utilisation", changes.utilisation.is_some(), is_hpcc),
                (
                    "rdma_additive_increase",
                    changes.additive.is_some(),
                    is_timely || (is_hpcc && spec.hpcc_flows.is_none()),
                ),
                ("rdma_hyper_increase", changes.hyper.is_some(), is_timely),
                ("rdma_minimum_rate", changes.minimum.is_some(), is_timely || is_hpcc),
                ("rdma_slow_restart", !pair.slow_restart, has_cnps),
                ("rdma_cnp_interval", spec.cnp.interval != interval, has_cnps),
                ("rdma_cnp_scope", spec.cnp.scope != scope, has_cnps),
                ("rdma_cnp_delay", spec.cnp.delay > Span::ZERO, has_cnps),
                ("rdma_cnp_priority", spec.cnp_priority != CNP_PRIORITY, has_priority),
                ("rdma_cnp_dscp", spec.cnp_dscp != CNP_DSCP, has_cnps),
                ("rdma_selective_repeat", pair.selective_repeat, !is_nscc),
                ("rdma_ack_as_cnp", pair.ack_as_cnp, !is_nscc),
                ("rdma_timer", is_ibta, !is_nscc),
                ("rdma_timeout_low", pair.timeout_low.is_some(), !is_nscc),
                (
                    "ecn",
                    spec.ecn != EcnCapability::Off,
                    !(is_hpcc || is_timely || is(spec, ControlName::Swift)),
                ),
            ],
        ),
        unused(
            "rdma_timer is \"adaptive\"",
            &[("rdma_timeout_low", pair.timeout_low.is_some(), is_ibta || is_nscc)],
        ),
        // Presets of HPCC and Swift set 1; NSCC acknowledges by bytes.
        unused(
            "senders with a window ask for acknowledgements themselves",
            &[(
                "rdma_ack_every",
                pair.ack_every != plain.ack_every && (is_nscc || pair.ack_every > 1),
                !has_window,
            )],
        ),
        keys_of_receives(pair),
    ]
}

/// Keys of a receiver that runs out of posted receives.
fn keys_of_receives(pair: &QueuePairSettings) -> Idle {
    let (plain, has_receives) = (QueuePairSettings::default(), pair.receives.is_some());
    let why = if pair.uses_send {
        "receives are always posted (no rdma_receives)"
    } else {
        "messages are WRITEs (rdma_send is off)"
    };
    unused(
        why,
        &[
            ("rdma_rnr_timer", pair.rnr_timer != plain.rnr_timer, has_receives),
            ("rdma_rnr_retry", pair.rnr_retry != plain.rnr_retry, has_receives),
            ("rdma_repost_delay", pair.repost != plain.repost, has_receives),
        ],
    )
}

fn is(spec: &RdmaSpec, control: ControlName) -> bool {
    spec.control.built_in() == Some(control)
}

/// The keys that a document writes into the table at a path.
fn keys_at(ledger: &Ledger, path: &str) -> Vec<String> {
    match &ledger.root.nearest(path) {
        (Item { value: Value::Table(pairs), .. }, true) => pairs.iter().map(|(key, _)| key.clone()).collect(),
        _ => Vec::new(),
    }
}

/// The switches, numbers and words that a document writes into the table at a path.
fn switches_at(ledger: &Ledger, path: &str) -> Vec<(String, String)> {
    let (Item { value: Value::Table(pairs), .. }, true) = &ledger.root.nearest(path) else {
        return Vec::new();
    };
    let word = |(key, item): &(String, Item)| match &item.value {
        Value::Bool(is_on) => Some((key.clone(), is_on.to_string())),
        Value::Integer(number) => Some((key.clone(), number.to_string())),
        Value::Text(text) => Some((key.clone(), text.clone())),
        _ => None,
    };
    pairs.iter().filter_map(word).collect()
}
