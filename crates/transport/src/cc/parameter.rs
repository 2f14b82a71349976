//! Constants of congestion controls. One declaration creates the typed struct for the algorithm and the table of keys for scenario files, their
//! reference and the Python package.

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
pub struct Parameter {
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
pub(super) trait ConstantType: Copy {
    /// Converts to a value.
    fn to_constant_value(self) -> ConstantValue;
    /// From a value of the same kind.
    fn from_constant_value(value: ConstantValue) -> Option<Self>;
}

macro_rules! constant {
    ($($type:ty => $kind:ident,)+) => {$(
        impl ConstantType for $type {
            fn to_constant_value(self) -> ConstantValue {
                ConstantValue::$kind(self)
            }
            fn from_constant_value(value: ConstantValue) -> Option<Self> {
                if let ConstantValue::$kind(value) = value { Some(value) } else { None }
            }
        }
    )+};
}
constant! { f64 => Number, u32 => Count, bool => Flag, Span => Time, }

/// Access to the constants of an algorithm by index.
pub(crate) trait AlgorithmConstants: Copy {
    /// The declared constants.
    const PARAMETERS: &'static [Parameter];
    /// The value of `PARAMETERS[index]`.
    fn get_constant(&self, index: usize) -> Option<ConstantValue>;
    /// Sets `PARAMETERS[index]`; false if there is none, or the kind is another.
    fn set_constant(&mut self, index: usize, value: ConstantValue) -> bool;
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

        impl $crate::cc::parameter::AlgorithmConstants for $config {
            const PARAMETERS: &'static [$crate::cc::Parameter] = {
                use $crate::cc::parameter::constants;
                &[$($crate::cc::Parameter {
                    key: concat!($name, "_", stringify!($field)),
                    doc: concat!($($doc),+).trim_ascii(),
                    default: constants!(@value $type, $default),
                    range: constants!(@range $type $(, $low, $high)?),
                },)+]
            };

            fn get_constant(&self, index: usize) -> Option<$crate::cc::ConstantValue> {
                use $crate::cc::parameter::ConstantType;
                [$(self.$field.to_constant_value(),)+].get(index).copied()
            }

            fn set_constant(&mut self, index: usize, value: $crate::cc::ConstantValue) -> bool {
                use $crate::cc::parameter::ConstantType;
                let mut place = 0..;
                $(if place.next() == Some(index) {
                    let Some(value) = <$type>::from_constant_value(value) else { return false };
                    self.$field = value;
                    return true;
                })+
                false
            }
        }
    };
    (@value f64, $value:expr) => { $crate::cc::ConstantValue::Number($value) };
    (@value u32, $value:expr) => { $crate::cc::ConstantValue::Count($value) };
    (@value bool, $value:expr) => { $crate::cc::ConstantValue::Flag($value) };
    (@value Span, $value:expr) => { $crate::cc::ConstantValue::Time($value) };
    (@range $type:ident) => { None };
    (@range $type:ident, $low:expr, $high:expr) => {
        Some((constants!(@value $type, $low), constants!(@value $type, $high)))
    };
}
pub(crate) use constants;
