//! Hosts that are namespaces of a Linux kernel: it boots before the run, and ends with it.

use super::RunOptions;
use crate::build::Built;
use crate::resolve::name_in_linux;
use crate::spec::{EcnName, HostStack, Scenario};
use pauseframe_kernel::Setup;
use pauseframe_results::RunError;

/// Boots the kernel, if the scenario asks for one, and gives it the hosts.
pub(super) fn attach(scenario: &Scenario, built: &mut Built, options: RunOptions) -> Result<(), RunError> {
    if scenario.host.stack != HostStack::Kernel {
        return Ok(());
    }
    let Some(files) = options.kernel else {
        let message = "host.stack = \"kernel\" needs a kernel: build one with pauseframe kernel build";
        return Err(RunError::Build(message.to_owned()));
    };
    let topology = &built.topology;
    let names = topology.hosts().map(|host| (host, topology.nodes()[host].name.clone())).collect();
    let transports = scenario.transport_specs().map(|spec| {
        // One that no workload uses may be unknown to the kernel.
        name_in_linux(&spec.congestion_control).unwrap_or("reno").to_owned()
    });
    let mut sysctl = Vec::new();
    if scenario.transport_specs().any(|spec| spec.ecn == EcnName::Classic) {
        sysctl.push("net.ipv4.tcp_ecn = 1".to_owned());
    }
    sysctl.extend(scenario.host.sysctl.iter().cloned());
    let setup = Setup {
        files: files.to_owned(),
        seed: scenario.seed,
        mtu: scenario.host.mtu.0 as u16,
        hosts: names,
        transports: transports.collect(),
        route: scenario.host.route.clone(),
        sysctl,
        qdisc: scenario.host.qdisc.clone(),
        programs: Vec::new(),
        logs: options.out.map(|folder| folder.join("kernel")),
    };
    let stack = setup.boot().map_err(|error| RunError::Build(error.to_string()))?;
    built.network.attach(Box::new(stack));
    Ok(())
}
