//! Congestion controls that are loaded when the program runs. Documented in `_core.pyi`.

#![expect(unsafe_code, reason = "takes the address of a description")]

use crate::InputError;
use crate::border::guarded;
use pauseframe_scenario::plugin::{self, PluginSource};
use pyo3::prelude::*;

/// Adds the congestion control that the `pauseframe_cc` at `address` describes.
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
        // SAFETY: whoever loads a plug-in trusts it to keep to `pauseframe_cc.h`, and `pauseframe.plugins` keeps it loaded.
        let code = unsafe { plugin::register(module, address, source) };
        let code = code.map_err(InputError::new_err)?;
        pauseframe_scenario::resolve::explore_again();
        Ok(code.name)
    })
}

/// The loaded plug-ins: name, documentation.
#[pyfunction]
fn loaded_plugins() -> Vec<(&'static str, &'static str)> {
    plugin::loaded().into_iter().map(|code| (code.name, code.doc)).collect()
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(register_plugin, module)?)?;
    module.add_function(wrap_pyfunction!(loaded_plugins, module)?)?;
    Ok(())
}
