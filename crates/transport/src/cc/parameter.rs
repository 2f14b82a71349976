//! Constants of congestion controls. One declaration creates the typed struct for the algorithm and the table of keys for scenario files, their
//! reference and the Python package.

use pauseframe_units::Span;

/// The value of a constant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
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
pub struct Parameter {
    /// Its key in scenario files, which begins with the name of the congestion control: "`dctcp_g`".
    pub key: &'static str,
    /// What it is, with unit and source, in one line.
    pub doc: &'static str,
    /// Its default.
    pub default: Value,
    /// Smallest and largest value; `None`: any.
    pub range: Option<(Value, Value)>,
}

/// A possible type of a constant.
pub(super) trait Constant: Copy {
    /// Converts to a value.
    fn value(self) -> Value;
    /// From a value of the same kind.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! constant {
    ($($type:ty => $kind:ident,)+) => {$(
        impl Constant for $type {
            fn value(self) -> Value {
                Value::$kind(self)
            }
            fn from_value(value: Value) -> Option<Self> {
                if let Value::$kind(value) = value { Some(value) } else { None }
            }
        }
    )+};
}
constant! { f64 => Number, u32 => Count, bool => Flag, Span => Time, }

/// Access to the constants of an algorithm by index.
pub(crate) trait Constants: Copy {
    /// The declared constants.
    const PARAMETERS: &'static [Parameter];
    /// The value of `PARAMETERS[index]`.
    fn get(&self, index: usize) -> Option<Value>;
    /// Sets `PARAMETERS[index]`; false if there is none, or the kind is another.
    fn set(&mut self, index: usize, value: Value) -> bool;
}

/// Declares the constants of the congestion control of that name: `FIELD: TYPE = DEFAULT, in SMALLEST, LARGEST;`. The documentation of a
/// field is that of the key.
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

        impl $crate::cc::parameter::Constants for $config {
            const PARAMETERS: &'static [$crate::cc::Parameter] = {
                use $crate::cc::parameter::constants;
                &[$($crate::cc::Parameter {
                    key: concat!($name, "_", stringify!($field)),
                    doc: concat!($($doc),+).trim_ascii(),
                    default: constants!(@value $type, $default),
                    range: constants!(@range $type $(, $low, $high)?),
                },)+]
            };

            fn get(&self, index: usize) -> Option<$crate::cc::Value> {
                use $crate::cc::parameter::Constant;
                [$(self.$field.value(),)+].get(index).copied()
            }

            fn set(&mut self, index: usize, value: $crate::cc::Value) -> bool {
                use $crate::cc::parameter::Constant;
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
    (@value f64, $value:expr) => { $crate::cc::Value::Number($value) };
    (@value u32, $value:expr) => { $crate::cc::Value::Count($value) };
    (@value bool, $value:expr) => { $crate::cc::Value::Flag($value) };
    (@value Span, $value:expr) => { $crate::cc::Value::Time($value) };
    (@range $type:ident) => { None };
    (@range $type:ident, $low:expr, $high:expr) => {
        Some((constants!(@value $type, $low), constants!(@value $type, $high)))
    };
}
pub(crate) use constants;
