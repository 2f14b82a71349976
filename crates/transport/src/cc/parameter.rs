//! Constants of congestion controls. One declaration creates the typed struct for the algorithm and the table of keys for scenario files, their
//! reference and the Python package.

use pauseframe_units::Span;

/// The value of a constant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CongestionControlConstantValue {
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
pub struct CongestionControlParameter {
    /// Its key in scenario files, which begins with the name of the congestion control: "`dctcp_g`".
    pub key: &'static str,
    /// What it is, with unit and source, in one line.
    pub doc: &'static str,
    /// Its default.
    pub default: CongestionControlConstantValue,
    /// Smallest and largest value; `None`: any.
    pub range: Option<(CongestionControlConstantValue, CongestionControlConstantValue)>,
}

/// A possible type of a constant.
pub(super) trait CongestionControlConstantType: Copy {
    /// Converts to a value.
    fn to_constant_value(self) -> CongestionControlConstantValue;
    /// From a value of the same kind.
    fn from_constant_value(value: CongestionControlConstantValue) -> Option<Self>;
}

macro_rules! constant {
    ($($type:ty => $kind:ident,)+) => {$(
        impl CongestionControlConstantType for $type {
            fn to_constant_value(self) -> CongestionControlConstantValue {
                CongestionControlConstantValue::$kind(self)
            }
            fn from_constant_value(value: CongestionControlConstantValue) -> Option<Self> {
                if let CongestionControlConstantValue::$kind(value) = value { Some(value) } else { None }
            }
        }
    )+};
}
constant! { f64 => Number, u32 => Count, bool => Flag, Span => Time, }

/// Access to the constants of an algorithm by index.
pub(crate) trait AlgorithmConstants: Copy {
    /// The declared constants.
    const PARAMETERS: &'static [CongestionControlParameter];
    /// The value of `PARAMETERS[index]`.
    fn get_constant(&self, index: usize) -> Option<CongestionControlConstantValue>;
    /// Sets `PARAMETERS[index]`; false if there is none, or the kind is another.
    fn set_constant(&mut self, index: usize, value: CongestionControlConstantValue) -> bool;
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
            const PARAMETERS: &'static [$crate::cc::CongestionControlParameter] = {
                use $crate::cc::parameter::constants;
                &[$($crate::cc::CongestionControlParameter {
                    key: concat!($name, "_", stringify!($field)),
                    doc: concat!($($doc),+).trim_ascii(),
                    default: constants!(@value $type, $default),
                    range: constants!(@range $type $(, $low, $high)?),
                },)+]
            };

            fn get_constant(&self, index: usize) -> Option<$crate::cc::CongestionControlConstantValue> {
                use $crate::cc::parameter::CongestionControlConstantType;
                [$(self.$field.to_constant_value(),)+].get(index).copied()
            }

            fn set_constant(&mut self, index: usize, value: $crate::cc::CongestionControlConstantValue) -> bool {
                use $crate::cc::parameter::CongestionControlConstantType;
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
    (@value f64, $value:expr) => { $crate::cc::CongestionControlConstantValue::Number($value) };
    (@value u32, $value:expr) => { $crate::cc::CongestionControlConstantValue::Count($value) };
    (@value bool, $value:expr) => { $crate::cc::CongestionControlConstantValue::Flag($value) };
    (@value Span, $value:expr) => { $crate::cc::CongestionControlConstantValue::Time($value) };
    (@range $type:ident) => { None };
    (@range $type:ident, $low:expr, $high:expr) => {
        Some((constants!(@value $type, $low), constants!(@value $type, $high)))
    };
}
pub(crate) use constants;
