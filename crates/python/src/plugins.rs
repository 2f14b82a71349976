//! Congestion controls that are loaded at run time. Documented in `_core.pyi`.

#![expect(unsafe_code, reason = "takes the address of a description")]

use crate::InputError;
use crate::border::guarded;
use pauseframe_scenario::congestion_control::{
    CONTRACT_RULES, CongestionControlConfig, RATE_CONTRACT_RULES, RdmaControl,
};
use pauseframe_scenario::panics::caught;
use pauseframe_scenario::plugin::{self, PluginSource};
use pyo3::prelude::*;

/// Adds the congestion control described by the `pauseframe_cc` at `address`.
#[pyfunction]
#[pyo3(signature = (module, address, *, file, sha256, text=None, interpreted=false))]
fn register_plugin(
    module: &str,
    address: usize,
    file: String,
    sha256: String,
    text: Option<String>,
    interpreted: bool,
) -> PyResult<&'static str> {
    guarded(|| {
        plugin::install_trap_handler();
        let source = PluginSource { file, sha256, text, interpreted };
        // SAFETY: a user who loads a plug-in trusts its code to follow `pauseframe_cc.h`, and
        // `pauseframe.plugins` never unloads it.
        let code = unsafe { plugin::register(module, address, source) };
        let code = code.map_err(InputError::new_err)?;
        pauseframe_scenario::resolve::explore_again();
        Ok(code.name)
    })
}

/// The loaded plug-ins: the name and the documentation of each.
#[pyfunction]
fn loaded_plugins() -> Vec<(&'static str, &'static str)> {
    plugin::loaded_plugins().into_iter().map(|code| (code.name, code.doc)).collect()
}

/// Whether a loaded plug-in steers queue pairs.
#[pyfunction]
fn is_rate_control(name: &str) -> bool {
    plugin::loaded_plugins().iter().any(|code| code.name == name && code.is_rate_control())
}

/// Checks one congestion control against the contract of congestion controls; returns each rule, its
/// requirement, and the violation or `None`.
#[pyfunction]
fn congestion_control_contract(
    py: Python<'_>,
    name: &str,
) -> PyResult<Vec<(&'static str, &'static str, Option<String>)>> {
    let all = CongestionControlConfig::all();
    let of_tcp = all.iter().find(|(known, _)| *known == name).map(|(_, config)| *config);
    let of_pairs = RdmaControl::find(name);
    if of_tcp.is_none() && of_pairs.is_none() {
        return Err(InputError::new_err(format!("{name:?} is no congestion control")));
    }
    let _watchdog = plugin::PluginWatchdog::start()?;
    Ok(py.detach(|| match (of_tcp, of_pairs) {
        (Some(config), _) => CONTRACT_RULES
            .iter()
            .map(|rule| (rule.name, rule.demand, violation(|| (rule.check)(&config))))
            .collect(),
        (None, control) => RATE_CONTRACT_RULES
            .iter()
            .map(|rule| (rule.name, rule.demand, violation(|| control.map_or(Ok(()), rule.check))))
            .collect(),
    }))
}

/// A faulty plug-in panics; the check then goes on with the other rules.
fn violation(check: impl FnOnce() -> Result<(), String>) -> Option<String> {
    match caught(check) {
        Ok(Ok(())) => None,
        Ok(Err(broken)) => Some(broken),
        Err(panic) => {
            Some(plugin::failure_from_panic(&panic.message).map_or_else(|| panic.to_string(), str::to_owned))
        }
    }
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(register_plugin, module)?)?;
    module.add_function(wrap_pyfunction!(loaded_plugins, module)?)?;
    module.add_function(wrap_pyfunction!(is_rate_control, module)?)?;
    module.add_function(wrap_pyfunction!(congestion_control_contract, module)?)?;
    Ok(())
}
