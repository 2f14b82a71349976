//! Loaded plug-ins: their description, checked once, and the list of those that this process knows.

#![expect(unsafe_code, reason = "a C interface")]

use super::abi::{
    ABI, COUNT, FLAG, FLAGS, NEEDS_EXACT_ECN, NUMBER, PACES, PluginAbiAlgorithm, PluginAbiParameter,
    RawValue, TIME,
};
use crate::cc::{CongestionControlConfig, CongestionControlConstantValue, CongestionControlParameter};
use pauseframe_units::Span;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, PoisonError};

/// Largest number of constants that a plug-in may declare.
pub(super) const MAX_CONSTANTS: usize = 32;
/// Largest state of a connection in bytes.
const MAX_STATE_BYTES: u64 = 1 << 16;
/// Largest text of a description in bytes.
const MAX_TEXT_BYTES: usize = 4096;

/// Where a plug-in came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PluginSource {
    /// The file as the command line names it.
    pub file: String,
    /// SHA-256 of the file in hexadecimal.
    pub sha256: String,
    /// The text of a Python file; `None` for a shared library.
    pub text: Option<String>,
    /// The code runs in the Python interpreter, where a debugger may stop it for any time.
    pub interpreted: bool,
}

/// A loaded plug-in. It stays loaded until the process ends.
pub struct LoadedPlugin {
    /// "mine:swift": the module and the algorithm's own name.
    pub name: &'static str,
    /// What it is, in one line.
    pub doc: &'static str,
    /// Its constants.
    pub parameters: &'static [CongestionControlParameter],
    /// Where it came from.
    pub source: PluginSource,
    pub(super) functions: PluginAbiAlgorithm,
    /// Size of a connection's state in words of eight bytes.
    pub(super) words: usize,
}

// SAFETY: the pointers of `functions` are to code and constants that nobody changes after registration.
unsafe impl Send for LoadedPlugin {}
// SAFETY: as above.
unsafe impl Sync for LoadedPlugin {}

impl std::fmt::Debug for LoadedPlugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LoadedPlugin").field(&self.name).field(&self.source.sha256).finish()
    }
}

impl LoadedPlugin {
    /// Whether the algorithm needs each mark echoed (`ecn = "dctcp"`).
    pub fn needs_exact_ecn_echo(&self) -> bool {
        self.functions.flags & NEEDS_EXACT_ECN != 0
    }

    /// Whether the algorithm sets a pacing rate.
    pub fn sets_pacing_rate(&self) -> bool {
        self.functions.flags & PACES != 0
    }
}

static LOADED_PLUGINS: Mutex<Vec<&'static LoadedPlugin>> = Mutex::new(Vec::new());

/// Every plug-in that this process has loaded. One that was loaded again under the same name is there once, in its
/// latest form.
pub fn loaded_plugins() -> Vec<&'static LoadedPlugin> {
    LOADED_PLUGINS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Adds the algorithm that `address` describes (a `pauseframe_cc` of `pauseframe_cc.h`) to those that scenarios can name,
/// as "`module`:name".
///
/// # Errors
/// What is wrong with the description.
///
/// # Safety
/// `address` is that of a `pauseframe_cc` whose pointers stay valid until the process ends, and whose functions keep to
/// `pauseframe_cc.h`.
pub unsafe fn register_plugin(
    module: &str,
    address: usize,
    source: PluginSource,
) -> Result<&'static LoadedPlugin, String> {
    if address == 0 || !address.is_multiple_of(align_of::<PluginAbiAlgorithm>()) {
        return Err("the description is no pauseframe_cc: its address is not aligned".to_owned());
    }
    let raw = address as *const PluginAbiAlgorithm;
    // The version comes first: only with the right one is the rest what it seems.
    // SAFETY: the caller's promise.
    let abi = unsafe { (*raw).abi };
    if abi != ABI {
        return Err(format!(
            "it was built for version {abi} of pauseframe_cc.h, and this pauseframe has version {ABI}: rebuild it with \
             the header in pauseframe.include_dir()"
        ));
    }
    // SAFETY: as above.
    let functions = unsafe { *raw };
    let own = read_c_text(functions.name, "name")?;
    check_plugin_name(own)?;
    let doc = read_c_text(functions.doc, "doc").map_err(|error| format!("{own}: {error}"))?;
    check_plugin_functions(&functions).map_err(|error| format!("{own}: {error}"))?;
    let parameters = read_plugin_parameters(own, &functions).map_err(|error| format!("{own}: {error}"))?;
    let name = format!("{module}:{own}");
    let others: Vec<_> = loaded_plugins().into_iter().filter(|code| code.name != name).collect();
    check_plugin_keys_not_taken(own, &parameters, &others)?;
    let code: &'static LoadedPlugin = Box::leak(Box::new(LoadedPlugin {
        name: leak_text_to_static(&name),
        doc: leak_text_to_static(doc.lines().next().unwrap_or_default()),
        parameters: Vec::leak(parameters),
        source,
        functions,
        words: functions.state_size.div_ceil(8) as usize,
    }));
    let mut list = LOADED_PLUGINS.lock().unwrap_or_else(PoisonError::into_inner);
    list.retain(|known| known.name != name);
    list.push(code);
    Ok(code)
}

fn leak_text_to_static(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn read_c_text<'a>(text: *const c_char, field: &str) -> Result<&'a str, String> {
    if text.is_null() {
        return Err(format!("its {field} is missing (NULL)"));
    }
    // SAFETY: the caller of `register_plugin` promises a text that ends with a zero byte.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text.to_str().map_err(|_| format!("its {field} is not UTF-8"))?;
    if text.trim().is_empty() || text.len() > MAX_TEXT_BYTES {
        return Err(format!(
            "its {field} must have 1 to {MAX_TEXT_BYTES} bytes, and has {}",
            text.trim().len()
        ));
    }
    Ok(text.trim())
}

fn check_plugin_name(own: &str) -> Result<(), String> {
    let plain = own.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !plain || !own.starts_with(|c: char| c.is_ascii_alphabetic()) || own.len() > 64 {
        return Err(format!("{own:?} is no name: use letters, digits and '_', beginning with a letter"));
    }
    if CongestionControlConfig::NAMES.iter().any(|(known, _)| known.eq_ignore_ascii_case(own)) {
        return Err(format!(
            "{own:?} is the name of a built-in congestion control, and its keys would be the same: choose another name"
        ));
    }
    Ok(())
}

fn check_plugin_functions(functions: &PluginAbiAlgorithm) -> Result<(), String> {
    let required = [
        ("init", functions.init.is_some()),
        ("increase", functions.increase.is_some()),
        ("reduced", functions.reduced.is_some()),
    ];
    if let Some((name, _)) = required.iter().find(|(_, there)| !there) {
        return Err(format!("the function {name} is missing (NULL); every algorithm needs it"));
    }
    if functions.state_size > MAX_STATE_BYTES {
        return Err(format!(
            "its state has {} bytes a connection; at most {MAX_STATE_BYTES} are allowed",
            functions.state_size
        ));
    }
    if functions.flags & !FLAGS != 0 {
        return Err(format!("flags = {:#x} has bits that version {ABI} does not know", functions.flags));
    }
    Ok(())
}

fn read_plugin_parameters(
    own: &str,
    functions: &PluginAbiAlgorithm,
) -> Result<Vec<CongestionControlParameter>, String> {
    let count = functions.parameter_count as usize;
    if count > MAX_CONSTANTS {
        return Err(format!("it has {count} constants; at most {MAX_CONSTANTS} are allowed"));
    }
    if count > 0 && functions.parameters.is_null() {
        return Err(format!("parameter_count is {count}, but parameters is NULL"));
    }
    let prefix = own.to_ascii_lowercase();
    // SAFETY: the caller of `register_plugin` promises an array of so many.
    (0..count)
        .map(|index| read_plugin_parameter(&prefix, unsafe { &*functions.parameters.add(index) }))
        .collect()
}

fn read_plugin_parameter(
    prefix: &str,
    raw: &PluginAbiParameter,
) -> Result<CongestionControlParameter, String> {
    let key = read_c_text(raw.key, "key of a constant")?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if !key.bytes().all(plain) {
        return Err(format!("{key:?} is no key: use lower-case letters, digits and '_'"));
    }
    let doc = read_c_text(raw.doc, &format!("doc of the constant {key}"))?;
    let read =
        |value: RawValue| constant_value_from_raw(value, raw.kind).map_err(|error| format!("{key}: {error}"));
    let default = read(raw.default)?;
    let range = if raw.has_range == 0 { None } else { Some((read(raw.low)?, read(raw.high)?)) };
    if let Some((low, high)) = range
        && !(constant_value_as_f64(low) <= constant_value_as_f64(default)
            && constant_value_as_f64(default) <= constant_value_as_f64(high))
    {
        return Err(format!("{key}: the default {default:?} is outside of its range, {low:?} to {high:?}"));
    }
    Ok(CongestionControlParameter {
        key: leak_text_to_static(&format!("{prefix}_{key}")),
        doc: leak_text_to_static(doc),
        default,
        range,
    })
}

fn constant_value_as_f64(value: CongestionControlConstantValue) -> f64 {
    match value {
        CongestionControlConstantValue::Number(x) => x,
        CongestionControlConstantValue::Count(x) => f64::from(x),
        CongestionControlConstantValue::Flag(x) => f64::from(u8::from(x)),
        CongestionControlConstantValue::Time(x) => x.0 as f64,
    }
}

fn constant_value_from_raw(raw: RawValue, kind: i32) -> Result<CongestionControlConstantValue, String> {
    // SAFETY: both fields are eight bytes for which every pattern is a value.
    let (number, integer) = unsafe { (raw.number, raw.integer) };
    match kind {
        NUMBER if number.is_finite() => Ok(CongestionControlConstantValue::Number(number)),
        NUMBER => Err(format!("{number} is not a finite number")),
        COUNT => u32::try_from(integer)
            .map(CongestionControlConstantValue::Count)
            .map_err(|_| format!("{integer} is no count (0 to 2^32 - 1)")),
        FLAG => Ok(CongestionControlConstantValue::Flag(integer != 0)),
        TIME => u64::try_from(integer)
            .map(|ps| CongestionControlConstantValue::Time(Span(ps)))
            .map_err(|_| format!("{integer} ps is negative")),
        other => Err(format!("{other} is no kind of constant")),
    }
}

/// A constant as plug-ins take it.
pub(super) fn constant_value_to_raw(value: CongestionControlConstantValue) -> RawValue {
    match value {
        CongestionControlConstantValue::Number(number) => RawValue { number },
        CongestionControlConstantValue::Count(count) => RawValue { integer: i64::from(count) },
        CongestionControlConstantValue::Flag(on) => RawValue { integer: i64::from(on) },
        CongestionControlConstantValue::Time(span) => {
            RawValue { integer: span.0.min(i64::MAX as u64) as i64 }
        }
    }
}

/// Keys of a transport are one name space: no plug-in may take the key of another algorithm.
fn check_plugin_keys_not_taken(
    own: &str,
    parameters: &[CongestionControlParameter],
    others: &[&'static LoadedPlugin],
) -> Result<(), String> {
    for (index, parameter) in parameters.iter().enumerate() {
        let key = parameter.key;
        if parameters[..index].iter().any(|other| other.key == key) {
            return Err(format!("{own}: two constants have the key {key}"));
        }
        let built_in = CongestionControlConfig::NAMES
            .iter()
            .find(|(_, config)| config.congestion_control_parameters().iter().any(|other| other.key == key));
        let plug_in = others.iter().find(|code| code.parameters.iter().any(|other| other.key == key));
        if let Some(holder) = built_in.map(|(name, _)| *name).or(plug_in.map(|code| code.name)) {
            return Err(format!(
                "{own}: {holder} has the key {key} already: rename the constant or the algorithm"
            ));
        }
    }
    Ok(())
}
