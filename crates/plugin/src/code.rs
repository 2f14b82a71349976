//! Loaded plug-ins: their description, checked once, and the list of those that this process knows.

#![expect(unsafe_code, reason = "a C interface")]

use crate::abi::{
    ABI, COUNT, FLAG, Head, NEEDS_EXACT_ECN, NUMBER, PACES, Parameter, RATE_CONTROL, RATE_FLAGS,
    READS_TELEMETRY, RateAlgorithm, RawValue, SETS_WINDOW, TIME, WINDOW_FLAGS, WindowAlgorithm,
};
use crate::constants::{Constant, ConstantValue};
use pauseframe_units::Span;
use std::ffi::{CStr, c_char};
use std::sync::{Mutex, PoisonError};

/// Largest number of constants that a plug-in may declare.
pub(crate) const MAX_CONSTANTS: usize = 32;
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
    pub parameters: &'static [Constant],
    /// Where it came from.
    pub source: PluginSource,
    /// Its functions.
    pub functions: PluginFunctions,
    pub(crate) head: Head,
    /// Size of a connection's state in words of eight bytes.
    pub(crate) words: usize,
}

/// The functions of a plug-in.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "addresses of functions")]
pub enum PluginFunctions {
    /// It steers the window of TCP connections.
    Window(WindowAlgorithm),
    /// It steers the rate and window of queue pairs.
    Rate(RateAlgorithm),
}

/// Names and constants that built-in algorithms have, which plug-ins of their kind may not take.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Of queue pairs; otherwise of TCP.
    pub is_rate_control: bool,
    /// The name of an algorithm.
    pub name: &'static str,
    /// Its constants.
    pub constants: &'static [Constant],
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
    /// Whether it is an algorithm of queue pairs; otherwise it is one of TCP.
    pub fn is_rate_control(&self) -> bool {
        matches!(self.functions, PluginFunctions::Rate(_))
    }

    /// Whether the algorithm needs each mark echoed (`ecn = "dctcp"`).
    pub fn needs_exact_echo(&self) -> bool {
        self.head.flags & NEEDS_EXACT_ECN != 0
    }

    /// Whether the algorithm sets a pacing rate.
    pub fn sets_pacing_rate(&self) -> bool {
        self.head.flags & PACES != 0
    }

    /// Whether the algorithm of TCP sets the window at every ACK, by delivery samples.
    pub fn owns_window(&self) -> bool {
        matches!(self.functions, PluginFunctions::Window(WindowAlgorithm { on_delivery: Some(_), .. }))
    }

    /// Whether data packets carry telemetry of switches for it.
    pub fn reads_telemetry(&self) -> bool {
        self.head.flags & READS_TELEMETRY != 0
    }

    /// Whether the rate control sets a window.
    pub fn sets_window(&self) -> bool {
        self.head.flags & SETS_WINDOW != 0
    }

    /// Whether the rate control reacts to CNPs.
    pub fn reacts_to_cnps(&self) -> bool {
        matches!(self.functions, PluginFunctions::Rate(RateAlgorithm { on_cnp: Some(_), .. }))
    }
}

static LOADED_PLUGINS: Mutex<Vec<&'static LoadedPlugin>> = Mutex::new(Vec::new());

/// Every plug-in that this process has loaded. One that was loaded again under the same name is there once, in its
/// latest form.
pub fn loaded_plugins() -> Vec<&'static LoadedPlugin> {
    LOADED_PLUGINS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Adds the algorithm that `address` describes (a `pauseframe_cc` or `pauseframe_rate_control` of `pauseframe_cc.h`) to those that
/// scenarios can name, as "`module`:name".
///
/// # Errors
/// What is wrong with the description.
///
/// # Safety
/// `address` is that of such a description whose pointers stay valid until the process ends, and whose functions keep to
/// `pauseframe_cc.h`.
pub unsafe fn register_plugin(
    module: &str,
    address: usize,
    source: PluginSource,
    taken: &[Taken],
) -> Result<&'static LoadedPlugin, String> {
    if address == 0 || !address.is_multiple_of(align_of::<Head>()) {
        return Err("the description is no pauseframe_cc: its address is not aligned".to_owned());
    }
    let raw = address as *const Head;
    // The version comes first: only with the right one is the rest what it seems.
    // SAFETY: the caller's promise.
    let abi = unsafe { (*raw).abi };
    if abi != ABI {
        return Err(format!(
            "it was built for version {abi} of pauseframe_cc.h, and this pauseframe has version {ABI}: rebuild it with \
             the header in pauseframe.include_dir()"
        ));
    }
    // SAFETY: as above; the flags say which of the two it is.
    let (head, functions) = unsafe {
        let head = *raw;
        let functions = if head.flags & RATE_CONTROL == 0 {
            PluginFunctions::Window(*(address as *const WindowAlgorithm))
        } else {
            PluginFunctions::Rate(*(address as *const RateAlgorithm))
        };
        (head, functions)
    };
    let own = read_text(head.name, "name")?;
    let is_rate_control = matches!(functions, PluginFunctions::Rate(_));
    let taken: Vec<Taken> =
        taken.iter().copied().filter(|known| known.is_rate_control == is_rate_control).collect();
    check_name(own, &taken)?;
    let doc = read_text(head.doc, "doc").map_err(|error| format!("{own}: {error}"))?;
    check_functions(&head, &functions).map_err(|error| format!("{own}: {error}"))?;
    let parameters = read_parameters(own, &head).map_err(|error| format!("{own}: {error}"))?;
    let name = format!("{module}:{own}");
    let others: Vec<_> = loaded_plugins().into_iter().filter(|code| code.name != name).collect();
    check_keys(own, &parameters, &others, &taken)?;
    let code: &'static LoadedPlugin = Box::leak(Box::new(LoadedPlugin {
        name: leak_text(&name),
        doc: leak_text(doc.lines().next().unwrap_or_default()),
        parameters: Vec::leak(parameters),
        source,
        functions,
        head,
        words: head.state_size.div_ceil(8) as usize,
    }));
    let mut list = LOADED_PLUGINS.lock().unwrap_or_else(PoisonError::into_inner);
    list.retain(|known| known.name != name);
    list.push(code);
    Ok(code)
}

fn leak_text(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

fn read_text<'a>(text: *const c_char, field: &str) -> Result<&'a str, String> {
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

fn check_name(own: &str, taken: &[Taken]) -> Result<(), String> {
    let plain = own.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !plain || !own.starts_with(|c: char| c.is_ascii_alphabetic()) || own.len() > 64 {
        return Err(format!("{own:?} is no name: use letters, digits and '_', beginning with a letter"));
    }
    if taken.iter().any(|known| known.name.eq_ignore_ascii_case(own)) {
        return Err(format!(
            "{own:?} is the name of a built-in congestion control, and its keys would be the same: choose another name"
        ));
    }
    Ok(())
}

fn check_functions(head: &Head, functions: &PluginFunctions) -> Result<(), String> {
    let (required, flags): (&[(&str, bool)], u32) = match functions {
        PluginFunctions::Window(own) if own.on_delivery.is_some() => {
            if own.increase.is_some() || own.reduced.is_some() {
                return Err("it has on_delivery, which sets the window at every ACK, so increase and reduced would never be \
                            called: leave them out"
                    .to_owned());
            }
            (&[("init", head.init.is_some())], WINDOW_FLAGS)
        }
        PluginFunctions::Window(own) => (
            &[
                ("init", head.init.is_some()),
                ("increase", own.increase.is_some()),
                ("reduced", own.reduced.is_some()),
            ],
            WINDOW_FLAGS,
        ),
        PluginFunctions::Rate(own) => {
            (&[("init", head.init.is_some()), ("on_ack", own.on_ack.is_some())], RATE_FLAGS)
        }
    };
    if let Some((name, _)) = required.iter().find(|(_, there)| !there) {
        return Err(format!("the function {name} is missing (NULL); every algorithm needs it"));
    }
    if head.state_size > MAX_STATE_BYTES {
        return Err(format!(
            "its state has {} bytes a connection; at most {MAX_STATE_BYTES} are allowed",
            head.state_size
        ));
    }
    if head.flags & !flags != 0 {
        return Err(format!("flags = {:#x} has bits that version {ABI} does not know", head.flags));
    }
    Ok(())
}

fn read_parameters(own: &str, head: &Head) -> Result<Vec<Constant>, String> {
    let count = head.parameter_count as usize;
    if count > MAX_CONSTANTS {
        return Err(format!("it has {count} constants; at most {MAX_CONSTANTS} are allowed"));
    }
    if count > 0 && head.parameters.is_null() {
        return Err(format!("parameter_count is {count}, but parameters is NULL"));
    }
    let prefix = own.to_ascii_lowercase();
    // SAFETY: the caller of `register_plugin` promises an array of so many.
    (0..count).map(|index| read_parameter(&prefix, unsafe { &*head.parameters.add(index) })).collect()
}

fn read_parameter(prefix: &str, raw: &Parameter) -> Result<Constant, String> {
    let key = read_text(raw.key, "key of a constant")?;
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if !key.bytes().all(plain) {
        return Err(format!("{key:?} is no key: use lower-case letters, digits and '_'"));
    }
    let doc = read_text(raw.doc, &format!("doc of the constant {key}"))?;
    let read = |value: RawValue| from_raw(value, raw.kind).map_err(|error| format!("{key}: {error}"));
    let default = read(raw.default)?;
    let range = if raw.has_range == 0 { None } else { Some((read(raw.low)?, read(raw.high)?)) };
    if let Some((low, high)) = range
        && !(to_f64(low) <= to_f64(default) && to_f64(default) <= to_f64(high))
    {
        let [value, low, high] = [default, low, high].map(to_text);
        return Err(format!("{key}: the default {value} is outside of its range, {low} to {high}"));
    }
    Ok(Constant { key: leak_text(&format!("{prefix}_{key}")), doc: leak_text(doc), default, range })
}

fn to_text(value: ConstantValue) -> String {
    if let ConstantValue::Time(time) = value { time.to_string() } else { to_f64(value).to_string() }
}

fn to_f64(value: ConstantValue) -> f64 {
    match value {
        ConstantValue::Number(x) => x,
        ConstantValue::Count(x) => f64::from(x),
        ConstantValue::Flag(x) => f64::from(u8::from(x)),
        ConstantValue::Time(x) => x.0 as f64,
    }
}

fn from_raw(raw: RawValue, kind: i32) -> Result<ConstantValue, String> {
    // SAFETY: both fields are eight bytes for which every pattern is a value.
    let (number, integer) = unsafe { (raw.number, raw.integer) };
    match kind {
        NUMBER if number.is_finite() => Ok(ConstantValue::Number(number)),
        NUMBER => Err(format!("{number} is not a finite number")),
        COUNT => u32::try_from(integer)
            .map(ConstantValue::Count)
            .map_err(|_| format!("{integer} is no count (0 to 2^32 - 1)")),
        FLAG => Ok(ConstantValue::Flag(integer != 0)),
        TIME => u64::try_from(integer)
            .map(|ps| ConstantValue::Time(Span(ps)))
            .map_err(|_| format!("{integer} ps is negative")),
        other => Err(format!("{other} is no kind of constant")),
    }
}

/// A constant as plug-ins take it.
pub(crate) fn to_raw(value: ConstantValue) -> RawValue {
    match value {
        ConstantValue::Number(number) => RawValue { number },
        ConstantValue::Count(count) => RawValue { integer: i64::from(count) },
        ConstantValue::Flag(on) => RawValue { integer: i64::from(on) },
        ConstantValue::Time(span) => RawValue { integer: span.0.min(i64::MAX as u64) as i64 },
    }
}

/// Keys of a transport are one name space: no plug-in may take the key of another algorithm.
fn check_keys(
    own: &str,
    parameters: &[Constant],
    others: &[&'static LoadedPlugin],
    taken: &[Taken],
) -> Result<(), String> {
    for (index, parameter) in parameters.iter().enumerate() {
        let key = parameter.key;
        if parameters[..index].iter().any(|other| other.key == key) {
            return Err(format!("{own}: two constants have the key {key}"));
        }
        let built_in = taken.iter().find(|known| known.constants.iter().any(|other| other.key == key));
        let plug_in = others.iter().find(|code| code.parameters.iter().any(|other| other.key == key));
        if let Some(holder) = built_in.map(|known| known.name).or(plug_in.map(|code| code.name)) {
            return Err(format!(
                "{own}: {holder} has the key {key} already: rename the constant or the algorithm"
            ));
        }
    }
    Ok(())
}
