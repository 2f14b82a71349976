//! What a transport sets in the kernel of hosts, and which of its keys the kernel does not have.
//!
//! A kernel has the values of stack "linux" by itself. A value that differs becomes a sysctl, an attribute of the route or a parameter of the
//! kernel; a key that the kernel does not have gets a warning.

// Other systems check scenarios with a kernel, and cannot run them.
#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

use super::transports::read_row;
use crate::presets;
use crate::spec::TransportSpec;
use pauseframe_schema::ledger::Entry;
use pauseframe_transport::{
    CachePolicy, CongestionControlConfig, CubicConfig, DctcpConfig, EcnMode, IdleRestart, ReceiveBuffer,
    SendBuffer, TcpConfig, VegasConfig,
};
use pauseframe_units::Span;

/// Where the kernel reads a setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// `sysctl -w net.ipv4.WORDS`.
    Sysctl,
    /// `ip route`.
    Route,
    /// The command line of the kernel.
    Parameter,
}

/// A setting of the kernel, and the keys of `[transport]` that it follows from.
struct Reach {
    keys: &'static [&'static str],
    place: Place,
    /// The setting; `None` if the kernel cannot have the value, or does not need it.
    words: fn(&TcpConfig) -> Option<String>,
}

const fn sysctl(keys: &'static [&'static str], words: fn(&TcpConfig) -> Option<String>) -> Reach {
    Reach { keys, place: Place::Sysctl, words }
}

const fn parameter(keys: &'static [&'static str], words: fn(&TcpConfig) -> Option<String>) -> Reach {
    Reach { keys, place: Place::Parameter, words }
}

const fn route(keys: &'static [&'static str], words: fn(&TcpConfig) -> Option<String>) -> Reach {
    Reach { keys, place: Place::Route, words }
}

/// Keys that reach the kernel otherwise, or that name a set of values.
const ELSEWHERE: [&str; 8] = [
    "preset",
    "kind",
    "lossless",
    "priority",
    "dscp",
    "initial_window",
    "congestion_control",
    "small_segments",
];

const KEYS: &[Reach] = &[
    // DCTCP negotiates ECN whatever this says.
    sysctl(&["ecn"], |tcp| match tcp.ecn {
        EcnMode::Off => sets("tcp_ecn", 2),
        EcnMode::Classic => sets("tcp_ecn", 1),
        EcnMode::Dctcp => None,
    }),
    sysctl(&["sack"], |tcp| sets("tcp_sack", u8::from(tcp.sack))),
    sysctl(&["dsack"], |tcp| sets("tcp_dsack", u8::from(tcp.dsack))),
    sysctl(&["timestamps"], |tcp| sets("tcp_timestamps", u8::from(tcp.timestamps))),
    sysctl(&["dup_thresh"], |tcp| sets_within("tcp_reordering", tcp.dup_thresh, 1, 300)),
    sysctl(&["rack"], |tcp| sets("tcp_recovery", u8::from(tcp.recovery.rack))),
    sysctl(&["tlp"], |tcp| sets("tcp_early_retrans", if tcp.recovery.tlp { 3 } else { 0 })),
    sysctl(&["frto"], |tcp| sets("tcp_frto", if tcp.recovery.frto { 2 } else { 0 })),
    sysctl(&["idle_restart"], |tcp| match tcp.recovery.idle_restart {
        IdleRestart::Linux => sets("tcp_slow_start_after_idle", 1),
        IdleRestart::Off => sets("tcp_slow_start_after_idle", 0),
        IdleRestart::Rfc5681 => None,
    }),
    sysctl(&["pacing_slow_start"], |tcp| {
        sets_within("tcp_pacing_ss_ratio", tcp.recovery.pacing.slow_start_percent, 0, 1000)
    }),
    sysctl(&["pacing_avoidance"], |tcp| {
        sets_within("tcp_pacing_ca_ratio", tcp.recovery.pacing.avoidance_percent, 0, 1000)
    }),
    sysctl(&["sack_compression"], |tcp| sets("tcp_comp_sack_nr", if tcp.sack_compression { 44 } else { 0 })),
    sysctl(&["receive_buffer_initial", "receive_buffer_max"], |tcp| {
        let (initial, max) = (tcp.receive_buffer_initial, tcp.receive_buffer_max);
        let is_used = tcp.receive_buffer == ReceiveBuffer::Linux;
        if is_used { sets("tcp_rmem", format!("4096 {initial} {max}")) } else { None }
    }),
    sysctl(&["receive_buffer_initial", "receive_buffer_max"], |tcp| {
        let grows = u8::from(tcp.receive_buffer_max > tcp.receive_buffer_initial);
        if tcp.receive_buffer == ReceiveBuffer::Linux { sets("tcp_moderate_rcvbuf", grows) } else { None }
    }),
    sysctl(&["send_buffer_initial", "send_buffer_max"], |tcp| {
        let (initial, max) = (tcp.send_buffer_initial, tcp.send_buffer_max);
        let is_used = tcp.send_buffer == SendBuffer::Linux;
        if is_used { sets("tcp_wmem", format!("4096 {initial} {max}")) } else { None }
    }),
    sysctl(&["cache"], |tcp| match tcp.cache {
        CachePolicy::None => sets("tcp_no_metrics_save", 1),
        CachePolicy::Linux | CachePolicy::LinuxSsthresh => sets("tcp_no_metrics_save", 0),
        CachePolicy::Freebsd | CachePolicy::Cee => None,
    }),
    sysctl(&["cache"], |tcp| {
        sets("tcp_no_ssthresh_metrics_save", u8::from(tcp.cache != CachePolicy::LinuxSsthresh))
    }),
    sysctl(&["syn_retries"], |tcp| sets_within("tcp_syn_retries", tcp.syn_retries, 1, 127)),
    sysctl(&["retries"], |tcp| sets("tcp_retries2", tcp.retries)),
    route(&["rto_min"], |tcp| {
        let ms = tcp.rto.min.0 / Span::from_ms(1).0;
        (ms > 0 && tcp.rto.min == Span::from_ms(ms)).then(|| format!("rto_min {ms}ms"))
    }),
    route(&["delayed_ack_segments"], |tcp| match tcp.delayed_ack.segments {
        1 => Some("quickack 1".to_owned()),
        2 => Some("quickack 0".to_owned()),
        _ => None,
    }),
    parameter(&["cubic_beta"], |tcp| cubic(tcp, |cubic| ("beta", (cubic.beta * 1024.0).round() as u32))),
    parameter(&["cubic_c"], |tcp| cubic(tcp, |cubic| ("bic_scale", (cubic.c * 102.4).round() as u32))),
    parameter(&["cubic_fast_convergence"], |tcp| {
        cubic(tcp, |cubic| ("fast_convergence", u32::from(cubic.fast_convergence)))
    }),
    parameter(&["cubic_friendly"], |tcp| cubic(tcp, |cubic| ("tcp_friendliness", u32::from(cubic.friendly)))),
    parameter(&["cubic_hystart"], |tcp| cubic(tcp, |cubic| ("hystart", u32::from(cubic.hystart)))),
    parameter(&["cubic_hystart_low_window"], |tcp| {
        cubic(tcp, |cubic| ("hystart_low_window", cubic.hystart_low_window))
    }),
    // Linux has g as a power of two only.
    parameter(&["dctcp_g"], |tcp| {
        let shift = |g: f64| {
            let inverse = (1.0 / g).round() as u32;
            let is_power = inverse.is_power_of_two() && (1.0 / g - f64::from(inverse)).abs() < 1e-9;
            is_power.then(|| inverse.trailing_zeros())
        };
        dctcp(tcp, |dctcp| shift(dctcp.g).map(|shift| format!("dctcp_shift_g={shift}")))
    }),
    parameter(&["dctcp_alpha_initial"], |tcp| {
        let alpha = |alpha: f64| (alpha * 1024.0).round() as u32;
        dctcp(tcp, |dctcp| Some(format!("dctcp_alpha_on_init={}", alpha(dctcp.alpha_initial))))
    }),
    parameter(&["vegas_alpha"], |tcp| vegas(tcp, |vegas| ("alpha", vegas.alpha))),
    parameter(&["vegas_beta"], |tcp| vegas(tcp, |vegas| ("beta", vegas.beta))),
    parameter(&["vegas_gamma"], |tcp| vegas(tcp, |vegas| ("gamma", vegas.gamma))),
];

#[expect(clippy::unnecessary_wraps, reason = "as the closures of the table return it")]
fn sets(name: &str, value: impl std::fmt::Display) -> Option<String> {
    Some(format!("net.ipv4.{name} = {value}"))
}

fn sets_within(name: &str, value: u32, least: u32, most: u32) -> Option<String> {
    if (least..=most).contains(&value) { sets(name, value) } else { None }
}

fn cubic(tcp: &TcpConfig, of: fn(&CubicConfig) -> (&'static str, u32)) -> Option<String> {
    let CongestionControlConfig::Cubic(config) = &tcp.congestion_control else { return None };
    let (name, value) = of(config);
    Some(format!("tcp_cubic.{name}={value}"))
}

fn dctcp(tcp: &TcpConfig, of: impl Fn(&DctcpConfig) -> Option<String>) -> Option<String> {
    let CongestionControlConfig::Dctcp(config) = &tcp.congestion_control else { return None };
    Some(format!("tcp_dctcp.{}", of(config)?))
}

fn vegas(tcp: &TcpConfig, of: fn(&VegasConfig) -> (&'static str, u32)) -> Option<String> {
    let CongestionControlConfig::Vegas(config) = &tcp.congestion_control else { return None };
    let (name, value) = of(config);
    Some(format!("tcp_vegas.{name}={value}"))
}

/// What to do about a key that does not reach the kernel.
const ADVICE: [(&[&str], &str); 5] = [
    (&["receive_buffer", "receive_window"], "set net.ipv4.tcp_rmem in host.sysctl"),
    (&["send_buffer"], "set net.ipv4.tcp_wmem in host.sysctl"),
    (&["pacing"], "set host.qdisc = \"fq\""),
    (&["rto_granularity", "timer_wheel"], "choose the timer's frequency with pauseframe kernel build --hz"),
    (&["rto_min"], "Linux takes whole milliseconds, from 1 ms on"),
];
const NO_ADVICE: &str = "use host.stack = \"simulated\" to have it";

/// The settings of a TCP transport: `check_transports` refuses others for kernel hosts.
fn tcp_of(spec: &TransportSpec) -> &TcpConfig {
    &spec.tcp().expect("kernel hosts have TCP only").config
}

/// A transport as the kernel has it by itself, with every key and its value; `None` if Linux lacks the congestion control.
fn of_linux(spec: &TransportSpec) -> Option<(TransportSpec, Vec<Entry>)> {
    presets::find(tcp_of(spec).congestion_control.name()).map(|preset| read_row(preset, "linux"))
}

/// What the kernel must be given.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct KernelSettings {
    /// Lines for `host.sysctl`.
    pub(crate) sysctl: Vec<String>,
    /// Attributes of the route.
    pub(crate) route: Vec<String>,
    /// Words of the kernel's command line.
    pub(crate) parameters: Vec<String>,
}

impl KernelSettings {
    /// What all transports in use set together.
    pub(crate) fn of<'a>(transports: impl Iterator<Item = &'a TransportSpec>) -> KernelSettings {
        let mut settings = KernelSettings::default();
        for spec in transports {
            let Some((linux, _)) = of_linux(spec) else { continue };
            for reach in KEYS {
                let words = (reach.words)(tcp_of(spec));
                let list = match reach.place {
                    Place::Sysctl => &mut settings.sysctl,
                    Place::Route => &mut settings.route,
                    Place::Parameter => &mut settings.parameters,
                };
                if words != (reach.words)(tcp_of(&linux))
                    && let Some(words) = words
                    && !list.contains(&words)
                {
                    list.push(words);
                }
            }
        }
        settings
    }
}

/// Keys of a transport whose values the kernel does not take: the key, its value, the kernel's value, and what to do. `entries` are those
/// of the transport, without the path of its table.
pub(super) fn unreached(spec: &TransportSpec, entries: &[(&str, &str)]) -> Vec<[String; 4]> {
    let Some((_, linux)) = of_linux(spec) else { return Vec::new() };
    let is_other = |key: &str| ELSEWHERE.contains(&key) || key == "stack";
    let reaches = |key: &str| {
        let mut of_key = KEYS.iter().filter(|reach| reach.keys.contains(&key)).peekable();
        of_key.peek().is_some() && of_key.all(|reach| (reach.words)(tcp_of(spec)).is_some())
    };
    let mut found = Vec::new();
    for (key, value) in entries.iter().filter(|(key, _)| !is_other(key) && !reaches(key)) {
        // Constants of other congestion controls matter to nobody.
        let Some(of_kernel) = linux.iter().find(|entry| entry.path == *key) else { continue };
        if of_kernel.value != *value {
            let advice =
                ADVICE.iter().find(|(keys, _)| keys.contains(key)).map_or(NO_ADVICE, |(_, advice)| advice);
            found.push([*key, *value, of_kernel.value.as_str(), advice].map(str::to_owned));
        }
    }
    found
}

/// Settings of which the kernel has one for all flows, and on which two transports disagree: the keys.
pub(super) fn conflicts(one: &TransportSpec, other: &TransportSpec) -> Vec<&'static str> {
    let differ = |reach: &&Reach| match ((reach.words)(tcp_of(one)), (reach.words)(tcp_of(other))) {
        (Some(first), Some(second)) => first != second,
        _ => false,
    };
    let mut keys: Vec<_> = KEYS.iter().filter(differ).flat_map(|reach| reach.keys).copied().collect();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resolve::{Input, Resolved, SCENARIO, resolve};
    use std::path::Path;

    fn scenario(transport: &str) -> Resolved {
        of_host("", transport)
    }

    fn of_host(host: &str, transport: &str) -> Resolved {
        let text = format!(
            "stop = \"1 ms\"\ntopology = {{ kind = \"star\", hosts = 2 }}\n[host]\nstack = \"kernel\"\n{host}\n\
             [transport]\n{transport}\n[[workload]]\nkind = \"permutation\"\nsize = \"1 MB\"\n"
        );
        let input =
            Input { text: &text, base_dir: Path::new("."), file_name: "a.toml", overrides: &[], seed: None };
        resolve(&input).expect("a good scenario")
    }

    fn settings(transport: &str) -> Vec<String> {
        let KernelSettings { sysctl, route, parameters } =
            KernelSettings::of(std::iter::once(&scenario(transport).scenario.transport));
        [sysctl, route, parameters].concat()
    }

    #[test]
    fn a_transport_of_linux_sets_nothing() {
        for preset in ["cubic", "newreno", "dctcp", "vegas", "bbr"] {
            let transport = format!("preset = \"{preset}\"");
            assert_eq!(settings(&transport), Vec::<String>::new(), "{preset}");
            let warned = scenario(&transport).warnings.iter().any(|text| text.contains("kernel hosts"));
            assert!(!warned, "{preset}: {:?}", scenario(&transport).warnings);
        }
    }

    #[test]
    fn keys_become_settings_of_the_kernel() {
        for (transport, expected) in [
            ("ecn = \"classic\"", "net.ipv4.tcp_ecn = 1"),
            ("sack = false\nundo = false\nfrto = false\nprr = false", "net.ipv4.tcp_sack = 0"),
            ("timestamps = false", "net.ipv4.tcp_timestamps = 0"),
            ("dup_thresh = 10", "net.ipv4.tcp_reordering = 10"),
            ("rack = false", "net.ipv4.tcp_recovery = 0"),
            ("tlp = false", "net.ipv4.tcp_early_retrans = 0"),
            ("idle_restart = \"off\"", "net.ipv4.tcp_slow_start_after_idle = 0"),
            ("sack_compression = false", "net.ipv4.tcp_comp_sack_nr = 0"),
            ("receive_buffer_max = \"1 MB\"", "net.ipv4.tcp_rmem = 4096 131072 1000000"),
            ("receive_buffer_max = \"131072 B\"", "net.ipv4.tcp_moderate_rcvbuf = 0"),
            ("send_buffer_initial = \"64 KB\"", "net.ipv4.tcp_wmem = 4096 64000 4194304"),
            ("cache = \"none\"", "net.ipv4.tcp_no_metrics_save = 1"),
            ("cache = \"linux_ssthresh\"", "net.ipv4.tcp_no_ssthresh_metrics_save = 0"),
            ("syn_retries = 2", "net.ipv4.tcp_syn_retries = 2"),
            ("retries = 3", "net.ipv4.tcp_retries2 = 3"),
            ("rto_min = \"50 ms\"", "rto_min 50ms"),
            ("delayed_ack_segments = 1", "quickack 1"),
            ("cubic_hystart = false", "tcp_cubic.hystart=0"),
            ("cubic_beta = 0.8", "tcp_cubic.beta=819"),
            ("preset = \"dctcp\"\ndctcp_g = 0.03125", "tcp_dctcp.dctcp_shift_g=5"),
            ("preset = \"vegas\"\nvegas_alpha = 1", "tcp_vegas.alpha=1"),
        ] {
            let found = settings(transport);
            assert!(found.iter().any(|line| line == expected), "{transport}: {found:?}");
        }
    }

    #[test]
    fn a_resolved_scenario_sets_the_same_again() {
        let first = scenario("rto_min = \"10 ms\"\nrto_max = \"2 s\"\nreceive_buffer = \"fixed\"");
        let text = first.to_toml();
        let input =
            Input { text: &text, base_dir: Path::new("."), file_name: "a.toml", overrides: &[], seed: None };
        let again = resolve(&input).expect("a good scenario");
        let of = |resolved: &Resolved| KernelSettings::of(std::iter::once(&resolved.scenario.transport));
        assert_eq!(of(&first), of(&again));
        assert_eq!(first.warnings, again.warnings);
    }

    #[test]
    fn what_the_kernel_does_not_take_is_warned_of() {
        for (transport, expected) in [
            (
                "rto_max = \"2 s\"",
                "transport.rto_max = \"2 s\" does not reach kernel hosts, which have \"120 s\"",
            ),
            ("receive_buffer = \"fixed\"", "set net.ipv4.tcp_rmem in host.sysctl"),
            ("rto_min = \"600 us\"", "whole milliseconds"),
            ("pacing = true", "set host.qdisc = \"fq\""),
            ("prr = false", "transport.prr = false does not reach kernel hosts"),
            ("preset = \"dctcp\"\ndctcp_g = 0.1", "transport.dctcp_g = 0.1"),
            ("preset = \"tcp_bolt\"\nlossless = false", "set net.ipv4.tcp_wmem in host.sysctl"),
        ] {
            let warnings = scenario(transport).warnings;
            assert!(warnings.iter().any(|text| text.contains(expected)), "{transport}: {warnings:?}");
        }
    }

    #[test]
    fn keys_of_hosts_that_only_simulated_ones_have_are_warned_of() {
        for host in [
            "tx_jitter = \"1 us\"",
            "nic_buffer = \"1 MB\"",
            "nic_queue = \"per_destination\"",
            "ticks_apart = true",
        ] {
            let expected = format!("host.{} does not reach kernel hosts", host.split(' ').next().unwrap());
            let warnings = of_host(host, "").warnings;
            assert!(warnings.iter().any(|text| text.contains(&expected)), "{host}: {warnings:?}");
        }
    }

    /// A key that this file names exists, so that a renamed one is noticed.
    #[test]
    fn every_key_that_is_named_exists() {
        let known = |key: &str| SCENARIO.options().iter().any(|doc| doc.path == format!("transport.{key}"));
        let named = KEYS.iter().flat_map(|reach| reach.keys).chain(&ELSEWHERE);
        for key in named.chain(ADVICE.iter().flat_map(|(keys, _)| *keys)) {
            assert!(known(key), "{key}");
        }
    }
}
