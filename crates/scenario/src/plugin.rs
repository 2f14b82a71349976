//! Congestion controls that are loaded when the program runs.

pub use pauseframe_plugin::{
    LoadedPlugin, PluginSource, PluginWatchdog, failure_from_panic, install_trap_handler, loaded_plugins,
};

use pauseframe_plugin::Taken;
use pauseframe_rdma::cc::ControlName;
use pauseframe_schema::value::Choice;
use pauseframe_transport::CongestionControlConfig;

/// Begins of keys of transports, which no algorithm may have as its name.
const PREFIXES: [&str; 5] = ["rdma", "udp", "tcp", "dcqcn", "hpcc"];

/// Adds the algorithm that `address` describes to those that scenarios can name ([`pauseframe_plugin::register_plugin`]).
///
/// # Errors
/// What is wrong with the description.
///
/// # Safety
/// As of [`pauseframe_plugin::register_plugin`].
#[expect(unsafe_code, reason = "the caller's promise is handed on")]
pub unsafe fn register(
    module: &str,
    address: usize,
    source: PluginSource,
) -> Result<&'static LoadedPlugin, String> {
    let of_tcp = CongestionControlConfig::NAMES.iter().map(|(name, config)| Taken {
        is_rate_control: false,
        name,
        constants: config.constants(),
    });
    let others = |is_rate_control, names: Vec<&'static str>| {
        names.into_iter().map(move |name| Taken { is_rate_control, name, constants: &[] })
    };
    let of_pairs = ControlName::NAMES.iter().map(|(name, _)| *name).chain(PREFIXES).collect();
    let taken: Vec<_> =
        of_tcp.chain(others(false, PREFIXES.to_vec())).chain(others(true, of_pairs)).collect();
    // SAFETY: the caller's promise.
    unsafe { pauseframe_plugin::register_plugin(module, address, source, &taken) }
}
