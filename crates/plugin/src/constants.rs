//! Constants of congestion controls. One declaration creates the typed struct for the algorithm and the table of keys for scenario files, their
//! reference and the Python package.

use crate::loaded_plugins;
use pauseframe_schema::bounds::Bounds;
use pauseframe_schema::document::{Item, Value as Given};
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::Setting;
use pauseframe_units::Span;

/// The value of a constant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ConstantValue {
    /// A number.
    Number(f64),
    /// A whole number.
    Count(u32),
    /// On or off.
    Flag(bool),
    /// A time.
    Time(Span),
}

/// One constant of a congestion control.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Constant {
    /// Its key in scenario files, which begins with the name of the congestion control: "`dctcp_g`".
    pub key: &'static str,
    /// What it is, with unit and source, in one line.
    pub doc: &'static str,
    /// Its default.
    pub default: ConstantValue,
    /// Smallest and largest value; `None`: any.
    pub range: Option<(ConstantValue, ConstantValue)>,
}

/// A possible type of a constant.
pub trait ConstantType: Copy {
    /// Converts to a value.
    fn to_value(self) -> ConstantValue;
    /// From a value of the same kind.
    fn from_value(value: ConstantValue) -> Option<Self>;
}

macro_rules! constant {
    ($($type:ty => $kind:ident,)+) => {$(
        impl ConstantType for $type {
            fn to_value(self) -> ConstantValue {
                ConstantValue::$kind(self)
            }
            fn from_value(value: ConstantValue) -> Option<Self> {
                if let ConstantValue::$kind(value) = value { Some(value) } else { None }
            }
        }
    )+};
}
constant! { f64 => Number, u32 => Count, bool => Flag, Span => Time, }

/// Whether a plug-in of this name is loaded, of either kind.
pub fn is_plugin_loaded(name: &str) -> bool {
    loaded_plugins().iter().any(|code| code.name == name)
}

/// How to load the plug-in "mine:swift", or where it belongs if it is loaded.
pub fn load_hint(name: &str) -> String {
    if let Some(code) = loaded_plugins().into_iter().find(|code| code.name == name) {
        let (of, key) = if code.is_rate_control() {
            ("queue pairs", "rdma_control, with a preset such as roce_dcqcn")
        } else {
            ("TCP", "congestion_control, with a preset of TCP")
        };
        return format!("it controls {of}: set transport.{key}");
    }
    let module = name.split(':').next().unwrap_or_default();
    format!(
        "a plug-in must be loaded first: add --plugin with its file, such as {module}.py or lib{module}.so (in Python: \
         plugins=[...])"
    )
}

/// The constants of an unloaded plug-in are not further mistakes.
pub fn excuse_constants(t: &mut Table, key: &str) {
    let item = t.item.and_then(|item| item.get(key));
    if let Some(Item { value: Given::Text(name), .. }) = item
        && let Some((_, own)) = name.split_once(':')
    {
        t.excuse(&format!("{}_", own.to_ascii_lowercase()));
    }
}

/// Reads the constants of all algorithms that `key` can name, because a file may be run with several; `set` takes those of the chosen one.
pub fn read_constants(
    t: &mut Table,
    key: &str,
    algorithms: &[(&'static str, &'static [Constant])],
    chosen: &str,
    mut set: impl FnMut(usize, ConstantValue) -> bool,
) {
    let path = t.at(key);
    for (name, constants) in algorithms {
        t.under(&format!("{path} = {name}"), |t| {
            for (index, constant) in constants.iter().enumerate() {
                let (is_chosen, is_given) = (*name == chosen, t.has(constant.key));
                if is_given && !is_chosen {
                    let at = t.at(constant.key);
                    t.ledger.warn(format!("{at}: only {key} {name:?} uses it"));
                }
                let value = read_constant(t, constant, is_chosen || is_given);
                assert!(!is_chosen || set(index, value), "{} is of another kind", constant.key);
            }
        });
    }
}

/// The value of a constant: from the file, a preset, or its default. Unused ones are noted, not recorded.
fn read_constant(t: &mut Table, constant: &Constant, is_asked_for: bool) -> ConstantValue {
    match constant.default {
        ConstantValue::Number(_) => read_typed_constant::<f64>(t, constant, is_asked_for),
        ConstantValue::Count(_) => read_typed_constant::<u32>(t, constant, is_asked_for),
        ConstantValue::Flag(_) => read_typed_constant::<bool>(t, constant, is_asked_for),
        ConstantValue::Time(_) => read_typed_constant::<Span>(t, constant, is_asked_for),
    }
}

fn read_typed_constant<T: ConstantType + Setting + PartialOrd>(
    t: &mut Table,
    constant: &Constant,
    is_asked_for: bool,
) -> ConstantValue {
    let &Constant { key, doc, .. } = constant;
    let Some(default) = T::from_value(constant.default) else { return constant.default };
    let range = constant.range.and_then(|(low, high)| Some(T::from_value(low)?..=T::from_value(high)?));
    let value = match range {
        range if !is_asked_for => {
            t.unused(key, &default, range.as_ref().map(|range| range as &dyn Bounds<T>), doc);
            default
        }
        Some(range) => t.or_in(key, default, range, doc),
        None => t.or(key, default, doc),
    };
    value.to_value()
}

/// Access to the constants of an algorithm by index.
pub trait AlgorithmConstants: Copy {
    /// The declared constants.
    const PARAMETERS: &'static [Constant];
    /// The value of `PARAMETERS[index]`.
    fn get_constant(&self, index: usize) -> Option<ConstantValue>;
    /// Sets `PARAMETERS[index]`; false if there is none, or the kind is another.
    fn set_constant(&mut self, index: usize, value: ConstantValue) -> bool;
}

/// Declares the constants of the congestion control of that name: `FIELD: TYPE = DEFAULT, in SMALLEST, LARGEST;`. The documentation of a
/// field is that of the key.
#[macro_export]
macro_rules! constants {
    (
        $(#[$meta:meta])*
        pub struct $config:ident for $name:literal {
            $($(#[doc = $doc:literal])+ $field:ident: $type:ident = $default:expr $(, in $low:expr, $high:expr)?;)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct $config {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl $config {
            /// Every constant at its default.
            pub const DEFAULT: $config = $config { $($field: $default,)+ };
        }

        impl Default for $config {
            fn default() -> Self {
                Self::DEFAULT
            }
        }

        impl $crate::AlgorithmConstants for $config {
            const PARAMETERS: &'static [$crate::Constant] = {
                &[$($crate::Constant {
                    key: concat!($name, "_", stringify!($field)),
                    doc: concat!($($doc),+).trim_ascii(),
                    default: $crate::constants!(@value $type, $default),
                    range: $crate::constants!(@range $type $(, $low, $high)?),
                },)+]
            };

            fn get_constant(&self, index: usize) -> Option<$crate::ConstantValue> {
                use $crate::ConstantType;
                [$(self.$field.to_value(),)+].get(index).copied()
            }

            fn set_constant(&mut self, index: usize, value: $crate::ConstantValue) -> bool {
                use $crate::ConstantType;
                let mut place = 0..;
                $(if place.next() == Some(index) {
                    let Some(value) = <$type>::from_value(value) else { return false };
                    self.$field = value;
                    return true;
                })+
                false
            }
        }
    };
    (@value f64, $value:expr) => { $crate::ConstantValue::Number($value) };
    (@value u32, $value:expr) => { $crate::ConstantValue::Count($value) };
    (@value bool, $value:expr) => { $crate::ConstantValue::Flag($value) };
    (@value Span, $value:expr) => { $crate::ConstantValue::Time($value) };
    (@range $type:ident) => { None };
    (@range $type:ident, $low:expr, $high:expr) => {
        Some(($crate::constants!(@value $type, $low), $crate::constants!(@value $type, $high)))
    };
}
