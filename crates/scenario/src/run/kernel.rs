//! Hosts that are namespaces of a Linux kernel, which boots before the run and ends with it.

use super::RunOptions;
use crate::build::Built;
use crate::spec::{HostStack, Scenario};
use pauseframe_results::RunError;
use std::path::Path;

/// Boots the kernel, if the scenario asks for one, and gives it the hosts.
pub(super) fn attach(scenario: &Scenario, built: &mut Built, options: RunOptions) -> Result<(), RunError> {
    if scenario.host.stack != HostStack::Kernel {
        return Ok(());
    }
    let missing = "host.stack = \"kernel\" needs a kernel: build one with pauseframe kernel build";
    let files = options.kernel.ok_or_else(|| RunError::Build(missing.to_owned()))?;
    boot(scenario, built, files, options.out)
}

#[cfg(target_os = "linux")]
fn boot(scenario: &Scenario, built: &mut Built, files: &Path, out: Option<&Path>) -> Result<(), RunError> {
    use crate::resolve::name_in_linux;
    use crate::spec::EcnName;

    let topology = &built.topology;
    let hosts = topology.hosts().map(|host| (host, topology.nodes()[host].name.clone())).collect();
    let transports = scenario.transport_specs().map(|spec| {
        // One that no workload uses may be unknown to the kernel.
        name_in_linux(&spec.congestion_control).unwrap_or("reno").to_owned()
    });
    let has_classic_ecn = scenario.transport_specs().any(|spec| spec.ecn == EcnName::Classic);
    let ecn = has_classic_ecn.then(|| "net.ipv4.tcp_ecn = 1".to_owned());
    let setup = pauseframe_kernel::Setup {
        files: files.to_owned(),
        seed: scenario.seed,
        mtu: scenario.host.mtu.0 as u16,
        hosts,
        transports: transports.collect(),
        route: scenario.host.route.clone(),
        sysctl: ecn.into_iter().chain(scenario.host.sysctl.iter().cloned()).collect(),
        qdisc: scenario.host.qdisc.clone(),
        programs: Vec::new(),
        logs: out.map(|folder| folder.join("kernel")),
    };
    let stack = setup.boot().map_err(|error| RunError::Build(error.to_string()))?;
    built.network.attach(Box::new(stack));
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn boot(_: &Scenario, _: &mut Built, _: &Path, _: Option<&Path>) -> Result<(), RunError> {
    Err(RunError::Build("hosts with a kernel need Linux".to_owned()))
}
