//! Macros that declare tables, named choices and kinds of tables.

/// Declares a table of a document: the struct and its reader, key by key, in the order of reading.
///
/// The comment above a key is its documentation everywhere (reference, JSON Schema, Python, rustdoc). After its type
/// follows how it is read: a method of [`Table`](crate::reader::Table) with the arguments between key and
/// documentation.
///
/// | form | the key |
/// |---|---|
/// | `or(default)`, `or_in(default, bounds)` | has a default |
/// | `or_because(default, origin, rule)`, `or_because_in((default, origin), bounds, rule)` | has one that follows from something |
/// | `optional(stand_in)`, `optional_in(bounds, stand_in)` | may be left out; its type is an `Option` |
/// | `required()`, `required_in(bounds)` | must be there |
/// | `source(stand_in)` | is read and not recorded: what it leads to is |
/// | `section(reader)`, `try_section(reader)` | is a nested table; the second may fail |
/// | `switchable(absent, rule, reader)` | is `false` or a table; its type is an `Option` |
/// | `rows(default, reader)`, `try_rows(rule, reader)` | is a list of tables; the second form is required |
/// | `by(function, arguments..)`, `try_by(..)` | is read by a function: (table, key, documentation, arguments..) |
/// | `part(function, arguments..)` | stands for the keys that a function reads from this table: (table, arguments..) |
/// | `from(value)`, `try_from(value)` | is not in the document: the value follows from earlier keys |
///
/// `#[source = "RFC 3042"]` below the comment names the source of the key; above the struct, the default source of all
/// keys.
///
/// Earlier keys are in scope by their names (as an `Option` if they are required and may be missing). A block after
/// `=>` runs when its key has been read: the place for checks across keys.
///
/// ```
/// use pauseframe_schema::{reader::Table, table};
/// use pauseframe_units::Bytes;
///
/// table! {
///     /// Hosts and their NICs
///     pub struct HostSpec {
///         /// Largest IP packet
///         #[source = "RFC 791"]
///         mtu: Bytes = or_in(Bytes(1500), Bytes(576)..=Bytes(9216));
///         /// Sends at most this much at once
///         burst: Option<Bytes> = optional("none: no limit") => {
///             let fits = burst.is_none_or(|burst: Bytes| burst >= mtu);
///             t.check(fits, "burst", || format!("is less than mtu ({mtu})"), "raise it");
///         };
///     }
///     pub fn read(t);
/// }
/// ```
///
/// `pub struct HostSpec as "Machine"` sets the table's name in Python and in the JSON Schema; the default is the type's
/// name without "Spec". `timer_slack as "recovery_slack": Span = ..` gives a key another name than its field has.
/// `pub fn try_read(..)` instead of `pub fn read(..)` returns no value if a required key is missing; `pub fn part(..)`
/// declares some keys of a table for `part(..)` in it. Further arguments are for the readers of keys.
#[macro_export]
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        $(#[source = $sources:literal])?
        $(#[derive($($more:ident),+)])?
        pub struct $name:ident $(as $title:literal)? {
            $(
                $(#[doc = $doc:literal])+
                $(#[source = $source:literal])?
                $key:ident $(as $text:literal)? : $ty:ty = $how:ident ( $($how_args:tt)* ) $(=> $check:block)? ;
            )*
        }
        pub fn $read:ident ( $t:ident $(, $arg:ident : $argty:ty)* $(,)? );
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, PartialEq, Debug $($(, $more)+)?)]
        #[allow(clippy::allow_attributes, clippy::struct_excessive_bools, reason = "each is a key of its own")]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $key: $ty, )*
        }

        $crate::table! {
            @reader $read $name [$crate::table!(@title $name $($title)?)] [concat!($($about),+)]
            [concat!("" $(, $sources)?)] ($t $(, $arg: $argty)*)
            {
                $(
                    $key, [$crate::table!(@name $key $($text)?)], $how, [concat!($($doc),+)], [concat!("" $(, $source)?)],
                    ($($how_args)*), ($($check)?);
                )*
            }
        }
    };
    (
        @reader read $name:ident [$title:expr] [$about:expr] $sources:tt ($t:ident $($args:tt)*) $keys:tt
    ) => {
        $crate::table! { @whole { $t.about($title, $about.trim_start()); } $name $sources ($t $($args)*) $keys }
    };
    (@reader part $name:ident [$title:expr] [$about:expr] $sources:tt $args:tt $keys:tt) => {
        $crate::table! { @whole {} $name $sources $args $keys }
    };
    (
        @whole { $($begin:stmt;)? } $name:ident [$sources:expr] ($t:ident $(, $arg:ident : $argty:ty)*)
        {
            $(
                $key:ident, [$text:expr], $how:ident, [$doc:expr], [$source:expr], $how_args:tt,
                ($($check:block)?);
            )*
        }
    ) => {
        impl $name {
            /// Reads the keys; wrong ones get their defaults.
            #[allow(clippy::allow_attributes, clippy::too_many_lines, clippy::pedantic, reason = "as many as there are keys")]
            pub fn read($t: &mut $crate::reader::Table<'_, '_> $(, $arg: $argty)*) -> Self {
                $($begin;)?
                $(
                    $t.cite($source, $sources);
                    let $key = $crate::table!(@key $t, $text, $doc, $how $how_args);
                    $( $check )?
                )*
                Self { $( $key ),* }
            }
        }
    };
    (
        @reader try_read $name:ident [$title:expr] [$about:expr] [$sources:expr] ($t:ident $(, $arg:ident : $argty:ty)*)
        {
            $(
                $key:ident, [$text:expr], $how:ident, [$doc:expr], [$source:expr], $how_args:tt,
                ($($check:block)?);
            )*
        }
    ) => {
        impl $name {
            /// Reads the table; `None` if a problem was recorded that leaves no value.
            #[allow(clippy::allow_attributes, clippy::too_many_lines, clippy::pedantic, reason = "as many as there are keys")]
            pub fn read($t: &mut $crate::reader::Table<'_, '_> $(, $arg: $argty)*) -> Option<Self> {
                $t.about($title, $about.trim_start());
                $(
                    $t.cite($source, $sources);
                    let $key = $crate::table!(@key $t, $text, $doc, $how $how_args);
                    $( $check )?
                )*
                Some(Self { $( $key: $crate::table!(@done $how $key) ),* })
            }
        }
    };
    (@name $key:ident) => { stringify!($key) };
    (@name $key:ident $text:literal) => { $text };
    (@title $name:ident) => { $crate::table::plain_name(stringify!($name)) };
    (@title $name:ident $title:literal) => { $title };
    (@key $t:ident, $key:expr, $doc:expr, section($f:expr)) => { $t.section($key, $f) };
    (@key $t:ident, $key:expr, $doc:expr, try_section($f:expr)) => { $t.section($key, $f) };
    (@key $t:ident, $key:expr, $doc:expr, by($f:expr $(, $args:expr)* $(,)?)) => {
        $f($t, $key, $doc.trim_start() $(, $args)*)
    };
    (@key $t:ident, $key:expr, $doc:expr, part($f:expr $(, $args:expr)* $(,)?)) => { $f($t $(, $args)*) };
    (@key $t:ident, $key:expr, $doc:expr, try_by($f:expr $(, $args:expr)* $(,)?)) => {
        $f($t, $key, $doc.trim_start() $(, $args)*)
    };
    (@key $t:ident, $key:expr, $doc:expr, switchable($absent:expr, $rule:expr, $f:expr $(,)?)) => {
        $t.switchable($key, $absent, $rule, $doc.trim_start(), $f)
    };
    (@key $t:ident, $key:expr, $doc:expr, rows($default:expr, $f:expr $(,)?)) => {
        $t.rows($key, $default, $doc.trim_start(), $f).unwrap_or_default()
    };
    (@key $t:ident, $key:expr, $doc:expr, try_rows($default:expr, $f:expr $(,)?)) => {
        $t.rows($key, $default, $doc.trim_start(), $f)
    };
    (@key $t:ident, $key:expr, $doc:expr, from($value:expr)) => { $value };
    (@key $t:ident, $key:expr, $doc:expr, try_from($value:expr)) => { $value };
    (@key $t:ident, $key:expr, $doc:expr, $how:ident($($args:expr),* $(,)?)) => {
        $t.$how($key, $($args,)* $doc.trim_start())
    };
    (@done required $key:ident) => { $key? };
    (@done required_in $key:ident) => { $key? };
    (@done try_from $key:ident) => { $key? };
    (@done try_by $key:ident) => { $key? };
    (@done try_rows $key:ident) => { $key? };
    (@done try_section $key:ident) => { $key? };
    (@done $how:ident $key:ident) => { $key };
}

/// Declares a type with a few names.
///
/// ```
/// pauseframe_schema::choices! {
///     /// How the NIC queues
///     pub enum NicQueue {
///         /// A queue for each destination, served round robin
///         PerDestination = "per_destination",
///         /// One queue
///         Fifo = "fifo",
///     }
/// }
/// ```
#[macro_export]
macro_rules! choices {
    (
        $(#[doc = $about:literal])+
        pub enum $name:ident { $( $(#[doc = $doc:literal])+ $variant:ident = $text:literal ),+ $(,)? }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $( $(#[doc = $doc])+ $variant ),+ }

        impl $crate::value::Choice for $name {
            const NAMES: &'static [(&'static str, Self)] = &[$( ($text, Self::$variant) ),+];
        }
    };
}

/// Declares the kinds of a table selected by a key: its registry, one line each, with the name in documents and the
/// type. A kind is a [`table!`].
///
/// ```ignore
/// kinds! {
///     /// When flows start
///     pub enum ArrivalsSpec {
///         "load" => Load(Load);
///         "rate" => Rate(Rate);
///     }
///     pub fn read(t);
/// }
/// ```
///
/// `ArrivalsSpec::read(t, "kind", default, documentation)` reads the key and the selected table; `choose` and `read_as`
/// do one of the two.
#[macro_export]
macro_rules! kinds {
    (@inner $name:ident [$($variant:ident)+]) => {};
    (@inner $name:ident [$($variant:ident)+] $interface:path) => {
        impl std::ops::Deref for $name {
            type Target = dyn $interface;

            /// The trait of all kinds.
            fn deref(&self) -> &Self::Target {
                match self { $( Self::$variant(kind) => kind ),+ }
            }
        }
    };
    (
        $(#[doc = $about:literal])+
        $(#[derive($($more:ident),+)])?
        pub enum $name:ident { $( $text:literal => $variant:ident($ty:ty); )+ }
        pub fn read ( $t:ident $(, $arg:ident : $argty:ty)* $(,)? );
        $( impl $interface:path; )?
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, PartialEq, Debug $($(, $more)+)?)]
        #[allow(clippy::allow_attributes, clippy::large_enum_variant, reason = "there are few of them")]
        pub enum $name { $( #[doc = $text] $variant($ty) ),+ }

        $crate::kinds! { @inner $name [$($variant)+] $($interface)? }

        $crate::kinds! {
            @impl $name { $( $text => $variant($ty); )+ }
            [$t: &mut $crate::reader::Table<'_, '_> $(, $arg: $argty)*] ($t $(, $arg)*)
        }
    };
    (
        @impl $name:ident { $( $text:literal => $variant:ident($ty:ty); )+ }
        [$t:ident: $table:ty $(, $arg:ident : $argty:ty)*] $args:tt
    ) => {
        impl $name {
            /// The names of the kinds.
            pub const NAMES: &'static [(&'static str, &'static str)] = &[$( ($text, $text) ),+];

            /// The name of the kind in documents.
            pub fn name(&self) -> &'static str {
                match self { $( Self::$variant(_) => $text ),+ }
            }

            /// Reads the kind.
            pub fn choose(
                $t: &mut $crate::reader::Table<'_, '_>,
                key: &'static str,
                default: Option<(&'static str, $crate::ledger::Origin, &str)>,
                doc: &str,
            ) -> Option<&'static str> {
                $t.variant(key, default, Self::NAMES, doc)
            }

            /// Reads the keys of the kind `chosen`; `None` if a problem was recorded.
            pub fn read_as(chosen: &str, $t: $table $(, $arg: $argty)*) -> Option<Self> {
                match chosen {
                    $( $text => Option::<$ty>::from(<$ty>::read $args).map(Self::$variant), )+
                    _ => None,
                }
            }

            /// Reads the kind and its keys.
            pub fn read(
                $t: &mut $crate::reader::Table<'_, '_>,
                key: &'static str,
                default: Option<(&'static str, $crate::ledger::Origin, &str)>,
                doc: &str
                $(, $arg: $argty)*
            ) -> Option<Self> {
                let chosen = Self::choose($t, key, default, doc)?;
                Self::read_as(chosen, $t $(, $arg)*)
            }
        }
    };
}

/// Declares kinds like [`kinds!`], each in its own file. A line has the name in documents, the file, the variant and
/// the type that the file declares; the common trait is:
///
/// ```ignore
/// registry! {
///     /// The families of topologies
///     pub enum TopologyKind {
///         "torus" => torus::Torus(Torus);
///     }
///     pub fn read(t);
///     impl Family;
/// }
/// ```
#[macro_export]
macro_rules! registry {
    (
        $(#[doc = $about:literal])+
        pub enum $name:ident { $( $text:literal => $file:ident::$variant:ident($ty:ident); )+ }
        $($rest:tt)*
    ) => {
        $( pub mod $file; pub use $file::$ty; )+

        $crate::kinds! {
            $(#[doc = $about])+
            pub enum $name { $( $text => $variant($ty); )+ }
            $($rest)*
        }
    };
}

/// "Host" of "HostSpec": the name of a table in other languages.
pub fn plain_name(rust: &'static str) -> &'static str {
    rust.strip_suffix("Spec").unwrap_or(rust)
}
