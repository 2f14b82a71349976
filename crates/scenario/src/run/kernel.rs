//! Hosts that are namespaces of a Linux kernel, which boots before the run and ends with it.

use super::RunOptions;
use crate::build::Built;
#[cfg(target_os = "linux")]
use crate::spec::TransportSpec;
use crate::spec::{HostStack, Scenario};
use pauseframe_results::RunError;
#[cfg(target_os = "linux")]
use pauseframe_schema::value::Choice;
#[cfg(target_os = "linux")]
use pauseframe_units::Span;
use std::path::Path;

/// In picoseconds.
#[cfg(target_os = "linux")]
const NANOSECOND: u64 = 1_000;

/// Boots the kernel, if the scenario asks for one, and gives it the hosts.
pub(super) fn attach(scenario: &Scenario, built: &mut Built, options: &RunOptions) -> Result<(), RunError> {
    if scenario.host.stack != HostStack::Kernel {
        let message = "programs run on hosts with a kernel only: set host.stack = \"kernel\"";
        return if options.programs.is_empty() { Ok(()) } else { Err(RunError::Input(message.to_owned())) };
    }
    let missing = "host.stack = \"kernel\" needs a kernel: build one with pauseframe kernel build";
    let files = options.kernel.ok_or_else(|| RunError::Input(missing.to_owned()))?;
    boot(scenario, built, files, options)
}

#[cfg(target_os = "linux")]
fn boot(scenario: &Scenario, built: &mut Built, files: &Path, options: &RunOptions) -> Result<(), RunError> {
    use crate::resolve::{KernelSettings, kernel_hosts};

    let topology = &built.parts.topology;
    let hosts = kernel_hosts(topology, &scenario.host).into_iter();
    let hosts: Vec<_> = hosts.map(|host| (host, topology.nodes()[host].name.clone())).collect();
    let names: Vec<&str> = hosts.iter().map(|(_, name)| name.as_str()).collect();
    let programs = programs(&names, options.programs)?;
    let settings = KernelSettings::of(used_transports(scenario));
    let setup = pauseframe_kernel::Setup {
        files: files.to_owned(),
        seed: scenario.seed,
        mtu: scenario.host.mtu.0 as u16,
        hosts,
        transports: scenario.transport_specs().map(socket).collect(),
        route: route(scenario, &built.parts, &settings.route),
        sysctl: settings.sysctl.into_iter().chain(scenario.host.sysctl.iter().cloned()).collect(),
        parameters: settings.parameters,
        qdisc: scenario.host.qdisc.clone(),
        interrupt_delay: scenario.host.interrupt_delay.0.div_ceil(NANOSECOND),
        sample_every: scenario.record.kernel.map(|spec| spec.every.0.div_ceil(NANOSECOND)),
        count_every: series_of_flows(scenario).map(|every| every.0.div_ceil(NANOSECOND)),
        programs,
        logs: options.out.map(|folder| folder.join("kernel")),
    };
    let stack = setup.boot().map_err(|error| RunError::Build(error.to_string()))?;
    built.network.attach_external_stack(Box::new(stack));
    Ok(())
}

/// The interval of time series of flows.
#[cfg(target_os = "linux")]
fn series_of_flows(scenario: &Scenario) -> Option<Span> {
    scenario.record.series.as_ref().filter(|series| !series.flows.is_empty()).map(|series| series.every)
}

/// The transports of workloads; without any, that of programs.
#[cfg(target_os = "linux")]
fn used_transports(scenario: &Scenario) -> impl Iterator<Item = &TransportSpec> {
    let of_workload = scenario.workload.iter().map(|workload| scenario.transport_named(&workload.transport));
    let alone = scenario.workload.is_empty().then_some(&scenario.transport);
    of_workload.chain(alone)
}

/// What the sockets of a transport have: the congestion control, and how they send a last, small segment.
#[cfg(target_os = "linux")]
fn socket(spec: &TransportSpec) -> String {
    // One that no workload uses may be unknown to the kernel.
    let Some(tcp) = spec.tcp().map(|tcp| &tcp.config) else { return "reno nagle".to_owned() };
    let control = crate::resolve::name_in_linux(&tcp.congestion_control).unwrap_or("reno");
    format!("{control} {}", tcp.small_segments.name())
}

/// Attributes of routes: those of the scenario, and of the transports in use. `resolve` has checked that these agree.
#[cfg(target_os = "linux")]
fn route(scenario: &Scenario, parts: &crate::build::Parts, of_transports: &[String]) -> String {
    let given = &scenario.host.route;
    let name = scenario.workload.first().map_or("default", |workload| &workload.transport);
    let index = parts.transports.iter().position(|transport| transport == name).unwrap_or(0);
    // Hosts with a kernel have flows of TCP only.
    let config = parts.settings.transports[index].tcp();
    let segments = config.map_or(10, |config| config.initial_window.div_ceil(u64::from(config.mss)));
    let window = format!("initcwnd {segments}");
    let is_given = |words: &str| words.split(' ').next().is_some_and(|word| given.contains(word));
    let mut all: Vec<&str> = std::iter::once(&window).chain(of_transports).map(String::as_str).collect();
    all.retain(|words| !is_given(words));
    all.push(given);
    all.join(" ").trim_end().to_owned()
}

/// Programs by the position of their host.
#[cfg(target_os = "linux")]
fn programs(hosts: &[&str], programs: &[(String, String)]) -> Result<Vec<(usize, String)>, RunError> {
    let find = |(host, command): &(String, String)| match hosts.iter().position(|name| name == host) {
        Some(_) if command.contains(['\n', '\t']) => {
            Err(RunError::Input(format!("the program for {host} has a line break or a tab")))
        }
        Some(position) => Ok((position, command.clone())),
        None => Err(RunError::Input(format!("no host {host:?} has a kernel for {command:?}"))),
    };
    programs.iter().map(find).collect()
}

#[cfg(not(target_os = "linux"))]
fn boot(_: &Scenario, _: &mut Built, _: &Path, _: &RunOptions) -> Result<(), RunError> {
    Err(RunError::Input("hosts with a kernel need Linux".to_owned()))
}
