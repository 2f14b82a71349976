//! Congestion controls that are loaded when the program runs, by the C interface of `pauseframe_cc.h`: windows of TCP and rates of queue pairs.
//!
//! The connection or queue pair owns the plug-in's state, a block of fixed size, so it can be copied. `transport` and `rdma` call the functions and
//! check what they return; a value that makes no sense ends the run ([`failure_from_panic`]).

pub mod abi;
mod call;
mod code;
mod constants;
mod guard;
mod instance;

pub use call::PluginFunction;
pub use code::{LoadedPlugin, PluginFunctions, PluginSource, Taken, loaded_plugins, register_plugin};
pub use constants::{
    AlgorithmConstants, Constant, ConstantType, ConstantValue, excuse_constants, is_plugin_loaded, load_hint,
    read_constants,
};
pub use guard::{PluginWatchdog, install_trap_handler};
pub use instance::{Instance, PluginConfig, saturate_to_i64, show_value};

/// "MODULE:NAME": a plug-in, loaded or not.
pub const NAME_PATTERN: &str = "^[A-Za-z0-9_-]+:[A-Za-z][A-Za-z0-9_]*$";

/// What ends the message of a plug-in's failure, which travels as a panic to where the run knows time and seed.
const FAILURE_TERMINATOR: char = '\0';

/// What a plug-in did wrong, if that is what a panic said.
pub fn failure_from_panic(panic: &str) -> Option<&str> {
    panic.split_once(FAILURE_TERMINATOR).map(|(message, _)| message)
}
